//! Expressions: SPARQL 1.1, §19.8, rules 107 to 128.

use super::ast::{Aggregate, Expression, FoldName};
use super::parser::{Aggregates, Parser};
use super::token::Kind;
use super::{Result, Wrong};
use crate::error::QueryError;
use crate::expression::{Arithmetic, Cast, Compare, DateField, Function, Hash};
use oxrdf::NamedNode;

/// Functions by name, with their least and greatest number of operands.
const FUNCTIONS: [(&str, Function, usize, usize); 48] = [
    ("ABS", Function::Abs, 1, 1),
    ("BNODE", Function::BNode, 0, 1),
    ("CEIL", Function::Ceil, 1, 1),
    ("CONCAT", Function::Concat, 0, usize::MAX),
    ("CONTAINS", Function::Contains, 2, 2),
    ("DATATYPE", Function::Datatype, 1, 1),
    ("DAY", Function::Of(DateField::Day), 1, 1),
    ("ENCODE_FOR_URI", Function::EncodeForUri, 1, 1),
    ("FLOOR", Function::Floor, 1, 1),
    ("HOURS", Function::Of(DateField::Hours), 1, 1),
    ("IRI", Function::Iri, 1, 1),
    ("ISBLANK", Function::IsBlank, 1, 1),
    ("ISIRI", Function::IsIri, 1, 1),
    ("ISLITERAL", Function::IsLiteral, 1, 1),
    ("ISNUMERIC", Function::IsNumeric, 1, 1),
    ("ISURI", Function::IsIri, 1, 1),
    ("LANG", Function::Lang, 1, 1),
    ("LANGMATCHES", Function::LangMatches, 2, 2),
    ("LCASE", Function::LCase, 1, 1),
    ("MD5", Function::Hash(Hash::Md5), 1, 1),
    ("MINUTES", Function::Of(DateField::Minutes), 1, 1),
    ("MONTH", Function::Of(DateField::Month), 1, 1),
    ("NOW", Function::Now, 0, 0),
    ("RAND", Function::Rand, 0, 0),
    ("REGEX", Function::Regex, 2, 3),
    ("REPLACE", Function::Replace, 3, 4),
    ("ROUND", Function::Round, 1, 1),
    ("SECONDS", Function::Of(DateField::Seconds), 1, 1),
    ("SHA1", Function::Hash(Hash::Sha1), 1, 1),
    ("SHA256", Function::Hash(Hash::Sha256), 1, 1),
    ("SHA384", Function::Hash(Hash::Sha384), 1, 1),
    ("SHA512", Function::Hash(Hash::Sha512), 1, 1),
    ("STR", Function::Str, 1, 1),
    ("STRAFTER", Function::StrAfter, 2, 2),
    ("STRBEFORE", Function::StrBefore, 2, 2),
    ("STRDT", Function::StrDt, 2, 2),
    ("STRENDS", Function::StrEnds, 2, 2),
    ("STRLANG", Function::StrLang, 2, 2),
    ("STRLEN", Function::StrLen, 1, 1),
    ("STRSTARTS", Function::StrStarts, 2, 2),
    ("STRUUID", Function::StrUuid, 0, 0),
    ("SUBSTR", Function::SubStr, 2, 3),
    ("TIMEZONE", Function::Timezone, 1, 1),
    ("TZ", Function::Tz, 1, 1),
    ("UCASE", Function::UCase, 1, 1),
    ("URI", Function::Iri, 1, 1),
    ("UUID", Function::Uuid, 0, 0),
    ("YEAR", Function::Of(DateField::Year), 1, 1),
];

/// Functions of SPARQL 1.2, with their number of operands.
const NEWER: [(&str, Function, usize); 9] = [
    ("HASLANG", Function::HasLang, 1),
    ("HASLANGDIR", Function::HasLangDir, 1),
    ("ISTRIPLE", Function::IsTriple, 1),
    ("LANGDIR", Function::LangDir, 1),
    ("OBJECT", Function::Object, 1),
    ("PREDICATE", Function::Predicate, 1),
    ("STRLANGDIR", Function::StrLangDir, 3),
    ("SUBJECT", Function::Subject, 1),
    ("TRIPLE", Function::Triple, 3),
];

const AGGREGATES: [(&str, FoldName); 6] = [
    ("COUNT", FoldName::Count),
    ("SUM", FoldName::Sum),
    ("AVG", FoldName::Average),
    ("MIN", FoldName::Least),
    ("MAX", FoldName::Greatest),
    ("SAMPLE", FoldName::Sample),
];

/// The type of values that a constructor function makes: §17.5; `None` for other functions.
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

/// Operands and operators of one precedence, from left to right.
fn chain(first: Expression, others: Vec<(Arithmetic, Expression)>) -> Expression {
    if others.is_empty() { first } else { Expression::Chain(Box::new(first), others) }
}

impl<'a> Parser<'a> {
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.deeper(Self::or)
    }

    /// The condition after FILTER or HAVING: brackets or a call.
    pub(super) fn constraint(&mut self) -> Result<Expression> {
        match self.kind() {
            Kind::Open => self.bracketed(),
            Kind::Word => self.call(),
            Kind::Iri | Kind::Name => {
                let at = self.place();
                let name = self.need_iri()?;
                if self.kind() != Kind::Open {
                    return Err(self.unexpected("`(`: the operands of a function"));
                }
                self.function(name, at)
            }
            _ => Err(self.unexpected("`(` or the call of a function")),
        }
    }

    fn bracketed(&mut self) -> Result<Expression> {
        self.need(Kind::Open, "`(`")?;
        let value = self.expression()?;
        self.need(Kind::Close, "`)` or an operator")?;
        Ok(value)
    }

    fn or(&mut self) -> Result<Expression> {
        let first = self.and()?;
        if self.kind() != Kind::Or {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take(Kind::Or) {
            all.push(self.and()?);
        }
        Ok(Expression::Or(all))
    }

    fn and(&mut self) -> Result<Expression> {
        let first = self.beside(Self::relational)?;
        if self.kind() != Kind::And {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.take(Kind::And) {
            all.push(self.beside(Self::relational)?);
        }
        Ok(Expression::And(all))
    }

    fn relational(&mut self) -> Result<Expression> {
        let left = self.beside(Self::additive)?;
        let operator = match self.kind() {
            Kind::Equal => Compare::Equal,
            Kind::NotEqual => Compare::NotEqual,
            Kind::Less => Compare::Less,
            Kind::LessOrEqual => Compare::LessOrEqual,
            Kind::Greater => Compare::Greater,
            Kind::GreaterOrEqual => Compare::GreaterOrEqual,
            Kind::Iri => {
                // `?x<?a&&?b>?y`
                let token = self.token();
                let found = self.slice(token);
                let message =
                    format!("`{found}` is an IRI and can't stand here; a comparison has spaces around its sign");
                return Err(Wrong::new(token.start as usize, message));
            }
            Kind::Word if self.take_word("IN") => {
                return Ok(Expression::In(Box::new(left), self.operands(0, usize::MAX, "IN")?));
            }
            Kind::Word if self.at_word("NOT") => {
                self.skip();
                self.need_word("IN")?;
                let found = Expression::In(Box::new(left), self.operands(0, usize::MAX, "NOT IN")?);
                return Ok(Expression::Not(Box::new(found)));
            }
            _ => return Ok(left),
        };
        self.skip();
        let right = self.beside(Self::additive)?;
        Ok(Expression::Compare(operator, Box::new(left), Box::new(right)))
    }

    // This and `multiplicative` are two functions on purpose: for one shared function with pointers to the operands'
    // readers, rustc 1.95.0 (LLVM 22.1.2) dropped the step of `take` in the loops of `or` and `and`, in release builds
    // only.
    fn additive(&mut self) -> Result<Expression> {
        let first = self.beside(Self::multiplicative)?;
        let mut others = Vec::new();
        loop {
            let operator = match self.kind() {
                Kind::Plus => Arithmetic::Add,
                Kind::Minus => Arithmetic::Subtract,
                _ => return Ok(chain(first, others)),
            };
            self.skip();
            others.push((operator, self.beside(Self::multiplicative)?));
            self.raise(1)?;
        }
    }

    fn multiplicative(&mut self) -> Result<Expression> {
        let first = self.unary()?;
        let mut others = Vec::new();
        loop {
            let operator = match self.kind() {
                Kind::Star => Arithmetic::Multiply,
                Kind::Slash => Arithmetic::Divide,
                _ => return Ok(chain(first, others)),
            };
            self.skip();
            others.push((operator, self.unary()?));
            self.raise(1)?;
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        if self.at_signed_number() {
            return self.primary();
        }
        Ok(match self.kind() {
            Kind::Bang => {
                self.skip();
                let is_unary = matches!(self.kind(), Kind::Bang | Kind::Plus | Kind::Minus) && !self.at_signed_number();
                if is_unary && self.options.rdf_12 {
                    self.note_newer(self.place(), "a sign behind `!`");
                    return Ok(Expression::Not(Box::new(self.deeper(Self::unary)?)));
                }
                Expression::Not(Box::new(self.deeper(Self::primary)?))
            }
            Kind::Plus => {
                self.skip();
                Expression::Plus(Box::new(self.primary()?))
            }
            Kind::Minus => {
                self.skip();
                Expression::Negate(Box::new(self.primary()?))
            }
            _ => return self.primary(),
        })
    }

    fn primary(&mut self) -> Result<Expression> {
        let at = self.place();
        match self.kind() {
            Kind::Open => self.bracketed(),
            Kind::TermOpen => self.expression_triple(),
            Kind::Variable => {
                if let Some(value) = self.given_expression()? {
                    return Ok(value);
                }
                let var = self.need_variable()?;
                Ok(Expression::Var(var, at as u32))
            }
            Kind::Iri | Kind::Name => {
                let name = self.need_iri()?;
                if self.kind() == Kind::Open { self.function(name, at) } else { Ok(Expression::Iri(name)) }
            }
            Kind::Word if !(self.at_word("true") || self.at_word("false")) => self.call(),
            _ => match self.literal()? {
                Some(literal) => Ok(Expression::Literal(literal)),
                None => Err(self.unexpected("an expression")),
            },
        }
    }

    /// Operands in brackets, separated by commas.
    fn operands(&mut self, least: usize, most: usize, name: &str) -> Result<Vec<Expression>> {
        let at = self.place();
        self.need(Kind::Open, "`(`")?;
        let mut all = Vec::new();
        if !self.take(Kind::Close) {
            loop {
                all.push(self.expression()?);
                if !self.take(Kind::Comma) {
                    break;
                }
            }
            self.need(Kind::Close, "`,`, `)` or an operator")?;
        }
        if (least..=most).contains(&all.len()) {
            return Ok(all);
        }
        let wanted = match (least, most) {
            (_, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} to {most}"),
        };
        Err(Wrong::new(at, format!("{name} has {wanted} operands, not {}", all.len())))
    }

    /// The call of a function named by an IRI.
    fn function(&mut self, name: NamedNode, at: usize) -> Result<Expression> {
        // Only an aggregate has DISTINCT here.
        let is_aggregate = self.kind() == Kind::Open && self.second_is_word("DISTINCT");
        let operands = if is_aggregate {
            self.skip();
            self.skip();
            self.in_aggregate(at, "an aggregate", |parser| {
                parser.expression()?;
                while parser.take(Kind::Comma) {
                    parser.expression()?;
                }
                Ok(())
            })?;
            self.need(Kind::Close, "`,`, `)` or an operator")?;
            Vec::new()
        } else {
            self.operands(0, usize::MAX, "a function")?
        };
        match cast(&name) {
            Some(cast) if operands.len() == 1 && !is_aggregate => Ok(Expression::Call(Function::Cast(cast), operands)),
            _ if self.options.strict_functions => {
                let QueryError { message, kind, .. } = QueryError::unknown_function(name.as_str());
                Err(Box::new(Wrong { at, message, kind }))
            }
            _ => Ok(Expression::Unknown(operands)),
        }
    }

    /// The call of a function or an aggregate named by a keyword.
    fn call(&mut self) -> Result<Expression> {
        let token = self.token();
        let at = token.start as usize;
        let name = self.slice(token);
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if let Some((name, function, least, most)) = FUNCTIONS.iter().find(|(other, ..)| is(other)) {
            self.skip();
            return Ok(Expression::Call(*function, self.operands(*least, *most, name)?));
        }
        if let Some((name, function, operands)) = NEWER.iter().find(|(other, ..)| self.options.rdf_12 && is(other)) {
            self.note_newer(at, name);
            self.skip();
            return Ok(Expression::Call(*function, self.operands(*operands, *operands, name)?));
        }
        if let Some((name, fold)) = AGGREGATES.iter().find(|(other, _)| is(other)) {
            self.skip();
            return self.aggregate(at, name, fold.clone());
        }
        if is("GROUP_CONCAT") {
            self.skip();
            return self.aggregate(at, "GROUP_CONCAT", FoldName::Concat(" ".to_owned()));
        }
        if is("BOUND") {
            self.skip();
            self.need(Kind::Open, "`(`")?;
            let at = self.place();
            if self.given_expression()?.is_some() {
                self.need(Kind::Close, "`)`")?;
                return Ok(Expression::Literal(true.into()));
            }
            let var = self.need_variable()?;
            self.need(Kind::Close, "`)`")?;
            return Ok(Expression::Bound(var, at as u32));
        }
        if is("IF") {
            self.skip();
            let operands = self.operands(3, 3, "IF")?;
            return Ok(Expression::If(Box::new(operands.try_into().expect("there are three"))));
        }
        if is("COALESCE") {
            self.skip();
            return Ok(Expression::Coalesce(self.operands(0, usize::MAX, "COALESCE")?));
        }
        if is("SAMETERM") {
            self.skip();
            let operands = self.operands(2, 2, "sameTerm")?;
            return Ok(Expression::SameTerm(Box::new(operands.try_into().expect("there are two"))));
        }
        if is("EXISTS") {
            self.skip();
            return self.exists();
        }
        if is("NOT") {
            self.skip();
            self.need_word("EXISTS")?;
            return Ok(Expression::Not(Box::new(self.exists()?)));
        }
        if self.second() == Kind::Open {
            return Err(Wrong::new(at, format!("there is no function {name}")));
        }
        Err(self.unexpected("an expression"))
    }

    fn exists(&mut self) -> Result<Expression> {
        let pattern = self.blanks.pattern;
        self.in_exists += 1;
        let group = self.test(|parser| parser.without_aggregates(Self::group))?.0;
        self.in_exists -= 1;
        self.blanks.pattern = pattern;
        Ok(Expression::Exists(group))
    }

    /// The operand after an aggregate's name.
    fn aggregate(&mut self, at: usize, name: &str, fold: FoldName) -> Result<Expression> {
        self.need(Kind::Open, "`(`")?;
        let distinct = self.take_word("DISTINCT");
        let mut fold = fold;
        let of = if fold == FoldName::Count && self.take(Kind::Star) {
            self.in_aggregate(at, name, |_| Ok(None))?
        } else {
            Some(self.in_aggregate(at, name, Self::expression)?)
        };
        if let FoldName::Concat(between) = &mut fold
            && self.take(Kind::Semicolon)
        {
            self.need_word("SEPARATOR")?;
            self.need(Kind::Equal, "`=`")?;
            *between = self.need_string()?;
        }
        self.need(Kind::Close, "`)` or an operator")?;
        Ok(Expression::Aggregate(Box::new(Aggregate { fold, distinct, of })))
    }

    /// Reads the operand of an aggregate, if an aggregate may stand here.
    fn in_aggregate<R>(&mut self, at: usize, name: &str, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let why = match self.aggregates.allowed {
            Aggregates::Allowed => None,
            Aggregates::InPattern => Some(
                "in a pattern (FILTER, BIND): only SELECT, HAVING and ORDER BY see groups; use a sub-query or HAVING",
            ),
            Aggregates::InGroupBy => Some("in GROUP BY, which makes the groups"),
            Aggregates::InAggregate => Some("in an aggregate; use a sub-query"),
        };
        if let Some(why) = why {
            return Err(Wrong::new(at, format!("{name} is an aggregate and can't stand {why}")));
        }
        self.aggregates.count += 1;
        self.aggregates.allowed = Aggregates::InAggregate;
        let done = read(self);
        self.aggregates.allowed = Aggregates::Allowed;
        done
    }

    fn second_is_word(&self, word: &str) -> bool {
        self.second() == Kind::Word && self.slice(self.second_token()).eq_ignore_ascii_case(word)
    }
}
