//! `cpu.call`: what a procedure call costs, by its arguments.

use crate::expect::cost_cycles;
use crate::literal::{cost, list, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::Unit;
use costof_os::calls::{ArgumentKind, call};
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("cpu.call"),
        method: 1,
        question: text("What does a procedure call cost, by the type and number of its arguments?"),
        axes: list![
            words(
                "type",
                "what the arguments are",
                list![
                    word("int", "64-bit integers, in registers"),
                    word("float", "32-bit floating point, in registers"),
                    word("double", "64-bit floating point, in registers"),
                    word(
                        "struct",
                        "structures of 32 bytes by value, copied to the stack"
                    ),
                ],
            ),
            Axis {
                name: text("args"),
                about: text("how many arguments"),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 0,
                    high: 7,
                    usual: list![0, 1, 2, 3, 4, 5, 6, 7],
                },
            },
        ],
        crossings: list![list![text("type"), text("args")]],
        metrics: list![cost("one call and its return")],
        how: text(
            "Calls of a function in assembly that cannot be inlined, eight to an iteration of the \
             loop. For each call the caller sets all arguments up again by the platform's calling \
             convention, and the callee adds them up; the sum is checked. Calls do not wait for \
             each other, so this is a throughput: what the core does beside call and return costs \
             nothing, and arguments in registers may be free. In the figure: arguments, call, \
             return, one addition an argument, an eighth of the loop.",
        ),
        sources: list![
            text(
                "CSE 221 System Measurement Project, 2014: 5.9 to 10.6 cycles for 0 to 7 arguments, unoptimised"
            ),
            text(
                "System V ABI for AMD64, section 3.2.3; Procedure Call Standard for the Arm 64-bit Architecture, section 6.8"
            ),
        ],
        predicted_from: text(
            "the core clock; a call and a return every 2 to 6 cycles, and what copying arguments to the stack adds",
        ),
        after: list![text("cpu.frequency")],
        needs: list![],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Call { sum: 0 }))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("procedure call", "int", 0),
        ("procedure call: 7 integers", "int", 7),
        ("procedure call: 4 structures", "struct", 4),
    ]
    .map(|(label, kind, args)| {
        Headline::new(label, Axes::default().with("type", kind).with("args", args))
    })
    .into()
}

struct Call {
    /// What the last call returned.
    sum: u64,
}

impl Role for Call {
    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let kind = match point.axes.word("type") {
            "int" => ArgumentKind::Int,
            "float" => ArgumentKind::Float,
            "double" => ArgumentKind::Double,
            "struct" => ArgumentKind::Struct,
            other => {
                return Err(Failure::error(format!(
                    "no argument type is called {other}"
                )));
            }
        };
        let args = args(point);
        meter.repeatable("cost", |n| self.sum = call(kind, args, n));
        Ok(())
    }

    fn finish(&mut self, point: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let args = u64::from(args(point));
        let expected = args * (args + 1) / 2;
        if self.sum == expected {
            Ok(())
        } else {
            Err(Failure::error(format!(
                "the callee did not get its arguments: it returned {} instead of {expected}",
                self.sum
            )))
        }
    }
}

fn args(point: &Point) -> u8 {
    // The axis goes to 7.
    point.axes.number("args") as u8
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let args = f64::from(args(point));
    if point.axes.word("type") == "struct" {
        return cost_cycles(
            known,
            2.0 + args,
            6.0 + 4.0 * args,
            "a call and a return, and two to four stores for each structure",
        );
    }
    cost_cycles(
        known,
        2.0,
        6.0 + args,
        "a call and a return, and at most one cycle an argument",
    )
}
