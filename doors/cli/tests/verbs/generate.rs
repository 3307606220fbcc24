//! `vicus generate`, run as a user runs it.

use flate2::read::GzDecoder;
use oxttl::{NTriplesParser, TurtleParser};
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for one test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("vicus-generate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// The bytes of a bibliography of this name, generated with these arguments.
    fn generate(&self, name: &str, triples: u64, seed: u64) -> Vec<u8> {
        self.run("sp2b", name, ["--triples", &triples.to_string(), "--seed", &seed.to_string()]).0
    }

    /// The bytes of a shop of this name, generated with these arguments, and the output about it.
    fn shop(&self, name: &str, products: u64, seed: u64) -> (Vec<u8>, String) {
        self.run("shop", name, ["--products", &products.to_string(), "--seed", &seed.to_string()])
    }

    fn run(&self, what: &str, name: &str, arguments: [&str; 4]) -> (Vec<u8>, String) {
        let path = self.0.join(name);
        let output = vicus(what, &arguments, &path);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (std::fs::read(path).unwrap(), said)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn vicus(what: &str, arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["generate", what]).args(arguments).arg("--output").arg(path).output().unwrap()
}

type Triple = [String; 3];

fn n_triples(bytes: &[u8]) -> Vec<Triple> {
    let triples = NTriplesParser::new().for_slice(bytes).map(Result::unwrap);
    triples
        .map(|triple| [triple.subject.to_string(), triple.predicate.to_string(), triple.object.to_string()])
        .collect()
}

fn turtle(bytes: &[u8]) -> Vec<Triple> {
    let triples = TurtleParser::new().for_slice(bytes).map(Result::unwrap);
    triples
        .map(|triple| [triple.subject.to_string(), triple.predicate.to_string(), triple.object.to_string()])
        .collect()
}

const TYPE: &str = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";
const CREATOR: &str = "<http://purl.org/dc/elements/1.1/creator>";
const EDITOR: &str = "<http://swrc.ontoware.org/ontology#editor>";
const ERDOES: &str = "<http://localhost/persons/Paul_Erdoes>";

/// The year in an IRI of a document.
fn year(iri: &str) -> u32 {
    let parts = iri.trim_end_matches('>').split('/').filter(|part| part.len() == 4);
    parts.filter_map(|part| part.parse().ok()).next().unwrap_or_else(|| panic!("{iri} has a year"))
}

#[test]
fn a_file_is_a_consistent_set_of_triples() {
    let folder = Folder::new("consistent");
    let triples = n_triples(&folder.generate("a.nt", 60_000, 1));
    assert!((60_000..60_200).contains(&triples.len()), "it ends with a document: {}", triples.len());
    assert_eq!(triples.iter().collect::<HashSet<_>>().len(), triples.len(), "no triple twice");
    let mut typed: HashSet<&str> = HashSet::new();
    for [subject, predicate, object] in &triples {
        if predicate == TYPE {
            assert!(typed.insert(subject), "{subject} has one type");
        } else if !predicate.ends_with("subClassOf>") {
            assert!(typed.contains(subject.as_str()), "{subject} is introduced before something is said of it");
        }
        let refers = object.starts_with("<http://localhost/p") || object.starts_with("_:");
        if refers && !predicate.ends_with("references>") {
            assert!(typed.contains(object.as_str()), "{object} is introduced before {subject} refers to it");
        }
    }
    assert!(typed.contains("<http://localhost/misc/UnknownDocument>"));
    let titles = triples.iter().filter(|triple| triple[2].starts_with("\"Journal 1 (1940)\""));
    assert_eq!(titles.count(), 1, "query 1 has one row");
}

#[test]
fn erdoes_writes_ten_papers_a_year_and_edits_two_proceedings() {
    let folder = Folder::new("erdoes");
    let triples = n_triples(&folder.generate("a.nt", 60_000, 2));
    let years = |property: &str| {
        let mut years: HashMap<u32, usize> = HashMap::new();
        for [subject, predicate, object] in &triples {
            if predicate == property && object == ERDOES {
                *years.entry(year(subject)).or_default() += 1;
            }
        }
        years
    };
    let (papers, edited) = (years(CREATOR), years(EDITOR));
    let last = *papers.keys().max().unwrap();
    assert!(last > 1965);
    for year in 1940..last {
        assert_eq!(papers[&year], 10, "{year}");
        // There is one proceedings a year from 1950 to 1957, and none before.
        let proceedings = usize::from(year >= 1950) + usize::from(year >= 1958);
        assert_eq!(edited.get(&year).copied().unwrap_or(0), proceedings, "{year}");
    }
}

#[test]
fn he_stops_in_1996() {
    let folder = Folder::new("1996");
    let bytes = folder.generate("a.nt", 4_000_000, 1);
    let last = bytes.split(|&byte| byte == b'\n').rfind(|line| line.ends_with(b"Paul_Erdoes> .")).unwrap();
    let last = std::str::from_utf8(last).unwrap();
    assert_eq!(year(last.split(' ').next().unwrap()), 1996);
}

#[test]
fn whole_years_have_as_many_documents_as_the_benchmarks_own_files() {
    let folder = Folder::new("years");
    let triples = n_triples(&folder.generate("a.nt", 60_000, 3));
    let count = |class: &str, of: u32| {
        let class = format!("<http://localhost/vocabulary/bench/{class}>");
        triples.iter().filter(|[subject, _, object]| *object == class && year(subject) == of).count()
    };
    // year, Journal, Article, Proceedings, Inproceedings, Incollection: counted in files of the benchmark's own
    // generator.
    for (year, counts) in
        [(1940, [1, 20, 0, 0, 0]), (1946, [1, 41, 0, 0, 1]), (1953, [2, 96, 1, 29, 2]), (1960, [6, 221, 2, 84, 3])]
    {
        let classes = ["Journal", "Article", "Proceedings", "Inproceedings", "Incollection"];
        assert_eq!(classes.map(|class| count(class, year)), counts, "{year}");
    }
}

#[test]
fn a_seed_gives_the_same_bytes_for_ever() {
    let folder = Folder::new("seed");
    let bytes = folder.generate("a.nt", 20_000, 1);
    // A change of these numbers is a change of everyone's test data: say so in the release notes.
    assert_eq!((bytes.len(), fnv_1a(&bytes)), (3_171_320, 0xcb1e_833f_adcb_a0ed));
    assert_ne!(bytes, folder.generate("b.nt", 20_000, 2));
    let (bytes, _) = folder.shop("a.nt", 100, 1);
    assert_eq!((bytes.len(), fnv_1a(&bytes)), (558_545, 0xd4d6_0cf4_097a_f574));
    assert_ne!(bytes, folder.shop("b.nt", 100, 2).0);
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// What happened: `--help` promised 75 triples for each product, there were 66, and some of them were duplicates.
#[test]
fn a_shop_has_as_many_triples_as_the_help_says() {
    let folder = Folder::new("shop");
    const PRODUCTS: usize = 1000;
    let (bytes, said) = folder.shop("a.nt", PRODUCTS as u64, 1);
    let triples = n_triples(&bytes);
    let distinct: HashSet<&Triple> = triples.iter().collect();
    assert_eq!(distinct.len(), triples.len(), "no triple twice");
    assert!(said.starts_with(&format!("{} triples in ", triples.len())), "{said}");
    let help = Command::new(env!("CARGO_BIN_EXE_vicus")).args(["generate", "shop", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, each) = help.split_once("each has about ").expect("it tells how many triples there are");
    let each: usize = each.split(' ').next().unwrap().parse().unwrap();
    assert_eq!((triples.len() + PRODUCTS / 2) / PRODUCTS, each);

    // By property, the objects of each subject.
    let mut of: HashMap<&str, HashMap<&str, Vec<&str>>> = HashMap::new();
    for [subject, predicate, object] in &triples {
        let property = predicate.trim_end_matches('>').rsplit(['/', '#']).next().unwrap();
        of.entry(property).or_default().entry(subject).or_default().push(object);
    }
    let is_product = |objects: &&Vec<&str>| objects.contains(&"<http://shop/Product>");
    assert_eq!(of["type"].values().filter(is_product).count(), PRODUCTS);
    assert!(of["feature"].len() == PRODUCTS && of["feature"].values().all(|all| (1..=6).contains(&all.len())));
    // Four offers of each product, and two reviews.
    for (property, count, again) in
        [("product", 4, ["vendor", "price", "cost", "since"]), ("reviewFor", 2, ["reviewer", "title", "rating", "at"])]
    {
        let mut things: HashMap<&str, usize> = HashMap::new();
        of[property].values().for_each(|all| *things.entry(all[0]).or_default() += 1);
        assert!(things.len() == PRODUCTS && things.values().all(|&number| number == count), "{property}");
        for other in again {
            assert_eq!(of[other].len(), count * PRODUCTS, "{other}");
            assert!(of[other].values().all(|all| all.len() == 1), "{other}");
        }
    }
    // A review has up to four more ratings, each from 1 to 10.
    for property in ["rating1", "rating2", "rating3", "rating4"] {
        let ratings = &of[property];
        assert!((PRODUCTS..2 * PRODUCTS).contains(&ratings.len()), "{property}: {}", ratings.len());
        let number = |rating: &str| rating.split('"').nth(1).unwrap().parse::<u32>().unwrap();
        assert!(ratings.values().all(|all| all.len() == 1 && (1..=10).contains(&number(all[0]))), "{property}");
    }
    assert!(turtle(&folder.shop("a.ttl", PRODUCTS as u64, 1).0) == triples, "N-Triples are Turtle");

    // Each of the shop's queries has an answer.
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/shop");
    let mut files: Vec<PathBuf> = std::fs::read_dir(queries).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut query = Command::new(env!("CARGO_BIN_EXE_vicus"));
    query.args(["query", "--format", "count", "--data"]).arg(folder.0.join("a.nt")).arg("--query").args(&files);
    let output = query.output().unwrap();
    let counts = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{counts}");
    assert_eq!(counts.lines().count(), files.len(), "{counts}");
    assert!(counts.lines().all(|line| !line.ends_with(" 0") && line != "0"), "{counts}");
}

#[test]
fn a_smaller_file_is_the_beginning_of_a_larger_one() {
    let folder = Folder::new("prefix");
    let (small, large) = (folder.generate("a.nt", 3_000, 9), folder.generate("b.nt", 30_000, 9));
    assert!(large.starts_with(&small));
}

#[test]
fn all_four_endings_hold_the_same_triples() {
    let folder = Folder::new("endings");
    let expected = n_triples(&folder.generate("a.nt", 25_000, 4));
    assert!(turtle(&folder.generate("a.ttl", 25_000, 4)) == expected);
    let unzipped = |name: &str| {
        let mut bytes = Vec::new();
        GzDecoder::new(&folder.generate(name, 25_000, 4)[..]).read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert!(n_triples(&unzipped("a.nt.gz")) == expected);
    assert!(turtle(&unzipped("a.ttl.gz")) == expected);
}

#[test]
fn mistakes_are_explained() {
    let folder = Folder::new("mistakes");
    let cases = [
        (folder.0.join("a.rdf"), "a.rdf: the name must end in .nt (N-Triples), .ttl (Turtle), .nt.gz or .ttl.gz"),
        (folder.0.join("nt"), "nt: the name must end in"),
        (folder.0.join("no/such/a.nt"), "a.nt: can't be written: No such file or directory"),
        (PathBuf::from("/dev/full/a.nt"), "/dev/full/a.nt: can't be written"),
    ];
    for (path, message) in cases {
        let output = vicus("sp2b", &["--triples", "10"], &path);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.starts_with("vicus: ") && errors.contains(message), "{errors}");
    }
    let output = vicus("sp2b", &["--triples", "0"], &folder.0.join("a.nt"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_full_disk_is_a_failure() {
    let folder = Folder::new("full");
    let link = folder.0.join("full.nt");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let output = vicus("sp2b", &["--triples", "1000"], &link);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("full.nt: can't be written: No space left on device"), "{errors}");
}
