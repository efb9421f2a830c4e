//! The state of a watched source and its lists.

use std::collections::BTreeSet;

use super::super::list::List;
use super::super::request::Failure;
use super::super::watch::{Id, WatchEvent};
use crate::api::{DeploymentPolicy, Object, Skyhook};
use crate::cluster::{Job, Node, Pod, Read, Unread};

/// Number of consecutive "not served" responses after which an API counts as removed, with all of its
/// objects. A starting server may temporarily not serve an API.
const ABSENT_AFTER: u32 = 5;

/// The effect of an event on the cluster.
pub enum Effect {
    None,
    Changed,
    Failed(Failure),
}

/// State of the lists of one source; without lists if the source is not watched. The items are in the
/// cluster.
pub struct SourceState<T> {
    lists: Vec<Known>,
    /// The items while the source counts as unreadable.
    aside: Vec<T>,
    changed: bool,
}

/// The state of one list.
struct Known {
    /// Ids of the items, or the reason why they could not be read; `None` before the first read.
    ids: Option<Result<BTreeSet<Id>, Unread>>,
    /// The reason why items are missing in the list.
    lacks: Option<Unread>,
    /// Whether the list is watched from the version that was read.
    begun: bool,
    /// Number of consecutive "not served" responses.
    absent: u32,
}

/// An object that can be watched.
pub trait WatchedObject: Object {
    fn id(&self) -> Id {
        let (namespace, name) = self.key();
        (namespace.to_owned(), name.to_owned())
    }

    /// Whether `list` contains the object. The object was read from `list` or from a list that includes it.
    fn is_in(&self, list: &List) -> bool;

    /// A version that increases with each change of the object and when the object is recreated; `None` for
    /// nodes, which only one list contains.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Whether no stored field differs; `false` for kinds that are not compared.
    fn same(&self, _other: &Self) -> bool {
        false
    }
}

impl WatchedObject for Node {
    fn is_in(&self, _: &List) -> bool {
        true
    }

    // Kubelet heartbeats, every few minutes, change no stored field.
    fn same(&self, other: &Node) -> bool {
        self == other
    }
}

macro_rules! watched_by_metadata {
    ($($kind:ty),+) => {$(
        impl WatchedObject for $kind {
            fn version(&self) -> Option<u64> {
                self.metadata.resource_version.as_ref()?.parse().ok()
            }

            fn is_in(&self, list: &List) -> bool {
                let inside = list.everywhere().map(|(namespace, _)| namespace);
                list.is_labelled(&self.metadata.labels)
                    && inside.is_none_or(|inside| self.metadata.namespace == Some(inside))
            }
        }
    )+};
}

watched_by_metadata!(Skyhook, DeploymentPolicy, Pod, Job);

impl<T: WatchedObject> SourceState<T> {
    /// Creates the state from the ids in each list at the time of the load; `None` for a list that is not
    /// watched from its loaded version.
    pub fn of(lists: impl Iterator<Item = Option<BTreeSet<Id>>>) -> SourceState<T> {
        let known = |loaded: Option<BTreeSet<Id>>| Known {
            begun: false,
            ids: loaded.map(Ok),
            lacks: None,
            absent: 0,
        };
        SourceState { lists: lists.map(known).collect(), aside: Vec::new(), changed: false }
    }

    pub fn ready(&self) -> bool {
        self.lists.iter().all(|list| list.begun && list.ids.is_some())
    }

    /// Applies an event of a list. The next renewal sorts the source and removes deleted objects.
    pub fn on_event(&mut self, list: usize, event: WatchEvent<T>, source: &mut Read<Vec<T>>) -> Effect {
        let items = match source {
            Read::Ok(items) | Read::Incomplete(items, _) => items,
            Read::Unreadable(_) | Read::NotRequested => &mut self.aside,
        };
        let effect = self.lists[list].on_event(event, items);
        self.changed |= matches!(effect, Effect::Changed);
        effect
    }

    /// Renews a source if it has changed since the last renewal, and returns whether it has. A source that
    /// was not loaded is renewed once all of its lists are read.
    pub fn renew(&mut self, source: &mut Read<Vec<T>>) -> bool {
        let loaded = source.available().is_some();
        if !self.changed || !(loaded || self.ready()) {
            return false;
        }
        self.changed = false;
        let mut items = match std::mem::take(source) {
            Read::Ok(items) | Read::Incomplete(items, _) => items,
            Read::Unreadable(_) | Read::NotRequested => std::mem::take(&mut self.aside),
        };
        let ids = self.lists.iter().filter_map(|list| list.ids.as_ref());
        let ids = ids.map(Result::as_ref);
        *source = match ids.collect::<Result<Vec<_>, _>>() {
            Err(why) => {
                let why = why.clone();
                self.aside = items;
                Read::Unreadable(why)
            }
            Ok(ids) => {
                if ids.len() == self.lists.len() {
                    // Keep objects that any list contains: two lists contain an object with the labels of
                    // both APIs.
                    items.retain(|item| ids.iter().any(|ids| ids.contains(&item.id())));
                }
                items.sort_by(|a, b| a.key().cmp(&b.key()));
                let mut lists = self.lists.iter();
                match lists.find_map(|list| list.lacks.clone()) {
                    Some(why) => Read::Incomplete(items, why),
                    None => Read::Ok(items),
                }
            }
        };
        true
    }
}

impl Known {
    /// Applies an event to the list and to the items of its source.
    fn on_event<T: WatchedObject>(&mut self, event: WatchEvent<T>, items: &mut Vec<T>) -> Effect {
        let absent = std::mem::take(&mut self.absent);
        match event {
            WatchEvent::Begun => self.begun = true,
            WatchEvent::All(listed) => {
                let listed = Read::from(listed);
                self.lacks = listed.unread().cloned();
                let all = listed.into_held().unwrap_or_default();
                let ids: BTreeSet<Id> = all.iter().map(T::id).collect();
                items.retain(|item| !ids.contains(&item.id()));
                items.extend(all);
                self.put(Ok(ids));
            }
            WatchEvent::Is(item) => {
                if let Some(Ok(ids)) = &mut self.ids {
                    let new = ids.insert(item.id());
                    let same = match find(items, item.key()) {
                        // Another list that contains the object has already reported a later state.
                        Some(at) if items[at].version() > item.version() => true,
                        // Keep the old object: replacing it at each heartbeat would fragment the memory.
                        Some(at) if items[at].same(&item) => true,
                        Some(at) => {
                            items[at] = item;
                            false
                        }
                        None => {
                            items.push(item);
                            false
                        }
                    };
                    if same && !new {
                        return Effect::None;
                    }
                }
            }
            WatchEvent::Gone(id) => {
                if let Some(Ok(ids)) = &mut self.ids {
                    ids.remove(&id);
                }
            }
            WatchEvent::Failed(failure) if failure.is_absence() => {
                self.absent = absent + 1;
                if self.absent < ABSENT_AFTER {
                    return Effect::Failed(failure);
                }
                self.put(Ok(BTreeSet::new()));
            }
            // A refusal or malformed response concerns the source, not the server.
            WatchEvent::Failed(failure)
                if failure.is_forbidden() || matches!(failure, Failure::Malformed(_)) =>
            {
                self.put(Err(failure.into()));
            }
            WatchEvent::Failed(failure) => return Effect::Failed(failure),
        }
        Effect::Changed
    }

    fn put(&mut self, ids: Result<BTreeSet<Id>, Unread>) {
        self.ids = Some(ids);
        self.begun = true;
    }
}

/// Position of the item with this key. Falls back from a binary search to a scan, because added items are not
/// sorted yet.
fn find<T: WatchedObject>(items: &[T], key: (&str, &str)) -> Option<usize> {
    let ordered = items.binary_search_by(|item| item.key().cmp(&key));
    ordered.ok().or_else(|| items.iter().position(|item| item.key() == key))
}

#[cfg(test)]
mod tests;
