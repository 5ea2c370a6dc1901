//! Finds where the queue of the receiver's socket is too short for what is in flight.

use crate::in_flight::{PROBES, contender, is_study, window};
use crate::prelude::*;
use crate::text::link;

/// A queue is too short from this share of dropped datagrams on: fewer may be dropped if the
/// receiver was late once.
const DROPS: f64 = 0.005;

/// One finding for each transfer with a window that loses datagrams in the receiver's queue. The kernel counts
/// them, whatever else disturbed the transfer.
pub(crate) fn queue_overflow(run: &Run) -> Vec<Finding> {
    let rows = PROBES.into_iter().flat_map(|probe| run.select_any(probe));
    rows.filter_map(|row| overflows(run, row)).collect()
}

fn overflows(run: &Run, row: &PointRow) -> Option<Finding> {
    let window = window(row).filter(|window| *window > 1)?;
    let share = row.counted("lost_in_queue")?;
    let dropped = row.counted("dropped_in_queue")?;
    let one = one_in_flight(run, row);
    let setting = |name: &str| run.facts()?.kernel.sysctls.get(name)?.parse().ok();
    // The other transports request queues of their own size.
    let queue = setting("net.core.rmem_default").filter(|_| is_study(row));
    let queue = maybe(queue, |queue| {
        format!(
            "; its queue holds {} (net.core.rmem_default), including the kernel's overhead for each datagram",
            bytes(queue)
        )
    });
    let both = |metric: &str| Some((row.median(metric)?, one?.median(metric)?));
    let elapsed = one.and_then(|one| Some((slower(row, one)?, both("elapsed")?)));
    let elapsed = maybe(elapsed, |(slower, (many, one))| {
        let (many, one) = (ns(many), ns(one));
        format!("{slower}: the messages take {many} with {window} in flight, and {one} with one; ")
    });
    let rates = maybe(both("throughput"), |(many, one)| {
        format!(": it reaches {}, and {} with one in flight", rate(many), rate(one))
    });
    let sentence = format!(
        "{elapsed}{contender} over {link}, {window} × {size} in flight: the receiver's socket had no room for \
         {dropped:.0} datagrams or more in a launch, {share:.1} % of those that were sent{queue}{rates}",
        contender = contender(row)?,
        link = link(&row.point.link),
        size = bytes(row.number("size")?),
        share = 100.0 * share,
    );
    let most = maybe(setting("net.core.rmem_max"), |most| {
        format!(", of which net.core.rmem_max allows {}", bytes(most))
    });
    let advice = format!(
        "give the receiver's socket a longer queue (sysctl net.core.rmem_default; `costof send --listen` has \
         --receive-buffer{most}), or keep fewer in flight"
    );
    let evidence = [row].into_iter().chain(one);
    let found = || Finding::new(Kind::QueueOverflow, evidence, sentence).advise(advice);
    (share >= DROPS).then(found)
}

/// Whether many messages in flight take longer than one; `None` if the intervals overlap.
fn slower(many: &PointRow, one: &PointRow) -> Option<&'static str> {
    let (many, one) = (many.interval("elapsed")?, one.interval("elapsed")?);
    match () {
        () if surely_more(many, one).is_some() => Some("yes"),
        () if surely_more(one, many).is_some() => Some("no"),
        () => None,
    }
}

/// The same transfer with one message in flight, if the two rates can be compared.
fn one_in_flight<'r>(run: &'r Run, row: &PointRow) -> Option<&'r PointRow> {
    let others = run.select(&row.point.probe).filter(|other| {
        window(other) == Some(1)
            && other.point.without(&["window"]) == row.point.without(&["window"])
    });
    others.one().filter(|_| row.is_sound())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, add_metric, axes, point_row, reads};
    use costof_model::Grade;

    fn row(window: u64, rate: f64, in_queue: f64) -> PointRow {
        let axes = axes!(
            over = "study",
            control = "cubic",
            congestion_control = "default",
            size = 20_000,
            window
        );
        let mut row = point_row("rudp.loss", "throughput", axes, rate, (rate, rate)).over("lan");
        add_metric(&mut row, "lost_in_queue", in_queue);
        add_metric(&mut row, "dropped_in_queue", 102.0 * in_queue);
        row
    }

    #[test]
    fn a_queue_that_is_too_short_is_reported_with_its_size_and_what_it_dropped() {
        let mut run = tests::run(&[]);
        let attempt = run.attempts.first_mut().expect("it has one");
        let facts = attempt.hosts.values_mut().next().expect("it has one");
        for (name, value) in [("rmem_default", "212992"), ("rmem_max", "4194304")] {
            let value = value.to_owned();
            facts.kernel.sysctls.insert(format!("net.core.{name}"), value);
        }
        run.points = vec![row(1, 34e6, 0.0), row(34, 2e6, 0.25)];
        let found = queue_overflow(&run);
        reads!(found.iter().map(Finding::with_advice));
    }

    #[test]
    fn what_is_counted_is_reported_however_busy_the_machine_was() {
        let busy = row(34, 2e6, 0.25).warned("others", Grade::D);
        let one = row(1, 34e6, 0.0);
        let sentences = |rows: &[PointRow]| tests::sentences(queue_overflow, rows);
        let of_busy = sentences(&[busy, one.clone()]);
        assert_eq!(of_busy.len(), 1);
        assert!(!of_busy[0].contains("MB/s"), "{of_busy:?}");
        assert_eq!(sentences(&[row(34, 30e6, 0.001), one]), [""; 0]);
    }
}
