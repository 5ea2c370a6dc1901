//! `copy.send` interactively: its two ends without a controller, for people with two terminals.
//!
//! Over a control connection the sender says what it will send, and the receiver says where. Then the
//! probe's own roles connect and measure, so that people can send whatever the probe can send, and a
//! metric is the same metric. This lies beside the roles since it is only another way to start them: no
//! other crate knows a probe's roles, and the command line never computes a result.
//!
//! A sender sends the token first: until it has come, nothing else of the connection is used. The token
//! is not encrypted: it keeps strangers out, but not those who can read the network's packets.

mod address;
mod admission;
mod control;
mod protocol;
mod receiver;
mod sender;

pub use address::Address;
pub use receiver::{Event, Receiver, Served};
pub use sender::{Sending, Sent, send};

use super::PROBE;
use super::axes::{CopySend, Over, check};
use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Measure, RoleAt};
use costof_measure::{clock, estimate, facts, link_end};
use costof_model::axis::{Axes, AxisValue};
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::link_end::LinkEnd;
use costof_model::metric::Estimate;
use costof_model::noise::{Noise, Placement};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, Launch, Rendezvous, Report};
use costof_model::rows::{Block, Hosts, LaunchPoint, LaunchRow, Plan, RunRow, SCHEMA, State};
use costof_model::run_file::Run;
use costof_model::typed::{At, TypedPoint, Words};
use costof_os::random;
use protocol::Place;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

/// Why nothing was sent, or nobody can connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The command or an input is wrong.
    Wrong(String),
    /// It is not, but nothing could be measured now.
    Nothing(String),
}

/// What was sent, and what that shows.
#[derive(Debug)]
pub struct Outcome {
    /// What was sent.
    pub point: Point,
    /// Messages: that this end has sent, or that have come here completely.
    pub messages: u64,
    /// Payload that arrived, in bytes.
    pub arrived_bytes: u64,
    /// What this end knows of the measurement: the sender both ends' half, the receiver its own.
    pub measured: Result<Run, Failure>,
}

/// A token that nobody else can guess: 32 hexadecimal digits.
///
/// # Errors
/// Where the kernel gives no random bytes.
pub fn token() -> io::Result<String> {
    Ok(format!("{:032x}", u128::from_ne_bytes(random::bytes()?)))
}

/// The probe that is measured: copy.send.
pub fn info() -> &'static ProbeInfo {
    &PROBE.info
}

/// The probe's defaults, and these values instead. Where `address` is a Unix socket, `over` is one too
/// unless a value says otherwise.
///
/// # Errors
/// What cannot be sent on any machine, and what else can.
pub fn axes(address: &Address, values: &[(&str, AxisValue)]) -> Result<Axes, String> {
    let mut axes = info().defaults();
    if let Address::Unix(_) = address {
        axes = axes.with("over", Over::Unix.word());
    }
    for (name, value) in values {
        let axis = info().axis(name)?;
        axes.0.insert(axis.name.clone(), value.clone());
    }
    let point = point(&axes, &Link::Loopback);
    match (address, point.over == Over::Unix) {
        (Address::Unix(_), true) | (Address::Ip(..), false) => {}
        (Address::Unix(_), false) => {
            return Err(format!(
                "{} does not go through a Unix socket (an address such as 127.0.0.1:7000, or \
                 --over unix)",
                point.over.word()
            ));
        }
        (Address::Ip(..), true) => {
            return Err(format!(
                "Unix sockets have no address such as {address} (unix:PATH at both ends)"
            ));
        }
    }
    check(&point).map_err(|failure| failure.reason)?;
    Ok(axes)
}

/// The value that a word or number is on an axis.
///
/// # Errors
/// A sentence that names the axis, or the values that it has.
pub fn value(name: &str, text: &str) -> Result<AxisValue, String> {
    info().axis(name)?.parse(text)
}

/// The point at these axes, which are the probe's.
fn point(axes: &Axes, link: &Link) -> At<CopySend> {
    At {
        axes: CopySend::read(axes).unwrap_or_else(|| panic!("nothing is sent by {axes}")),
        link: link.to_string().into(),
    }
}

/// The path between two ends, as far as they know where they are: in one network namespace it is the
/// loopback device, whatever address they use.
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

/// How this end measures, and where it is.
#[derive(Debug)]
struct ThisEnd {
    clock: ClockInfo,
    place: Place,
}

impl ThisEnd {
    fn new() -> ThisEnd {
        let facts = facts::gather();
        let namespace = std::fs::read_link("/proc/thread-self/ns/net").ok();
        ThisEnd {
            clock: clock::choose(facts.clock_source.current.as_deref()),
            place: Place {
                boot: facts.kernel.boot_id,
                namespace: namespace.map(|name| name.to_string_lossy().into_owned()),
            },
        }
    }

    /// A launch of this one point, wherever the kernel puts its threads.
    fn launch(
        &self,
        role: &'static str,
        point: &At<CopySend>,
        address: IpAddr,
        ports: (u16, u16),
        token: String,
    ) -> Launch {
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
            rendezvous: Some(Rendezvous {
                address,
                ports,
                token,
                apart: point.link == Link::Remote.to_string(),
                sink: None,
            }),
        }
    }

    /// Runs a role that is prepared, until `stop` is set at the latest.
    fn measure(
        &self,
        role: &mut impl RoleAt<CopySend>,
        point: &At<CopySend>,
        stop: &AtomicBool,
    ) -> Result<Report, Failure> {
        let clock = clock::open(&self.clock)?;
        let mut record = Record::default();
        role.run(
            point,
            &mut Meter::new(&*clock, 0.0, stop, None, "", &mut record),
        )?;
        Ok(record.into_report(false, Vec::new()))
    }

    /// What the ends' reports say together, as a run of one launch.
    fn run(
        &self,
        point: &At<CopySend>,
        reports: Vec<Report>,
        link_end: (&'static str, LinkEnd),
    ) -> Result<Run, Failure> {
        let report = CopySend::derive(point, reports);
        let point = Point::from(point);
        let primary = &info().primary().name;
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
                ends: [(link_end.0.into(), link_end.1)].into_iter().collect(),
                ..Noise::default()
            },
            placement: Placement::default(),
            link: None,
        };
        let row = estimate::point(info(), &point, None, &[&launch], None, &self.clock)?;
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
                earlier: Vec::new(),
                placement: Placement::default(),
                hosts: Hosts::default(),
            },
        });
        run.probes = vec![info().clone()];
        run.launches = vec![launch];
        run.points = vec![row];
        Ok(run)
    }
}

/// How the end of the link at this address is set up, and what changed until it is asked.
fn watch_link_end(role: &'static str, address: IpAddr) -> impl FnOnce() -> (&'static str, LinkEnd) {
    let before = link_end::at(address);
    move || (role, link_end::since(&before, link_end::at(address)))
}

/// The metrics of a run of one point; none where nothing was measured.
pub fn metrics(run: &Run) -> &[Estimate] {
    run.points.first().map_or(&[], |row| &row.metrics)
}

/// A report without metrics.
fn empty_report() -> Report {
    Report {
        state: State::Ok,
        metrics: Vec::new(),
        allocations: 0,
    }
}

/// Text of the peer, fit for a terminal: one line, of no more than so many letters.
fn printable(text: &str) -> String {
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
    fn what_a_peer_sends_has_the_probes_axes_and_values() {
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
        let sent = axes(&unix, &[]).expect("it can be sent");
        assert_eq!(sent.word("over"), "unix");
        assert!(axes(&ip, &over("udp").expect("a word")).is_ok());
        let error = axes(&ip, &over("unix").expect("a word")).expect_err("no path");
        assert!(error.contains("unix:PATH"), "{error}");
        let error = axes(&unix, &over("tcp").expect("a word")).expect_err("no port");
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
    fn what_a_peer_sends_moves_no_cursor() {
        assert_eq!(printable("no\x1b[2J room\n"), "no[2J room");
        assert_eq!(printable(&"x".repeat(9999)).len(), 500);
    }
}
