//! Whether two processes hold the same data, told by a number.

use crate::ids::{Id, Kind};
use crate::index::Order;
use crate::snapshot::Snapshot;
use std::hash::{BuildHasher, Hasher};
use vicus_flow::library::HashKey;

/// How many terms of each kind, and how many rows, are looked at.
const SAMPLES: usize = 256;

/// Numbers below `count`, evenly spread, the first and the last among them.
fn samples(count: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(SAMPLES);
    (0..taken).map(move |number| if number + 1 == taken { count - 1 } else { number * count / taken })
}

impl Snapshot {
    /// A number made of how many terms and quads there are, and of some hundred of each: other data has another one,
    /// but for changes that keep all counts and miss the samples. Data with the same number, of one store and with the
    /// same last record, has the same terms by the same ids. Takes less than a millisecond.
    ///
    /// ```
    /// use vicus_rdf::Snapshot;
    ///
    /// let [one, same, other] = ["a", "a", "b"].map(|name| {
    ///     Snapshot::of_ntriples(format!("<http://e/{name}> <http://e/p> \"x\" .").as_bytes()).unwrap()
    /// });
    /// assert_eq!(one.fingerprint(), same.fingerprint());
    /// assert_ne!(one.fingerprint(), other.fingerprint());
    /// ```
    pub fn fingerprint(&self) -> u64 {
        let mut hash = HashKey::of_seed(0).build_hasher();
        for kind in Kind::IN_DICTIONARY {
            let count = self.dictionary().count(kind);
            hash.write_usize(count);
            for rank in samples(count) {
                self.key(Id::ranked(kind, rank), |key| hash.write(key.as_bytes()));
            }
        }
        let fresh = self.fresh().len();
        hash.write_usize(fresh);
        let mut wanted = samples(fresh).peekable();
        for (number, id) in self.fresh().ids().enumerate() {
            if wanted.next_if_eq(&number).is_some() {
                hash.write_u64(id.bits());
                hash.write(self.fresh().key(id).as_bytes());
            }
        }
        for order in [Order::Gspo, Order::Gpos] {
            let index = self.index(order);
            hash.write_usize(index.len());
            for row in samples(index.len()) {
                (0..4).for_each(|level| hash.write_u64(index.get(level, row).bits()));
            }
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_from_the_first_to_the_last() {
        for count in [0, 1, 2, 255, 256, 257, 100_000] {
            let all: Vec<usize> = samples(count).collect();
            assert!(all.is_sorted() && all.len() == count.min(SAMPLES), "{count}");
            assert!(count == 0 || all.first() == Some(&0) && all.last() == Some(&(count - 1)), "{count}");
        }
    }
}
