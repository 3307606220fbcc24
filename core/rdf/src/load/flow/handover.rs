//! Hands over values other than columns between boxes: terms, triples, runs. An envelope carries only the value's
//! *handle*.
//!
//! This is indirect storage (Bobox report 2011/1, §4.2), and the only form here that copies nothing: a hash table or a
//! list of ranges has no columnar form, and sorted terms are read by several boxes at once. We differ in using a handle
//! once: the box taking a value owns it, so its memory is freed as soon as it is consumed. The values belong to one
//! request and to both ends of a via; they would have to be serialized if the ends didn't share memory.

use std::sync::{Arc, Mutex};
use vicus_flow::{BoxError, BoxModel, Envelope, NoMemory, Schema, Turn, Type};

/// Values of one type on their way between boxes. A clone refers to the same values.
pub(super) struct Handover<T>(Arc<Mutex<Vec<Option<T>>>>);

impl<T> Handover<T> {
    pub(super) fn new() -> Handover<T> {
        Handover(Arc::default())
    }

    /// Stores a value; returns the envelope with its handle.
    pub(super) fn put(&self, value: T) -> Envelope {
        let mut handover = self.0.lock().expect("nothing panics under this lock");
        // There are few values at a time, so a search is fast enough.
        let free = handover.iter().position(Option::is_none);
        let handle = free.unwrap_or_else(|| {
            handover.push(None);
            handover.len() - 1
        });
        handover[handle] = Some(value);
        Envelope::new([vec![handle as u64].into()])
    }

    /// The value of an envelope's handle. Panics if it was taken before.
    pub(super) fn take(&self, envelope: &Envelope) -> T {
        let handle = envelope.column(0).u64s()[0] as usize;
        let value = self.0.lock().expect("nothing panics under this lock")[handle].take();
        value.expect("a handle is used once")
    }
}

impl<T> Clone for Handover<T> {
    fn clone(&self) -> Handover<T> {
        Handover(Arc::clone(&self.0))
    }
}

/// The schema of an envelope with a handle.
pub(super) fn handle() -> Schema {
    Schema::new([("handle", Type::U64)])
}

/// A box to make one value from each value: one of several boxes in parallel. `work` returns `None` if it finds a
/// cancelled request.
pub(super) fn each<I: Send + 'static, O: Send + 'static>(
    name: &'static str,
    from: &Handover<I>,
    to: &Handover<O>,
    work: impl Fn(I, &Turn<'_>) -> Result<Option<O>, NoMemory> + Clone + Send + Sync + 'static,
) -> BoxModel {
    let (from, to) = (from.clone(), to.clone());
    let factory = move || {
        let (from, to, work) = (from.clone(), to.clone(), work.clone());
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

/// A box that waits for the pills of all its inputs, then works once, on all envelopes, by input.
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
                // Work only once: after the pills were sent, only a late activation can invoke this box again.
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
        let handover = Handover::new();
        let (a, b) = (handover.put("a"), handover.put("b"));
        assert_eq!((handover.take(&b), handover.take(&a)), ("b", "a"));
        let c = handover.put("c");
        assert_eq!(c.column(0).u64s(), a.column(0).u64s());
        assert_eq!(handover.take(&c), "c");
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handover.take(&c)));
        assert!(again.is_err());
    }
}
