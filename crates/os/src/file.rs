//! Files: nameless ones whose content is known, what the kernel keeps of them in memory, the ways
//! past that, and the measured ways to read and write them; and remote ones.

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
