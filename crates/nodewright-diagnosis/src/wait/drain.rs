//! A drain in progress, as text and for documents.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{Cluster, Node, Pod};
use crate::model::{DrainProgress, Model};
use crate::text::{age, list, plural, time};

/// A drain in progress.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// The start of the drain; absent with operators before v0.18.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The pods that the drain still evicts or waits for, as `namespace/name`; absent if they were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<String>>,
    /// Whether some evictions are refused, according to the operator's annotation or the disruption budgets.
    pub refused: bool,
    /// The drain in a few words: `draining for 3m, 1 pod left`.
    #[serde(skip)]
    pub summary: String,
}

impl Drain {
    pub fn new(cluster: &Cluster, drain: &DrainProgress<'_>) -> Drain {
        let pods = drain.pods.as_ref();
        Drain {
            since: drain.since.map(time),
            pods: pods.map(|pods| pods.iter().map(|pod| pod.path()).collect()),
            refused: drain.refused,
            summary: summary(cluster, drain),
        }
    }
}

/// Maximum number of pods in a sentence; the others are counted.
const NAMED: usize = 3;

/// Describes the drain in a few words: `draining for 3m, 2 pods left`.
pub fn summary(cluster: &Cluster, drain: &DrainProgress<'_>) -> String {
    let pods = match drain.pods.as_ref().map(Vec::len) {
        None => String::new(),
        Some(0) => ", no pods left".to_owned(),
        Some(n) => format!(", {} left", plural(n, "pod")),
    };
    let refused = if drain.refused { ", eviction refused" } else { "" };
    format!("{}{pods}{refused}", draining(cluster, drain))
}

/// A sentence about the drain, with the pods that it waits for and their states.
pub fn sentence(cluster: &Cluster, drain: &DrainProgress<'_>) -> String {
    let draining = draining(cluster, drain);
    let Some(pods) = &drain.pods else {
        return format!("the node has been {draining}");
    };
    if pods.is_empty() {
        return format!(
            "the node has been {draining}, its pods have ended, and the operator continues in its next reconcile"
        );
    }
    let named = pods.iter().take(NAMED).map(|pod| {
        let meta = &pod.metadata;
        let state = match (meta.deletion_timestamp, meta.finalizers.as_slice()) {
            (None, _) => "not evicted yet".to_owned(),
            (Some(_), []) => "terminating".to_owned(),
            (Some(_), finalizers) => format!("terminating, finalizers: {}", finalizers.join(", ")),
        };
        format!("{} ({state})", pod.path())
    });
    let mut named: Vec<String> = named.collect();
    if pods.len() > NAMED {
        named.push(format!("{} more", pods.len() - NAMED));
    }
    let noun = if pods.len() == 1 { "pod" } else { "pods" };
    format!("the node has been {draining} and waits for {noun} {}", list(&named))
}

/// The first pod that a drain of the node waits for.
pub fn first_pod<'a>(cluster: &'a Cluster, node: &'a Node) -> Option<&'a Pod> {
    let model = Model::new(cluster);
    cluster
        .skyhooks
        .iter()
        .find_map(|skyhook| model.drain_progress(skyhook.name(), node)?.pods?.into_iter().next())
}

fn draining(cluster: &Cluster, drain: &DrainProgress<'_>) -> String {
    match drain.since {
        Some(since) => format!("draining for {}", age(Some(since), cluster.taken_at)),
        None => "draining".to_owned(),
    }
}
