//! The address of a listener.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Where a listener can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At an address and port: one for connections, one for each flow of datagrams.
    Ip(Vec<SocketAddr>),
    /// By an abstract name of this network namespace, which is no file (unix(7)).
    Unix(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                f.write_str(&addresses.join(" "))
            }
            Self::Unix(name) => write!(f, "unix:@{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("unix:@") {
            return Ok(Self::Unix(name.to_owned()));
        }
        let addresses: Result<Vec<SocketAddr>, _> = text.split(' ').map(str::parse).collect();
        addresses.map(Self::Ip).map_err(|_| format!("`{text}` is not an address"))
    }
}
