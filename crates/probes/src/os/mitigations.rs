//! What the kernel's defences against speculative execution add to its work, by the files in
//! `/sys/devices/system/cpu/vulnerabilities`.

use crate::prelude::*;

/// Entering the kernel and leaving it without any of them, in core cycles: `syscall` and `sysret`
/// take 50 to 140 (Behrens et al., table 3); the rest saves and clears registers, moves the stack
/// by a random offset, finds the call and does its little work.
const ENTRY: Range = Range(160.0, 420.0);

/// A defence.
struct Mitigation {
    /// The file, and a part of what it says.
    shown: (&'static str, &'static str),
    /// Core cycles that it adds to entering and leaving the kernel.
    entry: Range,
    /// By how much it multiplies the time of the kernel's code.
    code: Range,
    /// What it does.
    name: &'static str,
}

const SAME: Range = Range(1.0, 1.0);

#[rustfmt::skip]
const MITIGATIONS: [Mitigation; 13] = [
    // Two writes of CR3 of about 200 cycles each (table 3), and TLB misses.
    adds(("meltdown", "PTI"), Range(360.0, 800.0), "page-table isolation"),
    adds(("spectre_v2", "Mitigation: IBRS"), Range(150.0, 900.0), "IBRS, a register to write"),
    adds(("spectre_v2", "BHI: SW loop"), Range(50.0, 250.0), "a loop that clears the branch history"),
    // VERW with the microcode that clears buffers (table 4).
    adds(("mds", "Mitigation: Clear CPU buffers"), CLEARED, "clearing CPU buffers"),
    adds(("mmio_stale_data", "Mitigation: Clear CPU buffers"), CLEARED, "clearing CPU buffers"),
    adds(("tsx_async_abort", "Mitigation: Clear CPU buffers"), CLEARED, "clearing CPU buffers"),
    adds(("reg_file_data_sampling", "Mitigation: Clear"), CLEARED, "clearing CPU buffers"),
    // Table 6.
    adds(("retbleed", "Mitigation: IBPB;"), Range(800.0, 7500.0), "IBPB at each entry"),
    adds(("spec_rstack_overflow", "Mitigation: IBPB;"), Range(800.0, 7500.0), "IBPB at each entry"),
    // Each return is mispredicted, which takes 12 to 20 cycles: as much as or more than a short
    // function. An entry has a handful of returns.
    slows(("spec_rstack_overflow", "Safe RET"), Range(60.0, 320.0), Range(2.2, 3.0), "Safe RET"),
    slows(("retbleed", "untrained return"), Range(60.0, 320.0), Range(2.2, 3.0), "return thunks"),
    slows(("retbleed", "Stuffing"), Range(20.0, 150.0), Range(1.1, 1.6), "call depth tracking"),
    slows(("spectre_v2", "Retpolines"), Range(20.0, 120.0), Range(1.0, 1.3), "retpolines"),
];
const CLEARED: Range = Range(400.0, 650.0);

const fn adds(shown: (&'static str, &'static str), entry: Range, name: &'static str) -> Mitigation {
    slows(shown, entry, SAME, name)
}

const fn slows(
    shown: (&'static str, &'static str),
    entry: Range,
    code: Range,
    name: &'static str,
) -> Mitigation {
    Mitigation { shown, entry, code, name }
}

impl Mitigation {
    fn is_in_force(&self, facts: &Facts) -> bool {
        let (file, part) = self.shown;
        let text = facts.cpu.vulnerabilities.get(file);
        text.is_some_and(|text| format!("{text};").contains(part))
    }
}

/// Those of this machine; what several files ask for is done once.
fn in_force(facts: &Facts) -> Vec<&'static Mitigation> {
    let mut found: Vec<&Mitigation> = Vec::new();
    for mitigation in &MITIGATIONS {
        let is_new = found.iter().all(|known| known.name != mitigation.name);
        if is_new && mitigation.is_in_force(facts) {
            found.push(mitigation);
        }
    }
    found
}

/// The range with what each mitigation does to it, in core cycles; `None` on a machine that does not
/// report them, as where /sys is hidden: unknown is not none.
fn mitigated(
    (facts, measured): (&Facts, &MeasuredRows<'_>),
    plain: Range,
    apply: impl Fn(Range, &Mitigation) -> Range,
    what: &str,
) -> Option<Cost> {
    if facts.kernel.release.is_some() && facts.cpu.vulnerabilities.is_empty() {
        return None;
    }
    let mut range = plain;
    let mut name = what.to_owned();
    for mitigation in in_force(facts) {
        let next = apply(range, mitigation);
        if next != range {
            name += if range == plain { ", with " } else { " and " };
            name += mitigation.name;
            range = next;
        }
    }
    cycles(measured, (range.0, range.1), &name).or_else(|| at_usual_clocks(range, &name))
}

/// The clocks of today's cores at work, in GHz, for what is predicted before the clock is measured.
const USUAL_GHZ: Range = Range(2.0, 5.0);

fn at_usual_clocks(range: Range, name: &str) -> Option<Cost> {
    let ns = Range(range.0 / USUAL_GHZ.1, range.1 / USUAL_GHZ.0);
    let name = format!("for {range} cycles at {USUAL_GHZ} GHz: {name}");
    Some(Cost::new(ns, name))
}

/// What `calls` system calls take to enter the kernel and to leave it.
pub(crate) fn entries(facts: &Facts, measured: &MeasuredRows<'_>, calls: f64) -> Option<Cost> {
    let what = match calls {
        1.0 => "to enter and leave the kernel".to_owned(),
        _ => format!("to enter and leave the kernel {calls} times"),
    };
    let add = |range, mitigation: &Mitigation| range + mitigation.entry * calls;
    mitigated((facts, measured), ENTRY * calls, add, &what)
}

/// Work in the kernel that takes so many cycles without mitigations.
pub(crate) fn work(
    facts: &Facts,
    measured: &MeasuredRows<'_>,
    plain_cycles: (f64, f64),
    what: &str,
) -> Option<Cost> {
    let slow = |range, mitigation: &Mitigation| range * mitigation.code;
    mitigated((facts, measured), plain_cycles.into(), slow, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::measured;

    fn with(vulnerabilities: &[(&str, &str)]) -> (Cost, Cost) {
        let mut facts = Facts::default();
        let texts = vulnerabilities.iter();
        facts.cpu.vulnerabilities =
            texts.map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        let rows = [measured(Frequency {}, 1e9)];
        let measured = MeasuredRows::new(&rows);
        let entry = entries(&facts, &measured, 1.0).unwrap();
        (entry, work(&facts, &measured, (100.0, 200.0), "work").unwrap())
    }

    #[test]
    fn nothing_is_predicted_where_the_mitigations_are_unknown() {
        let mut facts = Facts::default();
        facts.kernel.release = Some("6.18".to_owned());
        let rows = [measured(Frequency {}, 1e9)];
        let measured = MeasuredRows::new(&rows);
        assert_eq!(entries(&facts, &measured, 1.0), None);
        let affected = ("meltdown".to_owned(), "Not affected".to_owned());
        facts.cpu.vulnerabilities.extend([affected]);
        assert!(entries(&facts, &measured, 1.0).is_some());
    }

    #[test]
    fn what_the_kernel_says_decides_about_entries_and_code() {
        let (plain, work) = with(&[]);
        assert_eq!((plain.range, work.range), (ENTRY, Range(100.0, 200.0)));
        // Enhanced IBRS is switched on once, not at each entry.
        let (enhanced, _) = with(&[
            ("retbleed", "Mitigation: Enhanced IBRS"),
            ("spectre_v2", "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional"),
        ]);
        assert_eq!(enhanced, plain);
        let (ibrs, _) = with(&[("spectre_v2", "Mitigation: IBRS; IBPB: conditional")]);
        assert!(ibrs.range.0 > plain.range.0);
        let (zen, work) = with(&[
            ("spec_rstack_overflow", "Vulnerable: Safe RET, no microcode"),
            ("spectre_v2", "Mitigation: Retpolines; IBPB: conditional"),
        ]);
        assert_eq!(zen.range, Range(240.0, 860.0));
        assert!(zen.formula().contains("with Safe RET and retpolines"), "{zen}");
        assert_eq!((work.range.0.round(), work.range.1.round()), (220.0, 780.0));
        // Several files, one VERW.
        let clears = "Mitigation: Clear CPU buffers; SMT disabled";
        let (cleared, _) = with(&[("mds", clears), ("mmio_stale_data", clears)]);
        assert_eq!(cleared.range, ENTRY + CLEARED);
    }
}
