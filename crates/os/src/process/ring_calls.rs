//! Measured: small operations that io_uring does, several to a submission.
//!
//! All requests of a submission are complete before the next one begins, as in a program that needs the results before
//! it goes on.
//!
//! Source: io_uring_enter(2); io_uring_setup(2) on `IORING_SETUP_SQPOLL` (ordinary users: Linux 5.11); io_uring_register(2) on
//! `IORING_REGISTER_FILES`.

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU8;

use crate::net::ring;
use crate::system_call::{invalid, with_context};
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};

/// The most requests of a submission.
pub const BATCH_MAX: u32 = 256;

/// Bytes of a sent message.
pub const MESSAGE_BYTES: usize = 64;

/// What a request does.
#[derive(Debug)]
pub enum Operation {
    /// Nothing (Linux 5.1).
    Nop,
    /// Reads a byte of this file, which never ends (Linux 5.6).
    Read(File),
    /// Sends [`MESSAGE_BYTES`] by this connected socket (Linux 5.6).
    Send(UdpSocket),
}

/// Who takes the requests from the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// The calling thread, by io_uring_enter(2), which submits and waits.
    Caller,
    /// The same; the file is registered with the ring.
    CallerRegistered,
    /// A thread of the kernel on this CPU, which polls the ring; the calling thread polls for completions. After
    /// [`POLLER_IDLE_MS`] without a request it sleeps, and a system call wakes it.
    Poller(usize),
}

/// For how long the kernel's thread polls an empty ring.
pub const POLLER_IDLE_MS: u32 = 100;

/// A ring, and the requests of a submission.
pub struct RingCalls {
    ring: IoUring,
    requests: Vec<Entry>,
    /// The result of each request.
    result: i32,
    is_polled: bool,
    calls: u64,
    /// What the requests name; closed after the ring.
    _operation: Operation,
}

/// Where read bytes go: memory that is never freed, since a request may outlive its ring.
static READ: [AtomicU8; BATCH_MAX as usize] = [const { AtomicU8::new(0) }; BATCH_MAX as usize];
static MESSAGE: [u8; MESSAGE_BYTES] = [7; MESSAGE_BYTES];

impl RingCalls {
    /// A ring for `batch` requests a submission.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this machine has no io_uring, or forbids it; `InvalidInput` for a batch of 0 or more than
    /// [`BATCH_MAX`]; the errors of io_uring_register(2).
    pub fn new(operation: Operation, batch: u32, taker: Taker) -> io::Result<Self> {
        if !(1..=BATCH_MAX).contains(&batch) {
            return Err(invalid(format!("{batch} requests are no submission")));
        }
        let ring = match taker {
            Taker::Caller | Taker::CallerRegistered => ring::open(batch, 2 * batch, false)?.0,
            Taker::Poller(cpu) => IoUring::builder()
                .setup_sqpoll(POLLER_IDLE_MS)
                .setup_sqpoll_cpu(cpu as u32)
                // It says that it has taken a batch some time after that is complete.
                .build(2 * batch)
                .map_err(ring::refused)?,
        };
        let file = match &operation {
            Operation::Nop => None,
            Operation::Read(file) => Some(file.as_raw_fd()),
            Operation::Send(socket) => Some(socket.as_raw_fd()),
        };
        let is_registered = taker == Taker::CallerRegistered;
        if let (Some(file), true) = (file, is_registered) {
            let registered = ring.submitter().register_files(&[file]);
            registered.map_err(|error| with_context("IORING_REGISTER_FILES", error))?;
        }
        let request = |position| request(&operation, file, is_registered, position);
        Ok(Self {
            ring,
            requests: (0..batch as usize).map(request).collect(),
            result: match operation {
                Operation::Nop => 0,
                Operation::Read(_) => 1,
                Operation::Send(_) => MESSAGE_BYTES as i32,
            },
            is_polled: matches!(taker, Taker::Poller(_)),
            calls: 0,
            _operation: operation,
        })
    }

    /// Does the operation `n` times, a batch at a time; the last one may be smaller.
    ///
    /// # Errors
    ///
    /// The first error of io_uring_enter(2) or of a request; `InvalidData` if one did not do all that it should.
    #[inline]
    pub fn repeat(&mut self, n: u64) -> io::Result<()> {
        let mut left = n;
        while left > 0 {
            let count = left.min(self.requests.len() as u64) as usize;
            // SAFETY: the file of the requests is open as long as the ring, and their memory is never freed.
            unsafe { self.ring.submission().push_multiple(&self.requests[..count]) }
                .map_err(|_| io::Error::other("the ring is full"))?;
            self.complete(count)?;
            left -= count as u64;
        }
        Ok(())
    }

    /// How many system calls it has made.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Submits what is in the ring, and waits until as many requests are complete.
    #[inline]
    fn complete(&mut self, count: usize) -> io::Result<()> {
        let mut incomplete = count;
        let mut first = Ok(());
        if self.is_polled {
            // A system call only if the kernel's thread sleeps.
            self.calls += u64::from(self.ring.submission().need_wakeup());
            self.ring.submit()?;
        }
        while incomplete > 0 {
            // Without a pause instruction, by which a hypervisor may take the CPU away.
            if !self.is_polled {
                self.calls += 1;
                ring::unless_interrupted(self.ring.submit_and_wait(incomplete))?;
            }
            for completion in self.ring.completion() {
                // Those of a submission that failed come later.
                incomplete = incomplete.saturating_sub(1);
                if completion.result() != self.result {
                    first = first.and(Err(unexpected(completion.result())));
                }
            }
        }
        first
    }
}

#[cold]
fn unexpected(result: i32) -> io::Error {
    match result {
        ..0 => io::Error::from_raw_os_error(-result),
        _ => io::ErrorKind::InvalidData.into(),
    }
}

/// The request at this position of a submission.
fn request(
    operation: &Operation,
    file: Option<RawFd>,
    is_registered: bool,
    position: usize,
) -> Entry {
    // The ring's only registered file has the index 0.
    let name = types::Fd(file.filter(|_| !is_registered).unwrap_or(0));
    let request = match operation {
        Operation::Nop => return opcode::Nop::new().build(),
        Operation::Read(_) => opcode::Read::new(name, READ[position].as_ptr(), 1).build(),
        Operation::Send(_) => {
            opcode::Send::new(name, MESSAGE.as_ptr(), MESSAGE_BYTES as u32).build()
        }
    };
    if is_registered { request.flags(Flags::FIXED_FILE) } else { request }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::affinity;
    use std::time::Duration;

    fn zeroes() -> Operation {
        Operation::Read(File::open("/dev/zero").unwrap())
    }

    /// The ring, unless this machine has none.
    fn ring(operation: Operation, batch: u32, taker: Taker) -> Option<RingCalls> {
        match RingCalls::new(operation, batch, taker) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                eprintln!("skipped: {error}");
                None
            }
            ring => Some(ring.unwrap()),
        }
    }

    #[test]
    fn a_batch_is_one_call_and_the_last_may_be_smaller() {
        for taker in [Taker::Caller, Taker::CallerRegistered] {
            for operation in [Operation::Nop, zeroes()] {
                let Some(mut ring) = ring(operation, 8, taker) else {
                    return;
                };
                ring.repeat(20).unwrap();
                assert!(ring.calls() >= 3, "20 = 8 + 8 + 4");
                assert!(ring.ring.completion().next().is_none());
            }
        }
    }

    #[test]
    fn a_poller_takes_requests_without_a_call() {
        let [poller, own, ..] = affinity::allowed().unwrap()[..] else {
            eprintln!("skipped: only one CPU");
            return;
        };
        affinity::pin(&[own]).unwrap();
        let Some(mut ring) = ring(zeroes(), 4, Taker::Poller(poller)) else {
            return;
        };
        ring.repeat(400).unwrap();
        assert!(ring.calls() < 100, "{}", ring.calls());
    }

    #[test]
    fn every_message_is_sent() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let Some(mut ring) = ring(Operation::Send(sender), 4, Taker::Caller) else {
            return;
        };
        ring.repeat(6).unwrap();
        for _ in 0..6 {
            assert_eq!(receiver.recv(&mut [0; 2 * MESSAGE_BYTES]).unwrap(), MESSAGE_BYTES);
        }
    }

    #[test]
    fn what_a_request_did_not_do_is_an_error() {
        let ends = Operation::Read(File::open("/dev/null").unwrap());
        if let Some(mut ring) = ring(ends, 2, Taker::Caller) {
            assert_eq!(ring.repeat(2).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let unreadable = Operation::Read(File::create("/dev/null").unwrap());
        if let Some(mut ring) = ring(unreadable, 2, Taker::Caller) {
            assert_eq!(ring.repeat(2).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
        assert!(RingCalls::new(Operation::Nop, 0, Taker::Caller).is_err());
    }
}
