//! A global allocator that counts, so that a test can assert that a measured path allocates
//! nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Constant and without a destructor: reading it does not allocate, and it is valid until the
    // thread ends.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts each thread's allocations. costof-probes installs it:
/// `#[global_allocator] static ALLOCATOR: Counting = Counting;`. It costs one addition per allocation.
#[derive(Clone, Copy, Debug, Default)]
// METHOD 21
pub struct Counting;

/// How often the calling thread has allocated or reallocated since it began; always zero if [`Counting`] is
/// not the global allocator.
#[inline]
pub fn allocations() -> u64 {
    ALLOCATIONS.try_with(Cell::get).unwrap_or(0)
}

/// Counts allocations of threads that worked for the calling one as its own.
#[inline]
pub fn adopt(allocations: u64) {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get().wrapping_add(allocations)));
}

#[inline]
fn count() {
    // `try_with`: an allocation while the thread's locals are being torn down is not counted.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get().wrapping_add(1)));
}

// SAFETY: every request goes unchanged to the system's allocator; counting neither allocates nor
// panics.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps this function's contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(block, layout, new_size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::thread;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn this_threads_allocations_are_counted() {
        let before = allocations();
        let mut list = black_box(Vec::<u64>::with_capacity(4));
        assert_eq!(allocations(), before + 1);
        list.extend(0..100);
        assert!(allocations() > before + 1);
        let now = allocations();
        thread::spawn(|| black_box(vec![1_u8; 100])).join().unwrap();
        // Starting a thread allocates here too, but the new thread counts for itself.
        let theirs = thread::spawn(|| {
            let before = allocations();
            drop(black_box(vec![0_u8; 100]));
            allocations() - before
        });
        assert_eq!(theirs.join().unwrap(), 1);
        assert!(allocations() > now);
    }

    #[test]
    fn a_count_that_overflows_is_no_panic_inside_the_allocator() {
        let counted = thread::spawn(|| {
            adopt(u64::MAX - allocations());
            drop(black_box(Box::new(1)));
            allocations()
        });
        assert_eq!(counted.join().unwrap(), 0);
    }

    #[test]
    fn measured_sequences_allocate_nothing() {
        use crate::cpu::calls::{ArgumentKind, call};
        use crate::cpu::clock::ClockId;
        let before = allocations();
        crate::cpu::clock_reads::tsc(10);
        crate::cpu::clock_reads::tsc_fenced(10);
        crate::cpu::clock_reads::std_instant(10);
        crate::cpu::clock_reads::clock_gettime(ClockId::Monotonic, 10);
        costof_gauge::chain::rotate(100);
        costof_gauge::chain::multiply(100);
        crate::cpu::loops::empty(10);
        crate::cpu::loops::nop(10);
        crate::cpu::loops::memory_counter(10);
        call(ArgumentKind::Struct, 7, 10);
        crate::process::syscalls::getppid(10);
        crate::process::syscalls::time_vdso(10);
        crate::process::syscalls::time_forced(10);
        crate::process::syscalls::open_close(2, c"/dev/null").unwrap();
        crate::sched::usage::thread();
        assert_eq!(allocations(), before);
    }
}
