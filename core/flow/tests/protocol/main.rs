//! The box protocol, step by step, in a world that is driven by hand.

mod bobox_fig3;
mod by_hand;
mod rules;
