//! Random tables of all types, with and without nulls, as plain Rust values and as envelopes.

use std::cmp::Ordering;
use vicus_flow::{Column, Envelope, Field, Schema, Type};

/// A value or a null.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    Binary(Vec<u8>),
}

pub(crate) type Row = Vec<Cell>;

impl Cell {
    /// Null is less than every value.
    pub(crate) fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Null, Cell::Null) => Ordering::Equal,
            (Cell::Null, _) => Ordering::Less,
            (_, Cell::Null) => Ordering::Greater,
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Whole(a), Cell::Whole(b)) => a.cmp(b),
            (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Binary(a), Cell::Binary(b)) => a.cmp(b),
            _ => panic!("{self:?} and {other:?} are of two types"),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }
}

pub(crate) fn order(a: &Row, b: &Row) -> Ordering {
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

/// One of a few values, so several rows have equal ones.
pub(crate) fn cell(kind: Type, chance: &mut Chance) -> Cell {
    let whole = |chance: &mut Chance, least: i128, most: i128| {
        Cell::Whole([least, least + 1, 0, 1, 7, most - 1, most][chance.below(7)].max(least))
    };
    match kind {
        Type::Bool => Cell::Bool(chance.below(2) == 1),
        Type::I8 => whole(chance, i8::MIN.into(), i8::MAX.into()),
        Type::I16 => whole(chance, i16::MIN.into(), i16::MAX.into()),
        Type::I32 => whole(chance, i32::MIN.into(), i32::MAX.into()),
        Type::I64 => whole(chance, i64::MIN.into(), i64::MAX.into()),
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
            let strings: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\xff", b"\xffabcdefgh", b"abcdefgh"];
            Cell::Binary(strings[chance.below(strings.len())].to_vec())
        }
    }
}

/// Rows of some columns.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) schema: Schema,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn random(chance: &mut Chance, most_rows: usize) -> Table {
        let field = |number: usize, chance: &mut Chance| Field {
            name: format!("c{number}"),
            kind: Type::ALL[chance.below(Type::ALL.len())],
            nullable: chance.below(2) == 0,
        };
        let fields: Vec<Field> = (0..1 + chance.below(5)).map(|number| field(number, chance)).collect();
        Table::of(fields, chance, most_rows)
    }

    pub(crate) fn of(fields: Vec<Field>, chance: &mut Chance, most_rows: usize) -> Table {
        // How many of eight rows are nulls: none, some, all.
        let nulls: Vec<usize> = fields.iter().map(|_| [0, 1, 4, 8][chance.below(4)]).collect();
        let count = if chance.below(8) == 0 { 0 } else { chance.below(most_rows + 1) };
        let mut row = || -> Row {
            let cell = |(field, &nulls): (&Field, &usize)| {
                if field.nullable && chance.below(8) < nulls { Cell::Null } else { cell(field.kind, chance) }
            };
            fields.iter().zip(&nulls).map(cell).collect()
        };
        let rows = (0..count).map(|_| row()).collect();
        Table { schema: fields.into_iter().collect(), rows }
    }
}

pub(crate) fn envelope(schema: &Schema, rows: &[Row]) -> Envelope {
    let column = |(place, field): (usize, &Field)| {
        let cells = || rows.iter().map(|row| &row[place]);
        macro_rules! whole {
            ($type:ty) => {
                cells()
                    .map(|cell| match cell {
                        Cell::Whole(value) => Some(<$type>::try_from(*value).unwrap()),
                        _ => None,
                    })
                    .collect::<Vec<_>>()
                    .into()
            };
        }
        let float = |cell: &Cell| if let Cell::Float(value) = cell { Some(*value) } else { None };
        let column: Column = match field.kind {
            Type::Bool => cells()
                .map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None })
                .collect::<Vec<_>>()
                .into(),
            Type::I8 => whole!(i8),
            Type::I16 => whole!(i16),
            Type::I32 => whole!(i32),
            Type::I64 => whole!(i64),
            Type::U8 => whole!(u8),
            Type::U16 => whole!(u16),
            Type::U32 => whole!(u32),
            Type::U64 => whole!(u64),
            Type::F32 => cells().map(|cell| float(cell).map(|value| value as f32)).collect::<Vec<_>>().into(),
            Type::F64 => cells().map(float).collect::<Vec<_>>().into(),
            Type::Text => cells()
                .map(|cell| if let Cell::Text(text) = cell { Some(&text[..]) } else { None })
                .collect::<Vec<_>>()
                .into(),
            Type::Binary => {
                let strings = cells().map(|cell| if let Cell::Binary(bytes) = cell { &bytes[..] } else { &[] });
                let nulls = cells().enumerate().filter(|(_, cell)| cell.is_null()).map(|(row, _)| row);
                Column::of_binaries(strings).with_nulls(nulls)
            }
        };
        column
    };
    Envelope::of_rows(schema.columns().iter().enumerate().map(column).collect(), rows.len())
}

pub(crate) fn rows(envelope: &Envelope) -> Vec<Row> {
    let cell = |column: &Column, row: usize| match column.kind() {
        _ if column.is_null(row) => Cell::Null,
        Type::Bool => Cell::Bool(column.bools()[row]),
        Type::I8 => Cell::Whole(column.i8s()[row].into()),
        Type::I16 => Cell::Whole(column.i16s()[row].into()),
        Type::I32 => Cell::Whole(column.i32s()[row].into()),
        Type::I64 => Cell::Whole(column.i64s()[row].into()),
        Type::U8 => Cell::Whole(column.u8s()[row].into()),
        Type::U16 => Cell::Whole(column.u16s()[row].into()),
        Type::U32 => Cell::Whole(column.u32s()[row].into()),
        Type::U64 => Cell::Whole(column.u64s()[row].into()),
        Type::F32 => Cell::Float(column.f32s()[row].into()),
        Type::F64 => Cell::Float(column.f64s()[row]),
        Type::Text => Cell::Text(column.text_at(row).to_owned()),
        Type::Binary => Cell::Binary(column.binary_at(row).to_vec()),
    };
    let row = |row: usize| envelope.columns().iter().map(|column| cell(column, row)).collect();
    (0..envelope.rows()).map(row).collect()
}
