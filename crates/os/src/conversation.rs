//! Measured: messages of one size to another process and back, by sockets.
//!
//! Both ends are told a token of their launch: what does not begin with it is dropped before a
//! byte of it is used. Each message begins with its number, as far as it is long enough for one,
//! so that an answer is known to be that of its message. A datagram may be lost: the one who asks
//! sends it again after a while, and does not take a late answer for that of the next one.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`, recv(2) on `MSG_DONTWAIT` and
//! `MSG_TRUNC`.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recv, recvfrom, send, sendto};

/// The longest message that one datagram over IPv4 carries, in bytes.
pub const MOST_UDP_BYTES: usize = 65_507;

/// How long a blocking receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning receive tries before it does.
const TRIES: u32 = 100_000;
/// How often it is looked for the rest of a message that has begun to come.
const LOOKS: u32 = 200;
/// How long the other end has to say the token.
const GREETING: Duration = Duration::from_secs(5);
/// How long one caller has to, while others may be waiting.
const TOKEN: Duration = Duration::from_secs(1);
/// After how long without an answer a datagram is sent again, before it is known how long one
/// takes (RFC 6298, section 2), and the least afterwards, as Linux has it for TCP.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_LEAST: Duration = Duration::from_millis(200);
/// How often it is sent again.
const AGAIN_MOST: u32 = 10;
/// Bytes of a message's number, where it has as many.
const NUMBER: usize = 8;

/// What a message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, without Nagle's delay.
    Tcp,
    /// UDP, a datagram each way, by sockets that are not connected, as those of servers are: the
    /// kernel looks up the route of each.
    Udp,
    /// A Unix stream socket, for two ends on one machine and in one network namespace.
    Unix,
}

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By asking again and again.
    Spin,
}

/// Where a listener can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At an address and port.
    Ip(SocketAddr),
    /// By an abstract name of this network namespace, which is no file (unix(7)).
    Unix(String),
}

/// Where the other end can call.
#[derive(Debug)]
pub enum Listener {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
    /// For connections on this machine.
    Unix(UnixListener),
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Conversation {
    socket: OwnedFd,
    over: Over,
    /// Where datagrams go to, and come from.
    peer: Option<SocketAddrAny>,
    wait: Wait,
    token: Vec<u8>,
    /// Whether this end has called, and asks.
    calls: bool,
    /// Messages asked so far, and how many of them were sent again.
    asked: u64,
    again: u64,
    again_after: Duration,
    /// How much of a message has gone and come, of those that do not wait.
    sent: usize,
    received: usize,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(name) => write!(f, "unix:@{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:@") {
            Some(name) => Ok(Self::Unix(name.to_owned())),
            None => text
                .parse()
                .map(Self::Ip)
                .map_err(|_| format!("`{text}` is no address")),
        }
    }
}

impl Listener {
    /// Listens at `address`, on a port between these, or any where they are 0. A Unix socket has
    /// neither; it has a name of its own.
    ///
    /// # Errors
    ///
    /// What bind(2) says of the last port that was tried.
    pub fn open(over: Over, address: IpAddr, ports: (u16, u16)) -> io::Result<Self> {
        if over == Over::Unix {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("costof-{}-{next}", std::process::id());
            let name = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            return UnixListener::bind_addr(&name).map(Self::Unix);
        }
        let mut last = io::Error::from(ErrorKind::AddrInUse);
        for port in ports.0..=ports.1 {
            let at = SocketAddr::new(address, port);
            let opened = match over {
                Over::Udp => UdpSocket::bind(at).map(Self::Udp),
                _ => TcpListener::bind(at).map(Self::Tcp),
            };
            match opened {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where the other end finds it.
    ///
    /// # Errors
    ///
    /// What getsockname(2) says.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Ip),
            Self::Udp(socket) => socket.local_addr().map(Address::Ip),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let name = address.as_abstract_name().unwrap_or_default();
                Ok(Address::Unix(String::from_utf8_lossy(name).into_owned()))
            }
        }
    }

    /// The conversation with the first who says the token. Others are dropped.
    ///
    /// # Errors
    ///
    /// `TimedOut` if nobody does within five seconds.
    pub fn accept(self, wait: Wait, token: &[u8]) -> io::Result<Conversation> {
        let (socket, over, peer): (OwnedFd, Over, Option<SocketAddr>) = match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let socket =
                    first_with_token(token, || listener.accept().map(|(stream, _)| stream))?;
                (socket, Over::Tcp, None)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let socket =
                    first_with_token(token, || listener.accept().map(|(stream, _)| stream))?;
                (socket, Over::Unix, None)
            }
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(LOOK))?;
                let until = Instant::now() + GREETING;
                // A longer datagram is cut, and then as long as this.
                let mut said = vec![0; token.len() + 1];
                loop {
                    in_time(until)?;
                    let Ok((length, from)) = socket.recv_from(&mut said) else {
                        continue;
                    };
                    if said[..length] == *token {
                        break (socket.into(), Over::Udp, Some(from));
                    }
                }
            }
        };
        let mut conversation = Conversation::of(socket, over, peer, wait, token)?;
        conversation.send(token)?;
        Ok(conversation)
    }
}

/// The first who connects and says the token.
fn first_with_token<S: Into<OwnedFd>>(
    token: &[u8],
    mut accept: impl FnMut() -> io::Result<S>,
) -> io::Result<OwnedFd> {
    let until = Instant::now() + GREETING;
    let mut said = vec![0; token.len()];
    loop {
        match accept() {
            Ok(stream) => {
                let socket: OwnedFd = stream.into();
                rustix::io::ioctl_fionbio(&socket, false)?;
                receive_within(socket.as_fd(), TOKEN)?;
                let mut file = std::fs::File::from(socket);
                if file.read_exact(&mut said).is_ok() && said == token {
                    return Ok(file.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(error) => return Err(error),
        }
        in_time(until)?;
    }
}

impl Conversation {
    /// Calls a listener, and says the token, which it answers.
    ///
    /// # Errors
    ///
    /// What connect(2) says; `TimedOut` where no answer comes, `InvalidData` where another one does.
    pub fn call(over: Over, address: &Address, wait: Wait, token: &[u8]) -> io::Result<Self> {
        let socket: OwnedFd = match (over, address) {
            (Over::Tcp, Address::Ip(address)) => {
                TcpStream::connect_timeout(address, GREETING)?.into()
            }
            (Over::Udp, Address::Ip(address)) => {
                let any = match address {
                    SocketAddr::V4(_) => "0.0.0.0:0",
                    SocketAddr::V6(_) => "[::]:0",
                };
                UdpSocket::bind(any)?.into()
            }
            (Over::Unix, Address::Unix(name)) => {
                let name = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                UnixStream::connect_addr(&name)?.into()
            }
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let peer = match (over, address) {
            (Over::Udp, Address::Ip(address)) => Some(*address),
            _ => None,
        };
        let mut conversation = Self::of(socket, over, peer, wait, token)?;
        conversation.calls = true;
        let until = Instant::now() + GREETING;
        let mut said = vec![0; token.len()];
        conversation.send(token)?;
        while !conversation.receive(&mut said)? {
            in_time(until)?;
            if over == Over::Udp {
                // It may have been lost.
                conversation.send(token)?;
            }
        }
        if said != token {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the other end has another token",
            ));
        }
        Ok(conversation)
    }

    fn of(
        socket: OwnedFd,
        over: Over,
        peer: Option<SocketAddr>,
        wait: Wait,
        token: &[u8],
    ) -> io::Result<Self> {
        if over == Over::Tcp {
            rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
        }
        receive_within(socket.as_fd(), LOOK)?;
        Ok(Self {
            socket,
            over,
            peer: peer.map(SocketAddrAny::from),
            wait,
            token: token.to_vec(),
            calls: false,
            asked: 0,
            again: 0,
            again_after: AGAIN_FIRST,
            sent: 0,
            received: 0,
        })
    }

    /// The socket, to set options of it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Who is at the other end; none of a Unix socket.
    ///
    /// # Errors
    ///
    /// What getpeername(2) says.
    pub fn peer(&self) -> io::Result<Option<SocketAddr>> {
        let address = match &self.peer {
            Some(address) => Some(address.clone()),
            None => rustix::net::getpeername(&self.socket)?,
        };
        Ok(address.and_then(|address| SocketAddr::try_from(address).ok()))
    }

    /// How often a datagram was sent again because no answer came in time.
    pub fn sent_again(&self) -> u64 {
        self.again
    }

    /// How often [`Self::ask`] was called.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// A message there, with the next number in its first eight bytes or in as many as it has,
    /// and the answer to it back, which is as long. A datagram that is not answered is sent again.
    ///
    /// # Errors
    ///
    /// What send(2) and recv(2) say; `UnexpectedEof` where the other end has closed, `TimedOut`
    /// where it does not answer, `InvalidData` where the answer has another number.
    #[inline]
    pub fn ask(&mut self, message: &mut [u8], answer: &mut [u8]) -> io::Result<()> {
        let first = (self.asked == 0).then(Instant::now);
        let length = message.len().min(NUMBER);
        self.asked += 1;
        message[..length].copy_from_slice(&self.asked.to_le_bytes()[..length]);
        self.send(message)?;
        let mut quiet: Option<Instant> = None;
        let mut again = 0;
        loop {
            if self.receive(answer)? {
                if answer[..length] == message[..length] {
                    break;
                }
                if self.over != Over::Udp {
                    return Err(ErrorKind::InvalidData.into());
                }
                // A late answer to what was sent again.
                continue;
            }
            if quiet.get_or_insert_with(Instant::now).elapsed() < self.again_after {
                continue;
            }
            if self.over == Over::Udp && again < AGAIN_MOST {
                self.send(message)?;
                again += 1;
                quiet = None;
            } else if quiet.is_some_and(|since| since.elapsed() > 2 * GREETING) || again > 0 {
                return Err(io::Error::new(
                    ErrorKind::TimedOut,
                    "the other end does not answer",
                ));
            }
        }
        self.again += u64::from(again);
        if let (Some(first), 0) = (first, again) {
            self.again_after = AGAIN_LEAST.max(3 * first.elapsed());
        }
        Ok(())
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        loop {
            match self.send_part(&message[sent..], SendFlags::empty()) {
                Ok(more) => sent += more,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if sent >= message.len() {
                return Ok(());
            }
        }
    }

    /// Receives a message of the buffer's size. False where none has come for a while.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `UnexpectedEof` where the other end has closed, `TimedOut` where the rest
    /// of a message does not come.
    #[inline]
    pub fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        let flags = match self.wait {
            Wait::Block => RecvFlags::empty(),
            Wait::Spin => RecvFlags::DONTWAIT,
        };
        let mut received = 0;
        let mut tries = 0;
        let mut looks = 0;
        loop {
            match self.receive_part(message, received, flags) {
                Ok(more) => received += more,
                Err(error) if is_passing(&error) => {
                    tries += 1;
                    if self.wait == Wait::Spin && tries < TRIES {
                        continue;
                    }
                    if received == 0 {
                        return Ok(false);
                    }
                    // The rest of what has begun to come is waited for.
                    tries = 0;
                    looks += 1;
                    if looks == LOOKS {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
            if received == message.len() {
                return Ok(true);
            }
        }
    }

    /// Sends as much of a message as goes without waiting; true when all of it has gone.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    #[inline]
    pub fn send_now(&mut self, message: &[u8]) -> io::Result<bool> {
        match self.send_part(&message[self.sent..], SendFlags::DONTWAIT) {
            Ok(more) => self.sent += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.sent >= message.len();
        if all {
            self.sent = 0;
        }
        Ok(all)
    }

    /// Receives what has come of a message of the buffer's size; true when all of it is there.
    ///
    /// # Errors
    ///
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_now(&mut self, message: &mut [u8]) -> io::Result<bool> {
        match self.receive_part(message, self.received, RecvFlags::DONTWAIT) {
            Ok(more) => self.received += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.received == message.len();
        if all {
            self.received = 0;
        }
        Ok(all)
    }

    /// More of a message, by one system call: how much went.
    #[inline]
    fn send_part(&self, part: &[u8], flags: SendFlags) -> io::Result<usize> {
        // Without a signal where nobody receives.
        let flags = flags | SendFlags::NOSIGNAL;
        Ok(match &self.peer {
            Some(peer) => sendto(&self.socket, part, flags, peer)?,
            None => send(&self.socket, part, flags)?,
        })
    }

    /// More of a message, from `received` on, by one system call: how much came; 0 of a datagram
    /// that is none.
    #[inline]
    fn receive_part(
        &mut self,
        message: &mut [u8],
        received: usize,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let Some(peer) = &self.peer else {
            return match recv(&self.socket, &mut message[received..], flags)?.1 {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                more => Ok(more),
            };
        };
        // Of a datagram that is too long, its true length.
        let flags = flags | RecvFlags::TRUNC;
        let (_, length, from) = recvfrom(&self.socket, &mut *message, flags)?;
        if from.as_ref() != Some(peer) {
            return Ok(0);
        }
        if length == message.len() {
            // A token as long as a message is answered as one, with the same bytes.
            return Ok(length);
        }
        if length == 0 && !self.calls {
            // How the one who called says goodbye.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let shown = length.min(message.len());
        if !self.calls && length == self.token.len() && message[..shown] == self.token[..shown] {
            // The caller has not got the answer to its token.
            self.send_part(&self.token, SendFlags::DONTWAIT)?;
        }
        Ok(0)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if self.calls && self.over == Over::Udp {
            // Where it is lost, the other end is stopped all the same.
            let _ = self.send_part(&[], SendFlags::DONTWAIT);
        }
    }
}

fn receive_within(socket: BorrowedFd<'_>, time: Duration) -> io::Result<()> {
    let which = rustix::net::sockopt::Timeout::Recv;
    Ok(rustix::net::sockopt::set_socket_timeout(
        socket,
        which,
        Some(time),
    )?)
}

/// Nothing has come yet, or a signal came between.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The other end has gone, which it may do when it has what it wants.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
    )
}

fn in_time(until: Instant) -> io::Result<()> {
    if Instant::now() > until {
        return Err(io::Error::new(
            ErrorKind::TimedOut,
            "the other end has not said the token in time",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Ipv4Addr;

    const TOKEN: &[u8] = b"0123456789abcdef";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn answers(mut conversation: Conversation, size: usize) {
        let mut message = vec![0; size];
        loop {
            match conversation.receive(&mut message) {
                Ok(true) => conversation.send(&message).unwrap(),
                Ok(false) => {}
                Err(error) => return assert!(is_end(&error), "{error}"),
            }
        }
    }

    #[test]
    fn messages_go_there_and_back_and_strangers_are_dropped() {
        for over in [Over::Tcp, Over::Udp, Over::Unix] {
            for wait in [Wait::Block, Wait::Spin] {
                let listener = Listener::open(over, HERE, (0, 0)).unwrap();
                let address: Address = listener.address().unwrap().to_string().parse().unwrap();
                let server =
                    std::thread::spawn(move || answers(listener.accept(wait, TOKEN).unwrap(), 100));
                let stranger = [0; TOKEN.len()];
                match &address {
                    Address::Ip(address) if over == Over::Tcp => {
                        let mut stream = TcpStream::connect(address).unwrap();
                        stream.write_all(&stranger).unwrap();
                        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
                    }
                    Address::Ip(address) => {
                        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.send_to(&stranger, address).unwrap();
                    }
                    Address::Unix(_) => {}
                }
                let mut conversation = Conversation::call(over, &address, wait, TOKEN).unwrap();
                let (mut message, mut answer) = ([7; 100], [0; 100]);
                for number in 1..=3 {
                    conversation.ask(&mut message, &mut answer).unwrap();
                    assert_eq!(answer, message);
                    assert_eq!(answer[..8], u64::to_le_bytes(number));
                }
                drop(conversation);
                server.join().unwrap();
            }
        }
    }

    /// Datagrams that are lost, late, doubled, cut or said again, by a server that does it.
    #[test]
    fn a_lost_datagram_is_sent_again_and_a_late_answer_is_not_the_next_ones() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(socket.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut bytes = [0; 200];
            let mut next = || {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                (bytes[..length].to_vec(), from)
            };
            let (token, from) = next();
            socket.send_to(&token, from).unwrap();
            socket.send_to(&token, from).unwrap();
            let (one, _) = next();
            socket.send_to(&[1; 200], from).unwrap();
            socket.send_to(&one, from).unwrap();
            let (lost, _) = next();
            let (two, _) = next();
            assert_eq!(two, lost);
            socket.send_to(&one, from).unwrap();
            socket.send_to(&two, from).unwrap();
            let (three, _) = next();
            socket.send_to(&two, from).unwrap();
            socket.send_to(&three, from).unwrap();
            assert!(next().0.is_empty());
        });
        let mut conversation = Conversation::call(Over::Udp, &address, Wait::Block, TOKEN).unwrap();
        // As long as the token, so that its length alone tells nothing.
        let (mut message, mut answer) = ([7; TOKEN.len()], [0; TOKEN.len()]);
        for _ in 0..3 {
            conversation.ask(&mut message, &mut answer).unwrap();
            assert_eq!(answer, message);
        }
        assert_eq!((conversation.asked(), conversation.sent_again()), (3, 1));
        drop(conversation);
        server.join().unwrap();
    }

    /// The one who answers meets a caller whose token was not answered in time.
    #[test]
    fn a_token_that_is_said_again_is_answered_again_and_is_no_message() {
        for size in [1, TOKEN.len(), 100] {
            let listener = Listener::open(Over::Udp, HERE, (0, 0)).unwrap();
            let Address::Ip(address) = listener.address().unwrap() else {
                panic!("a UDP socket has an address");
            };
            let server = std::thread::spawn(move || {
                answers(listener.accept(Wait::Block, TOKEN).unwrap(), size)
            });
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(address).unwrap();
            let mut bytes = [0; 200];
            for _ in 0..3 {
                socket.send(TOKEN).unwrap();
                let length = socket.recv(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], TOKEN);
            }
            socket.send(&vec![9; size]).unwrap();
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..length], vec![9; size]);
            socket.send(&[]).unwrap();
            server.join().unwrap();
        }
    }

    #[test]
    fn what_does_not_wait_sends_and_receives_in_parts() {
        let listener = Listener::open(Over::Tcp, HERE, (0, 0)).unwrap();
        let address = listener.address().unwrap();
        const SIZE: usize = 8 << 20;
        let server =
            std::thread::spawn(move || answers(listener.accept(Wait::Block, TOKEN).unwrap(), SIZE));
        let mut conversation = Conversation::call(Over::Tcp, &address, Wait::Spin, TOKEN).unwrap();
        let message: Vec<u8> = (0..SIZE).map(|byte| (byte % 251) as u8).collect();
        let mut answer = vec![0; SIZE];
        let mut parts = 1;
        while !conversation.send_now(&message).unwrap() {
            parts += 1;
        }
        while !conversation.receive_now(&mut answer).unwrap() {}
        assert!(parts > 1 && answer == message);
        drop(conversation);
        server.join().unwrap();
    }
}
