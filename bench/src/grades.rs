//! Grades under an injected load: a neighbour on the measured processor, and one
//! on every other, each turn grades to C or D; without them most are A or B.

use crate::bench::Bench;
use crate::error::Result;
use crate::load::{Load as Neighbour, Running};
use crate::machine::{self, Watch};
use crate::rounds;
use crate::variation::good_share;
use crate::verdict::Verdict;
use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use std::collections::BTreeMap;

const ROUNDS: usize = 3;
/// The least share of rows of grade A or B without a load.
const GOOD_SHARE: f64 = 0.8;
/// Probes that cost little.
const PROBES: [&str; 3] = ["cpu.loop", "cpu.call", "os.syscall"];

/// Where a neighbour spins.
struct Load {
    name: &'static str,
    on: Vec<usize>,
    rows: Vec<PointRow>,
}

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(&format!(
        "the grades of {} --quick on CPU {}, without and with a neighbour's load",
        PROBES.join(" "),
        bench.cpu
    ));
    let mut loads = loads(&bench.cpus, bench.cpu);
    let mut quiet = true;
    rounds::shuffled(bench.rounds(ROUNDS), loads.len(), |round, place| {
        let load = &mut loads[place];
        let watch = Watch::start();
        let run = under(bench, load, round + 1)?;
        if load.on.is_empty() {
            quiet &= machine::was_quiet(&watch);
        }
        load.rows.extend(run.points);
        Ok(())
    })?;
    let verdicts = loads
        .iter()
        .map(|load| {
            let (counts, demand) = (counts(&load.rows), load.demand());
            let line = format!("\n{}: {counts} {demand}", load.name);
            let verdict = load.judge(quiet).end_line(&line);
            for cause in causes(&load.rows) {
                println!("  {cause}");
            }
            verdict
        })
        .collect();
    println!();
    Ok(verdicts)
}

/// No load, one on the measured processor, and one on each of the others.
fn loads(cpus: &[usize], measured: usize) -> Vec<Load> {
    let others: Vec<usize> = cpus.iter().copied().filter(|cpu| *cpu != measured).collect();
    let load = |name, on| Load { name, on, rows: Vec::new() };
    let mut loads =
        vec![load("no load", Vec::new()), load("a neighbour on the measured CPU", vec![measured])];
    if !others.is_empty() {
        loads.push(load("a neighbour on every other CPU", others));
    }
    loads
}

fn under(bench: &Bench, load: &Load, round: usize) -> Result<Run> {
    // They end when this returns, however it does.
    let _running: Vec<Running> =
        load.on.iter().map(|cpu| Neighbour::always(*cpu).start()).collect::<Result<_>>()?;
    let arguments = format!("{} --quick --cpu {}", PROBES.join(" "), bench.cpu);
    let name = format!("{}-{round}.jsonl", load.name.replace(' ', "-"));
    bench.run(&name, &arguments)
}

impl Load {
    fn demand(&self) -> String {
        if self.on.is_empty() {
            format!("(at least {:.0} % A or B)", 100.0 * GOOD_SHARE)
        } else {
            "(all C or D)".to_owned()
        }
    }

    fn judge(&self, quiet: bool) -> Verdict {
        let share = good_share(self.rows.iter().map(|row| &row.grade));
        match (share, self.on.is_empty()) {
            (None, _) => Verdict::Undecided("costof measured no row".to_owned()),
            (Some(share), true) => Verdict::from(share >= GOOD_SHARE).refuted_only_if_quiet(quiet),
            (Some(share), false) => Verdict::from(share == 0.0),
        }
    }
}

/// How many rows have each grade.
fn counts(rows: &[PointRow]) -> String {
    [Grade::A, Grade::B, Grade::C, Grade::D]
        .map(|grade| {
            let count = rows.iter().filter(|row| row.grade == grade).count();
            format!("{count} {grade}")
        })
        .join(", ")
}

/// What cost grades, and how often.
fn causes(rows: &[PointRow]) -> Vec<String> {
    let mut counts: BTreeMap<(Grade, &str), usize> = BTreeMap::new();
    for warning in rows.iter().flat_map(|row| &row.warnings) {
        *counts.entry((warning.grade, &warning.kind)).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|((grade, kind), count)| format!("{grade} because of {kind}: {count} rows"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;
    use costof_model::testing;

    fn rows(grades: &[Grade]) -> Vec<PointRow> {
        let row = |grade: &Grade| PointRow {
            grade: *grade,
            warnings: vec![Warning {
                kind: "others".into(),
                grade: *grade,
                what: String::new(),
                advice: String::new(),
            }],
            ..testing::row("cpu.loop", Axes::default(), 1.0)
        };
        grades.iter().map(row).collect()
    }

    fn judge(on: &[usize], grades: &[Grade], quiet: bool) -> Verdict {
        let load = Load { name: "", on: on.to_vec(), rows: rows(grades) };
        load.judge(quiet)
    }

    #[test]
    fn without_load_four_of_five_are_good() {
        use Grade::{A, B, C, D};
        assert_eq!(judge(&[], &[A, B, A, A, D], true), Verdict::Holds);
        assert_eq!(judge(&[], &[A, B, A, C, D], true), Verdict::DoesNotHold);
        assert!(matches!(judge(&[], &[A, B, A, C, D], false), Verdict::Undecided(_)));
    }

    #[test]
    fn under_load_none_is_good() {
        use Grade::{B, C, D};
        assert_eq!(judge(&[1], &[C, D, D], false), Verdict::Holds);
        assert_eq!(judge(&[1], &[C, D, B], true), Verdict::DoesNotHold);
        assert!(matches!(judge(&[1], &[], true), Verdict::Undecided(_)));
    }

    #[test]
    fn loads_are_placed_on_the_measured_processor_and_on_all_others() {
        let on: Vec<Vec<usize>> = loads(&[0, 1, 4], 1).into_iter().map(|l| l.on).collect();
        assert_eq!(on, [vec![], vec![1], vec![0, 4]]);
        assert_eq!(loads(&[0], 0).len(), 2);
    }

    #[test]
    fn grades_and_causes_are_counted() {
        let rows = rows(&[Grade::A, Grade::C, Grade::C]);
        assert_eq!(counts(&rows), "1 A, 0 B, 2 C, 0 D");
        assert_eq!(causes(&rows)[1], "C because of others: 2 rows");
    }
}
