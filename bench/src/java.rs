//! RDF4J and Jena, each in its own JVM behind pipes. `bench/peers` has the Java programs and the protocol.

use crate::cpus::find_program;
use crate::peer::{Answer, Peer, Query, Side};
use crate::piped::{Piped, numbers};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

struct Java {
    engine: &'static str,
    jars: PathBuf,
    data: PathBuf,
    /// `None` after the process was ended; the next query starts another.
    process: Option<Piped>,
}

/// The folder for Java builds, beside the folder of this program's profile.
pub fn folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.ancestors().nth(2));
    target.unwrap_or(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))).join("peers")
}

/// Builds the Java peers into `folder` with Maven; fails if it or Java is not installed.
pub fn build(folder: &Path) -> anyhow::Result<()> {
    let needed = [("java", "Java 17 or newer (Debian: openjdk-17-jdk-headless)"), ("mvn", "Maven (Debian: maven)")];
    let missing = needed.iter().filter(|(program, _)| find_program(&[program]).is_none());
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

/// The command that runs one of the programs. `jars` is the folder of [`build`].
pub fn command(jars: &Path, program: &str) -> Command {
    let mut command = Command::new("java");
    let jars = jars.display();
    command.args(["-cp", &format!("{jars}/vicus-peers.jar:{jars}/lib/*"), &format!("vicus.{program}")]);
    command
}

/// Loads the data in a JVM. `jars` is the folder of [`build`].
pub fn load(engine: &'static str, jars: &Path, data: &Path) -> anyhow::Result<Side> {
    find_program(&["java"]).context("Java 17 or newer is missing: install it (Debian: openjdk-17-jdk-headless)")?;
    let mut java = Java { engine, jars: jars.to_owned(), data: data.to_owned(), process: None };
    let (triples, load_ms) = java.start()?;
    Ok(Side { name: engine, peer: Box::new(java), load_ms, triples })
}

impl Java {
    /// Starts the JVM; returns the number of triples and the milliseconds of loading.
    fn start(&mut self) -> anyhow::Result<(u64, f64)> {
        let process = Piped::start(command(&self.jars, "Peer").arg(self.engine).arg(&self.data))?;
        let line = self.process.insert(process).line()?;
        numbers(&line).with_context(|| format!("expected the number of loaded triples, but got {line:?}"))
    }
}

impl Peer for Java {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        if self.process.is_none() {
            self.start()?;
        }
        let process = self.process.as_mut().expect("it was started");
        let answer = process.ask(&format!("{}\t{}", limit.as_millis(), query.path.display()), limit);
        if matches!(answer, Ok(None)) || process.has_ended() {
            self.process = None;
        }
        Ok(answer?.unwrap_or(Answer::Cut))
    }
}
