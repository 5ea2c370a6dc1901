//! Two network namespaces of a test's own.

use crate::common::within;
use std::process::Command;

/// A pair of named namespaces, joined by a cable, until it is dropped.
pub(crate) struct Namespaces {
    pub(crate) near: String,
    pub(crate) far: String,
}

impl Namespaces {
    /// The near end has the address 10.77.0.2, the far one 10.77.0.1; or why there are none here.
    pub(crate) fn new(name: &str) -> Result<Namespaces, String> {
        let name = format!("{name}{}", std::process::id());
        let made = Namespaces { near: format!("{name}n"), far: format!("{name}f") };
        let Namespaces { near, far } = &made;
        for words in [
            format!("netns add {near}"),
            format!("netns add {far}"),
            format!("-n {near} link add cable type veth peer name cable netns {far}"),
            format!("-n {near} address add 10.77.0.2/24 dev cable"),
            format!("-n {far} address add 10.77.0.1/24 dev cable"),
            format!("-n {near} link set cable up"),
            format!("-n {far} link set cable up"),
            format!("-n {near} link set lo up"),
            format!("-n {far} link set lo up"),
        ] {
            let done = Command::new("ip").args(words.split(' ')).output();
            let done = done.map_err(|error| format!("ip cannot be run: {error}"))?;
            if !done.status.success() {
                let says = String::from_utf8_lossy(&done.stderr);
                return Err(format!("no namespaces here: `ip {words}`: {}", says.trim()));
            }
        }
        Ok(made)
    }

    /// A command, at the near end.
    pub(crate) fn at_the_near_end(&self, command: &Command) -> Command {
        within(&["ip", "netns", "exec", &self.near], command)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}
