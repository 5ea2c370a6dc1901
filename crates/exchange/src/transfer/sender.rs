//! The sending end of a flow.

use super::channel::Channel;
use super::marks::{Mark, Marks};
use super::{FAREWELL, NUMBER_BYTES};
use crate::rendezvous::Over;
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::pattern::pattern;
use costof_os::net::socket::is_passing;
use costof_os::net::socket::{self, TcpInfo};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

/// How long what was sent may take to arrive when all is done, before the rest is thrown away; and
/// how long the last datagram may, with those before it.
const DRAIN: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(10);

/// How long a flow lasts at most, and how many marks it should have.
const LONGEST_NS: u64 = 15_000_000_000;
const MARKS_LEAST: usize = 16;

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    token: Vec<u8>,
    /// It begins at a page, so that all copies are aligned alike.
    block: Arena,
    size: usize,
    pub(super) sent: Sent,
    marks: Marks,
    allocations: u64,
    round_trip: Duration,
}

/// What a sender has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl Sender {
    pub(super) fn of(
        channel: Channel,
        size: usize,
        token: &[u8],
        round_trip: Duration,
    ) -> io::Result<Self> {
        let mut block = Arena::map(size, PageSize::Base)?;
        block.as_mut_slice()[..size].copy_from_slice(&pattern(size));
        Ok(Self {
            channel,
            token: token.to_vec(),
            block,
            size,
            sent: Sent::default(),
            marks: Marks::new(),
            allocations: 0,
            round_trip,
        })
    }

    /// A round trip when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Sends blocks for so long, or longer until it has made sixteen marks, but not for more than
    /// fifteen seconds.
    ///
    /// # Errors
    ///
    /// What send(2) says; `TimedOut` where the other end takes nothing for ten seconds.
    pub fn send(&mut self, duration: Duration) -> io::Result<()> {
        let allocated = allocations();
        let sent = self.send_blocks(duration.as_nanos() as u64);
        self.allocations += allocations() - allocated;
        sent
    }

    fn send_blocks(&mut self, duration_ns: u64) -> io::Result<()> {
        let size = self.size as u64;
        let block = &mut self.block.as_mut_slice()[..self.size];
        let begin_ns = self.marks.note(self.sent.bytes);
        let (end_ns, last_ns) = (begin_ns + duration_ns, begin_ns + LONGEST_NS);
        loop {
            block[..NUMBER_BYTES].copy_from_slice(&self.sent.blocks.to_le_bytes());
            match self.channel.send_all(block) {
                // A device's queue is full: the datagram is lost before it is sent.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                sent => sent?,
            }
            self.sent.blocks += 1;
            self.sent.bytes += size;
            if self.marks.is_due_after(size) {
                let now_ns = self.marks.note(self.sent.bytes);
                let enough = now_ns >= end_ns && self.marks.marks.len() >= MARKS_LEAST;
                if enough || now_ns >= last_ns {
                    return Ok(());
                }
            }
        }
    }

    /// Says that this was all, and waits until the receiver has it. What of a stream has not arrived
    /// half a second and four round trips later is thrown away; of datagrams the last one is waited
    /// for, with those before it, for ten seconds at most. Either way the receiver has what came.
    ///
    /// # Errors
    ///
    /// What send(2) and recv(2) say; `InvalidData` where the receiver says what was not asked.
    pub fn end(&mut self) -> io::Result<()> {
        match self.channel.is_stream() {
            true => self.end_stream(),
            false => self.end_datagrams(),
        }
    }

    fn end_stream(&mut self) -> io::Result<()> {
        self.channel.shut_down(Shutdown::Write)?;
        let until = Instant::now() + DRAIN + 4 * self.round_trip;
        while Instant::now() < until {
            match self.channel.receive(&mut [0]) {
                // The receiver closes when it has all.
                Ok(0) => return Ok(()),
                Ok(_) => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "the receiver said what was not asked",
                    ));
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        match self.channel.over {
            Over::Tcp => socket::reset_on_close(&self.channel.socket),
            Over::Udp | Over::Unix => Ok(()),
        }
    }

    /// The receiver says the last datagram back. Either may be lost, and is said again.
    fn end_datagrams(&mut self) -> io::Result<()> {
        let until = Instant::now() + LAST;
        let farewell = [&self.token[..], FAREWELL].concat();
        let mut said = vec![0; farewell.len()];
        self.channel.send_all(&farewell)?;
        while Instant::now() < until {
            match self.channel.receive(&mut said) {
                Ok(length) if said[..length] == farewell => return Ok(()),
                // The token again, where it was said more than once.
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.channel.send_all(&farewell)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How many blocks it has sent.
    pub fn blocks(&self) -> u64 {
        self.sent.blocks
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks.marks
    }

    /// What TCP says; none of other sockets.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        match self.channel.over {
            Over::Tcp => socket::tcp_info(&self.channel.socket).map(Some),
            Over::Udp | Over::Unix => Ok(None),
        }
    }

    /// The MTU of its way, in bytes; none of a Unix socket.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn mtu_bytes(&self) -> io::Result<Option<u32>> {
        match self.channel.over {
            Over::Tcp | Over::Udp => socket::mtu_bytes(&self.channel.socket).map(Some),
            Over::Unix => Ok(None),
        }
    }

    /// How much its socket lets wait to be sent, in bytes.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(send, _)| send)
    }

    /// Allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}
