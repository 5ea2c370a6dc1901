//! The six questions of the study of sends with two copies, one copy and none. The answers are findings of a
//! run, or what the run would need for them.
//!
//! Source: Network I/O primitives, three course reports, 2026.

use crate::Kind;
use crate::finding::{Finding, Question};
use crate::noise::Withheld;
use crate::sends::PROBE;
use costof_model::run_file::Run;

/// Without these ways of sending there is nothing to compare.
const STUDY: [&str; 3] = ["two_copy", "one_copy", "zero_copy"];

/// A question, the kinds of findings that answer it, and what a run without such findings lacks.
struct Asked {
    question: &'static str,
    kinds: &'static [Kind],
    lacks: &'static str,
}

const QUESTIONS: [Asked; 6] = [
    Asked {
        question: "1. Why does zero-copy not always give the best throughput?",
        kinds: &[Kind::ZeroCopy, Kind::ZeroCopyPrice],
        lacks: "no send asked the kernel not to copy: --set primitive=two_copy,one_copy,zero_copy",
    },
    Asked {
        question: "2. Which cache level's misses fall most?",
        kinds: &[Kind::CachePollution],
        lacks: "at no size can two_copy be compared with one_copy or zero_copy by misses or by pollution: \
                this CPU counts none and the machine names no caches whose pollution could be measured, \
                or the points have no interval",
    },
    Asked {
        question: "3. How do threads interact with cache contention?",
        kinds: &[Kind::ThreadScaling],
        lacks: "only one number of threads was measured (--set threads=1,2,4,8), or the points have no \
                interval, as with a single launch",
    },
    Asked {
        question: "4. From which size on does one copy beat two copies?",
        kinds: &[Kind::OneCopyCrossover, Kind::CrossoverDisturbed],
        lacks: "nothing can be compared",
    },
    Asked {
        question: "5. From which size on does zero copy beat two copies, or one?",
        kinds: &[Kind::ZeroCopyCrossover],
        lacks: "nothing can be compared",
    },
    Asked {
        question: "6. Which result was unexpected?",
        kinds: &[Kind::Unexpected],
        lacks: "no prediction could be compared with what was measured; those of copy.send build on other \
                probes, which `costof run copy.send` and `costof run copy` measure too",
    },
];

/// The questions with their answers from these findings; empty if the run does not have the study's ways of
/// sending at two sizes or more.
pub(crate) fn send_questions(run: &Run, found: &[Finding]) -> Vec<Question> {
    let sends = run.select_any(PROBE);
    let is_study = STUDY.iter().all(|primitive| {
        let sends = sends.clone().at("primitive", *primitive);
        sends.iter().any(|row| row.number("size") != sends[0].number("size"))
    });
    if !is_study {
        return Vec::new();
    }
    let is_of_sends = |found: &Finding| {
        let mut probes = found.evidence.iter().map(|point| &*point.probe);
        probes.any(|probe| probe.starts_with("copy."))
    };
    let withheld = Withheld::new(run);
    let answered = QUESTIONS.iter().map(|asked| {
        let answers = |found: &Finding| asked.kinds.contains(&found.kind) && is_of_sends(found);
        let lacks = || withheld.why(answers).unwrap_or_else(|| asked.lacks.to_owned());
        let answers: Vec<Finding> = found.iter().filter(|found| answers(found)).cloned().collect();
        Question { question: asked.question, lacks: answers.is_empty().then(lacks), answers }
    });
    answered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::{findings, questions};
    use crate::tests::{RowExt, axes, point_row, reads, run};
    use costof_model::noise::Grade;

    fn sends(primitives: &[&'static str]) -> Run {
        let mut run = run(&[]);
        for &primitive in primitives {
            for size in [4096, 1 << 20] {
                let axes = axes!(primitive, size);
                let row = point_row(PROBE, "cpu_sender", axes, 100.0, (90.0, 110.0)).over("veth");
                run.points.push(row);
            }
        }
        run
    }

    #[test]
    fn all_six_are_answered_or_say_what_is_missing_and_nothing_is_said_twice() {
        let run = sends(&STUDY);
        let questions = questions(&run);
        assert_eq!(questions.len(), 6);
        for question in &questions {
            assert_ne!(question.answers.is_empty(), question.lacks.is_none());
        }
        let answers: Vec<usize> = questions.iter().map(|asked| asked.answers.len()).collect();
        assert_eq!(answers, [1, 0, 0, 1, 2, 0]);
        assert_eq!(findings(&run), []);
    }

    /// Each withheld answer names its cause; the number of threads is a different reason.
    #[test]
    fn what_noise_withholds_says_so_with_its_cause() {
        let mut run = sends(&STUDY);
        for row in &mut run.points {
            *row = row.clone().warned("others", Grade::D);
        }
        let questions = questions(&run);
        let lacks = |number: usize| questions[number - 1].lacks.clone().unwrap_or_default();
        reads!([lacks(1), lacks(3), questions[3].answers[0].sentence.clone()]);
        assert_eq!(lacks(4), "");
        assert_eq!(findings(&run), []);
    }

    #[test]
    fn what_answers_no_question_is_said_where_none_is_asked() {
        let run = sends(&["two_copy", "zero_copy"]);
        assert_eq!(questions(&run), []);
        assert_eq!(findings(&run).len(), 2);
        let mut one_size = sends(&STUDY);
        let small = |row: &costof_model::rows::PointRow| row.axes().number("size") == 4096;
        one_size.points.retain(small);
        assert_eq!(questions(&one_size), []);
    }
}
