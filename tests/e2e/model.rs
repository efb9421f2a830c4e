//! Simulates the operator of the newer generation, which is not available (see README.md): writes what such
//! an operator was observed to write to nodes, NodeWrights and Jobs. The real Job controller and the
//! simulated kubelet do the rest. The scenarios therefore test how our binary reads such a cluster, and prove
//! nothing about the operator.

mod jobs;

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::Cluster,
    operator::{self, VERSION},
    tools::Tools,
};

pub const PREFIX: &str = "nodewright.nvidia.com";
pub const NODEWRIGHTS: &str = "/apis/nodewright.nvidia.com/v1alpha1/nodewrights";
const NAMESPACE: &str = "nodewright";
/// Version of the simulated operator.
pub const PLAYED: &str = "v0.20.0";

/// Installs the CRDs of the newer generation: those of the older one, renamed, which accept unknown fields
/// for the new ones.
pub fn install_crds(tools: &Tools, api: &Api) -> Result<()> {
    let text = tools.operator_config(VERSION, "crd/bases/skyhook.nvidia.com_skyhooks.yaml")?;
    let mut crd = operator::document(&text)?;
    crd["metadata"] = json!({"name": format!("nodewrights.{PREFIX}")});
    crd["spec"]["names"] = json!({
        "kind": "NodeWright", "listKind": "NodeWrightList", "plural": "nodewrights", "singular": "nodewright",
    });
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    for open in ["", "/properties/packages/additionalProperties"] {
        let schema = spec.pointer_mut(open).expect("the schema has this part");
        schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    let text = tools.operator_config(VERSION, "crd/bases/skyhook.nvidia.com_deploymentpolicies.yaml")?;
    let mut policies = operator::document(&text)?;
    policies["metadata"] = json!({"name": format!("deploymentpolicies.{PREFIX}")});
    for mut crd in [crd, policies] {
        crd["spec"]["group"] = json!(PREFIX);
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)?;
        operator::established(api, crd["metadata"]["name"].as_str().expect("the CRD has a name"))?;
    }
    Ok(())
}

/// Creates the Deployment that names the operator's version.
pub fn announce(api: &Api) -> Result<()> {
    operator::announce(api, NAMESPACE, PLAYED, "ghcr.io/nvidia/nodewright/operator")
}

/// Creates the namespace of the Jobs.
pub fn make_namespace(api: &Api) -> Result<()> {
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}}))?;
    operator::awaited(api, &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
}

/// Reason why a pod is not evicted.
pub enum RefusedBy<'a> {
    /// The PodDisruptionBudget of this name allows no eviction.
    Budget(&'a str),
    NoController,
}

/// A NodeWright and the package states that the operator has recorded for it.
pub struct Played<'a> {
    cluster: &'a Cluster,
    pub name: String,
    entries: BTreeMap<String, BTreeMap<String, Value>>,
}

impl<'a> Played<'a> {
    /// Creates the NodeWright; `extra` is merged into its metadata.
    pub fn new(cluster: &'a Cluster, name: &str, spec: &Value, extra: &Value) -> Self {
        let mut metadata = json!({"name": name, "finalizers": [format!("{PREFIX}/nodewright")]});
        for (key, value) in extra.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        // A NodeWright mirrored from a Skyhook keeps the version of the older operator.
        let version = &mut metadata["annotations"][format!("{PREFIX}/version")];
        if version.is_null() {
            *version = json!(PLAYED);
        }
        let body = json!({
            "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "NodeWright", "metadata": metadata, "spec": spec,
        });
        cluster.api.post(NODEWRIGHTS, &body).expect("a NodeWright can be created");
        Self { cluster, name: name.to_owned(), entries: BTreeMap::new() }
    }

    /// Writes the result of the first reconcile: every node is waiting.
    #[must_use]
    pub fn first_reconcile(mut self) -> Self {
        for node in self.cluster.api.items("/api/v1/nodes").expect("the API server responds") {
            let node = node["metadata"]["name"].as_str().expect("nodes have names");
            self.entries.entry(node.to_owned()).or_default();
            self.write(node, "waiting");
        }
        self.status("waiting", &[]);
        self
    }

    pub fn object(&self) -> Value {
        self.cluster.api.get(&self.path()).expect("the NodeWright is there")
    }

    pub fn path(&self) -> String {
        format!("{NODEWRIGHTS}/{}", self.name)
    }

    pub fn edit(&self, patch: &Value) {
        self.cluster.api.merge(&self.path(), patch).expect("a NodeWright can be changed");
    }

    pub fn delete(&self) {
        self.cluster.api.delete(&self.path(), &json!({})).expect("a NodeWright can be deleted");
    }

    /// Sets the node's entry for a package (`None` removes it) and the node's status.
    pub fn on(&mut self, node: &str, package: &str, at: Option<(&str, &str)>, status: &str) {
        let entries = self.entries.entry(node.to_owned()).or_default();
        let (name, version) = package.split_once('|').expect("package is `name|version`");
        match at {
            None => {
                entries.remove(package);
            }
            Some((stage, state)) => {
                let image = format!("ghcr.io/nvidia/skyhook-packages/{name}");
                let mut entry =
                    json!({"name": name, "version": version, "image": image, "stage": stage, "state": state});
                if state == "erroring" {
                    // `restarts` counts the failed attempts of the stage.
                    let before = entries.get(package).filter(|e| e["stage"] == stage);
                    let before = before.and_then(|e| e["restarts"].as_i64()).unwrap_or(0);
                    entry["restarts"] = json!(before + 1);
                }
                entries.insert(package.to_owned(), entry);
            }
        }
        self.write(node, status);
    }

    fn write(&self, node: &str, status: &str) {
        let entries = &self.entries[node];
        let state = serde_json::to_string(entries).expect("entries serialize to JSON");
        let key = |kind: &str| format!("{PREFIX}/{kind}_{}", self.name);
        self.cluster.patch_node(node, json!({"metadata": {
            "annotations": {
                key("nodeState"): if entries.is_empty() && status == "waiting" { Value::Null } else { json!(state) },
                key("status"): status, key("version"): PLAYED,
            },
            "labels": {key("status"): status},
        }}));
        let before = self.cluster.node(node)["status"]["conditions"].clone();
        let mut conditions = before.as_array().cloned().unwrap_or_default();
        let own = format!("{PREFIX}/{}/", self.name);
        conditions.retain(|c| !c["type"].as_str().is_some_and(|kind| kind.starts_with(&own)));
        let mut condition = |kind: &str, holds: bool, reason: &str, message: String| {
            let (kind, now) = (format!("{own}{kind}"), now());
            let mut condition = stamped(&before, &kind, holds, reason, &message);
            condition["lastHeartbeatTime"] = json!(now);
            conditions.push(condition);
        };
        let done = status == "complete";
        let reason = if done { "Complete" } else { "Incomplete" };
        let name = &self.name;
        condition("NotReady", !done, reason, format!("NodeWright {name} Ready"));
        let erring =
            status == "erroring" || self.entries[node].values().any(|entry| entry["state"] == "erroring");
        let reason = if erring { "Package(s) Erroring or Unknown" } else { "Not Erroring" };
        let message = format!("Package Erroring or Unknown for {name}");
        condition("Erroring", erring, reason, message);
        let path = format!("/api/v1/nodes/{node}/status");
        self.cluster
            .api
            .merge(&path, &json!({"status": {"conditions": conditions}}))
            .expect("a node has conditions");
    }

    /// Writes the custom resource's status, computed from the nodes; `more` lists additional conditions.
    pub fn status(&self, status: &str, more: &[(&str, &str)]) {
        let object = self.object();
        let statuses: BTreeMap<_, _> = self
            .entries
            .keys()
            .map(|node| {
                let key = format!("{PREFIX}/status_{}", self.name);
                (node.clone(), self.cluster.node(node)["metadata"]["annotations"][key].clone())
            })
            .collect();
        let count = |wanted: &[&str]| statuses.values().filter(|s| wanted.iter().any(|w| s == w)).count();
        let packages = object["spec"]["packages"].as_object().cloned().unwrap_or_default();
        let list: Vec<_> = packages
            .iter()
            .map(|(name, p)| format!("{name}:{}", p["version"].as_str().unwrap_or_default()))
            .collect();
        let generation = object["metadata"]["generation"].clone();
        let before = object["status"]["conditions"].clone();
        let mut conditions = Vec::new();
        let mut condition = |kind: &str, holds: bool, reason: &str, message: &str| {
            let mut condition = stamped(&before, kind, holds, reason, message);
            condition["observedGeneration"] = generation.clone();
            conditions.push(condition);
        };
        let (ready, reason) = match status {
            "complete" => (true, "NodesConverged"),
            "erroring" => (false, "Erroring"),
            "paused" => (false, "Paused"),
            "disabled" => (false, "Disabled"),
            "waiting" => (false, "Waiting"),
            "unknown" => (false, "Unknown"),
            _ => (false, "Progressing"),
        };
        let counts = format!("{}/{} nodes complete", count(&["complete"]), statuses.len());
        let begun = self.entries.iter().find(|(_, entries)| !entries.is_empty());
        for prefix in ["", "nodewright.nvidia.com/"] {
            let kind = |kind: &str| format!("{prefix}{kind}");
            condition(&kind("Ready"), ready, reason, &counts);
            let tolerable = "All nodes have tolerable taints.";
            condition(&kind("TaintNotTolerable"), false, "TaintNotTolerable", tolerable);
            let none = "No nodes have ignore label set.";
            condition(&kind("NodesIgnored"), false, "NodesIgnored", none);
            if let Some((node, entries)) = begun {
                let package = entries.keys().next().expect("the node has an entry").replace('|', ":");
                let message = format!("Applying package [{package}] to node [{node}]");
                condition(&kind("ApplyPackage"), true, "ApplyPackage", &message);
            }
        }
        condition(&format!("{PREFIX}/Transition"), false, status, &counts);
        for (kind, reason) in more {
            condition(kind, true, reason, "");
        }
        let body = json!({"status": {
            "status": status, "observedGeneration": generation, "conditions": conditions,
            "nodeState": self.entries, "nodeStatus": statuses,
            "nodesInProgress": count(&["in_progress", "erroring"]),
            "completeNodes": format!("{}/{}", count(&["complete"]), statuses.len()),
            "packageList": list.join(","),
        }});
        self.cluster.api.merge(&format!("{}/status", self.path()), &body).expect("a NodeWright has a status");
    }

    /// Starts a stage; returns the name of its Job.
    pub fn begins(&mut self, node: &str, package: &str, stage: &str) -> String {
        self.on(node, package, Some((stage, "in_progress")), "in_progress");
        self.job(node, package, stage)
    }

    /// Runs a stage to success, from its Job to the node's entry.
    pub fn runs(&mut self, node: &str, package: &str, stage: &str, status: &str) {
        let job = self.begins(node, package, stage);
        self.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
        self.record(&job, 3600);
        self.on(node, package, Some((stage, "complete")), status);
    }

    /// Installs a package successfully.
    pub fn installs(&mut self, node: &str, package: &str) {
        self.runs(node, package, "apply", "in_progress");
        self.runs(node, package, "config", "complete");
    }

    /// Installs a package that interrupts the node, up to the complete post-interrupt stage.
    pub fn installs_and_interrupts(&mut self, node: &str, package: &str) {
        self.installs(node, package);
        self.on(node, package, Some(("post-interrupt", "complete")), "complete");
    }

    /// Writes the batch of the default compartment, and the nodes that it contains.
    pub fn batch(&self, batch: &Value, picked: &[&str]) {
        let picked: BTreeMap<_, _> = picked.iter().map(|node| (*node, now())).collect();
        let matched = self.entries.len();
        let body = json!({"status": {
            "compartmentStatuses": {"__default__": {
                "batchState": batch, "ceiling": 1, "completed": 0, "inProgress": 0, "matched": matched, "progressPercent": 0,
            }},
            "nodePriority": picked,
        }});
        self.cluster.api.merge(&format!("{}/status", self.path()), &body).expect("a NodeWright has a status");
    }

    /// Writes the node keys of a blocked drain: a PodDisruptionBudget allows no eviction, or the pod has no
    /// controller.
    pub fn drain_refused(&self, node: &str, pod: &str, by: RefusedBy<'_>) {
        let key = |kind: &str| format!("{PREFIX}/{kind}_{}", self.name);
        let mut refused = json!({"namespace": "default", "name": pod});
        match by {
            RefusedBy::Budget(budget) => {
                let needs = "needs 2 healthy pods and has 2 currently";
                refused["reason"] = json!("PodDisruptionBudget");
                refused["detail"] = json!(format!("The disruption budget {budget} {needs}"));
            }
            RefusedBy::NoController => refused["reason"] = json!("UnmanagedPod"),
        }
        self.cluster.patch_node(
            node,
            json!({
                "metadata": {
                    "annotations": {
                        key("cordon"): "true", key("drainStart"): jiff::Timestamp::now().to_string(),
                        key("drainBlocked"): json!([refused]).to_string(), key("status"): "in_progress",
                        key("version"): PLAYED,
                    },
                    "labels": {key("status"): "in_progress"},
                },
                "spec": {"unschedulable": true},
            }),
        );
    }

    /// Cordons a node for an interrupt.
    pub fn cordoned(&self, node: &str) {
        let cordon = format!("{PREFIX}/cordon_{}", self.name);
        self.cluster.patch_node(
            node,
            json!({"metadata": {"annotations": {cordon: "true"}}, "spec": {"unschedulable": true}}),
        );
    }

    /// Uncordons the node, and removes the operator's keys of drain and interrupt.
    pub fn given_back(&self, node: &str) {
        let key = |kind: &str| format!("{PREFIX}/{kind}_{}", self.name);
        let nothing = json!({key("cordon"): null, key("drainStart"): null, key("drainBlocked"): null});
        self.cluster
            .patch_node(node, json!({"metadata": {"annotations": nothing}, "spec": {"unschedulable": null}}));
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Builds a condition; its transition time changes only with its status.
fn stamped(before: &Value, kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let mut old = before.as_array().into_iter().flatten();
    let old = old.find(|c| c["type"] == kind && c["status"] == status);
    let since = old.map_or_else(|| json!(now()), |c| c["lastTransitionTime"].clone());
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
}
