//! CUBIC (RFC 9438), with the slow start of HyStart++ (RFC 9406): shares a link fairly with TCP,
//! and treats every loss as congestion.

use super::{Acknowledged, INITIAL_PACKETS, MIN_PACKETS};
use crate::rtt::Rtt;
use crate::time::Time;
use std::time::Duration;

/// What remains of the window after a loss (RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// How steeply it grows, in packets per second cubed (RFC 9438 section 5).
const C: f64 = 0.4;
/// By how much it grows in a round trip where it is as fast as Reno would be (RFC 9438
/// section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Debug, Default)]
pub(crate) struct Cubic {
    packet: f64,
    /// In packets, as everything below.
    window: f64,
    threshold: f64,
    /// The window before the last loss.
    before_loss: f64,
    /// The window that Reno would have.
    reno: f64,
    /// Since when the window grows by the cubic function, and after how many seconds that
    /// reaches `before_loss`.
    epoch: Option<(Time, f64)>,
    /// Packets sent before belong to the last loss (RFC 9002 section 7.3.2).
    recovering_since: Option<Time>,
    start: SlowStart,
}

impl Cubic {
    pub(crate) fn new(packet: usize) -> Cubic {
        Cubic {
            packet: packet as f64,
            window: INITIAL_PACKETS,
            threshold: f64::INFINITY,
            ..Cubic::default()
        }
    }

    pub(crate) fn window(&self) -> u64 {
        (self.window * self.packet) as u64
    }

    /// Slightly faster than one window per round trip, so that the window is the limit (RFC 9002 section
    /// 7.7).
    pub(crate) fn pacing(&self, rtt: &Rtt) -> Option<f64> {
        let faster = if self.window < self.threshold { 2.0 } else { 1.25 };
        let round = rtt.smoothed.as_secs_f64().max(1e-6);
        Some(faster * self.window * self.packet / round)
    }

    pub(crate) fn acknowledged(&mut self, what: &Acknowledged<'_>) {
        let is_recovering = self.recovering_since.is_some_and(|since| what.sent_at <= since);
        // A window that was not used proves nothing (RFC 9002 section 7.8).
        if is_recovering || what.is_window_unused {
            return;
        }
        let packets = what.bytes as f64 / self.packet;
        if self.window < self.threshold {
            self.window += packets * self.start.growth(what);
            if self.start.is_over() {
                self.threshold = self.window;
            }
            return;
        }
        let (since, reaches) = *self.epoch.get_or_insert_with(|| {
            let before = self.before_loss.max(self.window);
            self.before_loss = before;
            self.reno = self.window;
            (what.now, ((before - self.window) / C).cbrt())
        });
        // The window that it will be one round trip later (RFC 9438 section 4.2).
        let later = what.now.since(since) + what.rtt.smoothed;
        let target = self.before_loss + C * (later.as_secs_f64() - reaches).powi(3);
        let target = target.clamp(self.window, 1.5 * self.window);
        let alpha = if self.reno < self.before_loss { ALPHA } else { 1.0 };
        self.reno += alpha * packets / self.window;
        self.window += (target - self.window) / self.window * packets;
        self.window = self.window.max(self.reno);
    }

    /// A packet sent at this time was lost.
    pub(crate) fn congested(&mut self, now: Time, sent_at: Time) {
        if self.recovering_since.is_some_and(|since| sent_at <= since) {
            return;
        }
        self.recovering_since = Some(now);
        // A flow that had to give way before gives way a little more (RFC 9438 section 4.7).
        self.before_loss = if self.window < self.before_loss {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(MIN_PACKETS);
        self.threshold = self.window;
        self.epoch = None;
    }

    pub(crate) fn persistent_congestion(&mut self) {
        self.threshold = (self.window * BETA).max(MIN_PACKETS);
        self.window = MIN_PACKETS;
        self.epoch = None;
    }
}

/// Finds the end of slow start by a growing round trip, before packets are lost (RFC 9406 section 4.2).
#[derive(Debug, Default)]
struct SlowStart {
    round_end: u64,
    last_least: Option<Duration>,
    min_rtt: Option<Duration>,
    samples: u32,
    /// The round trip at which growth became careful, and for how many rounds it has been.
    careful: Option<(Duration, u32)>,
}

impl SlowStart {
    const SAMPLES: u32 = 8;
    const CAREFUL_GROWTH: f64 = 0.25;
    const CAREFUL_ROUNDS: u32 = 5;
    const MIN_RISE: Duration = Duration::from_millis(4);
    const MAX_RISE: Duration = Duration::from_millis(16);

    /// By how many packets the window grows for each that arrived.
    fn growth(&mut self, what: &Acknowledged<'_>) -> f64 {
        if what.prior_delivered >= self.round_end {
            self.round_end = what.delivered;
            self.last_least = self.min_rtt.take().or(self.last_least);
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.careful {
                *rounds += 1;
            }
        }
        if what.has_rtt {
            self.samples += 1;
            let latest = what.rtt.latest;
            self.min_rtt = Some(self.min_rtt.map_or(latest, |min_rtt| min_rtt.min(latest)));
        }
        if let (Some(last), Some(min_rtt)) = (self.last_least, self.min_rtt)
            && self.samples >= SlowStart::SAMPLES
        {
            let rise = (last / 8).clamp(SlowStart::MIN_RISE, SlowStart::MAX_RISE);
            match self.careful {
                None if min_rtt >= last + rise => self.careful = Some((min_rtt, 0)),
                // The round trip is shorter again, so there was no queue.
                Some((at, _)) if min_rtt < at => self.careful = None,
                _ => {}
            }
        }
        if self.careful.is_some() { SlowStart::CAREFUL_GROWTH } else { 1.0 }
    }

    fn is_over(&self) -> bool {
        self.careful.is_some_and(|(_, rounds)| rounds >= SlowStart::CAREFUL_ROUNDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledge(cubic: &mut Cubic, now: Time, bytes: u64, sent_at: Time, rtt: &Rtt) {
        cubic.acknowledged(&Acknowledged {
            now,
            bytes,
            sent_at,
            prior_delivered: sent_at.as_nanos(),
            delivered: now.as_nanos(),
            rtt,
            has_rtt: true,
            delivery: None,
            is_app_limited: false,
            is_window_unused: false,
        });
    }

    #[test]
    fn it_doubles_then_gives_way_then_comes_back_to_where_it_was() {
        let mut rtt = Rtt::default();
        rtt.sample(Duration::from_millis(100), Duration::ZERO);
        let mut cubic = Cubic::new(1000);
        let mut now = Time::from_nanos(1);
        let mut round = |cubic: &mut Cubic| {
            let sent_at = now;
            now = now + rtt.smoothed;
            acknowledge(cubic, now, cubic.window(), sent_at, &rtt);
            now
        };
        for _ in 0..3 {
            round(&mut cubic);
        }
        let lost_at = round(&mut cubic);
        assert_eq!(cubic.window(), 160_000);
        cubic.congested(lost_at, lost_at);
        assert_eq!(cubic.window(), 112_000);
        // Two losses of one window count once.
        cubic.congested(lost_at, lost_at);
        assert_eq!(cubic.window(), 112_000);
        // RFC 9438: the window is back after the cube root of 48/0.4 = 4.9 s.
        let mut back_at = lost_at;
        while cubic.window() < 158_000 {
            back_at = round(&mut cubic);
        }
        let took = back_at.since(lost_at).as_secs_f64();
        assert!((3.0..6.0).contains(&took), "{took} s");
        cubic.persistent_congestion();
        assert_eq!(cubic.window(), 2000);
    }

    #[test]
    fn a_growing_round_trip_ends_the_start_before_anything_is_lost() {
        let threshold_after = |grows: Duration| {
            let mut cubic = Cubic::new(1000);
            let mut delivered = 0;
            for round in 0..10 {
                let mut rtt = Rtt::default();
                rtt.sample(Duration::from_millis(100) + grows * round, Duration::ZERO);
                let prior_delivered = delivered;
                for _ in 0..cubic.window() / 1000 {
                    delivered += 1000;
                    let sent_at = Time::from_nanos(prior_delivered);
                    acknowledge(&mut cubic, Time::from_nanos(delivered), 1000, sent_at, &rtt);
                }
            }
            cubic.threshold
        };
        assert!(threshold_after(Duration::ZERO).is_infinite());
        assert!(threshold_after(Duration::from_millis(20)).is_finite());
    }
}
