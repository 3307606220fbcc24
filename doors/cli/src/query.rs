//! `vicus query`: loads RDF files and answers SPARQL queries. `vicus sql`: the same for SQL.

mod format;
mod parquet;
mod progress;
mod report;
mod tables;
mod target;

use crate::arguments::{AnswerArgs, DataArgs, LimitArgs, RootsArgs, RuntimeArgs};
use crate::engine::plain;
use crate::interrupt;
use crate::memory;
use crate::messages::tell;
use crate::network;
use crate::peers::PeerArgs;
use crate::recording::TraceArgs;
use crate::spill::SpillArgs;
use crate::strategy;
use crate::web::WebArgs;
use anyhow::{Context, anyhow, bail, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use format::Format;
use parquet::ParquetSink;
use progress::outcome;
use report::{Report, Timing, Timings};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
pub(crate) use tables::{ColumnTypes, column_types, table, tables};
use target::Target;
use vicus::{Totals, environment};
use vicus_service::data::Syntax;
use vicus_service::{
    Answer, Call, CallLimits, CallOutcome, CheckedText, Count, Dataset, Error, LANGUAGES, MOST_DEPTH, MemoryBudget,
    Moment, NetworkOptions, PlanOptions, Prepared, QueryLanguage, RemarkKind, RunningQuery, Screen, Service, Session,
    SessionOptions, TextError, TextOption, TextSink, check, language, option_of,
};

/// The rows of a table on a terminal, unless all are wanted.
const SHOWN_ROWS: usize = 40;

/// See `vicus query --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// The folder of a store, to be asked instead of files: as it is now, beside a process that may be writing to it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["data", "syntax", "skip_malformed"])]
    store: Option<PathBuf>,
    /// The language of the queries. In SQL, a table is a file ('people.csv', or by its name in --table), a predicate of
    /// the data by its IRI, with columns subject and object, or the solutions of a query, SPARQL('SELECT …').
    #[arg(long, value_parser = languages(), default_value = LANGUAGES[0].name())]
    language: &'static dyn QueryLanguage,
    /// For SQL, a file as a table of this name: .parquet, .csv, .tsv, .jsonl, .arrow or .arrows. May be given several
    /// times.
    #[arg(long, value_name = "NAME=FILE", value_parser = table)]
    table: Vec<(String, PathBuf)>,
    /// The types of columns of a CSV file: boolean, bigint, double, varchar, date or timestamp; the others are
    /// inferred. NAME is the table's, or the path in the statement. Without a value, prints the types of all tables'
    /// columns in this form instead of an answer. May be given several times.
    #[arg(long, value_name = "NAME=COLUMN:TYPE,…", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = column_types)]
    table_types: Vec<OptionalTypes>,
    /// A query's file, or - for standard input; may be given several times, each is answered in turn.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    query: Vec<PathBuf>,
    /// The query itself.
    #[arg(value_name = "TEXT", conflicts_with = "query")]
    text: Option<OsString>,
    /// Further words after the query, which are an error: most likely files from a pattern expanded by the shell.
    #[arg(hide = true)]
    rest: Vec<OsString>,
    /// The format of results: `table` to `tsv` for SELECT and ASK, `nt` to `jsonld` for CONSTRUCT and DESCRIBE. By
    /// default that of the file's ending, or table, or ttl for triples. `count` is one line for each query: its name, a
    /// tab, its rows, triples or yes/no.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file for the results, in the format of its ending (.csv, .tsv, .json, .xml, .txt, .nt, .nq, .ttl, .trig,
    /// .rdf, .jsonld, .arrow, .parquet), packed by gzip or zstd with .gz or .zst behind the ending; by default, or with
    /// -, standard output. An existing file stays until all is written, and after an error.
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    output: Option<PathBuf>,
    /// On a terminal, shows all rows of a table; otherwise the first 40. In a file or a pipe are always all.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    runtime: RuntimeArgs,
    #[command(flatten)]
    runs: RunArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    spill: SpillArgs,
    #[command(flatten)]
    web: WebArgs,
    /// The base IRI of relative IRIs in a query, until it has a BASE of its own.
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
    #[command(flatten)]
    answers: AnswerArgs,
    #[command(flatten)]
    peers: PeerArgs,
    #[command(flatten)]
    roots: RootsArgs,
}

/// How often queries are run, and how the runs are measured.
#[derive(clap::Args)]
struct RunArgs {
    /// Rows in an envelope.
    #[arg(long, value_name = "N", default_value_t = PlanOptions::default().envelope_rows, value_parser = rows)]
    #[arg(help_heading = "Runs and their measurement")]
    envelope_rows: usize,
    /// Runs K copies of each query at once; the first one's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = copies)]
    #[arg(help_heading = "Runs and their measurement")]
    concurrent: usize,
    /// Runs each query K times; the first time's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = at_least_one)]
    #[arg(help_heading = "Runs and their measurement")]
    repeat: usize,
    /// Prints times, rows, tasks, and bytes that boxes took near and far (from another NUMA node) to standard error, a
    /// line for each query and repeat; as JSON objects with =json.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    #[arg(help_heading = "Runs and their measurement")]
    timings: Option<Timings>,
    #[command(flatten)]
    trace: TraceArgs,
    /// The key of the hashes of terms and rows; by default random, so that data and queries can't be made to slow the
    /// tables down. The same number gives the same tables. VICUS_HASH_SEED sets it, too.
    #[arg(long, value_name = "N", help_heading = "Runs and their measurement")]
    hash_seed: Option<u64>,
    /// Prints each query's plan instead of running it: operators with estimated rows and their boxes; boxes with their
    /// vias. With --timings each query is run, its results are not written, and the plan has the actual rows and bytes
    /// of each operator and box in the first run.
    #[arg(long, help_heading = "Runs and their measurement")]
    explain: bool,
}

impl Args {
    /// Sets the seed if it was not given: from the environment, else by chance.
    fn choose_hash_seed(&mut self) -> anyhow::Result<u64> {
        let given = self.runs.hash_seed.map(Ok).or_else(environment::hash_seed).transpose().map_err(strategy::wrong)?;
        Ok(*self.runs.hash_seed.insert(given.unwrap_or_else(by_chance)))
    }

    /// The format of an answer of this form, if the options name one or the file's ending does.
    fn named_format(&self, form: &Answer) -> Option<Format> {
        self.format.or_else(|| Format::by_ending(&self.output.as_ref()?.to_string_lossy(), form))
    }

    fn format_of(&self, form: &Answer) -> Format {
        self.named_format(form).unwrap_or(Format::usual(form))
    }

    /// The receiver of an answer as text. On a terminal, tables fit its lines.
    fn sink(&self, format: vicus_service::Format, target: &Target) -> TextSink<Target> {
        let screen = target.is_terminal().then(|| Screen {
            columns: terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| width.0.into()),
            rows: if self.all { usize::MAX } else { SHOWN_ROWS },
            all: "--all",
        });
        TextSink::new(format, target.clone()).on_screen(screen)
    }

    /// The options of its session, after [`Args::choose_hash_seed`]; each query has a moment of its own.
    fn session_options(&self) -> anyhow::Result<SessionOptions> {
        let mut options = SessionOptions {
            language: self.language,
            base: self.base.clone(),
            plan: PlanOptions {
                envelope_rows: self.runs.envelope_rows,
                hash_seed: self.runs.hash_seed.expect("it was chosen"),
                ..PlanOptions::default()
            },
            // A table is kept, and its rows stand in one order. A Parquet file has one writer, whose memory is booked.
            parallel_answers: self
                .named_format(&Answer::Triples)
                .is_some_and(|format| !matches!(format, Format::Table | Format::Parquet)),
            counts: self.runs.explain,
            web: self.web.web(),
            temporary: self.spill.folder(self.store.as_deref())?,
            peers: self.peers.connect(&self.roots)?,
            limits: interrupt::limits(),
            ..SessionOptions::default()
        };
        self.data.documents.apply(&mut options);
        self.answers.apply(&mut options);
        self.limits.apply(&mut options);
        Ok(options)
    }

    /// The memory limit of all copies of a query together.
    fn memory(&self) -> u64 {
        let of_copies = |limit: u64| limit.saturating_mul(self.runs.concurrent as u64);
        self.limits.memory_limit.map_or_else(memory::free_limit, of_copies)
    }
}

/// Reads the name of a language.
fn languages() -> impl TypedValueParser<Value = &'static dyn QueryLanguage> {
    let names = LANGUAGES.map(|language| PossibleValue::new(language.name()).help(language.about()));
    PossibleValuesParser::new(names).map(|name| language(&name).expect("it is a possible value"))
}

/// The value of `--table-types`: clap takes an `Option` for an option that may be missing.
type OptionalTypes = std::option::Option<ColumnTypes>;

/// The default graph of queries.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DefaultGraph {
    /// The triples in no named graph.
    Own,
    /// The union of all named graphs.
    Union,
}

impl DefaultGraph {
    pub(crate) fn planned(self) -> vicus_service::DefaultGraph {
        match self {
            DefaultGraph::Own => vicus_service::DefaultGraph::Own,
            DefaultGraph::Union => vicus_service::DefaultGraph::Union,
        }
    }
}

/// A syntax of RDF, as options name it.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum SyntaxName {
    /// N-Triples.
    #[value(alias = "ntriples")]
    Nt,
    /// N-Quads.
    #[value(alias = "nquads")]
    Nq,
    /// Turtle.
    #[value(alias = "turtle")]
    Ttl,
    /// TriG.
    Trig,
    /// RDF/XML.
    #[value(alias = "rdf")]
    Rdfxml,
    /// JSON-LD, without contexts elsewhere.
    Jsonld,
}

impl SyntaxName {
    pub(crate) fn syntax(self) -> Syntax {
        match self {
            SyntaxName::Nt => Syntax::NTriples,
            SyntaxName::Nq => Syntax::NQuads,
            SyntaxName::Ttl => Syntax::Turtle,
            SyntaxName::Trig => Syntax::TriG,
            SyntaxName::Rdfxml => Syntax::RdfXml,
            SyntaxName::Jsonld => Syntax::JsonLd,
        }
    }
}

fn rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| (1..=1 << 24).contains(rows)).ok_or_else(|| "expected 1 to 16777216".to_owned())
}

pub(crate) fn levels(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|levels| (1..=MOST_DEPTH).contains(levels)).ok_or_else(|| "expected 1 to 10000".to_owned())
}

fn copies(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|copies| (1..=4096).contains(copies)).ok_or_else(|| "expected 1 to 4096".to_owned())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count >= 1).ok_or_else(|| "expected a number of at least 1".to_owned())
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of bytes, with K, M, G or KiB … for 1024, 1024², 1024³".to_owned();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    text[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let parsed = number.trim().parse::<f64>().ok().map(|number| number * seconds);
    let parsed = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| "expected a time in seconds, or in milliseconds as in 500ms".to_owned())
}

/// The text of a query or an update.
pub(crate) struct QueryText {
    /// Its file's name, without the ending; of the command line's text the noun alone.
    pub(crate) name: String,
    /// Its name in errors.
    title: String,
    pub(crate) text: String,
}

impl QueryText {
    /// The text of the command line. `noun`: `query` or `update`.
    pub(crate) fn given(noun: &str, text: OsString) -> anyhow::Result<QueryText> {
        let title = format!("the {noun}");
        let refused = |text: OsString| anyhow!("{title}: `{}` is no UTF-8", text.to_string_lossy());
        Ok(QueryText { text: text.into_string().map_err(refused)?, name: noun.to_owned(), title })
    }

    /// The text of a file, or of standard input for `-`.
    pub(crate) fn read(noun: &str, path: &Path) -> anyhow::Result<QueryText> {
        if path.as_os_str() == "-" {
            let text = io::read_to_string(io::stdin()).context("standard input can't be read")?;
            return Ok(QueryText { title: "standard input".to_owned(), name: noun.to_owned(), text });
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: can't be read", path.display()))?;
        let name = path.file_stem().map_or_else(|| noun.to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok(QueryText { title: format!("{noun} {name}"), name, text })
    }

    /// An error for people.
    pub(crate) fn error(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Query(error) => with_caret(&error, &self.title, &self.text),
            error => plain(error).context(self.title.clone()),
        }
    }
}

/// Runs `vicus sql`.
pub(crate) fn run_sql(mut args: Args) -> anyhow::Result<()> {
    args.language = language("sql").expect("a language");
    run(args)
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    if args.language.needs_data() && args.data.data.is_empty() && args.store.is_none() && args.table.is_empty() {
        let missing = "the following required arguments were not provided:\n  --data <FILE>, or --store <DIR>\n";
        return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, missing).into());
    }
    interrupt::listen();
    let builder = args.runtime.builder()?;
    let hash_seed = args.choose_hash_seed()?;
    let asks_types = args.table_types.iter().any(Option::is_none);
    let is_asked = args.text.is_some() || !args.query.is_empty();
    let questions = if asks_types && !is_asked { Vec::new() } else { questions(&args)? };
    let builder = args.runs.trace.begin(builder)?;
    let opened = args.data.open()?;
    // Errors in the queries are reported before the data is read.
    let memory = MemoryBudget::new(args.memory());
    let mut options = args.session_options()?;
    let read = |question: QueryText| {
        let bytes = options.text.bytes;
        let too_long = || anyhow!("{}: it has more than {bytes} bytes (--max-query-bytes)", question.title);
        ensure!(question.text.len() <= bytes, too_long());
        let checked = check(&question.text, &memory, &options).map_err(|error| question.error(error))?;
        let form = checked.question().answer;
        match args.format_of(&form) {
            Format::Parquet => {
                ensure!(form != Answer::Truth, "{}: yes or no can't be written as parquet", question.title);
            }
            format => {
                let written = format.of_text().map_or(Ok(()), |format| format.check(&form));
                written.map_err(|wrong| question.error(Error::Format(wrong)))?;
            }
        }
        Ok((question, checked))
    };
    let questions = questions.into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let is_parquet =
        |(_, checked): &(QueryText, CheckedText)| args.format_of(&checked.question().answer) == Format::Parquet;
    if questions.iter().any(is_parquet) {
        ensure!(
            questions.len() == 1,
            "a Parquet file holds the answer of one query, and there are {}",
            questions.len()
        );
        let is_file = args.output.as_ref().is_some_and(|path| !vicus_service::is_stdout(path));
        ensure!(is_file, "Parquet is written into a file: name it with --output");
    }
    let mut target = Target::new(args.output.as_deref(), args.format)?;

    let service = Service::new(args.runtime.start(builder)?, memory);
    let (dataset, time) = match &args.store {
        Some(path) => {
            let began = Instant::now();
            (crate::store::read(path)?, began.elapsed())
        }
        None => {
            let loaded = DataArgs::load(&service, opened, args.data.load_options(hash_seed))?;
            (loaded.dataset, loaded.time)
        }
    };
    let statements = questions.iter().filter(|(_, checked)| checked.language().name() == "sql");
    let statements: Vec<&str> = statements.map(|(question, _)| question.text.as_str()).collect();
    let types: Vec<ColumnTypes> = args.table_types.iter().flatten().cloned().collect();
    options.languages.network = NetworkOptions { kinds: Arc::new(network::kinds()), has_writers: true };
    options.languages.sql = tables(&args.table, &types, &statements, args.limits.timeout)?;
    if asks_types {
        return write(&mut target, &tables::shown(&options.languages.sql)).and_then(|()| Ok(target.keep()?));
    }
    let mut report = Report::new(args.runs.timings);
    // A text's tree is dropped behind its answer.
    let ask = |(question, checked): (QueryText, CheckedText)| {
        let (question, checked) = (&question, &checked);
        let (args, options, service, dataset) = (&args, &options, &service, &dataset);
        Asking { question, checked, args, options, service, dataset, target: &target }.answer(&mut report)
    };
    let done = questions.into_iter().try_for_each(ask);
    let reported = report.load(time.as_secs_f64() * 1e3, dataset.snapshot().len());
    args.runs.trace.end(|| service.into_runtime().expect("no session is left").trace())?;
    match done {
        // The reader has closed its end, having read enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done.and(reported).and_then(|()| {
            let name = || format!("{}: can't be written", args.output.as_deref().unwrap_or(Path::new("-")).display());
            target.keep().with_context(name)
        }),
    }
}

fn questions(args: &Args) -> anyhow::Result<Vec<QueryText>> {
    if !args.rest.is_empty() {
        let words: Vec<_> = args.text.iter().chain(&args.rest).map(|word| word.to_string_lossy()).collect();
        bail!(
            "there are {} words beside the options, `{}`, and only the query may be one: give each data file with a \
                --data of its own",
            words.len(),
            words.join("`, `")
        );
    }
    if let Some(text) = &args.text {
        return Ok(vec![QueryText::given("query", text.clone())?]);
    }
    ensure!(!args.query.is_empty(), "there is no query: give its text, or its file with --query");
    args.query.iter().map(|path| QueryText::read("query", path)).collect()
}

/// A query to be run on loaded data.
struct Asking<'a> {
    question: &'a QueryText,
    checked: &'a CheckedText,
    args: &'a Args,
    options: &'a SessionOptions,
    service: &'a Service,
    dataset: &'a Dataset,
    target: &'a Target,
}

/// One of a query's copies; they run at once.
enum RunningCopy {
    Written(RunningQuery<TextSink<Target>>),
    Parquet(RunningQuery<ParquetSink>),
    Counted(RunningQuery<Count>),
}

impl RunningCopy {
    fn wait(self) -> Result<CallOutcome, Error> {
        match self {
            RunningCopy::Written(running) => running.wait().map(|(_, outcome)| outcome),
            RunningCopy::Parquet(running) => running.wait().map(|((), outcome)| outcome),
            RunningCopy::Counted(running) => running.wait().map(|((), outcome)| outcome),
        }
    }
}

impl Asking<'_> {
    /// Answers the query as often as requested, and writes the first answer.
    fn answer(&self, report: &mut Report) -> anyhow::Result<()> {
        let Asking { question, args, service, .. } = *self;
        let failed = |error| question.error(error);
        let mut first = None;
        for repeat in 1..=args.runs.repeat {
            service.memory().set_total(args.memory());
            let session = self.session();
            let mut call = session.call().map_err(failed)?;
            let prepared = call.plan(self.checked).map_err(failed)?;
            if args.runs.explain && args.runs.timings.is_none() {
                return show(&prepared.explain(None));
            }
            let began = Instant::now();
            let (mut rows, mut totals) = (Vec::new(), Totals::default());
            let mut ended = |outcome: CallOutcome| {
                let is_first = repeat == 1 && rows.is_empty();
                rows.push(outcome.rows);
                totals = totals + outcome.totals;
                outcome.replanned.iter().flat_map(|(_, lost)| lost).for_each(|why| {
                    tell(format_args!("vicus: {why}; {} is asked without it", question.title));
                });
                if is_first { self.show(&prepared, &outcome) } else { Ok(()) }
            };
            if args.runs.concurrent == 1 {
                ended(self.one(call, &prepared, repeat).map_err(failed)?)?;
            } else {
                for copy in self.copies(&session, call, &prepared, repeat).map_err(failed)? {
                    ended(copy.wait().map_err(failed)?)?;
                }
            }
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let run_ms = ms(began.elapsed());
            let expected = *first.get_or_insert(rows[0]);
            if let Some(other) = rows.iter().find(|&&other| other != expected && !prepared.may_differ()) {
                let title = &question.title;
                bail!("{title}: one run had {expected} rows and another {other}; please report this");
            }
            if repeat == 1 {
                self.remark(&session, rows[0]);
            }
            let (parse_ms, plan_ms) = (ms(prepared.parsing()), ms(prepared.planning()));
            report.query(&Timing {
                query: &question.name,
                repeat,
                parse_ms,
                plan_ms,
                run_ms,
                rows: rows[0],
                totals,
            })?;
        }
        Ok(())
    }

    /// Tells likely slips in the text: why an answer is empty, or a column. The answer is there, so without time or
    /// memory for them there are none.
    fn remark(&self, session: &Session, rows: u64) {
        let remarks = session.call().and_then(|call| call.remarks(self.checked)).unwrap_or_default();
        let told = remarks.iter().filter(|remark| rows == 0 || remark.kind == RemarkKind::Always);
        told.for_each(|remark| tell(format_args!("vicus: warning: {}: {remark}", self.question.title)));
    }

    /// All copies of a query have the same moment.
    fn session(&self) -> Session {
        let now_ms = vicus_service::millis(SystemTime::now());
        let moment = Some(Moment { now_ms, seed: now_ms as u64 });
        // Reading its text was a part of its time.
        let time = self.options.limits.time.map(|time| time.saturating_sub(self.checked.parsing()));
        let limits = CallLimits { time, ..self.options.limits.clone() };
        self.service.session(self.dataset, SessionOptions { moment, limits, ..self.options.clone() })
    }

    /// The format of a copy's results, if they are written.
    fn format(&self, form: &Answer, repeat: usize, copy: usize) -> Option<Format> {
        let is_written = repeat == 1 && copy == 0 && !self.args.runs.explain;
        Some(self.args.format_of(form)).filter(|format| is_written && *format != Format::Count)
    }

    fn one(&self, call: Call, prepared: &Arc<Prepared>, repeat: usize) -> Result<CallOutcome, Error> {
        let format = self.format(prepared.form(), repeat, 0);
        match format.and_then(Format::of_text) {
            Some(format) => {
                let seen = format != vicus_service::Format::Table && self.target.is_terminal();
                outcome(call.begin(prepared, self.args.sink(format, self.target))?, seen)
            }
            None if format.is_some() => outcome(call.begin(prepared, ParquetSink::new(self.target.clone()))?, false),
            None => outcome(call.begin(prepared, Count)?, false),
        }
    }

    /// Starts all copies on the runtime's threads.
    fn copies(
        &self,
        session: &Session,
        call: Call,
        prepared: &Arc<Prepared>,
        repeat: usize,
    ) -> Result<Vec<RunningCopy>, Error> {
        let mut calls = vec![call];
        for _ in 1..self.args.runs.concurrent {
            calls.push(session.call()?);
        }
        let start = |(copy, call): (usize, Call)| {
            let format = self.format(prepared.form(), repeat, copy);
            match format.and_then(Format::of_text) {
                Some(format) => call.start(prepared, self.args.sink(format, self.target)).map(RunningCopy::Written),
                None if format.is_some() => {
                    call.start(prepared, ParquetSink::new(self.target.clone())).map(RunningCopy::Parquet)
                }
                None => call.start(prepared, Count).map(RunningCopy::Counted),
            }
        };
        calls.into_iter().enumerate().map(start).collect()
    }

    /// The result of the first copy, beside its rows.
    fn show(&self, prepared: &Prepared, outcome: &CallOutcome) -> anyhow::Result<()> {
        if self.args.runs.explain {
            return show(&prepared.explain_run(outcome));
        }
        let (name, rows) = (&self.question.name, outcome.rows);
        let target = &mut self.target.clone();
        match (self.args.format, prepared.form()) {
            (Some(Format::Count), Answer::Truth) => {
                write(target, &format!("{name}\t{}\n", if rows > 0 { "yes" } else { "no" }))
            }
            (Some(Format::Count), _) => write(target, &format!("{name}\t{rows}\n")),
            _ => Ok(()),
        }
    }
}

/// An unpredictable number: the system's key for the hash maps of std.
pub(crate) fn by_chance() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

fn show(text: &str) -> anyhow::Result<()> {
    write(&mut Target::Stdout, text)
}

fn write(target: &mut Target, text: &str) -> anyhow::Result<()> {
    let name = if matches!(target, Target::Stdout) { "standard output" } else { "--output" };
    target.write_all(text.as_bytes()).and_then(|()| target.flush()).context(name)
}

/// The option that bounds what an error of a text is about.
pub(crate) fn text_option(error: &TextError) -> &'static str {
    option_of(error).map_or("", |option| match option {
        TextOption::Bytes => " (--max-query-bytes)",
        TextOption::Depth => " (--max-query-depth)",
        TextOption::PlanSteps => " (--max-plan-steps)",
        TextOption::Base => " (--base)",
        TextOption::Longer => " (--max-longer)",
        TextOption::PathSigns => " (--max-path-signs)",
    })
}

/// An error in a query or an update, with its line and a caret under the place.
fn with_caret(error: &TextError, title: &str, asked: &str) -> anyhow::Error {
    let mut text = format!("{title}: {error}{}", text_option(error));
    // Line 0: the error has no place.
    let (line_number, column) = (error.place.line, error.place.column.max(1));
    if line_number > 0
        && let Some(line) = asked.lines().nth(line_number - 1)
    {
        // Long lines are cut around the place.
        let from = column.saturating_sub(60);
        let shown: String = line.chars().skip(from).take(100).map(|c| if c == '\t' { ' ' } else { c }).collect();
        let caret = " ".repeat(column - 1 - from.min(column - 1));
        text.push_str(&format!("\n  {shown}\n  {caret}^"));
    }
    anyhow::Error::msg(text)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
