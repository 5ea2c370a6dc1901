//! What a process that goes on and its children use, over a stretch of time.

use crate::processor_ticks::TICK_NS;
use costof_model::TimedRun;
use costof_os::process::stat::{self, Stat};
use costof_os::process::threads_of;
use std::io;
use std::time::Duration;

/// What a process used, with the processes that it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time outside the kernel, nanoseconds, in steps of 10 ms.
    pub user_ns: u64,
    /// CPU time in the kernel, likewise.
    pub system_ns: u64,
    /// Page faults without and with input or output.
    pub minor_faults: u64,
    /// See `minor_faults`.
    pub major_faults: u64,
}

/// What all threads of a process and of the processes that it started have used so far. Those that have ended count if their
/// parent waited for them; those whose parent has ended do not.
///
/// # Errors
/// There is no such process, or it belongs to another user and /proc hides it.
///
/// Source: proc_pid_stat(5), fields 10 to 17; proc_tid_children(5).
pub fn used(process: u32) -> io::Result<Used> {
    let mut all = Used::default();
    let mut processes: Vec<u32> =
        threads_of(process)?.into_iter().map(|(process, _)| process).collect();
    processes.dedup();
    for number in processes {
        let line = match stat::read(number) {
            Err(error) if number == process => return Err(error),
            // It has ended since.
            Err(_) => continue,
            Ok(line) => line,
        };
        let of = of_line(&line).ok_or_else(|| {
            let what = format!("/proc/{number}/stat has no CPU times");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        all.user_ns += of.user_ns;
        all.system_ns += of.system_ns;
        all.minor_faults += of.minor_faults;
        all.major_faults += of.major_faults;
    }
    Ok(all)
}

/// What a process and the children that it waited for used.
fn of_line(line: &str) -> Option<Used> {
    let stat = Stat::parse(line)?;
    let sum = |own, childrens| Some(stat.number::<u64>(own)? + stat.number::<u64>(childrens)?);
    Some(Used {
        minor_faults: sum(10, 11)?,
        major_faults: sum(12, 13)?,
        user_ns: sum(14, 16)? * TICK_NS as u64,
        system_ns: sum(15, 17)? * TICK_NS as u64,
    })
}

/// What a process used per second between two moments.
pub fn per_second(before: Used, after: Used, wall: Duration) -> TimedRun {
    let each = |before: u64, after: u64| {
        (after.saturating_sub(before) as f64 / wall.as_secs_f64().max(1e-9)) as u64
    };
    TimedRun {
        wall_ns: 1_000_000_000,
        user_ns: each(before.user_ns, after.user_ns),
        system_ns: each(before.system_ns, after.system_ns),
        ..TimedRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_ended_children_used_counts_too() {
        let line = "7 (a) S 1 7 7 0 -1 4194560 100 20 3 4 12 34 5 6 20 0 1 0";
        let (user_ns, system_ns) = (170_000_000, 400_000_000);
        let used_so_far = Used { user_ns, system_ns, minor_faults: 120, major_faults: 7 };
        assert_eq!(of_line(line), Some(used_so_far));
        assert_eq!(of_line("7 (a) S 1"), None);
        assert!(used(std::process::id()).is_ok());
        assert_eq!(used(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn children_that_run_have_a_part_in_the_time() {
        let busy = "while :; do :; done & wait";
        let mut shell = std::process::Command::new("sh").args(["-c", busy]).spawn().unwrap();
        let pid = shell.id();
        let mut children = String::new();
        // What waits uses no CPU time of its own, so all of it is the child's.
        let used = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            let used = used(pid).unwrap();
            used.user_ns + used.system_ns >= 5 * TICK_NS as u64
        });
        let child: i32 = children.trim().parse().unwrap();
        let killed = std::process::Command::new("kill").args(["-9", &child.to_string()]).status();
        shell.wait().unwrap();
        assert!(used && killed.unwrap().success());
    }

    #[test]
    fn times_are_those_of_a_second() {
        let at = |user_ns, system_ns| Used { user_ns, system_ns, ..Used::default() };
        let run = per_second(at(0, 10), at(50, 110), Duration::from_millis(500));
        assert_eq!((run.user_ns, run.system_ns, run.wall_ns), (100, 200, 1_000_000_000));
    }
}
