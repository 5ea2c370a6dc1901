//! The kernel.

pub(crate) mod context_switch;
pub(crate) mod mmap;
pub(crate) mod page_fault;
pub(crate) mod pin;
pub(crate) mod process;
pub(crate) mod signal;
pub(crate) mod syscall;
pub(crate) mod thread;
pub(crate) mod timer;
