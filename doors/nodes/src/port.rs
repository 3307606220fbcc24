//! The ends of a crossing: a box that sends rows to another process, and a source of the rows that come.
//!
//! Their decisions, such as when to wait for a grant, are those of [`SendPort`] and [`ReceivePort`]; here they meet
//! frames, locks and paused boxes.

use crate::frame::{Kind, Outgoing};
use crate::link::{ENDLESS, Link, LinkLost};
use crate::locked;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamEncoder};
use arrow_schema::ArrowError;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use vicus_flow::{BoxError, BoxModel, Envelope, Mark, Operator, Resume, Schema, Turn};
use vicus_network::{CrossingRows, ReceivePort, SendPort, SendStep, parse_schema};

/// The sender's end, shared by the link and the box.
#[derive(Default)]
pub(crate) struct Sending(Mutex<SendingState>);

#[derive(Default)]
struct SendingState {
    port: SendPort,
    /// Why the port is lost.
    lost: Option<LinkLost>,
    paused: Option<Resume>,
}

impl Sending {
    /// Changes the state, and has the paused box look at it.
    fn change(&self, change: impl FnOnce(&mut SendingState)) {
        let mut state = locked(&self.0);
        change(&mut state);
        let paused = state.paused.take();
        drop(state);
        // Resumes the box, without the lock, which it takes.
        drop(paused);
    }

    pub(crate) fn grant(&self, bytes: u64) {
        self.change(|state| state.port.grant(bytes));
    }

    pub(crate) fn close(&self) {
        self.change(|state| state.port.close());
    }

    pub(crate) fn lose(&self, lost: &LinkLost) {
        self.change(|state| {
            state.port.lose();
            state.lost = Some(lost.clone());
        });
    }

    /// Whether nothing more is wanted of the box: its receiver takes no more, or has all.
    pub(crate) fn is_over(&self) -> bool {
        locked(&self.0).port.is_over()
    }
}

/// The box of a sender. The traces of processes are joined by its type, and by the receiver's.
pub(crate) fn outlet(link: Arc<Link>, crossing: u32, schema: &Schema) -> BoxModel {
    let sending = link.sending(crossing);
    let own = schema.clone();
    let factory = move || Outlet {
        link: Arc::clone(&link),
        sending: Arc::clone(&sending),
        crossing,
        schema: own.clone(),
        encoder: None,
    };
    BoxModel::new(format!("send {crossing}"), factory).input(schema).output(&Schema::new::<&str>([]))
}

struct Outlet {
    link: Arc<Link>,
    sending: Arc<Sending>,
    crossing: u32,
    schema: Schema,
    encoder: Option<StreamEncoder>,
}

impl Operator for Outlet {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(head) = turn.head(0) else { return Ok(()) };
        let is_pill = head.is_pill();
        {
            let mut state = locked(&self.sending.0);
            match state.port.step(is_pill) {
                SendStep::Send => {}
                SendStep::Fail => return Err(state.lost.clone().expect("a lost port has a reason").into()),
                SendStep::Close => {
                    drop(state);
                    turn.close(0);
                    turn.send_pill(0);
                    return Ok(());
                }
                SendStep::Wait => {
                    match turn.pause() {
                        Some(resume) => state.paused = Some(resume),
                        None => return Err("rows go to other processes in the real world alone".into()),
                    }
                    return Ok(());
                }
            }
        }
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            locked(&self.sending.0).port.end();
            self.link.send(Outgoing::of_bytes(Kind::End, self.crossing, &[]));
            turn.send_pill(0);
            return Ok(());
        }
        if let Some(mark) = envelope.mark() {
            locked(&self.sending.0).port.sent(MARK);
            self.link.send(Outgoing::of_bytes(Kind::Mark, self.crossing, &mark_bytes(mark)));
            return Ok(());
        }
        if !envelope.attached().is_empty() {
            return Err("envelopes with attached values stay in their process".into());
        }
        if self.schema.columns().is_empty() {
            // A batch without columns has no body, and Arrow's decoder waits for one.
            let count = (envelope.rows() as u32).to_le_bytes();
            locked(&self.sending.0).port.sent(count.len() as u64);
            self.link.send(Outgoing::of_bytes(Kind::Rows, self.crossing, &count));
            return Ok(());
        }
        let batch = envelope.to_arrow(&self.schema);
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            None => self.encoder.insert(encoder_of(&batch.schema())?),
        };
        let body = encoder.encode(&batch)?;
        locked(&self.sending.0).port.sent(body.iter().map(|buffer| buffer.len() as u64).sum());
        self.link.send(Outgoing::new(Kind::Rows, self.crossing, body));
        Ok(())
    }
}

/// An encoder of a crossing's rows. It sends the new values of a dictionary alone.
fn encoder_of(schema: &arrow_schema::Schema) -> Result<StreamEncoder, ArrowError> {
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    StreamEncoder::try_new_with_options(schema, options)
}

fn mark_bytes(mark: Mark) -> [u8; 17] {
    let mut bytes = [0; 17];
    match mark {
        Mark::Watermark(at) => bytes[1..].copy_from_slice(&at.to_le_bytes()),
        Mark::Moment(at) => {
            bytes[0] = 3;
            bytes[1..].copy_from_slice(&at.to_le_bytes());
        }
        Mark::Idle { source, number } => {
            bytes[0] = 1;
            bytes[1..9].copy_from_slice(&source.to_le_bytes());
            bytes[9..].copy_from_slice(&number.to_le_bytes());
        }
        Mark::Active => bytes[0] = 2,
    }
    bytes
}

/// Boxes of another process that make idle marks have other numbers than those of this one.
const PROCESSES: u32 = 40;

fn read_mark(bytes: &[u8], from: usize) -> Result<Mark, BoxError> {
    let bytes: &[u8; 17] = bytes.try_into().map_err(|_| "a mark that is no mark")?;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let time = || i128::from_le_bytes(bytes[1..].try_into().expect("sixteen bytes"));
    match bytes[0] {
        0 => Ok(Mark::Watermark(time())),
        3 => Ok(Mark::Moment(time())),
        1 => Ok(Mark::Idle { source: number(1) | (from as u64 + 1) << PROCESSES, number: number(9) }),
        2 => Ok(Mark::Active),
        _ => Err("a mark of an unknown kind".into()),
    }
}

/// Why the columns of a crossing do not come.
pub(crate) enum NoColumns {
    Lost(LinkLost),
    Otherwise(String),
}

/// A piece of a stream.
enum Piece {
    Rows(Vec<u8>),
    Mark(Vec<u8>),
    End,
}

/// A mark counts as so many bytes on its way.
const MARK: u64 = 64;

impl Piece {
    /// Its bytes as its sender has counted them.
    fn bytes(&self) -> u64 {
        match self {
            Piece::Rows(bytes) => bytes.len() as u64,
            Piece::Mark(_) => MARK,
            Piece::End => 0,
        }
    }
}

/// The receiver's end, shared by the link and the box.
pub(crate) struct Receiving {
    state: Mutex<ReceivingState>,
    /// The columns have come, or never will.
    changed: Condvar,
}

struct ReceivingState {
    columns: Option<String>,
    pieces: VecDeque<Piece>,
    port: ReceivePort,
    lost: Option<LinkLost>,
    paused: Option<Resume>,
}

impl Receiving {
    pub(crate) fn new(window: u64) -> Receiving {
        let state = ReceivingState {
            columns: None,
            pieces: VecDeque::new(),
            port: ReceivePort::new(window),
            lost: None,
            paused: None,
        };
        Receiving { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn change(&self, change: impl FnOnce(&mut ReceivingState)) {
        let mut state = locked(&self.state);
        change(&mut state);
        let paused = state.paused.take();
        drop(state);
        self.changed.notify_all();
        drop(paused);
    }

    fn put(&self, piece: Piece) {
        self.change(|state| {
            if state.port.came(piece.bytes()) {
                state.pieces.push_back(piece);
            }
        });
    }

    /// Takes a frame of the sender. Whether it is one.
    pub(crate) fn take(&self, kind: Kind, body: Vec<u8>) -> bool {
        match kind {
            Kind::Columns => self.change(|state| state.columns = Some(String::from_utf8_lossy(&body).into_owned())),
            Kind::Rows => self.put(Piece::Rows(body)),
            Kind::Mark => self.put(Piece::Mark(body)),
            Kind::End => self.put(Piece::End),
            _ => return false,
        }
        true
    }

    pub(crate) fn lose(&self, lost: &LinkLost) {
        self.change(|state| state.lost = Some(lost.clone()));
    }

    /// The columns of the rows. It waits for them.
    pub(crate) fn rows(&self, goes_on: &dyn Fn() -> bool) -> Result<CrossingRows, NoColumns> {
        let mut state = locked(&self.state);
        loop {
            if let Some(columns) = &state.columns {
                let ended = columns.strip_prefix(ENDLESS);
                let schema = parse_schema(ended.unwrap_or(columns));
                return match schema {
                    Ok(schema) => Ok(CrossingRows { schema, is_endless: ended.is_some() }),
                    Err(error) => Err(NoColumns::Otherwise(format!("another process: {}", error.message))),
                };
            }
            if let Some(lost) = &state.lost {
                return Err(NoColumns::Lost(lost.clone()));
            }
            if !goes_on() {
                return Err(NoColumns::Otherwise("the network was ended before all its boxes were there".to_owned()));
            }
            let wait = Duration::from_millis(50);
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The source of a receiver, from this process.
pub(crate) fn inlet(link: Arc<Link>, crossing: u32, from: usize, schema: &Schema) -> BoxModel {
    let receiving = link.receiving(crossing);
    let factory = move || Inlet {
        end: ReceivingEnd { link: Arc::clone(&link), receiving: Arc::clone(&receiving), crossing },
        from,
        decoder: StreamDecoder::new(),
        has_ended: false,
    };
    BoxModel::new(format!("receive {crossing}"), factory).output(schema)
}

/// Closes the crossing when the box is gone.
struct ReceivingEnd {
    link: Arc<Link>,
    receiving: Arc<Receiving>,
    crossing: u32,
}

impl Drop for ReceivingEnd {
    fn drop(&mut self) {
        let mut is_news = false;
        self.receiving.change(|state| {
            is_news = state.port.close();
            state.pieces.clear();
        });
        if is_news {
            self.link.send(Outgoing::of_bytes(Kind::Closed, self.crossing, &[]));
        }
    }
}

struct Inlet {
    end: ReceivingEnd,
    from: usize,
    decoder: StreamDecoder,
    has_ended: bool,
}

impl Inlet {
    /// The next piece, or none: then the box is paused, or the stream is lost.
    fn next(&self, turn: &mut Turn<'_>) -> Result<Option<Piece>, BoxError> {
        let mut state = locked(&self.end.receiving.state);
        turn.book(state.port.bytes())?;
        let Some(piece) = state.pieces.pop_front() else {
            if let Some(lost) = &state.lost {
                return Err(lost.clone().into());
            }
            match turn.pause() {
                Some(resume) => state.paused = Some(resume),
                None => return Err("rows come from other processes in the real world alone".into()),
            }
            return Ok(None);
        };
        let is_empty = state.pieces.is_empty();
        let grant = state.port.took(piece.bytes(), is_empty);
        if matches!(piece, Piece::End) {
            state.port.close();
        }
        drop(state);
        if let Some(bytes) = grant {
            self.end.link.send(Outgoing::of_bytes(Kind::Grant, self.end.crossing, &bytes.to_le_bytes()));
        }
        Ok(Some(piece))
    }
}

impl Operator for Inlet {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        while !self.has_ended {
            if !turn.ask_room(0) {
                turn.run_again();
                return Ok(());
            }
            let Some(piece) = self.next(turn)? else { return Ok(()) };
            match piece {
                Piece::Rows(bytes) if turn.schema(0).columns().is_empty() => {
                    let count = <[u8; 4]>::try_from(&bytes[..]).map_err(|_| "a number of rows is no number")?;
                    turn.send(0, Envelope::of_rows(Vec::new(), u32::from_le_bytes(count) as usize));
                }
                Piece::Rows(bytes) => {
                    let mut bytes = Buffer::from_vec(bytes);
                    let mut rows = None;
                    while !bytes.is_empty() {
                        if let Some(batch) = self.decoder.decode(&mut bytes)? {
                            rows = Some(Envelope::from_arrow(&batch)?);
                        }
                    }
                    let rows = rows.ok_or("a frame of rows without rows")?;
                    if !rows.fits(turn.schema(0)) {
                        return Err(format!("rows of other columns than {} came", turn.schema(0)).into());
                    }
                    turn.send(0, rows);
                }
                Piece::Mark(bytes) => turn.send_mark(0, read_mark(&bytes, self.from)?),
                Piece::End => {
                    self.has_ended = true;
                    turn.send_pill(0);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};

    /// A dictionary of a thousand texts crosses once, and then two new texts.
    #[test]
    fn a_dictionary_crosses_by_what_is_new() {
        let texts: Vec<String> = (0..1_002).map(|number| format!("{number:>100}")).collect();
        let rows = |count: usize, keys: [i32; 3]| {
            let dictionary = Arc::new(StringArray::from_iter_values(&texts[..count]));
            let coded = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys.to_vec()), dictionary).unwrap();
            RecordBatch::try_from_iter([("t", Arc::new(coded) as ArrayRef)]).unwrap()
        };
        let batches = [rows(1_000, [0, 999, 0]), rows(1_000, [5, 6, 7]), rows(1_002, [0, 1_000, 1_001])];
        let mut encoder = encoder_of(&batches[0].schema()).unwrap();
        let mut decoder = StreamDecoder::new();
        let mut sizes = Vec::new();
        for batch in &batches {
            let body = encoder.encode(batch).unwrap();
            sizes.push(body.iter().map(|buffer| buffer.len()).sum::<usize>());
            let mut bytes = Buffer::from_vec(body.iter().flat_map(|buffer| buffer.to_vec()).collect::<Vec<u8>>());
            let mut found = None;
            while !bytes.is_empty() {
                found = decoder.decode(&mut bytes).unwrap().or(found);
            }
            let shown = |batch: &RecordBatch| {
                let column = batch.column(0).as_any().downcast_ref::<DictionaryArray<Int32Type>>().unwrap();
                let texts = column.downcast_dict::<StringArray>().unwrap();
                texts.into_iter().map(|text| text.unwrap().to_owned()).collect::<Vec<String>>()
            };
            assert_eq!(shown(&found.unwrap()), shown(batch));
        }
        assert!(sizes[0] > 100_000 && sizes[1] < 2_000 && sizes[2] < 2_000, "{sizes:?}");
    }

    #[test]
    fn marks_cross_and_idle_ones_get_their_process() {
        for mark in [Mark::Watermark(-7), Mark::Watermark(i128::MAX), Mark::Moment(5), Mark::Active] {
            assert_eq!(read_mark(&mark_bytes(mark), 3).unwrap(), mark);
        }
        let idle = Mark::Idle { source: 5, number: 9 };
        let [a, b] = [1, 2].map(|from| read_mark(&mark_bytes(idle), from).unwrap());
        assert!(a != b && matches!(a, Mark::Idle { number: 9, .. }));
        assert!(read_mark(&[4; 17], 0).is_err());
        assert!(read_mark(&[0; 16], 0).is_err());
    }
}
