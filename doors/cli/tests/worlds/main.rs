//! Both worlds decide alike, about tasks and about boxes.

mod boxes;
mod replays;
mod tasks;
