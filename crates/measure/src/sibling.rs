//! Which threads run on the other CPUs of a core, as far as the machine shows them.
//!
//! Source: proc_pid_stat(5): state, utime, stime, processor.

use crate::processor_ticks::TICK_NS;
use costof_model::facts::SiblingThread;
use costof_os::process::stat::Stat;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the kernel reports of one thread.
#[derive(Clone, Debug, PartialEq)]
struct Thread {
    pid: u32,
    name: String,
    cpu: usize,
    is_running: bool,
    /// CPU time since it began, in ticks.
    ticks: u64,
}

/// The threads of a machine at one moment, by their ids.
pub struct Threads(BTreeMap<u32, Thread>);

impl Threads {
    /// Reads the threads below this `/proc`, except those that end in the meantime. Allocates, and
    /// reads a file for each thread.
    pub fn read(proc: &Path) -> Threads {
        let mut threads = BTreeMap::new();
        for pid in numbered(proc) {
            let tasks = proc.join(pid.to_string()).join("task");
            for id in numbered(&tasks) {
                let stat = fs::read_to_string(tasks.join(id.to_string()).join("stat"));
                let thread = stat.ok().and_then(|stat| parse(pid, &stat));
                threads.extend(thread.map(|thread| (id, thread)));
            }
        }
        Threads(threads)
    }

    /// Among the threads that were on one of these CPUs, and ran there or had run since `before`,
    /// `ns` nanoseconds ago: the one that used the most CPU time.
    pub fn busiest(&self, before: &Threads, cpus: &[usize], ns: f64) -> Option<SiblingThread> {
        let there = self.0.iter().filter(|(_, thread)| cpus.contains(&thread.cpu));
        let used = there.map(|(id, thread)| {
            let earlier = before.0.get(id).map_or(0, |before| before.ticks);
            (thread, thread.ticks.saturating_sub(earlier))
        });
        let ran = used.filter(|(thread, used)| thread.is_running || *used > 0);
        let (thread, used) = ran.max_by_key(|(_, used)| *used)?;
        Some(SiblingThread {
            cpu: thread.cpu,
            pid: thread.pid,
            name: thread.name.clone(),
            used: (used as f64 * TICK_NS / ns).min(1.0),
        })
    }
}

/// The entries of a folder that are numbers; none if it cannot be read.
fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

fn parse(pid: u32, stat: &str) -> Option<Thread> {
    let stat = Stat::parse(stat)?;
    Some(Thread {
        pid,
        name: stat.name().to_owned(),
        cpu: stat.number(39)?,
        is_running: stat.text(3) == Some("R"),
        ticks: stat.number::<u64>(14)? + stat.number::<u64>(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's line as the kernel writes it.
    fn stat(id: u32, name: &str, state: char, user: u64, system: u64, cpu: usize) -> String {
        format!(
            "{id} ({name}) {state} 1 2 3 0 -1 4194304 5 6 7 8 {user} {system} 0 0 20 0 1 0 99 1000 \
             50 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 0 0 0 0\n"
        )
    }

    /// The threads of a folder that has these, by process and id.
    fn threads(test: &str, stats: &[(u32, u32, String)]) -> Threads {
        let proc =
            std::env::temp_dir().join(format!("costof-sibling-{test}-{}", std::process::id()));
        for (pid, id, stat) in stats {
            let task = proc.join(format!("{pid}/task/{id}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), stat).unwrap();
        }
        // Neither a process nor a thread.
        fs::create_dir_all(proc.join("irq")).unwrap();
        let threads = Threads::read(&proc);
        fs::remove_dir_all(&proc).unwrap();
        threads
    }

    #[test]
    fn the_busiest_thread_of_the_other_cpu_is_named() {
        let before = [
            (7, 7, stat(7, "idler", 'S', 500, 500, 5)),
            (9, 9, stat(9, "make (a) b", 'S', 10, 0, 5)),
            (9, 10, stat(10, "worker", 'R', 100, 3, 5)),
            (11, 11, stat(11, "elsewhere", 'R', 0, 0, 1)),
        ];
        let after = [
            (7, 7, stat(7, "idler", 'S', 500, 500, 5)),
            (9, 9, stat(9, "make (a) b", 'S', 12, 0, 5)),
            (9, 10, stat(10, "worker", 'R', 110, 8, 5)),
            (11, 11, stat(11, "elsewhere", 'R', 30, 0, 1)),
        ];
        let before = threads("before", &before);
        let busiest = |after: &[(u32, u32, String)], cpus: &[usize]| {
            threads("after", after).busiest(&before, cpus, 300e6)
        };
        let expected = SiblingThread { cpu: 5, pid: 9, name: "worker".to_owned(), used: 0.5 };
        assert_eq!(busiest(&after, &[5]), Some(expected));
        assert_eq!(busiest(&after[..2], &[5]).unwrap().name, "make (a) b");
        assert_eq!(busiest(&after[..1], &[5]), None);
        assert_eq!(busiest(&after, &[6]), None);
    }

    #[test]
    fn this_thread_runs() {
        let now = Threads::read(Path::new("/proc"));
        let own = now.0.values().filter(|thread| thread.pid == std::process::id());
        assert!(own.clone().any(|thread| thread.is_running), "{:?}", own.collect::<Vec<_>>());
    }

    /// On a machine whose cores show more than one CPU each, what runs on the other one is named.
    #[test]
    fn what_is_planted_on_a_sibling_is_named() {
        let cpu = crate::facts::gather().cpu;
        let allowed = costof_os::sched::affinity::allowed().unwrap();
        let here = |core: &costof_model::facts::CpuSet| {
            let mut cpus: Vec<usize> = core.iter().map(|cpu| cpu as usize).collect();
            cpus.retain(|cpu| allowed.contains(cpu));
            cpus
        };
        let Some(core) = cpu.cores.iter().map(here).find(|core| core.len() > 1) else {
            eprintln!("skipped: no core here shows two CPUs that this process may use");
            return;
        };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                costof_os::sched::affinity::pin(&core[1..2]).unwrap();
                while !is_over.load(relaxed) {
                    std::hint::spin_loop();
                }
            });
            let before = Threads::read(Path::new("/proc"));
            std::thread::sleep(std::time::Duration::from_millis(500));
            let after = Threads::read(Path::new("/proc"));
            is_over.store(true, relaxed);
            let found = after.busiest(&before, &core[1..2], 500e6);
            assert!(found.is_some(), "CPU {} was busy", core[1]);
        });
    }
}
