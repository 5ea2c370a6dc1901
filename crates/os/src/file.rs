//! Files: unnamed ones with known contents, the page cache and ways to bypass it, the measured ways
//! to read and write, and remote files.

pub mod cache;
pub mod contenders;
pub mod data;
pub mod device;
pub mod direct;
mod map;
pub mod names;
pub mod order;
pub mod reads;
pub mod remote;
pub mod scratch;
mod shrunk;
pub mod writes;
