//! `cpu.vm_exit`: leaving a virtual machine for its hypervisor.

use crate::prelude::*;
use costof_os::cpu::hypervisor::Hypervisor;

pub(crate) static PROBE: Probe = Probe::new::<VmExit>();

point! {
    /// What does it cost to exit from a virtual machine to its hypervisor and return?
    ///
    /// cpuid is executed in a loop; every hypervisor intercepts it. The leaf is the hypervisor's
    /// own, 0x40000000: its answer is the hypervisor's name, which the CPU does not know, and which
    /// is compared after the last one. The cost includes exit and entry, looking up the answer in a
    /// table, and in a nested or confidential machine all levels that the exit passes. Other exits
    /// cost about as much: delivering an interrupt, setting a timer, notifying a virtual device.
    /// Those on the hypervisor's fast path cost less.
    ///
    /// # Predicted from
    /// usual cycles of exit, entry and the emulation of cpuid (cpu.frequency), of a hypervisor that
    /// runs on the hardware; one that runs in a virtual machine itself takes several times as long
    ///
    /// # Sources
    /// - Intel SDM volume 3, Instructions That Cause VM Exits Unconditionally
    /// - AMD APM volume 2, Instruction Intercepts
    /// - kvm-unit-tests, x86/vmexit.c, test cpuid
    /// - K. Chamarthy, Micro-Optimizing KVM VM-Exits, qemu.org, 2019
    /// - M. Ben-Yehuda et al., The Turtles Project: Design and Implementation of Nested
    ///   Virtualization, OSDI 2010: each exit of a nested machine takes several of its hypervisor's
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

    fn predict(_: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        if facts.virtualization.virtual_machine == Some(false) {
            return None;
        }
        cost_cycles(
            measured,
            EXIT_CYCLES,
            "exit, entry and the hypervisor's defences between them take 1,000 to 2,500 cycles, \
             looking up the answer 200 to 1,300, unless the hypervisor itself runs in a virtual \
             machine",
        )
    }
}

/// An exit from a virtual machine whose hypervisor runs on the hardware.
const EXIT_CYCLES: (f64, f64) = (1_200.0, 3_800.0);

pub(crate) fn measured_cost(measured: &MeasuredRows<'_>) -> Option<Cost> {
    expect::measured_cost(measured, &VmExit {}, "for a VM exit")
}

fn run(_: &At<VmExit>, meter: &mut Meter<'_>) -> Result {
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
