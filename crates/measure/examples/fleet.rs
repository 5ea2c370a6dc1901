//! How well `costof fleet` finds slowed hosts, beside two rules that people use, on fleets that are resampled from
//! real runs: a host is one of the runs, and its launches are drawn from that run's. Prints a Markdown table.
//! Run: `cargo run --release -p costof-measure --example fleet -- RUN…`, with runs of different minutes or hosts.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use costof_measure::fleet::{BY, fleet};
use costof_model::fleet::Fleet;
use costof_model::noise::MEASURED;
use costof_model::point::Point;
use costof_model::rows::{PointRow, State};
use costof_model::run_file::{self, Run};
use costof_model::unit::Better;
use costof_stats::{median, median_interval};
use fastrand::Rng;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufReader;

const SEED: u64 = 20_261_125;
const HOSTS: usize = 1000;
/// The number of slowed hosts, and by how much.
const SLOWED: [usize; 3] = [10, 25, 50];
const BY_SHARE: [f64; 4] = [0.03, 0.05, 0.1, 0.2];

/// A run: its rows, each with the medians of its launches.
struct Base {
    run: Run,
    rows: Vec<(PointRow, Vec<f64>)>,
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let bases: Vec<Base> = files.iter().map(|file| base(file)).collect();
    assert!(!bases.is_empty(), "name the runs");
    let mut random = Rng::with_seed(SEED);
    println!("Seed {SEED}, {HOSTS} hosts of {} runs.\n", bases.len());
    println!("| slowed | by | rule | called odd | false | found |\n|---|---|---|---|---|---|");
    print_fleet(&bases, &mut random, 0, 0.0);
    for slowed in SLOWED {
        for share in BY_SHARE {
            print_fleet(&bases, &mut random, slowed, share);
        }
    }
}

fn base(file: &str) -> Base {
    let open = File::open(file).expect("the run can be opened");
    let mut run = run_file::read(BufReader::new(open)).expect("a run file");
    let rows = run
        .points
        .drain(..)
        .filter(|row| row.is_sound() && row.state == State::Ok);
    let rows: Vec<PointRow> = rows.collect();
    let rows = rows.into_iter().filter_map(|row| {
        let medians = medians(&run, &row);
        (medians.len() >= 6 && row.primary().is_some()).then_some((row, medians))
    });
    let rows = rows.collect();
    run.launches.clear();
    Base { run, rows }
}

/// The median of each launch of a row.
fn medians(run: &Run, row: &PointRow) -> Vec<f64> {
    let points = run.launches.iter().flat_map(|launch| &launch.points);
    let of_row = points.filter(|point| point.point == row.point && point.state == State::Ok);
    let metrics = of_row.filter_map(|point| point.metrics.iter().find(|it| it.name == row.primary));
    metrics
        .filter_map(|metric| median(&metric.data.costs()))
        .collect()
}

fn print_fleet(bases: &[Base], random: &mut Rng, slowed: usize, share: f64) {
    let hosts: Vec<Run> = (0..HOSTS)
        .map(|host| drawn(bases, random, host, if host < slowed { share } else { 0.0 }))
        .collect();
    let found = fleet(&hosts, &BY);
    for (rule, odd) in [
        ("costof fleet", odd(&found)),
        (
            "5 % worse than the median",
            by_rule(&hosts, |worse, _| worse > 0.05),
        ),
        (
            "6 MAD",
            by_rule(&hosts, |worse, mad| worse.abs() > 6.0 * mad),
        ),
    ] {
        let is_slowed = |name: &&String| name.parse::<usize>().is_ok_and(|host| host < slowed);
        let right = odd.iter().filter(is_slowed).count();
        let wrong = odd.len() - right;
        let percent = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        println!(
            "| {slowed} | {:.0} % | {rule} | {} | {wrong} ({:.1} %) | {right} ({:.0} %) |",
            share * 100.0,
            odd.len(),
            percent(wrong, odd.len()),
            percent(right, slowed),
        );
    }
}

/// A host: one of the runs with launches drawn from its own, one layer of it this much slower.
fn drawn(bases: &[Base], random: &mut Rng, host: usize, share: f64) -> Run {
    let base = &bases[random.usize(..bases.len())];
    let mut run = base.run.clone();
    for attempt in &mut run.attempts {
        if let Some(facts) = attempt.hosts.get_mut(MEASURED) {
            facts.host_name = Some(host.to_string());
        }
    }
    let layer = |row: &PointRow| row.point.layer().to_owned();
    let layers: Vec<String> = base.rows.iter().map(|(row, _)| layer(row)).collect();
    let slow = &layers[random.usize(..layers.len())];
    for (row, medians) in &base.rows {
        let drawn: Vec<f64> = medians
            .iter()
            .map(|_| medians[random.usize(..medians.len())])
            .collect();
        let mut row = row.clone();
        let is_slow = layer(&row) == *slow;
        let primary = row.primary.clone();
        if let Some(estimate) = row
            .metrics
            .iter_mut()
            .find(|estimate| estimate.name == primary)
        {
            let factor = match (is_slow, estimate.better) {
                (false, _) => 1.0,
                (true, Better::Higher) => 1.0 / (1.0 + share),
                (true, Better::Lower | Better::Neither) => 1.0 + share,
            };
            estimate.median = median(&drawn).unwrap_or(f64::NAN) * factor;
            let interval = median_interval(&drawn);
            estimate.ci95 = interval.map(|it| (it.low * factor, it.high * factor));
        }
        run.points.push(row);
    }
    run
}

fn odd(found: &Fleet) -> HashSet<String> {
    let hosts = found.cohorts.iter().flat_map(|cohort| &cohort.hosts);
    let odd = hosts.filter(|host| host.verdict.is_odd());
    odd.map(|host| host.name.clone()).collect()
}

/// The hosts of which any row is called odd by a rule on how much worse than the median it is, and the median
/// absolute deviation.
fn by_rule(hosts: &[Run], rule: impl Fn(f64, f64) -> bool) -> HashSet<String> {
    let mut rows: BTreeMap<&Point, Vec<(usize, f64)>> = BTreeMap::new();
    for (host, run) in hosts.iter().enumerate() {
        for row in &run.points {
            if let Some(estimate) = row.primary() {
                let sign = if estimate.better == Better::Higher {
                    -1.0
                } else {
                    1.0
                };
                rows.entry(&row.point)
                    .or_default()
                    .push((host, sign * estimate.median.ln()));
            }
        }
    }
    let mut odd = HashSet::new();
    for values in rows.values() {
        let middle =
            median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>()).unwrap_or(0.0);
        let offs: Vec<f64> = values
            .iter()
            .map(|(_, value)| (value - middle).abs())
            .collect();
        let mad = median(&offs).unwrap_or(0.0);
        let called = values
            .iter()
            .filter(|(_, value)| rule((value - middle).exp_m1(), mad));
        odd.extend(called.map(|(host, _)| host.to_string()));
    }
    odd
}
