//! A cluster that watches keep up to date.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch as value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::LoadError;
use super::list::List;
use super::request::{Failure, JSON, open_with};
use super::sources::Reader;
use super::watch::{Id, WatchEvent, watch};
use crate::api::{ApiFlavor, DeploymentPolicy, Object, Skyhook};
use crate::cluster::admission::Admission;
use crate::cluster::{Cluster, Deployment, Job, Node, Pod, Read, ResourceVersions, Source, Unread};
use crate::connect::{TimeLimit, TransportError};

/// Changes that follow each other within this time are reported together.
const SETTLE: Duration = Duration::from_millis(100);
/// Maximum time by which the report of a change is delayed.
const LONGEST: Duration = Duration::from_secs(1);

/// The sources that can be watched.
pub const WATCHED: [Source; 6] =
    [Source::Skyhooks, Source::Legacy, Source::Policies, Source::Nodes, Source::Pods, Source::Jobs];

/// A cluster whose loaded sources are watched from their loaded version, where possible.
///
/// Other sources stay as loaded until [`Follow::refresh`].
pub struct Follow {
    client: Client,
    namespace: Option<String>,
    cluster: Cluster,
    skyhooks: SourceState<Skyhook>,
    legacy: SourceState<Skyhook>,
    policies: SourceState<DeploymentPolicy>,
    legacy_policies: SourceState<DeploymentPolicy>,
    nodes: SourceState<Node>,
    pods: SourceState<Pod>,
    jobs: SourceState<Job>,
    news: UnboundedReceiver<News>,
    /// Updates that were received but not yet returned by [`Follow::news`], which may be canceled.
    changed: bool,
    away: Option<LoadError>,
    /// Numbers of the watches whose last request failed, [`UNWATCHED`] if the last refresh failed, and
    /// [`PROBE`] if the last probe failed.
    failing: BTreeSet<usize>,
    liveness: Liveness,
    /// Whether the user could read the custom resources and the nodes at the start.
    permitted: [bool; 2],
    /// The tasks of the watches, which are aborted when this set is dropped.
    _watches: JoinSet<()>,
}

/// An update of the cluster.
#[derive(Debug)]
pub enum FollowEvent {
    Changed,
    /// The server is unavailable for the moment, for this reason.
    Away(LoadError),
}

/// The number in `failing` for the sources without a watch.
const UNWATCHED: usize = usize::MAX;
/// The number in `failing` for the probes.
const PROBE: usize = UNWATCHED - 1;

/// The number of a watch, and the function that applies its event.
type News = (usize, Box<dyn FnOnce(&mut Follow) -> Effect + Send>);

/// Accesses the state of a source and its items in the cluster.
type SourceOf<T> = fn(&mut Follow) -> (&mut SourceState<T>, &mut Read<Vec<T>>);

impl Follow {
    /// Watches every loaded source that can be watched. Must be called within a tokio runtime.
    ///
    /// `namespace` is `--namespace`, as for [`super::load`].
    pub fn begin(client: &Client, cluster: Cluster, namespace: Option<&str>) -> Follow {
        let reader = reader(client, namespace, &cluster);
        let (ours, other) = (cluster.flavor(), cluster.flavor().other());
        let of = |flavor: ApiFlavor, list: fn(ApiFlavor) -> List| {
            reader.served.contains(&flavor).then(|| list(flavor)).into_iter().collect()
        };
        let (sender, news) = unbounded_channel();
        let mut begin = Begin { client, versions: &cluster.versions, sender, watches: JoinSet::new() };
        let skyhooks = vec![Reader::skyhooks_list(ours)];
        let legacy = of(other, Reader::skyhooks_list);
        let policies = vec![Reader::policies_list(ours)];
        let legacy_policies = of(other, Reader::policies_list);
        let nodes = vec![Reader::nodes_list()];
        let pods = reader.pods_lists(&cluster.operators, &cluster.versions);
        let jobs = match ours {
            ApiFlavor::NodeWright => reader.jobs_lists(&cluster.operators, &cluster.versions),
            ApiFlavor::Skyhook => Vec::new(),
        };
        Follow {
            client: client.clone(),
            namespace: namespace.map(str::to_owned),
            skyhooks: begin
                .watch(&cluster.skyhooks, skyhooks, |f| (&mut f.skyhooks, &mut f.cluster.skyhooks)),
            legacy: begin.watch(&cluster.legacy, legacy, |f| (&mut f.legacy, &mut f.cluster.legacy)),
            policies: begin
                .watch(&cluster.policies, policies, |f| (&mut f.policies, &mut f.cluster.policies)),
            legacy_policies: begin.watch(&cluster.legacy_policies, legacy_policies, |f| {
                (&mut f.legacy_policies, &mut f.cluster.legacy_policies)
            }),
            nodes: begin.watch(&cluster.nodes, nodes, |f| (&mut f.nodes, &mut f.cluster.nodes)),
            pods: begin.watch(&cluster.pods, pods, |f| (&mut f.pods, &mut f.cluster.pods)),
            jobs: begin.watch(&cluster.jobs, jobs, |f| (&mut f.jobs, &mut f.cluster.jobs)),
            liveness: begin.probe(),
            permitted: [cluster.skyhooks.available().is_some(), cluster.nodes.available().is_some()],
            _watches: begin.watches,
            cluster,
            news,
            changed: false,
            away: None,
            failing: BTreeSet::new(),
        }
    }

    /// Whether every watched source was read since the start, or is watched from its loaded version.
    pub fn ready(&self) -> bool {
        self.skyhooks.ready()
            && self.legacy.ready()
            && self.policies.ready()
            && self.legacy_policies.ready()
            && self.nodes.ready()
            && self.pods.ready()
            && self.jobs.ready()
    }

    /// The refusal of custom resources or nodes to a user who could read them at the start: the right was taken away.
    pub fn lost_right(&self) -> Option<LoadError> {
        let refusals = [self.skyhooks.forbidden(), self.nodes.forbidden()];
        let mut lost =
            self.permitted.iter().zip(refusals).filter_map(|(permitted, why)| why.filter(|_| *permitted));
        lost.next().map(|why| LoadError::Forbidden { why: why.to_string() })
    }

    /// Whether the last request of every watch and the last refresh succeeded.
    pub fn is_current(&self) -> bool {
        self.failing.is_empty() && self.lost_right().is_none()
    }

    /// Waits for an update. Cancel-safe.
    pub async fn news(&mut self) -> FollowEvent {
        while !self.changed && self.away.is_none() {
            match self.news.recv().await {
                Some(news) => self.take(news),
                // Without watches, nothing changes.
                None => std::future::pending().await,
            }
        }
        // Changes come in bursts: all nodes at the start, all pods of a stage.
        let more = async {
            loop {
                match timeout(SETTLE, self.news.recv()).await {
                    Ok(Some(news)) => self.take(news),
                    Ok(None) | Err(_) => return,
                }
            }
        };
        let _ = timeout(LONGEST, more).await;
        if let Some(error) = self.away.take() {
            return FollowEvent::Away(error);
        }
        self.changed = false;
        FollowEvent::Changed
    }

    fn take(&mut self, (watch, news): News) {
        let effect = news(self);
        if matches!(effect, Effect::Failed(_)) {
            self.failing.insert(watch);
        } else {
            self.failing.remove(&watch);
        }
        match effect {
            Effect::None => {}
            Effect::Changed => self.changed = true,
            Effect::Failed(failure) if failure.is_absence() => self.away = Some(LoadError::NotServed),
            Effect::Failed(failure) => self.away = Some(LoadError::discovery(failure)),
        }
    }

    /// The cluster with the received changes.
    pub fn cluster(&mut self, now: Timestamp) -> &mut Cluster {
        let cluster = &mut self.cluster;
        cluster.taken_at = now;
        let (ours, other) = (cluster.flavor(), cluster.flavor().other());
        for (kept, skyhooks, flavor) in [
            (&mut self.skyhooks, &mut cluster.skyhooks, ours),
            (&mut self.legacy, &mut cluster.legacy, other),
        ] {
            if kept.renew(skyhooks)
                && let Some(items) = skyhooks.available_mut()
            {
                Reader::name_kind(items, flavor);
                items.sort_by(|a, b| a.order().cmp(&b.order()));
            }
        }
        self.nodes.renew(&mut cluster.nodes);
        self.policies.renew(&mut cluster.policies);
        self.legacy_policies.renew(&mut cluster.legacy_policies);
        self.pods.renew(&mut cluster.pods);
        self.jobs.renew(&mut cluster.jobs);
        cluster.reset_indexes();
        cluster
    }

    /// Re-reads the loaded sources that are not watched.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached, or stops answering meanwhile. The sources then stay unchanged.
    pub async fn refresh(&mut self, now: Timestamp) -> Result<(), LoadError> {
        let mut liveness = self.liveness.clone();
        let read = tokio::select! {
            biased;
            error = liveness.lost() => Err(error),
            read = self.read_unwatched(now) => read,
        };
        if read.is_err() {
            self.failing.insert(UNWATCHED);
        } else {
            self.failing.remove(&UNWATCHED);
        }
        Ok(read?)
    }

    async fn read_unwatched(&mut self, now: Timestamp) -> Result<(), TransportError> {
        self.cluster(now);
        let before = &self.cluster;
        let reader = reader(&self.client, self.namespace.as_deref(), before);
        let operators = again(&before.operators, reader.deployments()).await;
        reader.reached()?;
        let operators = operators.selected(Deployment::runs_operator);
        let admission = async {
            if before.admission.webhooks.was_asked() {
                reader.admission().await
            } else {
                Admission::default()
            }
        };
        let (events, budgets, workloads, config_maps, node_metadata, managers, admission) = futures::join!(
            again(&before.events, reader.events(&operators)),
            again(&before.disruption_budgets, reader.disruption_budgets()),
            again(&before.workloads, reader.workloads(before)),
            again(&before.config_maps, reader.config_maps(&operators)),
            again(&before.node_metadata, reader.node_metadata(&operators)),
            again(&before.operator_pods, reader.operator_pods(&operators)),
            admission,
        );
        reader.reached()?;
        let cluster = &mut self.cluster;
        cluster.config_maps = config_maps;
        cluster.node_metadata = node_metadata;
        cluster.admission = admission;
        cluster.operator_pods = managers;
        cluster.operators = operators;
        cluster.events = events;
        cluster.disruption_budgets = budgets;
        cluster.workloads = workloads;
        cluster.reset_indexes();
        Ok(())
    }
}

fn reader<'a>(client: &'a Client, namespace: Option<&'a str>, of: &Cluster) -> Reader<'a> {
    Reader { served: of.active_api.served.clone(), ..Reader::new(client, namespace) }
}

/// Reads a source again if it was read before.
async fn again<T>(before: &Read<T>, read: impl Future<Output = Read<T>>) -> Read<T> {
    match before {
        Read::NotRequested => Read::NotRequested,
        _ => read.await,
    }
}

struct Begin<'a> {
    client: &'a Client,
    versions: &'a ResourceVersions,
    sender: UnboundedSender<News>,
    watches: JoinSet<()>,
}

impl Begin<'_> {
    fn probe(&mut self) -> Liveness {
        let (state, liveness) = Liveness::new();
        let sender = self.sender.clone();
        let send = move |failure: Option<Failure>| {
            let effect = failure.map_or(Effect::None, Effect::Failed);
            sender.send((PROBE, Box::new(|_| effect))).is_ok()
        };
        self.watches.spawn(probe(self.client.clone(), state, send));
        liveness
    }

    fn watch<T: WatchedObject + DeserializeOwned + Send + 'static>(
        &mut self,
        loaded: &Read<Vec<T>>,
        lists: Vec<List>,
        source: SourceOf<T>,
    ) -> SourceState<T> {
        let lists = match loaded {
            Read::NotRequested => Vec::new(),
            // The API was not served during the load: there is nothing to watch.
            Read::Unreadable(why) if why.status == Some(404) => Vec::new(),
            _ => lists,
        };
        let version = |list: &List| loaded.ok().and_then(|_| self.versions.of(&list.id()));
        let of = |list: &List| {
            let items = loaded.iter().filter(|item| item.is_in(list));
            version(list).map(|_| items.map(T::id).collect())
        };
        let kept = SourceState::of(lists.iter().map(of));
        for (number, list) in lists.into_iter().enumerate() {
            let sender = self.sender.clone();
            let watch_number = self.watches.len();
            let send = move |event| {
                let news = move |follow: &mut Follow| {
                    let (state, items) = source(follow);
                    state.on_event(number, event, items)
                };
                sender.send((watch_number, Box::new(news))).is_ok()
            };
            let from = version(&list).map(str::to_owned);
            let watch = watch(self.client.clone(), list, from, send);
            self.watches.spawn(watch);
        }
        kept
    }
}

/// Pause between two probes.
const INTERVAL: Duration = Duration::from_secs(4);
/// Time limit of a probe. Probes do not wait in the queues of a busy server, as lists do.
const LIMIT: Duration = Duration::from_secs(10);
/// Exempt from the server's request queues, and answered without reading objects.
const PATH: &str = "/livez";

/// Whether the server answers: the error of the last probe.
///
/// A stopped process does not answer while its connections stay open, and a watch may be silent for long.
#[derive(Debug, Clone)]
pub(super) struct Liveness(value::Receiver<Option<TransportError>>);

impl Liveness {
    /// Returns the state, and its sender for [`probe`].
    pub fn new() -> (value::Sender<Option<TransportError>>, Liveness) {
        let (sender, receiver) = value::channel(None);
        (sender, Liveness(receiver))
    }

    /// Waits until the server does not answer.
    pub async fn lost(&mut self) -> TransportError {
        let lost = self.0.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        match lost {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

/// Probes the server until `send` returns false. `send` receives each failed probe, and each success.
pub(super) async fn probe(
    client: Client,
    state: value::Sender<Option<TransportError>>,
    mut send: impl FnMut(Option<Failure>) -> bool,
) {
    loop {
        sleep(INTERVAL).await;
        let mut request = Request::get(PATH).header(http::header::ACCEPT, JSON);
        request.extensions_mut().map(|all| all.insert(TimeLimit::Whole(LIMIT)));
        let request = request.body(Body::empty()).expect("the path is valid");
        // Any answer will do, also "forbidden".
        let lost = match open_with(&client, request).await {
            Err(Failure::TransportError(error)) => Some(error),
            _ => None,
        };
        state.send_replace(lost.clone());
        if !send(lost.map(Failure::TransportError)) {
            return;
        }
    }
}

/// Number of consecutive "not served" responses after which an API counts as removed, with all of its
/// objects. A starting server may temporarily not serve an API.
const ABSENT_AFTER: u32 = 5;

/// The effect of an event on the cluster.
enum Effect {
    None,
    Changed,
    Failed(Failure),
}

/// State of the lists of one source; without lists if the source is not watched. The items are in the
/// cluster.
struct SourceState<T> {
    lists: Vec<Known>,
    /// The items while the source counts as unreadable.
    aside: Vec<T>,
    changed: bool,
}

/// The state of one list.
struct Known {
    /// Ids of the items, or the reason why they could not be read; `None` before the first read.
    ids: Option<Result<BTreeSet<Id>, Unread>>,
    /// The reason why items are missing in the list.
    lacks: Option<Unread>,
    /// Whether the list is watched from the version that was read.
    begun: bool,
    /// Number of consecutive "not served" responses.
    absent: u32,
}

/// An object that can be watched.
trait WatchedObject: Object {
    fn id(&self) -> Id {
        let (namespace, name) = self.key();
        (namespace.to_owned(), name.to_owned())
    }

    /// Whether `list` contains the object. The object was read from `list` or from a list that includes it.
    fn is_in(&self, list: &List) -> bool;

    /// A version that increases with each change of the object and when the object is recreated; `None` for
    /// nodes, which only one list contains.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Whether no stored field differs; `false` for kinds that are not compared.
    fn same(&self, _other: &Self) -> bool {
        false
    }
}

impl WatchedObject for Node {
    fn is_in(&self, _: &List) -> bool {
        true
    }

    // Kubelet heartbeats, every few minutes, change no stored field.
    fn same(&self, other: &Node) -> bool {
        self == other
    }
}

macro_rules! watched_by_metadata {
    ($($kind:ty),+) => {$(
        impl WatchedObject for $kind {
            fn version(&self) -> Option<u64> {
                self.metadata.resource_version.as_ref()?.parse().ok()
            }

            fn is_in(&self, list: &List) -> bool {
                list.is_labelled(&self.metadata.labels)
                    && list.namespace().is_none_or(|namespace| self.metadata.namespace == Some(namespace))
            }
        }
    )+};
}

watched_by_metadata!(Skyhook, DeploymentPolicy, Pod, Job);

impl<T: WatchedObject> SourceState<T> {
    /// Creates the state from the ids in each list at the time of the load; `None` for a list that is not
    /// watched from its loaded version.
    fn of(lists: impl Iterator<Item = Option<BTreeSet<Id>>>) -> SourceState<T> {
        let known = |loaded: Option<BTreeSet<Id>>| Known {
            begun: false,
            ids: loaded.map(Ok),
            lacks: None,
            absent: 0,
        };
        SourceState { lists: lists.map(known).collect(), aside: Vec::new(), changed: false }
    }

    fn ready(&self) -> bool {
        self.lists.iter().all(|list| list.begun && list.ids.is_some())
    }

    /// The refusal of a list to the user.
    pub fn forbidden(&self) -> Option<&Unread> {
        self.lists.iter().filter_map(|list| list.ids.as_ref()?.as_ref().err()).find(|why| why.is_forbidden())
    }

    /// Applies an event of a list. The next renewal sorts the source and removes deleted objects.
    fn on_event(&mut self, list: usize, event: WatchEvent<T>, source: &mut Read<Vec<T>>) -> Effect {
        let items = match source {
            Read::Ok(items) | Read::Incomplete(items, _) => items,
            Read::Unreadable(_) | Read::NotRequested => &mut self.aside,
        };
        let effect = self.lists[list].on_event(event, items);
        self.changed |= matches!(effect, Effect::Changed);
        effect
    }

    /// Renews a source if it has changed since the last renewal, and returns whether it has. A source that
    /// was not loaded is renewed once all of its lists are read.
    fn renew(&mut self, source: &mut Read<Vec<T>>) -> bool {
        let loaded = source.available().is_some();
        if !self.changed || !(loaded || self.ready()) {
            return false;
        }
        self.changed = false;
        let mut items = match mem::take(source) {
            Read::Ok(items) | Read::Incomplete(items, _) => items,
            Read::Unreadable(_) | Read::NotRequested => mem::take(&mut self.aside),
        };
        let ids = self.lists.iter().filter_map(|list| list.ids.as_ref()).map(Result::as_ref);
        *source = match ids.collect::<Result<Vec<_>, _>>() {
            Err(why) => {
                let why = why.clone();
                self.aside = items;
                Read::Unreadable(why)
            }
            Ok(ids) => {
                if ids.len() == self.lists.len() {
                    // Keep objects that any list contains: two lists contain an object with the labels of
                    // both APIs.
                    items.retain(|item| ids.iter().any(|ids| ids.contains(&item.id())));
                }
                items.sort_by(|a, b| a.key().cmp(&b.key()));
                match self.lists.iter().find_map(|list| list.lacks.clone()) {
                    Some(why) => Read::Incomplete(items, why),
                    None => Read::Ok(items),
                }
            }
        };
        true
    }
}

impl Known {
    /// Applies an event to the list and to the items of its source.
    fn on_event<T: WatchedObject>(&mut self, event: WatchEvent<T>, items: &mut Vec<T>) -> Effect {
        let absent = mem::take(&mut self.absent);
        match event {
            WatchEvent::Begun => self.begun = true,
            WatchEvent::All(listed) => {
                let listed = Read::from(listed);
                self.lacks = listed.unread().cloned();
                let all = listed.into_held().unwrap_or_default();
                let ids: BTreeSet<Id> = all.iter().map(T::id).collect();
                items.retain(|item| !ids.contains(&item.id()));
                items.extend(all);
                self.put(Ok(ids));
            }
            WatchEvent::Is(item) => {
                if let Some(Ok(ids)) = &mut self.ids {
                    let new = ids.insert(item.id());
                    let same = match find(items, item.key()) {
                        // Another list that contains the object has already reported a later state.
                        Some(at) if items[at].version() > item.version() => true,
                        // Keep the old object: replacing it at each heartbeat would fragment the memory.
                        Some(at) if items[at].same(&item) => true,
                        Some(at) => {
                            items[at] = item;
                            false
                        }
                        None => {
                            items.push(item);
                            false
                        }
                    };
                    if same && !new {
                        return Effect::None;
                    }
                }
            }
            WatchEvent::Gone(id) => {
                if let Some(Ok(ids)) = &mut self.ids {
                    ids.remove(&id);
                }
            }
            WatchEvent::Failed(failure) if failure.is_absence() => {
                self.absent = absent + 1;
                if self.absent < ABSENT_AFTER {
                    return Effect::Failed(failure);
                }
                self.put(Ok(BTreeSet::new()));
            }
            // A refusal or malformed response concerns the source, not the server.
            WatchEvent::Failed(failure)
                if failure.is_forbidden() || matches!(failure, Failure::Malformed(_)) =>
            {
                self.put(Err(failure.into()));
            }
            WatchEvent::Failed(failure) => return Effect::Failed(failure),
        }
        Effect::Changed
    }

    fn put(&mut self, ids: Result<BTreeSet<Id>, Unread>) {
        self.ids = Some(ids);
        self.begun = true;
    }
}

/// Position of the item with this key. Falls back from a binary search to a scan, because added items are not
/// sorted yet.
fn find<T: WatchedObject>(items: &[T], key: (&str, &str)) -> Option<usize> {
    let ordered = items.binary_search_by(|item| item.key().cmp(&key));
    ordered.ok().or_else(|| items.iter().position(|item| item.key() == key))
}

#[cfg(test)]
mod tests;
