//! Nodes that another program or a person keeps cordoned are not uncordoned.

use serde_json::{Value, json};

use crate::support::run::{RunOutput, run};
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;

const NODE: &str = "node-1";

/// Marks that other cordon holders leave on a node, each with the holder's name in the preview.
fn holders() -> Vec<(&'static str, Value)> {
    let annotated = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
    let tainted = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let upgrading =
        |state: &str| json!({"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": state}}});
    let by_hand = json!({"metadata": {"managedFields": [{"manager": "kubectl-cordon", "operation": "Update",
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]}});
    vec![
        ("NVSentinel", annotated("quarantineHealthEvent")),
        ("Kured", annotated("weave.works/kured-reboot-in-progress")),
        ("Medik8s", tainted("medik8s.io/drain")),
        ("an administrator", tainted("node.kubernetes.io/out-of-service")),
        ("the cloud controller manager", tainted("node.cloudprovider.kubernetes.io/shutdown")),
        ("the cluster autoscaler", tainted("ToBeDeletedByClusterAutoscaler")),
        ("Karpenter", tainted("karpenter.sh/disrupted")),
        ("a failed driver upgrade", upgrading("upgrade-failed")),
        ("a driver upgrade", upgrading("drain-required")),
        ("someone using kubectl-cordon", by_hand),
    ]
}

fn mark(cluster: &TestCluster, mark: &Value) {
    let mut node = cluster.node(NODE);
    for map in ["/metadata/annotations", "/metadata/labels", "/metadata/managedFields", "/spec/taints"] {
        let (Some(more), parent) = (mark.pointer(map), map.rsplit_once('/').expect("a parent path")) else {
            continue;
        };
        let place = node.pointer_mut(parent.0).expect("the map of marks has a parent");
        match (&mut place[parent.1], more) {
            (Value::Object(there), Value::Object(more)) => there.extend(more.clone()),
            (there, more) => *there = more.clone(),
        }
    }
    cluster.fake.load(node);
}

fn is_cordoned(cluster: &TestCluster) -> bool {
    cluster.node(NODE)["spec"]["unschedulable"] == json!(true)
}

/// A cluster with cordons of a deleted custom resource.
fn deleted_with_cordons() -> TestCluster {
    let cluster = TestCluster::from_capture("finalizer-stripped");
    assert!(is_cordoned(&cluster));
    cluster
}

/// A cluster with a stuck deletion and a cordon of its custom resource.
fn deleting() -> TestCluster {
    let cluster = TestCluster::from_capture("deleted-while-erroring");
    let mut node = cluster.node(NODE);
    node["spec"]["unschedulable"] = json!(true);
    node["metadata"]["annotations"]["skyhook.nvidia.com/cordon_gpu-tune"] = json!("true");
    cluster.fake.load(node);
    cluster
}

/// A cluster whose cordon was released and restored with `undo`; undoing that `undo` would release it again.
fn undone_release() -> TestCluster {
    let cluster = deleted_with_cordons();
    assert_eq!(cluster.run("leftovers --clean --node node-1 --confirm").code, Some(0));
    assert_eq!(cluster.run("undo --confirm").code, Some(0));
    assert!(is_cordoned(&cluster));
    cluster
}

type Scene = (fn() -> TestCluster, &'static str);

/// Every command that may uncordon a node.
const COMMANDS: [Scene; 5] = [
    (deleted_with_cordons, "leftovers --clean --node node-1"),
    (deleted_with_cordons, "leftovers --clean"),
    (deleted_with_cordons, "reset gpu-tune"),
    (deleting, "finalizer strip gpu-tune --force"),
    (undone_release, "undo"),
];

/// The command line; an undo is undone by its id.
fn command(cluster: &TestCluster, words: &str) -> String {
    if words != "undo" {
        return words.to_owned();
    }
    let journals = cluster.run("journal list -o json").json();
    let items = journals["items"].as_array().cloned().unwrap_or_default();
    let undo = items.iter().find(|i| i["id"].as_str().is_some_and(|id| id.contains("undo")));
    let id = undo.expect("the journal has an undo")["id"].clone();
    format!("undo {}", id.as_str().expect("an id"))
}

fn stderr_words(ran: &RunOutput) -> String {
    ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn node_held_by_others_stays_cordoned() {
    for (stage_of, words) in some(COMMANDS, 3) {
        for (by, marks) in holders() {
            let cluster = stage_of();
            mark(&cluster, &marks);
            let ran = cluster.run(&format!("{} --confirm", command(&cluster, words)));
            let transcript = ran.transcript();
            assert!(is_cordoned(&cluster), "{words}, {by}\n{transcript}");
            let held = format!("cordoned by {by}");
            assert!(stderr_words(&ran).contains(&held), "{words}, {by}\n{transcript}");
        }
    }
}

#[test]
fn node_without_other_holders_is_uncordoned() {
    for (stage_of, words) in COMMANDS {
        let cluster = stage_of();
        let ran = cluster.run(&format!("{} --confirm", command(&cluster, words)));
        assert!(!is_cordoned(&cluster), "{words}\n{}", ran.transcript());
    }
}

#[test]
fn force_uncordon_uncordons_a_held_node() {
    for (stage_of, words) in COMMANDS {
        let cluster = stage_of();
        mark(&cluster, &holders()[0].1);
        let command = command(&cluster, words);
        let other = cluster.run(&format!("{command} --confirm --force-uncordon node-2 --dry-run"));
        assert!(is_cordoned(&cluster), "{words}\n{}", other.transcript());
        let ran = cluster.run(&format!("{command} --confirm --force-uncordon {NODE}"));
        assert!(!is_cordoned(&cluster), "{words}\n{}", ran.transcript());
    }
}

/// The undo of a forced uncordon gives a cordon of somebody else back to them, and the operator's own to the operator.
#[test]
fn undo_of_a_forced_uncordon_restores_the_holder() {
    for is_held in [true, false] {
        let cluster = deleted_with_cordons();
        if is_held {
            mark(&cluster, &holders()[0].1);
        }
        let clean = format!("leftovers --clean --node {NODE} --force-uncordon {NODE} --confirm");
        cluster.run(&clean).expect_code(0);
        assert!(!is_cordoned(&cluster));
        cluster.run("undo --confirm").expect_code(0);
        assert!(is_cordoned(&cluster));
        let path = format!("/api/v1/nodes/{NODE}");
        let writes = cluster.fake.writes().into_iter().filter(|write| write.path == path);
        let managers: Vec<String> = writes.map(|write| write.query["fieldManager"].clone()).collect();
        let restores = if is_held { "kubectl-cordon" } else { "kubectl-skyhook" };
        assert_eq!(managers, ["kubectl-skyhook", restores]);
    }
}

/// Puts the node into quarantine during this request.
fn quarantined_at(cluster: &TestCluster, request: &str) {
    cluster.fake.on(request).times(1).after(|state| {
        let node = state.store.find("nodes", "", NODE).cloned();
        let mut node = node.expect("the node exists");
        node["metadata"]["annotations"]["quarantineHealthEvent"] = json!("x");
        // The server assigns a new resource version.
        node["metadata"]["resourceVersion"] = Value::Null;
        state.store.load(node);
    });
}

#[test]
fn quarantine_set_after_the_preview_is_respected() {
    // The mark appears before the read that precedes the write, or between that read and the write.
    for request in ["GET nodes node-1", "PATCH nodes node-1"] {
        let cluster = deleted_with_cordons();
        quarantined_at(&cluster, request);
        let ran = cluster.run("leftovers --clean --node node-1 --confirm");
        let transcript = ran.transcript();
        assert!(is_cordoned(&cluster), "{request}\n{transcript}");
        assert!(transcript.contains("cordoned by NVSentinel"), "{request}\n{transcript}");
    }
}

#[test]
fn preview_names_cordon_holders() {
    let cluster = deleted_with_cordons();
    mark(&cluster, &holders()[0].1);
    let ran = cluster.run("leftovers --clean --node node-1 --dry-run");
    insta::assert_snapshot!(ran.transcript());
}

#[test]
fn node_status_names_all_cordon_holders() {
    let cluster = deleting();
    for named in [0, holders().len() - 1] {
        mark(&cluster, &holders()[named].1);
    }
    cluster.fake.started(jiff::SignedDuration::from_mins(63 * 60 + 30));
    let ran = cluster.run("node status -o wide");
    insta::assert_snapshot!(ran.transcript());
    let row = cluster.run("node status -o json").json()["items"][0].take();
    assert_eq!(row["cordonedBy"], json!(["gpu-tune"]));
    let others = json!([
        {"name": "NVSentinel", "mark": "annotation quarantineHealthEvent"},
        {"name": "kubectl-cordon"},
    ]);
    assert_eq!(row["cordonedByOthers"], others, "{row}");
}

/// `leftovers --clean` removes the mark of the deleted custom resource; the person's cordon stays.
#[test]
fn release_beside_a_cordon_of_someone_else_is_reported_and_undone() {
    let cluster = deleted_with_cordons();
    mark(&cluster, &holders().pop().expect("the last mark, a cordon by hand").1);
    let before = cluster.node(NODE)["metadata"]["annotations"].clone();
    let ran = cluster.run("leftovers --clean --node node-1 --confirm");
    let after = cluster.node(NODE)["metadata"]["annotations"].clone();
    let undo = cluster.run("undo --confirm");
    ran.expect_code(0);
    ran.expect_stdout("node/node-1  changed  the node stays cordoned by someone using kubectl-cordon");
    ran.expect_stdout("clean up what custom resources left behind: 2 changed\n");
    undo.expect_code(0);
    undo.expect_stdout("undo \"clean up what custom resources left behind\" (2 changes): 2 changed\n");
    assert!(is_cordoned(&cluster));
    assert_ne!(after, before, "{}", ran.transcript());
    assert_eq!(cluster.node(NODE)["metadata"]["annotations"], before, "{}", undo.transcript());
}

/// Of several programs that write labels, the one that owns labels like the missing one is named.
#[test]
fn the_owner_of_a_missing_label_shows_in_the_managed_fields() {
    let ran = run("diagnose stuck --from tests/rules/cordon_without_owner.label.yaml").output();
    ran.expect_stdout(
        "- node/unlabelled: label nvidia.com/gpu.deploy.driver: missing; the selector requires nvidia.com/gpu.deploy.driver=true; usually set by the NVIDIA GPU Operator\n  \
         - node/unlabelled: such labels: last written by gpu-operator at 2026-11-20T09:30:00Z\n",
    );
}

/// Who else works on a node that does not come back.
#[test]
fn a_node_that_is_down_names_who_keeps_it_cordoned() {
    let ran = run("diagnose stuck --from tests/rules/node_not_ready.machine_config.yaml").output();
    ran.expect_stdout(
        "- node/worker-3: kept cordoned by: the Machine Config Operator (annotation machineconfiguration.openshift.io/desiredDrain)\n",
    );
}

/// Advice to uncordon would undo the work of the holder.
#[test]
fn leftovers_name_the_holder_of_a_cordon() {
    let cluster = TestCluster::from_capture("complete");
    let cordon = |annotations: Value| {
        let mut node = cluster.node(NODE);
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["annotations"] = annotations;
        cluster.fake.load(node);
    };
    cordon(json!({"weave.works/kured-reboot-in-progress": "x"}));
    let ran = cluster.run("leftovers --node node-1");
    let listed = "\
No leftovers of deleted custom resources found
node-1 cordoned by: Kured (annotation weave.works/kured-reboot-in-progress)
Checked 1 node.
";
    assert_eq!((ran.stdout.as_str(), ran.code), (listed, Some(0)));
    let clean = |held: &str| {
        let ran = cluster.run("leftovers --node node-1 --clean --dry-run");
        let stderr = format!("{held}\nclean up what custom resources left behind: nothing to do\n");
        assert_eq!(ran.parts(), ("", stderr.as_str(), Some(0)));
    };
    clean("node-1 stays cordoned by Kured (annotation weave.works/kured-reboot-in-progress)");
    cordon(json!({}));
    clean(
        "node-1 stays cordoned by someone outside the operator; if no one needs that, run `kubectl uncordon \
         node-1`",
    );
}

#[test]
fn node_status_names_the_only_holder() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let mut node = cluster.node(NODE);
    node["spec"]["unschedulable"] = json!(true);
    node["metadata"]["annotations"]["quarantineHealthEvent"] = json!("{}");
    cluster.fake.load(node);
    insta::assert_snapshot!(cluster.run(&format!("node status {NODE}")).transcript());
}
