//! A server of remote procedure calls, and the CPU time of its threads, which belong to the RPC
//! library.

use costof_os::sched::tasks;
use costof_rpc::{Server, Socket, Stack};
use std::io;

/// A server that runs, and how its threads are named.
pub struct RpcServer {
    server: Box<dyn Server>,
    threads: &'static str,
}

impl RpcServer {
    /// Starts its threads where this one runs.
    ///
    /// # Errors
    /// The system's, if it cannot start another thread.
    pub fn start(stack: Stack) -> io::Result<RpcServer> {
        Ok(RpcServer {
            server: costof_rpc::server(stack)?,
            threads: match stack {
                Stack::Thrift => "thrift",
                _ => "grpc",
            },
        })
    }

    /// Serves these connections too.
    ///
    /// # Errors
    /// The system's error about the sockets.
    pub fn serve(&self, sockets: Vec<Socket>) -> io::Result<()> {
        let mut sockets = sockets.into_iter();
        sockets.try_for_each(|socket| self.server.serve(socket))
    }

    /// CPU time that its threads have used so far, in nanoseconds: all threads that serve a connection which
    /// the other end has not closed. `None` if the kernel does not report it.
    pub fn cpu_ns(&self) -> Option<f64> {
        let ns = tasks::cpu_ns(self.threads).ok()?;
        (ns > 0).then_some(ns as f64)
    }
}
