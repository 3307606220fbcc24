//! Columns as Arrow arrays and back: their values by Arrow's own accessors, and the copied ones among them.
#![cfg(feature = "arrow")]

use crate::one_box::one_after_the_other;
use crate::tables::{self, Cell, Chance, Row, Table, assert_same, rows};
use arrow_array::builder::{BinaryViewBuilder, StringDictionaryBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{self, Int8Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, Int8Array, Int64Array, LargeBinaryArray,
    LargeStringArray, RecordBatch, StringArray, UInt64Array, ffi, make_array,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::{
    Bound, BoxError, BoxModel, Column, Envelope, Field, FlowError, FromArrowError, ModelBuilder, Schema, Storage,
    TimeUnit, Turn, Type, library, sequential,
};

/// The values of an Arrow array, by Arrow's own accessors.
fn cells(array: &dyn Array) -> Vec<Cell> {
    macro_rules! whole {
        ($($type:ident)*) => {
            match array.data_type() {
                $(kind if *kind == types::$type::DATA_TYPE => Some(
                    array.as_primitive::<types::$type>().values().iter().map(|&value| i128::from(value)).collect(),
                ),)*
                DataType::Timestamp(..) => {
                    let array = arrow_cast(array);
                    Some(array.as_primitive::<types::Int64Type>().values().iter().map(|&at| at.into()).collect())
                }
                DataType::Decimal128(..) => Some(array.as_primitive::<types::Decimal128Type>().values().to_vec()),
                _ => None,
            }
        };
    }
    let whole: Option<Vec<i128>> = whole!(
        Int8Type Int16Type Int32Type Int64Type UInt8Type UInt16Type UInt32Type UInt64Type Date32Type
        Time32SecondType Time32MillisecondType Time64MicrosecondType Time64NanosecondType
        DurationSecondType DurationMillisecondType DurationMicrosecondType DurationNanosecondType
    );
    let cell = |row: usize| match array.data_type() {
        _ if array.is_null(row) => Cell::Null,
        _ if whole.is_some() => Cell::Whole(whole.as_ref().unwrap()[row]),
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Float32 => Cell::Float(array.as_primitive::<types::Float32Type>().value(row).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<types::Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => Cell::Binary(array.as_binary::<i32>().value(row).to_owned()),
        DataType::FixedSizeBinary(_) => Cell::Binary(array.as_fixed_size_binary().value(row).to_owned()),
        DataType::List(_) => Cell::List(cells(&array.as_list::<i32>().value(row))),
        DataType::Struct(_) => {
            let parts = array.as_struct().columns().iter();
            Cell::Struct(parts.map(|part| cells(&part.slice(row, 1)).remove(0)).collect())
        }
        other => panic!("{other} is no column's type"),
    };
    (0..array.len()).map(cell).collect()
}

/// Timestamps as their numbers.
fn arrow_cast(array: &dyn Array) -> ArrayRef {
    make_array(array.to_data().into_builder().data_type(DataType::Int64).build().unwrap())
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let columns: Vec<Vec<Cell>> = batch.columns().iter().map(|array| cells(array)).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

#[test]
fn tables_are_the_same_in_arrow_and_back_whole_and_sliced() {
    for seed in 0..300 {
        let chance = &mut Chance::of_seed(seed);
        let table = Table::random(chance, 100);
        let from = chance.below(table.rows.len() + 1);
        let to = from + chance.below(table.rows.len() - from + 1);
        let what = format!("seed {seed}, rows {from} to {to} of {}", table.schema);
        let envelope = tables::envelope(&table.schema, &table.rows).slice(from..to);
        let batch = envelope.to_arrow(&table.schema);
        for array in batch.columns() {
            array.to_data().validate_full().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        assert_same(&rows_of(&batch), &table.rows[from..to], &format!("{what}: as Arrow"));
        assert_eq!(Schema::from_arrow(&batch.schema()).unwrap(), table.schema, "{what}");

        // Sliced by Arrow, and sent through the C data interface.
        let middle = chance.below(to - from + 1);
        let sent = batch.slice(middle, to - from - middle);
        let columns: Vec<ArrayRef> = sent.columns().iter().map(through_c).collect();
        let back = RecordBatch::try_new_with_options(
            sent.schema(),
            columns,
            &arrow_array::RecordBatchOptions::new().with_row_count(Some(sent.num_rows())),
        );
        let back = Envelope::from_arrow(&back.unwrap()).unwrap();
        assert!(back.fits(&table.schema), "{what}");
        assert_same(&rows(&back), &table.rows[from + middle..to], &format!("{what}: back from row {middle} on"));
        let again = back.to_arrow(&table.schema);
        assert_eq!(again, sent, "{what}: Arrow finds them equal");
    }
}

fn through_c(array: &ArrayRef) -> ArrayRef {
    let (array, schema) = ffi::to_ffi(&array.to_data()).unwrap();
    #[expect(unsafe_code, reason = "the C data interface takes addresses on trust")]
    // SAFETY: both are of the same array, made a line before.
    let data = unsafe { ffi::from_ffi(array, &schema) }.unwrap();
    make_array(data)
}

/// Counts down when it is dropped.
struct Owner(Arc<AtomicUsize>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn what_arrow_has_is_shared_and_kept_as_long_as_it_is_read() {
    static NUMBERS: [u64; 4] = [1, 2, 3, 4];
    let owners = Arc::new(AtomicUsize::new(1));
    let at = NonNull::from(&NUMBERS).cast();
    #[expect(unsafe_code, reason = "Arrow takes the address on trust")]
    // SAFETY: so many bytes live for ever.
    let buffer = unsafe { Buffer::from_custom_allocation(at, 32, Arc::new(Owner(Arc::clone(&owners)))) };
    let array = UInt64Array::new(ScalarBuffer::from(buffer), None);
    let column = Column::from_arrow(&array.slice(1, 3)).unwrap();
    drop(array);
    assert_eq!(column.u64s().as_ptr(), &raw const NUMBERS[1]);

    // The memory is Arrow's, so the values are changed in a copy.
    let mut envelope = Envelope::new([column.slice(0..2)]);
    assert_eq!(envelope.held_bytes(), 24, "what is kept is all of the array");
    drop(column);
    envelope.u64s_mut(0)[0] = 7;
    assert_eq!((envelope.column(0).u64s(), NUMBERS[1], owners.load(Ordering::Relaxed)), (&[7, 3][..], 2, 0));
}

#[test]
fn numbers_texts_and_nulls_are_not_copied_either_way() {
    let text: Column = vec![Some("one"), None, Some("three")].into();
    let array = text.to_arrow();
    let strings = array.as_string::<i32>();
    assert_eq!(strings.value_data().as_ptr(), text.text_at(0).as_ptr());
    let back = Column::from_arrow(&array).unwrap();
    assert_eq!(back.text_at(2).as_ptr(), text.text_at(2).as_ptr());
    let again = back.to_arrow();
    let bits = |array: &ArrayRef| array.nulls().unwrap().buffer().as_ptr();
    let offsets = |array: &ArrayRef| array.as_string::<i32>().offsets().as_ptr();
    assert_eq!((bits(&again), offsets(&again)), (bits(&array), offsets(&array)));

    for seed in 0..500 {
        let chance = &mut Chance::of_seed(seed);
        let kind = tables::kind(chance, 2);
        let table = Table::of(vec![Field::new("c", kind.clone())], chance, 100);
        let column = tables::envelope(&table.schema, &table.rows).column(0).clone();
        let shares = Column::from_arrow(&through_c(&column.to_arrow())).unwrap();
        let addresses = |column: &Column| all_buffers(&column.to_arrow());
        let is_copied = |kind: &Type| matches!(kind, Type::Bool | Type::Time(TimeUnit::Second | TimeUnit::Milli));
        if !any_kind(&kind, &is_copied) && column.storage() != Storage::Limited(2000) && !table.rows.is_empty() {
            assert_eq!(addresses(&column), addresses(&shares), "seed {seed}: {kind}");
        }
    }
}

fn any_kind(kind: &Type, is: &dyn Fn(&Type) -> bool) -> bool {
    is(kind)
        || match kind {
            Type::List(item) => any_kind(&item.kind, is),
            Type::Struct(fields) => fields.columns().iter().any(|field| any_kind(&field.kind, is)),
            // They may be of limited size.
            Type::Text => true,
            _ => false,
        }
}

/// The addresses of the buffers of an array and its children.
fn all_buffers(array: &dyn Array) -> Vec<*const u8> {
    let data = array.to_data();
    let own = data.buffers().iter().filter(|buffer| !buffer.is_empty()).map(Buffer::as_ptr);
    own.chain(data.child_data().iter().flat_map(|child| all_buffers(&make_array(child.clone())))).collect()
}

#[test]
fn texts_in_other_layouts_are_the_same_texts() {
    let texts = [Some("a"), None, Some(""), Some("longer than a view holds")];
    let expected: Column = texts.to_vec().into();
    let check = |array: &dyn Array| {
        let column = Column::from_arrow(array).unwrap();
        assert_eq!(format!("{column:?}"), format!("{expected:?}"), "{}", array.data_type());
        let slice = Column::from_arrow(&array.slice(1, 3)).unwrap();
        assert_eq!(format!("{slice:?}"), format!("{:?}", expected.slice(1..4)), "{}", array.data_type());
    };
    check(&LargeStringArray::from(texts.to_vec()));
    check(&StringArray::from(texts.to_vec()));
    let mut views = StringViewBuilder::new();
    texts.iter().for_each(|text| views.append_option(*text));
    check(&views.finish());
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    texts.iter().for_each(|text| dictionary.append_option(*text));
    check(&dictionary.finish());

    // Names of values that are nulls, and a dictionary without values.
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let named = DictionaryArray::new(Int8Array::from(vec![Some(1), Some(0), None]), values);
    assert_eq!(format!("{:?}", Column::from_arrow(&named).unwrap()), "[None, 5, None]");
    let none: ArrayRef = Arc::new(StringArray::new_null(0));
    let named = DictionaryArray::new(Int8Array::from(vec![None, None]), none);
    assert_eq!(format!("{:?}", Column::from_arrow(&named).unwrap()), "[None, None]");

    let bytes = [Some(&b"\xff"[..]), None];
    let mut views = BinaryViewBuilder::new();
    bytes.iter().for_each(|bytes| views.append_option(*bytes));
    let large = LargeBinaryArray::from(bytes.to_vec());
    for array in [&views.finish() as &dyn Array, &large] {
        assert_eq!(format!("{:?}", Column::from_arrow(array).unwrap()), "[[255], None]", "{}", array.data_type());
    }
}

#[test]
fn what_envelopes_do_not_have_is_refused_by_name() {
    let interval = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let inner = ArrowField::new("span", interval.clone(), false);
    let spans = arrow_array::new_empty_array(&DataType::Struct(vec![inner.clone()].into()));
    let fields = vec![ArrowField::new("when", DataType::Struct(vec![inner].into()), false)];
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), vec![spans]).unwrap();
    let expected = "column when.span is of Arrow's type Interval(MonthDayNano), which envelopes don't have; cast it to \
                    another type first";
    assert_eq!(Envelope::from_arrow(&batch).unwrap_err().to_string(), expected);
    assert_eq!(Schema::from_arrow(&batch.schema()).unwrap_err().to_string(), expected);

    let nothing = RecordBatch::try_new_with_options(
        Arc::new(ArrowSchema::empty()),
        Vec::new(),
        &arrow_array::RecordBatchOptions::new().with_row_count(Some(1 << 32)),
    );
    let error = Envelope::from_arrow(&nothing.unwrap()).unwrap_err();
    assert_eq!(error, FromArrowError::TooManyRows { rows: 1 << 32 });

    // Three gibibytes in the offsets, without memory behind them.
    let ends: Vec<i64> = vec![0, 3 << 30];
    let at = NonNull::from(&[0u8; 0]).cast();
    #[expect(unsafe_code, reason = "Arrow takes addresses on trust")]
    // SAFETY: the bytes are not read, because there are too many of them.
    let many = unsafe {
        let buffer = Buffer::from_custom_allocation(at, 3 << 30, Arc::new(()));
        LargeBinaryArray::new_unchecked(OffsetBuffer::new(ScalarBuffer::from(ends)), buffer, None)
    };
    let problem = "a value of 3221225472 bytes, and at most 2 GiB are possible".to_owned();
    assert_eq!(Column::from_arrow(&many).unwrap_err(), FromArrowError::Value { column: None, problem });
}

#[test]
fn truth_values_are_packed_and_unpacked() {
    for rows in [0, 1, 7, 8, 9, 64, 100] {
        let values: Vec<bool> = (0..rows).map(|row| row % 3 == 0).collect();
        let array = Column::from(values.clone()).to_arrow();
        assert_eq!(array.as_boolean(), &BooleanArray::from(values.clone()));
        assert_eq!(Column::from_arrow(&array).unwrap().bools(), values);
    }
}

/// The memory of a text with an owner whose drop panics.
struct Grumpy;

impl Drop for Grumpy {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("out of the way");
        }
    }
}

#[test]
fn a_panic_where_a_private_copy_is_made_fails_the_sender() {
    // To make a private copy, the runtime once dropped the sent column outside of its `catch_unwind`.
    #[expect(unsafe_code, reason = "Arrow takes the address on trust")]
    // SAFETY: five bytes that live for ever.
    let bytes = unsafe {
        Buffer::from_custom_allocation(NonNull::new(b"hello".as_ptr().cast_mut()).unwrap(), 5, Arc::new(Grumpy))
    };
    let text = StringArray::new(OffsetBuffer::new(ScalarBuffer::from(vec![0i32, 5])), bytes, None);
    let mut grumpy = Some(Column::from_arrow(&text).unwrap());
    drop(text);
    let schema = Schema::new([("text", Type::Text)]);
    let act = move |turn: &mut Turn<'_>| {
        turn.take(0);
        turn.send(0, Envelope::new([grumpy.take().expect("it acts once")]));
        turn.send_pill(0);
        Ok(())
    };
    let act = std::sync::Mutex::new(Some(act));
    let mut net = ModelBuilder::new("private");
    let bad = BoxModel::new("bad", move || act.lock().unwrap().take().expect("there is one instance"));
    let bad = net.source(bad.output(&schema));
    let end = net.add(library::sink("honest", &schema, |_| Ok(())));
    net.connect(bad.output(0), end.input(0)).private([0]);
    net.end(end.output(0));
    let error = sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err();
    assert!(matches!(error, FlowError::Panicked { .. }));
    assert_eq!(error.to_string(), "box bad panicked: out of the way");
}

/// A block of memory, which counts how many of them there are.
struct Counted(Vec<u64>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An envelope of one row in a block of 160 kB.
fn little_of_much(n: u64, blocks: &Arc<AtomicUsize>) -> Envelope {
    blocks.fetch_add(1, Ordering::Relaxed);
    let block = Arc::new(Counted(vec![n; 20_000], Arc::clone(blocks)));
    let at = NonNull::from(&block.0[0]).cast::<u8>();
    #[expect(unsafe_code, reason = "Arrow takes the address on trust")]
    // SAFETY: the memory is as long, and the block that owns it goes with the buffer.
    let buffer = unsafe { Buffer::from_custom_allocation(at, 8 * 20_000, block) };
    let column: ArrayRef = Arc::new(UInt64Array::new(buffer.into(), None));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    Envelope::from_arrow(&batch).unwrap().slice(7..8)
}

/// What happened: a via that held more than its bound counted the rows of its envelopes alone, however large the blocks
/// were that these kept alive.
#[test]
fn a_via_that_holds_more_keeps_no_block_of_which_it_has_little() {
    const NUMBERS: u64 = 100;
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("the last one first");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let blocks: Arc<AtomicUsize> = Arc::default();
    let made = Arc::clone(&blocks);
    let rows = move || {
        let made = Arc::clone(&made);
        (0..NUMBERS).map(move |n| little_of_much(n, &made))
    };
    let source = net.source(library::source("numbers", &schema, rows));
    let last = || {
        let mut last = None;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    turn.send(0, Envelope::new([vec![last.take().expect("there are numbers")].into()]));
                    turn.send_pill(0);
                }
                Some(envelope) => last = Some(envelope.column(0).u64s()[0]),
                None => {}
            }
            Ok(())
        }
    };
    let last = net.add(BoxModel::new("last", last).input(&schema).output(&schema));
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, now) = (Arc::clone(&most), Arc::clone(&blocks));
    let both = move || {
        let (seen, now, mut next) = (Arc::clone(&seen), Arc::clone(&now), 0);
        move |input: usize, envelope: Envelope| match input {
            0 => {
                assert_eq!(envelope.column(0).u64s(), [NUMBERS - 1]);
                seen.fetch_max(now.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            _ => {
                assert_eq!(envelope.column(0).u64s(), [next]);
                next += 1;
            }
        }
    };
    let both = net.add(one_after_the_other("both", &schema, both));
    net.connect(source.output(0), last.input(0));
    net.connect(last.output(0), both.input(0));
    net.connect(source.output(0), both.input(1));
    net.end(both.output(0));
    // Five blocks: those on the way to the two receivers, and the first one that was refused.
    sequential::run_within(&net.build().unwrap(), Vec::new(), 1_000_000, None, |_| Some(0)).0.unwrap();
    let most = most.load(Ordering::Relaxed);
    assert!((1..=5).contains(&most), "{most} blocks of 160 kB were alive when all numbers had come");
    assert_eq!(blocks.load(Ordering::Relaxed), 0);
}
