//! Messages that are each answered by one, of which a number may be unanswered at a time.
//!
//! Where a socket takes all of them, the end that asks sends and receives in turn, and nothing else:
//! two system calls for each message. Where both sockets could be full, both ends would wait until
//! the other reads. There the socket does not block, and whenever it takes nothing the answers are
//! read that have come, and poll(2) waits until it takes or gives something. That is a call more for
//! each such wait, and for each receive that finds nothing.
//!
//! A datagram may be lost, so that the next answer is not that of the oldest message. Over UDP
//! messages go in windows: all of a window's answers are waited for before the next one begins, and
//! when none has come for a twentieth of a second and four round trips, those that are missing are
//! lost. How long the messages of such a window took is not known.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::RecvFlags;

use super::intake::Intake;
use super::sender::{Limits, Sender};
use super::{LOOK, STALLED, nothing_comes};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::poll::able;
use costof_os::net::socket::is_passing;

/// How much may be unanswered where the sockets of both ends hold it, whatever they are: with more,
/// both could be full.
pub(super) const UNANSWERED_MOST_BYTES: u64 = 64 << 10;
/// What a message takes of a socket besides its bytes, at most: a Unix socket has room for 256 messages
/// of 64 bytes in 208 KiB.
pub(super) const OVERHEAD_MOST_BYTES: u64 = 1 << 10;

/// How long the first messages are not heard at most where people may stop it, who would hear none.
const RAMP_MOST_NS: u64 = 1_000_000_000;

/// What is asked and answered.
pub(super) struct Echo<'l> {
    /// When each message that is not answered was sent; its place is its number's rest.
    sent_ns: Vec<u64>,
    /// How long the messages of a window took.
    took_ns: Vec<u64>,
    latency: &'l mut dyn FnMut(u64),
    /// How long a datagram's answer is waited for.
    patience: Duration,
    ramp_ns: u64,
    limits: Limits,
    at_ns: u64,
    pub(super) sent: u64,
    answered: u64,
    pub(super) lost: u64,
}

impl<'l> Echo<'l> {
    pub(super) fn of(
        in_flight: usize,
        round_trip: Duration,
        latency: &'l mut dyn FnMut(u64),
    ) -> io::Result<Self> {
        if in_flight == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            sent_ns: vec![0; in_flight],
            took_ns: vec![0; in_flight],
            latency,
            patience: LOOK + 4 * round_trip,
            ramp_ns: 0,
            limits: Limits::default(),
            at_ns: 0,
            sent: 0,
            answered: 0,
            lost: 0,
        })
    }

    pub(super) fn begin(&mut self, begin_ns: u64, limits: Limits) {
        let third_ns = (limits.end_ns - begin_ns) / 3;
        let most_ns = limits.stop.as_ref().map_or(u64::MAX, |_| RAMP_MOST_NS);
        self.ramp_ns = begin_ns + third_ns.min(most_ns);
        self.limits = limits;
        self.at_ns = begin_ns;
    }

    /// Whether a message is past the first third, by when it was sent or by how many were answered
    /// before.
    #[inline]
    fn is_heard(&self, sent_ns: u64, answered: u64) -> bool {
        sent_ns >= self.ramp_ns || answered >= self.limits.messages / 3
    }

    /// Whether more is sent, where so many marks have been made.
    #[inline]
    fn goes_on(&self, marks: usize) -> bool {
        self.sent < self.limits.messages && !self.limits.is_over(self.at_ns, marks)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.sent - self.answered < self.sent_ns.len() as u64
    }

    /// A message is sent next.
    #[inline]
    fn sends(&mut self) {
        let place = (self.sent % self.sent_ns.len() as u64) as usize;
        self.sent_ns[place] = now();
        self.sent += 1;
    }

    /// So many have been answered in all: how many more that is.
    #[inline]
    fn heard(&mut self, answers: u64) -> io::Result<u64> {
        self.at_ns = now();
        if answers > self.sent {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "more answers came than messages were sent",
            ));
        }
        let more = answers - self.answered;
        while self.answered < answers {
            let place = (self.answered % self.sent_ns.len() as u64) as usize;
            let sent_ns = self.sent_ns[place];
            if self.is_heard(sent_ns, self.answered) {
                (self.latency)(self.at_ns - sent_ns);
            }
            self.answered += 1;
        }
        Ok(more)
    }
}

impl Sender {
    /// Sends and receives in turn, by calls that wait.
    pub(super) fn echo_blocking(
        &mut self,
        echo: &mut Echo<'_>,
        answers: &mut Intake,
    ) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let mut waits = Waits::default();
        loop {
            while echo.has_room() && echo.goes_on(self.marks.as_slice().len()) {
                echo.sends();
                self.fields.send()?;
            }
            if echo.sent == echo.answered {
                return Ok(());
            }
            match answers.receive(self.fields.socket(), RecvFlags::empty()) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => waits = Waits::default(),
                Err(error) => match waits.go_on(error, echo.limits.is_stopped(), echo.patience)? {
                    true => continue,
                    false => return Ok(()),
                },
            }
            self.bytes += size * echo.heard(answers.whole())?;
            self.marks.record(self.bytes);
        }
    }

    /// Sends and receives as the socket lets it.
    pub(super) fn echo_reading(
        &mut self,
        echo: &mut Echo<'_>,
        answers: &mut Intake,
    ) -> io::Result<()> {
        // Another name of the same socket: the first one is lent to what is being sent.
        let socket = self.fields.socket().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let echoed = self.echo_by_poll(&socket, echo, answers);
        rustix::io::ioctl_fionbio(&socket, false)?;
        echoed
    }

    fn echo_by_poll(
        &mut self,
        socket: &OwnedFd,
        echo: &mut Echo<'_>,
        answers: &mut Intake,
    ) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let socket = socket.as_fd();
        loop {
            while echo.has_room() && echo.goes_on(self.marks.as_slice().len()) {
                echo.sends();
                let (bytes, marks) = (&mut self.bytes, &mut self.marks);
                self.fields.send_or(&mut || {
                    match take(socket, echo, answers)? {
                        Some(more) => {
                            *bytes += size * more;
                            marks.record(*bytes);
                        }
                        None => {
                            let able = able(&socket, PollFlags::IN | PollFlags::OUT, STALLED)?;
                            able.ok_or_else(nothing_comes)?;
                        }
                    }
                    Ok(())
                })?;
            }
            if echo.sent == echo.answered {
                return Ok(());
            }
            match take(socket, echo, answers)? {
                Some(more) => {
                    self.bytes += size * more;
                    self.marks.record(self.bytes);
                }
                // Completions wait to be read, and poll(2) returns as long as they do.
                None => match wait_for_answer(socket, echo)? {
                    Some(able) if able.contains(PollFlags::ERR) => self.fields.reap()?,
                    Some(_) => {}
                    None => return Ok(()),
                },
            }
        }
    }

    /// Sends a window of messages, and waits for the answers of all of them or for none any more.
    pub(super) fn echo_windows(
        &mut self,
        echo: &mut Echo<'_>,
        answers: &mut Intake,
    ) -> io::Result<()> {
        let size = self.fields.messages().size() as u64;
        let window = echo.sent_ns.len() as u64;
        let patience_ns = echo.patience.as_nanos() as u64;
        let stalled_ns = STALLED.as_nanos() as u64;
        let mut answered_ns = echo.at_ns;
        while echo.goes_on(self.marks.as_slice().len()) {
            let window = window.min(echo.limits.messages - echo.sent);
            for _ in 0..window {
                echo.sends();
                self.send_or_lose()?;
            }
            let (before, mut came, mut last_ns) = (answers.whole(), 0, now());
            while came < window {
                let received = answers.receive(self.fields.socket(), RecvFlags::empty());
                echo.at_ns = now();
                match received {
                    Ok(_) => last_ns = echo.at_ns,
                    Err(error) if !is_passing(&error) => return Err(error),
                    Err(_) if echo.at_ns - last_ns >= patience_ns => break,
                    Err(_) => continue,
                }
                let all = (answers.whole() - before).min(window);
                while came < all {
                    echo.took_ns[came as usize] = echo.at_ns - echo.sent_ns[came as usize];
                    came += 1;
                }
            }
            if came > 0 {
                answered_ns = echo.at_ns;
            }
            if came < window {
                echo.lost += window - came;
                // What comes yet is late.
                answers.drain(self.fields.socket())?;
                if echo.at_ns - answered_ns > stalled_ns {
                    return Err(nothing_comes());
                }
            } else if echo.is_heard(echo.sent_ns[0], echo.sent - window) {
                let took_ns = echo.took_ns[..window as usize].iter();
                took_ns.for_each(|ns| (echo.latency)(*ns));
            }
            self.bytes += size * came;
            self.marks.record(self.bytes);
        }
        Ok(())
    }
}

/// Receives what has come: how many more are answered; none where nothing has come.
#[inline]
fn take(
    socket: BorrowedFd<'_>,
    echo: &mut Echo<'_>,
    answers: &mut Intake,
) -> io::Result<Option<u64>> {
    match answers.receive(socket, RecvFlags::empty()) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(_) => echo.heard(answers.whole()).map(Some),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until a socket gives something, or has an error to tell: which; none where it is stopped and
/// no answers come any more.
fn wait_for_answer(socket: BorrowedFd<'_>, echo: &Echo<'_>) -> io::Result<Option<PollFlags>> {
    let mut waits = Waits::default();
    loop {
        if let Some(able) = able(&socket, PollFlags::IN, LOOK)? {
            return Ok(Some(able));
        }
        let nothing = ErrorKind::WouldBlock.into();
        if !waits.go_on(nothing, echo.limits.is_stopped(), echo.patience)? {
            return Ok(None);
        }
    }
}

/// Receives that have ended without anything, one after the other.
#[derive(Default)]
pub(super) struct Waits(u32);

impl Waits {
    /// Another one, each of which lasts for [`LOOK`]: false where it is to stop, and nothing has come
    /// for as long as what is on its way may take.
    pub(super) fn go_on(
        &mut self,
        error: io::Error,
        is_stopped: bool,
        patience: Duration,
    ) -> io::Result<bool> {
        self.0 += 1;
        match is_passing(&error) {
            true if is_stopped => Ok(self.0 * LOOK < patience),
            true if self.0 * LOOK > STALLED => Err(nothing_comes()),
            true => Ok(true),
            false => Err(error),
        }
    }
}

#[inline]
fn now() -> u64 {
    now_ns(ClockId::MonotonicRaw)
}
