//! One direction of an emulated link, as a state machine: packets and the time go in, packets come
//! out. It reads no clock and opens nothing, so tests can run it in virtual time.
//!
//! First it decides whether a packet is lost. The remaining packets wait for the rate, in a queue
//! of limited length; after that, each is delayed. They keep their order, even if the delay varies,
//! except for packets that overtake.
//!
//! Once the number of packets in flight has reached its maximum, nothing is allocated.

use costof_model::link::Emulation;
use costof_model::link_report::{Spread, Traffic};
use fastrand::Rng;
use hdrhistogram::Histogram;
use std::collections::VecDeque;

/// The longest packet, in bytes: the MTU of both ends.
pub(crate) const MTU: usize = 1500;
/// At most this many packets can be in flight at once: 96 MiB of them.
const MAX_IN_FLIGHT: usize = 1 << 16;
/// Longer times count as this one, in nanoseconds.
const LONGEST_NS: u64 = 1 << 40;

#[derive(Debug)]
pub(crate) struct Channel {
    emulation: Emulation,
    random: Rng,
    packets: Vec<Box<[u8]>>,
    /// The unused buffers.
    free: Vec<usize>,
    /// The buffer for the next packet.
    next: usize,
    /// When the line is free again.
    line_free_ns: f64,
    /// When each packet in the queue gets the line.
    line_starts_ns: VecDeque<u64>,
    /// The delayed packets, in the order in which they leave.
    held: VecDeque<Held>,
    /// The packets that overtake those, in the order in which they leave.
    overtaking: VecDeque<Held>,
    counts: Traffic,
    delay: Histogram<u64>,
    lateness: Histogram<u64>,
}

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Held {
    packet: usize,
    bytes: usize,
    came_ns: u64,
    leaves_ns: u64,
}

/// The random decisions about a packet. All are made for every packet, so that a loss does not
/// depend on the link's other settings.
struct Drawn {
    loss: f64,
    reorder: f64,
    duplicate: f64,
    jitter: f64,
}

impl Channel {
    pub(crate) fn new(emulation: Emulation) -> Channel {
        let times = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are apart");
        Channel {
            emulation,
            random: Rng::with_seed(0),
            packets: vec![buffer()],
            free: Vec::new(),
            next: 0,
            line_free_ns: 0.0,
            line_starts_ns: VecDeque::new(),
            held: VecDeque::new(),
            overtaking: VecDeque::new(),
            counts: Traffic::default(),
            delay: times(),
            lateness: times(),
        }
    }

    /// Uses this seed, and counts from zero, from now on. Packets in flight stay in flight.
    pub(crate) fn begin(&mut self, seed: u64) {
        self.random = Rng::with_seed(seed);
        self.counts = Traffic::default();
        self.delay.reset();
        self.lateness.reset();
    }

    /// Where the next packet is to be written before [`Channel::take`].
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.packets[self.next]
    }

    /// A packet of this many bytes has arrived and is in [`Channel::room`].
    pub(crate) fn take(&mut self, now_ns: u64, bytes: usize) {
        let random = &mut self.random;
        let drawn = Drawn {
            loss: random.f64(),
            reorder: random.f64(),
            duplicate: random.f64(),
            jitter: random.f64(),
        };
        if drawn.loss < self.emulation.loss {
            self.counts.lost += 1;
            return;
        }
        let Some(leaves_ns) = self.pass_line(now_ns, bytes) else {
            return;
        };
        let packet = self.next;
        let is_kept = self.hold(now_ns, bytes, leaves_ns, &drawn);
        if is_kept && drawn.duplicate < self.emulation.duplicate {
            self.take_again(now_ns, bytes, packet, &drawn);
        }
    }

    /// When the next packet leaves.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let fronts = [self.held.front(), self.overtaking.front()].into_iter();
        fronts.flatten().map(|held| held.leaves_ns).min()
    }

    /// A packet that is due by now, the earliest first.
    pub(crate) fn leave(&mut self, now_ns: u64) -> Option<&[u8]> {
        let due = self.next_ns().filter(|next_ns| *next_ns <= now_ns)?;
        let overtakes = self.overtaking.front();
        let queue = if overtakes.is_some_and(|held| held.leaves_ns == due) {
            &mut self.overtaking
        } else {
            &mut self.held
        };
        let held = queue.pop_front()?;
        self.counts.packets += 1;
        self.counts.bytes += held.bytes as u64;
        self.delay.saturating_record(now_ns - held.came_ns);
        self.lateness.saturating_record(now_ns - held.leaves_ns);
        // The buffer is not overwritten while it is borrowed.
        self.free.push(held.packet);
        Some(&self.packets[held.packet][..held.bytes])
    }

    /// This many packets that left did not arrive.
    pub(crate) fn overrun(&mut self, packets: u64) {
        self.counts.overruns += packets;
    }

    /// What happened since [`Channel::begin`].
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            asked_delay_ns: self.emulation.delay_ns,
            duplicated: Some(self.counts.duplicated.unwrap_or(0)),
            reordered: Some(self.counts.reordered.unwrap_or(0)),
            queue_drops: Some(self.counts.queue_drops.unwrap_or(0)),
            delay_ns: spread(&self.delay),
            lateness_ns: spread(&self.lateness),
            ..self.counts.clone()
        }
    }

    /// When a packet that arrives now has passed the line; `None` if the queue in front of it is
    /// full.
    fn pass_line(&mut self, now_ns: u64, bytes: usize) -> Option<f64> {
        let now = now_ns as f64;
        let Some(rate) = self.emulation.rate else {
            return Some(now);
        };
        let starts = &mut self.line_starts_ns;
        while starts.front().is_some_and(|start_ns| *start_ns <= now_ns) {
            starts.pop_front();
        }
        let start = self.line_free_ns.max(now);
        if start > now {
            if starts.len() >= self.emulation.queue as usize {
                *self.counts.queue_drops.get_or_insert(0) += 1;
                return None;
            }
            // Rounded up, so that it is never before now.
            starts.push_back(start.ceil() as u64);
        }
        self.line_free_ns = start + bytes as f64 * 8e9 / rate;
        Some(self.line_free_ns)
    }

    /// Delays the packet in [`Channel::room`]. Returns whether there was room for it.
    fn hold(&mut self, came_ns: u64, bytes: usize, passed_ns: f64, drawn: &Drawn) -> bool {
        let Some(next) = self.unused() else {
            self.counts.overruns += 1;
            return false;
        };
        let packet = std::mem::replace(&mut self.next, next);
        let overtakes = drawn.reorder < self.emulation.reorder;
        let varied = self.emulation.jitter_ns * (2.0 * drawn.jitter - 1.0);
        let (queue, delay_ns) = if overtakes {
            (&mut self.overtaking, 0.0)
        } else {
            (&mut self.held, self.emulation.delay_ns + varied)
        };
        let before_ns = queue.back().map_or(0, |held| held.leaves_ns);
        queue.push_back(Held {
            packet,
            bytes,
            came_ns,
            leaves_ns: ((passed_ns + delay_ns).round() as u64).max(before_ns),
        });
        if overtakes {
            *self.counts.reordered.get_or_insert(0) += 1;
        }
        true
    }

    /// Duplicates the packet that was just taken.
    fn take_again(&mut self, now_ns: u64, bytes: usize, packet: usize, drawn: &Drawn) {
        let (first, next) = (packet.min(self.next), packet.max(self.next));
        let (low, high) = self.packets.split_at_mut(next);
        if packet == first {
            high[0][..bytes].copy_from_slice(&low[first][..bytes]);
        } else {
            low[first][..bytes].copy_from_slice(&high[0][..bytes]);
        }
        if let Some(passed_ns) = self.pass_line(now_ns, bytes)
            && self.hold(now_ns, bytes, passed_ns, drawn)
        {
            *self.counts.duplicated.get_or_insert(0) += 1;
        }
    }

    fn unused(&mut self) -> Option<usize> {
        if let Some(packet) = self.free.pop() {
            return Some(packet);
        }
        let is_full = self.packets.len() >= MAX_IN_FLIGHT;
        (!is_full).then(|| {
            self.packets.push(buffer());
            // So that every packet can be free without allocation.
            self.free.reserve(self.packets.len());
            self.packets.len() - 1
        })
    }
}

fn buffer() -> Box<[u8]> {
    vec![0; MTU].into()
}

fn spread(times: &Histogram<u64>) -> Option<Spread> {
    (!times.is_empty()).then(|| Spread {
        min: times.min() as f64,
        p50: times.value_at_quantile(0.5) as f64,
        p99: times.value_at_quantile(0.99) as f64,
        max: times.max() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::link::Link;
    use costof_os::memory::allocator::{self, Counting};

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    const MS: u64 = 1_000_000;

    fn channel(link: &str, seed: u64) -> Channel {
        let Ok(Link::Emulated { up, .. }) = link.parse() else {
            panic!("{link} is not an emulated link");
        };
        let mut channel = Channel::new(up);
        channel.begin(seed);
        channel
    }

    fn put(channel: &mut Channel, now_ns: u64, number: u32, bytes: usize) {
        channel.room()[..4].copy_from_slice(&number.to_le_bytes());
        channel.take(now_ns, bytes);
    }

    /// The packets that leave until then, and when, with a relay that is never late.
    fn leaving(channel: &mut Channel, until_ns: u64) -> Vec<(u64, u32, usize)> {
        let mut left = Vec::new();
        while let Some(next_ns) = channel.next_ns().filter(|next_ns| *next_ns <= until_ns) {
            let before_ns = left.last().map_or(0, |left: &(u64, u32, usize)| left.0);
            assert!(next_ns >= before_ns, "packets leave in order");
            let packet = channel.leave(next_ns).expect("it is due");
            let number = u32::from_le_bytes(packet[..4].try_into().unwrap());
            left.push((next_ns, number, packet.len()));
        }
        left
    }

    /// The numbers of the packets that leave, of `packets` sent one every `every_ns`.
    fn numbers(link: &str, seed: u64, packets: u32, every_ns: u64) -> Vec<u32> {
        let mut channel = channel(link, seed);
        let mut left = Vec::new();
        for number in 0..packets {
            let now_ns = u64::from(number) * every_ns;
            left.extend(leaving(&mut channel, now_ns));
            put(&mut channel, now_ns, number, 100);
        }
        left.extend(leaving(&mut channel, u64::MAX));
        left.into_iter().map(|(_, number, _)| number).collect()
    }

    #[test]
    fn a_packet_leaves_whole_after_its_delay_and_not_before() {
        let mut channel = channel("delay=95ms", 1);
        assert_eq!(channel.next_ns(), None);
        put(&mut channel, 7, 42, 1500);
        put(&mut channel, 9, 43, 4);
        assert_eq!(channel.next_ns(), Some(95 * MS + 7));
        assert_eq!(channel.leave(95 * MS + 6), None);
        let left = leaving(&mut channel, u64::MAX);
        assert_eq!(left, [(95 * MS + 7, 42, 1500), (95 * MS + 9, 43, 4)]);
        let traffic = channel.traffic();
        assert_eq!((traffic.packets, traffic.bytes), (2, 1504));
        let delay = traffic.delay_ns.unwrap();
        assert!((delay.p50 / 95e6 - 1.0).abs() < 1e-3, "{delay:?}");
        assert_eq!(traffic.lateness_ns.unwrap().max, 0.0);
    }

    #[test]
    fn lateness_is_what_the_relay_adds() {
        let mut channel = channel("delay=1ms", 1);
        put(&mut channel, 0, 1, 100);
        channel.leave(MS + 500).expect("it is due");
        let traffic = channel.traffic();
        assert_eq!(traffic.lateness_ns.unwrap().max, 500.0);
        channel.begin(1);
        assert_eq!(channel.traffic().lateness_ns, None);
    }

    #[test]
    fn as_many_are_lost_as_were_asked_for_and_the_same_ones_again() {
        const PACKETS: u32 = 100_000;
        for seed in 1..=5 {
            let left = numbers("loss=10%", seed, PACKETS, 1000);
            let lost = PACKETS as usize - left.len();
            assert!((9_800..=10_200).contains(&lost), "seed {seed}: {lost}");
            assert!(left.is_sorted());
            // The same packets, whatever else the link does.
            let also = "delay=1ms,jitter=1ms,loss=10%,rate=1Gbit";
            assert_eq!(left, numbers(also, seed, PACKETS, 1000));
            assert_ne!(left, numbers("loss=10%", seed + 1, PACKETS, 1000));
        }
    }

    #[test]
    fn order_is_kept_unless_reordering_is_asked_for() {
        let left = numbers("delay=10ms,jitter=10ms,rate=100Mbit", 3, 10_000, 20_000);
        assert_eq!(left.len(), 10_000);
        assert!(left.is_sorted());
        let mut left = numbers("delay=10ms,reorder=5%", 3, 10_000, 20_000);
        assert!(!left.is_sorted());
        let overtakers = left.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((400..=600).contains(&overtakers), "{overtakers}");
        left.sort_unstable();
        assert!(left.into_iter().eq(0..10_000));
    }

    #[test]
    fn jitter_is_even_to_both_sides() {
        let mut channel = channel("delay=10ms,jitter=4ms", 1);
        let mut delays = Vec::new();
        for round in 0..10_000 {
            // So far apart that their order does not matter.
            let now_ns = round * 100 * MS;
            put(&mut channel, now_ns, 1, 100);
            let left = leaving(&mut channel, u64::MAX);
            delays.extend(left.iter().map(|left| left.0 - now_ns));
        }
        delays.sort_unstable();
        for (position, expected) in [(0, 6.0), (2_500, 8.0), (5_000, 10.0), (9_999, 14.0)] {
            let ms = delays[position] as f64 / 1e6;
            assert!((ms - expected).abs() < 0.2, "{position}: {ms} ms");
        }
    }

    #[test]
    fn duplicates_are_whole_and_counted() {
        let left = numbers("duplicate=20%", 5, 10_000, 1000);
        let twice = left.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert_eq!(left.len(), 10_000 + twice);
        assert!((1_800..=2_200).contains(&twice), "{twice}");
        let mut channel = channel("duplicate=100%", 1);
        put(&mut channel, 0, 9, 1000);
        assert_eq!(leaving(&mut channel, 0), [(0, 9, 1000), (0, 9, 1000)]);
        assert_eq!(channel.traffic().duplicated, Some(1));
    }

    #[test]
    fn the_rate_passes_what_it_promises_and_the_queue_drops_the_rest() {
        // 1,500 bytes every 100 µs are 120 Mb/s.
        for (link, expected) in [("rate=100Mbit", 100e6), ("rate=1Mbit,queue=20", 1e6)] {
            let mut channel = channel(link, 1);
            const PACKETS: u64 = 50_000;
            let mut bytes = 0;
            for number in 0..PACKETS {
                put(&mut channel, number * 100_000, 1, 1500);
                let left = leaving(&mut channel, number * 100_000);
                bytes += left.iter().map(|left| left.2).sum::<usize>();
            }
            let passed = bytes as f64 * 8.0 / (PACKETS as f64 * 1e-4);
            let share = passed / expected;
            assert!((0.97..=1.0).contains(&share), "{link}: {passed}");
            let traffic = channel.traffic();
            let in_flight = leaving(&mut channel, u64::MAX).len() as u64;
            let queue_drops = traffic.queue_drops.unwrap();
            assert_eq!(traffic.packets + queue_drops + in_flight, PACKETS);
            assert!(queue_drops > 0);
        }
    }

    #[test]
    fn so_many_wait_and_one_more_is_dropped() {
        // One packet a second on the line.
        let mut channel = channel("rate=12kbit,queue=3", 1);
        for number in 0..5 {
            put(&mut channel, 0, number, 1500);
        }
        assert_eq!(channel.traffic().queue_drops, Some(1));
        // The second packet has the line now, and its place in the queue is free.
        put(&mut channel, 1_000 * MS, 5, 1500);
        assert_eq!(channel.traffic().queue_drops, Some(1));
        let left = leaving(&mut channel, u64::MAX).into_iter();
        let left: Vec<(u64, u32)> = left.map(|(ns, number, _)| (ns / MS, number)).collect();
        let expected = [(1000, 0), (2000, 1), (3000, 2), (4000, 3), (5000, 5)];
        assert_eq!(left, expected);
    }

    #[test]
    fn more_than_can_be_in_flight_is_an_overrun_and_no_loss_on_purpose() {
        let mut channel = channel("delay=2s,duplicate=1%", 1);
        for number in 0..MAX_IN_FLIGHT as u32 + 10 {
            put(&mut channel, u64::from(number), number, 100);
        }
        let traffic = channel.traffic();
        let duplicated = traffic.duplicated.unwrap();
        assert!(traffic.overruns > 10, "{}", traffic.overruns);
        assert_eq!(traffic.lost, 0);
        let left = leaving(&mut channel, u64::MAX).len() as u64;
        assert_eq!(left, MAX_IN_FLIGHT as u64 - 1);
        assert!(duplicated > 500);
    }

    #[test]
    fn nothing_is_allocated_once_as_many_were_in_flight_as_will_be() {
        let link = "delay=1ms,jitter=0.5ms,loss=1%,reorder=1%,duplicate=10%,rate=2Gbit";
        let mut channel = channel(link, 1);
        let mut before = 0;
        for number in 0..100_000_u64 {
            let now_ns = number * 10_000;
            while channel.leave(now_ns).is_some() {}
            channel.room()[0] = 1;
            channel.take(now_ns, 1500);
            if number == 50_000 {
                before = allocator::allocations();
            }
        }
        assert!(before > 100, "nothing was counted");
        let allocated = allocator::allocations() - before;
        // A burst of duplicates may still set a new maximum.
        assert!(allocated <= 10, "{allocated}");
        assert!(channel.packets.len() < 200);
    }
}
