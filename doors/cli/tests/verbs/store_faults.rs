//! Faults of stores from outside: half a store, logs of garbage, no rights, no room, wrong texts, servers that are
//! none. The message names the fault, the status is 1, and nothing is lost.

use super::store::{fails, file, folder, good, place_in_log, quads, text, told};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Reads an HTTP request with its content.
fn read_question(connection: &mut TcpStream) {
    let (mut lines, mut line, mut length) = (BufReader::new(connection), String::new(), 0);
    while lines.read_line(&mut line).unwrap() > 2 {
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    lines.read_exact(&mut vec![0; length]).unwrap();
}

/// A store with a quad of its base file and three commits.
fn store(folder: &Path) -> PathBuf {
    let store = folder.join("db");
    let data = file(folder, "a.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    good(&["load", "--store", text(&store), "--data", &data]);
    for number in 0..3 {
        let insert = format!("INSERT DATA {{ <http://e/{number}> <http://e/p> {number} }}");
        good(&["update", "--store", text(&store), &insert]);
    }
    store
}

/// The files of a store with this beginning of their names, the last one last.
fn files(store: &Path, beginning: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(beginning)).collect();
    paths.sort();
    paths
}

fn copied(store: &Path, name: &str) -> PathBuf {
    let copy = store.with_file_name(name);
    std::fs::create_dir(&copy).unwrap();
    for path in files(store, "") {
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Meaningless bytes.
fn garbage(count: usize) -> Vec<u8> {
    let mut state = 20_261_123_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| byte()).collect()
}

#[test]
fn half_a_store_and_a_log_of_garbage_are_told_with_the_file() {
    let here = folder("half");
    let whole = store(&here);
    let before = quads(text(&whole));
    assert_eq!(before.len(), 4);
    let without = |name: &str, beginning: &str| {
        let copy = copied(&whole, name);
        std::fs::remove_file(files(&copy, beginning).pop().unwrap()).unwrap();
        copy
    };
    let no_base = without("no-base", "base-");
    let no_manifest = without("no-manifest", "CURRENT");
    let replaced = copied(&whole, "replaced");
    let appended = copied(&whole, "appended");
    let log = files(&replaced, "log-").pop().unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    std::fs::write(&log, garbage(5000)).unwrap();
    let mut open = std::fs::OpenOptions::new().append(true).open(appended.join(name)).unwrap();
    open.write_all(&garbage(300)).unwrap();
    let manifest = copied(&whole, "manifest");
    std::fs::write(manifest.join("CURRENT"), garbage(130)).unwrap();
    for (store, says) in
        [(&no_base, "base-"), (&no_manifest, "there is no file CURRENT"), (&replaced, name), (&manifest, "CURRENT")]
    {
        let path = text(store);
        for args in [
            &["query", "--store", path, "ASK {}"][..],
            &["check", "--store", path],
            &["dump", "--store", path, "--output", "-"],
            &["update", "--store", path, "CLEAR ALL"],
        ] {
            // A missing manifest beside a base is told otherwise to a writer: it is damage.
            let says = if args[0] == "update" && store == &no_manifest { "CURRENT" } else { says };
            fails(args, &[&format!("store {path}"), says]);
        }
    }
    // The part before the damage is read.
    let path = text(&appended);
    for args in [&["check", "--store", path][..], &["update", "--store", path, "CLEAR ALL"]] {
        fails(args, &[&format!("store {path}"), name, "the log can't be read from record", "vicus check --repair"]);
    }
    assert_eq!(quads(path), before);
    assert_eq!(quads(text(&whole)), before);
}

/// Inserts quads by one process, each by an update of its own.
fn inserted(here: &Path, store: &str, numbers: &[u32]) {
    let update =
        |n: &u32| file(here, &format!("{n}.ru"), &format!("INSERT DATA {{ <http://e/{n}> <http://e/p> {n} }}"));
    let updates: Vec<String> = numbers.iter().map(update).collect();
    let mut args = vec!["update", "--store", store];
    updates.iter().for_each(|update| args.extend(["--update", update]));
    good(&args);
}

/// Runs the command and returns its standard output and standard error.
fn both(args: &[&str]) -> [String; 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_vicus")).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

/// What happened: a record that could not be read kept the whole store from being opened, for good.
#[test]
fn a_log_that_is_damaged_in_its_middle_is_read_up_to_there_and_repaired() {
    let here = folder("unread");
    let store = store(&here);
    let path = text(&store);
    for number in 3..6 {
        good(&["update", "--store", path, &format!("INSERT DATA {{ <http://e/{number}> <http://e/p> {number} }}")]);
    }
    // All in one segment, by one process.
    inserted(&here, path, &[6, 7, 8]);
    let all = quads(path);
    assert_eq!(all.len(), 10);
    let log = files(&store, "log-").pop().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    // In the frame before the last one.
    let place = place_in_log(&bytes, "http://e/7");
    bytes[place] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let (name, says) = (log.file_name().unwrap().to_str().unwrap(), "the log can't be read from record 9 on");
    let without: Vec<String> =
        all.iter().filter(|quad| !quad.contains("e/7>") && !quad.contains("e/8>")).cloned().collect();

    let dump = here.join("dump.nq");
    let copy = here.join("copy");
    for args in [
        &["query", "--store", path, "SELECT * { ?s ?p ?o }", "--format", "csv"][..],
        &["dump", "--store", path, "--output", text(&dump)],
        &["backup", "--store", path, "--output", text(&copy)],
    ] {
        let [_, told] = both(args);
        assert!(
            [says, name, "byte", "vicus check --repair"].iter().all(|part| told.contains(part)),
            "{args:?}: {told}"
        );
    }
    assert_eq!(std::fs::read_to_string(&dump).unwrap().lines().count(), without.len());
    assert_eq!(quads(text(&copy)), without);
    let more = "INSERT DATA { <http://e/x> <http://e/p> 1 }";
    for args in [&["check", "--store", path][..], &["update", "--store", path, more], &["compact", "--store", path]] {
        fails(args, &["store ", says, name, "vicus check --repair"]);
    }
    assert_eq!(std::fs::read(&log).unwrap(), bytes);

    let [told, _] = both(&["check", "--repair", "--store", path]);
    let kept = files(&store, "aside-").pop().expect("the rest is kept");
    for part in [says, text(&kept), "8 quads"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(bytes.ends_with(&std::fs::read(&kept).unwrap()));
    assert!(good(&["check", "--repair", "--store", path]).contains("nothing was repaired"));
    good(&["update", "--store", path, more]);
    good(&["compact", "--store", path]);
    assert_eq!(quads(path).len(), without.len() + 1);
    assert!(kept.exists() && good(&["check", "--store", path]).contains(text(&kept)));
}

/// What happened: a last record whose end had become zeros was left out without a word.
#[test]
fn a_log_whose_end_is_not_whole_is_told() {
    let here = folder("torn");
    let store = store(&here);
    let path = text(&store);
    inserted(&here, path, &[3, 4]);
    let log = files(&store, "log-").pop().unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    bytes[end - 10..].fill(0);
    std::fs::write(&log, &bytes).unwrap();
    let checked = good(&["check", "--store", path]);
    assert!(
        checked.contains("5 quads") && checked.contains(name) && checked.contains("not all of record"),
        "{checked}"
    );
    let [_, told] = both(&["update", "--store", path, "INSERT DATA { <http://e/5> <http://e/p> 5 }"]);
    let kept = files(&store, "aside-").pop().expect("the bytes are kept");
    assert!(told.contains(name) && told.contains(text(&kept)), "{told}");
    let [_, told] = both(&["update", "--store", path, "INSERT DATA { <http://e/6> <http://e/p> 6 }"]);
    assert_eq!(told, "");
    assert_eq!(quads(path).len(), 7);
}

/// Runs the command with files of at most `file_bytes`, and perhaps as another user.
fn limited(args: &[&str], file_bytes: u64, user: Option<u32>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(args).stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    #[expect(unsafe_code, reason = "limits a process before it begins")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: file_bytes, rlim_max: file_bytes };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command.output().unwrap()
}

/// What happened: a file that became too long ended the process by a signal, without a message. A full disk is told by
/// the same error.
#[test]
fn no_room_in_the_middle_leaves_a_store_as_it_was() {
    let here = folder("no-room");
    let store = store(&here);
    let before = quads(text(&store));
    let lines: String = (0..4000).map(|n| format!("<http://e/{n}> <http://e/q> \"value number {n}\" .\n")).collect();
    let data = file(&here, "many.nt", &lines);
    let load = format!("INSERT DATA {{ <http://e/x> <http://e/p> 1 }} ; LOAD <file://{data}>");
    let path = text(&store);
    for args in [
        &["update", "--store", path, "--load-folder", text(&here), &load][..],
        &["load", "--store", path, "--data", &data],
        &["compact", "--store", path],
        &["backup", "--store", path, "--output", text(&here.join("copy"))],
        &["dump", "--store", path, "--output", text(&here.join("dump.nt"))],
    ] {
        // The manifest has about a hundred bytes; a log and a base file have more than this.
        let most = if args[0] == "dump" { 10 } else { 400 };
        told(&limited(args, most, None), args, &["File too large"]);
        assert_eq!(quads(path), before, "{args:?}");
        assert!(good(&["check", "--store", path]).contains("4 quads"), "{args:?}");
    }
    // With room again, the same is done.
    good(&["update", "--store", path, "--load-folder", text(&here), &load]);
    assert_eq!(quads(path).len(), 4 + 1 + 4000);
}

#[test]
fn a_store_without_rights_is_told() {
    let here = folder("rights");
    let store = store(&here);
    let path = text(&store);
    // The root user has all rights, so another one asks.
    #[expect(unsafe_code, reason = "the standard library does not say which user this is")]
    // SAFETY: the call has no arguments and changes nothing.
    let user = (unsafe { libc::geteuid() } == 0).then_some(65534);
    if user.is_some() && !limited(&["--version"], u64::MAX, user).status.success() {
        println!("skipped: another user can't run this program, {}", env!("CARGO_BIN_EXE_vicus"));
        return;
    }
    let set = |mode: u32| std::fs::set_permissions(&store, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    for args in [&["query", "--store", path, "ASK {}"][..], &["update", "--store", path, "CLEAR ALL"]] {
        told(&limited(args, u64::MAX, user), args, &[&format!("store {path}"), "Permission denied"]);
    }
    set(0o555);
    files(&store, "").iter().for_each(|file| {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o444)).unwrap();
    });
    let update = ["update", "--store", path, "CLEAR ALL"];
    told(&limited(&update, u64::MAX, user), &update, &[&format!("store {path}"), "Permission denied"]);
    let asked = limited(&["query", "--store", path, "--format", "count", "SELECT * { ?s ?p ?o }"], u64::MAX, user);
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "query\t4\n", "reading needs no right to write");
    set(0o755);
    assert_eq!(quads(path).len(), 4);
}

#[test]
fn wrong_names_texts_and_servers_change_nothing() {
    let here = folder("texts");
    let store = store(&here);
    let path = text(&store);
    let before = quads(path);
    let data = file(&here, "b.nt", "<http://e/b> <http://e/p> \"1\" .\n");
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sparql", page.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in page.incoming() {
            let html = "<!DOCTYPE html>\n<title>Welcome</title>";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n", html.len());
            let mut connection = connection.unwrap();
            // If a question is not read to its end, the client's pipe breaks, which is another error.
            read_question(&mut connection);
            let _ = write!(connection, "{head}Connection: close\r\n\r\n{html}");
        }
    });
    let from = |url: &str| format!("CLEAR ALL ; INSERT {{ ?s ?p ?o }} WHERE {{ SERVICE <{url}> {{ ?s ?p ?o }} }}");
    for (args, says) in [
        (&["load", "--data", &data, "--graph", "not an iri"][..], &["--graph: `not an iri` is no IRI"][..]),
        (&["load", "--data", &data, "--graph", "relative"], &["--graph: `relative` is no IRI"]),
        (&["dump", "--output", "-", "--graph", "<http://e/g>"], &["--graph: `<http://e/g>` is no IRI"]),
        (&["update", "INSERT DATA { GRAPH <a b> { <http://e/x> <http://e/p> 2 } }"], &["line 1, column 21"]),
        (
            &["update", "CLEAR ALL ;\nINSERT DATA { <http://e/x> <http://e/p> 3 } ;\nINSERT { ?s ?p } WHERE {}"],
            &["line 3, column 16"],
        ),
        (&["update", "--allow-service", "all", &from("http://127.0.0.1:9/")], &["operation 2", "can't be reached"]),
        (&["update", "--allow-service", "all", &from(&url)], &["operation 2", "text/html", "<!DOCTYPE html>"]),
        (&["update", &from(&url)], &["operation 2", "not permitted", "--allow-service"]),
        // What happened: these did not say which document.
        (&["update", "--allow-service", "all", &format!("LOAD <{url}>")], &["LOAD", &url, "no syntax of RDF"]),
        (
            &["update", "--allow-service", "all", "LOAD <http://127.0.0.1:9/>"],
            &["<http://127.0.0.1:9/>: it can't be reached"],
        ),
        (&["update", &format!("LOAD <{url}>")], &["not permitted", "--allow-service"]),
        (
            &["query", "--allow-service", "all", &format!("SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}")],
            &["text/html", "begins: <!DOCTYPE html>"],
        ),
    ] {
        let args = [&[args[0], "--store", path], &args[1..]].concat();
        fails(&args, says);
        assert_eq!(quads(path), before, "{args:?}");
    }
}

/// What happened: a pipe and a link were replaced by a file, and a file of the same name with `.part` behind it was
/// overwritten and removed.
#[test]
fn a_dump_replaces_files_alone_and_touches_no_other() {
    let here = folder("dump-to");
    let store = store(&here);
    let path = text(&store);
    let all = quads(path);
    let sorted = |written: &str| {
        let mut lines: Vec<String> = written.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let names = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };

    // A file, and an unrelated one.
    let out = here.join("out");
    std::fs::create_dir(&out).unwrap();
    file(&out, "a.nq", "before");
    file(&out, "a.nq.part", "of the owner");
    good(&["dump", "--store", path, "--output", text(&out.join("a.nq"))]);
    assert_eq!(sorted(&std::fs::read_to_string(out.join("a.nq")).unwrap()), all);
    assert_eq!(std::fs::read_to_string(out.join("a.nq.part")).unwrap(), "of the owner");
    assert_eq!(names(&out), ["a.nq", "a.nq.part"]);

    // Links to a file, to a link, and to a missing file.
    let links = here.join("links");
    std::fs::create_dir(&links).unwrap();
    file(&out, "a.nq", "before");
    for (name, to) in [("1.nq", "../out/a.nq"), ("2.nq", "1.nq"), ("3.nq", "../out/b.nq")] {
        std::os::unix::fs::symlink(to, links.join(name)).unwrap();
    }
    for (name, target) in [("1.nq", "a.nq"), ("2.nq", "a.nq"), ("3.nq", "b.nq")] {
        let _ = std::fs::remove_file(out.join("b.nq"));
        file(&out, "a.nq", "before");
        good(&["dump", "--store", path, "--output", text(&links.join(name))]);
        assert!(links.join(name).is_symlink());
        assert_eq!(sorted(&std::fs::read_to_string(out.join(target)).unwrap()), all, "{name}");
    }
    assert_eq!((names(&links), names(&out)), (sorted("1.nq\n2.nq\n3.nq"), sorted("a.nq\na.nq.part\nb.nq")));

    // A pipe, as standard output too or not.
    let pipe = here.join("pipe.nq");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both, so nothing waits for another end.
    let mut both = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    for is_stdout in [false, true] {
        let stdout = if is_stdout { both.try_clone().unwrap().into() } else { Stdio::null() };
        let args = ["dump", "--store", path, "--output", text(&pipe)];
        let dump = Command::new(env!("CARGO_BIN_EXE_vicus")).args(args).stdin(Stdio::null()).stdout(stdout).status();
        assert!(dump.unwrap().success() && std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
        both.write_all(b"end").unwrap();
        let mut written = vec![0; 1 << 16];
        let length = both.read(&mut written).unwrap();
        let written = String::from_utf8(written[..length].to_vec()).unwrap();
        assert_eq!(sorted(written.strip_suffix("end").unwrap()), all, "the number of quads is no part of it");
    }
    fails(&["dump", "--store", path, "--output", text(&out), "--syntax", "nq"], &["can't be written", "directory"]);
}

/// What happened: a load that failed in a folder that was no store removed files of the user's own that had names as a
/// store's have.
#[test]
fn a_load_that_fails_removes_no_files_of_the_user() {
    let here = folder("own-files");
    let path = text(&here);
    let wrong = file(&here, "wrong.nt", "<http://e/a> <http://e/p> .\n");
    file(&here, "vicus-scratch-notes", "notes");
    for name in ["LOCK", "BEGUN", "CURRENT.new"] {
        file(&here, name, "notes");
        fails(&["load", "--store", path, "--data", &wrong], &["store ", name, " is not "]);
        assert_eq!(std::fs::read_to_string(here.join(name)).unwrap(), "notes");
        std::fs::remove_file(here.join(name)).unwrap();
    }
    fails(&["load", "--store", path, "--data", &wrong], &["wrong.nt"]);
    assert_eq!(files(&here, ""), [here.join("vicus-scratch-notes"), here.join("wrong.nt")]);
}
