//! Commands scan each list of a cluster a number of times that does not depend on the cluster's size.
//!
//! The program counts the items of the lists that it scans, and a child process reports the count: when a cluster has
//! twice as many objects, the count may double, and is not four times as high.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kubectl_skyhook::api::{ApiFlavor, keys};
use kubectl_skyhook::cli;
use kubectl_skyhook::cluster::read::scanned_items;
use serde_json::{Value, json};
use tempfile::TempDir;

const API: ApiFlavor = ApiFlavor::Skyhook;
const NODES: usize = 10;
/// Objects of the smaller cluster.
const SMALL: usize = 100;
/// The capture of a child process, its command line, and the file that it writes the count to.
const CAPTURE: &str = "SCALE_CAPTURE";
const WORDS: &str = "SCALE_WORDS";
const COUNT: &str = "SCALE_COUNT";

/// Builds the objects of a cluster.
#[derive(Default)]
struct Objects(Vec<Value>);

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
        let annotations: serde_json::Map<String, Value> = annotations
            .into_iter()
            .map(|(k, v)| (k, v.into()))
            .collect();
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

    /// Custom resources that share the nodes among them, each with a status and a node state there.
    fn rollouts(
        &mut self,
        count: usize,
        status: &str,
        stage_and_state: Option<[&str; 2]>,
        change: impl Fn(usize, &mut Value),
    ) {
        for number in 0..count {
            let node = format!("node-{}", number % NODES);
            self.skyhook(&format!("cr-{number}"), &node, |object| {
                change(number, object)
            });
        }
        for node in 0..NODES {
            let own = (node..count)
                .step_by(NODES)
                .map(|number| format!("cr-{number}"));
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
    [
        (keys::status(API, name), status.to_owned()),
        (keys::node_state(API, name), entry.to_string()),
    ]
}

/// A cluster of so many objects of one kind, in one state.
type Shape = fn(usize) -> Objects;

const LEFT_ON_A_NODE: Shape = |count| {
    let mut objects = Objects::default();
    objects.skyhook("here", "node-0", |_| {});
    let gone = (0..count).map(|number| format!("gone-{number}"));
    let left = gone.flat_map(|name| record(&name, "erroring", "apply", "erroring"));
    objects.node("node-0", left);
    objects
};

const SHAPES: [(&str, Shape); 13] = [
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
        objects.rollouts(
            count,
            "erroring",
            Some(["apply", "erroring"]),
            |_, object| {
                object["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z".into();
            },
        );
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
            objects.event(
                number,
                "Pod",
                &pod,
                &format!("cannot pull the image for {skyhook}"),
            );
        }
        objects
    }),
    ("events of one custom resource", |count| {
        let mut objects = Objects::default();
        objects.rollouts(1, "erroring", Some(["apply", "erroring"]), |_, _| {});
        for number in 0..count {
            let message =
                format!("Applying package [driver:1.0.0] to node [node-0] stage [{number}]");
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
        objects.rollouts(
            count,
            "in_progress",
            Some(["apply", "in_progress"]),
            |_, object| {
                object["spec"]["runtimeRequired"] = true.into();
            },
        );
        for object in objects
            .0
            .iter_mut()
            .filter(|object| object["kind"] == "Node")
        {
            let taint = json!({"key": API.taint_key(), "value": "runtime-required", "effect": "NoSchedule"});
            object["spec"] = json!({"taints": [taint]});
        }
        objects
    }),
];

/// Commands that look at the whole cluster.
const COMMANDS: [&str; 6] = [
    "diagnose stuck --all",
    "status",
    "node status",
    "uninstall status",
    "leftovers",
    "fix --dry-run",
];

/// What a command costs.
struct Cost {
    /// The items that it scans.
    scanned: usize,
    /// Its processor time in microseconds.
    time: u64,
}

/// The cost of a command for a capture.
fn cost(capture: &Path, words: &str) -> Cost {
    let count = capture.with_extension("count");
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "scale::counts_in_a_child_process", "--nocapture"])
        .env(CAPTURE, capture)
        .env(WORDS, words)
        .env(COUNT, &count)
        .env("RUST_MIN_STACK", "16777216")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it starts");
    assert!(child.success(), "{words}");
    let text = std::fs::read_to_string(&count).expect("a count");
    let (scanned, time) = text.split_once(' ').expect("two numbers");
    Cost {
        scanned: scanned.parse().expect("a number"),
        time: time.parse().expect("a number"),
    }
}

/// The processor time of this process in microseconds.
#[cfg(unix)]
fn processor_time() -> i64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the usage of this process");
    usage.user_time().num_microseconds()
}

#[cfg(not(unix))]
fn processor_time() -> i64 {
    0
}

/// Runs one command and writes its count, if another test asks for it.
#[test]
fn counts_in_a_child_process() {
    let Some(words) = std::env::var_os(WORDS) else {
        return;
    };
    let words = words.into_string().expect("text");
    let mut args: Vec<std::ffi::OsString> = vec!["kubectl-skyhook".into()];
    args.extend(words.split(' ').map(Into::into));
    args.extend(["--from".into(), std::env::var_os(CAPTURE).expect("a path")]);
    args.extend(["--now".into(), "2026-11-20T12:00:00Z".into()]);
    cli::main(args.into_iter());
    let count = std::env::var_os(COUNT).expect("a path");
    let cost = format!("{} {}", scanned_items(), processor_time());
    std::fs::write(count, cost).expect("a write");
}

/// Writes a cluster of that shape and size.
fn captured(directory: &TempDir, shape: Shape, count: usize) -> PathBuf {
    let capture = directory.path().join(format!("{count}.json"));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": shape(count).0});
    std::fs::write(&capture, list.to_string()).expect("a write");
    capture
}

#[test]
fn scans_do_not_multiply_with_the_objects() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    for (name, shape) in SHAPES {
        let [small, large] = [SMALL, 2 * SMALL].map(|count| captured(&directory, shape, count));
        for words in COMMANDS {
            let [few, many] = [&small, &large].map(|capture| cost(capture, words).scanned);
            // Twice as many, and a tenth for what is rounded.
            if few == 0 || many * 10 > few * 21 {
                wrong.push(format!("{words}, {name}: {few}, then {many}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Keys of a node are in no list. Four times as many take at most eight times the processor time; a search of all keys for
/// each key takes sixteen times.
#[cfg(unix)]
#[test]
fn processor_time_does_not_multiply_with_the_keys_of_a_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let [small, large] = [1000, 4000].map(|count| captured(&directory, LEFT_ON_A_NODE, count));
    let mut wrong = Vec::new();
    for words in COMMANDS {
        let measured: Vec<[u64; 2]> = (0..3)
            .map(|_| [&small, &large].map(|capture| cost(capture, words).time))
            .collect();
        // Other processes only make it slower.
        let [few, many] = [0, 1].map(|at| measured.iter().map(|m| m[at]).min().unwrap_or(0));
        if few == 0 || many > few * 8 {
            wrong.push(format!("{words}: {few} µs, then {many} µs"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
