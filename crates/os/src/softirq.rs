//! Time that processors spent in soft interrupts, where the kernel receives packets and finishes
//! what was sent.
//!
//! Source: proc_stat(5), Documentation/filesystems/proc.rst, `CONFIG_IRQ_TIME_ACCOUNTING`.

use std::fs;
use std::io;

/// What /proc/stat counts in, on every architecture: hundredths of a second.
///
/// Without `CONFIG_IRQ_TIME_ACCOUNTING` the kernel looks once a timer tick, of 1 to 10 ms, what a
/// processor does, and counts all of the tick as that. So a difference over n processors may be
/// off by this, n times, and by as much again where the ticks were unlucky.
pub const TICK_NS: u64 = 10_000_000;

/// Nanoseconds that these processors, or all where none are named, have spent in soft interrupts
/// since boot. A thread's processor time holds those that interrupted it, unless the kernel
/// accounts interrupts apart. Allocates.
///
/// # Errors
///
/// When /proc/stat cannot be read or does not have one of them.
pub fn spent_ns(cpus: &[usize]) -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    ticks(&stat, cpus)
        .map(|ticks| ticks * TICK_NS)
        .ok_or_else(|| io::Error::other("/proc/stat does not tell soft interrupts"))
}

/// The seventh number of each processor's line: user, nice, system, idle, iowait, irq, softirq.
fn ticks(stat: &str, cpus: &[usize]) -> Option<u64> {
    let of = |name: &str| {
        let line = stat.lines().find_map(|line| {
            let (first, rest) = line.split_once(' ')?;
            (first == name).then_some(rest)
        })?;
        line.split_whitespace().nth(6)?.parse::<u64>().ok()
    };
    match cpus {
        [] => of("cpu"),
        cpus => cpus.iter().map(|cpu| of(&format!("cpu{cpu}"))).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_interrupts_are_summed_over_the_processors() {
        let stat = "cpu  1 2 3 4 5 6 70 8\ncpu1 1 2 3 4 5 6 20 8\ncpu10 1 2 3 4 5 6 50 8\nintr 1\n";
        assert_eq!(ticks(stat, &[]), Some(70));
        assert_eq!(ticks(stat, &[1]), Some(20));
        assert_eq!(ticks(stat, &[1, 10]), Some(70));
        assert_eq!(ticks(stat, &[0]), None);
        assert_eq!(ticks("cpu  1 2 3\n", &[]), None);
        assert!(spent_ns(&[]).is_ok());
    }
}
