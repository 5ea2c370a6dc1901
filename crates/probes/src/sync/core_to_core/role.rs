//! The two threads between which a line goes.

use super::CoreToCore;
use crate::prelude::*;
use costof_os::memory::line::Line;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A line between two CPUs.
pub(super) struct Pair {
    cpus: [usize; 2],
    line: Arc<Line>,
    /// How many round trips the line should have made.
    sent: Arc<AtomicU64>,
}

/// The point's two CPUs, where they are two of the run's.
fn two_of(point: &CoreToCore, cpus: &[usize]) -> Result<[usize; 2]> {
    let two = [point.from as usize, point.to as usize];
    let [from, to] = two;
    if from == to {
        unsupported!(
            "from and to are both CPU {from}: a line does not leave it (choose two, by \
             --set from=… --set to=…)"
        );
    }
    two.iter().try_for_each(|cpu| threads::is_of_run(*cpu, cpus))?;
    Ok(two)
}

impl Setup<CoreToCore> for Pair {
    fn set_up(point: &At<CoreToCore>, launch: &Launch) -> Result<Pair> {
        let cpus = two_of(point, &threads::of_run(launch)?)?;
        Ok(Pair { cpus, line: Arc::default(), sent: Arc::default() })
    }

    fn measure(&mut self, _: &At<CoreToCore>, meter: &mut Meter<'_>) -> Result {
        let _moved = threads::Moved::to(self.cpus[0])?;
        let (line, sent) = (Arc::clone(&self.line), Arc::clone(&self.sent));
        let send: Job = Box::new(move |n| {
            line.send(n);
            sent.fetch_add(n, Ordering::Relaxed);
        });
        let line = Arc::clone(&self.line);
        let answer: Job = Box::new(move |n| line.answer(n));
        let mut crew = Crew::start(vec![send, answer], &self.cpus)?;
        meter.crew("cost", &mut crew);
        Ok(())
    }

    fn check(self, _: &At<CoreToCore>, _: &mut Meter<'_>) -> Result {
        let (made, sent) = (self.line.round_trips(), self.sent.load(Ordering::Relaxed));
        ensure!(made == sent, "the line was sent {sent} times and made {made} round trips");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::failure::FailureKind;

    #[test]
    fn a_line_does_not_go_where_the_run_may_not() {
        let ends = |from, to| two_of(&CoreToCore { from, to }, &[4, 5, 7]);
        assert_eq!(ends(5, 4).unwrap(), [5, 4]);
        for (from, to, reason) in [(5, 5, "both"), (5, 6, "CPU 6"), (0, 4, "4-5,7")] {
            let failure = ends(from, to).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains(reason), "{failure}");
        }
    }
}
