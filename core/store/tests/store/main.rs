//! The store on a disk that fails: what is found is compared with a set of quads.

mod crashes;
mod damage;
mod kept;
mod model;
mod opening;
mod unread;
mod writers;
