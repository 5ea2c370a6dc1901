//! Tries the ring of costof-os in every order of its two ends: the same source, with loom's atomics. Not a test,
//! since those of that source would be compiled too. The spinlock of sched/locks.rs is not tried: loom lets an
//! exchange read a value that an earlier exchange has replaced, so that it may spin for ever.
//!
//! ```sh
//! cargo run --release --manifest-path crates/os/tests/loom/Cargo.toml
//! ```

#[path = "../../../src/ipc/ring.rs"]
mod ring;

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ring::Ring;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that loom watches: two accesses that are not ordered, one of them a write, are a panic.
struct Memory<const N: usize>([UnsafeCell<u8>; N]);

// SAFETY: that nobody touches a cell while another one does is what loom checks.
unsafe impl<const N: usize> Sync for Memory<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Send for Memory<N> {}

impl<const N: usize> Memory<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    fn write(&self, at: usize, byte: u8) {
        // SAFETY: loom has checked that nobody else has it.
        self.0[at].with_mut(|place| unsafe { *place = byte });
    }

    fn read(&self, at: usize) -> u8 {
        // SAFETY: as above.
        self.0[at].with(|place| unsafe { *place })
    }
}

fn main() {
    let tried = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&tried);
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        every_byte_of_a_ring_arrives_in_its_place_and_no_end_touches_what_the_other_does();
    });
    println!("ring: {} orders", tried.load(Ordering::Relaxed));
}

fn every_byte_of_a_ring_arrives_in_its_place_and_no_end_touches_what_the_other_does() {
    const BYTES: usize = 3;
    const PIECE: usize = 2;
    // More than the ring holds, so that it wraps and the sender has to wait.
    const MESSAGE: [u8; 4] = [11, 12, 13, 14];
    let both = Arc::new((Ring::<BYTES, PIECE>::default(), Memory::<BYTES>::new()));
    let sender = Arc::clone(&both);
    let sender = thread::spawn(move || {
        let (ring, memory) = &*sender;
        let copy = |piece: &[u8], at: usize| {
            for (offset, byte) in piece.iter().enumerate() {
                memory.write(at + offset, *byte);
            }
        };
        let mut wait = || {
            thread::yield_now();
            Ok(())
        };
        ring.fill(&MESSAGE, 0, copy, &mut wait).unwrap();
    });
    let (ring, memory) = &*both;
    let mut received = Vec::new();
    while received.len() < MESSAGE.len() {
        let arrived = received.len() as u64;
        let copy = |at, piece| received.extend((at..at + piece).map(|at| memory.read(at)));
        ring.empty(arrived, BYTES, copy, thread::yield_now);
        ring.receive(received.len() as u64);
    }
    assert_eq!(received, MESSAGE);
    sender.join().unwrap();
}
