//! A program of benchmarks: lists them, tries them, or measures them and compares.

use crate::Register;
use crate::bencher::Bencher;
use crate::benches::{Costof, Listed, Visitor};
use crate::controller::{self, Controller, Side};
use crate::options::{HELP, Mode, Options};
use crate::record::{self, Record};
use crate::text;
use crate::worker::{self, described, recorded};
use costof_measure::compare::{MATTERS, Metrics, compare};
use costof_measure::estimate;
use costof_model::comparison::Verdict;
use costof_model::rows::Row;
use costof_model::{Compared, Comparison, EndRow, Failure, PointRow, Run, nearest};
use costof_os::sched::real_time;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// How long a benchmark is measured unless `--budget` says otherwise.
const BUDGET: Duration = Duration::from_secs(3);
/// How long a launch may take unless `--timeout` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Exit codes, as `costof compare --threshold` has them.
const WORSE: u8 = 1;
const WRONG: u8 = 2;
const UNDECIDED: u8 = 3;
/// As Rust's test runner ends if a test failed.
const TEST_FAILED: u8 = 101;

/// What [`main!`](crate::main!) calls: runs a program of these benchmarks. Its results are kept under the name `program`.
pub fn run(program: &str, functions: &'static [Register]) -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let done = match words.first() {
        Some(first) if first == worker::ARGUMENT => {
            worker::work(functions).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
        _ => execute(program, functions, words),
    };
    done.unwrap_or_else(|error| {
        text::warn(&error);
        ExitCode::from(WRONG)
    })
}

fn execute(
    program: &str,
    functions: &'static [Register],
    words: Vec<String>,
) -> Result<ExitCode, String> {
    let options = Options::parse(words)?;
    let mut listing = Listing::default();
    visit(functions, &mut listing);
    let listed = listing.finish()?;
    let wanted: Vec<&Listed> =
        listed.iter().filter(|benchmark| options.wants(&benchmark.name)).collect();
    match options.mode {
        Mode::Help => text::print(HELP),
        Mode::List => {
            // The form that test runners read.
            wanted
                .iter()
                .for_each(|benchmark| text::print(&format!("{}: benchmark\n", benchmark.name)));
        }
        Mode::Test => return Ok(tried(functions, &options)),
        Mode::Measure => {
            if wanted.is_empty() {
                return Err(none_wanted(&listed, &options));
            }
            return measured(program, &wanted, &options);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn visit(functions: &[Register], visitor: &mut dyn Visitor) {
    for function in functions {
        function(&mut Costof::new(visitor));
    }
}

#[derive(Default)]
struct Listing(Vec<Listed>);

impl Visitor for Listing {
    fn visit(&mut self, listed: Listed, _: &mut dyn FnMut(&mut Bencher<'_>)) {
        self.0.push(listed);
    }
}

impl Listing {
    /// The benchmarks, each with a name of its own.
    fn finish(self) -> Result<Vec<Listed>, String> {
        let mut names = BTreeSet::new();
        match self.0.iter().find(|listed| !names.insert(&*listed.name)) {
            Some(twice) => Err(format!(
                "two benchmarks are called `{}`, so a result could be of either (give one of them another name)",
                twice.name
            )),
            None => Ok(self.0),
        }
    }
}

fn none_wanted(listed: &[Listed], options: &Options) -> String {
    let Some(name) = options.names.first() else {
        return "there is no benchmark (add one by `c.bench_function`)".to_owned();
    };
    let hint = nearest::hint(name, listed.iter().map(|benchmark| &*benchmark.name));
    format!("no benchmark is called `{name}`{hint} (--list shows all)")
}

/// Calls each benchmark once.
fn tried(functions: &[Register], options: &Options) -> ExitCode {
    let mut trying = Trying { options, failed: 0 };
    visit(functions, &mut trying);
    ExitCode::from(if trying.failed > 0 { TEST_FAILED } else { 0 })
}

struct Trying<'o> {
    options: &'o Options,
    failed: usize,
}

impl Visitor for Trying<'_> {
    fn visit(&mut self, listed: Listed, benchmark: &mut dyn FnMut(&mut Bencher<'_>)) {
        if !self.options.wants(&listed.name) {
            return;
        }
        let mut bencher = Bencher::new(None);
        // The panic's message is already printed.
        let ended = catch_unwind(AssertUnwindSafe(|| benchmark(&mut bencher)));
        let result = match ended.map(|()| bencher.finish()) {
            Ok(Ok(())) => "ok".to_owned(),
            Ok(Err(failure)) => format!("FAILED: {}", failure.reason),
            Err(_) => "FAILED: it panicked".to_owned(),
        };
        self.failed += usize::from(result != "ok");
        text::print(&format!("test {} ... {result}\n", listed.name));
    }
}

/// Measures the benchmarks, prints each when it is known, and compares.
fn measured(program: &str, wanted: &[&Listed], options: &Options) -> Result<ExitCode, String> {
    // A thread that spins under a real-time policy keeps everything else from its CPU.
    real_time::leave().map_err(|error| format!("cannot leave the real-time policy: {error}"))?;
    let folder = record::folder(program);
    let baseline = options.baseline.as_deref().map(|name| baseline(&folder, name)).transpose()?;
    let own = controller::own_worker()?;
    let mut controller = Controller::new(&own, options.timeout.unwrap_or(TIMEOUT))?;
    let other = options.against.as_deref();
    let other = other.map(|program| controller.other(program)).transpose()?;
    let names: Vec<&str> = wanted.iter().map(|benchmark| &*benchmark.name).collect();
    let seed = fastrand::u64(..);
    let mut rows = [record::first_row(&names, seed), record::first_row(&names, seed)];
    if other.is_some() {
        let [one, two] = rows.each_ref().map(|row| row.id.clone());
        rows[0].beside = Some(two);
        rows[1].beside = Some(one);
    }
    let [row, other_row] = rows;
    let earlier = match (&baseline, &other) {
        (None, None) => record::newest_first(&folder),
        _ => Vec::new(),
    };
    let mut earlier = Earlier { files: earlier.into_iter(), runs: baseline.into_iter().collect() };
    let mut sides = Vec::new();
    if let Some((command, description)) = other {
        // Apart from the runs of this build, with which later ones are compared.
        let folder = folder.join("against");
        let record = Record::create(&folder, other_row, &description, &names)?;
        record::remove_old(&folder);
        sides.push(Side { command, record });
    }
    let record = Record::create(&folder, row, &controller.description, &names)?;
    sides.push(Side { command: own, record });
    let matters = options.threshold.unwrap_or(MATTERS);
    let budget = options.budget.unwrap_or(BUDGET);
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (position, benchmark) in wanted.iter().enumerate() {
        text::progress(&benchmark.name);
        controller.measure(&mut sides, position, &benchmark.name, budget);
        for side in &mut sides {
            estimated(side, position, &benchmark.name, &controller);
        }
        text::progress("");
        let (before, after) = parts(&sides, &mut earlier, &benchmark.name);
        let compared = before.map(|before| compare(before, after, Metrics::Primary, matters));
        let change = compared.as_ref().and_then(|compared| of_benchmark(compared, &benchmark.name));
        text::print(&text::benchmark(benchmark, after, change, width));
    }
    for side in &mut sides {
        end(&mut side.record);
    }
    record::remove_old(&folder);
    let own = sides.last().expect("this build is a side");
    let has_numbers = !own.record.run.points.is_empty();
    match &options.save {
        Some(name) if has_numbers => save(&folder, name, &own.record.path)?,
        Some(name) => text::warn(&format!("nothing has a number, so nothing is saved as {name}")),
        None => {}
    }
    let comparisons = comparisons(&sides, &earlier, matters);
    text::print(&text::conclusion(&comparisons, &own.record, options));
    Ok(ExitCode::from(match options.threshold {
        _ if !has_numbers => WRONG,
        Some(threshold) => gate(&comparisons, wanted.len(), threshold),
        None => 0,
    }))
}

/// Derives a benchmark's row from its launches.
fn estimated(side: &mut Side, position: usize, name: &str, controller: &Controller) {
    let run = &side.record.run;
    let launches: Vec<_> = run.launches.iter().filter(|launch| launch.block == position).collect();
    let (info, point) = (described(name), recorded(name));
    let clock = &controller.description.clock;
    let row = match estimate::point(&info, &point, None, &launches, None, clock) {
        Ok(row) => Row::Point(Box::new(row)),
        // Each failed launch has said why.
        Err(_) if run.failures.iter().any(|failure| failure.block == position) => return,
        Err(failure) => controller::failed(name, position, None, optimised_away(failure)),
    };
    side.record.write(row);
}

/// What refuted the proof of work is the compiler, as a rule.
fn optimised_away(failure: Failure) -> Failure {
    let reason = format!(
        "{} (did the compiler remove the work? Pass its input through `black_box`)",
        failure.reason
    );
    Failure { reason, ..failure }
}

/// Runs to compare with, read when they are needed.
struct Earlier {
    files: std::vec::IntoIter<PathBuf>,
    runs: Vec<Run>,
}

impl Earlier {
    /// The newest run that has a number for the benchmark.
    fn having(&mut self, name: &str) -> Option<&Run> {
        let point = recorded(name);
        let has = |run: &Run| run.points.iter().any(|row| row.point == point);
        if let Some(at) = self.runs.iter().position(has) {
            return self.runs.get(at);
        }
        for file in self.files.by_ref() {
            // One that cannot be read is as if it were not there: this run is not about it.
            let Ok(run) = record::read(&file) else { continue };
            let is_it = has(&run);
            self.runs.push(run);
            if is_it {
                return self.runs.last();
            }
        }
        None
    }
}

/// The run to compare with, if there is one, and this one.
fn parts<'a>(
    sides: &'a [Side],
    earlier: &'a mut Earlier,
    name: &str,
) -> (Option<&'a Run>, &'a Run) {
    match sides {
        [other, own] => (Some(&other.record.run), &own.record.run),
        [own] => (earlier.having(name), &own.record.run),
        _ => unreachable!("a program is one side, or one of two"),
    }
}

fn of_benchmark<'c>(comparison: &'c Comparison, name: &str) -> Option<&'c Compared> {
    let point = recorded(name);
    comparison.rows.iter().find(|row| row.point == point)
}

/// The comparisons with each run that was needed, each benchmark in the newest one that has it.
fn comparisons(sides: &[Side], earlier: &Earlier, matters: f64) -> Vec<Comparison> {
    if let [other, own] = sides {
        return vec![compare(&other.record.run, &own.record.run, Metrics::Primary, matters)];
    }
    let own = &sides[0].record.run;
    let mut left = own.clone();
    let mut found = Vec::new();
    for run in &earlier.runs {
        let comparison = compare(run, &left, Metrics::Primary, matters);
        let is_in = |row: &PointRow| run.points.iter().any(|old| old.point == row.point);
        left.points.retain(|row| !is_in(row));
        found.push(comparison);
    }
    found
}

/// Judges by `--threshold`, and says why: whether a benchmark is surely slower by more, or one cannot be decided.
fn gate(comparisons: &[Comparison], wanted: usize, threshold: f64) -> u8 {
    let rows: Vec<&Compared> = comparisons.iter().flat_map(|comparison| &comparison.rows).collect();
    let is_worse = |row: &&&Compared| row.verdict == Verdict::Worse && row.ci95.0 > 1.0 + threshold;
    let worse = rows.iter().filter(is_worse).count();
    let decided = rows.iter().filter(|row| row.verdict != Verdict::CannotTell).count();
    let compared = rows.len();
    let slower = format!("surely slower by more than {} %", 100.0 * threshold);
    let (code, line) = match () {
        () if worse > 0 => (WORSE, format!("FAIL: {worse} of {wanted} {slower}")),
        () if compared < wanted => (
            UNDECIDED,
            format!(
                "INCONCLUSIVE: only {compared} of {wanted} could be compared with a number from before"
            ),
        ),
        () if decided < wanted => {
            (UNDECIDED, format!("INCONCLUSIVE: only {decided} of {wanted} could be decided"))
        }
        () => (0, format!("PASS: none of {wanted} is {slower}")),
    };
    text::print(&format!("\n{line}\n"));
    code
}

fn end(record: &mut Record) {
    let Run { points, failures, .. } = &record.run;
    let (points, failures) = (points.len() as u64, failures.len() as u64);
    let finished = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    record.write(Row::End(EndRow { finished, points, failures }));
    if let Some(error) = &record.error {
        text::warn(&format!("{} is not whole: {error}", record.path.display()));
    }
}

/// Where `--save` keeps a result.
fn saved(folder: &Path, name: &str) -> PathBuf {
    folder.join("saved").join(format!("{name}.jsonl"))
}

fn save(folder: &Path, name: &str, run: &Path) -> Result<(), String> {
    let path = saved(folder, name);
    let parent = path.parent().unwrap_or(folder);
    // One that is interrupted leaves the result that was saved before.
    let new = parent.join(format!("{name}.new"));
    let copied = std::fs::create_dir_all(parent).and_then(|()| std::fs::copy(run, &new));
    copied
        .and_then(|_| std::fs::rename(&new, &path))
        .map_err(|error| format!("cannot save {}: {error}", path.display()))
}

/// The run that `--baseline` names: one that was saved, or a file.
fn baseline(folder: &Path, name: &str) -> Result<Run, String> {
    let kept = saved(folder, name);
    let path = if kept.is_file() { kept } else { PathBuf::from(name) };
    if !path.is_file() {
        let names = record::newest_first(&folder.join("saved"));
        let mut names: Vec<&str> =
            names.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
        names.sort_unstable();
        let known = match &names[..] {
            [] => "nothing is saved: --save NAME saves a result".to_owned(),
            names => format!("saved: {}", names.join(", ")),
        };
        return Err(format!(
            "--baseline {name}: there is no such result and no such file ({known})"
        ));
    }
    record::read(&path)
}
