//! The Jobs of the newer operator, in the shape it gives them.

use serde_json::{Value, json};

use super::{NAMESPACE, PREFIX, Played};

impl Played<'_> {
    /// The Job of a package's stage on a node, as upstream builds it; its name is returned.
    pub fn job(&self, node: &str, package: &str, stage: &str) -> String {
        let (name, version) = package.split_once('|').expect("name|version");
        let body = self.job_body(node, name, version, stage);
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs");
        self.cluster
            .api
            .post(&path, &body)
            .expect("a Job can be created");
        body["metadata"]["name"]
            .as_str()
            .expect("it was just named")
            .to_owned()
    }

    fn job_body(&self, node: &str, name: &str, version: &str, stage: &str) -> Value {
        let object = self.object();
        let uid = object["metadata"]["uid"]
            .as_str()
            .expect("objects have one");
        let generation = object["metadata"]["generation"].to_string();
        let image = format!("ghcr.io/nvidia/skyhook-packages/{name}");
        let tagged = format!("{image}:{version}");
        let agent = "ghcr.io/nvidia/nodewright/agent:v7.0.0";
        let dir = format!(
            "/var/lib/skyhook/{}/{name}-{version}-{uid}-{generation}",
            self.name
        );
        let resource = format!("{}-{uid}-{generation}", self.name);
        let record = json!({"name": name, "version": version, "skyhook": self.name, "stage": stage, "image": image});
        let labels = json!({
            format!("{PREFIX}/name"): self.name, format!("{PREFIX}/package"): format!("{name}-{version}"),
            format!("{PREFIX}/stage"): stage, format!("{PREFIX}/node"): node, format!("{PREFIX}/generation"): generation,
        });
        let exists =
            |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
        let runtime_required = |key: &str| json!({"key": key, "operator": "Equal", "value": "runtime-required", "effect": "NoSchedule"});
        let step = |suffix: &str, verb: &str| {
            json!({"name": format!("{name}-{suffix}"), "image": agent, "args": [verb, "/root", dir],
                   "securityContext": {"privileged": true}})
        };
        // What it is a hash of is of no concern here.
        let job = format!(
            "{}-{name}-{}-{stage}-{node}-{}",
            self.name,
            version.replace('.', "-"),
            &uid[..8]
        );
        json!({
            "metadata": {
                "name": job, "labels": labels,
                "annotations": {
                    format!("{PREFIX}/resource-id"): resource, format!("{PREFIX}/package"): record.to_string(),
                },
                "ownerReferences": [{
                    "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "NodeWright", "name": self.name, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "parallelism": 1, "completions": 1, "podReplacementPolicy": "Failed",
                // The default is 3, which takes over a minute to use up.
                "backoffLimit": 1,
                "podFailurePolicy": {"rules": [{
                    "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }]},
                "template": {
                    "metadata": {"labels": labels, "annotations": {format!("{PREFIX}/package"): record.to_string()}},
                    "spec": {
                        "nodeName": node, "restartPolicy": "Never", "activeDeadlineSeconds": 3600,
                        "hostPID": true, "hostNetwork": true,
                        "initContainers": [
                            {"name": format!("{name}-init"), "image": tagged, "command": ["/bin/sh"],
                             "args": ["-c", "mkdir -p /root/${SKYHOOK_DIR} && cp -r /skyhook-package/* /root/${SKYHOOK_DIR}"],
                             "env": [{"name": "SKYHOOK_DIR", "value": dir}], "securityContext": {"privileged": true}},
                            step(stage, stage), step(&format!("{stage}check"), &format!("{stage}-check")),
                        ],
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
        })
    }

    pub fn await_job(&self, job: &str, what: &str, holds: impl Fn(&Value) -> bool) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        self.cluster.await_that(&format!("{job} {what}"), || {
            self.cluster
                .api
                .get(&path)
                .is_ok_and(|job| holds(&job["status"]))
        });
    }

    pub fn pods(&self, job: &str) -> Vec<Value> {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=batch.kubernetes.io/job-name={job}"
        );
        self.cluster
            .api
            .items(&path)
            .expect("the API server answers")
    }

    /// What the operator does once it has written a Job's outcome down.
    pub fn record(&self, job: &str, keep_for: u32) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let patch = json!({
            "metadata": {"annotations": {format!("{PREFIX}/state-recorded"): "true"}},
            "spec": {"ttlSecondsAfterFinished": keep_for},
        });
        self.cluster
            .api
            .merge(&path, &patch)
            .expect("a Job can be stamped");
    }

    /// Whether a Job is there.
    pub fn has_job(&self, job: &str) -> bool {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let found = self.cluster.api.get(&path);
        found.is_ok_and(|job| job["metadata"]["deletionTimestamp"].is_null())
    }

    pub fn suspend(&self, job: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        self.cluster
            .api
            .merge(&path, &json!({"spec": {"suspend": true}}))
            .expect("a Job can be suspended");
    }
}
