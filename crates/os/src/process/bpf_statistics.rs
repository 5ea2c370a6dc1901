//! What the eBPF programs take that are attached on this machine.
//!
//! Source: bpf(2); include/uapi/linux/bpf.h: `BPF_ENABLE_STATS` (Linux 5.8), `struct bpf_prog_info`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::process::bpf::{bpf, bpf_descriptor};
use crate::system_call::with_context;

/// While this exists, the kernel counts the runs of eBPF programs and takes their times.
#[derive(Debug)]
pub struct Statistics(#[expect(dead_code, reason = "closed on drop")] OwnedFd);

/// A program that traces, and what it has taken since it was loaded, as far as that was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The kernel's number of it.
    pub id: u32,
    /// How often it ran.
    pub runs: u64,
    /// For how long, in nanoseconds, without what the kernel takes to call it.
    pub run_ns: u64,
}

impl Statistics {
    /// Begins to count.
    ///
    /// # Errors
    ///
    /// Those of bpf(2): `EPERM` without CAP_SYS_ADMIN, `EINVAL` before Linux 5.8, `ENOSYS` without CONFIG_BPF_SYSCALL.
    pub fn start() -> io::Result<Self> {
        /// `BPF_ENABLE_STATS`, of the kind `BPF_STATS_RUN_TIME`, which is 0.
        const ENABLE: libc::c_int = 32;
        // SAFETY: the attributes are a number.
        let started = unsafe { bpf_descriptor(ENABLE, &mut [0]) };
        started.map(Self).map_err(|error| with_context("bpf(BPF_ENABLE_STATS)", error))
    }

    /// All programs that are loaded to trace: on tracepoints, kprobes, functions, perf events and hooks of security modules.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub fn tracing(&self) -> io::Result<Vec<Program>> {
        const NEXT_ID: libc::c_int = 11;
        let mut programs = Vec::new();
        let mut ids = [0_u64];
        loop {
            // `start_id`, and `next_id`, which the kernel writes.
            let id = ids[0] >> 32;
            ids[0] = id;
            // SAFETY: the attributes are numbers.
            match unsafe { bpf(NEXT_ID, &mut ids) } {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(programs),
                Err(error) => return Err(with_context("bpf(BPF_PROG_GET_NEXT_ID)", error)),
                Ok(_) => programs.extend(tracing_program(ids[0] >> 32)?),
            }
        }
    }
}

/// The program of this number, if it traces and still exists.
fn tracing_program(id: u64) -> io::Result<Option<Program>> {
    const BY_ID: libc::c_int = 13;
    const INFO: libc::c_int = 15;
    /// Kprobe, tracepoint, perf event, raw tracepoint, the writable kind of it, tracing, security module.
    const TRACE: [u32; 7] = [2, 5, 7, 17, 24, 26, 29];
    /// Where `struct bpf_prog_info` has `run_time_ns` and `run_cnt`, in words.
    const RUN_TIME: usize = 24;
    const RUN_COUNT: usize = 25;
    // SAFETY: the attributes are a number.
    let program = match unsafe { bpf_descriptor(BY_ID, &mut [id]) } {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        program => program?,
    };
    let mut info = [0_u64; RUN_COUNT + 1];
    let length = size_of_val(&info) as u64;
    let number = u64::from(program.as_raw_fd().cast_unsigned());
    // SAFETY: the attributes name the structure and its length.
    unsafe {
        bpf(INFO, &mut [number | length << 32, info.as_mut_ptr().expose_provenance() as u64])
    }?;
    let does_trace = TRACE.contains(&(info[0] as u32));
    let program = Program { id: id as u32, runs: info[RUN_COUNT], run_ns: info[RUN_TIME] };
    Ok(does_trace.then_some(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::bpf::attach_empty;
    use crate::process::syscalls;

    #[test]
    fn a_program_that_runs_at_each_call_is_counted() {
        let started = attach_empty(c"sys_enter").and_then(|it| Ok((it, Statistics::start()?)));
        let (attached, statistics) = match started {
            Ok(started) => started,
            Err(error) => return eprintln!("checked less: {error}"),
        };
        let before = statistics.tracing().unwrap();
        syscalls::getppid(1_000);
        let after = statistics.tracing().unwrap();
        let ran = |now: &&Program| {
            let earlier = before.iter().find(|program| program.id == now.id);
            earlier.is_some_and(|earlier| {
                now.runs >= earlier.runs + 1_000 && now.run_ns > earlier.run_ns
            })
        };
        assert!(after.iter().any(|now| ran(&now)), "{after:?}");
        drop(attached);
    }
}
