//! What custom resources that are gone left behind, and what the older API left after the
//! migration.

use std::collections::HashSet;

use super::{Certainty, Cluster, ConfigMap, Job, Node, NodeRecord, Pod, Source};
use crate::api::{ApiFlavor, Meta};

/// Something whose custom resource is gone, so that nothing removes it.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'a> {
    /// The custom resource that it belonged to.
    pub owner: &'a str,
    pub flavor: ApiFlavor,
    /// Why it is left: `it is gone`.
    pub reason: &'static str,
    pub place: LeftoverObject<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum LeftoverObject<'a> {
    Node(&'a Node, &'a NodeRecord),
    ConfigMap(&'a ConfigMap),
    Job(&'a Job),
    Pod(&'a Pod),
}

const GONE: &str = "it is gone";
const PRESUMED: &str = "it is not in the input";
const NOT_ADOPTED: &str = "the operator does not adopt them, as the node is not selected";

impl Leftover<'_> {
    /// Whether the operator in charge has the same under its own keys.
    pub fn is_copy(&self) -> bool {
        !matches!(self.reason, GONE | PRESUMED | NOT_ADOPTED)
    }
}

impl Cluster {
    /// Everything that is left over, by owner.
    ///
    /// Where custom resources could not be read, nothing is: what is not seen may live.
    pub fn leftovers(&self) -> Vec<Leftover<'_>> {
        if self.skyhooks.absence() == Certainty::Unknown {
            return Vec::new();
        }
        let gone = match self.skyhooks.absence() {
            Certainty::Presumed => PRESUMED,
            _ => GONE,
        };
        let mut found = Vec::new();
        for node in self.nodes.items() {
            for flavor in ApiFlavor::ALL {
                for (owner, on) in &node.keys(flavor).skyhooks {
                    let reason = if flavor == self.flavor() {
                        self.is_gone(owner, flavor).then_some(gone)
                    } else {
                        self.old_keys_left(node, owner, flavor)
                    };
                    found.extend(reason.map(|reason| Leftover {
                        owner,
                        flavor,
                        reason,
                        place: LeftoverObject::Node(node, on),
                    }));
                }
            }
        }
        let jobs = self.jobs.items();
        let uids: HashSet<&str> = jobs
            .iter()
            .filter_map(|j| j.metadata.uid.as_deref())
            .collect();
        let of_job = |pod: &Pod| {
            let uid = pod.metadata.controller_uid();
            uid.is_some_and(|uid| uids.contains(uid))
        };
        let pods = self.pods.items().iter().filter(|p| !of_job(p));
        found.extend(self.unowned(jobs, gone, |j| &j.metadata, LeftoverObject::Job));
        found.extend(self.unowned(pods, gone, |p| &p.metadata, LeftoverObject::Pod));
        // One with an owner is the garbage collector's to delete, seconds later.
        let config_maps = self.config_maps.items().iter();
        let unowned = config_maps.chain(self.node_metadata.items());
        for map in unowned.filter(|map| map.metadata.owner_references.is_empty()) {
            if let Some((flavor, owner)) = map.owner()
                && self.is_gone(owner, flavor)
            {
                found.push(Leftover {
                    owner,
                    flavor,
                    reason: gone,
                    place: LeftoverObject::ConfigMap(map),
                });
            }
        }
        found.sort_by(|a, b| (a.owner, a.flavor).cmp(&(b.owner, b.flavor)));
        found
    }

    /// The nodes that no custom resource with `runtimeRequired` selects, and that carry its taint, or else the note that
    /// the operator set it: nobody lifts the one, and with the other they do not count as new.
    pub fn closed_for_nobody(&self) -> [Vec<&str>; 2] {
        let mut closed = [Vec::new(), Vec::new()];
        if self.skyhooks.absence() == Certainty::Unknown {
            return closed;
        }
        for node in self.nodes.items() {
            let mut waiting = self.skyhooks.items().iter();
            if waiting.any(|s| s.spec.runtime_required && s.selects(node)) {
                continue;
            }
            let noted = !node.keys(self.flavor()).auto_taints.is_empty();
            if self.runtime_required_taint(node).is_some() {
                closed[0].push(node.name.as_str());
            } else if noted {
                closed[1].push(node.name.as_str());
            }
        }
        closed
    }

    /// Objects that carry the name of a custom resource that is gone.
    fn unowned<'a, T>(
        &self,
        all: impl IntoIterator<Item = &'a T>,
        reason: &'static str,
        meta: fn(&T) -> &Meta,
        place: fn(&'a T) -> LeftoverObject<'a>,
    ) -> Vec<Leftover<'a>> {
        let mut found = Vec::new();
        for one in all {
            let labels = &meta(one).labels;
            let mut named = ApiFlavor::ALL
                .into_iter()
                .filter_map(|g| Some((g, labels.get(&g.key("name"))?)));
            let Some((flavor, owner)) = named.next() else {
                continue;
            };
            if self.is_gone(owner, flavor) && !meta(one).deleting() {
                found.push(Leftover {
                    owner,
                    flavor,
                    reason,
                    place: place(one),
                });
            }
        }
        found
    }

    /// Whether no custom resource of that name is there, in the active API or in the one
    /// that the thing is of.
    fn is_gone(&self, owner: &str, flavor: ApiFlavor) -> bool {
        if self.skyhook(owner).is_some() {
            return false;
        }
        let other_served = self.has(Source::Legacy);
        let in_other = self.legacy.items().iter().any(|s| s.name() == owner);
        let other_known = !other_served || self.legacy.absence() != Certainty::Unknown;
        flavor == self.flavor() || (!in_other && other_known)
    }

    /// Why the operator will not remove the keys of the older API, where that is certain.
    ///
    /// It adopts them, and removes them a day later, only on nodes that are selected at that time.
    pub fn old_keys_left(
        &self,
        node: &Node,
        name: &str,
        flavor: ApiFlavor,
    ) -> Option<&'static str> {
        let Some(skyhook) = self.skyhook(name) else {
            return self.is_gone(name, flavor).then_some(GONE);
        };
        // Newer keys under an older operator are a migration's to come, or one's that was taken back.
        if flavor != ApiFlavor::Skyhook {
            return None;
        }
        let selected = skyhook.selects(node);
        match (self.is_adopted(node, name), selected) {
            (true, false) => Some("the node is no longer selected"),
            (false, true) => None,
            (false, false) => self.has_migrated(skyhook).then_some(NOT_ADOPTED),
            (true, true) => match self.migrated_at(skyhook) {
                None => Some("its migration is complete"),
                Some(at) => self
                    .cleanup_is_overdue(at)
                    .then_some("the operator should have removed them by now"),
            },
        }
    }
}
