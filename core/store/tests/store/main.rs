//! The store on a failing disk: its content is compared with a set of quads.

mod crashes;
mod damage;
mod kept;
mod model;
mod opening;
mod unread;
mod writers;
