//! `vicus query`: loads RDF files and answers SPARQL queries.

mod output;
mod report;
mod syntax;

use crate::engine::{self, Stopped};
use crate::input;
use crate::interrupt;
use crate::memory;
use crate::tell::tell;
use anyhow::{Context, anyhow, bail, ensure};
use output::{Format, Writer};
use report::{Report, Timing, Timings};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting, Totals};
use vicus_rdf::Store;
use vicus_rdf::load::{LoadOptions, OnError, Syntax};
use vicus_sparql::{Moment, Options, ParseOptions, Parsed, Plan, QueryError, QueryErrorKind, parsing_bytes_with};

/// See `vicus query --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// N-Triples or Turtle by the ending (.nt, .ttl, with .gz or without); - is standard input. Several files are one
    /// graph, whose blank nodes are kept apart by file.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<OsString>,
    /// The syntax of all data files, whatever their endings.
    #[arg(long, value_enum)]
    syntax: Option<SyntaxName>,
    /// A query's file; may be given several times, each is answered in turn.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    query: Vec<PathBuf>,
    /// The query itself. After --data FILE... the last word is the query if there is no --query.
    #[arg(value_name = "TEXT", conflicts_with = "query")]
    text: Option<String>,
    /// How results are written to standard output. `count` is one line a query: its name, a tab, its rows or yes/no.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Who runs what next, with parameters as in las:pin=pu; see `vicus strategies`; by default what VICUS_STRATEGY says, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How many threads; by default one for each PU that this process may use.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Rows in an envelope.
    #[arg(long, value_name = "N", default_value_t = Options::default().envelope_rows, value_parser = rows)]
    envelope_rows: usize,
    /// Runs K copies of each query at once; the first one's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = copies)]
    concurrent: usize,
    /// Runs each query K times; the first time's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = at_least_one)]
    repeat: usize,
    /// A query fails when what it holds in memory, its parsed text and its plan included, grows beyond this many bytes: 500000, 64K, 10M, 2G. By default half
    /// of what is free when it begins.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// A query is cancelled when it takes longer, from parsing its text on: 30, 1.5s, 500ms.
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    timeout: Option<Duration>,
    /// What relative IRIs of a query are resolved against, until it has a BASE of its own.
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
    /// Refuses queries that call a function that there is not; otherwise such a call is an error, which a FILTER takes for
    /// false.
    #[arg(long)]
    strict_functions: bool,
    /// As many bytes at most as a query's text has: 500000, 64K, 10M.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = ParseOptions::default().bytes as u64)]
    max_query_bytes: u64,
    /// How many levels at most a query is nested, 1 to 10000: brackets, and operators and patterns that stand on the one before,
    /// such as OPTIONAL, BIND, EXISTS and paths of any length.
    #[arg(long, value_name = "LEVELS", value_parser = levels, default_value_t = ParseOptions::default().depth)]
    max_query_depth: usize,
    /// By how many bytes a query may be longer with its names written out, for each byte of its text and for 1024 more: a prefix or
    /// a base may be long, and names that have it many.
    #[arg(long, value_name = "TIMES", default_value_t = ParseOptions::default().longer)]
    max_longer: usize,
    /// How many signs of property paths may count once more because their path has another object; for long queries one more for
    /// four bytes of text.
    #[arg(long, value_name = "N", default_value_t = ParseOptions::default().path_signs)]
    max_path_signs: usize,
    /// As many steps at most as planning a query takes: looks at operators, at their variables, and at ways to join, some ten
    /// nanoseconds each. What meets this first has very many variables in very many patterns.
    #[arg(long, value_name = "N", default_value_t = Options::default().plan_steps, value_parser = clap::value_parser!(u64).range(1..))]
    max_plan_steps: u64,
    /// Prints times, rows, tasks, and bytes that boxes took near and far (from another NUMA node) to standard error, a line
    /// for each query and repeat; as JSON objects with =json.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    timings: Option<Timings>,
    /// Records what happens on every thread; see `vicus trace`. Short queries, which otherwise run on the thread that asks, run on
    /// these threads then.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The longest line of data, in Turtle the longest statement: 64K, 10M, 2G. A longer one, such as all of /dev/zero, is an
    /// error; it has to be in memory as a whole.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    max_line: u64,
    /// What hashes of terms and rows are keyed with; by default chance, so that data and queries can't be written that make
    /// tables slow. The same number gives the same tables.
    #[arg(long, value_name = "N", env = "VICUS_HASH_SEED")]
    hash_seed: Option<u64>,
    /// Leaves malformed lines of the data out, and says how many.
    #[arg(long)]
    skip_malformed: bool,
    /// Prints each query's plan instead of running it: operators with estimated rows and their boxes; boxes with their vias.
    /// With --timings each query is run, its results are not written, and the plan has the actual rows and bytes of each
    /// operator and box in the first run.
    #[arg(long)]
    explain: bool,
}

impl Args {
    fn parse_options(&self) -> ParseOptions<'_> {
        ParseOptions {
            base: self.base.as_deref(),
            bytes: usize::try_from(self.max_query_bytes).unwrap_or(usize::MAX),
            longer: self.max_longer,
            path_signs: self.max_path_signs,
            depth: self.max_query_depth,
            strict_functions: self.strict_functions,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum SyntaxName {
    /// N-Triples.
    Nt,
    /// Turtle.
    Ttl,
}

fn rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| (1..=1 << 24).contains(rows)).ok_or_else(|| "expected 1 to 16777216".to_owned())
}

fn levels(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|levels| (1..=ParseOptions::MOST_DEPTH).contains(levels))
        .ok_or_else(|| "expected 1 to 10000".to_owned())
}

fn copies(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|copies| (1..=4096).contains(copies)).ok_or_else(|| "expected 1 to 4096".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count >= 1).ok_or_else(|| "expected a number of at least 1".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of bytes, with K, M or G for 1024, 1024² or 1024³ of them".to_owned();
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1u64),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let parsed = number.trim().parse::<f64>().ok().map(|number| number * seconds);
    let parsed = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| "expected a time in seconds, or in milliseconds as in 500ms".to_owned())
}

/// A query's name and text.
struct Question {
    name: String,
    text: String,
    /// How many bytes of memory it takes at most to parse it.
    parsing_bytes: u64,
}

impl Question {
    /// An error for people.
    fn error(&self, stopped: Stopped) -> anyhow::Error {
        engine::plain(stopped).context(format!("query {}", self.name))
    }

    /// Itself, if its text can be parsed within so many bytes.
    fn fits(&self, limit: u64) -> anyhow::Result<&Question> {
        let needed = self.parsing_bytes;
        match limit.checked_sub(needed) {
            Some(_) => Ok(self),
            None => Err(self.error(Stopped::over(limit, vec![("its text, when it is parsed,".to_owned(), needed)]))),
        }
    }

    /// What is left of a limit for what its boxes hold: the rest is its text's and its plan's.
    fn budget(&self, plan: &Plan, limit: u64) -> anyhow::Result<u64> {
        let (text, plan) = (self.parsing_bytes, plan.bytes());
        let holders = || vec![("its plan".to_owned(), plan), ("its text".to_owned(), text)];
        limit.checked_sub(text + plan).ok_or_else(|| self.error(Stopped::over(limit, holders())))
    }

    fn parse(&self, until: Option<Instant>, options: &ParseOptions<'_>) -> anyhow::Result<Parsed> {
        let too_long = || anyhow!("query {}: it has more than {} bytes (--max-query-bytes)", self.name, options.bytes);
        ensure!(self.text.len() <= options.bytes, too_long());
        let parsed = vicus_sparql::parse_with(&self.text, options).map_err(|error| with_caret(&error, self))?;
        engine::over(until, "parsing").map_or(Ok(parsed), |stopped| Err(self.error(stopped)))
    }

    fn plan(
        &self,
        until: Option<Instant>,
        store: &Arc<Store>,
        parsed: &Parsed,
        options: &Options,
    ) -> anyhow::Result<Arc<Plan>> {
        let over = || engine::over(until, "planning");
        let plan = vicus_sparql::plan_until(store, parsed, options, &|| over().is_some());
        // A plan that was stopped says so, and one that came too late is late all the same.
        over().map_or(Ok(()), |stopped| Err(self.error(stopped)))?;
        plan.map(Arc::new).map_err(|error| match error.kind {
            QueryErrorKind::TooManyBytes { needed } => {
                let text = self.parsing_bytes;
                let holders = vec![("its plan".to_owned(), needed), ("its text".to_owned(), text)];
                self.error(Stopped::over(text + options.plan_bytes, holders))
            }
            _ => with_caret(&error, self),
        })
    }
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    engine::check_threads(args.threads)?;
    let strategy = crate::strategy::one(args.strategy.as_ref())?;
    if args.text.is_none() && args.query.is_empty() {
        // `--data a.nt b.nt 'SELECT …'`: the list of files takes every word, the query too.
        let text = args.data.pop().filter(|_| !args.data.is_empty());
        let Some(text) = text else {
            bail!("there is no query: give its text after the data files, or its file with --query");
        };
        let refused = |text: OsString| anyhow!("query query: `{}` is no UTF-8", text.to_string_lossy());
        args.text = Some(text.into_string().map_err(refused)?);
    }
    let questions = questions(&args)?;
    let mut builder = Runtime::builder().strategy(strategy);
    if let Some(path) = &args.trace {
        // Found out now, not after the work.
        std::fs::File::create(path).with_context(|| format!("{}: can't be written", path.display()))?;
        builder = builder.record(vicus_trace::Log::DEFAULT_ROOM);
    }
    let syntax = args.syntax.map(|name| match name {
        SyntaxName::Nt => Syntax::NTriples,
        SyntaxName::Ttl => Syntax::Turtle,
    });
    let (sources, reading) = input::open(&args.data, syntax)?;
    // Mistakes in the queries come before the data is read.
    let limit = args.memory_limit.unwrap_or_else(memory::free_limit);
    let parse = |question: &Question| question.fits(limit)?.parse(until(args.timeout), &args.parse_options());
    questions.iter().try_for_each(|question| parse(question).map(drop))?;

    let runtime = engine::start(builder, args.threads)?;
    let on_error = if args.skip_malformed { OnError::Skip } else { OnError::Fail };
    let longest_line = usize::try_from(args.max_line).unwrap_or(usize::MAX);
    let hash_seed = *args.hash_seed.get_or_insert_with(by_chance);
    let options = LoadOptions { on_error, longest_line, hash_seed, ..LoadOptions::default() };
    let loaded = engine::load(&runtime, sources, &reading, options)?;
    if loaded.skipped > 0 {
        let first = loaded.first_skipped.as_deref().unwrap_or("unknown");
        tell(format_args!("vicus: {} malformed lines were left out; the first: {first}", loaded.skipped));
    }
    let mut report = Report::new(args.timings);
    let done = questions.iter().try_for_each(|question| answer(question, &args, &runtime, &loaded.store, &mut report));
    let reported = report.load(loaded.load_ms, loaded.store.len());
    if let Some(path) = &args.trace {
        let trace = runtime.trace().expect("it was asked to record");
        write_trace(path, &trace)?;
    }
    match done {
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done.and(reported),
    }
}

fn questions(args: &Args) -> anyhow::Result<Vec<Question>> {
    let question = |name, text: String| {
        let parsing_bytes = parsing_bytes_with(&text, &args.parse_options());
        Question { name, text, parsing_bytes }
    };
    if let Some(text) = &args.text {
        return Ok(vec![question("query".to_owned(), text.clone())]);
    }
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: can't be read", path.display()))?;
        let name = path.file_stem().map_or_else(|| "query".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok(question(name, text))
    };
    args.query.iter().map(read).collect()
}

/// Answers one query as often as asked, and writes the first answer.
fn answer(
    question: &Question,
    args: &Args,
    runtime: &Runtime,
    store: &Arc<Store>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut first = None;
    for repeat in 1..=args.repeat {
        let began = Instant::now();
        let until = until(args.timeout);
        let parsed = question.parse(until, &args.parse_options())?;
        let parse_ms = began.elapsed().as_secs_f64() * 1e3;
        let limit = args.memory_limit.unwrap_or_else(memory::free_limit);
        let began = Instant::now();
        let threads = runtime.plan().threads();
        let sinks = if args.format.is_parallel() { threads } else { 1 };
        let options = Options {
            envelope_rows: args.envelope_rows,
            threads,
            sinks,
            hash_seed: args.hash_seed.unwrap_or_else(by_chance),
            plan_steps: args.max_plan_steps,
            plan_bytes: limit.saturating_sub(question.parsing_bytes),
            ..Options::default()
        };
        let plan = question.plan(until, store, &parsed, &options)?;
        let plan_ms = began.elapsed().as_secs_f64() * 1e3;
        if args.explain && args.timings.is_none() {
            return show(&plan.explain());
        }
        let budget = question.budget(&plan, limit)?;
        let began = Instant::now();
        // What NOW is and RAND begins with.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_ms = since.map_or(0, |since| since.as_millis() as i64);
        let moment = Moment { now_ms, seed: now_ms as u64 };
        let copies: Vec<_> = (0..args.concurrent)
            .map(|copy| {
                let shown = repeat == 1 && copy == 0 && !args.explain;
                let format = if shown { args.format } else { Format::Count };
                let writer = Writer::new(&plan, moment, format, &question.name);
                let operators = writer.operators();
                // Copies that are to run at once begin on the runtime's threads.
                let request = match args.concurrent {
                    1 => engine::submit(runtime, &plan, operators, budget, until),
                    _ => runtime.submit_within(plan.model(), operators, budget),
                };
                (request, writer)
            })
            .collect();
        let mut totals = Totals::default();
        let mut rows = Vec::new();
        for (request, writer) in copies {
            match engine::wait(&request, until, || ()) {
                Ok(cost) => totals = totals + cost,
                // An answer that nobody reads any more.
                Err(Stopped::Failed(_)) if writer.is_broken_pipe() => {
                    bail!(std::io::Error::from(std::io::ErrorKind::BrokenPipe))
                }
                Err(stopped) => return Err(question.error(stopped.of_budget(limit))),
            }
            let is_first = repeat == 1 && rows.is_empty();
            if args.explain && is_first {
                show(&plan.explain_with(&request.counts()))?;
            }
            rows.push(writer.finish(is_first && !args.explain).context("standard output")?);
        }
        let run_ms = began.elapsed().as_secs_f64() * 1e3;
        let expected = *first.get_or_insert(rows[0]);
        if let Some(other) = rows.iter().find(|&&other| other != expected && !plan.may_differ()) {
            bail!("query {}: one run had {expected} rows and another {other}; please report this", question.name);
        }
        report.query(&Timing { query: &question.name, repeat, parse_ms, plan_ms, run_ms, rows: rows[0], totals })?;
    }
    Ok(())
}

/// A number that nobody knows: what the system gives for the hash maps of std.
fn by_chance() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

/// When a query that begins now has taken too long. A time that no clock reaches is none.
fn until(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

fn show(plan: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(plan.as_bytes()).context("standard output")
}

/// A mistake in a query, with the line that it is on and a caret under it.
fn with_caret(error: &QueryError, question: &Question) -> anyhow::Error {
    let option = match error.kind {
        QueryErrorKind::TooLong => " (--max-query-bytes)",
        QueryErrorKind::TooDeep => " (--max-query-depth)",
        QueryErrorKind::NamesTooLong => " (--max-longer)",
        QueryErrorKind::TooManySigns => " (--max-path-signs)",
        QueryErrorKind::WrongBase => " (--base)",
        QueryErrorKind::TooManySteps => " (--max-plan-steps)",
        _ => "",
    };
    let mut text = format!("query {}: {error}{option}", question.name);
    // Line 0: the mistake is nowhere in particular.
    let (line_number, column) = (error.line, error.column.max(1));
    if line_number > 0
        && let Some(line) = question.text.lines().nth(line_number - 1)
    {
        // Long lines are cut around the place.
        let from = column.saturating_sub(60);
        let shown: String = line.chars().skip(from).take(100).map(|c| if c == '\t' { ' ' } else { c }).collect();
        let caret = " ".repeat(column - 1 - from.min(column - 1));
        text.push_str(&format!("\n  {shown}\n  {caret}^"));
    }
    anyhow::Error::msg(text)
}

/// Writes a trace file; errors name it.
pub(crate) fn write_trace(path: &Path, trace: &vicus_trace::Trace) -> anyhow::Result<()> {
    let cannot = || format!("{}: can't be written", path.display());
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).with_context(cannot)?);
    trace.write_to(&mut file).with_context(cannot)?;
    file.flush().with_context(cannot)?;
    if trace.lost() > 0 {
        tell(format_args!("vicus: {} events did not fit into the trace", trace.lost()));
    }
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
