//! Commands of a page, run in a folder of its own with the programs and libraries as `./dev install` puts them.

use crate::page::{Page, Step, compare, logical_lines};
use crate::{read, root};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The user's home: `vicus` in `.local/bin`, and libraries, headers and files for builds in `.local`.
pub(crate) struct Home {
    folder: PathBuf,
    /// Whether the libraries were built with this test; a build of this crate alone has none.
    has_libraries: bool,
}

impl Home {
    pub(crate) fn make() -> Home {
        let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("docs");
        let _ = std::fs::remove_dir_all(&folder);
        let local = folder.join(".local");
        std::fs::create_dir_all(local.join("bin")).expect("a folder can be made");
        let vicus = local.join("bin/vicus");
        // Not a symbolic link: `vicus run` looks for libraries beside the file itself.
        if std::fs::hard_link(env!("CARGO_BIN_EXE_vicus"), &vicus).is_err() {
            std::fs::copy(env!("CARGO_BIN_EXE_vicus"), &vicus).expect("the command can be copied");
        }
        // A build of the workspace's tests leaves them beside this test.
        let test = std::env::current_exe().expect("a test knows its file");
        let built = test.parent().expect("it lies in a folder");
        let has_libraries =
            ["c", "omp", "malloc", "qthreads"].iter().all(|name| built.join(format!("libvicus_{name}.so")).is_file());
        let mut install = Command::new(root().join("dev"));
        install.args(["install", "--prefix"]).arg(&local);
        if has_libraries {
            install.arg("--library").arg(built)
        } else {
            install.arg("--headers")
        };
        let installed = install.output().expect("bash is there");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        Home { folder, has_libraries }
    }

    /// A program with the environment of a new user, in a folder.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.env_clear().current_dir(folder);
        command.env("PATH", format!("{}:{path}", self.folder.join(".local/bin").display()));
        command
            .env("HOME", &self.folder)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "dumb")
            .env("TMPDIR", std::env::temp_dir());
        command
    }

    pub(crate) fn vicus(&self, args: &[&str]) -> Output {
        self.command("vicus", &self.folder).args(args).output().expect("vicus can be run")
    }
}

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// The command, in a folder.
pub(crate) fn vicus_in(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.current_dir(folder);
    command
}

/// The first thing that a page needs and that this machine lacks.
pub(crate) fn missing(home: &Home, page: &Page) -> Option<String> {
    let has = |need: &str| match need {
        "libraries" => home.has_libraries,
        program => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file()),
    };
    page.needs.iter().find(|need| !has(need)).cloned()
}

/// Runs a page's commands, and says what went wrong.
pub(crate) fn run(home: &Home, page: &Page) -> Vec<String> {
    let name = page.path.replace('/', "-");
    let (folder, said) = (home.folder.join(&name), home.folder.join(format!("{name}.said")));
    for each in [&folder, &said] {
        std::fs::create_dir_all(each).expect("a folder can be made");
    }
    // Two pages, or another server of this machine, don't share a port.
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free");
    // Of a server, and of nodes.
    let ports = ["127.0.0.1:7878", "127.0.0.1:7879", "127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"]
        .map(|named| (named, free().to_string()));
    let own_port = |text: &str| ports.iter().fold(text.to_owned(), |text, (named, free)| text.replace(named, free));
    let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n".to_owned();
    let mut outputs = Vec::new();
    for step in &page.steps {
        match step {
            Step::File { name, text } => {
                let file = folder.join(name);
                std::fs::create_dir_all(file.parent().expect("a file lies in a folder")).expect("a folder can be made");
                std::fs::write(file, text).expect("a file can be written");
            }
            Step::Commands { not_run: true, .. } => {}
            Step::Commands { line, text, printed, .. } => {
                let output = said.join(line.to_string());
                let body = own_port(&with_servers(text, &ports[0].1));
                script += &format!("{{\n{body}}} >{} 2>&1\n", quoted(&output));
                outputs.push((line, output, printed.as_ref().map(|printed| own_port(printed))));
            }
        }
    }
    let file = said.join("script");
    std::fs::write(&file, script).expect("a file can be written");
    // A bound on a command that never ends, such as a server that the page forgot to put in the background.
    let mut bash = home.command("timeout", &folder);
    bash.args(["--kill-after=10", "300", "bash"]).arg(&file);
    let ended = bash.output().expect("timeout and bash are there");
    let text_of = |output: &Path| std::fs::read_to_string(output).unwrap_or_default();
    if !ended.status.success() {
        let (line, output, _) =
            outputs.iter().rev().find(|(_, output, _)| output.exists()).expect("the first has begun");
        let said = text_of(output) + &String::from_utf8_lossy(&ended.stderr);
        return vec![format!("{}:{line}: these commands failed ({}):\n{said}", page.path, ended.status)];
    }
    let wrong = outputs.iter().filter_map(|(line, output, printed)| {
        let found = text_of(output);
        let why = compare(printed.as_ref()?, &found).err()?;
        Some(format!("{}:{line}: {why} in what these commands print:\n{found}", page.path))
    });
    wrong.collect()
}

/// Commands whose servers listen at this address, and are waited for, as a person waits for their first line.
fn with_servers(text: &str, address: &str) -> String {
    let served: Vec<usize> = logical_lines(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with("vicus serve") && line.trim_end().ends_with('&'))
        .map(|(number, _)| number)
        .collect();
    let mut script = String::new();
    for (number, line) in text.lines().enumerate() {
        let mut line = line.to_owned();
        let has_address = line.contains("--bind");
        for option in ["--store", "--data", "--check"].into_iter().filter(|_| !has_address) {
            line = line.replace(&format!("vicus serve {option}"), &format!("vicus serve --bind {address} {option}"));
        }
        script += &line;
        script.push('\n');
        if served.contains(&number) {
            script += &format!(
                "until vicus serve --bind {address} --check >/dev/null 2>&1; do kill -0 $!; sleep 0.05; done\n"
            );
        }
    }
    script
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// Options and verbs that the commands of a page name and that are not there. For commands that are not run, this is
/// all that holds them.
pub(crate) fn look_up(home: &Home, page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for step in &page.steps {
        let Step::Commands { line, text, not_run: true, .. } = step else { continue };
        for (number, command) in logical_lines(text) {
            wrong.extend(unknown(home, &command).map(|why| format!("{}:{}: {why}", page.path, line + number + 1)));
        }
    }
    wrong
}

/// The first option or verb of a command that its help does not have.
fn unknown(home: &Home, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    // Before the command stand variables, and the program that gives it another user.
    let begin = words.iter().position(|word| *word != "sudo" && !word.contains('='))?;
    let names = || words[begin + 1..].iter().copied().take_while(|word| !["|", ">", ";", "&&", "&"].contains(word));
    let help = match *words.get(begin)? {
        "vicus" => help_of_vicus(home, &names().collect::<Vec<_>>()),
        "./dev" => help_of_dev(home, &names().collect::<Vec<_>>()),
        _ => return None,
    };
    let help = match help {
        Ok(help) => help,
        Err(verb) => return Some(format!("there is no `{} {verb}`", words[begin])),
    };
    let name = |word: &str| word.split('=').next().filter(|name| name.starts_with("--")).map(str::to_owned);
    let has = |name: &str| help.split(|sign: char| !sign.is_alphanumeric() && sign != '-').any(|word| word == name);
    names().filter_map(name).find(|name| !has(name)).map(|name| format!("`{command}` has no option {name}"))
}

/// The help of a command and of the commands within it; else, the missing one.
fn help_of_vicus(home: &Home, words: &[&str]) -> Result<String, String> {
    let mut path = Vec::new();
    let mut help = String::new();
    for (depth, word) in words.iter().take_while(|word| !word.starts_with('-')).enumerate() {
        if depth > 0 && !help.lines().any(|line| line.split_whitespace().next() == Some(word)) {
            break;
        }
        path.push(*word);
        let output = home.vicus(&[&path[..], &["--help"]].concat());
        if !output.status.success() {
            return Err(path.join(" "));
        }
        help += &String::from_utf8_lossy(&output.stdout);
    }
    Ok(help)
}

/// A verb's text, and that of the benchmarks in it; else, the missing one.
fn help_of_dev(home: &Home, words: &[&str]) -> Result<String, String> {
    let verb = words.first().copied().unwrap_or_default();
    let script = read("dev");
    if !script.contains(&format!("\n  {verb} ")) {
        return Err(verb.to_owned());
    }
    // A verb without a text of its own has all of its options in the script.
    let text = std::fs::read_to_string(root().join(format!("tools/dev/{verb}.txt"))).unwrap_or(script);
    let ("bench", Some(name)) = (verb, words.get(1)) else { return Ok(text) };
    if !text.split(|sign: char| !sign.is_alphanumeric()).any(|word| word == *name) {
        return Err(format!("bench {name}"));
    }
    // A benchmark is one of the binary, or a program of its own, whose options are fields of a structure.
    let own = format!("bench/{name}/src/main.rs");
    let own = if root().join(&own).is_file() { own } else { "bench/src/main.rs".to_owned() };
    let of_program = read(own);
    let fields = of_program.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(": "));
    let options: String = fields.map(|(name, _)| format!("--{} ", name.replace('_', "-"))).collect();
    Ok(text + &help_of_vicus(home, words).unwrap_or_default() + &options)
}

#[test]
fn servers_listen_at_their_own_port_and_are_waited_for() {
    let script = with_servers("vicus serve --store db \\\n  --token x &   # why\nvicus query\n", "127.0.0.1:9");
    let wait = "until vicus serve --bind 127.0.0.1:9 --check >/dev/null 2>&1; do kill -0 $!; sleep 0.05; done\n";
    let shown = "vicus serve --bind 127.0.0.1:9 --store db \\\n  --token x &   # why\n";
    assert_eq!(script, format!("{shown}{wait}vicus query\n"));
}
