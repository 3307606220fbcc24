//! A side: a server with the data, which can be started and asked.

use crate::http::{self, Fetched};
use crate::load::Size;
use crate::process::{Cpus, Process};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const JSON: &str = "application/sparql-results+json";
pub(crate) const TSV: &str = "text/tab-separated-values";

/// How long a server may take from its start to its first answer.
const START: Duration = Duration::from_secs(300);

pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// What it reads when it starts: files of its own, or the data's text.
    pub(crate) is_store: bool,
    /// The command that starts it at a port.
    pub(crate) start: Box<dyn Fn(u16) -> anyhow::Result<Command>>,
    /// Where it answers.
    pub(crate) path: &'static str,
    /// What a request says beside the query, each followed by `&`.
    pub(crate) parameters: String,
    /// Its database, which is deleted in the end.
    pub(crate) _folder: tempfile::TempDir,
    pub(crate) port: u16,
    pub(crate) process: Option<Process>,
}

/// The result of one query.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Rows { rows: u64, time: Duration, size: Size },
    Cut,
    Failed(String),
}

impl Side {
    pub(crate) fn new(
        name: &'static str,
        path: &'static str,
        folder: tempfile::TempDir,
        start: impl Fn(u16) -> anyhow::Result<Command> + 'static,
    ) -> Side {
        let start = Box::new(start);
        Side { name, is_store: true, start, path, parameters: String::new(), _folder: folder, port: 0, process: None }
    }

    /// Starts its process, in place of one that runs. The time until the first answer.
    pub(crate) fn restart(&mut self, cpus: &Cpus) -> anyhow::Result<Duration> {
        self.process = None;
        self.port = free_port()?;
        let mut command = (self.start)(self.port)?;
        let began = Instant::now();
        let process = self.process.insert(Process::start(&mut command, cpus)?);
        let request = http::request(self.port, self.path, &self.parameters, "ASK { <urn:a> <urn:b> <urn:c> }", JSON);
        loop {
            if let Ok(Fetched::Whole { status: 200, .. }) = http::fetch(self.port, &request, START, &mut |_| {}) {
                return Ok(began.elapsed());
            }
            if let Some(status) = process.ended() {
                bail!("{}: the server ended ({status})", self.name);
            }
            ensure!(began.elapsed() < START, "{}: the server took more than {START:?} to start", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn process(&self) -> anyhow::Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }

    pub(crate) fn request(&self, query: &str, accept: &str) -> Vec<u8> {
        http::request(self.port, self.path, &self.parameters, query, accept)
    }

    /// Asks once and counts the rows. After a cut, the server must be restarted.
    pub(crate) fn ask(&self, query: &str, limit: Duration) -> Answer {
        let mut body = Vec::new();
        let fetched =
            http::fetch(self.port, &self.request(query, JSON), limit, &mut |bytes| body.extend_from_slice(bytes));
        match fetched {
            Ok(Fetched::Whole { status: 200, time, bytes }) => match rows(&body) {
                Ok((rows, has_blanks)) => {
                    Answer::Rows { rows, time, size: if has_blanks { Size::Varies } else { Size::Bytes(bytes) } }
                }
                Err(error) => Answer::Failed(format!("{error:#}")),
            },
            Ok(Fetched::Whole { status, .. }) => {
                let text = String::from_utf8_lossy(&body);
                Answer::Failed(format!("status {status}: {}", text.lines().next().unwrap_or_default()))
            }
            Ok(Fetched::Cut) => Answer::Cut,
            Err(error) => Answer::Failed(format!("{error:#}")),
        }
    }
}

/// The number of rows of an answer, 1 and 0 for true and false; and whether there are blank nodes in it, whose names
/// may differ each time.
fn rows(body: &[u8]) -> anyhow::Result<(u64, bool)> {
    /// Of large answers, rows are counted without a parser: each has its own braces in a list.
    const LARGE: usize = 32 << 20;
    let has_blanks = body.windows(7).any(|seven| seven == b"\"bnode\"");
    if body.len() > LARGE {
        return Ok((count_objects(body), has_blanks));
    }
    let value: Value = serde_json::from_slice(body).context("the answer is no JSON")?;
    if let Some(answer) = value["boolean"].as_bool() {
        return Ok((u64::from(answer), has_blanks));
    }
    let rows = value["results"]["bindings"].as_array().context("the answer has no rows")?;
    Ok((rows.len() as u64, has_blanks))
}

/// The objects of depth 3 in `{"results":{"bindings":[{…},{…}]}}`.
fn count_objects(body: &[u8]) -> u64 {
    let (mut depth, mut count, mut in_text, mut escaped) = (0, 0, false, false);
    for byte in body {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{') => {
                depth += 1;
                count += u64::from(depth == 3);
            }
            (false, b'}') => depth -= 1,
            _ => {}
        }
    }
    count
}

/// A port that is free now. Another process may take it first; then the side's start fails.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// The folder for what peers are installed into, beside the folder of this program's profile.
pub(crate) fn peers_folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.ancestors().nth(2));
    target.unwrap_or(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))).join("peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_with_and_without_a_parser() {
        let text = br#"{"head":{"vars":["a"]},"results":{"bindings":[{"a":{"type":"literal","value":"{\"}"}},{}]}}"#;
        assert_eq!(rows(text).unwrap(), (2, false));
        assert_eq!(count_objects(text), 2);
        assert_eq!(rows(br#"{"head":{},"boolean":true}"#).unwrap(), (1, false));
    }
}
