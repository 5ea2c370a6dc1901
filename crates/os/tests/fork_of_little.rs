//! A fork copies little where that is asked for. Without the usual harness, which tests in a second thread: only
//! a process of one thread can leave out memory.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use costof_os::memory::arena::{Arena, PageSize};
use costof_os::process::spawn::{Child, Starter, Starting};
use costof_os::process::uncopied::copied_bytes;

const LARGE: u64 = 16 << 20;
const LITTLE: u64 = 1 << 20;

fn main() {
    let mut large = Arena::map(LARGE as usize, PageSize::Base).unwrap();
    large.populate().unwrap();
    assert!(copied_bytes().unwrap() > LARGE);
    for how in [Starting::Fork, Starting::Clone3] {
        for executing in [false, true] {
            let mut starter = Starter::new(how, executing).unwrap();
            starter.copy_little().unwrap();
            let little = copied_bytes().unwrap();
            assert!(little < LITTLE, "{little}");
            for _ in 0..3 {
                starter.start().and_then(Child::wait).unwrap();
            }
            // What is mapped later is copied.
            let mut later = Arena::map(LITTLE as usize, PageSize::Base).unwrap();
            later.populate().unwrap();
            assert!(copied_bytes().unwrap() >= little + LITTLE);
            starter.start().and_then(Child::wait).unwrap();
        }
        // Afterwards everything is copied again.
        assert!(copied_bytes().unwrap() > LARGE);
    }
    for (how, executing) in [(Starting::Vfork, false), (Starting::PosixSpawn, true)] {
        let mut starter = Starter::new(how, executing).unwrap();
        assert!(starter.copy_little().is_err());
    }
}
