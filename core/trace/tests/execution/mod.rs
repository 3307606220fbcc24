//! A random execution: seats queue, take and run boxes, and the trace's events are recorded together with their causes.
//!
//! It plays the box protocol itself and shares no code with the checker or the summary, so both can be tested against
//! it. The seats' clocks are skewed, so only the logical order tells the first event.

use vicus_trace::{BoxInfo, EventLog, Header, JobId, ModelInfo, RequestOutcome, TaskKind, Trace, What};

pub(crate) const SEATS: usize = 4;
const REQUESTS: usize = 2;
const BOXES: usize = 5;

/// The position of an event: seat, and index in the seat's log.
pub(crate) type Position = (usize, usize);

/// How far a seat's clock is ahead; clocks of later seats run far behind.
pub(crate) fn skew_ns(seat: usize) -> u64 {
    10_000 * (SEATS - seat) as u64
}

pub(crate) struct Execution {
    pub(crate) trace: Trace,
    /// Pairs of a cause and its effect, on the same seat or across seats.
    pub(crate) causes: Vec<(Position, Position)>,
}

/// A seat's activity.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    Took(JobId),
    Invoked(JobId),
    InUserCode(JobId),
    UserCodeDone(JobId),
    Sleeping,
}

/// The clock and the position of a box's last event, carried with the box.
#[derive(Clone, Copy, Default)]
struct Cell {
    touched: Option<(u64, Position)>,
    queued: bool,
    running: bool,
    refused: bool,
}

struct Player {
    logs: Vec<EventLog>,
    doing: [Doing; SEATS],
    cells: [[Cell; BOXES]; REQUESTS],
    now_ns: u64,
    causes: Vec<(Position, Position)>,
}

impl Execution {
    /// Plays one step for each choice, then lets all open parts end.
    pub(crate) fn play(choices: &[(u8, u8, u8)]) -> Execution {
        let mut player = Player {
            logs: (0..SEATS).map(|_| EventLog::new(100 * (choices.len() + 1))).collect(),
            doing: [Doing::Nothing; SEATS],
            cells: [[Cell::default(); BOXES]; REQUESTS],
            now_ns: 1000,
            causes: Vec::new(),
        };
        let mut submitted = None;
        for request in 0..REQUESTS as u32 {
            submitted = Some((player.record(0, What::RequestSubmitted { request }, submitted), (0, request as usize)));
        }
        player.cells.iter_mut().flatten().for_each(|cell| cell.touched = submitted);
        for &(seat, choice, wait) in choices {
            player.now_ns += u64::from(wait);
            player.step(usize::from(seat) % SEATS, choice);
        }
        for seat in 0..SEATS {
            while !matches!(player.doing[seat], Doing::Nothing) {
                player.now_ns += 3;
                player.step(seat, 0);
            }
        }
        for request in 0..REQUESTS as u32 {
            for seat in 1..SEATS {
                let clock = player.logs[seat].clock();
                player.logs[0].observe(clock);
            }
            player.record(0, What::RequestEnded { request, outcome: RequestOutcome::Done }, None);
        }
        let models = (0..REQUESTS as u32).map(|request| ModelInfo {
            name: format!("model{request}"),
            requests: vec![request],
            boxes: (0..BOXES)
                .map(|index| BoxInfo {
                    name: format!("box{index}"),
                    type_name: format!("Type{}", index % 2),
                    ..BoxInfo::default()
                })
                .collect(),
        });
        let header = Header { models: models.collect(), ..Header::for_seats(SEATS) };
        let trace = Trace::new(header, player.logs.into_iter().map(EventLog::finish).collect());
        Execution { trace, causes: player.causes }
    }
}

impl Player {
    fn cell(&mut self, who: JobId) -> &mut Cell {
        &mut self.cells[who.request as usize][who.index as usize]
    }

    /// Records an event caused by another one and by the one before it on the seat.
    fn record(&mut self, seat: usize, what: What, cause: Option<(u64, Position)>) -> u64 {
        let here = (seat, self.logs[seat].events().len());
        if here.1 > 0 {
            self.causes.push(((seat, here.1 - 1), here));
        }
        if let Some((clock, position)) = cause {
            self.logs[seat].observe(clock);
            self.causes.push((position, here));
        }
        let time_ns = self.now_ns + skew_ns(seat);
        self.logs[seat].record(time_ns, what)
    }

    /// Records an event caused by the box's last event, and leaves its clock with the box.
    fn touch(&mut self, seat: usize, who: JobId, what: What) {
        let cause = self.cell(who).touched;
        let clock = self.record(seat, what, cause);
        let here = (seat, self.logs[seat].events().len() - 1);
        self.cell(who).touched = Some((clock, here));
    }

    fn find(&self, choice: u8, wanted: impl Fn(&Cell) -> bool) -> Option<JobId> {
        let all = (0..REQUESTS * BOXES).map(|i| (i + usize::from(choice)) % (REQUESTS * BOXES));
        let mut ids =
            all.map(|i| (i / BOXES, i % BOXES)).filter(|&(request, index)| wanted(&self.cells[request][index]));
        ids.next().map(|(request, index)| JobId { request: request as u32, index: index as u32 })
    }

    fn enqueue(&mut self, seat: usize, choice: u8, by: u32) {
        if let Some(who) = self.find(choice, |cell| !cell.queued && !cell.running) {
            let kind = if choice.is_multiple_of(2) { TaskKind::Immediate } else { TaskKind::Deferred };
            self.touch(seat, who, What::Enqueued { who, kind, by });
            self.cell(who).queued = true;
        }
    }

    fn step(&mut self, seat: usize, choice: u8) {
        let doing = self.doing[seat];
        self.doing[seat] = match doing {
            Doing::Nothing => self.idle(seat, choice),
            Doing::Took(who) => {
                self.touch(seat, who, What::InvocationBegins { who });
                Doing::Invoked(who)
            }
            Doing::Invoked(who) if self.cell(who).refused => Doing::UserCodeDone(who),
            Doing::Invoked(who) => {
                let rows = u32::from(choice);
                self.touch(seat, who, What::EnvelopeReceived { who, input: 1, rows, pill: choice < 16 });
                self.touch(seat, who, What::UserCodeBegins { who });
                Doing::InUserCode(who)
            }
            Doing::InUserCode(who) => self.work(seat, who, choice),
            Doing::UserCodeDone(who) => {
                if choice % 4 == 1 && !self.cell(who).refused {
                    self.touch(seat, who, What::Refused { who, output: 0 });
                    self.cell(who).refused = true;
                }
                self.touch(seat, who, What::InvocationEnds { who });
                self.cell(who).running = false;
                Doing::Nothing
            }
            Doing::Sleeping => {
                let waker = (seat + 1 + usize::from(choice) % (SEATS - 1)) % SEATS;
                if matches!(self.doing[waker], Doing::Sleeping) {
                    self.record(seat, What::SleepEnds, None);
                } else {
                    let clock = self.record(waker, What::Woke { pool: seat as u32 }, None);
                    let cause = (waker, self.logs[waker].events().len() - 1);
                    self.record(seat, What::SleepEnds, Some((clock, cause)));
                }
                Doing::Nothing
            }
        };
    }

    fn idle(&mut self, seat: usize, choice: u8) -> Doing {
        match choice % 8 {
            0 | 1 => self.enqueue(seat, choice / 8, JobId::NONE),
            2 => {
                if let Some(who) = self.find(choice / 8, |cell| cell.refused) {
                    self.touch(seat, who, What::Resumed { who, output: 0 });
                    self.cell(who).refused = false;
                }
            }
            3 => {
                self.record(seat, What::SleepBegins, None);
                return Doing::Sleeping;
            }
            _ => {
                if let Some(who) = self.find(choice / 8, |cell| cell.queued && !cell.running) {
                    self.touch(seat, who, What::Taken { who, rule: 1 + choice % 5, far: choice > 100 });
                    let cell = self.cell(who);
                    (cell.queued, cell.running) = (false, true);
                    return Doing::Took(who);
                }
            }
        }
        Doing::Nothing
    }

    fn work(&mut self, seat: usize, who: JobId, choice: u8) -> Doing {
        match choice % 4 {
            0 => {
                self.touch(seat, who, What::UserCodeEnds { who });
                return Doing::UserCodeDone(who);
            }
            1 => self.enqueue(seat, choice / 4, who.index),
            2 => {
                let (rows, bytes) = (u32::from(choice), 8 * u32::from(choice));
                self.touch(seat, who, What::EnvelopeCreated { who, output: 0, bytes });
                self.touch(seat, who, What::EnvelopeSent { who, output: 0, rows, pill: false });
            }
            _ => {
                // `join` runs another task while it waits.
                let who = JobId::task_of(who.request);
                let task = [
                    What::InvocationBegins { who },
                    What::UserCodeBegins { who },
                    What::UserCodeEnds { who },
                    What::InvocationEnds { who },
                ];
                for what in task {
                    self.now_ns += 1 + u64::from(choice / 16);
                    self.record(seat, what, None);
                }
            }
        }
        Doing::InUserCode(who)
    }
}
