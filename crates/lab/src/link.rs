//! A link that is there: both ends of the path, for workers to meet over.
//!
//! Whatever a link needs, namespaces and devices, is held by one process (the
//! *holder*), which makes them in its own namespaces and ends with the
//! controller, however that ends. With it the kernel takes everything away:
//! nothing has a name, so nothing can be left.

use crate::host::{Host, WorkerCommand};
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_os::namespace::{self, Namespace};
use costof_os::process;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The address of the end that does not lead, the server's or receiver's.
pub const FAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The address of the leading end.
pub const NEAR_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Of how many bits the part is that both addresses share.
pub(crate) const PREFIX: u8 = 24;

/// How long making a link may take.
const MAKE_LIMIT: Duration = Duration::from_secs(20);

/// One end of a link.
#[derive(Debug)]
pub struct End {
    /// Where workers at this end are reached.
    pub address: IpAddr,
    /// The namespace of this end; none: the host's own.
    pub namespace: Option<Namespace>,
}

/// A link that exists until this is dropped.
#[derive(Debug)]
pub struct Made {
    /// The leading role's end.
    pub near: End,
    /// The end of the other roles.
    pub far: End,
    /// Whether what is sent to the far end is dropped on its way, so that
    /// nobody there ever hears or answers.
    pub drops_all: bool,
    _holder: Option<Holder>,
}

/// What the holder says when the link is there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Held {
    Link {
        /// Its namespaces, as descriptors of its own.
        near: i32,
        far: i32,
        /// Whether they belong to a user namespace of its own.
        user: bool,
    },
    Refused {
        reason: String,
    },
}

impl Made {
    /// Makes a link; `holder` is the command that calls [`hold`] with the link's name.
    ///
    /// # Errors
    /// Why there can be no such link here, and what to do about it.
    pub fn make(link: &Link, holder: &WorkerCommand) -> Result<Made, Failure> {
        match link {
            Link::Loopback => {
                let end = || End {
                    address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    namespace: None,
                };
                Ok(Made {
                    near: end(),
                    far: end(),
                    drops_all: false,
                    _holder: None,
                })
            }
            _ => Self::held(link, holder),
        }
    }

    /// The end of the role that leads, or of the others.
    pub fn end(&self, leads: bool) -> &End {
        if leads { &self.near } else { &self.far }
    }

    fn held(link: &Link, holder: &WorkerCommand) -> Result<Made, Failure> {
        let (holder, near, far) = Holder::start(link, holder)?;
        Ok(Made {
            near: End {
                address: NEAR_ADDRESS,
                namespace: Some(near),
            },
            far: End {
                address: FAR_ADDRESS,
                namespace: Some(far),
            },
            drops_all: *link == Link::Sink,
            _holder: Some(holder),
        })
    }
}

/// The process that holds a link.
#[derive(Debug)]
struct Holder(Child);

impl Holder {
    fn start(
        link: &Link,
        command: &WorkerCommand,
    ) -> Result<(Holder, Namespace, Namespace), Failure> {
        let refused =
            |reason: String| Failure::unsupported(format!("cannot make the link {link}: {reason}"));
        let mut command = command.on(&Host::Local);
        command.arg(link.to_string()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| refused(format!("its holder does not start: {error}")))?;
        let output = child.stdout.take().expect("standard output is a pipe");
        let pid = child.id();
        let holder = Holder(child);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // One line of some bytes is all that is expected.
            let read = BufReader::new(output).take(64 << 10).read_line(&mut line);
            drop(read.map(|_| sender.send(line)));
        });
        let line = lines.recv_timeout(MAKE_LIMIT).unwrap_or_default();
        match serde_json::from_str(&line) {
            Ok(Held::Link { near, far, user }) => {
                let of = |descriptor: i32| {
                    let user = user.then(|| PathBuf::from(format!("/proc/{pid}/ns/user")));
                    let network = format!("/proc/{pid}/fd/{descriptor}");
                    Namespace::at(user.as_deref(), Path::new(&network))
                };
                let ends = of(near).and_then(|near| Ok((near, of(far)?)));
                let (near, far) = ends
                    .map_err(|error| refused(format!("its namespaces cannot be had: {error}")))?;
                Ok((holder, near, far))
            }
            Ok(Held::Refused { reason }) => Err(refused(reason)),
            Err(_) => Err(refused("its holder ended, or took too long".to_owned())),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both may say that it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the holder does: makes the link, says so on standard output, and keeps
/// it until standard input closes.
///
/// # Errors
/// Where it cannot answer.
pub fn hold(link: &Link) -> io::Result<()> {
    process::die_with_parent()?;
    let held = match make(link) {
        Ok((near, far, user)) => {
            answer(&Held::Link {
                near: near.descriptor(),
                far: far.descriptor(),
                user,
            })?;
            Some((near, far))
        }
        Err(reason) => {
            answer(&Held::Refused { reason })?;
            None
        }
    };
    if held.is_some() {
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    }
    Ok(())
}

fn answer(held: &Held) -> io::Result<()> {
    let mut line = serde_json::to_vec(held).expect("it can be written as JSON");
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

/// The namespaces of both ends, joined; and whether they are owned by a new
/// user namespace.
fn make(link: &Link) -> Result<(Namespace, Namespace, bool), String> {
    let (near, user) = first_namespace()?;
    let far = Namespace::new_for_this_thread()
        .map_err(|error| format!("a second network namespace: {error}"))?;
    match link {
        Link::Veth => veth(&near, &far)?,
        Link::Sink => crate::sink::lay(&near)?,
        other => return Err(format!("costof does not make {other} yet")),
    }
    Ok((near, far, user))
}

/// A network namespace; where that is not permitted, one in a new user namespace.
fn first_namespace() -> Result<(Namespace, bool), String> {
    if let Ok(namespace) = Namespace::new_for_this_thread() {
        return Ok((namespace, false));
    }
    namespace::become_root_of_new_user_namespace().map_err(|error| {
        format!(
            "network namespaces need root or user namespaces, and {error} \
             (kernel.unprivileged_userns_clone, user.max_user_namespaces, \
             kernel.apparmor_restrict_unprivileged_userns)"
        )
    })?;
    let namespace = Namespace::new_for_this_thread()
        .map_err(|error| format!("a network namespace of an own user namespace: {error}"))?;
    Ok((namespace, true))
}

/// Joins the ends by a cable. This thread is in the far one.
fn veth(near: &Namespace, far: &Namespace) -> Result<(), String> {
    let own = format!("/proc/{}/fd", std::process::id());
    ip(
        far,
        &format!(
            "link add costof type veth peer name costof netns {own}/{}",
            near.descriptor()
        ),
    )?;
    for (end, address) in [(near, NEAR_ADDRESS), (far, FAR_ADDRESS)] {
        ip(end, &format!("address add {address}/{PREFIX} dev costof"))?;
        ip(end, "link set costof up")?;
        ip(end, "link set lo up")?;
    }
    Ok(())
}

/// Runs ip(8) in a namespace.
pub(crate) fn ip(namespace: &Namespace, words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split(' ').collect();
    iproute2(namespace, "ip", &words)
}

/// Runs tc(8) in a namespace.
pub(crate) fn tc(namespace: &Namespace, words: &[&str]) -> Result<(), String> {
    iproute2(namespace, "tc", words)
}

fn iproute2(namespace: &Namespace, program: &str, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    namespace
        .start_in(&mut command)
        .map_err(|error| error.to_string())?;
    let output = command.output().map_err(|error| {
        format!("{program} cannot be run: {error} (Debian: apt-get install iproute2)")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let says = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program} {}`: {}", words.join(" "), says.trim()))
}
