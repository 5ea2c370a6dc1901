//! The sending end of a flow.

use super::END;
use super::channel::Channel;
use crate::rendezvous::Over;
use crate::stream::{Checkpoint, Checkpoints, NUMBER_BYTES};
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::pattern::pattern;
use costof_os::net::socket::{self, TcpInfo, is_passing};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

/// How long the last data of a stream may take to arrive before the rest is discarded.
const STREAM_LINGER: Duration = Duration::from_millis(500);
/// How long the last datagram and those before it may take.
const DATAGRAM_LINGER: Duration = Duration::from_secs(10);

/// The longest duration of a flow, in nanoseconds, and the least number of checkpoints that it should have.
const MAX_DURATION_NS: u64 = 15_000_000_000;
const MIN_CHECKPOINTS: usize = 16;

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    token: Vec<u8>,
    /// It begins at a page boundary, so that all copies are aligned alike.
    block: Arena,
    size: usize,
    blocks: u64,
    checkpoints: Checkpoints,
    allocations: u64,
    round_trip: Duration,
}

impl Sender {
    pub(super) fn new(
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
            blocks: 0,
            checkpoints: Checkpoints::new(),
            allocations: 0,
            round_trip,
        })
    }

    /// The round-trip time when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Sends blocks for this long, or longer until there are sixteen checkpoints, but for at most fifteen
    /// seconds.
    ///
    /// # Errors
    ///
    /// Those of send(2); `TimedOut` if the receiver takes nothing for ten seconds.
    pub fn send(&mut self, duration: Duration) -> io::Result<()> {
        let allocated = allocations();
        let sent = self.send_blocks(duration.as_nanos() as u64);
        self.allocations += allocations() - allocated;
        sent
    }

    fn send_blocks(&mut self, duration_ns: u64) -> io::Result<()> {
        let size = self.size as u64;
        let block = &mut self.block.as_mut_slice()[..self.size];
        let start_ns = self.checkpoints.record(self.blocks * size);
        let (end_ns, last_ns) = (start_ns + duration_ns, start_ns + MAX_DURATION_NS);
        loop {
            block[..NUMBER_BYTES].copy_from_slice(&self.blocks.to_le_bytes());
            match self.channel.send_all(block) {
                // A device's queue is full: the datagram is lost before it is sent.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                sent => sent?,
            }
            self.blocks += 1;
            if self.checkpoints.is_due_after(size) {
                let now_ns = self.checkpoints.record(self.blocks * size);
                let has_enough = self.checkpoints.as_slice().len() >= MIN_CHECKPOINTS;
                if (now_ns >= end_ns && has_enough) || now_ns >= last_ns {
                    return Ok(());
                }
            }
        }
    }

    /// Ends the transfer, and waits until the receiver has everything. Data of a stream that has not arrived
    /// after half a second and four round trips is discarded. With datagrams, it waits for the last one and
    /// those before it, for at most ten seconds.
    ///
    /// # Errors
    ///
    /// Those of send(2) and recv(2); `InvalidData` if the receiver sends something.
    pub fn end(&mut self) -> io::Result<()> {
        if self.channel.is_stream() { self.end_stream() } else { self.end_datagrams() }
    }

    fn end_stream(&mut self) -> io::Result<()> {
        self.channel.shut_down(Shutdown::Write)?;
        let until = Instant::now() + STREAM_LINGER + 4 * self.round_trip;
        while Instant::now() < until {
            match self.channel.receive(&mut [0]) {
                // The receiver closes when it has everything.
                Ok(0) => return Ok(()),
                Ok(_) => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "the receiver of a stream sent something",
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

    /// The receiver returns the last datagram. Either may be lost, and is then sent again.
    fn end_datagrams(&mut self) -> io::Result<()> {
        let until = Instant::now() + DATAGRAM_LINGER;
        let end = [&self.token[..], END].concat();
        let mut reply = vec![0; end.len()];
        self.channel.send_all(&end)?;
        while Instant::now() < until {
            match self.channel.receive(&mut reply) {
                Ok(length) if reply[..length] == end => return Ok(()),
                // A repeated token.
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.channel.send_all(&end)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// How many blocks it has sent.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Its progress, recorded from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.checkpoints.as_slice()
    }

    /// TCP's statistics; `None` for other sockets.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        match self.channel.over {
            Over::Tcp => socket::tcp_info(&self.channel.socket).map(Some),
            Over::Udp | Over::Unix => Ok(None),
        }
    }

    /// The MTU of its path, in bytes; `None` for a Unix socket.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn mtu_bytes(&self) -> io::Result<Option<u32>> {
        match self.channel.over {
            Over::Tcp | Over::Udp => socket::mtu_bytes(&self.channel.socket).map(Some),
            Over::Unix => Ok(None),
        }
    }

    /// The size of its socket's send buffer, in bytes.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(send, _)| send)
    }

    /// Memory allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}
