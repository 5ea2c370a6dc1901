//! io_uring: a message is one request, or a chain of requests, one for each field in registered
//! memory; one io_uring_enter(2) submits it. If the message is not sent when the call returns, for
//! example because a stream has no room, another call waits for it. A request with one field and
//! without a copy names its memory itself, registered or not, and needs no message header. When the
//! kernel no longer uses the bytes of a send without a copy, it reports that in the ring.
//!
//! From Linux 6.1 on, the kernel puts these reports into the ring only on request, and never
//! interrupts the sender. This sender asks for them after a fixed number of sends. Programs that
//! want the highest speed set up their rings this way; such a ring belongs to the first thread that
//! sends.
//!
//! Source: io_uring_enter(2), io_uring_register(2), `IORING_SEND_ZC_REPORT_USAGE` (Linux 6.2);
//! io_uring_setup(2) on `IORING_SETUP_DEFER_TASKRUN`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{EnterFlags, IoUring, cqueue, opcode};

use super::parts::{Rest, message_of};
use super::{Call, Counts, Primitive, REAP_EVERY, STALLED, stalled};
use crate::memory::fields::{FIELDS_MAX, Messages};
use crate::net::ring::{self, unless_interrupted};
use crate::net::unsupported;

/// Room for completions: with less room, unread completions would delay the kernel.
const COMPLETIONS: u32 = 4096;
/// How many requests that sent nothing are remembered.
const FUTILE_MAX: usize = 1024;
/// linux/io_uring.h, which the crate lacks: bits of a request, and of a notification's result.
const REPORT_USAGE: u16 = 1 << 3;
const COPIED: u32 = 1 << 31;
/// A send of a stream is not complete before all of it is sent.
const FLAGS: libc::c_int = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// A ring, and the state of its requests.
pub(super) struct Uring {
    ring: IoUring,
    /// Whether it waits for the thread that it will belong to.
    is_disabled: bool,
    socket: Fd,
    is_zero_copy: bool,
    is_registered: bool,
    /// A request names this structure, which therefore stays where it is.
    message: Box<libc::msghdr>,
    rest: Rest,
    /// The number of the next request.
    number: u64,
    /// Requests that sent nothing: for these, too, the kernel may report that it is done with their bytes,
    /// and that it copied them.
    futile: VecDeque<u64>,
    /// Sends since completions were asked for.
    not_reaped: u64,
}

// SAFETY: its pointers are those of a message that is sent now, into an arena that can be sent to
// another thread.
unsafe impl Send for Uring {}

impl Uring {
    pub(super) fn new(
        primitive: Primitive,
        socket: &impl AsFd,
        is_stream: bool,
        messages: &Messages,
    ) -> io::Result<Self> {
        let (ring, is_disabled) = ring::open(FIELDS_MAX as u32, COMPLETIONS, true)?;
        let (is_zero_copy, is_registered) =
            (primitive.has_completions(), primitive.is_registered());
        let operation = match (is_zero_copy, is_registered) {
            (false, false) => (opcode::SendMsg::CODE, "IORING_OP_SENDMSG (Linux 5.3)"),
            (false, true) => (opcode::WriteFixed::CODE, "IORING_OP_WRITE_FIXED (Linux 5.1)"),
            (true, false) if messages.fields() > 1 => {
                (opcode::SendMsgZc::CODE, "IORING_OP_SENDMSG_ZC (Linux 6.1)")
            }
            (true, _) => (opcode::SendZc::CODE, "IORING_OP_SEND_ZC (Linux 6.0)"),
        };
        ring::require(&ring, operation)?;
        if is_registered {
            register(&ring, is_stream, messages)?;
        }
        Ok(Self {
            ring,
            is_disabled,
            socket: Fd(socket.as_fd().as_raw_fd()),
            is_zero_copy,
            is_registered,
            message: Box::new(message_of(&[])),
            rest: Rest::new(messages.fields()),
            number: 0,
            futile: VecDeque::with_capacity(FUTILE_MAX),
            not_reaped: 0,
        })
    }

    #[inline]
    pub(super) fn send(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        let mut rest = std::mem::take(&mut self.rest);
        let sent = rest.whole(parts, |parts| self.send_some(parts, call));
        self.rest = rest;
        sent?;
        if self.not_reaped >= REAP_EVERY {
            self.reap(call)?;
        }
        // There must never be more unread completions than there is room for.
        while call.asked.saturating_sub(call.completed) > u64::from(COMPLETIONS / 2) {
            self.wait_for_one(call)?;
        }
        Ok(())
    }

    /// Returns how many bytes of these parts were sent. A request of a chain that is executed partially, such
    /// as a write to a socket without room, ends the chain: later ones send nothing.
    #[inline]
    fn send_some(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<usize> {
        if std::mem::take(&mut self.is_disabled) {
            self.ring.submitter().register_enable_rings()?;
        }
        let mut pending = self.queue(parts, call.waits)?;
        let (mut sent, mut failed) = (0, None);
        match pending {
            1 => self.submit(call)?,
            // The later requests of a chain begin when this waits for them.
            _ => self.wait(pending, call)?,
        }
        loop {
            while let Some(completion) = self.ring.completion().next() {
                if count_notification(&completion, &mut self.futile, call) {
                    continue;
                }
                pending -= 1;
                match completion.result() {
                    bytes @ 0.. => {
                        let asked = u64::from(cqueue::more(completion.flags()));
                        call.asked += asked;
                        self.not_reaped += asked;
                        sent += bytes as usize;
                        continue;
                    }
                    error if -error == libc::ECANCELED => {}
                    error => failed = Some(io::Error::from_raw_os_error(-error)),
                }
                if cqueue::more(completion.flags()) {
                    if self.futile.len() == FUTILE_MAX {
                        self.futile.pop_front();
                    }
                    self.futile.push_back(completion.user_data());
                }
            }
            if pending == 0 {
                break;
            }
            self.wait(pending, call)?;
        }
        match failed {
            // Bytes that were sent count; the error will recur.
            Some(error) if sent == 0 => call.again(error),
            _ => Ok(sent),
        }
    }

    /// Puts the requests for these parts of a message into the ring. Returns how many.
    #[inline]
    fn queue(&mut self, parts: &[libc::iovec], waits: bool) -> io::Result<usize> {
        // By default, io_uring waits even for a non-blocking socket.
        let (flags, write_flags) =
            if waits { (FLAGS, 0) } else { (FLAGS | libc::MSG_DONTWAIT, libc::RWF_NOWAIT) };
        let mut queue = self.ring.submission();
        let number = &mut self.number;
        let mut push = |entry: Entry| {
            let entry = entry.user_data(*number);
            *number += 1;
            // SAFETY: what the request reads lies in the messages, which outlive the ring, or in
            // `self.message`; the request is complete before that is changed.
            unsafe { queue.push(&entry) }
                .map_err(|_| io::Error::other("the ring is full of failed requests"))
        };
        let goes_by_part = self.is_registered || (self.is_zero_copy && parts.len() == 1);
        if !goes_by_part {
            *self.message = message_of(parts);
            let message = &raw const *self.message;
            let flags = flags.cast_unsigned();
            push(if self.is_zero_copy {
                let send = opcode::SendMsgZc::new(self.socket, message).flags(flags);
                send.ioprio(REPORT_USAGE).build()
            } else {
                let send = opcode::SendMsg::new(self.socket, message);
                send.flags(flags).build()
            })?;
            return Ok(1);
        }
        let last = parts.len() - 1;
        for (position, part) in parts.iter().enumerate() {
            let (at, len) = (part.iov_base.cast::<u8>(), part.iov_len as u32);
            let entry = if self.is_zero_copy {
                opcode::SendZc::new(self.socket, at, len)
                    .buf_index(self.is_registered.then_some(0))
                    .flags(flags)
                    .zc_flags(REPORT_USAGE)
                    .build()
            } else {
                let write = opcode::WriteFixed::new(self.socket, at, len, 0);
                write.rw_flags(write_flags).build()
            };
            push(if position == last { entry } else { entry.flags(Flags::IO_LINK) })?;
        }
        Ok(parts.len())
    }

    /// Submits what is in the ring.
    #[inline]
    fn submit(&mut self, counts: &mut Counts) -> io::Result<()> {
        counts.system_calls += 1;
        // The rest is submitted when this waits for it.
        unless_interrupted(self.ring.submitter().submit())
    }

    /// Makes the kernel report which sends it is done with, without waiting.
    #[inline]
    fn reap(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.not_reaped = 0;
        counts.system_calls += 1;
        let events = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.submitter();
        // SAFETY: there is no argument, and nothing is submitted.
        let asked = unsafe { submitter.enter::<libc::sigset_t>(0, 0, events, None) };
        unless_interrupted(asked)?;
        self.count(counts);
        Ok(())
    }

    /// Submits what is left in the ring, and waits until this many requests are complete.
    fn wait(&mut self, complete: usize, counts: &mut Counts) -> io::Result<()> {
        counts.system_calls += 1;
        ring::wait(&self.ring, complete, STALLED).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => stalled(),
            _ => error,
        })
    }

    #[inline]
    fn wait_for_one(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.wait(1, counts)?;
        self.count(counts);
        Ok(())
    }

    #[inline]
    fn count(&mut self, counts: &mut Counts) {
        while let Some(completion) = self.ring.completion().next() {
            count_notification(&completion, &mut self.futile, counts);
        }
    }

    pub(super) fn complete(&mut self, counts: &mut Counts) -> io::Result<()> {
        while counts.completed < counts.asked {
            self.wait_for_one(counts)?;
        }
        Ok(())
    }
}

/// Registers the memory of messages with a ring.
fn register(ring: &IoUring, is_stream: bool, messages: &Messages) -> io::Result<()> {
    if !is_stream && messages.fields() > 1 {
        return Err(unsupported(
            "registered memory is sent field by field, each a datagram of its own (--set fields=1, or \
             over=tcp)",
        ));
    }
    let arena = messages.arena().as_slice();
    let memory = libc::iovec { iov_base: arena.as_ptr().cast_mut().cast(), iov_len: arena.len() };
    // SAFETY: the messages outlive the ring, which only reads them.
    unsafe { ring.submitter().register_buffers(&[memory]) }.map_err(|error| {
        unsupported(format!(
            "cannot register the messages with io_uring (limits: ulimit -l, and 1 GiB): {error}"
        ))
    })
}

/// Counts a completion if it reports that the kernel is done with the bytes of a send. Returns whether it
/// does.
#[inline]
fn count_notification(
    completion: &cqueue::Entry,
    futile: &mut VecDeque<u64>,
    counts: &mut Counts,
) -> bool {
    if !cqueue::notif(completion.flags()) {
        return false;
    }
    let number = completion.user_data();
    match futile.iter().position(|request| *request == number) {
        Some(position) => drop(futile.remove(position)),
        None => {
            counts.completed += 1;
            counts.copied += u64::from(completion.result().cast_unsigned() & COPIED != 0);
        }
    }
    true
}
