//! Reads `prices.toml`: which rows items cost.

use super::{Price, PriceList, Row, SavingRule};
use costof_model::ProbeInfo;
use costof_model::expression::Expression;
use costof_model::priced::Class;
use costof_model::unit::parse_bytes;
use serde::Deserialize;

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: String,
    price: Vec<PriceText>,
    saving: Vec<SavingText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceText {
    items: Vec<String>,
    class: Class,
    cost: Vec<(String, String)>,
    #[serde(default = "one")]
    of: f64,
    #[serde(default)]
    entries: f64,
    #[serde(default)]
    less: Vec<(f64, String)>,
    #[serde(default)]
    copies: bool,
    #[serde(default = "usual_off")]
    off: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavingText {
    pub(super) what: String,
    pub(super) items: Vec<String>,
    below: Option<String>,
    merged: Option<String>,
    now: Option<String>,
    cost: Option<String>,
    #[serde(default = "one")]
    pub(super) of: f64,
    #[serde(default)]
    pub(super) waits: bool,
    pub(super) assumes: String,
}

fn one() -> f64 {
    1.0
}

/// What tools/bill-truths shows.
fn usual_off() -> f64 {
    0.1
}

impl PriceList {
    /// The list, for probes that these describe.
    ///
    /// # Panics
    /// If the file names a row that no probe has: a test reads it.
    pub fn new(infos: &[&ProbeInfo]) -> PriceList {
        PriceList::parse(include_str!("../prices.toml"), infos).expect("a test reads the file")
    }

    pub(super) fn parse(text: &str, infos: &[&ProbeInfo]) -> Result<PriceList, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut rows = Rows { infos, rows: Vec::new() };
        let entry = rows.add(&file.entry)?;
        let prices = file.price.into_iter().map(|text| rows.price(text));
        let prices = prices.collect::<Result<_, String>>()?;
        let savings = file.saving.into_iter().map(|text| rows.saving(text));
        let savings = savings.collect::<Result<_, String>>()?;
        Ok(PriceList { rows: rows.rows, entry, prices, savings })
    }
}

/// Collects the rows of a list, each once.
struct Rows<'i> {
    infos: &'i [&'i ProbeInfo],
    rows: Vec<Row>,
}

impl Rows<'_> {
    /// The place of a row, with the metric after it if that is not the one that answers the probe's question.
    fn add(&mut self, text: &str) -> Result<usize, String> {
        let end = text.find(')').map_or(text.len(), |end| end + 1);
        let (row, metric) = text.split_at(end);
        let expression = Expression::parse(row, self.infos)?;
        let [point] = &expression.points[..] else {
            return Err(format!("`{text}` is not one row"));
        };
        let info = self.infos.iter().find(|info| info.id == point.probe);
        let info = info.ok_or_else(|| format!("{}: no such probe", point.probe))?;
        let of = match metric.trim() {
            "" => info.primary(),
            name => info
                .metrics
                .iter()
                .find(|metric| metric.name == name)
                .ok_or_else(|| format!("{}: no metric {name}", point.probe))?,
        };
        let (point, metric) = (point.clone(), of.name.to_string());
        let row = Row { point, metric, unit: of.unit, off: usual_off() };
        let at = self
            .rows
            .iter()
            .position(|known| (&known.point, &known.metric) == (&row.point, &row.metric));
        Ok(at.unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        }))
    }

    fn price(&mut self, text: PriceText) -> Result<Price, String> {
        let cost = text.cost.iter().map(|(size, row)| {
            let size = parse_bytes(size).ok_or_else(|| format!("`{size}` is no size"))?;
            Ok((size as f64, self.add(row)?))
        });
        let cost: Vec<(f64, usize)> = cost.collect::<Result<_, String>>()?;
        if cost.is_empty() || !cost.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(format!("{}: sizes do not grow", text.items.join(", ")));
        }
        for (_, row) in &cost {
            self.rows[*row].off = self.rows[*row].off.max(text.off);
        }
        let less = text.less.iter().map(|(times, row)| Ok((*times, self.add(row)?)));
        Ok(Price {
            cost,
            less: less.collect::<Result<_, String>>()?,
            items: text.items,
            class: text.class,
            of: text.of,
            entries: text.entries,
            copies: text.copies,
        })
    }

    fn saving(&mut self, text: SavingText) -> Result<SavingRule, String> {
        let size =
            |size: &Option<String>| size.as_deref().and_then(parse_bytes).map(|it| it as f64);
        let now = text.now.as_deref().map(|row| self.add(row)).transpose()?;
        let cost = text.cost.as_deref().map(|row| self.add(row));
        let (below, merged) = (size(&text.below), size(&text.merged));
        Ok(SavingRule { below, merged, now, cost: cost.transpose()?, text })
    }
}
