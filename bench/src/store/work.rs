//! The updates that stores are asked to do, made of the data itself: as files with an update a line.

use anyhow::{Context, ensure};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// How many updates one thread does to see how long one takes.
pub(crate) const SINGLES: usize = 50;
/// How many 16 threads do at most.
const CROWD: usize = 200_000;

pub(crate) struct Work {
    /// The triples of the data.
    pub(crate) triples: u64,
    /// A query for all of one subject.
    pub(crate) point: PathBuf,
    /// An update that gives about a fifth of the triples another predicate, and one that takes this back.
    pub(crate) large: [PathBuf; 2],
    /// How many triples that is.
    pub(crate) touched: u64,
    /// The data, but some of its triples are about other subjects.
    pub(crate) changed: PathBuf,
    /// Updates of one triple each that make the data of that: half of them delete such a triple, half insert what is in
    /// its place.
    pub(crate) many: PathBuf,
    folder: PathBuf,
}

impl Work {
    pub(crate) fn of(data: &Path, folder: &Path, updates: usize) -> anyhow::Result<Work> {
        let lines = || -> anyhow::Result<_> {
            let file = std::fs::File::open(data).with_context(|| data.display().to_string())?;
            Ok(BufReader::with_capacity(1 << 20, file).lines())
        };
        let mut predicates: HashMap<String, u64> = HashMap::new();
        let (mut triples, mut named) = (0u64, 0usize);
        for line in lines()? {
            let line = line?;
            let predicate = line.split(' ').nth(1).context("N-Triples with a space between terms")?;
            match predicates.get_mut(predicate) {
                Some(count) => *count += 1,
                None => drop(predicates.insert(predicate.to_owned(), 1)),
            }
            triples += 1;
            named += usize::from(is_named(&line));
        }
        let half = updates / 2;
        ensure!(named > half, "the data has {named} triples without blank nodes, and {half} of them are to be changed");
        let mut text = String::new();
        let changed = folder.join("changed.nt");
        let mut out = BufWriter::new(std::fs::File::create(&changed)?);
        let (mut place, mut taken, mut subject) = (0, 0, String::new());
        for line in lines()? {
            let line = line?;
            place += usize::from(is_named(&line));
            // Spread evenly over the data.
            if place * half / named == taken {
                writeln!(out, "{line}")?;
                continue;
            }
            taken += 1;
            let (first, rest) = line.split_once("> ").context("a subject that is an IRI")?;
            writeln!(out, "{first}/other> {rest}")?;
            writeln!(text, "DELETE DATA {{ {first}/other> {rest} }}\nINSERT DATA {{ {line} }}")?;
            if taken == half / 2 + 1 {
                subject = format!("{first}>");
            }
        }
        out.flush()?;
        let write = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        // The frequent predicates that together have about a fifth.
        let mut counts: Vec<(String, u64)> = predicates.into_iter().collect();
        counts.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
        let (mut touched, mut there, mut back) = (0, String::new(), String::new());
        for (predicate, count) in counts {
            if touched + count <= triples / 5 + triples / 50 {
                touched += count;
                let other = format!("{}-moved>", predicate.trim_end_matches('>'));
                write!(there, "({predicate} {other}) ")?;
                write!(back, "({other} {predicate}) ")?;
            }
        }
        let move_all = |pairs: &str| {
            format!("DELETE {{ ?s ?p ?o }} INSERT {{ ?s ?q ?o }} WHERE {{ VALUES (?p ?q) {{ {pairs}}} ?s ?p ?o }}\n")
        };
        Ok(Work {
            triples,
            point: write("point.sparql", &format!("SELECT ?p ?o {{ {subject} ?p ?o }}\n"))?,
            large: [write("there.ru", &move_all(&there))?, write("back.ru", &move_all(&back))?],
            touched,
            changed,
            many: write("many.ru", &text)?,
            folder: folder.to_owned(),
        })
    }

    /// Updates that insert a triple each; other ones for each number.
    fn inserts(&self, name: &str, number: usize, count: usize) -> anyhow::Result<PathBuf> {
        let mut text = String::new();
        for place in 0..count {
            writeln!(
                text,
                "INSERT DATA {{ <http://example.org/{name}/{number}/{place}> <http://example.org/p> \"{place}\" }}"
            )?;
        }
        let path = self.folder.join(format!("{name}.ru"));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// For one thread.
    pub(crate) fn singles(&self, number: usize) -> anyhow::Result<PathBuf> {
        self.inserts("single", number, SINGLES)
    }

    /// For 16 threads: more than they do in a few seconds.
    pub(crate) fn crowd(&self, number: usize) -> anyhow::Result<PathBuf> {
        self.inserts("crowd", number, CROWD)
    }

    /// The updates of `many` without the first.
    pub(crate) fn rest(&self, done: usize) -> anyhow::Result<PathBuf> {
        let text = std::fs::read_to_string(&self.many)?;
        let rest: Vec<&str> = text.lines().skip(done).collect();
        let path = self.folder.join("rest.ru");
        std::fs::write(&path, rest.join("\n"))?;
        Ok(path)
    }
}

/// Whether a line of N-Triples has no blank node, which DELETE DATA can't name.
fn is_named(line: &str) -> bool {
    line.starts_with('<') && !line.contains(" _:")
}
