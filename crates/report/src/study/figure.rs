//! The figures of a study, each with the point and the metric of costof that measure the same.

use super::file::{Column, Common, Row, Study, Table, Value};
use super::unit::{Published, as_published};
use costof_model::{Axes, Axis, Domain, Point, ProbeInfo, Text, Unit, nearest};
use toml::Spanned;

/// The metric of cycles that were not counted.
pub(super) const ESTIMATED_CYCLES: &str = "estimated_core_cycles";

/// Metrics that are derived from others, or that only some CPUs can count.
pub(super) const MADE: [&str; 2] = ["cycles", ESTIMATED_CYCLES];

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// What it is about, in the words of the publication.
    pub(super) name: String,
    pub(super) predicted: Stated,
    pub(super) measured: Stated,
    pub(super) unit: Option<Published>,
    /// What costof compares it with, or why it compares it with nothing.
    pub(super) against: Result<Against, String>,
    pub(super) misled: Option<String>,
    pub(super) notes: Vec<String>,
}

/// What the publication states.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stated {
    Nothing,
    Words(String),
    /// A range; both ends are the same if it is one number.
    Range(f64, f64),
}

/// The measurement of costof that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Against {
    /// With a value for every axis. If there is a label, only with the values that the study gives.
    pub(super) point: Point,
    /// Axes on which a run's point may have any value.
    pub(super) open: Vec<Text>,
    pub(super) label: Option<String>,
    /// Why a machine may have no row with this label.
    pub(super) because: Option<String>,
    pub(super) metric: Option<Text>,
    /// The point that it is divided by.
    pub(super) per: Option<Point>,
    pub(super) of: Of,
    pub(super) times: Option<f64>,
    pub(super) seconds: Option<f64>,
    pub(super) bytes: Option<f64>,
    /// Whether its size, which is open, is one of which caches hold little.
    pub(super) beyond_caches: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Of {
    Median,
    Mean,
    Deviation,
    Least,
    Percentile(f64),
}

/// The state of reading: the table, and what applies to the current figure.
pub(super) struct Reading<'a> {
    pub(super) study: &'a Study,
    pub(super) at: &'a Spanned<String>,
    /// From the nearest to the figure to the farthest.
    pub(super) scopes: Vec<&'a Common>,
}

impl Study {
    /// The figures, table by table.
    ///
    /// # Errors
    /// A sentence with the line and the key, if a value names no known probe, axis, metric or unit.
    pub(super) fn figures(&self, infos: &[&ProbeInfo]) -> Result<Vec<Vec<Figure>>, String> {
        self.tables
            .iter()
            .map(|table| {
                let rows = table.rows.iter();
                let figures = rows.map(|row| self.row(table, row, infos));
                Ok(figures.collect::<Result<Vec<_>, String>>()?.concat())
            })
            .collect()
    }

    pub(super) fn row(
        &self,
        table: &Table,
        row: &Row,
        infos: &[&ProbeInfo],
    ) -> Result<Vec<Figure>, String> {
        let columns: Vec<Option<&Column>> = match table.columns.as_slice() {
            [] => vec![None],
            columns => columns.iter().map(Some).collect(),
        };
        let stated_at = |value: &Option<Value>, key: &str, at: usize| {
            match (value, columns[0]) {
                (None, _) => Ok(Stated::Nothing),
                (Some(value), None) => stated(value),
                // All columns may share one text that is not a number.
                (Some(Value::Words(words)), Some(_)) => Ok(Stated::Words(words.clone())),
                (Some(Value::Several(values)), Some(_)) if values.len() == columns.len() => {
                    stated(&values[at])
                }
                _ => Err(format!(
                    "a table with columns needs a list of {} values here, one for each column",
                    columns.len()
                )),
            }
            .map_err(|what| self.wrong(&row.name, key, &what))
        };
        let mut figures = Vec::new();
        for (position, column) in columns.iter().enumerate() {
            let of_column = column.map(|column| &column.common);
            let scopes = [&row.common].into_iter().chain(of_column);
            let reading = Reading {
                study: self,
                at: &row.name,
                scopes: scopes.chain([&table.common]).collect(),
            };
            let (unit, against) = reading.against(infos)?;
            let words = |key: fn(&Common) -> &Option<String>| -> Vec<String> {
                // Notes about the whole table are printed once below it.
                let nearer = &reading.scopes[..reading.scopes.len() - 1];
                nearer.iter().filter_map(|said| key(said).clone()).collect()
            };
            figures.push(Figure {
                name: match column {
                    Some(column) => format!("{}: {}", row.name.get_ref(), column.name.get_ref()),
                    None => row.name.get_ref().clone(),
                },
                predicted: stated_at(&row.predicted, "predicted", position)?,
                measured: stated_at(&row.measured, "measured", position)?,
                unit,
                against,
                misled: Some(words(|said| &said.misled).join(" "))
                    .filter(|words| !words.is_empty()),
                notes: words(|said| &said.note),
            });
        }
        Ok(figures)
    }
}

fn stated(value: &Value) -> Result<Stated, String> {
    match value {
        Value::Number(number) => Ok(Stated::Range(*number, *number)),
        Value::Words(words) => Ok(Stated::Words(words.clone())),
        Value::Several(ends) => match ends.as_slice() {
            [Value::Number(low), Value::Number(high)] if low < high => {
                Ok(Stated::Range(*low, *high))
            }
            _ => Err("a range is two numbers, the lower one first".to_owned()),
        },
    }
}

impl Reading<'_> {
    fn wrong(&self, key: &str, what: impl AsRef<str>) -> String {
        self.study.wrong(self.at, key, what.as_ref())
    }

    fn nearest<T>(&self, key: impl Fn(&Common) -> Option<T>) -> Option<T> {
        self.scopes.iter().find_map(|said| key(said))
    }

    /// The unit of the figure, and the measurement to compare it with.
    fn against(
        &self,
        infos: &[&ProbeInfo],
    ) -> Result<(Option<Published>, Result<Against, String>), String> {
        let unit = self.nearest(|said| said.unit.clone());
        let unit = unit
            .map(|unit| Published::parse(&unit).map_err(|what| self.wrong("unit", what)))
            .transpose()?;
        if let Some(why) = self.nearest(|said| said.absent.clone()) {
            return Ok((unit, Err(why)));
        }
        let (info, point) = self.point(infos)?;
        let of = self.nearest(|said| said.of.clone());
        let of = of.or_else(|| self.study.of.clone());
        let of = of.map_or(Ok(Of::Median), |of| Of::parse(&of));
        let mut open = open_places(info, &point);
        let beyond_caches = self.nearest(|said| said.beyond_caches).unwrap_or(false);
        if beyond_caches {
            let size = info.axis("size").map_err(|what| self.wrong("beyond_caches", what))?;
            open.push(size.name.clone());
        }
        let against = Against {
            label: self.nearest(|said| said.label.clone()),
            because: self.nearest(|said| said.because.clone()),
            metric: self.metric(info)?,
            per: self.per(info, &point)?,
            of: of.map_err(|what| self.wrong("of", what))?,
            times: self.positive("times", |said| said.times)?,
            seconds: self.positive("seconds", |said| said.seconds)?,
            bytes: self.positive("bytes", |said| said.bytes)?,
            beyond_caches,
            open,
            point,
        };
        let unit = unit.ok_or_else(|| self.wrong("unit", "it is missing here and in the table"))?;
        if against.per.is_some() {
            let is_ratio = unit.is_ratio();
            let what = "the unit of a ratio is `×`, or `%` for a difference";
            is_ratio.then_some(()).ok_or_else(|| self.wrong("unit", what))?;
            return Ok((Some(unit), Ok(against)));
        }
        if against.of == Of::Deviation && against.bytes.is_some() {
            let what =
                "`bytes` converts a rate to a time, and a standard deviation cannot be converted";
            return Err(self.wrong("of", what));
        }
        let is_asked = |name: &Text| against.metric.as_ref().is_none_or(|asked| asked == name);
        let metrics = info.metrics.iter().filter(|metric| is_asked(&metric.name));
        let may_be_cycles = against.metric.as_deref().is_none_or(|name| MADE.contains(&name));
        let mut units =
            metrics.map(|metric| metric.unit).chain(may_be_cycles.then_some(Unit::Cycles));
        let fits = |own| unit.from(own, against.times, against.bytes);
        if !units.clone().any(|own| fits(own).is_ok()) {
            let own = units.next().unwrap_or(Unit::One);
            let what = fits(own).err().unwrap_or_default();
            return Err(self.wrong("unit", what));
        }
        Ok((Some(unit), Ok(against)))
    }

    /// The point that the figure is divided by.
    fn per(&self, info: &ProbeInfo, point: &Point) -> Result<Option<Point>, String> {
        let Some(per) = self.nearest(|said| said.per.clone()) else {
            return Ok(None);
        };
        let mut other = point.clone();
        let mut link = None;
        set(info, per.split_whitespace(), &mut other.axes, &mut link)
            .map_err(|what| self.wrong("per", what))?;
        other.link = link.unwrap_or(other.link);
        Ok(Some(other))
    }

    fn positive(
        &self,
        key: &str,
        of: impl Fn(&Common) -> Option<f64>,
    ) -> Result<Option<f64>, String> {
        match self.nearest(of) {
            Some(number) if !(number > 0.0 && number.is_finite()) => {
                Err(self.wrong(key, format!("{number} is not a number above zero")))
            }
            number => Ok(number),
        }
    }

    fn metric(&self, info: &ProbeInfo) -> Result<Option<Text>, String> {
        let Some(name) = self.nearest(|said| said.metric.clone()) else {
            return Ok(None);
        };
        let known: Vec<&str> =
            info.metrics.iter().map(|metric| &*metric.name).chain(MADE).collect();
        if known.contains(&&*name) {
            return Ok(Some(name.into()));
        }
        let hint = nearest::hint(&name, known.iter().copied());
        let (id, metrics) = (&info.id, known.join(", "));
        let what = format!("{id} has no metric `{name}`{hint} (metrics: {metrics})");
        Err(self.wrong("metric", what))
    }

    /// The point that the table, the column and the row define together.
    pub(super) fn point<'i>(
        &self,
        infos: &[&'i ProbeInfo],
    ) -> Result<(&'i ProbeInfo, Point), String> {
        let Some(point) = self.nearest(|said| said.point.clone()) else {
            let what = "it is missing here and in the table; if there is no such point, say why in `absent`";
            return Err(self.wrong("point", what));
        };
        let mut words = point.split_whitespace();
        let id = words.next().unwrap_or_default();
        let Some(info) = infos.iter().find(|info| info.id == id) else {
            let hint = nearest::hint(id, infos.iter().map(|info| &*info.id));
            let what = format!("there is no probe `{id}`{hint} (`costof list` shows them all)");
            return Err(self.wrong("point", what));
        };
        let is_labelled = self.scopes.iter().any(|said| said.label.is_some());
        let mut axes = if is_labelled { Axes::default() } else { info.defaults() };
        let mut link = None;
        set(info, words, &mut axes, &mut link).map_err(|what| self.wrong("point", what))?;
        // Values that are nearer to the figure override those farther away.
        for said in self.scopes.iter().rev() {
            let words = said.at.iter().flat_map(|at| at.split_whitespace());
            set(info, words, &mut axes, &mut link).map_err(|what| self.wrong("at", what))?;
        }
        if link.is_some() && !info.needs_link() {
            let what = format!("{} has only one end, so it takes no link", info.id);
            return Err(self.wrong("point", what));
        }
        let default = if info.needs_link() { "loopback" } else { "none" };
        let point =
            Point { probe: info.id.clone(), axes, link: link.unwrap_or(Text::Borrowed(default)) };
        Ok((info, point))
    }
}

/// The axes of a point on which a study leaves the place to the run: the folder of the files, a file of another
/// machine.
pub(super) fn open_places(info: &ProbeInfo, point: &Point) -> Vec<Text> {
    let is_open = |axis: &&Axis| {
        let named = point.axes.0.get(&*axis.name);
        matches!(axis.domain, Domain::Place { .. }) && named == Some(&axis.default())
    };
    let open = info.axes.iter().filter(is_open);
    open.map(|axis| axis.name.clone()).collect()
}

/// Reads `axis=value` and `over LINK` from words.
fn set<'w>(
    info: &ProbeInfo,
    words: impl Iterator<Item = &'w str>,
    axes: &mut Axes,
    link: &mut Option<Text>,
) -> Result<(), String> {
    let mut words = words;
    while let Some(word) = words.next() {
        if word == "over" {
            let over = words.next().ok_or("`over` needs a link")?;
            let parsed: Result<costof_model::link::Link, String> = over.parse();
            *link = Some(parsed?.to_string().into());
            continue;
        }
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` is neither AXIS=VALUE nor `over LINK`"))?;
        let axis = info.axis(info.present_axis(name).unwrap_or(name))?;
        axes.0.insert(axis.name.clone(), axis.parse(value)?);
    }
    Ok(())
}

impl Of {
    /// What follows a number of it; nothing after a median.
    pub(super) fn said(self) -> String {
        match self {
            Of::Median => String::new(),
            Of::Mean => " (mean)".to_owned(),
            Of::Deviation => " (sd)".to_owned(),
            Of::Least => " (min)".to_owned(),
            Of::Percentile(percent) => format!(" (p{percent})"),
        }
    }

    fn parse(name: &str) -> Result<Of, String> {
        let percent = name.strip_prefix('p').and_then(|percent| percent.parse().ok());
        match (name, percent) {
            ("median", _) => Ok(Of::Median),
            ("mean", _) => Ok(Of::Mean),
            ("sd", _) => Ok(Of::Deviation),
            ("min", _) => Ok(Of::Least),
            (_, Some(percent)) if percent > 0.0 && percent < 100.0 => Ok(Of::Percentile(percent)),
            _ => Err(format!(
                "`{name}` is neither median, mean, sd, min nor a percentile such as p99"
            )),
        }
    }
}

impl Stated {
    /// The figure as it was published.
    pub(super) fn display(&self, unit: Option<Published>) -> String {
        let (space, symbol) = unit.map_or(("", ""), |unit| (unit.space(), unit.symbol));
        match self {
            Stated::Nothing => String::new(),
            Stated::Words(words) => words.clone(),
            Stated::Range(low, high) => {
                let shown = unit.map(|unit| unit.fitting(*low));
                let symbol = shown.map_or(symbol, |unit| unit.symbol);
                let in_shown = |value: f64| match (unit, shown) {
                    (Some(unit), Some(shown)) => unit.in_unit(shown, value),
                    _ => value,
                };
                let [from, to] = [*low, *high].map(|end| as_published(in_shown(end)));
                let range = if low == high { to } else { format!("{from} to {to}") };
                range + space + symbol
            }
        }
    }
}
