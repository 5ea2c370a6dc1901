//! Facts that only a trial shows: which facilities the kernel grants this process, and who else uses the
//! CPUs right now.
//!
//! Nothing here fails, leaves anything behind, or judges: `costof-findings` judges.

use crate::alone;
use crate::clock;
use crate::facts;
use crate::gauge::{self, Gauge};
use crate::processor_ticks::{self, TICK_NS, Ticks, difference};
use crate::sibling::Threads;
use crate::visits;
use costof_model::CpuSet;
use costof_model::facts::{CoreLook, Cpu, Probed, Trial};
use costof_model::protocol::Contention;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::arena::{self, Arena, PageSize};
use costof_os::net::icmp::Pinger;
use costof_os::perf::{self, Event, Group};
use costof_os::process::attempt::{Attempt, in_child};
use costof_os::sched::affinity;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long other processes are observed: the kernel counts in hundredths of a second, and 5 % of
/// one CPU's time should be visible on two CPUs.
pub const WATCH: Duration = Duration::from_millis(500);

/// For how long a core is observed, in nanoseconds.
const LOOK_NS: f64 = 250e6;

/// Tries everything, in about a second and a half, and looks at the core of the measured CPU and of those of its kind. Call it before
/// this process has other threads: they would be counted among the others.
pub fn try_all(cpu: &Cpu, measured: usize) -> Probed {
    // This comes first, because cleaning up after the trials would be counted too.
    let busy_share = contention().map(|seen| seen.others);
    let let_in = attempt(&[Attempt::PerfEvent]);
    let network_namespaces = network_namespace();
    let io_uring = attempt(&[Attempt::IoUring]);
    let core = look(cpu, measured);
    let floor = core.as_ref().and_then(|look| look.floor);
    Probed {
        alone: floor.map_or_else(Vec::new, |floor| alone::look(cpu, measured, floor)),
        hardware_events: Some(counting(&let_in, Event::Cycles)),
        software_events: Some(counting(&let_in, Event::PageFaults)),
        kernel_events: Some(counting(&let_in, Event::ContextSwitches)),
        tracepoints: Some(tracepoint(&let_in)),
        network_namespaces: Some(network_namespaces),
        huge_page: huge_page(),
        tun: Some(outcome(tun())),
        icmp: Some(outcome(Pinger::open(Ipv4Addr::LOCALHOST.into(), 8, false))),
        io_uring: Some(io_uring),
        busy_share,
        core,
    }
}

/// Shows who else uses the core of a CPU, by a thread that runs there; `None` if it may not run
/// there, or cannot be started.
fn look(cpu: &Cpu, measured: usize) -> Option<CoreLook> {
    std::thread::scope(|scope| {
        let look = std::thread::Builder::new().spawn_scoped(scope, || look_from(cpu, measured));
        look.ok()?.join().ok()?
    })
}

fn look_from(cpu: &Cpu, measured: usize) -> Option<CoreLook> {
    affinity::pin(&[measured]).ok()?;
    let look = CoreLook { cpu: measured, ..CoreLook::default() };
    let Some(gauge) = Gauge::for_this_core(gauge::calibrate(cpu)) else {
        return Some(look);
    };
    let siblings = siblings(cpu, measured);
    let threads = || (!siblings.is_empty()).then(|| Threads::read(Path::new("/proc")));
    let before = threads();
    let began = Instant::now();
    let visits = visits::watch(&gauge, &*clock::kernel(), LOOK_NS, |_| ());
    let ns = began.elapsed().as_nanos() as f64;
    let sibling =
        threads().zip(before).and_then(|(after, before)| after.busiest(&before, &siblings, ns));
    Some(CoreLook {
        floor: Some(gauge.floor),
        shared: visits.shared(),
        taken: visits.taken(),
        sibling,
        ..look
    })
}

/// The other CPUs of a core.
fn siblings(cpu: &Cpu, measured: usize) -> Vec<usize> {
    let core = cpu.cores.iter().find(|core| core.contains(measured as u32));
    let cpus = core.into_iter().flat_map(CpuSet::iter);
    cpus.map(|cpu| cpu as usize).filter(|cpu| *cpu != measured).collect()
}

fn outcome<T>(tried: io::Result<T>) -> Trial {
    match tried {
        Ok(_) => Trial::Works,
        Err(error) => Trial::Fails { reason: error.to_string() },
    }
}

fn attempt(attempts: &[Attempt]) -> Trial {
    outcome(in_child(attempts))
}

/// In a user namespace, if the system allows that to every user; otherwise as root.
fn network_namespace() -> Trial {
    let inside = attempt(&[Attempt::UserNamespace, Attempt::NetworkNamespace]);
    if inside == Trial::Works || attempt(&[Attempt::NetworkNamespace]) == Trial::Works {
        return Trial::Works;
    }
    inside
}

/// Opens the device file without creating a device.
fn tun() -> io::Result<File> {
    let device = "/dev/net/tun";
    let opened = File::options().read(true).write(true).open(device);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{device}: {error}")))
}

/// Whether an event can be counted. A seccomp filter may kill the process that tries, so a child
/// tries, and not this process.
fn counting(let_in: &Trial, event: Event) -> Trial {
    if *let_in != Trial::Works {
        return let_in.clone();
    }
    let (_, absent) = Group::open(&[event]);
    match absent.into_iter().next() {
        None => Trial::Works,
        // Events may be opened, so the kernel's own limit refuses, and its level is a fact.
        Some((_, error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let reason = format!("the kernel refuses to count {}", event.name());
            Trial::Fails { reason }
        }
        Some((_, error)) => outcome::<()>(Err(error)),
    }
}

/// Whether entries into the kernel can be counted; probes do so to show that a call entered it.
fn tracepoint(let_in: &Trial) -> Trial {
    if *let_in != Trial::Works {
        return let_in.clone();
    }
    match perf::tracepoint("raw_syscalls", "sys_enter") {
        Ok(event) => counting(let_in, event),
        Err(error) => outcome::<()>(Err(error)),
    }
}

/// `None` if a huge page is so large (512 MiB with base pages of 64 KiB) that a trial could do
/// harm.
fn huge_page() -> Option<Trial> {
    let bytes = arena::huge_page_bytes().unwrap_or(1);
    let available_bytes = facts::available_bytes()?;
    if bytes as u64 > available_bytes / 4 {
        return None;
    }
    let huge_bytes = Arena::map(bytes, PageSize::Huge).and_then(|mut arena| {
        arena.populate()?;
        arena.huge_bytes()
    });
    let small = || io::Error::other("the kernel gave small pages instead");
    Some(outcome(
        huge_bytes.and_then(|huge_bytes| (huge_bytes > 0).then_some(()).ok_or_else(small)),
    ))
}

/// How much of all CPUs' time others use while this process sleeps for [`WATCH`]; `None` if the
/// kernel does not report it.
pub fn contention() -> Option<Contention> {
    let now = || Some((processor_ticks::read().ok()?, now_ns(ClockId::ProcessCpu)));
    let (before, own_before_ns) = now()?;
    sleep(WATCH);
    let (after, own_after_ns) = now()?;
    let own_ticks = (own_after_ns - own_before_ns) as f64 / TICK_NS;
    contention_of(&difference(&before, &after), own_ticks)
}

fn contention_of(spent: &[Ticks], own_ticks: f64) -> Option<Contention> {
    let sum = |column: fn(&Ticks) -> u64| spent.iter().map(column).sum::<u64>() as f64;
    let total = sum(|ticks| ticks.total);
    (total > 0.0).then(|| Contention {
        cpus: spent.len() as u32,
        others: (sum(|ticks| ticks.busy) - own_ticks).max(0.0) / total,
        steal: sum(|ticks| ticks.steal) / total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tried_and_what_fails_says_why() {
        let measured = affinity::allowed().unwrap()[0];
        let probed = try_all(&crate::facts::gather().cpu, measured);
        for trial in [
            &probed.hardware_events,
            &probed.software_events,
            &probed.kernel_events,
            &probed.tracepoints,
            &probed.network_namespaces,
            &probed.tun,
            &probed.icmp,
            &probed.io_uring,
        ] {
            match trial {
                Some(Trial::Works) => {}
                Some(Trial::Fails { reason }) => assert!(!reason.is_empty()),
                None => panic!("not tried: {probed:?}"),
            }
        }
        let core = probed.core.clone().unwrap();
        assert_eq!(core.cpu, measured);
        assert!(core.floor.is_some() || core.shared.is_none(), "{core:?}");
        for share in [probed.busy_share, core.shared, core.taken].into_iter().flatten() {
            assert!((0.0..=1.0).contains(&share), "{probed:?}");
        }
        // Kernels without transparent huge pages fail; only where they are very large is it left.
        match arena::huge_page_bytes() {
            Some(bytes) if bytes > 32 << 20 => eprintln!("checked less: {bytes} B a huge page"),
            _ => assert!(probed.huge_page.is_some()),
        }
    }

    #[test]
    fn siblings_are_the_other_cpus_of_a_core() {
        let mut cpu = Cpu::default();
        assert!(siblings(&cpu, 1).is_empty());
        cpu.cores = ["0,4", "1,5"].map(|core| CpuSet::parse(core).unwrap()).into();
        assert_eq!(siblings(&cpu, 1), [5]);
    }

    #[test]
    fn where_no_event_may_be_opened_none_is() {
        let refused = outcome::<()>(Err(io::Error::other("perf_event_open: no")));
        assert_eq!(counting(&refused, Event::PageFaults), refused);
    }

    #[test]
    fn shares_leave_out_what_is_ones_own_and_what_is_idle() {
        let ticks = |cpu, busy, steal, total| Ticks { cpu, busy, softirq: 0, steal, total };
        let spent = [ticks(0, 10, 5, 50), ticks(1, 5, 0, 50)];
        let seen = |others| Contention { cpus: 2, others, steal: 0.05 };
        assert_eq!(contention_of(&spent, 5.0), Some(seen(0.1)));
        assert_eq!(contention_of(&spent, 100.0), Some(seen(0.0)));
        assert_eq!(contention_of(&[], 0.0), None);
    }
}
