//! The errors of a store.

use std::fmt;
use std::sync::Arc;
use vicus_disk::{BadRecord, Damage, DiskError, Epoch, NotPublished, Refusal};
use vicus_files::{FileError, LockError};
use vicus_flow::{BoxError, NoMemory};

/// Why a store can't be opened, read, or built.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// A file can't be read or written, is damaged, or belongs to something else.
    Disk(DiskError),
    /// The content of a page is as it was written, and still no part of a store; or it belongs to a newer version. Also
    /// damage found while data was read.
    Unreadable(Arc<dyn std::error::Error + Send + Sync>),
    /// A record of the log can't be understood.
    Record {
        /// Its sequence number.
        number: u64,
        /// The fault.
        what: String,
    },
    /// The log can't be read from this place on. The data before it can be: [`crate::read_up_to`], [`crate::repair`].
    Unread(Box<Unread>),
    /// The new base file was written and can't be published.
    NotPublished(NotPublished),
    /// There is not enough memory.
    NoMemory(NoMemory),
    /// A change exceeds a limit of the reader, and the store could not be opened again: a triple term has too many
    /// levels, say. Nothing of its transaction happens, and the store goes on.
    NotKept(
        /// The limit.
        &'static str,
    ),
    /// A change of the transaction had failed, so nothing of the transaction can happen.
    Broken,
    /// This store is a copy that follows another one, and takes no changes of its own.
    Follows,
    /// Too few followers have answered in time.
    TooFewFollowers(
        /// How many are needed.
        usize,
    ),
    /// Another copy has become the writer, or is about to.
    Replaced(
        /// Its epoch.
        Epoch,
    ),
}

/// A place in the log: the log was written there, and can't be read from there on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread(pub(crate) BadRecord);

impl Unread {
    /// The sequence number of the first unreadable record.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The file, the place in it of this record or of the records written together with it, and the fault.
    pub fn damage(&self) -> &Damage {
        &self.0.damage
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log can't be read from record {} on: {}", self.0.number, self.0.damage)
    }
}

impl std::error::Error for Unread {}

impl StoreError {
    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Disk(error) => error.is_full(),
            StoreError::NotPublished(error) => error.error.is_full(),
            _ => false,
        }
    }

    /// If another one writes to the store: its process, if that is known.
    pub fn locked_by(&self) -> Option<Option<u32>> {
        match self {
            StoreError::Disk(DiskError::Lock(LockError::Held { by, .. })) => Some(*by),
            _ => None,
        }
    }

    /// The damage, or the refusal of a file, that made a box or a reader give up; `None` if it gave up for another
    /// reason.
    pub fn of_reader(error: &(dyn std::error::Error + 'static)) -> Option<StoreError> {
        let damage = error.downcast_ref::<Damage>().map(|damage| DiskError::Damaged(Box::new(damage.clone())));
        let boxed = || error.downcast_ref::<Box<Damage>>().map(|damage| DiskError::Damaged(damage.clone()));
        let disk = || error.downcast_ref::<DiskError>().cloned();
        let file = || error.downcast_ref::<FileError>().cloned().map(DiskError::File);
        let found = damage.or_else(boxed).or_else(disk).or_else(file).map(StoreError::Disk);
        found.or_else(|| error.downcast_ref::<StoreError>().cloned())
    }

    /// The error left with some data, on its way through code that can't return it.
    pub(crate) fn given_up(error: BoxError) -> StoreError {
        let error = match error.downcast::<Damage>() {
            Ok(damage) => return StoreError::Disk(DiskError::Damaged(damage)),
            Err(error) => error,
        };
        let error = match error.downcast::<DiskError>() {
            Ok(error) => return StoreError::Disk(*error),
            Err(error) => error,
        };
        let error = match error.downcast::<FileError>() {
            Ok(error) => return StoreError::Disk((*error).into()),
            Err(error) => error,
        };
        match error.downcast::<NoMemory>() {
            Ok(error) => StoreError::NoMemory(*error),
            Err(error) => StoreError::Unreadable(error.into()),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Disk(error) => error.fmt(f),
            StoreError::Unreadable(error) => error.fmt(f),
            StoreError::Record { number, what } => write!(f, "record {number} of the log can't be understood: {what}"),
            StoreError::Unread(unread) => {
                write!(f, "{unread}; what is before it can be read, and `vicus check --repair` keeps the rest aside")
            }
            StoreError::NotPublished(NotPublished { error, in_doubt: false }) => error.fmt(f),
            StoreError::NotPublished(NotPublished { error, in_doubt: true }) => {
                write!(f, "{error}; the new base may be found when the store is opened again")
            }
            StoreError::NoMemory(error) => error.fmt(f),
            StoreError::NotKept(limit) => write!(f, "the store can't keep a change: {limit}"),
            StoreError::Broken => f.write_str("a change of this transaction has failed, so nothing of it happens"),
            StoreError::Follows => f.write_str(
                "this store is a copy that follows another one: changes are sent to that one, or `vicus promote` makes \
                 this copy the writer",
            ),
            StoreError::TooFewFollowers(needed) => {
                write!(f, "{needed} of them must have it, and fewer have answered in time")
            }
            StoreError::Replaced(epoch) => write!(
                f,
                "another copy of this store has become the writer, or is about to (epoch {epoch}): this copy takes no \
                 changes; it can follow that one"
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<DiskError> for StoreError {
    fn from(error: DiskError) -> StoreError {
        StoreError::Disk(error)
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> StoreError {
        StoreError::Disk(error.into())
    }
}

impl From<NotPublished> for StoreError {
    fn from(error: NotPublished) -> StoreError {
        StoreError::NotPublished(error)
    }
}

impl From<NoMemory> for StoreError {
    fn from(error: NoMemory) -> StoreError {
        StoreError::NoMemory(error)
    }
}

/// Why a transaction did not end well. Unless it is [in doubt](CommitError::in_doubt), nothing of it has happened.
#[derive(Clone, Debug)]
pub enum CommitError {
    /// The log can't be written.
    Refused(Refusal),
    /// An earlier transaction, the basis of this one, could not be made durable. It can be run again.
    BuiltOnRefused,
    /// Its changes can't be applied: there is not enough memory, or data it needs is damaged.
    Failed(StoreError),
    /// Its changes are durable here, and too few followers have said that they have them. They are visible when enough
    /// have; a newer writer may lack them.
    NotConfirmed(StoreError),
}

impl CommitError {
    /// Whether its changes may be found, as a whole, when the store is opened again. They surely won't as soon as a
    /// later transaction has been committed, unless they are [durable here](CommitError::NotConfirmed).
    pub fn in_doubt(&self) -> bool {
        matches!(self, CommitError::NotConfirmed(_))
            || matches!(self, CommitError::Refused(refusal) if refusal.in_doubt)
    }
}

impl CommitError {
    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            CommitError::Refused(refusal) => refusal.error.is_full(),
            CommitError::BuiltOnRefused => false,
            CommitError::Failed(error) | CommitError::NotConfirmed(error) => error.is_full(),
        }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Refused(refusal) => refusal.fmt(f),
            CommitError::BuiltOnRefused => f.write_str(
                "a change just before this one could not be made durable, so nothing of this one happened; \
                    it can be tried again",
            ),
            CommitError::Failed(error) => error.fmt(f),
            CommitError::NotConfirmed(error) => {
                write!(f, "the change is durable on this server, and not confirmed by enough followers: {error}")
            }
        }
    }
}

impl std::error::Error for CommitError {}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> CommitError {
        CommitError::Failed(error)
    }
}
