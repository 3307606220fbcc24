//! From the syntax tree to the algebra of slots and ids: SPARQL 1.1, §18.2.

mod triple_terms;

use crate::algebra::{
    Aggregate, At, Column, Endpoint, Fold, Group, Node, Operand, Path, Pattern, Service, Slot, Slots, SortKey, Table,
};
use crate::expression::{Arithmetic, Compare, Expr, Function};
use crate::graphs::Dataset;
use crate::route::Route;
use crate::syntax::ast::{
    self, Element, Expression, FoldName, Form, GraphName, InGraph, Item, Query, Select, Term, Var, Verb,
};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, TermRef};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use vicus_language::Stop;
use vicus_rdf::Id;

/// A query as algebra.
pub(crate) struct Translated {
    pub(crate) node: Node,
    pub(crate) wanted: SolutionUse,
    /// The name of each slot, for explanations; blank nodes and inner variables have names, too.
    pub(crate) names: Vec<String>,
}

/// The use of a query's solutions.
pub(crate) enum SolutionUse {
    /// A row for each, with these columns.
    Rows(Vec<Slot>),
    /// A row if there is any.
    Any,
    /// A template's triples, each once; the columns are the slots of subject, predicate and object.
    Triples { template: Vec<[InTemplate; 3]>, columns: [Slot; 3] },
    /// The triples of a graph describing the values of these slots and these resources.
    Descriptions { of: Vec<Slot>, resources: Vec<Id>, graph: At, columns: [Slot; 3] },
}

/// The content of one of the three positions of a template's triple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InTemplate {
    Slot(Slot),
    Constant(Id),
    /// A blank node, by number: a fresh one for each solution.
    Blank(u32),
}

/// Translates a query. `id` gives the id of a term, the same one for equal terms.
///
/// Ends early if `stop` says so; the result is wrong then.
pub(crate) fn translate(
    query: &Query,
    dataset: &Dataset,
    stop: &Stop<'_>,
    id: &mut dyn FnMut(TermRef<'_>) -> Id,
) -> Translated {
    let mut translator = Translator {
        id,
        stop,
        dataset,
        graph: dataset.default,
        variables: &query.variables,
        prologue: prologue(query),
        names: Vec::new(),
        blanks: FxHashMap::default(),
        outer: Slots::new(),
        groups: None,
    };
    let mut scope = Names::default();
    let made = translator.select(&query.select, matches!(query.form, Form::Ask), &mut scope);
    let projected = || query.select.projected().map(|var| scope[&var]).collect();
    let wanted = match &query.form {
        Form::Select => SolutionUse::Rows(projected()),
        Form::Ask => SolutionUse::Any,
        Form::Construct(template) => {
            let template = translator.template(template, &scope);
            SolutionUse::Triples { template, columns: translator.columns_of_triples() }
        }
        Form::Describe(resources) => {
            let resources = resources.iter().map(|iri| translator.iri(iri)).collect();
            SolutionUse::Descriptions {
                of: projected(),
                resources,
                graph: dataset.default,
                columns: translator.columns_of_triples(),
            }
        }
    };
    Translated { node: made.node, wanted, names: translator.names }
}

/// The base and the prefixes of a query as text.
fn prologue(query: &Query) -> Arc<str> {
    let base = query.base.iter().map(|base| format!("BASE <{base}>\n"));
    let prefixes = query.prefixes.iter().map(|(name, iri)| format!("PREFIX {name}: <{iri}>\n"));
    base.chain(prefixes).collect::<String>().into()
}

/// Steps counted for a triple pattern, besides looking up its terms: here, and in each later rule on it.
const PATTERN_STEPS: usize = 24;

/// Steps counted for projecting a variable: looking up its name, and copying it several times.
const PROJECT_STEPS: usize = 3;

/// The slots of variables inside one SELECT.
type Names = FxHashMap<Var, Slot>;

/// An operator, and the slots with a possible value in its solutions.
struct Built {
    node: Node,
    possible: Slots,
}

impl Built {
    fn unit() -> Built {
        Built { node: Node::unit(), possible: Slots::new() }
    }

    /// Joins another operator; a join of joins becomes one join.
    fn join(&mut self, other: Built, stop: &Stop<'_>) {
        let mut all = operands(std::mem::replace(&mut self.node, Node::unit()));
        all.extend(operands(other.node));
        self.node = joined(all);
        add_all(&mut self.possible, other.possible, stop);
    }

    fn extend(&mut self, slot: Slot, expr: Expr) {
        let inner = std::mem::replace(&mut self.node, Node::unit());
        self.node = Node::Extend { inner: Operand::new(inner), slot, expr };
        self.possible.insert(slot);
    }
}

fn operands(node: Node) -> Vec<Node> {
    match node {
        Node::Join(all) => all,
        other => vec![other],
    }
}

fn joined(mut all: Vec<Node>) -> Node {
    if all.len() == 1 { all.remove(0) } else { Node::Join(all) }
}

/// Adds all slots of another set. The smaller set is inserted into the larger one, so deep patterns with many variables
/// stay cheap.
fn add_all(slots: &mut Slots, mut other: Slots, stop: &Stop<'_>) {
    if other.len() > slots.len() {
        std::mem::swap(slots, &mut other);
    }
    let last = slots.iter().last().copied();
    let between = other.iter().filter(|slot| Some(**slot) < last && !slots.contains(slot)).count();
    stop.count_steps(other.len() + between * slots.len() / 32);
    slots.extend(other);
}

fn is_sliced(select: &Select) -> bool {
    select.offset > 0 || select.limit.is_some()
}

/// The groups of a SELECT during the translation of its expressions.
struct Groups {
    /// The operator below the groups, extended by the values needed by aggregates.
    inner: Built,
    /// The variables below the groups.
    names: Names,
    keys: Vec<Slot>,
    folds: Vec<Aggregate>,
    /// The slots of the aggregates' results.
    results: Slots,
    /// For a variable that is not a key: the slot of a SAMPLE of it.
    samples: FxHashMap<Slot, Slot>,
    /// The expressions computed for aggregates, and their slots.
    computed: Vec<(Expr, Slot)>,
}

struct Translator<'a> {
    id: &'a mut dyn FnMut(TermRef<'_>) -> Id,
    stop: &'a Stop<'a>,
    dataset: &'a Dataset,
    /// The graph of the patterns. Within GRAPH with a variable, this is its slot, carried along by all operators; so
    /// each graph is treated by itself.
    graph: At,
    variables: &'a [String],
    /// The query's base and prefixes as text, for endpoints.
    prologue: Arc<str>,
    names: Vec<String>,
    /// The slots of blank nodes. A label is used in one basic graph pattern only.
    blanks: FxHashMap<u32, Slot>,
    /// The slots possibly bound by a solution outside of the current EXISTS.
    outer: Slots,
    /// Set while the expressions of a SELECT with groups are translated.
    groups: Option<Groups>,
}

impl Translator<'_> {
    fn fresh(&mut self, name: &str) -> Slot {
        self.names.push(name.to_owned());
        Slot(self.names.len() - 1)
    }

    fn slot(&mut self, var: Var, scope: &mut Names) -> Slot {
        if let Some(slot) = scope.get(&var) {
            return *slot;
        }
        let variables = self.variables;
        let slot = self.fresh(&variables[var.0 as usize]);
        scope.insert(var, slot);
        slot
    }

    fn iri(&mut self, node: &NamedNode) -> Id {
        (self.id)(node.as_ref().into())
    }

    /// The triples of a CONSTRUCT, with blank nodes numbered from 0. All its variables are in scope.
    fn template(&mut self, template: &[ast::Triple], scope: &Names) -> Vec<[InTemplate; 3]> {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let mut made = Vec::with_capacity(template.len());
        for triple in template {
            if self.stop.count_steps(PATTERN_STEPS) {
                break;
            }
            let mut end = |term: &Term| match term {
                Term::Iri(iri) => InTemplate::Constant((self.id)(iri.as_ref().into())),
                Term::Literal(literal) => InTemplate::Constant((self.id)(literal.as_ref().into())),
                Term::Var(var) => InTemplate::Slot(scope[var]),
                Term::Blank(label) => {
                    let next = numbers.len() as u32;
                    InTemplate::Blank(*numbers.entry(*label).or_insert(next))
                }
                // With a literal as its subject it is no term: the triple is left out.
                Term::Triple(_) => {
                    InTemplate::Constant(term.constant().map_or(Id::UNBOUND, |term| (self.id)(term.as_ref())))
                }
            };
            let (subject, object) = (end(&triple.subject), end(&triple.object));
            let predicate = match &triple.verb {
                Verb::Var(var) => InTemplate::Slot(scope[var]),
                Verb::Path(path) => match &**path {
                    ast::Path::Iri(iri) => InTemplate::Constant((self.id)(iri.as_ref().into())),
                    path => unreachable!("a template has no path {path:?}"),
                },
            };
            made.push([subject, predicate, object]);
        }
        made
    }

    fn columns_of_triples(&mut self) -> [Slot; 3] {
        ["_:subject", "_:predicate", "_:object"].map(|name| self.fresh(name))
    }

    // SELECT.

    /// §18.2.4 and §18.2.5. Only the projected variables belong to the scope outside.
    fn select(&mut self, select: &Select, is_ask: bool, scope: &mut Names) -> Built {
        if is_ask {
            let rows = self.rows_of(select, scope);
            return self.sliced(rows, select);
        }
        let mut slots = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            if let Item::Var(var) | Item::Computed(_, Some(var)) = item {
                slots.push(self.slot(*var, scope));
            }
        }
        let mut made = if select.is_star {
            // No name is hidden, so the expressions inside use the names of the outside.
            self.rows_of(select, scope)
        } else {
            let vars = select.projection.iter().filter_map(|item| match item {
                Item::Var(var) | Item::Computed(_, Some(var)) => Some(*var),
                Item::Computed(_, None) => None,
            });
            let mut inside: Names = vars.zip(slots.iter().copied()).collect();
            self.rows_of(select, &mut inside)
        };
        if select.is_star && slots.is_empty() {
            // All variables, but no blank nodes and inner ends of paths.
            slots.extend(made.possible.iter().filter(|slot| !self.names[slot.0].starts_with("_:")));
        }
        self.stop.count_steps(PROJECT_STEPS * made.possible.len());
        let projected: Slots = slots.iter().copied().collect();
        made.possible = made.possible.intersection(&projected).copied().collect();
        // The scopes of this operator and of the one below copy the set.
        self.stop.count_bytes(5 * size_of::<Slot>() * made.possible.len());
        if let At::Slot(graph) = self.graph {
            made.possible.remove(&graph);
            slots.retain(|slot| *slot != graph);
            slots.push(graph);
        }
        made.node = Node::Project { inner: Operand::new(made.node), slots };
        if select.distinct {
            made.node = Node::Distinct { inner: Operand::new(made.node) };
        }
        self.sliced(made, select)
    }

    /// OFFSET and LIMIT, also of an ASK.
    fn sliced(&mut self, mut made: Built, select: &Select) -> Built {
        if is_sliced(select) {
            if let At::Slot(slot) = self.graph
                && select.order_by.is_empty()
            {
                made.node =
                    Node::Sort { inner: Operand::new(made.node), keys: vec![SortKey { slot, descending: false }] };
            }
            made.node = Node::Slice {
                inner: Operand::new(made.node),
                offset: select.offset,
                limit: select.limit,
                each: self.graph.slot(),
            };
        }
        made
    }

    /// The rows of a SELECT in their order, before projection.
    fn rows_of(&mut self, select: &Select, scope: &mut Names) -> Built {
        let outside = self.groups.take();
        let mut made = Built::unit();
        let mut possible;
        if select.is_grouped {
            let groups = self.groups_of(select, scope);
            possible = groups.keys.iter().copied().collect();
            self.groups = Some(groups);
        } else {
            made = self.group(&select.pattern, scope);
            possible = made.possible.clone();
        }
        // Expressions are translated first, because they contain the aggregates.
        let mut conditions = Vec::new();
        for condition in &select.having {
            conditions.extend(self.visible(condition, &possible, scope).conjuncts());
        }
        let values = select.values.as_ref().map(|values| self.values(values, scope));
        possible.extend(values.iter().flat_map(|values| &values.possible));
        let mut computed = Vec::new();
        for item in &select.projection {
            if let Item::Computed(value, Some(var)) = item {
                let expr = self.visible(value, &possible, scope);
                let slot = self.slot(*var, scope);
                possible.insert(slot);
                computed.push((slot, expr));
            }
        }
        let mut order = Vec::new();
        for key in &select.order_by {
            order.push((self.visible(&key.value, &possible, scope), key.descending));
        }
        if let Some(groups) = std::mem::replace(&mut self.groups, outside) {
            let Groups { mut inner, mut keys, mut folds, .. } = groups;
            let each = self.graph.slot();
            let alone = each.filter(|_| keys.is_empty()).map(|graph| (graph, self.defaults(&mut folds)));
            keys.extend(each);
            inner.possible.extend(each);
            let by: Slots = keys.iter().copied().collect();
            let mut possible: Slots = inner.possible.intersection(&by).copied().collect();
            possible.extend(folds.iter().map(|fold| fold.slot));
            made = Built { node: Node::Group(Group { inner: Operand::new(inner.node), keys, folds }), possible };
            if let Some((graph, defaults)) = alone {
                // A graph without rows has a group, too.
                let (left, right) = (Operand::new(self.graph_names(graph)), Operand::new(made.node));
                made.node = Node::LeftJoin { left, right, conditions: Vec::new() };
                for (slot, expr) in defaults {
                    made.extend(slot, expr);
                }
            }
        }
        made.node = made.node.filtered(conditions);
        if let Some(values) = values {
            made.join(values, self.stop);
        }
        for (slot, mut expr) in computed {
            self.number_rows(&mut made.node, &mut expr);
            made.extend(slot, expr);
        }
        if !order.is_empty() {
            let mut keys = Vec::with_capacity(order.len() + 1);
            if let Some(slot) = self.graph.slot().filter(|_| is_sliced(select)) {
                keys.push(SortKey { slot, descending: false });
            }
            for (expr, descending) in order {
                keys.push(SortKey { slot: self.computed(expr, &mut made), descending });
            }
            made.node = Node::Sort { inner: Operand::new(made.node), keys };
        }
        made
    }

    /// §18.2.4.1: the operator below the groups, and the keys. Only aggregates see the other variables.
    fn groups_of(&mut self, select: &Select, scope: &mut Names) -> Groups {
        let mut names = Names::default();
        let mut keys = Vec::with_capacity(select.group_by.len());
        for item in &select.group_by {
            if let Item::Var(var) | Item::Computed(_, Some(var)) = item {
                names.insert(*var, self.slot(*var, scope));
            }
        }
        let mut inner = self.group(&select.pattern, &mut names);
        for item in &select.group_by {
            keys.push(match item {
                Item::Var(var) => names[var],
                Item::Computed(value, var) => {
                    let mut expr = self.visible(value, &inner.possible, &mut names);
                    self.number_rows(&mut inner.node, &mut expr);
                    match var {
                        Some(var) => {
                            inner.extend(names[var], expr);
                            names[var]
                        }
                        None => self.computed(expr, &mut inner),
                    }
                }
            });
        }
        Groups {
            inner,
            names,
            keys,
            folds: Vec::new(),
            results: Slots::new(),
            samples: FxHashMap::default(),
            computed: Vec::new(),
        }
    }

    /// For aggregates of the only group without GROUP BY: makes their results those of a graph with rows. Returns their
    /// values and the way to compute each from this result or, for a graph without rows, from nothing.
    fn defaults(&mut self, folds: &mut Vec<Aggregate>) -> Vec<(Slot, Expr)> {
        let has_rows = self.fresh("_:rows");
        let mut made = Vec::with_capacity(folds.len());
        for fold in &mut *folds {
            let of_rows = self.fresh("_:aggregate");
            let slot = std::mem::replace(&mut fold.slot, of_rows);
            let of_none = match &fold.fold {
                Fold::Count | Fold::Sum | Fold::Average => {
                    Expr::Constant((self.id)(Literal::new_typed_literal("0", xsd::INTEGER).as_ref().into()))
                }
                Fold::Concat(_) => Expr::Constant((self.id)(Literal::new_simple_literal("").as_ref().into())),
                Fold::Least | Fold::Greatest | Fold::Sample => Expr::Error,
            };
            let (has_rows, of_rows) = (Box::new(Expr::Bound(has_rows)), Box::new(Expr::Slot(of_rows)));
            made.push((slot, Expr::If(has_rows, of_rows, Box::new(of_none))));
        }
        folds.push(Aggregate { slot: has_rows, fold: Fold::Count, of: Vec::new(), rows: true, distinct: false });
        made
    }

    /// The slot of an aggregate's result. Equal aggregates share a slot.
    fn fold(&mut self, aggregate: &ast::Aggregate) -> Expr {
        // The operand of an aggregate sees rows, not groups.
        let mut groups = self.groups.take().expect("the grammar has aggregates where there are groups");
        let fold = match &aggregate.fold {
            FoldName::Count => Fold::Count,
            FoldName::Sum => Fold::Sum,
            FoldName::Average => Fold::Average,
            FoldName::Least => Fold::Least,
            FoldName::Greatest => Fold::Greatest,
            FoldName::Sample => Fold::Sample,
            FoldName::Concat(between) => Fold::Concat(between.clone()),
        };
        let of = match &aggregate.of {
            Some(value) => {
                let expr = self.visible(value, &groups.inner.possible, &mut groups.names);
                let known = groups.computed.iter().find(|(known, _)| *known == expr && !expr.is_volatile());
                let slot = known.map(|(_, slot)| *slot).unwrap_or_else(|| {
                    let slot = self.computed(expr.clone(), &mut groups.inner);
                    groups.computed.push((expr, slot));
                    slot
                });
                vec![slot]
            }
            // COUNT(DISTINCT *) compares variables; blank nodes and computed operands are not part of a solution.
            None if aggregate.distinct => {
                let possible = &groups.inner.possible;
                let of: Slots = groups.names.values().copied().filter(|slot| possible.contains(slot)).collect();
                of.into_iter().collect()
            }
            None => Vec::new(),
        };
        let slot = self.folded(&mut groups, fold, of, aggregate.of.is_none(), aggregate.distinct);
        self.groups = Some(groups);
        Expr::Slot(slot)
    }

    fn folded(&mut self, groups: &mut Groups, fold: Fold, of: Vec<Slot>, rows: bool, distinct: bool) -> Slot {
        let is_it =
            |known: &&Aggregate| (&known.fold, &known.of, known.rows, known.distinct) == (&fold, &of, rows, distinct);
        if let Some(known) = groups.folds.iter().find(is_it) {
            return known.slot;
        }
        let slot = self.fresh("_:aggregate");
        groups.results.insert(slot);
        groups.folds.push(Aggregate { slot, fold, of, rows, distinct });
        slot
    }

    /// The slot of a variable in an expression. §18.2.4.1: outside of aggregates, a variable that is not a key stands
    /// for some value from its group.
    fn meant(&mut self, var: Var, scope: &mut Names) -> Slot {
        if !scope.contains_key(&var)
            && let Some(mut groups) = self.groups.take()
        {
            let below = groups.names.get(&var).copied().filter(|slot| groups.inner.possible.contains(slot));
            let slot = below.map(|below| match groups.samples.get(&below) {
                Some(known) => *known,
                None => {
                    let slot = self.sampled(&mut groups, below);
                    groups.samples.insert(below, slot);
                    slot
                }
            });
            self.groups = Some(groups);
            if let Some(slot) = slot {
                return slot;
            }
        }
        self.slot(var, scope)
    }

    /// The slot of a SAMPLE of a variable.
    fn sampled(&mut self, groups: &mut Groups, of: Slot) -> Slot {
        let slot = self.fresh("_:sample");
        groups.results.insert(slot);
        groups.folds.push(Aggregate { slot, fold: Fold::Sample, of: vec![of], rows: false, distinct: false });
        slot
    }

    /// The slot of an expression's value on top of an operator. Adds an operator to compute it, unless the expression
    /// is a slot.
    fn computed(&mut self, mut expr: Expr, made: &mut Built) -> Slot {
        if let Expr::Slot(slot) = expr {
            return slot;
        }
        self.number_rows(&mut made.node, &mut expr);
        let slot = self.fresh("_:value");
        made.extend(slot, expr);
        slot
    }

    /// §17.4.2.9: BNODE of a label gives one node for all expressions over a solution, and another one for the next
    /// solution. So the rows below all these expressions are numbered, once.
    fn number_rows(&mut self, mut node: &mut Node, expr: &mut Expr) {
        if !expr.has_labelled_blank() {
            return;
        }
        let numbers = Expr::Call(Function::RowNumber, Vec::new());
        let row = loop {
            match node {
                Node::Extend { slot, expr: value, .. } if *value == numbers => break *slot,
                Node::Extend { inner, .. } => node = &mut **inner,
                base => {
                    let slot = self.fresh("_:row");
                    let inner = std::mem::replace(base, Node::unit());
                    *base = Node::Extend { inner: Operand::new(inner), slot, expr: numbers };
                    break slot;
                }
            }
        };
        expr.label_blanks(row);
    }

    // Patterns.

    /// §18.2.2: a group with its filters. These see the whole group.
    fn group(&mut self, group: &ast::Group, scope: &mut Names) -> Built {
        let (mut made, filters) = self.unfiltered(group, scope);
        let conditions = self.conditions(&filters, &made.possible, scope);
        made.node = made.node.filtered(conditions);
        made
    }

    fn conditions(&mut self, filters: &[&Expression], possible: &Slots, scope: &mut Names) -> Vec<Expr> {
        filters.iter().flat_map(|filter| self.visible(filter, possible, scope).conjuncts()).collect()
    }

    /// A group without its filters, and the filters.
    fn unfiltered<'e>(&mut self, group: &'e ast::Group, scope: &mut Names) -> (Built, Vec<&'e Expression>) {
        let mut filters = Vec::new();
        // Endpoints to ask after joining all other operands up to the next such element.
        let mut services: Vec<&ast::Service> = Vec::new();
        // Operands joined since the last element applying to everything before it.
        let mut parts: Vec<Node> = Vec::new();
        let mut possible = Slots::new();
        // Within GRAPH with a variable: whether the operands bind it.
        let mut has_graph = self.graph.slot().is_none();
        for element in &group.elements {
            // Such an element has a set of variables of its own.
            let has_own = matches!(element, Element::Optional(_) | Element::Minus(_) | Element::Bind(..));
            let own = if has_own { possible.len() } else { 0 };
            if self.stop.count_steps(3 * own + 1) || self.stop.count_bytes(2 * size_of::<Slot>() * own) {
                break;
            }
            if has_own {
                self.bind_graph(&mut parts, &mut has_graph);
                self.services(&mut services, &mut parts, &mut possible, scope);
            }
            match element {
                Element::Service(service) => services.push(service),
                Element::Triples(triples) => {
                    let mut bound = Vec::with_capacity(2 * triples.len());
                    for triple in triples {
                        if self.stop.count_steps(PATTERN_STEPS) {
                            break;
                        }
                        let node = self.triple(triple, scope, &mut bound);
                        parts.extend(operands(node));
                    }
                    possible.extend(bound);
                    has_graph |= !triples.is_empty();
                }
                Element::Graph(inner) => {
                    let made = self.in_graph(inner, scope);
                    add_all(&mut possible, made.possible, self.stop);
                    parts.extend(operands(made.node));
                }
                Element::Filter(filter) => filters.push(filter),
                Element::Union(groups) => {
                    let mut all = Vec::with_capacity(groups.len());
                    for group in groups {
                        let made = self.group(group, scope);
                        add_all(&mut possible, made.possible, self.stop);
                        match made.node {
                            Node::Union(inner) => all.extend(inner),
                            other => all.push(other),
                        }
                    }
                    parts.extend(if all.len() == 1 { operands(all.remove(0)) } else { vec![Node::Union(all)] });
                    has_graph = true;
                }
                Element::Values(values) => {
                    let made = self.values(values, scope);
                    add_all(&mut possible, made.possible, self.stop);
                    parts.push(made.node);
                }
                Element::Select(select) => {
                    let made = self.select(select, false, scope);
                    add_all(&mut possible, made.possible, self.stop);
                    parts.push(made.node);
                    has_graph = true;
                }
                Element::Optional(group) => {
                    let (right, filters) = self.unfiltered(group, scope);
                    let left = Operand::new(joined(std::mem::take(&mut parts)));
                    add_all(&mut possible, right.possible, self.stop);
                    // Filters directly inside of OPTIONAL see both sides.
                    let conditions = self.conditions(&filters, &possible, scope);
                    parts.push(Node::LeftJoin { left, right: Operand::new(right.node), conditions });
                }
                Element::Minus(group) => {
                    let right = self.group(group, scope);
                    // Without a shared variable, MINUS removes nothing.
                    if !possible.is_disjoint(&right.possible) {
                        let left = joined(std::mem::take(&mut parts));
                        let (left, right) = (Operand::new(left), Operand::new(right.node));
                        parts.push(Node::Minus { left, right, graph: self.graph.slot() });
                    }
                }
                Element::Bind(value, var) => {
                    let mut expr = self.visible(value, &possible, scope);
                    let mut inner = joined(std::mem::take(&mut parts));
                    self.number_rows(&mut inner, &mut expr);
                    let slot = self.slot(*var, scope);
                    possible.insert(slot);
                    parts.push(Node::Extend { inner: Operand::new(inner), slot, expr });
                }
            }
        }
        self.bind_graph(&mut parts, &mut has_graph);
        self.services(&mut services, &mut parts, &mut possible, scope);
        (Built { node: joined(parts), possible }, filters)
    }

    /// Puts the endpoints on top of the operands: they receive the operands' values.
    fn services(
        &mut self,
        services: &mut Vec<&ast::Service>,
        parts: &mut Vec<Node>,
        possible: &mut Slots,
        scope: &mut Names,
    ) {
        for service in services.drain(..) {
            let names = self.variables;
            let named = |var: &Var| (names[var.0 as usize].clone(), *var);
            let variables: Vec<(String, Var)> = service.variables.iter().map(named).collect();
            let variables: Vec<(String, Slot)> =
                variables.into_iter().map(|(name, var)| (name, self.slot(var, scope))).collect();
            let endpoint = match &service.endpoint {
                ast::Endpoint::Iri(iri) => Endpoint::Iri(iri.as_str().into()),
                ast::Endpoint::Var(var) => Endpoint::Slot(self.slot(*var, scope)),
            };
            possible.extend(variables.iter().map(|(_, slot)| *slot));
            let made = Service {
                endpoint,
                silent: service.silent,
                prologue: Arc::clone(&self.prologue),
                group: service.text.as_str().into(),
                variables,
            };
            let inner = joined(std::mem::take(parts));
            parts.push(Node::Service { inner: Operand::new(inner), service: Arc::new(made) });
        }
    }

    /// Makes the operands bind their graph.
    fn bind_graph(&mut self, parts: &mut Vec<Node>, has_graph: &mut bool) {
        if let At::Slot(slot) = self.graph
            && !std::mem::replace(has_graph, true)
        {
            parts.push(self.graph_names(slot));
        }
    }

    /// The names of all graphs.
    fn graph_names(&mut self, slot: Slot) -> Node {
        let names = self.dataset.names();
        self.stop.count_steps(names.len() / 8);
        self.stop.count_bytes(size_of_val(&*names));
        let rows = names.len();
        Node::Values { slots: vec![slot], table: Arc::new(Table { columns: vec![Column::new(names)], rows }) }
    }

    /// §18.6: the group's solutions in one graph, or those in each graph with its name.
    fn in_graph(&mut self, inner: &InGraph, scope: &mut Names) -> Built {
        let outside = self.graph;
        let made = match &inner.name {
            GraphName::Iri(name) => {
                let name = self.iri(name);
                self.graph = At::Constant(name);
                let mut made = self.group(&inner.group, scope);
                if !self.dataset.has(name) {
                    let slots: Vec<Slot> = made.possible.iter().copied().collect();
                    let columns = slots.iter().map(|_| Column::new(Vec::new())).collect();
                    made.node = Node::Values { slots, table: Arc::new(Table { columns, rows: 0 }) };
                }
                made
            }
            GraphName::Var(var, occurs) => {
                let slot = self.slot(*var, scope);
                self.graph = At::Slot(slot);
                // Inside, the variable has a value only if the group binds it, and this must then be the graph's name.
                // In triples without another reader, it can have the name at once.
                let is_plain = |element: &Element| matches!(element, Element::Triples(_));
                let is_apart = *occurs && !inner.group.elements.iter().all(is_plain);
                let mut made = if is_apart {
                    let variables = self.variables;
                    let inside = self.fresh(&variables[var.0 as usize]);
                    scope.insert(*var, inside);
                    let mut made = self.group(&inner.group, scope);
                    scope.insert(*var, slot);
                    if made.possible.remove(&inside) {
                        let same = Expr::SameTerm(Box::new(Expr::Slot(inside)), Box::new(Expr::Slot(slot)));
                        let is_certain = made.node.scope().certain.contains(&inside);
                        let none = Expr::Not(Box::new(Expr::Bound(inside)));
                        let condition = if is_certain { same } else { Expr::Or(vec![none, same]) };
                        made.node = made.node.filtered(vec![condition]);
                    }
                    made
                } else {
                    self.group(&inner.group, scope)
                };
                made.possible.insert(slot);
                if self.dataset.is_named() {
                    let names = self.graph_names(slot);
                    made.join(Built { node: names, possible: Slots::new() }, self.stop);
                }
                made
            }
        };
        self.graph = outside;
        made
    }

    fn values(&mut self, values: &ast::Values, scope: &mut Names) -> Built {
        let slots: Vec<Slot> = values.variables.iter().map(|var| self.slot(*var, scope)).collect();
        let width = slots.len();
        let mut columns = vec![Vec::with_capacity(values.rows); width];
        for (place, term) in values.terms.iter().enumerate() {
            let id = term.as_ref().map_or(Id::UNBOUND, |term| (self.id)(term.as_ref()));
            columns[place % width].push(id.bits());
        }
        let columns = columns.into_iter().map(Column::new).collect();
        let possible = slots.iter().copied().collect();
        Built { node: Node::Values { slots, table: Arc::new(Table { columns, rows: values.rows }) }, possible }
    }

    fn triple(&mut self, triple: &ast::Triple, scope: &mut Names, possible: &mut Vec<Slot>) -> Node {
        let mut terms = Vec::new();
        let mut ends = [At::Merged; 2];
        for (at, term) in ends.iter_mut().zip([&*triple.subject, &triple.object]) {
            *at = match term {
                Term::Triple(of) => self.triple_term(term, of, &mut terms),
                term => self.at(term, scope),
            };
            possible.extend(at.slot());
        }
        let [subject, object] = ends;
        let node = match &triple.verb {
            Verb::Var(var) => {
                let slot = self.slot(*var, scope);
                possible.push(slot);
                Node::Pattern(Pattern([subject, At::Slot(slot), object, self.graph]))
            }
            Verb::Path(path) => self.path(subject, path, object),
        };
        if terms.is_empty() { node } else { self.with_terms(node, terms, scope, possible) }
    }

    fn at(&mut self, term: &Term, scope: &mut Names) -> At {
        match term {
            Term::Iri(node) => At::Constant(self.iri(node)),
            Term::Literal(literal) => At::Constant((self.id)(literal.as_ref().into())),
            Term::Var(var) => At::Slot(self.slot(*var, scope)),
            Term::Triple(_) => unreachable!("triple terms are slots or constants: `triple_term`"),
            Term::Blank(number) => {
                if let Some(slot) = self.blanks.get(number) {
                    return At::Slot(*slot);
                }
                let slot = self.fresh(&format!("_:b{number}"));
                self.blanks.insert(*number, slot);
                At::Slot(slot)
            }
        }
    }

    /// §18.2.2.4, §9.3 and §18.4.
    fn path(&mut self, subject: At, path: &ast::Path, object: At) -> Node {
        match path {
            ast::Path::Iri(node) => Node::Pattern(Pattern([subject, At::Constant(self.iri(node)), object, self.graph])),
            ast::Path::Inverse(inner) => self.path(object, inner, subject),
            ast::Path::Sequence(steps) => {
                let mut all = Vec::with_capacity(steps.len());
                let mut from = subject;
                for (number, step) in steps.iter().enumerate() {
                    let is_last = number + 1 == steps.len();
                    let to = if is_last { object } else { At::Slot(self.fresh("_:path")) };
                    all.extend(operands(self.path(from, step, to)));
                    from = to;
                }
                joined(all)
            }
            ast::Path::Alternative(paths) => {
                Node::Union(paths.iter().map(|path| self.path(subject, path, object)).collect())
            }
            ast::Path::Not(forward, backward) if backward.is_empty() => self.not_path(subject, forward, object),
            ast::Path::Not(forward, backward) if forward.is_empty() => self.not_path(object, backward, subject),
            ast::Path::Not(forward, backward) => {
                let there = self.not_path(subject, forward, object);
                Node::Union(vec![there, self.not_path(object, backward, subject)])
            }
            ast::Path::Optional(_) | ast::Path::Any(_) | ast::Path::Many(_) => {
                Node::Path(Path { subject, route: Arc::new(self.route(path)), object, graph: self.graph })
            }
        }
    }

    /// A step by any predicate except these.
    fn not_path(&mut self, subject: At, nodes: &[NamedNode], object: At) -> Node {
        let slot = self.fresh("_:path");
        let mut conditions = Vec::with_capacity(nodes.len());
        for node in nodes {
            let node = Box::new(Expr::Constant(self.iri(node)));
            conditions.push(Expr::Compare(Compare::NotEqual, Box::new(Expr::Slot(slot)), node));
        }
        Node::Pattern(Pattern([subject, At::Slot(slot), object, self.graph])).filtered(conditions)
    }

    /// A path reduced to its ends.
    fn route(&mut self, path: &ast::Path) -> Route {
        let mut not = |nodes: &[NamedNode]| Route::Not(nodes.iter().map(|node| self.iri(node)).collect());
        match path {
            ast::Path::Iri(node) => Route::Step(self.iri(node)),
            ast::Path::Not(forward, backward) if backward.is_empty() => not(forward),
            ast::Path::Not(forward, backward) if forward.is_empty() => Route::Reverse(Box::new(not(backward))),
            ast::Path::Not(forward, backward) => {
                let back = Route::Reverse(Box::new(not(backward)));
                Route::Either(Box::new(not(forward)), Box::new(back))
            }
            ast::Path::Inverse(path) => Route::Reverse(Box::new(self.route(path))),
            ast::Path::Sequence(all) => self.routes(all, Route::Sequence),
            ast::Path::Alternative(all) => self.routes(all, Route::Either),
            ast::Path::Optional(path) => Route::Optional(Box::new(self.route(path))),
            ast::Path::Any(path) => Route::Any(Box::new(self.route(path))),
            ast::Path::Many(path) => Route::Many(Box::new(self.route(path))),
        }
    }

    /// Combines paths in pairs, then the pairs in pairs, so a long list makes no deep tree.
    fn routes(&mut self, paths: &[ast::Path], pair: fn(Box<Route>, Box<Route>) -> Route) -> Route {
        match paths {
            [path] => self.route(path),
            paths => {
                let (first, second) = paths.split_at(paths.len() / 2);
                let first = self.routes(first, pair);
                pair(Box::new(first), Box::new(self.routes(second, pair)))
            }
        }
    }

    // Expressions.

    /// An expression with only these slots visible: all other variables fail.
    fn visible(&mut self, expression: &Expression, possible: &Slots, scope: &mut Names) -> Expr {
        if self.stop.poll() {
            return Expr::Error;
        }
        let mut expr = if expression.has_exists() {
            let mut inside = possible.clone();
            inside.extend(&self.outer);
            self.stop.count_steps(inside.len());
            let outer = std::mem::replace(&mut self.outer, inside);
            let expr = self.expression(expression, scope);
            self.outer = outer;
            expr
        } else {
            self.expression(expression, scope)
        };
        let none = Slots::new();
        let results = self.groups.as_ref().map_or(&none, |groups| &groups.results);
        let graph = self.graph.slot();
        let is_seen = |slot: Slot| {
            possible.contains(&slot) || self.outer.contains(&slot) || results.contains(&slot) || Some(slot) == graph
        };
        expr.replace(&|slot| if is_seen(slot) { Expr::Slot(slot) } else { Expr::Error });
        expr
    }

    fn expression(&mut self, expression: &Expression, scope: &mut Names) -> Expr {
        match expression {
            Expression::Iri(node) => Expr::Constant(self.iri(node)),
            Expression::Literal(literal) => Expr::Constant((self.id)(literal.as_ref().into())),
            Expression::Var(var, _) => Expr::Slot(self.meant(*var, scope)),
            Expression::Bound(var, _) => Expr::Bound(self.meant(*var, scope)),
            Expression::Or(all) => Expr::Or(self.expressions(all, scope)),
            Expression::And(all) => Expr::And(self.expressions(all, scope)),
            // NOT of an error is an error, too.
            Expression::Not(inner) => match self.expression(inner, scope) {
                Expr::Compare(Compare::Equal, a, b) => Expr::Compare(Compare::NotEqual, a, b),
                other => Expr::Not(Box::new(other)),
            },
            Expression::Compare(operator, a, b) => Expr::Compare(*operator, self.boxed(a, scope), self.boxed(b, scope)),
            Expression::In(needle, all) => Expr::In(self.boxed(needle, scope), Arc::new(self.expressions(all, scope))),
            Expression::Chain(first, others) => {
                let mut made = self.expression(first, scope);
                for (operator, other) in others {
                    let operator: Arithmetic = *operator;
                    made = Expr::Arithmetic(operator, Box::new(made), self.boxed(other, scope));
                }
                made
            }
            Expression::Negate(inner) => Expr::Negate(self.boxed(inner, scope)),
            Expression::Plus(inner) => Expr::Plus(self.boxed(inner, scope)),
            Expression::If(all) => {
                let [condition, yes, no] = &**all;
                Expr::If(self.boxed(condition, scope), self.boxed(yes, scope), self.boxed(no, scope))
            }
            Expression::Coalesce(all) => Expr::Coalesce(self.expressions(all, scope)),
            Expression::SameTerm(both) => {
                let [a, b] = &**both;
                Expr::SameTerm(self.boxed(a, scope), self.boxed(b, scope))
            }
            Expression::Call(function, operands) => Expr::Call(*function, self.expressions(operands, scope)),
            Expression::Unknown(_) => Expr::Error,
            Expression::Exists(group) => {
                self.stop.count_steps(scope.len());
                // Slots never bound outside belong to the pattern, even if a variable outside has the same name.
                let visible = scope.iter().filter(|(_, slot)| self.outer.contains(slot));
                let mut inside: Names = visible.map(|(var, slot)| (*var, *slot)).collect();
                let groups = self.groups.take();
                let node = self.group(group, &mut inside).node;
                self.groups = groups;
                let mut outside = node.mentioned();
                outside.retain(|slot| self.outer.contains(slot) || Some(*slot) == self.graph.slot());
                Expr::Exists(Arc::new(node), outside.into_iter().map(|slot| (slot, Expr::Slot(slot))).collect())
            }
            Expression::Aggregate(aggregate) => self.fold(aggregate),
        }
    }

    fn boxed(&mut self, expression: &Expression, scope: &mut Names) -> Box<Expr> {
        Box::new(self.expression(expression, scope))
    }

    fn expressions(&mut self, expressions: &[Expression], scope: &mut Names) -> Vec<Expr> {
        expressions.iter().map(|expression| self.expression(expression, scope)).collect()
    }
}
