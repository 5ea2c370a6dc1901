//! The CPU time of a process that goes on, over a stretch of time.

use costof_model::TimedRun;
use std::fs;
use std::io;
use std::time::Duration;

/// User and system CPU time of all threads of a process so far, nanoseconds, in steps of a tick of 10 ms.
///
/// # Errors
/// There is no such process, or it belongs to another user and /proc hides it.
///
/// Source: proc_pid_stat(5), fields 14 and 15; USER_HZ is 100 on x86-64 and aarch64.
pub fn cpu_time(pid: i32) -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&stat).map(|(user, system)| (user * TICK_NS, system * TICK_NS)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has no CPU times"))
    })
}

const TICK_NS: u64 = 10_000_000;

fn ticks(stat: &str) -> Option<(u64, u64)> {
    // The name, in parentheses, may contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// What a process used per second between two readings of its CPU time.
pub fn per_second(before: (u64, u64), after: (u64, u64), wall: Duration) -> TimedRun {
    let each = |before: u64, after: u64| {
        (after.saturating_sub(before) as f64 / wall.as_secs_f64().max(1e-9)) as u64
    };
    TimedRun {
        wall_ns: 1_000_000_000,
        user_ns: each(before.0, after.0),
        system_ns: each(before.1, after.1),
        ..TimedRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) R 1) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some((12, 34)));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(cpu_time(std::process::id() as i32).is_ok());
        assert_eq!(cpu_time(-1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn times_are_those_of_a_second() {
        let run = per_second((0, 10), (50, 110), Duration::from_millis(500));
        assert_eq!((run.user_ns, run.system_ns, run.wall_ns), (100, 200, 1_000_000_000));
    }
}
