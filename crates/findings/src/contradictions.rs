//! Rows that contradict each other. Probes declare which point cannot cost less than which other; a
//! contradiction is a row that surely does.

use crate::naming::row_name;
use crate::prelude::*;
use crate::sureness::Points;
use costof_model::{Estimate, ProbeInfo, Relation};

/// Intervals that are less than this factor apart contradict nothing: rows may have been disturbed for up to
/// a tenth of their time.
const NOISE: f64 = 1.1;

/// A row, another row that it cannot cost less than, and the least factor by which it costs less.
#[derive(Clone, Copy)]
struct Contradiction<'r> {
    row: &'r PointRow,
    other: &'r PointRow,
    times: f64,
}

/// For each relation, the pair with the strongest contradiction.
pub(crate) fn contradictions(run: &Run) -> Vec<Finding> {
    let points = Points::new(run);
    let of_probe = run.probes.iter().flat_map(|info| {
        let relations = info.relations.iter();
        relations.map(move |relation| (info, relation))
    });
    of_probe.filter_map(|(info, relation)| finding(run, &points, info, relation)).collect()
}

fn finding(
    run: &Run,
    points: &Points<'_>,
    info: &ProbeInfo,
    relation: &Relation,
) -> Option<Finding> {
    let mut all = contradicting(run, points, info, relation);
    all.sort_by(|one, other| other.times.total_cmp(&one.times));
    let &Contradiction { row, other, .. } = all.first()?;
    let named = |row: &PointRow| {
        let value = row.primary().map(|estimate| estimate.unit.display(estimate.median));
        format!("{} ({})", row_name(run, row), value.unwrap_or_default())
    };
    let (better, worse, because) = (named(row), named(other), &relation.because);
    let more = maybe(all.get(1), |_| format!("; {} more like it", all.len() - 1));
    let sentence = format!(
        "contradiction: {better} is better than {worse}, which is impossible: {because}{more}"
    );
    let advice =
        "at least one of them is wrong here: measure both again on a quiet machine (--full)";
    Some(Finding::new(Kind::Contradiction, [row, other], sentence).advise(advice))
}

fn contradicting<'r>(
    run: &'r Run,
    points: &Points<'r>,
    info: &ProbeInfo,
    relation: &Relation,
) -> Vec<Contradiction<'r>> {
    let has = |row: &PointRow| {
        let mut these = relation.these.0.iter();
        these.all(|(axis, value)| row.axes().0.get(axis) == Some(value))
    };
    let rows = run.select(&info.id).filter(has);
    if let Some(axis) = &relation.rises_with {
        let groups = rows.group_by(&[axis]).into_iter();
        return groups.flat_map(|group| falling(group.rows.by_number(axis))).collect();
    }
    let probe = relation.probe.as_ref().unwrap_or(&info.id);
    let Some(of_others) = run.probe(probe) else {
        return Vec::new();
    };
    let pairs = rows.into_iter().filter_map(|row| {
        let other = points.row(&counterpart(row, of_others, relation));
        contradiction(row, other.filter(|other| other.is_sound())?)
    });
    pairs.collect()
}

/// The point that a row cannot cost less than.
fn counterpart(row: &PointRow, info: &ProbeInfo, relation: &Relation) -> Point {
    let mut axes = info.defaults();
    for axis in info.axes.iter() {
        let own = row.axes().0.get(&axis.name).filter(|own| axis.allows(own));
        if let Some(value) = relation.those.0.get(&axis.name).or(own) {
            axes.0.insert(axis.name.clone(), value.clone());
        }
    }
    Point { probe: info.id.clone(), axes, link: row.point.link.clone() }
}

/// The points of a sweep that cost less than a point before them, each with the most expensive of those.
fn falling<'r>(rows: Vec<(u64, &'r PointRow)>) -> Vec<Contradiction<'r>> {
    let mut found = Vec::new();
    let mut most: Option<&'r PointRow> = None;
    for (_, row) in rows {
        found.extend(most.and_then(|most| contradiction(row, most)));
        if most.is_none_or(|most| times(most, row).is_some_and(|times| times > 1.0)) {
            most = Some(row);
        }
    }
    found
}

fn contradiction<'r>(row: &'r PointRow, other: &'r PointRow) -> Option<Contradiction<'r>> {
    let times = times(row, other).filter(|times| *times > NOISE)?;
    Some(Contradiction { row, other, times })
}

/// The factor by which the other costs more, at least.
fn times(row: &PointRow, other: &PointRow) -> Option<f64> {
    let (one, other) = (row.primary()?, other.primary()?);
    let ends = |estimate: &Estimate| estimate.ci95.filter(|(low, _)| *low > 0.0);
    let ((low, high), (other_low, other_high)) = (ends(one)?, ends(other)?);
    match one.better {
        _ if (one.unit, one.better) != (other.unit, other.better) => None,
        Better::Lower => Some(other_low / high),
        Better::Higher => Some(low / other_high),
        Better::Neither => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, point_row, reads, run};
    use costof_model::testing::{probe_info, words_axis};
    use costof_model::typed::bytes;
    use costof_model::{Grade, Unit};

    fn row(how: &'static str, size: u64, low: f64, high: f64) -> PointRow {
        let middle = f64::midpoint(low, high);
        point_row("p", "cost", axes!(how, size), middle, (low, high))
    }

    fn sentences(relation: Relation, rows: &[PointRow]) -> Vec<String> {
        let mut run = run(&[]);
        let mut info = probe_info("p");
        let size = bytes::<u64>(1..=1 << 20, &[64]).into_axis("size", "");
        info.axes = vec![words_axis("how", &["write", "copy"]), size].into();
        info.relations = vec![relation].into();
        run.probes.push(info);
        run.points = rows.to_vec();
        let found = contradictions(&run);
        found.iter().map(|found| found.sentence.clone()).collect()
    }

    #[test]
    fn what_costs_less_than_it_can_is_reported_where_both_intervals_are_sure() {
        let copies =
            || Relation::because("a copy writes").these("how", "copy").those("how", "write");
        let dear = row("write", 64, 20.0, 22.0);
        let cheap = row("copy", 64, 10.0, 12.0);
        reads!(sentences(copies(), &[dear.clone(), cheap.clone()]));
        for cheap in [
            row("copy", 64, 10.0, 19.9),
            row("copy", 4096, 10.0, 12.0),
            cheap.clone().warned("steal", Grade::D),
            cheap.clone().measured_in(Unit::Bytes),
        ] {
            assert_eq!(sentences(copies(), &[dear.clone(), cheap]), [""; 0]);
        }
        let dear = dear.warned("steal", Grade::D);
        assert_eq!(sentences(copies(), &[dear, cheap]), [""; 0]);
    }

    #[test]
    fn a_sweep_that_falls_names_its_widest_fall() {
        let rises = Relation::because("more misses").these("how", "copy").rises_with("size");
        let costs = [(64, 10.0), (128, 9.9), (256, 30.0), (512, 15.0), (1024, 20.0)];
        let rows = costs.map(|(size, ns)| row("copy", size, 0.99 * ns, 1.01 * ns));
        let said = sentences(rises, &rows);
        assert!(said[0].contains("(how=copy, size=512B) (15.0 ns)"), "{said:?}");
        assert!(
            said[0]
                .contains("size=256B) (30.0 ns), which is impossible: more misses; 1 more like it"),
            "{said:?}"
        );
    }
}
