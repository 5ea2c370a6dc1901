//! The kernel's clocks, in nanoseconds.
//!
//! Source: clock_gettime(2), vdso(7).

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockId {
    /// `CLOCK_MONOTONIC`: since boot, slewed by NTP; answered by the vDSO.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`: since boot, never slewed; Linux 2.6.28, in the vDSO since 5.3.
    MonotonicRaw,
    /// `CLOCK_MONOTONIC_COARSE`: as of the last timer tick (milliseconds); Linux 2.6.32.
    MonotonicCoarse,
    /// `CLOCK_REALTIME`: since 1970, may jump.
    Realtime,
    /// `CLOCK_THREAD_CPUTIME_ID`: CPU time of the calling thread, always a system call.
    ThreadCpu,
    /// `CLOCK_PROCESS_CPUTIME_ID`: CPU time of all threads of the process, always a system call.
    ProcessCpu,
}

#[cfg(test)]
impl ClockId {
    /// Every clock, in the order of declaration.
    pub(crate) const ALL: [Self; 6] = [
        Self::Monotonic,
        Self::MonotonicRaw,
        Self::MonotonicCoarse,
        Self::Realtime,
        Self::ThreadCpu,
        Self::ProcessCpu,
    ];
}

impl ClockId {
    /// The kernel's number for the clock.
    pub(crate) fn raw(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
            Self::ProcessCpu => libc::CLOCK_PROCESS_CPUTIME_ID,
        }
    }
}

/// The clock's time in nanoseconds since its own zero.
///
/// Cannot fail: every clock here exists in all kernels that Rust's standard library runs on.
#[inline]
pub fn now_ns(clock: ClockId) -> u64 {
    let mut time = ZERO;
    // SAFETY: `time` is a valid timespec to write to.
    let status = unsafe { libc::clock_gettime(clock.raw(), &mut time) };
    debug_assert_eq!(status, 0, "the clocks of ClockId always exist");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

pub(crate) const ZERO: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_answers_and_does_not_go_back() {
        for clock in ClockId::ALL {
            let before = now_ns(clock);
            let after = now_ns(clock);
            assert!(after >= before || clock == ClockId::Realtime, "{clock:?}");
        }
    }
}
