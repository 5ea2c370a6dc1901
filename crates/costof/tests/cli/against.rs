//! `costof against`: a program in this work tree, and in another revision.

use crate::common::{Ended, Place, assert_contains, assert_contains_all, or_skip, run, within};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a shell script in a place.
fn shell(place: &Place, script: &str) {
    let mut command = place.command("sh -ec");
    run(command.arg(script)).expect_code(0);
}

/// A repository of two commits: in the second, the program loops ten times as often. It is built.
fn repository() -> Result<Place, String> {
    let git = Command::new("git").arg("--version").output();
    git.map_err(|error| format!("git: {error}"))?;
    let place = Place::new();
    fs::create_dir(place.path("repo")).unwrap();
    let program = |loops: u32| format!("i=0; while [ $i -lt {loops} ]; do i=$((i+1)); done");
    fs::create_dir(place.path("repo/sub")).unwrap();
    fs::write(place.path("repo/.gitignore"), "built\n").unwrap();
    fs::write(place.path("repo/sub/source"), program(5_000)).unwrap();
    let commit = "git add -A && git -c user.name=a -c user.email=a@b commit --quiet -m x";
    shell(&place, &format!("cd repo && git init --quiet && {commit}"));
    fs::write(place.path("repo/sub/source"), program(50_000)).unwrap();
    shell(&place, &format!("cd repo && {commit}"));
    Ok(place)
}

/// `costof against` in the repository's folder `sub`.
fn against(place: &Place, arguments: &str) -> Ended {
    let mut command = place.costof(&format!("against {arguments}"));
    command.current_dir(place.path("repo/sub"));
    command.env("XDG_CACHE_HOME", place.path("cache"));
    let ended = run(&mut command);
    place.expect_nothing_runs();
    ended
}

const BUILD: &str =
    "--build 'echo build; cp source built; pwd >> $HOME/builds' --runs 6 --threshold 50%";

#[test]
fn a_slower_work_tree_fails_and_a_faster_one_passes() {
    let place = or_skip!(repository());
    let slower = against(&place, &format!("HEAD~1 {BUILD} -- sh built")).expect_code(1);
    let first = slower.out.lines().next().unwrap();
    assert!(first.starts_with("worktree takes ") && first.contains("HEAD~1"), "{first}");
    assert_contains_all(&slower.err, &["building HEAD~1", "building worktree", "build\n"]);
    // What was not committed counts too, and the other work tree stays.
    fs::write(place.path("repo/sub/source"), "true").unwrap();
    let faster = against(&place, &format!("HEAD {BUILD} -- sh built")).expect_code(0);
    assert_contains(&faster.out, "PASS");
    let builds = fs::read_to_string(place.path("builds")).unwrap();
    let builds: Vec<&str> = builds.lines().collect();
    assert_eq!(builds.len(), 4, "{builds:?}");
    assert_eq!((builds[0], builds[1]), (builds[2], builds[3]));
    assert!(Path::new(builds[0]).starts_with(place.path("cache")), "{builds:?}");
    let source = fs::read_to_string(place.path("repo/sub/source")).unwrap();
    assert_eq!(source, "true", "this work tree is not changed");
}

#[test]
fn what_is_wrong_is_named() {
    let place = or_skip!(repository());
    let unknown = against(&place, "no-such -- sh source").expect_code(2);
    assert_contains_all(&unknown.err, &["no-such", "git fetch"]);
    let unbuilt = against(&place, "HEAD~1 --build 'exit 5' -- sh built").expect_code(2);
    assert_contains_all(&unbuilt.err, &["the build of HEAD~1 failed", "exit 5"]);
    let outside = place.costof("against HEAD -- true");
    let outside = run(&mut within(&["env", "GIT_CEILING_DIRECTORIES=/"], &outside)).expect_code(2);
    assert_contains(&outside.err, "git: ");
}
