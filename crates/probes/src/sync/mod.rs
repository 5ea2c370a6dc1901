//! Threads that share something.

pub(crate) mod core_to_core;
pub(crate) mod false_sharing;
pub(crate) mod mutex;
mod neighbourhood;
