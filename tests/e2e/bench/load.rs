//! Writes the measured cluster, and the file for `diagnose stuck --from`.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};

use super::nodes::{Doing, IN_A_SKYHOOK, Node, PACKAGES, WHEN, image, skyhook_name};
use crate::{
    api::Api,
    cluster::SKYHOOKS,
    control_plane::ControlPlane,
    operator::{NAMESPACE, VERSION},
    view::PREFIX,
};

/// Number of concurrent writers.
const WRITERS: usize = 16;

pub struct Loaded {
    pub nodes: usize,
    pub skyhooks: usize,
    pub pods: usize,
    /// Size of one node in JSON.
    pub node_bytes: usize,
}

/// Creates custom resources, nodes and pods; the nodes serve their logs at `port`.
pub fn load(plane: &ControlPlane, count: usize, port: u16) -> Result<Loaded> {
    let api = plane.user("admin")?;
    let nodes: Vec<Node> = (0..count).map(Node).collect();
    let uids: Vec<String> = (0..count.div_ceil(IN_A_SKYHOOK))
        .map(|number| create_skyhook(&api, number))
        .collect::<Result<_>>()?;
    side_by_side(plane, &nodes, |api, node| {
        api.post("/api/v1/nodes", &node.object(port))?;
        Ok(())
    })?;
    for (number, nodes) in nodes.chunks(IN_A_SKYHOOK).enumerate() {
        let path = format!("{SKYHOOKS}/{}/status", skyhook_name(number));
        api.merge(&path, &json!({"status": status(nodes)}))
            .with_context(|| format!("the status of {number}"))?;
    }
    let busy: Vec<Node> = nodes.iter().copied().filter(|node| node.doing() != Doing::Complete).collect();
    side_by_side(plane, &busy, |api, node| {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let pod = pod(*node, &uids[node.skyhook()]);
        api.post(&path, &pod)?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let status = json!({"status": pod_status(*node)});
        api.merge(&format!("{path}/{name}/status"), &status)?;
        Ok(())
    })?;
    let one = api.get(&format!("/api/v1/nodes/{}", nodes[0].name()))?;
    Ok(Loaded { nodes: count, skyhooks: uids.len(), pods: busy.len(), node_bytes: one.to_string().len() })
}

fn side_by_side<T: Sync>(
    plane: &ControlPlane,
    all: &[T],
    write: impl Fn(&Api, &T) -> Result<()> + Sync,
) -> Result<()> {
    let share = all.len().div_ceil(WRITERS).max(1);
    std::thread::scope(|scope| {
        let writers: Vec<_> = all
            .chunks(share)
            .map(|part| {
                let write = &write;
                scope.spawn(move || {
                    let api = plane.user("admin")?;
                    part.iter().try_for_each(|one| write(&api, one))
                })
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| anyhow!("a writer has panicked"))?)
    })
}

/// Creates a custom resource; returns its uid.
fn create_skyhook(api: &Api, number: usize) -> Result<String> {
    let name = skyhook_name(number);
    let mut packages = Map::new();
    let mut before: Option<(&str, &str)> = None;
    for (package, version) in PACKAGES {
        let mut body = json!({
            "version": version, "image": image(package), "uninstall": {"enabled": true, "apply": false},
        });
        if let Some((name, version)) = before {
            body["dependsOn"] = json!({name: version});
        }
        before = Some((package, version));
        packages.insert(package.to_owned(), body);
    }
    let skyhook = json!({
        "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "Skyhook",
        "metadata": {
            "name": name, "finalizers": [format!("{PREFIX}/skyhook")],
            "annotations": {format!("{PREFIX}/version"): VERSION},
        },
        "spec": {
            "nodeSelectors": {"matchLabels": {"example.com/pool": name}},
            "interruptionBudget": {"percent": 10}, "packages": packages,
        },
    });
    let created = api.post(SKYHOOKS, &skyhook)?;
    let uid = created["metadata"]["uid"].as_str();
    Ok(uid.context("objects have a uid")?.to_owned())
}

fn status(nodes: &[Node]) -> Value {
    let each = |value: &dyn Fn(Node) -> Value| -> Map<String, Value> {
        nodes.iter().map(|node| (node.name(), value(*node))).collect()
    };
    let count = |doing: Doing| nodes.iter().filter(|node| node.doing() == doing).count();
    let (complete, failing) = (count(Doing::Complete), count(Doing::Failing));
    let state = match (failing, complete == nodes.len()) {
        (0, true) => "complete",
        (0, false) => "in_progress",
        _ => "erroring",
    };
    let packages: Vec<_> = PACKAGES.iter().map(|(name, version)| format!("{name}:{version}")).collect();
    let ready = |kind: &str| {
        json!({
            "type": kind, "status": if state == "complete" { "True" } else { "False" },
            "reason": match state { "complete" => "NodesConverged", "erroring" => "Erroring", _ => "Progressing" },
            "message": format!("{complete}/{} nodes complete, {failing} erroring", nodes.len()),
            "lastTransitionTime": WHEN, "observedGeneration": 1,
        })
    };
    json!({
        "status": state, "observedGeneration": 1, "packageList": packages.join(","),
        "completeNodes": format!("{complete}/{}", nodes.len()), "nodesInProgress": nodes.len() - complete,
        "nodeState": each(&Node::state), "nodeStatus": each(&|node| json!(node.status())),
        "conditions": [ready("Ready"), ready(&format!("{PREFIX}/Ready"))],
    })
}

/// The package pod of a node that runs or fails the third package.
fn pod(node: Node, uid: &str) -> Value {
    let (package, version) = PACKAGES[2];
    let skyhook = skyhook_name(node.skyhook());
    let record = json!({
        "name": package, "version": version, "skyhook": skyhook, "stage": "apply", "image": image(package),
    });
    let dir = format!("/var/lib/skyhook/{skyhook}/{package}-{version}-{uid}-1");
    let step = |suffix: &str, image: String, verb: &str| {
        json!({
            "name": format!("{package}-{suffix}"), "image": image, "args": [verb, "/root", dir],
            "env": [
                {"name": "SKYHOOK_LOG_DIR", "value": format!("/var/log/skyhook/{skyhook}")},
                {"name": "SKYHOOK_RESOURCE_ID", "value": format!("{skyhook}-{uid}-1_{package}_{version}")},
            ],
            "securityContext": {"privileged": true},
            "volumeMounts": [{"name": "root-mount", "mountPath": "/root", "mountPropagation": "HostToContainer"}],
        })
    };
    let agent = || "ghcr.io/nvidia/skyhook/agent:v6.4.0".to_owned();
    json!({
        "metadata": {
            "name": format!("{skyhook}-{package}-apply-{}", node.0), "namespace": NAMESPACE,
            "labels": {format!("{PREFIX}/name"): skyhook, format!("{PREFIX}/package"): format!("{package}-{version}")},
            "annotations": {format!("{PREFIX}/package"): record.to_string()},
            "ownerReferences": [{
                "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "Skyhook", "name": skyhook, "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": node.name(), "restartPolicy": "OnFailure", "hostPID": true, "hostNetwork": true,
            "automountServiceAccountToken": false,
            "initContainers": [
                step("init", format!("{}:{version}", image(package)), "copy"),
                step("apply", agent(), "apply"), step("applycheck", agent(), "apply-check"),
            ],
            "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
            "volumes": [{"name": "root-mount", "hostPath": {"path": "/"}}],
            "tolerations": [
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                {"key": PREFIX, "operator": "Equal", "value": "runtime-required", "effect": "NoSchedule"},
            ],
        },
    })
}

fn pod_status(node: Node) -> Value {
    let package = PACKAGES[2].0;
    let ended = |exit: i32, reason: &str| json!({"terminated": {"exitCode": exit, "reason": reason, "startedAt": WHEN, "finishedAt": WHEN}});
    let container = |suffix: &str, state: Value, last: Value, restarts: u32| {
        json!({
            "name": format!("{package}-{suffix}"), "image": "ghcr.io/nvidia/skyhook/agent:v6.4.0", "imageID": "",
            "ready": false, "restartCount": restarts, "state": state, "lastState": last,
        })
    };
    let (state, last, restarts) = match node.doing() {
        Doing::Failing => (
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}),
            ended(2, "Error"),
            4,
        ),
        // Start it now: a stage that runs for too long would be a finding.
        _ => {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
            let running = json!({"running": {"startedAt": now.to_string()}});
            (running, json!({}), 0)
        }
    };
    let waiting = || json!({"waiting": {"reason": "PodInitializing"}});
    json!({
        "phase": "Pending", "startTime": WHEN,
        "conditions": [{"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized", "lastTransitionTime": WHEN}],
        "initContainerStatuses": [
            container("init", ended(0, "Completed"), json!({}), 0), container("apply", state, last, restarts),
            container("applycheck", waiting(), json!({}), 0),
        ],
    })
}

/// Writes the cluster in the format of `kubectl get -o json`; returns the number of bytes.
pub fn capture(api: &Api, path: &Path) -> Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [")?;
    let mut first = true;
    for (path, version, kind) in [
        ("/api/v1/nodes", "v1", "Node"),
        (SKYHOOKS, "skyhook.nvidia.com/v1alpha1", "Skyhook"),
        ("/api/v1/pods", "v1", "Pod"),
        ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ] {
        let mut after = String::new();
        loop {
            let mut page = api.get(&format!("{path}?limit=250{after}"))?;
            let items = page["items"].as_array_mut().map(std::mem::take);
            for mut item in items.unwrap_or_default() {
                item["apiVersion"] = json!(version);
                item["kind"] = json!(kind);
                // Like kubectl, omit `managedFields`.
                item["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
                let text = serde_json::to_string_pretty(&item)?.replace('\n', "\n        ");
                let comma = if first { "" } else { "," };
                first = false;
                write!(file, "{comma}\n        {text}")?;
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => after = format!("&continue={token}"),
                _ => break,
            }
        }
    }
    file.write_all(b"\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\"resourceVersion\": \"\"}\n}\n")?;
    file.flush()?;
    Ok(std::fs::metadata(path)?.len())
}
