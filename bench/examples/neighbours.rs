//! What a neighbour on the core makes of estimates and comparisons, in virtual time and by a seed.
//!
//! The meter, the estimate and the comparison are the real ones. Prints a Markdown section for
//! docs/METHOD.md. Run: `cargo run --release -p costof-bench --example neighbours`; a number after `--`
//! multiplies the experiments.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

#[path = "../../crates/measure/tests/virtual_time/neighbour/simulation.rs"]
#[allow(dead_code, reason = "what is replayed is for the tests and the other example")]
mod simulation;

use costof_measure::schedule::needs_more;
use costof_model::comparison::Verdict;
use costof_model::metric::Selection;
use costof_stats::{median, median_interval};
use fastrand::Rng;
use simulation::{COST_NS, Core, Neighbour, Pair, Setting, TIMES_SHARED, normal, point_of};

const SEED: u64 = 20_261_123;
/// As long as `--quick` measures a point in a launch.
const TIME_NS: f64 = 10e6;

fn main() {
    let times: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    println!("Simulated with seed {SEED} by `bench/examples/neighbours.rs`.\n");
    print_coverage(200 * times);
    print_by_launches(400 * times);
    print_comparisons(200 * times);
    print_disagreement(20_000 * times);
}

/// What experiments gave: how many were selected alone, of these how many cover, and their medians and
/// widths over the cost alone.
#[derive(Default)]
struct Tally {
    count: usize,
    alone: usize,
    covered: usize,
    biases: Vec<f64>,
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, launches: &[costof_model::protocol::Report]) {
        self.count += 1;
        let Ok(row) = point_of(launches) else {
            return;
        };
        let Some(cost) = row.primary() else {
            return;
        };
        let is_alone = cost.core.is_some_and(|core| core.selection == Selection::Alone);
        let Some((low, high)) = cost.ci95.filter(|_| is_alone) else {
            return;
        };
        self.alone += 1;
        self.covered += usize::from(low <= COST_NS && COST_NS <= high);
        self.biases.push(100.0 * (cost.median / COST_NS - 1.0));
        self.widths.push(100.0 * (high - low) / COST_NS);
    }

    /// Coverage in per cent of those that were alone, where they are not too few to say.
    fn coverage(&self) -> String {
        match self.alone {
            0..20 => "-".to_owned(),
            alone => format!("{:.1}", percent(self.covered, alone)),
        }
    }

    fn alone(&self) -> f64 {
        percent(self.alone, self.count)
    }
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of as f64
}

fn print_coverage(tries: usize) {
    const SHARES: [f64; 6] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.95];
    println!("### Coverage of the cost alone, by how often a neighbour is there\n");
    println!(
        "Share of the experiments with enough batches alone whose interval contains the cost alone; in \
         brackets the share of {tries} experiments that had enough. 9 launches of 10 ms that differ by 0.5 %; a neighbour makes an \
         operation 1 to 2 times as long.\n"
    );
    println!(
        "| visits last | {} |",
        SHARES.map(|share| format!("{:.0} %", 100.0 * share)).join(" | ")
    );
    println!("|---|{}", "---|".repeat(SHARES.len()));
    for (name, visit_ns) in
        [("1 ms", 1e6), ("10 ms", 1e7), ("0.1 s", 1e8), ("1 s", 1e9), ("10 s", 1e10)]
    {
        let mut random = Rng::with_seed(SEED);
        print!("| {name} |");
        for share in SHARES {
            let mut tally = Tally::default();
            for at in 0..tries {
                let neighbour = Neighbour { visit_ns, share, ..Neighbour::any(&mut random) };
                let core = Core::beside(neighbour, random.u64(..));
                let setting = Setting { launches: 9, time_ns: TIME_NS, spread: 0.005 };
                tally.add(&setting.launches(
                    &mut random,
                    &core,
                    TIMES_SHARED[at % TIMES_SHARED.len()],
                ));
            }
            print!(" {} ({:.0} %) |", tally.coverage(), tally.alone());
        }
        println!();
    }
    println!();
}

fn print_by_launches(tries: usize) {
    const COUNTS: [usize; 4] = [3, 6, 9, 12];
    println!("### Coverage by launches, beside any neighbour\n");
    println!(
        "Visits of 1 ms to 10 s, 0 to 95 % of the time. In brackets: experiments with enough batches alone, median \
         width of the interval, mean bias of the median.\n"
    );
    println!("| launches differ by | {} |", COUNTS.map(|count| count.to_string()).join(" | "));
    println!("|---|{}", "---|".repeat(COUNTS.len()));
    for spread in [0.0, 0.003, 0.01] {
        let mut random = Rng::with_seed(SEED);
        let mut tallies: [Tally; 4] = Default::default();
        for at in 0..tries {
            let core = Core::beside(Neighbour::any(&mut random), random.u64(..));
            let setting = Setting { launches: 12, time_ns: TIME_NS, spread };
            let launches =
                setting.launches(&mut random, &core, TIMES_SHARED[at % TIMES_SHARED.len()]);
            for (tally, count) in tallies.iter_mut().zip(COUNTS) {
                tally.add(&launches[..count]);
            }
        }
        print!("| {} % |", 100.0 * spread);
        for tally in tallies {
            let bias = tally.biases.iter().sum::<f64>() / tally.alone as f64;
            let width = median(&tally.widths).unwrap_or(f64::NAN);
            print!(" {} ({:.0} %, {width:.2} %, {bias:+.3} %) |", tally.coverage(), tally.alone());
        }
        println!();
    }
    println!();
}

type Meet = fn(&mut Rng) -> [Neighbour; 2];

fn busy(random: &mut Rng) -> Neighbour {
    Neighbour { share: 0.97, ..Neighbour::any(random) }
}

fn always(random: &mut Rng) -> Neighbour {
    Neighbour { share: 1.0, ..Neighbour::any(random) }
}

const MEETINGS: [(&str, bool, Meet); 7] = [
    ("the same", false, |random| [Neighbour::any(random); 2]),
    ("each its own", false, |random| [(); 2].map(|()| Neighbour::any(random))),
    ("97 % and nobody", false, |random| [busy(random), Neighbour::NONE]),
    ("the same, always", false, |random| [always(random); 2]),
    ("each its own, always", false, |random| [(); 2].map(|()| always(random))),
    ("in turns, the same", true, |random| [Neighbour::any(random); 2]),
    ("in turns, the same, always", true, |random| [always(random); 2]),
];

fn print_comparisons(tries: usize) {
    println!("### Comparisons of two runs beside neighbours\n");
    println!(
        "{tries} comparisons of four rows, which take 1, 1.1, 1.3 and 1.7 times as long beside a neighbour \
         of middle weight, 10 launches each. A/A: comparisons in which any row was called better or worse, in \
         brackets \"differs\". Planted: rows called worse, of those compared alone with alone.\n"
    );
    println!(
        "| neighbours met | launches differ by | A/A | rows alone with alone, shared, all with all, \
         refused, % | 5 % planted found, % |"
    );
    println!("|---|---|---|---|---|");
    for (name, in_turns, neighbours) in MEETINGS {
        for spread in [0.005, 0.01, 0.03] {
            let compared = |times: f64| {
                let mut random = Rng::with_seed(SEED);
                let setting = Setting { launches: 10, time_ns: TIME_NS, spread };
                let comparisons = (0..tries).map(|_| {
                    let neighbours = neighbours(&mut random);
                    Pair { neighbours, in_turns, times, setting }.comparison(&mut random)
                });
                comparisons.collect::<Vec<_>>()
            };
            let same = compared(1.0);
            let any = |verdicts: &[Verdict]| {
                let mut any = same
                    .iter()
                    .map(|one| one.rows.iter().any(|row| verdicts.contains(&row.verdict)));
                let count = any.by_ref().filter(|is| *is).count();
                percent(count, tries)
            };
            let rows = || same.iter().flat_map(|one| &one.rows);
            let of = |selection| {
                percent(rows().filter(|row| row.selection == selection).count(), 4 * tries)
            };
            let planted = compared(1.05);
            let alone = || {
                planted
                    .iter()
                    .flat_map(|one| &one.rows)
                    .filter(|row| row.selection == Selection::Alone)
            };
            let found = alone().filter(|row| row.verdict == Verdict::Worse).count();
            let found = match alone().count() {
                0 => "-".to_owned(),
                count => format!("{:.1}", percent(found, count)),
            };
            println!(
                "| {name} | {} % | {:.1} % ({:.1} %) | {:.0}, {:.0}, {:.0}, {:.0} | {found} |",
                100.0 * spread,
                any(&[Verdict::Better, Verdict::Worse]),
                any(&[Verdict::Differs]),
                of(Selection::Alone),
                of(Selection::Shared),
                of(Selection::All),
                percent(same.iter().map(|one| one.refused.len()).sum(), 4 * tries),
            );
        }
    }
    println!();
}

/// How launches differ: a lognormal, and a share of launches that are slower, by a factor.
type Spread = (&'static str, f64, f64, f64);

const SPREADS: [Spread; 8] = [
    ("1 %", 0.01, 0.0, 1.0),
    ("5 %", 0.05, 0.0, 1.0),
    ("10 %", 0.1, 0.0, 1.0),
    ("20 %", 0.2, 0.0, 1.0),
    ("50 %", 0.5, 0.0, 1.0),
    ("threefold", 1.1, 0.0, 1.0),
    ("3 %, 20 % of launches 4 × slower", 0.03, 0.2, 4.0),
    ("3 %, 20 % of launches 30 × slower", 0.03, 0.2, 30.0),
];

fn print_disagreement(tries: usize) {
    println!("### Launches that disagree\n");
    println!(
        "Three launches, then more while they disagree, up to six: coverage of the true median, in brackets \
         the median width. No number: an interval wider than tenfold, which no user sees; the coverage is that \
         of what is left.\n"
    );
    println!(
        "| launches differ by | three, fixed | six, fixed | three, and more if they disagree | launches in the mean | no number, % (with three) |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, sigma, slow, times) in SPREADS {
        let launch = |random: &mut Rng| {
            let mode = if random.f64() < slow { times } else { 1.0 };
            mode * (sigma * normal(random)).exp()
        };
        let mut random = Rng::with_seed(SEED);
        let mut many: Vec<f64> = (0..200_000).map(|_| launch(&mut random)).collect();
        many.sort_by(f64::total_cmp);
        let truth = many[many.len() / 2];
        let mut rules = [(0, 0, 0); 3];
        let mut widths: [Vec<f64>; 3] = Default::default();
        let mut launches = 0;
        for _ in 0..tries {
            let six: Vec<f64> = (0..6).map(|_| launch(&mut random)).collect();
            let settled = (0..6).find(|count| !needs_more(&six[..*count])).unwrap_or(6);
            launches += settled;
            for (at, count) in [3, 6, settled].into_iter().enumerate() {
                let Some(interval) = median_interval(&six[..count]) else {
                    continue;
                };
                if interval.high > 10.0 * interval.low {
                    rules[at].2 += 1;
                    continue;
                }
                rules[at].0 += 1;
                rules[at].1 += usize::from(interval.contains(truth));
                widths[at].push(100.0 * interval.width() / truth);
            }
        }
        let shown = |at: usize| {
            let width = median(&widths[at]).unwrap_or(f64::NAN);
            format!("{:.1} ({width:.0} %)", percent(rules[at].1, rules[at].0))
        };
        println!(
            "| {name} | {} | {} | {} | {:.1} | {:.1} ({:.1}) |",
            shown(0),
            shown(1),
            shown(2),
            launches as f64 / tries as f64,
            percent(rules[2].2, tries),
            percent(rules[0].2, tries),
        );
    }
}
