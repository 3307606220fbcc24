//! A link: the connection of two processes for one attempt at a network.

use crate::frame::{self, Incoming, Kind, Outgoing};
use crate::locked;
use crate::port::{Receiving, Sending};
use crate::socket::{ReadHalf, WriteHalf};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, BufReader, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A process that can't be heard any more, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkLost(pub(crate) String);

impl fmt::Display for LinkLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LinkLost {}

/// Why a connection with this process has ended.
pub(crate) fn lost(peer: &str, error: &io::Error, silence: Duration) -> LinkLost {
    let why = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("nothing has come for {} ms", silence.as_millis()),
        ErrorKind::UnexpectedEof => "it has closed the connection".to_owned(),
        _ => error.to_string(),
    };
    LinkLost(format!("the link to {peer} is lost: {why}"))
}

/// How links are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkOptions {
    /// A process that has sent nothing for so long is lost.
    pub(crate) silence: Duration,
    /// The bytes of rows of each crossing that may be on their way.
    pub(crate) window: u64,
}

/// Frames that are sent while nothing else is, for each silence that would lose a link.
pub(crate) const ALIVE_IN_SILENCE: u32 = 5;

/// Stands before the columns of rows that never end.
pub(crate) const ENDLESS: &str = "endless ";

pub(crate) struct Link {
    /// The other process, in errors.
    peer: String,
    options: LinkOptions,
    state: Mutex<State>,
    /// There are frames to be sent, or the link is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outgoing: VecDeque<Outgoing>,
    sending: BTreeMap<u32, Arc<Sending>>,
    receiving: BTreeMap<u32, Arc<Receiving>>,
    lost: Option<LinkLost>,
    is_over: bool,
}

impl Link {
    /// A link over a connection, with a thread that reads and one that writes.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(mut reader: BufReader<ReadHalf>, peer: String, options: LinkOptions) -> io::Result<Arc<Link>> {
        reader.get_mut().set_read_timeout(options.silence)?;
        let writer = reader.get_ref().write_half()?;
        writer.set_nodelay()?;
        // What the system does not take for so long, the other one does not read.
        writer.set_write_timeout(options.silence)?;
        let link = Arc::new(Link { peer, options, state: Mutex::default(), changed: Condvar::new() });
        let (reads, writes) = (Arc::clone(&link), Arc::clone(&link));
        thread::Builder::new().name("vicus-link-in".to_owned()).spawn(move || reads.read(reader))?;
        thread::Builder::new().name("vicus-link-out".to_owned()).spawn(move || writes.write(writer))?;
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Has a frame sent, in order, by the thread that writes.
    pub(crate) fn send(&self, frame: Outgoing) {
        let mut state = self.state();
        let was_empty = state.outgoing.is_empty();
        if state.lost.is_none() && !state.is_over {
            state.outgoing.push_back(frame);
        }
        drop(state);
        if was_empty {
            self.changed.notify_one();
        }
    }

    /// Says which columns the rows of a crossing have, and whether they never end.
    pub(crate) fn send_columns(&self, crossing: u32, columns: &str, is_endless: bool) {
        let body = [if is_endless { ENDLESS } else { "" }, columns].concat();
        self.send(Outgoing::of_bytes(Kind::Columns, crossing, body.as_bytes()));
    }

    /// The end of a crossing that sends from here.
    pub(crate) fn sending(&self, crossing: u32) -> Arc<Sending> {
        let mut state = self.state();
        let known = Arc::clone(state.sending.entry(crossing).or_default());
        if let Some(lost) = state.lost.clone() {
            drop(state);
            known.lose(&lost);
        }
        known
    }

    /// The end of a crossing that is received here.
    pub(crate) fn receiving(&self, crossing: u32) -> Arc<Receiving> {
        let mut state = self.state();
        if let Some(known) = state.receiving.get(&crossing) {
            return Arc::clone(known);
        }
        let new = Arc::new(Receiving::new(self.options.window));
        state.receiving.insert(crossing, Arc::clone(&new));
        let lost = state.lost.clone();
        drop(state);
        match lost {
            Some(lost) => new.lose(&lost),
            None => self.send(Outgoing::of_bytes(Kind::Grant, crossing, &self.options.window.to_le_bytes())),
        }
        new
    }

    /// The network is over: what is to be sent is sent, and the connection ends.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_one();
    }

    fn lose(&self, lost: LinkLost) {
        let mut state = self.state();
        if state.lost.is_some() || state.is_over {
            return;
        }
        state.lost = Some(lost.clone());
        state.outgoing.clear();
        let (sending, receiving): (Vec<_>, Vec<_>) =
            (state.sending.values().cloned().collect(), state.receiving.values().cloned().collect());
        drop(state);
        self.changed.notify_one();
        sending.iter().for_each(|end| end.lose(&lost));
        receiving.iter().for_each(|end| end.lose(&lost));
    }

    fn read(&self, mut from: BufReader<ReadHalf>) {
        let error = loop {
            match frame::read(&mut from) {
                Ok(frame) => {
                    if !self.take(frame) {
                        break io::Error::new(ErrorKind::InvalidData, "a frame that has no place here");
                    }
                }
                Err(error) => break error,
            }
        };
        self.lose(lost(&self.peer, &error, self.options.silence));
        from.get_ref().shutdown();
    }

    /// Whether the frame is one that the other process may send.
    fn take(&self, Incoming { kind, crossing, body }: Incoming) -> bool {
        match kind {
            Kind::Alive => {}
            Kind::Grant => match <[u8; 8]>::try_from(body) {
                Ok(bytes) => self.sending(crossing).grant(u64::from_le_bytes(bytes)),
                Err(_) => return false,
            },
            Kind::Closed => self.sending(crossing).close(),
            Kind::Columns | Kind::Rows | Kind::Mark | Kind::End => return self.receiving(crossing).take(kind, body),
        }
        true
    }

    fn write(&self, mut to: WriteHalf) {
        let alive = self.options.silence / ALIVE_IN_SILENCE;
        loop {
            let idle = |state: &mut State| state.outgoing.is_empty() && !state.is_over && state.lost.is_none();
            let waited = self.changed.wait_timeout_while(self.state(), alive, idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let mut frames = std::mem::take(&mut state.outgoing);
            let is_last = (state.is_over && frames.is_empty()) || state.lost.is_some();
            drop(state);
            if is_last {
                to.shutdown();
                return;
            }
            if frames.is_empty() {
                frames.push_back(Outgoing::of_bytes(Kind::Alive, 0, &[]));
            }
            for frame in frames {
                if let Err(error) = frame.write(&mut to) {
                    self.lose(lost(&self.peer, &error, self.options.silence));
                    break;
                }
            }
        }
    }
}
