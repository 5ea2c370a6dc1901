//! Files: cached, cold, direct, contended, remote.

pub(crate) mod axes;
pub(crate) mod place;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod tried;
