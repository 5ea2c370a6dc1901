//! The conversation beside the messages: lines of bounded length, in bounded time.

use costof_os::net::socket;
use costof_os::net::socket::is_passing;
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long a read waits before it is looked whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How long the other end may take nothing.
const STALLED: Duration = Duration::from_secs(10);
/// In how many seconds an end is missed that has gone without a word, as where its power failed.
const LOST_SECONDS: u32 = 30;

#[derive(Debug)]
pub(super) enum Channel {
    Ip(TcpStream),
    Unix(UnixStream),
}

impl Channel {
    /// Of a socket that has connected.
    pub(super) fn ready(self) -> io::Result<Channel> {
        match &self {
            Channel::Ip(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(STALLED))?;
                socket::notice_loss_after(stream, LOST_SECONDS)?;
            }
            Channel::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(LOOK))?;
                stream.set_write_timeout(Some(STALLED))?;
            }
        }
        Ok(self)
    }

    /// The addresses of this end and the other one; loopback's of a Unix socket.
    pub(super) fn addresses(&self) -> io::Result<(IpAddr, IpAddr)> {
        match self {
            Channel::Ip(stream) => Ok((
                stream.local_addr()?.ip().to_canonical(),
                stream.peer_addr()?.ip().to_canonical(),
            )),
            Channel::Unix(_) => Ok((Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())),
        }
    }

    /// The other end, for people.
    pub(super) fn peer(&self) -> String {
        match self {
            Channel::Ip(stream) => stream
                .peer_addr()
                .map_or_else(|_| "somebody".to_owned(), |peer| peer.to_string()),
            Channel::Unix(_) => "a process on this machine".to_owned(),
        }
    }

    pub(super) fn duplicate(&self) -> io::Result<Channel> {
        Ok(match self {
            Channel::Ip(stream) => Channel::Ip(stream.try_clone()?),
            Channel::Unix(stream) => Channel::Unix(stream.try_clone()?),
        })
    }

    pub(super) fn say(&mut self, words: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(words)?;
        line.push(b'\n');
        self.write(&line)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Channel::Ip(stream) => stream.write_all(bytes),
            Channel::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Ip(stream) => stream.read(into),
            Channel::Unix(stream) => stream.read(into),
        }
    }

    /// Says no more, and lets the other end read what was said: a socket that is closed with
    /// something unread in it throws that away.
    pub(super) fn end(mut self) {
        const PATIENCE: Duration = Duration::from_secs(1);
        const MOST_READS: u32 = 64;
        let shut = match &self {
            Channel::Ip(stream) => stream.shutdown(Shutdown::Write),
            Channel::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        let until = Instant::now() + PATIENCE;
        let mut reads = 0;
        while shut.is_ok() && reads < MOST_READS && Instant::now() < until {
            match self.read(&mut [0; 4096]) {
                Ok(0) => return,
                Err(error) if !is_passing(&error) => return,
                _ => reads += 1,
            }
        }
    }
}

/// Lines as they come.
#[derive(Debug)]
pub(super) struct Lines {
    channel: Channel,
    unread: Vec<u8>,
}

impl Lines {
    pub(super) fn of(channel: Channel) -> Lines {
        Lines {
            channel,
            unread: Vec::new(),
        }
    }

    /// The next line without its end, as long as it is `wanted`.
    ///
    /// # Errors
    /// `UnexpectedEof` where the other end has gone, `InvalidData` for a line longer than `most`
    /// bytes, `Interrupted` where it is not wanted any more.
    pub(super) fn next(&mut self, most: usize, wanted: impl Fn() -> bool) -> io::Result<Vec<u8>> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.unread[looked..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=looked + end).collect();
                line.pop();
                return Ok(line);
            }
            looked = self.unread.len();
            if looked > most {
                return Err(ErrorKind::InvalidData.into());
            }
            if !wanted() {
                return Err(ErrorKind::Interrupted.into());
            }
            let mut some = [0; 4096];
            match self.channel.read(&mut some) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.unread.extend_from_slice(&some[..length]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next line, as words.
    ///
    /// # Errors
    /// Those of [`Lines::next`]; `InvalidData` for what are no such words.
    pub(super) fn words<W: DeserializeOwned>(
        &mut self,
        most: usize,
        wanted: impl Fn() -> bool,
    ) -> io::Result<W> {
        let line = self.next(most, wanted)?;
        serde_json::from_slice(&line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Channel, Lines) {
        let (one, other) = UnixStream::pair().expect("there are sockets");
        let ready = |stream| Channel::Unix(stream).ready().expect("it is one");
        (ready(one), Lines::of(ready(other)))
    }

    #[test]
    fn lines_come_one_by_one_however_they_were_written() {
        let (mut one, mut lines) = pair();
        one.write(b"a\n\nbc").expect("it is written");
        one.write(b"d\n").expect("it is written");
        for line in [&b"a"[..], b"", b"bcd"] {
            assert_eq!(lines.next(100, || true).expect("it comes"), line);
        }
        one.say(&7).expect("it is written");
        assert_eq!(lines.words::<u32>(100, || true).expect("a number"), 7);
    }

    #[test]
    fn what_is_too_long_not_wanted_or_gone_is_an_error() {
        let (mut one, mut lines) = pair();
        let kind =
            |lines: &mut Lines, wanted| lines.next(100, || wanted).map_err(|error| error.kind());
        assert_eq!(kind(&mut lines, false), Err(ErrorKind::Interrupted));
        one.write(&[b'x'; 50]).expect("it is written");
        drop(one);
        assert_eq!(kind(&mut lines, true), Err(ErrorKind::UnexpectedEof));
        let (mut one, mut lines) = pair();
        one.write(&[b'x'; 5000]).expect("it is written");
        assert_eq!(kind(&mut lines, true), Err(ErrorKind::InvalidData));
    }
}
