//! The end that listens: it receives messages from any client, several at a time, until it is
//! stopped.
//!
//! Each connection has a thread of its own, so a client that sends nothing, or vanishes in the
//! middle of a message, holds up no other.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use super::Sockets;
use super::admission::{Admission, Slot};
use super::control::{Control, Lines, Listener};
use super::protocol::{
    CHALLENGE, FIRST_LINE, FIRST_MAX_BYTES, LINE_MAX_BYTES, MAGIC, Reply, Request, answer,
};
use super::session::Session;
use super::waiting::{Waiter, Waiting};
use super::workload::{What, Workload};
use super::{Address, Outcome, Refusal, ThisEnd, between, token};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// How long a sender may take for the token and its request.
const GREETING: Duration = Duration::from_secs(10);
/// How often to check for a new connection, and the pause after a failure to accept one.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Only this many refused connections are reported in this time; the others are counted.
const REFUSALS_TIME: Duration = Duration::from_secs(10);
const REFUSALS_MAX: u64 = 10;

/// The end that listens.
#[derive(Debug)]
pub struct Receiver {
    listener: Listener,
    token: Option<String>,
    pub(super) sockets: Sockets,
    pub(super) this_end: ThisEnd,
    admission: Admission,
    waiting: Waiting,
    refusals: Mutex<Refusals>,
    served: AtomicU64,
}

/// Connections that were refused since a time.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    count: u64,
}

/// What the user should know.
#[derive(Debug)]
pub enum Event {
    /// A sender that is refused, and why.
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
        what: What,
    },
    /// A client that has ended.
    Ended(Box<Served>),
    /// A failure at this end that no client learns of.
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
    /// What it sent, and what this end measured.
    pub outcome: Outcome,
}

/// Why a connection is not served.
pub(super) enum Rejection {
    /// It is not a costof, or sends nothing: it learns nothing about this end.
    Stranger(String),
    /// The sender gets the reason.
    Refused(Refusal),
}

/// Called with every event.
pub(super) type Observer<'a> = &'a (dyn Fn(Event) + Sync);

impl Receiver {
    /// Listens for up to `clients_most` clients at the same time, whose messages come to a port of
    /// the range `data_ports`, or to any port if both are 0. Senders must prove that they have the
    /// token, if there is one.
    ///
    /// # Errors
    /// If it cannot listen at this address.
    pub fn open(
        address: &Address,
        token: Option<String>,
        clients_most: usize,
        sockets: Sockets,
    ) -> Result<Receiver, Refusal> {
        let listener = Listener::open(address)
            .map_err(|error| Refusal::Wrong(format!("cannot listen at {address}: {error}")))?;
        Ok(Receiver {
            listener,
            token,
            sockets,
            this_end: ThisEnd::new(),
            admission: Admission::new(clients_most as u64),
            waiting: Waiting::default(),
            refusals: Mutex::new(Refusals { since: Instant::now(), count: 0 }),
            served: AtomicU64::new(0),
        })
    }

    /// The address at which it listens, with the port that the kernel chose where any was asked
    /// for.
    pub fn address(&self) -> Address {
        self.listener.address.clone()
    }

    /// Serves until `stop` is set; then asks the clients to end.
    pub fn serve(&self, stop: &AtomicBool, observe: Observer<'_>) {
        scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                self.count_refusals(REFUSALS_TIME, observe);
                let control = match self.listener.accept() {
                    Ok(control) => control,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        sleep(POLL_INTERVAL);
                        continue;
                    }
                    // It has gone before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    Err(error) => {
                        observe(Event::Trouble(format!("cannot accept a connection: {error}")));
                        sleep(AFTER_FAILURE);
                        continue;
                    }
                };
                let (waiter, gives_way) = self.waiting.enter(control);
                if let Some(control) = gives_way {
                    // A costof that is only slow learns why. The socket has room for that.
                    let _ = control.send(&Reply::refused(&Refusal::Nothing(TOO_MANY.to_owned())));
                    control.hang_up();
                }
                // If no thread can be started, its place is given back, too.
                let started = Builder::new()
                    .spawn_scoped(scope, move || self.connected(waiter, stop, observe));
                if let Err(error) = started {
                    observe(Event::Trouble(format!("cannot start a thread: {error}")));
                }
            }
        });
        self.count_refusals(Duration::ZERO, observe);
    }

    /// Serves a connection if it is admitted.
    fn connected(&self, waiter: Waiter<'_>, stop: &AtomicBool, observe: Observer<'_>) {
        let control = &Arc::clone(&waiter.control);
        let mut lines = Lines::new(control);
        let rejection = match self.admitted(&mut lines, &waiter, stop) {
            Ok((workload, _slot)) => {
                drop(waiter);
                let session = Session {
                    receiver: self,
                    client: self.served.fetch_add(1, Ordering::AcqRel) + 1,
                    control,
                    workload,
                };
                session.serve(&mut lines, stop, observe).err()
            }
            Err(_) if waiter.gave_way() => Some(Rejection::Stranger(TOO_MANY.to_owned())),
            Err(rejection) => {
                rejection.tell(control);
                Some(rejection)
            }
        };
        if let Some(rejection) = rejection {
            self.refused(control.peer.clone(), rejection.reason(), observe);
        }
    }

    /// Reports a connection that was refused, unless there were many.
    fn refused(&self, from: String, because: String, observe: Observer<'_>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count += 1;
        if refusals.count <= REFUSALS_MAX {
            observe(Event::Refused { from, because });
        }
    }

    /// Reports how many were refused without a report, after this time.
    fn count_refusals(&self, after: Duration, observe: Observer<'_>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.since.elapsed() < after {
            return;
        }
        let more = refusals.count.saturating_sub(REFUSALS_MAX);
        *refusals = Refusals { since: Instant::now(), count: 0 };
        // Must not be held: a terminal that does not read would keep others from connecting.
        drop(refusals);
        if more > 0 {
            let what = if more == 1 { "connection was" } else { "connections were" };
            observe(Event::Trouble(format!("{more} more {what} refused")));
        }
    }

    /// What a sender will send, if it has the token and there is room for one more client; takes
    /// that room.
    fn admitted(
        &self,
        lines: &mut Lines<'_>,
        waiter: &Waiter<'_>,
        stop: &AtomicBool,
    ) -> Result<(Workload, Slot<'_>), Rejection> {
        let until = Instant::now() + GREETING;
        let wanted = || !stop.load(Ordering::Acquire) && Instant::now() < until;
        let first = lines.next(FIRST_MAX_BYTES, wanted)?;
        check_first_line(&first)?;
        let challenge = format!("{CHALLENGE}{}", token()?);
        waiter.control.write(format!("{challenge}\n").as_bytes())?;
        let answer = lines.next(FIRST_MAX_BYTES, wanted)?;
        self.check_answer(&challenge, &answer)?;
        waiter.has_token();
        let workload = match lines.message(LINE_MAX_BYTES, wanted)? {
            Request::Will { asked, place } => asked.over(&between(&place, &self.this_end.place)),
            Request::Done { .. } | Request::Failed { .. } => None,
        };
        let workload = workload.ok_or_else(|| Rejection::wrong(OTHER_RELEASE))?;
        let is_unix = matches!(self.listener.address, Address::Unix(_));
        if is_unix != workload.is_unix() {
            return Err(Rejection::wrong("Unix sockets need unix:PATH"));
        }
        workload.check().map_err(|failure| Rejection::wrong(&failure.reason))?;
        let slot = self.admission.client(workload.held_bytes());
        Ok((workload, slot.map_err(Rejection::Refused)?))
    }

    fn check_answer(&self, challenge: &str, given: &[u8]) -> Result<(), Rejection> {
        match &self.token {
            Some(_) if given.is_empty() => Err(Rejection::wrong(
                "the sender has no token: --token or COSTOF_TOKEN as the receiver shows it, or \
                 --open there",
            )),
            Some(own) if !is_same(answer(Some(own), challenge).as_bytes(), given) => {
                Err(Rejection::wrong(
                    "the sender has another token than the receiver, which generates a new one each \
                 time unless it gets one (--token, --token-file, COSTOF_TOKEN)",
                ))
            }
            _ => Ok(()),
        }
    }
}

const OTHER_RELEASE: &str =
    "sender and receiver are different releases of costof (use the same one at both ends)";

fn check_first_line(first: &[u8]) -> Result<(), Rejection> {
    if first == FIRST_LINE.as_bytes() {
        return Ok(());
    }
    Err(if first.starts_with(MAGIC.as_bytes()) {
        Rejection::wrong(OTHER_RELEASE)
    } else {
        Rejection::Stranger("it is not a `costof send`".to_owned())
    })
}

const TOO_MANY: &str = "too many connections waited at the receiver (try again)";

impl Rejection {
    /// Tells the sender, if it is a costof.
    pub(super) fn tell(&self, control: &Control) {
        if let Rejection::Refused(refusal) = self
            && control.send(&Reply::refused(refusal)).is_ok()
        {
            control.end();
        }
    }

    fn reason(self) -> String {
        match self {
            Rejection::Stranger(reason)
            | Rejection::Refused(Refusal::Wrong(reason) | Refusal::Nothing(reason)) => reason,
        }
    }

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

pub(super) const UNEXPECTED: &str = "unexpected message (is it a `costof send` of this release?)";

/// Whether two answers are the same, in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
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
