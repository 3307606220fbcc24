//! RDF4J and Jena, each in its own JVM behind pipes. `bench/peers` has the Java programs and the protocol.

use crate::peer::{Answer, Peer, Query, Side};
use anyhow::{Context, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long past its limit an engine may run before its process is ended.
const GRACE: Duration = Duration::from_secs(3);

struct Java {
    engine: &'static str,
    jars: PathBuf,
    data: PathBuf,
    /// `None` after the process was ended; the next query starts another.
    process: Option<Process>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<std::io::Result<String>>,
}

/// Builds the Java peers into `folder` with Maven; fails if it or Java is not installed.
pub(crate) fn build(folder: &Path) -> anyhow::Result<()> {
    let needed = [("java", "Java 17 or newer (Debian: openjdk-17-jdk-headless)"), ("mvn", "Maven (Debian: maven)")];
    let missing = needed.iter().filter(|(program, _)| crate::find_program(&[program]).is_none());
    let missing: Vec<&str> = missing.map(|(_, what)| *what).collect();
    ensure!(missing.is_empty(), "not installed: {}", missing.join(" and "));
    let pom = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pom.xml");
    let built = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file", pom, "package"])
        .arg(format!("-Dout={}", folder.display()))
        .stdout(std::io::stderr())
        .status()?;
    ensure!(built.success(), "Maven failed ({built}): what it says stands above; the first time it needs the network");
    Ok(())
}

/// Loads the data in a JVM. `jars` is the folder of [`build`].
pub(crate) fn load(engine: &'static str, jars: &Path, data: &Path) -> anyhow::Result<Side> {
    crate::find_program(&["java"])
        .context("Java 17 or newer is missing: install it (Debian: openjdk-17-jdk-headless)")?;
    let mut java = Java { engine, jars: jars.to_owned(), data: data.to_owned(), process: None };
    let (triples, load_ms) = java.start()?;
    Ok(Side { name: engine, peer: Box::new(java), load_ms, triples })
}

impl Java {
    /// Starts the JVM; returns the number of triples and the milliseconds of loading.
    fn start(&mut self) -> anyhow::Result<(u64, f64)> {
        let jars = self.jars.display();
        let mut child = Command::new("java")
            .args(["-cp", &format!("{jars}/vicus-peers.jar:{jars}/lib/*"), "vicus.Peer", self.engine])
            .arg(&self.data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (sender, lines) = channel();
        // Ends with the process, or when the receiver is dropped.
        std::thread::spawn(move || output.lines().all(|line| sender.send(line).is_ok()));
        let process = self.process.insert(Process { child, input, lines });
        let line = process.lines.recv().context("it ended while it loaded; what it says stands above")??;
        numbers(&line).with_context(|| format!("expected the number of loaded triples, but got {line:?}"))
    }
}

/// Parses a count and milliseconds from `COUNT<TAB>NANOSECONDS`.
fn numbers(line: &str) -> anyhow::Result<(u64, f64)> {
    let (count, nanoseconds) = line.split_once('\t').context("two numbers with a tab between them")?;
    Ok((count.parse()?, nanoseconds.parse::<f64>()? / 1e6))
}

impl Peer for Java {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        if self.process.is_none() {
            self.start()?;
        }
        let process = self.process.as_mut().expect("it was started");
        let sent = writeln!(process.input, "{}\t{}", limit.as_millis(), query.path.display());
        let line = match sent.map(|()| process.lines.recv_timeout(limit + GRACE)) {
            Ok(Ok(line)) => line?,
            Ok(Err(RecvTimeoutError::Timeout)) => {
                self.process = None;
                return Ok(Answer::Cut);
            }
            Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => {
                self.process = None;
                bail!("its process ended");
            }
        };
        if line == "cut" {
            return Ok(Answer::Cut);
        }
        if let Some(error) = line.strip_prefix("error\t") {
            bail!("{error}");
        }
        let (rows, ms) = numbers(&line)?;
        // An engine that counts whole seconds may exceed its limit and still return rows.
        Ok(if ms > limit.as_secs_f64() * 1e3 { Answer::Cut } else { Answer::Rows { ms, rows } })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
