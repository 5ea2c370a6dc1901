//! A run whose launches go, one by one, where they decide most about a host.

use super::Controller;
use crate::error::Result;
use costof_measure::estimate;
use costof_measure::qualify::{Block, Qualification};
use costof_measure::schedule::MIN_LAUNCHES;
use costof_model::Point;
use std::time::{Duration, Instant};

/// The rows of each block: their position there, and in the qualification.
type RowsOf = Vec<Vec<(usize, usize)>>;

/// Measures until the host is judged, or the time is over, or the user interrupts. Returns what is left of each
/// block.
pub(crate) fn execute(
    controller: &mut Controller<'_>,
    qualification: &mut Qualification<'_>,
    budget: Duration,
) -> Result<Vec<Block>> {
    let began = Instant::now();
    let rows = rows_of(controller, qualification);
    let mut ended: Vec<Option<Instant>> = vec![None; rows.len()];
    let expected = vec![MIN_LAUNCHES; rows.len()];
    controller.progress.expect(&expected);
    loop {
        let blocks = open(controller, &rows, &ended);
        let is_over = began.elapsed() >= budget || controller.interrupted();
        let Some(block) = qualification.next(&blocks).filter(|_| !is_over) else {
            complete(controller, &ended)?;
            return Ok(blocks);
        };
        let launch = controller.block(block).launches().count() as u32;
        controller.launch(block, launch, 0)?;
        ended[block] = Some(Instant::now());
        for (position, row) in &rows[block] {
            let measured = estimate::planned_point(controller.run(), block, *position);
            qualification.update(*row, measured.ok().as_ref(), launch + 1);
        }
        if controller.progress.is_due() {
            let left = qualification.time_left(&blocks).min(budget.saturating_sub(began.elapsed()));
            let done = controller.progress.launches();
            let all = done.max(expected.iter().copied().map(u64::from).sum());
            let points = rows.iter().map(Vec::len).sum();
            controller.progress.heartbeat([done, all], points, left);
        }
    }
}

fn rows_of(controller: &Controller<'_>, qualification: &Qualification<'_>) -> RowsOf {
    let judged: Vec<&Point> = qualification.rows().map(|row| &row.of.point).collect();
    let of_block = |points: &Vec<Point>| {
        let points = points.iter().enumerate();
        let rows = points.filter_map(|(position, point)| {
            let row = judged.iter().position(|judged| *judged == point)?;
            Some((position, row))
        });
        rows.collect()
    };
    let blocks = controller.plan().blocks.iter();
    blocks.map(|block| of_block(&block.points)).collect()
}

/// The blocks, without the points that cannot be measured here.
fn open(controller: &Controller<'_>, rows: &RowsOf, ended: &[Option<Instant>]) -> Vec<Block> {
    let of_block = |(block, rows): (usize, &Vec<(usize, usize)>)| {
        let state = controller.block(block);
        let left = state.points_left();
        let is_left = |position: &usize| left.contains(&state.planned().points[*position]);
        let rows = rows.iter().filter(|(position, _)| is_left(position));
        Block {
            rows: rows.map(|(_, row)| *row).collect(),
            launch: controller.counted(block).launch,
            rested: ended[block].map(|ended| ended.elapsed()),
        }
    };
    rows.iter().enumerate().map(of_block).collect()
}

/// Writes the results of the blocks that were measured.
fn complete(controller: &mut Controller<'_>, ended: &[Option<Instant>]) -> Result<()> {
    let mut measured = (0..ended.len()).filter(|block| ended[*block].is_some());
    if controller.interrupted() {
        return Ok(());
    }
    measured.try_for_each(|block| controller.complete(block))
}
