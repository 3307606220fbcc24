//! Peers in C: Qthreads and Argobots, fetched and built beside this program's build the first time; and Vicus' library
//! with Qthreads' interface. What is missing is said, and left out.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// Where a peer's source is, its version, and the library that its installation has.
struct Peer {
    name: &'static str,
    version: &'static str,
    library: &'static str,
    source: String,
}

/// A library that programs in C are linked with.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    includes: PathBuf,
    folder: PathBuf,
    library: &'static str,
    /// Upstream's programs, if it is a peer that has some.
    pub(crate) source: Option<PathBuf>,
}

/// The folder for what peers are installed into, beside the folder of this program's profile.
fn folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.ancestors().nth(2));
    target.unwrap_or(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))).join("peers")
}

/// The libraries that are there: Qthreads, Argobots and `ours`, a `libvicus_qthreads.so`.
pub(crate) fn libraries(qthreads: &str, argobots: &str, ours: Option<&Path>) -> Vec<Library> {
    let peers = [
        Peer { name: "qthreads", version: "1.23", library: "qthread", source: qthreads.to_owned() },
        Peer { name: "argobots", version: "v1.2", library: "abt", source: argobots.to_owned() },
    ];
    let mut found = Vec::new();
    for peer in peers {
        match peer.installed() {
            Ok(library) => found.push(library),
            Err(error) => eprintln!("{} is left out: {error:#}", peer.name),
        }
    }
    match ours.map(|ours| ours.canonicalize().map(|ours| (ours.parent().map(Path::to_owned), ours))) {
        Some(Ok((Some(folder), _))) => found.push(Library {
            name: "vicus-c",
            includes: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/qthreads-compat"),
            folder,
            library: "vicus_qthreads",
            source: None,
        }),
        _ => eprintln!("vicus-c is left out: `--library` names no libvicus_qthreads.so"),
    }
    found
}

fn step(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdout(std::io::stderr()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} failed; what went wrong stands above");
    Ok(())
}

/// A step whose complaints are told by their first line.
fn quiet_step(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdout(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let first = complaints.lines().find(|line| line.contains("error")).unwrap_or("it says nothing of why");
    ensure!(output.status.success(), "{first}");
    Ok(())
}

impl Peer {
    /// The installed library: it is fetched and built the first time.
    fn installed(&self) -> anyhow::Result<Library> {
        let base = folder().join(self.name);
        let (source, installed) = (base.join("source"), base.join("installed"));
        let library = || {
            let folders = ["lib", "lib64"].map(|folder| installed.join(folder));
            folders.into_iter().find(|folder| folder.join(format!("lib{}.so", self.library)).exists())
        };
        if library().is_none() {
            let _ = fs::remove_dir_all(&base);
            fs::create_dir_all(&base)?;
            step(
                Command::new("git")
                    .args([
                        "-c",
                        "advice.detachedHead=false",
                        "clone",
                        "--quiet",
                        "--depth",
                        "1",
                        "--branch",
                        self.version,
                    ])
                    .arg(&self.source)
                    .arg(&source),
            )?;
            if self.name == "qthreads" {
                with_cmake(&source, &installed)
            } else {
                with_autotools(&source, &installed)
            }?;
        }
        let Some(folder) = library() else { bail!("its build has made no lib{}.so", self.library) };
        let (includes, source) = (installed.join("include"), Some(source));
        Ok(Library { name: self.name, includes, folder, library: self.library, source })
    }
}

/// Optimized: without a type, Qthreads' build is not.
fn with_cmake(source: &Path, installed: &Path) -> anyhow::Result<()> {
    let build = source.join("build");
    let prefix = format!("-DCMAKE_INSTALL_PREFIX={}", installed.display());
    step(Command::new("cmake").args(["-DCMAKE_BUILD_TYPE=Release", &prefix, "-S"]).arg(source).arg("-B").arg(&build))?;
    step(Command::new("cmake").arg("--build").arg(&build).args(["--parallel", "--target", "qthread"]))?;
    step(Command::new("cmake").arg("--install").arg(&build))
}

fn with_autotools(source: &Path, installed: &Path) -> anyhow::Result<()> {
    let prefix = format!("--prefix={}", installed.display());
    step(Command::new("sh").arg("./autogen.sh").current_dir(source))
        .context("it needs autoconf, automake and libtool")?;
    let options = [&*prefix, "--enable-fast=O3", "--quiet", "CFLAGS=-O3"];
    step(Command::new("sh").arg("./configure").args(options).current_dir(source))?;
    step(Command::new("make").args(["--quiet", "-j", "install"]).current_dir(source))
}

impl Library {
    /// Compiles a program against it.
    fn compile(&self, file: &Path, options: &[String]) -> anyhow::Result<PathBuf> {
        let name = file.file_stem().context("a program has a name")?;
        let out = folder().join("programs").join(self.name).join(name);
        fs::create_dir_all(out.parent().context("it is in a folder")?)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        quiet_step(
            Command::new(compiler)
                .args(["-O2", "-std=gnu11", "-w"])
                .args(options)
                .arg(file)
                .arg("-I")
                .arg(&self.includes)
                .arg("-o")
                .arg(&out)
                .arg("-L")
                .arg(&self.folder)
                .arg(format!("-Wl,-rpath,{}", self.folder.display()))
                .args([&format!("-l{}", self.library), "-lm", "-lpthread"]),
        )?;
        Ok(out)
    }

    /// The program of the measurements.
    pub(crate) fn program(&self) -> anyhow::Result<PathBuf> {
        let file = if self.name == "argobots" { "peers/argobots.c" } else { "peers/qthreads.c" };
        self.compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &[])
    }
}

/// A program, for so many threads of the system.
fn command(program: &Path, threads: usize) -> Command {
    let mut command = Command::new(program);
    // Cargo's own would go before the program's.
    command.env_remove("LD_LIBRARY_PATH");
    command.env("QT_NUM_SHEPHERDS", threads.to_string()).env("QT_NUM_WORKERS_PER_SHEPHERD", "1");
    command
}

/// What a program of the measurements prints: nanoseconds for one operation.
pub(crate) fn measure(program: &Path, what: &str, threads: usize) -> f64 {
    let output = command(program, threads).arg(what).arg(threads.to_string()).output();
    let printed = output.ok().filter(|output| output.status.success());
    printed.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok()).unwrap_or(f64::NAN)
}

/// Words in the names of programs that are for another library.
const OTHERS: [&str; 3] = ["omp", "cilk", "pthread"];

/// A program that takes longer is ended.
const MOST: Duration = Duration::from_secs(60);

/// The input of programs that have none by default, or one that takes minutes, as variables of their environment.
const SIZES: [(&str, &[(&str, &str)]); 7] = [
    ("generic/time_febs_graph_test", &[("NUM_TASKS", "1000"), ("NUM_ELEMS", "1000000")]),
    ("generic/time_febs_stream_test", &[("NUM_TASKS", "1000"), ("NUM_ELEMS", "1000000")]),
    ("generic/time_increments", &[("ITERATIONS", "100000")]),
    ("generic/time_prodcons_comm", &[("ARRAY_SIZE", "1048576")]),
    ("generic/time_producerconsumer", &[("ITERATIONS", "10000")]),
    ("generic/time_qt_loopaccums", &[("NUM_INCRS", "100")]),
    ("generic/time_syncvar_producerconsumer", &[("ITERATIONS", "10000")]),
];

/// A program that takes longer is measured by three rounds at most.
const LONG_MS: f64 = 1000.0;

/// The names of Qthreads' benchmark programs, as `folder/name`, below a folder.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for group in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let group = group?;
        let Ok(files) = fs::read_dir(group.path()) else { continue };
        for file in files {
            let file = file?.path();
            let (Some(name), Some("c")) = (file.file_stem(), file.extension().and_then(|e| e.to_str())) else {
                continue;
            };
            let name = name.to_string_lossy();
            if !OTHERS.iter().any(|other| name.contains(other)) {
                names.push(format!("{}/{name}", group.file_name().to_string_lossy()));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Runs upstream's benchmark programs whose names have one of `wanted` in them, as they are, with both libraries in
/// turns, and prints the medians of their times.
pub(crate) fn programs(libraries: &[Library], wanted: &[String], threads: usize, rounds: usize) -> anyhow::Result<()> {
    let find = |name| libraries.iter().find(|library| library.name == name);
    let (Some(theirs), Some(ours)) = (find("qthreads"), find("vicus-c")) else {
        eprintln!("Qthreads' programs are left out: they need it and Vicus' library");
        return Ok(());
    };
    let tests = theirs.source.as_ref().context("it was built")?.join("test");
    let random = tests.join("utils/rng");
    let folders = [&tests, &random].map(|folder| format!("-I{}", folder.display()));
    // The unbalanced trees' random numbers.
    let sources = ["rng_brg.c", "brg_sha1.c"].map(|file| random.join(file).display().to_string());
    let options = [folders, sources].concat();
    println!("Qthreads' benchmark programs, {threads} threads of the system, ms");
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/start.c");
    let starts = [theirs, ours].map(|library| library.compile(&start, &[]));
    let starts = in_turns(&starts.into_iter().collect::<anyhow::Result<Vec<_>>>()?, threads, &[], rounds.max(7));
    println!(
        "  {:38} qthreads {:>9}  vicus-c {:>9}",
        "the library's start and end alone",
        shown(&starts[0]),
        shown(&starts[1])
    );
    let [start, own_start] = [0, 1].map(|side| starts[side].as_ref().map_or(0.0, |ms| *ms));
    // Of all programs, and of those that do more than to start.
    let (mut all, mut longer) = (Vec::new(), Vec::new());
    for name in names(&tests.join("benchmarks"))? {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        let file = tests.join("benchmarks").join(format!("{name}.c"));
        let [theirs, ours] = match [theirs, ours].map(|library| library.compile(&file, &options)) {
            [Ok(theirs), Ok(ours)] => [theirs, ours],
            [Err(error), _] | [_, Err(error)] => {
                eprintln!("{name} is left out: {error:#}");
                continue;
            }
        };
        let sizes = SIZES.iter().find(|(sized, _)| *sized == name).map_or(&[][..], |(_, sizes)| sizes);
        let found = in_turns(&[theirs, ours], threads, sizes, rounds);
        let (theirs, and_more) = match found[0] {
            Ok(theirs) => (Some(theirs), ""),
            Err(Without::NoEnd) => (Some(MOST.as_secs_f64() * 1e3), " and more"),
            Err(Without::Failed) => (None, ""),
        };
        let ratio = match (theirs, &found[1]) {
            _ if UNDONE.contains(&&*name) => "(Qthreads does not do it all)".to_owned(),
            (Some(theirs), Ok(ours)) => {
                all.push(theirs / ours);
                if theirs > 10.0 * start && *ours > 10.0 * own_start {
                    longer.push(theirs / ours);
                }
                format!("{:6.2} times{and_more}", theirs / ours)
            }
            _ => String::new(),
        };
        println!("  {name:38} qthreads {:>9}  vicus-c {:>9}  {ratio}", shown(&found[0]), shown(&found[1]));
    }
    for (ratios, which) in [(all, "end with Vicus"), (longer, "of these take ten times as long as a start, or longer")]
    {
        if !ratios.is_empty() {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            println!("  {} {which}: {mean:.2} times in the geometric mean", ratios.len());
        }
    }
    println!("  What does not end with Qthreads in {} s counts as that long.", MOST.as_secs());
    Ok(())
}

fn shown(found: &Result<f64, Without>) -> String {
    found.as_ref().map_or_else(|why| format!("{why}"), |ms| format!("{ms:.1}"))
}

/// The median of the milliseconds that each of these programs takes. They run in turns, long ones three times at most,
/// and one that fails or does not end is not run again.
fn in_turns(programs: &[PathBuf], threads: usize, sizes: &[(&str, &str)], rounds: usize) -> Vec<Result<f64, Without>> {
    let mut found: Vec<Result<Vec<f64>, Without>> = programs.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        if round >= 3 && found.iter().flatten().flatten().any(|&ms| ms > LONG_MS) {
            break;
        }
        for (program, found) in programs.iter().zip(&mut found) {
            if let Ok(times) = found {
                match run(command(program, threads).envs(sizes.iter().copied())) {
                    Ok(ms) => times.push(ms),
                    Err(why) => *found = Err(why),
                }
            }
        }
    }
    found.into_iter().map(|found| found.map(|ms| vicus_testing::median(&ms))).collect()
}

/// Programs whose work Qthreads leaves undone: of the products of `time_allpairs`, none is there at the end but those
/// that are 0.
const UNDONE: [&str; 1] = ["thesis/time_allpairs"];

/// Why a program has no time.
enum Without {
    Failed,
    NoEnd,
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Without::Failed => "fails",
            Without::NoEnd => "no end",
        })
    }
}

/// How many milliseconds a program takes.
fn run(command: &mut Command) -> Result<f64, Without> {
    let began = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|_| Without::Failed)?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(began.elapsed().as_secs_f64() * 1e3),
            Ok(None) if began.elapsed() < MOST => std::thread::sleep(Duration::from_micros(200)),
            Ok(Some(_)) => return Err(Without::Failed),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Without::NoEnd);
            }
        }
    }
}
