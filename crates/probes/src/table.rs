//! Every probe, in the order in which it is shown.

use costof_measure::probe::Probe;

/// The table over which `list`, `run`, `explain`, the report and the tests loop.
pub static TABLE: &[&Probe] = &[
    &crate::null::PROBE,
    &crate::cpu::clock::PROBE,
    &crate::cpu::frequency::PROBE,
    &crate::cpu::loops::PROBE,
    &crate::cpu::call::PROBE,
    &crate::cpu::branch_miss::PROBE,
    &crate::cpu::memcpy::PROBE,
    &crate::cpu::snappy::PROBE,
    &crate::cpu::vm_exit::PROBE,
    &crate::cpu::hiccup::PROBE,
    &crate::sync::mutex::PROBE,
    &crate::sync::core_to_core::PROBE,
    &crate::sync::false_sharing::PROBE,
    &crate::os::syscall::PROBE,
    &crate::os::signal::PROBE,
    &crate::os::timer::PROBE,
    &crate::os::thread::PROBE,
    &crate::os::process::PROBE,
    &crate::os::context_switch::PROBE,
    &crate::os::page_fault::PROBE,
    &crate::os::mmap::PROBE,
    &crate::os::pin::PROBE,
    &crate::memory::latency::PROBE,
    &crate::memory::bandwidth::PROBE,
    &crate::ipc::latency::PROBE,
    &crate::ipc::bandwidth::PROBE,
    &crate::net::rtt::PROBE,
    &crate::net::bandwidth::PROBE,
    &crate::net::ping::PROBE,
    &crate::net::connect::PROBE,
    &crate::net::stages::PROBE,
    &crate::copy::send::PROBE,
];
