//! Warning events about a package run or the operator, grouped by kind and reason.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::shown;
use crate::cluster::{Cluster, Deployment, Event, PackageRun, Pod};
use crate::view::time;

/// Maximum number of event groups of one package run or operator.
const MOST: usize = 5;
/// Number of characters that Kubernetes appends to the name of a Job to name a pod.
const SUFFIX: usize = 5;

/// Events about objects of one kind with the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recurring {
    /// The object of the latest event, such as `job/NAME` or `pod/NAME`.
    pub object: String,
    /// The reason of the events.
    pub reason: String,
    /// The message of the latest event.
    pub message: String,
    /// Number of occurrences.
    pub count: i64,
    /// The time of the first occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The time of the latest occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    #[serde(skip)]
    pub at: Option<Timestamp>,
}

/// Warnings by kind and name of their object. Warnings about pods are also listed under `PodOf` with the name of the
/// Job.
pub fn by_object(cluster: &Cluster) -> HashMap<(&str, &str), Vec<&Event>> {
    let mut by_object: HashMap<(&str, &str), Vec<&Event>> = HashMap::new();
    for event in cluster.events.items().iter().filter(|e| e.warning) {
        let (kind, name) = (event.kind.as_str(), event.name.as_str());
        by_object.entry((kind, name)).or_default().push(event);
        if kind == "Pod"
            && let Some((job, suffix)) = name.rsplit_once('-')
            && suffix.len() == SUFFIX
        {
            by_object.entry(("PodOf", job)).or_default().push(event);
        }
    }
    by_object
}

/// The warnings about a Job or bare pod, latest first.
pub fn of_package_run(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    package_run: &PackageRun<'_>,
) -> Vec<Recurring> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    if let Some(job) = package_run.job {
        keys.extend([("Job", job.metadata.name.as_str()), ("PodOf", &job.metadata.name)]);
    }
    let pods = package_run.pods.iter().map(|pod| pod.name());
    match package_run.job {
        Some(job) => {
            let own = |name: &&str| {
                let rest = name.strip_prefix(job.metadata.name.as_str());
                rest.is_some_and(|rest| rest.len() == SUFFIX + 1 && rest.starts_with('-'))
            };
            keys.extend(pods.filter(|name| !own(name)).map(|name| ("Pod", name)));
        }
        None => keys.extend(pods.map(|name| ("Pod", name))),
    }
    recurring(events, &keys, package_run.created())
}

/// The warnings about a Deployment of the operator and its pods, latest first.
pub fn of_operator(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    operator: &Deployment,
    pods: &[&Pod],
) -> Vec<Recurring> {
    let pods = pods.iter().map(|pod| ("Pod", pod.name()));
    let keys: Vec<(&str, &str)> = pods.chain([("Deployment", operator.name())]).collect();
    recurring(events, &keys, None)
}

fn recurring(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    keys: &[(&str, &str)],
    since: Option<Timestamp>,
) -> Vec<Recurring> {
    // Names are reused: an event from before the run was created is about another object.
    let current = |event: &&&Event| event.last.is_none() || event.last >= since;
    let mut alike: BTreeMap<(&str, &str), Vec<&Event>> = BTreeMap::new();
    for event in keys.iter().filter_map(|key| events.get(key)).flatten().filter(current) {
        let key = (event.kind.as_str(), event.reason.as_str());
        alike.entry(key).or_default().push(event);
    }
    let mut recurring: Vec<Recurring> = alike
        .values()
        .filter_map(|events| {
            let newest = events.iter().max_by_key(|e| e.last)?;
            let kind = Recurring {
                object: format!("{}/{}", newest.kind.to_lowercase(), newest.name),
                reason: newest.reason.clone(),
                message: shown(&newest.message).unwrap_or_default(),
                count: events.iter().map(|e| e.count).sum(),
                first: events.iter().filter_map(|e| e.first).min().map(time),
                last: newest.last.map(time),
                at: newest.last,
            };
            Some(kind)
        })
        .collect();
    recurring.sort_by_key(|kind| std::cmp::Reverse(kind.at));
    recurring.truncate(MOST);
    recurring
}
