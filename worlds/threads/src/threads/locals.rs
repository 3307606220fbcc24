//! The values of one thread.

use std::any::Any;

/// The values of one thread, each with the address of its [`Local`].
#[derive(Default)]
pub(crate) struct Locals(pub(crate) Vec<(usize, Box<dyn Any>)>);
