//! `vicus load`, `update`, `dump`, `backup`, `check`, `compact` and `query --store`, run as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn vicus(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).args(args).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn good(args: &[&str]) -> String {
    let output = vicus(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with status 1 and these texts in the message; never with a panic.
pub(crate) fn fails(args: &[&str], says: &[&str]) {
    told(&vicus(args), args, says);
}

/// Has failed with status 1 and these texts in the message.
pub(crate) fn told(output: &Output, args: &[&str], says: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    for part in says {
        assert!(text.contains(part), "`{part}` is part of: {text}");
    }
}

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn file(folder: &Path, name: &str, contents: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, contents).unwrap();
    text(&path).to_owned()
}

/// The place of this text in a log. Records have each byte changed by 0xa5.
pub(crate) fn place_in_log(log: &[u8], wanted: &str) -> usize {
    let wanted: Vec<u8> = wanted.bytes().map(|byte| byte ^ 0xa5).collect();
    log.windows(wanted.len()).position(|window| window == wanted).expect("records have their terms")
}

/// The quads of a store, sorted.
pub(crate) fn quads(store: &str) -> Vec<String> {
    let dump = good(&["dump", "--store", store, "--output", "-"]);
    let mut lines: Vec<String> = dump.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

const ALL: &str = "SELECT ?s ?o { ?s <http://e/p> ?o } ORDER BY ?s ?o";

#[test]
fn a_store_is_loaded_asked_changed_copied_checked_and_compacted() {
    let here = folder("whole");
    let (store, copy) = (here.join("db"), here.join("copy"));
    let (store, copy) = (text(&store), text(&copy));
    let a = file(&here, "a.ttl", "<http://e/a> <http://e/p> 1, \"x\"@en ; <http://e/q> [] .");
    let b = file(&here, "b.nq", "<http://e/b> <http://e/p> \"2\" .\n<http://e/b> <http://e/p> \"3\" <http://e/g> .\n");
    assert!(good(&["load", "--store", store, "--data", &a, &b]).contains("5 quads loaded"));
    let c = file(&here, "c.nt", "<http://e/c> <http://e/p> \"4\" .\n<http://e/b> <http://e/p> \"2\" .\n");
    let more = good(&["load", "--store", store, "--data", &c, "--graph", "http://e/h"]);
    assert!(more.contains("2 quads loaded") && more.contains("7 in the store"), "{more}");
    let ask = |query: &str| good(&["query", "--store", store, query, "--format", "csv"]);
    assert_eq!(ask(ALL), "s,o\r\nhttp://e/a,x\r\nhttp://e/a,1\r\nhttp://e/b,2\r\n");
    assert_eq!(ask("SELECT ?o { GRAPH <http://e/h> { <http://e/c> ?p ?o } }"), "o\r\n4\r\n");

    let done = good(&[
        "update",
        "--store",
        store,
        "DELETE { ?s <http://e/p> ?o } INSERT { ?s <http://e/p> ?n } WHERE { ?s <http://e/p> ?o BIND (CONCAT(STR(?o), \
            \"!\") AS ?n) } ; \
         MOVE <http://e/h> TO <http://e/i>",
    ]);
    assert!(done.contains("2 operations") && done.contains("7 quads before and 7 after"), "{done}");
    assert_eq!(ask(ALL), "s,o\r\nhttp://e/a,1!\r\nhttp://e/a,x!\r\nhttp://e/b,2!\r\n");
    let files = ["1.ru", "2.ru"].map(|name| file(&here, name, "INSERT DATA { [] <http://e/r> [] }"));
    good(&["update", "--store", store, "--update", &files[0], &files[1]]);

    let before = quads(store);
    assert_eq!(before.len(), 9, "{before:?}");
    assert!(good(&["check", "--store", store]).contains("9 quads"));
    assert!(good(&["backup", "--store", store, "--output", copy]).contains("9 quads"));
    assert_eq!(quads(copy), before);
    good(&["update", "--store", store, "CLEAR ALL"]);
    assert_eq!((quads(store).len(), quads(copy).len()), (0, 9));
    assert!(good(&["compact", "--store", copy]).contains("nothing has changed"));
    good(&["update", "--store", copy, "DELETE WHERE { ?s <http://e/r> ?o } "]);
    assert!(good(&["compact", "--store", copy]).contains("7 quads"));
    assert!(good(&["check", "--store", copy]).contains("7 quads"));

    // A dump is read again.
    for name in ["all.nq", "all.nq.gz", "all.nq.zst", "all2.NQ.GZ"] {
        let (dump, again) = (here.join(name), here.join(format!("{name}.db")));
        assert!(good(&["dump", "--store", copy, "--output", text(&dump)]).contains("7 quads"));
        good(&["load", "--store", text(&again), "--data", text(&dump)]);
        assert_eq!(quads(text(&again)).len(), 7, "{name}");
    }
    let one = here.join("one.nt");
    good(&["dump", "--store", copy, "--graph", "http://e/g", "--output", text(&one)]);
    assert_eq!(std::fs::read_to_string(&one).unwrap(), "<http://e/b> <http://e/p> \"3\" .\n");
    fails(&["dump", "--store", copy, "--output", text(&one)], &["named graphs", "--graph"]);
    assert_eq!(std::fs::read_to_string(&one).unwrap().lines().count(), 1, "it is as it was");
}

/// The quads of a text in TriG or a part of it, with canonical names of blank nodes.
fn parsed(text: &str) -> oxrdf::Dataset {
    let quads = oxttl::TriGParser::new().for_slice(text).collect::<Result<oxrdf::Dataset, _>>();
    let mut quads = quads.unwrap_or_else(|error| panic!("{error}\n{text}"));
    quads.canonicalize(oxrdf::dataset::CanonicalizationAlgorithm::Unstable);
    quads
}

/// A line of N-Quads in TriG.
fn as_trig(line: &String) -> String {
    let quad = oxttl::NQuadsParser::new().for_slice(line).next().unwrap().unwrap();
    let triple = oxrdf::Triple::from(quad.clone());
    match quad.graph_name {
        oxrdf::GraphName::DefaultGraph => format!("{triple} .\n"),
        graph => format!("{graph} {{ {triple} }}\n"),
    }
}

/// In every syntax and packing. Another parser reads the expected quads.
#[test]
fn what_is_dumped_is_read_again_in_every_syntax() {
    let here = folder("syntaxes");
    let store = here.join("db");
    let store = text(&store);
    let many: String = (0..8_000).map(|n| format!("<s{}> q:r{} {n} .\n", n / 3, n % 5)).collect();
    let default = format!(
        "@base <http://e/> . @prefix : <http://e/p#> . @prefix q: <urn:q:> . @prefix foaf: \
            <http://xmlns.com/foaf/0.1/> .\n\
         <a> :name \"A\\nB\\u0007 \\\\ \\\"\", \"x\"@en-gb, 1, 1.50, true, \"t\"^^<http://e/t?a&b> ; foaf:knows [ \
         foaf:knows _:b ] .\n\
         _:b a <c> , <urn:d> .\n{many}"
    );
    let default_xml = default.replace("\\u0007", "");
    let named = "@prefix : <http://e/p#> . <http://e/g> { _:x :p _:y, <http://e/é> . _:y :p 2 } _:g { _:x :p 3 . \
        <http://e/a> :q 4 }";
    let a = file(&here, "a.ttl", &default);
    let b = file(&here, "b.trig", named);
    good(&["load", "--store", store, "--data", &a]);
    let round = |store: &str, name: &str, args: &[&str]| {
        let path = here.join(name);
        good(&[&["dump", "--store", store, "--output", text(&path)][..], args].concat());
        let again = here.join(format!("{name}.db"));
        good(&[&["load", "--store", text(&again), "--data", text(&path)][..], args].concat());
        let lines: Vec<String> = quads(text(&again)).iter().map(as_trig).collect();
        parsed(&lines.concat())
    };
    let expected = parsed(&default);
    for ending in ["nt", "nq.gz", "ttl", "trig.zst", "jsonld"] {
        assert!(round(store, &format!("one.{ending}"), &[]) == expected, "{ending}");
    }
    // XML has no such character.
    let rdf = here.join("one.rdf");
    fails(&["dump", "--store", store, "--output", text(&rdf)], &["U+0007", "--syntax nt, ttl and jsonld"]);
    assert!(!rdf.exists() && !here.join("one.rdf.part").exists());
    let plain = here.join("plain.db");
    let c = file(&here, "c.ttl", &default_xml);
    good(&["load", "--store", text(&plain), "--data", &c]);
    assert!(round(text(&plain), "plain.owl.gz", &[]) == parsed(&default_xml));

    good(&["load", "--store", store, "--data", &b]);
    let all = [default.replace("_:b", "_:bb"), named.replace("@prefix : <http://e/p#> .", "")].concat();
    let all = parsed(&all);
    for ending in ["nq", "trig", "jsonld.zst"] {
        assert!(round(store, &format!("all.{ending}"), &[]) == all, "{ending}");
    }
    assert!(round(store, "all.txt", &["--syntax", "trig"]) == all, "the option says the syntax");
    for ending in ["nt", "ttl", "rdf"] {
        let output = here.join(format!("graphs.{ending}"));
        fails(
            &["dump", "--store", store, "--output", text(&output)],
            &["named graphs", "--graph", "nq, trig and jsonld"],
        );
        assert!(!output.exists());
        good(&["dump", "--store", store, "--output", text(&output), "--graph", "http://e/g"]);
    }
    let one = std::fs::read_to_string(here.join("graphs.ttl")).unwrap();
    let of_graph = "@prefix : <http://e/p#> . _:x :p _:y, <http://e/é> . _:y :p 2 .";
    assert!(parsed(&one) == parsed(of_graph));
    let default_only = good(&["dump", "--store", store, "--output", "-", "--graph", "default", "--syntax", "ttl"]);
    assert!(parsed(&default_only) == expected);
    // Prefixes: the given ones, and some of the data's predicates.
    let given = good(&["dump", "--store", store, "--output", "-", "--syntax", "trig", "--prefix", "mine=http://e/p#"]);
    for part in ["@prefix mine: <http://e/p#>", "@prefix foaf: <http://xmlns.com/foaf/0.1/>", "mine:name", "foaf:knows"]
    {
        assert!(given.contains(part), "{part}");
    }
    let wrong = vicus(&["dump", "--store", store, "--output", "-", "--prefix", "a b=http://e/"]);
    assert_eq!(wrong.status.code(), Some(2));
    fails(
        &["dump", "--store", store, "--output", text(&here.join("x.txt"))],
        &["the ending says no syntax", "--syntax"],
    );
    fails(&["dump", "--store", store, "--output", "-", "--graph", "http://e/none"], &["no graph <http://e/none>"]);
}

/// Dumps as others publish them, read by each way in.
#[test]
fn dumps_packed_by_bzip2_and_xz_are_read() {
    let here = folder("packed");
    let lines: String = (0..5000).map(|n| format!("<http://e/s{n}> <http://e/p> \"{n}\" .\n")).collect();
    let plain = file(&here, "dump.nt", &lines);
    for (tool, ending) in [("bzip2", "bz2"), ("xz", "xz")] {
        let packed = Command::new(tool).args(["-c", "-k", &plain]).output();
        let Ok(packed) = packed.map(|output| output.stdout) else {
            eprintln!("left out: {tool} is not there");
            continue;
        };
        let path = here.join(format!("dump.nt.{ending}"));
        // Several streams one after the other, as parallel programs write them.
        std::fs::write(&path, [&packed[..], &packed].concat()).unwrap();
        let count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }";
        let loaded = here.join(format!("loaded-{ending}"));
        good(&["load", "--store", text(&loaded), "--data", text(&path)]);
        assert_eq!(good(&["query", "--store", text(&loaded), count, "--format", "csv"]), "n\r\n5000\r\n");
        assert_eq!(good(&["query", "--data", text(&path), count, "--format", "csv"]), "n\r\n5000\r\n");
        let updated = here.join(format!("updated-{ending}"));
        let none = file(&here, "none.nt", "");
        good(&["load", "--store", text(&updated), "--data", &none]);
        let load = format!("LOAD <file://{}>", text(&path));
        good(&["update", "--store", text(&updated), "--load-folder", text(&here), &load]);
        assert_eq!(quads(text(&updated)), quads(text(&loaded)), "{tool}");
        // A part of one is no dump.
        std::fs::write(&path, &packed[..packed.len() - 9]).unwrap();
        fails(&["query", "--data", text(&path), count], &[&format!("dump.nt.{ending}")]);
        fails(
            &["update", "--store", text(&updated), "--load-folder", text(&here), &load],
            &["operation 1, LOAD", &format!("dump.nt.{ending}")],
        );
        assert_eq!(quads(text(&updated)), quads(text(&loaded)), "{tool}: a failed update changes nothing");
    }
}

#[test]
fn a_wrong_update_changes_nothing() {
    let here = folder("wrong");
    let store = here.join("db");
    let store = text(&store);
    let data = file(&here, "a.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    good(&["load", "--store", store, "--data", &data]);
    let before = quads(store);
    let third = "CLEAR ALL ;\nCLEAR ALL ;\nDELETE { ?s ?p } WHERE { ?s ?p ?o }";
    fails(&["update", "--store", store, third], &["the update: line 3, column 16", "DELETE { ?s ?p } WHERE", "^"]);
    let named = file(&here, "update.ru", third);
    fails(&["update", "--store", store, "--update", &named], &["update update: line 3, column 16"]);
    // An update has the limits of a query.
    let deep = "INSERT { ?s ?p 1 } WHERE { { { { ?s ?p ?o } } } }";
    fails(&["update", "--store", store, "--max-query-depth", "2", deep], &["the update: ", "(--max-query-depth)"]);
    fails(&["update", "--store", store, "--max-query-bytes", "9", deep], &["the update: ", "(--max-query-bytes)"]);
    fails(&["update", "--store", store, "--max-plan-steps", "1", deep], &["the update: ", "(--max-plan-steps)"]);
    for (wrong, says) in [
        ("CLEAR ALL ; COPY <http://e/none> TO DEFAULT", &["operation 2, COPY: there is no graph <http://e/none>"][..]),
        (
            "CLEAR ALL ; LOAD <file:///etc/passwd>",
            &["operation 2, LOAD", "reading files is not permitted (--load-folder)"],
        ),
        ("CLEAR ALL ; LOAD <http://127.0.0.1:1/a.ttl>", &["is not permitted (--allow-service)"]),
        ("INSERT DATA { GRAPH <no-iri> { <http://e/s> <http://e/p> 1 } }", &["is no IRI"]),
        ("SELECT * { ?s ?p ?o }", &["`SELECT` can't stand here"]),
    ] {
        fails(&["update", "--store", store, wrong], says);
        assert_eq!(quads(store), before, "{wrong}");
    }
    // All files are checked before the first one is carried out.
    let (good_file, wrong_file) = (file(&here, "good.ru", "CLEAR ALL"), file(&here, "wrong.ru", "CLEAR"));
    fails(&["update", "--store", store, "--update", &good_file, &wrong_file], &["update wrong: line 1, column 6"]);
    assert_eq!(quads(store), before);
    fails(&["update", "--store", store], &["there is no update"]);
    // A file malformed in its middle is not loaded at all.
    let half = file(&here, "half.nt", "<http://e/x> <http://e/p> \"1\" .\n<http://e/x> <http://e/p> .\n");
    fails(&["load", "--store", store, "--data", &half], &["half.nt:2:27: "]);
    fails(&["load", "--store", store, "--data", &data, "--graph", "no iri"], &["--graph: `no iri` is no IRI"]);
    fails(&["load", "--store", store, "--data", text(&here.join("none.nt"))], &["none.nt", "can't be opened"]);
    assert_eq!(quads(store), before);
    // An empty store and its folder were left after a failed first load.
    let new = here.join("new");
    fails(&["load", "--store", text(&new), "--data", &half], &["half.nt:2:27: "]);
    assert!(!new.exists(), "there is nothing where there was nothing");
    std::fs::create_dir(&new).unwrap();
    std::fs::write(new.join("notes.txt"), "of the user").unwrap();
    fails(&["load", "--store", text(&new), "--data", &half], &["half.nt:2:27: "]);
    let left: Vec<_> = std::fs::read_dir(&new).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"], "the folder is as it was");
    // LOAD reads permitted files.
    let iri = format!("LOAD <file://{data}> INTO GRAPH <http://e/g>");
    good(&["update", "--store", store, &iri, "--load-folder", text(&here)]);
    assert_eq!(quads(store).len(), 2);
    fails(
        &["update", "--store", store, "LOAD <file:///etc/a.nt>", "--load-folder", text(&here)],
        &["file:///etc/a.nt: is not within the folder that may be read (--load-folder)"],
    );
}

#[test]
fn what_is_no_store_is_told_by_every_verb() {
    let here = folder("none");
    let (none, empty, junk) = (here.join("none"), here.join("empty"), here.join("junk"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::create_dir(&junk).unwrap();
    std::fs::write(junk.join("CURRENT"), "this is no manifest").unwrap();
    let data = file(&here, "a.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    for store in [&none, &empty, &junk] {
        let store = text(store);
        let output = here.join("out");
        let output = text(&output);
        let told = format!("store {store}: ");
        for args in [
            &["query", "--store", store, "ASK {}"][..],
            &["update", "--store", store, "CLEAR ALL"],
            &["dump", "--store", store, "--output", "-"],
            &["check", "--store", store],
            &["compact", "--store", store],
            &["backup", "--store", store, "--output", output],
        ] {
            fails(args, &[&told]);
        }
        assert!(!Path::new(output).exists(), "nothing is left of a copy that could not be made");
    }
    fails(&["load", "--store", text(&junk), "--data", &data], &["store ", "junk"]);
    // A file in place of the folder.
    fails(&["load", "--store", &data, "--data", &data], &["store ", "a.nt"]);
    // A store is not overwritten.
    let store = here.join("db");
    good(&["load", "--store", text(&store), "--data", &data]);
    fails(&["backup", "--store", text(&store), "--output", text(&store)], &["store "]);
    assert_eq!(quads(text(&store)).len(), 1);
    // Files and a store are not asked together.
    let both = vicus(&["query", "--store", text(&store), "--data", &data, "ASK {}"]);
    assert_eq!(both.status.code(), Some(2));
}

/// A flipped byte in the base file is found by its checksum, and the file is named.
#[test]
fn damage_is_named() {
    let here = folder("damage");
    let store = here.join("db");
    let lines: String = (0..20_000).map(|n| format!("<http://e/{n}> <http://e/p> \"{n}\" .\n")).collect();
    let data = file(&here, "a.nt", &lines);
    good(&["load", "--store", text(&store), "--data", &data]);
    let base = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let base = base.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&base, bytes).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap().to_owned();
    fails(&["check", "--store", text(&store)], &["store ", &name]);
    fails(&["dump", "--store", text(&store), "--output", "-"], &["store ", &name]);
    // What happened: a part of the file stayed there.
    fails(&["dump", "--store", text(&store), "--output", text(&here.join("dump.nq"))], &["store ", &name]);
    let names = std::fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("dump")).count(), 0);
}

/// What happened: changes stayed in the log for good, so each command that opened the store read all of them again.
#[test]
fn many_changes_are_merged_by_the_update_that_makes_them_many() {
    let here = folder("many");
    let store = here.join("db");
    let store = text(&store);
    let a = file(&here, "a.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    good(&["load", "--store", store, "--data", &a]);
    let quads =
        |range: std::ops::Range<usize>| range.map(|n| format!("<http://e/{n}> <http://e/p> {n} .")).collect::<String>();
    let insert = |name: &str, range| file(&here, name, &format!("INSERT DATA {{ {} }}", quads(range)));
    let (few, many) = (insert("few.ru", 0..100), insert("many.ru", 100..5000));
    good(&["update", "--store", store, "--update", &few]);
    assert!(good(&["check", "--store", store]).contains("1 later commit"));
    good(&["update", "--store", store, "--update", &many]);
    let checked = good(&["check", "--store", store]);
    assert!(checked.contains("5001 quads") && checked.contains("0 later commits"), "{checked}");
}

/// What happened: quads that were inserted and deleted again, over and over, never led to a merge, and the log grew
/// without bound.
#[test]
fn changes_that_are_undone_are_merged_too() {
    let here = folder("undone");
    let store = here.join("db");
    let store = text(&store);
    let data = file(&here, "a.nt", "<http://e/a> <http://e/p> <http://e/b> .");
    good(&["load", "--store", store, "--data", &data]);
    let files: Vec<String> = (0..24)
        .map(|number| {
            let (operation, round) = (["INSERT", "DELETE"][number % 2], number / 2);
            let quads =
                (0..2000).map(|n| format!("<http://e/{round}/{n}> <http://e/p> \"a text of round {round}\" . "));
            file(&here, &format!("{number:02}.ru"), &format!("{operation} DATA {{ {} }}", quads.collect::<String>()))
        })
        .collect();
    let mut commits = Vec::new();
    for files in files.chunks(6) {
        let mut args = vec!["update", "--store", store];
        files.iter().for_each(|file| args.extend(["--update", file]));
        good(&args);
        let checked = good(&["check", "--store", store]);
        assert!(checked.contains("1 quads"), "{checked}");
        let (_, later) = checked.split_once(" bytes, and ").expect("it tells of commits");
        commits.push(later.split_once(' ').unwrap().0.parse::<u64>().unwrap());
    }
    assert!(commits.last().is_some_and(|&last| last < 20), "{commits:?}");
}
