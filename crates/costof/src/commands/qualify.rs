//! `costof qualify`: whether this host is as those of a reference are.

use super::estimate::request;
use crate::cli::{Measuring, QualifyOptions, RunOptions};
use crate::controller::qualify;
use crate::error::{Context, Done, Error, bail};
use crate::files;
use crate::machine::{Machines, hosts};
use crate::plan::cost::named_precision;
use crate::session::Session;
use crate::terminal::{print, prose_columns, watch_interrupts};
use costof_measure::fleet;
use costof_measure::probe::{self, Probe};
use costof_measure::qualify::{Block, Qualification};
use costof_measure::schedule::Precision;
use costof_model::qualified::{Qualified, Verdict};
use costof_model::reference::{MOST_BYTES, Reference, Row};
use costof_report::qualify as shown;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(crate) fn run(table: &'static [&'static Probe], options: &QualifyOptions) -> Done {
    files::refuse_standard_output(
        options.out.as_deref(),
        "has the verdict: --out names a file",
    )?;
    let reference = read(&options.against)?;
    let qualified = measure(table, options, &reference)?;
    print(if options.json {
        serde_json::to_string(&qualified).context("JSON")? + "\n"
    } else if options.reason {
        shown::reason(&qualified) + "\n"
    } else {
        shown::text(&qualified, prose_columns())
    })?;
    Ok(ExitCode::from(match qualified.verdict {
        Verdict::Pass => 0,
        Verdict::Fail => 1,
        Verdict::Undecided => 3,
    }))
}

fn read(path: &Path) -> Result<Reference, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).context(format_args!("cannot open {}", path.display()))?;
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.context(format_args!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!(
            "{}: it is longer than {MOST_BYTES} bytes, the most that is read",
            path.display()
        );
    }
    Reference::read(&bytes).context(path.display())
}

fn measure(
    table: &'static [&'static Probe],
    options: &QualifyOptions,
    reference: &Reference,
) -> Result<Qualified, Error> {
    let precision = named_precision(&reference.precision).context(options.against.display())?;
    let measuring = Measuring {
        quick: precision == Precision::Quick,
        full: precision == Precision::Full,
        ..options.measuring.clone()
    };
    let all = RunOptions::new(measuring, options.quiet.clone(), options.out.clone());
    let interrupted = watch_interrupts()?;
    let mut session = Session::new(table, &all, Vec::new(), None, &interrupted)?;
    let hosts = hosts(&all);
    let machines = Machines::connect(&hosts, session.setting(), &session.display)?;
    let facts = &machines.measured.description.facts;
    let cohort = fleet::choose(reference, facts, options.cohort);
    let cohort = cohort.context(options.against.display())?;
    let unmeasurable = |row: &Row| why_not(table, &all, row);
    let mut qualification = Qualification::new(cohort, options.risks(), unmeasurable);
    let requests = qualification.rows();
    let requests = requests.map(|row| request(table, &all, &row.of.point));
    session.requests = requests.collect::<Result<_, Error>>()?;
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
    let record = record.filter(|record| record.run.end.is_some());
    let record = record.ok_or(Error::Interrupted)?;
    let launches = record.run.launches.len() as u32;
    Ok(qualification.concluded(seconds, launches, &blocks))
}

/// Why a row of the reference cannot be measured here, if it cannot.
fn why_not(table: &'static [&'static Probe], all: &RunOptions, row: &Row) -> Option<String> {
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
