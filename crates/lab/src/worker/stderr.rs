//! What a worker writes to standard error, which says why it ended.

use super::END_LIMIT;
use std::collections::VecDeque;
use std::io::Read;
use std::process::ChildStderr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of it is kept, from its end.
const STDERR_TAIL_BYTES: usize = 4096;

/// The last part of a worker's standard error.
#[derive(Debug)]
pub(super) struct Stderr {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Disconnected when the output has ended.
    closed: Receiver<()>,
}

impl Stderr {
    /// Returns the work for a thread, too: it reads `errors` to the end, so that the worker never
    /// blocks on a full pipe, and keeps the last part.
    pub(super) fn keep(errors: Option<ChildStderr>) -> (Stderr, impl FnOnce()) {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (open, closed) = mpsc::channel();
        let keeping = Arc::clone(&kept);
        let keep = move || {
            let _open: Sender<()> = open;
            let Some(mut errors) = errors else {
                return;
            };
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut buffer) {
                let mut kept = keeping.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..read]);
                let surplus = kept.len().saturating_sub(STDERR_TAIL_BYTES);
                kept.drain(..surplus);
            }
        };
        (Stderr { kept, closed }, keep)
    }

    /// The kept part of an ended worker's standard error, which is complete unless a process that
    /// the worker left behind keeps it open.
    pub(super) fn kept(&self) -> Vec<u8> {
        // Nothing is ever sent: this waits until the channel closes.
        let _ = self.closed.recv_timeout(END_LIMIT);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().copied().collect()
    }
}
