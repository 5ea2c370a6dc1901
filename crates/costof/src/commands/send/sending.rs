//! One launch by hand: the receiver's worker is called where it listens, the sender's is started here.

use super::outcome::Outcome;
use crate::error::{Context, Error, Result, wrong};
use crate::machine::{describe, misses};
use crate::session::own_executable;
use costof_lab::address::Address;
use costof_lab::addresses::one_machine;
use costof_lab::host::Host;
use costof_lab::launch::{self, Lost, Place, Setting};
use costof_measure::probe::find;
use costof_model::link::named;
use costof_model::protocol::{ByHand, Description};
use costof_model::{
    ClockInfo, Failure, FailureKind, Launch, Link, Point, Rendezvous, Report, State,
};
use costof_os::random;
use costof_probes::TABLE;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a worker may take to answer, unless it sends.
const LIMIT: Duration = Duration::from_secs(60);
/// Where ip-netns(8) keeps namespaces with names.
const NAMESPACES: &str = "/run/netns";
/// The record of a link is shorter.
const RECORD_MAX_BYTES: u64 = 64 << 10;

/// What is to be sent, and where to.
pub(super) struct Sending<'a> {
    /// Where the receiver listens.
    pub(super) address: &'a Address,
    /// The receiver's token; none with --open.
    pub(super) token: Option<String>,
    pub(super) point: Point,
    pub(super) by_hand: ByHand,
    pub(super) duration: Duration,
    /// Set by the user to end it.
    pub(super) enough: &'a AtomicBool,
}

impl Sending<'_> {
    /// Sends, and returns what both ends measured, and whether the receiver has ended it.
    pub(super) fn send(self) -> Result<(Outcome, bool)> {
        /// Once it has begun, it ends in order.
        static NEVER: AtomicBool = AtomicBool::new(false);
        let address = self.address;
        let command = own_executable(&["worker", "--end-with-parent"])?.with_token(self.token);
        let interrupted = self.enough;
        let setting = Setting { command: &command, limit: LIMIT, interrupted, enough: None };
        let host = Host::Call(address.clone());
        let there = Place { host: &host, end: None };
        let (receiver, there) = describe(there, setting).map_err(refused)?;
        let (sender, here) = describe(Place::LOCAL, setting).map_err(refused)?;
        let probe = find(TABLE, &self.point.probe).expect("its points were checked");
        if let Some(misses) = misses(&host, &there.probes, &[&*probe.info]) {
            return Err(wrong(misses));
        }
        let link = between(&here, &there);
        let point = Point { link: link.to_string().into(), ..self.point };
        let token = random::digits().context("the kernel gives no random bytes for a token")?;
        let launch = |role: usize, description: &Description, at: Option<SocketAddr>| Launch {
            role: probe.info.roles[role].clone(),
            points: vec![point.clone()],
            cpus: Vec::new(),
            partners: Vec::new(),
            seed: fastrand::u64(..),
            point_time_ns: self.duration.as_nanos() as u64,
            rounds: 1,
            deadline_ns: 0,
            // It runs on whatever CPUs the kernel chooses.
            clock: ClockInfo { core_floor: None, ..description.clock.clone() },
            rendezvous: Some(Rendezvous {
                address: at.map_or(Ipv4Addr::LOCALHOST.into(), |at| at.ip()),
                scope: match at {
                    Some(SocketAddr::V6(at)) => at.scope_id(),
                    _ => 0,
                },
                receive_buffer: None,
                ports: (0, 0),
                token: token.clone(),
                apart: link == Link::Remote,
                sink: None,
            }),
            by_hand: Some(self.by_hand),
        };
        let own = launch(1, &here, receiver.called_from());
        let launches = vec![launch(0, &there, receiver.called()), own.clone()];
        let setting = Setting { interrupted: &NEVER, enough: Some(interrupted), ..setting };
        let done = launch::run_by(vec![receiver, sender], launches, &setting);
        let mut done = done.map_err(|lost| match lost {
            Lost::Failed(Some(_), failure) => failed(address, "", &failure),
            lost => refused(lost),
        })?;
        let reports = <[Report; 2]>::try_from(done.reports.remove(0));
        let [receiver, sender] = reports.expect("a report of each role");
        let has_failed = sender.state == State::Failed;
        let failure = done.failures.pop().map(|(_, failure)| failure);
        let outcome = Outcome::new(&own, Some(receiver), Some(sender), done.noise, failure);
        match (&outcome.measured, outcome.sent) {
            (Err(failure), Some(sent)) if has_failed => {
                Err(failed(address, &format!(" after {sent} messages"), failure))
            }
            _ => Ok((outcome, done.is_ended_there)),
        }
    }
}

fn failed(address: &Address, after: &str, failure: &Failure) -> Error {
    Error::Nothing(format!("sending to {address} failed{after}: {}", failure.reason))
}

/// Why nothing was sent: the command is wrong, or it may succeed later.
fn refused(lost: Lost) -> Error {
    match lost {
        Lost::Failed(_, Failure { kind: FailureKind::Unsupported, reason }) => Error::Wrong(reason),
        lost => lost.into(),
    }
}

/// The path from a sender to a receiver, as far as they know where they are: in one network namespace
/// it is the loopback device, whatever address they use; between the two of `costof link`, that link.
fn between(sender: &Description, receiver: &Description) -> Link {
    let boot = |end: &Description| end.facts.kernel.boot_id.clone();
    let [near, far] = [sender, receiver].map(|end| end.network.namespace);
    if !one_machine(boot(sender).as_deref(), boot(receiver).as_deref()) {
        Link::Remote
    } else if near.is_some() && near == far {
        Link::Loopback
    } else {
        near.zip(far).and_then(|(near, far)| named_link(near, far)).unwrap_or(Link::Veth)
    }
}

/// The link of `costof link` between two namespaces, seen from the first: `up` is what leaves it.
fn named_link(near: u64, far: u64) -> Option<Link> {
    let number = |name| Some(std::fs::metadata(Path::new(NAMESPACES).join(name)).ok()?.ino());
    let [leading, other] = [number(named::LEADING)?, number(named::OTHER)?];
    let record = File::open(named::RECORD).ok()?.take(RECORD_MAX_BYTES);
    let record: serde_json::Value = serde_json::from_reader(record).ok()?;
    let link: Link = record.get("link")?.as_str()?.parse().ok()?;
    match (near, far) {
        ends if ends == (leading, other) => Some(link),
        ends if ends == (other, leading) => Some(link.reversed()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::Facts;
    use costof_model::protocol::{CounterInfo, Network};
    use costof_model::testing::clock_info;

    #[test]
    fn ends_of_one_namespace_meet_over_loopback() {
        let end = |boot: Option<&str>, namespace| {
            let mut facts = Facts::default();
            facts.kernel.boot_id = boot.map(str::to_owned);
            Description {
                costof: String::new(),
                build: String::new(),
                probes: Vec::new(),
                facts: Box::new(facts),
                clock: clock_info(),
                counters: CounterInfo::default(),
                network: Network { namespace, ..Network::default() },
            }
        };
        let here = end(Some("a"), Some(1));
        assert_eq!(between(&here, &end(Some("a"), Some(1))), Link::Loopback);
        assert_eq!(between(&here, &end(Some("a"), Some(2))), Link::Veth);
        for (boot, namespace) in [(Some("b"), Some(1)), (None, Some(1))] {
            assert_eq!(between(&here, &end(boot, namespace)), Link::Remote);
        }
        let unknown = end(Some("a"), None);
        assert_eq!(between(&unknown, &unknown), Link::Veth);
    }
}
