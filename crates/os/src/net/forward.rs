//! Measured: what a proxy does, which passes on what it receives from one connection to another one, and looks at
//! nothing.
//!
//! Source: recv(2), send(2); splice(2), `F_SETPIPE_SZ` in fcntl(2); io_uring_prep_recv_multishot(3) (Linux 6.0) and
//! io_uring_prep_send_bundle(3) (Linux 6.10), in the manner of liburing's examples/proxy.c.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};

use crate::cpu::clock::{ClockId, now_ns};
use crate::memory::arena::{Arena, PageSize};
use crate::net::buffer_ring::BufferRing;
use crate::net::{ring, unsupported};

/// By which calls bytes are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// recv(2) into a buffer of 64 KiB, and send(2) from it.
    RecvSend,
    /// splice(2) into a pipe, and from it.
    Splice,
    /// One multishot receive of io_uring into a ring of buffers, and sends that take all buffers that have arrived.
    Uring,
}

/// What was passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Bytes.
    pub bytes: u64,
    /// System calls.
    pub calls: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
}

/// The most that one call moves.
const BYTES: usize = 64 << 10;
const PIPE_BYTES: usize = 1 << 20;
/// Buffers of io_uring: how many, a power of two, and how large.
const BUFFERS: u16 = 32;
const BUFFER_BYTES: usize = 32 << 10;
const RECEIVING: u16 = 0;
const SENDING: u16 = 1;
/// A connection on which nothing comes for longer has been forgotten.
const STALLED: Duration = Duration::from_secs(60);

/// What a way needs, ready to pass on bytes. The thread that made it uses it.
pub struct Forwarder(Kind);

enum Kind {
    RecvSend(Vec<u8>),
    Splice(PipeReader, PipeWriter),
    Uring(Box<Uring>),
}

impl Forwarder {
    /// # Errors
    ///
    /// `Unsupported` if this kernel does not have the way; those of pipe(2) and mmap(2).
    pub fn new(way: Way) -> io::Result<Self> {
        Ok(Self(match way {
            Way::RecvSend => Kind::RecvSend(vec![0; BYTES]),
            Way::Splice => {
                let (reader, writer) = io::pipe()?;
                // A small pipe takes more turns.
                let _ = fcntl_setpipe_size(&writer, PIPE_BYTES);
                Kind::Splice(reader, writer)
            }
            Way::Uring => Kind::Uring(Box::new(Uring::new()?)),
        }))
    }

    /// Passes on all bytes of `from` to `to`, until `from` ends.
    ///
    /// # Errors
    ///
    /// Those of the calls; `Unsupported` if this kernel cannot receive so.
    pub fn forward(mut self, from: &TcpStream, to: &TcpStream) -> io::Result<Forwarded> {
        let mut done = Forwarded::default();
        let before = now_ns(ClockId::ThreadCpu);
        match &mut self.0 {
            Kind::RecvSend(buffer) => recv_send(buffer, from, to, &mut done)?,
            Kind::Splice(reader, writer) => through(reader, writer, from, to, &mut done)?,
            Kind::Uring(uring) => uring.forward(from, to, &mut done)?,
        }
        done.cpu_ns = now_ns(ClockId::ThreadCpu) - before;
        Ok(done)
    }
}

fn recv_send(
    buffer: &mut [u8],
    mut from: &TcpStream,
    mut to: &TcpStream,
    done: &mut Forwarded,
) -> io::Result<()> {
    loop {
        let received = from.read(buffer)?;
        done.calls += 1;
        if received == 0 {
            return Ok(());
        }
        let mut sent = 0;
        while sent < received {
            sent += to.write(&buffer[sent..received])?;
            done.calls += 1;
        }
        done.bytes += received as u64;
    }
}

fn through(
    reader: &PipeReader,
    writer: &PipeWriter,
    from: &TcpStream,
    to: &TcpStream,
    done: &mut Forwarded,
) -> io::Result<()> {
    loop {
        let received = splice(from, None, writer, None, PIPE_BYTES, SpliceFlags::MOVE)?;
        done.calls += 1;
        if received == 0 {
            return Ok(());
        }
        let mut sent = 0;
        while sent < received {
            sent += splice(reader, None, to, None, received - sent, SpliceFlags::MOVE)?;
            done.calls += 1;
        }
        done.bytes += received as u64;
    }
}

/// Receives into buffers of one ring, and lends those that have arrived to the ring that is sent from.
struct Uring {
    /// Dropped first, so that no request is left when the buffers are freed.
    ring: IoUring,
    receive: BufferRing,
    send: BufferRing,
    memory: Arena,
    /// Buffers that were received and are not sent: their numbers and how much is in each.
    arrived: VecDeque<(u16, usize)>,
    is_receiving: bool,
    is_sending: bool,
    has_ended: bool,
}

impl Uring {
    fn new() -> io::Result<Self> {
        let (ring, _) = ring::open(4, 2 * u32::from(BUFFERS), false)?;
        if !ring.params().is_feature_recvsend_bundle() {
            return Err(unsupported(
                "this kernel's io_uring sends no bundles of buffers (Linux 6.10)",
            ));
        }
        let mut memory = Arena::map(usize::from(BUFFERS) * BUFFER_BYTES, PageSize::Base)?;
        memory.populate()?;
        let receive = BufferRing::register(&ring, BUFFERS, RECEIVING)?;
        let send = BufferRing::register(&ring, BUFFERS, SENDING)?;
        let mut new = Self {
            ring,
            receive,
            send,
            memory,
            arrived: VecDeque::with_capacity(BUFFERS.into()),
            is_receiving: false,
            is_sending: false,
            has_ended: false,
        };
        for buffer in 0..BUFFERS {
            new.receive.lend(buffer, new.address(buffer), BUFFER_BYTES);
        }
        Ok(new)
    }

    fn address(&self, buffer: u16) -> usize {
        self.memory.address() + usize::from(buffer) * BUFFER_BYTES
    }

    fn forward(
        &mut self,
        from: &TcpStream,
        to: &TcpStream,
        done: &mut Forwarded,
    ) -> io::Result<()> {
        loop {
            loop {
                let Some(completion) = self.ring.completion().next() else { break };
                if completion.user_data() == u64::from(SENDING) {
                    self.is_sending = cqueue::more(completion.flags());
                    self.sent(completion.result(), done)?;
                } else {
                    self.received(&completion)?;
                }
            }
            if self.has_ended && self.arrived.is_empty() {
                return Ok(());
            }
            if !self.is_sending && !self.arrived.is_empty() {
                let send = opcode::SendBundle::new(Fd(to.as_raw_fd()), SENDING)
                    .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL);
                self.submit(&send.build().user_data(SENDING.into()))?;
                self.is_sending = true;
            }
            // Without a free buffer there is nothing to receive into.
            if !self.is_receiving && !self.has_ended && self.arrived.len() < BUFFERS.into() {
                let receive = opcode::RecvMulti::new(Fd(from.as_raw_fd()), RECEIVING).build();
                self.submit(&receive.user_data(RECEIVING.into()))?;
                self.is_receiving = true;
            }
            done.calls += 1;
            ring::wait(&self.ring, 1, STALLED)?;
        }
    }

    fn submit(&mut self, request: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the request names no memory; its buffers are the rings', which stay.
        unsafe { self.ring.submission().push(request) }
            .map_err(|_| io::Error::other("the ring has no room for one request"))
    }

    /// Takes a buffer that was filled, and lends it for sending.
    fn received(&mut self, completion: &cqueue::Entry) -> io::Result<()> {
        self.is_receiving = cqueue::more(completion.flags());
        match self.receive.filled(completion)? {
            Some((_, 0)) => self.has_ended = true,
            Some((buffer, bytes)) => {
                let bytes = bytes.min(BUFFER_BYTES);
                self.arrived.push_back((buffer, bytes));
                self.send.lend(buffer, self.address(buffer), bytes);
            }
            None => {}
        }
        Ok(())
    }

    /// Gives back the buffers that were sent, in their order.
    fn sent(&mut self, result: i32, done: &mut Forwarded) -> io::Result<()> {
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        let mut left = result as usize;
        done.bytes += left as u64;
        while left > 0 {
            let (buffer, bytes) = self.arrived.pop_front().ok_or(ErrorKind::InvalidData)?;
            if bytes > left {
                return Err(io::Error::other("a bundle of buffers was sent in part"));
            }
            left -= bytes;
            self.receive.lend(buffer, self.address(buffer), BUFFER_BYTES);
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        ring::cancel_all(&self.ring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};
    use std::thread;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn what_arrives_is_passed_on_in_order_and_whole() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7 % 251) as u8).collect();
        for way in [Way::RecvSend, Way::Splice, Way::Uring] {
            let ((mut source, from), (to, mut sink)) = (pair(), pair());
            let forwarded = thread::spawn(move || Forwarder::new(way)?.forward(&from, &to));
            let sent = bytes.clone();
            let sending = thread::spawn(move || {
                for piece in sent.chunks(50_000) {
                    // It fails where there is no such way.
                    let _ = source.write_all(piece);
                }
                let _ = source.shutdown(Shutdown::Write);
            });
            let mut arrived = Vec::new();
            let received = sink.read_to_end(&mut arrived);
            sending.join().unwrap();
            match forwarded.join().unwrap() {
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    eprintln!("checked less: {error}");
                }
                forwarded => {
                    let forwarded = forwarded.unwrap();
                    received.unwrap();
                    assert!(arrived == bytes, "{way:?}");
                    assert_eq!(forwarded.bytes, bytes.len() as u64, "{way:?}");
                    assert!(forwarded.calls > 0, "{way:?}");
                }
            }
        }
    }
}
