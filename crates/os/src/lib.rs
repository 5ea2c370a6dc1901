//! Everything in costof that is `unsafe`: one kernel facility a file, and one file per measured
//! instruction sequence, each behind a safe function.
//!
//! This crate knows what the machine and the kernel can do and nothing of what is measured with
//! it: no probes, no statistics, no output. Each item says its units, its errors, from which
//! kernel it exists and what it returns where it does not.
//!
//! Functions on measured paths, whose modules begin with "Measured", allocate nothing, take no lock,
//! and make no system call but those that they are there to measure. Set-up functions may allocate.

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("costof measures Linux on x86-64 and aarch64; it does not build for anything else");

pub mod cpu;
pub mod file;
pub mod ipc;
pub mod memory;
pub mod net;
pub mod perf;
pub mod process;
pub mod random;
pub mod sched;
mod system_call;
