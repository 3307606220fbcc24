//! Requests under every strategy: the user's view of them.

mod faults;
mod here;

use std::time::Duration;
use vicus::{BoxModel, FlowError, Request, STRATEGIES, Schema, Totals, Turn, Type};

/// Every strategy, and some with few tasks in a queue.
fn strategies() -> impl Iterator<Item = String> {
    let small = ["central:capacity=1", "locality-queues:capacity=1", "las:pin=pu"];
    STRATEGIES.iter().map(|strategy| strategy.name()).chain(small).map(str::to_owned)
}

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Waits, with a limit that only a mistake of the runtime can exceed.
fn wait(request: &Request, what: &str) -> Result<Totals, FlowError> {
    request.wait_for(Duration::from_secs(60)).unwrap_or_else(|| panic!("{what}: a request never ended"))
}

/// A source of numbers with this code.
fn source<F>(name: &'static str, act: F) -> BoxModel
where
    F: FnMut(&mut Turn<'_>) + Clone + Send + Sync + 'static,
{
    let factory = move || {
        let mut act = act.clone();
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            act(turn);
            Ok(())
        }
    };
    BoxModel::new(name, factory).output(&numbers())
}
