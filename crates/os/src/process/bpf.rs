//! An eBPF program that does nothing, on a tracepoint.
//!
//! Source: bpf(2); Linux Documentation/bpf/standardization/instruction-set.rst; include/uapi/linux/bpf.h.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::system_call::{check, with_context};

/// The program and its link to the tracepoint, which end when this is dropped.
#[derive(Debug)]
pub struct OnTracepoint(#[expect(dead_code, reason = "closed on drop")] [OwnedFd; 2]);

/// Runs the empty program at each hit of a raw tracepoint (`sys_enter`), in every process of the machine (Linux 4.17).
///
/// # Errors
///
/// Those of bpf(2), with what was tried: `EPERM` without CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN), `ENOSYS`
/// without CONFIG_BPF_SYSCALL, `ENOENT` without that tracepoint.
pub fn attach_empty(tracepoint: &CStr) -> io::Result<OnTracepoint> {
    const LOAD: libc::c_int = 5;
    const OPEN: libc::c_int = 17;
    const RAW_TRACEPOINT: u64 = 17;
    /// `r0 = 0; exit`.
    const STEPS: [u64; 2] = [0xb7, 0x95];
    // `prog_type` and `insn_cnt`, `insns`, `license`.
    let program = [
        RAW_TRACEPOINT | (STEPS.len() as u64) << 32,
        STEPS.as_ptr().addr() as u64,
        c"GPL".as_ptr().addr() as u64,
    ];
    // SAFETY: the attributes name the steps and the license, which outlive the call.
    let program = unsafe { bpf(LOAD, &program) }
        .map_err(|error| with_context("bpf(BPF_PROG_LOAD)", error))?;
    let link = [tracepoint.as_ptr().addr() as u64, program.as_raw_fd() as u64];
    // SAFETY: the attributes name the tracepoint, which outlives the call, and an open program.
    let link = unsafe { bpf(OPEN, &link) }
        .map_err(|error| with_context("bpf(BPF_RAW_TRACEPOINT_OPEN)", error))?;
    Ok(OnTracepoint([link, program]))
}

/// # Safety
///
/// What the attributes name must be valid for the command.
unsafe fn bpf(command: libc::c_int, attributes: &[u64]) -> io::Result<OwnedFd> {
    let size = size_of_val(attributes);
    // SAFETY: as many bytes of attributes are valid to read; the rest by the caller's contract.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size) };
    // SAFETY: the kernel has just returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(check(answer)? as libc::c_int) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_is_not_there_is_an_error() {
        match attach_empty(c"sys_enter") {
            Ok(attached) => {
                drop(attached);
                let error = attach_empty(c"no_such_tracepoint").unwrap_err();
                assert!(error.to_string().contains("RAW_TRACEPOINT_OPEN"), "{error}");
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
