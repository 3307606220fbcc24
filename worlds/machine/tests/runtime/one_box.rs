//! A network of one box, for tests of children of the box's code.

use std::sync::Arc;
use vicus_flow::{BoxModel, Model, ModelBuilder, OverBudget, Schema, Turn};

/// A network of one box with this code.
pub(crate) fn one_box(act: impl Fn() + Clone + Send + Sync + 'static) -> Arc<Model> {
    one_box_that(move |_| {
        act();
        Ok(())
    })
}

/// Like [`one_box`], for code that books memory.
pub(crate) fn one_box_that(
    act: impl Fn(&mut Turn<'_>) -> Result<(), OverBudget> + Clone + Send + Sync + 'static,
) -> Arc<Model> {
    let schema = Schema::new::<&str>([]);
    let mut net = ModelBuilder::new("one box");
    let parent = move || {
        let act = act.clone();
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            act(turn)?;
            turn.send_pill(0);
            Ok(())
        }
    };
    let parent = net.source(BoxModel::new("parent", parent).output(&schema));
    net.end(parent.output(0));
    net.build().unwrap()
}
