//! How long it takes to wake a thread on another CPU: a thread that spins, and a thread whose CPU
//! is idle.
//!
//! Source: futex(2). The difference is the cost of leaving the idle state: an inter-processor
//! interrupt, and in a virtual machine an exit, after which the host must schedule the CPU again.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::futex;

use crate::cpu::clock::{ClockId, now_ns};
use crate::sched::affinity;

/// Each sample is the time from before the waker's store to the woken thread's own reading of the
/// clock, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The CPU that wakes.
    pub waker_cpu: usize,
    /// The CPU that is woken.
    pub woken_cpu: usize,
    /// The woken thread spins on the word: its CPU is awake.
    pub spinning_ns: Vec<u64>,
    /// The woken thread waits on a futex, and its CPU has had a millisecond to go idle.
    pub idle_ns: Vec<u64>,
}

/// Measures `samples` wake-ups of each kind between the first and the last CPU that the calling thread may
/// run on; `None` if there is only one. Takes about 2 ms a sample, in two threads of its own, so the caller's
/// own CPUs stay the same.
///
/// # Errors
///
/// If a thread cannot be started or pinned.
pub fn wake_up_cost_ns(samples: usize) -> io::Result<Option<WakeUp>> {
    let cpus = affinity::allowed()?;
    let (Some(&waker_cpu), Some(&woken_cpu)) = (cpus.first(), cpus.last()) else {
        return Ok(None);
    };
    if waker_cpu == woken_cpu {
        return Ok(None);
    }
    Ok(Some(WakeUp {
        waker_cpu,
        woken_cpu,
        spinning_ns: rounds(samples, waker_cpu, woken_cpu, spin_until_changed)?,
        idle_ns: rounds(samples, waker_cpu, woken_cpu, sleep_until_changed)?,
    }))
}

#[derive(Default)]
struct Exchange {
    /// The number of the round that the woken thread may start; the word that is waited on.
    round: AtomicU32,
    /// The number of the round that the woken thread has finished.
    done: AtomicU32,
    /// When the woken thread saw the round start, nanoseconds of `CLOCK_MONOTONIC`.
    woken_at: AtomicU64,
}

/// How long the other CPU is left alone before it is woken.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs in threads of its own, so that the caller's CPUs stay the same.
fn rounds(
    samples: usize,
    waker_cpu: usize,
    woken_cpu: usize,
    wait: fn(&AtomicU32, u32),
) -> io::Result<Vec<u64>> {
    let rounds = u32::try_from(samples).unwrap_or(u32::MAX);
    let exchange = Exchange::default();
    let waking = || {
        affinity::pin(&[waker_cpu])?;
        thread::scope(|scope| {
            let woken = || wait_to_be_woken(&exchange, rounds, woken_cpu, wait);
            let woken = thread::Builder::new().spawn_scoped(scope, woken)?;
            let latencies = wake(&exchange, rounds, || woken.is_finished());
            woken.join().expect("the woken thread does not panic")?;
            Ok(latencies)
        })
    };
    thread::scope(|scope| {
        let waker = thread::Builder::new().spawn_scoped(scope, waking)?;
        waker.join().expect("the waking thread does not panic")
    })
}

/// Wakes the other thread once per round, until it ends.
fn wake(exchange: &Exchange, rounds: u32, has_ended: impl Fn() -> bool) -> Vec<u64> {
    let mut latencies = Vec::with_capacity(rounds as usize);
    for round in 1..=rounds {
        let pause_end = now_ns(ClockId::Monotonic) + PAUSE.as_nanos() as u64;
        while now_ns(ClockId::Monotonic) < pause_end {
            spin_loop();
        }
        let called_at = now_ns(ClockId::Monotonic);
        exchange.round.store(round, Ordering::SeqCst);
        wake_waiters(&exchange.round);
        while exchange.done.load(Ordering::SeqCst) != round {
            // After its last round the thread has also ended, with that round done.
            if has_ended() && exchange.done.load(Ordering::SeqCst) != round {
                return latencies;
            }
            spin_loop();
        }
        let woken_at = exchange.woken_at.load(Ordering::SeqCst);
        latencies.push(woken_at.saturating_sub(called_at));
    }
    latencies
}

fn wait_to_be_woken(
    exchange: &Exchange,
    rounds: u32,
    cpu: usize,
    wait: fn(&AtomicU32, u32),
) -> io::Result<()> {
    affinity::pin(&[cpu])?;
    for round in 1..=rounds {
        wait(&exchange.round, round - 1);
        let woken_at = now_ns(ClockId::Monotonic);
        exchange.woken_at.store(woken_at, Ordering::SeqCst);
        exchange.done.store(round, Ordering::SeqCst);
    }
    Ok(())
}

fn spin_until_changed(word: &AtomicU32, old: u32) {
    while word.load(Ordering::SeqCst) == old {
        spin_loop();
    }
}

fn sleep_until_changed(word: &AtomicU32, old: u32) {
    while word.load(Ordering::SeqCst) == old {
        // The thread was woken, the word changed before it slept, or a signal came: only the word decides.
        let _ = futex::wait(word, futex::Flags::PRIVATE, old, None);
    }
}

fn wake_waiters(word: &AtomicU32) {
    let woken = futex::wake(word, futex::Flags::PRIVATE, i32::MAX.cast_unsigned());
    debug_assert!(woken.is_ok(), "a private futex of our own can be woken");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_sampled_where_there_are_two_processors() {
        let cpus = affinity::allowed().unwrap();
        match wake_up_cost_ns(20).unwrap() {
            None => assert_eq!(cpus.len(), 1),
            Some(cost) => {
                assert_ne!(cost.waker_cpu, cost.woken_cpu);
                assert_eq!(cost.spinning_ns.len(), 20);
                assert_eq!(cost.idle_ns.len(), 20);
            }
        }
        assert_eq!(affinity::allowed().unwrap(), cpus);
    }
}
