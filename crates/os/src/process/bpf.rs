//! eBPF programs on tracepoints: one that does nothing, and those that count what a command does ([`count`]).
//!
//! Everything ends when its descriptors are closed, also if this process is killed.
//!
//! Source: bpf(2); Linux Documentation/bpf/standardization/instruction-set.rst; include/uapi/linux/bpf.h.

mod assembler;
mod btf;
pub mod count;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

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
    /// `r0 = 0; exit`.
    const STEPS: [u64; 2] = [0xb7, 0x95];
    attach_raw(tracepoint, load(ProgramType::RawTracepoint, &STEPS)?)
}

fn attach_raw(tracepoint: &CStr, program: OwnedFd) -> io::Result<OnTracepoint> {
    const OPEN: libc::c_int = 17;
    let mut link = [tracepoint.as_ptr().addr() as u64, program.as_raw_fd() as u64];
    // SAFETY: the attributes name the tracepoint, which outlives the call, and an open program.
    let link = unsafe { bpf_descriptor(OPEN, &mut link) }
        .map_err(|error| with_context("bpf(BPF_RAW_TRACEPOINT_OPEN)", error))?;
    Ok(OnTracepoint([link, program]))
}

/// What a program is given as its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramType {
    /// The record of the tracepoint, as tracefs describes it.
    Tracepoint = 5,
    /// The arguments of the tracepoint.
    RawTracepoint = 17,
}

/// Loads a program. What the verifier says about a wrong one is in the error.
fn load(program_type: ProgramType, steps: &[u64]) -> io::Result<OwnedFd> {
    const LOAD: libc::c_int = 5;
    // `prog_type` and `insn_cnt`, `insns`, `license`, `log_level` and `log_size`, `log_buf`.
    let mut attributes = [
        program_type as u64 | (steps.len() as u64) << 32,
        steps.as_ptr().addr() as u64,
        c"GPL".as_ptr().addr() as u64,
        0,
        0,
    ];
    // SAFETY: the attributes name the steps and the license, which outlive the call.
    let error = match unsafe { bpf_descriptor(LOAD, &mut attributes) } {
        Ok(program) => return Ok(program),
        Err(error) => with_context("bpf(BPF_PROG_LOAD)", error),
    };
    let mut log = vec![0_u8; 1 << 16];
    attributes[3] = 1 | (log.len() as u64) << 32;
    attributes[4] = log.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: as before; the log is valid to write to, and as long as stated.
    let _ = unsafe { bpf_descriptor(LOAD, &mut attributes) };
    let log = String::from_utf8_lossy(&log);
    let mut lines =
        log.trim_end_matches('\0').lines().filter(|line| !line.starts_with("processed "));
    Err(match lines.next_back() {
        Some(last) => io::Error::new(error.kind(), format!("{error}: {last}")),
        None => error,
    })
}

/// Runs a raw tracepoint's program once in the calling thread: what it returns.
fn run_once(program: &OwnedFd) -> io::Result<u32> {
    const TEST_RUN: libc::c_int = 10;
    // `prog_fd` and `retval`; the rest is zero, also of `ctx_in`.
    let mut attributes = [program.as_raw_fd() as u64, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: the attributes name an open program, and no memory.
    unsafe { bpf(TEST_RUN, &mut attributes) }
        .map_err(|error| with_context("bpf(BPF_PROG_TEST_RUN)", error))?;
    Ok((attributes[0] >> 32) as u32)
}

/// A hash table that programs and this process share, with keys and values of so many bytes.
#[derive(Debug)]
struct Map<const KEY: usize, const VALUE: usize>(OwnedFd);

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    /// Makes one with room for so many entries.
    fn new(entries: u32) -> io::Result<Self> {
        const CREATE: libc::c_int = 0;
        const HASH: u64 = 1;
        // `map_type` and `key_size`, `value_size` and `max_entries`.
        let mut attributes = [HASH | (KEY as u64) << 32, VALUE as u64 | u64::from(entries) << 32];
        // SAFETY: the attributes name no memory.
        let map = unsafe { bpf_descriptor(CREATE, &mut attributes) };
        map.map(Self).map_err(|error| with_context("bpf(BPF_MAP_CREATE)", error))
    }

    /// Puts a value into it.
    fn set(&self, key: [u8; KEY], mut value: [u8; VALUE]) -> io::Result<()> {
        const UPDATE: libc::c_int = 2;
        // SAFETY: the value is one, and is only read.
        unsafe { self.element(UPDATE, Some(&key), value.as_mut_ptr()) }
    }

    /// Removes a key.
    fn remove(&self, key: [u8; KEY]) -> io::Result<()> {
        const DELETE: libc::c_int = 3;
        // SAFETY: nothing is read or written.
        unsafe { self.element(DELETE, Some(&key), ptr::null_mut()) }
    }

    /// All keys and values; those that are added meanwhile may be missing.
    fn entries(&self) -> io::Result<Vec<([u8; KEY], [u8; VALUE])>> {
        const LOOKUP: libc::c_int = 1;
        const NEXT_KEY: libc::c_int = 4;
        let mut entries = Vec::new();
        let (mut key, mut next) = (None, [0; KEY]);
        loop {
            // SAFETY: a key is written, which `next` has room for.
            match unsafe { self.element(NEXT_KEY, key.as_ref(), next.as_mut_ptr()) } {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(entries),
                answer => answer?,
            }
            let mut value = [0; VALUE];
            // SAFETY: a value is written, which `value` has room for.
            let found = unsafe { self.element(LOOKUP, Some(&next), value.as_mut_ptr()) };
            if found.is_ok() {
                entries.push((next, value));
            }
            key = Some(next);
        }
    }

    /// A command about one key.
    ///
    /// # Safety
    ///
    /// `other` is valid for what the command reads or writes there: a value, or a key for the command that finds the next one.
    unsafe fn element(
        &self,
        command: libc::c_int,
        key: Option<&[u8; KEY]>,
        other: *mut u8,
    ) -> io::Result<()> {
        let key = key.map_or(0, |key| key.as_ptr().expose_provenance() as u64);
        let other = other.expose_provenance() as u64;
        // `map_fd`, `key`, `value` or `next_key`, `flags`.
        let mut attributes = [self.0.as_raw_fd() as u64, key, other, 0];
        // SAFETY: the key is as long as the map's; the other by the caller's contract.
        unsafe { bpf(command, &mut attributes) }.map(drop)
    }
}

/// A command that returns a descriptor.
///
/// # Safety
///
/// What the attributes name must be valid for the command.
pub(crate) unsafe fn bpf_descriptor(
    command: libc::c_int,
    attributes: &mut [u64],
) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's contract.
    let answer = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as libc::c_int) })
}

/// bpf(2).
///
/// # Safety
///
/// What the attributes name must be valid for the command.
pub(crate) unsafe fn bpf(command: libc::c_int, attributes: &mut [u64]) -> io::Result<libc::c_long> {
    let size = size_of_val(attributes);
    // SAFETY: as many bytes of attributes are valid to read and write; the rest by the caller's contract.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) })
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

    #[test]
    fn a_map_holds_what_is_put_into_it() {
        let map = match Map::<4, 8>::new(2) {
            Ok(map) => map,
            Err(error) => return eprintln!("checked less: {error}"),
        };
        assert_eq!(map.entries().unwrap(), []);
        map.set([1; 4], [2; 8]).unwrap();
        map.set([3; 4], [4; 8]).unwrap();
        map.remove([1; 4]).unwrap();
        assert!(map.remove([5; 4]).is_err());
        assert_eq!(map.entries().unwrap(), [([3; 4], [4; 8])]);
    }

    #[test]
    fn a_wrong_program_is_refused_with_the_verifiers_words() {
        // It returns without having set r0.
        let error = load(ProgramType::RawTracepoint, &[0x95]).unwrap_err().to_string();
        assert!(error.contains("R0 !read_ok") || error.contains("not permitted"), "{error}");
    }
}
