//! What is known of a source from its watches.

use std::collections::BTreeMap;

use super::super::list::List;
use super::super::request::Failure;
use super::super::watch::{Id, WatchEvent};
use crate::api::{DeploymentPolicy, Skyhook};
use crate::cluster::{Job, Node, Pod, Read, Unread};

/// An API that is not served so often in a row is gone, and all of its objects with it. A server that is just starting
/// does not know it either for a moment.
const ABSENT_AFTER: u32 = 5;

/// What came of a piece of news.
pub enum Heard {
    Nothing,
    Changed,
    Failed(Failure),
}

/// What is known of one source; no lists where it is not watched.
pub struct SourceState<T> {
    lists: Vec<Known<T>>,
    changed: bool,
}

/// What is known of one list.
struct Known<T> {
    /// By namespace and name; nothing where it was not read yet, and why where it cannot be.
    items: Option<Result<BTreeMap<Id, T>, Unread>>,
    /// Whether it is watched from where it was read.
    begun: bool,
    /// How often in a row it was not served.
    absent: u32,
}

/// What is watched.
pub trait WatchedObject {
    fn id(&self) -> Id;

    /// Whether a list holds it that is a part of the one it was read from.
    fn is_in(&self, list: &List) -> bool;

    /// Whether nothing of it has changed that is kept.
    fn same(&self, _other: &Self) -> bool {
        false
    }
}

impl WatchedObject for Node {
    fn id(&self) -> Id {
        (String::new(), self.name.to_string())
    }

    fn is_in(&self, _: &List) -> bool {
        true
    }

    // The kubelet says every few minutes that it is still there.
    fn same(&self, other: &Node) -> bool {
        self == other
    }
}

macro_rules! watched_by_metadata {
    ($($kind:ty),+) => {$(
        impl WatchedObject for $kind {
            fn id(&self) -> Id {
                let namespace = self.metadata.namespace.clone();
                (namespace.unwrap_or_default(), self.metadata.name.clone())
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

impl<T: WatchedObject + Clone> SourceState<T> {
    /// Of so many lists what was loaded, where they are watched from then on.
    pub fn of(lists: impl Iterator<Item = Option<Vec<T>>>) -> SourceState<T> {
        let known = |loaded: Option<Vec<T>>| Known {
            begun: false,
            items: loaded.map(|items| Ok(by_id(items))),
            absent: 0,
        };
        SourceState {
            lists: lists.map(known).collect(),
            changed: false,
        }
    }

    pub fn ready(&self) -> bool {
        self.lists
            .iter()
            .all(|list| list.begun && list.items.is_some())
    }

    pub fn on_event(&mut self, list: usize, told: WatchEvent<T>) -> Heard {
        let heard = self.lists[list].on_event(told);
        self.changed |= matches!(heard, Heard::Changed);
        heard
    }

    /// Renews a source where something has changed since it was asked for last, and all of its lists were read; says
    /// whether it did.
    pub fn renew(&mut self, source: &mut Read<Vec<T>>) -> bool {
        if !self.ready() || !std::mem::take(&mut self.changed) {
            return false;
        }
        // Not beside the new one: in a large cluster that is one copy more.
        *source = Read::Ok(Vec::new());
        *source = self.read();
        true
    }

    fn read(&self) -> Read<Vec<T>> {
        let mut all: BTreeMap<&Id, &T> = BTreeMap::new();
        for items in self.lists.iter().filter_map(|list| list.items.as_ref()) {
            match items {
                Err(why) => return Read::Unreadable(why.clone()),
                // What carries the labels of both APIs comes twice.
                Ok(items) => all.extend(items),
            }
        }
        Read::Ok(all.into_values().cloned().collect())
    }
}

impl<T: WatchedObject> Known<T> {
    fn on_event(&mut self, told: WatchEvent<T>) -> Heard {
        let absent = std::mem::take(&mut self.absent);
        match told {
            WatchEvent::Begun => self.begun = true,
            WatchEvent::All(items) => self.put(Ok(by_id(items))),
            WatchEvent::Is(item) => {
                if let Some(Ok(items)) = &mut self.items {
                    let before = items.get(&item.id());
                    let same = before.is_some_and(|before| before.same(&item));
                    items.insert(item.id(), item);
                    if same {
                        return Heard::Nothing;
                    }
                }
            }
            WatchEvent::Gone(id) => {
                if let Some(Ok(items)) = &mut self.items {
                    items.remove(&id);
                }
            }
            WatchEvent::Failed(failure) if failure.is_absence() => {
                self.absent = absent + 1;
                if self.absent < ABSENT_AFTER {
                    return Heard::Failed(failure);
                }
                self.put(Ok(BTreeMap::new()));
            }
            // What is forbidden or makes no sense is news of the source, and not of the server.
            WatchEvent::Failed(failure)
                if failure.is_forbidden() || matches!(failure, Failure::Malformed(_)) =>
            {
                self.put(Err(failure.into()));
            }
            WatchEvent::Failed(failure) => return Heard::Failed(failure),
        }
        Heard::Changed
    }

    fn put(&mut self, items: Result<BTreeMap<Id, T>, Unread>) {
        self.items = Some(items);
        self.begun = true;
    }
}

fn by_id<T: WatchedObject>(items: Vec<T>) -> BTreeMap<Id, T> {
    let items = items.into_iter().map(|item| (item.id(), item));
    items.collect()
}
