//! How long a receiver waits for a sender that is connected and sends nothing. Nobody else may be served
//! meanwhile.

use std::io;
use std::time::{Duration, Instant};

/// A sender may be silent for this long: longer than TCP takes to retransmit a few times.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The clock is read only at every so many checks, since a receiver that polls checks all the time. One
/// that waits for 50 ms at each check notices silence a second later.
const CHECKS_PER_READING: u32 = 20;

/// Since when nothing has arrived.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    checks: u32,
    /// How many bytes had arrived at the first reading that found so many.
    since: Option<(u64, Instant)>,
}

impl Silence {
    /// Nothing has arrived for a while, and so many bytes in all. Costs nothing while something arrives.
    ///
    /// # Errors
    ///
    /// `TimedOut` if it has been as many for longer than [`LIMIT`].
    pub(crate) fn check(&mut self, bytes: u64, now: impl FnOnce() -> Instant) -> io::Result<()> {
        self.checks += 1;
        if self.checks < CHECKS_PER_READING {
            return Ok(());
        }
        self.checks = 0;
        let now = now();
        match self.since {
            Some((before, since)) if before == bytes => {
                if now.duration_since(since) <= LIMIT {
                    return Ok(());
                }
                let reason = format!("the sender has sent nothing for {} s", LIMIT.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, reason))
            }
            _ => {
                self.since = Some((bytes, now));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_silent_since_its_last_byte() {
        let began = Instant::now();
        let mut silence = Silence::default();
        for (bytes, after_s, is_too_long) in [
            (0, 0, false),
            (0, 60, false),
            (0, 61, true),
            (1, 62, false),
            (2, 300, false),
            (2, 360, false),
            (2, 361, true),
        ] {
            let now = began + Duration::from_secs(after_s);
            let checks = [(); CHECKS_PER_READING as usize].map(|()| silence.check(bytes, || now));
            let errors = checks.iter().filter(|checked| checked.is_err()).count();
            assert_eq!(errors, usize::from(is_too_long), "{bytes} B after {after_s} s");
        }
    }
}
