//! The results of a figure: its bars, and whether the paper's claims hold.

use super::{Case, Claim, Effort, Figure, Purpose, Results};
use crate::Parameters;
use serde::Serialize;

/// The results of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureReport {
    /// The figure's name.
    pub id: String,
    /// Its subject.
    pub title: String,
    /// Its source.
    pub source: String,
    /// How it differs from the paper's.
    pub notes: Vec<String>,
    /// The label of the unit run: the times of the others in its group are divided by its time.
    pub baseline: String,
    /// The free parameters.
    pub parameters: String,
    /// The first seed.
    pub seed: u64,
    /// The number of seeds for a run's median.
    pub samples: usize,
    /// The runs.
    pub rows: Vec<Row>,
    /// Whether the paper's claims hold.
    pub verdicts: Vec<Verdict>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The runs to compare it with.
    pub group: String,
    /// Names the run within its group.
    pub label: String,
    /// The time in milliseconds.
    pub ms: f64,
    /// The time, divided by the baseline's.
    pub normalised: f64,
    /// The share of bytes from another node, or another's home cache.
    pub far_share: f64,
    /// For a replay, how many nodes its branches stay on: see [`Sample::kept_nodes`](super::Sample::kept_nodes).
    pub kept_nodes: Option<f64>,
    /// The times, divided by the baseline's, above 5, 25, 75 and 95 % of the seeds' times.
    pub spread: [f64; 4],
}

/// Whether a claim holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim.
    pub claim: String,
    /// The measured ratio, in words.
    pub ratio: String,
    /// Its value.
    pub value: f64,
    /// The least value in the paper's range.
    pub at_least: f64,
    /// The greatest value in the paper's range; `None` if there is no limit.
    pub at_most: Option<f64>,
    /// If the value is a prediction over a published figure: both.
    pub published: Option<Published>,
    /// Whether the value is in the range.
    pub holds: bool,
    /// If it does not hold: the model's gap, or the contradiction within the paper. `None` if it holds, or the reason
    /// is unknown.
    pub missing: Option<String>,
    /// If it follows from the model's input: this input. Such a claim tests nothing, and does not count among the
    /// claims that hold.
    pub by_construction: Option<String>,
    /// Whether this still holds when the parameters vary.
    pub robust: Robust,
    /// The number of tested seeds, and of those with which it held; `None` if it need not hold for all, or fails for a
    /// known reason.
    pub seeds: Option<(usize, usize)>,
    /// If it holds as shown, and not for each of these seeds: the value farthest from the range. With other seeds,
    /// inputs may be smaller, and each run is a single one.
    pub farthest: Option<f64>,
}

/// A published figure, and its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The prediction.
    pub predicted: f64,
    /// The published value.
    pub published: f64,
    /// Their unit.
    pub unit: String,
}

/// Whether a verdict is the same when the parameters vary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Robust {
    /// Not tried, or failing for a known reason.
    Untried,
    /// Holds in all variants, or in none if it doesn't hold.
    Robust,
    /// Different in these variants.
    Fragile(Vec<String>),
}

impl Verdict {
    pub(super) fn of(claim: &Claim, results: &[(Case, Results)]) -> Verdict {
        let always = claim.always.is_some();
        let (_, first) = &results[0];
        let results = if claim.is_varied(first) { results } else { &results[..1] };
        let asked = results.iter().filter(|(case, _)| always || case.purpose != Purpose::Seed);
        let judged: Vec<(&Case, (f64, bool))> = asked.map(|(case, results)| (case, claim.judge(results))).collect();
        let (_, (value, holds)) = judged[0];
        let variants = judged.iter().filter(|(case, _)| case.purpose == Purpose::Variant);
        let otherwise = variants.clone().filter(|(_, (_, other))| *other != holds);
        let otherwise: Vec<String> =
            otherwise.map(|(case, (value, _))| format!("{} ({value:.3})", case.name)).collect();
        let robust = match (variants.count(), otherwise.is_empty()) {
            (0, _) => Robust::Untried,
            (_, true) => Robust::Robust,
            (_, false) => Robust::Fragile(otherwise),
        };
        let seeds = judged.iter().filter(|(case, _)| case.purpose != Purpose::Variant);
        let asked = seeds.clone().count();
        let held = seeds.clone().filter(|(_, (_, holds))| *holds).count();
        let farthest = (holds && always && held < asked).then(|| {
            let off = |value: f64| (claim.expected.start() - value).max(value - claim.expected.end());
            let values = seeds.map(|(_, (value, _))| *value);
            values.max_by(|a, b| off(*a).total_cmp(&off(*b))).expect("there is the figure's own")
        });
        let holds = holds && farthest.is_none();
        Verdict {
            claim: claim.text.clone(),
            ratio: claim.ratio.to_owned(),
            value,
            at_least: *claim.expected.start(),
            at_most: Some(*claim.expected.end()).filter(|end| end.is_finite()),
            published: claim.published.map(|(published, unit)| Published {
                predicted: value * published,
                published,
                unit: unit.to_owned(),
            }),
            holds,
            missing: claim.missing.filter(|_| !holds).map(ToOwned::to_owned),
            by_construction: claim.by_construction.map(ToOwned::to_owned),
            robust,
            seeds: (always && asked > 1).then_some((asked, held)),
            farthest,
        }
    }
}

/// The report of a figure; its first case is the figure itself.
pub(super) fn report(figure: &Figure, effort: &Effort, results: &[(Case, Results)]) -> FigureReport {
    let (case, first) = &results[0];
    let row = |setup: &super::Setup| {
        let point = first.point(setup.group, &setup.label);
        let baseline = first.point(setup.group, figure.baseline).wall_ns();
        let bytes = point.near + point.far;
        Row {
            group: setup.group.to_owned(),
            label: setup.label.clone(),
            ms: point.wall_ns() / 1e6,
            normalised: point.wall_ns() / baseline,
            kept_nodes: Some(point.kept_nodes).filter(|nodes| *nodes > 0.0),
            far_share: if bytes > 0.0 { point.far / bytes } else { 0.0 },
            spread: [0.05, 0.25, 0.75, 0.95].map(|share| point.quantile(share) / baseline),
        }
    };
    let mut notes: Vec<String> = figure.notes.iter().map(ToString::to_string).collect();
    let mut replays: Vec<String> = figure.replayed().map(ToString::to_string).collect();
    replays.dedup();
    notes.append(&mut replays);
    let mut reduced: Vec<String> = Vec::new();
    for setup in figure.setups.iter().filter(|setup| setup.reduced < 1.0) {
        let note = format!("{} has {} of its tasks", setup.group, setup.reduced);
        if !reduced.contains(&note) {
            reduced.push(note);
        }
    }
    if !reduced.is_empty() && (effort.variants || effort.seeds > 1 || effort.reduced) {
        let when = if effort.reduced { "Here" } else { "When parameters or seeds vary" };
        notes.push(format!("{when}, {}.", reduced.join(", ")));
    }
    FigureReport {
        id: figure.id.to_owned(),
        title: figure.title.to_owned(),
        source: figure.source.to_owned(),
        notes,
        baseline: figure.baseline.to_owned(),
        parameters: Parameters::default().to_string(),
        seed: effort.seed,
        samples: case.samples,
        rows: figure.setups.iter().map(row).collect(),
        verdicts: figure.claims.iter().map(|claim| Verdict::of(claim, results)).collect(),
    }
}
