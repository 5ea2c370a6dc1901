//! The processor.

pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod frequency;
pub(crate) mod loops;
pub(crate) mod memcpy;
