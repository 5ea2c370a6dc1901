//! The kernel.

pub(crate) mod syscall;
