//! Measured: conditional branches whose outcomes depend on data; a given number of them is
//! unpredictable.
//!
//! A loop contains ten branches at different addresses. They take their outcomes from the ten low
//! bits of a word: random bits in the first positions, and in the others a fixed outcome each,
//! alternately taken and not taken. So half of the branches are always taken, and only the number
//! of branches that a predictor can predict changes. Any predictor is right about half of the
//! random ones; with 0, 2, … 10 random positions, 0, 10, … 50 % of all branches are mispredicted.
//!
//! Both sides of a branch are alike: an addition to a counter of that side, and one jump over the
//! other side (the branch itself, or the jump after the addition). So a misprediction is the only
//! difference. The words are loaded in order, one round ahead, whether their bits count or not:
//! otherwise a branch would also wait for its load after a misprediction (5.7 ns instead of 4.7, on
//! one core of 2023). The code is assembly, so that no optimiser turns it into conditional moves.
//!
//! The words repeat after ten million branches, which is more than predictors can remember: they
//! hold some hundred thousand bits.
//!
//! Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Branch Prediction";
//! Agner Fog, "The microarchitecture of Intel, AMD and VIA CPUs", 3; A. Seznec, P. Michaud, "A case
//! for (partially) TAgged GEometric history length branch prediction" (2006).

use std::arch::asm;

/// Branches in a round, each at a place of its own in the code.
pub const PLACES: u8 = 10;

/// Words of outcomes, of [`PLACES`] bits each.
const WORDS: usize = 1 << 20;
/// The outcomes of places that are not random: every other one is taken.
const FIXED: u32 = 0b10_1010_1010;

/// Outcomes for branches, used in order and again from the start. 2 MiB.
#[derive(Debug)]
pub struct Outcomes {
    /// One word more than is used, since each is loaded a round ahead.
    words: Vec<u16>,
    next: usize,
}

/// How many branches went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// How many were taken.
    pub taken: u64,
    /// How many were not.
    pub not_taken: u64,
}

impl Outcomes {
    /// Outcomes from random words.
    pub fn random(mut word: impl FnMut() -> u16) -> Self {
        Self { words: (0..=WORDS).map(|_| word()).collect(), next: 0 }
    }

    /// Branches `n` times, rounded up to a whole round of [`PLACES`], with random outcomes in the
    /// first `random` places of each round. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If `random` exceeds [`PLACES`].
    pub fn branch(&mut self, n: u64, random: u8) -> Sides {
        let (mask, fixed) = masks(random);
        let mut sides = Sides::default();
        self.in_pieces(n, |words| rounds(words, mask, fixed, &mut sides));
        sides
    }

    /// How many of the next `n` branches, rounded up likewise, will go each way; counted without branching.
    /// Moves on as they do.
    ///
    /// # Panics
    ///
    /// If `random` exceeds [`PLACES`].
    pub fn foretell(&mut self, n: u64, random: u8) -> Sides {
        let (mask, fixed) = masks(random);
        let mut sides = Sides::default();
        self.in_pieces(n, |words| {
            let used = &words[..words.len() - 1];
            let taken = used
                .iter()
                .map(|word| u64::from((u32::from(*word) & mask | fixed).count_ones()))
                .sum::<u64>();
            sides.taken += taken;
            sides.not_taken += used.len() as u64 * u64::from(PLACES) - taken;
        });
        sides
    }

    /// Goes back to the first outcome.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Calls `each` with the words for `n` branches, each time with one word more.
    #[inline(always)]
    fn in_pieces(&mut self, n: u64, mut each: impl FnMut(&[u16])) {
        let mut left = n.div_ceil(u64::from(PLACES));
        while left > 0 {
            let piece = left.min((WORDS - self.next) as u64) as usize;
            each(&self.words[self.next..=self.next + piece]);
            self.next = (self.next + piece) % WORDS;
            left -= piece as u64;
        }
    }
}

/// Which bits of a word count, and the values of the others.
fn masks(random: u8) -> (u32, u32) {
    assert!(random <= PLACES, "at most {PLACES} random places, not {random}");
    let mask = (1 << random) - 1;
    (mask, FIXED & !mask)
}

/// A round for each word but the last. Never inlined: the tests then check the very code that is timed (in
/// the release build: ten `test` and `jne`, as written).
#[inline(never)]
fn rounds(words: &[u16], mask: u32, fixed: u32, sides: &mut Sides) {
    let range = words.as_ptr_range();
    if words.len() < 2 {
        return;
    }
    macro_rules! asm_of {
        ($($code:literal),*) => {
            asm!(
                $($code,)*
                at = inout(reg) range.start => _,
                last = in(reg) range.end.sub(1),
                ahead = out(reg) _,
                word = out(reg) _,
                mask = in(reg) mask,
                fixed = in(reg) fixed,
                taken = inout(reg) sides.taken,
                not_taken = inout(reg) sides.not_taken,
                options(nostack, readonly),
            )
        };
    }
    // SAFETY: reads the words, each once, from the first to the last, and stops when the last has
    // been loaded, which needs two at least; writes only the named registers and the flags.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm_of!(
            "movzx {ahead:e}, word ptr [{at}]",
            ".p2align 6",
            "2:",
            "and {ahead:e}, {mask:e}",
            "or {ahead:e}, {fixed:e}",
            "mov {word:e}, {ahead:e}",
            "add {at}, 2",
            "movzx {ahead:e}, word ptr [{at}]",
            ".irp bit, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512",
            "test {word:e}, \\bit",
            "jnz 3f",
            "add {not_taken}, 1",
            "jmp 4f",
            "3:",
            "add {taken}, 1",
            "nop",
            "4:",
            ".endr",
            "cmp {at}, {last}",
            "jb 2b"
        );
        #[cfg(target_arch = "aarch64")]
        asm_of!(
            "ldrh {ahead:w}, [{at}]",
            ".p2align 6",
            "2:",
            "and {ahead:w}, {ahead:w}, {mask:w}",
            "orr {word:w}, {ahead:w}, {fixed:w}",
            "ldrh {ahead:w}, [{at}, #2]!",
            ".irp bit, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
            "tbnz {word:w}, #\\bit, 3f",
            "add {not_taken}, {not_taken}, #1",
            "b 4f",
            "3:",
            "add {taken}, {taken}, #1",
            "nop",
            "4:",
            ".endr",
            "cmp {at}, {last}",
            "b.lo 2b"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Outcomes {
        let mut state = 1_u64;
        Outcomes::random(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005) | 1;
            state = state.wrapping_add(1_442_695_040_888_963_406);
            (state >> 48) as u16
        })
    }

    #[test]
    fn every_branch_goes_where_its_outcome_says() {
        let mut outcomes = outcomes();
        // The third length wraps around the end.
        for n in [0, 1, 10, 11, 12_345, 11_000_000] {
            for random in [0, 1, 2, 9, PLACES] {
                let start = outcomes.next;
                let foretold = outcomes.foretell(n, random);
                let end = outcomes.next;
                outcomes.next = start;
                assert_eq!(outcomes.branch(n, random), foretold, "{n} {random}");
                // All words are used before any is used again.
                assert_eq!(outcomes.next, end);
                assert_eq!(end, (start + n.div_ceil(10) as usize) % WORDS);
                assert_eq!(foretold.taken + foretold.not_taken, n.div_ceil(10) * 10);
            }
        }
    }

    #[test]
    fn half_are_taken_whatever_is_random() {
        let mut outcomes = outcomes();
        for random in (0..=PLACES).step_by(2) {
            let sides = outcomes.foretell(1_000_000, random);
            let share = sides.taken as f64 / 1_000_000.0;
            assert!((share - 0.5).abs() < 0.01, "{random}: {share}");
        }
    }

    #[test]
    #[should_panic(expected = "at most 10 random places")]
    fn there_are_ten_places() {
        outcomes().branch(10, PLACES + 1);
    }
}
