//! The work of each box of a request: its invocations, its rows, its bytes from near and from far.
//!
//! A box runs on one seat at a time, so each of its counters has one writer: an addition is a load and a store, and no
//! other seat waits for it. Any thread may read them at any time; they are exact when the request is over.

use crate::Envelope;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use vicus_topology::NodeId;

/// The envelopes taken by a box from one of its inputs. Pills are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Envelopes.
    pub envelopes: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their columns ([`Envelope::bytes`]) sent from the node they were taken on. A column shared by several
    /// receivers counts for each of them.
    pub near_bytes: u64,
    /// Bytes of their columns sent from another node.
    pub far_bytes: u64,
}

/// The envelopes sent by a box on one of its outputs, counted once for all receivers. Pills are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputCounts {
    /// Envelopes.
    pub envelopes: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes that were allowed to wait here beyond its receivers' bounds, because boxes waited for each other.
    pub overdraft: u64,
    /// Envelopes that vias dropped because they keep the newest ([`LinkOptions::keep_newest`](crate::LinkOptions)),
    /// counted for each receiver.
    pub dropped_envelopes: u64,
    /// Rows in them.
    pub dropped_rows: u64,
    /// The pill was sent, so the stream is complete. If `false` when the request is over, the box was stopped early:
    /// its readers had enough, or the request failed.
    pub ended: bool,
}

/// The work of a box, by its inputs and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoxCounts {
    /// Invocations of its user code.
    pub acts: u64,
    /// Bytes it read on their own node, outside of envelopes ([`crate::Turn::count_read`]).
    pub read_near_bytes: u64,
    /// Bytes it read from another node.
    pub read_far_bytes: u64,
    /// Bytes it wrote to temporary files ([`crate::Turn::count_spilled`]).
    pub spilled_bytes: u64,
    /// Nanoseconds in its user code, if the request is [timed](crate::Instance::set_timed).
    pub busy_ns: u64,
    /// By input.
    pub inputs: Vec<InputCounts>,
    /// By output.
    pub outputs: Vec<OutputCounts>,
}

impl BoxCounts {
    /// Adds another box's counts. A stream counts as complete if all are.
    pub(crate) fn add(&mut self, other: &BoxCounts) {
        self.acts += other.acts;
        self.read_near_bytes += other.read_near_bytes;
        self.read_far_bytes += other.read_far_bytes;
        self.spilled_bytes += other.spilled_bytes;
        self.busy_ns += other.busy_ns;
        self.inputs.resize(self.inputs.len().max(other.inputs.len()), InputCounts::default());
        for (sum, more) in self.inputs.iter_mut().zip(&other.inputs) {
            sum.envelopes += more.envelopes;
            sum.rows += more.rows;
            sum.near_bytes += more.near_bytes;
            sum.far_bytes += more.far_bytes;
        }
        self.outputs
            .resize(self.outputs.len().max(other.outputs.len()), OutputCounts { ended: true, ..Default::default() });
        for (sum, more) in self.outputs.iter_mut().zip(&other.outputs) {
            sum.envelopes += more.envelopes;
            sum.rows += more.rows;
            sum.overdraft += more.overdraft;
            sum.ended &= more.ended;
        }
    }

    /// Rows it took from all its inputs.
    pub fn rows_taken(&self) -> u64 {
        self.inputs.iter().map(|input| input.rows).sum()
    }

    /// Rows it sent on all its outputs.
    pub fn rows_sent(&self) -> u64 {
        self.outputs.iter().map(|output| output.rows).sum()
    }

    /// Rows that vias behind its outputs dropped.
    pub fn rows_dropped(&self) -> u64 {
        self.outputs.iter().map(|output| output.dropped_rows).sum()
    }

    /// Bytes it took on the sender's node ([`InputCounts::near_bytes`]), or read on their own node.
    pub fn near_bytes(&self) -> u64 {
        self.read_near_bytes + self.inputs.iter().map(|input| input.near_bytes).sum::<u64>()
    }

    /// Bytes it took or read at another node.
    pub fn far_bytes(&self) -> u64 {
        self.read_far_bytes + self.inputs.iter().map(|input| input.far_bytes).sum::<u64>()
    }
}

/// A live box's counters. Only its runner writes them.
#[derive(Debug)]
pub(crate) struct Tally {
    acts: Counter,
    read_near: Counter,
    read_far: Counter,
    spilled: Counter,
    busy_ns: Counter,
    inputs: Box<[InputTally]>,
    outputs: Box<[OutputTally]>,
}

#[derive(Debug, Default)]
struct InputTally {
    envelopes: Counter,
    rows: Counter,
    near_bytes: Counter,
    far_bytes: Counter,
}

#[derive(Debug, Default)]
struct OutputTally {
    envelopes: Counter,
    rows: Counter,
    overdraft: Counter,
    dropped_envelopes: Counter,
    dropped_rows: Counter,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.get() + more, Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(crate) fn new(inputs: usize, outputs: usize) -> Tally {
        Tally {
            acts: Counter::default(),
            read_near: Counter::default(),
            read_far: Counter::default(),
            spilled: Counter::default(),
            busy_ns: Counter::default(),
            inputs: (0..inputs).map(|_| InputTally::default()).collect(),
            outputs: (0..outputs).map(|_| OutputTally::default()).collect(),
        }
    }

    #[inline]
    pub(crate) fn acted(&self) {
        self.acts.add(1);
    }

    #[inline]
    pub(crate) fn read_at(&self, is_near: bool, bytes: u64) {
        if is_near { &self.read_near } else { &self.read_far }.add(bytes);
    }

    #[inline]
    pub(crate) fn busy(&self, ns: u64) {
        self.busy_ns.add(ns);
    }

    #[inline]
    pub(crate) fn spilled(&self, bytes: u64) {
        self.spilled.add(bytes);
    }

    /// An envelope of `bytes` bytes was taken on a node.
    #[inline]
    pub(crate) fn took(&self, input: usize, envelope: &Envelope, bytes: u64, at: NodeId) {
        let input = &self.inputs[input];
        if !envelope.is_pill() {
            input.envelopes.add(1);
            input.rows.add(envelope.rows() as u64);
            if envelope.node() == at { &input.near_bytes } else { &input.far_bytes }.add(bytes);
        }
    }

    #[inline]
    pub(crate) fn sent(&self, output: usize, envelope: &Envelope) {
        let output = &self.outputs[output];
        if envelope.is_pill() {
            output.ended.store(true, Ordering::Relaxed);
        } else {
            output.envelopes.add(1);
            output.rows.add(envelope.rows() as u64);
        }
    }

    /// So many more bytes may wait at an output.
    pub(crate) fn overdrawn(&self, output: usize, more: u64) {
        self.outputs[output].overdraft.add(more);
    }

    /// A via dropped an envelope for a newer one.
    pub(crate) fn dropped(&self, output: usize, envelope: &Envelope) {
        self.outputs[output].dropped_envelopes.add(1);
        self.outputs[output].dropped_rows.add(envelope.rows() as u64);
    }

    /// Bytes taken and read so far: near, far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let add = |(near, far), input: &InputTally| (near + input.near_bytes.get(), far + input.far_bytes.get());
        self.inputs.iter().fold((self.read_near.get(), self.read_far.get()), add)
    }

    pub(crate) fn read(&self) -> BoxCounts {
        let input = |tally: &InputTally| InputCounts {
            envelopes: tally.envelopes.get(),
            rows: tally.rows.get(),
            near_bytes: tally.near_bytes.get(),
            far_bytes: tally.far_bytes.get(),
        };
        let output = |tally: &OutputTally| OutputCounts {
            envelopes: tally.envelopes.get(),
            rows: tally.rows.get(),
            overdraft: tally.overdraft.get(),
            dropped_envelopes: tally.dropped_envelopes.get(),
            dropped_rows: tally.dropped_rows.get(),
            ended: tally.ended.load(Ordering::Relaxed),
        };
        BoxCounts {
            acts: self.acts.get(),
            read_near_bytes: self.read_near.get(),
            read_far_bytes: self.read_far.get(),
            spilled_bytes: self.spilled.get(),
            busy_ns: self.busy_ns.get(),
            inputs: self.inputs.iter().map(input).collect(),
            outputs: self.outputs.iter().map(output).collect(),
        }
    }
}
