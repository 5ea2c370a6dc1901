//! What an emulated link did that the user did not ask for: it changes numbers as other
//! disturbances do. Also what its relay used of the measured CPUs: that is not the work of other
//! processes, and with few CPUs there is no other place for it.

use super::{grade, warning};
use costof_model::link_report::Traffic;
use costof_model::noise::CONTROLLER;
use costof_model::{Grade, LaunchRow, LinkReport, Noise, Unit, Warning, counted};
use costof_stats::mean;
use std::collections::BTreeSet;

/// How late packets may be, as a share of the requested delay. At half of the delay, lateness
/// decides the number.
const LATE_SHARE: [f64; 3] = [0.03, 0.1, 0.5];
/// How late packets may be with any delay, in nanoseconds.
const LATE_NS: [f64; 3] = [0.3e6, 1e6, 10e6];
/// For how much of the time the relay may have had a CPU. Near 100 %, the relay limits the
/// throughput.
const BUSY_SHARE: [f64; 3] = [0.7, 0.9, 0.97];
/// How many packets may be lost without being asked for, as a share. One such packet is as bad as
/// one that the network lost; one in a hundred determines the rate of a flow.
const OVERRUN_SHARE: [f64; 3] = [1e-9, 1e-3, 1e-2];

/// How much of the measured CPUs the relay may have used, as a mean over them. What it does while
/// the ends wait for it costs them little.
const SHARED: [f64; 3] = [0.03, 0.15, f64::INFINITY];

const OWN_PROCESSOR: &str = "measure where the link has a CPU of its own";
const FASTER: &str = "measure where the link has a CPU of its own, or ask for a lower rate";

/// The causes in the links of a point's launches that cost it a grade. They use the mean over the
/// launches, so that one bad launch among many is diluted and not hidden, and the worse of the two
/// directions.
pub fn link_causes(launches: &[&LaunchRow]) -> Vec<Warning> {
    let links: Vec<&LinkReport> =
        launches.iter().filter_map(|launch| launch.link.as_deref()).collect();
    let relays = || links.iter().filter_map(|link| Some((link, link.relay.as_ref()?)));
    let up: Vec<&Traffic> = links.iter().map(|link| &link.up).collect();
    let down: Vec<&Traffic> = links.iter().map(|link| &link.down).collect();
    let busy = relays().map(|(link, relay)| relay.cpu_ns / link.duration_ns.max(1.0));
    let shared = launches
        .iter()
        .filter_map(|launch| Some(on_measured(launch)?.0 / launch.noise.duration_ns.max(1.0)));
    let late_advice = if relays().all(|(_, relay)| relay.real_time) {
        "stop other programs, or measure where the link has a CPU of its own"
    } else {
        "let costof run it in real time, as root or with a limit of real-time priority (ulimit -r) above 10"
    };
    let busy = graded_mean(busy, BUSY_SHARE).map(|(grade, busy)| {
        let percent = busy * 100.0;
        let what = format!("the link's relay was busy for {percent:.0} % of the time");
        warning("link_busy", grade, what, FASTER)
    });
    let shared = graded_mean(shared, SHARED).map(|(grade, shared)| {
        let percent = shared * 100.0;
        let what =
            format!("the link's relay used the measured CPUs for {percent:.1} % of the time");
        warning("link_shares", grade, what, OWN_PROCESSOR)
    });
    let late = worse([late(&up), late(&down)]).map(|(grade, late_ns)| {
        let late = Unit::Nanoseconds.display(late_ns);
        let what = format!("one packet in a hundred left the link {late} or more too late");
        warning("link_late", grade, what, late_advice)
    });
    let overrun = worse([overrun(&up), overrun(&down)]).map(|(grade, lost)| {
        let what = format!(
            "the link lost {} because it could not keep up",
            counted(lost.round(), "packet")
        );
        warning("link_overrun", grade, what, FASTER)
    });
    [late, busy, shared, overrun].into_iter().flatten().collect()
}

/// The mean of these values, if it costs a grade.
fn graded_mean(values: impl Iterator<Item = f64>, limits: [f64; 3]) -> Option<(Grade, f64)> {
    let mean = mean(&values.collect::<Vec<_>>())?;
    Some((grade(mean, limits)?, mean))
}

/// What disturbed a launch, without what the relay of its own link used, which the kernel counts as
/// other processes' work.
pub fn without_relay(launch: &LaunchRow) -> Noise {
    let mut noise = launch.noise.clone();
    if let Some((mean_ns, processors)) = on_measured(launch) {
        noise.subtract_peer_cpu(mean_ns * processors as f64, processors, false);
    } else if let Some(share) = on_others(launch) {
        noise.others_elsewhere = noise.others_elsewhere.map(|busy| (busy - share).max(0.0));
    }
    noise
}

/// What the relay used of the measured CPUs, in nanoseconds, as a mean over them, and how many CPUs
/// they are; `None` if the relay was seen on another CPU.
fn on_measured(launch: &LaunchRow) -> Option<(f64, usize)> {
    let relay = launch.link.as_ref()?.relay.as_ref()?;
    let measured = measured(launch);
    let on_these = !relay.cpus.is_empty() && relay.cpus.iter().all(|cpu| measured.contains(cpu));
    on_these.then(|| (relay.cpu_ns / measured.len() as f64, measured.len()))
}

/// The share of all other CPUs' time that the relay used, if it was seen only on these.
fn on_others(launch: &LaunchRow) -> Option<f64> {
    let relay = launch.link.as_ref()?.relay.as_ref()?;
    let measured = measured(launch);
    let all: BTreeSet<usize> = launch.placement.0.values().flatten().copied().collect();
    let others = all.difference(&measured).count();
    let on_these = !relay.cpus.is_empty() && !relay.cpus.iter().any(|cpu| measured.contains(cpu));
    let time_ns = launch.noise.duration_ns * others as f64;
    (on_these && time_ns > 0.0).then(|| relay.cpu_ns / time_ns)
}

/// The CPUs of the roles of a launch.
fn measured(launch: &LaunchRow) -> BTreeSet<usize> {
    let roles = launch.placement.0.iter();
    roles
        .filter(|(role, _)| *role != CONTROLLER)
        .flat_map(|(_, cpus)| cpus.iter().copied())
        .collect()
}

fn worse(directions: [Option<(Grade, f64)>; 2]) -> Option<(Grade, f64)> {
    let both = directions.into_iter().flatten();
    both.max_by(|(a, x), (b, y)| a.cmp(b).then(x.total_cmp(y)))
}

fn late(launches: &[&Traffic]) -> Option<(Grade, f64)> {
    let each: Vec<f64> =
        launches.iter().filter_map(|traffic| Some(traffic.lateness_ns?.p99)).collect();
    let late_ns = mean(&each)?;
    let delay_ns = launches.first()?.asked_delay_ns;
    let of_delay = grade(late_ns / delay_ns, LATE_SHARE).filter(|_| delay_ns > 0.0);
    Some((of_delay.max(grade(late_ns, LATE_NS))?, late_ns))
}

fn overrun(launches: &[&Traffic]) -> Option<(Grade, f64)> {
    let passed: u64 = launches.iter().map(|traffic| traffic.packets).sum();
    let lost: u64 = launches.iter().map(|traffic| traffic.overruns).sum();
    let share = lost as f64 / (passed + lost).max(1) as f64;
    Some((grade(share, OVERRUN_SHARE)?, lost as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::Text;
    use costof_model::link_report::{RelayReport, Spread};
    use costof_model::noise::Placement;

    fn link(delay_ns: f64, late_ns: f64) -> LinkReport {
        let traffic = Traffic {
            asked_delay_ns: delay_ns,
            packets: 1000,
            lateness_ns: Some(Spread { p99: late_ns, ..Spread::default() }),
            ..Traffic::default()
        };
        LinkReport {
            by: "relay".into(),
            duration_ns: 1e9,
            up: traffic.clone(),
            down: traffic,
            relay: Some(RelayReport { cpu_ns: 0.1e9, real_time: true, cpus: vec![0] }),
            ..LinkReport::default()
        }
    }

    /// A launch over such a link, whose roles ran on the processors 1 and 2.
    fn launch(link: LinkReport) -> LaunchRow {
        let placement = [
            ("client".into(), vec![1, 2]),
            ("server".into(), vec![2, 1]),
            (CONTROLLER.into(), vec![0]),
        ];
        LaunchRow {
            block: 0,
            launch: 0,
            of: 1,
            wall_ns: 1.1e9,
            points: Vec::new(),
            noise: Noise {
                duration_ns: 1e9,
                others_ns: Some(0.12e9),
                others_elsewhere: Some(0.4),
                ..Noise::default()
            },
            placement: Placement(placement.into_iter().collect()),
            link: Some(Box::new(link)),
        }
    }

    fn causes(links: &[&LinkReport]) -> Vec<Warning> {
        let launches: Vec<LaunchRow> = links.iter().map(|link| launch((*link).clone())).collect();
        link_causes(&launches.iter().collect::<Vec<_>>())
    }

    fn grades(links: &[&LinkReport]) -> Vec<(Text, Grade)> {
        let warnings = causes(links);
        assert!(warnings.iter().all(|warning| !warning.advice.is_empty()));
        warnings.into_iter().map(|warning| (warning.kind, warning.grade)).collect()
    }

    #[test]
    fn a_link_that_did_as_asked_costs_nothing() {
        assert_eq!(grades(&[&link(95e6, 5e3), &link(50e3, 1e3)]), []);
        assert_eq!(grades(&[&LinkReport::default()]), []);
        assert_eq!(grades(&[]), []);
    }

    #[test]
    fn lateness_counts_beside_the_delay_and_by_itself() {
        for (delay_ns, late_ns, expected) in [
            (50e3, 6e3, Grade::C),
            (50e3, 2e3, Grade::B),
            (50e3, 30e3, Grade::D),
            (95e6, 1.1e6, Grade::C),
            (0.0, 1.1e6, Grade::C),
            (0.0, 12e6, Grade::D),
        ] {
            let bad = link(delay_ns, late_ns);
            let expected = [(Text::Borrowed("link_late"), expected)];
            assert_eq!(grades(&[&bad]), expected, "{delay_ns} {late_ns}");
        }
        let (good, bad) = (link(50e3, 0.2e3), link(50e3, 6e3));
        let diluted = [(Text::Borrowed("link_late"), Grade::B)];
        assert_eq!(grades(&[&good, &bad, &good]), diluted);
        let says = causes(&[&link(0.0, 1.5e6)])[0].what.clone();
        assert!(says.contains("1.50 ms"), "{says}");
    }

    #[test]
    fn a_relay_that_could_not_keep_up_costs_a_grade() {
        let mut busy = link(1e6, 0.0);
        busy.relay.as_mut().unwrap().cpu_ns = 0.95e9;
        assert_eq!(grades(&[&busy]), [("link_busy".into(), Grade::C)]);
        let mut lossy = link(1e6, 0.0);
        lossy.down.overruns = 1;
        assert_eq!(grades(&[&lossy]), [("link_overrun".into(), Grade::B)]);
        lossy.down.overruns = 100;
        assert_eq!(grades(&[&lossy]), [("link_overrun".into(), Grade::D)]);
    }

    #[test]
    fn a_relay_on_a_measured_processor_counts_as_such_and_not_as_others() {
        let mut near = link(1e6, 0.0);
        near.relay.as_mut().unwrap().cpus = vec![2];
        assert_eq!(grades(&[&near]), [("link_shares".into(), Grade::B)]);
        assert!(causes(&[&near])[0].what.contains("for 5.0 %"));
        // A tenth of a second, on one of two processors.
        let others_ns = |link: &LinkReport| without_relay(&launch(link.clone())).others_ns;
        assert_eq!(others_ns(&near), Some(0.07e9));
        let mut far = near.clone();
        far.relay.as_mut().unwrap().cpus = vec![0];
        assert_eq!((grades(&[&far]), others_ns(&far)), (vec![], Some(0.12e9)));
        let elsewhere = |link: &LinkReport| {
            let noise = without_relay(&launch(link.clone()));
            noise.others_elsewhere.unwrap()
        };
        assert!((elsewhere(&far) - 0.3).abs() < 1e-9 && (elsewhere(&near) - 0.4).abs() < 1e-9);
        far.relay.as_mut().unwrap().cpus = vec![0, 2];
        let why = "how much of it where is not known";
        assert_eq!(others_ns(&far), Some(0.12e9), "{why}");
        far.relay = None;
        assert_eq!(others_ns(&far), Some(0.12e9));
    }

    #[test]
    fn who_may_not_run_in_real_time_gets_advice() {
        let mut late = link(1e6, 1e6);
        late.relay.as_mut().unwrap().real_time = false;
        assert!(causes(&[&late])[0].advice.contains("ulimit -r"));
    }
}
