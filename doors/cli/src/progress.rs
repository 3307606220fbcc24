//! The look of lines on a terminal that say how far work is.

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

/// Less than this part says too little about the rest: the first bytes may wait for the disk.
const KNOWN_FROM: f32 = 0.02;
/// A shorter rest is no news.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// A style. In the template, `{left}` is `, 12s left` where the rest of the time can be guessed, and else nothing.
pub(crate) fn style(template: &str) -> ProgressStyle {
    let left = |state: &ProgressState, text: &mut dyn Write| {
        if let Some(left) = guess(state.fraction(), state.eta()) {
            // The line is drawn without it otherwise.
            let _ = write!(text, ", {:#} left", HumanDuration(left));
        }
    };
    ProgressStyle::with_template(template).expect("the template is well-formed").with_key("left", left)
}

/// The time left, if it is worth saying.
fn guess(done: f32, left: Duration) -> Option<Duration> {
    ((KNOWN_FROM..1.0).contains(&done) && left >= WORTH_SAYING).then_some(left)
}

/// A line on a terminal's standard error for work without a known end, once it lasts a second.
pub(crate) struct RunningLine {
    began: Instant,
    bar: Option<ProgressBar>,
    is_shown: bool,
}

impl RunningLine {
    /// Shorter work shows nothing.
    pub(crate) const SHOWN_AFTER: Duration = Duration::from_secs(1);

    /// `is_shown`: unless the terminal shows the work's rows already.
    pub(crate) fn new(is_shown: bool) -> RunningLine {
        RunningLine { began: Instant::now(), bar: None, is_shown: is_shown && io::stderr().is_terminal() }
    }

    /// Whether there will be a line if the work goes on.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Draws the line, if it is time.
    pub(crate) fn tell(&mut self, how_far: impl FnOnce() -> String) {
        if !self.is_shown || self.began.elapsed() < RunningLine::SHOWN_AFTER {
            return;
        }
        let began = self.began;
        let line = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner} {elapsed}: {msg}; Ctrl-C ends it");
            let line = ProgressBar::new_spinner().with_style(style.expect("the template is well-formed"));
            line.set_elapsed(began.elapsed());
            line
        });
        line.set_message(how_far());
        line.tick();
    }
}

impl Drop for RunningLine {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_said_when_it_is_known() {
        let minute = Duration::from_secs(60);
        assert_eq!(guess(0.3, minute), Some(minute));
        assert_eq!(guess(0.001, minute), None, "a few bytes of many tell nothing");
        assert_eq!(guess(1.0, minute), None, "all was read, and its work goes on");
        assert_eq!(guess(0.9, Duration::from_millis(20)), None);
    }
}
