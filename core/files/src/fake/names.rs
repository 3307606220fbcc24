//! The directory of a fake disk: the durable names, those seen by processes, and the changes between the two.

use super::chance::Chance;
use std::collections::BTreeMap;

/// From names to contents, by their number.
type Entries = BTreeMap<String, usize>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    durable: Entries,
    pub(super) cached: Entries,
    /// The changes since the last sync, in order.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Link(String, usize),
    Unlink(String),
    Rename { from: String, to: String, content: usize },
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        match self {
            Change::Link(name, content) => {
                entries.insert(name.clone(), *content);
            }
            Change::Unlink(name) => {
                entries.remove(name);
            }
            Change::Rename { from, to, content } => {
                // An earlier change may have been left out, so another file has the name, or none.
                if entries.get(from) == Some(content) {
                    entries.remove(from);
                }
                entries.insert(to.clone(), *content);
            }
        }
    }
}

impl Names {
    pub(super) fn link(&mut self, name: &str, content: usize) {
        self.change(Change::Link(name.to_owned(), content));
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.change(Change::Unlink(name.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let content = self.cached[from];
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), content });
    }

    /// Gives a name to a content, or to none, durably.
    pub(super) fn put(&mut self, name: &str, content: Option<usize>) {
        for entries in [&mut self.durable, &mut self.cached] {
            match content {
                Some(content) => entries.insert(name.to_owned(), content),
                None => entries.remove(name),
            };
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Power is lost: each change has happened or not.
    pub(super) fn crash(&mut self, chance: &mut Chance, likely: u64) {
        for change in std::mem::take(&mut self.changes) {
            if chance.happens(likely) {
                change.apply(&mut self.durable);
            }
        }
        self.cached.clone_from(&self.durable);
    }

    /// Each change is durable or not; the others will be at the next sync, or never.
    pub(super) fn fail_to_sync(&mut self, chance: &mut Chance, likely: u64) {
        let never = chance.one_in(2);
        for change in std::mem::take(&mut self.changes) {
            if chance.happens(likely) {
                change.apply(&mut self.durable);
            } else if !never {
                self.changes.push(change);
            }
        }
    }
}
