//! The output of `vicus learn`.

use super::parts::{Part, Tried};
use super::{Findings, SEEDS, TaskType, TypeAdvice};
use std::fmt::Write as _;
use std::path::Path;
use vicus::kit::Treatment;

const FITS: &str = "a string takes everything";

impl Findings {
    /// All tables; `best` is the chosen prediction.
    pub(super) fn table(&self, best: usize, file: Option<&Path>) -> String {
        let Findings { machine, threads, first_seed, of_distributions, .. } = self;
        let s = if *threads == 1 { "" } else { "s" };
        let mut text =
            format!("{machine}, {threads} thread{s}; predicted, the median of {SEEDS} seeds from {first_seed} on\n\n");
        let chosen = &self.predicted[best];
        match &chosen.distribution {
            None => {
                self.strategies(&mut text);
                writeln!(text, "\nno distribution is advised: {of_distributions}").expect(FITS);
            }
            Some(_) => {
                self.strategies_and_distributions(best, &mut text);
                writeln!(text, "\n{of_distributions}").expect(FITS);
                text += "standard: pages lie where they are touched first; what tasks read first, the first thread has \
                         touched\n";
                self.by_type(&mut text);
                self.by_part(best, &mut text);
            }
        }
        self.recorded(&mut text);
        write!(text, "\nlearned: {}", chosen.strategy).expect(FITS);
        if let Some(distribution) = &chosen.distribution {
            write!(text, ", distribution {distribution}").expect(FITS);
        }
        text += "\n";
        for (name, treatment) in self.parts.tasks.iter().filter(|(_, treatment)| **treatment != Treatment::Dealt) {
            writeln!(text, "learned: tasks of {name} {}", treatment.name()).expect(FITS);
        }
        for (bytes, how) in &self.parts.blocks {
            writeln!(text, "learned: blocks of {bytes} bytes {how}").expect(FITS);
        }
        if let (Some(distribution), true) = (&chosen.distribution, self.parts.blocks.is_empty()) {
            let others: Vec<&str> =
                self.types.iter().filter(|one| one.best != *distribution).map(|one| &one.name[..]).collect();
            if !others.is_empty() {
                let all = others.join(", ");
                writeln!(
                    text,
                    "a program has one strategy, and one distribution for blocks of one size \
                     (VICUS_DATA_DISTRIBUTION_OF); another one is better for the work of {all}"
                )
                .expect(FITS);
            }
        }
        if let Some(file) = file {
            writeln!(text, "for runs of the program: VICUS_LEARNED={}", file.display()).expect(FITS);
        }
        text
    }

    /// A line for each strategy, with its time for each trace.
    fn strategies(&self, text: &mut String) {
        let first = self.strategy_width();
        write!(text, "{:first$} {:>7}", "strategy", "ratio").expect(FITS);
        for trace in &self.traces {
            write!(text, "  {trace:>12} ms").expect(FITS);
        }
        *text += "\n";
        for one in &self.predicted {
            write!(text, "{:first$} {:>7.3}", one.strategy, one.ratio).expect(FITS);
            for (ms, trace) in one.ms.iter().zip(&self.traces) {
                write!(text, "  {ms:>width$.3}", width = trace.len().max(12) + 3).expect(FITS);
            }
            *text += "\n";
        }
    }

    /// A line for each strategy and a column for each distribution.
    fn strategies_and_distributions(&self, best: usize, text: &mut String) {
        let columns = self.distributions();
        let rows = self.predicted.len() / columns.len();
        let (first, width) = (self.strategy_width(), columns.iter().map(|name| name.len()).max().unwrap_or(0).max(12));
        let what = match &self.traces[..] {
            [trace] => format!("{trace}, ms"),
            traces => format!("{} traces, the geometric mean of their ms", traces.len()),
        };
        writeln!(text, "{what}; *: the choice").expect(FITS);
        write!(text, "{:first$}", "strategy").expect(FITS);
        columns.iter().for_each(|name| write!(text, " {name:>width$} ").expect(FITS));
        *text += "\n";
        for row in 0..rows {
            write!(text, "{:first$}", self.predicted[row].strategy).expect(FITS);
            for column in 0..columns.len() {
                let at = column * rows + row;
                let ms = &self.predicted[at].ms;
                let mean = (ms.iter().map(|ms| ms.ln()).sum::<f64>() / ms.len() as f64).exp();
                write!(text, " {mean:>width$.3}{}", if at == best { "*" } else { " " }).expect(FITS);
            }
            *text += "\n";
        }
    }

    /// The gain and loss of each type of tasks with each distribution.
    fn by_type(&self, text: &mut String) {
        let columns = self.distributions();
        let first = self.types.iter().map(|one| one.name.len()).max().unwrap_or(0).max("task".len());
        let width = columns.iter().map(|name| name.len()).max().unwrap_or(0).max(23);
        *text += "\nby type of task, under the best strategy with each distribution: ms of work, its ratio to the \
                  first column, near bytes\n";
        write!(text, "{:first$} {:>8} {:>14}", "task", "tasks", "bytes").expect(FITS);
        columns.iter().for_each(|name| write!(text, " {name:>width$} ").expect(FITS));
        *text += "\n";
        for TypeAdvice { name, tasks, best, with } in &self.types {
            let bytes = with.iter().map(|with| with.bytes).fold(0.0, f64::max);
            write!(text, "{name:first$} {tasks:>8} {bytes:>14.0}").expect(FITS);
            for one in with {
                let ratio = one.busy_ms / with[0].busy_ms;
                let cell = format!("{:.3} {ratio:.2} {:>3.0} %", one.busy_ms, one.near_share * 100.0);
                write!(text, " {cell:>width$}{}", if one.distribution == *best { "*" } else { " " }).expect(FITS);
            }
            *text += "\n";
        }
    }

    /// The cost of other treatments of single types of tasks, and of other distributions of single blocks.
    fn by_part(&self, best: usize, text: &mut String) {
        if self.parts.tried.is_empty() {
            return;
        }
        let name = |tried: &Tried| match &tried.part {
            Part::Tasks(name) => format!("tasks of {name}"),
            Part::Blocks(bytes) => format!("blocks of {bytes} bytes"),
        };
        let mean = |ms: &[f64]| (ms.iter().map(|ms| ms.ln()).sum::<f64>() / ms.len() as f64).exp();
        let first = self.parts.tried.iter().map(|tried| name(tried).len()).max().unwrap_or(0).max("all".len());
        let width = self.parts.tried.iter().map(|tried| tried.how.len()).max().unwrap_or(0).max("as chosen".len());
        *text += "\nwhat one part otherwise would cost, ms of the program; *: chosen\n";
        let mut line = |part: &str, how: &str, ms: f64, ratio: f64, mark: &str| {
            writeln!(text, "{part:first$} {how:width$} {ms:>12.3} {ratio:>7.3}{mark}").expect(FITS);
        };
        let as_chosen = mean(&self.predicted[best].ms);
        line("all", "as chosen", as_chosen, 1.0, "");
        for tried in &self.parts.tried {
            line(&name(tried), &tried.how, mean(&tried.ms), tried.ratio, if tried.chosen { "*" } else { "" });
        }
        if !self.parts.ms.is_empty() {
            let all = mean(&self.parts.ms);
            line("all", "with these", all, all / as_chosen, "");
        }
    }

    /// The traces' own figures of each type.
    fn recorded(&self, text: &mut String) {
        let first = self.tasks.iter().map(|task| task.name.len()).max().unwrap_or(0).max("recorded".len());
        let titles = ["invocations", "busy ms", "queued ms", "near bytes", "far bytes"];
        write!(text, "\n{:first$}", "recorded").expect(FITS);
        titles.iter().for_each(|title| write!(text, " {title:>14}").expect(FITS));
        *text += "\n";
        for TaskType { name, invocations, busy_ms, queued_ms, near_bytes, far_bytes } in &self.tasks {
            let row = format!(
                "{name:first$} {invocations:>14} {busy_ms:>14.3} {queued_ms:>14.3} {near_bytes:>14} {far_bytes:>14}"
            );
            writeln!(text, "{row}").expect(FITS);
        }
    }

    fn strategy_width(&self) -> usize {
        self.predicted.iter().map(|one| one.strategy.len()).fold("strategy".len(), usize::max)
    }

    /// The distributions tried, in their order.
    fn distributions(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.predicted.iter().filter_map(|one| one.distribution.as_deref()).collect();
        all.dedup();
        all
    }
}
