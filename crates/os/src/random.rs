//! Random bytes from the kernel, which nobody can predict: for secrets. Experiments that must be
//! repeatable use a generator with a seed instead.
//!
//! Source: getrandom(2), random(7).

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// 16 bytes. The kernel returns this few bytes in one piece. Early after the boot, this waits until the
/// kernel has gathered enough randomness.
///
/// # Errors
///
/// `Unsupported` before Linux 3.17; `PermissionDenied` if a filter of system calls forbids it.
pub fn bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes[..], GetRandomFlags::empty())? {
        16 => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// [`bytes`] as 32 hexadecimal digits: a token, or a name that nobody else has.
///
/// # Errors
///
/// Those of [`bytes`].
pub fn digits() -> io::Result<String> {
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike() {
        assert_ne!(bytes().unwrap(), bytes().unwrap());
        assert_eq!(digits().unwrap().len(), 32);
    }
}
