//! The congestion control of a connection.

use costof_model::failure::Failure;
use costof_model::typed::{AxisOf, Words, words};
use std::io;

costof_model::words! {
    /// By what TCP decides how much may be in flight.
    pub(crate) enum CongestionControl {
        /// the kernel's own choice
        Default = "default",
        /// CUBIC (RFC 9438)
        Cubic = "cubic",
        /// BBR, as the kernel has it
        Bbr = "bbr",
        /// NewReno (RFC 6582)
        Reno = "reno",
    }
}

impl CongestionControl {
    /// The axis.
    pub(crate) fn axis() -> AxisOf<CongestionControl> {
        words().about("by what TCP decides how much may be in flight")
    }

    /// Its name in the kernel; none for the default.
    pub(crate) fn name(self) -> Option<&'static str> {
        (self != CongestionControl::Default).then(|| self.word())
    }
}

/// The failure where an error means that this control is not available.
pub(crate) fn refused(control: Option<&str>, error: &io::Error) -> Option<Failure> {
    let control = control?;
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
