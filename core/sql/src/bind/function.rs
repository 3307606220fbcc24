//! Functions by name.

use super::Binder;
use crate::error::{SourcePosition, SqlError};
use crate::expression::{Comparison, Expr, Function, Side};
use crate::types::{SqlType, Value};
use sqlparser::ast;
use std::sync::Arc;

/// The names that can be called, but for other names of the same functions. Suggestions are made of them.
pub const FUNCTIONS: &[&str] = &[
    "abs",
    "avg",
    "bool_and",
    "bool_or",
    "btrim",
    "ceil",
    "ceiling",
    "char_length",
    "coalesce",
    "concat",
    "count",
    "date_part",
    "date_trunc",
    "exp",
    "floor",
    "greatest",
    "ifnull",
    "left",
    "length",
    "least",
    "ln",
    "lower",
    "ltrim",
    "max",
    "min",
    "mod",
    "nullif",
    "position",
    "power",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rtrim",
    "sign",
    "sqrt",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "sum",
    "trim",
    "upper",
];

impl<'a> Binder<'a> {
    pub(super) fn function(&mut self, function: &'a ast::Function) -> Result<Expr, SqlError> {
        let [ast::ObjectNamePart::Identifier(ident)] = &function.name.0[..] else {
            return Err(SqlError::unsupported(self.place_of(&function.name), "a function whose name has dots"));
        };
        let place = self.place(ident.span);
        let name = ident.value.to_lowercase();
        if function.over.is_some() {
            return Err(SqlError::unsupported(place, format_args!("a window (OVER) such as that of {name}")));
        }
        if function.null_treatment.is_some() || !matches!(function.parameters, ast::FunctionArguments::None) {
            return Err(SqlError::unsupported(place, format_args!("this form of a call of {name}")));
        }
        if let Some(aggregate) = self.aggregate(&name, function, place)? {
            return Ok(aggregate);
        }
        if function.filter.is_some() || !function.within_group.is_empty() {
            return Err(SqlError::wrong_type(place, format!("{name} is no aggregate, so it has no FILTER")));
        }
        let mut args = Vec::new();
        match &function.args {
            ast::FunctionArguments::None => {}
            ast::FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported(place, format_args!("a subquery as the arguments of {name}")));
            }
            ast::FunctionArguments::List(list) => {
                if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                    return Err(SqlError::wrong_type(place, format!("{name} is no aggregate, so it has no DISTINCT")));
                }
                for arg in &list.args {
                    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                        return Err(SqlError::unsupported(place, format_args!("this argument of {name}")));
                    };
                    args.push((self.expr(expr)?, self.place_of(expr)));
                }
            }
        }
        self.call(&name, args, place)
    }

    fn call(&mut self, name: &str, args: Vec<(Expr, SourcePosition)>, place: SourcePosition) -> Result<Expr, SqlError> {
        let count = args.len();
        let expected =
            |wanted: &str| SqlError::wrong_type(place, format!("{name} needs {wanted}, and {count} are given"));
        let needs = |least: usize, most: usize| {
            if (least..=most).contains(&count) {
                return Ok(());
            }
            Err(expected(&if least == most {
                format!("{least} arguments")
            } else {
                format!("{least} to {most} arguments")
            }))
        };
        let mut args = args.into_iter();
        let mut next = || args.next().expect("the arguments have been counted");
        match name {
            "upper" | "ucase" | "lower" | "lcase" | "reverse" => {
                needs(1, 1)?;
                let (text, at) = next();
                let function = match name {
                    "upper" | "ucase" => Function::Upper,
                    "reverse" => Function::Reverse,
                    _ => Function::Lower,
                };
                Ok(Expr::Call(function, vec![self.text(text, at)?], SqlType::Varchar))
            }
            "length" | "char_length" | "character_length" | "len" => {
                needs(1, 1)?;
                let (text, at) = next();
                Ok(Expr::Call(Function::Length, vec![self.text(text, at)?], SqlType::BigInt))
            }
            "substring" | "substr" => {
                needs(2, 3)?;
                let (text, at) = next();
                let mut all = vec![self.text(text, at)?];
                for (number, at) in args {
                    all.push(self.integer(number, at)?);
                }
                Ok(Expr::Call(Function::Substring, all, SqlType::Varchar))
            }
            "left" | "right" | "repeat" => {
                needs(2, 2)?;
                let ((text, at), (number, number_at)) = (next(), next());
                let function = match name {
                    "left" => Function::Left,
                    "right" => Function::Right,
                    _ => Function::Repeat,
                };
                let args = vec![self.text(text, at)?, self.integer(number, number_at)?];
                Ok(Expr::Call(function, args, SqlType::Varchar))
            }
            "trim" | "btrim" | "ltrim" | "rtrim" => {
                needs(1, 2)?;
                let side = match name {
                    "ltrim" => Side::Leading,
                    "rtrim" => Side::Trailing,
                    _ => Side::Both,
                };
                let (text, at) = next();
                self.trim(side, text, args.next().map(|(what, _)| what), at)
            }
            "replace" => {
                needs(3, 3)?;
                let texts = args.map(|(text, at)| self.text(text, at)).collect::<Result<Vec<_>, _>>()?;
                Ok(Expr::Call(Function::Replace, texts, SqlType::Varchar))
            }
            "concat" => {
                let texts = args.map(|(text, _)| self.as_text(text)).collect();
                Ok(Expr::Call(Function::ConcatAll, texts, SqlType::Varchar))
            }
            "strpos" | "instr" | "position" | "starts_with" => {
                needs(2, 2)?;
                let texts = args.map(|(text, at)| self.text(text, at)).collect::<Result<Vec<_>, _>>()?;
                Ok(match name {
                    "starts_with" => Expr::Call(Function::StartsWith, texts, SqlType::Boolean),
                    _ => Expr::Call(Function::Position, texts, SqlType::BigInt),
                })
            }
            "abs" | "ceil" | "ceiling" | "floor" | "sign" => {
                needs(1, 1)?;
                let (value, at) = next();
                let value = self.numeric(value, at)?;
                let kind = value.kind();
                let function = match name {
                    "abs" => Function::Abs,
                    "sign" => Function::Sign,
                    "floor" => Function::Floor,
                    _ => Function::Ceil,
                };
                Ok(Expr::Call(function, vec![value], kind))
            }
            "round" => {
                needs(1, 2)?;
                let (value, at) = next();
                let value = self.numeric(value, at)?;
                let kind = value.kind();
                let mut all = vec![value];
                if let Some((digits, at)) = args.next() {
                    all.push(self.integer(digits, at)?);
                }
                Ok(Expr::Call(Function::Round, all, kind))
            }
            "mod" => {
                needs(2, 2)?;
                let ((a, _), (b, at)) = (next(), next());
                self.arithmetic(Function::Modulo, a, b, at)
            }
            "power" | "pow" => {
                needs(2, 2)?;
                let doubles = args.map(|(value, at)| self.double(value, at)).collect::<Result<Vec<_>, _>>()?;
                Ok(Expr::Call(Function::Power, doubles, SqlType::Double))
            }
            "sqrt" | "exp" | "ln" => {
                needs(1, 1)?;
                let (value, at) = next();
                let function = match name {
                    "sqrt" => Function::Sqrt,
                    "exp" => Function::Exp,
                    _ => Function::Ln,
                };
                Ok(Expr::Call(function, vec![self.double(value, at)?], SqlType::Double))
            }
            "coalesce" | "ifnull" => {
                if count == 0 || (name == "ifnull" && count != 2) {
                    return Err(expected(if name == "ifnull" { "2 arguments" } else { "at least one argument" }));
                }
                let (values, kind) = self.unified(args.collect())?;
                Ok(Expr::Call(Function::Coalesce, values, kind))
            }
            "nullif" => {
                needs(2, 2)?;
                let ((a, _), (b, at)) = (next(), next());
                let kind = a.kind();
                let is_equal = self.compared(Comparison::Equal, a.clone(), b, at)?;
                Ok(Expr::Call(Function::Case, vec![is_equal, Expr::null(kind), a], kind))
            }
            "greatest" | "least" => {
                if count == 0 {
                    return Err(expected("at least one argument"));
                }
                // Nulls are left out.
                let (values, kind) = self.unified(args.collect())?;
                let comparison = if name == "greatest" { Comparison::GreaterOrEqual } else { Comparison::LessOrEqual };
                let fold = |best: Expr, other: Expr| {
                    let is_null = |one: &Expr| Expr::Call(Function::IsNull, vec![one.clone()], SqlType::Boolean);
                    let is_better = Expr::compare(comparison, best.clone(), other.clone());
                    let keeps = Expr::Call(Function::Or, vec![is_null(&other), is_better], SqlType::Boolean);
                    Expr::Call(Function::Case, vec![keeps, best, other], kind)
                };
                // Each step doubles the expression.
                if values.len() > 8 {
                    return Err(SqlError::unsupported(place, format_args!("{name} of more than 8 values")));
                }
                Ok(values.into_iter().reduce(fold).expect("there is one"))
            }
            "date_part" | "date_trunc" => {
                needs(2, 2)?;
                let ((field, at), (date, date_at)) = (next(), next());
                let Expr::Literal(Value::Varchar(field), _) = field else {
                    return Err(SqlError::wrong_type(at, format!("the field of {name} has to be a literal")));
                };
                let field = self.date_field(&field, at)?;
                let kind = date.kind();
                if name == "date_part" {
                    return self.of_date(Function::Extract(field), date, SqlType::BigInt, date_at);
                }
                self.of_date(Function::Truncate(field), date, kind, date_at)
            }
            "year" | "month" | "day" | "hour" | "minute" | "second" | "quarter" => {
                needs(1, 1)?;
                let (date, at) = next();
                let field = self.date_field(name, at)?;
                self.of_date(Function::Extract(field), date, SqlType::BigInt, at)
            }
            _ => Err(self.unknown(place, "function", name, FUNCTIONS.iter().copied())),
        }
    }

    pub(super) fn trim(
        &self,
        side: Side,
        text: Expr,
        what: Option<Expr>,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        let space = || Expr::Literal(Value::Varchar(Arc::from(" ")), SqlType::Varchar);
        let args = vec![self.text(text, place)?, self.text(what.unwrap_or_else(space), place)?];
        Ok(Expr::Call(Function::Trim(side), args, SqlType::Varchar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name by which a function can be called; `None` for operators, other syntax, and what the optimiser makes. A
    /// new function has to be named here: other crates' tests call each of [`FUNCTIONS`].
    fn name_of(function: &Function) -> Option<&'static str> {
        match function {
            Function::And
            | Function::Or
            | Function::Not
            | Function::Compare(_)
            | Function::IsDistinct
            | Function::IsNull
            | Function::IsTrue
            | Function::IsFalse
            | Function::InSet(_)
            | Function::Case
            | Function::Cast(_)
            | Function::Negate
            | Function::Add
            | Function::Subtract
            | Function::Multiply
            | Function::Divide
            | Function::Canonical
            | Function::Concat
            | Function::Like(_)
            | Function::AddInterval(_)
            | Function::AddDays
            | Function::DaysBetween => None,
            Function::Coalesce => Some("coalesce"),
            Function::Modulo => Some("mod"),
            Function::Power => Some("power"),
            Function::Abs => Some("abs"),
            Function::Sign => Some("sign"),
            Function::Ceil => Some("ceil"),
            Function::Floor => Some("floor"),
            Function::Round => Some("round"),
            Function::Sqrt => Some("sqrt"),
            Function::Exp => Some("exp"),
            Function::Ln => Some("ln"),
            Function::Upper => Some("upper"),
            Function::Lower => Some("lower"),
            Function::Length => Some("length"),
            Function::Substring => Some("substring"),
            Function::Left => Some("left"),
            Function::Right => Some("right"),
            Function::Trim(Side::Both) => Some("trim"),
            Function::Trim(Side::Leading) => Some("ltrim"),
            Function::Trim(Side::Trailing) => Some("rtrim"),
            Function::Replace => Some("replace"),
            Function::ConcatAll => Some("concat"),
            Function::Position => Some("position"),
            Function::StartsWith => Some("starts_with"),
            Function::Reverse => Some("reverse"),
            Function::Repeat => Some("repeat"),
            Function::Extract(_) => Some("date_part"),
            Function::Truncate(_) => Some("date_trunc"),
        }
    }

    #[test]
    fn functions_have_the_names_by_which_they_are_called() {
        for (name, args) in [
            ("abs", "1"),
            ("ceil", "1.5"),
            ("coalesce", "'a', 'b'"),
            ("concat", "'a', x"),
            ("date_part", "'year', DATE '2024-01-01'"),
            ("date_trunc", "'year', DATE '2024-01-01'"),
            ("exp", "1"),
            ("floor", "1.5"),
            ("left", "x, 1"),
            ("length", "x"),
            ("ln", "1"),
            ("lower", "x"),
            ("ltrim", "x"),
            ("mod", "5, 2"),
            ("position", "x, 'a'"),
            ("power", "2, 3"),
            ("repeat", "x, 2"),
            ("replace", "x, 'a', 'b'"),
            ("reverse", "x"),
            ("right", "x, 1"),
            ("round", "1.5"),
            ("rtrim", "x"),
            ("sign", "1"),
            ("sqrt", "1"),
            ("starts_with", "x, 'a'"),
            ("substring", "x, 1, 2"),
            ("trim", "x"),
            ("upper", "x"),
        ] {
            let args = args.replace('x', "'text'");
            assert!(FUNCTIONS.contains(&name), "{name}");
            let text = format!("SELECT {name}({args})");
            let parsed = crate::parse(&text, &crate::ParseOptions::default()).expect("it is SQL");
            let tables = crate::Tables::default();
            let plan = crate::plan(&parsed, &tables, &crate::PlanOptions::default(), &|| false);
            assert!(plan.is_ok(), "{text}: {:?}", plan.err().map(|error| error.to_string()));
        }
        let called = [
            Function::Coalesce,
            Function::Modulo,
            Function::Power,
            Function::Abs,
            Function::Sign,
            Function::Ceil,
            Function::Floor,
            Function::Round,
            Function::Sqrt,
            Function::Exp,
            Function::Ln,
            Function::Upper,
            Function::Lower,
            Function::Length,
            Function::Substring,
            Function::Left,
            Function::Right,
            Function::Trim(Side::Both),
            Function::Trim(Side::Leading),
            Function::Trim(Side::Trailing),
            Function::Replace,
            Function::ConcatAll,
            Function::Position,
            Function::StartsWith,
            Function::Reverse,
            Function::Repeat,
        ];
        for function in called {
            let name = name_of(&function).unwrap_or_else(|| panic!("{function:?} is called by a name"));
            assert!(FUNCTIONS.contains(&name), "{name}");
        }
    }
}
