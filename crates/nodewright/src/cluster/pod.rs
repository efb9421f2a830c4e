//! Pods of packages, of the operator and of workloads, and failures of their containers.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use super::{Cluster, owners};
use crate::api::{Condition, Meta, UnknownFields, WithoutManagers, objects_with_metadata, quantity};

/// The finalizer with which the Job controller keeps an ended pod until it has counted it.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    #[serde(with = "WithoutManagers")]
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(Pod);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: String,
    /// Maximum run time of the pod in seconds.
    pub active_deadline_seconds: Option<i64>,
    /// Time that containers have to end, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    pub tolerations: Vec<crate::api::skyhook::Toleration>,
    pub init_containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub env: Vec<EnvVar>,
    pub resources: Resources,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvVar {
    pub name: String,
    pub value: String,
    pub value_from: ValueFrom,
}

/// The source of a variable's value, with the API server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValueFrom {
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FieldRef {
    /// The API server's default is `v1`.
    pub api_version: String,
    pub field_path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceFieldRef {
    pub container_name: String,
    pub resource: String,
    /// The API server's default is `0`.
    #[serde(deserialize_with = "quantity::text")]
    pub divisor: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub requests: BTreeMap<String, serde_json::Value>,
    pub limits: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: String,
    pub reason: String,
    pub message: String,
    pub start_time: Option<Timestamp>,
    pub conditions: Vec<Condition>,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: String,
    pub image: String,
    pub restart_count: i64,
    pub state: ContainerState,
    pub last_state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub waiting: Option<Waiting>,
    pub running: Option<Running>,
    pub terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Running {
    pub started_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i64,
    pub reason: String,
    pub message: String,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

/// Why a container of a pod makes no progress.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerTrouble<'a> {
    pub kind: TroubleKind,
    pub container: &'a str,
    pub image: &'a str,
    /// The reason as Kubernetes names it: `CrashLoopBackOff`, `OOMKilled`, `ErrImagePull` …
    pub reason: &'a str,
    pub message: &'a str,
    /// Exit code of the last run that ended.
    pub exit_code: Option<i64>,
    pub restarts: i64,
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// The container ran and failed.
    Failed,
    /// The image cannot be pulled.
    Image,
    /// The container cannot be created or started: a Secret, ConfigMap or volume is missing, the runtime
    /// refuses, or a hook fails.
    Config,
}

/// Waiting reasons that mean that the image is unavailable.
const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Waiting reasons that mean that the container cannot be created or started.
const CONFIG_REASONS: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PostStartHookError",
];

/// Formats the pod as `pod/NAMESPACE/NAME`.
impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod/{}", self.metadata.path())
    }
}

impl Pod {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The namespace; empty if unset.
    /// Whether another program than Kubernetes itself keeps the deleted pod, by a finalizer.
    pub fn is_held(&self) -> bool {
        self.metadata.deleting() && self.metadata.finalizers.iter().any(|finalizer| finalizer != JOB_TRACKING)
    }

    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        self.metadata.path()
    }

    /// Whether the pod has ended, successfully or not.
    pub fn ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether the Ready condition is true; a pod without the condition counts as ready.
    pub fn ready(&self) -> bool {
        self.status.conditions.iter().find(|c| c.kind == "Ready").is_none_or(Condition::is_true)
    }

    /// Whether the pod is assigned to a node whose kubelet has not processed it yet.
    pub fn unacknowledged(&self) -> bool {
        let status = &self.status;
        status.phase == "Pending"
            && !self.spec.node_name.is_empty()
            && status.start_time.is_none()
            && status.init_container_statuses.is_empty()
            && status.container_statuses.is_empty()
            && !self.metadata.deleting()
    }

    /// The annotation by which the pod refuses a disruption, as `KEY=VALUE`.
    pub fn refuses_disruption(&self) -> Option<String> {
        owners::refusal(&self.metadata.annotations)
    }

    /// Whether a disruption (eviction, preemption, shutdown) ended the pod, rather than a failure of the
    /// package.
    pub fn disrupted(&self) -> bool {
        self.disruption().is_some()
    }

    /// The disruption that ended the pod.
    pub fn disruption(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == "DisruptionTarget" && c.is_true())
    }

    /// The first container, in the order of execution, that makes no progress.
    pub fn trouble(&self) -> Option<ContainerTrouble<'_>> {
        self.status
            .init_container_statuses
            .iter()
            .chain(&self.status.container_statuses)
            .find_map(|c| c.trouble())
    }

    /// The first container whose last run failed, regardless of its current state.
    pub fn last_failure(&self) -> Option<ContainerTrouble<'_>> {
        self.status.container_statuses.iter().find_map(|container| {
            let last = container.last_state.terminated.as_ref();
            last.filter(|end| end.exit_code != 0).map(|end| container.failed(end))
        })
    }

    /// The scheduler's reason for not finding a node.
    pub fn unschedulable(&self) -> Option<&str> {
        let scheduled = self.status.conditions.iter().find(|c| c.kind == "PodScheduled")?;
        (scheduled.status == "False").then_some(scheduled.message.as_str())
    }

    /// The memory limit of an init container.
    pub fn memory_limit(&self, container: &str) -> Option<&str> {
        let container = self.spec.init_containers.iter().find(|c| c.name == container)?;
        container.resources.limits.get("memory")?.as_str()
    }

    /// The init container that is running, with its start time.
    pub fn running(&self) -> Option<(&str, Option<Timestamp>)> {
        self.status
            .init_container_statuses
            .iter()
            .find_map(|c| c.state.running.as_ref().map(|r| (c.name.as_str(), r.started_at)))
    }
}

/// Why a pod ended as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// The field or event that shows it.
    pub field: &'static str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// Reasons of events about the end of a pod, the most specific first (`pkg/kubelet/events`, the scheduler's preemption,
/// and the taint eviction controller).
const POD_ENDINGS: [&str; 6] =
    ["Evicted", "Preempted", "Preempting", "TaintManagerEviction", "ExceededGracePeriod", "Killing"];
/// Reasons of events about the end of containers on a node (`pkg/kubelet/events`, the node problem detector).
const NODE_ENDINGS: [&str; 4] = ["OOMKilling", "SystemOOM", "NodeShutdown", "Rebooted"];
/// Exit codes of a container that was killed, terminated, or lost in a reboot.
const ENDED_FROM_OUTSIDE: [i64; 3] = [137, 143, 255];
/// Maximum number of seconds between the end of a container and the event about its cause.
const NEAR: i64 = 60;

impl Cluster {
    /// Why the pod ended as a whole: the kubelet's reason (`Evicted`, `OutOfcpu`, `NodeShutdown`), the disruption that ended
    /// it, or an event about the pod or its node.
    pub fn ending<'a>(&'a self, pod: &'a Pod) -> Option<Ending<'a>> {
        let status = &pod.status;
        if !status.reason.is_empty() && !status.message.is_empty() {
            return Some(Ending { field: "status.reason", reason: &status.reason, message: &status.message });
        }
        if let Some(disruption) = pod.disruption() {
            let (reason, message) = (&disruption.reason, &disruption.message);
            return Some(Ending { field: "condition DisruptionTarget", reason, message });
        }
        let recorded = Ending { field: "status.reason", reason: &status.reason, message: "" };
        let recorded = (!status.reason.is_empty()).then_some(recorded);
        self.ending_in_events(pod).or(recorded)
    }

    fn ending_in_events<'a>(&'a self, pod: &'a Pod) -> Option<Ending<'a>> {
        if !pod.ended() && !pod.metadata.deleting() {
            return None;
        }
        let ours = |uid: &str| uid.is_empty() || pod.metadata.uid.as_deref().is_none_or(|own| own == uid);
        let rank = |reason: &str| POD_ENDINGS.iter().position(|known| *known == reason);
        let about = self.events_about("Pod", pod.name()).filter(|event| ours(&event.uid));
        // The kubelet also kills single containers, such as a sidecar at the end.
        let trouble = pod.trouble();
        let own = |message: &str| trouble.as_ref().is_some_and(|trouble| message.contains(trouble.container));
        let about = about
            .filter(|e| e.reason != "Killing" || pod.metadata.deleting() || own(&e.message))
            .filter_map(|event| Some((rank(&event.reason)?, event)));
        if let Some((_, event)) = about.min_by_key(|(rank, _)| *rank) {
            return Some(Ending { field: "event", reason: &event.reason, message: &event.message });
        }
        let killed = pod.trouble().filter(|trouble| {
            let outside = trouble.exit_code.is_some_and(|code| ENDED_FROM_OUTSIDE.contains(&code));
            outside && trouble.reason != "OOMKilled"
        });
        let at = killed?.at?;
        let mut on_node = self.events_about("Node", &pod.spec.node_name);
        let event = on_node.find(|event| {
            let apart = event.last.map(|last| (last.as_second() - at.as_second()).abs());
            NODE_ENDINGS.contains(&event.reason.as_str()) && apart.is_some_and(|apart| apart <= NEAR)
        })?;
        Some(Ending { field: "event of the node", reason: &event.reason, message: &event.message })
    }
}

impl ContainerStatus {
    fn trouble(&self) -> Option<ContainerTrouble<'_>> {
        let last = self.last_state.terminated.as_ref();
        if let Some(end) = self.state.terminated.as_ref().filter(|t| t.exit_code != 0) {
            return Some(self.failed(end));
        }
        let waiting = self.state.waiting.as_ref()?;
        let kind = match waiting.reason.as_str() {
            "CrashLoopBackOff" => TroubleKind::Failed,
            reason if IMAGE_REASONS.contains(&reason) => TroubleKind::Image,
            reason if CONFIG_REASONS.contains(&reason) => TroubleKind::Config,
            _ => return None,
        };
        // "OOMKilled" is more specific than "CrashLoopBackOff"; plain "Error" is not.
        let reason = last
            .map(|t| t.reason.as_str())
            .filter(|r| kind == TroubleKind::Failed && !r.is_empty() && *r != "Error")
            .unwrap_or(&waiting.reason);
        let exit_code = last.map(|t| t.exit_code).filter(|_| kind == TroubleKind::Failed);
        // Skip the message of a back-off, which only repeats its duration.
        let message = last.map(|t| t.message.as_str()).filter(|_| kind == TroubleKind::Failed);
        Some(ContainerTrouble {
            kind,
            container: &self.name,
            image: &self.image,
            reason,
            message: message.unwrap_or(&waiting.message),
            exit_code,
            restarts: self.restart_count,
            at: last.and_then(|t| t.finished_at),
        })
    }

    fn failed<'a>(&'a self, end: &'a Terminated) -> ContainerTrouble<'a> {
        ContainerTrouble {
            kind: TroubleKind::Failed,
            container: &self.name,
            image: &self.image,
            reason: &end.reason,
            message: &end.message,
            exit_code: Some(end.exit_code),
            restarts: self.restart_count,
            at: end.finished_at,
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    #[serde(with = "WithoutManagers")]
    pub metadata: Meta,
    pub spec: JobSpec,
    pub status: JobStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(Job);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    pub suspend: bool,
    /// Number of retries after failed attempts before the Job fails.
    pub backoff_limit: Option<i64>,
    /// Maximum duration of the Job in seconds, regardless of its attempts.
    pub active_deadline_seconds: Option<i64>,
    pub template: PodTemplate,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub spec: PodSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    pub start_time: Option<Timestamp>,
    pub completion_time: Option<Timestamp>,
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub conditions: Vec<Condition>,
}

impl Job {
    /// The condition that ended the Job: `Complete` or `Failed`.
    pub fn finished(&self) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|c| c.is_true() && matches!(c.kind.as_str(), "Complete" | "Failed"))
    }

    /// Maximum duration of the stage in seconds, for each attempt or for all attempts together.
    pub fn timeout(&self) -> Option<i64> {
        self.spec.template.spec.active_deadline_seconds.or(self.spec.active_deadline_seconds)
    }

    /// Whether the Job restarts its container in place until its deadline instead of counting failed attempts.
    pub fn restarts_in_place(&self) -> bool {
        self.spec.backoff_limit.is_some_and(|limit| limit > 1 << 20)
    }

    /// Whether the Job failed because its own deadline expired.
    pub fn deadline_exceeded(&self) -> bool {
        self.failed().is_some_and(|condition| condition.reason == "DeadlineExceeded")
    }

    /// The condition of a Job that has failed permanently.
    pub fn failed(&self) -> Option<&Condition> {
        self.finished().filter(|c| c.kind == "Failed")
    }
}
