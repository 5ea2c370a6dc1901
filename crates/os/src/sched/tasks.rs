//! What this process's threads have used, by thread name.
//!
//! It is for threads that a library started and of which only the name is known.
//!
//! Source: proc(5) on `/proc/PID/task/TID/comm` and `schedstat`, whose first number is the time that
//! the thread has spent on a CPU, in nanoseconds (Documentation/scheduler/sched-stats.rst; a kernel
//! with `CONFIG_SCHED_INFO`, as all distributions have it).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// CPU time of all threads of this process that have this name now, in nanoseconds; 0 if there is none.
/// Threads that have ended are not included.
///
/// # Errors
///
/// `InvalidData` or `NotFound` if the kernel does not report it.
pub fn cpu_ns(name: &str) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        match task_cpu_ns(&task?.path(), name) {
            Ok(ns) => sum += ns,
            // The thread has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum)
}

fn task_cpu_ns(task: &Path, name: &str) -> io::Result<u64> {
    let Ok(comm) = fs::read_to_string(task.join("comm")) else {
        return Ok(0);
    };
    if comm.trim_end() != name {
        return Ok(0);
    }
    let schedstat = fs::read_to_string(task.join("schedstat"))?;
    let ns = schedstat.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn threads_of_a_name_are_told_from_others() {
        let (done, wait) = mpsc::channel::<()>();
        let (ready, began) = mpsc::channel();
        let named = std::thread::Builder::new().name("busy".into());
        let thread = named
            .spawn(move || {
                let until = Instant::now() + Duration::from_millis(20);
                while Instant::now() < until {}
                ready.send(()).unwrap();
                let _ = wait.recv();
            })
            .unwrap();
        began.recv().unwrap();
        if !Path::new("/proc/self/schedstat").exists() {
            eprintln!("skipped: this kernel does not report the CPU time of threads");
        } else {
            assert!(cpu_ns("busy").unwrap() > 0);
            assert_eq!(cpu_ns("nobody").unwrap(), 0);
        }
        drop(done);
        thread.join().unwrap();
    }
}
