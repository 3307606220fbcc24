//! Both worlds decide alike, about tasks and about boxes.

mod boxes;
mod tasks;
