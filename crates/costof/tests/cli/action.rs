//! `action.yml`, the GitHub Action: its steps, with a costof and a `gh` that only record what they are asked.
//! `COSTOF_PYTHON` names a Python that has PyYAML and check-jsonschema; `./check` makes one.

use crate::common::{Ended, Place, assert_contains, assert_contains_all, or_skip, run};
use crate::formats::python;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const ACTION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../action.yml");
const WORKFLOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.yml");

/// A program of a shell's lines.
fn write_program(place: &Place, name: &str, lines: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What stands for GitHub's expression where the action's inputs are these or their defaults.
fn value(action: &Value, expression: &str) -> String {
    let expression = expression.trim_start_matches("${{ ").trim_end_matches(" }}");
    match expression.strip_prefix("inputs.") {
        Some("before") => "a base/costof".to_owned(),
        Some("after") => "a change/costof".to_owned(),
        Some(input) => action["inputs"][input]["default"].as_str().unwrap().to_owned(),
        None => "7".to_owned(),
    }
}

/// Executes a step as a runner does.
fn execute(place: &Place, action: &Value, step: &Value) -> Ended {
    fs::write(place.path("step.sh"), step["run"].as_str().unwrap()).unwrap();
    let mut shell: Command = place.command("bash --noprofile --norc -e -o pipefail step.sh");
    for (name, expression) in step["env"].as_object().unwrap() {
        shell.env(name, value(action, expression.as_str().unwrap()));
    }
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    shell.env("PATH", path).env("GITHUB_REPOSITORY", "owner/costof");
    run(shell.env("GITHUB_OUTPUT", "output").env("GITHUB_STEP_SUMMARY", "summary"))
}

#[test]
fn the_action_reports_the_verdict_and_fails_as_the_comparison_does() {
    let mut reader = or_skip!(python("yaml", "python3"));
    let convert =
        "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let action = run(reader.args(["-c", convert, ACTION])).expect_code(0).out;
    let action: Value = serde_json::from_str(&action).unwrap();
    let [compare, comment] = &action["runs"]["steps"].as_array().unwrap()[..] else {
        panic!("the steps are others");
    };
    for (first, code, verdict) in [
        ("PASS: 1 of 1 row decided", 0, "pass"),
        ("FAIL: 1 of 1 row decided; os.syscall 12 % slower", 1, "fail"),
        ("CANNOT TELL: 0 of 1 row decided", 3, "cannot_tell"),
        ("", 2, "cannot_tell"),
    ] {
        let place = Place::new();
        let costof =
            format!(r#"printf '%s\n' "$@" >asked; echo '{first}'; echo a row; exit {code}"#);
        write_program(&place, "a change/costof", &costof);
        write_program(&place, "bin/gh", "echo gh $*");
        let missing = execute(&place, &action, compare).expect_code(2).out;
        assert_contains(&missing, "::error::no costof at a base/costof");
        write_program(&place, "a base/costof", "");
        execute(&place, &action, compare).expect_code(code);
        let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
        assert_eq!(read("output"), format!("verdict={verdict}\n"));
        assert_contains_all(&read("summary"), &["a row", first, "```text\n"]);
        let hosts = format!(
            "exec:'{0}/a base/costof' worker\nexec:'{0}/a change/costof' worker\n",
            place.path("").display()
        );
        assert_contains_all(
            &read("asked"),
            &[
                &hosts.replace("//", "/"),
                "os.syscall\n",
                "--threshold\n10\n",
                "--undecided\nfail\n",
            ],
        );
        let commented = execute(&place, &action, comment).expect_code(0).out;
        assert_contains(&commented, "gh pr comment 7 --repo owner/costof --edit-last");
    }
}

#[test]
fn the_action_and_its_workflow_follow_the_published_schemas() {
    for (schema, file) in [("actions", ACTION), ("workflows", WORKFLOW)] {
        let mut check = or_skip!(python("check_jsonschema", "check-jsonschema"));
        run(check.args(["--builtin-schema", &format!("vendor.github-{schema}"), file]))
            .expect_code(0);
    }
}
