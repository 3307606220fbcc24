//! The memory of a recorded run: an array for each envelope of each copy, in blocks as in threads' heaps; one for the
//! state of each box of each copy; and one for the store.

use crate::ArraySpec;
use crate::recorded::{Envelope, Recorded};
use std::collections::BTreeMap;
use std::ops::Range;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Series, Sizes};
use vicus_schedule::{Access, Mode};
use vicus_trace::JobId;

/// Up to this number of bytes, blocks are of small size classes, as in worlds/machine.
const SMALL: usize = 8 << 10;

/// Arrays begin at multiples of a page.
const PAGE: usize = 4096;

/// Where a part of a box's state lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateIn {
    /// In the box's own memory.
    Own,
    /// In an envelope that the box has taken.
    Envelope(usize),
}

/// A part of a box's state, and how it is accessed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatePart {
    pub(crate) within: StateIn,
    pub(crate) range: Range<u64>,
    pub(crate) mode: Mode,
}

pub(crate) struct Layout {
    pub(crate) arrays: Vec<ArraySpec>,
    /// The first array that is an envelope. All later ones are envelopes as well.
    pub(crate) heap: usize,
    /// By copy and envelope, its start; 0 for envelopes without bytes.
    starts: Vec<usize>,
    /// By envelope, its bytes.
    sizes: Vec<usize>,
    store: usize,
    store_bytes: usize,
    /// By copy and box, the start of the box's own memory.
    states: BTreeMap<(usize, JobId), usize>,
}

impl Layout {
    pub(crate) fn new(recorded: &Recorded<'_>, copies: usize, store: &Distribution) -> Layout {
        let is_kept = |task: usize| recorded.tasks[task].from_ns.is_some();
        let size = |envelope: &Envelope| if is_kept(envelope.by) { envelope.bytes as usize } else { 0 };
        let sizes: Vec<usize> = recorded.envelopes.iter().map(size).collect();
        let store_bytes = recorded.tasks.iter().map(|task| task.reads).sum::<u64>() as usize;
        let mut layout = Layout {
            arrays: Vec::new(),
            heap: 0,
            starts: Vec::new(),
            sizes,
            store: 0,
            store_bytes,
            states: BTreeMap::new(),
        };
        let mut free = PAGE;
        let mut array = |bytes: usize, distribution: Distribution, arrays: &mut Vec<ArraySpec>| {
            let base = free;
            free += bytes.next_multiple_of(PAGE) + PAGE;
            arrays.push(ArraySpec { base, bytes, distribution });
            base
        };
        if store_bytes > 0 {
            layout.store = array(store_bytes, store.clone(), &mut layout.arrays);
        }
        let states = recorded.states();
        for copy in 0..copies {
            for (&who, &bytes) in &states {
                let start = array(bytes as usize, Distribution::Standard, &mut layout.arrays);
                layout.states.insert((copy, who), start);
            }
        }
        layout.heap = layout.arrays.len();
        let classes = Sizes::new(Series::default(), SMALL).expect("the series of threads' heaps is a good one");
        // A block larger than all classes is mapped by itself.
        let block = |bytes: usize| classes.class_of(bytes).map_or(bytes, |class| classes.bytes(class));
        for _ in 0..copies {
            for &bytes in &layout.sizes {
                let start = if bytes > 0 { array(block(bytes), Distribution::Standard, &mut layout.arrays) } else { 0 };
                layout.starts.push(start);
            }
        }
        layout
    }

    /// By array of a heap, the value of its envelope; the same for all copies.
    pub(crate) fn of_envelopes(&self, said: &[u32]) -> Vec<u32> {
        let copies = self.starts.len() / self.sizes.len().max(1);
        let each = || self.sizes.iter().zip(said).filter(|(bytes, _)| **bytes > 0).map(|(_, said)| *said);
        (0..copies).flat_map(|_| each()).collect()
    }

    /// An access to an envelope of a copy; `None` if it has no bytes.
    pub(crate) fn envelope(&self, copy: usize, envelope: usize, mode: Mode) -> Option<Access> {
        let bytes = self.sizes[envelope];
        (bytes > 0).then(|| Access::new(self.starts[copy * self.sizes.len() + envelope], bytes, mode))
    }

    /// An access to a part of the state of a copy's box; `None` if it has no bytes.
    pub(crate) fn kept(&self, copy: usize, who: JobId, part: &StatePart) -> Option<Access> {
        match part.within {
            StateIn::Own => self.state(copy, who, part.range.clone(), part.mode),
            StateIn::Envelope(envelope) => self.part(copy, envelope, part.range.clone()),
        }
    }

    /// An access to a part of a copy's envelope. If the part is empty, the access only keeps the envelope's block from
    /// being used again earlier.
    fn part(&self, copy: usize, envelope: usize, part: Range<u64>) -> Option<Access> {
        let whole = self.envelope(copy, envelope, Mode::Read)?;
        Some(Access::new(whole.start + part.start as usize, (part.end - part.start) as usize, Mode::Read))
    }

    /// An access to a part of the own memory of a copy's box; `None` if the part is empty.
    fn state(&self, copy: usize, who: JobId, part: Range<u64>, mode: Mode) -> Option<Access> {
        let start = self.states.get(&(copy, who)).filter(|_| !part.is_empty())?;
        Some(Access::new(start + part.start as usize, (part.end - part.start) as usize, mode))
    }

    /// Accesses to this number of bytes of the store from an offset on; it is read round and round.
    pub(crate) fn store(&self, from: u64, bytes: u64) -> impl Iterator<Item = Access> + use<> {
        let (store, all) = (self.store, self.store_bytes);
        let (mut from, mut left) = (from as usize % all.max(1), bytes as usize);
        std::iter::from_fn(move || {
            let bytes = left.min(all - from);
            let access = (bytes > 0).then(|| Access::new(store + from, bytes, Mode::Read));
            (from, left) = ((from + bytes) % all.max(1), left - bytes);
            access
        })
    }
}
