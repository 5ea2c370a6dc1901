//! Turns requests into a plan: blocks of points, in levels.
//!
//! The options of a command become a `Request` for each question: which probes, and what of them. A request becomes a
//! `ProbePlan` for each probe: its points on the `Target`, over the links of `Paths`. The `Plan` of the run file
//! has these points in blocks, and what the options say about launches and time.

pub(crate) mod cost;
pub(crate) mod keywords;
mod needed;
pub(crate) mod request;
#[cfg(test)]
mod tests;

use crate::cli::RunOptions;
use crate::error::{Result, wrong};
use crate::record::Table;
use costof_lab::link;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::Precision;
use costof_model::plan::{self, add_new};
use costof_model::{
    Axes, Block, Domain, Earlier, Facts, Headline, Hosts, Link, Placement, Plan, Point, ProbeInfo,
    Settings, Text, Unit,
};
use costof_report::known;
use request::Request;
use std::collections::{HashMap, HashSet};

/// The machine that a plan is for.
pub(crate) struct Target<'a> {
    /// The facts of the measured machine, with the CPUs of the run.
    pub(crate) facts: &'a Facts,
    pub(crate) placement: Placement,
    pub(crate) hosts: Hosts,
    /// The link to the peer, if the peer has a host of its own.
    pub(crate) peer_link: Option<Link>,
    /// Returns the results of earlier runs for these points.
    pub(crate) earlier: &'a dyn Fn(&[Point]) -> Vec<Earlier>,
}

/// The plan for these requests of a command with these options. A point of several requests is there once, and points
/// that `keep` rejects are left out.
pub(crate) fn plan(
    table: Table,
    options: &RunOptions,
    requests: &[Request],
    target: Target<'_>,
    keep: &mut dyn FnMut(&Point) -> bool,
) -> Result<Plan> {
    let precision = options.measuring.precision();
    let mut all: Vec<ProbePlan> = Vec::new();
    let mut earlier = Vec::new();
    for request in requests {
        let (plans, known) = probe_plans(table, request, precision, &target)?;
        for known in known {
            if !earlier.contains(&known) {
                earlier.push(known);
            }
        }
        for more in plans {
            let same = |plan: &&mut ProbePlan| plan.probe.info.id == more.probe.info.id;
            match all.iter_mut().find(same) {
                Some(plan) => plan.add(more),
                None => all.push(more),
            }
        }
    }
    let infos: Vec<&ProbeInfo> = all.iter().map(|plan| &*plan.probe.info).collect();
    let levels = plan::levels(&infos);
    let mut blocks = Vec::new();
    for ProbePlan { probe, headlines, asked, mut points } in all {
        let info = &*probe.info;
        let level = levels.iter().position(|level| level.contains(&info));
        points.retain(&mut *keep);
        blocks.extend(split(probe, points).into_iter().map(|points| Block {
            labels: labels(&points, &headlines),
            level: level.unwrap_or(0) as u32,
            rounds: rounds(probe, precision),
            needed: (0..points.len()).filter(|at| !asked.contains(&points[*at])).collect(),
            points,
        }));
    }
    Ok(Plan {
        precision: precision.name().into(),
        launches: options.chosen.launches,
        budget_ns: options.chosen.budget.map(|budget| budget.as_nanos() as u64),
        until_alone_ns: options.measuring.until_alone.map(|time| time.as_nanos() as u64),
        blocks,
        earlier,
        placement: target.placement,
        hosts: target.hosts,
    })
}

/// The points to measure for a probe.
struct ProbePlan {
    probe: &'static Probe,
    headlines: Vec<Headline>,
    /// The requested points. Predictions use the others.
    asked: HashSet<Point>,
    points: Vec<Point>,
}

impl ProbePlan {
    /// Adds the points of another request for the same probe.
    fn add(&mut self, more: ProbePlan) {
        for headline in more.headlines {
            if !self.headlines.contains(&headline) {
                self.headlines.push(headline);
            }
        }
        self.asked.extend(more.asked);
        add_new(&mut self.points, more.points);
    }
}

/// The requested points, probe by probe, and the points that their predictions need and that are not known
/// yet.
fn probe_plans(
    table: Table,
    request: &Request,
    precision: Precision,
    target: &Target<'_>,
) -> Result<(Vec<ProbePlan>, Vec<Earlier>)> {
    let paths = Paths::new(request, target);
    let plan = |info: &&ProbeInfo| {
        let probe = probe::find(table, &info.id).expect("the table was asked for its own");
        probe_plan(probe, request, &paths)
    };
    let mut plans = request.infos.iter().map(plan).collect::<Result<_, _>>()?;
    if !request.with_needed || request.headlines_only {
        return Ok((plans, Vec::new()));
    }
    let mut needed = needed::points(&plans, table, &paths)?;
    let earlier = needed::take_known(&mut needed, table, precision, target);
    needed::add(&mut plans, needed, table, target.facts);
    Ok((plans, earlier))
}

/// The links of a request.
struct Paths<'a> {
    links: Vec<Text>,
    /// Whether the user asked for these links.
    asked: bool,
    target: &'a Target<'a>,
}

impl<'a> Paths<'a> {
    fn new(request: &Request, target: &'a Target<'a>) -> Paths<'a> {
        Paths {
            links: match target.peer_link {
                Some(link) => vec![link.to_string().into()],
                None => request.links.clone(),
            },
            asked: request.links_asked,
            target,
        }
    }

    /// The links for a probe.
    fn links_of(&self, info: &ProbeInfo) -> &[Text] {
        if info.needs_link() { &self.links } else { &[Text::Borrowed("none")] }
    }

    /// Whether a point about this link can use the requested links. A point about another link than that to
    /// the peer cannot, nor can one about a link whose remote end lacks the requested address.
    fn may_be_over(&self, link: &str) -> bool {
        match self.target.peer_link {
            Some(_) => self.links[0] == link,
            None => link
                .parse()
                .is_ok_and(|link| link::addresses(&link, self.target.hosts.peer_address).is_ok()),
        }
    }

    /// Whether a probe's own plan uses this link, which is one of its own.
    fn has_planned(&self, link: &str) -> bool {
        if self.asked {
            return self.links.iter().any(|asked| asked == link);
        }
        self.may_be_over(link)
    }
}

fn probe_plan(probe: &'static Probe, request: &Request, paths: &Paths<'_>) -> Result<ProbePlan> {
    let info = &*probe.info;
    let links = paths.links_of(info);
    let mut headlines = (probe.headlines)(paths.target.facts);
    headlines.retain(|headline| headline.link.is_none_or(|link| paths.may_be_over(link)));
    if request.known_only {
        headlines.retain(|headline| known::has(&info.id, &headline.label));
    }
    if request.headlines_only {
        headlines.retain(|headline| known::is_of_machine(&info.id, &headline.label));
    }
    let settings = request.settings_of(info);
    let mut points = Vec::new();
    if request.headlines_only {
        points = headline_points(info, &headlines, links);
    } else if settings.is_empty() {
        points = own_points(probe, &headlines, paths)?;
        points = at(&request.places, info, points).map_err(wrong)?;
    } else {
        let crossed = plan::points(info, &settings).map_err(wrong)?;
        points.extend(over(info, &crossed, links));
    }
    Ok(ProbePlan { probe, headlines, asked: points.iter().cloned().collect(), points })
}

/// The same points at these places, as far as the probe has such axes.
fn at(places: &Settings, info: &ProbeInfo, mut points: Vec<Point>) -> Result<Vec<Point>, String> {
    let own = places.iter().filter(|(axis, _)| info.axis(axis).is_ok());
    let own = own.map(|(axis, values)| (axis.clone(), values.clone())).collect();
    for (axis, values) in plan::read(info, &own)? {
        for point in &mut points {
            point.axes.0.insert(axis.clone(), values[0].clone());
        }
    }
    let mut distinct = Vec::new();
    add_new(&mut distinct, points);
    Ok(distinct)
}

fn point_at(info: &ProbeInfo, axes: Axes, link: &Text) -> Point {
    Point { probe: info.id.clone(), axes, link: link.clone() }
}

/// These axes over each of the links.
fn over(info: &ProbeInfo, axes: &[Axes], links: &[Text]) -> Vec<Point> {
    let over = |link| axes.iter().map(move |axes| point_at(info, axes.clone(), link));
    links.iter().flat_map(over).collect()
}

fn headline_points(info: &ProbeInfo, headlines: &[Headline], links: &[Text]) -> Vec<Point> {
    let mut points = Vec::new();
    for headline in headlines {
        let own = headline.link.map(Text::Borrowed);
        let over = own.as_ref().map_or(links, std::slice::from_ref);
        let at = |link| point_at(info, headline.axes.clone(), link);
        // A headline may be about one of the requested links.
        add_new(&mut points, over.iter().map(at));
    }
    points
}

/// A probe's own plan, with its headlines and the points that the machine adds, but without points on CPUs
/// that are not the run's, and without points that this kind of machine cannot have.
// METHOD 7
fn own_points(probe: &Probe, headlines: &[Headline], paths: &Paths<'_>) -> Result<Vec<Point>> {
    let (info, facts) = (&*probe.info, paths.target.facts);
    let mut axes = plan::points(info, &Settings::new()).map_err(wrong)?;
    let cpus = facts.planned_cpus();
    axes.retain(|axes| named_cpus(info, axes).all(|cpu| cpus.contains(&(cpu as u32))));
    let (mut more, mut over_their_own) = (Vec::new(), Vec::new());
    more.extend(headlines.iter().map(|headline| headline.axes.clone()));
    for planned in (probe.more_points)(facts) {
        match planned.link {
            None => more.push(planned.axes),
            Some(link) if paths.has_planned(link) => {
                over_their_own.push(point_at(info, planned.axes, &link.into()));
            }
            Some(_) => {}
        }
    }
    add_new(&mut axes, more);
    let mut points = over(info, &axes, paths.links_of(info));
    add_new(&mut points, over_their_own);
    points.retain(|point| (probe.can_exist)(point, facts));
    Ok(points)
}

/// The CPUs that a point's axes name.
fn named_cpus<'p>(info: &'p ProbeInfo, values: &'p Axes) -> impl Iterator<Item = u64> + 'p {
    const CPU: Unit = Unit::Processor;
    let axes = info.axes.iter();
    axes.filter(|axis| matches!(axis.domain, Domain::Number { unit: CPU, .. }))
        .map(|axis| values.number(&axis.name))
}

/// Splits the points into blocks: points that agree in the axes of `blocks_by` share a block, at the place of
/// its first point.
fn split(probe: &Probe, points: Vec<Point>) -> Vec<Vec<Point>> {
    let shared = |point: &Point| {
        let axes = probe.blocks_by.iter();
        let values: Vec<_> = axes.map(|axis| point.axes.0.get(*axis).cloned()).collect();
        (point.link.clone(), values)
    };
    let mut position = HashMap::new();
    let mut blocks: Vec<Vec<Point>> = Vec::new();
    for point in points {
        let at = *position.entry(shared(&point)).or_insert(blocks.len());
        if at == blocks.len() {
            blocks.push(Vec::new());
        }
        blocks[at].push(point);
    }
    blocks
}

/// Whether a headline is about this link: its own link, or the default one.
fn is_over(headline: &Headline, link: &str) -> bool {
    match headline.link {
        Some(own) => own == link,
        None => link == "none" || link == "loopback",
    }
}

fn labels(points: &[Point], headlines: &[Headline]) -> Vec<(usize, String)> {
    let label = |point: &Point| {
        let mut headlines = headlines.iter();
        headlines.find(|headline| headline.axes == point.axes && is_over(headline, &point.link))
    };
    let labels = points.iter().enumerate();
    labels.filter_map(|(position, point)| Some((position, label(point)?.label.clone()))).collect()
}

/// The number of rounds in which points take turns. A quick run makes one if the probe asks for more time
/// than default runs have.
fn rounds(probe: &Probe, precision: Precision) -> u32 {
    match precision {
        Precision::Quick if probe.budget.is_some() => 1,
        _ => probe.rounds,
    }
}
