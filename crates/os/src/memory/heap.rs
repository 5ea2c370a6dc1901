//! Measured: malloc and free of the C library or of another allocator that is loaded beside it.
//!
//! Source: malloc(3), dlopen(3).

use std::ffi::{CStr, c_void};
use std::io;
use std::mem::transmute;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::process::shared_object::SharedObject;
use crate::system_call::unsupported;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);

/// An allocator's two functions.
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    malloc: Malloc,
    free: Free,
}

impl Heap {
    /// The C library's.
    pub fn of_c_library() -> Heap {
        Heap { malloc: libc::malloc, free: libc::free }
    }

    /// That of a shared object by this name, found as the loader finds libraries. Only what is allocated here comes from
    /// it.
    ///
    /// # Errors
    ///
    /// `Unsupported` in a static build; `InvalidInput` with the loader's reason.
    pub fn load(name: &CStr) -> io::Result<Heap> {
        let object = SharedObject::load_named(name)?;
        let [malloc, free] = [object.address("malloc")?, object.address("free")?];
        let own: [Malloc; 1] = [libc::malloc];
        // SAFETY: malloc(3) gives functions of these names these types, in any library that has them.
        let heap = unsafe {
            Heap {
                malloc: transmute::<*mut c_void, Malloc>(malloc.as_ptr()),
                free: transmute::<*mut c_void, Free>(free.as_ptr()),
            }
        };
        if ptr::fn_addr_eq(heap.malloc, own[0]) {
            return Err(unsupported("it has no malloc of its own"));
        }
        Ok(heap)
    }

    /// A block whose first byte is written; aborts if there is no memory, as a program does.
    #[inline(always)]
    fn allocate(self, bytes: usize) -> *mut c_void {
        // SAFETY: any size may be asked for. The byte is the block's own.
        unsafe {
            let block = (self.malloc)(bytes);
            if block.is_null() {
                std::process::abort();
            }
            block.cast::<u8>().write_volatile(1);
            block
        }
    }
}

/// Blocks that one thread allocates and frees.
#[derive(Debug)]
pub struct Blocks {
    heap: Heap,
    bytes: usize,
    slots: Vec<*mut c_void>,
}

// SAFETY: a block may be freed by any thread, and these are this owner's.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Up to `burst` blocks of this size; none is allocated yet.
    ///
    /// # Panics
    ///
    /// If a block or the burst is empty.
    pub fn new(heap: Heap, bytes: usize, burst: usize) -> Blocks {
        assert!(bytes > 0 && burst > 0, "an empty block has no byte to write");
        Blocks { heap, bytes, slots: vec![ptr::null_mut(); burst] }
    }

    /// Allocates and frees `n` blocks, in bursts: a whole burst is allocated, then freed in the same order.
    pub fn turn(&mut self, n: u64) {
        let mut left = n;
        while left > 0 {
            let burst = self.slots.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            for slot in &mut self.slots[..burst] {
                *slot = self.heap.allocate(self.bytes);
            }
            for slot in &self.slots[..burst] {
                // SAFETY: it was just allocated by the same allocator, and is freed once.
                unsafe { (self.heap.free)(*slot) };
            }
            left -= burst as u64;
        }
    }
}

/// The allocating end of a queue of blocks to another thread.
#[derive(Debug)]
pub struct Allocates(End);

/// The freeing end.
#[derive(Debug)]
pub struct Frees(End);

/// One end, and the place of its next block. There is one of each kind, so no block is taken twice.
#[derive(Debug)]
struct End {
    heap: Heap,
    bytes: usize,
    slots: Arc<[Slot; PLACES]>,
    at: usize,
}

/// A place for a block, on a line of its own; null while it is free.
#[derive(Debug)]
#[repr(align(64))]
struct Slot(AtomicPtr<c_void>);

/// A power of two, so that stepping to the next place needs no division.
const PLACES: usize = 256;

/// The ends of a queue with room for 256 blocks of this size.
///
/// # Panics
///
/// If a block is empty.
pub fn handover(heap: Heap, bytes: usize) -> (Allocates, Frees) {
    assert!(bytes > 0, "an empty block has no byte to write");
    let slots = Arc::new([const { Slot(AtomicPtr::new(ptr::null_mut())) }; PLACES]);
    let end = || End { heap, bytes, slots: Arc::clone(&slots), at: 0 };
    (Allocates(end()), Frees(end()))
}

impl Allocates {
    /// Allocates `n` blocks and hands them over; spins while the queue is full.
    pub fn turn(&mut self, n: u64) {
        let (heap, bytes) = (self.0.heap, self.0.bytes);
        self.0.visit(n, |slot| {
            let block = heap.allocate(bytes);
            // Without a pause instruction, by which a hypervisor may take the CPU away.
            let mut is_taken = true;
            while is_taken {
                is_taken = !slot.load(Ordering::Acquire).is_null();
            }
            slot.store(block, Ordering::Release);
        });
    }
}

impl Frees {
    /// Frees `n` blocks; spins while the queue is empty.
    pub fn turn(&mut self, n: u64) {
        let heap = self.0.heap;
        self.0.visit(n, |slot| {
            let mut block = slot.load(Ordering::Acquire);
            while block.is_null() {
                block = slot.load(Ordering::Acquire);
            }
            slot.store(ptr::null_mut(), Ordering::Release);
            // SAFETY: the same allocator's, and this is the only end that takes blocks.
            unsafe { (heap.free)(block) };
        });
    }
}

impl End {
    #[inline(always)]
    fn visit(&mut self, n: u64, mut each: impl FnMut(&AtomicPtr<c_void>)) {
        for _ in 0..n {
            each(&self.slots[self.at].0);
            self.at = (self.at + 1) % PLACES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn blocks_are_allocated_and_freed_by_one_thread_or_two() {
        let heap = Heap::of_c_library();
        Blocks::new(heap, 64, 7).turn(100);
        let (mut allocates, mut frees) = handover(heap, 64);
        thread::scope(|scope| {
            scope.spawn(|| allocates.turn(1000));
            frees.turn(1000);
        });
        assert_eq!((allocates.0.at, frees.0.at), (1000 % PLACES, 1000 % PLACES));
        assert!(frees.0.slots.iter().all(|slot| slot.0.load(Ordering::Relaxed).is_null()));
    }

    #[test]
    fn what_is_no_allocator_is_refused() {
        if cfg!(target_feature = "crt-static") {
            return;
        }
        let error = Heap::load(c"libnothing.so.0").unwrap_err();
        assert!(error.to_string().contains("libnothing.so.0"), "{error}");
        let error = Heap::load(c"libm.so.6").unwrap_err();
        assert!(error.to_string().contains("malloc"), "{error}");
    }
}
