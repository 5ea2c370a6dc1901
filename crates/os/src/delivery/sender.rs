//! The sending end of a flow of messages.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::{STALLED, nothing_comes};
use crate::allocator::allocations;
use crate::clock::{ClockId, now_ns};
use crate::field_sender::{Counts, FieldSender};
use crate::meeting::{Over, is_passing};
use crate::socket::{self, TcpInfo};
use crate::transfer::Mark;
use crate::transfer::marks::Marks;
use crate::usage::{self, Usage};
use crate::victim::Victim;

const LOOK_BYTES: u64 = 32 << 10;
/// How long a flow lasts at most, and how many marks it should have.
const LONGEST_NS: u64 = 15_000_000_000;
const MARKS_LEAST: usize = 16;
/// How long what was sent may take to arrive when all is done, before the rest is thrown away.
const DRAIN: Duration = Duration::from_millis(500);
/// How long datagrams are waited for that nobody acknowledges.
const LAST: Duration = Duration::from_millis(20);

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    fields: FieldSender,
    over: Over,
    round_trip: Duration,
    marks: Marks,
    bytes: u64,
    /// Datagrams that a device's queue had no room for.
    refused: u64,
    sent: Counts,
    usage: Usage,
    allocations: u64,
}

impl Sender {
    pub(super) fn of(fields: FieldSender, over: Over, round_trip: Duration) -> Self {
        Self {
            fields,
            over,
            round_trip,
            marks: Marks::new(),
            bytes: 0,
            refused: 0,
            sent: Counts::default(),
            usage: Usage::default(),
            allocations: 0,
        }
    }

    /// Sends messages for so long, or longer until it has made sixteen marks, but not for more than
    /// fifteen seconds; then until the kernel is done with them.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`] and [`FieldSender::complete`].
    pub fn stream(&mut self, duration: Duration) -> io::Result<()> {
        self.used(|sender| sender.stream_for(duration.as_nanos() as u64))
    }

    fn stream_for(&mut self, duration_ns: u64) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let begin_ns = self.marks.note(self.bytes);
        let (end_ns, last_ns) = (begin_ns + duration_ns, begin_ns + LONGEST_NS);
        let (mut bytes, mut calls) = (0, 0);
        loop {
            match self.fields.send() {
                Err(error)
                    if self.over == Over::Udp && error.raw_os_error() == Some(libc::ENOBUFS) =>
                {
                    self.refused += 1;
                }
                sent => sent?,
            }
            self.bytes += size;
            bytes += size;
            calls += 1;
            if bytes >= LOOK_BYTES || calls >= self.marks.look_calls {
                (bytes, calls) = (0, 0);
                let now_ns = self.marks.note(self.bytes);
                let enough = now_ns >= end_ns && self.marks.marks().len() >= MARKS_LEAST;
                if enough || now_ns >= last_ns {
                    return Ok(());
                }
            }
        }
    }

    /// Sends messages for so long, each of which is answered by one, and has at most `in_flight` of
    /// them unanswered. `latency` hears how long each took, in nanoseconds from before it was sent
    /// until its answer had come whole; those of the first third it does not hear.
    ///
    /// # Errors
    ///
    /// Those of [`FieldSender::send`], [`FieldSender::complete`] and recv(2); `TimedOut` where no
    /// answer comes for ten seconds, `UnexpectedEof` where the other end has gone.
    pub fn echo(
        &mut self,
        duration: Duration,
        in_flight: usize,
        latency: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let mut sent_ns = vec![0; in_flight];
        let mut answer = vec![0; self.fields.messages().size()];
        self.used(|sender| sender.echo_for(duration, (&mut sent_ns, &mut answer), latency))
    }

    fn echo_for(
        &mut self,
        duration: Duration,
        (sent_ns, answer): (&mut [u64], &mut [u8]),
        latency: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let now = || now_ns(ClockId::MonotonicRaw);
        let begin_ns = self.marks.note(self.bytes);
        let ramp_ns = begin_ns + duration.as_nanos() as u64 / 3;
        let (end_ns, last_ns) = (begin_ns + duration.as_nanos() as u64, begin_ns + LONGEST_NS);
        let places = sent_ns.len() as u64;
        let (mut sent, mut answered, mut received) = (0, 0, 0);
        let mut at_ns = begin_ns;
        let mut waits = 0;
        loop {
            let goes_on =
                at_ns < end_ns || (self.marks.marks().len() < MARKS_LEAST && at_ns < last_ns);
            while goes_on && sent - answered < places {
                sent_ns[(sent % places) as usize] = now();
                self.fields.send()?;
                sent += 1;
            }
            if sent == answered {
                return Ok(());
            }
            match recv(self.fields.socket(), &mut *answer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((_, length)) => received += length as u64,
                Err(error) => {
                    let error = io::Error::from(error);
                    waits += 1;
                    // Each wait ends after a twentieth of a second.
                    match is_passing(&error) {
                        true if waits > 20 * STALLED.as_secs() => return Err(nothing_comes()),
                        true => continue,
                        false => return Err(error),
                    }
                }
            }
            waits = 0;
            at_ns = now();
            while received / size > answered {
                let sent_ns = sent_ns[(answered % places) as usize];
                if sent_ns >= ramp_ns {
                    latency(at_ns - sent_ns);
                }
                answered += 1;
                self.bytes += size;
            }
            self.marks.note(self.bytes);
        }
    }

    /// Counts what the thread did and used meanwhile.
    fn used(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let (before, allocated, counted) = (usage::thread(), allocations(), self.fields.counts());
        let worked = work(self);
        self.sent = self.fields.counts().since(&counted);
        self.allocations += allocations() - allocated;
        self.usage = usage::thread().since(&before);
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
        // It fills the cache, and is what is then read from there.
        victim.read_ns();
        let before_ns = victim.read_ns();
        for _ in 0..messages {
            self.fields.send()?;
        }
        self.fields.complete()?;
        Ok(victim.read_ns() as f64 - before_ns as f64)
    }

    /// Says that this was all, and waits until the kernel is done with it and the receiver has it:
    /// for half a second and four round trips, after which the rest is thrown away.
    ///
    /// # Errors
    ///
    /// What shutdown(2) and recv(2) say; those of [`FieldSender::complete`].
    pub fn end(&mut self) -> io::Result<()> {
        self.fields.complete()?;
        if self.over == Over::Udp {
            std::thread::sleep(LAST + self.round_trip);
            return Ok(());
        }
        shutdown(self.fields.socket(), Shutdown::Write)?;
        let until = Instant::now() + DRAIN + 4 * self.round_trip;
        let mut answer = [0; 4096];
        while Instant::now() < until {
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
    pub fn marks(&self) -> &[Mark] {
        self.marks.marks()
    }

    /// What its thread used of the machine while it sent.
    pub fn usage(&self) -> Usage {
        self.usage
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
