//! The hypervisor and the container around this process.

use costof_model::facts::Virtualization;

use super::cpuid::Cpuid;
use super::roots::{Roots, field, is_word_of};

/// Makers of machines that are none. Source: systemd's `src/basic/virt.c`, DMI table.
const VIRTUAL_MAKERS: &[(&str, &str)] = &[
    ("KVM", "KVM"),
    ("OpenStack", "KVM"),
    ("KubeVirt", "KVM"),
    ("Amazon EC2", "Nitro"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("VMW", "VMware"),
    ("innotek GmbH", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "Hyper-V"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("Google Compute Engine", "KVM"),
];

/// What surrounds this process, and who said so.
pub(super) fn virtualization(roots: &Roots, cpuid: &Cpuid) -> Virtualization {
    let machine_vendor = roots.text("/sys/class/dmi/id/sys_vendor");
    let machine_model = roots.text("/sys/class/dmi/id/product_name").or_else(|| {
        let model = roots.text("/proc/device-tree/model")?;
        Some(model.trim_end_matches('\0').to_owned())
    });
    let by_file = roots
        .text("/sys/hypervisor/type")
        .filter(|kind| kind != "none");
    let flagged = roots
        .start("/proc/cpuinfo", 8 << 10)
        .and_then(|info| field(&info, "flags", ':').map(str::to_owned))
        .map(|flags| is_word_of(&flags, "hypervisor"));
    let bare_metal = flagged == Some(false)
        || machine_model
            .as_ref()
            .is_some_and(|model| model.to_lowercase().contains("metal"));
    let by_firmware = [&machine_vendor, &machine_model]
        .into_iter()
        .flatten()
        .find_map(|told| {
            let known = VIRTUAL_MAKERS
                .iter()
                .find(|(maker, _)| told.starts_with(maker));
            known
                .filter(|_| !bare_metal)
                .map(|(_, hypervisor)| (*hypervisor).to_owned())
        });
    let (hypervisor, source) = match (cpuid.hypervisor.clone(), by_file, by_firmware) {
        (Some(name), _, _) => (Some(name), Some("CPUID leaf 40000000h")),
        (_, Some(name), _) => (Some(name), Some("/sys/hypervisor/type")),
        (_, _, Some(name)) => (Some(name), Some("DMI")),
        _ => (None, None),
    };
    Virtualization {
        virtual_machine: if hypervisor.is_some() {
            Some(true)
        } else {
            flagged
        },
        hypervisor,
        hypervisor_source: source.map(str::to_owned),
        machine_vendor,
        machine_model,
        container: container(roots),
    }
}

/// A sign of a container. A machine started from a container's image keeps the image's marks, so
/// they count only where the kernel's own threads are out of sight.
fn container(roots: &Roots) -> Option<String> {
    if let Some(told) = roots.text("/run/systemd/container") {
        return Some(told);
    }
    let release = roots.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.to_ascii_lowercase().contains("microsoft") {
        return Some("wsl".to_owned());
    }
    let cgroup = roots.text("/proc/self/cgroup").unwrap_or_default();
    let by_cgroup = [
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("libpod", "podman"),
        ("/lxc", "lxc"),
    ]
    .iter()
    .find(|(mark, _)| cgroup.contains(mark));
    if let Some((_, name)) = by_cgroup {
        return Some((*name).to_owned());
    }
    if roots.text("/proc/2/comm").as_deref() == Some("kthreadd") {
        return None;
    }
    [
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
    ]
    .iter()
    .find(|(mark, _)| roots.has(mark))
    .map(|(_, name)| (*name).to_owned())
}
