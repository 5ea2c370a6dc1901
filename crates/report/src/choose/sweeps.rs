//! Plots of one axis that varies while the others stay fixed. Each combination of fixed values is a line: a
//! curve over numbers, bars over words.

mod asked;
mod labels;
mod panels;

pub(crate) use asked::{Asked, asked};
use panels::{
    beside_each_other, in_percent, panel_with_room, vertical, vertically, without_empty_words,
};

use super::AXES;
use super::place::{AT_EASE, Place, SERIES, place, split};
use crate::plot::{Axis, Dot, Figure, Kind, Line, Scale};
use crate::rows::Rows;
use crate::study::Style;
use crate::tables::TABLES;
use costof_model::metric::is_share;
use costof_model::{AxisValue, Estimate, Point};
use std::collections::{BTreeSet, HashMap, HashSet};

/// At most this many dots make a line.
const DOTS: usize = 400;
/// At most this many panels make a figure.
const PANELS: usize = 12;
/// An axis of words has room for this many.
const WORDS: usize = 40;
/// A study separates into panels what its reader does not compare: at most this many lines share
/// one.
const AT_EASE_IF_ASKED: usize = 4;
/// Values that span a larger factor are drawn as dots on a logarithmic axis, not as bars.
const BARS_SPAN: f64 = 30.0;

struct Probe<'a> {
    rows: &'a Rows<'a>,
    id: &'a str,
    positions: &'a [usize],
    places: Vec<Place>,
    /// The places of all points of the probe, or of a study's plot, whether they have a number or not.
    known: Vec<Place>,
    axes: Vec<String>,
    /// How a study asks for its plot; none for what the page chooses itself.
    asked: Option<Style>,
}

/// A curve with its rows that have a number: their values on the axis, their positions and their estimates.
type Measured<'a> = (&'a Curve, Vec<(&'a AxisValue, usize, &'a Estimate)>);

/// A line before it is drawn: its fixed values, and its rows by their value on the axis.
struct Curve {
    place: Place,
    rows: Vec<(AxisValue, usize)>,
}

pub(super) fn sweeps(rows: &Rows<'_>, id: &str, positions: &[usize]) -> Vec<Figure> {
    // An estimate without a usable interval would set the scale for all others.
    let mut usable = positions.to_vec();
    usable.retain(|at| rows.row(*at).is_usable());
    let missing = rows.run.run.plan.points().filter(|point| point.probe == id);
    let missing = missing.filter(|point| rows.position(point).is_none());
    let measured = positions.iter().map(|at| &rows.row(*at).point);
    let probe = Probe::new(rows, id, &usable, measured.chain(missing));
    let mut figures = Vec::new();
    let mut drawn: HashSet<usize> = HashSet::new();
    // The distance between two CPU numbers means nothing; these axes have a map.
    let is_processor = |axis: &&String| ["from", "to"].contains(&axis.as_str());
    let mut axes: Vec<(&String, Vec<Curve>)> = probe
        .axes
        .iter()
        .filter(|axis| !is_processor(axis))
        .map(|axis| (axis, probe.curves(axis)))
        .filter(|(_, curves)| !curves.is_empty())
        .collect();
    // Axes of numbers first, then the axes of words with the most values.
    axes.sort_by_key(|(_, curves)| {
        let most = curves.iter().map(|curve| curve.rows.len()).max();
        (!probe.are_numbers(curves), std::cmp::Reverse(most))
    });
    for (axis, curves) in &mut axes {
        let numbers = probe.are_numbers(curves);
        if !numbers {
            // Axes of words do not repeat rows that an axis of numbers has shown.
            let is_new = |curve: &Curve| curve.rows.iter().any(|(_, at)| !drawn.contains(at));
            curves.retain(is_new);
        }
        let shown: Vec<usize> =
            curves.iter().flat_map(|curve| &curve.rows).map(|(_, at)| *at).collect();
        if shown.is_empty() {
            continue;
        }
        drawn.extend(&shown);
        let primary = rows.row(shown[0]).primary.to_string();
        figures.extend(probe.figure(axis, curves, &primary, &primary, false));
        if !numbers {
            continue;
        }
        for (metric, _) in TABLES.drawn().filter(|(metric, _)| *metric != primary) {
            figures.extend(probe.figure(axis, curves, metric, &primary, true));
        }
    }
    figures
}

impl<'a> Probe<'a> {
    /// The rows of a probe at these positions, of these points, of which some may have no row.
    fn new<'p>(
        rows: &'a Rows<'a>,
        id: &'a str,
        positions: &'a [usize],
        known: impl Iterator<Item = &'p Point>,
    ) -> Probe<'a> {
        let places: Vec<Place> = positions.iter().map(|at| place(&rows.row(*at).point)).collect();
        let there: HashSet<&str> =
            places.iter().flat_map(|place| place.keys().map(String::as_str)).collect();
        let mut axes: Vec<String> = match rows.info(id) {
            Some(info) => {
                let names = info.axes.iter().map(|axis| &*axis.name);
                let names = names.filter(|name| there.contains(name)).take(AXES);
                names.map(str::to_owned).collect()
            }
            None => Vec::new(),
        };
        for name in places.iter().flat_map(|place| place.keys()) {
            if !axes.contains(name) {
                axes.push(name.clone());
            }
        }
        Probe { rows, id, positions, places, known: known.map(place).collect(), axes, asked: None }
    }

    /// Whether curves are drawn over a numeric axis. On a page's own plots two values make no curve and are drawn
    /// like words.
    fn are_numbers(&self, curves: &[Curve]) -> bool {
        let mut values = curves.iter().flat_map(|curve| &curve.rows);
        values.all(|(value, _)| matches!(value, AxisValue::Number(_)))
            && (self.asked.is_some() || curves.iter().any(|curve| curve.rows.len() > 2))
    }

    /// The lines over an axis. For a page's own plots those of two values or more; if some lines of a numeric axis
    /// have three values or more, only those.
    fn curves(&self, axis: &str) -> Vec<Curve> {
        let mut at: HashMap<Place, usize> = HashMap::new();
        let mut known_values: HashSet<(usize, AxisValue)> = HashSet::new();
        let mut curves: Vec<Curve> = Vec::new();
        for (place, position) in self.places.iter().zip(self.positions) {
            let mut rest = place.clone();
            let Some(value) = rest.remove(axis) else {
                continue;
            };
            let known = *at.entry(rest.clone()).or_insert_with(|| {
                curves.push(Curve { place: rest, rows: Vec::new() });
                curves.len() - 1
            });
            if known_values.insert((known, value.clone())) {
                curves[known].rows.push((value, *position));
            }
        }
        if self.asked.is_none() {
            curves.retain(|curve| curve.rows.len() > 1);
        }
        if self.are_numbers(&curves) {
            curves.retain(|curve| self.asked.is_some() || curve.rows.len() > 2);
            for curve in &mut curves {
                curve.rows.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
        }
        curves
    }

    /// The figure of this metric for these curves; none if no curve has it.
    fn figure(
        &self,
        axis: &str,
        curves: &[Curve],
        metric: &str,
        primary: &str,
        folded: bool,
    ) -> Option<Figure> {
        let mut measured = self.measured(curves, metric);
        let unit = measured.first()?.1.first()?.2.unit;
        let asks_bars = self.asked == Some(Style::Bars);
        let mut words = if self.are_numbers(curves) && !asks_bars {
            Vec::new()
        } else {
            self.words(axis, &measured)
        };
        let (mut apart, mut within) = match self.asked {
            // What has no number does not change how the rest is divided and named.
            Some(_) => split(&self.lines(axis).iter().collect::<Vec<_>>(), AT_EASE_IF_ASKED),
            None => {
                let places = measured.iter().map(|(curve, _)| &curve.place);
                split(&places.collect::<Vec<_>>(), AT_EASE)
            }
        };
        // In the probe's order, which starts with the most important axis.
        for axes in [&mut apart, &mut within] {
            axes.sort_by_key(|axis| self.axes.iter().position(|known| known == axis));
        }
        measured.sort_by_key(|(curve, _)| {
            let axes = apart.iter().chain(&within);
            axes.map(|axis| self.rank(axis, curve.place.get(axis))).collect::<Vec<_>>()
        });
        let words_left_out = words.len().saturating_sub(WORDS);
        words.truncate(WORDS);
        let (y, kind) = match asks_bars {
            true => (Axis::new(metric.replace('_', " "), unit, Scale::Linear), Kind::Bars),
            false => vertical(&measured, (metric, unit), words.len()),
        };
        let x = self.axis(axis, &measured, &words);
        let axis_name = axis.replace('_', " ");
        let mut figure = Figure {
            name: format!("{}-{}-by-{axis}", self.id, metric.replace('_', "-")),
            title: format!("{} {} by {axis_name}", self.id, Self::heading(metric)),
            about: self.about(axis, metric, primary),
            folded,
            axis: axis.to_owned(),
            metric: metric.to_owned(),
            series: self.series(&within),
            ..Figure::default()
        };
        let mut left_out = 0;
        for (curve, rows) in &measured {
            let title = self.called(&curve.place, &apart);
            let name = self.called(&curve.place, &within);
            let Some(panel) = panel_with_room(&mut figure.panels, title, (&x, &y)) else {
                left_out += 1;
                continue;
            };
            let series = figure.series.iter().position(|known| *known == name);
            let series = series.unwrap_or_else(|| {
                figure.series.push(name);
                figure.series.len() - 1
            });
            let dots = dots(rows, &words);
            let every = dots.len().div_ceil(DOTS).max(1);
            if every > 1 {
                figure.about += &format!(" Some lines show only one point in {every}.");
            }
            let dots = dots.into_iter().step_by(every);
            panel.lines.push(Line::new(series, kind, dots));
        }
        if left_out > 0 {
            figure.about += &format!(" {left_out} more series are only in the table.");
        }
        if words_left_out > 0 {
            figure.about +=
                &format!(" {words_left_out} more values of {axis_name} are only in the table.");
        }
        if is_share(metric, unit) {
            figure.panels.iter_mut().for_each(in_percent);
        }
        for panel in &mut figure.panels {
            // A panel that spans less than the others gets its own axis, so that its differences are visible.
            let dots = panel.lines.iter().flat_map(|line| &line.dots);
            if Scale::of_values(dots.map(|dot| dot.y)) == Scale::Linear {
                panel.y.scale = Scale::Linear;
            }
        }
        figure.about += vertically(&figure.panels);
        figure.panels.iter_mut().for_each(without_empty_words);
        if !words.is_empty() {
            figure.panels.iter_mut().for_each(beside_each_other);
        }
        Some(figure)
    }

    /// The curves that have this metric in at least two rows, or in one if a study asks, with these rows.
    fn measured<'c>(&'c self, curves: &'c [Curve], metric: &str) -> Vec<Measured<'c>> {
        let measured = curves.iter().map(|curve| {
            let rows = curve.rows.iter().filter_map(|(value, at)| {
                let estimate = self.rows.row(*at).estimate(metric)?;
                estimate.is_usable().then_some((value, *at, estimate))
            });
            (curve, rows.collect::<Vec<_>>())
        });
        let least = if self.asked.is_some() { 1 } else { 2 };
        measured.filter(|(_, rows)| rows.len() >= least).collect()
    }

    /// The places of all lines over an axis.
    fn lines(&self, axis: &str) -> BTreeSet<Place> {
        let lines = self.known.iter().map(|place| {
            let mut place = place.clone();
            place.remove(axis);
            place
        });
        lines.collect()
    }

    /// The names of all series that the probe's points can have by these axes, so that each has the same colour in
    /// all figures. None if there are too many.
    fn series(&self, axes: &[String]) -> Vec<String> {
        let mut places: Vec<&Place> = self.known.iter().collect();
        places.retain(|place| axes.iter().all(|axis| place.contains_key(axis)));
        places.sort_by_cached_key(|place| {
            let ranks = axes.iter().map(|axis| self.rank(axis, place.get(axis)));
            ranks.collect::<Vec<_>>()
        });
        let mut series: Vec<String> = Vec::new();
        for name in places.into_iter().map(|place| self.called(place, axes)) {
            if !series.contains(&name) {
                series.push(name);
            }
            if series.len() > SERIES {
                return Vec::new();
            }
        }
        series
    }
}

/// The dots of a curve. Over words, a dot stands at the position of its word.
fn dots(rows: &[(&AxisValue, usize, &Estimate)], words: &[AxisValue]) -> Vec<Dot> {
    let dots = rows.iter().filter_map(|(value, at, estimate)| {
        let x = match value {
            AxisValue::Number(number) if words.is_empty() => *number as f64,
            value => 1.0 + words.iter().position(|word| word == *value)? as f64,
        };
        Some(Dot {
            x,
            y: estimate.median,
            interval: estimate.ci95,
            row: Some(*at),
            ..Dot::default()
        })
    });
    dots.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::PointRow;
    use costof_model::testing::{run_without_facts as run, sized_row as row};

    fn at(size: u64, way: &'static str, threads: u64, ns: f64) -> PointRow {
        let mut row = row("a.x", size, ns);
        row.point.axes = row.point.axes.clone().with("way", way).with("threads", threads);
        row
    }

    fn drawn(points: Vec<PointRow>) -> Vec<Figure> {
        let mut run = run();
        run.points = points;
        let rows = Rows::new(&run);
        let positions: Vec<usize> = (0..rows.all().len()).collect();
        sweeps(&rows, "a.x", &positions)
    }

    #[test]
    fn numbers_are_curves_and_what_else_differs_makes_series() {
        let sizes = [64, 128, 256];
        let points =
            sizes.iter().flat_map(|size| [at(*size, "one", 1, 5.0), at(*size, "two", 1, 6.0)]);
        let figures = drawn(points.collect());
        assert_eq!(figures.len(), 1, "the ways are in it already");
        assert_eq!(figures[0].name, "a.x-cost-by-size");
        assert_eq!(figures[0].series, ["one", "two"]);
        let panel = &figures[0].panels[0];
        assert_eq!(panel.lines[0].dots.len(), 3);
        assert_eq!(panel.x.scale, Scale::Doublings);
        assert_eq!(panel.y.scale, Scale::Linear);
    }

    #[test]
    fn too_many_series_make_panels_by_numbers() {
        let mut points = Vec::new();
        for threads in [8, 16, 1, 2] {
            for way in ["one", "two", "three"] {
                points.extend([64, 128, 256].map(|size| at(size, way, threads, 5.0)));
            }
        }
        let figures = drawn(points);
        let by_size = figures.iter().find(|figure| figure.name.ends_with("by-size")).unwrap();
        let titles: Vec<&str> = by_size.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["threads 1", "threads 2", "threads 8", "threads 16"]);
        assert_eq!(by_size.series, ["one", "two", "three"]);
        let by_threads = figures.iter().find(|figure| figure.name.ends_with("by-threads"));
        assert_eq!(by_threads.unwrap().panels.len(), 3);
        assert!(!by_size.about.contains("vertical axes"), "all are alike");
    }

    #[test]
    fn panels_with_other_vertical_axes_say_so() {
        let about = |ns: fn(u64, u64) -> f64| {
            let mut points = Vec::new();
            for threads in [1, 2, 4, 8] {
                for way in ["one", "two", "three"] {
                    points.extend(
                        [64, 128, 256].map(|size| at(size, way, threads, ns(size, threads))),
                    );
                }
            }
            let mut figures = drawn(points).into_iter();
            let by_size = figures.find(|figure| figure.name.ends_with("by-size"));
            by_size.unwrap().about
        };
        let own = "has its own vertical axis";
        assert!(about(|_, threads| threads as f64).contains(&format!("{own}.")));
        let some = about(|size, threads| match threads {
            8 => size.pow(2) as f64,
            _ => 5.0,
        });
        assert!(some.contains(&format!("{own}; some are logarithmic.")));
    }

    #[test]
    fn words_that_have_no_room_are_counted() {
        let mut points: Vec<PointRow> = (0..43_u64).map(|_| at(64, "one", 1, 5.0)).collect();
        for (number, row) in points.iter_mut().enumerate() {
            let word = AxisValue::Word(format!("way{number}").into());
            row.point.axes.0.insert("way".into(), word);
        }
        let figures = drawn(points);
        assert_eq!(figures[0].panels[0].lines[0].dots.len(), WORDS);
        assert!(figures[0].about.contains("3 more values of way"));
    }

    #[test]
    fn words_are_bars_or_dots_where_they_span_much() {
        let kind = |ways: &[&'static str], threads: u64, most: f64| {
            let points =
                ways.iter().flat_map(|way| (1..=threads).map(|at_once| at(64, way, at_once, 5.0)));
            let mut points: Vec<PointRow> = points.collect();
            points.last_mut().unwrap().metrics[0].median = most;
            drawn(points)[0].panels[0].lines[0].kind
        };
        assert_eq!(kind(&["one", "two"], 1, 6.0), Kind::Bars);
        assert_eq!(kind(&["one", "two"], 1, 600.0), Kind::Dots);
        assert_eq!(kind(&["one"], 2, 6.0), Kind::Bars);
        assert_eq!(kind(&["one", "two", "three", "four"], 1, 6.0), Kind::Bars);
        assert_eq!(kind(&["one", "two", "three", "four"], 1, 600.0), Kind::Dots);
    }

    #[test]
    fn what_else_differs_stands_beside_each_other_at_each_word() {
        let ways = ["one", "two", "three"].into_iter();
        let points = ways.flat_map(|way| [at(64, way, 2, 5.0), at(64, way, 1, 6.0)]);
        let figures = drawn(points.collect());
        assert_eq!(figures[0].panels.len(), 1);
        assert_eq!(figures[0].series, ["threads 1", "threads 2"]);
        let lines = &figures[0].panels[0].lines;
        assert!(lines[0].dots[0].x < 1.0 && lines[1].dots[0].x > 1.0);
    }

    #[test]
    fn a_panel_has_the_words_that_something_of_it_stands_at() {
        let mut points = Vec::new();
        for (link, ways) in [("lan", "one two four five"), ("none", "one two three four five")] {
            for (way, size, threads) in ways.split(' ').flat_map(|way| {
                [(64, 1), (64, 2), (128, 1), (128, 2)].map(|(size, threads)| (way, size, threads))
            }) {
                let mut row = at(size, way, threads, 5.0);
                row.point.link = link.into();
                points.push(row);
            }
        }
        let figures = drawn(points);
        let words = figures[0].panels.iter().map(|panel| match &panel.x.scale {
            Scale::Words(words) => words.join(" "),
            _ => String::new(),
        });
        let words: Vec<String> = words.collect();
        assert_eq!(words, ["one two four five", "one two four five three"]);
    }

    #[test]
    fn the_loss_of_a_link_is_an_axis() {
        let over = |link: &'static str| {
            let mut row = at(64, "one", 1, 5.0);
            row.point.link = link.into();
            row
        };
        let figures = drawn(vec![
            over("rate=100Mbit"),
            over("rate=100Mbit,up.loss=30%"),
            over("rate=100Mbit,up.loss=10%"),
        ]);
        assert_eq!(figures[0].name, "a.x-cost-by-loss");
        let dots = figures[0].panels[0].lines[0].dots.iter();
        assert_eq!(dots.map(|dot| dot.x).collect::<Vec<_>>(), [0.0, 10.0, 30.0]);
    }

    #[test]
    fn one_point_has_no_plot() {
        assert!(drawn(vec![at(64, "one", 1, 5.0)]).is_empty());
        assert!(drawn(Vec::new()).is_empty());
    }
}
