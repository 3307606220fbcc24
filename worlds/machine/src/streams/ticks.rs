//! A source of ticks.

use std::borrow::Cow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use vicus_flow::{BoxError, BoxModel, EnvelopeBuilder, Operator, Resume, Schema, TimeUnit, Turn, Type};

/// The columns of [`ticks`]: `tick`, a number from 0 on, and `time`, in microseconds since 1970.
pub fn tick_schema() -> Schema {
    Schema::new([("tick", Type::U64), ("time", Type::Timestamp(TimeUnit::Micro, None))])
}

/// The most rows of an envelope.
const MOST_ROWS: u64 = 4096;

/// A source with a row for each period since the request has begun, the first at once. If the box is held up, the rows
/// come together, with the times they were due. With a count, it ends behind so many.
///
/// # Errors
/// The period is less than a microsecond.
///
/// ```
/// use std::time::Duration;
/// use vicus_flow::{ModelBuilder, library, sequential};
/// use vicus_machine::streams;
///
/// let mut net = ModelBuilder::new("three ticks");
/// let ticks = net.source(streams::ticks("ticks", Duration::from_millis(2), Some(3))?);
/// let (send, receive) = std::sync::mpsc::channel();
/// let keep = move |rows: vicus_flow::Envelope| {
///     Ok(rows.column(0).u64s().iter().try_for_each(|tick| send.send(*tick))?)
/// };
/// let end = net.add(library::sink("end", &streams::tick_schema(), keep));
/// net.connect(ticks.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// assert_eq!(receive.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
pub fn ticks(
    type_name: impl Into<Cow<'static, str>>,
    period: Duration,
    count: Option<u64>,
) -> Result<BoxModel, BoxError> {
    if period < Duration::from_micros(1) {
        return Err("a period is at least a microsecond".into());
    }
    let factory = move || Ticks {
        period,
        left: count,
        next: 0,
        began: None,
        alarm: None,
        builder: EnvelopeBuilder::new(&tick_schema()),
    };
    Ok(BoxModel::new(type_name, factory).output(&tick_schema()))
}

struct Ticks {
    period: Duration,
    /// How many are still to come, if they end.
    left: Option<u64>,
    /// The number of the next tick.
    next: u64,
    /// The time of the first one, by both clocks.
    began: Option<(Instant, SystemTime)>,
    /// The thread that waits.
    alarm: Option<Alarm>,
    builder: EnvelopeBuilder,
}

impl Ticks {
    /// How long after the first one a tick is due.
    fn after(&self, tick: u64) -> Duration {
        let ns = self.period.as_nanos().saturating_mul(tick.into());
        Duration::new((ns / 1_000_000_000).try_into().unwrap_or(u64::MAX), (ns % 1_000_000_000) as u32)
    }

    /// A tick's time in microseconds since 1970.
    fn time(&self, first: SystemTime, tick: u64) -> i64 {
        let since = first.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.saturating_add(self.after(tick)).as_micros()).unwrap_or(i64::MAX)
    }
}

impl Operator for Ticks {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // The first time, the initialization pill.
        turn.take(0);
        let (began, first) = *self.began.get_or_insert_with(|| (Instant::now(), SystemTime::now()));
        let due = (began.elapsed().as_nanos() / self.period.as_nanos()).try_into().unwrap_or(u64::MAX);
        let to = due.saturating_add(1).min(self.next + MOST_ROWS);
        let count = to.saturating_sub(self.next).min(self.left.unwrap_or(u64::MAX));
        if count > 0 {
            let ticks = self.next..self.next + count;
            self.builder.reserve(turn, count as usize);
            self.builder.u64s(0).extend(ticks.clone());
            for tick in ticks {
                let time = self.time(first, tick);
                self.builder.values::<i64>(1).push(time);
            }
            self.next += count;
            self.left = self.left.map(|left| left - count);
            let envelope = self.builder.finish(turn);
            turn.send(0, envelope);
        }
        if self.left == Some(0) {
            turn.send_pill(0);
            return Ok(());
        }
        // A period of centuries has no moment.
        let far = || began + Duration::from_secs(100 * 365 * 86_400);
        let at = began.checked_add(self.after(self.next)).unwrap_or_else(far);
        if at <= Instant::now() {
            turn.run_again();
            return Ok(());
        }
        match turn.pause() {
            Some(resume) => {
                let alarm = match self.alarm.take() {
                    Some(alarm) => alarm,
                    None => Alarm::start()?,
                };
                self.alarm.insert(alarm).set(at, resume);
                return Ok(());
            }
            None => turn.blocking(|| thread::sleep(at.saturating_duration_since(Instant::now()))),
        }
        turn.run_again();
        Ok(())
    }
}

/// A thread that resumes a box at a time. It leaves when this is dropped.
struct Alarm(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    until: Option<(Instant, Resume)>,
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        // A panic leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let mut state = self.state();
        while !state.is_over {
            let left = state.until.as_ref().map(|(at, _)| at.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left > Duration::ZERO => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = state.until.take();
                    drop(state);
                    // Resumes the box, without the lock, which it takes.
                    drop(due);
                    self.state()
                }
            };
        }
    }
}

impl Alarm {
    fn start() -> Result<Alarm, BoxError> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        thread::Builder::new().name("vicus ticks".to_owned()).spawn(move || own.wait())?;
        Ok(Alarm(shared))
    }

    fn set(&self, at: Instant, resume: Resume) {
        self.0.state().until = Some((at, resume));
        self.0.changed.notify_all();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let paused = state.until.take();
        drop(state);
        self.0.changed.notify_all();
        drop(paused);
    }
}
