//! Finds a file of an NFS server: where the server's programs listen, the export that the file is in, and
//! the handle by which it is read.
//!
//! Source: RFC 1813 (NFS version 3, and appendix I on MOUNT), RFC 1833 on the portmapper, RFC 5531.

#[cfg(feature = "fuzzing")]
#[path = "server/tests/fuzzing.rs"]
pub(super) mod fuzzing;

use super::reply::MAX_HANDLE_BYTES;
use super::stream::{BlockingStream, block_on};
use super::url::Url;
use crate::prelude::*;
use costof_os::net::reserved_port;
use nfs3_client::nfs3_types::mount::{self, dirpath, mountres3_ok, mountstat3};
use nfs3_client::nfs3_types::nfs3::{
    self, FSINFO3args, FSINFO3resok, GETATTR3args, LOOKUP3args, Nfs3Option, Nfs3Result, diropargs3,
    fattr3, filename3, ftype3, nfs_fh3, nfsstat3,
};
use nfs3_client::nfs3_types::portmap::{IPPROTO_TCP, PMAP_PORT};
use nfs3_client::nfs3_types::rpc::{auth_flavor, auth_unix, opaque_auth};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::{MountClient, MountError, Nfs3Client, PortmapError, PortmapperClient, RpcError};
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;

/// How long a server may take for one answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// The most groups of a caller. Source: RFC 5531, appendix A.
const MAX_GROUPS: usize = 16;

/// A file that a server lets this process read.
#[derive(Clone, Debug)]
pub(super) struct NfsFile {
    /// Where the server reads files.
    pub(super) server: SocketAddr,
    pub(super) handle: nfs_fh3,
    pub(super) credential: opaque_auth<'static>,
    pub(super) size_bytes: u64,
    /// The largest read that the server accepts.
    pub(super) max_read_bytes: u64,
}

/// The file that `url` names, at the first of its host's addresses where it is found.
///
/// # Errors
/// If an address does not reply, or its reply says why not.
pub(super) fn find(url: &Url) -> Result<NfsFile> {
    let failed = |why: String| Failure::error(format!("{url} cannot be read: {why}"));
    let found = (&*url.host, 0).to_socket_addrs();
    let addresses = found.map_err(|error| failed(format!("the host is not found: {error}")))?;
    let mut refused = Vec::new();
    for address in addresses.take(MAX_ADDRESSES) {
        match find_at(address.ip(), url) {
            Ok(found) => return Ok(found),
            Err(why) if refused.contains(&why) => {}
            Err(why) => refused.push(why),
        }
    }
    Err(failed(refused.join("; ")))
}

/// How many of a host's addresses are tried: each may be silent for some seconds.
const MAX_ADDRESSES: usize = 2;

/// A program and its version, as the portmapper numbers them.
struct Program(u32, u32, &'static str);
const NFS: Program = Program(nfs3::PROGRAM, nfs3::VERSION, "NFS");
const MOUNT: Program = Program(mount::PROGRAM, mount::VERSION, "MOUNT");

fn find_at(address: IpAddr, url: &Url) -> Result<NfsFile, String> {
    let credential = opaque_auth::auth_unix(&caller());
    let nfs = match url.port {
        Some(port) => SocketAddr::new(address, port),
        None => port(address, NFS)?,
    };
    let mount = match url.port {
        Some(_) if serves_mount(nfs)? => nfs,
        _ => port(address, MOUNT)?,
    };
    let (depth, root) = mount_export(mount, url, &credential)?;
    let stream = connect(nfs, "NFS")?;
    let mut client = Nfs3Client::new_with_auth(stream, credential.clone(), opaque_auth::default());
    let (handle, attributes) = look_up(&mut client, root, &url.names[depth..])?;
    match attributes.type_ {
        ftype3::NF3REG => {}
        ftype3::NF3DIR => return Err("it is a directory, not a file".into()),
        ftype3::NF3LNK => return Err("it is a symbolic link: name the file behind it".into()),
        _ => return Err("it is not a regular file".into()),
    }
    if attributes.size == 0 {
        return Err("the file is empty".into());
    }
    Ok(NfsFile {
        server: nfs,
        max_read_bytes: limits(&mut client, &handle)?.rtmax.into(),
        handle,
        credential,
        size_bytes: attributes.size,
    })
}

/// The caller: the user of this process. The owner of /proc/self is its effective one.
fn caller() -> auth_unix {
    let (uid, gid) =
        fs::metadata("/proc/self").map_or((65534, 65534), |this| (this.uid(), this.gid()));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let groups = groups.unwrap_or_default().split_whitespace();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    auth_unix {
        stamp: std::process::id(),
        machinename: Opaque::owned(name.trim().as_bytes().to_vec()),
        uid,
        gid,
        gids: groups.filter_map(|group| group.parse().ok()).take(MAX_GROUPS).collect(),
    }
}

/// A connection to a program of a server.
fn connect(at: SocketAddr, program: &str) -> Result<BlockingStream, String> {
    let connected = reserved_port::connect(&at, TIMEOUT);
    let stream = connected.and_then(|stream| BlockingStream::new(stream, TIMEOUT));
    stream.map_err(|error| format!("{program} at {at}: {}", connection_error(&error, TIMEOUT)))
}

/// The port of a program, by the portmapper.
fn port(address: IpAddr, Program(number, version, name): Program) -> Result<SocketAddr, String> {
    let portmapper = SocketAddr::new(address, PMAP_PORT);
    let stream = connect(portmapper, "the portmapper").map_err(|why| {
        format!(
            "{why} (rpcbind runs where NFS version 3 is served; a server without it has all on \
             one port, which the URL names: nfs://HOST:PORT/…)"
        )
    })?;
    match block_on(PortmapperClient::new(stream).getport(number, version, IPPROTO_TCP)) {
        Ok(port) => Ok(SocketAddr::new(address, port)),
        Err(PortmapError::ProgramUnavailable) => Err(format!(
            "{address} runs no {name} version 3 over TCP (its portmapper knows of none)"
        )),
        Err(PortmapError::Rpc(error)) => {
            Err(format!("the portmapper at {portmapper}: {}", rpc_error(&error)))
        }
        Err(error) => Err(format!("the portmapper at {portmapper}: {error}")),
    }
}

/// Whether MOUNT is served at the port of NFS.
fn serves_mount(nfs: SocketAddr) -> Result<bool, String> {
    match block_on(MountClient::new(connect(nfs, "NFS")?).null()) {
        Ok(()) => Ok(true),
        // Any other problem shows when the file is looked up.
        Err(RpcError::Io(error)) if error.kind() == ErrorKind::TimedOut => {
            Err(format!("NFS at {nfs}: {}", connection_error(&error, TIMEOUT)))
        }
        Err(_) => Ok(false),
    }
}

/// The longest folder of the file's path that can be mounted: how many names it has, and its
/// handle. A server may hide its list of exports, so the folders are tried one after the other.
fn mount_export(
    at: SocketAddr,
    url: &Url,
    credential: &opaque_auth<'static>,
) -> Result<(usize, nfs_fh3), String> {
    let stream = connect(at, "MOUNT")?;
    let mut client = MountClient::new_with_auth(stream, credential.clone(), opaque_auth::default());
    let mut denied = Vec::new();
    for depth in (0..url.names.len()).rev() {
        let path = url.folder(depth);
        let shown = String::from_utf8_lossy(&path).into_owned();
        match block_on(client.mnt(dirpath(Opaque::borrowed(&path)))) {
            Ok(mounted) => {
                // Otherwise it would stay in the server's list of mounts. The handle stays valid.
                let _ = block_on(client.umnt(dirpath(Opaque::borrowed(&path))));
                return Ok((depth, root(mounted, &shown)?));
            }
            Err(MountError::Denied(status)) => {
                denied.push(format!("{shown}: {}", refusal(&status)))
            }
            Err(MountError::Rpc(error)) => {
                return Err(format!("MOUNT at {at}: {}", rpc_error(&error)));
            }
        }
    }
    Err(format!("{at} exports none of the file's folders ({})", denied.join(", ")))
}

fn refusal(status: &mountstat3) -> String {
    match status {
        mountstat3::MNT3ERR_NOENT => "there is none".into(),
        mountstat3::MNT3ERR_ACCES | mountstat3::MNT3ERR_PERM => {
            "not for this machine or user".into()
        }
        status => status.to_string(),
    }
}

/// The handle of a mounted folder, if callers need not authenticate.
fn root(mounted: mountres3_ok<'_>, shown: &str) -> Result<nfs_fh3, String> {
    let plain = [auth_flavor::AUTH_UNIX as u32, auth_flavor::AUTH_NULL as u32];
    let flavours = &mounted.auth_flavors;
    if !flavours.is_empty() && !flavours.iter().any(|flavour| plain.contains(flavour)) {
        return Err(format!(
            "{shown} requires callers to authenticate (by Kerberos; an export with sec=sys does not)"
        ));
    }
    handle(nfs_fh3 { data: Opaque::owned(mounted.fhandle.0.to_vec()) })
}

fn handle(handle: nfs_fh3) -> Result<nfs_fh3, String> {
    match handle.data.len() {
        0..=MAX_HANDLE_BYTES => Ok(handle),
        length => Err(format!("invalid file handle length: {length} B")),
    }
}

/// The file at the end of these names, from `root` on.
fn look_up(
    client: &mut Nfs3Client<BlockingStream>,
    root: nfs_fh3,
    names: &[Vec<u8>],
) -> Result<(nfs_fh3, fattr3), String> {
    let mut at = (root, Nfs3Option::None);
    for name in names {
        let what = diropargs3 { dir: at.0, name: filename3(Opaque::borrowed(name)) };
        let found = results(client.lookup(&LOOKUP3args { what }), |status| {
            let name = String::from_utf8_lossy(name);
            match status {
                nfsstat3::NFS3ERR_NOENT => format!("there is no `{name}`"),
                nfsstat3::NFS3ERR_NOTDIR => {
                    format!("what comes before `{name}` is not a directory")
                }
                nfsstat3::NFS3ERR_ACCES => format!("`{name}` may not be looked up by this user"),
                status => format!("looking up `{name}`: {status}"),
            }
        })?;
        at = (handle(found.object)?, found.obj_attributes);
    }
    let attributes = match at.1 {
        Nfs3Option::Some(attributes) => attributes,
        Nfs3Option::None => {
            let file = GETATTR3args { object: at.0.clone() };
            let refusal = |status| format!("its attributes: {status}");
            results(client.getattr(&file), refusal)?.obj_attributes
        }
    };
    Ok((at.0, attributes))
}

/// What the server lets callers do with a file.
fn limits(client: &mut Nfs3Client<BlockingStream>, file: &nfs_fh3) -> Result<FSINFO3resok, String> {
    let file = FSINFO3args { fsroot: file.clone() };
    results(client.fsinfo(&file), |status| format!("the limits of its file system: {status}"))
}

/// The results of a call; `refusal` says what a status other than success means.
fn results<T, E>(
    call: impl Future<Output = Result<Nfs3Result<T, E>, RpcError>>,
    refusal: impl FnOnce(nfsstat3) -> String,
) -> Result<T, String> {
    match block_on(call).map_err(|error| rpc_error(&error))? {
        Nfs3Result::Ok(results) => Ok(results),
        Nfs3Result::Err((status, _)) => Err(refusal(status)),
    }
}

fn rpc_error(error: &RpcError) -> String {
    match error {
        RpcError::Io(error) => connection_error(error, TIMEOUT),
        RpcError::Auth(status) => format!("the server does not accept the caller ({status})"),
        RpcError::ProgUnavail | RpcError::ProgMismatch { .. } => {
            format!("the server does not serve version 3 of that ({error})")
        }
        error => format!("the server's answer cannot be used ({error})"),
    }
}

/// Why a connection failed, to a server that may take `timeout` for a reply.
pub(super) fn connection_error(error: &io::Error, timeout: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("no answer within {} s", timeout.as_secs_f64())
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the server has ended the connection".into()
        }
        ErrorKind::ConnectionRefused => "nothing listens there (connection refused)".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs3_client::nfs3_types::mount::fhandle3;

    fn mounted(handle_bytes: usize, flavours: &[u32]) -> Result<nfs_fh3, String> {
        let mounted = mountres3_ok {
            fhandle: fhandle3(Opaque::owned(vec![1; handle_bytes])),
            auth_flavors: flavours.to_vec(),
        };
        root(mounted, "/export")
    }

    #[test]
    fn an_export_is_read_where_callers_need_not_authenticate() {
        const KERBEROS: u32 = 390_003;
        let system = auth_flavor::AUTH_UNIX as u32;
        assert_eq!(mounted(64, &[KERBEROS, system]).unwrap().data.len(), 64);
        assert!(mounted(32, &[]).is_ok());
        assert!(mounted(32, &[KERBEROS]).unwrap_err().contains("Kerberos"));
        assert!(mounted(65, &[system]).unwrap_err().contains("65 B"));
    }

    #[test]
    fn the_caller_is_this_processs_user() {
        let caller = caller();
        let this = fs::metadata("/proc/self").unwrap();
        assert_eq!((caller.uid, caller.gid), (this.uid(), this.gid()));
        assert!(caller.gids.len() <= MAX_GROUPS && !caller.machinename.is_empty());
    }
}
