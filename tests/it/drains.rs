//! Drains in progress: every command shows the start, the remaining pods and their blockers.

use jiff::{SignedDuration, Timestamp};
use kubectl_skyhook::api::keys;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NAME, NODEWRIGHT};
use crate::support::run::run;

const NOW: &str = "2026-11-20T12:00:00Z";
const SHOP: &str = "shop";

/// A custom resource whose second package needs an interrupt, and a node whose drain for it began at `start`.
fn draining_since(start: &str) -> Vec<Value> {
    let packages = json!({
        "setup": {"version": "1.0.0", "image": "example.com/setup"},
        "tuned": {"version": "1.0.0", "image": "example.com/tuned", "interrupt": {"type": "reboot"},
            "dependsOn": {"setup": "1.0.0"}},
    });
    let mut node = NODEWRIGHT.node("gpu-1", "in_progress", &["setup|1.0.0 config complete"]);
    let flavor = NODEWRIGHT.0;
    node["spec"] = json!({"unschedulable": true});
    node["metadata"]["annotations"][keys::cordon(flavor, NAME)] = "true".into();
    node["metadata"]["annotations"][flavor.key(&format!("drainStart_{NAME}"))] = start.into();
    let mut skyhook = NODEWRIGHT.skyhook("in_progress", packages);
    skyhook["status"]["nodePriority"] = json!({"gpu-1": start});
    // No package pod runs on the node, and the only pod of another workload is on another node.
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "backup", "namespace": "ops"}});
    let far = pod("web-far", "cpu-1", json!({"namespace": "ops"}), json!({}));
    vec![skyhook, node, NODEWRIGHT.operator(), job, far]
}

fn pod(name: &str, node: &str, metadata: Value, status: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": SHOP, "uid": name, "creationTimestamp": "2026-11-19T00:00:00Z",
            "labels": {"app": "web", "tier": "front"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/web"}]},
        "status": {"phase": "Running"},
    });
    for (part, more) in [("metadata", metadata), ("status", status)] {
        let more = more.as_object().expect("an object").clone();
        pod[part].as_object_mut().expect("an object").extend(more);
    }
    pod
}

fn budget(name: &str, labels: Value, status: Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": SHOP, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": status,
    })
}

fn allows_one() -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2})
}

fn webhook() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "vm-validator"},
        "webhooks": [{"name": "evictions.vm.example", "failurePolicy": "Ignore",
            "clientConfig": {"url": "https://vm.example"},
            "rules": [{"apiGroups": [""], "operations": ["*"], "resources": ["pods/eviction"]}]}],
    })
}

fn with(mut items: Vec<Value>, more: impl IntoIterator<Item = Value>) -> Vec<Value> {
    items.extend(more);
    items
}

/// The output of each reading command over these objects.
fn transcript(items: &[Value]) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let commands = ["diagnose stuck", "diagnose node gpu-1", "status", "node status"];
    let ran = commands.map(|command| {
        let ran = run(&format!("{command} --from - --now {NOW}")).stdin(list.as_str()).output();
        ran.transcript()
    });
    ran.join("\n")
}

/// One pod in its grace period.
fn normal() -> Vec<Value> {
    let terminating = json!({"deletionTimestamp": "2026-11-20T11:59:30Z", "deletionGracePeriodSeconds": 30});
    let leaving = pod("web-1", "gpu-1", terminating, json!({}));
    with(
        draining_since("2026-11-20T11:57:00Z"),
        [leaving, budget("web", json!({"app": "web"}), allows_one())],
    )
}

#[test]
fn a_normal_drain_is_no_finding_and_says_what_it_waits_for() {
    let transcript = transcript(&normal());
    insta::assert_snapshot!(&transcript);
    assert!(!transcript.contains("SKY222") && !transcript.contains("SKY401 "), "{transcript}");
}

/// A drain whose pod is selected by two budgets.
fn overlapping() -> Vec<Value> {
    let budgets = [
        budget("web", json!({"app": "web"}), allows_one()),
        budget("front", json!({"tier": "front"}), allows_one()),
    ];
    let here = pod("web-1", "gpu-1", json!({}), json!({}));
    with(with(draining_since("2026-11-20T10:40:00Z"), [here]), budgets)
}

#[test]
fn two_budgets_on_one_pod_are_both_named() {
    insta::assert_snapshot!(transcript(&overlapping()));
}

/// A drain that deletes the pods asks no budget.
#[test]
fn budgets_do_not_refuse_deletions() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2,
        "expectedPods": 2});
    let here = pod("web-1", "gpu-1", json!({}), json!({}));
    let mut items =
        with(draining_since("2026-11-20T11:59:00Z"), [here, budget("web", json!({"app": "web"}), status)]);
    let rows = |items: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        run(&format!("node status --no-headers --from - --now {NOW}")).stdin(list).output().stdout
    };
    let row = "gpu-1  gpu  in_progress  1/2  yes  draining for 60s, 1 pod left";
    assert_eq!(rows(&items), format!("{row}, eviction refused\n"));
    items[0]["spec"]["drainConfig"] = json!({"disableEviction": true});
    assert_eq!(rows(&items), format!("{row}\n"));
}

/// While a custom resource is paused, the finding about the pause names what refuses its drain.
#[test]
fn a_paused_drain_names_its_obstacle() {
    let mut items = overlapping();
    items[0]["metadata"]["annotations"][NODEWRIGHT.0.key("pause")] = "true".into();
    insta::assert_snapshot!(transcript(&items));
}

/// A drain that timed out is not tried again: the rollout that a reset of another node continues does not complete.
#[test]
fn forecasts_know_drains_that_timed_out() {
    let mut items = draining_since("2026-11-20T11:40:00Z");
    items[0]["spec"]["drainConfig"] = json!({"timeout": "5m"});
    items[1]["metadata"]["annotations"][keys::status(NODEWRIGHT.0, NAME)] = "erroring".into();
    items.push(NODEWRIGHT.node("gpu-2", "complete", &["setup|1.0.0 config complete"]));
    items.push(pod("web-1", "gpu-1", json!({}), json!({})));
    insta::assert_snapshot!(reset(&items, "gpu-2"));
}

/// Two nodes in the batch: one is not ready, and the drain of the other is refused. If the first is ignored, the batch still
/// waits for the second, and the third node does not begin.
#[test]
fn an_ignored_node_frees_no_batch_that_a_refused_drain_holds() {
    let mut items = overlapping();
    items[0]["spec"]["interruptionBudget"] = json!({"count": 2});
    items[0]["status"]["nodePriority"]["gpu-2"] = "2026-11-20T10:40:00Z".into();
    let mut dead = NODEWRIGHT.node("gpu-2", "in_progress", &["setup|1.0.0 apply in_progress"]);
    dead["spec"] = json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]});
    dead["status"]["conditions"] =
        json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-20T11:00:00Z"}]);
    items.extend([dead, NODEWRIGHT.node("gpu-3", "waiting", &[])]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let command = format!("node ignore gpu-2 --dry-run --from - --now {NOW}");
    insta::assert_snapshot!(run(&command).stdin(list).output().transcript());
}

/// The budget allows the eviction since ten seconds: the operator tries again within half a minute.
#[test]
fn a_budget_that_allows_now_refuses_nothing() {
    let condition = json!([{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
        "lastTransitionTime": "2026-11-20T11:59:50Z"}]);
    let mut relaxed = allows_one();
    relaxed["conditions"] = condition;
    let here = pod("web-1", "gpu-1", json!({}), json!({}));
    let items =
        with(draining_since("2026-11-20T11:20:00Z"), [here, budget("web", json!({"app": "web"}), relaxed)]);
    insta::assert_snapshot!(transcript(&items));
}

/// A budget that has refused for ten minutes because of pods that are not ready refuses the next drain as well.
#[test]
fn forecasts_know_budgets_over_pods_that_are_not_ready() {
    let mut items = unready("2026-11-20T08:40:00Z");
    let annotations = items[1]["metadata"]["annotations"].as_object_mut().expect("annotations");
    annotations.retain(|key, _| !key.contains("drainStart"));
    insta::assert_snapshot!(reset(&items, "gpu-1"));
}

/// The preview of a reset of one node.
fn reset(items: &[Value], node: &str) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let command = format!("reset {NAME} --node {node} --dry-run --from - --now {NOW}");
    run(&command).stdin(list).output().transcript()
}

/// A rejected spec of one custom resource stops the work of all.
#[test]
fn an_invalid_spec_stops_the_others() {
    let mut items = draining_since("2026-11-20T11:59:00Z");
    let mut late = NODEWRIGHT.skyhook(
        "waiting",
        json!({"agent": {"version": "1.0.0", "image": "example.com/agent",
        "dependsOn": {"missing": "1.0.0"}}}),
    );
    late["metadata"]["name"] = "late".into();
    items.push(late);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let commands = [format!("reset {NAME} --dry-run"), format!("node status --skyhook {NAME}")];
    let ran = commands.map(|command| {
        run(&format!("{command} --from - --now {NOW}")).stdin(list.as_str()).output().transcript()
    });
    insta::assert_snapshot!(ran.join("\n"));
}

/// The status of a budget that has allowed nothing for ten hours.
fn none_healthy() -> Value {
    let condition = json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
        "lastTransitionTime": "2026-11-20T02:00:00Z"}]);
    json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1,
        "expectedPods": 2, "conditions": condition})
}

/// A drain whose pod is not ready, and whose budget therefore refuses.
fn unready(start: &str) -> Vec<Value> {
    let status =
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]});
    let here = pod("web-1", "gpu-1", json!({}), status);
    with(draining_since(start), [here, budget("web", json!({"app": "web"}), none_healthy())])
}

#[test]
fn a_budget_protects_pods_that_are_not_ready() {
    let items = unready("2026-11-20T08:40:00Z");
    insta::assert_snapshot!(transcript(&items));
    // A PodDisruptionBudget that protects only healthy pods does not block the drain.
    let mut spares = budget("web", json!({"app": "web"}), none_healthy());
    spares["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
    let terminating = json!({"deletionTimestamp": "2026-11-20T11:59:30Z"});
    let leaving = pod("web-1", "gpu-1", terminating, json!({}));
    let items = with(draining_since("2026-11-20T11:58:00Z"), [leaving, spares]);
    assert!(!self::transcript(&items).contains("SKY401 "));
}

#[test]
fn a_webhook_that_refuses_evictions_is_named() {
    let here = pod("vm-1", "gpu-1", json!({}), json!({}));
    let far = budget("other", json!({"app": "other"}), allows_one());
    let items = with(draining_since("2026-11-20T09:30:00Z"), [here, far, webhook()]);
    insta::assert_snapshot!(transcript(&items));
}

#[test]
fn a_refusal_that_an_event_quotes_is_repeated() {
    let here = pod("vm-1", "gpu-1", json!({}), json!({}));
    let far = budget("other", json!({"app": "other"}), allows_one());
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "refused", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "gpu-1"}, "type": "Warning", "reason": "Drain",
        "message": "error evicting pod [shop:vm-1]: admission webhook \"evictions.vm.example\" denied the request: not migratable",
        "lastTimestamp": "2026-11-20T11:59:00Z",
    });
    let items = with(draining_since("2026-11-20T09:30:00Z"), [here, far, webhook(), event]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = run(&format!("diagnose stuck --rule SKY401 --from - --now {NOW}")).stdin(list).output();
    ran.expect_code(2);
    ran.expect_stdout("pod shop/vm-1 is not evicted: error evicting pod [shop:vm-1]: admission webhook");
    ran.expect_stdout("denied the request: not migratable");
}

#[test]
fn a_pod_that_does_not_end_is_named_from_the_start() {
    let leaving = |end: &str| {
        let metadata = json!({"deletionTimestamp": end, "finalizers": ["example.com/hold"]});
        pod("web-1", "gpu-1", metadata, json!({}))
    };
    let far = || budget("other", json!({"app": "other"}), allows_one());
    let start = draining_since("2026-11-20T11:59:40Z");
    insta::assert_snapshot!(transcript(&with(start.clone(), [leaving("2026-11-20T11:59:48Z"), far()])));
    let items = with(start, [leaving("2026-11-20T11:59:48Z"), far()]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let page = run(&format!("status --from - --now {NOW}")).stdin(list).output();
    page.expect_stdout("the drain of gpu-1 waits for pod web-1, which has a finalizer");
    // SKY401 is a warning after two minutes, and an error after ten.
    for (end, code, found) in
        [("2026-11-20T11:57:00Z", 0, "warning SKY401"), ("2026-11-20T11:49:00Z", 2, "error SKY401")]
    {
        let items = with(draining_since("2026-11-20T11:48:00Z"), [leaving(end), far()]);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let ran = run(&format!("diagnose stuck --rule SKY401 --from - --now {NOW}")).stdin(list).output();
        ran.expect_code(code);
        ran.expect_stdout(found);
        ran.expect_stdout("pod shop/web-1 was evicted but does not terminate");
    }
}

/// A server with these objects.
fn served(items: Vec<Value>) -> FakeApi {
    let fake = FakeApi::new().serving(NODEWRIGHT.0);
    items.into_iter().for_each(|item| fake.load(item));
    fake
}

#[expect(clippy::disallowed_methods, reason = "the clock of the program under test")]
fn minutes_ago(minutes: i64) -> String {
    let at = Timestamp::now() - SignedDuration::from_mins(minutes);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[test]
fn wait_says_what_a_drain_waits_for_and_ends_where_it_is_refused() {
    let here = || pod("web-1", "gpu-1", json!({}), json!({}));
    let fake = served(with(draining_since(&minutes_ago(20)), [here()]));
    let kubeconfig = fake.serve();
    let ran = run("wait gpu --timeout 3s").kubeconfig(&kubeconfig.kubeconfig()).output();
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: timed out after 3s: gpu: in_progress, 0 of 1 node done, gpu-1 draining for 20m, 1 pod left\n\
             hint: kubectl skyhook diagnose stuck gpu\n",
            Some(5)
        )
    );
    let budgets = [
        budget("web", json!({"app": "web"}), allows_one()),
        budget("front", json!({"tier": "front"}), allows_one()),
    ];
    let fake = served(with(with(draining_since(&minutes_ago(40)), [here()]), budgets));
    let kubeconfig = fake.serve();
    let ran = run("wait gpu --timeout 20s").kubeconfig(&kubeconfig.kubeconfig()).output();
    ran.expect_code(2);
    ran.expect_stdout("pod shop/web-1 is selected by 2 PodDisruptionBudgets (shop/front and shop/web)");
}

#[test]
fn evictions_webhooks_are_read_from_a_server() {
    let far = budget("other", json!({"app": "other"}), allows_one());
    let here = pod("vm-1", "gpu-1", json!({}), json!({}));
    let fake = served(with(draining_since("2026-11-20T09:30:00Z"), [here, far, webhook()]));
    let kubeconfig = fake.serve();
    let ran = run("diagnose stuck --rule SKY401").kubeconfig(&kubeconfig.kubeconfig()).output();
    ran.expect_code(2);
    ran.expect_stdout("admission webhook evictions.vm.example can refuse evictions");
}

/// A pause stops drains, and custom resources that come later keep waiting.
#[test]
fn previews_of_a_pause_name_drains_and_who_waits() {
    let previews = [["pdb", "nodewright-drain-blocked-pdb"], ["prio-a", "nodewright-two-priorities"]];
    let ran = previews.map(|[name, capture]| {
        run(&format!("pause {name} --dry-run --from tests/clusters/{capture}")).output().transcript()
    });
    insta::assert_snapshot!(ran.join("\n"));
}

/// Previews list the stages behind a refused drain, and add that the rollout does not complete. A pod without a controller
/// does not hide a budget.
#[test]
fn forecasts_name_a_drain_that_is_refused() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1});
    let here = pod("web-1", "gpu-1", json!({}), json!({}));
    let bare = pod("bare", "gpu-1", json!({"ownerReferences": []}), json!({}));
    let budget = budget("web", json!({"app": "web"}), status);
    let mut start = draining_since("2026-11-20T11:00:00Z");
    start[0]["spec"]["drainConfig"] = json!({"force": false});
    let refused = with(start.clone(), [here, budget, bare.clone()]);
    let unmanaged = with(start, [bare]);
    let outputs = [refused, unmanaged].map(|items| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let commands = ["status", "reset gpu --no-pause --dry-run"];
        let ran = commands.map(|command| {
            run(&format!("{command} --from - --now {NOW}")).stdin(list.as_str()).output().transcript()
        });
        ran.join("\n")
    });
    insta::assert_snapshot!(outputs.join("\n"));
}

#[test]
fn only_a_cordon_in_force_is_said_to_stay() {
    let held = draining_since("2026-11-20T11:00:00Z");
    let mut lifted = held.clone();
    lifted[1]["spec"] = json!({});
    for (items, is_held) in [(held, true), (lifted, false)] {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        for (command, note) in [
            ("pause gpu", "- gpu-1 stays cordoned at least until `kubectl skyhook resume gpu`"),
            ("disable gpu", "- gpu-1 stays cordoned at least until `kubectl skyhook enable gpu`"),
            ("node ignore gpu-1", "- gpu-1 stays cordoned while ignored\n"),
        ] {
            let ran = run(&format!("{command} --dry-run --from - --now {NOW}")).stdin(list.as_str()).output();
            assert_eq!(ran.stdout.contains(note), is_held, "{command}\n{}", ran.transcript());
            assert_eq!(ran.stdout.contains("cordoned"), is_held, "{command}\n{}", ran.transcript());
        }
    }
}
