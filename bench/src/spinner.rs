//! A neighbour that keeps one processor busy: this program again, as a child
//! that ends when its standard input closes. So it ends with the bench, however
//! the bench ends, and it ends by itself after a while.

use crate::error::{Result, failed};
use costof_os::affinity;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The longest that a spinner spins.
const LIMIT: Duration = Duration::from_secs(120);
/// What it says when it is on its processor.
const READY: &str = "spinning\n";

/// A running spinner, ended when dropped.
pub(crate) struct Spinner(Child);

impl Spinner {
    /// One on `cpu`, which is busy when this returns.
    pub(crate) fn start(cpu: usize) -> Result<Spinner> {
        let cannot = |why: &dyn std::fmt::Display| {
            failed(format!("cannot start a spinner on processor {cpu}: {why}"))
        };
        let own = std::env::current_exe().map_err(|error| cannot(&error))?;
        let child = Command::new(own)
            .args(["spin", &cpu.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| cannot(&error))?;
        let mut spinner = Spinner(child);
        let output = spinner.0.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        // It says one line at once, or ends.
        match BufReader::new(output).read_line(&mut line) {
            Ok(_) if line == READY => Ok(spinner),
            Ok(_) => Err(cannot(&"it ended at once")),
            Err(error) => Err(cannot(&error)),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // One that has ended by itself is past both.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child's side: spins on `cpu` until standard input closes.
pub(crate) fn spin(cpu: usize) -> ExitCode {
    if let Err(error) = affinity::pin(&[cpu]) {
        eprintln!("costof-bench: cannot run on processor {cpu}: {error}");
        return ExitCode::FAILURE;
    }
    print!("{READY}");
    std::thread::spawn(|| {
        // Nothing is ever written to it: it reads its end when the bench is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        for _ in 0..100_000 {
            std::hint::black_box(());
        }
    }
    ExitCode::SUCCESS
}
