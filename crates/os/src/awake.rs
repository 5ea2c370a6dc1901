//! Keeping processors awake, so that waking a thread on one does not mean waking the processor.
//!
//! Two ways, which are not the same. A **spinner** is a thread of the lowest policy that never
//! sleeps: its processor never goes idle, and whoever wakes up there takes the processor from it
//! at once; the wake-up is an interrupt from the other processor and a switch away from the
//! spinner. The kernel's **idle loop** can be kept from halting instead: it then polls a flag that
//! the waking processor sets, and no interrupt is sent.
//!
//! Source: sched(7) on `SCHED_IDLE`; Linux Documentation/power/pm_qos_interface.rst on
//! /dev/cpu_dma_latency; Documentation/admin-guide/pm/cpuidle.rst.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::affinity;

/// A thread of the policy `SCHED_IDLE` that spins on each of some processors, until dropped. Any
/// user may have them.
#[derive(Debug)]
pub struct Spinners {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Starts one on each of `cpus`, and returns when all of them spin.
    ///
    /// # Errors
    ///
    /// Where a thread cannot be started, run on its processor or be given the policy.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let mut spinners = Self {
            ended: Arc::new(AtomicBool::new(false)),
            threads: Vec::with_capacity(cpus.len()),
        };
        let (ready, started) = mpsc::channel();
        for &cpu in cpus {
            let ended = Arc::clone(&spinners.ended);
            let ready = ready.clone();
            let thread = thread::Builder::new().spawn(move || {
                let placed = affinity::pin(&[cpu]).and_then(|()| yield_to_all_others());
                let works = placed.is_ok();
                // Whoever started this thread waits for it.
                let _ = ready.send(placed);
                // Without a pause instruction: a hypervisor that filters pauses (AMD's does in
                // programs too) would take the processor away after some thousands of them, and
                // whoever wakes up there waits until one has ended. Without it a switch to another
                // core took 1 to 2 % less, in 9 of 11 pairs of runs (AMD EPYC, KVM).
                while works && !ended.load(Ordering::Relaxed) {}
            })?;
            spinners.threads.push(thread);
        }
        for _ in cpus {
            started.recv().expect("every thread answers")?;
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has no way to panic.
            let _ = thread.join();
        }
    }
}

/// The calling thread runs only while no other wants its processor.
fn yield_to_all_others() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // By its number, since musl's function of this name only fails.
    // SAFETY: the parameters are valid to read; 0 is the calling thread.
    let status = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_IDLE,
            &raw const parameters,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As long as it lives, idle processors of the whole machine poll instead of halting.
#[derive(Debug)]
pub struct PollingIdle {
    _request: File,
}

impl PollingIdle {
    /// Asks the kernel for it: a wake-up latency of 0 µs through /dev/cpu_dma_latency.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the kernel does not choose between idle states, so that the request
    /// would change nothing, or where its shallowest state halts, as WFI does on aarch64;
    /// `PermissionDenied` without root; `NotFound` without the device.
    pub fn hold() -> io::Result<Self> {
        let processors = Path::new("/sys/devices/system/cpu");
        let driver = fs::read_to_string(processors.join("cpuidle/current_driver"));
        if !driver.is_ok_and(|driver| !["", "none"].contains(&driver.trim())) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel has no cpuidle driver, so it cannot be kept from halting",
            ));
        }
        shallowest_state_polls(processors)?;
        let mut request = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }
}

/// Whether every processor in this folder that has idle states has one that polls as its first,
/// which is what the kernel chooses where no wake-up may take any time.
fn shallowest_state_polls(processors: &Path) -> io::Result<()> {
    for entry in fs::read_dir(processors)? {
        let state = entry?.path().join("cpuidle/state0/name");
        // Offline processors have none, and neither has what else is in that folder.
        let Ok(name) = fs::read_to_string(&state) else {
            continue;
        };
        if name.trim() != "POLL" {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "the shallowest idle state is {} ({}), not POLL, so that a processor halts all \
                     the same",
                    name.trim(),
                    state.display()
                ),
            ));
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
        drop(spinners);
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
