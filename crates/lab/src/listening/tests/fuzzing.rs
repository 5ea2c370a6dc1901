//! What the fuzz target of a costof that listens does.

use super::*;
use costof_model::harmless;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

/// More than any greeting has, and what fits into a socket.
const MAX_BYTES: usize = 100_000;

/// With a token, and without one.
static LISTENING: LazyLock<[Listening; 2]> = LazyLock::new(|| {
    ["with", "open"].map(|name| {
        let path = format!("costof-fuzz-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let token = (name == "with").then(|| "token".to_owned());
        let served: (_, Allowed) = (WorkerCommand::new("true", &[]), |_| Ok(0));
        let address = Address::Unix(path.clone());
        let listening = Listening::open(&address, token, 4, Sockets::default(), served);
        // Nobody connects by it.
        std::fs::remove_file(path).expect("it listened there");
        listening.expect("it listens")
    })
});

/// A caller's bytes: none is served without the token, and who is refused gets a reason.
pub fn greeting(bytes: &[u8]) {
    let Some((which, sent)) = bytes.split_first() else {
        return;
    };
    let listening = &LISTENING[usize::from(which % 2)];
    let (own, mut peer) = UnixStream::pair().expect("there are sockets");
    peer.write_all(&sent[..sent.len().min(MAX_BYTES)]).expect("there is room");
    peer.shutdown(Shutdown::Write).expect("it is connected");
    let connection = Connection::unix(own).expect("it is a socket");
    let mut lines = Lines::new(&connection);
    match listening.greeted(&mut lines, &connection, &AtomicBool::new(false)) {
        Ok(()) => assert!(listening.token.is_none(), "it is served without the token"),
        Err(Rejection::Stranger(reason) | Rejection::Refused(Failure { reason, .. })) => {
            assert!(!reason.is_empty() && !reason.contains(harmless::is_harmful), "{reason}")
        }
    }
}
