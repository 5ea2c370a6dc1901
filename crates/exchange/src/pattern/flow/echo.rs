//! Messages that are each answered by one. A limited number may be unanswered at a time.
//!
//! If the sockets can hold all of them, the client only sends and receives in turn: two system
//! calls for each message. If both sockets could become full, both peers would wait for each other.
//! In that case the client's socket does not block: whenever it accepts nothing, the client reads
//! the answers that have arrived, and poll(2) waits until the socket is readable or writable. That
//! is one more call for each such wait, and for each receive that finds nothing.
//!
//! A datagram may be lost, so the next answer need not be that of the oldest message. Over UDP,
//! messages are sent in windows: the client waits for all answers of a window before the next one.
//! If none has arrived for a twentieth of a second and four round trips, the missing ones count as
//! lost. The time of the messages of such a window is unknown.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::PollFlags;

use super::incoming::Incoming;
use super::sender::{Sender, now};
use super::{Content, Shape};
use crate::content::wrong_bytes;
use crate::progress::{Limits, POLL_INTERVAL, Progress, STALLED, Waits, no_answer};
use costof_os::net::poll::able;
use costof_os::net::socket::is_passing;

/// At most this many unanswered bytes fit into the sockets of both peers, whatever their kind. With more,
/// both sockets could become full.
const UNANSWERED_MAX_BYTES: u64 = 64 << 10;
/// What a message takes of a socket's buffer besides its bytes, at most: a Unix socket has room for 256
/// messages of 64 bytes in 208 KiB.
const OVERHEAD_MAX_BYTES: u64 = 1 << 10;

/// The longest ramp if a user may stop the echo at any time, so that some latencies are reported.
const RAMP_MAX_NS: u64 = 1_000_000_000;

/// Messages and their answers.
pub(super) struct Echo<'l> {
    answers: Incoming,
    /// Bytes of a message.
    size: u64,
    /// When each unanswered message was sent, indexed by its number modulo the length.
    sent_ns: Vec<u64>,
    /// The latencies of the messages of a window.
    took_ns: Vec<u64>,
    latency: &'l mut dyn FnMut(u64),
    /// How long a datagram's answer may take.
    patience: Duration,
    /// Before this time, and for the first third of the messages, latencies are not reported.
    ramp_end_ns: u64,
    limits: Limits,
    at_ns: u64,
    pub(super) sent: u64,
    answered: u64,
    pub(super) lost: u64,
    /// Calls that received or waited.
    calls: u64,
}

impl<'l> Echo<'l> {
    pub(super) fn new(
        in_flight: usize,
        answers: Incoming,
        size: usize,
        round_trip: Duration,
        latency: &'l mut dyn FnMut(u64),
    ) -> io::Result<Self> {
        if in_flight == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            answers,
            size: size as u64,
            sent_ns: vec![0; in_flight],
            took_ns: vec![0; in_flight],
            latency,
            patience: POLL_INTERVAL + 4 * round_trip,
            ramp_end_ns: 0,
            limits: Limits::default(),
            at_ns: 0,
            sent: 0,
            answered: 0,
            lost: 0,
            calls: 0,
        })
    }

    pub(super) fn begin(&mut self, begin_ns: u64, limits: Limits) {
        let third_ns = (limits.end_ns - begin_ns) / 3;
        let most_ns = limits.stop.as_ref().map_or(u64::MAX, |_| RAMP_MAX_NS);
        self.ramp_end_ns = begin_ns + third_ns.min(most_ns);
        self.limits = limits;
        self.at_ns = begin_ns;
    }

    /// Whether both peers could fill their sockets, and wait for each other.
    pub(super) fn could_deadlock(&self) -> bool {
        let in_flight = self.sent_ns.len() as u64;
        in_flight > 1 && in_flight * (self.size + OVERHEAD_MAX_BYTES) > UNANSWERED_MAX_BYTES
    }

    /// Whether all answers that arrived are right. Checks what was not checked on arrival.
    pub(super) fn is_right(&self) -> bool {
        self.answers.messages() == 0 || self.answers.last_piece_is_right()
    }

    /// Whether a message is past the ramp, by when it was sent or by how many were answered before.
    #[inline]
    fn is_past_ramp(&self, sent_ns: u64, answered: u64) -> bool {
        sent_ns >= self.ramp_end_ns || answered >= self.limits.messages / 3
    }

    /// Whether to send another message.
    #[inline]
    fn goes_on(&self, progress: &Progress) -> bool {
        self.sent < self.limits.messages && !self.limits.is_over(self.at_ns, progress)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.sent - self.answered < self.sent_ns.len() as u64
    }

    /// Records that the next message is sent now.
    #[inline]
    fn note_send(&mut self) {
        let place = (self.sent % self.sent_ns.len() as u64) as usize;
        self.sent_ns[place] = now();
        self.sent += 1;
    }

    /// Receives what has arrived; false if nothing has.
    #[inline]
    fn receive(&mut self, socket: BorrowedFd<'_>, progress: &mut Progress) -> io::Result<bool> {
        self.calls += 1;
        match self.answers.receive(socket) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => self.note_answers(progress).map(|()| true),
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Records the answers that have arrived so far.
    #[inline]
    fn note_answers(&mut self, progress: &mut Progress) -> io::Result<()> {
        self.at_ns = now();
        let (before, answers) = (self.answered, self.answers.messages());
        if answers > self.sent {
            let reason = "more answers arrived than messages were sent";
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        while self.answered < answers {
            let place = (self.answered % self.sent_ns.len() as u64) as usize;
            let sent_ns = self.sent_ns[place];
            if self.is_past_ramp(sent_ns, self.answered) {
                (self.latency)(self.at_ns - sent_ns);
            }
            self.answered += 1;
        }
        progress.add(self.size * (answers - before));
        Ok(())
    }

    /// Waits until the socket is readable or writable, or has an error to report, and returns which. `None`
    /// if the echo is stopped and no more answers arrive.
    fn wait(&mut self, socket: BorrowedFd<'_>) -> io::Result<Option<PollFlags>> {
        let mut waits = Waits::default();
        loop {
            self.calls += 1;
            if let Some(able) = able(&socket, PollFlags::IN, POLL_INTERVAL)? {
                return Ok(Some(able));
            }
            if !waits.go_on(&self.limits, self.patience)? {
                return Ok(None);
            }
        }
    }
}

impl Sender {
    /// Sends messages for this long. Each is answered by one message, and at most `in_flight` are unanswered.
    /// `latency` is called with the latency of each in nanoseconds, from before it was sent until its answer
    /// had arrived completely. The first third, by time or by number, whichever ends first, is left out; with
    /// [`Sender::end_by`], at most the first second.
    ///
    /// # Errors
    ///
    /// Those of sending and completing a message, and of recv(2); `InvalidData` if an answer has other bytes,
    /// `TimedOut` if none arrives for ten seconds, `UnexpectedEof` if the other end has gone.
    pub fn echo(
        &mut self,
        duration: Duration,
        in_flight: usize,
        latency: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let messages = self.messages.messages();
        let (size, count) = (messages.size(), messages.count());
        let token = self.token.clone().ok_or(ErrorKind::NotConnected)?;
        let content = Content::Fields(Shape { size, count });
        let mut answers = Incoming::new(self.over, content, token)?;
        if self.verifies {
            answers.verify();
        }
        let mut echo = Echo::new(in_flight, answers, size, self.round_trip(), latency)?;
        let echoed = self.measured(|sender| {
            let begin_ns = sender.progress.add(0);
            echo.begin(begin_ns, sender.limits(begin_ns, duration));
            if sender.over.is_datagrams() {
                sender.echo_windows(&mut echo)
            } else if echo.could_deadlock() {
                sender.echo_nonblocking(&mut echo)
            } else {
                sender.echo_blocking(&mut echo)
            }
        });
        (self.asked, self.unanswered) = (echo.sent, echo.lost);
        self.sent.system_calls += echo.calls;
        echoed?;
        if echo.is_right() { Ok(()) } else { Err(wrong_bytes()) }
    }

    /// Sends and receives in turn, with blocking calls.
    fn echo_blocking(&mut self, echo: &mut Echo<'_>) -> io::Result<()> {
        let mut waits = Waits::default();
        loop {
            while echo.has_room() && echo.goes_on(&self.progress) {
                echo.note_send();
                self.messages.send()?;
            }
            if echo.sent == echo.answered {
                return Ok(());
            }
            if echo.receive(self.messages.socket(), &mut self.progress)? {
                waits = Waits::default();
            } else if !waits.go_on(&echo.limits, echo.patience)? {
                return Ok(());
            }
        }
    }

    /// Sends and receives whenever the socket is ready.
    fn echo_nonblocking(&mut self, echo: &mut Echo<'_>) -> io::Result<()> {
        // A second descriptor of the same socket: the sender borrows the first while it sends.
        let socket = self.messages.socket().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let echoed = self.echo_by_poll(socket.as_fd(), echo);
        rustix::io::ioctl_fionbio(&socket, false)?;
        echoed
    }

    fn echo_by_poll(&mut self, socket: BorrowedFd<'_>, echo: &mut Echo<'_>) -> io::Result<()> {
        loop {
            while echo.has_room() && echo.goes_on(&self.progress) {
                echo.note_send();
                let progress = &mut self.progress;
                self.messages.send_or(&mut || {
                    if !echo.receive(socket, progress)? {
                        echo.calls += 1;
                        let able = able(&socket, PollFlags::IN | PollFlags::OUT, STALLED)?;
                        able.ok_or_else(no_answer)?;
                    }
                    Ok(())
                })?;
            }
            if echo.sent == echo.answered {
                return Ok(());
            }
            if !echo.receive(socket, &mut self.progress)? {
                match echo.wait(socket)? {
                    // Completions wait to be read, and poll(2) returns at once as long as they do.
                    Some(able) if able.contains(PollFlags::ERR) => self.messages.reap()?,
                    Some(_) => {}
                    None => return Ok(()),
                }
            }
        }
    }

    /// Sends a window of messages, and waits until all are answered or the missing ones count as lost.
    fn echo_windows(&mut self, echo: &mut Echo<'_>) -> io::Result<()> {
        let window = echo.sent_ns.len() as u64;
        let patience_ns = echo.patience.as_nanos() as u64;
        let stalled_ns = STALLED.as_nanos() as u64;
        let mut answered_ns = echo.at_ns;
        while echo.goes_on(&self.progress) {
            let window = window.min(echo.limits.messages - echo.sent);
            for _ in 0..window {
                echo.note_send();
                self.send_or_lose()?;
            }
            let (before, mut came, mut last_ns) = (echo.answers.messages(), 0, now());
            while came < window {
                echo.calls += 1;
                let received = echo.answers.receive(self.messages.socket());
                echo.at_ns = now();
                match received {
                    Ok(_) => last_ns = echo.at_ns,
                    Err(error) if !is_passing(&error) => return Err(error),
                    Err(_) if echo.at_ns - last_ns >= patience_ns => break,
                    Err(_) => continue,
                }
                let all = (echo.answers.messages() - before).min(window);
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
                // Answers that arrive later are too late.
                echo.answers.discard_pending(self.messages.socket())?;
                if echo.at_ns - answered_ns > stalled_ns {
                    return Err(no_answer());
                }
            } else if echo.is_past_ramp(echo.sent_ns[0], echo.sent - window) {
                let took_ns = echo.took_ns[..window as usize].iter();
                took_ns.for_each(|ns| (echo.latency)(*ns));
            }
            self.progress.add(echo.size * came);
        }
        Ok(())
    }
}
