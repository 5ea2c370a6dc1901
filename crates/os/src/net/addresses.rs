//! The addresses of this machine, as the calling process's network namespace has them.
//!
//! Source: getifaddrs(3), netdevice(7).

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// The addresses of devices that are up by which other machines may reach this one (neither loopback nor
/// link-local), in the kernel's order, each once.
///
/// # Errors
///
/// Those of getifaddrs(3).
pub fn reachable() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for (_, address) in each()? {
        if is_reachable(&address) && !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

/// The device that is up and has this address; `None` if none has it.
///
/// # Errors
///
/// Those of getifaddrs(3).
pub fn device_of(address: IpAddr) -> io::Result<Option<String>> {
    Ok(each()?.find(|(_, its)| *its == address).map(|(device, _)| device))
}

/// The name of each device that is up, with each of its addresses.
fn each() -> io::Result<impl Iterator<Item = (String, IpAddr)>> {
    let up = getifaddrs()?.filter(|device| device.flags.contains(InterfaceFlags::IFF_UP));
    Ok(up.filter_map(|device| {
        let address = device.address?;
        let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
        let ip = v4.or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))?;
        Some((device.interface_name, ip))
    }))
}

fn is_reachable(address: &IpAddr) -> bool {
    !address.is_loopback()
        && !address.is_unspecified()
        && match address {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_address_belongs_to_a_device_or_to_none() {
        let device = device_of(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(device.as_deref(), Some("lo"));
        // From a range reserved for documentation (RFC 5737).
        assert_eq!(device_of(Ipv4Addr::new(192, 0, 2, 77).into()).unwrap(), None);
    }

    #[test]
    fn what_others_cannot_reach_is_left_out() {
        for address in reachable().unwrap() {
            assert!(is_reachable(&address), "{address}");
        }
        for (address, reached) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("169.254.3.4", false),
            ("fe80::1", false),
            ("0.0.0.0", false),
            ("10.1.2.3", true),
            ("192.0.2.1", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_reachable(&address.parse().unwrap()), reached, "{address}");
        }
    }
}
