//! What the control groups around this process allow: the tightest limit of all visible groups.
//! Source: Documentation/admin-guide/cgroup-v2.rst, Documentation/admin-guide/cgroup-v1/.

use costof_model::facts::Cgroup;

use super::folder::{Folder, parsed};

/// v1 writes "no limit" as the largest multiple of a page.
const V1_NO_LIMIT_BYTES: u64 = 1 << 60;

/// The cgroup of this process and what it allows.
pub(super) fn cgroup(root: &Folder) -> Cgroup {
    const MEMBERSHIPS: &str = "/proc/self/cgroup";
    let memberships = root.text(MEMBERSHIPS);
    let mounts = mounts(&root.text("/proc/self/mountinfo").unwrap_or_default());
    let mut cgroup = Cgroup {
        // A kernel without cgroups has no such file; where the file is empty, or nothing is there, it is hidden.
        cpu_hidden: memberships.is_none()
            && (root.has(MEMBERSHIPS) || !root.has("/proc/self/status")),
        ..Cgroup::default()
    };
    let (mut has_v1, mut has_v2) = (false, false);
    let memberships = memberships.unwrap_or_default();
    let lines = memberships.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        parts.next().zip(parts.next())
    });
    let is_cpu = |controllers: &str| controllers.split(',').any(|own| own == "cpu");
    let is_v1_cpu = lines.clone().any(|(controllers, _)| is_cpu(controllers));
    for (controllers, path) in lines {
        // Whether this hierarchy sets the CPU quota.
        let sets_quota = if is_v1_cpu { is_cpu(controllers) } else { controllers.is_empty() };
        let Some(mount) = mounts.iter().find(|mount| mount.serves(controllers)) else {
            cgroup.cpu_hidden |= sets_quota;
            continue;
        };
        let folders = mount.folders(root, path);
        // Outside of what this process's namespace shows, or with something mounted over it.
        let is_seen =
            !path.starts_with("/..") && folders.first().is_some_and(|own| !own.names().is_empty());
        cgroup.cpu_hidden |= sets_quota && !is_seen;
        if controllers.starts_with("name=") {
            continue;
        }
        let is_v2 = controllers.is_empty();
        has_v1 |= !is_v2;
        has_v2 |= is_v2;
        let files = if is_v2 { &V2 } else { &V1 };
        let has = |name: &str| is_v2 || controllers.split(',').any(|own| own == name);
        for folder in folders {
            tighten(&mut cgroup, files, &folder, has);
        }
        let is_known = is_v2 && cgroup.path.is_some();
        if has("cpu") && !is_known {
            cgroup.path = Some(path.to_owned());
        }
    }
    let version = match (has_v1, has_v2) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    };
    Cgroup { version: version.map(str::to_owned), ..cgroup }
}

/// The names of the files of a version.
struct Files {
    quota: &'static str,
    /// In v1, the period has its own file.
    period: Option<&'static str>,
    memory_limits: &'static [&'static str],
    memory_used: &'static str,
    /// The part of the used memory that the kernel drops first: file pages.
    droppable: &'static str,
    weight: &'static str,
    default_weight: f64,
    cpusets: &'static [&'static str],
}

const V1: Files = Files {
    quota: "cpu.cfs_quota_us",
    period: Some("cpu.cfs_period_us"),
    memory_limits: &["memory.limit_in_bytes"],
    memory_used: "memory.usage_in_bytes",
    droppable: "total_inactive_file",
    weight: "cpu.shares",
    default_weight: 1024.0,
    cpusets: &["cpuset.effective_cpus", "cpuset.cpus"],
};

const V2: Files = Files {
    quota: "cpu.max",
    period: None,
    memory_limits: &["memory.max", "memory.high"],
    memory_used: "memory.current",
    droppable: "inactive_file",
    weight: "cpu.weight",
    default_weight: 100.0,
    cpusets: &["cpuset.cpus.effective"],
};

impl Files {
    /// Microseconds of CPU time per period, and the period in microseconds; `Ok(None)` without a
    /// quota (`max`, or −1 in v1; the outermost group has no such file).
    fn quota(&self, folder: &Folder) -> Result<Option<(u64, u64)>, ()> {
        let Some(mut text) = folder.text(self.quota) else {
            return if folder.has(self.quota) { Err(()) } else { Ok(None) };
        };
        if let Some(period) = self.period {
            text = format!("{text} {}", folder.text(period).unwrap_or_default());
        }
        let (quota, period) = text.split_once(' ').ok_or(())?;
        if ["max", "-1"].contains(&quota) {
            return Ok(None);
        }
        match (quota.parse(), period.trim().parse()) {
            (Ok(quota), Ok(period)) if period > 0 => Ok(Some((quota, period))),
            _ => Err(()),
        }
    }

    /// The memory that a group uses, minus the file pages that the kernel drops first.
    fn used_bytes(&self, folder: &Folder) -> Option<u64> {
        let used: u64 = folder.value(self.memory_used)?;
        let stat = folder.text("memory.stat").unwrap_or_default();
        let droppable = parsed(&stat, self.droppable, ' ').unwrap_or(0);
        Some(used.saturating_sub(droppable))
    }
}

/// Adds the limits of the next outer group, whose files are in this folder. Of limits, the smallest
/// counts; of other values, that of the innermost group.
fn tighten(cgroup: &mut Cgroup, files: &Files, folder: &Folder, has: impl Fn(&str) -> bool) {
    if has("cpu") {
        let quota = files.quota(folder);
        cgroup.cpu_hidden |= quota.is_err();
        if let Ok(Some((quota_us, period_us))) = quota {
            let cpus = quota_us as f64 / period_us as f64;
            if cgroup.cpu_quota_cpus.is_none_or(|least| cpus < least) {
                let stat = folder.text("cpu.stat").unwrap_or_default();
                cgroup.cpu_quota_cpus = Some(cpus);
                cgroup.cpu_quota_file = Some(folder.path(files.quota));
                cgroup.cpu_quota_period_ns = period_us.checked_mul(1000);
                cgroup.cpu_throttled_count = parsed(&stat, "nr_throttled", ' ');
            }
        }
        let weight = || Some(folder.value::<f64>(files.weight)? * 100.0 / files.default_weight);
        cgroup.cpu_weight = cgroup.cpu_weight.or_else(weight);
    }
    if has("cpuset") && cgroup.cpuset.is_none() {
        let mut cpusets = files.cpusets.iter().map(|file| folder.set(file));
        cgroup.cpuset = cpusets.find(|cpus| !cpus.is_empty());
    }
    if has("memory") {
        let limits = files.memory_limits.iter().filter_map(|file| folder.value(file));
        if let Some(limit) = limits.filter(|limit: &u64| *limit < V1_NO_LIMIT_BYTES).min() {
            let left = limit.saturating_sub(files.used_bytes(folder).unwrap_or(0));
            let left = cgroup.memory_left_bytes().unwrap_or(left).min(left);
            let limit = cgroup.memory_limit_bytes.unwrap_or(limit).min(limit);
            cgroup.memory_limit_bytes = Some(limit);
            cgroup.memory_used_bytes = Some(limit.saturating_sub(left));
        }
    }
}

/// A mounted hierarchy.
struct Mount {
    /// The controllers of v1; none for v2.
    controllers: Option<Vec<String>>,
    /// The group that the mount point shows.
    root: String,
    point: String,
}

impl Mount {
    /// Whether a line of `/proc/self/cgroup` with these controllers refers to this hierarchy.
    fn serves(&self, controllers: &str) -> bool {
        let Some(own) = &self.controllers else {
            return controllers.is_empty();
        };
        let has = |name: &str| own.iter().any(|option| option == name);
        !controllers.is_empty() && controllers.split(',').all(has)
    }

    /// The folders from the process's group up to the highest visible group.
    fn folders(&self, root: &Folder, path: &str) -> Vec<Folder> {
        let below = match self.root.as_str() {
            "/" => path,
            root => path.strip_prefix(root).unwrap_or("/"),
        };
        let mut folders = vec![root.folder(&self.point)];
        // A group outside this namespace's root starts with ".." and is not visible.
        let names = below.split('/').filter(|name| !name.is_empty());
        for name in names.take_while(|name| *name != "..") {
            let inner = folders[folders.len() - 1].folder(name);
            folders.push(inner);
        }
        folders.reverse();
        folders
    }
}

fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(3);
            let (root, point) = (mount.next()?.to_owned(), mount.next()?.to_owned());
            let mut file_system = file_system.split(' ');
            let controllers = match file_system.next()? {
                "cgroup2" => None,
                "cgroup" => Some(file_system.nth(1)?.split(',').map(str::to_owned).collect()),
                _ => return None,
            };
            Some(Mount { controllers, root, point })
        })
        .collect()
}

/// For how many nanoseconds the quota has throttled a group so far, from its `cpu.stat`:
/// `throttled_usec` in v2, `throttled_time` in v1.
pub(super) fn throttled_ns(stat: &str) -> Option<f64> {
    parsed(stat, "throttled_usec", ' ')
        .map(|us: f64| us * 1000.0)
        .or_else(|| parsed(stat, "throttled_time", ' '))
}
