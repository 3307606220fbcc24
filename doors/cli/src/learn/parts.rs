//! Types of tasks that are better not dealt by their data, or by one datum, and blocks that are better laid out
//! otherwise, under the strategy and the distribution for the program as a whole.
//!
//! Each choice is simulated alone beside the program's. The ones that save more than a percent are then added up, the
//! best one first, as long as each saves another percent.

use super::AS_GOOD;
use crate::simulate::jobs::on_all_threads;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use vicus::kit::Treatment;
use vicus::memory::Distribution;
use vicus_schedule::{Access, Plan};
use vicus_sim::{Program, Step, TaskSpec};

/// How many types of tasks and sizes of blocks are tried, those with most bytes first.
const MOST: usize = 12;

/// The treatments of parts of a program.
#[derive(Default, Serialize)]
pub(super) struct Parts {
    /// All choices tried.
    pub(super) tried: Vec<Tried>,
    /// Each type of tasks with named data, by the symbol of its function.
    #[serde(serialize_with = "named")]
    pub(super) tasks: BTreeMap<String, Treatment>,
    /// Blocks laid out differently from the program's others, by their bytes.
    #[serde(serialize_with = "shown")]
    pub(super) blocks: BTreeMap<usize, Distribution>,
    /// By trace, the time with all choices; empty if none was made.
    pub(super) ms: Vec<f64>,
}

/// A choice for one type of tasks or one size of blocks; all others are as the program's.
#[derive(Serialize)]
pub(super) struct Tried {
    pub(super) part: Part,
    /// `dealt`, `undealt`, `intense`, or a distribution.
    pub(super) how: String,
    /// The times by trace.
    pub(super) ms: Vec<f64>,
    /// The geometric mean over the traces of its time, divided by the program's without it.
    pub(super) ratio: f64,
    /// Whether the file has it.
    pub(super) chosen: bool,
}

/// The subject of a choice.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    /// Tasks of this function.
    Tasks(String),
    /// Blocks of this size.
    Blocks(usize),
}

fn named<S: serde::Serializer>(tasks: &BTreeMap<String, Treatment>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(tasks.iter().map(|(name, treatment)| (name, treatment.name())))
}

fn shown<S: serde::Serializer>(blocks: &BTreeMap<usize, Distribution>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(blocks.iter().map(|(bytes, how)| (bytes, how.to_string())))
}

/// One or several choices.
#[derive(Clone, Default)]
struct Choice {
    tasks: BTreeMap<String, Treatment>,
    blocks: BTreeMap<usize, Distribution>,
}

impl Choice {
    fn for_tasks(name: &str, treatment: Treatment) -> Choice {
        Choice { tasks: [(name.to_owned(), treatment)].into(), ..Choice::default() }
    }

    fn for_blocks(bytes: usize, how: &Distribution) -> Choice {
        Choice { blocks: [(bytes, how.clone())].into(), ..Choice::default() }
    }

    /// This one and another one; `None` if both are for the same.
    fn and(&self, other: &Choice) -> Option<Choice> {
        let is_taken = other.tasks.keys().any(|name| self.tasks.contains_key(name))
            || other.blocks.keys().any(|bytes| self.blocks.contains_key(bytes));
        let mut both = self.clone();
        both.tasks.extend(other.tasks.clone());
        both.blocks.extend(other.blocks.clone());
        (!is_taken).then_some(both)
    }

    /// The program as it is with this choice.
    fn of(&self, program: &Program) -> Program {
        let mut program = program.clone();
        for array in &mut program.arrays {
            if let Some(how) = self.blocks.get(&array.bytes) {
                array.distribution = how.clone();
            }
        }
        let by_leaf: Vec<Option<Treatment>> =
            program.leaves.iter().map(|leaf| self.tasks.get(symbol(leaf)).copied()).collect();
        for task in &mut program.tasks {
            match leaf(task).and_then(|leaf| by_leaf[leaf]) {
                None | Some(Treatment::Dealt) => {}
                Some(Treatment::Undealt) => task.accesses.clear(),
                Some(Treatment::Intense) => {
                    task.accesses.first_mut().into_iter().for_each(|first| first.intense = true);
                }
            }
        }
        program
    }
}

/// Finds out what suits the parts of a program whose runs are these, as `time` says how long each takes under `plan`.
/// `ms`: how long they take as they are. `blocks`: the bytes of the blocks that the runs have allocated, as far as
/// their traces say.
pub(super) fn find<T>(
    programs: &[&Program],
    blocks: &BTreeSet<usize>,
    plan: &Plan,
    distributions: &[Distribution],
    ms: &[f64],
    time: T,
) -> anyhow::Result<Parts>
where
    T: Fn(&Program, usize) -> anyhow::Result<f64> + Sync,
{
    let types = types(programs);
    let mut parts =
        Parts { tasks: types.iter().map(|name| (name.clone(), Treatment::Dealt)).collect(), ..<_>::default() };
    let mut choices: Vec<(Part, String, Choice)> = Vec::new();
    if let Some(dealing) = plan.dealing().filter(|dealing| dealing.queues.len() > 1) {
        let others = Treatment::ALL.into_iter().skip(1);
        let tried: Vec<Treatment> =
            others.filter(|&one| one != Treatment::Intense || dealing.intensity_first).collect();
        for name in types.iter().take(MOST) {
            choices.extend(
                tried
                    .iter()
                    .map(|&how| (Part::Tasks(name.clone()), how.name().to_owned(), Choice::for_tasks(name, how))),
            );
        }
    }
    for bytes in sizes(programs, blocks) {
        let is_so = |how: &&Distribution| {
            let mut all = programs.iter().flat_map(|program| &program.arrays);
            !all.any(|array| array.bytes == bytes && array.distribution == **how)
        };
        let tried = distributions.iter().filter(is_so);
        choices.extend(tried.map(|how| (Part::Blocks(bytes), how.to_string(), Choice::for_blocks(bytes, how))));
    }
    let times = |choices: &[&Choice]| -> anyhow::Result<Vec<Vec<f64>>> {
        let jobs: Vec<(usize, usize)> =
            (0..choices.len()).flat_map(|choice| (0..programs.len()).map(move |run| (choice, run))).collect();
        let one = |&(choice, run): &(usize, usize)| time(&choices[choice].of(programs[run]), run);
        let all = on_all_threads(&jobs, "learning of parts", one)?;
        Ok(all.chunks(programs.len()).map(<[f64]>::to_vec).collect())
    };
    let ratio = |of: &[f64], to: &[f64]| {
        (of.iter().zip(to).map(|(of, to)| (of / to).ln()).sum::<f64>() / to.len() as f64).exp()
    };
    let alone = times(&choices.iter().map(|(.., choice)| choice).collect::<Vec<_>>())?;
    let mut order: Vec<usize> = (0..choices.len()).collect();
    order.sort_by(|&a, &b| ratio(&alone[a], ms).total_cmp(&ratio(&alone[b], ms)));
    let (mut chosen, mut now, mut taken) = (Choice::default(), ms.to_vec(), BTreeSet::new());
    for at in order.into_iter().take_while(|&at| ratio(&alone[at], ms) * AS_GOOD < 1.0) {
        let Some(both) = chosen.and(&choices[at].2) else { continue };
        let with = times(&[&both])?.remove(0);
        if ratio(&with, &now) * AS_GOOD < 1.0 {
            (chosen, now) = (both, with);
            taken.insert(at);
        }
    }
    parts.tasks.extend(chosen.tasks);
    parts.blocks = chosen.blocks;
    if !taken.is_empty() {
        parts.ms = now;
    }
    parts.tried = (choices.into_iter().zip(alone).enumerate())
        .map(|(at, ((part, how, _), alone))| Tried {
            part,
            how,
            ratio: ratio(&alone, ms),
            ms: alone,
            chosen: taken.contains(&at),
        })
        .collect();
    Ok(parts)
}

/// The function of a task's first piece of work.
fn leaf(task: &TaskSpec) -> Option<usize> {
    task.steps.iter().find_map(|step| match step {
        Step::Work(work) => Some(work.leaf as usize),
        _ => None,
    })
}

/// The symbol of a function in a trace's name for it with its place in the source: `name (function file:line)`.
fn symbol(name: &str) -> &str {
    let is_place = |place: &str| {
        let line = place.rsplit_once(':').map_or("", |(_, line)| line);
        !line.is_empty() && line.bytes().all(|digit| digit.is_ascii_digit())
    };
    let parts = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    parts.filter(|(_, place)| is_place(place)).map_or(name, |(symbol, _)| symbol)
}

/// The types of tasks with named data, the ones with most bytes first. Functions unnamed in the trace are left out.
fn types(programs: &[&Program]) -> Vec<String> {
    let mut bytes: BTreeMap<&str, usize> = BTreeMap::new();
    for program in programs {
        for task in program.tasks.iter().filter(|task| !task.accesses.is_empty()) {
            let Some(leaf) = leaf(task) else { continue };
            let all: usize = task.accesses.iter().map(Access::total_bytes).sum();
            *bytes.entry(symbol(&program.leaves[leaf])).or_default() += all;
        }
    }
    let mut types: Vec<(&str, usize)> = bytes.into_iter().filter(|(name, _)| !name.starts_with('(')).collect();
    types.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    types.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// The sizes of blocks that are large enough to be placed, those with most bytes in all first; none if all blocks have
/// one size. An array whose block the trace does not know has the bytes that tasks have named, which no allocation has.
fn sizes(programs: &[&Program], blocks: &BTreeSet<usize>) -> Vec<usize> {
    let mut bytes: BTreeMap<usize, usize> = BTreeMap::new();
    for array in programs.iter().flat_map(|program| &program.arrays) {
        *bytes.entry(array.bytes).or_default() += array.bytes;
    }
    let is_alone = bytes.len() == 1;
    let mut sizes: Vec<(usize, usize)> = bytes.into_iter().collect();
    sizes.retain(|&(bytes, _)| bytes >= vicus::environment::PLACED_FROM && blocks.contains(&bytes) && !is_alone);
    sizes.sort_by_key(|&(_, all)| std::cmp::Reverse(all));
    sizes.into_iter().take(MOST).map(|(bytes, _)| bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_its_symbol() {
        for (name, expected) in [
            ("main._omp_fn.1", "main._omp_fn.1"),
            (".omp_task_entry..3 (main two.c:17)", ".omp_task_entry..3"),
            ("block::multiply(double*, int) (work block.cpp:4)", "block::multiply(double*, int)"),
            ("block::multiply(double (*)[4])", "block::multiply(double (*)[4])"),
            ("f(std::function<void (int)>)", "f(std::function<void (int)>)"),
            ("prog+0x12", "prog+0x12"),
        ] {
            assert_eq!(symbol(name), expected);
        }
    }
}
