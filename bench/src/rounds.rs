//! Sides measured in turns, and the ratio of what each round gave.

use crate::bench::Bench;
use crate::error::Result;
use crate::machine::{self, Watch};
use costof_peers::round::{self, Event};
pub(crate) use costof_peers::round::{Given, Side};
use costof_stats::{median, ratio_interval};
use fastrand::Rng;

/// What the rounds of a comparison came to.
pub(crate) struct Told {
    pub(crate) given: Vec<Given>,
    /// Whether nothing else used the machine meanwhile.
    pub(crate) quiet: bool,
}

/// Measures as [`interleave`] does, by default in so many rounds, and prints what they say together.
///
/// Errors: the user ended it.
pub(crate) fn tell(bench: &Bench, rounds: usize, sides: &mut [Side<'_>]) -> Result<Told> {
    let watch = Watch::start();
    let given = interleave(bench.rounds(rounds), &mut Rng::new(), sides, &|number| {
        format!("{number:.2}")
    })?;
    let Some(Ok(own)) = given.first() else {
        return Ok(Told {
            given,
            quiet: false,
        });
    };
    println!("\nmedian over rounds:");
    for (place, (side, given)) in sides.iter().zip(&given).enumerate() {
        if let Ok(numbers) = given {
            let over = match place {
                0 => String::new(),
                _ => format!("; the first over it: {}", ratio(own, numbers)),
            };
            let middle = median(numbers).unwrap_or(f64::NAN);
            println!("  {} {middle:.2}{over}", side.name);
        }
    }
    let quiet = machine::was_quiet(&watch);
    Ok(Told { given, quiet })
}

/// Measures as [`round::interleave`] does, and prints a table of it; `shown` writes a number into one
/// of its columns.
///
/// Errors: the user ended it.
pub(crate) fn interleave(
    rounds: usize,
    random: &mut Rng,
    sides: &mut [Side<'_>],
    shown: &dyn Fn(f64) -> String,
) -> Result<Vec<Given>> {
    let names: String = sides
        .iter()
        .map(|side| format!("  {:>10}", side.name))
        .collect();
    println!("round{names}   ratio  first");
    round::interleave(rounds, random, sides, &mut |event| match event {
        Event::Begins(_) | Event::Waits(_) => {}
        Event::LeftOut { side, why } => println!("{side} is left out: {why}"),
        Event::Round {
            round,
            given,
            first,
        } => print_round(round, given, first, shown),
    })
}

/// The numbers of the last round, and the first side's over each other's.
fn print_round(round: usize, given: &[Given], first: Option<&str>, shown: &dyn Fn(f64) -> String) {
    let last = |given: &Given| given.as_ref().ok().and_then(|all| all.last().copied());
    let columns: String = given
        .iter()
        .map(|given| format!("  {:>10}", last(given).map_or("-".to_owned(), shown)))
        .collect();
    let ratios: Vec<String> = given[1..]
        .iter()
        .filter_map(|peer| Some(format!("{:.3}", last(&given[0])? / last(peer)?)))
        .collect();
    println!(
        "{:>5}{columns}   {}  {}",
        round + 1,
        ratios.join("  "),
        first.unwrap_or("-")
    );
}

/// The median of the paired ratios, with its interval, in words.
pub(crate) fn ratio(numerators: &[f64], denominators: &[f64]) -> String {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(numerator, denominator)| numerator / denominator)
        .collect();
    let middle = median(&ratios).unwrap_or(f64::NAN);
    match ratio_interval(numerators, denominators) {
        Some(interval) => format!(
            "{middle:.3} (95 % interval {:.3} to {:.3}, {} rounds)",
            interval.low,
            interval.high,
            ratios.len()
        ),
        None => format!("{middle:.3} ({} rounds, no interval)", ratios.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_each_round() {
        assert!(ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).starts_with("0.500 (95 %"));
        assert!(ratio(&[1.0], &[2.0]).contains("no interval"));
    }
}
