//! How a custom resource is doing is one answer in all commands: `status`, `diagnose`, `wait` and the report.

use std::collections::{BTreeMap, BTreeSet};

use kubectl_skyhook::cluster::Cluster;
use kubectl_skyhook::dump;
use kubectl_skyhook::model::ProgressState;
use kubectl_skyhook::outlook::Outlook;
use kubectl_skyhook::rules::support::causes::Causes;
use kubectl_skyhook::rules::{self, Finding, FindingKey, Scope};
use kubectl_skyhook::view::expand;
use serde_json::{Value, json};

use crate::recorded::recorded_clusters;
use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, PackageRun, SKYHOOK};
use crate::support::run::{Run, RunOutput, run};
use crate::support::sample::some;

const NOW: &str = "2026-11-20T12:00:00Z";

fn packages() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn ask(words: &str, items: &[Value]) -> RunOutput {
    run(&format!("{words} --now {NOW} --from -")).stdin(list(items)).output()
}

/// A custom resource that somebody has paused or disabled.
fn stopped(annotation: &str) -> Value {
    let mut skyhook = NODEWRIGHT.skyhook(&format!("{annotation}d"), packages());
    let key = NODEWRIGHT.0.key(annotation);
    skyhook["metadata"]["annotations"] =
        json!({key.clone(): "true", format!("kubectl-skyhook/{annotation}-reason"): "new disks"});
    skyhook["metadata"]["managedFields"] = json!([{
        "manager": "kubectl-annotate", "operation": "Update", "time": "2026-11-20T09:00:00Z",
        "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:{key}"): {}}}},
    }]);
    skyhook
}

fn first_line(ran: &RunOutput) -> &str {
    ran.stdout.lines().next().unwrap_or_default()
}

/// Paused and disabled work waits for somebody: each command says so, and no watch waits for ever.
#[test]
fn stopped_work_has_one_answer() {
    for (annotation, word, code) in [("pause", "Paused", "SKY308"), ("disable", "Disabled", "SKY309")] {
        let node = NODEWRIGHT.node("node-1", "waiting", &[]);
        let items = [stopped(annotation), NODEWRIGHT.operator(), node];
        let stuck = ask("diagnose stuck", &items);
        let blocked = "No errors, but some work is blocked until someone intervenes: 1 warning";
        assert_eq!((first_line(&stuck), stuck.code), (blocked, Some(0)), "{}", stuck.transcript());
        let node = ask("diagnose node node-1", &items);
        assert_eq!(first_line(&node), "node-1: blocked until someone intervenes");
        node.expect_stdout(code);
        let json = ask("status -o json", &items).json();
        let item = &json["items"][0];
        assert_eq!(item["state"], word);
        assert_eq!(item["causeCodes"], json!([code]));
        assert_eq!(item["stoppedBy"], "kubectl-annotate");
        assert_eq!(item["stoppedSince"], "2026-11-20T09:00:00Z");
        let row = format!("{} by kubectl-annotate 3h ago (new disks)", word.to_lowercase());
        ask("status", &items).expect_stdout(&row);
        ask("status gpu", &items).expect_stdout(&row);
        let mut fake = FakeApi::new().serving(NODEWRIGHT.0);
        for item in items {
            fake = fake.with(item);
        }
        let served = fake.serve();
        for words in ["wait gpu --timeout 60s", "status -w gpu --timeout 60s"] {
            let ran = run(words).kubeconfig(&served.kubeconfig()).output();
            assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)), "{words}: {}", ran.transcript());
            ran.expect_stdout(format!("warning {code} "));
        }
    }
}

/// A finished custom resource is paused without consequences.
#[test]
fn nothing_waits_for_a_pause_of_complete_work() {
    let node = NODEWRIGHT.node("node-1", "complete", &["driver|1.0.0 config complete"]);
    let fake =
        FakeApi::new().serving(NODEWRIGHT.0).with(stopped("pause")).with(NODEWRIGHT.operator()).with(node);
    let stuck = run("diagnose stuck").kubeconfig(&fake.serve().kubeconfig()).output();
    assert_eq!(first_line(&stuck), "Nothing is stuck: 1 note");
}

/// A custom resource behind a stuck one is held up by its cause.
#[test]
fn a_wait_ends_only_with_its_cause() {
    let from = "--from tests/clusters/two-priorities";
    let json = run(&format!("status -o json {from}")).output().json();
    let items = json["items"].as_array().expect("custom resources");
    let second = items.iter().find(|item| item["name"] == "second").expect("the second one");
    assert_eq!(second["causeCodes"], json!(["SKY201"]), "{second:#}");
    assert!(["Stuck", "Degraded"].contains(&second["state"].as_str().expect("a word")), "{second:#}");
    let message = second["message"].as_str().expect("a message");
    assert!(message.starts_with("waits for first: SKY201 "), "{message}");
}

/// Nothing is wrong, but somebody has to end the pause of the earlier custom resource.
#[test]
fn a_wait_behind_a_pause_is_blocked_by_the_pause() {
    let mut later = NODEWRIGHT.skyhook("waiting", packages());
    later["metadata"]["name"] = json!("later");
    later["metadata"]["uid"] = json!("uid-later");
    let node = NODEWRIGHT.node("node-1", "waiting", &[]);
    let json = ask("status later -o json", &[stopped("pause"), later, NODEWRIGHT.operator(), node]).json();
    let later = &json["items"][0];
    assert_eq!(later["state"], "Blocked", "{later:#}");
    assert_eq!(later["causeCodes"], json!(["SKY308"]));
    let message = later["message"].as_str().expect("a message");
    assert!(message.starts_with("waits for gpu: SKY308 "), "{message}");
}

/// A batch that a failing node holds never ends: the nodes that wait for it are blocked by that node.
#[test]
fn nodes_behind_a_stuck_batch_are_blocked_by_its_cause() {
    let mut skyhook = SKYHOOK.skyhook("in_progress", packages());
    skyhook["spec"]["interruptionBudget"] = json!({"count": 1});
    skyhook["status"]["nodePriority"] = json!({"n-1": "2026-11-20T09:00:00Z"});
    let place = PackageRun { node: "n-1", at: "2026-11-20T09:00:00Z", ..PackageRun::default() };
    let mut pod = SKYHOOK.pod("gpu-driver-1-0-0-apply-n-1", &place, "Pending", &[]);
    pod["status"]["initContainerStatuses"] = json!([{
        "name": "driver-apply", "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}},
    }]);
    let items = [
        skyhook,
        SKYHOOK.operator(),
        SKYHOOK.node("n-1", "in_progress", &["driver|1.0.0 apply in_progress"]),
        SKYHOOK.node("n-2", "waiting", &[]),
        SKYHOOK.node("n-3", "waiting", &[]),
        pod,
    ];
    let json = ask("status gpu -o json", &items).json();
    let item = &json["items"][0];
    assert_eq!(item["state"], "Stuck", "{item:#}");
    assert_eq!(item["nodes"]["waiting"], 0, "{item:#}");
    let node = ask("diagnose node n-3 -o json", &items).json();
    assert_eq!(node["state"], "Stuck");
    assert_eq!(node["skyhooks"][0]["progress"]["heldUpBy"]["node"], "n-1", "{node:#}");
    let scoped = ask("diagnose stuck --node n-3 -o json", &items).json();
    assert_eq!(causes(&scoped), ["SKY202 n-1"]);
}

/// A failed installation keeps a deletion waiting also after its pause: both are causes.
#[test]
fn a_pause_does_not_explain_a_failed_installation() {
    let text = std::fs::read_to_string("tests/clusters/nodewright-deleted-while-erroring/cluster.json");
    let mut captured: Value = serde_json::from_str(&text.expect("a capture")).expect("JSON");
    let items = captured["items"].as_array_mut().expect("items");
    let deleted = items.iter_mut().find(|item| !item["metadata"]["deletionTimestamp"].is_null());
    let deleted = deleted.expect("a custom resource that is being deleted");
    deleted["metadata"]["annotations"][NODEWRIGHT.0.key("pause")] = "true".into();
    let ran = run("diagnose stuck -o json --now 2026-11-22T01:20:00Z --from -").stdin(list(items)).output();
    assert_eq!(causes(&ran.json()), ["SKY109", "SKY101 delerr-1 delerr-2"]);
}

/// The causes of a diagnosis: code and nodes.
fn causes(document: &Value) -> Vec<String> {
    let causes = document["causes"].as_array().expect("causes").iter();
    let nodes = |cause: &Value| {
        let nodes = cause["nodes"].as_array().expect("nodes").iter();
        nodes.map(|node| format!(" {}", node.as_str().expect("a name"))).collect::<String>()
    };
    causes.map(|cause| format!("{}{}", cause["code"].as_str().expect("a code"), nodes(cause))).collect()
}

/// The cluster of a capture.
fn cluster(captured: &clusters::Captured) -> Cluster {
    dump::load(&[captured.path().into()], None).expect("a capture")
}

/// The findings that no other finding explains, and those that another one explains.
fn causes_and_effects(findings: &[Finding]) -> (BTreeSet<FindingKey>, BTreeSet<FindingKey>) {
    let graph = Causes::of(findings);
    let (causes, effects): (Vec<usize>, Vec<usize>) =
        (0..findings.len()).partition(|at| graph.explaining(*at).is_empty());
    let keys = |all: Vec<usize>| all.into_iter().map(|at| findings[at].key()).collect();
    (keys(causes), keys(effects))
}

/// A limit to a node or a custom resource removes findings, and makes no effect a cause.
#[test]
fn a_scope_never_makes_an_effect_a_cause() {
    for captured in some(clusters::all(), 10) {
        let cluster = cluster(&captured);
        let (_, effects) = causes_and_effects(&rules::diagnose(&cluster, &Scope::default()).findings);
        let skyhooks = cluster
            .skyhooks
            .iter()
            .map(|skyhook| Scope { skyhooks: vec![skyhook.name().to_owned()], ..Scope::default() });
        let nodes =
            cluster.nodes.iter().map(|node| Scope { nodes: vec![node.name.to_string()], ..Scope::default() });
        for scope in skyhooks.chain(nodes) {
            let (causes, _) = causes_and_effects(&rules::diagnose(&cluster, &scope).findings);
            let wrong: Vec<&FindingKey> = causes.intersection(&effects).collect();
            assert!(wrong.is_empty(), "{}: {scope:?}: {wrong:?}", captured.name);
        }
    }
}

/// Each node counts once, also in the compartments.
#[test]
fn each_node_counts_once() {
    for captured in some(clusters::all(), 20) {
        let cluster = cluster(&captured);
        let outlook = Outlook::new(&cluster, rules::diagnose(&cluster, &Scope::default()).findings);
        for skyhook in &cluster.skyhooks {
            let place = format!("{}: {}", captured.name, skyhook.name());
            let summary = outlook.resource(skyhook.name());
            assert_eq!(summary.node_states.all(), cluster.selected(skyhook).count(), "{place}");
            let counted =
                |state| outlook.on_nodes(skyhook.name()).filter(|(_, on)| on.counted() == state).count();
            assert_eq!(summary.node_states.failed, counted(ProgressState::Failed), "{place}");
            let compartments = summary.compartments.iter().map(|(_, _, states)| states);
            let (all, complete) =
                compartments.fold((0, 0), |sum, states| (sum.0 + states.all(), sum.1 + states.complete));
            if all > 0 {
                let expected = (summary.node_states.all(), summary.node_states.complete);
                assert_eq!((all, complete), expected, "{place}");
            }
        }
    }
}

/// The states on the page of a custom resource, and what holds them up, are those of the node's own page, and no
/// rollout runs in a custom resource that makes no progress.
#[test]
fn pages_agree() {
    for captured in some(clusters::on_screen(), 4) {
        let from = captured.path();
        let json = run(&format!("status -o json --from {from}")).output().json();
        let mut states: BTreeMap<(String, String), [Value; 2]> = BTreeMap::new();
        for item in json["items"].as_array().expect("custom resources") {
            let name = item["name"].as_str().expect("a name");
            if ["Stuck", "Blocked", "Paused", "Disabled"].iter().any(|state| item["state"] == *state) {
                let page = run(&format!("status {name} --from {from}")).output();
                page.expect_no_stdout("  running  ");
            }
            let named = run(&format!("status {name} -o json --from {from}")).output().json();
            for entry in named["items"][0]["progress"]["nodes"].as_array().into_iter().flatten() {
                let set = entry["node"].as_str().expect("a name");
                let nodes = expand(set).map_or_else(|| vec![set.to_owned()], |nodes| nodes.expect("a set"));
                assert_eq!(entry["nodeCount"], nodes.len());
                for node in nodes {
                    let state = [&entry["state"], &entry["heldUpBy"]["code"]].map(Value::clone);
                    states.insert((name.to_owned(), node), state);
                }
            }
        }
        for ((name, node), state) in &states {
            let page = run(&format!("diagnose node {node} -o json --from {from}")).output().json();
            let links = page["skyhooks"].as_array().expect("custom resources");
            let link = links.iter().find(|link| link["name"] == *name).expect("the custom resource");
            let own = [&link["state"], &link["progress"]["heldUpBy"]["code"]].map(Value::clone);
            assert_eq!(own, *state, "{}: {name} on {node}", captured.name);
        }
    }
}

/// Between two batches the operator chooses the next nodes at once: the rollout progresses.
#[test]
fn a_rollout_progresses_between_batches() {
    let mut seen: BTreeMap<String, BTreeSet<ProgressState>> = BTreeMap::new();
    for (recording, cluster) in recorded_clusters(["install_count3", "policy_fixed4", "three_reboots"], 60) {
        let report = rules::diagnose(&cluster, &Scope::default());
        let outlook = Outlook::new(&cluster, report.findings);
        for skyhook in &cluster.skyhooks {
            let summary = outlook.resource(skyhook.name());
            if summary.node_states.complete > 0 {
                seen.entry(recording.clone()).or_default().insert(summary.assessment);
            }
        }
    }
    let expected = BTreeSet::from([ProgressState::Complete, ProgressState::Progressing]);
    for (recording, states) in &seen {
        assert_eq!(*states, expected, "{recording}");
    }
    assert_eq!(seen.len(), 3);
}

/// A time before now, as the API server writes it.
#[expect(clippy::disallowed_methods, reason = "the command reads the clock as well")]
fn minutes_ago(minutes: i64) -> String {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A node that has not come back from a reboot is not running, and the headline does not say that all is well.
#[test]
fn a_node_that_is_not_ready_does_not_run() {
    let reboots = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"},
    }});
    let mut node = NODEWRIGHT.node("n-1", "in_progress", &["driver|1.0.0 interrupt in_progress"]);
    node["status"]["conditions"] =
        json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": minutes_ago(20)}]);
    let begun = minutes_ago(22);
    let place = PackageRun {
        node: "n-1",
        stage: "interrupt",
        interrupt: true,
        job: Some("reboot"),
        at: &begun,
        ..PackageRun::default()
    };
    let served =
        NODEWRIGHT.serve(reboots).with(node).with(NODEWRIGHT.job(&place, json!({"active": 1}))).serve();
    let ask = |words: &str| run(words).kubeconfig(&served.kubeconfig()).output();
    let stuck = ask("diagnose stuck");
    assert_eq!((first_line(&stuck), stuck.code), ("No errors: 1 warning", Some(0)), "{}", stuck.transcript());
    let node = ask("diagnose node n-1");
    assert_eq!(first_line(&node), "n-1: waiting", "{}", node.transcript());
    node.expect_stdout("SKY409");
    let status = ask("status -o json").json();
    assert_eq!(status["items"][0]["nodes"]["running"], 0, "{status:#}");
}

/// The missing object is the cause: it stands in the headline.
/// Pods that the kubelet evicts again and again end at no time that the durations of other nodes tell.
#[test]
fn evicted_pods_get_no_estimate() {
    let ran = run("status -o json --from tests/rules/package_pods_evicted.yaml --now 2026-11-20T10:10:00Z")
        .output();
    let item = &ran.json()["items"][0];
    assert_eq!(
        [&item["state"], &item["etaSeconds"], &item["uncertainty"]],
        [&json!("Progressing"), &Value::Null, &Value::Null]
    );
}

#[test]
fn a_missing_secret_is_named_in_the_headline() {
    let ran =
        run("diagnose stuck --rule SKY203 -o json --from tests/rules/container_not_created.yaml").output();
    let json = ran.json();
    let mut messages = json["causes"].as_array().expect("causes").iter().map(|cause| &cause["message"]);
    let expected = "container driver-apply of package driver cannot be created (secret \"token\" not found), so stage \
                    apply does not continue";
    assert!(messages.any(|message| message == expected), "{json:#}");
}

/// A node that a deletion skips is an effect of the package that fails there.
#[test]
fn a_failing_package_explains_why_a_deletion_skips_its_node() {
    let mut skyhook = SKYHOOK.skyhook(
        "erroring",
        json!({
            "driver": {"version": "1.0.0", "image": "i", "uninstall": {"enabled": true}},
            "tuning": {"version": "1.0.0", "image": "i", "uninstall": {"enabled": true}},
        }),
    );
    skyhook["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:00:00Z");
    let items = [
        skyhook,
        SKYHOOK.operator(),
        SKYHOOK.node("n-1", "in_progress", &[]),
        SKYHOOK.node(
            "n-2",
            "erroring",
            &["driver|1.0.0 apply erroring", "tuning|1.0.0 uninstall in_progress"],
        ),
        json!({"apiVersion": "v1", "kind": "PodList", "items": []}),
    ];
    let json = ask("diagnose stuck -o json", &items).json();
    assert_eq!(causes(&json), ["SKY101 n-2"], "{json:#}");
}

/// While the custom resource is disabled, a new batch would run nothing.
#[test]
fn a_stopped_and_disabled_rollout_is_enabled_first() {
    let from = "--from tests/rules/rollout_stopped.yaml";
    let json = run(&format!("diagnose stuck switched-off --rule SKY301 -o json {from}")).output().json();
    let remedies = json["causes"][0]["remedies"].as_array().expect("remedies").iter();
    let mut changes = remedies.filter(|remedy| remedy["grade"] != "B0");
    let first = &changes.next().expect("a change")["argv"];
    assert_eq!(*first, json!(["kubectl", "skyhook", "enable", "switched-off"]), "{json:#}");
    assert_eq!(changes.next().expect("another change")["argv"][2], "deployment-policy", "{json:#}");
}

/// `node status` has a reason for each node that `diagnose node` calls unfinished.
#[test]
fn node_status_says_why_a_node_waits() {
    for captured in some(clusters::on_screen(), 6) {
        let from = captured.path();
        let rows = run(&format!("node status -o json --from {from}")).output().document();
        for row in rows["items"].as_array().expect("rows") {
            let node = row["node"].as_str().expect("a name");
            let page = run(&format!("diagnose node {node} -o json --from {from}")).output().document();
            let mut links = page["skyhooks"].as_array().expect("custom resources").iter();
            let link = links.find(|link| link["name"] == row["skyhook"]).expect("the custom resource");
            let open = link["state"] != "Complete" && row["selected"] == true;
            assert!(!open || row["message"].is_string(), "{}: {row:#} {link:#}", captured.name);
        }
    }
}

/// The reason is the finding where there is one, or else that of the model.
#[test]
fn reasons_of_nodes_are_in_documents() {
    let lines = "jsonpath={range .items[*]}{.node} {.skyhook}: {.message}{\"\\n\"}{end}";
    for (capture, expected) in [
        (
            "two-priorities",
            "node-1 first: \nnode-1 second: \nnode-2 first: package base fails at stage apply (exit code 1)\n\
             node-2 second: skyhook/first runs first on the node\nnode-3 first: \nnode-3 second: \n",
        ),
        (
            "nodewright-drain-blocked-pdb",
            "pdb-1 pdb: draining for 1s, 1 pod left, eviction refused\n\
             pdb-2 pdb: draining for 1s, 1 pod left, eviction refused\n",
        ),
        (
            "nodewright-in-progress",
            "prog-1 prog: the batch of compartment (default) is in progress on node/prog-2\n\
             prog-2 prog: stage config of alpha is running\n",
        ),
    ] {
        let ran = Run::new(["node", "status", "--from", &format!("tests/clusters/{capture}"), "-o", lines])
            .output();
        assert_eq!(ran.parts(), (expected, "", Some(0)), "{capture}");
    }
}
