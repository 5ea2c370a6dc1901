//! Measured: how late the kernel wakes a thread that sleeps.
//!
//! Source: clock_nanosleep(2), PR_SET_TIMERSLACK in prctl(2).

use std::io;
use std::num::NonZeroU64;
use std::ptr;

use crate::cpu::clock::{ClockId, now_ns};

/// Sleeps until `sleep_ns` from now, by clock_nanosleep with an absolute time of `CLOCK_MONOTONIC`,
/// and returns by how many nanoseconds it woke after that.
///
/// # Errors
///
/// The errors of clock_nanosleep(2). A signal that interrupts it does not end the sleep.
#[inline]
pub fn sleep_lateness_ns(sleep_ns: u64) -> io::Result<u64> {
    sleep_until_ns(now_ns(ClockId::Monotonic) + sleep_ns)
}

/// Sleeps until `CLOCK_MONOTONIC` is `due_ns` nanoseconds, and returns by how many nanoseconds it woke after that.
#[inline]
pub fn sleep_until_ns(due_ns: u64) -> io::Result<u64> {
    const BILLION: u64 = 1_000_000_000;
    let due = libc::timespec {
        tv_sec: (due_ns / BILLION).cast_signed(),
        tv_nsec: (due_ns % BILLION) as libc::c_long,
    };
    loop {
        // SAFETY: the time is valid to read, and with an absolute one nothing is written.
        let error = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &due, ptr::null_mut())
        };
        match error {
            0 => return Ok(now_ns(ClockId::Monotonic).saturating_sub(due_ns)),
            libc::EINTR => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Sets by how many nanoseconds the kernel may delay the calling thread's timers; `None` restores the
/// thread's initial value. Linux 2.6.28. Threads under real-time policies have no timer slack.
///
/// # Errors
///
/// The errors of prctl(2), which has none since Linux 2.6.28.
pub fn set_timer_slack(slack_ns: Option<u32>) -> io::Result<()> {
    let slack_ns = slack_ns.and_then(|slack_ns| NonZeroU64::new(slack_ns.into()));
    Ok(rustix::thread::set_current_timer_slack(slack_ns)?)
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
}
