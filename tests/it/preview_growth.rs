//! Effects that grow between the preview of a plan and its application: no changing command applies them unseen.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{PackageRun, SKYHOOK};
use crate::support::sample::some;
use crate::support::terminal::Terminal;
use crate::support::test_cluster::TestCluster;

const FLAVOR: ApiFlavor = ApiFlavor::Skyhook;
const NODES: [&str; 3] = ["gpu-1", "gpu-2", "gpu-3"];

/// The state of the cluster for which a command is made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Complete,
    /// The driver has failed, and its pods have ended.
    Failed,
    /// The agent is being uninstalled.
    Uninstalling,
    /// Only `gpu-1` lacks the driver, and the operator ignores it.
    Ignored,
    /// All nodes lack the driver, and the custom resource is paused.
    Paused,
    /// All nodes lack the driver, and the custom resource is disabled.
    Disabled,
}

/// A change by someone else.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    InterruptAdded,
    ServiceBecomesReboot,
    BudgetRaised,
    PodsToEvict,
    Resumed,
    Deleted,
}

use Meanwhile::{BudgetRaised, Deleted, InterruptAdded, PodsToEvict, Resumed, ServiceBecomesReboot};
use State::{Complete, Disabled, Failed, Ignored, Paused, Uninstalling};

const ALL: [Meanwhile; 6] =
    [InterruptAdded, ServiceBecomesReboot, BudgetRaised, PodsToEvict, Resumed, Deleted];

/// Each changing command whose effects may grow, the state for which it is made, and the changes that do not concern
/// it: a deletion is itself deleted, a command that resumes is not made for a paused custom resource, and a single node
/// or an ended rollout has no pace.
const COMMANDS: [(&str, State, &[Meanwhile]); 14] = [
    ("reset gpu", Complete, &[]),
    ("reset gpu --node gpu-1", Complete, &[]),
    ("reset --node gpu-1", Complete, &[]),
    ("node reset gpu-1 --skyhook gpu", Complete, &[]),
    ("package rerun driver --skyhook gpu --node gpu-1", Complete, &[]),
    ("package retry driver --skyhook gpu --node gpu-1", Failed, &[]),
    ("fix --up-to B4", Failed, &[]),
    ("update-state gpu driver 2.0.0 config in_progress --node gpu-1", Complete, &[]),
    ("uninstall gpu agent --force", Complete, &[]),
    ("uninstall gpu agent --cancel", Uninstalling, &[]),
    ("node unignore gpu-1", Ignored, &[]),
    ("resume gpu", Paused, &[Resumed]),
    ("enable gpu", Disabled, &[Resumed]),
    ("teardown", Complete, &[Deleted]),
];

fn cluster(state: State, meanwhile: Meanwhile) -> TestCluster {
    let interrupt = match meanwhile {
        ServiceBecomesReboot | PodsToEvict => json!({"type": "service", "services": ["containerd"]}),
        _ => Value::Null,
    };
    let mut driver = json!({
        "version": "2.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": false},
    });
    let mut agent = json!({
        "version": "1.0.0", "image": "example.com/agent",
        "uninstall": {"enabled": true, "apply": state == Uninstalling},
    });
    if !interrupt.is_null() {
        driver["interrupt"] = interrupt.clone();
        agent["interrupt"] = interrupt;
    }
    let status = match state {
        Complete => "complete",
        Failed => "erroring",
        Uninstalling | Ignored => "in_progress",
        Paused => "paused",
        Disabled => "disabled",
    };
    let mut gpu = SKYHOOK.skyhook(status, json!({"driver": driver, "agent": agent}));
    gpu["spec"]["interruptionBudget"] = json!({"count": 1});
    let hold = match state {
        Disabled => Some("disable"),
        Paused => Some("pause"),
        _ => (meanwhile == Resumed).then_some("pause"),
    };
    if let Some(hold) = hold {
        gpu["metadata"]["annotations"] = json!({FLAVOR.key(hold): "true"});
    }
    let mut fake = FakeApi::new().serving(FLAVOR).with(SKYHOOK.operator()).with(gpu);
    let [driver, agent] = ["driver|2.0.0 post-interrupt complete", "agent|1.0.0 post-interrupt complete"];
    for name in NODES {
        let mut node = match state {
            Complete => SKYHOOK.node(name, "complete", &[driver, agent]),
            Failed => SKYHOOK.node(name, "erroring", &["driver|2.0.0 apply erroring", agent]),
            Uninstalling => SKYHOOK.node(name, "in_progress", &[driver, "agent|1.0.0 uninstall in_progress"]),
            Paused | Disabled => SKYHOOK.node(name, status, &[agent]),
            Ignored if name == "gpu-1" => SKYHOOK.node(name, "waiting", &[agent]),
            Ignored => SKYHOOK.node(name, "complete", &[driver, agent]),
        };
        if state == Ignored && name == "gpu-1" {
            node["metadata"]["labels"] = json!({FLAVOR.key("ignore"): "true"});
        }
        fake = fake.with(node);
        if state == Failed {
            fake = fake.with(ended_pod(name));
        }
    }
    TestCluster::serving(fake)
}

fn ended_pod(node: &str) -> Value {
    let run = PackageRun { node, at: "2026-11-20T11:00:00Z", ..PackageRun::default() };
    let name = format!("gpu-driver-2.0.0-apply-{node}");
    let mut pod = SKYHOOK.pod(&name, &run, "Failed", &["driver-apply failed"]);
    let of_version = pod.to_string().replace("1.0.0", "2.0.0");
    pod = serde_json::from_str(&of_version).expect("JSON");
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": FLAVOR.api_version(), "kind": FLAVOR.kind(), "name": "gpu",
        "uid": "11111111-0000-4000-8000-000000000000", "controller": true,
    }]);
    pod
}

fn carry_out(fake: &FakeApi, meanwhile: Meanwhile) {
    let mut gpu = fake.get("skyhooks", "", "gpu").expect("the custom resource exists");
    let packages = &mut gpu["spec"]["packages"];
    match meanwhile {
        InterruptAdded | ServiceBecomesReboot => {
            packages["driver"]["interrupt"] = json!({"type": "reboot"});
            packages["agent"]["interrupt"] = json!({"type": "reboot"});
            gpu["metadata"]["generation"] = 2.into();
        }
        BudgetRaised => {
            gpu["spec"]["interruptionBudget"] = json!({"percent": 100});
            gpu["metadata"]["generation"] = 2.into();
        }
        PodsToEvict => {
            for name in NODES {
                fake.load(workload(name));
            }
        }
        Resumed => gpu["metadata"]["annotations"] = json!({}),
        Deleted => gpu["metadata"]["deletionTimestamp"] = "2026-11-28T10:00:00Z".into(),
    }
    fake.load(gpu);
}

fn workload(node: &str) -> Value {
    let name = format!("web-{node}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences":
            [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/web"}]},
        "status": {"phase": "Running"},
    })
}

#[test]
fn no_saved_plan_is_applied_after_its_effects_have_grown() {
    let mut silent = Vec::new();
    for (words, state, unconcerned) in some(COMMANDS, 4) {
        for meanwhile in ALL.into_iter().filter(|meanwhile| !unconcerned.contains(meanwhile)) {
            let cluster = cluster(state, meanwhile);
            let file = cluster.state.path().join("plan.json").display().to_string();
            let saved = cluster.run(&format!("{words} --plan-out {file}"));
            assert_eq!(saved.code, Some(0), "{}", saved.transcript());
            carry_out(&cluster.fake, meanwhile);
            let applied = cluster.run(&format!("apply-plan {file} --confirm"));
            let says = applied.stderr.contains("since the plan in")
                && applied.stderr.contains("nothing was changed");
            if applied.code != Some(3) || !says || !cluster.writes().is_empty() {
                silent.push(format!(
                    "{words}: {meanwhile:?}\n{}{}",
                    saved.transcript(),
                    applied.transcript()
                ));
            }
        }
    }
    assert!(silent.is_empty(), "{} of the plans:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn no_plan_is_applied_after_its_effects_have_grown_during_the_question() {
    let mut silent = Vec::new();
    for (words, state, unconcerned) in some(COMMANDS, 4) {
        for meanwhile in ALL.into_iter().filter(|meanwhile| !unconcerned.contains(meanwhile)) {
            let cluster = cluster(state, meanwhile);
            let asks = |words: &str| {
                let asked = cluster.command(&format!("{words} --dry-run -o json")).output();
                assert!(matches!(asked.code, Some(0 | 2)), "{}", asked.transcript());
                asked.json()["grade"].as_str().expect("a grade").to_owned()
            };
            let (question, answer) = match asks(words).as_str() {
                "B1" | "B2" => ("Proceed? [y/N] ", "y\n".to_owned()),
                _ => ("type the name", String::new()),
            };
            let mut terminal = Terminal::of(&cluster, words, question);
            let answer = if answer.is_empty() {
                terminal.expect(": ");
                let output = terminal.expect(": ").trim_end_matches(": ").to_owned();
                let (_, name) = output.rsplit_once(": ").expect("the text to type");
                format!("{name}\n")
            } else {
                answer
            };
            carry_out(&cluster.fake, meanwhile);
            let (output, code) = terminal.answer(answer.as_bytes());
            // Only line breaks depend on the width of the terminal.
            let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
            let says = output.contains("since the preview; nothing was changed");
            if code != 3 || !says || !cluster.writes().is_empty() {
                silent.push(format!("{words}: {meanwhile:?}\n{output} [{code}]"));
            }
        }
    }
    assert!(silent.is_empty(), "{} of the commands:\n{}", silent.len(), silent.join("\n"));
}
