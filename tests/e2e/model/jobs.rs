//! Jobs as the newer operator creates them.

use serde_json::{Value, json};

use super::{NAMESPACE, PREFIX, Played};

const AGENT: &str = "ghcr.io/nvidia/nodewright/agent:v7.0.0";

/// Retry strategy of a Job.
enum Attempts {
    /// For stages: a new pod for each attempt.
    PodEach,
    /// For interrupts: the container of a single pod restarts until the operator ends the Job.
    RestartedInPlace,
}

impl Attempts {
    fn limit(&self, spec: &mut Value) {
        let pod = &mut spec["template"]["spec"];
        match self {
            Self::PodEach => {
                pod["restartPolicy"] = json!("Never");
                pod["activeDeadlineSeconds"] = json!(3600);
                // The operator's default of 3 takes over a minute to exhaust.
                spec["backoffLimit"] = json!(1);
                spec["podFailurePolicy"] = json!({"rules": [{
                    "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }]});
            }
            Self::RestartedInPlace => {
                pod["restartPolicy"] = json!("OnFailure");
                spec["backoffLimit"] = json!(i32::MAX);
                spec["activeDeadlineSeconds"] = json!(3600);
            }
        }
    }
}

/// The agent's argument for an interrupt: its JSON in base64.
fn interrupt_argument(kind: &str) -> &'static str {
    match kind {
        "reboot" => "eyJ0eXBlIjoibm9kZV9yZXN0YXJ0In0=",
        "service" => "eyJ0eXBlIjoic2VydmljZV9yZXN0YXJ0Iiwic2VydmljZXMiOlsiY29udGFpbmVyZCJdfQ==",
        other => panic!("unknown interrupt {other}"),
    }
}

impl Played<'_> {
    /// Creates the Job of a package's stage on a node; returns its name.
    pub fn job(&self, node: &str, package: &str, stage: &str) -> String {
        let (name, version) = package.split_once('|').expect("package is `name|version`");
        let body = self.job_body(node, name, version, stage);
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs");
        self.cluster.api.post(&path, &body).expect("a Job can be created");
        body["metadata"]["name"].as_str().expect("the Job has a name").to_owned()
    }

    fn job_body(&self, node: &str, name: &str, version: &str, stage: &str) -> Value {
        let object = self.object();
        let uid = object["metadata"]["uid"].as_str().expect("objects have one");
        let generation = object["metadata"]["generation"].to_string();
        let image = format!("ghcr.io/nvidia/skyhook-packages/{name}");
        let tagged = format!("{image}:{version}");
        let dir = format!("/var/lib/skyhook/{}/{name}-{version}-{uid}-{generation}", self.name);
        let resource = format!("{}-{uid}-{generation}", self.name);
        let record =
            json!({"name": name, "version": version, "skyhook": self.name, "stage": stage, "image": image});
        let mut labels = json!({
            format!("{PREFIX}/name"): self.name, format!("{PREFIX}/package"): format!("{name}-{version}"),
            format!("{PREFIX}/stage"): stage, format!("{PREFIX}/node"): node, format!("{PREFIX}/generation"): generation,
        });
        let mut annotations = json!({
            format!("{PREFIX}/resource-id"): resource, format!("{PREFIX}/package"): record.to_string(),
        });
        // The name ends with a hash, which is arbitrary here.
        let hash = &uid[..8];
        let (name_of_job, attempts, init) = if stage == "interrupt" {
            labels[format!("{PREFIX}/interrupt")] = json!("True");
            annotations[format!("{PREFIX}/restart-allowance")] = json!("1");
            let kind = object["spec"]["packages"][name]["interrupt"]["type"].as_str();
            let kind = kind.expect("the package has an interrupt");
            (
                format!("{}-interrupt-{kind}-{node}-{hash}", self.name),
                Attempts::RestartedInPlace,
                json!([{"name": "interrupt", "image": AGENT, "args": ["interrupt", "/root", dir, interrupt_argument(kind)],
                        "securityContext": {"privileged": true}}]),
            )
        } else {
            let step = |suffix: &str, verb: &str| {
                json!({"name": format!("{name}-{suffix}"), "image": AGENT, "args": [verb, "/root", dir],
                       "securityContext": {"privileged": true}})
            };
            (
                format!("{}-{name}-{}-{stage}-{node}-{hash}", self.name, version.replace('.', "-"),),
                Attempts::PodEach,
                json!([
                    {"name": format!("{name}-init"), "image": tagged, "command": ["/bin/sh"],
                     "args": ["-c", "mkdir -p /root/${SKYHOOK_DIR} && cp -r /skyhook-package/* /root/${SKYHOOK_DIR}"],
                     "env": [{"name": "SKYHOOK_DIR", "value": dir}], "securityContext": {"privileged": true}},
                    step(stage, stage), step(&format!("{stage}check"), &format!("{stage}-check")),
                ]),
            )
        };
        let exists = |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
        let runtime_required = |key: &str| json!({"key": key, "operator": "Equal", "value": "runtime-required", "effect": "NoSchedule"});
        let mut body = json!({
            "metadata": {
                "name": name_of_job, "labels": labels, "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "NodeWright", "name": self.name, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "parallelism": 1, "completions": 1, "podReplacementPolicy": "Failed",
                "template": {
                    "metadata": {"labels": labels, "annotations": {format!("{PREFIX}/package"): record.to_string()}},
                    "spec": {
                        "nodeName": node, "hostPID": true, "hostNetwork": true,
                        "initContainers": init,
                        "containers": [{"name": "done", "image": tagged, "command": ["/bin/sh", "-c", "exit 0"]}],
                        "tolerations": [
                            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                            runtime_required(PREFIX), runtime_required("skyhook.nvidia.com"),
                            exists("node.kubernetes.io/not-ready", "NoExecute"),
                            exists("node.kubernetes.io/unreachable", "NoExecute"),
                        ],
                    },
                },
            },
        });
        attempts.limit(&mut body["spec"]);
        body
    }

    pub fn await_job(&self, job: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        self.cluster.await_that(&format!("{job} {what}"), || {
            self.cluster.api.get(&path).is_ok_and(|job| holds(&job["status"]))
        });
    }

    pub fn pods(&self, job: &str) -> Vec<Value> {
        let path =
            format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=batch.kubernetes.io/job-name={job}");
        self.cluster.api.items(&path).expect("the API server responds")
    }

    /// Marks the Job as recorded, as the operator does once it has recorded the result, and sets its TTL.
    pub fn record(&self, job: &str, keep_for: u32) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let patch = json!({
            "metadata": {"annotations": {format!("{PREFIX}/state-recorded"): "true"}},
            "spec": {"ttlSecondsAfterFinished": keep_for},
        });
        self.cluster.api.merge(&path, &patch).expect("a Job can be stamped");
    }

    /// Whether the Job exists and is not being deleted.
    pub fn has_job(&self, job: &str) -> bool {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let found = self.cluster.api.get(&path);
        found.is_ok_and(|job| job["metadata"]["deletionTimestamp"].is_null())
    }

    pub fn suspend(&self, job: &str, suspended: bool) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        self.cluster
            .api
            .merge(&path, &json!({"spec": {"suspend": suspended}}))
            .expect("a Job can be suspended and resumed");
    }

    /// Ends an interrupt's Job as the operator does after too many restarts: fails the Job, and keeps the end
    /// of the log.
    pub fn end_at_restart_limit(&self, job: &str, log: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let patch = json!({
            "metadata": {"annotations": {
                format!("{PREFIX}/restart-limit-exceeded"): "1", format!("{PREFIX}/last-logs"): log,
            }},
            "spec": {"backoffLimit": 0},
        });
        self.cluster.api.merge(&path, &patch).expect("a Job can be limited");
    }
}
