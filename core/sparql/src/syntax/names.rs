//! The variables in scope, and the patterns in which a blank node's label may be used.

use super::ast::{Term, Var};
use super::{Result, Wrong};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// The variables in the scope of a pattern: SPARQL 1.1, §18.2.1.
#[derive(Default)]
pub(super) struct Scope(pub(super) FxHashSet<Var>);

impl Scope {
    pub(super) fn has(&self, var: Var) -> bool {
        self.0.contains(&var)
    }

    /// Adds a variable with a possible value.
    pub(super) fn add(&mut self, var: Var) {
        self.0.insert(var);
    }

    /// Adds all variables of another scope. The smaller set is copied, so deep patterns with many variables stay cheap.
    pub(super) fn add_all(&mut self, mut other: Scope) {
        if other.0.len() > self.0.len() {
            std::mem::swap(&mut self.0, &mut other.0);
        }
        self.0.extend(other.0);
    }
}

/// The blank nodes of a text. A label may be used in one basic graph pattern only: §19.6.
#[derive(Default)]
pub(super) struct Blanks<'a> {
    /// Each label's number, and its pattern.
    labels: BTreeMap<&'a str, (u32, Option<u32>)>,
    count: u32,
    patterns: u32,
    /// The basic graph pattern being parsed; `None` in a template, which takes any label.
    pub(super) pattern: Option<u32>,
}

impl<'a> Blanks<'a> {
    pub(super) fn fresh(&mut self) -> Term {
        self.count += 1;
        Term::Blank(self.count - 1)
    }

    /// The number of a new pattern.
    pub(super) fn next_pattern(&mut self) -> u32 {
        self.patterns += 1;
        self.patterns
    }

    pub(super) fn of_label(&mut self, label: &'a str, at: usize) -> Result<Term> {
        let (number, pattern) = *self.labels.entry(label).or_insert_with(|| {
            self.count += 1;
            (self.count - 1, self.pattern)
        });
        match (pattern, self.pattern) {
            (Some(first), Some(here)) if first != here => Err(Wrong::new(
                at,
                format!("`_:{label}` stands in another basic graph pattern already: a variable may stand in both"),
            )),
            (None, Some(here)) => {
                self.labels.insert(label, (number, Some(here)));
                Ok(Term::Blank(number))
            }
            _ => Ok(Term::Blank(number)),
        }
    }
}
