//! Names, nodes and rules narrow down what is reported, and never hide why it does not get on.

use serde_json::Value;

use crate::support::run::run;

const OTHER: &str = "
---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: other, uid: u-2}
spec: {packages: {tuning: {version: 1.2.0, image: i}}}
";

const NODE: &str = r#"
---
apiVersion: v1
kind: Node
metadata:
  name: node-1
  annotations:
    skyhook.nvidia.com/nodeState_gpu: '{"driver|2.0.1":{"name":"driver","version":"2.0.1","stage":"apply","state":"erroring"}}'
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
"#;

fn diagnose(words: &str, files: &str) -> Value {
    run(&format!("diagnose stuck -o json --from - {words}"))
        .stdin(files)
        .go()
        .json()
}

fn codes(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings.filter_map(|f| f["code"].as_str()).collect()
}

/// One custom resource can stop the operator for all: asked about another one, it is the answer.
#[test]
fn what_stops_the_operator_is_in_every_scope() {
    for (code, objects) in [
        (
            "SKY206",
            "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, annotations: {skyhook.nvidia.com/nodeState_gpu: '{'}}
",
        ),
        (
            "SKY108",
            "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1, deletionTimestamp: '2026-11-01T10:00:00Z'}
spec: {packages: {driver: {version: 2.0.1, image: i, uninstall: {enabled: true}}}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, annotations: {skyhook.nvidia.com/nodeState_gpu: '{'}}
",
        ),
        (
            "SKY212",
            "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {packages: {driver: {version: two, image: i}}}
",
        ),
        (
            "SKY502",
            "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: a-name-that-is-far-too-long-to-be-a-part-of-a-key-on-a-node, uid: u-1}
",
        ),
        (
            "SKY504",
            "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, labels: {skyhook.nvidia.com/name: gpu}}
spec: {nodeName: node-1}
",
        ),
    ] {
        let files = format!("{objects}{OTHER}");
        let report = diagnose(&format!("other --rule {code}"), &files);
        assert_eq!(codes(&report), [code]);
        assert_eq!(report["verdict"], "stuck", "{code}");
    }
}

#[test]
fn an_unfinished_old_object_is_in_every_scope() {
    let files = "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: old, uid: u-1}
status: {status: erroring}
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: gpu, uid: u-2}
";
    let report = diagnose("gpu --rule SKY601 --api nodewright", files);
    assert_eq!(codes(&report), ["SKY601"]);
}

/// What is paused is left out by the operator, broken or not.
#[test]
fn what_is_paused_stops_nobody_else() {
    let files = format!(
        "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: gpu, uid: u-1, annotations: {{skyhook.nvidia.com/pause: 'true'}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: node-1, annotations: {{skyhook.nvidia.com/nodeState_gpu: '{{'}}}}
{OTHER}"
    );
    let report = diagnose("other --rule SKY206", &files);
    assert_eq!(codes(&report), [""; 0]);
}

#[test]
fn the_cause_of_a_wait_is_in_scope() {
    let words = "diagnose stuck second -o json --from tests/clusters/two-priorities";
    let report = run(words).go().json();
    assert_eq!(codes(&report), ["SKY201", "SKY302"]);
    assert_eq!(report["verdict"], "stuck");
}

/// A finding elsewhere says nothing about what could not be read here.
#[test]
fn what_could_not_be_read_counts_in_a_narrow_scope() {
    let files = format!(
        "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: gpu, uid: u-1}}
spec: {{packages: {{driver: {{version: 2.0.1, image: i}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: skyhook, labels: {{skyhook.nvidia.com/name: gpu}}}}
spec: none
{NODE}"
    );
    let report = diagnose("--rule SKY201 --node node-2", &files);
    assert_eq!(codes(&report), [""; 0]);
    assert_eq!(report["notChecked"][0]["code"], "SKY201");
    assert_eq!(report["verdict"], "incomplete");
}

/// Other objects in a capture may tell of the future, which is not when it was taken.
#[test]
fn objects_of_no_concern_do_not_move_the_clock() {
    let mut files =
        std::fs::read_to_string("tests/clusters/in-progress/cluster.json").expect("a capture");
    files.push_str(
        r#"{"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": "web", "namespace": "default"},
            "status": {"renewalTime": "2036-11-01T10:00:00Z"}}"#,
    );
    assert_eq!(codes(&diagnose("", &files)), [""; 0]);
}
