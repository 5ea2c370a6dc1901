//! Measured: real procedure calls, by the type and number of their arguments.
//!
//! A callee is written in assembly, so the optimiser can neither inline it, nor move it out of the
//! loop, nor omit an argument. It adds its arguments and returns the sum, which shows that each
//! argument arrived. The caller is compiled Rust and sets up every argument again for each call, by
//! the platform's C calling convention.
//!
//! The figure of one call includes: setting up the arguments, `call` and `ret`, one addition per
//! argument in the callee, and one eighth of the loop's own subtraction and branch. Calls do not
//! wait for each other's results, so the figure is a throughput: what the core does in parallel
//! with `call` and `ret` costs nothing (on Zen 5 a call takes 4 cycles with no argument and with
//! seven integers).
//!
//! Source: System V ABI for AMD64, 3.2.3 "Parameter Passing" (six integers and eight
//! floating-point numbers in registers, larger structures on the stack); Procedure Call Standard
//! for the Arm 64-bit Architecture, 6.8.2 (structures over 16 bytes are copied, and a pointer to
//! the copy is passed).

use callees::*;
use std::arch::naked_asm;
use std::hint::black_box;

/// The type of a measured call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentKind {
    /// 64-bit integers, in registers; the seventh on the stack on x86-64.
    Int,
    /// 32-bit floating-point numbers, in registers.
    Float,
    /// 64-bit floating-point numbers, in registers.
    Double,
    /// Structures of 32 bytes by value: copied to the stack for every call.
    Struct,
}

impl ArgumentKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Int, Self::Float, Self::Double, Self::Struct];
}

/// The largest number of arguments that [`call`] knows.
pub const MOST_ARGUMENTS: u8 = 7;

/// Makes `n` calls with `arguments` arguments of one kind, whose values are 1, 2, 3 and so on (a structure
/// holds its number in its first word). Chooses the callee once, before the loop.
///
/// Returns what the last call returned, the sum of its arguments: k (k + 1) ÷ 2 for k of them; zero
/// for no call.
///
/// # Panics
///
/// If `arguments` exceeds [`MOST_ARGUMENTS`].
pub fn call(kind: ArgumentKind, arguments: u8, n: u64) -> u64 {
    use ArgumentKind::{Double, Float, Int, Struct};
    // Unknown to the optimiser, so that each call copies them, as from a variable.
    let blocks = black_box([1, 2, 3, 4, 5, 6, 7].map(|number| Block {
        words: [number, 0, 0, 0],
    }));
    match (kind, arguments) {
        (Int, 0) => repeat(n, || int_0()),
        (Int, 1) => repeat(n, || int_1(1)),
        (Int, 2) => repeat(n, || int_2(1, 2)),
        (Int, 3) => repeat(n, || int_3(1, 2, 3)),
        (Int, 4) => repeat(n, || int_4(1, 2, 3, 4)),
        (Int, 5) => repeat(n, || int_5(1, 2, 3, 4, 5)),
        (Int, 6) => repeat(n, || int_6(1, 2, 3, 4, 5, 6)),
        (Int, 7) => repeat(n, || int_7(1, 2, 3, 4, 5, 6, 7)),
        (Float, 0) => repeat(n, || float_0()) as u64,
        (Float, 1) => repeat(n, || float_1(1.0)) as u64,
        (Float, 2) => repeat(n, || float_2(1.0, 2.0)) as u64,
        (Float, 3) => repeat(n, || float_3(1.0, 2.0, 3.0)) as u64,
        (Float, 4) => repeat(n, || float_4(1.0, 2.0, 3.0, 4.0)) as u64,
        (Float, 5) => repeat(n, || float_5(1.0, 2.0, 3.0, 4.0, 5.0)) as u64,
        (Float, 6) => repeat(n, || float_6(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)) as u64,
        (Float, 7) => repeat(n, || float_7(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)) as u64,
        (Double, 0) => repeat(n, || double_0()) as u64,
        (Double, 1) => repeat(n, || double_1(1.0)) as u64,
        (Double, 2) => repeat(n, || double_2(1.0, 2.0)) as u64,
        (Double, 3) => repeat(n, || double_3(1.0, 2.0, 3.0)) as u64,
        (Double, 4) => repeat(n, || double_4(1.0, 2.0, 3.0, 4.0)) as u64,
        (Double, 5) => repeat(n, || double_5(1.0, 2.0, 3.0, 4.0, 5.0)) as u64,
        (Double, 6) => repeat(n, || double_6(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)) as u64,
        (Double, 7) => repeat(n, || double_7(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)) as u64,
        (Struct, 0) => repeat(n, || struct_0()),
        (Struct, 1) => repeat(n, || struct_1(blocks[0])),
        (Struct, 2) => repeat(n, || struct_2(blocks[0], blocks[1])),
        (Struct, 3) => repeat(n, || struct_3(blocks[0], blocks[1], blocks[2])),
        (Struct, 4) => repeat(n, || struct_4(blocks[0], blocks[1], blocks[2], blocks[3])),
        (Struct, 5) => repeat(n, || {
            struct_5(blocks[0], blocks[1], blocks[2], blocks[3], blocks[4])
        }),
        (Struct, 6) => repeat(n, || {
            struct_6(
                blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5],
            )
        }),
        (Struct, 7) => repeat(n, || {
            struct_7(
                blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5], blocks[6],
            )
        }),
        (_, 8..) => panic!("at most {MOST_ARGUMENTS} arguments, not {arguments}"),
    }
}

/// Calls `n` times, and returns what the last call returned.
#[inline(always)]
fn repeat<Sum: Default>(n: u64, call: impl Fn() -> Sum) -> Sum {
    let mut last = Sum::default();
    crate::cpu::repeat::repeat(n, || last = call());
    last
}

/// A structure too large for registers on both architectures.
#[repr(C)]
#[derive(Clone, Copy)]
struct Block {
    words: [u64; 4],
}

/// Defines callees of one kind, each by its own instructions. Each has one argument more than the one before
/// it, and executes that one's instructions before its own.
macro_rules! callees {
    ($argument:ty => $sum:ty { $none:ident: $zero:literal; $($more:tt)* }) => {
        callees!(@define $none() -> $sum { $zero });
        callees!(@next $argument => $sum, [$argument], [] $($more)*);
    };
    (@next $argument:ty => $sum:ty, [$($arguments:ty),*], [$($before:literal)*]) => {};
    (@next $argument:ty => $sum:ty, [$($arguments:ty),*], [$($before:literal)*]
        $name:ident: $($code:literal)*; $($more:tt)*
    ) => {
        callees!(@define $name($($arguments),*) -> $sum { $($before)* $($code)* });
        callees!(@next $argument => $sum, [$($arguments,)* $argument], [$($before)* $($code)*]
            $($more)*);
    };
    (@define $name:ident($($argument:ty),*) -> $sum:ty { $($code:literal)* }) => {
        // Sound to call: the body reads its arguments and the registers that carry them, writes
        // only the result register and registers that the callee owns, and returns.
        #[unsafe(naked)]
        pub(super) extern "C" fn $name($(_: $argument),*) -> $sum {
            // The alignment of its end is that of its section, and so of its begin.
            naked_asm!($($code,)* "ret", ".p2align 6")
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod callees {
    use super::{Block, naked_asm};

    callees! { u64 => u64 {
        int_0: "xor eax, eax";
        int_1: "mov rax, rdi";
        int_2: "add rax, rsi";
        int_3: "add rax, rdx";
        int_4: "add rax, rcx";
        int_5: "add rax, r8";
        int_6: "add rax, r9";
        int_7: "add rax, [rsp + 8]";
    }}
    callees! { f32 => f32 {
        float_0: "xorps xmm0, xmm0";
        float_1:;
        float_2: "addss xmm0, xmm1";
        float_3: "addss xmm0, xmm2";
        float_4: "addss xmm0, xmm3";
        float_5: "addss xmm0, xmm4";
        float_6: "addss xmm0, xmm5";
        float_7: "addss xmm0, xmm6";
    }}
    callees! { f64 => f64 {
        double_0: "xorps xmm0, xmm0";
        double_1:;
        double_2: "addsd xmm0, xmm1";
        double_3: "addsd xmm0, xmm2";
        double_4: "addsd xmm0, xmm3";
        double_5: "addsd xmm0, xmm4";
        double_6: "addsd xmm0, xmm5";
        double_7: "addsd xmm0, xmm6";
    }}
    callees! { Block => u64 {
        struct_0: "xor eax, eax";
        struct_1: "mov rax, [rsp + 8]";
        struct_2: "add rax, [rsp + 40]";
        struct_3: "add rax, [rsp + 72]";
        struct_4: "add rax, [rsp + 104]";
        struct_5: "add rax, [rsp + 136]";
        struct_6: "add rax, [rsp + 168]";
        struct_7: "add rax, [rsp + 200]";
    }}
}

#[cfg(target_arch = "aarch64")]
mod callees {
    use super::{Block, naked_asm};

    callees! { u64 => u64 {
        int_0: "mov x0, #0";
        int_1:;
        int_2: "add x0, x0, x1";
        int_3: "add x0, x0, x2";
        int_4: "add x0, x0, x3";
        int_5: "add x0, x0, x4";
        int_6: "add x0, x0, x5";
        int_7: "add x0, x0, x6";
    }}
    callees! { f32 => f32 {
        float_0: "fmov s0, wzr";
        float_1:;
        float_2: "fadd s0, s0, s1";
        float_3: "fadd s0, s0, s2";
        float_4: "fadd s0, s0, s3";
        float_5: "fadd s0, s0, s4";
        float_6: "fadd s0, s0, s5";
        float_7: "fadd s0, s0, s6";
    }}
    callees! { f64 => f64 {
        double_0: "fmov d0, xzr";
        double_1:;
        double_2: "fadd d0, d0, d1";
        double_3: "fadd d0, d0, d2";
        double_4: "fadd d0, d0, d3";
        double_5: "fadd d0, d0, d4";
        double_6: "fadd d0, d0, d5";
        double_7: "fadd d0, d0, d6";
    }}
    callees! { Block => u64 {
        struct_0: "mov x0, #0";
        struct_1: "ldr x0, [x0]";
        struct_2: "ldr x8, [x1]" "add x0, x0, x8";
        struct_3: "ldr x8, [x2]" "add x0, x0, x8";
        struct_4: "ldr x8, [x3]" "add x0, x0, x8";
        struct_5: "ldr x8, [x4]" "add x0, x0, x8";
        struct_6: "ldr x8, [x5]" "add x0, x0, x8";
        struct_7: "ldr x8, [x6]" "add x0, x0, x8";
    }}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_arrives() {
        for kind in ArgumentKind::ALL {
            for arguments in 0..=MOST_ARGUMENTS {
                let sum = u64::from(arguments) * (u64::from(arguments) + 1) / 2;
                for n in [1, 7, 8, 1_000] {
                    assert_eq!(call(kind, arguments, n), sum, "{kind:?} {arguments} {n}");
                }
                assert_eq!(call(kind, arguments, 0), 0);
            }
        }
    }
}
