//! Which queue disciplines hold packets in front of a network device.
//!
//! Source: rtnetlink(7), netlink(7), linux/rtnetlink.h (`RTM_GETQDISC`, `TCA_KIND`). Linux 2.2.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::time::Duration;

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const DUMP: u16 = 0x301;
const TCA_KIND: u16 = 1;
/// `struct nlmsghdr`, `struct tcmsg` and `struct rtattr`, in bytes.
const HEADER: usize = 16;
const ABOUT: usize = 20;
const ATTRIBUTE: usize = 4;
/// How long the kernel may take for each part of its answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The kernel fills no larger part.
const PART_BYTES: usize = 64 << 10;

/// The kinds of queue disciplines of the device with this index, the root first, each once:
/// `noqueue`, or `mq` and `fq_codel`.
///
/// # Errors
///
/// Those of socket(2) and recv(2), and `InvalidData` if the kernel's answer is malformed.
pub fn kinds(device_index: u32) -> io::Result<Vec<String>> {
    // The protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let length = (HEADER + ABOUT) as u32;
    let mut request = Vec::with_capacity(HEADER + ABOUT);
    request.extend(length.to_ne_bytes());
    request.extend(RTM_GETQDISC.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.resize(HEADER + ABOUT, 0);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut part = vec![0; PART_BYTES];
    let mut kinds = Vec::new();
    loop {
        let (_, received) = rustix::net::recv(&socket, &mut part[..], RecvFlags::empty())?;
        // The length of the part, even if it was truncated.
        let part = part.get(..received).ok_or_else(nonsense)?;
        if !read(part, device_index, &mut kinds)? {
            return Ok(kinds);
        }
    }
}

/// Adds the kinds of this device in a part of the answer, and returns whether more parts are to come.
fn read(mut part: &[u8], device_index: u32, kinds: &mut Vec<String>) -> io::Result<bool> {
    while !part.is_empty() {
        let length = number(part, 0)? as usize;
        let message = part.get(HEADER..length).ok_or_else(nonsense)?;
        match short(part, 4)? {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = number(message, 0)? as i32;
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            RTM_NEWQDISC if number(message, 4)? == device_index => {
                let attributes = message.get(ABOUT..).ok_or_else(nonsense)?;
                if let Some(kind) = kind(attributes)?
                    && !kinds.contains(&kind)
                {
                    kinds.push(kind);
                }
            }
            _ => {}
        }
        part = part.get(aligned(length)..).unwrap_or_default();
    }
    Ok(true)
}

/// The name of the queue discipline with these attributes.
fn kind(mut attributes: &[u8]) -> io::Result<Option<String>> {
    while !attributes.is_empty() {
        let length = usize::from(short(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE..length).ok_or_else(nonsense)?;
        if short(attributes, 2)? == TCA_KIND {
            let name = value.strip_suffix(&[0]).unwrap_or(value);
            return Ok(Some(String::from_utf8_lossy(name).into_owned()));
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(None)
}

/// Messages and attributes begin at multiples of four bytes.
const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn number(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    Ok(u32::from_ne_bytes(*bytes.ok_or_else(nonsense)?))
}

fn short(bytes: &[u8], at: usize) -> io::Result<u16> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    Ok(u16::from_ne_bytes(*bytes.ok_or_else(nonsense)?))
}

fn nonsense() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message about the queue discipline of a device.
    fn part(device: u32, kind: &str) -> Vec<u8> {
        let mut about = vec![0; ABOUT];
        about[4..8].copy_from_slice(&device.to_ne_bytes());
        // Preceded by an attribute of another type.
        for (of, value) in [(11_u16, "x"), (TCA_KIND, kind)] {
            let length = (ATTRIBUTE + value.len() + 1) as u16;
            about.extend(length.to_ne_bytes());
            about.extend(of.to_ne_bytes());
            about.extend(value.bytes());
            about.push(0);
            about.resize(aligned(about.len()), 0);
        }
        message(RTM_NEWQDISC, &about)
    }

    fn message(of: u16, content: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER + content.len()) as u32).to_ne_bytes().to_vec();
        message.extend(of.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(content);
        message
    }

    #[test]
    fn the_kinds_of_one_device_are_told_once_each() {
        let part = [part(2, "mq"), part(3, "noqueue"), part(2, "fq_codel"), part(2, "fq_codel")];
        let mut kinds = Vec::new();
        assert!(read(&part.concat(), 2, &mut kinds).unwrap());
        assert!(!read(&message(NLMSG_DONE, &[0; 4]), 2, &mut kinds).unwrap());
        assert_eq!(kinds, ["mq", "fq_codel"]);
    }

    #[test]
    fn an_answer_that_is_cut_or_refused_is_an_error() {
        let complete = part(2, "mq");
        for length in 1..complete.len() {
            assert!(read(&complete[..length], 2, &mut Vec::new()).is_err(), "{length}");
        }
        let refused = message(NLMSG_ERROR, &(-1_i32).to_ne_bytes());
        let error = read(&refused, 2, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        // A part with length 0 would never end.
        assert!(read(&[0; HEADER], 2, &mut Vec::new()).is_err());
    }

    #[test]
    fn the_kernel_tells_of_loopback() {
        let kinds = kinds(1).unwrap();
        assert!(kinds.iter().all(|kind| !kind.is_empty()), "{kinds:?}");
    }
}
