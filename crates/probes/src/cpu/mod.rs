//! The processor.

pub(crate) mod branch_miss;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod frequency;
pub(crate) mod hiccup;
pub(crate) mod loops;
pub(crate) mod memcpy;
pub(crate) mod neighbour;
pub(crate) mod snappy;
pub(crate) mod vm_exit;
