//! A caller that is served, from its admission on: between it and a worker of its own stands this
//! session, which passes on only what the caller may ask for.

use super::{Event, Listening, Observer, Served, Slot};
use crate::call::{Connection, Lines};
use crate::worker::{Lost, Worker};
use costof_model::protocol::{Answer, Command, PROTOCOL};
use costof_model::{Failure, Launch, Noise, Offers, Rendezvous, harmless};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest line of a caller.
const LINE_MAX_BYTES: usize = 1 << 20;
/// The longest text in it.
const TEXT_MAX_CHARS: usize = 2048;
/// How long the worker may take to answer, unless it measures.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// How often a session looks whether its worker has answered, while it measures.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a caller may take to end when this end is stopped, and the worker after that.
const ENDING: Duration = Duration::from_secs(5);
const STOPPING: Duration = Duration::from_secs(10);
/// The most CPUs of one look: more than any kernel is built for.
const LOOK_MAX_CPUS: usize = 8192;

const UNEXPECTED: &str = "unexpected message (is it a costof of this release?)";
const CLOSED: &str = "it closed the connection before the end";

/// The worker is waited for whatever happens at this end.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A caller that is served.
pub(super) struct Session<'a> {
    pub(super) listening: &'a Listening,
    pub(super) client: u64,
    pub(super) connection: &'a Connection,
    pub(super) lines: Lines<'a>,
    pub(super) worker: Worker,
    pub(super) slot: Slot<'a>,
    pub(super) stop: Stop<'a>,
    pub(super) observe: Observer<'a>,
    pub(super) stage: Stage,
    /// The launch that was opened, and is not yet closed.
    pub(super) launch: Option<Launch>,
    /// Why the launch has no result, and why it ended before it was done.
    pub(super) failure: Option<Failure>,
    pub(super) early: Option<String>,
}

/// How far a caller has come. A worker has one launch, so there is no way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has no launch yet.
    #[default]
    Admitted,
    /// It has one.
    Opened,
    /// A point of it was prepared.
    Prepared,
    /// A point of it was measured.
    Begun,
}

/// Whether this end is stopped, and until when its caller may then end in order.
#[derive(Debug)]
pub(super) struct Stop<'a> {
    asked: &'a AtomicBool,
    until: OnceCell<Instant>,
}

impl<'a> Stop<'a> {
    pub(super) fn new(asked: &'a AtomicBool) -> Stop<'a> {
        Stop { asked, until: OnceCell::new() }
    }

    /// Until when the caller may end in order; `None` while this end is not stopped. However much the
    /// caller sends, this stays as it was first seen.
    fn until(&self) -> Option<Instant> {
        let is_asked = self.asked.load(Ordering::Acquire);
        is_asked.then(|| *self.until.get_or_init(|| Instant::now() + ENDING))
    }
}

impl Session<'_> {
    pub(super) fn serve(mut self) {
        let costof = env!("CARGO_PKG_VERSION").to_owned();
        let mut answer = Some(Answer::Hello { protocol: PROTOCOL, costof });
        while answer.is_none_or(|answer| self.connection.send(&answer).is_ok()) {
            // A launch that was opened may end in order.
            let is_open = self.launch.is_some();
            let may_end = |until| is_open && Instant::now() < until;
            let is_wanted = || self.stop.until().is_none_or(may_end);
            if !is_wanted() {
                break;
            }
            let Ok(command) = next(&mut self.lines, is_wanted) else {
                break;
            };
            answer = self.act(command);
        }
        if self.launch.is_some() {
            self.early.get_or_insert_with(|| CLOSED.to_owned());
            self.close();
        }
        self.connection.end();
    }

    /// The answer to a command; none to one that has none.
    fn act(&mut self, command: Command) -> Option<Answer> {
        Some(match command {
            // What this one would be promised, the worker may already hold for the first one.
            Command::Open(_) if self.stage > Stage::Admitted => {
                Answer::Failed(Failure::error(UNEXPECTED))
            }
            Command::Open(launch) => match self.admitted(*launch) {
                Ok(launch) => {
                    let answer = self.ask(&Command::Open(Box::new(launch.clone())));
                    if answer == Answer::Opened {
                        self.launch = Some(launch);
                        self.stage = Stage::Opened;
                    }
                    answer
                }
                Err(failure) => Answer::Failed(failure),
            },
            Command::Prepare { point, .. } => {
                // What nobody offered leads it nowhere.
                let answer = self.ask(&Command::Prepare { point, offers: Offers::new() });
                match &answer {
                    Answer::Prepared { .. } => self.stage = self.stage.max(Stage::Prepared),
                    Answer::Failed(failure) if self.is_by_hand() => {
                        self.launch = None;
                        let reason = failure.reason.clone();
                        self.listening.refused(self.connection, reason, self.observe);
                    }
                    _ => {}
                }
                answer
            }
            Command::Run => self.run(),
            Command::Close => self.close(),
            // It has ended by itself.
            Command::Stop => return None,
            Command::Describe => self.described(),
            Command::Look(mut look) => {
                let mut seen = HashSet::new();
                look.cpus.retain(|cpu| seen.insert(*cpu));
                look.cpus.truncate(LOOK_MAX_CPUS);
                self.ask(&Command::Look(look))
            }
            Command::Hold | Command::Watch => self.ask(&command),
        })
    }

    fn ask(&mut self, command: &Command) -> Answer {
        self.worker.send(command);
        self.answer(LIMIT)
    }

    /// The worker's answer, which may take until then, and no longer when this end is stopped.
    fn answer(&mut self, limit: Duration) -> Answer {
        let answer = match self.worker.answer(limit, self.stop.asked) {
            Err(Lost::Interrupted) => {
                let until = self.stop.until().map(|until| until + STOPPING);
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                self.worker.answer(left.unwrap_or(limit).min(limit), &NEVER)
            }
            answer => answer,
        };
        answer.unwrap_or_else(|lost| Answer::Failed(lost.failure()))
    }

    /// The worker's description, with the addresses by which the caller has reached it.
    fn described(&mut self) -> Answer {
        let mut answer = self.ask(&Command::Describe);
        let Connection { local, remote, .. } = self.connection;
        if let Answer::Description(description) = &mut answer
            && local.port() != 0
        {
            description.network.reached_at = Some(local.ip());
            description.network.reached_from = Some(remote.ip());
        }
        answer
    }

    /// A launch as the worker may have it: it listens where the caller has reached this end, and at the
    /// ports that the user has chosen.
    fn admitted(&mut self, launch: Launch) -> Result<Launch, Failure> {
        self.slot.promise((self.listening.allowed)(&launch)?)?;
        let given = launch.rendezvous.ok_or_else(|| Failure::error(UNEXPECTED))?;
        let sockets = self.listening.sockets;
        let local = self.connection.local;
        let rendezvous = Rendezvous {
            address: local.ip(),
            scope: match local {
                SocketAddr::V4(_) => 0,
                SocketAddr::V6(local) => local.scope_id(),
            },
            receive_buffer: sockets.receive_buffer.or(given.receive_buffer),
            ports: if sockets.ports == (0, 0) { given.ports } else { sockets.ports },
            sink: None,
            ..given
        };
        Ok(Launch { rendezvous: Some(rendezvous), ..launch })
    }

    fn is_by_hand(&self) -> bool {
        self.launch.as_ref().is_some_and(|launch| launch.by_hand.is_some())
    }

    /// Lets the worker measure, until the caller stops it or has gone.
    fn run(&mut self) -> Answer {
        let is_first = self.stage == Stage::Prepared;
        if is_first {
            self.stage = Stage::Begun;
        }
        let launch = self.launch.as_ref().filter(|launch| launch.by_hand.is_some());
        if let Some(launch) = launch.filter(|_| is_first) {
            let (client, from) = (self.client, self.connection.peer.clone());
            (self.observe)(Event::Began { client, from, launch: Box::new(launch.clone()) });
        }
        self.worker.send(&Command::Run);
        let answer = self.until_stopped().unwrap_or_else(|| {
            self.worker.send(&Command::Stop);
            self.answer(STOPPING)
        });
        if let Answer::Failed(failure) = &answer {
            self.failure = Some(failure.clone());
        }
        answer
    }

    /// Waits until the worker has to stop; its answer, where it comes first.
    fn until_stopped(&mut self) -> Option<Answer> {
        let mut is_told = false;
        loop {
            match self.worker.poll(Duration::ZERO) {
                Ok(None) => {}
                Ok(Some(answer)) => return Some(answer),
                Err(lost) => return Some(Answer::Failed(lost.failure())),
            }
            let soon = Instant::now() + POLL_INTERVAL;
            let until = self.stop.until();
            let early = match next(&mut self.lines, || Instant::now() < soon) {
                Ok(Command::Stop) if until.is_some() => "this end was stopped",
                Ok(Command::Stop) => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => match until {
                    Some(until) if Instant::now() >= until => "it did not end in time",
                    Some(_) if !mem::replace(&mut is_told, true) => {
                        let _ = self.connection.send(&Answer::Enough);
                        continue;
                    }
                    _ => continue,
                },
                Ok(_) => UNEXPECTED,
                Err(error) if error.kind() == ErrorKind::InvalidData => UNEXPECTED,
                Err(_) => CLOSED,
            };
            self.early = Some(early.to_owned());
            return None;
        }
    }

    /// Ends the launch, and reports what a user has sent by hand.
    fn close(&mut self) -> Answer {
        let answer = self.ask(&Command::Close);
        let (report, noise) = match &answer {
            Answer::Closed { points, noise, .. } => (points.first().cloned(), (**noise).clone()),
            Answer::Failed(failure) => {
                self.failure.get_or_insert_with(|| failure.clone());
                (None, Noise::default())
            }
            _ => (None, Noise::default()),
        };
        if let Some(launch) = self.launch.take().filter(|launch| launch.by_hand.is_some()) {
            (self.observe)(Event::Ended(Box::new(Served {
                client: self.client,
                from: self.connection.peer.clone(),
                launch,
                early: self.early.take(),
                failure: self.failure.take(),
                report,
                noise,
            })));
        }
        answer
    }
}

/// The caller's next command; `Interrupted` where it is no longer wanted.
fn next(lines: &mut Lines<'_>, is_wanted: impl Fn() -> bool) -> io::Result<Command> {
    let line = lines.next(LINE_MAX_BYTES, is_wanted)?;
    let mut value = serde_json::from_slice(&line)?;
    harmless::change_texts(&mut value, |text| harmless::beginning(text, TEXT_MAX_CHARS));
    Ok(serde_json::from_value(value)?)
}
