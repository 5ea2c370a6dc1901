//! Reusing the memory of messages.

use crate::MAX_MESSAGE_BYTES;
use std::hint::black_box;

/// Makes the C library keep the memory of a freed message for the next one. By
/// default it returns the end of the heap to the kernel whenever a block of 64 KiB is freed, and
/// each of its pages then faults again: a quarter of the work of a stream's sender. It stops doing
/// so after a longer block was freed, as happens in a program that runs for long.
///
/// Source: mallopt(3), the dynamic `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of the GNU C library;
/// other libraries are not affected.
pub(crate) fn keep() {
    // Never touched: an address range without memory.
    let longer: Vec<u8> = Vec::with_capacity(MAX_MESSAGE_BYTES);
    drop(black_box(longer));
}
