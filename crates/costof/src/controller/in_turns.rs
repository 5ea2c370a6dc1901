//! Two runs of the same plan, whose launches take turns.

use super::{Controller, gave_something};
use crate::error::Error;
use costof_measure::schedule::{self, LEAST_LAUNCHES};

/// Measures both, launch beside launch, in blocks of four of which each has two. Returns early where it was
/// interrupted.
///
/// Both have the same blocks and the same seed, so that what is drawn is the same for both.
pub(crate) fn carry_out(sides: &mut [Controller<'_>; 2]) -> Result<(), Error> {
    let seed = sides[0].run.run.seed;
    let wanted = sides[0].launches_wanted();
    let least = schedule::paired(LEAST_LAUNCHES.min(wanted), wanted) / 2;
    for level in 0..=sides[0].last_level() {
        let mut blocks = Vec::new();
        for side in &mut *sides {
            blocks = side.begin(level)?;
        }
        for number in 0..least {
            let seed = seed ^ u64::from(level);
            for position in schedule::round_order(seed, number, blocks.len()) {
                four(sides, blocks[position], number, 0)?;
            }
        }
        if sides[0].interrupted() {
            return Ok(());
        }
    }
    let [near, far] = sides.each_ref().map(|side| side.launch_counts());
    let counts: Vec<u32> = near
        .into_iter()
        .zip(far)
        .map(|(one, other)| schedule::paired(one.min(other), wanted))
        .collect();
    for side in &*sides {
        let expected = counts.iter().map(|count| u64::from(*count));
        side.progress.expect(expected.sum());
    }
    let fours: Vec<u32> = counts.iter().map(|count| count / 2).collect();
    for (block, number) in schedule::order(seed, &fours, least) {
        let count = counts[block];
        if number >= least {
            four(sides, block, number, count)?;
        }
        if number + 1 == fours[block] {
            make_up(sides, block, count)?;
            if !sides[0].interrupted() {
                sides.iter_mut().try_for_each(|side| side.complete(block))?;
            }
        }
        if sides[0].interrupted() {
            return Ok(());
        }
    }
    Ok(())
}

/// Two launches of a block on each side, beside each other.
fn four(sides: &mut [Controller<'_>; 2], block: usize, number: u32, of: u32) -> Result<(), Error> {
    pair(sides, block, 2 * number, of)?;
    pair(sides, block, 2 * number + 1, of)
}

fn pair(sides: &mut [Controller<'_>; 2], block: usize, launch: u32, of: u32) -> Result<(), Error> {
    for side in schedule::turns(sides[0].run.run.seed, block, launch) {
        // Where the other has given up there are no pairs: it gets its number, and no more.
        let is_alone = sides[1 - side].points_left(block).is_empty();
        let launches = sides[side].launches_of(block);
        let has_a_number =
            launches.filter(|launch| gave_something(launch)).count() >= LEAST_LAUNCHES as usize;
        match is_alone && has_a_number {
            true => sides[side].progress.launched(),
            false => sides[side].launch(block, launch, of)?,
        }
    }
    Ok(())
}

/// One more pair for each launch that a crash took from either, and a few where the launches of either
/// disagree.
fn make_up(sides: &mut [Controller<'_>; 2], block: usize, count: u32) -> Result<(), Error> {
    let mut launch = count;
    let more = |sides: &[Controller<'_>; 2]| {
        let more = sides.iter().map(|side| side.lost(block) + side.more(block));
        more.max().unwrap_or(0)
    };
    while launch < count + more(sides) && !sides[0].interrupted() {
        pair(sides, block, launch, count)?;
        launch += 1;
    }
    Ok(())
}
