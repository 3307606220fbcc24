//! Decisions on questions and answers. Nothing here acts.

use std::fmt;
use vicus_disk::{Epoch, EpochStart};

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStanding {
    /// The store's number, the same in all copies.
    pub store: u64,
    /// The copy's identity; 0 for a store that never followed.
    pub copy: u64,
    /// Whether it follows another copy.
    pub follows: bool,
    /// The newest epoch known to it.
    pub promised: Epoch,
    /// The epochs of its records but for the first one, ascending.
    pub epochs: Vec<EpochStart>,
    /// Its last durable record.
    pub last: u64,
}

/// The answer to a copy's question for the next records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyAnswer {
    /// The number of the answering store.
    pub store: u64,
    /// The epoch of its last record.
    pub epoch: Epoch,
    /// Its last durable record.
    pub last: u64,
    /// Its base has all records up to this one, since its last merge or load.
    pub included: u64,
    /// The last record, and its epoch, in the question. An answer to an older question is of no use.
    pub to: (u64, Epoch),
    /// The answer itself.
    pub content: Content,
}

/// See [`CopyAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The next records; none if there are no more.
    Records(Vec<Vec<u8>>),
    /// The log parts behind this record: a newer writer has other ones there.
    Cut(
        /// The last common record.
        u64,
    ),
    /// The next record is not kept: a base is needed.
    Base,
    /// The question is not answered.
    Refused(Refused),
}

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The answering server has the files of another store.
    OtherStore,
    /// The copy asked itself.
    Itself,
    /// The asking copy knows a newer epoch, or has more records of the same one.
    Behind,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::OtherStore => "it has another store, and not a copy of this one",
            Refused::Itself => "it is this server itself",
            Refused::Behind => "it is behind this copy: it has fewer records, or knows only an older writer",
        })
    }
}

/// The outcome of a copy's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDecision {
    /// All of its records are here as well: it gets those from this one on.
    Records(
        /// The first one.
        u64,
    ),
    /// See [`Content::Cut`].
    Cut(
        /// The last common record.
        u64,
    ),
    /// See [`Refused`].
    Refuse(Refused),
}

/// The step that a follower takes by an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// None: all records of the answering copy are there.
    UpToDate,
    /// The records are appended.
    Append,
    /// The records behind this one are given up.
    Cut(
        /// The last common record.
        u64,
    ),
    /// A base is fetched.
    Fetch,
    /// The answering server can't be followed.
    Refuse(Refused),
    /// The answer is to an older question: it asks again.
    Ignore,
}

/// The last record of the n-th epoch of a log; the 0-th is the one before all others.
fn end(epochs: &[EpochStart], last: u64, epoch: usize) -> u64 {
    epochs.get(epoch).map_or(last, |next| next.first - 1).min(last)
}

impl CopyStanding {
    /// The epoch of its last record.
    pub fn epoch(&self) -> Epoch {
        self.epochs.last().map_or(Epoch::default(), |start| start.epoch)
    }

    /// The newest epoch that it knows.
    pub fn known(&self) -> Epoch {
        self.epoch().max(self.promised)
    }

    /// The log up to this record.
    #[must_use]
    pub fn up_to(mut self, last: u64) -> CopyStanding {
        self.epochs.retain(|start| start.first <= last);
        CopyStanding { last, ..self }
    }

    /// Whether it may take changes of its own.
    pub fn may_write(&self) -> bool {
        !self.follows && self.promised <= self.epoch()
    }

    /// The last record up to which both logs are the same, surely: that of the last common epoch, in the shorter one.
    pub fn common(&self, other: &CopyStanding) -> u64 {
        let both = self.epochs.iter().zip(&other.epochs).take_while(|(one, other)| one == other).count();
        end(&self.epochs, self.last, both).min(end(&other.epochs, other.last, both))
    }

    /// Whether this copy has all that the other one has, and a newer writer's epoch or as many records: of the copies
    /// that promise an epoch, one for which this holds of all others is promoted.
    pub fn is_as_far_as(&self, other: &CopyStanding) -> bool {
        (self.epoch(), self.last) >= (other.epoch(), other.last)
    }

    /// The outcome of another copy's question.
    pub fn decide(&self, ask: &CopyStanding) -> CopyDecision {
        if ask.store != self.store {
            return CopyDecision::Refuse(Refused::OtherStore);
        }
        if ask.copy == self.copy {
            return CopyDecision::Refuse(Refused::Itself);
        }
        if ask.known() > self.epoch() {
            return CopyDecision::Refuse(Refused::Behind);
        }
        match self.common(ask) {
            common if common == ask.last => CopyDecision::Records(common + 1),
            // Only a newer writer's log tells that records behind are not to stay: a copy of the same epoch may just be
            // further than this one.
            common if ask.epoch() < self.epoch() => CopyDecision::Cut(common),
            _ => CopyDecision::Refuse(Refused::Behind),
        }
    }

    /// The answer to a question, of a copy with this base.
    pub fn answer(&self, ask: &CopyStanding, included: u64, content: Content) -> CopyAnswer {
        let (epoch, to) = (self.epoch(), (ask.last, ask.epoch()));
        CopyAnswer { store: self.store, epoch, last: self.last, included, to, content }
    }

    /// The step that an answer asks for. A follower that has promised an epoch takes nothing from a writer before it.
    pub fn take(&self, answer: &CopyAnswer) -> CopyStep {
        if let Content::Refused(why) = answer.content {
            return CopyStep::Refuse(why);
        }
        if answer.store != self.store {
            return CopyStep::Refuse(Refused::OtherStore);
        }
        if answer.to != (self.last, self.epoch()) || !self.follows {
            return CopyStep::Ignore;
        }
        if answer.epoch < self.known() {
            return CopyStep::Refuse(Refused::Behind);
        }
        match &answer.content {
            Content::Records(records) if records.is_empty() => CopyStep::UpToDate,
            Content::Records(_) => CopyStep::Append,
            Content::Cut(after) if *after < self.last && self.epoch() < answer.epoch => CopyStep::Cut(*after),
            Content::Base => CopyStep::Fetch,
            Content::Cut(_) | Content::Refused(_) => CopyStep::Ignore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(number: u64, epochs: &[(u64, u64)], last: u64) -> CopyStanding {
        let start = |&(number, first): &(u64, u64)| EpochStart { epoch: Epoch { number, by: 9 }, first };
        let epochs = epochs.iter().map(start).collect();
        CopyStanding { store: 7, copy: number, follows: number > 0, promised: Epoch::default(), epochs, last }
    }

    #[test]
    fn logs_are_compared_by_the_ends_of_their_epochs() {
        for (one, other, common) in [
            (copy(0, &[], 5), copy(1, &[], 3), 3),
            (copy(0, &[(1, 4)], 6), copy(1, &[], 5), 3),
            (copy(0, &[(1, 4)], 6), copy(1, &[], 2), 2),
            (copy(0, &[(1, 4), (2, 8)], 9), copy(1, &[(1, 4)], 12), 7),
            (copy(0, &[(1, 4), (3, 8)], 9), copy(1, &[(1, 4), (2, 6)], 12), 5),
            (copy(0, &[(1, 1)], 3), copy(1, &[(2, 1)], 3), 0),
        ] {
            assert_eq!((one.common(&other), other.common(&one)), (common, common), "{one:?}\n{other:?}");
        }
    }

    #[test]
    fn a_question_gets_what_follows_or_where_the_logs_part() {
        let writer = copy(0, &[(2, 4)], 6);
        assert_eq!(writer.decide(&copy(1, &[], 2)), CopyDecision::Records(3));
        assert_eq!(writer.decide(&copy(1, &[], 3)), CopyDecision::Records(4));
        assert_eq!(writer.decide(&copy(1, &[], 5)), CopyDecision::Cut(3));
        assert_eq!(writer.decide(&copy(1, &[(2, 4)], 6)), CopyDecision::Records(7));
        // As many records of the epoch as the writer does not have: it was put back to an older state.
        assert_eq!(writer.decide(&copy(1, &[(2, 4)], 7)), CopyDecision::Refuse(Refused::Behind));
        assert_eq!(writer.decide(&copy(1, &[(3, 4)], 4)), CopyDecision::Refuse(Refused::Behind));
        let promised = CopyStanding { promised: Epoch { number: 3, by: 0 }, ..copy(1, &[], 3) };
        assert_eq!(writer.decide(&promised), CopyDecision::Refuse(Refused::Behind));
        assert_eq!(writer.decide(&copy(0, &[], 3)), CopyDecision::Refuse(Refused::Itself));
        assert_eq!(
            writer.decide(&CopyStanding { store: 8, ..copy(1, &[], 3) }),
            CopyDecision::Refuse(Refused::OtherStore)
        );
    }

    #[test]
    fn an_answer_counts_once_and_never_for_an_older_writer() {
        let (writer, mut follower) = (copy(0, &[(2, 4)], 6), copy(1, &[], 5));
        let cut = writer.answer(&follower, 0, Content::Cut(3));
        assert_eq!(follower.take(&cut), CopyStep::Cut(3));
        follower.last = 3;
        assert_eq!(follower.take(&cut), CopyStep::Ignore, "it was followed already");
        let records = writer.answer(&follower, 0, Content::Records(vec![vec![0]]));
        assert_eq!(follower.take(&records), CopyStep::Append);
        assert_eq!(follower.take(&writer.answer(&follower, 0, Content::Records(Vec::new()))), CopyStep::UpToDate);
        follower.promised = Epoch { number: 3, by: 0 };
        assert_eq!(follower.take(&records), CopyStep::Refuse(Refused::Behind));
        follower = copy(1, &[(2, 4)], 4);
        let older = copy(0, &[], 9).answer(&follower, 0, Content::Records(vec![vec![0]]));
        assert_eq!(follower.take(&older), CopyStep::Refuse(Refused::Behind));
    }
}
