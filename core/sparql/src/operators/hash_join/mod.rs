//! Builds a table of one side's rows, and probes it with those of the other.

mod boxes;
mod compatible;
mod grace;
mod hash_table;
mod plan;

pub(crate) use hash_table::{By, HashSpec, Keep, Key};

use super::{Below, Each, Physical, PhysicalOperator, StableColumns, Title, kept_of_probe, pick_of_join};
use crate::boxes::join::JoinSpec;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::planner::cost;
use crate::terms::Terms;
use smallvec::smallvec;
use std::sync::Arc;
use vicus_flow::{BoxId, OutputId};

#[derive(Debug)]
pub(crate) struct HashJoin {
    pub(crate) probe: Below,
    pub(crate) build: Below,
    pub(crate) hash: Arc<HashSpec>,
    pub(crate) join: Arc<JoinSpec>,
}

impl PhysicalOperator for HashJoin {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.probe, &self.build]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.probe, &mut self.build]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_of_join(&mut self.join, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = kept_of_probe(&self.join, kept, &self.probe);
        self.hash.keys.iter().for_each(|key| inner[key.probe] = true);
        // The table keeps all columns.
        smallvec![inner, vec![true; self.build.columns.len()]]
    }

    /// One table probed by all replicas. If building one table would take longer, both sides are dealt by the hash of
    /// their keys, and each part has a table of its own.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (probe, build) = (&*self.probe, &*self.build);
        let mut probes = lowering.add(probe, above.and(plan.estimate.rows));
        let (from, columns, parts) = (probe.columns.len(), build.columns.len(), probes.len());
        let keys: Vec<&Key> = self.hash.keys.iter().filter(|key| key.by == By::Id).collect();
        let (alone, share) = (build.estimate.rows * cost::BUILD, 1.0 / parts as f64);
        let mut dealing = (build.estimate.rows + probe.estimate.rows) * cost::DEAL;
        let machines = lowering.places.all_of(&probes);
        let is_apart = machines.len() > 1;
        if is_apart {
            let bytes = 8.0 * (build.estimate.rows * columns as f64 + probe.estimate.rows * from as f64);
            dealing += lowering.machines.transfer_ns(bytes);
        }
        // Dealing pays only if it saves at least as much time as it costs in work: other boxes need the cores, too.
        let is_dealt = !keys.is_empty()
            && alone - (alone + dealing) * share > dealing
            && !(is_apart && (lowering.may_compute(probe) || lowering.may_compute(build)));
        let tables = if is_dealt {
            let builds = lowering.add(build, Pipeline::default());
            let probed: Vec<usize> = keys.iter().map(|key| key.probe).collect();
            let built: Vec<usize> = keys.iter().map(|key| key.build).collect();
            let places: Vec<usize> = probes.iter().map(|stream| lowering.places.of(*stream)).collect();
            let deals = lowering.dealt(probes, from, &probed, parts);
            let of_part = |part: usize| deals.iter().map(|deal| deal.output(part)).collect();
            let unite =
                |(part, place): (usize, &usize)| lowering.on(*place, |lowering| lowering.united(of_part(part), from));
            probes = places.iter().enumerate().map(unite).collect();
            let deals = lowering.dealt(builds, columns, &built, parts);
            let of_part = |part: usize| deals.iter().map(|deal| deal.output(part)).collect();
            let table = |(part, place): (usize, &usize)| {
                lowering.on(*place, |lowering| self.lower_table(of_part(part), columns, lowering))
            };
            places.iter().enumerate().map(table).collect()
        } else if is_apart {
            self.lower_copies(&probes, &machines, lowering)
        } else {
            let builds = lowering.add(build, Pipeline::default());
            let machine = machines[0];
            vec![lowering.on(machine, |lowering| self.lower_table(builds, columns, lowering)); parts]
        };
        let (width, pace) = (plan.columns.len(), lowering.pace(above));
        let (buckets, rows) = (lowering.schema(1), lowering.schema(self.hash.built_columns(columns)));
        let replica = |(probed, table): (OutputId, BoxId)| {
            let (hash, join) = (Arc::clone(&self.hash), Arc::clone(&self.join));
            let make = move |terms: &Arc<Terms>| boxes::HashJoin::new(terms, &join, &hash, columns, pace);
            let model = Draft::new(lowering.terms, "hash join", make).that_spills().input(&lowering.schema(from));
            let model = model.input(&buckets).input(&rows).output(&lowering.schema(width));
            let join = lowering.on(lowering.places.of(probed), |lowering| lowering.place(model));
            lowering.net.connect(probed, join.input(0));
            lowering.net.connect(table.output(0), join.input(1));
            lowering.net.connect(table.output(1), join.input(2));
            join.output(0)
        };
        probes.into_iter().zip(tables).map(replica).collect()
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let key = |key: &Key| {
            let (a, b) = (self.probe.columns[key.probe], self.build.columns[key.build]);
            // Slots of one name may be two.
            let is_shared = a == b;
            let (a, b) = (explainer.slot(a), explainer.slot(b));
            let name = if is_shared { a } else { format!("{a} = {b}") };
            match key.by {
                By::Id => name,
                By::Value => format!("{name} by value"),
                By::Loose => format!("{name} if bound"),
            }
        };
        let keys = self.hash.keys.iter().map(key).collect::<Vec<_>>().join(", ");
        let built = |column: usize| explainer.slot(self.build.columns[column]);
        let keep = match self.hash.keep {
            Keep::All => String::new(),
            Keep::Any => ", any one".to_owned(),
            Keep::Least(column) => format!(", least {}", built(column)),
            Keep::Greatest(column) => format!(", greatest {}", built(column)),
        };
        let (name, on) = if keys.is_empty() { ("cross product", "") } else { ("hash join", "on ") };
        Title::of_join(self.join.kind, name, format!("{on}{keys}{keep}").trim_start_matches(", "))
    }

    fn joins_by_value(&self) -> bool {
        self.hash.keys.iter().any(|key| key.by == By::Value)
    }

    fn inner_width(&self) -> usize {
        self.hash.built_columns(self.build.columns.len())
    }
}

impl HashJoin {
    /// A table of all built rows on each machine, for each of the probing streams. A machine makes these rows by
    /// itself, unless it takes less time to have each machine make some of them, and to send them to all.
    fn lower_copies(&self, probes: &Streams, machines: &[usize], lowering: &mut Lowering<'_>) -> Vec<BoxId> {
        let (build, columns) = (&*self.build, self.build.columns.len());
        let all = lowering.machines;
        let alone = machines.iter().map(|&machine| build.cost / all.threads(machine) as f64).fold(0.0, f64::max);
        let bytes = 8.0 * build.estimate.rows * columns as f64 * machines.len() as f64;
        let sent = build.cost / all.all_threads() as f64 + all.transfer_ns(bytes) + all.latency_ns as f64;
        let mut tables = Vec::with_capacity(machines.len());
        if sent < alone {
            let builds = lowering.add(build, Pipeline::default());
            // What crosses is united once on each machine, however many read it.
            let united: Streams = lowering
                .places
                .all_of(&builds)
                .into_iter()
                .map(|machine| {
                    let here = builds.iter().copied().filter(|stream| lowering.places.of(*stream) == machine).collect();
                    lowering.on(machine, |lowering| lowering.united(here, columns))
                })
                .collect();
            for &machine in machines {
                let streams = united.clone();
                tables.push(lowering.on(machine, |lowering| self.lower_table(streams, columns, lowering)));
            }
        } else {
            let begin = lowering.next_operator();
            for &machine in machines {
                let again = (!tables.is_empty()).then_some(begin);
                let builds = lowering.add_alone(build, Pipeline::default(), machine, again);
                tables.push(lowering.on(machine, |lowering| self.lower_table(builds, columns, lowering)));
            }
        }
        let table = |probe: &OutputId| {
            let machine = lowering.places.of(*probe);
            tables[machines.iter().position(|other| *other == machine).expect("it has a probe")]
        };
        probes.iter().map(table).collect()
    }

    /// Adds a box to build a table of all these streams' rows.
    fn lower_table(&self, builds: Streams, columns: usize, lowering: &mut Lowering<'_>) -> BoxId {
        let builds = lowering.gathered(builds, columns, Lowering::united);
        let hash = Arc::clone(&self.hash);
        let make = move |terms: &Arc<Terms>| boxes::HashBuild::new(terms, &hash, columns);
        let model = Draft::new(lowering.terms, "hash build", make).that_spills();
        let model = builds.iter().fold(model, |model, _| model.input(&lowering.schema(columns)));
        let model = model.output(&lowering.schema(1)).output(&lowering.schema(self.hash.built_columns(columns)));
        let table = lowering.place(model);
        for (input, sender) in builds.into_iter().enumerate() {
            lowering.net.connect(sender, table.input(input));
        }
        table
    }
}
