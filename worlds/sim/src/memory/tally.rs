//! The sums of the current piece of work so far.

/// The sums of the current piece of work.
#[derive(Default)]
pub(super) struct Tally {
    /// By position in the PU's path, bytes found there.
    pub(super) hits: Vec<f64>,
    /// By place, bytes from there.
    pub(super) reads: Vec<f64>,
    /// By node, bytes from caches there.
    pub(super) forwarded: Vec<f64>,
    /// By place, bytes to there.
    pub(super) writes: Vec<f64>,
    /// By place, the bytes of a piece stored there several times.
    pub(super) stored: Vec<f64>,
    /// By place, the part of `writes` past the caches. A core waits for these and for its reads; caches write back by
    /// themselves.
    pub(super) streamed: Vec<f64>,
    /// By place, the bytes a core waits for, or as many bytes read as would take as long, of accesses with bytes in
    /// several places, one after the other.
    pub(super) turns: Vec<f64>,
    /// The bytes the core waits for, of all accesses, in any place; and the sum of the squares of each one's bytes.
    pub(super) waited: f64,
    pub(super) squares: f64,
    /// By place, the bytes the core waits for, before the current access.
    pub(super) before: Vec<f64>,
    /// The accesses with misses.
    pub(super) streams: usize,
    /// The stretches with misses.
    pub(super) stretches: usize,
    /// The system's time for pages written to for the first time.
    pub(super) faults_ns: f64,
    /// Bytes fetched from memory by a home cache.
    pub(super) from_memory: f64,
    /// Bytes sent to home caches without waiting.
    pub(super) posted: f64,
    /// By resource, its load.
    pub(super) uses: Vec<Load>,
}

/// A piece of work's load on a resource.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    /// The bytes, or as many bytes read as would take as long.
    pub(super) bytes: f64,
    /// The bytes the core waits for, divided by its bytes under way.
    pub(super) waits: f64,
    /// The bytes sent off without waiting, divided by the core's bytes under way.
    pub(super) posts: f64,
    /// The bytes of accesses that come from one place after the other.
    pub(super) turns: f64,
}

impl Tally {
    /// By place, the bytes the core waits for; a written byte costs `write_cost` times a read one.
    pub(super) fn waits(&self, write_cost: f64) -> impl Iterator<Item = f64> {
        self.reads.iter().zip(&self.streamed).map(move |(read, streamed)| read + write_cost * streamed)
    }

    /// An access begins.
    pub(super) fn remember_waits(&mut self, write_cost: f64) {
        let mut before = std::mem::take(&mut self.before);
        before.iter_mut().zip(self.waits(write_cost)).for_each(|(before, now)| *before = now);
        self.before = before;
    }

    /// An access with misses ends. If it has bytes in several places, they came from one after the other.
    pub(super) fn add_stream(&mut self, write_cost: f64) {
        let mut turns = std::mem::take(&mut self.turns);
        let came = || self.waits(write_cost).zip(&self.before).map(|(now, before)| now - before);
        let (all, places) =
            came().fold((0.0, 0), |(all, places), bytes| (all + bytes, places + usize::from(bytes > 0.0)));
        if places > 1 {
            turns.iter_mut().zip(came()).for_each(|(turns, bytes)| *turns += bytes);
        }
        (self.waited, self.squares, self.turns) = (self.waited + all, self.squares + all * all, turns);
    }

    /// Number of equal streams that would share the core's awaited bytes as these do: a small one beside a large one is
    /// nearly none.
    pub(super) fn equal_streams(&self) -> f64 {
        if self.squares > 0.0 { self.waited * self.waited / self.squares } else { 1.0 }
    }
}

impl Load {
    pub(super) fn add(&mut self, bytes: f64, waits: f64, posts: f64) {
        self.bytes += bytes;
        self.waits += waits;
        self.posts += posts;
    }
}
