//! The probes: one file each, and the table in which they stand.
//!
//! This crate never prints.

mod arenas;
mod budget;
mod copy;
mod cpu;
mod derived;
mod ends;
mod english;
mod expect;
mod file;
mod ipc;
mod memory;
mod net;
pub mod notes;
mod null;
mod os;
mod prelude;
mod rpc;
mod rudp;
mod setup;
mod sizes;
mod sync;
mod table;
#[cfg(test)]
mod testing;
mod threads;
mod wake;

pub use copy::send::interactive;
pub use table::TABLE;
