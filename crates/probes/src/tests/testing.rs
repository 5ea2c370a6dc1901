//! Points, rows and reports for tests.

use crate::TABLE;
use crate::memory::bandwidth::Bandwidth;
use crate::os::syscall::{Call, Syscall};
use crate::prelude::*;
use costof_measure::probe;
use costof_model::testing::{estimate, row};
use costof_model::{Axes, Data, Estimate, Measured, Point, PointRow, State};

/// Text of the program.
pub(crate) const fn text(text: &'static str) -> Text {
    Text::Borrowed(text)
}

/// The default point with these values: `over=udp size=64KiB`.
pub(crate) fn at<P: TypedPoint>(values: &str) -> P {
    let info = &probe_of::<P>().info;
    let mut axes = info.defaults();
    for value in values.split(' ').filter(|value| !value.is_empty()) {
        let (name, value) = value.split_once('=').expect("an axis and a value");
        let axis = info.axis(name).expect("an axis of the probe");
        let value = axis.parse(value).expect("a value of the axis");
        axes.0.insert(axis.name.clone(), value);
    }
    P::read(&axes).expect("a point of the probe")
}

fn probe_of<P: TypedPoint>() -> &'static Probe {
    probe::find(TABLE, P::PROBE).expect("a probe of the table")
}

/// A point that has been measured, over no link.
pub(crate) fn measured<P: TypedPoint>(point: P, median: f64) -> PointRow {
    let probe = probe_of::<P>();
    let primary = probe.info.primary();
    PointRow {
        method: probe.info.method,
        primary: primary.name.clone(),
        metrics: vec![Estimate {
            unit: primary.unit,
            better: primary.better,
            ..estimate(primary.name.clone(), median)
        }],
        ..row(probe.info.id.clone(), point.write(), median)
    }
}

/// The same over the loopback device.
pub(crate) fn measured_over_loopback<P: TypedPoint>(point: P, median: f64) -> PointRow {
    let mut row = measured(point, median);
    row.point.link = text("loopback");
    row
}

/// A system call of a process of one thread that has been measured.
pub(crate) fn measured_call(call: Call, ns: f64) -> PointRow {
    measured(Syscall { call, threads: 1 }, ns)
}

/// The minimum for predictions of messages: a read of 100 ns, and a copy in memory at 10 GB/s.
pub(crate) fn read_and_copy() -> [PointRow; 2] {
    let copy = at::<Bandwidth>("op=copy");
    [measured_call(Call::Read, 100.0), measured(copy, 10e9)]
}

/// A metric of batches: operations, and nanoseconds of all of them.
pub(crate) fn samples(name: &'static str, samples: &[(u64, f64)]) -> Measured {
    Measured::new(text(name), Data::Samples(samples.to_vec()))
}

/// A metric that is one number.
pub(crate) fn number(name: &'static str, value: f64) -> Measured {
    Measured::new(text(name), Data::Value(value))
}

/// A metric's data in a report.
pub(crate) fn data<'a>(report: &'a Report, name: &str) -> Option<&'a Data> {
    let found = report.metrics.iter().find(|metric| metric.name == name);
    found.map(|metric| &metric.data)
}

/// The names of a report's metrics, in their order.
pub(crate) fn names(report: &Report) -> Vec<&str> {
    report.metrics.iter().map(|metric| &*metric.name).collect()
}

/// The report of a role that has measured these.
pub(crate) fn report(metrics: Vec<Measured>) -> Report {
    Report { state: State::Ok, allocations: 0, metrics }
}

/// A point of a probe.
pub(crate) fn point(probe: &Probe, axes: Axes) -> Point {
    row(probe.info.id.clone(), axes, 0.0).point
}
