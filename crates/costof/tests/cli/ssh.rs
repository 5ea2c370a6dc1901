//! Over a real sshd, with keys of the test's own, on a port of loopback.

use crate::common::{
    COSTOF, Place, assert_contains, assert_contains_all, ended, expect_all_launches,
    expect_complete, misbehaving, or_skip, run, signal, wait_for,
};
use crate::hosts::{addresses, expect_whole};
use crate::namespaces::Namespaces;
use costof_model::failure::FailureKind;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A place in which `ssh there` leads to a sshd of its own on this machine.
pub(crate) struct There {
    pub(crate) place: Place,
    sshd: Child,
    _folder: Option<Folder>,
}

impl Drop for There {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// The folder that sshd runs in as root, which Debian's service makes when it
/// starts. Whichever of the tests that use it at once is last removes it, if it
/// was made by one of this process.
struct Folder(File);

const FOLDER: &str = "/run/sshd";
/// Whether by this process.
static IS_MADE: AtomicBool = AtomicBool::new(false);

impl Folder {
    fn new() -> Folder {
        loop {
            if fs::create_dir(FOLDER).is_ok() {
                IS_MADE.store(true, Ordering::Relaxed);
            }
            let folder = match File::open(FOLDER) {
                // It has just been removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                folder => folder.unwrap(),
            };
            folder.lock_shared().unwrap();
            // It may have been removed before it was locked.
            if fs::metadata(FOLDER).is_ok_and(|now| now.ino() == folder.metadata().unwrap().ino()) {
                return Folder(folder);
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The lock for oneself replaces the shared one, where nobody else has that.
        if IS_MADE.load(Ordering::Relaxed) && self.0.try_lock().is_ok() {
            let _ = fs::remove_dir(FOLDER);
        }
    }
}

impl There {
    /// Such a place, or why there is none here.
    pub(crate) fn new() -> Result<There, String> {
        There::at("127.0.0.1", free_port(), None)
    }

    /// The same, with a sshd at the far end of these namespaces.
    pub(crate) fn across(namespaces: &Namespaces) -> Result<There, String> {
        There::at("10.77.0.1", 2222, Some(&namespaces.far))
    }

    fn at(address: &str, port: u16, namespace: Option<&str>) -> Result<There, String> {
        let sshd = Path::new("/usr/sbin/sshd");
        if !sshd.exists() {
            return Err("no /usr/sbin/sshd (Debian: apt-get install openssh-server)".to_owned());
        }
        let place = Place::new();
        let path = |name: &str| place.path(name).display().to_string();
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]);
            let made = keygen.output().map_err(|error| error.to_string())?;
            assert!(made.status.success(), "{made:?}");
        }
        let folder = rustix::process::geteuid().is_root().then(Folder::new);
        let config = format!(
            "ListenAddress {address}:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             SetEnv COSTOF_LOCK_FOLDER={folder} COSTOF_TEST_FOLDER={folder} HOME={folder}/home \
             PATH={folder}/home/bin:/usr/bin:/bin\n",
            path("host_key"),
            path("user_key.pub"),
            folder = path("").trim_end_matches('/'),
        );
        fs::write(place.path("sshd_config"), config).unwrap();
        let host_key = fs::read_to_string(place.path("host_key.pub")).unwrap();
        fs::write(place.path("known"), format!("[{address}]:{port} {host_key}")).unwrap();
        let config = format!(
            "Host n13\n Port 1\nHost there nobody-knows n??\n HostName {address}\n Port {port}\n IdentityFile {}\n\
             IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {}\n\
             GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n",
            path("user_key"),
            path("known"),
        );
        fs::write(place.path("ssh_config"), config).unwrap();
        // ssh looks for its configuration in the user's home, not in $HOME.
        let script = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", path("ssh_config"));
        fs::create_dir(place.path("bin")).unwrap();
        fs::create_dir(place.path("home")).unwrap();
        fs::write(place.path("bin/ssh"), script).unwrap();
        fs::set_permissions(place.path("bin/ssh"), PermissionsExt::from_mode(0o755)).unwrap();
        let log = fs::File::create(place.path("sshd.log")).unwrap();
        let mut starting = match namespace {
            Some(namespace) => {
                let mut ip = Command::new("ip");
                ip.args(["netns", "exec", namespace]).arg(sshd);
                ip
            }
            None => Command::new(sshd),
        };
        let sshd = starting
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| error.to_string())?;
        // From here on it ends with this, whatever fails.
        let mut there = There { place, sshd, _folder: folder };
        let log = there.place.path("sshd.log");
        let log = || fs::read_to_string(&log).unwrap();
        wait_for("sshd to listen", || {
            log().contains("Server listening") || there.sshd.try_wait().unwrap().is_some()
        });
        if let Some(status) = there.sshd.try_wait().unwrap() {
            let log = log();
            return Err(format!("sshd does not run here: {status}: {}", log.trim()));
        }
        if namespace.is_none() {
            // Some accounts may log in nowhere, whatever their keys.
            let mut ssh = Command::new(there.place.path("bin/ssh"));
            let tried = ssh.args(["-o", "BatchMode=yes", "there", "true"]).output();
            let tried = tried.map_err(|error| error.to_string())?;
            if !tried.status.success() {
                let says = String::from_utf8_lossy(&tried.stderr);
                return Err(format!("this user cannot log in by ssh: {}", says.trim()));
            }
        }
        Ok(there)
    }

    /// costof in this place, and the same one there.
    pub(crate) fn costof(&self, line: &str) -> Command {
        self.with_its_ssh(self.place.costof(&format!("{line} --remote-costof {COSTOF}")))
    }

    fn misbehaving(&self, line: &str) -> Command {
        let line = format!("{line} --remote-costof {}", misbehaving());
        self.with_its_ssh(self.place.misbehaving(&line))
    }

    pub(crate) fn with_its_ssh(&self, mut costof: Command) -> Command {
        let path = std::env::var("PATH").unwrap();
        let bin = self.place.path("bin");
        costof.env("PATH", format!("{}:{path}", bin.display()));
        costof
    }

    /// Kills the process whose command line has all of these words: the latest,
    /// since the one that keeps the machine was started before it.
    #[track_caller]
    fn kill(&self, words: &[&str]) {
        let mut running = self.place.running();
        running.retain(|process| {
            let command = process.command.trim_end();
            words.iter().all(|word| match *word {
                "misbehaving worker" => command.ends_with(word),
                word => command.contains(word),
            })
        });
        running.sort_by_key(|process| (process.started, process.pid.as_raw_nonzero()));
        let latest = running.last().unwrap_or_else(|| panic!("no {words:?} runs"));
        kill_process(latest.pid, Signal::KILL).unwrap();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_machine_that_ssh_reaches_is_measured_and_a_run_there_resumed() {
    let there = or_skip!(There::new());
    let words = "run --only null cpu.clock --quick --out run.jsonl --on ssh:there";
    run(&mut there.costof(words)).expect_code(0);
    there.place.expect_nothing_runs();
    let measured = there.place.run_file();
    expect_whole(&measured);
    assert_eq!(measured.run.plan.hosts.on.as_deref(), Some("ssh:there"));
    // What the file lacks is measured there again.
    let file = there.place.path("run.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&file, lines[..lines.len() - 4].concat()).unwrap();
    // The file names the costof there, which is a command.
    let resumed = there.place.costof("run --resume run.jsonl --force");
    run(&mut there.with_its_ssh(resumed)).expect_code(0);
    let whole = there.place.run_file();
    expect_complete(&whole);
    assert_eq!(whole.attempts.len(), 2);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn of_many_hosts_a_dead_one_costs_its_own_run_only() {
    let there = or_skip!(There::new());
    let words = "run --only null --quick --launches 3 --fanout 4 --out runs/ --on ssh:n[01-20]";
    let ended = run(&mut there.costof(words)).expect_code(3);
    there.place.expect_nothing_runs();
    let hosts = "19 of 20 hosts measured: ssh:n[01-12,14-20]\n";
    assert_contains_all(&ended.out, &[hosts, "`costof fleet runs/`"]);
    let lines =
        ["ssh:n01: measured, ", ", 20 of 20 hosts", "ssh:n13: failed, ", "ssh could not connect"];
    assert_contains_all(&ended.err, &lines);
    let files = fs::read_dir(there.place.path("runs")).unwrap();
    assert_eq!(files.count(), 19);
    expect_whole(&there.place.read("runs/ssh-n20.jsonl"));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_other_end_may_be_where_ssh_leads() {
    let there = or_skip!(There::new());
    for ends in ["--peer ssh:there", "--on ssh:there --peer local"] {
        let words = format!("run --only net.rtt --set over=tcp,udp --quick --out run.jsonl {ends}");
        run(&mut there.costof(&words)).expect_code(0);
        there.place.expect_nothing_runs();
        let run = there.place.run_file();
        expect_whole(&run);
        fs::remove_file(there.place.path("run.jsonl")).unwrap();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn two_ends_meet_at_the_address_by_which_ssh_came() {
    let made = Namespaces::new("costofssh").and_then(|namespaces| {
        let there = There::across(&namespaces)?;
        Ok((there, namespaces))
    });
    let (there, namespaces) = or_skip!(made);
    for (ends, expected) in [
        ("--peer ssh:there", ["10.77.0.2", "10.77.0.1"]),
        ("--on ssh:there --peer local", ["10.77.0.1", "10.77.0.2"]),
    ] {
        let words = format!("run --only net.rtt --set over=tcp,udp --quick --out run.jsonl {ends}");
        run(&mut namespaces.at_the_near_end(&there.costof(&words))).expect_code(0);
        there.place.expect_nothing_runs();
        let run = there.place.run_file();
        expect_whole(&run);
        assert!(run.points.iter().all(|row| row.point.link == "remote"));
        assert_eq!(addresses(&run), expected);
        fs::remove_file(there.place.path("run.jsonl")).unwrap();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_stands_in_the_way_of_ssh_is_named() {
    let there = or_skip!(There::new());
    let expect = |path: &str, named: &[&str]| {
        let line = format!("run --only null --quick --on ssh:there --remote-costof {path}");
        let ended = run(&mut there.with_its_ssh(there.place.costof(&line)));
        assert_contains_all(&ended.expect_code(3).err, named);
        there.place.expect_nothing_runs();
    };
    expect("/nowhere/costof", &["exit code 127", "--remote-costof", "/nowhere/costof"]);
    fs::write(there.place.path("known"), "").unwrap();
    let failed = "Host key verification failed";
    expect("costof", &["exit code 255", "BatchMode=yes there true", failed]);
}

/// A run over ssh whose worker hangs in its first launch and in no other.
fn hanging(there: &There) -> Child {
    let words = "run test.hang --set how=once --quick --out run.jsonl --on ssh:there";
    there.place.hanging(&mut there.misbehaving(words))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn when_the_controller_is_killed_nothing_is_left_at_either_end() {
    let there = or_skip!(There::new());
    let controller = hanging(&there);
    signal(&controller, Signal::KILL);
    ended(controller);
    there.place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn when_ssh_or_the_worker_there_is_killed_the_launch_is_lost_and_made_up_for() {
    for (killed, named) in [
        (&["ssh", "-F", "BatchMode"][..], "SIGKILL"),
        (&["worker --end-with-parent"], "killed there by SIGKILL"),
        // Its guard: it goes with it.
        (&["misbehaving worker"], "ssh:there"),
    ] {
        let there = or_skip!(There::new());
        let controller = hanging(&there);
        there.kill(killed);
        ended(controller).expect_code(0);
        there.place.expect_nothing_runs();
        let run = there.place.run_file();
        let [failure] = run.failures.as_slice() else {
            panic!("{:?}", run.failures);
        };
        assert_eq!(failure.kind, FailureKind::Crashed);
        assert_contains_all(&failure.reason, &[named, "ssh:there"]);
        expect_all_launches(&run, "test.hang");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_there_that_hangs_is_ended_at_both_ends() {
    // Even one that is stopped, and sees no end of its input.
    for how in ["spin", "stop"] {
        let there = or_skip!(There::new());
        let words = format!(
            "run test.hang --set how={how} --quick --timeout 20 --out run.jsonl --on ssh:there"
        );
        run(&mut there.misbehaving(&words)).expect_code(3);
        there.place.expect_nothing_runs();
        let run = there.place.run_file();
        assert_eq!(run.failures[0].kind, FailureKind::TimedOut);
        assert_contains(&run.failures[0].reason, "ssh:there");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_a_probe_leaves_behind_there_is_ended_too() {
    for end in ["well", "crash"] {
        let there = or_skip!(There::new());
        let words =
            format!("run test.leaves_child --set end={end} --quick --out run.jsonl --on ssh:there");
        run(&mut there.misbehaving(&words));
        there.place.expect_nothing_runs();
        assert!(there.place.run_file().end.is_some());
    }
}
