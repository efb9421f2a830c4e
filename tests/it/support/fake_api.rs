//! A Kubernetes API server in memory, with the parts of the API that this crate uses.
//!
//! It serves the objects that a test adds, over a tower service behind the real `kube::Client`
//! ([`FakeApi::client`]) or over a loopback socket for the binary ([`FakeApi::serve`]). Paging,
//! selectors, the patch types, `/status`, dry runs, finalizers and conflicts work as in the real
//! server. Faults are set by rules: `fake.on("LIST nodes").reply(403)`. Every request is logged.
//! Its time is fixed and nothing is random: the same requests get the same responses. Only `clock_ahead` and
//! `started` use the real time.

#![allow(dead_code, reason = "each test uses the part of the server that it needs")]

mod answer;
mod container_log;
mod discovery;
mod fault;
mod kind;
mod log;
mod metadata;
mod patch;
mod review;
mod route;
mod select;
mod serve;
mod service;
mod store;
mod tls;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};
use tokio::sync::watch as watch_channel;

pub use answer::Problem;
pub use fault::{Reply, Rule};
pub use log::Logged;
pub use serve::{Served, kubeconfig};
pub use store::Store;

/// The uid of the namespace kube-system, which identifies the cluster. All servers have the same; a test with
/// two clusters changes one of them.
pub const CLUSTER: &str = "00000000-0000-4000-8000-0000000c1a5e";

/// The server. Clones share the same state.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of requests and of changes by the test so far.
    events: Mutex<u64>,
    event: Condvar,
}

/// The whole state of the server.
#[derive(Default)]
pub struct State {
    pub store: Store,
    pub logs: container_log::Logs,
    rules: Vec<fault::ActiveRule>,
    log: Vec<Logged>,
    /// Number of complete responses and total bytes of their bodies, by path.
    answered: BTreeMap<String, [usize; 2]>,
    /// Returns whole objects even if only their metadata is requested, like a server without
    /// `PartialObjectMetadataList`.
    pub whole_objects: bool,
    /// The only accepted bearer token; `None` accepts any or none.
    token: Option<String>,
    /// How far the server's clock (`Date` header) is ahead of this machine's clock; `None` sets no header.
    pub clock_ahead: Option<SignedDuration>,
    /// The time that each response takes.
    latency: Duration,
    /// Whether connections are refused.
    refuses: watch_channel::Sender<bool>,
}

impl State {
    /// Refuses connections from now on, or accepts them again. As in the shutdown of a server, responses in
    /// progress (including watches) continue, and idle connections are closed.
    pub fn refuse_connections(&mut self, refuse: bool) {
        self.refuses.send_replace(refuse);
    }
}

/// Adds the `managedFields` that a server records when the operator cordons a node; fixtures lack them, since
/// kubectl omits them.
pub fn with_managers(mut object: Value) -> Value {
    if !object.is_object() {
        return object;
    }
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        let whole = std::mem::take(items).into_iter().map(with_managers);
        *items = whole.collect();
        return object;
    }
    let annotations = object["metadata"]["annotations"].as_object();
    let key = annotations.and_then(|all| {
        let mut keys = all.keys();
        keys.find(|key| key.contains("/cordon_") || key.ends_with("/runtimeRequiredCordon"))
    });
    let cordoned = object["kind"] == "Node" && object["spec"]["unschedulable"] == true;
    if let Some(key) = key.filter(|_| cordoned && object["metadata"]["managedFields"].is_null()) {
        let annotation = format!("f:{key}");
        object["metadata"]["managedFields"] = json!([{
            "manager": "manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": {annotation: {}}}, "f:spec": {"f:unschedulable": {}}},
        }]);
    }
    object
}

impl FakeApi {
    /// A server with the built-in kinds, and the namespace kube-system, whose uid identifies the cluster.
    pub fn new() -> FakeApi {
        FakeApi::default().with(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "kube-system", "uid": CLUSTER, "resourceVersion": "0"},
        }))
    }

    /// Serves the custom resources of an API flavor, even if there are no objects.
    pub fn serving(self, flavor: ApiFlavor) -> FakeApi {
        self.state().store.kinds.register_generation(flavor);
        self
    }

    /// Adds an object, or all items of a list. Serves their kinds from now on.
    pub fn with(self, object: Value) -> FakeApi {
        self.load(object);
        self
    }

    /// Adds an object, or all items of a list.
    pub fn load(&self, object: Value) {
        self.state().store.load(with_managers(object));
        self.note_event();
    }

    /// Adds the objects of a JSON file or a multi-document YAML file.
    pub fn load_file(&self, path: &Path) {
        let text = std::fs::read_to_string(path).expect("a fixture that can be read");
        match serde_json::from_str(&text) {
            Ok(object) => self.load(object),
            Err(_) => serde_saphyr::from_multiple::<Value>(&text)
                .expect("a fixture of JSON or YAML")
                .into_iter()
                .for_each(|object| self.load(object)),
        }
    }

    /// Rejects requests without this bearer token.
    pub fn require_token(self, token: &str) -> FakeApi {
        self.state().token = Some(token.to_owned());
        self
    }

    /// Delays each response by this time.
    pub fn latency(self, latency: Duration) -> FakeApi {
        self.state().latency = latency;
        self
    }

    /// Starts a rule for the requests that match a pattern; see [`Rule`].
    pub fn on(&self, pattern: &str) -> Rule {
        Rule::new(self.clone(), pattern)
    }

    /// Changes the state, such as stored objects and container logs.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.note_event();
    }

    fn note_event(&self) {
        *self.0.events.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.event.notify_all();
    }

    /// Waits until the condition holds. It is checked after each request and each change by the test, and several times
    /// a second, since it may concern other things, too.
    pub fn wait_until(&self, mut holds: impl FnMut() -> bool) {
        loop {
            let seen = *self.0.events.lock().unwrap_or_else(PoisonError::into_inner);
            if holds() {
                return;
            }
            let events = self.0.events.lock().unwrap_or_else(PoisonError::into_inner);
            let unchanged = |events: &mut u64| *events == seen;
            drop(self.0.event.wait_timeout_while(events, Duration::from_millis(50), unchanged));
        }
    }

    /// Removes all rules.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// The current state of an object; `namespace` is empty for cluster-scoped objects.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state().store.find(plural, namespace, name).cloned()
    }

    /// The current state of all objects.
    pub fn objects(&self) -> Vec<Value> {
        self.state().store.objects()
    }

    /// Sets the start time of all pods to now: captures are old, but commands compare a server's objects with
    /// the current time.
    pub fn started_now(&self) {
        self.started(jiff::SignedDuration::ZERO);
    }

    /// Sets the start time of all pods to this long ago.
    #[expect(clippy::disallowed_methods, reason = "the clock of the program under test")]
    pub fn started(&self, ago: jiff::SignedDuration) {
        let now = Value::from((jiff::Timestamp::now() - ago).to_string());
        for mut pod in self.objects().into_iter().filter(|o| o["kind"] == "Pod") {
            for time in ["/metadata/creationTimestamp", "/status/startTime"] {
                if let Some(time) = pod.pointer_mut(time) {
                    *time = now.clone();
                }
            }
            for statuses in ["initContainerStatuses", "containerStatuses"] {
                let statuses = pod["status"][statuses].as_array_mut();
                for status in statuses.into_iter().flatten() {
                    if let Some(started) = status.pointer_mut("/state/running/startedAt") {
                        *started = now.clone();
                    }
                }
            }
            self.load(pod);
        }
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<Logged> {
        self.state().log.clone()
    }

    /// The number of complete responses so far, and the bytes of their bodies, by path.
    pub fn answered(&self) -> BTreeMap<String, [usize; 2]> {
        self.state().answered.clone()
    }

    /// Every request so far, as `METHOD /path?query`, the query decoded.
    pub fn lines(&self) -> Vec<String> {
        self.requests().iter().map(ToString::to_string).collect()
    }

    /// All requests that are not GET, in order; these include access reviews.
    pub fn writes(&self) -> Vec<Logged> {
        let mut log = self.requests();
        log.retain(|logged| logged.method != "GET");
        log
    }

    /// A real client that calls this server directly, without a socket.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test panics while it holds the server")
    }
}
