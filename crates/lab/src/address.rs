//! Where the receiver listens and senders connect.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A host and a port, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host, by its name or address, and a port.
    Ip(String, u16),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The longest path: `sun_path` has 108 bytes, including the terminating zero (unix(7)).
const PATH_MAX_BYTES: usize = 107;

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Ip(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                1..=PATH_MAX_BYTES => Ok(Address::Unix(path.into())),
                _ => Err(format!(
                    "the path of a Unix socket has 1 to {PATH_MAX_BYTES} bytes, such as \
                     unix:/tmp/costof"
                )),
            };
        }
        let wrong = || {
            format!(
                "`{text}` is neither HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000, nor unix:PATH"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => inner.contains(':'),
            None => !host.is_empty() && !host.contains([':', '[', ']', ' ', '/']),
        };
        let port = port.parse().ok().filter(|_| is_host).ok_or_else(wrong)?;
        Ok(Address::Ip(inner.unwrap_or(host).to_owned(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for text in ["127.0.0.1:7000", "[::1]:7000", "a.example:1", "unix:/tmp/x y"] {
            let address: Address = text.parse().expect("it is an address");
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "7000", ":7000", "host:", "host:70000", "::1:7000", "[::1]", "unix:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert!(format!("unix:/{}", "x".repeat(107)).parse::<Address>().is_err());
    }
}
