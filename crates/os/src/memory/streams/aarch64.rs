//! The kernels of aarch64: 16-byte vectors in pairs.

use std::arch::asm;

use super::{Instructions, Kernel, Operation, kernel};

pub(super) fn every_kernel() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter()
}

/// A loop that stores one pair of vectors repeatedly.
macro_rules! write {
    ($operation:ident, $nontemporal:literal, $store:literal) => {
        kernel!($operation, Neon, 16, $nontemporal, |_from, to, bytes, byte| {
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
        })
    };
}

/// A loop that copies pairs of vectors.
macro_rules! copy {
    ($nontemporal:literal, $store:literal) => {
        kernel!(Copy, Neon, 16, $nontemporal, |from, to, bytes, _byte| {
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
        })
    };
}

static KERNELS: [Kernel; 5] = [
    kernel!(Read, Neon, 16, false, |from, _to, bytes, _byte| {
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
    }),
    write!(Write, false, "stp"),
    write!(WriteNontemporal, true, "stnp"),
    copy!(false, "stp"),
    copy!(true, "stnp"),
];
