//! The notes below the table: how the run went, where one number is not the whole answer, the findings, the
//! points without a number, and the doubts.

use crate::names::{by_reason, label, points_counted};
use crate::rows::in_order;
use crate::table::{cycles, is_hit};
use costof_findings::Finding;
use costof_findings::sureness::{Points, Sureness};
use costof_model::link::mark;
use costof_model::metric::Mode;
use costof_model::noise::{by_kind, main_cause};
use costof_model::protocol::ClockSource;
use costof_model::{
    FailureRow, Grade, LinkEnd, Point, PointRow, Run, Selection, Unit, Warning, alone, counted,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// How many points were measured, how often, and how many predictions held.
pub(crate) fn summary(run: &Run) -> String {
    let rows = || in_order(run);
    let launches = || rows().map(|row| row.launches);
    let count = match (launches().min(), launches().max()) {
        (Some(least), Some(most)) if least == most => counted(most, "launch"),
        (Some(least), Some(most)) => format!("{least} to {most} launches"),
        _ => return String::new(),
    };
    let predicted = rows().filter_map(is_hit).count();
    let hits = rows().filter_map(is_hit).filter(|hit| *hit).count();
    let predictions = match predicted {
        0 if rows().any(|row| row.prediction.is_some()) => "no prediction is scored".to_owned(),
        0 => "none was predicted".to_owned(),
        _ => format!("{hits} of {predicted} predictions held"),
    };
    let needed: HashSet<&Point> = run.run.plan.needed().collect();
    let needed = match rows().filter(|row| needed.contains(&row.point)).count() {
        0 => String::new(),
        count => format!(" ({count} only for predictions)"),
    };
    format!("{} measured{needed}, {count} each; {predictions}", points_counted(rows().count()))
}

/// What the mark of estimated cycles means; none if no row has it.
pub(crate) fn estimated_cycles(run: &Run) -> Option<&'static str> {
    let is_estimated = |row: &PointRow| cycles(row).starts_with('~');
    in_order(run)
        .any(is_estimated)
        .then_some("~ core cycles estimated as time × the core clock measured in each launch")
}

/// The points for which one number is not the whole answer: those with more than two modes (a
/// finding covers those with two), those that cost more while the core is shared, those that were only measured on a shared
/// core, with what they would cost alone, and those that disturbed batches changed, with the value without these batches.
pub(crate) fn distributions(run: &Run) -> String {
    /// A smaller difference does not change the digits that are shown.
    const NOTABLE_SHARE: f64 = 0.005;
    let mut text = String::new();
    for row in in_order(run) {
        let Some(estimate) = row.primary().filter(|estimate| estimate.is_usable()) else {
            continue;
        };
        let name = label(run, &row.point);
        if estimate.modes.len() > 2 {
            let modes: Vec<String> =
                estimate.modes.iter().map(|mode| describe(estimate.unit, mode)).collect();
            let (count, modes) = (modes.len(), modes.join("; "));
            let _ = writeln!(text, "{name} has {count} modes: {modes}");
        }
        if let Some(core) = estimate.core
            && let Some(shared) = core.shared_median
            && core.selection == Selection::Alone
            && core.shared >= NOTABLE_SHARE
            && (shared / estimate.median - 1.0).abs() >= NOTABLE_SHARE
        {
            let _ = writeln!(
                text,
                "{name} is {} while something else uses the core ({:.0} % of the samples)",
                estimate.unit.display(shared),
                core.shared * 100.0
            );
        }
        if let Some(alone) = estimate.core.and_then(|core| core.alone_by_ratio) {
            let _ = writeln!(
                text,
                "{name}: shared; about {} alone ({}), by the ratio of {} earlier runs",
                estimate.unit.display(alone.median),
                estimate.unit.display_range(alone.ci95),
                alone.runs
            );
        }
        if let Some(undisturbed) = estimate.undisturbed
            && (undisturbed / estimate.median - 1.0).abs() >= NOTABLE_SHARE
        {
            let _ = writeln!(
                text,
                "{name}: {} excluding preempted batches",
                estimate.unit.display(undisturbed)
            );
        }
    }
    text
}

/// A mode: `14.5 µs in 70 %`.
fn describe(unit: Unit, mode: &Mode) -> String {
    format!("{} in {:.0} %", unit.display(mode.median), mode.share * 100.0)
}

/// The clock, and the counters that are missing, as in the last attempt, and for how long each CPU was alone.
pub(crate) fn instruments(run: &Run) -> String {
    let Some(attempt) = run.attempts.last() else {
        return String::new();
    };
    let clock = &attempt.clock;
    let name = match clock.source {
        ClockSource::Counter => format!("the CPU's counter at {}", Unit::Hertz.display(clock.hz)),
        ClockSource::Monotonic => "CLOCK_MONOTONIC".to_owned(),
    };
    let mut text = format!(
        "Clock: {name}: {}; a reading takes {}\n",
        clock.because,
        Unit::Nanoseconds.display(clock.read_ns)
    );
    let alone = alone::said(&run.alone_by_cpu(), "the time in which it was measured");
    if !alone.is_empty() {
        let _ = writeln!(text, "Cores: {alone}");
    }
    let counters = &attempt.counters;
    if let Some(reason) = counters.absent.get("cycles") {
        let _ = writeln!(text, "No counted cycles: {reason}");
    }
    if counters.user_only.iter().any(|name| name == "cycles") {
        text.push_str(
            "No counted cycles: only those in user mode are counted (cycles_user in the run \
             file); sysctl kernel.perf_event_paranoid=1 or CAP_PERFMON adds the kernel's\n",
        );
    }
    text
}

/// How the ends of each link were set up, once for each setup if launches differ in it.
pub(crate) fn links(run: &Run) -> String {
    let mut links: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for launch in &run.launches {
        let Some(first) = launch.points.first() else {
            continue;
        };
        let ends = links.entry(&first.point.link).or_default();
        let own = launch.noise.ends.iter();
        // A host without costof reports nothing about its end.
        let own = own.filter(|(role, _)| run.run.plan.hosts.to.is_none() || *role == "client");
        for end in own.map(|(_, own)| end(own)) {
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    let lines = links
        .iter()
        .filter(|(_, ends)| !ends.is_empty())
        .map(|(link, ends)| format!("Link {link}{}: {}\n", mark(link), ends.join("; or ")));
    lines.collect()
}

/// The setup of one end: `lo, MTU 65536, TCP default cubic`.
fn end(end: &LinkEnd) -> String {
    let mut parts: Vec<String> = end.device.iter().cloned().collect();
    parts.extend(end.mtu_bytes.map(|bytes| format!("MTU {bytes}")));
    let control = end.congestion_control.as_ref();
    parts.extend(control.map(|name| format!("TCP default {name}")));
    let absent = end.absent.iter();
    parts.extend(absent.map(|(name, why)| format!("{name} unknown ({why})")));
    parts.join(", ")
}

/// At most this many points of a probe are named for one reason.
const NAMED: usize = 3;

/// The points without a number, and why: each reason once for a probe.
pub(crate) fn absent(run: &Run) -> String {
    let absent = run.failures.iter().filter(|row| row.launch.is_none());
    let reasons = by_reason(absent.map(|failure| {
        let reason = (&failure.point.probe, failure.failure().to_string());
        (reason, label(run, &failure.point))
    }));
    let mut text = String::new();
    for ((_, reason), points) in &reasons {
        let named = points[..points.len().min(NAMED)].join(", ");
        let _ = match points.len().saturating_sub(NAMED) {
            0 => writeln!(text, "absent: {named}: {reason}"),
            more => writeln!(text, "absent: {named} and {more} more: {reason}"),
        };
    }
    text
}

/// Failed launches of points that have a number all the same, and why they failed.
pub(crate) fn lost_launches(run: &Run) -> String {
    let measured: HashSet<&Point> = run.points.iter().map(|row| &row.point).collect();
    let failures = run.failures.iter();
    let lost = failures.filter(|row| measured.contains(&row.point));
    let line = |failure: &FailureRow| {
        let launch = failure.launch? + 1;
        let name = label(run, &failure.point);
        Some(format!("launch {launch} lost: {name}: {}\n", failure.failure()))
    };
    lost.filter_map(line).collect()
}

/// The number of points without a number.
pub(crate) fn absent_points(run: &Run) -> usize {
    let absent = run.failures.iter().filter(|row| row.launch.is_none());
    absent.count()
}

/// The findings in the rows.
pub(crate) fn findings(run: &Run) -> String {
    let points = Points::new(run);
    let found = costof_findings::all::findings(run);
    found.iter().map(|found| finding(&points, found)).collect()
}

/// A finding as a line, with advice. If its evidence has a grade that is not to be relied on, the line says
/// so.
fn finding(points: &Points<'_>, finding: &Finding) -> String {
    let doubt = match points.sureness(finding) {
        Some(Sureness { grade, .. }) if grade > Grade::B => format!(" (of grade {grade})"),
        _ => String::new(),
    };
    format!("{}{doubt}\n", finding.with_advice())
}

/// The doubts about the points: each kind once, in its worst case, with advice, and how many points have which
/// grade because of it.
pub(crate) fn doubts(run: &Run) -> String {
    let warnings = || in_order(run).flat_map(|row| &row.warnings);
    let mut kinds = by_kind(warnings());
    kinds.sort_by_key(|(warning, _)| Reverse(warning.grade));
    let lines = kinds.iter().map(|(worst, _)| {
        let count = |grade| {
            let such = warnings().filter(|warning| warning.kind == worst.kind);
            such.filter(|warning| warning.grade == grade).count()
        };
        let others = [Grade::D, Grade::C, Grade::B].map(|grade| (grade, count(grade)));
        let others = others.into_iter().filter(|(grade, count)| *grade < worst.grade && *count > 0);
        let others = others.map(|(grade, count)| format!("; {count} of grade {grade}"));
        format!(
            "grade {}: {} ({}{}): {}\n",
            worst.grade,
            worst.what,
            points_counted(count(worst.grade)),
            others.collect::<String>(),
            worst.advice
        )
    });
    lines.collect()
}

/// How many rows can be trusted; and how many have grade D, and C, what disturbed most of these, and what to
/// do about it, as a sentence. Empty if nothing was measured.
pub(crate) fn verdict(run: &Run) -> String {
    let of_grade = |grade| in_order(run).filter(move |row| row.grade == grade);
    let all = in_order(run).count();
    if all == 0 {
        return String::new();
    }
    let good = of_grade(Grade::A).count() + of_grade(Grade::B).count();
    let rows = if all == 1 { "row is" } else { "rows are" };
    let mut verdict = format!("{good} of {all} {rows} A or B");
    for grade in [Grade::D, Grade::C] {
        let count = of_grade(grade).count();
        let warnings = of_grade(grade).flat_map(|row| &row.warnings);
        let main = main_cause(warnings.filter(|warning| warning.grade == grade));
        if let Some(Warning { what, advice, .. }) = main {
            let (have, mostly) = match count {
                1 => ("has", ""),
                _ => ("have", ", mostly"),
            };
            let _ =
                write!(verdict, "; {count} {have} grade {grade}{mostly} because {what}: {advice}");
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::Axes;
    use costof_model::testing::{RowExt, golden, planned, row};

    #[test]
    fn a_shared_row_says_what_it_would_be_alone_and_by_what() {
        let mut row = row("os.syscall", Axes::default(), 229.0);
        row.metrics[0].core = Some(costof_model::metric::CoreShare {
            selection: Selection::Shared,
            alone: 0.0,
            shared: 1.0,
            shared_median: Some(229.0),
            alone_by_ratio: Some(costof_model::metric::AloneByRatio {
                median: 164.2,
                ci95: (158.1, 171.4),
                runs: 4,
            }),
        });
        let mut run = planned([vec![row.point.clone()]]);
        run.points.push(row);
        golden("report/notes", "a shared row", &distributions(&run));
    }

    #[test]
    fn each_point_counts_under_its_own_grade() {
        let grades = [Grade::B, Grade::D, Grade::B, Grade::C];
        let rows: Vec<PointRow> = grades
            .map(|grade| row(format!("a.{grade}"), Axes::default(), 1.0).warned("load", grade))
            .into_iter()
            .chain([row("a.other", Axes::default(), 1.0).warned("steal", Grade::B)])
            .collect();
        let mut run = planned([rows.iter().map(|row| row.point.clone()).collect()]);
        run.points = rows;
        golden("report/notes", "doubts", &doubts(&run));
    }

    #[test]
    fn an_end_of_a_link_is_reported_in_a_line() {
        let mut cable = LinkEnd {
            device: Some("eth0".to_owned()),
            congestion_control: Some("cubic".to_owned()),
            mtu_bytes: Some(1500),
            ..LinkEnd::default()
        };
        let described = end(&cable);
        (cable.device, cable.mtu_bytes) = (None, None);
        cable.absent.insert("device".into(), "translated".to_owned());
        golden("report/notes", "ends of a link", &format!("{described}\n{}\n", end(&cable)));
    }
}
