//! Measured: first touches of pages, in a given order.
//!
//! One byte per page, so that only the page fault takes time. The accesses are volatile: there are
//! exactly as many loads or stores as offsets, in this order. The figure of one includes loading
//! its offset, which takes far less than a fault.

/// Writes a byte at each offset, in this order.
///
/// # Panics
///
/// If an offset lies outside.
pub fn write_at(memory: &mut [u8], offsets: &[usize]) {
    for &offset in offsets {
        let byte = &raw mut memory[offset];
        // SAFETY: the byte was just borrowed mutably, so it may be written to.
        unsafe { byte.write_volatile(WRITTEN) };
    }
}

/// Reads a byte at each offset, in this order, and returns their sum.
///
/// # Panics
///
/// If an offset lies outside.
pub fn read_at(memory: &[u8], offsets: &[usize]) -> u64 {
    let mut sum = 0;
    for &offset in offsets {
        let byte = &raw const memory[offset];
        // SAFETY: the byte was just borrowed, so it may be read.
        sum += u64::from(unsafe { byte.read_volatile() });
    }
    sum
}

/// What [`write_at`] writes.
pub const WRITTEN: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize, base_page_bytes};
    use crate::sched::usage;

    #[test]
    fn each_offset_is_written_and_read_and_is_one_fault() {
        let page = base_page_bytes();
        let mut arena = Arena::map(100 * page, PageSize::Base).unwrap();
        let offsets: Vec<usize> = (0..100)
            .rev()
            .map(|number| number * page + number)
            .collect();
        let before = usage::thread();
        write_at(arena.as_mut_slice(), &offsets);
        let faults = usage::thread().since(&before).minor_faults;
        assert!((100..110).contains(&faults), "{faults}");
        assert_eq!(read_at(arena.as_slice(), &offsets), 100);
        assert_eq!(read_at(arena.as_slice(), &[99 * page, 7]), 0);
    }
}
