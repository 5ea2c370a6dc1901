//! What the fuzz target of an emulated link does.

use super::channel::{Channel, MTU};
use costof_model::link::Emulation;
use std::collections::HashMap;

/// One direction of a link, as the first bytes set it up. Of the others, each is a packet, or time that
/// passes. Packets leave as they came, none before its time, and each is counted once.
pub fn channel(bytes: &[u8]) {
    let mut script = bytes.iter().copied();
    let mut number = || script.next().map(u64::from);
    let emulation = emulation(|| number().unwrap_or(0));
    let mut channel = Channel::new(emulation);
    channel.begin(number().unwrap_or(0));
    let mut now_ns = 0_u64;
    let mut sent: HashMap<u32, (u64, usize)> = HashMap::new();
    while let Some(what) = number() {
        if what < 64 {
            now_ns += 1 << (what / 2);
            leave(&mut channel, now_ns, &sent);
            continue;
        }
        let packet = sent.len() as u32;
        let length = (4 + 8 * what as usize).min(MTU);
        let room = &mut channel.room()[..length];
        room.fill(packet as u8);
        room[..4].copy_from_slice(&packet.to_le_bytes());
        sent.insert(packet, (now_ns, length));
        channel.take(now_ns, length);
    }
    while let Some(next_ns) = channel.next_ns() {
        now_ns = now_ns.max(next_ns);
        leave(&mut channel, now_ns, &sent);
    }
    let counted = channel.traffic();
    let dropped = counted.lost + counted.overruns + counted.queue_drops.unwrap_or(0);
    let all = sent.len() as u64 + counted.duplicated.unwrap_or(0);
    assert!(counted.packets + dropped >= all, "{counted:?}");
    assert!(counted.packets <= all, "{counted:?}");
    if emulation.duplicate == 0.0 {
        assert_eq!(counted.packets + dropped, all, "{counted:?}");
    }
}

fn emulation(mut number: impl FnMut() -> u64) -> Emulation {
    let mut share = |times: f64| number() as f64 / 255.0 * times;
    let delay_ns = share(2e9);
    Emulation {
        delay_ns,
        jitter_ns: share(delay_ns),
        loss: share(1.0),
        reorder: share(1.0),
        duplicate: share(1.0),
        rate: Some(share(255.0)).filter(|step| *step > 0.0).map(|step| 1e3 * 1.08_f64.powf(step)),
        queue: 1 + share(1000.0) as u32,
    }
}

fn leave(channel: &mut Channel, now_ns: u64, sent: &HashMap<u32, (u64, usize)>) {
    while let Some(due_ns) = channel.next_ns().filter(|due_ns| *due_ns <= now_ns) {
        let packet = channel.leave(now_ns).expect("it is due");
        let number = u32::from_le_bytes(*packet.first_chunk().expect("it has a number"));
        let (came_ns, length) = sent[&number];
        assert!(came_ns <= due_ns, "packet {number} leaves before it came");
        assert_eq!(packet.len(), length);
        assert!(packet[4..].iter().all(|byte| *byte == number as u8), "packet {number} changed");
    }
}
