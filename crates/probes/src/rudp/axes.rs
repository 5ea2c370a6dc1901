//! What the probes of transfers by several stacks vary, and what of it cannot be.

use crate::literal::{list, text, word, words};
use crate::net::congestion_control;
use crate::net::path::{MTU, UDP_HEADERS};
use ::rudp::Control;
use costof_model::axis::{Axis, Domain};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::unit::Unit;
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Over};
use std::time::Duration;

/// The largest message of the study's protocol, whose datagrams begin with a number.
pub(super) const STUDY_MOST_BYTES: u64 = DATAGRAM_MOST_BYTES as u64 - 8;
/// What a packet of an Ethernet holds.
pub(super) const PACKET_BYTES: u64 = MTU - UDP_HEADERS;
/// The shortest message: its number, how long the transfer lasts, and something to compare.
pub(super) const MESSAGE_LEAST_BYTES: usize = 64;

/// The axis `stack`.
pub(super) const STACK: Axis = words(
    "stack",
    "what carries the messages",
    list![
        word("rudp", "the library rudp: not encrypted"),
        word(
            "study",
            "the study's protocol: a numbered datagram, its number back, again after a second; not encrypted"
        ),
        word(
            "quic",
            "QUIC by the library quinn, one stream: encrypted and authenticated, as it always is (TLS 1.3)"
        ),
        word("tcp", "a TCP connection of the kernel: not encrypted"),
    ],
);

/// The axis `control`.
pub(super) const CONTROL: Axis = words(
    "control",
    "by what rudp decides how much may be under way",
    list![
        word("cubic", "CUBIC (RFC 9438), its default"),
        word(
            "rate",
            "a model of the path's rate, which random loss does not starve"
        ),
        word("fixed", "`window` messages, whatever the network does"),
    ],
);

/// The axis `size`.
pub(super) const fn size_axis(usual: costof_model::List<u64>) -> Axis {
    Axis {
        name: text("size"),
        about: text("bytes of a message; the study's has 65499 at most, in one datagram"),
        domain: Domain::Number {
            unit: Unit::Bytes,
            low: MESSAGE_LEAST_BYTES as u64,
            high: 1 << 20,
            usual,
        },
    }
}

/// The axis `window`.
pub(super) const fn window_axis(usual: costof_model::List<u64>) -> Axis {
    Axis {
        name: text("window"),
        about: text(
            "messages under way at most; 0: as many as the stack itself lets, which is one with stack=study and control=fixed",
        ),
        domain: Domain::Number {
            unit: Unit::One,
            low: 0,
            high: 4096,
            usual,
        },
    }
}

/// What carries a point's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    Rudp,
    Study,
    Quic,
    Tcp,
    /// Calls of procedures over TCP.
    Calls(costof_rpc::Stack),
}

pub(super) fn stack(point: &Point) -> Stack {
    match point.axes.word("stack") {
        "study" => Stack::Study,
        "quic" => Stack::Quic,
        "tcp" => Stack::Tcp,
        "grpc" => Stack::Calls(costof_rpc::Stack::Grpc),
        "thrift" => Stack::Calls(costof_rpc::Stack::THRIFT),
        _ => Stack::Rudp,
    }
}

/// By what the ends meet.
pub(super) fn over(point: &Point) -> Over {
    match stack(point) {
        Stack::Tcp | Stack::Calls(_) => Over::Tcp,
        _ => Over::Udp,
    }
}

pub(super) fn size(point: &Point) -> usize {
    point.axes.number("size") as usize
}

/// How many messages may be under way; none where that is the stack's own affair.
pub(super) fn window(point: &Point) -> Option<u64> {
    let is_counted = stack(point) == Stack::Study
        || (stack(point) == Stack::Rudp && point.axes.find_word("control") == Some("fixed"));
    match point.axes.find_number("window") {
        None | Some(0) => is_counted.then_some(1),
        window => window,
    }
}

/// How long messages that are timed may take: enough for what is sent again after a second or two.
pub(super) const TIMED: Duration = Duration::from_secs(12);

/// How many are timed at least, if they arrive within that: whole windows, and several, of which the rate
/// leaves out the first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

/// The control of rudp.
pub(super) fn control(point: &Point) -> Control {
    match point.axes.find_word("control") {
        Some("rate") => Control::Rate,
        Some("fixed") => Control::Fixed {
            messages: window(point).map_or(1, |window| window as u32),
        },
        _ => Control::Cubic,
    }
}

/// What cannot be, wherever it is tried.
pub(super) fn check(point: &Point) -> Result<(), Failure> {
    let unsupported = |reason: &str| Err(Failure::unsupported(reason));
    let stack = stack(point);
    if stack == Stack::Study && point.axes.number("size") > STUDY_MOST_BYTES {
        return unsupported(
            "a message of the study is one datagram, with 65499 B of it at most (--set size=65499)",
        );
    }
    let has_control = !matches!(point.axes.find_word("control"), None | Some("cubic"));
    if stack != Stack::Rudp && has_control {
        return unsupported(
            "only rudp has this control (--set control=cubic; TCP and QUIC have --set \
             congestion_control)",
        );
    }
    let has_congestion_control = matches!(stack, Stack::Tcp | Stack::Quic);
    if !has_congestion_control && congestion_control::control(point).is_some() {
        return unsupported(
            "only TCP and QUIC have a congestion control of that name (--set \
             congestion_control=default; rudp has --set control)",
        );
    }
    if stack == Stack::Quic && !cfg!(feature = "quic") {
        return unsupported("this costof was built without quinn (build it with --features quic)");
    }
    Ok(())
}
