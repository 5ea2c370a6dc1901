//! Memory of messages, from one to the next.

use std::hint::black_box;

/// Longer ones the C library always returns to the kernel (`DEFAULT_MMAP_THRESHOLD_MAX`).
const MAX_KEPT: usize = 32 << 20;

/// Has the C library keep what a message of up to so many bytes was in, for the next one. It gives
/// the end of the heap back to the kernel with each one of 64 KiB that is freed, and each page of it
/// is then faulted in anew: a quarter of what a stream's sender did. It stops doing so when it has
/// seen something longer come and go, as happens in a program that runs for long.
///
/// Source: mallopt(3), `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of the GNU C library, which it
/// adjusts; another library does as it does.
pub(crate) fn keep(max_message_bytes: usize) {
    // Never touched, so that it is an address range and no memory.
    let longer: Vec<u8> = Vec::with_capacity(max_message_bytes.min(MAX_KEPT));
    drop(black_box(longer));
}
