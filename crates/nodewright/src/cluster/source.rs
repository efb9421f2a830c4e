//! The sources of a cluster, in one table.

use std::collections::BTreeSet;
use std::fmt;

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
    DisruptionBudgets "pod disruption budgets" from [("policy", "poddisruptionbudgets")];
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
    ConfigMaps "config maps of packages" from [CONFIG_MAPS];
    /// ConfigMaps with metadata of a node for packages to read: one for each custom resource on each node.
    NodeMetadata "config maps of nodes" from [CONFIG_MAPS];
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
