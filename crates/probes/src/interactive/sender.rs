//! The end that sends: until all messages are sent, the time is up, or it is stopped.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use super::Sockets;
use super::control::{Control, Lines};
use super::protocol::{CHALLENGE, FIRST_LINE, REPLY_MAX_BYTES, Reply, Request, answer};
use super::workload::{Asked, LocalEnd, Workload};
use super::{Address, Outcome, Refusal, ThisEnd, between, printable, watch_link_end};
use crate::net::peer_reports::{ARRIVED, DROPPED};
use crate::net::rendezvous;
use costof_exchange::progress::Ending;
use costof_exchange::rendezvous::Address as Endpoint;
use costof_model::failure::{Failure, OrFailure};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Offers, Report};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// How long the receiver may take to reply, and to report what arrived.
const REPLY: Duration = Duration::from_secs(15);
/// The same after sending failed: the receiver may know why.
const REASON: Duration = Duration::from_secs(2);
/// A duration that is never reached, where only the number of messages ends it.
const EVER: Duration = Duration::from_secs(365 * 86_400);

/// What is to be sent, and where to.
#[derive(Debug)]
pub struct Sending<'a> {
    /// Where the receiver listens.
    pub address: &'a Address,
    /// The receiver's token; none with --open.
    pub token: Option<&'a str>,
    /// As [`super::asked`] returns it.
    pub asked: Asked,
    /// Messages of each connection, if they end it.
    pub messages: Option<u64>,
    /// How long, if that ends it.
    pub duration: Option<Duration>,
    /// Set by the caller to end it.
    pub stop: &'a AtomicBool,
}

/// The result of sending.
#[derive(Debug)]
pub struct Sent {
    /// What was sent, and what both ends measured.
    pub outcome: Outcome,
    /// Whether the receiver has ended it.
    pub ended_by_receiver: bool,
}

/// The receiver's replies while messages were sent.
#[derive(Default)]
struct Replies {
    ended: bool,
    arrived: Option<(Result<Report, Failure>, u64)>,
}

/// Sends messages and measures that.
///
/// # Errors
/// If nothing could be sent; with what to do about it.
pub fn send(sending: &Sending<'_>) -> Result<Sent, Refusal> {
    let address = sending.address;
    let control =
        Control::connect(address, sending.stop).map_err(|error| cannot_connect(address, &error))?;
    let mut lines = Lines::new(&control);
    let this_end = ThisEnd::new();
    let will = Request::Will { asked: sending.asked.clone(), place: this_end.place.clone() };
    let until = Instant::now() + REPLY;
    let wanted = || !sending.stop.load(Ordering::Relaxed) && Instant::now() < until;
    let reply = greet(&control, &mut lines, sending.token, &will, wanted)
        .map_err(|error| lost(address, &error))?;
    let (offers, token, place) = match reply {
        Reply::Begin { offers, token, place } => (offers, token, place),
        Reply::Refused { reason, wrong } => {
            let reason = format!("the receiver at {address} refuses: {}", printable(&reason));
            return Err(if wrong { Refusal::Wrong(reason) } else { Refusal::Nothing(reason) });
        }
        Reply::End | Reply::Arrived { .. } => {
            return Err(lost(address, &ErrorKind::InvalidData.into()));
        }
    };
    let workload = sending.asked.over(&between(&this_end.place, &place));
    let session = Session {
        sending,
        workload: workload.expect("it was allowed"),
        this_end,
        control: &control,
        stop: Arc::default(),
    };
    session.send(lines, token, &offers_at(offers, control.peer_address()))
}

/// Proves to the receiver that this end has the token, and sends the request.
fn greet(
    control: &Control,
    lines: &mut Lines<'_>,
    token: Option<&str>,
    will: &Request,
    wanted: impl Fn() -> bool,
) -> io::Result<Reply> {
    let greeted = control.write(format!("{FIRST_LINE}\n").as_bytes());
    // A receiver that refuses says why before it hangs up, even if this end has not sent
    // everything.
    let first =
        lines.next(REPLY_MAX_BYTES, &wanted).map_err(|error| greeted.err().unwrap_or(error))?;
    let Some(challenge) = str::from_utf8(&first).ok().filter(|line| line.starts_with(CHALLENGE))
    else {
        return serde_json::from_slice(&first)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
    };
    let answered = control
        .write(format!("{}\n", answer(token, challenge)).as_bytes())
        .and_then(|()| control.send(will));
    let reply = lines.message(REPLY_MAX_BYTES, wanted);
    reply.map_err(|error| answered.err().unwrap_or(error))
}

struct Session<'a> {
    sending: &'a Sending<'a>,
    workload: Workload,
    this_end: ThisEnd,
    control: &'a Control,
    /// Set when the user or the receiver wants it to end, or the receiver has gone.
    stop: Arc<AtomicBool>,
}

impl Session<'_> {
    fn send(self, mut lines: Lines<'_>, token: String, offers: &Offers) -> Result<Sent, Refusal> {
        let link_end = watch_link_end("sender", self.control.local);
        let until: OnceLock<Instant> = OnceLock::new();
        let (measured, messages, replies) = scope(|scope| {
            let listening = Builder::new().spawn_scoped(scope, || {
                let wanted = || {
                    if self.sending.stop.load(Ordering::Acquire) {
                        self.stop.store(true, Ordering::Release);
                    }
                    until.get().is_none_or(|until| Instant::now() < *until)
                };
                let replies = await_replies(&mut lines, wanted, &self.stop);
                // Whatever came last, nothing more will come.
                self.stop.store(true, Ordering::Release);
                replies
            });
            let patience = Patience(&until);
            let listens = listening.as_ref().map(|_| ()).or_fail("cannot start a thread");
            let (measured, messages) = match listens.and_then(|()| self.prepare(token, offers)) {
                Ok(mut role) => {
                    let measured = self.this_end.measure(&mut *role, &self.stop);
                    (measured, role.count())
                }
                Err(failure) => (Err(failure), 0),
            };
            let reported = self.control.send(&match &measured {
                Ok(_) => Request::Done { messages },
                Err(failure) => Request::Failed { reason: failure.reason.clone() },
            });
            if measured.is_ok() && reported.is_ok() {
                patience.ends_in(REPLY);
            }
            drop(patience);
            let replies = listening.ok().and_then(|listening| listening.join().ok());
            (measured, messages, replies.unwrap_or_default())
        });
        let report = measured.map_err(|failure| self.failed(&failure, messages, &replies))?;
        let Some((arrived, arrived_bytes)) = replies.arrived else {
            return Err(Refusal::Nothing(self.went_away(messages)));
        };
        let both = |arrived| {
            let reports = vec![of_probe(self.workload.info(), arrived), report];
            self.this_end.run(&self.workload, reports, link_end())
        };
        let receiver_failed = |failure: Failure| {
            Failure::error(format!("the receiver: {}", printable(&failure.reason)))
        };
        // A network may deliver datagrams twice.
        let size = self.workload.size();
        let duplicates = (arrived_bytes / size).saturating_sub(messages);
        let arrived_bytes = arrived_bytes - duplicates * size;
        Ok(Sent {
            outcome: Outcome {
                measured: arrived.map_err(receiver_failed).and_then(both),
                what: self.workload.what(),
                sent: Some(messages),
                arrived: arrived_bytes / size,
                arrived_bytes,
                duplicates,
            },
            ended_by_receiver: replies.ended,
        })
    }

    fn prepare(&self, token: String, offers: &Offers) -> Result<Box<dyn LocalEnd>, Failure> {
        let sockets = Sockets::default();
        let this_end = &self.this_end;
        let launch = this_end.launch("sender", &self.workload, self.control, sockets, token);
        let duration = self.sending.duration.unwrap_or(EVER);
        let ending = Ending {
            messages: self.sending.messages.unwrap_or(u64::MAX),
            stop: Arc::clone(&self.stop),
        };
        let mut role = self.workload.sending(&launch, duration, ending)?;
        role.prepare(offers)?;
        Ok(role)
    }

    fn failed(&self, failure: &Failure, messages: u64, replies: &Replies) -> Refusal {
        let (address, reason) = (self.sending.address, &failure.reason);
        Refusal::Nothing(match &replies.arrived {
            Some((Err(theirs), _)) => format!(
                "sending to {address} failed after {messages} messages: {reason}; the receiver: {}",
                printable(&theirs.reason)
            ),
            Some((Ok(_), _)) => format!("sending to {address} failed: {reason}"),
            None => format!("{} ({reason})", self.went_away(messages)),
        })
    }

    fn went_away(&self, messages: u64) -> String {
        let address = self.sending.address;
        format!("the receiver at {address} closed the connection after {messages} messages")
    }
}

/// While this exists, replies are awaited without a limit; then as long as the receiver may still
/// know why something failed, unless another time was set. So if this end panics, nothing waits
/// forever.
struct Patience<'a>(&'a OnceLock<Instant>);

impl Patience<'_> {
    fn ends_in(&self, time: Duration) {
        // Only the first time counts.
        let _ = self.0.set(Instant::now() + time);
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        self.ends_in(REASON);
    }
}

/// Reads the receiver's replies until it has reported what arrived, or has gone.
fn await_replies(lines: &mut Lines<'_>, wanted: impl Fn() -> bool, stop: &AtomicBool) -> Replies {
    let mut replies = Replies::default();
    loop {
        match lines.message(REPLY_MAX_BYTES, &wanted) {
            Ok(Reply::End) => {
                replies.ended = true;
                stop.store(true, Ordering::Release);
            }
            Ok(Reply::Arrived { report, bytes }) => {
                replies.arrived = Some((report, bytes));
                return replies;
            }
            Ok(Reply::Begin { .. } | Reply::Refused { .. }) | Err(_) => return replies,
        }
    }
}

/// Removes metrics that no receiver of this probe measures.
fn of_probe(info: &ProbeInfo, mut report: Report) -> Report {
    report.metrics.retain(|metric| {
        let declared = info.metrics.iter().map(|metric| &*metric.name);
        let mut names = declared.chain([ARRIVED, DROPPED]);
        names.any(|name| metric.name == name)
    });
    report
}

/// The receiver's offers at the address by which it was reached: behind address translation it
/// knows another address of itself, and messages must not go to anybody else.
fn offers_at(mut offers: Offers, mut peer: SocketAddr) -> Offers {
    if let Ok(Endpoint::Ip(mut addresses)) = rendezvous::offered::<Endpoint>(&offers) {
        for address in &mut addresses {
            // The receiver's number of the interface means nothing here.
            peer.set_port(address.port());
            *address = peer;
        }
        offers.extend(rendezvous::offer(&Endpoint::Ip(addresses).to_string()));
    }
    offers
}

fn cannot_connect(address: &Address, error: &io::Error) -> Refusal {
    let reason = format!("cannot reach a receiver at {address}: {error}");
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => Refusal::Nothing(format!(
            "{reason} (is `costof send --listen {address}` running there?)"
        )),
        ErrorKind::InvalidInput => Refusal::Wrong(reason),
        // No thread could be started to connect.
        ErrorKind::WouldBlock => Refusal::Nothing(format!(
            "{reason} (ulimit -u and the cgroup's pids.max limit threads)"
        )),
        _ => Refusal::Nothing(format!("{reason} (a firewall may forbid it)")),
    }
}

fn lost(address: &Address, error: &io::Error) -> Refusal {
    Refusal::Nothing(match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => format!(
            "what listens at {address} has hung up: it is ending, or it is not a `costof send --listen` \
             of this release"
        ),
        ErrorKind::InvalidData => {
            format!("what listens at {address} is not a `costof send --listen` of this release")
        }
        ErrorKind::Interrupted => format!("the receiver at {address} does not answer"),
        _ => format!("lost the receiver at {address}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{names, number, report};
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn messages_go_to_the_receiver_that_was_reached_and_to_nobody_else() {
        let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let link_local = "fe80::1".parse().expect("an address");
        for (offered, (peer, scope), reached) in [
            ("10.0.0.1:70 10.0.0.2:71", (peer, 0), "192.0.2.1:70 192.0.2.1:71"),
            ("[fe80::1%9]:70", (link_local, 2), "[fe80::1%2]:70"),
            ("unix:@0012f", (peer, 0), "unix:@0012f"),
        ] {
            let peer = rendezvous::scoped(peer, scope);
            let offers = offers_at(rendezvous::offer(offered), peer);
            let address: Endpoint = rendezvous::offered(&offers).expect("an address");
            assert_eq!(address.to_string(), reached);
        }
    }

    #[test]
    fn an_end_that_panics_waits_no_longer() {
        let until = OnceLock::new();
        let panicked = std::panic::catch_unwind(|| {
            let _patience = Patience(&until);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert!(until.get().is_some());
        let (until, before) = (OnceLock::new(), Instant::now());
        Patience(&until).ends_in(REPLY);
        assert!(until.get().is_some_and(|until| *until >= before + REPLY));
    }

    #[test]
    fn what_no_receiver_measures_is_not_shown() {
        let arrived = ["throughput", "\x1b[2J", ARRIVED].map(|name| number(name, 1.0));
        let report = of_probe(crate::interactive::info(), report(arrived.into()));
        assert_eq!(names(&report), ["throughput", ARRIVED]);
    }
}
