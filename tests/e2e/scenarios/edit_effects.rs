//! Compares the effects that `lint` and previews announce with the actions of the real operator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixtures::POLICIES;
use crate::{
    cluster::Cluster,
    manifest::{Package, Skyhook, package, skyhook},
    rollout::Rollout,
    view::complete,
};

/// An edit counts as finished after this time without a new pod: the operator reacts within a second.
const QUIET: Duration = Duration::from_secs(3);

/// Per package: the stages that run, and the nodes on which they run.
type Outcome = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>;

/// Runs one custom resource through all kinds of edits.
pub fn of_all_kinds(cluster: &Cluster) {
    for number in 4..=6 {
        let labels = json!({"kubernetes.io/os": "linux", "half": "second"});
        cluster.add_node(&format!("node-{number}"), labels);
    }
    let tuning = || package("tuning", "1.0.0");
    let driver = || package("driver", "2.0.0").after("tuning", "1.0.0");
    let of = |packages: Vec<Package>| {
        let whole = skyhook("gpu").set("interruptionBudget", json!({"count": 2}));
        packages.into_iter().fold(whole, Skyhook::with)
    };
    let step = |what: &str, edit: Skyhook| follows(cluster, what, &edit);

    step("a new custom resource", of(vec![tuning(), driver()]));
    step("nothing", of(vec![tuning(), driver()]));
    let env = json!([{"name": "MODE", "value": "fast"}]);
    step("env", of(vec![tuning().set("env", env), driver()]));
    let resources = json!({
        "cpuRequest": "50m", "cpuLimit": "100m", "memoryRequest": "32Mi", "memoryLimit": "64Mi",
    });
    step("resources", of(vec![tuning().set("resources", resources), driver()]));
    step("a newer version", of(vec![tuning(), package("driver", "2.1.0").after("tuning", "1.0.0")]));
    let driver = || package("driver", "2.1.0").after("tuning", "1.0.0");
    let config = |value: &str| json!({"grub.conf": value, "motd": "hello"});
    step("a configMap", of(vec![tuning().set("configMap", config("a")), driver()]));
    step("a key of the configMap", of(vec![tuning().set("configMap", config("b")), driver()]));
    let interrupts = json!({"grub.conf": {"type": "service", "services": ["containerd"]}});
    let tuned = |value: &str| {
        let whole = tuning().set("configMap", config(value));
        whole.set("configInterrupts", interrupts.clone())
    };
    step("configInterrupts", of(vec![tuned("b"), driver()]));
    step("a key with an interrupt", of(vec![tuned("c"), driver()]));
    let agent = || package("agent", "1.0.0").uninstallable();
    step("another package", of(vec![tuned("c"), driver(), agent()]));
    step("priority", of(vec![tuned("c"), driver(), agent()]).set("priority", json!(10)));
    step("budget", of(vec![tuned("c"), driver(), agent()]).set("interruptionBudget", json!({"count": 1})));
    step("a dependency", of(vec![tuned("c"), driver(), agent().after("tuning", "1.0.0")]));
    let narrow = json!({"matchExpressions": [{"key": "half", "operator": "DoesNotExist"}]});
    let half = of(vec![tuned("c"), driver(), agent(), package("extra", "1.0.0")]);
    step("a narrower selector and a package", half.set("nodeSelectors", narrow));
    let all = || vec![tuned("c"), driver(), agent(), package("extra", "1.0.0")];
    step("a wider selector", of(all()));
    step("a package leaves the spec", of(vec![tuned("c"), driver(), agent()]));
    let with_agent = |agent: Package| of(vec![tuned("c"), driver(), agent]);
    step("uninstall.apply and a newer version", with_agent(package("agent", "1.1.0").uninstalling()));
    step("a newer version after the uninstall", with_agent(package("agent", "1.2.0").uninstalling()));
    step("no uninstall.apply", with_agent(package("agent", "1.2.0").uninstallable()));
    step("uninstall.apply", with_agent(package("agent", "1.2.0").uninstalling()));
    step("an uninstalled package leaves the spec", of(vec![tuned("c"), driver()]));
    let rebooting = || driver().interrupts("reboot");
    step("an interrupt", of(vec![tuned("c"), rebooting()]));
    let newer = package("driver", "2.2.0").after("tuning", "1.0.0").interrupts("reboot");
    step("a newer version with an interrupt", of(vec![tuned("c"), newer]));
}

/// Downgrades, policies, taints and pauses; also previews of commands, which announce effects as `lint` does.
pub fn of_policies_and_pauses(cluster: &Cluster) {
    for number in 4..=6 {
        let labels = json!({"kubernetes.io/os": "linux"});
        cluster.add_node(&format!("node-{number}"), labels);
    }
    let careful = json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "DeploymentPolicy", "metadata": {"name": "careful"},
        "spec": {"default": {"budget": {"count": 3}, "strategy": {"linear": {"initialBatch": 1, "delta": 1}}}},
    });
    cluster.api.post(POLICIES, &careful).expect("a policy");
    let driver = |version: &str| package("driver", version).after("tuning", "1.0.0");
    let of = |more: Vec<Package>| {
        let whole = skyhook("gpu").with(package("tuning", "1.0.0"));
        more.into_iter().fold(whole, Skyhook::with)
    };
    let limited = |more| of(more).set("interruptionBudget", json!({"count": 2}));
    let careful = |more| of(more).set("deploymentPolicy", json!("careful"));
    let step = |what: &str, edit: Skyhook| follows(cluster, what, &edit);

    step("a new custom resource", limited(vec![driver("2.1.0")]));
    step("an older version", limited(vec![driver("2.0.0")]));
    step("a policy", careful(vec![driver("2.0.0")]));
    let agent = || package("agent", "1.0.0").uninstallable();
    step("a package", careful(vec![driver("2.0.0"), agent()]));
    step("an older one", careful(vec![driver("1.9.0"), agent()]));
    let required = |more| careful(more).set("runtimeRequired", json!(true));
    step("runtimeRequired", required(vec![driver("1.9.0"), agent()]));
    let extra = || package("extra", "1.0.0");
    step("a package that the runtime requires", required(vec![driver("1.9.0"), agent(), extra()]));

    let newer = required(vec![driver("2.2.0"), agent(), extra()]);
    step("a pause and a newer version", newer.annotated("pause", "true"));
    foretells(cluster, "resume", &["resume", "gpu"]);
    foretells(cluster, "a reset of a node", &["reset", "gpu", "--node", "node-2"]);
    foretells(cluster, "a reset", &["reset", "gpu"]);
    let rerun = ["package", "rerun", "extra", "--skyhook", "gpu", "--all-nodes"];
    foretells(cluster, "a rerun", &rerun);
    foretells(cluster, "an uninstall", &["uninstall", "gpu", "agent"]);
    let cancel = ["uninstall", "gpu", "agent", "--cancel"];
    foretells(cluster, "its cancellation", &cancel);
}

/// Lints an edit, applies it, and compares.
#[track_caller]
fn follows(cluster: &Cluster, what: &str, edit: &Skyhook) {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    std::fs::write(file.path(), edit.body().to_string()).expect("written");
    let path = file.path().to_str().expect("text");
    let lint = cluster.ours(&["lint", "--fail-on", "never", "-f", path]);
    compared(cluster, what, &lint, || replaced(cluster, edit));
}

/// Previews a command, runs it, and compares.
#[track_caller]
fn foretells(cluster: &Cluster, what: &str, command: &[&str]) {
    let preview = cluster.ours(&[command, &["--dry-run"]].concat());
    compared(cluster, what, &preview["consequences"], || {
        cluster.ours(&[command, &["--confirm"]].concat());
        cluster.rollout("gpu")
    });
}

/// Asserts that the effects of a change are those that were announced.
#[track_caller]
fn compared<'a>(cluster: &'a Cluster, what: &str, announced: &Value, change: impl FnOnce() -> Rollout<'a>) {
    let predicted = predicted(announced);
    let before = cluster.kubelet.all_begun().len();
    let gpu = change();
    quiet(cluster, &gpu);
    let begun = cluster.kubelet.all_begun().split_off(before);
    assert_eq!(predicted, actual(&begun), "{what}: {announced:#}");
    let overlapping = announced["rollouts"][0]["batchesMayOverlap"] == true;
    for effect in announced["effects"].as_array().into_iter().flatten() {
        let name = effect["package"].as_str().expect("a name");
        let most = at_once(&begun, name);
        // Effects on nodes chosen by name have no `atOnce`.
        let Some(allowed) = effect["atOnce"].as_u64() else {
            continue;
        };
        // Two batches at once happened in 3 of 20 runs.
        let allowed = if overlapping { 2 * allowed } else { allowed };
        // Not an equality: a node with a single stage counts as working only at the start of that stage.
        assert!(
            most <= allowed as usize,
            "{what}: {name} on {most} nodes at once, {allowed} announced: {begun:?}"
        );
    }
}

/// Creates the custom resource, or replaces its spec and adds its annotations.
fn replaced<'a>(cluster: &'a Cluster, edit: &Skyhook) -> Rollout<'a> {
    let rollout = cluster.rollout(&edit.name);
    let live = cluster.api.find(&rollout.path()).expect("the API server responds");
    let Some(mut live) = live else {
        return cluster.apply(edit);
    };
    live["spec"] = edit.spec.clone();
    for (key, value) in &edit.annotations {
        live["metadata"]["annotations"][key] = json!(value);
    }
    cluster.api.put(&rollout.path(), &live).expect("the edit is accepted");
    rollout
}

/// Waits until the custom resource is complete or paused, and no pod has started for a while.
#[track_caller]
fn quiet(cluster: &Cluster, gpu: &Rollout<'_>) {
    let mut begun = usize::MAX;
    let mut since = Instant::now();
    cluster.await_that("the edit is carried out", || {
        let now = cluster.kubelet.all_begun().len();
        let view = gpu.view();
        let over = (complete().holds)(&view) || view.status() == "paused";
        if now != begun || !over {
            (begun, since) = (now, Instant::now());
        }
        since.elapsed() >= QUIET
    });
}

fn predicted(lint: &Value) -> Outcome {
    let effects = lint["effects"].as_array().expect("effects");
    let texts = |list: &Value| -> BTreeSet<String> {
        let all = list.as_array().expect("a list").iter();
        all.map(|text| text.as_str().expect("text").to_owned()).collect()
    };
    let all = effects.iter().map(|effect| {
        let name = effect["package"].as_str().expect("a name").to_owned();
        (name, (texts(&effect["stages"]), texts(&effect["nodes"])))
    });
    all.filter(|(_, (stages, _))| !stages.is_empty()).collect()
}

fn actual(begun: &[[String; 3]]) -> Outcome {
    let mut outcome = Outcome::new();
    for [package, stage, node] in begun {
        let (stages, nodes) = outcome.entry(package.clone()).or_default();
        stages.insert(stage.clone());
        nodes.insert(node.clone());
    }
    outcome
}

/// Maximum number of nodes that are between the first and the last stage of a package at the same time.
fn at_once(begun: &[[String; 3]], package: &str) -> usize {
    let own = || begun.iter().enumerate().filter(|(_, [name, ..])| name == package);
    let nodes: BTreeSet<&String> = own().map(|(_, [_, _, node])| node).collect();
    let spans = nodes.iter().map(|node| {
        let mut of_node = own().filter(|(_, [_, _, on])| on == *node).map(|(at, _)| at);
        let first = of_node.next().expect("each node has a stage");
        (first, of_node.next_back().unwrap_or(first))
    });
    let spans: Vec<(usize, usize)> = spans.collect();
    let working = |at: usize| spans.iter().filter(|(first, last)| (*first..=*last).contains(&at)).count();
    (0..begun.len()).map(working).max().unwrap_or(0)
}
