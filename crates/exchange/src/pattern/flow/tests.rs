use super::*;
use crate::progress::{Ending, POLL_INTERVAL, STALLED};
use crate::rendezvous::Over;
use costof_os::memory::arena::PageSize;
use costof_os::memory::fields::write_contents;
use costof_os::net::field_sender::Primitive;
use costof_os::net::segments;
use costof_os::sched::affinity;
use rustix::net::{SendFlags, recv, send};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
const ALL: [Over; 4] = [Over::Tcp, Over::Unix, Over::Udp, Over::UdpGso];
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const fn shape(size: usize, count: usize) -> Shape {
    Shape { size, count }
}

fn messages(shape: Shape) -> Messages {
    Messages::new((shape.count, shape.size, 8), PageSize::Base, &mut |_| {}).unwrap()
}

type Ends = (Vec<Receiver>, Vec<Sender>);

fn meet(over: Over, flows: usize, shape: Shape, primitive: Primitive) -> Ends {
    try_meet(over, flows, shape, primitive).unwrap()
}

fn try_meet(over: Over, flows: usize, shape: Shape, primitive: Primitive) -> io::Result<Ends> {
    let listener = Listener::open(over, (LOCAL, 0), (0, 0), flows, TOKEN).unwrap();
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receivers = scope.spawn(|| accept(&listener, over, Content::Fields(shape), &stop));
        let messages = (0..flows).map(|_| messages(shape)).collect();
        let senders = call(over, &address, None, TOKEN, primitive, messages);
        Ok((receivers.join().unwrap()?, senders?))
    })
}

/// The result; `None`, with a message, where this machine or socket does not support it.
fn there<T>(result: io::Result<T>, what: &str) -> Option<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            eprintln!("skipped: {what}: {error}");
            None
        }
        result => Some(result.unwrap_or_else(|error| panic!("{what}: {error}"))),
    }
}

/// Sets a loop's stop flag, even if a test panics.
struct AtEnd<'s>(&'s AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Lets each pair of ends work, on these CPUs in turn, until the senders are done. Returns their
/// results.
fn work<T: Send>(
    (receivers, senders): &mut Ends,
    cpus: &[usize],
    receive: impl Fn(&mut Receiver, &AtomicBool) -> io::Result<()> + Sync,
    send: impl Fn(&mut Sender) -> io::Result<T> + Sync,
) -> (Vec<io::Result<()>>, Vec<io::Result<T>>) {
    let stop = AtomicBool::new(false);
    let (stop, receive, send) = (&stop, &receive, &send);
    let pin = |position: usize| {
        let cpu = cpus.iter().cycle().nth(position);
        cpu.map_or(Ok(()), |cpu| affinity::pin(&[*cpu]))
    };
    let pin = &pin;
    thread::scope(|scope| {
        let ending = AtEnd(stop);
        let receiving: Vec<_> = (receivers.iter_mut().zip(1..))
            .map(|(flow, at)| scope.spawn(move || pin(at).and_then(|()| receive(flow, stop))))
            .collect();
        let sending: Vec<_> = (senders.iter_mut().zip(0..))
            .map(|(flow, at)| scope.spawn(move || pin(at).and_then(|()| send(flow))))
            .collect();
        let sent = sending.into_iter().map(|one| one.join().unwrap()).collect();
        drop(ending);
        let received = receiving.into_iter().map(|one| one.join().unwrap());
        (received.collect(), sent)
    })
}

/// As [`work`], for work that must not fail.
fn exchange<T: Send>(
    ends: &mut Ends,
    what: &str,
    receive: impl Fn(&mut Receiver, &AtomicBool) -> io::Result<()> + Sync,
    send: impl Fn(&mut Sender) -> io::Result<T> + Sync,
) -> Vec<T> {
    let (received, sent) = work(ends, &[], receive, send);
    all(received, what);
    all(sent, what)
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Stream,
    Echo(usize),
    Trigger(u64),
}

impl Pattern {
    fn receive(self, receiver: &mut Receiver, stop: &AtomicBool) -> io::Result<()> {
        match self {
            Pattern::Stream => receiver.receive(stop),
            Pattern::Echo(_) => {
                let Content::Fields(shape) = receiver.content else {
                    unreachable!("these tests send fields")
                };
                let answers = messages(shape);
                receiver.answer(Primitive::Sendmsg, answers, stop)
            }
            Pattern::Trigger(burst) => receiver.ask(burst, stop, &mut |_, _| {}),
        }
    }

    fn send(self, sender: &mut Sender, duration: Duration) -> io::Result<()> {
        match self {
            Pattern::Stream => sender.stream(duration),
            Pattern::Echo(in_flight) => sender.echo(duration, in_flight, &mut |_| {}),
            Pattern::Trigger(burst) => sender.trigger(duration, burst),
        }
    }
}

/// A flag that outlives every flow.
fn flag() -> &'static AtomicBool {
    Box::leak(Box::default())
}

/// Sets a flag shortly after.
fn set_soon(flag: &AtomicBool) {
    thread::sleep(Duration::from_millis(20));
    flag.store(true, Ordering::Release);
}

fn all<T>(results: Vec<io::Result<T>>, what: &str) -> Vec<T> {
    let results: io::Result<Vec<T>> = results.into_iter().collect();
    results.unwrap_or_else(|error| panic!("{what}: {error}"))
}

const SHORT: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3600);

/// Compares every byte: each way of sending, up to 16 threads, on one CPU and on two.
#[test]
#[ignore = "long; ./check --all runs it"]
fn no_byte_is_lost_by_any_way_and_number_of_threads() {
    let cpus = affinity::allowed().unwrap();
    for cpus in [&cpus[..1], &cpus[..cpus.len().min(2)]] {
        for primitive in Primitive::ALL {
            for threads in [1, 2, 4, 8, 16] {
                let what = format!("{primitive:?}, {threads} threads, CPUs {cpus:?}");
                let met = try_meet(Over::Tcp, threads, shape(10_001, 3), primitive);
                let Some(mut ends) = there(met, &what) else {
                    continue;
                };
                ends.0.iter_mut().for_each(Receiver::verify);
                let (received, sent) = work(&mut ends, cpus, Receiver::receive, |sender| {
                    (0..20).try_for_each(|_| sender.send_or_lose())?;
                    sender.end_within(STALLED)
                });
                all(received, &what);
                all(sent, &what);
                for receiver in &ends.0 {
                    assert!(receiver.ended, "{what}");
                    assert_eq!(receiver.progress.bytes, 20 * 10_001, "{what}");
                }
            }
        }
    }
}

#[test]
fn messages_stream_and_arrive_as_they_were_sent() {
    for over in [Over::Tcp, Over::Unix, Over::Udp] {
        for (size, count) in [(64, 1), (4099, 5), (60_000, 3)] {
            let what = format!("{over:?} {size}");
            let mut ends = meet(over, 2, shape(size, count), Primitive::Sendmsg);
            exchange(&mut ends, &what, Receiver::receive, |sender| {
                sender.stream(Duration::from_millis(20))?;
                sender.end()
            });
            let (mut sent, mut arrived) = (0, 0);
            for (receiver, sender) in ends.0.iter().zip(&ends.1) {
                assert!(receiver.last_piece_is_right(), "{what}");
                assert!(!receiver.progress.checkpoints().is_empty(), "{what}");
                assert!(receiver.progress.bytes > 0 && sender.counts().messages > 0);
                sent += sender.counts().messages * size as u64;
                arrived += receiver.progress.bytes;
            }
            assert!(arrived == sent || over.is_datagrams() && arrived < sent);
        }
    }
}

#[test]
fn every_message_is_answered() {
    for primitive in [Primitive::CopyAndSend, Primitive::MsgZerocopy] {
        for in_flight in [1, 7] {
            let shape = shape(1000, 3);
            let mut ends = meet(Over::Tcp, 1, shape, primitive);
            let latencies = exchange(
                &mut ends,
                "echo",
                |receiver, stop| receiver.answer(primitive, messages(shape), stop),
                |sender| {
                    let (mut latencies, time) = (0, Duration::from_millis(20));
                    sender.echo(time, in_flight, &mut |_| latencies += 1)?;
                    assert!(sender.reusable_after_ns()? > 0);
                    sender.end().map(|()| latencies)
                },
            )[0];
            // Another message was sent to see when its bytes may be changed.
            let sent = ends.1[0].counts().messages;
            assert_eq!(ends.0[0].progress.bytes, sent * 1000);
            assert!(latencies > 0 && latencies < sent, "{latencies} of {sent}");
        }
    }
}

/// Each flow of several is sent by a thread that ends afterwards.
#[test]
fn a_flow_may_end_in_another_thread_than_the_one_that_sent() {
    for primitive in [Primitive::MsgZerocopy, Primitive::IoUringSendZc] {
        let what = format!("{primitive:?}");
        let met = try_meet(Over::Tcp, 1, shape(4096, 2), primitive);
        let Some(mut ends) = there(met, &what) else {
            continue;
        };
        exchange(&mut ends, &what, Receiver::receive, |sender| {
            let stream = || sender.stream(Duration::from_millis(20));
            thread::scope(|scope| scope.spawn(stream).join().unwrap())?;
            sender.end()
        });
        let counts = ends.1[0].counts();
        assert!(counts.asked > 0 && counts.completed == counts.asked);
    }
}

#[test]
fn other_bytes_than_were_sent_are_noticed() {
    let shape = shape(83, 2);
    let mut right = vec![0; 2 * 83];
    write_contents(0, 0, &mut right[..83]);
    write_contents(1, 0, &mut right[83..]);
    for wrong in [None, Some(0), Some(7), Some(2 * 83 - 3)] {
        let listener = Listener::open(Over::Tcp, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
        let Address::Ip(at) = listener.address().unwrap() else { panic!("a TCP socket") };
        let stop = AtomicBool::new(false);
        let mut stranger = TcpStream::connect(at[0]).unwrap();
        stranger.write_all(TOKEN).unwrap();
        let mut receiver =
            accept(&listener, Over::Tcp, Content::Fields(shape), &stop).unwrap().remove(0);
        // Answering lets it begin.
        stranger.read_exact(&mut [0; TOKEN.len()]).unwrap();
        let mut said = right.clone();
        if let Some(wrong) = wrong {
            said[wrong] ^= 1;
        }
        stranger.write_all(&said).unwrap();
        let received = thread::scope(|scope| {
            let received = scope.spawn(|| receiver.receive(&stop));
            stranger.shutdown(std::net::Shutdown::Write).unwrap();
            // The receiver closes when it has everything, or has found an error.
            let wait = Some(Duration::from_millis(5));
            stranger.set_read_timeout(wait).unwrap();
            while !received.is_finished() && stranger.read(&mut [0]).is_err() {}
            stop.store(true, Ordering::Release);
            received.join().unwrap()
        });
        let is_right = received.is_ok() && receiver.last_piece_is_right();
        assert_eq!(is_right, wrong.is_none(), "{wrong:?} {received:?}");
    }
}

#[test]
fn so_many_messages_are_sent_and_arrive_and_a_stop_is_heard() {
    for most in [1, 7, 2000, u64::MAX] {
        for pattern in [Pattern::Stream, Pattern::Echo(4), Pattern::Trigger(3)] {
            let what = format!("{most} {pattern:?}");
            let mut ends = meet(Over::Tcp, 1, shape(4099, 1), Primitive::Sendmsg);
            let stop = flag();
            ends.1[0].end_by(Ending { messages: most, stop });
            exchange(
                &mut ends,
                &what,
                |receiver, stop| pattern.receive(receiver, stop),
                |sender| {
                    thread::scope(|scope| {
                        if most == u64::MAX {
                            scope.spawn(|| set_soon(stop));
                        }
                        pattern.send(sender, HOUR)
                    })?;
                    sender.end()
                },
            );
            let (receiver, sender) = (&ends.0[0], &ends.1[0]);
            let sent = sender.counts().messages;
            assert_eq!(receiver.progress.bytes, sent * 4099, "{what}");
            assert!(sent == most || most == u64::MAX, "{sent} of {what}");
            assert_eq!(sender.progress.checkpoints().last().unwrap().bytes, sent * 4099);
        }
    }
}

/// More messages are unanswered than both sockets hold: an end that only wrote would wait for the
/// other.
#[test]
#[ignore = "long; ./check --all runs it"]
fn an_echo_of_any_size_has_no_deadlock() {
    for over in [Over::Tcp, Over::Unix] {
        for primitive in Primitive::ALL {
            // Such sockets do not support zero-copy sends, as the first one reports.
            if over == Over::Unix && primitive.has_completions() {
                continue;
            }
            for (size, in_flight) in [(64, 1024), (1 << 20, 16)] {
                let what = format!("{primitive:?} over {over:?}, {in_flight} of {size} B");
                let shape = shape(size, 2);
                let Some(mut ends) = there(try_meet(over, 1, shape, primitive), &what) else {
                    continue;
                };
                ends.0[0].verify();
                ends.1[0].verify();
                let heard = exchange(
                    &mut ends,
                    &what,
                    |receiver, stop| receiver.answer(primitive, messages(shape), stop),
                    |sender| {
                        let mut heard = 0;
                        sender.echo(SHORT, in_flight, &mut |_| heard += 1)?;
                        sender.end().map(|()| heard)
                    },
                )[0];
                let (receiver, sender) = (&ends.0[0], &ends.1[0]);
                let messages = sender.counts().messages;
                assert!(heard > 0 && heard <= messages, "{what}: {heard}");
                assert_eq!(receiver.progress.bytes, messages * size as u64, "{what}");
                assert!(receiver.ended, "{what}");
                assert_eq!(sender.unanswered().1, 0, "{what}");
                // Many answers may arrive together, but each call receives one of 1 MiB at most.
                let least = messages + if size > 64 { messages } else { 1 };
                assert!(sender.sent.system_calls >= least, "{what}");
            }
        }
    }
}

#[test]
fn an_echo_makes_two_calls_for_each_message() {
    for over in ALL {
        let shape = shape(64, 1);
        let mut ends = meet(over, 1, shape, Primitive::Sendmsg);
        exchange(
            &mut ends,
            "echo",
            |receiver, stop| receiver.answer(Primitive::Sendmsg, messages(shape), stop),
            |sender| {
                sender.echo(SHORT, 1, &mut |_| {})?;
                sender.end()
            },
        );
        let sent = ends.1[0].sent;
        assert!(sent.messages > 0, "{over:?}");
        assert!(sent.system_calls >= 2 * sent.messages, "{over:?}: {sent:?}");
        assert!(sent.system_calls <= 2 * sent.messages + 20, "{over:?}: {sent:?}");
    }
}

#[test]
fn messages_come_as_they_are_asked_for() {
    for over in ALL {
        for burst in [1, 3] {
            let what = format!("{over:?} {burst}");
            let met = try_meet(over, 2, shape(9000, 2), Primitive::Sendmsg);
            let Some(mut ends) = there(met, &what) else {
                continue;
            };
            ends.0.iter_mut().for_each(Receiver::verify);
            let latencies = std::sync::Mutex::new(Vec::new());
            exchange(
                &mut ends,
                &what,
                |receiver, stop| {
                    receiver.ask(burst, stop, &mut |asked_ns, took_ns| {
                        latencies.lock().unwrap().push((asked_ns, took_ns));
                    })
                },
                |sender| sender.trigger(SHORT, burst).and_then(|()| sender.end()),
            );
            let latencies = latencies.into_inner().unwrap();
            let bursts = latencies.len() as u64;
            let messages: u64 = ends.1.iter().map(|sender| sender.counts().messages).sum();
            let arrived: u64 = ends.0.iter().map(|receiver| receiver.progress.bytes).sum();
            assert!(bursts > 0 && latencies.iter().all(|(at, took)| *at > 0 && *took > 0));
            if over.is_datagrams() {
                // Datagrams may be lost.
                assert!(bursts * burst <= messages, "{what}");
            } else {
                assert_eq!(bursts * burst, messages, "{what}");
                assert_eq!(arrived, messages * 9000, "{what}");
            }
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_message_goes_at_once_as_several_datagrams() {
    for primitive in Primitive::ALL {
        for size in [64, segments::SEGMENT_BYTES, 9003, 65_507] {
            let what = format!("{primitive:?} of {size} B in segments");
            let shape = Shape { size, count: 3 };
            let met = try_meet(Over::UdpGso, 1, shape, primitive);
            let Some(mut ends) = there(met, &what) else {
                continue;
            };
            ends.0[0].verify();
            let (received, sent) = work(
                &mut ends,
                &[],
                |receiver, stop| {
                    receiver.receive(stop)?;
                    // Discards what arrived earlier.
                    while receiver.receive_once()? {}
                    Ok(())
                },
                |sender| {
                    // Slowly enough that nothing needs to be lost.
                    for _ in 0..6 {
                        sender.send_or_lose()?;
                        thread::sleep(Duration::from_millis(1));
                    }
                    sender.end()
                },
            );
            all(received, &what);
            if let Err(error) = &sent[0] {
                // A packet holds at most 17 pieces of memory.
                assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{what}");
                assert!(primitive.has_completions() && size > 1 << 15, "{what}");
                continue;
            }
            let datagrams = 6 * segments::count(size) as u64;
            // Datagrams for which the socket has no room are lost.
            let came = ends.0[0].datagrams().unwrap().unwrap().arrived;
            assert!(came > 0 && came <= datagrams, "{what}: {came}");
            let lost = datagrams - came;
            let (bytes, each) = (ends.0[0].progress.bytes, segments::SEGMENT_BYTES as u64);
            assert!(bytes + lost * each >= 6 * size as u64, "{what}: {bytes}");
            assert!(bytes <= came * each, "{what}: {bytes}");
            assert!(ends.0[0].last_piece_is_right(), "{what}");
        }
    }
}

/// A server of an echo over UDP that handles each message by `answer`.
fn with_answers_over_udp(
    shape: Shape,
    answer: impl Fn(&UdpSocket, u64, &[u8]) + Sync,
    work: impl FnOnce(&mut Sender),
) {
    let listener = Listener::open(Over::Udp, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (listener, answer, ended) = (&listener, &answer, &stop);
        let answering = scope.spawn(move || {
            let flow = listener.accept(ended).unwrap().remove(0);
            let socket = UdpSocket::from(flow.into_socket().unwrap());
            socket.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
            socket.send(TOKEN).unwrap();
            let (mut message, mut came) = (vec![0; shape.size], 0);
            while !ended.load(Ordering::Acquire) {
                if let Ok(length) = socket.recv(&mut message) {
                    answer(&socket, came, &message[..length]);
                    came += 1;
                }
            }
        });
        let own = vec![messages(shape)];
        let called = call(Over::Udp, &address, None, TOKEN, Primitive::Sendmsg, own);
        // Also if the work fails.
        let ending = AtEnd(&stop);
        work(&mut called.unwrap()[0]);
        drop(ending);
        answering.join().unwrap();
    });
}

#[test]
fn an_answer_that_is_lost_is_counted_and_the_echo_goes_on() {
    let shape = shape(600, 2);
    for in_flight in [1, 4] {
        let mut heard = 0;
        with_answers_over_udp(
            shape,
            |socket, number, message| {
                // Drops the third message and the tenth.
                if number != 2 && number != 9 {
                    socket.send(message).unwrap();
                }
            },
            |sender| {
                sender.echo(4 * POLL_INTERVAL, in_flight, &mut |_| heard += 1).unwrap();
                let (asked, lost) = sender.unanswered();
                // On a busy machine an answer may come too late, too.
                assert!((2..asked).contains(&lost), "{lost} of {asked}, {in_flight} in flight");
                assert!(asked > 12 && asked % in_flight as u64 == 0, "{asked}");
            },
        );
        assert!(heard > 0 && heard % in_flight == 0, "{heard}");
    }
}

#[test]
fn datagrams_that_were_asked_for_and_are_lost_are_asked_for_again() {
    let shape = shape(64, 1);
    let (mut receivers, senders) = meet(Over::Udp, 1, shape, Primitive::Sendmsg);
    let sender = UdpSocket::from(senders[0].socket().try_clone_to_owned().unwrap());
    sender.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
    let mut message = [0; 64];
    write_contents(0, 0, &mut message);
    let stop = AtomicBool::new(false);
    let (mut bursts, mut asked) = (0, 0);
    thread::scope(|scope| {
        let (stop, asked) = (&stop, &mut asked);
        scope.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                let mut said = [0; REQUEST_BYTES];
                if sender.recv(&mut said).is_err() {
                    continue;
                }
                assert_eq!(said, request());
                *asked += 1;
                // One message of the second burst is lost, and all of the third.
                let sent = match *asked {
                    2 => 1,
                    3 => 0,
                    _ => 2,
                };
                for _ in 0..sent {
                    sender.send(&message).unwrap();
                }
            }
        });
        let mut heard = |_, _| {
            bursts += 1;
            stop.store(bursts == 3, Ordering::Release);
        };
        receivers[0].ask(2, stop, &mut heard).unwrap();
    });
    assert!(bursts == 3 && asked >= 5, "{bursts} {asked}");
}

#[test]
fn another_end_that_goes_away_is_an_error_and_no_hang() {
    let patterns = [Pattern::Stream, Pattern::Echo(1), Pattern::Echo(16), Pattern::Trigger(2)];
    for pattern in patterns {
        for over in [Over::Tcp, Over::Unix] {
            let (mut receivers, mut senders) = meet(over, 1, shape(1 << 20, 1), Primitive::Sendmsg);
            let mut receiver = receivers.remove(0);
            thread::scope(|scope| {
                scope.spawn(move || {
                    let stop = AtomicBool::new(false);
                    thread::scope(|scope| {
                        scope.spawn(|| set_soon(&stop));
                        pattern.receive(&mut receiver, &stop).unwrap();
                    });
                    // It leaves data unread.
                    drop(receiver);
                });
                let sent = pattern.send(&mut senders[0], Duration::from_secs(10));
                let kind = sent.unwrap_err().kind();
                let gone =
                    [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof];
                assert!(gone.contains(&kind), "{pattern:?} over {over:?}: {kind:?}");
            });
        }
    }
}

#[test]
fn answers_with_other_bytes_are_noticed() {
    let shape = shape(128, 1);
    // A wrong first word is found in any piece; a later byte only in the last piece, or if every
    // byte is compared.
    for (wrong, verifies) in [(0, false), (100, false), (100, true)] {
        with_answers_over_udp(
            shape,
            |socket, _, message| {
                let mut message = message.to_vec();
                message[wrong] ^= 1;
                socket.send(&message).unwrap();
            },
            |sender| {
                if verifies {
                    sender.verify();
                }
                let error = sender.echo(SHORT, 1, &mut |_| {}).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{wrong} {verifies}");
                let messages = sender.counts().messages;
                assert_eq!(messages == 1, wrong == 0 || verifies, "{messages}");
            },
        );
    }
}

#[test]
fn connections_begin_by_the_listeners_congestion_control() {
    let shape = shape(64, 1);
    let listener = Listener::open(Over::Tcp, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
    // Every kernel has it, and every user may use it.
    listener.set_congestion_control("reno").unwrap();
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receivers =
            scope.spawn(|| accept(&listener, Over::Tcp, Content::Fields(shape), &stop).unwrap());
        let own = vec![messages(shape)];
        let senders = call(Over::Tcp, &address, None, TOKEN, Primitive::Sendmsg, own);
        let receivers = receivers.join().unwrap();
        let chosen = costof_os::net::socket::congestion_control(&receivers[0].socket).unwrap();
        assert_eq!(chosen, "reno");
        drop(senders);
    });
}

#[test]
fn what_a_thread_did_is_counted_around_its_work() {
    let (worked, counted) = ThreadUsage::around(|| {
        (0..5).for_each(|_| thread::sleep(Duration::from_millis(1)));
        Ok(7)
    });
    assert_eq!(worked.unwrap(), 7);
    // A thread that is preempted just before it sleeps does not switch of its own will.
    assert!(counted.resources.voluntary_switches > 0, "{counted:?}");
    assert!(counted.counts.iter().all(|count| !count.user_only));
    // Both the kernel's and user space's cycles, or none.
    let cycles = counted.count(costof_os::perf::Event::Cycles);
    assert!(cycles.is_none_or(|cycles| cycles > 0), "{counted:?}");
}

#[test]
fn the_first_request_may_come_with_the_token() {
    let shape = shape(5000, 1);
    for over in [Over::Tcp, Over::Unix, Over::Udp] {
        let listener = Listener::open(over, (LOCAL, 0), (0, 0), 2, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (listener, stop) = (&listener, &stop);
            let ending = AtEnd(stop);
            let asking = scope.spawn(move || {
                let mut flows = accept(listener, over, Content::Fields(shape), stop).unwrap();
                flows[0].ask(1, stop, &mut |_, _| {}).unwrap();
                flows[0].progress.bytes
            });
            // Flows connect in any order, and one of them asks.
            let own = vec![messages(shape), messages(shape)];
            let called = call(over, &address, None, TOKEN, Primitive::Sendmsg, own);
            let mut flows = called.unwrap_or_else(|error| panic!("{over:?}: {error}"));
            let began = Instant::now();
            let mut said = [0; REQUEST_BYTES];
            let mut has_asked = |flow: &Sender| {
                recv(flow.socket(), &mut said, rustix::net::RecvFlags::DONTWAIT).is_ok()
            };
            let asked = loop {
                match flows.iter().position(&mut has_asked) {
                    Some(asked) => break asked,
                    None => assert!(began.elapsed() < STALLED, "{over:?}: nobody asks"),
                }
                thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(said, request(), "{over:?}");
            flows[asked].send_or_lose().unwrap();
            flows[asked].trigger(SHORT, 1).unwrap();
            drop(ending);
            assert!(asking.join().unwrap() >= 5000, "{over:?}");
        });
    }
}

/// A client repeats the token until it is answered; on a long path, that is after it was answered.
#[test]
fn a_token_that_is_said_again_is_answered_and_no_message() {
    let shape = shape(3000, 2);
    for over in [Over::Udp, Over::UdpGso] {
        let what = format!("{over:?}");
        let met = try_meet(over, 1, shape, Primitive::Sendmsg);
        let Some(mut ends) = there(met, &what) else {
            continue;
        };
        ends.0[0].verify();
        let again = |sender: &Sender| send(sender.socket(), TOKEN, SendFlags::NOSIGNAL).unwrap();
        let sent = exchange(&mut ends, &what, Receiver::receive, |sender| {
            sender.send_or_lose()?;
            again(sender);
            sender.send_or_lose()?;
            let mut said = [0; 64];
            let (_, length) = recv(sender.socket(), &mut said, rustix::net::RecvFlags::empty())?;
            sender.end_within(STALLED)?;
            Ok(said[..length] == *TOKEN)
        });
        assert_eq!(sent, [true], "{what}");
        assert!(ends.0[0].last_piece_is_right(), "{what}");
        let bytes = ends.0[0].progress.bytes;
        assert!(bytes > 0 && bytes <= 2 * 3000, "{bytes}, {what}");
    }
}

/// The server answers the token once more.
#[test]
fn an_answer_to_the_token_that_comes_late_is_no_message() {
    let shape = shape(3000, 2);
    for pattern in [Pattern::Echo(1), Pattern::Trigger(1)] {
        let what = format!("{pattern:?}");
        let mut ends = meet(Over::Udp, 1, shape, Primitive::Sendmsg);
        let receive = |receiver: &mut Receiver, stop: &AtomicBool| pattern.receive(receiver, stop);
        exchange(&mut ends, &what, receive, |sender| {
            send(sender.socket(), TOKEN, SendFlags::NOSIGNAL)?;
            pattern.send(sender, SHORT)
        });
    }
}

#[test]
fn a_stop_is_heard_while_nothing_comes() {
    // With 16, more is unanswered than one end can send before it reads.
    for pattern in [Pattern::Echo(1), Pattern::Echo(16), Pattern::Trigger(1)] {
        let what = format!("{pattern:?}");
        let mut ends = meet(Over::Tcp, 1, shape(20_000, 1), Primitive::Sendmsg);
        let stop = flag();
        ends.1[0].end_by(Ending { messages: u64::MAX, stop });
        // The receiver answers nothing and requests nothing.
        exchange(&mut ends, &what, Receiver::receive, |sender| {
            thread::scope(|scope| {
                scope.spawn(|| set_soon(stop));
                pattern.send(sender, HOUR)
            })
        });
        assert!(!ends.1[0].progress.checkpoints().is_empty(), "{what}");
    }
}

#[test]
fn an_echo_that_is_stopped_has_latencies() {
    let mut ends = meet(Over::Unix, 1, shape(64, 1), Primitive::Sendmsg);
    let stop = flag();
    ends.1[0].end_by(Ending { messages: u64::MAX, stop });
    let heard = exchange(
        &mut ends,
        "echo",
        |receiver, stop| Pattern::Echo(1).receive(receiver, stop),
        |sender| {
            let mut heard = 0;
            thread::scope(|scope| {
                scope.spawn(|| {
                    // Also for one that waits in vain.
                    let until = Instant::now() + Duration::from_secs(5);
                    while !stop.load(Ordering::Acquire) && Instant::now() < until {
                        thread::sleep(Duration::from_millis(10));
                    }
                    stop.store(true, Ordering::Release);
                });
                sender.echo(HOUR, 1, &mut |_| {
                    heard += 1;
                    stop.store(true, Ordering::Release);
                })
            })?;
            Ok(heard)
        },
    )[0];
    assert!(heard > 0);
}

#[test]
fn what_nobody_received_is_no_reason_to_give_up() {
    let shape = shape(64, 1);
    let gone = UdpSocket::bind((LOCAL, 0)).unwrap();
    let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
    socket.connect(gone.local_addr().unwrap()).unwrap();
    drop(gone);
    socket.send(&[0; 64]).unwrap();
    let mut incoming =
        incoming::Incoming::new(Over::Udp, Content::Fields(shape), Token::new(TOKEN, true))
            .unwrap();
    incoming.discard_pending(socket.as_fd()).unwrap();
}
