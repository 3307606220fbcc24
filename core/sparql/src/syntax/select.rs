//! SELECT, ASK, CONSTRUCT and DESCRIBE, their modifiers, and the rules for selected variables: SPARQL 1.1, §11.4,
//! §18.2.1.

use super::ast::{Dataset, Element, Expression, Form, Group, Item, OrderKey, Select, Triple, Var};
use super::names::Scope;
use super::parser::{AggregateScope, Aggregates, Parser};
use super::pattern::Template;
use super::token::Kind;
use super::{Result, Wrong};

/// The variables of a template, each once.
fn variables_of(template: &[Triple]) -> Vec<Var> {
    let mut all = Vec::new();
    for triple in template {
        triple.each_variable(&mut |var| all.push(var));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// An item after SELECT, before the pattern is parsed.
struct Selected {
    item: Item,
    /// The position of the variable.
    at: usize,
}

impl<'a> Parser<'a> {
    /// From SELECT to the end of the query or sub-query; also returns the scope that the outer pattern sees.
    pub(super) fn select(&mut self, is_query: bool) -> Result<(Select, Scope)> {
        let outside = self.aggregates;
        self.aggregates = AggregateScope { allowed: Aggregates::Allowed, count: 0 };
        self.need_word("SELECT")?;
        let distinct = self.take_word("DISTINCT");
        if !distinct {
            // REDUCED allows keeping all duplicates.
            self.take_word("REDUCED");
        }
        let star_at = self.place();
        let is_star = self.take(Kind::Star);
        let selected = if is_star { Vec::new() } else { self.selected()? };
        if is_query {
            self.dataset("FROM")?;
        }
        self.take_word("WHERE");
        let (pattern, mut scope) = self.without_aggregates(Self::group)?;
        let mut select = Select { is_star, distinct, ..Select::of(pattern) };
        self.modifiers(&mut select, &mut scope)?;
        let is_unranked = |item: &Item| matches!(item, Item::Computed(..));
        let computed = selected.iter().filter(|one| is_unranked(&one.item)).count();
        self.raise_with_tests(computed)?;
        if is_star {
            if select.is_grouped {
                let message = "`SELECT *` can't stand with GROUP BY or aggregates: name what is selected";
                return Err(Wrong::new(star_at, message));
            }
            // The order of columns matters for a query, not for a sub-query.
            if is_query {
                let mut all: Vec<Var> = scope.0.iter().copied().collect();
                // In the order of their first appearance in the text.
                all.sort_unstable();
                select.projection = all.into_iter().map(Item::Var).collect();
            }
        } else {
            scope = self.projected(&selected, &select, scope)?;
            select.projection = selected.into_iter().map(|one| one.item).collect();
        }
        self.aggregates = outside;
        Ok((select, scope))
    }

    /// Variables and computed values, at least one.
    fn selected(&mut self) -> Result<Vec<Selected>> {
        let mut selected = Vec::new();
        loop {
            let at = self.place();
            if let Some(var) = self.variable() {
                selected.push(Selected { item: Item::Var(var), at });
            } else if let Some((value, var)) = self.given_column()? {
                selected.push(Selected { item: Item::Computed(value, Some(var)), at });
            } else if self.take(Kind::Open) {
                let value = self.expression()?;
                self.need_word("AS")?;
                let at = self.place();
                let var = self.need_variable()?;
                self.need(Kind::Close, "`)`")?;
                selected.push(Selected { item: Item::Computed(value, Some(var)), at });
            } else if selected.is_empty() {
                return Err(self.unexpected("`*`, a variable or `(`"));
            } else {
                return Ok(selected);
            }
        }
    }

    /// Checks the selected items; returns the variables in scope after them.
    fn projected(&mut self, selected: &[Selected], select: &Select, mut scope: Scope) -> Result<Scope> {
        let mut grouped = Scope::default();
        if select.is_grouped {
            for item in &select.group_by {
                if let Item::Var(var) | Item::Computed(_, Some(var)) = item {
                    grouped.0.insert(*var);
                }
            }
            grouped.0.extend(select.values.iter().flat_map(|values| &values.variables));
        }
        let mut made = Scope::default();
        for Selected { item, at } in selected {
            let (Item::Var(var) | Item::Computed(_, Some(var))) = item else { continue };
            if !made.0.insert(*var) {
                return Err(Wrong::new(*at, format!("?{} is selected twice", self.variable_name(*var))));
            }
            if let Item::Computed(value, _) = item {
                // After grouping, only keys are in scope.
                if if select.is_grouped { grouped.has(*var) } else { scope.has(*var) } {
                    let name = self.variable_name(*var);
                    return Err(Wrong::new(*at, format!("AS can't give ?{name} a value: it has one already")));
                }
                if select.is_grouped {
                    let mut wrong = None;
                    value.each_bare_variable(&mut |var, at| {
                        if !grouped.has(var) {
                            wrong.get_or_insert((var, at as usize));
                        }
                    });
                    if let Some((var, at)) = wrong {
                        return Err(self.ungrouped(var, at));
                    }
                    grouped.0.insert(*var);
                }
                scope.add(*var);
            } else if select.is_grouped && !grouped.has(*var) {
                return Err(self.ungrouped(*var, *at));
            }
        }
        Ok(made)
    }

    fn ungrouped(&self, var: Var, at: usize) -> Box<Wrong> {
        let name = self.variable_name(var);
        let message = format!(
            "?{name} has many values in a group: add it to GROUP BY, or use it in an aggregate such as SAMPLE(?{name})"
        );
        Wrong::new(at, message)
    }

    /// The pattern and the modifiers after ASK.
    pub(super) fn ask(&mut self) -> Result<Select> {
        self.aggregates.allowed = Aggregates::Allowed;
        self.dataset("FROM")?;
        self.take_word("WHERE");
        let (pattern, mut scope) = self.without_aggregates(Self::group)?;
        let mut select = Select::of(pattern);
        self.modifiers(&mut select, &mut scope)?;
        Ok(select)
    }

    /// CONSTRUCT up to the query's end.
    pub(super) fn construct(&mut self) -> Result<(Form, Select)> {
        let template = Template { variables: true, blanks: true, name: "a template" };
        self.aggregates.allowed = Aggregates::Allowed;
        let (pattern, mut scope, mut triples);
        if self.take(Kind::BraceOpen) {
            triples = self.template(template, None)?;
            self.need(Kind::BraceClose, "`}` or a triple")?;
            self.dataset("FROM")?;
            self.take_word("WHERE");
            (pattern, scope) = self.without_aggregates(Self::group)?;
        } else {
            self.dataset("FROM")?;
            self.need_word("WHERE")?;
            self.need(Kind::BraceOpen, "`{`")?;
            triples = self.template(template, None)?;
            self.need(Kind::BraceClose, "`}` or a triple")?;
            // §16.2.4: the template is the pattern, in which its blank nodes are variables.
            scope = Scope(variables_of(&triples).into_iter().collect());
            pattern = Group { elements: vec![Element::Triples(triples.clone())] };
        }
        let mut select = Select::of(pattern);
        self.modifiers(&mut select, &mut scope)?;
        let mut computed = self.computed_terms([&mut triples]);
        select.projection = variables_of(&triples).into_iter().map(Item::Var).collect();
        self.project_computed(&mut select, &mut computed);
        Ok((Form::Construct(triples), select))
    }

    /// DESCRIBE up to the query's end.
    pub(super) fn describe(&mut self) -> Result<(Form, Select)> {
        self.aggregates.allowed = Aggregates::Allowed;
        let star_at = self.place();
        let is_star = self.take(Kind::Star);
        let (mut resources, mut described) = (Vec::new(), Vec::new());
        if !is_star {
            loop {
                if let Some(var) = self.variable() {
                    described.push(var);
                } else if let Some(iri) = self.iri()? {
                    resources.push(iri);
                } else {
                    break;
                }
            }
            if resources.is_empty() && described.is_empty() {
                return Err(self.unexpected("`*`, a variable or an IRI"));
            }
        }
        self.dataset("FROM")?;
        let (mut pattern, mut scope) = (Group::default(), Scope::default());
        if self.take_word("WHERE") || self.kind() == Kind::BraceOpen {
            (pattern, scope) = self.without_aggregates(Self::group)?;
        }
        let mut select = Select::of(pattern);
        self.modifiers(&mut select, &mut scope)?;
        if is_star {
            if select.is_grouped {
                let message = "`DESCRIBE *` can't stand with GROUP BY or aggregates: name what is described";
                return Err(Wrong::new(star_at, message));
            }
            described = scope.0.iter().copied().collect();
        }
        described.sort_unstable();
        described.dedup();
        select.projection = described.into_iter().map(Item::Var).collect();
        Ok((Form::Describe(resources), select))
    }

    /// FROM and FROM NAMED, or in an update USING and USING NAMED.
    pub(super) fn dataset(&mut self, word: &str) -> Result<()> {
        while self.take_word(word) {
            let named = self.take_word("NAMED");
            let graph = self.need_iri()?;
            let dataset = self.dataset.get_or_insert_with(|| Dataset { default: Vec::new(), named: Some(Vec::new()) });
            match &mut dataset.named {
                Some(all) if named => all.push(graph),
                _ => dataset.default.push(graph),
            }
        }
        Ok(())
    }

    /// GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET and VALUES.
    fn modifiers(&mut self, select: &mut Select, scope: &mut Scope) -> Result<()> {
        if self.take_word("GROUP") {
            self.need_word("BY")?;
            self.aggregates.allowed = Aggregates::InGroupBy;
            while let Some(item) = self.group_key(scope)? {
                select.group_by.push(item);
            }
            self.aggregates.allowed = Aggregates::Allowed;
            if select.group_by.is_empty() {
                return Err(self.unexpected("a variable, `(` or the call of a function"));
            }
        }
        if self.take_word("HAVING") {
            select.having.push(self.constraint()?);
            while self.at_constraint() {
                select.having.push(self.constraint()?);
            }
        }
        if self.take_word("ORDER") {
            self.need_word("BY")?;
            while let Some(key) = self.order_key()? {
                select.order_by.push(key);
            }
            if select.order_by.is_empty() {
                return Err(self.unexpected("a variable, ASC, DESC, `(` or the call of a function"));
            }
        }
        let (mut has_limit, mut has_offset) = (false, false);
        loop {
            if !has_limit && self.take_word("LIMIT") {
                has_limit = true;
                select.limit = Some(self.count()?);
            } else if !has_offset && self.take_word("OFFSET") {
                has_offset = true;
                select.offset = self.count()?;
            } else {
                break;
            }
        }
        if self.take_word("VALUES") {
            let values = self.values()?;
            values.variables.iter().for_each(|var| scope.add(*var));
            select.values = Some(values);
        }
        select.is_grouped = !select.group_by.is_empty() || self.aggregates.count > 0;
        // Each computed value becomes an operator on top of the one before.
        let keys = select.group_by.iter().filter(|item| matches!(item, Item::Computed(..))).count();
        let sorted = select.order_by.iter().filter(|key| !matches!(key.value, Expression::Var(..))).count();
        self.raise(keys + sorted + self.aggregates.count)
    }

    /// Whether brackets or a call of a function begin here; no modifier begins like that.
    fn at_constraint(&self) -> bool {
        match self.kind() {
            Kind::Open | Kind::Iri | Kind::Name => true,
            Kind::Word if self.at_word("HAVING") || self.at_word("VALUES") => false,
            Kind::Word => self.second() == Kind::Open || self.at_word("EXISTS") || self.at_word("NOT"),
            _ => false,
        }
    }

    fn group_key(&mut self, scope: &mut Scope) -> Result<Option<Item>> {
        if let Some(var) = self.variable() {
            return Ok(Some(Item::Var(var)));
        }
        if let Some(value) = self.given_expression()? {
            return Ok(Some(Item::Computed(value, None)));
        }
        if !self.at_constraint() {
            return Ok(None);
        }
        if !self.take(Kind::Open) {
            return Ok(Some(Item::Computed(self.constraint()?, None)));
        }
        let value = self.expression()?;
        let mut named = None;
        if self.take_word("AS") {
            let at = self.place();
            let var = self.need_variable()?;
            if scope.has(var) {
                let name = self.variable_name(var);
                return Err(Wrong::new(at, format!("AS can't give ?{name} a value: it has one already")));
            }
            scope.add(var);
            named = Some(var);
        }
        self.need(Kind::Close, "`)`, AS or an operator")?;
        Ok(Some(match (value, named) {
            (Expression::Var(var, _), None) => Item::Var(var),
            (value, named) => Item::Computed(value, named),
        }))
    }

    fn order_key(&mut self) -> Result<Option<OrderKey>> {
        let at = self.place();
        if let Some(var) = self.variable() {
            return Ok(Some(OrderKey { value: Expression::Var(var, at as u32), descending: false }));
        }
        if let Some(value) = self.given_expression()? {
            return Ok(Some(OrderKey { value, descending: false }));
        }
        let descending = self.take_word("DESC");
        if descending || self.take_word("ASC") {
            if self.kind() != Kind::Open {
                return Err(self.unexpected("`(`"));
            }
            return Ok(Some(OrderKey { value: self.constraint()?, descending }));
        }
        if !self.at_constraint() {
            return Ok(None);
        }
        Ok(Some(OrderKey { value: self.constraint()?, descending: false }))
    }

    /// The number after LIMIT or OFFSET. A number too large for the machine counts as the greatest one.
    fn count(&mut self) -> Result<usize> {
        let token = self.token();
        if token.kind != Kind::Integer {
            return Err(self.unexpected("a number of rows"));
        }
        self.skip();
        Ok(self.slice(token).parse().unwrap_or(usize::MAX))
    }
}
