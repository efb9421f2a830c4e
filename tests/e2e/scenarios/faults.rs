//! Injects faults into the requests of commands that write, with a real API server, and kills commands
//! midway. No change stays half done, all reports are true, and both a second run and `undo` work.
//!
//! A sample runs with the suite. `FAULTS=2000 cargo test --locked --test e2e -- faults --nocapture` runs
//! about that many cases, `FAULTS=all` all of them; the faults and checks are in
//! `../../it/support/fault_checks`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    fixtures::POLICIES,
    races::{HOLD, held_up, noted},
    writes::{annotated, applies_on},
};
use crate::{
    cluster::{Cluster, SKYHOOKS},
    fault_checks::{COMMANDS, FaultTarget, Sample, check_all, command, faults, run_command, sample},
    kubelet::{StepResult, Target},
    proxy::{Fault, FaultInjection, FaultResponse, Proxy, REQUEST_TIMEOUT},
    rollout::Rollout,
    run::{Child, RunOutput},
    tools::Tools,
    view::complete,
};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/skyhook/pods";

/// A real API server with the objects of a capture; no operator runs.
struct RealApiServer {
    cluster: Cluster,
    proxy: Proxy,
    state: TempDir,
    /// Name of the loaded capture, and its objects as the server returned them after their creation.
    loaded: &'static str,
    created: BTreeMap<String, Value>,
}

impl RealApiServer {
    fn of(cluster: Cluster) -> RealApiServer {
        // Captures are loaded with failed pods only: let the kubelet fail every pod.
        cluster.result(Target::default(), StepResult::Rejected);
        RealApiServer {
            proxy: cluster.proxy().simulating_operator(),
            cluster,
            state: tempfile::tempdir().expect("a directory"),
            loaded: "",
            created: BTreeMap::new(),
        }
    }

    /// Deletes all objects.
    fn clear(&mut self) {
        self.created.clear();
        for collection in [SKYHOOKS, POLICIES, PODS, NODES] {
            for item in self.cluster.api.items(collection).expect("the API server responds") {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                self.remove(&format!("{collection}/{name}"));
            }
        }
    }

    fn remove(&self, path: &str) {
        let api = &self.cluster.api;
        // Remove finalizers as well.
        let _ = api.delete(path, &json!({}));
        let _ = api.merge(path, &json!({"metadata": {"finalizers": null}}));
        assert_eq!(api.find(path).expect("the API server responds"), None, "{path} goes");
    }

    /// Creates the objects of a capture that commands change. Pods are loaded only if they failed.
    fn load(&mut self, name: &str) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters");
        let text = std::fs::read(directory.join(name).join("cluster.json")).expect("a capture");
        let all: Value = serde_json::from_slice(&text).expect("a capture is JSON");
        let objects = all["items"].as_array().expect("a list");
        // Create owners before their dependents.
        let kinds = [("Node", NODES), ("Skyhook", SKYHOOKS), ("DeploymentPolicy", POLICIES), ("Pod", PODS)];
        for (object, collection) in kinds.iter().flat_map(|(kind, collection)| {
            let of_kind = objects.iter().filter(move |object| object["kind"] == *kind);
            of_kind.map(move |object| (object, *collection))
        }) {
            if collection == PODS && object["status"]["phase"] != "Failed" {
                continue;
            }
            let name = object["metadata"]["name"].as_str().expect("a name");
            let path = format!("{collection}/{name}");
            let mut created = self.create(&path, object);
            created["metadata"]["deletionTimestamp"] = object["metadata"]["deletionTimestamp"].clone();
            self.created.insert(path.clone(), created);
            self.delete_like_capture(&path);
        }
    }

    /// Creates an object with its status, but does not delete it.
    fn create(&self, path: &str, object: &Value) -> Value {
        let api = &self.cluster.api;
        let mut new = object.clone();
        let metadata = new["metadata"].as_object_mut().expect("metadata");
        let kept = ["name", "labels", "annotations", "finalizers"];
        metadata.retain(|key, _| kept.contains(&key.as_str()));
        let owners = &object["metadata"]["ownerReferences"];
        let owned: Vec<Value> =
            owners.as_array().into_iter().flatten().filter_map(|owner| self.adopted(owner)).collect();
        new["metadata"]["ownerReferences"] = json!(owned);
        let collection = path.rsplit_once('/').expect("a path").0;
        let created = api.post(collection, &new).expect("the object can be created");
        if object["status"].is_null() {
            return created;
        }
        let status = format!("{path}/status");
        let status = api.merge(&status, &json!({"status": object["status"]}));
        status.expect("the status can be written")
    }

    /// The owner reference with the uid of the custom resource on this server; `None` if there is no such
    /// custom resource.
    fn adopted(&self, owner: &Value) -> Option<Value> {
        let name = owner["name"].as_str()?;
        let here = self.cluster.api.find(&format!("{SKYHOOKS}/{name}")).expect("the API server responds")?;
        let mut owner = owner.clone();
        owner["uid"] = here["metadata"]["uid"].clone();
        Some(owner)
    }

    fn delete_like_capture(&self, path: &str) {
        if !self.created[path]["metadata"]["deletionTimestamp"].is_null() {
            let deleted = self.cluster.api.delete(path, &json!({}));
            deleted.expect("the object can be deleted");
        }
    }

    /// Restores the state of an object after its creation.
    fn restore(&self, path: &str) {
        let api = &self.cluster.api;
        let created = &self.created[path];
        let deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let mut now = api.find(path).expect("the API server responds");
        if now.as_ref().is_some_and(|now| deleting(now) && !deleting(created)) {
            self.remove(path);
            now = None;
        }
        let Some(now) = now else {
            self.create(path, created);
            self.delete_like_capture(path);
            return;
        };
        let mut back = created.clone();
        back["metadata"] = now["metadata"].clone();
        for part in ["labels", "annotations", "finalizers"] {
            back["metadata"][part] = created["metadata"][part].clone();
        }
        let same = |part: &str| now["metadata"][part] == created["metadata"][part];
        let parts = ["labels", "annotations", "finalizers"];
        if now["spec"] != created["spec"] || !parts.iter().all(|part| same(part)) {
            let put = api.put(path, &back).expect("the object can be restored");
            back["metadata"] = put["metadata"].clone();
        }
        if now["status"] != created["status"] {
            let status = api.put(&format!("{path}/status"), &back);
            status.expect("the status can be restored");
        }
        if deleting(created) && !deleting(&now) {
            self.delete_like_capture(path);
        }
    }
}

impl FaultTarget for RealApiServer {
    fn load_capture(&mut self, cluster: &'static str) {
        self.state = tempfile::tempdir().expect("a directory");
        if self.loaded != cluster {
            self.clear();
            self.load(cluster);
            self.loaded = cluster;
            return;
        }
        for path in self.created.keys() {
            self.restore(path);
        }
        for object in self.cluster.api.items(SKYHOOKS).expect("the API server responds") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{SKYHOOKS}/{name}");
            if !self.created.contains_key(&path) {
                self.remove(&path);
            }
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state_dir(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        let kinds = [(SKYHOOKS, "Skyhook"), (POLICIES, "DeploymentPolicy"), (NODES, "Node"), (PODS, "Pod")];
        let all = kinds.into_iter().flat_map(|(collection, kind)| {
            let items = self.cluster.api.items(collection).expect("the API server responds");
            items.into_iter().map(move |mut item| {
                item["kind"] = json!(kind);
                item
            })
        });
        all.collect()
    }
}

/// Number of cases in the suite.
const SAMPLE: usize = 30;
const SAMPLE_UNDER_THE_OPERATOR: usize = 10;
/// Number of cases that run in parallel, each on its own servers.
const AT_ONCE: usize = 2;
const AT_ONCE_OF_MANY: usize = 10;

/// Only our commands write, so every object is either unchanged or as planned.
pub fn without_the_operator(tools: &Tools) {
    let sample = sample(SAMPLE);
    let at_once = if sample == Sample::About(SAMPLE) { AT_ONCE } else { AT_ONCE_OF_MANY };
    let target = || RealApiServer::of(Cluster::unoperated(tools).expect("the cluster starts"));
    check_all(COMMANDS, sample, at_once, target).assert_none_failed();
}

/// A rollout whose packages do not finish, with the operator working on it.
struct RealOperator<'a> {
    cluster: &'a Cluster,
    gpu: Rollout<'a>,
    proxy: Proxy,
    state: TempDir,
}

impl FaultTarget for RealOperator<'_> {
    fn load_capture(&mut self, _: &'static str) {
        self.state = tempfile::tempdir().expect("a directory");
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn state_dir(&self) -> &Path {
        self.state.path()
    }

    fn objects(&self) -> Vec<Value> {
        self.cluster.api.items(NODES).expect("the API server responds")
    }
}

const NODE_NAMES: [&str; 3] = ["node-1", "node-2", "node-3"];
const RESET: &str = "reset gpu --confirm";

impl<'a> RealOperator<'a> {
    fn of(cluster: &'a Cluster) -> RealOperator<'a> {
        RealOperator {
            gpu: held_up(cluster),
            proxy: cluster.proxy(),
            state: tempfile::tempdir().expect("a directory"),
            cluster,
        }
    }

    /// Number of requests of a reset without faults.
    fn count_requests(&self) -> usize {
        let ran = run_command(self, RESET, &Child::default());
        ran.expect_code(0);
        self.gpu.until(applies_on("driver", &NODE_NAMES));
        self.proxy.requests().len()
    }

    fn started(&self) -> [usize; 3] {
        NODE_NAMES.map(|node| self.cluster.kubelet.pods_started("driver", "apply", node))
    }

    fn await_restart(&self, before: [usize; 3]) {
        self.cluster.await_that("all nodes start again", || {
            let now = self.started();
            (0..NODE_NAMES.len()).all(|at| now[at] > before[at])
        });
    }

    fn assert_no_pause(&self, context: &str) {
        annotated(&self.gpu, "pause", Value::Null);
        assert_eq!(noted(&self.gpu, HOLD), Value::Null, "{context}");
    }

    /// Asserts that our pause is removed unless the output mentions it, and that a successful reset restarts
    /// all nodes.
    fn check_result(&self, ran: &RunOutput, before: [usize; 3], context: &str) {
        assert!(matches!(ran.code, None | Some(0 | 1 | 3 | 4 | 5)), "{context}");
        let says_paused = ran.stdout.contains("paused") || ran.stderr.contains("paused");
        if ran.code.is_some() && !says_paused {
            self.assert_no_pause(context);
        }
        if ran.code == Some(0) {
            self.await_restart(before);
        }
    }

    fn check_second_run(&self, context: &str) {
        let before = self.started();
        let again = run_command(self, RESET, &Child::default());
        assert_eq!(again.code, Some(0), "{context}{}", again.transcript());
        self.await_restart(before);
    }

    /// Asserts that `undo` succeeds, or that the operator's progress left nothing to undo.
    fn check_undo(&self, context: &str) {
        let undone = run_command(self, "undo --confirm", &Child::default());
        let may = [Some(0), Some(1), Some(3), Some(4)];
        assert!(may.contains(&undone.code), "{context}{}", undone.transcript());
        if undone.code == Some(1) {
            assert!(undone.stderr.contains("no journal"), "{context}{}", undone.transcript());
        }
    }

    fn finish(self) {
        self.cluster.heal();
        self.gpu.until(complete()).well();
        self.gpu.stays(&complete(), Duration::from_secs(1));
    }
}

/// With the operator writing the same objects: our pause is removed or reported, a successful reset restarts
/// all nodes, and a second run resets everything.
pub fn with_the_operator(cluster: &Cluster) {
    let mut target = RealOperator::of(cluster);
    let of_one = |request: usize| faults().into_iter().map(move |fault| (request, fault));
    let all: Vec<(usize, Fault)> = (1..=target.count_requests()).flat_map(of_one).collect();
    let picked = sample(SAMPLE_UNDER_THE_OPERATOR).of(&all);
    for (number, (request, fault)) in picked.iter().enumerate() {
        target.load_capture("");
        let before = target.started();
        let child = Child::default();
        target.proxy.inject(Some(FaultInjection {
            first: *request,
            last: *request,
            fault: *fault,
            child: child.clone(),
        }));
        let limit = fault.needs_time_limit();
        let limit = limit.then(|| format!(" --request-timeout {REQUEST_TIMEOUT}"));
        let words = format!("{RESET}{}", limit.unwrap_or_default());
        let ran = run_command(&target, &words, &child);
        target.proxy.stop_faults();
        let context = format!("request {request}, {fault:?}: {}", ran.transcript());
        assert!(ran.code.is_some() || fault.response == FaultResponse::Killed, "{context}");
        target.check_result(&ran, before, &context);
        if number % 2 == 0 {
            target.check_second_run(&context);
        } else {
            target.check_undo(&context);
        }
        target.assert_no_pause(&context);
        target.gpu.until(applies_on("driver", &NODE_NAMES));
    }
    eprintln!("{} of {} faults under the operator, 0 violations", picked.len(), all.len());
    target.finish();
}

/// Downtime of the API server.
const RESTARTS_AFTER: Duration = Duration::from_millis(300);
const SAMPLE_OF_RESTARTS: usize = 2;

/// The API server restarts after the command has sent this many requests.
pub fn api_server_restart(cluster: &Cluster) {
    let mut target = RealOperator::of(cluster);
    let all: Vec<usize> = (1..=target.count_requests()).collect();
    let picked = sample(SAMPLE_OF_RESTARTS).of(&all);
    for request in &picked {
        target.load_capture("");
        let before = target.started();
        target.proxy.inject(None);
        let command = command(&target, RESET);
        let ran = std::thread::scope(|scope| {
            let command = scope.spawn(|| command.output());
            while target.proxy.requests().len() < **request && !command.is_finished() {
                std::thread::yield_now();
            }
            cluster.restart_api_server(RESTARTS_AFTER);
            command.join().expect("the command does not panic")
        });
        let context = format!("a restart at request {request}: {}", ran.transcript());
        target.check_result(&ran, before, &context);
        target.check_second_run(&context);
        target.assert_no_pause(&context);
        target.gpu.until(applies_on("driver", &NODE_NAMES));
    }
    eprintln!("{} restarts at {} requests, 0 violations", picked.len(), all.len());
    target.finish();
}
