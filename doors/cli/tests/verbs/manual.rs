//! Manual pages and completions, by programs that read them, and what a package's service relies on.

use super::store::{fails, folder, good, text};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The commands that `vicus --help` lists.
fn commands() -> Vec<String> {
    let help = good(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn each_command_has_a_page() {
    let folder = folder("manual").join("man1");
    good(&["manual", "--pages", text(&folder)]);
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for name in &commands {
        let page = std::fs::read_to_string(folder.join(format!("vicus-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH vicus-{name} 1")), "{name}: {page}");
        // groff itself finds no mistake, where it is installed.
        let file = folder.join(format!("vicus-{name}.1"));
        match Command::new("groff").args(["-K", "utf8", "-man", "-ww", "-z", text(&file)]).output() {
            Ok(read) => assert_eq!(String::from_utf8_lossy(&read.stderr), "", "{name}"),
            Err(_) => eprintln!("groff is not installed: {name} was not read by it"),
        }
    }
    assert!(std::fs::read_to_string(folder.join("vicus-trace-summary.1")).unwrap().contains("summary"));
    let main = std::fs::read_to_string(folder.join("vicus.1")).unwrap();
    assert!(main.contains("vicus\\-query(1)"), "{main}");
}

/// Each command has examples, and each ends well in a folder with the files that it names. Servers, and commands that
/// need a program or minutes, are only started as far as their help: their options are known.
#[test]
fn examples_of_the_help_run() {
    let folder = folder("examples");
    let prefixes = "@prefix foaf: <http://xmlns.com/foaf/0.1/> . @prefix e: <http://e/> .";
    std::fs::write(folder.join("people.ttl"), format!("{prefixes} e:ann foaf:name \"Ann\" .\n")).unwrap();
    std::fs::write(folder.join("names.nt"), "<http://e/bob> <http://xmlns.com/foaf/0.1/name> \"Bob\" .\n").unwrap();
    std::fs::write(folder.join("people.csv"), "name,city,age\nAnn,Prague,41\nBob,Brno,39\n").unwrap();
    let run = |line: &str| {
        let path = std::path::Path::new(env!("CARGO_BIN_EXE_vicus")).parent().unwrap();
        let path = format!("{}:{}", text(path), std::env::var("PATH").unwrap());
        let ran = Command::new("sh").args(["-c", line]).current_dir(&folder).env("PATH", path).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr).into_owned());
        assert!(ran.status.success() && !err.contains("warning"), "{line}: {out}{err}");
        out.into_owned()
    };
    run("vicus load --store db --data people.ttl");
    let mut examples = Vec::new();
    for name in commands() {
        let help = good(&[&name, "--help"]);
        let shown = help.lines().skip_while(|line| *line != "Examples:").skip(1).map(str::trim);
        let before = examples.len();
        examples.extend(shown.map(str::to_owned));
        assert!(examples.len() > before, "{name} has an example: {help}");
    }
    let only_help = ["serve", "node", "promote", "run", "learn", "calibrate", "bench"];
    for line in examples {
        let verb = line.split(' ').nth(1).unwrap_or_default();
        let asked = match line.split_once(" ./") {
            _ if !only_help.contains(&verb) => line.clone(),
            // What stands behind a program is the program's.
            Some((options, program)) => format!("{options} --help ./{program}"),
            None => format!("{line} --help"),
        };
        let out = run(&asked);
        // Those that write a file may say nothing.
        let has_file = [" --output ", " --pages "].iter().any(|option| line.contains(option));
        assert!(!out.is_empty() || has_file, "{line} says something");
    }
}

#[test]
fn shells_read_the_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = good(&["manual", "--completions", shell]);
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        if Command::new(shell).arg("-c").arg("exit").stderr(Stdio::null()).status().is_err() {
            eprintln!("{shell} is not installed");
            continue;
        }
        let file = folder(&format!("completions-{shell}")).join("script");
        std::fs::write(&file, script).unwrap();
        let read = Command::new(shell).args(["-n", text(&file)]).output().unwrap();
        assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
    }
}

/// As bash asks for them, behind a part of a command's name and of an option's.
#[test]
fn bash_completes_commands_and_options() {
    let folder = folder("completions");
    let script = folder.join("vicus.bash");
    std::fs::write(&script, good(&["manual", "--completions", "bash"])).unwrap();
    let ask = |words: &str, place: usize| {
        let asked = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={place}; _vicus vicus \"${{COMP_WORDS[{place}]}}\" x; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            text(&script)
        );
        let told = Command::new("bash").args(["--norc", "-c", &asked]).output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).unwrap()
    };
    assert_eq!(ask("vicus topo", 1), "topology\n");
    assert!(ask("vicus serve --total", 2).contains("--total-memory"));
}

/// The options of a command with their explanations, as its help has them, each in one line of words.
fn options(command: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut last = String::new();
    for line in good(&[command, "--help"]).lines() {
        let words = line.trim_start();
        if let Some(rest) = words.strip_prefix("--") {
            let (name, text) = rest.split_once("  ").unwrap_or((rest, ""));
            last = name.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
            found.insert(last.clone(), text.trim().to_owned());
        } else if let Some(text) = found.get_mut(&last).filter(|_| line.starts_with("          ")) {
            text.push(' ');
            text.push_str(words);
        }
    }
    for text in found.values_mut() {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    found
}

/// What happened: `vicus serve` had three limits of seven, and `--data` was told in three ways.
#[test]
fn shared_options_are_explained_in_the_same_words() {
    let query = options("query");
    let limits = ["timeout", "memory-limit", "max-query-bytes", "max-query-depth"];
    let of_texts = ["max-longer", "max-path-signs", "max-plan-steps"];
    let runtime = ["strategy", "threads"];
    let documents = ["max-iri", "rdf-12"];
    let data = ["data", "syntax", "skip-malformed", "max-line"];
    let answers = ["default-graph", "strict-functions"];
    let groups: [&[&str]; 6] = [&limits, &of_texts, &runtime, &documents, &data, &answers];
    let of = |numbers: &[usize]| numbers.iter().flat_map(|&number| groups[number]).copied().collect::<Vec<_>>();
    for (command, names) in [
        ("sql", of(&[0, 1, 2, 3, 4, 5])),
        ("serve", of(&[0, 1, 2, 3, 4, 5])),
        ("update", of(&[0, 1, 2, 3])),
        ("load", of(&[2, 3, 4])),
    ] {
        let options = options(command);
        for name in names {
            assert!(query[name].len() > 20, "{name}: {}", query[name]);
            assert_eq!(options.get(name), query.get(name), "{command} --{name}");
        }
    }
}

#[test]
fn manual_needs_one_thing_to_write() {
    for args in [&["manual"][..], &["manual", "--pages", "a", "--completions", "bash"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_vicus")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let folder = folder("manual-refused");
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    fails(&["manual", "--pages", text(&file)], &[text(&file)]);
}
