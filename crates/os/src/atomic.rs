//! The atomics of the parts that crates/os/tests/loom tries in every order: there they are loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
