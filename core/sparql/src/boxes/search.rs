//! Repeated searches for ids in an ascending column.
//!
//! Demaine, López-Ortiz, Munro, "Adaptive set intersections", SODA 2000, for galloping from the last place; Peterson,
//! "Addressing for random-access storage", IBM Journal 1957, for guessing the place from the value. Ranks are dense, so
//! a guess is nearly always close; where it isn't, galloping repairs it.

use std::ops::Range;
use vicus_rdf::Id;
use vicus_rdf::index::gallop;

/// Searches one ascending column.
#[derive(Clone, Debug)]
pub(crate) struct Searcher {
    /// The place where the last search ended.
    place: usize,
    first: u64,
    /// Average number of places per id, over the whole column.
    density: f64,
}

/// Beyond this distance a guess beats galloping.
const NEAR: f64 = 64.0;

impl Searcher {
    pub(crate) fn new(column: &[Id]) -> Searcher {
        let (first, last) = match column {
            [first, .., last] => (first.bits(), last.bits()),
            _ => (0, 0),
        };
        let density = if last > first { (column.len() - 1) as f64 / (last - first) as f64 } else { 0.0 };
        Searcher { place: 0, first, density }
    }

    /// The range of places that hold `id`; empty, at the place where it would be, if there are none.
    #[inline]
    pub(crate) fn find(&mut self, column: &[Id], id: Id) -> Range<usize> {
        let start = self.lower_bound(column, id);
        self.place = start;
        let mut end = start;
        // Usually there are few equal ids.
        while end < column.len() && column[end] == id {
            end += 1;
            if end - start == 8 {
                end += gallop(&column[end..], 0, |&other| other == id);
                break;
            }
        }
        start..end
    }

    #[inline]
    fn lower_bound(&self, column: &[Id], id: Id) -> usize {
        let Some(here) = column.get(self.place) else { return self.guess(column, id) };
        if *here < id {
            // The next few places first: probes often ascend.
            let next = &column[self.place + 1..column.len().min(self.place + 4)];
            for (step, other) in next.iter().enumerate() {
                if *other >= id {
                    return self.place + 1 + step;
                }
            }
            if (id.bits() - here.bits()) as f64 * self.density <= NEAR {
                return gallop(column, self.place, |&other| other < id);
            }
        } else if *here == id && (self.place == 0 || column[self.place - 1] < id) {
            return self.place;
        }
        self.guess(column, id)
    }

    #[inline]
    fn guess(&self, column: &[Id], id: Id) -> usize {
        let guess = (id.bits().saturating_sub(self.first)) as f64 * self.density;
        gallop(column, guess as usize, |&other| other < id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_found_from_everywhere() {
        let ids: Vec<Id> = [3, 3, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 10, 500, 501, 100_000]
            .into_iter()
            .map(|value| Id::integer(value).unwrap())
            .collect();
        for start in 0..ids.len() + 1 {
            for value in [0, 3, 4, 5, 9, 10, 11, 499, 500, 501, 502, 99_999, 100_000, 100_001] {
                let id = Id::integer(value).unwrap();
                let mut searcher = Searcher::new(&ids);
                searcher.place = start;
                let expected = ids.partition_point(|&other| other < id)..ids.partition_point(|&other| other <= id);
                assert_eq!(searcher.find(&ids, id), expected, "{value} from {start}");
            }
        }
        assert_eq!(Searcher::new(&[]).find(&[], ids[0]), 0..0);
    }
}
