//! A language module in one file. It is prepared, answered into every sink, and limited as the others are, and the
//! service knows nothing of it.
//!
//! The language has one statement: `RANGE 1 10`, the whole numbers from 1 to 10. It may stand in brackets.

use crate::{dataset, service};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::sync::Arc;
use std::time::Duration;
use vicus::{BoxId, Model, ModelBuilder, Schema, Type, library};
use vicus_language::{
    Answer, Compiler, Costs, PlanNode, PlanOptions, Planned, RunOperators, Runnable, SourcePosition, Stop, TextError,
    TextErrorKind, TextLimits, ValueColumns, ValueType, Watch,
};
use vicus_service::{CallLimits, Cancel, Count, Error, ErrorKind, Format, Session, SessionOptions, Stage, TextSink};

/// The language. Its catalogue is empty.
struct Ranges;

/// The first and the last number.
struct Range {
    first: i64,
    last: i64,
}

struct Plan {
    answer: Answer,
    model: Arc<Model>,
    sinks: Vec<BoxId>,
    nodes: Vec<PlanNode>,
    bytes: u64,
}

impl Compiler for Ranges {
    type Parsed = Range;
    type Plan = Plan;
    type Error = TextError;

    fn name(&self) -> &'static str {
        "ranges"
    }

    fn parsing_bytes(&self, text: &str) -> u64 {
        text.len() as u64
    }

    fn parse(&self, text: &str, limits: &TextLimits) -> Result<Range, TextError> {
        limits.check(text)?;
        let wrong =
            |at: usize, message: &str| TextError::new(TextErrorKind::Wrong, SourcePosition::at(text, at), message);
        let mut brackets = 0;
        for (at, _) in text.match_indices('(') {
            brackets += 1;
            if brackets > limits.depth {
                let message = format!("there are more than {} brackets", limits.depth);
                return Err(TextError::new(TextErrorKind::TooDeep, SourcePosition::at(text, at), message));
            }
        }
        let mut words =
            text.split(|sign: char| sign.is_whitespace() || "()".contains(sign)).filter(|word| !word.is_empty());
        let mut next =
            || words.next().map_or((text.len(), ""), |word| (word.as_ptr() as usize - text.as_ptr() as usize, word));
        let (at, word) = next();
        if word != "RANGE" {
            return Err(wrong(at, "RANGE is expected"));
        }
        let mut number = || {
            let (at, word) = next();
            word.parse().map_err(|_| wrong(at, "a whole number is expected"))
        };
        Ok(Range { first: number()?, last: number()? })
    }

    fn plan(&self, range: &Range, options: &PlanOptions, watch: &dyn Watch) -> Result<Plan, TextError> {
        let &Range { first, last } = range;
        let stop = Stop::within(watch, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
        let rows = u64::try_from(i128::from(last) - i128::from(first) + 1).unwrap_or(0);
        // As if each power of two had to be looked at.
        (0..u64::BITS - rows.leading_zeros()).try_for_each(|_| {
            stop.count_bytes(1024);
            stop.step(1)
        })?;
        stop.check()?;
        let schema = Schema::new([("n", Type::I64)]);
        let (mut net, limit) = (ModelBuilder::new("range"), options.envelope_rows as i64);
        let numbers = net.source(library::source("numbers", &schema, move || {
            let starts =
                (0..).map_while(move |part| first.checked_add(limit * part)).take_while(move |&from| from <= last);
            starts.map(move |from| {
                let to = from.saturating_add(limit - 1).min(last);
                vicus::Envelope::new([(from..=to).collect::<Vec<i64>>().into()])
            })
        }));
        let end = net.add(library::sink("rows", &schema, |_| Ok(())));
        net.connect(numbers.output(0), end.input(0));
        net.end(end.output(0));
        let node = PlanNode {
            parent: None,
            name: "range".to_owned(),
            detail: format!("{first} {last}"),
            columns: vec!["n".to_owned()],
            rows: rows as f64,
            degree: 1,
            boxes: vec![numbers, end],
            outputs: vec![numbers.output(0)],
            step: None,
        };
        let model = net.build().expect("it is a line");
        let answer = Answer::Rows { columns: node.columns.clone() };
        Ok(Plan { answer, model, sinks: vec![end], nodes: vec![node], bytes: stop.spent().bytes })
    }
}

impl Planned for Plan {
    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn sinks(&self) -> &[BoxId] {
        &self.sinks
    }

    fn nodes(&self) -> Vec<PlanNode> {
        self.nodes.clone()
    }

    fn is_short(&self) -> bool {
        self.nodes[0].rows < 1000.0
    }

    fn may_differ(&self) -> bool {
        false
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Runnable for Plan {
    type Needs = ();
    type Run = ValueColumns;

    fn begin(&self, (): ()) -> (RunOperators, ValueColumns) {
        (Vec::new(), ValueColumns(vec![ValueType::Integer]))
    }
}

/// Has more rows than anything can take.
const ENDLESS: &str = "RANGE 1 9000000000000000000";

fn written(session: &Session, text: &str, format: Format) -> Result<Vec<u8>, Error> {
    let mut call = session.call()?;
    let prepared = call.prepare_in(&Ranges, text)?;
    Ok(call.answer(&prepared, TextSink::new(format, Vec::new()))?.0)
}

fn refused(session: &Session, text: &str) -> Error {
    written(session, text, Format::Csv).expect_err("it has no answer")
}

#[test]
fn a_language_of_its_own_is_answered_into_every_sink() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions { counts: true, ..SessionOptions::default() });
    let text = |format| String::from_utf8(written(&session, "RANGE -1 2", format).unwrap()).unwrap();
    assert_eq!(text(Format::Csv), "n\r\n-1\r\n0\r\n1\r\n2\r\n");
    assert_eq!(text(Format::Tsv), "?n\n-1\n0\n1\n2\n");
    let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
    let integer = "http://www.w3.org/2001/XMLSchema#integer";
    let last = serde_json::json!({ "n": { "type": "literal", "value": "2", "datatype": integer } });
    assert_eq!((&json["head"]["vars"][0], &json["results"]["bindings"][3]), (&"n".into(), &last));
    assert!(text(Format::Xml).contains("<literal"));
    assert_eq!(text(Format::Table), " n\n--\n-1\n 0\n 1\n 2\n");
    let bytes = written(&session, "RANGE 1 100000", Format::Arrow).unwrap();
    let batches = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
    assert_eq!(batches.schema().field(0).name(), "n");
    let numbers: Vec<i64> =
        batches.flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(numbers, (1..=100_000).collect::<Vec<i64>>());

    let mut call = session.call().unwrap();
    let prepared = call.prepare_in(&Ranges, "(RANGE 1 5000)").unwrap();
    assert_eq!((prepared.language(), prepared.sinks(), prepared.can_be_kept()), ("ranges", 1, true));
    let ((), outcome) = call.answer(&prepared, Count).unwrap();
    assert_eq!(outcome.rows, 5000);
    let told = prepared.explain(Some(outcome.run_counts()));
    assert!(told.starts_with("range 1 5000 [n] ~5000 rows, 5000 actual"), "{told}");
    let wrong = written(&session, "RANGE 1 2", Format::Turtle).unwrap_err();
    assert_eq!(wrong.to_string(), "rows can't be written as ttl, but as table, json, xml, csv, tsv or arrow");
}

#[test]
fn its_errors_have_a_place() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), SessionOptions::default());
    let error = refused(&session, "RANGE\n 1 é");
    assert_eq!(error.kind(), ErrorKind::Query);
    assert_eq!(error.to_string(), "line 2, column 4: a whole number is expected");
    let Error::Query(error) = error else { panic!("{error}") };
    assert_eq!(error.place, SourcePosition { line: 2, column: 4, offset: Some(9) });
    assert_eq!(refused(&session, "").to_string(), "line 1, column 1: RANGE is expected");
}

#[test]
fn the_limits_of_a_call_are_its_limits() {
    let service = service("las", 1 << 30);
    let session = |options| service.session(&dataset(), options);
    let limited = |limits| session(SessionOptions { limits, ..SessionOptions::default() });
    let of_text = |error| match error {
        Error::Query(error) => error.kind,
        error => panic!("{error}"),
    };
    let text = TextLimits { bytes: 30, depth: 2 };
    let short = session(SessionOptions { text, ..SessionOptions::default() });
    assert_eq!(of_text(refused(&short, &format!("RANGE 1 2{}", " ".repeat(30)))), TextErrorKind::TooLong);
    assert_eq!(of_text(refused(&short, "(((RANGE 1 2)))")), TextErrorKind::TooDeep);
    assert!(written(&short, "((RANGE 1 2))", Format::Csv).is_ok());

    let plan = PlanOptions { plan_steps: 10, ..PlanOptions::default() };
    let few_steps = session(SessionOptions { plan, ..SessionOptions::default() });
    assert_eq!(refused(&few_steps, "RANGE 1 2000").kind(), ErrorKind::PlanLimit);
    assert!(written(&few_steps, "RANGE 1 20", Format::Csv).is_ok());

    let little = limited(CallLimits { memory: Some(16 << 10), ..CallLimits::default() });
    let error = refused(&little, ENDLESS);
    assert!(matches!(&error, Error::MemoryLimit(over) if over.holders[0].0 == "its plan"), "{error}");
    // A table for people is held until its end.
    let some = limited(CallLimits { memory: Some(1 << 20), ..CallLimits::default() });
    let error = written(&some, ENDLESS, Format::Table).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{error}");

    let error = refused(&limited(CallLimits { time: Some(Duration::ZERO), ..CallLimits::default() }), "RANGE 1 2");
    assert!(matches!(error, Error::TimeLimit { during: Stage::Parsing }), "{error}");
    let error =
        refused(&limited(CallLimits { time: Some(Duration::from_millis(50)), ..CallLimits::default() }), ENDLESS);
    assert!(matches!(error, Error::TimeLimit { during: Stage::Running }), "{error}");

    assert_eq!(
        refused(&limited(CallLimits { rows: Some(99), ..CallLimits::default() }), "RANGE 1 100").kind(),
        ErrorKind::RowLimit
    );
    let first = session(SessionOptions { first_rows: Some(2), ..SessionOptions::default() });
    assert_eq!(written(&first, ENDLESS, Format::Csv).unwrap(), b"n\r\n1\r\n2\r\n");

    let cancel = Cancel::new();
    let cancelled = limited(CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
    let mut call = cancelled.call().unwrap();
    let prepared = call.prepare_in(&Ranges, ENDLESS).unwrap();
    let running = call.start(&prepared, Count).unwrap();
    cancel.cancel();
    assert!(matches!(running.wait(), Err(Error::Cancelled)));
    assert_eq!(service.memory().taken(), 0);
}
