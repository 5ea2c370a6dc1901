//! A file of an NFS server: where the server's programs listen, the export that the file is in, and the
//! handle by which it is read.
//!
//! Source: RFC 1813 (NFS version 3, and appendix I on MOUNT), RFC 1833 on the portmapper, RFC 5531.

use super::reply::HANDLE_MOST_BYTES;
use super::url::Url;
use super::wire::{Wire, at_once};
use costof_model::failure::Failure;
use costof_os::net::reserved_port;
use nfs3_client::nfs3_types::mount::{self, dirpath, mountres3_ok, mountstat3};
use nfs3_client::nfs3_types::nfs3::{
    self, FSINFO3args, GETATTR3args, LOOKUP3args, Nfs3Option, Nfs3Result, diropargs3, fattr3,
    filename3, ftype3, nfs_fh3, nfsstat3,
};
use nfs3_client::nfs3_types::portmap::{IPPROTO_TCP, PMAP_PORT};
use nfs3_client::nfs3_types::rpc::{auth_flavor, auth_unix, opaque_auth};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::{MountClient, MountError, Nfs3Client, PortmapError, PortmapperClient, RpcError};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How long a server may take for one answer.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// How many groups a caller may say that it is in. Source: RFC 5531, appendix A.
const GROUPS_MOST: usize = 16;

/// A file that a server gives to read.
#[derive(Clone, Debug)]
pub(super) struct RemoteFile {
    /// Where the server reads files.
    pub(super) server: SocketAddr,
    pub(super) handle: nfs_fh3,
    pub(super) credential: opaque_auth<'static>,
    pub(super) size_bytes: u64,
    /// How much the server reads by one call, at most.
    pub(super) read_most_bytes: u64,
}

/// The file that `url` names.
///
/// # Errors
/// What does not answer, or what it answers.
pub(super) fn find(url: &Url) -> Result<RemoteFile, Failure> {
    at_one_address(url, |address| find_at(address, url))
}

/// What comes of the first of a host's addresses at which it comes to something.
fn at_one_address<T>(
    url: &Url,
    mut at: impl FnMut(IpAddr) -> Result<T, String>,
) -> Result<T, Failure> {
    let failed = |why: String| Failure::error(format!("{url} cannot be read: {why}"));
    let found = (&*url.host, 0).to_socket_addrs();
    let addresses = found.map_err(|error| failed(format!("the host is not found: {error}")))?;
    let mut refused = Vec::new();
    for address in addresses.take(ADDRESSES_MOST) {
        match at(address.ip()) {
            Ok(found) => return Ok(found),
            Err(why) if refused.contains(&why) => {}
            Err(why) => refused.push(why),
        }
    }
    Err(failed(refused.join("; ")))
}

/// How many of a host's addresses are tried: each may be silent for some seconds.
const ADDRESSES_MOST: usize = 2;

/// A program and its version, as the portmapper numbers them.
struct Program(u32, u32, &'static str);
const NFS: Program = Program(nfs3::PROGRAM, nfs3::VERSION, "NFS");
const MOUNT: Program = Program(mount::PROGRAM, mount::VERSION, "MOUNT");

fn find_at(address: IpAddr, url: &Url) -> Result<RemoteFile, String> {
    let credential = opaque_auth::auth_unix(&caller());
    let nfs = match url.port {
        Some(port) => SocketAddr::new(address, port),
        None => asked_port(address, NFS)?,
    };
    let mount = match url.port {
        Some(_) if mounts_too(nfs)? => nfs,
        _ => asked_port(address, MOUNT)?,
    };
    let (depth, root) = mounted(mount, url, &credential)?;
    let wire = wire(nfs, "NFS")?;
    let mut client = Nfs3Client::new_with_auth(wire, credential.clone(), opaque_auth::default());
    let (handle, attributes) = looked_up(&mut client, root, &url.names[depth..])?;
    match attributes.type_ {
        ftype3::NF3REG => {}
        ftype3::NF3DIR => return Err("it is a directory, not a file".into()),
        ftype3::NF3LNK => return Err("it is a symbolic link: name the file behind it".into()),
        _ => return Err("it is no regular file".into()),
    }
    if attributes.size == 0 {
        return Err("the file is empty".into());
    }
    Ok(RemoteFile {
        server: nfs,
        read_most_bytes: read_most_bytes(&mut client, &handle)?,
        handle,
        credential,
        size_bytes: attributes.size,
    })
}

/// Who calls: the user that this process is. The owner of /proc/self is its effective one.
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
        gids: groups
            .filter_map(|group| group.parse().ok())
            .take(GROUPS_MOST)
            .collect(),
    }
}

/// A connection to a program of a server.
fn wire(at: SocketAddr, program: &str) -> Result<Wire, String> {
    let connected = reserved_port::connect(&at, LIMIT).and_then(|stream| Wire::new(stream, LIMIT));
    connected.map_err(|error| format!("{program} at {at}: {}", why(&error, LIMIT)))
}

/// Where the portmapper says that a program listens.
fn asked_port(
    address: IpAddr,
    Program(number, version, name): Program,
) -> Result<SocketAddr, String> {
    let portmapper = SocketAddr::new(address, PMAP_PORT);
    let wire = wire(portmapper, "the portmapper").map_err(|why| {
        format!(
            "{why} (rpcbind runs where NFS version 3 is served; a server without it has all on \
             one port, which the URL names: nfs://HOST:PORT/…)"
        )
    })?;
    match at_once(PortmapperClient::new(wire).getport(number, version, IPPROTO_TCP)) {
        Ok(port) => Ok(SocketAddr::new(address, port)),
        Err(PortmapError::ProgramUnavailable) => Err(format!(
            "{address} runs no {name} version 3 over TCP (its portmapper knows of none)"
        )),
        Err(PortmapError::Rpc(error)) => Err(format!(
            "the portmapper at {portmapper}: {}",
            why_not_called(&error)
        )),
        Err(error) => Err(format!("the portmapper at {portmapper}: {error}")),
    }
}

/// Whether the program that mounts has the port at which NFS is served.
fn mounts_too(nfs: SocketAddr) -> Result<bool, String> {
    match at_once(MountClient::new(wire(nfs, "NFS")?).null()) {
        Ok(()) => Ok(true),
        // What else is wrong with it shows when it is asked to read.
        Err(RpcError::Io(error)) if error.kind() == ErrorKind::TimedOut => {
            Err(format!("NFS at {nfs}: {}", why(&error, LIMIT)))
        }
        Err(_) => Ok(false),
    }
}

/// The longest folder of the file's path that the server lets be mounted: of how many names it is, and
/// its handle. A server may hide its list of exports, so it is asked for one after the other.
fn mounted(
    at: SocketAddr,
    url: &Url,
    credential: &opaque_auth<'static>,
) -> Result<(usize, nfs_fh3), String> {
    let wire = wire(at, "MOUNT")?;
    let mut client = MountClient::new_with_auth(wire, credential.clone(), opaque_auth::default());
    let mut denied = Vec::new();
    for depth in (0..url.names.len()).rev() {
        let path = url.folder(depth);
        let shown = String::from_utf8_lossy(&path).into_owned();
        match at_once(client.mnt(dirpath(Opaque::borrowed(&path)))) {
            Ok(mounted) => {
                // It would stay in the server's list of who has mounted what. The handle holds.
                let _ = at_once(client.umnt(dirpath(Opaque::borrowed(&path))));
                return Ok((depth, root(mounted, &shown)?));
            }
            Err(MountError::Denied(status)) => {
                denied.push(format!("{shown}: {}", refusal(&status)))
            }
            Err(MountError::Rpc(error)) => {
                return Err(format!("MOUNT at {at}: {}", why_not_called(&error)));
            }
        }
    }
    Err(format!(
        "{at} exports none of the file's folders ({})",
        denied.join(", ")
    ))
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

/// The handle of a folder that was mounted, if it may be used by who calls plainly.
fn root(mounted: mountres3_ok<'_>, shown: &str) -> Result<nfs_fh3, String> {
    let plain = [auth_flavor::AUTH_UNIX as u32, auth_flavor::AUTH_NULL as u32];
    let flavours = &mounted.auth_flavors;
    if !flavours.is_empty() && !flavours.iter().any(|flavour| plain.contains(flavour)) {
        return Err(format!(
            "{shown} wants callers to prove who they are (by Kerberos; an export with sec=sys does not)"
        ));
    }
    handle(nfs_fh3 {
        data: Opaque::owned(mounted.fhandle.0.to_vec()),
    })
}

fn handle(handle: nfs_fh3) -> Result<nfs_fh3, String> {
    match handle.data.len() {
        0..=HANDLE_MOST_BYTES => Ok(handle),
        length => Err(format!("invalid file handle length: {length} B")),
    }
}

/// The file at the end of these names, from `root` on.
fn looked_up(
    client: &mut Nfs3Client<Wire>,
    root: nfs_fh3,
    names: &[Vec<u8>],
) -> Result<(nfs_fh3, fattr3), String> {
    let mut at = (root, Nfs3Option::None);
    for name in names {
        let shown = String::from_utf8_lossy(name);
        let what = diropargs3 {
            dir: at.0,
            name: filename3(Opaque::borrowed(name)),
        };
        let answer = at_once(client.lookup(&LOOKUP3args { what }));
        match answer.map_err(|error| why_not_called(&error))? {
            Nfs3Result::Ok(found) => at = (handle(found.object)?, found.obj_attributes),
            Nfs3Result::Err((nfsstat3::NFS3ERR_NOENT, _)) => {
                return Err(format!("there is no `{shown}`"));
            }
            Nfs3Result::Err((nfsstat3::NFS3ERR_NOTDIR, _)) => {
                return Err(format!("what stands before `{shown}` is no directory"));
            }
            Nfs3Result::Err((nfsstat3::NFS3ERR_ACCES, _)) => {
                return Err(format!("`{shown}` may not be looked up by this user"));
            }
            Nfs3Result::Err((status, _)) => return Err(format!("looking up `{shown}`: {status}")),
        }
    }
    let attributes = match at.1 {
        Nfs3Option::Some(attributes) => attributes,
        Nfs3Option::None => {
            let answer = at_once(client.getattr(&GETATTR3args {
                object: at.0.clone(),
            }));
            match answer.map_err(|error| why_not_called(&error))? {
                Nfs3Result::Ok(answer) => answer.obj_attributes,
                Nfs3Result::Err((status, _)) => return Err(format!("its attributes: {status}")),
            }
        }
    };
    Ok((at.0, attributes))
}

fn read_most_bytes(client: &mut Nfs3Client<Wire>, file: &nfs_fh3) -> Result<u64, String> {
    let answer = at_once(client.fsinfo(&FSINFO3args {
        fsroot: file.clone(),
    }));
    match answer.map_err(|error| why_not_called(&error))? {
        Nfs3Result::Ok(limits) => Ok(limits.rtmax.into()),
        Nfs3Result::Err((status, _)) => Err(format!("the limits of its file system: {status}")),
    }
}

fn why_not_called(error: &RpcError) -> String {
    match error {
        RpcError::Io(error) => why(error, LIMIT),
        RpcError::Auth(status) => format!("the server does not accept who calls ({status})"),
        RpcError::ProgUnavail | RpcError::ProgMismatch { .. } => {
            format!("the server does not serve version 3 of that ({error})")
        }
        error => format!("the server's answer cannot be used ({error})"),
    }
}

/// What is wrong with a connection to a server that may take `limit` for an answer.
pub(super) fn why(error: &io::Error, limit: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("no answer within {limit:?}"),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the server has ended the connection".into()
        }
        ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".into(),
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
    fn an_export_is_read_by_who_need_not_prove_who_they_are() {
        const KERBEROS: u32 = 390_003;
        let system = auth_flavor::AUTH_UNIX as u32;
        assert_eq!(mounted(64, &[KERBEROS, system]).unwrap().data.len(), 64);
        assert!(mounted(32, &[]).is_ok());
        assert!(mounted(32, &[KERBEROS]).unwrap_err().contains("Kerberos"));
        assert!(mounted(65, &[system]).unwrap_err().contains("65 B"));
    }

    #[test]
    fn who_calls_is_who_this_process_is() {
        let caller = caller();
        let this = fs::metadata("/proc/self").unwrap();
        assert_eq!((caller.uid, caller.gid), (this.uid(), this.gid()));
        assert!(caller.gids.len() <= GROUPS_MOST && !caller.machinename.is_empty());
    }
}
