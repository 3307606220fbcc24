//! Contexts of JSON-LD: JSON-LD 1.1 Processing Algorithms and API, §4 and §5.2.
//!
//! A context is a layer over its base context, so a new one costs its own content only. Contexts elsewhere are not
//! read.

use super::json::{Json, Member};
use super::{Fault, Result, wrong};
use oxiri::{Iri, IriParseError};
use oxrdf::BaseDirection;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How deep the definitions of terms may be within each other: a term may be written with another, and have a context
/// of its own.
const MOST_DEFINED: usize = 64;

/// How many layers a context may have.
const MOST_LAYERS: usize = 2048;

/// The most bytes of the IRIs of all contexts of a document. Terms defined by each other are longer than their text.
const MOST_BYTES: usize = 64 << 20;

/// JSON-LD's active context.
#[derive(Clone, Default)]
pub(super) struct Context<'d> {
    pub(super) base: Option<Rc<Iri<String>>>,
    vocabulary: Option<Rc<str>>,
    pub(super) language: Option<Rc<str>>,
    pub(super) direction: Option<BaseDirection>,
    /// The context to restore within a node object, if this one doesn't propagate.
    pub(super) previous: Option<Rc<Context<'d>>>,
    /// Its terms; `None` takes the definition below away.
    terms: BTreeMap<Rc<str>, Option<Rc<Definition<'d>>>>,
    /// The layer of its other terms.
    below: Option<Rc<Context<'d>>>,
    layers: usize,
}

/// The containers of a term, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Containers(u8);

impl Containers {
    pub(super) const LIST: Containers = Containers(1);
    pub(super) const SET: Containers = Containers(2);
    pub(super) const LANGUAGE: Containers = Containers(4);
    pub(super) const INDEX: Containers = Containers(8);
    pub(super) const ID: Containers = Containers(16);
    pub(super) const TYPE: Containers = Containers(32);
    pub(super) const GRAPH: Containers = Containers(64);

    pub(super) fn has(self, other: Containers) -> bool {
        self.0 & other.0 != 0
    }

    fn of(name: &str) -> Option<Containers> {
        Some(match name {
            "@list" => Containers::LIST,
            "@set" => Containers::SET,
            "@language" => Containers::LANGUAGE,
            "@index" => Containers::INDEX,
            "@id" => Containers::ID,
            "@type" => Containers::TYPE,
            "@graph" => Containers::GRAPH,
            _ => return None,
        })
    }

    /// The containers in a list of names.
    fn read(value: &Json) -> Option<Containers> {
        let mut all = Containers::default();
        for item in value.items() {
            all.0 |= Containers::of(item.as_str()?)?.0;
        }
        let but_sets = Containers(all.0 & !Containers::SET.0);
        let is_known = match but_sets {
            Containers(0) => all == Containers::SET,
            Containers::LIST => all == but_sets,
            Containers::LANGUAGE | Containers::INDEX | Containers::ID | Containers::TYPE | Containers::GRAPH => true,
            both => {
                both.0 == Containers::GRAPH.0 | Containers::ID.0 || both.0 == Containers::GRAPH.0 | Containers::INDEX.0
            }
        };
        is_known.then_some(all)
    }
}

/// The meaning of a term.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Definition<'d> {
    /// An IRI, a blank node, or a keyword; `None` if the term is to be left out.
    pub(super) iri: Option<Rc<str>>,
    is_prefix: bool,
    is_protected: bool,
    pub(super) is_reverse: bool,
    /// The context for the term's values.
    pub(super) context: Option<&'d Json>,
    pub(super) containers: Containers,
    pub(super) direction: Option<Option<BaseDirection>>,
    pub(super) index: Option<&'d str>,
    pub(super) language: Option<Option<Rc<str>>>,
    pub(super) nest: Option<&'d str>,
    pub(super) value_type: Option<Rc<str>>,
}

impl<'d> Context<'d> {
    pub(super) fn of_base(base: Option<Rc<Iri<String>>>) -> Context<'d> {
        Context { base, layers: 1, ..Context::default() }
    }

    pub(super) fn term(&self, term: &str) -> Option<&Rc<Definition<'d>>> {
        let mut layer = self;
        loop {
            if let Some(found) = layer.terms.get(term) {
                return found.as_ref();
            }
            layer = layer.below.as_deref()?;
        }
    }

    /// The keyword written as, or meant by, a key.
    pub(super) fn keyword<'k>(&'k self, key: &'k str) -> Option<&'k str> {
        if key.starts_with('@') {
            return is_keyword(key).then_some(key);
        }
        self.term(key).and_then(|definition| definition.iri.as_deref()).filter(|iri| is_keyword(iri))
    }

    pub(super) fn containers(&self, term: Option<&str>) -> Containers {
        term.and_then(|term| self.term(term)).map(|definition| definition.containers).unwrap_or_default()
    }

    fn has_protected(&self) -> bool {
        let mut layer = Some(self);
        while let Some(here) = layer {
            let is_protected = |(term, definition): (&Rc<str>, &Option<Rc<Definition<'_>>>)| {
                definition.as_ref().is_some_and(|definition| definition.is_protected) && self.term(term).is_some()
            };
            if here.terms.iter().any(is_protected) {
                return true;
            }
            layer = here.below.as_deref();
        }
        false
    }
}

pub(super) fn is_keyword(text: &str) -> bool {
    matches!(
        text,
        "@base"
            | "@container"
            | "@context"
            | "@direction"
            | "@graph"
            | "@id"
            | "@import"
            | "@included"
            | "@index"
            | "@json"
            | "@language"
            | "@list"
            | "@nest"
            | "@none"
            | "@prefix"
            | "@propagate"
            | "@protected"
            | "@reverse"
            | "@set"
            | "@type"
            | "@value"
            | "@version"
            | "@vocab"
    )
}

/// Whether it looks like a keyword; such texts other than keywords mean nothing.
fn has_form_of_keyword(text: &str) -> bool {
    text.strip_prefix('@').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// A base direction, `null`, or neither.
pub(super) fn direction_of(value: &Json) -> Result<Option<BaseDirection>> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) if &**text == "ltr" => Ok(Some(BaseDirection::Ltr)),
        Json::String(text) if &**text == "rtl" => Ok(Some(BaseDirection::Rtl)),
        _ => wrong("the value of @direction must be \"ltr\", \"rtl\" or null"),
    }
}

/// Whether a text is an absolute IRI or a blank node.
fn is_named(text: &str) -> bool {
    text.starts_with("_:") || Iri::parse(text).is_ok()
}

fn boolean(value: &Json, keyword: &str) -> Result<bool> {
    match value {
        Json::Boolean(value) => Ok(*value),
        _ => wrong(format!("the value of {keyword} must be true or false")),
    }
}

/// The names that a text to be expanded may be relative to.
#[derive(Clone, Copy)]
pub(super) struct RelativeTo {
    pub(super) document: bool,
    pub(super) vocabulary: bool,
}

impl RelativeTo {
    pub(super) const DOCUMENT: RelativeTo = RelativeTo { document: true, vocabulary: false };
    pub(super) const VOCABULARY: RelativeTo = RelativeTo { document: false, vocabulary: true };
    pub(super) const BOTH: RelativeTo = RelativeTo { document: true, vocabulary: true };
}

/// The use of a term with a context of its own. That of a property may change protected terms, and holds for nodes
/// within; that of a type does neither.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ScopeOf {
    Property,
    Type,
}

/// An entry of a context: the term, the value of its `@id`, and whether that is the whole entry.
struct TermEntry<'d> {
    term: &'d str,
    id: Option<&'d Json>,
    is_simple: bool,
}

/// The context being read, and the progress of its terms.
struct Local<'d> {
    members: BTreeMap<&'d str, &'d Json>,
    /// Whether a term is defined, or on the way.
    defined: BTreeMap<&'d str, bool>,
    is_protected: bool,
    overrides: bool,
}

/// A context brought by a term: its base context, the term's definition, and the result. The first two are kept to keep
/// their addresses theirs.
type Scoped<'d> = (Rc<Context<'d>>, Rc<Definition<'d>>, Rc<Context<'d>>);

/// Makes contexts, within limits.
pub(super) struct Processor<'d, 's> {
    longest_iri: usize,
    stopped: &'s dyn Fn() -> bool,
    steps: usize,
    document_base: Option<Rc<Iri<String>>>,
    /// How many definitions are on the way.
    depth: usize,
    /// Bytes of all definitions so far.
    bytes: usize,
    /// Contexts brought by terms, by their base context and the term's definition.
    scoped: BTreeMap<(usize, usize, bool), Scoped<'d>>,
}

/// So many scoped contexts are remembered.
const MOST_REMEMBERED: usize = 256;

/// Definitions or values read between two looks whether reading is stopped.
const BETWEEN_LOOKS: usize = 1 << 8;

impl<'d, 's> Processor<'d, 's> {
    pub(super) fn new(
        document_base: Option<Rc<Iri<String>>>,
        longest_iri: usize,
        stopped: &'s dyn Fn() -> bool,
    ) -> Processor<'d, 's> {
        Processor { longest_iri, stopped, steps: 0, document_base, depth: 0, bytes: 0, scoped: BTreeMap::new() }
    }

    /// Counts a step, and looks now and then whether reading is stopped.
    pub(super) fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(BETWEEN_LOOKS) && (self.stopped)() {
            return Err(Fault::Stopped);
        }
        Ok(())
    }

    /// An IRI, unless it is too long.
    pub(super) fn checked<T: AsRef<str>>(&self, iri: T) -> Result<T> {
        self.check_length(iri.as_ref().len())?;
        Ok(iri)
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        match bytes > self.longest_iri {
            true => wrong(super::super::too_long_iri(self.longest_iri)),
            false => Ok(()),
        }
    }

    /// The context brought by a term for a property or a type, over an active one.
    pub(super) fn scoped(
        &mut self,
        active: &Rc<Context<'d>>,
        definition: &Rc<Definition<'d>>,
        of: ScopeOf,
    ) -> Result<Option<Rc<Context<'d>>>> {
        let Some(local) = definition.context else { return Ok(None) };
        let is_property = of == ScopeOf::Property;
        let key = (Rc::as_ptr(active) as usize, Rc::as_ptr(definition) as usize, is_property);
        if let Some((_, _, made)) = self.scoped.get(&key) {
            return Ok(Some(Rc::clone(made)));
        }
        let made = self.process(active, local, is_property, is_property)?;
        if self.scoped.len() >= MOST_REMEMBERED {
            self.scoped.clear();
        }
        self.scoped.insert(key, (Rc::clone(active), Rc::clone(definition), Rc::clone(&made)));
        Ok(Some(made))
    }

    /// Context Processing Algorithm, §4.1.2.
    pub(super) fn process(
        &mut self,
        active: &Rc<Context<'d>>,
        local: &'d Json,
        overrides: bool,
        mut propagates: bool,
    ) -> Result<Rc<Context<'d>>> {
        if let Json::Object(members) = local
            && let Some((_, value)) = members.iter().find(|(name, _)| &**name == "@propagate")
        {
            propagates = boolean(value, "@propagate")?;
        }
        let previous = match (propagates, &active.previous) {
            (true, previous) => previous.clone(),
            (false, Some(previous)) => Some(Rc::clone(previous)),
            (false, None) => Some(Rc::clone(active)),
        };
        let mut result = Context {
            base: active.base.clone(),
            vocabulary: active.vocabulary.clone(),
            language: active.language.clone(),
            direction: active.direction,
            previous: previous.clone(),
            terms: BTreeMap::new(),
            below: Some(Rc::clone(active)),
            layers: active.layers + 1,
        };
        if result.layers > MOST_LAYERS {
            return wrong(format!("contexts are over each other more than {MOST_LAYERS} layers"));
        }
        for context in local.items() {
            self.step()?;
            match context {
                Json::Null => {
                    if !overrides && result.has_protected() {
                        return wrong("the context null would take protected terms away");
                    }
                    result = Context::of_base(self.document_base.clone());
                    result.previous = previous.clone().filter(|_| !propagates);
                }
                Json::String(iri) => {
                    let iri: String = iri.chars().take(100).collect();
                    return wrong(format!(
                        "the context `{iri}` lies elsewhere, and only contexts within the document are read: put its \
                            content here"
                    ));
                }
                Json::Object(members) => self.read(&mut result, members, overrides)?,
                _ => return wrong("the value of @context must be an object, null, or a list of these"),
            }
        }
        // A small layer below is copied, so there are few.
        while let Some(below) =
            result.below.as_ref().filter(|below| below.terms.len() <= result.terms.len().min(64) + 8)
        {
            let below = Rc::clone(below);
            let len = result.terms.len();
            for (term, definition) in &below.terms {
                result.terms.entry(Rc::clone(term)).or_insert_with(|| definition.clone());
            }
            result.below.clone_from(&below.below);
            result.layers -= 1;
            if result.terms.len() > 2 * len + 8 {
                break;
            }
        }
        Ok(Rc::new(result))
    }

    /// Reads one context into the result.
    fn read(&mut self, result: &mut Context<'d>, members: &'d [Member], overrides: bool) -> Result<()> {
        let members: BTreeMap<&str, &Json> = members.iter().map(|(name, value)| (&**name, value)).collect();
        if let Some(value) = members.get("@version")
            && !matches!(value, Json::Number(number) if number.parse() == Ok(1.1_f64))
        {
            return wrong("the value of @version must be the number 1.1");
        }
        if members.contains_key("@import") {
            return wrong("@import names a context elsewhere, and only contexts within the document are read");
        }
        match members.get("@base") {
            None => {}
            Some(Json::Null) => result.base = None,
            Some(Json::String(base)) => {
                let resolved = match &result.base {
                    Some(outer) => resolved(outer, base),
                    None => Iri::parse(base.to_string()),
                };
                let Ok(resolved) = resolved else { return wrong("the value of @base is no IRI") };
                self.check_length(resolved.len())?;
                result.base = Some(Rc::new(resolved));
            }
            Some(_) => return wrong("the value of @base must be a string or null"),
        }
        match members.get("@vocab") {
            None => {}
            Some(Json::Null) => result.vocabulary = None,
            Some(Json::String(vocabulary)) => {
                let expanded = self.expand(result, vocabulary, RelativeTo::BOTH, None)?;
                let Some(expanded) = expanded.filter(|iri| !has_form_of_keyword(iri)) else {
                    return wrong("the value of @vocab is no IRI");
                };
                result.vocabulary = Some(expanded.into());
            }
            Some(_) => return wrong("the value of @vocab must be a string or null"),
        }
        match members.get("@language") {
            None => {}
            Some(Json::Null) => result.language = None,
            Some(Json::String(language)) => result.language = Some((&**language).into()),
            Some(_) => return wrong("the value of @language in a context must be a string or null"),
        }
        if let Some(value) = members.get("@direction") {
            result.direction = direction_of(value)?;
        }
        if let Some(value) = members.get("@propagate") {
            boolean(value, "@propagate")?;
        }
        let is_protected = members.get("@protected").map_or(Ok(false), |value| boolean(value, "@protected"))?;
        let terms: Vec<&'d str> = members.keys().copied().collect();
        let mut local = Local { members, defined: BTreeMap::new(), is_protected, overrides };
        const OTHERS: [&str; 8] =
            ["@base", "@direction", "@import", "@language", "@propagate", "@protected", "@version", "@vocab"];
        for term in terms.into_iter().filter(|term| !OTHERS.contains(term)) {
            self.define(result, &mut local, term)?;
        }
        Ok(())
    }

    /// Create Term Definition, §4.2.2.
    fn define(&mut self, result: &mut Context<'d>, local: &mut Local<'d>, term: &'d str) -> Result<()> {
        match local.defined.get(term) {
            Some(true) => return Ok(()),
            Some(false) => return wrong(format!("the term `{}` is defined by itself", short(term))),
            None => {}
        }
        if term.is_empty() {
            return wrong("the name of a term is empty");
        }
        self.step()?;
        self.depth += 1;
        if self.depth > MOST_DEFINED {
            return wrong(format!("terms are defined by each other more than {MOST_DEFINED} levels deep"));
        }
        local.defined.insert(term, false);
        let value = local.members[term];
        if self.is_to_define(term, value)? {
            let before = result.term(term).cloned();
            let Some(made) = self.definition(result, local, term, value)? else {
                local.defined.insert(term, true);
                self.depth -= 1;
                return Ok(());
            };
            let mut definition = Rc::new(made);
            if let Some(before) = before.filter(|before| before.is_protected && !local.overrides) {
                let same = Definition { is_protected: true, ..Definition::clone(&definition) };
                if same != *before {
                    return wrong(format!("the term `{}` is protected", short(term)));
                }
                definition = before;
            }
            let lengths =
                [definition.iri.as_ref(), definition.value_type.as_ref()].map(|iri| iri.map_or(0, |iri| iri.len()));
            self.bytes += lengths[0] + lengths[1];
            if self.bytes > MOST_BYTES {
                return wrong(format!("the terms of contexts stand for more than {MOST_BYTES} bytes of IRIs together"));
            }
            result.terms.insert(term.into(), Some(definition));
        }
        local.defined.insert(term, true);
        self.depth -= 1;
        Ok(())
    }

    /// Whether a name is a term: keywords are none, but for `@type`, and names that look like keywords are left out.
    fn is_to_define(&self, term: &str, value: &Json) -> Result<bool> {
        if term == "@type" {
            let is_set = |value: &Json| matches!(value, Json::String(text) if &**text == "@set");
            let is_member = |(name, value): &Member| match &**name {
                "@protected" => true,
                "@container" => value.items().iter().all(is_set),
                _ => false,
            };
            let is_fine =
                matches!(value, Json::Object(members) if !members.is_empty() && members.iter().all(is_member));
            return if is_fine { Ok(true) } else { wrong("the keyword @type can't be defined so") };
        }
        if is_keyword(term) {
            return wrong(format!("the keyword {term} can't be a term"));
        }
        Ok(!has_form_of_keyword(term))
    }

    /// The definition of a term; `None` if it means a text that looks like a keyword and is none. Such a text means
    /// nothing.
    fn definition(
        &mut self,
        result: &mut Context<'d>,
        local: &mut Local<'d>,
        term: &'d str,
        value: &'d Json,
    ) -> Result<Option<Definition<'d>>> {
        if result.term(term).is_some() {
            result.terms.insert(term.into(), None);
        }
        let mut made = Definition { is_protected: local.is_protected, ..Definition::default() };
        let (members, is_simple): (&'d [Member], bool) = match value {
            Json::Object(members) => (members, false),
            Json::Null | Json::String(_) => (&[], true),
            _ => return wrong(format!("the term `{}` must be a string, an object or null", short(term))),
        };
        let mut id = is_simple.then_some(value);
        let (mut reverse, mut prefix) = (None, None);
        for (name, value) in members {
            match &**name {
                "@id" => id = Some(value),
                "@reverse" => reverse = Some(value),
                "@protected" => made.is_protected = boolean(value, "@protected")?,
                "@type" => {}
                "@container" => {}
                "@index" => {}
                "@context" => made.context = Some(value),
                "@language" => {}
                "@direction" => made.direction = Some(direction_of(value)?),
                "@nest" => match value.as_str() {
                    Some(nest) if nest == "@nest" || !is_keyword(nest) => made.nest = Some(nest),
                    _ => return wrong("the value of @nest must be @nest or a term"),
                },
                "@prefix" => prefix = Some(boolean(value, "@prefix")?),
                other => return wrong(format!("a term's definition has no entry `{}`", short(other))),
            }
        }
        let member = |wanted: &str| members.iter().rev().find(|(name, _)| &**name == wanted).map(|(_, value)| value);
        let value_type = member("@type");
        if let Some(value) = value_type {
            let expanded = match value.as_str() {
                Some(text) => self.expand(result, text, RelativeTo::VOCABULARY, Some(&mut *local))?,
                None => None,
            };
            let is_type = |iri: &String| match is_keyword(iri) {
                true => matches!(&**iri, "@id" | "@json" | "@none" | "@vocab"),
                false => !iri.starts_with("_:") && Iri::parse(&**iri).is_ok(),
            };
            let Some(expanded) = expanded.filter(is_type) else {
                return wrong(format!("the @type of the term `{}` is no IRI", short(term)));
            };
            made.value_type = Some(expanded.into());
        }
        if let Some(value) = reverse {
            if id.is_some() || made.nest.is_some() {
                return wrong("a term with @reverse has neither @id nor @nest");
            }
            let Some(text) = value.as_str() else {
                return wrong("the value of @reverse in a context must be a string");
            };
            if has_form_of_keyword(text) {
                return Ok(None);
            }
            let expanded = self.expand(result, text, RelativeTo::VOCABULARY, Some(&mut *local))?;
            let Some(expanded) = expanded.filter(|iri| is_named(iri)) else {
                return wrong(format!("the @reverse of the term `{}` is no IRI", short(term)));
            };
            made.iri = Some(expanded.into());
            made.is_reverse = true;
        } else {
            let is_unknown = |id: &str| id != term && !is_keyword(id) && has_form_of_keyword(id);
            if id.and_then(Json::as_str).is_some_and(is_unknown) {
                return Ok(None);
            }
            self.map(result, local, TermEntry { term, id, is_simple }, &mut made)?;
        }
        if let Some(value) = member("@container")
            && !(made.is_reverse && matches!(value, Json::Null))
        {
            let containers = Containers::read(value);
            let fits = |containers: &Containers| {
                !made.is_reverse || containers.0 & !(Containers::SET.0 | Containers::INDEX.0) == 0
            };
            let Some(containers) = containers.filter(fits) else {
                return wrong(format!("the @container of the term `{}` is none that it can have", short(term)));
            };
            made.containers = containers;
            if containers.has(Containers::TYPE) {
                match made.value_type.as_deref() {
                    None => made.value_type = Some("@id".into()),
                    Some("@id" | "@vocab") => {}
                    Some(_) => return wrong("a term with the container @type has the type @id or @vocab"),
                }
            }
        }
        if let Some(value) = member("@index") {
            let expanded = match value.as_str() {
                Some(text) if made.containers.has(Containers::INDEX) && !is_keyword(text) => {
                    self.expand(result, text, RelativeTo::VOCABULARY, Some(&mut *local))?
                }
                _ => None,
            };
            if !expanded.is_some_and(|iri| is_named(&iri)) {
                return wrong(format!(
                    "the @index of the term `{}` must be an IRI, with the container @index",
                    short(term)
                ));
            }
            made.index = value.as_str();
        }
        if let Some(context) = made.context {
            // Only so are its errors found.
            let active = Rc::new(result.clone());
            let depth = self.depth;
            self.process(&active, context, true, true)?;
            self.depth = depth;
        }
        if let Some(value) = member("@language").filter(|_| value_type.is_none()) {
            made.language = Some(match value {
                Json::Null => None,
                Json::String(text) => Some((&**text).into()),
                _ => return wrong("the value of @language in a context must be a string or null"),
            });
        }
        if value_type.is_some() {
            made.direction = None;
        }
        if let Some(is_prefix) = prefix {
            let is_word = !term.contains([':', '/']);
            if !is_word || is_prefix && made.iri.as_deref().is_some_and(is_keyword) {
                return wrong(format!("the term `{}` can't be a prefix", short(term)));
            }
            made.is_prefix = is_prefix;
        }
        Ok(Some(made))
    }

    /// The meaning of a term without `@reverse`: steps 14 to 18.
    fn map(
        &mut self,
        result: &mut Context<'d>,
        local: &mut Local<'d>,
        entry: TermEntry<'d>,
        made: &mut Definition<'d>,
    ) -> Result<()> {
        let TermEntry { term, id, is_simple } = entry;
        match id.filter(|id| id.as_str() != Some(term)) {
            Some(Json::Null) => return Ok(()),
            Some(Json::String(id)) => {
                let expanded = self.expand(result, id, RelativeTo::VOCABULARY, Some(&mut *local))?;
                let Some(expanded) = expanded.filter(|iri| is_keyword(iri) || is_named(iri)) else {
                    return wrong(format!("the term `{}` stands for no IRI", short(term)));
                };
                if expanded == "@context" {
                    return wrong("@context can't have another name");
                }
                let inner = term.get(1..term.len() - 1).unwrap_or_default();
                if inner.contains(':') || term.contains('/') {
                    local.defined.insert(term, true);
                    if self.expand(result, term, RelativeTo::VOCABULARY, Some(&mut *local))?.as_ref() != Some(&expanded)
                    {
                        return wrong(format!("the term `{}` is an IRI already, and another", short(term)));
                    }
                }
                let ends = expanded.ends_with([':', '/', '?', '#', '[', ']', '@']);
                made.is_prefix = is_simple && !term.contains([':', '/']) && (ends || expanded.starts_with("_:"));
                made.iri = Some(expanded.into());
            }
            Some(_) => return wrong(format!("the @id of the term `{}` must be a string or null", short(term))),
            None => {
                if let Some(colon) = term.get(1..).and_then(|rest| rest.find(':')) {
                    let (prefix, suffix) = (&term[..colon + 1], &term[colon + 2..]);
                    if let Some((&prefix, _)) = local.members.get_key_value(prefix) {
                        self.define(result, local, prefix)?;
                    }
                    made.iri = Some(match result.term(prefix).and_then(|prefix| prefix.iri.as_deref()) {
                        Some(iri) => self.joined(iri, suffix)?.into(),
                        None => term.into(),
                    });
                } else if term.contains('/') {
                    let expanded = self.expand(result, term, RelativeTo::DOCUMENT, None)?;
                    let Some(expanded) = expanded.filter(|iri| is_named(iri)) else {
                        return wrong(format!("the term `{}` stands for no IRI", short(term)));
                    };
                    made.iri = Some(expanded.into());
                } else if term == "@type" {
                    made.iri = Some("@type".into());
                } else if let Some(vocabulary) = &result.vocabulary {
                    made.iri = Some(self.joined(vocabulary, term)?.into());
                } else {
                    return wrong(format!("the term `{}` stands for no IRI, and there is no @vocab", short(term)));
                }
            }
        }
        Ok(())
    }

    fn joined(&self, prefix: &str, suffix: &str) -> Result<String> {
        self.check_length(prefix.len() + suffix.len())?;
        Ok([prefix, suffix].concat())
    }

    /// IRI Expansion, §5.2.2, outside of contexts.
    pub(super) fn iri(&mut self, context: &Context<'d>, value: &str, to: RelativeTo) -> Result<Option<String>> {
        match self.short_cut(context, value, to.vocabulary) {
            Some(found) => found,
            None => self.written_out(context, value, to),
        }
    }

    /// IRI Expansion, §5.2.2.
    fn expand(
        &mut self,
        result: &mut Context<'d>,
        value: &str,
        to: RelativeTo,
        local: Option<&mut Local<'d>>,
    ) -> Result<Option<String>> {
        if has_form_of_keyword(value) {
            return Ok(is_keyword(value).then(|| value.to_owned()));
        }
        if let Some(local) = local {
            let prefix = value.split_once(':').filter(|(prefix, suffix)| *prefix != "_" && !suffix.starts_with("//"));
            for term in [Some(value), prefix.map(|(prefix, _)| prefix)].into_iter().flatten() {
                if let Some((&term, _)) = local.members.get_key_value(term)
                    && local.defined.get(term) != Some(&true)
                    && !term.starts_with('@')
                {
                    self.define(result, local, term)?;
                }
            }
        }
        self.iri(result, value, to)
    }

    /// The meaning of a keyword or a term; `None` if it is neither.
    fn short_cut(&self, context: &Context<'d>, value: &str, to_vocabulary: bool) -> Option<Result<Option<String>>> {
        if has_form_of_keyword(value) {
            return Some(Ok(is_keyword(value).then(|| value.to_owned())));
        }
        let definition = context.term(value)?;
        match &definition.iri {
            Some(iri) if to_vocabulary || is_keyword(iri) => Some(Ok(Some(iri.to_string()))),
            None if to_vocabulary => Some(Ok(None)),
            _ => None,
        }
    }

    fn written_out(&self, context: &Context<'d>, value: &str, to: RelativeTo) -> Result<Option<String>> {
        if let Some((prefix, suffix)) = value.split_once(':').filter(|_| value.find(':') != Some(0)) {
            if prefix == "_" || suffix.starts_with("//") {
                return self.checked(value.to_owned()).map(Some);
            }
            if let Some(definition) = context.term(prefix)
                && let Some(iri) = definition.iri.as_deref().filter(|_| definition.is_prefix)
            {
                return self.joined(iri, suffix).map(Some);
            }
            if Iri::parse(value).is_ok() {
                return self.checked(value.to_owned()).map(Some);
            }
        }
        if let Some(vocabulary) = context.vocabulary.as_ref().filter(|_| to.vocabulary) {
            return self.joined(vocabulary, value).map(Some);
        }
        if to.document
            && let Some(base) = &context.base
            && let Ok(resolved) = resolved(base, value)
        {
            return self.checked(resolved.into_inner()).map(Some);
        }
        self.checked(value.to_owned()).map(Some)
    }
}

/// A reference against a base: RFC 3986, §5.2. oxiri leaves the dot segments of the base's path.
fn resolved(base: &Iri<String>, reference: &str) -> std::result::Result<Iri<String>, IriParseError> {
    let dotless = |iri: &Iri<String>, path: &str| {
        let root = format!("{}://{}/", iri.scheme(), iri.authority().unwrap_or_default());
        Iri::parse(root)?.resolve(path)
    };
    if reference.starts_with("//") {
        let whole = base.resolve(reference)?;
        if !whole.path().contains("/.") {
            return Ok(whole);
        }
        let before = whole.scheme().len() + "://".len() + whole.authority().map_or(0, str::len);
        return dotless(&whole, &whole.as_str()[before..]);
    }
    let is_of_path = || !reference.is_empty() && !reference.starts_with(['?', '#']) && Iri::parse(reference).is_err();
    if base.authority().is_none() || !base.path().contains("/.") || !is_of_path() {
        return base.resolve(reference);
    }
    // The last segment is replaced, dots or not.
    let folder = base.path().rsplit_once('/').map_or("/".to_owned(), |(folder, _)| folder.to_owned() + "/");
    dotless(base, &folder)?.resolve(reference)
}

/// The beginning of a text, for errors.
pub(super) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
