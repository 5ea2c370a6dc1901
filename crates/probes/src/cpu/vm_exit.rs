//! `cpu.vm_exit`: what leaving a virtual machine costs.

use crate::prelude::*;
use costof_os::cpu::hypervisor::Hypervisor;

pub(crate) static PROBE: Probe = Probe::new::<VmExit>();

point! {
    /// What does it cost to leave a virtual machine for its hypervisor and to come back?
    ///
    /// cpuid is executed in a loop; no hypervisor leaves it to its guest. The leaf is the
    /// hypervisor's own, 0x40000000: the answer holds the hypervisor's name, which the CPU does not
    /// know, and is compared after the last one. The cost contains exit and entry, the table
    /// look-up of the answer, and in a nested or confidential machine all levels that the exit
    /// passes. Other exits cost about as much: an interrupt that is delivered, a timer that is set,
    /// a doorbell of a virtual device; those that the hypervisor handles on its fast path cost
    /// less.
    ///
    /// # Predicted from
    /// the cycles that exit, entry and the emulation of cpuid usually take, at the core clock that
    /// cpu.frequency measured
    ///
    /// # Sources
    /// - Intel SDM volume 3, Instructions That Cause VM Exits Unconditionally
    /// - AMD APM volume 2, Instruction Intercepts
    /// - kvm-unit-tests, x86/vmexit.c, test cpuid
    /// - K. Chamarthy, Micro-Optimizing KVM VM-Exits, qemu.org, 2019
    ///
    /// # Needs
    /// - a virtual machine on x86-64
    pub(crate) struct VmExit of "cpu.vm_exit" {}
}

impl Measure for VmExit {
    const METRICS: &'static [Metric] = metrics! {
        /// one cpuid: exit, the hypervisor's answer, entry
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|_| role::<VmExit>(run)];

    headlines! {
        "VM exit and entry: cpuid": {},
    }

    fn predict(_: &At<VmExit>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        if facts.virtualization.virtual_machine == Some(false) {
            return None;
        }
        cost_cycles(
            measured,
            (1_300.0, 5_000.0),
            "exit and entry take 1,000 to 3,000 cycles, looking up the answer 300 to 2,000, unless \
             the hypervisor is itself in a virtual machine",
        )
    }
}

/// An exit and entry, as measured.
pub(crate) fn measured_cost(measured: &MeasuredRows<'_>) -> Option<Cost> {
    expect::measured_cost(measured, &VmExit {}, "for a VM exit")
}

fn run(_: &At<VmExit>, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let hypervisor =
        Hypervisor::beneath().map_err(|error| Failure::unsupported(error.to_string()))?;
    let mut answered = false;
    meter.repeatable("cost", |n| answered = hypervisor.ask(n));
    ensure!(
        answered,
        "cpuid was not answered by the hypervisor: its name is missing in the answer"
    );
    Ok(())
}
