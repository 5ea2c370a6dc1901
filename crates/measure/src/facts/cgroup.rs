//! What the groups around this process allow: the tightest of all that can be seen.
//! Source: Documentation/admin-guide/cgroup-v2.rst, Documentation/admin-guide/cgroup-v1/.

use costof_model::facts::Cgroup;

use super::roots::{Roots, field};

/// v1 writes "no limit" as the largest multiple of a page.
const V1_NO_LIMIT_BYTES: u64 = 1 << 60;

/// The cgroup of this process and what it allows.
pub(super) fn cgroup(roots: &Roots) -> Cgroup {
    let memberships = roots.text("/proc/self/cgroup").unwrap_or_default();
    let mounts = mounts(&roots.text("/proc/self/mountinfo").unwrap_or_default());
    let mut cgroup = Cgroup::default();
    let mut v1 = false;
    let mut v2 = false;
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let Some(mount) = mounts.iter().find(|mount| mount.serves(controllers)) else {
            continue;
        };
        let folders = mount.folders(path);
        match controllers {
            "" => {
                v2 = true;
                v2_limits(roots, &folders, &mut cgroup);
                if cgroup.path.is_none() {
                    cgroup.path = Some(path.to_owned());
                }
            }
            _ if controllers.starts_with("name=") => {}
            _ => {
                v1 = true;
                v1_limits(roots, controllers, &folders, &mut cgroup);
                if controllers.split(',').any(|controller| controller == "cpu") {
                    cgroup.path = Some(path.to_owned());
                }
            }
        }
    }
    let version = match (v1, v2) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    };
    Cgroup {
        version: version.map(str::to_owned),
        ..cgroup
    }
}

/// A mounted hierarchy.
struct Mount {
    /// The controllers of v1; none for v2.
    controllers: Option<Vec<String>>,
    /// The group that is seen at the mount point.
    root: String,
    point: String,
}

impl Mount {
    /// Whether a line of `/proc/self/cgroup` with these controllers speaks of this hierarchy.
    fn serves(&self, controllers: &str) -> bool {
        match &self.controllers {
            None => controllers.is_empty(),
            Some(own) => {
                !controllers.is_empty()
                    && controllers
                        .split(',')
                        .all(|name| own.iter().any(|option| option == name))
            }
        }
    }

    /// The folders from the process's group up to the highest that can be seen.
    fn folders(&self, path: &str) -> Vec<String> {
        let below = match self.root.as_str() {
            "/" => path,
            root => path.strip_prefix(root).unwrap_or("/"),
        };
        let mut folder = self.point.clone();
        let mut folders = vec![folder.clone()];
        // A group outside of this namespace's root is written with "..", and is out of sight.
        let names = below.split('/').filter(|name| !name.is_empty());
        for name in names.take_while(|name| *name != "..") {
            folder = format!("{folder}/{name}");
            folders.push(folder.clone());
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
            Some(Mount {
                controllers,
                root,
                point,
            })
        })
        .collect()
}

fn v2_limits(roots: &Roots, folders: &[String], cgroup: &mut Cgroup) {
    for folder in folders {
        let text = |file: &str| roots.text(&format!("{folder}/{file}"));
        // "max 100000", "50000 100000": quota and period in microseconds.
        if let Some((quota, period)) = text("cpu.max").as_deref().and_then(|m| m.split_once(' ')) {
            add_quota(
                cgroup,
                &format!("{folder}/cpu.max"),
                quota.parse().ok(),
                period.trim().parse().ok(),
                || throttled(&text("cpu.stat")?),
            );
        }
        for file in ["memory.max", "memory.high"] {
            let limit: Option<u64> = text(file).and_then(|limit| limit.parse().ok());
            add_memory_limit(cgroup, limit, || {
                used_bytes(
                    text("memory.current")?,
                    text("memory.stat"),
                    "inactive_file",
                )
            });
        }
        add_task_limit(cgroup, text("pids.max"));
        if cgroup.cpu_weight.is_none() {
            cgroup.cpu_weight = text("cpu.weight").and_then(|weight| weight.parse().ok());
        }
        if cgroup.cpuset.is_none() {
            let cpus = roots.set(&format!("{folder}/cpuset.cpus.effective"));
            cgroup.cpuset = Some(cpus).filter(|cpus| !cpus.is_empty());
        }
    }
}

fn v1_limits(roots: &Roots, controllers: &str, folders: &[String], cgroup: &mut Cgroup) {
    let has = |name: &str| controllers.split(',').any(|controller| controller == name);
    for folder in folders {
        let text = |file: &str| roots.text(&format!("{folder}/{file}"));
        if has("cpu") {
            // −1 is no quota, which does not read as a u64.
            let quota = text("cpu.cfs_quota_us").and_then(|quota| quota.parse().ok());
            let period = text("cpu.cfs_period_us").and_then(|period| period.parse().ok());
            let file = format!("{folder}/cpu.cfs_quota_us");
            add_quota(cgroup, &file, quota, period, || {
                throttled(&text("cpu.stat")?)
            });
            if cgroup.cpu_weight.is_none() {
                let shares: Option<f64> = text("cpu.shares").and_then(|shares| shares.parse().ok());
                cgroup.cpu_weight = shares.map(|shares| shares * 100.0 / 1024.0);
            }
        }
        if has("cpuset") && cgroup.cpuset.is_none() {
            cgroup.cpuset = ["cpuset.effective_cpus", "cpuset.cpus"]
                .iter()
                .map(|file| roots.set(&format!("{folder}/{file}")))
                .find(|cpus| !cpus.is_empty());
        }
        if has("memory") {
            let limit: Option<u64> = text("memory.limit_in_bytes").and_then(|l| l.parse().ok());
            add_memory_limit(
                cgroup,
                limit.filter(|&limit| limit < V1_NO_LIMIT_BYTES),
                || {
                    let stat = text("memory.stat");
                    used_bytes(text("memory.usage_in_bytes")?, stat, "total_inactive_file")
                },
            );
        }
        if has("pids") {
            add_task_limit(cgroup, text("pids.max"));
        }
    }
}

/// Keeps the smallest share of time.
fn add_quota(
    cgroup: &mut Cgroup,
    file: &str,
    quota_us: Option<u64>,
    period_us: Option<u64>,
    throttled: impl FnOnce() -> Option<u64>,
) {
    let (Some(quota_us), Some(period_us)) = (quota_us, period_us) else {
        return;
    };
    if period_us == 0 {
        return;
    }
    let cpus = quota_us as f64 / period_us as f64;
    if cgroup.cpu_quota_cpus.is_none_or(|tightest| cpus < tightest) {
        cgroup.cpu_quota_cpus = Some(cpus);
        cgroup.cpu_quota_file = Some(file.to_owned());
        cgroup.cpu_quota_period_ns = period_us.checked_mul(1000);
        cgroup.cpu_throttled_count = throttled();
    }
}

/// Keeps the smallest limit.
fn add_memory_limit(cgroup: &mut Cgroup, limit: Option<u64>, used: impl FnOnce() -> Option<u64>) {
    let Some(limit) = limit else { return };
    if cgroup
        .memory_limit_bytes
        .is_none_or(|tightest| limit < tightest)
    {
        cgroup.memory_limit_bytes = Some(limit);
        cgroup.memory_used_bytes = used();
    }
}

/// Keeps the smallest limit; `max` is none.
fn add_task_limit(cgroup: &mut Cgroup, limit: Option<String>) {
    let limit: Option<u64> = limit.and_then(|limit| limit.parse().ok());
    cgroup.task_limit = match (cgroup.task_limit, limit) {
        (Some(tightest), Some(limit)) => Some(tightest.min(limit)),
        (tightest, limit) => tightest.or(limit),
    };
}

fn throttled(stat: &str) -> Option<u64> {
    field(stat, "nr_throttled", ' ')?.parse().ok()
}

/// The nanoseconds for which a group's quota has held it back so far, by its
/// `cpu.stat`: `throttled_usec` in v2, `throttled_time` in v1.
pub(super) fn throttled_ns(stat: &str) -> Option<f64> {
    let value = |name| field(stat, name, ' ')?.parse::<f64>().ok();
    value("throttled_usec")
        .map(|us| us * 1000.0)
        .or_else(|| value("throttled_time"))
}

/// What a group uses, less the file pages that the kernel drops first.
fn used_bytes(used: String, stat: Option<String>, droppable: &str) -> Option<u64> {
    let used: u64 = used.parse().ok()?;
    let droppable: u64 = stat
        .and_then(|stat| field(&stat, droppable, ' ')?.parse().ok())
        .unwrap_or(0);
    Some(used.saturating_sub(droppable))
}
