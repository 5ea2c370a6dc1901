//! The kernel.

pub(crate) mod context_switch;
pub(crate) mod process;
pub(crate) mod signal;
pub(crate) mod syscall;
pub(crate) mod thread;
pub(crate) mod timer;
