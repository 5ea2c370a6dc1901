//! How much arrived when: what a receiver counts and prints in one line, and what is made of it.

use std::time::{Duration, Instant};

/// The resolution of arrival: tenths of a second.
const STEPS_IN_A_SECOND: usize = 10;

/// Payload by tenths of a second, from when the receiver was there.
pub(super) struct Tally {
    began: Instant,
    bytes: Vec<u64>,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { began: Instant::now(), bytes: Vec::new() }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        let seconds = self.began.elapsed().as_secs_f64();
        let step = (seconds * STEPS_IN_A_SECOND as f64) as usize;
        if self.bytes.len() <= step {
            self.bytes.resize(step + 1, 0);
        }
        self.bytes[step] += bytes as u64;
    }

    /// How much of so long a time is left; `None` when it is over.
    pub(super) fn left(&self, of: Duration) -> Option<Duration> {
        of.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero())
    }

    pub(super) fn line(&self) -> String {
        let steps: Vec<String> = self.bytes.iter().map(u64::to_string).collect();
        format!("arrived {}", steps.join(" "))
    }
}

/// What a receiver printed.
#[derive(Debug, PartialEq)]
pub(super) struct Arrived(Vec<u64>);

impl Arrived {
    pub(super) fn read(line: &str) -> Option<Arrived> {
        let steps = line.strip_prefix("arrived")?.split_whitespace();
        steps.map(|step| step.parse().ok()).collect::<Option<_>>().map(Arrived)
    }

    /// Bytes a second between these seconds.
    pub(super) fn rate(&self, from: usize, to: usize) -> f64 {
        self.sum(from * STEPS_IN_A_SECOND, to * STEPS_IN_A_SECOND) / (to - from) as f64
    }

    /// Seconds until the receiver first got nine tenths of this rate over a whole second: a
    /// lost piece holds up what follows in order, so that less time tells nothing.
    pub(super) fn start_s(&self, rate: f64) -> Option<f64> {
        let steps = self.0.len().saturating_sub(STEPS_IN_A_SECOND);
        (0..=steps)
            .find(|from| self.sum(*from, from + STEPS_IN_A_SECOND) >= 0.9 * rate)
            .map(|from| from as f64 / STEPS_IN_A_SECOND as f64)
    }

    fn sum(&self, from: usize, to: usize) -> f64 {
        let steps = self.0.iter().skip(from).take(to - from);
        steps.sum::<u64>() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_is_read_as_it_was_printed() {
        let mut tally = Tally::new();
        tally.add(7);
        tally.add(5);
        let read = Arrived::read(&tally.line()).unwrap();
        assert_eq!(read.sum(0, 10), 12.0);
        assert_eq!(Arrived::read("arrived 1 x"), None);
        assert_eq!(Arrived::read("nothing"), None);
    }

    #[test]
    fn a_start_is_over_when_a_whole_second_is_at_speed() {
        let mut steps = vec![0; 20];
        steps.extend([10; 40]);
        let arrived = Arrived(steps);
        assert_eq!(arrived.rate(2, 6), 100.0);
        assert_eq!(arrived.rate(0, 4), 50.0);
        assert_eq!(arrived.start_s(100.0), Some(1.9));
        assert_eq!(arrived.start_s(200.0), None);
    }
}
