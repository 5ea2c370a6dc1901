//! Facts of machines other than this one, read from trees of files as those machines have them.

use costof_model::Facts;
use serde_json::{Value, json};

use super::dmi;
use super::machine::{MACHINES, Machine};

/// The facts as JSON, with what is derived from them.
fn shown(facts: &Facts) -> Value {
    let mut shown = serde_json::to_value(facts).unwrap();
    let usable = facts.usable_cpus();
    let cpus: Vec<usize> = usable.iter().map(|cpu| cpu as usize).collect();
    let first = facts.quietest(&cpus);
    let further = facts.nearest_first(first, &cpus).split_off(1);
    shown["derived"] = json!({
        "available_bytes": facts.available_bytes(),
        "farthest": further.iter().rev().take(2).collect::<Vec<_>>(),
        "first_measured": first,
        "has_performance_unit": facts.has_performance_unit(),
        "l1_of_cpu_0": facts.claimed_cache_of(1, 0),
        "l2_of_cpu_5": facts.claimed_cache_of(2, 5),
        "last_level_cache": facts.last_level_cache(),
        "nearest": further.iter().take(8).collect::<Vec<_>>(),
        "usable_cpus": usable,
    });
    shown
}

#[test]
fn a_machines_facts_are_those_that_its_description_expects() {
    let modules = [
        dmi::tests::module(0x7fff, 32 << 10, 0x1a, 2400, 2133),
        dmi::tests::module(0, 0, 2, 0, 0),
        dmi::tests::end(),
    ];
    let mut wrong = Vec::new();
    for (name, description) in MACHINES {
        let mut machine = Machine::new();
        machine.describe(description);
        if name == "server_of_two_sockets" {
            machine.file("/sys/firmware/dmi/tables/DMI", &modules.concat());
        }
        let (cores, threads) = match name {
            "ampere_server" => (80, 1),
            "server_of_128_cores" => (128, 2),
            _ => (0, 0),
        };
        for core in 0..cores {
            let cpus: Vec<String> =
                (0..threads).map(|thread| (core + thread * cores).to_string()).collect();
            for cpu in &cpus {
                let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
                machine.file(&file, cpus.join(",").as_bytes());
            }
        }
        let facts = shown(&machine.facts());
        for expected in description.lines().filter_map(|line| line.strip_prefix("= ")) {
            let (pointer, value) = expected.split_once(' ').unwrap();
            let value: Value = serde_json::from_str(value).unwrap();
            // Behind the end of a list there is nothing; a field that does not exist is a mistake.
            let (parent, _) = pointer.rsplit_once('/').unwrap();
            let is_in_list = facts.pointer(parent).is_some_and(Value::is_array);
            let found = facts.pointer(pointer).or(is_in_list.then_some(&Value::Null));
            if found != Some(&value) {
                wrong.push(format!("{name}: {pointer} is {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_time_of_throttling_is_read_from_either_version_of_cgroups() {
    let throttled_ns = super::cgroup::throttled_ns;
    let v2 = throttled_ns("nr_throttled 7\nthrottled_usec 5\n");
    let v1 = throttled_ns("throttled_time 78968963");
    assert_eq!((v2, v1), (Some(5000.0), Some(78_968_963.0)));
}

#[test]
fn a_quota_that_may_be_hidden_is_not_none() {
    const MOUNT: &str = "/proc/self/mountinfo 36 25 0:31 / /sys/fs/cgroup rw - cgroup2 none rw\n";
    let is_hidden = |files: &str| {
        let mut machine = Machine::new();
        machine.describe(&format!("/proc/self/status Name: x\n{files}"));
        machine.facts().inherited.cgroup.cpu_hidden
    };
    let own = |group: &str, file: &str| {
        format!("/proc/self/cgroup 0::{group}\n{MOUNT}/sys/fs/cgroup/own/{file}\n")
    };
    for known in [
        // A kernel without cgroups.
        String::new(),
        own("/own", "cpu.max max 100000"),
        own("/own", "cpu.max 50000 100000"),
        own("/own", "cgroup.procs 1"),
    ] {
        assert!(!is_hidden(&known), "{known}");
    }
    for hidden in [
        "/proc/self/cgroup 0::/own\n".to_owned(),
        "/proc/self/cgroup\n".to_owned(),
        own("/other", "cpu.max max 100000"),
        own("/../other", "cpu.max max 100000"),
        own("/own", "cpu.max lots"),
        // The quota is that of version 1, of which nothing is mounted.
        format!(
            "/proc/self/cgroup\n| 1:cpu,cpuacct:/own\n| 0::/own\n{MOUNT}/sys/fs/cgroup/own/cgroup.procs 1\n"
        ),
    ] {
        assert!(is_hidden(&hidden), "{hidden}");
    }
}

#[test]
fn a_machine_that_tells_nothing_and_one_that_tells_nonsense() {
    let mut silent = Machine::new();
    silent.file("/empty", b"");
    let silent = silent.facts();
    // Whether there is a quota is unknown where nothing is known.
    let mut nothing = Facts::default();
    nothing.inherited.cgroup.cpu_hidden = true;
    assert_eq!(silent, nothing);
    let noise = "\u{fffd}-1 : = ) ( \0 0x [ 99999999999999999999,,- kB\n";
    let mut machine = Machine::new();
    for path in [
        "/proc/cpuinfo",
        "/proc/stat",
        "/proc/loadavg",
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/config.gz",
        "/proc/self/auxv",
        "/proc/self/autogroup",
        "/proc/self/cgroup",
        "/proc/self/environ",
        "/proc/self/limits",
        "/proc/self/mountinfo",
        "/proc/self/numa_maps",
        "/proc/self/stat",
        "/proc/self/status",
        "/proc/sys/kernel/osrelease",
        "/sys/block/sda/size",
        "/sys/class/net/eth0/mtu",
        "/sys/devices/system/cpu/online",
        "/sys/devices/system/cpu/cpu0/cache/index0/size",
        "/sys/firmware/dmi/tables/DMI",
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
}

#[test]
fn the_memory_left_is_that_of_the_group_with_the_least() {
    const OWN: &str = "/proc/self/cgroup 0::/pod/own\n\
        /proc/self/mountinfo 36 25 0:31 / /sys/fs/cgroup rw - cgroup2 none rw\n\
        /sys/fs/cgroup/pod/own/memory.max 1000\n/sys/fs/cgroup/pod/own/memory.current 100\n\
        /sys/fs/cgroup/pod/memory.max 4000\n";
    for (used_around, left) in [(0, 900), (3000, 900), (3800, 200), (5000, 0)] {
        let around = format!("/sys/fs/cgroup/pod/memory.current {used_around}\n");
        let mut machine = Machine::new();
        machine.describe(&format!("{OWN}{around}"));
        let cgroup = machine.facts().inherited.cgroup;
        assert_eq!(cgroup.memory_limit_bytes, Some(1000));
        assert_eq!(cgroup.memory_left_bytes(), Some(left), "{used_around}");
    }
}
