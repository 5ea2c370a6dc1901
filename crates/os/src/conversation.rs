//! Measured: messages of one size to another process and back, by sockets.
//!
//! Both ends are told a token of their launch: what does not begin with it is dropped before a
//! byte of it is used.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`, recv(2) on `MSG_DONTWAIT`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long a blocking receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning receive tries before it does.
const TRIES: u32 = 100_000;
/// How long the other end has to say the token.
const GREETING: Duration = Duration::from_secs(5);

/// What a message goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, without Nagle's delay.
    Tcp,
    /// UDP, a datagram each way.
    Udp,
}

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By asking again and again.
    Spin,
}

/// Where the other end can call.
#[derive(Debug)]
pub enum Listener {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Conversation {
    socket: Socket,
    wait: Wait,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Listener {
    /// Listens at `address`, on a port between these, or any where they are 0.
    ///
    /// # Errors
    ///
    /// What bind(2) says of the last port that was tried.
    pub fn open(over: Over, address: IpAddr, ports: (u16, u16)) -> io::Result<Self> {
        let mut last = io::Error::from(ErrorKind::AddrInUse);
        for port in ports.0..=ports.1 {
            let at = SocketAddr::new(address, port);
            let opened = match over {
                Over::Tcp => TcpListener::bind(at).map(Self::Tcp),
                Over::Udp => UdpSocket::bind(at).map(Self::Udp),
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
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        }
    }

    /// The conversation with the first who says the token. Others are dropped.
    ///
    /// # Errors
    ///
    /// `TimedOut` if nobody does within five seconds.
    pub fn accept(self, wait: Wait, token: &[u8]) -> io::Result<Conversation> {
        let until = Instant::now() + GREETING;
        let mut said = vec![0; token.len()];
        let socket = match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                loop {
                    let stream = match listener.accept() {
                        Ok((stream, _)) => stream,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            in_time(until)?;
                            std::thread::sleep(Duration::from_micros(200));
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(LOOK))?;
                    if (&stream).read_exact(&mut said).is_ok() && said == token {
                        break Socket::Tcp(stream);
                    }
                }
            }
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(LOOK))?;
                loop {
                    in_time(until)?;
                    let Ok((length, from)) = socket.recv_from(&mut said) else {
                        continue;
                    };
                    if said[..length] == *token {
                        socket.connect(from)?;
                        break Socket::Udp(socket);
                    }
                }
            }
        };
        let mut conversation = Conversation::of(socket, wait)?;
        conversation.send(token)?;
        Ok(conversation)
    }
}

impl Conversation {
    /// Calls a listener, and says the token, which it answers.
    ///
    /// # Errors
    ///
    /// What connect(2) says; `TimedOut` where no answer comes, `InvalidData` where another one does.
    pub fn call(over: Over, address: SocketAddr, wait: Wait, token: &[u8]) -> io::Result<Self> {
        let socket = match over {
            Over::Tcp => Socket::Tcp(TcpStream::connect_timeout(&address, GREETING)?),
            Over::Udp => {
                let any = match address {
                    SocketAddr::V4(_) => "0.0.0.0:0",
                    SocketAddr::V6(_) => "[::]:0",
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Socket::Udp(socket)
            }
        };
        let mut conversation = Self::of(socket, wait)?;
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

    fn of(socket: Socket, wait: Wait) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_nonblocking(wait == Wait::Spin)?;
            }
            Socket::Udp(socket) => {
                socket.set_read_timeout(Some(LOOK))?;
                socket.set_nonblocking(wait == Wait::Spin)?;
            }
        }
        Ok(Self { socket, wait })
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(stream) => {
                let mut sent = 0;
                while sent < message.len() {
                    match stream.write(&message[sent..]) {
                        Ok(more) => sent += more,
                        Err(error) if is_passing(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            Socket::Udp(socket) => loop {
                match socket.send(message) {
                    Err(error) if is_passing(&error) => {}
                    sent => return sent.map(drop),
                }
            },
        }
    }

    /// Receives a message of the buffer's size. False where none has come for a while.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `UnexpectedEof` where the other end has closed, `InvalidData` for a
    /// datagram of another size.
    #[inline]
    pub fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        let mut received = 0;
        let mut tries = 0;
        loop {
            let part = match &mut self.socket {
                Socket::Tcp(stream) => stream.read(&mut message[received..]),
                Socket::Udp(socket) => socket.recv(message),
            };
            match (part, &self.socket) {
                (Ok(0), Socket::Tcp(_)) => return Err(ErrorKind::UnexpectedEof.into()),
                (Ok(length), Socket::Udp(_)) if length != message.len() => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "a datagram of another size came",
                    ));
                }
                (Ok(more), _) => {
                    received += more;
                    if received == message.len() {
                        return Ok(true);
                    }
                }
                (Err(error), _) if is_passing(&error) => {
                    tries += 1;
                    // The rest of what has begun to come is waited for.
                    if received == 0 && (self.wait == Wait::Block || tries == TRIES) {
                        return Ok(false);
                    }
                }
                (Err(error), _) => return Err(error),
            }
        }
    }
}

/// Nothing has come yet, or a signal came between.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
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
    use std::net::Ipv4Addr;

    const TOKEN: &[u8] = b"0123456789abcdef";

    #[test]
    fn messages_go_there_and_back_and_strangers_are_dropped() {
        for over in [Over::Tcp, Over::Udp] {
            for wait in [Wait::Block, Wait::Spin] {
                let listener = Listener::open(over, Ipv4Addr::LOCALHOST.into(), (0, 0)).unwrap();
                let address = listener.address().unwrap();
                let server = std::thread::spawn(move || {
                    let mut conversation = listener.accept(wait, TOKEN).unwrap();
                    let mut message = [0; 100];
                    while !conversation.receive(&mut message).unwrap() {}
                    conversation.send(&message).unwrap();
                });
                let stranger = [0; TOKEN.len()];
                match over {
                    Over::Tcp => {
                        let mut stream = TcpStream::connect(address).unwrap();
                        stream.write_all(&stranger).unwrap();
                        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
                    }
                    Over::Udp => {
                        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                        socket.send_to(&stranger, address).unwrap();
                    }
                }
                let mut conversation = Conversation::call(over, address, wait, TOKEN).unwrap();
                conversation.send(&[7; 100]).unwrap();
                let mut answer = [0; 100];
                while !conversation.receive(&mut answer).unwrap() {}
                assert_eq!(answer, [7; 100]);
                server.join().unwrap();
            }
        }
    }
}
