//! Measured: a token that goes back and forth between this thread and a partner, which is another
//! process or another thread.
//!
//! In each round trip the leader sends a token and the partner answers with the next number, so an
//! answer shows that the partner received the token. In a longer message, the last byte carries the
//! token too, which shows that the whole message arrived.
//!
//! A round trip contains one send and one receive on each side (a write and a read; with shared
//! memory a store, and FUTEX_WAKE and FUTEX_WAIT if it blocks), and whatever the kernel does to run
//! the other side.
//!
//! Source: the token works as in lmbench's lat_pipe and lat_unix, and in `perf bench sched pipe`.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

pub use super::channel::{Between, Exchange, MAX_BYTES, Over, Wait};
use super::channel::{Carrier, Carry, Channel, with};
use crate::sched::partner::{Duty, Partner, Status};
use crate::sched::usage::{self, Usage};

/// Even numbers up to this are the leader's tokens; each answer is one more.
const LAST_TOKEN: u8 = 248;
/// Asks the partner to report what it has used.
const TELL_USAGE: u8 = 250;
/// Asks the partner to end.
const END: u8 = 252;

/// The leading end of an exchange that has begun; dropping it ends the partner.
#[derive(Debug)]
pub struct Leader {
    carrier: Carrier,
    token: u8,
    // Dropped before the channel, which the partner uses.
    partner: Partner,
    channel: Channel,
}

/// The partner's end: answers every token with the next number, until it receives [`END`] or the channel
/// breaks.
#[derive(Clone, Copy, Debug)]
struct Answerer(Carrier);

impl Leader {
    /// Sets up the channel and starts the partner.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a size that does not fit; otherwise those of setting up the channel, of forking or
    /// starting a thread, and of pinning it.
    pub fn start(exchange: &Exchange) -> io::Result<Self> {
        let mut channel = Channel::open(exchange)?;
        let (carrier, answering) = (channel.end(exchange, true), channel.end(exchange, false));
        let theirs = std::mem::take(&mut channel.theirs);
        let (duty, status) = (Answerer(answering), channel.status());
        let partner = match exchange.between {
            Between::Processes => {
                let not_its_own: Vec<RawFd> = channel.ours.iter().map(AsRawFd::as_raw_fd).collect();
                // Its descriptors are dropped here and stay open only in the child.
                Partner::process(duty, status, exchange.cpu, &not_its_own)?
            }
            // SAFETY: the leader owns all of it, and ends the partner before it goes.
            Between::Threads => unsafe { Partner::thread(duty, status, exchange.cpu, theirs) }?,
        };
        Ok(Self { carrier, token: 0, partner, channel })
    }

    /// Sends the token to the partner and back `n` times.
    ///
    /// # Errors
    ///
    /// `InvalidData` if an answer does not match the token; through a pipe or a socket `UnexpectedEof`,
    /// `BrokenPipe` or `ConnectionReset` if the partner has ended; otherwise those of the calls. An eventfd
    /// and shared memory do not show that the other end has gone, and checking for it would be part of the
    /// figure: with those, the caller waits until it is itself ended.
    pub fn round_trips(&mut self, n: u64) -> io::Result<()> {
        let Self { carrier, token, .. } = self;
        with!(carrier, round_trips(carrier, token, n))
    }

    /// What this end and the partner have used since they began: context switches and CPU time, which is not divided for the
    /// partner. Takes a round trip.
    pub fn usage(&mut self) -> io::Result<[Usage; 2]> {
        let carrier = &self.carrier;
        with!(carrier, exchange(carrier, TELL_USAGE))?;
        Ok([usage::thread(), self.channel.status().usage()])
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Partner::Thread(_) = self.partner {
            let carrier = &self.carrier;
            // A partner that has already ended needs no message.
            let _ = with!(carrier, carrier.send(END));
        }
    }
}

/// The cost of the token's path alone: a thread sends to itself and receives, so nobody has to be woken or
/// waited for.
#[derive(Debug)]
pub struct Alone {
    carrier: Carrier,
    _channel: Channel,
}

impl Alone {
    /// Sets up a channel of the kind of `exchange` with both ends here.
    pub fn open(exchange: &Exchange) -> io::Result<Self> {
        let mut channel = Channel::open(exchange)?;
        Ok(Self { carrier: channel.loopback(exchange), _channel: channel })
    }

    /// Sends and receives `n` times: the calls of one direction. For a futex: FUTEX_WAKE while nobody waits,
    /// and FUTEX_WAIT for a word that has already changed.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub fn repeat(&mut self, n: u64) -> io::Result<()> {
        let carrier = &self.carrier;
        with!(carrier, alone(carrier, n))
    }
}

impl Duty for Answerer {
    fn serve(&self, status: &Status) {
        let carrier = &self.0;
        // The leader sees that the channel is broken.
        let _ = with!(carrier, answer(carrier, status));
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
            TELL_USAGE => status.publish_usage(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::affinity;
    use std::fs;

    /// One byte, blocking ends, the partner on the first CPU.
    fn exchange(between: Between, over: Over) -> Exchange {
        Exchange { between, over, wait: Wait::Block, size: 1, cpu: affinity::allowed().unwrap()[0] }
    }

    fn every_exchange() -> impl Iterator<Item = Exchange> {
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        let all = [Between::Processes, Between::Threads].into_iter().flat_map(|between| {
            [Over::Pipe, Over::Unix, Over::Eventfd, Over::SharedMemory, Over::Condvar]
                .map(|over| exchange(between, over))
        });
        let all = all.filter(|all| (all.between, all.over) != (Between::Processes, Over::Condvar));
        let all =
            all.flat_map(|all| [Wait::Block, Wait::Spin].map(|wait| Exchange { wait, ..all }));
        all.flat_map(move |all| [1, 64, 4096, MAX_BYTES].map(|size| Exchange { size, cpu, ..all }))
    }

    #[test]
    fn the_token_comes_back_through_everything() {
        for exchange in every_exchange() {
            let mut leader = Leader::start(&exchange).unwrap();
            // More than there are tokens; spinning on a single CPU takes a time slice each.
            let trips = if exchange.wait == Wait::Block { 300 } else { 5 };
            leader.round_trips(trips).unwrap_or_else(|error| panic!("{exchange:?}: {error}"));
            let mut alone = Alone::open(&exchange).unwrap();
            alone.repeat(10).unwrap();
        }
    }

    #[test]
    fn both_ends_tell_what_they_used() {
        for between in [Between::Processes, Between::Threads] {
            // In a thread of its own: other threads of this process are tests too.
            std::thread::spawn(move || {
                let exchange = exchange(between, Over::Pipe);
                affinity::pin(&[exchange.cpu]).unwrap();
                let mut leader = Leader::start(&exchange).unwrap();
                let before = leader.usage().unwrap();
                leader.round_trips(500).unwrap();
                let after = leader.usage().unwrap();
                for used in [0, 1].map(|end| after[end].since(&before[end])) {
                    let switches = used.voluntary_switches + used.involuntary_switches;
                    assert!(switches >= 500 && used.cpu_ns() > 0, "{between:?}: {used:?}");
                }
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_partner_that_was_killed_is_an_error_and_leaves_no_zombie() {
        for over in [Over::Pipe, Over::Unix] {
            let exchange = exchange(Between::Processes, over);
            let mut leader = Leader::start(&exchange).unwrap();
            leader.round_trips(1).unwrap();
            let Partner::Process(child) = &leader.partner else {
                panic!("{exchange:?} is between processes");
            };
            let pid = child.pid();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            // Other tests fork too, and their children hold copies of this channel for a while.
            let error = leader.round_trips(u64::MAX).unwrap_err();
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            let expected = [UnexpectedEof, BrokenPipe, ConnectionReset];
            assert!(expected.contains(&error.kind()), "{error}");
            drop(leader);
            assert!(
                !fs::exists(format!("/proc/{}", pid.as_raw_nonzero())).unwrap(),
                "the partner was reaped"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (size, cpu) in [(0, 0), (MAX_BYTES + 1, 0), (1, 60_000), (1, usize::MAX)] {
            for between in [Between::Processes, Between::Threads] {
                let exchange = exchange(between, Over::Pipe);
                let refused = Leader::start(&Exchange { size, cpu, ..exchange });
                let error = refused.map(drop).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{size} {cpu}");
            }
        }
    }
}
