//! The end that sends back what comes, as several probes need it.

use crate::net::axes::{Exchange, Over};
use crate::net::meeting::{self, broken};
use crate::net::path::End;
use crate::wake::Kept;
use costof_exchange::conversation::{Conversation, is_end};
use costof_exchange::rendezvous::Listener;
use costof_measure::meter::Meter;
use costof_measure::probe::RoleAt;
use costof_model::failure::Failure;
use costof_model::protocol::{Launch, Offers};
use costof_model::typed::At;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::io;
use std::time::Duration;

/// Sends back what comes.
pub(crate) struct Echo {
    end: End,
    listener: Option<Listener>,
    kept: Option<Kept>,
}

impl Echo {
    pub(crate) fn start(launch: &Launch) -> Result<Echo, Failure> {
        Ok(Echo {
            end: End::of(launch, false)?,
            listener: None,
            kept: None,
        })
    }
}

impl<P> RoleAt<P> for Echo
where
    for<'a> Exchange: From<&'a P>,
{
    fn blocks(&self, point: &At<P>) -> bool {
        Exchange::from(&point.axes).blocks()
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers, Failure> {
        let ends = Exchange::from(&point.axes);
        if ends.over == Over::Udp && ends.size > DATAGRAM_MOST_BYTES {
            return Err(Failure::unsupported(
                "a datagram carries 65,507 B at most (--set size=65507, or over=tcp)",
            ));
        }
        let kept = self
            .end
            .settle(&point.link, ends.cpus, ends.wake, ends.blocks())?;
        self.kept = Some(kept);
        let (listener, offers) =
            meeting::listen(&point.link, &self.end.meeting, ends.over.into(), 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let ends = Exchange::from(&point.axes);
        let _kept = self.kept.take();
        let listener = self.listener.take().expect("it is prepared");
        let accepted = Conversation::accept(&listener, ends.wait.into(), meter.stop());
        let Some(mut conversation) = meeting::met(accepted)? else {
            return Ok(());
        };
        let mut message = vec![0; ends.size];
        serve(meter, |_| {
            if conversation.receive(&mut message)? {
                conversation.send(&message)?;
            }
            Ok(())
        })
    }
}

/// Answers one message after the other until the leading role has measured: who asks may have gone
/// before. `answer` returns without a message every so often.
///
/// # Errors
/// Why no more could be answered, unless who asks has gone.
pub(crate) fn serve(
    meter: &mut Meter<'_>,
    mut answer: impl FnMut(&mut Meter<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut ended: Option<io::Error> = None;
    while !meter.is_stopped() {
        match ended {
            // The client has what it wants, and the controller is about to say so.
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
            None => ended = answer(meter).err(),
        }
    }
    match ended {
        Some(error) if !is_end(&error) => Err(broken(&error)),
        _ => Ok(()),
    }
}
