//! Leftovers of deleted custom resources, and of the older API after a migration.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::admission::{Lack, WebhookConfiguration};
use super::installation::{Definition, Installation};
use super::operator::OperatorView;
use super::provenance::{Unproven, labelled, run_unproven};
use super::{Certainty, Cluster, ConfigMap, Job, Node, NodeRecord, Pod, Source};
use crate::api::{ApiFlavor, Meta};

/// Finds objects and keys that no controller removes.
#[derive(Clone, Copy)]
pub struct LeftoverFinder<'a>(pub(super) &'a Cluster);

/// A leftover of a deleted custom resource or of a migration, which no controller removes.
#[derive(Debug, Clone)]
pub struct Leftover<'a> {
    /// Name of the custom resource that the leftover belonged to.
    pub owner: &'a str,
    pub flavor: ApiFlavor,
    /// The reason: `the custom resource is gone`.
    pub reason: &'static str,
    pub place: LeftoverObject<'a>,
    /// Why nothing proves that the operator created the object. Such objects are not deleted.
    pub unproven: Option<Unproven>,
}

#[derive(Debug, Clone, Copy)]
pub enum LeftoverObject<'a> {
    Node(&'a Node, &'a NodeRecord),
    /// The cordon of a custom resource that no longer selects the node.
    Cordon(&'a Node, &'a NodeRecord),
    ConfigMap(&'a ConfigMap),
    Job(&'a Job),
    Pod(&'a Pod),
}

const GONE: &str = "the custom resource is gone";
const PRESUMED: &str = "the custom resource is not in the capture";
const NOT_SELECTED: &str = "the custom resource no longer selects the node";
const NOT_ADOPTED: &str = "the operator does not adopt these keys, because the node is not selected";

impl Leftover<'_> {
    /// Whether the active operator has copied these keys to its own keys.
    pub fn is_copy(&self) -> bool {
        !matches!(self.reason, GONE | PRESUMED | NOT_SELECTED | NOT_ADOPTED)
    }
}

impl<'a> LeftoverFinder<'a> {
    /// All leftovers, by owner.
    ///
    /// Returns none if custom resources could not be read: the owners may exist.
    pub fn all(self) -> Vec<Leftover<'a>> {
        if self.0.skyhooks_absence() == Certainty::Unknown {
            return Vec::new();
        }
        let gone = match self.0.skyhooks_absence() {
            Certainty::Presumed => PRESUMED,
            _ => GONE,
        };
        let mut found = Vec::new();
        for node in &self.0.nodes {
            for flavor in ApiFlavor::ALL {
                for (owner, on) in &node.keys(flavor).skyhooks {
                    let reason = if flavor == self.0.flavor() {
                        self.is_gone(owner, flavor).then_some(gone)
                    } else {
                        self.old_keys_left(node, owner, flavor)
                    };
                    found.extend(reason.map(|reason| Leftover {
                        owner,
                        flavor,
                        reason,
                        place: LeftoverObject::Node(node, on),
                        unproven: None,
                    }));
                }
            }
        }
        let jobs = self.0.jobs.items();
        let uids: HashSet<&str> = jobs.iter().filter_map(|j| j.metadata.uid.as_deref()).collect();
        let of_job = |pod: &Pod| {
            let uid = pod.metadata.controller_uid();
            uid.is_some_and(|uid| uids.contains(uid))
        };
        let pods = self.0.pods.iter().filter(|p| !of_job(p));
        found.extend(self.unowned(jobs, gone, |j| &j.metadata, LeftoverObject::Job));
        found.extend(self.unowned(pods, gone, |p| &p.metadata, LeftoverObject::Pod));
        let config_maps = self.0.config_maps.items();
        let place = |meta: &Meta| (meta.namespace.clone(), meta.name.clone());
        let listed: HashSet<_> = config_maps.iter().map(|m| place(&m.metadata)).collect();
        let others = self.0.node_metadata.iter().filter(|map| !listed.contains(&place(&map.metadata)));
        for map in config_maps.iter().chain(others) {
            if let Some((flavor, owner)) = map.owner()
                && self.is_gone(owner, flavor)
                && !map.metadata.deleting()
            {
                found.push(Leftover {
                    owner,
                    flavor,
                    reason: gone,
                    place: LeftoverObject::ConfigMap(map),
                    unproven: map.unproven(self.0),
                });
            }
        }
        found.sort_by(|a, b| (a.owner, a.flavor).cmp(&(b.owner, b.flavor)));
        found
    }

    /// The operator's cordons of a node that it never releases: their custom resources do not exist, or do not select
    /// the node.
    pub fn orphaned_cordons(self, node: &'a Node) -> impl Iterator<Item = (&'a str, &'a NodeRecord)> {
        let cordons = node.keys(self.0.flavor()).skyhooks.iter().filter(|(_, on)| on.cordon);
        cordons
            .filter(move |(owner, _)| !self.0.skyhook(owner).is_some_and(|skyhook| skyhook.selects(node)))
            .map(|(owner, on)| (owner.as_str(), on))
    }

    /// Orphaned cordons of custom resources that exist.
    pub fn cordons_of_deselected_nodes(self) -> impl Iterator<Item = Leftover<'a>> {
        let of_node = move |node| self.orphaned_cordons(node).map(move |(owner, on)| (owner, node, on));
        let all = self.0.nodes.iter().flat_map(of_node);
        all.filter(move |(owner, ..)| self.0.skyhook(owner).is_some()).map(move |(owner, node, on)| {
            Leftover {
                owner,
                flavor: self.0.flavor(),
                reason: NOT_SELECTED,
                place: LeftoverObject::Cordon(node, on),
                unproven: None,
            }
        })
    }

    /// Nodes that no custom resource with `runtimeRequired` selects, as two lists: nodes with the
    /// runtime-required taint, which no controller removes; and nodes with only the operator's record of the
    /// taint, which the operator does not treat as new nodes.
    pub fn closed_for_nobody(self) -> [Vec<&'a str>; 2] {
        let mut closed = [Vec::new(), Vec::new()];
        if self.0.skyhooks_absence() == Certainty::Unknown {
            return closed;
        }
        let waiting = self.0.skyhooks.iter().filter(|s| s.spec.runtime_required);
        let waited_for: HashSet<&str> =
            waiting.flat_map(|s| self.0.selected(s)).map(|node| node.name.as_str()).collect();
        for node in &self.0.nodes {
            if waited_for.contains(node.name.as_str()) {
                continue;
            }
            let noted = !node.keys(self.0.flavor()).auto_taints.is_empty();
            if self.0.runtime_required().on(node).is_some() {
                closed[0].push(node.name.as_str());
            } else if noted {
                closed[1].push(node.name.as_str());
            }
        }
        closed
    }

    /// Objects labeled with the name of a deleted custom resource.
    fn unowned<T>(
        self,
        all: impl IntoIterator<Item = &'a T>,
        reason: &'static str,
        meta: fn(&'a T) -> &'a Meta,
        place: fn(&'a T) -> LeftoverObject<'a>,
    ) -> Vec<Leftover<'a>> {
        let mut found = Vec::new();
        for one in all {
            let Some((flavor, owner)) = labelled(meta(one)) else {
                continue;
            };
            if self.is_gone(owner, flavor) && !meta(one).deleting() {
                found.push(Leftover {
                    owner,
                    flavor,
                    reason,
                    place: place(one),
                    unproven: run_unproven(self.0, meta(one)),
                });
            }
        }
        found
    }

    /// Whether no custom resource with this name exists, neither in the active API nor in the leftover's API.
    fn is_gone(self, owner: &str, flavor: ApiFlavor) -> bool {
        if self.0.skyhook(owner).is_some() {
            return false;
        }
        let other_served = self.0.has(Source::Legacy);
        let in_other = self.0.legacy_skyhook(owner).is_some();
        let other_known = !other_served || self.0.legacy.absence() != Certainty::Unknown;
        flavor == self.0.flavor() || (!in_other && other_known)
    }

    /// The reason why the operator will not remove these keys of the other API, or should have removed them
    /// by now.
    ///
    /// The operator adopts keys of the older API, and removes them later (after a day by default), but only
    /// on nodes that are selected at that time.
    pub fn old_keys_left(self, node: &Node, name: &str, flavor: ApiFlavor) -> Option<&'static str> {
        let Some(skyhook) = self.0.skyhook(name) else {
            return self.is_gone(name, flavor).then_some(GONE);
        };
        // Newer keys under an older operator belong to a pending or reverted migration.
        if flavor != ApiFlavor::Skyhook {
            return None;
        }
        let selected = skyhook.selects(node);
        match (self.0.migration().is_adopted(node, name), selected) {
            (true, false) => Some("the node is no longer selected"),
            (false, true) => None,
            (false, false) => self.0.migration().has_migrated(skyhook).then_some(NOT_ADOPTED),
            (true, true) => match self.0.migration().migrated_at(skyhook) {
                None => Some("the migration of the custom resource is complete"),
                Some(at) => self
                    .0
                    .migration()
                    .cleanup_is_overdue(at)
                    .then_some("the operator should have removed these keys by now"),
            },
        }
    }
}

/// A cluster-scoped object of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Remnant<'a> {
    /// The kind.
    pub kind: &'a str,
    /// Plural of the object's kind, for kubectl.
    #[serde(skip)]
    pub resource: &'static str,
    /// The name.
    pub name: &'a str,
}

const DEFINITIONS: &str = "customresourcedefinitions";

impl<'a> LeftoverFinder<'a> {
    /// Objects of an installation without an operator: webhook configurations first, because they reject
    /// requests.
    ///
    /// CRDs with custom resources are in use, and not included.
    pub fn remnants(self, installation: &'a Installation) -> Vec<Remnant<'a>> {
        if !self.0.operator().is_gone() {
            return Vec::new();
        }
        let webhooks = self.0.operator().webhooks().map(|configuration| Remnant {
            kind: &configuration.kind,
            resource: configuration.resource(),
            name: &configuration.metadata.name,
        });
        let ours = ApiFlavor::ALL.map(Definition::names).concat();
        let unused = self.0.skyhooks.items().is_empty() && self.0.legacy.items().is_empty();
        let definitions = installation
            .definitions
            .iter()
            .filter(|definition| unused && ours.contains(&definition.metadata.name))
            .map(|definition| Remnant {
                kind: "CustomResourceDefinition",
                resource: DEFINITIONS,
                name: &definition.metadata.name,
            });
        let roles = installation.roles.iter().filter(|role| role.is_operators()).map(|role| Remnant {
            kind: &role.kind,
            resource: role.resource(),
            name: &role.metadata.name,
        });
        webhooks.chain(definitions).chain(roles).collect()
    }
}

impl<'a> OperatorView<'a> {
    /// Whether the operator was removed: the Deployments were read and include no operator, or files without
    /// Deployments have a webhook configuration whose Service does not exist.
    pub fn is_gone(self) -> bool {
        let none = self.0.operators.items().is_empty();
        let mut webhooks = self.webhooks();
        let proven = self.0.operators.absence() == Certainty::Proven;
        none && (proven
            || self.0.may_leave_out() && webhooks.any(|configuration| self.lacks_service(configuration)))
    }

    fn webhooks(self) -> impl Iterator<Item = &'a WebhookConfiguration> {
        self.0.admission.webhooks.iter().filter(|configuration| configuration.is_operators())
    }

    fn lacks_service(self, configuration: &WebhookConfiguration) -> bool {
        configuration.webhooks.iter().any(|webhook| {
            let dead = self.0.webhooks().dead_backend(configuration, webhook);
            dead.is_some_and(|(lack, _)| lack == Lack::Service)
        })
    }
}
