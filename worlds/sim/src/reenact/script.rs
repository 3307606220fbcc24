//! A box's recorded acts, as a function of its position in its inputs.
//!
//! A box's position counts its takes from all its inputs: each row is 1, and each envelope is 1, also a pill. A
//! recorded act ends at a position; up to there it had sent its envelopes and worked for some time. A re-enacted box
//! takes everything there, perhaps less or more than in the recorded act. Its work is charged in proportion to the way
//! between two positions; when the act's position is reached, its envelopes are sent, and the box's state is read and
//! written. So a box that sends at its input's end sends there again, and the sums of work and envelopes are the
//! recorded ones, however the invocations are divided.
//!
//! An act without takes was requested by the box. It becomes an invocation of its own again.

use crate::layout::StatePart;
use crate::recorded::SentEnvelope;

/// A box's acts in one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) acts: Vec<Act>,
    /// The cost of invocations without user code, if the box had no others.
    pub(crate) idle: Cost,
    /// By input, its takes there.
    pub(crate) inputs: Vec<Via>,
    /// The order of its takes from its inputs, if it chooses; other boxes take everything there.
    pub(crate) order: Option<Vec<u16>>,
    /// By output, its sent envelopes, as indices.
    pub(crate) outputs: Vec<Vec<usize>>,
    pub(crate) leaf: usize,
}

/// One recorded invocation of user code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Act {
    /// The box's position at the end.
    pub(crate) at: u64,
    pub(crate) cost: Cost,
    /// The start and length of its reads from the store.
    pub(crate) store: (u64, u64),
    /// Its accesses to its box's state.
    pub(crate) state: Vec<StatePart>,
    /// The bytes its box keeps afterwards, in memory of its own and in envelopes.
    pub(crate) keeps: u64,
    pub(crate) makes: Vec<SentEnvelope>,
}

/// Time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// The recorded time.
    pub(crate) recorded: f64,
    /// The part of it for memory on the recording machine.
    pub(crate) memory: f64,
}

impl Cost {
    pub(crate) fn add(&mut self, other: Cost, share: f64) {
        self.recorded += other.recorded * share;
        self.memory += other.memory * share;
    }
}

/// An input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Via {
    /// The sending box, and its output.
    pub(crate) from: (usize, usize),
    /// How many envelopes the box took; further ones are dropped.
    pub(crate) takes: usize,
    /// Its kept ones, by their numbers among these, in order.
    pub(crate) kept: Vec<usize>,
}

/// The progress of a box in its script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    at: u64,
    /// Its current act.
    act: usize,
    /// The position up to which the act's work is charged.
    paid: u64,
    idle_paid: bool,
    /// Its place in the order of its takes.
    pub(crate) turns: usize,
    /// By input, how many envelopes it has taken.
    pub(crate) taken: Vec<usize>,
    /// By output, how many envelopes it has sent.
    pub(crate) sent: Vec<usize>,
}

/// The effects of one invocation of a re-enacted box.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) cost: Cost,
    /// The envelopes taken and not kept, and the units of all taken ones.
    pub(crate) takes: Vec<usize>,
    pub(crate) units: u64,
    pub(crate) makes: Vec<SentEnvelope>,
    /// Its reads from the store.
    pub(crate) store: Vec<(u64, u64)>,
    /// Its accesses to its state.
    pub(crate) state: Vec<StatePart>,
    /// The bytes it keeps, if it reports them.
    pub(crate) keeps: Option<u64>,
    /// Whether it has more to do without taking anything.
    pub(crate) again: bool,
}

impl Script {
    pub(crate) fn progress(&self) -> Progress {
        let (taken, sent) = (vec![0; self.inputs.len()], vec![0; self.outputs.len()]);
        Progress { taken, sent, ..Progress::default() }
    }

    /// Whether an act took nothing.
    fn is_free(&self, act: usize) -> bool {
        let from = act.checked_sub(1).map_or(0, |before| self.acts[before].at);
        self.acts.get(act).is_some_and(|act| act.at == from)
    }
}

impl Act {
    /// The bytes of the store read by a share of it.
    fn read_by(&self, share: f64) -> u64 {
        (self.store.1 as f64 * share).round() as u64
    }
}

impl Progress {
    /// Moves the box by the units taken according to `done`, and adds the effects to `done`.
    pub(crate) fn go_on(&mut self, script: &Script, done: &mut Done) {
        self.at += done.units;
        let mut moved = done.units > 0;
        while let Some(act) = script.acts.get(self.act) {
            if script.is_free(self.act) && std::mem::replace(&mut moved, true) {
                break;
            }
            let upto = self.at.min(act.at);
            let from = self.act.checked_sub(1).map_or(0, |before| script.acts[before].at);
            let way = (act.at - from) as f64;
            let before = self.paid_share(script);
            let share = if way > 0.0 { (upto - from) as f64 / way } else { 1.0 };
            done.cost.add(act.cost, share - before);
            let (read, reads) = (act.read_by(before), act.read_by(share));
            if reads > read {
                done.store.push((act.store.0 + read, reads - read));
            }
            self.paid = upto;
            if upto < act.at {
                break;
            }
            done.makes.extend_from_slice(&act.makes);
            done.state.extend_from_slice(&act.state);
            done.keeps = Some(act.keeps);
            self.act += 1;
        }
        done.again = script.is_free(self.act);
    }

    /// The charged share of the current act.
    fn paid_share(&self, script: &Script) -> f64 {
        let from = self.act.checked_sub(1).map_or(0, |before| script.acts[before].at);
        let way = script.acts.get(self.act).map_or(0, |act| act.at - from);
        if way > 0 { (self.paid - from) as f64 / way as f64 } else { 0.0 }
    }

    /// The rest of the current act's reads from the store; `None` if there is none.
    pub(crate) fn reads_next(&self, script: &Script) -> Option<(u64, u64)> {
        let act = script.acts.get(self.act)?;
        let read = act.read_by(self.paid_share(script));
        (act.store.1 > read).then(|| (act.store.0 + read, act.store.1 - read))
    }

    /// The cost of an invocation without user code.
    pub(crate) fn idle(&mut self, script: &Script) -> Cost {
        if script.acts.is_empty() && !std::mem::replace(&mut self.idle_paid, true) {
            script.idle
        } else {
            Cost::default()
        }
    }

    /// Whether all recorded acts are done.
    pub(crate) fn is_over(&self, script: &Script) -> bool {
        self.act == script.acts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(at: u64, ns: f64, store: (u64, u64), sends: usize) -> Act {
        let made = |envelope| SentEnvelope { output: 0, envelope };
        Act {
            at,
            cost: Cost { recorded: ns, memory: 0.0 },
            store,
            makes: (0..sends).map(made).collect(),
            ..Act::default()
        }
    }

    /// Takes this number of units. Returns their cost, the number of envelopes sent, and whether the box goes on by
    /// itself.
    fn take(progress: &mut Progress, script: &Script, units: u64) -> (f64, usize, bool) {
        let mut done = Done { units, ..Done::default() };
        progress.go_on(script, &mut done);
        (done.cost.recorded, done.makes.len(), done.again)
    }

    /// A sort: 100 rows in two acts; then the pill, and after it two sends, the second one in an act of its own.
    fn sort() -> Script {
        let acts = vec![
            act(40, 400.0, (0, 0), 0),
            act(101, 600.0, (0, 0), 0),
            act(102, 50.0, (0, 0), 1),
            act(102, 70.0, (0, 0), 1),
        ];
        Script { acts, ..Script::default() }
    }

    #[test]
    fn what_was_sent_at_the_end_is_sent_at_the_end() {
        let script = sort();
        for cut in [vec![40, 61, 1, 0], vec![102, 0], vec![1; 103], vec![101, 1, 0], vec![30, 30, 30, 12, 0]] {
            let mut cut: Vec<u64> = cut;
            if cut.len() == 103 {
                cut[102] = 0;
            }
            let mut progress = script.progress();
            let (mut cost, mut at) = (0.0, 0);
            for (number, &units) in cut.iter().enumerate() {
                at += units;
                let (more, sent, again) = take(&mut progress, &script, units);
                cost += more;
                let last = number + 1 == cut.len();
                assert_eq!((sent, again), (usize::from(at == 102), at == 102 && !last), "{cut:?} at {number}");
            }
            assert!((cost - 1120.0).abs() < 1e-9, "{cut:?}: {cost}");
            assert!(progress.is_over(&script));
        }
    }

    #[test]
    fn what_is_read_of_the_store_adds_up() {
        let script = Script { acts: vec![act(7, 70.0, (1000, 100), 0)], ..Script::default() };
        let mut progress = script.progress();
        let mut next = 1000;
        for _ in 0..7 {
            let mut done = Done { units: 1, ..Done::default() };
            progress.go_on(&script, &mut done);
            for (from, bytes) in done.store {
                assert_eq!(from, next);
                next += bytes;
            }
        }
        assert_eq!(next, 1100);
    }

    #[test]
    fn invocations_without_user_code_are_paid_once() {
        let idle = Cost { recorded: 9.0, memory: 0.0 };
        let script = Script { idle, ..Script::default() };
        let mut progress = script.progress();
        assert_eq!((progress.idle(&script), progress.idle(&script)), (idle, Cost::default()));
    }
}
