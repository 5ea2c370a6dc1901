//! The plots of a study: which points each of them has, in which unit, and which of them are left out.

use super::figure::{self, Against, ESTIMATED_CYCLES, MADE, Of, Reading, open_places};
use super::file::{Common, Plot, Study};
use super::result::{Why, absent, uncounted};
use super::unit::Published;
use crate::choose::{self, Asked, LOSS, without_loss};
use crate::names::by_reason;
use crate::plot::{self, Figure};
use crate::plots;
use crate::rows::Rows;
use crate::text::shortened;
use costof_model::{
    AxisValue, Domain, Estimate, Point, PointRow, ProbeInfo, Run, Text, Unit, plan,
};
use std::collections::{BTreeMap, HashSet};

/// A plot; of one that cannot be drawn, its title and why.
pub(crate) type Drawn = Result<Figure, (String, String)>;

/// At most this many groups of points that are left out are named.
const NAMED: usize = 6;
/// A reason has at most this many letters below a plot.
const LETTERS: usize = 120;

/// The points of a plot, or of a line beside them.
struct Points<'p> {
    plot: &'p Plot,
    /// The name of the line beside; empty for the plot's own points.
    name: &'p str,
    info: &'p ProbeInfo,
    /// What they share, except on the axes in `values` and on the one that the plot is over.
    point: Point,
    /// The values of axes that have several.
    values: BTreeMap<Text, Vec<AxisValue>>,
    /// Axes on which they may have any value.
    open: Vec<Text>,
}

impl Study {
    /// Checks that all that its plots refer to exists.
    pub(super) fn check_plots(&self, infos: &[&ProbeInfo]) -> Result<(), String> {
        self.plots.iter().try_for_each(|plot| {
            let own = self.points_of(plot, "", &plot.point, infos)?;
            plot.beside.iter().try_for_each(|beside| {
                self.points_of(plot, &beside.name, &beside.point, infos)?;
                let axis = own.info.axis(&plot.over);
                let is_of_numbers =
                    axis.map_or(true, |axis| matches!(axis.domain, Domain::Number { .. }));
                let what = "lines of other points need an axis of numbers";
                is_of_numbers.then_some(()).ok_or_else(|| self.wrong(&plot.title, "beside", what))
            })
        })
    }

    /// Its plots of a run. `why` says why a run lacks a point.
    pub(super) fn drawn(
        &self,
        infos: &[&ProbeInfo],
        run: &Run,
        why: Why<'_>,
    ) -> Result<Vec<Drawn>, String> {
        let rows = Rows::new(run);
        let published = self.figures(infos)?.concat();
        let drawn = self.plots.iter().enumerate().map(|(position, plot)| {
            let own = self.points_of(plot, "", &plot.point, infos)?;
            let unit = own.unit(&published);
            let mut figure = match own.drawn(&rows, unit, why) {
                Ok(figure) => figure,
                Err(why) => return Ok(Err((plot.title.get_ref().clone(), why))),
            };
            if let (Some(name), true) = (&plot.name, figure.series == [""]) {
                figure.series = vec![name.clone()];
            }
            for beside in &plot.beside {
                let points = self.points_of(plot, &beside.name, &beside.point, infos)?;
                match points.drawn(&rows, unit, why) {
                    Ok(other) => {
                        figure.add_line(&other, &beside.name);
                        figure.left_out.extend(other.left_out);
                    }
                    Err(why) => figure.left_out.push(format!("{} ({why})", beside.name)),
                }
            }
            Ok(Ok(Figure {
                name: format!("study-{:02}-{}", position + 1, figure.name),
                title: plot.title.get_ref().clone(),
                ..figure
            }))
        });
        drawn.collect()
    }

    /// The SVG file of each of its plots, for a paper.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn svg(&self, infos: &[&ProbeInfo], run: &Run) -> Result<Vec<(String, String)>, String> {
        let drawn = self.drawn(infos, run, &|_| None)?;
        Ok(plots::files(drawn.into_iter().flatten()))
    }

    fn points_of<'p>(
        &self,
        plot: &'p Plot,
        name: &'p str,
        point: &str,
        infos: &[&'p ProbeInfo],
    ) -> Result<Points<'p>, String> {
        let wrong = |key: &str, what: String| self.wrong(&plot.title, key, &what);
        let common = Common { point: Some(point.to_owned()), ..Common::default() };
        let reading = Reading { study: self, at: &plot.title, scopes: vec![&common] };
        // What stands beside has no axes of its own in which its lines differ.
        let at = if name.is_empty() { &*plot.at } else { "" };
        let (info, point) = reading.point(infos)?;
        let values = set_several(info, at).map_err(|what| wrong("at", what))?;
        if plot.over != LOSS {
            let over = info.present_axis(&plot.over).unwrap_or(&plot.over);
            info.axis(over).map_err(|what| wrong("over", what))?;
        }
        let mut metrics = info.metrics.iter().map(|known| &*known.name).chain(MADE);
        if metrics.all(|known| known != plot.metric) {
            let what = format!("{} has no metric `{}`", info.id, plot.metric);
            return Err(wrong("metric", what));
        }
        Ok(Points { plot, name, open: open_places(info, &point), info, point, values })
    }
}

impl Points<'_> {
    /// The plot, or why there is none.
    fn drawn(
        &self,
        rows: &Rows<'_>,
        unit: Option<(&Against, Published)>,
        why: Why<'_>,
    ) -> Result<Figure, String> {
        let points = self.all(rows);
        let mut measured = points.iter().filter_map(|point| rows.position(point));
        if measured.next().is_none() {
            let is_one = |point: &Point| self.has(point);
            return Err(absent(rows.run, is_one, &self.point, why));
        }
        let asked = &*self.plot.metric;
        let estimated = (asked == "cycles").then_some(ESTIMATED_CYCLES);
        let has = |metric: &&str| {
            let mut measured = points.iter().filter_map(|point| rows.position(point));
            measured.any(|at| rows.row(at).estimate(metric).is_some())
        };
        let metric = [asked].into_iter().chain(estimated).find(has);
        let metric = metric.ok_or_else(|| uncounted(rows.run, asked))?;
        let asked = Asked {
            probe: &self.info.id,
            points: &points,
            axis: &self.plot.over,
            metric,
            style: self.plot.style,
        };
        let mut figure = choose::asked(rows, &asked).unwrap_or_default();
        let left_out = self.left_out(rows, &asked, &figure, why);
        if figure.panels.is_empty() {
            return Err(format!("no point can be drawn: {}", left_out.join("; ")));
        }
        if let Some((against, unit)) = unit {
            convert(&mut figure, rows, against, unit);
            if against.of == Of::Mean {
                figure.about += " Medians, where the table has means.";
            }
        }
        let about = self.plot.note.iter().chain([&figure.about]).cloned();
        figure.about = about.collect::<Vec<_>>().join(" ");
        figure.left_out = left_out;
        Ok(figure)
    }

    /// All of its points that the run planned or measured, and, for each value that the study names and the run has
    /// not, one with it.
    fn all(&self, rows: &Rows<'_>) -> Vec<Point> {
        let planned = rows.run.run.plan.points();
        let measured = rows.all().iter().map(|row| &row.point);
        let mut known = HashSet::new();
        let mut points: Vec<Point> = planned
            .chain(measured)
            .filter(|point| self.has(point) && known.insert(*point))
            .cloned()
            .collect();
        let Some(first) = points.first().cloned() else {
            return points;
        };
        let others = self.values.iter().filter(|(axis, _)| **axis != *self.plot.over);
        for (axis, values) in others {
            for value in values {
                let has = |point: &Point| point.axes.0.get(axis) == Some(value);
                if !points.iter().any(has) {
                    let mut point = first.clone();
                    point.axes.0.insert(axis.clone(), value.clone());
                    points.push(point);
                }
            }
        }
        points
    }

    /// The unit of the published figures of the same points and metric, so that a plot and its table agree.
    fn unit<'f>(&self, figures: &'f [figure::Figure]) -> Option<(&'f Against, Published)> {
        let primary = self.info.metrics.first().map(|metric| &*metric.name);
        figures.iter().find_map(|figure| {
            let (against, unit) = (figure.against.as_ref().ok()?, figure.unit?);
            let metric = match &against.metric {
                Some(metric) => Some(&**metric),
                None if unit.is_cycles() => Some("cycles"),
                None => primary,
            };
            let is_direct = against.label.is_none()
                && against.per.is_none()
                && against.times.is_none()
                && against.bytes.is_none();
            let is_it = metric == Some(&*self.plot.metric) && self.has(&against.point);
            (is_direct && is_it).then_some((against, unit))
        })
    }

    /// The points that a figure lacks, by line and reason: `sequential at 128KiB, 1MiB (too noisy)`.
    fn left_out(
        &self,
        rows: &Rows<'_>,
        asked: &Asked<'_>,
        figure: &Figure,
        why: Why<'_>,
    ) -> Vec<String> {
        let lines = figure.panels.iter().flat_map(|panel| &panel.lines);
        let drawn: HashSet<usize> =
            lines.flat_map(|line| &line.dots).filter_map(|dot| dot.row).collect();
        let missing = asked.points.iter().filter_map(|point| {
            let reason = match rows.position(point) {
                Some(at) if drawn.contains(&at) => return None,
                Some(at) => self.not_drawn(rows.row(at), asked)?,
                None => absent(rows.run, |own| own == point, point, why),
            };
            let reason = shortened(&reason, LETTERS);
            Some(((self.line(point), reason), self.value(point)))
        });
        let groups = by_reason(missing);
        let more = groups.len().saturating_sub(NAMED);
        let said = groups.into_iter().take(NAMED).map(|((line, why), values)| {
            let of_line = asked.points.iter().filter(|point| self.line(point) == line);
            let over = self.plot.over.replace('_', " ");
            let values = match (&*line, of_line.count() == values.len()) {
                ("", _) => format!("{over} {}", values.join(", ")),
                (line, true) => line.to_owned(),
                (line, false) => format!("{line} at {over} {}", values.join(", ")),
            };
            format!("{values} ({why})")
        });
        said.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }

    /// Why a measured point is not in its figure; none if there was no room for its line, which the figure says.
    fn not_drawn(&self, row: &PointRow, asked: &Asked<'_>) -> Option<String> {
        let drawn = row.estimate(asked.metric);
        let mut needed = [row.primary(), drawn].into_iter().flatten();
        if let Some(why) = needed.find_map(Estimate::why_unusable) {
            return Some(why.to_owned());
        }
        drawn.is_none().then(|| "no value".to_owned())
    }

    /// The name of a point's line: its values on the axes that have several.
    fn line(&self, point: &Point) -> String {
        if !self.name.is_empty() {
            return self.name.to_owned();
        }
        let axes = self.info.axes.iter().filter(|axis| {
            let values = self.values.get(&axis.name);
            axis.name != self.plot.over && values.is_some_and(|values| values.len() > 1)
        });
        let parts = axes.filter_map(|axis| {
            let value = point.axes.0.get(&axis.name)?;
            let shown = axis.display(value);
            Some(match value {
                AxisValue::Word(_) => shown,
                AxisValue::Number(_) => format!("{} {shown}", axis.name.replace('_', " ")),
            })
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// What the plot is over: the present name of an axis, or [`LOSS`].
    fn over(&self) -> &str {
        let over = &*self.plot.over;
        self.info.present_axis(over).unwrap_or(over)
    }

    /// A point's value on the axis that the plot is over.
    fn value(&self, point: &Point) -> String {
        if self.plot.over == LOSS {
            return format!("{} %", without_loss(&point.link).1);
        }
        let axis = self.info.axis(self.over()).ok();
        let value = axis.and_then(|axis| Some(axis.display(point.axes.0.get(&axis.name)?)));
        value.unwrap_or_default()
    }

    /// Whether this is one of its points.
    fn has(&self, point: &Point) -> bool {
        let over = self.over();
        let is_it = |(name, value): (&Text, &AxisValue)| match self.values.get(name) {
            Some(values) => values.contains(value),
            None => {
                let is_named = self.point.axes.0.get(name) == Some(value);
                is_named || name == over || self.open.contains(name)
            }
        };
        let link = |point: &Point| match over {
            LOSS => without_loss(&point.link).0,
            _ => point.link.to_string(),
        };
        point.probe == self.point.probe
            && link(point) == link(&self.point)
            && point.axes.0.iter().all(is_it)
    }
}

/// Converts a figure to the unit of published figures.
fn convert(figure: &mut Figure, rows: &Rows<'_>, against: &Against, unit: Published) {
    for panel in &mut figure.panels {
        for line in &mut panel.lines {
            line.dots.retain_mut(|dot| {
                let converted = dot.row.and_then(|at| {
                    let row = rows.row(at);
                    let own = row.estimate(&figure.metric)?;
                    let times = against.operations(row).ok()?;
                    Some((own, unit.from(own.unit, times, None).ok()?))
                });
                if let Some((own, conversion)) = converted {
                    dot.y = conversion.apply(own.median);
                    dot.interval = own.ci95.map(|ends| conversion.range(ends));
                    dot.text = unit.display(dot.y);
                }
                converted.is_some()
            });
        }
        let seconds = against.seconds.map(|seconds| format!("in {seconds} s"));
        let words = [unit.symbol.to_owned()].into_iter().chain(seconds);
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        let label = match words.is_empty() {
            true => panel.y.label.clone(),
            false => format!("{} ({})", panel.y.label, words.join(" ")),
        };
        panel.y = plot::Axis::new(label, Unit::One, panel.y.scale.clone());
    }
}

/// Reads `axis=value,value` from words.
fn set_several(info: &ProbeInfo, words: &str) -> Result<BTreeMap<Text, Vec<AxisValue>>, String> {
    let settings = words.split_whitespace().map(plan::setting);
    let values = plan::read(info, &settings.collect::<Result<_, String>>()?)?;
    Ok(values.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Kind;
    use costof_model::testing::{number_axis, probe_info, run_without_facts, sized_row};
    use costof_model::{EndRow, List, Unit};

    /// The plots that these lines ask for, of a probe with sizes and threads whose cost is the product.
    fn plots(asked: &str) -> Result<Vec<Drawn>, String> {
        plots_of(asked, |_| {})
    }

    /// The same of a run that is not as it should be.
    fn plots_of(asked: &str, change: impl Fn(&mut Run)) -> Result<Vec<Drawn>, String> {
        let head =
            "title = 't'\nsource = 's'\nmachine = 'm'\n[[plot]]\ntitle = 'p'\npoint = 'a.x'\n";
        let study = Study::read("x", "x.toml", &format!("{head}{asked}"))?;
        let mut info = probe_info("a.x");
        info.axes =
            List::Owned(vec![number_axis("size", Unit::Bytes), number_axis("threads", Unit::One)]);
        let mut metric = info.metrics[0].clone();
        metric.name = "l1d_load_misses".into();
        info.metrics.to_mut().push(metric);
        let mut run = run_without_facts();
        for size in [64, 128, 256] {
            for threads in [1, 2, 4, 8] {
                let mut row = sized_row("a.x", size, (size * threads) as f64);
                row.point.axes = row.point.axes.with("threads", threads);
                run.run.plan.blocks[0].points.push(row.point.clone());
                run.points.push(row);
            }
        }
        run.probes.push(info.clone());
        run.end = Some(EndRow { finished: String::new(), points: 0, failures: 0 });
        change(&mut run);
        study.check(&[&info])?;
        study.drawn(&[&info], &run, &|_| Some("nobody asks".to_owned()))
    }

    /// Whether a row has this many threads.
    fn has_threads(row: &PointRow, threads: u64) -> bool {
        row.point.axes.number("threads") == threads
    }

    /// The lines of each panel: their series, and where they have dots.
    fn lines(figure: &Figure) -> Vec<(usize, Vec<f64>)> {
        let lines = figure.panels.iter().flat_map(|panel| &panel.lines).map(|line| {
            let dots = line.dots.iter();
            (line.series, dots.map(|dot| dot.x).collect())
        });
        lines.collect()
    }

    fn drawn(asked: &str) -> Figure {
        plots(asked).unwrap().remove(0).unwrap()
    }

    #[test]
    fn a_plot_has_the_points_that_it_asks_for() {
        let figure = drawn("over = 'size'\nat = 'threads=1,8'\nmetric = 'cost'");
        assert_eq!(figure.title, "p");
        assert_eq!(figure.series, ["threads 1", "threads 8"]);
        let figure = drawn("over = 'threads'\nat = 'size=64,128'\nmetric = 'cost'\nstyle = 'bars'");
        let lines = &figure.panels[0].lines;
        assert!(lines.iter().all(|line| line.kind == Kind::Bars && line.dots.len() == 4));
        assert!(lines[0].dots[0].x < lines[1].dots[0].x, "side by side");
        let (title, why) =
            plots("over = 'size'\nmetric = 'l1d_load_misses'").unwrap().remove(0).unwrap_err();
        assert_eq!(title, "p");
        assert!(why.contains("counters"), "{why}");
        let none = plots("over = 'size'\nat = 'threads=3'\nmetric = 'cost'");
        let (_, why) = none.unwrap().remove(0).unwrap_err();
        assert_eq!(why, "nobody asks");
    }

    #[test]
    fn lines_of_other_points_stand_beside() {
        let beside = "beside = [{ name = 'two', point = 'a.x threads=2' }]";
        let figure = drawn(&format!("over = 'size'\nmetric = 'cost'\n{beside}"));
        assert_eq!(figure.series, ["a.x", "two"]);
        let lines: Vec<(usize, f64)> =
            figure.panels[0].lines.iter().map(|line| (line.series, line.dots[0].y)).collect();
        assert_eq!(lines, [(0, 64.0), (1, 128.0)]);
        let wrong = beside.replace("threads", "thread");
        let error = plots(&format!("over = 'size'\nmetric = 'cost'\n{wrong}")).unwrap_err();
        assert!(error.contains("`thread`"), "{error}");
    }

    #[test]
    fn a_line_keeps_its_colour_and_its_name_where_others_are_missing() {
        let asked = "over = 'size'\nat = 'threads=1,2,4'\nmetric = 'cost'";
        let figure = plots_of(asked, |run| {
            run.points.retain(|row| !has_threads(row, 1));
            let noisy = run.points.iter_mut().filter(|row| has_threads(row, 2));
            noisy.for_each(|row| row.metrics[0].ci95 = Some((1.0, 1e6)));
        });
        let figure = figure.unwrap().remove(0).unwrap();
        assert_eq!(lines(&figure), [(2, vec![64.0, 128.0, 256.0])]);
        let legend: Vec<(usize, &str)> = figure.legend().collect();
        assert_eq!(legend, [(2, "threads 4")]);
        let [absent, noisy] = &figure.left_out[..] else { panic!("{:?}", figure.left_out) };
        assert!(absent.starts_with("threads 1 (the run ended"), "{absent}");
        assert_eq!(noisy, "threads 2 (too noisy)");
    }

    #[test]
    fn one_and_two_points_are_a_curve_and_the_others_are_named() {
        for (sizes, left_out) in [(&[64][..], "size 128B, 256B"), (&[64, 128], "size 256B")] {
            let asked = "over = 'size'\nmetric = 'cost'\n\
                         beside = [{ name = 'two', point = 'a.x threads=2' }]";
            let figure = plots_of(asked, |run| {
                let has = |row: &PointRow| sizes.contains(&row.point.axes.number("size"));
                run.points.retain(has);
            });
            let figure = figure.unwrap().remove(0).unwrap();
            let at: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
            assert_eq!(lines(&figure), [(0, at.clone()), (1, at)]);
            let kinds = figure.panels[0].lines.iter().map(|line| line.kind);
            assert!(kinds.into_iter().all(|kind| kind == Kind::Joined));
            assert!(figure.left_out[0].starts_with(left_out), "{:?}", figure.left_out);
            assert!(figure.left_out[1].starts_with(&format!("two at {left_out}")));
        }
        let none = plots_of("over = 'size'\nmetric = 'cost'", |run| {
            let all = run.points.iter_mut();
            all.for_each(|row| row.metrics[0].ci95 = Some((1.0, 1e6)));
        });
        let (_, why) = none.unwrap().remove(0).unwrap_err();
        assert_eq!(why, "no point can be drawn: size 64B, 128B, 256B (too noisy)");
    }

    #[test]
    fn a_plot_has_the_unit_of_its_table() {
        let table = "[[table]]\ntitle = 't'\npoint = 'a.x'\nunit = 'µs'\n\
                     rows = [{ name = 'a', at = 'size=64', seconds = 2 }]";
        let asked = format!("over = 'size'\nmetric = 'cost'\n{table}");
        let with_rate = |run: &mut Run| {
            for row in &mut run.points {
                row.metrics.push(costof_model::metric::Estimate {
                    name: "rate".into(),
                    median: 1e3,
                    ..row.metrics[0].clone()
                });
            }
        };
        let figure = plots_of(&asked, with_rate).unwrap().remove(0).unwrap();
        let panel = &figure.panels[0];
        assert_eq!(panel.y.label, "cost (µs in 2 s)");
        assert_eq!(panel.y.unit, Unit::One);
        assert_eq!(panel.lines[0].dots[0].y, 128.0);
        assert_eq!(panel.lines[0].dots[0].text, "128 µs");
    }

    #[test]
    fn what_a_plot_gets_wrong_is_reported() {
        for (asked, says) in [
            ("over = 'sise'\nmetric = 'cost'", "over of `p`"),
            ("over = 'size'\nmetric = 'costs'", "metric of `p`"),
            ("over = 'size'\nat = 'thread=1'\nmetric = 'cost'", "at of `p`"),
        ] {
            let error = plots(asked).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
