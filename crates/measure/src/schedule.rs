//! How many launches a block gets, and in which order they run.
//!
//! Pure: durations in, counts out; random only by the given seed. The number of launches is decided
//! once, from the first launches and the budget, and not by looking at results: stopping as soon as
//! an interval looks narrow costs about three points of its coverage. Only if few launches disagree
//! widely are more added, up to a fixed number ([`needs_more`]).

use costof_stats::{ORDER_FROM, median_interval};
use std::collections::BinaryHeap;
use std::time::Duration;

/// The fewest launches of a block: with fewer there is no interval.
pub const MIN_LAUNCHES: u32 = 3;

/// The most launches of a block that a user may request: the interval is then a hundredth as wide
/// as for one.
pub const MAX_LAUNCHES: u32 = 10_000;

/// Launch counts at which the interval rule works well, ascending: from 3 to 5 Student's t, and
/// from 6 on the counts at which a pair of order statistics covers 95 % with little to spare.
pub const LAUNCH_COUNTS: [u32; 8] = [3, 4, 5, 6, 9, 12, 15, 20];

/// How much time a run may take to make its intervals narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// A first look.
    Quick,
    /// The default of `costof run`.
    #[default]
    Default,
    /// For results to be published.
    Full,
}

impl Precision {
    /// Its name in a run file and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }

    /// The precision with that name, if any.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = [Self::Quick, Self::Default, Self::Full].into_iter();
        all.find(|precision| precision.name() == name)
    }

    /// Launches of a block if the budget allows: one of [`LAUNCH_COUNTS`].
    pub const fn launches(self) -> u32 {
        match self {
            Self::Quick => 6,
            Self::Default | Self::Full => 20,
        }
    }

    /// Measured time per point in one launch, all its batches together, without warm-up.
    pub const fn batch_time_per_point(self) -> Duration {
        match self {
            Self::Quick | Self::Default => Duration::from_millis(10),
            Self::Full => Duration::from_millis(100),
        }
    }

    /// Wall time of a whole run. A run whose blocks take longer at [`MIN_LAUNCHES`] exceeds it.
    pub const fn budget(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(15),
            Self::Default => Duration::from_secs(50),
            Self::Full => Duration::from_secs(840),
        }
    }
}

/// A block for which launches are to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// How long a launch takes.
    pub launch: Duration,
    /// How many points it measures.
    pub points: usize,
    /// How many launches it has had.
    pub done: u32,
}

impl Counted {
    /// The wall time of its remaining launches.
    fn left(self, count: u32) -> Duration {
        self.launch.saturating_mul(count.saturating_sub(self.done))
    }
}

/// The launches of each block, including those already done, given what is left of the budget.
///
/// Every block gets the count of the precision if that fits. Otherwise the block whose launches
/// take longest per point is reduced to the next lower of [`LAUNCH_COUNTS`]. This repeats until the
/// rest fits or every block is down to [`MIN_LAUNCHES`].
// METHOD 5
pub fn launch_counts(blocks: &[Counted], budget_left: Duration, precision: Precision) -> Vec<u32> {
    let mut counts = vec![precision.launches(); blocks.len()];
    // In a sum that cannot overflow.
    let left = |at: usize, count: u32| {
        let block: &Counted = &blocks[at];
        block.launch.as_nanos() * u128::from(count.saturating_sub(block.done))
    };
    let each = |at: usize, count: u32| {
        blocks[at].launch.as_nanos() * u128::from(count) / blocks[at].points.max(1) as u128
    };
    let mut to_come: u128 = (0..counts.len()).map(|at| left(at, counts[at])).sum();
    let mut by_price: BinaryHeap<(u128, usize)> =
        (0..counts.len()).map(|at| (each(at, counts[at]), at)).collect();
    while to_come > budget_left.as_nanos() {
        let Some((_, most)) = by_price.pop() else {
            break;
        };
        if counts[most] > MIN_LAUNCHES {
            let lower = next_lower(counts[most]);
            to_come = to_come - left(most, counts[most]) + left(most, lower);
            counts[most] = lower;
            by_price.push((each(most, lower), most));
        }
    }
    counts
}

/// How long the remaining launches take at these counts.
pub fn to_come(blocks: &[Counted], counts: &[u32]) -> Duration {
    let left = blocks.iter().zip(counts).map(|(block, &count)| block.left(count));
    left.fold(Duration::ZERO, Duration::saturating_add)
}

fn next_lower(count: u32) -> u32 {
    let mut lower = LAUNCH_COUNTS.into_iter().rev();
    lower.find(|&lower| lower < count).unwrap_or(MIN_LAUNCHES)
}

/// Launches disagree if the ends of their interval are further apart than this ratio.
const DISAGREE: f64 = 1.5;

/// Whether a point needs another launch after its planned ones. `medians` are the launch medians
/// from which its estimate is made ([`medians`](crate::estimate::medians)), in order. More are
/// needed if there are fewer than [`MIN_LAUNCHES`], and up to six if the first three, four or
/// five have an interval whose ends are more than a factor of 1.5 apart. The caller bounds launches
/// and time, since an operation that always fails never gives a median.
///
/// Stopping by results costs coverage if a narrow interval came by luck. So a point whose launches
/// disagreed once goes on to six, whose interval reaches from the lowest to the highest, and does
/// not stop as soon as they seem to agree. The coverage was simulated: docs/METHOD.md, "Launches
/// that disagree".
// METHOD 5
pub fn needs_more(medians: &[f64]) -> bool {
    let disagree = |count: usize| {
        let interval = median_interval(&medians[..count]);
        interval.is_some_and(|it| it.low > 0.0 && it.high > DISAGREE * it.low)
    };
    let least = MIN_LAUNCHES as usize;
    medians.len() < least || medians.len() < ORDER_FROM && (least..=medians.len()).any(disagree)
}

/// The order in which `blocks` blocks run their launch of this number, each once: shuffled by
/// `seed`.
pub fn round_order(seed: u64, launch: u32, blocks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..blocks).collect();
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(u64::from(launch) << 32));
    random.shuffle(&mut order);
    order
}

/// The order of the launches after the first ones, as (block, launch). A block's launches are
/// numbered from 0 up to its count; those below `done` have run. If a block has none left, its last
/// one that ran is repeated.
///
/// Each block's launches are spread over the whole time: the i-th of k falls at random into the
/// i-th of k equal parts. So a slow drift or a short disturbance affects all blocks alike. Within a
/// block, launches keep their order. The same seed gives the same order.
// METHOD 5
pub fn order(seed: u64, counts: &[u32], done: u32) -> Vec<(usize, u32)> {
    // A different random stream from that of the first launches, which use the seed itself.
    let mut random = fastrand::Rng::with_seed(!seed);
    let mut placed: Vec<(f64, usize, u32)> = Vec::new();
    for (block, &count) in counts.iter().enumerate() {
        let first = done.min(count.saturating_sub(1));
        for launch in first..count {
            let part = f64::from(launch - first) + random.f64();
            placed.push((part / f64::from(count - first), block, launch));
        }
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let placed = placed.into_iter();
    placed.map(|(_, block, launch)| (block, launch)).collect()
}

/// The fewest launches of each of two sides that take turns: with fewer there is no interval.
pub const MIN_PAIRED: u32 = MIN_LAUNCHES.next_multiple_of(2);

/// How many launches each of two sides gets that take turns in blocks of four, with two launches
/// per side and block: an even count. An odd `count` grows by one if it is what was `wanted`, and
/// shrinks by one if the budget reduced it, but not below [`MIN_PAIRED`].
pub fn paired(count: u32, wanted: u32) -> u32 {
    if count < wanted { (count - count % 2).max(MIN_PAIRED) } else { count.next_multiple_of(2) }
}

/// Which of two sides runs first in their launches of this number, and which second.
///
/// Launches come in blocks of four, with two of each side: ABBA or BAAB, chosen at random for each
/// block. So each side is first equally often, a steady drift through a block affects both alike,
/// and nothing periodic can stay in step.
pub fn turns(seed: u64, block: usize, launch: u32) -> [usize; 2] {
    let four = u64::from(launch / 2);
    // A different random stream from that of the order.
    let drawn = (seed ^ 0x5475_726e_7300_0000).wrapping_add((block as u64) << 32 | four);
    // Neighbouring seeds give similar first numbers. Seeding again with these removes the
    // similarity.
    let drawn = fastrand::Rng::with_seed(drawn).u64(..);
    let begins = usize::from(fastrand::Rng::with_seed(drawn).bool());
    let first = if launch.is_multiple_of(2) { begins } else { 1 - begins };
    [first, 1 - first]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_blocks_of_four_in_which_both_sides_meet_the_same() {
        for block in 0..20 {
            for four in 0..8 {
                let [one, other] = [2 * four, 2 * four + 1].map(|launch| turns(7, block, launch));
                let order = [one, other].concat();
                assert!(order == [0, 1, 1, 0] || order == [1, 0, 0, 1], "{order:?}");
                // A steady drift is the same for both.
                let places = |side| {
                    let places = (0..4).filter(|place| order[*place] == side);
                    places.sum::<usize>()
                };
                assert_eq!(places(0), places(1));
            }
        }
    }

    #[test]
    fn which_side_begins_is_drawn_by_the_seed() {
        let begins = |seed, block| -> Vec<usize> {
            let fours = (0..400).map(|four| turns(seed, block, 2 * four)[0]);
            fours.collect()
        };
        for (seed, block) in [(1, 0), (1, 1), (2, 0), (u64::MAX, 9)] {
            let all = begins(seed, block);
            assert_eq!(all, begins(seed, block));
            let second: usize = all.iter().sum();
            assert!((150..250).contains(&second), "{second} of 400");
            // Nor by turns.
            let changes = all.windows(2).filter(|two| two[0] != two[1]).count();
            assert!((150..250).contains(&changes), "{changes} of 399");
        }
        assert_ne!(begins(1, 0), begins(2, 0));
        assert_ne!(begins(1, 0), begins(1, 1));
    }

    #[test]
    fn launches_of_two_sides_fill_blocks_of_four() {
        let default = |count| paired(count, Precision::Default.launches());
        // What the budget cut fits it still.
        assert_eq!([3, 4, 5, 6, 9, 20].map(default), [4, 4, 4, 6, 8, 20]);
        let quick = |count| paired(count, Precision::Quick.launches());
        assert_eq!([5, 6].map(quick), [4, 6]);
    }

    #[test]
    fn only_few_launches_that_disagree_are_followed_by_more() {
        assert!(needs_more(&[]) && needs_more(&[10.0, 10.0]));
        assert!(!needs_more(&[10.0, 10.1, 10.2]));
        assert!(needs_more(&[10.0, 10.1, 17.0]));
        // Even if they seem to agree by now.
        assert!(needs_more(&[10.0, 10.1, 17.0, 10.0, 10.0]));
        assert!(!needs_more(&[10.0, 10.1, 10.2, 10.0, 10.0]));
        // With six there is what there is.
        assert!(!needs_more(&[10.0, 10.1, 17.0, 25.0, 10.0, 90.0]));
        // Where there is nothing, or less, no ratio says how far launches are apart.
        assert!(!needs_more(&[0.0, 0.0, 0.0]) && !needs_more(&[-1.0, 0.0, 5.0]));
    }

    /// Blocks of one point whose launches took these times.
    fn blocks(seconds: &[f64]) -> Vec<Counted> {
        let block = |seconds: &f64| Counted {
            launch: Duration::from_secs_f64(*seconds),
            points: 1,
            done: 1,
        };
        seconds.iter().map(block).collect()
    }

    const PRECISIONS: [Precision; 3] = [Precision::Quick, Precision::Default, Precision::Full];

    #[test]
    fn with_time_enough_every_block_gets_the_precisions_count() {
        for precision in PRECISIONS {
            let counts = launch_counts(&blocks(&[0.1, 2.0]), Duration::from_secs(600), precision);
            assert_eq!(counts, [precision.launches(); 2]);
        }
    }

    #[test]
    fn the_most_expensive_block_is_cut_first() {
        let all = blocks(&[0.1, 3.0, 0.2]);
        // At twenty launches: 1.9 + 57 + 3.8 s; at six the expensive one takes 15 s, at five 12 s.
        let counts = launch_counts(&all, Duration::from_secs(18), Precision::Default);
        assert_eq!(counts, [20, 5, 20]);
    }

    #[test]
    fn what_has_not_begun_keeps_its_part_of_the_time() {
        let mut all = blocks(&[1.0, 1.0]);
        all[1].done = 0;
        let counts = launch_counts(&all, Duration::from_secs(12), Precision::Default);
        assert_eq!(counts, [6, 6]);
    }

    #[test]
    fn without_any_time_each_block_keeps_the_least_launches() {
        let counts = launch_counts(&blocks(&[0.1, 3.0]), Duration::ZERO, Precision::Full);
        assert_eq!(counts, [MIN_LAUNCHES; 2]);
    }

    #[test]
    fn what_is_chosen_fits_or_cannot_be_cut_and_is_a_good_count() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let count = random.usize(0..30);
            let times: Vec<f64> = (0..count).map(|_| 3.0 * random.f64()).collect();
            let mut all = blocks(&times);
            for block in &mut all {
                (block.points, block.done) = (random.usize(1..4), random.u32(0..4));
            }
            let left = Duration::from_secs_f64(120.0 * random.f64());
            let precision = PRECISIONS[random.usize(0..3)];
            let counts = launch_counts(&all, left, precision);
            assert_eq!(counts.len(), all.len());
            let least = counts.iter().all(|&count| count == MIN_LAUNCHES);
            assert!(least || to_come(&all, &counts) <= left);
            assert!(counts.iter().all(|count| LAUNCH_COUNTS.contains(count)));
            assert!(counts.iter().all(|&count| count <= precision.launches()));
        }
    }

    #[test]
    fn endless_launches_do_not_overflow() {
        let mut all = blocks(&[0.0; 3]);
        for block in &mut all {
            block.launch = Duration::MAX;
        }
        let counts = launch_counts(&all, Duration::from_secs(9), Precision::Default);
        assert_eq!(counts, [MIN_LAUNCHES; 3]);
    }

    #[test]
    fn no_blocks_need_no_launches() {
        assert!(launch_counts(&[], Duration::ZERO, Precision::Quick).is_empty());
        assert!(order(1, &[], 3).is_empty());
        assert!(round_order(1, 0, 0).is_empty());
    }

    #[test]
    fn each_launch_after_the_first_comes_once_and_in_its_blocks_order() {
        let counts = [9, 3, 4, 2, 15];
        let order = order(42, &counts, 3);
        for (block, &count) in counts.iter().enumerate() {
            let launches: Vec<u32> =
                order.iter().filter(|launch| launch.0 == block).map(|launch| launch.1).collect();
            // The last one comes in any case.
            assert_eq!(launches, (3.min(count - 1)..count).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_blocks_launches_are_spread_over_the_run() {
        let counts = [12; 15];
        let order = order(42, &counts, 3);
        for block in 0..counts.len() {
            let places: Vec<usize> =
                (0..order.len()).filter(|place| order[*place].0 == block).collect();
            assert!(places[0] < order.len() / 4 && places[8] > order.len() * 3 / 4);
        }
    }

    #[test]
    fn a_block_with_few_launches_is_spread_over_the_run_too() {
        let order = order(42, &[5, 15, 15, 15], 3);
        let second = order.iter().position(|&launch| launch == (0, 4));
        assert!(second.is_some_and(|place| place >= order.len() * 2 / 5));
    }

    #[test]
    fn a_seed_gives_one_order_and_another_seed_another() {
        let counts = [6; 15];
        assert_eq!(order(1, &counts, 3), order(1, &counts, 3));
        assert_ne!(order(1, &counts, 3), order(2, &counts, 3));
        let round = |seed, launch| round_order(seed, launch, 15);
        assert_eq!(round(1, 0), round(1, 0));
        assert_ne!(round(1, 0), round(2, 0));
        assert_ne!(round(1, 0), round(1, 1));
        let mut blocks = round(3, 2);
        blocks.sort_unstable();
        assert_eq!(blocks, (0..15).collect::<Vec<usize>>());
    }

    #[test]
    fn what_takes_longest_for_a_point_is_cut_first() {
        let mut all = blocks(&[0.4, 0.3]);
        all[0].points = 4;
        let counts = launch_counts(&all, Duration::from_secs(10), Precision::Default);
        assert_eq!(counts[0], Precision::Default.launches());
        assert!(counts[1] < counts[0]);
    }

    #[test]
    fn a_quick_run_is_a_first_look_and_a_full_one_fits_a_quarter_of_an_hour() {
        assert!(Precision::Quick.budget() <= Duration::from_secs(20));
        assert!(Precision::Default.budget() <= Duration::from_secs(50));
        assert!(Precision::Full.budget() < Duration::from_secs(15 * 60));
        let is_good = |precision: &Precision| LAUNCH_COUNTS.contains(&precision.launches());
        assert!(PRECISIONS.iter().all(is_good));
    }
}
