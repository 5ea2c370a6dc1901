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
    /// 64-bit floating-point numbers, in registers.
    Double,
    /// Structures of 32 bytes by value: copied to the stack for every call.
    Struct,
    /// 32-bit floating-point numbers, of a callee as `gcc -O0` compiles it: a frame pointer, and each argument stored on
    /// the stack and loaded again. The caller sets up constants as unoptimised code does.
    UnoptimisedFloat,
    /// As [`Self::Double`], of such a callee.
    UnoptimisedDouble,
}

#[cfg(test)]
impl ArgumentKind {
    /// Every kind, in the order of declaration.
    pub(crate) const ALL: [Self; 5] =
        [Self::Int, Self::Double, Self::Struct, Self::UnoptimisedFloat, Self::UnoptimisedDouble];
}

/// The largest number of arguments that [`call`] knows.
pub const MAX_ARGUMENTS: u8 = 7;

/// Chooses the callee of a module by the number of its arguments, and calls it `n` times.
macro_rules! calls {
    ($callees:ident in $arguments:expr, $n:expr;
        $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr, $g:expr
    ) => {
        match $arguments {
            0 => repeat($n, || $callees::of_0()),
            1 => repeat($n, || $callees::of_1($a)),
            2 => repeat($n, || $callees::of_2($a, $b)),
            3 => repeat($n, || $callees::of_3($a, $b, $c)),
            4 => repeat($n, || $callees::of_4($a, $b, $c, $d)),
            5 => repeat($n, || $callees::of_5($a, $b, $c, $d, $e)),
            6 => repeat($n, || $callees::of_6($a, $b, $c, $d, $e, $f)),
            7 => repeat($n, || $callees::of_7($a, $b, $c, $d, $e, $f, $g)),
            more => panic!("at most {MAX_ARGUMENTS} arguments, not {more}"),
        }
    };
}

/// Makes `n` calls with `arguments` arguments of one kind, whose values are 1, 2, 3 and so on (a structure
/// holds its number in its first word). Chooses the callee once, before the loop.
///
/// Returns what the last call returned, the sum of its arguments: k (k + 1) ÷ 2 for k of them; zero
/// for no call.
///
/// # Panics
///
/// If `arguments` exceeds [`MAX_ARGUMENTS`].
pub fn call(kind: ArgumentKind, arguments: u8, n: u64) -> u64 {
    // Unknown to the optimiser, so that each call copies them, as from a variable.
    let [a, b, c, d, e, f, g] =
        black_box([1, 2, 3, 4, 5, 6, 7].map(|number| Block { words: [number, 0, 0, 0] }));
    macro_rules! numbers {
        ($callees:ident) => {
            calls!($callees in arguments, n; 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0) as u64
        };
    }
    match kind {
        ArgumentKind::Int => calls!(int in arguments, n; 1, 2, 3, 4, 5, 6, 7),
        ArgumentKind::Double => numbers!(double),
        ArgumentKind::Struct => calls!(structure in arguments, n; a, b, c, d, e, f, g),
        ArgumentKind::UnoptimisedFloat => numbers!(unoptimised_float),
        ArgumentKind::UnoptimisedDouble => numbers!(unoptimised_double),
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

/// Defines a module with the callees of one kind. Each has one argument more than the one before it, and executes
/// that one's instructions before its own: of each argument's `save` first, then of each argument's `add`.
macro_rules! callees {
    ($module:ident: $argument:ty => $sum:ty, [$($enter:literal)*], [$($leave:literal)*] {
        $zero:literal; $($more:tt)*
    }) => {
        pub(in crate::cpu::calls) mod $module {
            use super::*;

            callees!(@define of_0() -> $sum { $($enter)* $zero $($leave)* });
            callees!(@next $argument => $sum, [$($enter)*], [$($leave)*], [of_1 of_2 of_3 of_4 of_5 of_6 of_7],
                [$argument], [], [] $($more)*);
        }
    };
    (@next $argument:ty => $sum:ty, [$($enter:literal)*], [$($leave:literal)*], [],
        [$($arguments:ty),*], [$($saved:literal)*], [$($added:literal)*]
    ) => {};
    (@next $argument:ty => $sum:ty, [$($enter:literal)*], [$($leave:literal)*], [$name:ident $($names:ident)*],
        [$($arguments:ty),*], [$($saved:literal)*], [$($added:literal)*]
        [$($save:literal)*] [$($add:literal)*]; $($more:tt)*
    ) => {
        callees!(@define $name($($arguments),*) -> $sum {
            $($enter)* $($saved)* $($save)* $($added)* $($add)* $($leave)*
        });
        callees!(@next $argument => $sum, [$($enter)*], [$($leave)*], [$($names)*],
            [$($arguments,)* $argument], [$($saved)* $($save)*], [$($added)* $($add)*] $($more)*);
    };
    (@define $name:ident($($argument:ty),*) -> $sum:ty { $($code:literal)* }) => {
        // Sound to call: the body reads its arguments and the registers that carry them, writes
        // only the result register, registers that the callee owns and its own stack, and returns.
        #[unsafe(naked)]
        pub(in crate::cpu::calls) extern "C" fn $name($(_: $argument),*) -> $sum {
            // The alignment of its end is that of its section, and so of its begin.
            naked_asm!($($code,)* "ret", ".p2align 6")
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod callees {
    use super::{Block, naked_asm};

    callees! { int: u64 => u64, [], [] {
        "xor eax, eax";
        [] ["mov rax, rdi"];
        [] ["add rax, rsi"];
        [] ["add rax, rdx"];
        [] ["add rax, rcx"];
        [] ["add rax, r8"];
        [] ["add rax, r9"];
        [] ["add rax, [rsp + 8]"];
    }}
    callees! { double: f64 => f64, [], [] {
        "xorps xmm0, xmm0";
        [] [];
        [] ["addsd xmm0, xmm1"];
        [] ["addsd xmm0, xmm2"];
        [] ["addsd xmm0, xmm3"];
        [] ["addsd xmm0, xmm4"];
        [] ["addsd xmm0, xmm5"];
        [] ["addsd xmm0, xmm6"];
    }}
    callees! { structure: Block => u64, [], [] {
        "xor eax, eax";
        [] ["mov rax, [rsp + 8]"];
        [] ["add rax, [rsp + 40]"];
        [] ["add rax, [rsp + 72]"];
        [] ["add rax, [rsp + 104]"];
        [] ["add rax, [rsp + 136]"];
        [] ["add rax, [rsp + 168]"];
        [] ["add rax, [rsp + 200]"];
    }}
    // As gcc 12 compiles them; what is stored lies in the red zone.
    callees! { unoptimised_float: f32 => f32, ["push rbp" "mov rbp, rsp"], ["pop rbp"] {
        "pxor xmm0, xmm0";
        ["movss [rbp - 4], xmm0"] ["movss xmm0, [rbp - 4]"];
        ["movss [rbp - 8], xmm1"] ["addss xmm0, [rbp - 8]"];
        ["movss [rbp - 12], xmm2"] ["addss xmm0, [rbp - 12]"];
        ["movss [rbp - 16], xmm3"] ["addss xmm0, [rbp - 16]"];
        ["movss [rbp - 20], xmm4"] ["addss xmm0, [rbp - 20]"];
        ["movss [rbp - 24], xmm5"] ["addss xmm0, [rbp - 24]"];
        ["movss [rbp - 28], xmm6"] ["addss xmm0, [rbp - 28]"];
    }}
    callees! { unoptimised_double: f64 => f64, ["push rbp" "mov rbp, rsp"], ["movq rax, xmm0" "movq xmm0, rax" "pop rbp"] {
        "pxor xmm0, xmm0";
        ["movsd [rbp - 8], xmm0"] ["movsd xmm0, [rbp - 8]"];
        ["movsd [rbp - 16], xmm1"] ["addsd xmm0, [rbp - 16]"];
        ["movsd [rbp - 24], xmm2"] ["addsd xmm0, [rbp - 24]"];
        ["movsd [rbp - 32], xmm3"] ["addsd xmm0, [rbp - 32]"];
        ["movsd [rbp - 40], xmm4"] ["addsd xmm0, [rbp - 40]"];
        ["movsd [rbp - 48], xmm5"] ["addsd xmm0, [rbp - 48]"];
        ["movsd [rbp - 56], xmm6"] ["addsd xmm0, [rbp - 56]"];
    }}
}

#[cfg(target_arch = "aarch64")]
mod callees {
    use super::{Block, naked_asm};

    callees! { int: u64 => u64, [], [] {
        "mov x0, #0";
        [] [];
        [] ["add x0, x0, x1"];
        [] ["add x0, x0, x2"];
        [] ["add x0, x0, x3"];
        [] ["add x0, x0, x4"];
        [] ["add x0, x0, x5"];
        [] ["add x0, x0, x6"];
    }}
    callees! { double: f64 => f64, [], [] {
        "fmov d0, xzr";
        [] [];
        [] ["fadd d0, d0, d1"];
        [] ["fadd d0, d0, d2"];
        [] ["fadd d0, d0, d3"];
        [] ["fadd d0, d0, d4"];
        [] ["fadd d0, d0, d5"];
        [] ["fadd d0, d0, d6"];
    }}
    callees! { structure: Block => u64, [], [] {
        "mov x0, #0";
        [] ["ldr x0, [x0]"];
        [] ["ldr x8, [x1]" "add x0, x0, x8"];
        [] ["ldr x8, [x2]" "add x0, x0, x8"];
        [] ["ldr x8, [x3]" "add x0, x0, x8"];
        [] ["ldr x8, [x4]" "add x0, x0, x8"];
        [] ["ldr x8, [x5]" "add x0, x0, x8"];
        [] ["ldr x8, [x6]" "add x0, x0, x8"];
    }}
    // As gcc 12 compiles them: one without arguments makes no frame, which is two instructions less.
    callees! { unoptimised_float: f32 => f32, ["sub sp, sp, #32"], ["add sp, sp, #32"] {
        "fmov s0, wzr";
        ["str s0, [sp, #28]"] ["ldr s0, [sp, #28]"];
        ["str s1, [sp, #24]"] ["ldr s1, [sp, #24]" "fadd s0, s0, s1"];
        ["str s2, [sp, #20]"] ["ldr s1, [sp, #20]" "fadd s0, s0, s1"];
        ["str s3, [sp, #16]"] ["ldr s1, [sp, #16]" "fadd s0, s0, s1"];
        ["str s4, [sp, #12]"] ["ldr s1, [sp, #12]" "fadd s0, s0, s1"];
        ["str s5, [sp, #8]"] ["ldr s1, [sp, #8]" "fadd s0, s0, s1"];
        ["str s6, [sp, #4]"] ["ldr s1, [sp, #4]" "fadd s0, s0, s1"];
    }}
    callees! { unoptimised_double: f64 => f64, ["sub sp, sp, #64"], ["add sp, sp, #64"] {
        "fmov d0, xzr";
        ["str d0, [sp, #56]"] ["ldr d0, [sp, #56]"];
        ["str d1, [sp, #48]"] ["ldr d1, [sp, #48]" "fadd d0, d0, d1"];
        ["str d2, [sp, #40]"] ["ldr d1, [sp, #40]" "fadd d0, d0, d1"];
        ["str d3, [sp, #32]"] ["ldr d1, [sp, #32]" "fadd d0, d0, d1"];
        ["str d4, [sp, #24]"] ["ldr d1, [sp, #24]" "fadd d0, d0, d1"];
        ["str d5, [sp, #16]"] ["ldr d1, [sp, #16]" "fadd d0, d0, d1"];
        ["str d6, [sp, #8]"] ["ldr d1, [sp, #8]" "fadd d0, d0, d1"];
    }}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_arrives() {
        for kind in ArgumentKind::ALL {
            for arguments in 0..=MAX_ARGUMENTS {
                let sum = u64::from(arguments) * (u64::from(arguments) + 1) / 2;
                for n in [1, 7, 8, 1_000] {
                    assert_eq!(call(kind, arguments, n), sum, "{kind:?} {arguments} {n}");
                }
                assert_eq!(call(kind, arguments, 0), 0);
            }
        }
    }
}
