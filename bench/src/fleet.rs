//! `costof fleet` on fleets resampled from real runs, beside two rules that people use: of the hosts called odd, how
//! many are not, and how many of the slowed ones are found. A host has one or several runs; each lies between two of
//! the real ones, whose launches are drawn anew: each row between two that had the core to themselves, or two that
//! shared it.

use crate::bench::Bench;
use crate::error::{OrCannot, Result, failed};
use crate::share::Share;
use crate::verdict::Verdict;
use clap::Args;
use costof_measure::{estimate, fleet};
use costof_model::fleet::Fleet;
use costof_model::metric::Estimate;
use costof_model::noise::{Grade, MEASURED};
use costof_model::point::Point;
use costof_model::rows::{LaunchRow, PointRow};
use costof_model::run_file::{self, Run};
use costof_model::unit::Better;
use costof_peers::agreement::Band;
use costof_stats::{mean, median};
use fastrand::Rng;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

pub(crate) const SEED: u64 = 20_261_126;
/// How often the launches of each run are drawn.
pub(crate) const DRAWS: usize = 30;
/// Of which fleets.
#[derive(Clone, Debug, Args)]
pub(crate) struct Fleets {
    /// Of the random numbers
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// Hosts of a fleet
    #[arg(long, value_name = "N", default_value_t = 1000)]
    hosts: usize,
    /// Runs of each host
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,3")]
    runs_each: Vec<usize>,
    /// Slowed hosts of a fleet; a number may come several times
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10,25,50")]
    slowed: Vec<usize>,
    /// By how many percent
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "3,5,10,20")]
    by: Vec<u32>,
}

/// Fewer runs are no fleet.
const MIN_BASES: usize = 3;
/// So many fleets of each kind, and so many times as many without an odd host: that they raise no false alarm shows
/// that one in twenty does at most.
const FLEETS: usize = 8;
const WITHOUT: usize = 10;
/// Of the hosts called odd, at most this share may not be.
const FALSE_SHARE: Band = crate::verdict::at_most(0.05);
/// A rule is given this many times the false discoveries of costof.
const GIVEN: usize = 10;

/// The rows of one run, its launches drawn several times.
pub(crate) struct Base {
    pub(crate) run: Run,
    /// The launches of the run, which are no longer in it.
    pub(crate) launches: Vec<LaunchRow>,
    /// Its rows.
    pub(crate) rows: Vec<PointRow>,
    pub(crate) drawn: Vec<Vec<PointRow>>,
}

/// What came of fleets of one kind.
#[derive(Default)]
struct Tally {
    slowed: usize,
    called: Share,
    /// Whether any host of a fleet was called odd falsely.
    alarms: Share,
    /// The slowed hosts that are found, by the layer that was slowed.
    found: BTreeMap<String, Share>,
    rules: [Rule; 2],
}

/// A fixed rule: it calls a host odd whose worst row exceeds a limit.
#[derive(Default)]
struct Rule {
    /// The worst row of each host, as a multiple of the limit, and whether it was slowed.
    worst: Vec<(f64, bool)>,
}

impl Rule {
    /// How many slowed hosts, and how many others, have a row above the limit.
    fn called(&self) -> (usize, usize) {
        let called = self.worst.iter().filter(|(worst, _)| *worst > 1.0);
        let found = called.clone().filter(|(_, is_slowed)| *is_slowed).count();
        (found, called.count() - found)
    }

    /// How many slowed hosts it finds with another limit, at which this many others are called odd.
    fn found_with(&self, falsely: usize) -> usize {
        let mut worst = self.worst.clone();
        worst.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut others = 0;
        let within = worst.iter().take_while(|(_, is_slowed)| {
            others += usize::from(!is_slowed);
            others <= falsely
        });
        within.filter(|(_, is_slowed)| *is_slowed).count()
    }
}

pub(crate) fn compare(bench: &Bench, files: &[PathBuf], of: &Fleets) -> Result<Vec<Verdict>> {
    let mut random = Rng::with_seed(of.seed);
    let bases: Vec<Base> =
        files.iter().map(|file| base(file, &mut random)).collect::<Result<_>>()?;
    if bases.len() < MIN_BASES {
        return Err(failed("fleet needs several runs of different minutes or hosts"));
    }
    if of.slowed.iter().any(|slowed| *slowed > of.hosts) {
        return Err(failed("fleet: --slowed is more than --hosts"));
    }
    let rows = bases.iter().map(|base| base.drawn[0].len() as f64);
    println!(
        "seed {}; {} hosts resampled from {} runs, whose median has {:.0} rows of grade A to C\n",
        of.seed,
        of.hosts,
        bases.len(),
        median(&rows.collect::<Vec<_>>()).unwrap_or(0.0),
    );
    let mut verdicts = Vec::new();
    for runs in &of.runs_each {
        verdicts.extend(compare_with(&bases, *runs, bench.rounds(FLEETS), of, &mut random));
    }
    Ok(verdicts)
}

/// Fleets whose hosts have this many runs.
fn compare_with(
    bases: &[Base],
    runs: usize,
    fleets: usize,
    of: &Fleets,
    random: &mut Rng,
) -> [Verdict; 2] {
    let size = (of.hosts, runs);
    let mut none = Tally::default();
    for _ in 0..WITHOUT * fleets {
        add(&mut none, bases, size, random, (0, 0.0));
    }
    println!("{runs} to a host, none slowed: fleets with a host called odd: {}", none.alarms);
    println!("\n| slowed | by | costof | 5 % worse | 6 MAD | 5 % widened | 6 MAD widened |");
    println!("|---|---|---|---|---|---|---|");
    let mut all = Share::default();
    let mut by_layer: BTreeMap<String, Vec<Share>> = BTreeMap::new();
    for slowed in &of.slowed {
        for (at, percent) in of.by.iter().enumerate() {
            let share = f64::from(*percent) / 100.0;
            let mut tally = Tally::default();
            for _ in 0..fleets {
                add(&mut tally, bases, size, random, (*slowed, share));
            }
            print_row(&tally, *slowed, share);
            all = all.and(tally.called);
            for (layer, found) in tally.found {
                let layers = [layer, "all".to_owned()];
                for layer in layers {
                    let layer = by_layer
                        .entry(layer)
                        .or_insert_with(|| vec![Share::default(); of.by.len()]);
                    layer[at] = layer[at].and(found);
                }
            }
        }
    }
    let by: Vec<String> = of.by.iter().map(|percent| format!("{percent} %")).collect();
    println!("\n| slowed layer | {} |", by.join(" | "));
    println!("|---|{}", "---|".repeat(of.by.len()));
    for (layer, found) in by_layer {
        let found: Vec<String> = found.iter().map(Share::to_string).collect();
        println!("| {layer} | {} |", found.join(" | "));
    }
    println!("\n{runs} to a host: called odd and not slowed: {all}\n");
    [none.alarms.judge(FALSE_SHARE), all.judge(FALSE_SHARE)]
}

fn print_row(tally: &Tally, slowed: usize, share: f64) {
    let percent = |count: usize| 100.0 * count as f64 / tally.slowed as f64;
    let falsely = tally.called.came();
    let found = tally.found.values().map(|found| found.came()).sum();
    let own = format!("{:.0} %, {falsely} false", percent(found));
    let fixed = tally.rules.iter().map(|rule| {
        let (found, falsely) = rule.called();
        format!("{:.0} %, {falsely} false", percent(found))
    });
    let given = GIVEN * falsely.max(1);
    let widened = tally
        .rules
        .iter()
        .map(|rule| format!("{:.0} %, {given} false", percent(rule.found_with(given))));
    let cells: Vec<String> = std::iter::once(own).chain(fixed).chain(widened).collect();
    println!("| {slowed} | {:.0} % | {} |", share * 100.0, cells.join(" | "));
}

pub(crate) fn base(file: &PathBuf, random: &mut Rng) -> Result<Base> {
    let open = File::open(file).or_cannot(format_args!("open {}", file.display()))?;
    let mut run =
        run_file::read(BufReader::new(open)).or_cannot(format_args!("read {}", file.display()))?;
    let drawn = (0..DRAWS).map(|_| drawn(&run, random)).collect();
    let launches = std::mem::take(&mut run.launches);
    let rows = std::mem::take(&mut run.points);
    Ok(Base { run, rows, launches, drawn })
}

/// The sound rows of a run whose launches are drawn from its own with replacement, block by block. Each keeps
/// the width of its interval, as launches that are drawn twice seem to agree.
fn drawn(run: &Run, random: &mut Rng) -> Vec<PointRow> {
    let mut of_block: HashMap<usize, Vec<&LaunchRow>> = HashMap::new();
    for launch in &run.launches {
        of_block.entry(launch.block).or_default().push(launch);
    }
    let mut drawn = run.clone();
    for launch in &mut drawn.launches {
        let alike = &of_block[&launch.block];
        *launch = alike[random.usize(..alike.len())].clone();
    }
    (drawn.end, drawn.points) = (None, Vec::new());
    let rows = estimate::so_far(&drawn).into_iter().filter_map(|row| {
        let real = run.points.iter().find(|real| real.point == row.point && real.is_sound())?;
        let mut estimate = real.primary()?.clone();
        let again = row.primary()?;
        let times = again.median / estimate.median;
        estimate.median = again.median;
        (estimate.mean, estimate.sd, estimate.n) = (again.mean, again.sd, again.n);
        estimate.ci95 = estimate.ci95.map(|(low, high)| (low * times, high * times));
        let (metrics, grade) = (vec![estimate], real.grade.max(row.grade));
        let row =
            PointRow { metrics, grade, warnings: Vec::new(), prediction: None, ..real.clone() };
        row.is_sound().then_some(row)
    });
    let mut rows: Vec<PointRow> = rows.collect();
    rows.sort_by(by_point);
    rows
}

/// The order in which [`between`] looks rows up.
fn by_point(one: &PointRow, other: &PointRow) -> Ordering {
    (&one.point, one.method).cmp(&(&other.point, other.method))
}

/// Adds a fleet in which so many hosts are slowed by this share in one layer.
fn add(
    tally: &mut Tally,
    bases: &[Base],
    (hosts, runs): (usize, usize),
    random: &mut Rng,
    (slowed, share): (usize, f64),
) {
    let layers: BTreeSet<&str> = bases[0].drawn[0].iter().map(|row| row.point.layer()).collect();
    let layers: Vec<&str> = layers.into_iter().collect();
    let slow: Vec<&str> = (0..slowed).map(|_| layers[random.usize(..layers.len())]).collect();
    let all: Vec<Run> = (0..hosts)
        .flat_map(|host| {
            of_host(bases, runs, random, host, slow.get(host).map(|layer| (*layer, share)))
        })
        .collect();
    let is_slowed = |name: &str| name.parse::<usize>().is_ok_and(|host| host < slowed);
    let found = fleet::fleet(&all, &fleet::BY);
    let before = tally.called.came();
    let odd: BTreeSet<&str> = odd(&found).collect();
    odd.iter().for_each(|name| tally.called.add(!is_slowed(name)));
    for (host, layer) in slow.iter().enumerate() {
        let found = tally.found.entry((*layer).to_owned()).or_default();
        found.add(odd.contains(&*host.to_string()));
    }
    tally.alarms.add(tally.called.came() > before);
    tally.slowed += slowed;
    let worst = worst_rows(&all);
    for (rule, worst) in tally.rules.iter_mut().zip(worst) {
        rule.worst.extend(worst.into_iter().map(|(host, worst)| (worst, is_slowed(host))));
    }
}

fn odd(found: &Fleet) -> impl Iterator<Item = &str> {
    let hosts = found.cohorts.iter().flat_map(|cohort| &cohort.hosts);
    hosts.filter(|host| host.verdict.is_odd()).map(|host| host.name.as_str())
}

/// The runs of one host, with this layer so much slower. Each lies between two of the real runs, anywhere:
/// a smoothed bootstrap (B. W. Silverman and G. A. Young, "The bootstrap: to smooth or not to smooth?",
/// Biometrika 74, 1987). Otherwise, few real runs would make as many populations of hosts.
pub(crate) fn of_host(
    bases: &[Base],
    runs: usize,
    random: &mut Rng,
    host: usize,
    slow: Option<(&str, f64)>,
) -> Vec<Run> {
    let runs = (0..runs).map(|_| {
        let bases = random.choose_multiple(bases, bases.len());
        let mut run = bases[0].run.clone();
        let facts = run.attempts.iter_mut().filter_map(|attempt| attempt.hosts.get_mut(MEASURED));
        facts.for_each(|facts| facts.host_name = Some(host.to_string()));
        let drawn: Vec<&[PointRow]> =
            bases.iter().map(|base| &*base.drawn[random.usize(..DRAWS)]).collect();
        run.points = between(drawn[0], &drawn[1..], random.f64());
        for row in &mut run.points {
            if let Some((_, share)) = slow.filter(|(layer, _)| row.point.layer() == *layer) {
                slow_down(row, 1.0 + share);
            }
        }
        run
    });
    runs.collect()
}

/// The rows of one run, each this far towards the first of the others in which the core was in the same state: nothing
/// lies between a core alone and a shared one. Without another, it stays as it is.
fn between<'a>(one: &[PointRow], others: &[&'a [PointRow]], far: f64) -> Vec<PointRow> {
    let mix = |one: f64, other: f64| (one.ln() * (1.0 - far) + other.ln() * far).exp();
    let rows = one.iter().map(|row| {
        let like = |rows: &&'a [PointRow]| {
            let at = rows.binary_search_by(|other| by_point(other, row)).ok()?;
            Some(&rows[at]).filter(|other| (other.grade == Grade::C) == (row.grade == Grade::C))
        };
        let Some(second) = others.iter().find_map(like) else {
            return row.clone();
        };
        let mut row = PointRow { grade: row.grade.max(second.grade), ..row.clone() };
        for (metric, second) in row.metrics.iter_mut().zip(&second.metrics) {
            let median = mix(metric.median, second.median);
            (metric.mean, metric.sd) = mixed(metric, second, median, far);
            metric.median = median;
            let both = metric.ci95.zip(second.ci95);
            metric.ci95 = both.map(|(ours, theirs)| (mix(ours.0, theirs.0), mix(ours.1, theirs.1)));
        }
        row
    });
    rows.collect()
}

/// The mean and the standard deviation, about this median, of batches that are of the second with this probability.
fn mixed(one: &Estimate, other: &Estimate, median: f64, far: f64) -> (f64, Option<f64>) {
    let moments = |of: &Estimate| {
        let mean = of.mean / of.median;
        (mean, (of.sd.unwrap_or(0.0) / of.median).powi(2) + mean.powi(2))
    };
    let (one, other) = (moments(one), moments(other));
    let mix = |one: f64, other: f64| one * (1.0 - far) + other * far;
    let (mean, square) = (mix(one.0, other.0), mix(one.1, other.1));
    (median * mean, Some(median * (square - mean.powi(2)).max(0.0).sqrt()))
}

fn slow_down(row: &mut PointRow, times: f64) {
    for metric in &mut row.metrics {
        let times = if metric.better == Better::Higher { times.recip() } else { times };
        metric.median *= times;
        metric.mean *= times;
        metric.sd = metric.sd.map(|sd| sd * times);
        metric.ci95 = metric.ci95.map(|(low, high)| (low * times, high * times));
    }
}

/// The worst row of each host as a multiple of what is 5 % worse than the median host, and of six times the
/// median absolute deviation, either way.
fn worst_rows(all: &[Run]) -> [BTreeMap<&str, f64>; 2] {
    let mut rows: BTreeMap<&Point, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for run in all {
        let Some(host) = run.facts().and_then(|facts| facts.host_name.as_deref()) else {
            continue;
        };
        for row in &run.points {
            let Some(estimate) = row.primary() else {
                continue;
            };
            let sign = if estimate.better == Better::Higher { -1.0 } else { 1.0 };
            let hosts = rows.entry(&row.point).or_default();
            hosts.entry(host).or_default().push(sign * estimate.median.ln());
        }
    }
    let mut worst: [BTreeMap<&str, f64>; 2] = Default::default();
    for hosts in rows.values() {
        let values: Vec<(&str, f64)> =
            hosts.iter().filter_map(|(host, runs)| Some((*host, mean(runs)?))).collect();
        let middle =
            median(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>()).unwrap_or(0.0);
        let offs = values.iter().map(|(_, value)| (value - middle).abs());
        let mad = median(&offs.collect::<Vec<_>>()).unwrap_or(0.0);
        for (host, value) in values {
            let off = value - middle;
            for (worst, multiple) in
                worst.iter_mut().zip([off.exp_m1() / 0.05, off.abs() / (6.0 * mad)])
            {
                let worst = worst.entry(host).or_default();
                *worst = worst.max(multiple);
            }
        }
    }
    worst
}
