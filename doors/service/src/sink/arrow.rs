//! Solutions as an Arrow IPC stream: each column's terms are a dictionary, so each is written once for each batch.
//!
//! A batch and its dictionaries are one piece, which replaces the dictionaries before it (Arrow columnar format,
//! "Serialization and interprocess communication", §IPC streaming format); so several boxes may write batches in any
//! order.

use super::cells::CellReader;
use super::text::TextSink;
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use vicus::flow::Storage;
use vicus::{BoxError, Envelope, Turn};
use vicus_language::{Answer, ValueColumns, ValueType};
use vicus_rdf::Id;
use vicus_sparql::QueryRun;

/// The metadata of terms as texts: N-Triples, so that `<http://e/a>`, `"a"@en` and `_:a` are told apart.
const TERMS: (&str, &str) = ("vicus.terms", "N-Triples");

/// The end of a stream.
pub(super) const TAIL: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];

/// The rows of one box as batches.
pub(super) struct Batches {
    schema: Arc<Schema>,
    /// Bytes of the schema's message at the beginning of every writer.
    head: usize,
}

/// The rows of an envelope.
pub(super) fn record_batch(
    schema: &Arc<Schema>,
    reader: &CellReader,
    envelope: &Envelope,
) -> Result<RecordBatch, BoxError> {
    let columns = envelope.columns().iter().enumerate().map(|(place, column)| match reader {
        CellReader::Terms(run) => dictionary(run, column.u64s()),
        CellReader::Values(ValueColumns(types)) => match &types[place] {
            // The parts of lists and structs in the form of the schema.
            ValueType::Other(kind) if kind.is_nested() => {
                let schema = vicus::Schema::new([("value", vicus::Type::clone(kind))]).with_nulls(["value"]);
                let rows = Envelope::of_rows(vec![column.clone()], envelope.rows());
                Ok(Arc::clone(rows.to_arrow(&schema).column(0)))
            }
            ValueType::Other(kind) if !kind.is_variable() => Ok(column.to_arrow()),
            // Texts in a dictionary are written out: the next envelope may have another one.
            _ => Ok(column.stored(Storage::Direct)?.to_arrow()),
        },
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, BoxError>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(envelope.rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The columns of an answer: terms, or values of Arrow's types.
pub(super) fn schema(form: &Answer, reader: &CellReader) -> Schema {
    if let (Answer::Rows { columns }, CellReader::Values(ValueColumns(types))) = (form, reader) {
        let field = |(name, kind): (&String, &ValueType)| {
            let kind = match kind {
                ValueType::Boolean => DataType::Boolean,
                ValueType::Integer => DataType::Int64,
                ValueType::Double => DataType::Float64,
                ValueType::Text => DataType::Utf8,
                ValueType::Date => DataType::Date32,
                ValueType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
                ValueType::Other(kind) => kind.to_arrow(),
            };
            Field::new(name, kind, true)
        };
        return Schema::new(columns.iter().zip(types).map(field).collect::<Vec<_>>());
    }
    let fields: Vec<Field> = match form {
        Answer::Rows { columns } => columns.iter().map(|name| terms(name)).collect(),
        Answer::Truth => Vec::new(),
        Answer::Triples => ["subject", "predicate", "object"].map(terms).into(),
    };
    Schema::new(fields)
}

/// A column of terms as texts in N-Triples.
pub(super) fn terms(name: &str) -> Field {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Field::new(name, dictionary, true).with_metadata(HashMap::from([(TERMS.0.to_owned(), TERMS.1.to_owned())]))
}

fn writer(schema: &Schema) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    StreamWriter::try_new(Vec::new(), schema)
}

/// The answer of an ASK, without its end.
pub(super) fn truth(answer: bool) -> Result<Vec<u8>, ArrowError> {
    let schema = Arc::new(Schema::new(vec![Field::new("answer", DataType::Boolean, false)]));
    let mut writer = writer(&schema)?;
    writer.write(&RecordBatch::try_new(schema, vec![Arc::new(BooleanArray::from(vec![answer]))])?)?;
    Ok(writer.get_ref().clone())
}

impl Batches {
    pub(super) fn new(form: &Answer, reader: &CellReader) -> Batches {
        let mut batches = Batches { schema: Arc::new(schema(form, reader)), head: 0 };
        batches.head = batches.head().len();
        batches
    }

    /// The text before all batches. If the schema can't be written, neither can a batch, and that write reports the
    /// error.
    pub(super) fn head(&self) -> Vec<u8> {
        writer(&self.schema).map(|writer| writer.get_ref().clone()).unwrap_or_default()
    }

    /// Writes the rows of an envelope from one on as a batch. Returns the row to go on from later, if the box has been
    /// paused.
    pub(super) fn take<W: Write + Send + 'static>(
        &self,
        sink: &TextSink<W>,
        reader: &CellReader,
        envelope: &Envelope,
        from: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        let rows = envelope.rows();
        if from == rows {
            return Ok(None);
        }
        let left;
        let envelope = if from == 0 {
            envelope
        } else {
            left = envelope.slice(from..rows);
            &left
        };
        let batch = record_batch(&self.schema, reader, envelope)?;
        let mut writer = writer(&self.schema)?;
        writer.write(&batch)?;
        let bytes = writer.get_ref();
        turn.book(bytes.len() as u64)?;
        sink.put(&bytes[self.head..], turn)?;
        turn.book(0)?;
        Ok(sink.pauses(turn).then_some(rows))
    }
}

/// A column of terms, with each term once in its dictionary.
pub(super) fn dictionary(run: &QueryRun, ids: &[u64]) -> Result<ArrayRef, BoxError> {
    let mut places: HashMap<u64, i32> = HashMap::new();
    let mut terms: Vec<String> = Vec::new();
    let place = |&bits: &u64| {
        let id = Id::from_bits(bits);
        (!id.is_unbound()).then(|| {
            *places.entry(bits).or_insert_with(|| {
                terms.push(run.view(id, |view| view.to_string()));
                (terms.len() - 1) as i32
            })
        })
    };
    let keys: Int32Array = ids.iter().map(place).collect();
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(StringArray::from(terms)))?))
}
