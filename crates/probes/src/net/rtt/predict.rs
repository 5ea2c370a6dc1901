//! Predictions of round trips: of a socket from its parts, of other transports from the socket below.

use super::Rtt;
use crate::prelude::*;
use crate::rpc::axes::Kind;
use crate::two_ends::{Exchange, Exchanges, path};
use costof_exchange::rendezvous::Over as Socket;

/// Every run measures round trips of this size.
const SMALL_BYTES: usize = 56;

/// The kernel's work for a round trip by the socket of this exchange, without a wake-up.
pub(crate) fn kernel(exchange: &Exchange, read: Cost) -> Cost {
    let (reads, through) = exchange.over.description().round_trip_reads;
    let calls = (read * reads).named(format!("two sends and two receives through {through}"));
    // Two copies each way; beyond 4 KiB, pages must be allocated for them.
    calls + Cost::bytes(4.0 * exchange.size() as f64, (2.0, 20.0), "copied")
}

/// A round trip from its components, with `waiting_ends` ends that wait in the kernel.
pub(crate) fn round_trip(
    link: &str,
    exchange: &Exchange,
    waiting_ends: f64,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    let bytes = exchange.size() as u64;
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let mut cost = Cost::default();
    if waiting_ends > 0.0 {
        let switch = context_switch::measured_cost(exchange.cpus, exchange.wake, measured)?;
        cost += switch * (0.8 * waiting_ends, 1.25 * waiting_ends);
    }
    cost += kernel(exchange, read);
    cost += path::cost(link, bytes, exchange.headers())?;
    if exchange.socket() == Socket::Tcp {
        cost += path::slow_start(link, bytes);
    }
    Some(cost)
}

/// The measured round trip of so many bytes by the socket below.
pub(crate) fn measured_ns(
    link: &str,
    exchange: &Exchange,
    size: usize,
    measured: &MeasuredRows<'_>,
) -> Option<f64> {
    let socket = Exchange { over: exchange.over.below(), payload: Kind::String(size), ..*exchange };
    let point = Rtt::new(&socket);
    measured.at_over(link, &point)
}

/// A round trip by the socket below: measured at this size or at the smallest, else from its components.
fn socket(link: &str, exchange: &Exchange, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let (bytes, headers) = (exchange.size(), exchange.headers());
    let of_size = |size| {
        let name = format!("for a round trip of {size} B by {}", exchange.over.below().word());
        Some(Cost::new(measured_ns(link, exchange, size, measured)?, name) * (0.85, 1.25))
    };
    if let Some(same) = of_size(bytes) {
        return Some(same);
    }
    let Some(small) = of_size(SMALL_BYTES) else {
        return round_trip(link, exchange, exchange.waiting_ends(), measured);
    };
    let more = (bytes as f64 - SMALL_BYTES as f64).max(0.0);
    let sending_ns = |bytes: usize| Some(path::cost(link, bytes as u64, headers)?.range.0);
    let sending_ns = sending_ns(bytes)? - sending_ns(SMALL_BYTES)?;
    let mut cost = small + Cost::bytes(4.0 * more, (2.0, 20.0), "copied");
    cost += Cost::new((sending_ns, sending_ns.max(0.0)), "for the rate of the link");
    if exchange.socket() == Socket::Tcp {
        cost += path::slow_start(link, bytes as u64);
    }
    Some(cost)
}

/// A round trip of this exchange, one at a time.
pub(crate) fn expected(
    link: &str,
    exchange: &Exchange,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    exchange.round_trip(link, socket(link, exchange, measured)?, measured)
}

pub(super) fn predict(point: &At<Rtt>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let exchange = point.exchange();
    if !point.is_by_socket() {
        return expected(&point.link, &exchange, measured)?.predict("latency");
    }
    let mut waiting_ends = exchange.waiting_ends();
    if point.rate > 0 {
        // Only the server waits in the kernel.
        waiting_ends /= 2.0;
    }
    round_trip(&point.link, &exchange, waiting_ends, measured)?.predict("latency")
}
