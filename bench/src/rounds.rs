//! Sides measured in turns, and the ratio of what each round gave.

use crate::bench::Bench;
use crate::error::{Error, Result};
use crate::machine::{self, Watch};
use costof_measure::statistics::quantile::median;
use costof_measure::statistics::ratio::ratio_interval;
use fastrand::Rng;

/// One that is measured once a round.
pub(crate) struct Side<'a> {
    pub(crate) name: &'a str,
    /// Its number in this round, counted from 0.
    pub(crate) measure: Box<dyn FnMut(usize) -> Result<f64> + 'a>,
}

/// What a side gave: a number for each round, or why it has none.
pub(crate) type Given = std::result::Result<Vec<f64>, String>;

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

/// Measures all sides once a round, in an order drawn for each round, so that
/// what drifts meets all alike. The first is held against the others.
///
/// A side that fails is told and left out; without the first, or without any
/// other, there are no more rounds.
///
/// `shown` writes a number into a column of the table that this prints.
///
/// Errors: the user ended it.
pub(crate) fn interleave(
    rounds: usize,
    random: &mut Rng,
    sides: &mut [Side<'_>],
    shown: &dyn Fn(f64) -> String,
) -> Result<Vec<Given>> {
    let mut given: Vec<Given> = sides
        .iter()
        .map(|_| Ok(Vec::with_capacity(rounds)))
        .collect();
    let names: String = sides
        .iter()
        .map(|side| format!("  {:>10}", side.name))
        .collect();
    println!("round{names}   ratio  first");
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..sides.len())
            .filter(|side| given[*side].is_ok())
            .collect();
        random.shuffle(&mut order);
        for side in &order {
            match (sides[*side].measure)(round) {
                Ok(number) => given[*side].iter_mut().for_each(|all| all.push(number)),
                Err(Error::Failed(why)) => {
                    println!("{} is left out: {why}", sides[*side].name);
                    given[*side] = Err(why);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
            }
        }
        print_round(
            round,
            &given,
            order.first().map(|side| sides[*side].name),
            shown,
        );
        if given[0].is_err() || given[1..].iter().all(Given::is_err) {
            break;
        }
    }
    Ok(given)
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
    use crate::error::failed;
    use std::cell::RefCell;

    fn interleaved(rounds: usize, sides: &mut [Side<'_>]) -> Result<Vec<Given>> {
        interleave(rounds, &mut Rng::with_seed(1), sides, &|number| {
            number.to_string()
        })
    }

    fn side<'a>(name: &'a str, measure: impl FnMut(usize) -> Result<f64> + 'a) -> Side<'a> {
        Side {
            name,
            measure: Box::new(measure),
        }
    }

    #[test]
    fn each_round_measures_all_and_any_may_be_first() {
        let order = RefCell::new(Vec::new());
        let noted = |name: &'static str, number: f64| {
            let order = &order;
            side(name, move |round| {
                order.borrow_mut().push((round, name));
                Ok(number)
            })
        };
        let mut sides = [
            noted("costof", 100.0),
            noted("one", 50.0),
            noted("other", 70.0),
        ];
        let given = interleaved(32, &mut sides).unwrap();
        drop(sides);
        assert_eq!(
            given,
            [100.0, 50.0, 70.0].map(|number| Ok(vec![number; 32]))
        );
        let order = order.into_inner();
        for name in ["costof", "one", "other"] {
            assert!(order.iter().step_by(3).any(|(_, first)| *first == name));
        }
        for (round, turn) in order.chunks(3).enumerate() {
            assert!(turn.iter().all(|(of, _)| *of == round));
            assert!(turn[0].1 != turn[1].1 && turn[1].1 != turn[2].1 && turn[2].1 != turn[0].1);
        }
    }

    #[test]
    fn a_peer_that_fails_is_left_out_and_the_others_go_on() {
        let mut asked = 0;
        let mut sides = [
            side("costof", |_| Ok(1.0)),
            side("broken", |_| {
                asked += 1;
                Err(failed("gone"))
            }),
            side("fine", |_| Ok(2.0)),
        ];
        let given = interleaved(3, &mut sides).unwrap();
        drop(sides);
        let expected = [Ok(vec![1.0; 3]), Err("gone".to_owned()), Ok(vec![2.0; 3])];
        assert_eq!((given.as_slice(), asked), (expected.as_slice(), 1));
    }

    #[test]
    fn without_costof_or_without_any_peer_there_are_no_more_rounds() {
        for broken in [0, 1] {
            let mut rounds = 0;
            let mut sides = ["costof", "peer"].map(|name| side(name, |_| Ok(1.0)));
            sides[broken] = side("broken", |round| {
                rounds = round + 1;
                Err(failed("gone"))
            });
            let given = interleaved(9, &mut sides).unwrap();
            drop(sides);
            assert_eq!(given[broken], Err("gone".to_owned()));
            assert_eq!(rounds, 1);
            assert!(given[1 - broken].as_ref().unwrap().len() <= 1);
        }
    }

    #[test]
    fn an_interrupt_ends_the_comparison() {
        let mut sides = [
            side("costof", |_| Ok(1.0)),
            side("peer", |_| Err(Error::Interrupted)),
        ];
        assert!(matches!(
            interleaved(3, &mut sides),
            Err(Error::Interrupted)
        ));
    }

    #[test]
    fn ratios_are_of_each_round() {
        assert!(ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).starts_with("0.500 (95 %"));
        assert!(ratio(&[1.0], &[2.0]).contains("no interval"));
    }
}
