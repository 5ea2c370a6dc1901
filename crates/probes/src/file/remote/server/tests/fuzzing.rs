//! What the fuzz target of NFS does.

use super::super::client::{Client, ReadError};
use super::*;
use costof_model::harmless;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::LazyLock;

static LISTENER: LazyLock<TcpListener> =
    LazyLock::new(|| TcpListener::bind("127.0.0.1:0").expect("it listens"));

/// How many bytes are read at a time.
const BLOCK: usize = 64;
/// What fits into a socket, so that nobody has to read.
const MAX_BYTES: usize = 64 << 10;

/// A server's bytes, as answers to one kind of calls: each is used, or is an error with a reason.
pub fn nfs(bytes: &[u8]) {
    let Some((which, sent)) = bytes.split_first() else {
        return;
    };
    // The numbers of calls, which are random.
    fastrand::seed(1);
    let stream =
        TcpStream::connect(LISTENER.local_addr().expect("it listens")).expect("it connects");
    let (mut server, _) = LISTENER.accept().expect("one connects");
    server.write_all(&sent[..sent.len().min(MAX_BYTES)]).expect("there is room");
    server.shutdown(Shutdown::Write).expect("it is connected");
    let error = match which % 4 {
        0 => read(stream).err().map(|error| error.failure("nfs://h/e/f", TIMEOUT).reason),
        kind => called(kind, BlockingStream::new(stream, TIMEOUT).expect("it is a socket")).err(),
    };
    let is_harmful = |reason: &String| reason.is_empty() || reason.contains(harmless::is_harmful);
    assert!(!error.as_ref().is_some_and(is_harmful), "{error:?}");
}

/// Two blocks, as long as they come, and a call that does nothing.
fn read(stream: TcpStream) -> Result<(), ReadError> {
    let file = NfsFile {
        server: stream.peer_addr()?,
        handle: nfs_fh3 { data: Opaque::borrowed(b"handle") },
        credential: opaque_auth::default(),
        size_bytes: 1 << 20,
        max_read_bytes: 1 << 20,
    };
    let mut client = Client::new(stream, &file, (BLOCK, 2), TIMEOUT)?;
    for offset in [0, BLOCK as u64] {
        client.request(offset, offset)?;
    }
    for left in [1, 0] {
        let completed = client.complete()?;
        assert_eq!(completed.began, completed.offset);
        assert_eq!(client.in_flight(), left);
    }
    client.null()
}

fn called(kind: u8, stream: BlockingStream) -> Result<(), String> {
    match kind {
        1 => {
            let mut client = Nfs3Client::new(stream);
            let root = nfs_fh3 { data: Opaque::borrowed(b"root") };
            let names = [b"folder".to_vec(), b"file".to_vec()];
            let (handle, _) = look_up(&mut client, root, &names)?;
            assert!(handle.data.len() <= MAX_HANDLE_BYTES);
            limits(&mut client, &handle).map(drop)
        }
        2 => {
            let path = dirpath(Opaque::borrowed(b"/export"));
            let mounted = block_on(MountClient::new(stream).mnt(path));
            root(mounted.map_err(|error| error.to_string())?, "/export").map(drop)
        }
        _ => {
            let mut client = PortmapperClient::new(stream);
            let port = block_on(client.getport(nfs3::PROGRAM, nfs3::VERSION, IPPROTO_TCP));
            port.map(drop).map_err(|error| error.to_string())
        }
    }
}
