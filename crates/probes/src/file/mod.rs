//! Files: cached, cold, direct, contended, remote.

#[expect(dead_code, reason = "the probes that vary them come next")]
pub(crate) mod axes;
pub(crate) mod remote;
