//! The machine under the bench: what it is, and what else used it meanwhile.

use costof_measure::processor_ticks::{self, Ticks};
use procfs::process::{Process, Stat};
use procfs::{CpuInfo, Current};
use std::fmt;
use std::time::SystemTime;

/// Others' share of all processors up to which a machine counts as quiet, and
/// the hypervisor's: the shares that cost a run its grade A and B.
const QUIET_OTHERS: f64 = 0.03;
const QUIET_STEAL: f64 = 0.02;

/// Why the memory of costof's workers is not known.
pub(crate) const NO_CHILDREN: &str = "the memory of costof or of its workers could not be read (it takes a kernel \
     with CONFIG_PROC_CHILDREN)";

/// The time, the kernel and the processor, in one line.
pub(crate) fn describe(now: SystemTime) -> String {
    let cpus = CpuInfo::current().ok();
    let model = cpus.as_ref().and_then(|cpus| cpus.model_name(0));
    format!(
        "{}, Linux {}, {}, {} CPUs",
        humantime::format_rfc3339_seconds(now),
        rustix::system::uname().release().to_string_lossy(),
        model.unwrap_or(std::env::consts::ARCH),
        std::thread::available_parallelism().map_or(1, usize::from)
    )
}

/// A time as a file name.
pub(crate) fn time_stamp(now: SystemTime) -> String {
    let time = humantime::format_rfc3339_millis(now).to_string();
    time.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The children of all threads of a process (proc_pid_task_children(5)).
pub(crate) fn children(id: u32) -> Vec<u32> {
    let tasks =
        process(id).and_then(|process| process.tasks().ok()).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.children().ok()).flatten().collect()
}

/// The most memory of a process that was ever resident.
pub(crate) fn peak_bytes(id: u32) -> Option<u64> {
    Some(process(id)?.status().ok()?.vmhwm? * 1024)
}

fn process(id: u32) -> Option<Process> {
    Process::new(i32::try_from(id).ok()?).ok()
}

/// What CPUs have done so far, in ticks.
struct Reading {
    cpus: Vec<Ticks>,
    /// Of the busy ones, those of this process and of the children that ended.
    own: u64,
}

/// Watches what else uses the machine, from its making on.
pub(crate) struct Watch {
    before: Option<Reading>,
}

/// What else used the machine: shares of all processors' time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Surroundings {
    others: f64,
    steal: f64,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch { before: Reading::now() }
    }

    /// What else used the machine since; `None` where the kernel does not tell.
    pub(crate) fn surroundings(&self) -> Option<Surroundings> {
        surroundings(self.before.as_ref()?, &Reading::now()?)
    }
}

impl Reading {
    fn now() -> Option<Reading> {
        let own = Process::myself().and_then(|own| own.stat()).ok()?;
        Some(Reading { cpus: processor_ticks::read().ok()?, own: own_ticks(&own) })
    }
}

/// Of a process and of its children that have ended.
fn own_ticks(stat: &Stat) -> u64 {
    let children = stat.cutime.max(0) + stat.cstime.max(0);
    stat.utime + stat.stime + children as u64
}

fn surroundings(before: &Reading, after: &Reading) -> Option<Surroundings> {
    let cpus = processor_ticks::difference(&before.cpus, &after.cpus);
    let sum = |ticks: fn(&Ticks) -> u64| cpus.iter().map(ticks).sum::<u64>();
    let total = sum(|cpu| cpu.total);
    let own = after.own.saturating_sub(before.own);
    (total > 0).then(|| Surroundings {
        others: sum(|cpu| cpu.busy).saturating_sub(own) as f64 / total as f64,
        steal: sum(|cpu| cpu.steal) as f64 / total as f64,
    })
}

impl Surroundings {
    pub(crate) fn is_quiet(self) -> bool {
        self.others <= QUIET_OTHERS && self.steal <= QUIET_STEAL
    }
}

impl fmt::Display for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Meanwhile others used {:.1} % of the CPUs, and the hypervisor took {:.1} %",
            100.0 * self.others,
            100.0 * self.steal
        )?;
        if self.is_quiet() {
            write!(f, ": quiet")
        } else {
            write!(f, ": not a quiet machine, so quote no number from here")
        }
    }
}

/// Prints what else used the machine, and returns whether it was quiet; a kernel
/// that does not tell is believed to be.
pub(crate) fn was_quiet(watch: &Watch) -> bool {
    match watch.surroundings() {
        Some(surroundings) => {
            println!("{surroundings}");
            surroundings.is_quiet()
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one CPU.
    fn reading(busy: u64, steal: u64, total: u64, own: u64) -> Reading {
        Reading { cpus: vec![Ticks { cpu: 0, busy, softirq: 0, steal, total }], own }
    }

    #[test]
    fn what_others_used_is_what_neither_this_process_nor_its_children_did() {
        let before = reading(150, 5, 965, 36);
        let after = reading(220, 10, 1065, 86);
        let found = surroundings(&before, &after).unwrap();
        assert_eq!((found.others, found.steal), (0.2, 0.05));
        assert!(!found.is_quiet() && found.to_string().contains("20.0 %"));
        assert_eq!(surroundings(&after, &after), None);
    }

    #[test]
    fn this_machine_and_process_can_be_read_and_described() {
        assert!(Reading::now().is_some());
        assert!(describe(SystemTime::UNIX_EPOCH).starts_with("1970-01-01T00:00:00Z, Linux "));
        assert_eq!(time_stamp(SystemTime::UNIX_EPOCH), "19700101T000000000Z");
        let own = std::process::id();
        assert!(peak_bytes(own) > Some(0));
    }

    #[test]
    fn children_are_found_while_they_run() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let found = children(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
