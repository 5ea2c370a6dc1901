//! The two ends: one sends messages, the other receives them, and answers them in an echo. This
//! file has what they share.

mod duration;
mod receiving;
mod sending;
mod singles;

pub(super) use duration::least_ns;
pub(crate) use receiving::Receiving;
pub(crate) use sending::Sending;
pub(super) use singles::least_ns as singles_ns;

use super::axes::CopySend;
use crate::prelude::*;
use crate::two_ends::{Over, broken};
use costof_exchange::pattern::flow::Shape;
use costof_os::memory::fields::Messages;

/// Points with the same layout send the same messages.
#[derive(Clone, PartialEq)]
struct Layout {
    shape: Shape,
    fields: usize,
    pages: Pages,
    threads: usize,
}

impl Layout {
    fn new(point: &At<CopySend>) -> Layout {
        Layout {
            shape: point.shape(),
            fields: point.fields,
            pages: point.pages,
            threads: point.threads,
        }
    }
}

/// Whether this is the point's first time in a launch.
fn is_first(seen: &mut Vec<At<CopySend>>, point: &At<CopySend>) -> bool {
    let is_first = !seen.contains(point);
    if is_first {
        seen.push(point.clone());
    }
    is_first
}

fn messages(point: &At<CopySend>, random: &mut Rng) -> Result<Vec<Messages>> {
    let Shape { size, count } = point.shape();
    let shuffle = &mut |order: &mut [usize]| random.shuffle(order);
    (0..point.threads)
        .map(|_| {
            let shape = (count, size, point.fields);
            let messages = Messages::new(shape, point.pages.into(), shuffle).map_err(|error| {
                arenas::failed("fill", point.memory_bytes(), point.pages, &error)
            })?;
            arenas::check(messages.arena(), point.pages, arenas::MOSTLY)?;
            Ok(messages)
        })
        .collect()
}

fn failed(point: &At<CopySend>, error: &io::Error) -> Failure {
    match error.raw_os_error() {
        // EIO
        Some(5) if point.over == Over::UdpGso => Failure::unsupported(
            "the device computes no checksums, without which it cuts up no message (ethtool -K \
             DEVICE tx on, or --set over=udp)",
        ),
        // EMSGSIZE
        Some(90) => Failure::unsupported(
            "a packet holds 17 pieces of memory at most, and the fields of one datagram lie on more \
             (--set pages=2MiB, fewer fields, or a smaller size)",
        ),
        // EOPNOTSUPP
        Some(95) => Failure::unsupported(
            "this kind of socket has no such way of sending (--set over=tcp, or another primitive)",
        ),
        _ => broken(error),
    }
}
