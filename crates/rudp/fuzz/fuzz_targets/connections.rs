//! Two ends, what happens between them, and how time passes, as the bytes say.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rudp::fuzzing::connections(bytes));
