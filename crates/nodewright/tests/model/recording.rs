//! Recorded watch streams: the state of the cluster at a time, and the events after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use jiff::{SignedDuration, Timestamp};
use nodewright::api::{ApiFlavor, DeploymentPolicy};
use nodewright::cluster::Cluster;
use nodewright::dump;
use serde_json::{Value, json};

use super::ROOT;
use super::events::{Reader, name};

/// A watch stream of one cluster, and the events derived from it.
pub struct Recording {
    pub name: String,
    flavor: ApiFlavor,
    lines: Vec<(f64, Value)>,
    pub events: Vec<(f64, Event)>,
}

/// An event that matters for predictions.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Someone edited an object, or a node joined.
    Edit,
    /// An action of the operator for a custom resource on a node.
    Action { skyhook: String, node: String, action: String },
    /// A Job completed or failed, or a raw pod (a package pod without a Job) completed.
    Ended { node: String, failed: bool },
    /// A pod on a node, or the node itself, changed.
    Changed { node: String },
    /// The raw pod of a stage was removed.
    Gone { node: String },
    /// The nodes of the batches of a custom resource, as the operator recorded them.
    Picked { skyhook: String, nodes: BTreeSet<String> },
    /// The status of a node for a custom resource.
    Status { skyhook: String, node: String, status: String },
}

impl Recording {
    pub fn read(path: &Path) -> Recording {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let lines: Vec<(f64, Value)> = BufReader::new(GzDecoder::new(file))
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
                (line["t"].as_f64().expect("a time"), line)
            })
            .collect();
        let name = path.file_name().expect("a file").to_string_lossy();
        let name = name.split('.').next().expect("a name").to_owned();
        let older = lines.iter().any(|(_, line)| line["object"]["kind"] == "Skyhook");
        let flavor = if older { ApiFlavor::Skyhook } else { ApiFlavor::NodeWright };
        let events = Reader::new(flavor).read(&lines);
        Recording { name, flavor, lines, events }
    }

    pub fn end(&self) -> f64 {
        self.lines.last().expect("a line").0
    }

    /// Whether someone edited an object in the seconds before a time.
    pub fn just_edited(&self, at: f64, seconds: f64) -> bool {
        let mut events = self.events.iter();
        events.any(|(t, e)| *e == Event::Edit && *t <= at && at < t + seconds)
    }

    /// The events after a time.
    pub fn after(&self, at: f64) -> impl Iterator<Item = &(f64, Event)> {
        self.events.iter().filter(move |(t, _)| *t > at)
    }

    /// The objects at a time.
    pub fn objects(&self, at: f64) -> Vec<&Value> {
        let mut objects: BTreeMap<(&str, &str, &str), &Value> = BTreeMap::new();
        for (_, line) in self.lines.iter().take_while(|(t, _)| *t <= at) {
            let object = &line["object"];
            let text = |v: &'static str| object["metadata"][v].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            let key = (kind, text("namespace"), text("name"));
            match line["type"].as_str() {
                Some("EDIT") => {}
                Some("DELETED") => {
                    objects.remove(&key);
                }
                _ => {
                    objects.insert(key, object);
                }
            }
        }
        objects.into_values().collect()
    }

    pub fn has_skyhooks(&self, at: f64) -> bool {
        let objects = self.objects(at);
        objects.iter().any(|object| object["kind"] == self.flavor.kind())
    }

    /// The cluster at a time, as `--from` reads it.
    pub fn cluster(&self, at: f64) -> Cluster {
        self.load(json!(self.objects(at)))
    }

    fn load(&self, items: Value) -> Cluster {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let mut file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
        file.write_all(list.to_string().as_bytes()).expect("the file is writable");
        let paths = [file.path().to_owned()];
        dump::load(&paths, Some(self.flavor)).expect("a cluster")
    }
}

impl Recording {
    /// The cluster at a time, with `taken_at` set to that time.
    pub fn cluster_then(&self, at: f64) -> Cluster {
        let mut cluster = self.cluster(at);
        cluster.taken_at = self.time(at);
        cluster
    }

    fn time(&self, at: f64) -> Timestamp {
        let start = self.lines.iter().find_map(|(_, line)| line["time"].as_str());
        let start: Timestamp = start.expect("a time of day").parse().expect("a time");
        start + SignedDuration::from_millis((at * 1000.0) as i64)
    }

    /// Like [`Recording::cluster_then`], with the field managers that recordings omit: the operator's last write of
    /// each node, and the last edit of each spec.
    pub fn dated_cluster(&self, at: f64) -> Cluster {
        let fields = json!({"f:metadata": {"f:annotations": {(format!("f:{}", self.flavor.key("status_x"))): {}}, "f:labels": {}}});
        let dated = self.objects(at).into_iter().map(|object| {
            if object["kind"] != "Node" && object["kind"] != self.flavor.kind() {
                return object.clone();
            }
            let same = |key: &str, line: &Value| line["object"][key] == object[key];
            let own = self.lines.iter().take_while(|(t, _)| *t <= at).filter(|(_, line)| {
                same("kind", line) && line["object"]["metadata"]["name"] == object["metadata"]["name"]
            });
            let newest = own.filter(|(_, line)| object["kind"] == "Node" || same("spec", line));
            let written = match object["kind"].as_str() {
                Some("Node") => newest.map(|(t, _)| *t).last(),
                _ => newest.map(|(t, _)| *t).next(),
            };
            let time = self.time(written.unwrap_or_default()).to_string();
            let mut object = object.clone();
            object["metadata"]["managedFields"] = json!([{"manager": "x", "time": time, "fieldsV1": fields}]);
            object
        });
        let mut cluster = self.load(dated.collect());
        cluster.taken_at = self.time(at);
        cluster
    }
}

impl Recording {
    /// The custom resources at a time, without status, by name.
    pub fn specs_at(&self, at: f64) -> BTreeMap<String, Value> {
        let objects = self.objects(at).into_iter();
        let own = objects.filter(|object| object["kind"] == self.flavor.kind());
        own.map(|object| {
            let mut metadata = json!({"name": object["metadata"]["name"]});
            if let Some(annotations) = object["metadata"].get("annotations") {
                metadata["annotations"] = annotations.clone();
            }
            let whole = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"],
            });
            (name(object), whole)
        })
        .collect()
    }
}

/// The compartment of a node by the policy of a custom resource; recordings have no overlapping compartments.
pub fn compartment_of(cluster: &Cluster, skyhook: &str, node: &str) -> String {
    let default = "__default__".to_owned();
    let skyhook = cluster.skyhook(skyhook).expect("a custom resource");
    let policies = cluster.policies.items();
    let named = |p: &&DeploymentPolicy| p.metadata.name == skyhook.spec.deployment_policy;
    let Some(policy) = policies.iter().find(named) else {
        return default;
    };
    let labels = &cluster.node(node).expect("a node").labels;
    let mut own = policy.spec.compartments.iter();
    let own = own.find(|c| c.selector.matches(labels));
    own.map_or(default, |c| c.name.clone())
}

/// The recordings in a directory of tests/model; `RECORDINGS` names another one.
pub fn recordings(directory: &str) -> Vec<PathBuf> {
    let own = Path::new(ROOT).join("tests/model");
    let directory = std::env::var_os("RECORDINGS").map_or(own.join(directory), PathBuf::from);
    let entries = std::fs::read_dir(directory).expect("a directory of recordings");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().ends_with(".ndjson.gz")).collect();
    paths.sort();
    paths
}
