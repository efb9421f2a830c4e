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
    bearing::{COMMANDS, Ground, Sample, call, faults, sample, try_all, typed},
    cluster::{Cluster, SKYHOOKS},
    kubelet::{StepResult, Target},
    proxy::{Fault, Hears, LIMIT, Proxy, Spoil},
    rollout::Rollout,
    run::{Child, Ran},
    tools::Tools,
    view::complete,
};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/skyhook/pods";

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
        // The only pods here are those that kubelets have turned away.
        cluster.result(Target::default(), StepResult::Rejected);
        Real {
            proxy: cluster.proxy().standing_in(),
            cluster,
            state: tempfile::tempdir().expect("a directory"),
            held: "",
            made: BTreeMap::new(),
        }
    }

    /// Takes everything away.
    fn clear(&mut self) {
        self.made.clear();
        for collection in [SKYHOOKS, POLICIES, PODS, NODES] {
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

    /// The objects of a capture that commands change. There are no kubelets, and so no pods but those that have ended.
    fn load(&mut self, name: &str) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
        let text = std::fs::read(directory.join(name).join("cluster.json")).expect("a capture");
        let all: Value = serde_json::from_slice(&text).expect("a capture is JSON");
        for object in all["items"].as_array().expect("a list") {
            let collection = match object["kind"].as_str() {
                Some("Node") => NODES,
                Some("Skyhook") => SKYHOOKS,
                Some("DeploymentPolicy") => POLICIES,
                Some("Pod") if object["status"]["phase"] == "Failed" => PODS,
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
        self.state = tempfile::tempdir().expect("a directory");
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
            (PODS, "Pod"),
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
const AT_ONCE_OF_MANY: usize = 10;

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
    gpu: Rollout<'a>,
    proxy: Proxy,
    state: TempDir,
}

impl Ground for Operated<'_> {
    fn as_new(&mut self, _: &'static str) {
        self.state = tempfile::tempdir().expect("a directory");
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

impl<'a> Operated<'a> {
    fn of(cluster: &'a Cluster) -> Operated<'a> {
        Operated {
            gpu: held_up(cluster),
            proxy: cluster.proxy(),
            state: tempfile::tempdir().expect("a directory"),
            cluster,
        }
    }

    /// How many requests a reset makes where nothing goes wrong.
    fn requests(&self) -> usize {
        let ran = call(self, RESET, &Child::default());
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        self.gpu.until(applies_on("driver", &ON));
        self.proxy.asked().len()
    }

    fn begun(&self) -> [usize; 3] {
        ON.map(|node| self.cluster.kubelet.begun("driver", "apply", node))
    }

    fn begin_anew(&self, before: [usize; 3]) {
        self.cluster.await_that("all nodes begin anew", || {
            let now = self.begun();
            (0..ON.len()).all(|at| now[at] > before[at])
        });
    }

    fn is_free(&self, told: &str) {
        annotated(&self.gpu, "pause", Value::Null);
        assert_eq!(noted(&self.gpu, HOLD), Value::Null, "{told}");
    }

    /// No pause of ours stays unless it is said, and what is said to be reset runs again.
    fn bears(&self, ran: &Ran, before: [usize; 3], told: &str) {
        assert!(matches!(ran.code, None | Some(0 | 1 | 3 | 4 | 5)), "{told}");
        let says_paused = ran.stdout.contains("paused") || ran.stderr.contains("paused");
        if ran.code.is_some() && !says_paused {
            self.is_free(told);
        }
        if ran.code == Some(0) {
            self.begin_anew(before);
        }
    }

    fn finishes(&self, told: &str) {
        let before = self.begun();
        let again = call(self, RESET, &Child::default());
        assert_eq!(again.code, Some(0), "{told}{}", again.transcript());
        self.begin_anew(before);
    }

    /// After a reset that the operator has taken up there is nothing to take back.
    fn goes_back(&self, told: &str) {
        let undone = call(self, "undo --confirm", &Child::default());
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

    fn heals(self) {
        self.cluster.heal();
        self.gpu.until(complete()).well();
        self.gpu.stays(&complete(), Duration::from_secs(1));
    }
}

/// The operator writes the same objects: no pause of ours stays, what is said to be reset runs again, and so it does once
/// the command is run again.
pub fn under_the_operator(cluster: &Cluster) {
    let mut ground = Operated::of(cluster);
    let of_one = |request: usize| faults().into_iter().map(move |fault| (request, fault));
    let all: Vec<(usize, Fault)> = (1..=ground.requests()).flat_map(of_one).collect();
    let picked = sample(SAMPLE_UNDER_THE_OPERATOR).of(&all);
    for (number, (request, fault)) in picked.iter().enumerate() {
        ground.as_new("");
        let before = ground.begun();
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
        assert!(ran.code.is_some() || fault.hears == Hears::Killed, "{told}");
        ground.bears(&ran, before, &told);
        if number % 2 == 0 {
            ground.finishes(&told);
        } else {
            ground.goes_back(&told);
        }
        ground.is_free(&told);
        ground.gpu.until(applies_on("driver", &ON));
    }
    eprintln!(
        "{} of {} faults under the operator, 0 not borne",
        picked.len(),
        all.len()
    );
    ground.heals();
}

/// How long the API server is not there.
const RESTARTS_AFTER: Duration = Duration::from_millis(300);
const SAMPLE_OF_RESTARTS: usize = 2;

/// The API server itself goes and comes back, once the command has made so many requests.
pub fn while_the_api_server_restarts(cluster: &Cluster) {
    let mut ground = Operated::of(cluster);
    let all: Vec<usize> = (1..=ground.requests()).collect();
    let picked = sample(SAMPLE_OF_RESTARTS).of(&all);
    for request in &picked {
        ground.as_new("");
        let before = ground.begun();
        ground.proxy.spoils(None);
        let command = typed(&ground, RESET);
        let ran = std::thread::scope(|scope| {
            let command = scope.spawn(|| command.go());
            while ground.proxy.asked().len() < **request && !command.is_finished() {
                std::thread::yield_now();
            }
            cluster.restart_api_server(RESTARTS_AFTER);
            command.join().expect("it ends")
        });
        let told = format!("a restart at request {request}: {}", ran.transcript());
        ground.bears(&ran, before, &told);
        ground.finishes(&told);
        ground.is_free(&told);
        ground.gpu.until(applies_on("driver", &ON));
    }
    eprintln!(
        "{} restarts at {} requests, 0 not borne",
        picked.len(),
        all.len()
    );
    ground.heals();
}
