//! Warnings of `undo`, `undelete` and `apply-plan` that GitOps tools may revert the change.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::TestCluster;
use crate::support::fake_api::FakeApi;
use crate::support::run::RunOutput;

/// A cluster of `tests/plans` whose custom resource is applied by a GitOps tool.
fn cluster(plan: &str) -> TestCluster {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.load_file(&directory.join(plan).join("before.yaml"));
    TestCluster::serving(fake)
}

fn newest(cluster: &TestCluster) -> String {
    let list = cluster.run("journal list -o json").json();
    list["items"][0]["id"].as_str().expect("an id").to_owned()
}

/// Asserts that this is the only warning about GitOps tools.
#[track_caller]
fn warns(ran: &RunOutput, warning: &str) {
    let lines = ran.stdout.lines().chain(ran.stderr.lines());
    let warnings: Vec<&str> = lines.filter(|line| line.contains(" is applied by ")).collect();
    assert_eq!(warnings, [format!("- warning: {warning}")], "{}", ran.transcript());
}

const EDIT: &str = "skyhook/gpu is applied by the Argo CD application gpu-platform: the next sync reverts the edit; make the change in the source (Git or chart values)";

#[test]
fn undo_names_what_reverts_the_edit() {
    let cluster = cluster("uninstall-applied-by-argo-cd");
    cluster.run("uninstall gpu driver --confirm").expect_code(0);
    let undo = format!("undo {}", newest(&cluster));
    let dry = cluster.run(&format!("{undo} --dry-run"));
    dry.expect_code(0);
    warns(&dry, EDIT);
    let done = cluster.run(&format!("{undo} --confirm"));
    done.expect_code(0);
    warns(&done, EDIT);
}

#[test]
fn apply_plan_names_what_reverts_the_edit() {
    let cluster = cluster("uninstall-applied-by-argo-cd");
    let file = cluster.state.path().join("plan.json");
    let file = file.display();
    cluster.run(&format!("uninstall gpu driver --plan-out {file}")).expect_code(0);
    let dry = cluster.run(&format!("apply-plan {file} --dry-run"));
    dry.expect_code(0);
    warns(&dry, EDIT);
    let done = cluster.run(&format!("apply-plan {file} --confirm"));
    done.expect_code(0);
    warns(&done, EDIT);
}

/// A capture whose custom resource is being deleted, and is applied by Argo CD.
fn deleted() -> TestCluster {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["metadata"]["labels"] = json!({"argocd.argoproj.io/instance": "gpu-platform"});
    cluster.fake.load(cr);
    cluster
}

const MADE: &str = "skyhook/gpu-tune is applied by the Argo CD application gpu-platform: the next sync \
                    may delete the object again; first add the object to the source (Git or chart values)";

#[test]
fn undelete_and_undo_name_what_may_delete_the_object_again() {
    // `undelete` warns both before and after the object is gone, as does `undo` of the strip.
    warns(&deleted().run("undelete gpu-tune --dry-run"), MADE);
    let cluster = deleted();
    cluster.run("finalizer strip gpu-tune --force --confirm").expect_code(0);
    assert_eq!(cluster.cr(), None);
    warns(&cluster.run("undelete gpu-tune --dry-run"), MADE);
    warns(&cluster.run("undo --dry-run"), MADE);
    let done = cluster.run("undelete gpu-tune --confirm");
    done.expect_code(0);
    warns(&done, MADE);
}
