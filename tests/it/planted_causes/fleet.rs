//! Large clusters built from small captures: copies of a failing node, with its pods, Jobs and entries in the
//! custom resource's status, among many healthy nodes.

use std::collections::BTreeMap;

use kubectl_skyhook::api::ApiFlavor;
use regex::Regex;
use serde_json::{Map, Value, json};

/// A failure to copy from a capture.
#[derive(Clone, Copy)]
pub struct PlantedCause {
    pub capture: &'static str,
    pub skyhook: &'static str,
    /// The failing node of the capture.
    pub node: &'static str,
    pub code: &'static str,
    /// The number of failing nodes to create.
    pub failing: usize,
    /// The attribute that distinguishes the failing nodes.
    pub attribute: Option<&'static str>,
    /// The number of healthy nodes that have the attribute, too.
    pub also: usize,
    pub exit_code: i64,
    /// The number of nodes that wait because failing nodes keep their batch slots.
    pub held: usize,
}

/// The naming scheme of nodes.
#[derive(Clone, Copy)]
pub enum Scheme {
    Counted,
    Addresses,
    Random,
}

/// A pseudo-random sequence (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % sides
    }
}

impl Scheme {
    pub fn name(self, n: usize, dice: &mut Random) -> String {
        match self {
            Scheme::Counted => format!("gpu-{n:04}"),
            Scheme::Addresses => {
                format!("ip-10-0-{}-{}.eu-west-1.compute.internal", n / 200, n % 200)
            }
            Scheme::Random => format!("gke-prod-{:06x}-{n:03x}", dice.roll(1 << 24)),
        }
    }
}

/// The number of nodes of each custom resource.
const NODES_PER_RESOURCE: usize = 40;
/// Custom resources on all nodes that run after all others.
pub const LATE: [&str; 2] = ["late", "later"];

/// A cluster with planted causes, and the failing and waiting nodes of each cause.
pub struct Fleet {
    pub list: Value,
    pub failing: Vec<Vec<String>>,
    /// The nodes that wait for the failing ones.
    pub held: Vec<Vec<String>>,
    /// The name of the custom resource of each cause.
    pub skyhooks: Vec<String>,
}

pub fn fleet(of: ApiFlavor, scheme: Scheme, plants: &[PlantedCause], seed: u64) -> Fleet {
    let mut dice = Random::new(seed);
    let mut made = FleetBuilder { of, items: BTreeMap::new() };
    let (mut failing, mut held, mut skyhooks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut waiting, mut all) = (Vec::new(), 0);
    for (at, plant) in plants.iter().enumerate() {
        let names = (0..NODES_PER_RESOURCE).map(|n| scheme.name(at * NODES_PER_RESOURCE + n, &mut dice));
        let mut names: Vec<String> = names.collect();
        // Shuffle, so that failing nodes are not adjacent.
        for n in (1..names.len()).rev() {
            names.swap(n, dice.roll(n + 1));
        }
        let mut well = names.split_off(plant.failing);
        let waits = well.split_off(well.len() - plant.held);
        let skyhook = match plant.skyhook {
            "gpu-tune" => format!("tune-{at}"),
            name => name.to_owned(),
        };
        let nodes = [names.as_slice(), &well, &waits];
        made.plant(plant, at, &skyhook, nodes, &mut dice);
        waiting.extend(names.iter().chain(&waits).cloned());
        all += NODES_PER_RESOURCE;
        names.sort();
        failing.push(names);
        held.push(waits);
        skyhooks.push(skyhook);
    }
    for (at, late) in LATE.into_iter().enumerate() {
        made.late(late, 900 + at, &waiting, all);
    }
    let items: Vec<Value> = made.items.into_values().collect();
    Fleet { list: json!({"apiVersion": "v1", "kind": "List", "items": items}), failing, held, skyhooks }
}

struct FleetBuilder {
    of: ApiFlavor,
    items: BTreeMap<String, Value>,
}

impl FleetBuilder {
    fn add(&mut self, object: Value) {
        let meta = &object["metadata"];
        let key = format!("{} {} {}", object["kind"], meta["namespace"], meta["name"]);
        self.items.entry(key).or_insert(object);
    }

    fn plant(
        &mut self,
        plant: &PlantedCause,
        at: usize,
        skyhook: &str,
        [failing, well, held]: [&[String]; 3],
        dice: &mut Random,
    ) {
        let of = self.of;
        let objects = objects(plant, skyhook);
        let is_node = |o: &&Value| o["kind"] == "Node";
        let nodes: Vec<String> = objects.iter().filter(is_node).map(name).collect();
        let is_skyhook = |o: &&Value| o["kind"] == of.kind();
        let mut custom = objects.iter().find(is_skyhook).expect("a custom resource").clone();
        let of_node = |o: &&Value| o["kind"] != of.kind() && mentions(o, plant.node);
        let template: Vec<&Value> = objects.iter().filter(of_node).collect();
        for object in objects.iter().filter(|o| o["kind"] != of.kind()) {
            let used = ["Deployment", "DeploymentPolicy", "PodDisruptionBudget", "ConfigMap", "DaemonSet"];
            let shared = used.iter().any(|kind| object["kind"] == *kind);
            if shared && !nodes.iter().any(|node| mentions(object, node)) {
                self.add(object.clone());
            }
        }
        for (k, node) in failing.iter().enumerate() {
            for mut object in copies(&template, plant, k, node) {
                if object["kind"] == "Node" {
                    self.dress(&mut object, skyhook, plant.attribute, true, dice);
                    for late in LATE {
                        let key = self.of.key(&format!("status_{late}"));
                        object["metadata"]["annotations"][key] = "waiting".into();
                    }
                }
                self.add(object);
            }
        }
        let bare = objects.iter().filter(is_node).find(|o| name(o) == plant.node);
        for (k, node) in well.iter().chain(held).enumerate() {
            let mut object = bare.expect("the node").clone();
            object["metadata"]["name"] = node.as_str().into();
            object["metadata"]["uid"] = format!("uid-{node}").into();
            object["metadata"]["annotations"] =
                if held.contains(node) { self.waiting(&custom) } else { self.complete(&custom) };
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.retain(|key, _| !key.contains(of.group()));
            }
            object["spec"] = json!({});
            self.dress(&mut object, skyhook, plant.attribute, k < plant.also, dice);
            self.add(object);
        }
        custom["spec"]["nodeSelectors"] = json!({"matchLabels": {"custom_resource": skyhook}});
        custom["spec"]["priority"] = json!(10 * (at + 1));
        spread(&mut custom["status"], plant.node, failing);
        for other in nodes.iter().filter(|n| *n != plant.node) {
            spread(&mut custom["status"], other, &[]);
        }
        let (done, matched) = (well.len(), well.len() + failing.len() + held.len());
        if let Some(statuses) = custom["status"]["nodeStatus"].as_object_mut() {
            statuses.extend(well.iter().map(|node| (node.clone(), json!("complete"))));
            statuses.extend(held.iter().map(|node| (node.clone(), json!("waiting"))));
        }
        custom["status"]["completeNodes"] = format!("{done}/{matched}").into();
        let compartments = custom["status"]["compartmentStatuses"].as_object_mut();
        let compartment = compartments.and_then(|all| all.values_mut().next());
        let compartment = compartment.expect("a compartment");
        compartment["matched"] = json!(matched);
        compartment["ceiling"] = json!(if held.is_empty() { matched } else { failing.len() });
        compartment["completed"] = json!(done);
        compartment["batchState"]["completedNodes"] = json!(done);
        if !held.is_empty() {
            let begun = custom["metadata"]["creationTimestamp"].clone();
            let chosen = failing.iter().map(|node| (node.clone(), begun.clone()));
            custom["status"]["nodePriority"] = Value::Object(chosen.collect());
            let count = failing.len();
            if custom["spec"]["deploymentPolicy"].is_null() {
                custom["spec"]["interruptionBudget"] = json!({"count": count});
            }
            custom["status"]["nodesInProgress"] = json!(count);
        }
        self.add(custom);
    }

    /// The status annotations of a node that has not started.
    fn waiting(&self, custom: &Value) -> Value {
        let names = [name(custom)].into_iter().chain(LATE.map(str::to_owned));
        let statuses = names.map(|of| (self.of.key(&format!("status_{of}")), json!("waiting")));
        Value::Object(statuses.collect())
    }

    /// The annotations of a complete node.
    fn complete(&self, custom: &Value) -> Value {
        let skyhook = name(custom);
        let key = |what: &str, of: &str| self.of.key(&format!("{what}_{of}"));
        let mut annotations = json!({});
        for late in LATE {
            let spec = json!({"version": "1.0.0", "image": "example.com/tail"});
            annotations[key("status", late)] = "complete".into();
            annotations[key("nodeState", late)] = Value::Object(entry("tail", &spec)).to_string().into();
        }
        if custom["metadata"]["deletionTimestamp"].is_string() {
            return annotations;
        }
        let mut state = Map::new();
        for (package, spec) in custom["spec"]["packages"].as_object().expect("packages") {
            if spec["uninstall"]["apply"] != true {
                state.extend(entry(package, spec));
            }
        }
        annotations[key("status", &skyhook)] = "complete".into();
        annotations[key("nodeState", &skyhook)] = Value::Object(state).to_string().into();
        annotations
    }

    /// Sets labels and node info with random values, and the planted attribute if `has_it`.
    fn dress(
        &self,
        node: &mut Value,
        skyhook: &str,
        attribute: Option<&str>,
        has_it: bool,
        dice: &mut Random,
    ) {
        let [zone, instance, image, kernel, rack] = [3, 3, 2, 3, 12].map(|s| dice.roll(s));
        let hostname = name(node);
        let labels = &mut node["metadata"]["labels"];
        labels["kubernetes.io/hostname"] = hostname.into();
        labels["custom_resource"] = skyhook.into();
        labels["everything"] = "yes".into();
        labels["topology.kubernetes.io/zone"] = format!("eu-{zone}").into();
        labels["node.kubernetes.io/instance-type"] = format!("p{instance}.48xlarge").into();
        labels["rack"] = format!("r{rack}").into();
        let info = &mut node["status"]["nodeInfo"];
        info["osImage"] = format!("Ubuntu 2{}.04", 2 + 2 * image).into();
        info["kernelVersion"] = format!("6.{}.0", 5 + kernel).into();
        let planted = format!("planted-{skyhook}");
        match attribute.filter(|_| has_it) {
            Some(key @ ("osImage" | "kernelVersion")) => info[key] = planted.into(),
            Some(key) => node["metadata"]["labels"][key] = planted.into(),
            None => {}
        }
    }

    /// Adds a custom resource on all nodes that waits where an earlier custom resource is incomplete.
    fn late(&mut self, name: &str, priority: usize, waiting: &[String], all: usize) {
        let statuses: Map<String, Value> =
            waiting.iter().map(|node| (node.clone(), json!("waiting"))).collect();
        self.add(json!({
            "apiVersion": self.of.api_version(), "kind": self.of.kind(),
            "metadata": {"name": name, "uid": name, "generation": 1, "creationTimestamp": "2026-11-20T10:00:00Z",
                "finalizers": [self.of.finalizer()]},
            "spec": {
                "priority": priority,
                "nodeSelectors": {"matchLabels": {"everything": "yes"}},
                "packages": {"tail": {"version": "1.0.0", "image": "example.com/tail"}},
            },
            "status": {"status": "waiting", "observedGeneration": 1, "nodeStatus": statuses,
                "completeNodes": format!("{}/{all}", all - waiting.len())},
        }));
    }
}

/// The objects of the capture, with the custom resource renamed.
fn objects(plant: &PlantedCause, skyhook: &str) -> Vec<Value> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
    let mut objects = Vec::new();
    for file in ["cluster.json", "extra.json"] {
        let text = std::fs::read_to_string(directory.join(plant.capture).join(file)).expect("a file");
        let text = match plant.skyhook {
            "gpu-tune" => text.replace("gpu-tune", skyhook),
            _ => text,
        };
        let list: Value = serde_json::from_str(&text).expect("JSON");
        objects.extend(list["items"].as_array().expect("a list").iter().cloned());
    }
    objects
}

/// Copies of a node's objects for another node, with new names and uids.
fn copies(template: &[&Value], plant: &PlantedCause, k: usize, node: &str) -> Vec<Value> {
    let pods = template.iter().filter(|o| o["kind"] == "Pod");
    let attempts: Vec<String> =
        pods.filter(|o| o["metadata"]["ownerReferences"][0]["kind"] == "Job").map(|o| name(o)).collect();
    // Omit one attempt on every second node, so that the number of attempts varies.
    let left_out = (attempts.len() > 1 && k % 2 == 1).then(|| attempts[0].clone());
    let kept = template.iter().filter(|o| Some(name(o)) != left_out);
    let mut texts: Vec<String> = kept.map(ToString::to_string).collect();
    let mut replace = |from: &str, to: &str| {
        let word = word(from);
        for text in &mut texts {
            *text = word.replace_all(text, to).into_owned();
        }
    };
    for object in template {
        if let Some(uid) = object["metadata"]["uid"].as_str() {
            replace(uid, &format!("{}{k:04x}", &uid[..uid.len() - 4]));
        }
        let own = name(object);
        if object["kind"] == "Pod" && !word(plant.node).is_match(&own) {
            replace(&own, &format!("{own}-{k}"));
        }
    }
    replace(plant.node, node);
    replace(r#""exitCode":1"#, &format!(r#""exitCode":{}"#, plant.exit_code));
    let parsed = texts.iter().map(|text| serde_json::from_str(text));
    parsed.map(|object| object.expect("valid JSON")).collect()
}

/// The node-state entry of a complete package.
fn entry(package: &str, spec: &Value) -> Map<String, Value> {
    let version = spec["version"].as_str().expect("a version");
    let stage = match spec["interrupt"] {
        Value::Null => "config",
        _ => "post-interrupt",
    };
    let entry = json!({"name": package, "version": version, "image": spec["image"], "stage": stage, "state": "complete"});
    Map::from_iter([(format!("{package}|{version}"), entry)])
}

/// Replaces the status entries of one node by entries for these nodes.
fn spread(status: &mut Value, node: &str, nodes: &[String]) {
    match status {
        Value::Object(map) => {
            if let Some(value) = map.remove(node) {
                let text = value.to_string();
                for other in nodes {
                    let renamed = word(node).replace_all(&text, other.as_str());
                    map.insert(other.clone(), serde_json::from_str(&renamed).expect("valid JSON"));
                }
            }
            map.values_mut().for_each(|value| spread(value, node, nodes));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| spread(value, node, nodes)),
        _ => {}
    }
}

fn mentions(object: &Value, node: &str) -> bool {
    word(node).is_match(&object.to_string())
}

fn word(text: &str) -> Regex {
    let begin = if text.starts_with('"') { "" } else { r"\b" };
    Regex::new(&format!(r"{begin}{}\b", regex::escape(text))).expect("a pattern")
}

fn name(object: &Value) -> String {
    let name = &object["metadata"]["name"];
    name.as_str().expect("a name").to_owned()
}
