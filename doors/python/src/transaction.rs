//! A transaction: several updates as one. It borrows its database, so a thread of its own has it, and does what it is
//! asked to.

use crate::data::{DataStore, OpenData, Site};
use crate::errors::{Failure, Outcome};
use crate::wait::{Bounds, SLICE, asking, interruptible, of_panic};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use vicus_service::{Ask, Cancel, Dataset, Error, SessionOptions, Updated, Updating};

enum Task {
    Update(String, Box<SessionOptions>, Sender<Outcome<Updated>>),
    Dataset(Sender<Outcome<Dataset>>),
    /// The end: whether the changes are kept.
    End(bool, Sender<Outcome>),
}

/// Several updates as one. See `vicus.Transaction`.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Transaction {
    tasks: Arc<Tasks>,
    /// Without the database, which may be closed.
    site: Site,
}

/// The way to a transaction's thread, which ends when there is none.
type Tasks = Mutex<Option<Sender<Task>>>;

/// A transaction as its database knows it.
pub(crate) struct OpenTransaction {
    tasks: Weak<Tasks>,
    thread: JoinHandle<()>,
}

impl OpenTransaction {
    /// Has it rolled back, if it has not ended.
    pub(crate) fn end(&self) {
        if let Some(tasks) = self.tasks.upgrade() {
            drop(lock(&tasks).take());
        }
    }

    /// Waits for its thread.
    pub(crate) fn wait(self) {
        // A panic there was told to its caller.
        let _ = self.thread.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(held: &OpenData, tasks: &Receiver<Task>, cancel: &Cancel) {
    // Until the changes before it have ended.
    let ask = asking(cancel);
    let service = match held.service() {
        Ok(service) => service,
        Err(_) => return,
    };
    let serve = |data: &mut dyn Updating| -> Option<(bool, Sender<Outcome>)> {
        let mut is_broken = false;
        loop {
            match tasks.recv().ok()? {
                Task::Update(text, options, done) => {
                    let mut update = || service.update(&text, data, *options.clone());
                    let updated = catch_unwind(AssertUnwindSafe(&mut update));
                    // What asks for an update ends with it: its time is no limit of what comes later.
                    data.ask(never());
                    // Of what is no update nothing was carried out.
                    is_broken |= !matches!(updated, Ok(Ok(_) | Err(Error::Query(_))));
                    let updated = updated.map_err(|panic| of_panic(&*panic)).and_then(|done| Ok(done?));
                    // The caller may have gone.
                    let _ = done.send(updated);
                }
                Task::Dataset(done) => {
                    let snapshot = data.snapshot().map(Dataset::new);
                    let _ = done.send(snapshot.map_err(|error| Failure::new("StoreError", error)));
                }
                Task::End(true, done) if is_broken => {
                    let message = "an update of this transaction has failed and may have been carried out in part, so \
                                   the transaction is not committed but rolled back";
                    let _ = done.send(Err(Failure::new("StoreError", message)));
                    return None;
                }
                Task::End(is_kept, done) => return Some((is_kept, done)),
            }
        }
    };
    match held.kept() {
        DataStore::Memory(shared) => {
            let mut draft = shared.draft();
            draft.ask(ask);
            if let Some((is_kept, done)) = serve(&mut draft) {
                if is_kept {
                    draft.commit();
                }
                let _ = done.send(Ok(()));
            }
        }
        DataStore::Folder { store, .. } => match store.write_asking(ask) {
            Ok(mut transaction) => {
                if let Some((is_kept, done)) = serve(&mut transaction) {
                    let ended = if is_kept { transaction.commit().map(drop).map_err(Failure::from) } else { Ok(()) };
                    let _ = done.send(ended);
                }
            }
            Err(error) => {
                if let Ok(task) = tasks.recv() {
                    let failure = || Failure::new("StoreError", &error);
                    let _ = match task {
                        Task::Update(_, _, done) => done.send(Err(failure())).is_ok(),
                        Task::Dataset(done) => done.send(Err(failure())).is_ok(),
                        Task::End(_, done) => done.send(Err(failure())).is_ok(),
                    };
                }
            }
        },
        DataStore::Fixed(_) => {}
    }
}

/// A question that ends nothing.
fn never() -> Ask {
    Arc::new(|_| Ok(()))
}

impl Transaction {
    /// Begins one, when those before it have ended.
    pub(crate) fn begin(py: Python<'_>, held: &Arc<OpenData>, bounds: &Bounds) -> Outcome<Transaction> {
        held.check_here()?;
        held.check_writable()?;
        let (sender, receiver) = channel();
        let (of_thread, cancel) = (Arc::clone(held), bounds.cancel.clone());
        let thread = std::thread::Builder::new()
            .name("vicus change".to_owned())
            .spawn(move || work(&of_thread, &receiver, &cancel))
            .map_err(|error| Failure::new("Busy", error))?;
        let begun = Transaction { tasks: Arc::new(Mutex::new(Some(sender))), site: held.site.clone() };
        let mut open = lock(&held.open);
        open.retain(|other| !other.thread.is_finished());
        open.push(OpenTransaction { tasks: Arc::downgrade(&begun.tasks), thread });
        drop(open);
        begun.ask(py, bounds, false, Task::Dataset)?;
        Ok(begun)
    }

    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        bounds: &Bounds,
        is_end: bool,
        task: impl FnOnce(Sender<Outcome<T>>) -> Task + Send,
    ) -> Outcome<T> {
        self.site.threads.check_here()?;
        let over = || Failure::new("ClosedError", "the transaction is over");
        let tasks = {
            let mut tasks = lock(&self.tasks);
            if is_end { tasks.take() } else { tasks.clone() }
        };
        let tasks = tasks.ok_or_else(over)?;
        let (done, receiver) = channel();
        tasks.send(task(done)).map_err(|_| over())?;
        // Other owners would keep the thread.
        drop(tasks);
        interruptible(py, bounds, move || {
            loop {
                match receiver.recv_timeout(SLICE) {
                    Ok(done) => return done,
                    Err(RecvTimeoutError::Disconnected) => return Err(over()),
                    // A commit is waited for: what it does is told.
                    Err(RecvTimeoutError::Timeout) if bounds.is_over() && !is_end => {
                        return Err(Error::Cancelled.into());
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    }

    /// The data as changed so far.
    pub(crate) fn dataset(&self, py: Python<'_>) -> Outcome<Dataset> {
        self.ask(py, &Bounds::of(Cancel::new()), false, Task::Dataset)
    }

    pub(crate) fn update(&self, py: Python<'_>, text: &str, options: SessionOptions) -> Outcome<Updated> {
        let bounds = Bounds::of(options.limits.cancel.clone());
        let (text, options) = (text.to_owned(), Box::new(options));
        self.ask(py, &bounds, false, move |done| Task::Update(text, options, done))
    }

    pub(crate) fn end(&self, py: Python<'_>, is_kept: bool) -> Outcome {
        self.ask(py, &Bounds::of(Cancel::new()), true, move |done| Task::End(is_kept, done))
    }

    pub(crate) fn site(&self) -> &Site {
        &self.site
    }
}
