//! Files: cached, cold, direct, contended, remote.

pub(crate) mod axes;
pub(crate) mod cache_size;
pub(crate) mod contention;
pub(crate) mod expect;
pub(crate) mod metadata;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod sync;
pub(crate) mod target_file;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod write;
