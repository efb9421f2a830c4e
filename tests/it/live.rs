//! Reading a cluster from its API server: the real client on the fake server.

mod faults;
mod flavors;
mod frozen;
mod lists;
mod workloads;

use std::time::Duration;

use jiff::Timestamp;
use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::cluster::live::{LoadError, load};
use kubectl_skyhook::cluster::{Cluster, NodeFields, Read, Source, Unread};
use kubectl_skyhook::connect::{RequestPolicy, TimeLimit, Warnings};
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;

/// A client with the request policy of `connect`, on the fake server.
fn client_with_policy(fake: &FakeApi, timeout: Option<Duration>) -> (kube::Client, Warnings) {
    let warnings = Warnings::default();
    let policy = RequestPolicy {
        server: "https://fake:6443".to_owned(),
        limit: timeout.map(TimeLimit::Whole),
        warnings: warnings.clone(),
        clock: Default::default(),
    };
    let client = kube::Client::new(policy.over(fake.clone()), "default");
    (client, warnings)
}

/// A read error with this HTTP status, or without one.
fn unreadable(status: impl Into<Option<u16>>, why: &str) -> Read<usize> {
    Read::Unreadable(Unread { status: status.into(), message: why.to_owned() })
}

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().expect("a time")
}

async fn read(fake: &FakeApi, needs: &[Source]) -> Result<Cluster, LoadError> {
    let (client, _) = client_with_policy(fake, None);
    load(&client, needs, NodeFields::All, None, None, None, &now).await
}

/// The number of items of each source, or why it was not read.
fn sources(cluster: &Cluster) -> Vec<(Source, Read<usize>)> {
    let all = Source::ALL.into_iter();
    all.map(|source| (source, cluster.source(source))).collect()
}

/// A cluster with one object of every kind of an API flavor.
fn fleet(flavor: ApiFlavor) -> FakeApi {
    let name = flavor.name();
    let namespace = flavor.default_namespace();
    let labels = json!({flavor.key("name"): "gpu"});
    FakeApi::new()
        .serving(flavor)
        .with(skyhook(flavor, "gpu"))
        .with(json!({
            "apiVersion": flavor.api_version(),
            "kind": "DeploymentPolicy",
            "metadata": {"name": "slow"},
        }))
        .with(node("node-1"))
        .with(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "gpu-driver", "namespace": namespace, "labels": labels},
            "spec": {"nodeName": "node-1"},
        }))
        .with(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "gpu-driver", "namespace": namespace, "labels": labels},
        }))
        .with(json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "gpu.1", "namespace": "default"},
            "involvedObject": {"kind": flavor.kind(), "name": "gpu"},
        }))
        .with(json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "shop"},
        }))
        .with(operator(namespace, &format!("{name}/operator:v0.17.1")))
}

fn skyhook(flavor: ApiFlavor, name: &str) -> Value {
    json!({
        "apiVersion": flavor.api_version(),
        "kind": flavor.kind(),
        "metadata": {"name": name},
        "spec": {"packages": {"driver": {
            "version": "1.0.0",
            "image": "example.com/driver",
            "interrupt": {"type": "reboot"},
        }}},
    })
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

fn operator(namespace: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "operator-controller-manager",
            "namespace": namespace,
            "labels": {"control-plane": "controller-manager"},
        },
        "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}},
    })
}
