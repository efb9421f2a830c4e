//! What is removed, and what has to be gone before it. Pure.

use crate::api::{DeploymentPolicy, Generation, Skyhook};
use crate::cluster::Cluster;
use crate::plan::Target;

/// An object that is to go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub target: Target,
    pub generation: Generation,
    /// Of a custom resource that runs packages; a deployment policy has none.
    pub priority: Option<i64>,
    /// What has to be gone before, by place in the list.
    pub after: Vec<usize>,
    /// One more than that of anything it waits for; the first is 1.
    pub wave: usize,
}

/// The object behind an item, as it was read.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    Skyhook(&'a Skyhook),
    Policy(&'a DeploymentPolicy),
}

impl Item {
    /// The object of that name; it may have been made anew since.
    pub fn find<'a>(&self, cluster: &'a Cluster) -> Option<Found<'a>> {
        let rules = self.generation == cluster.generation();
        let (skyhooks, policies) = if rules {
            (&cluster.skyhooks, &cluster.policies)
        } else {
            (&cluster.legacy, &cluster.legacy_policies)
        };
        match self.priority {
            Some(_) => {
                let mut all = skyhooks.items().iter();
                Some(Found::Skyhook(all.find(|s| s.name() == self.target.name)?))
            }
            None => {
                let mut all = policies.items().iter();
                Some(Found::Policy(
                    all.find(|p| p.metadata.name == self.target.name)?,
                ))
            }
        }
    }
}

impl Found<'_> {
    pub fn metadata(&self) -> &crate::api::Meta {
        match self {
            Found::Skyhook(skyhook) => &skyhook.metadata,
            Found::Policy(policy) => &policy.metadata,
        }
    }
}

/// Everything that is to go, in the order in which it goes.
///
/// Custom resources go in reverse order of priority, as later ones build on earlier ones; what shares no node does not
/// wait for each other. Objects of the older API go before the newer ones that the operator would make from them
/// again. Deployment policies go last: nothing may refer to them.
pub fn items(cluster: &Cluster) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let ruling = cluster.generation();
    let add_all = |items: &mut Vec<Item>, skyhooks: &[Skyhook], generation: Generation| {
        for skyhook in skyhooks.iter().rev() {
            let uid = skyhook.metadata.uid.as_deref();
            items.push(Item {
                target: Target::skyhook(generation, skyhook.name(), uid),
                generation,
                priority: Some(skyhook.order().0),
                after: Vec::new(),
                wave: 1,
            });
        }
    };
    add_all(&mut items, cluster.legacy.items(), ruling.other());
    let older = items.len();
    add_all(&mut items, cluster.skyhooks.items(), ruling);
    for at in older..items.len() {
        let earlier = cluster.skyhook(&items[at].target.name);
        let later = |&other: &usize| {
            if other < older {
                cluster.ruling.migrating()
            } else {
                let other = cluster.skyhook(&items[other].target.name);
                let pair = earlier.zip(other);
                pair.is_some_and(|(earlier, later)| builds_on(cluster, later, earlier))
            }
        };
        items[at].after = (0..at).filter(later).collect();
    }
    let custom = items.len();
    for (policies, generation) in [
        (cluster.legacy_policies.items(), ruling.other()),
        (cluster.policies.items(), ruling),
    ] {
        for policy in policies {
            let name = policy.metadata.name.as_str();
            let same = |at: &usize| items[*at].target.name == name;
            let after = (0..custom).chain((custom..items.len()).filter(same));
            items.push(Item {
                after: after.collect(),
                target: Target::policy(generation, name, policy.metadata.uid.as_deref()),
                generation,
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
