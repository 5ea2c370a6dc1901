//! The client and the server of a stack: how they are started, and how their output is read.

use super::usage::Usage;
use crate::bench::{Bench, own_program};
use crate::child;
use crate::error::{Result, failed};
use crate::piped::{self, PipedChild, numbers};
use crate::program::Program;
use std::path::PathBuf;
use std::time::Duration;

/// How long an end may take until it is there.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long its calls or streams may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What all sides do in a launch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// Calls, one after the other, of a string of so many bytes that is given back.
    Calls { warm_up: usize, calls: usize, bytes: usize },
    /// A client stream of messages of so many bytes.
    Stream { lasts_ms: usize, bytes: usize },
}

/// How the ends of a stack are started.
pub(super) struct Pair {
    program: PathBuf,
    /// Words before those that say what an end does.
    before: Vec<String>,
}

/// What a launch came to.
pub(super) struct Launched {
    /// The median of its calls in microseconds, or its stream's rate in gigabits a second.
    pub(super) number: f64,
    /// What the client and the server used for a call, or for a message.
    pub(super) used: [Usage; 2],
}

impl Pair {
    /// Ours: this program again.
    pub(super) fn own(stack: &str) -> Result<Pair> {
        Ok(Pair { program: own_program()?, before: ["rpc-end", stack].map(str::to_owned).into() })
    }

    /// A peer's, built first, by this transport.
    pub(super) fn peer(bench: &Bench, peer: &Program, transport: Option<&str>) -> Result<Pair> {
        Ok(Pair {
            program: peer.build(bench)?,
            before: transport.map(str::to_owned).into_iter().collect(),
        })
    }

    /// Both ends anew, the client on the first of these processors and the server on the second.
    pub(super) fn launch(
        &self,
        bench: &Bench,
        [client_cpu, server_cpu]: [usize; 2],
        task: Task,
    ) -> Result<Launched> {
        let mut server = self.start(server_cpu, &["serve".to_owned()])?;
        let address = server.line(START_LIMIT, &bench.interrupt)?;
        let mut client = self.start(client_cpu, &task.words(&address))?;
        let warm = client.line(LIMIT, &bench.interrupt)?;
        if warm != "warm" {
            return Err(failed(format!("the client printed `{warm}`")));
        }
        let ends = [client.id(), server.id()];
        let before = ends.map(Usage::of);
        let result = client.line(LIMIT, &bench.interrupt)?;
        let after = ends.map(Usage::of);
        let (number, count) = task.read(&result)?;
        let used = [0, 1].map(|end| (after[end] - before[end]).of_each(count));
        Ok(Launched { number, used })
    }

    /// One end, which is ended when it is dropped, and with the bench.
    fn start(&self, cpu: usize, words: &[String]) -> Result<PipedChild> {
        let mut command = child::pinned(cpu, &self.program)?;
        piped::start_piped(command.args(&self.before).args(words))
    }
}

impl Task {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Task::Calls { .. } => "µs",
            Task::Stream { .. } => "Gb/s",
        }
    }

    pub(super) fn step(self) -> &'static str {
        match self {
            Task::Calls { .. } => "call",
            Task::Stream { .. } => "message",
        }
    }

    /// The arguments of a client.
    fn words(self, address: &str) -> Vec<String> {
        let (what, numbers) = match self {
            Task::Calls { warm_up, calls, bytes } => ("call", vec![warm_up, calls, bytes]),
            Task::Stream { lasts_ms, bytes } => ("stream", vec![lasts_ms, bytes]),
        };
        let numbers = numbers.iter().map(usize::to_string);
        [what, address].map(str::to_owned).into_iter().chain(numbers).collect()
    }

    /// The number of what a client printed, and for how many calls or messages that was.
    fn read(self, result: &str) -> Result<(f64, f64)> {
        match self {
            Task::Calls { calls, .. } => {
                let [median_ns, _, _] = numbers(result)?;
                Ok((median_ns / 1e3, calls as f64))
            }
            Task::Stream { bytes, .. } => {
                let [arrived, took_ns] = numbers(result)?;
                Ok((arrived * 8.0 / took_ns, arrived / bytes as f64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_and_the_output_of_a_client_are_those_of_its_task() {
        let calls = Task::Calls { warm_up: 2, calls: 10, bytes: 64 };
        assert_eq!(calls.words("here:1"), ["call", "here:1", "2", "10", "64"]);
        assert_eq!(calls.read("41500 50000 90000").unwrap(), (41.5, 10.0));
        let stream = Task::Stream { lasts_ms: 5, bytes: 1000 };
        assert_eq!(stream.words("here:1"), ["stream", "here:1", "5", "1000"]);
        assert_eq!(stream.read("5000 4000").unwrap(), (10.0, 5.0));
        for rubbish in ["", "warm", "1 2 x", "1 2 3 4"] {
            assert!(calls.read(rubbish).is_err() && stream.read(rubbish).is_err());
        }
    }
}
