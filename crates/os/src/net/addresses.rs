//! The addresses of this machine, as the calling process's network namespace has them.
//!
//! Source: getifaddrs(3), netdevice(7).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of devices that are up by which other machines may reach this one (neither loopback nor
/// link-local), in the kernel's order, each once.
///
/// # Errors
///
/// Those of getifaddrs(3).
pub fn reachable() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    each(|_, address| {
        if is_reachable(&address) && !found.contains(&address) {
            found.push(address);
        }
    })?;
    Ok(found)
}

/// The device that is up and has this address; `None` if none has it.
///
/// # Errors
///
/// Those of getifaddrs(3).
pub fn device_of(address: IpAddr) -> io::Result<Option<String>> {
    let mut found = None;
    each(|device, its| {
        if its == address && found.is_none() {
            found = Some(device.to_string_lossy().into_owned());
        }
    })?;
    Ok(found)
}

/// Calls `with` with the name of each device that is up and each of its addresses.
fn each(mut with: impl FnMut(&CStr, IpAddr)) -> io::Result<()> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is valid to write to; what it is set to is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut next = first;
    // SAFETY: the list is the C library's own, valid until it is freed, and ends with null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        // SAFETY: an entry's address is null or a valid socket address, as its family says.
        let address = unsafe { ip(entry.ifa_addr) };
        if let Some(address) = address.filter(|_| is_up) {
            // SAFETY: an entry's name is a string of C, which lives as long as the list.
            with(unsafe { CStr::from_ptr(entry.ifa_name) }, address);
        }
    }
    // SAFETY: it was made by getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(())
}

/// # Safety
///
/// `address` is null or points to a socket address of the size that its family has.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller says so.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one; read without asking how it is aligned.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let bits = u32::from_be(address.sin_addr.s_addr);
            Some(Ipv4Addr::from_bits(bits).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
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
