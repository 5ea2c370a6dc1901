//! `copy.send` by hand: its two ends without a controller, for people with two terminals.
//!
//! Who sends says over a conversation of its own what it will send, who receives says where. Then the
//! probe's own roles meet there and measure, so that whatever the probe can send can be sent by hand,
//! and a metric is the same metric. This lies beside the roles since it is nothing but another way to
//! start them: no other crate knows a probe's roles, and the command line never computes a result.
//!
//! Whoever calls says the token first, before a byte of anything else is used. It goes over the wire
//! as it is: it keeps strangers out, and not those who can read the wire.

mod address;
mod channel;
mod receiver;
mod sender;
mod words;

pub use address::Address;
pub use receiver::{Heard, Receiver, Served};
pub use sender::{Asked, Sent, send};

use super::PROBE;
use super::axes::{CopySend, Over};
use costof_measure::probe::Measure;
use costof_measure::{clock, estimate, facts, link_end};
use costof_model::axis::{Axes, Axis, AxisValue};
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::link_end::LinkEnd;
use costof_model::metric::Estimate;
use costof_model::noise::{Noise, Placement};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, Launch, Meeting, Report};
use costof_model::rows::{Block, Hosts, LaunchPoint, LaunchRow, Plan, RunRow, SCHEMA, State};
use costof_model::run_file::Run;
use costof_model::typed::{At, TypedPoint, Words};
use costof_os::random;
use std::io;
use std::net::IpAddr;
use words::Place;

/// Why nothing was sent, or nobody can call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The command or an input is wrong.
    Wrong(String),
    /// It is not, but nothing could be measured.
    Nothing(String),
}

/// A token that nobody else can guess: 32 hexadecimal digits.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn token() -> io::Result<String> {
    Ok(format!("{:032x}", u128::from_ne_bytes(random::bytes()?)))
}

/// The probe whose ends these are.
pub fn info() -> &'static ProbeInfo {
    &PROBE.info
}

/// The axes of what is sent, as the probe declares them.
pub fn axes() -> &'static [Axis] {
    &PROBE.info.axes
}

/// The probe's defaults, and these values instead: the first value of an axis that `over` a Unix
/// socket or IP needs is that one.
///
/// # Errors
/// What cannot be sent, wherever that is tried, and what else can.
pub fn what(address: &Address, values: &[(&str, AxisValue)]) -> Result<Axes, String> {
    let mut axes = PROBE.info.defaults();
    if let Address::Unix(_) = address {
        axes = axes.with("over", Over::Unix.word());
    }
    for (name, value) in values {
        let axis = axes_named(name)?;
        axes.0.insert(axis.name.clone(), value.clone());
    }
    let sent = point(&axes, &Link::Loopback);
    match (address, sent.over) {
        (Address::Unix(_), Over::Unix)
        | (Address::Ip(..), Over::Tcp | Over::Udp | Over::UdpGso) => {}
        (Address::Unix(_), over @ (Over::Tcp | Over::Udp | Over::UdpGso)) => {
            return Err(format!(
                "{} does not go through a Unix socket (an address such as 127.0.0.1:7000, or \
                 --over unix)",
                over.word()
            ));
        }
        (Address::Ip(..), Over::Unix) => {
            return Err(format!(
                "Unix sockets have no address such as {address} (unix:PATH at both ends)"
            ));
        }
    }
    super::check(&sent).map_err(|failure| failure.reason)?;
    Ok(axes)
}

/// The value that a word or number is on an axis.
///
/// # Errors
/// A sentence that names the axis, or the values that it has.
pub fn value(name: &str, text: &str) -> Result<AxisValue, String> {
    axes_named(name)?.parse(text)
}

fn axes_named(name: &str) -> Result<&'static Axis, String> {
    axes().iter().find(|axis| axis.name == name).ok_or_else(|| {
        let names: Vec<&str> = axes().iter().map(|axis| &*axis.name).collect();
        format!(
            "nothing is sent by the axis `{name}` (axes: {})",
            names.join(", ")
        )
    })
}

/// Of axes that are the probe's.
fn point(axes: &Axes, link: &Link) -> At<CopySend> {
    At {
        axes: CopySend::read(axes).unwrap_or_else(|| panic!("nothing is sent by {axes}")),
        link: link.to_string().into(),
    }
}

/// The path between two ends, as far as they know themselves: in one network namespace they meet over
/// its loopback device, whatever address they use.
fn between(one: &Place, other: &Place) -> Link {
    let is_same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    if !is_same(&one.boot, &other.boot) {
        Link::Remote
    } else if is_same(&one.namespace, &other.namespace) {
        Link::Loopback
    } else {
        Link::Veth
    }
}

/// What an end measures with.
#[derive(Debug)]
struct Instruments {
    clock: ClockInfo,
    place: Place,
}

impl Instruments {
    fn new() -> Instruments {
        let facts = facts::gather();
        let namespace = std::fs::read_link("/proc/thread-self/ns/net").ok();
        Instruments {
            clock: clock::choose(facts.clock_source.current.as_deref()),
            place: Place {
                boot: facts.kernel.boot_id,
                namespace: namespace.map(|name| name.to_string_lossy().into_owned()),
            },
        }
    }

    /// A launch of this one point, wherever the kernel puts its threads.
    fn launch(&self, point: &At<CopySend>, role: &'static str, meeting: Meeting) -> Launch {
        let seed = random::bytes().map_or(1, |bytes| u128::from_ne_bytes(bytes) as u64);
        Launch {
            role: role.into(),
            points: vec![point.into()],
            cpus: Vec::new(),
            partners: Vec::new(),
            seed,
            point_time_ns: 0,
            rounds: 1,
            clock: self.clock.clone(),
            meeting: Some(meeting),
        }
    }

    /// What the reports of the ends say together, as a run of one launch.
    fn run(&self, point: &At<CopySend>, reports: Vec<Report>, ends: Ends) -> Result<Run, Failure> {
        let report = CopySend::derive(point, reports);
        let point = Point::from(point);
        let primary = &PROBE.info.primary().name;
        if !report.metrics.iter().any(|metric| metric.name == *primary) {
            return Err(Failure::error(
                "too little arrived to say how fast (a larger --count or --duration)",
            ));
        }
        let launch = LaunchRow {
            block: 0,
            launch: 0,
            of: 1,
            wall_ns: 0.0,
            points: vec![LaunchPoint {
                point: point.clone(),
                state: report.state,
                metrics: report.metrics,
                allocations: report.allocations,
            }],
            noise: Noise {
                ends: ends
                    .0
                    .into_iter()
                    .map(|(role, end)| (role.into(), end))
                    .collect(),
                ..Noise::default()
            },
            placement: Placement::default(),
            link: None,
        };
        let row = estimate::point(&PROBE.info, &point, None, &[&launch], None, &self.clock)?;
        let mut run = Run::new(RunRow {
            schema: SCHEMA,
            id: String::new(),
            started: String::new(),
            command: Vec::new(),
            seed: 0,
            beside: None,
            plan: Plan {
                precision: "by hand".into(),
                launches: None,
                blocks: vec![Block {
                    points: vec![point],
                    labels: Vec::new(),
                    level: 0,
                    rounds: 1,
                }],
                placement: Placement::default(),
                hosts: Hosts::default(),
            },
        });
        run.probes = vec![PROBE.info.clone()];
        run.launches = vec![launch];
        run.points = vec![row];
        Ok(run)
    }
}

/// How the ends of the link were set up, by role.
#[derive(Default)]
struct Ends(Vec<(&'static str, LinkEnd)>);

impl Ends {
    /// This end as it was before and is now.
    fn watch(role: &'static str, address: IpAddr) -> impl FnOnce() -> Ends {
        let before = link_end::at(address);
        move || {
            Ends(vec![(
                role,
                link_end::since(&before, link_end::at(address)),
            )])
        }
    }
}

/// The metrics of a run of one point; none where nothing could be told.
pub fn metrics(run: &Run) -> &[Estimate] {
    run.points.first().map_or(&[], |row| &row.metrics)
}

/// A report that has nothing to say.
fn nothing() -> Report {
    Report {
        state: State::Ok,
        metrics: Vec::new(),
        allocations: 0,
    }
}

/// Text of the other end, fit to be shown: one line, of no more than so many letters.
fn shown(text: &str) -> String {
    const MOST: usize = 500;
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_end_says_has_the_probes_axes_and_values() {
        let good = PROBE.info.defaults();
        assert!(PROBE.info.allows(&good));
        let mut less = good.clone();
        less.0.remove("size");
        for wrong in [
            less,
            good.clone().with("size", 1 << 40),
            good.clone().with("size", "big"),
            good.clone().with("primitive", "three_copies"),
            good.clone().with("colour", "red"),
        ] {
            assert!(!PROBE.info.allows(&wrong), "{wrong}");
        }
    }

    #[test]
    fn an_address_and_what_carries_messages_go_together() {
        let ip: Address = "127.0.0.1:7000".parse().expect("it is an address");
        let unix: Address = "unix:/tmp/costof".parse().expect("it is an address");
        let over = |over| value("over", over).map(|value| vec![("over", value)]);
        let axes = what(&unix, &[]).expect("it can be sent");
        assert_eq!(axes.word("over"), "unix");
        assert!(what(&ip, &over("udp").expect("a word")).is_ok());
        let error = what(&ip, &over("unix").expect("a word")).expect_err("no path");
        assert!(error.contains("unix:PATH"), "{error}");
        let error = what(&unix, &over("tcp").expect("a word")).expect_err("no port");
        assert!(error.contains("--over unix"), "{error}");
        let error = value("primitive", "two_copies").expect_err("no such word");
        assert!(error.contains("two_copy"), "{error}");
    }

    #[test]
    fn ends_of_one_namespace_meet_over_loopback() {
        let place = |boot: &str, namespace: &str| Place {
            boot: (!boot.is_empty()).then(|| boot.to_owned()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        };
        let here = place("a", "1");
        assert_eq!(between(&here, &place("a", "1")), Link::Loopback);
        assert_eq!(between(&here, &place("a", "2")), Link::Veth);
        for elsewhere in [place("b", "1"), place("", "1")] {
            assert_eq!(between(&here, &elsewhere), Link::Remote);
        }
    }

    #[test]
    fn what_another_end_says_moves_no_cursor() {
        assert_eq!(shown("no\x1b[2J room\n"), "no[2J room");
        assert_eq!(shown(&"x".repeat(9999)).len(), 500);
    }
}
