//! What the current piece of work has asked for so far.

/// The sums of the current piece of work.
#[derive(Default)]
pub(super) struct Tally {
    /// By position in the PU's path, bytes found there.
    pub(super) hits: Vec<f64>,
    /// By place, bytes that came from there.
    pub(super) reads: Vec<f64>,
    /// By node, bytes that came from caches there.
    pub(super) forwarded: Vec<f64>,
    /// By place, bytes that went there.
    pub(super) writes: Vec<f64>,
    /// By place, the bytes of a piece that are stored there several times.
    pub(super) stored: Vec<f64>,
    /// By place, the part of `writes` that went past the caches. A core waits for these and for what it reads; caches write
    /// back by themselves.
    pub(super) streamed: Vec<f64>,
    /// By place, the bytes for which the core waits, of accesses that have bytes in several places, one after the other.
    pub(super) turns: Vec<f64>,
    /// By place, `reads` and `streamed` before the current access.
    pub(super) before: Vec<f64>,
    /// The accesses that have missed.
    pub(super) streams: usize,
    /// The stretches that have missed.
    pub(super) stretches: usize,
    /// Bytes that a home cache fetched from memory.
    pub(super) from_memory: f64,
    /// Bytes that were sent to home caches without waiting.
    pub(super) posted: f64,
    /// By resource, what uses it.
    pub(super) uses: Vec<Load>,
}

/// What a piece of work sends over a resource.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    /// The bytes, or as many bytes read as would take as long.
    pub(super) bytes: f64,
    /// The bytes for which the core waits, divided by those that it has under way.
    pub(super) waits: f64,
    /// The same for bytes that it sends off without waiting.
    pub(super) posts: f64,
    /// The bytes of accesses that come from one place after the other.
    pub(super) turns: f64,
}

impl Tally {
    /// By place, the bytes for which the core waits.
    fn waited(&self) -> impl Iterator<Item = f64> {
        self.reads.iter().zip(&self.streamed).map(|(read, streamed)| read + streamed)
    }

    /// An access begins.
    pub(super) fn remember_waits(&mut self) {
        let mut before = std::mem::take(&mut self.before);
        before.iter_mut().zip(self.waited()).for_each(|(before, now)| *before = now);
        self.before = before;
    }

    /// An access ends. If it has bytes in several places, they came from one after the other.
    pub(super) fn add_turns(&mut self) {
        let mut turns = std::mem::take(&mut self.turns);
        let came = || self.waited().zip(&self.before).map(|(now, before)| now - before);
        if came().filter(|&bytes| bytes > 0.0).nth(1).is_some() {
            turns.iter_mut().zip(came()).for_each(|(turns, bytes)| *turns += bytes);
        }
        self.turns = turns;
    }
}

impl Load {
    pub(super) fn add(&mut self, bytes: f64, waits: f64, posts: f64) {
        self.bytes += bytes;
        self.waits += waits;
        self.posts += posts;
    }
}
