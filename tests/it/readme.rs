//! The commands in the README and in docs are run as shown.

use crate::support::run::run;

/// The lines after `$ ` in code blocks, without the transcripts that the end-to-end tests run.
fn commands() -> Vec<String> {
    let pages = ["README.md", "docs/commands.md"].map(|page| std::fs::read_to_string(page).expect("a page"));
    pages
        .concat()
        .split("<!-- /transcript -->")
        .filter_map(|part| part.split("<!-- transcript: ").next())
        .flat_map(str::lines)
        .filter_map(|l| l.strip_prefix("$ "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn first_readme_command_prints_what_is_stuck() {
    let commands = commands();
    let words = commands[0].strip_prefix("cargo run --quiet -- ").expect("the first command");
    insta::assert_snapshot!(run(words).output().transcript());
    assert_eq!(commands[1], "tests/run");
}

/// The other commands need a cluster: run them on the capture of the first README command.
#[test]
fn documented_commands_succeed() {
    let mut ran = 0;
    for command in commands() {
        let Some(words) = command.strip_prefix("kubectl skyhook ") else {
            continue;
        };
        // `collect` needs a live cluster, and has its own tests.
        if words.starts_with("collect ") {
            continue;
        }
        let words = match words.split_once(" --from ") {
            Some((words, _)) => words,
            None => words,
        };
        let done = run(&format!("{words} --from tests/clusters/deleted-while-erroring")).output();
        assert_eq!(done.stderr.lines().filter(|l| l.starts_with("error")).count(), 0, "{command}");
        let stuck = words.starts_with("diagnose");
        assert_eq!(done.code, Some(if stuck { 2 } else { 0 }), "{command}");
        assert_ne!(done.stdout, "", "{command}");
        ran += 1;
    }
    assert!(ran >= 5, "{ran}");
}

/// The kinds whose lists are sufficient without `collect`.
const KINDS: [&str; 10] = [
    "nodes",
    "skyhooks.skyhook.nvidia.com",
    "deploymentpolicies.skyhook.nvidia.com",
    "pods",
    "events",
    "deployments",
    "poddisruptionbudgets",
    "services",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
];

/// The Deployment of a running operator; the capture has none.
fn operator() -> Option<serde_json::Value> {
    Some(serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "skyhook-operator-controller-manager", "namespace": "skyhook",
            "labels": {"control-plane": "controller-manager", "app.kubernetes.io/version": "v0.17.0"},
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "manager", "image": "ghcr.io/nvidia/skyhook/operator:v0.17.0"},
        ]}}},
        "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1},
    }))
}

/// The verdict on the `kubectl get KIND -A -o json` files of a healthy cluster for these kinds.
fn verdict_of(kinds: &[&str]) -> String {
    let text = std::fs::read_to_string("tests/clusters/complete/cluster.json").expect("a capture");
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let directory = tempfile::tempdir().expect("a directory");
    for kind in kinds {
        let name = kind.split('.').next().expect("a name").to_owned();
        let of_it = |item: &&serde_json::Value| {
            let kind = item["kind"].as_str().expect("a kind").to_lowercase();
            name == format!("{kind}s") || name == format!("{}ies", kind.trim_end_matches('y'))
        };
        let items: Vec<_> = all["items"]
            .as_array()
            .expect("items")
            .iter()
            .filter(of_it)
            .cloned()
            .chain(operator().into_iter().filter(|_| name == "deployments"))
            .collect();
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
        let file = directory.path().join(format!("{kind}.json"));
        std::fs::write(file, list.to_string()).expect("a write");
    }
    let ran = run(&format!("diagnose stuck -o json --from {}", directory.path().display())).output();
    ran.json()["verdict"].as_str().expect("a verdict").to_owned()
}

#[test]
fn documented_kubectl_lists_suffice_for_a_healthy_verdict() {
    assert_eq!(verdict_of(&KINDS), "Healthy");
    let without: Vec<&str> = KINDS.into_iter().filter(|k| !k.ends_with("webhookconfigurations")).collect();
    assert_eq!(verdict_of(&without), "NotFullyChecked");
}
