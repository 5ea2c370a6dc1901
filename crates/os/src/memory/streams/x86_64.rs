//! The kernels of x86-64: vectors of three widths, four and eight of them an iteration, and string
//! instructions. In the templates `\i` stands for the number of each vector of an iteration in turn.
//! Every vector register is named as overwritten, since `vzeroupper` clears the upper parts of all sixteen.

use std::arch::asm;

use super::{Instructions, Kernel, Operation, kernel};

/// Including those that this CPU lacks.
pub(super) fn every_kernel() -> impl Iterator<Item = &'static Kernel> {
    VECTORS.iter().flatten().flatten().chain(&STRINGS)
}

/// As large and as aligned as the largest vector.
#[repr(C, align(64))]
struct Line([u64; 8]);

/// A loop that adds up vectors.
macro_rules! read {
    ($instructions:ident $bytes:literal $register:literal $vectors:literal $others:literal
     $clear:literal $add:literal $fold:literal $move:literal $leave:literal) => {
        kernel!(Read, $instructions, $bytes, false, |from, _to, bytes, _byte| {
            let mut sums = Line([0; 8]);
            // SAFETY: the loop reads `bytes` bytes, as the caller allows; one vector is stored
            // behind it, which is no larger than `sums`, and as aligned.
            unsafe {
                asm!(
                    concat!(".irp i, 0, ", $others), $clear, ".endr",
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, 0, ", $others),
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
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
            sums.0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
        })
    };
}

/// A loop that stores one vector repeatedly.
macro_rules! write {
    ($operation:ident $nontemporal:literal
     $instructions:ident $bytes:literal $register:literal $vectors:literal $others:literal
     $spread:literal $store:literal $leave:literal) => {
        kernel!($operation, $instructions, $bytes, $nontemporal, |_from, to, bytes, byte| {
            // SAFETY: the loop writes `bytes` bytes, as the caller allows.
            unsafe {
                asm!(
                    "movq xmm0, {word}",
                    $spread,
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, 0, ", $others),
                    concat!($store, " [{to} + ", $bytes, " * \\i], ", $register, "0"),
                    ".endr",
                    concat!("add {to}, ", $bytes, " * ", $vectors),
                    "sub {left}, 1",
                    "jnz 2b",
                    $leave,
                    to = inout(reg) to => _,
                    left = inout(reg) bytes / ($bytes * $vectors) => _,
                    word = in(reg) u64::from_ne_bytes([byte; 8]),
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
            0
        })
    };
}

/// A loop that copies vectors.
macro_rules! copy {
    ($nontemporal:literal
     $instructions:ident $bytes:literal $register:literal $vectors:literal $others:literal
     $load:literal $store:literal $leave:literal) => {
        kernel!(Copy, $instructions, $bytes, $nontemporal, |from, to, bytes, _byte| {
            // SAFETY: the loop reads and writes `bytes` bytes, as the caller allows.
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    concat!(".irp i, 0, ", $others),
                    concat!($load, " ", $register, "\\i, [{from} + ", $bytes, " * \\i]"),
                    ".endr",
                    concat!(".irp i, 0, ", $others),
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
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
            0
        })
    };
}

/// The kernels of one width, given its instructions: clear a sum, add to it from memory, add two
/// sums, broadcast a word, move, store non-temporally, and clean up.
macro_rules! kernels {
    ($instructions:ident $bytes:literal $register:literal $steps:tt) => {
        [
            kernels!(@ $instructions $bytes $register 4 "1, 2, 3" $steps),
            kernels!(@ $instructions $bytes $register 8 "1, 2, 3, 4, 5, 6, 7" $steps),
        ]
    };
    (@ $instructions:ident $bytes:literal $register:literal $vectors:literal $others:literal {
        $clear:literal $add:literal $fold:literal
        $spread:literal $move:literal $stream:literal $leave:literal
    }) => {
        [
            read!($instructions $bytes $register $vectors $others $clear $add $fold $move $leave),
            write!(Write false $instructions $bytes $register $vectors $others
                $spread $move $leave),
            write!(WriteNontemporal true $instructions $bytes $register $vectors $others
                $spread $stream $leave),
            copy!(false $instructions $bytes $register $vectors $others $move $move $leave),
            copy!(true $instructions $bytes $register $vectors $others $move $stream $leave),
        ]
    };
}

/// The kernels of each width, with four and with eight vectors an iteration.
static VECTORS: [[[Kernel; 5]; 2]; 3] = [
    kernels!(Sse2 16 "xmm" {
        "pxor xmm\\i, xmm\\i" "paddq xmm\\i, " "paddq xmm0, xmm\\i"
        "punpcklqdq xmm0, xmm0" "movdqa" "movntdq" ""
    }),
    kernels!(Avx2 32 "ymm" {
        "vpxor xmm\\i, xmm\\i, xmm\\i" "vpaddq ymm\\i, ymm\\i, " "vpaddq ymm0, ymm0, ymm\\i"
        "vpbroadcastq ymm0, xmm0" "vmovdqa" "vmovntdq" "vzeroupper"
    }),
    kernels!(Avx512 64 "zmm" {
        "vpxor xmm\\i, xmm\\i, xmm\\i" "vpaddq zmm\\i, zmm\\i, " "vpaddq zmm0, zmm0, zmm\\i"
        "vpbroadcastq zmm0, xmm0" "vmovdqa64" "vmovntdq" "vzeroupper"
    }),
];

static STRINGS: [Kernel; 2] = [
    kernel!(Write, Rep, 1, false, |_from, to, bytes, byte| {
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
    }),
    kernel!(Copy, Rep, 1, false, |from, to, bytes, _byte| {
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
    }),
];
