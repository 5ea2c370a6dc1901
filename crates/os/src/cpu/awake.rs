//! Keeps CPUs awake, so that waking a thread on one does not mean waking the CPU.
//!
//! There are two different ways. A **spinner** is a process of the lowest policy that never sleeps. Its CPU
//! never goes idle, and a thread that wakes up there takes the CPU from it at once: the wake-up is an
//! interrupt from the other CPU and a context switch away from the spinner. The other way is to keep the
//! kernel's **idle loop** from halting: it then polls a flag that the waking CPU sets, and no interrupt is
//! sent.
//!
//! Source: sched(7) on `SCHED_IDLE`; Linux Documentation/power/pm_qos_interface.rst on
//! /dev/cpu_dma_latency; Documentation/admin-guide/pm/cpuidle.rst.

use std::ffi::{c_int, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::ptr;

use rustix::process::Pid;

use crate::process::child::{self, Child};
use crate::sched::affinity;
use crate::sched::partner::Startup;
use crate::sched::real_time::set_policy;
use crate::system_call::unsupported;

/// Processes of the policy `SCHED_IDLE`, one of which spins on each of some CPUs until this is dropped. Every
/// user may start them.
///
/// Each shares this process's memory, as a thread does, so that a switch to or from it does not
/// switch page tables. It is not a thread: a thread would share the descriptor table and make calls
/// of the C library more expensive, which would change what is measured meanwhile.
#[derive(Debug)]
pub struct Spinners {
    _each: Vec<Spinner>,
}

impl Spinners {
    /// Starts one on each of `cpus`, and returns when all of them spin. They end with the calling
    /// thread at the latest.
    ///
    /// # Errors
    ///
    /// If a process cannot be started, run on its CPU or be given the policy.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let each: io::Result<_> = cpus.iter().map(|cpu| Spinner::start(*cpu)).collect();
        Ok(Self { _each: each? })
    }
}

#[derive(Debug)]
struct Spinner {
    /// Dropped first, which ends it before its task and its stack go.
    child: Child,
    task: Box<Task>,
    /// 16-byte aligned.
    _stack: Box<[u128]>,
}

#[derive(Debug)]
struct Task {
    parent: Pid,
    cpus: Vec<u64>,
    startup: Startup,
}

/// Bytes of the stack of a child that makes a few system calls.
const STACK_BYTES: usize = 16 << 10;

impl Spinner {
    /// Starts one, and returns when it spins.
    fn start(cpu: usize) -> io::Result<Self> {
        let task = Box::new(Task {
            parent: rustix::process::getpid(),
            cpus: affinity::set(&[cpu])?,
            startup: Startup::default(),
        });
        let mut stack: Box<[u128]> = vec![0; STACK_BYTES / size_of::<u128>()].into();
        // SAFETY: the stack is aligned, used by the child alone, and large enough for a function
        // that makes a few system calls and for the frame of a signal handler (3.5 KB with AVX-512).
        // Both it and the task outlive the child, which is waited for when they are dropped. The
        // child writes nothing else that this process uses but errno, and that only while the
        // calling thread waits for it below, without looking at errno.
        let child = unsafe {
            libc::clone(
                spin,
                stack.as_mut_ptr_range().end.cast(),
                libc::CLONE_VM | libc::SIGCHLD,
                ptr::from_ref(&*task).cast_mut().cast(),
            )
        };
        let child = Child::started(child)?.expect("a clone with a function returns in the parent");
        let spinner = Self { child, task, _stack: stack };
        let (startup, child) = (&spinner.task.startup, &spinner.child);
        startup.wait_until_ready(|| !child.has_ended())?;
        Ok(spinner)
    }
}

/// The child's work. It allocates nothing and takes no lock. It shares the thread-local storage of
/// its parent's thread, and changes only errno there.
extern "C" fn spin(task: *mut c_void) -> c_int {
    // SAFETY: the task outlives the child, and is only read.
    let task = unsafe { &*task.cast::<Task>() };
    if !child::ends_with(task.parent) {
        return 0;
    }
    let placed = affinity::pin_to(&task.cpus).and_then(|()| yield_to_all_others());
    task.startup.report(&placed);
    if placed.is_err() {
        return 0;
    }
    // Until it is killed. There is no pause instruction: a hypervisor that intercepts pauses (AMD's
    // also does so in user space) would take the CPU away after some thousands of them, and a
    // thread that wakes up there would have to wait. Without it a switch to another core took 1 to
    // 2 % less, in 9 of 11 pairs of runs (AMD EPYC, KVM).
    loop {
        std::hint::black_box(());
    }
}

/// Makes the calling thread run only while no other wants its CPU.
fn yield_to_all_others() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

/// While this exists, idle CPUs of the whole machine poll instead of halting.
#[derive(Debug)]
pub struct PollingIdle {
    _request: File,
}

impl PollingIdle {
    /// Requests it from the kernel: a wake-up latency of 0 µs, through /dev/cpu_dma_latency.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the kernel does not choose between idle states, so that the request would change
    /// nothing, or if its shallowest state halts, as WFI does on aarch64; `PermissionDenied` without root;
    /// `NotFound` without the device.
    pub fn hold() -> io::Result<Self> {
        let processors = Path::new("/sys/devices/system/cpu");
        let driver = fs::read_to_string(processors.join("cpuidle/current_driver"));
        if !driver.is_ok_and(|driver| !["", "none"].contains(&driver.trim())) {
            return Err(unsupported(
                "the kernel has no cpuidle driver, so nothing can keep it from halting",
            ));
        }
        shallowest_state_polls(processors)?;
        let mut request = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

/// Checks that the first idle state of every CPU in this folder polls, if it has idle states: the kernel
/// chooses the first one if a wake-up may take no time.
fn shallowest_state_polls(processors: &Path) -> io::Result<()> {
    for entry in fs::read_dir(processors)? {
        let state = entry?.path().join("cpuidle/state0/name");
        // Offline CPUs have no idle states, and neither do the other entries of that folder.
        let Ok(name) = fs::read_to_string(&state) else {
            continue;
        };
        if name.trim() != "POLL" {
            return Err(unsupported(format!(
                "the shallowest idle state is {} ({}), not POLL, so a CPU still halts",
                name.trim(),
                state.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn spinners_give_way_and_end() {
        let cpus = affinity::allowed().unwrap();
        let spinners = Spinners::start(&cpus).unwrap();
        sleep(Duration::from_millis(2));
        let pids: Vec<i32> =
            spinners._each.iter().map(|spinner| spinner.child.pid().as_raw_pid()).collect();
        for pid in &pids {
            // A process, not a thread of this one.
            assert!(fs::exists(format!("/proc/{pid}/stat")).unwrap());
            assert!(!fs::exists(format!("/proc/self/task/{pid}")).unwrap());
        }
        drop(spinners);
        for pid in pids {
            assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
        }
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(Spinners::start(&[affinity::allowed().unwrap()[0], 60_000]).is_err());
    }

    #[test]
    fn an_idle_state_that_halts_is_refused_by_its_name() {
        let processors = env::temp_dir().join(format!("costof-os-idle-{}", std::process::id()));
        let mut answers = Vec::new();
        for (cpu, name) in [("cpu0", "POLL\n"), ("cpu1", "WFI\n")] {
            let state = processors.join(cpu).join("cpuidle/state0");
            fs::create_dir_all(&state).unwrap();
            fs::create_dir_all(processors.join("cpuidle")).unwrap();
            fs::write(state.join("name"), name).unwrap();
            answers.push(shallowest_state_polls(&processors));
        }
        fs::remove_dir_all(&processors).unwrap();
        assert!(answers[0].is_ok(), "{answers:?}");
        let refused = answers[1].as_ref().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        assert!(refused.to_string().contains("WFI"), "{refused}");
    }

    #[test]
    fn the_idle_loop_polls_or_the_error_says_why_not() {
        match PollingIdle::hold() {
            Ok(polling) => drop(polling),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
