//! The share of messages that are lost. Waiting for a lost message takes much longer than an
//! answer, so a measurement that stops when its time is over tends to stop at a loss and
//! overestimates losses. The number of messages is therefore fixed beforehand.

use crate::prelude::*;

/// How long losses may take in a launch beyond the point's time, in nanoseconds.
const LOST_MAX_NS: f64 = 10e9;

/// Sends as many messages as the meter has time for at `each_ns` each, or fewer if waiting for
/// losses takes too long. Returns the share that was lost. `is_lost` sends a message, records its
/// latency, and returns whether it was lost.
///
/// # Errors
/// The first error of `is_lost`.
pub(crate) fn share_lost(
    meter: &mut Meter<'_>,
    each_ns: f64,
    mut is_lost: impl FnMut(&mut Meter<'_>) -> Result<bool>,
) -> Result<f64> {
    let count = (meter.time_ns() / each_ns.max(1.0)).ceil().max(1.0) as u64;
    let mut meter = meter.lasting(meter.time_ns() + LOST_MAX_NS);
    let (clock, time_ns) = (meter.clock(), meter.time_ns());
    let start = clock.end();
    let (mut sent, mut lost) = (0_u64, 0_u64);
    meter.repeat(count, |meter| {
        let is_lost = is_lost(meter)?;
        // The message during which the time ran out was most likely lost, so it is not counted
        // unless it is the only one.
        if sent == 0 || clock.ns(clock.end().saturating_sub(start)) < time_ns {
            sent += 1;
            lost += u64::from(is_lost);
        }
        Ok(())
    })?;
    Ok(lost as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_measure::clock::Clock;
    use costof_measure::meter::Record;
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;

    /// Nanoseconds that pass when a test says so.
    #[derive(Default)]
    struct Virtual(Cell<u64>);

    impl Clock for Virtual {
        fn start(&self) -> u64 {
            self.0.get()
        }
        fn end(&self) -> u64 {
            self.0.get()
        }
        fn ns(&self, ticks: u64) -> f64 {
            ticks as f64
        }
        fn resolution_ns(&self) -> f64 {
            1.0
        }
        fn read_ns(&self) -> f64 {
            0.0
        }
    }

    #[test]
    fn the_share_is_that_of_the_link_however_long_a_lost_one_takes() {
        static NEVER: AtomicBool = AtomicBool::new(false);
        const LAUNCHES: u32 = 200;
        let mut random = fastrand::Rng::with_seed(7);
        for loss in [0.01, 0.1, 0.5] {
            for (time_ns, answered_ns, lost_ns) in
                [(30e6, 300e3, 1e9), (30e6, 20e3, 1e9), (760e6, 190e6, 600e6)]
            {
                let (mut sum, mut sent) = (0.0, 0_u32);
                for _ in 0..LAUNCHES {
                    let (clock, mut record) = (Virtual::default(), Record::default());
                    let mut meter = Meter::new(&clock, time_ns, &NEVER, None, "", &mut record);
                    let share = share_lost(&mut meter, answered_ns, |_| {
                        let is_lost = random.f64() < loss;
                        let takes_ns = if is_lost { lost_ns } else { answered_ns };
                        clock.0.set(clock.0.get() + takes_ns as u64);
                        sent += 1;
                        Ok(is_lost)
                    });
                    sum += share.unwrap();
                    assert!(clock.0.get() as f64 <= time_ns + LOST_MAX_NS + lost_ns);
                }
                let share = sum / f64::from(LAUNCHES);
                // Four times the binomial standard error.
                let error = 4.0 * (loss * (1.0 - loss) / f64::from(sent)).sqrt();
                assert!(
                    (share - loss).abs() < error,
                    "{share} of {sent} rather than {loss}, {answered_ns} ns"
                );
            }
        }
    }
}
