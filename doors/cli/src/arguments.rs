//! Groups of options that several commands share: each is declared, explained and read here once.

use crate::bench::measure;
use crate::engine;
use crate::input::{self, Reading};
use crate::messages::tell;
use crate::query::{DefaultGraph, SyntaxName, bytes, duration, levels};
use crate::strategy;
use anyhow::Context as _;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use vicus::kit::Settings;
use vicus::{Runtime, RuntimeBuilder, Setting};
use vicus_service::data::{LoadOptions, LoadSource, OnError};
use vicus_service::{
    LoadedDataset, PlanOptions, Service, SessionOptions, SparqlOptions, TextLimits, TlsCertificate, TlsRoots,
};

/// The runtime of a command.
#[derive(clap::Args)]
pub(crate) struct RuntimeArgs {
    /// The scheduling strategy, with parameters as in las:pin=pu; see `vicus strategies`; by default the one of
    /// VICUS_STRATEGY, else las.
    #[arg(long, help_heading = "Scheduling")]
    strategy: Option<Setting>,
    /// How many threads; by default one for each usable PU.
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    threads: Option<usize>,
}

impl RuntimeArgs {
    /// Checks the number of threads against this machine.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        engine::check_threads(self.threads)
    }

    /// The strategy given, or the default of queries.
    pub(crate) fn setting(&self) -> anyhow::Result<Setting> {
        strategy::one(self.strategy.as_ref())
    }

    /// A runtime with this strategy, after a check of the number of threads.
    pub(crate) fn builder(&self) -> anyhow::Result<RuntimeBuilder> {
        self.check()?;
        Ok(Runtime::builder().strategy(self.setting()?))
    }

    /// Starts a runtime with this number of threads.
    pub(crate) fn start(&self, builder: RuntimeBuilder) -> anyhow::Result<Runtime> {
        engine::start(builder, self.threads)
    }

    /// A service with this number of threads, and no bound on its calls' memory together.
    pub(crate) fn serve(&self, builder: RuntimeBuilder) -> anyhow::Result<Service> {
        engine::serve(builder, self.threads)
    }
}

/// The certificate of a command that listens.
#[derive(clap::Args)]
pub(crate) struct CertificateArgs {
    /// A certificate chain as a PEM file: what connects here then has to speak TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key as a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    tls_key: Option<PathBuf>,
}

impl CertificateArgs {
    /// The files of the certificate and of its key.
    pub(crate) fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert.clone().zip(self.tls_key.clone())
    }

    pub(crate) fn read(&self) -> anyhow::Result<Option<TlsCertificate>> {
        self.files().map(|(certificate, key)| Ok(TlsCertificate::read(&certificate, &key)?)).transpose()
    }
}

/// The authorities that a command trusts which connects.
#[derive(clap::Args)]
pub(crate) struct RootsArgs {
    /// Trusts certificates that the authorities in this PEM file have signed, and no others: those of nodes, which are
    /// then connected by TLS alone, and of servers that are followed and buckets, by https, in place of the public
    /// authorities. SERVICE and LOAD trust the public ones.
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    tls_ca: Option<PathBuf>,
}

impl RootsArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.tls_ca.is_some()
    }

    pub(crate) fn read(&self) -> anyhow::Result<Option<TlsRoots>> {
        self.tls_ca.as_ref().map(|file| TlsRoots::read(file).context("--tls-ca")).transpose()
    }
}

/// The strategies and the numbers of threads that a benchmark compares.
#[derive(clap::Args)]
pub(crate) struct SweepArgs {
    /// The strategies to compare, a list such as las,nls:spares=2,steal; by default those of VICUS_STRATEGY, else
    /// vicus.
    #[arg(long, value_name = "LIST")]
    strategy: Vec<Settings>,
    /// Numbers of threads; by default one for each usable PU, and for `bench prediction` also one alone.
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = measure::threads)]
    threads: Vec<usize>,
}

impl SweepArgs {
    pub(crate) fn strategies(&self) -> anyhow::Result<Vec<Setting>> {
        strategy::several(&self.strategy, vicus::DEFAULT)
    }

    /// The numbers of threads given, or else the default ones, after a check against this machine.
    pub(crate) fn threads_or(&self, default: impl IntoIterator<Item = usize>) -> anyhow::Result<Vec<usize>> {
        self.threads.iter().try_for_each(|&threads| engine::check_threads(Some(threads)))?;
        Ok(if self.threads.is_empty() { default.into_iter().collect() } else { self.threads.clone() })
    }
}

/// The limits of a query or an update.
#[derive(clap::Args)]
pub(crate) struct LimitArgs {
    /// A query or an update is cancelled when it takes longer, from parsing its text on: 30, 1.5s, 500ms. So is the
    /// opening of all files of tables together. With `vicus serve`, a request's `timeout` parameter may ask for less.
    #[arg(long, value_name = "SECONDS", value_parser = duration, help_heading = "Limits")]
    pub(crate) timeout: Option<Duration>,
    /// The bytes of memory that a query or an update may hold, its parsed text and its plan included: 500000, 64K, 10M,
    /// 2G. Rows beyond go to temporary files where they are sorted, grouped, joined or made distinct; others that need
    /// more fail. By default half of the free memory at its beginning, shared by copies that run at once, and with
    /// `vicus serve` as much as all requests together.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    pub(crate) memory_limit: Option<u64>,
    /// How many boxes of a query's network may live at once, if it grows while it runs, as those of recursive
    /// statements do; by default 262144. With more it is cancelled.
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_boxes: Option<NonZeroUsize>,
    /// The most bytes of a query's or an update's text: 500000, 64K, 10M.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value_t = TextLimits::default().bytes as u64)]
    #[arg(help_heading = "Limits")]
    max_query_bytes: u64,
    /// The deepest nesting of a query or an update, 1 to 10000 levels: brackets, and operators and patterns that apply
    /// to the one before, such as OPTIONAL, BIND, EXISTS and paths of any length.
    #[arg(long, value_name = "LEVELS", value_parser = levels, default_value_t = TextLimits::default().depth)]
    #[arg(help_heading = "Limits")]
    max_query_depth: usize,
    /// How many bytes longer a text may become when its names are written out, for each byte of it and for 1024 more: a
    /// long prefix or base may occur in many names.
    #[arg(long, value_name = "TIMES", default_value_t = SparqlOptions::default().longer)]
    #[arg(help_heading = "Limits")]
    max_longer: usize,
    /// How many signs of property paths may be counted again because their path has another object; for long texts one
    /// more for four bytes of text.
    #[arg(long, value_name = "N", default_value_t = SparqlOptions::default().path_signs)]
    #[arg(help_heading = "Limits")]
    max_path_signs: usize,
    /// The most steps of planning a query: looks at operators, at their variables, and at ways to join, some ten
    /// nanoseconds each. Only queries with very many variables in very many patterns reach this.
    #[arg(long, value_name = "N", default_value_t = PlanOptions::default().plan_steps)]
    #[arg(help_heading = "Limits")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    max_plan_steps: u64,
}

impl LimitArgs {
    /// Sets the limits of a session.
    pub(crate) fn apply(&self, options: &mut SessionOptions) {
        let bytes = usize::try_from(self.max_query_bytes).unwrap_or(usize::MAX);
        options.text = TextLimits { bytes, depth: self.max_query_depth };
        options.languages.sparql.longer = self.max_longer;
        options.languages.sparql.path_signs = self.max_path_signs;
        options.plan.plan_steps = self.max_plan_steps;
        options.limits.time = self.timeout;
        options.limits.memory = self.memory_limit;
        options.limits.most_boxes = self.max_boxes;
    }
}

/// How data, documents of LOAD and texts about them are read.
#[derive(clap::Args)]
pub(crate) struct DocumentArgs {
    /// The longest IRI of data, documents and updates when it is written out: 2K, 64K. A long prefix or base makes many
    /// short names long.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    #[arg(help_heading = "Reading RDF")]
    max_iri: u64,
    /// Reads RDF 1.2 and SPARQL 1.2 (not final yet): triple terms, base directions, and their syntax. Without it, a
    /// text or a document with them is refused; a store with them is read in any case.
    #[arg(long = "rdf-12", help_heading = "Reading RDF")]
    rdf_12: bool,
}

impl DocumentArgs {
    fn longest_iri(&self) -> usize {
        usize::try_from(self.max_iri).unwrap_or(usize::MAX)
    }

    /// Sets how a session reads.
    pub(crate) fn apply(&self, options: &mut SessionOptions) {
        options.longest_iri = self.longest_iri();
        options.languages.sparql.rdf_12 = self.rdf_12;
    }
}

/// Files of RDF.
#[derive(clap::Args)]
pub(crate) struct DataArgs {
    /// A file of RDF, in the syntax of its ending (.nt, .nq, .ttl, .trig, .rdf, .xml, .owl, .jsonld), plain or packed
    /// by gzip, zstd, bzip2 or xz, with .gz, .zst, .bz2 or .xz behind the ending or not; - is standard input. May be
    /// given several times: all files together are loaded, or, after an error, none; blank nodes are kept apart by
    /// file.
    #[arg(long, value_name = "FILE", help_heading = "Reading RDF")]
    pub(crate) data: Vec<OsString>,
    /// The syntax of all data files, whatever their endings; of standard input nt by default.
    #[arg(long, value_enum, help_heading = "Reading RDF")]
    syntax: Option<SyntaxName>,
    /// Leaves malformed lines of the data out, and says how many. A file of RDF/XML or JSON-LD ends at its first error.
    #[arg(long, help_heading = "Reading RDF")]
    skip_malformed: bool,
    /// The longest line of data, in Turtle, TriG and RDF/XML the longest statement, in JSON-LD the longest item of a
    /// list, or the file if it is no list: 64K, 10M, 2G. A longer one, such as all of /dev/zero, is an error, because
    /// it must fit in memory as a whole.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    #[arg(help_heading = "Reading RDF")]
    max_line: u64,
    #[command(flatten)]
    pub(crate) documents: DocumentArgs,
}

/// Opened files, and how much of them has been read.
pub(crate) struct Opened {
    sources: Vec<LoadSource>,
    reading: Reading,
}

impl DataArgs {
    /// Opens the files.
    pub(crate) fn open(&self) -> anyhow::Result<Opened> {
        let (sources, reading) = input::open(&self.data, self.syntax.map(SyntaxName::syntax))?;
        Ok(Opened { sources, reading })
    }

    /// How the files are loaded.
    pub(crate) fn load_options(&self, hash_seed: u64) -> LoadOptions {
        LoadOptions {
            on_error: if self.skip_malformed { OnError::Skip } else { OnError::Fail },
            longest_line: usize::try_from(self.max_line).unwrap_or(usize::MAX),
            longest_iri: self.documents.longest_iri(),
            hash_seed,
            rdf_12: self.documents.rdf_12,
            ..LoadOptions::default()
        }
    }

    /// Loads opened files, and says how many lines were left out.
    pub(crate) fn load(service: &Service, opened: Opened, options: LoadOptions) -> anyhow::Result<LoadedDataset> {
        let loaded = engine::load(service, opened.sources, &opened.reading, options)?;
        if let Some(first) = &loaded.first_skipped {
            tell(format_args!("vicus: {} malformed lines were left out; the first: {first}", loaded.skipped));
        }
        Ok(loaded)
    }
}

/// The meaning of queries where their texts leave it open.
#[derive(clap::Args)]
pub(crate) struct AnswerArgs {
    /// The default graph of a query without FROM: the triples in no named graph, or the union of all named graphs; a
    /// triple of several graphs counts once in it.
    #[arg(long, value_enum, default_value_t = DefaultGraph::Own, help_heading = "Meaning of queries")]
    default_graph: DefaultGraph,
    /// Refuses queries with an unknown function; otherwise its call is an error, which a FILTER takes for false.
    #[arg(long, help_heading = "Meaning of queries")]
    strict_functions: bool,
}

impl AnswerArgs {
    /// Sets the meaning of a session's queries.
    pub(crate) fn apply(&self, options: &mut SessionOptions) {
        options.languages.sparql.default_graph = self.default_graph.planned();
        options.languages.sparql.strict_functions = self.strict_functions;
    }
}
