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
use costof_os::memory::cache_pollution::{Part, Victim};
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{Counts, FieldSender};
use costof_os::net::socket::{self, TcpInfo, is_passing};

/// How long a flow lasts at most, and how many checkpoints it should have.
const LONGEST_NS: u64 = 15_000_000_000;
const CHECKPOINTS_LEAST: usize = 16;
/// How long what was sent may take to arrive when all is done, before the rest is thrown away.
const DRAIN: Duration = Duration::from_millis(500);
/// The same where so many messages were asked for, which are all to arrive.
const DRAIN_ALL: Duration = Duration::from_secs(60);
/// How long datagrams are waited for that nobody acknowledges.
const LAST: Duration = Duration::from_millis(20);

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    pub(super) fields: FieldSender,
    pub(super) transport: Transport,
    /// When the flow began; none where nobody receives it.
    round_trip: Option<Duration>,
    pub(super) progress: Progress,
    /// Datagrams that a device's queue had no room for.
    refused: u64,
    ending: Option<Ending>,
    sent: Counts,
    usage: ThreadUsage,
    /// Of datagrams: messages that were to be answered, and that were not.
    pub(super) asked: u64,
    pub(super) unanswered: u64,
    pub(super) verifies: bool,
    allocations: u64,
}

/// How far a sender is.
#[derive(Debug)]
pub(super) struct Progress {
    checkpoints: Checkpoints,
    bytes: u64,
}

impl Progress {
    /// Adds bytes, and notes how far it is: the time.
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        self.checkpoints.record(self.bytes)
    }

    /// As [`Progress::add`] where it is time to note that.
    #[inline]
    fn add_one_of_many(&mut self, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        let is_due = self.checkpoints.is_due_after(bytes);
        is_due.then(|| self.checkpoints.record(self.bytes))
    }
}

/// When a flow ends, where that is not by its time alone: by the first of these.
#[derive(Clone, Debug)]
pub struct Ending {
    /// After so many messages.
    pub messages: u64,
    /// Soon after this is set.
    pub stop: Arc<AtomicBool>,
}

/// When a flow that has begun ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// By its time it ends then, if it has made so many checkpoints, and at the latest at `last_ns`.
    pub(super) end_ns: u64,
    last_ns: u64,
    checkpoints_least: usize,
    /// How many messages it may send.
    pub(super) messages: u64,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Limits {
    /// Whether it is over at a time, when it is so far.
    #[inline]
    pub(super) fn is_over(&self, at_ns: u64, progress: &Progress) -> bool {
        (at_ns >= self.end_ns && progress.checkpoints.as_slice().len() >= self.checkpoints_least)
            || at_ns >= self.last_ns
            || self.is_stopped()
    }

    /// Whether somebody has stopped it.
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
            progress: Progress {
                checkpoints: Checkpoints::new(),
                bytes: 0,
            },
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

    /// Ends by `ending` too. It then lasts as long as it is asked to, however few checkpoints it has made, and
    /// waits longer until all has arrived.
    pub fn end_by(&mut self, ending: Ending) {
        self.ending = Some(ending);
    }

    fn is_stopped(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(|end| end.stop.load(Ordering::Relaxed))
    }

    /// When it ends, if it has begun then.
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

    /// Holds back what does not fill a packet, as long as something is unacknowledged, so that the end
    /// of a message goes with the beginning of the next (Nagle's algorithm, RFC 896): of TCP, whose
    /// messages each end in a packet of their own otherwise.
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

    /// Sends messages for so long, or longer until it has made sixteen checkpoints, but not for more than
    /// fifteen seconds; then waits until the kernel is done with them.
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

    /// Sends `burst` messages for each request of the receiver ([`super::Receiver::ask`]), until a
    /// request comes when so much time has passed, or fifteen seconds: that one is not answered.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and recv(2); `InvalidData` for what is not a request, `TimedOut`
    /// where none comes for ten seconds, `UnexpectedEof` where the other end has gone.
    pub fn trigger(&mut self, duration: Duration, burst: u64) -> io::Result<()> {
        self.measured(|sender| {
            let begin_ns = sender.progress.add(0);
            let limits = sender.limits(begin_ns, duration);
            let mut left = limits.messages;
            while left > 0 && sender.await_request(&limits)? {
                if limits.is_over(sender.progress.add(0), &sender.progress) {
                    break;
                }
                for _ in 0..burst.min(left) {
                    sender.send_one()?;
                }
                left -= burst.min(left);
            }
            Ok(())
        })
    }

    /// Waits for a request; false where the flow is stopped before one comes.
    fn await_request(&self, limits: &Limits) -> io::Result<bool> {
        let mut received = [0; REQUEST_BYTES];
        let mut length = 0;
        let mut waits = Waits::default();
        while length < REQUEST_BYTES {
            let rest = &mut received[length..];
            match recv(self.fields.socket(), rest, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                // A datagram comes at once.
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
        if received == request() {
            Ok(true)
        } else {
            Err(other_bytes())
        }
    }

    /// Sends a message, and the time where it is noted how far that is.
    #[inline]
    fn send_one(&mut self) -> io::Result<Option<u64>> {
        self.send_or_lose()?;
        let size = self.fields.messages().size() as u64;
        Ok(self.progress.add_one_of_many(size))
    }

    /// Sends a message, or loses it as a device's queue has no room for its datagrams.
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

    /// Counts what the thread uses meanwhile, then waits until the kernel is done with what was sent.
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
        // Of few messages there may be no other mark than this one.
        if self.ending.is_some() {
            self.progress.checkpoints.end(self.progress.bytes);
        }
        // io_uring reports completions to the thread that sent.
        self.fields.complete()
    }

    /// How long it takes until a message's bytes could be changed, in nanoseconds from before it is
    /// sent: until the kernel has copied them, or has reported that it is done with them.
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

    /// How much longer it takes to read an array that has filled a cache after so many messages than
    /// before, in nanoseconds; it may also be shorter, by chance. The messages are sent and, where
    /// the kernel reports when it is done with them, it waits for that.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn pollution_ns(&mut self, victim: &Victim, messages: u32) -> io::Result<f64> {
        self.fields.complete()?;
        victim.fill();
        let before_ns = victim.read_ns(Part::Before);
        for _ in 0..messages {
            self.fields.send()?;
        }
        self.fields.complete()?;
        Ok(victim.read_ns(Part::After) as f64 - before_ns as f64)
    }

    /// Ends the flow, and waits until the kernel is done with what was sent and the receiver has it: for
    /// half a second and four round trips, after which the rest is discarded. With [`Sender::end_by`] it
    /// waits for all messages, a minute at most; in a sink for the kernel alone.
    ///
    /// # Errors
    ///
    /// Those of shutdown(2) and recv(2); those of [`FieldSender::complete`].
    pub fn end(&mut self) -> io::Result<()> {
        self.end_within(DRAIN + 4 * self.round_trip())
    }

    /// As [`Sender::end`], with another time for the receiver to have it.
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
                // The receiver closes when it has all.
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

    /// Gives back the messages of a flow that has ended; the next one is the one that would have come.
    pub fn into_messages(self) -> Messages {
        self.fields.into_messages()
    }

    /// What it has done in all.
    pub fn counts(&self) -> Counts {
        self.fields.counts()
    }

    /// What it did while it streamed or had echoes: single messages are not in it, nor what it took
    /// to wait at the end.
    pub fn sent(&self) -> Counts {
        self.sent
    }

    /// Datagrams that a device's queue had no room for: they were lost before they were sent.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// A round trip when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or_default()
    }

    /// How far it was, from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.progress.checkpoints.as_slice()
    }

    /// What its thread used while it sent.
    pub fn usage(&self) -> &ThreadUsage {
        &self.usage
    }

    /// How many messages were to be answered over UDP, and how many of them never were.
    pub fn unanswered(&self) -> (u64, u64) {
        (self.asked, self.unanswered)
    }

    /// The state of a TCP connection; none of other sockets.
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

    /// Allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

#[inline]
pub(super) fn now() -> u64 {
    now_ns(ClockId::MonotonicRaw)
}

/// Consecutive waits of [`POLL_INTERVAL`] in which nothing came.
#[derive(Default)]
pub(super) struct Waits(u32);

impl Waits {
    /// Counts another one: false where the flow is stopped, and nothing has come for as long as what is
    /// on its way may take.
    ///
    /// # Errors
    ///
    /// `TimedOut` where nothing has come for [`STALLED`].
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
