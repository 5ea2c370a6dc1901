//! `costof qualify`: whether this host is as those of a reference are.

use super::estimate::{self, request};
use crate::cli::{Measuring, QualifyOptions, RunOptions};
use crate::controller::qualify;
use crate::error::{Context, Done, Error, Result, bail, gated, rules};
use crate::files;
use crate::machine::{Machines, hosts};
use crate::plan::cost::named_precision;
use crate::record::Table;
use crate::session::Session;
use crate::terminal::{print, prose_columns, set_working, watch_interrupts};
use costof_measure::fleet::{self, Candidates, Populations};
use costof_measure::probe;
use costof_measure::qualify::{Block, Qualification};
use costof_measure::schedule::Precision;
use costof_model::qualified::Qualified;
use costof_model::reference::{Cohort, MAX_BYTES, Row};
use costof_model::{Names, Reference};
use costof_report::check::{Case, Finding, Rules, Suite};
use costof_report::qualify as shown;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub(crate) fn run(table: Table, options: &QualifyOptions) -> Done {
    files::refuse_standard_output(options.out.as_deref(), "has the verdict: --out names a file")?;
    if options.measuring.until_alone.is_some() {
        bail!(
            "--until-alone is not for qualify, which measures until it has decided (--budget sets for how long)"
        );
    }
    let rules = rules(&options.gate, &options.required, table)?;
    let reference = read(&options.against, table)?;
    let qualified = match measure(table, options, &reference) {
        // A health check and a pipeline read the verdict, whatever it is.
        Err(Error::Nothing(why)) => {
            let finding = Finding::Undecided(why.clone());
            let case = Case { name: "this host".to_owned(), probe: None, finding };
            let suite = Suite::new("qualify", "host", vec![case], &Rules::default());
            let line = suite.line(&why) + "\n";
            let code = gated(&options.gate, &[suite])?;
            return if options.reason {
                print(line).and(Ok(code))
            } else {
                Err(Error::Nothing(why))
            };
        }
        measured => measured?,
    };
    print(if options.json {
        serde_json::to_string(&qualified).context("JSON")? + "\n"
    } else if options.reason {
        shown::reason(&qualified, &rules) + "\n"
    } else {
        shown::text(&qualified, &rules, prose_columns())
    })?;
    gated(&options.gate, &[shown::check(&qualified, &rules)])
}

fn read(path: &Path, table: Table) -> Result<Reference> {
    let text = files::read_text(path, MAX_BYTES)
        .context(format_args!("cannot read {}", path.display()))?;
    let reference = Reference::read(text.as_bytes()).context(path.display())?;
    Ok(named_as_here(reference, table))
}

/// The reference with the names by which this costof knows its rows.
pub(super) fn named_as_here(mut reference: Reference, table: Table) -> Reference {
    Names::new(table.iter().map(|probe| &*probe.info)).apply_to_reference(&mut reference);
    reference
}

fn measure(table: Table, options: &QualifyOptions, reference: &Reference) -> Result<Qualified> {
    let precision = named_precision(&reference.precision).context(options.against.display())?;
    let measuring = Measuring {
        quick: precision == Precision::Quick,
        full: precision == Precision::Full,
        ..options.measuring.clone()
    };
    let all = RunOptions::new(measuring, options.out.clone());
    let interrupted = watch_interrupts()?;
    let mut session = Session::new(table, &all, Vec::new(), None, &interrupted)?;
    let hosts = hosts(&all);
    let connect = || Machines::connect(&hosts, session.setting(), &session.display);
    let mut machines = connect()?;
    let facts = &machines.measured.description.facts;
    let candidates = fleet::choose(reference, facts, options.cohort);
    let cohort = match candidates.context(options.against.display())? {
        Candidates::One(cohort) => cohort,
        Candidates::Populations(populations) => {
            // The worker that described the machine holds its lock.
            drop(machines);
            let cohort = population(table, options, &populations, &interrupted)?;
            // The run that measured the row has ended, and this one goes on.
            set_working(true);
            machines = connect()?;
            cohort
        }
    };
    let unmeasurable = |row: &Row| why_not(table, &all, row);
    let mut qualification = Qualification::new(cohort, options.risks(), unmeasurable);
    let requests = qualification.rows().map(|row| request(table, &all, &row.of.point));
    session.requests = requests.collect::<Result<_>>()?;
    session.budget = Some(options.budget);
    if session.requests.is_empty() {
        return Err(nothing(qualification.concluded(0.0, 0, &[])));
    }
    let (mut blocks, mut began): (Vec<Block>, _) = (Vec::new(), Instant::now());
    let record = session.measure_on(machines, hosts, None, &mut |controller| {
        began = Instant::now();
        blocks = qualify::execute(controller, &mut qualification, options.budget)?;
        Ok(())
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let record = record.filter(|record| record.run.end.is_some()).ok_or(Error::Interrupted)?;
    let launches = record.run.launches.len() as u32;
    Ok(qualification.concluded(seconds, launches, &blocks))
}

/// The population of this host, by measuring the row that separates them.
fn population<'r>(
    table: Table,
    options: &QualifyOptions,
    populations: &Populations<'r>,
    interrupted: &AtomicBool,
) -> Result<&'r Cohort> {
    let measuring = Measuring { quick: true, ..options.measuring.clone() };
    let all = RunOptions::new(measuring, None);
    let of = &populations.row().of;
    let (_, run) = estimate::measure(table, &all, &[&of.point], interrupted)?;
    let row = run.points.iter().find(|row| row.point == of.point);
    let measured = row.and_then(|row| row.estimate(&of.metric));
    let nearest = measured.and_then(|measured| populations.nearest(measured));
    nearest.ok_or_else(|| {
        let shown = measured.map_or_else(
            || "it has no number".to_owned(),
            |measured| {
                let unit = measured.unit;
                match measured.ci95 {
                    Some(interval) => format!("it is {}", unit.display_interval(interval)),
                    None => format!("it is {}, without an interval", unit.display(measured.median)),
                }
            },
        );
        Error::Nothing(format!(
            "{}: the reference has two populations of hosts like this one, which {} separates, and \
             here {shown}: measure on a quiet machine (--wait-quiet), or name one by --cohort",
            options.against.display(),
            of.name(),
        ))
    })
}

/// Why a row of the reference cannot be measured here, if it cannot.
fn why_not(table: Table, all: &RunOptions, row: &Row) -> Option<String> {
    if let Err(why) = request(table, all, &row.of.point) {
        return Some(why.to_string());
    }
    let info = &probe::find(table, &row.of.point.probe)?.info;
    let primary = info.primary();
    let is_same = info.method == row.method
        && primary.name == row.of.metric
        && primary.unit == row.of.unit
        && primary.better == row.better;
    (!is_same).then(|| "this costof measures it in another way".to_owned())
}

/// No row can be judged.
fn nothing(of: Qualified) -> Error {
    let least = of.left_out.iter().filter(|row| row.why.is_none());
    let least = least.min_by(|one, other| one.change.total_cmp(&other.change));
    Error::Nothing(match (least, of.left_out.first()) {
        (Some(row), _) => shown::too_different(row, of.risks.change),
        (None, Some(row)) => format!(
            "no row can be measured here; {}: {}",
            shown::name(&row.of),
            row.why.as_deref().unwrap_or_default()
        ),
        (None, None) => "the reference has no rows".to_owned(),
    })
}
