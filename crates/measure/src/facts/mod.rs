//! Reads what a machine reports about itself: one file per topic, from `/proc`, `/sys` and CPUID.
//!
//! Nothing here fails: what is not reported is absent, and what the kernel refuses is listed with
//! the reason.
//! Nothing here measures or judges.

mod activity;
mod caches;
mod cgroup;
mod cpu;
mod cpuid;
mod disks;
mod dmi;
mod folder;
mod frequency;
#[cfg(feature = "fuzzing")]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod idle;
mod inherited;
mod kernel;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "tests/machine.rs"]
mod machine;
mod memory;
mod network;
mod numa;
mod virtualization;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use costof_model::facts::{Cache, Cgroup, CpuSet, Facts, Inherited, NumaNode};

use cpuid::Cpuid;
use folder::Folder;

/// Everything that this machine reports about itself. Takes some milliseconds, so call it before anything is
/// measured.
pub fn gather() -> Facts {
    gather_from(&Folder::live(), &Cpuid::read())
}

/// Only what this process inherited: cheap enough for each launch.
pub fn inherited() -> Inherited {
    inherited::inherited(&Folder::live())
}

/// Identifies this boot of this machine, if it can be read.
pub fn boot_id() -> Option<String> {
    kernel::boot_id(&Folder::live())
}

/// Only the caches of one CPU: cheap enough for each launch.
pub fn caches_of(cpu: u32) -> Vec<Cache> {
    let found = caches::caches(&Folder::live(), &CpuSet::from_iter([cpu]));
    if found.is_empty() { Cpuid::read().caches } else { found }
}

/// Only the memory nodes: cheap enough for each launch.
pub fn memory_nodes() -> Vec<NumaNode> {
    numa::nodes(&Folder::live())
}

/// Only the memory that this process can use now, as [`Facts::available_bytes`]; `None` if the kernel does not
/// report it. Cheap enough for each point.
pub fn available_bytes() -> Option<u64> {
    let root = Folder::live();
    let mut facts = Facts::default();
    facts.memory.available_bytes = Some(memory::amount(&root, "MemAvailable")?);
    facts.inherited.cgroup = cgroup::cgroup(&root);
    facts.available_bytes()
}

/// Only the disks and the mounted file systems: cheap enough for each launch.
pub fn storage() -> Facts {
    let root = Folder::live();
    Facts {
        disks: disks::disks(&root),
        file_systems: disks::file_systems(&root),
        ..Facts::default()
    }
}

/// Whether another process traces this one; `None` if that is not known. Reads one small file.
pub(crate) fn traced() -> Option<bool> {
    inherited::tracer(&Folder::live().text("/proc/self/status")?)
}

/// For how long the CPU quota of `cgroup` has throttled its processes so far, in nanoseconds;
/// `None` if there is no quota. Reads one small file.
pub(crate) fn throttled_ns(cgroup: &Cgroup) -> Result<Option<f64>, String> {
    if cgroup.cpu_hidden {
        return Err("its cgroup is hidden".to_owned());
    }
    let folder = cgroup.cpu_quota_file.as_deref().map(Path::new).and_then(Path::parent);
    let Some(file) = folder.map(|folder| folder.join("cpu.stat")) else {
        return Ok(None);
    };
    let stat = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    match cgroup::throttled_ns(&stat) {
        None => Err(format!("{} does not say", file.display())),
        throttled => Ok(throttled),
    }
}

/// Everything that a tree of files and CPUID report about the machine that they belong to.
fn gather_from(root: &Folder, cpuid: &Cpuid) -> Facts {
    let facts = Facts {
        host_name: host_name(root),
        architecture: root.is_live().then(|| std::env::consts::ARCH.to_owned()),
        executable: root.is_live().then(executable).flatten(),
        c_library: root.is_live().then(|| C_LIBRARY.to_owned()),
        cpu: cpu::cpu(root, cpuid),
        numa: numa::nodes(root),
        frequency: frequency::frequency(root),
        idle: idle::idle(root),
        virtualization: virtualization::virtualization(root, cpuid),
        kernel: kernel::kernel(root),
        clock_source: kernel::clock_source(root),
        huge_pages: memory::huge_pages(root),
        memory: memory::memory(root),
        activity: activity::activity(root),
        disks: disks::disks(root),
        file_systems: disks::file_systems(root),
        temporary_folder: root.is_live().then(temporary_folder).flatten(),
        network_devices: network::devices(root),
        performance_units: performance_units(root),
        inherited: inherited::inherited(root),
        unread: Vec::new(),
        run_cpus: Vec::new(),
    };
    Facts { unread: root.unread(), ..facts }
}

/// Variables that name the node of a cluster, whose workers may share a host name or have one for each container:
/// the user's own, and Slurm's.
const NODE_NAMES: [&str; 2] = ["COSTOF_HOST_NAME", "SLURMD_NODENAME"];

fn host_name(root: &Folder) -> Option<String> {
    let node = |variable: &&str| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let node = root.is_live().then(|| NODE_NAMES.iter().find_map(node));
    let live = || root.is_live().then(|| kernel::uname(|uname| uname.nodename()));
    node.flatten().or_else(|| root.text("/proc/sys/kernel/hostname")).or_else(live)
}

const C_LIBRARY: &str = if cfg!(target_env = "musl") { "musl" } else { "glibc" };

fn executable() -> Option<String> {
    std::env::current_exe().ok()?.into_os_string().into_string().ok()
}

/// Where an unnamed temporary file can be created, with symbolic links resolved.
fn temporary_folder() -> Option<String> {
    let folder = costof_os::file::scratch::folder()?.canonicalize().ok()?;
    folder.into_os_string().into_string().ok()
}

/// The kernel always has at least one (`software`), so an empty folder means one that cannot be
/// read.
fn performance_units(root: &Folder) -> Option<Vec<String>> {
    let units = root.folder("/sys/bus/event_source/devices").names();
    (!units.is_empty()).then_some(units)
}
