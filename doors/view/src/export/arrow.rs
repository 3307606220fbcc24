//! Events as a table of Arrow, for DuckDB, Polars and pandas.

use super::Export;
use crate::RecordedRun;
use crate::pack::has_cause;
use arrow_array::builder::{UInt32Builder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_array::{UInt8Array, UInt16Array, UInt32Array, UInt64Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::io::{self, Write};
use std::sync::Arc;
use vicus_trace::{Event, EventKind};

/// The rows of a batch.
const ROWS: usize = 65_536;

/// Writes the events of a run as a file of Arrow: a row for each, with its seat and its place there, and with those of
/// the event that it waited for.
///
/// # Errors
/// The writer failed.
pub fn arrow(run: &RecordedRun, out: &mut impl Write) -> io::Result<()> {
    let told = Export::new(&run.trace);
    let schema = Arc::new(schema());
    let kinds = words(EventKind::ALL.iter().map(|kind| kind.name()));
    let names = words(told.keys.all.iter().map(|key| key.name.as_str()));
    let types = words(told.keys.all.iter().map(|key| key.type_name.as_str()));
    let failed = |error: ArrowError| io::Error::other(error);
    let mut file = FileWriter::try_new(out, &schema).map_err(failed)?;
    for (seat, log) in run.trace.logs().iter().enumerate() {
        let mut causes = told.causes[seat].iter();
        for (part, events) in log.events.chunks(ROWS).enumerate() {
            let number = |of: fn(&[u8; Event::BYTES]) -> u32| {
                UInt32Array::from_iter_values(events.iter().map(|event| of(&event.to_bytes())))
            };
            let who = || events.iter().map(|event| event.what.who());
            let keys = Int32Array::from_iter(who().map(|who| who.map(|who| told.keys.of(who) as i32)));
            let (mut cause_seats, mut cause_indexes) = (UInt32Builder::new(), UInt64Builder::new());
            for event in events {
                let cause = if has_cause(event.what.kind()) { causes.next().copied().flatten() } else { None };
                cause_seats.append_option(cause.map(|cause| cause.seat));
                cause_indexes.append_option(cause.map(|cause| cause.index));
            }
            let first = (part * ROWS) as u64;
            let by_words = |keys: Int32Array, words: &ArrayRef| -> io::Result<ArrayRef> {
                Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(words)).map_err(failed)?))
            };
            let kind = Int32Array::from_iter_values(events.iter().map(|event| event.what.kind() as i32));
            let bytes = |at: usize| events.iter().map(move |event| event.to_bytes()[at]);
            let ports = events.iter().map(|event| {
                let bytes = event.to_bytes();
                u16::from_le_bytes([bytes[18], bytes[19]])
            });
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt32Array::from_value(seat as u32, events.len())),
                Arc::new(UInt64Array::from_iter_values((0..events.len() as u64).map(|at| first + at))),
                Arc::new(UInt64Array::from_iter_values(events.iter().map(|event| event.time_ns))),
                Arc::new(UInt64Array::from_iter_values(events.iter().map(|event| event.order))),
                by_words(kind, &kinds)?,
                Arc::new(UInt32Array::from_iter(who().map(|who| who.map(|who| who.request)))),
                Arc::new(UInt32Array::from_iter(who().map(|who| who.map(|who| who.index)))),
                by_words(keys.clone(), &names)?,
                by_words(keys, &types)?,
                Arc::new(UInt8Array::from_iter_values(bytes(17))),
                Arc::new(UInt16Array::from_iter_values(ports)),
                Arc::new(number(|bytes| u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]))),
                Arc::new(cause_seats.finish()),
                Arc::new(cause_indexes.finish()),
            ];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
            file.write(&batch).map_err(failed)?;
        }
    }
    file.finish().map_err(failed)
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(words))
}

fn schema() -> Schema {
    let words = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let always = |name: &str, of: DataType| Field::new(name, of, false);
    let maybe = |name: &str, of: DataType| Field::new(name, of, true);
    Schema::new(vec![
        always("seat", DataType::UInt32),
        always("index", DataType::UInt64),
        always("time_ns", DataType::UInt64),
        always("order", DataType::UInt64),
        always("kind", words()),
        maybe("request", DataType::UInt32),
        maybe("job", DataType::UInt32),
        maybe("name", words()),
        maybe("type", words()),
        always("detail", DataType::UInt8),
        always("port", DataType::UInt16),
        always("value", DataType::UInt32),
        maybe("cause_seat", DataType::UInt32),
        maybe("cause_index", DataType::UInt64),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt32Type, UInt64Type};
    use arrow_ipc::reader::FileReader;
    use vicus_trace::{EventLog, Header, JobId, TaskKind, Trace, What};

    #[test]
    fn a_row_says_what_its_event_waited_for() {
        let who = JobId { request: 4, index: 1 };
        let (mut first, mut second) = (EventLog::new(9), EventLog::new(9));
        first.record(5, What::SleepBegins);
        let cause = first.record(10, What::Enqueued { who, kind: TaskKind::Deferred, by: JobId::NONE });
        second.observe(cause);
        second.record(30, What::Taken { who, rule: 2, far: true });
        let trace = Trace::new(Header::for_seats(2), vec![first.finish(), second.finish()]);
        let mut out = Vec::new();
        arrow(&RecordedRun::new("two", trace), &mut out).unwrap();
        let batches: Vec<RecordBatch> =
            FileReader::try_new(io::Cursor::new(out), None).unwrap().map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1]);
        let row = &batches[1];
        let column = |name: &str| row.column_by_name(name).unwrap();
        assert_eq!(column("time_ns").as_primitive::<UInt64Type>().value(0), 30);
        assert_eq!(column("cause_seat").as_primitive::<UInt32Type>().value(0), 0);
        assert_eq!(column("cause_index").as_primitive::<UInt64Type>().value(0), 1);
        let kind = column("kind").as_dictionary::<Int32Type>();
        let kind = kind.downcast_dict::<StringArray>().unwrap();
        assert_eq!(kind.into_iter().collect::<Vec<_>>(), [Some("taken")]);
        assert!(batches[0].column_by_name("request").unwrap().is_null(0), "a seat's sleep belongs to no request");
    }
}
