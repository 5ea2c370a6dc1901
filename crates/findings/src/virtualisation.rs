//! What being a virtual machine costs: an exit to the hypervisor, and what can be told from it of page
//! faults and of waking a processor that rests.

use crate::finding::{Finding, grade_by_others, row};
use crate::memory_latency::facts;
use crate::ratio::Difference;
use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

/// What an exit costs, and what is with and without one.
pub(crate) fn virtualisation(run: &Run) -> Vec<Finding> {
    let is_virtual =
        facts(run).is_some_and(|facts| facts.virtualization.virtual_machine == Some(true));
    let exit = row(run, "cpu.vm_exit", &[]).filter(|row| is_virtual && is_sure(row));
    let Some(exit) = exit else {
        return Vec::new();
    };
    let found = [price(run, exit), faults(run, exit), waking(run, exit)];
    found.into_iter().flatten().collect()
}

/// Whether it is not others that it waited for.
fn is_sure(row: &PointRow) -> bool {
    grade_by_others(row) <= Grade::B
}

fn interval(row: &PointRow) -> Option<(f64, f64)> {
    row.primary()?.ci95
}

fn ns(value: f64) -> String {
    Unit::Nanoseconds.display(value)
}

/// An exit in system calls.
fn price(run: &Run, exit: &PointRow) -> Option<Finding> {
    let call = row(run, "os.syscall", &[("call", "getppid")])?;
    let ((low, high), (call_low, call_high)) = (interval(exit)?, interval(call)?);
    let hypervisor = facts(run)
        .and_then(|facts| facts.virtualization.hypervisor.clone())
        .unwrap_or_else(|| "its hypervisor".to_owned());
    let [least, most] = [low / call_high, high / call_low].map(|times| format!("{times:.0}"));
    let times = match least == most {
        true => least,
        false => format!("{least} to {most}"),
    };
    Some(Finding {
        kind: "vm_exit".into(),
        sentence: format!(
            "this machine is a virtual one: leaving it for {hypervisor} and coming back takes {}, as \
             much as {times} system calls",
            ns(exit.primary()?.median),
        ),
        advice: None,
        evidence: vec![exit.point.clone(), call.point.clone()],
    })
}

/// A page fault that takes less than an exit is probably without one.
fn faults(run: &Run, exit: &PointRow) -> Option<Finding> {
    let fault = row(run, "os.page_fault", &[("kind", "minor_anonymous")])?;
    let ((least_of_exit, _), (_, most_of_fault)) = (interval(exit)?, interval(fault)?);
    (most_of_fault < least_of_exit).then(|| Finding {
        kind: "vm_page_faults".into(),
        sentence: format!(
            "a page fault ({} at most) takes less than leaving the virtual machine ({} at least), so \
             the usual one probably does not leave it (an exit for memory may be cheaper than this \
             one, of cpuid)",
            ns(most_of_fault),
            ns(least_of_exit)
        ),
        advice: None,
        evidence: vec![fault.point.clone(), exit.point.clone()],
    })
}

/// Waking a processor that rests, beside one that is kept awake.
fn waking(run: &Run, exit: &PointRow) -> Option<Finding> {
    let switch = |wake| {
        let axes = [
            ("between", "processes"),
            ("over", "pipe"),
            ("cpus", "cross"),
            ("wake", wake),
        ];
        row(run, "os.context_switch", &axes).filter(|row| is_sure(row))
    };
    let (idle, awake) = (switch("idle")?, switch("awake")?);
    let more = Difference::of(run, idle, awake, &idle.primary)?;
    let (least, most) = interval(exit)?;
    (more.low > 0.0).then(|| Finding {
        kind: "vm_waking".into(),
        sentence: format!(
            "handing a token to a processor that may rest takes {} more than to one that is kept awake \
             ({} to {}), as much as {:.1} to {:.1} times leaving the virtual machine",
            ns(more.middle),
            ns(more.low),
            ns(more.high),
            more.low / most,
            more.high / least,
        ),
        advice: None,
        evidence: vec![
            idle.point.clone(),
            awake.point.clone(),
            exit.point.clone(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    fn around(probe: &'static str, axes: Axes, ns: f64) -> PointRow {
        point_row(probe, "cost", axes, ns, (0.9 * ns, 1.1 * ns))
    }

    fn exit(us: f64) -> PointRow {
        around("cpu.vm_exit", Axes::default(), 1e3 * us)
    }

    fn fault(us: f64) -> PointRow {
        let axes = Axes::default().with("kind", "minor_anonymous");
        around("os.page_fault", axes, 1e3 * us)
    }

    fn switch(wake: &'static str, us: f64) -> PointRow {
        let axes = Axes::default()
            .with("between", "processes")
            .with("over", "pipe")
            .with("cpus", "cross")
            .with("wake", wake);
        around("os.context_switch", axes, 1e3 * us)
    }

    #[test]
    fn an_exit_is_told_in_system_calls() {
        let call = around("os.syscall", Axes::default().with("call", "getppid"), 100.0);
        assert_eq!(
            sentences(virtualisation, &[exit(1.0), call.clone()]),
            [
                "this machine is a virtual one: leaving it for its hypervisor and coming back takes \
                 1.00 µs, as much as 8 to 12 system calls"
            ]
        );
        assert!(sentences(virtualisation, &[call]).is_empty());
    }

    #[test]
    fn only_a_fault_that_takes_less_is_without_an_exit() {
        let told = sentences(virtualisation, &[exit(2.0), fault(0.5)]);
        assert_eq!(
            told,
            [
                "a page fault (550 ns at most) takes less than leaving the virtual machine (1.80 µs at \
                 least), so the usual one probably does not leave it (an exit for memory may be \
                 cheaper than this one, of cpuid)"
            ]
        );
        assert!(sentences(virtualisation, &[exit(2.0), fault(1.9)]).is_empty());
    }

    #[test]
    fn waking_is_told_where_it_surely_takes_more() {
        let told = sentences(
            virtualisation,
            &[exit(2.0), switch("idle", 30.0), switch("awake", 10.0)],
        );
        assert_eq!(
            told,
            [
                "handing a token to a processor that may rest takes 20.0 µs more than to one that is \
                 kept awake (16.8 µs to 23.2 µs), as much as 7.7 to 12.9 times leaving the virtual \
                 machine"
            ]
        );
        let alike = [exit(2.0), switch("idle", 10.5), switch("awake", 10.0)];
        assert!(sentences(virtualisation, &alike).is_empty());
    }

    #[test]
    fn an_exit_that_waited_for_others_says_nothing() {
        let mut disturbed = exit(2.0);
        disturbed.warnings.push(Warning {
            kind: "steal".into(),
            grade: Grade::C,
            what: String::new(),
            advice: String::new(),
        });
        assert!(sentences(virtualisation, &[disturbed, fault(0.5)]).is_empty());
    }
}
