//! Senders, their peers, and sockets whose completions are reaped.

use super::{FIELDS, Part, Parts};
use crate::prelude::*;
use costof_os::memory::fields::{Messages, write_contents};
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::zerocopy::{self, Completions};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::thread::sleep;

/// Sockets reaped between two readings of the clock.
const SOCKETS: usize = 256;
/// The largest share of completions that may arrive after they are reaped.
const LATE: f64 = 0.05;
/// How long to wait for the last completions.
const LAST: Duration = Duration::from_secs(5);

pub(super) enum Sending {
    /// With the part and without it.
    Both(Box<[Exchange; 2]>),
    Reap(Reaper),
}

pub(super) struct Exchange {
    sender: FieldSender,
    /// Receives each message after it was sent.
    peer: UnixDatagram,
}

fn failed(what: &str) -> impl Fn(io::Error) -> Failure {
    move |error| match error.kind() {
        io::ErrorKind::Unsupported => Failure::unsupported(format!("{what}: {error}")),
        _ => Failure::error(format!("{what} failed: {error}")),
    }
}

fn message(size: usize, fields: usize) -> Result<Messages> {
    Messages::new((1, size, fields), PageSize::Base, &mut |_| {})
        .map_err(|error| arenas::failed("map", size as u64, Pages::Base, &error))
}

fn udp_to(peer: &UdpSocket) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(peer.local_addr()?)?;
    Ok(socket)
}

impl Exchange {
    fn new(primitive: Primitive, (size, fields): (usize, usize)) -> Result<Exchange> {
        let (socket, peer) = UnixDatagram::pair().map_err(failed("opening sockets"))?;
        let sender = FieldSender::new(socket.into(), primitive, message(size, fields)?);
        Ok(Exchange { sender: sender.map_err(failed("preparing to send"))?, peer })
    }

    fn send(&mut self, n: u64) -> io::Result<()> {
        for _ in 0..n {
            self.sender.send()?;
            self.peer.recv(&mut [0])?;
        }
        Ok(())
    }

    /// Checks that one more message arrives as it was sent.
    fn check(&mut self) -> Result {
        let failed = failed("sending");
        self.sender.send().map_err(&failed)?;
        let size = self.sender.messages().size();
        let (mut sent, mut came) = (vec![0; size], vec![0; size + 1]);
        write_contents(0, 0, &mut sent);
        let length = self.peer.recv(&mut came).map_err(&failed)?;
        ensure!(came[..length] == sent, "the received bytes differ from those sent");
        Ok(())
    }
}

/// Sockets whose completions are reaped in turn.
pub(super) struct Reaper {
    sockets: Vec<UdpSocket>,
    _peer: UdpSocket,
    bytes: Vec<u8>,
    sent: u64,
    completions: Completions,
    /// Completions that had not arrived when they were reaped, and all that were due.
    late: u64,
    due: u64,
}

impl Reaper {
    fn new(size: usize) -> Result<Reaper> {
        let open = || {
            let peer = UdpSocket::bind("127.0.0.1:0")?;
            let sockets = (0..SOCKETS).map(|_| udp_to(&peer));
            Ok((sockets.collect::<io::Result<Vec<_>>>()?, peer))
        };
        let (sockets, peer) = open().map_err(|error: io::Error| {
            Failure::unsupported(format!("cannot open {SOCKETS} sockets: {error} (ulimit -n)"))
        })?;
        for socket in &sockets {
            let enabled = zerocopy::enable(socket);
            enabled.or_unsupported_hint("UDP copies all that it sends", "Linux 5.0")?;
        }
        Ok(Reaper {
            sockets,
            _peer: peer,
            bytes: vec![7; size],
            sent: 0,
            completions: Completions::default(),
            late: 0,
            due: 0,
        })
    }

    fn send(&mut self, n: u64, batch: u64) -> io::Result<()> {
        for socket in &self.sockets[..n as usize] {
            for _ in 0..batch {
                zerocopy::send(socket, &self.bytes)?;
                self.sent += 1;
            }
        }
        Ok(())
    }

    fn reap(&mut self, n: u64, batch: u64) -> io::Result<()> {
        let before = self.completions.done;
        for socket in &self.sockets[..n as usize] {
            self.completions.collect(socket)?;
        }
        let came = self.completions.done - before;
        self.late += (n * batch).saturating_sub(came);
        self.due += n * batch;
        Ok(())
    }

    /// Checks that all completions arrived, and nearly all before they were reaped.
    fn check(&mut self) -> Result {
        let until = Instant::now() + LAST;
        while self.completions.done < self.sent && Instant::now() < until {
            for socket in &self.sockets {
                let collected = self.completions.collect(socket);
                collected.map_err(failed("reaping completions"))?;
            }
            sleep(Duration::from_millis(1));
        }
        let (done, sent, late, due) = (self.completions.done, self.sent, self.late, self.due);
        ensure!(done == sent, "{done} of {sent} sends were completed");
        if late as f64 > LATE * due as f64 {
            fail!("{late} of {due} completions came after they were reaped");
        }
        Ok(())
    }
}

impl Setup<Parts> for Sending {
    fn set_up(point: &At<Parts>, _: &Launch) -> Result<Sending> {
        point.check()?;
        let size = point.size;
        Ok(match point.part {
            Part::Reap => Sending::Reap(Reaper::new(size)?),
            Part::Iovec => Sending::Both(Box::new([
                Exchange::new(Primitive::Sendmsg, (size, FIELDS))?,
                // With one field it is a single send.
                Exchange::new(Primitive::SendEach, (size, 1))?,
            ])),
        })
    }

    fn measure(&mut self, point: &At<Parts>, meter: &mut Meter<'_>) -> Result {
        let mut error = FirstError::default();
        match self {
            Sending::Both(both) => {
                for (metric, exchange) in ["with_part", "without_part"].into_iter().zip(&mut **both)
                {
                    let mut meter = meter.share(2);
                    meter.repeatable(metric, |n| error.note(exchange.send(n)));
                }
            }
            Sending::Reap(reaper) => {
                let batch = point.batch();
                let reaper = RefCell::new(reaper);
                meter.used_up(
                    "cost",
                    SOCKETS as u64,
                    |n| {
                        let sent = reaper.borrow_mut().send(n, batch);
                        sent.map_err(failed("sending"))
                    },
                    |n| error.note(reaper.borrow_mut().reap(n, batch)),
                )?;
            }
        }
        error.into_result().map_err(failed("sending or reaping"))
    }

    fn check(self, _: &At<Parts>, _: &mut Meter<'_>) -> Result {
        match self {
            Sending::Both(mut both) => both.iter_mut().try_for_each(Exchange::check),
            Sending::Reap(mut reaper) => reaper.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_arrive_and_are_completed() {
        for fields in [FIELDS, 1] {
            let mut exchange = Exchange::new(Primitive::Sendmsg, (1000, fields)).unwrap();
            exchange.send(3).unwrap();
            assert_eq!(exchange.check(), Ok(()));
        }
        let mut reaper = Reaper::new(1000).unwrap();
        reaper.send(3, 5).unwrap();
        reaper.reap(3, 5).unwrap();
        assert_eq!(reaper.check().map_err(|failure| failure.reason), Ok(()));
        assert_eq!(reaper.completions.done, 15);
    }
}
