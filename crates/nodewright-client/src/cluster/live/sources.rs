//! Reads each source of a cluster from its API server.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use futures::StreamExt;
use serde::de::DeserializeOwned;

use super::LoadError;
use super::decode::Listed;
use super::list::{List, Recorder};
use super::request::Failure;
use crate::api::{ApiFlavor, DeploymentPolicy, Object, Skyhook};
use crate::cluster::operator::MANAGER_LABEL;
use crate::cluster::{
    Cluster, ConfigMap, Deployment, DisruptionBudget, Event, Job, NodeFields, Pod, Read, ResourceVersions,
    kubernetes,
};
use crate::connect::TransportError;
use crate::model::waiting_for_drain;

pub(super) const CORE: &str = "/api/v1";
const BATCH: &str = "/apis/batch/v1";
const POLICY: &str = "/apis/policy/v1";

/// Maximum number of nodes for which the pods are listed node by node.
const FEW_NODES: usize = 50;
/// Maximum number of concurrent list requests, such as for the pods of single nodes.
const AT_ONCE: usize = 8;

/// Reads sources from an API server.
pub(super) struct Reader<'a> {
    pub client: &'a kube::Client,
    /// Value of `--namespace`.
    pub namespace: Option<&'a str>,
    pub served: Vec<ApiFlavor>,
    /// Names of the nodes to read; empty for all nodes.
    pub named_nodes: &'a [String],
    /// Fields to read of all nodes. Named nodes are read whole.
    pub node_fields: NodeFields,
    /// Recorder of the lists, for a capture.
    pub recorder: Option<Recorder<'a>>,
    /// Versions at which lists were read.
    pub versions: Mutex<ResourceVersions>,
    /// The reason why the server could not be reached for a list.
    pub unreachable: Mutex<Option<TransportError>>,
}

impl<'a> Reader<'a> {
    /// A reader of all nodes. `served` is empty until the served APIs are known.
    pub fn new(client: &'a kube::Client, namespace: Option<&'a str>) -> Reader<'a> {
        Reader {
            client,
            namespace,
            served: Vec::new(),
            named_nodes: &[],
            node_fields: NodeFields::All,
            recorder: None,
            versions: Default::default(),
            unreachable: Default::default(),
        }
    }
}

impl Reader<'_> {
    /// Runs a discovery request within the overall deadline.
    pub async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, LoadError>>,
    ) -> Result<T, LoadError> {
        match &self.recorder {
            Some(recorder) => {
                recorder.in_time(request).await.unwrap_or_else(|late| Err(LoadError::discovery(late)))
            }
            None => request.await,
        }
    }

    pub fn skyhooks_list(flavor: ApiFlavor) -> List {
        let api = format!("/apis/{}", flavor.api_version());
        List::all(&api, flavor.plural(), flavor.kind())
    }

    pub async fn skyhooks(&self, flavor: ApiFlavor) -> Read<Vec<Skyhook>> {
        let list = Self::skyhooks_list(flavor);
        let mut read = self.read::<Skyhook>(&list).await;
        if let Some(items) = read.available_mut() {
            Self::name_kind(items, flavor);
        }
        read
    }

    /// Sets apiVersion and kind of items that lack them. Servers write both into every item, but the API does
    /// not require it.
    pub fn name_kind(items: &mut [Skyhook], flavor: ApiFlavor) {
        for item in items.iter_mut().filter(|i| i.api_version.is_empty()) {
            item.api_version = flavor.api_version();
            item.kind = flavor.kind().to_owned();
        }
    }

    pub fn policies_list(flavor: ApiFlavor) -> List {
        let api = format!("/apis/{}", flavor.api_version());
        List::all(&api, "deploymentpolicies", "DeploymentPolicy")
    }

    pub async fn policies(&self, flavor: ApiFlavor) -> Read<Vec<DeploymentPolicy>> {
        self.read(&Self::policies_list(flavor)).await
    }

    pub async fn disruption_budgets(&self) -> Read<Vec<DisruptionBudget>> {
        let list = List::all(POLICY, "poddisruptionbudgets", "PodDisruptionBudget");
        self.read(&list).await
    }

    pub(super) fn all_pods() -> List {
        List::all(CORE, "pods", "Pod")
    }

    fn all_jobs() -> List {
        List::all(BATCH, "jobs", "Job")
    }

    /// Reads the package pods of every served API; only the pods on a node if exactly one node is named.
    pub async fn pods(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Pod>> {
        let labels = self.package_labels(&self.served);
        let pods = match self.named_nodes {
            [node] => Self::all_pods().with_fields(&format!("spec.nodeName={node}")),
            _ => Self::all_pods(),
        };
        self.of_packages(pods, &labels, operators).await
    }

    /// Reads the pods on a node in one list: those of packages, and the others.
    pub async fn pods_on(&self, node: &str, operators: &Read<Vec<Deployment>>) -> [Read<Vec<Pod>>; 2] {
        let labels = self.package_labels(&self.served);
        let of_package = |pod: &Pod| labels.iter().any(|l| pod.metadata.labels.contains_key(l));
        let all = self.read(&Self::all_pods().with_fields(&format!("spec.nodeName={node}"))).await;
        match all.ok() {
            Some(_) => [all.filtered(of_package), all.filtered(|pod| !of_package(pod))],
            None => [self.pods(operators).await, Read::NotRequested],
        }
    }

    /// Reads the Jobs of packages, which only the newer API has.
    pub async fn jobs(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Job>> {
        let labels = self.package_labels(&[ApiFlavor::NodeWright]);
        self.of_packages(Self::all_jobs(), &labels, operators).await
    }

    /// The lists to watch after [`Reader::pods`]: in all namespaces if these were read, otherwise in the
    /// operator's namespaces if known.
    pub fn pods_lists(&self, operators: &Read<Vec<Deployment>>, loaded: &ResourceVersions) -> Vec<List> {
        let labels = self.package_labels(&self.served);
        self.lists_of_packages(Self::all_pods(), &labels, operators, loaded)
    }

    /// The lists to watch after [`Reader::jobs`], as for pods.
    pub fn jobs_lists(&self, operators: &Read<Vec<Deployment>>, loaded: &ResourceVersions) -> Vec<List> {
        let labels = self.package_labels(&[ApiFlavor::NodeWright]);
        self.lists_of_packages(Self::all_jobs(), &labels, operators, loaded)
    }

    fn lists_of_packages(
        &self,
        things: List,
        labels: &[String],
        operators: &Read<Vec<Deployment>>,
        loaded: &ResourceVersions,
    ) -> Vec<List> {
        let everywhere = labelled(&things, labels);
        let inside = self.lists_inside(&things, labels, operators);
        let were_read = everywhere.iter().all(|list| loaded.of(&list.id()).is_some());
        if inside.is_empty() || were_read { everywhere } else { inside }
    }

    /// The lists in the operator's namespaces; empty if the namespaces are unknown.
    fn lists_inside(&self, things: &List, labels: &[String], operators: &Read<Vec<Deployment>>) -> Vec<List> {
        let namespaces = self.operator_namespaces(operators);
        namespaces.iter().flat_map(|namespace| labelled(&things.clone().within(namespace), labels)).collect()
    }

    /// Reads the ConfigMaps of packages, of either API.
    pub async fn config_maps(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<ConfigMap>> {
        let labels = ApiFlavor::ALL.map(kubernetes::package_label);
        self.config_maps_labelled(&labels, operators).await
    }

    /// Reads the ConfigMaps with node metadata, of either API.
    pub async fn node_metadata(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<ConfigMap>> {
        let labels = ApiFlavor::ALL.map(kubernetes::node_label);
        self.config_maps_labelled(&labels, operators).await
    }

    async fn config_maps_labelled(
        &self,
        labels: &[String],
        operators: &Read<Vec<Deployment>>,
    ) -> Read<Vec<ConfigMap>> {
        let config_maps = List::all(CORE, "configmaps", "ConfigMap");
        self.of_packages(config_maps, labels, operators).await
    }

    pub(super) fn package_labels(&self, flavors: &[ApiFlavor]) -> Vec<String> {
        flavors.iter().map(|flavor| flavor.key("name")).collect()
    }

    /// Reads the events of cluster-scoped objects, which are in `default`, and of the operator's pods and
    /// Jobs.
    pub async fn events(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Event>> {
        let mut namespaces = self.operator_namespaces(operators);
        if namespaces.is_empty() {
            namespaces.extend(self.served.iter().map(|flavor| flavor.default_namespace().to_owned()));
        }
        namespaces.insert("default".to_owned());
        let lists: Vec<List> =
            namespaces.iter().map(|namespace| List::inside(CORE, namespace, "events", "Event")).collect();
        read(self.all_of(&lists).await)
    }

    /// Reads the workload pods on nodes that wait for a drain.
    pub async fn workloads(&self, cluster: &Cluster) -> Read<Vec<Pod>> {
        let why = cluster.skyhooks.unread().or(cluster.nodes.unread());
        if let Some(why) = why {
            return Read::Unreadable(why.of("cannot tell which nodes are waiting for a drain"));
        }
        self.workloads_on(&waiting_for_drain(cluster)).await
    }

    /// Reads the workload pods on these nodes.
    ///
    /// Lists the pods per node if there are few nodes. For many nodes, a server returns one list of all pods
    /// faster.
    pub async fn workloads_on(&self, nodes: &[&str]) -> Read<Vec<Pod>> {
        let pods = Self::all_pods();
        let lists: Vec<List> = match nodes.len() {
            0 => Vec::new(),
            1..=FEW_NODES => {
                nodes.iter().map(|node| pods.clone().with_fields(&format!("spec.nodeName={node}"))).collect()
            }
            _ => vec![pods],
        };
        let labels = self.package_labels(&self.served);
        let nodes: HashSet<&str> = nodes.iter().copied().collect();
        let waits = |pod: &Pod| {
            nodes.contains(pod.spec.node_name.as_str())
                && !labels.iter().any(|l| pod.metadata.labels.contains_key(l))
        };
        let found = self.all_that(&lists, &waits).await;
        read(found).map(|mut pods: Vec<Pod>| {
            pods.retain(waits);
            pods
        })
    }

    /// Reads objects of packages in all namespaces. If that is forbidden, reads only the operator's
    /// namespaces, which contain all of these objects. They must be known or given: an empty list in a
    /// guessed namespace proves nothing.
    async fn of_packages<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        things: List,
        labels: &[String],
        operators: &Read<Vec<Deployment>>,
    ) -> Read<Vec<T>> {
        let mut found = self.all_of(&labelled(&things, labels)).await;
        if let Err(failure) = &found
            && failure.is_forbidden()
        {
            let lists = self.lists_inside(&things, labels, operators);
            if !lists.is_empty()
                && let Ok(inside) = self.all_of(&lists).await
            {
                found = Ok(inside);
            }
        }
        read(found).map(unique)
    }

    /// Namespaces of the operator's known Deployments, else the value of `--namespace`.
    pub(super) fn operator_namespaces(&self, operators: &Read<Vec<Deployment>>) -> BTreeSet<String> {
        let known: BTreeSet<String> =
            operators.iter().filter(|d| d.runs_operator()).map(|d| d.namespace().to_owned()).collect();
        if known.is_empty() { self.namespace.map(str::to_owned).into_iter().collect() } else { known }
    }

    async fn read<T: Object + DeserializeOwned + Send + 'static>(&self, list: &List) -> Read<Vec<T>> {
        read(self.list(list).await)
    }

    pub async fn list<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        list: &List,
    ) -> Result<Listed<T>, Failure> {
        self.list_that(list, &|_| true).await
    }

    /// Reads a list. A recording keeps only the items that pass `keep`.
    async fn list_that<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        list: &List,
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        match &self.recorder {
            Some(recorder) => recorder.list(self.client, list, keep).await,
            None => {
                let listed =
                    list.read(self.client).await.inspect_err(|failure| self.note_unreachable(failure))?;
                let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
                versions.note(list.id(), listed.version.clone());
                Ok(listed)
            }
        }
    }

    fn note_unreachable(&self, failure: &Failure) {
        if let Failure::TransportError(error) = failure
            && error.is_unreachable()
        {
            *self.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// Fails if the server could not be reached for a list.
    ///
    /// # Errors
    ///
    /// The reason for the last of these lists.
    pub fn reached(&self) -> Result<(), TransportError> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Reads several lists as one, in order. Fails if one of them fails.
    pub async fn all_of<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        lists: &[List],
    ) -> Result<Listed<T>, Failure> {
        self.all_that(lists, &|_| true).await
    }

    pub(super) async fn all_that<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        lists: &[List],
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        let mut all = Listed::default();
        let mut read = futures::stream::iter(lists).map(|list| self.list_that(list, keep)).buffered(AT_ONCE);
        while let Some(listed) = read.next().await {
            all.append(listed?);
        }
        Ok(all)
    }
}

/// The list, restricted to each of these labels.
pub(super) fn labelled(list: &List, labels: &[String]) -> Vec<List> {
    labels.iter().map(|label| list.clone().labelled(label)).collect()
}

pub(super) fn read<T>(result: Result<Listed<T>, Failure>) -> Read<Vec<T>> {
    result.map_or_else(|failure| Read::Unreadable(failure.into()), Read::from)
}

/// Removes duplicates: objects with the labels of both APIs are listed twice.
fn unique<T: Object>(items: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    let mut unique = Vec::with_capacity(items.len());
    for item in items {
        let (namespace, name) = item.key();
        if seen.insert((namespace.to_owned(), name.to_owned())) {
            unique.push(item);
        }
    }
    unique
}

const APPS: &str = "/apis/apps/v1";

impl Reader<'_> {
    /// Reads the Deployments with the manager label, of any operator. Without permission for all namespaces,
    /// reads only the charts' default namespaces and `--namespace`; there may be Deployments elsewhere. If
    /// none of these runs the operator, returns the refusal.
    pub async fn deployments(&self) -> Read<Vec<Deployment>> {
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let list = List::all(APPS, "deployments", "Deployment").labelled(&selector);
        let failure = match self.list(&list).await {
            Err(failure) if failure.is_forbidden() => failure,
            done => return read(done),
        };
        let likely: BTreeSet<&str> =
            ApiFlavor::ALL.map(ApiFlavor::default_namespace).into_iter().chain(self.namespace).collect();
        let mut found: Listed<Deployment> = Listed::default();
        for namespace in likely {
            let list = List::inside(APPS, namespace, "deployments", "Deployment");
            let deployments = self.list(&list.labelled(&selector)).await;
            found.append(deployments.unwrap_or_default());
        }
        if found.items.iter().any(Deployment::runs_operator) {
            found.into()
        } else {
            Read::Unreadable(failure.into())
        }
    }

    /// Reads the pods with the manager label in the operator's known or given namespaces.
    pub async fn operator_pods(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Pod>> {
        let namespaces = self.operator_namespaces(operators);
        if namespaces.is_empty()
            && let Some(why) = operators.unread()
        {
            return Read::Unreadable(why.of("cannot tell where the operator runs"));
        }
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let lists: Vec<List> = namespaces
            .iter()
            .map(|namespace| List::inside(CORE, namespace, "pods", "Pod").labelled(&selector))
            .collect();
        read(self.all_of(&lists).await)
    }
}
