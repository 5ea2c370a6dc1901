//! What an emulated link did that nobody asked for: it moves numbers as other
//! disturbances do.

use super::grade;
use crate::statistics::quantile::mean;
use costof_model::Text;
use costof_model::link_report::{LinkReport, Traffic};
use costof_model::noise::{Grade, Warning};
use costof_model::unit::Unit;

/// How late packets may be, as a share of the delay that was asked for; half of
/// it decides what a number is.
const LATE_SHARE: [f64; 3] = [0.03, 0.1, 0.5];
/// How late they may be beside any delay, in nanoseconds.
const LATE_NS: [f64; 3] = [0.3e6, 1e6, 10e6];
/// For how much of the time the relay may have had a processor: near all of it,
/// what passes is what it can carry.
const BUSY_SHARE: [f64; 3] = [0.7, 0.9, 0.97];
/// How many packets may be lost unasked, as a share: one is as bad as one that
/// the network lost, one in a hundred is what a flow settles by.
const OVERRUN_SHARE: [f64; 3] = [1e-9, 1e-3, 1e-2];

const FASTER: &str = "measure where the link has a processor of its own, or ask for a lower rate";

/// What in the links of a point's launches costs it a grade: in the mean over
/// them, so that one bad launch among many is diluted and not hidden, and by
/// the direction that did worse.
pub fn link_causes(links: &[&LinkReport]) -> Vec<Warning> {
    let up: Vec<&Traffic> = links.iter().map(|link| &link.up).collect();
    let down: Vec<&Traffic> = links.iter().map(|link| &link.down).collect();
    let mut warnings = Vec::new();
    let mut warn = |kind: &'static str, grade, what: String, advice: &str| {
        warnings.push(Warning {
            kind: Text::Borrowed(kind),
            grade,
            what,
            advice: advice.to_owned(),
        });
    };
    if let Some((grade, late_ns)) = worse([late(&up), late(&down)]) {
        let advice = match links
            .iter()
            .filter_map(|link| link.relay.as_ref())
            .all(|r| r.real_time)
        {
            true => "stop what else runs, or measure where the link has a processor of its own",
            false => {
                "let costof run it in real time: root, or a limit of real-time priority \
                      (ulimit -r) above 10"
            }
        };
        let late = Unit::Nanoseconds.display(late_ns);
        let what = format!("one packet in a hundred left the link {late} or more too late");
        warn("link_late", grade, what, advice);
    }
    let busy: Vec<f64> = links
        .iter()
        .filter_map(|link| Some(link.relay.as_ref()?.cpu_ns / link.duration_ns.max(1.0)))
        .collect();
    if let Some(busy) = mean(&busy)
        && let Some(grade) = grade(busy, BUSY_SHARE)
    {
        let what = format!(
            "the link's relay was busy for {:.0} % of the time",
            busy * 100.0
        );
        warn("link_busy", grade, what, FASTER);
    }
    if let Some((grade, lost)) = worse([overrun(&up), overrun(&down)]) {
        let what = format!("the link lost {lost:.0} packets because it could not keep up");
        warn("link_overrun", grade, what, FASTER);
    }
    warnings
}

fn worse(directions: [Option<(Grade, f64)>; 2]) -> Option<(Grade, f64)> {
    let both = directions.into_iter().flatten();
    both.max_by(|(a, x), (b, y)| a.cmp(b).then(x.total_cmp(y)))
}

fn late(launches: &[&Traffic]) -> Option<(Grade, f64)> {
    let each: Vec<f64> = launches
        .iter()
        .filter_map(|traffic| Some(traffic.lateness_ns?.p99))
        .collect();
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
    use costof_model::link_report::{RelayReport, Spread};

    fn link(delay_ns: f64, late_ns: f64) -> LinkReport {
        let traffic = Traffic {
            asked_delay_ns: delay_ns,
            packets: 1000,
            lateness_ns: Some(Spread {
                p99: late_ns,
                ..Spread::default()
            }),
            ..Traffic::default()
        };
        LinkReport {
            by: "relay".into(),
            duration_ns: 1e9,
            up: traffic.clone(),
            down: traffic,
            relay: Some(RelayReport {
                cpu_ns: 0.1e9,
                real_time: true,
                cpus: vec![0],
            }),
            ..LinkReport::default()
        }
    }

    fn grades(links: &[&LinkReport]) -> Vec<(Text, Grade)> {
        let warnings = link_causes(links);
        assert!(warnings.iter().all(|warning| !warning.advice.is_empty()));
        warnings
            .into_iter()
            .map(|warning| (warning.kind, warning.grade))
            .collect()
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
        let says = link_causes(&[&link(0.0, 1.5e6)])[0].what.clone();
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
    fn who_may_not_run_in_real_time_is_told() {
        let mut late = link(1e6, 1e6);
        late.relay.as_mut().unwrap().real_time = false;
        assert!(link_causes(&[&late])[0].advice.contains("ulimit -r"));
    }
}
