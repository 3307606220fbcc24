//! Functions by name: a table of their arguments and results.

use super::Binder;
use super::expression::number_kind;
use crate::error::{SourcePosition, SqlError};
use crate::expression::{ColumnId, Comparison, DateField, Expr, Function, Side};
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
    "list_contains",
    "list_extract",
    "list_value",
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
    "struct_extract",
    "substr",
    "substring",
    "sum",
    "trim",
    "upper",
];

/// A function of the language, by all its names.
struct Named {
    names: &'static [&'static str],
    /// The least and the greatest number of arguments.
    least: usize,
    most: usize,
    binds: Binds,
}

/// How a call becomes an expression.
enum Binds {
    /// A call with arguments of these types.
    Typed { function: Function, takes: &'static [Takes], gives: Gives },
    /// In a way of its own.
    By(for<'b, 'a, 'c> fn(&'b mut Binder<'a>, Call<'c>) -> Result<Expr, SqlError>),
}

/// The type of an argument.
enum Takes {
    Text,
    Integer,
    Double,
    /// An integer or a double.
    Number,
}

/// The type of a result.
enum Gives {
    Always(SqlType),
    /// That of the first argument.
    OfFirst,
}

/// A call with a right number of arguments.
struct Call<'n> {
    name: &'n str,
    place: SourcePosition,
    args: std::vec::IntoIter<(Expr, SourcePosition)>,
}

impl Call<'_> {
    fn next(&mut self) -> (Expr, SourcePosition) {
        self.args.next().expect("the arguments have been counted")
    }
}

impl Named {
    const fn typed(names: &'static [&'static str], function: Function, takes: &'static [Takes], gives: Gives) -> Named {
        Named { names, least: takes.len(), most: takes.len(), binds: Binds::Typed { function, takes, gives } }
    }

    const fn by(
        names: &'static [&'static str],
        least: usize,
        most: usize,
        bind: for<'b, 'a, 'c> fn(&'b mut Binder<'a>, Call<'c>) -> Result<Expr, SqlError>,
    ) -> Named {
        Named { names, least, most, binds: Binds::By(bind) }
    }

    /// The last argument may be left out.
    const fn with_optional(mut self) -> Named {
        self.least -= 1;
        self
    }

    fn check_count(&self, name: &str, count: usize, place: SourcePosition) -> Result<(), SqlError> {
        let Named { least, most, .. } = *self;
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let wanted = match most {
            usize::MAX => "at least one argument".to_owned(),
            most if most == least => format!("{least} arguments"),
            most => format!("{least} to {most} arguments"),
        };
        Err(SqlError::wrong_type(place, format!("{name} needs {wanted}, and {count} are given")))
    }
}

use Gives::{Always, OfFirst};
use SqlType::{BigInt, Boolean, Double, Varchar};
use Takes::{Integer, Number, Text};

/// All functions but aggregates.
static TABLE: [Named; 36] = [
    Named::typed(&["upper", "ucase"], Function::Upper, &[Text], Always(Varchar)),
    Named::typed(&["lower", "lcase"], Function::Lower, &[Text], Always(Varchar)),
    Named::typed(&["reverse"], Function::Reverse, &[Text], Always(Varchar)),
    Named::by(
        &["length", "char_length", "character_length", "len", "array_length", "octet_length"],
        1,
        1,
        |binder, call| binder.length(call),
    ),
    Named::by(&["list_contains", "list_has", "array_contains"], 2, 2, |binder, call| binder.contains(call)),
    Named::by(&["list_extract", "list_element", "array_extract", "struct_extract"], 2, 2, |binder, mut call| {
        let ((value, _), (index, at)) = (call.next(), call.next());
        binder.item(value, index, at)
    }),
    Named::by(&["list_value"], 0, usize::MAX, |binder, call| binder.list_of(call.args.collect())),
    Named::typed(&["substring", "substr"], Function::Substring, &[Text, Integer, Integer], Always(Varchar))
        .with_optional(),
    Named::typed(&["left"], Function::Left, &[Text, Integer], Always(Varchar)),
    Named::typed(&["right"], Function::Right, &[Text, Integer], Always(Varchar)),
    Named::typed(&["repeat"], Function::Repeat, &[Text, Integer], Always(Varchar)),
    Named::typed(&["replace"], Function::Replace, &[Text, Text, Text], Always(Varchar)),
    Named::typed(&["strpos", "instr", "position"], Function::Position, &[Text, Text], Always(BigInt)),
    Named::typed(&["starts_with"], Function::StartsWith, &[Text, Text], Always(Boolean)),
    Named::by(&["trim", "btrim"], 1, 2, |binder, call| binder.trim_call(Side::Both, call)),
    Named::by(&["ltrim"], 1, 2, |binder, call| binder.trim_call(Side::Leading, call)),
    Named::by(&["rtrim"], 1, 2, |binder, call| binder.trim_call(Side::Trailing, call)),
    Named::by(&["concat"], 0, usize::MAX, |binder, call| binder.concat(call)),
    Named::typed(&["abs"], Function::Abs, &[Number], OfFirst),
    Named::typed(&["sign"], Function::Sign, &[Number], OfFirst),
    Named::typed(&["ceil", "ceiling"], Function::Ceil, &[Number], OfFirst),
    Named::typed(&["floor"], Function::Floor, &[Number], OfFirst),
    Named::typed(&["round"], Function::Round, &[Number, Integer], OfFirst).with_optional(),
    Named::typed(&["power", "pow"], Function::Power, &[Takes::Double, Takes::Double], Always(Double)),
    Named::typed(&["sqrt"], Function::Sqrt, &[Takes::Double], Always(Double)),
    Named::typed(&["exp"], Function::Exp, &[Takes::Double], Always(Double)),
    Named::typed(&["ln"], Function::Ln, &[Takes::Double], Always(Double)),
    Named::by(&["mod"], 2, 2, |binder, call| binder.modulo(call)),
    Named::by(&["coalesce"], 1, usize::MAX, |binder, call| binder.coalesce(call)),
    Named::by(&["ifnull"], 2, 2, |binder, call| binder.coalesce(call)),
    Named::by(&["nullif"], 2, 2, |binder, call| binder.null_if(call)),
    Named::by(&["greatest"], 1, usize::MAX, |binder, call| binder.best(Comparison::GreaterOrEqual, call)),
    Named::by(&["least"], 1, usize::MAX, |binder, call| binder.best(Comparison::LessOrEqual, call)),
    Named::by(&["date_part"], 2, 2, |binder, call| binder.date_part(call)),
    Named::by(&["date_trunc"], 2, 2, |binder, call| binder.date_trunc(call)),
    Named::by(&["year", "month", "day", "hour", "minute", "second", "quarter"], 1, 1, |binder, call| {
        binder.date_field_of(call)
    }),
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
        if name == "unnest" {
            return self.unnest_in_select(function, place);
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
        let Some(named) = TABLE.iter().find(|named| named.names.contains(&name)) else {
            return Err(self.unknown(place, "function", name, FUNCTIONS.iter().copied()));
        };
        named.check_count(name, args.len(), place)?;
        let mut call = Call { name, place, args: args.into_iter() };
        match &named.binds {
            Binds::Typed { function, takes, gives } => {
                let mut bound = Vec::with_capacity(takes.len());
                for (takes, (value, at)) in takes.iter().zip(&mut call.args) {
                    bound.push(match takes {
                        Takes::Text => self.text(value, at)?,
                        Takes::Integer => self.integer(value, at)?,
                        Takes::Double => self.double(value, at)?,
                        Takes::Number => self.numeric(value, at)?,
                    });
                }
                let kind = match gives {
                    Gives::Always(kind) => kind.clone(),
                    Gives::OfFirst => {
                        let digits = match bound.get(1) {
                            Some(Expr::Literal(Value::BigInt(digits), _)) => Some(*digits),
                            Some(_) if matches!(bound[0].kind_ref(), SqlType::Decimal { .. }) => {
                                // How many digits remain is not known before the rows are.
                                bound[0] = self.double(bound[0].clone(), place)?;
                                None
                            }
                            _ => None,
                        };
                        number_kind(function, bound[0].kind_ref(), digits)
                    }
                };
                Ok(Expr::Call(function.clone(), bound, kind))
            }
            Binds::By(bind) => bind(self, call),
        }
    }

    fn trim_call(&self, side: Side, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let (text, at) = call.next();
        self.trim(side, text, call.args.next().map(|(what, _)| what), at)
    }

    /// The characters of a text, the bytes of a string of bytes, the values of a list.
    fn length(&self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let (value, at) = call.next();
        let value = match value.kind() {
            SqlType::List(_) | SqlType::Blob => value,
            _ => self.text(value, at)?,
        };
        Ok(Expr::Call(Function::Length, vec![value], SqlType::BigInt))
    }

    fn contains(&mut self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let ((list, at), (wanted, wanted_at)) = (call.next(), call.next());
        let SqlType::List(of) = list.kind() else {
            return Err(SqlError::wrong_type(at, format!("a list is needed here, and this is a {}", list.kind())));
        };
        let (wanted, _) = self.common(wanted, Expr::Column(ColumnId(u32::MAX), SqlType::clone(&of)), wanted_at)?;
        let kind = wanted.kind();
        // The list's values may have to become doubles, say.
        let list = self.cast_to(list, SqlType::List(Arc::new(kind)), false, at)?;
        Ok(Expr::Call(Function::Contains, vec![list, wanted], SqlType::Boolean))
    }

    fn concat(&self, call: Call<'_>) -> Result<Expr, SqlError> {
        let texts = call.args.map(|(text, _)| self.as_text(text)).collect();
        Ok(Expr::Call(Function::ConcatAll, texts, SqlType::Varchar))
    }

    fn modulo(&mut self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let ((a, _), (b, at)) = (call.next(), call.next());
        self.arithmetic(Function::Modulo, a, b, at)
    }

    fn coalesce(&mut self, call: Call<'_>) -> Result<Expr, SqlError> {
        let (values, kind) = self.unified(call.args.collect())?;
        Ok(Expr::Call(Function::Coalesce, values, kind))
    }

    fn null_if(&mut self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let ((a, _), (b, at)) = (call.next(), call.next());
        let kind = a.kind();
        let is_equal = self.compared(Comparison::Equal, a.clone(), b, at)?;
        Ok(Expr::Call(Function::Case, vec![is_equal, Expr::null(kind.clone()), a], kind))
    }

    /// The value that compares so with all others. Nulls are left out.
    fn best(&mut self, comparison: Comparison, call: Call<'_>) -> Result<Expr, SqlError> {
        let (values, kind) = self.unified(call.args.collect())?;
        let fold = |best: Expr, other: Expr| {
            let is_null = |one: &Expr| Expr::Call(Function::IsNull, vec![one.clone()], SqlType::Boolean);
            let is_better = Expr::compare(comparison, best.clone(), other.clone());
            let keeps = Expr::Call(Function::Or, vec![is_null(&other), is_better], SqlType::Boolean);
            Expr::Call(Function::Case, vec![keeps, best, other], kind.clone())
        };
        // Each step doubles the expression.
        if values.len() > 8 {
            return Err(SqlError::unsupported(call.place, format_args!("{} of more than 8 values", call.name)));
        }
        Ok(values.into_iter().reduce(fold).expect("there is one"))
    }

    /// A field named by a literal, and a date.
    fn field_and_date(&self, call: &mut Call<'_>) -> Result<(DateField, Expr, SourcePosition), SqlError> {
        let ((field, at), (date, date_at)) = (call.next(), call.next());
        let Expr::Literal(Value::Varchar(field), _) = field else {
            return Err(SqlError::wrong_type(at, format!("the field of {} has to be a literal", call.name)));
        };
        Ok((self.date_field(&field, at)?, date, date_at))
    }

    fn date_part(&self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let (field, date, at) = self.field_and_date(&mut call)?;
        self.of_date(Function::Extract(field), date, SqlType::BigInt, at)
    }

    fn date_trunc(&self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let (field, date, at) = self.field_and_date(&mut call)?;
        let kind = date.kind();
        self.of_date(Function::Truncate(field), date, kind, at)
    }

    /// A function with the name of a date's field.
    fn date_field_of(&self, mut call: Call<'_>) -> Result<Expr, SqlError> {
        let (date, at) = call.next();
        let field = self.date_field(call.name, at)?;
        self.of_date(Function::Extract(field), date, SqlType::BigInt, at)
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
            | Function::DaysBetween
            | Function::Parts => None,
            Function::Item => Some("list_extract"),
            Function::Part(_) => Some("struct_extract"),
            Function::Items => Some("list_value"),
            Function::Contains => Some("list_contains"),
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
            ("list_contains", "[1, 2], 2"),
            ("list_extract", "[1, 2], 2"),
            ("list_value", "1, 2"),
            ("struct_extract", "{'a': 1}, 'a'"),
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
            Function::Item,
            Function::Part(0),
            Function::Items,
            Function::Contains,
        ];
        for function in called {
            let name = name_of(&function).unwrap_or_else(|| panic!("{function:?} is called by a name"));
            assert!(FUNCTIONS.contains(&name), "{name}");
        }
    }
}
