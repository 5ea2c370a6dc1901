//! The cost of an exit to the hypervisor.

use crate::prelude::*;

/// The cost of an exit, in system calls.
pub(crate) fn virtualisation(run: &Run) -> Vec<Finding> {
    if run.is_virtual() { price(run).into_iter().collect() } else { Vec::new() }
}

fn price(run: &Run) -> Option<Finding> {
    let exit = run.select("cpu.vm_exit").one()?;
    let call = run.select("os.syscall").with_value("call", "getppid").one()?;
    let of_exit = exit.primary()?;
    let ((low, high), (call_low, call_high)) = (of_exit.ci95?, call.primary()?.ci95?);
    let hypervisor = run.facts().and_then(|facts| facts.virtualization.hypervisor.as_deref());
    let (hypervisor, takes) = (hypervisor.unwrap_or("its hypervisor"), ns(of_exit.median));
    let calls = range((low / call_high, high / call_low), whole);
    let sentence = format!(
        "this is a virtual machine: an exit to {hypervisor} and back takes {takes}, as much as {calls} system calls"
    );
    Some(Finding::new(Kind::VmExit, [exit, call], sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, reads, sentences, warn};
    use costof_model::{Axes, Grade, PointRow};

    fn around(probe: &'static str, axes: Axes, ns: f64) -> PointRow {
        known_row(probe, "cost", axes, ns, 0.1)
    }

    fn exit(us: f64) -> PointRow {
        around("cpu.vm_exit", Axes::default(), 1e3 * us)
    }

    #[test]
    fn an_exit_is_reported_in_system_calls() {
        let call = around("os.syscall", axes!(call = "getppid"), 100.0);
        reads!(sentences(virtualisation, &[exit(1.0), call.clone()]));
        assert!(sentences(virtualisation, &[call]).is_empty());
    }

    #[test]
    fn an_exit_that_waited_for_others_says_nothing() {
        let mut disturbed = exit(2.0);
        warn(&mut disturbed, "steal", Grade::D);
        let call = around("os.syscall", axes!(call = "getppid"), 100.0);
        assert!(sentences(virtualisation, &[disturbed, call]).is_empty());
    }
}
