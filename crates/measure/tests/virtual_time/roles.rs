//! What roles do beside batches: serve until the leading one has measured, and offer a load at a rate.

use crate::clock::VirtualClock;
use costof_measure::meter::{Meter, Record};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_role_that_does_not_lead_serves_until_it_is_stopped() {
    let clock = VirtualClock::new(1);
    static STOP: AtomicBool = AtomicBool::new(false);
    let mut record = Record::default();
    let mut meter = Meter::new(&clock, 1e6, &STOP, None, "cost", &mut record);
    let mut answered = 0;
    meter.until_stopped(|| {
        answered += 1;
        STOP.store(answered == 50, Ordering::Release);
    });
    meter.value("answered", f64::from(answered));
    let report = record.into_report(false, Vec::new());
    assert_eq!(report.metrics[0].data.costs(), [50.0]);
}

/// A request each 10 µs to a server that takes 4 µs, and once stands still for 100 µs. Requests that were
/// held up count from when they were to be sent.
#[test]
fn a_load_counts_from_the_intended_time() {
    const REQUESTS: u32 = 200;
    let clock = VirtualClock::new(1);
    let mut sent = 0;
    let report = clock.meter(1e6, |meter| {
        meter.open_loop("latency", |now_ns| {
            if sent == REQUESTS {
                return None;
            }
            let intended_ns = f64::from(sent) * 10_000.0;
            let early_ns = (intended_ns - now_ns).max(0.0);
            let service_ns = if sent == 100 { 100_000.0 } else { 4_000.0 };
            clock.pass(early_ns + service_ns);
            sent += 1;
            Some(now_ns + early_ns + service_ns - intended_ns)
        });
    });
    let buckets = report.metrics[0].data.counted();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let late: u64 =
        buckets.iter().filter(|(upper_ns, _)| *upper_ns > 10_000.0).map(|(_, count)| count).sum();
    assert_eq!(total, 200);
    // The one that stood still, and those that it held up until the queue was
    // empty again, at 6 µs gained a request: closed-loop would have seen one.
    assert!((15..=17).contains(&late), "{late} late requests");
}
