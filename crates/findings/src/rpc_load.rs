//! Finds the call rate up to which calls are answered in time.

use crate::naming::place;
use crate::text::ns;
use crate::{Finding, Kind, over};
use costof_model::{Group, PointRow, Run, State};

/// The percentile of the latency.
const PERCENT: f64 = 99.0;
/// The share of the saturation rate at which calls do not wait yet.
const UNLOADED: f64 = 0.1;
/// The limit of the percentile, as a multiple of its value at that rate.
const LEAVES: f64 = 10.0;
/// If a smaller share of the calls per second is answered, the server is saturated.
const KEEPS_UP: f64 = 0.95;

/// For each transport, payload and link, the rate from which the 99th percentile is more than ten times its value
/// at a tenth of saturation.
pub(crate) fn rpc_load(run: &Run) -> Vec<Finding> {
    let rows = run.select("rpc.load");
    let groups = rows.filter(|row| row.state == State::Ok).group_by(&["rate"]);
    let found = groups.iter().filter_map(|group| knee(run, group));
    found.collect()
}

/// The result for one rate.
struct Loaded<'a> {
    /// Calls per second: requested and answered.
    rate: f64,
    answered: f64,
    percentile_ns: f64,
    row: &'a PointRow,
}

fn loaded<'a>((rate, row): &(u64, &'a PointRow)) -> Option<Loaded<'a>> {
    Some(Loaded {
        rate: *rate as f64,
        answered: row.median("rate")?,
        percentile_ns: row.estimate("latency")?.percentile(PERCENT)?,
        row,
    })
}

fn knee(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let by_rate = group.rows.clone().by_number("rate");
    let loads: Vec<Loaded<'_>> = by_rate.iter().filter_map(loaded).collect();
    // Without a rate that the server cannot keep up with, the saturation rate is unknown.
    let beyond = loads.iter().find(|load| load.answered < KEEPS_UP * load.rate)?;
    let most = loads.iter().map(|load| load.answered).fold(0.0, f64::max);
    let unloaded = loads.iter().rfind(|load| load.rate <= UNLOADED * most)?;
    let limit_ns = LEAVES * unloaded.percentile_ns;
    let left =
        loads.iter().position(|load| load.rate > unloaded.rate && load.percentile_ns > limit_ns)?;
    let (before, left) = (&loads[left - 1], &loads[left]);
    let evidence = [unloaded, before, left, beyond].map(|load| load.row);
    let word = |axis| group.common.axes.find_word(axis).unwrap_or("?");
    let load = |load: &Loaded<'_>| (load.rate, ns(load.percentile_ns));
    let ((slow, slow_p99), (before, before_p99)) = (load(unloaded), load(before));
    let (left, left_p99) = load(left);
    let sentence = format!(
        "calls by {by} with {payload} over {place}: at most {most:.0}/s are answered; the 99th percentile is \
         {slow_p99} at {slow:.0}/s (a tenth of that or less), and grows tenfold between {before:.0}/s ({before_p99}) \
         and {left:.0}/s ({left_p99})",
        by = word(over::AXIS),
        payload = word("payload"),
        place = place(run, &group.common.without(&[over::AXIS, "payload"])),
    );
    let advice = format!("plan for {before:.0}/s at most, where latency matters");
    Some(Finding::new(Kind::RpcLoad, evidence, sentence).advise(advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, point_row, reads};
    use costof_model::Estimate;
    use costof_model::metric::Percentile;

    /// A requested rate, the rate answered, and the 99th percentile.
    fn row(rate: u64, answered: f64, percentile_us: f64) -> PointRow {
        let axes = axes!(over = "grpc", payload = "string64", rate);
        let mut row = point_row("rpc.load", "latency", axes, 20e3, (19e3, 21e3)).over("loopback");
        let mut answers: Estimate = row.metrics[0].clone();
        answers.name = "rate".into();
        answers.median = answered;
        row.metrics[0].percentiles = vec![
            Percentile { percent: 50.0, value: 20e3 },
            Percentile { percent: 99.0, value: percentile_us * 1e3 },
        ];
        row.metrics.push(answers);
        row
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        tests::found(rpc_load, rows)
    }

    #[test]
    fn the_rate_is_reported_at_which_the_99th_percentile_leaves_what_it_was() {
        let found = found(&[
            row(40_000, 39_990.0, 400.0),
            row(1_000, 1_000.0, 90.0),
            row(2_000, 2_000.0, 50.0),
            row(5_000, 5_000.0, 60.0),
            row(60_000, 45_000.0, 90_000.0),
            row(50_000, 49_000.0, 2_000.0),
        ]);
        reads!(&found);
        assert_eq!(found[0].evidence.len(), 4);
        assert!(found[0].advice.as_ref().unwrap().contains("40000/s"));
    }

    #[test]
    fn without_saturation_nothing_is_said_of_it() {
        let rows = [row(1_000, 1_000.0, 50.0), row(20_000, 19_900.0, 900.0)];
        assert!(found(&rows).is_empty());
        // Nor if no measured rate is far below saturation.
        let rows = [row(10_000, 10_000.0, 50.0), row(60_000, 45_000.0, 9_000.0)];
        assert!(found(&rows).is_empty());
    }
}
