//! One target under libFuzzer: the one that the variable `COSTOF_FUZZ` names.

#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls its entry point by name")]

use std::sync::LazyLock;

static TARGET: LazyLock<&costof_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("COSTOF_FUZZ").unwrap_or_default();
    let mut targets = costof_fuzz::TARGETS.iter();
    let target = targets.find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("`{name}` is none of the targets in fuzz/src/lib.rs"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
