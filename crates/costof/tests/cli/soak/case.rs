//! The commands that are disturbed.

use crate::common::COSTOF;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// A command of costof.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) scene: Scene,
    line: &'static str,
    /// How long it takes without a fault.
    pub(super) usual: OnceLock<Duration>,
}

/// What is around a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    /// A run file, or a folder of many, that it reads.
    Reads,
    /// This machine, which it measures.
    Plain,
    /// A worker on what costof takes for another machine.
    Remote,
    /// A link that costof makes.
    Link,
    /// Two network namespaces with a cable, and costof at one end.
    Namespaces,
    /// `costof send --listen`, to which it sends.
    Receiver,
    /// A named link, which it makes twice, in a /run of its own.
    NamedLink,
}

pub(super) static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let lines = include_str!("commands.txt").lines();
    lines.map(case).collect()
});

fn case(row: &'static str) -> Case {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [name, scene, line] = cells[..] else {
        panic!("not three cells: {row}");
    };
    let scene = match scene {
        "reads" => Scene::Reads,
        "plain" => Scene::Plain,
        "remote" => Scene::Remote,
        "link" => Scene::Link,
        "namespaces" => Scene::Namespaces,
        "receiver" => Scene::Receiver,
        "named link" => Scene::NamedLink,
        other => panic!("no scene {other}"),
    };
    let usual = OnceLock::new();
    Case { name, scene, line, usual }
}

impl Case {
    /// Whether it measures, and so has workers and a run file.
    pub(super) fn measures(&self) -> bool {
        !matches!(self.scene, Scene::Reads | Scene::Receiver | Scene::NamedLink)
    }

    /// Its command line, with the receiver's address and the name of the far namespace in it.
    pub(super) fn line(&self, receiver: &str, far: &str) -> String {
        let worker = format!("{COSTOF} worker");
        self.line
            .replace("WORKER", &format!("'exec:{worker}'"))
            .replace("ACROSS", &format!("'exec:ip netns exec {far} {worker}'"))
            .replace("FAR", far)
            .replace("RECEIVER", receiver)
    }
}

/// A study of one cheap probe, with a question.
pub(super) const STUDY: &str = r#"
title = "One cost"
source = "nobody"
machine = "none"

[[run]]
what = "os.syscall --set call=getppid"

[[table]]
title = "System calls"
unit = "ns"
point = "os.syscall"
columns = [{ name = "getppid", at = "call=getppid" }]
rows = [{ name = "a call", measured = [100] }]

[[question]]
ask = "Does a second thread cost more?"
kinds = ["second_thread"]
because = "no call is certain to cost more"
measure = [{ what = "os.syscall --set call=getppid" }]
"#;
