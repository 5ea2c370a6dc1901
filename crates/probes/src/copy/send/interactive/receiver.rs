//! The end that listens: it receives what any client sends, several at a time, until it is stopped.
//!
//! Each connection has a thread of its own, so that one that sends nothing, or goes in the middle of a
//! message, holds up nobody.

use super::admission::{Admission, Slot, held_bytes};
use super::control::{Control, Lines, Listener};
use super::protocol::{FIRST_MOST_BYTES, LINE_MOST_BYTES, Reply, Request, token_of};
use super::{
    Address, Outcome, Refusal, ThisEnd, between, empty_report, info, point, printable, token,
    watch_link_end,
};
use crate::copy::send::axes::{CopySend, Over, check};
use crate::copy::send::roles::Receiving as Role;
use costof_measure::probe::RoleAt;
use costof_model::failure::{Failure, OrFailure};
use costof_model::point::Point;
use costof_model::protocol::{Offers, Report};
use costof_model::typed::At;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// How long a sender has for the token and for what it will send.
const GREETING: Duration = Duration::from_secs(10);
/// How long a sender has to end when it is asked to.
const ENDING: Duration = Duration::from_secs(3);
/// How often it is checked whether somebody connects, and how long nobody is accepted after a failure.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The end that listens.
#[derive(Debug)]
pub struct Receiver {
    listener: Listener,
    token: Option<String>,
    data_ports: (u16, u16),
    this_end: ThisEnd,
    admission: Admission,
    served: AtomicU64,
}

/// What the user is to know.
#[derive(Debug)]
pub enum Event {
    /// A sender that is not served, and why.
    Refused {
        /// Its address.
        from: String,
        /// Why.
        because: String,
    },
    /// A client that begins to send.
    Began {
        /// Its number, from 1.
        client: u64,
        /// Its address.
        from: String,
        /// What it sends.
        point: Point,
    },
    /// A client that has ended.
    Ended(Box<Served>),
    /// Something went wrong here that no client learns of.
    Trouble(String),
}

/// What a client did.
#[derive(Debug)]
pub struct Served {
    /// Its number, from 1.
    pub client: u64,
    /// Its address.
    pub from: String,
    /// Why it ended before it was done.
    pub early: Option<String>,
    /// What it sent, and this end's half of what was measured.
    pub outcome: Outcome,
}

/// How a session ended.
enum End {
    Done,
    Early(String),
    Gone(String),
}

/// Why a connection is not served.
enum Rejection {
    /// It is not from a costof, or sends nothing: it learns nothing of what listens.
    Stranger(String),
    /// The sender gets the reason.
    Refused(Refusal),
}

/// Called with everything that happens.
type Observer<'a> = &'a (dyn Fn(Event) + Sync);

impl Receiver {
    /// Listens for so many clients at a time, whose messages come to ports between these, or any where
    /// they are 0. Senders must send the token, if there is one.
    ///
    /// # Errors
    /// Why nobody can listen there.
    pub fn open(
        address: &Address,
        token: Option<String>,
        clients_most: usize,
        data_ports: (u16, u16),
    ) -> Result<Receiver, Refusal> {
        let listener = Listener::open(address)
            .map_err(|error| Refusal::Wrong(format!("cannot listen at {address}: {error}")))?;
        Ok(Receiver {
            listener,
            token,
            data_ports,
            this_end: ThisEnd::new(),
            admission: Admission::new(clients_most as u64),
            served: AtomicU64::new(0),
        })
    }

    /// Where it listens: at which port, where it was to be any.
    pub fn address(&self) -> Address {
        self.listener.address.clone()
    }

    /// Serves until `stop` is set; clients that are served then are asked to end.
    pub fn serve(&self, stop: &AtomicBool, observe: Observer<'_>) {
        scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                let control = match self.listener.accept() {
                    Ok(control) => control,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        sleep(POLL_INTERVAL);
                        continue;
                    }
                    // It has gone before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    Err(error) => {
                        observe(Event::Trouble(format!(
                            "cannot accept a connection: {error}"
                        )));
                        sleep(AFTER_FAILURE);
                        continue;
                    }
                };
                let Some(place) = self.admission.caller() else {
                    continue;
                };
                // Also where no thread can be started, its place is given back.
                let started = Builder::new().spawn_scoped(scope, move || {
                    let _place = place;
                    self.connected(&control, stop, observe);
                });
                if let Err(error) = started {
                    observe(Event::Trouble(format!("cannot start a thread: {error}")));
                }
            }
        });
    }

    /// Serves a connection if it may be.
    fn connected(&self, control: &Control, stop: &AtomicBool, observe: Observer<'_>) {
        let mut lines = Lines::new(control);
        let served = self.admitted(&mut lines, stop).and_then(|(point, _slot)| {
            let session = Session {
                receiver: self,
                client: self.served.fetch_add(1, Ordering::AcqRel) + 1,
                control,
                point,
            };
            session.serve(&mut lines, stop, observe)
        });
        let because = match served {
            Ok(()) => return,
            Err(Rejection::Stranger(because)) => because,
            Err(Rejection::Refused(refusal)) => {
                let wrong = matches!(refusal, Refusal::Wrong(_));
                let (Refusal::Wrong(reason) | Refusal::Nothing(reason)) = refusal;
                let reply = Reply::Refused {
                    reason: reason.clone(),
                    wrong,
                };
                if control.send(&reply).is_ok() {
                    control.end();
                }
                reason
            }
        };
        let from = control.peer.clone();
        observe(Event::Refused { from, because });
    }

    /// What a sender will send, if it has sent the token and there is room for one more client, which
    /// is taken.
    fn admitted(
        &self,
        lines: &mut Lines<'_>,
        stop: &AtomicBool,
    ) -> Result<(At<CopySend>, Slot<'_>), Rejection> {
        let until = Instant::now() + GREETING;
        let wanted = || !stop.load(Ordering::Acquire) && Instant::now() < until;
        let first = lines.next(FIRST_MOST_BYTES, wanted)?;
        self.check_token(&first)?;
        let (axes, place) = match lines.message(LINE_MOST_BYTES, wanted)? {
            Request::Will {
                method,
                axes,
                place,
            } if method == info().method && info().allows(&axes) => (axes, place),
            Request::Will { .. } | Request::Done { .. } | Request::Failed { .. } => {
                return Err(Rejection::wrong(
                    "sender and receiver are different releases of costof (use the same one at both \
                     ends)",
                ));
            }
        };
        let point = point(&axes, &between(&self.this_end.place, &place));
        let is_unix = matches!(self.listener.address, Address::Unix(_));
        if is_unix != (point.over == Over::Unix) {
            return Err(Rejection::wrong("Unix sockets go with unix:PATH alone"));
        }
        check(&point).map_err(|failure| Rejection::wrong(&failure.reason))?;
        let slot = self.admission.client(held_bytes(&point));
        Ok((point, slot.map_err(Rejection::Refused)?))
    }

    fn check_token(&self, first: &[u8]) -> Result<(), Rejection> {
        let token = token_of(first)
            .ok_or_else(|| Rejection::Stranger("it is no `costof send`".to_owned()))?;
        match &self.token {
            Some(_) if token.is_empty() => Err(Rejection::wrong(
                "the sender has sent no token: --token or COSTOF_TOKEN as the receiver shows it, or \
                 --open there",
            )),
            Some(own) if !is_same(own.as_bytes(), token) => Err(Rejection::wrong(
                "the sender has another token than the receiver, which generates a new one each \
                 time unless it gets one (--token, --token-file, COSTOF_TOKEN)",
            )),
            _ => Ok(()),
        }
    }
}

impl Rejection {
    fn wrong(reason: &str) -> Rejection {
        Rejection::Refused(Refusal::Wrong(reason.to_owned()))
    }
}

/// A failure to read the greeting.
impl From<io::Error> for Rejection {
    fn from(error: io::Error) -> Rejection {
        Rejection::Stranger(match error.kind() {
            ErrorKind::Interrupted => "it sent nothing in time".to_owned(),
            ErrorKind::InvalidData => UNEXPECTED.to_owned(),
            ErrorKind::UnexpectedEof => {
                "it closed the connection before it sent anything".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

const UNEXPECTED: &str = "unexpected message (is it a `costof send` of this release?)";

/// Whether two tokens are the same, in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// A client that is served.
struct Session<'a> {
    receiver: &'a Receiver,
    client: u64,
    control: &'a Control,
    point: At<CopySend>,
}

impl Session<'_> {
    fn serve(
        self,
        lines: &mut Lines<'_>,
        stop: &AtomicBool,
        observe: Observer<'_>,
    ) -> Result<(), Rejection> {
        let this_end = &self.receiver.this_end;
        let (mut role, offers, token) = self
            .prepare()
            .map_err(|failure| Rejection::Refused(Refusal::Nothing(failure.reason)))?;
        let from = self.control.peer.clone();
        observe(Event::Began {
            client: self.client,
            from: from.clone(),
            point: Point::from(&self.point),
        });
        let link_end = watch_link_end("receiver", self.control.local);
        let begin = Reply::Begin {
            offers,
            token,
            place: this_end.place.clone(),
        };
        let enough = AtomicBool::new(false);
        let (measured, end) = scope(|scope| {
            let running = scope.spawn(|| this_end.measure(&mut role, &self.point, &enough));
            let end = match self.control.send(&begin) {
                Ok(()) => self.until_done(lines, stop, || running.is_finished()),
                Err(error) => End::Gone(error.to_string()),
            };
            enough.store(true, Ordering::Release);
            let bug = |_| Err(Failure::error("the receiver has a bug: it panicked"));
            (running.join().unwrap_or_else(bug), end)
        });
        let bytes = role.arrived_bytes;
        if !matches!(end, End::Gone(_)) {
            let report = measured.clone();
            // A sender that does not read it any more has gone after all was done.
            if self.control.send(&Reply::Arrived { report, bytes }).is_ok() {
                self.control.end();
            }
        }
        let run =
            |report: Report| this_end.run(&self.point, vec![report, empty_report()], link_end());
        observe(Event::Ended(Box::new(Served {
            client: self.client,
            from,
            early: match end {
                End::Done => None,
                End::Early(why) | End::Gone(why) => Some(why),
            },
            outcome: Outcome {
                point: Point::from(&self.point),
                messages: bytes / self.point.size,
                arrived_bytes: bytes,
                measured: measured.and_then(run),
            },
        })));
        Ok(())
    }

    /// The role, where the sender can connect to it, and by which token.
    fn prepare(&self) -> Result<(Role, Offers, String), Failure> {
        let token = token().or_fail("no random bytes for a token")?;
        let Receiver {
            this_end,
            data_ports,
            ..
        } = self.receiver;
        let address = self.control.local;
        let launch = this_end.launch("receiver", &self.point, address, *data_ports, token.clone());
        let mut role = Role::start(&launch, true)?;
        let offers = role.prepare(&self.point, &Offers::new())?;
        Ok((role, offers, token))
    }

    /// Waits until the sender is done, has gone, or has been asked to end and does not; or until nothing
    /// more is received.
    fn until_done(
        &self,
        lines: &mut Lines<'_>,
        stop: &AtomicBool,
        has_failed: impl Fn() -> bool,
    ) -> End {
        let mut until: Option<Instant> = None;
        loop {
            let request = lines.message(LINE_MOST_BYTES, || match until {
                Some(until) => Instant::now() < until,
                None => !stop.load(Ordering::Acquire) && !has_failed(),
            });
            return match request {
                Ok(Request::Done { .. }) if stop.load(Ordering::Acquire) => {
                    End::Early("this end was stopped".to_owned())
                }
                Ok(Request::Done { .. }) => End::Done,
                Ok(Request::Failed { reason }) => End::Early(printable(&reason)),
                Ok(Request::Will { .. }) => End::Gone(UNEXPECTED.to_owned()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if until.is_none() && self.control.send(&Reply::End).is_ok() {
                        until = Some(Instant::now() + ENDING);
                        continue;
                    }
                    End::Early("it did not end in time".to_owned())
                }
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    End::Gone(UNEXPECTED.to_owned())
                }
                Err(_) => End::Gone("it closed the connection before the end".to_owned()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_same_or_not() {
        assert!(is_same(b"abc", b"abc"));
        for other in [&b"abd"[..], b"ab", b"abcd", b""] {
            assert!(!is_same(b"abc", other));
        }
    }
}
