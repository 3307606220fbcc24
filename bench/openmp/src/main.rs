//! OpenMP programs on `libvicus_omp.so`, and on gcc's and clang's own libraries.
//!
//! Each binary is run with each library that it can run with, in turn, on the same processors with the same places for
//! its threads, and the medians are compared. Binaries of gcc run with libgomp and with libomp, which has its
//! functions, too; those of clang with libomp. The programs of this folder say what they have measured ([`measured`]);
//! of any other one it is the time from its start to its end, or a number that it prints.

#[expect(dead_code, reason = "threads of this process are measured in more ways")]
#[path = "../../containers/src/measure.rs"]
mod measure;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// OpenMP programs on libvicus_omp.so, and on the compilers' own libraries: the median time of each, and the ratio to
/// the better of the others (lower is better).
#[derive(Parser)]
struct Args {
    /// libvicus_omp.so.
    #[arg(long, value_name = "FILE")]
    library: PathBuf,
    /// Numbers of threads, separated by commas. The programs may use as many processors.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// How many times each binary is run with each library, after once that does not count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The programs of this repository to run, separated by commas: fib, nqueens, tree, lu, jacobi, constructs. By
    /// default all, and none if there are other ones.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// The strategy of Vicus.
    #[arg(long, default_value = "vicus")]
    strategy: String,
    /// What another program's line begins with, behind spaces, whose last number is its time, such as "Time Program";
    /// without it, the time from its start to its end is measured.
    #[arg(long, value_name = "TEXT")]
    line: Option<String>,
    /// How many seconds a program may take.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Writes the results as an array of objects with name, unit, ours, peer, theirs and ratio.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Other programs, compiled by gcc or clang with -fopenmp. A program with arguments is one word: "bin/fib -n 27".
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

/// A library that a binary can be run with.
struct Library {
    name: &'static str,
    /// What is loaded before the binary's own library; `None` for that one.
    preload: Option<PathBuf>,
}

/// A binary, and what it is run with.
struct Binary {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Ours is the last one.
    libraries: Vec<Library>,
    /// Whether it prints what it has measured.
    is_ours: bool,
}

/// What a program measured: a name, a value of which less is better, and its unit.
type Measured = (String, f64, String);

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let own = fs::canonicalize(&args.library).with_context(|| format!("there is no {}", args.library.display()))?;
    let scratch = Scratch(env::temp_dir().join(format!("vicus-bench-openmp-{}", std::process::id())));
    let binaries = binaries(&args, &own, &scratch.0)?;
    let cpus = measure::allowed()?;
    let mut results = Vec::new();
    for &threads in &args.threads {
        ensure!(threads > 0, "a number of threads is at least 1");
        let cpus = &cpus[..threads.min(cpus.len())];
        // Children may run where this process may.
        measure::allow(cpus);
        let places: Vec<String> = cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        let places = places.join(",");
        println!("\n{threads} threads on processors {places}, load {}", measure::load());
        println!("{:28} {:>12} {:>12} {:>12} {:>4} {:>8}", "", "libgomp", "libomp", "vicus", "", "ratio");
        for binary in &binaries {
            let rows = compare(binary, &args, threads, &places)?;
            results.extend(rows);
        }
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&results)? + "\n";
        fs::write(path, text).with_context(|| format!("the results can't be written to {}", path.display()))?;
    }
    Ok(())
}

/// The folder for compiled programs, which is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a binary with all its libraries in turn, and prints a line for each thing that it measures.
fn compare(binary: &Binary, args: &Args, threads: usize, places: &str) -> anyhow::Result<Vec<serde_json::Value>> {
    let mut all: Vec<Vec<Vec<Measured>>> = binary.libraries.iter().map(|_| Vec::new()).collect();
    for round in 0..=args.rounds {
        for (library, runs) in binary.libraries.iter().zip(&mut all) {
            let run = run(binary, library, args, threads, places)?;
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let mut rows = Vec::new();
    let first = &all[0][0];
    for (at, (what, _, unit)) in first.iter().enumerate() {
        let of = |runs: &Vec<Vec<Measured>>| -> anyhow::Result<f64> {
            let values: Option<Vec<f64>> = runs.iter().map(|run| run.get(at).map(|measured| measured.1)).collect();
            Ok(vicus_testing::median(&values.with_context(|| format!("{}: a run says less than others", binary.name))?))
        };
        let medians: Vec<f64> = all.iter().map(of).collect::<anyhow::Result<_>>()?;
        let (ours, theirs) = medians.split_last().expect("ours is the last library");
        let best = (0..theirs.len())
            .min_by(|&a, &b| theirs[a].total_cmp(&theirs[b]))
            .expect("each binary has its own library");
        let (peer, ratio) = (binary.libraries[best].name, ours / theirs[best]);
        let name = if what.is_empty() { binary.name.clone() } else { format!("{} {what}", binary.name) };
        let shown = |name: &str| match binary.libraries.iter().position(|library| library.name == name) {
            Some(at) => format!("{}", Short(medians[at])),
            None => "-".to_owned(),
        };
        println!(
            "{name:28} {:>12} {:>12} {:>12} {unit:>4} {ratio:>8.2}",
            shown("libgomp"),
            shown("libomp"),
            Short(*ours).to_string()
        );
        let name = format!("{name}, {threads} threads");
        rows.push(serde_json::json!({
            "name": name, "unit": unit, "ours": ours, "peer": peer, "theirs": theirs[best], "ratio": ratio,
        }));
    }
    Ok(rows)
}

/// A number with four digits or more.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = match self.0 {
            1000.0.. => 0,
            100.0.. => 1,
            10.0.. => 2,
            _ => 3,
        };
        write!(f, "{:.digits$}", self.0)
    }
}

/// Runs a binary once.
fn run(binary: &Binary, library: &Library, args: &Args, threads: usize, places: &str) -> anyhow::Result<Vec<Measured>> {
    let mut command = Command::new(&binary.program);
    command.args(&binary.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("OMP_NUM_THREADS", threads.to_string()).env("OMP_PROC_BIND", "true").env("OMP_PLACES", places);
    command.env("VICUS_STRATEGY", &args.strategy).env_remove("LD_PRELOAD");
    if let Some(preload) = &library.preload {
        command.env("LD_PRELOAD", preload);
    }
    let what = || format!("{} with {}", binary.name, library.name);
    let began = Instant::now();
    let child = command.spawn().with_context(|| format!("can't run {}", binary.program.display()))?;
    let id = child.id();
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let seconds = args.seconds;
    let watch = std::thread::spawn(move || {
        // It says nothing, and is dropped when the child has ended.
        let is_late = watched.recv_timeout(std::time::Duration::from_secs(seconds))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        if is_late {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        is_late
    });
    let output = child.wait_with_output()?;
    let seconds = began.elapsed().as_secs_f64();
    drop(ended);
    let is_late = watch.join().expect("it only waits");
    ensure!(!is_late, "{} was not over after {} s", what(), args.seconds);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{}: {}\n{said}{}",
        what(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    if binary.is_ours {
        return measured(&said).with_context(what);
    }
    let Some(line) = &args.line else { return Ok(vec![(String::new(), seconds, "s".to_owned())]) };
    let said = said + &String::from_utf8_lossy(&output.stderr);
    let found = said.lines().filter(|text| text.trim_start().starts_with(line.as_str())).find_map(last_number);
    let time = found.with_context(|| format!("{}: no line begins with `{line}` and has a number", what()))?;
    Ok(vec![(String::new(), time, String::new())])
}

/// The last number of a line.
fn last_number(line: &str) -> Option<f64> {
    line.split(|c: char| c.is_whitespace() || matches!(c, '=' | ':' | ',')).rev().find_map(|word| word.parse().ok())
}

/// What one of our programs has printed: lines of a name, a value and a unit.
fn measured(said: &str) -> anyhow::Result<Vec<Measured>> {
    let line = |line: &str| -> Option<Measured> {
        let mut words = line.split_whitespace();
        let (name, value, unit) = (words.next()?, words.next()?, words.next()?);
        Some((name.to_owned(), value.parse().ok()?, unit.to_owned()))
    };
    said.lines().map(|text| line(text).with_context(|| format!("no name, value and unit: {text}"))).collect()
}

/// All binaries that are to be run.
fn binaries(args: &Args, own: &Path, folder: &Path) -> anyhow::Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    let ours = ["fib", "nqueens", "tree", "lu", "jacobi", "constructs"];
    for name in &args.only {
        ensure!(ours.contains(&name.as_str()), "there is no program `{name}`; there are {}", ours.join(", "));
    }
    let is_wanted = |name: &&str| {
        if args.only.is_empty() { args.programs.is_empty() } else { args.only.iter().any(|only| only == name) }
    };
    let compilers: [(&str, &[&str]); 2] =
        [("gcc", &["gcc"]), ("clang", &["clang-22", "clang-21", "clang-20", "clang-19", "clang"])];
    let wanted: Vec<&str> = ours.iter().copied().filter(is_wanted).collect();
    if !wanted.is_empty() {
        fs::create_dir_all(folder)?;
        for (kind, commands) in compilers {
            let compiled: anyhow::Result<Vec<Binary>> =
                wanted.iter().map(|name| compile(name, kind, commands, folder, own)).collect();
            match compiled {
                Ok(compiled) => binaries.extend(compiled),
                Err(error) => eprintln!("left out: {kind}: {error:#}"),
            }
        }
        ensure!(!binaries.is_empty(), "neither gcc nor clang can compile OpenMP programs here");
    }
    for program in &args.programs {
        let mut words = program.split_whitespace();
        let path = words.next().context("a program's name is empty")?;
        let bytes = fs::read(path).with_context(|| format!("there is no program {path}"))?;
        let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        let kind = match (has(b"__kmpc_fork_call"), has(b"GOMP_")) {
            (true, _) => "clang",
            (false, true) => "gcc",
            (false, false) => {
                bail!("{path} calls functions of neither gcc's nor clang's OpenMP: a static one, or none")
            }
        };
        let file =
            Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned());
        binaries.push(Binary {
            name: file,
            program: fs::canonicalize(path)?,
            arguments: words.map(str::to_owned).collect(),
            libraries: libraries(kind, own),
            is_ours: false,
        });
    }
    Ok(binaries)
}

/// Compiles a program of this folder.
fn compile(name: &str, kind: &'static str, commands: &[&str], folder: &Path, own: &Path) -> anyhow::Result<Binary> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(format!("{name}.c"));
    let to = folder.join(format!("{name}-{kind}"));
    for command in commands {
        let output =
            Command::new(command).args(["-O2", "-fopenmp"]).arg(&source).arg("-o").arg(&to).arg("-lm").output();
        let Ok(output) = output else { continue };
        ensure!(output.status.success(), "{command} {name}.c: {}", String::from_utf8_lossy(&output.stderr));
        let libraries = libraries(kind, own);
        return Ok(Binary {
            name: format!("{kind} {name}"),
            program: to,
            arguments: Vec::new(),
            libraries,
            is_ours: true,
        });
    }
    bail!("it is not there")
}

/// The libraries that binaries of a compiler can be run with.
fn libraries(kind: &str, own: &Path) -> Vec<Library> {
    let mut libraries = Vec::new();
    if kind == "gcc" {
        libraries.push(Library { name: "libgomp", preload: None });
        if let Some(libomp) = libomp() {
            libraries.push(Library { name: "libomp", preload: Some(libomp) });
        }
    } else {
        libraries.push(Library { name: "libomp", preload: None });
    }
    libraries.push(Library { name: "vicus", preload: Some(own.to_owned()) });
    libraries
}

/// clang's library, if clang says where it is.
fn libomp() -> Option<PathBuf> {
    ["clang-22", "clang-21", "clang-20", "clang-19", "clang"].iter().find_map(|command| {
        let output = Command::new(command).arg("-print-file-name=libomp.so").output().ok()?;
        fs::canonicalize(String::from_utf8(output.stdout).ok()?.trim()).ok().filter(|path| path.is_absolute())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        assert_eq!(measured("fib 1.5 ms\n").unwrap(), [("fib".to_owned(), 1.5, "ms".to_owned())]);
        assert!(measured("fib ms\n").is_err());
        assert_eq!(last_number("  Time Program           = 0.25 seconds"), Some(0.25));
        assert_eq!(last_number("none"), None);
    }
}
