//! Places on plots that mean something: where caches end, and where one way of sending begins to
//! beat another.

use crate::plot::{Figure, Mark};
use crate::rows::Rows;
use costof_findings::cache_levels::cache_ends;
use costof_findings::crossover::Crossover;
use costof_findings::send_crossover::{SendCrossover, send_crossovers};

/// So many marks can be read in a panel.
const MARKS: usize = 6;

pub(super) fn add(rows: &Rows<'_>, probe: &str, figures: &mut [Figure]) {
    match probe {
        "memory.latency" | "memory.bandwidth" => caches(rows, probe, figures),
        "copy.send" => crossovers(rows, figures),
        _ => {}
    }
}

/// The caches that the machine claims; on latencies, where they were found to end too.
fn caches(rows: &Rows<'_>, probe: &str, figures: &mut [Figure]) {
    let ends = cache_ends(rows.run);
    let mut marks: Vec<Mark> = Vec::new();
    for end in &ends {
        let label = format!("{} claimed", end.name);
        if marks.iter().all(|mark| mark.label != label) {
            marks.push(Mark {
                at: end.claimed as f64,
                interval: None,
                label,
            });
        }
        let label = format!("{} found", end.name);
        let found = end.found.filter(|_| probe == "memory.latency");
        if let Some(at) = found.filter(|_| marks.iter().all(|mark| mark.label != label)) {
            marks.push(Mark {
                at,
                interval: None,
                label,
            });
        }
    }
    for figure in figures
        .iter_mut()
        .filter(|figure| figure.name.ends_with("-by-size"))
    {
        for panel in &mut figure.panels {
            panel.marks.extend(marks.iter().cloned());
        }
    }
}

/// Where a way of sending begins to beat another by the metric that is drawn.
fn crossovers(rows: &Rows<'_>, figures: &mut [Figure]) {
    let crossovers = send_crossovers(rows.run);
    for figure in figures
        .iter_mut()
        .filter(|figure| figure.name.ends_with("-by-size"))
    {
        let metric = figure.name.replace('-', "_");
        for panel in &mut figure.panels {
            let here = |crossover: &&SendCrossover| {
                // All of one panel's points stand where the crossover's do.
                let drawn: Vec<usize> = panel
                    .lines
                    .iter()
                    .flat_map(|line| line.dots.iter().filter_map(|dot| dot.row))
                    .collect();
                let mut evidence = crossover.evidence.iter();
                metric.contains(crossover.metric)
                    && evidence
                        .all(|point| rows.position(point).is_some_and(|at| drawn.contains(&at)))
            };
            let marks: Vec<Mark> = crossovers.iter().filter(here).filter_map(mark).collect();
            panel.marks.extend(marks.into_iter().take(MARKS));
        }
    }
}

/// A crossover that lies somewhere, as a mark.
fn mark(crossover: &SendCrossover) -> Option<Mark> {
    let Crossover::From {
        about: Some(about),
        low,
        high,
    } = crossover.crossover
    else {
        return None;
    };
    Some(Mark {
        at: about,
        interval: Some((low.unwrap_or(about), high)),
        label: format!("{} beats {}", crossover.better, crossover.other),
    })
}
