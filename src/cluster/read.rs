//! What became of reading one source.

use std::fmt;

use crate::api::ApiFlavor;

/// One kind of thing that is read from a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The custom resources of the active API.
    Skyhooks,
    /// The custom resources of the other API.
    Legacy,
    /// DeploymentPolicies of the active API.
    Policies,
    Nodes,
    /// Pods that run package stages.
    Pods,
    /// Other pods on nodes that wait to be drained.
    Workloads,
    /// Jobs that run package stages.
    Jobs,
    Events,
    DisruptionBudgets,
    /// The operator's Deployment.
    Operator,
    /// Admission webhooks that the operator serves.
    Webhooks,
    /// ConfigMaps that the operator made for packages and nodes.
    ConfigMaps,
}

impl Source {
    /// What a change is decided by, as a rule: what must not be taken for gone, and nodes not for clean, because they
    /// could not be read.
    pub const DECIDING: [Source; 3] = [Source::Skyhooks, Source::Legacy, Source::Nodes];

    /// What says what runs where: without it no failure is told from what follows of it, and a Job that cannot be seen may
    /// still be at work.
    pub const OF_WORK: [Source; 5] = [
        Source::Skyhooks,
        Source::Legacy,
        Source::Nodes,
        Source::Pods,
        Source::Jobs,
    ];

    pub const ALL: [Source; 12] = [
        Source::Skyhooks,
        Source::Legacy,
        Source::Policies,
        Source::Nodes,
        Source::Pods,
        Source::Workloads,
        Source::Jobs,
        Source::Events,
        Source::DisruptionBudgets,
        Source::Operator,
        Source::Webhooks,
        Source::ConfigMaps,
    ];
}

impl Source {
    /// The resources that are listed to read it, in both APIs: API group and plural.
    pub fn resources(self) -> Vec<(&'static str, &'static str)> {
        let custom = || ApiFlavor::ALL.map(|g| (g.group(), g.plural()));
        match self {
            Source::Skyhooks | Source::Legacy => custom().to_vec(),
            Source::Policies => ApiFlavor::ALL
                .map(|g| (g.group(), "deploymentpolicies"))
                .to_vec(),
            Source::Nodes => vec![("", "nodes")],
            Source::Pods => vec![("", "pods")],
            // Which nodes wait to be drained follows from the others.
            Source::Workloads => [&custom()[..], &[("", "nodes"), ("", "pods")]].concat(),
            Source::Jobs => vec![("batch", "jobs")],
            Source::Events => vec![("", "events")],
            Source::DisruptionBudgets => vec![("policy", "poddisruptionbudgets")],
            Source::Operator => vec![("apps", "deployments")],
            // And what answers them.
            Source::Webhooks => vec![
                (
                    "admissionregistration.k8s.io",
                    "validatingwebhookconfigurations",
                ),
                (
                    "admissionregistration.k8s.io",
                    "mutatingwebhookconfigurations",
                ),
                ("", "services"),
                ("discovery.k8s.io", "endpointslices"),
            ],
            Source::ConfigMaps => vec![("", "configmaps")],
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Skyhooks => "custom resources",
            Source::Legacy => "custom resources of the other API",
            Source::Policies => "deployment policies",
            Source::Nodes => "nodes",
            Source::Pods => "package pods",
            Source::Workloads => "pods on nodes that wait to be drained",
            Source::Jobs => "jobs",
            Source::Events => "events",
            Source::DisruptionBudgets => "pod disruption budgets",
            Source::Operator => "operator deployments",
            Source::Webhooks => "admission webhooks",
            Source::ConfigMaps => "config maps of packages",
        })
    }
}

/// What became of reading one source. Unreadable is not empty, and empty is not healthy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Read<T> {
    Ok(T),
    /// The server or the file would not give it.
    Unreadable(Unread),
    /// Nobody asked for it, or it is not in the input.
    #[default]
    NotRequested,
}

/// Why a source could not be read. Displays as a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The server's answer, where there was one.
    pub status: Option<u16>,
    pub message: String,
}

impl Unread {
    pub fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// The same, with what it is that could not be read.
    pub fn of(&self, what: &str) -> Unread {
        Unread {
            status: self.status,
            message: format!("{what}: {}", self.message),
        }
    }
}

impl From<String> for Unread {
    /// No server said so.
    fn from(message: String) -> Unread {
        Unread {
            status: None,
            message,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<T> Read<T> {
    pub fn ok(&self) -> Option<&T> {
        match self {
            Read::Ok(value) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Read::Ok(value) => Read::Ok(f(value)),
            Read::Unreadable(why) => Read::Unreadable(why),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// Whether it was tried, with or without success.
    pub fn was_asked(&self) -> bool {
        !matches!(self, Read::NotRequested)
    }

    /// How sure we are that what is not in here does not exist.
    pub fn absence(&self) -> Certainty {
        match self {
            Read::Ok(_) => Certainty::Proven,
            Read::Unreadable(_) => Certainty::Unknown,
            Read::NotRequested => Certainty::Presumed,
        }
    }
}

impl<T> Read<Vec<T>> {
    /// The items, or none where nothing could be read. Ask [`Read::absence`] what "none" is worth.
    pub fn items(&self) -> &[T] {
        self.ok().map_or(&[], Vec::as_slice)
    }
}

/// How sure we are that a thing we do not see does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The source could not be read: it may well exist.
    Unknown,
    /// The files given hold nothing of that kind, which may mean that none was captured.
    Presumed,
    /// The source was read whole.
    Proven,
}
