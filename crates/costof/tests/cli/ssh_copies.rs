//! Copies of costof on machines that ssh reaches: an sshd whose user has an empty home.

use crate::common::{COSTOF, Ended, assert_contains_all, or_skip, run, wait_for};
use crate::ssh::There;
use costof_model::noise::MEASURED;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

const ARCH: &str = std::env::consts::ARCH;

/// costof with a static build for this machine, on a machine that has the home of the place. The build is a script, since
/// the whole of an unoptimised costof takes long to send.
fn costof(there: &There, line: &str) -> Command {
    let folder = there.place.path("static");
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        let build = folder.join(format!("costof-{ARCH}-unknown-linux-musl"));
        fs::write(build, format!("#!/bin/sh\nexec {COSTOF} \"$@\"\n")).unwrap();
    }
    let mut costof = there.with_its_ssh(there.place.costof(line));
    costof.env("COSTOF_STATIC_FOLDER", folder);
    costof
}

/// Only describes the machine there, which a worker does.
fn described(there: &There, more: &str) -> Ended {
    let line = format!("run --only null --dry-run --on ssh:there {more}");
    let ended = run(&mut costof(there, &line));
    there.place.expect_nothing_runs();
    ended
}

/// The copies in the home there.
fn copies(there: &There) -> Vec<PathBuf> {
    let folder = fs::read_dir(there.place.path("home/.cache/costof"));
    let entries = folder.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Executes a script as the user there, in the home.
fn prepare(there: &There, script: &str) {
    let mut shell = Command::new("sh");
    let shell = shell.args(["-e", "-c", script]).current_dir(there.place.path("home"));
    let costof = format!("exec {COSTOF} \"$@\"");
    assert!(shell.env("COSTOF", costof).status().unwrap().success(), "{script}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_machine_without_costof_gets_one_copy_of_it_that_clean_takes_away() {
    let there = or_skip!(There::new());
    let line = "run --only null --quick --launches 3 --out run.jsonl --on ssh:there";
    let first = run(&mut costof(&there, line)).expect_code(0);
    assert_contains_all(&first.err, &["ssh:there: copied costof there", "--clean"]);
    there.place.expect_nothing_runs();
    let measured = there.place.run_file();
    let facts = &measured.attempts[0].hosts[MEASURED];
    assert_eq!(facts.executable.as_deref(), Some(COSTOF));
    let [copy] = &copies(&there)[..] else {
        panic!("{:?}", copies(&there));
    };
    let name = format!("costof-{}-", env!("CARGO_PKG_VERSION"));
    assert!(copy.file_name().unwrap().to_str().unwrap().starts_with(&name));
    let before = fs::metadata(copy).unwrap();
    let folder = fs::metadata(copy.parent().unwrap()).unwrap();
    assert_eq!([before.mode() & 0o777, folder.mode() & 0o777], [0o700, 0o700]);
    let second = described(&there, "").expect_code(0);
    assert!(!second.err.contains("copied"), "{}", second.err);
    assert_eq!(fs::metadata(copy).unwrap().ino(), before.ino());
    described(&there, "--clean").expect_code(0);
    wait_for("the copy to go", || !there.place.path("home/.cache").exists());
}

/// What is in the home there, what costof then does, and what it says.
const HOMES: &[(&str, Option<i32>, &str)] = &[
    // A copy that was changed, or is a link, is not executed.
    ("C; echo exit 1 >> $f", Some(0), "copied costof"),
    ("C; ln -sf /bin/false $f", Some(0), "copied costof"),
    ("C; chmod 755 $f", Some(0), "copied costof"),
    ("C; rm $f; mkdir $f", Some(3), "cannot replace"),
    // A folder that is not this user's alone is not used.
    ("C; chmod 777 .cache/costof", Some(3), "this user alone"),
    (
        "mkdir .cache other; chmod 700 other; ln -s ../other .cache/costof",
        Some(3),
        "this user alone",
    ),
    ("echo > .cache", Some(3), "cannot make"),
    // A full disk, and a line that loses bytes.
    ("B head 'echo no space >&2; exit 1'", Some(3), "cannot write"),
    ("B head '/usr/bin/head -c $2 >/dev/null; echo x'", Some(3), "not what was sent"),
    // Another version is left alone, and this one used.
    ("B costof 'echo costof 0.0.1'", Some(0), "copied costof"),
    ("B costof \"$COSTOF\"", Some(0), ""),
    ("B uname 'echo riscv64'", Some(3), "a static build for riscv64"),
    ("B uname 'echo riscv64'; B costof \"$COSTOF\"", Some(0), ""),
];

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_in_the_home_there_is_not_trusted() {
    let there = or_skip!(There::new());
    let helpers = "C() { mkdir -p -m 700 .cache/costof; cp keep \"$f\"; chmod 700 \"$f\"; }
        B() { mkdir -p bin; printf '#!/bin/sh\\n%s\\n' \"$2\" > bin/$1; chmod 755 bin/$1; }
        f=$(cat name);";
    described(&there, "").expect_code(0);
    let copy = copies(&there).remove(0);
    fs::copy(&copy, there.place.path("keep")).unwrap();
    fs::write(
        there.place.path("name"),
        format!(".cache/costof/{}", copy.file_name().unwrap().display()),
    )
    .unwrap();
    for (script, code, says) in HOMES {
        prepare(&there, "rm -rf .cache bin other; cp ../keep ../name .");
        prepare(&there, &format!("{helpers} {script}"));
        let ended = described(&there, "");
        assert_eq!(ended.code, *code, "{script}: {}", ended.err);
        assert_contains_all(&ended.err, &[says]);
        // Nothing half done is left, and nothing copied where it is not needed.
        let left = usize::from(ended.err.contains("copied costof"));
        let left = copies(&there).len() - left;
        assert!(left == 0 || script.starts_with('C'), "{script}");
    }
}
