//! A real Slurm of twelve nodes on this machine, with keys, ports and folders of the test's own.

use crate::common::{
    COSTOF, Ended, Place, assert_contains, ended, is_installed, launches_of, misbehaving, or_skip,
    run, wait_for,
};
use crate::limits::without;
use crate::quiet::quiet;
use costof_model::failure::FailureKind;
use costof_model::noise::MEASURED;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// So many that `costof fleet` sees how much those that belong differ: one in ten may be odd.
const NODES: usize = 12;
/// Lets a program load 4,000 words at each system call, four times.
const SLOW_CALLS: &str = "
for _ in range(4):
    filter_calls([(0x20, 0, 0, 16)] * 4000 + [(0x06, 0, 0, 0x7fff0000)])
";

/// A cluster, which ends with this.
struct Cluster {
    place: Place,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.place.running() {
            let _ = kill_process(process.pid, Signal::KILL);
        }
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        self.steps().for_each(|step| kill_process(step, Signal::KILL).unwrap_or(()));
    }
}

impl Cluster {
    /// Such a cluster, whose last node has slow system calls, or why there is none here.
    fn new() -> Result<Cluster, String> {
        for program in ["munged", "slurmctld", "slurmd", "srun"] {
            let is_there = Command::new(program).arg("-V").output().is_ok();
            is_there
                .then_some(())
                .ok_or_else(|| format!("no {program} (Debian: apt-get install slurm-wlm munge)"))?;
        }
        if !geteuid().is_root() || !is_installed("python3") {
            return Err("only root starts a slurmd, and python3 slows one down".to_owned());
        }
        let place = Place::new();
        fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(place.path("munge.key"), [7; 64]).unwrap();
        fs::set_permissions(place.path("munge.key"), PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(place.path("slurm.conf"), configuration(&place)).unwrap();
        let mut cluster = Cluster { place, daemons: Vec::new() };
        let path = |name: &str| cluster.place.path(name).display().to_string();
        let files = ["key-file", "socket", "pid-file", "log-file", "seed-file"];
        let files =
            files.map(|file| format!("--{file}={}", path(&format!("munge.{}", &file[..3]))));
        cluster.start(Command::new("munged").arg("--foreground").args(files));
        cluster.start(Command::new("slurmctld").arg("-D"));
        for node in 1..=NODES {
            let mut slurmd = Command::new("slurmd");
            slurmd.args(["-D", "-N", &format!("n{node}")]);
            if node == NODES {
                slurmd = without(SLOW_CALLS, slurmd.current_dir(cluster.place.path("")));
            }
            cluster.start(&mut slurmd);
        }
        wait_for("Slurm's nodes to be idle", || {
            cluster.says("sinfo --noheader --states=idle --format=%D") == format!("{NODES}\n")
        });
        Ok(cluster)
    }

    /// What manages steps: neither a child nor in the environment of the daemons, but in their folder.
    fn steps(&self) -> impl Iterator<Item = Pid> {
        let folder = self.place.path("").canonicalize().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(move |process| {
            let process = process.path();
            let name = fs::read_to_string(process.join("comm")).ok()?;
            let is_step =
                name == "slurmstepd\n" && fs::read_link(process.join("cwd")).ok()? == folder;
            let pid = process.file_name()?.to_str()?.parse().ok()?;
            is_step.then(|| Pid::from_raw(pid)).flatten()
        })
    }

    fn start(&mut self, daemon: &mut Command) {
        let log = File::create(self.place.path(&format!("{}.out", self.daemons.len()))).unwrap();
        let daemon = daemon
            .env("SLURM_CONF", self.place.path("slurm.conf"))
            .current_dir(self.place.path(""))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.daemons.push(daemon.spawn().unwrap());
    }

    /// A command in the place, as a user of this cluster.
    fn user(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.place.path("slurm.conf"));
        command
    }

    fn run(&self, line: &str) -> Ended {
        run(&mut self.user(self.place.command(line)))
    }

    fn says(&self, line: &str) -> String {
        self.run(line).out
    }

    /// Waits until no job is left, nor anything that one started.
    fn expect_nothing_runs(&self) {
        self.place.expect_nothing_runs();
        wait_for("every job to end", || self.says("squeue --noheader").is_empty());
    }
}

fn configuration(place: &Place) -> String {
    let folder = place.path("");
    let folder = folder.display().to_string();
    let folder = folder.trim_end_matches('/');
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = name.trim().split('.').next().unwrap();
    let free = (0..=NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let free: Vec<TcpListener> = free.collect();
    let mut ports = free.iter().map(|socket| socket.local_addr().unwrap().port());
    let controller = ports.next().unwrap();
    let nodes = (1..).zip(ports).map(|(node, port)| {
        format!("NodeName=n{node} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=4\n")
    });
    let nodes = nodes.collect::<String>();
    format!(
        "ClusterName=test\nSlurmctldHost={name}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser=root\n\
         AuthInfo=socket={folder}/munge.soc\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nReturnToService=2\n\
         SlurmdParameters=config_overrides\nStateSaveLocation={folder}/state\n\
         SlurmdSpoolDir={folder}/spool.%n\nSlurmctldPidFile={folder}/slurmctld.pid\n\
         SlurmdPidFile={folder}/slurmd.%n.pid\n{nodes}PartitionName=all Nodes=ALL Default=YES\n"
    )
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_node_whose_system_calls_are_slow_is_found_and_drained() {
    let cluster = or_skip!(Cluster::new());
    let place = &cluster.place;
    let what = "--only os.syscall --set call=getppid,getpid,read --quick --launches 3";
    let days = ["monday", "tuesday", "friday"];
    for day in days {
        let on_all =
            format!("srun --nodes={NODES} --ntasks-per-node=1 {COSTOF} run {what} --out {day}/");
        cluster.run(&on_all).expect_code(0);
        let file = |node: usize| format!("{day}/n{node}.jsonl");
        let first = quiet(place.read(&file(1)));
        for node in 1..=NODES {
            let mut of_node = quiet(place.read(&file(node)));
            let facts = &of_node.attempts[0].hosts[MEASURED];
            assert_eq!(facts.host_name, Some(format!("n{node}")));
            // What else uses this machine may double what a call takes on any of them.
            if node < NODES {
                of_node.points.clone_from(&first.points);
            }
            place.write(&file(node), of_node);
        }
    }
    // As docs/fleet.md has it.
    let drain = "while read -r node reason; do \
                 scontrol update nodename=\"$node\" state=drain reason=\"$reason\"; done";
    let pipe = format!("sh -c '{COSTOF} fleet {} --reason | {drain}'", days.join(" "));
    cluster.run(&pipe).expect_code(0);
    let drained = cluster.says("sinfo --noheader --states=drain --Format=NodeList:9,Reason:99");
    assert_eq!(drained.lines().count(), 1, "{drained}");
    assert_contains(&drained, "n12      costof: all 3 os rows");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_that_srun_starts_ends_with_it_and_leaves_no_job() {
    let cluster = or_skip!(Cluster::new());
    let place = &cluster.place;
    let on = |costof: &str| format!("--on 'exec:srun -N1 -w n2 {costof} worker'");
    let line = format!("run --only null --quick --launches 3 --out runs/ {}", on(COSTOF));
    run(&mut cluster.user(place.costof(&line))).expect_code(0);
    cluster.expect_nothing_runs();
    let measured = place.read("runs/n2.jsonl");
    assert_eq!(launches_of(&measured, "harness.null"), 3);
    let words =
        format!("run test.hang --set how=once --quick --out run.jsonl {}", on(&misbehaving()));
    let controller = place.hanging(&mut cluster.user(place.misbehaving(&words)));
    // srun has a child that ends its step when it is killed; the earlier pair keeps the machine.
    let mut sruns = place.running();
    sruns.retain(|process| process.command.starts_with("srun "));
    sruns.sort_by_key(|process| (process.started, process.pid.as_raw_nonzero()));
    let [_, _, srun, _] = &sruns[..] else {
        panic!("not two pairs: {sruns:?}");
    };
    kill_process(srun.pid, Signal::KILL).unwrap();
    ended(controller).expect_code(0);
    cluster.expect_nothing_runs();
    let failures = place.run_file().failures;
    assert_eq!(failures[0].kind, FailureKind::Crashed);
    assert_contains(&failures[0].reason, "SIGKILL");
}
