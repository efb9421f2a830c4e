//! Large clusters built without captures, with nodes and custom resources but without pods.

use std::collections::BTreeMap;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Map, Value, json};

use super::fleet::{Random, Scheme};

/// A custom resource, and its progress on each of its nodes.
pub struct CustomResource {
    pub name: &'static str,
    pub priority: i64,
    /// Additional fields of the spec.
    pub spec: Value,
    /// The annotation that stops it: `pause` or `disable`.
    pub held: Option<&'static str>,
    pub status: &'static str,
    /// Each package with its dependency; empty for none.
    pub packages: &'static [(&'static str, &'static str)],
    pub on: BTreeMap<String, NodeProgress>,
}

/// The progress of a custom resource on a node.
#[derive(Clone)]
pub struct NodeProgress {
    pub status: &'static str,
    /// Stage and state of the first packages, in the order of the custom resource; the others have not begun.
    pub entries: Vec<(&'static str, &'static str)>,
}

pub const DONE: (&str, &str) = ("config", "complete");

impl NodeProgress {
    pub fn new(status: &'static str, entries: &[(&'static str, &'static str)]) -> NodeProgress {
        NodeProgress { status, entries: entries.to_vec() }
    }
}

impl CustomResource {
    pub fn new(name: &'static str, priority: i64) -> CustomResource {
        CustomResource {
            name,
            priority,
            spec: json!({}),
            held: None,
            status: "in_progress",
            packages: &[("tool", "")],
            on: BTreeMap::new(),
        }
    }

    pub fn with_progress(mut self, nodes: &[String], progress: &NodeProgress) -> CustomResource {
        self.on.extend(nodes.iter().map(|node| (node.clone(), progress.clone())));
        self
    }
}

/// Creates this many node names, in random order.
pub fn names(scheme: Scheme, count: usize, dice: &mut Random) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| scheme.name(n, dice)).collect();
    for n in (1..names.len()).rev() {
        names.swap(n, dice.roll(n + 1));
    }
    names
}

/// A cluster with these custom resources and their nodes; `taints` by node name.
pub fn cluster(
    of: ApiFlavor,
    custom_resources: &[CustomResource],
    taints: &BTreeMap<String, Value>,
    dice: &mut Random,
) -> Value {
    let mut items: Vec<Value> =
        custom_resources.iter().map(|custom_resource| custom(of, custom_resource)).collect();
    let all: std::collections::BTreeSet<&String> =
        custom_resources.iter().flat_map(|c| c.on.keys()).collect();
    for name in all {
        items.push(node(of, custom_resources, name, taints.get(name), dice));
    }
    for (kind, version) in [("Pod", "v1"), ("PodDisruptionBudget", "policy/v1")] {
        items.push(json!({"apiVersion": version, "kind": format!("{kind}List"), "items": []}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn custom(of: ApiFlavor, custom_resource: &CustomResource) -> Value {
    let mut packages = Map::new();
    for (package, before) in custom_resource.packages {
        let mut spec = json!({"version": "1.0.0", "image": format!("example.com/{package}")});
        if !before.is_empty() {
            spec["dependsOn"] = json!({*before: "1.0.0"});
        }
        packages.insert((*package).to_owned(), spec);
    }
    let mut spec = json!({
        "priority": custom_resource.priority, "packages": packages,
        "nodeSelectors": {"matchLabels": {format!("custom_resource-{}", custom_resource.name): "yes"}},
    });
    for (key, value) in custom_resource.spec.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let count =
        |status: &str| custom_resource.on.values().filter(|progress| progress.status == status).count();
    let (matched, done) = (custom_resource.on.len(), count("complete"));
    let statuses: Map<String, Value> =
        custom_resource.on.iter().map(|(node, progress)| (node.clone(), progress.status.into())).collect();
    let begun = custom_resource
        .on
        .iter()
        .filter(|(_, progress)| ["in_progress", "erroring"].contains(&progress.status));
    let begun: Map<String, Value> =
        begun.map(|(node, _)| (node.clone(), "2026-11-20T10:05:00Z".into())).collect();
    let annotations: Map<String, Value> =
        custom_resource.held.iter().map(|what| (of.key(what), "true".into())).collect();
    json!({
        "apiVersion": of.api_version(), "kind": of.kind(),
        "metadata": {"name": custom_resource.name, "uid": format!("uid-{}", custom_resource.name), "generation": 1,
            "creationTimestamp": "2026-11-20T10:00:00Z", "finalizers": [of.finalizer()], "annotations": annotations},
        "spec": spec,
        "status": {
            "status": custom_resource.status, "observedGeneration": 1, "nodeStatus": statuses, "nodePriority": begun,
            "completeNodes": format!("{done}/{matched}"), "nodesInProgress": count("in_progress"),
            "compartmentStatuses": {"__default__": {
                "matched": matched, "ceiling": matched, "completed": done, "inProgress": count("in_progress"),
                "progressPercent": 100 * done / matched.max(1),
                "batchState": {"currentBatch": 1, "completedNodes": done, "failedNodes": count("erroring")},
            }},
        },
    })
}

fn node(
    of: ApiFlavor,
    custom_resources: &[CustomResource],
    name: &str,
    taint: Option<&Value>,
    dice: &mut Random,
) -> Value {
    let [zone, instance, image, kernel] = [3, 3, 2, 3].map(|sides| dice.roll(sides));
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": format!("eu-{zone}"),
        "node.kubernetes.io/instance-type": format!("p{instance}.48xlarge"),
    });
    let mut annotations = json!({});
    for custom_resource in custom_resources {
        let Some(progress) = custom_resource.on.get(name) else {
            continue;
        };
        labels[format!("custom_resource-{}", custom_resource.name)] = "yes".into();
        let entries = custom_resource.packages.iter().zip(&progress.entries);
        let state: Map<String, Value> = entries.map(|((package, _), (stage, state))| {
            let entry = json!({"name": package, "version": "1.0.0", "image": format!("example.com/{package}"),
                "stage": stage, "state": state, "restarts": if *state == "erroring" { 4 } else { 0 }});
            (format!("{package}|1.0.0"), entry)
        }).collect();
        annotations[of.key(&format!("status_{}", custom_resource.name))] = progress.status.into();
        annotations[of.key(&format!("nodeState_{}", custom_resource.name))] =
            Value::Object(state).to_string().into();
    }
    let taints: Vec<&Value> = taint.into_iter().collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-11-20T09:00:00Z",
            "labels": labels, "annotations": annotations},
        "spec": {"taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T09:00:00Z"}],
            "nodeInfo": {"osImage": format!("Ubuntu 2{}.04", 2 + 2 * image), "kernelVersion": format!("6.{}.0", 5 + kernel),
                "kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.1.0"},
        },
    })
}
