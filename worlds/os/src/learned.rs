//! Lessons from past runs of a program, kept in a file: the best strategy and distribution on a machine, and exceptions
//! for its types of tasks and its blocks of memory.

use crate::latency::key;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use vicus_memory::distribution::Distribution;
use vicus_schedule::Setting;
use vicus_topology::Topology;

/// The version of the file. A distribution came later, and types of tasks and blocks; they may be missing, and earlier
/// programs leave them out.
const VERSION: u64 = 1;

/// Lessons about a program on a machine. `vicus learn` finds them in traces.
///
/// ```
/// use vicus_os::{Learned, Treatment};
/// use vicus_topology::Topology;
///
/// let machine = Topology::parse("node:2 core:4")?;
/// let file = std::env::temp_dir().join(format!("vicus-learned-{}.json", std::process::id()));
/// let (setting, distribution) = ("vicus:memory=20".parse()?, Some("coarse".parse()?));
/// let tasks = [("main._omp_fn.1".to_owned(), Treatment::Undealt)].into();
/// let learned = Learned { setting, distribution, tasks, blocks: Vec::new(), notes: serde_json::Value::Null };
/// learned.write(&file, &machine)?;
/// let learned = Learned::read(&file, &machine)?;
/// assert_eq!(learned.setting.to_string(), "vicus:memory=20");
/// assert_eq!(learned.distribution, Some("coarse".parse()?));
/// assert_eq!(learned.tasks["main._omp_fn.1"], Treatment::Undealt);
///
/// let other = Topology::parse("node:4 core:4")?;
/// assert!(Learned::read(&file, &other).unwrap_err().contains("another machine"));
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Learned {
    /// The best strategy for it.
    pub setting: Setting,
    /// The best placement of its memory; `None` if its traces do not show one.
    pub distribution: Option<Distribution>,
    /// The types of tasks in its traces, by the symbols of their functions; only types with declared data. Empty
    /// without findings.
    pub tasks: BTreeMap<String, Treatment>,
    /// Block sizes in bytes with a better distribution of their own.
    pub blocks: Vec<(usize, Distribution)>,
    /// Why: for people and other programs. No run uses it.
    pub notes: Value,
}

/// The placement of one type of tasks under a strategy that deals tasks by their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Near their data, as the strategy has it.
    Dealt,
    /// Like tasks without declared data.
    Undealt,
    /// By the home of their first data alone, under strategies with such a rule ([`Access::intense`]).
    ///
    /// [`Access::intense`]: vicus_schedule::Access::intense
    Intense,
}

impl Treatment {
    /// All treatments, the default first.
    pub const ALL: [Treatment; 3] = [Treatment::Dealt, Treatment::Undealt, Treatment::Intense];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Dealt => "dealt",
            Treatment::Undealt => "undealt",
            Treatment::Intense => "intense",
        }
    }
}

impl Learned {
    /// Reads a file about this machine, written by [`Learned::write`].
    ///
    /// # Errors
    /// The file can't be read, ends too early, has another version, names no strategy or an unknown distribution, or is
    /// about another machine. The message begins with the file's name.
    pub fn read(file: &Path, machine: &Topology) -> Result<Learned, String> {
        let wrong = |what: &str| format!("{}: {what}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&format!("can't be read ({error})")))?;
        let mut json: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        match &json["version"] {
            version if *version == VERSION => {}
            Value::Number(version) => {
                return Err(wrong(&format!(
                    "has version {version}, and this program reads version {VERSION}: learn again"
                )));
            }
            _ => return Err(wrong("has no `version`: `vicus learn` did not write it")),
        }
        let known = json["topology"].as_str().ok_or_else(|| wrong("has no `topology`"))?;
        if known != key(machine) {
            let of = json["machine"].as_str().unwrap_or("unnamed");
            return Err(wrong(&format!(
                "was learned on another machine, or for other PUs ({of}): learn again on this one"
            )));
        }
        let setting = json["strategy"].as_str().ok_or_else(|| wrong("has no `strategy`"))?;
        let setting = setting.parse().map_err(|error| wrong(&format!("strategy: {error}")))?;
        let distribution = match &json["distribution"] {
            Value::Null => None,
            Value::String(text) => Some(text.parse().map_err(|error| wrong(&format!("distribution: {error}")))?),
            _ => return Err(wrong("distribution: expected a text, such as \"coarse\"")),
        };
        let tasks = tasks(&json["tasks"]).map_err(|what| wrong(&what))?;
        let blocks = blocks(&json["blocks"]).map_err(|what| wrong(&what))?;
        Ok(Learned { setting, distribution, tasks, blocks, notes: json["notes"].take() })
    }

    /// Finds out whether a file can be written, and leaves all as it is.
    ///
    /// # Errors
    /// It can't.
    pub fn check_writable(file: &Path) -> std::io::Result<()> {
        match crate::latency::beside(file) {
            Some((_, half)) => std::fs::write(&half, "").and_then(|()| std::fs::remove_file(half)),
            // A folder, or a link into a missing folder, is refused; a device is left as it is.
            None => std::fs::OpenOptions::new().append(true).create(true).open(file).map(drop),
        }
    }

    /// Writes it to a file, in place of the old content.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, file: &Path, machine: &Topology) -> std::io::Result<()> {
        let mut json = json!({
            "version": VERSION,
            "topology": key(machine),
            "machine": machine.name,
            "strategy": self.setting.to_string(),
            "notes": self.notes,
        });
        if let Some(distribution) = &self.distribution {
            json["distribution"] = distribution.to_string().into();
        }
        if !self.tasks.is_empty() {
            let tasks = self.tasks.iter().map(|(name, treatment)| (name.clone(), treatment.name().into()));
            json["tasks"] = Value::Object(tasks.collect());
        }
        if !self.blocks.is_empty() {
            let blocks = self.blocks.iter().map(|(bytes, how)| (bytes.to_string(), how.to_string().into()));
            json["blocks"] = Value::Object(blocks.collect());
        }
        crate::latency::replace(file, &format!("{json:#}\n"))
    }
}

/// The file's types of tasks.
fn tasks(json: &Value) -> Result<BTreeMap<String, Treatment>, String> {
    let one = |(name, how): (&String, &Value)| {
        let known = Treatment::ALL.into_iter().find(|treatment| *how == treatment.name());
        let known = known.ok_or_else(|| format!("tasks: `{name}`: expected \"dealt\", \"undealt\" or \"intense\""))?;
        Ok((name.clone(), known))
    };
    members(json, "tasks", "\"dealt\"")?.map(one).collect()
}

/// The file's blocks.
fn blocks(json: &Value) -> Result<Vec<(usize, Distribution)>, String> {
    let one = |(bytes, how): (&String, &Value)| {
        let wrong = |what: &dyn std::fmt::Display| format!("blocks: `{bytes}`: {what}");
        let size = bytes.parse().map_err(|_| wrong(&"expected a number of bytes"))?;
        let how = how.as_str().ok_or_else(|| wrong(&"expected a distribution, such as \"coarse\""))?;
        Ok((size, how.parse().map_err(|error| wrong(&error))?))
    };
    members(json, "blocks", "\"coarse\"")?.map(one).collect()
}

/// The members of an object; none if it is not there.
fn members<'a>(
    json: &'a Value,
    name: &str,
    such_as: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, String> {
    match json {
        Value::Null => Ok(None),
        Value::Object(members) => Ok(Some(members)),
        _ => Err(format!("{name}: expected names with texts, such as {such_as}")),
    }
    .map(|members| members.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_something_else_is_refused_with_its_place() {
        let file = std::env::temp_dir().join(format!("vicus-learned-test-{}.json", std::process::id()));
        let machine = Topology::parse("node:2 core:4").unwrap();
        let read = || Learned::read(&file, &machine).map(|learned| learned.setting.to_string());
        assert!(read().unwrap_err().contains("can't be read"));
        let notes = json!({"why": 1});
        let (tasks, blocks) = (BTreeMap::new(), Vec::new());
        let learned = Learned { setting: "steal".parse().unwrap(), distribution: None, tasks, blocks, notes };
        learned.write(&file, &machine).unwrap();
        assert_eq!(read().as_deref(), Ok("steal"));
        assert!(!std::fs::read_to_string(&file).unwrap().contains("distribution"), "as files were before");
        assert_eq!(Learned::read(&file, &machine).unwrap().distribution, None);
        let tasks: BTreeMap<String, Treatment> =
            [("f".to_owned(), Treatment::Undealt), ("g".to_owned(), Treatment::Dealt)].into();
        let blocks = vec![(4096, Distribution::Blocked)];
        assert!(Learned::read(&file, &machine).is_ok_and(|read| read.tasks.is_empty() && read.blocks.is_empty()));
        let learned = Learned { distribution: Some(Distribution::Fine), tasks, blocks, ..learned };
        learned.write(&file, &machine).unwrap();
        let read_back = Learned::read(&file, &machine).unwrap();
        assert_eq!((read_back.tasks, read_back.blocks), (learned.tasks.clone(), learned.blocks.clone()));
        assert_eq!(Learned::read(&file, &machine).unwrap().distribution, Some(Distribution::Fine));
        assert_eq!(Learned::read(&file, &machine).unwrap().notes, learned.notes);
        let text = std::fs::read_to_string(&file).unwrap();
        // Cut off anywhere, it is no whole JSON value.
        for end in 0..text.trim_end().len() {
            std::fs::write(&file, &text[..end]).unwrap();
            let error = read().unwrap_err();
            assert!(error.starts_with(&file.display().to_string()) && error.contains("line"), "{end}: {error}");
        }
        for (from, to, expected) in [
            ("\"version\": 1", "\"version\": 2", "has version 2, and this program reads version 1"),
            ("\"version\": 1", "\"version\": \"1\"", "has no `version`"),
            ("\"topology\": \"", "\"topology\": \"0", "another machine"),
            ("\"topology\"", "\"topologie\"", "has no `topology`"),
            ("\"strategy\"", "\"strategie\"", "has no `strategy`"),
            ("\"steal\"", "\"fastest\"", "strategy: there is no strategy `fastest`"),
            ("\"fine\"", "\"finest\"", "distribution: "),
            ("\"fine\"", "1", "distribution: expected a text"),
            ("\"undealt\"", "\"nowhere\"", "tasks: `f`: expected \"dealt\", \"undealt\" or \"intense\""),
            ("\"undealt\"", "7", "tasks: `f`: expected"),
            ("\"tasks\": {", "\"tasks\": 1, \"others\": {", "tasks: expected names with texts"),
            ("\"4096\"", "\"many\"", "blocks: `many`: expected a number of bytes"),
            ("\"blocked\"", "\"brocken\"", "blocks: `4096`: "),
        ] {
            std::fs::write(&file, text.replace(from, to)).unwrap();
            let error = read().unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
