//! The sending end of a flow of messages.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};

use super::usage::ThreadUsage;
use super::{POLL_INTERVAL, REQUEST_BYTES, STALLED, Transport, no_answer, other_bytes, request};
use crate::stream::Checkpoint;
use crate::stream::Checkpoints;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::cache_pollution::Victim;
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{Counts, FieldSender};
use costof_os::net::socket::{self, TcpInfo, is_passing};

/// The longest duration of a flow, in nanoseconds, and the least number of checkpoints that it should have.
const LONGEST_NS: u64 = 15_000_000_000;
const CHECKPOINTS_LEAST: usize = 16;
/// How long the last data may take to arrive before the rest is discarded.
const DRAIN: Duration = Duration::from_millis(500);
/// The same if a number of messages was asked for, all of which should arrive.
const DRAIN_ALL: Duration = Duration::from_secs(60);
/// How long to wait for datagrams that nobody acknowledges.
const LAST: Duration = Duration::from_millis(20);

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    pub(super) fields: FieldSender,
    pub(super) transport: Transport,
    /// The round-trip time when the flow began; `None` if nobody receives it.
    round_trip: Option<Duration>,
    pub(super) progress: Progress,
    /// Datagrams that were dropped because a device's queue was full.
    refused: u64,
    ending: Option<Ending>,
    pub(super) sent: Counts,
    usage: ThreadUsage,
    /// Over UDP: messages that should be answered, and those that never were.
    pub(super) asked: u64,
    pub(super) unanswered: u64,
    pub(super) verifies: bool,
    allocations: u64,
}

/// The progress of a sender.
#[derive(Debug)]
pub(super) struct Progress {
    checkpoints: Checkpoints,
    bytes: u64,
}

impl Progress {
    /// Adds bytes and records the progress. Returns the time.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        self.checkpoints.record(self.bytes)
    }

    /// As [`Progress::add`], if a record is due.
    #[inline]
    fn add_one_of_many(&mut self, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        let is_due = self.checkpoints.is_due_after(bytes);
        is_due.then(|| self.checkpoints.record(self.bytes))
    }
}

/// When a flow ends, if not by its time alone: at the first of these.
#[derive(Clone, Debug)]
pub struct Ending {
    /// After this many messages.
    pub messages: u64,
    /// Soon after this is set.
    pub stop: Arc<AtomicBool>,
}

/// When a running flow ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// It ends at this time if it has made enough checkpoints, and at `last_ns` at the latest.
    pub(super) end_ns: u64,
    last_ns: u64,
    checkpoints_least: usize,
    /// The most messages that it may send.
    pub(super) messages: u64,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Limits {
    /// Whether it is over at this time, with this progress.
    #[inline]
    pub(super) fn is_over(&self, at_ns: u64, progress: &Progress) -> bool {
        (at_ns >= self.end_ns && progress.checkpoints.as_slice().len() >= self.checkpoints_least)
            || at_ns >= self.last_ns
            || self.is_stopped()
    }

    /// Whether it was stopped.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        let stop = self.stop.as_ref();
        stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Sender {
    pub(super) fn new(
        fields: FieldSender,
        transport: Transport,
        round_trip: Option<Duration>,
    ) -> Self {
        Self {
            fields,
            transport,
            round_trip,
            progress: Progress { checkpoints: Checkpoints::new(), bytes: 0 },
            refused: 0,
            ending: None,
            sent: Counts::default(),
            usage: ThreadUsage::default(),
            asked: 0,
            unanswered: 0,
            verifies: false,
            allocations: 0,
        }
    }

    /// Ends by `ending` too. The flow then lasts as long as asked, however few checkpoints it has made, and
    /// waits longer until everything has arrived.
    pub fn end_by(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    fn is_stopped(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(|end| end.stop.load(Ordering::Relaxed))
    }

    /// When a flow that began at this time ends.
    pub(super) fn limits(&self, begin_ns: u64, duration: Duration) -> Limits {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = begin_ns.saturating_add(duration_ns);
        match &self.ending {
            Some(ending) => Limits {
                end_ns,
                last_ns: end_ns,
                checkpoints_least: 0,
                messages: ending.messages,
                stop: Some(Arc::clone(&ending.stop)),
            },
            None => Limits {
                end_ns,
                last_ns: begin_ns + LONGEST_NS,
                checkpoints_least: CHECKPOINTS_LEAST,
                messages: u64::MAX,
                stop: None,
            },
        }
    }

    /// Holds back data that does not fill a packet while something is unacknowledged, so that the end of a
    /// message shares a packet with the beginning of the next (Nagle's algorithm, RFC 896). For TCP only,
    /// where otherwise each message ends in a packet of its own.
    ///
    /// # Errors
    ///
    /// Those of setsockopt(2).
    pub fn join_small(&mut self) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self.fields.socket(), false)?)
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
        self.measured(|sender| {
            let begin_ns = sender.progress.add(0);
            let limits = sender.limits(begin_ns, duration);
            for _ in 0..limits.messages {
                if let Some(now_ns) = sender.send_one()?
                    && limits.is_over(now_ns, &sender.progress)
                {
                    break;
                }
            }
            Ok(())
        })
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
            match recv(self.fields.socket(), rest, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                // A datagram arrives whole, so this is not a request.
                Ok((_, more)) if more < REQUEST_BYTES && self.transport.is_datagrams() => {
                    return Err(other_bytes());
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
        if received == request() { Ok(true) } else { Err(other_bytes()) }
    }

    /// Sends a message. Returns the time if the progress was recorded.
    #[inline]
    fn send_one(&mut self) -> io::Result<Option<u64>> {
        self.send_or_lose()?;
        let size = self.fields.messages().size() as u64;
        Ok(self.progress.add_one_of_many(size))
    }

    /// Sends a message. It counts as lost if a device's queue has no room for its datagrams.
    #[inline]
    pub(super) fn send_or_lose(&mut self) -> io::Result<()> {
        match self.fields.send() {
            Err(error)
                if self.transport.is_datagrams() && error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                self.refused += 1;
                Ok(())
            }
            sent => sent,
        }
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fields.socket()
    }

    /// Counts what the thread uses during the work, then waits until the kernel is done with what was sent.
    pub(super) fn measured(
        &mut self,
        work: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let counts = self.fields.counts();
        let (worked, usage) = ThreadUsage::around(|| {
            let allocated = allocations();
            let worked = work(self);
            self.allocations += allocations() - allocated;
            worked
        });
        self.sent = self.fields.counts().since(&counts);
        self.usage = usage;
        worked?;
        // With few messages, this may be the only checkpoint.
        if self.ending.is_some() {
            self.progress.checkpoints.end(self.progress.bytes);
        }
        // io_uring reports completions to the thread that sent.
        self.fields.complete()
    }

    /// How long it takes until a message's bytes may be changed, in nanoseconds from before it is sent: until
    /// the kernel has copied them, or has reported that it is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn reusable_after_ns(&mut self) -> io::Result<u64> {
        self.fields.complete()?;
        let begin_ns = now();
        self.fields.send()?;
        self.fields.complete()?;
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
        self.fields.complete()?;
        victim.more_ns(|| {
            for _ in 0..messages {
                self.fields.send()?;
            }
            self.fields.complete()
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
        self.end_within(DRAIN + 4 * self.round_trip())
    }

    /// As [`Sender::end`], with another limit for how long the receiver may take.
    ///
    /// # Errors
    ///
    /// Those of [`Sender::end`].
    pub fn end_within(&mut self, time: Duration) -> io::Result<()> {
        self.fields.complete()?;
        if self.round_trip.is_none() {
            return Ok(());
        }
        if self.transport.is_datagrams() {
            std::thread::sleep(LAST + self.round_trip());
            return Ok(());
        }
        shutdown(self.fields.socket(), Shutdown::Write)?;
        let soon = Instant::now() + time;
        let late = soon + DRAIN_ALL;
        let mut answer = [0; 4096];
        loop {
            let waits_for_all = self.ending.is_some() && !self.is_stopped();
            if Instant::now() >= (if waits_for_all { late } else { soon }) {
                break;
            }
            match recv(self.fields.socket(), &mut answer[..], RecvFlags::empty()) {
                // The receiver closes when it has everything.
                Ok((_, 0)) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_passing(&error.into()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match self.transport {
            Transport::Tcp => socket::reset_on_close(self.fields.socket()),
            Transport::Udp | Transport::UdpGso | Transport::Unix => Ok(()),
        }
    }

    /// Returns the messages of a flow that has ended; the next one to send is the one that would have
    /// followed.
    pub fn into_messages(self) -> Messages {
        self.fields.into_messages()
    }

    /// What it has done in total.
    pub fn counts(&self) -> Counts {
        self.fields.counts()
    }

    /// What it did while it streamed or echoed, without single messages and without the wait at the end. System
    /// calls include those that receive answers and requests, or wait for them.
    pub fn sent(&self) -> Counts {
        self.sent
    }

    /// Datagrams that were lost before they were sent: a device's queue had no room for them.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The round-trip time when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// Its progress, recorded from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.progress.checkpoints.as_slice()
    }

    /// What its thread used while it sent.
    pub fn usage(&self) -> &ThreadUsage {
        &self.usage
    }

    /// How many messages over UDP should be answered, and how many of them never were.
    pub fn unanswered(&self) -> (u64, u64) {
        (self.asked, self.unanswered)
    }

    /// The state of a TCP connection; `None` for other sockets.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        match self.transport {
            Transport::Tcp => socket::tcp_info(self.fields.socket()).map(Some),
            Transport::Udp | Transport::UdpGso | Transport::Unix => Ok(None),
        }
    }

    /// Memory allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

#[inline]
pub(super) fn now() -> u64 {
    now_ns(ClockId::MonotonicRaw)
}

/// Consecutive waits of [`POLL_INTERVAL`] in which nothing arrived.
#[derive(Default)]
pub(super) struct Waits(u32);

impl Waits {
    /// Counts another one. False if the flow is stopped, and nothing has arrived for as long as data may be
    /// in flight.
    ///
    /// # Errors
    ///
    /// `TimedOut` if nothing has arrived for [`STALLED`].
    pub(super) fn go_on(&mut self, limits: &Limits, patience: Duration) -> io::Result<bool> {
        self.0 += 1;
        let waited = self.0 * POLL_INTERVAL;
        if limits.is_stopped() {
            Ok(waited < patience)
        } else if waited > STALLED {
            Err(no_answer())
        } else {
            Ok(true)
        }
    }
}
