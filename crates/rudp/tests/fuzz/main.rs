//! Runs what the fuzz target `rudp_peers` runs, with random bytes from a seed, so that it keeps working.

mod script;

use fastrand::Rng;
use proptest::prelude::*;

proptest! {
    #[test]
    fn connections_survive_whatever_happens(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        script::run(&bytes);
    }
}

/// A script of which every third action forges a packet, with numbers that most frames are made of.
fn forging(random: &mut Rng) -> Vec<u8> {
    let mut bytes = |script: &mut Vec<u8>, count: u8| {
        let any = (0..count).map(|_| random.u8(..) % [255, 9][random.usize(..2)]);
        script.extend(any);
    };
    let mut script = Vec::new();
    bytes(&mut script, 2);
    for _ in 0..40 {
        let mut any = Vec::new();
        bytes(&mut any, 2);
        // Exchange, pass time, turn it back, send, take events; a handshake's packet, and others.
        let action = [0, 0, 5, 6, 8, 10, 0x1b, 13, 13][usize::from(any[0]) % 9];
        script.push(action | any[1] << 7);
        let (numbers, count) = [(1, 0), (0, 100), (3, 40)][match action {
            0x1b => 1,
            13 => 2,
            _ => 0,
        }];
        bytes(&mut script, numbers);
        if count > 0 {
            script.push(count);
            bytes(&mut script, count);
        }
    }
    script
}

#[test]
fn connections_survive_who_reads_their_packets_and_forges_others() {
    let mut random = Rng::with_seed(1);
    for _ in 0..3000 {
        script::run(&forging(&mut random));
    }
}

#[test]
fn a_connection_that_is_aborted_at_once_ends() {
    script::run(&[0, 0, 0, 0, 0, 0, 15, 0, 0, 0]);
}
