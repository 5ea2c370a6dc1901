//! Two chains of dependent instructions with known latencies in core cycles. Time ÷ (n ×
//! cycles) is then the length of a core cycle, on machines where no cycle counter can be read.
//!
//! **`rotate` is the reference**: one cycle on every core listed below, on both architectures.
//! **`multiply` is the check**: it uses another execution unit, and the ratio of its time to that
//! of `rotate`, at equal `n`, must be a whole number ([`multiply_cycles`]). If it is not, the
//! estimate is wrong: the core clock changed between the two, a neighbour took the core's time, or
//! the core folds one of the kinds. Additions of constants are not suitable: Golden Cove and later
//! Intel cores execute them at rename, in zero cycles.
//!
//! Latency in cycles, register to register:
//!
//! | core | rotate by a constant | multiply, 32-bit |
//! |---|---|---|
//! | Intel Nehalem to Lion Cove | 1 | 3 |
//! | Intel Silvermont to Gracemont (E-cores; 64-bit multiply: 5) | 1 | 3 |
//! | AMD Zen 1 to 5 (64-bit multiply: 3 too) | 1 | 3 |
//! | Arm Cortex-A72, Apple M1 | 1 | 3 |
//! | Arm Cortex-A76, Neoverse N1, N2, V1, V2 | 1 | 2 |
//!
//! Sources: uops.info (Abel and Reineke, ASPLOS 2019), `ROR_R64_I8` and `IMUL_R32_R32`; Agner Fog,
//! "Instruction tables"; Arm software optimisation guides of the named cores, "Multiply, W-form"
//! and "Bitfield extract, one register"; for M1, dougallj.github.io/applecpu. Tried on Zen 5:
//! rotate, xor, add, byte swap, population count at 1.000, crc32 and both multiplications at
//! 3.000 times the same cycle, within 0.05 %.
//!
//! The loops are unrolled 32 times and aligned to 64 bytes. Their counter runs in parallel with the
//! chain and is not part of it.

use crate::asm_loop;

/// Core cycles of one step of [`rotate`].
pub const ROTATE_CYCLES: f64 = 1.0;

/// Core cycles of one step of [`multiply`]: certain on x86-64; on aarch64 the value of Arm's server cores
/// (Cortex-A72 and Apple's cores take 3), so use [`multiply_cycles`] there.
pub const MULTIPLY_CYCLES: f64 = if cfg!(target_arch = "x86_64") { 3.0 } else { 2.0 };

/// The latency of a multiplication in whole core cycles, from the time of `n` multiplications over the time
/// of `n` rotations; `None` if the ratio is not within 2 % of a whole number from 2 to 6, so that the chains
/// do not agree.
pub fn multiply_cycles(time_ratio: f64) -> Option<f64> {
    (2..=6).map(f64::from).find(|whole| (time_ratio / whole - 1.0).abs() <= 0.02)
}

const SEED: u32 = 0x9e37_79b9;
const FACTOR: u32 = 0x2c92_77b5;
const UNROLLED: u64 = 32;

/// The same instruction 32 times.
macro_rules! times_32 {
    ($instruction:literal) => {
        concat!(".rept 32\n", $instruction, "\n.endr")
    };
}

/// Multiplies 32-bit numbers `n` times, each result feeding the next: `n` × [`MULTIPLY_CYCLES`].
/// Returns the last product, seed × factorⁿ modulo 2³².
pub fn multiply(n: u64) -> u64 {
    let mut product = SEED;
    if n >= UNROLLED {
        // SAFETY: arithmetic on the named registers; the loop ends when its count reaches zero.
        unsafe {
            asm_loop!(
                n / UNROLLED,
                x86_64 { times_32!("imul {product:e}, {factor:e}") },
                aarch64 { times_32!("mul {product:w}, {product:w}, {factor:w}") },
                product = inout(reg) product,
                factor = in(reg) FACTOR,
                options(nomem, nostack),
            );
        }
    }
    for _ in 0..n % UNROLLED {
        product = product.wrapping_mul(FACTOR);
    }
    u64::from(product)
}

/// Rotates a 64-bit number right by 7 bits `n` times, each result feeding the next:
/// `n` × [`ROTATE_CYCLES`]. Returns the last value: the seed rotated by 7 × n.
pub fn rotate(n: u64) -> u64 {
    let mut value = u64::from(SEED);
    if n >= UNROLLED {
        // SAFETY: arithmetic on the named registers; the loop ends when its count reaches zero.
        unsafe {
            asm_loop!(
                n / UNROLLED,
                x86_64 { times_32!("ror {value}, 7") },
                aarch64 { times_32!("ror {value}, {value}, #7") },
                value = inout(reg) value,
                options(nomem, nostack),
            );
        }
    }
    for _ in 0..n % UNROLLED {
        value = value.rotate_right(7);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chains_compute_what_they_say() {
        for n in [0, 1, 31, 32, 33, 1_000, 12_345] {
            let power = (0..n).fold(SEED, |product, _| product.wrapping_mul(FACTOR));
            assert_eq!(multiply(n), u64::from(power), "multiply({n})");
            let turns = u32::try_from(n * 7 % 64).expect("below 64");
            assert_eq!(rotate(n), u64::from(SEED).rotate_right(turns), "rotate({n})");
        }
    }

    #[test]
    fn only_whole_ratios_agree() {
        assert_eq!(multiply_cycles(3.02), Some(3.0));
        assert_eq!(multiply_cycles(1.99), Some(2.0));
        assert_eq!(multiply_cycles(2.8), None);
        assert_eq!(multiply_cycles(1.0), None);
        assert_eq!(multiply_cycles(f64::NAN), None);
    }
}
