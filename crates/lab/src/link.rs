//! An existing link: both ends of the path over which workers connect.
//!
//! One process (the *holder*) holds everything that a link needs, namespaces and devices. It
//! creates them in its own namespaces and ends with the controller, however that ends. The kernel
//! then removes everything: nothing has a name, so nothing can be left. ([`Names`] gives one link
//! names, by which people enter it.)

mod channel;
mod ends;
#[cfg(feature = "fuzzing")]
#[path = "link/tests/fuzzing.rs"]
pub mod fuzzing;
mod hold;
mod holder;
mod named;
mod relay;
mod sink;

pub use ends::{FAR_ADDRESS, FAR_ADDRESS_V6, NEAR_ADDRESS, NEAR_ADDRESS_V6};
pub use hold::hold;
pub use named::Names;

use crate::host::WorkerCommand;
use costof_model::{Failure, FailureKind, Link, LinkReport};
use costof_os::process::namespace::Namespace;
use holder::{Holder, Reply, Request};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;

/// One end of a link.
#[derive(Debug)]
pub struct End {
    /// The address of workers at this end.
    pub address: IpAddr,
    /// The namespace of this end; `None` for the host's own.
    pub namespace: Option<Namespace>,
}

/// A link that exists until this is dropped.
#[derive(Debug)]
pub struct Made {
    /// The leading role's end.
    pub near: End,
    /// The end of the other roles.
    pub far: End,
    /// Whether everything sent to the far end is dropped on the way, so that nobody there ever
    /// receives or answers.
    pub drops_all: bool,
    /// Whether a thread of costof carries the packets, which takes most of a CPU.
    pub is_relayed: bool,
    holder: Option<Holder>,
}

impl Made {
    /// Creates a link whose far end is reached at `asked`, if it is given. `holder` is the command
    /// that calls [`hold()`] with the link's name. Once `interrupted` is set, nothing here waits for
    /// it any longer; the same holds for the other methods. Call this from a thread that outlives the link:
    /// the kernel kills the holder when that thread ends.
    ///
    /// # Errors
    /// Why such a link is impossible here, and what to do about it.
    pub fn make(
        link: &Link,
        asked: Option<IpAddr>,
        holder: &WorkerCommand,
        interrupted: &AtomicBool,
    ) -> Result<Made, Failure> {
        let (near, far) = addresses(link, asked).map_err(Failure::error)?;
        match link {
            Link::Loopback | Link::Remote => Ok(Self::between(near, far)),
            Link::Veth | Link::Sink | Link::Emulated { .. } => {
                let (holder, near_namespace, far_namespace) =
                    Holder::start(link, holder, interrupted)?;
                let end = |address, namespace| End { address, namespace: Some(namespace) };
                Ok(Made {
                    near: end(near, near_namespace),
                    far: end(far, far_namespace),
                    drops_all: *link == Link::Sink,
                    is_relayed: matches!(link, Link::Emulated { .. }),
                    holder: Some(holder),
                })
            }
        }
    }

    /// The existing network between two hosts, by the addresses of both.
    pub fn between(near: IpAddr, far: IpAddr) -> Made {
        let end = |address| End { address, namespace: None };
        let (near, far) = (end(near), end(far));
        Made { near, far, drops_all: false, is_relayed: false, holder: None }
    }

    /// The end of the leading role, or of the others.
    pub fn end(&self, leads: bool) -> &End {
        if leads { &self.near } else { &self.far }
    }

    /// Restricts that thread to these CPUs.
    ///
    /// # Errors
    /// If the link has ended, or the thread may not run there.
    pub fn relay_on(&mut self, cpus: &[usize], interrupted: &AtomicBool) -> Result<(), Failure> {
        let cpus = cpus.to_vec();
        self.ask(Request::RelayOn { cpus }, interrupted).map(drop)
    }

    /// Starts a launch: uses this seed for losses, and sets the counters to zero.
    ///
    /// # Errors
    /// If the link has ended: create it again.
    pub fn begin(&mut self, seed: u64, interrupted: &AtomicBool) -> Result<(), Failure> {
        self.ask(Request::Begin { seed }, interrupted).map(drop)
    }

    /// What the link did since then; `None` if nothing emulates it.
    ///
    /// # Errors
    /// If the link has ended: create it again.
    pub fn report(&mut self, interrupted: &AtomicBool) -> Result<Option<LinkReport>, Failure> {
        match self.ask(Request::Report, interrupted)? {
            Some(Reply::Report { link }) => Ok(link.map(|link| *link)),
            _ => Ok(None),
        }
    }

    fn ask(&mut self, ask: Request, interrupted: &AtomicBool) -> Result<Option<Reply>, Failure> {
        let Some(holder) = &mut self.holder else {
            return Ok(None);
        };
        let failed = |reason: String| Failure {
            kind: FailureKind::Crashed,
            reason: format!("the link has failed: {reason}"),
        };
        match holder.ask(ask, interrupted).map_err(failed)? {
            Reply::Refused { reason } => Err(failed(reason)),
            say => Ok(Some(say)),
        }
    }
}

/// The addresses of the near and the far end of a link that costof creates: the pair whose far end
/// is `asked`, otherwise the first pair.
///
/// # Errors
/// If the far end has no such address.
pub fn addresses(link: &Link, asked: Option<IpAddr>) -> Result<(IpAddr, IpAddr), String> {
    const V4: (IpAddr, IpAddr) = (NEAR_ADDRESS, FAR_ADDRESS);
    const V6: (IpAddr, IpAddr) = (NEAR_ADDRESS_V6, FAR_ADDRESS_V6);
    const LOCAL_V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const LOCAL_V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let all: &[(IpAddr, IpAddr)] = match link {
        Link::Loopback => &[(LOCAL_V4, LOCAL_V4), (LOCAL_V6, LOCAL_V6)],
        Link::Veth | Link::Emulated { .. } => &[V4, V6],
        Link::Sink => &[V4],
        Link::Remote => {
            return Err(
                "the link remote is the network to another host: name that host with --peer"
                    .to_owned(),
            );
        }
    };
    let found = all.iter().find(|(_, far)| asked.is_none_or(|asked| asked == *far));
    found.copied().ok_or_else(|| {
        let far: Vec<String> = all.iter().map(|(_, far)| far.to_string()).collect();
        let asked = asked.map_or_else(String::new, |asked| asked.to_string());
        let far = far.join(" or ");
        format!("--peer-address {asked}: the far end of the link {link} is at {far}")
    })
}
