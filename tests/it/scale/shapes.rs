//! Clusters of any size, of one shape each.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

const API: ApiFlavor = ApiFlavor::Skyhook;
const NODES: usize = 10;

/// Builds the objects of a cluster.
#[derive(Default)]
pub struct Objects(pub Vec<Value>);

impl Objects {
    fn skyhook(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        let mut object = json!({
            "apiVersion": API.api_version(),
            "kind": API.kind(),
            "metadata": {
                "name": name, "uid": format!("uid-{name}"), "generation": 1, "annotations": {},
                "creationTimestamp": "2026-11-20T10:00:00Z", "finalizers": [API.finalizer()],
            },
            "spec": {
                "nodeSelectors": {"matchLabels": {"host": node}},
                "packages": {"driver": {
                    "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true},
                }},
            },
            "status": {"status": "in_progress", "observedGeneration": 1},
        });
        change(&mut object);
        self.0.push(object);
    }

    fn node(&mut self, name: &str, annotations: impl IntoIterator<Item = (String, String)>) {
        let annotations: serde_json::Map<String, Value> =
            annotations.into_iter().map(|(k, v)| (k, v.into())).collect();
        self.0.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "creationTimestamp": "2026-11-20T10:00:00Z", "labels": {"host": name},
                "annotations": annotations,
            },
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T10:00:00Z"},
            ]},
        }));
    }

    fn pod(&mut self, name: &str, skyhook: &str, node: &str) {
        let note = json!({
            "name": "driver", "version": "1.0.0", "skyhook": skyhook, "stage": "apply", "image": "example.com/driver",
        });
        self.0.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": API.default_namespace(), "uid": format!("uid-{name}"),
                "creationTimestamp": "2026-11-20T11:00:00Z",
                "labels": {API.key("name"): skyhook, API.key("package"): "driver-1.0.0"},
                "annotations": {API.key("package"): note.to_string()},
            },
            "spec": {"nodeName": node, "initContainers": [{"name": "driver-apply", "image": "x"}]},
            "status": {"phase": "Pending", "startTime": "2026-11-20T11:00:00Z", "initContainerStatuses": [{
                "name": "driver-apply", "restartCount": 3, "image": "x",
                "state": {"waiting": {"reason": "ImagePullBackOff"}},
            }]},
        }));
    }

    fn event(&mut self, number: usize, kind: &str, name: &str, message: &str) {
        self.0.push(json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("event-{number}"), "namespace": API.default_namespace()},
            "involvedObject": {"kind": kind, "name": name}, "type": "Warning", "reason": "Failed", "message": message,
            "count": 1, "firstTimestamp": "2026-11-20T11:00:00Z", "lastTimestamp": "2026-11-20T11:00:00Z",
        }));
    }

    /// Adds custom resources that are spread over the nodes, each with a status and a node state on its node.
    fn rollouts(
        &mut self,
        count: usize,
        status: &str,
        stage_and_state: Option<[&str; 2]>,
        change: impl Fn(usize, &mut Value),
    ) {
        for number in 0..count {
            let node = format!("node-{}", number % NODES);
            self.skyhook(&format!("cr-{number}"), &node, |object| change(number, object));
        }
        for node in 0..NODES {
            let own = (node..count).step_by(NODES).map(|number| format!("cr-{number}"));
            let annotations = own.filter(|_| stage_and_state.is_some()).flat_map(|name| {
                let [stage, state] = stage_and_state.unwrap_or_default();
                record(&name, status, stage, state)
            });
            self.node(&format!("node-{node}"), annotations.collect::<Vec<_>>());
        }
    }
}

/// The annotations of a custom resource on a node.
fn record(name: &str, status: &str, stage: &str, state: &str) -> [(String, String); 2] {
    let entry = json!({"driver|1.0.0": {
        "name": "driver", "version": "1.0.0", "image": "example.com/driver", "stage": stage, "state": state,
    }});
    [(keys::status(API, name), status.to_owned()), (keys::node_state(API, name), entry.to_string())]
}

/// Builds a cluster with this many objects of one kind, in one state.
pub type Shape = fn(usize) -> Objects;

pub const LEFT_ON_A_NODE: Shape = |count| {
    let mut objects = Objects::default();
    objects.skyhook("here", "node-0", |_| {});
    let gone = (0..count).map(|number| format!("gone-{number}"));
    let left = gone.flat_map(|name| record(&name, "erroring", "apply", "erroring"));
    objects.node("node-0", left);
    objects
};

/// The same package fails on all nodes for every custom resource.
pub const ALIKE: Shape = |count| {
    let mut objects = Objects::default();
    let names: Vec<String> = (0..count).map(|number| format!("cr-{number:05}")).collect();
    for name in &names {
        objects.skyhook(name, "", |object| {
            object["spec"]["nodeSelectors"] =
                json!({"matchExpressions": [{"key": "host", "operator": "Exists"}]});
        });
    }
    for number in 0..NODES {
        let records = names.iter().flat_map(|name| record(name, "erroring", "apply", "erroring"));
        objects.node(&format!("node-{number}"), records.collect::<Vec<_>>());
    }
    objects
};

pub const PACKAGES_OF_ONE: Shape = |count| {
    let mut objects = Objects::default();
    let packages = (0..count).map(|number| format!("package-{number}"));
    let spec = packages.clone().map(|name| {
        let package = json!({"version": "1.0.0", "image": "example.com/driver"});
        (name, package)
    });
    let spec: serde_json::Map<String, Value> = spec.collect();
    let entries = packages.map(|name| {
        let entry = json!({
            "name": name, "version": "1.0.0", "image": "example.com/driver", "stage": "apply", "state": "erroring",
        });
        (format!("{name}|1.0.0"), entry)
    });
    let entries: serde_json::Map<String, Value> = entries.collect();
    objects.skyhook("cr", "node-0", |object| {
        object["spec"]["nodeSelectors"] =
            json!({"matchExpressions": [{"key": "host", "operator": "Exists"}]});
        object["spec"]["packages"] = spec.into();
    });
    for number in 0..NODES {
        let record = [
            (keys::status(API, "cr"), "erroring".to_owned()),
            (keys::node_state(API, "cr"), json!(entries).to_string()),
        ];
        objects.node(&format!("node-{number}"), record);
    }
    objects
};

pub const SHAPES: [(&str, Shape); 14] = [
    ("packages of one custom resource", PACKAGES_OF_ONE),
    ("nothing begun", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "", None, |_, _| {});
        objects
    }),
    ("complete", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "complete", Some(["config", "complete"]), |_, _| {});
        objects
    }),
    ("failing", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "erroring", Some(["apply", "erroring"]), |_, _| {});
        for number in 0..count {
            let (skyhook, node) = (format!("cr-{number}"), format!("node-{}", number % NODES));
            objects.pod(&format!("pod-{number}"), &skyhook, &node);
        }
        objects
    }),
    ("deleted", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "erroring", Some(["apply", "erroring"]), |_, object| {
            object["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z".into();
        });
        objects
    }),
    ("paused", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "paused", Some(["apply", "complete"]), |_, object| {
            object["metadata"]["annotations"][API.key("pause")] = "true".into();
        });
        objects
    }),
    ("in sequence", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "", None, |number, object| {
            object["spec"]["priority"] = (number + 1).into();
            object["spec"]["sequencing"] = "all".into();
        });
        objects
    }),
    ("with policies", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "", None, |number, object| {
            object["spec"]["deploymentPolicy"] = format!("policy-{number}").into();
        });
        let policy = |number| {
            json!({
                "apiVersion": API.api_version(), "kind": "DeploymentPolicy",
                "metadata": {"name": format!("policy-{number}")},
                "spec": {"default": {"budget": {"count": 1}}},
            })
        };
        objects.0.extend((0..count).map(policy));
        objects
    }),
    ("left on a node", LEFT_ON_A_NODE),
    ("with events", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "erroring", Some(["apply", "erroring"]), |_, _| {});
        for number in 0..count {
            let (skyhook, node) = (format!("cr-{number}"), format!("node-{}", number % NODES));
            let pod = format!("pod-{number}");
            objects.pod(&pod, &skyhook, &node);
            objects.event(number, "Pod", &pod, &format!("cannot pull the image for {skyhook}"));
        }
        objects
    }),
    ("events of one custom resource", |count| {
        let mut objects = Objects::default();
        objects.rollouts(1, "erroring", Some(["apply", "erroring"]), |_, _| {});
        for number in 0..count {
            let message = format!("Applying package [driver:1.0.0] to node [node-0] stage [{number}]");
            objects.event(number, API.kind(), "cr-0", &message);
        }
        objects
    }),
    ("pods of one custom resource", |count| {
        let mut objects = Objects::default();
        objects.rollouts(1, "erroring", Some(["apply", "erroring"]), |_, _| {});
        for number in 0..count {
            objects.pod(&format!("pod-{number}"), "cr-0", "node-0");
        }
        objects
    }),
    ("failing nodes of one custom resource", |count| {
        let mut objects = Objects::default();
        objects.skyhook("cr", "node-0", |object| {
            object["spec"]["nodeSelectors"] =
                json!({"matchExpressions": [{"key": "host", "operator": "Exists"}]});
        });
        for number in 0..count {
            let node = format!("node-{number}");
            objects.node(&node, record("cr", "erroring", "apply", "erroring"));
            objects.pod(&format!("pod-{number}"), "cr", &node);
        }
        objects
    }),
    ("on tainted nodes", |count| {
        let mut objects = Objects::default();
        objects.rollouts(count, "in_progress", Some(["apply", "in_progress"]), |_, object| {
            object["spec"]["runtimeRequired"] = true.into();
        });
        for object in objects.0.iter_mut().filter(|object| object["kind"] == "Node") {
            let taint = json!({"key": API.taint_key(), "value": "runtime-required", "effect": "NoSchedule"});
            object["spec"] = json!({"taints": [taint]});
        }
        objects
    }),
];
