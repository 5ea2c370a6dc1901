//! A client that is served, from its admission on.

use super::control::{Control, Lines};
use super::protocol::{LINE_MAX_BYTES, Reply, Request};
use super::receiver::{Event, Observer, Receiver, Rejection, Served, UNEXPECTED};
use super::workload::{LocalEnd, Workload};
use super::{Outcome, Refusal, empty_report, printable, token, watch_link_end};
use costof_model::failure::{Failure, OrFailure};
use costof_model::protocol::{Offers, Report};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// How long a sender may take to end when it is asked to.
const ENDING: Duration = Duration::from_secs(3);

/// How a session ended.
enum End {
    Done,
    Early(String),
    Gone(String),
}

/// A client that is served.
pub(super) struct Session<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) client: u64,
    pub(super) control: &'a Control,
    pub(super) workload: Workload,
}

impl Session<'_> {
    pub(super) fn serve(
        self,
        lines: &mut Lines<'_>,
        stop: &AtomicBool,
        observe: Observer<'_>,
    ) -> Result<(), Rejection> {
        let this_end = &self.receiver.this_end;
        let prepared = self.prepare().map_err(|failure| self.reject(failure.reason));
        let (mut role, offers, token) = prepared?;
        let from = self.control.peer.clone();
        let link_end = watch_link_end("receiver", self.control.local);
        let begin = Reply::Begin { offers, token, place: this_end.place.clone() };
        let enough = AtomicBool::new(false);
        let served = scope(|scope| {
            let running =
                Builder::new().spawn_scoped(scope, || this_end.measure(&mut *role, &enough))?;
            observe(Event::Began {
                client: self.client,
                from: from.clone(),
                what: self.workload.what(),
            });
            let end = match self.control.send(&begin) {
                Ok(()) => self.until_done(lines, stop, || running.is_finished()),
                Err(error) => End::Gone(error.to_string()),
            };
            enough.store(true, Ordering::Release);
            let bug = |_| Err(Failure::error("the receiver has a bug: it panicked"));
            Ok((running.join().unwrap_or_else(bug), end))
        });
        let (measured, end) = served.map_err(|error: io::Error| {
            self.reject(format!("the receiver cannot start a thread: {error}"))
        })?;
        let bytes = role.count();
        if !matches!(end, End::Gone(_)) {
            let report = measured.clone();
            // If the sender no longer reads this, it left after everything was done.
            if self.control.send(&Reply::Arrived { report, bytes }).is_ok() {
                self.control.end();
            }
        }
        let run =
            |report: Report| this_end.run(&self.workload, vec![report, empty_report()], link_end());
        observe(Event::Ended(Box::new(Served {
            client: self.client,
            from,
            early: match end {
                End::Done => None,
                End::Early(why) | End::Gone(why) => Some(why),
            },
            outcome: Outcome {
                what: self.workload.what(),
                sent: None,
                arrived: bytes / self.workload.size(),
                arrived_bytes: bytes,
                duplicates: 0,
                measured: measured.and_then(run),
            },
        })));
        Ok(())
    }

    /// Tells the sender why it is not served.
    fn reject(&self, reason: String) -> Rejection {
        let rejection = Rejection::Refused(Refusal::Nothing(reason));
        rejection.tell(self.control);
        rejection
    }

    /// The role, where the sender can connect to it, and with which token.
    fn prepare(&self) -> Result<(Box<dyn LocalEnd>, Offers, String), Failure> {
        let token = token().or_fail("no random bytes for a token")?;
        let Receiver { this_end, sockets, .. } = self.receiver;
        let launch =
            this_end.launch("receiver", &self.workload, self.control, *sockets, token.clone());
        let mut role = self.workload.receiving(&launch)?;
        let offers = role.prepare(&Offers::new())?;
        Ok((role, offers, token))
    }

    /// Waits until the sender is done, has gone, or ignores the request to end; or until nothing
    /// more is received.
    fn until_done(
        &self,
        lines: &mut Lines<'_>,
        stop: &AtomicBool,
        has_failed: impl Fn() -> bool,
    ) -> End {
        let mut until: Option<Instant> = None;
        loop {
            let request = lines.message(LINE_MAX_BYTES, || match until {
                Some(until) => Instant::now() < until,
                None => !stop.load(Ordering::Acquire) && !has_failed(),
            });
            return match request {
                Ok(Request::Done { .. }) if stop.load(Ordering::Acquire) => {
                    End::Early("this end was stopped".to_owned())
                }
                Ok(Request::Done { .. }) => End::Done,
                Ok(Request::Failed { reason }) => End::Early(printable(&reason)),
                Ok(Request::Will { .. }) => End::Gone(UNEXPECTED.to_owned()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if until.is_none() && self.control.send(&Reply::End).is_ok() {
                        until = Some(Instant::now() + ENDING);
                        continue;
                    }
                    End::Early("it did not end in time".to_owned())
                }
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    End::Gone(UNEXPECTED.to_owned())
                }
                Err(_) => End::Gone("it closed the connection before the end".to_owned()),
            };
        }
    }
}
