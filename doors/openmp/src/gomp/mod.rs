//! The interface of gcc's programs: `GOMP_*`, as gcc's libgomp declares it in `libgomp_g.h`.

mod loops;
mod sync;
mod target;
mod tasks;
mod unsigned;

pub(crate) use tasks::accesses;
