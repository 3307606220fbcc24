//! From spargebra's tree of names and terms to ours of slots and ids.

use crate::algebra::{Aggregate, At, Column, Fold, Group, Node, Path, Pattern, Slot, Slots, SortKey, Table};
use crate::error::{QueryError, QueryErrorKind};
use crate::expression::{Arithmetic, Cast, Compare, Expr, Function, Hash, Part};
use crate::nesting::LONGEST;
use crate::route::Route;
use oxrdf::{NamedNode, TermRef, Variable};
use rustc_hash::FxHashMap;
use spargebra::Query;
use spargebra::algebra::{
    self as spargebra_algebra, AggregateExpression, AggregateFunction, GraphPattern, OrderExpression,
    PropertyPathExpression,
};
use spargebra::term::{GroundTerm, NamedNodePattern, TermPattern, TriplePattern};
use std::sync::Arc;
use vicus_rdf::Id;

/// A query in our algebra.
pub(crate) struct Translated {
    pub(crate) node: Node,
    /// Projected variables with their names, in order; `None` for ASK.
    pub(crate) select: Option<Vec<(String, Slot)>>,
    /// The name of each slot, for people: blank nodes and inner variables have some name too.
    pub(crate) names: Vec<String>,
}

/// Turns terms to ids by `id`, which has to give equal terms the same id.
pub(crate) fn translate(query: &Query, id: &mut dyn FnMut(TermRef<'_>) -> Id) -> Result<Translated, QueryError> {
    let (pattern, dataset, is_ask) = match query {
        Query::Select { pattern, dataset, .. } => (pattern, dataset, false),
        Query::Ask { pattern, dataset, .. } => (pattern, dataset, true),
        Query::Construct { .. } => return Err(QueryError::unsupported("CONSTRUCT queries")),
        Query::Describe { .. } => return Err(QueryError::unsupported("DESCRIBE queries")),
    };
    if dataset.is_some() {
        return Err(QueryError::unsupported("FROM clauses"));
    }
    let mut translator = Translator { id, names: Vec::new(), outer: Slots::new(), computed: 0 };
    let mut scope = Names::default();
    let node = translator.pattern(pattern, &mut scope)?;
    let mut select = None;
    if !is_ask {
        let variables = projected(pattern);
        let slot = |variable: &Variable| (variable.as_str().to_owned(), scope[variable.as_str()]);
        select = Some(variables.iter().map(slot).collect());
    }
    Ok(Translated { node, select, names: translator.names })
}

/// The variables of the outermost projection.
fn projected(pattern: &GraphPattern) -> &[Variable] {
    match pattern {
        GraphPattern::Project { variables, .. } => variables,
        GraphPattern::Distinct { inner } | GraphPattern::Reduced { inner } | GraphPattern::Slice { inner, .. } => {
            projected(inner)
        }
        _ => &[],
    }
}

/// Which slot a name stands for, inside one SELECT.
type Names = FxHashMap<String, Slot>;

struct Translator<'a> {
    id: &'a mut dyn FnMut(TermRef<'_>) -> Id,
    names: Vec<String>,
    /// What a solution outside of the EXISTS that is being translated may bind.
    outer: Slots,
    /// Values that are computed so far.
    computed: usize,
}

impl Translator<'_> {
    fn fresh(&mut self, name: &str) -> Slot {
        self.names.push(name.to_owned());
        Slot(self.names.len() - 1)
    }

    fn slot(&mut self, name: &str, scope: &mut Names) -> Slot {
        if let Some(slot) = scope.get(name) {
            return *slot;
        }
        let slot = self.fresh(name);
        scope.insert(name.to_owned(), slot);
        slot
    }

    fn iri(&mut self, node: &NamedNode) -> Id {
        (self.id)(node.as_ref().into())
    }

    fn pattern(&mut self, pattern: &GraphPattern, scope: &mut Names) -> Result<Node, QueryError> {
        Ok(match pattern {
            GraphPattern::Bgp { patterns } => {
                Node::Join(patterns.iter().map(|triple| Node::Pattern(self.triple(triple, scope))).collect())
            }
            GraphPattern::Path { subject, path, object } => {
                let subject = self.at(subject, scope);
                let object = self.at(object, scope);
                self.path(subject, path, object)?
            }
            GraphPattern::Join { left, right } => {
                let mut all = Vec::new();
                for side in [left, right] {
                    match self.pattern(side, scope)? {
                        Node::Join(inner) => all.extend(inner),
                        other => all.push(other),
                    }
                }
                Node::Join(all)
            }
            GraphPattern::LeftJoin { left, right, expression } => {
                let left = Box::new(self.pattern(left, scope)?);
                let right = Box::new(self.pattern(right, scope)?);
                let mut node = Node::LeftJoin { left, right, conditions: Vec::new() };
                if let Some(expression) = expression {
                    let made = self.visible(expression, &node, scope)?.conjuncts();
                    let Node::LeftJoin { conditions, .. } = &mut node else { unreachable!("made above") };
                    *conditions = made;
                }
                node
            }
            GraphPattern::Filter { expr, inner } => {
                let inner = self.pattern(inner, scope)?;
                let conditions = self.visible(expr, &inner, scope)?.conjuncts();
                inner.filtered(conditions)
            }
            GraphPattern::Union { left, right } => {
                let mut all = Vec::new();
                for side in [left, right] {
                    match self.pattern(side, scope)? {
                        Node::Union(inner) => all.extend(inner),
                        other => all.push(other),
                    }
                }
                Node::Union(all)
            }
            GraphPattern::Extend { inner, variable, expression } => {
                self.count_computed()?;
                let mut inner = self.pattern(inner, scope)?;
                let mut expr = self.visible(expression, &inner, scope)?;
                self.number_rows(&mut inner, &mut expr);
                let slot = self.slot(variable.as_str(), scope);
                Node::Extend(Box::new(inner), slot, expr)
            }
            GraphPattern::Minus { left, right } => {
                let (left, right) = (self.pattern(left, scope)?, self.pattern(right, scope)?);
                // Solutions without a variable in common never take each other away.
                if left.scope().possible.is_disjoint(&right.scope().possible) {
                    left
                } else {
                    Node::Minus(Box::new(left), Box::new(right))
                }
            }
            GraphPattern::Values { variables, bindings } => {
                let slots: Vec<Slot> = variables.iter().map(|variable| self.slot(variable.as_str(), scope)).collect();
                let mut term = |term: &Option<GroundTerm>| match term {
                    None => Id::UNBOUND,
                    Some(GroundTerm::NamedNode(node)) => (self.id)(node.as_ref().into()),
                    Some(GroundTerm::Literal(literal)) => (self.id)(literal.as_ref().into()),
                };
                let column = |place: usize| bindings.iter().map(|row| term(&row[place]).bits()).collect();
                let columns = (0..slots.len()).map(column).map(Column::new).collect();
                Node::Values(slots, Arc::new(Table { columns, rows: bindings.len() }))
            }
            GraphPattern::OrderBy { inner, expression } => {
                let mut node = self.pattern(inner, scope)?;
                let mut keys = Vec::new();
                for key in expression {
                    let (expression, descending) = match key {
                        OrderExpression::Asc(expression) => (expression, false),
                        OrderExpression::Desc(expression) => (expression, true),
                    };
                    let slot = self.computed(expression, &mut node, scope)?;
                    keys.push(SortKey { slot, descending });
                }
                Node::Sort(Box::new(node), keys)
            }
            GraphPattern::Project { inner, variables } => {
                // Only projected variables are those of the outside.
                let slots: Vec<Slot> = variables.iter().map(|variable| self.slot(variable.as_str(), scope)).collect();
                let names = variables.iter().map(|variable| variable.as_str().to_owned());
                let mut inside: Names = names.zip(slots.iter().copied()).collect();
                Node::Project(Box::new(self.pattern(inner, &mut inside)?), slots)
            }
            GraphPattern::Distinct { inner } => Node::Distinct(Box::new(self.pattern(inner, scope)?)),
            // REDUCED may keep all duplicates.
            GraphPattern::Reduced { inner } => self.pattern(inner, scope)?,
            GraphPattern::Slice { inner, start, length } => {
                Node::Slice(Box::new(self.pattern(inner, scope)?), *start, *length)
            }
            GraphPattern::Graph { .. } => return Err(QueryError::unsupported("GRAPH patterns")),
            GraphPattern::Group { inner, variables, aggregates } => self.group(inner, variables, aggregates, scope)?,
            GraphPattern::Service { .. } => return Err(QueryError::unsupported("SERVICE patterns")),
            #[allow(
                unreachable_patterns,
                reason = "the parser has more patterns where another crate of the build asks for its extensions"
            )]
            _ => return Err(QueryError::unsupported("extensions of SPARQL 1.1")),
        })
    }

    /// §18.2.4.1. What is not a key is seen by the aggregates only.
    fn group(
        &mut self,
        inner: &GraphPattern,
        variables: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        scope: &mut Names,
    ) -> Result<Node, QueryError> {
        let keys: Vec<Slot> = variables.iter().map(|variable| self.slot(variable.as_str(), scope)).collect();
        let names = variables.iter().map(|variable| variable.as_str().to_owned());
        let mut inside: Names = names.zip(keys.iter().copied()).collect();
        let mut node = self.pattern(inner, &mut inside)?;
        let mut folds = Vec::new();
        for (variable, aggregate) in aggregates {
            let slot = self.slot(variable.as_str(), scope);
            folds.push(match aggregate {
                AggregateExpression::CountSolutions { distinct } => {
                    let possible = node.scope().possible;
                    // Blank nodes and what was computed for aggregates are no part of a solution.
                    let is_variable = |(name, slot): (&String, &Slot)| {
                        (!name.starts_with("_:") && possible.contains(slot)).then_some(*slot)
                    };
                    let of: Slots =
                        if *distinct { inside.iter().filter_map(is_variable).collect() } else { Slots::new() };
                    let of = of.into_iter().collect();
                    Aggregate { slot, fold: Fold::Count, of, rows: true, distinct: *distinct }
                }
                AggregateExpression::FunctionCall { name, expr, distinct } => {
                    let of = self.computed(expr, &mut node, &mut inside)?;
                    let fold = match name {
                        AggregateFunction::Count => Fold::Count,
                        AggregateFunction::Sum => Fold::Sum,
                        AggregateFunction::Avg => Fold::Average,
                        AggregateFunction::Min => Fold::Least,
                        AggregateFunction::Max => Fold::Greatest,
                        AggregateFunction::Sample => Fold::Sample,
                        AggregateFunction::GroupConcat { separator } => {
                            Fold::Concat(separator.clone().unwrap_or_else(|| " ".to_owned()))
                        }
                        AggregateFunction::Custom(name) => return Err(QueryError::unknown_function(name.as_str())),
                    };
                    Aggregate { slot, fold, of: vec![of], rows: false, distinct: *distinct }
                }
            });
        }
        Ok(Node::Group(Group { inner: Box::new(node), keys, folds }))
    }

    /// Each computed value stands on the one before: planning takes time in the square of their number.
    fn count_computed(&mut self) -> Result<(), QueryError> {
        self.computed += 1;
        if self.computed > LONGEST {
            return Err(QueryError {
                message: format!(
                    "more than {LONGEST} values are computed by SELECT, BIND, GROUP BY, HAVING and ORDER BY"
                ),
                line: 0,
                column: 0,
                kind: QueryErrorKind::TooLarge,
            });
        }
        Ok(())
    }

    /// The slot that has an expression's value on top of a node, which computes it if need be.
    fn computed(
        &mut self,
        expression: &spargebra_algebra::Expression,
        node: &mut Node,
        scope: &mut Names,
    ) -> Result<Slot, QueryError> {
        let mut expr = self.visible(expression, node, scope)?;
        if let Expr::Slot(slot) = expr {
            return Ok(slot);
        }
        self.count_computed()?;
        self.number_rows(node, &mut expr);
        let slot = self.fresh("_:value");
        let inner = std::mem::replace(node, Node::unit());
        *node = Node::Extend(Box::new(inner), slot, expr);
        Ok(slot)
    }

    /// §17.4.2.9: BNODE of a label is one node for all expressions over a solution, and another for the next solution.
    /// So the rows below all the expressions are numbered, once.
    fn number_rows(&mut self, mut node: &mut Node, expr: &mut Expr) {
        if !expr.has_labelled_blank() {
            return;
        }
        let numbers = Expr::Call(Function::RowNumber, Vec::new());
        let row = loop {
            match node {
                Node::Extend(_, slot, value) if *value == numbers => break *slot,
                Node::Extend(inner, ..) => node = &mut **inner,
                base => {
                    let slot = self.fresh("_:row");
                    let inner = std::mem::replace(base, Node::unit());
                    *base = Node::Extend(Box::new(inner), slot, numbers);
                    break slot;
                }
            }
        };
        expr.label_blanks(row);
    }

    fn triple(&mut self, triple: &TriplePattern, scope: &mut Names) -> Pattern {
        let predicate = match &triple.predicate {
            NamedNodePattern::NamedNode(node) => At::Constant(self.iri(node)),
            NamedNodePattern::Variable(variable) => At::Slot(self.slot(variable.as_str(), scope)),
        };
        Pattern([self.at(&triple.subject, scope), predicate, self.at(&triple.object, scope)])
    }

    fn at(&mut self, term: &TermPattern, scope: &mut Names) -> At {
        match term {
            TermPattern::NamedNode(node) => At::Constant(self.iri(node)),
            TermPattern::Literal(literal) => At::Constant((self.id)(literal.as_ref().into())),
            TermPattern::Variable(variable) => At::Slot(self.slot(variable.as_str(), scope)),
            // The grammar lets a label stand in one basic graph pattern only, and no variable begins like this.
            TermPattern::BlankNode(node) => At::Slot(self.slot(&node.to_string(), scope)),
        }
    }

    /// §18.2.2.4 and §9.3, and §18.4.
    fn path(&mut self, subject: At, path: &PropertyPathExpression, object: At) -> Result<Node, QueryError> {
        Ok(match path {
            PropertyPathExpression::NamedNode(node) => {
                Node::Pattern(Pattern([subject, At::Constant(self.iri(node)), object]))
            }
            PropertyPathExpression::Reverse(inner) => self.path(object, inner, subject)?,
            PropertyPathExpression::Sequence(first, second) => {
                let middle = At::Slot(self.fresh("_:path"));
                Node::Join(vec![self.path(subject, first, middle)?, self.path(middle, second, object)?])
            }
            PropertyPathExpression::Alternative(first, second) => {
                Node::Union(vec![self.path(subject, first, object)?, self.path(subject, second, object)?])
            }
            PropertyPathExpression::NegatedPropertySet(nodes) => {
                let slot = self.fresh("_:path");
                let differs = |node| {
                    let node = Box::new(Expr::Constant(self.iri(node)));
                    Expr::Compare(Compare::NotEqual, Box::new(Expr::Slot(slot)), node)
                };
                let conditions = nodes.iter().map(differs).collect();
                Node::Pattern(Pattern([subject, At::Slot(slot), object])).filtered(conditions)
            }
            PropertyPathExpression::ZeroOrMore(_)
            | PropertyPathExpression::OneOrMore(_)
            | PropertyPathExpression::ZeroOrOne(_) => {
                Node::Path(Path { subject, route: Arc::new(self.route(path)), object })
            }
        })
    }

    /// A path whose ends alone count.
    fn route(&mut self, path: &PropertyPathExpression) -> Route {
        let mut inner = |path| Box::new(self.route(path));
        match path {
            PropertyPathExpression::NamedNode(node) => Route::Step(self.iri(node)),
            PropertyPathExpression::NegatedPropertySet(nodes) => {
                Route::Not(nodes.iter().map(|node| self.iri(node)).collect())
            }
            PropertyPathExpression::Reverse(path) => Route::Reverse(inner(path)),
            PropertyPathExpression::Sequence(a, b) => Route::Sequence(inner(a), inner(b)),
            PropertyPathExpression::Alternative(a, b) => Route::Either(inner(a), inner(b)),
            PropertyPathExpression::ZeroOrOne(path) => Route::Optional(inner(path)),
            PropertyPathExpression::ZeroOrMore(path) => Route::Any(inner(path)),
            PropertyPathExpression::OneOrMore(path) => Route::Many(inner(path)),
        }
    }

    /// The expression as it is seen on top of `node`: variables that can't be bound there are errors.
    fn visible(
        &mut self,
        expression: &spargebra_algebra::Expression,
        node: &Node,
        scope: &mut Names,
    ) -> Result<Expr, QueryError> {
        let mut possible = node.scope().possible;
        possible.extend(&self.outer);
        let outer = std::mem::replace(&mut self.outer, possible);
        let expr = self.expression(expression, scope);
        let possible = std::mem::replace(&mut self.outer, outer);
        let mut expr = expr?;
        expr.replace(&|slot| if possible.contains(&slot) { Expr::Slot(slot) } else { Expr::Error });
        Ok(expr)
    }

    fn expression(
        &mut self,
        expression: &spargebra_algebra::Expression,
        scope: &mut Names,
    ) -> Result<Expr, QueryError> {
        use spargebra_algebra::Expression as E;
        let mut two = |a, b| Ok::<_, QueryError>((self.boxed(a, scope)?, self.boxed(b, scope)?));
        let compare = |operator, (a, b)| Expr::Compare(operator, a, b);
        let arithmetic = |operator, (a, b)| Expr::Arithmetic(operator, a, b);
        Ok(match expression {
            E::NamedNode(node) => Expr::Constant(self.iri(node)),
            E::Literal(literal) => Expr::Constant((self.id)(literal.as_ref().into())),
            E::Variable(variable) => Expr::Slot(self.slot(variable.as_str(), scope)),
            E::Or(a, b) => {
                let (a, b) = two(a, b)?;
                Expr::Or(vec![*a, *b])
            }
            E::And(a, b) => {
                let (a, b) = two(a, b)?;
                Expr::And(vec![*a, *b])
            }
            E::Equal(a, b) => compare(Compare::Equal, two(a, b)?),
            E::SameTerm(a, b) => {
                let (a, b) = two(a, b)?;
                Expr::SameTerm(a, b)
            }
            E::Greater(a, b) => compare(Compare::Greater, two(a, b)?),
            E::GreaterOrEqual(a, b) => compare(Compare::GreaterOrEqual, two(a, b)?),
            E::Less(a, b) => compare(Compare::Less, two(a, b)?),
            E::LessOrEqual(a, b) => compare(Compare::LessOrEqual, two(a, b)?),
            E::In(a, all) => Expr::In(self.boxed(a, scope)?, self.expressions(all, scope)?),
            E::Add(a, b) => arithmetic(Arithmetic::Add, two(a, b)?),
            E::Subtract(a, b) => arithmetic(Arithmetic::Subtract, two(a, b)?),
            E::Multiply(a, b) => arithmetic(Arithmetic::Multiply, two(a, b)?),
            E::Divide(a, b) => arithmetic(Arithmetic::Divide, two(a, b)?),
            E::UnaryPlus(a) => Expr::Plus(self.boxed(a, scope)?),
            E::UnaryMinus(a) => Expr::Negate(self.boxed(a, scope)?),
            // `a != b` comes as `!(a = b)`; an error stays one either way.
            E::Not(a) => match self.expression(a, scope)? {
                Expr::Compare(Compare::Equal, a, b) => Expr::Compare(Compare::NotEqual, a, b),
                other => Expr::Not(Box::new(other)),
            },
            E::Exists(pattern) => {
                // What can't be bound outside is the pattern's own, whatever its name.
                let visible = scope.iter().filter(|(_, slot)| self.outer.contains(slot));
                let mut inside: Names = visible.map(|(name, slot)| (name.clone(), *slot)).collect();
                let node = self.pattern(pattern, &mut inside)?;
                let mut outside = node.mentioned();
                outside.retain(|slot| self.outer.contains(slot));
                Expr::Exists(Arc::new(node), outside.into_iter().map(|slot| (slot, Expr::Slot(slot))).collect())
            }
            E::Bound(variable) => Expr::Bound(self.slot(variable.as_str(), scope)),
            E::If(a, b, c) => Expr::If(self.boxed(a, scope)?, self.boxed(b, scope)?, self.boxed(c, scope)?),
            E::Coalesce(all) => Expr::Coalesce(self.expressions(all, scope)?),
            E::FunctionCall(function, operands) => {
                Expr::Call(self.function(function)?, self.expressions(operands, scope)?)
            }
        })
    }

    fn boxed(
        &mut self,
        expression: &spargebra_algebra::Expression,
        scope: &mut Names,
    ) -> Result<Box<Expr>, QueryError> {
        self.expression(expression, scope).map(Box::new)
    }

    fn expressions(
        &mut self,
        expressions: &[spargebra_algebra::Expression],
        scope: &mut Names,
    ) -> Result<Vec<Expr>, QueryError> {
        expressions.iter().map(|expression| self.expression(expression, scope)).collect()
    }

    fn function(&self, function: &spargebra_algebra::Function) -> Result<Function, QueryError> {
        use spargebra_algebra::Function as F;
        Ok(match function {
            F::Str => Function::Str,
            F::Lang => Function::Lang,
            F::LangMatches => Function::LangMatches,
            F::Datatype => Function::Datatype,
            F::IsIri => Function::IsIri,
            F::IsBlank => Function::IsBlank,
            F::IsLiteral => Function::IsLiteral,
            F::IsNumeric => Function::IsNumeric,
            F::Regex => Function::Regex,
            F::StrLen => Function::StrLen,
            F::UCase => Function::UCase,
            F::LCase => Function::LCase,
            F::Contains => Function::Contains,
            F::StrStarts => Function::StrStarts,
            F::StrEnds => Function::StrEnds,
            F::Abs => Function::Abs,
            F::Ceil => Function::Ceil,
            F::Floor => Function::Floor,
            F::Round => Function::Round,
            F::Replace => Function::Replace,
            F::SubStr => Function::SubStr,
            F::StrBefore => Function::StrBefore,
            F::StrAfter => Function::StrAfter,
            F::Concat => Function::Concat,
            F::EncodeForUri => Function::EncodeForUri,
            F::Iri => Function::Iri,
            F::StrDt => Function::StrDt,
            F::StrLang => Function::StrLang,
            F::BNode => Function::BNode,
            F::Rand => Function::Rand,
            F::Uuid => Function::Uuid,
            F::StrUuid => Function::StrUuid,
            F::Now => Function::Now,
            F::Timezone => Function::Timezone,
            F::Tz => Function::Tz,
            F::Md5 => Function::Hash(Hash::Md5),
            F::Sha1 => Function::Hash(Hash::Sha1),
            F::Sha256 => Function::Hash(Hash::Sha256),
            F::Sha384 => Function::Hash(Hash::Sha384),
            F::Sha512 => Function::Hash(Hash::Sha512),
            F::Year => Function::Of(Part::Year),
            F::Month => Function::Of(Part::Month),
            F::Day => Function::Of(Part::Day),
            F::Hours => Function::Of(Part::Hours),
            F::Minutes => Function::Of(Part::Minutes),
            F::Seconds => Function::Of(Part::Seconds),
            F::Custom(name) => match cast(name) {
                Some(cast) => Function::Cast(cast),
                None => return Err(QueryError::unknown_function(name.as_str())),
            },
            #[allow(
                unreachable_patterns,
                reason = "the parser has more functions where another crate of the build asks for its extensions"
            )]
            _ => return Err(QueryError::unsupported("functions beyond SPARQL 1.1")),
        })
    }
}

/// The type that a function makes values of, if it is a constructor.
fn cast(name: &NamedNode) -> Option<Cast> {
    Some(match name.as_str().strip_prefix("http://www.w3.org/2001/XMLSchema#")? {
        "string" => Cast::String,
        "boolean" => Cast::Boolean,
        "integer" => Cast::Integer,
        "decimal" => Cast::Decimal,
        "float" => Cast::Float,
        "double" => Cast::Double,
        "dateTime" => Cast::DateTime,
        "date" => Cast::Date,
        "time" => Cast::Time,
        _ => return None,
    })
}
