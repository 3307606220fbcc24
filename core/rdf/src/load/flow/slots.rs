//! Where boxes leave what is not a column: terms, triples, runs. An envelope then carries only its *handle*.
//!
//! That is indirect storage (Bobox report 2011/1, §4.2), and here the only one that copies nothing: a hash table or a
//! list of ranges has no columnar form, and sorted terms are read by several boxes at once. We differ in that a handle
//! is used once: whoever takes a value owns it, so that memory goes as soon as it has been consumed. Slots belong to
//! one request and to both ends of a via; they would have to be serialized where the ends don't share memory.

use std::sync::{Arc, Mutex};
use vicus_flow::{BoxError, BoxModel, Envelope, NoMemory, Schema, Turn, Type};

/// Values of one type on their way between boxes. Cloning shares them.
pub(super) struct Slots<T>(Arc<Mutex<Vec<Option<T>>>>);

impl<T> Slots<T> {
    pub(super) fn new() -> Slots<T> {
        Slots(Arc::default())
    }

    /// Keeps a value, and makes the envelope that says where.
    pub(super) fn put(&self, value: T) -> Envelope {
        let mut slots = self.0.lock().expect("nothing panics under this lock");
        // There are few at a time.
        let free = slots.iter().position(Option::is_none);
        let handle = free.unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[handle] = Some(value);
        Envelope::new([vec![handle as u64].into()])
    }

    /// The value that an envelope stands for. Panics if it was taken before.
    pub(super) fn take(&self, envelope: &Envelope) -> T {
        let handle = envelope.column(0).u64s()[0] as usize;
        let value = self.0.lock().expect("nothing panics under this lock")[handle].take();
        value.expect("a handle is used once")
    }
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Slots<T> {
        Slots(Arc::clone(&self.0))
    }
}

/// What an envelope with a handle looks like.
pub(super) fn handle() -> Schema {
    Schema::new([("handle", Type::U64)])
}

/// A box that makes one value of each value: one of several that work side by side. Work that sees that the request
/// has been stopped returns nothing.
pub(super) fn each<I: Send + 'static, O: Send + 'static>(
    name: &'static str,
    from: &Slots<I>,
    to: &Slots<O>,
    work: fn(I, &Turn<'_>) -> Result<Option<O>, NoMemory>,
) -> BoxModel {
    let (from, to) = (from.clone(), to.clone());
    let factory = move || {
        let (from, to) = (from.clone(), to.clone());
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => {
                    if let Some(made) = work(from.take(&envelope), turn)? {
                        turn.send(0, to.put(made));
                    }
                }
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new(name, factory).input(&handle()).output(&handle())
}

/// A box that waits for the pills of all its inputs, then works once, on all that came, by input.
pub(super) fn gather(
    name: &'static str,
    inputs: usize,
    outputs: usize,
    work: impl Fn(Vec<Vec<Envelope>>, &mut Turn<'_>) -> Result<(), NoMemory> + Clone + Send + Sync + 'static,
) -> BoxModel {
    let factory = move || {
        let work = work.clone();
        let (mut came, mut pills) = (vec![Vec::new(); inputs], 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            for (input, came) in came.iter_mut().enumerate() {
                match turn.take(input) {
                    Some(pill) if pill.is_pill() => pills += 1,
                    Some(envelope) => came.push(envelope),
                    None => {}
                }
            }
            if pills == inputs {
                // Not twice: with the pills sent, nothing invokes this box again but an activation that came late.
                pills = 0;
                work(std::mem::take(&mut came), turn)?;
                turn.send_pills();
            }
            Ok(())
        }
    };
    let mut model = BoxModel::new(name, factory);
    for _ in 0..inputs {
        model = model.input(&handle());
    }
    for _ in 0..outputs {
        model = model.output(&handle());
    }
    model
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_leads_to_its_value_once_and_is_given_again() {
        let slots = Slots::new();
        let (a, b) = (slots.put("a"), slots.put("b"));
        assert_eq!((slots.take(&b), slots.take(&a)), ("b", "a"));
        let c = slots.put("c");
        assert_eq!(c.column(0).u64s(), a.column(0).u64s());
        assert_eq!(slots.take(&c), "c");
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slots.take(&c)));
        assert!(again.is_err());
    }
}
