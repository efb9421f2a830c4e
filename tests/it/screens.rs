//! Whole screens of 80 columns, by situation.

mod watch;

use insta::assert_snapshot;
use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::object_builder::{NODEWRIGHT, PackageRun};
use crate::support::run::{run, without_rule_counts};
use crate::support::sample::sizes;
use crate::terminal::on_terminal;

const API: ApiFlavor = ApiFlavor::NodeWright;
/// Number of pools, to which nodes and custom resources are assigned in turn.
const POOLS: usize = 5;
const NAMES: [&str; 15] = [
    "base",
    "gpu-tune",
    "storage",
    "network",
    "monitoring",
    "security",
    "kernel",
    "driver",
    "fabric",
    "cache",
    "logging",
    "runtime",
    "limits",
    "firmware",
    "cleanup",
];
/// Indices of custom resources that fail on every ninth incomplete node.
const FAILING_INDICES: [usize; 2] = [1, 4];
/// Index of the custom resource whose image is missing.
const NO_IMAGE_INDEX: usize = 2;
/// Index of the paused custom resource.
const PAUSED_INDEX: usize = 3;

/// A fleet in the middle of a rollout.
pub struct Fleet {
    pub directory: TempDir,
}

impl Fleet {
    pub fn of(nodes: usize) -> Fleet {
        Fleet::with(objects(nodes))
    }

    /// The fleet with a requested deletion of `gpu-tune`.
    fn deleting(nodes: usize) -> Fleet {
        let mut items = objects(nodes);
        let skyhook =
            items.iter_mut().find(|item| item["metadata"]["name"] == "gpu-tune").expect("gpu-tune exists");
        skyhook["metadata"]["deletionTimestamp"] = "2026-11-20T09:55:00Z".into();
        skyhook["spec"]["packages"]["gpu-tune"]["uninstall"] = json!({"enabled": true});
        Fleet::with(items)
    }

    fn with(items: Vec<Value>) -> Fleet {
        let directory = tempfile::tempdir().expect("a directory");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let file = directory.path().join("cluster.json");
        std::fs::write(file, list.to_string()).expect("a write");
        Fleet { directory }
    }

    /// The screen, and its number of lines.
    fn screen(&self, words: &str) -> (String, usize) {
        let from = format!("--from {} --now 2026-11-20T10:00:00Z", self.directory.path().display());
        let screen = on_terminal(80, &format!("{words} {from}"));
        let wide: Vec<&str> = screen.lines().filter(|line| line.chars().count() > 80).collect();
        let commands = wide.iter().all(|line| line.contains("kubectl skyhook"));
        let commands = commands || words.contains("-o wide") || words.contains("diagnose");
        assert!(commands, "{words}: {}", wide.join("\n"));
        let lines = screen.lines().count();
        let screen = without_rule_counts(&screen);
        (format!("$ kubectl skyhook {words}\n{screen}"), lines)
    }
}

/// The objects of a fleet.
fn objects(nodes: usize) -> Vec<Value> {
    let mut items = vec![NODEWRIGHT.operator()];
    items.extend((0..NAMES.len()).map(|at| skyhook(at, nodes)));
    for n in 0..nodes {
        items.extend(node(n, nodes));
    }
    items
}

fn skyhook(at: usize, nodes: usize) -> Value {
    let name = NAMES[at];
    let mut skyhook = NODEWRIGHT.skyhook(
        "in_progress",
        json!({name: {"version": "1.0.0", "image": format!("registry.example/{name}")}}),
    );
    skyhook["metadata"]["name"] = name.into();
    skyhook["metadata"]["uid"] = name.into();
    skyhook["metadata"]["creationTimestamp"] = "2026-11-20T08:00:00Z".into();
    skyhook["spec"]["priority"] = json!(10 * (at + 1));
    skyhook["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": format!("p{}", at % POOLS)}});
    skyhook["spec"]["interruptionBudget"] = json!({"percent": 20});
    if at == PAUSED_INDEX {
        skyhook["metadata"]["annotations"] = json!({API.key("pause"): "true"});
    }
    let all = nodes / POOLS;
    skyhook["status"]["compartmentStatuses"] = json!({"__default__": {
        "matched": all, "ceiling": (all / 5).max(1), "completed": complete(at, nodes), "inProgress": 1,
        "batchState": {"currentBatch": 3},
    }});
    skyhook
}

/// Number of nodes on which a custom resource is complete. Later ones are ahead, as after an earlier one was
/// added.
fn complete(at: usize, nodes: usize) -> usize {
    nodes / POOLS * (at + 1) / (NAMES.len() + 1)
}

/// A node, with its pods.
fn node(n: usize, nodes: usize) -> Vec<Value> {
    let name = format!("node-{n:05}");
    let (pool, place) = (n % POOLS, n / POOLS);
    let mut node = NODEWRIGHT.node(&name, "complete", &[]);
    let mut annotations = json!({});
    let mut objects = Vec::new();
    for (at, skyhook) in NAMES.iter().enumerate().filter(|(at, _)| at % POOLS == pool) {
        let open = place.checked_sub(complete(at, nodes));
        let (status, entry) = match open {
            None => ("complete", Some(("config", "complete"))),
            Some(open) if FAILING_INDICES.contains(&at) && open % 9 == 0 => {
                ("erroring", Some(("apply", "erroring")))
            }
            Some(open) if at < POOLS && at != PAUSED_INDEX && open % 7 == 0 => {
                ("in_progress", Some(("apply", "in_progress")))
            }
            Some(_) => ("waiting", None),
        };
        annotations[keys::status(API, skyhook)] = status.into();
        let state = entry.map_or(json!({}), |(stage, state)| {
            json!({format!("{skyhook}|1.0.0"): {
                "name": skyhook, "version": "1.0.0", "image": format!("registry.example/{skyhook}"),
                "stage": stage, "state": state,
            }})
        });
        annotations[keys::node_state(API, skyhook)] = state.to_string().into();
        if status == "erroring" || status == "in_progress" {
            let state = match at {
                _ if status == "erroring" => "failed",
                NO_IMAGE_INDEX => "waiting:ImagePullBackOff",
                _ => "running",
            };
            let run = format!("{skyhook}-{n:05}");
            objects.extend(work(skyhook, &name, &run, state));
            objects.push(event(skyhook, &name, &run, state == "failed"));
        }
    }
    node["metadata"]["annotations"] = annotations;
    node["metadata"]["labels"] = json!({"pool": format!("p{pool}")});
    objects.push(node);
    objects
}

/// Events of the kubelet about a failing pod, and of the operator about a stage that begins.
fn event(skyhook: &str, node: &str, pod: &str, fails: bool) -> Value {
    let (kind, name, reason, message) = if fails {
        let message = format!("Back-off restarting failed container apply in pod {pod}_nodewright({pod})");
        ("Pod", pod, "BackOff", message)
    } else {
        let message = format!("Applying package [{skyhook}:1.0.0] to node [{node}] stage [apply]");
        ("NodeWright", skyhook, "Apply", message)
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{pod}-{reason}"), "namespace": "nodewright"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "nodewright"},
        "type": if fails { "Warning" } else { "Normal" }, "reason": reason, "message": message, "count": 4,
        "firstTimestamp": "2026-11-20T09:50:00Z", "lastTimestamp": "2026-11-20T09:58:00Z",
    })
}

/// The Job and the pod of a stage, whose container is in this state.
fn work(skyhook: &str, node: &str, name: &str, state: &str) -> [Value; 2] {
    // As the operator names them: custom resource, package, more.
    let name = &format!("{skyhook}-{name}");
    let run = PackageRun {
        node,
        package: skyhook,
        job: Some(name),
        at: "2026-11-20T09:50:00Z",
        ..PackageRun::default()
    };
    let (status, phase) = match state {
        "failed" => (
            json!({"failed": 4, "conditions": [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
            ]}),
            "Failed",
        ),
        _ => (json!({"active": 1}), "Pending"),
    };
    let job = NODEWRIGHT.job(&run, status);
    let container = match state {
        "waiting:ImagePullBackOff" => "init",
        _ => "apply",
    };
    let mut pod = NODEWRIGHT.pod(name, &run, phase, &[&format!("{skyhook}-{container} {state}")]);
    pod["status"]["initContainerStatuses"][0]["image"] = format!("registry.example/{skyhook}:1.0.0").into();
    [job, pod].map(|mut object| {
        let metadata = &mut object["metadata"];
        metadata["labels"][API.key("name")] = skyhook.into();
        let note = json!({
            "name": skyhook, "version": "1.0.0", "skyhook": skyhook, "stage": "apply",
            "image": format!("registry.example/{skyhook}"),
        });
        metadata["annotations"][API.key("package")] = note.to_string().into();
        // The operator has recorded the failure.
        if state == "failed" {
            metadata["annotations"][API.key("state-recorded")] = "true".into();
        }
        if metadata["ownerReferences"][0]["kind"] != "Job" {
            metadata["ownerReferences"][0]["name"] = skyhook.into();
        }
        object
    })
}

#[test]
fn ten_nodes_in_a_rollout() {
    let fleet = Fleet::of(10);
    for words in [
        "status",
        "status gpu-tune",
        "diagnose stuck",
        "diagnose node node-00001",
        "node status",
        "node list --skyhook gpu-tune",
        "package status",
        "package status --versions",
        "events",
    ] {
        assert_snapshot!(format!("ten_nodes_{}", words.replace(' ', "_")), fleet.screen(words).0);
    }
}

#[test]
fn status_of_fifteen_custom_resources_fits_on_24_lines() {
    let fleet = Fleet::of(130);
    for words in [
        "status",
        "status gpu-tune",
        "status -o wide",
        "diagnose stuck",
        "diagnose stuck 2",
        "diagnose node node-00006",
        "node status",
        "node list --skyhook gpu-tune",
        "package status",
        "package status --versions",
        "events",
    ] {
        let (screen, lines) = fleet.screen(words);
        assert_snapshot!(format!("130_nodes_{}", words.replace(' ', "_")), screen);
        if words == "status" {
            assert!(lines < 24, "{lines} lines");
        }
    }
}

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn pages_of_15000_nodes_are_short() {
    let fleet = Fleet::of(15_000);
    for words in [
        "status",
        "status gpu-tune",
        "diagnose stuck",
        "diagnose stuck 2",
        "diagnose node node-01876",
        "node status",
        "node list --skyhook gpu-tune",
        "package status",
        "package status --versions",
        "events",
    ] {
        let (screen, lines) = fleet.screen(words);
        assert_snapshot!(format!("15000_nodes_{}", words.replace(' ', "_")), screen);
        // One row per custom resource, status and stage, and its header.
        let most = if words.ends_with(" status") { 61 } else { 40 };
        assert!(lines <= most, "{words}: {lines} lines");
    }
}

#[test]
fn a_deletion_waits_for_failing_nodes() {
    for nodes in sizes([10, 130, 15_000]) {
        let fleet = Fleet::deleting(nodes);
        let name = if nodes == 10 { "ten".to_owned() } else { nodes.to_string() };
        let (screen, lines) = fleet.screen("status gpu-tune");
        assert_snapshot!(format!("{name}_nodes_status_of_a_deletion"), screen);
        assert!(lines <= 40, "{lines} lines");
    }
}

/// Each next command runs as it is printed.
#[test]
fn printed_commands_run() {
    for nodes in sizes([130, 15_000]) {
        let fleet = Fleet::of(nodes);
        let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
        let (screen, _) = fleet.screen("diagnose stuck");
        let commands = screen.lines().filter_map(|line| Some(line.split_once("kubectl skyhook ")?.1));
        let own: Vec<&str> = commands.filter(|words| words.starts_with("package logs ")).collect();
        assert!(!own.is_empty(), "{screen}");
        for words in own {
            let ran = run(&format!("{} {from}", words.replace('\'', ""))).output();
            assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        }
    }
}

/// The headline, the JSON documents and `-o name` count the same causes and nodes.
#[test]
fn counts_agree() {
    let fleet = Fleet::of(130);
    let from = format!("--from {} --now 2026-11-20T10:00:00Z", fleet.directory.path().display());
    let json = |words: &str| run(&format!("{words} -o json {from}")).output().json();
    let (status, diagnosis) = (json("status"), json("diagnose stuck"));
    let errors = &status["counts"]["errors"];
    assert_eq!(errors, &diagnosis["counts"]["errors"]);
    for key in ["blockedNodes", "selectedNodes"] {
        assert_eq!(status[key], diagnosis[key], "{key}");
    }
    let causes = diagnosis["causes"].as_array().expect("causes");
    let grave = causes.iter().filter(|cause| cause["severity"] == "Error").count();
    assert_eq!(errors, &json!(grave));
    let (warnings, notes) = (&status["counts"]["warnings"], &status["counts"]["infos"]);
    assert_eq!([warnings, notes], [&diagnosis["counts"]["warnings"], &diagnosis["counts"]["infos"]]);
    let warning = causes.iter().find(|cause| cause["severity"] == "Warning").expect("a warning");
    let headline = format!(
        "STUCK: {grave} causes block {} of 130 nodes; {warnings} warning blocks {}; {notes} notes",
        status["blockedNodes"], warning["blockedNodes"]
    );
    for words in ["status", "diagnose stuck"] {
        let ran = run(&format!("{words} {from}")).output();
        assert!(ran.stdout.lines().any(|line| line == headline), "{}", ran.stdout);
    }
    // The shown rows plus the omitted causes and warnings equal the headline's counts.
    let (screen, _) = fleet.screen("status");
    let rows = screen.lines().filter(|line| line.get(..6).is_some_and(|row| row.ends_with(" SKY")));
    assert_eq!(rows.count(), 2, "{screen}");
    let left_out = "\n   1 more cause and 1 more warning: kubectl skyhook diagnose stuck\n";
    assert!(screen.contains(left_out), "{screen}");
    let names = run(&format!("diagnose stuck -o name {from}")).output();
    assert_eq!(names.stdout.lines().count(), causes.len());
    assert!(names.stdout.starts_with("SKY"), "{}", names.stdout);
}
