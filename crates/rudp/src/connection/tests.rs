//! How a connection handles packets with its tag that this library would not send.

use super::{Connection, Ids};
use crate::config::{Config, Control};
use crate::control::Controller;
use crate::event::{Event, Reason, SendError};
use crate::frame::{self, Credit, Frame, Piece};
use crate::packet::{self, Data, Handshake, Step};
use crate::range_set::RangeSet;
use crate::received::Received;
use crate::time::Time;
use crate::wire::Reader;
use std::time::Duration;

const T: Time = Time::from_nanos(1_000_000_000);
const CREDIT: Credit = Credit { bytes: 1 << 50, messages: 1 << 50 };
/// How an older version reports the ECN marks that it received.
const MARKS: [u8; 5] = [0x08, 3, 0, 0x40, 1];
const IDS: Ids = Ids { own: 7, peer: 8, nonce: 1, server_nonce: 2, seed: 3 };

fn connection(config: Config) -> Connection {
    let parameters = (&config).into();
    let peer = "192.0.2.1:1".parse().unwrap();
    let mut connection = Connection::accept(T, peer, config, IDS, &parameters);
    deliver(&mut connection, 0, &framed(frame::put_ping));
    assert_eq!(connection.poll_event(), Some(Event::Connected));
    connection
}

fn framed(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frames = Vec::new();
    put(&mut frames);
    frames
}

fn datagram(number: u64, frames: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    packet::put_header(&mut datagram, IDS.own, number, 0);
    datagram.extend_from_slice(frames);
    packet::put_tag(&mut datagram, 0, IDS.seed);
    datagram
}

fn deliver(connection: &mut Connection, number: u64, frames: &[u8]) {
    let datagram = datagram(number, frames);
    connection.handle_data(T, &Data::read(&datagram).unwrap());
}

fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.poll_event()).collect()
}

fn acknowledging(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut received = RangeSet::new();
    received.insert(numbers);
    framed(|out| assert!(frame::put_ack(out, &received, Duration::ZERO, 99, 99)))
}

/// Everything that an accepted frame could change.
fn standing(connection: &Connection) -> String {
    let stats = crate::Stats { packets_rejected: 0, ..connection.stats() };
    let received: &Received = &connection.received;
    format!("{stats:?} {received:?} {:?} {:?}", connection.state, connection.credit)
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_changes_nothing_nor_does_what_comes_with_it() {
    let mut connection = connection(Config::default());
    let id = connection.send(vec![1; 100]).unwrap();
    let mut out = Vec::new();
    while connection.write_datagram(T, &mut out) {}
    let sent = connection.recovery.next_number();
    let before = standing(&connection);
    let mut frames = framed(|out| {
        frame::put_credit(out, CREDIT);
        frame::put_message(out, &Piece::whole(0, &[1]));
    });
    frames.extend(acknowledging(0..sent + 1));
    deliver(&mut connection, 1, &frames);
    assert_eq!(standing(&connection), before);
    assert_eq!(connection.stats().packets_rejected, 1);
    assert_eq!(connection.poll_event(), None);
    // The same packet number can still be used.
    deliver(&mut connection, 1, &acknowledging(0..sent));
    assert_eq!(connection.poll_event(), Some(Event::Acknowledged(id)));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut connection = connection(Config::default());
    let window = connection.stats().window_bytes;
    let (mut now, mut out) = (T, Vec::new());
    let mut ask = |connection: &mut Connection, messages: u64| {
        let first = connection.recovery.next_number();
        for _ in 0..messages {
            connection.send(vec![1; 1300]).unwrap();
        }
        // Until pacing has released the whole window.
        for _ in 0..1000 {
            now = now + Duration::from_millis(1);
            while connection.write_datagram(now, &mut out) {}
        }
        let next = connection.recovery.next_number();
        deliver(connection, next, &acknowledging(first..next));
        while connection.poll_event().is_some() {}
    };
    for _ in 0..10 {
        ask(&mut connection, 1);
    }
    assert_eq!(connection.stats().window_bytes, window);
    ask(&mut connection, 40);
    assert!(connection.stats().window_bytes > window, "the whole window was used");
}

/// A connection with one message in flight, and frames that acknowledge it and carry a message.
fn asked() -> (Connection, Vec<u8>) {
    let mut connection = connection(Config::default());
    connection.send(vec![1; 100]).unwrap();
    leave(&mut connection, T);
    let mut frames = acknowledging(0..connection.recovery.next_number());
    frame::put_message(&mut frames, &Piece::whole(0, &[1]));
    (connection, frames)
}

#[test]
fn an_answer_leaves_before_what_came_with_its_question_is_worked_through() {
    let (mut connection, frames) = asked();
    deliver(&mut connection, 1, &frames);
    assert_eq!(connection.poll_event(), Some(Event::Message(vec![1])));
    assert!(connection.deferred_ack.is_some() && !connection.has_event());
    connection.send(vec![2; 100]).unwrap();
    connection.send(vec![3; 2000]).unwrap();
    let mut out = Vec::new();
    assert!(connection.write_datagram(T, &mut out));
    assert!(connection.deferred_ack.is_some());
    assert!(connection.write_datagram(T, &mut out));
    assert!(connection.deferred_ack.is_none(), "a single datagram");
    assert_eq!(connection.poll_event(), Some(Event::Acknowledged(0)));
    assert_eq!(connection.poll_event(), None);
}

#[test]
fn who_has_nothing_left_to_send_asks_for_an_acknowledgement_but_not_with_an_answer() {
    let mut connection = connection(Config::default());
    let wants_ack = |connection: &mut Connection| {
        let mut out = Vec::new();
        assert!(connection.write_datagram(T, &mut out));
        Data::read(&out).unwrap().wants_ack
    };
    connection.send(vec![1; 1400]).unwrap();
    connection.send(vec![1; 100]).unwrap();
    assert!(!wants_ack(&mut connection), "another datagram follows");
    assert!(wants_ack(&mut connection));
    let (mut connection, frames) = asked();
    deliver(&mut connection, 1, &frames);
    connection.send(vec![2; 100]).unwrap();
    // The next message will carry the acknowledgement.
    assert!(!wants_ack(&mut connection));
}

#[test]
fn an_answer_that_fills_its_datagram_leaves_before_that_too_and_a_longer_one_in_a_batch() {
    for (answer, datagrams, is_late) in [(1400, 1, true), (4000, 3, false)] {
        let (mut connection, frames) = asked();
        deliver(&mut connection, 1, &frames);
        assert_eq!(connection.poll_event(), Some(Event::Message(vec![1])));
        connection.send(vec![2; answer]).unwrap();
        let mut out = Vec::new();
        let batch = connection.poll_transmit(T, 16, 65_000, &mut out).unwrap();
        assert_eq!(batch.datagram_bytes, connection.datagram);
        assert_eq!(out.len().div_ceil(batch.datagram_bytes), datagrams);
        assert_eq!(connection.deferred_ack.is_some(), is_late);
    }
}

#[test]
fn who_answers_for_long_is_not_held_back_for_it_later() {
    let (mut connection, _) = asked();
    let mut out = Vec::new();
    // Each time, everything in flight is acknowledged together with a message, and the reply leaves
    // before the acknowledgement is applied.
    for number in 0..100 {
        let mut frames = acknowledging(0..connection.recovery.next_number());
        frame::put_message(&mut frames, &Piece::whole(number, &[1]));
        deliver(&mut connection, number + 1, &frames);
        assert_eq!(connection.poll_event(), Some(Event::Message(vec![1])));
        assert!(connection.deferred_ack.is_some());
        connection.send(vec![1; 1400]).unwrap();
        leave(&mut connection, T);
        while connection.poll_event().is_some() {}
    }
    connection.recovery.rtt.smoothed = Duration::from_millis(100);
    connection.send(vec![1; 1400]).unwrap();
    assert!(connection.write_datagram(T, &mut out));
    assert_eq!(connection.paced_until, None);
}

#[test]
fn who_asks_what_happened_hears_of_what_is_acknowledged_whether_anything_leaves_or_not() {
    let (mut connection, frames) = asked();
    deliver(&mut connection, 1, &frames);
    let reported = events(&mut connection);
    assert_eq!(reported, [Event::Message(vec![1]), Event::Acknowledged(0)]);
    // Acknowledged messages are not undeliverable either.
    let (mut connection, frames) = asked();
    deliver(&mut connection, 1, &frames);
    connection.abort(T, 1);
    let reported = events(&mut connection);
    assert!(reported.contains(&Event::Acknowledged(0)), "{reported:?}");
    assert!(!reported.contains(&Event::Undeliverable(0)), "{reported:?}");
}

#[test]
fn an_acknowledgement_that_may_change_what_leaves_next_is_worked_through_at_once() {
    let is_late = |before: fn(&mut Connection)| {
        let (mut connection, frames) = asked();
        before(&mut connection);
        deliver(&mut connection, 1, &frames);
        connection.deferred_ack.is_some()
    };
    assert!(is_late(|_| {}));
    let is_one_more = is_late(|connection| {
        connection.send(vec![1; 100]).unwrap();
        leave(connection, T);
    });
    assert!(!is_one_more, "another packet is in flight");
    let is_lost = is_late(|connection| connection.sending.retransmit(connection.parts[0]));
    assert!(!is_lost, "it would be retransmitted although it arrived");
    let is_rate = is_late(|connection| {
        connection.controller = Controller::new(Control::Rate, 1452);
    });
    assert!(!is_rate);
}

#[test]
fn what_is_acknowledged_makes_room_before_it_is_told() {
    let (mut connection, frames) = asked();
    connection.config.queue_messages = 1;
    deliver(&mut connection, 1, &frames);
    assert_eq!(connection.poll_event(), Some(Event::Message(vec![1])));
    assert_eq!(connection.send(vec![2; 100]), Ok(1));
    // An event that was not fetched uses the queue.
    assert_eq!(connection.send(vec![3; 100]), Err(SendError::Full));
}

/// A connection that was given messages of these lengths, and the number of datagrams that left at
/// once.
fn sent(messages: &[usize]) -> (Connection, usize) {
    // Without a measured rate, it does not pace.
    let control = Control::Rate;
    let mut connection = connection(Config { control, ..Config::default() });
    for bytes in messages {
        connection.send(vec![1; *bytes]).unwrap();
    }
    let datagrams = leave(&mut connection, T);
    (connection, datagrams)
}

fn leave(connection: &mut Connection, now: Time) -> usize {
    let mut out = Vec::new();
    std::iter::from_fn(|| connection.write_datagram(now, &mut out).then_some(())).count()
}

#[test]
fn a_short_end_of_a_message_waits_for_what_could_fill_its_datagram_but_not_for_long() {
    let long = 12_900;
    let (connection, datagrams) = sent(&[long]);
    assert_eq!(datagrams, 9, "and some 150 bytes wait");
    let later = T + Duration::from_millis(1);
    assert_eq!(connection.timeout_at(), Some(later));
    type Release = fn(&mut Connection);
    let releases: [(&str, Release); 4] = [
        ("time", |connection| {
            connection.handle_timeout(T + Duration::from_millis(1));
        }),
        ("an acknowledgement", |connection| {
            deliver(connection, 1, &acknowledging(0..1));
        }),
        ("what fills the datagram", |connection| {
            connection.send(vec![2; 1000]).unwrap();
        }),
        ("the end", |connection| connection.close(T)),
    ];
    for (what, release) in releases {
        let (mut connection, _) = sent(&[long]);
        release(&mut connection);
        assert_eq!(leave(&mut connection, later), 1, "{what} releases it");
    }
    assert_eq!(sent(&[3000]).1, 3, "few packets are in flight");
    let whole = [1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 100];
    assert_eq!(sent(&whole).1, 10, "a whole message does not wait");
}

#[test]
fn a_window_does_not_leave_at_once() {
    let mut connection = connection(Config::default());
    connection.send(vec![1; 100]).unwrap();
    leave(&mut connection, T);
    let later = T + Duration::from_millis(100);
    let sent = connection.recovery.next_number();
    connection.recovery.rtt.sample(Duration::from_millis(100), Duration::ZERO);
    deliver(&mut connection, 1, &acknowledging(0..sent));
    connection.send(vec![1; 1 << 20]).unwrap();
    let window = connection.stats().window_bytes / 1452;
    let at_once = leave(&mut connection, later) as u64;
    assert!(at_once > 0 && at_once < window / 2, "{at_once} of {window}");
    assert!(connection.timeout_at() < Some(later + Duration::from_millis(50)));
}

#[test]
fn the_marks_that_an_older_version_counts_are_skipped() {
    let (mut connection, frames) = asked();
    // Its counts come first; one of them takes two bytes.
    deliver(&mut connection, 1, &[&MARKS[..], &frames].concat());
    assert_eq!(events(&mut connection), [Event::Acknowledged(0), Event::Message(vec![1])]);
    let stats = connection.stats();
    assert_eq!((stats.packets_received, stats.packets_rejected), (2, 0));
    // Cut off, they are against the rules.
    deliver(&mut connection, 2, &MARKS[..4]);
    assert_eq!(connection.stats().packets_rejected, 1);
}

#[test]
fn what_breaks_the_rules_is_not_even_acknowledged() {
    let config =
        Config { message_bytes: 1000, window_bytes: 2000, window_messages: 4, ..Config::default() };
    let mut connection = connection(config);
    connection.send(vec![1; 100]).unwrap();
    leave(&mut connection, T);
    let before = standing(&connection);
    let message = |id, offset, total, data: &[u8]| {
        framed(|out| frame::put_message(out, &Piece { id, offset, total, data }))
    };
    for frames in [
        message(4, 0, 1, &[1]),
        message(0, 0, 1001, &[1]),
        framed(|out| frame::put_finish(out, 1)),
        vec![0xff],
        vec![0x07, 0, 0, 4, 0],
        vec![0x07, 0, 4, 4, 1, 1],
        vec![0x02, 5, 0, 1, 0, 5, 0],
        // Two acknowledgements.
        [acknowledging(0..1), acknowledging(0..1)].concat(),
    ] {
        deliver(&mut connection, 9, &frames);
        assert_eq!(standing(&connection), before, "{frames:?}");
    }
    assert_eq!(connection.stats().packets_rejected, 8);
}

#[test]
fn one_that_is_over_still_acknowledges_the_other_ends_last_word() {
    let mut connection = connection(Config::default());
    connection.close(T);
    leave(&mut connection, T);
    let finish = framed(|out| frame::put_finish(out, 0));
    let mut frames = acknowledging(0..connection.recovery.next_number());
    frames.extend(&finish);
    deliver(&mut connection, 1, &frames);
    let closed = Event::Closed(Reason::Finished);
    assert_eq!(connection.poll_event(), Some(closed));
    // Each acknowledgement is lost, and repeated.
    for number in 2..4 {
        let due = connection.timeout_at().unwrap();
        connection.handle_timeout(due);
        assert_eq!(leave(&mut connection, due), 1);
        deliver(&mut connection, number, &finish);
    }
    connection.handle_timeout(T + Duration::from_secs(60));
    assert!(connection.is_drained());
}

#[test]
fn answers_that_do_not_know_the_clients_nonce_are_not_believed() {
    let config = Config::default();
    let parameters = (&config).into();
    let peer = "192.0.2.1:1".parse().unwrap();
    let mut client = Connection::connect(T, peer, config, IDS);
    let before = standing(&client);
    let answers = |nonce| {
        let steps = [
            Step::Retry([9; 24]),
            Step::Accept { server: IDS.peer, server_nonce: IDS.server_nonce, parameters },
        ];
        let client = IDS.own;
        steps.map(|step| Handshake { client, nonce, step })
    };
    for packet in answers(IDS.nonce + 1) {
        client.handle_handshake(T, &packet);
        assert_eq!(standing(&client), before);
    }
    assert_eq!(client.stats().packets_rejected, 2);
    for packet in answers(IDS.nonce) {
        client.handle_handshake(T, &packet);
        assert_ne!(standing(&client), before);
    }
    assert_eq!(client.poll_event(), Some(Event::Connected));
}

/// Appends a random frame, sometimes invalid.
fn put_any(random: &mut fastrand::Rng, out: &mut Vec<u8>) {
    let message = |offset, total, data| Piece { id: 0, offset, total, data };
    match random.u8(..10) {
        0 => frame::put_ping(out),
        1 => frame::put_padding(out, 2),
        // Sometimes for a packet that was never sent.
        2 | 3 => out.extend(acknowledging(0..random.u64(1..4))),
        4 => frame::put_credit(out, CREDIT),
        5 => frame::put_finish(out, random.u64(..2)),
        6 | 7 => frame::put_message(out, &message(0, 1, &[1])),
        8 => frame::put_message(out, &message(1, 3, &[1])),
        _ => out.extend(MARKS),
    }
}

#[test]
fn frames_that_most_packets_begin_with_are_read_as_all_are() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut connection = connection(Config::default());
    connection.send(vec![1; 100]).unwrap();
    leave(&mut connection, T);
    let next = connection.recovery.next_number();
    let mut taken = 0;
    for _ in 0..100_000 {
        let mut frames = Vec::new();
        for _ in 0..random.u8(..6) {
            put_any(&mut random, &mut frames);
        }
        frames.truncate(frames.len() - frames.len().min(random.usize(..8) / 6));
        let (mut reader, mut all, mut is_whole) = (Reader(&frames), Vec::new(), true);
        while is_whole && !reader.is_empty() {
            let frame = Frame::read(&mut reader);
            is_whole = frame.is_some();
            all.extend(frame);
        }
        let mut acks = 0;
        let is_allowed = |frame: &Frame<'_>| match frame {
            Frame::Ack(ack) => {
                acks += 1;
                ack.largest < next && acks == 1
            }
            Frame::Finish { messages } => *messages == 0,
            _ => true,
        };
        let checked = connection.check(&frames);
        assert_eq!(checked.is_some(), is_whole && all.iter().all(is_allowed), "{frames:?}");
        let Some(checked) = checked else {
            continue;
        };
        let mut found: Vec<Frame<'_>> = Vec::new();
        found.extend(checked.ack.map(Frame::Ack));
        found.extend(checked.message.map(Frame::Message));
        let mut rest = checked.rest;
        found.extend(std::iter::from_fn(|| Frame::read(&mut rest)));
        assert_eq!(found, all);
        let is_message = |frame: &Frame<'_>| matches!(frame, Frame::Message(_));
        assert_eq!(checked.has_message, all.iter().any(is_message));
        assert_eq!(checked.is_ack_eliciting, all.iter().any(Frame::is_ack_eliciting));
        taken += 1;
    }
    assert!(taken > 20_000, "{taken} packets were in order");
}

#[test]
fn no_packet_of_any_bytes_does_harm() {
    let mut random = fastrand::Rng::with_seed(1);
    let config = Config { message_bytes: 1000, window_bytes: 5000, ..Config::default() };
    let mut connection = connection(config);
    let mut out = Vec::new();
    let mut frames = [0; 60];
    for number in 1..200_000 {
        random.fill(&mut frames);
        for byte in &mut frames {
            // Most fields of frames are small numbers.
            if random.bool() {
                *byte %= 9;
            }
        }
        let len = random.usize(..frames.len());
        deliver(&mut connection, number, &frames[..len]);
        if let Ok(id) = connection.send(vec![1; 10]) {
            assert!(id < 1_000_000);
        }
        out.clear();
        while connection.write_datagram(T, &mut out) && out.len() < 10_000 {}
        let stats = connection.stats();
        assert!(stats.held_bytes <= 5000);
        while let Some(event) = connection.poll_event() {
            if let Event::Closed(reason) = event {
                assert!(matches!(reason, Reason::AbortedByPeer { .. } | Reason::Finished));
                return;
            }
        }
    }
}
