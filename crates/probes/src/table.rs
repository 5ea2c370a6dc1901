//! Every probe, in the order in which it is shown.

use costof_measure::probe::Probe;

/// The table over which `list`, `run`, `explain`, the report and the tests loop.
pub static TABLE: &[&Probe] = &[
    &crate::null::PROBE,
    &crate::cpu::clock::PROBE,
    &crate::cpu::frequency::PROBE,
    &crate::cpu::loops::PROBE,
    &crate::cpu::call::PROBE,
    &crate::os::syscall::PROBE,
    &crate::os::page_fault::PROBE,
    &crate::os::mmap::PROBE,
    &crate::os::pin::PROBE,
    &crate::memory::latency::PROBE,
];
