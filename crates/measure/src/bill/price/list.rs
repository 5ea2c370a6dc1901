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
    cost: CostText,
    #[serde(default = "one")]
    of: f64,
    #[serde(default = "one")]
    entries: f64,
    #[serde(default)]
    less: Vec<(f64, RowText)>,
    #[serde(default)]
    copies: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavingText {
    pub(super) what: String,
    pub(super) items: Vec<String>,
    #[serde(default)]
    below: Option<String>,
    #[serde(default)]
    merged: Option<String>,
    #[serde(default)]
    now: Option<String>,
    #[serde(default)]
    cost: Option<String>,
    #[serde(default)]
    metric: Option<String>,
    #[serde(default = "one")]
    pub(super) of: f64,
    #[serde(default)]
    pub(super) waits: bool,
    pub(super) assumes: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CostText {
    Row(String),
    Rows(Vec<SizedText>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizedText {
    #[serde(default)]
    size: Option<String>,
    row: String,
    #[serde(default)]
    metric: Option<String>,
}

/// A row, and its metric if that is not the one that answers the probe's question.
#[derive(Deserialize)]
#[serde(untagged)]
enum RowText {
    Row(String),
    Metric { row: String, metric: String },
}

fn one() -> f64 {
    1.0
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
        let entry = rows.add(&file.entry, None)?;
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
    fn add(&mut self, text: &str, metric: Option<&str>) -> Result<usize, String> {
        let expression = Expression::parse(text, self.infos)?;
        let [point] = &expression.points[..] else {
            return Err(format!("`{text}` is not one row"));
        };
        let info = self.infos.iter().find(|info| info.id == point.probe);
        let info = info.ok_or_else(|| format!("{}: no such probe", point.probe))?;
        let metric = match metric {
            None => info.primary(),
            Some(name) => info
                .metrics
                .iter()
                .find(|metric| metric.name == name)
                .ok_or_else(|| format!("{}: no metric {name}", point.probe))?,
        };
        let row = Row { point: point.clone(), metric: metric.name.to_string(), unit: metric.unit };
        let at = self.rows.iter().position(|known| *known == row);
        Ok(at.unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        }))
    }

    fn price(&mut self, text: PriceText) -> Result<Price, String> {
        let rows = match text.cost {
            CostText::Row(row) => vec![SizedText { size: None, row, metric: None }],
            CostText::Rows(rows) => rows,
        };
        let cost = rows.iter().map(|row| {
            let size = match &row.size {
                Some(size) => parse_bytes(size).ok_or_else(|| format!("`{size}` is no size"))?,
                None => 0,
            };
            Ok((size as f64, self.add(&row.row, row.metric.as_deref())?))
        });
        let cost: Vec<(f64, usize)> = cost.collect::<Result<_, String>>()?;
        if cost.is_empty() || !cost.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Err(format!("{}: sizes do not grow", text.items.join(", ")));
        }
        let less = text.less.iter().map(|(times, row)| {
            let row = match row {
                RowText::Row(row) => self.add(row, None),
                RowText::Metric { row, metric } => self.add(row, Some(metric)),
            };
            Ok((*times, row?))
        });
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
        let now = text.now.as_deref().map(|row| self.add(row, None)).transpose()?;
        let cost = text.cost.as_deref().map(|row| self.add(row, text.metric.as_deref()));
        let (below, merged) = (size(&text.below), size(&text.merged));
        Ok(SavingRule { below, merged, now, cost: cost.transpose()?, text })
    }
}
