//! SP2Bench: as many rows as at least two other engines found. The data lies beside the repository; without it, the
//! test says so and passes.

use crate::made;
use crate::rows::count_of;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_rdf::{Id, Order, Snapshot};
use vicus_sparql::{Form, PlanOptions, parse, plan};

pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&here).join("../..")
}

/// Loaded in one piece, and with half of the data inserted into a store with the other half, and more.
fn load(path: &Path) -> [Arc<Snapshot>; 2] {
    let packed = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text).expect("the file is whole");
    let name = path.to_string_lossy();
    let snapshot = if name.contains(".ttl") { Snapshot::of_turtle(&text, None) } else { Snapshot::of_ntriples(&text) };
    let snapshot = snapshot.unwrap_or_else(|error| panic!("{name}: {error}"));
    let index = snapshot.index(Order::Gspo);
    let line = |[s, p, o, _]: [Id; 4]| [s, p, o].map(|id| snapshot.term(id).to_string()).join(" ") + " .\n";
    let half = made::in_way(&index.quads(0..index.len()).map(line).collect::<String>(), 2);
    [Arc::new(snapshot), half]
}

#[test]
fn all_queries_find_as_many_rows_as_other_engines() {
    let folder = root().join("../shared/sp2b");
    let Ok(counts) = std::fs::read_to_string(folder.join("counts.tsv")) else {
        println!("SKIPPED: there is no {}", folder.display());
        return;
    };
    let lines: Vec<Vec<&str>> =
        counts.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    let files = ["original-10k.ttl.gz", "original-25k.ttl.gz", "sp2b-10000.nt.gz", "sp2b-50000.nt.gz"];
    for file in files {
        let snapshots = load(&folder.join("data").join(file));
        let expected = lines.iter().find(|line| line[0] == file).expect("a line for the file");
        for (name, expected) in lines[0].iter().zip(expected).skip(1) {
            let path = root().join(format!("doors/cli/queries/sp2b/{name}.sparql"));
            let text = std::fs::read_to_string(&path).expect("a query of the repository");
            let parsed = parse(&text).expect("good SPARQL");
            for snapshot in &snapshots {
                let plan = plan(snapshot, &parsed, PlanOptions::default()).expect("supported");
                let found = match (count_of(&plan), plan.form()) {
                    (0, Form::Ask) => "no".to_owned(),
                    (1, Form::Ask) => "yes".to_owned(),
                    (count, _) => count.to_string(),
                };
                assert_eq!(found, *expected, "{name} on {file}\n{}", plan.explain());
            }
        }
    }
}
