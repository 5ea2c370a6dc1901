//! Where the rows of one host lie among the machines of references. Pure.
//!
//! The machines are the hosts of `fleet --save` files and the entries of a corpus. The closest class of them counts: those
//! with the same CPU, kernel and hypervisor or, where these are too few, with less in common. A row's position is the share
//! of machines that are better.
//!
//! A row lies outside if no machine of a cohort, nor of the entries together, is to be expected as far off: of the rows called
//! so, at most a stated share is not (Benjamini and Hochberg), unless machines scatter with heavier tails than Student's t
//! with three degrees of freedom. Fewer than five machines have no spread to lie outside of.

use crate::fleet::{FALSE_SHARE, HALF_WIDTH, class, graded, reading};
use costof_model::fleet::UNKNOWN;
use costof_model::placed::{Placed, PlacedRow};
use costof_model::reference::{Cohort, Row};
use costof_model::{Better, MetricOfPoint, PointRow, Reference, Run};
use costof_stats::outliers::{MIN_MEMBERS, Population, Reading, threshold};
use std::cmp::Ordering;
use std::collections::BTreeMap;

const CPU: &str = "processor";
const KERNEL: &str = "kernel";
const HYPERVISOR: &str = "hypervisor";
/// What the machines of a class have in common with the host, the closest class first.
const CLASSES: [&[&str]; 4] =
    [&[CPU, KERNEL, HYPERVISOR], &[CPU, KERNEL], &[CPU, HYPERVISOR], &[CPU]];

/// The host of this run among the machines of these references.
pub fn place(run: &Run, references: &[Reference]) -> Placed {
    let facts = run.facts().cloned().unwrap_or_default();
    let mut own: BTreeMap<String, String> = class(&facts).into_iter().collect();
    own.entry(KERNEL.to_owned()).and_modify(|release| *release = series(release).to_owned());
    let all: Vec<&Cohort> = references.iter().flat_map(|reference| &reference.cohorts).collect();
    let (names, class) = closest(&own, &all);
    let mut rows: Vec<PlacedRow> =
        run.points.iter().filter_map(|row| placed(row, &class)).collect();
    let tests: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let limit = threshold(&tests, FALSE_SHARE);
    for row in &mut rows {
        row.outside = row.p.zip(limit).is_some_and(|(p, limit)| p <= limit);
    }
    // Twice as slow and twice as fast are as far off.
    let off = |row: &PlacedRow| row.worse.ln_1p().abs();
    rows.sort_by(|one, other| {
        (other.outside.cmp(&one.outside)).then(off(other).total_cmp(&off(one)))
    });
    Placed {
        class: names.iter().map(|name| ((*name).to_owned(), own[*name].clone())).collect(),
        machines: machines(&class),
        not_placed: run.points.len() - rows.len(),
        rows,
    }
}

/// The closest class with enough machines to say what is usual, else the closest one with most.
fn closest<'r>(
    own: &BTreeMap<String, String>,
    all: &[&'r Cohort],
) -> (&'static [&'static str], Vec<&'r Cohort>) {
    let classes = CLASSES.map(|names| {
        let is_alike =
            |cohort: &&&Cohort| names.iter().all(|name| is_same(&own[*name], cohort, name));
        (names, all.iter().filter(is_alike).copied().collect::<Vec<_>>())
    });
    let large = classes.iter().find(|(_, class)| machines(class) >= MIN_MEMBERS);
    let largest = classes.iter().rev().max_by_key(|(_, class)| machines(class));
    large.or(largest).cloned().unwrap_or_default()
}

/// Whether the machines of a cohort have this value of a fact. A machine without a hypervisor has none that is known.
fn is_same(own: &str, cohort: &Cohort, name: &str) -> bool {
    let there = cohort.facts.iter().find(|(what, _)| what == name).map(|(_, value)| &**value);
    let there = if name == KERNEL { there.map(series) } else { there };
    there == Some(own) && (own != UNKNOWN || name == HYPERVISOR)
}

/// The first two numbers of a kernel's release: `6.18`.
fn series(release: &str) -> &str {
    let second = release.find('.').map_or(release.len(), |dot| dot + 1);
    let end = release[second..].find(|c: char| !c.is_ascii_digit());
    end.map_or(release, |end| &release[..second + end])
}

fn machines(class: &[&Cohort]) -> usize {
    class.iter().fold(0, |sum, cohort| sum.saturating_add(cohort.hosts))
}

/// A row among the machines of a class that measured it in the same way.
fn placed(row: &PointRow, class: &[&Cohort]) -> Option<PlacedRow> {
    let (estimate, reading) = reading(row)?;
    let here = graded(reading, row.grade);
    let others = class.iter().flat_map(|cohort| &cohort.rows).filter(|other| {
        other.of.point == row.point
            && other.method == row.method
            && (&other.of.metric, other.of.unit, other.better)
                == (&estimate.name, estimate.unit, estimate.better)
    });
    let others: Vec<&Row> = others.collect();
    let usual = usual(&others)?;
    let at = |widths: f64| here.value + widths * here.error;
    let position = |value: f64| match (share_below(&others, value), estimate.better) {
        (below, Better::Higher) => 1.0 - below,
        (below, Better::Lower | Better::Neither) => below,
    };
    let [low, high] = [-HALF_WIDTH, HALF_WIDTH].map(at);
    let [one, other] = [low, high].map(position);
    Some(PlacedRow {
        of: MetricOfPoint::new(row, estimate),
        here: estimate.median,
        here_ci95: (low.exp(), high.exp()),
        usual,
        worse: estimate.better.worse(here.value - usual.ln()).exp_m1(),
        machines: others.iter().fold(0, |sum, other| sum.saturating_add(other.hosts)),
        position: position(here.value),
        position_ci95: (one.min(other), one.max(other)),
        p: p(&others, here),
        outside: false,
    })
}

/// The median of these machines; `None` without one.
fn usual(others: &[&Row]) -> Option<f64> {
    let mut sorted = others.to_vec();
    sorted.sort_by(|one, other| one.usual.total_cmp(&other.usual));
    let half = sorted.iter().map(|row| row.hosts as f64).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let middle = sorted.iter().find(|row| {
        below += row.hosts as f64;
        below >= half
    });
    middle.map(|row| row.usual)
}

/// The share of these machines whose value has a smaller logarithm; one of the same value counts half.
fn share_below(others: &[&Row], value: f64) -> f64 {
    let hosts: f64 = others.iter().map(|row| row.hosts as f64).sum();
    let below = others.iter().map(|row| match (row.hosts, value.total_cmp(&row.usual.ln())) {
        (1, Ordering::Less) => 0.0,
        (1, Ordering::Equal) => 0.5,
        (1, Ordering::Greater) => 1.0,
        (hosts, _) => hosts as f64 * population(row).below(value),
    });
    (below.sum::<f64>() / hosts).clamp(0.0, 1.0)
}

/// The hosts of a cohort.
fn population(row: &Row) -> Population {
    Population {
        centre: row.usual.ln(),
        spread: row.spread,
        degrees: row.degrees,
        error: row.error,
    }
}

/// The probability that a machine deviates as much, in the population that this value is nearest to: each cohort is one,
/// and the entries together. `None` if none has enough machines.
fn p(others: &[&Row], here: Reading) -> Option<f64> {
    let (entries, cohorts): (Vec<&Row>, Vec<&Row>) = others.iter().partition(|row| row.hosts == 1);
    let entries: Vec<Reading> =
        entries.iter().map(|row| Reading { value: row.usual.ln(), error: row.error }).collect();
    let cohorts = cohorts.into_iter().filter(|row| row.hosts >= MIN_MEMBERS);
    let cohorts = cohorts.map(|row| (population(row), row.hosts));
    let populations = cohorts.chain(Population::of(&entries).map(|all| (all, entries.len())));
    let tests = populations.map(|(population, hosts)| population.p_of_another(here, hosts));
    tests.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::entry;
    use costof_model::noise::MEASURED;
    use costof_model::testing::{RowExt, run, sized_row};

    const UNDER: [(&str, &str); 3] =
        [("a CPU", "6.18.44"), ("a CPU", "6.1.2"), ("other", "6.18.1")];

    /// A run of a host with this CPU and kernel, whose rows of sizes 1 to 8 cost this much.
    fn host((processor, kernel): (&str, &str), cost: impl Fn(u64) -> f64) -> Run {
        let mut run = run(&[]);
        let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
        facts.cpu.model_name = Some(processor.to_owned());
        facts.kernel.release = Some(kernel.to_owned());
        let row = |size| sized_row("memory.x", size, cost(size)).known_within(0.01);
        run.points = (1..=8).map(row).collect();
        run
    }

    /// A reference of so many machines: one of one host, whose probe nobody has to know, or a fleet.
    fn reference(of: &Run, hosts: usize) -> Reference {
        let mut reference = entry(of, &[]);
        let cohort = &mut reference.cohorts[0];
        cohort.hosts = hosts;
        cohort.rows = (of.points.iter())
            .map(|row| Row {
                of: MetricOfPoint::new(row, &row.metrics[0]),
                method: row.method,
                better: Better::Lower,
                usual: row.metrics[0].median,
                spread: if hosts == 1 { 0.0 } else { 0.01 },
                degrees: 10.0,
                error: 0.005,
                launch: 0.01,
                hosts,
                runs: hosts,
            })
            .collect();
        reference
    }

    /// Entries of these hosts, which differ by percents.
    fn entries(of: (&str, &str), count: u64) -> Vec<Reference> {
        let cost =
            |number: u64| move |size: u64| 10.0 * (1.0 + 0.01 * ((number + size) % count) as f64);
        (0..count).map(|number| reference(&host(of, cost(number)), 1)).collect()
    }

    #[test]
    fn a_row_lies_outside_if_machines_of_its_class_would_not_deviate_as_much() {
        let odd = |size: u64| if size == 3 { 20.0 } else { 10.42 };
        for references in [entries(UNDER[0], 9), vec![reference(&host(UNDER[0], |_| 10.42), 9)]] {
            let placed = place(&host(UNDER[0], odd), &references);
            assert_eq!((placed.machines, placed.rows.len(), placed.not_placed), (9, 8, 0));
            let outside: Vec<u64> = (placed.rows.iter().filter(|row| row.outside))
                .map(|row| row.of.point.axes.number("size"))
                .collect();
            assert_eq!(outside, [3]);
            let first = &placed.rows[0];
            assert!(first.outside && first.position > 0.99, "{first:?}");
            assert!((0.8..1.0).contains(&first.worse), "{first:?}");
            let (low, high) = placed.rows[1].position_ci95;
            assert!(low < 0.6 && high > 0.4, "{:?}", placed.rows[1]);
        }
        // Two populations: a value that belongs to one of them is not outside.
        let two = [10.42, 20.0].map(|cost| reference(&host(UNDER[0], |_| cost), 9));
        assert!(place(&host(UNDER[0], odd), &two).rows.iter().all(|row| !row.outside));
        // Four machines are not enough to say so, whatever they are.
        let few = place(&host(UNDER[0], odd), &entries(UNDER[0], 4));
        assert!(few.rows.iter().all(|row| row.p.is_none() && !row.outside));
    }

    #[test]
    fn the_closest_class_with_enough_machines_is_taken() {
        let own = host(UNDER[0], |_| 10.0);
        let [same, older, other] = UNDER;
        for (references, names, machines) in [
            (
                vec![entries(same, 5), entries(older, 9)],
                &["processor", "kernel", "hypervisor"][..],
                5,
            ),
            (vec![entries(same, 4), entries(older, 9)], &["processor", "hypervisor"], 13),
            (vec![entries(same, 2), entries(other, 9)], &["processor", "kernel", "hypervisor"], 2),
            (vec![entries(other, 9)], &["processor", "kernel", "hypervisor"], 0),
            (vec![], &["processor", "kernel", "hypervisor"], 0),
        ] {
            let references: Vec<Reference> = references.into_iter().flatten().collect();
            let placed = place(&own, &references);
            let facts: Vec<&str> = placed.class.iter().map(|(what, _)| &**what).collect();
            assert_eq!((&facts[..], placed.machines), (names, machines));
        }
        let [.., kernel, _] = &place(&own, &entries(same, 5)).class[..] else {
            panic!("three facts");
        };
        assert_eq!(*kernel, ("kernel".to_owned(), "6.18".to_owned()));
        // Machines of which nothing is known are not alike.
        let unknown = entries(("a\u{1b}", "secret"), 5);
        assert_eq!(place(&host(("a\u{1b}", "secret"), |_| 10.0), &unknown).machines, 0);
    }

    #[test]
    fn more_is_better_where_it_is_a_rate_and_another_method_is_another_row() {
        let mut own = host(UNDER[0], |_| 9.0);
        let mut references = entries(UNDER[0], 9);
        for row in &mut own.points {
            row.metrics[0].better = Better::Higher;
        }
        assert_eq!(place(&own, &references).not_placed, 8);
        for row in references.iter_mut().flat_map(|reference| &mut reference.cohorts[0].rows) {
            row.better = Better::Higher;
        }
        let placed = place(&own, &references);
        assert!(placed.rows.iter().all(|row| row.worse > 0.1 && row.position == 1.0), "{placed:?}");
        own.points[0].method += 1;
        assert_eq!(place(&own, &references).not_placed, 1);
    }
}
