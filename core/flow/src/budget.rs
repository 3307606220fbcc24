//! The memory a request may hold, by a bound of its own and by its share of a larger budget; and the memory it holds.

use crate::OverBudget;
use crate::sync::{AtomicU64, Ordering};
use std::fmt;
use std::sync::Arc;

/// A larger budget shared by several requests, as one request sees it: for example that of a process.
pub trait Grants: Send + Sync {
    /// The request's boxes and tasks are about to hold this number of bytes together. Gives how many they may hold from
    /// now on, at least as many; `None` if the budget has not enough left: then the asking box or task gets an error.
    fn raise(&self, bytes: u64) -> Option<u64>;
}

/// The bytes that the boxes and tasks of a request may hold together ([`Turn::book`](crate::Turn::book),
/// [`Account::reserve`]).
///
/// ```
/// use std::sync::Arc;
/// use vicus_flow::{Budget, Grants};
///
/// /// A whole of ten bytes that one request has for itself.
/// struct Ten;
/// impl Grants for Ten {
///     fn raise(&self, bytes: u64) -> Option<u64> {
///         (bytes <= 10).then_some(10)
///     }
/// }
/// let budget = Budget::from(1 << 20).granted_by(Arc::new(Ten));
/// assert_eq!(budget.bytes(), 1 << 20);
/// ```
#[derive(Clone)]
pub struct Budget {
    bytes: u64,
    grants: Option<Arc<dyn Grants>>,
}

impl Budget {
    /// No bound.
    pub const UNBOUNDED: Budget = Budget { bytes: u64::MAX, grants: None };

    /// Has the boxes' memory granted by a larger budget as well, before they hold it.
    pub fn granted_by(self, grants: Arc<dyn Grants>) -> Budget {
        Budget { grants: Some(grants), ..self }
    }

    /// The request's own bound.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes may be held without asking `grants`.
    fn at_first(&self) -> u64 {
        if self.grants.is_some() { 0 } else { self.bytes }
    }

    fn is_unbounded(&self) -> bool {
        self.bytes == u64::MAX && self.grants.is_none()
    }

    /// How many bytes may be held from now on, if `bytes` may be.
    fn raise(&self, bytes: u64) -> Option<u64> {
        if bytes > self.bytes {
            return None;
        }
        match &self.grants {
            Some(grants) => grants.raise(bytes).map(|granted| granted.min(self.bytes)),
            None => Some(self.bytes),
        }
    }
}

impl From<u64> for Budget {
    fn from(bytes: u64) -> Budget {
        Budget { bytes, grants: None }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The bytes held by a request, against its budget.
pub struct Account {
    budget: Budget,
    /// Bytes that may be held until the budget is asked again.
    allowed: AtomicU64,
    held: AtomicU64,
    /// The part of them reserved by tasks.
    reserved: AtomicU64,
    /// The account that books all of them as well.
    outer: Option<Arc<Account>>,
}

impl Account {
    /// Nothing is held. `None` if anything may be.
    pub fn new(budget: impl Into<Budget>) -> Option<Arc<Account>> {
        Account::within(budget, None)
    }

    /// The account of a request submitted by another request: its bytes are booked with its own budget and with the
    /// other one's account, so both bounds hold. Without a budget of its own it is that account itself.
    ///
    /// ```
    /// use vicus_flow::{Account, Budget};
    ///
    /// let outer = Account::new(1000).expect("it is bounded");
    /// let inner = Account::within(800, Some(outer.clone())).expect("it is bounded");
    /// let table = outer.reserve(300)?;
    /// assert!(inner.reserve(900).is_err(), "its own bound");
    /// assert!(inner.reserve(750).is_err(), "1050 bytes in the outer one");
    /// drop(table);
    /// assert_eq!(inner.reserve(750)?.bytes(), 750);
    /// assert!(Account::within(Budget::UNBOUNDED, Some(outer)).is_some_and(|account| account.reserve(1001).is_err()));
    /// # Ok::<(), vicus_flow::OverBudget>(())
    /// ```
    pub fn within(budget: impl Into<Budget>, outer: Option<Arc<Account>>) -> Option<Arc<Account>> {
        let budget = budget.into();
        if budget.is_unbounded() {
            return outer;
        }
        let allowed = AtomicU64::new(budget.at_first());
        Some(Arc::new(Account { budget, allowed, held: AtomicU64::new(0), reserved: AtomicU64::new(0), outer }))
    }

    /// Books `more` bytes. The error is how many may be held, and then nothing is booked.
    pub(crate) fn book(&self, more: u64) -> Result<(), u64> {
        let Some(outer) = &self.outer else { return self.book_here(more) };
        // Bytes refused by its own bound are not booked with the outer one meanwhile.
        self.allow(self.held.load(Ordering::Relaxed).saturating_add(more))?;
        outer.book(more)?;
        self.book_here(more).inspect_err(|_| outer.give_back(more))
    }

    /// Like [`Account::book`], without the outer account.
    fn book_here(&self, more: u64) -> Result<(), u64> {
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            // Booked only once it is allowed: refused bytes stand in the way of no allowed ones.
            let sum = held.saturating_add(more);
            self.allow(sum)?;
            match self.held.compare_exchange_weak(held, sum, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(changed) => held = changed,
            }
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(outer) = &self.outer {
            outer.give_back(bytes);
        }
    }

    /// Has the budget asked if `sum` bytes all in all are more than it has allowed so far.
    #[inline]
    fn allow(&self, sum: u64) -> Result<(), u64> {
        if sum > self.allowed.load(Ordering::Relaxed) { self.raise(sum) } else { Ok(()) }
    }

    /// Asks the budget for `sum` bytes all in all.
    #[cold]
    fn raise(&self, sum: u64) -> Result<(), u64> {
        if let Some(allowed) = self.budget.raise(sum) {
            self.allowed.fetch_max(allowed, Ordering::Relaxed);
            return Ok(());
        }
        // Its own bound, or as much as it was granted.
        Err(if sum > self.budget.bytes() { self.budget.bytes() } else { self.allowed.load(Ordering::Relaxed) })
    }

    /// Bytes reserved by tasks.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Books memory for a task before the task takes it.
    ///
    /// ```
    /// use vicus_flow::Account;
    ///
    /// let account = Account::new(1000).expect("it is bounded");
    /// let table = account.reserve(600)?;
    /// let refused = account.reserve(600).unwrap_err();
    /// assert_eq!(refused.to_string(), "more than 1000 bytes is needed: 600 bytes for the request");
    /// drop(table);
    /// assert_eq!(account.reserve(600)?.bytes(), 600);
    /// # Ok::<(), vicus_flow::OverBudget>(())
    /// ```
    ///
    /// # Errors
    /// The request holds more then than it may.
    pub fn reserve(self: &Arc<Account>, bytes: u64) -> Result<Reservation, OverBudget> {
        let mut reservation = Reservation { account: Some(Arc::clone(self)), bytes: 0 };
        reservation.resize(bytes)?;
        Ok(reservation)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("budget", &self.budget).field("held", &self.held).finish_non_exhaustive()
    }
}

/// Bytes booked by a task with its request, until this is dropped.
#[derive(Debug)]
#[must_use = "the bytes are booked as long as it lives"]
pub struct Reservation {
    account: Option<Arc<Account>>,
    bytes: u64,
}

impl Reservation {
    /// For a task of a request without a budget.
    pub fn unbounded(bytes: u64) -> Reservation {
        Reservation { account: None, bytes }
    }

    /// How many bytes are booked.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Books another number of bytes instead.
    ///
    /// # Errors
    /// The request holds more then than it may; the booked bytes stay booked.
    pub fn resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        if let Some(account) = &self.account {
            match bytes.checked_sub(self.bytes) {
                Some(more) => {
                    account.book(more).map_err(|budget| {
                        let held = account.held.load(Ordering::Relaxed);
                        let holders = if held > 0 { vec![("the request".to_owned(), held)] } else { Vec::new() };
                        OverBudget { budget, holders }
                    })?;
                    account.reserved.fetch_add(more, Ordering::Relaxed);
                }
                None => {
                    account.reserved.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
                    account.give_back(self.bytes - bytes);
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0).expect("less may always be held");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;

    /// Refused bytes stand in the way of no allowed ones, not even for a moment.
    #[test]
    fn loom_bytes_that_are_refused_stand_in_the_way_of_none_that_are_not() {
        loom::model(|| {
            let account = Account::new(1000).expect("it is bounded");
            let wants = |bytes: u64| {
                let account = Arc::clone(&account);
                move || account.book(bytes).is_ok()
            };
            let (first, second) = (loom::thread::spawn(wants(900)), loom::thread::spawn(wants(u64::MAX)));
            assert!(wants(100)(), "100 of 1000, of which 900 are wanted");
            let got = [first.join().unwrap(), second.join().unwrap()];
            assert_eq!(got, [true, false]);
            assert_eq!(account.held.load(Ordering::Relaxed), 1000);
        });
    }
}
