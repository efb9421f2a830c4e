//! Names, nodes and rules limit the report, but never hide a blocker.

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

pub fn diagnose(words: &str, files: &str) -> Value {
    run(&format!("diagnose stuck -o json --from - {words}")).stdin(files).output().json()
}

pub fn codes(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings.filter_map(|f| f["code"].as_str()).collect()
}

/// One custom resource can stop the operator for all, so it is reported for another one, too.
#[test]
fn operator_blocker_is_in_every_scope() {
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
            "SKY211",
            r#"apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {packages: {driver: {version: 2.0.1, image: i}}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: skyhook
  deletionTimestamp: "2026-11-20T09:45:00Z"
  labels: {skyhook.nvidia.com/name: gpu}
  annotations: {skyhook.nvidia.com/package: '{"name":"driver","version":"2.0.1","skyhook":"gpu","stage":"apply","invalid":true}'}
spec: {nodeName: node-1}
---
apiVersion: v1
kind: Event
metadata: {name: now, namespace: default}
lastTimestamp: "2026-11-20T10:00:00Z"
"#,
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
        assert_eq!(report["verdict"], "Stuck", "{code}");
    }
}

#[test]
fn unfinished_older_object_is_in_every_scope() {
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

/// The operator skips a paused custom resource, broken or not.
#[test]
fn paused_custom_resource_does_not_block_others() {
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
fn cause_of_a_wait_is_in_scope() {
    let words = "diagnose stuck second -o json --from tests/clusters/two-priorities";
    let report = run(words).output().json();
    assert_eq!(codes(&report), ["SKY201", "SKY302"]);
    assert_eq!(report["verdict"], "Stuck");
}

const POLICY: &str = "---
apiVersion: v1
kind: Node
metadata: {name: node-1, annotations: {skyhook.nvidia.com/status_gpu: blocked}, labels: {skyhook.nvidia.com/ignore: 'true'}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2, annotations: {skyhook.nvidia.com/status_gpu: waiting}}
---
apiVersion: v1
kind: Node
metadata: {name: node-3, annotations: {skyhook.nvidia.com/status_gpu: complete}}
---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {packages: {driver: {version: 2.0.1, image: i}}}
status: {nodePriority: {node-1: '2026-11-01T10:00:00Z'}}
";

/// The cause is on a node other than the waiting one.
#[test]
fn blocker_of_a_node_is_in_its_scope() {
    let report = diagnose("--rule SKY305 --node node-2", POLICY);
    assert_eq!(codes(&report), ["SKY305"]);
    assert_eq!(report["verdict"], "Stuck");
    // A later custom resource waits there for the blocked one.
    let report = diagnose("other --rule SKY305 --node node-2", &format!("{POLICY}{OTHER}"));
    assert_eq!(codes(&report), ["SKY305"]);
}

const DRAIN: &str = "---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {priority: 10, packages: {driver: {version: 2.0.1, image: i, interrupt: {type: reboot}}}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: node-1}
status: {phase: Running}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, observedGeneration: 1}
";

/// Before v0.20 a refused eviction ends the operator's work on all nodes of the custom resource.
#[test]
fn refused_drain_is_in_the_scope_of_other_nodes_before_v0_20() {
    let files = format!("{DRAIN}{OTHER}");
    for (scope, found) in [("other", &[][..]), ("--node node-2", &["SKY401"])] {
        let report = diagnose(&format!("{scope} --rule SKY401"), &files);
        assert_eq!(codes(&report), found, "{scope}");
    }
    let newer = files
        .replace("skyhook.nvidia.com", "nodewright.nvidia.com")
        .replace("kind: Skyhook", "kind: NodeWright");
    let operator = "---
apiVersion: apps/v1
kind: Deployment
metadata: {name: op, namespace: skyhook, labels: {control-plane: controller-manager}}
spec: {template: {spec: {containers: [{name: manager, image: 'example.org/skyhook/operator:v0.20.0'}]}}}
";
    let report = diagnose("--node node-2 --rule SKY401", &format!("{newer}{operator}"));
    assert_eq!(codes(&report), [""; 0]);
}

/// A finding elsewhere does not make up for an unreadable source.
#[test]
fn unreadable_source_counts_in_a_narrow_scope() {
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
    assert_eq!(report["verdict"], "NotFullyChecked");
}

/// Unrelated objects with times in the future do not determine when the capture was taken.
#[test]
fn unrelated_objects_do_not_affect_the_capture_time() {
    let mut files = std::fs::read_to_string("tests/clusters/in-progress/cluster.json").expect("a capture");
    files.push_str(
        r#"{"apiVersion": "cert-manager.io/v1", "kind": "Certificate",
            "metadata": {"name": "web", "namespace": "default"},
            "status": {"renewalTime": "2036-11-01T10:00:00Z"}}"#,
    );
    assert_eq!(codes(&diagnose("", &files)), [""; 0]);
}

/// Nothing runs while the operator rejects a spec, so all other findings are effects of it.
#[test]
fn operator_blocker_comes_first() {
    let broken = "
---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: broken, uid: u-3}
spec: {packages: {driver: {version: not-a-version, image: i}}}
";
    let fails = "apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {packages: {driver: {version: 2.0.1, image: i}}}
";
    let report = diagnose("", &format!("{fails}{NODE}{broken}"));
    let codes = codes(&report);
    assert_eq!(codes[0], "SKY212", "{codes:?}");
    assert!(codes.contains(&"SKY201"), "{codes:?}");
}

/// A command for another node would change the wrong one.
#[test]
fn evidence_and_commands_are_those_of_the_named_node() {
    let ran = run("diagnose stuck --node pdb-2 --from tests/clusters/nodewright-drain-blocked-pdb").output();
    insta::assert_snapshot!(ran.stdout);
}
