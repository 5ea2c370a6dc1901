//! From the command line to a plan: blocks of points, in levels.

use crate::cli::RunOptions;
use crate::error::{Error, wrong};
use costof_lab::link;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Precision};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::noise::Placement;
use costof_model::plan::{self, Settings};
use costof_model::point::{Headline, Planned, Point};
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::{Block, Hosts, Plan};
use costof_model::unit::{Unit, display_bytes};
use costof_model::{Text, nearest};
use costof_report::names::points_counted;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is asked of a run, checked against the table before anything starts.
pub(crate) struct Asked<'a> {
    infos: Vec<&'a ProbeInfo>,
    pub(crate) headlines_only: bool,
    settings: Settings,
    /// The links of what needs one, as they are written down.
    links: Vec<Text>,
    /// Whether these were asked for: a probe's own plan goes over others too where they were not.
    links_asked: bool,
    pub(crate) precision: Precision,
    launches: Option<u32>,
}

/// The probes and settings that the options name.
pub(crate) fn asked<'a>(
    table: &'a [&'static Probe],
    options: &RunOptions,
) -> Result<Asked<'a>, Error> {
    let all: Vec<&ProbeInfo> = table.iter().map(|probe| &*probe.info).collect();
    let infos = select(&all, &options.probes)?;
    let mut settings = Settings::new();
    for (axis, values) in &options.settings {
        settings
            .entry(axis.clone())
            .or_default()
            .extend(values.iter().cloned());
    }
    for axis in settings.keys() {
        if !infos.iter().any(|info| info.axis(axis).is_ok()) {
            return Err(wrong(unknown_axis(axis, &infos)));
        }
    }
    // Without a probe, the axes that are set say which ones are meant.
    let named = !options.probes.is_empty() || settings.is_empty();
    let infos: Vec<&ProbeInfo> = infos
        .into_iter()
        .filter(|info| named || settings.keys().any(|axis| info.axis(axis).is_ok()))
        .collect();
    // A wrong value is an error before anything is measured.
    for info in &infos {
        plan::points(info, &settings_of(info, &settings)).map_err(wrong)?;
    }
    let path = match (&options.links[..], &options.peer) {
        ([], None) => None,
        ([], Some(_)) => Some("--peer"),
        _ => Some("--link"),
    };
    if let Some(option) = path.filter(|_| !infos.iter().any(|info| info.needs_link())) {
        return Err(wrong(format!(
            "{option} is for what has two ends, and none of the chosen probes has (`costof list \
             net` shows those that have)"
        )));
    }
    for link in &options.links {
        link::addresses(link, options.peer_address).map_err(wrong)?;
    }
    let links = match options.links.as_slice() {
        [] => vec![Link::Loopback],
        links => links.to_vec(),
    };
    for (position, link) in links.iter().enumerate() {
        if links[..position].contains(link) {
            return Err(wrong(format!("the link {link} is given twice")));
        }
    }
    Ok(Asked {
        infos,
        links: links.iter().map(|link| link.to_string().into()).collect(),
        links_asked: !options.links.is_empty(),
        headlines_only: options.probes.is_empty() && settings.is_empty() && !options.full,
        settings,
        precision: precision(options),
        launches: options.launches,
    })
}

/// How precisely these options measure.
pub(crate) fn precision(options: &RunOptions) -> Precision {
    match (options.quick, options.full) {
        (true, _) => Precision::Quick,
        (_, true) => Precision::Full,
        _ => Precision::Default,
    }
}

/// The probes that the patterns name, in the order of the table; without a
/// pattern, all.
pub(crate) fn select<'a>(
    all: &[&'a ProbeInfo],
    patterns: &[String],
) -> Result<Vec<&'a ProbeInfo>, Error> {
    if patterns.is_empty() {
        return Ok(all.to_vec());
    }
    let mut named: Vec<&Text> = Vec::new();
    for pattern in patterns {
        let found = plan::select(all, pattern).map_err(wrong)?;
        named.extend(found.iter().map(|info| &info.id));
    }
    Ok(all
        .iter()
        .copied()
        .filter(|info| named.contains(&&info.id))
        .collect())
}

fn unknown_axis(axis: &str, infos: &[&ProbeInfo]) -> String {
    if let [info] = infos {
        return info.axis(axis).err().unwrap_or_default();
    }
    let mut names: Vec<&str> = infos
        .iter()
        .flat_map(|info| info.axes.iter().map(|axis| &*axis.name))
        .collect();
    names.sort_unstable();
    names.dedup();
    format!(
        "none of the chosen probes has an axis `{axis}`{} (axes: {})",
        nearest::hint(axis, names.iter().copied()),
        names.join(", ")
    )
}

/// The settings that concern this probe.
fn settings_of(info: &ProbeInfo, settings: &Settings) -> Settings {
    settings
        .iter()
        .filter(|(axis, _)| info.axis(axis).is_ok())
        .map(|(axis, values)| (axis.clone(), values.clone()))
        .collect()
}

/// The plan for what is asked, on the machine with these facts and on the
/// processors of the run that they name: of several things, all, each point once,
/// but for those that are not to be kept. `to_peer` is the link to the other end,
/// where that has a host of its own.
pub(crate) fn plan(
    table: &[&'static Probe],
    asked: &[Asked<'_>],
    facts: &Facts,
    placement: Placement,
    (to_peer, hosts): (Option<Link>, Hosts),
    keep: &mut dyn FnMut(&Point) -> bool,
) -> Result<Plan, Error> {
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for asked in asked {
        for more in choose(table, asked, facts, to_peer, &hosts)? {
            let same = |chosen: &&mut Chosen<'_>| chosen.probe.info.id == more.probe.info.id;
            match chosen.iter_mut().find(same) {
                Some(chosen) => chosen.add(more),
                None => chosen.push(more),
            }
        }
    }
    let precision = asked
        .first()
        .map_or(Precision::Default, |asked| asked.precision);
    let infos: Vec<&ProbeInfo> = chosen.iter().map(|chosen| &*chosen.probe.info).collect();
    let levels = plan::levels(&infos);
    let mut blocks = Vec::new();
    for chosen in chosen {
        let info = &*chosen.probe.info;
        let level = levels.iter().position(|level| level.contains(&info));
        let points = chosen.points.into_iter().filter(&mut *keep).collect();
        for points in split(chosen.probe, points) {
            blocks.push(Block {
                labels: labels(&points, &chosen.headlines),
                level: level.unwrap_or(0) as u32,
                rounds: rounds(chosen.probe, precision),
                points,
            });
        }
    }
    Ok(Plan {
        precision: precision.name().into(),
        launches: asked.first().and_then(|asked| asked.launches),
        blocks,
        placement,
        hosts,
    })
}

/// What is chosen of a probe.
struct Chosen<'a> {
    probe: &'a Probe,
    headlines: Vec<Headline>,
    points: Vec<Point>,
}

impl Chosen<'_> {
    /// What is chosen of the same probe besides.
    fn add(&mut self, more: Chosen<'_>) {
        for headline in more.headlines {
            if !self.headlines.contains(&headline) {
                self.headlines.push(headline);
            }
        }
        for point in more.points {
            if !self.points.contains(&point) {
                self.points.push(point);
            }
        }
    }
}

/// What is asked, probe by probe.
fn choose<'a>(
    table: &'a [&'static Probe],
    asked: &Asked<'a>,
    facts: &Facts,
    to_peer: Option<Link>,
    hosts: &Hosts,
) -> Result<Vec<Chosen<'a>>, Error> {
    let links = match to_peer {
        Some(link) => vec![link.to_string().into()],
        None => asked.links.clone(),
    };
    // What is about another link than the one to the peer is not asked of it, nor what is
    // about a link whose far end has not the address that was asked for.
    let has_address = |link: &str| {
        let link: Result<Link, String> = link.parse();
        link.is_ok_and(|link| link::addresses(&link, hosts.peer_address).is_ok())
    };
    let may_be_over = |link: &str| match to_peer {
        Some(_) => links[0] == link,
        None => has_address(link),
    };
    let is_planned = |link: &str| match asked.links_asked {
        true => links.iter().any(|asked| asked == link),
        false => may_be_over(link),
    };
    let before = before(table, asked);
    let mut chosen = Vec::new();
    for info in before.iter().chain(&asked.infos) {
        let probe = probe::find(table, &info.id).expect("the table was asked for its own");
        let mut headlines = (probe.headlines)(facts);
        let is_before = before.contains(info);
        // What comes before is needed over the links of the plan, not over others of its own.
        headlines.retain(|headline| {
            headline
                .link
                .is_none_or(|link| !is_before && may_be_over(link))
        });
        let mut more = (probe.more_points)(facts);
        more.retain(|planned| planned.link.is_none_or(is_planned));
        let points = match asked.headlines_only || is_before {
            true => headline_points(info, &headlines, &links),
            false => points(probe, asked, facts, (&headlines, more), &links)?,
        };
        chosen.push(Chosen {
            probe,
            headlines,
            points,
        });
    }
    Ok(chosen)
}

/// What a plan of minutes has beside the chosen probes: those that its predictions build on, each with
/// its headlines alone. A plan that was spelt out, or takes seconds, has what was asked for.
fn before<'a>(table: &'a [&'static Probe], asked: &Asked<'a>) -> Vec<&'a ProbeInfo> {
    let takes_minutes = |info: &&ProbeInfo| {
        let probe = probe::find(table, &info.id);
        probe.is_some_and(|probe| probe.budget.is_some())
    };
    if asked.headlines_only || !asked.settings.is_empty() || !asked.infos.iter().any(takes_minutes)
    {
        return Vec::new();
    }
    let needed = |info: &&ProbeInfo| {
        asked
            .infos
            .iter()
            .any(|asked| asked.after.contains(&info.id))
    };
    table
        .iter()
        .map(|probe| &*probe.info)
        .filter(|info| needed(info) && !asked.infos.contains(info))
        .collect()
}

/// The links over which a probe is measured: none where it has one end.
fn links_of<'a>(info: &ProbeInfo, links: &'a [Text]) -> &'a [Text] {
    const NONE: &[Text] = &[Text::Borrowed("none")];
    match info.needs_link() {
        true => links,
        false => NONE,
    }
}

fn point_at(info: &ProbeInfo, axes: Axes, link: &Text) -> Point {
    Point {
        probe: info.id.clone(),
        axes,
        link: link.clone(),
    }
}

fn headline_points(info: &ProbeInfo, headlines: &[Headline], links: &[Text]) -> Vec<Point> {
    let links = links_of(info, links);
    let mut points: Vec<Point> = Vec::new();
    for headline in headlines {
        let own = headline.link.map(Text::Borrowed);
        let over = own.as_ref().map_or(links, std::slice::from_ref);
        for point in over
            .iter()
            .map(|link| point_at(info, headline.axes.clone(), link))
        {
            // One headline may be about a link that is asked for.
            if !points.contains(&point) {
                points.push(point);
            }
        }
    }
    points
}

fn points(
    probe: &Probe,
    asked: &Asked<'_>,
    facts: &Facts,
    (headlines, more): (&[Headline], Vec<Planned>),
    links: &[Text],
) -> Result<Vec<Point>, Error> {
    let info = &probe.info;
    let links = links_of(info, links);
    let settings = settings_of(info, &asked.settings);
    let mut axes: Vec<Axes> = plan::points(info, &settings).map_err(wrong)?;
    let mut over_their_own = Vec::new();
    if settings.is_empty() {
        // A probe's own plan has its headlines too, and what the machine adds, but
        // nothing on processors that are not the run's.
        let cpus = facts.planned_cpus();
        axes.retain(|axes| named_cpus(info, axes).all(|cpu| cpus.contains(&(cpu as u32))));
        for headline in headlines {
            if !axes.contains(&headline.axes) {
                axes.push(headline.axes.clone());
            }
        }
        for planned in more {
            match planned.link {
                Some(link) => {
                    over_their_own.push(point_at(info, planned.axes, &Text::Borrowed(link)))
                }
                None if axes.contains(&planned.axes) => {}
                None => axes.push(planned.axes),
            }
        }
    }
    let over_all = links
        .iter()
        .flat_map(|link| axes.iter().map(|axes| point_at(info, axes.clone(), link)));
    let mut points: Vec<Point> = over_all.collect();
    for point in over_their_own {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    Ok(points)
}

/// The processors that a point's axes name.
fn named_cpus<'p>(info: &'p ProbeInfo, values: &'p Axes) -> impl Iterator<Item = u64> + 'p {
    let names_one = |axis: &&Axis| {
        matches!(
            axis.domain,
            Domain::Number {
                unit: Unit::Processor,
                ..
            }
        )
    };
    let axes = info.axes.iter().filter(names_one);
    axes.map(|axis| values.number(&axis.name))
}

/// The points in blocks: those that agree in the axes of `blocks_by`, each block where its first point is.
fn split(probe: &Probe, points: Vec<Point>) -> Vec<Vec<Point>> {
    let is_with = |one: &Point, other: &Point| {
        let mut shared = probe.blocks_by.iter();
        one.link == other.link
            && shared.all(|axis| one.axes.0.get(*axis) == other.axes.0.get(*axis))
    };
    let mut blocks: Vec<Vec<Point>> = Vec::new();
    for point in points {
        match blocks.iter_mut().find(|block| is_with(&block[0], &point)) {
            Some(block) => block.push(point),
            None => blocks.push(vec![point]),
        }
    }
    blocks
}

/// Whether a headline is about this link: its own, or the usual one.
fn is_over(headline: &Headline, link: &str) -> bool {
    match headline.link {
        Some(own) => own == link,
        None => link == "none" || link == "loopback",
    }
}

fn labels(points: &[Point], headlines: &[Headline]) -> Vec<(usize, String)> {
    points
        .iter()
        .enumerate()
        .filter_map(|(position, point)| {
            let headline = headlines
                .iter()
                .find(|headline| headline.axes == point.axes && is_over(headline, &point.link))?;
            Some((position, headline.label.clone()))
        })
        .collect()
}

/// What starting a worker for each role, opening a launch and closing it take, beside
/// the measuring: process start, clock check, core clock and gaps.
const LAUNCH_OVERHEAD: Duration = Duration::from_millis(15);
/// Sizing a batch and warming up, as a share of the time that is measured.
const WARM_UP_SHARE: f64 = 0.4;
/// Laying out memory for a point, per byte.
const SET_UP_NS_PER_BYTE: f64 = 2.0;
/// What a point of one launch takes in the run file.
const FILE_BYTES_PER_POINT: u64 = 2500;

/// What a plan takes, roughly, before anything of it has run.
#[derive(Clone, Debug)]
pub(crate) struct Takes {
    pub(crate) points: usize,
    pub(crate) launches: u32,
    pub(crate) time: Duration,
    /// A launch of each block.
    pub(crate) once: Duration,
    pub(crate) budget: Duration,
    /// What is over each link: points, and how long a launch of all of them takes.
    pub(crate) links: BTreeMap<Text, (usize, Duration)>,
    pub(crate) memory_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// In how many rounds points take turns: in one by a quick run, where a probe asks for more time than
/// runs have.
fn rounds(probe: &Probe, precision: Precision) -> u32 {
    match precision {
        Precision::Quick if probe.budget.is_some() => 1,
        _ => probe.rounds,
    }
}

/// How many launches a block of the plan gets, where its time allows.
pub(crate) fn launches(plan: &Plan, precision: Precision) -> u32 {
    plan.launches.unwrap_or(precision.launches())
}

/// How long the plan may take: as long as the precision says, and as much longer as the probes ask for
/// of which it has more than headlines.
pub(crate) fn budget(table: &[&'static Probe], plan: &Plan, precision: Precision) -> Duration {
    let more = |block: &&Block| block.labels.len() < block.points.len();
    let mut asking: Vec<&str> = plan
        .blocks
        .iter()
        .filter(more)
        .filter_map(|block| block.points.first())
        .map(|point| &*point.probe)
        .collect();
    asking.sort_unstable();
    asking.dedup();
    let own = asking
        .into_iter()
        .filter_map(|id| Some((probe::find(table, id)?.budget?)(precision)));
    precision.budget() + own.sum::<Duration>()
}

/// How long one launch of a block takes, roughly.
pub(crate) fn launch_time(
    table: &[&'static Probe],
    block: &Block,
    precision: Precision,
) -> Duration {
    let usual_ns = precision.batch_time_per_point().as_nanos() as f64 * (1.0 + WARM_UP_SHARE);
    let probe = block
        .points
        .first()
        .and_then(|point| probe::find(table, &point.probe));
    let roles = probe.map_or(1, |probe| probe.roles.len() as u32);
    let measured = block.points.iter().map(|point| {
        // What it takes at least is for all rounds that the probe has.
        let least_ns = probe.map_or(0.0, |probe| {
            (probe.least_ns)(point) * f64::from(block.rounds) / f64::from(probe.rounds)
        });
        usual_ns.max(least_ns)
    });
    // Points of a block that ask for equally much memory share it, as a rule.
    let mut set_up: Vec<u64> = block
        .points
        .iter()
        .map(|point| memory_bytes(table, point))
        .collect();
    set_up.sort_unstable();
    set_up.dedup();
    let set_up_bytes: u64 = set_up.into_iter().sum();
    let ns = measured.sum::<f64>() + set_up_bytes as f64 * SET_UP_NS_PER_BYTE;
    LAUNCH_OVERHEAD * roles + Duration::from_nanos(ns as u64)
}

fn memory_bytes(table: &[&'static Probe], point: &Point) -> u64 {
    probe::find(table, &point.probe).map_or(0, |probe| (probe.memory_bytes)(point))
}

/// What the plan takes.
pub(crate) fn takes(table: &[&'static Probe], plan: &Plan, precision: Precision) -> Takes {
    let points: Vec<&Point> = plan.points().collect();
    let launch = |block| launch_time(table, block, precision);
    let once: Duration = plan.blocks.iter().map(launch).sum();
    let launches = launches(plan, precision);
    let budget = match plan.launches {
        Some(_) => once * launches,
        None => budget(table, plan, precision),
    };
    let mut links: BTreeMap<Text, (usize, Duration)> = BTreeMap::new();
    for block in &plan.blocks {
        if let Some(point) = block.points.first() {
            let (points, time) = links.entry(point.link.clone()).or_default();
            *points += block.points.len();
            *time += launch(block);
        }
    }
    Takes {
        points: points.len(),
        launches,
        time: (once * launches).min(budget.max(once * schedule::LEAST_LAUNCHES)),
        once,
        budget,
        links,
        memory_bytes: points
            .iter()
            .map(|point| memory_bytes(table, point))
            .max()
            .unwrap_or(0),
        file_bytes: points.len() as u64 * u64::from(launches) * FILE_BYTES_PER_POINT,
    }
}

/// Whole MiB, where it is more than one.
fn rounded(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match bytes {
        small if small < MIB => small,
        large => large.next_multiple_of(MIB),
    }
}

impl Takes {
    /// The same where launches take turns with those of another host, as each of both takes it.
    pub(crate) fn in_turns(mut self) -> Takes {
        let paired = schedule::paired(self.launches, self.launches);
        self.time = match self.once * self.launches <= self.budget {
            true => self.once * paired,
            false => self.budget.max(self.once * schedule::LEAST_PAIRED),
        };
        self.launches = paired;
        self
    }

    /// How much, and how long it takes.
    pub(crate) fn announced(&self) -> String {
        let time_s = self.time.as_secs_f64().ceil();
        format!("{}, about {time_s} s", points_counted(self.points))
    }

    /// A line for each link where there are several, and a sentence on the whole.
    pub(crate) fn sentence(&self) -> String {
        let links: String = match self.links.len() {
            0 | 1 => String::new(),
            _ => self
                .links
                .iter()
                .map(|(link, (points, time))| {
                    let over = match &**link {
                        "none" => "over no link".to_owned(),
                        link => format!("over {link}"),
                    };
                    let time_s = time.as_secs_f64().ceil();
                    format!(
                        "{over}: {}, about {time_s} s for a launch of each\n",
                        points_counted(*points)
                    )
                })
                .collect(),
        };
        let all = format!(
            "{}, up to {} launches of each, about {} s (the budget is {} s), up to {} of \
             memory beside the worker's own, about {} of disk",
            points_counted(self.points),
            self.launches,
            self.time.as_secs_f64().ceil(),
            self.budget.as_secs(),
            display_bytes(rounded(self.memory_bytes)),
            display_bytes((self.file_bytes >> 10).max(1) << 10),
        );
        links + &all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::facts::CpuSet;
    use std::collections::BTreeSet;

    /// The processors between which a run on `cpus` of eight sends a line.
    fn pairs(cpus: &[u32], headlines_only: bool) -> Vec<[u64; 2]> {
        let probe = probe::find(costof_probes::TABLE, "sync.core_to_core").unwrap();
        let asked = Asked {
            links: vec![Text::Borrowed("loopback")],
            links_asked: false,
            infos: vec![&probe.info],
            headlines_only,
            settings: Settings::new(),
            precision: Precision::Quick,
            launches: None,
        };
        let mut facts = Facts::default();
        facts.cpu.online = CpuSet::parse("0-7").unwrap();
        facts.run_cpus = cpus.to_vec();
        let table = costof_probes::TABLE;
        let placement = Placement::default();
        let plan = plan(
            table,
            &[asked],
            &facts,
            placement,
            (None, Hosts::default()),
            &mut |_| true,
        )
        .unwrap();
        let points = plan.points();
        points
            .map(|point| ["from", "to"].map(|axis| point.axes.number(axis)))
            .collect()
    }

    /// What is planned of `copy.send` without settings: over these links where they are asked for, or
    /// to a peer.
    fn sends(links_asked: &[&'static str], to_peer: Option<Link>, headlines_only: bool) -> Plan {
        let probe = probe::find(costof_probes::TABLE, "copy.send").unwrap();
        let links = match links_asked {
            [] => &["loopback"],
            asked => asked,
        };
        let asked = Asked {
            links: links.iter().copied().map(Text::Borrowed).collect(),
            links_asked: !links_asked.is_empty(),
            infos: vec![&probe.info],
            headlines_only,
            settings: Settings::new(),
            precision: Precision::Quick,
            launches: None,
        };
        let (facts, table) = (Facts::default(), costof_probes::TABLE);
        let placement = Placement::default();
        plan(
            table,
            &[asked],
            &facts,
            placement,
            (to_peer, Hosts::default()),
            &mut |_| true,
        )
        .unwrap()
    }

    /// The links of a plan, each with how many ways of sending it compares at 1 MiB.
    fn compared(plan: &Plan) -> Vec<(&str, usize)> {
        let mut links: BTreeMap<&str, usize> = BTreeMap::new();
        let points = plan.points();
        for point in points.filter(|point| point.probe == "copy.send") {
            let is_large = point.axes.number("size") == 1 << 20;
            *links.entry(&point.link).or_default() += usize::from(is_large);
        }
        links.into_iter().collect()
    }

    #[test]
    fn a_probes_own_plan_goes_over_the_links_that_it_names() {
        assert_eq!(
            compared(&sends(&[], None, false)),
            [("loopback", 3), ("sink", 12), ("veth", 3)]
        );
        // And one axis at a time, over each that is asked for.
        assert_eq!(compared(&sends(&["veth"], None, false)), [("veth", 3)]);
        assert_eq!(compared(&sends(&["sink"], None, false)), [("sink", 13)]);
        assert_eq!(compared(&sends(&["wan"], None, false)), [("wan", 1)]);
        let far = sends(&[], Some(Link::Remote), false);
        assert_eq!(compared(&far), [("remote", 3)]);
        assert_eq!(compared(&sends(&[], None, true)), [("loopback", 0)]);
    }

    #[test]
    fn a_plan_of_minutes_has_what_its_predictions_build_on() {
        let table = costof_probes::TABLE;
        let probes = |plan: &Plan| {
            let points = plan.points();
            points
                .map(|point| point.probe.clone())
                .collect::<BTreeSet<_>>()
        };
        let plan = sends(&[], None, false);
        let info = &probe::find(table, "copy.send").unwrap().info;
        for before in info.after.iter() {
            assert!(probes(&plan).contains(before), "{before}");
        }
        let level = |id: &str| {
            let mut blocks = plan.blocks.iter();
            blocks
                .find(|block| block.points[0].probe == id)
                .map(|block| block.level)
        };
        assert!(level("os.syscall") < level("copy.send"));
        assert_eq!(probes(&sends(&[], None, true)).len(), 1);
    }

    #[test]
    fn only_what_is_more_than_headlines_takes_longer_than_usual() {
        let table = costof_probes::TABLE;
        let of = |headlines_only| {
            let plan = sends(&[], None, headlines_only);
            budget(table, &plan, Precision::Quick)
        };
        assert_eq!(of(true), Precision::Quick.budget());
        assert!(of(false) > Precision::Quick.budget());
        let takes = takes(table, &sends(&[], None, false), Precision::Quick);
        let planned: usize = takes.links.values().map(|(points, _)| points).sum();
        assert_eq!(planned, takes.points);
        // A line for each of three links, for none, and the whole.
        assert_eq!(takes.sentence().lines().count(), 5);
    }

    #[test]
    fn what_takes_turns_takes_as_long_as_its_pairs() {
        let in_turns = |budget_s| {
            let table = costof_probes::TABLE;
            let takes = Takes {
                launches: Precision::Default.launches(),
                once: Duration::from_secs(1),
                budget: Duration::from_secs(budget_s),
                ..takes(table, &sends(&[], None, true), Precision::Quick)
            };
            let takes = takes.in_turns();
            (takes.launches, takes.time.as_secs())
        };
        // What is cut fits, but for the least.
        assert_eq!(in_turns(20), (20, 20));
        assert_eq!(in_turns(18), (20, 18));
        assert_eq!(in_turns(2), (20, 4));
    }

    /// What a launch of a probe's defaults takes, as far as measuring goes, in milliseconds.
    fn launch_ms(id: &str, settings: &[(&'static str, u64)], precision: Precision) -> u128 {
        let probe = probe::find(costof_probes::TABLE, id).unwrap();
        let mut axes = probe.info.defaults();
        for (axis, value) in settings {
            axes = axes.with(axis, *value);
        }
        let block = Block {
            points: vec![Point {
                probe: probe.info.id.clone(),
                axes,
                link: Text::Borrowed("none"),
            }],
            labels: Vec::new(),
            level: 0,
            rounds: probe.rounds,
        };
        let time = launch_time(costof_probes::TABLE, &block, precision) - LAUNCH_OVERHEAD;
        time.as_millis()
    }

    #[test]
    fn a_launch_takes_what_its_points_take_at_least() {
        assert_eq!(launch_ms("null", &[], Precision::Quick), 14);
        assert_eq!(launch_ms("cpu.hiccup", &[], Precision::Quick), 333);
        assert_eq!(launch_ms("cpu.hiccup", &[], Precision::Full), 333);
        let sleep = [("sleep", 100_000_000)];
        assert_eq!(launch_ms("os.timer", &sleep, Precision::Default), 1600);
        assert_eq!(launch_ms("os.timer", &[], Precision::Full), 140);
    }

    #[test]
    fn a_plan_names_only_processors_of_its_run() {
        assert_eq!(pairs(&[2, 3], false), [[2, 3]]);
        assert_eq!(pairs(&[5, 3, 2], true), [[3, 5]]);
        assert_eq!(pairs(&[5, 3, 2], false), [[3, 5], [2, 5], [2, 3]]);
        assert_eq!(pairs(&[1, 0], false), [[0, 1]]);
        // A row with the reason, and not two.
        assert_eq!(pairs(&[6], false).len(), 1);
    }
}
