//! Triple terms in templates: SPARQL 1.2. They are computed with each solution, as columns of their own. So the code
//! that fills templates in knows variables and constants only.

use super::ast::{Expression, Item, Select, Term, Triple, TripleTerm, Var, Verb};
use super::parser::Parser;
use crate::expression::Function;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The computed terms for the templates of a query or an operation.
#[derive(Default)]
pub(super) struct Computed {
    items: Vec<(Expression, Var)>,
    /// The blank nodes of the templates within triple terms, and their replacing variables.
    blanks: FxHashMap<u32, Var>,
    /// The used variables of the pattern.
    used: FxHashSet<Var>,
}

impl<'a> Parser<'a> {
    /// Replaces non-constant triple terms by variables, and their blank nodes at all places.
    pub(super) fn computed_terms<'t>(&mut self, templates: impl IntoIterator<Item = &'t mut Vec<Triple>>) -> Computed {
        let mut computed = Computed::default();
        let mut templates: Vec<&mut Vec<Triple>> = templates.into_iter().collect();
        let has_any =
            |triple: &Triple| [&*triple.subject, &triple.object].iter().any(|end| matches!(end, Term::Triple(_)));
        if !templates.iter().any(|template| template.iter().any(has_any)) {
            return computed;
        }
        let mut blanks = Vec::new();
        for triple in templates.iter().flat_map(|template| template.iter()) {
            for end in [&*triple.subject, &triple.object] {
                if let Term::Triple(term) = end {
                    blanks_of(term, &mut blanks);
                }
            }
        }
        for number in blanks {
            if let Entry::Vacant(vacant) = computed.blanks.entry(number) {
                let var = self.own_variable();
                vacant.insert(var);
                computed.items.push((Expression::Call(Function::BNode, Vec::new()), var));
            }
        }
        for triple in templates.iter_mut().flat_map(|template| template.iter_mut()) {
            let subject = self.simplified(&triple.subject, &mut computed);
            if subject != *triple.subject {
                triple.subject = Arc::new(subject);
            }
            triple.object = self.simplified(&triple.object, &mut computed);
        }
        computed
    }

    fn simplified(&mut self, term: &Term, computed: &mut Computed) -> Term {
        match term {
            Term::Blank(number) => computed.blanks.get(number).map_or_else(|| term.clone(), |var| Term::Var(*var)),
            Term::Triple(triple) if term.constant().is_none() => {
                let value = call(triple, computed);
                let var = self.own_variable();
                computed.items.push((value, var));
                Term::Var(var)
            }
            other => other.clone(),
        }
    }

    /// Adds the computed terms to a projection, and the variables of the pattern needed for them.
    pub(super) fn project_computed(&mut self, select: &mut Select, computed: &mut Computed) {
        let own: FxHashSet<Var> = computed.items.iter().map(|(_, var)| *var).collect();
        select.projection.retain(|item| !matches!(item, Item::Var(var) if own.contains(var)));
        let known: FxHashSet<Var> = select.projected().collect();
        let mut needed: Vec<Var> =
            computed.used.drain().filter(|var| !known.contains(var) && !own.contains(var)).collect();
        needed.sort_unstable();
        select.projection.extend(needed.into_iter().map(Item::Var));
        select.projection.extend(computed.items.drain(..).map(|(value, var)| Item::Computed(value, Some(var))));
    }
}

fn blanks_of(triple: &TripleTerm, found: &mut Vec<u32>) {
    for part in triple.parts() {
        match part {
            Term::Blank(number) => found.push(*number),
            Term::Triple(inner) => blanks_of(inner, found),
            _ => {}
        }
    }
}

/// The call to make a triple term.
fn call(triple: &TripleTerm, computed: &mut Computed) -> Expression {
    let operands = triple.parts().map(|part| match part {
        Term::Iri(iri) => Expression::Iri(iri.clone()),
        Term::Literal(literal) => Expression::Literal(literal.clone()),
        Term::Var(var) => {
            computed.used.insert(*var);
            Expression::Var(*var, 0)
        }
        Term::Blank(number) => Expression::Var(computed.blanks[number], 0),
        Term::Triple(inner) => call(inner, computed),
    });
    Expression::Call(Function::Triple, operands.into())
}

/// Whether templates have blank nodes in triple terms.
pub(super) fn have_blank_terms<'t>(triples: impl IntoIterator<Item = &'t Triple>) -> bool {
    let mut found = Vec::new();
    for triple in triples {
        debug_assert!(!matches!(triple.verb, Verb::Path(ref path) if !matches!(**path, super::ast::Path::Iri(_))));
        for end in [&*triple.subject, &triple.object] {
            if let Term::Triple(term) = end {
                blanks_of(term, &mut found);
            }
        }
    }
    !found.is_empty()
}
