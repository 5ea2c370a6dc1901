//! Whether one host is as the hosts of a reference are, decided launch by launch. Pure.
//!
//! Each row is a sequential test ([`costof_stats::sequential`]). The producer's risk is divided among the rows, so
//! that it is that of the host (Bonferroni); the consumer's is that of each row.

use crate::fleet::{HALF_WIDTH, graded, reading};
use crate::grade::CORE_SHARED;
use crate::schedule::MIN_LAUNCHES;
use costof_model::PointRow;
use costof_model::qualified::{JudgedRow, LeftOut, Qualified, Risks, Verdict};
use costof_model::reference::{Cohort, Row};
use costof_stats::ORDER_FROM;
use costof_stats::outliers::Reading;
use costof_stats::sequential::{Belong, SequentialTest, Shown};
use std::time::Duration;

/// A row gets at most this many launches: more than a run of any precision gives it.
const MAX_LAUNCHES: u32 = 30;
/// Launches of a block are this far apart, as long as there are others: a neighbour's burst is seldom longer.
const APART: Duration = Duration::from_secs(1);

/// A host that is being qualified.
pub struct Qualification<'r> {
    cohort: &'r Cohort,
    risks: Risks,
    rows: Vec<Judged<'r>>,
    left_out: Vec<LeftOut>,
}

/// A row that is being judged.
struct Judged<'r> {
    row: &'r Row,
    test: SequentialTest,
    /// What was measured, for the worse above zero; `None` if there is nothing to conclude from.
    off: Option<Reading>,
    launches: u32,
    verdict: Verdict,
}

/// A block of points that are measured together.
#[derive(Clone, Debug)]
pub struct Block {
    /// The positions of its rows in the order in which they were given.
    pub rows: Vec<usize>,
    /// How long a launch takes.
    pub launch: Duration,
    /// How long ago its last launch was.
    pub rested: Option<Duration>,
}

/// The test of one of so many rows.
fn test(row: &Row, risks: Risks, rows: usize) -> SequentialTest {
    let belong = Belong {
        spread: row.spread,
        degrees: row.degrees,
        members: row.hosts,
        error: row.error,
        measurement: row.launch,
    };
    let producer = risks.producer / rows.max(1) as f64;
    SequentialTest::new(belong, risks.change.ln_1p(), producer, risks.consumer)
}

impl<'r> Qualification<'r> {
    /// Judges a host by these rows of a cohort: by those in which hosts differ so little that the change can be
    /// shown, and divides the producer's risk among these. The others are left out, as are those that cannot be
    /// measured here, with the reason.
    pub fn new(
        cohort: &'r Cohort,
        risks: Risks,
        unmeasurable: impl Fn(&Row) -> Option<String>,
    ) -> Qualification<'r> {
        let rows = cohort.rows.iter().map(|row| (row, unmeasurable(row)));
        let (mut can, cannot): (Vec<_>, Vec<_>) = rows.partition(|(_, why)| why.is_none());
        // The order of the rows hardly depends on how many are judged.
        let smallest = |row: &Row, rows| test(row, risks, rows).smallest();
        can.sort_by(|(one, _), (other, _)| smallest(one, 1).total_cmp(&smallest(other, 1)));
        let shows = |count: &usize| smallest(can[count - 1].0, *count) <= risks.change.ln_1p();
        let count = (1..=can.len()).rev().find(shows).unwrap_or(0);
        let hidden = can.split_off(count);
        let left_out = hidden.into_iter().chain(cannot);
        Qualification {
            cohort,
            risks,
            rows: can
                .into_iter()
                .map(|(row, _)| Judged {
                    row,
                    test: test(row, risks, count),
                    off: None,
                    launches: 0,
                    verdict: Verdict::Undecided,
                })
                .collect(),
            left_out: left_out
                .map(|(row, why)| LeftOut {
                    of: row.of.clone(),
                    why,
                    change: smallest(row, count + 1).exp_m1(),
                })
                .collect(),
        }
    }

    /// The rows that are judged, in their order.
    pub fn rows(&self) -> impl Iterator<Item = &'r Row> {
        self.rows.iter().map(|judged| judged.row)
    }

    /// Judges the row at this position anew, from all launches so far. A verdict stays. A host fails by six
    /// launches or more, since three of a noisy host may agree by chance.
    pub fn update(&mut self, row: usize, measured: Option<&PointRow>, launches: u32) {
        let judged = &mut self.rows[row];
        judged.launches = launches;
        if judged.verdict != Verdict::Undecided {
            return;
        }
        let reading = measured.and_then(|row| Some(graded(reading(row)?.1, row.grade)));
        judged.off = reading.map(|reading| Reading {
            value: judged.row.better.worse(reading.value - judged.row.usual.ln()),
            ..reading
        });
        if let (Some(off), Some(measured)) = (judged.off, measured) {
            judged.verdict = match judged.test.shown(off, measured.launches) {
                Shown::Passes => Verdict::Pass,
                Shown::Fails if measured.launches >= ORDER_FROM as u32 && !was_shared(measured) => {
                    Verdict::Fail
                }
                Shown::Fails | Shown::Open => Verdict::Undecided,
            };
        }
    }

    /// The block whose next launch decides most rows for its time; `None` if a row failed, or nothing is left to
    /// decide.
    pub fn next(&self, blocks: &[Block]) -> Option<usize> {
        if self.verdict() != Verdict::Undecided {
            return None;
        }
        let open = (0..).zip(blocks).map(|(at, block)| (at, block, self.rate(block)));
        let open = open.filter(|(.., rate)| *rate > 0.0);
        let is_rested = |block: &Block| block.rested.is_none_or(|rested| rested >= APART);
        let (ready, tired): (Vec<_>, Vec<_>) = open.partition(|(_, block, _)| is_rested(block));
        let best = ready.into_iter().max_by(|(.., one), (.., other)| one.total_cmp(other));
        let best = best.or_else(|| tired.into_iter().max_by_key(|(_, block, _)| block.rested));
        best.map(|(at, ..)| at)
    }

    /// How many rows a launch of a block decides in a second.
    fn rate(&self, block: &Block) -> f64 {
        let rows = block.rows.iter().map(|row| &self.rows[*row]);
        let decided: f64 = rows.map(Judged::decided_by_a_launch).sum();
        decided / block.launch.as_secs_f64().max(1e-6)
    }

    /// How long it takes until all rows are decided that launches can decide.
    pub fn time_left(&self, blocks: &[Block]) -> Duration {
        let of_block = |block: &Block| {
            let open = block.rows.iter().map(|row| &self.rows[*row]).filter(|row| row.is_open());
            let most = open.filter_map(Judged::launches_left).max().unwrap_or(0);
            block.launch * most
        };
        blocks.iter().map(of_block).sum()
    }

    /// The verdict about the host, so far.
    pub fn verdict(&self) -> Verdict {
        let is = |verdict: Verdict| move |row: &Judged<'_>| row.verdict == verdict;
        match &self.rows[..] {
            rows if rows.iter().any(is(Verdict::Fail)) => Verdict::Fail,
            rows if !rows.is_empty() && rows.iter().all(is(Verdict::Pass)) => Verdict::Pass,
            _ => Verdict::Undecided,
        }
    }

    /// The verdict after this time and these launches, and what it rests on.
    pub fn concluded(self, seconds: f64, launches: u32, blocks: &[Block]) -> Qualified {
        let mut rows: Vec<JudgedRow> = self.rows.iter().map(Judged::shown).collect();
        let rank = |row: &JudgedRow| match row.verdict {
            Verdict::Fail => 0,
            Verdict::Undecided => 1,
            Verdict::Pass => 2,
        };
        rows.sort_by(|one, other| {
            let worse = |row: &JudgedRow| row.worse.unwrap_or(f64::INFINITY);
            (rank(one).cmp(&rank(other))).then(worse(other).total_cmp(&worse(one)))
        });
        Qualified {
            verdict: self.verdict(),
            facts: self.cohort.facts.clone(),
            hosts: self.cohort.hosts,
            risks: self.risks,
            seconds,
            launches,
            seconds_left: self.time_left(blocks).as_secs_f64(),
            rows,
            left_out: self.left_out,
        }
    }
}

/// Whether something else used the core: then the row is slower than the reference's rows, whatever the host.
fn was_shared(row: &PointRow) -> bool {
    row.warnings.iter().any(|warning| warning.kind == CORE_SHARED)
}

impl Judged<'_> {
    fn is_open(&self) -> bool {
        self.verdict == Verdict::Undecided && self.launches < MAX_LAUNCHES
    }

    fn launches_left(&self) -> Option<u32> {
        if self.off.is_none() && self.launches >= MIN_LAUNCHES {
            return None;
        }
        // A host that nothing is known of most likely belongs.
        let off = self.off.map_or(0.0, |off| off.value);
        let counts = MIN_LAUNCHES.max(self.launches + 1)..=MAX_LAUNCHES;
        let count = self.test.shown_after(off, counts)?;
        Some(count - self.launches)
    }

    /// How much of the row one launch decides.
    fn decided_by_a_launch(&self) -> f64 {
        if !self.is_open() {
            return 0.0;
        }
        let left = self.launches_left();
        1.0 / f64::from(left.unwrap_or(10 * MAX_LAUNCHES))
    }

    fn shown(&self) -> JudgedRow {
        let at = |widths: f64| self.off.map(|off| (off.value + widths * off.error).exp_m1());
        JudgedRow {
            of: self.row.of.clone(),
            verdict: self.verdict,
            here: self.off.map(|off| self.row.usual * self.row.better.worse(off.value).exp()),
            usual: self.row.usual,
            worse: at(0.0),
            worse_ci95: at(-HALF_WIDTH).zip(at(HALF_WIDTH)),
            launches: self.launches,
            launches_left: self.launches_left().filter(|_| self.is_open()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::rows::MetricOfPoint;
    use costof_model::testing::sized_row;
    use costof_model::unit::Better;
    use costof_stats::{median, median_interval};
    use std::collections::BTreeMap;

    const RISKS: Risks = Risks { change: 0.05, producer: 0.05, consumer: 0.1 };
    /// How far hosts scatter in these rows, and launches.
    const SPREAD: [f64; 5] = [0.002, 0.004, 0.006, 0.008, 0.05];
    const LAUNCH: f64 = 0.02;

    fn cohort() -> Cohort {
        let row = |(size, spread): (u64, f64)| {
            let row = sized_row("memory.x", size, 100.0);
            Row {
                of: MetricOfPoint::new(&row, &row.metrics[0]),
                method: 1,
                better: Better::Lower,
                usual: 100.0,
                spread,
                degrees: 10.0,
                error: 0.002,
                launch: LAUNCH,
                hosts: 200,
                runs: 200,
            }
        };
        Cohort {
            facts: Vec::new(),
            hosts: 200,
            runs: 200,
            rows: (1..).zip(SPREAD).map(row).collect(),
        }
    }

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// The verdict on a host whose first row is this much worse than that of one that belongs, within so many
    /// launches of 20 ms, and how many there were. `noise` is that of its launches.
    fn host(
        random: &mut fastrand::Rng,
        cohort: &Cohort,
        worse: f64,
        (noise, budget): (f64, u32),
    ) -> Qualified {
        let mut qualification = Qualification::new(cohort, RISKS, |_| None);
        let rows: Vec<&Row> = qualification.rows().collect();
        let of = |row: &&Row| {
            row.spread * normal(random) + if row.spread == SPREAD[0] { worse } else { 0.0 }
        };
        let own: Vec<f64> = rows.iter().map(of).collect();
        let mut launches: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
        let mut blocks: Vec<Block> = (0..rows.len())
            .map(|row| Block { rows: vec![row], launch: Duration::from_millis(20), rested: None })
            .collect();
        let mut count = 0;
        while let Some(at) = qualification.next(&blocks).filter(|_| count < budget) {
            count += 1;
            launches[at].push(100.0 * (own[at] + noise * normal(random)).exp());
            for block in &mut blocks {
                block.rested = block.rested.map(|rested| rested + block.launch);
            }
            blocks[at].rested = Some(Duration::ZERO);
            let mut row = sized_row("memory.x", 1, median(&launches[at]).expect("a launch"));
            let interval = median_interval(&launches[at]);
            row.metrics[0].ci95 = interval.map(|interval| (interval.low, interval.high));
            row.launches = launches[at].len() as u32;
            qualification.update(at, Some(&row), row.launches);
        }
        qualification.concluded(0.0, count, &blocks)
    }

    /// The upper end of the 95 % interval of so many of 1,000 (Wilson's).
    fn at_most(count: u32) -> f64 {
        let (share, n, z) = (f64::from(count) / 1000.0, 1000.0, 1.645_f64);
        let middle = share + z * z / (2.0 * n);
        let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
        (middle + half) / (1.0 + z * z / n)
    }

    #[test]
    fn of_a_thousand_hosts_no_more_are_misjudged_than_is_risked() {
        let (cohort, mut random) = (cohort(), fastrand::Rng::with_seed(11));
        // How much worse, and the share of verdicts at least; the launches of the last kind are noisy.
        for (worse, noise, verdict, least) in [
            (0.0, LAUNCH, Verdict::Pass, 0.8),
            (RISKS.change.ln_1p(), LAUNCH, Verdict::Fail, 0.5),
            (0.2, LAUNCH, Verdict::Fail, 0.99),
            (0.0, 0.2, Verdict::Undecided, 0.8),
        ] {
            let mut counts = BTreeMap::new();
            for _ in 0..1000 {
                let of = host(&mut random, &cohort, worse, (noise, 60));
                *counts.entry(format!("{:?}", of.verdict)).or_insert(0) += 1;
            }
            let count =
                |verdict: Verdict| counts.get(&format!("{verdict:?}")).copied().unwrap_or(0);
            let wrong = if worse == 0.0 {
                (Verdict::Fail, RISKS.producer)
            } else {
                (Verdict::Pass, RISKS.consumer)
            };
            assert!(at_most(count(wrong.0)) <= wrong.1, "{worse}: {counts:?}");
            assert!(f64::from(count(verdict)) >= 1000.0 * least, "{worse}: {counts:?}");
        }
    }

    #[test]
    fn rows_that_cannot_show_the_change_are_left_out_and_the_others_say_what_is_missing() {
        let (mut cohort, mut random) = (cohort(), fastrand::Rng::with_seed(12));
        let of = host(&mut random, &cohort, 0.0, (LAUNCH, 10));
        assert_eq!((of.rows.len(), of.left_out.len()), (4, 1));
        assert!(of.left_out.iter().all(|row| row.change > RISKS.change));
        assert_eq!((of.verdict, of.launches), (Verdict::Undecided, 10));
        let open = of.rows.iter().filter(|row| row.verdict == Verdict::Undecided);
        let left: u32 = open.filter_map(|row| row.launches_left).sum();
        assert!(left >= 2, "{left}");
        assert!((of.seconds_left - 0.02 * f64::from(left)).abs() < 1e-9);
        // More is better: what is less is worse.
        for row in &mut cohort.rows {
            (row.better, row.usual) = (Better::Higher, 120.0);
        }
        let of = host(&mut random, &cohort, 0.0, (LAUNCH, 150));
        assert_eq!(of.verdict, Verdict::Fail);
        assert!((0.15..0.25).contains(&of.rows[0].worse.expect("a number")));
        // It stops at the first row that failed.
        assert!(of.launches < 40, "{}", of.launches);
    }

    #[test]
    fn launches_go_where_they_decide_most_and_of_a_block_they_are_apart() {
        let cohort = cohort();
        let qualification = Qualification::new(&cohort, RISKS, |_| None);
        let block = |rows: &[usize], ms, rested| Block {
            rows: rows.to_vec(),
            launch: Duration::from_millis(ms),
            rested,
        };
        let ago = |ms| Some(Duration::from_millis(ms));
        for (blocks, expected) in [
            (vec![block(&[0], 50, None), block(&[1], 20, None)], Some(1)),
            (vec![block(&[0, 2, 3], 50, None), block(&[1], 20, None)], Some(0)),
            (vec![block(&[0], 50, None), block(&[1], 20, ago(500))], Some(0)),
            (vec![block(&[0], 50, ago(20)), block(&[1], 20, ago(10))], Some(0)),
            (vec![block(&[], 50, None)], None),
        ] {
            assert_eq!(qualification.next(&blocks), expected, "{blocks:?}");
        }
    }
}
