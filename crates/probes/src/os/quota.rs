//! `os.quota`: what the CPU quota of a control group does to a request.

use crate::prelude::*;
use costof_os::cpu::loops;
use costof_os::process::cgroup::{self, QuotaGroup};
use costof_stats::quantile;

/// What a request computes.
const REQUEST_NS: f64 = 1e6;
/// How many periods requests come for before the group is idle, in CPU time, and how many periods later they come again. In
/// more than one period they use up the quota, wherever in a period they begin; on average they use 30 % of a CPU.
const BUSY_PERIODS: f64 = 1.2;
const EVERY_PERIODS: f64 = 4.0;
/// How often requests come at least: of 360, 1 % are three.
const TURNS_MIN: f64 = 3.0;
/// Requests that tell how much work takes as long as one.
const CALIBRATIONS: usize = 20;

pub(crate) static PROBE: Probe = Probe::new::<Quota>();

point! {
    /// How long does 1 ms of work take in a control group that may use half a CPU?
    ///
    /// The worker makes a control group with a quota of half a CPU, enters it, computes requests of 1 ms one after another, and
    /// is then idle: for 1.2 periods of CPU time in every 4, so that on average it uses 30 % of a CPU, less than it may. But
    /// from the quota's end in a period until the next period the kernel stops the whole group, and one request waits. Where
    /// it may use later what it left before (burst), none does. The group ends with the launch. A point without a burst that
    /// was never stopped has no number: others then left it less than half a CPU.
    ///
    /// # Predicted from
    /// the rest of a period after its quota, give or take a tick of the kernel (CONFIG_HZ), at which it sees that the quota is
    /// used up; with a burst, the work alone
    ///
    /// # Sources
    /// - Linux Documentation/scheduler/sched-bwc.rst; admin-guide/cgroup-v2.rst on cpu.max and cpu.max.burst
    /// - P. Turner, B. B. Rao, N. Rao, CPU Bandwidth Control for CFS, Ottawa Linux Symposium 2010
    ///
    /// # Needs
    /// - a control group with the controller cpu in which the user may make another one: root outside of a container, or a
    ///   service with Delegate=yes
    /// - for a burst: Linux 5.14
    pub(crate) struct Quota of "os.quota" {
        /// the period; the group may run for half of it
        period: u64 = nanoseconds(5_000_000..=1_000_000_000, &[100_000_000, 10_000_000]),
        /// how much of earlier periods' quota it may use later, at most half a period
        burst: u64 = nanoseconds(0..=500_000_000, &[0]),
    }
}

impl Measure for Quota {
    const METRICS: &'static [Metric] = metrics! {
        /// the 99th percentile of the requests of a launch
        p99: Nanoseconds Lower,
        /// a request
        latency: Nanoseconds Lower,
        /// how often in a second the group was stopped
        stopped: Hertz Lower,
    };
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 20, 60));
    const ROLES: &'static [StartRole] = &[alone::<_, Confined>];

    fn check_axes(point: &At<Quota>) -> Result<(), Failure> {
        if point.burst > point.period / 2 {
            unsupported!("a burst is at most half a period, the quota (--set burst=0ns)");
        }
        Ok(())
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        let period = 100_000_000;
        Planned::all([Quota { period, burst: period / 2 }])
    }

    fn least_ns(point: &At<Quota>) -> f64 {
        TURNS_MIN * EVERY_PERIODS * point.period as f64
    }

    fn predict(point: &At<Quota>, facts: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        let work = Cost::new((0.95 * REQUEST_NS, 1.5 * REQUEST_NS), "of work");
        if point.burst > 0 {
            return work.predict("p99");
        }
        let hz = facts.kernel.config.get("HZ").and_then(|hz| hz.parse().ok());
        let tick_ns = 1e9 / hz.unwrap_or(100.0);
        let rest_ns = point.period as f64 / 2.0;
        let stopped = ((rest_ns - tick_ns).max(0.0), rest_ns + tick_ns);
        (work + Cost::new(stopped, "until the next period")).predict("p99")
    }
}

struct Confined;

impl Setup<Quota> for Confined {
    fn blocks(_: &At<Quota>) -> bool {
        true
    }

    fn set_up(point: &At<Quota>, _: &Launch) -> Result<Confined, Failure> {
        Quota::check_axes(point).map(|()| Confined)
    }

    fn measure(&mut self, point: &At<Quota>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let clock = meter.clock();
        let timed = |work: &mut dyn FnMut()| {
            let start = clock.start();
            work();
            clock.ns(clock.end().saturating_sub(start))
        };
        const SOME: u64 = 100_000;
        let shortest = (0..CALIBRATIONS).map(|_| timed(&mut || loops::empty(SOME)));
        let iteration_ns = shortest.fold(f64::INFINITY, f64::min) / SOME as f64;
        let request = (REQUEST_NS / iteration_ns) as u64;
        let period_ns = point.period as f64;
        let count = (BUSY_PERIODS * period_ns / REQUEST_NS).ceil() as usize;
        let every = Duration::from_nanos((EVERY_PERIODS * period_ns) as u64);
        let turns = (meter.time_ns() / (EVERY_PERIODS * period_ns)).max(TURNS_MIN) as usize;
        let mut all_ns = Vec::with_capacity(turns * count);
        let [period_us, burst_us] = [point.period, point.burst].map(|ns| ns / 1000);
        let quota = cgroup::Quota { quota_us: period_us / 2, period_us, burst_us };
        let group = QuotaGroup::enter(quota).or_unsupported_hint(
            "no control group of its own",
            "it needs the controller cpu, and root or a delegated group",
        )?;
        let began = Instant::now();
        for _ in 0..turns {
            let turn = Instant::now();
            all_ns.extend((0..count).map(|_| timed(&mut || loops::empty(request))));
            std::thread::sleep(every.saturating_sub(turn.elapsed()));
        }
        let stopped = group.throttled_periods().or_fail("cannot read how often it was stopped")?;
        let seconds = began.elapsed().as_secs_f64();
        drop(group);
        if stopped == 0 && point.burst == 0 {
            unsupported!(
                "the quota was never used up: other processes left this one less than half a CPU"
            );
        }
        all_ns.iter().for_each(|ns| meter.latency("latency", *ns));
        meter.value("p99", quantile(&all_ns, 0.99).expect("there are requests"));
        meter.value("stopped", stopped as f64 / seconds);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_stopped_request_takes_the_rest_of_the_period() {
        let predict = |values, hz: Option<&str>| {
            let mut facts = Facts::default();
            facts.kernel.config.extend(hz.map(|hz| ("HZ".to_owned(), hz.to_owned())));
            let point = At::from(at::<Quota>(values));
            let prediction = Quota::predict(&point, &facts, &MeasuredRows::new(&[])).unwrap();
            (prediction.low / 1e6, prediction.high / 1e6)
        };
        assert_eq!(predict("period=100ms", Some("250")), (46.95, 55.5));
        assert_eq!(predict("period=10ms", Some("250")), (1.95, 10.5));
        assert_eq!(predict("period=10ms", None), (0.95, 16.5));
        assert_eq!(predict("burst=50ms", None), (0.95, 1.5));
    }

    #[test]
    fn a_burst_beyond_the_quota_is_refused() {
        let check = |values| Quota::check_axes(&At::from(at::<Quota>(values)));
        assert!(check("burst=50ms").is_ok());
        assert!(check("period=10ms burst=6ms").unwrap_err().reason.contains("at most half"));
    }
}
