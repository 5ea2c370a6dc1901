//! Who else uses this machine: programs, and other machines on the same host.

use costof_model::facts::{Diagnosis, Facts, Probed};

use super::words::{good, not_checked, percent, why, worse};

/// Others' use of the processors, while trying, from which medians move.
const BUSY_SHARE: f64 = 0.05;

/// The load per processor from which a measurement meets others.
const LOAD_PER_CPU: f64 = 0.3;

/// Stolen time from which percentiles show it.
const STEAL_SHARE: f64 = 0.001;

pub(super) fn load(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "load";
    let effect =
        "other programs take processors, caches and memory bandwidth from what is measured";
    let advice = "see what runs with `top`, stop it, or measure on a processor that it leaves alone \
                  (`--cpu LIST`)";
    if let Some(busy) = probed.busy_share {
        let what = format!(
            "others used {} of the processors' time just now",
            percent(busy)
        );
        return if busy > BUSY_SHARE {
            worse(topic, what, effect, advice)
        } else {
            good(topic, what, "little is taken from what is measured")
        };
    }
    let (Some(load), Some(cpus)) = (facts.activity.load_1min, facts.cpu.logical_count) else {
        return not_checked(
            topic,
            why(facts, "loadavg", "the kernel tells no load"),
            effect,
        );
    };
    let what = format!("{load} tasks ran or waited in the last minute, on {cpus} processors");
    if load > LOAD_PER_CPU * f64::from(cpus) {
        return worse(topic, what, effect, advice);
    }
    good(topic, what, "little is taken from what is measured")
}

pub(super) fn steal(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "steal";
    let effect = "the hypervisor stops this machine for milliseconds at a time: tails and maxima are \
                  the neighbours', and medians move between runs";
    let told = [
        (facts.activity.steal_share, "since the start"),
        (probed.steal_share, "just now, from two busy ones"),
    ];
    let told: Vec<(f64, &str)> = told
        .into_iter()
        .filter_map(|(share, when)| Some((share?, when)))
        .collect();
    if told.is_empty() {
        let what = why(facts, "/proc/stat", "the kernel does not count it");
        return not_checked(topic, what, effect);
    }
    let what: Vec<String> = told
        .iter()
        .map(|(share, when)| format!("{} {when}", percent(*share)))
        .collect();
    let what = format!(
        "of the processors' time, the hypervisor gave to others: {}",
        what.join("; ")
    );
    if told.iter().any(|(share, _)| *share > STEAL_SHARE) {
        return worse(
            topic,
            what,
            effect,
            "measure at another time, or on an instance with processors of its own",
        );
    }
    let effect = match facts.virtualization.virtual_machine {
        Some(true) => "no time is missing, as far as the hypervisor tells",
        _ => "no time is missing",
    };
    good(topic, what, effect)
}

pub(super) fn hypervisor(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "hypervisor";
    let effect = "page faults, timers, wake-ups and I/O cost more than on the bare machine, and the \
                  last-level cache may be shared with strangers: what is claimed may not be what you get";
    match (
        facts.virtualization.virtual_machine,
        facts.virtualization.hypervisor.as_deref(),
    ) {
        (Some(true), name) => worse(
            topic,
            format!(
                "this is a virtual machine ({})",
                name.unwrap_or("of an unnamed hypervisor")
            ),
            effect,
            "take the numbers as this instance type's; compare with runs on the same type, or \
             measure on bare metal to know the processor's own",
        ),
        (Some(false), _) => good(
            topic,
            "no hypervisor is seen",
            "the costs are the machine's own",
        ),
        (None, _) => not_checked(
            topic,
            "neither processor nor firmware tell".to_owned(),
            effect,
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::DiagnosisState::Worse;
    use super::super::sample::{Ill, check};

    pub(crate) const ILL: &[Ill] = &[
        ("load", Worse, "top", |_, p| p.busy_share = Some(0.3)),
        ("load", Worse, "--cpu", |f, p| {
            p.busy_share = None;
            f.activity.load_1min = Some(3.0);
        }),
        ("steal", Worse, "another time", |_, p| {
            p.steal_share = Some(0.02)
        }),
        ("steal", Worse, "instance", |f, p| {
            p.steal_share = None;
            f.activity.steal_share = Some(0.02);
        }),
        ("hypervisor", Worse, "bare metal", |f, _| {
            f.virtualization.virtual_machine = Some(true)
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
