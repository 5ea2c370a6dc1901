//! What a container does to its processes: limits, met by real ones.

use crate::common::{Ended, Place, read, run, wait_for};
use costof_model::noise::Grade;
use std::fs;
use std::path::{Path, PathBuf};

/// A control group of this test's own.
struct ControlGroup {
    folder: PathBuf,
    members: PathBuf,
}

/// A limit, as cgroup v1 and v2 write it: a file and its content.
struct Limit<'a> {
    controller: &'a str,
    v1: (&'a str, &'a str),
    v2: (&'a str, &'a str),
}

impl ControlGroup {
    /// A group with this limit, or why there can be none here.
    fn new(name: &str, limit: &Limit<'_>) -> Result<ControlGroup, String> {
        let name = format!("costof-test-{name}-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join(limit.controller);
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let (parent, members, (file, content)) = if v1.join("tasks").exists() {
            (v1, "tasks", limit.v1)
        } else if controllers
            .split_whitespace()
            .any(|own| own == limit.controller)
        {
            // Best effort: where it is refused, the limit's file is missing below.
            let asked = format!("+{}", limit.controller);
            let _ = fs::write(root.join("cgroup.subtree_control"), asked);
            (root.to_owned(), "cgroup.procs", limit.v2)
        } else {
            return Err(format!("no cgroup controller {}", limit.controller));
        };
        let folder = parent.join(name);
        let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        fs::create_dir(&folder).map_err(|error| failed("make a cgroup", error))?;
        let group = ControlGroup {
            members: folder.join(members),
            folder,
        };
        fs::write(group.folder.join(file), content)
            .map_err(|error| failed("limit a cgroup", error))?;
        Ok(group)
    }

    /// costof in this group.
    fn costof(&self, place: &Place, words: &str) -> Ended {
        let words: Vec<&str> = words.split(' ').collect();
        let costof = place.costof(&words);
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(&self.members)
            .arg(costof.get_program())
            .args(costof.get_args())
            .current_dir(costof.get_current_dir().unwrap());
        for (name, value) in costof.get_envs() {
            command.env(name, value.unwrap());
        }
        run(&mut command)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        wait_for("the cgroup to be empty", || {
            fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
        });
    }
}

#[test]
fn in_a_container_with_a_fifth_of_a_processor_everything_is_measured_and_the_quota_named() {
    let limit = Limit {
        controller: "cpu",
        v1: ("cpu.cfs_quota_us", "20000"),
        v2: ("cpu.max", "20000 100000"),
    };
    let group = match ControlGroup::new("quota", &limit) {
        Ok(group) => group,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let place = Place::new();
    let words = "run cpu.loop --quick --out run.jsonl";
    group.costof(&place, words).expect_code(0);
    let run = read(&place.path("run.jsonl"));
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    let held_back: Vec<_> = run
        .points
        .iter()
        .flat_map(|row| &row.warnings)
        .filter(|warning| warning.kind == "throttled")
        .collect();
    assert!(
        held_back.iter().any(|warning| warning.grade >= Grade::C),
        "{held_back:?}"
    );
    assert!(held_back[0].advice.contains("cpu.max"));
}
