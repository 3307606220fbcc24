//! A query or an update as written, with names resolved. Every rule of the grammar holds.

use crate::expression::{Arithmetic, Compare, Function};
use oxiri::Iri;
use oxrdf::{Literal, NamedNode};
use std::sync::Arc;

/// A variable, by the place of its name in [`Query::variables`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Var(pub(crate) u32);

/// A query.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) form: Form,
    /// The base of the function IRI.
    pub(crate) base: Option<Arc<Iri<String>>>,
    /// The prefixes and their IRIs, as declared last. The operations of an update share them.
    pub(crate) prefixes: Arc<[(String, String)]>,
    /// The variables' names without `?`, in the order of the text.
    pub(crate) variables: Vec<String>,
    /// The graphs named with FROM and FROM NAMED.
    pub(crate) dataset: Option<Dataset>,
    /// Its pattern and modifiers. The projection is empty for an ASK, and has the variables of the template of a
    /// CONSTRUCT, and those that a DESCRIBE names.
    pub(crate) select: Select,
    /// The greatest number of levels of its tree.
    pub(crate) depth: usize,
}

/// The graphs read by a query: SPARQL 1.1, §13.2.
#[derive(Clone, Default, Debug)]
pub(crate) struct Dataset {
    /// The default graph is the merge of these.
    pub(crate) default: Vec<NamedNode>,
    /// The named graphs; `None` for all of them.
    pub(crate) named: Option<Vec<NamedNode>>,
}

/// The result made of a query's solutions.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Select,
    Ask,
    /// The triples of this template, with variables and IRIs as verbs.
    Construct(Vec<Triple>),
    /// The descriptions of the projected variables' values and of these resources.
    Describe(Vec<NamedNode>),
}

/// An update.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) operations: Vec<Operation>,
    /// The greatest number of levels of its tree.
    pub(crate) depth: usize,
}

/// An operation of an update. A graph without a name is the default graph.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Load {
        silent: bool,
        from: NamedNode,
        into: Option<NamedNode>,
    },
    /// CLEAR and DROP. They differ only if graphs without quads exist. No named graph has to exist, so SILENT changes
    /// nothing.
    Clear(Graphs),
    Create {
        silent: bool,
        graph: NamedNode,
    },
    Transfer {
        how: Transfer,
        silent: bool,
        from: Option<NamedNode>,
        to: Option<NamedNode>,
    },
    /// INSERT DATA; the quads have no variables.
    Insert(Vec<Quads>),
    /// DELETE DATA; the quads have neither variables nor blank nodes.
    Delete(Vec<Quads>),
    /// DELETE and INSERT for each solution of WHERE.
    Modify(Box<Modify>),
}

/// The graphs emptied by CLEAR and DROP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Graphs {
    Default,
    Named,
    All,
    One(NamedNode),
}

/// The change of two graphs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// ADD: the second has the triples of both.
    Add,
    /// COPY: the second has those of the first instead of its own.
    Copy,
    /// MOVE: as COPY, and the first has none any more.
    Move,
}

/// Triples of one graph in a template or in data.
#[derive(Clone, Debug)]
pub(crate) struct Quads {
    /// An IRI or a variable; `None` for the default graph.
    pub(crate) graph: Option<Term>,
    /// Their verbs are variables and IRIs.
    pub(crate) triples: Vec<Triple>,
}

/// A pattern, and the templates to fill for each of its solutions.
#[derive(Clone, Debug)]
pub(crate) struct Modify {
    pub(crate) delete: Vec<Quads>,
    pub(crate) insert: Vec<Quads>,
    /// Its projection has the variables of both templates, ascending.
    pub(crate) query: Query,
}

/// A query or a sub-query.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    /// Empty for the `*` of a sub-query.
    pub(crate) projection: Vec<Item>,
    /// `SELECT *`: all names of the pattern are visible outside.
    pub(crate) is_star: bool,
    pub(crate) distinct: bool,
    pub(crate) pattern: Group,
    pub(crate) group_by: Vec<Item>,
    pub(crate) having: Vec<Expression>,
    pub(crate) order_by: Vec<OrderKey>,
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
    pub(crate) values: Option<Values>,
    /// Whether it has GROUP BY or an aggregate.
    pub(crate) is_grouped: bool,
}

impl Select {
    /// A pattern without modifiers.
    pub(crate) fn of(pattern: Group) -> Select {
        Select {
            projection: Vec::new(),
            is_star: false,
            distinct: false,
            pattern,
            group_by: Vec::new(),
            having: Vec::new(),
            order_by: Vec::new(),
            offset: 0,
            limit: None,
            values: None,
            is_grouped: false,
        }
    }

    /// The variables of the projection, in order.
    pub(crate) fn projected(&self) -> impl Iterator<Item = Var> {
        self.projection.iter().filter_map(|item| match item {
            Item::Var(var) | Item::Computed(_, Some(var)) => Some(*var),
            Item::Computed(_, None) => None,
        })
    }
}

/// A variable or a computed value of SELECT or GROUP BY.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Var(Var),
    /// A key of GROUP BY may have no name.
    Computed(Expression, Option<Var>),
}

/// A key of ORDER BY.
#[derive(Clone, Debug)]
pub(crate) struct OrderKey {
    pub(crate) value: Expression,
    pub(crate) descending: bool,
}

/// The pattern between two braces.
#[derive(Clone, Default, Debug)]
pub(crate) struct Group {
    pub(crate) elements: Vec<Element>,
}

/// A part of a group.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Triples(Vec<Triple>),
    Filter(Expression),
    Bind(Expression, Var),
    Optional(Group),
    Minus(Group),
    /// With one group: this group.
    Union(Vec<Group>),
    Values(Values),
    Select(Box<Select>),
    Graph(InGraph),
    Service(Service),
}

/// A group matched in a named graph, or in each.
#[derive(Clone, Debug)]
pub(crate) struct InGraph {
    pub(crate) name: GraphName,
    pub(crate) group: Group,
}

/// The content after GRAPH.
#[derive(Clone, Debug)]
pub(crate) enum GraphName {
    Iri(NamedNode),
    /// A variable, and whether it occurs in the group as well.
    Var(Var, bool),
}

/// A group answered by an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) endpoint: Endpoint,
    /// Whether a failure is an answer: one solution without values.
    pub(crate) silent: bool,
    /// The group as written, with its braces.
    pub(crate) text: String,
    /// The variables possibly bound by the group, ascending.
    pub(crate) variables: Vec<Var>,
}

/// The endpoint of a group.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Iri(NamedNode),
    Var(Var),
}

/// A triple pattern, or a path between two terms.
#[derive(Clone, Debug)]
pub(crate) struct Triple {
    /// Shared by the triples of one list of predicates and objects; the verb is shared by the triples of its objects.
    pub(crate) subject: Arc<Term>,
    pub(crate) verb: Verb,
    pub(crate) object: Term,
}

impl Triple {
    /// Calls `found` for each variable in it.
    pub(crate) fn each_variable(&self, found: &mut impl FnMut(Var)) {
        self.subject.each_variable(found);
        if let Verb::Var(var) = self.verb {
            found(var);
        }
        self.object.each_variable(found);
    }
}

/// A subject or an object of a triple pattern, or a part of a triple term.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Term {
    Iri(NamedNode),
    Literal(Literal),
    Var(Var),
    /// A blank node, by number: equal labels have the same number.
    Blank(u32),
    /// A triple term. Where it has neither variables nor blank nodes, see [`Term::constant`].
    Triple(Arc<TripleTerm>),
}

/// A triple term that may have variables and blank nodes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TripleTerm {
    pub(crate) subject: Term,
    /// An IRI or a variable.
    pub(crate) predicate: Term,
    pub(crate) object: Term,
}

impl TripleTerm {
    pub(crate) fn parts(&self) -> [&Term; 3] {
        [&self.subject, &self.predicate, &self.object]
    }
}

impl Term {
    /// Calls `found` for each variable in it.
    pub(crate) fn each_variable(&self, found: &mut impl FnMut(Var)) {
        match self {
            Term::Var(var) => found(*var),
            Term::Triple(triple) => triple.parts().into_iter().for_each(|part| part.each_variable(found)),
            Term::Iri(_) | Term::Literal(_) | Term::Blank(_) => {}
        }
    }

    /// The term, if it has neither variables nor blank nodes. The subject of a triple term must not be a literal.
    pub(crate) fn constant(&self) -> Option<oxrdf::Term> {
        Some(match self {
            Term::Iri(iri) => iri.clone().into(),
            Term::Literal(literal) => literal.clone().into(),
            Term::Var(_) | Term::Blank(_) => return None,
            Term::Triple(triple) => {
                let (Term::Iri(subject), Term::Iri(predicate)) = (&triple.subject, &triple.predicate) else {
                    return None;
                };
                oxrdf::Triple::new(subject.clone(), predicate.clone(), triple.object.constant()?).into()
            }
        })
    }
}

/// The predicate or path of a triple pattern.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Var(Var),
    Path(Arc<Path>),
}

/// A property path.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    Iri(NamedNode),
    Inverse(Box<Path>),
    Sequence(Vec<Path>),
    Alternative(Vec<Path>),
    /// Any predicate but these, forward and backward. If both lists are empty, any predicate, forward.
    Not(Vec<NamedNode>, Vec<NamedNode>),
    Optional(Box<Path>),
    Any(Box<Path>),
    Many(Box<Path>),
}

/// A table; `None` is UNDEF.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) variables: Vec<Var>,
    /// Row by row, one term for each variable.
    pub(crate) terms: Vec<Option<oxrdf::Term>>,
    pub(crate) rows: usize,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Iri(NamedNode),
    Literal(Literal),
    /// A variable, and its position in the text.
    Var(Var, u32),
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Compare, Box<Expression>, Box<Expression>),
    In(Box<Expression>, Vec<Expression>),
    /// Operators of one precedence, applied from left to right.
    Chain(Box<Expression>, Vec<(Arithmetic, Expression)>),
    Negate(Box<Expression>),
    Plus(Box<Expression>),
    Bound(Var, u32),
    If(Box<[Expression; 3]>),
    Coalesce(Vec<Expression>),
    SameTerm(Box<[Expression; 2]>),
    Call(Function, Vec<Expression>),
    /// The call of an unknown function: the call fails.
    Unknown(Vec<Expression>),
    Exists(Group),
    Aggregate(Box<Aggregate>),
}

/// How an aggregate folds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FoldName {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    Sample,
    /// The texts, with this separator between them.
    Concat(String),
}

/// The call of an aggregate; `COUNT(*)` has no expression.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) fold: FoldName,
    pub(crate) distinct: bool,
    pub(crate) of: Option<Expression>,
}

impl Expression {
    /// Whether an EXISTS occurs.
    pub(crate) fn has_exists(&self) -> bool {
        match self {
            Expression::Exists(_) => true,
            Expression::Aggregate(aggregate) => aggregate.of.as_ref().is_some_and(Expression::has_exists),
            other => other.operands().into_iter().any(Expression::has_exists),
        }
    }

    /// The direct operands. The pattern of EXISTS and the operand of an aggregate are not among them.
    pub(crate) fn operands(&self) -> Vec<&Expression> {
        match self {
            Expression::Iri(_)
            | Expression::Literal(_)
            | Expression::Var(..)
            | Expression::Bound(..)
            | Expression::Exists(_)
            | Expression::Aggregate(_) => Vec::new(),
            Expression::Or(all)
            | Expression::And(all)
            | Expression::Coalesce(all)
            | Expression::Call(_, all)
            | Expression::Unknown(all) => all.iter().collect(),
            Expression::Not(a) | Expression::Negate(a) | Expression::Plus(a) => vec![a],
            Expression::Compare(_, a, b) => vec![a, b],
            Expression::In(a, all) => std::iter::once(&**a).chain(all).collect(),
            Expression::Chain(first, others) => {
                std::iter::once(&**first).chain(others.iter().map(|(_, one)| one)).collect()
            }
            Expression::If(all) => all.iter().collect(),
            Expression::SameTerm(all) => all.iter().collect(),
        }
    }

    /// Calls `found` for each variable outside of aggregates and EXISTS.
    pub(crate) fn each_bare_variable(&self, found: &mut impl FnMut(Var, u32)) {
        match self {
            Expression::Var(var, place) | Expression::Bound(var, place) => found(*var, *place),
            other => other.operands().into_iter().for_each(|one| one.each_bare_variable(found)),
        }
    }
}
