//! What a processor costs beside its work: shared cores, waking up, mitigations.

use costof_model::facts::{Diagnosis, Facts, Idle, Probed};

use super::words::{good, not_checked, us, why, worse};

/// A state below C1 costs some 10 µs to leave, which is as long as a round trip over loopback.
const DEEP_IDLE_NS: u64 = 10_000;

/// Waking a thread takes some 2 µs where its processor is awake, and little more from a shallow idle
/// state; from here on it is as long as what is measured.
const WAKE_UP_NS: f64 = 10_000.0;

/// Words in the kernel's descriptions that stand for work at each entry, exit or indirect branch.
const COSTLY_MITIGATIONS: &[&str] = &[
    "PTI",
    "Clear CPU buffers",
    "Retpolines",
    "untrained return thunk",
    "Safe RET",
    "IBPB on",
    "Mitigation: IBRS",
];

pub(super) fn smt(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "SMT";
    let effect = "what runs on the other thread of a core takes up to half of it";
    let shared = facts.cpu.cores.iter().find(|core| core.len() > 1);
    let active = facts
        .cpu
        .smt_active
        .or_else(|| (!facts.cpu.cores.is_empty()).then_some(shared.is_some()));
    match (active, facts.virtualization.virtual_machine) {
        (Some(true), _) => {
            let example = match shared {
                Some(core) => format!(" (processors {core} are one)"),
                None => String::new(),
            };
            let switch = match facts.cpu.smt_control.as_deref() {
                Some("on") => ", or `echo off | sudo tee /sys/devices/system/cpu/smt/control`",
                _ => "",
            };
            worse(
                topic,
                format!("cores run more than one thread{example}"),
                effect,
                &format!(
                    "keep the other thread free: measure with `--cpu` on one thread of each core{switch}"
                ),
            )
        }
        (Some(false), Some(true)) => not_checked(
            topic,
            "this machine sees one thread on each core; the host does not tell whose the other is"
                .to_owned(),
            effect,
        ),
        (Some(false), _) => good(topic, "each core runs one thread", "a core is not shared"),
        (None, _) => not_checked(topic, "the kernel tells no siblings".to_owned(), effect),
    }
}

pub(super) fn idle_states(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "idle states";
    let effect = "a thread that waits is woken late: round trips and hand-overs show two modes, awake \
                  and idle";
    let deepest = facts
        .idle
        .states
        .iter()
        .filter(|state| state.disabled != Some(true))
        .max_by_key(|state| state.exit_latency_ns);
    let Some((state, latency_ns)) = deepest.and_then(|state| Some((state, state.exit_latency_ns?)))
    else {
        let what = match facts.virtualization.virtual_machine {
            Some(true) => "the kernel tells of none; a halt goes to the hypervisor",
            _ => "the kernel tells of none",
        };
        return not_checked(topic, what.to_owned(), effect);
    };
    let what = format!(
        "the deepest idle state, {}, says {} to leave it",
        state.name,
        us(latency_ns as f64)
    );
    if latency_ns >= DEEP_IDLE_NS {
        return worse(
            topic,
            what,
            effect,
            &format!(
                "switch the deep ones off: `echo 1 | sudo tee \
                 /sys/devices/system/cpu/cpu*/cpuidle/state[{}]/disable` (afterwards `echo 0` in the \
                 same way); or compare points with `wake` = awake",
                deep_states(&facts.idle)
            ),
        );
    }
    let effect = match facts.virtualization.virtual_machine {
        Some(true) => "as the guest is told; waking through the hypervisor is another matter",
        _ => "waking up is quick",
    };
    good(topic, what, effect)
}

/// The numbers of the deep states that are on, as the inside of a shell's brackets: `234`.
fn deep_states(idle: &Idle) -> String {
    let deep = idle.states.iter().enumerate().filter(|(_, state)| {
        state.disabled != Some(true) && state.exit_latency_ns >= Some(DEEP_IDLE_NS)
    });
    deep.map(|(number, _)| number.to_string()).collect()
}

pub(super) fn wake_up(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "wake-up cost";
    let effect = "whatever waits for another processor pays it: an idle machine looks slower than a \
                  busy one";
    let (Some(idle_ns), Some(spinning_ns)) = (probed.wake_idle_ns, probed.wake_spinning_ns) else {
        let what = match facts.usable_cpus().len() {
            1 => "it takes two processors, and this process may run on one",
            _ => "not tried",
        };
        return not_checked(topic, what.to_owned(), effect);
    };
    let what = format!(
        "a thread that waits runs {} after it is woken; one that spins goes on after {}",
        us(idle_ns),
        us(spinning_ns)
    );
    if idle_ns < WAKE_UP_NS {
        return good(topic, what, "waiting for another processor costs little");
    }
    let poll = match (
        facts.idle.driver.as_deref(),
        facts.virtualization.virtual_machine,
    ) {
        (Some("haltpoll"), _) => {
            "to keep processors awake through waits of up to 200 µs: `echo 200000 | sudo tee \
             /sys/module/haltpoll/parameters/guest_halt_poll_ns`"
        }
        (_, Some(true)) => {
            "to keep processors awake through waits of up to 200 µs, start the kernel with \
             `cpuidle_haltpoll.force=1 haltpoll.guest_halt_poll_ns=200000`"
        }
        _ => "to keep processors awake, start the kernel with `idle=poll`",
    };
    let advice = format!("compare points with the same `wake`; {poll}");
    worse(topic, what, effect, &advice)
}

pub(super) fn mitigations(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "mitigations";
    let effect = "entering and leaving the kernel, switching contexts and calling through pointers in it \
                  cost more";
    if facts.cpu.vulnerabilities.is_empty() {
        return not_checked(
            topic,
            why(facts, "vulnerabilities", "the kernel tells of none"),
            effect,
        );
    }
    let costly: Vec<String> = COSTLY_MITIGATIONS
        .iter()
        .filter_map(|word| {
            let found = facts
                .cpu
                .vulnerabilities
                .iter()
                .find(|(_, told)| told.contains(word))?;
            let word = word.trim_start_matches("Mitigation: ");
            Some(format!("{word} ({})", found.0))
        })
        .collect();
    if costly.is_empty() {
        return good(
            topic,
            "none that costs much is on",
            "the kernel is entered at its plain price",
        );
    }
    worse(
        topic,
        format!("on: {}", costly.join(", ")),
        effect,
        "it is part of what this machine costs: leave it on, and compare only with machines that have \
         the same; a laboratory without secrets may start the kernel with `mitigations=off`",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use costof_model::facts::CpuSet;

    use super::super::DiagnosisState::{NotChecked, Worse};
    use super::super::sample::{Ill, after, check};

    pub(crate) const ILL: &[Ill] = &[
        ("SMT", Worse, "smt/control", |f, _| {
            f.cpu.smt_active = Some(true);
            f.cpu.smt_control = Some("on".to_owned());
        }),
        ("SMT", Worse, "--cpu", |f, _| {
            f.cpu.smt_active = None;
            f.cpu.cores[0] = CpuSet::from_iter([0, 2]);
        }),
        ("idle states", Worse, "state[0]/disable", |f, _| {
            f.idle.states[0].exit_latency_ns = Some(133_000);
        }),
        ("wake-up cost", Worse, "idle=poll", |_, p| {
            p.wake_idle_ns = Some(50_000.0)
        }),
        ("wake-up cost", Worse, "haltpoll.force=1", |f, p| {
            f.virtualization.virtual_machine = Some(true);
            p.wake_idle_ns = Some(50_000.0);
        }),
        (
            "wake-up cost",
            Worse,
            "parameters/guest_halt_poll_ns",
            |f, p| {
                f.idle.driver = Some("haltpoll".to_owned());
                p.wake_idle_ns = Some(50_000.0);
            },
        ),
        ("mitigations", Worse, "mitigations=off", |f, _| {
            let told = "Mitigation: PTI".to_owned();
            f.cpu.vulnerabilities.insert("meltdown".to_owned(), told);
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }

    #[test]
    fn a_virtual_machine_does_not_know_who_shares_its_cores() {
        let smt = after("SMT", |facts, _| {
            facts.virtualization.virtual_machine = Some(true)
        });
        assert_eq!(smt.state, NotChecked);
    }
}
