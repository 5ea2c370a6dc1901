//! The end that listens: it takes in what any client sends, several at a time, until it is stopped.
//!
//! Each caller has a thread of its own, so that one that says nothing, or goes in the midst of a
//! message, holds up nobody.

use super::channel::{Channel, Lines};
use super::words::{self, Answer, FIRST_MOST_BYTES, LINE_MOST_BYTES, Said};
use super::{Address, Ends, Instruments, Refusal, between, nothing, point, shown, token};
use crate::copy::send::axes::{CopySend, Over, Pattern};
use crate::copy::send::roles::Receiving;
use crate::copy::send::{PROBE, check};
use costof_measure::clock;
use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Measure, RoleAt};
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::point::Point;
use costof_model::protocol::{Meeting, Offers, Report};
use costof_model::run_file::Run;
use costof_model::typed::At;
use costof_model::unit::display_bytes;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// How long a caller has to say the token and what it will send.
const GREETING: Duration = Duration::from_secs(10);
/// How long a sender has to come to an end when it is told to.
const ENDING: Duration = Duration::from_secs(3);
/// How often it is looked whether somebody calls, and how long nobody is accepted after a failure.
const LOOK: Duration = Duration::from_millis(10);
const TROUBLE: Duration = Duration::from_secs(1);
/// How many callers there may be beside the clients that are served: if they are more, the last one
/// is dropped.
const CALLERS_MOST: usize = 64;
/// What may be asked of this end's memory by all clients that are served.
const MEMORY_MOST_BYTES: u64 = 4 << 30;

/// The end that listens.
#[derive(Debug)]
pub struct Receiver {
    listener: Listener,
    token: Option<String>,
    clients_most: usize,
    data_ports: (u16, u16),
    instruments: Instruments,
    clients: AtomicU64,
    /// What the clients that are served were promised of its memory.
    promised_bytes: AtomicU64,
    callers: AtomicU64,
    served: AtomicU64,
}

#[derive(Debug)]
enum Listener {
    Ip(TcpListener, Address),
    Unix(UnixListener, PathBuf),
}

/// What is to be told.
#[derive(Debug)]
pub enum Heard {
    /// One that is not served, and why.
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
    /// Something went wrong here that the clients do not hear of.
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
    pub point: Point,
    /// Messages that have come whole.
    pub messages: u64,
    /// Payload that has come, in bytes.
    pub bytes: u64,
    /// Why it ended before it was done.
    pub early: Option<String>,
    /// This end's half of what was measured.
    pub measured: Result<Run, Failure>,
}

/// How a conversation came to its end.
enum End {
    Done,
    Early(String),
    Gone(String),
}

impl Receiver {
    /// Listens for so many clients at a time, whose messages come to ports between these, or any where
    /// they are 0. Whoever calls must say the token, if there is one.
    ///
    /// # Errors
    /// Why nobody can listen there.
    pub fn open(
        address: &Address,
        token: Option<String>,
        clients_most: usize,
        data_ports: (u16, u16),
    ) -> Result<Receiver, Refusal> {
        let listener = match address {
            Address::Ip(host, port) => listen(host, *port),
            Address::Unix(path) => listen_at(path),
        };
        let listener = listener
            .map_err(|error| Refusal::Wrong(format!("cannot listen at {address}: {error}")))?;
        Ok(Receiver {
            listener,
            token,
            clients_most,
            data_ports,
            instruments: Instruments::new(),
            clients: AtomicU64::new(0),
            promised_bytes: AtomicU64::new(0),
            callers: AtomicU64::new(0),
            served: AtomicU64::new(0),
        })
    }

    /// Where it listens: at which port, where it was to be any.
    pub fn address(&self) -> Address {
        match &self.listener {
            Listener::Ip(_, address) => address.clone(),
            Listener::Unix(_, path) => Address::Unix(path.clone()),
        }
    }

    /// Serves until `stop` is set, and whoever is served then is told to come to an end.
    pub fn serve(&self, stop: &AtomicBool, hear: &(dyn Fn(Heard) + Sync)) {
        scope(|scope| {
            while !stop.load(Ordering::Acquire) {
                let channel = match self.accept() {
                    Ok(channel) => channel,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        sleep(LOOK);
                        continue;
                    }
                    // One that has gone before it was accepted.
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    Err(error) => {
                        hear(Heard::Trouble(format!("cannot take a call: {error}")));
                        sleep(TROUBLE);
                        continue;
                    }
                };
                let callers_most = (CALLERS_MOST + self.clients_most) as u64;
                let Ok(called) = Taken::of(&self.callers, 1, callers_most) else {
                    continue;
                };
                // Also where no thread can be started, its place is given back.
                let started = Builder::new().spawn_scoped(scope, move || {
                    let _called = called;
                    self.caller(channel, stop, hear);
                });
                if let Err(error) = started {
                    hear(Heard::Trouble(format!("cannot start a thread: {error}")));
                }
            }
        });
    }

    fn accept(&self) -> io::Result<Channel> {
        let channel = match &self.listener {
            Listener::Ip(listener, _) => Channel::Ip(listener.accept()?.0),
            Listener::Unix(listener, _) => Channel::Unix(listener.accept()?.0),
        };
        // Of one that has gone meanwhile: it is as if it had not come.
        channel
            .ready()
            .map_err(|_| ErrorKind::ConnectionAborted.into())
    }

    /// Hears one that calls, and serves it if it may be.
    fn caller(&self, mut channel: Channel, stop: &AtomicBool, hear: &(dyn Fn(Heard) + Sync)) {
        let from = channel.peer();
        let refused = |because: String| {
            hear(Heard::Refused {
                from: from.clone(),
                because,
            });
        };
        let mut lines = match channel.duplicate() {
            Ok(other) => Lines::of(other),
            Err(error) => return refused(error.to_string()),
        };
        match self.greeted(&mut lines, stop) {
            // The stranger learns nothing of who listens.
            Err(Stranger::IsNone(because)) => refused(because),
            Err(Stranger::Refused(reason, wrong)) => {
                let answer = Answer::Refused {
                    reason: reason.clone(),
                    wrong,
                };
                if channel.say(&answer).is_ok() {
                    channel.end();
                }
                refused(reason);
            }
            Ok((point, place, _slot)) => {
                let guest = Guest {
                    receiver: self,
                    client: self.served.fetch_add(1, Ordering::AcqRel) + 1,
                    from: from.clone(),
                    point,
                    place,
                };
                guest.serve(channel, lines, stop, hear);
            }
        }
    }

    /// What a caller will send, and where it is, if it has said the token and there is room for one
    /// more client, which is taken.
    fn greeted(
        &self,
        lines: &mut Lines,
        stop: &AtomicBool,
    ) -> Result<(At<CopySend>, words::Place, Slot<'_>), Stranger> {
        let until = Instant::now() + GREETING;
        let wanted = || !stop.load(Ordering::Acquire) && Instant::now() < until;
        let first = lines
            .next(FIRST_MOST_BYTES, wanted)
            .map_err(|error| Stranger::IsNone(greeting_failed(&error)))?;
        let token = words::token(&first)
            .ok_or_else(|| Stranger::IsNone("it is no `costof send`".to_owned()))?;
        match &self.token {
            Some(_) if token.is_empty() => {
                return Err(Stranger::wrong(
                    "the sender has said no token: --token or COSTOF_TOKEN as the receiver shows it, or \
                     --open there",
                ));
            }
            Some(mine) if !is_same(mine.as_bytes(), token) => {
                return Err(Stranger::wrong(
                    "the sender has another token than the receiver, which draws a new one each time \
                     unless it is told one (--token, --token-file, COSTOF_TOKEN)",
                ));
            }
            _ => {}
        }
        let said = lines
            .words(LINE_MOST_BYTES, wanted)
            .map_err(|error| Stranger::IsNone(greeting_failed(&error)))?;
        let (axes, place) = match said {
            Said::Will {
                method,
                axes,
                place,
            } if method == PROBE.info.method && PROBE.info.allows(&axes) => (axes, place),
            _ => {
                return Err(Stranger::wrong(
                    "the sender's costof sends otherwise than the receiver's (the same release at both \
                     ends)",
                ));
            }
        };
        let point = point(&axes, &between(&self.instruments.place, &place));
        let is_unix = matches!(self.listener, Listener::Unix(..));
        if is_unix != (point.over == Over::Unix) {
            return Err(Stranger::wrong("Unix sockets go with unix:PATH alone"));
        }
        check(&point).map_err(|failure| Stranger::Refused(failure.reason, true))?;
        let slot = self.slot(held_bytes(&point))?;
        Ok((point, place, slot))
    }

    /// Room for one more client, which holds so much memory.
    fn slot(&self, bytes: u64) -> Result<Slot<'_>, Stranger> {
        if bytes > MEMORY_MOST_BYTES {
            return Err(Stranger::Refused(
                format!(
                    "this would take {} of the receiver's memory, and {} are the most (fewer threads, \
                     a smaller size or working_set)",
                    display_bytes(bytes),
                    display_bytes(MEMORY_MOST_BYTES)
                ),
                true,
            ));
        }
        let client = Taken::of(&self.clients, 1, self.clients_most as u64);
        let client = client.map_err(|clients| {
            Stranger::Refused(
                format!("the receiver serves {clients} clients, and no more (--max-clients there)"),
                false,
            )
        })?;
        let memory = Taken::of(&self.promised_bytes, bytes, MEMORY_MOST_BYTES);
        let memory = memory.map_err(|promised| {
            Stranger::Refused(
                format!(
                    "this would take {} of the receiver's memory, of which the clients that it serves \
                     have {}, and {} are the most (later, or fewer threads, a smaller size or \
                     working_set)",
                    display_bytes(bytes),
                    display_bytes(promised),
                    display_bytes(MEMORY_MOST_BYTES)
                ),
                false,
            )
        })?;
        Ok(Slot {
            _client: client,
            _memory: memory,
        })
    }
}

/// How much memory this end holds for a client, about. Only answers are messages of its own.
fn held_bytes(point: &At<CopySend>) -> u64 {
    /// What a thread receives into, what it notes, and its bursts where it asks for them.
    const THREAD_BYTES: u64 = 24 << 20;
    if point.pattern == Pattern::Echo {
        return CopySend::memory_bytes(point);
    }
    // Of datagrams it knows what each begins with and whose it is: 24 bytes, of 64 or more.
    let begins = if point.over.is_udp() {
        point.size.saturating_mul(point.shape().count as u64) / 2
    } else {
        0
    };
    (point.threads as u64).saturating_mul(begins.saturating_add(THREAD_BYTES))
}

/// So many of something, until this is dropped: also where who has them panics.
#[derive(Debug)]
struct Taken<'a> {
    from: &'a AtomicU64,
    amount: u64,
}

impl<'a> Taken<'a> {
    /// Unless there were more than the most then: how many are taken already.
    fn of(from: &'a AtomicU64, amount: u64, most: u64) -> Result<Taken<'a>, u64> {
        let more = |taken: u64| taken.checked_add(amount).filter(|taken| *taken <= most);
        from.fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .map(|_| Taken { from, amount })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

/// The room of a client that is served.
#[derive(Debug)]
struct Slot<'a> {
    _client: Taken<'a>,
    _memory: Taken<'a>,
}

/// One that is not served.
enum Stranger {
    /// It is no costof, or says nothing.
    IsNone(String),
    /// It is told why, and whether what it asked is wrong.
    Refused(String, bool),
}

impl Stranger {
    fn wrong(reason: &str) -> Stranger {
        Stranger::Refused(reason.to_owned(), true)
    }
}

fn greeting_failed(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::Interrupted => "it has said nothing in time".to_owned(),
        ErrorKind::InvalidData => "it has said what no `costof send` says".to_owned(),
        ErrorKind::UnexpectedEof => "it has gone before it said anything".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether two tokens are the same, in a time that does not tell how far.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

/// A client that is served.
struct Guest<'a> {
    receiver: &'a Receiver,
    client: u64,
    from: String,
    point: At<CopySend>,
    place: words::Place,
}

impl Guest<'_> {
    fn serve(
        self,
        mut channel: Channel,
        mut lines: Lines,
        stop: &AtomicBool,
        hear: &(dyn Fn(Heard) + Sync),
    ) {
        let (mut receiving, offers, token, address) = match self.prepare(&channel) {
            Ok(prepared) => prepared,
            Err(failure) => {
                let reason = failure.reason.clone();
                let wrong = false;
                if channel.say(&Answer::Refused { reason, wrong }).is_ok() {
                    channel.end();
                }
                return hear(Heard::Refused {
                    from: self.from,
                    because: failure.reason,
                });
            }
        };
        hear(Heard::Began {
            client: self.client,
            from: self.from.clone(),
            point: Point::from(&self.point),
        });
        let ends = Ends::watch("receiver", address);
        let begin = Answer::Begin {
            offers,
            token,
            place: self.receiver.instruments.place.clone(),
        };
        let enough = AtomicBool::new(false);
        let (measured, end) = scope(|scope| {
            let running = scope.spawn(|| self.measure(&mut receiving, &enough));
            let end = match channel.say(&begin) {
                Ok(()) => until_done(&mut channel, &mut lines, stop, || running.is_finished()),
                Err(error) => End::Gone(error.to_string()),
            };
            enough.store(true, Ordering::Release);
            let bug = |_| Err(Failure::error("the receiver has a bug: it panicked"));
            (running.join().unwrap_or_else(bug), end)
        });
        let bytes = receiving.arrived_bytes;
        let is_gone = matches!(end, End::Gone(_));
        if !is_gone {
            let report = measured.clone();
            // One that does not hear it any more has gone after all was done.
            if channel.say(&Answer::Arrived { report, bytes }).is_ok() {
                channel.end();
            }
        }
        let run = |report| {
            let reports = vec![report, nothing()];
            self.receiver.instruments.run(&self.point, reports, ends())
        };
        hear(Heard::Ended(Box::new(Served {
            client: self.client,
            messages: bytes / self.point.size,
            bytes,
            early: match end {
                End::Done => None,
                End::Early(why) | End::Gone(why) => Some(why),
            },
            measured: measured.and_then(run),
            from: self.from,
            point: Point::from(&self.point),
        })));
    }

    /// The role, where it can be called, and by which token.
    fn prepare(&self, channel: &Channel) -> Result<(Receiving, Offers, String, IpAddr), Failure> {
        let failed = |error: io::Error| Failure::error(error.to_string());
        let (address, _) = channel.addresses().map_err(failed)?;
        let token = token().map_err(failed)?;
        let meeting = Meeting {
            address,
            ports: self.receiver.data_ports,
            token: token.clone(),
            apart: between(&self.receiver.instruments.place, &self.place) == Link::Remote,
            sink: None,
        };
        let instruments = &self.receiver.instruments;
        let launch = instruments.launch(&self.point, "receiver", meeting);
        let mut receiving = Receiving::by_hand(&launch)?;
        let offers = receiving.prepare(&self.point, &Offers::new())?;
        Ok((receiving, offers, token, address))
    }

    fn measure(&self, receiving: &mut Receiving, enough: &AtomicBool) -> Result<Report, Failure> {
        let clock = clock::open(&self.receiver.instruments.clock)?;
        let mut record = Record::default();
        let mut meter = Meter::new(&*clock, 0.0, enough, None, "", &mut record);
        receiving.run(&self.point, &mut meter)?;
        Ok(record.into_report(false, Vec::new()))
    }
}

/// Waits until the sender has said that it is done, has gone, or has been told to end and does not;
/// or until nothing more is received.
fn until_done(
    channel: &mut Channel,
    lines: &mut Lines,
    stop: &AtomicBool,
    has_failed: impl Fn() -> bool,
) -> End {
    let mut until: Option<Instant> = None;
    loop {
        let is_stopped = || until.is_none() && stop.load(Ordering::Acquire);
        let in_time = || until.is_none_or(|until| Instant::now() < until);
        let said = lines.words(LINE_MOST_BYTES, || {
            !is_stopped() && in_time() && (until.is_some() || !has_failed())
        });
        match said {
            Ok(Said::Done { .. }) if stop.load(Ordering::Acquire) => {
                return End::Early("this end was stopped".to_owned());
            }
            Ok(Said::Done { .. }) => return End::Done,
            Ok(Said::Failed { reason }) => return End::Early(shown(&reason)),
            Ok(Said::Will { .. }) => {
                return End::Gone("it has said what no `costof send` says".to_owned());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => match until {
                None if channel.say(&Answer::End).is_ok() => until = Some(Instant::now() + ENDING),
                _ => return End::Early("it did not come to an end".to_owned()),
            },
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return End::Gone("it has said what no `costof send` says".to_owned());
            }
            Err(_) => return End::Gone("it went away in the midst of it".to_owned()),
        }
    }
}

fn listen(host: &str, port: u16) -> io::Result<Listener> {
    let told = |error: io::Error| match error.kind() {
        ErrorKind::AddrInUse => io::Error::new(
            error.kind(),
            format!(
                "another process listens there (`ss -ltnp 'sport = :{port}'` shows which; another \
                 port, or 0 for any)"
            ),
        ),
        ErrorKind::AddrNotAvailable => io::Error::new(
            error.kind(),
            "this machine, or network namespace, has no such address (`ip addr` lists them)",
        ),
        ErrorKind::PermissionDenied => io::Error::new(
            error.kind(),
            "ports below 1024 are the administrator's (another port)",
        ),
        _ => error,
    };
    let listener = TcpListener::bind((host, port)).map_err(told)?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    Ok(Listener::Ip(
        listener,
        Address::Ip(host.to_owned(), at.port()),
    ))
}

/// Listens at a path, at which may lie what another process has left that was killed.
fn listen_at(path: &Path) -> io::Result<Listener> {
    let is_left = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            && UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if !is_left(path) {
                return Err(io::Error::new(
                    error.kind(),
                    "another process listens there, or a file lies there (another path)",
                ));
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener, path.to_owned()))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // It may have been taken away.
            let _ = fs::remove_file(path);
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

    /// What the largest messages need, of many threads.
    fn held(pattern: Pattern) -> u64 {
        let sent = CopySend {
            pattern,
            threads: 64,
            size: 64 << 20,
            ..CopySend::default()
        };
        held_bytes(&sent.into())
    }

    #[test]
    fn a_client_is_promised_what_it_holds_and_gives_it_back() {
        for pattern in [Pattern::Stream, Pattern::Trigger] {
            let bytes = held(pattern);
            assert!(bytes <= MEMORY_MOST_BYTES / 2, "{pattern:?}: {bytes}");
        }
        assert!(held(Pattern::Echo) > MEMORY_MOST_BYTES);
        let anywhere = Address::Ip("127.0.0.1".to_owned(), 0);
        let receiver = Receiver::open(&anywhere, None, 2, (0, 0)).expect("it listens");
        let half = MEMORY_MOST_BYTES / 2;
        let refused = |bytes| match receiver.slot(bytes) {
            Err(Stranger::Refused(_, wrong)) => Some(wrong),
            _ => None,
        };
        assert_eq!(refused(MEMORY_MOST_BYTES + 1), Some(true));
        let first = receiver.slot(half + 1);
        assert!(first.is_ok());
        // Who is refused has taken nothing.
        assert_eq!((refused(half), refused(half)), (Some(false), Some(false)));
        let second = receiver.slot(1);
        assert!(second.is_ok());
        assert_eq!(refused(1), Some(false));
        drop((first, second));
        let panicked = std::panic::catch_unwind(|| {
            let _taken = receiver.slot(MEMORY_MOST_BYTES);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert!(receiver.slot(MEMORY_MOST_BYTES).is_ok());
    }
}
