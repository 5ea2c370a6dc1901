//! The kernel.

pub(crate) mod mmap;
pub(crate) mod page_fault;
pub(crate) mod pin;
pub(crate) mod syscall;
