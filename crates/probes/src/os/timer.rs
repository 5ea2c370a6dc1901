//! `os.timer`: how late a sleeping thread wakes.

use crate::expect::latency_ns;
use crate::literal::{self, latency, list, text, word, words};
use crate::os::context_switch::{HALTED, HALTED_NS};
use crate::threads;
use crate::wake::{self, Kept, Wake};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::List;
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::Unit;
use costof_os::timers::{set_timer_slack, sleep_lateness_ns};
use std::io;
use std::sync::LazyLock;

/// The least slack that can be asked for, in nanoseconds.
const LEAST_SLACK_NS: u32 = 1;
/// What a thread has unless somebody changed it, in nanoseconds.
const USUAL_SLACK_NS: u64 = 50_000;
/// Sleeps of a point, at least, and how many before them are not counted.
const SLEEPS_MIN: u32 = 6;
const WARM_UP_SLEEPS: u32 = 2;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("os.timer"),
        method: 1,
        question: text("How late does a thread wake that sleeps until a given time?"),
        axes: List::Owned(vec![
            Axis {
                name: text("sleep"),
                about: text("how long it sleeps"),
                domain: Domain::Number {
                    unit: Unit::Nanoseconds,
                    low: 1,
                    high: 1_000_000_000,
                    usual: list![50_000, 1_000, 1_000_000],
                },
            },
            words(
                "slack",
                "by how much the kernel may let the timer be late, to serve several at once",
                list![
                    word(
                        "default",
                        "what the worker began with, 50 µs unless somebody changed it"
                    ),
                    word("least", "1 ns (PR_SET_TIMERSLACK)"),
                ],
            ),
            literal::typed("wake", wake::of_a_sleeper()),
        ]),
        crossings: list![list![text("sleep"), text("slack"), text("wake")]],
        metrics: list![latency(
            "how late: from the time for which the wake-up was asked until the thread's next reading of the clock"
        )],
        how: text(
            "clock_nanosleep with an absolute time of CLOCK_MONOTONIC, one sleep after the other, \
             as many as the point's time allows, and 6 at least. In the figure: the timer slack, \
             which is most of it by default and can be switched off; the interrupt (in a virtual \
             machine, through the hypervisor); with wake=idle the processor's way out of its idle \
             state, else a context switch from the thread that kept it busy; and the return to the \
             program. A sleep that is over before it is asked for counts from when it was due.",
        ),
        sources: list![
            text("clock_nanosleep(2); PR_SET_TIMERSLACK in prctl(2); SCHED_IDLE in sched(7)"),
            text(
                "T. Gleixner, D. Niehaus, Hrtimers and Beyond: Transforming the Linux Time Subsystems, Ottawa Linux Symposium 2006"
            ),
            text("cyclictest(8), which measures the same under a real-time policy"),
        ],
        predicted_from: text(
            "the timer slack that the worker inherits; 1 to 15 µs for the interrupt and a context switch, or 2 to 60 µs for the wake-up of an idle processor; in a virtual machine instead the exits that cpu.vm_exit measured, to arm the timer and to take its interrupt, and 1 to 5 µs for the context switch, or what runs a halted processor again",
        ),
        after: list![text("cpu.vm_exit")],
        needs: list![text(
            "for wake=awake: a processor that the worker is pinned to"
        )],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |point| {
        let sleeps = PROBE.rounds * (WARM_UP_SLEEPS + SLEEPS_MIN);
        f64::from(sleeps) * point.axes.number("sleep") as f64
    },
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Sleeper::start(launch)))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    let sleep = |ns: u64| -> Axes { PROBE.info.defaults().with("sleep", ns) };
    vec![
        Headline::new("timer lateness: sleep of 50 µs", sleep(50_000)),
        Headline::new("timer lateness: sleep of 1 ms", sleep(1_000_000)),
    ]
}

struct Sleeper {
    cpus: Vec<usize>,
    kept: Kept,
}

impl Sleeper {
    fn start(launch: &Launch) -> Sleeper {
        Sleeper {
            cpus: launch.cpus.clone(),
            kept: Kept::AsTheyAre,
        }
    }
}

impl Role for Sleeper {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let least = point.axes.word("slack") == "least";
        set_timer_slack(least.then_some(LEAST_SLACK_NS)).map_err(|error| {
            Failure::unsupported(format!("cannot set the timer slack by prctl(2): {error}"))
        })?;
        let wake = literal::axis(point, "wake");
        if wake != Wake::Idle {
            self.kept = wake::keep(wake, threads::on(1, &self.cpus)?)?;
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let sleep_ns = point.axes.number("sleep");
        let failed = |error: io::Error| Failure::unsupported(format!("cannot sleep: {error}"));
        for _ in 0..WARM_UP_SLEEPS {
            sleep_lateness_ns(sleep_ns).map_err(failed)?;
        }
        let time_ns = meter.time_ns();
        let mut slept = 0;
        let mut answer = Ok(());
        meter.open_loop("latency", |passed_ns| {
            if passed_ns >= time_ns && slept >= SLEEPS_MIN {
                return None;
            }
            slept += 1;
            sleep_lateness_ns(sleep_ns)
                .map(|late_ns| late_ns as f64)
                .map_err(|error| answer = Err(error))
                .ok()
        });
        answer.map_err(failed)
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        self.kept = Kept::AsTheyAre;
        Ok(())
    }
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let real_time = matches!(
        facts.inherited.scheduling_policy.as_deref(),
        Some("fifo" | "rr" | "deadline")
    );
    let slack_ns = match point.axes.word("slack") {
        _ if real_time => 0,
        "least" => u64::from(LEAST_SLACK_NS),
        _ => facts.inherited.timer_slack_ns.unwrap_or(USUAL_SLACK_NS),
    } as f64;
    let (low, high, wake_up) = waking_ns(point.axes.word("wake"), known);
    latency_ns(
        slack_ns + low,
        slack_ns + high,
        format!(
            "{} of timer slack, and {wake_up}",
            Unit::Nanoseconds.display(slack_ns)
        ),
    )
}

/// What the interrupt and the wake-up take, and in words.
fn waking_ns(wake: &str, known: &Known<'_>) -> (f64, f64, String) {
    let idle = wake == "idle";
    let Some(exit_ns) = known.primary("cpu.vm_exit", &[]) else {
        let (low, high, why) = if idle {
            (2e3, 60e3, "to wake an idle processor")
        } else {
            (1e3, 15e3, "for the interrupt and a context switch")
        };
        return (
            low,
            high,
            format!("{} to {} µs {why}", low / 1e3, high / 1e3),
        );
    };
    let ((low, high), why) = if idle {
        (HALTED_NS, HALTED)
    } else {
        ((1e3, 5e3), "for the interrupt and a context switch")
    };
    (
        2.0 * exit_ns + low,
        4.0 * exit_ns + high,
        format!(
            "2 to 4 exits of {}, as cpu.vm_exit measured, to arm the timer and to take its \
             interrupt, and {} to {} µs {why}",
            Unit::Nanoseconds.display(exit_ns),
            low / 1e3,
            high / 1e3
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::vm_exit;
    use crate::literal::{measured, point};

    #[test]
    fn exits_that_the_run_has_measured_are_in_the_prediction() {
        let mut facts = Facts::default();
        facts.inherited.timer_slack_ns = Some(50_000);
        let exits = [measured(&vm_exit::PROBE, Axes::default(), 1_000.0)];
        let range = |wake: &'static str, known| {
            let point = point(&PROBE, PROBE.info.defaults().with("wake", wake));
            let prediction = predict(&point, &facts, &Known(known)).unwrap();
            (prediction.low, prediction.high)
        };
        assert_eq!(range("idle", &[]), (52_000.0, 110_000.0));
        // 2 to 4 exits, and the halted processor or a context switch.
        assert_eq!(range("idle", &exits), (56_000.0, 74_000.0));
        assert_eq!(range("awake", &exits), (53_000.0, 59_000.0));
    }
}
