//! An engine in a process of its own, behind pipes: a line to its standard input is answered by a line from its
//! standard output.

use crate::peer::Answer;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long past its limit an engine may run before its process is ended.
const GRACE: Duration = Duration::from_secs(3);

/// The process. It ends when this is dropped.
pub struct Piped {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

impl Piped {
    /// Starts it.
    pub fn start(command: &mut Command) -> anyhow::Result<Piped> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (sender, lines) = channel();
        // Ends with the process, or when the receiver is dropped.
        std::thread::spawn(move || output.lines().all(|line| sender.send(line).is_ok()));
        Ok(Piped { child, input, lines })
    }

    /// Its number in the system.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line.
    pub fn line(&self) -> anyhow::Result<String> {
        Ok(self.lines.recv().context("its process ended; what it says stands above")??)
    }

    /// Sends a line and waits for two numbers: a count and milliseconds.
    pub fn tell(&mut self, line: &str) -> anyhow::Result<(u64, f64)> {
        writeln!(self.input, "{line}").context("its process ended; what it says stands above")?;
        let line = self.line()?;
        if let Some(error) = line.strip_prefix("error\t") {
            bail!("{error}");
        }
        numbers(&line).with_context(|| format!("expected a count and a time, but got {line:?}"))
    }

    /// Sends a line that asks a query within a limit. `None` if the process did not keep to the limit: it is of no more
    /// use then.
    pub fn ask(&mut self, line: &str, limit: Duration) -> anyhow::Result<Option<Answer>> {
        let sent = writeln!(self.input, "{line}");
        let line = match sent.map(|()| self.lines.recv_timeout(limit + GRACE)) {
            Ok(Ok(line)) => line?,
            Ok(Err(RecvTimeoutError::Timeout)) => return Ok(None),
            Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => bail!(ENDED),
        };
        if line == "cut" {
            return Ok(Some(Answer::Cut));
        }
        if let Some(error) = line.strip_prefix("error\t") {
            bail!("{error}");
        }
        let (rows, ms) = numbers(&line)?;
        // An engine that counts whole seconds may exceed its limit and still return rows.
        Ok(Some(if ms > limit.as_secs_f64() * 1e3 { Answer::Cut } else { Answer::Rows { ms, rows } }))
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

const ENDED: &str = "its process ended";

/// Parses a count and milliseconds from `COUNT<TAB>NANOSECONDS`.
pub fn numbers(line: &str) -> anyhow::Result<(u64, f64)> {
    let (count, nanoseconds) = line.split_once('\t').context("two numbers with a tab between them")?;
    Ok((count.parse()?, nanoseconds.parse::<f64>()? / 1e6))
}

impl Drop for Piped {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
