//! Likely slips in a query that is right: variables without a value, and names that the data doesn't have.

use crate::complete::Prefixes;
use crate::graphs::DefaultGraph;
use crate::parse::ParsedQuery;
use crate::stack::of_planned;
use crate::syntax::ast::{Element, Expression, GraphName, Group, Item, Path, Query, Select, Term, Triple, Var, Verb};
use oxrdf::vocab::rdf;
use oxrdf::{NamedNodeRef, TermRef};
use std::collections::{BTreeMap, BTreeSet};
use vicus_language::{Remark, RemarkKind, Watch, similar_names, suggestion};
use vicus_rdf::{Id, Order, Snapshot, TermView};

/// The most classes of the data that a misspelled one is compared with.
const COMPARED: usize = 10_000;

/// Remarks on a query and its data, the most general first: the reasons for which an answer may be empty, or a column
/// without values. After `watch` has said that it ends, some are missing.
///
/// ```
/// use vicus_rdf::Snapshot;
/// use vicus_sparql::{DefaultGraph, parse, remarks};
///
/// let data = Snapshot::of_ntriples(b"<http://e/ann> <http://e/name> \"Ann\" .")?;
/// let parsed = parse("PREFIX e: <http://e/> SELECT ?nmae { ?who e:nmae ?name }")?;
/// let remarks = remarks(&parsed, &data, DefaultGraph::Own, &|| false);
/// let texts: Vec<&str> = remarks.iter().map(|remark| &remark.text[..]).collect();
/// assert_eq!(texts, [
///     "nothing binds ?nmae; did you mean ?name?",
///     "the data has no predicate e:nmae; did you mean e:name?",
/// ]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remarks(parsed: &ParsedQuery, data: &Snapshot, default_graph: DefaultGraph, watch: &dyn Watch) -> Vec<Remark> {
    let query = &parsed.query;
    let mut look = Look {
        watch,
        is_named: false,
        is_bound_outside: BTreeSet::new(),
        bound: BTreeSet::new(),
        unbound: BTreeSet::new(),
        names: BTreeMap::new(),
        reads_default: false,
    };
    of_planned(query.levels(), || look.select(&query.select));
    if let Some(dataset) = &query.dataset {
        let named = dataset.named.iter().flatten();
        dataset.default.iter().chain(named).for_each(|graph| look.name(Use::Graph, graph.as_str()));
    }
    let prefixes = Prefixes { declared: query.prefixes.iter().cloned().collect() };
    let is_own = query.dataset.is_none() && default_graph == DefaultGraph::Own;
    let mut remarks = look.of_variables(query);
    // An aggregate without GROUP BY has a row in any case.
    let has_row = query.select.is_grouped && query.select.group_by.is_empty();
    let kind = if has_row { RemarkKind::Always } else { RemarkKind::IfEmpty };
    remarks.extend(Names { data, prefixes, is_own, kind, watch }.remarks(&look));
    remarks
}

/// Where a pattern looks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Default,
    Named,
}

/// The use of a name in a pattern.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Graph,
    Predicate,
    Class,
}

type Vars = BTreeSet<Var>;

/// A walk over a query.
struct Look<'a> {
    watch: &'a dyn Watch,
    /// Whether the pattern is in a named graph.
    is_named: bool,
    /// The variables that an EXISTS has values of.
    is_bound_outside: Vars,
    /// The variables bound anywhere.
    bound: Vars,
    /// The variables that are read where nothing binds them.
    unbound: Vars,
    /// The names in patterns.
    names: BTreeMap<(Use, &'a str), Place>,
    /// Whether a pattern reads the default graph.
    reads_default: bool,
}

impl<'a> Look<'a> {
    /// A query or sub-query. Returns the variables that it may bind outside.
    fn select(&mut self, select: &'a Select) -> Vars {
        let mut bound = self.group(&select.pattern, &Vars::new());
        bound.extend(select.values.iter().flat_map(|values| &values.variables));
        self.bound.extend(&bound);
        for item in select.group_by.iter().chain(&select.projection) {
            match item {
                Item::Var(var) => self.read(*var, &bound),
                Item::Computed(value, var) => {
                    self.expression(value, &bound);
                    bound.extend(*var);
                    self.bound.extend(*var);
                }
            }
        }
        let values = select.having.iter().chain(select.order_by.iter().map(|key| &key.value));
        values.for_each(|value| self.expression(value, &bound));
        if !select.is_star {
            bound = select.projected().collect();
        }
        bound
    }

    /// Returns the variables that a group may bind. Its filters also see the variables of `left`.
    fn group(&mut self, group: &'a Group, left: &Vars) -> Vars {
        let mut bound = Vars::new();
        for element in &group.elements {
            if self.watch.ends() {
                break;
            }
            match element {
                Element::Triples(triples) => triples.iter().for_each(|triple| {
                    triple.each_variable(&mut |var| _ = bound.insert(var));
                    self.triple(triple);
                }),
                Element::Filter(_) => {}
                Element::Bind(value, var) => {
                    self.expression(value, &bound);
                    bound.insert(*var);
                }
                Element::Optional(inner) => {
                    let inner = self.group(inner, &bound);
                    bound.extend(inner);
                }
                Element::Minus(inner) => _ = self.group(inner, &Vars::new()),
                Element::Union(groups) => {
                    for inner in groups {
                        bound.extend(self.group(inner, &Vars::new()));
                    }
                }
                Element::Values(values) => bound.extend(&values.variables),
                Element::Select(select) => bound.extend(self.select(select)),
                Element::Graph(graph) => {
                    match &graph.name {
                        GraphName::Iri(name) => self.name(Use::Graph, name.as_str()),
                        GraphName::Var(var, _) => _ = bound.insert(*var),
                    }
                    let outside = std::mem::replace(&mut self.is_named, true);
                    bound.extend(self.group(&graph.group, &Vars::new()));
                    self.is_named = outside;
                }
                Element::Service(service) => bound.extend(&service.variables),
            }
        }
        self.bound.extend(&bound);
        let filters = group.elements.iter().filter_map(|element| match element {
            Element::Filter(condition) => Some(condition),
            _ => None,
        });
        let mut seen = None;
        for condition in filters {
            let seen = seen.get_or_insert_with(|| bound.union(left).copied().collect());
            self.expression(condition, seen);
        }
        bound
    }

    fn triple(&mut self, triple: &'a Triple) {
        self.reads_default |= !self.is_named;
        let Verb::Path(path) = &triple.verb else { return };
        self.path(path);
        if let (Path::Iri(predicate), Term::Iri(class)) = (&**path, &triple.object)
            && predicate.as_ref() == rdf::TYPE
        {
            self.name(Use::Class, class.as_str());
        }
    }

    fn path(&mut self, path: &'a Path) {
        match path {
            Path::Iri(predicate) => self.name(Use::Predicate, predicate.as_str()),
            Path::Inverse(inner) | Path::Many(inner) => self.path(inner),
            Path::Sequence(parts) | Path::Alternative(parts) => parts.iter().for_each(|part| self.path(part)),
            // They have solutions without the names in them.
            Path::Not(..) | Path::Optional(_) | Path::Any(_) => {}
        }
    }

    fn name(&mut self, used: Use, iri: &'a str) {
        let place = if self.is_named { Place::Named } else { Place::Default };
        self.names.entry((used, iri)).or_insert(place);
    }

    fn expression(&mut self, value: &'a Expression, bound: &Vars) {
        match value {
            Expression::Var(var, _) | Expression::Bound(var, _) => self.read(*var, bound),
            Expression::Exists(group) => {
                let mut outside = self.is_bound_outside.union(bound).copied().collect();
                std::mem::swap(&mut self.is_bound_outside, &mut outside);
                self.group(group, &Vars::new());
                self.is_bound_outside = outside;
            }
            Expression::Aggregate(aggregate) => {
                if let Some(of) = &aggregate.of {
                    self.expression(of, bound);
                }
            }
            other => other.operands().into_iter().for_each(|operand| self.expression(operand, bound)),
        }
    }

    fn read(&mut self, var: Var, bound: &Vars) {
        if !bound.contains(&var) && !self.is_bound_outside.contains(&var) {
            self.unbound.insert(var);
        }
    }

    fn of_variables(&self, query: &Query) -> Vec<Remark> {
        let name = |var: &Var| query.variables[var.0 as usize].as_str();
        let of = |var: &Var| {
            let text = if self.bound.contains(var) {
                format!("where ?{} is read, nothing binds it: it is bound in another group only", name(var))
            } else {
                // Each name of a letter or two is like any other.
                let others = self.bound.iter().filter(|_| name(var).chars().count() > 2);
                let near = similar_names(name(var), others.map(|other| (name(other), name(other))));
                let near: Vec<String> = near.into_iter().map(|other| format!("?{other}")).collect();
                format!("nothing binds ?{}{}", name(var), suggestion(&near))
            };
            Remark { kind: RemarkKind::Always, text }
        };
        self.unbound.iter().map(of).collect()
    }
}

/// Looks for names in the data.
struct Names<'a> {
    data: &'a Snapshot,
    prefixes: Prefixes,
    /// Whether a pattern outside of GRAPH reads the default graph alone.
    is_own: bool,
    kind: RemarkKind,
    watch: &'a dyn Watch,
}

impl Names<'_> {
    fn remarks(&self, look: &Look<'_>) -> Vec<Remark> {
        let kind = self.kind;
        let remark = |text| Remark { kind, text };
        if self.data.is_empty() {
            return vec![remark("the data is empty".to_owned())];
        }
        let mut remarks = Vec::new();
        let has_default = self.data.index(Order::Gspo).count(&[Id::UNBOUND]) > 0;
        if self.is_own && look.reads_default && !has_default {
            let text = "the default graph is empty: the data is in named graphs, which GRAPH ?g { … } reads";
            remarks.push(remark(text.to_owned()));
        }
        for (&(used, iri), &place) in &look.names {
            if self.watch.ends() {
                break;
            }
            let (in_default, in_named) = self.occurs(used, iri);
            // A default graph of the caller's or the text's choice is made of named graphs.
            let is_own = place == Place::Default && self.is_own;
            let is_there = if is_own { in_default } else { in_named };
            if is_there {
                continue;
            }
            let what = match used {
                Use::Graph => "graph",
                Use::Predicate => "predicate",
                Use::Class => "class",
            };
            let written = self.prefixes.declared_form(iri);
            if !in_default && !in_named {
                let near = suggestion(&self.near(used, iri));
                remarks.push(remark(format!("the data has no {what} {written}{near}")));
            } else if has_default || !is_own {
                let only = if in_default { "the default graph" } else { "named graphs" };
                remarks.push(remark(format!("the {what} {written} occurs in {only} alone")));
            }
        }
        remarks
    }

    /// Whether the default graph, and any named graph, has this name in this use.
    fn occurs(&self, used: Use, iri: &str) -> (bool, bool) {
        let id = |iri: NamedNodeRef<'_>| self.data.id(TermRef::NamedNode(iri));
        let Some(name) = id(NamedNodeRef::new_unchecked(iri)) else { return (false, false) };
        let has = |order, prefix: &[Id]| self.data.index(order).count(prefix) > 0;
        match (used, id(rdf::TYPE)) {
            (Use::Graph, _) => (false, has(Order::Gspo, &[name])),
            (Use::Predicate, _) => (has(Order::Gpso, &[Id::UNBOUND, name]), has(Order::Psog, &[name])),
            (Use::Class, None) => (false, false),
            (Use::Class, Some(of)) => (has(Order::Gpos, &[Id::UNBOUND, of, name]), has(Order::Posg, &[of, name])),
        }
    }

    /// Names of the data that are written alike behind their last sign, those of the same beginning first.
    fn near(&self, used: Use, iri: &str) -> Vec<String> {
        let known: Vec<Id> = match used {
            Use::Graph => self.data.graphs().filter(|graph| !graph.is_unbound()).take(COMPARED).collect(),
            Use::Predicate => {
                let both = [self.data.statistics(), self.data.named_statistics()];
                both.into_iter().flat_map(|counts| counts.predicates()).map(|predicate| predicate.id).collect()
            }
            Use::Class => self.classes(),
        };
        let ids = known.into_iter().take_while(|_| !self.watch.ends());
        let iris: Vec<String> = ids.filter_map(|id| self.data.view(id, |term| iri_of(&term))).collect();
        let (beginning, local) = split(iri);
        let items = iris.iter().map(|other| {
            let (others, name) = split(other);
            (name, (others != beginning, other.as_str()))
        });
        similar_names(local, items).into_iter().map(|(_, iri)| self.prefixes.declared_form(iri)).collect()
    }

    fn classes(&self) -> Vec<Id> {
        let Some(of) = self.data.id(TermRef::NamedNode(rdf::TYPE)) else { return Vec::new() };
        let (own, named) = (self.data.index(Order::Gpos), self.data.index(Order::Posg));
        let of_own = own.groups(own.range(&[Id::UNBOUND, of])).map(|(class, _)| class);
        let mut rows = named.range(&[of]);
        let of_named = std::iter::from_fn(|| {
            let class = named.get(1, rows.clone().next()?);
            rows.start = named.range(&[of, class]).end;
            Some(class)
        });
        of_own.take(COMPARED).chain(of_named.take(COMPARED)).collect()
    }
}

fn iri_of(term: &TermView<'_>) -> Option<String> {
    match term {
        TermView::Iri(iri) => Some((*iri).to_owned()),
        _ => None,
    }
}

/// An IRI up to its last `#`, `/` or `:`, and the name behind.
fn split(iri: &str) -> (&str, &str) {
    iri.split_at(iri.trim_end_matches(['#', '/', ':']).rfind(['#', '/', ':']).map_or(0, |at| at + 1))
}
