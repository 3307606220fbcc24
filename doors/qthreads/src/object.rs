//! Objects of this library that programs know by their addresses.

/// An argument of a program: the address of an object that this library has made for it, or null.
#[repr(transparent)]
pub(crate) struct Object<T>(*mut T);

impl<T> Clone for Object<T> {
    fn clone(&self) -> Object<T> {
        *self
    }
}

impl<T> Copy for Object<T> {}

impl<T> Object<T> {
    /// An object for another function.
    ///
    /// # Safety
    /// Rule "Objects": null, or an object made by a box and not ended.
    pub(crate) unsafe fn new(pointer: *mut T) -> Object<T> {
        Object(pointer)
    }

    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }

    /// The object, for any number of threads at a time.
    #[inline]
    pub(crate) fn get<'a>(self) -> Option<&'a T> {
        // SAFETY: rule "Objects": the program uses it until it ends it.
        unsafe { self.0.as_ref() }
    }

    /// The object, for functions that programs call by one thread at a time.
    #[inline]
    pub(crate) fn alone<'a>(self) -> Option<&'a mut T> {
        // SAFETY: rule "Objects": the program uses it until it ends it, and by no other thread meanwhile.
        unsafe { self.0.as_mut() }
    }

    /// The object, whose use ends.
    pub(crate) fn end(self) -> Option<Box<T>> {
        // SAFETY: rule "Objects": it was made by a box, and the program ends it once.
        (!self.0.is_null()).then(|| unsafe { Box::from_raw(self.0) })
    }
}
