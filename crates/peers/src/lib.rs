//! Programs of others that measure what costof measures: how each is started, bounded in time and
//! read, and what costof is compared with them.
//!
//! It starts programs and does arithmetic with what they print. It never measures by itself, and
//! prints nothing.

pub mod agreement;
pub mod caches;
pub mod checks;
pub mod child;
pub mod costof;
pub mod error;
pub mod packages;
pub mod round;
pub mod server;
pub mod tool;
pub mod tools;
pub mod verify;
