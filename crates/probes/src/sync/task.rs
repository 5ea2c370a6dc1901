//! `sync.task`: what a task of an asynchronous runtime costs.

use crate::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn, yield_now};

words! {
    /// What is done.
    pub(crate) enum What {
        /// spawn a task that does nothing, and wait for its end
        Spawn = "spawn",
        /// let other tasks run, and be woken; as there is none, the runtime asks epoll each time
        Yield = "yield",
        /// send a number to another task by a channel, and receive it back
        Channel = "channel",
        /// send a byte to another task by a pair of Unix sockets, and receive it back
        Socket = "socket",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Task>();

point! {
    /// What does a task of an asynchronous runtime cost, spawned, woken and sent to?
    ///
    /// A task of tokio with one thread (current_thread), so that no task waits for another CPU; one of several threads adds a
    /// wake-up when it moves a task (os.context_switch). `channel` and `socket` are whole round trips between two tasks,
    /// two switches of tasks. For a socket the runtime asks epoll which task to wake: compare ipc.latency(over=unix, cpus=same),
    /// the same between two processes that block. The numbers that come back are checked.
    ///
    /// # Predicted from
    /// cycles (cpu.frequency) for an allocation, two or four switches of tasks and the runtime's queue; for `yield`, a call
    /// of 0.7 to 3 reads (os.syscall); for a socket, 8 to 60 reads
    ///
    /// # Sources
    /// - C. Lerche, Making the Tokio scheduler 10x faster, 2019; tokio 1, runtime and benches/spawn.rs
    /// - tokio::runtime::Builder::event_interval: epoll is asked every 61 tasks, and when no task can run
    pub(crate) struct Task of "sync.task" {
        /// what is done
        what: What = words(),
    }
}

impl Measure for Task {
    const METRICS: &'static [Metric] = metrics! {
        /// one of them
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 0, 10));
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Tasks>];

    fn predict(point: &At<Task>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        match point.what {
            What::Spawn => {
                cost_cycles(measured, (300.0, 2_500.0), "to allocate, queue, run and free a task")
            }
            What::Yield => {
                let read = syscall::measured_cost(measured, syscall::Call::Read)?;
                let task = cycles(measured, (100.0, 900.0), "to queue a task and run it")?;
                (read * (0.7, 3.0) + task).predict("cost")
            }
            What::Channel => {
                cost_cycles(measured, (200.0, 2_000.0), "for two messages and two wake-ups")
            }
            What::Socket => {
                let read = syscall::measured_cost(measured, syscall::Call::Read)?;
                let tasks = cycles(measured, (300.0, 3_000.0), "for two tasks")?;
                (read * (8.0, 60.0) + tasks).predict("cost")
            }
        }
    }
}

/// A runtime, and a task that sends back what it gets.
struct Tasks {
    runtime: Runtime,
    /// None after an error.
    ends: Option<Ends>,
    _echoes: [JoinHandle<()>; 2],
}

/// The measured task's ends to the task that sends back.
struct Ends {
    to: mpsc::Sender<u64>,
    from: mpsc::Receiver<u64>,
    socket: UnixStream,
}

impl Setup<Task> for Tasks {
    fn set_up(_: &At<Task>, _: &Launch) -> Result<Tasks> {
        let runtime = Builder::new_current_thread().enable_io().build();
        let runtime = runtime.or_unsupported("cannot start a runtime")?;
        let entered = runtime.enter();
        let (socket, mut other) =
            UnixStream::pair().or_unsupported("cannot make a pair of sockets")?;
        let (to, mut received) = mpsc::channel(1);
        let (back, from) = mpsc::channel(1);
        let by_channel = spawn(async move {
            while let Some(number) = received.recv().await {
                if back.send(number).await.is_err() {
                    break;
                }
            }
        });
        let by_socket = spawn(async move {
            while let Ok(byte) = other.read_u8().await {
                if other.write_u8(byte).await.is_err() {
                    break;
                }
            }
        });
        drop(entered);
        let ends = Some(Ends { to, from, socket });
        Ok(Tasks { runtime, ends, _echoes: [by_channel, by_socket] })
    }

    fn measure(&mut self, point: &At<Task>, meter: &mut Meter<'_>) -> Result {
        // A task is allocated, and a channel allocates its blocks.
        meter.operation_allocates();
        let Tasks { runtime, ends, .. } = self;
        let measured = repeat_fallible(meter, "cost", |n| {
            let own = ends.take().ok_or_else(|| io::Error::other("it has failed before"))?;
            // In a task of its own: what `block_on` itself waits for runs only after epoll was asked.
            let task = async { spawn(repeat(point.what, n, own)).await };
            *ends = Some(runtime.block_on(task).map_err(io::Error::other)??);
            Ok(())
        });
        measured.or_fail(format_args!("{} failed", point.what.word()))
    }
}

/// Does so `n` times, and gives the ends back.
async fn repeat(what: What, n: u64, mut ends: Ends) -> io::Result<Ends> {
    for number in 0..n {
        let came = match what {
            What::Spawn => spawn(async move { number }).await.ok(),
            What::Yield => {
                yield_now().await;
                Some(number)
            }
            What::Channel => {
                ends.to.send(number).await.map_err(io::Error::other)?;
                ends.from.recv().await
            }
            What::Socket => {
                ends.socket.write_u8(number as u8).await?;
                let byte = ends.socket.read_u8().await?;
                (byte == number as u8).then_some(number)
            }
        };
        if came != Some(number) {
            return Err(io::Error::other("another number came back"));
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::measure;

    #[test]
    fn what_goes_to_another_task_comes_back() {
        for what in What::ALL.iter().copied() {
            measure(Task { what }).unwrap();
        }
    }
}
