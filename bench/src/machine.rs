//! The machine under the bench: what it is, and what else used it meanwhile.

use costof_measure::processor_ticks::{self, Ticks};
use std::fmt;
use std::fs;
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
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    format!(
        "{}, Linux {}, {}, {} processors",
        humantime::format_rfc3339_seconds(now),
        read("/proc/sys/kernel/osrelease").trim(),
        model_name(&cpuinfo).unwrap_or(std::env::consts::ARCH),
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
    let threads = fs::read_dir(format!("/proc/{id}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|ids| {
            let ids = ids.split_whitespace().filter_map(|id| id.parse().ok());
            ids.collect::<Vec<u32>>()
        })
        .collect()
}

/// An amount of memory of a process, by its name in proc_pid_status(5).
pub(crate) fn memory_bytes(id: u32, name: &str) -> Option<u64> {
    parse_memory_bytes(
        &fs::read_to_string(format!("/proc/{id}/status")).ok()?,
        name,
    )
}

fn parse_memory_bytes(status: &str, name: &str) -> Option<u64> {
    let amount = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = amount.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
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
        Watch {
            before: Reading::now(),
        }
    }

    /// What else used the machine since; `None` where the kernel does not tell.
    pub(crate) fn surroundings(&self) -> Option<Surroundings> {
        surroundings(self.before.as_ref()?, &Reading::now()?)
    }
}

impl Reading {
    fn now() -> Option<Reading> {
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Some(Reading {
            cpus: processor_ticks::read()?,
            own: own_ticks(&own)?,
        })
    }
}

/// From /proc/self/stat (proc_pid_stat(5)).
fn own_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may hold anything; utime is the 12th field after it.
    let after_name = stat.rsplit_once(')')?.1;
    let times: Vec<u64> = after_name
        .split_whitespace()
        .skip(11)
        .map_while(|word| word.parse().ok())
        .collect();
    let [user, system, children_user, children_system] = *times.first_chunk()?;
    Some(user + system + children_user + children_system)
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
            "Meanwhile others used {:.1} % of the processors, and the hypervisor took {:.1} %",
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

    const OWN: &str = "7 (a) b) R 1 1 1 0 -1 0 0 0 0 0 10 5 20 1 20 0 3 0 100 0 0";

    /// Of one CPU.
    fn reading(busy: u64, steal: u64, total: u64, own: &str) -> Reading {
        Reading {
            cpus: vec![Ticks {
                cpu: 0,
                busy,
                softirq: 0,
                steal,
                total,
            }],
            own: own_ticks(own).unwrap(),
        }
    }

    #[test]
    fn what_others_used_is_what_neither_this_process_nor_its_children_did() {
        let before = reading(150, 5, 965, OWN);
        assert_eq!(before.own, 36);
        let own_after = OWN.replace(" 10 5 20 1 ", " 10 5 60 11 ");
        let after = reading(220, 10, 1065, &own_after);
        let found = surroundings(&before, &after).unwrap();
        assert_eq!((found.others, found.steal), (0.2, 0.05));
        assert!(!found.is_quiet() && found.to_string().contains("20.0 %"));
        assert_eq!(surroundings(&after, &after), None);
    }

    #[test]
    fn rubbish_is_no_reading() {
        assert_eq!(own_ticks("7 (a) R 1"), None);
    }

    #[test]
    fn this_machine_can_be_read_and_described() {
        assert!(Reading::now().is_some());
        assert!(describe(SystemTime::UNIX_EPOCH).starts_with("1970-01-01T00:00:00Z, Linux "));
        assert_eq!(time_stamp(SystemTime::UNIX_EPOCH), "19700101T000000000Z");
        assert_eq!(
            model_name("processor : 0\nmodel name\t: AMD EPYC\n"),
            Some("AMD EPYC")
        );
    }

    #[test]
    fn an_amount_of_memory_is_read_by_its_name() {
        let status = "Name:\tcostof\nVmPeak:\t  900 kB\nVmHWM:\t   12034 kB\nRssAnon:\t 110 kB\n";
        assert_eq!(parse_memory_bytes(status, "VmHWM"), Some(12034 * 1024));
        assert_eq!(parse_memory_bytes(status, "RssAnon"), Some(110 * 1024));
        assert_eq!(parse_memory_bytes("Name:\tkthreadd\n", "VmHWM"), None);
        assert!(memory_bytes(std::process::id(), "VmHWM").is_some());
    }

    #[test]
    fn children_are_found_while_they_run() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let found = children(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
