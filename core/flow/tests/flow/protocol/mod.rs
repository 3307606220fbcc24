//! The box protocol, step by step, in a world driven by hand.

mod after_the_pill;
mod bobox_fig3;
mod by_hand;
mod faults;
mod rules;
