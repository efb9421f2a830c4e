//! `events --watch`: a line per new event or count, until the timeout or Ctrl-C.

use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::NODEWRIGHT;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{Child, RunOutput, run};

fn event(count: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Skyhook", "name": "gpu"}, "type": "Warning", "reason": "Failed",
        "message": "package driver of gpu fails", "count": count,
        "firstTimestamp": "2026-11-20T09:00:00Z", "lastTimestamp": format!("2026-11-20T10:00:0{count}Z"),
    })
}

fn cluster() -> FakeApi {
    let packages = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let node = NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]);
    NODEWRIGHT.serve(packages).with(node).with(event(1))
}

fn watch(fake: &FakeApi, words: &str, child: &Child) -> RunOutput {
    let served = fake.serve();
    run(&format!("events -w {words}")).kubeconfig(&served.kubeconfig()).child(child).output()
}

#[test]
fn a_pipe_gets_a_line_per_count_until_interrupted() {
    let fake = cluster();
    // A lost connection repeats the first request.
    fake.on("LIST events").nth(3).after(|it| it.store.load(event(3)));
    let child = Child::default();
    fake.on("LIST events").nth(7).after(child.interrupt());
    let ran = watch(&fake, "gpu", &child);
    assert_eq!(
        ran.parts(),
        (
            "10:00:01 1 Failed package driver of gpu fails\n10:00:03 3 Failed package driver of gpu fails\n",
            "",
            Some(130)
        ),
        "{}",
        ran.transcript()
    );
}

#[test]
fn a_timeout_ends_with_5() {
    let ran = watch(&cluster(), "--timeout 1s", &Child::default());
    assert_eq!(
        ran.parts(),
        ("10:00:01 1 Failed package driver of gpu fails\n", "error: timed out after 1s\n", Some(5))
    );
}

#[test]
fn files_and_documents_are_refused() {
    for words in ["events -w --from tests/clusters/complete", "events -w -o json", "events --timeout 1s"] {
        let ran = run(words).output();
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(64)), "{words}");
    }
}

/// Events of nodes that a custom resource selects need not mention it; those of other objects do.
#[test]
fn events_of_selected_nodes_are_shown() {
    let event = |kind: &str, name: &str, message: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.1"), "namespace": "default"},
            "involvedObject": {"kind": kind, "name": name}, "type": "Normal", "reason": "NodeNotSchedulable",
            "message": message, "count": 2, "firstTimestamp": "2026-11-20T09:00:00Z", "lastTimestamp": "2026-11-20T09:50:00Z",
        })
    };
    let mut items = vec![SKYHOOK.skyhook("in_progress", json!({}))];
    for name in ["gpu-1", "gpu-2"] {
        items.push(SKYHOOK.node(name, "in_progress", &[]));
        items.push(event("Node", name, &format!("Node {name} status is now: NodeNotSchedulable")));
    }
    items.push(event("Pod", "web", "Started"));
    let input = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = run("events --from - --now 2026-11-20T10:00:00Z").stdin(input).output();
    assert_eq!(
        ran.parts(),
        (
            "LAST  COUNT  REASON              EVENT\n\
             10m   4      NodeNotSchedulable  node/gpu-[1-2]: Node gpu-[1-2] status is now: NodeNotSchedulable\n",
            "",
            Some(0)
        )
    );
}

/// Those about the node, about pods and jobs on it, and those that name it.
#[test]
fn events_of_one_node_are_shown() {
    let ran = run("events --node node-1 --from tests/clusters/rollout-stopped").output();
    assert_eq!(
        ran.parts(),
        (
            "LAST  COUNT  REASON   EVENT\n\
             16s   1      Apply    node/node-1: Applying package driver:2.0.1 stage apply\n\
             16s   1      Apply    skyhook/gpu-tune: Applying package driver:2.0.1 to node node-1 stage apply\n\
             1s    6      Apply    node/node-1: Package driver:2.0.1 state erroring\n\
             0s    5      BackOff  pod/gpu-tune-driver-2-0-1-apply-node-1-b7892419: Back-off restarting failed container \
             driver-apply\n",
            "",
            Some(0)
        )
    );
    let ran = run("events --node node-9 --from tests/clusters/rollout-stopped").output();
    assert_eq!(
        ran.parts(),
        ("", "error: node \"node-9\" not found\nhint: did you mean node-1, node-2, node-3?\n", Some(1))
    );
}

/// The controller of Jobs does not name the custom resource in its messages, but its name begins that of the Job.
#[test]
fn warnings_about_package_jobs_are_shown() {
    let about = |kind: &str, name: &str, namespace: &str| {
        let mut event = event(1);
        event["metadata"] = json!({"name": format!("{name}.1"), "namespace": namespace});
        event["involvedObject"] = json!({"kind": kind, "name": name, "namespace": namespace});
        event["reason"] = "BackoffLimitExceeded".into();
        event["message"] = "Job has reached the specified backoff limit".into();
        event
    };
    let fake = cluster().with(NODEWRIGHT.operator()).with(about(
        "Job",
        "gpu-driver-1-0-0-apply-node-1",
        "nodewright",
    ));
    let others = [
        ("Job", "gpu-burn-in", "shop"),
        ("Job", "other-gpu", "nodewright"),
        ("ReplicaSet", "gpu-x", "nodewright"),
    ];
    let fake = others
        .into_iter()
        .fold(fake, |fake, (kind, name, namespace)| fake.with(about(kind, name, namespace)));
    let items = json!({"apiVersion": "v1", "kind": "List", "items": fake.objects()}).to_string();
    let ran = run("events gpu --no-headers --now 2026-11-20T11:00:00Z --from -").stdin(items).output();
    assert_eq!(
        ran.parts(),
        (
            "59m  1  BackoffLimitExceeded  job/gpu-driver-1-0-0-apply-node-1: Job has reached the specified backoff limit\n\
             59m  1  Failed                package driver of gpu fails\n",
            "",
            Some(0)
        )
    );
}

/// The name of a deleted job still names its node; a node whose name is a part of another's is not meant.
#[test]
fn events_of_deleted_jobs_belong_to_their_node() {
    let about = |name: &str| {
        let mut event = event(1);
        event["metadata"] = json!({"name": format!("{name}.1"), "namespace": "nodewright"});
        event["involvedObject"] = json!({"kind": "Job", "name": name, "namespace": "nodewright"});
        event["reason"] = "Completed".into();
        event["message"] = "Job completed".into();
        event
    };
    let nodes = ["node-1", "node-1-b"].map(|name| NODEWRIGHT.node(name, "complete", &[]));
    let fake = cluster().with(NODEWRIGHT.operator());
    let fake = nodes.into_iter().fold(fake, FakeApi::with);
    let fake = ["gpu-driver-1-0-0-apply-node-1-29f5fce9", "gpu-driver-1-0-0-apply-node-1-b-5f0c1a22"]
        .into_iter()
        .fold(fake, |fake, name| fake.with(about(name)));
    let items = json!({"apiVersion": "v1", "kind": "List", "items": fake.objects()}).to_string();
    let show = |node: &str| {
        let words = format!("events --node {node} --no-headers --now 2026-11-20T11:00:00Z --from -");
        run(&words).stdin(items.clone()).output().stdout
    };
    assert_eq!(
        show("node-1"),
        "59m  1  Completed  job/gpu-driver-1-0-0-apply-node-1-29f5fce9: Job completed\n"
    );
    assert_eq!(
        show("node-1-b"),
        "59m  1  Completed  job/gpu-driver-1-0-0-apply-node-1-b-5f0c1a22: Job completed\n"
    );
}

/// The operator writes its events about the node, and names the custom resource in the message.
#[test]
fn events_of_another_custom_resource_on_a_shared_node_are_left_out() {
    let applying = |name: &str| {
        let mut event = event(1);
        event["metadata"]["name"] = name.into();
        event["involvedObject"] = json!({"kind": "Node", "name": "node-1"});
        event["type"] = "Normal".into();
        event["reason"] = "Apply".into();
        event["message"] =
            format!("Applying package [driver:1.0.0] from [nodewright:{name}] stage [apply]").into();
        event
    };
    let mut other = NODEWRIGHT.skyhook("in_progress", json!({"driver": {"version": "1.0.0"}}));
    other["metadata"]["name"] = "net".into();
    other["metadata"]["uid"] = "22222222-0000-4000-8000-000000000000".into();
    let fake = cluster().with(other).with(applying("gpu")).with(applying("net"));
    let items = json!({"apiVersion": "v1", "kind": "List", "items": fake.objects()}).to_string();
    let show = |words: &str| {
        let words = format!("events {words} --no-headers --now 2026-11-20T11:00:00Z --from -");
        run(&words).stdin(items.clone()).output().stdout
    };
    let own = "\
59m  1  Apply   node/node-1: Applying package driver:1.0.0 stage apply
59m  1  Failed  package driver of gpu fails
";
    assert_eq!(show("gpu"), own);
    let all = "\
59m  1  Apply   node/node-1: Applying package driver:1.0.0 of gpu stage apply
59m  1  Apply   node/node-1: Applying package driver:1.0.0 of net stage apply
59m  1  Failed  package driver of gpu fails
";
    assert_eq!(show(""), all);
}
