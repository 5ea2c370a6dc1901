//! Files of a real NFS server, nfs-ganesha, in a network namespace of the test's own; of servers that
//! are none; and of a remote file system that is mounted.

use crate::common::{
    Ended, Place, READER, assert_contains, assert_contains_all, ended, expect_metrics, median,
    point, run, signal, skipped, spawn, wait_for,
};
use crate::namespaces::Namespaces;
use costof_model::failure::FailureKind::{Error, Unsupported};
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The bytes of the file that is read.
const FILE_BYTES: usize = 8 << 20;

/// A server of the folder `export` of its place, at 10.77.0.1, until it is dropped: rpcbind and
/// ganesha.nfsd in a namespace of processes, which ends with them, and with a /run of their own.
struct Server {
    place: Place,
    namespaces: Namespaces,
    all: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.all.kill();
        let _ = self.all.wait();
    }
}

impl Server {
    /// None, and said so, where it cannot be had.
    fn start(name: &str) -> Option<Server> {
        let started = Server::try_start(name);
        started.map_err(|why| skipped(format_args!("no NFS server here: {why}"))).ok()
    }

    fn try_start(name: &str) -> Result<Server, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root may run one".to_owned());
        }
        for program in ["ganesha.nfsd", "rpcbind"] {
            let found = format!("command -v {program}");
            let found = Command::new("sh").args(["-c", &found]).output();
            if !found.is_ok_and(|found| found.status.success()) {
                return Err(format!("{program} is not installed"));
            }
        }
        let namespaces = Namespaces::new(name)?;
        let place = Place::new();
        let export = place.path("export");
        // Others than root look things up here too.
        fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o755)).unwrap();
        for folder in [&export, &export.join("all"), &export.join("others")] {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
            fs::write(folder.join("file"), vec![7; FILE_BYTES]).unwrap();
        }
        let configuration = place.path("ganesha.conf");
        fs::write(&configuration, configured(&export)).unwrap();
        let log = place.path("ganesha.log");
        let script = format!(
            "mount -t tmpfs none /run && mount -t tmpfs none /var/lib/nfs && \
             mkdir -p /run/rpcbind /var/lib/nfs/ganesha && rpcbind -w -f & \
             while ! [ -e /run/rpcbind.sock ]; do sleep 0.02; done; \
             exec ganesha.nfsd -F -f {} -L {} -p /run/ganesha.pid",
            configuration.display(),
            log.display()
        );
        let mut command = place.command(&format!(
            "ip netns exec {} unshare --mount --pid --fork --kill-child --mount-proc sh -c",
            namespaces.far
        ));
        command.arg(&script);
        let all = spawn(&mut command);
        let mut server = Server { place, namespaces, all };
        wait_for("the NFS server", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let has_ended = server.all.try_wait().unwrap().is_some();
            assert!(!has_ended, "the server has ended: {log}");
            log.contains("NFS SERVER INITIALIZED")
        });
        Ok(server)
    }

    fn export(&self) -> PathBuf {
        self.place.path("export").join("all")
    }

    fn url(&self, name: &str) -> String {
        format!("nfs://10.77.0.1{}/{name}", self.export().display())
    }

    /// `costof run file.remote` of this file, at the near end.
    fn reading(&self, path: &str, more: &str) -> Command {
        let line =
            format!("run --only file.remote --notes --out run.jsonl --set path={path} {more}");
        self.namespaces.at_the_near_end(&self.place.costof(&line))
    }

    /// The process that serves.
    fn process(&self) -> Pid {
        let mut all = self.place.running().into_iter();
        let serves = all.find(|process| process.command.starts_with("ganesha.nfsd"));
        serves.expect("the server runs").pid
    }

    /// Nothing is left of what was started beside it.
    fn expect_only_it_runs(&self) {
        wait_for("workers to end", || {
            let running = self.place.running();
            running.iter().all(|process| {
                let mut ours = ["costof run", "worker", READER].into_iter();
                !ours.any(|words| process.command.contains(words))
            })
        });
    }
}

fn configured(export: &Path) -> String {
    let export_of = |id: u32, path: &Path, more: &str| {
        format!(
            "EXPORT {{ Export_Id = {id}; Path = {}; Pseudo = /{id};
             SecType = sys; Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} {more} }}\n",
            path.display()
        )
    };
    let all = "Access_Type = RO; Squash = Root_Squash;";
    let others = "Access_Type = None; CLIENT { Clients = 10.77.0.77; Access_Type = RO; }";
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 2049; MNT_Port = 20048;
         Enable_NLM = false; Enable_RQUOTA = false; }}
         LOG {{ Default_Log_Level = EVENT; }}\n{}{}",
        export_of(1, &export.join("all"), all),
        export_of(2, &export.join("others"), others),
    )
}

/// The reasons of a run that measured nothing.
#[track_caller]
fn reasons(ended: &Ended, run: &Run) -> Vec<String> {
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    assert!(run.points.iter().all(|row| row.state != State::Ok));
    assert!(!run.failures.is_empty());
    run.failures.iter().map(|row| row.reason.clone()).collect()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_is_read_over_nfs_and_what_limits_it_is_named() {
    let Some(server) = Server::start("costofna") else {
        return;
    };
    let url = server.url("file");
    let axes = "--set block=4KiB,1MiB --set depth=1,16 --set pattern=random,sequential";
    let mut command = server.reading(&url, &format!("file.remote_call --quick {axes}"));
    // An axis that one of both has not is no error.
    let done = run(&mut command).expect_code(0);
    let read = server.place.run_file();
    assert_eq!(read.failures, [], "{}", done.err);
    let mut reads: Vec<&PointRow> = read.points.iter().collect();
    reads.retain(|row| row.point.probe == "file.remote");
    assert_eq!(reads.len(), 8);
    for row in &reads {
        // One answer for each block that was asked for: what came took as long as it says.
        expect_metrics(row, &["latency", "throughput", "null_call", "handshake", "cpu"]);
        let (block, depth) = (row.axes().number("block"), row.axes().number("depth"));
        let bytes = median(row, "throughput") * median(row, "latency") / 1e9;
        let in_flight = bytes / block as f64;
        assert!(in_flight < 4.0 * depth as f64, "{row:?}: {in_flight}");
        // On a busy machine its inputs are none to predict from.
        let is_quiet = read.points.iter().all(PointRow::is_sound);
        assert!(row.prediction.is_some() || !is_quiet, "{}", row.point);
    }
    let found = done.out;
    // Where others use the processor, nobody knows.
    let is_limited = found.contains("limit is unknown");
    assert!(is_limited || found.contains("grade D"), "{found}");
    assert!(!found.contains("allocations happened"), "{found}");
    server.expect_only_it_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_a_server_does_not_give_is_a_failure_that_says_why() {
    let Some(server) = Server::start("costofnb") else {
        return;
    };
    let export = server.export();
    fs::create_dir(export.join("folder")).unwrap();
    fs::write(export.join("empty"), "").unwrap();
    fs::write(export.join("small"), "small").unwrap();
    fs::write(export.join("secret"), vec![0; 8192]).unwrap();
    fs::set_permissions(export.join("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("file", export.join("link")).unwrap();
    let others = format!("nfs://10.77.0.1{}/others/file", server.place.path("export").display());
    let url = |name| server.url(name);
    for (path, why, kind) in [
        (url("absent"), "there is no `absent`", Error),
        (url("folder"), "not a file", Error),
        (url("file/below"), "is not a directory", Error),
        (url("link"), "symbolic link", Error),
        (url("empty"), "the file is empty", Error),
        (url("small"), "a smaller --set block=", Unsupported),
        // The server takes root for nobody, who may not read it.
        (url("secret"), "may not be read", Error),
        (others, "not for this machine", Error),
        ("nfs://10.77.0.1/elsewhere/file".into(), "exports none", Error),
        ("nfs://10.77.0.1:9/elsewhere/file".into(), "nothing listens there", Error),
    ] {
        let done = run(&mut server.reading(&path, "--quick"));
        let read = server.place.run_file();
        for reason in reasons(&done, &read) {
            assert!(reason.contains(why), "{path}: {reason} is not: {why}");
        }
        for row in &read.failures {
            assert_eq!(row.kind, kind, "{row:?}");
        }
        fs::remove_file(server.place.path("run.jsonl")).unwrap();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_host_that_is_not_there_is_named() {
    let Some(server) = Server::start("costofnf") else {
        return;
    };
    let mut reading = server.reading("nfs://10.77.0.9/elsewhere/file", "--quick");
    for reason in failed_first(&server.place, spawn(&mut reading)) {
        assert_contains(&reason, "the portmapper at 10.77.0.9:111");
    }
    server.expect_only_it_runs();
}

/// Waits until a file of a run has a row of this type.
fn wait_for_row(file: &Path, kind: &str) {
    let row = format!("\"type\":\"{kind}\"");
    wait_for(&format!("a row of type {kind}"), || {
        fs::read_to_string(file).is_ok_and(|text| text.contains(&row))
    });
}

/// What failed first in a run that is then interrupted: a server that is silent is waited for in each
/// launch.
fn failed_first(place: &Place, reading: Child) -> Vec<String> {
    let file = place.path("run.jsonl");
    wait_for_row(&file, "failure");
    signal(&reading, Signal::INT);
    let done = ended(reading);
    assert!(!done.err.contains("panicked"), "{}", done.err);
    let failures = place.run_file().failures.into_iter();
    failures.map(|row| row.reason).collect()
}

/// What becomes of a run when something happens to its server after a launch or more: the reasons of what
/// failed.
fn half_way(name: &str, happens: impl FnOnce(&Server)) -> Option<Vec<String>> {
    let server = Server::start(name)?;
    let url = server.url("file");
    let mut command = server.reading(&url, "--set block=4KiB,16KiB,64KiB");
    let reading = spawn(&mut command);
    let file = server.place.path("run.jsonl");
    wait_for_row(&file, "launch");
    happens(&server);
    let reasons = failed_first(&server.place, reading);
    server.expect_only_it_runs();
    Some(reasons)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_server_that_dies_half_way_fails_what_was_left() {
    let died = half_way("costofnc", |server| {
        kill_process(server.process(), Signal::KILL).unwrap();
    });
    for reason in died.into_iter().flatten() {
        // The portmapper ends with it, or still names its port.
        let known = ["ended the connection", "nothing listens there", "runs no"];
        assert!(known.iter().any(|why| reason.contains(why)), "{reason}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_server_that_stalls_half_way_is_not_waited_for() {
    let stalled = half_way("costofnd", |server| {
        kill_process(server.process(), Signal::STOP).unwrap();
    });
    for reason in stalled.into_iter().flatten() {
        assert_contains(&reason, "no answer within 5 s");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_that_shrinks_while_it_is_read_says_so() {
    let shrunk = half_way("costofne", |server| {
        let file = File::options().write(true).open(server.export().join("file")).unwrap();
        file.set_len(4095).unwrap();
    });
    for reason in shrunk.into_iter().flatten() {
        let known = ["it has become shorter", "a smaller --set block="];
        assert!(known.iter().any(|why| reason.contains(why)), "{reason}");
    }
}

/// What comes of a file of a server at a port of loopback.
fn of_a_server_at(port: u16) -> Vec<String> {
    let place = Place::new();
    let line = format!(
        "run --only file.remote --set path=nfs://127.0.0.1:{port}/export/file --quick --out run.jsonl"
    );
    let reasons = failed_first(&place, spawn(&mut place.costof(&line)));
    place.expect_nothing_runs();
    assert!(!reasons.is_empty());
    reasons
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_server_that_is_absent_silent_or_none_fails_in_time() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for reason in of_a_server_at(closed) {
        assert_contains(&reason, "nothing listens there");
    }
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for reason in of_a_server_at(silent.local_addr().unwrap().port()) {
        assert_contains(&reason, "no answer within 5 s");
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut caller in other.incoming().flatten() {
            let _ = caller.read(&mut [0; 64]);
            let _ = caller.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    for reason in of_a_server_at(port) {
        // It is no server that mounts, so the portmapper is asked, which is not there either.
        let known = ["portmapper", "no NFS server"];
        assert!(known.iter().any(|why| reason.contains(why)), "{reason}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_path_that_cannot_be_one_is_a_failure_that_says_so() {
    let place = Place::new();
    // Names of hosts and people are in places.
    let line = "run --only file.remote --quick --out run.jsonl \
                --set path=nfs://localhost:1/secret/file,nfs://localhost:1/secret/other";
    place.run(line).expect_code(3);
    let export = place.run("export run.jsonl --anonymous").expect_code(0).out;
    assert_contains_all(&export, &["\"path\":\"…1\"", "\"path\":\"…2\""]);
    // Nor is what the name was resolved to.
    for secret in ["localhost", "secret", "127.0.0.1", "[::1]"] {
        assert!(!export.contains(secret), "{export}");
    }
    for (path, why) in [
        ("nfs://h/f", "an export and"),
        ("nfs://[::1/e/f", "not closed"),
        ("/etc/passwd", "file.read measures those"),
        ("/nonexistent/costof", "No such file"),
        ("unset", "--set path=nfs://HOST/EXPORT/FILE"),
    ] {
        let line = format!("run --only file.remote --quick --set path={path} --json");
        assert_contains(&place.run(&line).expect_code(3).out, why);
    }
}

/// A folder of this machine, mounted by sshfs with what serves it, until it is dropped.
struct Mounted {
    place: Place,
    sshfs: Child,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.place.path("mounted")).output();
        let _ = self.sshfs.kill();
        let _ = self.sshfs.wait();
    }
}

impl Mounted {
    /// None, and said so, where it cannot be had.
    fn new() -> Option<Mounted> {
        const SERVES: &str = "/usr/lib/openssh/sftp-server";
        let place = Place::new();
        for folder in ["served", "mounted"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.path("served").join("file"), vec![7; FILE_BYTES]).unwrap();
        // In place of ssh: whatever host it is told, what serves runs here.
        let ssh = place.path("ssh");
        fs::write(&ssh, format!("#!/bin/sh\nexec {SERVES}\n")).unwrap();
        fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).unwrap();
        let mounted = place.path("mounted");
        let mut command = place.command(&format!(
            "sshfs -f -o ssh_command={},direct_io here:{} {}",
            ssh.display(),
            place.path("served").display(),
            mounted.display()
        ));
        let sshfs = match command.spawn() {
            Ok(sshfs) if Path::new(SERVES).exists() => sshfs,
            _ => {
                skipped(format_args!("sshfs or {SERVES} is not installed"));
                return None;
            }
        };
        let mut all = Mounted { place, sshfs };
        let mut ended = false;
        wait_for("sshfs", || {
            ended = all.sshfs.try_wait().unwrap().is_some();
            ended || mounted.join("file").exists()
        });
        if ended {
            skipped("sshfs cannot mount here");
            return None;
        }
        Some(all)
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_file_of_a_mounted_remote_file_system_is_read_past_the_page_cache() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let place = &mounted.place;
    let folder = place.path("mounted").display().to_string();
    let line = format!(
        "run --only file.remote file.remote_call --set path={folder}/file --quick --set depth=1,16 \
         --out run.jsonl"
    );
    place.run(&line).expect_code(0);
    let done = place.run_file();
    let alone = point(&done, "file.remote");
    expect_metrics(alone, &["latency", "null_call"]);
    // Where its server is, this machine does not know.
    assert!(alone.estimate("handshake").is_none());
    assert!(!done.failures.is_empty());
    for row in &done.failures {
        assert_contains(&row.reason, "one call");
    }
    let line = format!("run --only file.remote --quick --json --set path={folder}");
    assert_contains(&place.run(&line).expect_code(3).out, "it is a directory");
}
