//! How long a receiver waits for a sender that is connected and sends nothing. Nobody else may be served
//! meanwhile.

use std::io;
use std::time::{Duration, Instant};

/// A sender may be silent for this long: longer than TCP takes to retransmit a few times.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Since when nothing has arrived.
#[derive(Debug, Default)]
pub(crate) struct Silence(Option<(u64, Instant)>);

impl Silence {
    /// Nothing has arrived for a while, and so many bytes in all. Costs nothing while something arrives.
    ///
    /// # Errors
    ///
    /// `TimedOut` if it has been as many for longer than [`LIMIT`].
    pub(crate) fn check(&mut self, bytes: u64, now: Instant) -> io::Result<()> {
        match self.0 {
            Some((before, since)) if before == bytes => {
                if now.duration_since(since) <= LIMIT {
                    return Ok(());
                }
                let reason = format!("the sender has sent nothing for {} s", LIMIT.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, reason))
            }
            _ => {
                self.0 = Some((bytes, now));
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
            let checked = silence.check(bytes, now);
            assert_eq!(checked.is_err(), is_too_long, "{bytes} B after {after_s} s");
        }
    }
}
