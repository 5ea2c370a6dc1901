//! io_uring as senders and receivers of messages use it.
//!
//! Source: io_uring_setup(2) on `IORING_SETUP_DEFER_TASKRUN` (Linux 6.1); io_uring_enter(2) on
//! `IORING_ENTER_EXT_ARG` (Linux 5.11).

use std::io;
use std::time::Duration;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, Probe};

use crate::net::unsupported;

/// Why an older io_uring is of no use: it cannot wait with a time limit.
const TOO_OLD: &str = "it takes Linux 5.11 or later";

/// A ring with room for this many requests and completions, and whether the thread that uses it must enable
/// it first, because another thread created it. If the kernel supports it, completions are put into the ring
/// only on request, and never interrupt that thread.
///
/// # Errors
///
/// `Unsupported` if this machine has no io_uring, or one that cannot wait with a time limit.
pub(crate) fn open(
    requests: u32,
    completions: u32,
    begins_elsewhere: bool,
) -> io::Result<(IoUring, bool)> {
    let mut plain: Builder = IoUring::builder();
    plain.setup_cqsize(completions);
    let mut deferring = plain.clone();
    deferring.setup_single_issuer().setup_defer_taskrun();
    if begins_elsewhere {
        deferring.setup_r_disabled();
    }
    if let Ok(ring) = deferring.build(requests) {
        return Ok((ring, begins_elsewhere));
    }
    let ring = plain.build(requests).map_err(refused)?;
    if !ring.params().is_feature_ext_arg() {
        let why = format!("io_uring cannot wait with a time limit here ({TOO_OLD})");
        return Err(unsupported(why));
    }
    Ok((ring, false))
}

/// Cancels all requests of a ring before their buffers are freed: closing it also cancels, but later. If it fails, nothing
/// is in flight, or the kernel has none of the receives that stay in flight (before Linux 6.0).
pub(crate) fn cancel_all(ring: &IoUring) {
    let cancel = || ring.submitter().register_sync_cancel(None, CancelBuilder::any());
    // A signal interrupts it.
    while cancel().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
}

/// Why there is no ring, and what may be the cause.
pub(crate) fn refused(error: io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EINVAL) => TOO_OLD,
        _ => "kernel.io_uring_disabled, or a seccomp filter, may forbid it",
    };
    unsupported(format!("io_uring cannot be used here: {error} ({hint})"))
}

/// Checks that this kernel's io_uring has an operation: its number, and its name and version.
///
/// # Errors
///
/// `Unsupported` if it has not, or does not list its operations (before Linux 5.6).
pub(crate) fn require(ring: &IoUring, (code, name): (u8, &str)) -> io::Result<()> {
    let mut operations = Probe::new();
    let listed = ring.submitter().register_probe(&mut operations);
    if listed.is_ok() && operations.is_supported(code) {
        return Ok(());
    }
    let why = listed.map_or_else(|error| format!(": {error}"), |()| String::new());
    let why = format!("this kernel's io_uring has no {name}{why}");
    Err(unsupported(why))
}

/// Submits what is in the ring, and waits until this many requests are complete, or a signal comes.
///
/// # Errors
///
/// `TimedOut` if that takes longer than `limit`; those of io_uring_enter(2).
#[inline]
pub(super) fn wait(ring: &IoUring, complete: usize, limit: Duration) -> io::Result<()> {
    let limit = Timespec::from(limit);
    let arguments = SubmitArgs::new().timespec(&limit);
    match ring.submitter().submit_with_args(complete, &arguments) {
        Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
            Err(io::ErrorKind::TimedOut.into())
        }
        waited => unless_interrupted(waited),
    }
}

/// An interrupted call has done nothing, and the caller checks the result afterwards.
#[inline]
pub(crate) fn unless_interrupted(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}
