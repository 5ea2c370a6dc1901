//! The kernel's emulation of a link (netem, tc-netem(8)) on a cable, where the
//! kernel has it and does what was asked for in the way that costof means it.

use crate::link::ends::{DEVICE, Ends, ip, output};
use costof_model::Text;
use costof_model::link::Emulation;
use costof_model::link_report::{LinkReport, Traffic};
use costof_os::clock::{ClockId, now_ns};
use costof_os::namespace::Namespace;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Command;

/// The longest packet, in bytes.
const MTU: f64 = 1500.0;
/// How many packets may be under way where there is no rate: netem's queue
/// holds what is delayed too.
const UNDER_WAY: f64 = 65_536.0;

/// netem at both ends.
#[derive(Debug)]
pub(crate) struct Netem {
    up: Emulation,
    down: Emulation,
    began_ns: u64,
    /// What was counted at each end when the launch began.
    before: [Counts; 2],
}

/// What a queue discipline has counted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Counts {
    packets: u64,
    bytes: u64,
    drops: u64,
}

impl Netem {
    /// Puts netem on both ends of a cable.
    ///
    /// # Errors
    /// Where the kernel has none, or one that does something else.
    pub(crate) fn install(ends: &Ends, up: Emulation, down: Emulation) -> Result<Netem, String> {
        for emulation in [&up, &down] {
            differs(emulation)?;
        }
        let mut netem = Netem {
            up,
            down,
            began_ns: 0,
            before: Default::default(),
        };
        for end in [&ends.near, &ends.far] {
            // One packet is one of the MTU, so that what is lost is no 64 KiB.
            ip(end, &[&format!("link set {DEVICE} gso_max_segs 1")])?;
        }
        netem.begin(0, ends)?;
        Ok(netem)
    }

    /// A launch begins: draws from this seed, counts from zero.
    pub(crate) fn begin(&mut self, seed: u64, ends: &Ends) -> Result<(), String> {
        for (end, emulation, seed) in [(&ends.near, &self.up, seed), (&ends.far, &self.down, !seed)]
        {
            let words = format!("qdisc replace dev {DEVICE} root {}", words(emulation, seed));
            tc(end, &words)?;
        }
        self.before = counts(ends)?;
        self.began_ns = now_ns(ClockId::Monotonic);
        Ok(())
    }

    /// What happened since then.
    pub(crate) fn report(&self, ends: &Ends) -> Result<LinkReport, String> {
        let after = counts(ends)?;
        let duration_ns = now_ns(ClockId::Monotonic) - self.began_ns;
        Ok(LinkReport {
            by: "netem".into(),
            duration_ns: duration_ns as f64,
            up: traffic(&self.up, self.before[0], after[0]),
            down: traffic(&self.down, self.before[1], after[1]),
            relay: None,
            absent: absent(&self.up, &self.down),
        })
    }
}

/// What netem does not say of what it did.
fn absent(up: &Emulation, down: &Emulation) -> BTreeMap<Text, Text> {
    let mut absent = BTreeMap::new();
    let mut say = |name, why| absent.insert(Text::Borrowed(name), Text::Borrowed(why));
    for name in ["delay_ns", "lateness_ns"] {
        say(
            name,
            "netem does not time packets: that they were held up for as long as was asked is not known",
        );
    }
    for name in ["duplicated", "reordered"] {
        say(name, "netem does not count them");
    }
    if up.loss + down.loss > 0.0 {
        say(
            "queue_drops",
            "netem counts what its queue drops among the losses that were asked for",
        );
    }
    absent
}

/// Where netem means something else than costof, which.
fn differs(emulation: &Emulation) -> Result<(), String> {
    if emulation.jitter_ns > 0.0 {
        return Err("netem reorders where the delay varies".to_owned());
    }
    if emulation.reorder > 0.0 && emulation.rate.is_some() {
        return Err("what overtakes passes by netem's rate".to_owned());
    }
    Ok(())
}

/// What netem is told.
fn words(emulation: &Emulation, seed: u64) -> String {
    let mut words = vec!["netem".to_owned()];
    let under_way = emulation.rate.map_or(UNDER_WAY, |rate| {
        (rate / 8.0 * emulation.delay_ns / 1e9 / MTU).ceil()
    });
    words.push(format!(
        "limit {}",
        under_way as u64 + u64::from(emulation.queue)
    ));
    words.push(format!("delay {}us", emulation.delay_ns / 1e3));
    for (name, share) in [
        ("loss", emulation.loss),
        ("duplicate", emulation.duplicate),
        ("reorder", emulation.reorder),
    ] {
        if share > 0.0 {
            // Twelve digits: 7 % and not 7.000000000000001 %.
            words.push(format!("{name} {}%", (share * 1e14).round() / 1e12));
        }
    }
    if let Some(rate) = emulation.rate {
        // IP packets are counted, without the Ethernet header.
        words.push(format!("rate {}bit -14", rate as u64));
    }
    if emulation.loss + emulation.duplicate + emulation.reorder > 0.0 {
        words.push(format!("seed {seed}"));
    }
    words.join(" ")
}

fn counts(ends: &Ends) -> Result<[Counts; 2], String> {
    let of = |end: &Namespace| -> Result<Counts, String> {
        let text = tc(end, &format!("-s -j qdisc show dev {DEVICE} root"))?;
        let found: Vec<Counts> =
            serde_json::from_str(&text).map_err(|error| format!("what tc says: {error}"))?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| "tc shows no netem".to_owned())
    };
    Ok([of(&ends.near)?, of(&ends.far)?])
}

fn traffic(emulation: &Emulation, before: Counts, after: Counts) -> Traffic {
    let drops = after.drops.saturating_sub(before.drops);
    let packets = after.packets.saturating_sub(before.packets);
    let bytes = after.bytes.saturating_sub(before.bytes);
    let on_purpose = emulation.loss > 0.0;
    Traffic {
        asked_delay_ns: emulation.delay_ns,
        packets,
        // Without the Ethernet header.
        bytes: bytes.saturating_sub(14 * packets),
        lost: if on_purpose { drops } else { 0 },
        queue_drops: (!on_purpose).then_some(drops),
        ..Traffic::default()
    }
}

fn tc(namespace: &Namespace, words: &str) -> Result<String, String> {
    let mut command = Command::new("tc");
    command.args(words.split(' '));
    let output = output(namespace, command, "")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::link::Link;

    fn up(link: &str) -> Emulation {
        match link.parse() {
            Ok(Link::Emulated { up, .. }) => up,
            other => panic!("{link}: {other:?}"),
        }
    }

    #[test]
    fn netem_is_told_in_its_own_words() {
        assert_eq!(
            words(&up("wan"), 7),
            "netem limit 1792 delay 95000us rate 100000000bit -14"
        );
        assert_eq!(
            words(&up("loss=7%,duplicate=1%,queue=10"), 7),
            "netem limit 65546 delay 0us loss 7% duplicate 1% seed 7"
        );
    }

    #[test]
    fn what_netem_would_do_otherwise_is_left_to_the_relay() {
        assert!(differs(&up("wan")).is_ok());
        assert!(differs(&up("delay=1ms,reorder=1%")).is_ok());
        assert!(differs(&up("delay=1ms,jitter=1ms")).is_err());
        assert!(differs(&up("delay=1ms,reorder=1%,rate=1Mbit")).is_err());
    }

    #[test]
    fn counts_are_those_since_the_launch_began() {
        let shown = r#"[{"kind":"netem","handle":"8001:","root":true,"options":{"limit":1000},
            "bytes":15140,"packets":10,"drops":3,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;
        let after: Vec<Counts> = serde_json::from_str(shown).unwrap();
        let before = Counts {
            packets: 4,
            bytes: 4 * 1514,
            drops: 1,
        };
        let lossy = traffic(&up("loss=10%"), before, after[0]);
        assert_eq!((lossy.packets, lossy.bytes), (6, 9000));
        assert_eq!((lossy.lost, lossy.queue_drops), (2, None));
        assert_eq!(traffic(&up("wan"), before, after[0]).queue_drops, Some(2));
    }

    #[test]
    fn what_netem_does_not_measure_is_absent_with_the_reason() {
        let counts = Counts {
            packets: 10,
            ..Counts::default()
        };
        for (link, named) in [("wan", 4), ("loss=1%", 5)] {
            let traffic = traffic(&up(link), Counts::default(), counts);
            let absent = absent(&up(link), &up(link));
            let shown = serde_json::to_value(&traffic).unwrap();
            assert_eq!(absent.len(), named);
            for (name, why) in &absent {
                assert!(shown.get(&**name).is_none(), "{name}: {why}");
            }
        }
    }
}
