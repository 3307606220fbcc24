//! Data that `vicus query` can't load, or only just: the error comes soon, with the file, the line and a hint.

use super::{fails, file, run, stderr};
use std::io::Write;
use std::process::Command;

fn packed(name: &str, contents: &[u8]) -> String {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(contents).unwrap();
    file(name, packed.finish().unwrap())
}

const ALL: &str = "SELECT * { ?s ?p ?o }";

/// What happened: with `/dev/zero` as data, or a small gzip file of zeros, the process grew until the system killed it.
#[test]
fn an_endless_line_ends_with_an_error() {
    fails(
        &["query", "--data", "/dev/zero", "--syntax", "nt", ALL],
        &["/dev/zero:1: more than 67108864 bytes", "--max-line"],
    );
    // Turtle refuses the first of its bytes.
    fails(&["query", "--data", "/dev/zero", "--syntax", "ttl", ALL], &["/dev/zero:1:1: "]);
    let good = "<http://e/a> <http://e/b> \"c\" .\n";
    let line = format!("{good}{good}<http://e/a> <http://e/b> \"{}\" .\n", "x".repeat(3 << 20));
    let small = &["--max-line", "1M"];
    for (data, place) in [
        (file("endless.nt", &line), "endless.nt:3: "),
        (file("endless.ttl", &line), "endless.ttl:3: "),
        (packed("endless.nt.gz", line.as_bytes()), "endless.nt.gz:3: "),
        (packed("endless.ttl.gz", line.as_bytes()), "endless.ttl.gz:3: "),
    ] {
        let args = ["query", "--data", &data, "--format", "count", ALL];
        fails(&[&args[..], small].concat(), &[place, "more than 1048576 bytes", "--max-line"]);
        assert_eq!(String::from_utf8_lossy(&run(&args).stdout), "query\t2\n", "{}", stderr(&run(&args)));
    }
}

/// The key of hashes is random or given by the user; answers don't depend on it.
#[test]
fn any_hash_seed_gives_the_same_answers() {
    let text: String = (0..3000).map(|n| format!("<http://e/{}> <http://e/p{}> \"{n}\" .\n", n % 700, n % 7)).collect();
    let data = file("seeds.nt", text);
    let query = "SELECT ?s ?p (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o . ?s ?q ?r } GROUP BY ?s ?p ORDER BY ?s ?p";
    let args = ["query", "--data", &data, "--format", "csv", query];
    let by_chance = run(&args).stdout;
    assert!(by_chance.len() > 10_000);
    for seed in ["0", "1", "18446744073709551615"] {
        assert!(run(&[&args[..], &["--hash-seed", seed]].concat()).stdout == by_chance, "seed {seed}");
    }
    let vicus = || Command::new(env!("CARGO_BIN_EXE_vicus"));
    assert!(vicus().args(args).env("VICUS_HASH_SEED", "7").output().unwrap().stdout == by_chance);
    let wrong = vicus().args(args).env("VICUS_HASH_SEED", "seven").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    // What happened: clap read the variable, and an empty one was an error, unlike all other variables.
    assert!(vicus().args(args).env("VICUS_HASH_SEED", "").output().unwrap().stdout == by_chance);
    let option = vicus().args(args).args(["--hash-seed", "7"]).env("VICUS_HASH_SEED", "seven").output().unwrap();
    assert!(option.stdout == by_chance, "the option is there, so the variable is not looked at");
}
