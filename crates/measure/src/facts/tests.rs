//! Facts of machines other than this one, read from trees of files as those machines have them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use costof_model::facts::Facts;
use serde_json::{Value, json};

use super::cpuid::Cpuid;
use super::{dmi, folder::Folder, gather_from};

/// A machine's files in a folder of their own, which vanishes with it.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("costof-{}-{count}", std::process::id());
        let root = std::env::temp_dir().join(name);
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        fs::write(self.path(path), bytes).unwrap();
    }

    fn facts(&self) -> Facts {
        gather_from(&Folder::copied(&self.root), &Cpuid::default())
    }

    /// Adds the files that a description of a machine lists, by lines of these forms:
    ///
    /// ```text
    /// # a comment
    /// /a/file its only line
    /// /a/file
    /// | one of its lines
    /// /a/link -> its target
    /// /folders{0,1}/of/files/
    ///   file in each of them, and its only line
    /// = /a/pointer/into/the/facts "what is expected there", which is not a file
    /// ```
    fn describe(&self, description: &str) {
        let (mut lines_of, mut folders) = (String::new(), Vec::new());
        for line in description.lines() {
            if let Some(more) = line.strip_prefix('|') {
                let before = fs::read_to_string(self.path(&lines_of)).unwrap();
                self.file(&lines_of, format!("{before}{}\n", more.trim()).as_bytes());
            } else if let Some(file) = line.strip_prefix("  ") {
                for folder in &folders {
                    self.one_line(&format!("{folder}{file}"));
                }
            } else if let Some((link, target)) = line.split_once(" -> ") {
                symlink(target, self.path(link)).unwrap();
            } else if line.starts_with('/') && line.ends_with('/') {
                folders = alternatives(line);
            } else if line.starts_with('/') && !line.contains(' ') {
                line.clone_into(&mut lines_of);
                self.file(line, b"");
            } else if line.starts_with('/') {
                self.one_line(line);
            }
        }
    }

    /// Adds a file of one line: its path, a blank, and the text, where `\0` stands for that byte.
    fn one_line(&self, line: &str) {
        let (path, text) = line.split_once(' ').unwrap();
        let text = text.replace("\\0", "\0");
        self.file(path, format!("{text}\n").as_bytes());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// `a{0,1}b` is `a0b` and `a1b`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (each, after) = rest.split_once('}').unwrap();
    let paths = each.split(',').map(|one| format!("{before}{one}{after}"));
    paths.collect()
}

/// The facts as JSON, with what is derived from them.
fn shown(facts: &Facts) -> Value {
    let mut shown = serde_json::to_value(facts).unwrap();
    shown["derived"] = json!({
        "available_bytes": facts.available_bytes(),
        "has_performance_unit": facts.has_performance_unit(),
        "l1_of_cpu_0": facts.claimed_cache_of(1, 0),
        "l2_of_cpu_5": facts.claimed_cache_of(2, 5),
        "last_level_cache": facts.last_level_cache(),
    });
    shown
}

const MACHINES: [(&str, &str); 5] = [
    ("aarch64_board", include_str!("machines/aarch64_board.txt")),
    ("container", include_str!("machines/container.txt")),
    (
        "container_under_v1",
        include_str!("machines/container_under_v1.txt"),
    ),
    ("hybrid_laptop", include_str!("machines/hybrid_laptop.txt")),
    (
        "server_of_two_sockets",
        include_str!("machines/server_of_two_sockets.txt"),
    ),
];

#[test]
fn a_machines_facts_are_those_that_its_description_expects() {
    let modules = [
        dmi::tests::module(0x7fff, 32 << 10, 0x1a, 2400, 2133),
        dmi::tests::module(0, 0, 2, 0, 0),
        dmi::tests::end(),
    ];
    for (name, description) in MACHINES {
        let machine = Machine::new();
        machine.describe(description);
        if name == "server_of_two_sockets" {
            machine.file("/sys/firmware/dmi/tables/DMI", &modules.concat());
        }
        let facts = shown(&machine.facts());
        for expected in description
            .lines()
            .filter_map(|line| line.strip_prefix("= "))
        {
            let (pointer, value) = expected.split_once(' ').unwrap();
            let value: Value = serde_json::from_str(value).unwrap();
            // Behind the end of a list there is nothing; a field that does not exist is a mistake.
            let (parent, _) = pointer.rsplit_once('/').unwrap();
            let is_in_list = facts.pointer(parent).is_some_and(Value::is_array);
            let found = facts
                .pointer(pointer)
                .or(is_in_list.then_some(&Value::Null));
            assert_eq!(found, Some(&value), "{name}: {pointer}");
        }
    }
}

#[test]
fn the_time_of_throttling_is_read_from_either_version_of_cgroups() {
    let throttled_ns = super::cgroup::throttled_ns;
    let v2 = throttled_ns("nr_throttled 7\nthrottled_usec 5\n");
    let v1 = throttled_ns("throttled_time 78968963");
    assert_eq!((v2, v1), (Some(5000.0), Some(78_968_963.0)));
}

#[test]
fn a_machine_that_tells_nothing_and_one_that_tells_nonsense() {
    let silent = Machine::new();
    silent.file("/empty", b"");
    let silent = silent.facts();
    assert_eq!(silent, Facts::default());
    let noise = "\u{fffd}-1 : = ) ( \0 0x [ 99999999999999999999,,- kB\n";
    let machine = Machine::new();
    for path in [
        "/proc/cpuinfo",
        "/proc/stat",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/config.gz",
        "/proc/pressure/cpu",
        "/proc/self/auxv",
        "/proc/self/autogroup",
        "/proc/self/cgroup",
        "/proc/self/environ",
        "/proc/self/limits",
        "/proc/self/mountinfo",
        "/proc/self/numa_maps",
        "/proc/self/personality",
        "/proc/self/stat",
        "/proc/self/status",
        "/proc/sys/kernel/osrelease",
        "/sys/block/sda/size",
        "/sys/class/net/eth0/mtu",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/cpu/cpu0/cache/index0/size",
        "/sys/firmware/dmi/tables/DMI",
        "/sys/kernel/mm/hugepages/hugepages-xkB/nr_hugepages",
    ] {
        machine.file(path, noise.as_bytes());
    }
    let facts = machine.facts();
    assert!(facts.cpu.online.is_empty() && facts.disks.is_empty());
    assert_eq!(facts.unread[0].what, "/proc/config.gz");
}

#[test]
fn this_machine_tells_of_itself() {
    let facts = super::gather();
    assert!(!facts.cpu.online.is_empty());
    assert!(facts.memory.total_bytes > facts.memory.page_bytes);
    assert!(facts.kernel.release.is_some() && facts.kernel.boot_id.is_some());
    assert!(facts.inherited.resident_bytes.is_some());
}
