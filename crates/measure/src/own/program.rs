//! A program that does the operation as often as a line asks for.
//!
//! costof times, not the program: a program needs no clock, and cannot be wrong about it. The round trip costs what a
//! question with n = 0 costs, which is taken off.

use super::{
    COST, EndOthers, LIMIT, OwnProbe, ROUND_TRIP, Words, check_it_grows, check_it_takes_time,
};
use crate::meter::Meter;
use crate::probe::{Role, only};
use costof_model::{Data, Failure, FailureKind, Offers, Point, Report, fail};
use costof_os::process::line_program::{LineProgram, NoAnswer, how_ended};
use costof_stats::median;
use std::io::Write;

/// A batch lasts at least this many round trips.
pub(super) const ROUND_TRIPS_PER_BATCH: u32 = 100;
/// How many round trips are measured, after a tenth as many to warm up.
const ROUND_TRIPS: usize = 100;
/// What is left of a batch at least, after a round trip that chance made long.
const MIN_NS: f64 = 0.001;

pub(super) struct ProgramRole {
    pub(super) _at_end: EndOthers,
    pub(super) own: &'static OwnProbe,
    pub(super) words: &'static Words,
    pub(super) program: Option<Asked>,
}

/// A program that runs.
pub(super) struct Asked {
    name: String,
    program: LineProgram,
}

impl Role for ProgramRole {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let (name, mut command) = self.own.command_at(self.words, point)?;
        let program = LineProgram::start(&mut command).map_err(|error| {
            Failure::error(format!("cannot start the program `{name}`: {error}"))
        })?;
        let mut asked = Asked { name, program };
        asked.ask(0)?;
        self.program = Some(asked);
        Ok(Offers::new())
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Some(asked) = &mut self.program else {
            fail!("the program was not started");
        };
        let mut round_trips = Vec::with_capacity(ROUND_TRIPS);
        for at in 0..ROUND_TRIPS / 10 + ROUND_TRIPS {
            let start = meter.clock().start();
            asked.ask(0)?;
            let ns = meter.clock().ns(meter.clock().end().saturating_sub(start));
            if at >= ROUND_TRIPS / 10 {
                round_trips.push(ns);
            }
        }
        let round_trip_ns = median(&round_trips).expect("there are some");
        let batch_ns = f64::from(ROUND_TRIPS_PER_BATCH) * round_trip_ns;
        let name = format!("`{}`", asked.name);
        let n = check_it_takes_time(meter, &name, batch_ns, |n| asked.ask(n))?;
        warm_up(meter, || asked.ask(n))?;
        check_it_grows(meter, &name, n, |n| asked.ask(n))?;
        meter.value(ROUND_TRIP, round_trip_ns);
        meter.batches_last(batch_ns);
        let mut failed = None;
        meter.repeatable(COST, |n| {
            if failed.is_none() {
                failed = asked.ask(n).err();
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        self.program = None;
        Ok(())
    }
}

/// Repeats a batch for as long as the point is measured: many languages compile what runs often.
fn warm_up(
    meter: &Meter<'_>,
    mut batch: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let clock = meter.clock();
    let start = clock.start();
    while clock.ns(clock.end().saturating_sub(start)) < meter.time_ns() {
        batch()?;
    }
    Ok(())
}

impl Asked {
    fn ask(&mut self, n: u64) -> Result<(), Failure> {
        // 20 digits and a line feed.
        let mut line = [0; 24];
        let mut rest = &mut line[..];
        writeln!(rest, "{n}").expect("a number of 64 bits fits");
        let length = 24 - rest.len();
        let line = &line[..length];
        let mut kind = FailureKind::Error;
        let wrong = match self.program.ask(line, LIMIT) {
            Ok(answer) if answer.trim_ascii_end() == &line[..length - 1] => return Ok(()),
            Ok(answer) => format!("answered `{}`", String::from_utf8_lossy(answer).escape_debug()),
            Err(NoAnswer::NoLine(text)) => format!("wrote `{}`", text.escape_debug()),
            Err(NoAnswer::Late) => {
                // A second launch that waits in vain is the last.
                kind = FailureKind::TimedOut;
                format!("did not answer within {} s", LIMIT.as_secs())
            }
            Err(NoAnswer::Ended(Some(status))) => how_ended(status),
            Err(NoAnswer::Ended(None)) => "closed its standard output".to_owned(),
            Err(NoAnswer::Error(error)) => format!("could not be asked: {error}"),
        };
        let words = self.program.last_words();
        let words = if words.is_empty() { words } else { format!("; it last said: {words}") };
        let reason = format!(
            "the program `{}` {wrong}, where it should do the operation {n} times and answer by the line `{n}`, flushed{words}",
            self.name
        );
        Err(Failure { kind, reason })
    }
}

/// The report, with the round trip taken off each batch.
pub(super) fn derive(_: &Point, reports: Vec<Report>) -> Report {
    let mut report = only(reports);
    let value = |name: &str, data: &Data| match data {
        Data::Value(value) if name == ROUND_TRIP => Some(*value),
        _ => None,
    };
    let mut values = report.metrics.iter().filter_map(|metric| value(&metric.name, &metric.data));
    let Some(round_trip_ns) = values.next() else {
        return report;
    };
    for metric in &mut report.metrics {
        if let Data::Samples(samples) = &mut metric.data {
            for (_, ns) in samples {
                *ns = (*ns - round_trip_ns).max(MIN_NS);
            }
        }
    }
    report
}
