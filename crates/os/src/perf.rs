//! Counters of the CPU and the kernel, for the calling thread or for the program that it starts.
//!
//! The attribute structure is defined here, since libc has none. Its second published form (72
//! bytes, Linux 2.6.33) holds everything that is needed here. The `perf-event2`
//! crate would add six dependencies. It does not fall back to user space only, does not pick the
//! core type on hybrid CPUs, and does not scale groups that do not fit.
//!
//! Source: perf_event_open(2), Linux include/uapi/linux/perf_event.h,
//! Documentation/admin-guide/perf-security.rst; tools/perf/Documentation/intel-hybrid.txt.

mod inherited;
pub mod recording;
mod selector;
mod tracepoint;
pub mod uprobe;

pub use inherited::Inherited;
pub(crate) use tracepoint::Format;
pub use tracepoint::tracepoint;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::system_call::check;
use selector::{CorePmu, Selector};

/// Something to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Core cycles while the thread runs.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Loads that missed the first-level data cache.
    L1dLoadMisses,
    /// Loads that missed the second-level cache. The kernel has no general name for it: Intel
    /// `MEM_LOAD_RETIRED.L2_MISS` (Haswell on, not on E-cores), AMD Zen
    /// `l2_cache_req_stat.ls_rd_blk_c`, Arm `L2D_CACHE_REFILL_RD`.
    L2LoadMisses,
    /// Loads that missed the last-level cache.
    LlcLoadMisses,
    /// Loads that missed the data TLB.
    DtlbLoadMisses,
    /// Branches predicted wrongly.
    BranchMisses,
    /// Switches to another thread.
    ContextSwitches,
    /// Moves to another CPU.
    CpuMigrations,
    /// Page faults, minor and major.
    PageFaults,
    /// Nanoseconds on a CPU.
    TaskClock,
    /// Hits of a tracepoint of the kernel, by its number: see [`tracepoint()`].
    Tracepoint(u64),
}

impl Event {
    /// The events counted by the CPU.
    pub const HARDWARE: [Self; 7] = [
        Self::Cycles,
        Self::Instructions,
        Self::L1dLoadMisses,
        Self::L2LoadMisses,
        Self::LlcLoadMisses,
        Self::DtlbLoadMisses,
        Self::BranchMisses,
    ];

    /// A name for files and tables, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::L1dLoadMisses => "l1d_load_misses",
            Self::L2LoadMisses => "l2_load_misses",
            Self::LlcLoadMisses => "llc_load_misses",
            Self::DtlbLoadMisses => "dtlb_load_misses",
            Self::BranchMisses => "branch_misses",
            Self::ContextSwitches => "context_switches",
            Self::CpuMigrations => "cpu_migrations",
            Self::PageFaults => "page_faults",
            Self::TaskClock => "task_clock_ns",
            Self::Tracepoint(_) => "tracepoint",
        }
    }

    fn is_hardware(self) -> bool {
        Self::HARDWARE.contains(&self)
    }

    /// Whether it can be counted in user space alone: an event that only happens in the kernel would then
    /// wrongly read zero.
    fn happens_in_user_space(self) -> bool {
        !matches!(self, Self::ContextSwitches | Self::CpuMigrations | Self::Tracepoint(_))
    }
}

/// What one event counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// What was counted.
    pub event: Event,
    /// The count, scaled up if the counter ran only part of the time; `None` if it never ran.
    pub value: Option<u64>,
    /// The share of the enabled time in which it really counted, 0 to 1. Below 1, there were too few
    /// counters, and the value is an extrapolation.
    pub running: f64,
    /// The kernel's part is missing, because only root may count it here.
    pub user_only: bool,
}

/// Counters on the thread that opened them, stopped until [`Group::enable`].
///
/// Hardware events that fit into the CPU's counters together are counted together, over the same
/// time. Events that do not fit form further sets, and the kernel lets the sets take turns. Closed
/// on drop.
#[derive(Debug)]
pub struct Group {
    sets: Vec<Set>,
}

impl Group {
    /// Opens counters for the calling thread, without the hypervisor's part. Events that cannot be
    /// counted are returned with the reason; none of that is fatal. A group may be empty.
    ///
    /// If only root may count the kernel's part, the user's part is counted and marked.
    ///
    /// On hybrid CPUs (Intel P- and E-cores, Arm big.LITTLE) the counters are those of the
    /// core that the thread runs on now, so pin it first.
    pub fn open(events: &[Event]) -> (Self, Vec<(Event, io::Error)>) {
        let mut group = Self { sets: Vec::new() };
        let mut absent = Vec::new();
        let pmu = CorePmu::here();
        for &event in events {
            let added = Selector::new(event, &pmu).and_then(|selector| group.add(event, selector));
            if let Err(error) = added {
                absent.push((event, error));
            }
        }
        (group, absent)
    }

    fn add(&mut self, event: Event, selector: Selector) -> io::Result<()> {
        let added = match self.add_counting(event, selector, false) {
            Err(error) if is_refusal(&error) && event.happens_in_user_space() => {
                self.add_counting(event, selector, true)
            }
            answer => answer,
        };
        added.map_err(|error| explained(event, error))
    }

    fn add_counting(
        &mut self,
        event: Event,
        selector: Selector,
        user_only: bool,
    ) -> io::Result<()> {
        if let Some(set) = self.sets.iter_mut().rfind(|set| set.is_alike(event)) {
            match set.add(event, selector, user_only) {
                // The set is full: a new one is begun.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSPC)) => {
                }
                answer => return answer,
            }
        }
        let mut set = Set::default();
        set.add(event, selector, user_only)?;
        // Sets of the CPU come first: see `enable`.
        let position = if event.is_hardware() {
            self.sets.partition_point(Set::is_hardware)
        } else {
            self.sets.len()
        };
        self.sets.insert(position, set);
        Ok(())
    }

    /// Starts counting. One system call for each set.
    ///
    /// # Errors
    ///
    /// The errors of ioctl(2), which has none for open counters.
    pub fn enable(&self) -> io::Result<()> {
        // The CPU's counters start last and stop first, so that they do not count the
        // system calls for the others.
        Self::control(IOC_ENABLE, self.sets.iter().rev())
    }

    /// Stops counting; the counts stay. One system call for each set.
    pub fn disable(&self) -> io::Result<()> {
        Self::control(IOC_DISABLE, self.sets.iter())
    }

    /// Sets the counts to zero, together with the times by which they are scaled (the kernel's own
    /// reset does not change these).
    pub fn reset(&mut self) -> io::Result<()> {
        for set in &mut self.sets {
            set.origin = set.reading()?;
        }
        Ok(())
    }

    /// The counts since opening or the last [`Group::reset`], set by set. Allocates, so it is not
    /// for measured paths.
    ///
    /// # Errors
    ///
    /// The errors of read(2), which has none for open counters.
    pub fn read(&self) -> io::Result<Vec<Count>> {
        let counts: io::Result<Vec<_>> = self.sets.iter().map(Set::counts).collect();
        Ok(counts?.into_iter().flatten().collect())
    }

    /// Whether it counts nothing at all.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    fn control<'s>(request: libc::Ioctl, sets: impl Iterator<Item = &'s Set>) -> io::Result<()> {
        for set in sets {
            let leader = set.members[0].counter.as_raw_fd();
            // SAFETY: the request takes a number, and the descriptor is an open counter.
            check(unsafe { libc::ioctl(leader, request, IOC_FLAG_GROUP) })?;
        }
        Ok(())
    }
}

/// Counters that the kernel starts, stops and schedules together; the first leads.
#[derive(Debug, Default)]
struct Set {
    members: Vec<Member>,
    origin: Reading,
}

/// One event of a set.
#[derive(Debug)]
struct Member {
    event: Event,
    user_only: bool,
    counter: OwnedFd,
}

/// The counts of a set, as the kernel reports them.
#[derive(Clone, Debug, Default)]
struct Reading {
    enabled_ns: u64,
    running_ns: u64,
    values: Vec<u64>,
}

impl Set {
    fn add(&mut self, event: Event, selector: Selector, user_only: bool) -> io::Result<()> {
        let leader = self.members.first().map(|member| &member.counter);
        let counter = open_counter(selector, user_only, leader)?;
        self.members.push(Member { event, user_only, counter });
        self.origin.values.push(0);
        Ok(())
    }

    /// Whether the event is of the kind that this set counts: hardware and software events are in
    /// separate sets, so that software events always run.
    fn is_alike(&self, event: Event) -> bool {
        self.is_hardware() == event.is_hardware()
    }

    fn is_hardware(&self) -> bool {
        self.members[0].event.is_hardware()
    }

    fn reading(&self) -> io::Result<Reading> {
        // The number of values, two times, and the values.
        let mut bytes = vec![0; size_of::<u64>() * (3 + self.members.len())];
        if rustix::io::read(&self.members[0].counter, &mut bytes)? != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut words = bytes.as_chunks().0.iter().copied().map(u64::from_ne_bytes).skip(1);
        Ok(Reading {
            enabled_ns: words.next().unwrap_or(0),
            running_ns: words.next().unwrap_or(0),
            values: words.collect(),
        })
    }

    fn counts(&self) -> io::Result<Vec<Count>> {
        let reading = self.reading()?;
        let enabled_ns = reading.enabled_ns - self.origin.enabled_ns;
        let running_ns = reading.running_ns - self.origin.running_ns;
        let values = reading.values.iter().zip(&self.origin.values);
        Ok(self
            .members
            .iter()
            .zip(values)
            .map(|(member, (&now, &origin))| Count {
                event: member.event,
                value: scaled(now - origin, enabled_ns, running_ns),
                running: match enabled_ns {
                    0 => 0.0,
                    _ => running_ns as f64 / enabled_ns as f64,
                },
                user_only: member.user_only,
            })
            .collect())
    }
}

/// The count scaled up as if the counter had run all the time; `None` if it never ran while enabled.
fn scaled(value: u64, enabled_ns: u64, running_ns: u64) -> Option<u64> {
    match running_ns {
        0 if enabled_ns == 0 => Some(value),
        0 => None,
        _ if running_ns == enabled_ns => Some(value),
        _ => {
            let scaled = u128::from(value) * u128::from(enabled_ns) / u128::from(running_ns);
            u64::try_from(scaled).ok()
        }
    }
}

/// The beginning of `struct perf_event_attr`, which is all of its second version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72, "PERF_ATTR_SIZE_VER1");

const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FORMAT_TIME_ENABLED: u64 = 1 << 0;
const FORMAT_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_GROUP: u64 = 1 << 3;
const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::Ioctl = 0x2400;
const IOC_DISABLE: libc::Ioctl = 0x2401;
const IOC_FLAG_GROUP: libc::c_ulong = 1;

fn open_counter(
    selector: Selector,
    user_only: bool,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    // The others start and stop with their leader.
    let flags = if leader.is_none() { FLAG_DISABLED } else { 0 };
    open_with(selector, user_only, flags, FORMAT_GROUP, leader)
}

fn open_with(
    selector: Selector,
    user_only: bool,
    mut flags: u64,
    read_format: u64,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    flags |= FLAG_EXCLUDE_HYPERVISOR;
    if user_only {
        flags |= FLAG_EXCLUDE_KERNEL;
    }
    let attributes = Attributes {
        kind: selector.kind,
        size: size_of::<Attributes>() as u32,
        config: selector.config,
        read_format: FORMAT_TIME_ENABLED | FORMAT_TIME_RUNNING | read_format,
        flags,
        ..Attributes::default()
    };
    opened(&attributes, leader)
}

/// The event of these attributes, for the calling thread on any CPU. What they point to must outlive the call.
fn opened(attributes: &Attributes, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_PROCESSOR: libc::c_int = -1;
    // SAFETY: the attributes say their own size and outlive the call.
    let counter = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes,
            THIS_THREAD,
            ANY_PROCESSOR,
            leader.map_or(-1, AsRawFd::as_raw_fd),
            OPEN_CLOEXEC,
        )
    };
    let counter = check(counter)? as libc::c_int;
    // SAFETY: the kernel has just returned this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(counter) })
}

/// Opens and closes a counter that counts nothing (`PERF_COUNT_SW_DUMMY`), in user space only.
/// Allocates nothing.
pub(crate) fn open_dummy() -> io::Result<()> {
    open_counter(Selector::DUMMY, true, None).map(drop)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The reason why an event is absent, and what to do about it.
fn explained(event: Event, error: io::Error) -> io::Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no such counter (virtual machines often have none)".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => match paranoia() {
            Some(level) => format!(
                "perf_event_paranoid is {level}: lower it (sysctl kernel.perf_event_paranoid=1) or \
                 grant CAP_PERFMON; a container's seccomp profile may forbid it too"
            ),
            None => "perf events are forbidden here".to_owned(),
        },
        Some(libc::ENOSYS) => "this kernel has no perf events".to_owned(),
        Some(libc::EBUSY) => "another program holds the counter for itself".to_owned(),
        _ => error.to_string(),
    };
    let text = format!("cannot count {}: {reason}", event.name());
    io::Error::new(error.kind(), text)
}

/// The level in /proc/sys/kernel/perf_event_paranoid: from -1 (everything is allowed) to 2 (only
/// the user's part of one's own processes; Debian and Ubuntu also have 3 and 4, nothing at all).
/// `None` if the kernel has no perf events.
pub fn paranoia() -> Option<i32> {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    level.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::syscalls;
    use std::thread::sleep;
    use std::time::Duration;

    /// Counters of these events, if all of them can be counted.
    fn group_of(events: &[Event]) -> Option<Group> {
        let (group, absent) = Group::open(events);
        if !absent.is_empty() {
            eprintln!("checked less: {absent:?}");
        }
        absent.is_empty().then_some(group)
    }

    fn value(group: &Group, event: Event) -> Option<u64> {
        let counts = group.read().unwrap();
        let count = counts.iter().find(|count| count.event == event)?;
        count.value
    }

    #[test]
    fn context_switches_are_counted_from_reset_to_disable() {
        let software =
            [Event::ContextSwitches, Event::CpuMigrations, Event::PageFaults, Event::TaskClock];
        let Some(mut group) = group_of(&software) else {
            return;
        };
        assert_eq!(value(&group, Event::ContextSwitches), Some(0));
        group.enable().unwrap();
        for _ in 0..5 {
            sleep(Duration::from_millis(1));
        }
        group.disable().unwrap();
        let switches = value(&group, Event::ContextSwitches).unwrap();
        assert!(switches >= 5, "{switches}");
        sleep(Duration::from_millis(1));
        assert_eq!(value(&group, Event::ContextSwitches), Some(switches));
        group.reset().unwrap();
        assert_eq!(value(&group, Event::ContextSwitches), Some(0));
        assert!(!group.is_empty());
    }

    #[test]
    fn hardware_events_count_or_say_why_not() {
        let (group, absent) = Group::open(&Event::HARDWARE);
        group.enable().unwrap();
        costof_gauge::chain::rotate(1_000_000);
        group.disable().unwrap();
        let counts = group.read().unwrap();
        assert_eq!(counts.len() + absent.len(), Event::HARDWARE.len());
        for (event, reason) in &absent {
            assert!(reason.to_string().contains(event.name()));
        }
        match value(&group, Event::Instructions) {
            Some(instructions) => assert!(instructions >= 1_000_000),
            None => eprintln!("checked less: {absent:?}"),
        }
    }

    #[test]
    fn system_calls_are_counted_by_a_tracepoint() {
        let event = match tracepoint("raw_syscalls", "sys_enter") {
            Ok(event) => event,
            Err(error) => return eprintln!("checked less: {error}"),
        };
        let Some(group) = group_of(&[event]) else {
            return;
        };
        group.enable().unwrap();
        syscalls::getppid(100);
        syscalls::time_vdso(100);
        group.disable().unwrap();
        let calls = value(&group, event).unwrap();
        // The call that stops counting is counted too.
        assert!((100..=102).contains(&calls), "{calls}");
    }

    #[test]
    fn counters_of_the_processor_start_last_and_stop_first() {
        let events = [Event::PageFaults, Event::Cycles, Event::ContextSwitches];
        let Some(group) = group_of(&events) else {
            return;
        };
        let hardware: Vec<bool> = group.sets.iter().map(Set::is_hardware).collect();
        assert_eq!(hardware, [true, false]);
    }

    #[test]
    fn an_empty_group_counts_nothing() {
        let (group, absent) = Group::open(&[]);
        assert!(group.is_empty() && absent.is_empty());
        group.enable().unwrap();
        assert_eq!(group.read().unwrap(), []);
    }

    #[test]
    fn counts_are_scaled_by_the_share_of_time_that_ran() {
        assert_eq!(scaled(10, 100, 100), Some(10));
        assert_eq!(scaled(10, 100, 25), Some(40));
        assert_eq!(scaled(0, 100, 0), None);
        assert_eq!(scaled(0, 0, 0), Some(0));
        assert_eq!(scaled(u64::MAX / 2, 1 << 40, 1 << 39), Some(u64::MAX - 1));
    }
}
