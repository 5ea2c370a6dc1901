//! Measured: the ways to send a message of several fields through a socket, and how often each
//! enters the kernel.
//!
//! Each way has its own file. In all of them the socket blocks, a message is sent completely or not
//! at all, and everything is allocated before the first send. A message's bytes stay unchanged as
//! long as the sender lives, so that the kernel may read them at any time.
//!
//! Source: send(2), sendmsg(2), Documentation/networking/msg_zerocopy.rst, io_uring_enter(2),
//! sendfile(2), vmsplice(2), splice(2).

mod copy_and_send;
mod msg_zerocopy;
mod parts;
mod send_each;
mod sendfile;
mod sendmsg;
mod splice;
#[cfg(test)]
mod tests;
mod uring;

use std::io::{self, ErrorKind};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt;

use crate::memory::fields::Messages;
use crate::net::unsupported;
use crate::system_call::check;
use copy_and_send::CopyAndSend;
use msg_zerocopy::MsgZerocopy;
use send_each::SendEach;
use sendfile::Sendfile;
use sendmsg::Sendmsg;
use splice::Splice;
use uring::Uring;

/// How long a socket may accept nothing, or a completion may be missing, before sending is given up.
const STALLED: Duration = Duration::from_secs(10);
/// After this many zero-copy sends, the kernel is asked which of them are complete.
const REAP_EVERY: u64 = 32;

/// Bytes at the beginning of a message that [`Primitive::MsgZerocopyBody`] copies.
pub const HEADER_BYTES: usize = 64;

/// A way of sending a message of several fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// The fields are copied one after the other into a buffer, which send(2) copies.
    CopyAndSend,
    /// As [`Primitive::CopyAndSend`], into a buffer that is allocated and freed for each message.
    CopyAndSendAllocating,
    /// sendmsg(2) with an entry for each field.
    Sendmsg,
    /// sendmsg(2) with an entry for each field and `MSG_ZEROCOPY` (Linux 4.14, UDP 5.0).
    MsgZerocopy,
    /// The first [`HEADER_BYTES`] as by [`Primitive::Sendmsg`] with `MSG_MORE`, the rest as by
    /// [`Primitive::MsgZerocopy`]. A message must be longer.
    MsgZerocopyBody,
    /// A send(2) for each field; over UDP with `MSG_MORE`, so that it is one datagram.
    SendEach,
    /// `IORING_OP_SENDMSG` with an entry for each field (Linux 5.3).
    IoUringSend,
    /// A linked `IORING_OP_WRITE_FIXED` for each field, from registered memory (Linux 5.3).
    IoUringSendRegistered,
    /// `IORING_OP_SENDMSG_ZC` with an entry for each field (Linux 6.1); of one field
    /// `IORING_OP_SEND_ZC` (Linux 6.0).
    IoUringSendZc,
    /// A linked `IORING_OP_SEND_ZC` for each field, from registered memory (Linux 6.0, and 6.2 for
    /// whether it was copied).
    IoUringSendZcRegistered,
    /// sendfile(2) from a memfd that contains the fields one after the other.
    SendfileMemfd,
    /// sendfile(2) from a file that is in the page cache, likewise.
    SendfileFile,
    /// vmsplice(2) of the fields into a pipe, and splice(2) from it into the socket.
    Splice,
}

impl Primitive {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::CopyAndSend,
        Self::CopyAndSendAllocating,
        Self::Sendmsg,
        Self::MsgZerocopy,
        Self::MsgZerocopyBody,
        Self::SendEach,
        Self::IoUringSend,
        Self::IoUringSendRegistered,
        Self::IoUringSendZc,
        Self::IoUringSendZcRegistered,
        Self::SendfileMemfd,
        Self::SendfileFile,
        Self::Splice,
    ];

    /// Whether the kernel reports for each send afterwards whether it copied.
    pub fn has_completions(self) -> bool {
        matches!(
            self,
            Self::MsgZerocopy
                | Self::MsgZerocopyBody
                | Self::IoUringSendZc
                | Self::IoUringSendZcRegistered
        )
    }

    /// Whether the messages' memory is registered with io_uring.
    fn is_registered(self) -> bool {
        matches!(self, Self::IoUringSendRegistered | Self::IoUringSendZcRegistered)
    }
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent completely.
    pub messages: u64,
    /// System calls, including those that collect completions.
    pub system_calls: u64,
    /// Sends that asked the kernel not to copy: those that will get a completion.
    pub asked: u64,
    /// Those of them whose bytes the kernel no longer uses.
    pub completed: u64,
    /// Those of them whose bytes it copied after all.
    pub copied: u64,
    /// Messages of which a part was copied, because the kernel had no room for another send without a copy
    /// (`ENOBUFS`).
    pub fallbacks: u64,
}

impl Counts {
    /// What was done since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            system_calls: self.system_calls - before.system_calls,
            asked: self.asked - before.asked,
            completed: self.completed - before.completed,
            copied: self.copied - before.copied,
            fallbacks: self.fallbacks - before.fallbacks,
        }
    }
}

/// One end of a connection, or of datagrams that go to one peer, and the messages that it sends.
///
/// The thread that sends the first message must send and complete all of them: an io_uring ring belongs to
/// one thread.
pub struct FieldSender {
    // It is dropped first: a ring holds requests that read the messages.
    way: Way,
    socket: OwnedFd,
    messages: Messages,
    counts: Counts,
}

enum Way {
    CopyAndSend(CopyAndSend),
    Sendmsg(Sendmsg),
    MsgZerocopy(MsgZerocopy),
    SendEach(SendEach),
    Uring(Box<Uring>),
    Sendfile(Sendfile),
    Splice(Splice),
}

impl FieldSender {
    /// Sends `messages` through a connected socket, which it makes blocking.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the reason, where this kernel, limit or kind of socket has no such send.
    pub fn new(socket: OwnedFd, primitive: Primitive, messages: Messages) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(STALLED))?;
        let is_stream = sockopt::socket_type(&socket)? == rustix::net::SocketType::STREAM;
        let way = match primitive {
            Primitive::CopyAndSend => Way::CopyAndSend(CopyAndSend::new(&messages)),
            Primitive::CopyAndSendAllocating => Way::CopyAndSend(CopyAndSend::allocating()),
            Primitive::Sendmsg => Way::Sendmsg(Sendmsg::new(&messages)),
            Primitive::MsgZerocopy | Primitive::MsgZerocopyBody => {
                let has_header = primitive == Primitive::MsgZerocopyBody;
                if has_header && messages.size() <= HEADER_BYTES {
                    return Err(unsupported(format!(
                        "a message has to be longer than its header of {HEADER_BYTES} B (--set size=128)"
                    )));
                }
                Way::MsgZerocopy(MsgZerocopy::new(&socket, &messages, has_header)?)
            }
            Primitive::SendEach => Way::SendEach(SendEach::new(is_stream)),
            Primitive::IoUringSend
            | Primitive::IoUringSendRegistered
            | Primitive::IoUringSendZc
            | Primitive::IoUringSendZcRegistered => {
                Way::Uring(Box::new(Uring::new(primitive, &socket, is_stream, &messages)?))
            }
            Primitive::SendfileMemfd => Way::Sendfile(Sendfile::memory(&messages)?),
            Primitive::SendfileFile => Way::Sendfile(Sendfile::file(&messages)?),
            Primitive::Splice => Way::Splice(Splice::new(&messages, is_stream)?),
        };
        Ok(Self { way, socket, messages, counts: Counts::default() })
    }

    /// Sends the next message completely.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `TimedOut` if the other end takes nothing for ten seconds.
    #[inline]
    pub fn send(&mut self) -> io::Result<()> {
        self.send_by(true, &mut || Err(stalled()))
    }

    /// As [`FieldSender::send`], for a non-blocking socket: if it accepts nothing now, `blocked` is called,
    /// and the rest of the message is tried again. `blocked` must wait until something may have changed.
    ///
    /// # Errors
    ///
    /// Those of the system calls, and `blocked`.
    #[inline]
    pub fn send_or(&mut self, blocked: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.send_by(false, blocked)
    }

    #[inline]
    fn send_by(
        &mut self,
        waits: bool,
        blocked: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let call =
            &mut Call { socket: self.socket.as_fd(), counts: &mut self.counts, waits, blocked };
        let number = self.messages.advance();
        let parts = self.messages.parts(number);
        match &mut self.way {
            Way::CopyAndSend(way) => way.send(&self.messages, number, call),
            Way::Sendmsg(way) => way.send(parts, call),
            Way::MsgZerocopy(way) => way.send(parts, call),
            Way::SendEach(way) => way.send(parts, call),
            Way::Uring(way) => way.send(parts, call),
            Way::Sendfile(way) => way.send(number, call),
            Way::Splice(way) => way.send(parts, call),
        }?;
        self.counts.messages += 1;
        Ok(())
    }

    /// Waits until the kernel is done with everything that it was asked to send without a copy; returns at
    /// once if the primitive copies.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `TimedOut` if that takes ten seconds.
    pub fn complete(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::MsgZerocopy(way) => way.complete(self.socket.as_fd(), &mut self.counts),
            Way::Uring(way) => way.complete(&mut self.counts),
            _ => Ok(()),
        }
    }

    /// Asks the kernel which sends it is done with, for primitives whose pending reports would end every wait
    /// for the socket at once.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn reap(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::MsgZerocopy(way) => way.reap(self.socket.as_fd(), &mut self.counts),
            _ => Ok(()),
        }
    }

    /// What it has done so far.
    #[inline]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The messages that it sends.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Returns the messages, so that others can continue with them. All sends without a copy must be
    /// complete.
    pub fn into_messages(self) -> Messages {
        self.messages
    }

    /// The socket that it sends through.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message that is being sent: its destination, the counts so far, and what to do if the socket accepts
/// nothing.
struct Call<'c> {
    socket: BorrowedFd<'c>,
    counts: &'c mut Counts,
    /// Whether the kernel should wait until the socket accepts something.
    waits: bool,
    blocked: &'c mut dyn FnMut() -> io::Result<()>,
}

impl Call<'_> {
    /// Counts a system call, and returns how many bytes it has moved: 0 if it must be repeated.
    #[inline]
    fn moved(&mut self, answer: isize) -> io::Result<usize> {
        let moved = check(answer);
        self.counts.system_calls += 1;
        match moved {
            Ok(bytes) => Ok(bytes.cast_unsigned()),
            Err(error) => self.again(error),
        }
    }

    /// What a failed system call has moved: 0, so that it is repeated, unless the error is final.
    #[inline]
    fn again(&mut self, error: io::Error) -> io::Result<usize> {
        match error.kind() {
            ErrorKind::Interrupted => Ok(0),
            ErrorKind::WouldBlock => (self.blocked)().map(|()| 0),
            _ => Err(error),
        }
    }
}

impl Deref for Call<'_> {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        self.counts
    }
}

impl DerefMut for Call<'_> {
    fn deref_mut(&mut self) -> &mut Counts {
        self.counts
    }
}

fn stalled() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the other end no longer takes data")
}
