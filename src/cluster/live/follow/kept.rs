//! What is known of a source from its watches.

use std::collections::BTreeSet;

use super::super::list::List;
use super::super::request::Failure;
use super::super::watch::{Id, WatchEvent};
use crate::api::{DeploymentPolicy, Skyhook};
use crate::cluster::{Job, Node, Pod, Read, Unread};

/// An API that is not served so often in a row is gone, and all of its objects with it. A server that is just starting
/// does not know it either for a moment.
const ABSENT_AFTER: u32 = 5;

/// What an event has changed.
pub enum Effect {
    None,
    Changed,
    Failed(Failure),
}

/// What is known of the lists of one source, none where it is not watched; what they hold is in the cluster.
pub struct SourceState<T> {
    lists: Vec<Known>,
    /// What they hold while the cluster calls the source unreadable.
    aside: Vec<T>,
    changed: bool,
}

/// What is known of one list.
struct Known {
    /// What it holds; nothing where it was not read yet, and why where it cannot be.
    ids: Option<Result<BTreeSet<Id>, Unread>>,
    /// Whether it is watched from where it was read.
    begun: bool,
    /// How often in a row it was not served.
    absent: u32,
}

/// What is watched.
pub trait WatchedObject {
    /// Namespace and name.
    fn key(&self) -> (&str, &str);

    fn id(&self) -> Id {
        let (namespace, name) = self.key();
        (namespace.to_owned(), name.to_owned())
    }

    /// Whether a list holds it that is a part of the one it was read from.
    fn is_in(&self, list: &List) -> bool;

    /// Higher than in an earlier state of it, and than in an object that had its name before; `None` of what is in one
    /// list only.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Whether nothing of it has changed that is kept.
    fn same(&self, _other: &Self) -> bool {
        false
    }
}

impl WatchedObject for Node {
    fn key(&self) -> (&str, &str) {
        ("", &self.name)
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
            fn key(&self) -> (&str, &str) {
                let namespace = self.metadata.namespace.as_deref();
                (namespace.unwrap_or_default(), &self.metadata.name)
            }

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
    /// Of lists what each held when it was loaded, where it is watched from then on.
    pub fn of(lists: impl Iterator<Item = Option<BTreeSet<Id>>>) -> SourceState<T> {
        let known = |loaded: Option<BTreeSet<Id>>| Known {
            begun: false,
            ids: loaded.map(Ok),
            absent: 0,
        };
        SourceState {
            lists: lists.map(known).collect(),
            aside: Vec::new(),
            changed: false,
        }
    }

    pub fn ready(&self) -> bool {
        self.lists
            .iter()
            .all(|list| list.begun && list.ids.is_some())
    }

    /// Applies an event of a list. The source is sound again, in its order and without what is gone, once it is renewed.
    pub fn on_event(
        &mut self,
        list: usize,
        event: WatchEvent<T>,
        source: &mut Read<Vec<T>>,
    ) -> Effect {
        let items = match source {
            Read::Ok(items) => items,
            Read::Unreadable(_) | Read::NotRequested => &mut self.aside,
        };
        let effect = self.lists[list].on_event(event, items);
        self.changed |= matches!(effect, Effect::Changed);
        effect
    }

    /// Renews a source where something has changed since it was asked for last; says whether it did. One that was not
    /// loaded waits until all of its lists were read.
    pub fn renew(&mut self, source: &mut Read<Vec<T>>) -> bool {
        let loaded = source.ok().is_some();
        if !self.changed || !(loaded || self.ready()) {
            return false;
        }
        self.changed = false;
        let mut items = match std::mem::take(source) {
            Read::Ok(items) => items,
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
                    // What carries the labels of both APIs is in two lists.
                    items.retain(|item| ids.iter().any(|ids| ids.contains(&item.id())));
                }
                items.sort_by(|a, b| a.key().cmp(&b.key()));
                Read::Ok(items)
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
            WatchEvent::All(all) => {
                let ids: BTreeSet<Id> = all.iter().map(T::id).collect();
                items.retain(|item| !ids.contains(&item.id()));
                items.extend(all);
                self.put(Ok(ids));
            }
            WatchEvent::Is(item) => {
                if let Some(Ok(ids)) = &mut self.ids {
                    let new = ids.insert(item.id());
                    let same = match find(items, item.key()) {
                        // Another list has it, too, and reported its later state first.
                        Some(at) if items[at].version() > item.version() => true,
                        Some(at) => {
                            let before = std::mem::replace(&mut items[at], item);
                            before.same(&items[at])
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
            // What is forbidden or makes no sense is news of the source, and not of the server.
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

/// Where an item of this namespace and name is: quickly where they are in order, and to be sure one by one.
fn find<T: WatchedObject>(items: &[T], key: (&str, &str)) -> Option<usize> {
    let ordered = items.binary_search_by(|item| item.key().cmp(&key));
    ordered
        .ok()
        .or_else(|| items.iter().position(|item| item.key() == key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, phase: &str) -> Pod {
        let pod =
            json!({"metadata": {"namespace": "ns", "name": name}, "status": {"phase": phase}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn node(name: &str, heartbeat: &str) -> Node {
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat});
        let node = json!({"metadata": {"name": name}, "status": {"conditions": [ready]}});
        serde_json::from_value(node).expect("a node")
    }

    fn id(name: &str) -> Id {
        ("ns".to_owned(), name.to_owned())
    }

    /// Two lists that were loaded, with these pods in each.
    fn two_lists(lists: [&[&str]; 2]) -> SourceState<Pod> {
        let ids = |names: &[&str]| Some(names.iter().map(|name| id(name)).collect());
        let mut state = SourceState::of(lists.into_iter().map(ids));
        for list in 0..2 {
            state.on_event(list, WatchEvent::Begun, &mut Read::Ok(Vec::new()));
        }
        state
    }

    fn phases(source: &Read<Vec<Pod>>) -> Vec<String> {
        let pods = source.items().iter();
        pods.map(|pod| format!("{} {}", pod.metadata.name, pod.status.phase))
            .collect()
    }

    #[test]
    fn what_is_in_two_lists_is_there_once_and_until_it_is_in_neither() {
        let mut source = Read::Ok(vec![pod("b", "Pending"), pod("a", "Pending")]);
        let mut state = two_lists([&["a", "b"], &["a"]]);
        state.on_event(1, WatchEvent::Is(pod("a", "Running")), &mut source);
        state.on_event(0, WatchEvent::Is(pod("c", "Pending")), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["a Running", "b Pending", "c Pending"]);
        state.on_event(0, WatchEvent::Gone(id("a")), &mut source);
        state.on_event(0, WatchEvent::Gone(id("b")), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["a Running", "c Pending"]);
        state.on_event(1, WatchEvent::All(Vec::new()), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["c Pending"]);
        assert!(!state.renew(&mut source));
    }

    #[test]
    fn a_list_that_cannot_be_read_for_a_while_loses_nothing_of_the_others() {
        let mut source = Read::Ok(vec![pod("a", "Running"), pod("b", "Running")]);
        let mut state = two_lists([&["a"], &["b"]]);
        let malformed = || Failure::Malformed("no sense".to_owned());
        state.on_event(0, WatchEvent::Failed(malformed()), &mut source);
        assert!(state.renew(&mut source));
        assert!(matches!(&source, Read::Unreadable(why) if *why == malformed().into()));
        state.on_event(1, WatchEvent::Is(pod("b", "Failed")), &mut source);
        state.on_event(0, WatchEvent::All(vec![pod("c", "Running")]), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["b Failed", "c Running"]);
    }

    #[test]
    fn what_was_not_loaded_is_there_once_all_lists_were_read() {
        let mut source = Read::Unreadable("timed out".to_owned().into());
        let mut state = SourceState::of([None, None].into_iter());
        state.on_event(0, WatchEvent::All(vec![pod("a", "Running")]), &mut source);
        assert!(!state.renew(&mut source) && !state.ready());
        assert_eq!(phases(&source), [""; 0]);
        state.on_event(1, WatchEvent::All(vec![pod("b", "Running")]), &mut source);
        assert!(state.renew(&mut source) && state.ready());
        assert_eq!(phases(&source), ["a Running", "b Running"]);
    }

    #[test]
    fn a_heartbeat_is_no_news() {
        let mut source = Read::Ok(vec![node("b", "2026-11-20T10:00:00Z")]);
        let known = BTreeSet::from([(String::new(), "b".to_owned())]);
        let mut state = SourceState::of([Some(known)].into_iter());
        let again = WatchEvent::Is(node("b", "2026-11-20T10:05:00Z"));
        assert!(matches!(
            state.on_event(0, again, &mut source),
            Effect::None
        ));
        let new = WatchEvent::Is(node("a", "2026-11-20T10:05:00Z"));
        assert!(matches!(
            state.on_event(0, new, &mut source),
            Effect::Changed
        ));
        assert!(state.renew(&mut source));
        let names: Vec<&str> = source.items().iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    fn version(uid: &str, version: u64, phase: &str) -> Pod {
        let pod = json!({
            "metadata": {"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": version.to_string()},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn a_list_that_lags_behind_takes_nothing_back() {
        let mut source = Read::Ok(vec![version("u1", 4, "Running")]);
        let mut state = two_lists([&["a"], &["a"]]);
        // At 6 the pod has lost the label of the second list.
        let newest = version("u1", 6, "Succeeded");
        state.on_event(0, WatchEvent::Is(newest), &mut source);
        let behind = version("u1", 5, "Running");
        state.on_event(1, WatchEvent::Is(behind), &mut source);
        state.on_event(1, WatchEvent::Gone(id("a")), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["a Succeeded"]);
    }

    #[test]
    fn a_pod_made_again_is_not_taken_for_the_one_before() {
        let mut source = Read::Ok(vec![version("u1", 4, "Running")]);
        let mut state = two_lists([&["a"], &["a"]]);
        state.on_event(0, WatchEvent::Gone(id("a")), &mut source);
        state.on_event(0, WatchEvent::Is(version("u2", 7, "Pending")), &mut source);
        state.on_event(1, WatchEvent::Is(version("u1", 5, "Failed")), &mut source);
        state.on_event(1, WatchEvent::Gone(id("a")), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["a Pending"]);
    }

    #[test]
    fn a_list_that_is_read_again_counts_as_it_is() {
        let mut source = Read::Ok(vec![version("u1", 9, "Running")]);
        let mut state = two_lists([&["a"], &[]]);
        // After a restore of etcd versions are lower.
        let all = vec![version("u1", 3, "Pending")];
        state.on_event(0, WatchEvent::All(all), &mut source);
        assert!(state.renew(&mut source));
        assert_eq!(phases(&source), ["a Pending"]);
    }
}
