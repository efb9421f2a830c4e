//! What custom resources that are gone left behind, and what the older generation left after the
//! migration.

use super::{Absence, Cluster, ConfigMap, Job, Node, OnNode, Pod, Source};
use crate::api::{Generation, Meta};

/// Something that nobody looks after any more.
#[derive(Debug, Clone, Copy)]
pub struct Leftover<'a> {
    /// The custom resource that it belonged to.
    pub owner: &'a str,
    pub generation: Generation,
    /// Why it is left: `it is gone`.
    pub why: &'static str,
    pub place: Place<'a>,
}

#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    Node(&'a Node, &'a OnNode),
    ConfigMap(&'a ConfigMap),
    Job(&'a Job),
    Pod(&'a Pod),
}

const GONE: &str = "it is gone";
const PRESUMED: &str = "it is not in the input";

impl Leftover<'_> {
    /// Whether its owner is gone, rather than it being a copy of what a living owner has.
    pub fn is_gone(&self) -> bool {
        matches!(self.why, GONE | PRESUMED)
    }
}

impl Cluster {
    /// Everything that nobody looks after any more, by owner.
    ///
    /// Where custom resources could not be read, nothing is: what is not seen may live.
    pub fn leftovers(&self) -> Vec<Leftover<'_>> {
        if self.skyhooks.absence() == Absence::Unknown {
            return Vec::new();
        }
        let gone = match self.skyhooks.absence() {
            Absence::Presumed => PRESUMED,
            _ => GONE,
        };
        let mut found = Vec::new();
        for node in self.nodes.items() {
            for generation in Generation::ALL {
                for (owner, on) in &node.keys(generation).skyhooks {
                    let why = if generation == self.generation() {
                        self.is_gone(owner, generation).then_some(gone)
                    } else {
                        self.old_keys_left(node, owner, generation)
                    };
                    found.extend(why.map(|why| Leftover {
                        owner,
                        generation,
                        why,
                        place: Place::Node(node, on),
                    }));
                }
            }
        }
        let jobs = self.jobs.items();
        let job = |pod: &Pod| {
            let uid = pod.metadata.controller_uid();
            uid.is_some() && jobs.iter().any(|j| j.metadata.uid.as_deref() == uid)
        };
        let pods = self.pods.items().iter().filter(|p| !job(p));
        found.extend(self.unowned(jobs, gone, |j| &j.metadata, Place::Job));
        found.extend(self.unowned(pods, gone, |p| &p.metadata, Place::Pod));
        // One with an owner is the garbage collector's to delete, seconds later.
        let unowned = self.config_maps.items().iter();
        for map in unowned.filter(|map| map.metadata.owner_references.is_empty()) {
            if let Some((generation, owner)) = map.owner()
                && self.is_gone(owner, generation)
            {
                found.push(Leftover {
                    owner,
                    generation,
                    why: gone,
                    place: Place::ConfigMap(map),
                });
            }
        }
        found.sort_by(|a, b| (a.owner, a.generation).cmp(&(b.owner, b.generation)));
        found
    }

    /// The nodes that no custom resource with `runtimeRequired` selects, and that carry its taint, or else the note that
    /// the operator set it: nobody lifts the one, and with the other they do not count as new.
    pub fn closed_for_nobody(&self) -> [Vec<&str>; 2] {
        let mut closed = [Vec::new(), Vec::new()];
        if self.skyhooks.absence() == Absence::Unknown {
            return closed;
        }
        for node in self.nodes.items() {
            let mut waiting = self.skyhooks.items().iter();
            if waiting
                .any(|s| s.spec.runtime_required && s.spec.node_selectors.matches(&node.labels))
            {
                continue;
            }
            let noted = !node.keys(self.generation()).auto_taints.is_empty();
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
        why: &'static str,
        meta: fn(&T) -> &Meta,
        place: fn(&'a T) -> Place<'a>,
    ) -> Vec<Leftover<'a>> {
        let mut found = Vec::new();
        for one in all {
            let labels = &meta(one).labels;
            let mut named = Generation::ALL
                .into_iter()
                .filter_map(|g| Some((g, labels.get(&g.key("name"))?)));
            let Some((generation, owner)) = named.next() else {
                continue;
            };
            if self.is_gone(owner, generation) && !meta(one).deleting() {
                found.push(Leftover {
                    owner,
                    generation,
                    why,
                    place: place(one),
                });
            }
        }
        found
    }

    /// Whether no custom resource of that name is there, in the generation that rules or in the one
    /// that the thing is of.
    fn is_gone(&self, owner: &str, generation: Generation) -> bool {
        if self.skyhook(owner).is_some() {
            return false;
        }
        let other_served = self.has(Source::Legacy);
        let in_other = self.legacy.items().iter().any(|s| s.name() == owner);
        let other_known = !other_served || self.legacy.absence() != Absence::Unknown;
        generation == self.generation() || (!in_other && other_known)
    }

    /// Why the operator will not remove the keys of the older generation, where that is certain.
    ///
    /// It prunes them a day after the migration, and only on nodes that are still selected then.
    pub fn old_keys_left(
        &self,
        node: &Node,
        name: &str,
        generation: Generation,
    ) -> Option<&'static str> {
        let Some(skyhook) = self.skyhook(name) else {
            return self.is_gone(name, generation).then_some(GONE);
        };
        // Newer keys under an older operator are a migration's to come, or one's that was taken back.
        if generation != Generation::Skyhook {
            return None;
        }
        let stamp = self.generation().key("legacy-migrated-at");
        let migrating = skyhook.metadata.annotations.contains_key(&stamp);
        let mine = node.keys(self.generation()).of(name);
        let adopted = mine.is_some_and(|on| on.version.is_some());
        if !skyhook.spec.node_selectors.matches(&node.labels) {
            adopted.then_some("the node is no longer selected")
        } else {
            (adopted && !migrating).then_some("its migration is over")
        }
    }
}
