//! Which point of costof is compared with which tools. `verify.toml` has them as data: each tool, the band in
//! which the ratio is expected, and how the two definitions differ. No two programs measure quite the same.
//!
//! `costof verify` makes all of [`checks`]. The bench makes the same comparisons with more [`Effort`] and
//! bounds of its own.

use crate::caches::BeyondCaches;
use crate::tool::{Peer, put};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One point of costof, and the tools that measure the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The probe.
    pub probe: &'static str,
    /// Values for its axes as `axis=value`, separated by blanks; the other axes have their defaults.
    pub axes: String,
    /// The metric.
    pub metric: &'static str,
    /// How many CPUs both sides run on. The first one is measured.
    #[serde(default = "one")]
    pub cpus: usize,
    /// Whether both sides keep the CPUs from sleeping. Waking a CPU may take longer than all the rest, and
    /// varies more.
    #[serde(default)]
    pub awake: bool,
    /// Why this machine cannot make the check; none if it can.
    #[serde(skip)]
    pub lacks: Option<String>,
    /// The tools to compare with.
    pub peers: Vec<Peer>,
}

fn one() -> usize {
    1
}

/// How long and how much each tool measures for one number.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Main memory is measured with at least this many MiB.
    pub memory_mib: u64,
    /// How long a tool runs that has no default.
    pub seconds: u64,
    /// How long stress-ng runs, which measures about a dozen access widths several times each.
    pub memrate_seconds: u64,
    /// How long fio reads.
    pub fio_seconds: u64,
}

/// With this many MiB for each second, stress-ng gets through all of its ways, even on a slow machine.
const MIB_A_SECOND: u64 = 128;

impl Effort {
    /// The effort of `costof verify`.
    pub const QUICK: Effort =
        Effort { memory_mib: 128, seconds: 1, memrate_seconds: 2, fio_seconds: 1 };
}

// All text of a file lives as long as the program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct File {
    /// What installs a program.
    #[serde(default)]
    pub(crate) packages: BTreeMap<&'static str, &'static str>,
    check: Vec<Check>,
}

pub(crate) static VERIFY: LazyLock<File> = LazyLock::new(|| file(include_str!("../verify.toml")));

fn file(text: &'static str) -> File {
    toml::from_str(text).unwrap_or_else(|error| panic!("a test reads each file of checks: {error}"))
}

/// All checks of `costof verify`, in their order.
pub fn checks(effort: Effort) -> Vec<Check> {
    VERIFY.check.iter().flat_map(|check| check.each(effort)).collect()
}

/// The checks of a file of its own, in the form of `verify.toml`.
pub fn read(text: &'static str, effort: Effort) -> Vec<Check> {
    file(text).check.iter().flat_map(|check| check.each(effort)).collect()
}

impl Check {
    /// The probe and its axes, as a user names the point on the command line.
    pub fn point(&self) -> String {
        format!("{} {}", self.probe, self.axes)
    }

    /// `--set` for each axis, as `costof run` takes them.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.axes.split_whitespace().flat_map(|axis| ["--set", axis])
    }

    /// The check for each value that one of its axes lists.
    fn each(&self, effort: Effort) -> Vec<Check> {
        let mut axes = self.axes.split_whitespace().filter_map(|axis| axis.split_once('='));
        let Some((axis, values)) = axes.find(|(_, values)| values.contains(',')) else {
            return vec![self.filled(&self.axes, effort)];
        };
        let (listed, values) = (format!("{axis}={values}"), values.split(','));
        let with = |value| self.axes.replace(&listed, &format!("{axis}={value}"));
        values.map(|value| self.filled(&with(value), effort)).collect()
    }

    /// The check with these axes, and with values for the words in braces that do not depend on where it is made.
    fn filled(&self, axes: &str, effort: Effort) -> Check {
        let BeyondCaches { mib, lacks } = BeyondCaches::at_least(effort.memory_mib);
        let numbers = [
            ("mib", mib),
            ("seconds", effort.seconds),
            ("memrate_seconds", effort.memrate_seconds.max(mib / MIB_A_SECOND)),
            ("fio_seconds", effort.fio_seconds),
        ];
        let mut words = numbers.map(|(name, number)| (name, number.to_string())).to_vec();
        let lacks = lacks.filter(|_| axes.contains("{mib}"));
        let mut check = Check { axes: put(axes, &words), lacks, ..self.clone() };
        let axes = axes.split_whitespace().filter_map(|axis| axis.split_once('='));
        words.extend(axes.map(|(name, value)| (name, value.to_owned())));
        for peer in &mut check.peers {
            peer.run = put(&peer.run, &words);
        }
        check
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c;

    #[test]
    fn every_check_says_what_is_expected_and_why() {
        for check in checks(Effort::QUICK) {
            assert!(!check.peers.is_empty(), "{}", check.probe);
            for peer in &check.peers {
                let (expected, name) = (peer.expected, peer.tool);
                assert!(expected.low < expected.high && expected.low > 0.0);
                assert!(peer.differs.len() > 30, "{name}: {}", peer.differs);
                assert!(peer.server.is_none() || check.cpus == 2, "{name}");
                assert_eq!(peer.source.is_some(), name == c::NAME);
            }
        }
    }

    #[test]
    fn an_axis_that_lists_values_makes_a_check_for_each_and_its_tool_gets_them() {
        let checks = checks(Effort::QUICK);
        let runs = checks.iter().filter(|check| check.probe == "memory.malloc");
        let runs: Vec<&str> = runs.map(|check| &*check.peers[0].run).collect();
        assert_eq!(runs, ["64 1 200", "64 1000 200"]);
        for check in &checks {
            assert!(!check.axes.contains([',', '{']), "{}", check.point());
        }
    }

    #[test]
    fn stress_ng_has_time_for_all_ways_through_much_memory() {
        let mib = BeyondCaches::at_least(128).mib;
        let checks = checks(Effort::QUICK);
        let mut peers = checks.iter().flat_map(|check| &check.peers);
        let run = &peers.find(|peer| peer.run.contains("--memrate ")).unwrap().run;
        assert!(run.contains(&format!("--timeout {} ", (mib / 128).max(2))), "{run}");
    }
}
