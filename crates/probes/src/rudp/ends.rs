//! The two ends of a connection of the library `rudp`, as probes need them.
//!
//! - [`Talk::accept`] is for the end that listens, [`Talk::call`] for the one that calls: they meet as
//!   [`super::datagrams`] do, and then connect by the library.
//! - Both give a [`Talk`]: [`Talk::next`] says what happens to the connection, waiting in the kernel
//!   or spinning, and returns without anything every so often, so that an end sees that it is
//!   stopped, whatever was lost; [`Talk::connection`] is there to send by and to count with;
//!   [`Talk::ask`] is a message there and the next one back.
//! - [`config`] says how the connection behaves on a link.
//! - [`connect`] and [`accepting`] are for ends that wait in their own way.

use super::datagrams::{self, MEETS};
use crate::net::meeting::{self, broken, cannot_reach};
use costof_exchange::conversation::Wait;
use costof_exchange::rendezvous::{Address, Listener};
use costof_model::failure::Failure;
use costof_model::protocol::{Meeting, Offers};
use costof_os::random;
use rudp::socket::Socket;
use rudp::{Accept, Config, Connection, ConnectionId, Control, Event, Reason};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest datagram that UDP carries over IPv4, which loopback does not cut.
const DATAGRAM_ON_LOOPBACK: usize = 65_507;
/// How long an end waits until it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning one tries before it does.
const TRIES: u32 = 10_000;
/// After so long a silence the other end has gone; a worker that takes longer is taken for hung.
const SILENCE: Duration = Duration::from_secs(15);
/// How many events may be left that nobody asked for.
const EVENTS_LEFT: u32 = 1 << 16;
/// How many messages on their way to an end are held for it.
const WINDOW: u64 = 2;
/// The least that is held, in bytes: messages are small, and there are many.
const WINDOW_LEAST: u64 = 1 << 20;

/// How a connection behaves on this link whose messages are no longer than `message_bytes`:
/// by datagrams that the link carries whole, of which there is none that is known of remote ones
/// but Ethernet's. Whoever sends many at a time gives it larger windows.
pub(crate) fn config(link: &str, control: Control, message_bytes: usize) -> Config {
    let usual = Config::default();
    Config {
        control,
        datagram_bytes: match link {
            "loopback" => DATAGRAM_ON_LOOPBACK,
            _ => usual.datagram_bytes,
        },
        message_bytes,
        window_bytes: WINDOW_LEAST.max(WINDOW * message_bytes as u64),
        idle_timeout: SILENCE,
        ..usual
    }
}

/// The library's end of a socket whose other end connects.
///
/// # Errors
/// What the system says of the socket.
pub(super) fn accepting(socket: UdpSocket, config: Config) -> io::Result<Socket> {
    let accept = Accept {
        config,
        connections: 1,
        connections_per_address: 1,
    };
    Socket::over(socket, random::bytes()?, Some(accept)).map_err(io::Error::other)
}

/// Connects a socket to the end that it is connected to, which accepts.
///
/// # Errors
/// `TimedOut` where the other end does not answer in time; what the system says.
pub(super) fn connect(socket: UdpSocket, config: Config) -> io::Result<(Socket, ConnectionId)> {
    let to = socket.peer_addr()?;
    let mut socket = Socket::over(socket, random::bytes()?, None).map_err(io::Error::other)?;
    let id = socket.connect(to, config).map_err(io::Error::other)?;
    let until = Instant::now() + MEETS;
    while Instant::now() < until {
        match socket.poll(Some(LOOK))? {
            Some((_, Event::Connected)) => return Ok((socket, id)),
            Some((_, Event::Closed(reason))) => return Err(closed(reason)),
            _ => {}
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// How a connection has ended: `TimedOut` where the other end has been silent for too long, else
/// `UnexpectedEof`.
pub(super) fn closed(reason: Reason) -> io::Error {
    let kind = match reason {
        Reason::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::UnexpectedEof,
    };
    io::Error::new(kind, format!("the connection has ended: {reason:?}"))
}

/// Whether a datagram holds any message, so that none comes in a batch.
fn is_lone(config: &Config) -> bool {
    /// What stands around a message mostly.
    const AROUND: usize = 128;
    config.message_bytes + AROUND <= config.datagram_bytes
}

/// The socket, told what messages are like that go to and fro by it.
fn told(mut socket: Socket, lone: bool) -> io::Result<Socket> {
    if lone {
        socket.favour_latency()?;
    }
    Ok(socket)
}

/// One end of a connection.
pub(crate) struct Talk {
    socket: Socket,
    id: ConnectionId,
    wait: Wait,
    calls: bool,
}

impl Talk {
    /// Waits for the one that calls. None where the launch has ended before, because the other end
    /// has failed and says why.
    ///
    /// # Errors
    /// That nobody has called in time.
    pub(crate) fn accept(
        listener: &Listener,
        config: Config,
        wait: Wait,
        stop: &AtomicBool,
    ) -> Result<Option<Talk>, Failure> {
        let accepted = datagrams::accept(listener, stop);
        let Some(socket) = meeting::met(accepted)? else {
            return Ok(None);
        };
        let lone = is_lone(&config);
        let mut socket = accepting(socket, config)
            .and_then(|socket| told(socket, lone))
            .map_err(|error| broken(&error))?;
        let until = Instant::now() + MEETS;
        while !stop.load(Ordering::Acquire) {
            let happened = socket.poll(Some(LOOK)).map_err(|error| broken(&error))?;
            if let Some((id, Event::Connected)) = happened {
                return Ok(Some(Talk {
                    socket,
                    id,
                    wait,
                    calls: false,
                }));
            }
            if Instant::now() > until {
                return Err(broken(&ErrorKind::TimedOut.into()));
            }
        }
        Ok(None)
    }

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
        let address: Address = meeting::offered(offers)?;
        let lone = is_lone(&config);
        let (socket, id) = datagrams::call(&address, meeting.token.as_bytes())
            .and_then(|(socket, _)| connect(socket, config))
            .and_then(|(socket, id)| Ok((told(socket, lone)?, id)))
            .map_err(|error| cannot_reach(&address, &error))?;
        Ok(Talk {
            socket,
            id,
            wait,
            calls: true,
        })
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
                Some((_, Event::Closed(reason))) => return Err(closed(reason)),
                Some((_, event)) => return Ok(Some(event)),
                None => {}
            }
        }
        Ok(None)
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
                    Ok(Some((_, Event::Closed(_)))) => break,
                    Ok(Some(_)) => {}
                    _ => break,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_exchange::rendezvous::Over;
    use std::net::{Ipv4Addr, SocketAddr};

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
        config("loopback", Control::default(), 1024)
    }

    fn listen(meeting: &Meeting) -> Result<(Listener, Offers), Failure> {
        meeting::listen("loopback", meeting, Over::Udp, 1)
    }

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn messages_go_there_and_back_and_the_end_that_listens_hears_of_the_end() {
        for wait in [Wait::Block, Wait::Spin] {
            let (listener, offers) = listen(&meeting(TOKEN)).unwrap();
            let server = std::thread::spawn(move || {
                let accepted = Talk::accept(&listener, usual(), wait, &AtomicBool::new(false));
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
        let (listener, offers) = listen(&meeting(TOKEN)).unwrap();
        let to: SocketAddr = meeting::offered(&offers).unwrap();
        let server = std::thread::spawn(move || {
            let accepted = Talk::accept(&listener, usual(), Wait::Block, &AtomicBool::new(false));
            let mut talk = accepted.unwrap().unwrap();
            // Until the one who called has gone.
            while let Ok(came) = talk.receive() {
                came.into_iter()
                    .for_each(|message| talk.send(message).unwrap());
            }
        });
        // Some who connect without having said the token, and one who says something else.
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut strangers = Socket::bind(any, [7; 16], None).unwrap();
        for _ in 0..3 {
            strangers.connect(to, usual()).unwrap();
            assert_eq!(strangers.poll(Some(LOOK)).unwrap(), None);
        }
        let other = UdpSocket::bind(any).unwrap();
        other.send_to(OTHER.as_bytes(), to).unwrap();
        let mut talk = Talk::call(&meeting(TOKEN), &offers, usual(), Wait::Block).unwrap();
        assert_eq!(talk.ask(b"hello".to_vec()).unwrap(), b"hello");
        drop(talk);
        server.join().unwrap();
    }

    #[test]
    fn one_that_is_stopped_waits_for_nobody() {
        let (listener, _) = listen(&meeting(TOKEN)).unwrap();
        let accepted = Talk::accept(&listener, usual(), Wait::Spin, &AtomicBool::new(true));
        assert!(accepted.unwrap().is_none());
    }

    #[test]
    fn a_range_of_ports_is_used_up_before_it_is_an_error() {
        let few = Meeting {
            address: Ipv4Addr::new(127, 83, 7, 3).into(),
            ports: (21_000, 21_002),
            ..meeting(TOKEN)
        };
        let _listening: Vec<_> = (0..3).map(|_| listen(&few).unwrap()).collect();
        assert!(listen(&few).is_err());
    }
}
