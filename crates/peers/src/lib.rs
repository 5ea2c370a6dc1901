//! Other programs that measure what costof measures: starts each with a time limit, reads its number, and
//! compares costof with it.
//!
//! This crate starts programs and computes with what they print. It never measures by itself, and prints
//! nothing.

pub mod agreement;
pub mod c;
pub mod caches;
pub mod checks;
pub mod child;
pub mod costof;
pub mod error;
pub mod packages;
pub mod round;
pub mod server;
pub mod tool;
pub mod verify;
