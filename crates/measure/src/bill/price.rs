//! What counted items cost: `prices.toml` says by which rows, and a machine's rows say how much.
//!
//! A bill is a sum of rows, each so many times, so that a row which many items share counts once in the interval.

mod list;
mod tally;

pub use tally::{Tallied, calls, requests, tally, waits};

use costof_model::expression::Value;
use costof_model::priced::{Class, ClassTime, Elsewhere, PricedItem, Saving};
use costof_model::timing::Estimate;
use costof_model::unit::grouped;
use costof_model::{Point, Unit};
use list::SavingText;
use std::collections::{BTreeMap, BTreeSet};

/// Items that take less than this share of the CPU time are not worth a measurement.
const WORTH_MEASURING: f64 = 0.01;
/// Savings below this share of the time are not worth a change.
const WORTH_SAVING: f64 = 0.02;
/// What a call of unknown price is taken for when it is decided what to measure, nanoseconds.
const ROUGHLY_NS: f64 = 1_000.0;
/// The same of starting a process or a thread, and of making data durable.
const ROUGHLY_LONG_NS: f64 = 50_000.0;

/// A metric of a point, which is a time or a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// The metric's name.
    pub metric: String,
    /// Its unit: a time, or a rate.
    pub unit: Unit,
    /// An operation takes up to this share more or less in another program than in costof's loop.
    off: f64,
}

/// The rows of prices and what they are for.
pub struct PriceList {
    rows: Vec<Row>,
    entry: usize,
    prices: Vec<Price>,
    savings: Vec<SavingRule>,
}

struct Price {
    items: Vec<String>,
    class: Class,
    /// Rows at sizes in bytes.
    cost: Vec<(f64, usize)>,
    of: f64,
    entries: f64,
    less: Vec<(f64, usize)>,
    copies: bool,
}

struct SavingRule {
    text: SavingText,
    below: Option<f64>,
    merged: Option<f64>,
    now: Option<usize>,
    cost: Option<usize>,
}

/// The values of a list's rows on a machine, in nanoseconds: of each, if it has one, and whether it is measured.
pub struct Values(Vec<Option<Value>>);

/// Rows, each so many times: those of one machine have a value together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sum(BTreeMap<usize, f64>);

/// What an item costs.
struct Costs {
    class: Option<Class>,
    entry: Sum,
    copies: Sum,
    rest: Sum,
}

impl PriceList {
    /// The points that these items need, however little they take, where nothing is known yet.
    pub fn needed(&self, items: &[Tallied]) -> Vec<Point> {
        self.missing(items, &self.values(|_| None), 0.0)
    }

    /// The values of its rows, from what a machine's are in their own units; measured ones, or ranges that are predicted.
    pub fn values(&self, find: impl FnMut(&Row) -> Option<Value>) -> Values {
        let found = self.rows.iter().map(find);
        Values(found.zip(&self.rows).map(|(value, row)| nanoseconds(value?, row.unit)).collect())
    }

    /// The same in another program than costof's loop: measured ones may be off by so much more.
    pub fn in_a_program(&self, values: &Values) -> Values {
        let widened = |(value, row): (&Option<Value>, &Row)| match value {
            Some(Value::Measured(middle, Some((low, high)))) => {
                let off = row.off * middle;
                let ends =
                    (middle - (middle - low).hypot(off), middle + (high - middle).hypot(off));
                Some(Value::Measured(*middle, Some(ends)))
            }
            other => *other,
        };
        Values(values.0.iter().zip(&self.rows).map(widened).collect())
    }

    /// The points that these items need, those that matter most first, of which the values have no measured one.
    pub fn missing(&self, items: &[Tallied], values: &Values, cpu_ns: f64) -> Vec<Point> {
        let mut wanted: BTreeMap<usize, f64> = BTreeMap::new();
        let mut want = |row: usize, ns: f64| *wanted.entry(row).or_default() += ns;
        for item in items {
            let Some(price) = self.price(&item.key) else {
                continue;
            };
            let rows = price.rows_at(item.size());
            let roughly_ns = roughly_ns(price.class);
            // The whole row: what is less a part of it may seem to be nothing as long as it is predicted.
            let roughly = match values.get(price.at(item.size(), item.done() / price.of)) {
                Some(estimate) => estimate.value.max(roughly_ns * item.done() / 10.0),
                None => roughly_ns * item.done(),
            };
            rows.chain(price.less.iter().map(|(_, row)| *row)).for_each(|row| want(row, roughly));
        }
        want(self.entry, cpu_ns);
        for rule in &self.savings {
            let of: Vec<&Tallied> = items.iter().filter(|item| rule.fits(item)).collect();
            let class = |item: &Tallied| self.price(&item.key).map_or(Class::Entry, |it| it.class);
            let roughly: f64 = of.iter().map(|item| roughly_ns(class(item)) * item.count).sum();
            let rows = rule.now.into_iter().chain(rule.cost);
            let prices = of.iter().filter_map(|item| self.price(&item.key));
            let merged = prices.flat_map(|price| rule.merged.map(|bytes| price.rows_at(bytes)));
            let merged: BTreeSet<usize> = merged.flatten().collect();
            // Prices come first.
            rows.chain(merged).for_each(|row| want(row, roughly / 10.0));
        }
        let is_measured = |row: usize| matches!(values.0[row], Some(Value::Measured(..)));
        let mut wanted: Vec<(usize, f64)> = wanted.into_iter().collect();
        wanted.retain(|(row, ns)| *ns >= WORTH_MEASURING * cpu_ns && !is_measured(*row));
        wanted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let mut points: Vec<Point> = Vec::new();
        for (row, _) in wanted {
            if !points.contains(&self.rows[row].point) {
                points.push(self.rows[row].point.clone());
            }
        }
        points
    }

    /// The items with their prices, the longest time first; their classes likewise; and the sum of all.
    ///
    /// # Errors
    /// If entering the kernel has no price.
    pub fn items(
        &self,
        items: &[Tallied],
        values: &Values,
    ) -> Result<(Vec<PricedItem>, Vec<ClassTime>, Estimate), String> {
        if values.0[self.entry].is_none() {
            return Err(format!(
                "no price for entering the kernel: {}",
                self.rows[self.entry].point
            ));
        }
        let mut all = Sum::default();
        let mut classes: BTreeMap<Class, (f64, f64, Sum)> = BTreeMap::new();
        let mut priced = Vec::new();
        for item in items {
            let costs = self.costs(item, values);
            let mut add = |class, count: f64, bytes: f64, sum: &Sum| {
                if !sum.0.is_empty() {
                    let of: &mut (f64, f64, Sum) = classes.entry(class).or_default();
                    (of.0, of.1) = (of.0 + count, of.1 + bytes);
                    of.2.add(sum, 1.0);
                }
            };
            add(Class::Entry, item.count, 0.0, &costs.entry);
            add(Class::Copies, item.count, item.bytes, &costs.copies);
            if let Some(class) = costs.class {
                add(class, item.count, 0.0, &costs.rest);
            }
            let whole = costs.whole();
            all.add(&whole, 1.0);
            let Some(time_ns) = values.get(whole).filter(|_| item.count > 0.0) else {
                continue;
            };
            priced.push(PricedItem {
                name: item.name(),
                key: (item.key.clone(), item.class),
                class: costs.class,
                count: item.count,
                errors: item.errors,
                bytes: item.bytes,
                each_ns: time_ns.times(item.count.recip()),
                time_ns,
            });
        }
        priced.sort_by(|one, other| other.time_ns.value.total_cmp(&one.time_ns.value));
        let classes = classes.into_iter().filter_map(|(class, (count, bytes, sum))| {
            Some(ClassTime { class, count, bytes, time_ns: values.get(sum)? })
        });
        let mut classes: Vec<ClassTime> = classes.collect();
        classes.sort_by(|one, other| other.time_ns.value.total_cmp(&one.time_ns.value));
        let all = values.get(all).expect("each part of it has a value");
        Ok((priced, classes, all))
    }

    /// What would take less by measured prices, the largest saving first: at least two per cent of the time, for certain
    /// above zero, and no more waiting than there is.
    pub fn savings(
        &self,
        items: &[Tallied],
        values: &Values,
        (cpu_ns, waiting_ns): (f64, f64),
    ) -> Vec<Saving> {
        let values = &values.measured();
        let saving = |rule: &SavingRule| {
            let mut saved = Sum::default();
            let of: Vec<&Tallied> = items.iter().filter(|item| rule.fits(item)).collect();
            for item in &of {
                // Those that failed would fail as well.
                let done = Tallied { count: item.done(), errors: 0.0, ..(*item).clone() };
                let merged = rule.merged.map(|bytes| {
                    let merged = Tallied { count: item.bytes / bytes, ..done.clone() };
                    self.costs(&merged, values)
                });
                // Without a price, it would cost its entry alone.
                if merged.as_ref().is_some_and(|costs| costs.class.is_none()) {
                    continue;
                }
                let now = match rule.now {
                    Some(row) => Sum::of(row, done.count),
                    None => self.costs(&done, values).whole(),
                };
                saved.add(&now, 1.0);
                if let Some(row) = rule.cost {
                    saved.add(&Sum::of(row, done.count / rule.text.of), -1.0);
                }
                if let Some(costs) = merged {
                    saved.add(&costs.whole(), -1.0);
                }
            }
            let Estimate { value, low, high } = values.get(saved)?;
            let most = if rule.text.waits { waiting_ns } else { f64::INFINITY };
            let saves_ns =
                Estimate { value: value.min(most), low: low.min(most), high: high.min(most) };
            let count: f64 = of.iter().map(|item| item.done()).sum();
            (low > 0.0 && saves_ns.value >= WORTH_SAVING * (cpu_ns + waiting_ns)).then(|| Saving {
                what: rule.text.what.clone(),
                of: format!("{} × {}", grouped(&format!("{count:.0}")), names(&of)),
                assumes: rule.text.assumes.clone(),
                saves_ns,
                is_waiting: rule.text.waits,
            })
        };
        let mut savings: Vec<Saving> = self.savings.iter().filter_map(saving).collect();
        savings.sort_by(|one, other| other.saves_ns.value.total_cmp(&one.saves_ns.value));
        savings
    }

    /// The same items at the values of another machine, by measured prices; `None` if no item has prices of both.
    pub fn elsewhere(
        &self,
        items: &[Tallied],
        (here, there): (&Values, &Values),
        kernel_ns: f64,
        (machine, from): (String, String),
    ) -> Option<Elsewhere> {
        let (here, there) = (&here.measured(), &there.measured());
        let (mut all, mut classes) = (Sum::default(), BTreeMap::<Class, Sum>::new());
        for item in items {
            let costs = self.costs(item, here);
            if there.get(costs.whole()).is_none() {
                continue;
            }
            all.add(&costs.whole(), 1.0);
            let rest = costs.class.map(|class| (class, &costs.rest));
            let parts = [(Class::Entry, &costs.entry), (Class::Copies, &costs.copies)];
            for (class, sum) in parts.into_iter().chain(rest) {
                classes.entry(class).or_default().add(sum, 1.0);
            }
        }
        let (now, then) = (here.get(all.clone())?, there.get(all)?);
        let value = then.value / now.value;
        // Both are measured by themselves.
        let off = |this: f64, other: f64| {
            let [this, other] = [this / then.value - 1.0, other / now.value - 1.0];
            value * this.hypot(other)
        };
        let ratio = Estimate {
            value,
            low: (value - off(then.low, now.high)).max(0.0),
            high: value + off(then.high, now.low),
        };
        let less = classes.into_iter().filter_map(|(class, sum)| {
            Some((class, here.get(sum.clone())?.value - there.get(sum)?.value))
        });
        let mut less_ns: Vec<(Class, f64)> = less.filter(|(_, ns)| *ns != 0.0).collect();
        less_ns.sort_by(|(_, one), (_, other)| other.abs().total_cmp(&one.abs()));
        // A time that is too short may have been found outside the kernel alone.
        let share = now.value / kernel_ns.max(now.value);
        value.is_finite().then_some(Elsewhere { machine, from, ratio, share, less_ns })
    }

    /// Where the values of these items' rows come from.
    pub fn used(&self, items: &[Tallied], values: &Values) -> Vec<&Row> {
        let mut used = Sum::default();
        items.iter().for_each(|item| used.add(&self.costs(item, values).whole(), 1.0));
        used.0.keys().map(|row| &self.rows[*row]).collect()
    }

    fn price(&self, key: &str) -> Option<&Price> {
        self.prices.iter().find(|price| price.items.iter().any(|item| item == key))
    }

    /// What an item costs; only the entry if its price has no value.
    fn costs(&self, item: &Tallied, values: &Values) -> Costs {
        let costs = self.price(&item.key).map(|price| self.costs_by(price, item, values));
        costs.filter(|costs| values.get(costs.whole()).is_some()).unwrap_or_else(|| Costs {
            class: None,
            entry: Sum::of(self.entry, item.entries() * item.count),
            copies: Sum::default(),
            rest: Sum::default(),
        })
    }

    /// A call that failed costs its entry; what it did before is not known.
    fn costs_by(&self, price: &Price, item: &Tallied, values: &Values) -> Costs {
        let done = item.done();
        let each = done / price.of;
        let mut rest = price.at(price.cost[0].0, each);
        let own = item.entries();
        rest.add(&Sum::of(self.entry, (own + price.entries) * done), -1.0);
        for (times, row) in price.less.iter().filter(|(_, row)| values.0[*row].is_some()) {
            rest.add(&Sum::of(*row, times * done), -1.0);
        }
        let mut grows = price.at(item.size(), each);
        grows.add(&price.at(price.cost[0].0, each), -1.0);
        let copies = match price.copies {
            true => grows,
            false => {
                rest.add(&grows, 1.0);
                Sum::default()
            }
        };
        Costs {
            class: Some(price.class),
            entry: Sum::of(self.entry, own * item.count),
            copies,
            rest,
        }
    }
}

impl Costs {
    fn whole(&self) -> Sum {
        let mut whole = self.entry.clone();
        whole.add(&self.copies, 1.0);
        whole.add(&self.rest, 1.0);
        whole
    }
}

impl Price {
    /// So many operations of this size. Sizes lie on a line between two rows, below the first one cost what it costs, and
    /// beyond the last one cost in proportion.
    fn at(&self, size: f64, count: f64) -> Sum {
        let after = self.cost.iter().position(|(at, _)| size <= *at);
        let last = self.cost.len() - 1;
        let mut sum = Sum::default();
        match after {
            Some(0) => sum.add(&Sum::of(self.cost[0].1, count), 1.0),
            Some(next) => {
                let [(low, one), (high, other)] = [self.cost[next - 1], self.cost[next]];
                let share = (size - low) / (high - low);
                sum.add(&Sum::of(one, count * (1.0 - share)), 1.0);
                sum.add(&Sum::of(other, count * share), 1.0);
            }
            None if last == 0 => sum.add(&Sum::of(self.cost[0].1, count), 1.0),
            None => sum.add(&Sum::of(self.cost[last].1, count * size / self.cost[last].0), 1.0),
        }
        sum
    }

    fn rows_at(&self, size: f64) -> impl Iterator<Item = usize> {
        let first = Sum::of(self.cost[0].1, 1.0);
        let mut rows = self.at(size, 1.0);
        rows.add(&first, 1.0);
        rows.0.into_keys()
    }
}

impl SavingRule {
    fn fits(&self, item: &Tallied) -> bool {
        let is_small = self.below.is_none_or(|below| item.size() < below && item.bytes > 0.0);
        is_small && self.text.items.contains(&item.key)
    }
}

impl Sum {
    fn of(row: usize, times: f64) -> Sum {
        match times {
            0.0 => Sum::default(),
            times => Sum(BTreeMap::from([(row, times)])),
        }
    }

    fn add(&mut self, other: &Sum, times: f64) {
        for (row, count) in &other.0 {
            *self.0.entry(*row).or_default() += count * times;
        }
        // What cancels out has no part in the interval, and needs no value.
        self.0.retain(|_, count| count.abs() > 1e-9);
    }
}

impl Values {
    /// Those that are measured.
    fn measured(&self) -> Values {
        let is_measured = |value: &Value| matches!(value, Value::Measured(..));
        Values(self.0.iter().map(|value| value.filter(is_measured)).collect())
    }

    /// The value of a sum; `None` if one of its rows has none. Measured rows are independent of each other (MOVER: Zou
    /// and Donner, Statistics in Medicine 27, 2008), predicted ones all at their worst ends at once. No time is below zero.
    fn get(&self, sum: Sum) -> Option<Estimate> {
        let (mut value, mut worst, mut apart) = (0.0, [0.0; 2], [0.0_f64; 2]);
        for (row, times) in sum.0 {
            let known = self.0[row]?;
            let (middle, (low, high)) = (known.middle(), known.ends()?);
            value += times * middle;
            let ends = if times >= 0.0 { [low, high] } else { [high, low] };
            for (end, known_end) in ends.into_iter().enumerate() {
                let off = (times * (known_end - middle)).abs();
                match known {
                    Value::Measured(..) => apart[end] = apart[end].hypot(off),
                    Value::Predicted(..) => worst[end] += off,
                }
            }
        }
        let [low, high] = [value - worst[0] - apart[0], value + worst[1] + apart[1]];
        Some(Estimate { value: value.max(0.0), low: low.max(0.0), high: high.max(0.0) })
    }
}

fn roughly_ns(class: Class) -> f64 {
    match class {
        Class::Processes | Class::Durable => ROUGHLY_LONG_NS,
        _ => ROUGHLY_NS,
    }
}

/// The names of some of these.
fn names(items: &[&Tallied]) -> String {
    let mut keys: Vec<&str> = items.iter().map(|item| &*item.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.join(", ")
}

/// A value in this unit as nanoseconds; `None` of what is no time.
fn nanoseconds(value: Value, unit: Unit) -> Option<Value> {
    let inverse = |rate: f64| 1e9 / rate;
    match (unit, value) {
        (Unit::Nanoseconds, value) => Some(value),
        (Unit::Hertz, Value::Measured(rate, ends)) if rate > 0.0 => {
            let ends = ends.map(|(low, high)| (inverse(high), inverse(low)));
            Some(Value::Measured(inverse(rate), ends))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
