//! A control group of this process's own, which is removed when it is dropped, or when the process is killed.
//!
//! Source: cgroups(7); Linux Documentation/admin-guide/cgroup-v2.rst, cpu.max; scheduler/sched-bwc.rst, cpu.cfs_burst_us (Linux 5.14).

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::child::{Child, close_from, exit_at_once};
use crate::sched::affinity;
use crate::system_call::{unsupported, with_context};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::stdio::{dup2_stdin, stdin};

/// A control group that limits this process's CPU time until it is dropped: below the one that the process is in, or, where
/// version 2 forbids that, beside it or one of those around it.
#[derive(Debug)]
pub struct QuotaGroup {
    folder: PathBuf,
    /// `cgroup.procs` of the group that this process was in.
    home: File,
    /// Where this process may run. On version 2, each move to another group lets it run on all CPUs of that group.
    cpus: Vec<u64>,
    remover: Option<Child>,
}

/// CPU time that a group may use, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// In each period.
    pub quota_us: u64,
    /// A period.
    pub period_us: u64,
    /// How much of what earlier periods have left unused may be used in addition (Linux 5.14).
    pub burst_us: u64,
}

impl QuotaGroup {
    /// Makes a group with this quota, and moves this process into it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if no group around this process gives its children the controller; those of opening `cgroup.procs` of
    /// the group that it would return to; those of mkdir(2) with the folder
    /// (`EACCES`, in a container `EROFS`), and of writing its files: `ENOENT` where the kernel has no such file, `EINVAL` for a
    /// burst beyond the quota, or if a group around it allows less.
    pub fn enter(quota: Quota) -> io::Result<Self> {
        let Quota { quota_us, period_us, burst_us } = quota;
        let process = getpid().as_raw_pid().to_string();
        let memberships = fs::read_to_string("/proc/self/cgroup")?;
        let (parent, home, is_v1) =
            place(Path::new("/sys/fs/cgroup"), &memberships).ok_or_else(|| {
                unsupported("no control group around this process gives its children `cpu`")
            })?;
        let cpus = affinity::set(&affinity::allowed()?)?;
        let path = home.join(PROCESSES);
        let home = File::options().write(true).open(&path).map_err(|error| {
            with_context(format_args!("cannot return to the group of {}", path.display()), error)
        })?;
        let folder = parent.join(format!("costof-{process}"));
        fs::create_dir(&folder).map_err(|error| {
            with_context(format_args!("cannot make the control group {}", folder.display()), error)
        })?;
        let remover = start_remover(&folder).inspect_err(|_| {
            let _ = fs::remove_dir(&folder);
        })?;
        let group = Self { folder, home, cpus, remover: Some(remover) };
        let (mut files, burst) = if is_v1 {
            let period = ("cpu.cfs_period_us", period_us.to_string());
            (vec![period, ("cpu.cfs_quota_us", quota_us.to_string())], "cpu.cfs_burst_us")
        } else {
            (vec![("cpu.max", format!("{quota_us} {period_us}"))], "cpu.max.burst")
        };
        if burst_us > 0 {
            files.push((burst, burst_us.to_string()));
        }
        files.push((PROCESSES, process));
        for (file, content) in files {
            let path = group.folder.join(file);
            fs::write(&path, &content).map_err(|error| {
                with_context(format_args!("cannot write {content} to {}", path.display()), error)
            })?;
        }
        affinity::pin_to(&group.cpus)?;
        Ok(group)
    }

    /// In how many periods it was stopped because it had used its quota.
    ///
    /// # Errors
    ///
    /// `InvalidData` if `cpu.stat` does not say so; those of reading it.
    pub fn throttled_periods(&self) -> io::Result<u64> {
        let stat = fs::read_to_string(self.folder.join("cpu.stat"))?;
        let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        line.and_then(|count| count.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        let _ = self.home.write_all(getpid().as_raw_pid().to_string().as_bytes());
        let _ = affinity::pin_to(&self.cpus);
        let path = CString::new(self.folder.as_os_str().as_encoded_bytes());
        if !path.is_ok_and(|path| remove(&path)) {
            // It tries again when this process has ended.
            std::mem::forget(self.remover.take());
        }
    }
}

/// The file that lists a group's processes, and takes one that moves there.
const PROCESSES: &str = "cgroup.procs";

/// The group in which one with the controller `cpu` can be made, that of this process, and whether they are of version 1.
fn place(root: &Path, memberships: &str) -> Option<(PathBuf, PathBuf, bool)> {
    let mut groups = memberships.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        Some((controllers, path.trim_start_matches('/')))
    });
    let is_its = |(own, _): &(&str, &str)| own.split(',').any(|own| own == "cpu");
    if let Some((_, path)) = groups.clone().find(is_its) {
        let mount = root.join("cpu");
        let own = seen(mount, path);
        return Some((own.clone(), own, true));
    }
    let (_, path) = groups.find(|(controllers, _)| controllers.is_empty())?;
    let own = seen(root.to_owned(), path);
    // A group that has processes itself gives its children no controllers, except the outermost one.
    let mut around = own.ancestors().take_while(|folder| folder.starts_with(root));
    let parent = around.find(|folder| {
        let given = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        given.split_whitespace().any(|given| given == "cpu")
    })?;
    Some((parent.to_owned(), own, false))
}

/// The group of this path. A container sees its own group as the outermost one, whatever the path.
fn seen(outermost: PathBuf, path: &str) -> PathBuf {
    Some(outermost.join(path)).filter(|own| own.is_dir()).unwrap_or(outermost)
}

/// Starts a process that removes the folder when this process has ended without doing so. It is killed when it is dropped.
fn start_remover(folder: &Path) -> io::Result<Child> {
    let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
    let path = CString::new(folder.as_os_str().as_encoded_bytes())?;
    // SAFETY: the child makes system calls alone, on what was made before.
    match Child::started(unsafe { libc::fork() })? {
        Some(child) => Ok(child),
        None => {
            // Who kills the parent's process group must not kill it.
            let _ = rustix::process::setsid();
            if dup2_stdin(&parent).is_ok() {
                // A reader of this process's output waits until all copies of the descriptor are closed.
                // SAFETY: of the descriptors, only standard input is used from here on.
                unsafe { close_from(libc::STDOUT_FILENO) };
                while poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], None) == Err(Errno::INTR) {}
                remove(&path);
            }
            exit_at_once(0)
        }
    }
}

/// Removes a group once nothing is in it. Returns whether it is gone. Allocates nothing.
fn remove(path: &CStr) -> bool {
    const TRIES: u32 = 1_000;
    for _ in 0..TRIES {
        match rustix::fs::rmdir(path) {
            Err(Errno::BUSY) => std::thread::sleep(Duration::from_millis(5)),
            answer => return matches!(answer, Ok(()) | Err(Errno::NOENT)),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// The group in which a child was, if it could make one.
    fn path(output: &[u8]) -> Option<PathBuf> {
        let text = String::from_utf8_lossy(output);
        let after = |words| text.lines().find_map(|line| line.strip_prefix(words));
        if let Some(why) = after(NO_GROUP) {
            eprintln!("checked less: {why}");
            return None;
        }
        Some(after("group ").unwrap_or_else(|| panic!("{text}")).into())
    }

    const NO_GROUP: &str = "no group: ";

    const HALF: Quota = Quota { quota_us: 50_000, period_us: 100_000, burst_us: 0 };

    /// A group with a quota, in which this process is.
    fn entered() -> Option<QuotaGroup> {
        let entered = QuotaGroup::enter(HALF);
        // With one test at a time, the line begins with the test's name.
        let group = entered.map_err(|error| println!("\n{NO_GROUP}{error}")).ok()?;
        println!("\ngroup {}", group.folder.display());
        Some(group)
    }

    #[test]
    fn a_group_is_left_and_removed() {
        let output = crate::process::tests::child("cgroup::tests::child_enters_and_leaves")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(path(&output.stdout).is_none_or(|folder| !folder.exists()));
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_enters_and_leaves() {
        let own = || fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = own();
        affinity::pin(&affinity::allowed().unwrap()[..1]).unwrap();
        let cpus = affinity::allowed().unwrap();
        let Some(group) = entered() else { return };
        assert!(own().contains("costof-"), "{}", own());
        assert_eq!(affinity::allowed().unwrap(), cpus);
        assert_eq!(group.throttled_periods().unwrap(), 0);
        let remover = group.remover.as_ref().unwrap().pid().as_raw_pid();
        let open = || fs::read_dir(format!("/proc/{remover}/fd")).unwrap().count();
        wait_until(|| open() == 1, "the remover has closed what it inherited");
        drop(group);
        assert_eq!(own(), before);
        assert_eq!(affinity::allowed().unwrap(), cpus);
        let error = QuotaGroup::enter(Quota { burst_us: 90_000, ..HALF }).unwrap_err();
        assert!(error.to_string().contains("burst"), "{error}");
        assert_eq!(own(), before);
    }

    #[test]
    fn the_group_of_a_killed_process_is_removed() {
        let output =
            crate::process::tests::child("cgroup::tests::child_is_killed_inside").output().unwrap();
        let Some(folder) = path(&output.stdout) else { return };
        wait_until(|| !folder.exists(), "the group is gone");
    }

    fn wait_until(is_so: impl Fn() -> bool, what: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until, "not within a minute: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    #[ignore = "long; ./check --all runs it"]
    fn a_group_that_is_not_empty_is_removed_later() {
        let output = crate::process::tests::child("cgroup::tests::child_leaves_another_inside")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let Some(folder) = path(&output.stdout) else { return };
        wait_until(|| !folder.exists(), "the group is gone");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_leaves_another_inside() {
        let Some(group) = entered() else { return };
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let folder = group.folder.clone();
        drop(group);
        assert!(folder.exists());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_is_killed_inside() {
        let _group = entered();
        let _ = rustix::process::kill_process(getpid(), rustix::process::Signal::KILL);
    }

    #[test]
    fn the_place_is_one_whose_children_have_the_controller() {
        let root = std::env::temp_dir().join(format!("costof-cgroup-{}", getpid().as_raw_pid()));
        let scope = root.join("user.slice/app.scope");
        fs::create_dir_all(&scope).unwrap();
        fs::create_dir_all(root.join("cpu/docker")).unwrap();
        let given =
            |folder: &Path, text| fs::write(folder.join("cgroup.subtree_control"), text).unwrap();
        let v2 = "0::/user.slice/app.scope\n";
        given(&root.join("user.slice"), "memory pids");
        assert_eq!(place(&root, v2), None);
        given(&root, "cpuset cpu memory");
        assert_eq!(place(&root, v2), Some((root.clone(), scope.clone(), false)));
        given(&root.join("user.slice"), "cpu");
        assert_eq!(place(&root, v2), Some((root.join("user.slice"), scope, false)));
        // As a container without a namespace of its own sees it.
        assert_eq!(place(&root, "0::/docker/1\n"), Some((root.clone(), root.clone(), false)));
        // Version 1, as a container sees it, and beside version 2.
        let v1 = "4:cpu,cpuacct:/docker/1\n0::/\n";
        let cpu = root.join("cpu");
        assert_eq!(place(&root, v1), Some((cpu.clone(), cpu.clone(), true)));
        let docker = cpu.join("docker");
        assert_eq!(place(&root, "4:cpu:/docker\n"), Some((docker.clone(), docker, true)));
        fs::remove_dir_all(root).unwrap();
    }
}
