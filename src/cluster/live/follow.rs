//! A cluster that is kept up to date by watches.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::LoadError;
use super::request::Failure;
use super::sources::Reader;
use super::watch::{Id, Told, watch};
use crate::api::{Generation, Skyhook};
use crate::cluster::{Cluster, Deployment, Job, Node, Pod, Read, Source, Unread};

/// What comes within this after a change is taken along with it.
const SETTLE: Duration = Duration::from_millis(100);
/// However much there is to take along, the news is not kept back longer.
const LONGEST: Duration = Duration::from_secs(1);

/// The sources that are watched.
pub const WATCHED: [Source; 4] = [Source::Skyhooks, Source::Nodes, Source::Pods, Source::Jobs];

/// A cluster whose custom resources, nodes, pods and jobs are watched from the time it was loaded.
///
/// The rest of it stays as it was loaded until [`Follow::refresh`].
pub struct Follow {
    client: kube::Client,
    namespace: Option<String>,
    cluster: Cluster,
    skyhooks: Kept<Skyhook>,
    nodes: Kept<Node>,
    pods: Kept<Pod>,
    jobs: Kept<Job>,
    news: UnboundedReceiver<One>,
    /// What was heard and not yet told: whoever waits for news may be called away.
    changed: bool,
    away: Option<LoadError>,
    /// They end with this.
    _watches: JoinSet<()>,
}

/// What has happened.
#[derive(Debug)]
pub enum News {
    Changed,
    /// The server gives nothing for the moment, and why.
    Away(LoadError),
}

/// One piece of news, of one list of a source.
enum One {
    Skyhook(usize, Box<Told<Skyhook>>),
    Node(usize, Told<Node>),
    Pod(usize, Told<Pod>),
    Job(usize, Told<Job>),
}

/// What is known of one source.
struct Kept<T> {
    /// By list, and by namespace and name; nothing where a list was not read yet, and why where it cannot be.
    lists: Vec<Option<Result<BTreeMap<Id, T>, Unread>>>,
}

/// What a watched object is known by.
trait Known {
    fn id(&self) -> Id;
}

impl Known for Node {
    fn id(&self) -> Id {
        (String::new(), self.name.clone())
    }
}

macro_rules! known_by_metadata {
    ($($kind:ty),+) => {$(
        impl Known for $kind {
            fn id(&self) -> Id {
                let namespace = self.metadata.namespace.clone();
                (namespace.unwrap_or_default(), self.metadata.name.clone())
            }
        }
    )+};
}

known_by_metadata!(Skyhook, Pod, Job);

impl Follow {
    /// Watches what was loaded. Must be called within a tokio runtime.
    ///
    /// `namespace` is where the user says the operator runs, as for [`super::load`].
    pub fn begin(client: &kube::Client, cluster: Cluster, namespace: Option<&str>) -> Follow {
        let reader = reader(client, namespace, &cluster);
        let generation = cluster.generation();
        let (tell, news) = unbounded_channel();
        let mut watches = JoinSet::new();
        let skyhooks = vec![Reader::skyhooks_list(generation)];
        let nodes = vec![Reader::nodes_list()];
        let pods = reader.pods_lists(&cluster.operators);
        let jobs = match generation {
            Generation::NodeWright => reader.jobs_lists(&cluster.operators),
            Generation::Skyhook => Vec::new(),
        };
        let begin = Begin { client, tell };
        Follow {
            client: client.clone(),
            namespace: namespace.map(str::to_owned),
            skyhooks: begin.all(&mut watches, skyhooks, |at, told| {
                One::Skyhook(at, Box::new(told))
            }),
            nodes: begin.all(&mut watches, nodes, One::Node),
            pods: begin.all(&mut watches, pods, One::Pod),
            jobs: begin.all(&mut watches, jobs, One::Job),
            cluster,
            news,
            changed: false,
            away: None,
            _watches: watches,
        }
    }

    /// Whether all of it was read since the beginning, so that what was loaded counts no more.
    pub fn ready(&self) -> bool {
        fn read<T>(kept: &Kept<T>) -> bool {
            kept.lists.iter().all(Option::is_some)
        }
        read(&self.skyhooks) && read(&self.nodes) && read(&self.pods) && read(&self.jobs)
    }

    /// Waits for something to happen. It may be dropped at any moment, and nothing is lost.
    pub async fn news(&mut self) -> News {
        if !self.changed && self.away.is_none() {
            let first = self.news.recv().await;
            self.take(first);
        }
        // Much comes at once: all nodes at the start, all pods of a stage.
        let more = async {
            loop {
                match timeout(SETTLE, self.news.recv()).await {
                    Ok(one) => self.take(one),
                    Err(_) => return,
                }
            }
        };
        let _ = timeout(LONGEST, more).await;
        if std::mem::take(&mut self.changed) {
            return News::Changed;
        }
        self.away.take().map_or(News::Changed, News::Away)
    }

    fn take(&mut self, one: Option<One>) {
        let failure = match one {
            Some(One::Skyhook(list, told)) => self.skyhooks.hear(list, *told),
            Some(One::Node(list, told)) => self.nodes.hear(list, told),
            Some(One::Pod(list, told)) => self.pods.hear(list, told),
            Some(One::Job(list, told)) => self.jobs.hear(list, told),
            // The watches never end by themselves.
            None => return,
        };
        match failure {
            None => self.changed = true,
            // What is forbidden or makes no sense is news of the source, and not of the server.
            Some(Failure::Malformed(_)) => self.changed = true,
            Some(failure) if failure.is_forbidden() => self.changed = true,
            Some(failure) => self.away = Some(LoadError::discovery(failure)),
        }
    }

    /// The cluster as it is known now.
    pub fn cluster(&self, now: Timestamp) -> Cluster {
        let loaded = &self.cluster;
        let generation = loaded.generation();
        let mut cluster = Cluster {
            taken_at: now,
            skyhooks: self.skyhooks.read(&loaded.skyhooks),
            nodes: self.nodes.read(&loaded.nodes),
            pods: self.pods.read(&loaded.pods),
            jobs: self.jobs.read(&loaded.jobs),
            ..loaded.clone()
        };
        if let Read::Ok(skyhooks) = &mut cluster.skyhooks {
            for skyhook in skyhooks.iter_mut().filter(|s| s.api_version.is_empty()) {
                skyhook.api_version = generation.api_version();
                skyhook.kind = generation.kind().to_owned();
            }
            skyhooks.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        if let Read::Ok(nodes) = &mut cluster.nodes {
            nodes.sort_by(|a, b| a.name.cmp(&b.name));
        }
        cluster
    }

    /// Reads anew what was loaded and is not watched.
    pub async fn refresh(&mut self, now: Timestamp) {
        let before = self.cluster(now);
        let reader = reader(&self.client, self.namespace.as_deref(), &before);
        let other = before.generation().other();
        let deployments = again(&before.operators, reader.deployments()).await;
        let deployments = deployments.map(|mut all| {
            all.retain(Deployment::runs_operator);
            all
        });
        let (policies, events, budgets, legacy, workloads) = futures::join!(
            again(&before.policies, reader.policies(before.generation())),
            again(&before.events, reader.events(&deployments)),
            again(&before.disruption_budgets, reader.disruption_budgets()),
            again(&before.legacy, reader.skyhooks(other)),
            again(&before.workloads, reader.workloads(&before)),
        );
        self.cluster.operators = deployments;
        self.cluster.policies = policies;
        self.cluster.events = events;
        self.cluster.disruption_budgets = budgets;
        self.cluster.legacy = legacy;
        self.cluster.workloads = workloads;
    }
}

fn reader<'a>(client: &'a kube::Client, namespace: Option<&'a str>, of: &Cluster) -> Reader<'a> {
    Reader {
        client,
        namespace,
        served: of.ruling.served.clone(),
        only: &[],
        recorder: None,
    }
}

fn was_asked<T>(read: &Read<T>) -> bool {
    !matches!(read, Read::NotAsked)
}

/// Reads a source again if it was read before.
async fn again<T>(before: &Read<T>, read: impl Future<Output = Read<T>>) -> Read<T> {
    if was_asked(before) {
        read.await
    } else {
        Read::NotAsked
    }
}

struct Begin<'a> {
    client: &'a kube::Client,
    tell: UnboundedSender<One>,
}

impl Begin<'_> {
    fn all<T: DeserializeOwned + Send + 'static>(
        &self,
        watches: &mut JoinSet<()>,
        lists: Vec<super::list::List>,
        one: fn(usize, Told<T>) -> One,
    ) -> Kept<T> {
        let kept = Kept {
            lists: lists.iter().map(|_| None).collect(),
        };
        for (number, list) in lists.into_iter().enumerate() {
            let tell = self.tell.clone();
            let tell = move |told| tell.send(one(number, told)).is_ok();
            watches.spawn(watch(self.client.clone(), list, tell));
        }
        kept
    }
}

impl<T: Known + Clone> Kept<T> {
    /// Takes in what a list tells; what it failed with, if it did.
    fn hear(&mut self, list: usize, told: Told<T>) -> Option<Failure> {
        let kept = &mut self.lists[list];
        match told {
            Told::All(items) => {
                *kept = Some(Ok(items
                    .into_iter()
                    .map(|item| (item.id(), item))
                    .collect()));
            }
            Told::Is(item) => {
                if let Some(Ok(items)) = kept {
                    items.insert(item.id(), item);
                }
            }
            Told::Gone(id) => {
                if let Some(Ok(items)) = kept {
                    items.remove(&id);
                }
            }
            Told::Failed(failure) => {
                if failure.is_forbidden() || matches!(failure, Failure::Malformed(_)) {
                    *kept = Some(Err(failure.clone().into()));
                }
                return Some(failure);
            }
        }
        None
    }

    /// The source as it is known; as it was loaded until all of its lists were read.
    fn read(&self, loaded: &Read<Vec<T>>) -> Read<Vec<T>> {
        if self.lists.is_empty() || !was_asked(loaded) {
            return loaded.clone();
        }
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        for list in &self.lists {
            match list {
                None => return loaded.clone(),
                Some(Err(why)) => return Read::Unreadable(why.clone()),
                Some(Ok(kept)) => {
                    // What carries the labels of both generations comes twice.
                    let new = kept.iter().filter(|(id, _)| seen.insert((*id).clone()));
                    items.extend(new.map(|(_, item)| item.clone()));
                }
            }
        }
        Read::Ok(items)
    }
}
