//! Sources that are watched by several lists.

use serde_json::json;

use super::super::decode::Listed;
use super::*;
use crate::api::Name;

fn pod(name: &str, phase: &str) -> Pod {
    let pod = json!({"metadata": {"namespace": "ns", "name": name}, "status": {"phase": phase}});
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

/// Two loaded lists with these pods.
fn two_lists(lists: [&[&str]; 2]) -> SourceState<Pod> {
    let ids = |names: &[&str]| Some(names.iter().map(|name| id(name)).collect());
    let mut state = SourceState::of(lists.into_iter().map(ids));
    for list in 0..2 {
        state.on_event(list, WatchEvent::Begun, &mut Read::Ok(Vec::new()));
    }
    state
}

fn list_of(items: Vec<Pod>) -> Listed<Pod> {
    Listed { items, ..Listed::default() }
}

#[test]
fn a_list_lacks_items_until_it_is_read_again() {
    let mut source = Read::Ok(vec![pod("a", "Running")]);
    let mut state = two_lists([&["a"], &[]]);
    let lacking = Listed {
        unidentified: vec!["a Pod: it has no name".to_owned()],
        ..list_of(vec![pod("b", "Running")])
    };
    state.on_event(1, WatchEvent::All(lacking), &mut source);
    assert!(state.renew(&mut source));
    assert_eq!(phases(&source), ["a Running", "b Running"]);
    assert!(matches!(&source, Read::Incomplete(..)));
    state.on_event(0, WatchEvent::Is(pod("a", "Failed")), &mut source);
    assert!(state.renew(&mut source));
    assert_eq!(phases(&source), ["a Failed", "b Running"]);
    assert!(matches!(&source, Read::Incomplete(..)));
    state.on_event(1, WatchEvent::All(list_of(Vec::new())), &mut source);
    assert!(state.renew(&mut source));
    assert!(matches!(&source, Read::Ok(_)));
    assert_eq!(phases(&source), ["a Failed"]);
}

fn phases(source: &Read<Vec<Pod>>) -> Vec<String> {
    source.iter().map(|pod| format!("{} {}", pod.metadata.name, pod.status.phase)).collect()
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
    state.on_event(1, WatchEvent::All(list_of(Vec::new())), &mut source);
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
    state.on_event(0, WatchEvent::All(list_of(vec![pod("c", "Running")])), &mut source);
    assert!(state.renew(&mut source));
    assert_eq!(phases(&source), ["b Failed", "c Running"]);
}

#[test]
fn what_was_not_loaded_is_there_once_all_lists_were_read() {
    let mut source = Read::Unreadable("timed out".to_owned().into());
    let mut state = SourceState::of([None, None].into_iter());
    state.on_event(0, WatchEvent::All(list_of(vec![pod("a", "Running")])), &mut source);
    assert!(!state.renew(&mut source) && !state.ready());
    assert_eq!(phases(&source), [""; 0]);
    state.on_event(1, WatchEvent::All(list_of(vec![pod("b", "Running")])), &mut source);
    assert!(state.renew(&mut source) && state.ready());
    assert_eq!(phases(&source), ["a Running", "b Running"]);
}

#[test]
fn a_heartbeat_is_no_news() {
    let mut source = Read::Ok(vec![node("b", "2026-11-20T10:00:00Z")]);
    let known = BTreeSet::from([(String::new(), "b".to_owned())]);
    let mut state = SourceState::of([Some(known)].into_iter());
    let again = WatchEvent::Is(node("b", "2026-11-20T10:05:00Z"));
    assert!(matches!(state.on_event(0, again, &mut source), Effect::None));
    let new = WatchEvent::Is(node("a", "2026-11-20T10:05:00Z"));
    assert!(matches!(state.on_event(0, new, &mut source), Effect::Changed));
    assert!(state.renew(&mut source));
    let names: Vec<&str> = source.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["a", "b"]);
}

/// Memory would grow if each heartbeat replaced the object or stored a text again.
#[test]
fn heartbeats_leave_nothing_behind() {
    let heartbeat = |minute: usize| {
        let time = |field: &str| format!(r#""{field}":"2026-11-20T10:{minute:02}:00Z""#);
        let text = format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{minute}",
                "managedFields":[{{"manager":"kubelet",{},"fieldsV1":{{"f:status":{{}}}}}}]}},
                "status":{{"conditions":[{{"type":"Ready","status":"True",{},{}}}]}}}}"#,
            time("time"),
            time("lastHeartbeatTime"),
            r#""lastTransitionTime":"2026-11-20T09:00:00Z""#,
        );
        serde_json::from_str::<Node>(&text).expect("a node")
    };
    let mut source = Read::Ok(vec![heartbeat(0)]);
    let known = BTreeSet::from([(String::new(), "a".to_owned())]);
    let mut state = SourceState::of([Some(known)].into_iter());
    // Each new object is allocated while the old one exists, so that their addresses differ.
    let mut kept = Vec::new();
    for minute in 1..60 {
        let effect = state.on_event(0, WatchEvent::Is(heartbeat(minute)), &mut source);
        assert!(matches!(effect, Effect::None), "{minute}");
        let uid = source.items()[0].uid.as_deref().expect("a uid");
        kept.push((uid.as_ptr().addr(), Name::interned()));
    }
    kept.dedup();
    assert_eq!(kept.len(), 1, "{kept:?}");
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
    // At version 6 the pod has lost the label of the second list.
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
    // After a restore of etcd, versions are lower.
    let all = vec![version("u1", 3, "Pending")];
    state.on_event(0, WatchEvent::All(list_of(all)), &mut source);
    assert!(state.renew(&mut source));
    assert_eq!(phases(&source), ["a Pending"]);
}
