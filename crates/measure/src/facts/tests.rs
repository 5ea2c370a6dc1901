//! Facts of machines other than this one, read from trees of files as those machines have them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use costof_model::facts::{CacheKind, DiskKind, Facts, Seccomp};

use super::cpuid::Cpuid;
use super::{dmi, folder::Folder, gather_from};

/// A machine's files in a folder of their own, which vanishes with it.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("costof-{}-{count}", std::process::id());
        let machine = Self {
            root: std::env::temp_dir().join(name),
        };
        for (path, text) in files {
            machine.file(path, text.as_bytes());
        }
        machine
    }

    /// Adds files of one line each: a path, a blank, and the text.
    fn with(self, files: &str) -> Self {
        self.folder("", files);
        self
    }

    /// The same below a folder.
    fn folder(&self, folder: &str, files: &str) {
        for line in files.lines() {
            let (path, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            self.file(&format!("{folder}/{path}"), format!("{text}\n").as_bytes());
        }
    }

    /// One cache of one processor, as sysfs has it: level, type, size, ways and who shares it.
    fn cache(&self, cpu: u32, index: u32, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let [level, kind, size, ways, sharers] = words[..] else {
            panic!("{text}")
        };
        self.folder(
            &format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"),
            &format!(
                "level {level}\ntype {kind}\nsize {size}\nways_of_associativity {ways}\n\
                 shared_cpu_list {sharers}\ncoherency_line_size 64"
            ),
        );
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn facts(&self) -> Facts {
        gather_from(&Folder::copied(&self.root), &Cpuid::default())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Two performance cores of two threads, four efficient ones; intel_pstate in powersave.
fn hybrid_laptop() -> Machine {
    let machine = Machine::new(&[
        (
            "/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 154\n\
             model name\t: 12th Gen Intel(R) Core(TM) i5-1240P\nstepping\t: 3\nmicrocode\t: 0x434\n\
             flags\t\t: fpu tsc constant_tsc nonstop_tsc avx2 erms fsrm hwp ida waitpkg\n\
             bogomips\t: 4224.00\n\nprocessor\t: 1\nmodel name\t: another\n",
        ),
        (
            "/boot/config-6.8.0-45-generic",
            "CONFIG_HZ=1000\nCONFIG_PREEMPT_DYNAMIC=y\n# CONFIG_PREEMPT_RT is not set\n",
        ),
        (
            "/proc/self/mountinfo",
            "27 1 252:0 / / rw,relatime shared:1 - ext4 /dev/mapper/luks-root rw\n\
             30 27 0:5 / /proc rw - proc proc rw\n",
        ),
        (
            "/sys/class/net/wlp0s20f3/uevent",
            "DEVTYPE=wlan\nINTERFACE=wlp0s20f3\n",
        ),
    ])
    .with(
        "\
         /sys/devices/system/cpu/online 0-7\n\
         /sys/devices/system/cpu/isolated\n\
         /sys/devices/system/cpu/nohz_full (null)\n\
         /sys/devices/system/cpu/smt/active 1\n\
         /sys/devices/system/cpu/smt/control on\n\
         /sys/bus/event_source/devices/cpu_core/cpus 0-3\n\
         /sys/bus/event_source/devices/cpu_atom/cpus 4-7\n\
         /sys/bus/event_source/devices/software/type 1\n\
         /sys/devices/system/cpu/intel_pstate/status active\n\
         /sys/devices/system/cpu/intel_pstate/no_turbo 0\n\
         /sys/devices/system/cpu/cpu0/cpufreq/base_frequency 1700000\n\
         /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq 4400000\n\
         /sys/class/power_supply/AC/type Mains\n\
         /sys/class/power_supply/AC/online 0\n\
         /sys/class/power_supply/BAT0/type Battery\n\
         /sys/class/power_supply/BAT0/status Discharging\n\
         /sys/class/power_supply/mouse/type Battery\n\
         /sys/class/power_supply/mouse/scope Device\n\
         /sys/devices/system/cpu/cpuidle/current_driver intel_idle\n\
         /sys/devices/system/cpu/cpuidle/current_governor menu\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state0/name POLL\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state0/latency 0\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state10/name C10\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state10/latency 230\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state10/disable 0\n\
         /sys/devices/system/cpu/cpu0/cpuidle/state2/name C6\n\
         /proc/sys/kernel/osrelease 6.8.0-45-generic\n\
         /sys/block/nvme0n1/size 1000215216\n\
         /sys/block/nvme0n1/dev 259:0\n\
         /sys/block/nvme0n1/nvme0n1p2/dev 259:2\n\
         /sys/block/nvme0n1/queue/rotational 0\n\
         /sys/block/nvme0n1/queue/scheduler [none] mq-deadline\n\
         /sys/block/nvme0n1/device/model Samsung SSD 980 PRO 500GB\n\
         /sys/block/dm-0/size 900000000\n\
         /sys/block/dm-0/dev 252:0\n\
         /sys/block/dm-0/dm/name luks-root\n\
         /sys/block/dm-0/slaves/nvme0n1p2/x\n\
         /sys/block/loop0/size 0\n\
         /sys/class/net/wlp0s20f3/mtu 1500\n\
         /sys/class/net/wlp0s20f3/operstate up\n\
         /sys/class/net/wlp0s20f3/type 1\n\
         /sys/class/net/bonding_masters\n\
         /sys/class/net/wlp0s20f3/queues/tx-0/x\n\
         /sys/class/net/wlp0s20f3/queues/tx-1/x\n\
    ",
    );
    machine.link(
        "/sys/class/net/wlp0s20f3/device/driver",
        "../../../../bus/pci/drivers/iwlwifi",
    );
    for cpu in 0..8u32 {
        let core = match cpu {
            0 | 1 => "0-1".to_owned(),
            2 | 3 => "2-3".to_owned(),
            other => other.to_string(),
        };
        let folder = "/sys/devices/system/cpu";
        machine.folder(
            &format!("{folder}/cpu{cpu}/topology"),
            &format!("core_cpus_list {core}\npackage_cpus_list 0-7"),
        );
        let (first, second, khz) = if cpu < 4 {
            ("48K 12", format!("1280K 10 {core}"), 4_400_000)
        } else {
            ("32K 8", "2048K 10 4-7".to_owned(), 3_300_000)
        };
        machine.cache(cpu, 0, &format!("1 Data {first} {core}"));
        machine.cache(cpu, 2, &format!("2 Unified {second}"));
        machine.cache(cpu, 3, "3 Unified 12288K 12 0-7");
        machine.folder(
            &format!("{folder}/cpufreq/policy{cpu}"),
            &format!(
                "affected_cpus {cpu}\nscaling_driver intel_pstate\nscaling_governor powersave\n\
                 energy_performance_preference balance_power\nscaling_max_freq {khz}\n\
                 cpuinfo_max_freq {khz}"
            ),
        );
    }
    machine
}

#[test]
fn a_hybrid_laptop_on_battery() {
    let facts = hybrid_laptop().facts();
    let cpu = &facts.cpu;
    let name = "12th Gen Intel(R) Core(TM) i5-1240P";
    assert_eq!(cpu.model_name.as_deref(), Some(name));
    assert_eq!(
        (cpu.logical_count, cpu.physical_count, cpu.socket_count),
        (Some(8), Some(6), Some(1))
    );
    assert_eq!(
        (cpu.smt_active, cpu.tsc_invariant),
        (Some(true), Some(true))
    );
    assert!(cpu.tickless.is_empty());
    let kinds = cpu.core_kinds.iter();
    let kinds = kinds.map(|kind| format!("{} {}", kind.name, kind.cpus));
    assert_eq!(kinds.collect::<Vec<_>>(), ["core 0-3", "atom 4-7"]);
    let unit = cpu.core_kinds[1].performance_unit.as_deref();
    assert_eq!(unit, Some("cpu_atom"));
    assert_eq!(facts.has_performance_unit(), Some(true));
    assert_eq!(facts.claimed_cache_of(1, 0).unwrap().size_bytes, 48 << 10);
    assert_eq!(facts.claimed_cache_of(2, 5).unwrap().size_bytes, 2048 << 10);
    assert_eq!(facts.claimed_cache_of(2, 5).unwrap().shared_by.len(), 1);
    assert_eq!(facts.last_level_cache().unwrap().size_bytes, 12 << 20);
    assert_eq!(cpu.tsc.as_ref().unwrap().hz, 2_112_000_000);
    assert_eq!(cpu.base.as_ref().unwrap().hz, 1_700_000_000);
    assert_eq!(cpu.max.as_ref().unwrap().hz, 4_400_000_000);
    let frequency = &facts.frequency;
    assert_eq!(frequency.driver.as_deref(), Some("intel_pstate"));
    assert_eq!(
        (frequency.turbo_enabled, frequency.on_battery),
        (Some(true), Some(true))
    );
    assert_eq!(frequency.policies.len(), 2);
    assert_eq!(frequency.policies[0].cpus.to_string(), "0-3");
    assert_eq!(frequency.policies[1].governor.as_deref(), Some("powersave"));
    let states = facts.idle.states.iter().map(|state| state.name.as_str());
    assert_eq!(states.collect::<Vec<_>>(), ["POLL", "C6", "C10"]);
    assert_eq!(facts.idle.states[2].exit_latency_ns, Some(230_000));
    assert_eq!(facts.kernel.config["HZ"], "1000");
    assert_eq!(facts.kernel.config["PREEMPT_RT"], "n");
    assert_eq!(facts.virtualization.virtual_machine, Some(false));
    let disks: Vec<DiskKind> = facts.disks.iter().map(|disk| disk.kind).collect();
    assert_eq!(disks, [DiskKind::Mapped, DiskKind::Nvme]);
    assert_eq!(facts.disks[0].parts, ["nvme0n1p2"]);
    assert_eq!(facts.disks[1].size_bytes, Some(1_000_215_216 * 512));
    assert_eq!(facts.file_systems[0].disk.as_deref(), Some("dm-0"));
    let [wireless] = facts.network_devices.as_slice() else {
        panic!("one device")
    };
    assert_eq!(wireless.kind.as_deref(), Some("wlan"));
    assert_eq!(wireless.driver.as_deref(), Some("iwlwifi"));
    assert_eq!(
        (wireless.send_queue_count, wireless.speed_bits_per_s),
        (Some(2), None)
    );
}

#[test]
fn a_server_of_two_sockets_with_smt_and_a_performance_unit() {
    let machine = Machine::new(&[
        (
            "/proc/cpuinfo",
            "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 79\n\
             model name : Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz\nflags : tsc constant_tsc nonstop_tsc\n",
        ),
    ]).with("\
         /sys/devices/system/cpu/online 0-7\n\
         /sys/devices/system/cpu/vulnerabilities/meltdown Mitigation: PTI\n\
         /sys/bus/event_source/devices/cpu/type 4\n\
         /sys/devices/system/node/node0/cpulist 0-1,4-5\n\
         /sys/devices/system/node/node0/meminfo Node 0 MemTotal:       65842036 kB\n\
         /sys/devices/system/node/node0/distance 10 21\n\
         /sys/devices/system/node/node1/cpulist 2-3,6-7\n\
         /sys/devices/system/node/node10/cpulist\n\
         /sys/devices/system/node/possible 0-1\n\
         /sys/devices/system/clocksource/clocksource0/current_clocksource hpet\n\
         /sys/devices/system/clocksource/clocksource0/available_clocksource hpet acpi_pm\n\
         /sys/class/dmi/id/sys_vendor Dell Inc.\n\
         /sys/class/dmi/id/product_name PowerEdge R630\n\
         /proc/stat cpu  10 0 10 80 0 0 0 0 0 0\n\
         /proc/loadavg 0.50 0.25 0.10 1/200 4321\n\
         /sys/block/sda/size 7814037168\n\
         /sys/block/sda/queue/rotational 1\n\
         /sys/block/md0/size 7813772992\n\
         /sys/block/md0/md/level raid1\n\
         /sys/block/md0/slaves/sda1/x\n\
         /sys/block/md0/slaves/sdb1/x\n\
         /sys/class/net/eno1/mtu 9000\n\
         /sys/class/net/eno1/speed 10000\n\
         /sys/class/net/eno2/mtu 1500\n\
         /sys/class/net/eno2/speed -1\n\
    ");
    for cpu in 0..8u32 {
        let core = format!("{},{}", cpu % 4, cpu % 4 + 4);
        let socket = if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
        machine.folder(
            &format!("/sys/devices/system/cpu/cpu{cpu}/topology"),
            &format!("thread_siblings_list {core}\ncore_siblings_list {socket}"),
        );
        machine.cache(cpu, 0, &format!("1 Data 32K 8 {core}"));
        machine.cache(cpu, 1, &format!("1 Instruction 32K 8 {core}"));
        machine.cache(cpu, 3, &format!("3 Unified 35M 20 {socket}"));
    }
    let modules = [
        dmi::tests::module(0x7fff, 32 << 10, 0x1a, 2400, 2133),
        dmi::tests::module(0, 0, 2, 0, 0),
        dmi::tests::end(),
    ];
    machine.file("/sys/firmware/dmi/tables/DMI", &modules.concat());
    let facts = machine.facts();
    let cpu = &facts.cpu;
    assert_eq!((cpu.physical_count, cpu.socket_count), (Some(4), Some(2)));
    assert_eq!(cpu.cores[0].to_string(), "0,4");
    assert_eq!(cpu.base.as_ref().unwrap().source, "model name");
    assert_eq!(cpu.vulnerabilities["meltdown"], "Mitigation: PTI");
    assert!(cpu.core_kinds.is_empty());
    assert_eq!(cpu.caches.len(), 3);
    let last = facts.last_level_cache().unwrap();
    assert_eq!((last.size_bytes, last.shared_by.len()), (35 << 20, 2));
    assert_eq!(cpu.caches[1].kind, CacheKind::Instruction);
    let nodes = facts.numa.iter().map(|node| node.id);
    assert_eq!(nodes.collect::<Vec<_>>(), [0, 1, 10]);
    assert_eq!(facts.numa[0].distances, [10, 21]);
    assert_eq!(facts.numa[0].total_bytes, Some(65_842_036 << 10));
    assert_eq!(facts.has_performance_unit(), Some(true));
    assert_eq!(facts.clock_source.current.as_deref(), Some("hpet"));
    assert_eq!(facts.virtualization.virtual_machine, Some(false));
    let transfers = facts.memory.dimms[0].configured_transfers_per_s;
    assert_eq!(transfers, Some(2_133_000_000));
    assert_eq!(
        (facts.memory.dimms.len(), facts.memory.channel_count),
        (1, Some(1))
    );
    assert_eq!(facts.activity.load_1min, Some(0.5));
    let array = facts.disks.iter().find(|disk| disk.name == "md0").unwrap();
    assert_eq!(
        (array.kind, array.raid.as_deref()),
        (DiskKind::Raid, Some("raid1"))
    );
    assert_eq!(array.parts, ["sda1", "sdb1"]);
    let speeds = facts
        .network_devices
        .iter()
        .map(|device| device.speed_bits_per_s);
    assert_eq!(speeds.collect::<Vec<_>>(), [Some(10_000_000_000), None]);
}

#[test]
fn an_aarch64_board_with_two_kinds_of_cores() {
    let block = "BogoMIPS\t: 48.00\nFeatures\t: fp asimd crc32 atomics\nCPU implementer\t: 0x41\n\
                 CPU architecture: 8\nCPU variant\t: 0x2\nCPU part\t: 0xd05\nCPU revision\t: 0\n\n";
    let machine = Machine::new(&[
        (
            "/proc/cpuinfo",
            &format!("processor\t: 0\n{block}processor\t: 1\n{block}"),
        ),
        ("/proc/device-tree/model", "Radxa ROCK 5B\0"),
    ])
    .with(
        "\
         /sys/devices/system/cpu/online 0-2\n\
         /sys/devices/system/clocksource/clocksource0/current_clocksource arch_sys_counter\n\
         /sys/bus/event_source/devices/armv8_cortex_a55/cpus 0-1\n\
         /sys/bus/event_source/devices/armv8_cortex_a76/cpus 2\n\
         /sys/bus/event_source/devices/arm_dsu_0/cpumask 0\n\
         /sys/block/mmcblk0/size 1000\n\
         /sys/devices/system/cpu/cpufreq/boost 0\n\
    ",
    );
    for (cpu, midr, capacity) in [
        (0, "0x00000000412fd050", "530"),
        (1, "0x00000000412fd050", "530"),
        (2, "0x00000000414fd0b0", "1024"),
    ] {
        machine.folder(
            &format!("/sys/devices/system/cpu/cpu{cpu}"),
            &format!("regs/identification/midr_el1 {midr}\ncpu_capacity {capacity}"),
        );
    }
    let facts = machine.facts();
    let cpu = &facts.cpu;
    assert_eq!(
        (cpu.vendor.as_deref(), cpu.model_name.as_deref()),
        (Some("ARM"), Some("Cortex-A55"))
    );
    assert_eq!(cpu.flags, ["asimd", "atomics", "crc32"]);
    assert_eq!(
        (cpu.tsc_invariant, cpu.tsc.as_ref().unwrap().hz),
        (Some(true), 24_000_000)
    );
    let names = cpu.core_kinds.iter().map(|kind| kind.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["Cortex-A76", "Cortex-A55"]);
    let unit = cpu.core_kinds[0].performance_unit.as_deref();
    assert_eq!(unit, Some("armv8_cortex_a76"));
    assert_eq!(cpu.core_kinds[1].capacity, Some(530));
    assert_eq!(facts.has_performance_unit(), Some(true));
    let model = facts.virtualization.machine_model.as_deref();
    assert_eq!(model, Some("Radxa ROCK 5B"));
    assert_eq!(facts.virtualization.virtual_machine, None);
    assert_eq!(facts.frequency.turbo_enabled, Some(false));
    assert_eq!(facts.disks[0].kind, DiskKind::Mmc);
    assert!(cpu.caches.is_empty());
}

#[test]
fn a_container_of_half_a_processor() {
    let machine = Machine::new(&[
        (
            "/proc/self/mountinfo",
            "600 590 0:50 / / rw - overlay overlay rw,lowerdir=/a\n\
             610 600 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n",
        ),
        (
            "/sys/fs/cgroup/cpu.stat",
            "usage_usec 5\nnr_periods 10\nnr_throttled 7\n",
        ),
        (
            "/sys/fs/cgroup/memory.stat",
            "anon 5\ninactive_file 100000000\n",
        ),
        (
            "/proc/meminfo",
            "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n",
        ),
        (
            "/proc/self/status",
            "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\nCapEff:\t00000000a80425fb\n\
             Uid:\t0\t1000\t0\t0\nCpus_allowed_list:\t0-3\nVmRSS:\t  100 kB\nTHP_enabled:\t1\n",
        ),
        (
            "/proc/self/environ",
            "PATH=/bin\0MALLOC_ARENA_MAX=1\0LD_PRELOAD=/x.so\0SECRET=1\0",
        ),
    ]).with("\
         /.dockerenv\n\
         /proc/2/comm bash\n\
         /proc/self/cgroup 0::/inner\n\
         /sys/fs/cgroup/cpu.max 50000 100000\n\
         /sys/fs/cgroup/inner/cpu.max max 100000\n\
         /sys/fs/cgroup/inner/cpu.weight 79\n\
         /sys/fs/cgroup/cpuset.cpus.effective 0-1\n\
         /sys/fs/cgroup/memory.max 536870912\n\
         /sys/fs/cgroup/memory.current 200000000\n\
         /sys/fs/cgroup/pids.max max\n\
         /proc/self/personality 00040000\n\
         /proc/sys/kernel/randomize_va_space 2\n\
    ");
    let facts = machine.facts();
    assert_eq!(facts.virtualization.container.as_deref(), Some("docker"));
    let inherited = &facts.inherited;
    let cgroup = &inherited.cgroup;
    assert_eq!(
        (cgroup.version.as_deref(), cgroup.path.as_deref()),
        (Some("v2"), Some("/inner"))
    );
    assert_eq!(
        (cgroup.cpu_quota_cpus, cgroup.cpu_throttled_count),
        (Some(0.5), Some(7))
    );
    assert_eq!(cgroup.cpu_quota_period_ns, Some(100_000_000));
    let throttled_ns = super::cgroup::throttled_ns;
    let v2 = throttled_ns("nr_throttled 7\nthrottled_usec 5\n");
    let v1 = throttled_ns("throttled_time 78968963");
    assert_eq!((v2, v1), (Some(5000.0), Some(78_968_963.0)));
    assert_eq!((cgroup.cpu_weight, cgroup.task_limit), (Some(79.0), None));
    assert_eq!(facts.available_bytes(), Some(536_870_912 - 100_000_000));
    assert_eq!(inherited.seccomp, Some(Seccomp::Filter));
    assert_eq!(
        (inherited.no_new_privileges, inherited.effective_user),
        (Some(true), Some(1000))
    );
    assert_eq!(inherited.capabilities, Some(vec!["net_raw".to_owned()]));
    let names: Vec<&String> = inherited.environment.keys().collect();
    assert_eq!(names, ["LD_PRELOAD", "MALLOC_ARENA_MAX"]);
    assert_eq!(inherited.address_randomized, Some(false));
    assert_eq!(facts.file_systems.len(), 1);
}

#[test]
fn a_container_under_v1_whose_group_is_mounted_as_the_root() {
    let machine = Machine::new(&[
        (
            "/proc/self/cgroup",
            "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        ),
        (
            "/proc/self/mountinfo",
            "50 40 0:31 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             51 40 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        ),
    ])
    .with(
        "\
         /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us 150000\n\
         /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us 100000\n\
         /sys/fs/cgroup/cpu,cpuacct/cpu.shares 512\n\
         /sys/fs/cgroup/memory/memory.limit_in_bytes 9223372036854771712\n\
    ",
    );
    let facts = machine.facts();
    let cgroup = &facts.inherited.cgroup;
    assert_eq!(cgroup.version.as_deref(), Some("v1"));
    assert_eq!(
        (cgroup.cpu_quota_cpus, cgroup.cpu_weight),
        (Some(1.5), Some(50.0))
    );
    assert_eq!(cgroup.memory_limit_bytes, None);
    assert_eq!(facts.virtualization.container.as_deref(), Some("docker"));
}

#[test]
fn a_machine_that_tells_nothing_and_one_that_tells_nonsense() {
    let silent = Machine::new(&[("/empty", "")]).facts();
    assert_eq!(silent, Facts::default());
    let noise = "\u{fffd}-1 : = ) ( \0 0x [ 99999999999999999999,,- kB\n";
    let paths = [
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
    ];
    let machine = Machine::new(&paths.map(|path| (path, noise)));
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
