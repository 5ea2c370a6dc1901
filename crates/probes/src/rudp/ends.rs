//! The two ends of a connection of the library `rudp`, as probes need them.
//!
//! - [`Listening::open`] is for the end that listens: it makes the socket, and says what to offer
//!   the other end. [`Listening::accept`] waits for who calls.
//! - [`Talk::call`] is for the end that calls; it takes those offers.
//! - Both give a [`Talk`]: [`Talk::next`] says what happens to the connection, waiting in the kernel
//!   or spinning, and returns without anything every so often, so that an end sees that it is
//!   stopped, whatever was lost; [`Talk::connection`] is there to send by and to count with;
//!   [`Talk::ask`] is a message there and the next one back.
//! - [`config`] says how the connection behaves on a point's link.
//!
//! The token of the launch is the first message of each end. Who connects and says anything else
//! is dropped, and a stranger holds neither memory nor time worth having.

use crate::net::meeting::{self, cannot_reach};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{Meeting, Offers};
use costof_os::conversation::Wait;
use costof_os::random;
use rudp::socket::{BindError, Socket};
use rudp::{Accept, Config, Connection, ConnectionId, Control, Event, Reason};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest datagram that UDP carries over IPv4, which loopback does not cut.
const DATAGRAM_ON_LOOPBACK: usize = 65_507;
/// How long the ends have to find each other.
const MEETS: Duration = Duration::from_secs(10);
/// How long an end waits until it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning one tries before it does.
const TRIES: u32 = 10_000;
/// After so long a silence the other end has gone; a worker that takes longer is taken for hung.
const SILENCE: Duration = Duration::from_secs(15);
/// How many may be connected, most of them strangers.
const CALLERS_MOST: usize = 16;
/// How many events may be left that nobody asked for.
const EVENTS_LEFT: u32 = 1 << 16;
/// How many messages on their way to an end are held for it.
const WINDOW: u64 = 2;
/// The least that is held, in bytes: messages are small, and there are many.
const WINDOW_LEAST: u64 = 1 << 20;

/// How a connection behaves on this point's link whose messages are no longer than `message_bytes`:
/// by datagrams that the link carries whole, of which there is none that is known of remote ones
/// but Ethernet's. Whoever sends many at a time gives it larger windows.
pub(crate) fn config(point: &Point, control: Control, message_bytes: usize) -> Config {
    let usual = Config::default();
    Config {
        control,
        datagram_bytes: match &*point.link {
            "loopback" => DATAGRAM_ON_LOOPBACK,
            _ => usual.datagram_bytes,
        },
        message_bytes,
        window_bytes: WINDOW_LEAST.max(WINDOW * message_bytes as u64),
        idle_timeout: SILENCE,
        ..usual
    }
}

/// An end that waits to be called.
pub(crate) struct Listening {
    socket: Socket,
    token: Vec<u8>,
}

impl Listening {
    /// Listens where the launch says, and what the other end needs to know of it.
    ///
    /// # Errors
    /// Why nobody can listen there.
    pub(crate) fn open(meeting: &Meeting, config: Config) -> Result<(Self, Offers), Failure> {
        let accept = Accept {
            config,
            connections: CALLERS_MOST,
            connections_per_address: CALLERS_MOST,
        };
        let socket = bind_one_of(meeting, &accept)?;
        let address = socket.local_addr().map_err(|error| broken(&error))?;
        let listening = Listening {
            socket,
            token: meeting.token.clone().into_bytes(),
        };
        Ok((listening, meeting::offer(&address.to_string())))
    }

    /// Waits for the one that says the token, and says it back. None where the launch has ended
    /// before, because the other end has failed and says why.
    ///
    /// # Errors
    /// That nobody has called in time.
    pub(crate) fn accept(self, wait: Wait, stop: &AtomicBool) -> Result<Option<Talk>, Failure> {
        let (until, mut socket) = (Instant::now() + MEETS, self.socket);
        while !stop.load(Ordering::Acquire) {
            if Instant::now() > until {
                return Err(broken(&nobody()));
            }
            let happened = socket.poll(Some(LOOK)).map_err(|error| broken(&error))?;
            let Some((id, Event::Message(said))) = happened else {
                continue;
            };
            let now = socket.now();
            let Some(connection) = socket.connection(id) else {
                continue;
            };
            if said != self.token {
                connection.abort(now, 0);
                continue;
            }
            let answered = connection.send(said);
            answered.map_err(|error| broken(&io::Error::other(error)))?;
            return Ok(Some(Talk {
                socket,
                id,
                wait,
                calls: false,
            }));
        }
        Ok(None)
    }
}

/// Binds at the first free port that the launch allows, from a place among them that is drawn.
fn bind_one_of(meeting: &Meeting, accept: &Accept) -> Result<Socket, Failure> {
    let (first, last) = meeting.ports;
    let ports = u32::from(last.saturating_sub(first)) + 1;
    let drawn = u32::from_le_bytes(*secret()?.first_chunk().expect("it has 16 bytes"));
    let mut refused = None;
    for next in 0..ports {
        let port = first + ((drawn % ports + next) % ports) as u16;
        let at = SocketAddr::new(meeting.address, port);
        match Socket::bind(at, secret()?, Some(accept.clone())) {
            Ok(socket) => return Ok(socket),
            Err(error) => refused = Some(error),
        }
    }
    Err(match refused.expect("there is a port") {
        BindError::Io { address, source } => meeting::cannot_listen(&address.ip(), &source),
        BindError::Config(error) => Failure::error(error.to_string()),
    })
}

/// What makes the numbers that strangers cannot guess.
fn secret() -> Result<[u8; 16], Failure> {
    random::bytes().map_err(|error| Failure::error(format!("the kernel has no secret: {error}")))
}

/// One end of a connection whose other end has said the token.
pub(crate) struct Talk {
    socket: Socket,
    id: ConnectionId,
    wait: Wait,
    calls: bool,
}

impl Talk {
    /// Calls the end that made these offers.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub(crate) fn call(
        meeting: &Meeting,
        offers: &Offers,
        config: Config,
        wait: Wait,
    ) -> Result<Talk, Failure> {
        let to: SocketAddr = meeting::offered(offers)?;
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = Socket::bind((any, 0).into(), secret()?, None);
        let mut socket = socket.map_err(|error| Failure::error(error.to_string()))?;
        let id = socket.connect(to, config);
        let id = id.map_err(|error| Failure::error(error.to_string()))?;
        let mut talk = Talk {
            socket,
            id,
            wait,
            calls: true,
        };
        let met = talk.meet(meeting.token.as_bytes());
        met.map_err(|error| cannot_reach(&to, &error))?;
        Ok(talk)
    }

    fn meet(&mut self, token: &[u8]) -> io::Result<()> {
        let until = Instant::now() + MEETS;
        while Instant::now() < until {
            match self.next()? {
                Some(Event::Connected) => self.send(token.to_vec())?,
                Some(Event::Message(said)) if said == token => return Ok(()),
                Some(Event::Message(_)) => return Err(ErrorKind::InvalidData.into()),
                _ => {}
            }
        }
        Err(nobody())
    }

    /// What happens next to the connection. None where nothing has for a while.
    ///
    /// # Errors
    /// What the system says of the socket; `UnexpectedEof` where the connection has ended, `TimedOut`
    /// where the other end has been silent for too long.
    #[inline]
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        let (time, tries) = match self.wait {
            Wait::Block => (LOOK, 1),
            Wait::Spin => (Duration::ZERO, TRIES),
        };
        for _ in 0..tries {
            match self.socket.poll(Some(time))? {
                Some((id, Event::Closed(reason))) if id == self.id => {
                    return Err(match reason {
                        Reason::TimedOut => ErrorKind::TimedOut.into(),
                        _ => ErrorKind::UnexpectedEof.into(),
                    });
                }
                Some((id, event)) if id == self.id => return Ok(Some(event)),
                Some((stranger, _)) => self.drop_stranger(stranger),
                None => {}
            }
        }
        Ok(None)
    }

    #[cold]
    fn drop_stranger(&mut self, id: ConnectionId) {
        let now = self.socket.now();
        if let Some(connection) = self.socket.connection(id) {
            connection.abort(now, 0);
        }
    }

    /// The connection, to send by; what it is told leaves in the [`Talk::next`] that follows.
    ///
    /// # Errors
    /// `UnexpectedEof` where it has ended.
    #[inline]
    pub(crate) fn connection(&mut self) -> io::Result<&mut Connection> {
        let connection = self.socket.connection(self.id);
        connection.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Takes a message to be sent.
    ///
    /// # Errors
    /// Those of [`Talk::connection`]; why it was not taken.
    #[inline]
    pub(crate) fn send(&mut self, message: Vec<u8>) -> io::Result<()> {
        let sent = self.connection()?.send(message);
        sent.map(drop).map_err(io::Error::other)
    }

    /// The next message that comes. None where none has for a while.
    ///
    /// # Errors
    /// Those of [`Talk::next`].
    #[inline]
    pub(crate) fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.next()? {
                Some(Event::Message(message)) => return Ok(Some(message)),
                // That a message arrived there.
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// A message there, and the next one that comes back.
    ///
    /// # Errors
    /// Those of [`Talk::send`] and [`Talk::next`].
    #[inline]
    pub(crate) fn ask(&mut self, message: Vec<u8>) -> io::Result<Vec<u8>> {
        self.send(message)?;
        loop {
            // An end that has gone is noticed by the connection.
            if let Some(answer) = self.receive()? {
                return Ok(answer);
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if !self.calls {
            return;
        }
        let now = self.socket.now();
        if let Some(connection) = self.socket.connection(self.id) {
            // Where it is lost, the other end is stopped all the same.
            connection.abort(now, 0);
            // It leaves before the last event is told.
            for _ in 0..EVENTS_LEFT {
                match self.socket.poll(Some(Duration::ZERO)) {
                    Ok(Some((id, Event::Closed(_)))) if id == self.id => break,
                    Ok(Some(_)) => {}
                    _ => break,
                }
            }
        }
    }
}

fn nobody() -> io::Error {
    io::Error::new(
        ErrorKind::TimedOut,
        "the other end has not said the token in time",
    )
}

/// A failure while the ends talk.
fn broken(error: &io::Error) -> Failure {
    meeting::broken(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;

    fn meeting(token: &str) -> Meeting {
        Meeting {
            address: Ipv4Addr::LOCALHOST.into(),
            ports: (0, 0),
            token: token.to_owned(),
            apart: false,
            sink: None,
        }
    }

    fn usual() -> Config {
        let point = Point {
            probe: "rudp.rtt".into(),
            axes: Axes::default(),
            link: "loopback".into(),
        };
        config(&point, Control::default(), 1024)
    }

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn messages_go_there_and_back_and_the_end_that_listens_hears_of_the_end() {
        for wait in [Wait::Block, Wait::Spin] {
            let (listening, offers) = Listening::open(&meeting(TOKEN), usual()).unwrap();
            let server = std::thread::spawn(move || {
                let accepted = listening.accept(wait, &AtomicBool::new(false));
                let mut talk = accepted.unwrap().unwrap();
                loop {
                    match talk.receive() {
                        Ok(Some(message)) => talk.send(message).unwrap(),
                        Ok(None) => {}
                        Err(error) => return error.kind(),
                    }
                }
            });
            let mut talk = Talk::call(&meeting(TOKEN), &offers, usual(), wait).unwrap();
            for size in [0, 1, 1000] {
                assert_eq!(talk.ask(vec![7; size]).unwrap(), vec![7; size]);
            }
            assert!(talk.send(vec![7; 2000]).is_err(), "longer than was agreed");
            drop(talk);
            assert_eq!(server.join().unwrap(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn the_right_one_gets_in_behind_strangers() {
        let (listening, offers) = Listening::open(&meeting(TOKEN), usual()).unwrap();
        let to: SocketAddr = meeting::offered(&offers).unwrap();
        let server = std::thread::spawn(move || {
            let accepted = listening.accept(Wait::Block, &AtomicBool::new(false));
            let mut talk = accepted.unwrap().unwrap();
            // Until the one who called has gone.
            while let Ok(came) = talk.receive() {
                came.into_iter()
                    .for_each(|message| talk.send(message).unwrap());
            }
        });
        // Some who say nothing, and one who says something else.
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut silent = Socket::bind(any, [7; 16], None).unwrap();
        for _ in 0..3 {
            let id = silent.connect(to, usual()).unwrap();
            let connected = Some((id, Event::Connected));
            while silent.poll(Some(LOOK)).unwrap() != connected {}
        }
        let refused = Talk::call(&meeting(OTHER), &offers, usual(), Wait::Block);
        assert!(refused.is_err());
        let mut talk = Talk::call(&meeting(TOKEN), &offers, usual(), Wait::Block).unwrap();
        assert_eq!(talk.ask(b"hello".to_vec()).unwrap(), b"hello");
        drop(talk);
        server.join().unwrap();
    }

    #[test]
    fn one_that_is_stopped_waits_for_nobody() {
        let (listening, _) = Listening::open(&meeting(TOKEN), usual()).unwrap();
        let accepted = listening.accept(Wait::Spin, &AtomicBool::new(true));
        assert!(accepted.unwrap().is_none());
    }

    #[test]
    fn a_range_of_ports_is_used_up_before_it_is_an_error() {
        let few = Meeting {
            address: Ipv4Addr::new(127, 83, 7, 3).into(),
            ports: (21_000, 21_002),
            ..meeting(TOKEN)
        };
        let open = || Listening::open(&few, usual());
        let _listening: Vec<_> = (0..3).map(|_| open().unwrap()).collect();
        assert!(open().is_err());
    }
}
