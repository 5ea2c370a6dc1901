//! The costs of being a virtual machine: an exit to the hypervisor, and what its cost says about page faults
//! and about waking an idle CPU.

use crate::Kind;
use crate::figures::{Value, figures, ns};
use crate::finding::Finding;
use crate::interval::Interval;
use crate::round_trip::context_switch;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

pub(crate) const SENTENCES: &str = r#"
[vm_exit]
sentence = "this is a virtual machine: an exit to {hypervisor} and back takes {exit}, as much as {calls} system calls"

[vm_nested]
sentence = "an exit takes {low} to {high} core cycles, where a hypervisor on the hardware takes 1,000 to 5,000: {hypervisor} probably runs in a virtual machine itself, and all that exits takes several times as long (waking another CPU, timers, requests to disks)"

[vm_page_faults]
sentence = "a page fault ({fault} at most) takes less than a VM exit ({exit} at least), so an ordinary fault probably causes none (but the measured exit is that of cpuid; one for memory may be cheaper)"

[vm_waking]
sentence = "handing a token to a CPU that may be idle takes {middle} more than to one that is kept awake ({low} to {high}), as much as {exits_low} to {exits_high} VM exits"
"#;

/// Findings about the cost of an exit, and about operations with and without one.
pub(crate) fn virtualisation(run: &Run) -> Vec<Finding> {
    let exit = run.select("cpu.vm_exit").one();
    let Some(exit) = exit.filter(|_| run.is_virtual()) else {
        return Vec::new();
    };
    let found = [
        price(run, exit),
        nested(run, exit),
        faults(run, exit),
        waking(run, exit),
    ];
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
    let figures = figures()
        .with("hypervisor", hypervisor(run))
        .with("low", Value::Decimal(low, 0))
        .with("high", Value::Decimal(high, 0));
    (low >= NESTED_CYCLES).then(|| Finding::new(Kind::VmNested, [exit], figures))
}

/// Its name, if it has one.
fn hypervisor(run: &Run) -> &str {
    let hypervisor = run
        .facts()
        .and_then(|facts| facts.virtualization.hypervisor.as_deref());
    hypervisor.unwrap_or("its hypervisor")
}

fn interval(row: &PointRow) -> Option<(f64, f64)> {
    row.primary()?.ci95
}

/// The cost of an exit in system calls.
fn price(run: &Run, exit: &PointRow) -> Option<Finding> {
    let call = run.select("os.syscall").at("call", "getppid").one()?;
    let ((low, high), (call_low, call_high)) = (interval(exit)?, interval(call)?);
    let figures = figures()
        .with("hypervisor", hypervisor(run))
        .with("exit", ns(exit.primary()?.median))
        .with("calls", Value::Range((low / call_high, high / call_low), 0));
    Some(Finding::new(Kind::VmExit, [exit, call], figures))
}

/// A page fault that takes less time than an exit probably causes none.
fn faults(run: &Run, exit: &PointRow) -> Option<Finding> {
    let fault = run
        .select("os.page_fault")
        .at("kind", "minor_anonymous")
        .one()?;
    let ((exit_low, _), (_, fault_high)) = (interval(exit)?, interval(fault)?);
    let figures = figures()
        .with("fault", ns(fault_high))
        .with("exit", ns(exit_low));
    (fault_high < exit_low).then(|| Finding::new(Kind::VmPageFaults, [fault, exit], figures))
}

/// Compares waking an idle CPU with waking one that is kept awake.
fn waking(run: &Run, exit: &PointRow) -> Option<Finding> {
    let switch = |wake| context_switch(run, wake);
    let (idle, awake) = (switch("idle")?, switch("awake")?);
    let more = Interval::difference(run, idle, awake, &idle.primary)?;
    let (least, most) = interval(exit)?;
    let figures = figures()
        .interval(more, ns)
        .with("exits_low", Value::Decimal(more.low / most, 1))
        .with("exits_high", Value::Decimal(more.high / least, 1));
    (more.low > 0.0).then(|| Finding::new(Kind::VmWaking, [idle, awake, exit], figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, sentences, warn};
    use costof_model::axis::Axes;
    use costof_model::noise::Grade;

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

    fn switch(wake: &'static str, us: f64) -> PointRow {
        let axes = axes!(between = "processes", over = "pipe", cpus = "cross", wake);
        around("os.context_switch", axes, 1e3 * us)
    }

    #[test]
    fn an_exit_is_reported_in_system_calls() {
        let call = around("os.syscall", axes!(call = "getppid"), 100.0);
        assert_eq!(
            sentences(virtualisation, &[exit(1.0), call.clone()]),
            [
                "this is a virtual machine: an exit to its hypervisor and back takes 1.00 µs, as much as 8 to 12 system calls"
            ]
        );
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
        let shown = of(13_300.0);
        assert!(
            shown[0].contains("probably runs in a virtual machine itself"),
            "{shown:?}"
        );
        assert!(of(3_500.0).is_empty());
    }

    #[test]
    fn only_a_fault_that_takes_less_is_without_an_exit() {
        let shown = sentences(virtualisation, &[exit(2.0), fault(0.5)]);
        assert_eq!(
            shown,
            [
                "a page fault (550 ns at most) takes less than a VM exit (1.80 µs at least), so an ordinary fault probably causes none (but the measured exit is that of cpuid; one for memory may be cheaper)"
            ]
        );
        assert!(sentences(virtualisation, &[exit(2.0), fault(1.9)]).is_empty());
    }

    #[test]
    fn waking_is_reported_where_it_surely_takes_more() {
        let shown = sentences(
            virtualisation,
            &[exit(2.0), switch("idle", 30.0), switch("awake", 10.0)],
        );
        assert_eq!(
            shown,
            [
                "handing a token to a CPU that may be idle takes 20.0 µs more than to one that is kept awake (16.8 µs to 23.2 µs), as much as 7.7 to 12.9 VM exits"
            ]
        );
        let alike = [exit(2.0), switch("idle", 10.5), switch("awake", 10.0)];
        assert!(sentences(virtualisation, &alike).is_empty());
    }

    #[test]
    fn an_exit_that_waited_for_others_says_nothing() {
        let mut disturbed = exit(2.0);
        warn(&mut disturbed, "steal", Grade::D);
        assert!(sentences(virtualisation, &[disturbed, fault(0.5)]).is_empty());
    }
}
