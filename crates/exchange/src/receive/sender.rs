//! The sender that receivers are measured with: it sends as fast as it can.

use crate::rendezvous::{Listener, Over};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize, base_page_bytes};
use costof_os::memory::pattern::pattern;
use costof_os::net::poll::able;
use costof_os::net::receive::{MESSAGE_LEAST_BYTES, MESSAGE_MOST_BYTES, NUMBER_BYTES, READY};
use costof_os::net::socket;
use costof_os::net::socket::{has_gone, is_passing, receive_within};
use costof_os::net::unsupported;
use costof_os::net::zerocopy::{self, Completions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// How long a call waits before it is looked whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// In how much memory messages lie that go uncopied, about, and how many they are at most.
const UNCOPIED_BYTES: usize = 16 << 20;
const UNCOPIED_MOST: usize = 512;

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `send`, always from one buffer.
    Send,
    /// `send` with `MSG_ZEROCOPY`, from several buffers in turn, each again when the kernel is done
    /// with it.
    ZeroCopy,
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    by: By,
    size: usize,
    /// Messages, each at the beginning of a page.
    messages: Arena,
    apart: usize,
    /// How many calls had been made when each message was sent last.
    calls_until: Vec<u64>,
    calls: u64,
    completions: Completions,
    sent: u64,
    cpu_ns: u64,
    wall_ns: u64,
    allocations: u64,
}

impl Sender {
    /// Waits for the one that calls a listener and says its token, and until it is ready.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::accept`]; `InvalidInput` for a size that no message has; `Unsupported`
    /// where the socket cannot send uncopied.
    pub fn accept(listener: &Listener, stop: &AtomicBool, size: usize, by: By) -> io::Result<Self> {
        if !(MESSAGE_LEAST_BYTES..=MESSAGE_MOST_BYTES).contains(&size) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut met = listener.accept(stop)?;
        let met = match (met.pop(), met.pop()) {
            (Some(met), None) if met.over != Over::Udp => met,
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let socket = met.socket;
        receive_within(&socket, LOOK)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(LOOK))?;
        if by == By::ZeroCopy {
            zerocopy::enable(&socket).map_err(|error| {
                unsupported(format!(
                    "this socket copies all that it sends: {error} (Linux 4.14, TCP)"
                ))
            })?;
        }
        send(&socket, listener.token(), SendFlags::NOSIGNAL)?;
        await_ready(&socket, stop)?;
        let apart = size.next_multiple_of(base_page_bytes());
        let places = match by {
            By::Send => 1,
            By::ZeroCopy => (UNCOPIED_BYTES / apart).clamp(2, UNCOPIED_MOST),
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
            cpu_ns: 0,
            wall_ns: 0,
            allocations: 0,
        })
    }

    /// Sends messages until the receiver has gone, or `stop` is set.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    pub fn send(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let allocated = allocations();
        let began_ns = (now_ns(ClockId::MonotonicRaw), now_ns(ClockId::ThreadCpu));
        let sent = self.send_messages(stop);
        self.cpu_ns += now_ns(ClockId::ThreadCpu) - began_ns.1;
        self.wall_ns += now_ns(ClockId::MonotonicRaw) - began_ns.0;
        self.allocations += allocations() - allocated;
        match sent {
            Err(error) if has_gone(&error) => Ok(()),
            sent => sent,
        }
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

    /// Sends some of these bytes; none where it has to be tried again.
    #[inline]
    fn send_some(&mut self, from: usize, left: usize) -> io::Result<usize> {
        let bytes = &self.messages.as_slice()[from..][..left];
        let sent = match self.by {
            By::Send => send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(Into::into),
            By::ZeroCopy => zerocopy::send(&self.socket, bytes),
        };
        match sent {
            Ok(sent) => {
                self.calls += 1;
                Ok(sent)
            }
            Err(error) if is_passing(&error) => Ok(0),
            // Too many are under way.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.await_completions()?;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until the message at this place may be written to; false where that is not wanted any
    /// more.
    #[inline]
    fn await_place(&mut self, place: usize, stop: &AtomicBool) -> io::Result<bool> {
        if self.by == By::ZeroCopy {
            while self.completions.done < self.calls_until[place] {
                if stop.load(Ordering::Acquire) {
                    return Ok(false);
                }
                self.await_completions()?;
            }
        }
        Ok(true)
    }

    fn await_completions(&mut self) -> io::Result<()> {
        let before = self.completions.done;
        self.completions.collect(&self.socket)?;
        if self.completions.done == before {
            // Errors, which completions count as, are waited for without being asked for.
            able(&self.socket, PollFlags::empty(), LOOK)?;
        }
        Ok(())
    }

    /// Payload of the largest segment that TCP sends, in bytes; none of a Unix socket.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn segment_bytes(&self) -> io::Result<Option<u32>> {
        match socket::tcp_info(&self.socket) {
            Ok(info) => Ok(Some(info.segment_bytes)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What it has sent, in bytes: whole messages.
    pub fn bytes(&self) -> u64 {
        self.sent * self.size as u64
    }

    /// Processor time of the thread while it sent, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    /// How long it sent, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub fn wall_ns(&self) -> u64 {
        self.wall_ns
    }

    /// Allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

fn await_ready(socket: &OwnedFd, stop: &AtomicBool) -> io::Result<()> {
    let mut said = [0];
    while !stop.load(Ordering::Acquire) {
        match recv(socket, &mut said[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if said == *READY => return Ok(()),
            Ok(_) => return Err(ErrorKind::InvalidData.into()),
            Err(error) if is_passing(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorKind::Interrupted.into())
}
