//! Calls of functions: SPARQL 1.1, §17.4; a match arm for each function.

use super::regexes::Replacement;
use super::{Evaluator, LONG, Val, cast, with_room, with_string};
use crate::expression::{Cast, DateField, Function, Hash};
use crate::terms::Terms;
use crate::value::{DateTime, Number, Rounding, Value, Zone, rounded};
use md5::{Digest, Md5};
use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{BaseDirection, Literal, NamedNode, Term};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use std::fmt::Write as _;
use vicus_rdf::{Id, Kind, TermView};

/// A string literal: its text and, if it has one, its language; a direction stands behind that, as in `en--ltr`.
type Text = (String, Option<String>);

impl Evaluator<'_> {
    /// The value of a call; `None` is an error. The grammar has checked the number of operands.
    pub(super) fn call(&mut self, function: Function, values: &[Val]) -> Option<Val> {
        let boolean = |value| Some(Val::Boolean(value));
        match function {
            Function::Str => {
                if matches!(values[0], Val::Id(id) if id.is_blank() || id.is_triple()) {
                    return None;
                }
                self.lexical(&values[0]).map(Val::String)
            }
            Function::Lang | Function::LangDir if id_in(&values[0]).is_none() => Some(Val::String(String::new())),
            Function::Lang => self.terms.view(self.id_of(values[0].clone()), |view| match view {
                TermView::LangString { language, .. } | TermView::DirString { language, .. } => {
                    Some(Val::String(language.to_owned()))
                }
                TermView::Blank(_) | TermView::Iri(_) | TermView::Triple(_) => None,
                _ => Some(Val::String(String::new())),
            }),
            Function::LangDir => self.terms.view(self.id_of(values[0].clone()), |view| match view {
                TermView::DirString { direction, .. } => Some(Val::String(direction.to_string())),
                TermView::Blank(_) | TermView::Iri(_) | TermView::Triple(_) => None,
                _ => Some(Val::String(String::new())),
            }),
            Function::HasLang => {
                boolean(id_in(&values[0]).is_some_and(|id| matches!(id.kind(), Kind::LangString | Kind::DirString)))
            }
            Function::HasLangDir => boolean(id_in(&values[0]).is_some_and(|id| id.kind() == Kind::DirString)),
            Function::IsTriple => boolean(id_in(&values[0]).is_some_and(Id::is_triple)),
            Function::Triple => {
                let [subject, predicate, object] = values else { return None };
                let ids = [subject, predicate, object].map(|value| self.id_of(value.clone()));
                self.terms.triple(ids).map(Val::Id)
            }
            Function::Subject => self.part(&values[0], 0),
            Function::Predicate => self.part(&values[0], 1),
            Function::Object => self.part(&values[0], 2),
            Function::Part(place) => self.part(&values[0], place.into()),
            Function::Datatype if matches!(values[0], Val::String(_)) => {
                Some(self.iri(xsd::STRING.as_str().to_owned()))
            }
            Function::Datatype => {
                let id = self.id_of(values[0].clone());
                let datatype = self.terms.view(id, |view| view.datatype().map(str::to_owned))?;
                Some(self.iri(datatype))
            }
            Function::IsIri => boolean(id_in(&values[0]).is_some_and(Id::is_iri)),
            Function::IsBlank => boolean(id_in(&values[0]).is_some_and(Id::is_blank)),
            Function::IsLiteral => boolean(id_in(&values[0]).is_none_or(Id::is_literal)),
            Function::IsNumeric => boolean(matches!(self.value(&values[0]), Value::Number(_))),
            Function::LangMatches => {
                let (tag, range) = (self.simple(&values[0])?, self.simple(&values[1])?);
                boolean(language_matches(&tag.to_ascii_lowercase(), &range.to_ascii_lowercase()))
            }
            Function::Regex => {
                let (pattern, flags) = (self.simple(&values[1])?, self.flags(values.get(2))?);
                let (terms, stopped) = (self.terms, self.stopped);
                let regex = self.scratch.regexes.get(&pattern, &flags, stopped.unwrap_or(&|_| false))?;
                with_string(terms, &values[0], |text, _| regex.find_match(text))?.map(Val::Boolean)
            }
            Function::Replace => {
                let (text, language) = self.string(&values[0])?;
                let (pattern, by) = (self.simple(&values[1])?, self.simple(&values[2])?);
                let flags = self.flags(values.get(3))?;
                let by = Replacement::parse(&by, flags.contains('q'))?;
                let (terms, stopped, held) = (self.terms, self.stopped, self.held + text.len());
                let regex = self.scratch.regexes.get(&pattern, &flags, stopped.unwrap_or(&|_| false))?;
                // A pattern that matches the empty text is an error (FORX0003).
                if regex.matches_nothing()? {
                    return None;
                }
                // Growing the text may double its memory.
                let is_too_much = |bytes: usize| stopped.is_some_and(|stopped| stopped((held + 2 * bytes) as u64));
                let fits = |bytes: usize| !(held + bytes >= LONG && is_too_much(bytes)) && terms.check_length(bytes);
                let made = regex.replaced(&text, &by, &fits)?;
                Some(self.tagged(made, language))
            }
            Function::StrLen => {
                let count = with_string(self.terms, &values[0], |text, _| text.chars().count())?;
                Some(Val::Number(Number::Integer(count as i64)))
            }
            Function::UCase | Function::LCase => {
                let (text, language) = self.string(&values[0])?;
                let text = if function == Function::UCase { text.to_uppercase() } else { text.to_lowercase() };
                Some(self.tagged(text, language))
            }
            Function::SubStr => {
                let (text, language) = self.string(&values[0])?;
                let start = self.rounded_number(&values[1])?;
                let end = match values.get(2) {
                    Some(length) => start + self.rounded_number(length)?,
                    None => f64::INFINITY,
                };
                // XPath, §5.4.3: characters are counted from one; places outside of the text select nothing.
                let inside = |place: usize| (place + 1) as f64 >= start && ((place + 1) as f64) < end;
                let chars = text.chars().enumerate().filter(|(place, _)| inside(*place));
                let made = chars.map(|(_, char)| char).collect();
                Some(self.tagged(made, language))
            }
            Function::Contains | Function::StrStarts | Function::StrEnds => {
                let found = |text: &str, part: &str| match function {
                    Function::Contains => text.contains(part),
                    Function::StrStarts => text.starts_with(part),
                    _ => text.ends_with(part),
                };
                // The texts are read where they are.
                with_string(self.terms, &values[0], |text, language| {
                    with_string(self.terms, &values[1], |part, other| {
                        // §17.4.3.1.2: if the second string has a language, the first must have the same one.
                        (other.is_none() || language == other).then(|| Val::Boolean(found(text, part)))
                    })?
                })?
            }
            Function::StrBefore | Function::StrAfter => {
                let ((text, language), (part, _)) = self.compatible(&values[0], &values[1])?;
                let Some(at) = text.find(&part) else { return Some(Val::String(String::new())) };
                let made = if function == Function::StrBefore { &text[..at] } else { &text[at + part.len()..] };
                Some(self.tagged(made.to_owned(), language))
            }
            Function::Concat => {
                // The operands are visited twice: the first pass asks for memory, so that nothing is copied if there is
                // not enough.
                let (mut bytes, mut language, mut agree) = (0, None, true);
                for (place, value) in values.iter().enumerate() {
                    with_string(self.terms, value, |text, other| {
                        bytes += text.len();
                        match place {
                            0 => language = other.map(str::to_owned),
                            _ => agree &= language.as_deref() == other,
                        }
                    })?;
                }
                if !self.claim_room(bytes) {
                    return None;
                }
                let mut made = with_room(bytes);
                for value in values {
                    with_string(self.terms, value, |text, _| made.push_str(text))?;
                }
                Some(self.tagged(made, language.filter(|_| agree)))
            }
            Function::EncodeForUri => {
                let encode = |text: &str, _: Option<&str>| {
                    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
                    let bytes = text.bytes().map(|byte| if is_kept(byte) { 1 } else { 3 }).sum();
                    if !self.claim_room(bytes) {
                        return None;
                    }
                    let mut made = with_room(bytes);
                    for byte in text.bytes() {
                        if is_kept(byte) {
                            made.push(char::from(byte));
                        } else {
                            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
                            made.extend(['%', digit(byte >> 4), digit(byte & 15)]);
                        }
                    }
                    Some(Val::String(made))
                };
                with_string(self.terms, &values[0], encode)?
            }
            Function::Hash(hash) => {
                let text = self.simple(&values[0])?;
                Some(Val::String(match hash {
                    Hash::Md5 => hex(&Md5::digest(text)),
                    Hash::Sha1 => hex(&Sha1::digest(text)),
                    Hash::Sha256 => hex(&Sha256::digest(text)),
                    Hash::Sha384 => hex(&Sha384::digest(text)),
                    Hash::Sha512 => hex(&Sha512::digest(text)),
                }))
            }
            Function::Abs | Function::Ceil | Function::Floor | Function::Round => {
                let Value::Number(number) = self.value(&values[0]) else { return None };
                let made = match function {
                    Function::Abs => number.abs(),
                    Function::Ceil => number.rounded(Rounding::Ceil),
                    Function::Floor => number.rounded(Rounding::Floor),
                    _ => number.rounded(Rounding::Round),
                };
                made.map(Val::Number)
            }
            Function::Iri => {
                if let Some(id) = id_in(&values[0]).filter(|id| id.is_iri()) {
                    return Some(Val::Id(id));
                }
                let text = self.simple(&values[0])?;
                let iri = match self.terms.base() {
                    Some(base) => base.resolve(&text).ok()?,
                    None => Iri::parse(text).ok()?,
                };
                Some(self.iri(iri.into_inner()))
            }
            Function::StrDt => {
                let text = self.simple(&values[0])?;
                let Term::NamedNode(datatype) = self.terms.term(self.id_of(values[1].clone())) else { return None };
                if datatype == oxrdf::vocab::rdf::LANG_STRING || datatype == oxrdf::vocab::rdf::DIR_LANG_STRING {
                    return None;
                }
                let bytes = text.len();
                Some(self.made(bytes, &Literal::new_typed_literal(text, datatype)))
            }
            Function::StrLang => {
                let (text, language) = (self.simple(&values[0])?, self.simple(&values[1])?);
                let literal = Literal::new_language_tagged_literal(text, language).ok()?;
                Some(self.made(literal.value().len(), &literal))
            }
            Function::StrLangDir => {
                let (text, language) = (self.simple(&values[0])?, self.simple(&values[1])?);
                let direction = match self.simple(&values[2])?.as_str() {
                    "ltr" => BaseDirection::Ltr,
                    "rtl" => BaseDirection::Rtl,
                    _ => return None,
                };
                let literal = Literal::new_directional_language_tagged_literal(text, language, direction).ok()?;
                Some(self.made(literal.value().len(), &literal))
            }
            Function::BNode => Some(Val::Id(match values {
                [] => Terms::fresh_blank(self.terms.fresh_blanks(1)),
                [label, row, ..] => {
                    let label = self.simple(label)?;
                    let row = self.id_of(row.clone()).as_integer()?;
                    self.terms.blank(&label, row)
                }
                [_] => return None,
            })),
            Function::RowNumber => Some(Val::Number(Number::Integer(self.terms.next() as i64))),
            // 53 random bits, divided by 2^53, are a number below one.
            Function::Rand => {
                Some(Val::Number(Number::Double((self.terms.chance() >> 11) as f64 / (1u64 << 53) as f64)))
            }
            Function::Uuid => Some(self.iri(format!("urn:uuid:{}", self.uuid()))),
            Function::StrUuid => Some(Val::String(self.uuid())),
            Function::Now => Some(Val::Id(self.terms.now())),
            Function::Of(part) => self.field(part, &values[0]),
            Function::Timezone => {
                let zone = self.moment(&values[0])?.zone()?;
                let datatype = "http://www.w3.org/2001/XMLSchema#dayTimeDuration";
                let literal = Literal::new_typed_literal(zone.as_duration(), NamedNode::new_unchecked(datatype));
                Some(Val::Id(self.terms.id(&literal)))
            }
            Function::Tz => {
                let zone = self.moment(&values[0])?.zone();
                Some(Val::String(zone.as_ref().map_or(String::new(), Zone::to_string)))
            }
            Function::Cast(target) => {
                let value = match &values[0] {
                    Val::Id(id) if id.is_blank() || id.is_triple() => return None,
                    value => self.value(value),
                };
                if target == Cast::String && !matches!(value, Value::Number(_) | Value::Boolean(_) | Value::Lang(_)) {
                    return self.lexical(&values[0]).map(Val::String);
                }
                Some(match cast::cast(target, value)? {
                    Value::Number(number) => Val::Number(number),
                    Value::Boolean(value) => Val::Boolean(value),
                    Value::String(text) => Val::String(text),
                    moment => Val::Moment(moment),
                })
            }
        }
    }

    fn iri(&self, iri: String) -> Val {
        let bytes = iri.len();
        self.made(bytes, &NamedNode::new_unchecked(iri))
    }

    /// Books a string before it is made. False if it would be too long, or its memory is refused.
    fn claim_room(&self, bytes: usize) -> bool {
        !self.poll(bytes) && self.terms.check_length(bytes)
    }

    /// The text of a value, which STR returns.
    pub(super) fn lexical(&self, value: &Val) -> Option<String> {
        let id = match value {
            Val::Id(id) => *id,
            Val::Boolean(value) => return Some(value.to_string()),
            Val::Number(value) => return Some(value.to_string()),
            Val::String(text) => {
                if self.poll(text.len()) {
                    return None;
                }
                let mut copy = with_room(text.len());
                copy.push_str(text);
                return Some(copy);
            }
            Val::Moment(Value::DateTime(value)) => return Some(value.to_string()),
            Val::Moment(Value::Date(value)) => return Some(value.to_string()),
            Val::Moment(Value::Time(value)) => return Some(value.to_string()),
            Val::Moment(other) => unreachable!("{other:?} is no moment"),
        };
        self.terms.view(id, |view| {
            let bytes = view.as_str().map_or(0, str::len);
            if self.poll(bytes) {
                return None;
            }
            let mut text = with_room(bytes);
            view.write_lexical(&mut text).expect("a string takes everything");
            Some(text)
        })
    }

    /// The text of a string literal without a language.
    fn simple(&self, value: &Val) -> Option<String> {
        self.string(value).filter(|(_, language)| language.is_none()).map(|(text, _)| text)
    }

    fn flags(&self, value: Option<&Val>) -> Option<String> {
        value.map_or(Some(String::new()), |value| self.simple(value))
    }

    /// §17.4.3.1.2: if the second string has a language, the first must have the same one.
    fn compatible(&self, a: &Val, b: &Val) -> Option<(Text, Text)> {
        let (a, b) = (self.string(a)?, self.string(b)?);
        (b.1.is_none() || a.1 == b.1).then_some((a, b))
    }

    fn tagged(&self, text: String, language: Option<String>) -> Val {
        match language {
            None => Val::String(text),
            Some(tag) => {
                let literal = match tag.rsplit_once("--") {
                    None => Literal::new_language_tagged_literal_unchecked(text, tag),
                    Some((language, direction)) => {
                        let direction = if direction == "rtl" { BaseDirection::Rtl } else { BaseDirection::Ltr };
                        Literal::new_directional_language_tagged_literal_unchecked(text, language, direction)
                    }
                };
                self.made(literal.value().len(), &literal)
            }
        }
    }

    /// Subject, predicate or object of a triple term.
    fn part(&self, value: &Val, place: usize) -> Option<Val> {
        match value {
            Val::Id(id) => self.terms.part(*id, place).map(Val::Id),
            _ => None,
        }
    }

    fn rounded_number(&self, value: &Val) -> Option<f64> {
        match self.value(value) {
            Value::Number(number) => Some(rounded(number.to_f64(), Rounding::Round)),
            _ => None,
        }
    }

    fn moment(&self, value: &Val) -> Option<DateTime> {
        self.moment_and_hours(value).map(|(moment, _)| moment)
    }

    /// A moment, or the beginning of a day; and whether it has hours of its own, which a day does not.
    fn moment_and_hours(&self, value: &Val) -> Option<(DateTime, bool)> {
        let of_value = |value: &Value| match value {
            Value::DateTime(moment) => Some((*moment, true)),
            Value::Date(date) => Some((date.start(), false)),
            _ => None,
        };
        match value {
            Val::Id(id) => self.scratch.with_value(self.terms, *id, of_value),
            Val::Moment(value) => of_value(value),
            Val::Boolean(_) | Val::Number(_) | Val::String(_) => None,
        }
    }

    /// A field of a moment or of a day.
    pub(super) fn field(&self, field: DateField, value: &Val) -> Option<Val> {
        let integer = |value: i64| Some(Val::Number(Number::Integer(value)));
        let (moment, has_hours) = self.moment_and_hours(value)?;
        match field {
            DateField::Year => integer(moment.date.year),
            DateField::Month => integer(moment.date.month.into()),
            DateField::Day => integer(moment.date.day.into()),
            _ if !has_hours => None,
            DateField::Hours => integer(moment.time.hour.into()),
            DateField::Minutes => integer(moment.time.minute.into()),
            DateField::Seconds => Some(Val::Number(Number::Decimal(moment.time.seconds()))),
        }
    }

    /// RFC 4122, §4.4: version 4, made of random bits only.
    fn uuid(&self) -> String {
        let (high, low) = (self.terms.chance(), self.terms.chance());
        let (high, low) = (high & !0xF000 | 0x4000, low & !(0xC << 60) | 0x8 << 60);
        let text = format!("{high:016x}{low:016x}");
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }
}

/// The id of a term; `None` for a computed value, which is a literal without a language.
fn id_in(value: &Val) -> Option<Id> {
    if let Val::Id(id) = value { Some(*id) } else { None }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// RFC 4647, basic filtering; both arguments are in lower case.
fn language_matches(tag: &str, range: &str) -> bool {
    match range {
        "*" => !tag.is_empty(),
        _ => tag.strip_prefix(range).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
    }
}
