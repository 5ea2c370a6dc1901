//! The end that is called, as long as it serves: its threads belong to the stack.

use super::ends::broken;
use costof_measure::meter::Meter;
use costof_model::failure::Failure;
use costof_os::sched::tasks;
use costof_rpc::{Options, Server, Socket, Stack};
use std::time::Duration;

/// How long the role's own thread sleeps before it looks whether it is stopped. It shares a processor
/// with the server's threads.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A server, and how its threads are named.
pub(crate) struct Served {
    server: Server,
    threads: &'static str,
}

impl Served {
    /// Starts its threads where this one runs.
    ///
    /// # Errors
    /// What the system says of one more thread.
    pub(crate) fn start(stack: Stack) -> Result<Served, Failure> {
        let server = Server::start(stack, &Options::default());
        Ok(Served {
            server: server.map_err(|error| broken(&error))?,
            threads: match stack {
                Stack::Grpc => "grpc",
                Stack::Thrift(..) => "thrift",
            },
        })
    }

    /// Serves these connections too.
    ///
    /// # Errors
    /// What the system says of the sockets.
    pub(crate) fn serve(&self, sockets: Vec<Socket>) -> Result<(), Failure> {
        let mut sockets = sockets.into_iter();
        let served = sockets.try_for_each(|socket| self.server.serve(socket));
        served.map_err(|error| broken(&error))
    }

    /// Serves until the leading role has measured, and adds as `metric` what its threads have used.
    pub(crate) fn until_stopped(self, metric: &'static str, meter: &mut Meter<'_>) {
        meter.until_stopped(|| std::thread::sleep(POLL_INTERVAL));
        if let Some(ns) = self.cpu_ns() {
            meter.value(metric, ns);
        }
    }

    /// What its threads have used so far, in nanoseconds: all that serve a connection which the other
    /// end has not closed. `None` where the kernel does not report it.
    pub(crate) fn cpu_ns(&self) -> Option<f64> {
        let ns = tasks::cpu_ns(self.threads).ok()?;
        (ns > 0).then_some(ns as f64)
    }
}
