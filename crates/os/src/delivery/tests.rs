use super::*;
use crate::arena::PageSize;
use crate::field_sender::Primitive;
use crate::fields::write_contents;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;

const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn messages(shape: Shape) -> Messages {
    Messages::new((shape.count, shape.size, 8), PageSize::Base, &mut |_| {}).unwrap()
}

/// Two ends of flows.
fn meet(
    over: Over,
    flows: usize,
    shape: Shape,
    primitive: Primitive,
) -> (Vec<Receiver>, Vec<Sender>) {
    let listener = Listener::open(over, LOCAL, (0, 0), flows, TOKEN).unwrap();
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receivers = scope.spawn(|| accept(&listener, shape, &stop).unwrap());
        let messages = (0..flows).map(|_| messages(shape)).collect();
        let senders = call(over, &address, None, TOKEN, primitive, messages).unwrap();
        (receivers.join().unwrap(), senders)
    })
}

#[test]
fn messages_stream_and_arrive_as_they_were_sent() {
    for over in [Over::Tcp, Over::Unix, Over::Udp] {
        for (size, count) in [(64, 1), (4099, 5), (60_000, 3)] {
            let shape = Shape { size, count };
            let (mut receivers, mut senders) = meet(over, 2, shape, Primitive::OneCopy);
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for receiver in &mut receivers {
                    scope.spawn(|| receiver.receive(&stop).unwrap());
                }
                let sending: Vec<_> = senders
                    .iter_mut()
                    .map(|sender| {
                        scope.spawn(|| {
                            sender.stream(Duration::from_millis(20)).unwrap();
                            sender.end().unwrap();
                        })
                    })
                    .collect();
                for sender in sending {
                    sender.join().unwrap();
                }
                stop.store(true, Ordering::Release);
            });
            for (receiver, sender) in receivers.iter().zip(&senders) {
                let what = format!("{over:?} {size}");
                assert!(receiver.last_piece_is_right(), "{what}");
                assert!(
                    receiver.bytes() > 0 && !receiver.marks().is_empty(),
                    "{what}"
                );
                assert!(sender.counts().messages > 0, "{what}");
            }
            let sum = |of: &dyn Fn(usize) -> u64| (0..2).map(of).sum::<u64>();
            let sent = sum(&|flow| senders[flow].counts().messages) * size as u64;
            let arrived = sum(&|flow| receivers[flow].bytes());
            match over {
                Over::Udp => assert!(arrived <= sent),
                Over::Tcp | Over::Unix => assert_eq!(arrived, sent),
            }
        }
    }
}

#[test]
fn every_message_is_answered() {
    for primitive in [Primitive::TwoCopy, Primitive::ZeroCopy] {
        for in_flight in [1, 7] {
            let shape = Shape {
                size: 1000,
                count: 3,
            };
            let (mut receivers, mut senders) = meet(Over::Tcp, 1, shape, primitive);
            let stop = AtomicBool::new(false);
            let mut latencies = 0;
            thread::scope(|scope| {
                let receiver = &mut receivers[0];
                scope.spawn(|| {
                    receiver.answer(primitive, messages(shape), &stop).unwrap();
                });
                let sender = &mut senders[0];
                sender
                    .echo(Duration::from_millis(20), in_flight, &mut |_| {
                        latencies += 1
                    })
                    .unwrap();
                assert!(sender.reusable_after_ns().unwrap() > 0);
                sender.end().unwrap();
                stop.store(true, Ordering::Release);
            });
            // One more was sent to see when it could be reused.
            let sent = senders[0].counts().messages;
            assert_eq!(receivers[0].bytes(), sent * 1000);
            assert!(latencies > 0 && latencies < sent, "{latencies} of {sent}");
        }
    }
}

/// As those of several flows do, each of which is sent by a thread that ends then.
#[test]
fn a_flow_may_end_in_another_thread_than_the_one_that_sent() {
    let shape = Shape {
        size: 4096,
        count: 2,
    };
    for primitive in [Primitive::ZeroCopy, Primitive::UringZeroCopy] {
        let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut receiver = accept(&listener, shape, &stop).unwrap().pop();
                receiver
                    .iter_mut()
                    .for_each(|receiver| receiver.receive(&stop).unwrap());
            });
            let to_send = vec![messages(shape)];
            let sent =
                call(Over::Tcp, &address, None, TOKEN, primitive, to_send).map(|mut senders| {
                    let sender = &mut senders[0];
                    let sending = || sender.stream(Duration::from_millis(20));
                    let streamed = thread::scope(|scope| scope.spawn(sending).join().unwrap());
                    (streamed.and_then(|()| sender.end()), sender.counts())
                });
            stop.store(true, Ordering::Release);
            match sent {
                Ok((ended, counts)) => {
                    ended.unwrap();
                    assert!(counts.asked > 0 && counts.completed == counts.asked);
                }
                Err(error) => eprintln!("skipped: {primitive:?}: {error}"),
            }
            receiving.join().unwrap();
        });
    }
}

#[test]
fn other_bytes_than_were_sent_are_noticed() {
    let shape = Shape { size: 83, count: 2 };
    let mut right = vec![0; 2 * 83];
    write_contents(0, 0, &mut right[..83]);
    write_contents(1, 0, &mut right[83..]);
    for wrong in [None, Some(0), Some(7), Some(2 * 83 - 3)] {
        let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1, TOKEN).unwrap();
        let Address::Ip(at) = listener.address().unwrap() else {
            panic!("it is TCP")
        };
        let stop = AtomicBool::new(false);
        let mut stranger = TcpStream::connect(at[0]).unwrap();
        stranger.write_all(TOKEN).unwrap();
        let mut receiver = accept(&listener, shape, &stop).unwrap().remove(0);
        // It is answered so that it may begin.
        stranger.read_exact(&mut [0; TOKEN.len()]).unwrap();
        let mut said = right.clone();
        if let Some(wrong) = wrong {
            said[wrong] ^= 1;
        }
        stranger.write_all(&said).unwrap();
        let received = thread::scope(|scope| {
            let received = scope.spawn(|| receiver.receive(&stop));
            stranger.shutdown(std::net::Shutdown::Write).unwrap();
            // It has seen all when it closes, or when it has found what is wrong.
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
