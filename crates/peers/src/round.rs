//! Measures several sides in turns: each gives one number in every round.

use crate::error::{Error, Result};
use fastrand::Rng;

/// A side, which is measured once in each round.
pub struct Side<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Measures its number in this round, counted from 0.
    pub measure: Box<dyn FnMut(usize) -> Result<f64> + 'a>,
}

impl<'a> Side<'a> {
    /// A side from its name and the function that measures it.
    pub fn new(name: &'a str, measure: impl FnMut(usize) -> Result<f64> + 'a) -> Side<'a> {
        Side { name, measure: Box::new(measure) }
    }
}

/// The results of a side: a number for each round, or why there are none.
pub type Given = std::result::Result<Vec<f64>, String>;

/// What happens during the measurement, for whoever watches.
pub enum Event<'a> {
    /// The measurement of a side begins.
    Begins(&'a str),
    /// Another costof is measuring the machine, and this one waits for it: a description of the other.
    Waits(&'a str),
    /// A side has failed and takes no part in later rounds.
    LeftOut {
        /// Its name.
        side: &'a str,
        /// The reason.
        why: &'a str,
    },
    /// A round has ended.
    Round {
        /// Its number, from 0.
        round: usize,
        /// The results of all sides so far.
        given: &'a [Given],
        /// The side that was measured first.
        first: Option<&'a str>,
    },
}

/// Measures all sides once in each round, in a random order, so that drift affects all of them alike. The
/// first side is compared with the others.
///
/// A side that fails is reported and left out. If the first side fails, or all the others do, there are no
/// more rounds.
///
/// # Errors
/// The user interrupted.
pub fn interleave(
    rounds: usize,
    random: &mut Rng,
    sides: &mut [Side<'_>],
    happens: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Given>> {
    let mut given: Vec<Given> = sides.iter().map(|_| Ok(Vec::with_capacity(rounds))).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..sides.len()).filter(|side| given[*side].is_ok()).collect();
        random.shuffle(&mut order);
        for side in &order {
            happens(Event::Begins(sides[*side].name));
            match (sides[*side].measure)(round) {
                Ok(number) => given[*side].iter_mut().for_each(|all| all.push(number)),
                Err(Error::Failed(why)) => {
                    happens(Event::LeftOut { side: sides[*side].name, why: &why });
                    given[*side] = Err(why);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
            }
        }
        happens(Event::Round {
            round,
            given: &given,
            first: order.first().map(|side| sides[*side].name),
        });
        if given[0].is_err() || given[1..].iter().all(Given::is_err) {
            break;
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::failed;
    use std::cell::RefCell;

    fn interleaved(rounds: usize, sides: &mut [Side<'_>]) -> Result<Vec<Given>> {
        interleave(rounds, &mut Rng::with_seed(1), sides, &mut |_| {})
    }

    #[test]
    fn each_round_measures_all_and_any_may_be_first() {
        let order = RefCell::new(Vec::new());
        let noted = |name: &'static str, number: f64| {
            let order = &order;
            Side::new(name, move |round| {
                order.borrow_mut().push((round, name));
                Ok(number)
            })
        };
        let mut sides = [noted("costof", 100.0), noted("one", 50.0), noted("other", 70.0)];
        let given = interleaved(32, &mut sides).unwrap();
        drop(sides);
        assert_eq!(given, [100.0, 50.0, 70.0].map(|number| Ok(vec![number; 32])));
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
            Side::new("costof", |_| Ok(1.0)),
            Side::new("broken", |_| {
                asked += 1;
                Err(failed("gone"))
            }),
            Side::new("fine", |_| Ok(2.0)),
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
            let mut sides = ["costof", "peer"].map(|name| Side::new(name, |_| Ok(1.0)));
            sides[broken] = Side::new("broken", |round| {
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
        let mut sides =
            [Side::new("costof", |_| Ok(1.0)), Side::new("peer", |_| Err(Error::Interrupted))];
        assert!(matches!(interleaved(3, &mut sides), Err(Error::Interrupted)));
    }
}
