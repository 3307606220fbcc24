//! Random tables of all types, with and without nulls, as plain Rust values and as envelopes.

use std::cmp::Ordering;
use std::sync::Arc;
use vicus_flow::{Column, Envelope, Field, Schema, Storage, TimeUnit, Type};

/// A value or a null.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    Binary(Vec<u8>),
    /// A list's values.
    List(Vec<Cell>),
    /// A struct's parts.
    Struct(Vec<Cell>),
}

pub(crate) type Row = Vec<Cell>;

impl Cell {
    /// Null is greater than every value, as among the parts of lists and structs.
    pub(crate) fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Null, Cell::Null) => Ordering::Equal,
            (Cell::Null, _) => Ordering::Greater,
            (_, Cell::Null) => Ordering::Less,
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Whole(a), Cell::Whole(b)) => a.cmp(b),
            (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Binary(a), Cell::Binary(b)) => a.cmp(b),
            (Cell::List(a), Cell::List(b)) => order(a, b).then(a.len().cmp(&b.len())),
            (Cell::Struct(a), Cell::Struct(b)) => order(a, b),
            _ => panic!("{self:?} and {other:?} are of two types"),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }
}

pub(crate) fn order(a: &[Cell], b: &[Cell]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.order(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Panics if the tables differ in a row.
pub(crate) fn assert_same(is: &[Row], expected: &[Row], what: &str) {
    assert_eq!(is.len(), expected.len(), "{what}: so many rows");
    for (row, (is, expected)) in is.iter().zip(expected).enumerate() {
        assert!(order(is, expected).is_eq(), "{what}, row {row}: {is:?}, expected {expected:?}");
    }
}

/// Numbers of a seed: xorshift.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn of_seed(seed: u64) -> Chance {
        Chance(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }
}

/// A type, with parts down to this depth.
pub(crate) fn kind(chance: &mut Chance, depth: usize) -> Type {
    let unit = |chance: &mut Chance| TimeUnit::ALL[chance.below(4)];
    match chance.below(Type::SIMPLE.len() + if depth == 0 { 5 } else { 9 }) {
        0 => Type::Time(unit(chance)),
        1 => Type::Timestamp(unit(chance), [None, Some("UTC"), Some("+02:30")][chance.below(3)].map(Into::into)),
        2 => Type::Duration(unit(chance)),
        3 => Type::Decimal { precision: 38, scale: [-2, 0, 10][chance.below(3)] },
        4 => Type::FixedBinary([1, 3, 16][chance.below(3)]),
        simple if simple < 5 + Type::SIMPLE.len() => Type::SIMPLE[simple - 5].clone(),
        nested if nested % 2 == 0 => Type::list(kind(chance, depth - 1)),
        _ => {
            let field = |part: usize, chance: &mut Chance| {
                let field = Field::new(format!("p{part}"), kind(chance, depth - 1));
                if chance.below(2) == 0 { field.or_null() } else { field }
            };
            Type::Struct(Arc::new((0..1 + chance.below(3)).map(|part| field(part, chance)).collect()))
        }
    }
}

/// One of a few values, so several rows have equal ones.
pub(crate) fn cell(kind: &Type, chance: &mut Chance) -> Cell {
    let whole = |chance: &mut Chance, least: i128, most: i128| {
        Cell::Whole([least, least + 1, 0, 1, 7, most - 1, most][chance.below(7)].max(least))
    };
    match kind {
        Type::Bool => Cell::Bool(chance.below(2) == 1),
        Type::I8 => whole(chance, i8::MIN.into(), i8::MAX.into()),
        Type::I16 => whole(chance, i16::MIN.into(), i16::MAX.into()),
        Type::I32 | Type::Date => whole(chance, i32::MIN.into(), i32::MAX.into()),
        // Arrow has them in 32 bits.
        Type::Time(TimeUnit::Second | TimeUnit::Milli) => whole(chance, 0, 86_399),
        Type::I64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_) => {
            whole(chance, i64::MIN.into(), i64::MAX.into())
        }
        Type::Decimal { .. } => {
            let most = 10i128.pow(38) - 1;
            Cell::Whole([-most, -1, 0, 1, i128::from(u64::MAX), i128::from(u64::MAX) + 1, most][chance.below(7)])
        }
        Type::U8 => whole(chance, 0, u8::MAX.into()),
        Type::U16 => whole(chance, 0, u16::MAX.into()),
        Type::U32 => whole(chance, 0, u32::MAX.into()),
        Type::U64 => whole(chance, 0, u64::MAX.into()),
        Type::F32 | Type::F64 => {
            let floats = [-0.0, 0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 3.0];
            Cell::Float(floats[chance.below(floats.len())])
        }
        Type::Text => {
            let texts = ["", "a", "ab", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", "\u{10FFFF}", "a\0"];
            match chance.below(texts.len() + 1) {
                // Longer than all others together.
                at if at == texts.len() => Cell::Text("long".repeat(500)),
                at => Cell::Text(texts[at].to_owned()),
            }
        }
        Type::Binary => {
            let strings: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\xff", b"\xffabcdefghijklm", b"abcdefgh"];
            Cell::Binary(strings[chance.below(strings.len())].to_vec())
        }
        Type::FixedBinary(bytes) => Cell::Binary(vec![[0, 7, 255][chance.below(3)]; *bytes as usize]),
        Type::List(field) => {
            let count = [0, 1, 2, 5][chance.below(4)];
            Cell::List((0..count).map(|_| cell_or_null(field, 1, chance)).collect())
        }
        Type::Struct(fields) => {
            Cell::Struct(fields.columns().iter().map(|field| cell_or_null(field, 1, chance)).collect())
        }
    }
}

/// A value, or a null in so many of eight cases if the field may have one.
fn cell_or_null(field: &Field, nulls: usize, chance: &mut Chance) -> Cell {
    if field.nullable && chance.below(8) < nulls { Cell::Null } else { cell(&field.kind, chance) }
}

/// Rows of some columns.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) schema: Schema,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn random(chance: &mut Chance, most_rows: usize) -> Table {
        let field = |number: usize, chance: &mut Chance| {
            let field = Field::new(format!("c{number}"), kind(chance, 2));
            if chance.below(2) == 0 { field.or_null() } else { field }
        };
        let fields: Vec<Field> = (0..1 + chance.below(5)).map(|number| field(number, chance)).collect();
        Table::of(fields, chance, most_rows)
    }

    pub(crate) fn of(fields: Vec<Field>, chance: &mut Chance, most_rows: usize) -> Table {
        // How many of eight rows are nulls: none, some, all.
        let nulls: Vec<usize> = fields.iter().map(|_| [0, 1, 4, 8][chance.below(4)]).collect();
        let count = if chance.below(8) == 0 { 0 } else { chance.below(most_rows + 1) };
        let mut row =
            || -> Row { fields.iter().zip(&nulls).map(|(field, &nulls)| cell_or_null(field, nulls, chance)).collect() };
        let rows = (0..count).map(|_| row()).collect();
        Table { schema: fields.into_iter().collect(), rows }
    }
}

/// An envelope of these rows, with texts and strings of bytes in a storage that depends on their number.
pub(crate) fn envelope(schema: &Schema, rows: &[Row]) -> Envelope {
    let column = |(place, field): (usize, &Field)| {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[place]).collect();
        let storage = [Storage::Direct, Storage::Views, Storage::Dictionary, Storage::Limited(2000)];
        column(&field.kind, &cells, storage[(rows.len() + place) % 4])
    };
    Envelope::of_rows(schema.columns().iter().enumerate().map(column).collect(), rows.len())
}

fn column(kind: &Type, cells: &[&Cell], storage: Storage) -> Column {
    macro_rules! whole {
        ($type:ty) => {
            cells
                .iter()
                .map(|cell| match cell {
                    Cell::Whole(value) => Some(<$type>::try_from(*value).unwrap()),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
    }
    let nulls = || cells.iter().enumerate().filter(|(_, cell)| cell.is_null()).map(|(row, _)| row);
    let float = |cell: &&Cell| if let Cell::Float(value) = cell { Some(*value) } else { None };
    let bytes = |cell: &&Cell| if let Cell::Binary(bytes) = cell { bytes.clone() } else { Vec::new() };
    match kind {
        Type::Bool => {
            let bools = cells.iter().map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None });
            bools.collect::<Vec<_>>().into()
        }
        Type::I8 => whole!(i8).into(),
        Type::I16 => whole!(i16).into(),
        Type::I32 | Type::Date => Column::from(whole!(i32)).of_type(kind.clone()),
        Type::I64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_) => {
            Column::from(whole!(i64)).of_type(kind.clone())
        }
        Type::U8 => whole!(u8).into(),
        Type::U16 => whole!(u16).into(),
        Type::U32 => whole!(u32).into(),
        Type::U64 => whole!(u64).into(),
        Type::F32 => cells.iter().map(|cell| float(cell).map(|value| value as f32)).collect::<Vec<_>>().into(),
        Type::F64 => cells.iter().map(float).collect::<Vec<_>>().into(),
        Type::Decimal { precision, scale } => {
            let values = whole!(i128).into_iter().map(Option::unwrap_or_default).collect();
            Column::of_decimals(*precision, *scale, values).with_nulls(nulls())
        }
        Type::Text => {
            let texts = cells.iter().map(|cell| if let Cell::Text(text) = cell { Some(&text[..]) } else { None });
            Column::from(texts.collect::<Vec<_>>()).stored(storage).unwrap()
        }
        Type::Binary => {
            let plain = Column::of_binaries(cells.iter().map(bytes)).with_nulls(nulls());
            plain.stored(storage).unwrap()
        }
        Type::FixedBinary(size) => {
            let padded = |cell| {
                let mut bytes = bytes(cell);
                bytes.resize(*size as usize, 9);
                bytes
            };
            Column::of_fixed(*size, cells.iter().flat_map(padded).collect()).with_nulls(nulls())
        }
        Type::List(field) => {
            let (mut ends, mut items) = (vec![0], Vec::new());
            for cell in cells {
                if let Cell::List(values) = cell {
                    items.extend(values);
                }
                ends.push(items.len() as i32);
            }
            Column::of_lists(ends, column(&field.kind, &items, storage)).with_nulls(nulls())
        }
        Type::Struct(fields) => {
            let parts = fields.columns().iter().enumerate().map(|(part, field)| {
                // Below a null, some value of the right type.
                let some = cell(&field.kind, &mut Chance::of_seed(part as u64));
                let some = if field.nullable { Cell::Null } else { some };
                let of = |cell: &&Cell| if let Cell::Struct(parts) = cell { parts[part].clone() } else { some.clone() };
                let cells: Vec<Cell> = cells.iter().map(of).collect();
                (field.name.clone(), column(&field.kind, &cells.iter().collect::<Vec<_>>(), storage))
            });
            Column::of_parts(parts).with_nulls(nulls())
        }
    }
}

pub(crate) fn rows(envelope: &Envelope) -> Vec<Row> {
    let row = |row: usize| envelope.columns().iter().map(|column| cell_of(column, row)).collect();
    (0..envelope.rows()).map(row).collect()
}

fn cell_of(column: &Column, row: usize) -> Cell {
    match column.kind() {
        _ if column.is_null(row) => Cell::Null,
        Type::Bool => Cell::Bool(column.bools()[row]),
        Type::I8 => Cell::Whole(column.i8s()[row].into()),
        Type::I16 => Cell::Whole(column.i16s()[row].into()),
        Type::I32 | Type::Date => Cell::Whole(column.i32s()[row].into()),
        Type::I64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_) => Cell::Whole(column.i64s()[row].into()),
        Type::U8 => Cell::Whole(column.u8s()[row].into()),
        Type::U16 => Cell::Whole(column.u16s()[row].into()),
        Type::U32 => Cell::Whole(column.u32s()[row].into()),
        Type::U64 => Cell::Whole(column.u64s()[row].into()),
        Type::F32 => Cell::Float(column.f32s()[row].into()),
        Type::F64 => Cell::Float(column.f64s()[row]),
        Type::Decimal { .. } => Cell::Whole(column.decimals()[row]),
        Type::Text => Cell::Text(column.text_at(row).to_owned()),
        Type::Binary | Type::FixedBinary(_) => Cell::Binary(column.binary_at(row).to_vec()),
        Type::List(_) => Cell::List(column.item_range(row).map(|item| cell_of(column.items(), item)).collect()),
        Type::Struct(fields) => {
            Cell::Struct((0..fields.columns().len()).map(|part| cell_of(column.part(part), row)).collect())
        }
    }
}
