//! The effects that the previews of commands announce, worded as in `lint`: packages, drains, waiting custom
//! resources, and sources that could not be read.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, ObjectBuilder, PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};
use crate::support::test_cluster::TestCluster;

const NODES: [&str; 6] = ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"];

/// Six nodes, two at a time, with a driver that reboots and an agent that can be uninstalled. Each node runs
/// one pod of a workload whose budget allows no disruption.
fn fleet(builder: ObjectBuilder, annotations: &Value, entries: &[&str]) -> FakeApi {
    let driver = json!({"version": "2.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"}});
    let agent = json!({
        "version": "1.0.0", "image": "example.com/agent", "uninstall": {"enabled": true, "apply": false},
    });
    let mut skyhook = builder.skyhook("complete", json!({"driver": driver, "agent": agent}));
    skyhook["spec"]["interruptionBudget"] = json!({"count": 2});
    skyhook["metadata"]["annotations"] = annotations.clone();
    let mut later = skyhook.clone();
    later["metadata"]["name"] = "later".into();
    later["metadata"]["uid"] = "22222222-0000-4000-8000-000000000000".into();
    later["spec"]["priority"] = 300.into();
    later["metadata"]["annotations"] = json!({});
    let mut fake = FakeApi::new()
        .serving(builder.0)
        .with(builder.operator())
        .with(skyhook)
        .with(later)
        .with(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 6, "desiredHealthy": 6, "expectedPods": 6},
        }));
    for name in NODES {
        let pod = format!("web-{name}");
        fake = fake.with(builder.node(name, "complete", entries)).with(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": "shop", "uid": pod, "labels": {"app": "web"}, "ownerReferences":
                [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
            "spec": {"nodeName": name, "containers": [{"name": "main", "image": "example.com/web"}]},
            "status": {"phase": "Running"},
        }));
    }
    fake
}

const INSTALLED: [&str; 2] = ["driver|2.0.0 post-interrupt complete", "agent|1.0.0 config complete"];
const DRIVER_MISSING: [&str; 1] = ["agent|1.0.0 config complete"];

fn stopped(builder: ObjectBuilder, word: &str) -> Value {
    json!({builder.0.key(word): "true"})
}

fn preview(fake: FakeApi, words: &str) -> RunOutput {
    let ran = TestCluster::serving(fake).run(&format!("{words} --dry-run"));
    ran.expect_code(0);
    ran
}

#[test]
fn resuming_shows_drains_refusing_budgets_and_who_waits() {
    let paused = || fleet(SKYHOOK, &stopped(SKYHOOK, "pause"), &DRIVER_MISSING);
    assert_snapshot!(preview(paused(), "resume gpu").transcript());
    let mut document = preview(paused(), "resume gpu -o json").json();
    let consequences = &mut document["consequences"];
    // The order of the two nodes of a batch is arbitrary.
    for nodes in ["/effects/1/nodes", "/rollouts/0/cordoned"] {
        let nodes = consequences.pointer_mut(nodes).expect("nodes");
        let nodes = nodes.as_array_mut().expect("a list");
        nodes.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    assert_eq!(
        consequences["effects"][1],
        json!({
            "skyhook": "gpu", "package": "driver", "change": "Install", "nodes": NODES,
            "stages": ["apply", "config", "interrupt", "post-interrupt"], "interrupt": "reboot", "atOnce": 2,
        })
    );
    assert_eq!(
        consequences["rollouts"][0],
        json!({
            "skyhook": "gpu", "batch": 2, "batchesMayOverlap": true, "cordoned": NODES, "evictedPods": 6,
            "waiting": ["later"],
            "refusingBudgets": [{"budget": "shop/web", "nodes": NODES}],
        })
    );
    // The later custom resource no longer waits for a paused one.
    assert_eq!(consequences["rollouts"][1]["skyhook"], "later");
}

/// The preview warns of an earlier custom resource that fails on the same nodes: the model assumes that it succeeds.
#[test]
fn work_behind_a_failing_custom_resource_says_so() {
    let fake = fleet(SKYHOOK, &json!({}), &DRIVER_MISSING);
    NODES.iter().for_each(|name| fake.load(SKYHOOK.node(name, "erroring", &["driver|2.0.0 apply erroring"])));
    let mut later = fake.get("skyhooks", "", "later").expect("it exists");
    later["metadata"]["annotations"] = stopped(SKYHOOK, "pause");
    fake.load(later);
    assert_snapshot!(preview(fake, "resume later").transcript());
}

/// With `sequencing: all`, a failure on another node holds the work up as well.
#[test]
fn work_behind_a_failure_on_another_node_says_so() {
    let fake = fleet(SKYHOOK, &json!({}), &INSTALLED);
    fake.load(SKYHOOK.node("gpu-2", "erroring", &["driver|2.0.0 apply erroring"]));
    let mut first = fake.get("skyhooks", "", "gpu").expect("it exists");
    first["spec"]["sequencing"] = "all".into();
    fake.load(first);
    let mut later = fake.get("skyhooks", "", "later").expect("it exists");
    later["metadata"]["annotations"] = stopped(SKYHOOK, "pause");
    later["spec"]["nodeSelectors"] = json!({"matchLabels": {"kubernetes.io/hostname": "gpu-1"}});
    fake.load(later);
    let mut node = SKYHOOK.node("gpu-1", "complete", &INSTALLED);
    node["metadata"]["labels"]["kubernetes.io/hostname"] = "gpu-1".into();
    fake.load(node);
    assert_snapshot!(preview(fake, "resume later").transcript());
}

/// A failure that the plan itself ends needs no warning: a reset of nodes ends those of all custom resources there.
#[test]
fn a_failure_that_the_plan_ends_has_no_warning() {
    let fake = fleet(SKYHOOK, &json!({}), &DRIVER_MISSING);
    for name in NODES {
        let mut node = SKYHOOK.node(name, "erroring", &["driver|2.0.0 apply erroring"]);
        let annotations = node["metadata"]["annotations"].as_object_mut().expect("annotations");
        for key in ["nodeState", "status"] {
            let value = annotations[&SKYHOOK.0.key(&format!("{key}_gpu"))].clone();
            annotations.insert(SKYHOOK.0.key(&format!("{key}_later")), value);
        }
        fake.load(node);
    }
    assert_snapshot!(preview(fake, "reset --node gpu-[1-6]").transcript());
}

#[test]
fn enabling_shows_the_same() {
    let disabled = fleet(NODEWRIGHT, &stopped(NODEWRIGHT, "disable"), &DRIVER_MISSING);
    assert_snapshot!(preview(disabled, "enable gpu").transcript());
}

#[test]
fn an_uninstall_ignores_the_budget() {
    let installed = fleet(SKYHOOK, &json!({}), &INSTALLED);
    assert_snapshot!(preview(installed, "uninstall gpu agent").transcript());
}

#[test]
fn a_reset_of_named_nodes_claims_no_pace() {
    let installed = || fleet(SKYHOOK, &json!({}), &INSTALLED);
    assert_snapshot!(preview(installed(), "reset gpu --node gpu-1 --node gpu-2 --no-pause").transcript());
    assert_snapshot!(preview(installed(), "reset gpu").transcript());
}

#[test]
fn a_reset_of_batches_shows_what_continues() {
    let mut fake = fleet(SKYHOOK, &json!({}), &INSTALLED);
    let mut gpu = fake.get("skyhooks", "", "gpu").expect("the custom resource exists");
    gpu["status"]["compartmentStatuses"] = json!({"__default__": {"batchState":
        {"currentBatch": 3, "consecutiveFailures": 1, "failedNodes": 1, "shouldStop": true}}});
    gpu["status"]["status"] = "erroring".into();
    fake.load(gpu);
    fake = fake.with(SKYHOOK.node("gpu-6", "erroring", &["driver|2.0.0 apply erroring"]));
    assert_snapshot!(preview(fake, "deployment-policy reset gpu").transcript());
}

/// Workload pods and budgets are read if permitted; otherwise the preview names the missing sources.
#[test]
fn sources_that_are_forbidden_are_named() {
    let paused = || fleet(SKYHOOK, &stopped(SKYHOOK, "pause"), &DRIVER_MISSING);
    let fake = paused();
    fake.on("LIST poddisruptionbudgets").reply(403);
    assert_snapshot!(preview(fake, "resume gpu").transcript());
    let fake = paused();
    fake.on("LIST pods").reply(403);
    assert_snapshot!(preview(fake, "resume gpu").transcript());
    let fake = paused();
    let mut gpu = fake.get("skyhooks", "", "gpu").expect("the custom resource exists");
    gpu["spec"]["deploymentPolicy"] = "careful".into();
    fake.load(gpu);
    fake.on("LIST deploymentpolicies").reply(403);
    assert_snapshot!(preview(fake, "resume gpu").transcript());
}

/// Nothing is drained, so neither the pods of workloads nor budgets are read.
#[test]
fn nothing_is_read_for_drains_that_do_not_happen() {
    let installed = TestCluster::serving(fleet(SKYHOOK, &json!({}), &INSTALLED));
    installed.run("uninstall gpu agent --dry-run").expect_code(0);
    let lines = installed.fake.lines();
    let budgets = |line: &&String| line.contains("poddisruptionbudgets");
    assert_eq!(lines.iter().find(budgets), None);
}

/// A recorded stage from which the operator continues to a reboot is graded as a reboot, and no piped answer
/// confirms it.
#[test]
fn the_grade_covers_the_predicted_work() {
    let words = "update-state gpu driver 2.0.0 config complete --node gpu-1";
    let installed = || fleet(SKYHOOK, &json!({}), &INSTALLED);
    let document = preview(installed(), &format!("{words} -o json")).json();
    let consequences = &document["consequences"];
    let numbers = ["nodes", "drains", "reboots"].map(|field| consequences[field].clone());
    assert_eq!(numbers, [json!(1), json!(1), json!(1)]);
    assert_eq!(
        (&document["grade"], &consequences["effects"][1]["interrupt"]),
        (&json!("B4"), &json!("reboot"))
    );
    let cluster = TestCluster::serving(installed());
    let ran = cluster.command(words).stdin("y\n").output();
    assert_eq!(cluster.fake.writes().len(), 0);
    assert_snapshot!(ran.transcript());
}

/// Undoing `complete` makes the package run again, so a `y` does not suffice.
#[test]
fn undo_is_graded_by_what_runs_again() {
    let failing = ["driver|2.0.0 apply erroring", "agent|1.0.0 config complete"];
    let cluster = TestCluster::serving(fleet(SKYHOOK, &json!({}), &failing));
    cluster
        .run("update-state gpu driver 2.0.0 post-interrupt complete --node gpu-1 --no-pause --confirm")
        .expect_code(0);
    let writes = cluster.fake.writes().len();
    let ran = cluster.command("undo").stdin("y\n").output();
    assert_eq!(cluster.fake.writes().len(), writes);
    let transcript = ran.transcript();
    let (_, preview) = transcript.split_once("node/gpu-1\n").expect("a preview");
    assert_snapshot!(preview);
}

/// After the interrupt only its following stage is left, and the preview names it.
#[test]
fn a_stage_after_an_interrupt_is_named() {
    let words = "update-state gpu driver 2.0.0 interrupt complete --node gpu-1";
    let installed = fleet(SKYHOOK, &json!({}), &INSTALLED);
    assert_snapshot!(preview(installed, words).transcript());
}

/// A pause suspends the running Job; after a disable it finishes.
#[test]
fn a_pause_or_disable_starts_nothing() {
    let from = "--dry-run --from tests/clusters/nodewright-in-progress --now 2026-11-22T01:39:50Z";
    let of = |verb: &str| run(&format!("{verb} prog {from}")).output().stdout;
    assert_snapshot!(of("pause") + "\n" + &of("disable"));
}

/// The pause of a rerun stops the Job of the interrupt, which begins again: the nodes may reboot once more.
#[test]
fn an_interrupt_that_the_plan_stops_counts_as_one_that_runs() {
    let from = "--dry-run --from tests/clusters/nodewright-reboot-interrupt-failing";
    assert_snapshot!(run(&format!("package rerun alpha --all-nodes {from}")).output().stdout);
}

/// The refused eviction ends every reconcile, so without that node the next one reboots. Files without pods show it, too.
#[test]
fn ignoring_the_node_that_ends_the_reconcile_frees_the_others() {
    let from = "--dry-run --from tests/clusters/drain-blocked";
    assert_snapshot!(run(&format!("node ignore node-1 {from}")).output().stdout);
}

/// A node whose failed job the plan deletes may succeed: another one keeps the rollout from its end.
#[test]
fn the_retried_node_is_not_the_obstacle() {
    let from = "--from tests/clusters/nodewright-apply-erroring";
    let ran = run(&format!("package retry alpha --skyhook aerr --node aerr-1 --dry-run {from}")).output();
    assert_snapshot!(ran.transcript());
}

/// Running a stage again that has failed, or dropping the record of an uninstall, does not end the failure or the uninstall.
#[test]
fn failures_that_repeat_and_uninstalls_that_end_are_named() {
    let warnings = |entry: &str, words: &str| {
        let fake = fleet(SKYHOOK, &json!({}), &["driver|2.0.0 post-interrupt complete", entry]);
        let document = preview(fake, &format!("{words} -o json")).json();
        let warnings = document["consequences"]["warnings"].as_array().expect("warnings").clone();
        let own = |text: &&Value| {
            text.as_str().is_some_and(|text| text.contains("agent") && text.contains("gpu-[1-6]"))
        };
        warnings.iter().filter(own).cloned().collect::<Vec<_>>()
    };
    for words in ["reset gpu", "package rerun agent --skyhook gpu --all-nodes"] {
        assert_eq!(
            warnings("agent|1.0.0 apply erroring", words),
            [json!("agent fails at stage apply on gpu-[1-6]: it fails again unless the cause is fixed")],
            "{words}"
        );
    }
    assert_eq!(
        warnings("agent|1.0.0 uninstall in_progress", "reset gpu"),
        [json!(
            "the uninstall of agent is unfinished on gpu-[1-6]: without its record, the operator does not start it again"
        )]
    );
    assert_eq!(warnings("agent|1.0.0 config complete", "reset gpu"), Vec::<Value>::new());
}

/// A pod on a node without a kubelet does not end within its grace period.
#[test]
fn a_stage_on_a_node_that_is_away_does_not_end() {
    let warning = |ready: &str| {
        let mut fake = fleet(
            NODEWRIGHT,
            &json!({}),
            &["driver|2.0.0 post-interrupt complete", "agent|1.0.0 apply in_progress"],
        );
        let place =
            PackageRun { node: "gpu-1", package: "agent", job: Some("apply-1"), ..PackageRun::default() };
        let mut node = NODEWRIGHT.node(
            "gpu-1",
            "in_progress",
            &["driver|2.0.0 post-interrupt complete", "agent|1.0.0 apply in_progress"],
        );
        node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
        fake = fake.with(node).with(NODEWRIGHT.job(&place, json!({"active": 1})));
        fake = fake.with(NODEWRIGHT.pod("apply-1-x", &place, "Running", &["agent-apply running"]));
        preview(fake, "reset gpu --node gpu-1").stdout
    };
    let away = "the pods of running stages on gpu-1 end only once the kubelet there reports again or they are force-deleted";
    assert!(warning("Unknown").contains(away), "{}", warning("Unknown"));
    assert!(!warning("True").contains(away), "{}", warning("True"));
    assert!(
        warning("True").contains("until its pod has ended, which may take up to 30 s"),
        "{}",
        warning("True")
    );
}

/// The operator deletes a pod whose entry is removed, and runs the package from its first stage.
#[test]
fn a_reset_of_a_failing_stage_runs_the_package_again() {
    let entries = ["driver|2.0.0 post-interrupt erroring", "agent|1.0.0 config complete"];
    let commands =
        ["reset gpu --node gpu-1", "package rerun driver --skyhook gpu --node gpu-1 --stage config"];
    for command in commands {
        let fake = fleet(SKYHOOK, &json!({}), &INSTALLED);
        let place = PackageRun { node: "gpu-1", stage: "post-interrupt", ..PackageRun::default() };
        fake.load(SKYHOOK.node("gpu-1", "erroring", &entries));
        let pod = SKYHOOK.pod("gpu-driver", &place, "Running", &["driver-post-interrupt looping"]);
        fake.load(serde_json::from_str(&pod.to_string().replace("1.0.0", "2.0.0")).expect("a pod"));
        assert_snapshot!(preview(fake, command).transcript());
    }
}

/// A configMap that was edited during a pause is compared with the operator's copy.
#[test]
fn resuming_shows_what_was_edited_meanwhile() {
    let fake = fleet(SKYHOOK, &stopped(SKYHOOK, "pause"), &INSTALLED);
    let mut gpu = fake.get("skyhooks", "", "gpu").expect("it exists");
    gpu["spec"]["packages"]["agent"]["configMap"] = json!({"a.conf": "new"});
    fake.load(gpu);
    fake.load(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "gpu-agent-1.0.0", "namespace": SKYHOOK.namespace(), "uid": "c",
            "labels": {SKYHOOK.0.key("name"): "gpu"}},
        "data": {"a.conf": "old"},
    }));
    assert_snapshot!(preview(fake, "resume gpu").transcript());
}

/// A reboot that fails is stopped by a pause and begins again after it; a page of status does not promise what follows without
/// the reboot itself.
#[test]
fn failing_reboots_begin_again_after_a_pause() {
    let from = "--from tests/clusters/nodewright-reboot-interrupt-failing";
    let ran = ["pause rebootf --dry-run", "status rebootf"]
        .map(|words| run(&format!("{words} {from}")).output().transcript());
    assert_snapshot!(ran.join("\n"));
}

/// A mistyped version is no silent success.
#[test]
fn a_version_that_no_node_records_is_named() {
    let ran =
        run("reset gpu-tune --package driver:9 --dry-run --from tests/clusters/apply-erroring").output();
    assert_snapshot!(ran.transcript());
}
