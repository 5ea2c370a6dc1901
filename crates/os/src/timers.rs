//! Measured: how late the kernel wakes a thread that sleeps.
//!
//! Source: clock_nanosleep(2), PR_SET_TIMERSLACK in prctl(2), SCHED_IDLE in sched(7).

use std::hint::black_box;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::affinity;
use crate::clock::{ClockId, now_ns};

/// Sleeps until `sleep_ns` from now, by clock_nanosleep with an absolute time of `CLOCK_MONOTONIC`,
/// and returns by how many nanoseconds it woke after that.
///
/// # Errors
///
/// What clock_nanosleep(2) says. A signal that interrupts it lets it sleep on.
#[inline]
pub fn sleep_lateness_ns(sleep_ns: u64) -> io::Result<u64> {
    const BILLION: u64 = 1_000_000_000;
    let due_ns = now_ns(ClockId::Monotonic) + sleep_ns;
    let due = libc::timespec {
        tv_sec: (due_ns / BILLION) as libc::time_t,
        tv_nsec: (due_ns % BILLION) as libc::c_long,
    };
    loop {
        // SAFETY: the time is valid to read, and with an absolute one nothing is written.
        let error = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &due,
                ptr::null_mut(),
            )
        };
        match error {
            0 => return Ok(now_ns(ClockId::Monotonic).saturating_sub(due_ns)),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Sets by how many nanoseconds the kernel may let the calling thread's timers be late; `None`
/// gives back what the thread began with. Linux 2.6.28. Threads under real-time policies have none
/// either way.
///
/// # Errors
///
/// What prctl(2) says; since Linux 2.6.28 it has nothing to say.
pub fn set_timer_slack(slack_ns: Option<u32>) -> io::Result<()> {
    const UNUSED: libc::c_ulong = 0;
    // The kernel takes zero as the wish for the first value.
    let slack = libc::c_ulong::from(slack_ns.unwrap_or(0));
    // SAFETY: takes numbers.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, UNUSED, UNUSED, UNUSED) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps a processor from going idle, until it is dropped: a thread runs on it whenever nobody else
/// does.
#[derive(Debug)]
pub struct KeptAwake {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeptAwake {
    /// Starts a thread on `cpu` that computes under `SCHED_IDLE`, so that any other thread gets the
    /// processor from it as soon as it wakes. It makes no system call and does not pause, since a
    /// hypervisor may take either as the wish to be interrupted.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started, or cannot run on that processor; what
    /// sched_setscheduler(2) says.
    pub fn start(cpu: usize) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let seen = Arc::clone(&ended);
        let thread = thread::Builder::new()
            .name("keeps awake".to_owned())
            .spawn(move || {
                let placed = affinity::pin(&[cpu]).and_then(|()| be_idle_class());
                let works = placed.is_ok();
                // The starting thread waits for this.
                let _ = ready.send(placed);
                let mut turns = 0_u64;
                while works && !seen.load(Ordering::Relaxed) {
                    turns = black_box(turns.wrapping_add(1));
                }
            })?;
        let kept = Self {
            ended,
            thread: Some(thread),
        };
        match started.recv() {
            Ok(placed) => placed.map(|()| kept),
            Err(_) => Err(io::Error::other("the thread ended before it began")),
        }
    }
}

impl Drop for KeptAwake {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

fn be_idle_class() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // By its number, since musl's function of this name only fails.
    // SAFETY: the parameters are valid to read.
    let status = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_IDLE,
            &parameters,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::timer_slack_ns;

    #[test]
    fn a_sleep_lasts_until_it_is_due() {
        for sleep_ns in [0, 1_000, 1_000_000] {
            let before = now_ns(ClockId::Monotonic);
            let late_ns = sleep_lateness_ns(sleep_ns).unwrap();
            let slept_ns = now_ns(ClockId::Monotonic) - before;
            assert!(slept_ns >= sleep_ns + late_ns, "{slept_ns} {late_ns}");
        }
    }

    #[test]
    fn the_slack_is_set_and_given_back() {
        let before = timer_slack_ns();
        if before == Some(0) {
            eprintln!("skipped: threads under a real-time policy have no timer slack");
            return;
        }
        set_timer_slack(Some(1)).unwrap();
        assert_eq!(timer_slack_ns(), Some(1));
        set_timer_slack(None).unwrap();
        assert_eq!(timer_slack_ns(), before);
    }

    #[test]
    fn a_processor_is_kept_awake_until_it_is_not() {
        let cpus = affinity::allowed().unwrap();
        for &cpu in &cpus[..cpus.len().min(2)] {
            let kept = KeptAwake::start(cpu).unwrap();
            sleep_lateness_ns(1_000_000).unwrap();
            drop(kept);
        }
        assert!(KeptAwake::start(usize::MAX).is_err());
    }
}
