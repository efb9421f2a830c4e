//! Collects the data for a diagnosis by someone who has no access to the cluster.

use std::time::Duration;

use serde_json::Value;

use super::list::Recorder;
use super::request::get;
use super::sources::Reader;
use super::{LoadError, Now, installation, logs, read};
use crate::api::ApiFlavor;
use crate::bounded;
use crate::cluster::attempts::ContainerLog;
use crate::cluster::capture::{API_VERSION, Index, KIND, Source as Noted, Tape, ToolVersions};
use crate::cluster::source::Read;
use crate::cluster::{Cluster, ClusterBuilder, Source, Sources};

const CRDS_FILE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The options of a collection.
#[derive(Debug, Clone)]
pub struct CollectRequest {
    /// Maximum size of the compressed capture, in bytes.
    pub limit: u64,
    /// Maximum duration of the collection.
    pub patience: Duration,
    /// Number of last lines to read per log.
    pub lines: u64,
    /// Records whether the runs of this program on this machine that hold custom resources are still running.
    pub see_holders: fn(&mut Cluster),
    /// Returns the logs that a diagnosis of the cluster would read.
    pub asked: fn(&Cluster) -> Vec<ContainerLog>,
    pub api: Option<ApiFlavor>,
    /// The operator's namespace from `--namespace`.
    pub namespace: Option<String>,
    /// The version of this program.
    pub tool: String,
}

/// The collected data.
pub struct Collected {
    pub index: Index,
    pub tape: Tape,
}

/// Reads all sources in parallel. Refusals and failures are recorded; the other sources are still read.
///
/// # Errors
///
/// Fails if the server does not respond at all, rejects the credentials, or serves only one API and `--api`
/// is the other.
pub async fn collect(
    client: &kube::Client,
    request: &CollectRequest,
    now: Now<'_>,
) -> Result<Collected, LoadError> {
    let tape = Tape::new(request.limit);
    let recorder = Recorder::new(&tape, request.patience);
    let reader = || Reader { recorder: Some(recorder), ..Reader::new(client, request.namespace.as_deref()) };
    let all = read(reader(), &Source::ALL, None, request.api, now);
    let versions = recorder.within(get(client, "/version"));
    let (all, crds, version) = futures::join!(all, definitions(client, recorder), versions);
    let (mut cluster, mut sources) = match all {
        Err(LoadError::NotServed) => read_leftovers(&reader(), request, now).await,
        all => all?,
    };
    (request.see_holders)(&mut cluster);
    sources.push(crds);
    sources.push(Noted::of("version", &Read::from(version.as_ref().map(|_| 1).map_err(Clone::clone))));
    let (logs, noted) =
        logs::read(&reader(), recorder, &cluster, request.lines, (request.asked)(&cluster)).await;
    sources.push(noted);
    let version: Option<Value> = version.ok().and_then(|body| serde_json::from_slice(&body).ok());
    let mut index = Index {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        taken_at: cluster.taken_at,
        versions: ToolVersions {
            tool: request.tool.clone(),
            server: version.and_then(|v| v["gitVersion"].as_str().map(str::to_owned)),
            operator: cluster.active_api.operator_version.as_ref().map(ToString::to_string),
        },
        served: cluster.active_api.served.iter().map(|flavor| flavor.group().to_owned()).collect(),
        holders: cluster.holders.clone(),
        sources,
        files: Vec::new(),
        logs,
    };
    leave_out(&mut index, &tape);
    for source in &mut index.sources {
        source.message = source.message.as_deref().map(|message| tape.masks.words(message));
    }
    Ok(Collected { index, tape })
}

/// Reads only the nodes, if neither API is served: they have the leftovers of an operator.
async fn read_leftovers(
    reader: &Reader<'_>,
    request: &CollectRequest,
    now: Now<'_>,
) -> (Cluster, Vec<Noted>) {
    let nodes = reader.nodes().await;
    let mut builder = ClusterBuilder {
        skyhooks: [Read::Ok(Vec::new()), Read::Ok(Vec::new())],
        ..ClusterBuilder::default()
    };
    let mut sources = builder.outcomes();
    let noted = sources.iter_mut().find(|source| source.name == "nodes");
    if let Some(noted) = noted {
        *noted = Noted::of("nodes", &nodes.count());
    }
    let read = Sources { taken_at: now(), nodes, ..Sources::default() };
    let builder = ClusterBuilder { sources: read, asked_for: request.api, ..ClusterBuilder::default() };
    (builder.of_leftovers(), sources)
}

/// Records the existing CRDs of the operator.
async fn definitions(client: &kube::Client, recorder: Recorder<'_>) -> Noted {
    let objects = recorder.within(installation::definition_objects(client)).await;
    let noted = Noted::of("definitions", &Read::from(objects.as_ref().map(Vec::len).map_err(Clone::clone)));
    if let Ok(objects) = objects {
        let mut segment = recorder.tape.begin(CRDS_FILE);
        segment.is_of("apiextensions.k8s.io/v1", "CustomResourceDefinitionList");
        objects.into_iter().for_each(|object| segment.add(object));
        segment.keep();
    }
    noted
}

/// Marks the sources that were dropped to stay within the limit as omitted.
fn leave_out(index: &mut Index, tape: &Tape) {
    let left_out = tape.left_out();
    let why = format!("omitted: the capture is limited to {}", bounded::size(tape.limit));
    let mut builder = ClusterBuilder::default();
    let mut files: Vec<(&str, Vec<String>)> =
        builder.pieces().into_iter().map(|(name, files, _)| (name, files)).collect();
    files.push(("definitions", vec![CRDS_FILE.to_owned()]));
    for (name, files) in files {
        if !files.iter().any(|file| left_out.contains(file)) {
            continue;
        }
        if let Some(source) = index.sources.iter_mut().find(|s| s.name == name && s.outcome.has_items()) {
            source.leave_out(&why);
        }
    }
}
