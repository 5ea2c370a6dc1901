//! What the fuzz target of a receiver does.

use super::super::admission::MEMORY_MAX_BYTES;
use super::*;
use costof_model::harmless;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

/// More than any greeting has, and what fits into a socket.
const MAX_BYTES: usize = 100_000;

/// With a token, and without one.
static RECEIVERS: LazyLock<[Receiver; 2]> = LazyLock::new(|| {
    ["with", "open"].map(|name| {
        let path = format!("costof-fuzz-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let token = (name == "with").then(|| "token".to_owned());
        let receiver = Receiver::open(&Address::Unix(path.clone()), token, 4, Sockets::default());
        // Nobody connects by it.
        std::fs::remove_file(path).expect("it listened there");
        receiver.expect("it listens")
    })
});

/// The end of a connection whose peer has sent these bytes, and the peer's end.
pub(in crate::interactive) fn connection(sent: &[u8]) -> (Control, UnixStream) {
    let (own, mut peer) = UnixStream::pair().expect("there are sockets");
    peer.write_all(&sent[..sent.len().min(MAX_BYTES)]).expect("there is room");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    (Control::unix(own).expect("it is a socket"), peer)
}

/// A sender's bytes: none is served without the token, none takes more memory than there is for all, and
/// who is refused gets a reason.
pub fn receiver(bytes: &[u8]) {
    let Some((which, sent)) = bytes.split_first() else {
        return;
    };
    let receiver = &RECEIVERS[usize::from(which % 2)];
    let (control, _peer) = connection(sent);
    let (waiter, _) = receiver.waiting.enter(control);
    let mut lines = Lines::new(&waiter.control);
    match receiver.admitted(&mut lines, &waiter, &AtomicBool::new(false)) {
        Ok((workload, _slot)) => {
            assert!(receiver.token.is_none(), "{workload:?} is served without the token");
            assert!(workload.held_bytes() <= MEMORY_MAX_BYTES, "{workload:?}");
            workload.what();
        }
        Err(rejection) => {
            rejection.tell(&waiter.control);
            let reason = rejection.reason();
            assert!(!reason.is_empty() && !reason.contains(harmless::is_harmful), "{reason}");
        }
    }
}
