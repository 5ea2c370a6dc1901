//! Studies as they are planned, and what is said of wrong ones.

use super::*;
use crate::cli::Measuring;
use costof_findings::Kind;
use costof_measure::probe;
use costof_model::facts::{Cache, CacheKind};
use costof_model::metric::is_share;
use costof_model::{
    Axes, AxisValue, CpuSet, Estimate, MeasuredRows, PointRow, Text, Unit, testing,
};
use costof_report::mechanism::Mechanism;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: Table = costof_probes::TABLE;

fn command<'a>(options: &'a StudyOptions, name: &str, text: &str) -> Result<Command<'a>, String> {
    let study = Study::read(name, &format!("{name}.toml"), text)?;
    let infos = infos(TABLE);
    study.check(&infos)?;
    Ok(Command { table: TABLE, options, folder: PathBuf::from("study"), study, infos })
}

fn options(quick: bool) -> StudyOptions {
    StudyOptions {
        measuring: Measuring { quick, ..Measuring::default() },
        ..StudyOptions::default()
    }
}

/// A machine on which everything can be asked.
fn large_machine() -> Facts {
    let cache = |level, size_bytes| Cache {
        level,
        kind: CacheKind::Unified,
        size_bytes,
        shared_by: vec![CpuSet::parse("0-15").unwrap()],
        ..Cache::default()
    };
    let mut facts = Facts::default();
    facts.cpu.online = CpuSet::parse("0-15").unwrap();
    facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
    facts.memory.available_bytes = Some(7 << 30);
    facts
}

fn plan_of(command: &Command<'_>) -> Plan {
    let quick = command.options.measuring.quick;
    planned(TABLE, &command.study, (quick, &[]), &large_machine(), &mut |_| true).unwrap()
}

#[test]
fn every_figure_of_every_study_is_asked_of_a_probe() {
    for (name, text) in EMBEDDED {
        let options = options(false);
        let command = command(&options, name, text).unwrap();
        let plan = plan_of(&command);
        for question in 0..command.study.asks().count() {
            for selection in command.study.selections_of(question) {
                let options = command.run_options();
                request(TABLE, &command.study, selection, &options, &Facts::default()).unwrap();
            }
        }
        for (point, label) in command.study.points(&command.infos).unwrap() {
            // Only a disk that turns has such rows.
            if point.probe == "file.read" && label.is_some() {
                continue;
            }
            let mut blocks = plan.blocks.iter();
            let asked = blocks.any(|block| match &label {
                None => block.points.contains(&point),
                Some(label) => {
                    let mut labels = block.labels.iter();
                    let first = &block.points[0];
                    (&first.probe, &first.link) == (&point.probe, &point.link)
                        && labels.any(|(_, own)| own.contains(label.as_str()))
                }
            });
            assert!(asked, "{name} asks {point} {label:?} nowhere");
        }
    }
}

/// A row of a point in which every metric of its probe is known.
fn row(info: &ProbeInfo, point: &Point, number: usize) -> PointRow {
    let value = 1000.0 + number as f64;
    let mut row = testing::row(info.id.clone(), point.axes.clone(), value);
    row.point = point.clone();
    let metrics = info.metrics.iter().map(|metric| (&metric.name, metric.unit));
    let cycles = (&Text::Borrowed("cycles"), Unit::Cycles);
    row.metrics = metrics
        .chain([cycles])
        .map(|(name, unit)| Estimate { unit, ..testing::estimate(name.clone(), value) })
        .collect();
    row.primary = info.metrics[0].name.clone();
    row
}

/// The marks of plots, whose files draw them in the colours of series.
fn has_marks(svg: &str) -> bool {
    let (_, drawn) = svg.split_once("</style>").unwrap();
    ["class=\"s", "class=\"level", "class=\"h"].iter().any(|class| drawn.contains(class))
}

#[test]
fn every_plot_of_every_study_has_marks_or_says_why_not() {
    for (name, text) in EMBEDDED {
        let options = options(false);
        let command = command(&options, name, text).unwrap();
        let plan = plan_of(&command);
        let plots = text.matches("[[plot]]").count();
        for most in [1, 2, usize::MAX] {
            let mut run = testing::run_without_facts();
            run.probes = command.infos.iter().map(|info| (*info).clone()).collect();
            run.run.plan = plan.clone();
            // As many points of each line over each axis, which is what plots are over.
            let mut of_line: BTreeMap<String, usize> = BTreeMap::new();
            for (number, point) in plan.points().enumerate() {
                let info = command.infos.iter().find(|info| info.id == point.probe);
                let lines = point.axes.0.iter().filter_map(|(axis, value)| {
                    let is_number = matches!(value, AxisValue::Number(_));
                    let rest = point.to_string().replace(&format!("{axis}={value}"), "");
                    is_number.then(|| format!("{axis}: {rest}"))
                });
                let lines: Vec<String> = lines.collect();
                let has_room = |line: &String| of_line.get(line).is_none_or(|count| *count < most);
                if lines.iter().all(has_room) {
                    run.points.push(row(info.unwrap(), point, number));
                    for line in lines {
                        *of_line.entry(line).or_default() += 1;
                    }
                }
            }
            let files = command.study.svg(&command.infos, &run).unwrap();
            let drawn: BTreeSet<&str> = files.iter().map(|(file, _)| &file[..8]).collect();
            let shown =
                command.study.reproduced_by(&command.infos, &run, &|_| None, Vec::new()).unwrap();
            let markdown = shown.markdown(&run);
            let (_, why) = markdown.split_once("## Plots that are not drawn").unwrap_or_default();
            let why = why.split("\n## ").next().unwrap_or_default();
            let without = why.lines().filter(|line| line.starts_with("- ")).count();
            assert_eq!(drawn.len() + without, plots, "{name}, {most}: {why}");
            for (file, svg) in &files {
                assert!(has_marks(svg), "{name}, {most}: {file}");
            }
            // What needs a file of another machine, or counts that a processor may not have.
            if most == usize::MAX {
                assert!(without <= 1, "{name}: {why}");
            }
        }
    }
}

/// What is a share is shown in percent.
#[test]
fn a_metric_that_its_probe_calls_a_share_is_one() {
    for info in infos(TABLE) {
        for metric in info.metrics.iter() {
            let is_called_one = metric.unit == Unit::One
                && (metric.name.ends_with("_share") || metric.about.starts_with("share of"))
                || metric.about.starts_with("the share of");
            let is_one = is_share(&metric.name, metric.unit);
            assert!(is_one || !is_called_one, "{} {}", info.id, metric.name);
        }
    }
}

#[test]
fn a_study_measures_at_the_places_that_are_set() {
    let (name, text) = EMBEDDED[1];
    let study = Study::read(name, name, text).unwrap();
    let planned = |places: &[Place]| -> Vec<Point> {
        let facts = large_machine();
        let mut keep = |point: &Point| fits(TABLE, point, &facts).is_ok();
        let plan = planned(TABLE, &study, (false, places), &facts, &mut keep).unwrap();
        plan.points().cloned().collect()
    };
    let of = |points: &[Point], probe: &str, axis: &str, place: &str| {
        let mut points = points.iter().filter(|point| point.probe == probe);
        points.clone().count() > 0 && points.all(|point| point.axes.word(axis) == place)
    };
    let set = |axis: &str, place: &str| (axis.to_owned(), vec![place.to_owned()]);
    let (path, dir) = ("nfs://h/e/f", "/mnt");
    let points = planned(&[set("path", path), set("dir", dir)]);
    for probe in ["file.remote", "file.remote_call"] {
        assert!(of(&points, probe, "path", path), "{probe}");
    }
    for probe in ["file.read", "file.cache_size", "file.contention"] {
        assert!(of(&points, probe, "dir", dir), "{probe}");
    }
    // A file that nobody names is not read.
    let points = planned(&[]);
    assert!(points.iter().all(|point| point.probe != "file.remote"));
    for (place, says) in
        [(set("dri", dir), "axes: dir, path"), (set("size", "4KiB"), "`size` is none")]
    {
        let error = places::check(&infos(TABLE), &[place]).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn what_predictions_build_on_is_measured_too() {
    let options = options(false);
    let (name, text) = EMBEDDED[1];
    let plan = plan_of(&command(&options, name, text).unwrap());
    for needed in [
        "os.context_switch between=processes over=pipe cpus=cross",
        "file.read cache=direct pattern=random engine=io_uring depth=16",
    ] {
        let mut words = needed.split(' ');
        let probe = words.next();
        let has = |point: &Point| {
            let axes = point.to_string();
            probe == Some(&*point.probe) && words.clone().all(|word| axes.contains(word))
        };
        assert!(plan.points().any(has), "{name} does not measure {needed}");
    }
}

#[test]
fn main_memory_at_any_stride_is_of_more_lines_than_caches_hold() {
    let options = options(false);
    let (name, text) = EMBEDDED[1];
    let plan = plan_of(&command(&options, name, text).unwrap());
    let has = |stride: u64, size: u64| {
        plan.points().any(|point| {
            point.probe == "memory.latency"
                && point.axes.word("pattern") == "quarters"
                && (point.axes.number("stride"), point.axes.number("size")) == (stride, size)
        })
    };
    // Four times the 32 MiB of the last level in lines of 64 bytes.
    for (stride, size) in [(64, 128 << 20), (256, 512 << 20), (512, 1 << 30)] {
        assert!(has(stride, size), "{stride}");
    }
}

#[test]
fn the_study_in_the_documents_is_one() {
    let text = include_str!("../../../../../docs/STUDIES.md");
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let options = options(true);
    let command = command(&options, "course", example).unwrap();
    assert_eq!(plan_of(&command).blocks.len(), 2);
    assert_eq!(command.study.points(&command.infos).unwrap().len(), 2);
    for kind in Kind::ALL.iter().map(|kind| kind.name()) {
        assert!(text.contains(&format!("`{kind}`")), "{kind} is not text");
    }
}

#[test]
fn a_quick_study_asks_less_and_no_point_twice() {
    for (name, text) in EMBEDDED {
        let count = |quick| {
            let options = options(quick);
            let plan = plan_of(&command(&options, name, text).unwrap());
            let points = plan.points();
            let distinct: BTreeSet<&Point> = points.clone().collect();
            assert_eq!(distinct.len(), points.count(), "{name}");
            distinct.len()
        };
        assert!(count(true) <= count(false), "{name}");
    }
}

/// The reports' machines had more CPUs; more threads than CPUs are measured all the same, and said.
#[test]
fn only_memory_makes_a_machine_too_small() {
    let mut facts = large_machine();
    facts.memory.available_bytes = Some(1 << 30);
    let probe = probe::find(TABLE, "copy.send").unwrap();
    let point = |threads: u64| Point {
        probe: probe.info.id.clone(),
        axes: probe.info.defaults().with("threads", threads),
        link: "loopback".into(),
    };
    assert_eq!(fits(TABLE, &point(17), &facts), Ok(()));
    facts.memory.available_bytes = Some(64 << 20);
    assert!(fits(TABLE, &point(1), &facts).unwrap_err().contains("memory"));
}

#[test]
fn what_a_study_gets_wrong_is_text_with_its_line() {
    let head = "title = 't'\nsource = 's'\nmachine = 'm'\n";
    let table = |rows: &str| format!("[[table]]\ntitle = 't'\nunit = 'ns'\nrows = [{rows}]");
    let row = |more: &str| table(&format!("{{name='r',{more}}}"));
    let question = |more: &str| format!("[[question]]\nask='?'\nbecause='b'\n{more}");
    for (more, says) in [
        (row("point='cpu.clok'"), &["line 7", "point of `r`", "`cpu.clock`"][..]),
        (row("point='cpu.clock',at='sorce=tsc'"), &["line 7", "at of `r`", "`source`"]),
        (row("point='cpu.clock source=realtme'"), &["line 7", "`realtme`", "`realtime`"]),
        (row("point='cpu.clock',metric='costs'"), &["line 7", "metric of `r`", "`cost`"]),
        (row("point='cpu.clock',unit='GB/s'"), &["line 7", "unit of `r`"]),
        (row("point='cpu.clock',unit='us'"), &["line 7", "`us`"]),
        (row("point='cpu.clock',of='p200'"), &["line 7", "of of `r`"]),
        (
            row("point='memory.bandwidth',unit='ms',bytes=9,of='sd'"),
            &["line 7", "of of `r`", "rate"],
        ),
        (row("point='cpu.clock',times=-1"), &["line 7", "times of `r`"]),
        (row("point='cpu.clock over lan'"), &["line 7", "one end"]),
        (row("measured=5"), &["line 7", "point of `r`", "absent"]),
        (row("point='cpu.clock',measured=[5,4]"), &["line 7", "measured of `r`", "range"]),
        (
            question("kinds=['memory_level']"),
            &["line 7", "kinds", "`memory_level`", "`memory_levels`"],
        ),
        (
            question("kinds=[]\nabout=['rpx.load']"),
            &["line 8", "about", "`rpx.load`", "`rpc.load`"],
        ),
    ] {
        let options = options(false);
        let error = command(&options, "x", &format!("{head}{more}")).err().unwrap();
        assert!(says.iter().all(|part| error.contains(part)), "{says:?}: {error}");
    }
    let run = format!("{head}[[run]]\nwhat = 'cpu.clok --quick'");
    let options = options(false);
    let command = command(&options, "x", &run).unwrap();
    let text = request(
        TABLE,
        &command.study,
        &command.study.selections[0],
        &command.run_options(),
        &Facts::default(),
    );
    let text = text.err().unwrap().to_string();
    assert!(text.contains("line 5") && text.contains("--quick"), "{text}");
}

/// The medians of primary metrics on one machine: a point, a tab, the number.
const QUIET: &str = include_str!("quiet.txt");

/// The study that runs this and has these points in its only table.
fn of_points(run: &str, points: &[&str]) -> String {
    let rows = points.iter().map(|point| {
        let probe = probe::find(TABLE, point.split(' ').next().unwrap()).unwrap();
        let unit = match probe.info.primary().unit {
            Unit::BytesPerSecond => "GB/s",
            Unit::Hertz => "GHz",
            _ => "ns",
        };
        format!("{{name='{point}',point='{point}',unit='{unit}'}}")
    });
    let rows: Vec<String> = rows.collect();
    format!(
        "title='t'\nsource='s'\nmachine='m'\n[[run]]\nwhat='{run}'\n[[table]]\ntitle='t'\nrows=[{}]",
        rows.join(",")
    )
}

/// The rows of [`QUIET`].
fn quiet_rows() -> Vec<PointRow> {
    let lines: Vec<_> = QUIET.lines().filter_map(|line| line.split_once('\t')).collect();
    let names: Vec<&str> = lines.iter().map(|(point, _)| *point).collect();
    let options = options(false);
    let command = command(&options, "quiet", &of_points("cpu.loop", &names)).unwrap();
    let points = command.study.points(&command.infos).unwrap();
    let rows = points.into_iter().zip(&lines).map(|((point, _), (_, median))| {
        let metric = probe::find(TABLE, &point.probe).unwrap().info.primary();
        let estimate = testing::estimate(metric.name.clone(), median.parse().unwrap());
        PointRow {
            primary: metric.name.clone(),
            metrics: vec![Estimate { unit: metric.unit, better: metric.better, ..estimate }],
            ..PointRow { point, ..testing::row("cpu.loop", Axes::default(), 1.0) }
        }
    });
    rows.collect()
}

/// The primary metric of a point there, or as predicted from there.
fn on_a_quiet_machine(rows: &[PointRow], point: &Point) -> Option<(f64, f64)> {
    if let Some(row) = rows.iter().find(|row| row.point == *point) {
        let median = row.primary()?.median;
        return Some((median, median));
    }
    let probe = probe::find(TABLE, &point.probe)?;
    let measured = MeasuredRows::new(rows);
    let range = (probe.predict)(point, &large_machine(), &measured)?;
    (range.metric == probe.info.primary().name).then_some((range.low, range.high))
}

#[test]
fn what_the_studies_measure_is_drawn_with_a_change_to_try() {
    for (name, text) in EMBEDDED {
        let study = Study::read(name, name, text).unwrap();
        let words = study.selections.iter().flat_map(|selection| selection.words(false));
        for probe in words.filter_map(|word| probe::find(TABLE, word)) {
            let id = &probe.info.id;
            let mechanism =
                Mechanism::of(id).unwrap_or_else(|| panic!("{name}: {id} has no drawing"));
            // Nothing can be tried with a file of another machine that only its user can name.
            let is_remote = id.starts_with("file.remote");
            assert!(is_remote || !mechanism.tries.is_empty(), "{name}: {id} has nothing to try");
        }
    }
}

#[test]
fn what_to_try_measures_both_of_its_points_and_happens_on_a_quiet_machine() {
    let rows = quiet_rows();
    let mut wrong = Vec::new();
    let tries = Mechanism::all().flat_map(|(id, of)| of.tries.iter().map(move |own| (id, own)));
    for (id, tried) in tries {
        let sides = [&tried.from, &tried.to].map(|side| match side.split(' ').next() {
            Some(first) if probe::find(TABLE, first).is_some() => side.clone(),
            _ => format!("{id} {side}"),
        });
        let options = options(false);
        let text = of_points(&tried.run, &[&sides[0], &sides[1]]);
        let command = command(&options, id, &text).unwrap();
        let plan = plan_of(&command);
        let points = command.study.points(&command.infos).unwrap();
        let ends = points.iter().filter_map(|(point, _)| {
            assert!(plan.points().any(|own| own == point), "`{}` lacks {point}", tried.run);
            on_a_quiet_machine(&rows, point)
        });
        let [from, to] = ends.collect::<Vec<_>>()[..] else {
            wrong.push(format!("{sides:?}: nobody knows"));
            continue;
        };
        // Of two predicted ranges, the ratio of their middles.
        let middle = |(low, high): (f64, f64)| (low * high).sqrt();
        let (ratio, (least, most)) = (middle(to) / middle(from), tried.times);
        if !(least..=most).contains(&ratio) {
            wrong.push(format!("{sides:?}: {ratio} times, not {least} to {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
