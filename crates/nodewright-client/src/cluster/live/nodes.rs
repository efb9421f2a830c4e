//! Reads all nodes or named nodes, whole or in part, and a finished node with its context.

use std::collections::HashSet;

use futures::join;
use serde::Deserialize;

use super::decode::Listed;
use super::list::List;
use super::request::{Failure, get_as};
use super::sources::{CORE, Reader, read};
use super::{Needs, Now, fill};
use crate::api::{ApiFlavor, Meta, Name};
use crate::cluster::{
    Cluster, ClusterBuilder, Job, Node, NodeFields, Pod, Read, Source, Sources, installation,
};
use crate::model::Model;

impl Reader<'_> {
    pub fn nodes_list() -> List {
        List::all(CORE, "nodes", "Node")
    }

    /// Reads all nodes, or the named nodes one by one: a server finds a node by name without reading the
    /// others.
    pub async fn nodes(&self) -> Read<Vec<Node>> {
        let list = Self::nodes_list();
        if !self.named_nodes.is_empty() {
            let named = self
                .named_nodes
                .iter()
                .map(|name| list.clone().with_fields(&format!("metadata.name={name}")));
            return read(self.all_of(&named.collect::<Vec<List>>()).await);
        }
        read(match (&self.recorder, self.node_fields) {
            (Some(recorder), _) => recorder.list(self.client, &list, &|_| true).await,
            (None, NodeFields::All) => self.list(&list).await,
            (None, fields) => self.metadata_of(list, fields).await,
        })
    }

    /// Reads the metadata of all nodes. Their cordons, if requested, are read from a list of the cordoned
    /// nodes.
    async fn metadata_of(&self, list: List, fields: NodeFields) -> Result<Listed<Node>, Failure> {
        let list = list.of_metadata();
        let cordoned = list.clone().with_fields("spec.unschedulable=true");
        let cordoned = async {
            match fields {
                NodeFields::Metadata => Ok(None),
                _ => self.list::<Node>(&cordoned).await.map(Some),
            }
        };
        let (all, cordoned) = futures::join!(self.list::<Node>(&list), cordoned);
        let (mut all, cordoned) = (all?, cordoned?);
        if let Some(lacking) = &cordoned {
            all.unidentified.extend_from_slice(&lacking.unidentified);
        }
        let cordoned =
            cordoned.map(|listed| listed.items.into_iter().map(|node| node.name).collect::<HashSet<Name>>());
        for node in &mut all.items {
            let cordoned = cordoned.as_ref().map(|names| names.contains(&node.name));
            node.limit_to_metadata(cordoned);
        }
        Ok(all)
    }
}

/// `Accept` value of `kubectl get`: the server prints the table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Name and status of an object, as in the columns of `kubectl get`. The status is empty if the server prints no
/// tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub status: String,
}

/// Reads the names of all objects of a cluster-scoped core resource such as `nodes`: about a hundred bytes per node,
/// instead of tens of thousands for a whole node.
///
/// # Errors
///
/// A short reason why the request failed.
pub async fn names(client: &kube::Client, plural: &str) -> Result<Vec<Named>, String> {
    let path = format!("/api/v1/{plural}?includeObject=None");
    let body = get_as(client, &path, TABLE).await;
    decode(&body.map_err(|failure: Failure| failure.short())?)
}

/// A `Table`, or a list from a server without tables.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    kind: String,
    column_definitions: Vec<Column>,
    rows: Vec<NameRow>,
    items: Vec<ObjectHead>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct NameRow {
    cells: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct ObjectHead {
    metadata: Meta,
}

fn decode(body: &[u8]) -> Result<Vec<Named>, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    if answer.kind != "Table" && !answer.kind.ends_with("List") {
        return Err(format!("expected a list, got kind {:?}", answer.kind));
    }
    let column = |name| answer.column_definitions.iter().position(|c| c.name == name);
    let (name, status) = (column("Name"), column("Status"));
    let rows = answer.rows.iter().filter_map(|row| {
        let cell = |at: Option<usize>| row.cells.get(at?)?.as_str().map(str::to_owned);
        Some(Named { name: cell(name)?, status: cell(status).unwrap_or_default() })
    });
    let items =
        answer.items.iter().map(|item| Named { name: item.metadata.name.clone(), status: String::new() });
    Ok(rows.chain(items).collect())
}

/// Reads one finished node and its pods.
///
/// Returns `None` if the node is not finished, or other nodes are needed. `builder` then contains the data
/// read so far; its `served` is empty if the served APIs are unknown. A successful list of custom resources
/// proves that their API is served.
pub(super) async fn read_finished<'a>(
    reader: &mut Reader<'a>,
    needs: &[Source],
    node: &'a [String],
    builder: &mut ClusterBuilder,
    now: Now<'_>,
) -> Option<Cluster> {
    let [old, new] = ApiFlavor::ALL.map(Reader::skyhooks_list);
    reader.named_nodes = node;
    let (old, new, deployments, nodes) =
        join!(reader.list(&old), reader.list(&new), reader.deployments(), reader.nodes());
    reader.named_nodes = &[];
    let mut served = Vec::new();
    for (flavor, list) in ApiFlavor::ALL.into_iter().zip([old, new]) {
        match list {
            Ok(mut listed) => {
                Reader::name_kind(&mut listed.items, flavor);
                builder.skyhooks[flavor as usize] = listed.into();
                served.push(flavor);
            }
            Err(failure) if failure.is_absence() => {}
            // Leave it to discovery to find out whether the API is served.
            Err(_) => {
                builder.skyhooks = [Read::NotRequested, Read::NotRequested];
                return None;
            }
        }
    }
    (builder.served, builder.deployments) = (served, deployments);
    builder.taken_at = now();
    if installation::undecided(&builder.operators().collect::<Vec<_>>()) {
        return None;
    }
    let asked_for = builder.asked_for;
    if asked_for.is_some_and(|flavor| !builder.served.contains(&flavor))
        || Needs::new(needs, builder).undecided
    {
        return None;
    }
    let active_api = builder.active_api()?;
    reader.served = builder.served.clone();
    let deployments = builder.deployments.clone();
    let mut cluster = ClusterBuilder {
        sources: Sources { taken_at: builder.taken_at, nodes, ..Sources::default() },
        served: builder.served.clone(),
        skyhooks: std::mem::take(&mut builder.skyhooks),
        deployments: builder.deployments.clone(),
        ..ClusterBuilder::default()
    }
    .assemble(active_api);
    let model = Model::new(&cluster);
    let done = node.iter().all(|name| cluster.node(name).is_some_and(|node| model.is_done_with(node)));
    if !done {
        let (ours, other) = (cluster.flavor(), cluster.flavor().other());
        builder.skyhooks[ours as usize] = cluster.skyhooks;
        builder.skyhooks[other as usize] = cluster.legacy;
        return None;
    }
    reader.named_nodes = node;
    let of_jobs = cluster.flavor() == ApiFlavor::NodeWright;
    let sources: &mut Sources = &mut cluster;
    let (pods, (), ()) = join!(
        reader.pods_on(&node[0], &deployments),
        fill(&mut sources.jobs, of_jobs, || reader.jobs(&deployments)),
        fill(&mut sources.admission, true, || reader.admission()),
    );
    [sources.pods, sources.workloads] = pods;
    sources.workloads_on.extend(node.iter().cloned());
    if let Some(jobs) = cluster.jobs.available_mut() {
        jobs.retain(|job| node.contains(&job.spec.template.spec.node_name));
    }
    // Events are only needed to explain a stage that has not succeeded.
    let over = |pod: &Pod| pod.status.phase == "Succeeded";
    let complete = |job: &Job| job.finished().is_some() && job.failed().is_none();
    let at_work = !cluster.pods.iter().all(over) || !cluster.jobs.iter().all(complete);
    fill(&mut cluster.events, at_work, || reader.events(&deployments)).await;
    Some(cluster)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str, status: &str) -> Named {
        Named { name: name.to_owned(), status: status.to_owned() }
    }

    #[test]
    fn tables_and_lists_are_read() {
        let table = json!({
            "kind": "Table",
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "Status"}],
            "rows": [
                {"cells": ["gpu-1", "5d", "Ready,SchedulingDisabled"], "object": null},
                {"cells": ["gpu-2", "5d", "Ready"]},
                {"cells": []},
            ],
        });
        assert_eq!(
            decode(table.to_string().as_bytes()),
            Ok(vec![named("gpu-1", "Ready,SchedulingDisabled"), named("gpu-2", "Ready")])
        );
        let list = json!({"kind": "NodeList", "items": [{"metadata": {"name": "gpu-1"}, "spec": {}}]});
        assert_eq!(decode(list.to_string().as_bytes()), Ok(vec![named("gpu-1", "")]));
        for other in ["<html>", "{}", r#"{"kind": "Status"}"#] {
            assert!(decode(other.as_bytes()).is_err(), "{other}");
        }
    }
}
