//! Reference pages, held to what they describe: options, variables, formats, and what of SPARQL and SQL is there.

use crate::{read, root, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Pages of options, and the commands on each.
const PAGES: [(&str, &str, &[&str]); 3] = [
    (
        "docs/reference/options.md",
        "Options of commands about data",
        &[
            "generate", "query", "sql", "load", "update", "dump", "backup", "restore", "check", "compact", "serve",
            "promote",
        ],
    ),
    ("docs/reference/options-networks.md", "Options of commands about networks", &["network", "node"]),
    (
        "docs/reference/options-machine.md",
        "Options of commands about machines and programs",
        &["run", "topology", "strategies", "trace", "simulate", "learn", "calibrate", "bench", "manual"],
    ),
];

/// The text of a command's help, with spaces at the ends of lines cut.
fn help(words: &[&str]) -> String {
    let output = run::vicus_in(&root()).args(words).arg("--help").output().expect("vicus can be run");
    assert!(output.status.success(), "vicus {}", words.join(" "));
    let text = String::from_utf8(output.stdout).expect("help is UTF-8");
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// A page of options, from the help of its commands.
fn options(title: &str, names: &[&str]) -> String {
    let mut page = format!(
        "# {title}\n\n<!-- Written by `./dev docs --reference` from the commands' help; a test compares them. -->\n"
    );
    for name in names {
        let own = help(&[name]);
        let _ = write!(page, "\n## vicus {name}\n\n");
        if *name == "sql" {
            page += "The same as `vicus query --language sql`, with its options.\n";
            continue;
        }
        let _ = write!(page, "```text\n{own}```\n");
        for part in commands(&own) {
            let _ = write!(page, "\n### vicus {name} {part}\n\n```text\n{}```\n", help(&[name, &part]));
        }
    }
    page
}

#[test]
fn options_are_current() {
    let listed: BTreeSet<String> = commands(&help(&[])).into_iter().collect();
    let shown: BTreeSet<String> = PAGES.iter().flat_map(|(_, _, names)| *names).map(|&name| name.to_owned()).collect();
    assert_eq!(listed, shown, "commands, and those that the pages have");
    for (path, title, names) in PAGES {
        let page = options(title, names);
        if std::env::var_os("WRITE_REFERENCE").is_some() {
            std::fs::write(root().join(path), &page).expect("the page can be written");
        }
        let first = page.lines().zip(read(path).lines().map(str::to_owned)).find(|(now, then)| now != then);
        assert!(page == read(path), "{path} is not current: run `./dev docs --reference`; first other line: {first:?}");
    }
}

/// The rows of the first table whose head begins with this cell, without leading marks of comments.
fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| line.trim_start_matches("//! "));
    let rows = lines.skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    // A `|` within a cell is written `\|`.
    let cells = |row: &str| {
        let row = row.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{0}");
        row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
    };
    rows.map(cells).collect()
}

/// A cell without links: their texts alone.
fn plain(cell: &str) -> String {
    let mut found = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((text, behind)) = link.split_once("](").or_else(|| link.split_once(']')) else { break };
        found += before;
        found += text;
        let is_link = link.split_once("](").is_some_and(|(before, _)| before == text);
        rest = if is_link { behind.split_once(')').map_or("", |(_, rest)| rest) } else { behind };
    }
    found + rest
}

#[test]
fn variables_are_those_of_the_code() {
    let page = read("docs/reference/environment.md");
    let without_links = |rows: Vec<Vec<String>>| -> Vec<Vec<String>> {
        rows.into_iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect()
    };
    let code = without_links(table(&read("doors/vicus/src/environment.rs"), "variable"));
    assert!(code.len() > 10, "{code:?}");
    assert_eq!(without_links(table(&page, "variable")), code, "the page, and doors/vicus/src/environment.rs");
    let mut missing = BTreeSet::new();
    for folder in ["doors/cli/src", "doors/openmp/src", "doors/qthreads/src", "doors/server/src", "doors/vicus/src"] {
        for source in sources(folder) {
            let names = source.split('"').filter(|text| {
                let of_users = ["VICUS_", "OMP_", "GOMP_", "KMP_"].iter().any(|start| text.starts_with(start));
                of_users && !text.ends_with('_') && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            });
            missing.extend(names.filter(|name| !page.contains(&format!("`{name}`"))).map(str::to_owned));
        }
    }
    missing.retain(|name| !NOT_VARIABLES.contains(&&**name));
    assert!(missing.is_empty(), "docs/reference/environment.md does not name {missing:?}");
}

/// Texts that look like variables of the environment: a line of `OMP_DISPLAY_ENV=VERBOSE`.
const NOT_VARIABLES: [&str; 1] = ["VICUS_BINDING"];

/// The texts of all source files below a folder.
fn sources(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(std::fs::read_to_string(&path).expect("a source can be read"));
            }
        }
    }
    found
}

/// The values that a help lists for an option.
fn values<'a>(help: &'a str, option: &str) -> Vec<&'a str> {
    let own = help.lines().skip_while(|line| line.split_whitespace().next() != Some(option)).skip(1);
    let own = own.take_while(|line| !line.trim().starts_with("--"));
    own.filter_map(|line| line.trim().strip_prefix("- ")?.split_once(": ")).map(|(name, _)| name).collect()
}

#[test]
fn formats_are_those_of_the_options_and_the_server() {
    let page = read("docs/reference/formats.md");
    let help = help(&["query"]);
    let names: Vec<&str> = ["--syntax", "--format"].into_iter().flat_map(|option| values(&help, option)).collect();
    assert!(names.contains(&"trig") && names.contains(&"csv"), "{names:?}");
    let source = read("doors/server/src/negotiate.rs");
    let tables = source.split("fn offers").next().expect("the tables stand before the functions");
    let types = tables.split('"').skip(1).step_by(2).filter(|text| text.contains('/'));
    let missing: Vec<&str> =
        names.into_iter().chain(types).filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/formats.md does not name {missing:?}");
}

#[test]
fn the_glossary_has_the_words_of_the_architecture() {
    let words = table(&read("ARCHITECTURE.md"), "word");
    assert!(words.len() > 15, "{words:?}");
    assert_eq!(table(&read("docs/glossary.md"), "word"), words, "the glossary's first table, and ARCHITECTURE.md");
}

/// The README's figures are those of the file of measurements: each number of its second column, for that command.
#[test]
fn figures_are_those_that_were_measured() {
    let measured = read("docs/benchmarks-2026-11.csv");
    let rows: Vec<Vec<&str>> = measured.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let figures = table(&read("README.md"), "beside");
    assert!(figures.len() > 5, "{figures:?}");
    for row in figures {
        let [_, shown, command, day] = &row[..] else { panic!("{row:?} has four cells") };
        let date = format!("2026-11-{day}");
        let own: Vec<&Vec<&str>> =
            rows.iter().filter(|own| own[0] == date && own[1] == command.trim_matches('`')).collect();
        for number in shown.split(|sign: char| !sign.is_ascii_digit() && sign != '.').filter(|text| text.contains('.'))
        {
            let number: f64 = number.trim_end_matches('.').parse().expect("a figure is a number");
            let is_there = own.iter().any(|own| {
                let ratio: f64 = own[7].parse().expect("a ratio is a number");
                (ratio / number - 1.0).abs() < 0.03
            });
            assert!(is_there, "{command} of the {day}th: {number} is not in docs/benchmarks-2026-11.csv");
        }
    }
}

/// The tests of the W3C that are not passed: how many for each reason and suite.
fn not_passed(list: &str) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, reason) = line.split_once('\t').unwrap_or_else(|| panic!("`{line}` has no reason"));
        let suite = name.split('/').take(2).collect::<Vec<_>>().join("/");
        *found.entry((suite, reason.to_owned())).or_insert(0) += 1;
    }
    found
}

#[test]
fn the_page_of_sparql_has_the_tests_not_passed() {
    let list = not_passed(&read("core/sparql/tests/w3c/not-passed.txt"));
    let row = |row: Vec<String>| ((row[0].clone(), row[2].clone()), row[1].parse().expect("a number of tests"));
    let page: BTreeMap<(String, String), usize> =
        table(&read("docs/reference/sparql.md"), "suite").into_iter().map(row).collect();
    assert_eq!(page, list, "the table of tests not passed, and core/sparql/tests/w3c/not-passed.txt");
    let sample = "# head\na/b/c\tx\na/b/d\tx\n";
    assert_eq!(not_passed(sample), [(("a/b".to_owned(), "x".to_owned()), 2)].into());
}

/// Each row of a table of features has an example, which is answered if the row says yes, and refused if it says no.
fn features(page: &str, verb: &str, folder_name: &str) {
    let folder = run::folder(folder_name);
    std::fs::write(folder.join("people.csv"), "name,city,age\nAda,London,36\nAlan,London,41\nGrace,New York,85\n")
        .unwrap();
    std::fs::write(folder.join("data.ttl"), "<http://example.org/a> <http://example.org/p> 1 , 2 .\n").unwrap();
    let rows = table(&read(page), "feature");
    assert!(rows.len() > 15, "{page} has a table of features");
    for row in rows {
        let [feature, example, there] = &row[..] else { panic!("{page}: {row:?} has three cells") };
        let text = example.trim_matches('`');
        let output =
            run::vicus_in(&folder).args([verb, "--data", "data.ttl", "--format", "count", text]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match there.as_str() {
            "yes" => assert!(output.status.success(), "{page}: {feature}: `{text}`: {said}"),
            "no" => assert!(!output.status.success(), "{page}: {feature}: `{text}` is answered"),
            other => panic!("{page}: {feature}: `{other}` is neither yes nor no"),
        }
    }
}

#[test]
fn sparql_is_as_its_page_says() {
    features("docs/reference/sparql.md", "query", "features-sparql");
}

#[test]
fn sql_is_as_its_page_says() {
    features("docs/reference/sql.md", "sql", "features-sql");
}

#[test]
fn tables_are_read() {
    let text = "x\n| a | b |\n|---|---|\n| `1 \\| 2` | [c](d) e |\n\n| f |\n";
    assert_eq!(table(text, "a"), [["`1 | 2`", "[c](d) e"]]);
    assert_eq!(plain("[c](d) e [f] g"), "c e f g");
}
