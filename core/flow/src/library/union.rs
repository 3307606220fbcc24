//! Several streams as one, in whatever order they come.

use crate::{BoxError, BoxModel, Operator, Schema, Turn};

/// Passes on what comes on any of so many inputs. It never waits for one of them while another has something, so it may
/// close any diamond.
pub fn union(schema: &Schema, inputs: usize) -> BoxModel {
    let model = BoxModel::new("union", move || Union { open: inputs });
    (0..inputs).fold(model, |model, _| model.input(schema)).output(schema)
}

struct Union {
    /// How many inputs have not seen their pill.
    open: usize,
}

impl Operator for Union {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for input in 0..turn.inputs() {
            match turn.take(input) {
                Some(pill) if pill.is_pill() => self.open -= 1,
                Some(envelope) => turn.send(0, envelope),
                None => continue,
            }
            if self.open == 0 {
                turn.send_pill(0);
            }
        }
        Ok(())
    }
}
