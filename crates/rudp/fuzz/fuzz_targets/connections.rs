//! Two ends, what happens between them, and how time passes, as the bytes say.

#![no_main]

#[path = "../../tests/fuzz/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| script::run(bytes));
