//! Compares a study with the run that it asked for.

use super::figure::{Against, Figure, Of};
use super::file::{Row, Study, Table};
use super::plot::Drawn;
use super::result::{Line, Why, measured};
use crate::names::{by_reason, points_counted};
use costof_findings::Finding;
use costof_findings::Kind;
use costof_findings::noise::Withheld;
use costof_model::rows::Guess;
use costof_model::{Point, ProbeInfo, Run, nearest};
use std::collections::HashSet;

/// What a line shows in place of a number.
pub(super) const NONE: &str = "—";

/// A study with this machine's result for each of its figures.
#[derive(Clone, Debug)]
pub struct Reproduction<'a> {
    pub(crate) study: &'a Study,
    pub(crate) tables: Vec<ReproducedTable>,
    /// Its plots.
    pub(crate) plots: Vec<Drawn>,
    pub(crate) answers: Vec<Answer>,
    /// What the person who ran it predicted.
    pub(super) guesses: Vec<Guess>,
    /// Notes that a reader of these runs has to know.
    pub(super) caveats: Vec<String>,
}

/// A table of a study, as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReproducedTable {
    pub(crate) title: String,
    /// The names of its columns; the lines are row by row.
    pub(super) columns: Vec<String>,
    /// The unit of all figures, if the table has one.
    pub(super) unit: String,
    pub(crate) lines: Vec<Line>,
    /// Whether all numbers of this machine are means, so that the column says it once.
    pub(super) is_of_means: bool,
    /// How the method of the original misled, for the table as a whole.
    pub(crate) misled: Option<String>,
    pub(crate) note: Option<String>,
    /// The notes that lines refer to, numbered from 1.
    pub(crate) marks: Vec<String>,
}

/// A question of the study.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The question.
    pub ask: String,
    /// The publication's answer.
    pub theirs: Option<String>,
    pub(super) findings: Vec<Finding>,
    /// Why there is no answer.
    pub because: Option<String>,
}

impl Study {
    /// Checks that everything that its figures and its questions refer to exists.
    ///
    /// # Errors
    /// A sentence that names the line and the key: the first of its mistakes.
    pub fn check(&self, infos: &[&ProbeInfo]) -> Result<(), String> {
        self.mistakes(infos).into_iter().next().map_or(Ok(()), Err)
    }

    /// A sentence for each mistake, which names the line and the key.
    pub fn mistakes(&self, infos: &[&ProbeInfo]) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut blanks = HashSet::new();
        for (table, row) in self.rows() {
            let figures = self.row(table, row, infos).unwrap_or_else(|mistake| {
                mistakes.push(mistake);
                Vec::new()
            });
            let mut figures = figures.into_iter().filter(|own| own.predictable().is_some());
            if figures.any(|own| !blanks.insert((table.title.get_ref(), own.name))) {
                let what = "this table has another row of that name, and predictions are by name";
                mistakes.push(self.wrong(&row.name, "name", what));
            }
        }
        mistakes.extend(self.check_plots(infos).err());
        mistakes.extend(self.check_layout(infos).err());
        let kinds = || Kind::ALL.iter().map(|kind| kind.name());
        let probes = || infos.iter().map(|info| &*info.id);
        for question in &self.questions {
            for at in &question.kinds {
                let kind = at.get_ref().as_str();
                if !kinds().any(|known| known == kind) {
                    let hint = nearest::hint(kind, kinds());
                    let what = format!("kinds: no finding is of the kind `{kind}`{hint}");
                    mistakes.push(self.wrong_at(at, &what));
                }
            }
            for at in &question.about {
                let about = at.get_ref().as_str();
                if !probes().any(|probe| probe.starts_with(about)) {
                    let hint = nearest::hint(about, probes());
                    let what = format!("about: no probe begins with `{about}`{hint}");
                    mistakes.push(self.wrong_at(at, &what));
                }
            }
        }
        mistakes
    }

    /// A sentence for each row whose point is not measured by what the study runs. Rows that a label names, and sizes
    /// beyond the caches, depend on the machine.
    pub fn unmeasured(
        &self,
        infos: &[&ProbeInfo],
        is_measured: impl Fn(&Point) -> bool,
    ) -> Vec<String> {
        let rows = self.rows().flat_map(|(table, row)| {
            let figures = self.row(table, row, infos).unwrap_or_default();
            figures.into_iter().filter_map(move |figure| Some((row, figure.against.ok()?)))
        });
        let fixed = rows.filter(|(_, against)| against.label.is_none() && !against.beyond_caches);
        let missing = fixed.filter(|(_, against)| !is_measured(&against.point));
        let sentence = |(row, against): (&Row, Against)| {
            self.wrong(&row.name, "point", &format!("no `[[run]]` measures {}", against.point))
        };
        missing.map(sentence).collect()
    }

    fn rows(&self) -> impl Iterator<Item = (&Table, &Row)> {
        self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)))
    }

    /// The points that its figures are compared with, except those that a label names.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn points(&self, infos: &[&ProbeInfo]) -> Result<Vec<(Point, Option<String>)>, String> {
        let against = self.figures(infos)?.into_iter().flatten();
        let against = against.filter_map(|figure| figure.against.ok());
        Ok(against
            .flat_map(|against| {
                let points = [Some(against.point), against.per].into_iter().flatten();
                points.map(move |point| (point, against.label.clone()))
            })
            .collect())
    }

    /// Compares the study with a run. `why` returns why a point was not measured, and `caveats` are notes on the
    /// run.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn reproduced_by<'a>(
        &'a self,
        infos: &[&ProbeInfo],
        run: &Run,
        why: Why<'_>,
        caveats: Vec<String>,
    ) -> Result<Reproduction<'a>, String> {
        let tables = self.tables.iter().zip(self.figures(infos)?).map(|(table, figures)| {
            let mut reproduction = ReproducedTable {
                title: table.title.get_ref().clone(),
                columns: (table.columns.iter())
                    .map(|column| column.name.get_ref().clone())
                    .collect(),
                unit: table.common.unit.clone().unwrap_or_default(),
                misled: table.common.misled.clone(),
                note: table.common.note.clone(),
                ..ReproducedTable::default()
            };
            for figure in &figures {
                reproduction.add(figure, run, why);
            }
            reproduction.name_means();
            reproduction
        });
        Ok(Reproduction {
            tables: tables.collect(),
            plots: self.drawn(infos, run, why)?,
            answers: self.answers(run),
            study: self,
            guesses: run.run.guesses.clone(),
            caveats,
        })
    }

    /// The answers of a run to its questions.
    pub fn answers(&self, run: &Run) -> Vec<Answer> {
        let found = costof_findings::all::findings(run);
        let withheld = Withheld::new(run);
        let answers = self.questions.iter().map(|asked| {
            let is_about = |point: &Point| {
                let mut about = asked.about.iter();
                about.any(|about| point.probe.starts_with(about.get_ref()))
            };
            let answers = |finding: &Finding| {
                let mut kinds = asked.kinds.iter();
                kinds.any(|kind| kind.get_ref() == finding.kind.name())
                    && (asked.about.is_empty() || finding.evidence.iter().any(is_about))
            };
            let because = || {
                let withheld = withheld.why(answers);
                let failed = || failed(run, |point| is_about(point));
                let why = withheld.or_else(failed);
                why.unwrap_or_else(|| asked.because.clone())
            };
            let findings: Vec<Finding> =
                found.iter().filter(|found| answers(found)).cloned().collect();
            Answer {
                ask: asked.ask.clone(),
                theirs: asked.theirs.clone(),
                because: findings.is_empty().then(because),
                findings,
            }
        });
        answers.collect()
    }
}

/// Why points that a question is about have no number.
fn failed(run: &Run, is_about: impl Fn(&Point) -> bool) -> Option<String> {
    let failures = run.failures.iter().filter(|row| row.launch.is_none() && is_about(&row.point));
    let failed = by_reason(failures.map(|row| (&*row.reason, String::new())));
    let (reason, points) = failed.iter().max_by_key(|(_, points)| points.len())?;
    let points = points_counted(points.len());
    Some(format!("{points} that it needs have no number: {reason}"))
}

impl ReproducedTable {
    fn add(&mut self, figure: &Figure, run: &Run, why: Why<'_>) {
        let mut line = Line {
            name: figure.name.clone(),
            predicted: figure.predicted.display(figure.unit),
            published: figure.measured.display(figure.unit),
            ..Line::default()
        };
        let measured = match (&figure.against, figure.unit) {
            (Ok(against), Some(unit)) => measured(against, unit, run, why),
            (Err(why), _) => Err(why.clone()),
            (_, None) => Err("it has no unit".to_owned()),
        };
        let misled = figure.misled.as_ref().map(|misled| format!("misled: {misled}"));
        let mut marks: Vec<String> = misled.into_iter().chain(figure.notes.clone()).collect();
        match measured {
            Ok(measured) => {
                marks.extend(measured.note.clone());
                measured.into_line(figure, &mut line);
            }
            Err(why) => {
                NONE.clone_into(&mut line.here);
                marks.push(format!("not measured here: {why}"));
            }
        }
        line.marks = marks.into_iter().map(|text| self.mark(text)).collect();
        self.lines.push(line);
    }

    /// Says in the column's name, in place of each line, that all numbers are means.
    fn name_means(&mut self) {
        let mean = Of::Mean.said();
        let is_mean = |line: &Line| line.here.ends_with(&mean);
        self.is_of_means = self.lines.iter().any(is_mean)
            && self.lines.iter().all(|line| is_mean(line) || !line.has_number);
        for line in self.lines.iter_mut().filter(|_| self.is_of_means) {
            line.here = line.here.trim_end_matches(&mean).to_owned();
        }
    }

    /// The number of a note below the table.
    fn mark(&mut self, text: String) -> usize {
        let known = self.marks.iter().position(|mark| *mark == text);
        known.unwrap_or_else(|| {
            self.marks.push(text);
            self.marks.len() - 1
        }) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{
        self, RowExt, probe_info, run_without_facts as run, sized_row as row,
    };
    use costof_model::typed::place;
    use costof_model::{Axis, Domain, FailureKind, FailureRow, List, Prediction, Unit};

    fn info() -> ProbeInfo {
        let axes = vec![Axis {
            name: "size".into(),
            about: "".into(),
            domain: Domain::Number {
                unit: Unit::Bytes,
                low: 1,
                high: 1 << 30,
                defaults: List::Owned(vec![1]),
            },
        }];
        ProbeInfo { axes: List::Owned(axes), ..probe_info("a.x") }
    }

    /// The lines of a table with these rows, compared with two points of 50 and 70 ns and one that
    /// failed.
    fn lines(rows: &str) -> (Vec<Line>, Vec<String>) {
        let head = "title = 't'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 't'\n";
        let text = format!("{head}point = 'a.x'\nunit = 'ns'\nrows = [{rows}]");
        let study = Study::read("x", "x.toml", &text).unwrap();
        let mut run = run();
        run.points = vec![row("a.x", 1, 50.0), row("a.x", 2, 70.0)];
        run.points[0].label = Some("a load, and more".to_owned());
        (run.points[0].metrics[0].mean, run.points[0].metrics[0].sd) = (55.0, Some(5.0));
        run.points[0].prediction = Some(Prediction {
            metric: "cost".into(),
            low: 48.0,
            high: 60.0,
            because: String::new(),
        });
        run.points[1].label = Some("a load".to_owned());
        let mut failed = row("a.x", 3, 0.0).point;
        failed.link = "none".into();
        run.failures.push(FailureRow {
            point: failed,
            block: 0,
            launch: None,
            kind: FailureKind::Unsupported,
            reason: "no such disk".to_owned(),
        });
        let info = info();
        let why = |point: &Point| (point.axes.number("size") == 4).then(|| "too large".to_owned());
        let reproduction = study.reproduced_by(&[&info], &run, &why, Vec::new()).unwrap();
        let table = reproduction.tables.into_iter().next().unwrap();
        (table.lines, table.marks)
    }

    #[test]
    fn a_figure_stands_beside_the_point_that_asks_the_same() {
        let (lines, _) = lines(
            "{name='a',measured=25},{name='b',measured=[60,80],at='size=2'},{name='c',measured=[80,90],\
             at='size=2'},{name='d',unit='µs',measured=1,times=1000},{name='e',label='a load',measured=7},\
             {name='f',at='size=2',per='size=1',unit='%',measured=10},\
             {name='g',per='size=2',unit='×',measured=2}",
        );
        let shown: Vec<[&str; 4]> = lines
            .iter()
            .map(|line| [&*line.published, &*line.here, &*line.interval, &*line.ratio])
            .collect();
        assert_eq!(
            shown,
            [
                ["25 ns", "50.0 ns", "45.0–55.0", "2.00"],
                ["60 to 80 ns", "70.0 ns", "63.0–77.0", "within"],
                // Relative to the nearer end.
                ["80 to 90 ns", "70.0 ns", "63.0–77.0", "0.875"],
                ["1 µs", "50.0 µs", "45.0–55.0", "50.0"],
                // The label that matches most closely.
                ["7 ns", "70.0 ns", "63.0–77.0", "10.0"],
                // Ratios of two points; their quotient means nothing.
                ["10 %", "40.0 %", "21.5–61.4", ""],
                ["2×", "0.714×", "0.620–0.823", ""],
            ]
        );
    }

    #[test]
    fn where_theirs_is_a_mean_ours_is_one_with_the_median_beside_it() {
        let shown = |of: &str| {
            let (lines, _) = lines(&format!("{{name='a',measured=25,of='{of}'}}"));
            let line = &lines[0];
            let cells = [&line.here, &line.median, &line.interval, &line.ratio, &line.expected];
            cells.map(String::clone)
        };
        let mean = ["55.0 ns", "50.0", "45.0–55.0", "2.20", "48.0–60.0 ✓"];
        assert_eq!(shown("mean"), mean);
        assert_eq!(shown("sd"), ["5.00 ns (sd)", "", "", "0.200", ""]);
        let median = ["50.0 ns", "", "45.0–55.0", "2.00", "48.0–60.0 ✓"];
        assert_eq!(shown("median"), median);
    }

    #[test]
    fn a_figure_without_a_usable_interval_shows_the_known_range_alone() {
        let head =
            "title = 't'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 't'\npoint = 'a.x'\n";
        let rows = "{name='a',measured=25},{name='b',measured=25,of='mean'},\
                    {name='c',measured=0.02,unit='µs',of='min'},{name='d',measured=25,at='size=2',of='mean'}";
        let text = format!("{head}unit = 'ns'\nrows = [{rows}]");
        let study = Study::read("x", "x.toml", &text).unwrap();
        let (mut run, info) = (run(), info());
        let noisy = row("a.x", 1, 50.0).known_within(0.9);
        run.points = vec![noisy, row("a.x", 2, 70.0)];
        run.points[0].metrics[0].range = Some((16.0, 127.0));
        let table = |run: &Run| {
            let found = study.reproduced_by(&[&info], run, &|_| None, Vec::new());
            found.unwrap().tables.remove(0)
        };
        let found = table(&run);
        assert!(found.is_of_means, "what is no number is no median either");
        for line in &found.lines[..3] {
            let cells = [&line.here, &line.median, &line.interval, &line.ratio];
            assert_eq!(cells, ["too noisy: 16.0–127 ns", "", "", ""]);
        }
        run.points[0] = row("a.x", 1, 395.0).of_few_launches(2, (10.0, 780.0));
        assert_eq!(table(&run).lines[0].here, "too few launches: 10.0–780 ns");
    }

    #[test]
    fn a_figure_is_compared_wherever_the_files_of_a_run_lie() {
        let text = "title = 't'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 't'\nunit = 'ns'\n\
                    rows = [{name='a',point='a.x size=2'},{name='b',point='a.x size=2 dir=/one'}]";
        let study = Study::read("x", "x.toml", text).unwrap();
        let mut info = info();
        let dir = place(&[("temporary", "")], &[]).into_axis("dir", "");
        info.axes.to_mut().push(dir);
        let mut run = run();
        run.points = vec![row("a.x", 2, 70.0)];
        run.points[0].point.axes = run.points[0].point.axes.clone().with("dir", "/other");
        let found = study.reproduced_by(&[&info], &run, &|_| None, Vec::new());
        let lines = &found.unwrap().tables[0].lines;
        assert_eq!([&*lines[0].here, &*lines[1].here], ["70.0 ns", "—"]);
    }

    #[test]
    fn main_memory_is_of_the_least_size_that_caches_hold_little_of() {
        let head = "title = 't'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 't'\n";
        let text = format!("{head}unit='ns'\nrows=[{{name='a',point='a.x',beyond_caches=true}}]");
        let study = Study::read("x", "x.toml", &text).unwrap();
        let here = |sizes: &[u64]| {
            let mut run = testing::run(&[32 << 10, 1 << 20, 32 << 20]);
            run.points = sizes.iter().map(|mib| row("a.x", mib << 20, *mib as f64)).collect();
            let found = study.reproduced_by(&[&info()], &run, &|_| None, Vec::new());
            found.unwrap().tables[0].lines[0].here.clone()
        };
        assert_eq!(here(&[512, 127, 128, 64]), "128 ns");
        assert_eq!(here(&[64, 127]), NONE);
    }

    #[test]
    fn a_figure_without_a_number_says_why() {
        let (lines, marks) = lines(
            "{name='a',at='size=3'},{name='b',at='size=4'},{name='c',at='size=5'},\
             {name='d',absent='it is gone'},{name='f',label='a store'},\
             {name='g',unit='cycles'},{name='h',of='p99'},{name='i',at='size=5'}",
        );
        for (line, says) in lines.iter().zip([
            "no such disk",
            "too large",
            "quick run",
            "it is gone",
            "`a store`",
            "no number",
            "too few samples",
            "quick run",
        ]) {
            assert_eq!(line.here, "—");
            let [mark] = line.marks[..] else { panic!("{line:?}") };
            assert!(marks[mark - 1].contains(says), "{}: {says}", marks[mark - 1]);
        }
        assert_eq!(lines[2].marks, lines[7].marks, "what is said twice has one number");
    }
}
