//! Calls of functions: SPARQL 1.1, §17.4, as a table of functions and their code.

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
use std::ops::Range;
use vicus_rdf::{Id, TermKind, TermView};

/// A string literal: its text and, if it has one, its language; a direction stands behind that, as in `en--ltr`.
type Text = (String, Option<String>);

impl Evaluator<'_> {
    /// The value of a call; `None` is an error. The grammar has checked the number of operands.
    pub(super) fn call(&mut self, function: Function, values: &[Val]) -> Option<Val> {
        let is = |holds: bool| Some(Val::Boolean(holds));
        match function {
            // Of terms.
            Function::Str => self.str(&values[0]),
            Function::Lang => self.lang(&values[0]),
            Function::LangDir => self.lang_dir(&values[0]),
            Function::Datatype => self.datatype(&values[0]),
            Function::IsIri => is(id_in(&values[0]).is_some_and(Id::is_iri)),
            Function::IsBlank => is(id_in(&values[0]).is_some_and(Id::is_blank)),
            Function::IsLiteral => is(id_in(&values[0]).is_none_or(Id::is_literal)),
            Function::IsNumeric => is(matches!(self.value(&values[0]), Value::Number(_))),
            Function::HasLang => is(has_kind(&values[0], &[TermKind::LangString, TermKind::DirString])),
            Function::HasLangDir => is(has_kind(&values[0], &[TermKind::DirString])),
            Function::Iri => self.iri_of(&values[0]),
            Function::BNode => self.blank_node(values),
            Function::StrDt => self.with_datatype(&values[0], &values[1]),
            Function::StrLang => self.with_language(&values[0], &values[1]),
            Function::StrLangDir => self.with_direction(&values[0], &values[1], &values[2]),
            Function::Cast(target) => self.cast(target, &values[0]),
            // Of triple terms.
            Function::IsTriple => is(id_in(&values[0]).is_some_and(Id::is_triple)),
            Function::Triple => self.triple(values),
            Function::Subject => self.part(&values[0], 0),
            Function::Predicate => self.part(&values[0], 1),
            Function::Object => self.part(&values[0], 2),
            Function::Part(place) => self.part(&values[0], place.into()),
            // Of texts.
            Function::StrLen => self.length(&values[0]),
            Function::UCase => self.with_text(&values[0], str::to_uppercase),
            Function::LCase => self.with_text(&values[0], str::to_lowercase),
            Function::SubStr => self.substring(&values[0], &values[1], values.get(2)),
            Function::Contains => self.asked_of_texts(values, |text, part| text.contains(part)),
            Function::StrStarts => self.asked_of_texts(values, |text, part| text.starts_with(part)),
            Function::StrEnds => self.asked_of_texts(values, |text, part| text.ends_with(part)),
            Function::StrBefore => self.around(values, |text, found| &text[..found.start]),
            Function::StrAfter => self.around(values, |text, found| &text[found.end..]),
            Function::Concat => self.concatenated(values),
            Function::EncodeForUri => self.encoded_for_uri(&values[0]),
            Function::LangMatches => self.language_matches(&values[0], &values[1]),
            Function::Regex => self.matches(&values[0], &values[1], values.get(2)),
            Function::Replace => self.replaced(&values[0], &values[1], &values[2], values.get(3)),
            Function::Hash(hash) => self.hashed(hash, &values[0]),
            // Of numbers.
            Function::Abs => self.with_number(&values[0], Number::abs),
            Function::Ceil => self.with_number(&values[0], |number| number.rounded(Rounding::Ceil)),
            Function::Floor => self.with_number(&values[0], |number| number.rounded(Rounding::Floor)),
            Function::Round => self.with_number(&values[0], |number| number.rounded(Rounding::Round)),
            // Of moments.
            Function::Now => Some(Val::Id(self.terms.now())),
            Function::Of(part) => self.field(part, &values[0]),
            Function::Timezone => self.timezone(&values[0]),
            Function::Tz => self.tz(&values[0]),
            // Of nothing.
            Function::RowNumber => Some(Val::Number(Number::Integer(self.terms.next() as i64))),
            Function::Rand => self.random(),
            Function::Uuid => Some(self.iri(format!("urn:uuid:{}", self.uuid()))),
            Function::StrUuid => Some(Val::String(self.uuid())),
        }
    }

    // Terms.

    fn str(&self, value: &Val) -> Option<Val> {
        if matches!(value, Val::Id(id) if id.is_blank() || id.is_triple()) {
            return None;
        }
        self.lexical(value).map(Val::String)
    }

    fn lang(&self, value: &Val) -> Option<Val> {
        let Some(id) = id_in(value) else { return Some(Val::String(String::new())) };
        self.terms.view(id, |view| match view {
            TermView::LangString { language, .. } | TermView::DirString { language, .. } => {
                Some(Val::String(language.to_owned()))
            }
            TermView::Blank(_) | TermView::Iri(_) | TermView::Triple(_) => None,
            _ => Some(Val::String(String::new())),
        })
    }

    fn lang_dir(&self, value: &Val) -> Option<Val> {
        let Some(id) = id_in(value) else { return Some(Val::String(String::new())) };
        self.terms.view(id, |view| match view {
            TermView::DirString { direction, .. } => Some(Val::String(direction.to_string())),
            TermView::Blank(_) | TermView::Iri(_) | TermView::Triple(_) => None,
            _ => Some(Val::String(String::new())),
        })
    }

    fn datatype(&self, value: &Val) -> Option<Val> {
        if matches!(value, Val::String(_)) {
            return Some(self.iri(xsd::STRING.as_str().to_owned()));
        }
        let id = self.id_of(value.clone());
        let datatype = self.terms.view(id, |view| view.datatype().map(str::to_owned))?;
        Some(self.iri(datatype))
    }

    fn iri_of(&self, value: &Val) -> Option<Val> {
        if let Some(id) = id_in(value).filter(|id| id.is_iri()) {
            return Some(Val::Id(id));
        }
        let text = self.simple(value)?;
        let iri = match self.terms.base() {
            Some(base) => base.resolve(&text).ok()?,
            None => Iri::parse(text).ok()?,
        };
        Some(self.iri(iri.into_inner()))
    }

    fn blank_node(&self, values: &[Val]) -> Option<Val> {
        match values {
            [] => Some(Val::Id(Terms::fresh_blank(self.terms.fresh_blanks(1)))),
            [label, row, ..] => {
                let label = self.simple(label)?;
                let row = self.id_of(row.clone()).as_integer()?;
                Some(Val::Id(self.terms.blank(&label, row)))
            }
            [_] => None,
        }
    }

    fn with_datatype(&self, text: &Val, datatype: &Val) -> Option<Val> {
        let text = self.simple(text)?;
        let Term::NamedNode(datatype) = self.terms.term(self.id_of(datatype.clone())) else { return None };
        if datatype == oxrdf::vocab::rdf::LANG_STRING || datatype == oxrdf::vocab::rdf::DIR_LANG_STRING {
            return None;
        }
        let bytes = text.len();
        Some(self.made(bytes, &Literal::new_typed_literal(text, datatype)))
    }

    fn with_language(&self, text: &Val, language: &Val) -> Option<Val> {
        let (text, language) = (self.simple(text)?, self.simple(language)?);
        let literal = Literal::new_language_tagged_literal(text, language).ok()?;
        Some(self.made(literal.value().len(), &literal))
    }

    fn with_direction(&self, text: &Val, language: &Val, direction: &Val) -> Option<Val> {
        let (text, language) = (self.simple(text)?, self.simple(language)?);
        let direction = match self.simple(direction)?.as_str() {
            "ltr" => BaseDirection::Ltr,
            "rtl" => BaseDirection::Rtl,
            _ => return None,
        };
        let literal = Literal::new_directional_language_tagged_literal(text, language, direction).ok()?;
        Some(self.made(literal.value().len(), &literal))
    }

    fn cast(&self, target: Cast, value: &Val) -> Option<Val> {
        if id_in(value).is_some_and(|id| id.is_blank() || id.is_triple()) {
            return None;
        }
        let known = self.value(value);
        if target == Cast::String && !matches!(known, Value::Number(_) | Value::Boolean(_) | Value::Lang(_)) {
            return self.lexical(value).map(Val::String);
        }
        Some(match cast::cast(target, known)? {
            Value::Number(number) => Val::Number(number),
            Value::Boolean(value) => Val::Boolean(value),
            Value::String(text) => Val::String(text),
            moment => Val::Moment(moment),
        })
    }

    // Triple terms.

    fn triple(&self, values: &[Val]) -> Option<Val> {
        let [subject, predicate, object] = values else { return None };
        let ids = [subject, predicate, object].map(|value| self.id_of(value.clone()));
        self.terms.triple(ids).map(Val::Id)
    }

    /// Subject, predicate or object of a triple term.
    fn part(&self, value: &Val, place: usize) -> Option<Val> {
        match value {
            Val::Id(id) => self.terms.part(*id, place).map(Val::Id),
            _ => None,
        }
    }

    // Texts.

    fn length(&self, value: &Val) -> Option<Val> {
        let count = with_string(self.terms, value, |text, _| text.chars().count())?;
        Some(Val::Number(Number::Integer(count as i64)))
    }

    fn with_text(&self, value: &Val, make: impl FnOnce(&str) -> String) -> Option<Val> {
        let (text, language) = self.string(value)?;
        Some(self.tagged(make(&text), language))
    }

    fn substring(&self, value: &Val, start: &Val, length: Option<&Val>) -> Option<Val> {
        let (text, language) = self.string(value)?;
        let start = self.rounded_number(start)?;
        let end = match length {
            Some(length) => start + self.rounded_number(length)?,
            None => f64::INFINITY,
        };
        // XPath, §5.4.3: characters are counted from one; places outside of the text select nothing.
        let inside = |place: usize| (place + 1) as f64 >= start && ((place + 1) as f64) < end;
        let chars = text.chars().enumerate().filter(|(place, _)| inside(*place));
        let made = chars.map(|(_, char)| char).collect();
        Some(self.tagged(made, language))
    }

    /// Asks two texts where they are.
    fn asked_of_texts(&self, values: &[Val], ask: impl Fn(&str, &str) -> bool) -> Option<Val> {
        with_string(self.terms, &values[0], |text, language| {
            with_string(self.terms, &values[1], |part, other| {
                // §17.4.3.1.2: if the second string has a language, the first must have the same one.
                (other.is_none() || language == other).then(|| Val::Boolean(ask(text, part)))
            })?
        })?
    }

    /// The text before or after the place of another text; empty if it is not in there.
    fn around(&self, values: &[Val], side: impl Fn(&str, Range<usize>) -> &str) -> Option<Val> {
        let ((text, language), (part, _)) = self.compatible(&values[0], &values[1])?;
        let Some(at) = text.find(&part) else { return Some(Val::String(String::new())) };
        Some(self.tagged(side(&text, at..at + part.len()).to_owned(), language))
    }

    fn concatenated(&self, values: &[Val]) -> Option<Val> {
        // The operands are visited twice: the first pass asks for memory, so that nothing is copied if there is not
        // enough.
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

    fn encoded_for_uri(&self, value: &Val) -> Option<Val> {
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
        with_string(self.terms, value, encode)?
    }

    fn language_matches(&self, tag: &Val, range: &Val) -> Option<Val> {
        let (tag, range) = (self.simple(tag)?, self.simple(range)?);
        Some(Val::Boolean(language_matches(&tag.to_ascii_lowercase(), &range.to_ascii_lowercase())))
    }

    fn matches(&mut self, text: &Val, pattern: &Val, flags: Option<&Val>) -> Option<Val> {
        let (pattern, flags) = (self.simple(pattern)?, self.flags(flags)?);
        let (terms, stopped) = (self.terms, self.stopped);
        let regex = self.scratch.regexes.get(&pattern, &flags, stopped.unwrap_or(&|_| false))?;
        with_string(terms, text, |text, _| regex.find_match(text))?.map(Val::Boolean)
    }

    fn replaced(&mut self, text: &Val, pattern: &Val, by: &Val, flags: Option<&Val>) -> Option<Val> {
        let (text, language) = self.string(text)?;
        let (pattern, by) = (self.simple(pattern)?, self.simple(by)?);
        let flags = self.flags(flags)?;
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

    fn hashed(&self, hash: Hash, value: &Val) -> Option<Val> {
        let text = self.simple(value)?;
        Some(Val::String(match hash {
            Hash::Md5 => hex(&Md5::digest(text)),
            Hash::Sha1 => hex(&Sha1::digest(text)),
            Hash::Sha256 => hex(&Sha256::digest(text)),
            Hash::Sha384 => hex(&Sha384::digest(text)),
            Hash::Sha512 => hex(&Sha512::digest(text)),
        }))
    }

    // Numbers.

    fn with_number(&self, value: &Val, make: impl FnOnce(&Number) -> Option<Number>) -> Option<Val> {
        let Value::Number(number) = self.value(value) else { return None };
        make(&number).map(Val::Number)
    }

    /// 53 random bits, divided by 2^53: a number below one.
    fn random(&self) -> Option<Val> {
        Some(Val::Number(Number::Double((self.terms.chance() >> 11) as f64 / (1u64 << 53) as f64)))
    }

    // Moments.

    fn timezone(&self, value: &Val) -> Option<Val> {
        let zone = self.moment(value)?.zone()?;
        let datatype = "http://www.w3.org/2001/XMLSchema#dayTimeDuration";
        let literal = Literal::new_typed_literal(zone.as_duration(), NamedNode::new_unchecked(datatype));
        Some(Val::Id(self.terms.id(&literal)))
    }

    fn tz(&self, value: &Val) -> Option<Val> {
        let zone = self.moment(value)?.zone();
        Some(Val::String(zone.as_ref().map_or(String::new(), Zone::to_string)))
    }

    // Parts of several functions.

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

/// Whether a term has one of these kinds.
fn has_kind(value: &Val, kinds: &[TermKind]) -> bool {
    id_in(value).is_some_and(|id| kinds.contains(&id.kind()))
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
