//! Measured: a token that goes to and fro between this thread and a partner, another process or
//! another thread.
//!
//! Each round trip the leader sends a token and the partner answers with the next number, so that
//! an answer shows that the partner has had the token. Of a longer message the last byte carries
//! the token too, so that all of it has arrived.
//!
//! A round trip contains: on each side one send and one receive (a write and a read; for shared
//! memory a store, and where it blocks FUTEX_WAKE and FUTEX_WAIT), and whatever the kernel does so
//! that the other side runs.
//!
//! Source: pipe(7), unix(7), eventfd(2), futex(2); the way the token goes is that of lmbench's
//! lat_pipe and lat_unix, and of `perf bench sched pipe`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::shared::SharedMemory;
use crate::sched::partner::{Duty, Partner, Status};
use crate::sched::usage;

/// What the token goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// A pipe for each direction.
    Pipe,
    /// A connected pair of Unix stream sockets.
    Unix,
    /// An eventfd for each direction, which carries a 64-bit number.
    Eventfd,
    /// A word in memory that both see, and behind it a longer message's bytes.
    SharedMemory,
}

/// How an end waits for the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// In the kernel, by a call that blocks.
    Block,
    /// By looking again and again: for shared memory a load, without a pause instruction; else a
    /// read that does not block.
    Spin,
}

/// What the two ends are.
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
    /// What they are.
    pub between: Between,
    /// What the token goes through.
    pub over: Over,
    /// How they wait for it.
    pub wait: Wait,
    /// Bytes of the message that is the token, from 1 to [`MOST_BYTES`]; an eventfd has always 8.
    pub size: usize,
    /// The partner's processor.
    pub cpu: usize,
}

/// The longest message: what a pipe holds, so that a write never waits for room.
pub const MOST_BYTES: usize = 65536;

/// Even numbers up to this are the leader's tokens; each answer is one more.
const LAST_TOKEN: u8 = 248;
/// Asks the partner to tell its context switches.
const TELL: u8 = 250;
/// Asks the partner to end.
const END: u8 = 252;

/// Where things are in the memory that both ends see: the partner's status, the word on a line of
/// its own, the message.
const WORD_AT: usize = 64;
const MESSAGE_AT: usize = 128;

/// The leading end of an exchange that has begun; dropping it ends the partner.
#[derive(Debug)]
pub struct Leader {
    carrier: Carrier,
    token: u8,
    // Dropped in this order: the partner uses what comes after it.
    partner: Partner,
    _descriptors: Vec<OwnedFd>,
    _messages: [Vec<u8>; 2],
    memory: SharedMemory,
}

// SAFETY: the carrier's pointers lead into memory that the leader owns.
unsafe impl Send for Leader {}

/// The partner's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerer(Carrier);

impl Leader {
    /// Sets up the channel and starts the partner.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a size that does not fit; else what setting up the channel, forking or
    /// starting a thread, and pinning it say.
    pub fn start(exchange: &Exchange) -> io::Result<Self> {
        let Exchange {
            over, wait, size, ..
        } = *exchange;
        if size == 0 || size > MOST_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message has 1 to {MOST_BYTES} bytes, not {size}"),
            ));
        }
        let memory = SharedMemory::map(MESSAGE_AT + MOST_BYTES)?;
        let mut messages = [vec![0; size], vec![0; size]];
        let Ends { ours, theirs } = ends(over)?;
        if wait == Wait::Spin {
            for descriptor in ours.iter().chain(&theirs) {
                rustix::io::ioctl_fionbio(descriptor, true)?;
            }
        }
        let mut carrier = |descriptors: &[OwnedFd], end: usize| match over {
            Over::Pipe | Over::Unix => Carrier::Bytes(Bytes {
                descriptors: read_and_write(descriptors),
                message: messages[end].as_mut_ptr(),
                size,
            }),
            Over::Eventfd => Carrier::Counter(Counter {
                descriptors: read_and_write(descriptors),
            }),
            Over::SharedMemory => Carrier::Word(Word {
                // SAFETY: both lie inside the mapping.
                word: unsafe { memory.as_ptr().add(WORD_AT).cast() },
                // SAFETY: as above.
                shared: unsafe { memory.as_ptr().add(MESSAGE_AT) },
                message: messages[end].as_mut_ptr(),
                size,
                wait,
                private: exchange.between == Between::Threads,
            }),
        };
        let (leading, answering) = (carrier(&ours, 0), carrier(&theirs, 1));
        let duty = Duty::Answer(Answerer(answering));
        let status = status(&memory);
        let partner = match exchange.between {
            Between::Processes => {
                let not_its_own: Vec<RawFd> = ours.iter().map(AsRawFd::as_raw_fd).collect();
                // Its descriptors stay open in the child alone.
                Partner::process(duty, status, exchange.cpu, &not_its_own)?
            }
            // SAFETY: the leader owns all of it, and ends the partner before it goes.
            Between::Threads => unsafe { Partner::thread(duty, status, exchange.cpu, theirs) }?,
        };
        Ok(Self {
            carrier: leading,
            token: 0,
            partner,
            _descriptors: ours,
            _messages: messages,
            memory,
        })
    }

    /// Lets the token go to the partner and back `n` times.
    ///
    /// # Errors
    ///
    /// `InvalidData` where an answer is not the one to the token; through a pipe or a socket
    /// `UnexpectedEof`, `BrokenPipe` or `ConnectionReset` where the partner has ended; else what a
    /// call says. An eventfd and shared memory do not tell that nobody is left at the other end,
    /// and looking for it would be in the figure: there the caller waits until it is ended itself.
    pub fn round_trips(&mut self, n: u64) -> io::Result<()> {
        // Chosen once, so that the loop is made for its carrier.
        match &self.carrier {
            Carrier::Bytes(carrier) => round_trips(carrier, &mut self.token, n),
            Carrier::Counter(carrier) => round_trips(carrier, &mut self.token, n),
            Carrier::Word(carrier) => round_trips(carrier, &mut self.token, n),
        }
    }

    /// Context switches of both ends since they began: because they waited, and because something
    /// else got the processor. Takes a round trip.
    ///
    /// # Errors
    ///
    /// Those of [`Leader::round_trips`].
    pub fn switches(&mut self) -> io::Result<(u64, u64)> {
        match &self.carrier {
            Carrier::Bytes(carrier) => exchange(carrier, TELL),
            Carrier::Counter(carrier) => exchange(carrier, TELL),
            Carrier::Word(carrier) => exchange(carrier, TELL),
        }?;
        let own = usage::thread();
        let (voluntary, involuntary) = status(&self.memory).switches();
        Ok((
            voluntary + own.voluntary_switches,
            involuntary + own.involuntary_switches,
        ))
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Partner::Thread(_) = self.partner {
            // A partner that has ended already needs no word.
            let _ = match &self.carrier {
                Carrier::Bytes(carrier) => carrier.send(END),
                Carrier::Counter(carrier) => carrier.send(END),
                Carrier::Word(carrier) => carrier.send(END),
            };
        }
    }
}

fn status(memory: &SharedMemory) -> &Status {
    // SAFETY: the mapping begins with a status, for which zeroes are valid and which is changed
    // through its atomics only.
    unsafe { &*memory.as_ptr().cast() }
}

/// What a token's way costs by itself: a thread that sends to itself and receives, so that nobody
/// has to be woken or waited for.
#[derive(Debug)]
pub struct Alone {
    carrier: Carrier,
    _descriptors: Vec<OwnedFd>,
    _message: Vec<u8>,
    _memory: SharedMemory,
}

impl Alone {
    /// Sets up a channel of the kind of `exchange` with both ends here.
    ///
    /// # Errors
    ///
    /// Those of [`Leader::start`], as far as the channel goes.
    pub fn open(exchange: &Exchange) -> io::Result<Self> {
        let mut message = vec![0; exchange.size];
        let memory = SharedMemory::map(MESSAGE_AT + MOST_BYTES)?;
        let Ends { ours, theirs } = ends(exchange.over)?;
        // What we write comes out where they read.
        let descriptors = match (ours.last(), theirs.first()) {
            (Some(write_to), Some(read_from)) => [read_from.as_raw_fd(), write_to.as_raw_fd()],
            _ => [-1, -1],
        };
        let carrier = match exchange.over {
            Over::Pipe | Over::Unix => Carrier::Bytes(Bytes {
                descriptors,
                message: message.as_mut_ptr(),
                size: exchange.size,
            }),
            Over::Eventfd => Carrier::Counter(Counter { descriptors }),
            Over::SharedMemory => Carrier::Word(Word {
                // SAFETY: both lie inside the mapping.
                word: unsafe { memory.as_ptr().add(WORD_AT).cast() },
                // SAFETY: as above.
                shared: unsafe { memory.as_ptr().add(MESSAGE_AT) },
                message: message.as_mut_ptr(),
                size: exchange.size,
                wait: exchange.wait,
                private: exchange.between == Between::Threads,
            }),
        };
        let mut descriptors = ours;
        descriptors.extend(theirs);
        Ok(Self {
            carrier,
            _descriptors: descriptors,
            _message: message,
            _memory: memory,
        })
    }

    /// Sends and receives `n` times: the calls of one direction. For a futex, FUTEX_WAKE where
    /// nobody waits, and FUTEX_WAIT for a word that has changed already.
    ///
    /// # Errors
    ///
    /// What a call says.
    pub fn repeat(&mut self, n: u64) -> io::Result<()> {
        match &self.carrier {
            Carrier::Bytes(carrier) => alone(carrier, n),
            Carrier::Counter(carrier) => alone(carrier, n),
            Carrier::Word(carrier) => alone(carrier, n),
        }
    }
}

impl Answerer {
    /// Answers every token with the next number, until told to end or the channel breaks.
    pub(crate) fn answer(&self, status: &Status) {
        // Whoever leads sees that the channel is broken.
        let _ = match &self.0 {
            Carrier::Bytes(carrier) => answer(carrier, status),
            Carrier::Counter(carrier) => answer(carrier, status),
            Carrier::Word(carrier) => answer(carrier, status),
        };
    }
}

fn round_trips(carrier: &impl Carry, token: &mut u8, n: u64) -> io::Result<()> {
    for _ in 0..n {
        *token = if *token < LAST_TOKEN { *token + 2 } else { 2 };
        exchange(carrier, *token)?;
    }
    Ok(())
}

#[inline(always)]
fn exchange(carrier: &impl Carry, token: u8) -> io::Result<()> {
    carrier.send(token)?;
    if carrier.receive(token)? == token + 1 {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn answer(carrier: &impl Carry, status: &Status) -> io::Result<()> {
    let mut answered = 0;
    loop {
        let token = carrier.receive(answered)?;
        match token {
            END => return Ok(()),
            TELL => status.tell_switches(),
            _ => {}
        }
        answered = token.wrapping_add(1);
        carrier.send(answered)?;
    }
}

fn alone(carrier: &impl Carry, n: u64) -> io::Result<()> {
    for _ in 0..n {
        carrier.send(2)?;
        carrier.receive_at_once(2)?;
    }
    Ok(())
}

/// What both ends need of a channel.
struct Ends {
    /// To read from and to write to, where the two are not one.
    ours: Vec<OwnedFd>,
    theirs: Vec<OwnedFd>,
}

fn ends(over: Over) -> io::Result<Ends> {
    let (ours, theirs) = match over {
        Over::Pipe => {
            let (our_read, their_write) = io::pipe()?;
            let (their_read, our_write) = io::pipe()?;
            (
                vec![our_read.into(), our_write.into()],
                vec![their_read.into(), their_write.into()],
            )
        }
        Over::Unix => {
            let (ours, theirs) = UnixStream::pair()?;
            (vec![ours.into()], vec![theirs.into()])
        }
        Over::Eventfd => {
            let (back, forth) = (eventfd()?, eventfd()?);
            let (also_back, also_forth) = (back.try_clone()?, forth.try_clone()?);
            (vec![back, forth], vec![also_forth, also_back])
        }
        Over::SharedMemory => (Vec::new(), Vec::new()),
    };
    Ok(Ends { ours, theirs })
}

fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor was just made, and nobody else has it.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// A socket is read from and written to alike.
fn read_and_write(descriptors: &[OwnedFd]) -> [RawFd; 2] {
    match descriptors {
        [both] => [both.as_raw_fd(); 2],
        [read_from, write_to] => [read_from.as_raw_fd(), write_to.as_raw_fd()],
        _ => [-1, -1],
    }
}

/// One end of a channel.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    Bytes(Bytes),
    Counter(Counter),
    Word(Word),
}

trait Carry {
    fn send(&self, token: u8) -> io::Result<()>;

    /// Waits for the token; `sent` is what this end sent last.
    fn receive(&self, sent: u8) -> io::Result<u8>;

    /// Makes the calls of [`Carry::receive`] where the token `sent` is there already.
    fn receive_at_once(&self, sent: u8) -> io::Result<u8> {
        self.receive(sent)
    }
}

/// A pipe or a socket.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    /// To read from, and to write to.
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
        }
        write_all(self.descriptors[1], self.message, self.size)
    }

    #[inline(always)]
    fn receive(&self, _: u8) -> io::Result<u8> {
        read_all(self.descriptors[0], self.message, self.size)?;
        // SAFETY: as in `send`.
        let (first, last) =
            unsafe { (self.message.read(), self.message.add(self.size - 1).read()) };
        arrived(first, last)
    }
}

/// An eventfd: what is written is added to its number, and reading fetches and clears it.
#[derive(Clone, Copy, Debug)]
struct Counter {
    descriptors: [RawFd; 2],
}

impl Carry for Counter {
    #[inline(always)]
    fn send(&self, token: u8) -> io::Result<()> {
        let mut number = u64::from(token);
        write_all(self.descriptors[1], (&raw mut number).cast(), 8)
    }

    #[inline(always)]
    fn receive(&self, _: u8) -> io::Result<u8> {
        let mut number = 0_u64;
        read_all(self.descriptors[0], (&raw mut number).cast(), 8)?;
        u8::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

/// A word in memory that both ends see. Each end waits until it is no longer what it stored.
#[derive(Clone, Copy, Debug)]
struct Word {
    word: *const AtomicU32,
    /// Where a message of more than one byte passes through.
    shared: *mut u8,
    /// This end's own copy of it.
    message: *mut u8,
    size: usize,
    wait: Wait,
    /// Both ends are of one process, which the kernel finds faster.
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
        let private = if self.private {
            libc::FUTEX_PRIVATE_FLAG
        } else {
            0
        };
        let no_timeout = ptr::null::<libc::timespec>();
        // SAFETY: the word is valid and aligned; both operations take a value and, to wait, a
        // time-out, which there is not.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word,
                operation | private,
                value,
                no_timeout,
            )
        };
        // Woken, changed before it slept, or interrupted: the word decides.
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

#[inline(always)]
fn arrived(first: u8, last: u8) -> io::Result<u8> {
    if first == last {
        Ok(first)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Writes all of it, however often it is interrupted or finds no room.
#[inline(always)]
pub(crate) fn write_all(descriptor: RawFd, bytes: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's bytes are `len` readable ones.
        match unsafe { libc::write(descriptor, bytes.add(done).cast(), len - done) } {
            -1 => again(&io::Error::last_os_error())?,
            written => done += written.unsigned_abs(),
        }
    }
    Ok(())
}

/// Reads all of it; looks again and again where reading does not block.
#[inline(always)]
fn read_all(descriptor: RawFd, bytes: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's bytes are `len` writable ones.
        match unsafe { libc::read(descriptor, bytes.add(done).cast(), len - done) } {
            -1 => again(&io::Error::last_os_error())?,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read.unsigned_abs(),
        }
    }
    Ok(())
}

/// Whether a call is to be made again after this.
#[inline(always)]
pub(crate) fn again(error: &io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::EINTR | libc::EAGAIN) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::affinity;
    use std::fs;

    fn every_exchange() -> Vec<Exchange> {
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        let mut all = Vec::new();
        for between in [Between::Processes, Between::Threads] {
            for over in [Over::Pipe, Over::Unix, Over::Eventfd, Over::SharedMemory] {
                for wait in [Wait::Block, Wait::Spin] {
                    for size in [1, 64, 4096, MOST_BYTES] {
                        all.push(Exchange {
                            between,
                            over,
                            wait,
                            size,
                            cpu,
                        });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn the_token_comes_back_through_everything() {
        for exchange in every_exchange() {
            let mut leader = Leader::start(&exchange).unwrap();
            // More than there are tokens; spinning on one processor takes a time slice each.
            let trips = if exchange.wait == Wait::Block { 300 } else { 5 };
            leader
                .round_trips(trips)
                .unwrap_or_else(|error| panic!("{exchange:?}: {error}"));
            let mut alone = Alone::open(&exchange).unwrap();
            alone.repeat(10).unwrap();
        }
    }

    #[test]
    fn both_ends_tell_their_context_switches() {
        let cpu = affinity::allowed().unwrap()[0];
        for between in [Between::Processes, Between::Threads] {
            // A thread of its own, since others of this process are tests too.
            std::thread::spawn(move || {
                affinity::pin(&[cpu]).unwrap();
                let mut leader = Leader::start(&Exchange {
                    between,
                    over: Over::Pipe,
                    wait: Wait::Block,
                    size: 1,
                    cpu,
                })
                .unwrap();
                let (voluntary, involuntary) = leader.switches().unwrap();
                leader.round_trips(500).unwrap();
                let after = leader.switches().unwrap();
                let switches = after.0 + after.1 - voluntary - involuntary;
                assert!(switches >= 1000, "{between:?}: {switches}");
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_partner_that_was_killed_is_an_error_and_leaves_no_zombie() {
        for over in [Over::Pipe, Over::Unix] {
            let exchange = Exchange {
                between: Between::Processes,
                over,
                wait: Wait::Block,
                size: 1,
                cpu: affinity::allowed().unwrap()[0],
            };
            let mut leader = Leader::start(&exchange).unwrap();
            leader.round_trips(1).unwrap();
            let Partner::Process(pid) = leader.partner else {
                panic!("{exchange:?} is between processes");
            };
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            // Other tests fork too, and their children hold copies of this channel for a while.
            let error = leader.round_trips(u64::MAX).unwrap_err();
            assert!(
                [
                    io::ErrorKind::UnexpectedEof,
                    io::ErrorKind::BrokenPipe,
                    io::ErrorKind::ConnectionReset
                ]
                .contains(&error.kind()),
                "{error}"
            );
            drop(leader);
            assert!(
                !fs::exists(format!("/proc/{}", pid.as_raw_nonzero())).unwrap(),
                "it was waited for"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (size, cpu) in [(0, 0), (MOST_BYTES + 1, 0), (1, 60_000), (1, usize::MAX)] {
            for between in [Between::Processes, Between::Threads] {
                let refused = Leader::start(&Exchange {
                    between,
                    over: Over::Pipe,
                    wait: Wait::Block,
                    size,
                    cpu,
                });
                assert_eq!(
                    refused.map(drop).unwrap_err().kind(),
                    io::ErrorKind::InvalidInput,
                    "{size} {cpu}"
                );
            }
        }
    }
}
