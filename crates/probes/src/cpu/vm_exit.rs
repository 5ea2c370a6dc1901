//! `cpu.vm_exit`: what leaving a virtual machine costs.

use crate::expect::cost_cycles;
use crate::literal::{cost, list, text};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_os::hypervisor::Hypervisor;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("cpu.vm_exit"),
        method: 1,
        question: text(
            "What does it cost to leave a virtual machine for its hypervisor and to come back?",
        ),
        axes: list![],
        crossings: list![],
        metrics: list![cost("one cpuid: exit, the hypervisor's answer, entry")],
        how: text(
            "cpuid in a loop, which no hypervisor leaves to its guest. The leaf is the \
             hypervisor's own, 0x40000000: the answer holds its name, which the processor does not \
             know, and is compared after the last one. In the figure are exit and entry, the table \
             look-up of the answer, and in a nested or confidential machine all levels that the exit \
             passes. It is of the order of what an exit costs: an interrupt that is delivered, a \
             timer that is set, a doorbell of a virtual device; those that the hypervisor handles \
             at once, on its fast path, cost less.",
        ),
        sources: list![
            text("Intel SDM volume 3, Instructions That Cause VM Exits Unconditionally"),
            text("AMD APM volume 2, Instruction Intercepts"),
            text("kvm-unit-tests, x86/vmexit.c, test cpuid"),
            text("K. Chamarthy, Micro-Optimizing KVM VM-Exits, qemu.org, 2019"),
        ],
        predicted_from: text(
            "the cycles that exit, entry and the emulation of cpuid usually take, at the core clock that cpu.frequency measured",
        ),
        after: list![text("cpu.frequency")],
        needs: list![text("a virtual machine on x86-64")],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines: |_| vec![Headline::new("VM exit and entry: cpuid", Axes::default())],
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Exit { answered: false }))],
    derive: the_only_report,
};

struct Exit {
    /// Whether the last answer was the hypervisor's.
    answered: bool,
}

impl Role for Exit {
    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let hypervisor =
            Hypervisor::beneath().map_err(|error| Failure::unsupported(error.to_string()))?;
        meter.repeatable("cost", |n| self.answered = hypervisor.ask(n));
        Ok(())
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        if self.answered {
            Ok(())
        } else {
            Err(Failure::error(
                "cpuid was not answered by the hypervisor: its name is missing in the answer",
            ))
        }
    }
}

fn predict(_: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    if facts.virtualization.virtual_machine == Some(false) {
        return None;
    }
    cost_cycles(
        known,
        1_300.0,
        5_000.0,
        "exit and entry take 1,000 to 3,000 cycles, looking up the answer 300 to 2,000, unless the \
         hypervisor is itself in a virtual machine",
    )
}
