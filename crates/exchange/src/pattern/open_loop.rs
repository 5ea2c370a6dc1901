//! An open loop: requests at given times, regardless of answers, and answers at any time. It
//! decides which request is due and matches answers with requests; it knows no transport and no
//! clock.

use std::time::Duration;

/// How long to wait at least for an answer to the last request.
const GRACE: Duration = Duration::from_millis(250);

/// The requests of an open loop, and their answers.
#[derive(Debug)]
pub struct OpenLoop {
    interval_ns: f64,
    /// How many requests to send, and how many were sent.
    requests: u64,
    sent: u64,
    /// Which requests have an answer, one bit each.
    answered: Vec<u64>,
    /// How many were answered so far.
    pub answers: u64,
    /// When the first and the last answer arrived.
    first_ns: f64,
    last_ns: f64,
    /// When the loop ends, answered or not, counted from when the first request was due.
    ends_ns: f64,
}

impl OpenLoop {
    /// `rate` requests per second for `time_ns`, at least one. An answer takes about
    /// `round_trip_ns` without queues.
    pub fn new(rate: u64, time_ns: f64, round_trip_ns: f64) -> Self {
        let interval_ns = 1e9 / rate as f64;
        let requests = (time_ns / interval_ns).ceil().max(1.0) as u64;
        Self {
            interval_ns,
            requests,
            sent: 0,
            answered: vec![0; requests.div_ceil(64) as usize],
            answers: 0,
            first_ns: 0.0,
            last_ns: 0.0,
            ends_ns: requests as f64 * interval_ns + 4.0 * round_trip_ns + GRACE.as_nanos() as f64,
        }
    }

    /// The number of the request that is due at `now_ns`, from 1 on.
    pub fn due(&self, now_ns: f64) -> Option<u64> {
        let due = self.sent < self.requests && self.sent as f64 * self.interval_ns <= now_ns;
        due.then_some(self.sent + 1)
    }

    /// Records that the request that was due has been sent.
    pub fn mark_sent(&mut self) {
        self.sent += 1;
    }

    /// Records that an answer to this request arrived at `now_ns`. Returns how long after the
    /// request was due that was, in nanoseconds, if it was sent and had no answer yet.
    pub fn answered(&mut self, number: u64, now_ns: f64) -> Option<f64> {
        let index = number.checked_sub(1)?;
        if index >= self.sent {
            return None;
        }
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if self.answered[word] & bit != 0 {
            return None;
        }
        self.answered[word] |= bit;
        self.answers += 1;
        if self.answers == 1 {
            self.first_ns = now_ns;
        }
        self.last_ns = now_ns;
        Some(now_ns - index as f64 * self.interval_ns)
    }

    /// Answers per second: the number of intervals between answers, divided by the time from the
    /// first to the last, so that the latency of the first one is not included. `None` with fewer
    /// than two.
    pub fn rate(&self) -> Option<f64> {
        let ns = self.last_ns - self.first_ns;
        (ns > 0.0).then(|| (self.answers - 1) as f64 / ns * 1e9)
    }

    /// The share of requests that were sent and have no answer.
    pub fn lost(&self) -> f64 {
        (self.sent - self.answers) as f64 / self.sent.max(1) as f64
    }

    /// Whether there is nothing left to do or to wait for.
    pub fn is_over(&self, now_ns: f64) -> bool {
        self.answers == self.requests || now_ns >= self.ends_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_their_times_whatever_is_answered() {
        let mut load = OpenLoop::new(1000, 3e6, 0.0);
        assert_eq!(load.due(0.0), Some(1));
        load.mark_sent();
        assert_eq!(load.due(0.9e6), None);
        // Late: both are due at once, and keep their intended times.
        assert_eq!(load.due(2.5e6), Some(2));
        load.mark_sent();
        assert_eq!(load.due(2.5e6), Some(3));
        load.mark_sent();
        assert_eq!(load.due(9e6), None);
        assert_eq!(load.answered(3, 2.6e6), Some(0.6e6));
        assert_eq!(load.answered(2, 2.6e6), Some(1.6e6));
        assert!(!load.is_over(3e6));
        assert_eq!(load.answered(1, 3e6), Some(3e6));
        assert!(load.is_over(3e6));
        assert_eq!((load.answers, load.lost()), (3, 0.0));
    }

    #[test]
    fn the_rate_of_answers_is_that_of_the_requests_however_long_each_takes() {
        let answered = |rate: u64, time_ns, round_trip_ns: f64| {
            let mut load = OpenLoop::new(rate, time_ns, round_trip_ns);
            let mut at_ns = 0.0;
            while let Some(number) = load.due(at_ns) {
                load.mark_sent();
                assert_eq!(load.answered(number, at_ns + round_trip_ns), Some(round_trip_ns));
                assert_eq!(load.answered(number, at_ns + 1e9), None);
                at_ns += 1e9 / rate as f64;
            }
            load.rate()
        };
        assert_eq!(answered(1000, 30e6, 20e3), Some(1000.0));
        assert_eq!(answered(100, 100e6, 190e6), Some(100.0));
        assert_eq!(answered(1, 30e6, 20e3), None);
        assert_eq!(OpenLoop::new(1, 30e6, 20e3).rate(), None);
    }

    #[test]
    fn what_is_lost_is_counted_and_not_waited_for_without_end() {
        let mut load = OpenLoop::new(1_000_000, 100e3, 50e6);
        while load.due(100e3).is_some() {
            load.mark_sent();
        }
        for number in 1..=75 {
            assert!(load.answered(number, 100e3).is_some());
        }
        assert!(!load.is_over(400e6));
        assert!(load.is_over(451e6));
        assert_eq!(load.lost(), 0.25);
    }

    #[test]
    fn answers_that_come_twice_or_to_nothing_count_for_nothing() {
        let mut load = OpenLoop::new(10, 1.0, 0.0);
        assert_eq!(load.answered(1, 0.0), None);
        load.mark_sent();
        assert!(load.answered(1, 0.0).is_some());
        for number in [1, 0, 2, u64::MAX] {
            assert_eq!(load.answered(number, 0.0), None);
        }
        assert_eq!((load.answers, load.lost()), (1, 0.0));
    }
}
