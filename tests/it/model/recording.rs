//! Recorded watch streams: the state of the cluster at a time, and what happened after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use flate2::read::GzDecoder;
use jiff::{SignedDuration, Timestamp};
use kubectl_skyhook::api::{ApiFlavor, DeploymentPolicy, Executor};
use kubectl_skyhook::cluster::{Cluster, dump};
use serde_json::{Value, json};

/// A watch stream of one cluster, and what it shows.
pub struct Recording {
    pub name: String,
    flavor: ApiFlavor,
    lines: Vec<(f64, Value)>,
    pub events: Vec<(f64, Event)>,
}

/// Something that happened, as far as predictions are concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Someone edited an object, or a node joined.
    Edit,
    /// The operator did something for a custom resource on a node.
    Action {
        skyhook: String,
        node: String,
        action: String,
    },
    /// A Job ended, well or badly.
    Ended { node: String, failed: bool },
    /// A pod on a node, or the node itself, changed.
    Changed { node: String },
    /// The raw pod of an ended stage went.
    Gone { node: String },
    /// The nodes of the batches of a custom resource, as the operator recorded them.
    Picked {
        skyhook: String,
        nodes: BTreeSet<String>,
    },
    /// The status of a node for a custom resource.
    Status {
        skyhook: String,
        node: String,
        status: String,
    },
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
        let older = lines
            .iter()
            .any(|(_, line)| line["object"]["kind"] == "Skyhook");
        let flavor = if older {
            ApiFlavor::Skyhook
        } else {
            ApiFlavor::NodeWright
        };
        let events = Reader::new(flavor).read(&lines);
        Recording {
            name,
            flavor,
            lines,
            events,
        }
    }

    pub fn end(&self) -> f64 {
        self.lines.last().expect("a line").0
    }

    /// Whether someone edited an object in the seconds before a time.
    pub fn just_edited(&self, at: f64, seconds: f64) -> bool {
        let mut events = self.events.iter();
        events.any(|(t, e)| *e == Event::Edit && *t <= at && at < t + seconds)
    }

    /// What happens after a time.
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
        objects
            .iter()
            .any(|object| object["kind"] == self.flavor.kind())
    }

    /// The cluster at a time, as `--from` reads it.
    pub fn cluster(&self, at: f64) -> Cluster {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects(at)});
        let mut file = tempfile::Builder::new()
            .suffix(".json")
            .tempfile()
            .expect("a file");
        file.write_all(list.to_string().as_bytes())
            .expect("written");
        let paths = [file.path().to_owned()];
        dump::load(&paths, Some(self.flavor)).expect("a cluster")
    }
}

impl Recording {
    /// The cluster at a time, with the time of day of then.
    pub fn cluster_then(&self, at: f64) -> Cluster {
        let start = self
            .lines
            .iter()
            .find_map(|(_, line)| line["time"].as_str());
        let start = start.expect("a time of day");
        let start: Timestamp = start.parse().expect("a time");
        let mut cluster = self.cluster(at);
        cluster.taken_at = start + SignedDuration::from_millis((at * 1000.0) as i64);
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

/// Reads events off a stream.
struct Reader {
    flavor: ApiFlavor,
    events: Vec<(f64, Event)>,
    nodes: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
}

impl Reader {
    fn new(flavor: ApiFlavor) -> Reader {
        Reader {
            flavor,
            events: Vec::new(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    fn read(mut self, lines: &[(f64, Value)]) -> Vec<(f64, Event)> {
        for (t, line) in lines {
            let object = &line["object"];
            let deleted = line["type"] == "DELETED";
            match object["kind"].as_str() {
                None => {
                    if *t > 0.0 && *t < lines.last().expect("a line").0 {
                        self.push(*t, Event::Edit);
                    }
                }
                Some("Node") => self.node(*t, object),
                Some("Skyhook" | "NodeWright") => self.skyhook(*t, object),
                Some("Job") => self.job(*t, object),
                Some("Pod") => self.pod(*t, object, deleted),
                Some(_) => {}
            }
        }
        self.events
    }

    fn push(&mut self, t: f64, event: Event) {
        self.events.push((t, event));
    }

    fn action(&mut self, t: f64, skyhook: &str, node: &str, action: String) {
        let event = Event::Action {
            skyhook: skyhook.to_owned(),
            node: node.to_owned(),
            action,
        };
        self.push(t, event);
    }

    fn node(&mut self, t: f64, node: &Value) {
        let name = name(node);
        let before = self.nodes.insert(name.clone(), node.clone());
        let Some(before) = before else {
            if t > 0.0 {
                self.push(t, Event::Edit);
            }
            return self.statuses(t, &name, &Value::Null, node);
        };
        self.statuses(t, &name, &before, node);
        let ready = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array();
            let ready = conditions.and_then(|all| all.iter().find(|c| c["type"] == "Ready"));
            ready.map(|c| c["status"].clone())
        };
        let outside = |node: &Value| (ready(node), node["spec"]["taints"].clone());
        if outside(&before) != outside(node) {
            self.push(t, Event::Changed { node: name });
        }
    }

    fn statuses(&mut self, t: f64, name: &str, before: &Value, now: &Value) {
        let prefix = self.flavor.key("status_");
        let annotations = now["metadata"]["annotations"].as_object();
        for (key, status) in annotations.into_iter().flatten() {
            let Some(skyhook) = key.strip_prefix(&prefix) else {
                continue;
            };
            let flavor = self.flavor;
            let was = |key: &str| {
                let key = format!("{key}_{skyhook}");
                before["metadata"]["annotations"][flavor.key(&key)].clone()
            };
            let is = |key: &str| {
                let key = format!("{key}_{skyhook}");
                now["metadata"]["annotations"][flavor.key(&key)].clone()
            };
            let entries = |text: Value| -> BTreeMap<String, Value> {
                // In one scenario it is malformed.
                serde_json::from_str(text.as_str().unwrap_or("{}")).unwrap_or_default()
            };
            let (old, new) = (entries(was("nodeState")), entries(is("nodeState")));
            for (key, entry) in &new {
                let ended = entry["state"] == "complete" || entry["state"] == "erroring";
                if old.get(key) != Some(entry) && ended && old.contains_key(key) {
                    self.action(t, skyhook, name, "Record".to_owned());
                }
                if entry["state"] == "skipped" && old.get(key) != Some(entry) {
                    let package = entry["name"].as_str().unwrap_or_default();
                    self.action(t, skyhook, name, format!("SkipInterrupt {package}"));
                }
            }
            for (key, entry) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
                let gone = entry["stage"] == "uninstall-interrupt" && entry["state"] == "complete";
                let upgraded = new.values().any(|e| e["name"] == entry["name"]);
                let package = key.split('|').next().unwrap_or_default();
                if gone {
                    self.action(t, skyhook, name, format!("RemoveEntry {package}"));
                } else if !upgraded {
                    self.action(t, skyhook, name, "Record".to_owned());
                }
            }
            if was("cordon").is_null() && !is("cordon").is_null() {
                self.action(t, skyhook, name, "Cordon".to_owned());
            }
            if was("status") != *status {
                if status == "complete" && !before.is_null() {
                    let released = !was("cordon").is_null() && is("cordon").is_null();
                    let action = if released { "Release" } else { "MarkComplete" };
                    self.action(t, skyhook, name, action.to_owned());
                }
                let event = Event::Status {
                    skyhook: skyhook.to_owned(),
                    node: name.to_owned(),
                    status: status.as_str().unwrap_or_default().to_owned(),
                };
                self.push(t, event);
            }
        }
    }

    fn skyhook(&mut self, t: f64, skyhook: &Value) {
        let nodes = skyhook["status"]["nodePriority"].as_object();
        let nodes = nodes.into_iter().flatten().map(|(node, _)| node.clone());
        let event = Event::Picked {
            skyhook: name(skyhook),
            nodes: nodes.collect(),
        };
        self.push(t, event);
    }

    fn job(&mut self, t: f64, job: &Value) {
        let before = self.jobs.insert(name(job), job.clone());
        let before = before.filter(|before| before["metadata"]["uid"] == job["metadata"]["uid"]);
        let label = |key: &str| {
            let label = &job["metadata"]["labels"][self.flavor.key(key)];
            label.as_str().unwrap_or_default().to_owned()
        };
        let (skyhook, stage) = (label("name"), label("stage"));
        let package = label("package");
        let package = package.rsplit_once('-').map_or("", |(name, _)| name);
        let node = &job["spec"]["template"]["spec"]["nodeName"];
        let node = node.as_str().unwrap_or_default().to_owned();
        let of_stage = |what: &str| format!("{what} {package} {stage}");
        let Some(before) = before else {
            if t > 0.0 {
                let action = if label("interrupt") == "True" {
                    format!("Interrupt {package}")
                } else {
                    of_stage("StartStage")
                };
                self.action(t, &skyhook, &node, action);
            }
            return;
        };
        let ended = |job: &Value| {
            let conditions = job["status"]["conditions"].as_array();
            let all = conditions.into_iter().flatten();
            let mut ended = all.filter(|c| c["type"] == "Complete" || c["type"] == "Failed");
            ended
                .find(|c| c["status"] == "True")
                .map(|c| c["type"] == "Failed")
        };
        let suspend = |job: &Value| job["spec"]["Suspend"].as_bool().unwrap_or(false);
        let deleting = |job: &Value| !job["metadata"]["deletionTimestamp"].is_null();
        if deleting(job) && !deleting(&before) && ended(job).is_none() {
            self.action(t, &skyhook, &node, of_stage("Restart"));
        }
        if suspend(job) != suspend(&before) {
            let what = if suspend(job) { "Suspend" } else { "Resume" };
            self.action(t, &skyhook, &node, of_stage(what));
        }
        if let Some(failed) = ended(job)
            && ended(&before).is_none()
        {
            self.push(t, Event::Ended { node, failed });
        }
    }

    fn pod(&mut self, t: f64, pod: &Value, deleted: bool) {
        let key = format!("{}/{}", pod["metadata"]["namespace"], name(pod));
        let before = self.pods.insert(key, pod.clone());
        let same = |before: &Value| before["metadata"]["uid"] == pod["metadata"]["uid"];
        let before = before.filter(same).unwrap_or_default();
        let node = pod["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let of_stage = !pod["metadata"]["labels"][self.flavor.key("name")].is_null();
        if of_stage {
            // A failed attempt is recorded, though the Job goes on.
            let phase = |pod: &Value| pod["status"]["phase"].clone();
            let failing = |pod: &Value| {
                let all = pod["status"]["initContainerStatuses"].as_array().cloned();
                let code = |c: &Value| c["state"]["terminated"]["exitCode"].as_i64();
                let all = all.unwrap_or_default();
                all.iter().any(|c| code(c).is_some_and(|code| code != 0))
            };
            let changes = phase(pod) != phase(&before) || failing(pod) != failing(&before);
            let raw = self.flavor.executor() == Executor::Pod;
            if raw && before.is_null() {
                let action = raw_stage(self.flavor, pod);
                let skyhook = text(&pod["metadata"]["labels"][self.flavor.key("name")]);
                self.action(t, &skyhook, &node, action);
            } else if changes && !deleted && !(raw && ended_well(&before)) {
                self.push(t, Event::Changed { node: node.clone() });
            }
            if raw && deleted {
                self.push(t, Event::Gone { node: node.clone() });
            }
            if raw && ended_well(pod) && !ended_well(&before) && !deleted {
                self.push(
                    t,
                    Event::Ended {
                        node,
                        failed: false,
                    },
                );
            }
            return;
        }
        let deleting = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        // What the recordings of raw pods do not show as evicted, someone has deleted.
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let evicted = self.flavor.executor() == Executor::Job
            || conditions.any(|c| c["reason"] == "EvictionByEvictionAPI");
        if deleting(pod) && !deleting(&before) && !deleted && !evicted {
            self.push(t, Event::Edit);
        } else if deleting(pod) && !deleting(&before) && !deleted {
            // Whoever drains the node does it for the one custom resource of these recordings.
            self.action(t, "", &node, "Drain".to_owned());
        } else if deleted || before.is_null() || pod["status"]["phase"] != before["status"]["phase"]
        {
            self.push(t, Event::Changed { node });
        }
    }
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The action that created a raw pod.
fn raw_stage(flavor: ApiFlavor, pod: &Value) -> String {
    let note = text(&pod["metadata"]["annotations"][flavor.key("package")]);
    let note: Value = serde_json::from_str(&note).unwrap_or_default();
    let package = text(&note["name"]);
    if pod["metadata"]["labels"][flavor.key("interrupt")] == "True" {
        return format!("Interrupt {package}");
    }
    format!("StartStage {package} {}", text(&note["stage"]))
}

/// All init containers of a raw pod have ended well.
fn ended_well(pod: &Value) -> bool {
    let all = pod["status"]["initContainerStatuses"].as_array();
    let well = |c: &Value| c["state"]["terminated"]["exitCode"] == 0;
    all.is_some_and(|all| !all.is_empty() && all.iter().all(well))
}

/// The compartment of each node by the policy of a custom resource, in recordings where no two select one node.
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
