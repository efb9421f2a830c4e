//! A cluster for one scenario, with the actions and checks that scenarios use.

pub mod pool;

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

use self::pool::{Baseline, Generation};
use crate::{
    api::{Api, Refused},
    capture,
    control_plane::ControlPlane,
    kubelet::{Kubelet, StepResult, Target},
    manifest::Skyhook,
    model, operator, ours,
    proxy::Proxy,
    recorder::Recorder,
    rollout::Rollout,
    tools::Tools,
    view::PREFIX,
};

pub const SKYHOOKS: &str = "/apis/skyhook.nvidia.com/v1alpha1/skyhooks";
/// Timeout of all waits. The operator sees some changes, such as a taint removed between two of its reads,
/// only when it polls after a minute.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Interval of a wait that has lasted for `waited`: each poll costs the API server milliseconds of processor time.
pub fn poll_interval(waited: Duration) -> Duration {
    (waited / 20).clamp(Duration::from_millis(100), Duration::from_millis(400))
}

pub struct Cluster {
    pub api: Api,
    pub kubelet: Kubelet,
    recorder: Option<Recorder>,
    // Dropped last: the clients must stop before the servers do.
    plane: RefCell<ControlPlane>,
    /// How the next scenario must find the control plane; `None` if it ends with this one.
    shared: Cell<Option<(Generation, Baseline)>>,
    tools: Tools,
    webhooks: bool,
}

impl Cluster {
    /// The older API: operator v0.17.0 without its webhooks.
    pub fn old(tools: &Tools) -> Result<Self> {
        let cluster = Self::shared(tools, Generation::Skyhook)?;
        operator::announce(&cluster.api, operator::NAMESPACE, operator::VERSION, operator::IMAGE)?;
        cluster.start_operator();
        Ok(cluster)
    }

    /// Like `old`, but the operator has never run.
    pub fn unoperated(tools: &Tools) -> Result<Self> {
        let cluster = Self::kubernetes(tools, false)?;
        cluster.install_operator()?;
        Ok(cluster)
    }

    /// Like `old`, with webhooks. Their port is fixed: in one network namespace only one such cluster can run
    /// at a time.
    pub fn old_with_webhooks(tools: &Tools) -> Result<Self> {
        let cluster = Self::kubernetes(tools, true)?;
        cluster.install_operator()?;
        operator::prepare_webhooks(&cluster.api)?;
        cluster.start_operator();
        Ok(cluster)
    }

    /// The newer API. No operator runs: the scenario simulates it with `model`.
    pub fn new(tools: &Tools) -> Result<Self> {
        let cluster = Self::shared(tools, Generation::NodeWright)?;
        model::announce(&cluster.api)?;
        Ok(cluster)
    }

    /// Kubernetes without the CRDs and the operator.
    pub fn bare(tools: &Tools) -> Result<Self> {
        Self::kubernetes(tools, false)
    }

    fn kubernetes(tools: &Tools, webhooks: bool) -> Result<Self> {
        Self::on(ControlPlane::start(tools)?, tools, webhooks)
    }

    fn on(plane: ControlPlane, tools: &Tools, webhooks: bool) -> Result<Self> {
        let api = plane.user("admin")?;
        let kubelet = Kubelet::start(&plane.access("admin"))?;
        let (plane, tools, shared) = (RefCell::new(plane), tools.clone(), Cell::default());
        Ok(Self { api, kubelet, recorder: None, plane, shared, tools, webhooks })
    }

    /// Records every change of the cluster, if an environment variable asks for recordings.
    #[must_use]
    pub fn recorded(mut self, scenario: &str) -> Self {
        let access = self.plane.borrow().access("admin");
        self.recorder = Recorder::start(&access, scenario);
        self
    }

    /// Creates node-1, node-2 and so on: Ready, and without the not-ready taint of new nodes.
    #[must_use]
    pub fn with_nodes(self, count: usize) -> Self {
        for number in 1..=count {
            self.add_node(&format!("node-{number}"), json!({}));
        }
        self
    }

    /// Creates a node as a kubelet does. Without a label or annotation the API server would never track
    /// `managedFields`.
    pub fn add_node(&self, name: &str, labels: Value) {
        let mut node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            }},
            "status": {
                "nodeInfo": {
                    "bootID": "b", "machineID": name, "systemUUID": name, "kernelVersion": "6.8.0", "osImage": "Ubuntu 24.04",
                    "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.36.0", "kubeProxyVersion": "",
                    "operatingSystem": "linux", "architecture": "amd64",
                },
                "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.port()}},
            },
        });
        for (key, value) in labels.as_object().into_iter().flatten() {
            node["metadata"]["labels"][key] = value.clone();
        }
        self.api.post("/api/v1/nodes", &node).expect("a node can be created");
    }

    pub fn node(&self, name: &str) -> Value {
        self.api.get(&format!("/api/v1/nodes/{name}")).expect("the node is there")
    }

    pub fn patch_node(&self, name: &str, patch: Value) {
        self.api.merge(&format!("/api/v1/nodes/{name}"), &patch).expect("a node can be changed");
    }

    /// Sets one of the operator's annotations on a node; null removes it.
    pub fn annotate_node(&self, name: &str, key: &str, value: Value) {
        self.patch_node(name, json!({"metadata": {"annotations": {format!("{PREFIX}/{key}"): value}}}));
    }

    /// Grants the operator the right to write events, which the role in its v0.17.0 release lacks.
    pub fn allow_events(&self) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({
            "metadata": {"name": "events"},
            "rules": [{"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}],
        });
        let binding = json!({
            "metadata": {"name": "events"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "events"},
            "subjects": [{"kind": "User", "name": "operator", "apiGroup": "rbac.authorization.k8s.io"}],
        });
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            self.api.post(&format!("{rbac}/{plural}"), &object).expect("a role can be given");
        }
    }

    #[track_caller]
    pub fn apply(&self, skyhook: &Skyhook) -> Rollout<'_> {
        self.try_apply(skyhook).unwrap_or_else(|refused| panic!("{} is accepted: {refused}", skyhook.name))
    }

    pub fn try_apply(&self, skyhook: &Skyhook) -> Result<Rollout<'_>, Refused> {
        self.api.post(SKYHOOKS, &skyhook.body())?;
        Ok(self.rollout(&skyhook.name))
    }

    pub fn rollout(&self, name: &str) -> Rollout<'_> {
        Rollout { cluster: self, name: name.to_owned() }
    }

    /// Runs a pod of an ordinary workload, which a drain evicts, and waits until it is running.
    pub fn run_pod(&self, name: &str, node: &str, labels: Value) {
        let _ = self
            .api
            .post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}));
        let pod = json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false,
                "containers": [{"name": "work", "image": "example.com/work:1"}],
            },
        });
        self.api.post("/api/v1/namespaces/default/pods", &pod).expect("a pod can be created");
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        self.await_that("the pod runs", || {
            self.api.get(&path).is_ok_and(|pod| pod["status"]["phase"] == "Running")
        });
    }

    /// Makes the kubelet give matching pods this result from now on.
    pub fn result(&self, target: Target, result: StepResult) {
        self.kubelet.rule(target, result);
    }

    pub fn heal(&self) {
        self.kubelet.forget_rules();
    }

    fn install_operator(&self) -> Result<()> {
        self.install_crds_and_roles()?;
        operator::announce(&self.api, operator::NAMESPACE, operator::VERSION, operator::IMAGE)
    }

    fn install_crds_and_roles(&self) -> Result<()> {
        operator::install(&self.tools, &self.api).map_err(|error| {
            let plane = self.plane.borrow();
            error.context(plane.servers.log_tail("kube-controller-manager", 20))
        })
    }

    pub fn start_operator(&self) {
        self.start_operator_with(&[]);
    }

    /// Starts the operator with additional environment variables.
    pub fn start_operator_with(&self, settings: &[(&'static str, &str)]) {
        let mut plane = self.plane.borrow_mut();
        operator::start(&mut plane, &self.tools, self.webhooks, settings).expect("the operator starts");
    }

    /// Stops the operator and deletes its Deployment, as `helm uninstall` does.
    pub fn remove_operator(&self) {
        self.stop_operator();
        let deployments = format!("/apis/apps/v1/namespaces/{}/deployments", operator::NAMESPACE);
        for deployment in self.api.items(&deployments).expect("Deployments can be listed") {
            let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
            self.api.delete(&format!("{deployments}/{name}"), &json!({})).expect("deletion succeeds");
        }
    }

    /// Sets the version in the operator's Deployment, which may differ from the operator that runs.
    pub fn announces(&self, version: &str) {
        operator::announce_instead(&self.api, version, operator::IMAGE).expect("a Deployment can be changed");
    }

    pub fn stop_operator(&self) {
        self.stop_server("operator");
    }

    /// Stops a server other than the operator.
    pub fn stop(&self, server: &str) {
        // A control plane that a server was missing from is not reused.
        self.shared.take();
        self.stop_server(server);
    }

    fn stop_server(&self, server: &str) {
        self.recorder.iter().for_each(Recorder::stop);
        let stopped = self.plane.borrow_mut().servers.stop(server);
        stopped.expect("the supervisor stops the server");
    }

    /// Stops the API server, starts it again after `away`, and returns when it is ready.
    pub fn restart_api_server(&self, away: Duration) {
        self.stop("kube-apiserver");
        std::thread::sleep(away);
        let started = self.plane.borrow_mut().servers.start_again("kube-apiserver");
        started.expect("the API server starts again");
        // Generous timeout: callers tolerate a slow restart.
        let ready = self.api.await_ready(Duration::from_secs(600));
        ready.expect("the API server becomes ready");
    }

    /// Returns a function that reads the whole log of a server at each call.
    pub fn log_reader(&self, server: &str) -> impl Fn() -> String + 'static {
        let name = format!("{server}.log");
        let path = self.plane.borrow().servers.dir().join(name);
        move || std::fs::read_to_string(&path).unwrap_or_default()
    }

    /// Pods, Jobs and last log lines of the controllers, for the message of a failed test.
    fn diagnostics(&self) -> String {
        let brief = |path: &str| {
            let items = self.api.items(path).unwrap_or_default();
            let line = |item: Value| format!("{} {}", item["metadata"]["name"], item["status"]);
            items.into_iter().map(line).collect::<Vec<_>>().join("\n")
        };
        let controllers = self.plane.borrow().servers.log_tail("kube-controller-manager", 5);
        let (pods, jobs) = (brief("/api/v1/pods"), brief("/apis/batch/v1/jobs"));
        format!("{pods}\n{jobs}\ncontrollers:\n{controllers}\noperator:\n{}", self.operator_log(15))
    }

    pub fn operator_log(&self, lines: usize) -> String {
        self.plane.borrow().servers.log_tail("operator", lines)
    }

    /// An API client of this user.
    pub fn user(&self, name: &str) -> Api {
        self.plane.borrow().user(name).expect("a client can be made")
    }

    /// A proxy in front of the API server, with the administrator's credentials.
    pub fn proxy(&self) -> Proxy {
        let access = self.plane.borrow().access("admin");
        Proxy::to(move || access.client(None).expect("a client can be made"))
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.plane.borrow().kubeconfig(user)
    }

    /// Captures the cluster, if an environment variable asks for captures. Expects a second diagnosis to find
    /// the same errors, and `diagnose` on a collected file to match the live report.
    #[track_caller]
    pub fn capture(&self, name: &str) {
        capture::write(&self.api, name).expect("a capture can be written");
        ours::collects(&self.kubeconfig("admin"));
        ours::stays_so(&self.kubeconfig("admin"));
    }

    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Runs `act` while our binary diagnoses again and again, and expects no finding at error level.
    #[track_caller]
    pub fn without_an_error(&self, act: impl FnOnce()) {
        let watcher = ours::Watcher::start(self.kubeconfig("admin"));
        act();
        // A short act leaves time for few diagnoses; those after it see how it ended.
        while watcher.looks() <= 5 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let watched = watcher.stop();
        assert!(watched.errors.is_empty(), "in {} looks: {:#?}", watched.looks, watched.errors);
    }

    /// Path of the script that stands in for an editor, beside the kubeconfig. [`Cluster::edits`] writes it.
    pub fn editor(&self) -> PathBuf {
        self.kubeconfig("admin").with_file_name("editor")
    }

    /// Makes the editor apply this sed script to whatever it opens.
    pub fn edits(&self, sed: &str) {
        let path = self.editor();
        let script = format!("#!/bin/sh\nexec sed -i -e '{sed}' \"$1\"\n");
        std::fs::write(&path, script).expect("a script can be written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&path, mode).expect("the script can be made executable");
    }

    /// Runs `diagnose stuck` as the administrator.
    #[track_caller]
    pub fn report(&self, more: &[&str]) -> ours::Report {
        let report = ours::diagnose(&self.kubeconfig("admin"), more);
        if !more.contains(&"--fail-on") {
            report.exit_fits();
        }
        report
    }

    /// Runs one of our commands as the administrator with `-o json`; returns the output.
    #[track_caller]
    pub fn ours(&self, args: &[&str]) -> Value {
        let ran = ours::run(&self.kubeconfig("admin"), &[args, &["-o", "json"]].concat());
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {ran:?}"))
    }

    /// Runs upstream's CLI as the administrator; returns stdout.
    #[track_caller]
    pub fn upstream(&self, args: &[&str]) -> String {
        let program = self.tools.program(&format!("cli-{}", operator::VERSION));
        let out = Command::new(program).args(args).env("KUBECONFIG", self.kubeconfig("admin")).output();
        let out = out.expect("upstream's CLI runs");
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("the output is UTF-8")
    }

    #[track_caller]
    pub fn await_that(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "stopped waiting: {what}\n{}", self.diagnostics());
            std::thread::sleep(poll_interval(begun.elapsed()));
        }
    }
}
