//! `costof qualify` on hosts resampled from real runs, launch by launch: how many that belong fail, how many that are
//! slowed in one row pass it, and how long it takes beside a whole run.

use crate::bench::Bench;
use crate::error::{Result, failed};
use crate::fleet::{Base, SEED, base, of_host};
use crate::share::Share;
use crate::verdict::Verdict;
use costof_measure::qualify::{Block, Qualification};
use costof_measure::{estimate, fleet};
use costof_model::noise::Grade;
use costof_model::qualified::{Qualified, Risks, Verdict as Of};
use costof_model::reference::Cohort;
use costof_model::rows::{LaunchRow, PointRow};
use costof_model::unit::Better;
use costof_stats::median;
use fastrand::Rng;
use std::path::PathBuf;
use std::time::Duration;

/// The hosts of the reference, and those of each kind that are qualified.
const HOSTS: usize = 200;
const QUALIFIED: usize = 300;
/// The changes that matter.
const CHANGES: [f64; 4] = [0.05, 0.1, 0.2, 0.5];
const BUDGET: Duration = Duration::from_secs(60);
/// The risks that are the command's defaults.
const PRODUCER: f64 = 0.05;
const CONSUMER: f64 = 0.1;

/// A host whose launches are those of one real run in any order, moved towards another run, and one of its rows slowed.
struct Host<'b> {
    base: &'b Base,
    towards: &'b Base,
    far: f64,
    slowed: Option<(usize, f64)>,
}

pub(crate) fn compare(bench: &Bench, files: &[PathBuf]) -> Result<Vec<Verdict>> {
    let mut random = Rng::with_seed(SEED);
    let bases: Vec<Base> =
        files.iter().map(|file| base(file, &mut random)).collect::<Result<_>>()?;
    if bases.len() < 3 {
        return Err(failed("qualify needs three runs of different minutes or hosts"));
    }
    let mut all = Vec::new();
    for host in 0..HOSTS {
        all.extend(of_host(&bases, 1, &mut random, host, None));
    }
    let reference = fleet::reference(&all, &[]);
    let cohort = &reference.cohorts[0];
    println!(
        "seed {SEED}; a reference of {HOSTS} hosts resampled from {} runs, {} rows\n",
        bases.len(),
        cohort.rows.len()
    );
    println!(
        "| change | rows judged | of hosts like those: pass | fail | seconds | of hosts slowed in one row: that row passes | the host fails | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let (mut failed, mut passed) = (Share::default(), Share::default());
    for change in CHANGES {
        let [fail, pass] = kind(&bases, cohort, change, bench.rounds(QUALIFIED), &mut random);
        (failed, passed) = (failed.and(fail), passed.and(pass));
    }
    println!("\nhosts like those that fail: {failed}; slowed rows that pass: {passed}");
    Ok(vec![
        failed.judge(crate::verdict::at_most(PRODUCER)),
        passed.judge(crate::verdict::at_most(CONSUMER)),
    ])
}

/// Hosts at one change that matters: how many of those that belong fail, and how many slowed rows pass.
fn kind(
    bases: &[Base],
    cohort: &Cohort,
    change: f64,
    hosts: usize,
    random: &mut Rng,
) -> [Share; 2] {
    let risks = Risks { change, producer: PRODUCER, consumer: CONSUMER };
    let rows = Qualification::new(cohort, risks, |_| None).rows().count();
    let mut cells = vec![format!("{:.0} %", 100.0 * change), rows.to_string()];
    if rows == 0 {
        println!("| {} | | | | | | |", cells.join(" | "));
        return [Share::default(); 2];
    }
    let mut wrong = [Share::default(); 2];
    for (kind, wrong) in wrong.iter_mut().enumerate() {
        let (mut right, mut seconds) = (Share::default(), Vec::new());
        for _ in 0..hosts {
            let pair = random.choose_multiple(bases, 2);
            let slowed = (kind == 1).then(|| (random.usize(..rows), change));
            let host = Host { base: pair[0], towards: pair[1], far: random.f64(), slowed };
            let of = host.qualified(cohort, risks, random);
            seconds.push(of.seconds);
            match slowed {
                None => {
                    right.add(of.verdict == Of::Pass);
                    wrong.add(of.verdict == Of::Fail);
                }
                Some((row, _)) => {
                    let rows = Qualification::new(cohort, risks, |_| None);
                    let slow = &rows.rows().nth(row).expect("one of the rows").of;
                    right.add(of.verdict == Of::Fail);
                    wrong.add(of.rows.iter().any(|row| row.of == *slow && row.verdict == Of::Pass));
                }
            }
        }
        let percent = |share: Share| format!("{:.1} %", 100.0 * share.share());
        let shares = if kind == 0 { [right, *wrong] } else { [*wrong, right] };
        cells.extend(shares.map(percent));
        cells.push(format!("{:.1}", median(&seconds).unwrap_or(0.0)));
    }
    println!("| {} |", cells.join(" | "));
    wrong
}

impl Host<'_> {
    fn qualified(&self, cohort: &Cohort, risks: Risks, random: &mut Rng) -> Qualified {
        let mut qualification = Qualification::new(cohort, risks, |_| None);
        let judged: Vec<_> = qualification.rows().map(|row| &row.of.point).collect();
        let blocks = self.base.run.run.plan.blocks.iter().enumerate();
        let mut states: Vec<(Block, Vec<&LaunchRow>, Vec<&LaunchRow>)> = blocks
            .map(|(number, block)| {
                let rows = block.points.iter();
                let rows = rows.filter_map(|point| judged.iter().position(|row| *row == point));
                let mut launches: Vec<&LaunchRow> =
                    self.base.launches.iter().filter(|launch| launch.block == number).collect();
                random.shuffle(&mut launches);
                let times: Vec<f64> = launches.iter().map(|launch| launch.wall_ns).collect();
                let block = Block {
                    rows: rows.filter(|_| !launches.is_empty()).collect(),
                    launch: Duration::from_nanos(median(&times).unwrap_or(0.0) as u64),
                    rested: None,
                };
                (block, launches, Vec::new())
            })
            .collect();
        let (mut elapsed, mut count) = (Duration::ZERO, 0);
        loop {
            let blocks: Vec<Block> = states.iter().map(|(block, ..)| block.clone()).collect();
            let next = qualification.next(&blocks).filter(|_| elapsed < BUDGET);
            let Some(at) = next else {
                return qualification.concluded(elapsed.as_secs_f64(), count, &blocks);
            };
            let (_, all, own) = &mut states[at];
            // Each once, before any comes again: launches that are drawn twice seem to agree.
            let launch = all[own.len() % all.len()];
            own.push(launch);
            let took = Duration::from_nanos(launch.wall_ns as u64);
            (elapsed, count) = (elapsed + took, count + 1);
            for (block, ..) in &mut states {
                block.rested = block.rested.map(|rested| rested + took);
            }
            let (block, _, own) = &mut states[at];
            block.rested = Some(Duration::ZERO);
            for row in &block.rows {
                let measured = self.measured(*row, judged[*row], own);
                qualification.update(*row, measured.as_ref(), own.len() as u32);
            }
        }
    }

    /// The row of these launches.
    fn measured(
        &self,
        position: usize,
        point: &costof_model::point::Point,
        launches: &[&LaunchRow],
    ) -> Option<PointRow> {
        let run = &self.base.run;
        let (info, clock) = (run.probe(&point.probe)?, &run.attempts.last()?.clock);
        let mut row = estimate::point(info, point, None, launches, None, clock).ok()?;
        // A number beside a neighbour is no property of a run.
        let of = |rows: &[PointRow]| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.point == *point && row.grade < Grade::C)?;
            Some(row.primary()?.median)
        };
        let [from, to] = [&self.base.rows[..], &self.towards.rows].map(of);
        let ratio = to.zip(from).map_or(1.0, |(to, from)| to / from);
        let mut times = ratio.powf(self.far);
        if let Some((_, change)) = self.slowed.filter(|(slowed, _)| *slowed == position) {
            let is_rate = row.primary()?.better == Better::Higher;
            times *= (1.0 + change).powf(if is_rate { -1.0 } else { 1.0 });
        }
        for metric in &mut row.metrics {
            metric.median *= times;
            metric.ci95 = metric.ci95.map(|(low, high)| (low * times, high * times));
        }
        Some(row)
    }
}
