//! The connection between a costof that listens and one that calls it: lines of bounded length, in
//! bounded time. Who calls first proves that it has the token; then both exchange a worker's messages.
//!
//! The caller sends a line that names the protocol, the other end a challenge, and the caller its
//! answer: the HMAC of the challenge with the token as its key. So the token itself is never sent. Each
//! challenge is used once, so an overheard answer is useless. What follows is neither encrypted nor
//! authenticated (docs/SECURITY.md).
//!
//! Source: RFC 2104, HMAC; FIPS 180-4, SHA-256.

use crate::address::Address;
use crate::pipe;
use crate::worker::Lost;
use costof_model::protocol::Answer;
use costof_model::{Failure, harmless};
use costof_os::net::socket::{self, is_passing};
use hmac_sha256::HMAC;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a read waits before it checks whether to go on.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the other end may accept nothing.
const STALLED: Duration = Duration::from_secs(10);
/// Seconds after which a silent end counts as lost, for example after a power failure.
const LOST_SECONDS: u32 = 30;
/// How long a connection, and a challenge, may take.
const CONNECT: Duration = Duration::from_secs(10);
const CHALLENGED: Duration = Duration::from_secs(15);

/// The longest lines before the token is proved.
pub(crate) const FIRST_MAX_BYTES: usize = 512;
/// The first line of a caller. A newer costof sends another number.
pub(crate) const FIRST_LINE: &str = "costof send 3";
/// The beginning of the first line, for every release.
pub(crate) const MAGIC: &str = "costof send ";
/// The beginning of a challenge, followed by a number that is used once.
pub(crate) const CHALLENGE: &str = "costof challenge ";

/// The answer to a challenge: 64 hexadecimal digits; nothing where the caller has no token.
pub(crate) fn answer(token: Option<&str>, challenge: &str) -> String {
    let Some(token) = token else {
        return String::new();
    };
    let bytes = HMAC::mac(challenge, token);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The socket, also of TCP: std reads and writes all stream sockets alike.
    pub(crate) socket: UnixStream,
    /// The addresses of both ends; loopback's for a Unix socket.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The other end, for people.
    pub(crate) peer: String,
}

impl Connection {
    /// Calls a costof that listens, and proves to it that this end has the token. Neither resolving a
    /// name nor connecting can be interrupted, so a thread does both.
    ///
    /// # Errors
    /// `Unsupported` where the address or the token is wrong.
    pub(crate) fn call(
        address: &Address,
        token: Option<&str>,
        interrupted: &AtomicBool,
    ) -> Result<Connection, Lost> {
        let (connected, connection) = mpsc::channel();
        let to = address.clone();
        let connect = move || {
            let _ = connected.send(Connection::open(&to));
        };
        pipe::spawn("call", connect)?;
        let connection = loop {
            match connection.recv_timeout(POLL_INTERVAL) {
                Ok(connection) => break connection,
                Err(RecvTimeoutError::Timeout) if !interrupted.load(Ordering::Relaxed) => {}
                Err(_) => return Err(Lost::Interrupted),
            }
        };
        let connection = connection.map_err(|error| cannot_connect(address, &error))?;
        match connection.prove(token, interrupted) {
            Ok(None) => Ok(connection),
            Ok(Some(failure)) => Err(refused(&address, &failure).into()),
            Err(_) if interrupted.load(Ordering::Relaxed) => Err(Lost::Interrupted),
            Err(error) => Err(lost(address, &error).into()),
        }
    }

    fn open(address: &Address) -> io::Result<Connection> {
        match address {
            Address::Ip(host, port) => Connection::tcp(connect_tcp(host, *port)?),
            Address::Unix(path) => Connection::unix(UnixStream::connect(path)?),
        }
    }

    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        socket::notice_loss_after(&stream, LOST_SECONDS)?;
        let canonical = |mut address: SocketAddr| {
            address.set_ip(address.ip().to_canonical());
            address
        };
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Connection {
            local: canonical(local),
            remote: canonical(remote),
            peer: remote.to_string(),
            socket: OwnedFd::from(stream).into(),
        }
        .configured()
    }

    pub(crate) fn unix(socket: UnixStream) -> io::Result<Connection> {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let peer = "a process on this machine".to_owned();
        Connection { local: here, remote: here, peer, socket }.configured()
    }

    fn configured(self) -> io::Result<Connection> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(POLL_INTERVAL))?;
        self.socket.set_write_timeout(Some(STALLED))?;
        Ok(self)
    }

    /// Proves that this end has the token, unless the other end already says why it does not serve it.
    fn prove(&self, token: Option<&str>, interrupted: &AtomicBool) -> io::Result<Option<Failure>> {
        let until = Instant::now() + CHALLENGED;
        let wanted = || !interrupted.load(Ordering::Relaxed) && Instant::now() < until;
        self.write(format!("{FIRST_LINE}\n").as_bytes())?;
        let first = Lines::new(self).next(FIRST_MAX_BYTES, wanted)?;
        match str::from_utf8(&first) {
            Ok(challenge) if challenge.starts_with(CHALLENGE) => {
                self.write(format!("{}\n", answer(token, challenge)).as_bytes())?;
                // From here on, a thread reads that nothing else waits for.
                self.socket.set_read_timeout(None)?;
                Ok(None)
            }
            _ => match serde_json::from_slice(&first) {
                Ok(Answer::Failed(failure)) => Ok(Some(failure)),
                _ => Err(ErrorKind::InvalidData.into()),
            },
        }
    }

    pub(crate) fn send(&self, answer: &Answer) -> io::Result<()> {
        self.write(&pipe::line(answer))
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(bytes)
    }

    /// Ends it at once, even while another thread reads from it.
    pub(crate) fn hang_up(&self) {
        // It may have ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Ends sending, but lets the other end read what was sent: closing a socket with unread data would
    /// discard that.
    pub(crate) fn end(&self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const MAX_READS: u32 = 64;
        let shut = self.socket.shutdown(Shutdown::Write);
        let until = Instant::now() + PATIENCE;
        let mut reads = 0;
        while shut.is_ok() && reads < MAX_READS && Instant::now() < until {
            match (&self.socket).read(&mut [0; 4096]) {
                Ok(0) => return,
                Err(error) if !is_passing(&error) => return,
                _ => reads += 1,
            }
        }
    }
}

/// Incoming lines.
#[derive(Debug)]
pub(crate) struct Lines<'c> {
    connection: &'c Connection,
    unread: Vec<u8>,
}

impl Lines<'_> {
    pub(crate) fn new(connection: &Connection) -> Lines<'_> {
        Lines { connection, unread: Vec::new() }
    }

    /// The next line without its end, waiting as long as `wanted` says.
    ///
    /// # Errors
    /// `UnexpectedEof` where the other end has gone, `InvalidData` for a line longer than `most` bytes,
    /// `Interrupted` where it is no longer wanted.
    pub(crate) fn next(&mut self, most: usize, wanted: impl Fn() -> bool) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let rest = &self.unread[searched..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=searched + end).collect();
                line.pop();
                return Ok(line);
            }
            searched = self.unread.len();
            if searched > most {
                return Err(ErrorKind::InvalidData.into());
            }
            if !wanted() {
                return Err(ErrorKind::Interrupted.into());
            }
            let mut some = [0; 4096];
            match (&self.connection.socket).read(&mut some) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend_from_slice(&some[..length]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
    let mut failed = invalid("this host has no address".to_owned());
    let addresses = (host, port).to_socket_addrs();
    for address in addresses.map_err(|error| invalid(error.to_string()))? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn cannot_connect(address: &Address, error: &io::Error) -> Failure {
    let reason = format!("cannot reach a receiver at {address}: {error}");
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            Failure::error(format!("{reason} (is `costof send --listen {address}` running there?)"))
        }
        ErrorKind::InvalidInput => Failure::unsupported(reason),
        _ => Failure::error(format!("{reason} (a firewall may forbid it)")),
    }
}

/// Why the costof there does not serve the caller.
pub(crate) fn refused(place: &dyn Display, failure: &Failure) -> Failure {
    let reason = harmless::beginning(&failure.reason, 500);
    let place = place.to_string();
    let address = place.trim_start_matches("tcp:");
    let reason = format!("the receiver at {address} refuses: {reason}");
    Failure { kind: failure.kind, reason }
}

fn lost(address: &Address, error: &io::Error) -> Failure {
    Failure::error(match error.kind() {
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn pair() -> (Connection, Connection) {
        let (one, other) = UnixStream::pair().expect("there are sockets");
        let connection = |socket| Connection::unix(socket).expect("it is a socket");
        (connection(one), connection(other))
    }

    #[test]
    fn lines_come_one_by_one_however_they_were_written() {
        let (one, other) = pair();
        let mut lines = Lines::new(&other);
        one.write(b"a\n\nbc").expect("it is written");
        one.write(b"d\n").expect("it is written");
        for line in [&b"a"[..], b"", b"bcd"] {
            assert_eq!(lines.next(100, || true).expect("it comes"), line);
        }
    }

    #[test]
    fn what_is_too_long_not_wanted_or_gone_is_an_error() {
        let kind = |lines: &mut Lines<'_>, wanted| {
            let line = lines.next(100, || wanted);
            line.map_err(|error| error.kind())
        };
        let (one, other) = pair();
        let mut lines = Lines::new(&other);
        assert_eq!(kind(&mut lines, false), Err(ErrorKind::Interrupted));
        one.write(&[b'x'; 50]).expect("it is written");
        drop(one);
        assert_eq!(kind(&mut lines, true), Err(ErrorKind::UnexpectedEof));
        let (one, other) = pair();
        one.write(&[b'x'; 5000]).expect("it is written");
        assert_eq!(kind(&mut Lines::new(&other), true), Err(ErrorKind::InvalidData));
    }

    /// RFC 4231, test case 2.
    #[test]
    fn an_answer_is_the_hmac_of_the_challenge() {
        let answer = answer(Some("Jefe"), "what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(answer, expected);
    }

    #[test]
    fn an_answer_is_of_one_token_and_one_challenge() {
        let own = answer(Some("token"), "costof challenge 1");
        for (token, challenge) in [
            (Some("token"), "costof challenge 2"),
            (Some("other"), "costof challenge 1"),
            (None, "costof challenge 1"),
        ] {
            assert_ne!(answer(token, challenge), own);
        }
    }
}
