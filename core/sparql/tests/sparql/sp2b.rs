//! SP2Bench: as many rows as at least two other engines found. The data lies beside the repository; without it, the test says
//! so and passes.

use crate::rows::count_of;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{Form, PlanOptions, parse, plan};

pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&here).join("../..")
}

fn load(path: &Path) -> Snapshot {
    let packed = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text).expect("the file is whole");
    let name = path.to_string_lossy();
    let snapshot = if name.contains(".ttl") { Snapshot::of_turtle(&text, None) } else { Snapshot::of_ntriples(&text) };
    snapshot.unwrap_or_else(|error| panic!("{name}: {error}"))
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
        let snapshot = Arc::new(load(&folder.join("data").join(file)));
        let expected = lines.iter().find(|line| line[0] == file).expect("a line for the file");
        for (name, expected) in lines[0].iter().zip(expected).skip(1) {
            let path = root().join(format!("doors/cli/queries/sp2b/{name}.sparql"));
            let text = std::fs::read_to_string(&path).expect("a query of the repository");
            let plan =
                plan(&snapshot, &parse(&text).expect("good SPARQL"), &PlanOptions::default()).expect("supported");
            let found = match (count_of(&plan), plan.form()) {
                (0, Form::Ask) => "no".to_owned(),
                (1, Form::Ask) => "yes".to_owned(),
                (count, _) => count.to_string(),
            };
            assert_eq!(found, *expected, "{name} on {file}\n{}", plan.explain());
        }
    }
}
