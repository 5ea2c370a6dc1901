//! The recorded disturbances of the launches.

use crate::document::{list, scroll};
use crate::grid::{Align, Grid};
use crate::notes;
use costof_model::{Grade, Noise, Run, Unit};
use maud::{Markup, html};

/// A kind of disturbance: its name, and its share of a launch or its count.
type Kind = (&'static str, fn(&Noise) -> Option<f64>);

const SHARES: &[Kind] = &[
    ("taken by the hypervisor (steal)", |noise| share(noise, noise.steal_ns?)),
    ("used by others on a measured CPU", |noise| share(noise, noise.others_ns?)),
    ("used by others on the other CPUs", |noise| noise.others_elsewhere),
    ("ready to run and waiting", |noise| share(noise, noise.run_queue_wait_ns?)),
    ("held back by a CPU quota", |noise| share(noise, noise.throttled_ns?)),
    ("measured while something else used the core", |noise| noise.core?.shared()),
    ("the other end shared its core", |noise| Some(1.0 - noise.other_core?.alone()?)),
    ("change of the time between CPUs", |noise| {
        let (before, after) = noise.distance_ns?;
        (before > 0.0).then(|| (after / before - 1.0).abs())
    }),
    ("gaps in the clock while nothing ran", |noise| {
        let gaps = noise.gaps?;
        (gaps.watched_ns > 0.0).then(|| gaps.sum_ns / gaps.watched_ns)
    }),
    ("change of the core clock", |noise| {
        let (before, after) = (noise.core_clock_before_hz?, noise.core_clock_after_hz?);
        (before > 0.0).then(|| (after / before - 1.0).abs())
    }),
];

/// Ticks may count a little more than the whole; what is far above it is unknown.
fn share(noise: &Noise, ns: f64) -> Option<f64> {
    let share = ns / noise.duration_ns;
    (0.0..=2.0).contains(&share).then(|| share.min(1.0))
}

/// How many points have each grade.
pub(super) fn by_grade(run: &Run) -> [(Grade, usize); 4] {
    [Grade::A, Grade::B, Grade::C, Grade::D].map(|grade| {
        let points = run.points.iter().filter(|row| row.grade == grade);
        (grade, points.count())
    })
}

pub(super) fn section(run: &Run) -> Markup {
    let counts: u64 =
        run.launches.iter().map(|launch| launch.noise.preemptions).fold(0, u64::saturating_add);
    let duration: f64 = run.launches.iter().map(|launch| launch.wall_ns).sum();
    html! {
        p {
            "Points by grade: "
            @for (grade, count) in by_grade(run) { span class={ "g g" (grade) } { (grade) } " " (count) " " }
            ". " (run.launches.len()) " launches took " (Unit::Nanoseconds.display(duration))
            "; measuring threads were preempted " (counts) " times."
        }
        @if !run.launches.is_empty() { (scroll("What disturbed the launches", &table(run).html())) }
        (list(&notes::doubts(run)))
    }
}

fn table(run: &Run) -> Grid {
    let columns =
        ["median launch", "worst launch", "recorded for"].map(|name| (name, Align::Right));
    let mut grid = Grid::new([("share of a launch", Align::Left)].into_iter().chain(columns));
    for (name, of) in SHARES {
        let values = sorted(run, *of);
        if let Some(worst) = values.last() {
            let shares = [values[values.len() / 2], *worst].map(percent);
            let count = format!("{} launches", values.len());
            grid.add([(*name).to_owned()].into_iter().chain(shares).chain([count]));
        }
    }
    grid
}

fn sorted(run: &Run, of: fn(&Noise) -> Option<f64>) -> Vec<f64> {
    let values = run.launches.iter().filter_map(|launch| of(&launch.noise));
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
