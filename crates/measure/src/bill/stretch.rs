//! The CPU time of a process that goes on and of its children, over a stretch of time.

use costof_model::TimedRun;
use std::fs;
use std::io;
use std::time::Duration;

/// User and system CPU time of all threads of a process and of the processes that it started so far, nanoseconds, in steps of
/// 10 ms. Those that have ended count if their parent waited for them; those whose parent has ended do not.
///
/// # Errors
/// There is no such process, or it belongs to another user and /proc hides it.
///
/// Source: proc_pid_stat(5), fields 14 to 17; proc_tid_children(5); USER_HZ is 100 on x86-64 and aarch64.
pub fn cpu_time(pid: i32) -> io::Result<(u64, u64)> {
    let (mut user, mut system) = (0, 0);
    let mut processes = vec![pid];
    while let Some(process) = processes.pop() {
        let stat = match fs::read_to_string(format!("/proc/{process}/stat")) {
            Err(error) if process == pid => return Err(error),
            // It has ended since.
            Err(_) => continue,
            Ok(stat) => stat,
        };
        let of = ticks(&stat).ok_or_else(|| {
            let what = format!("/proc/{process}/stat has no CPU times");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        (user, system) = (user + of.0 * TICK_NS, system + of.1 * TICK_NS);
        for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            processes.extend(children.split_whitespace().flat_map(str::parse::<i32>));
        }
    }
    Ok((user, system))
}

const TICK_NS: u64 = 10_000_000;

/// User and system time of a process and of the children that it waited for.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    // The name, in parentheses, may contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields = fields.split_ascii_whitespace().skip(11).take(4).map(str::parse);
    let times: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
    let [user, system, childrens_user, childrens_system] = times[..] else { return None };
    Some((user + childrens_user, system + childrens_system))
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
        let stat = "7 (a) R 1) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 5 6 20 0 1 0";
        assert_eq!(ticks(stat), Some((17, 40)), "with those of ended children");
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(cpu_time(std::process::id() as i32).is_ok());
        assert_eq!(cpu_time(-1).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn children_that_run_have_a_part_in_the_time() {
        let busy = "while :; do :; done & wait";
        let mut shell = std::process::Command::new("sh").args(["-c", busy]).spawn().unwrap();
        let pid = shell.id() as i32;
        let mut children = String::new();
        // What waits uses no CPU time of its own, so all of it is the child's.
        let used = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            let (user, system) = cpu_time(pid).unwrap();
            user + system >= 5 * TICK_NS
        });
        let child: i32 = children.trim().parse().unwrap();
        let killed = std::process::Command::new("kill").args(["-9", &child.to_string()]).status();
        shell.wait().unwrap();
        assert!(used && killed.unwrap().success());
    }

    #[test]
    fn times_are_those_of_a_second() {
        let run = per_second((0, 10), (50, 110), Duration::from_millis(500));
        assert_eq!((run.user_ns, run.system_ns, run.wall_ns), (100, 200, 1_000_000_000));
    }
}
