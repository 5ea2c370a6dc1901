//! By what TCP decides how much may be under way, where a point asks for one.

use crate::literal::{list, word, words};
use costof_model::axis::Axis;
use costof_model::failure::Failure;
use costof_model::point::Point;
use std::io;

/// The axis.
pub(crate) const CONGESTION_CONTROL: Axis = words(
    "congestion_control",
    "by what TCP decides how much may be under way",
    list![
        word("default", "the kernel's own choice"),
        word("cubic", "CUBIC (RFC 9438)"),
        word("bbr", "BBR, as the kernel has it"),
        word("reno", "NewReno (RFC 6582)"),
    ],
);

/// The congestion control that is asked for.
pub(crate) fn control(point: &Point) -> Option<&str> {
    point
        .axes
        .find_word("congestion_control")
        .filter(|control| *control != "default")
}

/// Why it cannot be had, if that is what an error says.
pub(crate) fn refused(point: &Point, error: &io::Error) -> Option<Failure> {
    let control = control(point)?;
    let reason = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "this kernel has no congestion control {control} \
             (net.ipv4.tcp_available_congestion_control lists those it has; modprobe tcp_{control} \
             may add it)"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "only the administrator may use the congestion control {control} here \
             (net.ipv4.tcp_allowed_congestion_control)"
        ),
        _ => return None,
    };
    Some(Failure::unsupported(reason))
}
