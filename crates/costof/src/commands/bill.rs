//! `costof bill`: what a program pays for, item by item, and what would make it cheaper.

mod prices;
mod turns;

use crate::cli::BillOptions;
use crate::error::{Context, Done, Error, Result, bail};
use crate::files;
use crate::plan::request::infos;
use crate::record::Table;
use crate::terminal::{log, print, prose_columns, set_working, watch_interrupts};
use costof_measure::bill::price::{self, PriceList};
use costof_measure::bill::times::with_way_back;
use costof_measure::facts;
use costof_model::bill::CountedCommand;
use costof_model::priced::{Priced, Times};
use costof_model::timing::Estimate;
use costof_model::{Facts, word};
use costof_report::bill as shown;
use prices::Prices;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest saved bill that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

pub(crate) fn run(table: Table, options: &BillOptions) -> Done {
    let outputs = [options.save.as_deref(), options.html.as_deref()];
    let to_standard_output = options.json || options.prometheus;
    let prints = files::check_outputs(&outputs, to_standard_output, &options.show)?;
    if options.pid.is_some() && options.how_long < Duration::from_secs(1) {
        bail!("--for takes 1s or more: the kernel counts CPU time in ticks of some milliseconds");
    }
    let interrupted = watch_interrupts()?;
    let billing = Billing { table, options, facts: facts::gather(), interrupted: &interrupted };
    if let [before, after] = &options.diff[..] {
        let (before, after) = (billing.diffed(before)?, billing.diffed(after)?);
        if before.per_second != after.per_second {
            bail!(
                "one bill is of a second of a process, the other of a run: they cannot be compared"
            );
        }
        return print(match options.json {
            true => shown::diff_json(&before, &after).to_string() + "\n",
            false => shown::diff(&before, &after, prose_columns()),
        });
    }
    let bill = match (&options.show, options.pid) {
        (Some(file), _) => read(file)?,
        (None, Some(pid)) => billing.priced(billing.process(pid)?, true)?,
        (None, None) => billing.of_program(&options.argv)?,
    };
    let printed = match prints {
        true => print(text(&bill, options)?),
        false => Ok(ExitCode::SUCCESS),
    };
    if let Some(path) = &options.save {
        files::write(path, &json(&bill)?)?;
    }
    if let Some(path) = &options.html {
        files::write_page(path, &shown::page(&bill))?;
    }
    printed
}

fn text(bill: &Priced, options: &BillOptions) -> Result<String> {
    Ok(match (options.json, options.prometheus) {
        (true, _) => json(bill)?,
        (_, true) => shown::prometheus(bill),
        _ => shown::text(bill, options.all, prose_columns()),
    })
}

fn json(bill: &Priced) -> Result<String> {
    Ok(serde_json::to_string_pretty(bill).context("JSON")? + "\n")
}

fn read(file: &Path) -> Result<Priced> {
    let text = files::read_text(file, MAX_BYTES)
        .context(format_args!("cannot read {}", file.display()))?;
    serde_json::from_str(&text)
        .context(format_args!("{} is no bill that `costof bill --save` wrote", file.display()))
}

/// Whether a file looks like a saved bill by its first byte.
fn is_saved(file: &Path) -> bool {
    let mut first = [0];
    // A pipe or a device would be used up, or waited for.
    let opened = file.is_file().then(|| File::open(file));
    opened.is_some_and(|it| it.and_then(|mut it| it.read_exact(&mut first)).is_ok())
        && first == *b"{"
}

/// What was counted, what it took by the kernel's ticks, and the way back from a system call.
type Observed = (CountedCommand, Times, Option<Estimate>);

/// What a bill is made by.
struct Billing<'a> {
    table: Table,
    options: &'a BillOptions,
    facts: Facts,
    interrupted: &'a AtomicBool,
}

impl Billing<'_> {
    /// A side of `--diff`: a saved bill, whatever it is called, or a command.
    fn diffed(&self, given: &str) -> Result<Priced> {
        let file = Path::new(given);
        if is_saved(file) {
            return read(file);
        }
        let (_, words) = super::time::words(given, None)?;
        let is_word = given.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
        if is_word && !file.exists() && !files::is_program(given) {
            bail!("{given}: there is no such file or program");
        }
        self.of_program(&words)
    }

    fn of_program(&self, words: &[OsString]) -> Result<Priced> {
        self.priced(self.program(words)?, false)
    }

    /// The bill of what was counted: with prices of this machine, measured where they lack.
    fn priced(&self, (command, times, way_back): Observed, per_second: bool) -> Result<Priced> {
        let Billing { table, options, facts, interrupted } = self;
        let infos = infos(table);
        let list = PriceList::new(&infos);
        let seconds = command.counted.iter().map(|run| run.wall_ns as f64 / 1e9).sum();
        let stretches = if per_second { seconds } else { command.counted.len() as f64 };
        let items = price::tally(&command, stretches);
        let way_back_ns = way_back.filter(|_| times.is_divided);
        let times =
            way_back_ns.map_or(times, |each| with_way_back(times, price::calls(&items), each));
        let cpu_ns = times.user_ns.value + times.kernel_ns.value;
        let mut prices = Prices::known(self, &list.needed(&items))?;
        let sound = list.values(|row| prices.value(row, true));
        let missing = list.missing(&items, &sound, cpu_ns);
        if !missing.is_empty() {
            prices.measure(&missing, interrupted)?;
        }
        let known = list.values(|row| prices.value(row, false));
        let values = list.in_a_program(&known);
        set_working(false);
        let (priced, classes, itemised_ns) = list.items(&items, &values).map_err(Error::Nothing)?;
        let mut elsewhere = Vec::new();
        for path in &options.elsewhere {
            let other = Prices::of_run(table, path)?;
            let there = list.values(|row| other.value(row, false));
            let from = (other.machine(), path.display().to_string());
            // The same program on both: what it does unlike costof's loop, it does twice.
            match list.elsewhere(&items, (&known, &there), times.kernel_ns.value, from) {
                Some(found) => elsewhere.push(found),
                None => log(format_args!("{}: it has no price of these items", path.display())),
            }
        }
        let Some(first) = command.counted.first() else {
            bail!("nothing was counted of `{}`", command.command);
        };
        let machine = facts.machine_class();
        let used = list.used(&items, &values);
        let used = used.into_iter().filter_map(|row| Some((row.point.id(), prices.from(row)?)));
        Ok(Priced {
            per_second,
            runs: command.timed.len(),
            times,
            way_back_ns,
            counting_slowdown: command.counting_cost().map(|more| 1.0 + more),
            counted_by: word(first.means),
            not_counted: first.not_counted.clone(),
            items: priced,
            itemised_ns,
            classes,
            waits: price::waits(&command, stretches),
            requests: price::requests(&command, stretches),
            savings: list.savings(&items, &values, (cpu_ns, times.waiting_ns)),
            elsewhere,
            prices_of: options
                .prices
                .as_ref()
                .map_or_else(|| machine.clone(), |_| prices.machine()),
            machine,
            prices: used.collect(),
            program: command.command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_measure::bill::price::Row;
    use costof_model::Unit;
    use costof_model::expression::Value;

    #[test]
    fn every_price_is_a_row_that_some_probe_has() {
        let list = PriceList::new(&infos(costof_probes::TABLE));
        // The entry has a value wherever a machine was measured at all.
        let values = list.values(|row| {
            let Row { point, metric, unit, .. } = row;
            let probe = costof_probes::TABLE.iter().find(|probe| probe.info.id == point.probe);
            let can_exist = probe.unwrap().can_exist;
            assert!(can_exist(point, &Facts::default()), "{point}: the probe refuses it");
            let is_time = matches!(unit, Unit::Nanoseconds | Unit::Hertz);
            assert!(is_time, "{point}: {metric} is no time of one");
            (row.point.probe == "os.syscall").then_some(Value::Measured(100.0, Some((99.0, 101.0))))
        });
        let (items, classes, all) = list.items(&[], &values).unwrap();
        assert!(items.is_empty() && classes.is_empty() && all.value == 0.0);
    }
}
