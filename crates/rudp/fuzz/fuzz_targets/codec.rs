//! Datagrams and frames of any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rudp::fuzzing::codec(bytes));
