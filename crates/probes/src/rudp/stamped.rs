//! A message there and back by each stack over a socket whose datagrams the kernel stamps: when it
//! was where, at either end, by that end's clock.
//!
//! The library is driven here as `rudp::socket` drives it, one datagram at a time, since that driver
//! has no stamps.

use crate::rudp::rtt::Stack;
use crate::rudp::study::{Answering, Asking, Wire};
use costof_exchange::conversation::{Conversation, Wait};
use costof_exchange::timestamping::datagrams::{Came, Datagrams};
use costof_model::failure::Failure;
use costof_model::protocol::Meeting;
use costof_os::net::timestamps::now_ns;
use costof_os::random;
use rudp::{Accept, Config, ConnectionId, Endpoint, Event, Reason, Time};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The longest datagram that comes.
const BUFFER: usize = 1 << 16;
/// How long an end of the library waits within the call that receives, and at least how far away
/// its next timer is then: both are its own driver's.
const TICK: Duration = Duration::from_millis(1);
const WAIT_LEAST: Duration = Duration::from_millis(5);
/// How long an end waits until it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning one tries before it does.
const TRIES: u32 = 10_000;
/// Bytes of a message's number, where it has as many.
const NUMBER: usize = 8;

/// When a message was where at the end that asks, in nanoseconds of its `CLOCK_REALTIME`, ascending:
/// the study's T1 to T4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Before it was sent.
    pub(crate) sent: u64,
    /// When its datagram was given to the driver.
    pub(crate) left: u64,
    /// When the answer's datagram was received by the stack.
    pub(crate) came: u64,
    /// When the answer was here.
    pub(crate) answered: u64,
}

/// When a message was where at the end that answers: the study's S1 and S2, and between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// When its datagram was received by the stack.
    pub(crate) came: u64,
    /// When the process had it, and began to answer.
    pub(crate) had: u64,
    /// When the answer's datagram was given to the driver.
    pub(crate) left: u64,
}

/// Datagrams of one exchange, and what was noted of them.
pub(crate) struct Noted {
    datagrams: Datagrams,
    /// The first one sent, and when the sending began.
    first: Option<(u32, u64)>,
    /// The stamp of the last one received.
    came: Option<u64>,
}

impl Noted {
    fn begin(&mut self) {
        (self.first, self.came) = (None, None);
    }

    fn left(&mut self) -> io::Result<Option<u64>> {
        match self.first {
            Some((key, _)) => self.datagrams.left_at(key),
            None => Ok(None),
        }
    }

    fn note(&mut self, came: Came) -> usize {
        self.came = came.at;
        came.length
    }
}

impl Wire for Noted {
    #[inline]
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let begins = now_ns();
        let key = self.datagrams.send(datagram)?;
        self.first.get_or_insert((key, begins));
        Ok(())
    }

    #[inline]
    fn receive(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
        let came = self.datagrams.receive(datagram)?;
        Ok(came.is_some_and(|came| self.note(came) == datagram.len()))
    }

    #[inline]
    fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
        let came = self.datagrams.receive_now(datagram)?;
        Ok(came.is_some_and(|came| self.note(came) == datagram.len()))
    }
}

/// How an end of a stack is to be.
pub(crate) struct Ends<'a> {
    pub(crate) stack: Stack,
    pub(crate) wait: Wait,
    pub(crate) size: usize,
    pub(crate) meeting: &'a Meeting,
    /// Of the library.
    pub(crate) config: Config,
    /// After how long without an answer a plain datagram is taken for lost.
    pub(crate) lost_after: Duration,
}

impl Ends<'_> {
    fn noted(&self, conversation: Conversation) -> io::Result<Noted> {
        Ok(Noted {
            datagrams: Datagrams::new(conversation, self.wait)?,
            first: None,
            came: None,
        })
    }

    /// The end that asks, by the conversation with the other one.
    ///
    /// # Errors
    /// That the kernel has no stamps; why the ends of the library do not connect.
    pub(crate) fn asks(&self, conversation: Conversation) -> io::Result<Asks> {
        let noted = self.noted(conversation)?;
        Ok(match self.stack {
            Stack::Rudp => Asks::Library(Box::new(Library::connect(noted, self)?)),
            Stack::Study => Asks::Study(Asking::new(noted)),
            Stack::Udp => Asks::Udp(Plain {
                noted,
                answer: vec![0; self.size],
                lost_after: self.lost_after,
            }),
        })
    }

    /// The end that answers.
    ///
    /// # Errors
    /// That the kernel has no stamps.
    pub(crate) fn answers(&self, conversation: Conversation) -> io::Result<Answers> {
        let noted = self.noted(conversation)?;
        let token = &self.meeting.token;
        Ok(match self.stack {
            Stack::Rudp => Answers::Library(Box::new(Library::accept(noted, self)?)),
            Stack::Study => Answers::Study(Answering::new(noted, self.size, token)),
            Stack::Udp => Answers::Udp(noted, vec![0; self.size]),
        })
    }
}

/// The end that asks.
pub(crate) enum Asks {
    Library(Box<Library>),
    Study(Asking<Noted>),
    Udp(Plain),
}

/// The end that asks by plain datagrams.
pub(crate) struct Plain {
    noted: Noted,
    answer: Vec<u8>,
    lost_after: Duration,
}

impl Plain {
    /// A message there and back: when it was sent, and when the answer was here. None where there is
    /// no answer.
    fn ask(&mut self, message: &[u8]) -> io::Result<Option<(u64, u64)>> {
        let length = message.len().min(NUMBER);
        let (sent, began) = (now_ns(), Instant::now());
        self.noted.send(message)?;
        // A late answer is to another message.
        while !self.noted.receive(&mut self.answer)? || self.answer[..length] != message[..length] {
            if began.elapsed() > self.lost_after {
                return Ok(None);
            }
        }
        let answered = now_ns();
        match self.answer == message {
            true => Ok(Some((sent, answered))),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }
}

impl Asks {
    /// A message there and back, and when it was where. None where a stamp is missing, or a plain
    /// datagram has no answer.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where the answer is not what was sent.
    pub(crate) fn ask(&mut self, message: &[u8]) -> io::Result<Option<Asked>> {
        self.noted().begin();
        let (sent, answered) = match self {
            Asks::Library(library) => {
                let given = message.to_vec();
                let sent = now_ns();
                library.send(given)?;
                let answer = loop {
                    if let Some(answer) = library.receive()? {
                        break answer;
                    }
                };
                let answered = now_ns();
                if answer != message {
                    return Err(ErrorKind::InvalidData.into());
                }
                (sent, answered)
            }
            Asks::Study(asking) => {
                let given = message.to_vec();
                let sent = now_ns();
                asking.ask(given)?;
                (sent, now_ns())
            }
            Asks::Udp(plain) => match plain.ask(message)? {
                Some(stamps) => stamps,
                None => return Ok(None),
            },
        };
        let noted = self.noted();
        let (Some(left), Some(came)) = (noted.left()?, noted.came) else {
            return Ok(None);
        };
        // Whoever sets the clock in between spoils it.
        let is_sound = [sent, left, came, answered].is_sorted();
        Ok(is_sound.then_some(Asked {
            sent,
            left,
            came,
            answered,
        }))
    }

    fn noted(&mut self) -> &mut Noted {
        match self {
            Asks::Library(library) => &mut library.noted,
            Asks::Study(asking) => &mut asking.wire,
            Asks::Udp(plain) => &mut plain.noted,
        }
    }
}

/// The end that answers.
pub(crate) enum Answers {
    Library(Box<Library>),
    Study(Answering<Noted>),
    Udp(Noted, Vec<u8>),
}

impl Answers {
    /// Waits for a message and answers it. None where none has come for a while, or a stamp is
    /// missing.
    ///
    /// # Errors
    /// What the system says; that the other end has gone.
    pub(crate) fn answer(&mut self) -> io::Result<Option<Answered>> {
        self.noted().begin();
        let (came, had) = match self {
            Answers::Library(library) => {
                let Some(message) = library.receive()? else {
                    return Ok(None);
                };
                let (came, had) = (library.noted.came, now_ns());
                library.noted.begin();
                library.send(message)?;
                (came, had)
            }
            Answers::Study(answering) => {
                if answering.answer()?.is_none() {
                    return Ok(None);
                }
                (answering.wire.came, began(&answering.wire))
            }
            Answers::Udp(noted, message) => {
                if !noted.receive(message)? {
                    return Ok(None);
                }
                noted.send(message)?;
                (noted.came, began(noted))
            }
        };
        let (Some(came), Some(left)) = (came, self.noted().left()?) else {
            return Ok(None);
        };
        Ok([came, had, left]
            .is_sorted()
            .then_some(Answered { came, had, left }))
    }

    fn noted(&mut self) -> &mut Noted {
        match self {
            Answers::Library(library) => &mut library.noted,
            Answers::Study(answering) => &mut answering.wire,
            Answers::Udp(noted, _) => noted,
        }
    }
}

/// When the sending began.
fn began(noted: &Noted) -> u64 {
    noted.first.map_or(0, |(_, began)| began)
}

/// An end of the library, and its connection.
pub(crate) struct Library {
    noted: Noted,
    endpoint: Endpoint,
    /// None at the end that is connected to, until it is.
    id: Option<ConnectionId>,
    began: Instant,
    wait: Wait,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Library {
    fn new(noted: Noted, ends: &Ends<'_>, accept: Option<Accept>) -> io::Result<Library> {
        let endpoint = Endpoint::new(random::bytes()?, accept).map_err(io::Error::other)?;
        noted.datagrams.wait_at_most(TICK)?;
        Ok(Library {
            noted,
            endpoint,
            id: None,
            began: Instant::now(),
            wait: ends.wait,
            outgoing: Vec::with_capacity(BUFFER),
            incoming: vec![0; BUFFER],
        })
    }

    fn connect(noted: Noted, ends: &Ends<'_>) -> io::Result<Library> {
        let mut library = Library::new(noted, ends, None)?;
        let (now, peer) = (library.now(), library.noted.datagrams.peer());
        let id = library.endpoint.connect(now, peer, ends.config.clone());
        library.id = Some(id.map_err(io::Error::other)?);
        // An end that does not answer is noticed by the connection.
        while library.next()? != Some(Event::Connected) {}
        Ok(library)
    }

    /// Who connects is the other end: the socket hears nobody else.
    fn accept(noted: Noted, ends: &Ends<'_>) -> io::Result<Library> {
        let accept = Accept {
            config: ends.config.clone(),
            connections: 1,
            connections_per_address: 1,
        };
        Library::new(noted, ends, Some(accept))
    }

    fn now(&self) -> Time {
        Time::default() + self.began.elapsed()
    }

    /// Sends a message, as far as it leaves at once.
    fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        let connection = self.id.and_then(|id| self.endpoint.connection(id));
        let connection = connection.ok_or(ErrorKind::UnexpectedEof)?;
        connection.send(message).map_err(io::Error::other)?;
        let now = self.now();
        self.transmit(now)
    }

    /// The next message. None where none has come for a while.
    fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.next()? {
                Some(Event::Message(message)) => return Ok(Some(message)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// What happens next. None where nothing has for a while.
    fn next(&mut self) -> io::Result<Option<Event>> {
        let tries = match self.wait {
            Wait::Block => 1,
            Wait::Spin => TRIES,
        };
        let mut tried = 0;
        while tried < tries {
            if let Some((id, event)) = self.endpoint.poll_event() {
                self.id = Some(id);
                return match event {
                    Event::Closed(Reason::TimedOut) => Err(ErrorKind::TimedOut.into()),
                    Event::Closed(_) => Err(ErrorKind::UnexpectedEof.into()),
                    event => Ok(Some(event)),
                };
            }
            self.transmit(self.now())?;
            let (now, due) = (self.now(), self.endpoint.poll_timeout());
            let idle = match self.wait {
                Wait::Block => due.map_or(LOOK, |at| LOOK.min(at.since(now))),
                Wait::Spin => Duration::ZERO,
            };
            if let Some(came) = self.receive_within(idle)? {
                let length = self.noted.note(came);
                let (now, peer) = (self.now(), self.noted.datagrams.peer());
                let datagram = &self.incoming[..length];
                self.endpoint.handle_datagram(now, peer, datagram);
                continue;
            }
            let now = self.now();
            match due.is_some_and(|at| at <= now) {
                true => self.endpoint.handle_timeout(now),
                false => tried += 1,
            }
        }
        Ok(None)
    }

    /// A datagram, waiting so long at most, as the library's own driver does: within the call that
    /// receives where there is time, since waiting before it costs more.
    fn receive_within(&mut self, idle: Duration) -> io::Result<Option<Came>> {
        let datagrams = &mut self.noted.datagrams;
        let came = match idle >= WAIT_LEAST {
            true => datagrams.receive(&mut self.incoming)?,
            false => datagrams.receive_now(&mut self.incoming)?,
        };
        if came.is_some() || idle.is_zero() {
            return Ok(came);
        }
        datagrams.wait(idle)?;
        datagrams.receive_now(&mut self.incoming)
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let out = &mut self.outgoing;
        while self.endpoint.poll_transmit(now, 1, BUFFER, out).is_some() {
            self.noted.send(out)?;
        }
        Ok(())
    }
}

/// Refuses a message that leaves in more than one datagram, of which the stamps would tell little.
///
/// # Errors
/// How much fits.
pub(crate) fn fits_one(stack: Stack, size: usize) -> Result<(), Failure> {
    match stack == Stack::Rudp && size > LIBRARY_MOST {
        true => Err(Failure::unsupported(format!(
            "with its own headers and acknowledgements the library has {LIBRARY_MOST} B left of a \
             datagram (--set size={LIBRARY_MOST}, or stack=udp)"
        ))),
        false => Ok(()),
    }
}

/// What the library surely gets into one of the longest datagrams.
pub(crate) const LIBRARY_MOST: usize = 65_400;

#[cfg(test)]
mod tests {
    use super::*;
    use costof_exchange::rendezvous::{Listener, Over};
    use costof_os::net::timestamps::SwitchedOn;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicBool;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const SIZE: usize = 1400;

    fn meeting() -> Meeting {
        Meeting {
            address: Ipv4Addr::LOCALHOST.into(),
            ports: (0, 0),
            token: TOKEN.to_owned(),
            apart: false,
            sink: None,
        }
    }

    fn ends(meeting: &Meeting, stack: Stack, wait: Wait) -> Ends<'_> {
        Ends {
            stack,
            wait,
            size: SIZE,
            meeting,
            config: Config::default(),
            lost_after: Duration::from_secs(10),
        }
    }

    /// How many of forty messages had all of their stamps, at the end that asks and at the other.
    fn complete(stack: Stack, wait: Wait) -> (u32, u32) {
        let here = Ipv4Addr::LOCALHOST.into();
        let listener = Listener::open(Over::Udp, here, (0, 0), 1, TOKEN.as_bytes()).unwrap();
        let address = listener.address().unwrap();
        let server = std::thread::spawn(move || {
            let stop = AtomicBool::new(false);
            let accepted = Conversation::accept(&listener, wait, &stop).unwrap();
            let mut answers = ends(&meeting(), stack, wait).answers(accepted).unwrap();
            let mut complete = 0;
            // Until the end that asks has gone.
            while let Ok(answered) = answers.answer() {
                complete += u32::from(answered.is_some());
            }
            complete
        });
        let called = Conversation::call(Over::Udp, &address, wait, TOKEN.as_bytes()).unwrap();
        let mut asks = ends(&meeting(), stack, wait).asks(called).unwrap();
        let mut message = vec![7; SIZE];
        let mut complete = 0;
        for number in 0..40_u64 {
            message[..NUMBER].copy_from_slice(&number.to_le_bytes());
            complete += u32::from(asks.ask(&message).unwrap().is_some());
        }
        drop(asks);
        (complete, server.join().unwrap())
    }

    #[test]
    fn messages_of_every_stack_are_stamped_at_both_ends() {
        let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
        for stack in [Stack::Rudp, Stack::Study, Stack::Udp] {
            for wait in [Wait::Block, Wait::Spin] {
                let (asked, answered) = complete(stack, wait);
                assert!(asked > 20, "{stack:?} {wait:?}: {asked} of 40");
                assert!(answered > 20, "{stack:?} {wait:?}: {answered} of 40");
            }
        }
    }
}
