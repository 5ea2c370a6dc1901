//! The costs of being a virtual machine: an exit to the hypervisor, and what its cost says about page faults.

use crate::text::{ns, range, whole};
use crate::{Finding, Kind};
use costof_model::{PointRow, Run};

/// Findings about the cost of an exit, and about operations with and without one.
pub(crate) fn virtualisation(run: &Run) -> Vec<Finding> {
    let exit = run.select("cpu.vm_exit").one();
    let Some(exit) = exit.filter(|_| run.is_virtual()) else {
        return Vec::new();
    };
    let found = [price(run, exit), nested(run, exit), faults(run, exit)];
    found.into_iter().flatten().collect()
}

/// The least cycles of an exit that a hypervisor on the hardware does not take: KVM takes 1,000 to
/// 2,500, with defences against speculative execution up to twice that. One that runs in a virtual
/// machine takes some 13,000 and more, since each of its own instructions for an exit exits too.
/// Source: M. Ben-Yehuda et al., The Turtles Project, OSDI 2010.
const NESTED_CYCLES: f64 = 8_000.0;

/// An exit that takes too long for a hypervisor that runs on the hardware.
fn nested(run: &Run, exit: &PointRow) -> Option<Finding> {
    let mut cycles = ["cycles", "estimated_core_cycles"].into_iter();
    let (low, high) = cycles.find_map(|name| exit.estimate(name)?.ci95)?;
    let hypervisor = hypervisor(run);
    let sentence = format!(
        "an exit takes {} core cycles, where a hypervisor on the hardware takes 1,000 to 5,000: {hypervisor} \
         probably runs in a virtual machine itself, and all that exits takes several times as long (waking another \
         CPU, timers, requests to disks)",
        range((low, high), whole)
    );
    (low >= NESTED_CYCLES).then(|| Finding::new(Kind::VmNested, [exit], sentence))
}

/// Its name, if it has one.
fn hypervisor(run: &Run) -> &str {
    let hypervisor = run.facts().and_then(|facts| facts.virtualization.hypervisor.as_deref());
    hypervisor.unwrap_or("its hypervisor")
}

fn interval(row: &PointRow) -> Option<(f64, f64)> {
    row.primary()?.ci95
}

/// The cost of an exit in system calls.
fn price(run: &Run, exit: &PointRow) -> Option<Finding> {
    let call = run.select("os.syscall").with_value("call", "getppid").one()?;
    let ((low, high), (call_low, call_high)) = (interval(exit)?, interval(call)?);
    let (hypervisor, takes) = (hypervisor(run), ns(exit.primary()?.median));
    let calls = range((low / call_high, high / call_low), whole);
    let sentence = format!(
        "this is a virtual machine: an exit to {hypervisor} and back takes {takes}, as much as {calls} system calls"
    );
    Some(Finding::new(Kind::VmExit, [exit, call], sentence))
}

/// A page fault that takes less time than an exit probably causes none.
fn faults(run: &Run, exit: &PointRow) -> Option<Finding> {
    let fault = run.select("os.page_fault").with_value("kind", "minor_anonymous").one()?;
    let ((exit_low, _), (_, fault_high)) = (interval(exit)?, interval(fault)?);
    let (most, least) = (ns(fault_high), ns(exit_low));
    let sentence = format!(
        "a page fault ({most} at most) takes less than a VM exit ({least} at least), so an ordinary fault probably \
         causes none (but the measured exit is that of cpuid; one for memory may be cheaper)"
    );
    (fault_high < exit_low).then(|| Finding::new(Kind::VmPageFaults, [fault, exit], sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, reads, sentences, warn};
    use costof_model::{Axes, Grade};

    fn around(probe: &'static str, axes: Axes, ns: f64) -> PointRow {
        known_row(probe, "cost", axes, ns, 0.1)
    }

    fn exit(us: f64) -> PointRow {
        around("cpu.vm_exit", Axes::default(), 1e3 * us)
    }

    fn fault(us: f64) -> PointRow {
        let axes = axes!(kind = "minor_anonymous");
        around("os.page_fault", axes, 1e3 * us)
    }

    #[test]
    fn an_exit_is_reported_in_system_calls() {
        let call = around("os.syscall", axes!(call = "getppid"), 100.0);
        reads!(sentences(virtualisation, &[exit(1.0), call.clone()]));
        assert!(sentences(virtualisation, &[call]).is_empty());
    }

    #[test]
    fn an_exit_of_so_many_cycles_is_that_of_a_hypervisor_in_a_virtual_machine() {
        let of = |cycles| {
            let mut exit = exit(3.6);
            let estimate = known_row("cpu.vm_exit", "cycles", Axes::default(), cycles, 0.02);
            exit.metrics.extend(estimate.metrics);
            sentences(virtualisation, &[exit])
        };
        assert!(of(13_300.0)[0].contains("probably"));
        assert!(of(3_500.0).is_empty());
    }

    #[test]
    fn only_a_fault_that_takes_less_is_without_an_exit() {
        let shown = sentences(virtualisation, &[exit(2.0), fault(0.5)]);
        reads!(&shown);
        assert!(sentences(virtualisation, &[exit(2.0), fault(1.9)]).is_empty());
    }

    #[test]
    fn an_exit_that_waited_for_others_says_nothing() {
        let mut disturbed = exit(2.0);
        warn(&mut disturbed, "steal", Grade::D);
        assert!(sentences(virtualisation, &[disturbed, fault(0.5)]).is_empty());
    }
}
