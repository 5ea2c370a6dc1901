//! All `unsafe` code of costof: one file per kernel facility, and one per measured instruction
//! sequence, each behind a safe function.
//!
//! This crate knows what the machine and the kernel can do, but nothing about measuring: no probes,
//! no statistics, no output. Each item documents its units, its errors, the kernel version that it
//! needs, and what it returns on older kernels.
//!
//! Functions on measured paths, whose modules begin with "Measured", allocate nothing, take no
//! lock, and make only the system calls that they measure. Set-up functions may allocate.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
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
