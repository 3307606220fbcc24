//! SPARQL 1.1 Update, §19.8, rules 29 to 52. Updates are checked, but not kept: they can't be answered yet.

use super::Result;
use super::parser::Parser;
use super::pattern::Template;
use super::token::Kind;

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
    pub(super) fn updates(&mut self) -> Result<()> {
        loop {
            self.prologue()?;
            if !self.at_update() {
                return Ok(());
            }
            self.operation()?;
            if !self.take(Kind::Semicolon) {
                return Ok(());
            }
        }
    }

    fn operation(&mut self) -> Result<()> {
        if self.take_word("LOAD") {
            self.take_word("SILENT");
            self.need_iri()?;
            if self.take_word("INTO") {
                self.need_word("GRAPH")?;
                self.need_iri()?;
            }
        } else if self.take_word("CLEAR") || self.take_word("DROP") {
            self.take_word("SILENT");
            if !(self.take_word("NAMED") || self.take_word("ALL") || self.take_word("DEFAULT")) {
                self.need_word("GRAPH")?;
                self.need_iri()?;
            }
        } else if self.take_word("CREATE") {
            self.take_word("SILENT");
            self.need_word("GRAPH")?;
            self.need_iri()?;
        } else if self.take_word("ADD") || self.take_word("MOVE") || self.take_word("COPY") {
            self.take_word("SILENT");
            self.graph_or_default()?;
            self.need_word("TO")?;
            self.graph_or_default()?;
        } else if self.take_word("INSERT") {
            if !self.take_word("DATA") {
                self.quads(INSERT)?;
                return self.using_and_where();
            }
            // No label may be used in two INSERT DATA.
            let pattern = self.blanks.next_pattern();
            self.quads_of(DATA, Some(pattern))?;
        } else if self.take_word("DELETE") {
            if self.take_word("DATA") {
                return self.quads(DELETE_DATA);
            }
            if self.take_word("WHERE") {
                return self.quads(DELETE);
            }
            self.modify_behind_delete()?;
        } else {
            self.need_word("WITH")?;
            self.need_iri()?;
            if self.take_word("INSERT") {
                self.quads(INSERT)?;
                return self.using_and_where();
            }
            self.need_word("DELETE")?;
            self.modify_behind_delete()?;
        }
        Ok(())
    }

    fn modify_behind_delete(&mut self) -> Result<()> {
        self.quads(DELETE)?;
        if self.take_word("INSERT") {
            self.quads(INSERT)?;
        }
        self.using_and_where()
    }

    fn using_and_where(&mut self) -> Result<()> {
        while self.take_word("USING") {
            self.take_word("NAMED");
            self.need_iri()?;
        }
        self.need_word("WHERE")?;
        self.group().map(drop)
    }

    fn graph_or_default(&mut self) -> Result<()> {
        if !self.take_word("DEFAULT") {
            self.take_word("GRAPH");
            self.need_iri()?;
        }
        Ok(())
    }

    fn quads(&mut self, template: Template) -> Result<()> {
        self.quads_of(template, None)
    }

    /// Triples, and GRAPH blocks of triples, in braces.
    fn quads_of(&mut self, template: Template, pattern: Option<u32>) -> Result<()> {
        self.need(Kind::BraceOpen, "`{`")?;
        loop {
            self.template(template, pattern)?;
            if !self.take_word("GRAPH") {
                break;
            }
            if !(template.variables && self.variable().is_some()) {
                self.need_iri()?;
            }
            self.need(Kind::BraceOpen, "`{`")?;
            self.template(template, pattern)?;
            self.need(Kind::BraceClose, "`}` or a triple")?;
            self.take(Kind::Dot);
        }
        self.need(Kind::BraceClose, "`}`, GRAPH or a triple")
    }
}
