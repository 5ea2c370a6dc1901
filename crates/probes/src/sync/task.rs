//! `sync.task`: what a task of an asynchronous runtime costs.

use crate::expect::cycles;
use crate::prelude::*;
use std::io::{self, ErrorKind};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn, yield_now};

words! {
    /// What is done.
    pub(crate) enum What {
        /// spawn a task that does nothing, and wait for its end
        Spawn = "spawn",
        /// let another task run, and be woken
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
    /// tokio with one thread (current_thread), so that no task waits for another CPU; one of several threads adds a
    /// wake-up when it moves a task (os.context_switch). `channel` and `socket` are whole round trips between two tasks,
    /// two switches of tasks. For a socket the runtime asks epoll which task to wake: compare ipc.latency(over=unix, cpus=same),
    /// the same between two processes that block. The numbers that come back are checked.
    ///
    /// # Predicted from
    /// cycles (cpu.frequency) for an allocation, two or four switches of tasks and the runtime's queue; for a socket,
    /// eight to twenty reads (os.syscall)
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
            What::Yield => cost_cycles(measured, (30.0, 600.0), "to queue a task and run it"),
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
    channel: (mpsc::Sender<u64>, mpsc::Receiver<u64>),
    socket: UnixStream,
    _echoes: [JoinHandle<()>; 2],
}

impl Setup<Task> for Tasks {
    fn set_up(_: &At<Task>, _: &Launch) -> Result<Tasks, Failure> {
        let runtime = Builder::new_current_thread().enable_io().build();
        let runtime = runtime.or_unsupported("cannot start a runtime")?;
        let entered = runtime.enter();
        let (socket, other) = UnixStream::pair().or_unsupported("cannot make a pair of sockets")?;
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
            while let Ok(byte) = receive(&other).await {
                if send(&other, byte).await.is_err() {
                    break;
                }
            }
        });
        drop(entered);
        Ok(Tasks { runtime, channel: (to, from), socket, _echoes: [by_channel, by_socket] })
    }

    fn measure(&mut self, point: &At<Task>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        // A task is allocated, and a channel allocates its blocks.
        meter.operation_allocates();
        let Tasks { runtime, channel: (to, from), socket, .. } = self;
        let measured = repeat_fallible(meter, "cost", |n| {
            runtime.block_on(async {
                for number in 0..n {
                    let came = match point.what {
                        What::Spawn => spawn(async move { number }).await.ok(),
                        What::Yield => {
                            yield_now().await;
                            Some(number)
                        }
                        What::Channel => {
                            to.send(number).await.map_err(io::Error::other)?;
                            from.recv().await
                        }
                        What::Socket => {
                            send(socket, number as u8).await?;
                            let byte = receive(socket).await?;
                            (byte == number as u8).then_some(number)
                        }
                    };
                    if came != Some(number) {
                        return Err(io::Error::other("another number came back"));
                    }
                }
                Ok(())
            })
        });
        measured.or_fail(format_args!("{} failed", point.what.word()))
    }
}

async fn receive(socket: &UnixStream) -> io::Result<u8> {
    let mut byte = [0];
    loop {
        match socket.try_read(&mut byte) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(byte[0]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.readable().await?,
            Err(error) => return Err(error),
        }
    }
}

async fn send(socket: &UnixStream, byte: u8) -> io::Result<()> {
    loop {
        match socket.try_write(&[byte]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable().await?,
            sent => return sent.map(drop),
        }
    }
}
