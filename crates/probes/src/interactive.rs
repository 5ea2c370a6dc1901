//! `copy.send` and `rudp.loss` interactively: their two ends without a controller, for two
//! terminals.
//!
//! Over a control connection the sender says what it will send, and the receiver says where. Then
//! the probe's own roles connect and measure, so everything the probe can send can be sent, and the
//! metrics mean the same. This is in the crate of the roles because it is only another way to start
//! them: no other crate knows a probe's roles, and the command line never computes a result.
//!
//! A sender first proves that it has the token: until then, nothing else of the connection is used.
//! The token itself is not sent, so reading the network's packets does not let anybody connect.
//! What follows is neither encrypted nor authenticated (docs/SECURITY.md).

mod address;
mod admission;
mod control;
mod protocol;
mod receiver;
mod sender;
mod session;
mod waiting;
mod workload;

pub use address::Address;
#[cfg(feature = "fuzzing")]
pub use receiver::fuzzing::receiver;
pub use receiver::{Event, Receiver, Served};
#[cfg(feature = "fuzzing")]
pub use sender::fuzzing::sender;
pub use sender::{Sending, Sent, send};
pub use workload::{Asked, Conditions, What, datagrams, probe_over, window_that_fits};

use crate::copy::send::PROBE;
use crate::two_ends::over::Over;
use control::Control;
use costof_measure::meter::{Meter, Record};
use costof_measure::{clock, estimate, facts, link_end};
use costof_model::axis::AxisValue;
use costof_model::failure::Failure;
use costof_model::harmless;
use costof_model::link::{Link, named};
use costof_model::link_end::LinkEnd;
use costof_model::metric::Estimate;
use costof_model::noise::{Noise, Placement};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, Launch, Rendezvous, Report, impossible};
use costof_model::rows::{Block, Hosts, LaunchPoint, LaunchRow, Plan, RunRow, SCHEMA, State};
use costof_model::run_file::Run;
use costof_model::typed::Words;
use costof_os::random;
use protocol::Place;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use workload::{LocalEnd, Workload, stack};

/// Why nothing was sent, or it cannot listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The command or an input is wrong.
    Wrong(String),
    /// The command is right, but nothing could be measured now.
    Nothing(String),
}

/// What was sent, and what that shows.
#[derive(Debug)]
pub struct Outcome {
    /// What was sent.
    pub what: What,
    /// Messages that were sent, as the sender counts them; none at the receiver.
    pub sent: Option<u64>,
    /// Messages that arrived completely, as the receiver counts them; no more than were sent.
    pub arrived: u64,
    /// Their payload, in bytes.
    pub arrived_bytes: u64,
    /// By how many more arrived than were sent, because the network delivered some twice; known to
    /// the sender.
    pub duplicates: u64,
    /// The measurements that this end knows: at the sender those of both ends, at the receiver its
    /// own.
    pub measured: Result<Run, Failure>,
}

/// A token that nobody else can guess: 32 hexadecimal digits.
///
/// # Errors
/// If the kernel gives no random bytes.
pub fn token() -> io::Result<String> {
    Ok(format!("{:032x}", u128::from_ne_bytes(random::bytes()?)))
}

/// The probe that is measured unless reliable datagrams are sent: copy.send.
pub fn info() -> &'static ProbeInfo {
    &PROBE.info
}

/// The defaults of a probe, replaced by these values. The value of `over` decides which probe it
/// is. Where `address` is a Unix socket, `over` is one too unless a value says otherwise.
///
/// # Errors
/// If this cannot be sent on any machine, with what can be.
pub fn asked(
    address: &Address,
    values: &[(&str, AxisValue)],
    conditions: Conditions,
) -> Result<Asked, String> {
    let over = values.iter().find(|(name, _)| *name == "over");
    let over = over.map_or_else(String::new, |(_, over)| over.to_string());
    let (info, stack) = (probe_over(&over), stack(&over));
    if stack.is_none() && conditions != Conditions::default() {
        return Err("--retry and --drop are for --over rudp and --over study-datagrams".to_owned());
    }
    let mut axes = info.defaults();
    if let (Address::Unix(_), None) = (address, stack) {
        axes = axes.with("over", Over::Unix.word());
    }
    for (name, value) in values {
        if let ("over", Some(stack)) = (*name, stack) {
            axes = axes.with("stack", stack.word());
            continue;
        }
        let axis = info.axis(name)?;
        axes.0.insert(axis.name.clone(), axis.parse(&value.to_string())?);
    }
    let asked = Asked::new(info, axes, conditions);
    let workload = asked.over(&Link::Loopback).expect("its axes are allowed");
    check_address(address, &workload, &over)?;
    workload.check().map_err(|failure| failure.reason)?;
    Ok(asked)
}

fn check_address(address: &Address, workload: &Workload, over: &str) -> Result<(), String> {
    match (address, workload.is_unix()) {
        (Address::Unix(_), true) | (Address::Ip(..), false) => Ok(()),
        (Address::Unix(_), false) => Err(format!(
            "{over} does not go through a Unix socket (an address such as 127.0.0.1:7000, or --over \
             unix)"
        )),
        (Address::Ip(..), true) => {
            Err(format!("Unix sockets have no address such as {address} (unix:PATH at both ends)"))
        }
    }
}

/// The value of an axis of copy.send that a word or number names.
///
/// # Errors
/// A sentence that names the axis, or its values.
pub fn value(name: &str, text: &str) -> Result<AxisValue, String> {
    info().axis(name)?.parse(text)
}

/// The path from a sender to a receiver, as far as they know where they are: in one network namespace
/// it is the loopback device, whatever address they use; between the two of `costof link`, that link.
fn between(sender: &Place, receiver: &Place) -> Link {
    let is_same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    if !is_same(&sender.boot, &receiver.boot) {
        Link::Remote
    } else if is_same(&sender.namespace, &receiver.namespace) {
        Link::Loopback
    } else {
        let link = |place: &Place| place.link.as_deref()?.parse::<Link>().ok();
        let there = link(sender).zip(link(receiver));
        let is_one = |(sender, receiver): &(Link, Link)| *sender == receiver.reversed();
        there.filter(is_one).map_or(Link::Veth, |(link, _)| link)
    }
}

/// The link of `costof link` that ends in this network namespace, seen from here: `up` is what leaves.
fn named_link(namespace: &str) -> Option<String> {
    let inode: u64 = namespace.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()?;
    let is_here = |name| {
        let named = std::fs::metadata(Path::new(NAMESPACES).join(name));
        named.is_ok_and(|named| named.ino() == inode)
    };
    let leads = is_here(named::LEADING);
    if !leads && !is_here(named::OTHER) {
        return None;
    }
    let record = File::open(named::RECORD).ok()?.take(RECORD_MAX_BYTES);
    let record: serde_json::Value = serde_json::from_reader(record).ok()?;
    let link: Link = record.get("link")?.as_str()?.parse().ok()?;
    Some(if leads { link } else { link.reversed() }.to_string())
}

/// Where ip-netns(8) keeps namespaces with names.
const NAMESPACES: &str = "/run/netns";
/// The record of a link is shorter.
const RECORD_MAX_BYTES: u64 = 64 << 10;

/// What the user has set for the sockets through which messages arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets {
    /// The first and the last port; 0 and 0 for any.
    pub ports: (u16, u16),
    /// How many bytes the queue of a socket for datagrams may hold (SO_RCVBUF).
    pub receive_buffer: Option<u64>,
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
        let namespace = std::fs::read_link("/proc/thread-self/ns/net")
            .ok()
            .map(|name| name.to_string_lossy().into_owned());
        ThisEnd {
            clock: clock::choose(facts.clock_source.current.as_deref()),
            place: Place {
                boot: facts.kernel.boot_id,
                link: namespace.as_deref().and_then(named_link),
                namespace,
            },
        }
    }

    /// A launch of this one point, on whatever CPUs the kernel chooses.
    fn launch(
        &self,
        role: &'static str,
        workload: &Workload,
        control: &Control,
        sockets: Sockets,
        token: String,
    ) -> Launch {
        let seed = random::bytes().map_or(1, |bytes| u128::from_ne_bytes(bytes) as u64);
        Launch {
            role: role.into(),
            points: vec![workload.point()],
            cpus: Vec::new(),
            partners: Vec::new(),
            seed,
            point_time_ns: 0,
            deadline_ns: 0,
            rounds: 1,
            clock: self.clock.clone(),
            rendezvous: Some(Rendezvous {
                address: control.local,
                scope: control.scope,
                receive_buffer: sockets.receive_buffer,
                ports: sockets.ports,
                token,
                apart: workload.is_apart(),
                sink: None,
            }),
        }
    }

    /// Runs a prepared role, until `stop` is set at the latest.
    fn measure(&self, end: &mut dyn LocalEnd, stop: &AtomicBool) -> Result<Report, Failure> {
        let clock = clock::open(&self.clock)?;
        let mut record = Record::default();
        end.run(&mut Meter::new(&*clock, 0.0, stop, None, "", &mut record))?;
        Ok(record.into_report(false, Vec::new()))
    }

    /// The ends' reports together, as a run of one launch.
    fn run(
        &self,
        workload: &Workload,
        reports: Vec<Report>,
        link_end: (&'static str, LinkEnd),
    ) -> Result<Run, Failure> {
        if let Some(failure) = impossible(&reports, f64::INFINITY) {
            return Err(failure);
        }
        let (report, info) = (workload.derive(reports), workload.info());
        let point = workload.point();
        let primary = &info.primary().name;
        if !report.metrics.iter().any(|metric| metric.name == *primary) {
            return Err(Failure::error(
                "too little arrived to measure a rate (a larger --count or --duration)",
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
        let row = estimate::point(info, &point, None, &[&launch], None, &self.clock)?;
        let mut run = Run::new(RunRow {
            schema: SCHEMA,
            id: String::new(),
            started: String::new(),
            command: Vec::new(),
            seed: 0,
            beside: None,
            plan: Plan {
                precision: "by hand".into(),
                budget_ns: None,
                until_alone_ns: None,
                launches: None,
                blocks: vec![Block { points: vec![point], rounds: 1, ..Block::default() }],
                earlier: Vec::new(),
                placement: Placement::default(),
                hosts: Hosts::default(),
            },
        });
        run.probes = vec![info.clone()];
        run.launches = vec![launch];
        run.points = vec![row];
        Ok(run)
    }
}

/// The state of the link's end at this address; the returned function adds what has changed by its
/// call.
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
    Report { state: State::Ok, metrics: Vec::new(), allocations: 0 }
}

/// Text of the peer, safe for a terminal: one line of limited length.
fn printable(text: &str) -> String {
    harmless::beginning(text, 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_what_carries_messages_go_together() {
        let (ip, unix) = ("127.0.0.1:7000", "unix:/tmp/costof");
        let asked = |address: &str, over: &str, more: &[(&'static str, u64)], drop| {
            let address = address.parse().expect("it is an address");
            let mut values = Vec::new();
            if !over.is_empty() {
                values.push(("over", AxisValue::Word(over.to_owned().into())));
            }
            let more = more.iter();
            values.extend(more.map(|(axis, value)| (*axis, AxisValue::Number(*value))));
            super::asked(&address, &values, Conditions::new(None, drop))
        };
        let sent = asked(unix, "", &[], 0.0).expect("it can be sent");
        assert_eq!(sent.axes.word("over"), "unix");
        for (over, more) in [("udp", ("threads", 2)), ("rudp", ("window", 8))] {
            assert!(asked(ip, over, &[more], 0.0).is_ok(), "{over}");
        }
        for (address, over, more, drop, says) in [
            (ip, "unix", &[][..], 0.0, "unix:PATH"),
            (unix, "tcp", &[], 0.0, "--over unix"),
            (unix, "rudp", &[], 0.0, "--over unix"),
            (ip, "rudp", &[("threads", 2)], 0.0, "no axis `threads`"),
            (ip, "tcp", &[("window", 8)], 0.0, "no axis `window`"),
            (ip, "tcp", &[], 0.1, "--over rudp"),
            (ip, "study-datagrams", &[("size", 65_500)], 0.0, "65499"),
            (ip, "rudp", &[("size", 2 << 20)], 0.0, "axis size"),
        ] {
            let error = asked(address, over, more, drop).expect_err("it cannot be");
            assert!(error.contains(says), "{error}");
        }
        let error = value("primitive", "two_copies").expect_err("no such word");
        assert!(error.contains("two_copy"), "{error}");
    }

    #[test]
    fn ends_of_one_namespace_meet_over_loopback() {
        let place = |boot: &str, namespace: &str| Place {
            boot: (!boot.is_empty()).then(|| boot.to_owned()),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            link: None,
        };
        let here = place("a", "1");
        assert_eq!(between(&here, &place("a", "1")), Link::Loopback);
        assert_eq!(between(&here, &place("a", "2")), Link::Veth);
        let ends_of = |link: &str, namespace: &str| Place {
            link: Some(link.to_owned()),
            ..place("a", namespace)
        };
        let wan = ends_of("wan", "1");
        assert_eq!(between(&wan, &ends_of("wan", "2")).to_string(), "wan");
        // Another pair of namespaces, or a link with two directions seen from the same end.
        assert_eq!(between(&wan, &place("a", "2")), Link::Veth);
        let [up, down] = ["up.loss=1%", "down.loss=1%"].map(|link| ends_of(link, link));
        assert_eq!(between(&up, &down).to_string(), "up.loss=1%");
        assert_eq!(between(&down, &up).to_string(), "down.loss=1%");
        assert_eq!(between(&up, &ends_of("up.loss=1%", "3")), Link::Veth);
        for elsewhere in [place("b", "1"), place("", "1")] {
            assert_eq!(between(&here, &elsewhere), Link::Remote);
        }
    }
}
