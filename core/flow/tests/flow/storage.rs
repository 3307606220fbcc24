//! Texts and strings of bytes in each storage: shared stores, views, and the boxes that keep them.
#![cfg(feature = "arrow")]

use crate::one_box;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, Int32Array, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use std::sync::Arc;
use vicus_flow::library::{self, Grouping, HashKey, SortKey};
use vicus_flow::{BoxModel, Column, Envelope, Schema, Storage, StorageError, Type};

/// The envelopes that a box sends for these.
fn over(envelopes: Vec<Envelope>, model: BoxModel, from: &Schema, to: &Schema) -> Vec<Envelope> {
    one_box::over(envelopes, model, from, to).unwrap()
}

fn texts(envelopes: &[Envelope]) -> Vec<&str> {
    envelopes.iter().flat_map(|envelope| envelope.column(0).texts()).collect()
}

/// The address of a store's first value.
fn store(column: &Column) -> *const u8 {
    let (_, values) = column.dictionary_parts().expect("a dictionary stays one");
    values.text_at(0).as_ptr()
}

/// A dictionary of one text of 1,000 bytes and 10,000 rows: 40 kB of keys, and not 10 MB of texts.
#[test]
fn a_dictionary_is_shared_with_arrow_both_ways() {
    let (keys, text) = (Int32Array::from(vec![0; 10_000]), StringArray::from(vec!["t".repeat(1000)]));
    let dictionary = DictionaryArray::<Int32Type>::new(keys, Arc::new(text));
    let field = ArrowField::new("t", dictionary.data_type().clone(), false);
    let schema = Arc::new(ArrowSchema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(dictionary.clone())]).unwrap();
    let (envelope, ours) = (Envelope::from_arrow(&batch).unwrap(), Schema::from_arrow(&schema).unwrap());
    assert_eq!((ours.columns()[0].kind.clone(), ours.columns()[0].storage), (Type::Text, Storage::Dictionary));
    assert_eq!((envelope.bytes(), envelope.held_bytes() < 71_000), (40_000, true), "{}", envelope.held_bytes());
    assert_eq!(envelope.column(0).text_at(9_999).len(), 1000);

    let back = envelope.to_arrow(&ours);
    let array = back.column(0).as_dictionary::<Int32Type>();
    assert_eq!(array.keys().values().inner().as_ptr(), dictionary.keys().values().inner().as_ptr());
    let data = |values: &dyn Array| values.as_string::<i32>().value_data().as_ptr();
    assert_eq!(data(array.values()), data(dictionary.values()));
    // Who wants plain texts gets them.
    let plain = envelope.slice(0..2).to_arrow(&Schema::new([("t", Type::Text)]));
    assert_eq!(plain.column(0).as_string::<i32>().value(1).len(), 1000);
}

#[test]
fn boxes_keep_the_store_that_their_rows_share() {
    let schema = Schema::new([("t", Type::Text)]);
    let words: Column = ["pear", "apple", "fig", "apple pie"].into_iter().collect();
    let all = Column::of_dictionary(vec![0, 1, 2, 3, 2, 1, 0, 2], &words).unwrap();
    let envelopes = || vec![Envelope::new([all.slice(0..3)]), Envelope::new([all.slice(3..8)])];
    let sorted = over(envelopes(), library::sort(&schema, [SortKey::of(0)], 3), &schema, &schema);
    assert_eq!(texts(&sorted), ["apple", "apple", "apple pie", "fig", "fig", "fig", "pear", "pear"]);
    let grouping = Grouping::by(&schema, [0]).count("count");
    let groups = over(envelopes(), library::group(&grouping, HashKey::default(), 10), &schema, &grouping.schema());
    assert_eq!(texts(&groups), ["pear", "apple", "fig", "apple pie"]);
    assert_eq!(groups[0].column(1).u64s(), [2, 2, 3, 1]);
    let dealt = over(envelopes(), library::partition(&schema, &[0], 1, HashKey::default()), &schema, &schema);
    for envelope in sorted.iter().chain(&groups).chain(&dealt) {
        assert_eq!(store(envelope.column(0)), words.text_at(0).as_ptr(), "the store is the first one still");
    }
    // The rows of two stores, with equal values under different numbers, and of a column without one.
    let others: Column = ["fig", "plum", "pear"].into_iter().collect();
    let other = Column::of_dictionary(vec![0, 1, 2, 1], &others).unwrap();
    let plain: Column = ["plum", "lime"].into_iter().collect();
    let mixed = vec![Envelope::new([all.clone()]), Envelope::new([other]), Envelope::new([plain])];
    let groups = over(mixed, library::group(&grouping, HashKey::default(), 10), &schema, &grouping.schema());
    assert_eq!(texts(&groups), ["pear", "apple", "fig", "apple pie", "plum", "lime"]);
    assert_eq!(groups[0].column(1).u64s(), [3, 2, 4, 1, 3, 1]);
    // A store with one value twice.
    let twice: Column = ["fig", "plum", "fig"].into_iter().collect();
    let twice = Column::of_dictionary(vec![2, 0, 1], &twice).unwrap();
    let grouped = over(
        vec![Envelope::new([twice])],
        library::group(&grouping, HashKey::default(), 10),
        &schema,
        &grouping.schema(),
    );
    assert_eq!((texts(&grouped), grouped[0].column(1).u64s()), (vec!["fig", "plum"], &[2, 1][..]));
}

#[test]
fn a_sparse_slice_of_views_is_compacted_before_it_is_kept() {
    let long: Vec<String> = (0..131_072).map(|row| format!("a text of some length, {row}")).collect();
    let views = StringViewArray::from_iter_values(&long);
    let schema = Arc::new(ArrowSchema::new(vec![ArrowField::new("t", DataType::Utf8View, false)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(views.clone())]).unwrap();
    let part = Envelope::from_arrow(&batch).unwrap().slice(1000..1100);
    assert_eq!(part.column(0).storage(), Storage::Views);
    assert!(part.held_bytes() > 4_000_000, "what it keeps counts: {}", part.held_bytes());
    assert!(part.bytes() < 5000, "{}", part.bytes());
    let copy = part.clone().compact();
    assert!(copy.held_bytes() < 8000, "{}", copy.held_bytes());
    assert!(copy.column(0).texts().eq(part.column(0).texts()) && copy.column(0).text_at(0) == long[1000]);
    // What a box holds is such a copy.
    let schema = Schema::new([("t", Type::Text)]);
    let held = over(vec![part], library::hold(&schema), &schema, &schema);
    assert!(held[0].held_bytes() < 8000);
    let back = Envelope::from_arrow(&batch).unwrap().column(0).to_arrow();
    assert_eq!(back.as_string_view().views().inner().as_ptr(), views.views().inner().as_ptr());
}

#[test]
fn every_storage_has_the_same_texts() {
    let long = "a text that no view has in itself".to_owned();
    let texts: Column = vec![Some("short"), None, Some(""), Some(&long), Some("twelve bytes"), Some("short")].into();
    let storages = [Storage::Direct, Storage::Views, Storage::Limited(33), Storage::Dictionary];
    for from in storages {
        for to in storages {
            let column = texts.stored(from).unwrap().stored(to).unwrap();
            assert_eq!((column.storage(), format!("{column:?}")), (to, format!("{texts:?}")), "{from:?} to {to:?}");
            let part = column.slice(2..5).stored(from).unwrap();
            assert_eq!(format!("{part:?}"), format!("{:?}", texts.slice(2..5)), "{from:?} to {to:?}");
            for row in [0, 2, 3, 4, 5] {
                for other in [0, 2, 3, 4, 5] {
                    let order = texts.text_at(row).cmp(texts.text_at(other));
                    assert_eq!(column.order(row, &texts.stored(from).unwrap(), other), order, "{from:?} and {to:?}");
                }
            }
        }
    }
    let too_long = StorageError::TooLong { row: 3, bytes: 33, most: 32 };
    assert_eq!(texts.stored(Storage::Limited(32)).unwrap_err(), too_long);
    assert_eq!(too_long.to_string(), "the value of row 3 has 33 bytes, and there is room for 32");
    let bytes = Column::of_binaries([&b"\xff\xff"[..], b""]);
    assert_eq!(bytes.stored(Storage::Limited(2)).unwrap().storage(), Storage::Direct, "for texts alone");
}

#[test]
fn a_code_without_a_value_is_refused_with_its_row() {
    let words: Column = ["a", "b"].into_iter().collect();
    let error = Column::of_dictionary(vec![1, 0, 2], &words).unwrap_err();
    assert_eq!(error.to_string(), "row 2 has the code 2, and the dictionary has 2 values, from 0 on");
    let numbers = Column::of_dictionary(vec![0], &vec![1u64].into()).unwrap_err();
    assert!(numbers.to_string().ends_with("and these are U64"), "{numbers}");
    #[expect(unsafe_code, reason = "Arrow would refuse it, but C programs may send it")]
    // SAFETY: nobody but the column looks at the keys.
    let wrong = unsafe {
        let keys = Int32Array::from(vec![Some(0), None, Some(7)]);
        DictionaryArray::<Int32Type>::new_unchecked(keys, Arc::new(StringArray::from(vec!["a", "b"])))
    };
    let error = Column::from_arrow(&wrong).unwrap_err().to_string();
    assert_eq!(error, "row 2 of a column has a key that its dictionary of 2 values doesn't have");
}
