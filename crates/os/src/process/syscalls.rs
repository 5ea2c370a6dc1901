//! Measured: system calls through libc, as programs make them.
//!
//! `getppid` has the same definition as `perf bench syscall basic`: libc's function in a loop. The
//! variants that force a system call use libc's `syscall()`, which moves six arguments into place
//! and costs one or two nanoseconds more than a dedicated wrapper.
//!
//! Source: syscalls(2), syscall(2), vdso(7).

use std::ffi::CStr;
use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::cpu::repeat::repeat;

/// Asks for the parent's process id `n` times: the smallest real system call.
pub fn getppid(n: u64) {
    repeat(n, || {
        // SAFETY: takes nothing, changes nothing and cannot fail.
        black_box(unsafe { libc::getppid() });
    });
}

/// Asks for the own process id `n` times. A system call since glibc 2.25, which stopped caching the answer.
pub fn getpid(n: u64) {
    repeat(n, || {
        // SAFETY: takes nothing, changes nothing and cannot fail.
        black_box(unsafe { libc::getpid() });
    });
}

/// Asks for the time in seconds `n` times by libc's `time()`, which the vDSO answers without
/// entering the kernel.
pub fn time_vdso(n: u64) {
    repeat(n, || {
        // SAFETY: a null pointer asks for the time as the return value only.
        black_box(unsafe { libc::time(ptr::null_mut()) });
    });
}

/// Asks for the time `n` times by entering the kernel: `time` on x86-64; `gettimeofday` on
/// aarch64, which has no `time`.
pub fn time_forced(n: u64) {
    #[cfg(target_arch = "x86_64")]
    repeat(n, || {
        // SAFETY: a null pointer asks for the time as the return value only.
        black_box(unsafe { libc::syscall(libc::SYS_time, ptr::null_mut::<libc::c_long>()) });
    });
    #[cfg(target_arch = "aarch64")]
    {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let no_zone = ptr::null_mut::<libc::c_void>();
        for _ in 0..n {
            // SAFETY: `time` is a valid timeval to write to; no time zone is asked for.
            unsafe { libc::syscall(libc::SYS_gettimeofday, &mut time, no_zone) };
            black_box(&mut time);
        }
    }
}

/// Opens a file for reading and closes it again, `n` times.
///
/// # Errors
///
/// The first error of open(2) and close(2).
pub fn open_close(n: u64, path: &CStr) -> io::Result<()> {
    for _ in 0..n {
        // SAFETY: `path` ends with a zero byte.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        // SAFETY: `file` was just opened here, and nobody else closes it.
        if file < 0 || unsafe { libc::close(file) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Reads one byte from a file `n` times, from its current position (use a file that never ends, such as
/// /dev/zero).
///
/// # Errors
///
/// The first error of read(2); `UnexpectedEof` at the end of the file.
pub fn read_one_byte(file: BorrowedFd<'_>, n: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    let mut byte = 0_u8;
    for _ in 0..n {
        // SAFETY: `byte` is one writable byte, and `file` is open while it is borrowed.
        match unsafe { libc::read(file, (&raw mut byte).cast(), 1) } {
            1 => black_box(byte),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(io::Error::last_os_error()),
        };
    }
    Ok(())
}

/// Writes one byte to a file `n` times (use one that keeps nothing, such as /dev/null).
///
/// # Errors
///
/// The first error of write(2).
pub fn write_one_byte(file: BorrowedFd<'_>, n: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    let byte = 0_u8;
    for _ in 0..n {
        // SAFETY: `byte` is one readable byte, and `file` is open while it is borrowed.
        if unsafe { libc::write(file, (&raw const byte).cast(), 1) } != 1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Asks for the status of an open file `n` times.
///
/// # Errors
///
/// The first error of fstat(2).
pub fn fstat(file: BorrowedFd<'_>, n: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    let mut status = MaybeUninit::<libc::stat>::uninit();
    for _ in 0..n {
        // SAFETY: the kernel fills in `status`, and `file` is open while it is borrowed.
        if unsafe { libc::fstat(file, status.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        black_box(&mut status);
    }
    Ok(())
}

/// Wakes the threads that wait on a word, `n` times; none does (FUTEX_WAKE of futex(2)).
///
/// # Errors
///
/// The first error.
pub fn futex_wake_nobody(n: u64) -> io::Result<()> {
    let word = AtomicU32::new(0);
    for _ in 0..n {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call, which only compares its address.
        if unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn calls_return() {
        getppid(10);
        getpid(10);
        time_vdso(10);
        time_forced(10);
    }

    #[test]
    fn files_are_opened_and_read_or_the_error_is_told() {
        open_close(10, c"/dev/zero").unwrap();
        let missing = open_close(1, c"/nowhere/at/all").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let zeroes = File::open("/dev/zero").unwrap();
        read_one_byte(zeroes.as_fd(), 10).unwrap();
        let nothing = File::open("/dev/null").unwrap();
        let end = read_one_byte(nothing.as_fd(), 1).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn calls_on_a_file_reach_it() {
        let (mut reader, writer) = io::pipe().unwrap();
        write_one_byte(writer.as_fd(), 3).unwrap();
        let mut bytes = [1; 3];
        io::Read::read_exact(&mut reader, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 3]);
        fstat(reader.as_fd(), 2).unwrap();
        futex_wake_nobody(2).unwrap();
        drop(reader);
        let error = write_one_byte(writer.as_fd(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
