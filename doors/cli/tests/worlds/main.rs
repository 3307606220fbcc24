//! Both worlds decide alike, about tasks and about boxes.

mod boxes;
mod replays;
mod tasks;

use std::sync::mpsc;
use vicus::Runtime;

/// Keeps the only seat of a runtime busy while `submit` hands it requests: it finds all of them when it looks next.
///
/// The task that keeps it has begun before the first of them comes. A queue with requests in turn counts the ones
/// present when a round begins, and this task's round would otherwise have some of them.
fn while_the_seat_is_busy<T>(runtime: &Runtime, submit: impl FnOnce() -> T) -> T {
    let ((begins, begun), (sender, receiver)) = (mpsc::channel(), mpsc::channel());
    let before = runtime.spawn(move || {
        begins.send(()).unwrap();
        receiver.recv().unwrap()
    });
    begun.recv().unwrap();
    let submitted = submit();
    sender.send(()).unwrap();
    before.wait().unwrap();
    submitted
}
