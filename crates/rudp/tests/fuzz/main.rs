//! Runs what the fuzz target `connections` runs, with random bytes from a seed, so that it keeps working.

mod script;

use proptest::prelude::*;

proptest! {
    #[test]
    fn connections_survive_whatever_happens(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        script::run(&bytes);
    }
}

#[test]
fn a_connection_that_is_aborted_at_once_ends() {
    script::run(&[0, 0, 0, 0, 0, 0, 15, 0, 0, 0]);
}
