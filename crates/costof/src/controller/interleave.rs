//! Two runs of the same plan, whose launches take turns.

use super::revisit::Revisited;
use super::{Controller, pulse};
use crate::error::Result;
use crate::machine;
use costof_measure::schedule::{self, MIN_LAUNCHES};

/// Measures both runs, launch by launch, in groups of four launches, two for each run. Returns early if the
/// user interrupts.
///
/// Both runs have the same blocks and the same seed, so that random choices are the same in both. On one
/// machine, both launches of a pair run on the same CPUs.
pub(crate) fn execute(sides: &mut [Controller<'_>; 2]) -> Result<()> {
    let seed = sides[0].run().run.seed;
    let wanted = sides[0].launches_wanted();
    let least = schedule::paired(MIN_LAUNCHES.min(wanted), wanted) / 2;
    for level in 0..=sides[0].last_level() {
        let blocks = sides[0].begin(level)?;
        sides[1].begin(level)?;
        for number in 0..least {
            let seed = seed ^ u64::from(level);
            for position in schedule::round_order(seed, number, blocks.len()) {
                if are_over(sides, blocks[position]) {
                    continue;
                }
                four(sides, blocks[position], number, 0)?;
                pulse(sides, None);
            }
        }
        if sides[0].interrupted() {
            return Ok(());
        }
    }
    let [one, other] = sides.each_ref().map(|side| side.launch_counts());
    let both = one.into_iter().zip(other);
    let counts: Vec<u32> =
        both.map(|(one, other)| schedule::paired(one.min(other), wanted)).collect();
    for side in &*sides {
        side.progress.expect(&counts);
    }
    let left = sides.iter().map(|side| side.time_left(&counts));
    sides[0].progress.correct(left.sum());
    let fours: Vec<u32> = counts.iter().map(|count| count / 2).collect();
    let mut open = Revisited::new(&counts);
    for (block, number) in schedule::order(seed, &fours, least) {
        let count = counts[block];
        if number >= least && !are_over(sides, block) {
            four(sides, block, number, count)?;
            pulse(sides, Some(&counts));
        }
        if sides[0].interrupted() {
            return Ok(());
        }
        if number + 1 == fours[block] {
            open.complete_or_keep(sides, block)?;
        }
    }
    open.revisit(sides, pair)
}

/// Whether the time that the user has set is over for a block, on either side.
fn are_over(sides: &mut [Controller<'_>; 2], block: usize) -> bool {
    sides.iter_mut().any(|side| side.is_over(block))
}

/// Runs two launches of a block on each side, in turns.
fn four(sides: &mut [Controller<'_>; 2], block: usize, number: u32, of: u32) -> Result<()> {
    pair(sides, block, 2 * number, of)?;
    pair(sides, block, 2 * number + 1, of)
}

fn pair(sides: &mut [Controller<'_>], block: usize, launch: u32, of: u32) -> Result<()> {
    let is_one_machine =
        machine::one_machine(&sides[0].machines.measured, &sides[1].machines.measured);
    for side in schedule::turns(sides[0].run().run.seed, block, launch) {
        let cpus = sides[1 - side].cpus_of(block, launch);
        sides[side].counterpart = cpus.filter(|_| is_one_machine);
        // If the other side has given up there are no pairs, so this side gets its planned number and no
        // more.
        let is_alone = sides[1 - side].block(block).points_left().is_empty();
        let launches = sides[side].block(block).useful().count();
        if is_alone && launches >= MIN_LAUNCHES as usize {
            sides[side].progress.launched();
        } else {
            sides[side].launch(block, launch, of)?;
        }
    }
    Ok(())
}
