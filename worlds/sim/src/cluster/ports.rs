//! The ends of crossings in a simulated cluster: the decisions of core/network's ports, over simulated links.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_flow::{BoxError, BoxModel, Envelope, Operator, Resume, Schema, Turn};
use vicus_network::{Border, Crossing, CrossingRows, KindError, ReceivePort, SendPort, SendStep};

/// The type of boxes that send to other processes.
pub(super) const SEND: &str = "send";

/// The type of boxes that take what comes from others.
pub(super) const RECEIVE: &str = "receive";

/// A frame between two processes.
pub(super) struct Frame {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) crossing: u32,
    pub(super) body: FrameBody,
}

pub(super) enum FrameBody {
    /// Rows or a mark.
    Envelope(Envelope),
    End,
    Grant(u64),
    Closed,
}

/// A frame without rows has so many bytes.
const HEAD: u64 = 32;

impl FrameBody {
    /// Its bytes on the link, if envelopes stand for `scale` times their rows.
    pub(super) fn bytes(&self, scale: f64) -> u64 {
        match self {
            FrameBody::Envelope(envelope) => scaled(envelope, scale),
            FrameBody::End | FrameBody::Grant(_) | FrameBody::Closed => HEAD,
        }
    }
}

/// An envelope's bytes, as both ends count them.
fn scaled(envelope: &Envelope, scale: f64) -> u64 {
    HEAD + (envelope.bytes() as f64 * scale) as u64
}

/// A box's way to go on.
#[derive(Default)]
struct Sending {
    port: SendPort,
    paused: Option<Resume>,
}

struct Receiving {
    port: ReceivePort,
    pieces: VecDeque<Piece>,
    is_lost: bool,
    paused: Option<Resume>,
}

enum Piece {
    Envelope(Envelope),
    End,
}

/// The ends of a process's crossings, and the frames that its boxes have made. One thread is here at a time; locks are
/// for the compiler, because operators may be sent to other threads.
pub(super) struct Ports {
    process: usize,
    window: u64,
    scale: f64,
    /// The facts about each crossing's rows.
    rows: Arc<BTreeMap<u32, CrossingRows>>,
    state: Mutex<PortsState>,
}

#[derive(Default)]
struct PortsState {
    sending: BTreeMap<u32, (usize, Sending)>,
    receiving: BTreeMap<u32, (usize, Receiving)>,
    frames: Vec<Frame>,
}

/// The other process is lost.
#[derive(Debug)]
pub(super) struct ProcessLost;

impl std::fmt::Display for ProcessLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a process was lost")
    }
}

impl std::error::Error for ProcessLost {}

impl Ports {
    pub(super) fn new(process: usize, window: u64, scale: f64, rows: Arc<BTreeMap<u32, CrossingRows>>) -> Arc<Ports> {
        Arc::new(Ports { process, window, scale, rows, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, PortsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frames that boxes have made since the last call.
    pub(super) fn frames(&self) -> Vec<Frame> {
        std::mem::take(&mut self.state().frames)
    }

    /// How many boxes are paused.
    pub(super) fn paused(&self) -> usize {
        let state = self.state();
        let sending = state.sending.values().filter(|(_, end)| end.paused.is_some()).count();
        sending + state.receiving.values().filter(|(_, end)| end.paused.is_some()).count()
    }

    /// Whether all of so many ends send to processes that want no more.
    pub(super) fn is_unwanted(&self, ends: usize) -> bool {
        let state = self.state();
        state.sending.len() == ends && state.sending.values().all(|(_, end)| end.port.is_over())
    }

    /// The bytes that wait for boxes.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.state().receiving.values().map(|(_, end)| end.port.bytes()).sum()
    }

    /// Takes a frame of another process. A box that waited for it looks at it.
    pub(super) fn take(&self, crossing: u32, body: FrameBody) {
        let mut state = self.state();
        let paused = match body {
            FrameBody::Envelope(_) | FrameBody::End => {
                // A frame for a crossing that no box here receives: its part is over.
                let Some((_, end)) = state.receiving.get_mut(&crossing) else { return };
                let bytes = body.bytes(self.scale);
                let piece = match body {
                    FrameBody::Envelope(envelope) => Piece::Envelope(envelope),
                    _ => Piece::End,
                };
                let bytes = if matches!(piece, Piece::End) { 0 } else { bytes };
                if end.port.came(bytes) {
                    end.pieces.push_back(piece);
                }
                end.paused.take()
            }
            FrameBody::Grant(bytes) => {
                let Some((_, end)) = state.sending.get_mut(&crossing) else { return };
                end.port.grant(bytes);
                end.paused.take()
            }
            FrameBody::Closed => {
                let Some((_, end)) = state.sending.get_mut(&crossing) else { return };
                end.port.close();
                end.paused.take()
            }
        };
        drop(state);
        drop(paused);
    }

    /// The links to a process are lost.
    pub(super) fn lose(&self, process: usize) {
        let mut state = self.state();
        let mut paused = Vec::new();
        for (_, end) in state.sending.values_mut().filter(|(other, _)| *other == process) {
            end.port.lose();
            paused.extend(end.paused.take());
        }
        for (_, end) in state.receiving.values_mut().filter(|(other, _)| *other == process) {
            end.is_lost = true;
            paused.extend(end.paused.take());
        }
        drop(state);
        drop(paused);
    }

    /// Lets go of all boxes that are paused, of a request that has failed.
    pub(super) fn let_go(&self) {
        let mut state = self.state();
        let sending = state.sending.values_mut().filter_map(|(_, end)| end.paused.take());
        let mut paused: Vec<Resume> = sending.collect();
        paused.extend(state.receiving.values_mut().filter_map(|(_, end)| end.paused.take()));
        drop(state);
        drop(paused);
    }
}

/// The way from a process to the others.
pub(super) struct PortsBorder(pub(super) Arc<Ports>);

impl Border for PortsBorder {
    fn send(&self, crossing: &Crossing, rows: &CrossingRows) -> Result<BoxModel, KindError> {
        self.0.state().sending.insert(crossing.number, (crossing.to, Sending::default()));
        let (ports, number, to) = (Arc::clone(&self.0), crossing.number, crossing.to);
        let outlet = move || Outlet { ports: Arc::clone(&ports), number, to };
        Ok(BoxModel::new(SEND, outlet).input(&rows.schema).output(&Schema::new::<&str>([])))
    }

    fn receive(&self, crossing: &Crossing) -> Result<(BoxModel, CrossingRows), KindError> {
        let rows = self.0.rows.get(&crossing.number).cloned();
        let rows = rows.ok_or_else(|| KindError::new("its rows are not known"))?;
        let receiving =
            Receiving { port: ReceivePort::new(self.0.window), pieces: VecDeque::new(), is_lost: false, paused: None };
        let mut state = self.0.state();
        state.receiving.insert(crossing.number, (crossing.from, receiving));
        state.frames.push(Frame {
            from: self.0.process,
            to: crossing.from,
            crossing: crossing.number,
            body: FrameBody::Grant(self.0.window),
        });
        drop(state);
        let (ports, number, from) = (Arc::clone(&self.0), crossing.number, crossing.from);
        let inlet = move || Inlet { ports: Arc::clone(&ports), number, from, has_ended: false };
        Ok((BoxModel::new(RECEIVE, inlet).output(&rows.schema), rows))
    }

    fn goes_on(&self) -> bool {
        true
    }
}

struct Outlet {
    ports: Arc<Ports>,
    number: u32,
    to: usize,
}

impl Operator for Outlet {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(head) = turn.head(0) else { return Ok(()) };
        let is_pill = head.is_pill();
        let mut state = self.ports.state();
        let PortsState { sending, frames, .. } = &mut *state;
        let (_, end) = sending.get_mut(&self.number).expect("it was made with its box");
        match end.port.step(is_pill) {
            SendStep::Send => {}
            SendStep::Fail => return Err(ProcessLost.into()),
            SendStep::Close => {
                drop(state);
                turn.close(0);
                turn.send_pill(0);
                return Ok(());
            }
            SendStep::Wait => {
                end.paused = turn.pause();
                return Ok(());
            }
        }
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        let frame = |body| Frame { from: self.ports.process, to: self.to, crossing: self.number, body };
        if envelope.is_pill() {
            end.port.end();
            frames.push(frame(FrameBody::End));
            drop(state);
            turn.send_pill(0);
            return Ok(());
        }
        end.port.sent(scaled(&envelope, self.ports.scale));
        frames.push(frame(FrameBody::Envelope(envelope)));
        Ok(())
    }
}

struct Inlet {
    ports: Arc<Ports>,
    number: u32,
    from: usize,
    has_ended: bool,
}

impl Operator for Inlet {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        while !self.has_ended {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            let mut state = self.ports.state();
            let PortsState { receiving, frames, .. } = &mut *state;
            let (_, end) = receiving.get_mut(&self.number).expect("it was made with its box");
            let Some(piece) = end.pieces.pop_front() else {
                if end.is_lost {
                    return Err(ProcessLost.into());
                }
                end.paused = turn.pause();
                return Ok(());
            };
            let bytes = match &piece {
                Piece::Envelope(envelope) => scaled(envelope, self.ports.scale),
                Piece::End => 0,
            };
            let is_empty = end.pieces.is_empty();
            if let Some(bytes) = end.port.took(bytes, is_empty) {
                let body = FrameBody::Grant(bytes);
                frames.push(Frame { from: self.ports.process, to: self.from, crossing: self.number, body });
            }
            if matches!(piece, Piece::End) {
                end.port.close();
            }
            drop(state);
            match piece {
                Piece::Envelope(envelope) => match envelope.mark() {
                    Some(mark) => turn.send_mark(0, mark),
                    None => turn.send(0, envelope),
                },
                Piece::End => {
                    self.has_ended = true;
                    turn.send_pill(0);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        let mut state = self.ports.state();
        let PortsState { receiving, frames, .. } = &mut *state;
        let Some((_, end)) = receiving.get_mut(&self.number) else { return };
        end.pieces.clear();
        if end.port.close() {
            let body = FrameBody::Closed;
            frames.push(Frame { from: self.ports.process, to: self.from, crossing: self.number, body });
        }
    }
}
