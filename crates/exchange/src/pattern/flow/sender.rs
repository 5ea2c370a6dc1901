//! The sending end of a flow of messages.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};

use super::block::Block;
use super::usage::ThreadUsage;
use super::writer::Writer;
use super::{REQUEST_BYTES, request};
use crate::content::wrong_bytes;
use crate::progress::{Ending, Limits, POLL_INTERVAL, Progress, Waits};
use crate::rendezvous::{Over, Token};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::cache_pollution::Victim;
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{Counts, FieldSender};
use costof_os::net::socket::{self, TcpInfo, is_passing};

/// How long the last data may take to arrive before the rest is discarded.
const DRAIN: Duration = Duration::from_millis(500);
/// The same if a number of messages was asked for, all of which should arrive.
const DRAIN_ALL: Duration = Duration::from_secs(60);
/// How long to wait for datagrams that nobody acknowledges.
const LAST: Duration = Duration::from_millis(20);
/// How long the last datagram of blocks and those before it may take.
const DRAIN_DATAGRAMS: Duration = Duration::from_secs(10);

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender<M = FieldSender> {
    pub(super) messages: M,
    pub(super) over: Over,
    /// `None` into a sink.
    pub(super) token: Option<Token>,
    /// The round-trip time when the flow began; `None` if nobody receives it.
    round_trip: Option<Duration>,
    /// How far it has come.
    pub progress: Progress,
    /// Datagrams that were lost before they were sent: a device's queue had no room for them.
    pub refused: u64,
    ending: Option<Ending>,
    /// What it did while it streamed or echoed, without single messages and without the wait at the end. System
    /// calls include those that receive answers and requests, or wait for them.
    pub sent: Counts,
    /// What its thread used while it sent.
    pub usage: ThreadUsage,
    /// Over UDP: messages that should be answered, and those that never were.
    pub(super) asked: u64,
    pub(super) unanswered: u64,
    pub(super) verifies: bool,
}

impl<M: Writer> Sender<M> {
    pub(super) fn new(messages: M, over: Over, peer: Option<(Token, Duration)>) -> Self {
        let (token, round_trip) = peer.unzip();
        Self {
            messages,
            over,
            token,
            round_trip,
            progress: Progress::default(),
            refused: 0,
            ending: None,
            sent: Counts::default(),
            usage: ThreadUsage::default(),
            asked: 0,
            unanswered: 0,
            verifies: false,
        }
    }

    /// Sends for this long, as [`Limits::new`] has it.
    fn send_for(&mut self, duration: Duration) -> io::Result<()> {
        let begin_ns = self.progress.add(0);
        let limits = self.limits(begin_ns, duration);
        for _ in 0..limits.messages {
            if let Some(now_ns) = self.send_one()?
                && limits.is_over(now_ns, &self.progress)
            {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn limits(&self, begin_ns: u64, duration: Duration) -> Limits {
        Limits::new(begin_ns, duration, self.ending.as_ref())
    }

    /// Sends a message. Returns the time if the progress was recorded.
    #[inline]
    fn send_one(&mut self) -> io::Result<Option<u64>> {
        self.send_or_lose()?;
        let size = self.messages.size() as u64;
        Ok(self.progress.add_one_of_many(size))
    }

    /// Sends a message. It counts as lost if a device's queue has no room for its datagrams.
    #[inline]
    pub(super) fn send_or_lose(&mut self) -> io::Result<()> {
        match self.messages.send() {
            Err(error)
                if self.over.is_datagrams() && error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                self.refused += 1;
                Ok(())
            }
            sent => sent,
        }
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.messages.socket()
    }

    /// Ends a stream, and waits until the receiver has it: for this long, after which the rest is discarded, or
    /// with [`Sender::end_by`] for a minute longer.
    fn end_stream(&mut self, time: Duration) -> io::Result<()> {
        shutdown(self.messages.socket(), Shutdown::Write)?;
        let soon = Instant::now() + time;
        let late = soon + DRAIN_ALL;
        let mut answer = [0; 4096];
        loop {
            let waits_for_all = self.ending.as_ref().is_some_and(|ending| !ending.is_stopped());
            if Instant::now() >= (if waits_for_all { late } else { soon }) {
                break;
            }
            match recv(self.messages.socket(), &mut answer[..], RecvFlags::empty()) {
                // The receiver closes when it has everything.
                Ok((_, 0)) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_passing(&error.into()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.over == Over::Tcp {
            socket::reset_on_close(self.messages.socket())?;
        }
        Ok(())
    }

    /// How long the receiver of a stream may take to get the rest.
    fn drains_within(&self) -> Duration {
        DRAIN + 4 * self.round_trip()
    }

    /// The round-trip time when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// The state of a TCP connection; `None` for other sockets.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        let is_tcp = self.over == Over::Tcp;
        is_tcp.then(|| socket::tcp_info(self.messages.socket())).transpose()
    }

    /// The MTU of its path, in bytes; `None` for a Unix socket.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn mtu_bytes(&self) -> io::Result<Option<u32>> {
        let has_path = self.over != Over::Unix;
        has_path.then(|| socket::mtu_bytes(self.messages.socket())).transpose()
    }

    /// The size of its socket's send buffer, in bytes.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        socket::buffer_bytes(self.messages.socket()).map(|(send, _)| send)
    }
}

impl Sender<Block> {
    /// Sends blocks for this long, or longer until it has made sixteen checkpoints, but for at most fifteen
    /// seconds.
    ///
    /// # Errors
    ///
    /// Those of send(2); `TimedOut` if the receiver takes nothing for ten seconds.
    pub fn stream(&mut self, duration: Duration) -> io::Result<()> {
        let allocated = allocations();
        let sent = self.send_for(duration);
        self.progress.count_allocations_since(allocated);
        sent
    }

    /// How many blocks it has sent, those that were lost before they left included.
    pub fn blocks(&self) -> u64 {
        self.progress.bytes / self.messages.size() as u64
    }

    /// Ends the flow, and waits until the receiver has everything. Data of a stream that has not arrived after
    /// half a second and four round trips is discarded. With datagrams, it waits for the last one and those before
    /// it, for at most ten seconds.
    ///
    /// # Errors
    ///
    /// Those of send(2) and recv(2).
    pub fn end(&mut self) -> io::Result<()> {
        match &self.token {
            Some(token) if self.over.is_datagrams() => {
                token.part(self.messages.socket(), DRAIN_DATAGRAMS)
            }
            _ => self.end_stream(self.drains_within()),
        }
    }
}

impl Sender {
    /// Ends by `ending` too. The flow then lasts as long as asked, however few checkpoints it has made, and
    /// waits longer until everything has arrived.
    pub fn end_by(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    /// Holds back data that does not fill a packet while something is unacknowledged, so that the end of a
    /// message shares a packet with the beginning of the next (Nagle's algorithm, RFC 896). For TCP only,
    /// where otherwise each message ends in a packet of its own.
    ///
    /// # Errors
    ///
    /// Those of setsockopt(2).
    pub fn join_small(&mut self) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self.messages.socket(), false)?)
    }

    /// Compares every byte of the answers, instead of a word of each piece.
    pub fn verify(&mut self) {
        self.verifies = true;
    }

    /// Sends messages for this long, or longer until it has made sixteen checkpoints, but for at most fifteen
    /// seconds; then waits until the kernel is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn stream(&mut self, duration: Duration) -> io::Result<()> {
        self.measured(|sender| sender.send_for(duration))
    }

    /// Sends `burst` messages for each request of the receiver ([`super::Receiver::ask`]). Ends with the
    /// first request that arrives after this time, or after fifteen seconds: it is not answered.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and recv(2); `InvalidData` if something else than a request arrives,
    /// `TimedOut` if none arrives for ten seconds, `UnexpectedEof` if the other end has gone.
    pub fn trigger(&mut self, duration: Duration, burst: u64) -> io::Result<()> {
        let mut calls = 0;
        let sent = self.measured(|sender| {
            let begin_ns = sender.progress.add(0);
            let limits = sender.limits(begin_ns, duration);
            let mut left = limits.messages;
            while left > 0 && sender.await_request(&limits, &mut calls)? {
                if limits.is_over(sender.progress.add(0), &sender.progress) {
                    break;
                }
                for _ in 0..burst.min(left) {
                    sender.send_one()?;
                }
                left -= burst.min(left);
            }
            Ok(())
        });
        self.sent.system_calls += calls;
        sent
    }

    /// Waits for a request, and counts its calls; false if the flow is stopped first.
    fn await_request(&self, limits: &Limits, calls: &mut u64) -> io::Result<bool> {
        let mut received = [0; REQUEST_BYTES];
        let mut length = 0;
        let mut waits = Waits::default();
        while length < REQUEST_BYTES {
            let rest = &mut received[length..];
            *calls += 1;
            match recv(self.messages.socket(), rest, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                // A datagram arrives whole, so this is not a request.
                Ok((_, more)) if more < REQUEST_BYTES && self.over.is_datagrams() => {
                    let socket = self.messages.socket();
                    let is_taken = |token: &Token| token.takes(&received[..more], socket);
                    if !self.token.as_ref().is_some_and(is_taken) {
                        return Err(wrong_bytes());
                    }
                }
                Ok((_, more)) => {
                    length += more;
                    waits = Waits::default();
                }
                Err(error) if !is_passing(&error.into()) => return Err(error.into()),
                Err(_) if waits.go_on(limits, POLL_INTERVAL)? => {}
                Err(_) => return Ok(false),
            }
        }
        if received == request() { Ok(true) } else { Err(wrong_bytes()) }
    }

    /// Counts what the thread uses during the work, then waits until the kernel is done with what was sent.
    pub(super) fn measured(
        &mut self,
        work: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let counts = self.messages.counts();
        let (worked, usage) = ThreadUsage::around(|| {
            let allocated = allocations();
            let worked = work(self);
            self.progress.count_allocations_since(allocated);
            worked
        });
        self.sent = self.messages.counts().since(&counts);
        self.usage = usage;
        worked?;
        // With few messages, this may be the only checkpoint.
        if self.ending.is_some() {
            self.progress.end();
        }
        // io_uring reports completions to the thread that sent.
        self.messages.complete()
    }

    /// How long it takes until a message's bytes may be changed, in nanoseconds from before it is sent: until
    /// the kernel has copied them, or has reported that it is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn reusable_after_ns(&mut self) -> io::Result<u64> {
        self.messages.complete()?;
        let begin_ns = now();
        self.messages.send()?;
        self.messages.complete()?;
        Ok(now() - begin_ns)
    }

    /// How much longer it takes to read an array that has filled a cache after this many messages
    /// than after none, in nanoseconds. Where the kernel reports when it is done with messages,
    /// this waits for that.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn pollution_ns(&mut self, victim: &Victim, messages: u32) -> io::Result<f64> {
        self.messages.complete()?;
        victim.more_ns(|| {
            for _ in 0..messages {
                self.messages.send()?;
            }
            self.messages.complete()
        })
    }

    /// Ends the flow, and waits until the kernel is done with what was sent and the receiver has it: for half
    /// a second and four round trips, after which the rest is discarded. With [`Sender::end_by`], it waits
    /// for all messages, for at most a minute; in a sink, only for the kernel.
    ///
    /// # Errors
    ///
    /// Those of shutdown(2) and recv(2); those of [`FieldSender::complete`].
    pub fn end(&mut self) -> io::Result<()> {
        self.end_within(self.drains_within())
    }

    /// As [`Sender::end`], with another limit for how long the receiver may take.
    ///
    /// # Errors
    ///
    /// Those of [`Sender::end`].
    pub fn end_within(&mut self, time: Duration) -> io::Result<()> {
        self.messages.complete()?;
        if self.round_trip.is_none() {
            return Ok(());
        }
        if self.over.is_datagrams() {
            std::thread::sleep(LAST + self.round_trip());
            return Ok(());
        }
        self.end_stream(time)
    }

    /// Returns the messages of a flow that has ended; the next one to send is the one that would have
    /// followed.
    pub fn into_messages(self) -> Messages {
        self.messages.into_messages()
    }

    /// What it has done in total.
    pub fn counts(&self) -> Counts {
        self.messages.counts()
    }

    /// How many messages over UDP should be answered, and how many of them never were.
    pub fn unanswered(&self) -> (u64, u64) {
        (self.asked, self.unanswered)
    }
}

#[inline]
pub(super) fn now() -> u64 {
    now_ns(ClockId::MonotonicRaw)
}
