//! Facts that may be shown to strangers.

use super::Facts;

/// Parts of the kernel's command line that change costs and identify nobody.
const COST_PARAMETERS: &str = "\
    clocksource cpuidle.governor cpuidle.off cpuidle_haltpoll.force default_hugepagesz \
    haltpoll.guest_halt_poll_ns hugepages hugepagesz idle intel_idle.max_cstate intel_iommu \
    intel_pstate amd_pstate iommu irqaffinity isolcpus kpti lockdown maxcpus mem mitigations \
    nmi_watchdog nohz nohz_full nokaslr nopti nosmt nosoftlockup nospectre_v1 nospectre_v2 \
    numa_balancing preempt processor.max_cstate psi pti rcu_nocbs retbleed skew_tick \
    spec_store_bypass_disable spectre_v2 threadirqs transparent_hugepage tsc";

impl Facts {
    /// The same without whatever identifies a machine, a person or a network: host name, boot id,
    /// paths (cgroups, mount points, libraries), and every part of the kernel's command line that
    /// is not known to change costs.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        let mut facts = self.clone();
        facts.host_name = None;
        facts.executable = None;
        facts.kernel.boot_id = None;
        facts.kernel.command_line = facts.kernel.command_line.map(|line| cost_parameters(&line));
        facts.inherited.cgroup.path = None;
        facts.inherited.cgroup.cpu_quota_file = None;
        facts.inherited.autogroup = None;
        for value in facts.inherited.environment.values_mut() {
            *value = without_folders(value);
        }
        facts.temporary_folder = None;
        for file_system in &mut facts.file_systems {
            if file_system.mount_point != "/" {
                file_system.mount_point = "…".to_owned();
            }
            file_system.options = without_values(&file_system.options);
        }
        for device in &mut facts.network_devices {
            device.name = without_hardware_address(&device.name);
        }
        for unread in &mut facts.unread {
            unread.what = without_names(&unread.what);
            let last = unread.reason.rsplit(':').next();
            unread.reason = last.unwrap_or("").trim().to_owned();
        }
        facts
    }
}

/// The parts of the kernel's command line that change costs, unless their value is something other
/// than a plain word, number or list.
fn cost_parameters(line: &str) -> String {
    let changes_costs = |part: &&str| {
        let name = part.split('=').next();
        COST_PARAMETERS.split(' ').any(|known| Some(known) == name)
    };
    let parts = line.split_whitespace().take_while(|part| *part != "--");
    parts.filter(changes_costs).collect::<Vec<_>>().join(" ")
}

/// A list of library paths, each reduced to the file's name.
fn without_folders(value: &str) -> String {
    let paths = value.split([':', ' ']);
    let names = paths.map(|path| path.rsplit('/').next().unwrap_or(path));
    names.collect::<Vec<_>>().join(":")
}

/// Mount options; those whose value is a path, an address or a list of these keep only their name.
fn without_values(options: &str) -> String {
    let without_value = |option| match str::split_once(option, '=') {
        Some((name, value)) if value.contains(['/', '.', ':']) => name,
        _ => option,
    };
    let options = options.split(',').map(without_value);
    options.collect::<Vec<_>>().join(",")
}

/// `enx…` names contain the hardware address. Source: systemd.net-naming-scheme(7).
fn without_hardware_address(name: &str) -> String {
    match name.get(..3) {
        Some(prefix @ ("enx" | "wlx" | "wwx")) => format!("{prefix}…"),
        _ => name.to_owned(),
    }
}

/// A file's path without the parts that come from users, containers and hardware addresses.
fn without_names(path: &str) -> String {
    if let Some((before, _)) = path.split_once("/cgroup/") {
        return format!("{before}/cgroup/…");
    }
    let parts: Vec<String> = path.split('/').map(without_hardware_address).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::sample;
    use super::super::{FileSystem, NetworkDevice, Unread};

    #[test]
    fn anonymous_facts_name_nobody() {
        let mut facts = sample();
        let line =
            "root=UUID=secret ip=10.1.2.3 isolcpus=2-3 mitigations=auto,nosmt -- --addr secret";
        facts.kernel.command_line = Some(line.to_owned());
        facts.inherited.cgroup.path = Some("/user.slice/secret".to_owned());
        facts.inherited.cgroup.cpu_quota_file = Some("/sys/fs/cgroup/secret/cpu.max".to_owned());
        facts.inherited.environment =
            BTreeMap::from([("LD_PRELOAD".to_owned(), "/home/secret/libx.so".to_owned())]);
        facts.file_systems = vec![FileSystem {
            mount_point: "/home/secret".to_owned(),
            options: "rw,addr=10.1.2.3,lowerdir=/var/secret,noatime".to_owned(),
            ..FileSystem::default()
        }];
        facts.network_devices =
            vec![NetworkDevice { name: "enx001122334455".to_owned(), ..NetworkDevice::default() }];
        facts.unread = vec![Unread {
            what: "/sys/fs/cgroup/user.slice/secret/cpu.max".to_owned(),
            reason: "permission denied".to_owned(),
        }];
        let anonymous = facts.anonymous();
        let text = serde_json::to_string(&anonymous).unwrap();
        for word in ["secret", "10.1.2.3", "001122334455", "laptop-of"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        let line = anonymous.kernel.command_line.as_deref();
        assert_eq!(line, Some("isolcpus=2-3 mitigations=auto,nosmt"));
        assert_eq!(anonymous.inherited.environment["LD_PRELOAD"], "libx.so");
        let options = &anonymous.file_systems[0].options;
        assert_eq!(options, "rw,addr,lowerdir,noatime");
        assert_eq!(anonymous.cpu, facts.cpu);
    }
}
