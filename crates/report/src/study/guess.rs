//! What a person predicts before a study is measured: the form to fill in, how it is read, and how far off the
//! predictions were.

use super::figure::{Figure, Of};
use super::file::Study;
use super::reproduction::{NONE, ReproducedTable};
use super::result::{Line, Numbers};
use super::unit::{Published, digits};
use crate::document::Part;
use crate::grid::Grid;
use crate::mechanism::Mechanism;
use crate::names::by_reason;
use costof_model::rows::Guess;
use costof_model::{Grade, ProbeInfo, nearest};
use costof_stats::median;

/// A prediction that is off by more than this factor gets a remark.
const FAR: f64 = 3.0;

/// A row that can be predicted.
#[derive(Clone, Debug)]
pub struct Blank {
    /// The title of its table.
    pub table: String,
    pub(super) row: String,
    pub(super) unit: Published,
}

impl Blank {
    /// The row, with the unit of the number to write: `getppid (ns)`.
    pub fn label(&self) -> String {
        match self.unit.symbol {
            "" => self.row.clone(),
            symbol => format!("{} ({symbol})", self.row),
        }
    }

    /// The prediction that a person wrote: a number, perhaps with another unit of the same quantity; `None` if
    /// nothing is written.
    ///
    /// # Errors
    /// It is no number above zero, or its unit measures something else.
    pub fn read(&self, text: &str) -> Result<Option<Guess>, String> {
        let text = text.trim();
        let is_of_number = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
        let end = text.find(|c| !is_of_number(c)).unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        if text.is_empty() {
            return Ok(None);
        }
        let number: Option<f64> = number.parse().ok();
        let Some(number) = number.filter(|number| *number > 0.0 && number.is_finite()) else {
            let unit = self.unit.symbol;
            return Err(format!(
                "`{text}` is not a number above zero, such as `12.5` or `12.5 {unit}`"
            ));
        };
        let value = match unit {
            "" => Some(number),
            // As keyboards write microseconds.
            "us" | "μs" => self.unit.converted(Published::parse("µs")?, number),
            unit => self.unit.converted(Published::parse(unit)?, number),
        };
        let value = value.ok_or_else(|| {
            format!("`{unit}` cannot be converted to `{}`, the unit of this row", self.unit.symbol)
        })?;
        if !(value.is_finite() && value > 0.0) {
            return Err(format!(
                "`{text}` is too large or too small for a row in `{}`",
                self.unit.symbol
            ));
        }
        Ok(Some(Guess {
            table: self.table.clone(),
            row: self.row.clone(),
            value,
            unit: self.unit.symbol.to_owned(),
        }))
    }
}

impl Figure {
    /// Whether a person can predict it: costof measures it, and a ratio to it means something.
    pub(super) fn predictable(&self) -> Option<Published> {
        let against = self.against.as_ref().ok()?;
        self.unit.filter(|_| against.per.is_none() && against.of != Of::Deviation)
    }
}

impl Study {
    /// The rows that can be predicted, in the order of the tables.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn blanks(&self, infos: &[&ProbeInfo]) -> Result<Vec<Blank>, String> {
        let mut blanks = Vec::new();
        let mut asked = Vec::new();
        for (table, figures) in self.tables.iter().zip(self.figures(infos)?) {
            for figure in figures {
                let unit = figure.predictable();
                // What several publications measured is asked once.
                if let (Some(unit), false) = (unit, asked.contains(&figure.against)) {
                    let table = table.title.get_ref().clone();
                    blanks.push(Blank { table, row: figure.name, unit });
                    asked.push(figure.against);
                }
            }
        }
        Ok(blanks)
    }

    /// The form in which a person writes predictions; `named` is the study on the command line.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn form(&self, infos: &[&ProbeInfo], named: &str) -> Result<String, String> {
        let (name, title) = (&self.name, &self.title);
        let mut text = format!(
            "# My predictions for `{name}`: {title}\n\
             # Write a number behind each `=`, in the unit in brackets or with its own (0.2 µs). Leave empty what you\n\
             # cannot predict. Then: costof study {named} --predictions THIS_FILE\n"
        );
        let mut table = String::new();
        for blank in self.blanks(infos)? {
            if blank.table != table {
                text += &format!("\n[{}]\n", blank.table);
                table.clone_from(&blank.table);
            }
            text += &format!("{} =\n", blank.label());
        }
        Ok(text)
    }

    /// The predictions in a form that is filled in; `place` is where its text comes from.
    ///
    /// # Errors
    /// A sentence with the line, if a line is not one of the form, or if no prediction is in it.
    pub fn guesses(
        &self,
        infos: &[&ProbeInfo],
        place: &str,
        text: &str,
    ) -> Result<Vec<Guess>, String> {
        let blanks = self.blanks(infos)?;
        let mut guesses: Vec<Guess> = Vec::new();
        let mut table = "";
        for (position, line) in text.lines().map(str::trim).enumerate() {
            let wrong = |what: String| format!("{place}, line {}: {what}", position + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let titles = || blanks.iter().map(|blank| &*blank.table);
                table = titles().find(|known| *known == title).ok_or_else(|| {
                    let hint = nearest::hint(title, titles());
                    wrong(format!("the study has no table `{title}`{hint}"))
                })?;
                continue;
            }
            let (label, number) = line
                .rsplit_once('=')
                .ok_or_else(|| wrong(format!("`{line}` is not `ROW (UNIT) = NUMBER`")))?;
            let label = label.trim();
            let of_table = || blanks.iter().filter(|blank| blank.table == table);
            let blank = of_table().find(|blank| blank.label() == label).ok_or_else(|| {
                if table.is_empty() {
                    return wrong(format!("`{label}` stands above the first `[TABLE]`"));
                }
                let labels: Vec<String> = of_table().map(Blank::label).collect();
                let hint = nearest::hint(label, labels.iter().map(|label| &**label));
                wrong(format!("the table `{table}` has no row `{label}`{hint}"))
            })?;
            if guesses.iter().any(|known| known.is_of(&blank.table, &blank.row)) {
                return Err(wrong(format!("`{label}` is there twice")));
            }
            guesses.extend(blank.read(number).map_err(wrong)?);
        }
        if guesses.is_empty() {
            return Err(format!("{place}: no number is filled in"));
        }
        Ok(guesses)
    }
}

/// By which factor each prediction of a row was off: below 1 if it was too low.
struct Score<'a> {
    line: &'a Line,
    you: (&'a Guess, f64),
    costof: Option<f64>,
    published: Option<f64>,
}

/// The ratio of a value, or of the nearer end of a range, to the result.
fn off((low, high): (f64, f64), here: f64) -> Option<f64> {
    let ratio = match here {
        _ if here < low => low / here,
        _ if here > high => high / here,
        _ => 1.0,
    };
    Some(ratio).filter(|ratio| *ratio > 0.0 && ratio.is_finite())
}

/// A ratio, with the orders of magnitude that it is off: `14.2 (+1)`.
fn shown(ratio: f64) -> String {
    match ratio.log10().round() {
        0.0 => format!("{} (0)", digits(ratio)),
        orders => format!("{} ({orders:+})", digits(ratio)),
    }
}

/// `14.2 times too high`
pub(super) fn too_far(ratio: f64) -> String {
    let (by, which) = if ratio > 1.0 { (ratio, "high") } else { (1.0 / ratio, "low") };
    format!("{} times too {which}", digits(by))
}

/// A prediction in the unit of its row, which a run with another version of the study may not have.
///
/// # Errors
/// It cannot be converted.
pub(super) fn in_unit(guess: &Guess, unit: Published) -> Result<f64, String> {
    let value =
        Published::parse(&guess.unit).ok().and_then(|from| unit.converted(from, guess.value));
    value.filter(|value| *value > 0.0 && value.is_finite()).ok_or_else(|| {
        format!(
            "{} {} cannot be converted to `{}`, the unit of this row",
            guess.value, guess.unit, unit.symbol
        )
    })
}

impl Line {
    /// Whether its number is no result.
    pub(super) fn is_doubtful(&self) -> bool {
        self.grade == Grade::D.to_string()
    }

    /// Why it costs what it does, or who says so.
    pub(super) fn reason(&self) -> String {
        self.why.clone().unwrap_or_else(|| {
            let probe = self.point.as_ref().map_or("PROBE", |point| &point.probe);
            let says = match Mechanism::of(probe) {
                Some(_) => "draws how it works",
                None => "says what is measured",
            };
            format!("`costof explain {probe}` {says}")
        })
    }

    /// The numbers that predictions are compared with; why not, if there are none.
    pub(super) fn scored(&self) -> Result<Numbers, String> {
        match self.numbers {
            Some(_) if self.is_doubtful() => {
                Err("grade D: disturbances may account for all of the number here".to_owned())
            }
            Some(numbers) if numbers.here > 0.0 => Ok(numbers),
            _ if self.has_number => Err("a ratio to the number here means nothing".to_owned()),
            _ if self.here == NONE => Err("no number here".to_owned()),
            _ => Err(self.here.clone()),
        }
    }
}

/// What a person predicted, compared with the results, with what costof predicted, and with what was published;
/// nothing if nobody predicted anything.
pub(super) fn parts(guesses: &[Guess], tables: &[ReproducedTable]) -> Vec<Part> {
    if guesses.is_empty() {
        return Vec::new();
    }
    let (mut scores, mut unscored) = (Vec::new(), Vec::new());
    for guess in guesses {
        let tables = tables.iter().filter(|table| table.title == guess.table);
        let mut lines = tables.flat_map(|table| &table.lines);
        let line = lines.find(|line| line.name == guess.row);
        let compared =
            line.ok_or_else(|| "the study has no such row".to_owned()).and_then(|line| {
                let numbers = line.scored()?;
                Ok((line, numbers, in_unit(guess, numbers.unit)?))
            });
        match compared {
            Ok((line, numbers, value)) => {
                scores.extend(off((value, value), numbers.here).map(|you| {
                    let off = |range: Option<_>| range.and_then(|range| off(range, numbers.here));
                    let (costof, published) = (off(numbers.costof), off(numbers.published));
                    Score { line, you: (guess, you), costof, published }
                }))
            }
            Err(why) => unscored.push((why, guess.row.clone())),
        }
    }
    let mut parts = vec![Part::Heading(2, "Your predictions".to_owned())];
    parts.push(Part::List("", summary(&scores)));
    let columns = ["you predicted", "here", "you ÷ here", "costof ÷ here", "published ÷ here"];
    let mut grid = Grid::of_numbers(columns);
    for Score { line, you: (guess, you), costof, published } in &scores {
        let of = |ratio: Option<f64>| ratio.map_or_else(String::new, shown);
        let guessed = format!("{} {}", digits(guess.value), guess.unit);
        let ratios = [Some(*you), *costof, *published].map(of);
        grid.add([line.name.clone(), guessed, line.here.clone()].into_iter().chain(ratios));
    }
    if !scores.is_empty() {
        parts.push(Part::Table("Your predictions".to_owned(), grid));
    }
    let far = scores.iter().filter(|score| is_far(score.you.1)).map(|score| {
        (score.line.reason(), format!("{}: {}", score.line.name, too_far(score.you.1)))
    });
    let far =
        by_reason(far).into_iter().map(|(why, rows)| format!("{}. Why: {why}", rows.join("; ")));
    let unscored = by_reason(unscored.into_iter()).into_iter();
    let unscored = unscored.map(|(why, rows)| format!("Not scored ({why}): {}", rows.join("; ")));
    let remarks = far.chain(unscored).collect();
    parts.push(Part::List("quiet", remarks));
    parts
}

fn is_far(ratio: f64) -> bool {
    !(1.0 / FAR..=FAR).contains(&ratio)
}

/// How good the predictions were as a whole.
fn summary(scores: &[Score<'_>]) -> Vec<String> {
    let of = |who: &str, ratio: &dyn Fn(&Score<'_>) -> Option<f64>| {
        let ratios: Vec<f64> = scores.iter().filter_map(ratio).collect();
        let by: Vec<f64> = ratios.iter().map(|ratio| ratio.ln().abs().exp()).collect();
        let typical = median(&by)?;
        let near = by.iter().filter(|by| !is_far(**by)).count();
        Some(format!(
            "{who}: {near} of {} within three times, typically off by a factor of {}",
            by.len(),
            digits(typical)
        ))
    };
    let lines = [
        of("You", &|score| Some(score.you.1)),
        of("costof", &|score| score.costof),
        of("The publication", &|score| score.published),
    ];
    let lines = lines.into_iter().flatten();
    let how = "Each ratio has the orders of magnitude in brackets: +1 is ten times too high, −1 ten times too low";
    match scores {
        [] => vec!["No predicted row has a number that it can be compared with".to_owned()],
        _ => lines.chain([how.to_owned()]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use costof_model::axis::Axes;
    use costof_model::prediction::Prediction;
    use costof_model::testing::{probe_info, row, run_without_facts};

    const STUDY: &str = "title = 't'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 'Costs'\npoint = 'a.x'\nunit = 'ns'\n\
        rows = [{name='a',measured=25},{name='b',label='two',measured=[60,80]},{name='gone',absent='no'},\
        {name='sd',of='sd',measured=1},{name='d',label='four'},{name='a again',measured=20}]";

    fn study() -> Study {
        Study::read("x", "x.toml", STUDY).unwrap()
    }

    fn read(text: &str) -> Result<Vec<Guess>, String> {
        study().guesses(&[&probe_info("a.x")], "form", text)
    }

    #[test]
    fn a_form_has_what_can_be_predicted_and_is_read_again() {
        let form = study().form(&[&probe_info("a.x")], "lab.toml").unwrap();
        let (head, rows) = form.split_once("\n\n").unwrap();
        assert!(head.lines().all(|line| line.starts_with("# ")));
        assert_eq!(rows, "[Costs]\na (ns) =\nb (ns) =\nd (ns) =\n");
        assert_eq!(read(&form).unwrap_err(), "form: no number is filled in");
        let filled = form.replace("a (ns) =", "a (ns) = 12").replace("b (ns) =", "b (ns) = 0.5 us");
        let guesses = read(&filled).unwrap();
        let values: Vec<(&str, f64, &str)> =
            guesses.iter().map(|guess| (&*guess.row, guess.value, &*guess.unit)).collect();
        assert_eq!(values, [("a", 12.0, "ns"), ("b", 500.0, "ns")]);
    }

    #[test]
    fn a_wrong_line_of_a_form_is_named() {
        for (text, says) in [
            ("[Cost]", &["form, line 1", "`Cost`", "`Costs`"][..]),
            ("[Costs]\nab (ns) = 5", &["line 2", "no row `ab (ns)`"]),
            ("[Costs]\n\na (ns) = many", &["line 3", "`many` is not a number above zero"]),
            ("[Costs]\na (ns) = -5", &["line 2", "`-5`"]),
            ("[Costs]\na (ns) = 5 GB/s", &["line 2", "`GB/s` cannot be converted to `ns`"]),
            ("[Costs]\na (ns) = 5 nss", &["line 2", "`nss`"]),
            ("[Costs]\na (ns) = 1e308 s", &["line 2", "`1e308 s` is too large"]),
            ("[Costs]\na (ns) = 5\na (ns) = 6", &["line 3", "twice"]),
            ("[Costs]\nhello", &["line 2", "`hello`"]),
        ] {
            let error = read(text).unwrap_err();
            assert!(says.iter().all(|part| error.contains(part)), "{says:?}: {error}");
        }
    }

    #[test]
    fn predictions_are_scored_and_those_far_off_get_the_reason() {
        let mut run = run_without_facts();
        run.run.guesses = read("[Costs]\na (ns) = 5\nb (ns) = 100\nd (ns) = 9").unwrap();
        let labelled = |label: &str, ns| {
            let mut row = row("a.x", Axes::default(), ns);
            row.label = Some(label.to_owned());
            row
        };
        run.points =
            vec![row("a.x", Axes::default(), 50.0), labelled("two", 70.0), labelled("four", 9.0)];
        run.points[0].prediction = Some(Prediction {
            metric: "cost".into(),
            low: 40.0,
            high: 45.0,
            because: "a load and a store".to_owned(),
        });
        run.points[2].grade = Grade::D;
        let study = study();
        let info = probe_info("a.x");
        let shown = study.reproduced_by(&[&info], &run, &|_| None, Vec::new()).unwrap();
        let text = document::text(&parts(&run.run.guesses, &shown.tables), 200);
        for part in [
            "You: 1 of 2 within three times",
            "costof: 1 of 1 within three times, typically off by a factor of 1.11",
            "5.00 ns",
            "50.0 ns",
            "0.100 (-1)",
            "0.900 (0)",
            "0.500 (0)",
            "1.43 (0)",
            "1.00 (0)",
            "a: 10.0 times too low. Why: costof expected 40.0–45.0 ns: a load and a store",
            "Not scored (grade D: disturbances may account for all of the number here): d",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("b: "), "{text}");
        // As a run has them that was made with another version of the study.
        run.run.guesses = read("[Costs]\na (ns) = 5\nb (ns) = 100").unwrap();
        run.run.guesses[0].unit = "GB/s".to_owned();
        run.run.guesses[1].row = "c".to_owned();
        let text = document::text(&parts(&run.run.guesses, &shown.tables), 200);
        for part in [
            "Not scored (5 GB/s cannot be converted to `ns`, the unit of this row): a",
            "Not scored (the study has no such row): c",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        run.run.guesses[0].row = "e".to_owned();
        let text = document::text(&parts(&run.run.guesses, &shown.tables), 200);
        assert!(text.contains("Not scored (the study has no such row): e; c"), "{text}");
        run.run.guesses[0].row = "a".to_owned();
        run.run.guesses[0].unit = "µs".to_owned();
        let text = document::text(&parts(&run.run.guesses, &shown.tables), 200);
        assert!(text.contains("a: 100 times too high"), "{text}");
        run.run.guesses.clear();
        assert!(parts(&run.run.guesses, &shown.tables).is_empty());
    }
}
