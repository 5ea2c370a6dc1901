//! `os.timer`: how late a sleeping thread wakes.

use crate::cpu::vm_exit;
use crate::os::context_switch::resumed;
use crate::prelude::*;
use costof_os::sched::timers::{set_timer_slack, sleep_lateness_ns};

/// The smallest slack that can be set, in nanoseconds.
const MIN_SLACK_NS: u32 = 1;
/// The default slack of a thread, in nanoseconds.
const USUAL_SLACK_NS: u64 = 50_000;
/// The fewest sleeps of a point, and the sleeps before them that are not counted.
const SLEEPS_MIN: u32 = 6;
const WARM_UP_SLEEPS: u32 = 2;
const CANNOT_SLEEP: &str = "cannot sleep";

words! {
    /// How late the kernel may make the timer, to serve several at once.
    pub(crate) enum Slack {
        /// what the worker inherits: 50 µs unless somebody changed it
        Default = "default",
        /// 1 ns (PR_SET_TIMERSLACK)
        Least = "least",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Timer>();

point! {
    /// How late does a thread wake that sleeps until a given time?
    ///
    /// clock_nanosleep is called with an absolute time of CLOCK_MONOTONIC, one sleep after the
    /// other, as often as the point's time allows, but at least 6 times. The lateness contains the
    /// timer slack, which is most of it by default and can be switched off; the interrupt (in a
    /// virtual machine, through the hypervisor); with wake=idle, the CPU's way out of its idle
    /// state, otherwise a context switch from the thread that kept it busy; and the return to the
    /// program. A sleep that is due before it begins counts from when it was due.
    ///
    /// # Predicted from
    /// the timer slack that the worker inherits; 1 to 15 µs for the interrupt and a context switch,
    /// or 2 to 60 µs for waking an idle CPU; in a virtual machine instead exits to arm the timer
    /// and to take its interrupt (cpu.vm_exit), and 1 to 5 µs for the context switch, or the time
    /// until a halted CPU runs again
    ///
    /// # Sources
    /// - clock_nanosleep(2); PR_SET_TIMERSLACK in prctl(2); SCHED_IDLE in sched(7)
    /// - T. Gleixner, D. Niehaus, Hrtimers and Beyond: Transforming the Linux Time Subsystems,
    ///   Ottawa Linux Symposium 2006
    /// - cyclictest(8), which measures the same under a real-time policy
    ///
    /// # Needs
    /// - for wake=awake: a CPU that the worker is pinned to
    pub(crate) struct Timer of "os.timer" {
        /// how long it sleeps
        sleep: u64 = nanoseconds(1..=1_000_000_000, &[50_000, 1_000, 1_000_000]),
        /// how late the kernel may make the timer, to serve several at once
        slack: Slack = words(),
        wake: Wake = wake::of_a_sleeper(),
    }
}

impl Measure for Timer {
    const METRICS: &'static [Metric] = metrics! {
        /// from the time when the wake-up was due until the thread's next reading of the clock
        latency: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.vm_exit"];
    const CROSSINGS: &'static [NameList] = &[&["sleep", "slack", "wake"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Awake>];

    headlines! {
        "timer lateness: sleep of 50 µs": { sleep: 50_000 },
        "timer lateness: sleep of 1 ms": { sleep: 1_000_000 },
    }

    fn least_ns(point: &At<Self>) -> f64 {
        let sleeps = Timer::ROUNDS * (WARM_UP_SLEEPS + SLEEPS_MIN);
        f64::from(sleeps) * point.sleep as f64
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let real_time = matches!(
            facts.inherited.scheduling_policy.as_deref(),
            Some("fifo" | "rr" | "deadline")
        );
        let slack_ns = match point.slack {
            _ if real_time => 0,
            Slack::Least => u64::from(MIN_SLACK_NS),
            Slack::Default => facts.inherited.timer_slack_ns.unwrap_or(USUAL_SLACK_NS),
        } as f64;
        (Cost::new(slack_ns, "of timer slack") + waking(point.wake, measured)).predict("latency")
    }
}

impl Setup<Timer> for Awake {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Timer>, launch: &Launch) -> Result<Awake> {
        let least = point.slack == Slack::Least;
        set_timer_slack(least.then_some(MIN_SLACK_NS))
            .or_unsupported("cannot set the timer slack by prctl(2)")?;
        match point.wake {
            Wake::Idle => Ok(Awake::Unchanged),
            Wake::Awake | Wake::Polling => wake::keep(point.wake, threads::on(1, &launch.cpus)?),
        }
    }

    fn measure(&mut self, point: &At<Timer>, meter: &mut Meter<'_>) -> Result {
        let sleep_ns = point.sleep;
        for _ in 0..WARM_UP_SLEEPS {
            sleep_lateness_ns(sleep_ns).or_unsupported(CANNOT_SLEEP)?;
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
        answer.or_unsupported(CANNOT_SLEEP)
    }
}

/// Time of the interrupt and the wake-up.
fn waking(wake: Wake, measured: &MeasuredRows<'_>) -> Cost {
    const INTERRUPT: &str = "for the interrupt and a context switch";
    let idle = wake == Wake::Idle;
    match vm_exit::measured_cost(measured) {
        None if idle => Cost::new((2e3, 60e3), "to wake an idle CPU"),
        None => Cost::new((1e3, 15e3), INTERRUPT),
        // Exits to arm the timer and to take its interrupt.
        Some(exit) if idle => exit * (2.0, 4.0) + resumed(),
        Some(exit) => exit * (2.0, 4.0) + Cost::new((1e3, 5e3), INTERRUPT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::measured;

    #[test]
    fn exits_that_the_run_has_measured_are_in_the_prediction() {
        let mut facts = Facts::default();
        facts.inherited.timer_slack_ns = Some(50_000);
        let exits = [measured(vm_exit::VmExit {}, 1_000.0)];
        let range = |wake, measured| {
            let point = At::from(Timer { wake, ..Timer::default() });
            let prediction = Timer::predict(&point, &facts, &MeasuredRows::new(measured)).unwrap();
            (prediction.low, prediction.high)
        };
        assert_eq!(range(Wake::Idle, &[]), (52_000.0, 110_000.0));
        // 2 to 4 exits, and resuming the halted CPU or a context switch.
        assert_eq!(range(Wake::Idle, &exits), (54_000.0, 68_000.0));
        assert_eq!(range(Wake::Awake, &exits), (53_000.0, 59_000.0));
    }
}
