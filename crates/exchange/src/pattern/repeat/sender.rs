//! The sender for measuring receivers: it sends as fast as it can.

use crate::progress::POLL_INTERVAL;
use crate::rendezvous::Listener;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize, base_page_bytes};
use costof_os::memory::pattern::pattern;
use costof_os::net::poll::able;
use costof_os::net::receive::{MESSAGE_MAX_BYTES, MESSAGE_MIN_BYTES, NUMBER_BYTES, READY};
use costof_os::net::socket;
use costof_os::net::socket::{has_gone, is_passing, receive_within};
use costof_os::net::unsupported;
use costof_os::net::zerocopy::{self, Completions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// About how much memory the messages that are sent without a copy occupy, and how many they are at most.
const UNCOPIED_BYTES: usize = 16 << 20;
const UNCOPIED_MAX: usize = 512;

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy {
    /// `send`, always from one buffer.
    Send,
    /// `send` with `MSG_ZEROCOPY`, from several buffers in turn, each reused when the kernel is done with it.
    ZeroCopy,
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    by: SentBy,
    size: usize,
    /// Messages, each at the beginning of a page.
    messages: Arena,
    apart: usize,
    /// How many calls had been made when each message was last sent.
    calls_until: Vec<u64>,
    calls: u64,
    completions: Completions,
    sent: u64,
}

/// What a sender has done, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of whole messages.
    pub bytes: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// How long it took, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub wall_ns: u64,
    /// Memory allocations during that time.
    pub allocations: u64,
}

impl Sender {
    /// Waits for the receiver that knows the listener's token, and until it is ready.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::accept`]; `InvalidInput` for a size that no message has; `Unsupported` if the
    /// socket cannot send without a copy.
    pub fn accept(
        listener: &Listener,
        stop: &AtomicBool,
        size: usize,
        by: SentBy,
    ) -> io::Result<Self> {
        if !(MESSAGE_MIN_BYTES..=MESSAGE_MAX_BYTES).contains(&size) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut flows = listener.accept(stop)?;
        let flow = match (flows.pop(), flows.pop()) {
            (Some(flow), None) if !flow.over.is_datagrams() => flow,
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let token = flow.token;
        let socket = flow.socket;
        receive_within(&socket, POLL_INTERVAL)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(POLL_INTERVAL))?;
        if by == SentBy::ZeroCopy {
            zerocopy::enable(&socket).map_err(|error| {
                unsupported(format!(
                    "this socket copies all that it sends: {error} (Linux 4.14, TCP)"
                ))
            })?;
        }
        token.send(&socket)?;
        await_ready(&socket, stop)?;
        let apart = size.next_multiple_of(base_page_bytes());
        let places = match by {
            SentBy::Send => 1,
            SentBy::ZeroCopy => (UNCOPIED_BYTES / apart).clamp(2, UNCOPIED_MAX),
        };
        let mut messages = Arena::map(places * apart, PageSize::Base)?;
        let message = pattern(size);
        for place in 0..places {
            messages.as_mut_slice()[place * apart..][..size].copy_from_slice(&message);
        }
        Ok(Self {
            socket,
            by,
            size,
            messages,
            apart,
            calls_until: vec![0; places],
            calls: 0,
            completions: Completions::default(),
            sent: 0,
        })
    }

    /// Sends messages until the receiver has gone, or `stop` is set.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    pub fn send(&mut self, stop: &AtomicBool) -> io::Result<Work> {
        let (allocated, before) = (allocations(), self.sent);
        let began_ns = (now_ns(ClockId::MonotonicRaw), now_ns(ClockId::ThreadCpu));
        match self.send_messages(stop) {
            Err(error) if !has_gone(&error) => return Err(error),
            _ => {}
        }
        Ok(Work {
            cpu_ns: now_ns(ClockId::ThreadCpu) - began_ns.1,
            wall_ns: now_ns(ClockId::MonotonicRaw) - began_ns.0,
            bytes: (self.sent - before) * self.size as u64,
            allocations: allocations() - allocated,
        })
    }

    fn send_messages(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut place = 0;
        loop {
            if !self.await_place(place, stop)? {
                return Ok(());
            }
            let at = place * self.apart;
            let number = self.sent.to_le_bytes();
            self.messages.as_mut_slice()[at..][..NUMBER_BYTES].copy_from_slice(&number);
            let mut left = self.size;
            while left > 0 {
                if stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                left -= self.send_some(at + self.size - left, left)?;
            }
            self.sent += 1;
            self.calls_until[place] = self.calls;
            place += 1;
            if place == self.calls_until.len() {
                place = 0;
            }
        }
    }

    /// Sends some of these bytes; `None` if the call must be repeated.
    #[inline]
    fn send_some(&mut self, from: usize, left: usize) -> io::Result<usize> {
        let bytes = &self.messages.as_slice()[from..][..left];
        let sent = match self.by {
            SentBy::Send => send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(Into::into),
            SentBy::ZeroCopy => zerocopy::send(&self.socket, bytes),
        };
        match sent {
            Ok(sent) => {
                self.calls += 1;
                Ok(sent)
            }
            Err(error) if is_passing(&error) => Ok(0),
            // Too many are in flight.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.await_completions()?;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the message at this place may be overwritten; false if `stop` is set first.
    #[inline]
    fn await_place(&mut self, place: usize, stop: &AtomicBool) -> io::Result<bool> {
        while self.by == SentBy::ZeroCopy && self.completions.done < self.calls_until[place] {
            if stop.load(Ordering::Acquire) {
                return Ok(false);
            }
            self.await_completions()?;
        }
        Ok(true)
    }

    fn await_completions(&mut self) -> io::Result<()> {
        let before = self.completions.done;
        self.completions.collect(&self.socket)?;
        if self.completions.done == before {
            // poll(2) waits for errors, which completions count as, without being asked.
            able(&self.socket, PollFlags::empty(), POLL_INTERVAL)?;
        }
        Ok(())
    }

    /// Payload of the largest segment that TCP sends, in bytes; `None` for a Unix socket.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn segment_bytes(&self) -> io::Result<Option<u32>> {
        match socket::tcp_info(&self.socket) {
            Ok(info) => Ok(Some(info.segment_bytes)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn await_ready(socket: &OwnedFd, stop: &AtomicBool) -> io::Result<()> {
    let mut message = [0];
    while !stop.load(Ordering::Acquire) {
        match recv(socket, &mut message[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if message == *READY => return Ok(()),
            Ok(_) => return Err(ErrorKind::InvalidData.into()),
            Err(error) if is_passing(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorKind::Interrupted.into())
}
