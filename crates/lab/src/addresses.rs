//! The addresses by which two hosts connect.

use crate::host::Host;
use costof_model::protocol::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host, with what determines how it is reached.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The host.
    pub host: &'a Host,
    /// Its machine's boot, if it is known.
    pub boot: Option<&'a str>,
    /// What its worker reports about the network there.
    pub network: &'a Network,
}

/// How two hosts are related, and the addresses by which they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meet {
    /// The address of the leading role's end.
    pub near: IpAddr,
    /// The address of the other end.
    pub far: IpAddr,
    /// Whether they also share a network namespace: the path between them is then its loopback
    /// device, whatever the addresses are.
    pub one_namespace: bool,
}

impl Meet {
    /// How an end connects to this address elsewhere, from whatever address the kernel chooses.
    pub fn towards(far: IpAddr) -> Meet {
        Meet {
            near: match far {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            far,
            one_namespace: false,
        }
    }
}

/// Whether two hosts with these boots are one machine.
pub fn one_machine(near: Option<&str>, far: Option<&str>) -> bool {
    near.is_some() && near == far
}

/// How `near`, whose role leads, connects to `far`: at `asked` if it is given, which must be an
/// address of the far end.
///
/// # Errors
/// If no address can be chosen.
pub fn between(near: Side<'_>, far: Side<'_>, asked: Option<IpAddr>) -> Result<Meet, String> {
    let one_namespace = one_machine(near.boot, far.boot)
        && near.network.namespace.is_some()
        && near.network.namespace == far.network.namespace;
    let far_address = match asked {
        Some(address) => address,
        None if one_namespace => Ipv4Addr::LOCALHOST.into(),
        None => {
            let host = far.host;
            let missing = || {
                format!("{host} has no address that others can reach (--peer-address names one)")
            };
            let found = reached(far, near).or_else(|| common(near, far));
            found.ok_or_else(missing)?
        }
    };
    let alike = |address: &IpAddr| address.is_ipv4() == far_address.is_ipv4();
    let near_address = if one_namespace {
        Some(far_address)
    } else {
        let mut addresses = near.network.addresses.iter().copied();
        reached(near, far).filter(alike).or_else(|| addresses.find(alike))
    };
    Ok(Meet {
        near: near_address.unwrap_or(Meet::towards(far_address).near),
        far: far_address,
        one_namespace,
    })
}

/// The address by which ssh reached a host: from the controller, or, if that is the host, from it.
/// It must be one of the host's own addresses: a worker knows of ssh by an environment variable,
/// and everything started from an ssh session inherits it, even in a container or a namespace.
fn reached(host: Side<'_>, other: Side<'_>) -> Option<IpAddr> {
    let by_ssh = match host.host {
        Host::Local => other.network.reached_from,
        _ => host.network.reached_at,
    };
    by_ssh.filter(|address| host.network.addresses.contains(address))
}

/// The first address of `far` in an address family that `near` also has; if there is none, its
/// first address.
fn common(near: Side<'_>, far: Side<'_>) -> Option<IpAddr> {
    let all = &far.network.addresses;
    let has = |is_ipv4| {
        let mut own = near.network.addresses.iter();
        own.any(|address| address.is_ipv4() == is_ipv4)
    };
    all.iter().find(|address| has(address.is_ipv4())).or_else(|| all.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network(namespace: u64, addresses: &[&str]) -> Network {
        Network {
            namespace: Some(namespace),
            addresses: addresses.iter().map(|text| ip(text)).collect(),
            ..Network::default()
        }
    }

    fn by_ssh(from: &str, at: &str) -> Network {
        Network {
            reached_from: Some(ip(from)),
            reached_at: Some(ip(at)),
            ..network(1, &["172.17.0.1", "192.0.2.7"])
        }
    }

    fn meet(near: (&str, &str, &Network), far: (&str, &str, &Network)) -> (String, String) {
        let near_host: Host = near.0.parse().unwrap();
        let far_host: Host = far.0.parse().unwrap();
        let side = |host, boot, network| Side { host, boot: Some(boot), network };
        let (near, far) = (side(&near_host, near.1, near.2), side(&far_host, far.1, far.2));
        let meet = between(near, far, None).unwrap();
        (meet.near.to_string(), meet.far.to_string())
    }

    fn pair(near: &str, far: &str) -> (String, String) {
        (near.to_owned(), far.to_owned())
    }

    #[test]
    fn one_namespace_meets_on_loopback_and_two_of_one_machine_do_not() {
        let (a, b) = (network(1, &["10.0.0.2"]), network(2, &["10.0.0.1"]));
        let local = ("local", "boot", &a);
        assert_eq!(meet(local, ("exec:x", "boot", &a)), pair("127.0.0.1", "127.0.0.1"));
        assert_eq!(meet(local, ("netns:b", "boot", &b)), pair("10.0.0.2", "10.0.0.1"));
        // The same number on another machine is another namespace.
        assert_eq!(
            meet(local, ("exec:x", "other", &network(1, &["10.0.0.9"]))),
            pair("10.0.0.2", "10.0.0.9")
        );
    }

    #[test]
    fn the_address_by_which_ssh_came_is_known_to_work() {
        let here = network(5, &["172.17.0.1", "192.0.2.1"]);
        let there = by_ssh("192.0.2.1", "192.0.2.7");
        let (local, remote) = (("local", "here", &here), ("ssh:x", "there", &there));
        assert_eq!(meet(local, remote), pair("192.0.2.1", "192.0.2.7"));
        // And the other way round.
        assert_eq!(meet(remote, local), pair("192.0.2.7", "192.0.2.1"));
        // Inherited from a session that led to another place, it says nothing,
        let inherited = by_ssh("198.51.100.1", "198.51.100.7");
        assert_eq!(meet(local, ("exec:x", "there", &inherited)), pair("172.17.0.1", "172.17.0.1"));
        // and neither does a tunnel to an sshd.
        let tunnel = by_ssh("127.0.0.1", "127.0.0.1");
        assert_eq!(meet(local, ("ssh:x", "there", &tunnel)), pair("172.17.0.1", "172.17.0.1"));
    }

    #[test]
    fn families_are_not_mixed() {
        let six = network(1, &["2001:db8::1"]);
        let both = network(2, &["10.0.0.1", "2001:db8::2"]);
        assert_eq!(
            meet(("exec:a", "a", &six), ("exec:b", "b", &both)),
            pair("2001:db8::1", "2001:db8::2")
        );
        let four = network(3, &["10.0.0.3"]);
        assert_eq!(
            meet(("exec:a", "a", &six), ("exec:b", "b", &four)),
            pair("0.0.0.0", "10.0.0.3")
        );
    }

    #[test]
    fn a_far_end_without_an_address_says_so() {
        let none = Network::default();
        let host = Host::Exec("x".to_owned());
        let side = Side { host: &host, boot: None, network: &none };
        let error = between(side, side, None).unwrap_err();
        assert!(error.contains("exec:x") && error.contains("--peer-address"));
        let asked = between(side, side, Some(ip("::1"))).unwrap();
        let is_one = one_machine(side.boot, side.boot);
        assert_eq!((asked.far, is_one), (ip("::1"), false));
    }
}
