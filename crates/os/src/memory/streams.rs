//! Measured: memory read, written or copied in order, as fast as one core can, by several kernels
//! of which the fastest here is found by trying.
//!
//! A kernel is one loop in assembly, so that the optimiser can neither leave out a load nor turn
//! stores into a call of `memset`. Reading adds every 64-bit word to a sum, which must come out
//! right; writing stores one byte everywhere, another one each lap; copying moves words that are
//! all different.
//!
//! In a write or a copy through the caches, each line is first read from memory and later written
//! back (write-allocate), so that more moves than what is counted. Non-temporal stores do without
//! the reading, and so do many processors' string instructions when much is moved.
//!
//! Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, 3.7.6 "REP prefix and
//! data movement" (ERMSB) and 9.4.1 "Non-temporal store"; AMD64 Architecture Programmer's Manual,
//! volume 1, 5.6 "Streaming stores"; Arm Architecture Reference Manual, C3.2.4 "LDNP, STNP".

use std::arch::asm;
use std::io;
use std::ops::Range;

use crate::memory::arena::Arena;

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
    /// 16-byte vectors of x86-64, which each such processor has.
    Sse2,
    /// 32-byte vectors of x86-64.
    Avx2,
    /// 64-byte vectors of x86-64.
    Avx512,
    /// `rep stosb` and `rep movsb` of x86-64, where the processor says that they are fast (ERMS).
    Rep,
    /// 16-byte vectors of aarch64, in pairs: `ldp`, `stp`, `stnp`.
    Neon,
}

/// One way to perform an operation.
#[derive(Debug)]
pub struct Kernel {
    /// What it performs.
    pub operation: Operation,
    /// What it is made of.
    pub instructions: Instructions,
    /// Bytes that one of its instructions moves; 1 for a string instruction.
    pub vector_bytes: u32,
    /// Whether its stores are non-temporal.
    pub nontemporal: bool,
    /// Streams `bytes` bytes, a multiple of [`GRAIN_BYTES`], from `from` or to `to` or both, which
    /// are aligned to 64 bytes. Writing stores `byte`. Returns the sum of what was read.
    stream: unsafe fn(from: *const u8, to: *mut u8, bytes: usize, byte: u8) -> u64,
}

/// What is streamed at once is a multiple of this, so that no kernel has a remainder.
pub const GRAIN_BYTES: usize = 1024;

impl Instructions {
    /// Whether this processor has them, and the kernel lets them be used.
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

    /// Whether this processor has them, and the kernel lets them be used.
    #[cfg(target_arch = "aarch64")]
    pub fn available(self) -> bool {
        self == Self::Neon
    }
}

impl Kernel {
    /// Every kernel that performs `operation` and can run here.
    pub fn all(operation: Operation) -> impl Iterator<Item = &'static Kernel> {
        KERNELS
            .iter()
            .copied()
            .flatten()
            .filter(move |kernel| kernel.operation == operation && kernel.instructions.available())
    }
}

/// An arena that is streamed through, block by block, from its start to its end and again from its
/// start, and what must be in it afterwards.
#[derive(Debug)]
pub struct Stream {
    arena: Arena,
    kernel: &'static Kernel,
    block_bytes: usize,
    blocks: usize,
    /// The block to stream next.
    next: usize,
    /// Times that the last block has been streamed.
    laps: u64,
    /// Of everything that was read.
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

    /// A stream through an arena, aimed at nothing yet.
    pub fn new(arena: Arena) -> Self {
        Self {
            arena,
            kernel: &KERNELS[0][0],
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

    /// Puts every page of the arena into memory, near the processor of the calling thread.
    ///
    /// # Errors
    ///
    /// Those of [`Arena::populate`].
    pub fn populate(&mut self) -> io::Result<()> {
        self.arena.populate()
    }

    /// Aims at `blocks` blocks of `block_bytes` bytes, and lays down what `operation` starts from:
    /// different words to read or to copy, zeroes where it writes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the arena is smaller than [`Stream::arena_bytes`] of that much, or a block
    /// is no multiple of [`GRAIN_BYTES`], or there is none.
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
        self.kernel = Kernel::all(operation)
            .next()
            .expect("each architecture has a kernel for every operation");
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

    /// From now on this kernel streams.
    ///
    /// # Panics
    ///
    /// If it performs another operation than the stream is aimed at, or cannot run here.
    pub fn take(&mut self, kernel: &'static Kernel) {
        assert_eq!(kernel.operation, self.kernel.operation);
        assert!(kernel.instructions.available());
        self.kernel = kernel;
    }

    /// Streams the next `n` blocks, and waits until what was stored past the caches is on its way.
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
            // 64 bytes, as the arena is and `GRAIN_BYTES` is; the processor has the instructions,
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
            // SAFETY: a fence touches no memory, and each x86-64 processor has it.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }

    /// Whether the memory and the sum are what they must be after all that has run.
    ///
    /// # Errors
    ///
    /// A sentence that says what is not.
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
                        return wrong("is not what it was copied from");
                    }
                }
                _ => {
                    let byte = visits.checked_sub(1).map_or(0, byte_of_lap);
                    let block = &target[bytes];
                    // All bytes are alike where each is like the one before it.
                    if block[0] != byte || block[1..] != block[..block.len() - 1] {
                        return wrong("does not hold what was written last");
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

/// What a lap writes: something else than the lap before, and never zero, since lines of zeroes may
/// be moved faster (three times on an AMD EPYC, seen in 2026).
fn byte_of_lap(lap: u64) -> u8 {
    (lap % 255) as u8 + 1
}

fn sum_of_words(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(u64::from_ne_bytes(*word))
    })
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// A loop that adds up what it reads, a vector at a time. In the templates here, `\i` stands for
/// the number of each vector of an iteration in turn.
#[cfg(target_arch = "x86_64")]
macro_rules! read {
    ($bytes:literal $register:literal $vectors:literal $numbers:literal $others:literal
     $clear:literal $add:literal $fold:literal $move:literal $leave:literal) => {{
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn read(from: *const u8, _: *mut u8, bytes: usize, _: u8) -> u64 {
            let mut sums = Line([0; 8]);
            // SAFETY: the loop reads `bytes` bytes, as the caller allows; one vector is stored
            // behind it, which is no larger than `sums`, and as aligned.
            unsafe {
                asm!(
                    concat!(".irp i, ", $numbers), $clear, ".endr",
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, ", $numbers),
                    concat!($add, "[{from} + ", $bytes, " * \\i]"),
                    ".endr",
                    concat!("add {from}, ", $bytes, " * ", $vectors),
                    "sub {left}, 1",
                    "jnz 2b",
                    concat!(".irp i, ", $others), $fold, ".endr",
                    concat!($move, " [{sums}], ", $register, "0"),
                    $leave,
                    from = inout(reg) from => _,
                    left = inout(reg) bytes / ($bytes * $vectors) => _,
                    sums = in(reg) sums.0.as_mut_ptr(),
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack),
                );
            }
            sums.0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
        }
        read
    }};
}

/// A loop that stores one vector everywhere.
#[cfg(target_arch = "x86_64")]
macro_rules! write {
    ($bytes:literal $register:literal $vectors:literal $numbers:literal
     $spread:literal $store:literal $leave:literal) => {{
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn write(_: *const u8, to: *mut u8, bytes: usize, byte: u8) -> u64 {
            // SAFETY: the loop writes `bytes` bytes, as the caller allows.
            unsafe {
                asm!(
                    "movq xmm0, {word}",
                    $spread,
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, ", $numbers),
                    concat!($store, " [{to} + ", $bytes, " * \\i], ", $register, "0"),
                    ".endr",
                    concat!("add {to}, ", $bytes, " * ", $vectors),
                    "sub {left}, 1",
                    "jnz 2b",
                    $leave,
                    to = inout(reg) to => _,
                    left = inout(reg) bytes / ($bytes * $vectors) => _,
                    word = in(reg) u64::from_ne_bytes([byte; 8]),
                    out("xmm0") _,
                    options(nostack),
                );
            }
            0
        }
        write
    }};
}

/// A loop that loads some vectors and stores them elsewhere.
#[cfg(target_arch = "x86_64")]
macro_rules! copy {
    ($bytes:literal $register:literal $vectors:literal $numbers:literal
     $load:literal $store:literal $leave:literal) => {{
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, _: u8) -> u64 {
            // SAFETY: the loop reads and writes `bytes` bytes, as the caller allows.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, ", $numbers),
                    concat!($load, " ", $register, "\\i, [{from} + ", $bytes, " * \\i]"),
                    ".endr",
                    concat!(".irp i, ", $numbers),
                    concat!($store, " [{to} + ", $bytes, " * \\i], ", $register, "\\i"),
                    ".endr",
                    concat!("add {from}, ", $bytes, " * ", $vectors),
                    concat!("add {to}, ", $bytes, " * ", $vectors),
                    "sub {left}, 1",
                    "jnz 2b",
                    $leave,
                    from = inout(reg) from => _,
                    to = inout(reg) to => _,
                    left = inout(reg) bytes / ($bytes * $vectors) => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    options(nostack),
                );
            }
            0
        }
        copy
    }};
}

/// The five kernels of one width, by what one step of each is.
#[cfg(target_arch = "x86_64")]
macro_rules! kernels {
    ($instructions:ident: $bytes:literal $register:literal,
     $vectors:literal $numbers:literal $others:literal,
     $clear:literal, $add:literal, $fold:literal, $spread:literal,
     $move:literal, $stream:literal, $leave:literal) => {
        [
            vectors(
                Operation::Read,
                Instructions::$instructions,
                $bytes,
                false,
                read!($bytes $register $vectors $numbers $others $clear $add $fold $move $leave),
            ),
            vectors(
                Operation::Write,
                Instructions::$instructions,
                $bytes,
                false,
                write!($bytes $register $vectors $numbers $spread $move $leave),
            ),
            vectors(
                Operation::WriteNontemporal,
                Instructions::$instructions,
                $bytes,
                true,
                write!($bytes $register $vectors $numbers $spread $stream $leave),
            ),
            vectors(
                Operation::Copy,
                Instructions::$instructions,
                $bytes,
                false,
                copy!($bytes $register $vectors $numbers $move $move $leave),
            ),
            vectors(
                Operation::Copy,
                Instructions::$instructions,
                $bytes,
                true,
                copy!($bytes $register $vectors $numbers $move $stream $leave),
            ),
        ]
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! sse2 {
    ($vectors:literal $numbers:literal $others:literal) => {
        kernels!(
            Sse2: 16 "xmm", $vectors $numbers $others,
            "pxor xmm\\i, xmm\\i", "paddq xmm\\i, ", "paddq xmm0, xmm\\i",
            "punpcklqdq xmm0, xmm0", "movdqa", "movntdq", ""
        )
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! avx2 {
    ($vectors:literal $numbers:literal $others:literal) => {
        kernels!(
            Avx2: 32 "ymm", $vectors $numbers $others,
            "vpxor xmm\\i, xmm\\i, xmm\\i", "vpaddq ymm\\i, ymm\\i, ", "vpaddq ymm0, ymm0, ymm\\i",
            "vpbroadcastq ymm0, xmm0", "vmovdqa", "vmovntdq", "vzeroupper"
        )
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($vectors:literal $numbers:literal $others:literal) => {
        kernels!(
            Avx512: 64 "zmm", $vectors $numbers $others,
            "vpxor xmm\\i, xmm\\i, xmm\\i", "vpaddq zmm\\i, zmm\\i, ", "vpaddq zmm0, zmm0, zmm\\i",
            "vpbroadcastq zmm0, xmm0", "vmovdqa64", "vmovntdq", "vzeroupper"
        )
    };
}

/// The kernels of each width, with four and with eight vectors an iteration.
#[cfg(target_arch = "x86_64")]
static KERNELS: &[&[Kernel]] = &[
    &sse2!(4 "0, 1, 2, 3" "1, 2, 3"),
    &sse2!(8 "0, 1, 2, 3, 4, 5, 6, 7" "1, 2, 3, 4, 5, 6, 7"),
    &avx2!(4 "0, 1, 2, 3" "1, 2, 3"),
    &avx2!(8 "0, 1, 2, 3, 4, 5, 6, 7" "1, 2, 3, 4, 5, 6, 7"),
    &avx512!(4 "0, 1, 2, 3" "1, 2, 3"),
    &avx512!(8 "0, 1, 2, 3, 4, 5, 6, 7" "1, 2, 3, 4, 5, 6, 7"),
    &[
        vectors(Operation::Write, Instructions::Rep, 1, false, string_write),
        vectors(Operation::Copy, Instructions::Rep, 1, false, string_copy),
    ],
];

#[cfg(target_arch = "aarch64")]
static KERNELS: &[&[Kernel]] = &[&[
    vectors(Operation::Read, Instructions::Neon, 16, false, neon_read),
    vectors(Operation::Write, Instructions::Neon, 16, false, neon_write),
    vectors(
        Operation::WriteNontemporal,
        Instructions::Neon,
        16,
        true,
        neon_write_nontemporal,
    ),
    vectors(Operation::Copy, Instructions::Neon, 16, false, neon_copy),
    vectors(
        Operation::Copy,
        Instructions::Neon,
        16,
        true,
        neon_copy_nontemporal,
    ),
]];

/// A kernel, without its fields' names.
const fn vectors(
    operation: Operation,
    instructions: Instructions,
    vector_bytes: u32,
    nontemporal: bool,
    stream: unsafe fn(*const u8, *mut u8, usize, u8) -> u64,
) -> Kernel {
    Kernel {
        operation,
        instructions,
        vector_bytes,
        nontemporal,
        stream,
    }
}

/// As large and as aligned as the largest vector.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// # Safety
///
/// As [`Kernel::stream`] says.
#[cfg(target_arch = "x86_64")]
unsafe fn string_write(_: *const u8, to: *mut u8, bytes: usize, byte: u8) -> u64 {
    // SAFETY: `bytes` bytes are written, as the caller allows; the direction flag is clear on
    // entry, as the calling convention demands.
    unsafe {
        asm!(
            "rep stosb",
            inout("rdi") to => _,
            inout("rcx") bytes => _,
            in("al") byte,
            options(nostack, preserves_flags),
        );
    }
    0
}

/// # Safety
///
/// As [`Kernel::stream`] says.
#[cfg(target_arch = "x86_64")]
unsafe fn string_copy(from: *const u8, to: *mut u8, bytes: usize, _: u8) -> u64 {
    // SAFETY: `bytes` bytes are read and written, as the caller allows; the direction flag is
    // clear on entry, as the calling convention demands.
    unsafe {
        asm!(
            "rep movsb",
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") bytes => _,
            options(nostack, preserves_flags),
        );
    }
    0
}

/// # Safety
///
/// As [`Kernel::stream`] says.
#[cfg(target_arch = "aarch64")]
unsafe fn neon_read(from: *const u8, _: *mut u8, bytes: usize, _: u8) -> u64 {
    let sum;
    // SAFETY: the loop reads `bytes` bytes, 128 an iteration, as the caller allows.
    unsafe {
        asm!(
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            ".p2align 6",
            "2:",
            "ldp q4, q5, [{from}]",
            "ldp q6, q7, [{from}, #32]",
            "ldp q16, q17, [{from}, #64]",
            "ldp q18, q19, [{from}, #96]",
            "add v0.2d, v0.2d, v4.2d",
            "add v1.2d, v1.2d, v5.2d",
            "add v2.2d, v2.2d, v6.2d",
            "add v3.2d, v3.2d, v7.2d",
            "add v0.2d, v0.2d, v16.2d",
            "add v1.2d, v1.2d, v17.2d",
            "add v2.2d, v2.2d, v18.2d",
            "add v3.2d, v3.2d, v19.2d",
            "add {from}, {from}, #128",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "add v0.2d, v0.2d, v1.2d",
            "add v2.2d, v2.2d, v3.2d",
            "add v0.2d, v0.2d, v2.2d",
            "addp d0, v0.2d",
            "fmov {sum}, d0",
            from = inout(reg) from => _,
            left = inout(reg) bytes / 128 => _,
            sum = lateout(reg) sum,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            out("v4") _, out("v5") _, out("v6") _, out("v7") _,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            options(nostack, readonly),
        );
    }
    sum
}

/// Defines a loop that stores one pair of vectors everywhere.
#[cfg(target_arch = "aarch64")]
macro_rules! neon_writes {
    ($($name:ident $store:literal)*) => {$(
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn $name(_: *const u8, to: *mut u8, bytes: usize, byte: u8) -> u64 {
            // SAFETY: the loop writes `bytes` bytes, 128 an iteration, as the caller allows.
            unsafe {
                asm!(
                    "dup v0.2d, {word}",
                    ".p2align 6",
                    "2:",
                    concat!($store, " q0, q0, [{to}]"),
                    concat!($store, " q0, q0, [{to}, #32]"),
                    concat!($store, " q0, q0, [{to}, #64]"),
                    concat!($store, " q0, q0, [{to}, #96]"),
                    "add {to}, {to}, #128",
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    to = inout(reg) to => _,
                    left = inout(reg) bytes / 128 => _,
                    word = in(reg) u64::from_ne_bytes([byte; 8]),
                    out("v0") _,
                    options(nostack),
                );
            }
            0
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
neon_writes! {
    neon_write "stp"
    neon_write_nontemporal "stnp"
}

/// Defines a loop that loads pairs of vectors and stores them elsewhere.
#[cfg(target_arch = "aarch64")]
macro_rules! neon_copies {
    ($($name:ident $store:literal)*) => {$(
        /// # Safety
        ///
        /// As [`Kernel::stream`] says.
        unsafe fn $name(from: *const u8, to: *mut u8, bytes: usize, _: u8) -> u64 {
            // SAFETY: the loop reads and writes `bytes` bytes, 128 an iteration, as the caller
            // allows.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    "ldp q0, q1, [{from}]",
                    "ldp q2, q3, [{from}, #32]",
                    "ldp q4, q5, [{from}, #64]",
                    "ldp q6, q7, [{from}, #96]",
                    concat!($store, " q0, q1, [{to}]"),
                    concat!($store, " q2, q3, [{to}, #32]"),
                    concat!($store, " q4, q5, [{to}, #64]"),
                    concat!($store, " q6, q7, [{to}, #96]"),
                    "add {from}, {from}, #128",
                    "add {to}, {to}, #128",
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    from = inout(reg) from => _,
                    to = inout(reg) to => _,
                    left = inout(reg) bytes / 128 => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                    options(nostack),
                );
            }
            0
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
neon_copies! {
    neon_copy "stp"
    neon_copy_nontemporal "stnp"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::PageSize;

    const OPERATIONS: [Operation; 4] = [
        Operation::Read,
        Operation::Write,
        Operation::WriteNontemporal,
        Operation::Copy,
    ];

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
                    stream
                        .check()
                        .unwrap_or_else(|wrong| panic!("{kernel:?}: {wrong}"));
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
            // A copy is the same however often it is made.
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
