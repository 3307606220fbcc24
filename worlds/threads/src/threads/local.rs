//! Values of each lightweight thread's own.

use crate::threads::here::core_here;
use crate::threads::locals::Locals;
use std::any::Any;

/// A value of each lightweight thread's own: made at its first use there, and dropped when the thread ends. Outside of
/// lightweight threads, there is none.
///
/// ```
/// use std::cell::Cell;
/// use vicus_machine::MachineRuntime;
/// use vicus_threads::{self, Local};
///
/// static STEPS: Local<Cell<u32>> = Local::new(|| Cell::new(0));
/// fn step() -> u32 {
///     STEPS.with(|steps| {
///         steps.set(steps.get() + 1);
///         steps.get()
///     })
/// }
///
/// let runtime = MachineRuntime::builder().threads(1).start();
/// let steps = runtime.run(|| {
///     let threads = [(); 2].map(|()| vicus_threads::spawn(|| (step(), vicus_threads::yield_now(), step()).2));
///     threads.map(|thread| thread.join().unwrap())
/// });
/// assert_eq!(steps, [2, 2]);
/// ```
#[derive(Debug)]
pub struct Local<T: 'static> {
    make: fn() -> T,
}

impl<T: 'static> Local<T> {
    /// With how a thread's first value is made.
    pub const fn new(make: fn() -> T) -> Local<T> {
        Local { make }
    }

    /// Calls `f` with the calling thread's value.
    ///
    /// # Panics
    /// Outside of lightweight threads.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).expect("a Local is used in lightweight threads")
    }

    /// Like [`Local::with`]; `None` outside of lightweight threads, and while the thread's values are dropped.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let core = core_here()?;
        let key = std::ptr::from_ref(self).addr();
        #[expect(unsafe_code, reason = "follows a pointer to the thread that runs here")]
        // SAFETY: it is there as long as it runs, and only it uses its values.
        let core = unsafe { core.as_ref() };
        if core.are_locals_over.get() {
            return None;
        }
        let locals = &core.locals;
        let find = |locals: &Locals| {
            let value = locals.0.iter().find(|(of, _)| *of == key)?;
            Some(std::ptr::from_ref(value.1.downcast_ref::<T>().expect("a key has one type")))
        };
        let mut own = locals.take().unwrap_or_default();
        let found = find(&own);
        let value = match found {
            Some(value) => {
                locals.set(Some(own));
                value
            }
            None => {
                locals.set(Some(own));
                // It may use others.
                let made: Box<dyn Any> = Box::new((self.make)());
                own = locals.take().unwrap_or_default();
                own.0.push((key, made));
                let value = find(&own).expect("it was just put there");
                locals.set(Some(own));
                value
            }
        };
        #[expect(unsafe_code, reason = "a reference to a value of this thread")]
        // SAFETY: values are boxed and stay until the thread's code is over.
        Some(f(unsafe { &*value }))
    }
}
