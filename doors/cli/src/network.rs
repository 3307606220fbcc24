//! `vicus network`: networks of boxes as text.

use crate::arguments::{RootsArgs, RuntimeArgs};
use crate::interrupt::{self, Interrupted};
use crate::messages::print;
use crate::progress::RunningLine;
use crate::query::{bytes, duration};
use crate::recording::TraceArgs;
use crate::{engine, memory, node};
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use indicatif::HumanCount;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vicus::kit::counts::BoxCounts;
use vicus::{BoxId, FlowError, Operator, Request, RequestOptions, Runtime};
use vicus_network::{Kinds, MachineCounts, Network, NetworkText, dot, svg};
use vicus_nodes::{Attempt, CountedBox, Lead, LeadError, LeadOptions};
use vicus_tables::{RowFormat, writer};
use vicus_trace::{EventLog, Trace};

/// See `vicus network --help`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Question,
}

#[derive(Subcommand)]
enum Question {
    /// Run a network; rows of its `collect` boxes are printed.
    Run(Box<RunArgs>),
    /// Check a network: its kinds, parameters and vias. Files that it reads are opened, and no rows are.
    Check(CheckArgs),
    /// Print a network.
    Show(ShowArgs),
    /// List the kinds of boxes, or explain one.
    Kinds {
        /// The kind.
        name: Option<String>,
    },
}

#[derive(ClapArgs)]
pub(crate) struct TextArgs {
    /// The network's text, or its JSON in a file that ends in .json; - is a text from standard input.
    pub(crate) file: OsString,
    /// Gives a parameter of the network a value: most=1000. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(ClapArgs)]
struct RunArgs {
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// The form of printed rows.
    #[arg(long, value_enum, default_value_t)]
    format: RowsName,
    /// The bytes of memory that its boxes may hold: 500000, 64K, 10M, 2G; by default half of the free memory. What some
    /// kinds keep beyond goes to temporary files.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// How many of its boxes may live at once, if it grows while it runs; by default 262144. With more it is cancelled.
    #[arg(long, value_name = "N")]
    max_boxes: Option<NonZeroUsize>,
    /// The folder of temporary files; by default the system's (TMPDIR, else /tmp).
    #[arg(long, value_name = "DIR")]
    temp_folder: Option<PathBuf>,
    /// Other processes that run boxes, `vicus node`s: host:port, separated by commas. They are the nodes 1, 2, … of the
    /// text (`on node 1`, `on node *`).
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', help_heading = "Nodes")]
    nodes: Vec<String>,
    /// The token of the nodes; VICUS_NODE_TOKEN has one, too.
    #[arg(long, value_name = "TOKEN", requires = "nodes", help_heading = "Nodes")]
    node_token: Option<String>,
    /// A node that has sent nothing for so long is lost, and the network fails: 1, 500ms.
    #[arg(long, value_name = "SECONDS", value_parser = duration, requires = "nodes", default_value = "1")]
    #[arg(help_heading = "Nodes")]
    node_silence: Duration,
    /// Waits so long for nodes that are yet starting.
    #[arg(long, value_name = "SECONDS", value_parser = duration, requires = "nodes", default_value = "3")]
    #[arg(help_heading = "Nodes")]
    node_wait: Duration,
    /// How often the network is run again, from its beginning, when a node was lost. Rows are printed when all are
    /// there, and files get their places then.
    #[arg(long, value_name = "N", requires = "nodes", default_value_t = 0, help_heading = "Nodes")]
    retries: u32,
    /// Nodes that take the numbers of those that can't be reached.
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', requires = "nodes", help_heading = "Nodes")]
    spare_nodes: Vec<String>,
    #[command(flatten)]
    roots: RootsArgs,
    /// Prints on standard error how often each box ran, on this process and on nodes, and its rows.
    #[arg(long)]
    counts: bool,
    #[command(flatten)]
    trace: TraceArgs,
}

#[derive(ClapArgs)]
struct CheckArgs {
    #[command(flatten)]
    text: TextArgs,
    /// The number that `threads` stands for; by default one for each usable PU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The number of nodes that the text's boxes may be on (`on node 1`, `on node *`), each with as many threads. None
    /// of them is asked.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    nodes: u16,
}

#[derive(ClapArgs)]
struct ShowArgs {
    #[command(flatten)]
    check: CheckArgs,
    /// How to print it: the text in its usual form, JSON with a version, or all boxes as a graph for Graphviz or as a
    /// picture.
    #[arg(long, value_enum, default_value_t)]
    format: ShowName,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum RowsName {
    /// Values with commas between them.
    #[default]
    Csv,
    /// An object on each line.
    Json,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum ShowName {
    /// The text in its usual form.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For Graphviz.
    Dot,
    /// For a browser.
    Svg,
}

pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected a name and a value: most=1000")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.what {
        Question::Run(args) => run_network(&args),
        Question::Check(args) => {
            let (text, name) = args.text.read()?;
            print(&args.told(&name, &args.build(&text, &name)?))
        }
        Question::Show(ShowArgs { check, format }) => {
            let (text, name) = check.text.read()?;
            match format {
                ShowName::Text => print(&text.to_string()),
                ShowName::Json => print(&format!("{}\n", text.to_json())),
                ShowName::Dot => print(&dot(&check.build(&text, &name)?)),
                ShowName::Svg => print(&svg(&check.build(&text, &name)?)),
            }
        }
        Question::Kinds { name } => print(&documentation(&kinds(), name.as_deref())?),
    }
}

/// The kinds of networks on the command line.
pub(crate) fn kinds() -> Kinds {
    let mut kinds = kinds_of_files();
    vicus_tables::add_stream_kinds(&mut kinds);
    kinds
}

/// The kinds of networks that read and write nothing but files.
pub(crate) fn kinds_of_files() -> Kinds {
    let mut kinds = Kinds::library();
    vicus_tables::add_kinds(&mut kinds);
    vicus_service::add_kinds(&mut kinds);
    kinds
}

/// All kinds with the first sentences of their documentation, or one with all of it.
fn documentation(kinds: &Kinds, name: Option<&str>) -> anyhow::Result<String> {
    let Some(name) = name else {
        let width = kinds.iter().map(|kind| kind.name().len()).max().unwrap_or(0);
        let first = |doc: &'static str| doc.split_once(". ").map_or(doc.trim_end_matches('.'), |(first, _)| first);
        let line = |kind: &vicus_network::BoxSpec| format!("{:width$}  {}\n", kind.name(), first(kind.doc()));
        return Ok(kinds.iter().map(line).collect());
    };
    match kinds.get(name) {
        Some(kind) => Ok(kind.to_string()),
        None => {
            let all: Vec<&str> = kinds.iter().map(vicus_network::BoxSpec::name).collect();
            bail!("there is no kind `{name}`; kinds are {}", all.join(", "))
        }
    }
}

impl TextArgs {
    /// The network, and its name.
    pub(crate) fn read(&self) -> anyhow::Result<(NetworkText, String)> {
        let path = Path::new(&self.file);
        if self.file == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("standard input")?;
            return Ok((parsed("standard input", &text, false)?, "network".to_owned()));
        }
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| shown.clone())?;
        let name = path.file_stem().map_or_else(|| shown.clone(), |stem| stem.to_string_lossy().into_owned());
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        Ok((parsed(&shown, &text, is_json)?, name))
    }

    fn build(&self, text: &NetworkText, name: &str, machine: MachineCounts) -> anyhow::Result<Network> {
        let shown = Path::new(&self.file).display();
        text.build(name, &kinds(), &machine, &self.set).map_err(|error| anyhow!("{shown}: {error}"))
    }

    /// The network with the boxes of all processes, of which the one that begins it comes first.
    pub(crate) fn build_whole(
        &self,
        text: &NetworkText,
        name: &str,
        processes: &[MachineCounts],
    ) -> anyhow::Result<Network> {
        let shown = Path::new(&self.file).display();
        text.build_whole(name, &kinds(), processes, &self.set).map_err(|error| anyhow!("{shown}: {error}"))
    }

    /// The record of a run on one thread, of the network as it is on a machine with these counts. Collected rows are
    /// dropped.
    pub(crate) fn record(&self, machine: MachineCounts) -> anyhow::Result<Trace> {
        interrupt::listen();
        let (text, name) = self.read()?;
        let network = self.build(&text, &name, machine)?;
        let builder =
            Runtime::builder().strategy(vicus::kit::DEFAULT_OF_QUERIES.parse()?).record(EventLog::DEFAULT_ROOM);
        let runtime = engine::start(builder, Some(1))?;
        outcome(&runtime.submit_within(&network.model, Vec::new(), measured()?), &|| ())?;
        Ok(runtime.trace().expect("it was asked to record"))
    }
}

impl RunArgs {
    /// Sends the network to its nodes, if it has some.
    fn begin(
        &self,
        text: &NetworkText,
        name: &str,
        machine: MachineCounts,
        limit: u64,
    ) -> anyhow::Result<Option<Attempt>> {
        if self.nodes.is_empty() {
            ensure!(!self.roots.is_given(), "--tls-ca is for --nodes");
            return Ok(None);
        }
        ensure!(self.node_silence >= Duration::from_millis(10), "--node-silence: at least 10ms");
        let options = LeadOptions {
            token: node::token(self.node_token.as_ref()),
            roots: self.roots.read()?,
            memory: self.memory_limit,
            silence: self.node_silence,
            wait: self.node_wait,
            is_counted: self.counts,
        };
        let begun = Lead::connect(&self.nodes, &self.spare_nodes, options)
            .map(|lead| if self.retries > 0 { lead.staged() } else { lead })
            .and_then(|lead| lead.begin(text, name, &self.text.set, machine, limit))
            .context("--nodes")?;
        Ok(Some(begun))
    }

    /// The error of a network over several processes. There is none if the reader of its rows has seen enough.
    fn told(&self, error: LeadError) -> anyhow::Result<()> {
        match error {
            LeadError::Text(error) => bail!("{}: {error}", Path::new(&self.text.file).display()),
            LeadError::Own(error) => told(Err(error)),
            other => bail!("{other}"),
        }
    }

    fn failed(&self, error: LeadError) -> Failed {
        let is_loss = error.is_loss();
        match self.told(error) {
            Err(error) if is_loss => Failed::Lost(error),
            Err(error) => Failed::Otherwise(error),
            Ok(()) => Failed::Otherwise(io::Error::from(io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// A temporary file that goes with the process.
    fn unnamed_file(&self) -> anyhow::Result<File> {
        let folder = self.temp_folder.clone().unwrap_or_else(std::env::temp_dir);
        let named = (0..).map(|number| folder.join(format!("vicus-rows-{}-{number}", std::process::id())));
        for path in named {
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
                    return Ok(file);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        unreachable!("there are more names than files")
    }
}

fn parsed(shown: &str, text: &str, is_json: bool) -> anyhow::Result<NetworkText> {
    let parsed = if is_json { NetworkText::from_json(text) } else { text.parse() };
    parsed.map_err(|error| anyhow!("{shown}: {error}"))
}

impl CheckArgs {
    /// The network with the boxes of all nodes.
    fn build(&self, text: &NetworkText, name: &str) -> anyhow::Result<Network> {
        let processes = vec![self.machine()?; 1 + usize::from(self.nodes)];
        self.text.build_whole(text, name, &processes)
    }

    /// How many boxes there are, and on which nodes.
    fn told(&self, name: &str, network: &Network) -> String {
        let mut boxes = vec![0; 1 + usize::from(self.nodes)];
        // All but the first and the last one, which are in every network.
        let own = &network.processes[1..network.processes.len() - 1];
        own.iter().for_each(|process| boxes[*process] += 1);
        let all = own.len();
        let mut told = format!("{name}: {all} boxes, {} collected\n", network.collected.len());
        for (node, boxes) in boxes.iter().enumerate().skip(1) {
            let _ = writeln!(told, "  on node {node}: {boxes}");
        }
        told
    }

    fn machine(&self) -> anyhow::Result<MachineCounts> {
        engine::check_threads(self.threads)?;
        let topology = &vicus::this_machine().topology;
        let threads = self.threads.unwrap_or_else(|| topology.usable_pus().count());
        Ok(MachineCounts { threads, nodes: topology.nodes.len() })
    }
}

/// The target of a collected box: standard output if it is the only one, else a part of what the main thread prints.
#[derive(Clone)]
enum Rows {
    Printed,
    Part(Arc<Printer>, usize),
    /// They are printed when the network has done well.
    Held(Arc<File>),
}

impl Rows {
    fn open(&self) -> Box<dyn Write + Send> {
        match self {
            Rows::Printed => Box::new(BufWriter::new(io::stdout())),
            Rows::Held(_) => Box::new(BufWriter::new(self.clone())),
            Rows::Part(..) => Box::new(self.clone()),
        }
    }
}

impl Write for Rows {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Rows::Printed => io::stdout().write(bytes),
            Rows::Held(file) => (&**file).write(bytes),
            Rows::Part(printer, number) => printer.keep(*number, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints the rows of several collected boxes, those of each under its name. They come when there are many or when they
/// have waited for a while, so that a network without an end is seen; at the end, in the order of the text.
struct Printer {
    names: Vec<String>,
    kept: Mutex<PendingRows>,
    /// Rows were printed.
    printed: Condvar,
}

#[derive(Default)]
struct PendingRows {
    /// By box.
    rows: Vec<Vec<u8>>,
    /// When the oldest of them came.
    since: Option<Instant>,
    /// The box whose rows were printed last.
    last: Option<usize>,
    /// Standard output takes no more.
    is_broken: bool,
}

impl Printer {
    /// A box waits while it has so many bytes.
    const MOST: usize = 1 << 20;
    /// Rows are printed when there are so many bytes of them, or when they have waited so long.
    const MANY: usize = 64 << 10;
    const LONG: Duration = Duration::from_millis(500);

    fn kept(&self) -> MutexGuard<'_, PendingRows> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, number: usize, bytes: &[u8]) -> io::Result<usize> {
        let is_full = |kept: &mut PendingRows| kept.rows[number].len() >= Printer::MOST && !kept.is_broken;
        let mut kept = self.printed.wait_while(self.kept(), is_full).unwrap_or_else(PoisonError::into_inner);
        if kept.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        kept.rows[number].extend_from_slice(bytes);
        kept.since.get_or_insert_with(Instant::now);
        Ok(bytes.len())
    }

    /// Prints what is due, or all.
    fn print(&self, all: bool) -> io::Result<()> {
        let mut kept = self.kept();
        let is_due = kept.rows.iter().map(Vec::len).sum::<usize>() >= Printer::MANY
            || kept.since.is_some_and(|since| since.elapsed() >= Printer::LONG);
        if !all && !is_due {
            return Ok(());
        }
        let mut text = Vec::new();
        for number in 0..self.names.len() {
            let mut rows = std::mem::take(&mut kept.rows[number]);
            if rows.is_empty() {
                continue;
            }
            if kept.last.replace(number) != Some(number) {
                writeln!(text, "# {}", self.names[number])?;
            }
            text.append(&mut rows);
        }
        kept.since = None;
        drop(kept);
        self.printed.notify_all();
        let printed = io::stdout().write_all(&text).and_then(|()| io::stdout().flush());
        if printed.is_err() {
            self.kept().is_broken = true;
            self.printed.notify_all();
        }
        printed
    }
}

fn run_network(args: &RunArgs) -> anyhow::Result<()> {
    interrupt::listen();
    let builder = args.runtime.builder()?;
    let (text, name) = args.text.read()?;
    let builder = args.trace.begin(builder)?;
    let runtime = args.runtime.start(builder)?;
    let nodes = vicus::this_machine().topology.nodes.len();
    let machine = MachineCounts { threads: runtime.plan().threads(), nodes };
    let limit = args.memory_limit.unwrap_or_else(memory::free_limit);
    ensure!(limit > 0, "--memory-limit 0: boxes need some memory");
    let overflows = node::overflows(args.temp_folder.as_ref())?;
    let most_boxes = args.max_boxes;
    let options = RequestOptions { overflows, most_boxes, is_timed: args.counts, ..RequestOptions::from(limit) };
    let run = Run { args, runtime: &runtime, text: &text, name: &name, machine, limit, options };
    let ended = run.until_done();
    args.trace.end(|| runtime.trace())?;
    ended
}

/// A network that is run, perhaps several times.
struct Run<'a> {
    args: &'a RunArgs,
    runtime: &'a Runtime,
    text: &'a NetworkText,
    name: &'a str,
    machine: MachineCounts,
    limit: u64,
    options: RequestOptions,
}

/// The end of a run that has failed.
enum Failed {
    /// Nodes were lost.
    Lost(anyhow::Error),
    Otherwise(anyhow::Error),
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::Otherwise(error)
    }
}

impl Run<'_> {
    /// Runs the network, again if nodes were lost and it may be.
    fn until_done(&self) -> anyhow::Result<()> {
        let all = self.args.retries;
        if let Some(once) = self.text.runs_once(&kinds(), &self.args.text.set).filter(|_| all > 0) {
            bail!("--retries {all}: what `{once}` reads or writes comes once, so the network can't be run again");
        }
        let mut left = all;
        loop {
            match self.once() {
                Ok(()) => return Ok(()),
                Err(Failed::Lost(error)) if left > 0 => {
                    left -= 1;
                    crate::messages::tell(format_args!("vicus: {error}; the network is run again"));
                }
                Err(Failed::Lost(error) | Failed::Otherwise(error)) => return Err(error),
            }
        }
    }

    fn once(&self) -> Result<(), Failed> {
        let Run { args, text, name, machine, .. } = *self;
        let mut attempt = args.begin(text, name, machine, self.limit)?;
        let network = match &mut attempt {
            None => Some(args.text.build(text, name, machine)?),
            Some(attempt) => attempt.build(text, name, &kinds(), &args.text.set).map_err(|error| args.failed(error))?,
        };
        let Some(network) = network else {
            let attempt = attempt.expect("one process alone has all boxes");
            let line = RefCell::new(RunningLine::new(true));
            let goes_on = || {
                line.borrow_mut().tell(|| "the nodes are at work".to_owned());
                !interrupt::cancel().is_cancelled()
            };
            let of_nodes = attempt.wait(None, goes_on).map_err(|error| args.failed(error))?;
            if args.counts {
                crate::messages::tell(counts(Vec::new(), of_nodes).trim_end());
            }
            return Ok(());
        };

        let format = match args.format {
            RowsName::Csv => RowFormat::Csv,
            RowsName::Json => RowFormat::JsonLines,
        };
        let mut operators: Vec<(BoxId, Box<dyn Operator>)> = Vec::new();
        let names: Vec<String> = network.collected.iter().map(|collected| collected.name.clone()).collect();
        let kept = PendingRows { rows: vec![Vec::new(); names.len()], ..PendingRows::default() };
        let printer = Arc::new(Printer { names, kept: Mutex::new(kept), printed: Condvar::new() });
        let mut held = Vec::new();
        for (number, collected) in network.collected.iter().enumerate() {
            format.check(&collected.schema).map_err(|error| anyhow!("`{}`: {error} (--format)", collected.name))?;
            let target = if args.retries > 0 {
                let file = Arc::new(args.unnamed_file()?);
                held.push(Arc::clone(&file));
                Rows::Held(file)
            } else if network.collected.len() == 1 {
                Rows::Printed
            } else {
                Rows::Part(Arc::clone(&printer), number)
            };
            operators.push((collected.sink, writer(format, &collected.schema, move || Ok(target.open()))));
        }
        let request = self.runtime.submit_within(&network.model, operators, self.options.clone());
        let is_seen = !network.collected.is_empty() && io::stdout().is_terminal();
        let line = RefCell::new(RunningLine::new(!is_seen));
        let look = || {
            // The box that writes next fails, and its request with it.
            let _ = printer.print(false);
            line.borrow_mut().tell(|| how_far(&request));
        };
        let mut of_nodes = Vec::new();
        let outcome = match attempt {
            None => outcome(&request, &look).map_err(Failed::Otherwise),
            Some(attempt) => {
                let goes_on = || {
                    look();
                    !interrupt::cancel().is_cancelled()
                };
                match attempt.wait(Some(&request), goes_on) {
                    Ok(counted) => {
                        of_nodes = counted;
                        Ok(())
                    }
                    Err(error) if error.is_loss() => Err(args.failed(error)),
                    Err(error) => args.told(error).map_err(Failed::Otherwise),
                }
            }
        };
        drop(line);
        let mut printed = printer.print(true);
        if args.counts {
            crate::messages::tell(counts(CountedBox::all(&network, &request), of_nodes).trim_end());
        }
        drop(request);
        outcome?;
        for (file, name) in held.iter().zip(&printer.names) {
            printed = printed.and_then(|()| print_held(file, (held.len() > 1).then_some(name)));
        }
        Ok(crate::messages::printed(printed)?)
    }
}

/// Prints the rows of a file, under a name if there is one.
fn print_held(mut file: &File, name: Option<&String>) -> io::Result<()> {
    file.rewind()?;
    let mut out = io::stdout();
    if let Some(name) = name {
        writeln!(out, "# {name}")?;
    }
    io::copy(&mut file, &mut out).and_then(|_| out.flush())
}

/// The rows sent by a request's sources; for vias from elsewhere, those received.
fn how_far(request: &Request) -> String {
    let sources = request.counts().into_iter().filter(|counts| counts.inputs.is_empty());
    format!("{} rows of the sources so far", HumanCount(sources.map(|counts| counts.rows_sent()).sum()))
}

/// Waits for a request, and looks at it meanwhile. Ctrl-C cancels it.
fn outcome(request: &Request, look: &dyn Fn()) -> anyhow::Result<()> {
    /// How often Ctrl-C is looked for.
    const LOOKED: Duration = Duration::from_millis(50);
    let outcome = loop {
        if let Some(outcome) = request.wait_for(LOOKED) {
            break outcome;
        }
        if interrupt::cancel().is_cancelled() {
            request.cancel();
        }
        look();
    };
    told(outcome.map(|_| ()))
}

/// The options of a network that is run to be measured: half of the free memory, and temporary files beyond.
fn measured() -> anyhow::Result<RequestOptions> {
    Ok(RequestOptions { overflows: node::overflows(None)?, ..RequestOptions::from(memory::free_limit()) })
}

/// Runs a network on one thread, and gives the counts of its boxes with their times. Collected rows are dropped.
pub(crate) fn timed(network: &Network) -> anyhow::Result<Vec<BoxCounts>> {
    let builder = Runtime::builder().strategy(vicus::kit::DEFAULT_OF_QUERIES.parse()?);
    let runtime = engine::start(builder, Some(1))?;
    let options = RequestOptions { is_timed: true, ..measured()? };
    let request = runtime.submit_within(&network.model, Vec::new(), options);
    outcome(&request, &|| ())?;
    Ok(request.counts())
}

/// The end of a network as the command tells it.
fn told(outcome: Result<(), FlowError>) -> anyhow::Result<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(FlowError::Cancelled) if interrupt::cancel().is_cancelled() => Err(Interrupted.into()),
        Err(error) => {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            while let Some(one) = cause {
                if one.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
                    // The reader has seen enough.
                    return Ok(());
                }
                cause = one.source();
            }
            Err(anyhow!("{error}"))
        }
    }
}

/// A line for each box: its name in the text, its name in the model, its runs and rows; its node, if there are several
/// processes; and if vias dropped rows for newer ones, their number. Behind them are the boxes of fragments, all of a
/// name in one line, by the type of the box in their place before.
fn counts(own: Vec<CountedBox>, of_nodes: Vec<Vec<CountedBox>>) -> String {
    let mut out = String::new();
    let has_nodes = !of_nodes.is_empty();
    let all: Vec<(usize, CountedBox)> = std::iter::once(own)
        .chain(of_nodes)
        .enumerate()
        .flat_map(|(node, boxes)| boxes.into_iter().map(move |counted| (node, counted)))
        .collect();
    let has_dropped = all.iter().any(|(_, counted)| counted.rows_dropped > 0);
    let titles = ["box", "as", "node", "runs", "rows in", "rows out", "ms", "dropped"].map(str::to_owned).to_vec();
    let line = |(node, counted): &(usize, CountedBox)| {
        let CountedBox { name, in_model, acts, rows_in, rows_out, busy_ns, rows_dropped } = counted;
        let ms = format!("{:.1}", *busy_ns as f64 / 1e6);
        let numbers = [acts.to_string(), rows_in.to_string(), rows_out.to_string(), ms, rows_dropped.to_string()];
        [name.clone(), in_model.clone(), node.to_string()].into_iter().chain(numbers).collect::<Vec<String>>()
    };
    let mut lines: Vec<Vec<String>> = std::iter::once(titles).chain(all.iter().map(line)).collect();
    for line in &mut lines {
        line.truncate(line.len() - usize::from(!has_dropped));
        if !has_nodes {
            line.remove(2);
        }
    }
    let used = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..used).map(width).collect();
    for line in &lines {
        for (column, (text, width)) in line.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = if column < 2 { write!(out, "{text:width$}  ") } else { write!(out, "{text:>width$}  ") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}
