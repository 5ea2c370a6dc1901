//! Receiving: datagrams, what the kernel reports about them, and waiting for them.

use super::{EXACT_BELOW, Socket};
use crate::time::Time;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv, recvfrom};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// At most this many batches are received before anything is sent.
const MAX_BATCHES: usize = 8;
/// After a batch of at least this many bytes, another one is received at once.
const LARGE_BATCH_BYTES: usize = 1 << 14;

impl Socket {
    /// Receives datagrams. If there are none, waits for some until then (`None`: without limit). Returns the
    /// time afterwards, as it was last read: `now` if it did not wait.
    pub(super) fn receive(&mut self, now: Time, until: Option<Time>) -> io::Result<Time> {
        // Waiting within the receiving call costs one system call, waiting before it three. But that wait
        // ends with a tick of the kernel's clock, which is too coarse for some timers and too frequent for
        // others.
        let is_far = until.is_none_or(|at| at.since(now) >= EXACT_BELOW);
        let is_long = is_far && self.unsent.is_none();
        let mut received = if is_long {
            self.receive_batch(RecvFlags::empty(), None)?
        } else {
            // The clock was read just before; reading it again would delay the answer.
            let at = self.favours_latency.then_some(now);
            self.receive_batch(RecvFlags::DONTWAIT, at)?
        };
        if received.is_none() {
            if until.is_some_and(|at| at <= now) {
                return Ok(now);
            }
            let now = if is_long { self.now() } else { now };
            self.wait(until.map(|at| at.since(now)))?;
            received = self.receive_batch(RecvFlags::DONTWAIT, None)?;
        }
        let mut last = None;
        // If much arrives, more is there already, and can be acknowledged together.
        for _ in 1..MAX_BATCHES {
            let Some((bytes, at)) = received else {
                break;
            };
            last = Some(at);
            if bytes < LARGE_BATCH_BYTES {
                break;
            }
            received = self.receive_batch(RecvFlags::DONTWAIT, None)?;
        }
        Ok(last.unwrap_or_else(|| self.now()))
    }

    /// Receives the datagrams that the kernel joined, and processes them as of this time (`None`:
    /// now). Returns their bytes, and that time.
    fn receive_batch(
        &mut self,
        flags: RecvFlags,
        at: Option<Time>,
    ) -> io::Result<Option<(usize, Time)>> {
        let batch =
            if self.favours_latency { self.receive_one(flags) } else { self.receive_joined(flags) };
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) if is_transient(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let now = at.unwrap_or_else(|| self.now());
        if let Some(from) = batch.from {
            for datagram in self.incoming[..batch.bytes].chunks(batch.stride) {
                self.endpoint.handle_datagram(now, from, datagram);
            }
        }
        Ok(Some((batch.bytes, now)))
    }

    /// Receives one datagram, and only its sender's address with it.
    fn receive_one(&mut self, flags: RecvFlags) -> io::Result<Batch> {
        let (bytes, from) = match self.peer {
            Some(peer) => (recv(&self.socket, &mut self.incoming, flags)?.1, Some(peer)),
            None => {
                let (_, bytes, from) = recvfrom(&self.socket, &mut self.incoming, flags)?;
                (bytes, from.and_then(|from| from.try_into().ok()))
            }
        };
        Ok(Batch { bytes, from, stride: bytes.max(1) })
    }

    /// Receives datagrams of one sender that the kernel joined, and what it reports about them.
    fn receive_joined(&mut self, flags: RecvFlags) -> io::Result<Batch> {
        let mut buffers = [IoSliceMut::new(&mut self.incoming)];
        let control = Some(&mut self.control[..]);
        let flags = MsgFlags::from_bits_retain(flags.bits() as i32);
        let message =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut buffers, control, flags)?;
        let mut batch = Batch {
            bytes: message.bytes,
            from: message.address.as_ref().and_then(address),
            stride: message.bytes.max(1),
        };
        for report in message.cmsgs().into_iter().flatten() {
            match report {
                ControlMessageOwned::UdpGroSegments(segment) => {
                    batch.stride = usize::try_from(segment).unwrap_or(0).max(1);
                }
                ControlMessageOwned::RxqOvfl(dropped_datagrams) => {
                    self.dropped_datagrams = dropped_datagrams
                }
                _ => {}
            }
        }
        Ok(batch)
    }

    fn wait(&self, idle: Option<Duration>) -> io::Result<()> {
        // A time longer than a timespec holds is no limit.
        let timeout = idle.and_then(|idle| Timespec::try_from(idle).ok());
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.unsent.is_some());
        match poll(&mut [PollFd::new(&self.socket, events)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a receiving call returned.
struct Batch {
    bytes: usize,
    from: Option<SocketAddr>,
    /// The size of each datagram; the last may be shorter.
    stride: usize,
}

/// Whether nothing was received, or only a report that a datagram was not accepted, which then counts as
/// lost.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in();
    let v6 = || storage.as_sockaddr_in6();
    v4.map(|v4| SocketAddrV4::from(*v4).into())
        .or_else(|| v6().map(|v6| SocketAddrV6::from(*v6).into()))
}
