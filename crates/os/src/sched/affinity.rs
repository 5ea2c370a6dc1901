//! Which CPUs the calling thread may run on, and where it runs now.
//!
//! Source: sched_setaffinity(2), getcpu(2). Sets grow as needed, so machines with more than the
//! 1,024 CPUs of libc's `cpu_set_t` are fine.

use crate::system_call::{check, invalid};
use std::cell::Cell;
use std::io;

/// The numbers of the CPUs on which the calling thread may run, in ascending order.
///
/// # Errors
///
/// The errors of sched_getaffinity(2); a process that may run has none.
pub fn allowed() -> io::Result<Vec<usize>> {
    allowed_to(0)
}

/// As [`allowed`], for another process's first thread; 0 is the calling thread.
pub(crate) fn allowed_to(process: libc::pid_t) -> io::Result<Vec<usize>> {
    let mut words = vec![0_u64; 16];
    loop {
        let bytes = words.len() * size_of::<u64>();
        // SAFETY: the kernel writes at most `bytes` bytes to the vector, which has them.
        let written = unsafe {
            libc::syscall(libc::SYS_sched_getaffinity, process, bytes, words.as_mut_ptr())
        };
        if written > 0 {
            return Ok(members(&words));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's sets are larger than this one.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= MAX_WORDS {
            return Err(error);
        }
        let larger = words.len() * 2;
        words.resize(larger, 0);
    }
}

/// Restricts the calling thread to these CPUs. Threads that it starts inherit this.
///
/// # Errors
///
/// `InvalidInput` (EINVAL) if none of them is online and allowed by the cpuset; see sched_setaffinity(2).
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    let before = current_cpu();
    pin_to(&set(cpus)?)?;
    if current_cpu() != before {
        MOVES.set(MOVES.get() + 1);
    }
    Ok(())
}

/// A set of CPUs in the kernel's format. Allocates, so prepare it in advance.
pub(crate) fn set(cpus: &[usize]) -> io::Result<Vec<u64>> {
    let most = MAX_WORDS * BITS;
    match cpus.iter().find(|&&cpu| cpu >= most) {
        Some(cpu) => Err(invalid(format!("there is no CPU {cpu}"))),
        None => Ok(words(cpus)),
    }
}

/// [`pin`] with a prepared set: one system call and nothing else, for the child of a fork.
pub(crate) fn pin_to(set: &[u64]) -> io::Result<()> {
    pin_process(0, set)
}

/// As [`pin_to`], for another process's first thread; 0 is the calling thread.
pub(crate) fn pin_process(process: libc::pid_t, set: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the slice has.
    check(unsafe { libc::sched_setaffinity(process, size_of_val(set), set.as_ptr().cast()) })
        .map(drop)
}

/// How often [`pin`] has moved the calling thread to another CPU: this many of its migrations were intended.
pub fn moves() -> u64 {
    MOVES.get()
}

thread_local! {
    static MOVES: Cell<u64> = const { Cell::new(0) };
}

/// The CPU that the calling thread runs on; it may already be another one, unless the thread is pinned. Read
/// through the vDSO.
#[inline]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

const BITS: usize = u64::BITS as usize;

/// 65,536 CPUs, far above what any kernel is built for (8,192).
const MAX_WORDS: usize = 1024;

fn members(words: &[u64]) -> Vec<usize> {
    let set = |cpu: &usize| words[cpu / BITS] & (1 << (cpu % BITS)) != 0;
    (0..words.len() * BITS).filter(set).collect()
}

fn words(cpus: &[usize]) -> Vec<u64> {
    let last = cpus.iter().max().copied().unwrap_or(0);
    let mut words = vec![0; last / BITS + 1];
    for &cpu in cpus {
        words[cpu / BITS] |= 1 << (cpu % BITS);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_is_pinned() {
        let cpus = allowed().unwrap();
        pin(&cpus[..1]).unwrap();
        let moved = moves();
        for &cpu in &cpus {
            pin(&[cpu]).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
            assert_eq!(current_cpu(), cpu);
        }
        assert_eq!(moves() - moved, cpus.len() as u64 - 1);
        pin(&cpus).unwrap();
        assert_eq!(allowed().unwrap(), cpus);
    }

    #[test]
    fn no_processor_is_refused() {
        assert!(pin(&[]).is_err());
        assert!(pin(&[usize::MAX]).is_err());
        assert!(pin(&[MAX_WORDS * BITS - 1]).is_err());
    }

    #[test]
    fn sets_are_as_large_as_their_largest_member() {
        for cpus in [vec![0], vec![63, 64], vec![5, 1023, 4096]] {
            assert_eq!(members(&words(&cpus)), cpus);
        }
    }
}
