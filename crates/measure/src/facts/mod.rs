//! Reading what a machine says of itself: one file a topic, from `/proc`, `/sys` and CPUID.
//!
//! Nothing here fails: what is not told is absent, and what is refused is listed with the reason.
//! Nothing here measures or judges.

mod activity;
mod caches;
mod cgroup;
mod cpu;
mod cpuid;
mod disks;
mod dmi;
mod frequency;
mod idle;
mod inherited;
mod kernel;
mod memory;
mod network;
mod numa;
mod roots;
mod virtualization;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use costof_model::facts::{Cache, Cgroup, CpuSet, Facts, Inherited};

use cpuid::Cpuid;
use roots::Roots;

/// Everything that this machine says of itself. Takes some milliseconds, part of them for starting
/// `ip` (and `ethtool`), so it is called before anything is measured.
pub fn gather() -> Facts {
    gather_from(Roots::live(), &Cpuid::read())
}

/// What this process inherited, without the rest: cheap enough for each launch.
pub fn inherited() -> Inherited {
    inherited::inherited(&Roots::live())
}

/// What names this boot of this machine and no other, where it is to be read.
pub fn boot_id() -> Option<String> {
    kernel::boot_id(&Roots::live())
}

/// The caches of one processor, without the rest: cheap enough for each launch.
pub fn caches_of(cpu: u32) -> Vec<Cache> {
    let found = caches::caches(&Roots::live(), &CpuSet::from_iter([cpu]));
    match found.is_empty() {
        true => Cpuid::read().caches,
        false => found,
    }
}

/// The disks and what is mounted, without the rest: cheap enough for each launch.
pub fn storage() -> Facts {
    let roots = Roots::live();
    Facts {
        disks: disks::disks(&roots),
        file_systems: disks::file_systems(&roots),
        ..Facts::default()
    }
}

/// For how long the processor quota of `cgroup` has held its processes back so far, in nanoseconds;
/// `None` where there is no quota. Reads one small file.
pub(crate) fn throttled_ns(cgroup: &Cgroup) -> Option<f64> {
    let folder = Path::new(cgroup.cpu_quota_file.as_deref()?).parent()?;
    cgroup::throttled_ns(&fs::read_to_string(folder.join("cpu.stat")).ok()?)
}

/// Everything that a tree of files and the processor say of the machine that they belong to.
fn gather_from(roots: Roots, cpuid: &Cpuid) -> Facts {
    let facts = Facts {
        host_name: roots.text("/proc/sys/kernel/hostname"),
        architecture: roots.is_live().then(|| std::env::consts::ARCH.to_owned()),
        cpu: cpu::cpu(&roots, cpuid),
        numa: numa::nodes(&roots),
        frequency: frequency::frequency(&roots),
        idle: idle::idle(&roots),
        virtualization: virtualization::virtualization(&roots, cpuid),
        kernel: kernel::kernel(&roots),
        clock_source: kernel::clock_source(&roots),
        huge_pages: memory::huge_pages(&roots),
        memory: memory::memory(&roots),
        activity: activity::activity(&roots),
        disks: disks::disks(&roots),
        file_systems: disks::file_systems(&roots),
        temporary_folder: roots.is_live().then(temporary_folder).flatten(),
        network_devices: network::devices(&roots),
        performance_units: performance_units(&roots),
        inherited: inherited::inherited(&roots),
        unread: Vec::new(),
        run_cpus: Vec::new(),
    };
    Facts {
        unread: roots.unread(),
        ..facts
    }
}

/// Where a nameless file can be made, without symbolic links.
fn temporary_folder() -> Option<String> {
    let folder = costof_os::file::scratch::folder()?.canonicalize().ok()?;
    folder.into_os_string().into_string().ok()
}

/// The kernel always has some (`software`), so an empty folder is one that cannot be read.
fn performance_units(roots: &Roots) -> Option<Vec<String>> {
    let units = roots.names("/sys/bus/event_source/devices");
    (!units.is_empty()).then_some(units)
}
