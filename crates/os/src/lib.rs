//! Everything in costof that is `unsafe`: one kernel facility a file, and one file per measured
//! instruction sequence, each behind a safe function.
//!
//! This crate knows what the machine and the kernel can do and nothing of what is measured with
//! it: no probes, no statistics, no output. Each item says its units, its errors, from which
//! kernel it exists and what it returns where it does not.
//!
//! Functions on measured paths (`branches`, `calls`, `chase`, `clock_reads`, `connections`,
//! `conversation`, `copies`, `core_chain`, `delivery`, `field_sender`, `flow`, `hypervisor`, `icmp`,
//! `line`, `line_counters`, `locks`, `loops`, `mappings`, `receive`, `registered_buffer`, `signals`,
//! `streams`, `syscalls`, `timers`, `timestamping`, `token`, `touch`, `transfer`, `tsc`, `victim`,
//! `vmsplice`, `zerocopy`) allocate nothing,
//! take no lock, and make no system call but those that they are there to measure. Set-up
//! functions may allocate.

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("costof measures Linux on x86-64 and aarch64; it does not build for anything else");

pub mod addresses;
pub mod affinity;
pub mod allocator;
pub mod arena;
pub mod attempt;
pub mod awake;
pub mod branches;
pub mod calls;
pub mod chase;
pub mod clock;
pub mod clock_reads;
pub mod command_reader;
pub mod connections;
mod control_message;
pub mod conversation;
pub mod copies;
pub mod core_chain;
pub mod core_slots;
pub mod delivery;
pub mod field_sender;
pub mod fields;
pub mod file;
pub mod flow;
pub mod handshake;
pub mod hypervisor;
pub mod icmp;
pub mod idle;
pub mod line;
pub mod line_counters;
pub mod locks;
pub mod loops;
pub mod mappings;
pub mod meeting;
pub mod message;
pub mod namespace;
pub mod network_device;
mod packet;
pub mod page_faults;
mod partner;
pub mod perf;
mod poll;
pub mod process;
pub mod queue_disciplines;
pub mod random;
pub mod readable;
pub mod real_time;
pub mod receive;
pub mod registered_buffer;
mod repeat;
pub mod reserved_port;
pub mod scratch;
pub mod segments;
mod shared;
pub mod signals;
pub mod sink;
pub mod sniffers;
pub mod socket;
mod socket_option;
pub mod spawn;
pub mod streams;
pub mod syscalls;
mod system_call;
pub mod tasks;
mod tcp_repair;
pub mod threads;
pub mod timers;
pub mod timestamping;
pub mod token;
pub mod touch;
pub mod transfer;
pub mod tsc;
pub mod tun;
pub mod usage;
pub mod victim;
pub mod vmsplice;
pub mod zerocopy;
