//! Measured: first touches of pages.
//!
//! One byte per page, so that only the page fault takes time. The loops are assembly: between two
//! accesses, there are only a step to the next page and a branch, as in what a compiler makes of
//! `memory[page * 4096] = 1`. All places are checked before the first access. On some cores, the
//! instructions between two faults decide how long the kernel takes for a fault: on Zen 4, C
//! programs with the same system calls took 1.20 µs a fault with such a loop, and 1.74 µs with one
//! that checks bounds each time.

use std::ops::Range;

use costof_gauge::asm_loop;

/// Writes a byte to each of these pages, in ascending order: page 0 begins where the memory does,
/// and each following one `stride` bytes later.
///
/// # Panics
///
/// If one of them lies outside.
pub fn write_pages(memory: &mut [u8], stride: usize, pages: Range<usize>) {
    let Some(first) = first_offset(memory.len(), stride, &pages) else {
        return;
    };
    // SAFETY: the loop ends after the last page; it writes only to the first byte of each, which
    // lies in the memory, borrowed mutably, as was just checked.
    unsafe {
        asm_loop!(
            pages.len() as u64,
            x86_64 { "mov byte ptr [{at}], {written:l}", "add {at}, {stride}" },
            aarch64 { "strb {written:w}, [{at}]", "add {at}, {at}, {stride}" },
            at = inout(reg) memory.as_mut_ptr().wrapping_add(first) => _,
            stride = in(reg) stride,
            written = in(reg) u64::from(WRITTEN),
            options(nostack)
        );
    }
}

/// Reads a byte of each of these pages, as [`write_pages`] writes them, and returns their sum.
///
/// # Panics
///
/// If one of them lies outside.
pub fn read_pages(memory: &[u8], stride: usize, pages: Range<usize>) -> u64 {
    let Some(first) = first_offset(memory.len(), stride, &pages) else {
        return 0;
    };
    let mut sum = 0;
    // SAFETY: the loop ends after the last page; it reads only the first byte of each, which lies
    // in the memory, as was just checked.
    unsafe {
        asm_loop!(
            pages.len() as u64,
            x86_64 { "movzx {byte:e}, byte ptr [{at}]", "add {sum}, {byte}", "add {at}, {stride}" },
            aarch64 { "ldrb {byte:w}, [{at}]", "add {sum}, {sum}, {byte}", "add {at}, {at}, {stride}" },
            at = inout(reg) memory.as_ptr().wrapping_add(first) => _,
            stride = in(reg) stride,
            byte = out(reg) _,
            sum = inout(reg) sum,
            options(nostack, readonly)
        );
    }
    sum
}

/// Reads a byte at each offset, in this order, and returns their sum. The figure of one includes
/// loading its offset, which takes far less than a fault.
///
/// # Panics
///
/// If an offset lies outside.
pub fn read_at(memory: &[u8], offsets: &[usize]) -> u64 {
    assert!(offsets.iter().all(|offset| *offset < memory.len()));
    let mut sum = 0;
    if !offsets.is_empty() {
        // SAFETY: the loop ends after the last offset; it reads only the offsets, and a byte at
        // each of them, which lies in the memory, as was just checked.
        unsafe {
            asm_loop!(
                offsets.len() as u64,
                x86_64 {
                    "mov {byte}, [{offsets}]",
                    "movzx {byte:e}, byte ptr [{start} + {byte}]",
                    "add {sum}, {byte}",
                    "add {offsets}, 8"
                },
                aarch64 {
                    "ldr {byte}, [{offsets}], #8",
                    "ldrb {byte:w}, [{start}, {byte}]",
                    "add {sum}, {sum}, {byte}"
                },
                start = in(reg) memory.as_ptr(),
                offsets = inout(reg) offsets.as_ptr() => _,
                byte = out(reg) _,
                sum = inout(reg) sum,
                options(nostack, readonly)
            );
        }
    }
    sum
}

/// Where the first page begins; `None` if there is no page. Checks that the last one lies in `len`
/// bytes.
fn first_offset(len: usize, stride: usize, pages: &Range<usize>) -> Option<usize> {
    let last = pages.end.checked_sub(1).filter(|_| !pages.is_empty())?;
    let end = last.checked_mul(stride);
    assert!(end.is_some_and(|end| end < len), "page {last} lies outside of the memory");
    Some(pages.start * stride)
}

/// What [`write_pages`] writes.
pub const WRITTEN: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize, base_page_bytes};
    use crate::sched::usage;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn each_page_is_touched_once_and_no_other() {
        let page = base_page_bytes();
        let mut arena = Arena::map(100 * page, PageSize::Base).unwrap();
        let before = usage::thread();
        write_pages(arena.as_mut_slice(), page, 10..90);
        let faults = usage::thread().since(&before).minor_faults;
        assert!((80..90).contains(&faults), "{faults}");
        assert_eq!(read_pages(arena.as_slice(), page, 10..90), 80);
        assert_eq!(read_pages(arena.as_slice(), page, 0..100), 80);
        assert_eq!(read_pages(arena.as_slice(), page, 89..100), 1);
        let offsets: Vec<usize> = (0..100).rev().map(|number| number * page).collect();
        assert_eq!(read_at(arena.as_slice(), &offsets), 80);
        assert_eq!(read_at(arena.as_slice(), &[10 * page, 10 * page + 1, 7]), 1);
    }

    #[test]
    fn nothing_outside_is_touched() {
        let mut memory = [0; 32];
        write_pages(&mut memory, 8, 4..4);
        write_pages(&mut memory, 8, 3..4);
        assert_eq!(read_pages(&memory, 8, 0..4), 1);
        assert_eq!(read_pages(&memory, 8, 9..9), 0);
        assert_eq!(read_at(&memory, &[]), 0);
        let mut panics = |pages: Range<usize>| {
            let write = || write_pages(&mut memory, 8, pages.clone());
            let written = catch_unwind(AssertUnwindSafe(write));
            let read = catch_unwind(AssertUnwindSafe(|| read_pages(&memory, 8, pages)));
            written.is_err() && read.is_err()
        };
        assert!(panics(0..5) && panics(4..5) && panics(0..usize::MAX));
        assert!(catch_unwind(|| read_at(&[0; 32], &[0, 32])).is_err());
    }
}
