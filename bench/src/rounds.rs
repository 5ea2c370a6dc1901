//! Sides measured in turns, and the ratio of what each round gave.

use crate::bench::Bench;
use crate::error::Result;
use crate::machine::{self, Watch};
use crate::verdict::{self, Verdict};
use costof_peers::agreement::{Agreement, Band};
use costof_peers::round::{self, Event, Given, Side};
use costof_stats::median;
use fastrand::Rng;
use std::ops::Range;

/// What the rounds of a comparison came to.
pub(crate) struct Measured {
    names: Vec<String>,
    pub(crate) given: Vec<Given>,
    /// Whether nothing else used the machine meanwhile.
    pub(crate) quiet: bool,
}

impl Measured {
    /// The first side over another one, or why one of them has no number.
    pub(crate) fn first_over(&self, side: usize) -> std::result::Result<Agreement, String> {
        let (own, other) = (self.given[0].clone()?, self.given[side].clone()?);
        Agreement::new(own, other).ok_or_else(|| "there was no round".to_owned())
    }

    /// Judges the first side by the best of these others.
    pub(crate) fn against_best(&self, band: Band, peers: Range<usize>) -> Verdict {
        let peers = peers.map(|side| (self.names[side].as_str(), self.first_over(side)));
        verdict::against_best(band, &peers.collect::<Vec<_>>()).0
    }
}

/// Measures each of `count` things once in a round, in a random order.
pub(crate) fn shuffled(
    rounds: usize,
    count: usize,
    mut measure: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let mut random = Rng::new();
    let mut order: Vec<usize> = (0..count).collect();
    for round in 0..rounds {
        random.shuffle(&mut order);
        for place in &order {
            measure(round, *place)?;
        }
    }
    Ok(())
}

/// Measures all sides in turns, in so many rounds unless the user asks for others, and prints the numbers.
///
/// Errors: the user ended it.
pub(crate) fn measure(bench: &Bench, rounds: usize, sides: &mut [Side<'_>]) -> Result<Measured> {
    let watch = Watch::start();
    print_head(sides.iter().map(|side| side.name));
    let shown = |number| format!("{number:.2}");
    let rounds = bench.rounds(rounds);
    let given = round::interleave(rounds, &mut Rng::new(), sides, &mut |event| {
        print_event(&event, &shown);
    })?;
    println!("\nmedian over rounds:");
    let mut measured = Measured {
        names: sides.iter().map(|side| side.name.to_owned()).collect(),
        given,
        quiet: false,
    };
    for (place, name) in measured.names.iter().enumerate() {
        let Ok(numbers) = &measured.given[place] else {
            continue;
        };
        let over = match (place, measured.first_over(place)) {
            (1.., Ok(agreement)) => {
                format!("; the first over it: {}", crate::verdict::ratio_text(&agreement))
            }
            _ => String::new(),
        };
        println!("  {name} {:.2}{over}", median(numbers).unwrap_or(f64::NAN));
    }
    measured.quiet = machine::was_quiet(&watch);
    Ok(measured)
}

/// The head of the table whose rows [`print_event`] prints.
pub(crate) fn print_head<'a>(names: impl Iterator<Item = &'a str>) {
    let names: String = names.map(|name| format!("  {name:>10}")).collect();
    println!("round{names}   ratio  first");
}

/// The numbers of the last round, and the first side's over each other's.
pub(crate) fn print_event(event: &Event<'_>, shown: &dyn Fn(f64) -> String) {
    let (round, given, first) = match event {
        Event::Begins(_) => return,
        Event::Waits(holder) => return println!("waiting: {holder} measures this machine"),
        Event::LeftOut { side, why } => return println!("{side} is left out: {why}"),
        Event::Round { round, given, first } => (round + 1, given, first.unwrap_or("-")),
    };
    let last: Vec<Option<f64>> =
        given.iter().map(|given| given.as_ref().ok()?.last().copied()).collect();
    let columns: String = last
        .iter()
        .map(|number| format!("  {:>10}", number.map_or("-".to_owned(), shown)))
        .collect();
    let ratios: Vec<String> =
        last[1..].iter().filter_map(|peer| Some(format!("{:.3}", last[0]? / (*peer)?))).collect();
    println!("{round:>5}{columns}   {}  {first}", ratios.join("  "));
}
