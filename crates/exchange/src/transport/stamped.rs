//! A socket whose packets the kernel time-stamps when they leave and when they arrive, around
//! [`Socket`].
//!
//! The kernel stamps a packet with `CLOCK_REALTIME` when it enters the queue discipline (SCHED),
//! when it is passed to the driver (SND), and when the receiving stack gets it (RX). The first two
//! come back through the socket's error queue, each with two control messages: the time stamp, and
//! its kind and message. UDP numbers messages by count, TCP by bytes. A kernel thread switches time
//! stamps on for the machine, a while after the first socket asks for them: the first packets have
//! none. If threads of SCHED_IDLE keep the CPUs busy, that thread took many seconds, so create
//! [`SwitchedOn`](costof_os::net::timestamps::SwitchedOn) before those.
//!
//! Source: Linux Documentation/networking/timestamping.rst. `SOF_TIMESTAMPING_TX_SCHED` since Linux
//! 3.17, `OPT_TSONLY` since 4.0.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;

use super::socket::{Socket, receive_whole};
use super::{Channel, TryReceive, Wait};
use costof_os::net::control_message;
use costof_os::net::poll::able;
use costof_os::net::socket::{is_passing, receive_within};
use costof_os::net::timestamps::{
    CONTROL_WORDS, SCM_TSTAMP_SCHED, SCM_TSTAMP_SND, event_in, stamp, stamp_in,
};

/// How many stamps of sent packets are remembered.
const MAX_STAMPS: usize = 64;

/// A transport over a stamped socket.
pub trait Stamps: Channel {
    /// The socket.
    fn stamped(&mut self) -> &mut Stamped;
}

/// How the two ends of messages are made over stamped sockets that have found each other.
pub trait StampedChannels {
    /// The end that sends messages.
    type Client: Stamps;
    /// The end that answers them.
    type Server: Stamps;

    /// # Errors
    /// Why the ends do not connect.
    fn client(socket: Stamped, size: usize) -> io::Result<Self::Client>;

    /// # Errors
    /// The system's error about the socket.
    fn server(socket: Stamped, size: usize) -> io::Result<Self::Server>;
}

impl StampedChannels for Stamped {
    type Client = Stamped;
    type Server = Stamped;

    fn client(socket: Stamped, _: usize) -> io::Result<Stamped> {
        Ok(socket)
    }

    fn server(socket: Stamped, _: usize) -> io::Result<Stamped> {
        Ok(socket)
    }
}

/// One end of a connection or of datagrams whose packets are stamped, and what was stamped of the
/// exchange in progress.
#[derive(Debug)]
pub struct Stamped {
    socket: Socket,
    /// How the kernel numbers the next byte, or the next datagram.
    next_key: u32,
    /// The key of the first message or datagram that was sent in this exchange.
    sent: Option<u32>,
    /// When the stack received the last message of the exchange, in nanoseconds of `CLOCK_REALTIME`; `None`
    /// if the kernel has not reported it.
    pub received_ns: Option<u64>,
    stamps: VecDeque<Stamp>,
    control: Box<[u64; CONTROL_WORDS]>,
}

/// When the message of a key passed a point on its way out.
#[derive(Debug)]
struct Stamp {
    key: u32,
    event: u32,
    at_ns: u64,
}

impl Stamped {
    /// Makes the kernel stamp packets when they are passed to the driver and when they are received.
    ///
    /// # Errors
    ///
    /// EINVAL if the kernel has no such stamps, or if the socket is neither UDP nor TCP.
    pub fn new(socket: Socket) -> io::Result<Self> {
        Self::with(socket, 0)
    }

    /// The same, and also when packets enter the queue discipline.
    ///
    /// # Errors
    ///
    /// Those of [`Stamped::new`].
    pub fn with_queue(socket: Socket) -> io::Result<Self> {
        Self::with(socket, libc::SOF_TIMESTAMPING_TX_SCHED)
    }

    fn with(socket: Socket, more: u32) -> io::Result<Self> {
        let flags: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        stamp(socket.as_fd(), flags | more)?;
        Ok(Self {
            socket,
            next_key: 0,
            sent: None,
            received_ns: None,
            stamps: VecDeque::with_capacity(MAX_STAMPS),
            control: Box::new([0; CONTROL_WORDS]),
        })
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// The system's; `InvalidInput` if it has none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.socket.peer()?.ok_or_else(|| ErrorKind::InvalidInput.into())
    }

    /// How it waits for a message.
    pub fn wait(&self) -> Wait {
        self.socket.wait
    }

    /// Begins an exchange: what was sent and received before does not count.
    pub fn begin(&mut self) {
        (self.sent, self.received_ns) = (None, None);
    }

    /// When the first message of the exchange entered the queue discipline, as [`Stamped::left_ns`].
    ///
    /// # Errors
    ///
    /// Those of [`Stamped::left_ns`].
    pub fn queued_ns(&mut self) -> io::Result<Option<u64>> {
        self.stamp_ns(SCM_TSTAMP_SCHED)
    }

    /// When the first message of the exchange, or its last byte, was passed to the driver, in nanoseconds of
    /// `CLOCK_REALTIME`; `None` if the kernel has not reported it.
    ///
    /// # Errors
    ///
    /// Those of recvmsg(2) about the error queue.
    pub fn left_ns(&mut self) -> io::Result<Option<u64>> {
        self.stamp_ns(SCM_TSTAMP_SND)
    }

    fn stamp_ns(&mut self, event: u32) -> io::Result<Option<u64>> {
        let Some(key) = self.sent else {
            return Ok(None);
        };
        let at_ns = self.remembered_ns(key, event);
        if at_ns.is_some() {
            return Ok(at_ns);
        }
        self.fetch_stamps()?;
        Ok(self.remembered_ns(key, event))
    }

    /// The first stamp of its kind, if TCP has retransmitted the message.
    fn remembered_ns(&self, key: u32, event: u32) -> Option<u64> {
        let is_it = |stamp: &&Stamp| stamp.key == key && stamp.event == event;
        self.stamps.iter().find(is_it).map(|stamp| stamp.at_ns)
    }

    /// Limits how long a receive waits in the kernel at a time; the kernel rounds this up to its ticks.
    ///
    /// # Errors
    ///
    /// EDOM for zero.
    pub fn set_receive_timeout(&self, time: Duration) -> io::Result<()> {
        receive_within(&self.socket, time)
    }

    /// Sends a message, or a datagram.
    ///
    /// # Errors
    ///
    /// Those of [`Channel::send`].
    #[inline]
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let key = match self.socket.over.is_datagrams() {
            true => self.next_key,
            false => self.next_key.wrapping_add(bytes.len() as u32 - 1),
        };
        self.next_key = key.wrapping_add(1);
        self.sent.get_or_insert(key);
        self.socket.send_all(bytes)
    }

    /// Receives a datagram of any size into a buffer that is long enough, waiting as long as the socket does.
    /// Returns its length. `None` if none arrived, or only one of the rendezvous.
    ///
    /// # Errors
    ///
    /// The errors of recvmsg(2); `UnexpectedEof` if the client has ended.
    #[inline]
    pub fn receive_datagram(&mut self, datagram: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive_by(datagram, 0)
    }

    /// The same without waiting.
    ///
    /// # Errors
    ///
    /// Those of [`Stamped::receive_datagram`].
    #[inline]
    pub fn try_receive_datagram(&mut self, datagram: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive_by(datagram, libc::MSG_DONTWAIT)
    }

    #[inline]
    fn receive_by(&mut self, datagram: &mut [u8], flags: i32) -> io::Result<Option<usize>> {
        let control = &mut *self.control;
        let length = match control_message::receive(&self.socket, datagram, control, flags) {
            Ok((length, control)) => {
                self.received_ns = stamp_in(control);
                length
            }
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.socket.of_rendezvous(&datagram[..length]) {
            None => Ok(Some(length)),
            Some(Err(error)) => Err(error),
            Some(Ok(token)) => {
                // The kernel numbers this datagram too.
                self.send_bytes(&token)?;
                Ok(None)
            }
        }
    }

    /// Receives a part of a message, from `received` on. Returns how many bytes; 0 if what arrived is not a
    /// part of one.
    #[inline]
    fn receive_part(
        &mut self,
        message: &mut [u8],
        received: usize,
        flags: i32,
    ) -> io::Result<usize> {
        let size = message.len();
        let length = self.receive_by(&mut message[received..], flags)?;
        match length {
            None => Ok(0),
            Some(length) if self.socket.over.is_datagrams() => {
                Ok(if length == size { size } else { 0 })
            }
            Some(0) => Err(ErrorKind::UnexpectedEof.into()),
            Some(length) => Ok(length),
        }
    }

    /// Waits in the kernel until something can be received, for at most this long.
    ///
    /// # Errors
    ///
    /// The errors of poll(2).
    pub fn wait_readable(&mut self, time: Duration) -> io::Result<()> {
        match able(&self.socket, PollFlags::IN, time)? {
            // Stamps that stay in the error queue would end every wait at once.
            Some(able) if able.contains(PollFlags::ERR) => self.fetch_stamps(),
            _ => Ok(()),
        }
    }

    /// Empties the error queue.
    fn fetch_stamps(&mut self) -> io::Result<()> {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        loop {
            let control = &mut *self.control;
            match control_message::receive(&self.socket, &mut [], control, flags) {
                Ok((_, control)) => {
                    if let (Some((event, key)), Some(at_ns)) =
                        (event_in(control), stamp_in(control))
                    {
                        if self.stamps.len() == MAX_STAMPS {
                            self.stamps.pop_front();
                        }
                        self.stamps.push_back(Stamp { key, event, at_ns });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Channel for Stamped {
    #[inline]
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        self.send_bytes(message)
    }

    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        let flags = match self.wait() {
            Wait::Block => 0,
            Wait::Spin => libc::MSG_DONTWAIT,
        };
        receive_whole(message, self.wait(), |message, received| {
            self.receive_part(message, received, flags)
        })
    }

    fn initial_rto(&self) -> Option<Duration> {
        self.socket.initial_rto()
    }
}

impl TryReceive for Stamped {
    /// Only for datagrams: a message that has arrived in part is not a message.
    #[inline]
    fn try_receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        let length = self.try_receive_datagram(message)?;
        Ok(length == Some(message.len()))
    }
}

impl Stamps for Stamped {
    fn stamped(&mut self) -> &mut Stamped {
        self
    }
}

#[cfg(test)]
mod tests;
