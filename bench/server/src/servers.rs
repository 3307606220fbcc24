//! The servers: what each needs, how its data is loaded, and how it is started.

use crate::cpus::find_program;
use crate::http::percent;
use crate::process::{Cpus, Process};
use crate::side::{Side, free_port, peers_folder};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What all sides are loaded with, and how.
pub(crate) struct Given<'a> {
    pub(crate) data: &'a Path,
    pub(crate) vicus: &'a Path,
    pub(crate) cpus: &'a Cpus,
}

fn folder(name: &str) -> anyhow::Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix(&format!("vicus-{name}-")).tempdir()?)
}

/// Runs what loads a side's data, and says how long that took.
fn load(name: &str, command: &mut Command, cpus: &Cpus) -> anyhow::Result<()> {
    let began = Instant::now();
    Process::run(command, cpus)?;
    eprintln!("{name}: loaded in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Vicus with the data in memory.
pub(crate) fn vicus(given: &Given<'_>) -> anyhow::Result<Side> {
    let (program, data) = (given.vicus.to_owned(), given.data.to_owned());
    let mut side = Side::new("vicus", "/sparql", folder("vicus")?, move |port| {
        let mut command = Command::new(&program);
        command.arg("serve").arg("--data").arg(&data).arg("--bind").arg(format!("127.0.0.1:{port}"));
        command.stderr(Stdio::inherit());
        Ok(command)
    });
    side.is_store = false;
    Ok(side)
}

/// Vicus with a store.
pub(crate) fn vicus_store(given: &Given<'_>) -> anyhow::Result<Side> {
    let folder = folder("vicus-store")?;
    let (program, store) = (given.vicus.to_owned(), folder.path().join("store"));
    load(
        "vicus-store",
        Command::new(&program).arg("load").arg("--store").arg(&store).arg("--data").arg(given.data),
        given.cpus,
    )?;
    Ok(Side::new("vicus-store", "/sparql", folder, move |port| {
        let mut command = Command::new(&program);
        command.arg("serve").arg("--store").arg(&store).arg("--bind").arg(format!("127.0.0.1:{port}"));
        Ok(command)
    }))
}

/// Oxigraph's server, from its Python package.
pub(crate) fn oxigraph(given: &Given<'_>) -> anyhow::Result<Side> {
    let program = installed_oxigraph()?;
    let folder = folder("oxigraph")?;
    let store = folder.path().join("store");
    load("oxigraph", Command::new(&program).arg("load").arg("-l").arg(&store).arg("-f").arg(given.data), given.cpus)?;
    load("oxigraph, optimised", Command::new(&program).arg("optimize").arg("-l").arg(&store), given.cpus)?;
    Ok(Side::new("oxigraph", "/query", folder, move |port| {
        let mut command = Command::new(&program);
        command.arg("serve-read-only").arg("-l").arg(&store).arg("--bind").arg(format!("127.0.0.1:{port}"));
        command.stderr(Stdio::null());
        Ok(command)
    }))
}

/// The server's program, installed by pip the first time.
fn installed_oxigraph() -> anyhow::Result<PathBuf> {
    let folder = peers_folder().join("oxigraph");
    let program = folder.join("bin/oxigraph");
    if program.is_file() {
        return Ok(program);
    }
    let python = find_program(&["python3"]).context("Python is missing: install it (Debian: python3-venv)")?;
    let failed =
        "Oxigraph's server can't be installed: it needs Python's venv and pip (Debian: python3-venv) and the network";
    let step = |command: &mut Command| -> anyhow::Result<()> {
        let status = command.stdout(std::io::stderr()).status()?;
        ensure!(status.success(), "{failed}; what went wrong stands above");
        Ok(())
    };
    step(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
    step(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "oxigraph>=0.5,<0.6"]))?;
    Ok(program)
}

/// Jena's server on TDB2.
pub(crate) fn fuseki(given: &Given<'_>) -> anyhow::Result<Side> {
    let jars = installed_fuseki()?;
    let folder = folder("fuseki")?;
    let (store, path) = (folder.path().join("tdb2"), folder.path().to_owned());
    let log = concat!("-Dlog4j2.configurationFile=", env!("CARGO_MANIFEST_DIR"), "/peers/log4j2.properties");
    let java = move |class: &str| {
        let mut command = Command::new("java");
        command.arg("-cp").arg(jars.join("*")).arg(log).arg(class);
        command
    };
    load(
        "fuseki",
        java("tdb2.tdbloader").arg("--loader=parallel").arg("--loc").arg(&store).arg(given.data),
        given.cpus,
    )?;
    Ok(Side::new("fuseki", "/ds/sparql", folder, move |port| {
        let mut command = java("org.apache.jena.fuseki.main.cmds.FusekiServerCmd");
        // It makes a folder where it is started.
        command.current_dir(&path);
        command.arg("--tdb2").arg("--loc").arg(&store).args(["--localhost", "--port", &port.to_string(), "/ds"]);
        command.stderr(Stdio::null());
        Ok(command)
    }))
}

/// The folder of its jars, which Maven fetches the first time.
fn installed_fuseki() -> anyhow::Result<PathBuf> {
    let folder = peers_folder().join("fuseki");
    let needed = [("java", "Java 17 or newer (Debian: openjdk-17-jdk-headless)"), ("mvn", "Maven (Debian: maven)")];
    let missing = needed.iter().filter(|(program, _)| find_program(&[program]).is_none());
    let missing: Vec<&str> = missing.map(|(_, what)| *what).collect();
    ensure!(missing.is_empty(), "not installed: {}", missing.join(" and "));
    let status = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pom.xml"))
        .arg(format!("-Dout={}", folder.display()))
        .arg("package")
        .stdout(std::io::stderr())
        .status()?;
    ensure!(
        status.success(),
        "Maven failed ({status}): what it says stands above; the first time it needs the network"
    );
    Ok(folder.join("lib"))
}

/// The graph that has Virtuoso's data. Queries name no graph, so each request does.
const GRAPH: &str = "http://localhost/data";

/// Virtuoso, from Debian's package.
pub(crate) fn virtuoso(given: &Given<'_>) -> anyhow::Result<Side> {
    let missing = "is missing: install Debian's package virtuoso-opensource-7";
    let program = find_program(&["virtuoso-t", "virtuoso"]).with_context(|| format!("virtuoso-t {missing}"))?;
    let isql = find_program(&["isql-vt", "isql-v"]).with_context(|| format!("isql-vt {missing}"))?;
    let data = given.data.canonicalize()?;
    let (parent, name) = data.parent().zip(data.file_name()).context("the data is a file in a folder")?;
    let (parent, name) = (parent.display().to_string(), name.to_string_lossy());
    ensure!(![&*parent, &*name].concat().contains(['\'', ',', '\n']), "the data's path has a quote or comma in it");
    let folder = folder("virtuoso")?;
    let (sql, threads) = (free_port()?, given.cpus.sides.len());
    let (path, allowed) = (folder.path().to_owned(), parent.clone());
    let mut side = Side::new("virtuoso", "/sparql", folder, move |port| {
        std::fs::write(path.join("virtuoso.ini"), virtuoso_settings(sql, port, threads, &allowed))?;
        let mut command = Command::new(program);
        command.args(["+foreground", "+configfile", "virtuoso.ini"]).current_dir(&path).stderr(Stdio::null());
        Ok(command)
    });
    side.parameters = format!("default-graph-uri={}&", percent(GRAPH));
    side.restart(given.cpus)?;
    let statements =
        format!("ld_dir('{parent}', '{}', '{GRAPH}'); rdf_loader_run(); checkpoint;", name.replace('%', "\\%"));
    let mut command = Command::new(isql);
    command.arg(format!("127.0.0.1:{sql}")).args(["dba", "dba", "ERRORS=STDOUT", &format!("EXEC={statements}")]);
    load("virtuoso", &mut command, given.cpus)?;
    Ok(side)
}

/// The package's settings, except for folders, ports and threads, with enough buffers (of 8 KiB) for the data and
/// enough connections that are kept alive.
fn virtuoso_settings(sql: u16, http: u16, threads: usize, data: &str) -> String {
    format!(
        "[Database]
DatabaseFile = virtuoso.db
ErrorLogFile = virtuoso.log
LockFile = virtuoso.lck
TransactionFile = virtuoso.trx
xa_persistent_file = virtuoso.pxa
FileExtend = 200
MaxCheckpointRemap = 2000
[TempDatabase]
DatabaseFile = virtuoso-temp.db
TransactionFile = virtuoso-temp.trx
MaxCheckpointRemap = 2000
[Parameters]
ServerPort = 127.0.0.1:{sql}
DisableUnixSocket = 1
DirsAllowed = {data}
NumberOfBuffers = 170000
MaxDirtyBuffers = 130000
MaxQueryMem = 2G
MaxClientConnections = 300
ThreadsPerQuery = {threads}
AsyncQueueMaxThreads = {threads}
CheckpointInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerRoot = .
ServerThreads = 280
MaxClientConnections = 280
MaxKeepAlives = 1000
KeepAliveTimeout = 60
[SPARQL]
ResultSetMaxRows = 1048576
"
    )
}
