//! SPARQL 1.1 Update, §19.8, rules 29 to 52.

use super::ast::{
    Dataset, Element, Form, GraphName, Graphs, Group, InGraph, Item, Modify, Operation, Quads, Select, Term, Transfer,
    Var,
};
use super::parser::Parser;
use super::pattern::Template;
use super::template::have_blank_terms;
use super::token::Kind;
use super::{Result, Wrong};
use oxrdf::NamedNode;

/// Which terms the templates of an update may contain.
const DATA: Template = Template { variables: false, blanks: true, name: "INSERT DATA" };
const DELETE_DATA: Template = Template { variables: false, blanks: false, name: "DELETE DATA" };
const DELETE: Template = Template { variables: true, blanks: false, name: "DELETE" };
const INSERT: Template = Template { variables: true, blanks: true, name: "INSERT" };

impl<'a> Parser<'a> {
    /// Whether an update begins here.
    pub(super) fn at_update(&self) -> bool {
        const FIRST: [&str; 10] =
            ["LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "INSERT", "DELETE", "WITH"];
        FIRST.iter().any(|word| self.at_word(word))
    }

    /// Operations separated by semicolons.
    pub(super) fn operations(&mut self) -> Result<Vec<Operation>> {
        let mut all = Vec::new();
        loop {
            self.prologue()?;
            if !self.at_update() {
                // A text without operations, and one that ends with a semicolon, are updates, too.
                let expected = "INSERT, DELETE, WITH, LOAD, CLEAR, CREATE, DROP, COPY, MOVE or ADD";
                return if self.kind() == Kind::End { Ok(all) } else { Err(self.unexpected(expected)) };
            }
            all.push(self.operation()?);
            if !self.take(Kind::Semicolon) {
                return Ok(all);
            }
        }
    }

    fn operation(&mut self) -> Result<Operation> {
        if self.take_word("LOAD") {
            let silent = self.take_word("SILENT");
            let from = self.need_iri()?;
            let into = if self.take_word("INTO") { Some(self.graph()?) } else { None };
            return Ok(Operation::Load { silent, from, into });
        }
        if self.take_word("CLEAR") || self.take_word("DROP") {
            self.take_word("SILENT");
            let whole = [("DEFAULT", Graphs::Default), ("NAMED", Graphs::Named), ("ALL", Graphs::All)];
            let graphs = whole.into_iter().find_map(|(word, graphs)| self.take_word(word).then_some(graphs));
            return Ok(Operation::Clear(match graphs {
                Some(graphs) => graphs,
                None => Graphs::One(self.graph()?),
            }));
        }
        if self.take_word("CREATE") {
            return Ok(Operation::Create { silent: self.take_word("SILENT"), graph: self.graph()? });
        }
        for (word, how) in [("ADD", Transfer::Add), ("COPY", Transfer::Copy), ("MOVE", Transfer::Move)] {
            if self.take_word(word) {
                let silent = self.take_word("SILENT");
                let from = self.graph_or_default()?;
                self.need_word("TO")?;
                return Ok(Operation::Transfer { how, silent, from, to: self.graph_or_default()? });
            }
        }
        if self.take_word("WITH") {
            let with = Some(self.need_iri()?);
            return match self.take_word("INSERT") {
                true => self.modify(with, false),
                false => {
                    self.need_word("DELETE")?;
                    self.modify(with, true)
                }
            };
        }
        if self.take_word("INSERT") {
            if !self.take_word("DATA") {
                return self.modify(None, false);
            }
            // No label may be used in two INSERT DATA.
            let pattern = self.blanks.next_pattern();
            let quads = self.quads(DATA, Some(pattern), None)?;
            if have_blank_terms(quads.iter().flat_map(|quads| &quads.triples)) {
                // New blank nodes in triple terms are computed, for the one solution of an empty pattern.
                return self.modify_of(Vec::new(), quads, Group::default());
            }
            return Ok(Operation::Insert(quads));
        }
        self.need_word("DELETE")?;
        if self.take_word("DATA") {
            return Ok(Operation::Delete(self.quads(DELETE_DATA, None, None)?));
        }
        if self.take_word("WHERE") {
            let delete = self.quads(DELETE, None, None)?;
            let pattern = Group { elements: delete.iter().map(element_of).collect() };
            return self.modify_of(delete, Vec::new(), pattern);
        }
        self.modify(None, true)
    }

    /// The text after the word DELETE or INSERT of an operation with a WHERE.
    fn modify(&mut self, with: Option<NamedNode>, deletes: bool) -> Result<Operation> {
        let graph = with.clone().map(Term::Iri);
        let delete = if deletes { self.quads(DELETE, None, graph.as_ref())? } else { Vec::new() };
        let inserts = !deletes || self.take_word("INSERT");
        let insert = if inserts { self.quads(INSERT, None, graph.as_ref())? } else { Vec::new() };
        self.dataset("USING")?;
        // §3.1.3: USING overrides WITH for the pattern. WITH alone leaves all named graphs to it.
        if let (Some(with), None) = (with, &self.dataset) {
            self.dataset = Some(Dataset { default: vec![with], named: None });
        }
        self.need_word("WHERE")?;
        let (pattern, _) = self.group()?;
        self.modify_of(delete, insert, pattern)
    }

    fn modify_of(&mut self, mut delete: Vec<Quads>, mut insert: Vec<Quads>, pattern: Group) -> Result<Operation> {
        let mut select = Select::of(pattern);
        let templates = delete.iter_mut().chain(&mut insert).map(|quads| &mut quads.triples);
        let mut computed = self.computed_terms(templates);
        let mut variables: Vec<Var> = delete.iter().chain(&insert).flat_map(variables_of).collect();
        variables.sort_unstable();
        variables.dedup();
        select.projection = variables.into_iter().map(Item::Var).collect();
        self.project_computed(&mut select, &mut computed);
        self.lengthen_by_prefixes()?;
        let query = self.query_of(Form::Select, select);
        Ok(Operation::Modify(Box::new(Modify { delete, insert, query })))
    }

    /// GRAPH and an IRI.
    fn graph(&mut self) -> Result<NamedNode> {
        self.need_word("GRAPH")?;
        self.need_iri()
    }

    fn graph_or_default(&mut self) -> Result<Option<NamedNode>> {
        if self.take_word("DEFAULT") {
            return Ok(None);
        }
        self.take_word("GRAPH");
        self.need_iri().map(Some)
    }

    /// Triples, and GRAPH blocks of triples, in braces. Triples outside of blocks are in `graph`.
    fn quads(&mut self, template: Template, pattern: Option<u32>, graph: Option<&Term>) -> Result<Vec<Quads>> {
        self.need(Kind::BraceOpen, "`{`")?;
        let mut all = Vec::new();
        loop {
            let triples = self.template(template, pattern)?;
            if !triples.is_empty() {
                all.push(Quads { graph: graph.cloned(), triples });
            }
            if !self.take_word("GRAPH") {
                break;
            }
            let at = self.place();
            let name = match self.variable() {
                Some(var) if template.variables => Term::Var(var),
                Some(_) => return Err(Wrong::new(at, format!("a variable can't stand in {}", template.name))),
                None => Term::Iri(self.need_iri()?),
            };
            self.need(Kind::BraceOpen, "`{`")?;
            // Without triples, a block is still a part of the pattern of a DELETE WHERE.
            all.push(Quads { graph: Some(name), triples: self.template(template, pattern)? });
            self.need(Kind::BraceClose, "`}` or a triple")?;
            self.take(Kind::Dot);
        }
        self.need(Kind::BraceClose, "`}`, GRAPH or a triple")?;
        Ok(all)
    }
}

/// The part of the pattern of a DELETE WHERE that these quads of its template are as well.
fn element_of(quads: &Quads) -> Element {
    let triples = Element::Triples(quads.triples.clone());
    let name = match &quads.graph {
        None => return triples,
        Some(Term::Iri(iri)) => GraphName::Iri(iri.clone()),
        Some(Term::Var(var)) => {
            let inside = Quads { graph: None, triples: quads.triples.clone() };
            let occurs = variables_of(&inside).any(|other| other == *var);
            GraphName::Var(*var, occurs)
        }
        Some(other) => unreachable!("{other:?} names no graph"),
    };
    Element::Graph(InGraph { name, group: Group { elements: vec![triples] } })
}

/// The variables of a template's quads.
fn variables_of(quads: &Quads) -> impl Iterator<Item = Var> + '_ {
    let graph = quads.graph.as_ref().and_then(|name| if let Term::Var(var) = name { Some(*var) } else { None });
    let of_triples = quads.triples.iter().flat_map(|triple| {
        let mut all = Vec::new();
        triple.each_variable(&mut |var| all.push(var));
        all
    });
    graph.into_iter().chain(of_triples)
}
