//! The receiving end of a flow of messages.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, Shutdown, send, shutdown};

use super::incoming::Incoming;
use super::sender::now;
use super::{Content, request};
use crate::progress::{POLL_INTERVAL, Progress, Silence};
use crate::rendezvous::{Over, Token};
use crate::stream::Datagrams;
use costof_os::memory::allocator::allocations;
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::socket::{self, has_gone, is_passing};

/// How long the first requested datagrams may take.
const FIRST_PATIENCE: Duration = Duration::from_secs(1);

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    pub(super) socket: OwnedFd,
    over: Over,
    pub(super) content: Content,
    incoming: Incoming,
    /// After how many bytes it begins to record its progress.
    marked_from_bytes: u64,
    pub(super) ended: bool,
    /// How many flows of the sender have not ended.
    open: Arc<AtomicUsize>,
    silence: Silence,
    /// How far it has come.
    pub progress: Progress,
}

impl Receiver {
    /// `open` counts the flows that have not ended.
    pub(super) fn new(
        socket: OwnedFd,
        over: Over,
        content: Content,
        token: Token,
        open: &Arc<AtomicUsize>,
    ) -> io::Result<Self> {
        open.fetch_add(1, Ordering::AcqRel);
        Ok(Self {
            incoming: Incoming::new(over, content, token)?,
            socket,
            over,
            content,
            marked_from_bytes: 0,
            ended: false,
            open: Arc::clone(open),
            silence: Silence::default(),
            progress: Progress::default(),
        })
    }

    /// Tells the sender that it may begin.
    pub(super) fn answer_token(&self) -> io::Result<()> {
        self.incoming.token.send(&self.socket)
    }

    /// Records no checkpoint until this many messages have arrived: single messages, sent before those that
    /// follow each other without a pause.
    pub fn mark_after(&mut self, messages: u64) {
        self.marked_from_bytes = messages * self.content.size() as u64;
    }

    /// Compares every byte that arrives, instead of one word of each piece. This checks that nothing is lost
    /// or changed, and is slower.
    pub fn verify(&mut self) {
        self.incoming.verify();
    }

    /// Receives until `stop` is set, whether or not the sender has ended the flow: what a link loses never
    /// arrives.
    ///
    /// # Errors
    ///
    /// Those of recv(2); `InvalidData` if something arrived that was not sent; `TimedOut` if nothing arrives
    /// for a minute.
    pub fn receive(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.counting_allocations(|receiver| {
            while !stop.load(Ordering::Acquire) {
                receiver.receive_once()?;
            }
            Ok(())
        })
    }

    /// As [`Receiver::receive`], and answers every message that has arrived completely with one of
    /// `messages`, sent by `primitive`.
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive`], [`FieldSender::new`] and [`FieldSender::send`].
    pub fn answer(
        &mut self,
        primitive: Primitive,
        messages: Messages,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut sender = FieldSender::new(self.socket.try_clone()?, primitive, messages)?;
        let mut answered = 0;
        self.counting_allocations(|receiver| {
            while !stop.load(Ordering::Acquire) {
                receiver.receive_once()?;
                while answered < receiver.incoming.messages() {
                    answered += 1;
                    match sender.send() {
                        // As if it had been lost on the way.
                        Err(error) if receiver.over.is_datagrams() && is_lost(&error) => {}
                        // The sender has gone and expects no more answers.
                        Err(error) if has_gone(&error) => {
                            receiver.end();
                            answered = u64::MAX;
                        }
                        sent => sent?,
                    }
                }
            }
            Ok(())
        })
    }

    /// Requests messages until `stop` is set or the sender has ended the flow: a request of
    /// [`super::REQUEST_BYTES`] asks for `burst` messages, and the next one is sent when these have arrived
    /// completely. `latency` is called with the time of each request, by `CLOCK_MONOTONIC_RAW`, and how long
    /// it took from before that until the last of its messages had arrived, both in nanoseconds.
    ///
    /// Datagrams may be lost, requests among them. If none has arrived for a twentieth of a second, or for
    /// four times as long as an earlier burst took, the missing ones are given up and the next request is
    /// sent; `latency` is not called for such a burst.
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive`], and those of send(2).
    pub fn ask(
        &mut self,
        burst: u64,
        stop: &AtomicBool,
        latency: &mut dyn FnMut(u64, u64),
    ) -> io::Result<()> {
        self.counting_allocations(|receiver| {
            let mut patience_ns = FIRST_PATIENCE.as_nanos() as u64;
            if receiver.over.is_datagrams() {
                // A datagram socket discards what arrives before it is connected.
                sleep(POLL_INTERVAL);
            }
            while !stop.load(Ordering::Acquire) {
                if receiver.ended {
                    receiver.receive_once()?;
                    continue;
                }
                let asked_ns = now();
                match send(&receiver.socket, &request(), SendFlags::NOSIGNAL) {
                    Err(error) if has_gone(&error.into()) => receiver.end(),
                    Err(error) if receiver.over.is_datagrams() && is_lost(&error.into()) => {}
                    sent => drop(sent?),
                }
                if let Some(came_ns) = receiver.await_burst(burst, patience_ns, stop)? {
                    let took_ns = came_ns - asked_ns;
                    latency(asked_ns, took_ns);
                    patience_ns = (4 * took_ns).max(POLL_INTERVAL.as_nanos() as u64);
                }
            }
            Ok(())
        })
    }

    /// Receives the requested messages. Returns when all had arrived; `None` if they have not.
    fn await_burst(
        &mut self,
        burst: u64,
        patience_ns: u64,
        stop: &AtomicBool,
    ) -> io::Result<Option<u64>> {
        let bytes = burst * self.content.size() as u64;
        let (before, messages_before) = (self.incoming.bytes, self.incoming.messages());
        let mut last_ns = now();
        while !stop.load(Ordering::Acquire) && !self.ended {
            let came = self.receive_once()?;
            if came && self.incoming.messages() - messages_before >= burst {
                return Ok(Some(now()));
            }
            if !self.over.is_datagrams() {
                continue;
            }
            let at_ns = now();
            if came {
                last_ns = at_ns;
            }
            // As many bytes have arrived, but not in order; or too few for too long.
            let is_over = self.incoming.bytes - before >= bytes;
            if is_over || at_ns - last_ns >= patience_ns {
                self.incoming.discard_pending(self.socket.as_fd())?;
                break;
            }
        }
        Ok(None)
    }

    /// Receives once, and records a checkpoint if one is due; false if nothing arrived.
    #[inline]
    pub(super) fn receive_once(&mut self) -> io::Result<bool> {
        if self.ended {
            sleep(Duration::from_millis(1));
            if self.open.load(Ordering::Acquire) == 0 {
                self.check_silence()?;
            }
            return Ok(false);
        }
        let length = match self.incoming.receive(self.socket.as_fd()) {
            Ok(0) => {
                self.end();
                return Ok(false);
            }
            Ok(length) => length,
            Err(error) if is_passing(&error) => {
                self.check_silence()?;
                return Ok(false);
            }
            // An answer that was a datagram reached nobody; the sender may still send.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(false),
            // The sender has gone, with what was still in flight.
            Err(error) if has_gone(&error) => {
                self.end();
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.progress.add_after(length as u64, self.marked_from_bytes);
        Ok(true)
    }

    #[cold]
    fn check_silence(&mut self) -> io::Result<()> {
        self.silence.check(self.incoming.bytes, Instant::now)
    }

    /// Counts the allocations of some work.
    fn counting_allocations(
        &mut self,
        work: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let allocated = allocations();
        let worked = work(self);
        self.progress.count_allocations_since(allocated);
        worked
    }

    /// The sender is done. It learns that everything has arrived, unless it has closed already.
    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
        // A few messages may have no other checkpoint than this one. With many, it would include how long the
        // end of the stream takes to arrive after the last byte.
        if self.progress.checkpoints().len() < 2 {
            self.progress.end();
        }
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether every byte of the last piece is what was sent.
    pub fn last_piece_is_right(&self) -> bool {
        self.incoming.last_piece_is_right()
    }

    /// Its datagrams; `None` for a stream.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        if !self.over.is_datagrams() {
            return Ok(None);
        }
        Datagrams::at(&self.socket, self.incoming.datagrams).map(Some)
    }

    /// The size of its socket's receive buffer, in bytes.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        socket::buffer_bytes(&self.socket).map(|(_, receive)| receive)
    }
}

/// Whether a datagram was not sent, which counts as lost.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused || error.raw_os_error() == Some(libc::ENOBUFS)
}
