//! For tests and benchmarks of several crates: programs that run with a time limit, a folder for a program's files, and
//! the median.

mod scratch;

pub use scratch::scratch;

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The middle value, or the mean of the two in the middle.
///
/// ```
/// use vicus_testing::median;
///
/// assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
/// assert_eq!(median(&[4.0, 1.0, 2.0, 30.0]), 3.0);
/// ```
///
/// # Panics
/// Without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median is one of values");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// A program that has ended, or was ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` if it was killed at its limit.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Its exit status; `None` if a signal or the limit ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Its standard output as text.
    #[must_use]
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error as text.
    #[must_use]
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Its output. Panics with `what` and the output if it was killed at its limit.
    #[must_use]
    pub fn in_time(self, what: &str) -> Output {
        let Some(status) = self.status else { panic!("{what}: it never ended\n{}\n{}", self.out(), self.err()) };
        Output { status, stdout: self.stdout, stderr: self.stderr }
    }
}

/// Runs a program to its end, or kills it when `limit` is over. Its output is read while it runs, since a full pipe
/// would block it.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
/// use vicus_testing::run_within;
///
/// let ended = run_within(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(60))?;
/// assert_eq!((ended.code(), &*ended.out(), &*ended.err()), (Some(3), "out\n", "err\n"));
/// let killed = run_within(Command::new("sleep").arg("600"), Duration::from_millis(10))?;
/// assert!(killed.status.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The program can't be started.
pub fn run_within(command: &mut Command, limit: Duration) -> io::Result<Ended> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = read(child.stdout.take().expect("it is piped"));
    let stderr = read(child.stderr.take().expect("it is piped"));
    let status = wait_within(&mut child, limit);
    if status.is_none() {
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
    }
    let all = |reader: JoinHandle<Vec<u8>>| reader.join().expect("it only reads");
    Ok(Ended { status, stdout: all(stdout), stderr: all(stderr) })
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// Waits for the end of a program. `None`: it runs on after `limit`.
///
/// ```
/// use std::process::Command;
/// use std::time::Duration;
/// use vicus_testing::wait_within;
///
/// let mut child = Command::new("true").spawn()?;
/// assert!(wait_within(&mut child, Duration::from_secs(60)).is_some_and(|status| status.success()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    /// The system has no wait with a limit, so the child is looked at this often.
    const LOOKS: Duration = Duration::from_millis(1);
    let end = Instant::now() + limit;
    loop {
        match child.try_wait().expect("it is a child") {
            None if Instant::now() < end => thread::sleep(LOOKS),
            ended => return ended,
        }
    }
}
