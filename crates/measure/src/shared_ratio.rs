//! What a row that was measured on a shared core would cost alone, by the ratio of shared to alone that earlier runs of
//! the same machine had.
//!
//! Pure. The result is shown beside the row, marked as what it is; nothing else uses it.

use costof_model::metric::AloneByRatio;
use costof_model::{Estimate, PointRow, Selection};
use costof_stats::{median, next_value_interval};

/// An interval whose ends are further apart than this factor tells nothing that the shared number does not.
const WIDEST: f64 = 1.5;

/// At least this many of the runs were alone.
const MIN_ALONE: usize = 2;

/// Adds to a row that was measured on a shared core what it would be alone, if at least three of the earlier rows know
/// the ratio, and two of these were alone.
pub fn add_alone(row: &mut PointRow, earlier: &[PointRow]) {
    let same = |other: &&PointRow| {
        other.point == row.point && other.method == row.method && other.primary == row.primary
    };
    let earlier: Vec<&Estimate> = (earlier.iter().filter(same))
        .filter_map(PointRow::primary)
        .filter(|estimate| estimate.is_usable())
        .collect();
    let primary = row.primary.clone();
    let mut metrics = row.metrics.iter_mut();
    if let Some(estimate) = metrics.find(|estimate| estimate.name == primary)
        && is_shared(estimate)
    {
        let alone = alone_by_ratio(estimate, &earlier);
        if let Some(core) = &mut estimate.core {
            core.alone_by_ratio = alone;
        }
    }
}

/// Whether an estimate is a number that was measured on a shared core.
pub fn is_shared(estimate: &Estimate) -> bool {
    let selection = estimate.core.map(|core| core.selection);
    estimate.is_usable() && selection == Some(Selection::Shared)
}

fn alone_by_ratio(shared: &Estimate, earlier: &[&Estimate]) -> Option<AloneByRatio> {
    let alone = |estimate: &&&Estimate| {
        let selection = estimate.core.map(|core| core.selection);
        selection == Some(Selection::Alone)
    };
    let medians: Vec<f64> = earlier.iter().filter(alone).map(|own| own.median).collect();
    // All ratios of runs that were never alone rest on this one median.
    let middle = median(&medians).filter(|middle| *middle > 0.0 && medians.len() >= MIN_ALONE)?;
    // A run that knows both has its own ratio; one that was never alone has that to the median of those that were.
    let ratios = earlier.iter().filter_map(|own| match own.core?.selection {
        Selection::Alone => Some(own.core?.shared_median? / own.median),
        Selection::Shared => Some(own.median / middle),
        Selection::All => None,
    });
    let ratios: Vec<f64> = ratios.collect();
    let ratio = next_value_interval(&ratios)?;
    let (low, high) = shared.usable_interval()?;
    let ci95 = (low / ratio.high, high / ratio.low);
    let is_known = ci95.0 > 0.0 && ci95.1 <= WIDEST * ci95.0;
    is_known.then_some(AloneByRatio {
        median: shared.median / median(&ratios)?,
        ci95,
        runs: ratios.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::metric::CoreShare;
    use costof_model::testing;

    /// A row of one point with this median, and how its core was.
    fn row(median: f64, selection: Selection, shared_median: Option<f64>) -> PointRow {
        let mut row = testing::row("os.syscall", Default::default(), median);
        row.metrics[0].ci95 = Some((median * 0.99, median * 1.01));
        row.metrics[0].core = Some(CoreShare {
            selection,
            alone: 0.0,
            shared: 1.0,
            shared_median,
            alone_by_ratio: None,
        });
        row
    }

    fn alone(median: f64, shared: f64) -> PointRow {
        row(median, Selection::Alone, Some(shared))
    }

    fn shared(median: f64) -> PointRow {
        row(median, Selection::Shared, Some(median))
    }

    fn found(mut row: PointRow, earlier: &[PointRow]) -> Option<AloneByRatio> {
        add_alone(&mut row, earlier);
        row.metrics[0].core.unwrap().alone_by_ratio
    }

    #[test]
    fn three_runs_that_know_the_ratio_say_what_a_shared_row_is_alone() {
        let earlier = [
            alone(164.0, 217.0),
            alone(165.0, 221.0),
            // A run that was never alone adds how far the shared cost moves.
            shared(225.0),
        ];
        let found = found(shared(220.0), &earlier).unwrap();
        assert_eq!(found.runs, 3);
        assert!((found.median - 164.3).abs() < 1.0, "{found:?}");
        // The ratio is 1.323 to 1.368: 95 % of the next ones lie within 1.24 to 1.44.
        assert!(found.ci95.0 > 145.0 && found.ci95.0 < 158.0, "{found:?}");
        assert!(found.ci95.1 > 170.0 && found.ci95.1 < 185.0, "{found:?}");
    }

    #[test]
    fn fewer_runs_other_methods_and_ratios_that_scatter_say_nothing() {
        let two = [alone(164.0, 217.0), alone(165.0, 221.0)];
        assert_eq!(found(shared(220.0), &two), None);
        // One was alone, and the others' ratios would be to its median.
        let one = [alone(164.0, 217.0), shared(219.0), shared(221.0)];
        assert_eq!(found(shared(220.0), &one), None);
        // None was ever alone.
        assert_eq!(found(shared(220.0), &[shared(220.0), shared(221.0), shared(222.0)]), None);
        let mut other = [&two[..], &[alone(164.0, 218.0)]].concat();
        assert!(found(shared(220.0), &other).is_some());
        other[0].method += 1;
        assert_eq!(found(shared(220.0), &other), None);
        let scattered = [alone(164.0, 200.0), alone(164.0, 260.0), alone(164.0, 330.0)];
        assert_eq!(found(shared(220.0), &scattered), None);
    }

    #[test]
    fn a_row_that_was_alone_keeps_its_own_number() {
        let earlier = vec![alone(164.0, 217.0); 3];
        assert_eq!(found(alone(164.0, 217.0), &earlier), None);
        assert_eq!(found(row(200.0, Selection::All, None), &earlier), None);
    }
}
