//! The events of a watch stream: actions of the operator, and changes that it reacts to.

use std::collections::BTreeMap;

use nodewright::api::{ApiFlavor, Executor};
use serde_json::Value;

use super::recording::Event;

/// Derives events from the lines of a stream.
pub(super) struct Reader {
    flavor: ApiFlavor,
    events: Vec<(f64, Event)>,
    nodes: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
}

impl Reader {
    pub fn new(flavor: ApiFlavor) -> Reader {
        Reader {
            flavor,
            events: Vec::new(),
            nodes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    pub fn read(mut self, lines: &[(f64, Value)]) -> Vec<(f64, Event)> {
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
        let event = Event::Action { skyhook: skyhook.to_owned(), node: node.to_owned(), action };
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
                // The scenario `deletion_blocked_by_malformed_state` has a node state that is not valid JSON.
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
        let event = Event::Picked { skyhook: name(skyhook), nodes: nodes.collect() };
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
            ended.find(|c| c["status"] == "True").map(|c| c["type"] == "Failed")
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
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let of_stage = !pod["metadata"]["labels"][self.flavor.key("name")].is_null();
        if of_stage {
            // The operator records a failed attempt even if the Job starts another one.
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
                self.push(t, Event::Ended { node, failed: false });
            }
            return;
        }
        let deleting = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        // The API server marks the pods that it evicts; the recordings of the Jobs generation lack the mark.
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let evicted = self.flavor.executor() == Executor::Job
            || conditions.any(|c| c["reason"] == "EvictionByEvictionAPI");
        if deleting(pod) && !deleting(&before) && !deleted && !evicted {
            self.push(t, Event::Edit);
        } else if deleting(pod) && !deleting(&before) && !deleted {
            // A pod does not show which custom resource drains its node; each recording has only one.
            self.action(t, "", &node, "Drain".to_owned());
        } else if deleted || before.is_null() || pod["status"]["phase"] != before["status"]["phase"] {
            self.push(t, Event::Changed { node });
        }
    }
}

pub(super) fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The action that created a raw pod (a package pod without a Job).
fn raw_stage(flavor: ApiFlavor, pod: &Value) -> String {
    let note = text(&pod["metadata"]["annotations"][flavor.key("package")]);
    let note: Value = serde_json::from_str(&note).unwrap_or_default();
    let package = text(&note["name"]);
    if pod["metadata"]["labels"][flavor.key("interrupt")] == "True" {
        return format!("Interrupt {package}");
    }
    format!("StartStage {package} {}", text(&note["stage"]))
}

/// Whether all init containers of a raw pod have succeeded.
fn ended_well(pod: &Value) -> bool {
    let all = pod["status"]["initContainerStatuses"].as_array();
    let well = |c: &Value| c["state"]["terminated"]["exitCode"] == 0;
    all.is_some_and(|all| !all.is_empty() && all.iter().all(well))
}
