//! How long the way back from a system call takes: its end cannot be interrupted, so that the kernel's tick comes after it, and
//! counts it as user code. The few instructions of the loop itself are in it.

use super::times::of_ticks;
use costof_model::timing::Estimate;
use costof_os::process::syscalls;
use costof_os::sched::usage::{self, Usage};
use std::thread;
use std::time::{Duration, Instant};

/// Calls between two looks at the clock.
const CALLS: u64 = 1000;

/// Loops of a system call that does next to nothing.
#[derive(Debug, Default)]
pub struct WayBack {
    calls: u64,
    user_ns: u64,
    cpu_ns: u64,
}

impl WayBack {
    /// Makes system calls for so long.
    pub fn look(&mut self, duration: Duration) {
        // A thread of its own has the ticks of nothing else.
        let loops = || {
            let (began, mut calls) = (Instant::now(), 0);
            while began.elapsed() < duration {
                syscalls::getppid(CALLS);
                calls += CALLS;
            }
            (calls, usage::thread())
        };
        if let Ok((calls, used)) = thread::scope(|scope| scope.spawn(loops).join()) {
            self.add(calls, used);
        }
    }

    fn add(&mut self, calls: u64, used: Usage) {
        self.calls += calls;
        self.user_ns += used.user_ns;
        self.cpu_ns += used.cpu_ns();
    }

    /// The part of a call that ticks of `tick_ns` count as user code; `None` before the first look.
    pub fn ns(&self, tick_ns: f64) -> Option<Estimate> {
        let (user, all) = (self.user_ns as f64, self.cpu_ns as f64);
        let each = all / self.calls as f64;
        let (low, high) = of_ticks(user / all, all / tick_ns);
        (all > 0.0).then(|| Estimate { value: user / all, low, high }.times(each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_share_of_the_ticks_that_found_user_code() {
        let mut way_back = WayBack::default();
        assert_eq!(way_back.ns(4e6), None);
        for user_ns in [10_000_000, 40_000_000] {
            let used = Usage { user_ns, system_ns: 100_000_000 - user_ns, ..Usage::default() };
            way_back.add(500_000, used);
        }
        let Estimate { value, low, high } = way_back.ns(4e6).unwrap();
        assert!((value - 50.0).abs() < 1e-9, "a quarter of 200 ns: {value}");
        // 50 ticks, of which 12.5 found it.
        assert!((29.0..31.0).contains(&low) && (76.0..79.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn a_look_makes_calls() {
        let mut way_back = WayBack::default();
        way_back.look(Duration::from_millis(20));
        assert!(way_back.calls >= CALLS && way_back.cpu_ns > 0, "{way_back:?}");
    }
}
