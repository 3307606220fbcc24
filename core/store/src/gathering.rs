//! For how many transactions a flight waits before it takes off.
//!
//! Writers with one transaction after the other come back soon after a flight has landed, but one of them is the first.
//! Taking off at once, it would fly alone, and all others would wait for two syncs instead of one. So the next flight
//! waits for the number of writers present in the time of the last one, though no longer than two syncs take: this
//! spares the others one sync. A lone writer never waits. When fewer come than were awaited, this number of writers
//! does not come back at once, and some of the next flights don't wait: twice as many each time.
//!
//! Writers whose transactions wait for followers come back when these have confirmed them: the flight behind that waits
//! for them.
//!
//! This policy only knows the numbers of writers from one flight to the next; a caller gives the time.

/// The longest wait of a flight for others, in nanoseconds: a sync may take longer, but coming back does not.
const LONGEST: u64 = 1_000_000;

/// After this number of waits in vain in a row, the number of flights without a wait is not doubled any more.
const MOST_MISSES: u32 = 6;

#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// How many are to be there before the next flight takes off; 0 or 1 if it waits for none.
    awaited: usize,
    /// Until then.
    until_ns: u64,
    /// About how long a sync takes.
    sync_ns: u64,
    /// How many flights in a row had to take off without their awaited writers.
    misses: u32,
    /// How many of the next flights don't wait.
    skipped: u32,
}

impl Gathering {
    /// A flight has landed: `writers` transactions flew with it or are there for the next one.
    pub(crate) fn landed(&mut self, writers: usize, began_ns: u64, now_ns: u64) {
        let took = now_ns.saturating_sub(began_ns);
        self.sync_ns = if self.sync_ns == 0 { took } else { self.sync_ns - self.sync_ns / 8 + took / 8 };
        self.come_back(writers, now_ns);
    }

    /// These writers come back soon, with those that are there.
    pub(crate) fn come_back(&mut self, writers: usize, now_ns: u64) {
        self.until_ns = now_ns + (2 * self.sync_ns).min(LONGEST);
        self.awaited = writers;
        if self.skipped > 0 && writers > 1 {
            (self.skipped, self.awaited) = (self.skipped - 1, 0);
        }
    }

    /// So many of the writers that have landed come back later.
    pub(crate) fn stay_away(&mut self, writers: usize) {
        self.awaited = self.awaited.saturating_sub(writers);
    }

    /// For how many nanoseconds the next flight still waits, with `here` writers there.
    pub(crate) fn patience(&self, here: usize, now_ns: impl FnOnce() -> u64) -> u64 {
        if here >= self.awaited { 0 } else { self.until_ns.saturating_sub(now_ns()) }
    }

    /// Whether the next flight waits for at most this number of writers.
    pub(crate) fn are_enough(&self, here: usize) -> bool {
        here >= self.awaited
    }

    /// A flight takes off with this number of writers.
    pub(crate) fn took_off(&mut self, here: usize) {
        if here < self.awaited {
            self.misses = (self.misses + 1).min(MOST_MISSES);
            self.skipped = (1 << self.misses) - 1;
        } else if self.awaited > 1 {
            self.misses = 0;
        }
        self.awaited = 0;
    }

    /// The next flight waits for no others.
    pub(crate) fn hurry(&mut self) {
        self.awaited = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: u64 = 100_000;

    /// Flights of a sync each, with the numbers of writers coming back between them; gives each one's wait before it
    /// takes off.
    fn waits(gathering: &mut Gathering, flights: &[(usize, usize)]) -> Vec<u64> {
        let mut now = 0;
        let mut wait = |&(were, come): &(usize, usize)| {
            gathering.landed(were, now, now + SYNC);
            now += SYNC;
            let wait = gathering.patience(come, || now);
            now += wait;
            gathering.took_off(come);
            wait
        };
        flights.iter().map(&mut wait).collect()
    }

    #[test]
    fn a_writer_that_is_alone_never_waits() {
        assert_eq!(waits(&mut Gathering::default(), &[(1, 1); 10]), [0; 10]);
    }

    #[test]
    fn the_first_of_many_waits_for_the_others_and_no_longer_than_two_syncs() {
        let mut gathering = Gathering::default();
        gathering.landed(16, 0, SYNC);
        for here in 1..16 {
            assert_eq!(gathering.patience(here, || SYNC), 2 * SYNC);
            assert_eq!(gathering.patience(here, || SYNC + SYNC / 4), SYNC * 7 / 4);
        }
        assert_eq!(gathering.patience(16, || unreachable!("no clock is needed when all are there")), 0);
        assert_eq!(gathering.patience(1, || 3 * SYNC), 0);
        gathering.landed(16, 0, 1 << 40);
        assert_eq!(gathering.patience(1, || 1 << 40), LONGEST);
    }

    #[test]
    fn flights_that_waited_in_vain_are_followed_by_more_and_more_that_do_not_wait() {
        let mut gathering = Gathering::default();
        let waited = waits(&mut gathering, &[(5, 1); 400]);
        let flights: Vec<usize> = (0..400).filter(|&flight| waited[flight] > 0).collect();
        assert_eq!(flights, [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]);
        // A flight that finds all of them there is enough to trust them again.
        let waited = waits(&mut gathering, &[(5, 5); 100]);
        assert_eq!(waited, [0; 100]);
        assert_eq!(waits(&mut gathering, &[(5, 1); 3]), [2 * SYNC, 0, 2 * SYNC]);
    }

    #[test]
    fn writers_that_wait_for_followers_are_awaited_when_they_are_confirmed() {
        let mut gathering = Gathering::default();
        gathering.landed(16, 0, SYNC);
        gathering.stay_away(16);
        assert_eq!(gathering.patience(1, || unreachable!("others come later")), 0);
        gathering.took_off(1);
        gathering.come_back(16, 9 * SYNC);
        assert_eq!(gathering.patience(1, || 9 * SYNC), 2 * SYNC);
        assert_eq!(gathering.patience(16, || unreachable!("all are there")), 0);
        gathering.took_off(16);
        // A transaction that was staged meanwhile stays awaited.
        gathering.landed(17, 10 * SYNC, 11 * SYNC);
        gathering.stay_away(16);
        assert_eq!(gathering.patience(1, || unreachable!("it is there")), 0);
    }

    #[test]
    fn a_caller_in_a_hurry_is_not_kept() {
        let mut gathering = Gathering::default();
        gathering.landed(16, 0, SYNC);
        gathering.hurry();
        assert_eq!(gathering.patience(1, || SYNC), 0);
    }
}
