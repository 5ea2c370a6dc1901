//! Measured: starting a thread that does nothing, and joining it.
//!
//! Each thread returns the number of the CPU that it ran on, which shows that it ran.
//!
//! Source: pthread_create(3), pthread_join(3), `std::thread`.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{self, JoinHandle};

use crate::sched::affinity::current_cpu;

/// How the thread is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadApi {
    /// `std::thread`, which allocates what the two threads share, calls pthread_create, sets up an
    /// alternative signal stack in the new thread, and removes it.
    Std,
    /// The C library's pthread_create(), with its default attributes.
    Pthread,
}

#[cfg(test)]
impl ThreadApi {
    /// Both, in the order of declaration.
    pub(crate) const ALL: [Self; 2] = [Self::Std, Self::Pthread];
}

/// A started thread, which must be joined.
#[derive(Debug)]
#[must_use = "a thread that nobody joins may outlive the measurement"]
pub enum Started {
    /// By the standard library.
    Std(JoinHandle<usize>),
    /// By the C library.
    Pthread(Pthread),
}

/// A thread of the C library, which is joined once.
#[derive(Debug)]
pub struct Pthread(libc::pthread_t);

/// Starts a thread, which inherits the CPUs of the calling one.
///
/// # Errors
///
/// The errors of pthread_create(3): `WouldBlock` (EAGAIN) at a limit on threads or memory.
#[inline]
pub fn start(api: ThreadApi) -> io::Result<Started> {
    match api {
        ThreadApi::Std => thread::Builder::new().spawn(current_cpu).map(Started::Std),
        ThreadApi::Pthread => {
            let mut thread = MaybeUninit::uninit();
            // SAFETY: the thread is valid to write to, there are no attributes, and the function
            // takes no argument.
            let error = unsafe {
                libc::pthread_create(thread.as_mut_ptr(), ptr::null(), run, ptr::null_mut())
            };
            match error {
                // SAFETY: the call succeeded, so it has written the thread.
                0 => Ok(Started::Pthread(Pthread(unsafe { thread.assume_init() }))),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    ptr::without_provenance_mut(current_cpu())
}

impl Started {
    /// Waits until the thread has ended, and returns the number of the CPU that it ran on.
    #[inline]
    pub fn join(self) -> usize {
        match self {
            Self::Std(thread) => thread.join().expect("reading the CPU does not panic"),
            Self::Pthread(Pthread(thread)) => {
                let mut cpu = ptr::null_mut();
                // SAFETY: the thread was started here and is joined once; the pointer is valid to
                // write to.
                let status = unsafe { libc::pthread_join(thread, &mut cpu) };
                assert_eq!(status, 0, "a thread of our own can be joined");
                cpu.addr()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::affinity;

    #[test]
    fn a_thread_runs_where_its_creator_may_run() {
        let cpus = affinity::allowed().unwrap();
        let last = *cpus.last().unwrap();
        for api in ThreadApi::ALL {
            for _ in 0..20 {
                assert!(cpus.contains(&start(api).unwrap().join()));
            }
            affinity::pin(&[last]).unwrap();
            assert_eq!(start(api).unwrap().join(), last);
            affinity::pin(&cpus).unwrap();
        }
    }
}
