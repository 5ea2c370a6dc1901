//! Present names of what older versions measured. Whatever comes from a file goes through here, so that a point has one
//! identity, whichever version names it. Who types an old name is told the present one.

use crate::id::Parts;
use crate::{Alias, Axes, AxisValue, List, Point, ProbeInfo, Reference, Run, Text};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The names that the probes of a table and their points have, and had.
#[derive(Debug, Default)]
pub struct Names<'p> {
    probes: HashMap<&'p str, (&'p ProbeInfo, Axes)>,
    /// The aliases, by the id of the old probe.
    aliases: HashMap<&'p str, Vec<(&'p Alias, &'p ProbeInfo)>>,
}

/// A point has at most this many old names.
const MAX_RENAMED: usize = 16;
/// Stands for any value in an alias.
const ANY: &str = "*";

impl<'p> Names<'p> {
    /// The names of these probes.
    pub fn new(probes: impl IntoIterator<Item = &'p ProbeInfo>) -> Names<'p> {
        let mut names = Names::default();
        for info in probes {
            names.probes.insert(&info.id, (info, info.defaults()));
            for alias in info.aliases.iter() {
                names.aliases.entry(alias.probe()).or_default().push((alias, info));
            }
        }
        names
    }

    /// The present name of a point that an alias names, and the present number of its method; `None` if none does.
    fn renamed(&self, point: &Point, method: Option<u32>) -> Option<(Point, Option<u32>)> {
        let (mut point, mut method, mut is_renamed) = (point.clone(), method, false);
        for _ in 0..MAX_RENAMED {
            let aliases = self.aliases.get(&*point.probe).into_iter().flatten();
            let mut applied = aliases.filter_map(|(alias, info)| {
                let (then, now) = alias.method.unzip();
                // A killed run may not describe its probes.
                let is_of_method = then.is_none() || method.is_none() || method == then;
                let axes = is_of_method.then(|| applied(alias, info, &point.axes)).flatten()?;
                Some((Point { probe: info.id.clone(), axes, link: point.link.clone() }, now))
            });
            match applied.next() {
                Some((now, _)) if now == point => break,
                Some((now, of_method)) => {
                    (point, method, is_renamed) = (now, of_method.or(method), true);
                }
                None => break,
            }
        }
        is_renamed.then_some((point, method))
    }

    /// Gives each axis that a point of a known probe lacks its default.
    fn complete(&self, point: &mut Point) {
        if let Some((_, defaults)) = self.probes.get(&*point.probe) {
            point.axes.complete(defaults);
        }
    }

    /// Gives the probes and points of a run their present names, and their axes all values. A point that the run has
    /// measured under another name of it too keeps its own, since these are two measurements.
    pub fn apply(&self, run: &mut Run) {
        let own: HashMap<Text, (u32, Axes)> = run
            .probes
            .iter()
            .map(|info| (info.id.clone(), (info.method, info.defaults())))
            .collect();
        // By what name the run has each point whose present name it may have twice.
        let mut claimed: HashMap<Point, Point> = HashMap::new();
        if run.run.plan.points().any(|point| self.aliases.contains_key(&*point.probe)) {
            for point in run.run.plan.points() {
                let mut present = point.clone();
                self.complete(&mut present);
                claimed.insert(present, point.clone());
            }
        }
        // A foreign file may have a million other points without axes, and only these need them.
        let results = run.points.iter().chain(run.run.plan.earlier.iter().map(|it| &it.row));
        let results = results.map(|row| &row.point);
        let needed: HashSet<Point> = run.run.plan.points().chain(results).cloned().collect();
        let mut renamed: BTreeSet<(Text, Text, Option<u32>)> = BTreeSet::new();
        let mut rename = |point: &mut Point, method: Option<u32>| -> Option<u32> {
            let of_probe = own.get(&point.probe);
            let method = method.or_else(|| of_probe.map(|(method, _)| *method));
            let now = self.renamed(point, method).map(|(mut now, method)| {
                if needed.contains(point) {
                    self.complete(&mut now);
                }
                (now, method)
            });
            let is_free = |(now, _): &(Point, Option<u32>)| {
                claimed.entry(now.clone()).or_insert_with(|| point.clone()) == point
            };
            if let Some((now, method)) = now.filter(is_free) {
                renamed.insert((point.probe.clone(), now.probe.clone(), method));
                *point = now;
                return method;
            }
            let known = self.probes.get(&*point.probe).map(|(_, defaults)| defaults);
            match (known, of_probe) {
                (Some(defaults), _) if needed.contains(point) => point.axes.complete(defaults),
                // A file may come from anybody, and describe a probe with a million axes.
                (Some(defaults), _) | (None, Some((_, defaults))) => {
                    point.axes.know_defaults(defaults);
                }
                (None, None) => {}
            }
            None
        };
        for point in run.run.plan.blocks.iter_mut().flat_map(|block| &mut block.points) {
            rename(point, None);
        }
        let earlier = run.run.plan.earlier.iter_mut().map(|earlier| &mut earlier.row);
        for row in run.points.iter_mut().chain(earlier) {
            row.method = rename(&mut row.point, Some(row.method)).unwrap_or(row.method);
        }
        let launched = run.launches.iter_mut().flat_map(|launch| &mut launch.points);
        let predicted = run.predictions.iter_mut().map(|row| &mut row.point);
        let failed = run.failures.iter_mut().map(|row| &mut row.point);
        let mut present: HashMap<Point, Point> = HashMap::new();
        for point in launched.map(|row| &mut row.point).chain(predicted).chain(failed) {
            if let Some(now) = present.get(point) {
                point.clone_from(now);
                continue;
            }
            let given = needed.contains(point).then(|| point.clone());
            rename(point, None);
            present.extend(given.map(|given| (given, point.clone())));
        }
        run.launches_changed();
        self.describe(run, renamed);
    }

    /// Gives the descriptions of a run's probes their present axes, and those of renamed points their probe.
    fn describe(&self, run: &mut Run, renamed: BTreeSet<(Text, Text, Option<u32>)>) {
        let planned: HashSet<Text> =
            run.run.plan.points().map(|point| point.probe.clone()).collect();
        for (was, is, method) in renamed {
            let old = run.probes.iter().position(|info| info.id == was);
            if let Some(old) = old.filter(|_| run.probe(&is).is_none()) {
                let described = &run.probes[old];
                let method = method.unwrap_or(described.method);
                let now = ProbeInfo { id: is, method, axes: List::default(), ..described.clone() };
                run.probes.insert(old + 1, now);
            }
            if !planned.contains(&was) {
                run.probes.retain(|info| info.id != was);
            }
        }
        for info in &mut run.probes {
            if let Some((known, _)) = self.probes.get(&*info.id) {
                let is_new = |name: &Text| known.present_axis(name).is_none();
                let mut axes = known.axes.to_vec();
                axes.extend(info.axes.iter().filter(|axis| is_new(&axis.name)).cloned());
                info.axes = List::Owned(axes);
            }
        }
    }

    /// Gives the rows of a reference their present names, as [`apply`](Names::apply). A cohort may be told from others
    /// by the name of a row.
    pub fn apply_to_reference(&self, reference: &mut Reference) {
        for cohort in &mut reference.cohorts {
            for row in &mut cohort.rows {
                if let Some((now, method)) = self.renamed(&row.of.point, Some(row.method)) {
                    row.of.point = now;
                    row.method = method.unwrap_or(row.method);
                }
                self.complete(&mut row.of.point);
            }
            for (what, _) in &mut cohort.facts {
                if let Some(id) = self.id(what) {
                    *what = id;
                }
            }
        }
    }

    /// The present id of the point with this id; `None` if no probe is known by that name.
    fn id(&self, id: &str) -> Option<String> {
        let parts = Parts::read(id)?;
        let info = self.probes.get(parts.probe).map(|(info, _)| *info);
        if info.is_none() && !self.aliases.contains_key(parts.probe) {
            return None;
        }
        let value = |axis: &str, text: &str| {
            let known = info.and_then(|info| info.axis(axis).ok()?.parse(text).ok());
            known.unwrap_or_else(|| match text.parse() {
                Ok(number) => AxisValue::Number(number),
                Err(_) => AxisValue::Word(text.to_owned().into()),
            })
        };
        let mut axes = Axes::default();
        for (axis, text) in parts.axes {
            axes.0.insert(axis.to_owned().into(), value(axis, text));
        }
        let link = parts.link.unwrap_or("none").to_owned().into();
        let mut point = Point { probe: parts.probe.to_owned().into(), axes, link };
        if let Some((now, _)) = self.renamed(&point, None) {
            point = now;
        }
        self.complete(&mut point);
        Some(point.id())
    }
}

impl ProbeInfo {
    /// The present name of an axis that the probe has, or had by this name; `None` if it has none.
    pub fn present_axis<'n>(&'n self, name: &'n str) -> Option<&'n str> {
        if self.axis(name).is_ok() {
            return Some(name);
        }
        let own = self.aliases.iter().filter(|alias| alias.probe() == self.id);
        own.map(Alias::axes).find_map(|[was, is]| match (&was[..], &is[..]) {
            ([(old, ANY)], [(now, ANY)]) if *old == name => Some(*now),
            _ => None,
        })
    }

    /// The value that a text names on an axis, by its present word or the one that it had.
    ///
    /// # Errors
    /// There is no such axis, or it has no such value.
    pub fn value(&self, axis: &str, text: &str) -> Result<AxisValue, String> {
        let axis = self.axis(axis)?;
        axis.parse(text).or_else(|error| {
            let was = format!("{}({}={text})", self.id, axis.name);
            let alias = self.aliases.iter().find(|alias| alias.was == was);
            match alias.map(|alias| alias.axes()[1].clone()).as_deref() {
                Some([(name, now)]) if axis.name == *name => axis.parse(now),
                _ => Err(error),
            }
        })
    }
}

/// The axes of a point by its present name; `None` if the alias does not name the point.
fn applied(alias: &Alias, info: &ProbeInfo, axes: &Axes) -> Option<Axes> {
    let [was, is] = alias.axes();
    let mut now = axes.clone();
    let mut any = Vec::new();
    for (axis, value) in was {
        let own = now.0.remove(axis)?;
        match value {
            ANY => any.push(own),
            value if own.to_string() == value => {}
            _ => return None,
        }
    }
    let mut any = any.into_iter();
    for (name, value) in is {
        let value = match value {
            ANY => any.next()?,
            value => info.axis(name).ok()?.parse(value).ok()?,
        };
        now.0.insert(name.to_owned().into(), value);
    }
    Some(now)
}

/// Checks that an alias is one of a point of this probe.
///
/// # Errors
/// What is wrong with it.
pub fn check(alias: &Alias, info: &ProbeInfo) -> Result<(), String> {
    let parts = [&alias.was, &alias.is].map(|id| Parts::read(id).filter(|id| id.link.is_none()));
    let [Some(was), Some(is)] = parts else {
        return Err(format!("{} and {} must be ids without a link", alias.was, alias.is));
    };
    if is.probe != info.id {
        return Err(format!("{} is no point of {}", alias.is, info.id));
    }
    if alias.method.is_some() && was.probe == is.probe {
        return Err(format!(
            "{} and {} are of one probe, which has one method",
            was.probe, is.probe
        ));
    }
    let any = |parts: &Parts<'_>| parts.axes.iter().filter(|(_, value)| *value == ANY).count();
    if any(&was) != any(&is) {
        return Err(format!("{} and {} have different numbers of `{ANY}`", alias.was, alias.is));
    }
    let values = is.axes.into_iter().map(|(axis, value)| {
        let axis = info.axis(axis)?;
        if value == ANY { Ok(()) } else { axis.parse(value).map(|_| ()) }
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Cohort, Row};
    use crate::testing::{RowExt, launch, planned, probe_info, row, words_axis};
    use crate::{Better, MetricOfPoint, PointRow};

    /// It had no axis `wait`, it called an axis otherwise, and another probe has become a part of it.
    fn rtt() -> ProbeInfo {
        ProbeInfo {
            method: 3,
            axes: List::Owned(vec![
                words_axis("over", &["tcp", "udp", "rudp"]),
                words_axis("wait", &["block", "spin"]),
            ]),
            aliases: List::Owned(vec![
                Alias::new("rudp.rtt(stack=udp)", "net.rtt(over=udp)").of_method(1, 3),
                Alias::new("rudp.rtt(stack=rudp)", "net.rtt(over=rudp)").of_method(1, 3),
                Alias::new("net.rtt(by=*)", "net.rtt(over=*)"),
                Alias::new("net.rtt(over=datagrams)", "net.rtt(over=udp)"),
            ]),
            ..probe_info("net.rtt")
        }
    }

    fn point(probe: &'static str, axes: &[(&'static str, &'static str)]) -> Point {
        let set =
            |axes: Axes, (axis, value): &(&'static str, &'static str)| axes.with(axis, *value);
        let axes = axes.iter().fold(Axes::default(), set);
        Point { probe: probe.into(), axes, link: "lan".into() }
    }

    /// A run of these points by a probe with this id and method, read with these names.
    fn read(names: &Names<'_>, id: &'static str, method: u32, points: &[Point]) -> Run {
        let mut run = planned([points.to_vec()]);
        run.probes.push(ProbeInfo { method, ..probe_info(id) });
        for point in points {
            let measured = row(point.probe.clone(), point.axes.clone(), 5.0).over("lan");
            run.points.push(PointRow { method, ..measured });
            let last = run.points[run.points.len() - 1].clone();
            launch(&mut run, &[(&last, &[("cost", 5.0)])]);
        }
        names.apply(&mut run);
        run
    }

    #[test]
    fn a_run_is_read_by_present_names() {
        let info = rtt();
        let names = Names::new([&info]);
        let full = |over| point("net.rtt", &[("over", over), ("wait", "block")]);
        for (was, over, id) in [
            (point("net.rtt", &[("over", "tcp")]), "tcp", "net.rtt(over lan)"),
            (point("net.rtt", &[]), "tcp", "net.rtt(over lan)"),
            (point("net.rtt", &[("by", "rudp")]), "rudp", "net.rtt(over=rudp, over lan)"),
            (point("net.rtt", &[("over", "datagrams")]), "udp", "net.rtt(over=udp, over lan)"),
            (point("net.rtt", &[("by", "datagrams")]), "udp", "net.rtt(over=udp, over lan)"),
            (point("rudp.rtt", &[("stack", "udp")]), "udp", "net.rtt(over=udp, over lan)"),
        ] {
            let is_other = was.probe == "rudp.rtt";
            let (probe, method) = if is_other { ("rudp.rtt", 1) } else { ("net.rtt", 3) };
            let run = read(&names, probe, method, std::slice::from_ref(&was));
            let now = &run.run.plan.blocks[0].points[0];
            assert_eq!((now, now.id()), (&full(over), id.to_owned()), "{was}");
            assert_eq!((&run.points[0].point, run.points[0].method), (now, 3), "{was}");
            assert_eq!(run.launches_of(now).count(), 1, "{was}");
            let described = run.probe("net.rtt").unwrap();
            assert_eq!((described.method, described.axes.len()), (3, 2), "{was}");
            assert_eq!(run.probes.len(), 1);
        }
    }

    #[test]
    fn what_is_another_measurement_keeps_its_name() {
        let info = rtt();
        let names = Names::new([&info]);
        let old = point("rudp.rtt", &[("stack", "udp")]);
        // By a method whose numbers are others.
        let run = read(&names, "rudp.rtt", 2, std::slice::from_ref(&old));
        assert_eq!((&run.points[0].point, run.points[0].method), (&old, 2));
        assert!(run.probe("rudp.rtt").is_some() && run.probe("net.rtt").is_none());
        // In a run that measured the same under both names.
        let new = point("net.rtt", &[("over", "udp")]);
        let run = read(&names, "rudp.rtt", 1, &[old.clone(), new]);
        assert_eq!(run.points[0].point, old);
        assert_eq!(run.points[1].point.id(), "net.rtt(over=udp, over lan)");
        // Or under two old names.
        let older = point("net.rtt", &[("over", "datagrams")]);
        let run = read(&names, "rudp.rtt", 1, &[old.clone(), older]);
        assert_eq!(run.points[0].point.id(), "net.rtt(over=udp, over lan)");
        assert_eq!(run.points[1].point.id(), "net.rtt(over=datagrams, over lan)");
        // Of a probe that nobody knows.
        let gone = point("gone.probe", &[("stack", "udp")]);
        assert_eq!(
            read(&names, "gone.probe", 1, std::slice::from_ref(&gone)).points[0].point,
            gone
        );
    }

    #[test]
    fn launches_of_points_that_no_plan_has_stay_as_small_as_they_are() {
        let info = rtt();
        let mut run = planned([Vec::new()]);
        let other = row("net.rtt", Axes::default(), 5.0);
        launch(&mut run, &[(&other, &[("cost", 5.0)])]);
        Names::new([&info]).apply(&mut run);
        let point = &run.launches[0].points[0].point;
        assert_eq!((point.axes.0.len(), point.id()), (0, "net.rtt".to_owned()));
    }

    #[test]
    fn launches_of_a_planned_point_share_its_axes() {
        let info = rtt();
        let planned_point = point("net.rtt", &[]);
        let mut run = planned([vec![planned_point.clone()]]);
        let row = PointRow { point: planned_point, ..row("p", Axes::default(), 5.0) };
        (0..2).for_each(|_| launch(&mut run, &[(&row, &[("cost", 5.0)])]));
        Names::new([&info]).apply(&mut run);
        let [one, other] = [0, 1].map(|at| &*run.launches[at].points[0].point.axes.0);
        assert_eq!(one.len(), 2);
        assert!(std::ptr::eq(one, other));
    }

    #[test]
    fn a_reference_is_read_by_present_names() {
        let info = rtt();
        let of = |point: Point| {
            let row = PointRow { point, ..row("p", Axes::default(), 5.0) };
            MetricOfPoint::new(&row, &row.metrics[0])
        };
        let row = |method, point| Row {
            of: of(point),
            method,
            better: Better::Lower,
            usual: 5.0,
            spread: 0.1,
            degrees: 9.0,
            error: 0.1,
            launch: 0.1,
            hosts: 10,
            runs: 10,
        };
        let rows = vec![
            row(1, point("rudp.rtt", &[("stack", "udp")])),
            row(3, point("net.rtt", &[("over", "tcp")])),
        ];
        let facts = vec![
            ("CPU model".to_owned(), "some".to_owned()),
            ("rudp.rtt(stack=udp, over lan)".to_owned(), "5 ns".to_owned()),
        ];
        let mut reference = Reference {
            reference_schema: 1,
            costof: String::new(),
            precision: "quick".to_owned(),
            by: Vec::new(),
            cohorts: vec![Cohort { facts, hosts: 10, runs: 10, rows }],
        };
        Names::new([&info]).apply_to_reference(&mut reference);
        let Cohort { rows, facts, .. } = &reference.cohorts[0];
        let ids: Vec<String> = rows.iter().map(|row| row.of.name()).collect();
        assert_eq!(ids, ["net.rtt(over=udp, over lan)", "net.rtt(over lan)"]);
        assert_eq!(rows[0].method, 3);
        assert_eq!(rows[1].of.point, point("net.rtt", &[("over", "tcp"), ("wait", "block")]));
        assert_eq!((&*facts[0].0, &facts[1].0), ("CPU model", &ids[0]));
    }

    #[test]
    fn a_value_has_the_word_that_it_had() {
        let info = rtt();
        for (axis, text, value) in [
            ("over", "udp", Some("udp")),
            ("over", "datagrams", Some("udp")),
            ("over", "other", None),
            ("wait", "datagrams", None),
            ("by", "udp", None),
        ] {
            let found = info.value(axis, text).ok().map(|value| value.to_string());
            assert_eq!(found.as_deref(), value, "{axis}={text}");
        }
    }

    #[test]
    fn an_axis_has_its_present_name() {
        let info = rtt();
        for (name, now) in
            [("by", Some("over")), ("over", Some("over")), ("stack", None), ("other", None)]
        {
            assert_eq!(info.present_axis(name), now, "{name}");
        }
    }

    #[test]
    fn an_alias_names_points_of_its_own_probe() {
        let info = rtt();
        for alias in info.aliases.iter() {
            assert_eq!(check(alias, &info), Ok(()));
        }
        for (was, is) in [
            ("a.b", "a.b"),
            ("a.b(", "net.rtt"),
            ("a.b(x=*)", "net.rtt"),
            ("a.b", "net.rtt(over=smoke)"),
            ("a.b", "net.rtt(size=3)"),
        ] {
            assert!(check(&Alias::new(was, is), &info).is_err(), "{was} {is}");
        }
        // A run describes a probe by one method, and not all of its points may be renamed.
        let within = Alias::new("net.rtt(by=*)", "net.rtt(over=*)");
        assert!(check(&within.of_method(1, 3), &info).is_err());
    }
}
