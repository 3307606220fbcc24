//! Whether a store is whole: every page's checksum, and every index against the others.

use crate::base;
use crate::error::StoreError;
use crate::store::KIND;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::hash::BuildHasher;
use vicus_disk::{Damage, Recovered, TornTail};
use vicus_files::Directory;
use vicus_flow::BoxError;
use vicus_rdf::{Id, Order, Position, Snapshot, TermKind, TripleView};

/// A whole store, and the parts of it looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The base files, and the bytes of all of them.
    pub files: Vec<(String, u64)>,
    /// The records of the log beyond every base.
    pub records: usize,
    /// The quads, in each order.
    pub quads: usize,
    /// The terms of the base.
    pub terms: usize,
    /// The remains of an unfinished write at the end of the log.
    pub torn: Option<TornTail>,
    /// The first wrong byte of the log between two records, where no record is.
    pub spoiled: Option<Damage>,
    /// The files beside it with unreadable parts of its log.
    pub aside: Vec<String>,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        let Checked { files, records, quads, terms, torn, spoiled, aside } = self;
        let several = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{quads} quads and {terms} terms in {} base file{} of {bytes} bytes, and {records} later commit{}",
            files.len(),
            several(files.len()),
            several(*records),
        )?;
        if let Some(torn) = torn {
            write!(f, "\nnote: {torn}")?;
        }
        if let Some(spoiled) = spoiled {
            write!(f, "\nnote: {spoiled}")?;
        }
        aside.iter().try_for_each(|file| write!(f, "\nnote: {file} has what was cut off the log before"))
    }
}

/// How many rows are compared between two calls of `pause`.
const ROWS_AT_ONCE: u64 = 1 << 16;

/// Checks a store in its present state, beside a process that may be writing to it. `pause` is called now and then with
/// the number of index rows compared so far, and the number of all.
///
/// # Errors
/// The first wrong place.
pub fn check(directory: &dyn Directory, pause: &mut dyn FnMut(u64, u64)) -> Result<Checked, StoreError> {
    let recovered = Recovered::read(directory, KIND)?;
    for file in &recovered.bases {
        file.verify().map_err(vicus_disk::DiskError::from)?;
    }
    let entries = recovered.manifest.files.iter();
    let files = entries.map(|entry| (directory.path(&entry.name), entry.fingerprint.bytes)).collect();
    // The base by itself, then with the log's changes.
    let base = base::open(&recovered.bases, &recovered.manifest)?;
    let terms = base.dictionary().len();
    let records = recovered.records.len();
    let rows = |snapshot: &Snapshot| snapshot.orders().map(|order| snapshot.index(order).len() as u64).sum::<u64>();
    let of_base = rows(&base);
    let (mut done, mut total) = (0, if records == 0 { of_base } else { 2 * of_base });
    let mut count = |snapshot: &Snapshot, total: u64| {
        let mut one = || {
            done += 1;
            if done % ROWS_AT_ONCE == 0 {
                pause(done, total);
            }
        };
        compare(snapshot, &mut one)
    };
    count(&base, total)?;
    let quads = if records == 0 && recovered.broken.is_none() {
        base.len()
    } else {
        let snapshot = crate::store::snapshot_of(directory, &recovered)?;
        total = of_base + rows(&snapshot);
        count(&snapshot, total)?;
        snapshot.len()
    };
    pause(total, total);
    let (torn, spoiled, aside) = (recovered.torn, recovered.spoiled, vicus_disk::kept_aside(directory)?);
    Ok(Checked { files, records, quads, terms, torn, spoiled, aside })
}

/// Compares the parts of a snapshot with each other. `one` is called for each row.
fn compare(snapshot: &Snapshot, one: &mut dyn FnMut()) -> Result<(), StoreError> {
    let wrong = snapshot.read_by(|| wrong(snapshot, one)).map_err(StoreError::given_up)?;
    wrong.map_or(Ok(()), |what| Err(StoreError::Unreadable(BoxError::from(what).into())))
}

/// The fault of a snapshot, if it has one.
fn wrong(snapshot: &Snapshot, one: &mut dyn FnMut()) -> Option<String> {
    let dictionary = snapshot.dictionary();
    for kind in TermKind::IN_DICTIONARY {
        let (mut keys, mut last) = (dictionary.keys(kind), String::new());
        for rank in 0..keys.len() {
            let key = keys.key(rank);
            if rank > 0 && *last >= *key {
                return Some(format!("the terms {last:?} and {key:?} do not ascend"));
            }
            if kind == TermKind::Triple && !TripleView::is_key(key) {
                return Some(format!("{key:?} is no triple term"));
            }
            key.clone_into(&mut last);
        }
    }
    // The sums of the orders' contents, by their expected content: all quads, or those of named graphs.
    let mut sums: [Option<(Order, u64)>; 2] = [None; 2];
    let mut named = 0_u64;
    for order in snapshot.orders() {
        let (mut sum, mut last) = (0_u64, None);
        for quad in snapshot.index(order).quads(0..snapshot.index(order).len()) {
            one();
            let row = order.arrange(quad);
            if last.is_some_and(|last| last >= row) {
                return Some(format!("the index {order:?} does not ascend"));
            }
            let unknown =
                |id: &&Id| id.rank().is_some_and(|rank| !id.is_unranked() && rank >= dictionary.count(id.kind()));
            if let Some(id) = quad.iter().find(unknown) {
                return Some(format!("the index {order:?} has {id:?}, which no term has"));
            }
            last = Some(row);
            let hash = FxBuildHasher.hash_one(quad);
            sum = sum.wrapping_add(hash);
            if order == Order::Gspo && !quad[Position::Graph as usize].is_unbound() {
                named = named.wrapping_add(hash);
            }
        }
        let (first, expected) = *sums[usize::from(!order.is_by_graph())].get_or_insert((order, sum));
        if sum != expected {
            return Some(format!("the indexes {first:?} and {order:?} do not have the same quads"));
        }
    }
    let of_named = sums[1].map_or(0, |(_, sum)| sum);
    (named != of_named)
        .then(|| "the indexes of all graphs and those of named graphs do not have the same quads".to_owned())
}
