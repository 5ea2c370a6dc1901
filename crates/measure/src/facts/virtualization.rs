//! The hypervisor and the container in which this process runs.

use costof_model::facts::Virtualization;

use super::cpuid::Cpuid;
use super::folder::{Folder, field, is_word_of};

/// Vendor names that mean a virtual machine, and its hypervisor. Source: systemd's
/// `src/basic/virt.c`, DMI table.
const VIRTUAL_MAKERS: &str = include_str!("virtual_makers.txt");

/// What this process runs in.
pub(super) fn virtualization(root: &Folder, cpuid: &Cpuid) -> Virtualization {
    let machine_vendor = root.text("/sys/class/dmi/id/sys_vendor");
    let machine_model = root.text("/sys/class/dmi/id/product_name").or_else(|| {
        let model = root.text("/proc/device-tree/model")?;
        Some(model.trim_end_matches('\0').to_owned())
    });
    let by_file = root.text("/sys/hypervisor/type").filter(|kind| kind != "none");
    let info = root.start("/proc/cpuinfo", 8 << 10).unwrap_or_default();
    let flagged = field(&info, "flags", ':').map(|flags| is_word_of(flags, "hypervisor"));
    let is_metal = |model: &String| model.to_lowercase().contains("metal");
    let bare_metal = flagged == Some(false) || machine_model.as_ref().is_some_and(is_metal);
    let named = |name: &String| {
        let mut makers = VIRTUAL_MAKERS.lines().filter_map(|line| line.split_once(": "));
        let (_, hypervisor) = makers.find(|(maker, _)| name.starts_with(maker))?;
        Some(hypervisor.to_owned())
    };
    let names = [&machine_vendor, &machine_model].into_iter().flatten();
    let by_firmware = names.filter(|_| !bare_metal).find_map(named);
    let hypervisor = cpuid.hypervisor.clone().or(by_file).or(by_firmware);
    Virtualization {
        virtual_machine: hypervisor.as_ref().map(|_| true).or(flagged),
        hypervisor,
        machine_vendor,
        machine_model,
        container: container(root),
    }
}

/// A sign of a container. A machine that booted from a container's image keeps the image's marker
/// files. So they count only if the kernel's own threads are not visible.
fn container(root: &Folder) -> Option<String> {
    if let Some(manager) = root.text("/run/systemd/container") {
        return Some(manager);
    }
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.to_ascii_lowercase().contains("microsoft") {
        return Some("wsl".to_owned());
    }
    let cgroup = root.text("/proc/self/cgroup").unwrap_or_default();
    let by_cgroup =
        [("kubepods", "kubernetes"), ("/docker", "docker"), ("libpod", "podman"), ("/lxc", "lxc")]
            .iter()
            .find(|(mark, _)| cgroup.contains(mark));
    if let Some((_, name)) = by_cgroup {
        return Some((*name).to_owned());
    }
    if root.text("/proc/2/comm").as_deref() == Some("kthreadd") {
        return None;
    }
    [
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
    ]
    .iter()
    .find(|(mark, _)| root.has(mark))
    .map(|(_, name)| (*name).to_owned())
}
