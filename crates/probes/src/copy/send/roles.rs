//! The two ends: one sends messages, the other takes them in, and answers them where it is to. What
//! they have in common is here.

mod duration;
mod receiving;
mod sending;
mod singles;

pub(super) use duration::least_ns;
pub(super) use receiving::Receiving;
pub(super) use sending::{Ending, Sending};

use super::{is_segmented, memory_bytes, shape, threads};
use crate::arenas;
use crate::net::meeting::broken;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_os::arena::PageSize;
use costof_os::delivery::Shape;
use costof_os::fields::Messages;
use fastrand::Rng;
use std::io;

/// What messages of points must have in common that are laid out once.
#[derive(Clone, PartialEq)]
struct Laid {
    shape: Shape,
    fields: u64,
    pages: String,
    threads: usize,
}

impl Laid {
    fn of(point: &Point) -> Laid {
        Laid {
            shape: shape(point),
            fields: point.axes.number("fields"),
            pages: point.axes.word("pages").to_owned(),
            threads: threads(point),
        }
    }
}

/// Whether a point comes for the first time in a launch, from which on it has been seen.
fn is_first(seen: &mut Vec<Point>, point: &Point) -> bool {
    let is_first = !seen.contains(point);
    if is_first {
        seen.push(point.clone());
    }
    is_first
}

/// The messages of each thread of a point.
fn messages(point: &Point, random: &mut Rng) -> Result<Vec<Messages>, Failure> {
    let shape = shape(point);
    let fields = point.axes.number("fields") as usize;
    let pages = point.axes.word("pages");
    let page_size = match pages {
        "2MiB" => PageSize::Huge,
        _ => PageSize::Base,
    };
    let shuffle = &mut |order: &mut [usize]| random.shuffle(order);
    (0..threads(point))
        .map(|_| {
            let shape = (shape.count, shape.size, fields);
            let messages = Messages::new(shape, page_size, shuffle)
                .map_err(|error| arenas::failed("fill", memory_bytes(point), pages, &error))?;
            arenas::check(messages.arena(), pages, arenas::MOSTLY)?;
            Ok(messages)
        })
        .collect()
}

/// A failure while messages go.
fn failed(point: &Point, error: &io::Error) -> Failure {
    match error.raw_os_error() {
        // EIO
        Some(5) if is_segmented(point) => Failure::unsupported(
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
