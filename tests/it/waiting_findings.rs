//! A finding about waiting has the severity, duration and remedies of its cause.

use kubectl_skyhook::dump;
use kubectl_skyhook::rules::{self, Finding, Scope};

/// The findings of a rule in these objects.
fn found(code: &str, objects: &str) -> Vec<Finding> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.yaml");
    std::fs::write(&file, objects).expect("a write");
    let cluster = dump::load(&[file], None).expect("objects that load");
    let report = rules::diagnose(&cluster, &Scope::default());
    let of = report.findings.into_iter().filter(|f| f.rule.code == code);
    of.collect()
}

fn commands(finding: &Finding) -> Vec<String> {
    let remedies = finding.remedies();
    remedies.map(|r| r.argv[2..].join(" ")).collect()
}

/// Two custom resources, one after the other, on one node.
fn one_after_the_other(first: &str, node: &str) -> String {
    format!(
        r#"
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: first, uid: u-1 {first}}}
spec:
  priority: 10
  podNonInterruptLabels: {{matchLabels: {{job: training}}}}
  packages: {{driver: {{version: 1.0.0, image: i, interrupt: {{type: reboot}}, uninstall: {{enabled: true}}}}}}
status: {{nodePriority: {{node-1: null}}}}
---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: second, uid: u-2}}
spec:
  priority: 20
  packages: {{tuning: {{version: 1.0.0, image: i}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: node-1 {node}}}
"#
    )
}

#[test]
fn waiting_behind_a_protected_workload_is_temporary() {
    let workload = r#"---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml, labels: {job: training}}
spec: {nodeName: node-1}
status: {phase: Running}
"#;
    let objects = one_after_the_other("", "") + workload;
    let [cause] = found("SKY404", &objects).try_into().expect("one finding");
    let [effect] = found("SKY302", &objects).try_into().expect("one finding");
    assert_eq!((cause.permanent, effect.permanent), (false, false));
    assert_eq!(cause.severity, effect.severity);
}

#[test]
fn disable_is_not_suggested_for_a_terminating_custom_resource() {
    let deleted = r#", deletionTimestamp: "2026-11-01T10:00:00Z", finalizers: [skyhook.nvidia.com/skyhook]"#;
    let fails = r#", annotations: {skyhook.nvidia.com/status_first: erroring, skyhook.nvidia.com/nodeState_first: '{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"i","stage":"uninstall","state":"erroring","restarts":4}}'}"#;
    let objects = one_after_the_other(deleted, fails);
    let [finding] = found("SKY302", &objects).try_into().expect("one finding");
    assert_eq!(commands(&finding), ["node list --skyhook first", "status first"]);
}

/// `deployment-policy reset --node` has no effect on a node in progress, which the operator chooses first.
#[test]
fn leave_batch_is_not_suggested_for_a_node_in_progress() {
    let node = |name: &str, status: &str, entry: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, annotations: {{skyhook.nvidia.com/status_gpu: {status}{entry}}}}}\n"
        )
    };
    let batch = r#"
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec:
  interruptionBudget: {count: 1}
  packages: {driver: {version: 1.0.0, image: i}}
status: {status: in_progress, nodePriority: {node-1: null}}
"#;
    let fails = |status: &str| {
        let entry = r#", skyhook.nvidia.com/nodeState_gpu: '{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"i","stage":"apply","state":"STATE","restarts":4}}'"#;
        let state = if status == "erroring" { "erroring" } else { "in_progress" };
        let pod = r#"---
apiVersion: v1
kind: Pod
metadata:
  name: gpu-driver-1-0-0-apply-node-1-aaaaaaaa
  namespace: skyhook
  creationTimestamp: "2026-11-01T10:00:00Z"
  labels: {skyhook.nvidia.com/name: gpu, skyhook.nvidia.com/package: driver-1.0.0}
  annotations: {skyhook.nvidia.com/package: '{"name":"driver","version":"1.0.0","skyhook":"gpu","stage":"apply","image":"i"}'}
spec: {nodeName: node-1}
status:
  phase: Pending
  initContainerStatuses:
    - {name: driver-init, restartCount: 0, state: {waiting: {reason: ImagePullBackOff, message: "Back-off pulling image"}}}
"#;
        batch.to_owned()
            + &node("node-1", status, &entry.replace("STATE", state))
            + &node("node-2", "waiting", "")
            + pod
    };
    let leaves = |status: &str| {
        let [finding] = found("SKY305", &fails(status)).try_into().expect("one finding");
        commands(&finding).contains(&"deployment-policy reset gpu --node node-1".to_owned())
    };
    assert!(leaves("erroring"));
    assert!(!leaves("in_progress"));
}

/// A lasting cause outranks temporary ones, regardless of the order of node names.
#[test]
fn lasting_cause_outranks_temporary_causes() {
    let cluster = |fails: &str, ignored: &str| {
        format!(
            r#"
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {{name: first, uid: u-1}}
spec:
  priority: 10
  sequencing: all
  packages: {{driver: {{version: 1.0.0, image: i}}}}
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {{name: second, uid: u-2}}
spec:
  priority: 20
  packages: {{tuning: {{version: 1.0.0, image: i}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: {fails}, annotations: {{nodewright.nvidia.com/status_first: erroring, nodewright.nvidia.com/nodeState_first: '{{"driver|1.0.0":{{"name":"driver","version":"1.0.0","image":"i","stage":"apply","state":"erroring"}}}}'}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: {ignored}, labels: {{nodewright.nvidia.com/ignore: "true"}}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: first-driver-1-0-0-apply-aaaaaaaa
  namespace: nodewright
  labels: {{nodewright.nvidia.com/name: first, nodewright.nvidia.com/package: driver-1.0.0, nodewright.nvidia.com/stage: apply, nodewright.nvidia.com/node: {fails}}}
  annotations: {{nodewright.nvidia.com/package: '{{"name":"driver","version":"1.0.0","skyhook":"first","stage":"apply","image":"i"}}'}}
spec: {{backoffLimit: 3, template: {{spec: {{nodeName: {fails}}}}}}}
status: {{failed: 1, active: 1}}
"#
        )
    };
    for (fails, ignored) in [("node-1", "node-2"), ("node-2", "node-1")] {
        let found = found("SKY302", &cluster(fails, ignored));
        let lasting: Vec<bool> = found.iter().map(|f| f.permanent).collect();
        assert_eq!(lasting, [true], "{fails} fails");
    }
}
