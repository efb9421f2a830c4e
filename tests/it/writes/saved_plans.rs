//! Saved plans that were edited.

use kubectl_skyhook::plan::SavedPlan;
use serde_json::{Value, json};

use super::TestCluster;

/// Saves a plan of grade B4 with warnings; returns the file, the plan and the printed digest.
fn saved(cluster: &TestCluster) -> (String, Value, String) {
    let file = cluster.state.path().join("plan.json").display().to_string();
    let ran = cluster.run(&format!("reset gpu-tune --plan-out {file} -o json"));
    ran.expect_code(0);
    let printed = ran.json();
    assert_eq!(printed["grade"], json!("B4"), "{}", ran.transcript());
    let text = std::fs::read_to_string(&file).expect("a plan");
    let plan: Value = serde_json::from_str(&text).expect("JSON");
    let digest = printed["digest"].as_str().expect("a digest").to_owned();
    assert_eq!(plan["digest"], json!(digest));
    (file, plan, digest)
}

/// The JSON pointers of all values, objects and lists included.
fn pointers(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, all: &mut Vec<String>) {
        let mut member = |name: &str, value: &Value| {
            let below = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            all.push(below.clone());
            walk(value, &below, all);
        };
        match value {
            Value::Object(members) => members.iter().for_each(|(name, v)| member(name, v)),
            Value::Array(items) => {
                let numbered = items.iter().enumerate();
                numbered.for_each(|(number, v)| member(&number.to_string(), v));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    walk(value, "", &mut all);
    all
}

/// Different values: of the same type if possible, and null.
fn others(value: &Value) -> Vec<Value> {
    let mut others = match value {
        Value::Null => vec![json!("x")],
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => vec![json!(number.as_u64().expect("a count") + 1)],
        Value::String(text) => vec![json!(""), json!(format!("{text}x"))],
        Value::Array(items) => vec![items.iter().chain(items).cloned().collect()],
        Value::Object(_) => vec![json!({})],
    };
    others.push(Value::Null);
    others.retain(|other| other != value);
    others
}

#[test]
fn every_edit_of_a_saved_plan_is_refused() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let (_, plan, _) = saved(&cluster);
    assert!(SavedPlan::parse(&plan.to_string()).is_ok());
    let all = pointers(&plan);
    for part in [
        "/digest",
        "/format",
        "/title",
        "/subject",
        "/cluster/server",
        "/cluster/uid",
        "/specs/0/generation",
        "/consequences/grade",
        "/consequences/warnings/0",
        "/erroring",
    ] {
        assert!(all.iter().any(|pointer| pointer == part), "{part}: {all:?}");
    }
    for pointer in &all {
        let here = plan.pointer(pointer).expect("the value exists");
        for other in others(here) {
            let mut edited = plan.clone();
            *edited.pointer_mut(pointer).expect("the value exists") = other;
            let read = SavedPlan::parse(&edited.to_string());
            assert!(read.is_err(), "{pointer}: {here}");
        }
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let mut edited = plan.clone();
        match edited.pointer_mut(parent).expect("the parent exists") {
            Value::Object(members) => {
                members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
            }
            Value::Array(items) => {
                items.remove(name.parse().expect("a number"));
            }
            _ => unreachable!("the parent is an object or a list"),
        }
        let read = SavedPlan::parse(&edited.to_string());
        assert!(read.is_err(), "{pointer} removed");
    }
    let mut edited = plan;
    edited["novel"] = json!(true);
    assert!(SavedPlan::parse(&edited.to_string()).is_err());
}

/// The digest does not depend on the layout of the file, which an editor may reformat.
#[test]
fn a_reformatted_plan_is_the_same_plan() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let (file, mut plan, digest) = saved(&cluster);
    plan.sort_all_objects();
    std::fs::write(&file, plan.to_string()).expect("a file");
    let ran = cluster.run(&format!("apply-plan {file} --digest {digest} --dry-run -o json"));
    ran.expect_code(0);
    assert_eq!(ran.json()["digest"], json!(digest));
}

#[test]
fn an_edited_plan_is_not_applied() {
    type Edit = fn(&mut Value);
    let edits: [Edit; 4] = [
        // With this grade, a yes on stdin would suffice to apply the plan.
        |plan| plan["consequences"]["grade"] = json!("B1"),
        |plan| plan["consequences"]["warnings"] = json!([]),
        |plan| plan["cluster"] = Value::Null,
        |plan| plan["specs"] = json!([]),
    ];
    for edit in edits {
        let cluster = TestCluster::from_capture("apply-erroring");
        let (file, mut plan, digest) = saved(&cluster);
        edit(&mut plan);
        std::fs::write(&file, plan.to_string()).expect("a file");
        // The spec has changed since the plan was made.
        let mut cr = cluster.cr().expect("the custom resource exists");
        cr["metadata"]["generation"] = json!(99);
        cluster.fake.load(cr);
        for flags in ["", " --confirm", &format!(" --confirm --digest {digest}")] {
            let ran = cluster.command(&format!("apply-plan {file}{flags}"));
            let ran = ran.stdin("yes\n").output();
            let error = format!(
                "error: {file}: the plan does not match its digest: the file was edited or truncated\n\
                 hint: run the planned command again, with --plan-out\n"
            );
            assert_eq!(ran.parts(), ("", error.as_str(), Some(1)), "{flags}");
        }
        assert_eq!(cluster.writes(), [""; 0]);
    }
}

#[test]
fn a_plan_of_another_format_is_refused_with_what_to_do() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let (file, mut plan, _) = saved(&cluster);
    for format in ["kubectl-skyhook/plan/v2", "kubectl-skyhook/plan/v9"] {
        plan["format"] = json!(format);
        std::fs::write(&file, plan.to_string()).expect("a file");
        let ran = cluster.run(&format!("apply-plan {file} --confirm"));
        let error = format!(
            "error: {file}: unsupported plan format \"{format}\"; this version reads only \"kubectl-skyhook/plan/v3\"\n\
             hint: run the planned command again, with --plan-out\n"
        );
        assert_eq!(ran.parts(), ("", error.as_str(), Some(1)));
    }
}

/// The plan was made when nothing was left to run.
#[test]
fn a_plan_whose_effects_grew_is_refused() {
    let cluster = TestCluster::captured_with_operator("complete");
    let file = cluster.state.path().join("plan.json").display().to_string();
    cluster.run("pause gpu-tune --confirm").expect_code(0);
    let ran = cluster.run(&format!("resume gpu-tune --plan-out {file} -o json"));
    assert_eq!(ran.json()["grade"], json!("B1"), "{}", ran.transcript());
    cluster.forget_state("node-2");
    let before = cluster.writes();
    let ran = cluster.run(&format!("apply-plan {file} --confirm"));
    let error = format!(
        "error: the effects of the plan have grown from changes objects, runs nothing (B1) on 0 nodes to services restart, pods are evicted (B3) on 1 node with 1 drain and 1 service restart since the plan in {file} was made; nothing was changed\n\
         hint: run the planned command again, with --plan-out\n"
    );
    assert_eq!(ran.parts(), ("", error.as_str(), Some(3)));
    assert_eq!(cluster.writes(), before);
}

/// A pause starts no work with any spec.
#[test]
fn a_saved_pause_is_applied_after_the_spec_was_changed() {
    let cluster = TestCluster::captured_with_operator("complete");
    let file = cluster.state.path().join("plan.json").display().to_string();
    cluster.run(&format!("pause gpu-tune --plan-out {file}")).expect_code(0);
    cluster.change_interrupt("reboot");
    cluster.run(&format!("apply-plan {file} --confirm")).expect_code(0);
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));
}

#[test]
fn a_plan_that_cannot_be_compared_with_the_nodes_is_refused() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let file = cluster.state.path().join("plan.json").display().to_string();
    cluster
        .run(&format!("package rerun driver --skyhook gpu-tune --node node-2 --plan-out {file}"))
        .expect_code(0);
    cluster.fake.on("GET nodes").reply(403);
    cluster.fake.on("LIST nodes").reply(403);
    let ran = cluster.run(&format!("apply-plan {file} --confirm"));
    let error = "error: cannot read nodes: forbidden: user jane cannot list nodes at the cluster scope; nothing was changed\n\
                 hint: kubectl skyhook rbac --for apply-plan\n";
    assert_eq!(ran.parts(), ("", error, Some(1)));
    assert_eq!(cluster.writes(), [""; 0]);
}

/// A link may lead to any file of the user; only an earlier plan is replaced.
#[cfg(unix)]
#[test]
fn plan_is_not_written_through_a_symbolic_link() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let (file, link) = (cluster.state.path().join("theirs"), cluster.state.path().join("plan.json"));
    for content in [Some("precious"), None] {
        let _ = std::fs::remove_file(&file);
        content.into_iter().for_each(|content| std::fs::write(&file, content).expect("a file"));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let ran = cluster.run(&format!("pause gpu-tune --plan-out {}", link.display()));
        let error = format!("error: {} is a symbolic link; specify the file itself\n", link.display());
        assert_eq!(ran.parts(), ("", error.as_str(), Some(1)));
        assert_eq!(std::fs::read_to_string(&file).ok().as_deref(), content);
    }
    let save = || cluster.run(&format!("pause gpu-tune --plan-out {}", file.display()));
    save().expect_code(0);
    save().expect_code(0);
    let text = std::fs::read_to_string(&file).expect("a plan");
    assert!(SavedPlan::parse(&text).is_ok(), "{text}");
    std::fs::write(&file, "precious").expect("a file");
    let error = format!("error: {} exists and is not a plan; nothing was written\n", file.display());
    assert_eq!(save().parts(), ("", error.as_str(), Some(1)));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "precious");
}
