//! Requests of our commands that change something are spoiled on their way to the real API server, and the commands are
//! killed at them: nothing is half done, what is said is true, and both ways are open.
//!
//! A sample runs with the suite. `FAULTS=2000 cargo test --locked --test e2e -- faults --nocapture` tries so many,
//! `FAULTS=all` all; what is tried and checked is in `../../it/support/bearing.rs`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    races::{HOLD, held_up, noted},
    setting::POLICIES,
    writes::{annotated, applies_on},
};
use crate::{
    bearing::{COMMANDS, Ground, Sample, call, faults, sample, try_all},
    cluster::{Cluster, SKYHOOKS},
    proxy::{Fault, Hears, LIMIT, Proxy, Spoil},
    run::Child,
    tools::Tools,
    view::complete,
};

const NODES: &str = "/api/v1/nodes";

/// A captured cluster on a real API server of its own, with the operator away.
struct Real {
    cluster: Cluster,
    proxy: Proxy,
    state: TempDir,
    /// The capture that it holds, each object as the server made it.
    held: &'static str,
    made: BTreeMap<String, Value>,
}

impl Real {
    fn of(cluster: Cluster) -> Real {
        Real {
            proxy: cluster.proxy().standing_in(),
            cluster,
            state: tempfile::tempdir().expect("a folder"),
            held: "",
            made: BTreeMap::new(),
        }
    }

    /// Takes everything away.
    fn clear(&mut self) {
        self.made.clear();
        for collection in [SKYHOOKS, POLICIES, NODES] {
            for item in self.cluster.api.items(collection).expect("it answers") {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                self.remove(&format!("{collection}/{name}"));
            }
        }
    }

    fn remove(&self, path: &str) {
        let api = &self.cluster.api;
        // One that is held by finalizers goes with them.
        let _ = api.delete(path, &json!({}));
        let _ = api.merge(path, &json!({"metadata": {"finalizers": null}}));
        assert_eq!(api.find(path).expect("it answers"), None, "{path} goes");
    }

    /// The objects of a capture that commands change. There are no kubelets, and so no pods.
    fn load(&mut self, name: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
        let text = std::fs::read(folder.join(name).join("cluster.json")).expect("a capture");
        let all: Value = serde_json::from_slice(&text).expect("a capture is JSON");
        for object in all["items"].as_array().expect("a list") {
            let collection = match object["kind"].as_str() {
                Some("Node") => NODES,
                Some("Skyhook") => SKYHOOKS,
                Some("DeploymentPolicy") => POLICIES,
                _ => continue,
            };
            let name = object["metadata"]["name"].as_str().expect("a name");
            let path = format!("{collection}/{name}");
            let mut made = self.make(&path, object);
            made["metadata"]["deletionTimestamp"] = object["metadata"]["deletionTimestamp"].clone();
            self.made.insert(path.clone(), made);
            self.delete_as_made(&path);
        }
    }

    /// Makes an object with its status; it is not being deleted yet.
    fn make(&self, path: &str, object: &Value) -> Value {
        let api = &self.cluster.api;
        let mut as_new = object.clone();
        let metadata = as_new["metadata"].as_object_mut().expect("metadata");
        let kept = ["name", "labels", "annotations", "finalizers"];
        metadata.retain(|key, _| kept.contains(&key.as_str()));
        let collection = path.rsplit_once('/').expect("a path").0;
        let made = api.post(collection, &as_new).expect("it can be made");
        if object["status"].is_null() {
            return made;
        }
        let status = format!("{path}/status");
        let status = api.merge(&status, &json!({"status": object["status"]}));
        status.expect("its status can be written")
    }

    fn delete_as_made(&self, path: &str) {
        if !self.made[path]["metadata"]["deletionTimestamp"].is_null() {
            let deleted = self.cluster.api.delete(path, &json!({}));
            deleted.expect("it can be deleted");
        }
    }

    /// Puts an object back to what it was when it was made.
    fn restore(&self, path: &str) {
        let api = &self.cluster.api;
        let made = &self.made[path];
        let deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let mut now = api.find(path).expect("it answers");
        if now
            .as_ref()
            .is_some_and(|now| deleting(now) && !deleting(made))
        {
            self.remove(path);
            now = None;
        }
        let Some(now) = now else {
            self.make(path, made);
            self.delete_as_made(path);
            return;
        };
        let mut back = made.clone();
        back["metadata"] = now["metadata"].clone();
        for part in ["labels", "annotations", "finalizers"] {
            back["metadata"][part] = made["metadata"][part].clone();
        }
        let same = |part: &str| now["metadata"][part] == made["metadata"][part];
        let parts = ["labels", "annotations", "finalizers"];
        if now["spec"] != made["spec"] || !parts.iter().all(|part| same(part)) {
            let put = api.put(path, &back).expect("it can be put back");
            back["metadata"] = put["metadata"].clone();
        }
        if now["status"] != made["status"] {
            let status = api.put(&format!("{path}/status"), &back);
            status.expect("its status can be put back");
        }
        if deleting(made) && !deleting(&now) {
            self.delete_as_made(path);
        }
    }
}

impl Ground for Real {
    fn as_new(&mut self, cluster: &'static str) {
        self.state = tempfile::tempdir().expect("a folder");
        if self.held != cluster {
            self.clear();
            self.load(cluster);
            self.held = cluster;
            return;
        }
        for path in self.made.keys() {
            self.restore(path);
        }
        for object in self.cluster.api.items(SKYHOOKS).expect("it answers") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{SKYHOOKS}/{name}");
            if !self.made.contains_key(&path) {
                self.remove(&path);
            }
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        let kinds = [
            (SKYHOOKS, "Skyhook"),
            (POLICIES, "DeploymentPolicy"),
            (NODES, "Node"),
        ];
        let all = kinds.into_iter().flat_map(|(collection, kind)| {
            let items = self.cluster.api.items(collection).expect("it answers");
            items.into_iter().map(move |mut item| {
                item["kind"] = json!(kind);
                item
            })
        });
        all.collect()
    }
}

/// Runs of the suite are samples of these sizes.
const SAMPLE: usize = 30;
const SAMPLE_UNDER_THE_OPERATOR: usize = 10;
/// Each has servers of its own.
const AT_ONCE: usize = 2;
const AT_ONCE_OF_MANY: usize = 3;

/// Nobody writes but our commands, so all objects are as before or as planned.
pub fn with_the_operator_away(tools: &Tools) {
    let sample = sample(SAMPLE);
    let at_once = if sample == Sample::About(SAMPLE) {
        AT_ONCE
    } else {
        AT_ONCE_OF_MANY
    };
    let ground = || Real::of(Cluster::unoperated(tools).expect("it starts"));
    try_all(COMMANDS, sample, at_once, ground).all_borne();
}

/// A rollout whose packages do not end, and the operator at work on it.
struct Operated<'a> {
    cluster: &'a Cluster,
    proxy: Proxy,
    state: TempDir,
}

impl Ground for Operated<'_> {
    fn as_new(&mut self, _: &'static str) {
        self.state = tempfile::tempdir().expect("a folder");
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        self.cluster.api.items(NODES).expect("it answers")
    }
}

const ON: [&str; 3] = ["node-1", "node-2", "node-3"];
const RESET: &str = "reset gpu --confirm";

/// The operator writes the same objects: no pause of ours stays, what is said to be reset runs again, and so it does once
/// the command is run again.
pub fn under_the_operator(cluster: &Cluster) {
    let gpu = held_up(cluster);
    let mut ground = Operated {
        cluster,
        proxy: cluster.proxy(),
        state: tempfile::tempdir().expect("a folder"),
    };
    let begun = || ON.map(|node| cluster.kubelet.begun("driver", "apply", node));
    let begin_anew = |before: [usize; 3]| {
        cluster.await_that("all nodes begin anew", || {
            let now = begun();
            (0..ON.len()).all(|at| now[at] > before[at])
        });
    };
    let free = |told: &str| {
        annotated(&gpu, "pause", Value::Null);
        assert_eq!(noted(&gpu, HOLD), Value::Null, "{told}");
    };
    let nobody = Child::default();
    let ran = call(&ground, RESET, &nobody);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    gpu.until(applies_on("driver", &ON));
    let requests = ground.proxy.asked().len();
    let of_one = |request: usize| faults().into_iter().map(move |fault| (request, fault));
    let all: Vec<(usize, Fault)> = (1..=requests).flat_map(of_one).collect();
    let picked = sample(SAMPLE_UNDER_THE_OPERATOR).of(&all);
    for (number, (request, fault)) in picked.iter().enumerate() {
        ground.as_new("");
        let before = begun();
        let child = Child::default();
        ground.proxy.spoils(Some(Spoil {
            first: *request,
            last: *request,
            fault: *fault,
            child: child.clone(),
        }));
        let limit = fault.needs_limit();
        let limit = limit.then(|| format!(" --request-timeout {LIMIT}"));
        let words = format!("{RESET}{}", limit.unwrap_or_default());
        let ran = call(&ground, &words, &child);
        ground.proxy.heals();
        let told = format!("request {request}, {fault:?}: {}", ran.transcript());
        let killed = fault.hears == Hears::Killed && ran.code.is_none();
        assert!(
            killed || matches!(ran.code, Some(0 | 1 | 3 | 4 | 5)),
            "{told}"
        );
        let says_paused = ran.stdout.contains("paused") || ran.stderr.contains("paused");
        if !killed && !says_paused {
            free(&told);
        }
        if ran.code == Some(0) {
            begin_anew(before);
        }
        // By turns the same command again, or its way back; after a reset that the operator has taken up there is none.
        if number % 2 == 0 {
            let before = begun();
            let again = call(&ground, RESET, &nobody);
            assert_eq!(again.code, Some(0), "{told}{}", again.transcript());
            begin_anew(before);
        } else {
            let undone = call(&ground, "undo --confirm", &nobody);
            let may = [Some(0), Some(1), Some(3), Some(4)];
            assert!(may.contains(&undone.code), "{told}{}", undone.transcript());
            if undone.code == Some(1) {
                assert!(
                    undone.stderr.contains("no journal"),
                    "{told}{}",
                    undone.transcript()
                );
            }
        }
        free(&told);
        gpu.until(applies_on("driver", &ON));
    }
    eprintln!(
        "{} of {} faults under the operator, 0 not borne",
        picked.len(),
        all.len()
    );
    cluster.heal();
    gpu.until(complete()).well();
    gpu.stays(&complete(), Duration::from_secs(1));
}
