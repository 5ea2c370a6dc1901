//! Numbers over emulated links. They are marked as emulated wherever they are displayed. A number
//! that only repeats a setting of the link does not count for predictions.

use crate::link::mark;
use crate::{Link, PointRow, Unit};

impl PointRow {
    /// Marks its label, if an older costof did not.
    pub(crate) fn mark_label(&mut self) {
        let mark = mark(&self.point.link);
        if let Some(label) = self.label.as_mut().filter(|label| !label.ends_with(mark)) {
            label.push_str(mark);
        }
    }

    /// Whether the prediction mostly repeats an emulated link's setting: at least half of a time is
    /// the link's delays and rate, or a throughput is at least half of what these allow. Measuring
    /// the setting again shows only that the emulator works.
    pub fn gives_back_setting(&self) -> bool {
        let Some(expected) = &self.prediction else {
            return false;
        };
        let Ok(Link::Emulated { up, down }) = self.point.link.parse() else {
            return false;
        };
        let bytes = self.number("size").unwrap_or(0) as f64;
        let delays_ns = up.delay_ns + down.delay_ns;
        match self.estimate(&expected.metric).map(|estimate| estimate.unit) {
            Some(Unit::Nanoseconds) => {
                let setting_ns = delays_ns + up.rate.map_or(0.0, |rate| bytes * 8e9 / rate);
                (expected.low / 2.0..=expected.high).contains(&setting_ns)
            }
            Some(Unit::BytesPerSecond) => {
                let window = self.number("window").filter(|_| delays_ns > 0.0);
                let of_window = window.map(|window| window as f64 * bytes * 1e9 / delays_ns);
                let rates = up.rate.map(|rate| rate / 8.0).into_iter().chain(of_window);
                let setting = rates.reduce(f64::min);
                setting.is_some_and(|setting| expected.high >= setting / 2.0)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RowExt, row};
    use crate::{Axes, Prediction};

    /// A row that was predicted in this unit.
    fn predicted(link: &'static str, unit: Unit, (low, high): (f64, f64)) -> PointRow {
        let axes = Axes::default().with("size", 1000).with("window", 1);
        let mut row = row("net.x", axes, low).over(link);
        row.metrics[0].unit = unit;
        row.prediction =
            Some(Prediction { metric: "cost".into(), low, high, because: String::new() });
        row
    }

    #[test]
    fn what_gives_back_the_setting_of_a_link_is_not_scored() {
        use Unit::{BytesPerSecond, Nanoseconds};
        for (link, unit, range, is_scored) in [
            // Its delays are 100 µs of these.
            ("lan", Nanoseconds, (110e3, 400e3), false),
            ("lan", Nanoseconds, (300e3, 700e3), true),
            // What happens at one end alone.
            ("lan", Nanoseconds, (4e3, 8e3), true),
            ("loopback", Nanoseconds, (110e3, 400e3), true),
            // 1000 B take 8 ms.
            ("rate=1Mbit", Nanoseconds, (9e6, 20e6), false),
            ("rate=1Mbit", BytesPerSecond, (100e3, 120e3), false),
            // Losses leave less than half of it.
            ("rate=1Mbit,loss=5%", BytesPerSecond, (20e3, 60e3), true),
            // One message in each round trip of 2 ms.
            ("delay=1ms", BytesPerSecond, (300e3, 500e3), false),
            ("delay=1ms,loss=50%", BytesPerSecond, (1e3, 9e3), true),
            ("loss=5%", BytesPerSecond, (100e3, 120e3), true),
        ] {
            let row = predicted(link, unit, range);
            assert_eq!(row.scored().is_some(), is_scored, "{link} {range:?}");
        }
    }

    #[test]
    fn a_label_is_marked_once() {
        let mut row = predicted("lan", Unit::Nanoseconds, (1.0, 2.0));
        row.label = Some("round trip: TCP over lan".to_owned());
        for _ in 0..2 {
            row.mark_label();
            let label = row.label.as_deref();
            assert_eq!(label, Some("round trip: TCP over lan [emulated]"));
        }
        let mut here = predicted("loopback", Unit::Nanoseconds, (1.0, 2.0));
        here.label = Some("round trip".to_owned());
        here.mark_label();
        assert_eq!(here.label.as_deref(), Some("round trip"));
    }
}
