//! How single operations are distributed, so that two modes show as two.

use crate::names;
use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ends};
use crate::rows::Rows;
use costof_model::{Data, Point, Unit};
use std::collections::{BTreeMap, HashMap};

/// At most this many distributions are drawn over each other.
const SHOWN: usize = 4;
/// How many bins a distribution has.
const BINS: usize = 70;

/// The distribution of the primary metric for some points of a probe: first those with several modes, then
/// those of the latency table.
pub(super) fn distributions(rows: &Rows<'_>, probe: &str, positions: &[usize]) -> Option<Figure> {
    let mut positions: Vec<usize> = positions.to_vec();
    positions.retain(|at| rows.row(*at).is_usable());
    positions.sort_by_key(|at| {
        let row = rows.row(*at);
        let modes = row.primary().map_or(0, |estimate| estimate.modes.len());
        (std::cmp::Reverse(modes), !row.headline)
    });
    let spreads = spreads(rows, probe, &positions);
    let spreads: Vec<(usize, &Vec<(f64, u64)>)> = positions
        .iter()
        .filter_map(|at| Some((*at, spreads.get(&rows.row(*at).point)?)))
        .filter(|(_, spread)| spread.len() > 20)
        .take(SHOWN)
        .collect();
    let first = rows.row(spreads.first()?.0).primary()?;
    let values = spreads.iter().flat_map(|(_, spread)| spread.iter());
    let ends = ends(values.map(|(value, _)| *value));
    let lines: Vec<Line> = spreads
        .iter()
        .enumerate()
        .map(|(series, (at, spread))| Line::new(series, Kind::Steps, steps(*at, spread, ends)))
        .collect();
    let series = spreads.iter().map(|(at, _)| {
        let point = &rows.row(*at).point;
        let name = names::short_point(point, rows.info(probe));
        match name.strip_prefix(probe).map(str::trim) {
            Some("") | None => "defaults".to_owned(),
            Some(rest) if rest.starts_with("over ") => format!("defaults {rest}"),
            Some(rest) => rest.to_owned(),
        }
    });
    let series = series.collect();
    Some(Figure {
        name: format!("{probe}-distribution"),
        title: format!("{probe} {}: distribution", first.name),
        about: "In bins of equal width on the logarithmic axis, up to the 99.9th percentile."
            .to_owned(),
        series,
        panels: vec![Panel::new(
            "",
            Axis::new(first.name.replace('_', " "), first.unit, Scale::Decades),
            Axis::new("share of operations (%)", Unit::One, Scale::Linear),
            lines,
        )],
        ..Figure::default()
    })
}

/// The single operations of each of these points, from all launches, up to the 99.9th percentile.
fn spreads<'a>(
    rows: &Rows<'a>,
    probe: &str,
    positions: &[usize],
) -> HashMap<&'a Point, Vec<(f64, u64)>> {
    let mut all: HashMap<&Point, BTreeMap<u64, u64>> = HashMap::new();
    for at in positions.iter().take(SHOWN * 4) {
        all.insert(&rows.row(*at).point, BTreeMap::new());
    }
    for point in rows.launched(probe) {
        let Some(at) = rows.position(&point.point) else {
            continue;
        };
        let row = rows.row(at);
        let Some(spread) = all.get_mut(&row.point) else {
            continue;
        };
        let metrics = point.metrics.iter();
        for metric in metrics.filter(|metric| metric.name == row.primary) {
            let Data::Histogram(buckets) = &metric.data else {
                continue;
            };
            let buckets = buckets.iter();
            for (value, count) in buckets.filter(|(ns, _)| *ns > 0.0 && ns.is_finite()) {
                // Positive numbers sort in the order of their bits.
                *spread.entry(f64::from(*value).to_bits()).or_default() += u64::from(*count);
            }
        }
    }
    let cut = |spread: BTreeMap<u64, u64>| {
        let total: f64 = spread.values().map(|count| *count as f64).sum();
        let mut seen = 0.0;
        let kept = spread.into_iter().take_while(|(_, count)| {
            let before = seen;
            seen += *count as f64;
            before < total * 0.999
        });
        kept.map(|(bits, count)| (f64::from_bits(bits), count)).collect::<Vec<_>>()
    };
    all.into_iter().map(|(point, spread)| (point, cut(spread))).collect()
}

/// The share in each bin, as the corners of its steps.
fn steps(at: usize, spread: &[(f64, u64)], (low, high): (f64, f64)) -> Vec<Dot> {
    let width = ((high / low).ln() / BINS as f64).max(0.005);
    let mut bins = vec![0.0; BINS + 1];
    let mut total = 0.0;
    for (value, count) in spread {
        let bin = ((value / low).ln() / width) as usize;
        bins[bin.min(BINS)] += *count as f64;
        total += *count as f64;
    }
    let edge = |bin: usize| low * (bin as f64 * width).exp();
    let corner = |x: f64, y: f64| Dot { x, y, row: Some(at), ..Dot::default() };
    let is_used = |count: &f64| *count > 0.0;
    let first = bins.iter().position(is_used).unwrap_or(0);
    let last = bins.iter().rposition(is_used).unwrap_or(0);
    let mut dots = vec![corner(edge(first), 0.0)];
    for (bin, count) in bins.iter().enumerate().take(last + 1).skip(first) {
        let share = 100.0 * count / total;
        dots.push(corner(edge(bin), share));
        dots.push(corner(edge(bin + 1), share));
    }
    dots.push(corner(edge(last + 1), 0.0));
    dots
}
