//! Dry runs, permission checks and limits before anything is written.

use serde_json::json;

use super::TestCluster;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, PackageRun, SKYHOOK};
use crate::support::run::run;

#[test]
fn dry_runs_write_nothing() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let before = cluster.objects();
    for (flag, code) in
        [("--dry-run", 0), ("--dry-run=client", 0), ("--dry-run=true", 0), ("--dry-run=server", 0)]
    {
        let ran = cluster.run(&format!("reset gpu-tune --no-pause {flag}"));
        ran.expect_code(code);
        assert_eq!(cluster.objects(), before, "{flag}");
    }
    cluster.fake.on("PATCH nodes node-2").nth(1).reply(422);
    cluster.fake.on("PATCH nodes node-2").reply(422);
    let ran = cluster.run("reset gpu-tune --no-pause --dry-run=server -o json");
    ran.expect_code(4);
    assert_eq!(ran.json()["dryRun"], json!(true));
    assert_eq!(ran.json()["counts"]["failed"], json!(1));
    assert_eq!(cluster.objects(), before);
}

/// The changed spec may have other interrupts than those in the preview of the plan.
#[test]
fn saved_plan_is_refused_once_the_spec_was_changed() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let file = cluster.state.path().join("plan.json");
    let path = file.display();
    cluster.run(&format!("reset gpu-tune --node node-2 --no-pause --plan-out {path}")).expect_code(0);
    let mut cr = cluster.cr().expect("the custom resource exists");
    let generation = cr["metadata"]["generation"].as_i64().expect("a number");
    cr["metadata"]["generation"] = json!(generation + 1);
    cluster.fake.load(cr);
    let ran = cluster.run(&format!("apply-plan {path} --confirm"));
    let error = format!(
        "error: the spec of skyhook/gpu-tune has been changed since the plan in {path} was made; nothing was changed\n\
         hint: run the planned command again, with --plan-out\n"
    );
    assert_eq!(ran.parts(), ("", error.as_str(), Some(3)));
    cluster.run(&format!("node ignore node-2 --plan-out {path}")).expect_code(0);
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["metadata"]["uid"] = json!("another");
    cluster.fake.load(cr);
    let ran = cluster.run(&format!("apply-plan {path} --confirm"));
    ran.expect_code(3);
    ran.expect_stderr("skyhook/gpu-tune has been deleted and recreated since the plan in ");
    assert_eq!(cluster.writes(), [""; 0]);
}

/// A plan that changes the spec itself may be applied again: its steps test the version of the package.
#[test]
fn saved_plan_that_changes_the_spec_is_applied_again() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let file = cluster.state.path().join("plan.json");
    let path = file.display();
    cluster.run(&format!("uninstall gpu-tune driver --plan-out {path}")).expect_code(0);
    for result in ["1 changed", "1 unchanged"] {
        let ran = cluster.run(&format!("apply-plan {path} --confirm"));
        ran.expect_code(0);
        ran.expect_stdout(result);
        let mut cr = cluster.cr().expect("the custom resource exists");
        let generation = cr["metadata"]["generation"].as_i64().expect("a number");
        cr["metadata"]["generation"] = json!(generation + 1);
        cluster.fake.load(cr);
    }
}

#[test]
fn partial_failure_exits_4() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes node-2").times(1).reply(403);
    let ran = cluster.run("reset gpu-tune --confirm --no-pause -o json");
    ran.expect_code(4);
    let json = ran.json();
    assert_eq!(
        json["counts"],
        json!({
            "applied": 3, "unchanged": 0, "gone": 0, "kept": 0, "skipped": 0, "failed": 1, "unknown": 0, "notReached": 0
        })
    );
    assert_eq!(cluster.keys("node-1"), [""; 0]);
    assert_eq!(cluster.keys("node-2").len(), 4);
    // The same command finishes the remaining steps.
    let again = cluster.run("reset gpu-tune --confirm --no-pause");
    again.expect_code(0);
    assert_eq!(cluster.keys("node-2"), [""; 0]);
}

#[test]
fn missing_permission_is_reported_before_any_write() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes").reply(403);
    let ran = cluster.run("reset gpu-tune --confirm --no-pause");
    ran.expect_code(1);
    ran.expect_stderr("error: missing permission: patch nodes; nothing was changed");
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn max_nodes_is_enforced() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let ran = cluster.run("reset gpu-tune --confirm --max-nodes 2");
    ran.expect_code(3);
    let says = "the plan would touch 3 nodes, but --max-nodes allows 2; nothing was changed";
    ran.expect_stderr(says);
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn saved_plan_is_applied_later() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let file = cluster.state.path().join("plan.json");
    let path = file.display();
    let ran = cluster.run(&format!("reset gpu-tune --node node-2 --no-pause --plan-out {path} -o json"));
    ran.expect_code(0);
    let digest = ran.json()["digest"].as_str().expect("a digest").to_owned();
    assert_eq!(cluster.writes(), [""; 0]);

    let other = cluster.run(&format!("apply-plan {path} --digest 00 --confirm"));
    other.expect_code(3);
    let done = cluster.run(&format!("apply-plan {path} --digest {digest} --confirm"));
    done.expect_code(0);
    assert_eq!(cluster.keys("node-2"), [""; 0]);
    // A second `apply-plan` changes nothing, even if the operator has written to the status.
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["status"]["status"] = json!("in_progress");
    cluster.fake.load(cr);
    let again = cluster.run(&format!("apply-plan {path} --confirm"));
    again.expect_code(0);
    again.expect_stdout("1 unchanged");
}

/// After its finalizers were removed by hand, a custom resource is gone and its pods still run: they would record their
/// outcome again after a reset.
#[test]
fn reset_is_refused_while_stages_of_a_removed_custom_resource_run() {
    for cordoned in [false, true] {
        let mut node = SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]);
        if cordoned {
            node["metadata"]["annotations"]["skyhook.nvidia.com/cordon_gpu"] = json!("true");
            node["spec"]["unschedulable"] = json!(true);
        }
        let pod = SKYHOOK.pod("gpu-driver", &PackageRun::default(), "Pending", &["driver-init running"]);
        let flavor = kubectl_skyhook::api::ApiFlavor::Skyhook;
        let fake = FakeApi::new().serving(flavor).with(SKYHOOK.operator()).with(node).with(pod);
        let cluster = TestCluster::serving(fake);
        let ran = cluster.run("reset gpu -y");
        let stderr = "error: gpu no longer exists, but its stages still run on node-1: the operator would record their \
                      outcome there again; nothing was changed\n\
                      hint: end the stages and remove the state: kubectl skyhook leftovers gpu --clean --purge-state\n\
                      hint: or use --force to proceed although they run\n";
        assert_eq!(ran.parts(), ("", stderr, Some(3)));
        assert_eq!(cluster.writes(), [""; 0]);
    }
}

/// The preview would show the effects of an operator that does not run.
#[test]
fn changes_of_the_api_that_the_operator_ignores_are_refused() {
    let packages = || json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let objects = [
        SKYHOOK.operator(),
        SKYHOOK.skyhook("complete", packages()),
        NODEWRIGHT.skyhook("complete", packages()),
        SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let go = |words: &str| run(&format!("{words} --from -")).stdin(list.as_str()).output();
    for command in ["reset gpu", "pause gpu", "package rerun driver --skyhook gpu --all-nodes"] {
        let ran = go(&format!("{command} --dry-run --api nodewright"));
        let error = "error: operator v0.17.1 acts on Skyhook objects and ignores NodeWright objects, so the effects of this \
                     change are unknown; nothing was changed\nhint: omit --api\n";
        assert_eq!(ran.parts(), ("", error, Some(3)), "{command}");
        go(&format!("{command} --dry-run --api skyhook")).expect_code(0);
    }
    go("status --api nodewright").expect_code(0);
}
