//! Who else uses this machine: programs, and other machines on the same host.

use costof_model::facts::{CoreLook, Diagnosis, Facts, Probed};

use super::words::{good, not_checked, percent, why, worse};

/// Others' use of the processors, while trying, from which medians move.
const BUSY_SHARE: f64 = 0.05;

/// The load per processor from which a measurement meets others.
const LOAD_PER_CPU: f64 = 0.3;

/// Stolen time from which percentiles show it.
const STEAL_SHARE: f64 = 0.001;

/// A core that is shared for less of the time moves no number that is told.
const CORE_SHARE: f64 = 0.02;

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

pub(super) fn core(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "core";
    let effect = "what else runs on the core takes execution slots and no time: operations take up to \
                  twice as long meanwhile, and neither load nor steal shows it";
    let Some(look) = &probed.core else {
        let what = "the core of the measured CPU was not looked at".to_owned();
        return not_checked(topic, what, effect);
    };
    let (Some(floor), Some(shared)) = (look.floor, look.shared) else {
        let what = format!(
            "on CPU {} the floor of the core's gauge is not known: its readings are scattered, and \
             costof does not know this design of core",
            look.cpu
        );
        return not_checked(topic, what, effect);
    };
    let what = format!(
        "something else used the core of CPU {} for {} of the time just now",
        look.cpu,
        percent(shared)
    );
    let gauge = format!("by a gauge with a floor of {floor:.3} cycles an addition");
    if shared < CORE_SHARE {
        let what = format!("{what} ({gauge})");
        return good(topic, what, "nothing else takes its execution slots");
    }
    let taken = match look.taken {
        Some(taken) => format!(" and took {} of its execution slots then", percent(taken)),
        None => String::new(),
    };
    let (who, advice) = who_uses_it(facts, look);
    worse(
        topic,
        format!("{what}{taken} ({gauge}){who}"),
        effect,
        &advice,
    )
}

/// What most likely uses the core, and what to do about it.
fn who_uses_it(facts: &Facts, look: &CoreLook) -> (String, String) {
    let Some(thread) = &look.sibling else {
        let who = match facts.virtualization.virtual_machine {
            Some(true) => ": most likely another virtual machine on its second hardware thread",
            _ => "",
        };
        let advice = "measure on another CPU (`--cpu LIST`), at another time, or on an instance with \
                      cores of its own; costof takes what it measures while the core is alone";
        return (who.to_owned(), advice.to_owned());
    };
    let (cpu, sibling) = (look.cpu, thread.cpu);
    (
        format!(
            ": on CPU {sibling}, which shares it, ran {} (process {}) for {} of the time",
            thread.name,
            thread.pid,
            percent(thread.used)
        ),
        format!(
            "stop {} or move it (`sudo taskset -apc CPU {}`), measure on another core (`--cpu LIST`), \
             keep all else off this one (start the kernel with isolcpus={cpu},{sibling}), or `echo 0 | \
             sudo tee /sys/devices/system/cpu/cpu{sibling}/online`",
            thread.name, thread.pid
        ),
    )
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
    use super::super::DiagnosisState::NotChecked;
    use super::super::DiagnosisState::Worse;
    use super::super::sample::{Ill, after, check};
    use super::{CoreLook, Probed};
    use costof_model::facts::SiblingThread;

    fn shared(probed: &mut Probed) -> &mut CoreLook {
        let core = probed.core.as_mut().unwrap();
        (core.shared, core.taken) = (Some(0.62), Some(0.345));
        core
    }

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
        ("core", Worse, "--cpu", |_, p| {
            shared(p);
        }),
        ("core", Worse, "/cpu7/online", |_, p| {
            shared(p).sibling = Some(SiblingThread {
                cpu: 7,
                pid: 123,
                name: "make".to_owned(),
                used: 0.8,
            });
        }),
        ("hypervisor", Worse, "bare metal", |f, _| {
            f.virtualization.virtual_machine = Some(true)
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }

    #[test]
    fn who_uses_the_core_is_as_likely_as_the_machine_says() {
        let guest = after("core", |f, p| {
            f.virtualization.virtual_machine = Some(true);
            shared(p);
        });
        assert_eq!(
            guest.what,
            "something else used the core of CPU 3 for 62.0 % of the time just now and took 34.5 % of \
             its execution slots then (by a gauge with a floor of 0.250 cycles an addition): most \
             likely another virtual machine on its second hardware thread"
        );
        let ill = ILL.iter().find(|ill| ill.2.contains("cpu7")).unwrap();
        let visible = after("core", ill.3);
        let who = ": on CPU 7, which shares it, ran make (process 123) for 80.0 % of the time";
        assert!(visible.what.ends_with(who), "{visible:?}");
        let bare = after("core", |_, p| _ = shared(p));
        assert!(bare.what.ends_with("an addition)"), "{bare:?}");
    }

    #[test]
    fn without_a_floor_nothing_is_said() {
        let unknown = after("core", |_, p| {
            let core = p.core.as_mut().unwrap();
            (core.floor, core.shared) = (None, None);
        });
        assert_eq!(unknown.state, NotChecked);
        assert!(unknown.what.contains("on CPU 3 the floor"), "{unknown:?}");
    }
}
