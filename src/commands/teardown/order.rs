//! What is removed, and what has to be gone before it. Pure.

use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook};
use crate::cluster::Cluster;
use crate::plan::Target;

/// An object that is to go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoomedObject {
    pub target: Target,
    pub flavor: ApiFlavor,
    /// Of a custom resource that runs packages; a deployment policy has none.
    pub priority: Option<i64>,
    /// What has to be gone before, by place in the list.
    pub after: Vec<usize>,
    /// One more than that of anything it waits for; the first is 1.
    pub wave: usize,
}

/// The object behind an item, as it was read.
#[derive(Debug, Clone, Copy)]
pub enum LiveObject<'a> {
    Skyhook(&'a Skyhook),
    Policy(&'a DeploymentPolicy),
}

impl DoomedObject {
    /// The object of that name; it may have been made anew since.
    pub fn find<'a>(&self, cluster: &'a Cluster) -> Option<LiveObject<'a>> {
        let rules = self.flavor == cluster.flavor();
        let (skyhooks, policies) = if rules {
            (&cluster.skyhooks, &cluster.policies)
        } else {
            (&cluster.legacy, &cluster.legacy_policies)
        };
        match self.priority {
            Some(_) => {
                let mut all = skyhooks.items().iter();
                Some(LiveObject::Skyhook(
                    all.find(|s| s.name() == self.target.name)?,
                ))
            }
            None => {
                let mut all = policies.items().iter();
                Some(LiveObject::Policy(
                    all.find(|p| p.metadata.name == self.target.name)?,
                ))
            }
        }
    }
}

impl LiveObject<'_> {
    pub fn metadata(&self) -> &crate::api::Meta {
        match self {
            LiveObject::Skyhook(skyhook) => &skyhook.metadata,
            LiveObject::Policy(policy) => &policy.metadata,
        }
    }
}

/// Everything that is to go, in the order in which it goes.
///
/// Custom resources go in reverse order of priority, as later ones build on earlier ones; what shares no node does not
/// wait for each other. Objects of the older API go before the newer ones that the operator would make from them
/// again. Deployment policies go last: nothing may refer to them.
pub fn items(cluster: &Cluster) -> Vec<DoomedObject> {
    let mut items: Vec<DoomedObject> = Vec::new();
    let active_api = cluster.flavor();
    let add_all = |items: &mut Vec<DoomedObject>, skyhooks: &[Skyhook], flavor: ApiFlavor| {
        for skyhook in skyhooks.iter().rev() {
            let uid = skyhook.metadata.uid.as_deref();
            items.push(DoomedObject {
                target: Target::skyhook(flavor, skyhook.name(), uid),
                flavor,
                priority: Some(skyhook.order().0),
                after: Vec::new(),
                wave: 1,
            });
        }
    };
    add_all(&mut items, cluster.legacy.items(), active_api.other());
    let older = items.len();
    add_all(&mut items, cluster.skyhooks.items(), active_api);
    for at in older..items.len() {
        let earlier = cluster.skyhook(&items[at].target.name);
        let later = |&other: &usize| {
            if other < older {
                cluster.active_api.migrating()
            } else {
                let other = cluster.skyhook(&items[other].target.name);
                let pair = earlier.zip(other);
                pair.is_some_and(|(earlier, later)| builds_on(cluster, later, earlier))
            }
        };
        items[at].after = (0..at).filter(later).collect();
    }
    let custom = items.len();
    for (policies, flavor) in [
        (cluster.legacy_policies.items(), active_api.other()),
        (cluster.policies.items(), active_api),
    ] {
        for policy in policies {
            let name = policy.metadata.name.as_str();
            let same = |at: &usize| items[*at].target.name == name;
            let after = (0..custom).chain((custom..items.len()).filter(same));
            items.push(DoomedObject {
                after: after.collect(),
                target: Target::policy(flavor, name, policy.metadata.uid.as_deref()),
                flavor,
                priority: None,
                wave: 1,
            });
        }
    }
    for at in 0..items.len() {
        let before = items[at].after.iter().map(|&other| items[other].wave);
        items[at].wave = 1 + before.max().unwrap_or(0);
    }
    items
}

/// Whether the one custom resource comes after the other by priority on some node.
fn builds_on(cluster: &Cluster, later: &Skyhook, earlier: &Skyhook) -> bool {
    let shares = || match cluster.nodes.ok() {
        // Which nodes they have in common is not known then.
        None => true,
        Some(nodes) => nodes.iter().any(|n| {
            let of = |s: &Skyhook| s.spec.node_selectors.matches(&n.labels);
            of(later) && of(earlier)
        }),
    };
    later.order().0 > earlier.order().0 && (earlier.gates_everywhere() || shares())
}
