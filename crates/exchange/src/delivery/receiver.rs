//! The receiving end of a flow of messages.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, Shutdown, send, shutdown};

use super::intake::Intake;
use super::{LOOK, Shape, request};
use crate::rendezvous::Over;
use crate::stream::{Checkpoint, Checkpoints};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::fields::Messages;
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::socket;
use costof_os::net::socket::{has_gone, is_passing};

/// How long datagrams that were asked for are waited for, before any has ever come.
const FIRST: Duration = Duration::from_secs(1);

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    over: Over,
    shape: Shape,
    intake: Intake,
    /// From how many bytes on it notes how far it is.
    marked_from_bytes: u64,
    ended: bool,
    marks: Checkpoints,
    allocations: u64,
}

impl Receiver {
    pub(super) fn of(
        socket: OwnedFd,
        over: Over,
        shape: Shape,
        is_segmented: bool,
    ) -> io::Result<Self> {
        Ok(Self {
            intake: Intake::of(over, shape, is_segmented)?,
            socket,
            over,
            shape,
            marked_from_bytes: 0,
            ended: false,
            marks: Checkpoints::new(),
            allocations: 0,
        })
    }

    /// What the other end has said, and may say again.
    pub(super) fn met_by(&mut self, token: &[u8]) {
        self.intake.met_by(token);
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Notes how far it is only when so many messages have come, which are sent before those that
    /// follow each other without a pause.
    pub fn mark_after(&mut self, messages: u64) {
        self.marked_from_bytes = messages * self.shape.size as u64;
    }

    /// Compares every byte of what comes with what was sent, and not a word of each piece: for whoever
    /// wants to know that nothing is lost or changed, rather than how fast it is.
    pub fn verify(&mut self) {
        self.intake.verify();
    }

    /// Receives until `stop` is set, whether the sender has said that it was done or not: what a
    /// link has lost never comes.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `InvalidData` where something came that was not sent.
    pub fn receive(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.counted(|receiver| {
            while !stop.load(Ordering::Acquire) {
                receiver.take()?;
            }
            Ok(())
        })
    }

    /// As [`Receiver::receive`], and answers every message that has come whole with one of
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
        self.counted(|receiver| {
            while !stop.load(Ordering::Acquire) {
                receiver.take()?;
                while answered < receiver.intake.whole() {
                    answered += 1;
                    match sender.send() {
                        // As if it had been lost on its way.
                        Err(error) if receiver.over == Over::Udp && is_lost(&error) => {}
                        // Who asked has gone, and wants no more answers.
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

    /// Asks for messages until `stop` is set or the sender has said that it was done: with a request
    /// of [`super::REQUEST_BYTES`] for `burst` of them, and with the next one when they have come whole.
    /// `latency` hears when each request was made, by `CLOCK_MONOTONIC_RAW`, and how long it took from
    /// before that until the last of its messages had come whole, both in nanoseconds.
    ///
    /// Of datagrams, requests among them, some may be lost. When none has come for a twentieth of a
    /// second, or four times as long as an earlier burst took, those that are missing are given up,
    /// and it asks again; `latency` does not hear of such a burst.
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive`], and what send(2) says.
    pub fn ask(
        &mut self,
        burst: u64,
        stop: &AtomicBool,
        latency: &mut dyn FnMut(u64, u64),
    ) -> io::Result<()> {
        self.counted(|receiver| {
            let mut patience_ns = FIRST.as_nanos() as u64;
            if receiver.over == Over::Udp {
                // A socket of datagrams throws away what comes before it is connected.
                sleep(LOOK);
            }
            while !stop.load(Ordering::Acquire) {
                if receiver.ended {
                    receiver.take()?;
                    continue;
                }
                let asked_ns = now_ns(ClockId::MonotonicRaw);
                match send(&receiver.socket, &request(), SendFlags::NOSIGNAL) {
                    Err(error) if has_gone(&error.into()) => receiver.end(),
                    Err(error) if receiver.over == Over::Udp && is_lost(&error.into()) => {}
                    sent => drop(sent?),
                }
                if let Some(came_ns) = receiver.burst(burst, patience_ns, stop)? {
                    let took_ns = came_ns - asked_ns;
                    latency(asked_ns, took_ns);
                    patience_ns = (4 * took_ns).max(LOOK.as_nanos() as u64);
                }
            }
            Ok(())
        })
    }

    /// Receives what was asked for: when it had come whole; none where it has not.
    fn burst(
        &mut self,
        burst: u64,
        patience_ns: u64,
        stop: &AtomicBool,
    ) -> io::Result<Option<u64>> {
        let now = || now_ns(ClockId::MonotonicRaw);
        let bytes = burst * self.shape.size as u64;
        let (before, whole_before) = (self.intake.bytes(), self.intake.whole());
        let mut last_ns = now();
        while !stop.load(Ordering::Acquire) && !self.ended {
            let came = self.take()?;
            if came && self.intake.whole() - whole_before >= burst {
                return Ok(Some(now()));
            }
            if self.over != Over::Udp {
                continue;
            }
            let at_ns = now();
            if came {
                last_ns = at_ns;
            }
            // As many have come, but not in order, or too few for too long.
            let is_over = self.intake.bytes() - before >= bytes;
            if is_over || at_ns - last_ns >= patience_ns {
                self.intake.drain(self.socket.as_fd())?;
                break;
            }
        }
        Ok(None)
    }

    /// Receives once, and notes now and then how far it is; false where nothing came.
    #[inline]
    pub(super) fn take(&mut self) -> io::Result<bool> {
        if self.ended {
            sleep(Duration::from_millis(1));
            return Ok(false);
        }
        let length = match self.intake.receive(self.socket.as_fd(), RecvFlags::empty()) {
            Ok(0) => {
                self.end();
                return Ok(false);
            }
            Ok(length) => length,
            Err(error) if is_passing(&error) => return Ok(false),
            // Of datagrams it is said that nobody receives answers; the sender may yet send.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(false),
            // The sender has gone, with what was still on its way.
            Err(error) if has_gone(&error) => {
                self.end();
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let is_due = self.marks.is_due_after(length as u64);
        if is_due && self.intake.bytes() >= self.marked_from_bytes {
            self.marks.record(self.intake.bytes());
        }
        Ok(true)
    }

    /// Counts what is allocated meanwhile.
    fn counted(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let allocated = allocations();
        let worked = work(self);
        self.allocations += allocations() - allocated;
        worked
    }

    /// The sender is done; it learns that all has arrived, unless it has closed already.
    fn end(&mut self) {
        self.ended = true;
        // Of little there is no other mark than this one. Of more it would say how long the end of a
        // stream is in coming, when the last bytes of it are there.
        if self.marks.as_slice().len() < 2 {
            self.marks.end(self.intake.bytes());
        }
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether every byte of the last piece is what was sent there.
    pub fn last_piece_is_right(&self) -> bool {
        self.intake.last_piece_is_right()
    }

    /// Whether the sender has ended what it sent, as it can where something is connected.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Checkpoint] {
        self.marks.as_slice()
    }

    /// Payload that arrived, in bytes.
    pub fn bytes(&self) -> u64 {
        self.intake.bytes()
    }

    /// Datagrams that arrived; a duplicate counts again.
    pub fn datagrams(&self) -> u64 {
        self.intake.datagrams()
    }

    /// Datagrams that its queue had no room for.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn dropped(&self) -> io::Result<u64> {
        match self.over {
            Over::Udp => Ok(socket::dropped_datagrams(&self.socket)?.into()),
            Over::Tcp | Over::Unix => Ok(0),
        }
    }

    /// Allocations while it received.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

/// Whether a datagram was not sent, as one that is lost.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused || error.raw_os_error() == Some(libc::ENOBUFS)
}
