//! The kernel.

pub(crate) mod context_switch;
pub(crate) mod syscall;
