//! The plots of a study: which rows each of them has.

use super::figure::{MADE, Reading};
use super::file::{Common, Plot, Study};
use super::reproduction::Why;
use super::result::{ESTIMATED_CYCLES, uncounted};
use crate::choose::{self, LOSS, without_loss};
use crate::plot::Figure;
use crate::plots;
use crate::rows::Rows;
use costof_model::Text;
use costof_model::axis::{Axis, AxisValue, Domain};
use costof_model::plan;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::Run;
use std::collections::BTreeMap;

/// A plot; of one that cannot be drawn, its title and why.
pub(crate) type Drawn = Result<Figure, (String, String)>;

/// The points of a plot.
struct Points<'i> {
    info: &'i ProbeInfo,
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
            let beside = plot.beside.iter().map(|beside| &*beside.point);
            let mut points = [&*plot.point].into_iter().chain(beside);
            points.try_for_each(|point| self.points_of(plot, point, infos).map(drop))
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
        let drawn = self.plots.iter().enumerate().map(|(position, plot)| {
            let title = || plot.title.get_ref().clone();
            let draw = |point| {
                let points = self.points_of(plot, point, infos)?;
                Ok::<_, String>(points.drawn(&rows, plot, why))
            };
            let mut figure = match draw(&plot.point)? {
                Ok(figure) => figure,
                Err(why) => return Ok(Err((title(), why))),
            };
            for beside in &plot.beside {
                if let Ok(other) = draw(&beside.point)? {
                    figure.add_line(other, &beside.name);
                }
            }
            Ok(Ok(Figure {
                name: format!("study-{:02}-{}", position + 1, figure.name),
                title: title(),
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

    fn points_of<'i>(
        &self,
        plot: &Plot,
        point: &str,
        infos: &[&'i ProbeInfo],
    ) -> Result<Points<'i>, String> {
        let wrong = |key: &str, what: String| self.wrong(&plot.title, key, &what);
        let common = Common {
            point: Some(point.to_owned()),
            ..Common::default()
        };
        let reading = Reading {
            study: self,
            at: &plot.title,
            scopes: vec![&common],
        };
        // What stands beside has no axes of its own in which its lines differ.
        let at = if point == plot.point { &*plot.at } else { "" };
        let (info, point) = reading.point(infos)?;
        let values = set_several(info, at).map_err(|what| wrong("at", what))?;
        if plot.over != LOSS {
            info.axis(&plot.over).map_err(|what| wrong("over", what))?;
        }
        let mut metrics = info.metrics.iter().map(|known| &*known.name).chain(MADE);
        if metrics.all(|known| known != plot.metric) {
            let what = format!("{} has no metric `{}`", info.id, plot.metric);
            return Err(wrong("metric", what));
        }
        Ok(Points {
            open: open_places(info, &point),
            info,
            point,
            values,
        })
    }
}

impl Points<'_> {
    /// The plot, or why there is none.
    fn drawn(&self, rows: &Rows<'_>, plot: &Plot, why: Why<'_>) -> Result<Figure, String> {
        let has = |at: &usize| self.has(&rows.row(*at).point, &plot.over);
        let positions: Vec<usize> = (0..rows.all().len()).filter(has).collect();
        if positions.is_empty() {
            let none = || "none of its points was measured".to_owned();
            return Err(why(&self.point).unwrap_or_else(none));
        }
        let has = |metric: &&str| {
            let mut measured = positions.iter().map(|at| rows.row(*at));
            measured.any(|row| row.estimate(metric).is_some())
        };
        let asked = &*plot.metric;
        let estimated = (asked == "cycles").then_some(ESTIMATED_CYCLES);
        let metric = [asked].into_iter().chain(estimated).find(has);
        let metric = metric.ok_or_else(|| uncounted(rows.run, asked))?;
        let of = (&*self.info.id, &*positions);
        let figure = choose::asked(rows, of, (&plot.over, metric), plot.style);
        let mut figure = figure.ok_or("too few of its points have a usable number")?;
        let about = plot.note.iter().chain([&figure.about]).cloned();
        figure.about = about.collect::<Vec<_>>().join(" ");
        Ok(figure)
    }

    fn has(&self, point: &Point, over: &str) -> bool {
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

/// The axes of a point on which a study leaves the place to the run: the folder of the files, a file of another
/// machine.
pub(super) fn open_places(info: &ProbeInfo, point: &Point) -> Vec<Text> {
    let is_open = |axis: &&Axis| {
        let named = point.axes.0.get(&*axis.name);
        matches!(axis.domain, Domain::Place { .. }) && named == Some(&axis.default())
    };
    let open = info.axes.iter().filter(is_open);
    open.map(|axis| axis.name.clone()).collect()
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
    use costof_model::List;
    use costof_model::testing::{number_axis, probe_info, run_without_facts, sized_row};
    use costof_model::unit::Unit;

    /// The plots that these lines ask for, of a probe with sizes and threads whose cost is the product.
    fn plots(asked: &str) -> Result<Vec<Drawn>, String> {
        let head =
            "title = 't'\nsource = 's'\nmachine = 'm'\n[[plot]]\ntitle = 'p'\npoint = 'a.x'\n";
        let study = Study::read("x", "x.toml", &format!("{head}{asked}"))?;
        let mut info = probe_info("a.x");
        info.axes = List::Owned(vec![
            number_axis("size", Unit::Bytes),
            number_axis("threads", Unit::One),
        ]);
        let mut metric = info.metrics[0].clone();
        metric.name = "l1d_load_misses".into();
        info.metrics.to_mut().push(metric);
        let mut run = run_without_facts();
        for size in [64, 128, 256] {
            for threads in [1, 2, 4, 8] {
                let mut row = sized_row("a.x", size, (size * threads) as f64);
                row.point.axes = row.point.axes.with("threads", threads);
                run.points.push(row);
            }
        }
        study.check(&[&info])?;
        study.drawn(&[&info], &run, &|_| Some("nobody asks".to_owned()))
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
        assert!(
            lines
                .iter()
                .all(|line| line.kind == Kind::Bars && line.dots.len() == 4)
        );
        assert!(lines[0].dots[0].x < lines[1].dots[0].x, "side by side");
        let (title, why) = plots("over = 'size'\nmetric = 'l1d_load_misses'")
            .unwrap()
            .remove(0)
            .unwrap_err();
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
        let lines = figure.panels[0].lines.iter();
        let lines: Vec<(usize, f64)> = lines.map(|line| (line.series, line.dots[0].y)).collect();
        assert_eq!(lines, [(0, 64.0), (1, 128.0)]);
        let wrong = beside.replace("threads", "thread");
        let error = plots(&format!("over = 'size'\nmetric = 'cost'\n{wrong}")).unwrap_err();
        assert!(error.contains("`thread`"), "{error}");
    }

    #[test]
    fn speed_up_is_relative_to_the_fewest_and_stands_beside_the_ideal() {
        let figure =
            drawn("over = 'threads'\nat = 'size=64,128,256'\nmetric = 'cost'\nstyle = 'speed_up'");
        assert_eq!(figure.series.last().map(String::as_str), Some("ideal"));
        for line in &figure.panels[0].lines {
            let dots: Vec<f64> = line.dots.iter().map(|dot| dot.y.round()).collect();
            assert_eq!(dots, [1.0, 2.0, 4.0, 8.0]);
        }
    }

    #[test]
    fn what_a_plot_gets_wrong_is_reported() {
        for (asked, says) in [
            ("over = 'sise'\nmetric = 'cost'", "over of `p`"),
            ("over = 'size'\nmetric = 'costs'", "metric of `p`"),
            (
                "over = 'size'\nat = 'thread=1'\nmetric = 'cost'",
                "at of `p`",
            ),
        ] {
            let error = plots(asked).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
