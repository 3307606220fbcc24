//! What is measured.

use crate::figures::{Better, Figures};
use crate::http::{Fetched, fetch};
use crate::load::{self, Group, Report, Request, Requests, Size};
use crate::process::Cpus;
use crate::side::{Answer, JSON, Side, TSV};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

const EVERYTHING: &str = "SELECT * WHERE { ?s ?p ?o }";

/// The clients of the mix, and those that ask short queries beside long ones.
const CLIENTS: usize = 16;
/// What a client reads in a second that reads slowly, and how many do.
const SLOW_RATE: u64 = 10_000;
const SLOW_CLIENTS: usize = 100;
/// A query that Vicus answers alone in this time is short.
const SHORT: Duration = Duration::from_millis(5);

pub(crate) struct Bench<'a> {
    pub(crate) sides: Vec<Side>,
    pub(crate) cpus: &'a Cpus,
    pub(crate) figures: Figures,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// A query of the mix is left out if it takes longer.
    pub(crate) limit: Duration,
    pub(crate) connections: Vec<usize>,
    pub(crate) queries: Vec<Query>,
    pub(crate) points: Vec<Point>,
}

pub(crate) struct Query {
    name: String,
    text: String,
}

/// A query with constants that change.
pub(crate) struct Point {
    name: String,
    texts: Vec<String>,
}

/// The queries of a folder, by name.
pub(crate) fn queries(folder: &Path) -> anyhow::Result<Vec<Query>> {
    let failed = || format!("{}: can't be read", folder.display());
    let mut queries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "sparql") {
            let name = path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
            queries.push(Query { name, text: std::fs::read_to_string(&path).with_context(failed)? });
        }
    }
    queries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(queries)
}

/// Q1 with the titles of journals in the data, and Q12c with the names of its persons, in an order without a pattern.
pub(crate) fn points(data: &Path, queries: &[Query]) -> anyhow::Result<Vec<Point>> {
    const MOST: usize = 100_000;
    let (mut titles, mut persons) = (BTreeSet::new(), BTreeSet::new());
    for line in BufReader::new(std::fs::File::open(data)?).lines() {
        let line = line?;
        if let Some((_, title)) = line.split_once("<http://purl.org/dc/elements/1.1/title> \"Journal ") {
            titles.extend(title.split_once('"').map(|(title, _)| format!("Journal {title}")));
        } else if line.ends_with("<http://xmlns.com/foaf/0.1/Person> .") && persons.len() < MOST {
            let name = line.split(' ').next().unwrap_or_default();
            let name =
                name.trim_start_matches("_:").trim_start_matches("<http://localhost/persons/").trim_end_matches('>');
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                persons.insert(name.to_owned());
            }
        }
    }
    let of = |name: &str, constant: &str, values: BTreeSet<String>| -> anyhow::Result<Point> {
        let query = queries.iter().find(|query| query.name == name);
        let text = &query.with_context(|| format!("there is no query {name}"))?.text;
        ensure!(text.contains(constant) && !values.is_empty(), "{name} or the data is not SP2Bench's");
        let mut texts: Vec<String> = values.iter().map(|value| text.replace(constant, value)).collect();
        shuffle(&mut texts);
        Ok(Point { name: name.to_owned(), texts })
    };
    Ok(vec![of("q1", "Journal 1 (1940)", titles)?, of("q12c", "John_Q_Public", persons)?])
}

/// Fisher and Yates' shuffle with Knuth's generator, the same each time.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 7_u64;
    for last in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
}

fn as_first<'a>(side: &Side, texts: impl IntoIterator<Item = &'a String>) -> Requests {
    let request = |text: &String| Request { bytes: side.request(text, JSON), size: Size::AsFirst };
    Requests { all: texts.into_iter().map(request).collect() }
}

impl Bench<'_> {
    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64((self.seconds / 2.0).min(2.0))
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn add(&mut self, name: &str, side: usize, report: &Report) {
        self.add_times(name, side, report);
        self.figures.add(name, "answers/s", Better::Higher, side, report.per_second());
    }

    fn add_times(&mut self, name: &str, side: usize, report: &Report) {
        for (share, shown) in [(0.5, "p50"), (0.99, "p99"), (1.0, "max")] {
            self.figures.add(&format!("{name}, {shown}"), "ms", Better::Lower, side, report.quantile(share));
        }
        if report.errors > 0 {
            let (errors, first) = (report.errors, report.first_error.as_deref().unwrap_or_default());
            let side = self.sides[side].name;
            self.figures.note(format!("{name}: {side} failed {errors} times, the first time: {first}"));
        }
    }

    /// Q1 and Q12c by few and many connections.
    pub(crate) fn points(&mut self) -> anyhow::Result<()> {
        /// So many constants are asked on all sides first, to compare the answers.
        const COMPARED: usize = 20;
        for point in std::mem::take(&mut self.points) {
            let agree: Vec<bool> = self.agreeing(&point.name, &point.texts[..COMPARED.min(point.texts.len())])?;
            let mut requests: Vec<Requests> = self.sides.iter().map(|side| as_first(side, &point.texts)).collect();
            for connections in self.connections.clone() {
                for round in 0..self.rounds {
                    for place in (0..self.sides.len()).filter(|&place| agree[place]) {
                        let (port, side) = (self.sides[place].port, self.sides[place].name);
                        let group = Group { requests: &mut requests[place], connections, rate: None };
                        let report = load::run(port, &mut [group], self.warm_up(), self.time())?.remove(0);
                        let name = format!("{}, {connections} connections", point.name);
                        eprintln!("{name}, round {round}: {side} {:.0}/s", report.per_second());
                        self.add(&name, place, &report);
                    }
                }
            }
            self.points.push(point);
        }
        Ok(())
    }

    /// Whether each side gives as many rows to these queries as the first.
    fn agreeing(&mut self, name: &str, texts: &[String]) -> anyhow::Result<Vec<bool>> {
        let mut agree = vec![true; self.sides.len()];
        for text in texts {
            let answers: Vec<Answer> = self.sides.iter().map(|side| side.ask(text, self.limit)).collect();
            let Answer::Rows { rows: ours, .. } = answers[0] else {
                anyhow::bail!("{name}: {} answers {:?}", self.sides[0].name, answers[0]);
            };
            for (place, answer) in answers.iter().enumerate() {
                let side = self.sides[place].name;
                match answer {
                    Answer::Rows { rows, .. } if *rows == ours => {}
                    Answer::Rows { rows, .. } => {
                        agree[place] = false;
                        self.figures.note(format!("{name}: {side} has {rows} rows instead of {ours}, and is left out"));
                    }
                    other => {
                        agree[place] = false;
                        self.figures.note(format!("{name}: {side} is left out: {other:?}"));
                    }
                }
            }
        }
        Ok(agree)
    }

    /// The queries that all sides answer alike within the limit, each with the size of each side's answer and whether it is short.
    fn common(&mut self) -> anyhow::Result<Vec<(usize, Vec<Size>, bool)>> {
        let mut common = Vec::new();
        for number in 0..self.queries.len() {
            let (name, text) = (self.queries[number].name.clone(), self.queries[number].text.clone());
            let (mut sizes, mut first, mut is_short, mut reason) = (Vec::new(), None, false, None);
            for place in 0..self.sides.len() {
                let side = &mut self.sides[place];
                let answer = side.ask(&text, self.limit);
                match answer {
                    Answer::Rows { rows, size, .. } => {
                        if *first.get_or_insert(rows) != rows {
                            reason = Some(format!("{} has {rows} rows, not {}", side.name, first.unwrap_or_default()));
                            break;
                        }
                        if place == 0 {
                            // The first time, pages and plans may be made.
                            is_short =
                                matches!(side.ask(&text, self.limit), Answer::Rows { time, .. } if time <= SHORT);
                        }
                        sizes.push(size);
                    }
                    Answer::Cut => {
                        reason = Some(format!("{} takes more than {:?}", side.name, self.limit));
                        side.restart(self.cpus)?;
                        break;
                    }
                    Answer::Failed(error) => {
                        reason = Some(format!("{} failed: {error}", side.name));
                        break;
                    }
                }
            }
            match reason {
                Some(reason) => self.figures.note(format!("mix: {name} is left out: {reason}")),
                None => common.push((number, sizes, is_short)),
            }
        }
        ensure!(!common.is_empty(), "no query is answered by all sides within the limit");
        Ok(common)
    }

    /// All queries of SP2Bench that all sides answer, by 16 clients.
    pub(crate) fn mix(&mut self) -> anyhow::Result<()> {
        /// A mix has long queries in it, so it goes on for longer.
        const LONGER: u32 = 3;
        let common = self.common()?;
        let names: Vec<&str> = common.iter().map(|(number, ..)| self.queries[*number].name.as_str()).collect();
        self.figures.note(format!("mix: {}", names.join(" ")));
        for round in 0..self.rounds {
            for place in 0..self.sides.len() {
                let side = &self.sides[place];
                let all = common.iter().map(|(number, sizes, _)| Request {
                    bytes: side.request(&self.queries[*number].text, JSON),
                    size: sizes[place],
                });
                let mut requests = Requests { all: all.collect() };
                let group = Group { requests: &mut requests, connections: CLIENTS, rate: None };
                let report = load::run(side.port, &mut [group], self.warm_up(), self.time() * LONGER)?.remove(0);
                eprintln!("mix, round {round}: {} {:.2}/s", side.name, report.per_second());
                self.add("mix, 16 clients", place, &report);
            }
        }
        Ok(())
    }

    /// Short queries beside two clients that ask Q4 without end.
    pub(crate) fn beside(&mut self) -> anyhow::Result<()> {
        const LONG: usize = 2;
        let common = self.common()?;
        let short: Vec<&(usize, Vec<Size>, bool)> = common.iter().filter(|(.., is_short)| *is_short).collect();
        ensure!(!short.is_empty(), "no query is short");
        let names: Vec<&str> = short.iter().map(|(number, ..)| self.queries[*number].name.as_str()).collect();
        self.figures.note(format!("short beside Q4: {}", names.join(" ")));
        let long = self.queries.iter().find(|query| query.name == "q4").context("there is no query q4")?.text.clone();
        for round in 0..self.rounds {
            for place in 0..self.sides.len() {
                let side = &self.sides[place];
                let all = short.iter().map(|(number, sizes, _)| Request {
                    bytes: side.request(&self.queries[*number].text, JSON),
                    size: sizes[place],
                });
                let mut requests = Requests { all: all.collect() };
                let mut others =
                    Requests { all: vec![Request { bytes: side.request(&long, TSV), size: Size::Varies }] };
                let groups = &mut [
                    Group { requests: &mut requests, connections: CLIENTS, rate: None },
                    Group { requests: &mut others, connections: LONG, rate: None },
                ];
                let reports = load::run(side.port, groups, self.warm_up(), self.time())?;
                eprintln!(
                    "short beside Q4, round {round}: {} {:.0}/s, p99 {:.1} ms; {} answers to Q4, {:.0} MB/s of it",
                    side.name,
                    reports[0].per_second(),
                    reports[0].quantile(0.99),
                    reports[1].latencies.len(),
                    reports[1].bytes as f64 / 1e6 / reports[1].seconds,
                );
                self.add("short beside 2 of Q4", place, &reports[0]);
                // It may still work at what was asked.
                self.sides[place].restart(self.cpus)?;
            }
        }
        Ok(())
    }

    /// All triples to a fast client.
    pub(crate) fn stream(&mut self) -> anyhow::Result<()> {
        /// A side that is slower failed.
        const LIMIT: Duration = Duration::from_secs(120);
        let mut expected = None;
        let mut left_out = vec![false; self.sides.len()];
        for round in 0..self.rounds {
            for place in 0..self.sides.len() {
                if left_out[place] {
                    continue;
                }
                let side = &mut self.sides[place];
                let process = side.process()?;
                process.forget_most()?;
                let (before, _) = process.memory()?;
                let mut lines = 0_u64;
                let mut count = |bytes: &[u8]| lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
                let fetched = fetch(side.port, &side.request(EVERYTHING, TSV), LIMIT, &mut count);
                let (_, most) = process.memory()?;
                let wrong = match fetched {
                    Ok(Fetched::Whole { status: 200, time, bytes }) => {
                        if *expected.get_or_insert(lines) == lines {
                            let rate = bytes as f64 / 1e6 / time.as_secs_f64();
                            let name = side.name;
                            eprintln!("stream, round {round}: {name} {rate:.0} MB/s, {} MiB before", before >> 20);
                            let grown = most.saturating_sub(before) as f64 / f64::from(1 << 20);
                            self.figures.add("all triples as TSV", "MB/s", Better::Higher, place, rate);
                            self.figures.add(
                                "all triples, memory before",
                                "MiB",
                                Better::Lower,
                                place,
                                (before >> 20) as f64,
                            );
                            self.figures.add("all triples, memory added", "MiB", Better::Lower, place, grown);
                            continue;
                        }
                        format!("{lines} lines instead of {}", expected.unwrap_or_default())
                    }
                    Ok(Fetched::Whole { status, .. }) => format!("status {status}"),
                    Ok(Fetched::Cut) => format!("more than {LIMIT:?}"),
                    Err(error) => format!("{error:#}"),
                };
                left_out[place] = true;
                self.figures.note(format!("all triples as TSV: {} is left out: {wrong}", self.sides[place].name));
                self.sides[place].restart(self.cpus)?;
            }
        }
        Ok(())
    }

    /// All triples to 100 slow clients, and Q1 meanwhile.
    pub(crate) fn slow(&mut self) -> anyhow::Result<()> {
        let texts = self.points.first().context("Q1 is the first point query")?.texts.clone();
        for round in 0..self.rounds {
            for place in 0..self.sides.len() {
                let side = &self.sides[place];
                let mut requests = as_first(side, &texts);
                let all = Request { bytes: side.request(EVERYTHING, TSV), size: Size::Varies };
                let mut others = Requests { all: vec![all] };
                let process = side.process()?;
                process.forget_most()?;
                let (before, _) = process.memory()?;
                let groups = &mut [
                    Group { requests: &mut requests, connections: 1, rate: None },
                    Group { requests: &mut others, connections: SLOW_CLIENTS, rate: Some(SLOW_RATE) },
                ];
                let reports = load::run(side.port, groups, self.warm_up(), self.time().max(Duration::from_secs(5)))?;
                let (_, most) = process.memory()?;
                let grown = most.saturating_sub(before) as f64 / f64::from(1 << 20);
                let read = reports[1].bytes as f64 / 1e3 / reports[1].seconds / SLOW_CLIENTS as f64;
                eprintln!(
                    "slow clients, round {round}: {} {grown:.0} MiB added, Q1 p50 {:.2} ms; {read:.1} kB/s to each",
                    side.name,
                    reports[0].quantile(0.5),
                );
                if reports[1].errors > 0 || read < SLOW_RATE as f64 / 2e3 {
                    let first = reports[1].first_error.as_deref().unwrap_or("no error");
                    let (name, errors) = (side.name, reports[1].errors);
                    self.figures.note(format!(
                        "100 slow clients: {name} sent {read:.1} kB/s to each, with {errors} errors, the first: {first}"
                    ));
                }
                self.figures.add("100 slow clients, memory added", "MiB", Better::Lower, place, grown);
                self.add_times("Q1 beside 100 slow clients", place, &reports[0]);
                self.sides[place].restart(self.cpus)?;
            }
        }
        Ok(())
    }

    /// The processors' time of servers without clients.
    pub(crate) fn idle(&mut self) -> anyhow::Result<()> {
        const LONG: Duration = Duration::from_secs(5);
        // What was asked before may have left work.
        std::thread::sleep(Duration::from_secs(2));
        let before = self.sides.iter().map(|side| side.process()?.cpu_time()).collect::<anyhow::Result<Vec<_>>>()?;
        std::thread::sleep(LONG);
        for (place, before) in before.into_iter().enumerate() {
            let used = self.sides[place].process()?.cpu_time()?.saturating_sub(before);
            self.figures.add("5 s without clients, CPU time", "ms", Better::Lower, place, used.as_secs_f64() * 1e3);
        }
        Ok(())
    }

    /// From the start of a process to its first answer, with files in the system's cache.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.rounds {
            for (place, side) in self.sides.iter_mut().enumerate().filter(|(_, side)| side.is_store) {
                let took = side.restart(self.cpus)?;
                self.figures.add("start to first answer", "ms", Better::Lower, place, took.as_secs_f64() * 1e3);
            }
        }
        Ok(())
    }
}
