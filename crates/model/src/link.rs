//! A link: the path between the two ends of a measurement, as the user asked for it.

use crate::Unit;
use crate::unit::{parse_bits_per_second, parse_count};
use std::fmt;
use std::str::FromStr;

/// The path between two roles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// This machine's loopback device.
    Loopback,
    /// The existing network between two hosts.
    Remote,
    /// Two network namespaces joined by a cable (veth).
    Veth,
    /// Only the sender's half: the other side discards everything.
    Sink,
    /// Two namespaces, with delay, loss and a rate between them.
    Emulated {
        /// From the leading role, which is the client's or sender's.
        up: Emulation,
        /// To the leading role.
        down: Emulation,
    },
}

/// What a link does to packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Emulation {
    /// By how much it delays each packet, in nanoseconds.
    pub delay_ns: f64,
    /// By how much the delay varies in either direction, uniformly, in nanoseconds.
    pub jitter_ns: f64,
    /// The share of packets that is lost, before they use up any of the rate.
    pub loss: f64,
    /// The share of packets that overtakes others: they are not delayed.
    pub reorder: f64,
    /// The share of packets that arrives twice.
    pub duplicate: f64,
    /// How many bits of IP packets pass per second; `None` for no limit.
    pub rate: Option<f64>,
    /// At most this many packets wait for the rate; packets beyond that are dropped.
    pub queue: u32,
}

/// The default length of the queue, in packets.
const QUEUE: u32 = 1000;

/// Links without settings.
const PLAIN: [Link; 4] = [Link::Loopback, Link::Remote, Link::Veth, Link::Sink];

/// The common names of such links.
const NAMED: [(&str, &str); 2] =
    [("lan", "delay=0.05ms,rate=1Gbit"), ("wan", "delay=95ms,rate=100Mbit")];

const USAGE: &str = "loopback, veth, sink, lan, wan, or such as delay=10ms,jitter=1ms,loss=1%,\
                     reorder=1%,duplicate=1%,rate=100Mbit,queue=1000, with up. or down. before a \
                     name for one direction";

/// The suffix for the name of a number over this link: a mark if the link is emulated.
pub fn mark(link: &str) -> &'static str {
    match link.parse() {
        Ok(Link::Emulated { .. }) => " [emulated]",
        _ => "",
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Link, String> {
        if let Some(link) = PLAIN.iter().find(|link| link.name() == Some(text)) {
            return Ok(*link);
        }
        let spelt = NAMED.iter().find(|(name, _)| *name == text);
        let none = Emulation { queue: QUEUE, ..Emulation::default() };
        let (mut up, mut down) = (none, none);
        for part in spelt.map_or(text, |(_, spelt)| spelt).split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not a link (links: {USAGE})"))?;
            match name.split_once('.') {
                Some(("up", name)) => set(&mut up, name, value)?,
                Some(("down", name)) => set(&mut down, name, value)?,
                Some(_) => return Err(format!("`{name}` is no direction: up. or down.")),
                None => {
                    set(&mut up, name, value)?;
                    set(&mut down, name, value)?;
                }
            }
        }
        for direction in [up, down] {
            if direction.jitter_ns > direction.delay_ns {
                return Err("jitter is more than the delay that it varies".to_owned());
            }
        }
        Ok(Link::Emulated { up, down })
    }
}

/// The settings that [`set`] accepts.
const NAMES: &str = "delay jitter loss reorder duplicate rate queue";

fn set(emulation: &mut Emulation, name: &str, value: &str) -> Result<(), String> {
    match name {
        "delay" => emulation.delay_ns = time_ns(value)?,
        "jitter" => emulation.jitter_ns = time_ns(value)?,
        "loss" => emulation.loss = share(value)?,
        "reorder" => emulation.reorder = share(value)?,
        "duplicate" => emulation.duplicate = share(value)?,
        "rate" => emulation.rate = Some(bits(value)?),
        "queue" => {
            emulation.queue = parse_count(value)
                .and_then(|queue| queue.try_into().ok())
                .filter(|queue| (1..=1_000_000).contains(queue))
                .ok_or_else(|| format!("queue={value}: a number of packets, 1 to 1000000"))?;
        }
        other => {
            let hint = crate::nearest::hint(other, NAMES.split(' '));
            return Err(format!("a link has no `{other}`{hint} (links: {USAGE})"));
        }
    }
    Ok(())
}

/// The longest time of a link in nanoseconds: the ends must find each other within ten seconds, in
/// a few round trips.
const TIME_MAX_NS: f64 = 2e9;

/// `95ms`, `50us`, `1.5s`.
fn time_ns(text: &str) -> Result<f64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    number(text, &units)
        .filter(|ns| (0.0..=TIME_MAX_NS).contains(ns))
        .ok_or_else(|| format!("`{text}` is not a time of up to 2 s, such as 95ms or 50us"))
}

/// `10%` or `0.1`, to the twelve digits of a percentage that are shown.
fn share(text: &str) -> Result<f64, String> {
    number(text, &[("%", 0.01), ("", 1.0)])
        .filter(|share| (0.0..=1.0).contains(share))
        .map(|share| (share * 1e14).round() / 1e14)
        .ok_or_else(|| format!("`{text}` is no share, such as 10% or 0.1"))
}

/// `100Mbit`, `1Gbit/s`.
fn bits(text: &str) -> Result<f64, String> {
    parse_bits_per_second(text)
        .filter(|bits| (1e3..=1e12).contains(bits))
        .ok_or_else(|| format!("`{text}` is not a rate from 1kbit to 1000Gbit, such as 100Mbit"))
}

/// A number with one of these units: the first that is a suffix of the text.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, times) =
        units.iter().find_map(|(unit, times)| Some((text.strip_suffix(unit)?, times)))?;
    let number: f64 = digits.parse().ok()?;
    number.is_finite().then_some(number * times)
}

impl fmt::Display for Link {
    /// Writes it so that it can be parsed again; named links by their names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return f.write_str(name);
        }
        let Link::Emulated { up, down } = self else {
            unreachable!("every other link has a name");
        };
        let (up, down) = (up.parts(), down.parts());
        let both: Vec<&String> = up.iter().filter(|part| down.contains(part)).collect();
        let only = |direction: &str, parts: &[String]| -> Vec<String> {
            let rest = parts.iter().filter(|part| !both.contains(part));
            rest.map(|part| format!("{direction}.{part}")).collect()
        };
        let mut parts: Vec<String> = both.iter().map(ToString::to_string).collect();
        parts.extend(only("up", &up));
        parts.extend(only("down", &down));
        if parts.is_empty() {
            parts.push("delay=0ms".to_owned());
        }
        f.write_str(&parts.join(","))
    }
}

impl Emulation {
    /// The settings that have an effect, as `name=value`.
    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for (name, ns) in [("delay", self.delay_ns), ("jitter", self.jitter_ns)] {
            if ns > 0.0 {
                parts.push(format!("{name}={}ms", ns / 1e6));
            }
        }
        for (name, share) in
            [("loss", self.loss), ("reorder", self.reorder), ("duplicate", self.duplicate)]
        {
            if share > 0.0 {
                // Twelve digits, so that 0.07 is 7 % and not 7.000000000000001 %.
                let percent = (share * 1e14).round() / 1e12;
                parts.push(format!("{name}={percent}%"));
            }
        }
        if let Some(rate) = self.rate {
            parts.push(format!("rate={}Mbit", rate / 1e6));
        }
        if self.queue != QUEUE {
            parts.push(format!("queue={}", self.queue));
        }
        parts
    }
}

/// The one link with names, which `costof link` makes: its record, and the network namespaces of its
/// ends.
pub mod named {
    /// The existing link, as JSON with its name as `link`.
    pub const RECORD: &str = "/run/costof-link.json";
    /// The namespace of the leading end: 10.0.0.2.
    pub const LEADING: &str = "costof-client";
    /// The namespace of the other end: 10.0.0.1.
    pub const OTHER: &str = "costof-server";
}

impl Link {
    /// The same link seen from its other end.
    #[must_use]
    pub const fn reversed(self) -> Link {
        match self {
            Link::Emulated { up, down } => Link::Emulated { up: down, down: up },
            same => same,
        }
    }

    /// Its name, if it has one.
    fn name(&self) -> Option<&'static str> {
        match self {
            Link::Loopback => Some("loopback"),
            Link::Remote => Some("remote"),
            Link::Veth => Some("veth"),
            Link::Sink => Some("sink"),
            Link::Emulated { .. } => {
                let mut named = NAMED.iter();
                let named = named.find(|(name, _)| name.parse() == Ok(*self))?;
                Some(named.0)
            }
        }
    }

    /// The minimum that the link adds to a round trip, in words and nanoseconds; `None` if it adds
    /// no delay.
    pub fn round_trip_ns(&self) -> Option<(f64, String)> {
        let Link::Emulated { up, down } = self else {
            return None;
        };
        let both = up.delay_ns + down.delay_ns;
        let [there, back] = [up, down].map(|one| Unit::Nanoseconds.display(one.delay_ns));
        Some((both, format!("{there} there and {back} back")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulated(text: &str) -> (Emulation, Emulation) {
        match text.parse() {
            Ok(Link::Emulated { up, down }) => (up, down),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn directions_are_alike_unless_they_are_named() {
        let (up, down) = emulated("delay=95ms,loss=10%,rate=100Mbit");
        assert_eq!(up, down);
        assert_eq!((up.delay_ns, up.loss, up.rate), (95e6, 0.1, Some(100e6)));
        let (up, down) = emulated("delay=1ms,up.loss=0.5,down.queue=10");
        assert_eq!((up.loss, up.queue, up.delay_ns), (0.5, 1000, 1e6));
        assert_eq!((down.loss, down.queue, down.delay_ns), (0.0, 10, 1e6));
        assert_eq!(emulated("rate=10Gbit/s,queue=1k"), emulated("rate=10000Mbit,queue=1000"));
        let (lan, _) = emulated("lan");
        assert_eq!((lan.delay_ns, lan.rate), (50e3, Some(1e9)));
    }

    #[test]
    fn a_link_is_read_back_as_it_is_shown() {
        for text in [
            "loopback",
            "remote",
            "veth",
            "sink",
            "lan",
            "wan",
            "delay=95ms,loss=7%,rate=100Mbit",
            "delay=0.05ms,up.loss=10%,down.rate=0.064Mbit",
            "delay=10ms,jitter=2.5ms,reorder=1%,duplicate=0.1%,queue=20",
            "delay=0ms",
        ] {
            let link: Link = text.parse().unwrap();
            assert_eq!(link.to_string(), text);
        }
        let wan: Link = "rate=100Mbit,delay=95ms".parse().unwrap();
        assert_eq!(wan.to_string(), "wan");
        // Less than is shown is nothing.
        let tiny: Link = "loss=1e-20,up.delay=1ms".parse().unwrap();
        assert_eq!(tiny.to_string().parse(), Ok(tiny), "{tiny}");
    }

    #[test]
    fn what_is_no_link_says_so() {
        for (text, says) in [
            ("", "is not a link"),
            ("lann", "is not a link"),
            ("delay=-1ms", "not a time"),
            ("delay=5", "not a time"),
            ("delay=1ms,jitter=2ms", "more than the delay"),
            ("los=1%", "`loss`"),
            ("loss=120%", "no share"),
            ("rate=fast", "not a rate"),
            ("queue=0", "packets"),
            ("left.delay=1ms", "no direction"),
        ] {
            let error = text.parse::<Link>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
