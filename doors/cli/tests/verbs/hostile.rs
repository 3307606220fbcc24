//! Each verb and option with wrong input: an error that names the input, its place and the expected form, and never a
//! panic.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use vicus_testing::run_within;

/// The folder of a test, with files for it.
fn folder(test: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("it can be written");
    write("ok.nt", b"<http://e/a> <http://e/p> \"x\" .\n");
    let line = |n: u32| format!("<http://e/{n}> <http://e/p> \"number {n}\" .\n");
    write("more.nt", (0..300).map(line).collect::<String>().as_bytes());
    // Pseudo-random bytes. The first is not valid in any syntax, and a control character follows soon.
    let noise: Vec<u8> = (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let noise = [&b"\x1b[31m"[..], &noise].concat();
    for name in ["noise.nt", "noise.ttl", "noise.nt.gz", "noise.rq", "noise.trace", "noise.toml", "noise.xml"] {
        write(name, &noise);
    }
    for name in ["empty.nt", "empty.ttl", "empty.nt.gz", "empty.rq", "empty.trace", "empty.toml", "empty.xml"] {
        write(name, b"");
    }
    write("bad.toml", b"name = 1\n");
    write("bad.xml", b"<topology>");
    std::fs::create_dir(folder.join("folder.nt")).expect("it can be made");
    folder
}

/// Runs a line in a shell, with `$V` for the command, within this folder. Panics if it never ends.
fn shell(folder: &std::path::Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", line]).env("V", env!("CARGO_BIN_EXE_vicus")).current_dir(folder);
    ended(command.stdin(Stdio::null()), line)
}

fn ended(command: &mut Command, what: &str) -> Output {
    run_within(command, Duration::from_secs(120)).expect("it can be started").in_time(what)
}

/// Runs a line and checks its failure: a status other than 0, these words, no panic, nothing on standard output, and no
/// control characters.
fn fails(folder: &std::path::Path, line: &str, says: &str) {
    let output = shell(folder, line);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(1 | 2)), "{line}: {:?}\n{out}\n{err}", output.status);
    assert!(!err.contains("panicked") && !err.contains("memory allocation of"), "{line}: {err}");
    assert!(err.starts_with("vicus: ") || err.starts_with("error: "), "{line}: {err}");
    assert!(says.split("…").all(|word| err.contains(word)), "{line}: expected {says}, got {err}");
    assert!(out.is_empty(), "{line}: {out}");
    assert!(!err.contains(|c: char| c.is_control() && c != '\n'), "{line}: {err:?}");
}

/// What happened: one trillion copies of a query ended the process by SIGABRT. A file whose name is not UTF-8 could not
/// be opened. A file's contents were written to the terminal unchanged, escapes included.
#[test]
fn what_query_can_not_take_is_said() {
    let folder = folder("query");
    let data = [
        ("--data missing.nt", "missing.nt: can't be opened: No such file"),
        ("--data folder.nt", "folder.nt: is a folder; expected a file"),
        ("--data ''", "a data file's name is empty"),
        ("--data noise.nt", "noise.nt:1:1: "),
        ("--data noise.ttl", "noise.ttl:1:1: "),
        ("--data noise.nt.gz", "noise.nt.gz could not be read: invalid gzip header"),
        ("--data empty.nt.gz", "empty.nt.gz could not be read"),
        ("--data ok.n3", "ok.n3: the ending says no syntax…expected .nt, .nq, .ttl"),
        ("--data /dev/null", "/dev/null: the ending says no syntax…--syntax"),
        ("--data ok.nt --data missing.nt", "missing.nt: can't be opened"),
        ("--data -", "standard input:1:1: "),
        ("--data $'wrong\\xff.nt'", "can't be opened: No such file"),
    ];
    for (words, says) in data {
        fails(&folder, &format!("< noise.nt $V query {words} --format csv --threads 1 'ASK {{}}'"), says);
    }
    let options = [
        ("--threads 0", "--threads 0: at least one"),
        ("--threads -1", "'-1'"),
        ("--threads 100000", "--threads 100000: at most …threads; the machine has "),
        ("--threads 99999999999999999999", "--threads <N>"),
        ("--threads two", "invalid value 'two' for '--threads <N>'"),
        ("--threads=", "--threads <N>"),
        ("--memory-limit 0", "--memory-limit"),
        ("--memory-limit 5X", "'5X' for '--memory-limit <BYTES>': expected a number of bytes"),
        ("--memory-limit 99999999999G", "--memory-limit <BYTES>"),
        ("--timeout 0", "its time was up…(--timeout)"),
        ("--timeout nan", "--timeout <SECONDS>': expected a time"),
        ("--timeout 1e400", "--timeout <SECONDS>': expected a time"),
        ("--timeout 5m", "--timeout <SECONDS>': expected a time"),
        ("--envelope-rows 0", "--envelope-rows <N>': expected 1 to "),
        ("--concurrent 0", "--concurrent <K>': expected 1 to "),
        ("--concurrent 1000000000000", "--concurrent <K>': expected 1 to "),
        ("--repeat 0", "--repeat <K>': expected a number of at least 1"),
        ("--max-line 0", "ok.nt:1: more than 0 bytes…(--max-line)"),
        ("--max-query-bytes 3", "more than 3 bytes (--max-query-bytes)"),
        ("--max-query-depth 0", "--max-query-depth <LEVELS>': expected 1 to "),
        ("--max-query-depth 10001", "--max-query-depth <LEVELS>': expected 1 to 10000"),
        ("--hash-seed x", "--hash-seed <N>"),
        // What happened: the error pointed to the first character of the query.
        ("--base nowhere", "the query: the base `nowhere` is no absolute IRI…(--base)"),
        ("--max-longer x", "--max-longer <TIMES>"),
        ("--max-path-signs x", "--max-path-signs <N>"),
        ("--format yaml", "--format <FORMAT>"),
        ("--syntax n3", "--syntax <SYNTAX>"),
        ("--syntax ttl --data noise.nt", "noise.nt:1:1"),
        ("--strategy none", "there is no strategy `none`; there are las, "),
        ("--strategy las:", "--strategy <STRATEGY>"),
        ("--strategy las:pin=x", "`pin=x`: expected one of auto, group, pu"),
        ("--strategy las:bogus=1", "no parameter `bogus`; it has "),
        ("--strategy las:pin=pu,pin=pu", "has `pin` already"),
        ("--strategy las,nls", "one alone is expected"),
        ("--trace /nowhere/x", "/nowhere/x: can't be written"),
        ("--trace .", ".: can't be written"),
        ("--timings=xml", "--timings"),
        ("--query missing.rq", "cannot be used with"),
    ];
    for (words, says) in options {
        fails(&folder, &format!("$V query --data ok.nt --format csv {words} -- 'ASK {{}}'"), says);
    }
    for (words, says) in [
        ("", "--data <FILE>"),
        ("--data ok.nt", "there is no query"),
        ("--data ok.nt --query missing.rq", "missing.rq: can't be read"),
        ("--data ok.nt --query empty.rq", "query empty: line 1, column 1: the query ends too early"),
        ("--data ok.nt --query noise.rq", "noise.rq: can't be read"),
        ("--data ok.nt --query .", ".: can't be read"),
        ("--data ok.nt $'SELECT \\xff'", "no UTF-8"),
        ("--data ok.nt $'SELECT \\x1b[31m'", "the query: line 1"),
    ] {
        fails(&folder, &format!("$V query {words}"), says);
    }
    for (variable, says) in
        [("VICUS_STRATEGY=none", "VICUS_STRATEGY: there is no"), ("VICUS_HASH_SEED=x", "VICUS_HASH_SEED: ")]
    {
        fails(&folder, &format!("{variable} $V query --data ok.nt 'ASK {{}}'"), says);
    }
    // A file name may be any bytes.
    let name = OsStr::from_bytes(b"\xff \x1b[31m.nt");
    std::fs::copy(folder.join("ok.nt"), folder.join(name)).expect("it can be copied");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["query", "--format", "count", "--data"]).arg(folder.join(name)).arg("ASK { ?s ?p 'x' }");
    assert_eq!(ended(&mut command, "a name").stdout, b"query\tyes\n");
}

#[test]
fn what_other_verbs_can_not_take_is_said() {
    let folder = folder("verbs");
    let run = shell(
        &folder,
        "$V query --threads 1 --trace ok.trace --data ok.nt 'ASK {}' && head -c 100 ok.trace > short.trace",
    );
    assert!(run.status.success());
    shell(&folder, "(cat ok.trace; echo more) > long.trace; ln -s /dev/full full.nt; ln -s /dev/full full.nt.gz");
    for verb in ["summary", "events", "check"] {
        for (file, says) in [
            ("missing.trace", "missing.trace: No such file"),
            ("empty.trace", "empty.trace: not a trace"),
            ("noise.trace", "noise.trace: not a trace"),
            ("short.trace", "short.trace: a truncated trace"),
            ("long.trace", "long.trace: a damaged trace"),
            (".", ".: Is a directory"),
        ] {
            fails(&folder, &format!("$V trace {verb} {file}"), says);
        }
    }
    for (line, says) in [
        ("trace events ok.trace --kind none", "no kind of event is called `none`; there are "),
        ("topology --machine ''", "expected words such as"),
        ("topology --machine node:0", "a count from 1 to"),
        ("topology --machine node:-1", "a count from 1 to"),
        ("topology --machine node:999999999999", "at most 65536 PUs"),
        ("topology --machine 'node:1000 core:1000'", "at most 65536 PUs"),
        (
            "topology --machine nonsense",
            "`nonsense` is neither a file nor a machine…there is no machine of that name among",
        ),
        ("topology --machine bad.xml", "bad.xml: not a machine in hwloc's XML: line 1"),
        ("topology --machine empty.xml", "empty.xml: not a machine"),
        ("topology --machine noise.xml", "noise.xml: can't be read"),
        ("topology --machine missing.xml", "missing.xml: can't be read"),
        ("topology --format x", "--format <FORMAT>"),
        ("strategies --plan none", "there is no strategy `none`"),
        ("strategies --plan las --threads 0", "--threads <N>"),
        ("strategies --plan las --threads 100000", "--threads <N>"),
        ("strategies --plan las --machine bad.toml", "bad.toml: TOML parse error at line 1"),
        ("strategies --machine node:2", "--plan <STRATEGY>"),
        ("simulate", "--machine"),
        ("simulate --machine nonsense", "there is no machine of that name among opteron-6172"),
        ("simulate --machine empty.toml", "empty.toml: TOML parse error…missing field"),
        ("simulate --machine noise.toml", "noise.toml"),
        ("simulate --machine node:2 --kernel none", "`none` is not a kernel; the kernels are"),
        ("simulate --machine node:2 --kernel fib --size 0", "--size <SIZE>': expected numa, manycore or a number"),
        ("simulate --machine node:2 --kernel fib --size nan", "--size <SIZE>': expected numa, manycore or a number"),
        ("simulate --machine node:2 --kernel map --size 1e300", "a smaller --size needs less"),
        ("simulate --machine node:2 --threads 3", "--threads 3: node:2 has 2 PUs"),
        ("simulate --machine node:2 --kernel fib --set x=1", "expected NAME=FACTOR with a name of"),
        ("simulate --machine node:2 --kernel fib --slow 9=2", "--slow 9=...: there are threads 0 to 1"),
        ("simulate --machine node:2 --kernel fib --slow 0=nan", "expected THREAD=FACTOR"),
        ("simulate --machine node:2 --kernel fib --late-wake 0=-1", "expected THREAD=NANOSECONDS"),
        ("simulate --machine node:2 --kernel fib --distribution none", "no distribution is called `none`"),
        ("simulate --machine node:2 --kernel fib --trace ok.trace", "cannot be used with"),
        ("simulate --machine node:2 --trace missing.trace", "missing.trace: No such file"),
        ("simulate --machine node:2 --trace noise.trace", "noise.trace: not a trace"),
        ("simulate --machine node:2 --trace ok.trace --requests 99", "it has requests"),
        ("simulate --machine node:2 --trace ok.trace --copies 0", "--copies <N>"),
        (
            "simulate --machine node:2 --trace ok.trace --recorded-gb-per-s 0",
            "--recorded-gb-per-s 0: expected a positive",
        ),
        ("simulate paper none", "`none` is no figure; there are"),
        ("simulate grid --machine nowhere", "there is no machine of that name"),
        ("simulate grid --machine core:2 --workload none", "`none` is no workload; there are map"),
        ("simulate grid --machine core:2 --strategy las", "--strategy las: expected at least two"),
        ("simulate grid --machine core:2 --strategy las,steal,las", "--strategy las is given twice"),
        ("simulate grid --share 0", "expected a share from 0.001 to 10"),
        ("simulate grid --seeds 0", "--seeds <N>"),
        (
            "simulate grid --machine core:2 --workload fib --record folder",
            "folder: none of the workloads is a recorded query; those are q5a, q9, 16 of q5a",
        ),
        ("simulate grid --quick --svg /nowhere/a.svg", "/nowhere/a.svg: can't be written"),
        (
            "simulate grid --machine core:2 --workload q9 --traces missing",
            "expected a recording of q9, planned for 4 threads",
        ),
        ("generate sp2b", "--triples <N>"),
        ("generate sp2b --triples 0 --output a.nt", "--triples <N>"),
        ("generate sp2b --triples 99999999999999999999 --output a.nt", "--triples <N>"),
        ("generate sp2b --triples 10 --output a.rdf", "a.rdf: the name must end in .nt"),
        ("generate sp2b --triples 10 --output /nowhere/a.nt", "/nowhere/a.nt: can't be written"),
        ("generate sp2b --triples 10 --output folder.nt", "folder.nt: can't be written"),
        ("generate sp2b --triples 10 --output full.nt", "full.nt: can't be written: No space left"),
        ("generate sp2b --triples 10 --output full.nt.gz", "full.nt.gz: can't be written: No space left"),
        ("calibrate --quick --output /nowhere/x.toml", "/nowhere/x.toml can't be written"),
        ("calibrate --quick --output .", ". can't be written"),
        ("bench none", "unrecognized subcommand 'none'"),
        ("bench kernels --kernel none", "`none` is not a kernel"),
        ("bench kernels --kernel fib --size -1", "'-1'"),
        ("bench kernels --kernel fib --threads 0", "--threads"),
        ("bench kernels --kernel fib --threads 100000", "--threads"),
        ("bench demo --data missing.nt", "missing.nt: can't be opened"),
        ("bench demo --data noise.nt", "noise.nt:1:1"),
        ("none", "unrecognized subcommand 'none'"),
        ("help none", "unrecognized subcommand 'none'"),
    ] {
        fails(&folder, &format!("$V {line}"), says);
    }
}

/// What happened: help ended with status 0 when it could not be written, a full standard error was a panic, and the
/// error of a full standard output did not name it.
#[test]
fn output_that_can_not_be_written_is_an_error_and_a_reader_that_has_gone_is_none() {
    let folder = folder("output");
    let run = shell(&folder, "$V query --threads 1 --trace ok.trace --data ok.nt 'ASK {}'");
    assert!(run.status.success());
    let mut lines: Vec<String> = [
        "topology",
        "topology --format json",
        "topology --format svg",
        "strategies",
        "strategies --plan las",
        "simulate --machines",
        "simulate --machine node:2 --kernel fib --size 0.001",
        "simulate --machine node:2 --kernel fib --size 0.001 --format json",
        "trace summary ok.trace",
        "trace events ok.trace",
        "trace events ok.trace --format json",
        "trace check ok.trace",
        "bench kernels --kernel fib --size 0.001",
        "help",
        "query --help",
        "--version",
        "query --data ok.nt --explain 'SELECT * { ?s ?p ?o }'",
    ]
    .map(str::to_owned)
    .to_vec();
    for format in ["table", "json", "xml", "csv", "tsv", "count"] {
        for (data, query) in [("more.nt", "SELECT * { ?s ?p ?o . ?a ?b ?c }"), ("ok.nt", "ASK {}")] {
            lines.push(format!("query --threads 2 --data {data} --format {format} '{query}'"));
        }
    }
    for line in &lines {
        let full = shell(&folder, &format!("$V {line} > /dev/full"));
        let said = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("standard output: No space left on device"), "{line}: {said}");
        // The first byte is enough for the reader.
        let gone = shell(&folder, &format!("$V {line} | head -c 1; exit ${{PIPESTATUS[0]}}"));
        let said = String::from_utf8_lossy(&gone.stderr);
        assert!(gone.status.success() && said.is_empty(), "{line}: {:?} {said}", gone.status);
    }
    let query = "query --data ok.nt --format count 'ASK {}'";
    for (line, status) in [
        (format!("$V {query} --timings 2> /dev/full"), 1),
        ("$V query --data missing.nt 'ASK {}' 2> /dev/full".to_owned(), 1),
        ("$V query --data missing.nt 'ASK {}' 2>&-".to_owned(), 1),
        (format!("VICUS_DECAY_MS=x $V {query} 2> /dev/full"), 0),
        (format!("$V {query} --trace /dev/full"), 1),
    ] {
        assert_eq!(shell(&folder, &line).status.code(), Some(status), "{line}");
    }
}

/// What happened: the copy went on for a second and then ended without a word, and BEGUN and LOCK were left of it.
#[test]
fn an_interrupted_backup_leaves_nothing() {
    let folder = folder("interrupted-backup");
    shell(&folder, "$V generate sp2b --triples 300000 --output long.nt && $V load --store store --data long.nt");
    let line = "$V backup --store store --output copy & until grep -q 'SigCgt:.*[2367abef]$' /proc/$!/status; do sleep \
        0.001; done; \
                kill -INT $!; wait $!";
    let output = shell(&folder, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(130), "vicus: interrupted\n"));
    assert!(!folder.join("copy").exists());
}

/// What happened: the error named the query, without a word of the interruption.
#[test]
fn an_interrupted_command_ends_and_says_so() {
    let folder = folder("interrupted");
    // Endless rows, data that does not come, and a pipe without a writer.
    shell(&folder, "mkfifo pipe.nt");
    let pairs = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";
    let data: String = (0..3000).map(|n| format!("<http://e/{n}> <http://e/p> {n} .\n")).collect();
    std::fs::write(folder.join("pairs.ttl"), data).expect("it can be written");
    for (words, is_told) in [
        (format!("query --data pairs.ttl --threads 2 '{pairs}'"), true),
        // The sleeping process must not inherit this test's pipes, or the test would wait for it.
        ("query --data <(sleep 30 2> /dev/null) --syntax nt 'ASK {}'".to_owned(), false),
        ("query --data pipe.nt 'ASK {}'".to_owned(), false),
    ] {
        // It is interrupted once it catches this signal (2, so bit 1), as its status shows.
        let line = format!(
            "$V {words} & until grep -q 'SigCgt:.*[2367abef]$' /proc/$!/status; do sleep 0.01; done; sleep 0.1; kill \
                -INT $!; wait $!"
        );
        let output = shell(&folder, &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{words}: {said}");
        assert!(!is_told || said.contains("interrupted"), "{words}: {said}");
        assert!(output.stdout.is_empty(), "{words}");
    }
}
