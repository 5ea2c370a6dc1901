//! Measured: a flow of bytes from this process to another one, which reads them.
//!
//! Messages of one size are written from one buffer and read into another of the same size. So the
//! figure includes copying every byte in and out. A batch ends when the receiver has its last byte.
//!
//! Source: pipe(7), unix(7); the flow is that of lmbench's bw_pipe and bw_unix.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ipc::channel::{again, write_all};
use crate::memory::pattern::{CHECKSUM_OF_NOTHING, extend_checksum};
use crate::memory::shared::SharedMemory;
use crate::sched::partner::{Duty, Partner, Status};
use crate::system_call::invalid;

/// What the bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Through {
    /// A pipe, as large as the kernel makes it (64 KiB, unless the user has very many).
    Pipe,
    /// A connected pair of Unix stream sockets, with the kernel's usual buffers.
    Unix,
}

/// The longest message.
pub const MAX_BYTES: usize = 64 << 20;

/// How often the sender waits in one batch before it checks whether the receiver is still there: some tens of
/// milliseconds, so that the call does not affect the figure.
const WAITS_PER_POLL: u64 = 1 << 20;

/// Messages whose contents are checked.
const CHECKED: u64 = 3;

/// Memory that both ends see. Each number that one end writes has a cache line of its own.
#[repr(C)]
struct Board {
    status: Status,
    /// Bytes that the receiver has received.
    arrived: Line<AtomicU64>,
    /// Whether the receiver sums up what it receives.
    checking: Line<AtomicBool>,
    /// That sum; the sender sets it while nothing flows.
    sum: AtomicU64,
}

#[repr(C, align(64))]
struct Line<T>(T);

/// The sending end of a flow that has begun; dropping it ends the receiver.
#[derive(Debug)]
pub struct Flow {
    /// Both ends run on one CPU.
    shares: bool,
    message: Vec<u8>,
    /// Bytes that were sent.
    sent: u64,
    partner: Partner,
    descriptor: OwnedFd,
    _sink: Vec<u8>,
    memory: SharedMemory,
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    /// The descriptor to read from.
    descriptor: RawFd,
    buffer: *mut u8,
    size: usize,
    memory: *mut u8,
}

impl Flow {
    /// Sets up the channel and forks a receiver on CPU `cpu`; `shares` means that the calling thread runs
    /// there too. A message has `size` bytes, from 1 to [`MAX_BYTES`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a size that does not fit; otherwise those of setting up the channel, of fork(2) and
    /// of sched_setaffinity(2).
    pub fn start(through: Through, size: usize, cpu: usize, shares: bool) -> io::Result<Self> {
        if size == 0 || size > MAX_BYTES {
            return Err(invalid(format!("a message has 1 to {MAX_BYTES} bytes, not {size}")));
        }
        let memory = SharedMemory::map(size_of::<Board>())?;
        let (ours, theirs): (OwnedFd, OwnedFd) = match through {
            Through::Pipe => {
                let (read_from, write_to) = io::pipe()?;
                (write_to.into(), read_from.into())
            }
            Through::Unix => {
                let (ours, theirs) = UnixStream::pair()?;
                (ours.into(), theirs.into())
            }
        };
        let mut message = vec![0; size];
        fill(&mut message, 0);
        // The receiver's copy of it, since a fork copies what is written to.
        let mut sink = vec![0; size];
        let drain = Drain {
            descriptor: theirs.as_raw_fd(),
            buffer: sink.as_mut_ptr(),
            size,
            memory: memory.as_ptr(),
        };
        // SAFETY: the memory begins with a board.
        let status = unsafe { &board(memory.as_ptr()).status };
        let partner = Partner::process(drain, status, cpu, &[ours.as_raw_fd()])?;
        Ok(Self { shares, message, sent: 0, partner, descriptor: ours, _sink: sink, memory })
    }

    /// Sends `n` messages, and returns when the receiver has received the last byte.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` or `ConnectionReset` if the receiver has ended; otherwise the errors of write(2).
    pub fn send(&mut self, n: u64) -> io::Result<()> {
        // SAFETY: the memory begins with a board.
        let board = unsafe { board(self.memory.as_ptr()) };
        let (message, size) = (self.message.as_mut_ptr(), self.message.len());
        for _ in 0..n {
            // SAFETY: the message is as long.
            unsafe { write_all(self.descriptor.as_raw_fd(), message, size) }?;
        }
        self.sent += n * size as u64;
        let mut waited = 0_u64;
        while board.arrived.0.load(Ordering::Acquire) < self.sent {
            wait(self.shares);
            waited += 1;
            if waited.is_multiple_of(WAITS_PER_POLL) && self.partner.has_ended() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    /// Sends three messages with contents of their own, which the receiver sums up. Returns whether every
    /// byte arrived in its place.
    pub fn check(&mut self) -> io::Result<bool> {
        let memory = self.memory.as_ptr();
        // SAFETY: the memory begins with a board.
        let board = unsafe { board(memory) };
        let mut expected = CHECKSUM_OF_NOTHING;
        // Nothing flows now: all that was sent has arrived.
        board.sum.store(expected, Ordering::Relaxed);
        board.checking.0.store(true, Ordering::Release);
        let mut sent = Ok(());
        for number in 1..=CHECKED {
            fill(&mut self.message, number);
            expected = extend_checksum(expected, &self.message);
            sent = sent.and_then(|()| self.send(1));
        }
        board.checking.0.store(false, Ordering::Release);
        sent.map(|()| board.sum.load(Ordering::Acquire) == expected)
    }
}

// SAFETY: its pointers lead into memory that the flow owns, and that a child of a fork has a copy of.
unsafe impl Send for Drain {}

impl Duty for Drain {
    /// Receives until the channel ends or this process is killed.
    fn serve(&self, _: &Status) {
        // SAFETY: the memory begins with a board; this process has its own copy of the mapping.
        let board = unsafe { board(self.memory) };
        let mut arrived = 0;
        loop {
            // SAFETY: the buffer has `size` bytes, which only the receiver uses.
            let got = match unsafe { libc::read(self.descriptor, self.buffer.cast(), self.size) } {
                0 => return,
                -1 if again(&io::Error::last_os_error()).is_err() => return,
                -1 => continue,
                got => got.unsigned_abs(),
            };
            if board.checking.0.load(Ordering::Acquire) {
                // SAFETY: as many bytes were just read into the buffer.
                let bytes = unsafe { std::slice::from_raw_parts(self.buffer, got) };
                let sum = board.sum.load(Ordering::Relaxed);
                board.sum.store(extend_checksum(sum, bytes), Ordering::Relaxed);
            }
            arrived += got as u64;
            board.arrived.0.store(arrived, Ordering::Release);
        }
    }
}

#[inline(always)]
fn wait(shares: bool) {
    if shares {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::sched_yield() };
    } else {
        std::hint::spin_loop();
    }
}

/// # Safety
///
/// `memory` must be the start of a mapping of zeroes of at least this size, which lives as long as
/// the answer is used.
unsafe fn board<'a>(memory: *mut u8) -> &'a Board {
    // SAFETY: zeroes are a valid board, and it is changed through its atomics only.
    unsafe { &*memory.cast() }
}

/// Fills in contents that differ between any two messages, and between any two places of one.
fn fill(message: &mut [u8], number: u64) {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in message {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = (state >> 32) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pattern::checksum;
    use crate::sched::affinity;

    #[test]
    fn every_byte_arrives_in_its_place() {
        let cpus = affinity::allowed().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        std::thread::spawn(move || {
            affinity::pin(&[first]).unwrap();
            for through in [Through::Pipe, Through::Unix] {
                for size in [1, 4096, 100_003, 1 << 20] {
                    for cpu in [first, last] {
                        let mut flow = Flow::start(through, size, cpu, cpu == first).unwrap();
                        flow.send(5).unwrap();
                        assert!(flow.check().unwrap(), "{through:?} {size} {cpu}");
                        flow.send(1).unwrap();
                        assert!(flow.check().unwrap(), "{through:?} {size} {cpu}");
                    }
                }
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_receiver_that_was_killed_is_an_error() {
        let cpus = affinity::allowed().unwrap();
        for through in [Through::Pipe, Through::Unix] {
            for shares in [false, true] {
                let cpu = cpus[cpus.len() - 1];
                let mut flow = Flow::start(through, 100_003, cpu, shares).unwrap();
                flow.send(2).unwrap();
                let Partner::Process(child) = &flow.partner else {
                    panic!("a receiver is a process");
                };
                rustix::process::kill_process(child.pid(), rustix::process::Signal::KILL).unwrap();
                let error = flow.send(10).unwrap_err();
                let expected = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
                assert!(expected.contains(&error.kind()), "{through:?}: {error}");
            }
        }
    }

    #[test]
    fn contents_in_another_order_have_another_sum() {
        assert_ne!(checksum(b"ab"), checksum(b"ba"));
        let (mut one, mut other) = ([0; 64], [0; 64]);
        fill(&mut one, 1);
        fill(&mut other, 2);
        assert_ne!(one, other);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (size, cpu) in [(0, 0), (MAX_BYTES + 1, 0), (1, 60_000)] {
            let refused = Flow::start(Through::Pipe, size, cpu, false);
            let error = refused.map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
