//! Triple terms with variables in patterns: SPARQL 1.2. A slot of its own stands for the term. The slot's value must be
//! a triple. Its parts are compared with constants and with bound values, and give values to the other variables.
//! Common variables of several patterns are then joined as usual.

use super::{Names, PATTERN_STEPS, Translator};
use crate::algebra::{At, Node, Operand, Slot, Slots};
use crate::expression::{Expr, Function};
use crate::syntax::ast::{Term, TripleTerm};

fn same(a: Expr, b: Expr) -> Expr {
    Expr::SameTerm(Box::new(a), Box::new(b))
}

impl Translator<'_> {
    /// A triple term in a pattern: the term, or a slot with its details noted in `terms`.
    pub(super) fn triple_term<'t>(
        &mut self,
        term: &Term,
        of: &'t TripleTerm,
        terms: &mut Vec<(Slot, &'t TripleTerm)>,
    ) -> At {
        if let Some(term) = term.constant() {
            return At::Constant((self.id)(term.as_ref()));
        }
        let slot = self.fresh("_:triple");
        terms.push((slot, of));
        At::Slot(slot)
    }

    /// A pattern whose solutions have triple terms in these slots: of these parts, of which variables get their values.
    pub(super) fn with_terms(
        &mut self,
        node: Node,
        mut terms: Vec<(Slot, &TripleTerm)>,
        scope: &mut Names,
        possible: &mut Vec<Slot>,
    ) -> Node {
        let mut bound: Slots = node.scope().certain.clone();
        let mut made = node;
        while let Some((slot, term)) = terms.pop() {
            let is_triple = Expr::Call(Function::IsTriple, vec![Expr::Slot(slot)]);
            let mut conditions = Vec::new();
            let mut values = Vec::new();
            for (part, place) in term.parts().into_iter().zip([0, 1, 2]) {
                if self.stop.count_steps(PATTERN_STEPS) {
                    break;
                }
                let value = Expr::Call(Function::Part(place), vec![Expr::Slot(slot)]);
                let at = match part {
                    Term::Triple(inner) => self.triple_term(part, inner, &mut terms),
                    part => self.at(part, scope),
                };
                match at {
                    At::Constant(id) => conditions.push(same(value, Expr::Constant(id))),
                    At::Slot(other) => {
                        possible.push(other);
                        if bound.insert(other) {
                            values.push((other, value));
                        } else {
                            conditions.push(same(value, Expr::Slot(other)));
                        }
                    }
                    At::Merged => unreachable!("a part of a term is no graph"),
                }
            }
            made = made.filtered(vec![is_triple]);
            for (slot, value) in values {
                made = Node::Extend { inner: Operand::new(made), slot, expr: value };
            }
            made = made.filtered(conditions);
        }
        made
    }
}
