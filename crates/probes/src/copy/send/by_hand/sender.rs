//! The end that calls: it sends until so many messages have gone, the time is up, or it is stopped.

use super::channel::{Channel, Lines};
use super::words::{ANSWER_MOST_BYTES, Answer, Said, first};
use super::{Address, Ends, Instruments, Refusal, between, point, shown};
use crate::copy::send::PROBE;
use crate::copy::send::axes::CopySend;
use crate::copy::send::roles::{Ending, Sending};
use crate::net::both_ends::{ARRIVED, DROPPED};
use crate::net::meeting;
use costof_exchange::rendezvous::Address as Meets;
use costof_measure::clock;
use costof_measure::meter::{Meter, Record};
use costof_measure::probe::RoleAt;
use costof_model::axis::Axes;
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::point::Point;
use costof_model::protocol::{Meeting, Offers, Report};
use costof_model::run_file::Run;
use costof_model::typed::At;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::scope;
use std::time::{Duration, Instant};

/// How long the receiver has to answer, and to say what arrived.
const ANSWER: Duration = Duration::from_secs(15);
/// The same where sending has failed: it may know why.
const REASON: Duration = Duration::from_secs(2);
/// How long a call may take.
const CALL: Duration = Duration::from_secs(10);
/// Where nothing but a number of messages ends it: as good as never.
const EVER: Duration = Duration::from_secs(365 * 86_400);

/// What is to be sent, and to whom.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Where the receiver listens.
    pub address: &'a Address,
    /// Its token; none where it is open.
    pub token: Option<&'a str>,
    /// What [`super::what`] says.
    pub axes: Axes,
    /// Messages of each connection, if they end it.
    pub messages: Option<u64>,
    /// How long, if that ends it.
    pub duration: Option<Duration>,
    /// Set by whoever wants it to end.
    pub stop: &'a AtomicBool,
}

/// What was sent.
#[derive(Debug)]
pub struct Sent {
    /// What.
    pub point: Point,
    /// Messages.
    pub messages: u64,
    /// Payload that arrived, in bytes.
    pub arrived_bytes: u64,
    /// Whether the receiver has ended it.
    pub ended_by_receiver: bool,
    /// What both ends measured.
    pub measured: Result<Run, Failure>,
}

/// What the receiver said while messages went.
#[derive(Default)]
struct Told {
    ended: bool,
    arrived: Option<(Result<Report, Failure>, u64)>,
}

/// Sends, and says what that was.
///
/// # Errors
/// Where nothing could be sent, and what to do about it.
pub fn send(asked: &Asked<'_>) -> Result<Sent, Refusal> {
    let address = asked.address;
    let lost = |error: io::Error| {
        Refusal::Nothing(match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                format!(
                    "what listens at {address} has hung up: is it a `costof send --listen` of this \
                     release?"
                )
            }
            ErrorKind::InvalidData => {
                format!("what listens at {address} is no `costof send --listen` of this release")
            }
            ErrorKind::Interrupted => format!("the receiver at {address} does not answer"),
            _ => format!("the receiver at {address} is lost: {error}"),
        })
    };
    let mut channel = connect(address)?.ready().map_err(lost)?;
    let (own, peer) = channel.addresses().map_err(lost)?;
    let mut lines = Lines::of(channel.duplicate().map_err(lost)?);
    let instruments = Instruments::new();
    let will = Said::Will {
        method: PROBE.info.method,
        axes: asked.axes.clone(),
        place: instruments.place.clone(),
    };
    let greeted = channel
        .write(first(asked.token).as_bytes())
        .and_then(|()| channel.say(&will));
    let until = Instant::now() + ANSWER;
    let wanted = || !asked.stop.load(Ordering::Relaxed) && Instant::now() < until;
    let answer = lines.words(ANSWER_MOST_BYTES, wanted);
    // One that refuses says why before it hangs up.
    let (offers, token, place) = match (answer, greeted) {
        (
            Ok(Answer::Begin {
                offers,
                token,
                place,
            }),
            _,
        ) => (offers, token, place),
        (Ok(Answer::Refused { reason, wrong }), _) => {
            let reason = format!("the receiver at {address} refuses: {}", shown(&reason));
            return Err(if wrong {
                Refusal::Wrong(reason)
            } else {
                Refusal::Nothing(reason)
            });
        }
        (Ok(_), _) => return Err(lost(ErrorKind::InvalidData.into())),
        (Err(error), Ok(())) | (Err(_), Err(error)) => return Err(lost(error)),
    };
    let session = Session {
        asked,
        instruments: &instruments,
        link: between(&instruments.place, &place),
        own,
        token,
        stop: Arc::default(),
    };
    session.send(channel, lines, &offers_at(offers, peer))
}

struct Session<'a> {
    asked: &'a Asked<'a>,
    instruments: &'a Instruments,
    link: Link,
    own: IpAddr,
    /// What the messages' connections say first.
    token: String,
    /// Set when whoever asked, or the receiver, wants it to end, or the receiver has gone.
    stop: Arc<AtomicBool>,
}

impl Session<'_> {
    fn send(
        self,
        mut channel: Channel,
        mut lines: Lines,
        offers: &Offers,
    ) -> Result<Sent, Refusal> {
        let asked = self.asked;
        let point = point(&asked.axes, &self.link);
        let ends = Ends::watch("sender", self.own);
        let until: OnceLock<Instant> = OnceLock::new();
        let (measured, messages, told) = scope(|scope| {
            let hearing = scope.spawn(|| {
                let wanted = || {
                    if asked.stop.load(Ordering::Acquire) {
                        self.stop.store(true, Ordering::Release);
                    }
                    until.get().is_none_or(|until| Instant::now() < *until)
                };
                let told = hear(&mut lines, wanted, &self.stop);
                // Whatever was heard last, there is nothing to be waited for any more.
                self.stop.store(true, Ordering::Release);
                told
            });
            let ending = Hearing(&until);
            let (measured, messages) = match self.prepare(&point, offers) {
                Ok(mut sending) => (self.measure(&mut sending, &point), sending.sent),
                Err(failure) => (Err(failure), 0),
            };
            let said = match &measured {
                Ok(_) => channel.say(&Said::Done { messages }),
                Err(failure) => channel.say(&Said::Failed {
                    reason: failure.reason.clone(),
                }),
            };
            if let (Ok(_), Ok(())) = (&measured, said) {
                ending.for_at_most(ANSWER);
            }
            drop(ending);
            (measured, messages, hearing.join().unwrap_or_default())
        });
        let report = measured.map_err(|failure| self.failed(&failure, messages, &told))?;
        let Some((arrived, arrived_bytes)) = told.arrived else {
            return Err(Refusal::Nothing(format!(
                "the receiver at {} went away in the midst of it, after {messages} messages",
                asked.address
            )));
        };
        let both = |arrived| {
            let reports = vec![of_this_probe(arrived), report];
            self.instruments.run(&point, reports, ends())
        };
        let receiver_failed =
            |failure: Failure| Failure::error(format!("the receiver: {}", shown(&failure.reason)));
        Ok(Sent {
            measured: arrived.map_err(receiver_failed).and_then(both),
            point: Point::from(&point),
            messages,
            arrived_bytes,
            ended_by_receiver: told.ended,
        })
    }

    fn prepare(&self, point: &At<CopySend>, offers: &Offers) -> Result<Sending, Failure> {
        let meeting = Meeting {
            address: self.own,
            ports: (0, 0),
            token: self.token.clone(),
            apart: self.link == Link::Remote,
            sink: None,
        };
        let launch = self.instruments.launch(point, "sender", meeting);
        let ending = Ending {
            duration: self.asked.duration.unwrap_or(EVER),
            messages: self.asked.messages.unwrap_or(u64::MAX),
            stop: Arc::clone(&self.stop),
        };
        let mut sending = Sending::by_hand(&launch, ending)?;
        sending.prepare(point, offers)?;
        Ok(sending)
    }

    fn measure(&self, sending: &mut Sending, point: &At<CopySend>) -> Result<Report, Failure> {
        let clock = clock::open(&self.instruments.clock)?;
        let mut record = Record::default();
        let mut meter = Meter::new(&*clock, 0.0, &self.stop, None, "", &mut record);
        sending.run(point, &mut meter)?;
        Ok(record.into_report(false, Vec::new()))
    }

    fn failed(&self, failure: &Failure, messages: u64, told: &Told) -> Refusal {
        let address = self.asked.address;
        Refusal::Nothing(match &told.arrived {
            Some((Err(theirs), _)) => format!(
                "sending to {address} failed after {messages} messages: {}; the receiver: {}",
                failure.reason,
                shown(&theirs.reason)
            ),
            Some((Ok(_), _)) => format!("sending to {address} failed: {}", failure.reason),
            None => format!(
                "the receiver at {address} went away in the midst of it, after {messages} messages \
                 ({})",
                failure.reason
            ),
        })
    }
}

/// As long as it is there, the receiver is heard; then for as long as it may still know why something
/// has failed, if nothing else is said. So also where this end panics nobody waits for ever.
struct Hearing<'a>(&'a OnceLock<Instant>);

impl Hearing<'_> {
    fn for_at_most(&self, time: Duration) {
        // Only the first time counts.
        let _ = self.0.set(Instant::now() + time);
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        self.for_at_most(REASON);
    }
}

/// Hears the receiver until it has said what arrived, or has gone.
fn hear(lines: &mut Lines, wanted: impl Fn() -> bool, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    loop {
        match lines.words(ANSWER_MOST_BYTES, &wanted) {
            Ok(Answer::End) => {
                told.ended = true;
                stop.store(true, Ordering::Release);
            }
            Ok(Answer::Arrived { report, bytes }) => {
                told.arrived = Some((report, bytes));
                return told;
            }
            Ok(Answer::Begin { .. } | Answer::Refused { .. }) | Err(_) => return told,
        }
    }
}

/// Without what no receiver of this probe measures.
fn of_this_probe(mut report: Report) -> Report {
    report.metrics.retain(|metric| {
        let declared = PROBE.info.metrics.iter();
        let mut names = declared
            .map(|metric| &*metric.name)
            .chain([ARRIVED, DROPPED]);
        names.any(|name| metric.name == name)
    });
    report
}

/// The receiver's offers at the address by which it was reached: it may be known by another one
/// behind a translation of addresses, and nobody else is to be sent to.
fn offers_at(offers: Offers, peer: IpAddr) -> Offers {
    let Ok(Meets::Ip(mut addresses)) = meeting::offered::<Meets>(&offers) else {
        return offers;
    };
    for address in &mut addresses {
        address.set_ip(peer);
    }
    let mut offers = offers;
    offers.extend(meeting::offer(&Meets::Ip(addresses).to_string()));
    offers
}

fn connect(address: &Address) -> Result<Channel, Refusal> {
    let connected = match address {
        Address::Ip(host, port) => connect_ip(host, *port).map(Channel::Ip),
        Address::Unix(path) => UnixStream::connect(path).map(Channel::Unix),
    };
    connected.map_err(|error| {
        let reason = format!("cannot reach a receiver at {address}: {error}");
        match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Refusal::Nothing(format!(
                "{reason} (is `costof send --listen {address}` running there?)"
            )),
            ErrorKind::InvalidInput => Refusal::Wrong(reason),
            _ => Refusal::Nothing(format!("{reason} (a firewall may forbid it)")),
        }
    })
}

fn connect_ip(host: &str, port: u16) -> io::Result<TcpStream> {
    if port == 0 {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "nobody listens at port 0 (the one that the receiver shows)",
        ));
    }
    let mut failed = io::Error::new(ErrorKind::InvalidInput, "this host has no address");
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CALL) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text;
    use costof_model::metric::{Data, Measured};
    use costof_model::rows::State;
    use std::net::Ipv4Addr;

    #[test]
    fn messages_go_to_who_was_called_and_to_nobody_else() {
        let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let offers = offers_at(meeting::offer("10.0.0.1:70 10.0.0.2:71"), peer);
        let address: Meets = meeting::offered(&offers).expect("an address");
        assert_eq!(address.to_string(), "192.0.2.1:70 192.0.2.1:71");
        let offers = offers_at(meeting::offer("unix:@0012f"), peer);
        let address: Meets = meeting::offered(&offers).expect("an address");
        assert_eq!(address.to_string(), "unix:@0012f");
    }

    #[test]
    fn an_end_that_panics_hears_no_more_soon() {
        let until = OnceLock::new();
        let panicked = std::panic::catch_unwind(|| {
            let _ending = Hearing(&until);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert!(until.get().is_some());
        let (until, before) = (OnceLock::new(), Instant::now());
        Hearing(&until).for_at_most(ANSWER);
        assert!(until.get().is_some_and(|until| *until >= before + ANSWER));
    }

    #[test]
    fn what_no_receiver_measures_is_not_shown() {
        let measured = |name| Measured::new(text(name), Data::Value(1.0));
        let report = of_this_probe(Report {
            state: State::Ok,
            metrics: vec![
                measured("throughput"),
                measured("\x1b[2J"),
                measured(ARRIVED),
            ],
            allocations: 0,
        });
        let names: Vec<&str> = report.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(names, ["throughput", ARRIVED]);
    }
}
