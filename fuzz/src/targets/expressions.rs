//! What people type: links, hosts, `--set`, sizes and times, and expressions of costs.

use costof_exchange::rendezvous::Address as Endpoint;
use costof_lab::address::Address;
use costof_lab::host::{Host, HostSet};
use costof_model::expression::{Expression, Value};
use costof_model::link::Link;
use costof_model::node_set::{folded, unfolded};
use costof_model::plan;
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::{Unit, display_bytes, display_ns, parse_bytes, parse_ns};
use costof_probes::TABLE;
use std::fmt::{Debug, Display};
use std::str::FromStr;

pub(crate) fn link(bytes: &[u8]) {
    reread::<Link>(bytes);
}

/// Hosts, and addresses of both kinds.
pub(crate) fn host(bytes: &[u8]) {
    reread::<Host>(bytes);
    host_set(bytes);
    reread::<Address>(bytes);
    reread::<Endpoint>(bytes);
}

/// A set is the same when it is folded and unfolded.
fn host_set(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match unfolded(text) {
        Ok(mut names) => {
            let folded = folded(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let mut again = unfolded(&folded).unwrap_or_else(|error| panic!("{folded}: {error}"));
            names.sort();
            again.sort();
            assert_eq!(again, names, "{folded}");
        }
        Err(error) => assert!(!error.is_empty()),
    }
    let _ = text.parse::<HostSet>();
}

/// What is read is read again as it is written; an error has a reason.
fn reread<T: FromStr<Err = String> + Display + Debug>(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            let again: Result<T, String> = written.parse();
            let again = again.unwrap_or_else(|error| panic!("{value:?} as {written}: {error}"));
            assert_eq!(again.to_string(), written, "{value:?}");
        }
        Err(error) => assert!(!error.is_empty()),
    }
}

/// `--set`: each probe's axis of this name takes the values, or says why not.
pub(crate) fn axis(bytes: &[u8]) {
    let Some((name, values)) = str::from_utf8(bytes).ok().and_then(|text| plan::setting(text).ok())
    else {
        return;
    };
    for probe in TABLE {
        let Ok(axis) = probe.info.axis(&name) else {
            continue;
        };
        for value in &values {
            match axis.parse(value) {
                Ok(value) => {
                    assert!(axis.allows(&value), "{value:?}");
                    assert_eq!(axis.parse(&axis.display(&value)), Ok(value));
                }
                Err(error) => assert!(error.contains(&name), "{error}"),
            }
        }
    }
}

/// Sizes and times.
pub(crate) fn quantity(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(size) = parse_bytes(&text) {
        assert_eq!(parse_bytes(&display_bytes(size)), Some(size));
    }
    if let Some(ns) = parse_ns(&text) {
        assert_eq!(parse_ns(&display_ns(ns)), Some(ns));
    }
    if let Ok(value) = text.parse::<f64>() {
        for unit in [Unit::Nanoseconds, Unit::Bytes, Unit::Hertz, Unit::One] {
            let written = unit.display(value) + &unit.display_range((value / 2.0, value));
            assert!(written.len() < 2000, "{written}");
        }
    }
}

/// An expression has a finite total and an interval around nothing else, whatever its points are.
pub(crate) fn estimate(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let probes: Vec<&ProbeInfo> = TABLE.iter().map(|probe| &*probe.info).collect();
    let expression = match Expression::parse(text, &probes) {
        Ok(expression) => expression,
        Err(error) => return assert!(!error.is_empty()),
    };
    for value in [
        Value::Measured(3.0, Some((2.0, 5.0))),
        Value::Measured(0.0, Some((0.0, 1.0))),
        Value::Measured(1e300, None),
        Value::Predicted(1.0, 4.0),
    ] {
        let values = vec![value; expression.points.len()];
        let Ok(total) = expression.total(&values) else {
            continue;
        };
        assert!(total.value.is_finite());
        assert!(total.interval.is_none_or(|(low, high)| low <= high), "{total:?}");
        expression.unit.display(total.value);
    }
    for point in &expression.points {
        let again = Expression::parse(&point.id(), &probes)
            .unwrap_or_else(|error| panic!("{point}: {error}"));
        assert_eq!(again.points, std::slice::from_ref(point));
    }
}
