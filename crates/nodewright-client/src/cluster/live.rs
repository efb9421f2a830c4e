//! Reads a cluster from its API server (an edge).

mod collect;
mod decode;
mod follow;
pub mod installation;
mod list;
pub mod logs;
mod nodes;
mod protobuf;
mod request;
mod sources;
mod watch;

use std::sync::PoisonError;

use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;

use super::{
    Cluster, ClusterBuilder, Deployment, DisruptionBudget, NamedNodes, NodeFields, Pod, Read, Source,
    Sources, capture,
};
use crate::api::{ApiFlavor, Meta};
use crate::cluster::source::Unread;
use crate::model::Model;
pub use collect::{CollectRequest, Collected, collect};
pub use follow::{Follow, FollowEvent, WATCHED};
pub use nodes::{Named, names};
pub use request::LoadError;
use request::{Failure, get};
use sources::Reader;

/// A clock: returns the current time.
pub type Now<'a> = &'a (dyn Fn() -> Timestamp + Sync);

/// Sources that are always read, because the operator's version determines which API is active.
pub const ALWAYS: [Source; 1] = [Source::Operator];

/// Reads the requested sources in parallel, and decides which API is active.
///
/// Reads only the nodes in `named` if other nodes do not matter. If all nodes are read, reads only
/// `node_fields` of each, unless `needs` contains the workloads. `asked_for` is `--api` and overrides the
/// decision. `namespace` is `--namespace` (never the context's default), for users who may not list all
/// namespaces. `now` is called again after a response, because it may use the server's clock from the
/// response.
///
/// A source that is forbidden or fails becomes `Read::Unreadable`, and the others are still read. Sources
/// that were not requested stay `NotRequested`, except those needed for the decision.
///
/// # Errors
///
/// Fails if the server does not respond, rejects the credentials, serves neither API, or does not serve the
/// one of `--api`.
pub async fn load(
    client: &Client,
    needs: &[Source],
    node_fields: NodeFields,
    named: Option<&NamedNodes>,
    asked_for: Option<ApiFlavor>,
    namespace: Option<&str>,
    now: Now<'_>,
) -> Result<Cluster, LoadError> {
    let mut reader = Reader::new(client, namespace);
    // Workloads need whole nodes: which nodes are drained depends on taints.
    if !needs.contains(&Source::Workloads) {
        reader.node_fields = node_fields;
    }
    Ok(read(reader, needs, named, asked_for, now).await?.0)
}

/// Like [`load`], and returns the result for each piece as well, except for a finished node.
async fn read<'a>(
    mut reader: Reader<'a>,
    needs: &[Source],
    named: Option<&'a NamedNodes>,
    asked_for: Option<ApiFlavor>,
    now: Now<'_>,
) -> Result<(Cluster, Vec<capture::Source>), LoadError> {
    let mut builder = ClusterBuilder { asked_for, ..ClusterBuilder::default() };
    builder.taken_at = now();
    let explained = named.filter(|named| named.explained);
    if let Some(named) = explained
        && let Some(cluster) = nodes::read_finished(&mut reader, needs, &named.nodes, &mut builder, now).await
    {
        return Ok((cluster, Vec::new()));
    }
    if builder.served.is_empty() {
        let served = reader.within(request::served(reader.client));
        let (served, deployments) = futures::join!(served, reader.deployments());
        (builder.served, builder.deployments) = (served?, deployments);
        builder.taken_at = now();
    }
    reader.served = builder.served.clone();
    if reader.served.is_empty() {
        return Err(LoadError::NotServed);
    }
    if let Some(asked_for) = asked_for.filter(|flavor| !reader.served.contains(flavor)) {
        return Err(LoadError::AskedForAbsent { asked_for });
    }
    let operators: Vec<&Deployment> = builder.operators().collect();
    let undecided = super::installation::undecided(&operators);
    let wanted = !undecided && needs.contains(&Source::Operator);
    let dated = installation::lease_lists(operators.iter().copied().filter(|d| wanted && d.elects()));
    if undecided {
        let lists = installation::lease_lists(operators.into_iter());
        builder.installation.leases = installation::leases(&reader, &lists).await;
    }
    let needs = Needs::new(needs, &builder);
    if let Some(named) = named.filter(|_| explained.is_none() && !needs.undecided) {
        reader.named_nodes = &named.nodes;
        builder.limited_to_named_nodes = true;
    }
    let ((), leases) =
        futures::join!(needs.read(&reader, &mut builder), installation::leases(&reader, &dated));
    // Optional: whoever may not read it learns nothing from it.
    if leases.ok().is_some() {
        builder.installation.leases = leases;
        builder.installation.leases_at = Some(now());
    }
    let active_api = builder.active_api().ok_or(LoadError::NotServed)?;
    if !needs.wants(Source::Operator) {
        builder.deployments = Read::NotRequested;
    }
    let mut outcomes = builder.outcomes();
    let mut cluster = builder.assemble(active_api);
    let mut note = |name: &str, read: &Read<usize>| {
        if let Some(outcome) = outcomes.iter_mut().find(|outcome| outcome.name == name) {
            *outcome = capture::Source::of(name, read);
        }
    };
    // A terminating namespace would explain why the operator has no ready replica.
    if needs.wants(Source::Operator)
        && cluster.operators.was_asked()
        && cluster.operator().installations().is_empty()
    {
        let names = cluster.operator().possible_namespaces().into_iter().chain(reader.namespace);
        let names = names.map(str::to_owned).collect();
        cluster.installation.namespaces = installation::namespaces(&reader, names).await;
        note(capture::NAMESPACES, &cluster.installation.namespaces.count());
    }
    if needs.wants(Source::Workloads) {
        cluster.workloads = reader.workloads(&cluster).await;
        note(capture::WORKLOADS, &cluster.source(Source::Workloads));
    }
    if needs.wants(Source::Restrictions) && Model::new(&cluster).may_be_late() {
        installation::restrictions(&reader, &mut cluster).await;
        let read = &cluster.installation;
        note(capture::NAMESPACES, &read.namespaces.count());
        note(capture::LIMIT_RANGES, &read.limit_ranges.count());
        note(capture::QUOTAS, &read.quotas.count());
        note(capture::ROLES, &read.roles.count());
    }
    // The deletion of a CRD deletes its custom resources.
    if needs.wants(Source::Restrictions) && cluster.skyhooks.iter().any(|skyhook| skyhook.deleting()) {
        cluster.installation.definitions = installation::definitions(reader.client).await;
    }
    let versions = reader.versions.into_inner();
    cluster.versions = versions.unwrap_or_else(PoisonError::into_inner);
    Ok((cluster, outcomes))
}

/// Reads the workload pods on these nodes, whether or not the nodes wait for a drain.
pub async fn workloads(client: &Client, cluster: &Cluster, nodes: &[&str]) -> Read<Vec<Pod>> {
    let mut reader = Reader::new(client, None);
    reader.served.clone_from(&cluster.active_api.served);
    reader.workloads_on(nodes).await
}

/// Reads the Deployments that may run the operator; `namespace` is `--namespace`.
pub async fn deployments(client: &Client, namespace: Option<&str>) -> Read<Vec<Deployment>> {
    Reader::new(client, namespace).deployments().await
}

/// Reads all pod disruption budgets.
pub async fn disruption_budgets(client: &Client) -> Read<Vec<DisruptionBudget>> {
    Reader::new(client, None).disruption_budgets().await
}

/// Reads the leftovers of an operator in a cluster that serves neither API.
///
/// No custom resources exist, so `--api` or the keys on nodes determine the API.
///
/// Namespaced objects remain as well: the garbage collector cannot resolve owners of a kind that is not
/// served.
pub async fn leftovers(
    client: &Client,
    asked_for: Option<ApiFlavor>,
    namespace: Option<&str>,
    now: Now<'_>,
) -> Cluster {
    let mut reader = Reader::new(client, namespace);
    reader.served = ApiFlavor::ALL.to_vec();
    let deployments = reader.deployments().await;
    let (nodes, pods, jobs, config_maps, node_metadata, admission) = futures::join!(
        reader.nodes(),
        reader.pods(&deployments),
        reader.jobs(&deployments),
        reader.config_maps(&deployments),
        reader.node_metadata(&deployments),
        reader.admission(),
    );
    let taken_at = now();
    let sources =
        Sources { taken_at, nodes, pods, jobs, config_maps, node_metadata, admission, ..Sources::default() };
    ClusterBuilder { sources, asked_for, deployments, ..ClusterBuilder::default() }.of_leftovers()
}

/// The sources to read: the requested ones and those needed to interpret them.
struct Needs<'a> {
    asked: &'a [Source],
    /// Whether nothing has shown which API is active: all nodes are read then, even if only some are
    /// requested, because their keys show it.
    undecided: bool,
    /// Whether to read the custom resources, by API.
    skyhooks: [bool; 2],
    served: [bool; 2],
}

impl<'a> Needs<'a> {
    fn new(asked: &'a [Source], builder: &ClusterBuilder) -> Needs<'a> {
        let served = ApiFlavor::ALL.map(|flavor| builder.served.contains(&flavor));
        let unread = ApiFlavor::ALL.map(|flavor| !builder.skyhooks[flavor as usize].was_asked());
        // Only traces that an operator left on objects can show which API is active.
        let undecided =
            served == [true, true] && builder.asked_for.is_none() && builder.operator_version().is_none();
        let custom = [Source::Skyhooks, Source::Legacy, Source::Workloads];
        let skyhooks = custom.iter().any(|source| asked.contains(source));
        Needs {
            asked,
            undecided,
            skyhooks: [unread[0] && served[0] && skyhooks, unread[1] && served[1] && (skyhooks || undecided)],
            served,
        }
    }

    fn wants(&self, source: Source) -> bool {
        let asked = |source| self.asked.contains(&source);
        match source {
            // Workloads need the nodes, which show whether they wait for a drain.
            Source::Nodes => self.undecided || asked(source) || asked(Source::Workloads),
            Source::Jobs => self.served[ApiFlavor::NodeWright as usize] && asked(source),
            _ => asked(source),
        }
    }

    async fn read(&self, from: &Reader<'_>, builder: &mut ClusterBuilder) {
        let [old, new] = ApiFlavor::ALL;
        let operators = &builder.deployments;
        let policies = self.served.map(|served| served && self.wants(Source::Policies));
        let [old_skyhooks, new_skyhooks] = &mut builder.skyhooks;
        let [old_policies, new_policies] = &mut builder.policies;
        let sources = &mut builder.sources;
        let wants = |source| self.wants(source);
        futures::join!(
            fill(old_skyhooks, self.skyhooks[0], || from.skyhooks(old)),
            fill(new_skyhooks, self.skyhooks[1], || from.skyhooks(new)),
            fill(old_policies, policies[0], || from.policies(old)),
            fill(new_policies, policies[1], || from.policies(new)),
            fill(&mut sources.nodes, wants(Source::Nodes), || from.nodes()),
            fill(&mut sources.pods, wants(Source::Pods), || from.pods(operators)),
            fill(&mut sources.jobs, wants(Source::Jobs), || from.jobs(operators)),
            fill(&mut sources.events, wants(Source::Events), || from.events(operators)),
            fill(&mut sources.disruption_budgets, wants(Source::DisruptionBudgets), || from
                .disruption_budgets()),
            fill(&mut sources.admission, wants(Source::Webhooks), || from.admission()),
            fill(&mut sources.config_maps, wants(Source::ConfigMaps), || from.config_maps(operators)),
            fill(&mut sources.node_metadata, wants(Source::NodeMetadata), || from.node_metadata(operators)),
            fill(&mut sources.operator_pods, wants(Source::OperatorPods), || from.operator_pods(operators)),
        );
    }
}

/// Reads a source into its place, if it is wanted. Takes a function: a future as argument would be stored twice, and the futures
/// of all sources overflow the stack of a debug build.
async fn fill<T, F: Future<Output = T>>(place: &mut T, wanted: bool, read: impl FnOnce() -> F) {
    if wanted {
        *place = read().await;
    }
}

/// A namespace that every cluster has during its whole life.
pub const NAMESPACE: &str = "kube-system";

/// Reads the uid of the `kube-system` namespace, which identifies the cluster.
///
/// # Errors
///
/// The reason why the namespace could not be read.
pub async fn uid(client: &Client) -> Result<String, Unread> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Meta,
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    let malformed = || Failure::Malformed("the response is not a namespace with a UID".to_owned());
    let found = get(client, &path).await.and_then(|body| {
        let namespace: Namespace = serde_json::from_slice(&body).map_err(|_| malformed())?;
        let uid = namespace.metadata.uid.filter(|uid| !uid.is_empty());
        uid.filter(|_| namespace.metadata.name == NAMESPACE).ok_or_else(malformed)
    });
    Ok(found?)
}
