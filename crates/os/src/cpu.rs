//! Instruction sequences of the CPU, its clocks, and ways to keep it awake.

pub mod awake;
pub mod branches;
pub mod calls;
pub mod clock;
pub mod clock_reads;
pub mod hypervisor;
pub mod loops;
pub(crate) mod repeat;
pub mod tsc;
