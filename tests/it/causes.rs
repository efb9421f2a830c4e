//! Planted causes among thousands of nodes: each comes before its effects, and the report stays short.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::object_builder::SKYHOOK;
use crate::support::run::run;

const PREFIX: &str = "skyhook.nvidia.com";
const NODES: usize = 3000;
/// Node n belongs to pool n % POOLS.
const POOLS: usize = 3;

/// `driver` fails on the nodes of one image, `tuning` on those of one zone, `storage` never gets its image;
/// `last` waits for all three.
fn cluster() -> Value {
    let mut items: Vec<Value> = ["driver", "tuning", "storage"]
        .iter()
        .enumerate()
        .map(|(at, name)| skyhook(name, 10 * (at + 1), json!({"pool": format!("p{at}")})))
        .collect();
    items.push(skyhook("last", 90, json!({"fleet": "yes"})));
    for n in 0..NODES {
        items.push(node(n));
        if n % POOLS == 2 && n < 30 {
            items.push(pod_without_image(n));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn skyhook(name: &str, priority: usize, labels: Value) -> Value {
    json!({
        "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "Skyhook",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "priority": priority,
            "nodeSelectors": {"matchLabels": labels},
            "packages": {name: {"version": "1.0.0", "image": format!("registry.example/{name}")}},
        },
    })
}

fn node(n: usize) -> Value {
    let pool = ["driver", "tuning", "storage"][n % POOLS];
    let image = if n.is_multiple_of(7) { "Ubuntu 24.04.4" } else { "Ubuntu 22.04.5" };
    let zone = if n.is_multiple_of(11) { "eu-c" } else { "eu-a" };
    let (stage, state) = match pool {
        "driver" if n.is_multiple_of(7) => ("apply", "erroring"),
        "tuning" if n.is_multiple_of(11) => ("config", "erroring"),
        "storage" if n < 30 => ("apply", "in_progress"),
        _ => ("config", "complete"),
    };
    let status = if state == "complete" { "complete" } else { state };
    let entry = json!({format!("{pool}|1.0.0"): {
        "name": pool, "version": "1.0.0", "image": format!("registry.example/{pool}"), "stage": stage, "state": state,
    }});
    let waiting = if state == "complete" { "complete" } else { "waiting" };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("gpu-{n:05}"),
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"pool": format!("p{}", n % POOLS), "fleet": "yes", "topology.kubernetes.io/zone": zone,
                "kubernetes.io/hostname": format!("gpu-{n:05}")},
            "annotations": {
                format!("{PREFIX}/nodeState_{pool}"): entry.to_string(),
                format!("{PREFIX}/status_{pool}"): status,
                format!("{PREFIX}/nodeState_last"): last_entry(state),
                format!("{PREFIX}/status_last"): waiting,
            },
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"osImage": image, "kernelVersion": "6.8.0"},
        },
    })
}

fn last_entry(state: &str) -> String {
    if state != "complete" {
        return "{}".to_owned();
    }
    json!({"last|1.0.0": {
        "name": "last", "version": "1.0.0", "image": "registry.example/last", "stage": "config", "state": "complete",
    }})
    .to_string()
}

fn pod_without_image(n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("storage-{n}"), "namespace": "skyhook", "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {format!("{PREFIX}/name"): "storage", format!("{PREFIX}/package"): "storage-1.0.0"},
            "annotations": {format!("{PREFIX}/package"): json!({
                "name": "storage", "version": "1.0.0", "skyhook": "storage", "stage": "apply", "image": "registry.example/storage",
            }).to_string()},
        },
        "spec": {"nodeName": format!("gpu-{n:05}")},
        "status": {"phase": "Pending", "initContainerStatuses": [{
            "name": "storage-init",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        }]},
    })
}

#[test]
fn causes_come_first_with_their_effects() {
    let ran = run("diagnose stuck -o json --from -").stdin(cluster().to_string()).output();
    let document = ran.json();
    let causes = document["causes"].as_array().expect("causes");
    let summaries: Vec<Value> = causes
        .iter()
        .map(|cause| {
            json!([
                cause["code"],
                cause["findingIndexes"].as_array().expect("findings").len(),
                cause["explains"].as_array().expect("effects").len(),
                cause["contrasts"][0]["attribute"],
                cause["contrasts"][0]["value"],
            ])
        })
        .collect();
    assert_eq!(
        summaries,
        [
            json!(["SKY201", 143, 143, "osImage", "Ubuntu 24.04.4"]),
            json!(["SKY201", 91, 91, "topology.kubernetes.io/zone", "eu-c"]),
            json!(["SKY202", 10, 10, null, null]),
        ]
    );
    let findings = document["findings"].as_array().expect("findings");
    for (at, finding) in findings.iter().enumerate() {
        let is_cause = finding.get("explainedBy").is_none();
        assert_eq!(is_cause, at < 143 + 91 + 10, "finding {at}");
    }
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)));
}

#[test]
fn report_fits_on_one_screen() {
    let cluster = cluster().to_string();
    let short = run("diagnose stuck --from -").stdin(cluster.as_str()).output();
    insta::assert_snapshot!("causes_of_many_nodes", short.transcript());
    assert!(short.stdout.lines().count() <= 40);
    let all = run("diagnose stuck --all --from -").stdin(cluster).output();
    insta::assert_snapshot!("causes_of_many_nodes_unfolded", all.transcript());
}

/// Findings of equal severity sort by scope, regardless of the number of nodes: first the operator's
/// blockers, then those of custom resources, then node failures, which cannot be fixed before the others.
#[test]
fn operator_and_resource_blockers_come_before_node_failures() {
    let first = |kind: &str, change: Value| {
        let path = "tests/clusters/nodewright-uninstall-erroring/cluster.json";
        let text = std::fs::read_to_string(path).expect("a capture");
        let mut capture: Value = serde_json::from_str(&text).expect("JSON");
        let items = capture["items"].as_array_mut().expect("a list");
        let changed = items.iter_mut().filter(|item| item["kind"] == kind);
        for item in changed {
            json_patch::merge(item, &change);
        }
        let ran = run("diagnose stuck -o json --from -").stdin(capture.to_string().into_bytes()).output();
        let report = ran.json();
        let of = |f: &Value| f["code"].as_str().expect("a code").to_owned();
        let findings = report["findings"].as_array().expect("a list");
        findings.iter().map(of).collect::<Vec<_>>()
    };
    let failing = ["SKY112", "SKY112"];
    assert_eq!(first("Event", json!({})), failing);
    let down = json!({"status": {"availableReplicas": 0, "readyReplicas": 0, "observedGeneration": 1}});
    assert_eq!(first("Deployment", down), [&["SKY501"], &failing[..]].concat());
    let stopped = json!({"metadata": {
        "deletionTimestamp": "2026-11-22T01:03:47Z",
        "annotations": {"nodewright.nvidia.com/pause": "true"},
    }});
    assert_eq!(first("NodeWright", stopped), [&["SKY109"], &failing[..]].concat());
}

/// The code of each cause, with the codes of its effects.
fn explained(items: Value) -> Vec<(String, Vec<String>)> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let words = "diagnose stuck -o json --now 2026-11-20T12:00:00Z --from -";
    let document = run(words).stdin(list.to_string()).output().json();
    let code = |at: &Value| {
        let at = usize::try_from(at.as_u64().expect("a number")).expect("a place");
        document["findings"][at]["code"].as_str().expect("a code").to_owned()
    };
    let causes = document["causes"].as_array().expect("causes").iter();
    causes
        .map(|cause| {
            let explains = cause["explains"].as_array().expect("effects").iter();
            let own = cause["code"].as_str().expect("a code").to_owned();
            (own, explains.map(code).collect())
        })
        .collect()
}

fn pod_of(name: &str, stage: &str, node: &str, container: Value) -> Value {
    let note = json!({"name": name, "version": "1.0.0", "skyhook": name, "stage": stage, "image": "i"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{name}-{stage}-{node}"), "namespace": "skyhook",
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "labels": {
                format!("{PREFIX}/name"): name,
                format!("{PREFIX}/package"): format!("{name}-1.0.0"),
            },
            "annotations": {format!("{PREFIX}/package"): note.to_string()},
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "initContainerStatuses": [container]},
    })
}

/// A pod on a node that is down cannot terminate. Forced deletion is no remedy if a finalizer keeps the pod.
#[test]
fn node_that_is_down_explains_its_terminating_pod() {
    let entry = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0", "image": "i", "stage": "apply", "state": "in_progress"}});
    let down = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-20T08:00:00Z"}]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "annotations": {
            format!("{PREFIX}/nodeState_driver"): entry.to_string(), format!("{PREFIX}/status_driver"): "in_progress",
        }},
        "status": {"conditions": down},
    });
    let mut pod = pod_of("driver", "apply", "n1", json!({"name": "driver-init"}));
    pod["metadata"]["deletionTimestamp"] = "2026-11-20T09:00:00Z".into();
    let items = |pod: &Value| json!([skyhook("driver", 10, json!({})), node, pod]);
    assert_eq!(explained(items(&pod)), [("SKY409".to_owned(), vec!["SKY211".to_owned()])]);
    let remedies = |pod: &Value| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items(pod)});
        let words = "diagnose stuck --rule SKY211 -o jsonpath={.causes[0].remedies[*].title} \
                     --now 2026-11-20T12:00:00Z --from -";
        run(words).stdin(list.to_string()).output().stdout
    };
    assert_eq!(
        remedies(&pod),
        "See why the pod is stuck terminating Force-delete the pod if the node is permanently gone"
    );
    pod["metadata"]["finalizers"] = json!(["example.com/backup"]);
    assert_eq!(remedies(&pod), "See who set the finalizers of the pod, and repair that");
}

/// A node that is down is one cause for all custom resources.
#[test]
fn a_node_that_is_down_under_two_custom_resources_is_one_cause() {
    let entry = |name: &str, state: &str| {
        json!({format!("{name}|1.0.0"): {"name": name, "version": "1.0.0", "image": "i", "stage": "apply", "state": state}})
            .to_string()
    };
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "annotations": {
            format!("{PREFIX}/nodeState_driver"): entry("driver", "in_progress"), format!("{PREFIX}/status_driver"): "in_progress",
            format!("{PREFIX}/nodeState_tuning"): entry("tuning", "in_progress"), format!("{PREFIX}/status_tuning"): "in_progress",
        }},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-20T08:00:00Z"}]},
    });
    let items = json!([skyhook("driver", 10, json!({})), skyhook("tuning", 20, json!({})), node]);
    let causes: Vec<String> = explained(items).into_iter().map(|(code, _)| code).collect();
    assert_eq!(causes, ["SKY409"]);
}

/// A truncated reference explains why the image cannot be pulled.
#[test]
fn truncated_image_reference_explains_the_failed_pull() {
    let mut skyhook = skyhook("driver", 10, json!({}));
    skyhook["spec"]["packages"]["driver"]["image"] = json!("registry.example:5000/driver");
    let waiting = json!({"name": "driver-init", "image": "registry.example:1.0.0", "state": {"waiting": {"reason": "ImagePullBackOff"}}});
    let entry = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0", "image": "registry.example:5000/driver", "stage": "apply", "state": "in_progress"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {
        format!("{PREFIX}/nodeState_driver"): entry.to_string(), format!("{PREFIX}/status_driver"): "in_progress",
    }}});
    let found = explained(json!([skyhook, node, pod_of("driver", "apply", "n1", waiting)]));
    assert_eq!(found, [("SKY213".to_owned(), vec!["SKY202".to_owned()])]);
}

/// With nothing left to uninstall, the operator removes its finalizer even if a package fails.
#[test]
fn failing_install_does_not_explain_a_deletion_without_uninstalls() {
    let mut skyhook = skyhook("driver", 10, json!({}));
    skyhook["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
    skyhook["metadata"]["finalizers"] = json!([format!("{PREFIX}/skyhook")]);
    let entry = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0", "image": "i", "stage": "apply", "state": "erroring", "restarts": 9}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {
        format!("{PREFIX}/nodeState_driver"): entry.to_string(), format!("{PREFIX}/status_driver"): "erroring",
    }}});
    let crash = json!({"name": "driver-apply", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let found = explained(json!([skyhook, node, pod_of("driver", "apply", "n1", crash)]));
    assert_eq!(found, [("SKY113".to_owned(), Vec::new()), ("SKY201".to_owned(), Vec::new())]);
}

/// The interrupt of `driver` waits until all package pods have left the node; the pod of `other` hangs.
#[test]
fn pod_of_another_custom_resource_explains_a_waiting_interrupt() {
    let mut driver = skyhook("driver", 10, json!({}));
    driver["metadata"]["creationTimestamp"] = json!("2026-11-20T06:00:00Z");
    driver["metadata"]["managedFields"] =
        json!([{"manager": "kubectl", "operation": "Update", "time": "2026-11-20T06:00:00Z"}]);
    driver["metadata"]["generation"] = json!(1);
    driver["spec"]["packages"]["driver"]["interrupt"] = json!({"type": "reboot"});
    driver["status"] = json!({"status": "in_progress", "observedGeneration": 1});
    let other = skyhook("other", 90, json!({}));
    let entry = |name: &str, stage: &str, state: &str| {
        json!({format!("{name}|1.0.0"): {"name": name, "version": "1.0.0", "image": "i", "stage": stage, "state": state}})
            .to_string()
    };
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "creationTimestamp": "2026-11-20T05:00:00Z", "annotations": {
            format!("{PREFIX}/nodeState_driver"): entry("driver", "config", "complete"),
            format!("{PREFIX}/status_driver"): "in_progress",
            format!("{PREFIX}/cordon_driver"): "true",
            format!("{PREFIX}/nodeState_other"): entry("other", "apply", "in_progress"),
            format!("{PREFIX}/status_other"): "in_progress",
        }},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T05:00:00Z"}]},
    });
    let running = json!({"name": "other-apply", "state": {"running": {"startedAt": "2026-11-20T08:00:00Z"}}});
    let found = explained(json!([driver, other, node, pod_of("other", "apply", "n1", running)]));
    let waiting = ["SKY222", "SKY302"].map(str::to_owned).to_vec();
    assert_eq!(found, [("SKY219".to_owned(), waiting)]);
}

/// A stopped operator is one cause, not one more for each of its webhook configurations.
#[test]
fn webhook_findings_are_effects_of_a_stopped_operator() {
    let fixture = "tests/rules/webhook_unreachable.scaled_to_zero.yaml";
    let ran = run(&format!("diagnose stuck --all -o json --from {fixture}")).output();
    let document = ran.json();
    let causes = document["causes"].as_array().expect("causes");
    let findings = document["findings"].as_array().expect("findings");
    let summaries: Vec<Value> = causes
        .iter()
        .map(|cause| {
            let count = |key: &str| cause[key].as_array().expect("findings").len();
            json!([cause["code"], count("findingIndexes"), count("explains")])
        })
        .collect();
    assert_eq!(summaries, [json!(["SKY501", 1, 2])]);
    for finding in findings.iter().filter(|f| f["code"] == "SKY505") {
        let grades = finding["remedies"].as_array().expect("remedies").iter();
        let grades: Vec<&str> = grades.filter_map(|r| r["grade"].as_str()).collect();
        assert_eq!(grades, ["B1", "B2"], "{finding:#}");
    }
}

/// A custom resource behind several others names those that block most of its nodes first.
#[test]
fn a_wait_for_several_names_each_with_its_nodes() {
    let ran = run("status last -o json --from -").stdin(cluster().to_string()).output();
    let expected = "waits for driver on 143 nodes, tuning on 91 and storage on 10";
    assert_eq!(ran.json()["items"][0]["message"], expected);
}

/// With --node, all numbers count these nodes.
#[test]
fn numbers_count_the_named_nodes() {
    let words = "diagnose stuck --node gpu-00000 --node gpu-00022 --from -";
    assert_snapshot!(run(words).stdin(cluster().to_string()).output().transcript());
}

/// Until the operator runs, no other remedy helps, also for one node.
#[test]
fn an_operator_that_is_down_comes_first_for_one_node_as_well() {
    let mut cluster = cluster();
    let mut operator = SKYHOOK.operator();
    operator["spec"]["replicas"] = 0.into();
    operator["status"] = json!({"observedGeneration": 1, "replicas": 0});
    cluster["items"].as_array_mut().expect("a list").push(operator);
    let words = "diagnose stuck --node gpu-00000 --from -";
    assert_snapshot!(run(words).stdin(cluster.to_string()).output().transcript());
}

/// The output of commands for a fixture, without the rules that could not run.
fn outputs(commands: &[&str], fixture: &str) -> String {
    let of = |command: &&str| {
        let text = run(&format!("{command} --from tests/rules/{fixture}.yaml")).output().stdout;
        let end = text.find(" rules could not run").and_then(|at| text[..at].rfind("\n\n"));
        format!("$ {command}\n{}\n", text[..end.unwrap_or(text.len())].trim_end())
    };
    commands.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// A node that is down holds its batch together with nodes whose protected pods end some day: it is one cause, an error, and
/// comes first.
#[test]
fn a_node_that_is_down_in_a_batch_is_one_cause() {
    let commands = ["diagnose stuck", "diagnose stuck 1", "diagnose stuck 2", "diagnose node n1"];
    assert_snapshot!(outputs(&commands, "node_not_ready.batch"));
}

fn node_that_is_down_in_a_batch() -> String {
    std::fs::read_to_string("tests/rules/node_not_ready.batch.yaml").expect("a fixture")
}

/// The taint of a node that is down keeps also custom resources away that have not begun there. It is no cause.
#[test]
fn the_taint_of_a_node_that_is_down_is_an_effect() {
    let taint =
        r#"{key: node.kubernetes.io/unreachable, effect: NoSchedule, timeAdded: "2026-11-20T09:10:00Z"}"#;
    let spec = "spec: {unschedulable: true";
    let fixture = node_that_is_down_in_a_batch().replacen(spec, &format!("{spec}, taints: [{taint}]"), 1);
    let document = run("diagnose stuck -o json --from -").stdin(fixture).output().json();
    let causes = document["causes"].as_array().expect("causes").iter();
    assert_eq!(causes.map(|cause| &cause["code"]).collect::<Vec<_>>(), ["SKY409", "SKY404"]);
}

/// The page of a waiting node names the command that shows the cause of the wait, which is on another node.
#[test]
fn a_waiting_node_shows_the_cause_of_its_wait() {
    let fixture = node_that_is_down_in_a_batch().replace("status: Unknown", "status: 'True'");
    let ran = run("diagnose node n3 --from -").stdin(fixture).output();
    let (_, next) = ran.stdout.split_once("what to do next\n").expect("next steps");
    assert_eq!(next.lines().nth(1).map(str::trim), Some("kubectl describe pod -n ml train-1"), "{next}");
}

/// An error of the node's own remains once the policy exists.
#[test]
fn a_node_shows_the_remedies_of_each_of_its_causes() {
    assert_snapshot!(outputs(&["diagnose node n2"], "deployment_policy_missing.failing"));
}

/// A failing node of a batch is not blocked by another one.
#[test]
fn failing_nodes_of_a_batch_do_not_block_each_other() {
    let ran = run("diagnose stuck -o json --from tests/rules/container_not_created.batch.yaml").output();
    let causes = ran.json()["causes"].as_array().expect("causes").clone();
    let blocked = |cause: &Value| format!("{} {}", cause["code"], cause["blocked"][0]["node"]);
    let blocked: Vec<String> = causes.iter().map(blocked).collect();
    assert_eq!(blocked, [r#""SKY201" "n2""#, r#""SKY203" "n1""#]);
}

/// The next command of each of many causes is the recommended one, even an edit with kubectl.
#[test]
fn short_list_begins_with_the_recommended_commands() {
    let mut cluster = cluster();
    let mut broken = skyhook("broken", 95, json!({"fleet": "yes"}));
    broken["spec"]["packages"]["broken"]["dependsOn"] = json!({"nope": "9.9.9"});
    cluster["items"].as_array_mut().expect("a list").push(broken);
    let ran = run("diagnose stuck --from -").stdin(cluster.to_string()).output();
    let (_, next) = ran.stdout.split_once("next:\n").expect("a list");
    assert_snapshot!(next.split("\n\n").next().unwrap_or_default());
}

/// Until the operator runs, nothing refuses a drain; a refused drain ends the work on its own custom resource only; and
/// the value that the API server refuses explains why the operator does not act.
#[test]
fn what_stops_the_operator_comes_first_and_only_where_it_stops() {
    for name in ["operator_down", "deletion", "version"] {
        let ask =
            |words: &str| run(&format!("{words} --from tests/it/causes/{name}.yaml")).output().transcript();
        assert_snapshot!(name, ask("diagnose stuck") + &ask("status"));
    }
}

/// The wait of other custom resources for an older taint is an effect.
#[test]
fn a_wait_for_an_older_taint_is_no_cause() {
    let taint = "tests/rules/runtime_required_taint_kept.dropped_key.yaml";
    assert_snapshot!(
        run(&format!("diagnose stuck --from {taint} --now 2026-11-20T12:00:00Z")).output().transcript()
    );
}
