//! `os.quota`: what the CPU quota of a control group does to a request.

use crate::prelude::*;
use costof_os::cpu::loops;
use costof_os::process::cgroup::{self, QuotaGroup};
use costof_stats::quantile;

/// What a request computes.
const REQUEST_NS: f64 = 1e6;
/// How many periods requests come for before the group is idle, in CPU time: they use up the quota twice, or once if they
/// begin in a fifth of a period. A burst of half a period covers at most 1.5.
const BUSY_PERIODS: f64 = 1.3;
/// How many periods later they come again: of three turns one at most begins in that fifth, so that five requests or more
/// are stopped. On average they use 30 % of a CPU.
const EVERY_PERIODS: f64 = 13.0 / 3.0;
const TURNS_MIN: f64 = 3.0;
/// Requests that tell how much work takes as long as one.
const CALIBRATIONS: usize = 20;

pub(crate) static PROBE: Probe = Probe::new::<Quota>();

point! {
    /// How long does 1 ms of work take in a control group that may use half a CPU?
    ///
    /// The worker makes a control group with a quota of half a CPU, enters it, computes requests of 1 ms one after another, and
    /// is then idle: for 1.3 periods of CPU time in every 4.33, so that on average it uses 30 % of a CPU, less than it may. But
    /// from the quota's end in a period until the next period the kernel stops the whole group, and one request waits. Where
    /// it may use half a period later that it left before (burst), none does. The group ends with the launch. A point without a
    /// burst that was stopped in fewer than 1 % of its requests has no number: others then left it less than half a CPU.
    ///
    /// # Predicted from
    /// the rest of a period after its quota, give or take a tick of the kernel (CONFIG_HZ), at which it sees that the quota is
    /// used up; with a burst of half a period, the work alone; nothing with a smaller one
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
        /// the period; the group may run for half of it. In a longer one, fewer than 1 % of requests are stopped
        period: u64 = nanoseconds(5_000_000..=100_000_000, &[100_000_000, 10_000_000]),
        /// how much of earlier periods' quota it may use later, at most half a period
        burst: u64 = nanoseconds(0..=50_000_000, &[0]),
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

    fn check_axes(point: &At<Quota>) -> Result {
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
            let covers_all = point.burst == point.period / 2;
            return if covers_all { work.predict("p99") } else { None };
        }
        let tick_ns = 1e9 / facts.kernel.ticks_per_second().unwrap_or(100.0);
        let rest_ns = point.period as f64 / 2.0;
        let stopped = ((rest_ns - tick_ns).max(0.0), rest_ns + tick_ns);
        (work + Cost::new(stopped, "until the next period")).predict("p99")
    }
}

struct Confined;

impl Setup<Quota> for Confined {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Quota>, _: &Launch) -> Result<Confined> {
        Quota::check_axes(point).map(|()| Confined)
    }

    fn measure(&mut self, point: &At<Quota>, meter: &mut Meter<'_>) -> Result {
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
        if point.burst == 0 && !is_in_p99(stopped, all_ns.len()) {
            unsupported!(
                "only {stopped} of {} requests were stopped, too few for a 99th percentile: other processes left \
                 this one less than half a CPU",
                all_ns.len()
            );
        }
        all_ns.iter().for_each(|ns| meter.latency("latency", *ns));
        meter.value("p99", quantile(&all_ns, 0.99).expect("there are requests"));
        meter.value("stopped", stopped as f64 / seconds);
        Ok(())
    }
}

/// Whether the 99th percentile of so many requests is one that was stopped.
fn is_in_p99(stopped: u64, requests: usize) -> bool {
    let others = requests as f64 - stopped as f64;
    others <= 0.99 * (requests as f64 - 1.0)
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
    fn what_a_smaller_burst_does_is_not_predicted() {
        let point = At::from(at::<Quota>("burst=20ms"));
        let prediction = Quota::predict(&point, &Facts::default(), &MeasuredRows::new(&[]));
        assert_eq!(prediction, None);
    }

    /// How many of `count` requests of 1 ms are stopped that begin at this time of a period of 100 ms; times in microseconds.
    fn stops(begin: u64, count: usize, burst: u64) -> u64 {
        let (mut at, mut left, mut stops) = (begin, 50_000 + burst, 0);
        for _ in 0..count {
            let mut work = 1000;
            while work > 0 {
                let runs = work.min(left).min(100_000 - at);
                (at, left, work) = (at + runs, left - runs, work - runs);
                let is_stopped = left == 0 && work > 0 && at < 100_000;
                stops += u64::from(is_stopped);
                if at == 100_000 || is_stopped {
                    (at, left) = (0, (left + 50_000).min(50_000 + burst));
                }
            }
        }
        stops
    }

    #[test]
    fn the_percentile_is_a_stopped_request_wherever_a_launch_begins() {
        let count = (BUSY_PERIODS * 100.0) as usize;
        for begin in (0..100_000).step_by(50) {
            let later = |turn| (f64::from(turn) * EVERY_PERIODS * 100_000.0) as u64;
            let turns = (0..TURNS_MIN as u32).map(|turn| (begin + later(turn)) % 100_000);
            let stopped = turns.clone().map(|begin| stops(begin, count, 0)).sum();
            assert!(is_in_p99(stopped, 3 * count), "{stopped} from {begin}");
            assert_eq!(turns.map(|begin| stops(begin, count, 50_000)).sum::<u64>(), 0);
        }
        assert!(!is_in_p99(4, 390) && is_in_p99(5, 390) && !is_in_p99(0, 390));
    }

    #[test]
    fn a_burst_beyond_the_quota_is_refused() {
        let check = |values| Quota::check_axes(&At::from(at::<Quota>(values)));
        assert!(check("burst=50ms").is_ok());
        assert!(check("period=10ms burst=6ms").unwrap_err().reason.contains("at most half"));
    }
}
