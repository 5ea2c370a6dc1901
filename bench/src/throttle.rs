//! A control group that gets half of a CPU: this process and all that it starts meanwhile run in it.
//! Nothing outside the group is changed, and it is removed at the end, also when the bench is killed.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v1/cgroups.rst, Documentation/scheduler/sched-bwc.rst
//! and Documentation/admin-guide/cgroup-v2.rst.

use crate::error::{OrCannot, Result, failed};
use crate::load::{Load, Running};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PERIOD_US: u32 = 100_000;
const QUOTA_US: u32 = 50_000;

/// This process is throttled until this is dropped.
pub(crate) struct Throttle {
    /// Where it was before.
    home: PathBuf,
    /// Removes the group.
    remover: Option<Running>,
}

/// The cpu controller's hierarchy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

impl Throttle {
    /// Half of a CPU from now on.
    ///
    /// Errors: there is no cpu controller, or this process may not use it without changing what is not
    /// its own.
    pub(crate) fn half() -> Result<Throttle> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (home, mount, version) =
            find(&read("/proc/self/mounts"), &read("/proc/self/cgroup"))
                .ok_or_else(|| failed("no control group file system is mounted"))?;
        let parent = match version {
            Version::One => home.clone(),
            Version::Two => hands_on_cpu(&home, &mount)?,
        };
        let group = parent.join(format!("costof-bench-{}", std::process::id()));
        let action = format!("use a control group of the bench's own at {}", group.display());
        fs::create_dir(&group).or_cannot(&action)?;
        let remover = Load::Remove { group: group.clone() };
        let remover = remover.start().inspect_err(|_| {
            // Nothing is in it yet; the error that is returned says more than another would.
            let _ = fs::remove_dir(&group);
        })?;
        let throttle = Throttle { home, remover: Some(remover) };
        match version {
            Version::One => fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())
                .and_then(|()| fs::write(group.join("cpu.cfs_quota_us"), QUOTA_US.to_string())),
            Version::Two => fs::write(group.join("cpu.max"), format!("{QUOTA_US} {PERIOD_US}")),
        }
        .and_then(|()| enter(&group))
        .or_cannot(&action)?;
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Err(error) = enter(&self.home) {
            eprintln!("costof-bench stays throttled: {}: {error}", self.home.display());
        }
        if let Some(remover) = self.remover.take() {
            remover.finish();
        }
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// This process's own group, where the hierarchy of the cpu controller is mounted, and which version it
/// is: from /proc/self/mounts and /proc/self/cgroup (cgroups(7)). The second version may lack the
/// controller.
fn find(mounts: &str, own: &str) -> Option<(PathBuf, PathBuf, Version)> {
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, of, options) = (fields.next()?, fields.next()?, fields.next()?);
            let fits = option.is_none_or(|option| options.split(',').any(|one| one == option));
            (of == kind && fits).then(|| PathBuf::from(path))
        })
    };
    let group = |controller: &str| {
        own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = controllers.split(',').any(|one| one == controller);
            is_it.then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let (mount, group, version) = match (mounted("cgroup", Some("cpu")), group("cpu")) {
        (Some(mount), Some(group)) => (mount, group, Version::One),
        _ => (mounted("cgroup2", None)?, group("")?, Version::Two),
    };
    let home = match group.as_str() {
        "" => mount.clone(),
        group => mount.join(group),
    };
    Some((home, mount, version))
}

/// The nearest group from this one up that gives its children the cpu controller.
fn hands_on_cpu(home: &Path, mount: &Path) -> Result<PathBuf> {
    let hands_on = |group: &&Path| {
        let file = fs::read_to_string(group.join("cgroup.subtree_control"));
        file.is_ok_and(|controllers| controllers.split_whitespace().any(|one| one == "cpu"))
    };
    let mut up = home.ancestors().take_while(|group| group.starts_with(mount));
    up.find(hands_on).map(Path::to_owned).ok_or_else(|| {
        failed("no control group around the bench gives its children the cpu controller")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const SECOND: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";

    #[test]
    fn the_cpu_controller_is_found_in_either_version() {
        let found = |mounts, own| {
            find(mounts, own).map(|(home, mount, version)| {
                (home.display().to_string(), mount.display().to_string(), version)
            })
        };
        let first = "/sys/fs/cgroup/cpu,cpuacct".to_owned();
        assert_eq!(
            found(FIRST, "4:cpuset:/x\n3:cpu,cpuacct:/a/b\n0::/c\n"),
            Some((format!("{first}/a/b"), first.clone(), Version::One))
        );
        assert_eq!(found(FIRST, "3:cpu,cpuacct:/\n"), Some((first.clone(), first, Version::One)));
        assert_eq!(
            found(SECOND, "0::/user.slice/one.scope\n"),
            Some((
                "/sys/fs/cgroup/user.slice/one.scope".to_owned(),
                "/sys/fs/cgroup".to_owned(),
                Version::Two
            ))
        );
        assert_eq!(found("proc /proc proc rw 0 0\n", "0::/\n"), None);
        assert_eq!(found(FIRST, ""), None);
    }
}
