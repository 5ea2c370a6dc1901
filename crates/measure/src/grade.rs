//! The grade of a point, and advice to the reader. It follows from recorded causes only, never from
//! the width of the point's interval.

pub mod link;

use costof_model::metric::CoreShare;
use costof_model::{Grade, Noise, Selection, Text, Warning};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A cause that changes numbers: from which recorded values on it costs a grade, and what to do about it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    kind: String,
    /// From these values on, the grade is B, C and D.
    limits: [f64; 3],
    /// The greatest value that there can be.
    whole: f64,
    /// What nobody knows if it was not recorded: "it is unknown …".
    subject: String,
    /// The text of the warning, a clause that may follow "because", with `{}` for the value.
    what: String,
    /// Whether a value is shown as a percentage.
    is_share: bool,
    /// Which estimates leave out the batches that it disturbed. They keep at least grade B.
    left_out: LeftOut,
    /// Whether it takes the CPU from the measuring thread, which the recording of a batch shows.
    preempts: bool,
    advice: String,
}

/// Whether the recording of a batch shows that a cause disturbed it.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum LeftOut {
    /// No recording shows it.
    Never,
    /// It always does.
    Always,
    /// It does if the operation keeps its CPU. If the operation gives up its CPU, other runnable
    /// threads also slow the scheduler in batches that were never preempted: a context switch took
    /// 2.7 or 3.4 µs next to a busy loop.
    KeepingCpu,
    /// Nothing is left out, but an estimate in core cycles is not changed by it.
    CountingCycles,
}

/// What an estimate leaves out, or is not changed by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// It uses only batches that were alone on the core and undisturbed.
    pub is_alone: bool,
    /// One thread did all the work, and the batches that were preempted do not move the estimate.
    pub is_unmoved: bool,
    /// Its batches count core cycles, so that it is one at a single clock.
    pub is_at_one_clock: bool,
}

/// Shares are of the launches' duration. A disturbance of 0.5 % changes a cost by at most 0.5 %, as
/// much as launches differ anyway; one of 2 % is visible; one of 10 % decides the result.
const SHARE: [f64; 3] = [0.005, 0.02, 0.1];

/// The causes, in the order in which they are told.
static CAUSES: LazyLock<Vec<Cause>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        cause: Vec<Cause>,
    }
    let file: File = toml::from_str(include_str!("grade/causes.toml")).expect("a test reads it");
    file.cause
});

/// The recorded value of a cause over all launches; `None` where it was not recorded.
fn recorded(kind: &str, noise: &[&Noise]) -> Option<f64> {
    match kind {
        "steal" => share(noise, |n| n.steal_ns),
        "run_queue_wait" => share(noise, |n| n.run_queue_wait_ns),
        // Each thread's time counts, so that it may be more than the launch took.
        "throttled" => share(noise, |n| n.throttled_ns)
            .map(|share| if share < THREADS_MAX { share.min(1.0) } else { share }),
        "others" => share(noise, |n| n.others_ns),
        "neighbours" => mean(noise, |n| n.others_elsewhere),
        "gaps" => {
            let watched = sum(noise, |n| n.gaps.map(|gaps| gaps.watched_ns))?;
            Some(sum(noise, |n| n.gaps.map(|gaps| gaps.sum_ns))? / watched)
        }
        "core_clock" => clock_spread(noise),
        "distance" => distance_spread(noise),
        "migrations" => sum(noise, |n| n.migrations.map(|count| count as f64)),
        "sniffers" => {
            let ends = noise.iter().flat_map(|noise| noise.ends.values());
            ends.filter_map(|end| end.sniffers).max().map(f64::from)
        }
        "traced" => noise.iter().filter_map(|noise| noise.traced).max().map(f64::from),
        // Preemptions cost no grade of their own: the batches that they disturbed are left out.
        _ => None,
    }
}

/// More threads than a worker has.
const THREADS_MAX: f64 = 65_536.0;

/// Ticks of 10 ms may count a short launch twice. What is more than twice its whole is impossible.
const IMPOSSIBLE: f64 = 2.0;

/// The causes in the noise of a point's launches that cost it a grade; the worst one decides.
/// `kept` says what its estimate leaves out. What takes the CPU from an estimate that it does not move
/// cannot have decided the number, but may have changed it: caches are colder after a switch.
// METHOD 12
pub fn causes(noise: &[&Noise], kept: Kept) -> Vec<Warning> {
    // An operation that blocks by design has no such record.
    let keeps_cpu = noise.iter().all(|noise| noise.run_queue_wait_ns.is_some());
    let is_left_out = |cause: &Cause| match cause.left_out {
        LeftOut::Never => false,
        LeftOut::Always => kept.is_alone,
        LeftOut::KeepingCpu => kept.is_alone && keeps_cpu,
        LeftOut::CountingCycles => kept.is_at_one_clock,
    };
    let of_cause = |cause: &'static Cause| {
        let value = recorded(&cause.kind, noise).filter(|value| is_possible(cause, *value))?;
        let worst = match cause {
            cause if is_left_out(cause) => Grade::B,
            cause if kept.is_unmoved && cause.preempts => Grade::C,
            _ => Grade::D,
        };
        let grade = grade(value, cause.limits)?.min(worst);
        let shown = match cause.is_share {
            true => format!("{:.1} %", value.min(cause.whole) * 100.0),
            false => format!("{value:.0}"),
        };
        let what = cause.what.replace("{}", &shown);
        Some(warning(&cause.kind, grade, what, &cause.advice))
    };
    let known = CAUSES.iter().filter_map(of_cause);
    known.chain(not_recorded(noise)).collect()
}

fn is_possible(cause: &Cause, value: f64) -> bool {
    (0.0..=cause.whole * IMPOSSIBLE).contains(&value) && value < f64::MAX
}

/// The warning about what nobody knows: what most launches could not record, and counts that cannot be. It may have been
/// anything, so the grade is C at best.
fn not_recorded(noise: &[&Noise]) -> Option<Warning> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cause in &*CAUSES {
        let mut why = noise.iter().filter_map(|noise| why_unknown(noise, &cause.kind));
        let launches = why.clone().count();
        let reason = if launches > 0 && 2 * launches >= noise.len() {
            why.next()
        } else {
            let value = recorded(&cause.kind, noise);
            let is_impossible = value.is_some_and(|value| !is_possible(cause, value));
            is_impossible.then_some("its count is more than the whole, or less than nothing")
        };
        if let Some(reason) = reason {
            by_reason.entry(reason).or_default().push(&cause.subject);
        }
    }
    let told =
        by_reason.iter().map(|(reason, subjects)| format!("{} ({reason})", subjects.join(", ")));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        let what = format!("it is unknown {}", told.join("; "));
        let advice = match by_reason.keys().all(|why| DISTURBED.contains(why)) {
            true => "measure on a quiet machine (--wait-quiet 5m)",
            false => "measure where the kernel's files can be read, outside of the sandbox or container that hides them",
        };
        warning("unknown", Grade::C, what, advice)
    })
}

/// Why a busy machine leaves something unknown.
pub(crate) const DISTURBED: [&str; 2] =
    ["two chains of instructions disagree about it", "each look at the clock was interrupted"];

fn why_unknown<'a>(noise: &'a Noise, kind: &str) -> Option<&'a str> {
    let of_link = || noise.ends.values().find_map(|end| end.absent.get(kind));
    noise.unknown.get(kind).or_else(of_link).map(String::as_str)
}

/// A warning of one of the kinds that the program knows.
pub(crate) fn warning(
    kind: &'static str,
    grade: Grade,
    what: impl Into<String>,
    advice: &str,
) -> Warning {
    Warning { kind: Text::Borrowed(kind), grade, what: what.into(), advice: advice.to_owned() }
}

/// The kind of the warning that something else used the core.
pub(crate) const CORE_SHARED: &str = "core_shared";

/// The warning about an estimate for which the core was not alone often enough: it holds only next
/// to a neighbour.
pub fn core_shared(core: &CoreShare) -> Option<Warning> {
    match core.selection {
        Selection::Alone => None,
        Selection::Shared => Some(shared(
            Grade::C,
            "something else used the core and never left it alone for long enough",
        )),
        Selection::All => {
            let not_alone = 1.0 - core.alone;
            let what = format!(
                "something else used the core for {:.0} % of the time, and too few batches were \
                 alone or shared to choose",
                not_alone * 100.0
            );
            Some(shared(grade(not_alone, SHARE)?.min(Grade::C), what))
        }
    }
}

/// The warning about an estimate of the few launches that had the core to themselves.
pub fn few_alone(alone: usize, of: usize) -> Warning {
    let what = format!(
        "only {alone} of {of} launches had the core to themselves for long enough; the interval allows for how much all launches differ"
    );
    shared(Grade::B, what)
}

/// The warning about an estimate of launches whose floor for the core, judging by the other
/// launches, was that of a shared core: what they call alone was not.
pub fn core_never_alone(launches: usize, of: usize) -> Option<Warning> {
    (launches > 0).then(|| {
        let what = format!("something else used the core throughout {launches} of {of} launches");
        shared(Grade::C, what)
    })
}

/// The warning that in some launches something else used the core of the other end. These launches
/// are left out, or stay among those that are `given`.
pub fn other_end_shared((out, stay): (usize, usize), given: usize) -> Option<Warning> {
    let end = "something else used the core of the other end";
    let all = out + given;
    match (out, stay) {
        (0, 0) => None,
        (0, _) => Some(shared(Grade::C, format!("{end} in {stay} of {given} launches"))),
        _ => {
            Some(shared(Grade::B, format!("{out} of {all} launches, in which {end}, are left out")))
        }
    }
}

/// The warning that launches were left out because their CPUs were at another distance than those
/// of the others.
pub fn other_distances(launches: usize, others: usize) -> Option<Warning> {
    (launches > 0).then(|| {
        let all = launches + others;
        let what = format!(
            "the CPUs moved: {launches} of {all} launches, in which their distance was another one, are left out"
        );
        warning("distance", Grade::B, what, DISTANCE_ADVICE)
    })
}

/// What to do if virtual CPUs move.
const DISTANCE_ADVICE: &str = "measure on a host that gives each virtual CPU a core of its own, and \
                               compare runs at the same distance";

fn shared(grade: Grade, what: impl Into<String>) -> Warning {
    let advice = "give it time (--until-alone 2m), or measure on another CPU (--cpu) or on a host whose cores are \
                  not shared (most likely another virtual machine has its second hardware thread)";
    warning(CORE_SHARED, grade, what, advice)
}

/// The grade that this value leaves; `None` if the value is negligible.
fn grade(value: f64, limits: [f64; 3]) -> Option<Grade> {
    match limits {
        [_, _, d] if value >= d => Some(Grade::D),
        [_, c, _] if value >= c => Some(Grade::C),
        [b, _, _] if value >= b => Some(Grade::B),
        _ => None,
    }
}

/// The values that were recorded.
fn values(noise: &[&Noise], value: impl Fn(&Noise) -> Option<f64>) -> Vec<f64> {
    noise.iter().filter_map(|noise| value(noise)).collect()
}

fn sum(noise: &[&Noise], value: impl Fn(&Noise) -> Option<f64>) -> Option<f64> {
    values(noise, value).into_iter().reduce(|sum, value| sum + value)
}

fn mean(noise: &[&Noise], value: impl Fn(&Noise) -> Option<f64>) -> Option<f64> {
    costof_stats::mean(&values(noise, value))
}

fn share(noise: &[&Noise], value: impl Fn(&Noise) -> Option<f64>) -> Option<f64> {
    let duration = sum(noise, |noise| value(noise).map(|_| noise.duration_ns))?;
    (duration > 0.0).then(|| sum(noise, &value).map(|sum| sum / duration))?
}

/// The greatest distance of the CPUs minus the least, divided by the least.
fn distance_spread(noise: &[&Noise]) -> Option<f64> {
    let distances = noise.iter().filter_map(|noise| noise.distance_ns);
    let (least, greatest) = range(distances.flat_map(|(before, after)| [before, after]))?;
    Some(greatest / least - 1.0)
}

/// The greatest core clock minus the least, divided by the greatest.
fn clock_spread(noise: &[&Noise]) -> Option<f64> {
    let clocks = noise.iter().flat_map(|n| [n.core_clock_before_hz, n.core_clock_after_hz]);
    let (least, greatest) = range(clocks.flatten())?;
    Some((greatest - least) / greatest)
}

fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    values.clone().reduce(f64::min).zip(values.reduce(f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONE_CLOCK: Kept = Kept { is_alone: false, is_unmoved: false, is_at_one_clock: true };
    const ALONE: Kept = Kept { is_alone: true, is_unmoved: false, is_at_one_clock: false };
    const UNMOVED: Kept = Kept { is_alone: false, is_unmoved: true, is_at_one_clock: false };
    use costof_model::link_end::LinkEnd;
    use costof_model::noise::Gaps;

    fn quiet() -> Noise {
        Noise {
            duration_ns: 1e9,
            steal_ns: Some(0.0),
            others_ns: Some(0.0),
            others_elsewhere: Some(0.02),
            run_queue_wait_ns: Some(1e5),
            migrations: Some(0),
            core_clock_before_hz: Some(4.0e9),
            core_clock_after_hz: Some(4.01e9),
            ..Noise::default()
        }
    }

    #[test]
    fn each_cause_is_recorded_or_is_preemptions() {
        let end = LinkEnd { sniffers: Some(0), ..LinkEnd::default() };
        let all = Noise {
            throttled_ns: Some(0.0),
            gaps: Some(Gaps { watched_ns: 1e6, count: 0, sum_ns: 0.0, longest_ns: 0.0 }),
            distance_ns: Some((1.0, 1.0)),
            ends: [("client".into(), end)].into_iter().collect(),
            traced: Some(false),
            ..quiet()
        };
        let mut missing = CAUSES.iter().filter(|cause| recorded(&cause.kind, &[&all]).is_none());
        assert_eq!(missing.next().map(|cause| &*cause.kind), Some("preemptions"));
        assert!(missing.next().is_none());
        let distance = CAUSES.iter().find(|cause| cause.kind == "distance").unwrap();
        assert_eq!(distance.limits[0], crate::distance::ALIKE - 1.0);
        assert_eq!(distance.advice, DISTANCE_ADVICE);
    }

    #[test]
    fn a_quiet_launch_is_an_a_and_says_nothing() {
        assert_eq!(causes(&[&quiet(), &quiet()], Kept::default()), []);
        assert_eq!(causes(&[&Noise::default()], Kept::default()), []);
    }

    #[test]
    fn a_moving_clock_costs_little_where_cycles_are_counted() {
        let moved = Noise { core_clock_after_hz: Some(2.9e9), ..quiet() };
        assert_eq!(causes(&[&moved], Kept::default())[0].grade, Grade::D);
        assert_eq!(causes(&[&moved], AT_ONE_CLOCK)[0].grade, Grade::B);
    }

    #[test]
    fn each_recorded_cause_costs_its_grade_and_comes_with_advice() {
        type Disturb = fn(&mut Noise);
        fn sniff(noise: &mut Noise) {
            for (role, sniffers) in [("client", Some(0)), ("server", Some(2))] {
                let end = LinkEnd { sniffers, ..LinkEnd::default() };
                noise.ends.insert(role.into(), end);
            }
        }
        fn stand_still(noise: &mut Noise) {
            noise.gaps = Some(Gaps { watched_ns: 1e6, count: 1, sum_ns: 2e4, longest_ns: 2e4 });
        }
        let wait: Disturb = |n| n.run_queue_wait_ns = Some(0.5e9);
        let slow: Disturb = |n| n.core_clock_after_hz = Some(3.6e9);
        let cases: [(&str, Disturb, Grade); 10] = [
            ("traced", |n| n.traced = Some(true), Grade::D),
            ("steal", |n| n.steal_ns = Some(0.03e9), Grade::C),
            ("run_queue_wait", wait, Grade::D),
            ("throttled", |n| n.throttled_ns = Some(0.3e9), Grade::D),
            ("others", |n| n.others_ns = Some(0.08e9), Grade::C),
            ("neighbours", |n| n.others_elsewhere = Some(0.97), Grade::C),
            ("gaps", stand_still, Grade::B),
            ("core_clock", slow, Grade::C),
            ("migrations", |n| n.migrations = Some(3), Grade::B),
            ("sniffers", sniff, Grade::C),
        ];
        for (kind, disturb, expected) in cases {
            let mut noise = quiet();
            disturb(&mut noise);
            let warnings = causes(&[&noise], Kept::default());
            assert_eq!(warnings.len(), 1, "{kind}");
            assert_eq!(warnings[0].kind, kind);
            assert_eq!(warnings[0].grade, expected, "{kind}");
            assert!(!warnings[0].advice.is_empty());
            let shown = match kind {
                "migrations" => "3 times",
                "sniffers" => "of the link: 2",
                "traced" => "traced",
                _ => " %",
            };
            assert!(warnings[0].what.contains(shown), "{}", warnings[0].what);
        }
    }

    #[test]
    fn what_nobody_recorded_is_not_zero() {
        let hidden = || {
            let mut noise = quiet();
            (noise.steal_ns, noise.others_ns, noise.others_elsewhere) = (None, None, None);
            for kind in ["steal", "others", "neighbours"] {
                noise.unknown.insert(kind.into(), "/proc/stat has no times".to_owned());
            }
            noise
        };
        let warnings = causes(&[&hidden(), &hidden(), &quiet()], ALONE);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!((&*warnings[0].kind, warnings[0].grade), ("unknown", Grade::C));
        assert!(warnings[0].advice.contains("sandbox"), "{warnings:?}");
        let reason = "/proc/stat has no times";
        assert_eq!(warnings[0].what.matches(reason).count(), 1, "{}", warnings[0].what);
        // What a busy machine makes unknown is hidden by nobody.
        let mut busy = quiet();
        busy.unknown.insert("gaps".into(), DISTURBED[1].to_owned());
        let warnings = causes(&[&busy], ALONE);
        assert!(warnings[0].advice.contains("quiet machine"), "{warnings:?}");
        // One launch of many tells nothing less.
        assert_eq!(causes(&[&hidden(), &quiet(), &quiet()], Kept::default()), []);
        let mut noise = quiet();
        let absent = [("sniffers".into(), "permission denied".to_owned())];
        let end = LinkEnd { absent: absent.into(), ..LinkEnd::default() };
        noise.ends.insert("client".into(), end);
        assert_eq!(causes(&[&noise], Kept::default())[0].grade, Grade::C);
    }

    #[test]
    fn a_count_that_cannot_be_is_unknown_and_no_share_is_above_the_whole() {
        type Count = fn(&mut Noise);
        let impossible: [Count; 6] = [
            |n| n.steal_ns = Some(1.853e20),
            |n| n.others_ns = Some(-1.0),
            |n| n.run_queue_wait_ns = Some(f64::INFINITY),
            |n| n.throttled_ns = Some(1e30),
            |n| n.others_elsewhere = Some(3.0),
            |n| n.steal_ns = Some(f64::NAN),
        ];
        for (at, count) in impossible.iter().enumerate() {
            let mut noise = quiet();
            count(&mut noise);
            let warnings = causes(&[&noise], Kept::default());
            assert_eq!(warnings.len(), 1, "{at}: {warnings:?}");
            assert_eq!((&*warnings[0].kind, warnings[0].grade), ("unknown", Grade::C), "{at}");
        }
        let possible: [Count; 2] = [
            |n| n.others_ns = Some(1.3e9),
            // Of several threads.
            |n| n.throttled_ns = Some(7.5e9),
        ];
        for (at, count) in possible.iter().enumerate() {
            let mut noise = quiet();
            count(&mut noise);
            let warnings = causes(&[&noise], Kept::default());
            assert_eq!((warnings.len(), warnings[0].grade), (1, Grade::D), "{at}");
            assert!(warnings[0].what.contains("100.0 %"), "{}", warnings[0].what);
        }
    }

    #[test]
    fn one_bad_launch_among_many_is_diluted_not_hidden() {
        let mut bad = quiet();
        bad.steal_ns = Some(0.3e9);
        let quiet = quiet();
        let launches = [&bad, &quiet, &quiet, &quiet, &quiet, &quiet];
        assert_eq!(causes(&launches, Kept::default())[0].grade, Grade::C);
    }

    #[test]
    fn what_disturbed_batches_that_were_left_out_costs_little() {
        let mut noise = quiet();
        noise.run_queue_wait_ns = Some(0.5e9);
        noise.core_clock_after_hz = Some(3.6e9);
        let grades = |is_alone| {
            let warnings = causes(&[&noise], Kept { is_alone, ..Kept::default() }).into_iter();
            warnings.map(|warning| warning.grade).collect::<Vec<_>>()
        };
        assert_eq!(grades(false), [Grade::D, Grade::C]);
        // Nobody leaves out batches by their core clock.
        assert_eq!(grades(true), [Grade::B, Grade::C]);
    }

    #[test]
    fn what_takes_the_cpu_does_not_decide_a_number_that_preempted_batches_do_not_move() {
        let mut noise = quiet();
        noise.run_queue_wait_ns = None;
        noise.others_ns = Some(0.8e9);
        assert_eq!(causes(&[&noise], UNMOVED)[0].grade, Grade::C);
        assert_eq!(causes(&[&noise], Kept::default())[0].grade, Grade::D);
        // No batch shows when the hypervisor took the CPU.
        noise.steal_ns = Some(0.8e9);
        assert_eq!(causes(&[&noise], UNMOVED)[0].grade, Grade::D);
    }

    #[test]
    fn a_switch_beside_others_costs_its_grade_in_undisturbed_batches_too() {
        let mut noise = quiet();
        noise.others_ns = Some(0.5e9);
        assert_eq!(causes(&[&noise], ALONE)[0].grade, Grade::B);
        noise.run_queue_wait_ns = None;
        assert_eq!(causes(&[&noise], ALONE)[0].grade, Grade::D);
    }

    #[test]
    fn an_estimate_without_a_core_to_itself_says_so() {
        let core = |selection, alone| CoreShare {
            selection,
            alone,
            shared: 1.0 - alone,
            shared_median: None,
            alone_by_ratio: None,
        };
        let grade = |core| core_shared(&core).map(|warning| warning.grade);
        assert_eq!(grade(core(Selection::Alone, 0.1)), None);
        assert_eq!(grade(core(Selection::Shared, 0.0)), Some(Grade::C));
        assert_eq!(grade(core(Selection::All, 0.5)), Some(Grade::C));
        assert_eq!(grade(core(Selection::All, 0.999)), None);
    }
}
