//! The operator's Deployment: its version, namespace and health.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1::Container;

use super::kubernetes::Standard;
use super::pod::{ContainerStatus, Terminated};
use super::{Cluster, Node, Pod};
use crate::api::{ApiFlavor, Condition, Skyhook, Stage, Status, Version, quantity};

/// Label of the operator's manager in every release, and of the managers of other operators.
pub const MANAGER_LABEL: (&str, &str) = ("control-plane", "controller-manager");

const MIB: f64 = 1_048_576.0;
/// Name of the manager's container in every chart.
const MANAGER: &str = "manager";
/// Minimum number of restarts that count as repeated: one or two may follow a restart of the API server.
const REPEATEDLY: i64 = 3;
/// Maximum duration of a short run in seconds. A longer run is long enough to reconcile everything once.
const SHORT_RUN: i64 = 600;
/// Maximum time that the kubelet waits before it restarts a container, in seconds.
const LONGEST_BACK_OFF: i64 = 300;

/// The operator of a cluster: which Deployment acts, its version, settings and namespaces, and whether it works.
#[derive(Clone, Copy)]
pub struct OperatorView<'a>(pub(super) &'a Cluster);

/// A Deployment that may run the operator.
pub type Deployment = Standard<apps::Deployment>;

/// Formats the Deployment as `deployment/NAMESPACE/NAME`.
impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deployment/{}/{}", self.namespace(), self.name())
    }
}

impl Deployment {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Number of replicas in the spec.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn available_replicas(&self) -> i32 {
        self.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0)
    }

    /// Number of ready replicas. Available replicas count as ready.
    pub fn ready_replicas(&self) -> i32 {
        self.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0).max(self.available_replicas())
    }

    /// Whether no replica is available: none is wanted, or the Deployment controller has found none.
    pub fn is_unavailable(&self) -> bool {
        self.replicas() == 0 || self.observed() && self.available_replicas() == 0
    }

    /// Whether the Deployment controller has observed the spec, so that the status is valid.
    pub fn observed(&self) -> bool {
        self.status.as_ref().is_some_and(|s| s.observed_generation.is_some())
    }

    fn condition(&self, kind: &str) -> Option<&apps::DeploymentCondition> {
        self.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_.as_deref() == Some(kind))
    }

    /// Time since which too few replicas are available; `None` if enough are available.
    pub fn unavailable_since(&self) -> Option<Timestamp> {
        let available = self.condition("Available")?;
        let since = available.last_transition_time.as_ref().map(|at| at.0);
        since.filter(|_| available.status.as_deref() == Some("False"))
    }

    /// Whether the `Progressing` condition is True: a rollout advances, or the last one has completed.
    pub fn progresses(&self) -> bool {
        self.condition("Progressing").is_some_and(|c| c.status.as_deref() == Some("True"))
    }

    /// The reason why pods cannot be created, as reported by the Deployment controller.
    pub fn replica_failure(&self) -> Option<&str> {
        let failure = self.condition("ReplicaFailure")?;
        let is_true = failure.status.as_deref() == Some("True");
        failure.message.as_deref().filter(|_| is_true)
    }

    /// Whether the Deployment's selector matches a pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        let mut labels = self.spec.selector.match_labels.iter().flatten().peekable();
        pod.metadata.namespace.as_deref() == Some(self.namespace())
            && labels.peek().is_some()
            && labels.all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
    }

    fn containers(&self) -> &[Container] {
        let pod = self.spec.template.spec.as_ref();
        pod.map_or(&[], |pod| &pod.containers)
    }

    fn images(&self) -> impl Iterator<Item = &str> {
        self.containers().iter().filter_map(|c| c.image.as_deref())
    }

    /// Whether the Deployment runs the operator, and not another operator with the same label.
    ///
    /// The manager label is required. In addition, the image, or one of the labels `name` and `part-of`, must
    /// contain `skyhook` or `nodewright`.
    pub fn runs_operator(&self) -> bool {
        let named = |text: &str| text.contains("skyhook") || text.contains("nodewright");
        let chart = ["app.kubernetes.io/name", "app.kubernetes.io/part-of"];
        self.label(MANAGER_LABEL.0) == Some(MANAGER_LABEL.1)
            && (self.images().any(named) || chart.iter().filter_map(|key| self.label(key)).any(named))
    }

    /// The operator's version: the tag of the image, else the chart's label.
    ///
    /// The image takes precedence, because the label keeps its value when a user overrides the image tag.
    pub fn operator_version(&self) -> Option<Version> {
        let words = ["skyhook", "nodewright", "operator"];
        let manager = self.images().find(|image| words.iter().any(|word| image.contains(word)));
        manager.and_then(image_tag).and_then(Version::parse).or_else(|| self.chart_version())
    }

    /// The version in the chart's label.
    pub fn chart_version(&self) -> Option<Version> {
        Version::parse(self.label("app.kubernetes.io/version")?)
    }

    /// Memory limit in MiB of the first container that has one.
    pub fn memory_limit(&self) -> Option<f64> {
        let bytes = self
            .containers()
            .iter()
            .filter_map(|c| c.resources.as_ref()?.limits.as_ref()?.get("memory"))
            .find_map(|limit| quantity::parse_text(&limit.0))?;
        Some(bytes / MIB)
    }

    /// The service account of the operator's pods.
    pub fn service_account(&self) -> &str {
        let pod = self.spec.template.spec.as_ref();
        let account = pod.and_then(|pod| pod.service_account_name.as_deref()).unwrap_or_default();
        if account.is_empty() { "default" } else { account }
    }

    /// Whether the replicas elect a leader.
    pub fn elects(&self) -> bool {
        self.env("LEADER_ELECTION") == Some("true")
    }

    /// The value of an environment variable of the manager.
    pub fn env(&self, name: &str) -> Option<&str> {
        let mut all = self.containers().iter().flat_map(|c| c.env.iter().flatten());
        all.find(|e| e.name == name).and_then(|e| e.value.as_deref()).filter(|v| !v.is_empty())
    }
}

impl Pod {
    /// Whether the pod runs the manager of any operator.
    pub fn runs_a_manager(&self) -> bool {
        let (key, value) = MANAGER_LABEL;
        self.metadata.labels.get(key).is_some_and(|v| v == value)
    }
}

impl<'a> OperatorView<'a> {
    /// The pods of a Deployment of the operator.
    pub fn pods_of(self, operator: &'a Deployment) -> impl Iterator<Item = &'a Pod> {
        self.0.operator_pods.iter().filter(move |pod| operator.selects(pod))
    }

    /// The time at which the operator became available, or a container of its ready pods started.
    pub(super) fn started(self) -> Option<Timestamp> {
        let operators = self.0.operators.iter();
        let available = operators.clone().filter_map(|operator| {
            operator.condition("Available")?.last_transition_time.as_ref().map(|at| at.0)
        });
        let pods = operators.flat_map(|operator| self.pods_of(operator));
        let started = pods
            .filter(|pod| pod.ready())
            .flat_map(|pod| &pod.status.container_statuses)
            .filter_map(|container| container.state.running.as_ref()?.started_at);
        available.chain(started).max()
    }

    /// A pod of the operator that is crash looping, if all of the operator's live pods are.
    pub fn crash_looping(self, operator: &'a Deployment) -> Option<&'a Pod> {
        let there = |pod: &&Pod| !pod.ended() && !pod.metadata.deleting();
        let mut pods = self.pods_of(operator).filter(there).peekable();
        let first = *pods.peek()?;
        let loops = |pod: &Pod| {
            let all = &pod.status.container_statuses;
            all.iter()
                .find(|container| container.name == MANAGER)
                .map_or(all.as_slice(), std::slice::from_ref)
                .iter()
                .any(|container| crash_loops(container, self.0.taken_at))
        };
        pods.all(loops).then_some(first)
    }
}

/// Whether a container has ended several times, the last time after a short run, and has not run for longer
/// since.
fn crash_loops(container: &ContainerStatus, now: Timestamp) -> bool {
    let seconds = |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.as_second() - from?.as_second());
    let last = container.state.terminated.as_ref().or(container.last_state.terminated.as_ref());
    let short = |t: &Terminated| seconds(t.started_at, t.finished_at).is_some_and(|ran| ran < SHORT_RUN);
    let running = container.state.running.as_ref();
    let recovered =
        running.is_some_and(|r| seconds(r.started_at, Some(now)).is_none_or(|runs| runs >= LONGEST_BACK_OFF));
    container.restart_count >= REPEATEDLY && last.is_some_and(short) && !recovered
}

/// The tag of an image reference. Registry ports and digests are not tags.
fn image_tag(image: &str) -> Option<&str> {
    image.split('@').next()?.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

impl<'a> OperatorView<'a> {
    /// Whether the operator supports `uninstall` of packages.
    ///
    /// Supported since v0.16.0. Some builds that report v0.15 support it as well: for v0.15, look for traces
    /// of uninstalls in the cluster.
    pub fn knows_uninstall(self) -> bool {
        if !self.before(0, 16) {
            return true;
        }
        if self.before(0, 15) {
            return false;
        }
        let all = self.0.skyhooks.items();
        // Operators with uninstall support keep the `Ready` condition current. A condition that a newer
        // operator left behind is stale.
        let mut ready_conditions = all.iter().filter_map(|s| Some((s, s.condition("Ready")?)));
        let current = |(s, ready): (&Skyhook, &Condition)| {
            let seen = ready.observed_generation;
            seen.is_some_and(|seen| seen >= s.metadata.generation) && !is_of_newer(s)
        };
        if ready_conditions.clone().any(current) {
            return true;
        }
        ready_conditions.next().is_none() && all.iter().any(|s| !is_of_newer(s) && self.shows_uninstall(s))
    }

    /// Whether nodes have traces that only an operator with uninstall support leaves.
    fn shows_uninstall(self, skyhook: &Skyhook) -> bool {
        let mut asked = skyhook.packages().filter(|(_, p)| skyhook.uninstalls(p));
        asked.any(|(name, package)| {
            let key = package.entry_key(name);
            let shows = |node: &Node| {
                let on = self.0.on_node(node, skyhook.name());
                match on.and_then(|on| on.entry(&key)) {
                    Some(entry) => entry.stage.is_uninstall(),
                    // An operator without uninstall support would install the package before it reports the
                    // node complete.
                    None => on.is_some_and(|on| on.status == Some(Status::Complete)),
                }
            };
            self.0.selected(skyhook).any(shows)
        }) || self
            .0
            .tracked(skyhook.name())
            .any(|(_, on)| on.entries().iter().any(|e| e.stage == Stage::UninstallInterrupt))
    }
}

/// Whether a newer operator wrote the object, so that its traces do not describe the running operator.
fn is_of_newer(skyhook: &Skyhook) -> bool {
    let version = skyhook.flavor().map(|flavor| flavor.key("version"));
    let version = version.and_then(|key| skyhook.metadata.annotations.get(&key));
    version.and_then(|v| Version::parse(v)).is_some_and(|v| v.at_least(0, 16))
}

/// The newest operator version whose behavior is known.
pub const NEWEST_OPERATOR: (u64, u64) = (0, 21);

impl<'a> OperatorView<'a> {
    /// Whether the operator is known to be older than `major.minor`. While it is in doubt which Deployment is
    /// the operator, the oldest one counts: what one of them does not support may fail.
    ///
    /// v0.17 was the last version with the older API: if the older API is active, the operator is older than
    /// v0.18.
    pub fn before(self, major: u64, minor: u64) -> bool {
        let unknown = self.0.active_api.operator_version.is_none();
        self.0.active_api.versions().any(|version| !version.at_least(major, minor))
            || unknown && self.0.flavor() == ApiFlavor::Skyhook && (major, minor) >= (0, 18)
    }

    /// The operator's version if it is newer than [`NEWEST_OPERATOR`]. The operator is then treated as that
    /// version.
    pub fn unknown_version(self) -> Option<&'a Version> {
        let (major, minor) = NEWEST_OPERATOR;
        let version = self.0.active_api.operator_version.as_ref();
        version.filter(|version| version.at_least(major, minor + 1))
    }

    /// Whether the operator is known to be at least `major.minor`.
    pub fn since(self, major: u64, minor: u64) -> bool {
        let mut versions = self.0.active_api.versions();
        self.0.active_api.operator_version.is_some() && versions.all(|v| v.at_least(major, minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::pod::{ContainerState, Running};

    #[test]
    fn tags_are_told_from_ports_and_digests() {
        for (image, tag) in [
            ("ghcr.io/nvidia/skyhook/operator:v0.15.0", Some("v0.15.0")),
            ("localhost:5000/skyhook-operator", None),
            ("localhost:5000/operator:v1.0.0@sha256:abc", Some("v1.0.0")),
        ] {
            assert_eq!(image_tag(image), tag, "{image}");
        }
    }

    #[test]
    fn a_container_loops_that_ends_early_and_has_not_run_for_long_since() {
        let at = |second: i64| Timestamp::from_second(second).ok();
        for (restarts, last_run, runs_for, loops) in [
            (3, 599, Some(299), true),
            (3, 599, None, true),
            (2, 599, None, false),
            (3, 600, None, false),
            (9, 1, Some(300), false),
        ] {
            let container = ContainerStatus {
                restart_count: restarts,
                state: ContainerState {
                    running: runs_for.map(|seconds| Running { started_at: at(10_000 - seconds) }),
                    ..ContainerState::default()
                },
                last_state: ContainerState {
                    terminated: Some(Terminated {
                        started_at: at(0),
                        finished_at: at(last_run),
                        ..Terminated::default()
                    }),
                    ..ContainerState::default()
                },
                ..ContainerStatus::default()
            };
            let now = at(10_000).expect("a time");
            assert_eq!(crash_loops(&container, now), loops, "{restarts} {last_run} {runs_for:?}");
        }
    }
}
