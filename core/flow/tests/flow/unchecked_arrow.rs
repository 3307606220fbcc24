//! Arrow arrays that unchecked code has built: an error with the column and the row, and nothing else fails.
#![cfg(feature = "arrow")]

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array,
    LargeStringArray, RecordBatch, StringArray, StringViewArray, StructArray, make_array,
    types::{Int8Type, Int16Type, Int32Type, UInt32Type},
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use std::sync::Arc;
use vicus_flow::{BoxModel, Column, Envelope, FlowError, FromArrowError, ModelBuilder, Schema, Turn, Type};
use vicus_flow::{library, sequential};

/// An array with one of its buffers replaced, which Arrow does not look at.
fn with_buffer(array: &dyn Array, number: usize, bytes: Buffer) -> ArrayRef {
    let mut buffers = array.to_data().buffers().to_vec();
    buffers[number] = bytes;
    let builder = array.to_data().into_builder().buffers(buffers);
    #[expect(unsafe_code, reason = "the array is to be wrong")]
    // SAFETY: the buffer has as many numbers as the one before; that they are wrong is what the column has to find.
    make_array(unsafe { builder.build_unchecked() })
}

/// An array with these offsets.
fn with_ends(array: &dyn Array, ends: &[i32]) -> ArrayRef {
    with_buffer(array, 0, Buffer::from_vec(ends.to_vec()))
}

fn error(array: &dyn Array) -> String {
    Column::from_arrow(array).unwrap_err().to_string()
}

fn lists(values: ArrayRef) -> arrow_array::ListArray {
    let item = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
    arrow_array::ListArray::new(item, OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 2, 4])), values, None)
}

#[test]
fn offsets_that_fall_or_lead_out_of_the_values_are_refused() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "cd"]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"a"[..], b"b", b"cd"]));
    let list: ArrayRef = Arc::new(lists(Arc::new(Int64Array::from(vec![1, 2, 3, 4]))));
    for array in [text, bytes, list] {
        let falls = with_ends(&array, &[0, 3, 1, 4]);
        assert_eq!(error(&falls), "row 1 of a column begins at offset 3 and ends at 1", "{}", array.data_type());
        let beyond = with_ends(&array, &[0, 1, 5, 5]);
        assert_eq!(error(&beyond), "row 1 of a column has the offsets 1 to 5, and the array has 4 values");
        let before = with_ends(&array, &[-1, 1, 2, 4]);
        assert_eq!(error(&before), "row 0 of a column has the offsets -1 to 1, and the array has 4 values");
        // A slice has its own rows, and its offsets may begin anywhere.
        assert_eq!(error(&falls.slice(1, 2)), "row 0 of a column begins at offset 3 and ends at 1");
        assert_eq!(Column::from_arrow(&falls.slice(2, 1)).unwrap().len(), 1);
    }
    let large = LargeStringArray::from(vec!["a", "b", "cd"]);
    let falls = with_buffer(&large, 0, Buffer::from_vec(vec![0i64, 3, 1, 4]));
    assert_eq!(error(&falls), "row 1 of a column begins at offset 3 and ends at 1");
    let beyond = with_buffer(&large, 0, Buffer::from_vec(vec![0i64, 1, 2, 1 << 40]));
    assert!(error(&beyond).ends_with("has the offsets 2 to 1099511627776, and the array has 4 values"));
}

#[test]
fn keys_beyond_their_dictionary_are_refused_unless_the_row_is_null() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    for values in [texts, numbers] {
        macro_rules! check {
            ($($type:ident $key:expr;)*) => {$(
                let keys = [Some(0), Some(1), None].into_iter().collect();
                let good = DictionaryArray::<$type>::new(keys, Arc::clone(&values));
                let wrong = with_buffer(&good, 0, Buffer::from_vec(vec![1, $key, 0]));
                let expected = "row 1 of a column has a key that its dictionary of 2 values doesn't have";
                assert_eq!(error(&wrong), expected, "{}", good.data_type());
                let of_null = with_buffer(&good, 0, Buffer::from_vec(vec![1, 0, $key]));
                let column = Column::from_arrow(&of_null).unwrap();
                assert!(column.is_null(2) && !column.is_null(1), "{}", good.data_type());
                let again = Column::from_arrow(&column.to_arrow()).unwrap();
                assert_eq!(format!("{again:?}"), format!("{column:?}"));
            )*};
        }
        check! { Int8Type 2i8; Int8Type -1i8; Int16Type 2i16; Int32Type 2i32; Int32Type -1i32; UInt32Type 2u32; }
    }
    // A dictionary without values, whose key leads to none.
    let none: ArrayRef = Arc::new(Int64Array::new_null(0));
    let good = DictionaryArray::<Int32Type>::new(Int32Array::new_null(1), none);
    let builder = good.to_data().into_builder().nulls(None);
    #[expect(unsafe_code, reason = "the array is to be wrong")]
    // SAFETY: it has its one key; that no value has it is what the column has to find.
    let wrong = make_array(unsafe { builder.build_unchecked() });
    assert_eq!(error(&wrong), "row 0 of a column has a key that its dictionary of 0 values doesn't have");
}

#[test]
fn views_that_lead_out_of_their_buffers_are_refused_unless_the_row_is_null() {
    let long = "longer than a view holds";
    let views: [ArrayRef; 2] = [
        Arc::new(StringViewArray::from(vec![Some("a"), Some(long), None])),
        Arc::new(BinaryViewArray::from(vec![Some(&b"a"[..]), Some(long.as_bytes()), None])),
    ];
    // Arrow's layout: length, four bytes, buffer, offset, of 32 bits each.
    let view = |buffer: u128, offset: u128| 24u128 | buffer << 64 | offset << 96;
    for array in views {
        let wrong = with_buffer(&array, 0, Buffer::from_vec(vec![0, view(1, 0), 0]));
        let expected = "row 1 of a column has 24 bytes from 0 on in buffer 1, which the array doesn't have";
        assert_eq!(error(&wrong), expected);
        let wrong = with_buffer(&array, 0, Buffer::from_vec(vec![0, view(0, u128::from(u32::MAX)), 0]));
        assert!(error(&wrong).contains("24 bytes from 4294967295 on in buffer 0"));
        let of_null = with_buffer(&array, 0, Buffer::from_vec(vec![0, view(0, 0), view(9, 9)]));
        assert!(Column::from_arrow(&of_null).unwrap().is_null(2));
    }
}

#[test]
fn nested_columns_are_named_by_their_path() {
    let texts = StringArray::from(vec!["a", "b", "c", "d"]);
    let inner: ArrayRef = Arc::new(lists(with_ends(&texts, &[0, 1, 2, 1, 3])));
    let field = ArrowField::new("names", inner.data_type().clone(), true);
    let outer: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), inner)]));
    let batch = RecordBatch::try_from_iter([("person", outer)]).unwrap();
    let error = Envelope::from_arrow(&batch).unwrap_err();
    assert_eq!(error.to_string(), "row 2 of column person.names.item begins at offset 2 and ends at 1");

    // A list of fixed size whose values end before it does.
    let item = Arc::new(ArrowField::new("item", DataType::Int64, true));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    #[expect(unsafe_code, reason = "the array is to be wrong")]
    // SAFETY: its values are what they say; that there are too few is what the column has to find.
    let wrong = unsafe { FixedSizeListArray::new_unchecked(item, 2, values, None, 2) };
    let error = Column::from_arrow(&wrong).unwrap_err().to_string();
    assert_eq!(error, "row 1 of a column has 2 values, and the array ends before them");
}

#[test]
fn nulls_are_counted_whatever_the_array_says() {
    let bits = BooleanBuffer::from(vec![true, false, false]);
    for said in [0, 1, 3] {
        #[expect(unsafe_code, reason = "the count is to be wrong")]
        // SAFETY: the bits are there; that the count is wrong is what the column has to find.
        let nulls = unsafe { NullBuffer::new_unchecked(bits.clone(), said) };
        let column = Column::from_arrow(&Int64Array::new(vec![1, 2, 3].into(), Some(nulls))).unwrap();
        assert_eq!(column.null_count(), 2, "{said} were said");
        assert!(column.is_null(1) && !column.is_null(0));
    }
}

#[test]
fn parts_of_another_length_are_refused() {
    let numbers = |count: i64| Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef;
    #[expect(unsafe_code, reason = "the bits are to be too few")]
    // SAFETY: nothing reads the array's bits before the column looks at their number.
    let few = unsafe {
        let nulls = NullBuffer::from(vec![true, false]);
        StringArray::new_unchecked(StringArray::from(vec!["a", "b", "c"]).offsets().clone(), b"abc".into(), Some(nulls))
    };
    assert_eq!(error(&few), "row 2 of a column is one of 3 rows with 2 bits for nulls");
    let field = |name: &str| ArrowField::new(name, DataType::Int64, true);
    #[expect(unsafe_code, reason = "a part is to be too short")]
    // SAFETY: nothing reads the array's rows before the column looks at their number.
    let uneven =
        unsafe { StructArray::new_unchecked(vec![field("a"), field("b")].into(), vec![numbers(3), numbers(2)], None) };
    assert_eq!(error(&uneven), "row 2 of a column is one of 3, of which a part has 2");
    let schema = Arc::new(ArrowSchema::new(vec![field("n")]));
    #[expect(unsafe_code, reason = "the table is to have another number of rows")]
    // SAFETY: nothing reads the table's rows before the envelope looks at their number.
    let table = unsafe { RecordBatch::new_unchecked(schema, vec![numbers(2)], 5) };
    let refused = Envelope::from_arrow(&table).unwrap_err().to_string();
    assert_eq!(refused, "row 2 of column n is one of 5, of which the column has 2");
}

#[test]
fn a_wrong_array_fails_its_request_alone() {
    let schema = Schema::new([("text", Type::Text)]);
    let fields = ArrowSchema::new(vec![ArrowField::new("text", DataType::Utf8, false)]);
    let run = |ends: [i32; 3]| {
        let text = with_ends(&StringArray::from(vec!["a", "b"]), &ends);
        let batch = RecordBatch::try_new(Arc::new(fields.clone()), vec![text]).unwrap();
        let act = move || {
            let batch = batch.clone();
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                turn.send(0, Envelope::from_arrow(&batch)?);
                turn.send_pill(0);
                Ok(())
            }
        };
        let mut net = ModelBuilder::new("rows of others");
        let from = BoxModel::new("from", act);
        let from = net.source(from.output(&schema));
        let to = net.add(library::sink("to", &schema, |_| Ok(())));
        net.connect(from.output(0), to.input(0));
        net.end(to.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |_| 0)
    };
    let error = run([0, 2, 1]).unwrap_err();
    assert_eq!(error.to_string(), "box from failed: row 1 of column text begins at offset 2 and ends at 1");
    let FlowError::Failed { error, .. } = &error else { panic!("it failed by another cause: {error}") };
    assert!(matches!(error.downcast_ref(), Some(FromArrowError::Outside { row: 1, .. })));
    run([0, 1, 2]).unwrap();
}
