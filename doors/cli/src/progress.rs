//! The look of lines on a terminal that say how far work is.

use indicatif::{HumanDuration, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

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
