//! Random statements over random tables, answered by SQLite as well.
//!
//! Each seed makes tables with few different values and many nulls, and a statement with one meaning in both dialects.
//! Differences are left out: casts from doubles, integers beyond 64 bits, texts as numbers, INTERSECT ALL.
//!
//! Other seeds are tried by `VICUS_SQL_SEED=200000 VICUS_SQL_COUNT=40000 cargo test`: of these, 201256 differs, because
//! SQLite 3.53 answers a part of its UNION ALL otherwise than it does alone.

use crate::run::{answer, table};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::sync::Arc;
use vicus_sql::{PlanOptions, SqlType, Tables, Value};

/// A generator of chance: PCG's multiplier over 64 bits; only the high ones are used.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Double,
    Text,
}

/// A column with a name.
#[derive(Clone)]
struct Named {
    name: String,
    kind: Kind,
}

const TABLES: [(&str, &[(&str, Kind)]); 3] = [
    ("t0", &[("a", Kind::Int), ("b", Kind::Int), ("d", Kind::Double), ("s", Kind::Text)]),
    ("t1", &[("a", Kind::Int), ("c", Kind::Int), ("s", Kind::Text)]),
    ("t2", &[("x", Kind::Int), ("e", Kind::Double), ("u", Kind::Text)]),
];

struct Maker {
    chance: Chance,
    names: usize,
    /// Columns of outer queries, by the innermost, usable in a subquery's WHERE.
    outer: Vec<Named>,
    depth: usize,
}

impl Maker {
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// How the columns of a query are named: an alias in GROUP BY must not be the name of a column, too.
    fn prefix(&self) -> &'static str {
        ["k", "m", "n"][self.depth]
    }

    fn columns(&self, scope: &[Named], kind: Kind) -> Vec<String> {
        scope.iter().filter(|column| column.kind == kind).map(|column| column.name.clone()).collect()
    }

    fn column(&mut self, scope: &[Named], kind: Kind) -> Option<String> {
        let all = self.columns(scope, kind);
        if all.is_empty() { None } else { Some(self.chance.pick(&all)) }
    }

    fn literal(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Int => (self.chance.below(8) as i64 - 2).to_string(),
            Kind::Double => format!("{:?}", (self.chance.below(12) as f64 - 4.0) / 2.0),
            Kind::Text => format!("'{}'", self.chance.pick(&["", "a", "b", "ab", "ba", "B", "é"])),
        }
    }

    fn value(&mut self, scope: &[Named], kind: Kind, depth: usize) -> String {
        if depth == 0 || self.chance.one_in(3) {
            if let Some(column) = self.column(scope, kind)
                && !self.chance.one_in(5)
            {
                return column;
            }
            return self.literal(kind);
        }
        let depth = depth - 1;
        match (kind, self.chance.below(9)) {
            (_, 0) => {
                let (condition, then) = (self.condition(scope, depth, false), self.value(scope, kind, depth));
                let otherwise = if self.chance.one_in(3) { "NULL".to_owned() } else { self.value(scope, kind, depth) };
                format!("CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
            }
            (_, 1) => format!("COALESCE({}, {})", self.value(scope, kind, depth), self.value(scope, kind, depth)),
            (_, 2) => format!("NULLIF({}, {})", self.value(scope, kind, depth), self.value(scope, kind, depth)),
            (Kind::Int, 3) => format!("LENGTH({})", self.value(scope, Kind::Text, depth)),
            (Kind::Int, 4) => format!("ABS({})", self.value(scope, kind, depth)),
            (Kind::Int, 5) => format!("(- {})", self.value(scope, kind, depth)),
            (Kind::Int, _) => {
                let op = self.chance.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.value(scope, kind, depth), self.value(scope, kind, depth))
            }
            (Kind::Double, 3) => {
                let op = self.chance.pick(&["+", "-", "*", "/"]);
                format!("({} {op} {})", self.value(scope, Kind::Int, depth), self.value(scope, kind, depth))
            }
            (Kind::Double, 4) => format!("ROUND({})", self.value(scope, kind, depth)),
            (Kind::Double, 5) => format!("ABS({})", self.value(scope, kind, depth)),
            (Kind::Double, _) => {
                let op = self.chance.pick(&["+", "-", "*", "/"]);
                format!("({} {op} {})", self.value(scope, kind, depth), self.value(scope, kind, depth))
            }
            // SQLite's UPPER leaves é alone.
            (Kind::Text, 3) => format!("LOWER({})", self.value(scope, kind, depth)),
            (Kind::Text, 4) => {
                let (from, count) = (1 + self.chance.below(3), self.chance.below(3));
                format!("SUBSTR({}, {from}, {count})", self.value(scope, kind, depth))
            }
            (Kind::Text, 5) => format!("REPLACE({}, 'a', {})", self.value(scope, kind, depth), self.literal(kind)),
            (Kind::Text, 6) => format!("TRIM({}, 'a')", self.value(scope, kind, depth)),
            (Kind::Text, _) => {
                format!("({} || {})", self.value(scope, kind, depth), self.value(scope, kind, depth))
            }
        }
    }

    fn kind(&mut self) -> Kind {
        self.chance.pick(&[Kind::Int, Kind::Int, Kind::Double, Kind::Text])
    }

    /// A condition, possibly with subqueries.
    fn condition(&mut self, scope: &[Named], depth: usize, subqueries: bool) -> String {
        if subqueries && self.depth < 2 && self.chance.one_in(4) {
            return self.subcondition(scope);
        }
        let kind = self.kind();
        if depth == 0 {
            let op = self.chance.pick(&["=", "<>", "<", "<=", ">", ">="]);
            return format!("{} {op} {}", self.value(scope, kind, 0), self.value(scope, kind, 0));
        }
        let depth = depth - 1;
        match self.chance.below(12) {
            0 | 1 => {
                let op = self.chance.pick(&["AND", "OR"]);
                let (a, b) = (self.condition(scope, depth, subqueries), self.condition(scope, depth, subqueries));
                format!("({a} {op} {b})")
            }
            2 => format!("(NOT {})", self.condition(scope, depth, subqueries)),
            3 => format!("({} IS {}NULL)", self.value(scope, kind, depth), self.chance.pick(&["", "NOT "])),
            4 => {
                let list: Vec<String> = (0..1 + self.chance.below(6))
                    .map(|_| if self.chance.one_in(8) { "NULL".to_owned() } else { self.literal(kind) })
                    .collect();
                let not = self.chance.pick(&["", "NOT "]);
                format!("({} {not}IN ({}))", self.value(scope, kind, depth), list.join(", "))
            }
            5 => {
                let not = self.chance.pick(&["", "NOT "]);
                let (value, low, high) =
                    (self.value(scope, kind, depth), self.value(scope, kind, 0), self.value(scope, kind, 0));
                format!("({value} {not}BETWEEN {low} AND {high})")
            }
            6 => {
                let pattern = self.chance.pick(&["a%", "%b", "_", "%", "a_", "", "%a%b%"]);
                let not = self.chance.pick(&["", "NOT "]);
                format!("({} {not}LIKE '{pattern}')", self.value(scope, Kind::Text, depth))
            }
            7 => {
                let is = self.chance.pick(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"]);
                format!("(({}) {is})", self.condition(scope, depth, false))
            }
            8 => {
                let not = self.chance.pick(&["", "NOT "]);
                format!("({} IS {not}DISTINCT FROM {})", self.value(scope, kind, depth), self.value(scope, kind, depth))
            }
            _ => {
                let op = self.chance.pick(&["=", "<>", "<", "<=", ">", ">=", "="]);
                let other = if kind == Kind::Double && self.chance.one_in(2) { Kind::Int } else { kind };
                format!("({} {op} {})", self.value(scope, kind, depth), self.value(scope, other, depth))
            }
        }
    }

    /// A condition with a subquery, possibly on columns of `scope`.
    fn subcondition(&mut self, scope: &[Named]) -> String {
        self.depth += 1;
        let outer = std::mem::replace(&mut self.outer, scope.to_vec());
        let not = self.chance.pick(&["", "NOT "]);
        let text = match self.chance.below(4) {
            0 => {
                let (from, inner) = self.from(1);
                let filter = self.correlated_where(&inner, true);
                format!("{not}EXISTS (SELECT 1 FROM {from}{filter})")
            }
            1 | 2 => {
                let kind = self.kind();
                let (from, inner) = self.from(1);
                let filter = self.correlated_where(&inner, true);
                let (value, column) = (self.value(scope, kind, 1), self.value(&inner, kind, 1));
                let distinct = self.chance.pick(&["", "DISTINCT "]);
                format!("({value} {not}IN (SELECT {distinct}{column} FROM {from}{filter}))")
            }
            _ => {
                let (kind, subquery) = self.scalar();
                let op = self.chance.pick(&["=", "<", ">", "<>"]);
                format!("({} {op} {subquery})", self.value(scope, kind, 1))
            }
        };
        self.outer = outer;
        self.depth -= 1;
        text
    }

    /// An aggregate of a table as a value; its WHERE may compare with `outer` by equality.
    fn scalar(&mut self) -> (Kind, String) {
        let (from, inner) = self.from(1);
        let kind = self.kind();
        let (aggregate, kind) = match self.chance.below(4) {
            0 => ("COUNT(*)".to_owned(), Kind::Int),
            1 => (format!("COUNT({})", self.value(&inner, kind, 0)), Kind::Int),
            2 => (format!("MAX({})", self.value(&inner, kind, 1)), kind),
            _ => (format!("MIN({})", self.value(&inner, kind, 1)), kind),
        };
        let filter = self.correlated_where(&inner, false);
        (kind, format!("(SELECT {aggregate} FROM {from}{filter})"))
    }

    /// A WHERE, possibly on outer columns: by equality, or in any comparison.
    fn correlated_where(&mut self, inner: &[Named], any: bool) -> String {
        let mut parts = Vec::new();
        if self.chance.one_in(2) {
            parts.push(self.condition(inner, 1, false));
        }
        let outer = self.outer.clone();
        for _ in 0..self.chance.below(3) {
            let kind = self.kind();
            let (Some(own), Some(other)) = (self.column(inner, kind), self.column(&outer, kind)) else { continue };
            let op = if any && self.chance.one_in(3) { self.chance.pick(&["<", ">", "<>", "<="]) } else { "=" };
            parts.push(format!("{own} {op} {other}"));
        }
        if any && !outer.is_empty() && self.chance.one_in(6) {
            let both: Vec<Named> = inner.iter().chain(&outer).cloned().collect();
            parts.push(self.condition(&both, 1, false));
        }
        if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
    }

    fn factor(&mut self) -> (String, Vec<Named>) {
        let alias = self.name("r");
        let named = |columns: &[(String, Kind)]| {
            columns.iter().map(|(name, kind)| Named { name: format!("{alias}.{name}"), kind: *kind }).collect()
        };
        if self.depth < 2 && self.chance.one_in(6) {
            self.depth += 1;
            let outer = std::mem::take(&mut self.outer);
            let (query, kinds) = self.query();
            let prefix = self.prefix();
            self.outer = outer;
            self.depth -= 1;
            let columns: Vec<(String, Kind)> =
                kinds.into_iter().enumerate().map(|(at, kind)| (format!("{prefix}{at}"), kind)).collect();
            return (format!("({query}) AS {alias}"), named(&columns));
        }
        let (table, columns) = self.chance.pick(&TABLES);
        let columns: Vec<(String, Kind)> = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        (format!("{table} AS {alias}"), named(&columns))
    }

    /// A FROM clause, and its columns.
    fn from(&mut self, most: usize) -> (String, Vec<Named>) {
        let (mut text, mut scope) = self.factor();
        for _ in 0..self.chance.below(most) {
            let (right, columns) = self.factor();
            let join =
                self.chance.pick(&["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
            if join == "CROSS JOIN" {
                text = format!("{text} CROSS JOIN {right}");
                scope.extend(columns);
                continue;
            }
            let mut on = Vec::new();
            for _ in 0..1 + self.chance.below(2) {
                let kind = self.kind();
                if let (Some(a), Some(b)) = (self.column(&scope, kind), self.column(&columns, kind)) {
                    on.push(format!("{a} = {b}"));
                }
            }
            scope.extend(columns);
            if on.is_empty() || self.chance.one_in(5) {
                on.push(self.condition(&scope, 1, false));
            }
            text = format!("{text} {join} {right} ON {}", on.join(" AND "));
        }
        (text, scope)
    }

    fn aggregate(&mut self, scope: &[Named]) -> (String, Kind) {
        let number = self.chance.pick(&[Kind::Int, Kind::Double]);
        let any = self.kind();
        let (call, kind) = match self.chance.below(8) {
            0 => ("COUNT(*)".to_owned(), Kind::Int),
            1 => (format!("COUNT({})", self.value(scope, any, 1)), Kind::Int),
            2 => (format!("COUNT(DISTINCT {})", self.value(scope, any, 1)), Kind::Int),
            3 => (format!("SUM({})", self.value(scope, number, 1)), number),
            4 => (format!("AVG({})", self.value(scope, number, 1)), Kind::Double),
            5 => (format!("MIN({})", self.value(scope, any, 1)), any),
            6 => (format!("SUM(DISTINCT {})", self.value(scope, number, 1)), number),
            _ => (format!("MAX({})", self.value(scope, any, 1)), any),
        };
        if self.chance.one_in(5) {
            return (format!("{call} FILTER (WHERE {})", self.condition(scope, 1, false)), kind);
        }
        (call, kind)
    }

    /// A SELECT with columns k0, k1 and so on.
    fn select(&mut self, wanted: Option<&[Kind]>) -> (String, Vec<Kind>) {
        let (from, scope) = self.from(3);
        let mut filter = String::new();
        if self.chance.one_in(3) {
            filter = format!(" WHERE {}", self.condition(&scope, 2, true));
            if self.chance.one_in(4) {
                filter = format!("{filter} AND {}", self.condition(&scope, 1, true));
            }
        }
        let count = wanted.map_or_else(|| 1 + self.chance.below(3), <[Kind]>::len);
        let (mut items, mut kinds) = (Vec::new(), Vec::new());
        if self.chance.one_in(3) && wanted.is_none() {
            // With groups: some keys, and some aggregates.
            let mut keys = Vec::new();
            for _ in 0..self.chance.below(3) {
                let kind = self.kind();
                let key = self.value(&scope, kind, 1);
                let by_column = key.contains(|c: char| c.is_alphabetic()) && !key.starts_with('\'');
                if !by_column {
                    continue;
                }
                let is_alias = self.chance.one_in(3);
                keys.push(if is_alias { format!("{}{}", self.prefix(), items.len()) } else { key.clone() });
                // A key need not be selected.
                if is_alias || !self.chance.one_in(4) {
                    items.push(key);
                    kinds.push(kind);
                }
            }
            for _ in 0..1 + self.chance.below(2) {
                let (call, kind) = self.aggregate(&scope);
                items.push(call);
                kinds.push(kind);
            }
            let mut having = String::new();
            if self.chance.one_in(4) && !keys.is_empty() {
                let (call, kind) = self.aggregate(&scope);
                having = format!(" HAVING {call} {} {}", self.chance.pick(&["<", ">", "="]), self.literal(kind));
            }
            let group = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
            return (format!("SELECT {} FROM {from}{filter}{group}{having}", listed(&items, self.prefix())), kinds);
        }
        for at in 0..count {
            let kind = wanted.map_or_else(|| self.kind(), |wanted| wanted[at]);
            if self.depth < 2 && wanted.is_none() && self.chance.one_in(10) {
                self.depth += 1;
                let outer = std::mem::replace(&mut self.outer, scope.clone());
                let (kind, subquery) = self.scalar();
                self.outer = outer;
                self.depth -= 1;
                items.push(subquery);
                kinds.push(kind);
                continue;
            }
            if wanted.is_none() && self.chance.one_in(8) {
                items.push(self.condition(&scope, 2, true));
                kinds.push(Kind::Int);
                continue;
            }
            items.push(self.value(&scope, kind, 2));
            kinds.push(kind);
        }
        let distinct = if self.chance.one_in(4) { "DISTINCT " } else { "" };
        (format!("SELECT {distinct}{} FROM {from}{filter}", listed(&items, self.prefix())), kinds)
    }

    /// A query without conditions as columns, as these are of a type of their own here.
    fn query(&mut self) -> (String, Vec<Kind>) {
        let kinds: Vec<Kind> = (0..1 + self.chance.below(2)).map(|_| self.kind()).collect();
        if self.chance.one_in(4) {
            let (a, b) = (self.select(Some(&kinds)).0, self.select(Some(&kinds)).0);
            let op = self.chance.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            return (format!("{a} {op} {b}"), kinds);
        }
        (self.select(Some(&kinds)).0, kinds)
    }

    /// A whole statement, and whether its rows come in an order.
    fn statement(&mut self) -> (String, bool) {
        let (query, kinds) = match self.chance.below(4) {
            0 => self.query(),
            _ => self.select(None),
        };
        let mut text = query;
        if self.chance.one_in(5) {
            let name = self.name("w");
            let alias = self.name("r");
            let all: Vec<String> = (0..kinds.len()).map(|at| format!("{alias}.k{at} AS k{at}")).collect();
            text = format!("WITH {name} AS ({text}) SELECT {} FROM {name} AS {alias}", all.join(", "));
        }
        if self.chance.one_in(2) {
            return (text, false);
        }
        // By all columns, so the order is that of SQLite.
        let mut places: Vec<usize> = (0..kinds.len()).collect();
        for at in (1..places.len()).rev() {
            places.swap(at, self.chance.below(at + 1));
        }
        let by: Vec<String> = places
            .iter()
            .map(|at| {
                let way =
                    self.chance.pick(&["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"]);
                let key = if self.chance.one_in(2) { format!("k{at}") } else { (at + 1).to_string() };
                format!("{key} {way}")
            })
            .collect();
        text = format!("{text} ORDER BY {}", by.join(", "));
        if self.chance.one_in(2) {
            text = format!("{text} LIMIT {}", self.chance.below(6));
            if self.chance.one_in(2) {
                text = format!("{text} OFFSET {}", self.chance.below(4));
            }
        }
        (text, true)
    }
}

fn listed(items: &[String], prefix: &str) -> String {
    items.iter().enumerate().map(|(at, item)| format!("{item} AS {prefix}{at}")).collect::<Vec<_>>().join(", ")
}

/// Equal tables for both.
fn tables(chance: &mut Chance) -> (Tables, Connection) {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("PRAGMA case_sensitive_like = ON").unwrap();
    let mut tables = Tables::default();
    for (name, columns) in TABLES {
        let kinds: Vec<(&str, SqlType)> = columns
            .iter()
            .map(|(name, kind)| {
                (
                    *name,
                    match kind {
                        Kind::Int => SqlType::BigInt,
                        Kind::Double => SqlType::Double,
                        Kind::Text => SqlType::Varchar,
                    },
                )
            })
            .collect();
        let declared: Vec<String> = kinds.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        connection.execute_batch(&format!("CREATE TABLE {name} ({})", declared.join(", "))).unwrap();
        let most = chance.pick(&[0, 2, 5, 6, 8, 9, 11, 14]);
        let mut rows = Vec::new();
        for _ in 0..most {
            let value = |(_, kind): &(&str, Kind)| {
                if chance.one_in(5) {
                    return Value::Null;
                }
                match kind {
                    Kind::Int => Value::BigInt(chance.below(6) as i64 - 1),
                    Kind::Double => Value::Double((chance.below(8) as f64 - 2.0) / 2.0),
                    Kind::Text => Value::Varchar(Arc::from(chance.pick(&["", "a", "b", "ab", "ba", "B", "é"]))),
                }
            };
            let row: Vec<Value> = columns.iter().map(value).collect();
            let texts: Vec<String> = row.iter().map(Value::to_string).collect();
            connection.execute_batch(&format!("INSERT INTO {name} VALUES ({})", texts.join(", "))).unwrap();
            rows.push(row);
        }
        tables.add(name, Arc::new(table(&kinds, &rows, 1 + chance.below(5))));
    }
    (tables, connection)
}

/// A value as both can have it: truth values are numbers.
#[derive(Clone, Debug, PartialEq)]
enum Common {
    Null,
    Number(f64),
    Text(String),
}

fn common(value: &Value) -> Common {
    match value {
        Value::Null => Common::Null,
        Value::Boolean(value) => Common::Number(f64::from(u8::from(*value))),
        Value::BigInt(value) => Common::Number(*value as f64),
        Value::Double(value) => Common::Number(*value),
        Value::Varchar(text) => Common::Text(text.to_string()),
        other => panic!("{other}"),
    }
}

fn of_sqlite(connection: &Connection, text: &str) -> Result<Vec<Vec<Common>>, rusqlite::Error> {
    let mut statement = connection.prepare(text)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |place| {
            Ok(match row.get_ref(place)? {
                ValueRef::Null => Common::Null,
                ValueRef::Integer(value) => Common::Number(value as f64),
                ValueRef::Real(value) => Common::Number(value),
                ValueRef::Text(text) => Common::Text(String::from_utf8(text.to_vec()).expect("UTF-8")),
                ValueRef::Blob(_) => unreachable!("there are none"),
            })
        };
        all.push((0..width).map(value).collect::<Result<Vec<_>, rusqlite::Error>>()?);
    }
    Ok(all)
}

fn is_same(a: &[Vec<Common>], b: &[Vec<Common>]) -> bool {
    let value = |(a, b): (&Common, &Common)| match (a, b) {
        (Common::Number(a), Common::Number(b)) => a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0),
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(value))
}

fn sort(rows: &mut [Vec<Common>]) {
    let key = |row: &Vec<Common>| {
        let text = |value: &Common| match value {
            Common::Null => String::new(),
            // -0 is 0, and the last bits of an average may differ.
            Common::Number(number) => format!("n{:030.6}", number + 1e6 + 0.0),
            Common::Text(text) => format!("t{text}"),
        };
        row.iter().map(text).collect::<Vec<_>>()
    };
    rows.sort_by_cached_key(key);
}

fn ways(chance: &mut Chance) -> PlanOptions {
    PlanOptions {
        envelope_rows: chance.pick(&[1, 2, 3, 7, 2048]),
        via_envelopes: chance.pick(&[1, 2, 8]),
        threads: chance.pick(&[1, 1, 2, 3, 5]),
        parallel_rows: chance.pick(&[1, 4, 1 << 16]),
        sinks: chance.pick(&[1, 3]),
        optimise: !chance.one_in(4),
        hash_seed: chance.below(1000) as u64,
        ..PlanOptions::default()
    }
}

fn check(seed: u64) -> Result<usize, String> {
    let mut maker = Maker { chance: Chance(seed), names: 0, outer: Vec::new(), depth: 0 };
    (0..20).for_each(|_| {
        maker.chance.below(2);
    });
    let (tables, connection) = tables(&mut maker.chance);
    let (text, is_ordered) = maker.statement();
    let expected = of_sqlite(&connection, &text);
    let mut expected = expected.map_err(|error| format!("seed {seed}: SQLite: {error}\n{text}"))?;
    if !is_ordered {
        sort(&mut expected);
    }
    for run in 0..3 {
        let options = if run == 0 { PlanOptions::default() } else { ways(&mut maker.chance) };
        let found = answer(&text, &tables, &options, seed + run);
        let found = found.map_err(|error| format!("seed {seed}, run {run}: {error}\n{text}\n{options:?}"))?;
        let mut found: Vec<Vec<Common>> = found.iter().map(|row| row.iter().map(common).collect()).collect();
        if !is_ordered {
            sort(&mut found);
        }
        if !is_same(&expected, &found) {
            return Err(format!(
                "seed {seed}, run {run}: SQLite has {expected:?},\nand we have {found:?}\n{text}\n{options:?}"
            ));
        }
    }
    Ok(expected.len())
}

#[test]
fn random_statements_have_the_answers_of_sqlite() {
    let few = if cfg!(debug_assertions) { 1500 } else { 10_000 };
    let count: u64 = option_env!("VICUS_SQL_COUNT").and_then(|count| count.parse().ok()).unwrap_or(few);
    let from: u64 = option_env!("VICUS_SQL_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seeds {from} to {}", from + count - 1);
    let (mut rows, mut empty, mut wrong) = (0, 0, Vec::new());
    for seed in from..from + count {
        match check(seed) {
            Ok(found) => {
                rows += found;
                empty += usize::from(found == 0);
            }
            Err(error) => wrong.push(error),
        }
    }
    println!("{rows} rows, {empty} answers without any");
    assert!(wrong.is_empty(), "{} of {count} differ:\n\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n\n"));
    assert!(empty < count as usize / 2, "most answers have rows");
}
