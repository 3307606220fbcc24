//! The decisions of the two ends of a crossing, as values: doors/nodes carries them out over connections, and
//! worlds/sim over simulated links.
//!
//! The receiver grants so many bytes. The sender counts down what it sends and waits at zero, so at least one envelope
//! is on its way; the receiver gives back what its box has taken on.

/// The step that a sender is to take for the envelope at the head of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStep {
    /// The envelope is sent.
    Send,
    /// Nothing yet: a grant is waited for, or the receiver's end.
    Wait,
    /// The receiver takes no more: the sender closes its input.
    Close,
    /// The receiver is lost: the sender's box fails.
    Fail,
}

/// The sender's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendPort {
    /// The bytes that may be sent; below zero after an envelope that was larger than the rest.
    left: i64,
    is_closed: bool,
    has_ended: bool,
    is_lost: bool,
}

impl SendPort {
    /// The step for the next envelope. The end of the stream needs no grant.
    pub fn step(&self, is_pill: bool) -> SendStep {
        match () {
            () if self.is_lost => SendStep::Fail,
            () if self.is_closed => SendStep::Close,
            () if is_pill || self.left > 0 => SendStep::Send,
            () => SendStep::Wait,
        }
    }

    /// An envelope of so many bytes was sent.
    pub fn sent(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// The end of the stream was sent.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// The receiver grants so many bytes more. A sender that is granted more than there is memory anywhere just sends.
    pub fn grant(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// The receiver takes no more.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// The receiver's process is lost.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Whether nothing more is wanted of the sender: its receiver takes no more, or has all.
    pub fn is_over(&self) -> bool {
        self.is_closed || self.has_ended
    }
}

/// The receiver's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivePort {
    /// The bytes that it grants at first, and then again and again.
    window: u64,
    /// The bytes that have come and were not taken.
    bytes: u64,
    /// The bytes that were taken, to be granted together.
    taken: u64,
    is_closed: bool,
}

impl ReceivePort {
    /// A receiver that grants so many bytes at first.
    pub fn new(window: u64) -> ReceivePort {
        ReceivePort { window, bytes: 0, taken: 0, is_closed: false }
    }

    /// An envelope of so many bytes has come. Whether it is kept for the box.
    pub fn came(&mut self, bytes: u64) -> bool {
        self.bytes += if self.is_closed { 0 } else { bytes };
        !self.is_closed
    }

    /// The box has taken an envelope on; `is_empty` says whether none is left. Gives the bytes to be granted: each
    /// grant is a frame, so small ones wait, unless nothing else is there.
    pub fn took(&mut self, bytes: u64, is_empty: bool) -> Option<u64> {
        self.bytes -= bytes;
        self.taken += bytes;
        let is_due = self.taken > 0 && (is_empty || self.taken >= self.window / 4);
        is_due.then(|| std::mem::take(&mut self.taken))
    }

    /// The bytes that wait for the box.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The stream has ended, or the box takes no more. Whether the sender is yet to be told.
    pub fn close(&mut self) -> bool {
        self.bytes = 0;
        !std::mem::replace(&mut self.is_closed, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A sender that may send sends until it may not, a receiver takes one after the other: never more than the window
    /// and one envelope are on their way, and never none while some are left.
    #[test]
    fn what_is_on_its_way_is_bounded_and_goes_on() {
        for (window, sizes) in [(10u64, vec![3u64; 20]), (10, vec![25; 5]), (1, vec![1, 9, 1, 4]), (64, vec![0, 0, 7])]
        {
            let (mut sender, mut receiver) = (SendPort::default(), ReceivePort::new(window));
            assert_eq!(sender.step(false), SendStep::Wait);
            sender.grant(window);
            let (mut left, mut way) = (VecDeque::from(sizes.clone()), VecDeque::new());
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let mut arrived = 0;
            while arrived < sizes.len() {
                while sender.step(false) == SendStep::Send
                    && let Some(next) = left.pop_front()
                {
                    sender.sent(next);
                    assert!(receiver.came(next));
                    way.push_back(next);
                    assert_eq!(receiver.bytes(), way.iter().sum::<u64>());
                    assert!(receiver.bytes() < window + largest.max(1));
                }
                let next = way.pop_front().expect("something is on its way");
                arrived += 1;
                if let Some(more) = receiver.took(next, way.is_empty()) {
                    sender.grant(more);
                }
            }
        }
    }

    #[test]
    fn ends_are_told_once_and_losses_come_first() {
        let mut receiver = ReceivePort::new(8);
        assert!(receiver.came(5) && receiver.close() && !receiver.close());
        assert!(!receiver.came(5));
        assert_eq!(receiver.bytes(), 0);
        let mut sender = SendPort::default();
        assert_eq!(sender.step(true), SendStep::Send);
        assert!(!sender.is_over());
        sender.close();
        assert!(sender.is_over());
        assert_eq!((sender.step(false), sender.step(true)), (SendStep::Close, SendStep::Close));
        sender.lose();
        assert_eq!(sender.step(false), SendStep::Fail);
    }
}
