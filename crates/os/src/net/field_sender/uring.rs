//! io_uring: a message is a request, or a chain of one for each field from registered memory, and
//! one io_uring_enter(2) submits it. Where it is not sent when that returns, as of a stream that has
//! no room, another one waits for it. A request of one field without a copy names its memory itself,
//! registered or not, and needs no message header. When the kernel is done with the bytes of a send
//! that asked for no copy, it says so in the ring.
//!
//! From Linux 6.1 on that is put into the ring only when it is asked for, which it is after so many
//! sends, and never interrupts the sender: programs that want the most set their rings up so, which
//! belong to the first thread that sends.
//!
//! Source: io_uring_enter(2), io_uring_register(2), `IORING_SEND_ZC_REPORT_USAGE` (Linux 6.2);
//! io_uring_setup(2) on `IORING_SETUP_DEFER_TASKRUN`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Probe, cqueue, opcode};

use super::one_copy::{Rest, message_of};
use super::{Call, Counts, Primitive, REAP_EVERY, STALLED, stalled, unsupported};
use crate::memory::fields::{FIELDS_MOST, Messages};

/// Room for completions: with fewer, those that nobody has read would hold up the kernel.
const COMPLETIONS: u32 = 4096;
/// How many requests are remembered that sent nothing.
const IN_VAIN_MOST: usize = 1024;
/// linux/io_uring.h, which the crate lacks: bits of a request, and of a notification's result.
const REPORT_USAGE: u16 = 1 << 3;
const COPIED: u32 = 1 << 31;
/// A send of a stream is not complete before all of it is sent.
const FLAGS: libc::c_int = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;

/// A ring, and what it is asked for.
#[derive(Debug)]
pub(super) struct Uring {
    ring: Ring,
    /// Whether it waits for the thread that it will belong to.
    is_disabled: bool,
    socket: Fd,
    primitive: Primitive,
    /// A request names this structure, which therefore stays where it is.
    message: Box<libc::msghdr>,
    rest: Rest,
    /// The number of the next request.
    number: u64,
    /// Requests that sent nothing: the kernel may say of them, too, that it is done with their bytes,
    /// and that it has copied these.
    in_vain: VecDeque<u64>,
    /// Sends since completions were asked for.
    not_reaped: u64,
}

// SAFETY: its pointers are those of a message that is sent now, into an arena that can be sent to
// another thread.
unsafe impl Send for Uring {}

struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Uring {
    pub(super) fn new(
        primitive: Primitive,
        socket: &impl AsFd,
        is_stream: bool,
        messages: &Messages,
    ) -> io::Result<Self> {
        let (ring, is_disabled) = ring()?;
        let operation = match primitive {
            Primitive::UringSendRegistered => opcode::WriteFixed::CODE,
            Primitive::UringZeroCopy if messages.fields() == 1 => opcode::SendZc::CODE,
            Primitive::UringZeroCopy => opcode::SendMsgZc::CODE,
            Primitive::UringZeroCopyRegistered => opcode::SendZc::CODE,
            _ => opcode::SendMsg::CODE,
        };
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known)?;
        if !known.is_supported(operation) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("this kernel's io_uring has no operation {operation}"),
            ));
        }
        let registered = matches!(
            primitive,
            Primitive::UringSendRegistered | Primitive::UringZeroCopyRegistered
        );
        if registered {
            if !is_stream && messages.fields() > 1 {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "registered memory goes out field by field, each a datagram of its own (--set \
                     fields=1, or over=tcp)",
                ));
            }
            let arena = messages.arena().as_slice();
            let memory = libc::iovec {
                iov_base: arena.as_ptr().cast_mut().cast(),
                iov_len: arena.len(),
            };
            // SAFETY: the messages outlive the ring, which only reads them.
            unsafe { ring.submitter().register_buffers(&[memory]) }.map_err(|error| {
                unsupported(
                    "registering the messages with io_uring (ulimit -l, and 1 GiB, are the most)",
                    &error,
                )
            })?;
        }
        Ok(Self {
            ring: Ring(ring),
            is_disabled,
            socket: Fd(socket.as_fd().as_raw_fd()),
            primitive,
            message: Box::new(message_of(&[])),
            rest: Rest::new(messages.fields()),
            number: 0,
            in_vain: VecDeque::with_capacity(IN_VAIN_MOST),
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
        // What nobody has read must never be more than there is room for.
        while call.asked.saturating_sub(call.completed) > u64::from(COMPLETIONS / 2) {
            self.wait_for_one(call)?;
        }
        Ok(())
    }

    /// How many bytes were sent of these parts. A request of a chain that is carried out in part, as
    /// a write to a socket without room may be, ends the chain: those behind it send nothing.
    #[inline]
    fn send_some(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<usize> {
        if std::mem::take(&mut self.is_disabled) {
            self.ring.0.submitter().register_enable_rings()?;
        }
        let mut pending = self.queue(parts, call.waits)?;
        let (mut sent, mut failed) = (0, None);
        match pending {
            1 => self.submit(call)?,
            // Those behind the first of a chain are begun when it is waited for them.
            _ => self.wait(pending, call)?,
        }
        loop {
            while let Some(completion) = self.ring.0.completion().next() {
                if count_notification(&completion, &mut self.in_vain, call) {
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
                    if self.in_vain.len() == IN_VAIN_MOST {
                        self.in_vain.pop_front();
                    }
                    self.in_vain.push_back(completion.user_data());
                }
            }
            if pending == 0 {
                break;
            }
            self.wait(pending, call)?;
        }
        match failed {
            // What was sent counts; what failed fails again.
            Some(error) if sent == 0 => call.again(error),
            _ => Ok(sent),
        }
    }

    /// Puts the requests for these parts of a message into the ring: how many they are.
    #[inline]
    fn queue(&mut self, parts: &[libc::iovec], waits: bool) -> io::Result<usize> {
        // It waits for a socket that does not block, unless it is told not to.
        let (flags, write_flags) = match waits {
            true => (FLAGS, 0),
            false => (FLAGS | libc::MSG_DONTWAIT, libc::RWF_NOWAIT),
        };
        let mut queue = self.ring.0.submission();
        let number = &mut self.number;
        let mut push = |entry: Entry| {
            let entry = entry.user_data(*number);
            *number += 1;
            // SAFETY: what the request reads lies in the messages, which outlive the ring, or in
            // `self.message`; it is waited for before that is changed.
            unsafe { queue.push(&entry) }
                .map_err(|_| io::Error::other("the ring is full of requests that failed"))
        };
        match self.primitive {
            Primitive::UringSendRegistered | Primitive::UringZeroCopyRegistered => {
                let last = parts.len() - 1;
                for (position, part) in parts.iter().enumerate() {
                    let (at, len) = (part.iov_base.cast::<u8>(), part.iov_len as u32);
                    let entry = match self.primitive {
                        Primitive::UringSendRegistered => {
                            opcode::WriteFixed::new(self.socket, at, len, 0)
                                .rw_flags(write_flags)
                                .build()
                        }
                        _ => opcode::SendZc::new(self.socket, at, len)
                            .buf_index(Some(0))
                            .flags(flags)
                            .zc_flags(REPORT_USAGE)
                            .build(),
                    };
                    push(match position == last {
                        true => entry,
                        false => entry.flags(Flags::IO_LINK),
                    })?;
                }
                Ok(parts.len())
            }
            Primitive::UringZeroCopy if parts.len() == 1 => {
                let (at, len) = (parts[0].iov_base.cast::<u8>(), parts[0].iov_len as u32);
                let send = opcode::SendZc::new(self.socket, at, len).flags(flags);
                push(send.zc_flags(REPORT_USAGE).build())?;
                Ok(1)
            }
            primitive => {
                *self.message = message_of(parts);
                let message = &raw const *self.message;
                let flags = flags.cast_unsigned();
                push(match primitive {
                    Primitive::UringZeroCopy => opcode::SendMsgZc::new(self.socket, message)
                        .flags(flags)
                        .ioprio(REPORT_USAGE)
                        .build(),
                    _ => opcode::SendMsg::new(self.socket, message)
                        .flags(flags)
                        .build(),
                })?;
                Ok(1)
            }
        }
    }

    /// Submits what is in the ring.
    #[inline]
    fn submit(&mut self, counts: &mut Counts) -> io::Result<()> {
        counts.system_calls += 1;
        // What is left is submitted when it is waited for.
        unless_interrupted(self.ring.0.submitter().submit())
    }

    /// Has the kernel say which sends it is done with, and waits for none.
    #[inline]
    fn reap(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.not_reaped = 0;
        counts.system_calls += 1;
        let events = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.0.submitter();
        // SAFETY: there is no argument, and nothing is submitted.
        let asked = unsafe { submitter.enter::<libc::sigset_t>(0, 0, events, None) };
        unless_interrupted(asked)?;
        self.count(counts);
        Ok(())
    }

    /// Submits what is left in the ring, and waits until so much is complete.
    fn wait(&mut self, complete: usize, counts: &mut Counts) -> io::Result<()> {
        let time = Timespec::new().sec(STALLED.as_secs());
        let arguments = SubmitArgs::new().timespec(&time);
        counts.system_calls += 1;
        let submitter = self.ring.0.submitter();
        match submitter.submit_with_args(complete, &arguments) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Err(stalled()),
            waited => unless_interrupted(waited),
        }
    }

    #[inline]
    fn wait_for_one(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.wait(1, counts)?;
        self.count(counts);
        Ok(())
    }

    #[inline]
    fn count(&mut self, counts: &mut Counts) {
        while let Some(completion) = self.ring.0.completion().next() {
            count_notification(&completion, &mut self.in_vain, counts);
        }
    }

    pub(super) fn complete(&mut self, counts: &mut Counts) -> io::Result<()> {
        while counts.completed < counts.asked {
            self.wait_for_one(counts)?;
        }
        Ok(())
    }
}

/// A call that a signal has ended has done nothing, and what it was for is seen afterwards.
#[inline]
fn unless_interrupted(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(()),
    }
}

/// A ring, and whether it has to be enabled.
fn ring() -> io::Result<(IoUring, bool)> {
    let mut deferring = IoUring::builder();
    deferring
        .setup_cqsize(COMPLETIONS)
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun();
    if let Ok(ring) = deferring.build(FIELDS_MOST as u32) {
        return Ok((ring, true));
    }
    let ring = IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .build(FIELDS_MOST as u32)
        .map_err(|error| {
            unsupported(
                "io_uring_setup (kernel.io_uring_disabled, or a seccomp filter, may forbid it)",
                &error,
            )
        })?;
    Ok((ring, false))
}

/// Counts it if it says that the kernel is done with the bytes of a send, and says whether it does.
#[inline]
fn count_notification(
    completion: &cqueue::Entry,
    in_vain: &mut VecDeque<u64>,
    counts: &mut Counts,
) -> bool {
    if !cqueue::notif(completion.flags()) {
        return false;
    }
    let number = completion.user_data();
    match in_vain.iter().position(|request| *request == number) {
        Some(position) => drop(in_vain.remove(position)),
        None => {
            counts.completed += 1;
            counts.copied += u64::from(completion.result().cast_unsigned() & COPIED != 0);
        }
    }
    true
}
