//! Measures a store in a folder:
//! `store FOLDER load FILE.nt | open | commits N | writers THREADS N | batches THREADS N | update TEXT | merge |
//! check`.

use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use vicus::Runtime;
use vicus_rdf::{Loader, Order, TermKind};
use vicus_service::{MemoryBudget, Service, SessionOptions, check_store, create_store, open_store, read_store};
use vicus_store::{Batch, Store};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [folder, what, rest @ ..] = &arguments[..] else { return Err("store FOLDER WHAT ...".into()) };
    let folder = Path::new(folder);
    let number = |place: usize| rest.get(place).map_or(Ok(1000), |number| number.parse::<usize>());
    match *what {
        "load" => load(folder, rest.first().ok_or("a file")?),
        "open" => open(folder),
        "commits" => commits(folder, number(0)?),
        "writers" => writers(folder, number(0)?, number(1)?, insert),
        "batches" => writers(folder, number(0)?, number(1)?, insert_blindly),
        "update" => update(folder, rest.first().ok_or("a text")?),
        "updates" => updates(folder, number(0)?, number(1)?, number(2)?),
        "merge" => {
            let store = open_store(folder)?;
            let start = Instant::now();
            println!("merged: {} in {:?}", store.merge(&mut |_| {})?, start.elapsed());
            Ok(())
        }
        "check" => {
            let start = Instant::now();
            println!("{}, in {:?}", check_store(folder, &mut |_, _| {})?, start.elapsed());
            Ok(())
        }
        other => Err(format!("{other}?").into()),
    }
}

fn load(folder: &Path, file: &str) -> Result<(), Failure> {
    let text = std::fs::read(file)?;
    let start = Instant::now();
    let mut loader = Loader::default();
    loader.ntriples(&text)?;
    drop(text);
    let loaded = loader.finish();
    let quads = loaded.len();
    println!("{quads} quads in memory in {:?}", start.elapsed());
    let store = create_store(folder).or_else(|_| open_store(folder))?;
    let start = Instant::now();
    store.load(loaded, &mut |_| {})?;
    println!("written in {:?}", start.elapsed());
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    println!("{bytes} bytes, {:.1} a quad", bytes as f64 / quads as f64);
    Ok(())
}

fn open(folder: &Path) -> Result<(), Failure> {
    let start = Instant::now();
    let snapshot = read_store(folder)?;
    println!("{} quads, opened in {:?}", snapshot.len(), start.elapsed());
    let start = Instant::now();
    let index = snapshot.index(Order::Gspo);
    let quad = index.quad(index.len() / 2);
    let shown = |id: vicus_rdf::Id| if id.is_unbound() { String::new() } else { snapshot.term(id).to_string() };
    println!("a quad from the middle: {} in {:?}", quad.map(shown).join(" "), start.elapsed());
    let start = Instant::now();
    let key = snapshot.dictionary().key(quad[1], str::to_owned);
    println!("its predicate found: {:?} in {:?}", snapshot.dictionary().search(TermKind::Iri, &key), start.elapsed());
    Ok(())
}

fn update(folder: &Path, text: &str) -> Result<(), Failure> {
    let store = open_store(folder)?;
    let service = Service::new(Runtime::builder().start(), MemoryBudget::new(8 << 30));
    let start = Instant::now();
    let mut transaction = store.write()?;
    service.update(text, &mut transaction, SessionOptions::default())?;
    let changed = start.elapsed();
    transaction.commit()?;
    println!("changed in {changed:?}, durable in {:?}", start.elapsed());
    Ok(())
}

fn quad(subject: usize, object: String) -> Quad {
    let node = |kind: &str, number| NamedNode::new_unchecked(format!("http://example.org/{kind}/{number}"));
    let object = Literal::new_simple_literal(object);
    Quad::new(node("s", subject), node("p", subject % 7), object, GraphName::DefaultGraph)
}

fn insert(store: &Store, subject: usize, object: String) -> Result<(), Failure> {
    let mut transaction = store.write()?;
    transaction.insert_quad(quad(subject, object).as_ref())?;
    transaction.commit()?;
    Ok(())
}

fn insert_blindly(store: &Store, subject: usize, object: String) -> Result<(), Failure> {
    let mut batch = Batch::new();
    batch.insert(quad(subject, object).as_ref());
    batch.commit(store)?;
    Ok(())
}

/// One-quad transactions of one thread, in turns with bare writes of about the same length, with a sync each.
fn commits(folder: &Path, count: usize) -> Result<(), Failure> {
    let store = open_store(folder)?;
    let first = store.snapshot().len();
    insert(&store, first, "first".to_owned())?;
    let bare = std::fs::File::create(folder.join("bare"))?;
    let record = [0x5A_u8; 168];
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for number in 0..count {
        let start = Instant::now();
        insert_blindly(&store, first + number, number.to_string())?;
        ours.push(start.elapsed());
        let start = Instant::now();
        bare.write_all_at(&record, (number * record.len()) as u64)?;
        bare.sync_data()?;
        theirs.push(start.elapsed());
    }
    std::fs::remove_file(folder.join("bare"))?;
    for (name, mut times) in [("commit", ours), ("write, fdatasync", theirs)] {
        times.sort();
        let mean = times.iter().sum::<Duration>() / count as u32;
        println!("{name:>18}: median {:?}, mean {mean:?}", times[count / 2]);
    }
    Ok(())
}

/// One-quad transactions of many threads.
fn writers(
    folder: &Path,
    threads: usize,
    count: usize,
    insert: fn(&Store, usize, String) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let store = open_store(folder)?;
    let first = store.snapshot().len();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for number in 0..count {
                    insert(store, first + number, format!("{thread} {number}")).expect("nothing fails");
                }
            });
        }
    });
    let (all, time) = (threads * count, start.elapsed());
    println!("{all} transactions in {time:?}: {:.0} a second", all as f64 / time.as_secs_f64());
    assert_eq!(store.snapshot().len(), first + all);
    Ok(())
}

/// Updates of `triples` triples each, by many threads, as doors carry them out.
fn updates(folder: &Path, threads: usize, count: usize, triples: usize) -> Result<(), Failure> {
    let store = open_store(folder)?;
    let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(8 << 30));
    let first = store.snapshot().len();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, service) = (&store, &service);
            scope.spawn(move || {
                for number in 0..count {
                    let mut text = String::from("INSERT DATA {");
                    for triple in 0..triples {
                        let subject = first + (number * threads + thread) * triples + triple;
                        text +=
                            &format!(" <http://example.org/single/1/{subject}> <http://example.org/p> \"{subject}\" .");
                    }
                    text += " }";
                    service.update_store(&text, store, SessionOptions::default()).expect("nothing fails");
                }
            });
        }
    });
    let (all, time) = (threads * count, start.elapsed());
    println!(
        "{all} updates of {triples} in {time:?}: {:.0} a second, {:.1} us each",
        all as f64 / time.as_secs_f64(),
        time.as_secs_f64() * 1e6 / all as f64
    );
    assert_eq!(store.snapshot().len(), first + all * triples);
    Ok(())
}
