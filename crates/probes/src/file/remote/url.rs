//! `nfs://HOST[:PORT]/EXPORT/FILE`: a file of an NFS server.
//!
//! The URL does not show where the export ends and the path to the file begins: the server knows. Source: RFC 2224, section 4; RFC 3986, section 2.1 on `%2C`, which `--set` needs where a name
//! has a comma.

use std::fmt;

/// The scheme.
pub(crate) const SCHEME: &str = "nfs";
/// The most folders before the file's name.
const MAX_DEPTH: usize = 64;
/// How long a name may be. Source: limits.h, `NAME_MAX`.
const MAX_NAME_BYTES: usize = 255;

/// A file of an NFS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// A name or an address.
    pub(super) host: String,
    /// The port of NFS, if it is not the one that the portmapper reports.
    pub(super) port: Option<u16>,
    /// The names on the way to the file, the file's last; at least two.
    pub(super) names: Vec<Vec<u8>>,
}

/// Whether `text` looks like one.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("nfs://")
}

impl Url {
    /// The file that `text` names.
    ///
    /// # Errors
    /// What is wrong with it, and the right form.
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        parse(text).map_err(|wrong| {
            format!("{text} is not an NFS URL: {wrong} (write nfs://HOST[:PORT]/EXPORT/FILE)")
        })
    }

    /// The path of the first `count` names, as a server gets it.
    pub(super) fn folder(&self, count: usize) -> Vec<u8> {
        match &self.names[..count] {
            [] => b"/".to_vec(),
            names => names.iter().flat_map(|name| [b"/", &name[..]].concat()).collect(),
        }
    }
}

fn parse(text: &str) -> Result<Url, &'static str> {
    let rest = text.strip_prefix("nfs://").ok_or("it does not begin with nfs://")?;
    let (server, path) = rest.split_once('/').ok_or("no path follows the host")?;
    let (host, port) = match server.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) =
                bracketed.split_once(']').ok_or("the bracket around the address is not closed")?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or("a colon must stand before the port")?),
            };
            (host, port)
        }
        None => match server.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err("an IPv6 address needs brackets");
            }
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    if host.is_empty() {
        return Err("it names no host");
    }
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return Err("the port is a number from 1 to 65535"),
    };
    let names = path
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
        .map(name)
        .collect::<Result<Vec<_>, _>>()?;
    match names.len() {
        0 | 1 => Err("an export and a file in it must follow the host"),
        count if count > MAX_DEPTH + 1 => Err("it goes through too many folders"),
        _ => Ok(Url { host: host.to_owned(), port, names }),
    }
}

/// A name, in which `%2C` and the like stand for single bytes.
fn name(text: &str) -> Result<Vec<u8>, &'static str> {
    const NO_BYTE: &str = "two hexadecimal digits must follow a %";
    let mut bytes = text.bytes();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let digits = [bytes.next(), bytes.next()]
                    .map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
                match digits {
                    [Some(high), Some(low)] => (16 * high + low) as u8,
                    _ => return Err(NO_BYTE),
                }
            }
            byte => byte,
        });
    }
    if name == b".." {
        return Err("a server does not resolve `..`");
    }
    if name.contains(&0) || name.contains(&b'/') {
        return Err("a name contains neither NUL nor slash");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("a name has at most 255 bytes");
    }
    Ok(name)
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.folder(self.names.len());
        let path = String::from_utf8_lossy(&path);
        if self.host.contains(':') {
            write!(f, "nfs://[{}]", self.host)?;
        } else {
            write!(f, "nfs://{}", self.host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", path.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_a_port_and_a_way_to_a_file() {
        let url = Url::parse("nfs://10.77.0.1:2049/export/a%2Cb/file").unwrap();
        assert_eq!((&*url.host, url.port), ("10.77.0.1", Some(2049)));
        assert_eq!(url.names, [&b"export"[..], b"a,b", b"file"]);
        assert_eq!(url.folder(2), b"/export/a,b");
        assert_eq!(url.folder(0), b"/");
        assert_eq!(url.to_string(), "nfs://10.77.0.1:2049/export/a,b/file");
        let url = Url::parse("nfs://[fd00::1]//e/./f").unwrap();
        assert_eq!((&*url.host, url.port, url.names.len()), ("fd00::1", None, 2));
        assert_eq!(url.to_string(), "nfs://[fd00::1]/e/f");
        assert_eq!(Url::parse("nfs://server/e/f").unwrap().host, "server");
    }

    #[test]
    fn what_is_no_url_says_why_and_how_one_is_written() {
        let long = format!("nfs://h/e/{}", "x".repeat(256));
        let deep = format!("nfs://h{}", "/d".repeat(66));
        for (text, why) in [
            ("nfs:/h/e/f", "does not begin with"),
            ("nfs://host", "no path"),
            ("nfs:///e/f", "no host"),
            ("nfs://host/file", "an export and"),
            ("nfs://host/", "an export and"),
            ("nfs://host:0/e/f", "1 to 65535"),
            ("nfs://host:nfs/e/f", "1 to 65535"),
            ("nfs://host:70000/e/f", "1 to 65535"),
            ("nfs://fd00::1/e/f", "brackets"),
            ("nfs://[fd00::1/e/f", "not closed"),
            ("nfs://[fd00::1]2049/e/f", "colon"),
            ("nfs://host/e/../f", "`..`"),
            ("nfs://host/e/%2e%2e/f", "`..`"),
            ("nfs://host/e/a%2", "hexadecimal"),
            ("nfs://host/e/a%00", "NUL"),
            ("nfs://host/e/a%2fb", "slash"),
            (&long, "255"),
            (&deep, "too many"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.contains("nfs://HOST[:PORT]/EXPORT/FILE"), "{error}");
        }
    }
}
