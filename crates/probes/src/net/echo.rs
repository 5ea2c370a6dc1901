//! The end that sends back what comes, as several probes need it, and their axes.

use crate::literal::{axis, list, word, words};
use crate::net::meeting::{self, broken};
use crate::net::path::End;
use crate::wake::Kept;
use costof_measure::meter::Meter;
use costof_measure::probe::Role;
use costof_model::axis::Axis;
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::protocol::{Launch, Offers};
use costof_os::conversation::{Conversation, Wait, is_end};
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Listener, Over};
use std::io;
use std::time::Duration;

/// The axis `wait`.
pub(crate) const WAIT: Axis = words(
    "wait",
    "how an end waits for a message",
    list![
        word("block", "in the kernel"),
        word("spin", "by asking again and again"),
    ],
);

/// What a point's messages go through.
pub(crate) fn over(point: &Point) -> Over {
    match point.axes.word("over") {
        "udp" => Over::Udp,
        "unix" => Over::Unix,
        _ => Over::Tcp,
    }
}

/// How the ends of a point wait.
pub(crate) fn wait(point: &Point) -> Wait {
    match point.axes.word("wait") {
        "spin" => Wait::Spin,
        _ => Wait::Block,
    }
}

/// Bytes of a point's message.
pub(crate) fn size(point: &Point) -> usize {
    point.axes.number("size") as usize
}

/// A message of that size, in which no two neighbours are alike.
pub(crate) fn message(point: &Point) -> Vec<u8> {
    (0..size(point)).map(|byte| (byte % 251) as u8).collect()
}

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

impl Role for Echo {
    fn blocks(&self, point: &Point) -> bool {
        wait(point) == Wait::Block
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        if over(point) == Over::Udp && size(point) > DATAGRAM_MOST_BYTES {
            return Err(Failure::unsupported(
                "a datagram carries 65,507 B at most (--set size=65507, or over=tcp)",
            ));
        }
        self.kept = Some(self.end.settle(
            &point.link,
            axis(point, "cpus"),
            axis(point, "wake"),
            wait(point) == Wait::Block,
        )?);
        let (listener, offers) = meeting::listen(point, &self.end.meeting, over(point), 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _kept = self.kept.take();
        let listener = self.listener.take().expect("it is prepared");
        let accepted = Conversation::accept(&listener, wait(point), meter.stop());
        let Some(mut conversation) = meeting::met(accepted)? else {
            return Ok(());
        };
        let mut message = vec![0; size(point)];
        serve(meter, |_| match conversation.receive(&mut message)? {
            true => conversation.send(&message),
            false => Ok(()),
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
