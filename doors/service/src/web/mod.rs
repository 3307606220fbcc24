//! The web, as queries and updates ask it: endpoints of SERVICE over the SPARQL Protocol, and documents of LOAD.
//! Nothing is asked without a permission.
//!
//! A question has a limit on its time and on the bytes of its answer. The answer is read as it comes. The waiting
//! thread is one that may block; it looks every few milliseconds whether the run still needs the answer.

mod csv;
mod exchange;
mod nesting;
mod permit;
mod tsv;

pub use permit::Permit;

use crate::document::RDF;
use exchange::{Head, Incoming, Question};
use nesting::Watched;
use oxrdf::Term;
use sparesults::{QueryResultsFormat, QueryResultsParseError, QueryResultsParser, ReaderQueryResultsParserOutput};
use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::time::Duration;
use ureq::Agent;
use vicus_rdf::triple::{MOST_NESTED, levels_of};
use vicus_sparql::{Endpoints, SolutionSink};

/// How the web is asked.
#[derive(Clone, Debug)]
pub struct WebOptions {
    /// The permitted URLs; also for a server's redirects.
    pub permits: Vec<Permit>,
    /// How long a question may take, from its connection to the last byte of its answer.
    pub time: Duration,
    /// How long a connection may take to come about.
    pub connect: Duration,
    /// The most bytes of an answer, and of a document when it is unpacked.
    pub bytes: u64,
    /// How many redirects are followed.
    pub redirects: u32,
}

impl Default for WebOptions {
    /// Nothing is permitted. A minute for a question, ten seconds for its connection, 256 MiB, five redirects.
    fn default() -> WebOptions {
        WebOptions {
            permits: Vec::new(),
            time: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            bytes: 256 << 20,
            redirects: 5,
        }
    }
}

/// The limits of one question.
#[derive(Clone, Copy)]
struct Limits {
    time: Duration,
    bytes: u64,
    redirects: u32,
}

/// Asks servers on the web. The engine asks the endpoints of SERVICE by it.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpListener;
/// use vicus_service::{Web, WebOptions};
/// use vicus_sparql::Endpoints;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let endpoint = format!("http://{}/sparql", listener.local_addr()?);
/// let server = std::thread::spawn(move || {
///     let mut connection = listener.accept().unwrap().0;
///     connection.read(&mut [0; 4096]).unwrap();
///     let answer = "?name\n\"Ann\"\n";
///     let head = "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\nContent-Length:";
///     write!(connection, "{head} {}\r\n\r\n{answer}", answer.len())
/// });
///
/// let web = Web::new(WebOptions { permits: vec![endpoint.parse()?], ..WebOptions::default() });
/// let mut names = Vec::new();
/// let query = "SELECT ?name { ?who <http://e/name> ?name }";
/// web.ask(&endpoint, query, &|| false, &mut |solution| names.push(solution[0].1.to_string()))?;
/// assert_eq!(names, ["\"Ann\""]);
/// # server.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Web {
    /// Made when it is first needed: most calls ask no server, and have one of these all the same.
    agent: OnceLock<Agent>,
    options: WebOptions,
}

impl Default for Web {
    /// May ask nothing.
    fn default() -> Web {
        Web::new(WebOptions::default())
    }
}

/// The media types of solutions. CSV comes last: it does not tell IRIs and numbers from texts.
const SOLUTIONS: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.9, \
    text/tab-separated-values;q=0.8, \
                         text/csv;q=0.1";

impl Web {
    /// A web with these options.
    pub fn new(options: WebOptions) -> Web {
        Web { agent: OnceLock::new(), options }
    }

    fn agent(&self) -> &Agent {
        self.agent.get_or_init(|| {
            let config = Agent::config_builder()
                // The caller judges the status, and whether it may follow a redirect.
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_connect(Some(self.options.connect))
                // Settings are values: none is read from the environment here.
                .proxy(None)
                .user_agent(concat!("vicus/", env!("CARGO_PKG_VERSION")))
                .build();
            config.new_agent()
        })
    }

    fn begin<S: Fn() -> bool>(&self, question: Question, stopped: S) -> Result<Incoming<S>, WebError> {
        let WebOptions { permits, time, bytes, redirects, .. } = &self.options;
        let limits = Limits { time: *time, bytes: *bytes, redirects: *redirects };
        exchange::ask(self.agent(), question, permits, limits, stopped)
    }

    /// Reads a document of RDF.
    pub(crate) fn fetch<S: Fn() -> bool>(&self, url: &str, stopped: S) -> Result<Document<S>, WebError> {
        let mut bytes = self.begin(Question { url: url.to_owned(), form: None, accept: RDF }, stopped)?;
        let Head { status, reason, media_type, url } = bytes.head()?;
        match status {
            200 => Ok(Document { media_type, url, bytes }),
            _ => Err(WebError::Status { status, reason, line: bytes.first_line() }),
        }
    }

    fn solutions(
        &self,
        endpoint: &str,
        query: &str,
        stopped: &dyn Fn() -> bool,
        found: SolutionSink<'_>,
    ) -> Result<(), WebError> {
        let form = Some(format!("query={}", escaped(query)));
        let mut incoming = self.begin(Question { url: endpoint.to_owned(), form, accept: SOLUTIONS }, stopped)?;
        let Head { status, reason, media_type, .. } = incoming.head()?;
        if status != 200 {
            return Err(WebError::Status { status, reason, line: incoming.first_line() });
        }
        let read = match media_type.as_deref().and_then(QueryResultsFormat::from_media_type) {
            None => return Err(WebError::WrongType { media_type, line: incoming.first_line() }),
            Some(QueryResultsFormat::Csv) => csv::read(&mut incoming, found).map_err(QueryResultsParseError::Io),
            Some(QueryResultsFormat::Tsv) => tsv::read(&mut incoming, found).map_err(QueryResultsParseError::Io),
            Some(QueryResultsFormat::Xml) => {
                read_solutions(QueryResultsFormat::Xml, Watched::xml(&mut incoming), found)
            }
            // JSON; the formats are no closed list.
            Some(format) => read_solutions(format, Watched::json(&mut incoming), found),
        };
        read.map_err(|error| match error {
            QueryResultsParseError::Io(error) => match error.downcast() {
                Ok(error) => error,
                Err(error) => WebError::Junk { why: error.to_string(), line: incoming.first_line() },
            },
            QueryResultsParseError::Syntax(error) => {
                WebError::Junk { why: error.to_string(), line: incoming.first_line() }
            }
        })
    }

    /// The most bytes of an answer.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.options.bytes
    }
}

fn read_solutions(
    format: QueryResultsFormat,
    mut reader: impl Read,
    found: SolutionSink<'_>,
) -> Result<(), QueryResultsParseError> {
    let parser = QueryResultsParser::from_format(format);
    let ReaderQueryResultsParserOutput::Solutions(mut solutions) = parser.for_reader(&mut reader)? else {
        return Err(io::Error::other(WebError::YesOrNo).into());
    };
    for solution in &mut solutions {
        let solution = solution?;
        let is_deep = |term: &Term| matches!(term, Term::Triple(triple) if levels_of(triple) > MOST_NESTED);
        if solution.iter().any(|(_, term)| is_deep(term)) {
            return Err(io::Error::other(nesting::too_deep()).into());
        }
        let bound = solution.iter().map(|(variable, term)| (variable.as_str(), term.clone()));
        found(&bound.collect::<Vec<(&str, Term)>>());
    }
    drop(solutions);
    // An answer that breaks off behind its last solution is not whole.
    io::copy(&mut reader, &mut io::sink())?;
    Ok(())
}

/// A text as a value of a form.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => escaped.push(char::from(byte)),
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// A document as it comes.
pub(crate) struct Document<S> {
    pub(crate) media_type: Option<String>,
    /// The URL of the document, after redirects.
    pub(crate) url: String,
    pub(crate) bytes: Incoming<S>,
}

impl Endpoints for Web {
    fn ask(
        &self,
        endpoint: &str,
        query: &str,
        stopped: &dyn Fn() -> bool,
        found: SolutionSink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.solutions(endpoint, query, stopped, found)?)
    }
}

/// Why there is no answer from the web, or not all of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum WebError {
    /// No [`Permit`] covers the URL, or the target of a redirect.
    NotPermitted {
        /// The URL.
        url: String,
    },
    /// The URL can't be asked, under any permit.
    WrongUrl {
        /// The URL.
        url: String,
        /// Why not.
        why: String,
    },
    /// There is no such host, or no connection to it, or the connection broke off.
    Unreachable {
        /// The reason.
        why: String,
    },
    /// The answer took too long.
    TimedOut {
        /// The limit.
        most: Duration,
    },
    /// Its answer is too long.
    TooManyBytes {
        /// The limit.
        most: u64,
    },
    /// One redirect led to the next.
    TooManyRedirects,
    /// The server refused, or failed.
    Status {
        /// The status of HTTP.
        status: u16,
        /// Its usual name.
        reason: &'static str,
        /// The first line of the answer's text.
        line: String,
    },
    /// The answer is of an unreadable kind.
    WrongType {
        /// The kind, if the server named one.
        media_type: Option<String>,
        /// Its first line.
        line: String,
    },
    /// Neither the server nor the URL's ending names the syntax of a document.
    NoSyntax {
        /// The server's media type.
        media_type: Option<String>,
    },
    /// The answer does not match the server's media type.
    Junk {
        /// The fault found.
        why: String,
        /// Its first line.
        line: String,
    },
    /// The answer to a SELECT is yes or no.
    YesOrNo,
    /// The answer was no longer needed.
    Stopped,
    /// The system gives no thread to ask on.
    NoThread(io::Error),
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begins = |line: &str| match line {
            "" => ", and nothing with it".to_owned(),
            line => format!("; it begins: {line}"),
        };
        match self {
            WebError::NotPermitted { url } => write!(f, "asking {url} is not permitted"),
            WebError::WrongUrl { url, why } => write!(f, "`{url}` can't be asked: {why}"),
            WebError::Unreachable { why } => write!(f, "it can't be reached: {why}"),
            WebError::TimedOut { most } => write!(f, "its answer took longer than {} s", most.as_secs_f64()),
            WebError::TooManyBytes { most } => write!(f, "its answer has more than {most} bytes"),
            WebError::TooManyRedirects => f.write_str("it redirects too often"),
            WebError::Status { status, reason, line } => write!(f, "it answers {status} {reason}{}", begins(line)),
            WebError::WrongType { media_type: Some(media_type), line } => {
                write!(f, "it answers {media_type}, which is no format of solutions{}", begins(line))
            }
            WebError::WrongType { media_type: None, line } => {
                write!(f, "it does not say which format its answer has{}", begins(line))
            }
            WebError::NoSyntax { media_type } => {
                write!(f, "it is {}, which is no syntax of RDF", media_type.as_deref().unwrap_or("of no named type"))
            }
            WebError::Junk { why, line } => write!(f, "its answer can't be read: {why}{}", begins(line)),
            WebError::YesOrNo => f.write_str("it answers yes or no, where solutions were asked for"),
            WebError::Stopped => f.write_str("its answer is no longer needed"),
            WebError::NoThread(error) => write!(f, "no thread can be had to ask it: {error}"),
        }
    }
}

impl Error for WebError {}
