//! Marks on the horizontal axes of plots: where caches end, and from which size on one way of sending beats
//! another.

use crate::plot::{Figure, Mark};
use crate::rows::Rows;
use costof_findings::cache_levels::cache_ends;
use costof_findings::crossover::Crossover;
use costof_findings::send_crossover::{SendCrossover, send_crossovers};
use std::collections::HashSet;

/// A panel with more marks cannot be read.
const MARKS: usize = 6;

pub(super) fn add(rows: &Rows<'_>, probe: &str, figures: &mut [Figure]) {
    match probe {
        "memory.latency" | "memory.bandwidth" => caches(rows, probe, figures),
        "copy.send" => crossovers(rows, figures),
        _ => {}
    }
}

/// The caches that the machine claims; on plots of latency, also where the run found them to end.
fn caches(rows: &Rows<'_>, probe: &str, figures: &mut [Figure]) {
    let mut marks: Vec<Mark> = Vec::new();
    for end in &cache_ends(rows.run) {
        let found = end.found.filter(|_| probe == "memory.latency");
        let claimed = (Some(end.claimed as f64), "claimed");
        for (at, what) in [claimed, (found, "found")] {
            let label = format!("{} {what}", end.name);
            let at = at.filter(|_| marks.iter().all(|mark| mark.label != label));
            marks.extend(at.map(|at| Mark { at, interval: None, label }));
        }
    }
    for panel in by_size(figures).flat_map(|figure| &mut figure.panels) {
        panel.marks.extend(marks.iter().cloned());
    }
}

fn by_size(figures: &mut [Figure]) -> impl Iterator<Item = &mut Figure> {
    figures.iter_mut().filter(|figure| figure.axis == "size")
}

/// From which size on one way of sending beats another by the metric that is drawn. The mark goes into the
/// panel that has all the points that the crossover follows from.
fn crossovers(rows: &Rows<'_>, figures: &mut [Figure]) {
    let crossovers = send_crossovers(rows.run);
    for figure in by_size(figures) {
        let of_metric = crossovers.iter().filter(|crossover| crossover.metric == figure.metric);
        for panel in &mut figure.panels {
            let dots = panel.lines.iter().flat_map(|line| &line.dots);
            let drawn: HashSet<usize> = dots.filter_map(|dot| dot.row).collect();
            let is_drawn = |point| rows.position(point).is_some_and(|at| drawn.contains(&at));
            let here =
                of_metric.clone().filter(|crossover| crossover.evidence.iter().all(is_drawn));
            panel.marks.extend(here.filter_map(mark).take(MARKS));
        }
    }
}

/// A crossover at a known size, as a mark.
fn mark(crossover: &SendCrossover) -> Option<Mark> {
    let Crossover::From { about: Some(about), low, high } = crossover.crossover else {
        return None;
    };
    Some(Mark {
        at: about,
        interval: Some((low.unwrap_or(about), high)),
        label: format!("{} beats {}", crossover.better, crossover.other),
    })
}
