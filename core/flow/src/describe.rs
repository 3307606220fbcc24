//! A model as a table: a line for each box, with its input vias and, after a run, its counts.

use crate::model::ConnectedBox;
use crate::{Bound, BoxCounts, Model, OutputId};
use std::fmt;

impl Model {
    /// The boxes, a line each: number, name, and for each input its output, as `scan#2.0`, with the via's bound.
    pub fn describe(&self) -> String {
        let rows = self.boxes.iter().enumerate().map(|(index, each)| [index.to_string(), each.name().to_owned()]);
        self.table(["box", "name"], rows)
    }

    /// Like [`Model::describe`], with the work of each box in one run: invocations, rows in and out, and bytes taken
    /// near and far. Panics if the counts are of another model.
    ///
    /// ```
    /// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
    ///
    /// let schema = Schema::new([("n", Type::U64)]);
    /// let mut net = ModelBuilder::new("three numbers");
    /// let rows = || [Envelope::new([vec![1u64, 2, 3].into()])];
    /// let numbers = net.source(library::source("numbers", &schema, rows));
    /// let end = net.add(library::sink("end", &schema, |_| Ok(())));
    /// net.connect(numbers.output(0), end.input(0));
    /// net.end(end.output(0));
    /// let model = net.build().unwrap();
    ///
    /// let (_, counts) = sequential::run_counted(&model, Vec::new(), |_| Some(0));
    /// let table = model.describe_with(&counts);
    /// let line = table.lines().find(|line| line.contains("end ")).unwrap();
    /// // Two invocations, one of them for the pill; three rows of eight bytes came in.
    /// let words: Vec<&str> = line.split_whitespace().collect();
    /// assert_eq!(words, ["2", "end", "2", "3", "0", "24", "0", "<-", "numbers.0", "(8", "envelopes,", "4", "MiB)"]);
    /// ```
    pub fn describe_with(&self, counts: &[BoxCounts]) -> String {
        assert_eq!(counts.len(), self.boxes.len(), "there are counts for each box of this model");
        let rows = self.boxes.iter().zip(counts).enumerate().map(|(index, (each, counts))| {
            [
                index.to_string(),
                each.name().to_owned(),
                counts.acts.to_string(),
                counts.rows_taken().to_string(),
                counts.rows_sent().to_string(),
                counts.near_bytes().to_string(),
                counts.far_bytes().to_string(),
            ]
        });
        self.table(["box", "name", "invocations", "rows in", "rows out", "near bytes", "far bytes"], rows)
    }

    /// A line for each box after a line of headings: the cells, in columns, and the box's inputs. The second column is
    /// text, the others are numbers.
    fn table<const CELLS: usize>(
        &self,
        headings: [&str; CELLS],
        rows: impl Iterator<Item = [String; CELLS]>,
    ) -> String {
        let lines: Vec<[String; CELLS]> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
        let widths: [usize; CELLS] =
            std::array::from_fn(|cell| lines.iter().map(|line| line[cell].chars().count()).max().unwrap_or(0));
        let reads = std::iter::once("reads (at most held)".to_owned()).chain(self.boxes.iter().map(|b| self.reads(b)));
        let line = |(cells, reads): (&[String; CELLS], String)| {
            let pad = |cell: usize| match cell {
                1 => format!("{:width$}", cells[cell], width = widths[cell]),
                _ => format!("{:>width$}", cells[cell], width = widths[cell]),
            };
            let cells: Vec<String> = (0..CELLS).map(pad).collect();
            format!("{}  {reads}", cells.join("  ")).trim_end().to_owned() + "\n"
        };
        lines.iter().zip(reads).map(line).collect()
    }

    /// The outputs read by a box: `<- scan.0, scan#2.0 (8 envelopes, 4 MiB)`. Adjacent ones with equal bounds show it
    /// once.
    fn reads(&self, reader: &ConnectedBox) -> String {
        let name = |(from, _): &(OutputId, Bound)| format!("{}.{}", self.boxes[from.sender().0].name(), from.index());
        let alike = reader.inputs.chunk_by(|(_, a), (_, b)| a == b).map(|inputs| {
            let names: Vec<String> = inputs.iter().map(name).collect();
            format!("{} ({})", names.join(", "), inputs[0].1)
        });
        let all: Vec<String> = alike.collect();
        if all.is_empty() { String::new() } else { format!("<- {}", all.join(", ")) }
    }
}

/// Written as `8 envelopes, 4 MiB`.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.envelopes == 1 { "" } else { "s" };
        write!(f, "{} envelope{plural}, ", self.envelopes)?;
        match self.bytes {
            bytes if bytes > 0 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes > 0 && bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}
