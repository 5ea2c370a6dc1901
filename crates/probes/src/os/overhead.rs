//! `os.overhead`: what confining and observing a process add to what it does.

mod role;

use crate::prelude::*;
use role::Compared;

words! {
    /// What the process is under.
    pub(crate) enum Of {
        /// a seccomp filter that allows every call; since Linux 5.11 the kernel knows that beforehand
        SeccompAllow = "seccomp_allow",
        /// a seccomp filter that compares the first argument with 200 values, and allows every call
        Seccomp200 = "seccomp_200",
        /// a user namespace of its own, as in a rootless container
        UserNamespace = "user_namespace",
        /// an overlay file system between the process and its files, as in a container
        Overlay = "overlay",
        /// no speculative store bypass (PR_SPEC_STORE_BYPASS), as sandboxes of browsers ask for
        NoStoreBypass = "no_store_bypass",
        /// no indirect branches to where others branched (PR_SPEC_INDIRECT_BRANCH)
        NoIndirectBranches = "no_indirect_branches",
        /// perf counts its system calls, as perf stat -e raw_syscalls:sys_enter does
        PerfCount = "perf_count",
        /// perf records each system call in memory, as perf trace does
        PerfRecord = "perf_record",
        /// perf samples where it is, 4,000 times a second, as perf record does
        PerfSample = "perf_sample",
        /// a uprobe on getppid, by which perf counts its calls
        Uprobe = "uprobe",
        /// an eBPF program that does nothing runs at each system call of the machine
        Bpf = "bpf",
        /// another process stops it at each system call, and reads which it is, as strace does
        Strace = "strace",
        /// another process is asked about each getppid, and allows it (SECCOMP_RET_USER_NOTIF)
        SeccompNotify = "seccomp_notify",
    }

    /// What the process does.
    pub(crate) enum Operation {
        /// getppid
        Syscall = "syscall",
        /// a file is opened and closed: /dev/null, or with of=overlay one of the file system
        Open = "open",
        /// the first touch of a page of anonymous memory
        Fault = "fault",
        /// a byte to another process on the same CPU by a pipe, and back: two switches
        Switch = "switch",
        /// 64 bytes by TCP over loopback, and back, in one thread
        RoundTrip = "round_trip",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Overhead>();

point! {
    /// How many times as long does an operation take in a sandbox, or while something observes the process?
    ///
    /// A launch measures the operation first as it is, and then under what is asked about, which is set up in between and
    /// ends with the launch. The ratio is that of the two medians, from batches in which the core was in the same state.
    /// What the other process of a switch does is under it too, except for perf and strace. An overlay is one of two
    /// folders in memory, in a mount namespace of the launch. What a control group's quota costs is os.quota. Audit is not among
    /// them: it is on for the whole machine or off, and a process that was started under it is under it in every measurement.
    ///
    /// # Predicted from
    /// usual cycles (cpu.frequency) for each system call of the operation, compared with what it takes alone
    /// (os.syscall, or usual times)
    ///
    /// # Sources
    /// - seccomp(2), user_namespaces(7), perf_event_open(2), bpf(2), ptrace(2)
    /// - Linux Documentation: userspace-api/seccomp_filter.rst, userspace-api/spec_ctrl.rst, filesystems/overlayfs.rst
    /// - J. Behrens et al., Performance Evolution of Mitigating Transient Execution Attacks, EuroSys 2022
    /// - M. Gebai, M. Dagenais, Survey and Analysis of Kernel and Userspace Tracers on Linux, ACM Computing Surveys 51, 2018
    ///
    /// # Needs
    /// - of=user_namespace and of=overlay: that the user may create namespaces
    /// - of=no_store_bypass and of=no_indirect_branches: a CPU and a kernel that leave it to the thread
    /// - of=perf_count, perf_record, uprobe and bpf: root, or CAP_PERFMON, tracefs and CAP_BPF
    /// - of=strace: that nothing else traces the process, and kernel.yama.ptrace_scope below 2
    pub(crate) struct Overhead of "os.overhead" {
        /// what the process is under
        of: Of = words(),
        /// what it does
        operation: Operation = words(),
    }
}

impl Measure for Overhead {
    const METRICS: &'static [Metric] = metrics! {
        /// the cost under it divided by the cost without
        times: One Lower,
        /// the cost under it minus the cost without
        added: Nanoseconds Lower,
        /// one operation under it
        cost: Nanoseconds Lower,
        /// one operation without
        without: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["of", "operation"]];
    // What a process is under once, it mostly stays under.
    const BLOCKS_BY: NameList = &["of", "operation"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(20, 60, 120));
    const ROLES: &'static [StartRole] = &[alone::<_, Compared>];

    fn check_axes(point: &At<Overhead>) -> Result {
        let of = point.of.word();
        match (point.of, point.operation) {
            (Of::Overlay, Operation::Open) => Ok(()),
            (Of::Overlay, _) => unsupported!("of={of} changes files alone (--set operation=open)"),
            (Of::SeccompNotify | Of::Uprobe, Operation::Syscall) => Ok(()),
            (Of::SeccompNotify | Of::Uprobe, _) => {
                unsupported!("of={of} is about getppid (--set operation=syscall)")
            }
            _ => Ok(()),
        }
    }

    fn predict(point: &At<Overhead>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let clock_hz = expect::core_hz(measured)?;
        let (calls, alone) = match point.operation {
            Operation::Syscall => (1.0, syscall::measured_cost(measured, syscall::Call::Getppid)?),
            Operation::Open => (2.0, syscall::measured_cost(measured, syscall::Call::Open)?),
            Operation::Fault => (0.0, Cost::new((200.0, 2e3), "")),
            Operation::Switch if point.of.is_of_one_process() => (2.0, Cost::new((2e3, 20e3), "")),
            Operation::Switch => (4.0, Cost::new((2e3, 20e3), "")),
            Operation::RoundTrip => (4.0, Cost::new((4e3, 40e3), "")),
        };
        let switches = if point.operation == Operation::Switch { 2.0 } else { 0.0 };
        // Cycles that a call adds, and those that a switch adds.
        let (per_call, per_switch) = match point.of {
            Of::SeccompAllow => ((10.0, 300.0), (0.0, 0.0)),
            Of::Seccomp200 => ((100.0, 1_500.0), (0.0, 0.0)),
            Of::UserNamespace => ((0.0, 60.0), (0.0, 0.0)),
            Of::Overlay => ((200.0, 4_000.0), (0.0, 0.0)),
            Of::NoStoreBypass => ((0.0, 150.0), (0.0, 1_000.0)),
            Of::NoIndirectBranches => ((0.0, 60.0), (300.0, 20_000.0)),
            Of::PerfCount => ((60.0, 1_500.0), (0.0, 3_000.0)),
            Of::PerfRecord => ((300.0, 4_000.0), (0.0, 3_000.0)),
            Of::PerfSample => ((0.0, 60.0), (0.0, 3_000.0)),
            Of::Bpf => ((60.0, 1_200.0), (0.0, 0.0)),
            // A breakpoint, and often a second trap after the instruction that it has replaced.
            Of::Uprobe => ((1_000.0, 15_000.0), (0.0, 0.0)),
            // Two stops, or one question: two or four switches, which may be between CPUs.
            Of::Strace => ((8_000.0, 400_000.0), (0.0, 0.0)),
            Of::SeccompNotify => ((4_000.0, 250_000.0), (0.0, 0.0)),
        };
        let ns = |of_call: f64, of_switch: f64| {
            (calls * of_call + switches * of_switch) * 1e9 / clock_hz
        };
        let added = (ns(per_call.0, per_switch.0), ns(per_call.1, per_switch.1));
        let Range(shortest, longest) = alone.range;
        let because = format!(
            "{} added to {}, and what is as it was within 10 %",
            Unit::Nanoseconds.display_range(added),
            Unit::Nanoseconds.display_range((shortest, longest)),
        );
        let range = (0.9 + added.0 / longest, 1.1 + added.1 / shortest);
        expect::between("times", range, because)
    }

    fn derive(point: &At<Overhead>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        if point.operation == Operation::Switch || point.of.is_another_process() {
            derived::forget_disturbances(&mut report);
        }
        if let Some([under, without]) = derived::medians_ns(&report, ["cost", "without"]) {
            derived::add(&mut report, "times", under / without);
            derived::add(&mut report, "added", under - without);
        }
        report
    }
}

impl Of {
    /// Whether each system call waits for another process.
    pub(crate) fn is_another_process(self) -> bool {
        matches!(self, Of::Strace | Of::SeccompNotify)
    }

    /// Whether processes that the observed one starts are not observed.
    fn is_of_one_process(self) -> bool {
        matches!(self, Of::PerfCount | Of::PerfRecord | Of::PerfSample | Of::Strace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, report, samples};
    use costof_model::metric::Data;

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let measured = report(vec![
            samples("without", &[(10, 1000.0), (20, 2000.0)]),
            samples("cost", &[(10, 1500.0), (20, 3000.0)]),
        ]);
        let point = At::from(at::<Overhead>("of=strace"));
        let report = Overhead::derive(&point, vec![measured]);
        let value = |position: usize| report.metrics[position].data.clone();
        assert_eq!((value(2), value(3)), (Data::Value(1.5), Data::Value(50.0)));
    }

    #[test]
    fn what_changes_files_alone_is_asked_of_files_alone() {
        let check = |values| Overhead::check_axes(&At::from(at::<Overhead>(values)));
        assert!(check("of=overlay operation=open").is_ok());
        assert!(check("of=overlay operation=fault").unwrap_err().reason.contains("operation=open"));
        assert!(check("of=seccomp_notify operation=open").is_err());
    }
}
