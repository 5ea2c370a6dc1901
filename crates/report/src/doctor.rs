//! The report of `costof doctor` as text: problems first, with what to do about them. With `--ci`: whether the machine is fit
//! for a check.

use crate::compare::percent;
use crate::document::{self, Part};
use costof_findings::doctor::{Diagnosis, DiagnosisState};
use costof_model::counted;
use costof_model::fitness::{CoreUse, Fitness, SelfComparison};
use costof_model::timing::TimeMetric;

/// The diagnoses by state, otherwise in their order; the healthy ones share a line. Lines have at most this
/// many columns.
pub fn doctor(diagnoses: &[Diagnosis], columns: usize) -> String {
    let in_state = |state| diagnoses.iter().filter(move |diagnosis| diagnosis.state == state);
    let mut parts = Vec::new();
    for (state, heading) in [
        (DiagnosisState::Missing, "Missing here"),
        (DiagnosisState::Worse, "Makes numbers worse"),
        (DiagnosisState::NotChecked, "Not checked"),
    ] {
        let lines: Vec<String> = in_state(state).flat_map(entry).collect();
        if !lines.is_empty() {
            parts.push(Part::Heading(2, heading.to_owned()));
            parts.push(Part::List("", lines));
        }
    }
    let good: Vec<&str> =
        in_state(DiagnosisState::Good).map(|diagnosis| diagnosis.topic.as_str()).collect();
    if !good.is_empty() {
        parts.push(Part::paragraph(format!("Good: {}", good.join(", "))));
    }
    document::text(&parts, columns)
}

/// The state of a topic, its effect, and what to do.
fn entry(diagnosis: &Diagnosis) -> impl Iterator<Item = String> {
    let effect = format!("  - {}", diagnosis.effect);
    let advice = diagnosis.advice.as_ref().map(|advice| format!("  → {advice}"));
    let state = format!("{}: {}", diagnosis.topic, diagnosis.what);
    [state, effect].into_iter().chain(advice)
}

/// Whether a machine is fit to see a change, first; then its class, who used its cores, what it would show in how long, and
/// what that assumes. Lines have at most this many columns.
pub fn fitness(fitness: &Fitness, columns: usize) -> String {
    let kernel = fitness.kernel.as_ref().map(|kernel| format!("; kernel {kernel}"));
    let mut lines =
        vec![format!("machine class: {}{}", fitness.machine, kernel.unwrap_or_default())];
    lines.extend(core_use(&fitness.core));
    if let Some(compared) = &fitness.compared {
        lines.extend(visible(compared));
    }
    document::text(&[Part::paragraph(answer(fitness)), Part::List("", lines)], columns)
}

fn answer(fitness: &Fitness) -> String {
    let (change, budget) = (percent(fitness.change), about(fitness.budget_s));
    match (fitness.needed_s, &fitness.not_compared) {
        (Some(needed_s), _) if fitness.fit => {
            format!("FIT: shows a change of {change} in about {} (limit {budget})", about(needed_s))
        }
        (Some(needed_s), _) => {
            let needed = about(needed_s);
            format!(
                "NOT FIT: a change of {change} would take about {needed} (limit {budget}): skip"
            )
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("nothing was measured");
            format!("NOT FIT: it is not known whether a change of {change} shows: {why}: skip")
        }
    }
}

/// Who used the measured cores, in a line or two.
fn core_use(core: &CoreUse) -> Vec<String> {
    let shared = match (core.shared, core.stranger.zip(core.own_core)) {
        (None, _) => {
            "neighbour: unknown, since the gauge of the core cannot be read here".to_owned()
        }
        (Some(shared), Some((stranger, own))) => format!(
            "neighbour: a stranger shared the core {} of the time, other CPUs of this machine {} (together {})",
            percent(stranger),
            percent(own),
            percent(shared)
        ),
        (Some(shared), None) => format!(
            "neighbour: the core was shared {} of the time; whether by a stranger is unknown, since the other CPUs of this \
             machine were never idle",
            percent(shared)
        ),
    };
    let waits = [
        (core.own_cpu, "waited for other processes on its CPU"),
        (core.steal, "was stopped by the hypervisor (steal)"),
    ];
    let waits =
        waits.into_iter().filter_map(|(share, what)| Some(format!("{what} {}", percent(share?))));
    let waits = waits.collect::<Vec<_>>().join(", ");
    let waits = (!waits.is_empty()).then(|| format!("CPU: the program {waits} of the time"));
    [shared].into_iter().chain(waits).collect()
}

/// What the machine shows in how long, and under which assumptions.
fn visible(compared: &SelfComparison) -> [String; 2] {
    let times = [compared.seconds, 60.0, 600.0];
    let shown =
        times.map(|time| format!("{} in {}", percent(compared.visible_in(time)), about(time)));
    let metric = match compared.metric {
        TimeMetric::Alone => "CPU time at equal sharing",
        TimeMetric::Cpu => "CPU time as it ran",
        TimeMetric::Wall | TimeMetric::Own(_) => "wall time",
    };
    let turns = counted(compared.turns, "turn");
    [
        format!("smallest detectable change: {} ({metric}, {turns})", shown.join(", ")),
        "assumed: one thread that computes, in turns as `costof against` runs it; noise as in these seconds, independent \
         from turn to turn; found in nine of ten tries. A program that waits or has many threads: `costof time CMD CMD` \
         compares it with itself"
            .to_owned(),
    ]
}

/// `25 s`, `4 min`, `3 h`, `12 days`: a time in whole units, at least two of the larger ones.
fn about(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3600.0, "h"), (60.0, "min")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 2.0 * unit);
    let (unit, symbol) = unit.unwrap_or((1.0, "s"));
    format!("{:.0} {symbol}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::COLUMNS;
    use costof_model::testing::golden;

    #[test]
    fn what_is_ill_comes_first_and_what_is_good_in_one_line() {
        let diagnosis = |topic: &str, state, advice: Option<&str>| Diagnosis {
            topic: topic.to_owned(),
            state,
            what: "it is so".to_owned(),
            effect: "that follows".to_owned(),
            advice: advice.map(str::to_owned),
        };
        let text = doctor(
            &[
                diagnosis("load", DiagnosisState::Good, None),
                diagnosis("turbo", DiagnosisState::Worse, Some("turn `it off`")),
                diagnosis("power", DiagnosisState::NotChecked, None),
                diagnosis("memory", DiagnosisState::Missing, Some("add some")),
                diagnosis("steal", DiagnosisState::Good, None),
            ],
            COLUMNS,
        );
        golden("report/doctor", "each state", &text);
        assert_eq!(doctor(&[], COLUMNS), "");
    }

    #[test]
    fn fit_or_not_comes_first_and_what_is_unknown_is_said() {
        let compared =
            SelfComparison { seconds: 4.5, turns: 60, metric: TimeMetric::Alone, visible: 0.04 };
        let fit = Fitness {
            fit: true,
            change: 0.02,
            budget_s: 600.0,
            needed_s: Some(18.0),
            machine: "a CPU, 2 CPUs, KVM".to_owned(),
            kernel: Some("6.1".to_owned()),
            compared: Some(compared),
            not_compared: None,
            core: CoreUse {
                shared: Some(0.15),
                stranger: Some(0.12),
                own_core: Some(0.03),
                own_cpu: Some(0.01),
                steal: Some(0.0),
            },
        };
        let unfit = Fitness {
            fit: false,
            needed_s: Some(7200.0),
            core: CoreUse { shared: Some(0.5), ..CoreUse::default() },
            ..fit.clone()
        };
        let unknown = Fitness {
            needed_s: None,
            compared: None,
            not_compared: Some("a comparison needs at least 4 runs of each".to_owned()),
            core: CoreUse::default(),
            ..unfit.clone()
        };
        let text = [fit, unfit, unknown].map(|it| fitness(&it, COLUMNS)).join("\n");
        golden("report/doctor", "fit or not", &text);
        let times = [4.5, 119.0, 600.0, 7200.0, 86_400.0, 1e6].map(about);
        assert_eq!(times, ["4 s", "119 s", "10 min", "2 h", "24 h", "12 days"]);
    }
}
