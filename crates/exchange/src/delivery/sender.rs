//! The sending end of a flow of messages.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};

use super::counted::Counted;
use super::echo::{Echo, OVERHEAD_MOST_BYTES, UNANSWERED_MOST_BYTES, Waits};
use super::intake::Intake;
use super::{LOOK, REQUEST_BYTES, Shape, other_bytes, request};
use crate::rendezvous::Over;
use crate::stream::{Checkpoint, Checkpoints};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::cache_pollution::{Part, Victim};
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{Counts, FieldSender};
use costof_os::net::segments;
use costof_os::net::socket::is_passing;
use costof_os::net::socket::{self, TcpInfo};

/// How long a flow lasts at most, and how many marks it should have.
const LONGEST_NS: u64 = 15_000_000_000;
const MARKS_LEAST: usize = 16;
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
    pub(super) over: Over,
    round_trip: Duration,
    pub(super) marks: Checkpoints,
    pub(super) bytes: u64,
    /// Datagrams that a device's queue had no room for.
    pub(super) refused: u64,
    ending: Option<Ending>,
    sent: Counts,
    counted: Counted,
    /// Of datagrams: messages that were to be answered, and that were not.
    asked: u64,
    unanswered: u64,
    is_segmented: bool,
    verifies: bool,
    allocations: u64,
}

/// When a flow ends, where that is not by its time alone.
#[derive(Debug)]
struct Ending {
    messages: u64,
    stop: Arc<AtomicBool>,
}

/// How long a flow goes on that has begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// By its time it ends then, if it has made so many marks, and at last.
    pub(super) end_ns: u64,
    last_ns: u64,
    marks_least: usize,
    /// How many messages it may send.
    pub(super) messages: u64,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Limits {
    /// Whether it is over at a time, with so many marks.
    #[inline]
    pub(super) fn is_over(&self, at_ns: u64, marks: usize) -> bool {
        (at_ns >= self.end_ns && marks >= self.marks_least)
            || at_ns >= self.last_ns
            || self.is_stopped()
    }

    /// Whether whoever asked wants no more.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        let stop = self.stop.as_ref();
        stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Sender {
    pub(super) fn of(fields: FieldSender, over: Over, round_trip: Duration) -> Self {
        Self {
            fields,
            over,
            round_trip,
            marks: Checkpoints::new(),
            bytes: 0,
            refused: 0,
            ending: None,
            sent: Counts::default(),
            counted: Counted::default(),
            asked: 0,
            unanswered: 0,
            is_segmented: false,
            verifies: false,
            allocations: 0,
        }
    }

    /// From now on it ends after so many messages too, and soon after `stop` is set; it lasts as long
    /// as it is asked to, however few marks it has made, and waits longer until all has arrived.
    pub fn end_by(&mut self, messages: u64, stop: Arc<AtomicBool>) {
        self.ending = Some(Ending { messages, stop });
    }

    fn is_stopped(&self) -> bool {
        let ending = self.ending.as_ref();
        ending.is_some_and(|end| end.stop.load(Ordering::Relaxed))
    }

    /// Of little there may be no other mark than this one.
    fn mark_end(&mut self) {
        if self.ending.is_some() {
            self.marks.end(self.bytes);
        }
    }

    /// How long it goes on that has begun then.
    fn limits(&self, begin_ns: u64, duration: Duration) -> Limits {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = begin_ns.saturating_add(duration_ns);
        match &self.ending {
            Some(ending) => Limits {
                end_ns,
                last_ns: end_ns,
                marks_least: 0,
                messages: ending.messages,
                stop: Some(Arc::clone(&ending.stop)),
            },
            None => Limits {
                end_ns,
                last_ns: begin_ns + LONGEST_NS,
                marks_least: MARKS_LEAST,
                messages: u64::MAX,
                stop: None,
            },
        }
    }

    /// Sends each message as several datagrams from now on ([`SEGMENT_BYTES`]), to a receiver of
    /// [`super::accept_segmented`]; answers come so too.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the reason, where that cannot be.
    ///
    /// [`SEGMENT_BYTES`]: segments::SEGMENT_BYTES
    pub fn segment(&mut self) -> io::Result<()> {
        segments::enable(&self.fields.socket())?;
        self.is_segmented = true;
        Ok(())
    }

    /// Holds back what does not fill a packet, as long as something is unacknowledged, so that the end
    /// of a message goes with the beginning of the next (Nagle's algorithm, RFC 896): of TCP, whose
    /// messages each end in a packet of their own otherwise.
    ///
    /// # Errors
    ///
    /// What setsockopt(2) says.
    pub fn join_small(&mut self) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self.fields.socket(), false)?)
    }

    /// Compares every byte of answers with what they have to be, and not a word of each piece.
    pub fn verify(&mut self) {
        self.verifies = true;
    }

    /// Sends messages for so long, or longer until it has made sixteen marks, but not for more than
    /// fifteen seconds; then until the kernel is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn stream(&mut self, duration: Duration) -> io::Result<()> {
        self.used(|sender| sender.stream_for(duration))
    }

    fn stream_for(&mut self, duration: Duration) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let begin_ns = self.marks.record(self.bytes);
        let limits = self.limits(begin_ns, duration);
        let mut left = limits.messages;
        loop {
            self.send_or_lose()?;
            self.bytes += size;
            left -= 1;
            if left == 0 {
                self.mark_end();
                return Ok(());
            }
            if self.marks.is_due_after(size) {
                let now_ns = self.marks.record(self.bytes);
                if limits.is_over(now_ns, self.marks.as_slice().len()) {
                    self.mark_end();
                    return Ok(());
                }
            }
        }
    }

    /// Sends messages for so long, each of which is answered by one, and has at most `in_flight` of
    /// them unanswered. `latency` hears how long each took, in nanoseconds from before it was sent
    /// until its answer had come whole; those of the first third it does not hear, by time or by
    /// number, whichever ends first; with [`Sender::end_by`], a second at most.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`], [`FieldSender::complete`] and recv(2); `InvalidData` where an answer has other bytes,
    /// `TimedOut` where none comes for ten seconds, `UnexpectedEof` where the other end has gone.
    pub fn echo(
        &mut self,
        duration: Duration,
        in_flight: usize,
        latency: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let mut answers = self.intake()?;
        let mut echo = Echo::of(in_flight, self.round_trip, latency)?;
        let each = self.fields.messages().size() as u64 + OVERHEAD_MOST_BYTES;
        let unanswered = in_flight as u64 * each;
        let echoed = self.used(|sender| {
            let begin_ns = sender.marks.record(sender.bytes);
            echo.begin(begin_ns, sender.limits(begin_ns, duration));
            match sender.over {
                Over::Udp => sender.echo_windows(&mut echo, &mut answers),
                _ if in_flight > 1 && unanswered > UNANSWERED_MOST_BYTES => {
                    sender.echo_reading(&mut echo, &mut answers)
                }
                _ => sender.echo_blocking(&mut echo, &mut answers),
            }
        });
        (self.asked, self.unanswered) = (echo.sent, echo.lost);
        echoed?;
        self.mark_end();
        match answers.whole() == 0 || answers.last_piece_is_right() {
            true => Ok(()),
            false => Err(other_bytes()),
        }
    }

    /// Sends `burst` messages for each request of the other end ([`super::Receiver::ask`]), until a
    /// request comes when so much time has passed, or fifteen seconds: that one is not answered.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and recv(2); `InvalidData` for what is no request, `TimedOut`
    /// where none comes for ten seconds, `UnexpectedEof` where the other end has gone.
    pub fn trigger(&mut self, duration: Duration, burst: u64) -> io::Result<()> {
        self.used(|sender| sender.trigger_for(duration, burst))
    }

    fn trigger_for(&mut self, duration: Duration, burst: u64) -> io::Result<()> {
        let begin_ns = self.marks.record(self.bytes);
        let limits = self.limits(begin_ns, duration);
        let mut left = limits.messages;
        let (right, mut request) = (request(), [0; REQUEST_BYTES]);
        let mut have = 0;
        let mut waits = Waits::default();
        loop {
            match recv(
                self.fields.socket(),
                &mut request[have..],
                RecvFlags::empty(),
            ) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((_, length)) => have += length,
                Err(error) => {
                    if waits.go_on(error.into(), limits.is_stopped(), LOOK)? {
                        continue;
                    }
                    self.mark_end();
                    return Ok(());
                }
            }
            waits = Waits::default();
            let is_whole = have == REQUEST_BYTES;
            if !is_whole && self.over != Over::Udp {
                continue;
            }
            have = 0;
            if !is_whole || request != right {
                return Err(other_bytes());
            }
            let now_ns = self.marks.record(self.bytes);
            if limits.is_over(now_ns, self.marks.as_slice().len()) {
                self.mark_end();
                return Ok(());
            }
            self.burst(burst.min(left))?;
            left -= burst.min(left);
            if left == 0 {
                self.mark_end();
                return Ok(());
            }
        }
    }

    fn burst(&mut self, messages: u64) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        for _ in 0..messages {
            self.send_or_lose()?;
            self.bytes += size;
            if self.marks.is_due_after(size) {
                self.marks.record(self.bytes);
            }
        }
        Ok(())
    }

    /// Sends a message, or loses it as a device's queue has no room for its datagrams.
    #[inline]
    pub(super) fn send_or_lose(&mut self) -> io::Result<()> {
        match self.fields.send() {
            Err(error) if self.over == Over::Udp && error.raw_os_error() == Some(libc::ENOBUFS) => {
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

    /// What messages like its own come in by.
    fn intake(&self) -> io::Result<Intake> {
        let messages = self.fields.messages();
        let shape = Shape {
            size: messages.size(),
            count: messages.count(),
        };
        let mut intake = Intake::of(self.over, shape, self.is_segmented)?;
        if self.verifies {
            intake.verify();
        }
        Ok(intake)
    }

    /// Counts what the thread did and used meanwhile.
    fn used(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let counts = self.fields.counts();
        let (worked, counted) = Counted::around(|| {
            let allocated = allocations();
            let worked = work(self);
            self.allocations += allocations() - allocated;
            worked
        });
        self.sent = self.fields.counts().since(&counts);
        self.counted = counted;
        worked?;
        // Who has sent is who hears of it.
        self.fields.complete()
    }

    /// How long it takes until a message's bytes could be changed, in nanoseconds from before it is
    /// sent: until the kernel has copied them, or has said that it is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn reusable_after_ns(&mut self) -> io::Result<u64> {
        self.fields.complete()?;
        let begin_ns = now_ns(ClockId::MonotonicRaw);
        self.fields.send()?;
        self.fields.complete()?;
        Ok(now_ns(ClockId::MonotonicRaw) - begin_ns)
    }

    /// How much longer it takes to read an array that has filled a cache after so many messages than
    /// before, in nanoseconds; it may also be shorter, by chance. The messages are sent and, where
    /// the kernel says when it is done with them, that is waited for.
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

    /// Says that this was all, and waits until the kernel is done with it and the receiver has it:
    /// for half a second and four round trips, after which the rest is thrown away. Of so many messages
    /// that were asked for all are waited for, a minute at most.
    ///
    /// # Errors
    ///
    /// What shutdown(2) and recv(2) say; those of [`FieldSender::complete`].
    pub fn end(&mut self) -> io::Result<()> {
        self.end_within(DRAIN + 4 * self.round_trip)
    }

    /// As [`Sender::end`], with another time for the receiver to have it.
    ///
    /// # Errors
    ///
    /// Those of [`Sender::end`].
    pub fn end_within(&mut self, time: Duration) -> io::Result<()> {
        self.fields.complete()?;
        if self.over == Over::Udp {
            std::thread::sleep(LAST + self.round_trip);
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
        match self.over {
            Over::Tcp => socket::reset_on_close(self.fields.socket()),
            Over::Udp | Over::Unix => Ok(()),
        }
    }

    /// Waits until the kernel is done with what was sent, where nobody receives it.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::complete`].
    pub fn end_in_sink(&mut self) -> io::Result<()> {
        self.fields.complete()
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
        self.round_trip
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Checkpoint] {
        self.marks.as_slice()
    }

    /// What its thread did and used of the machine while it sent.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// How many messages were to be answered over UDP, and how many of them never were.
    pub fn unanswered(&self) -> (u64, u64) {
        (self.asked, self.unanswered)
    }

    /// What TCP says; none of other sockets.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        match self.over {
            Over::Tcp => socket::tcp_info(self.fields.socket()).map(Some),
            Over::Udp | Over::Unix => Ok(None),
        }
    }

    /// Allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}
