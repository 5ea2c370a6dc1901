//! The end that listens (`costof send --listen`): each caller that has the token gets a worker of its
//! own, several at a time, until it is stopped.
//!
//! Each connection has a thread of its own, so a caller that sends nothing, or vanishes in the middle of
//! a message, holds up no other.

#[cfg(feature = "fuzzing")]
#[path = "listening/tests/fuzzing.rs"]
pub(crate) mod fuzzing;
mod listener;
mod session;
mod waiting;

use crate::address::Address;
use crate::call::{CHALLENGE, Connection, FIRST_LINE, FIRST_MAX_BYTES, Lines, MAGIC, answer};
use crate::host::WorkerCommand;
use crate::worker::{Lost, Place, Worker};
use costof_model::protocol::Answer;
use costof_model::{Failure, Launch, Noise, Report, counted, display_bytes};
use costof_os::random;
use listener::Listener;
use session::{LIMIT, Session, Stage, Stop};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};
use waiting::{Waiter, Waiting};

/// How long a caller may take to prove that it has the token.
const GREETING: Duration = Duration::from_secs(10);
/// How often to check for a new connection, and the pause after a failure to accept one.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Only this many refused connections are reported in this time; the others are counted.
const REFUSALS_TIME: Duration = Duration::from_secs(10);
const REFUSALS_MAX: u64 = 10;
/// The most memory of all clients together at this end.
const MEMORY_MAX_BYTES: u64 = 4 << 30;

const OTHER_RELEASE: &str =
    "sender and receiver are different releases of costof (use the same one at both ends)";
const TOO_MANY: &str = "too many connections waited at the receiver (try again)";

/// The end that listens.
#[derive(Debug)]
pub struct Listening {
    listener: Listener,
    /// Callers must prove that they have it, if there is one.
    token: Option<String>,
    max_clients: usize,
    sockets: Sockets,
    command: WorkerCommand,
    allowed: Allowed,
    waiting: Waiting,
    refusals: Mutex<Refusals>,
    served: AtomicU64,
    held: Mutex<Held>,
}

/// Which launches callers may have; about how much memory such a one needs, in bytes, or why not.
pub type Allowed = fn(&Launch) -> Result<u64, Failure>;

/// What the user has set for the sockets at which roles listen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets {
    /// The first and the last port; 0 and 0 for any.
    pub ports: (u16, u16),
    /// How many bytes the queue of a socket for datagrams may hold (SO_RCVBUF).
    pub receive_buffer: Option<u64>,
}

/// Connections that were refused since a time.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    count: u64,
}

/// What the clients hold: their number, and the memory that they were promised.
#[derive(Debug, Default)]
struct Held {
    clients: usize,
    bytes: u64,
}

/// What the user should know.
#[derive(Debug)]
pub enum Event {
    /// A caller that is refused, and why.
    Refused {
        /// Its address.
        from: String,
        /// Why.
        because: String,
    },
    /// A client that begins to send by hand.
    Began {
        /// Its number, from 1.
        client: u64,
        /// Its address.
        from: String,
        /// What it sends.
        launch: Box<Launch>,
    },
    /// A client that has sent by hand, and has ended.
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
    /// What it sent.
    pub launch: Launch,
    /// Why it ended before it was done.
    pub early: Option<String>,
    /// Why this end measured nothing.
    pub failure: Option<Failure>,
    /// What this end measured.
    pub report: Option<Report>,
    /// What disturbed that.
    pub noise: Noise,
}

/// Why a connection is not served.
enum Rejection {
    /// It is not a costof, or sends nothing: it learns nothing about this end.
    Stranger(String),
    /// The caller gets the reason.
    Refused(Failure),
}

/// Called with every event.
pub type Observer<'a> = &'a (dyn Fn(Event) + Sync);

impl Listening {
    /// Listens for up to `max_clients` callers at the same time, which get workers by `command`.
    ///
    /// # Errors
    /// If it cannot listen at this address.
    pub fn open(
        address: &Address,
        token: Option<String>,
        max_clients: usize,
        sockets: Sockets,
        (command, allowed): (WorkerCommand, Allowed),
    ) -> Result<Listening, String> {
        let listener = Listener::open(address);
        Ok(Listening {
            listener: listener.map_err(|error| format!("cannot listen at {address}: {error}"))?,
            token,
            max_clients,
            sockets,
            command,
            allowed,
            waiting: Waiting::default(),
            refusals: Mutex::new(Refusals { since: Instant::now(), count: 0 }),
            served: AtomicU64::new(0),
            held: Mutex::default(),
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
                let connection = match self.listener.accept() {
                    Ok(connection) => connection,
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
                let (waiter, gives_way) = self.waiting.enter(connection);
                if let Some(connection) = gives_way {
                    // A costof that is only slow learns why. The socket has room for that.
                    let _ = connection.send(&Answer::Failed(Failure::error(TOO_MANY)));
                    connection.hang_up();
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
        let connection = &Arc::clone(&waiter.connection);
        let mut lines = Lines::new(connection);
        match self.admitted(&mut lines, &waiter, stop) {
            Ok((slot, worker)) => {
                drop(waiter);
                let session = Session {
                    listening: self,
                    client: self.served.fetch_add(1, Ordering::AcqRel) + 1,
                    connection,
                    lines,
                    worker,
                    slot,
                    stop: Stop::new(stop),
                    observe,
                    stage: Stage::default(),
                    launch: None,
                    failure: None,
                    early: None,
                };
                session.serve();
            }
            Err(_) if waiter.gave_way() => self.refused(connection, TOO_MANY.to_owned(), observe),
            Err(Rejection::Stranger(reason)) => self.refused(connection, reason, observe),
            Err(Rejection::Refused(failure)) => {
                if connection.send(&Answer::Failed(failure.clone())).is_ok() {
                    connection.end();
                }
                self.refused(connection, failure.reason, observe);
            }
        }
    }

    /// Reports a connection that was refused, unless there were many.
    fn refused(&self, connection: &Connection, because: String, observe: Observer<'_>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.count += 1;
        if refusals.count <= REFUSALS_MAX {
            observe(Event::Refused { from: connection.peer.clone(), because });
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

    /// A place and a worker for a caller, if it has the token and there is room for one more.
    fn admitted(
        &self,
        lines: &mut Lines<'_>,
        waiter: &Waiter<'_>,
        stop: &AtomicBool,
    ) -> Result<(Slot<'_>, Worker), Rejection> {
        self.greeted(lines, &waiter.connection, stop)?;
        waiter.has_token();
        let slot = Slot::take(&self.held, self.max_clients).ok_or_else(|| {
            Rejection::Refused(Failure::error(format!(
                "the receiver serves {}, and no more (--max-clients there; a run by `--peer` counts as two)",
                counted(self.max_clients, "client")
            )))
        })?;
        let worker = Worker::start(&Place::LOCAL, &self.command, LIMIT, stop);
        let worker = worker.map_err(|lost| match lost {
            Lost::Failed(_, failure) => Rejection::Refused(failure),
            Lost::Interrupted => Rejection::Stranger("this end was stopped".to_owned()),
        })?;
        Ok((slot, worker))
    }

    /// Lets a caller prove that it has the token.
    fn greeted(
        &self,
        lines: &mut Lines<'_>,
        connection: &Connection,
        stop: &AtomicBool,
    ) -> Result<(), Rejection> {
        let until = Instant::now() + GREETING;
        let wanted = || !stop.load(Ordering::Acquire) && Instant::now() < until;
        let wrong = |reason: &str| Err(Rejection::Refused(Failure::unsupported(reason)));
        let first = lines.next(FIRST_MAX_BYTES, wanted)?;
        if first.starts_with(MAGIC.as_bytes()) && first != FIRST_LINE.as_bytes() {
            return wrong(OTHER_RELEASE);
        } else if first != FIRST_LINE.as_bytes() {
            return Err(Rejection::Stranger("it is not a `costof send`".to_owned()));
        }
        let challenge = format!("{CHALLENGE}{}", random::digits()?);
        connection.write(format!("{challenge}\n").as_bytes())?;
        let given = lines.next(FIRST_MAX_BYTES, wanted)?;
        match &self.token {
            Some(_) if given.is_empty() => wrong(
                "the sender has no token: --token or COSTOF_TOKEN as the receiver shows it, or --open \
                 there",
            ),
            Some(own) if !is_same(answer(Some(own), &challenge).as_bytes(), &given) => wrong(
                "the sender has another token than the receiver, which generates a new one each time \
                 unless it gets one (--token, --token-file, COSTOF_TOKEN)",
            ),
            _ => Ok(()),
        }
    }
}

/// A client's place, and its memory, until this is dropped.
struct Slot<'a> {
    held: &'a Mutex<Held>,
    bytes: u64,
}

impl<'a> Slot<'a> {
    /// A place for one more client, if there is one.
    fn take(held: &'a Mutex<Held>, max_clients: usize) -> Option<Slot<'a>> {
        let mut all = held.lock().unwrap_or_else(PoisonError::into_inner);
        if all.clients >= max_clients {
            return None;
        }
        all.clients += 1;
        Some(Slot { held, bytes: 0 })
    }

    /// Promises memory to the client, instead of what it was promised before.
    fn promise(&mut self, bytes: u64) -> Result<(), Failure> {
        let (wants, most) = (display_bytes(bytes), display_bytes(MEMORY_MAX_BYTES));
        let mut all = self.held();
        let others = all.bytes - self.bytes;
        if bytes > MEMORY_MAX_BYTES {
            return Err(Failure::unsupported(format!(
                "this would take {wants} of the receiver's memory, and {most} are the most (fewer \
                 threads, a smaller size or working_set)"
            )));
        }
        if others + bytes > MEMORY_MAX_BYTES {
            return Err(Failure::error(format!(
                "this would take {wants} of the receiver's memory, of which other clients have {}, and \
                 {most} are the most (later, or fewer threads, a smaller size or working_set)",
                display_bytes(others)
            )));
        }
        all.bytes = others + bytes;
        drop(all);
        self.bytes = bytes;
        Ok(())
    }

    fn held(&self) -> MutexGuard<'a, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut held = self.held();
        held.clients -= 1;
        held.bytes -= self.bytes;
    }
}

/// A failure to read the greeting.
impl From<io::Error> for Rejection {
    fn from(error: io::Error) -> Rejection {
        Rejection::Stranger(match error.kind() {
            ErrorKind::Interrupted => "it sent nothing in time".to_owned(),
            ErrorKind::InvalidData => "it sent too long a line".to_owned(),
            ErrorKind::UnexpectedEof => {
                "it closed the connection before it sent anything".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

/// Whether two answers are the same, in a time that does not depend on where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::failure::FailureKind;

    #[test]
    fn tokens_are_the_same_or_not() {
        assert!(is_same(b"abc", b"abc"));
        for other in [&b"abd"[..], b"ab", b"abcd", b""] {
            assert!(!is_same(b"abc", other));
        }
    }

    #[test]
    fn a_client_is_promised_what_it_holds_and_gives_it_back() {
        let held = Mutex::default();
        let half = MEMORY_MAX_BYTES / 2;
        let kind = |slot: &mut Slot<'_>, bytes| slot.promise(bytes).err().map(|why| why.kind);
        let mut first = Slot::take(&held, 2).expect("there is room");
        let mut second = Slot::take(&held, 2).expect("there is room");
        assert!(Slot::take(&held, 2).is_none());
        assert_eq!(kind(&mut first, MEMORY_MAX_BYTES + 1), Some(FailureKind::Unsupported));
        assert_eq!(kind(&mut first, half + 1), None);
        // A refused client has got nothing.
        assert_eq!(kind(&mut second, half), Some(FailureKind::Error));
        assert_eq!(kind(&mut second, half - 1), None);
        // Another launch of the same client.
        assert_eq!(kind(&mut first, half), None);
        drop(first);
        assert_eq!(kind(&mut second, MEMORY_MAX_BYTES), None);
        let panicked = std::panic::catch_unwind(|| {
            let _slot = Slot::take(&held, 2);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert!(Slot::take(&held, 2).is_some());
    }
}
