//! Measured: reading, writing or copying memory in order, as fast as one core can. There are
//! several kernels; a trial finds the fastest on this machine.
//!
//! A kernel is one loop in assembly, so that the optimiser can neither omit a load nor turn stores
//! into a call of `memset`. Reading adds every 64-bit word to a sum, which is checked. Writing
//! stores one byte value everywhere, a different one each lap. Copying moves words that are all
//! different.
//!
//! In a write or a copy through the caches, the CPU first reads each line from memory and later
//! writes it back (write-allocate), so more bytes move than are counted. Non-temporal stores avoid
//! the read, as do many CPUs' string instructions for large sizes.
//!
//! Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, 3.7.6 "REP prefix and
//! data movement" (ERMSB) and 9.4.1 "Non-temporal store"; AMD64 Architecture Programmer's Manual,
//! volume 1, 5.6 "Streaming stores"; Arm Architecture Reference Manual, C3.2.4 "LDNP, STNP".

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::every_kernel;
#[cfg(target_arch = "x86_64")]
use x86_64::every_kernel;

use std::io;
use std::ops::Range;

use crate::memory::arena::Arena;
use crate::system_call::invalid;

/// What is done to memory, in ascending order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Every word is loaded and added to a sum.
    Read,
    /// Every byte is stored, through the caches.
    Write,
    /// Every byte is stored past the caches (a hint on aarch64).
    WriteNontemporal,
    /// Every byte of one area is stored into a second one.
    Copy,
}

/// The instructions that a kernel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instructions {
    /// 16-byte vectors of x86-64, which every such CPU has.
    Sse2,
    /// 32-byte vectors of x86-64.
    Avx2,
    /// 64-byte vectors of x86-64.
    Avx512,
    /// `rep stosb` and `rep movsb` of x86-64, if the CPU reports that they are fast (ERMS).
    Rep,
    /// 16-byte vectors of aarch64, in pairs: `ldp`, `stp`, `stnp`.
    Neon,
}

/// One way to perform an operation.
#[derive(Debug)]
pub struct Kernel {
    /// What it performs.
    pub operation: Operation,
    /// Its instructions.
    pub instructions: Instructions,
    /// Bytes that one of its instructions moves; 1 for a string instruction.
    pub vector_bytes: u32,
    /// Whether its stores are non-temporal.
    pub nontemporal: bool,
    /// Streams `bytes` bytes, a multiple of [`GRAIN_BYTES`], from `from` or to `to` or both, which
    /// are aligned to 64 bytes. Writing stores `byte`. Returns the sum of what was read.
    stream: unsafe fn(from: *const u8, to: *mut u8, bytes: usize, byte: u8) -> u64,
}

/// Every streamed size is a multiple of this, so that no kernel has a remainder.
pub const GRAIN_BYTES: usize = 1024;

impl Instructions {
    /// Whether this CPU has them, and the kernel lets them be used.
    #[cfg(target_arch = "x86_64")]
    pub fn available(self) -> bool {
        match self {
            Self::Sse2 => true,
            Self::Avx2 => std::is_x86_feature_detected!("avx2"),
            Self::Avx512 => std::is_x86_feature_detected!("avx512f"),
            Self::Rep => std::is_x86_feature_detected!("ermsb"),
            Self::Neon => false,
        }
    }

    /// Whether this CPU has them, and the kernel lets them be used.
    #[cfg(target_arch = "aarch64")]
    pub fn available(self) -> bool {
        self == Self::Neon
    }
}

impl Kernel {
    /// Every kernel that performs `operation` and can run here.
    pub fn all(operation: Operation) -> impl Iterator<Item = &'static Kernel> {
        every_kernel()
            .filter(move |kernel| kernel.operation == operation && kernel.instructions.available())
    }

    fn first(operation: Operation) -> &'static Kernel {
        Kernel::all(operation).next().expect("each architecture has a kernel for every operation")
    }
}

/// A kernel with this code, which may use the arguments of [`Kernel::stream`] by these names.
macro_rules! kernel {
    (
        $operation:ident, $instructions:ident, $vector_bytes:literal, $nontemporal:literal,
        |$from:ident, $to:ident, $bytes:ident, $byte:ident| $code:block
    ) => {{
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn stream($from: *const u8, $to: *mut u8, $bytes: usize, $byte: u8) -> u64 $code

        Kernel {
            operation: Operation::$operation,
            instructions: Instructions::$instructions,
            vector_bytes: $vector_bytes,
            nontemporal: $nontemporal,
            stream,
        }
    }};
}
use kernel;

/// An arena that is streamed through, block by block, from start to end and again from the start, and its
/// expected contents afterwards.
#[derive(Debug)]
pub struct Stream {
    arena: Arena,
    kernel: &'static Kernel,
    block_bytes: usize,
    blocks: usize,
    /// The block to stream next.
    next: usize,
    /// How often the last block has been streamed.
    laps: u64,
    /// The sum of everything that was read.
    sum: u64,
}

impl Stream {
    /// How much of an arena an operation on `bytes` bytes needs: twice as much for a copy.
    pub fn arena_bytes(operation: Operation, bytes: u64) -> u64 {
        match operation {
            Operation::Copy => bytes.saturating_mul(2),
            _ => bytes,
        }
    }

    /// A stream through an arena, without an operation yet.
    pub fn new(arena: Arena) -> Self {
        Self {
            arena,
            kernel: Kernel::first(Operation::Read),
            block_bytes: GRAIN_BYTES,
            blocks: 0,
            next: 0,
            laps: 0,
            sum: 0,
        }
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Puts every page of the arena into memory, near the CPU of the calling thread.
    pub fn populate(&mut self) -> io::Result<()> {
        self.arena.populate()
    }

    /// Aims at `blocks` blocks of `block_bytes` bytes, and writes what `operation` starts from: different
    /// words to read or to copy, zeroes if it writes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the arena is smaller than [`Stream::arena_bytes`] of that much, or if a block is not
    /// a multiple of [`GRAIN_BYTES`], or if there is none.
    pub fn aim(
        &mut self,
        operation: Operation,
        block_bytes: usize,
        blocks: usize,
    ) -> io::Result<()> {
        let bytes = block_bytes.saturating_mul(blocks);
        let needed = Self::arena_bytes(operation, bytes as u64);
        if bytes == 0 || !block_bytes.is_multiple_of(GRAIN_BYTES) {
            return Err(invalid("a stream of no bytes, or with a remainder"));
        }
        if needed > self.arena.len() as u64 {
            return Err(invalid("a stream exceeds its arena"));
        }
        self.kernel = Kernel::first(operation);
        self.block_bytes = block_bytes;
        self.blocks = blocks;
        self.next = 0;
        self.laps = 0;
        self.sum = 0;
        let (source, target) = (self.source(), self.target());
        if matches!(operation, Operation::Read | Operation::Copy) {
            self.arena.number_words(source);
        }
        if operation != Operation::Read {
            self.arena.as_mut_slice()[target].fill(0);
        }
        Ok(())
    }

    /// Uses this kernel from now on.
    ///
    /// # Panics
    ///
    /// If it performs another operation than the stream is aimed at, or cannot run here.
    pub fn take(&mut self, kernel: &'static Kernel) {
        assert_eq!(kernel.operation, self.kernel.operation);
        assert!(kernel.instructions.available());
        self.kernel = kernel;
    }

    /// Streams the next `n` blocks, and waits until non-temporal stores have been issued.
    ///
    /// # Panics
    ///
    /// If the stream is aimed at nothing.
    pub fn run(&mut self, n: u64) {
        assert!(self.blocks > 0, "a stream is aimed before it runs");
        let from = self.arena.start();
        // SAFETY: a copy's target lies inside the arena, as `aim` has checked.
        let to = unsafe { from.add(self.target().start) };
        let kernel = self.kernel;
        for _ in 0..n {
            let offset = self.next * self.block_bytes;
            // SAFETY: source and target hold `blocks` blocks each inside the arena, which is
            // borrowed mutably, and `next` is one of them; both and every block are aligned to
            // 64 bytes, as the arena is and `GRAIN_BYTES` is; the CPU has the instructions,
            // as `take` has seen.
            let sum = unsafe {
                (kernel.stream)(
                    from.add(offset),
                    to.add(offset),
                    self.block_bytes,
                    byte_of_lap(self.laps),
                )
            };
            self.sum = self.sum.wrapping_add(sum);
            self.next += 1;
            if self.next == self.blocks {
                self.next = 0;
                self.laps += 1;
            }
        }
        #[cfg(target_arch = "x86_64")]
        if kernel.nontemporal {
            // SAFETY: a fence touches no memory, and each x86-64 CPU has it.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }

    /// Whether the memory and the sum are what they must be after all that has run.
    ///
    /// # Errors
    ///
    /// A sentence about what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let memory = self.arena.as_slice();
        let (source, target) = (&memory[self.source()], &memory[self.target()]);
        let mut sum = 0_u64;
        for block in 0..self.blocks {
            let bytes = block * self.block_bytes..(block + 1) * self.block_bytes;
            let visits = self.laps + u64::from(block < self.next);
            let wrong = |what| Err(format!("block {block}, streamed {visits} times, {what}"));
            match self.kernel.operation {
                Operation::Read => {
                    sum = sum.wrapping_add(sum_of_words(&source[bytes]).wrapping_mul(visits));
                }
                Operation::Copy if visits > 0 => {
                    if source[bytes.clone()] != target[bytes] {
                        return wrong("differs from its source");
                    }
                }
                _ => {
                    let byte = visits.checked_sub(1).map_or(0, byte_of_lap);
                    let block = &target[bytes];
                    // All bytes are equal if each equals the one before it.
                    if block[0] != byte || block[1..] != block[..block.len() - 1] {
                        return wrong("differs from what was written last");
                    }
                }
            }
        }
        if self.sum != sum {
            return Err(format!(
                "the words that were read add up to {:#x}, not to {sum:#x}",
                self.sum
            ));
        }
        Ok(())
    }

    fn source(&self) -> Range<usize> {
        0..self.block_bytes * self.blocks
    }

    /// The area that is written: behind the source in a copy.
    fn target(&self) -> Range<usize> {
        let bytes = self.block_bytes * self.blocks;
        match self.kernel.operation {
            Operation::Copy => bytes..2 * bytes,
            _ => 0..bytes,
        }
    }
}

/// The byte that a lap writes: different from the lap before, and never zero, since lines of zeroes may be
/// moved faster (three times on an AMD EPYC, seen in 2026).
fn byte_of_lap(lap: u64) -> u8 {
    (lap % 255) as u8 + 1
}

fn sum_of_words(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::PageSize;

    const OPERATIONS: [Operation; 4] =
        [Operation::Read, Operation::Write, Operation::WriteNontemporal, Operation::Copy];

    fn stream(bytes: usize) -> Stream {
        Stream::new(Arena::map(bytes, PageSize::Base).unwrap())
    }

    #[test]
    fn every_kernel_does_all_of_its_work_and_no_more() {
        const BLOCK: usize = 3 * GRAIN_BYTES;
        for operation in OPERATIONS {
            for kernel in Kernel::all(operation) {
                for n in [0, 1, 4, 5, 6, 1300] {
                    let mut stream = stream(2 * 5 * BLOCK + GRAIN_BYTES);
                    stream.arena.as_mut_slice().fill(77);
                    stream.aim(operation, BLOCK, 5).unwrap();
                    stream.take(kernel);
                    stream.run(n);
                    stream.check().unwrap_or_else(|wrong| panic!("{kernel:?}: {wrong}"));
                    let behind = &stream.arena.as_slice()[stream.target().end..];
                    assert!(behind.iter().all(|byte| *byte == 77), "{kernel:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_not_done_is_seen() {
        for operation in OPERATIONS {
            let mut stream = stream(1 << 16);
            stream.aim(operation, 4096, 4).unwrap();
            stream.run(7);
            stream.laps += 1;
            // Repeated copies give the same result.
            assert_eq!(stream.check().is_err(), operation != Operation::Copy);
            stream.laps -= 1;
            let place = stream.target().start + 4096 + 123;
            stream.arena.as_mut_slice()[place] ^= 1;
            assert!(stream.check().is_err(), "{operation:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut stream = stream(1 << 16);
        assert!(stream.aim(Operation::Read, 1 << 16, 1).is_ok());
        assert!(stream.aim(Operation::Copy, 1 << 16, 1).is_err());
        assert!(stream.aim(Operation::Copy, 1 << 15, 1).is_ok());
        assert!(stream.aim(Operation::Write, 1 << 15, 3).is_err());
        assert!(stream.aim(Operation::Write, 1 << 15, usize::MAX).is_err());
        assert!(stream.aim(Operation::Write, 1000, 1).is_err());
        assert!(stream.aim(Operation::Read, 0, 1).is_err());
    }
}
