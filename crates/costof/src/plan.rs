//! From a request to a plan: blocks of points, in levels.

pub(crate) mod cost;
pub(crate) mod keywords;
pub(crate) mod request;
#[cfg(test)]
mod tests;

use crate::error::{Error, wrong};
use costof_lab::link;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::Precision;
use costof_model::Text;
use costof_model::axis::{Axes, Domain};
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::noise::Placement;
use costof_model::plan::{self, Settings};
use costof_model::point::{Headline, Planned, Point};
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::{Block, Hosts, Plan};
use costof_model::unit::Unit;
use costof_report::known;
use request::Request;

/// Where a plan is measured.
pub(crate) struct Target<'a> {
    /// Of the measured machine, with the CPUs of the run.
    pub(crate) facts: &'a Facts,
    pub(crate) placement: Placement,
    pub(crate) hosts: Hosts,
    /// The link to the peer, where that has a host of its own.
    pub(crate) peer_link: Option<Link>,
}

/// The plan for these requests: of several, each point once, but for those that are not to be kept.
pub(crate) fn plan(
    table: &[&'static Probe],
    requests: &[Request<'_>],
    target: Target<'_>,
    keep: &mut dyn FnMut(&Point) -> bool,
) -> Result<Plan, Error> {
    let mut all: Vec<ProbePlan> = Vec::new();
    for request in requests {
        for more in probe_plans(table, request, &target)? {
            let same = |plan: &&mut ProbePlan| plan.probe.info.id == more.probe.info.id;
            match all.iter_mut().find(same) {
                Some(plan) => plan.add(more),
                None => all.push(more),
            }
        }
    }
    let first = requests.first();
    let precision = first.map_or(Precision::Default, |request| request.precision);
    let infos: Vec<&ProbeInfo> = all.iter().map(|plan| &*plan.probe.info).collect();
    let levels = plan::levels(&infos);
    let mut blocks = Vec::new();
    for ProbePlan {
        probe,
        headlines,
        mut points,
    } in all
    {
        let info = &*probe.info;
        let level = levels.iter().position(|level| level.contains(&info));
        points.retain(&mut *keep);
        blocks.extend(split(probe, points).into_iter().map(|points| Block {
            labels: labels(&points, &headlines),
            level: level.unwrap_or(0) as u32,
            rounds: rounds(probe, precision),
            points,
        }));
    }
    Ok(Plan {
        precision: precision.name().into(),
        launches: first.and_then(|request| request.launches),
        blocks,
        placement: target.placement,
        hosts: target.hosts,
    })
}

/// What is measured of a probe.
struct ProbePlan {
    probe: &'static Probe,
    headlines: Vec<Headline>,
    points: Vec<Point>,
}

impl ProbePlan {
    /// What another request measures of the same probe besides.
    fn add(&mut self, more: ProbePlan) {
        extend_new(&mut self.headlines, more.headlines);
        extend_new(&mut self.points, more.points);
    }
}

/// Adds what is not there yet.
fn extend_new<T: PartialEq>(all: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

/// What is asked, probe by probe.
fn probe_plans(
    table: &[&'static Probe],
    request: &Request<'_>,
    target: &Target<'_>,
) -> Result<Vec<ProbePlan>, Error> {
    let links = match target.peer_link {
        Some(link) => vec![link.to_string().into()],
        None => request.links.clone(),
    };
    // What is about another link than the one to the peer is not asked of it, nor what is
    // about a link whose far end has not the address that was asked for.
    let may_be_over = |link: &str| match target.peer_link {
        Some(_) => links[0] == link,
        None => link
            .parse()
            .is_ok_and(|link| link::addresses(&link, target.hosts.peer_address).is_ok()),
    };
    let is_planned = |link: &str| {
        if request.links_asked {
            return links.iter().any(|asked| asked == link);
        }
        may_be_over(link)
    };
    let before = before(table, request);
    let mut plans = Vec::new();
    for info in before.iter().chain(&request.infos) {
        let is_before = before.contains(info);
        let probe = probe::find(table, &info.id).expect("the table was asked for its own");
        let mut headlines = (probe.headlines)(target.facts);
        // What comes before is needed over the links of the plan, not over others of its own.
        let keeps = |link| !is_before && may_be_over(link);
        headlines.retain(|headline| headline.link.is_none_or(keeps));
        if request.first_look {
            headlines.retain(|headline| known::has(&info.id, &headline.label));
        }
        let links = if info.needs_link() {
            &links[..]
        } else {
            &[Text::Borrowed("none")]
        };
        let points = if request.headlines_only || is_before {
            headline_points(info, &headlines, links)
        } else {
            let mut more = (probe.more_points)(target.facts);
            more.retain(|planned| planned.link.is_none_or(is_planned));
            points(probe, request, target.facts, (&headlines, more), links)?
        };
        plans.push(ProbePlan {
            probe,
            headlines,
            points,
        });
    }
    Ok(plans)
}

/// What a plan of minutes has beside the chosen probes: those that its predictions build on, each with
/// its headlines alone. A plan that was spelt out, or takes seconds, has what was asked for.
fn before(table: &[&'static Probe], request: &Request<'_>) -> Vec<&'static ProbeInfo> {
    let asked = &request.infos;
    let takes_minutes = |info: &&ProbeInfo| {
        let probe = probe::find(table, &info.id);
        probe.is_some_and(|probe| probe.budget.is_some())
    };
    if request.headlines_only || !request.settings.is_empty() || !asked.iter().any(takes_minutes) {
        return Vec::new();
    }
    let mut infos = request::infos(table);
    infos.retain(|info| {
        asked.iter().any(|asked| asked.after.contains(&info.id)) && !asked.contains(info)
    });
    infos
}

fn point_at(info: &ProbeInfo, axes: Axes, link: &Text) -> Point {
    Point {
        probe: info.id.clone(),
        axes,
        link: link.clone(),
    }
}

fn headline_points(info: &ProbeInfo, headlines: &[Headline], links: &[Text]) -> Vec<Point> {
    let mut points = Vec::new();
    for headline in headlines {
        let own = headline.link.map(Text::Borrowed);
        let over = own.as_ref().map_or(links, std::slice::from_ref);
        let at = |link| point_at(info, headline.axes.clone(), link);
        // One headline may be about a link that is asked for.
        extend_new(&mut points, over.iter().map(at));
    }
    points
}

/// What is set of a probe, with all that it compares where that is not set itself: the ways of sending a
/// message are compared at one size as well as at any.
fn settings(probe: &Probe, request: &Request<'_>) -> Settings {
    let mut settings = request.settings_of(&probe.info);
    if settings.is_empty() {
        return settings;
    }
    let axes = probe.info.axes.iter();
    for axis in axes.filter(|axis| probe.compares.contains(&&*axis.name)) {
        let all = || axis.defaults().iter().map(ToString::to_string).collect();
        settings.entry(axis.name.to_string()).or_insert_with(all);
    }
    settings
}

fn points(
    probe: &Probe,
    request: &Request<'_>,
    facts: &Facts,
    (headlines, more): (&[Headline], Vec<Planned>),
    links: &[Text],
) -> Result<Vec<Point>, Error> {
    let info = &*probe.info;
    let settings = settings(probe, request);
    let mut axes: Vec<Axes> = plan::points(info, &settings).map_err(wrong)?;
    let mut over_their_own = Vec::new();
    if settings.is_empty() {
        // A probe's own plan has its headlines too, and what the machine adds, but
        // nothing on CPUs that are not the run's.
        let cpus = facts.planned_cpus();
        axes.retain(|axes| named_cpus(info, axes).all(|cpu| cpus.contains(&(cpu as u32))));
        extend_new(
            &mut axes,
            headlines.iter().map(|headline| headline.axes.clone()),
        );
        for planned in more {
            match planned.link {
                Some(link) => over_their_own.push(point_at(info, planned.axes, &link.into())),
                None => extend_new(&mut axes, [planned.axes]),
            }
        }
    }
    let over = |link| {
        axes.iter()
            .map(move |axes| point_at(info, axes.clone(), link))
    };
    let mut points: Vec<Point> = links.iter().flat_map(over).collect();
    extend_new(&mut points, over_their_own);
    Ok(points)
}

/// The CPUs that a point's axes name.
fn named_cpus<'p>(info: &'p ProbeInfo, values: &'p Axes) -> impl Iterator<Item = u64> + 'p {
    const CPU: Unit = Unit::Processor;
    let axes = info.axes.iter();
    axes.filter(|axis| matches!(axis.domain, Domain::Number { unit: CPU, .. }))
        .map(|axis| values.number(&axis.name))
}

/// The points in blocks: those that agree in the axes of `blocks_by`, each block where its first point is.
fn split(probe: &Probe, points: Vec<Point>) -> Vec<Vec<Point>> {
    let agree = |one: &Point, other: &Point| {
        let mut shared = probe.blocks_by.iter();
        one.link == other.link
            && shared.all(|axis| one.axes.0.get(*axis) == other.axes.0.get(*axis))
    };
    let mut blocks: Vec<Vec<Point>> = Vec::new();
    for point in points {
        match blocks.iter_mut().find(|block| agree(&block[0], &point)) {
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
    let label = |point: &Point| {
        let mut headlines = headlines.iter();
        headlines.find(|headline| headline.axes == point.axes && is_over(headline, &point.link))
    };
    let labels = points.iter().enumerate();
    labels
        .filter_map(|(position, point)| Some((position, label(point)?.label.clone())))
        .collect()
}

/// In how many rounds points take turns: in one by a quick run, where a probe asks for more time than
/// runs have.
fn rounds(probe: &Probe, precision: Precision) -> u32 {
    match precision {
        Precision::Quick if probe.budget.is_some() => 1,
        _ => probe.rounds,
    }
}
