//! The kernel's emulation of a link (netem, tc-netem(8)) on a cable, if the kernel has it and
//! interprets the settings as costof does.

use crate::link::emulator::Emulator;
use crate::link::ends::{DEVICE, Ends, ip, tc};
use costof_model::link::Emulation;
use costof_model::link_report::Traffic;
use costof_model::{LinkReport, Text};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::process::namespace::Namespace;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How many packets may be in flight without a rate: netem's queue also holds the delayed packets.
const MAX_IN_FLIGHT: u32 = 65_536;

/// netem at both ends.
#[derive(Debug)]
pub(crate) struct Netem {
    up: Emulation,
    down: Emulation,
    /// The counts at each end when the launch began, and their times.
    before: [(Counts, u64); 2],
}

/// The counters of a queue discipline.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Counts {
    packets: u64,
    bytes: u64,
    drops: u64,
    #[serde(default)]
    options: Options,
}

/// Options that the kernel may not know.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Options {
    seed: Option<u64>,
}

impl Netem {
    /// Puts netem on both ends of a cable.
    ///
    /// # Errors
    /// If the kernel has no netem, or one that behaves differently.
    pub(crate) fn install(ends: &Ends, up: Emulation, down: Emulation) -> Result<Netem, String> {
        for emulation in [&up, &down] {
            differs(emulation)?;
        }
        let mut netem = Netem { up, down, before: Default::default() };
        for end in [&ends.near, &ends.far] {
            // One packet is at most the MTU, so that a loss is never one of 64 KiB.
            ip(end, &[&format!("link set {DEVICE} gso_max_segs 1")])?;
        }
        netem.begin(0, ends)?;
        Ok(netem)
    }
}

impl Emulator for Netem {
    fn name(&self) -> &'static str {
        "netem"
    }

    fn begin(&mut self, seed: u64, ends: &Ends) -> Result<(), String> {
        let directions = [(&ends.near, &self.up, seed), (&ends.far, &self.down, !seed)];
        for (end, emulation, seed) in directions {
            let words = format!("qdisc replace dev {DEVICE} root {}", words(emulation, seed));
            tc(end, words.split(' '))?;
        }
        self.before = counts(ends)?;
        for ((_, emulation, seed), (counts, _)) in directions.into_iter().zip(self.before) {
            draws_from(emulation, seed, counts.options)?;
        }
        Ok(())
    }

    fn report(&mut self, ends: &Ends) -> Result<LinkReport, String> {
        let after = counts(ends)?;
        let up = traffic(&self.up, self.before[0], after[0]);
        let down = traffic(&self.down, self.before[1], after[1]);
        Ok(LinkReport {
            by: self.name().into(),
            duration_ns: up.counted_ns,
            up,
            down,
            relay: None,
            absent: absent(&self.up, &self.down),
        })
    }
}

/// What netem does not report.
fn absent(up: &Emulation, down: &Emulation) -> BTreeMap<Text, Text> {
    let mut absent = BTreeMap::new();
    let mut say = |name, why| absent.insert(Text::Borrowed(name), Text::Borrowed(why));
    for name in ["delay_ns", "lateness_ns"] {
        say(
            name,
            "netem does not time packets: whether they were delayed as requested is not known",
        );
    }
    for name in ["duplicated", "reordered"] {
        say(name, "netem does not count them");
    }
    if up.loss + down.loss > 0.0 {
        say("queue_drops", "netem counts what its queue drops as requested losses");
    }
    absent
}

/// Returns an error if netem interprets a setting differently.
// METHOD 17
fn differs(emulation: &Emulation) -> Result<(), String> {
    if emulation.jitter_ns > 0.0 {
        return Err("netem reorders where the delay varies".to_owned());
    }
    if emulation.reorder > 0.0 && emulation.rate.is_some() {
        return Err("packets that overtake bypass netem's rate".to_owned());
    }
    if emulation.delay_ns > 0.0 && emulation.rate.is_some() {
        // The packets in flight would have to be added to the limit of its queue: sixteen times as
        // many small packets as large ones.
        return Err("netem's queue before the rate also holds delayed packets".to_owned());
    }
    Ok(())
}

/// Checks that random decisions use this seed. A kernel that does not know the option ignores it.
fn draws_from(emulation: &Emulation, seed: u64, options: Options) -> Result<(), String> {
    if options.seed == Some(seed) || !draws(emulation) {
        Ok(())
    } else {
        Err("this kernel's netem takes no seed (before Linux 6.6)".to_owned())
    }
}

/// Whether any decision about packets is random.
fn draws(emulation: &Emulation) -> bool {
    emulation.loss + emulation.duplicate + emulation.reorder > 0.0
}

/// The options of netem.
fn words(emulation: &Emulation, seed: u64) -> String {
    let mut words = vec!["netem".to_owned()];
    // With a rate there is no delay; one packet is on the line.
    let limit = emulation.rate.map_or(MAX_IN_FLIGHT, |_| emulation.queue.saturating_add(1));
    words.push(format!("limit {limit}"));
    words.push(format!("delay {}us", emulation.delay_ns / 1e3));
    for (name, share) in [
        ("loss", emulation.loss),
        ("duplicate", emulation.duplicate),
        ("reorder", emulation.reorder),
    ] {
        if share > 0.0 {
            // Twelve digits: 7 % instead of 7.000000000000001 %.
            words.push(format!("{name} {}%", (share * 1e14).round() / 1e12));
        }
    }
    if let Some(rate) = emulation.rate {
        // The size of IP packets counts, without the Ethernet header.
        words.push(format!("rate {}bit -14", rate as u64));
    }
    if draws(emulation) {
        words.push(format!("seed {seed}"));
    }
    words.join(" ")
}

/// The counts at each end, each with its own time: running tc takes milliseconds.
fn counts(ends: &Ends) -> Result<[(Counts, u64); 2], String> {
    let of = |end: &Namespace| -> Result<(Counts, u64), String> {
        let text = tc(end, ["-s", "-j", "qdisc", "show", "dev", DEVICE, "root"])?;
        let counted_ns = now_ns(ClockId::Monotonic);
        let found: Vec<Counts> =
            serde_json::from_str(&text).map_err(|error| format!("the output of tc: {error}"))?;
        let counts = found.into_iter().next();
        Ok((counts.ok_or("tc shows no netem")?, counted_ns))
    };
    Ok([of(&ends.near)?, of(&ends.far)?])
}

fn traffic(
    emulation: &Emulation,
    (before, before_ns): (Counts, u64),
    (after, after_ns): (Counts, u64),
) -> Traffic {
    let drops = after.drops.saturating_sub(before.drops);
    let packets = after.packets.saturating_sub(before.packets);
    let bytes = after.bytes.saturating_sub(before.bytes);
    let on_purpose = emulation.loss > 0.0;
    Traffic {
        asked_delay_ns: emulation.delay_ns,
        counted_ns: (after_ns - before_ns) as f64,
        packets,
        // Without the Ethernet header.
        bytes: bytes.saturating_sub(14 * packets),
        lost: if on_purpose { drops } else { 0 },
        queue_drops: (!on_purpose).then_some(drops),
        ..Traffic::default()
    }
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
    fn netem_gets_its_own_words() {
        assert_eq!(
            words(&up("rate=100Mbit,queue=1000"), 7),
            "netem limit 1001 delay 0us rate 100000000bit -14"
        );
        assert_eq!(
            words(&up("loss=7%,duplicate=1%,queue=10"), 7),
            "netem limit 65536 delay 0us loss 7% duplicate 1% seed 7"
        );
    }

    #[test]
    fn what_netem_would_do_otherwise_is_left_to_the_relay() {
        assert!(differs(&up("delay=95ms,loss=1%")).is_ok());
        assert!(differs(&up("rate=100Mbit,loss=1%")).is_ok());
        assert!(differs(&up("wan")).is_err());
        assert!(differs(&up("delay=1ms,reorder=1%")).is_ok());
        assert!(differs(&up("delay=1ms,jitter=1ms")).is_err());
        assert!(differs(&up("delay=1ms,reorder=1%,rate=1Mbit")).is_err());
    }

    /// The output of tc(8) for netem with these options and seed.
    fn shown(options: &str) -> Counts {
        let shown = format!(
            r#"[{{"kind":"netem","handle":"8001:","root":true,"options":{{{options}}},
            "bytes":15140,"packets":10,"drops":3,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}}]"#
        );
        let counts: Vec<Counts> = serde_json::from_str(&shown).unwrap();
        counts[0]
    }

    #[test]
    fn counts_are_those_since_the_launch_began() {
        let after = (shown(r#""limit":1000,"ecn":false,"gap":0"#), 3_000);
        let before = Counts { packets: 4, bytes: 4 * 1514, drops: 1, ..Counts::default() };
        let lossy = traffic(&up("loss=10%"), (before, 1_000), after);
        assert_eq!((lossy.packets, lossy.bytes), (6, 9000));
        assert_eq!((lossy.lost, lossy.queue_drops), (2, None));
        assert_eq!(lossy.counted_ns, 2_000.0);
        let limited = traffic(&up("rate=1Mbit"), (before, 1_000), after);
        assert_eq!(limited.queue_drops, Some(2));
    }

    #[test]
    fn a_kernel_that_takes_no_seed_is_found_out() {
        let knows = shown(&format!(r#""limit":1000,"seed":{},"gap":0"#, u64::MAX));
        let does_not = shown(r#""limit":1000,"gap":0"#);
        let lossy = up("loss=1%");
        assert!(draws_from(&lossy, u64::MAX, knows.options).is_ok());
        assert!(draws_from(&lossy, 7, knows.options).is_err());
        assert!(draws_from(&lossy, 0, does_not.options).is_err());
        // Without random decisions, no seed is needed.
        assert!(draws_from(&up("delay=1ms"), 7, does_not.options).is_ok());
    }

    #[test]
    fn what_netem_does_not_measure_is_absent_with_the_reason() {
        let counts = Counts { packets: 10, ..Counts::default() };
        for (link, named) in [("delay=1ms", 4), ("loss=1%", 5)] {
            let traffic = traffic(&up(link), (Counts::default(), 0), (counts, 0));
            let absent = absent(&up(link), &up(link));
            let shown = serde_json::to_value(&traffic).unwrap();
            assert_eq!(absent.len(), named);
            for (name, why) in &absent {
                assert!(shown.get(&**name).is_none(), "{name}: {why}");
            }
        }
    }
}
