//! The channels for tokens and bytes between two ends on one machine, and how each end sends and
//! receives.
//!
//! Source: pipe(7), unix(7), eventfd(2), futex(2), `std::sync::Condvar`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::memory::shared::SharedMemory;
use crate::sched::partner::Status;
use crate::system_call::invalid;
use rustix::event::EventfdFlags;

/// What the token goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// A pipe for each direction.
    Pipe,
    /// A connected pair of Unix stream sockets.
    Unix,
    /// An eventfd for each direction, which carries a 64-bit number.
    Eventfd,
    /// A word in shared memory, followed by the bytes of a longer message.
    SharedMemory,
    /// A byte behind a mutex, and a condition variable, both of the standard library; between threads alone.
    Condvar,
}

/// How an end waits for the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// In the kernel, by a call that blocks.
    Block,
    /// By polling: for shared memory a load without a pause instruction, otherwise a non-blocking read.
    Spin,
}

/// The kind of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Between {
    /// Two processes, the second a fork of the first.
    Processes,
    /// Two threads of one process.
    Threads,
}

/// Both ends, and how they exchange the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// The kind of the ends.
    pub between: Between,
    /// What the token goes through.
    pub over: Over,
    /// How they wait for it.
    pub wait: Wait,
    /// Bytes of the message that carries the token, from 1 to [`MAX_BYTES`]; an eventfd always has 8.
    pub size: usize,
    /// The partner's CPU.
    pub cpu: usize,
}

/// The longest message: what a pipe holds, so that a write never waits for room.
pub const MAX_BYTES: usize = 65536;

/// Offsets in the shared memory: the partner's status, the word in a cache line of its own, the
/// message.
const WORD_AT: usize = 64;
const MESSAGE_AT: usize = 128;

/// The descriptors of both ends, a message buffer for each, and the memory that both share.
#[derive(Debug)]
pub(crate) struct Channel {
    /// The descriptors to read from and to write to; a single one if it serves both.
    pub(crate) ours: Vec<OwnedFd>,
    pub(crate) theirs: Vec<OwnedFd>,
    messages: [Vec<u8>; 2],
    memory: SharedMemory,
    monitor: Arc<Monitor>,
}

impl Channel {
    /// Opens a channel for such an exchange.
    pub(crate) fn open(exchange: &Exchange) -> io::Result<Self> {
        let size = exchange.size;
        if size == 0 || size > MAX_BYTES {
            return Err(invalid(format!("a message has 1 to {MAX_BYTES} bytes, not {size}")));
        }
        if exchange.over == Over::Condvar && exchange.between == Between::Processes {
            return Err(invalid("a condition variable of the standard library is between threads"));
        }
        // A write to an eventfd adds to its number, which is zero at that time, and a read returns and clears
        // it: so eight bytes come out as they went in.
        let size = if exchange.over == Over::Eventfd { size_of::<u64>() } else { size };
        let (ours, theirs) = descriptors(exchange.over)?;
        if exchange.wait == Wait::Spin {
            for descriptor in ours.iter().chain(&theirs) {
                rustix::io::ioctl_fionbio(descriptor, true)?;
            }
        }
        Ok(Self {
            ours,
            theirs,
            messages: [vec![0; size], vec![0; size]],
            memory: SharedMemory::map(MESSAGE_AT + MAX_BYTES)?,
            monitor: Arc::default(),
        })
    }

    /// The leader's end, or that of its partner.
    pub(crate) fn end(&mut self, exchange: &Exchange, leads: bool) -> Carrier {
        let descriptors = match if leads { &self.ours[..] } else { &self.theirs } {
            [both] => [both.as_raw_fd(); 2],
            [read_from, write_to] => [read_from.as_raw_fd(), write_to.as_raw_fd()],
            _ => NONE,
        };
        self.carrier(exchange, descriptors, usize::from(!leads))
    }

    pub(crate) fn loopback(&mut self, exchange: &Exchange) -> Carrier {
        // What one side writes, the other reads.
        let descriptors = match (self.theirs.first(), self.ours.last()) {
            (Some(read_from), Some(write_to)) => [read_from.as_raw_fd(), write_to.as_raw_fd()],
            _ => NONE,
        };
        self.carrier(exchange, descriptors, 0)
    }

    fn carrier(&mut self, exchange: &Exchange, descriptors: [RawFd; 2], end: usize) -> Carrier {
        let message = &mut self.messages[end];
        let (message, size) = (message.as_mut_ptr(), message.len());
        match exchange.over {
            Over::Pipe | Over::Unix | Over::Eventfd => {
                Carrier::Bytes(Bytes { descriptors, message, size })
            }
            Over::SharedMemory => Carrier::Word(Word {
                // SAFETY: it lies inside the mapping.
                word: unsafe { self.memory.as_ptr().add(WORD_AT).cast() },
                // SAFETY: as above.
                shared: unsafe { self.memory.as_ptr().add(MESSAGE_AT) },
                message,
                size,
                wait: exchange.wait,
                private: exchange.between == Between::Threads,
            }),
            Over::Condvar => Carrier::Monitor(Arc::as_ptr(&self.monitor)),
        }
    }

    pub(crate) fn status(&self) -> &Status {
        // SAFETY: the mapping begins with a status, for which zeroes are valid and which is changed
        // through its atomics only.
        unsafe { &*self.memory.as_ptr().cast() }
    }
}

/// Stands for missing descriptors.
const NONE: [RawFd; 2] = [-1, -1];

/// The two ends' descriptors.
fn descriptors(over: Over) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    Ok(match over {
        Over::Pipe => {
            let (our_read, their_write) = io::pipe()?;
            let (their_read, our_write) = io::pipe()?;
            (vec![our_read.into(), our_write.into()], vec![their_read.into(), their_write.into()])
        }
        Over::Unix => {
            let (ours, theirs) = UnixStream::pair()?;
            (vec![ours.into()], vec![theirs.into()])
        }
        Over::Eventfd => {
            let eventfd = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
            let (back, forth) = (eventfd()?, eventfd()?);
            let theirs = vec![forth.try_clone()?, back.try_clone()?];
            (vec![back, forth], theirs)
        }
        Over::SharedMemory | Over::Condvar => (Vec::new(), Vec::new()),
    })
}

/// One end of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carrier {
    Bytes(Bytes),
    Word(Word),
    Monitor(*const Monitor),
}

// SAFETY: its pointers lead into a channel, which outlives it.
unsafe impl Send for Carrier {}

/// Runs an expression with a carrier's own type, so that a loop is compiled for each.
macro_rules! with {
    ($carrier:ident, $expression:expr) => {
        match $carrier {
            $crate::ipc::channel::Carrier::Bytes($carrier) => $expression,
            $crate::ipc::channel::Carrier::Word($carrier) => $expression,
            $crate::ipc::channel::Carrier::Monitor($carrier) => $expression,
        }
    };
}
pub(crate) use with;

/// Sends and receives a token.
pub(crate) trait Carry {
    fn send(&self, token: u8) -> io::Result<()>;

    /// Waits for the token; `sent` is what this end sent last.
    fn receive(&self, sent: u8) -> io::Result<u8>;

    /// Makes the calls of [`Carry::receive`] if the token `sent` has already arrived.
    fn receive_at_once(&self, sent: u8) -> io::Result<u8> {
        self.receive(sent)
    }
}

/// A pipe, a socket or an eventfd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    /// The descriptors to read from and to write to.
    descriptors: [RawFd; 2],
    /// `size` bytes of this end's own.
    message: *mut u8,
    size: usize,
}

impl Carry for Bytes {
    #[inline(always)]
    fn send(&self, token: u8) -> io::Result<()> {
        // SAFETY: the message has `size` bytes, at least one, and only this end uses it.
        unsafe {
            self.message.write(token);
            self.message.add(self.size - 1).write(token);
            write_all(self.descriptors[1], self.message, self.size)
        }
    }

    #[inline(always)]
    fn receive(&self, _: u8) -> io::Result<u8> {
        // SAFETY: as in `send`.
        unsafe {
            read_all(self.descriptors[0], self.message, self.size)?;
            arrived(self.message.read(), self.message.add(self.size - 1).read())
        }
    }
}

/// A word in memory that both ends see. Each end waits until it is no longer what it stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    word: *const AtomicU32,
    /// The memory through which a message of more than one byte passes.
    shared: *mut u8,
    /// This end's own copy of it.
    message: *mut u8,
    size: usize,
    wait: Wait,
    /// Whether both ends belong to one process, which makes the futex faster.
    private: bool,
}

impl Word {
    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, which outlives both ends.
        unsafe { &*self.word }
    }

    #[inline(always)]
    fn futex(&self, operation: libc::c_int, value: u32) {
        let private = if self.private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
        let no_timeout = ptr::null::<libc::timespec>();
        // SAFETY: the word is valid and aligned; both operations take a value and, to wait, a
        // time-out, which there is not.
        unsafe {
            libc::syscall(libc::SYS_futex, self.word, operation | private, value, no_timeout)
        };
        // The thread was woken, the word changed before it slept, or a signal came: only the word decides.
    }
}

impl Carry for Word {
    #[inline(always)]
    fn send(&self, token: u8) -> io::Result<()> {
        if self.size > 1 {
            // SAFETY: both have `size` bytes; the other end does not touch the shared ones before
            // it has seen the word change.
            unsafe {
                self.message.write(token);
                self.message.add(self.size - 1).write(token);
                ptr::copy_nonoverlapping(self.message, self.shared, self.size);
            }
        }
        self.word().store(token.into(), Ordering::Release);
        if self.wait == Wait::Block {
            self.futex(libc::FUTEX_WAKE, 1);
        }
        Ok(())
    }

    #[inline(always)]
    fn receive(&self, sent: u8) -> io::Result<u8> {
        let sent = u32::from(sent);
        let token = loop {
            let token = self.word().load(Ordering::Acquire);
            if token != sent {
                break token as u8;
            }
            if self.wait == Wait::Block {
                self.futex(libc::FUTEX_WAIT, sent);
            }
        };
        if self.size == 1 {
            return Ok(token);
        }
        // SAFETY: as in `send`; the other end does not touch the shared bytes again before it has
        // had the next token.
        let last = unsafe {
            ptr::copy_nonoverlapping(self.shared, self.message, self.size);
            self.message.add(self.size - 1).read()
        };
        arrived(token, last)
    }

    #[inline(always)]
    fn receive_at_once(&self, sent: u8) -> io::Result<u8> {
        if self.wait == Wait::Block {
            self.futex(libc::FUTEX_WAIT, u32::from(sent) + 1);
        }
        self.receive(sent.wrapping_add(1))
    }
}

/// A token behind a lock. Each end waits until it is no longer what it stored.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    token: Mutex<u8>,
    changed: Condvar,
}

impl Carry for *const Monitor {
    #[inline(always)]
    fn send(&self, token: u8) -> io::Result<()> {
        // SAFETY: it lies in the channel, which outlives both ends.
        let monitor = unsafe { &**self };
        *monitor.token.lock().map_err(|_| io::ErrorKind::Other)? = token;
        monitor.changed.notify_one();
        Ok(())
    }

    #[inline(always)]
    fn receive(&self, sent: u8) -> io::Result<u8> {
        // SAFETY: as in `send`.
        let monitor = unsafe { &**self };
        let token = monitor.token.lock().map_err(|_| io::ErrorKind::Other)?;
        let changed = monitor.changed.wait_while(token, |token| *token == sent);
        Ok(*changed.map_err(|_| io::ErrorKind::Other)?)
    }

    fn receive_at_once(&self, sent: u8) -> io::Result<u8> {
        self.receive(sent.wrapping_add(1))
    }
}

#[inline(always)]
fn arrived(first: u8, last: u8) -> io::Result<u8> {
    if first == last { Ok(first) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Writes everything, even if it is interrupted or finds no room at first.
///
/// # Safety
///
/// `bytes` are `len` readable ones.
#[inline(always)]
pub(crate) unsafe fn write_all(descriptor: RawFd, bytes: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: as the caller promises.
        match unsafe { libc::write(descriptor, bytes.add(done).cast(), len - done) } {
            -1 => again(&io::Error::last_os_error())?,
            written => done += written.unsigned_abs(),
        }
    }
    Ok(())
}

/// Reads everything; polls if reading does not block.
///
/// # Safety
///
/// `bytes` are `len` writable ones, which nobody else uses.
#[inline(always)]
unsafe fn read_all(descriptor: RawFd, bytes: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: as the caller promises.
        match unsafe { libc::read(descriptor, bytes.add(done).cast(), len - done) } {
            -1 => again(&io::Error::last_os_error())?,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read.unsigned_abs(),
        }
    }
    Ok(())
}

/// Whether to repeat a call after this error.
#[inline(always)]
pub(crate) fn again(error: &io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Ok(()),
    }
}
