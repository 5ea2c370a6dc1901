//! Merges the reports of a receiver and a sender.

use crate::prelude::*;
use costof_model::{Data, State};

/// The counts of datagrams that the roles report to [`joined()`].
pub(crate) use costof_model::protocol::{DATAGRAMS_ARRIVED as ARRIVED, DATAGRAMS_SENT as SENT};
pub(crate) const DROPPED: &str = "datagrams_dropped";
/// Of calls: the CPU time of all threads of the called end, in nanoseconds, and how many calls, or bytes in a
/// stream, the other end has made.
pub(crate) const CPU_OF_ALL: &str = "cpu_of_all";
pub(crate) const CALLS: &str = "calls_made";
pub(crate) const BYTES: &str = "bytes_sent";

/// Merges the receiver's report and the sender's; soft interrupts of both ends are added. One end
/// knows how much was sent, the other how much arrived.
pub(crate) fn joined(reports: Vec<Report>) -> Report {
    let [mut report, sender] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if sender.state != State::Ok || report.state != State::Ok {
        report.state = State::Failed;
        report.metrics.clear();
        return report;
    }
    for measured in sender.metrics {
        let same = report.metrics.iter_mut().find(|have| have.name == measured.name);
        match (same.map(|have| &mut have.data), &measured.data) {
            (Some(Data::Value(sum)), Data::Value(more)) => *sum += more,
            _ => report.metrics.push(measured),
        }
    }
    report.allocations += sender.allocations;
    let [sent, arrived, dropped] = [SENT, ARRIVED, DROPPED].map(|name| take(&mut report, name));
    if let (Some(sent), Some(arrived)) = (sent, arrived)
        && sent > 0.0
    {
        // A duplicate arrives twice.
        derived::add(&mut report, "lost", (sent - arrived).max(0.0) / sent);
        // Several datagrams that arrive at once count as one drop, so the count says nothing then. It
        // also counts what strangers sent before the socket was connected.
        if let Some(dropped) = dropped.filter(|dropped| *dropped <= sent) {
            derived::add(&mut report, "lost_in_queue", dropped / sent);
            derived::add(&mut report, "dropped_in_queue", dropped);
        }
    }
    let cpu_ns = take(&mut report, CPU_OF_ALL);
    for (count, unit, metric) in [(CALLS, 1.0, "cpu_server"), (BYTES, 1024.0, "cpu_receiver")] {
        let count = take(&mut report, count);
        if let (Some(cpu_ns), Some(count)) = (cpu_ns, count) {
            derived::add(&mut report, metric, cpu_ns / (count / unit).max(1.0));
        }
    }
    report
}

/// Removes a number from a report.
pub(crate) fn take(report: &mut Report, name: &str) -> Option<f64> {
    let at = report.metrics.iter().position(|metric| metric.name == name)?;
    match report.metrics.swap_remove(at).data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::metric::Measured;

    fn report(metrics: &[(&'static str, Data)]) -> Report {
        Report {
            state: State::Ok,
            allocations: 1,
            metrics: metrics
                .iter()
                .map(|(name, data)| Measured::new((*name).into(), data.clone()))
                .collect(),
        }
    }

    #[test]
    fn both_ends_reports_become_one() {
        let receiver = report(&[("throughput", Data::Value(1e9)), ("softirq", Data::Value(3.0))]);
        let sender = report(&[("cpu_sender", Data::Value(200.0)), ("softirq", Data::Value(4.0))]);
        let report = joined(vec![receiver.clone(), sender.clone()]);
        let value = |name: &str| {
            let found = report.metrics.iter().find(|metric| metric.name == name);
            found.map(|metric| metric.data.clone())
        };
        assert_eq!(value("throughput"), Some(Data::Value(1e9)));
        assert_eq!(value("softirq"), Some(Data::Value(7.0)));
        assert_eq!(value("cpu_sender"), Some(Data::Value(200.0)));
        assert_eq!(report.allocations, 2);
        let failed = Report { state: State::Failed, ..sender };
        let report = joined(vec![receiver, failed]);
        assert_eq!((report.state, report.metrics.len()), (State::Failed, 0));
    }

    #[test]
    fn what_was_lost_is_known_from_both_ends() {
        let lost = |sent: f64, arrived: f64| {
            let receiver = report(&[(ARRIVED, Data::Value(arrived)), (DROPPED, Data::Value(20.0))]);
            let sender = report(&[(SENT, Data::Value(sent))]);
            let report = joined(vec![receiver, sender]);
            let names: Vec<&str> = report.metrics.iter().map(|metric| &*metric.name).collect();
            if names.is_empty() {
                return None;
            }
            assert_eq!(names, ["lost", "lost_in_queue", "dropped_in_queue"]);
            let values = report.metrics.iter().map(|metric| metric.data.clone());
            Some(values.collect::<Vec<_>>())
        };
        let value = Data::Value;
        assert_eq!(lost(200.0, 150.0), Some(vec![value(0.25), value(0.1), value(20.0)]));
        assert_eq!(lost(200.0, 201.0), Some(vec![value(0.0), value(0.1), value(20.0)]));
        assert_eq!(lost(0.0, 0.0), None);
    }
}
