//! The congestion control of a connection.

use crate::prelude::*;

costof_model::words! {
    /// TCP's congestion control.
    pub(crate) enum CongestionControl {
        /// the kernel's default
        Default = "default",
        /// CUBIC (RFC 9438)
        Cubic = "cubic",
        /// BBR, in the kernel's version
        Bbr = "bbr",
        /// NewReno (RFC 6582)
        Reno = "reno",
    }
}

impl CongestionControl {
    pub(crate) fn axis() -> AxisOf<CongestionControl> {
        words().about("TCP's congestion control")
    }

    /// Its name in the kernel; none for the default.
    pub(crate) fn name(self) -> Option<&'static str> {
        (self != CongestionControl::Default).then(|| self.word())
    }
}

/// The failure to report if the error means that this control is not available.
pub(crate) fn refused(control: Option<&str>, error: &io::Error) -> Option<Failure> {
    let control = control?;
    let reason = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "this kernel has no congestion control {control} \
             (net.ipv4.tcp_available_congestion_control lists those it has; modprobe tcp_{control} \
             may add it)"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "only the administrator may choose the congestion control {control} here \
             (net.ipv4.tcp_allowed_congestion_control)"
        ),
        _ => return None,
    };
    Some(Failure::unsupported(reason))
}
