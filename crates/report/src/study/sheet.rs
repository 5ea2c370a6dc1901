//! A study as a lab sheet to print: what to predict, blanks, questions with room for answers. The answer key is
//! the same sheet with the results of a run.

use super::figure::Figure;
use super::file::Study;
use super::guess::Blank;
use super::reproduction::{Answer, Reproduction};
use super::result::Line;
use crate::document::{commands, scroll};
use crate::mechanism::Mechanism;
use crate::page::html_file;
use costof_model::{ProbeInfo, Run};
use maud::{Markup, html};

/// Lines to write on below a question.
const LINES: usize = 4;

impl Study {
    /// The sheet, or the teacher's `key` with the results of a run. `named` is the study on the command line.
    ///
    /// # Errors
    /// As [`Study::check`].
    pub fn sheet(
        &self,
        infos: &[&ProbeInfo],
        named: &str,
        key: Option<(&Reproduction<'_>, &Run)>,
    ) -> Result<String, String> {
        let figures = self.figures(infos)?;
        let blanks = self.blanks(infos)?;
        let measured = infos.iter().filter(|info| self.measures(&info.id));
        let mechanisms: Vec<_> =
            measured.filter_map(|info| Some((*info, Mechanism::of(&info.id)?))).collect();
        let notes = mechanisms.iter().flat_map(|(_, mechanism)| &mechanism.notes);
        let body = html! {
            main.sheet {
                h1 { (self.title) @if key.is_some() { ": the answers of one machine" } }
                p.quiet { "The figures of this lab were published in: " (self.source) ". Measured there on: " (self.machine) "." }
                @match key {
                    None => { (task(named)) }
                    Some((reproduction, run)) => @for line in reproduction.head(run).iter().skip(2) { p { (commands(line)) } },
                }
                @if self.drawing.is_some() || !mechanisms.is_empty() { h2 { "How it works" } }
                @if let Some(drawing) = &self.drawing { pre.tree { (drawing) } }
                @for (info, mechanism) in &mechanisms {
                    p.drawn { (info.question) }
                    pre.tree { (mechanism.drawing) }
                }
                @for note in notes {
                    h2 { (note.heading) }
                    pre.tree { (note.text) }
                }
                @for (at, (table, figures)) in self.tables.iter().zip(&figures).enumerate() {
                    @let shown = key.map(|(reproduction, _)| &reproduction.tables[at].lines);
                    @let columns: Vec<&str> = table.columns.iter().map(|column| &**column.name.get_ref()).collect();
                    @let blanks: Vec<&Blank> = blanks.iter().filter(|blank| blank.table == *table.title.get_ref()).collect();
                    (of_table(table.title.get_ref(), &columns, figures, &blanks, shown.map_or(&[], |lines| lines)))
                }
                h2 { "Questions" }
                ol {
                    @for (at, question) in self.questions.iter().enumerate() {
                        li { (question.ask) (answered(key.map(|(reproduction, run)| (&reproduction.answers[at], run)))) }
                    }
                    li {
                        "Which of your predictions was most wrong? Name the mechanism that you missed, and a measurement that could \
                         prove you wrong again."
                        @if key.is_none() { (room()) }
                    }
                }
                @if key.is_some() && !self.misled.is_empty() {
                    h2 { "Where the method of the original misled" }
                    ul { @for misled in &self.misled { li { (misled) } } }
                }
            }
        };
        let title =
            format!("{}: {}", if key.is_some() { "Answers" } else { "Lab sheet" }, self.title);
        Ok(html_file("", &title, &body))
    }
}

/// What a student does, step by step.
fn task(named: &str) -> Markup {
    let command = |rest: &str| html! { code { "costof study " (named) " " (rest) } };
    html! {
        p.name { "Name " i {} " Machine " i {} " Date " i {} }
        ol {
            li { "Predict each row below before you measure anything: the order of magnitude counts." }
            li { (command("--predict --dry-run > form")) " prints a form. Copy your predictions into it." }
            li { (command("--predictions form")) " measures and compares. With " code { "--quick" } " it takes less time." }
            li { "Copy what was measured here. Explain each prediction that was off by more than three times: its remark has the reason." }
            li { "A row of grade D is not a result: a disturbance may account for all of it. Leave it blank, or measure again." }
            li { "Hand in this sheet and the file " code { "run.jsonl" } " of the folder in which the command has put its results." }
        }
    }
}

fn of_table(
    title: &str,
    columns: &[&str],
    figures: &[Figure],
    blanks: &[&Blank],
    lines: &[Line],
) -> Markup {
    let is_key = !lines.is_empty();
    // With columns, a row has a figure for each.
    let count = columns.len().max(1);
    let heads = if columns.is_empty() { &[""][..] } else { columns };
    let blank = |figure: &Figure| blanks.iter().find(|blank| blank.row == figure.name);
    let has_blank = |row: &&[Figure]| is_key || row.iter().any(|figure| blank(figure).is_some());
    let rows = figures.chunks(count).enumerate().filter(|(_, row)| has_blank(row));
    let rows: Vec<(usize, &[Figure])> = rows.collect();
    let named = |head: &str, what: &str| match head {
        "" => what.to_owned(),
        head => format!("{head}, {what}"),
    };
    html! {
        @if !rows.is_empty() {
            h2 { (title) }
            (scroll(title, &html! {
                thead { tr {
                    td {}
                    @for head in heads {
                        @if is_key {
                            th { (named(head, "published")) } th { (named(head, "here")) }
                        } @else {
                            th { (named(head, "predicted")) } th { (named(head, "measured")) }
                        }
                    }
                } }
                tbody { @for (at, row) in rows { tr {
                    td { (first_name(row, columns)) }
                    @for (column, figure) in row.iter().enumerate() {
                        @match lines.get(at * count + column) {
                            Some(line) => { td.v { (line.published) } (result(line)) }
                            None => @match blank(figure) {
                                Some(blank) => { td.blank { (blank.unit.symbol) } td.blank { (blank.unit.symbol) } }
                                None => { td { "—" } td { "—" } }
                            },
                        }
                    }
                } } }
            }))
        }
    }
}

/// The name of a row, without that of its first column.
fn first_name<'f>(row: &'f [Figure], columns: &[&str]) -> &'f str {
    let name = &*row[0].name;
    let column = columns.first().and_then(|column| name.strip_suffix(column)?.strip_suffix(": "));
    column.unwrap_or(name)
}

/// The result of this machine in a cell of the key.
fn result(line: &Line) -> Markup {
    let is_doubtful = line.is_doubtful();
    html! {
        td.v {
            @if is_doubtful && line.has_number { span.odd { "grade D, not a result: " } }
            (line.here)
            @if !line.interval.is_empty() { " (" (line.interval) ")" }
            @if !line.grade.is_empty() && !is_doubtful { " " (line.grade) }
        }
    }
}

/// The answer to a question, or room for one.
fn answered(answer: Option<(&Answer, &Run)>) -> Markup {
    html! { @match answer {
        Some((answer, run)) => ul { @for line in answer.lines(run) { li { (commands(&line)) } } },
        None => (room()),
    } }
}

/// Lines to write on.
fn room() -> Markup {
    html! { div.room { @for _ in 0..LINES { i {} } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::noise::Grade;
    use costof_model::testing::{probe_info, row, run_without_facts};

    const STUDY: &str = "title = '<b>'\nsource = 's'\nmachine = 'm'\nmisled = ['it was one run']\ndrawing = 'A --> B'\n\
        [[table]]\ntitle = 'Costs'\npoint = 'a.x'\nunit = 'ns'\n\
        rows = [{name='a',measured=25},{name='gone',measured=5,absent='no'},{name='of another list',measured=20}]\n\
        [[table]]\ntitle = 'Two'\npoint = 'a.x'\nunit = 'ns'\ncolumns=[{name='p',of='min'},{name='q',of='mean'}]\nrows = [{name='r'}]\n\
        [[question]]\nask='Why?'\nkinds=[]\nbecause='nobody knows'";

    #[test]
    fn a_sheet_has_blanks_and_no_answer_and_its_key_has_them() {
        let (study, info) = (Study::read("x", "x.toml", STUDY).unwrap(), probe_info("a.x"));
        let sheet = study.sheet(&[&info], "x.toml", None).unwrap();
        for part in [
            "&lt;b&gt;",
            "A --&gt; B",
            "<td>a</td><td class=\"blank\">ns</td>",
            "<td>r</td>",
            "<th>p, predicted</th>",
            "costof study x.toml --predict --dry-run",
            "Why?<div class=\"room\">",
        ] {
            assert!(sheet.contains(part), "{part}: {sheet}");
        }
        // What a form asks once is asked once here too.
        for part in ["25 ns", "gone", "of another list", "misled", "nobody knows"] {
            assert!(!sheet.contains(part), "{part}");
        }
        let mut run = run_without_facts();
        run.points = vec![row("a.x", Axes::default(), 50.0)];
        let key = |run: &Run| {
            let shown = study.reproduced_by(&[&info], run, &|_| None, Vec::new()).unwrap();
            study.sheet(&[&info], "x.toml", Some((&shown, run))).unwrap()
        };
        for part in [
            "the answers of one machine",
            "<td class=\"v\">25 ns</td><td class=\"v\">50.0 ns (45.0–55.0) A</td>",
            "it was one run",
            "not answered here, because nobody knows",
            "<td>gone</td>",
        ] {
            assert!(key(&run).contains(part), "{part}: {}", key(&run));
        }
        run.points[0].grade = Grade::D;
        assert!(key(&run).contains("<span class=\"odd\">grade D, not a result: </span>50.0 ns"));
    }
}
