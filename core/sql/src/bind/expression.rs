//! Expressions: names, operators, and the types that they need.

use super::query::cast;
use super::{Binder, is_name};
use crate::error::{SourcePosition, SqlError};
use crate::evaluate::cast_value;
use crate::expression::{Comparison, Expr, Function, Like, Set, Side};
use crate::types::{SqlType, Value};
use sqlparser::ast;
use std::sync::Arc;

/// An IN list with at least this number of literals is looked up in a sorted list.
const SET: usize = 4;

impl<'a> Binder<'a> {
    pub(super) fn expr(&mut self, expr: &'a ast::Expr) -> Result<Expr, SqlError> {
        // Places of chains are found by walking down, so only leaves have theirs.
        self.deeper(SourcePosition::default(), |binder| binder.expr_here(expr))
    }

    fn expr_here(&mut self, expr: &'a ast::Expr) -> Result<Expr, SqlError> {
        use ast::Expr as Ast;
        match expr {
            Ast::Identifier(name) => match self.column(None, name)? {
                Some(column) => Ok(column),
                None => self.alias(name),
            },
            Ast::CompoundIdentifier(names) => self.named(&names.iter().collect::<Vec<_>>(), expr),
            Ast::CompoundFieldAccess { root, access_chain } => self.accessed(root, access_chain, expr),
            Ast::Array(array) => self.list(array.elem.iter()),
            Ast::Dictionary(fields) => {
                let (mut parts, mut values) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
                for field in fields {
                    let value = self.expr(&field.value)?;
                    parts.push((field.key.value.clone(), value.kind()));
                    values.push(value);
                }
                if parts.is_empty() {
                    return Err(SqlError::unsupported(self.place_of(expr), "a struct without parts"));
                }
                Ok(Expr::Call(Function::Parts, values, SqlType::Struct(parts.into())))
            }
            Ast::Nested(inner) => self.expr(inner),
            Ast::Value(value) => self.literal(value),
            Ast::TypedString(typed) => self.typed_string(typed),
            Ast::UnaryOp { op, expr: inner } => self.unary(*op, inner),
            Ast::BinaryOp { left, op, right } => self.binary(expr, left, op, right),
            Ast::IsNull(inner) => Ok(is_null(self.expr(inner)?)),
            Ast::IsNotNull(inner) => Ok(Expr::not(is_null(self.expr(inner)?))),
            Ast::IsTrue(inner) => self.bind_truth(inner, Function::IsTrue),
            Ast::IsNotTrue(inner) => Ok(Expr::not(self.bind_truth(inner, Function::IsTrue)?)),
            Ast::IsFalse(inner) => self.bind_truth(inner, Function::IsFalse),
            Ast::IsNotFalse(inner) => Ok(Expr::not(self.bind_truth(inner, Function::IsFalse)?)),
            Ast::IsUnknown(inner) => self.bind_truth(inner, Function::IsNull),
            Ast::IsNotUnknown(inner) => Ok(Expr::not(self.bind_truth(inner, Function::IsNull)?)),
            Ast::IsDistinctFrom(a, b) => self.bind_distinct(a, b),
            Ast::IsNotDistinctFrom(a, b) => Ok(Expr::not(self.bind_distinct(a, b)?)),
            Ast::In { expr: value, target, negated, .. } => {
                let found = self.bind_in(value, target)?;
                Ok(if *negated { Expr::not(found) } else { found })
            }
            Ast::Between { expr: value, negated, low, high } => {
                let place = self.place_of(&**value);
                let (value, low, high) = (self.expr(value)?, self.expr(low)?, self.expr(high)?);
                let above = self.compared(Comparison::GreaterOrEqual, value.clone(), low, place)?;
                let below = self.compared(Comparison::LessOrEqual, value, high, place)?;
                let between = Expr::and(vec![above, below]);
                Ok(if *negated { Expr::not(between) } else { between })
            }
            Ast::Like { negated, any: false, expr: text, pattern, escape_char } => {
                self.like(*negated, false, text, pattern, escape_char.as_deref())
            }
            Ast::ILike { negated, any: false, expr: text, pattern, escape_char } => {
                self.like(*negated, true, text, pattern, escape_char.as_deref())
            }
            Ast::Cast { kind, expr: value, data_type, format: None } => {
                let place = self.place_of(&**value);
                let to = self.data_type(data_type, place)?;
                let is_try = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
                let value = self.expr(value)?;
                self.cast_to(value, to, is_try, place)
            }
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Ast::Extract { field, expr: from, .. } => {
                let place = self.place_of(&**from);
                let field = self.date_field(&field.to_string(), place)?;
                let from = self.expr(from)?;
                self.of_date(Function::Extract(field), from, SqlType::BigInt, place)
            }
            Ast::Ceil { expr: value, field } | Ast::Floor { expr: value, field } => {
                let place = self.place_of(&**value);
                if !matches!(field, ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)) {
                    return Err(SqlError::unsupported(place, "rounding to a field or scale"));
                }
                let function = if matches!(expr, Ast::Ceil { .. }) { Function::Ceil } else { Function::Floor };
                let value = self.expr(value)?;
                let value = self.numeric(value, place)?;
                let kind = number_kind(&function, value.kind_ref(), None);
                Ok(Expr::Call(function, vec![value], kind))
            }
            Ast::Position { expr: part, r#in: text } => {
                let place = self.place_of(&**text);
                let (part, text) = (self.expr(part)?, self.expr(text)?);
                let args = vec![self.text(text, place)?, self.text(part, place)?];
                Ok(Expr::Call(Function::Position, args, SqlType::BigInt))
            }
            Ast::Substring { expr: text, substring_from, substring_for, .. } => {
                let place = self.place_of(&**text);
                let text = self.expr(text)?;
                let mut args = vec![self.text(text, place)?];
                let one = || Expr::Literal(Value::BigInt(1), SqlType::BigInt);
                let from = substring_from.as_deref().map(|from| self.expr(from)).transpose()?.unwrap_or_else(one);
                args.push(self.integer(from, place)?);
                if let Some(count) = substring_for {
                    let count = self.expr(count)?;
                    args.push(self.integer(count, place)?);
                }
                Ok(Expr::Call(Function::Substring, args, SqlType::Varchar))
            }
            Ast::Trim { trim_where, trim_what, expr: text, trim_characters } => {
                let side = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => Side::Both,
                    Some(ast::TrimWhereField::Leading) => Side::Leading,
                    Some(ast::TrimWhereField::Trailing) => Side::Trailing,
                };
                let what = trim_what.as_deref().or_else(|| trim_characters.as_ref().and_then(|what| what.first()));
                let place = self.place_of(&**text);
                let text = self.expr(text)?;
                let what = what.map(|what| self.expr(what)).transpose()?;
                self.trim(side, text, what, place)
            }
            Ast::Function(function) => self.function(function),
            Ast::Exists { subquery, negated } => {
                let place = self.place_of(&**subquery);
                let found = self.exists(subquery, place)?;
                Ok(if *negated { Expr::not(found) } else { found })
            }
            Ast::Subquery(query) => self.scalar(query, self.place_of(&**query)),
            Ast::Interval(_) => match self.interval(expr, false)? {
                Some(interval) => span(interval).ok_or_else(|| {
                    let what = "INTERVAL with months other than behind + or - of a date";
                    SqlError::unsupported(self.place_of(expr), what)
                }),
                None => unreachable!("it is one"),
            },
            Ast::Collate { .. } => Err(SqlError::unsupported(self.place_of(expr), "COLLATE")),
            Ast::Tuple(_) => Err(SqlError::unsupported(self.place_of(expr), "a row in brackets")),
            Ast::AnyOp { .. } | Ast::AllOp { .. } => Err(SqlError::unsupported(self.place_of(expr), "ANY and ALL")),
            Ast::GroupingSets(_) | Ast::Cube(_) | Ast::Rollup(_) => {
                Err(SqlError::unsupported(self.place_of(expr), "GROUPING SETS, CUBE and ROLLUP"))
            }
            _ => Err(SqlError::unsupported(self.place_of(expr), "this expression")),
        }
    }

    /// The expression of the select list that has this alias, where clauses may name it.
    fn alias(&mut self, name: &'a ast::Ident) -> Result<Expr, SqlError> {
        let Some(scope) = self.scopes.last() else { return Err(self.unknown_column(None, name)) };
        let named = scope.aliases.iter().find(|(alias, _)| is_name(name, alias)).map(|(_, expr)| *expr);
        let Some(expr) = named else { return Err(self.unknown_column(None, name)) };
        // An alias doesn't see aliases.
        let aliases = std::mem::take(&mut self.scope().aliases);
        let bound = self.expr(expr);
        self.scope().aliases = aliases;
        bound
    }

    fn bind_truth(&mut self, inner: &'a ast::Expr, function: Function) -> Result<Expr, SqlError> {
        let place = self.place_of(inner);
        let inner = self.expr(inner)?;
        Ok(Expr::Call(function, vec![self.boolean(inner, place)?], SqlType::Boolean))
    }

    fn bind_distinct(&mut self, a: &'a ast::Expr, b: &'a ast::Expr) -> Result<Expr, SqlError> {
        let place = self.place_of(a);
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let (a, b) = self.common(a, b, place)?;
        Ok(Expr::Call(Function::IsDistinct, vec![a, b], SqlType::Boolean))
    }

    fn unary(&mut self, op: ast::UnaryOperator, inner: &'a ast::Expr) -> Result<Expr, SqlError> {
        let place = self.place_of(inner);
        match op {
            ast::UnaryOperator::Not => {
                let inner = self.expr(inner)?;
                Ok(Expr::not(self.boolean(inner, place)?))
            }
            ast::UnaryOperator::Minus => {
                // The least integer has no positive counterpart.
                if let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(number, _), .. }) = inner {
                    return self.number(&format!("-{number}"), place);
                }
                let inner = self.expr(inner)?;
                let inner = self.numeric(inner, place)?;
                let kind = inner.kind();
                Ok(Expr::Call(Function::Negate, vec![inner], kind))
            }
            ast::UnaryOperator::Plus => {
                let inner = self.expr(inner)?;
                self.numeric(inner, place)
            }
            other => Err(SqlError::unsupported(place, format_args!("the operator {other}"))),
        }
    }

    fn binary(
        &mut self,
        whole: &'a ast::Expr,
        left: &'a ast::Expr,
        op: &'a ast::BinaryOperator,
        right: &'a ast::Expr,
    ) -> Result<Expr, SqlError> {
        use ast::BinaryOperator as Op;
        let comparison = match op {
            Op::And | Op::Or | Op::StringConcat => return self.chain(whole, op),
            Op::Eq => Comparison::Equal,
            Op::NotEq => Comparison::NotEqual,
            Op::Lt => Comparison::Less,
            Op::LtEq => Comparison::LessOrEqual,
            Op::Gt => Comparison::Greater,
            Op::GtEq => Comparison::GreaterOrEqual,
            Op::Plus | Op::Minus => return self.sum(left, *op == Op::Minus, right),
            Op::Multiply | Op::Divide | Op::Modulo => {
                let place = self.place_of(right);
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                let function = match op {
                    Op::Multiply => Function::Multiply,
                    Op::Divide => Function::Divide,
                    _ => Function::Modulo,
                };
                return self.arithmetic(function, left, right, place);
            }
            other => {
                let place = self.place_of(right);
                return Err(SqlError::unsupported(place, format_args!("the operator {other}")));
            }
        };
        let place = self.place_of(right);
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        self.compared(comparison, left, right, place)
    }

    /// `a AND b AND c`, and the same with OR and `||`: a single call, however long the chain is.
    fn chain(&mut self, whole: &'a ast::Expr, wanted: &ast::BinaryOperator) -> Result<Expr, SqlError> {
        let (mut parts, mut first) = (Vec::new(), whole);
        while let ast::Expr::BinaryOp { left, op, right } = first
            && op == wanted
        {
            parts.push(&**right);
            first = left;
        }
        parts.push(first);
        let mut args = Vec::with_capacity(parts.len());
        for part in parts.into_iter().rev() {
            let place = self.place_of(part);
            let part = self.expr(part)?;
            args.push(match wanted {
                ast::BinaryOperator::StringConcat => self.as_text(part),
                _ => self.boolean(part, place)?,
            });
        }
        Ok(match wanted {
            ast::BinaryOperator::StringConcat => Expr::Call(Function::Concat, args, SqlType::Varchar),
            ast::BinaryOperator::Or => Expr::Call(Function::Or, args, SqlType::Boolean),
            _ => Expr::Call(Function::And, args, SqlType::Boolean),
        })
    }

    /// A sum or difference of numbers, or of a date and an interval or days.
    fn sum(&mut self, left: &'a ast::Expr, minus: bool, right: &'a ast::Expr) -> Result<Expr, SqlError> {
        let place = self.place_of(right);
        if let Some(interval) = self.interval(right, minus)? {
            let left_place = self.place_of(left);
            let date = self.expr(left)?;
            if date.kind() == SqlType::Interval
                && let Some(other) = span(interval)
            {
                return Ok(Expr::Call(Function::Add, vec![date, other], SqlType::Interval));
            }
            let kind =
                if interval.micros == 0 || date.kind() != SqlType::Date { date.kind() } else { SqlType::Timestamp };
            let date = if date.kind() == SqlType::Date { cast(date, kind.clone()) } else { date };
            return self.of_date(Function::AddInterval(interval), date, kind, left_place);
        }
        if !minus && let Some(interval) = self.interval(left, false)? {
            let date = self.expr(right)?;
            if date.kind() == SqlType::Interval
                && let Some(other) = span(interval)
            {
                return Ok(Expr::Call(Function::Add, vec![other, date], SqlType::Interval));
            }
            let kind =
                if interval.micros == 0 || date.kind() != SqlType::Date { date.kind() } else { SqlType::Timestamp };
            let date = if date.kind() == SqlType::Date { cast(date, kind.clone()) } else { date };
            return self.of_date(Function::AddInterval(interval), date, kind, place);
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        match (left.kind(), right.kind()) {
            (SqlType::Date, SqlType::Date) if minus => {
                Ok(Expr::Call(Function::DaysBetween, vec![left, right], SqlType::BigInt))
            }
            (SqlType::Date, SqlType::BigInt) => {
                let right = if minus { Expr::Call(Function::Negate, vec![right], SqlType::BigInt) } else { right };
                Ok(Expr::Call(Function::AddDays, vec![left, right], SqlType::Date))
            }
            (SqlType::BigInt, SqlType::Date) if !minus => {
                Ok(Expr::Call(Function::AddDays, vec![right, left], SqlType::Date))
            }
            (a @ (SqlType::Timestamp | SqlType::TimestampTz), b) if minus && a == b => {
                Ok(Expr::Call(Function::Subtract, vec![left, right], SqlType::Interval))
            }
            (kind @ (SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval), SqlType::Interval) => {
                let function = if minus { Function::Subtract } else { Function::Add };
                Ok(Expr::Call(function, vec![left, right], kind))
            }
            (SqlType::Interval, kind @ (SqlType::Timestamp | SqlType::TimestampTz)) if !minus => {
                Ok(Expr::Call(Function::Add, vec![left, right], kind))
            }
            _ => self.arithmetic(if minus { Function::Subtract } else { Function::Add }, left, right, place),
        }
    }

    pub(super) fn arithmetic(
        &mut self,
        function: Function,
        left: Expr,
        right: Expr,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        let (left, right) = met(self.numeric(left, place)?, self.numeric(right, place)?);
        let is_null = left.is_null_literal() || right.is_null_literal();
        match (digits(left.kind_ref()), digits(right.kind_ref()), &function) {
            _ if is_null => {}
            // Digits without an end are those of doubles.
            (Some(_), Some(_), Function::Divide) if has_scale(&left) || has_scale(&right) => {
                let (left, right) = (cast(left, SqlType::Double), cast(right, SqlType::Double));
                return Ok(Expr::Call(function, vec![left, right], SqlType::Double));
            }
            (Some((p, s)), Some((q, t)), _) if has_scale(&left) || has_scale(&right) => {
                let whole = (p - s).max(q - t);
                let (precision, scale) = match function {
                    Function::Multiply => (p + q, s + t),
                    Function::Modulo => (whole + s.max(t), s.max(t)),
                    _ => (whole + s.max(t) + 1, s.max(t)),
                };
                let kind = crate::decimal::kind(u64::from(precision.min(crate::decimal::DIGITS)), u64::from(scale));
                let kind = kind.ok_or_else(|| {
                    let message = format!("the product has {scale} digits behind its point, and decimals have 38");
                    SqlError::wrong_type(place, message)
                })?;
                // Integers become decimals of their own digits.
                let as_decimal = |expr: Expr, precision| match has_scale(&expr) {
                    true => Ok(expr),
                    false => coerced(expr, SqlType::Decimal { precision, scale: 0 }, place),
                };
                return Ok(Expr::Call(function, vec![as_decimal(left, p)?, as_decimal(right, q)?], kind));
            }
            _ => {}
        }
        let (left, right) = self.common(left, right, place)?;
        let kind = left.kind();
        Ok(Expr::Call(function, vec![left, right], kind))
    }

    /// A column by its name, or a part of one that is a struct.
    fn named(&mut self, names: &[&'a ast::Ident], expr: &ast::Expr) -> Result<Expr, SqlError> {
        let (found, parts) = match names {
            [.., table, name] => match self.column(Some(table), name)? {
                Some(column) => (Some(column), &names[names.len()..]),
                None => match self.column(Some(names[0]), names[1])? {
                    Some(column) => (Some(column), &names[2..]),
                    None => (self.column(None, names[0])?, &names[1..]),
                },
            },
            [name] => (self.column(None, name)?, &names[1..]),
            [] => return Err(SqlError::unsupported(self.place_of(expr), "this name")),
        };
        match (found, names) {
            (Some(column), _) if parts.is_empty() || matches!(column.kind_ref(), SqlType::Struct(_)) => {
                parts.iter().try_fold(column, |value, name| self.part(value, name))
            }
            (_, [.., table, name]) => Err(self.unknown_column(Some(table), name)),
            (_, names) => Err(self.unknown_column(None, names[0])),
        }
    }

    /// A struct's part by its name.
    fn part(&self, value: Expr, name: &ast::Ident) -> Result<Expr, SqlError> {
        let place = self.place(name.span);
        let SqlType::Struct(parts) = value.kind() else {
            return Err(SqlError::wrong_type(
                place,
                format!("a struct is needed here, and this is a {}", value.kind()),
            ));
        };
        match parts.iter().position(|(part, _)| is_name(name, part)) {
            Some(part) => Ok(Expr::Call(Function::Part(part), vec![value], parts[part].1.clone())),
            None => Err(self.unknown(place, "part", &name.value, parts.iter().map(|(name, _)| name.as_str()))),
        }
    }

    /// Values of lists and parts of structs, in brackets and behind points.
    fn accessed(
        &mut self,
        root: &'a ast::Expr,
        chain: &'a [ast::AccessExpr],
        whole: &'a ast::Expr,
    ) -> Result<Expr, SqlError> {
        // A name with points is one, whatever stands behind it.
        let mut names = match root {
            ast::Expr::Identifier(name) => vec![name],
            ast::Expr::CompoundIdentifier(names) => names.iter().collect(),
            _ => Vec::new(),
        };
        let mut chain = chain;
        while let [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), rest @ ..] = chain
            && !names.is_empty()
        {
            names.push(name);
            chain = rest;
        }
        let mut value = if names.is_empty() { self.expr(root)? } else { self.named(&names, whole)? };
        for access in chain {
            value = match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => self.part(value, name)?,
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    let place = self.place_of(index);
                    let index = self.expr(index)?;
                    self.item(value, index, place)?
                }
                _ => return Err(SqlError::unsupported(self.place_of(whole), "this part of a value")),
            };
        }
        Ok(value)
    }

    /// A list's value at a place, or a struct's part by its name.
    pub(super) fn item(&mut self, value: Expr, index: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        match (value.kind(), index) {
            (SqlType::List(of), index) => {
                let args = vec![value, self.integer(index, place)?];
                Ok(Expr::Call(Function::Item, args, SqlType::clone(&of)))
            }
            (SqlType::Struct(_), Expr::Literal(Value::Varchar(name), _)) => {
                self.part(value, &ast::Ident::with_quote('"', &*name)).map_err(|error| SqlError { place, ..error })
            }
            (other, _) => Err(SqlError::wrong_type(place, format!("a list is needed here, and this is a {other}"))),
        }
    }

    fn list(&mut self, values: impl Iterator<Item = &'a ast::Expr>) -> Result<Expr, SqlError> {
        let mut items = Vec::new();
        for value in values {
            items.push((self.expr(value)?, self.place_of(value)));
        }
        self.list_of(items)
    }

    pub(super) fn list_of(&mut self, items: Vec<(Expr, SourcePosition)>) -> Result<Expr, SqlError> {
        let (items, kind) = self.unified(items)?;
        Ok(Expr::Call(Function::Items, items, SqlType::List(Arc::new(kind))))
    }

    pub(super) fn compared(
        &mut self,
        comparison: Comparison,
        left: Expr,
        right: Expr,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        let (left, right) = self.common(left, right, place)?;
        Ok(Expr::compare(comparison, left, right))
    }

    fn bind_in(&mut self, value: &'a ast::Expr, target: &'a ast::InTarget) -> Result<Expr, SqlError> {
        let place = self.place_of(value);
        if let ast::Expr::Tuple(_) = value {
            return Err(SqlError::unsupported(place, "IN for several values in brackets"));
        }
        let value = self.expr(value)?;
        match target {
            ast::InTarget::Subquery(query) => self.in_query(value, query, place),
            ast::InTarget::List(list) => {
                let mut equal = Vec::with_capacity(list.len());
                for one in list {
                    let place = self.place_of(one);
                    let one = self.expr(one)?;
                    equal.push(self.compared(Comparison::Equal, value.clone(), one, place)?);
                }
                equal = as_sets(equal);
                Ok(match equal.len() {
                    0 => Expr::truth(false),
                    1 => equal.remove(0),
                    _ => Expr::Call(Function::Or, equal, SqlType::Boolean),
                })
            }
            _ => Err(SqlError::unsupported(place, "this form of IN")),
        }
    }

    fn like(
        &mut self,
        negated: bool,
        ignores_case: bool,
        text: &'a ast::Expr,
        pattern: &'a ast::Expr,
        escape: Option<&'a ast::Expr>,
    ) -> Result<Expr, SqlError> {
        let escape = match escape {
            None => None,
            Some(escape) => {
                let place = self.place_of(escape);
                let literal = self.expr(escape)?;
                let mut characters = match &literal {
                    Expr::Literal(Value::Varchar(text), _) => text.chars(),
                    _ => "".chars(),
                };
                match (characters.next(), characters.next()) {
                    (Some(one), None) => Some(one),
                    _ => return Err(SqlError::wrong_type(place, "ESCAPE needs a text of one character")),
                }
            }
        };
        let (text_place, pattern_place) = (self.place_of(text), self.place_of(pattern));
        let (text, pattern) = (self.expr(text)?, self.expr(pattern)?);
        let args = vec![self.text(text, text_place)?, self.text(pattern, pattern_place)?];
        let like = Expr::Call(Function::Like(Like { ignores_case, escape }), args, SqlType::Boolean);
        Ok(if negated { Expr::not(like) } else { like })
    }

    fn case(
        &mut self,
        operand: Option<&'a ast::Expr>,
        branches: &'a [ast::CaseWhen],
        otherwise: Option<&'a ast::Expr>,
    ) -> Result<Expr, SqlError> {
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for branch in branches {
            let place = self.place_of(&branch.condition);
            let condition = self.expr(&branch.condition)?;
            conditions.push(match &operand {
                Some(operand) => self.compared(Comparison::Equal, operand.clone(), condition, place)?,
                None => self.boolean(condition, place)?,
            });
            values.push((self.expr(&branch.result)?, self.place_of(&branch.result)));
        }
        values.push(match otherwise {
            Some(otherwise) => (self.expr(otherwise)?, self.place_of(otherwise)),
            None => (Expr::null(SqlType::BigInt), SourcePosition::default()),
        });
        let (mut values, kind) = self.unified(values)?;
        let last = values.pop().expect("the value otherwise");
        let mut args: Vec<Expr> = conditions.into_iter().zip(values).flat_map(|(a, b)| [a, b]).collect();
        args.push(last);
        Ok(Expr::Call(Function::Case, args, kind))
    }

    /// Values of one type.
    pub(super) fn unified(&mut self, values: Vec<(Expr, SourcePosition)>) -> Result<(Vec<Expr>, SqlType), SqlError> {
        let is_text = |expr: &Expr| matches!(expr, Expr::Literal(Value::Varchar(_), _));
        // Nulls and quoted literals take the type of the others.
        let has_decimals = values.iter().any(|(value, _)| matches!(value.kind_ref(), SqlType::Decimal { .. }));
        let met = |(value, place)| (if has_decimals { as_written(value) } else { value }, place);
        let values: Vec<(Expr, SourcePosition)> = values.into_iter().map(met).collect();
        let typed = values.iter().filter(|(value, _)| !value.is_null_literal() && !is_text(value));
        let mut kind: Option<SqlType> = None;
        for (value, place) in typed {
            let common = kind.as_ref().map_or(Some(value.kind()), |kind| kind.common(value.kind_ref()));
            let other = kind.as_ref().map_or_else(String::new, SqlType::to_string);
            let message = || format!("values of the types {other} and {} don't fit together", value.kind());
            kind = Some(common.ok_or_else(|| SqlError::wrong_type(*place, message()))?);
        }
        let kind = kind.unwrap_or_else(|| {
            if values.iter().any(|(value, _)| is_text(value)) { SqlType::Varchar } else { SqlType::BigInt }
        });
        let to = |(value, place)| coerced(value, kind.clone(), place);
        Ok((values.into_iter().map(to).collect::<Result<_, _>>()?, kind))
    }

    /// Two values that are to be compared, of one type.
    pub(super) fn common(&self, a: Expr, b: Expr, place: SourcePosition) -> Result<(Expr, Expr), SqlError> {
        let is_free = |expr: &Expr| matches!(expr, Expr::Literal(Value::Varchar(_) | Value::Null, _));
        let (a, b) = met(a, b);
        let kind = match (is_free(&a), is_free(&b)) {
            (true, true) if a.is_null_literal() => b.kind(),
            (false, true) | (true, true) => a.kind(),
            (true, false) => b.kind(),
            (false, false) => a.kind_ref().common(b.kind_ref()).ok_or_else(|| {
                let message = format!("values of the types {} and {} don't fit together", a.kind(), b.kind());
                SqlError::wrong_type(place, message)
            })?,
        };
        Ok((coerced(a, kind.clone(), place)?, coerced(b, kind, place)?))
    }

    pub(super) fn boolean(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        needed(expr, SqlType::Boolean, "a condition", place)
    }

    pub(super) fn text(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        needed(expr, SqlType::Varchar, "a text", place)
    }

    pub(super) fn integer(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        needed(expr, SqlType::BigInt, "an integer", place)
    }

    pub(super) fn double(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        let expr = self.numeric(expr, place)?;
        Ok(if expr.is_null_literal() { Expr::null(SqlType::Double) } else { cast(expr, SqlType::Double) })
    }

    pub(super) fn numeric(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        if expr.kind().is_numeric() {
            return Ok(expr);
        }
        needed(expr, SqlType::BigInt, "a number", place)
    }

    /// The argument in the form for `||`: numbers and dates are written out.
    pub(super) fn as_text(&self, expr: Expr) -> Expr {
        if expr.is_null_literal() { Expr::null(SqlType::Varchar) } else { cast(expr, SqlType::Varchar) }
    }

    pub(super) fn cast_to(
        &self,
        value: Expr,
        to: SqlType,
        is_try: bool,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        if value.is_null_literal() {
            return Ok(Expr::null(to));
        }
        let value = if matches!(to, SqlType::Decimal { .. }) { as_written(value) } else { value };
        let from = value.kind();
        if !crate::evaluate::can_cast(&from, &to) {
            return Err(SqlError::wrong_type(place, format!("a {from} can't be cast to {to}")));
        }
        Ok(if from == to { value } else { Expr::Call(Function::Cast(is_try), vec![value], to) })
    }

    pub(super) fn of_date(
        &self,
        function: Function,
        date: Expr,
        kind: SqlType,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        match date.kind() {
            SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => Ok(Expr::Call(function, vec![date], kind)),
            SqlType::Time if matches!(function, Function::Extract(_)) => Ok(Expr::Call(function, vec![date], kind)),
            other => {
                Err(SqlError::wrong_type(place, format!("a date or timestamp is needed here, and this is a {other}")))
            }
        }
    }
}

fn is_null(expr: Expr) -> Expr {
    Expr::Call(Function::IsNull, vec![expr], SqlType::Boolean)
}

/// A value of a type: nulls have any, and a quoted literal is read as one.
fn needed(expr: Expr, kind: SqlType, what: &str, place: SourcePosition) -> Result<Expr, SqlError> {
    if expr.is_null_literal() {
        return Ok(Expr::null(kind));
    }
    if expr.kind() != kind {
        return Err(SqlError::wrong_type(place, format!("{what} is needed here, and this is a {}", expr.kind())));
    }
    Ok(expr)
}

/// A value as one of another type, to which it fits.
fn coerced(expr: Expr, kind: SqlType, place: SourcePosition) -> Result<Expr, SqlError> {
    match expr {
        expr if expr.is_null_literal() => Ok(Expr::null(kind)),
        expr if expr.kind() == kind => Ok(expr),
        Expr::Literal(value, from) if from == SqlType::Varchar => {
            if !crate::evaluate::can_cast(&from, &kind) {
                return Err(SqlError::wrong_type(place, format!("a {kind} is needed here, and this is a text")));
            }
            let value = cast_value(&value, &from, &kind);
            Ok(Expr::Literal(value.map_err(|error| SqlError::wrong_type(place, error.to_string()))?, kind))
        }
        expr => Ok(cast(expr, kind)),
    }
}

/// A literal of doubles as the decimal that it is written as.
fn as_written(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(Value::Double(value), kind) => match crate::decimal::of_literal(value) {
            Some((units, precision, scale)) => {
                Expr::Literal(Value::Decimal(units, scale), SqlType::Decimal { precision, scale })
            }
            None => Expr::Literal(Value::Double(value), kind),
        },
        other => other,
    }
}

/// Two values that meet: a literal of doubles is the decimal that it is written as, beside a decimal.
fn met(a: Expr, b: Expr) -> (Expr, Expr) {
    match (has_scale(&a), has_scale(&b)) {
        (true, false) => (a, as_written(b)),
        (false, true) => (as_written(a), b),
        _ => (a, b),
    }
}

fn has_scale(expr: &Expr) -> bool {
    matches!(expr.kind_ref(), SqlType::Decimal { .. })
}

/// The digits of a decimal or an integer, and those behind its point.
fn digits(kind: &SqlType) -> Option<(u8, u8)> {
    match kind {
        SqlType::Decimal { precision, scale } => Some((*precision, *scale)),
        SqlType::BigInt => Some((19, 0)),
        _ => None,
    }
}

/// The type of a function's result that has the type of its argument, but for some decimals. `to` are the digits to
/// which it is rounded.
pub(super) fn number_kind(function: &Function, of: &SqlType, to: Option<i64>) -> SqlType {
    let SqlType::Decimal { precision, scale } = *of else { return of.clone() };
    let with = |kept: u8| SqlType::Decimal { precision: (precision - scale + kept + 1).min(38), scale: kept };
    match function {
        Function::Sign => SqlType::BigInt,
        Function::Ceil | Function::Floor => with(0),
        Function::Round => with(to.unwrap_or(0).clamp(0, i64::from(scale)) as u8),
        _ => of.clone(),
    }
}

/// An interval without months as a value.
fn span(interval: crate::expression::Interval) -> Option<Expr> {
    let days = interval.days.checked_mul(crate::date::DAY)?;
    let micros = days.checked_add(interval.micros).filter(|_| interval.months == 0)?;
    Some(Expr::Literal(Value::Interval(micros), SqlType::Interval))
}

/// The comparisons of an IN list, with those with literals in a set for each type that the value is cast to.
fn as_sets(equal: Vec<Expr>) -> Vec<Expr> {
    if equal.len() < SET {
        return equal;
    }
    let (mut sets, mut others): (Vec<(Expr, Set)>, Vec<Expr>) = (Vec::new(), Vec::new());
    for one in equal {
        match one {
            Expr::Call(_, mut sides, _) if matches!(sides[..], [_, Expr::Literal(..)]) => {
                let (Some(Expr::Literal(literal, _)), Some(value)) = (sides.pop(), sides.pop()) else {
                    unreachable!("its sides were looked at");
                };
                // There are as many as types of numbers, at most.
                let at = sets.iter().position(|(other, _)| *other == value).unwrap_or_else(|| {
                    sets.push((value, Set { values: Vec::new(), has_null: false }));
                    sets.len() - 1
                });
                match literal {
                    Value::Null => sets[at].1.has_null = true,
                    literal => sets[at].1.values.push(literal),
                }
            }
            other => others.push(other),
        }
    }
    let call = |(value, mut set): (Expr, Set)| {
        set.values.sort_by(|a, b| a.order(b).unwrap_or(std::cmp::Ordering::Equal));
        Expr::Call(Function::InSet(Arc::new(set)), vec![value], SqlType::Boolean)
    };
    sets.into_iter().map(call).chain(others).collect()
}
