//! The machines that share the work of a text.
//!
//! Machine 0 is the one that was asked: rows come together there. All of them have the same data, so each one may read
//! any part of it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use vicus_flow::{BoxId, Model, ModelCrossing, OutputId, Schema, Type};

/// The machines that share the work of a text, and the network between them.
///
/// ```
/// use vicus_language::Machines;
///
/// let machines = Machines::of(&[8, 8, 16], 100_000, 1_000_000_000);
/// assert_eq!((machines.count(), machines.threads(2)), (3, 16));
/// assert_eq!(Machines::default().count(), 1);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Machines {
    count: u16,
    threads: [u16; Machines::MOST],
    /// Nanoseconds from a machine to another one and back.
    pub latency_ns: u64,
    /// Bytes a second from a machine to the others.
    pub bytes_per_second: u64,
    /// Whether work is shared wherever it can be, however much of it there is: for tests.
    pub always: bool,
}

impl Machines {
    /// The greatest number of machines.
    pub const MOST: usize = 64;

    /// Machines with these numbers of threads; the first is the one that is asked. Those beyond [`Machines::MOST`] are
    /// left out.
    pub fn of(threads: &[usize], latency_ns: u64, bytes_per_second: u64) -> Machines {
        let mut all = [1; Machines::MOST];
        let count = threads.len().clamp(1, Machines::MOST);
        for (all, &threads) in all.iter_mut().zip(threads) {
            *all = u16::try_from(threads).unwrap_or(u16::MAX).max(1);
        }
        Machines { count: count as u16, threads: all, latency_ns, bytes_per_second, always: false }
    }

    /// How many there are: 1 without others.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The threads of a machine.
    pub fn threads(&self, machine: usize) -> usize {
        usize::from(self.threads[machine])
    }

    /// The threads of all.
    pub fn all_threads(&self) -> usize {
        (0..self.count()).map(|machine| self.threads(machine)).sum()
    }

    /// Rows of an index, or parts of a table, by their number, as a range for each machine: as many as it has threads.
    pub fn ranges(&self, rows: Range<usize>) -> Vec<Range<usize>> {
        let (all, length) = (self.all_threads() as u128, rows.len() as u128);
        let mut before = 0u128;
        let range = |machine| {
            let from = length * before / all;
            before += self.threads(machine) as u128;
            rows.start + from as usize..rows.start + (length * before / all) as usize
        };
        (0..self.count()).map(range).collect()
    }

    /// Nanoseconds for these bytes over the network.
    pub fn transfer_ns(&self, bytes: f64) -> f64 {
        bytes * 1e9 / self.bytes_per_second.max(1) as f64
    }

    /// Why one machine is to have all of a plan: it takes `here_ns` there, and not less over all of them, whose work
    /// takes `there_ns` and sends so many bytes.
    pub fn outrun(&self, here_ns: f64, there_ns: f64, crossing_bytes: f64) -> Option<Alone> {
        let setup_ns = SETUP_LATENCIES * self.latency_ns as f64 + SETUP_NS;
        let there_ns = there_ns + self.transfer_ns(crossing_bytes) + setup_ns;
        (there_ns >= here_ns && !self.always).then_some(Alone::Slower { here_ns, there_ns })
    }
}

/// A text over machines takes so many times the latency: connections, links and the end of each part.
const SETUP_LATENCIES: f64 = 8.0;

/// And so many nanoseconds for threads and for planning in each process.
const SETUP_NS: f64 = 3e6;

impl Default for Machines {
    /// One machine.
    fn default() -> Machines {
        Machines::of(&[1], 0, 1)
    }
}

impl fmt::Debug for Machines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machines { latency_ns, bytes_per_second, always, .. } = self;
        f.debug_struct("Machines")
            .field("threads", &&self.threads[..self.count()])
            .field("latency_ns", latency_ns)
            .field("bytes_per_second", bytes_per_second)
            .field("always", always)
            .finish()
    }
}

/// Why one machine has all of a plan though there are others.
#[derive(Clone, Debug, PartialEq)]
pub enum Alone {
    /// No operator's work is shared: it has few rows, or needs few.
    Small,
    /// The network would take longer.
    Slower {
        /// Nanoseconds on one machine.
        here_ns: f64,
        /// Nanoseconds over all of them.
        there_ns: f64,
    },
    /// A reason of the language, as a sentence without its full stop.
    Because(Cow<'static, str>),
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alone::Small => f.write_str("no operator needs rows enough"),
            Alone::Slower { here_ns, there_ns } => {
                write!(f, "about {:.1} ms here, and {:.1} ms over the network", here_ns / 1e6, there_ns / 1e6)
            }
            Alone::Because(why) => f.write_str(why),
        }
    }
}

/// The machine of each box of a model, while it is made.
#[derive(Clone, Debug)]
pub struct Places {
    of: Vec<usize>,
    machine: usize,
}

impl Default for Places {
    /// A model without boxes yet; they are added to machine 0.
    fn default() -> Places {
        // The initialization box is everywhere.
        Places { of: vec![0], machine: 0 }
    }
}

impl Places {
    /// The machine to which boxes are added.
    pub fn machine(&self) -> usize {
        self.machine
    }

    /// Has further boxes added to a machine. Gives the one before it.
    pub fn turn_to(&mut self, machine: usize) -> usize {
        std::mem::replace(&mut self.machine, machine)
    }

    /// Notes a box, the next one of the model.
    pub fn note(&mut self, added: BoxId) {
        debug_assert_eq!(self.of.len(), added.index(), "each box has a machine");
        self.of.push(self.machine);
    }

    /// The machine of an output's box.
    pub fn of(&self, output: OutputId) -> usize {
        self.of[output.sender().index()]
    }

    /// The machines with any of these outputs, each once, in order.
    pub fn all_of(&self, outputs: &[OutputId]) -> Vec<usize> {
        let mut machines: Vec<usize> = outputs.iter().map(|output| self.of(*output)).collect();
        machines.sort_unstable();
        machines.dedup();
        machines
    }

    /// Whether another machine than the first one has a box.
    pub fn are_apart(&self) -> bool {
        self.of.iter().any(|&machine| machine > 0)
    }

    /// The machine of each box of the whole model; empty if the first one has them all.
    pub fn finish(mut self) -> Vec<usize> {
        // The termination box is everywhere.
        self.of.push(0);
        if self.are_apart() { self.of } else { Vec::new() }
    }
}

/// About how many bytes cross between machines, by the rows expected of some outputs. Other boxes deal, merge or pass
/// on the rows that they get.
pub fn crossing_bytes(model: &Model, places: &[usize], expected: impl IntoIterator<Item = (OutputId, f64)>) -> f64 {
    let boxes = model.boxes();
    let mut known: Vec<Option<f64>> = vec![None; boxes.len()];
    for (output, rows) in expected {
        known[output.sender().index()] = Some(rows);
    }
    let mut sent = vec![0.0; boxes.len()];
    for (place, one) in boxes.iter().enumerate().skip(1) {
        let taken = || one.senders().map(|sender| sent[sender.index()]).sum::<f64>();
        sent[place] = known[place].unwrap_or_else(|| taken() / one.outputs().count().max(1) as f64);
    }
    let bytes = |crossing: &ModelCrossing| {
        let sender = crossing.output.sender().index();
        let (schema, _) = boxes[sender].outputs().nth(crossing.output.index()).expect("a crossing has an output");
        sent[sender] * row_bytes(schema)
    };
    model.crossings(places).iter().map(bytes).sum()
}

/// About how many bytes a row has.
pub fn row_bytes(schema: &Schema) -> f64 {
    let each = schema.columns().iter().map(|field| if field.kind == Type::Text { TEXT_BYTES } else { 8.0 });
    each.sum::<f64>().max(8.0)
}

/// About how many bytes a text has.
const TEXT_BYTES: f64 = 32.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_all_rows_once_by_the_threads_of_machines() {
        for (threads, rows) in
            [(vec![1, 1, 1], 0..10), (vec![4, 1], 7..1007), (vec![2, 2, 2, 2], 5..6), (vec![9], 3..3)]
        {
            let ranges = Machines::of(&threads, 0, 1).ranges(rows.clone());
            assert_eq!(ranges.len(), threads.len());
            assert!(ranges.iter().cloned().flatten().eq(rows), "{ranges:?}");
        }
        assert_eq!(Machines::of(&[4, 1], 0, 1).ranges(0..1000), [0..800, 800..1000]);
    }
}
