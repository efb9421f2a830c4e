//! The sources of a cluster, in one table.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::slice::Iter;

use crate::api::ApiFlavor;

/// API group and plural of a resource.
type Resource = (&'static str, &'static str);

/// Declares the sources: their meaning, their name in messages, and the resources listed to read them, in
/// both APIs.
macro_rules! sources {
    ($($(#[doc = $doc:literal])* $name:ident $words:literal from $resources:expr;)+) => {
        /// A source of a cluster: one kind of data to read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Source {
            $($(#[doc = $doc])* $name),+
        }

        impl Source {
            pub const ALL: [Source; [$($words),+].len()] = [$(Source::$name),+];

            /// Resources that are listed to read the source, in both APIs.
            pub fn resources(self) -> Vec<Resource> {
                match self {
                    $(Source::$name => $resources.to_vec()),+
                }
            }
        }

        impl fmt::Display for Source {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Source::$name => $words),+
                })
            }
        }
    };
}

sources! {
    /// The custom resources of the active API.
    Skyhooks "custom resources" from CUSTOM;
    /// The custom resources of the other API.
    Legacy "custom resources of the other API" from CUSTOM;
    /// DeploymentPolicies of the active API.
    Policies "deployment policies" from ApiFlavor::ALL.map(|flavor| (flavor.group(), "deploymentpolicies"));
    Nodes "nodes" from [NODES];
    /// Pods that run package stages.
    Pods "package pods" from [PODS];
    /// Other pods on nodes that are to be drained. The other sources determine these nodes.
    Workloads "workload pods on nodes to be drained" from [&CUSTOM[..], &[NODES, PODS]].concat();
    /// Jobs that run package stages.
    Jobs "jobs" from [("batch", "jobs")];
    Events "events" from [("", "events")];
    DisruptionBudgets "PodDisruptionBudgets" from [("policy", "poddisruptionbudgets")];
    /// The operator's Deployment; also the Leases if several Deployments could act, and the namespaces if
    /// none is ready.
    Operator "operator deployments" from [
        ("coordination.k8s.io", "leases"),
        ("", "namespaces"),
        ("apps", "deployments"),
    ];
    /// The pods that run the operator.
    OperatorPods "operator pods" from [PODS];
    /// Admission webhooks that match custom resources or evictions, and the backends of the former.
    Webhooks "admission webhooks" from [
        (ADMISSION, "validatingwebhookconfigurations"),
        (ADMISSION, "mutatingwebhookconfigurations"),
        ("", "services"),
        ("discovery.k8s.io", "endpointslices"),
    ];
    /// Objects that may restrict the operator's requests in its namespace, read only while the operator may be late; and its
    /// CRDs, read by name only while a custom resource is being deleted.
    Restrictions "limits and roles of the operator" from [
        ("", "namespaces"),
        ("", "limitranges"),
        ("", "resourcequotas"),
        (RBAC, "clusterroles"),
        (RBAC, "clusterrolebindings"),
        (RBAC, "roles"),
        (RBAC, "rolebindings"),
        ("", "services"),
        ("discovery.k8s.io", "endpointslices"),
    ];
    /// ConfigMaps that the operator created from the `configMap` of packages.
    ConfigMaps "ConfigMaps of packages" from [CONFIG_MAPS];
    /// ConfigMaps with metadata of a node for packages to read: one for each custom resource on each node.
    NodeMetadata "ConfigMaps of nodes" from [CONFIG_MAPS];
}

const CUSTOM: [Resource; 2] = {
    let [old, new] = ApiFlavor::ALL;
    [(old.group(), old.plural()), (new.group(), new.plural())]
};
const NODES: Resource = ("", "nodes");
const PODS: Resource = ("", "pods");
const CONFIG_MAPS: Resource = ("", "configmaps");
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

impl Source {
    /// The sources on which most changes depend: a failed read must not count as an absent custom resource or
    /// a clean node.
    pub const REQUIRED_FOR_CHANGES: [Source; 3] = [Source::Skyhooks, Source::Legacy, Source::Nodes];

    /// Sources needed to predict the effects of changed node states or batches.
    pub const OF_ROLLOUTS: [Source; 7] = [
        Source::Skyhooks,
        Source::Legacy,
        Source::Policies,
        Source::Nodes,
        Source::Operator,
        Source::Pods,
        Source::Jobs,
    ];

    /// Sources that only explain a finding: without them, no problem is missed.
    pub const EXPLANATORY: [Source; 1] = [Source::Restrictions];

    /// The sources that every verdict on a rollout needs.
    pub const ESSENTIAL: [Source; 2] = [Source::Skyhooks, Source::Nodes];

    /// The sources that show running work. Without them a cause cannot be distinguished from its effects, and
    /// an unseen Job may still be running.
    pub const OF_WORK: [Source; 5] =
        [Source::Skyhooks, Source::Legacy, Source::Nodes, Source::Pods, Source::Jobs];
}

/// The nodes and names that a command is limited to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedNodes {
    pub nodes: Vec<String>,
    /// Name of a custom resource, which must be known.
    pub skyhook: Option<String>,
    /// Name of a package of the custom resource, which must be known.
    pub package: Option<String>,
    /// Whether the command makes changes: its pause affects other nodes, too.
    pub to_change: bool,
    /// Whether the command explains one node. This needs all nodes, unless the node is finished.
    pub explained: bool,
}

impl NamedNodes {
    /// Maximum number of nodes to read by name. For more nodes, one list of all is faster.
    pub const MAX: usize = 50;

    /// A limit to these nodes; `None` if there are no nodes, or too many to read each by name.
    pub fn few(names: impl IntoIterator<Item = String>) -> Option<NamedNodes> {
        let nodes: BTreeSet<String> = names.into_iter().collect();
        (1..=NamedNodes::MAX)
            .contains(&nodes.len())
            .then(|| NamedNodes { nodes: nodes.into_iter().collect(), ..NamedNodes::default() })
    }
}

/// The result of reading one source. An unreadable source does not count as empty, nor an empty one as
/// healthy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Read<T> {
    Ok(T),
    /// Some items are missing, because their identity or a part of the source could not be read. The other
    /// items are used, but do not prove the absence of an object.
    Incomplete(T, Unread),
    /// The source could not be read.
    Unreadable(Unread),
    /// Not requested, or missing from the input.
    #[default]
    NotRequested,
}

/// The reason why a source could not be read, displayed as a short text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// HTTP status of the error response, if there was a response.
    pub status: Option<u16>,
    pub message: String,
}

impl Unread {
    pub fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// The reason, prefixed with the name of the unreadable part.
    pub fn of(&self, what: &str) -> Unread {
        Unread { status: self.status, message: format!("{what}: {}", self.message) }
    }
}

impl From<String> for Unread {
    /// A reason without a response from a server.
    fn from(message: String) -> Unread {
        Unread { status: None, message }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

thread_local! {
    static SCANNED: Cell<usize> = const { Cell::new(0) };
}

/// Sum of the lengths of all lists that [`Read::items`] has returned on this thread. Tests compare the sums
/// for clusters of different sizes: a scan of one list for each item of another makes the sum grow
/// quadratically.
pub fn scanned_items() -> usize {
    SCANNED.get()
}

impl<T, E: Into<Unread>> From<Result<T, E>> for Read<T> {
    fn from(result: Result<T, E>) -> Read<T> {
        result.map_or_else(|error| Read::Unreadable(error.into()), Read::Ok)
    }
}

impl<T> Read<T> {
    pub fn ok(&self) -> Option<&T> {
        match self {
            Read::Ok(value) => Some(value),
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn available(&self) -> Option<&T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn available_mut(&mut self) -> Option<&mut T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The items, complete or not.
    pub fn into_held(self) -> Option<T> {
        match self {
            Read::Ok(value) | Read::Incomplete(value, _) => Some(value),
            Read::Unreadable(_) | Read::NotRequested => None,
        }
    }

    /// The reason why the source was not read completely, if it was requested.
    pub fn unread(&self) -> Option<&Unread> {
        match self {
            Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why),
            Read::Ok(_) | Read::NotRequested => None,
        }
    }

    fn as_ref(&self) -> Read<&T> {
        match self {
            Read::Ok(value) => Read::Ok(value),
            Read::Incomplete(value, why) => Read::Incomplete(value, why.clone()),
            Read::Unreadable(why) => Read::Unreadable(why.clone()),
            Read::NotRequested => Read::NotRequested,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Read::Ok(value) => Read::Ok(f(value)),
            Read::Incomplete(value, why) => Read::Incomplete(f(value), why),
            Read::Unreadable(why) => Read::Unreadable(why),
            Read::NotRequested => Read::NotRequested,
        }
    }

    /// Whether the source was requested, with or without success.
    pub fn was_asked(&self) -> bool {
        !matches!(self, Read::NotRequested)
    }

    /// How certain it is that an object missing from the items does not exist.
    pub fn absence(&self) -> Certainty {
        match self {
            Read::Ok(_) => Certainty::Proven,
            Read::Incomplete(..) | Read::Unreadable(_) => Certainty::Unknown,
            Read::NotRequested => Certainty::Presumed,
        }
    }
}

impl<T> Read<Vec<T>> {
    /// The number of items.
    pub fn count(&self) -> Read<usize> {
        self.as_ref().map(Vec::len)
    }

    /// The items that pass `keep`.
    pub fn filtered(&self, keep: impl Fn(&T) -> bool) -> Read<Vec<T>>
    where
        T: Clone,
    {
        self.as_ref().map(|items| items.iter().filter(|item| keep(item)).cloned().collect())
    }

    /// The items that were read; empty if there are none. See [`Read::absence`] for the meaning of an empty
    /// result.
    pub fn items(&self) -> &[T] {
        let items = self.indexed();
        SCANNED.set(SCANNED.get() + items.len());
        items
    }

    /// Iterates over [`Read::items`].
    pub fn iter(&self) -> Iter<'_, T> {
        self.items().iter()
    }

    /// The items for access by position. The access does not count as a scan.
    pub(super) fn indexed(&self) -> &[T] {
        self.available().map_or(&[], Vec::as_slice)
    }

    /// Records that an item is missing, with the reason.
    pub fn lacks(&mut self, why: impl Into<Unread>) {
        match std::mem::take(self) {
            Read::Ok(items) => *self = Read::Incomplete(items, why.into()),
            Read::NotRequested => *self = Read::Incomplete(Vec::new(), why.into()),
            before => *self = before,
        }
    }
}

impl<'a, T> IntoIterator for &'a Read<Vec<T>> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// How certain it is that an object that was not read does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The source could not be read: the object may exist.
    Unknown,
    /// The source was not requested, or the files contain no objects of this kind, perhaps because none were
    /// captured.
    Presumed,
    /// The source was read completely.
    Proven,
}

/// Resource versions by list.
#[derive(Debug, Clone, Default)]
pub struct ResourceVersions(BTreeMap<String, String>);

impl ResourceVersions {
    pub fn note(&mut self, list: String, version: String) {
        // Without a resource version, a watch cannot continue.
        if !version.is_empty() {
            self.0.insert(list, version);
        }
    }

    pub fn of(&self, list: &str) -> Option<&str> {
        self.0.get(list).map(String::as_str)
    }

    /// Drops the versions of lists of custom resources, because custom resources have been written since.
    pub fn without_custom(mut self) -> ResourceVersions {
        let custom = |list: &str| ApiFlavor::ALL.iter().any(|flavor| list.contains(&flavor.api_version()));
        self.0.retain(|list, _| !custom(list));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_count_once_and_none_is_lost() {
        let named = |count: usize, repeated: usize| {
            let first = std::iter::repeat_n(0, repeated).chain(0..count);
            NamedNodes::few(first.map(|number| format!("node-{number:03}"))).map(|named| named.nodes.len())
        };
        assert_eq!(named(50, 0), Some(50));
        assert_eq!(named(50, 40), Some(50));
        assert_eq!(named(51, 1), None);
        assert_eq!(named(0, 0), None);
    }
}
