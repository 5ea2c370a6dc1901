//! The times of a program that was run several times: from start to end, and in and outside the kernel.

use crate::command;
use costof_model::priced::Times;
use costof_model::timing::Estimate;
use costof_model::{TimedCommand, TimedRun};
use costof_stats::{mean, median, standard_deviation, t_quantile};

/// The end of a two-sided interval of 95 %.
const UPPER: f64 = 0.975;
/// The same of a normal distribution.
const UPPER_NORMAL: f64 = 1.96;
/// What the kernel found at fewer ticks does not say where a program spends its time.
const MIN_TICKS: f64 = 20.0;

/// What these runs took; `None` if they are fewer than three. The CPU time is that with the core alone where that is
/// known. The kernel measures it exactly, but divides it by what it finds at its ticks, of which each stands for `tick_ns` of
/// a run's time. So the share of a short run says little, and that of all runs together is used.
pub fn times(runs: &[TimedRun], tick_ns: f64) -> Option<Times> {
    let mut command = TimedCommand { runs: runs.to_vec(), ..TimedCommand::default() };
    command::estimate(&mut command);
    let cpu_ns = command.alone_ns.or(command.cpu_ns)?;
    let all: Vec<f64> = runs.iter().map(|run| run.cpu_ns() as f64).collect();
    let kernel: Vec<f64> = runs.iter().map(|run| run.system_ns as f64).collect();
    let queues: Option<Vec<f64>> =
        runs.iter().map(|run| run.run_queue_ns.map(|ns| ns as f64)).collect();
    let waits = runs.iter().map(|run| {
        let busy_ns = run.cpu_ns() + run.run_queue_ns.unwrap_or(0);
        run.wall_ns.saturating_sub(busy_ns) as f64
    });
    let (whole, in_kernel) = (mean(&all)?, mean(&kernel)?);
    let share = if whole > 0.0 { in_kernel / whole } else { 0.0 };
    // A ratio of means: W. G. Cochran, Sampling Techniques, 1977, section 2.11.
    let rests: Vec<f64> = all.iter().zip(&kernel).map(|(all, ns)| ns - share * all).collect();
    let t = t_quantile(UPPER, runs.len() as u32 - 1)?;
    let half = t * standard_deviation(&rests)? / (runs.len() as f64).sqrt();
    let off = if whole > 0.0 { half / whole } else { 0.0 };
    // Equal runs may all be wrong: no tick hit what is short.
    let ticks = all.iter().sum::<f64>() / tick_ns;
    let is_divided = ticks >= MIN_TICKS;
    let (low, high) = match is_divided {
        true => {
            let (low, high) = of_ticks(share, ticks);
            (low.min(share - off), high.max(share + off))
        }
        false => (0.0, 1.0),
    };
    Some(Times {
        wall_ns: command.wall_ns?,
        user_ns: part(cpu_ns, 1.0 - share, (1.0 - high, 1.0 - low)),
        kernel_ns: part(cpu_ns, share, (low, high)),
        is_divided,
        waiting_ns: median(&waits.collect::<Vec<f64>>())?,
        queue_ns: queues.and_then(|queues| median(&queues)),
    })
}

/// With the way back from so many system calls, which was counted as user code, as the kernel's.
pub fn with_way_back(times: Times, calls: f64, each: Estimate) -> Times {
    let moved = each.times(calls);
    let Times { user_ns: user, kernel_ns: kernel, .. } = times;
    let most = user.value + kernel.value;
    Times {
        user_ns: Estimate {
            value: (user.value - moved.value).max(0.0),
            low: (user.low - moved.high).max(0.0),
            high: (user.high - moved.low).max(0.0),
        },
        kernel_ns: Estimate {
            value: (kernel.value + moved.value).min(most),
            low: (kernel.low + moved.low).min(most),
            high: (kernel.high + moved.high).min(most.max(kernel.high)),
        },
        ..times
    }
}

/// The interval of a share that so many ticks found (E. B. Wilson, Journal of the American Statistical Association 22, 1927).
pub(super) fn of_ticks(share: f64, ticks: f64) -> (f64, f64) {
    let square = UPPER_NORMAL.powi(2) / ticks;
    let middle = (share + square / 2.0) / (1.0 + square);
    let half = (square * (share * (1.0 - share) + square / 4.0)).sqrt() / (1.0 + square);
    (middle - half, middle + half)
}

/// A share of a time with the share's interval; their errors are independent. No more than the time's end.
fn part(of: Estimate, share: f64, (low, high): (f64, f64)) -> Estimate {
    let away = |end: f64, other: f64| (share * (end - of.value)).hypot((other - share) * of.value);
    let value = share * of.value;
    let high = (value + away(of.high, high)).min(of.high.max(value));
    Estimate { value, low: (value - away(of.low, low)).max(0.0), high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(user_ns: u64, system_ns: u64) -> TimedRun {
        TimedRun { wall_ns: 2_000_000, user_ns, system_ns, ..TimedRun::default() }
    }

    #[test]
    fn runs_shorter_than_a_tick_have_the_share_of_all_of_them() {
        // All of a run's time is where the tick finds it.
        let runs: Vec<TimedRun> = [(0, 1), (1, 0), (0, 1), (0, 1)]
            .map(|(user, kernel)| run(user * 1000, kernel * 1000))
            .into();
        let times = times(&runs, 100.0).unwrap();
        assert!((times.kernel_ns.value - 750.0).abs() < 1e-9, "{times:?}");
        assert!((times.user_ns.value - 250.0).abs() < 1e-9);
        assert_eq!((times.kernel_ns.low, times.wall_ns.value), (0.0, 2e6));
        assert!(times.kernel_ns.high > 999.0, "four of them say little");
    }

    #[test]
    fn equal_runs_are_known_as_well_as_their_ticks_say_and_two_say_nothing() {
        let runs = vec![run(300, 700); 5];
        // 5,000 ticks, of which 3,500 were in the kernel: 70 % by at most 1.3 %.
        let many = times(&runs, 1.0).unwrap();
        let Estimate { value, low, high } = many.kernel_ns;
        assert!(many.is_divided && value == 700.0, "{many:?}");
        assert!((686.0..688.0).contains(&low) && (712.0..714.0).contains(&high), "{many:?}");
        assert_eq!(times(&runs[..2], 1.0), None);
        let idle = times(&vec![run(0, 0); 3], 1.0).map(|times| times.kernel_ns.value);
        assert!(idle.is_none_or(|ns| ns == 0.0), "{idle:?}");
    }

    #[test]
    fn the_way_back_is_the_kernels_and_no_more_than_there_was() {
        let times = times(&vec![run(500, 500); 5], 1.0).unwrap();
        let each = Estimate { value: 10.0, low: 8.0, high: 12.0 };
        let moved = with_way_back(times, 20.0, each);
        assert_eq!((moved.user_ns.value, moved.kernel_ns.value), (300.0, 700.0));
        assert_eq!(moved.user_ns.low, times.user_ns.low - 240.0);
        assert_eq!(moved.kernel_ns.low, times.kernel_ns.low + 160.0);
        let all = with_way_back(times, 100.0, each);
        assert_eq!((all.user_ns.value, all.kernel_ns.value), (0.0, 1000.0));
    }

    #[test]
    fn that_no_tick_was_in_the_kernel_does_not_say_that_it_took_no_time() {
        // A hundred ticks: it may be 3.7 %.
        let none = times(&vec![run(1000, 0); 5], 50.0).unwrap();
        assert!(none.is_divided && none.kernel_ns.value == 0.0, "{none:?}");
        assert!((36.0..38.0).contains(&none.kernel_ns.high), "{none:?}");
        let few = times(&vec![run(1000, 0); 5], 500.0).unwrap();
        assert!(!few.is_divided, "{few:?}");
        for part in [few.kernel_ns, few.user_ns] {
            assert!(part.low == 0.0 && part.high > 999.0, "{few:?}");
        }
    }
}
