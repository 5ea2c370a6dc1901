//! How each CPU spent its time according to the kernel, in ticks of the clock.
//!
//! Source: proc_stat(5), Documentation/filesystems/proc.rst, `CONFIG_IRQ_TIME_ACCOUNTING`.

use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use std::fs::File;
use std::io::Read;

/// The unit of `/proc/stat` on every architecture: a hundredth of a second, in nanoseconds.
///
/// Without `CONFIG_IRQ_TIME_ACCOUNTING` the kernel samples what a CPU does once a timer tick, of 1
/// to 10 ms, and counts the whole tick as that. So a difference over n CPUs may be off by n times
/// this, or by twice as much if the ticks were unlucky.
pub const TICK_NS: f64 = 1e7;

/// More than a CPU's count can be: some ten million years.
const TICKS_MAX: u64 = 1 << 55;

/// One CPU's line, in ticks since boot or between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks {
    /// Its number.
    pub cpu: usize,
    /// In user mode, in the kernel, in interrupts.
    pub busy: u64,
    /// The part of `busy` in soft interrupts, in which the kernel receives packets and finishes
    /// sending. A thread's CPU time includes those that interrupted it, unless the kernel accounts
    /// for interrupts separately.
    pub softirq: u64,
    /// The hypervisor ran something else.
    pub steal: u64,
    /// The sum of all ticks, idle ones included.
    pub total: u64,
}

/// Reads the ticks of all CPUs. Allocates.
///
/// # Errors
/// Why nobody knows them: the file is hidden, replaced by another, or empty of times, as in some sandboxes. A file that
/// a container's manager makes up counts only what the container itself does.
pub fn read() -> Result<Vec<Ticks>, String> {
    let mut text = String::new();
    let read = File::open("/proc/stat").and_then(|mut file| {
        file.read_to_string(&mut text)?;
        Ok(fstatfs(&file)?.f_type)
    });
    match read {
        Err(error) => Err(format!("/proc/stat: {error}")),
        Ok(kind) if kind != PROC_SUPER_MAGIC => {
            Err("/proc/stat is not the kernel's own".to_owned())
        }
        Ok(_) => counted(parse(&text)),
    }
}

fn counted(all: Vec<Ticks>) -> Result<Vec<Ticks>, String> {
    if all.iter().all(|ticks| ticks.total == 0) {
        return Err("/proc/stat has no times".to_owned());
    }
    Ok(all)
}

/// Reads the sum over all CPUs from the text of `/proc/stat`; reported as CPU 0.
pub(crate) fn sum(text: &str) -> Option<Ticks> {
    let mut lines = text.lines();
    lines.find_map(|line| ticks(0, line.strip_prefix("cpu ")?))
}

fn parse(text: &str) -> Vec<Ticks> {
    let line = |line: &str| {
        // The first line, `cpu  …`, is the sum of all CPUs.
        let (cpu, columns) = line.strip_prefix("cpu")?.split_once(' ')?;
        ticks(cpu.parse().ok()?, columns)
    };
    text.lines().filter_map(line).collect()
}

fn ticks(cpu: usize, columns: &str) -> Option<Ticks> {
    let columns: Vec<u64> =
        columns.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // Guest time, which follows, is part of user time.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = *columns.first_chunk()?;
    // A count that went below zero is printed as a huge one, and nothing is known then.
    if columns.iter().any(|ticks| *ticks > TICKS_MAX) {
        return None;
    }
    let busy = user + nice + system + irq + softirq;
    Some(Ticks { cpu, busy, softirq, steal, total: busy + idle + iowait + steal })
}

/// The difference between two readings, for each CPU that both have and whose counts of work did not decrease. (The count
/// of idle time may, by a tick.)
pub fn difference(before: &[Ticks], after: &[Ticks]) -> Vec<Ticks> {
    after
        .iter()
        .filter_map(|after| {
            let before = before.iter().find(|before| before.cpu == after.cpu)?;
            Some(Ticks {
                cpu: after.cpu,
                busy: after.busy.checked_sub(before.busy)?,
                softirq: after.softirq.checked_sub(before.softirq)?,
                steal: after.steal.checked_sub(before.steal)?,
                total: after.total.saturating_sub(before.total),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_read_from_proc_stat() {
        let before = parse("cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 10 0 5 100 2 0 1 3 0 0\nintr 5\n");
        // What all have used in user mode looks like a processor's number.
        let after = parse("cpu  9 29 9 9 9 9 9 9 9 0\ncpu1 30 0 6 101 2 0 2 4 0 0\n");
        assert_eq!(
            difference(&before, &after),
            [Ticks { cpu: 1, busy: 22, softirq: 1, steal: 1, total: 24 }]
        );
        assert!(parse("cpu1 10 0\ncpux\n").is_empty());
    }

    #[test]
    fn what_cannot_be_is_unknown() {
        for text in ["", "intr 5\n", "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n"] {
            assert!(counted(parse(text)).is_err(), "{text}");
        }
        // A count that went below zero.
        assert!(parse("cpu0 10 0 5 100 2 0 1 18446744073709551000 0 0\n").is_empty());
        let [early, late] = ["cpu0 9 0 5 100 2 0 1 30 0 0\n", "cpu0 9 0 5 99 2 0 1 20 0 0\n"];
        assert_eq!(difference(&parse(early), &parse(late)), []);
        // Idle time alone may have been counted too high.
        let late = late.replace("20 0 0", "30 0 0");
        assert_eq!(difference(&parse(early), &parse(&late)).len(), 1);
    }
}
