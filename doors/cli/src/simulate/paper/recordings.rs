//! The recordings of a figure: those in this program, read from files, or recorded now.
//!
//! The ones in this program (`doors/cli/recordings`) were once written by `vicus simulate paper all --record DIR`, and
//! packed by `zstd -19`: with them a figure is the same in each run.
//!
//! A query is planned for the simulated machine's threads, so that its operators have as many branches as there, and
//! runs on one thread, so that no other thread disturbs its invocations. It runs several times, with the same
//! invocations each time; the fastest of each counts, because in the other runs something else used the core.

use crate::bench::queries::{self, Query};
use crate::recording::write_trace;
use crate::{engine, generate, input, trace};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use vicus::Runtime;
use vicus::kit::TraceRoom;
use vicus_service::data::{LoadOptions, LoadSource, Syntax};
use vicus_service::{Count, Dataset, PlanOptions, SessionOptions};
use vicus_sim::papers::Figure;
use vicus_trace::{EventLog, JobId, SeatLog, Trace, What};

/// The number of runs of a query.
const RUNS: usize = 7;

/// The source of recordings.
pub(in crate::simulate) struct Recordings {
    from: RecordingsOrigin,
    /// The recordings so far.
    known: BTreeMap<(String, usize), Trace>,
}

/// The recordings of a million triples, by their files' names.
const STORED: [(&str, &[u8]); 16] = {
    macro_rules! stored {
        ($($name:literal)*) => {
            [$(($name, include_bytes!(concat!("../../../recordings/", $name, ".zst")))),*]
        };
    }
    stored!(
        "q2-8.trace" "q4-8.trace" "q5a-8.trace" "q6-8.trace" "q7-8.trace" "q8-8.trace" "q9-8.trace" "q11-8.trace"
        "q2-64.trace" "q4-64.trace" "q5a-64.trace" "q6-64.trace" "q7-64.trace" "q8-64.trace" "q9-64.trace"
        "q11-64.trace"
    )
};

enum RecordingsOrigin {
    /// Recordings in this program.
    Stored,
    /// Files in this folder.
    Files(PathBuf),
    /// Runs on stores of this many triples; the recordings are also written to a folder, if there is one.
    Here { triples: u64, keep: Option<PathBuf>, stores: BTreeMap<u64, Dataset> },
}

impl Recordings {
    pub(in crate::simulate) fn read_from(folder: &Path) -> Recordings {
        Recordings { from: RecordingsOrigin::Files(folder.to_owned()), known: BTreeMap::new() }
    }

    /// Recordings in this program: the same in each run.
    pub(in crate::simulate) fn stored() -> Recordings {
        Recordings { from: RecordingsOrigin::Stored, known: BTreeMap::new() }
    }

    pub(in crate::simulate) fn made_of(triples: u64, keep: Option<&Path>) -> Recordings {
        let keep = keep.map(Path::to_owned);
        Recordings { from: RecordingsOrigin::Here { triples, keep, stores: BTreeMap::new() }, known: BTreeMap::new() }
    }

    /// Gives a figure its recordings.
    pub(in crate::simulate) fn supply(&mut self, figure: &mut Figure) -> anyhow::Result<()> {
        for recording in figure.recordings() {
            let wanted =
                RecordingNeed { queries: &[recording.query], threads: recording.threads, part: recording.part };
            let trace = self.get(&wanted)?;
            figure.replay(&recording, trace).with_context(|| self.expected(&wanted))?;
        }
        Ok(())
    }

    /// A recording of queries one after the other: its last requests.
    pub(in crate::simulate) fn of_queries(&mut self, queries: &[&str], threads: usize) -> anyhow::Result<&Trace> {
        self.get(&RecordingNeed { queries, threads, part: 1 })
    }

    fn get(&mut self, wanted: &RecordingNeed<'_>) -> anyhow::Result<&Trace> {
        let key = (wanted.queries.join("+"), wanted.threads);
        if !self.known.contains_key(&key) {
            let trace = self.obtain(wanted)?;
            self.known.insert(key.clone(), trace);
        }
        Ok(&self.known[&key])
    }

    fn obtain(&mut self, wanted: &RecordingNeed<'_>) -> anyhow::Result<Trace> {
        let expected = self.expected(wanted);
        match &mut self.from {
            RecordingsOrigin::Stored => {
                let name = wanted.name();
                let stored = STORED.iter().find(|(known, _)| *known == name);
                let (_, packed) =
                    stored.with_context(|| format!("{expected} is not in this program: --triples 1000000 makes it"))?;
                let trace = zstd::decode_all(*packed).with_context(|| expected.clone())?;
                Ok(Trace::read_from(&mut &trace[..]).with_context(|| expected)?)
            }
            RecordingsOrigin::Files(folder) => {
                let trace = trace::read(&wanted.file(folder)).with_context(|| expected.clone())?;
                ensure!(last_model(&trace) != Some("load"), "{expected}: the last request in it has loaded data");
                Ok(trace)
            }
            RecordingsOrigin::Here { triples, keep, stores } => {
                let triples = (*triples / wanted.part).max(1);
                let dataset = match stores.get(&triples) {
                    Some(dataset) => dataset,
                    None => stores.entry(triples).or_insert(dataset_of(triples)?),
                };
                let trace = record(dataset, wanted.queries, wanted.threads).with_context(|| expected)?;
                if let Some(folder) = keep {
                    write_trace(&wanted.file(folder), &trace, TraceRoom::default())?;
                }
                Ok(trace)
            }
        }
    }

    /// The expected recording and its file, for errors.
    fn expected(&self, wanted: &RecordingNeed<'_>) -> String {
        let what = format!("a recording of {}, planned for {} threads", wanted.queries.join(" and "), wanted.threads);
        match &self.from {
            RecordingsOrigin::Files(folder) => {
                format!("{}: expected {what} (--record DIR makes such files)", wanted.file(folder).display())
            }
            RecordingsOrigin::Stored | RecordingsOrigin::Here { .. } => what,
        }
    }
}

/// A recording to be had.
struct RecordingNeed<'a> {
    /// They run one after the other.
    queries: &'a [&'a str],
    /// For how many they are planned.
    threads: usize,
    /// The queries run on one of this number of parts of the triples.
    part: u64,
}

impl RecordingNeed<'_> {
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(self.name())
    }

    fn name(&self) -> String {
        format!("{}-{}.trace", self.queries.join("+"), self.threads)
    }
}

/// The name of the model of the last request.
fn last_model(trace: &Trace) -> Option<&str> {
    let requests = |model: &vicus_trace::ModelInfo| model.requests.iter().max().copied();
    trace.header().models.iter().max_by_key(|model| requests(model)).map(|model| model.name.as_str())
}

/// About this many triples, the same each time.
fn dataset_of(triples: u64) -> anyhow::Result<Dataset> {
    let text = generate::sp2b_text(triples, 1)?;
    let source = LoadSource::new("generated triples", Syntax::NTriples, Cursor::new(text));
    let service = engine::serve(Runtime::builder(), None)?;
    let loaded = engine::load(&service, vec![source], &input::Reading::default(), LoadOptions::default())?;
    Ok(loaded.dataset)
}

/// Runs queries one after the other on one thread, planned for `threads`.
fn record(dataset: &Dataset, names: &[&str], threads: usize) -> anyhow::Result<Trace> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let queries = queries::named(&names)?;
    let planned = queries::session_options(&PlanOptions::default());
    let options = SessionOptions { threads: Some(threads), parallel_answers: true, ..planned };
    let mut room = EventLog::DEFAULT_ROOM;
    let runs = (0..RUNS).map(|_| run(dataset, &queries, &options, &mut room)).collect::<anyhow::Result<Vec<Trace>>>();
    Ok(coarse(&quickest(&runs.with_context(|| format!("query {}", names.join(" and ")))?)))
}

/// The trace with only the durations of invocations, which is all that a replay uses of its times, to three binary
/// digits: half an eighth off at most, as often too long as too short. Packed, its file is a sixth as long as unpacked.
fn coarse(trace: &Trace) -> Trace {
    let rounded = |ns: u64| {
        let spare = (u64::BITS - ns.leading_zeros()).saturating_sub(3);
        (ns + (1 << spare >> 1)) >> spare << spare
    };
    let of_seat = |log: &SeatLog| {
        let (mut began, mut now) = (0, 0);
        let mut log = log.clone();
        for event in &mut log.events {
            match event.what {
                What::InvocationBegins { .. } => began = event.time_ns,
                What::InvocationEnds { .. } => now += rounded(event.time_ns.saturating_sub(began)),
                _ => {}
            }
            event.time_ns = now;
        }
        log
    };
    Trace::new(trace.header().clone(), trace.logs().iter().map(of_seat).collect())
}

/// The invocations of a log in their order, with their durations.
fn durations(log: &SeatLog) -> Vec<(JobId, u64)> {
    let mut found: Vec<(JobId, u64)> = Vec::new();
    for event in &log.events {
        match event.what {
            What::InvocationBegins { who } => found.push((who, event.time_ns)),
            What::InvocationEnds { .. } => {
                let last = found.last_mut().expect("an invocation begins before it ends");
                last.1 = event.time_ns - last.1;
            }
            _ => {}
        }
    }
    found
}

/// The first run, with each invocation as long as in its fastest run, if all runs had the same invocations.
fn quickest(runs: &[Trace]) -> Trace {
    let shortened = |seat: usize| {
        let mut log = runs[0].logs()[seat].clone();
        let mut least = durations(&log);
        for run in &runs[1..] {
            let other = durations(&run.logs()[seat]);
            if other.len() == least.len() && other.iter().zip(&least).all(|(other, own)| other.0 == own.0) {
                least.iter_mut().zip(other).for_each(|(least, other)| least.1 = least.1.min(other.1));
            }
        }
        shorten(&mut log, &least);
        log
    };
    Trace::new(runs[0].header().clone(), (0..runs[0].logs().len()).map(shortened).collect())
}

/// Shortens invocations, and moves all later events forward.
fn shorten(log: &mut SeatLog, durations: &[(JobId, u64)]) {
    let (mut next, mut gone, mut end) = (durations.iter(), 0, u64::MAX);
    for event in &mut log.events {
        let time = event.time_ns;
        if let What::InvocationBegins { .. } = event.what {
            end = time + next.next().expect("each invocation has a duration").1;
        }
        event.time_ns = time.min(end) - gone;
        if let What::InvocationEnds { .. } = event.what {
            gone += time - end;
            end = u64::MAX;
        }
    }
}

/// Runs queries once on one thread, with enough room for their events.
fn run(dataset: &Dataset, queries: &[Query], options: &SessionOptions, room: &mut usize) -> anyhow::Result<Trace> {
    let las: vicus::Setting = "las".parse().expect("the strategy exists");
    loop {
        let service = engine::serve(Runtime::builder().strategy(las.clone()).quiet().record(*room), Some(1))?;
        let session = service.session(dataset, options.clone());
        for query in queries {
            let mut call = session.call()?;
            let prepared = call.prepare(&query.text)?;
            call.start(&prepared, Count)?.wait()?;
        }
        drop(session);
        let runtime = service.into_runtime().expect("the only session of the service is over");
        let trace = runtime.trace().expect("it was asked to record");
        if trace.lost() == 0 {
            return Ok(trace);
        }
        // Some events were lost, so it runs again with more room.
        *room *= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_trace::Header;

    /// A run of two invocations with these begin and end times, and an event in the middle of each.
    fn run(times: [u64; 4]) -> Trace {
        let mut log = EventLog::new(100);
        for (index, at) in [(0, 0), (1, 2)] {
            let who = JobId { request: 1, index };
            log.record(times[at], What::InvocationBegins { who });
            log.record((times[at] + times[at + 1]) / 2, What::UserCodeBegins { who });
            log.record(times[at + 1], What::InvocationEnds { who });
        }
        Trace::new(Header::for_seats(1), vec![log.finish()])
    }

    #[test]
    fn durations_have_three_digits() {
        let times = |trace: &Trace| trace.logs()[0].events.iter().map(|event| event.time_ns).collect::<Vec<_>>();
        let coarse = coarse(&run([1000, 1014, 1020, 1107]));
        // 14 is 0b1110; of 87, which is 0b1010111, 80 is left, and nothing of the time between the two.
        assert_eq!(times(&coarse), [0, 0, 14, 14, 14, 14 + 80]);
    }

    /// What happened: two runs of a figure of queries differed, because their recordings did.
    #[test]
    fn each_recording_of_a_figure_is_stored() {
        for (id, figure) in vicus_sim::papers::FIGURES {
            let mut figure = figure();
            let needed = figure.recordings().len();
            assert_eq!(needed > 0, id.starts_with("falt-"), "{id}");
            Recordings::stored().supply(&mut figure).unwrap_or_else(|error| panic!("{id}: {error:#}"));
        }
    }

    #[test]
    fn each_invocation_is_as_long_as_where_it_was_quickest() {
        let times = |trace: &Trace| trace.logs()[0].events.iter().map(|event| event.time_ns).collect::<Vec<_>>();
        let runs = [run([100, 4100, 4200, 4220]), run([50, 80, 90, 3090])];
        assert_eq!(times(&quickest(&runs)), [100, 130, 130, 230, 240, 250], "30 and 20 long, 100 apart");
        assert_eq!(times(&quickest(&runs[..1])), times(&runs[0]));
        let others = Trace::new(Header::for_seats(1), vec![SeatLog::default()]);
        assert_eq!(times(&quickest(&[run([100, 110, 120, 130]), others])), [100, 105, 110, 120, 125, 130]);
    }
}
