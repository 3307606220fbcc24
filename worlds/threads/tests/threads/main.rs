//! Lightweight threads, words and teams on real threads, on any described machine. Tests in need of a process of their
//! own have a file beside this folder.

mod following;
mod full_empty;
#[path = "../../../machine/tests/runtime/helpers.rs"]
mod helpers;
mod histories;
mod map_reduce;
mod shares;
mod suspending;
mod team;
mod threads;
