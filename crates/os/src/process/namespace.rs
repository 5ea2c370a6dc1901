//! Network namespaces: making them, naming them to others, and starting programs in them.
//!
//! Source: network_namespaces(7), user_namespaces(7), setns(2), unshare(2), ip-netns(8).

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::system_call::invalid;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// A network namespace that exists as long as this value, or a process in it, does.
#[derive(Debug)]
pub struct Namespace {
    /// The user namespace that owns it, if that is not the caller's own.
    user: Option<OwnedFd>,
    network: OwnedFd,
}

impl Namespace {
    /// The namespace that `ip netns add NAME` has created: /run/netns/NAME.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none of that name, `InvalidInput` if the file is not a namespace.
    pub fn open_named(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(invalid("not a name of a network namespace"));
        }
        Self::open(None, &Path::new("/run/netns").join(name))
    }

    /// The namespace of a file such as /proc/PID/ns/net or /proc/PID/fd/N. The user namespace of
    /// the other file owns it, if that is not the caller's own.
    ///
    /// # Errors
    ///
    /// The errors of open(2).
    pub fn open(user: Option<&Path>, network: &Path) -> io::Result<Self> {
        Ok(Self {
            user: user.map(File::open).transpose()?.map(OwnedFd::from),
            network: File::open(network)?.into(),
        })
    }

    /// Makes a program that is not yet started begin in this namespace.
    ///
    /// # Errors
    ///
    /// EMFILE at the limit of open files. An error of setns(2) makes the start fail.
    pub fn start_in(&self, command: &mut Command) -> io::Result<()> {
        let own = Self {
            user: self.user.as_ref().map(OwnedFd::try_clone).transpose()?,
            network: self.network.try_clone()?,
        };
        // SAFETY: between fork and exec the child only calls setns(2), which is
        // async-signal-safe, on descriptors that it has inherited; nothing allocates.
        unsafe { command.pre_exec(move || own.enter()) };
        Ok(())
    }

    /// Moves the calling thread into it. What the thread opens from then on, sockets and TUN
    /// devices, belongs to it.
    ///
    /// # Errors
    ///
    /// The errors of setns(2).
    pub fn enter(&self) -> io::Result<()> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        Ok(move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Its inode number, which no other namespace of this machine has as long as it exists
    /// (namespaces(7)).
    ///
    /// # Errors
    ///
    /// The errors of fstat(2).
    pub fn number(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.network)?.st_ino)
    }

    /// The descriptor's number, by which another process finds the namespace at /proc/PID/fd/NUMBER.
    pub fn descriptor(&self) -> i32 {
        self.network.as_raw_fd()
    }

    /// Moves the calling thread into a new network namespace, which has a loopback device that is
    /// down, and nothing else.
    ///
    /// # Errors
    ///
    /// The errors of unshare(2): EPERM without `CAP_SYS_ADMIN` ([`become_root_of_new_user_namespace`] gives
    /// it), ENOSPC at the limit user.max_net_namespaces.
    pub fn new_for_this_thread() -> io::Result<Self> {
        // SAFETY: a network namespace for this thread alone: no memory or descriptor is unshared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
        Self::open(None, Path::new("/proc/thread-self/ns/net"))
    }
}

/// Moves the process, which must have one thread, into a new user namespace in which it is root.
///
/// # Errors
///
/// The errors of unshare(2): EINVAL if there is a second thread, EPERM if ordinary users may not create user
/// namespaces, ENOSPC at user.max_user_namespaces; EACCES for the maps if the process is not dumpable.
pub fn become_root_of_new_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: a user namespace changes credentials only; no memory or descriptor is unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}
