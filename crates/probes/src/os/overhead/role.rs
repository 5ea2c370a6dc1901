//! An operation, without something and under it.

use super::{Of, Operation, Overhead};
use crate::ends::{broken, cannot_start, partner_cpu, tcp_over_loopback};
use crate::prelude::*;
use costof_os::ipc::token::{Between, Exchange, Leader, Over, Wait};
use costof_os::memory::page_faults::{PageFaults, Pages};
use costof_os::perf::recording::{Recorded, Recording};
use costof_os::perf::uprobe::Uprobe;
use costof_os::perf::{Group, tracepoint};
use costof_os::process::bpf::{self, OnTracepoint};
use costof_os::process::seccomp::{self, Supervisor};
use costof_os::process::speculation::{self, Speculation};
use costof_os::process::tracer::Tracer;
use costof_os::process::{namespace, overlay, syscalls};
use std::ffi::CStr;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Pages that a batch of faults touches at most, of twice as many.
const FAULTS: usize = 512;
/// Values that the filter compares.
const COMPARED: u8 = 200;
/// Samples per second, the default of perf record.
const SAMPLES_HZ: u64 = 4_000;

pub(super) struct Compared {
    /// The CPU of the other process.
    cpu: usize,
}

/// What a process is under, until this is dropped or for good.
enum Under {
    ForGood,
    Counted(Group),
    Recorded(Recording),
    Probed(Uprobe),
    Bpf(#[expect(dead_code, reason = "kept")] OnTracepoint),
    Traced(Tracer),
    Asked(Supervisor),
}

impl Setup<Overhead> for Compared {
    fn blocks(point: &At<Overhead>) -> bool {
        point.operation == Operation::Switch || point.of.is_another_process()
    }

    fn set_up(point: &At<Overhead>, launch: &Launch) -> Result<Compared> {
        Overhead::check_axes(point)?;
        Ok(Compared { cpu: partner_cpu(Cpus::Same, &launch.cpus)? })
    }

    fn measure(&mut self, point: &At<Overhead>, meter: &mut Meter<'_>) -> Result {
        let refused = |error: io::Error| point.of.refused(&error);
        let overlaid = match point.of {
            Of::Overlay => Some(overlay::mount_overlay().map_err(refused)?),
            _ => None,
        };
        let paths = overlaid.as_ref().map(|file| (&*file.below, &*file.through));
        let (below, through) = paths.unwrap_or((c"/dev/null", c"/dev/null"));
        let mut work = Work::start(point.operation, below, self.cpu)?;
        work.measure("without", &mut meter.share(2))?;
        drop(work);
        let under = point.of.begin().map_err(refused)?;
        let mut work = Work::start(point.operation, through, self.cpu)?;
        work.measure("cost", &mut meter.share(2))?;
        under.check()
    }
}

impl Of {
    /// That it cannot be had, with the way out unless the error names it.
    fn refused(self, error: &io::Error) -> Failure {
        let remedy = match self {
            Of::Bpf => " (root, or CAP_BPF and CAP_PERFMON)",
            Of::Strace => " (kernel.yama.ptrace_scope below 2, and no other tracer)",
            Of::UserNamespace | Of::Overlay => {
                " (root, or kernel.apparmor_restrict_unprivileged_userns=0 and user.max_user_namespaces above 0)"
            }
            _ => "",
        };
        Failure::unsupported(format!("of={}: {error}{remedy}", self.word()))
    }

    fn begin(self) -> io::Result<Under> {
        match self {
            Of::SeccompAllow => seccomp::allow_after(0)?,
            Of::Seccomp200 => seccomp::allow_after(COMPARED)?,
            Of::UserNamespace => namespace::become_root_of_new_user_namespace()?,
            // It is mounted already: the file is another one.
            Of::Overlay => {}
            Of::NoStoreBypass => speculation::turn_off(Speculation::StoreBypass)?,
            Of::NoIndirectBranches => speculation::turn_off(Speculation::IndirectBranches)?,
            Of::PerfCount => {
                let (group, absent) = Group::open(&[tracepoint("raw_syscalls", "sys_enter")?]);
                if let Some((_, error)) = absent.into_iter().next() {
                    return Err(error);
                }
                group.enable()?;
                return Ok(Under::Counted(group));
            }
            Of::PerfRecord => {
                let each = Recorded::Each(tracepoint("raw_syscalls", "sys_enter")?);
                return Recording::start(each).map(Under::Recorded);
            }
            Of::PerfSample => {
                return Recording::start(Recorded::Samples(SAMPLES_HZ)).map(Under::Recorded);
            }
            Of::Uprobe => return Uprobe::on_getppid().map(Under::Probed),
            Of::Bpf => return bpf::attach_empty(c"sys_enter").map(Under::Bpf),
            Of::Strace => return Tracer::start().map(Under::Traced),
            Of::SeccompNotify => return Supervisor::start().map(Under::Asked),
        }
        Ok(Under::ForGood)
    }
}

impl Under {
    /// Checks that perf saw what happened, or that the other process was there until now.
    fn check(&self) -> Result {
        let has_seen = match self {
            Under::Counted(group) => {
                let counts = group.read().or_fail("cannot read the counter")?;
                counts.iter().all(|count| count.value > Some(0))
            }
            Under::Recorded(recording) => recording.recorded_bytes() > 0,
            Under::Probed(uprobe) => uprobe.calls().or_fail("cannot read the counter")? > 0,
            Under::Traced(tracer) => tracer.is_running(),
            Under::Asked(supervisor) => supervisor.is_running(),
            Under::ForGood | Under::Bpf(_) => true,
        };
        ensure!(has_seen, "what observes the process has seen nothing, or has ended");
        Ok(())
    }
}

/// An operation that is ready.
enum Work<'p> {
    Call,
    Open(&'p CStr),
    Fault(PageFaults),
    Switch(Leader),
    RoundTrip(TcpStream, TcpStream),
}

impl<'p> Work<'p> {
    fn start(operation: Operation, path: &'p CStr, cpu: usize) -> Result<Work<'p>> {
        Ok(match operation {
            Operation::Syscall => Work::Call,
            Operation::Open => Work::Open(path),
            Operation::Fault => {
                let pages = Pages::Anonymous(PageSize::Base);
                let stride = pages.page_bytes();
                let faults = PageFaults::new(pages, stride, 2 * FAULTS, |_| {});
                Work::Fault(faults.or_unsupported("no page faults")?)
            }
            Operation::Switch => {
                let (between, over) = (Between::Processes, Over::Pipe);
                let exchange = Exchange { between, over, wait: Wait::Block, size: 1, cpu };
                Work::Switch(Leader::start(&exchange).map_err(cannot_start)?)
            }
            Operation::RoundTrip => {
                let (client, server) =
                    tcp_over_loopback().or_unsupported("no TCP over loopback")?;
                Work::RoundTrip(client, server)
            }
        })
    }

    fn measure(&mut self, metric: &'static str, meter: &mut Meter<'_>) -> Result {
        match self {
            Work::Call => meter.repeatable(metric, syscalls::getppid),
            Work::Open(path) => {
                repeat_fallible(meter, metric, |n| syscalls::open_close(n, path))
                    .or_fail("cannot open the file")?;
            }
            Work::Fault(faults) => {
                let faults = RefCell::new(faults);
                meter.used_up(
                    metric,
                    FAULTS as u64,
                    |n| faults.borrow_mut().prepare(n as usize).or_unsupported("no page faults"),
                    |n| faults.borrow_mut().touch(n as usize),
                )?;
            }
            Work::Switch(leader) => {
                repeat_fallible(meter, metric, |n| leader.round_trips(n)).map_err(broken)?;
            }
            Work::RoundTrip(client, server) => {
                let mut round_trip = |_| {
                    pass(client, server)?;
                    pass(server, client)
                };
                repeat_fallible(meter, metric, |n| (0..n).try_for_each(&mut round_trip))
                    .map_err(broken)?;
            }
        }
        Ok(())
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut message = [7; 64];
    from.write_all(&message)?;
    to.read_exact(&mut message)
}
