//! The objects that a teardown deletes, and their order. Pure.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::api::{ApiFlavor, Meta, Skyhook};
use crate::cluster::Cluster;
use crate::plan::Target;

/// An object to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoomedObject {
    /// The object, as `kind/name`.
    #[serde(rename = "object", serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub target: Target,
    /// The API group and version of the object.
    #[serde(rename = "apiVersion", serialize_with = "in_full")]
    #[schemars(with = "String")]
    pub flavor: ApiFlavor,
    /// The priority of a custom resource; absent for a deployment policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Items that must be gone first, as indexes into the list, starting at 0.
    #[serde(skip)]
    pub after: Vec<usize>,
    /// The position in the order of deletion, from 1: one more than the highest wave among the objects that
    /// must be gone first.
    pub wave: usize,
}

fn in_words<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(target)
}

fn in_full<S: Serializer>(flavor: &ApiFlavor, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&flavor.api_version())
}

/// The object with the name of a [`DoomedObject`] at the last read; it may have been recreated.
#[derive(Debug, Clone, Copy)]
pub struct LiveObject<'a> {
    pub metadata: &'a Meta,
    /// The whole object, if it is a custom resource.
    pub skyhook: Option<&'a Skyhook>,
}

impl DoomedObject {
    fn new(target: Target, flavor: ApiFlavor, priority: Option<i64>) -> DoomedObject {
        DoomedObject { target, flavor, priority, after: Vec::new(), wave: 1 }
    }

    pub fn find<'a>(&self, cluster: &'a Cluster) -> Option<LiveObject<'a>> {
        self.read(cluster).flatten()
    }

    /// Whether the object is known not to exist.
    pub fn is_gone(&self, cluster: &Cluster) -> bool {
        let another = |found: LiveObject<'_>| found.metadata.uid != self.target.uid;
        let read = self.read(cluster);
        read.is_some_and(|found| found.is_none_or(another))
    }

    /// Looks the object up: `None` if its kind could not be read, `Some(None)` if the object does not exist.
    fn read<'a>(&self, cluster: &'a Cluster) -> Option<Option<LiveObject<'a>>> {
        let (skyhooks, policies) = if self.flavor == cluster.flavor() {
            (&cluster.skyhooks, &cluster.policies)
        } else {
            (&cluster.legacy, &cluster.legacy_policies)
        };
        let name = &self.target.name;
        Some(if self.priority.is_some() {
            let skyhook = skyhooks.ok()?.iter().find(|s| s.name() == name);
            skyhook.map(|skyhook| LiveObject { metadata: &skyhook.metadata, skyhook: Some(skyhook) })
        } else {
            let policy = policies.ok()?.iter().find(|p| p.metadata.name == *name);
            policy.map(|policy| LiveObject { metadata: &policy.metadata, skyhook: None })
        })
    }
}

/// The objects to delete, in the order of their deletion.
///
/// Custom resources are deleted in reverse order of priority, because later ones build on earlier ones. Two
/// that share no node do not wait for each other, unless the earlier one has `sequencing: all`. While the
/// operator migrates, objects of the older API are deleted before the newer objects, which the operator would
/// otherwise recreate from them. Deployment policies are deleted last: nothing may refer to them.
pub fn items(cluster: &Cluster) -> Vec<DoomedObject> {
    let mut items: Vec<DoomedObject> = Vec::new();
    let (ours, other) = (cluster.flavor(), cluster.flavor().other());
    let apis =
        [(other, &cluster.legacy, &cluster.legacy_policies), (ours, &cluster.skyhooks, &cluster.policies)];
    for (flavor, skyhooks, _) in apis {
        for skyhook in skyhooks.items().iter().rev() {
            let target = Target::of_skyhook(flavor, skyhook);
            items.push(DoomedObject::new(target, flavor, Some(skyhook.order().0)));
        }
    }
    for at in cluster.legacy.items().len()..items.len() {
        let earlier = cluster.skyhook(&items[at].target.name);
        let goes_before = |at: &usize| match &items[*at] {
            older if older.flavor == other => cluster.active_api.migrating(),
            later => {
                let pair = earlier.zip(cluster.skyhook(&later.target.name));
                pair.is_some_and(|(earlier, later)| builds_on(cluster, later, earlier))
            }
        };
        items[at].after = (0..at).filter(goes_before).collect();
    }
    let custom = items.len();
    for (flavor, _, policies) in apis {
        for policy in policies.items() {
            let name = policy.metadata.name.as_str();
            let same = |at: &usize| items[*at].target.name == name;
            let after = (0..custom).chain((custom..items.len()).filter(same));
            let after = after.collect();
            let target = Target::policy(flavor, name, policy.metadata.uid.as_deref());
            items.push(DoomedObject { after, ..DoomedObject::new(target, flavor, None) });
        }
    }
    for at in 0..items.len() {
        let before = items[at].after.iter().map(|&other| items[other].wave);
        items[at].wave = 1 + before.max().unwrap_or(0);
    }
    items
}

/// Whether `later` follows `earlier` by priority on some node, or everywhere because of `sequencing: all`.
fn builds_on(cluster: &Cluster, later: &Skyhook, earlier: &Skyhook) -> bool {
    let shares = || match cluster.nodes.ok() {
        // If the nodes were not read completely, assume that both custom resources select a common node.
        None => true,
        Some(nodes) => nodes.iter().any(|n| {
            let of = |s: &Skyhook| s.selects(n);
            of(later) && of(earlier)
        }),
    };
    later.order().0 > earlier.order().0 && (earlier.blocks_all_nodes() || shares())
}
