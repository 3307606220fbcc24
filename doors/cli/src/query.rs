//! `vicus query`: loads RDF files and answers SPARQL queries. `vicus sql`: the same for SQL.

mod report;
mod tables;

use crate::input;
use crate::interrupt;
use crate::memory;
use crate::spill::SpillArgs;
use crate::strategy;
use crate::tell::tell;
use crate::web::WebArgs;
use crate::{engine, engine::plain};
use anyhow::{Context, anyhow, bail, ensure};
use report::{Report, Timing, Timings};
use std::ffi::OsString;
use std::io::{Stdout, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
pub(crate) use tables::{ColumnTypes, column_types, table, tables};
use vicus::{Runtime, Setting, Totals, environment};
use vicus_language::{Answer, TextError, TextErrorKind};
use vicus_rdf::TermLimits;
use vicus_rdf::load::{LoadOptions, OnError, Syntax};
use vicus_service::{
    Call, Count, Dataset, Error, MemoryBudget, Outcome, Prepared, Running, Service, Session, SessionOptions, TextSink,
    check,
};
use vicus_sparql::{Moment, ParseOptions, PlanOptions, QueryError, QueryErrorKind};

/// See `vicus query --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A file of RDF, in the syntax of its ending (.nt, .nq, .ttl, .trig, .rdf, .xml, .owl, .jsonld), plain or packed
    /// by gzip, zstd, bzip2 or xz, with .gz, .zst, .bz2 or .xz behind the ending or not; - is standard input. May be
    /// given several times: the files are one dataset, and blank nodes are kept apart by file.
    #[arg(long, value_name = "FILE")]
    data: Vec<OsString>,
    /// The folder of a store, to be asked instead of files: as it is now, beside a process that may be writing to it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["data", "syntax", "skip_malformed"])]
    store: Option<PathBuf>,
    /// The syntax of all data files, whatever their endings; of standard input nt by default.
    #[arg(long, value_enum)]
    syntax: Option<SyntaxName>,
    /// The language of the queries. In SQL, a table is a file ('people.csv', or by its name in --table), a predicate of
    /// the data by its IRI, with columns subject and object, or the solutions of a query, SPARQL('SELECT …').
    #[arg(long, value_enum, default_value_t = Language::Sparql)]
    language: Language,
    /// For SQL, a file as a table of this name: .parquet, .csv, .tsv, .arrow or .arrows. May be given several times.
    #[arg(long, value_name = "NAME=FILE", value_parser = table)]
    table: Vec<(String, PathBuf)>,
    /// The types of columns of a CSV file: boolean, bigint, double, varchar, date or timestamp; the others are
    /// inferred. NAME is the table's, or the path in the statement. Without a value, prints the types of all tables'
    /// columns in this form instead of an answer. May be given several times.
    #[arg(long, value_name = "NAME=COLUMN:TYPE,…", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = column_types)]
    table_types: Vec<OptionalTypes>,
    /// A query's file; may be given several times, each is answered in turn.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    query: Vec<PathBuf>,
    /// The query itself.
    #[arg(value_name = "TEXT", conflicts_with = "query")]
    text: Option<OsString>,
    /// Further words after the query, which are an error: most likely files from a pattern expanded by the shell.
    #[arg(hide = true)]
    rest: Vec<OsString>,
    /// The format of results on standard output: `table` to `tsv` for SELECT and ASK, `nt` to `jsonld` for CONSTRUCT
    /// and DESCRIBE. By default table, or ttl for triples. `count` is one line for each query: its name, a tab, its
    /// rows, triples or yes/no.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The scheduling strategy, with parameters as in las:pin=pu; see `vicus strategies`; by default the one of
    /// VICUS_STRATEGY, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How many threads; by default one for each usable PU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Rows in an envelope.
    #[arg(long, value_name = "N", default_value_t = PlanOptions::default().envelope_rows, value_parser = rows)]
    envelope_rows: usize,
    /// Runs K copies of each query at once; the first one's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = copies)]
    concurrent: usize,
    /// Runs each query K times; the first time's results are written.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = at_least_one)]
    repeat: usize,
    /// The bytes of memory that a query may hold, its parsed text and its plan included: 500000, 64K, 10M, 2G. Rows
    /// beyond go to temporary files if they are sorted or made distinct; other queries that need more fail. By default
    /// half of the free memory at the query's beginning, shared by copies that run at once.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// A query is cancelled when it takes longer, from parsing its text on: 30, 1.5s, 500ms. So is the opening of all
    /// files of tables together.
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    spill: SpillArgs,
    #[command(flatten)]
    web: WebArgs,
    /// The base IRI of relative IRIs in a query, until it has a BASE of its own.
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
    /// The default graph of a query without FROM: the triples in no named graph, or the union of all named graphs; a
    /// triple of several graphs counts once in it.
    #[arg(long, value_enum, default_value_t = DefaultGraph::Own)]
    default_graph: DefaultGraph,
    /// Refuses queries with an unknown function; otherwise its call is an error, which a FILTER takes for false.
    #[arg(long)]
    strict_functions: bool,
    /// Reads RDF 1.2 and SPARQL 1.2 (not final yet): triple terms, base directions, and their syntax. Without it, a
    /// text with them is refused; a store with them is read in any case.
    #[arg(long = "rdf-12")]
    rdf_12: bool,
    /// The most bytes of a query's text: 500000, 64K, 10M.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = ParseOptions::default().bytes as u64)]
    max_query_bytes: u64,
    /// The deepest nesting of a query, 1 to 10000 levels: brackets, and operators and patterns that apply to the one
    /// before, such as OPTIONAL, BIND, EXISTS and paths of any length.
    #[arg(long, value_name = "LEVELS", value_parser = levels, default_value_t = ParseOptions::default().depth)]
    max_query_depth: usize,
    /// How many bytes longer a query may become when its names are written out, for each byte of its text and for 1024
    /// more: a long prefix or base may occur in many names.
    #[arg(long, value_name = "TIMES", default_value_t = ParseOptions::default().longer)]
    max_longer: usize,
    /// How many signs of property paths may be counted again because their path has another object; for long queries
    /// one more for four bytes of text.
    #[arg(long, value_name = "N", default_value_t = ParseOptions::default().path_signs)]
    max_path_signs: usize,
    /// The most steps of planning a query: looks at operators, at their variables, and at ways to join, some ten
    /// nanoseconds each. Only queries with very many variables in very many patterns reach this.
    #[arg(long, value_name = "N", default_value_t = PlanOptions::default().plan_steps, value_parser = clap::value_parser!(u64).range(1..))]
    max_plan_steps: u64,
    /// Prints times, rows, tasks, and bytes that boxes took near and far (from another NUMA node) to standard error, a
    /// line for each query and repeat; as JSON objects with =json.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    timings: Option<Timings>,
    /// Records the events of every thread; see `vicus trace`. Short queries, which otherwise run on the calling thread,
    /// then run on these threads.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The longest line of data, in Turtle, TriG and RDF/XML the longest statement, in JSON-LD the longest item of a
    /// list, or the file if it is no list: 64K, 10M, 2G. A longer one, such as all of /dev/zero, is an error, since it
    /// must fit in memory as a whole.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    max_line: u64,
    /// The longest IRI of data when it is written out: 2K, 64K. A long prefix or base makes many short names long.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    max_iri: u64,
    /// The key of the hashes of terms and rows; by default random, so that data and queries can't be made to slow the
    /// tables down. The same number gives the same tables. VICUS_HASH_SEED sets it, too.
    #[arg(long, value_name = "N")]
    hash_seed: Option<u64>,
    /// Leaves malformed lines of the data out, and says how many. A file of RDF/XML or JSON-LD ends at its first error.
    #[arg(long)]
    skip_malformed: bool,
    /// Prints each query's plan instead of running it: operators with estimated rows and their boxes; boxes with their
    /// vias. With --timings each query is run, its results are not written, and the plan has the actual rows and bytes
    /// of each operator and box in the first run.
    #[arg(long)]
    explain: bool,
}

impl Args {
    /// Sets the seed if it was not given: from the environment, else by chance.
    fn choose_hash_seed(&mut self) -> anyhow::Result<u64> {
        let given = self.hash_seed.map(Ok).or_else(environment::hash_seed).transpose().map_err(strategy::wrong)?;
        Ok(*self.hash_seed.insert(given.unwrap_or_else(by_chance)))
    }

    /// The options of its session, after [`Args::choose_hash_seed`]; each query has a moment of its own.
    fn session_options(&self) -> anyhow::Result<SessionOptions> {
        Ok(SessionOptions {
            parse: ParseOptions {
                base: None,
                bytes: usize::try_from(self.max_query_bytes).unwrap_or(usize::MAX),
                longer: self.max_longer,
                path_signs: self.max_path_signs,
                depth: self.max_query_depth,
                strict_functions: self.strict_functions,
                rdf_12: self.rdf_12,
                // A query inserts nothing.
                longest: TermLimits::default(),
            },
            base: self.base.clone(),
            longest_iri: usize::try_from(self.max_iri).unwrap_or(usize::MAX),
            plan: PlanOptions {
                envelope_rows: self.envelope_rows,
                hash_seed: self.hash_seed.expect("it was chosen"),
                plan_steps: self.max_plan_steps,
                default_graph: self.default_graph.planned(),
                ..PlanOptions::default()
            },
            // A table is kept, and its rows stand in one order.
            parallel_answers: !matches!(self.format, None | Some(Format::Table)),
            counts: self.explain,
            web: self.web.web(),
            temporary: self.spill.folder(self.store.as_deref())?,
            limits: interrupt::limits(self.timeout, self.memory_limit),
            ..SessionOptions::default()
        })
    }

    /// The memory limit of all copies of a query together.
    fn memory(&self) -> u64 {
        let of_copies = |limit: u64| limit.saturating_mul(self.concurrent as u64);
        self.memory_limit.map_or_else(memory::free_limit, of_copies)
    }
}

/// A language of queries.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// SPARQL 1.1.
    Sparql,
    /// SELECT of SQL.
    Sql,
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
    pub(crate) fn planned(self) -> vicus_sparql::DefaultGraph {
        match self {
            DefaultGraph::Own => vicus_sparql::DefaultGraph::Own,
            DefaultGraph::Union => vicus_sparql::DefaultGraph::Union,
        }
    }
}

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Columns for people.
    Table,
    /// SPARQL 1.1 Query Results JSON Format.
    Json,
    /// SPARQL Query Results XML Format.
    Xml,
    /// SPARQL 1.1 Query Results CSV Format.
    Csv,
    /// SPARQL 1.1 Query Results TSV Format.
    Tsv,
    /// N-Triples.
    #[value(alias = "ntriples")]
    Nt,
    /// N-Quads.
    #[value(alias = "nquads")]
    Nq,
    /// Turtle, with the query's prefixes.
    #[value(alias = "turtle")]
    Ttl,
    /// TriG, with the query's prefixes.
    Trig,
    /// RDF/XML.
    #[value(alias = "rdf")]
    Rdfxml,
    /// JSON-LD.
    Jsonld,
    /// An Arrow IPC stream, for answers of any form.
    Arrow,
    /// The query's name, a tab, the number of rows or triples or yes/no.
    Count,
}

impl Format {
    /// `None`: only a number is written.
    fn of_text(self) -> Option<vicus_service::Format> {
        match self {
            Format::Table => Some(vicus_service::Format::Table),
            Format::Json => Some(vicus_service::Format::Json),
            Format::Xml => Some(vicus_service::Format::Xml),
            Format::Csv => Some(vicus_service::Format::Csv),
            Format::Tsv => Some(vicus_service::Format::Tsv),
            Format::Nt => Some(vicus_service::Format::NTriples),
            Format::Nq => Some(vicus_service::Format::NQuads),
            Format::Ttl => Some(vicus_service::Format::Turtle),
            Format::Trig => Some(vicus_service::Format::TriG),
            Format::Rdfxml => Some(vicus_service::Format::RdfXml),
            Format::Jsonld => Some(vicus_service::Format::JsonLd),
            Format::Arrow => Some(vicus_service::Format::Arrow),
            Format::Count => None,
        }
    }

    /// The format for people, for an answer of this kind.
    fn usual(form: &Answer) -> Format {
        if form.is_graph() { Format::Ttl } else { Format::Table }
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

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of bytes, with K, M or G for 1024, 1024² or 1024³ of them".to_owned();
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1u64),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
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

/// A query's name and text.
struct Question {
    name: String,
    text: String,
}

impl Question {
    /// An error for people.
    fn error(&self, error: Error) -> anyhow::Error {
        match error {
            Error::Query(error) => with_caret(&error, "query", &self.name, &self.text),
            error => plain(error).context(format!("query {}", self.name)),
        }
    }
}

/// Runs `vicus sql`.
pub(crate) fn run_sql(mut args: Args) -> anyhow::Result<()> {
    args.language = Language::Sql;
    run(args)
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    if args.language == Language::Sparql && args.data.is_empty() && args.store.is_none() && args.table.is_empty() {
        let missing = "the following required arguments were not provided:\n  --data <FILE>, or --store <DIR>\n";
        return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, missing).into());
    }
    interrupt::listen();
    engine::check_threads(args.threads)?;
    let strategy = strategy::one(args.strategy.as_ref())?;
    let hash_seed = args.choose_hash_seed()?;
    let asks_types = args.table_types.iter().any(Option::is_none);
    let is_asked = args.text.is_some() || !args.query.is_empty();
    let questions = if asks_types && !is_asked { Vec::new() } else { questions(&args)? };
    let mut builder = Runtime::builder().strategy(strategy);
    if let Some(path) = &args.trace {
        // Fails now, not after the work.
        std::fs::File::create(path).with_context(|| format!("{}: can't be written", path.display()))?;
        builder = builder.record(vicus_trace::Log::DEFAULT_ROOM);
    }
    let syntax = args.syntax.map(SyntaxName::syntax);
    let (sources, reading) = input::open(&args.data, syntax)?;
    // Errors in the queries are reported before the data is read.
    let memory = MemoryBudget::new(args.memory());
    let options = args.session_options()?;
    for question in &questions {
        let bytes = options.parse.bytes;
        let too_long = || anyhow!("query {}: it has more than {bytes} bytes (--max-query-bytes)", question.name);
        ensure!(question.text.len() <= bytes, too_long());
        if args.language == Language::Sql {
            let format = args.format.unwrap_or(Format::Table).of_text();
            let form = Answer::Rows { columns: Vec::new() };
            format
                .map_or(Ok(()), |format| format.check(&form))
                .map_err(|wrong| question.error(Error::Format(wrong)))?;
            continue;
        }
        let form = check(&question.text, &memory, &options).map_err(|error| question.error(error))?.answer();
        if let Some(format) = args.format.unwrap_or(Format::usual(&form)).of_text() {
            format.check(&form).map_err(|wrong| question.error(Error::Format(wrong)))?;
        }
    }

    let service = Service::new(engine::start(builder, args.threads)?, memory);
    let (dataset, time) = match &args.store {
        Some(path) => {
            let began = Instant::now();
            (crate::store::read(path)?, began.elapsed())
        }
        None => {
            let on_error = if args.skip_malformed { OnError::Skip } else { OnError::Fail };
            let longest_line = usize::try_from(args.max_line).unwrap_or(usize::MAX);
            let longest_iri = usize::try_from(args.max_iri).unwrap_or(usize::MAX);
            let rdf_12 = args.rdf_12;
            let options =
                LoadOptions { on_error, longest_line, longest_iri, hash_seed, rdf_12, ..LoadOptions::default() };
            let loaded = engine::load(&service, sources, &reading, options)?;
            if let Some(first) = &loaded.first_skipped {
                tell(format_args!("vicus: {} malformed lines were left out; the first: {first}", loaded.skipped));
            }
            (loaded.dataset, loaded.time)
        }
    };
    let is_sql = args.language == Language::Sql;
    let statements: Vec<&str> = questions.iter().filter(|_| is_sql).map(|question| question.text.as_str()).collect();
    let types: Vec<ColumnTypes> = args.table_types.iter().flatten().cloned().collect();
    let tables = tables(&args.table, &types, &statements, args.timeout)?;
    if asks_types {
        std::io::stdout().write_all(tables::shown(&tables)?.as_bytes())?;
        return Ok(());
    }
    let mut report = Report::new(args.timings);
    let ask = |question: &Question| {
        Asking { question, args: &args, options: &options, service: &service, dataset: &dataset, tables: &tables }
            .answer(&mut report)
    };
    let done = questions.iter().try_for_each(ask);
    let reported = report.load(time.as_secs_f64() * 1e3, dataset.snapshot().len());
    if let Some(path) = &args.trace {
        let runtime = service.into_runtime().expect("no session is left");
        let trace = runtime.trace().expect("it was asked to record");
        write_trace(path, &trace)?;
    }
    match done {
        // The reader has closed its end, having read enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        done => done.and(reported),
    }
}

fn questions(args: &Args) -> anyhow::Result<Vec<Question>> {
    let question = |name, text: String| Question { name, text };
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
        let refused = |text: OsString| anyhow!("query query: `{}` is no UTF-8", text.to_string_lossy());
        return Ok(vec![question("query".to_owned(), text.clone().into_string().map_err(refused)?)]);
    }
    ensure!(!args.query.is_empty(), "there is no query: give its text, or its file with --query");
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: can't be read", path.display()))?;
        let name = path.file_stem().map_or_else(|| "query".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok(question(name, text))
    };
    args.query.iter().map(read).collect()
}

/// A query to be run on loaded data.
struct Asking<'a> {
    question: &'a Question,
    args: &'a Args,
    options: &'a SessionOptions,
    service: &'a Service,
    dataset: &'a Dataset,
    tables: &'a vicus_sql::Tables,
}

/// One of a query's copies; they run at once.
enum Copy {
    Written(Running<TextSink<Stdout>>),
    Counted(Running<Count>),
}

impl Copy {
    fn wait(self) -> Result<Outcome, Error> {
        match self {
            Copy::Written(running) => running.wait().map(|(_, outcome)| outcome),
            Copy::Counted(running) => running.wait().map(|((), outcome)| outcome),
        }
    }
}

impl Asking<'_> {
    /// Answers the query as often as requested, and writes the first answer.
    fn answer(&self, report: &mut Report) -> anyhow::Result<()> {
        let Asking { question, args, service, .. } = *self;
        let failed = |error| question.error(error);
        let mut first = None;
        for repeat in 1..=args.repeat {
            service.memory().set_total(args.memory());
            let session = self.session();
            let mut call = session.call().map_err(failed)?;
            let prepared = match args.language {
                Language::Sparql => call.prepare(&question.text),
                Language::Sql => call.prepare_sql(&question.text, self.tables),
            };
            let prepared = prepared.map_err(failed)?;
            if args.explain && args.timings.is_none() {
                return show(&prepared.explain(None));
            }
            let began = Instant::now();
            let (mut rows, mut totals) = (Vec::new(), Totals::default());
            let mut ended = |outcome: Outcome| {
                let is_first = repeat == 1 && rows.is_empty();
                rows.push(outcome.rows);
                totals = totals + outcome.totals;
                if is_first { self.show(&prepared, &outcome) } else { Ok(()) }
            };
            if args.concurrent == 1 {
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
                let name = &question.name;
                bail!("query {name}: one run had {expected} rows and another {other}; please report this");
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

    /// All copies of a query have the same moment.
    fn session(&self) -> Session {
        let now_ms = vicus_service::millis(SystemTime::now());
        let moment = Some(Moment { now_ms, seed: now_ms as u64 });
        self.service.session(self.dataset, SessionOptions { moment, ..self.options.clone() })
    }

    /// The format of a copy's results, if they are written.
    fn format(&self, form: &Answer, repeat: usize, copy: usize) -> Option<vicus_service::Format> {
        let format = self.args.format.unwrap_or(Format::usual(form)).of_text();
        format.filter(|_| repeat == 1 && copy == 0 && !self.args.explain)
    }

    fn one(&self, call: Call, prepared: &Arc<Prepared>, repeat: usize) -> Result<Outcome, Error> {
        match self.format(prepared.form(), repeat, 0) {
            Some(format) => Ok(call.answer(prepared, TextSink::new(format, std::io::stdout()))?.1),
            None => Ok(call.answer(prepared, Count)?.1),
        }
    }

    /// Starts all copies on the runtime's threads.
    fn copies(
        &self,
        session: &Session,
        call: Call,
        prepared: &Arc<Prepared>,
        repeat: usize,
    ) -> Result<Vec<Copy>, Error> {
        let mut calls = vec![call];
        for _ in 1..self.args.concurrent {
            calls.push(session.call()?);
        }
        let start = |(copy, call): (usize, Call)| match self.format(prepared.form(), repeat, copy) {
            Some(format) => call.start(prepared, TextSink::new(format, std::io::stdout())).map(Copy::Written),
            None => call.start(prepared, Count).map(Copy::Counted),
        };
        calls.into_iter().enumerate().map(start).collect()
    }

    /// The result of the first copy, beside its rows.
    fn show(&self, prepared: &Prepared, outcome: &Outcome) -> anyhow::Result<()> {
        if self.args.explain {
            return show(&prepared.explain(Some(&outcome.counts)));
        }
        let (name, rows) = (&self.question.name, outcome.rows);
        match (self.args.format, prepared.form()) {
            (Some(Format::Count), Answer::Truth) => show(&format!("{name}\t{}\n", if rows > 0 { "yes" } else { "no" })),
            (Some(Format::Count), _) => show(&format!("{name}\t{rows}\n")),
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
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// An error in a query or an update, with its line and a caret under the place.
pub(crate) fn with_caret(error: &TextError, noun: &str, name: &str, asked: &str) -> anyhow::Error {
    let of_sparql = |own: &QueryError| match own.kind {
        QueryErrorKind::NamesTooLong => " (--max-longer)",
        QueryErrorKind::TooManySigns => " (--max-path-signs)",
        QueryErrorKind::WrongBase => " (--base)",
        _ => "",
    };
    let option = match error.kind {
        TextErrorKind::TooLong => " (--max-query-bytes)",
        TextErrorKind::TooDeep => " (--max-query-depth)",
        TextErrorKind::TooManySteps => " (--max-plan-steps)",
        _ => error.own().map_or("", of_sparql),
    };
    let mut text = format!("{noun} {name}: {error}{option}");
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
