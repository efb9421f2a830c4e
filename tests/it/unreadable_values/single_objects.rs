//! Files with single objects instead of lists, or with objects that were never in a cluster.

use crate::scope::{codes, diagnose};
use crate::support::run::run;

const NODES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: node-1
    uid: n-1
    creationTimestamp: 2026-11-01T10:00:00Z
    annotations:
      skyhook.nvidia.com/status_net: complete
      skyhook.nvidia.com/version_net: v0.17.0
      skyhook.nvidia.com/nodeState_net: '{\"net|1.0.0\":{\"name\":\"net\",\"version\":\"1.0.0\",\"image\":\"i\",\"stage\":\"config\",\"state\":\"complete\"}}'
    labels: {skyhook.nvidia.com/status_net: complete}
  status:
    conditions: [{type: Ready, status: 'True', lastTransitionTime: 2026-11-20T10:00:00Z}]
";

/// `kubectl get skyhook tune -o yaml`
const ONE: &str = "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: tune, uid: u-1, generation: 1, creationTimestamp: 2026-11-01T10:00:00Z}
spec: {packages: {}}
status: {status: complete}
";

/// `kubectl get skyhooks -o yaml`
fn list_of_all() -> String {
    let item: String = ONE.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: v1\nkind: List\nitems:\n- {}", item.trim_start())
}

#[test]
fn keys_of_resources_that_may_not_have_been_asked_for_are_no_leftovers() {
    let alone = format!("{NODES}---\n{ONE}");
    // `kubectl get nodes,skyhook/tune -o yaml`
    let mixed = format!("{NODES}- {}", list_of_all().split_once("- ").expect("an item").1);
    let listed = format!("{NODES}---\n{}", list_of_all());
    assert_eq!(codes(&diagnose("--rule SKY701", &alone)), [""; 0]);
    assert_eq!(codes(&diagnose("--rule SKY701", &mixed)), [""; 0]);
    assert_eq!(codes(&diagnose("--rule SKY701", &listed)), ["SKY701"]);
    let clean = |text: &str| run("leftovers --clean --dry-run --from -").stdin(text).output();
    for text in [&alone, &mixed] {
        let refused = clean(text);
        refused.expect_code(1);
        refused.expect_stderr(
            "the capture has some Skyhook objects, but no complete SkyhookList, so leftovers cannot be determined",
        );
    }
    let planned = clean(&listed);
    planned.expect_code(0);
    planned.expect_stdout("node-1");
}

#[test]
fn a_manifest_is_not_stuck_in_the_cluster_beside_it() {
    let manifest = "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: tune}
spec: {packages: {driver: {version: 1.0.0, image: i}}}
";
    let beside = format!("{NODES}---\napiVersion: v1\nkind: PodList\nitems: []\n---\n{manifest}");
    let report = diagnose("--rule SKY222", &beside);
    assert_eq!(codes(&report), [""; 0]);
    let reason = report["notChecked"][0]["message"].as_str().expect("a reason");
    let why =
        "skyhook/tune has neither uid nor creation time, so it may be a manifest that was never applied";
    assert!(reason.contains(why), "{reason}");
    let alone = run("diagnose stuck --from -").stdin(manifest).output();
    alone.expect_no_stdout("1970");
}

#[test]
fn a_list_without_items_is_not_an_empty_list() {
    let item = NODES.replace("kind: List", "kind: NodeList");
    let empty = |items: &str| format!("{item}---\napiVersion: v1\nkind: PodList\n{items}");
    for items in ["", "items: null\n", "items: ~\n"] {
        let report = diagnose("--rule SKY702", &format!("{}---\n{ONE}", empty(items)));
        let reason = report["notChecked"][0]["message"].as_str().expect("a reason");
        assert!(reason.contains("the PodList lacks the items field"), "{reason}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    let pipe = home.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is installed").success());
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, NODES))
    };
    let ran = run(&format!("diagnose stuck --from {}", pipe.display())).output();
    writer.join().expect("the writer does not panic").expect("the write to the pipe succeeds");
    ran.expect_stdout("1 node");
}
