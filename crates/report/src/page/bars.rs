//! A logarithmic axis over the width of a column, in percent of it.

use costof_model::Unit;
use maud::{Markup, html};

/// An axis between two powers of ten.
pub(super) struct Ruler {
    low: f64,
    high: f64,
    unit: Unit,
}

/// No axis has more decades; a hostile file may need hundreds.
const DECADES: f64 = 24.0;

impl Ruler {
    /// An axis that covers all these values, and at least the range `least`. Intervals should not
    /// be among them: a wide one would make all bars short.
    pub(super) fn over(values: impl Iterator<Item = f64>, least: (f64, f64), unit: Unit) -> Ruler {
        let shown = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = shown.fold(least, |(low, high), value| (low.min(value), high.max(value)));
        let low = low.max(1e-9).log10().floor();
        let high = high.log10().ceil().max(low + 1.0).min(low + DECADES);
        Ruler { low, high, unit }
    }

    /// The place of a value; a value beyond the axis is placed at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share =
            if value > 0.0 { (value.log10() - self.low) / (self.high - self.low) } else { 0.0 };
        (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    }

    /// `left:12.3%;width:4.5%`
    pub(super) fn span(&self, (low, high): (f64, f64)) -> String {
        let (left, right) = (self.place(low), self.place(high));
        format!("left:{left}%;width:{:.1}%", (right - left).max(0.0))
    }

    /// `left:12.3%`
    pub(super) fn at(&self, value: f64) -> String {
        format!("left:{}%", self.place(value))
    }

    /// An arrow at each end of the axis beyond which a range goes on, with this class.
    pub(super) fn arrows(&self, (low, high): (f64, f64), class: &str) -> Markup {
        html! {
            @if low < 10_f64.powf(self.low) { i.a.(class) { "◂" } }
            @if high > 10_f64.powf(self.high) { i.a.h.(class) { "▸" } }
        }
    }

    /// Each power of ten with its label.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let decades = self.low as i32..=self.high as i32;
        let value = |decade: i32| 10_f64.powi(decade);
        decades.map(|decade| (value(decade), crate::plot::tick(self.unit, value(decade)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_equally_wide() {
        let ruler = Ruler::over([3.0, 4e6].into_iter(), (1.0, 1e3), Unit::Nanoseconds);
        assert_eq!([1.0, 10.0, 1e7].map(|ns| ruler.place(ns)), [0.0, 14.3, 100.0]);
        assert_eq!(ruler.ticks()[3].1, "1 µs");
        assert_eq!(ruler.span((10.0, 100.0)), "left:14.3%;width:14.3%");
    }

    #[test]
    fn a_range_that_leaves_the_axis_ends_in_arrows() {
        let ruler = Ruler::over([3.0, 4e4].into_iter(), (1.0, 1e3), Unit::Nanoseconds);
        let arrows = |ends| {
            let shown = ruler.arrows(ends, "i").into_string();
            ['◂', '▸'].map(|arrow| shown.contains(arrow))
        };
        assert_eq!(arrows((1.0, 1e5)), [false, false]);
        assert_eq!(arrows((0.5, 2.0)), [true, false]);
        assert_eq!(arrows((2.0, 1e9)), [false, true]);
    }

    #[test]
    fn what_is_no_number_breaks_no_axis() {
        let wild = [f64::INFINITY, -1.0, 0.0, 1e308, f64::MIN_POSITIVE];
        let ruler = Ruler::over(wild.into_iter(), (1.0, 1e3), Unit::Nanoseconds);
        assert!(ruler.ticks().len() <= DECADES as usize + 1);
        for value in wild {
            assert!((0.0..=100.0).contains(&ruler.place(value)), "{value}");
        }
    }
}
