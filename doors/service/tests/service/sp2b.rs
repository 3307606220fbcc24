//! SP2Bench's queries on a store with data made by updates: the numbers of rows agreed on by at least two other
//! engines, under each strategy. The data lies beside the repository; without it, the test says so and passes.

use super::*;
use std::io::Read;
use std::path::Path;
use vicus_service::{create_store, open_store};

const FILE: &str = "sp2b-10000.nt.gz";

/// A store with other data, and texts of updates that turn it into these lines.
fn prepared(lines: &[&str]) -> (String, Vec<String>) {
    // Blank nodes of different documents and requests are different, so lines with some are there from the beginning.
    let is_named = |line: &str| line.starts_with('<') && !line.contains(" _:");
    let (mut loaded, mut updates) = (String::new(), Vec::new());
    let mut steps = String::new();
    for (number, line) in lines.iter().enumerate() {
        match (is_named(line), number % 4) {
            (true, 0) => {
                // Comes.
                steps += &format!("INSERT DATA {{ {line} }} ;\n");
            }
            (true, 1) => {
                // Is in the place of another.
                let other = line.replacen("> ", "/other> ", 1);
                loaded += &format!("{other}\n");
                steps += &format!("DELETE DATA {{ {other} }} ; INSERT DATA {{ {line} }} ;\n");
            }
            (true, 2) => {
                // Goes and comes again.
                loaded += &format!("{line}\n");
                steps += &format!("DELETE DATA {{ {line} }} ; INSERT DATA {{ {line} }} ;\n");
            }
            _ => loaded += &format!("{line}\n"),
        }
        if steps.len() > 1 << 18 {
            updates.push(std::mem::take(&mut steps));
        }
    }
    updates.push(steps);
    (loaded, updates)
}

#[test]
fn all_queries_find_as_many_rows_after_updates_that_came_to_the_same_data() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = root.join("../shared/sp2b");
    let Ok(counts) = std::fs::read_to_string(data.join("counts.tsv")) else {
        println!("SKIPPED: there is no {}", data.display());
        return;
    };
    let table: Vec<Vec<&str>> =
        counts.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    let expected = table.iter().find(|line| line[0] == FILE).expect("a line for the file");
    let queries: Vec<(String, &str)> = table[0][1..]
        .iter()
        .zip(&expected[1..])
        .map(|(name, expected)| {
            let path = root.join(format!("doors/cli/queries/sp2b/{name}.sparql"));
            (std::fs::read_to_string(path).expect("a query of the repository"), *expected)
        })
        .collect();

    let mut text = String::new();
    let file = std::fs::File::open(data.join("data").join(FILE)).unwrap();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (loaded, updates) = prepared(&lines);
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("sp2b");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let store = create_store(&folder).unwrap();
    store.load(Snapshot::of_ntriples(loaded.as_bytes()).unwrap(), &mut |_| {}).unwrap();
    let updating = service("las", 1 << 30);
    for update in &updates {
        let mut transaction = store.write().unwrap();
        updating.update(update.trim_end().trim_end_matches(';'), &mut transaction, SessionOptions::default()).unwrap();
        transaction.commit().unwrap();
    }
    let changed = store.snapshot();
    let whole = Snapshot::of_ntriples(text.as_bytes()).unwrap();
    assert_eq!(changed.len(), whole.len());
    assert!(changed.change_count() > 3000, "changes lie beside the base: {}", changed.change_count());
    drop(store);
    let reopened = open_store(&folder).unwrap();
    let replayed = reopened.snapshot();
    assert!(reopened.merge(&mut |_| {}).unwrap());
    let merged = reopened.snapshot();
    assert_eq!(merged.change_count(), 0);
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        for (state, snapshot) in [("changed", &changed), ("replayed", &replayed), ("merged", &merged)] {
            let session = service.session(&Dataset::new(Arc::clone(snapshot)), shared());
            for (query, expected) in &queries {
                let rows = session.count(query).unwrap();
                let found = match *expected {
                    "yes" | "no" => (if rows > 0 { "yes" } else { "no" }).to_owned(),
                    _ => rows.to_string(),
                };
                assert_eq!(found, *expected, "{strategy}, {state}: {query}");
            }
        }
    });
}
