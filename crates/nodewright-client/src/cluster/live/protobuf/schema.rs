//! The decoded fields of each kind, by their numbers in Kubernetes' `generated.proto`.

/// The type of a field, and when Kubernetes omits the field in JSON.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Omitted if empty.
    Text,
    /// Omitted if zero.
    Number,
    /// A number that is a pointer in Go: present in JSON even if zero.
    Pointer,
    /// Omitted if false.
    Flag,
    /// A `Time` or `MicroTime`; omitted if it is the zero time.
    Time,
    /// A `Quantity`, which is text in JSON.
    Quantity,
    /// A `FieldsV1`: JSON in a bytes field.
    Json,
    Message(&'static Message),
    Each(&'static Kind),
    /// A map with text keys.
    Map(&'static Kind),
}

/// Number in the message, name in JSON, and kind of each decoded field. Other fields are skipped.
pub type Message = [(u64, &'static str, Kind)];

use Kind::{Each, Flag, Json, Map, Number, Pointer, Quantity, Text, Time};

/// The fields of a list kind such as `NodeList`, or of `Status`; `None` for unknown kinds.
pub fn of(kind: &str) -> Option<&'static Message> {
    match kind {
        "Status" => return Some(STATUS),
        METADATA_LIST => return Some(OF_METADATA),
        _ => {}
    }
    Some(LISTS.iter().find(|(_, name, _)| *name == kind)?.2)
}

/// Whether lists of a resource (`nodes`, `jobs.batch`) can be decoded.
pub fn knows(resource: &str) -> bool {
    LISTS.iter().any(|(name, ..)| *name == resource)
}

const LISTS: [(&str, &str, &Message); 4] = [
    ("nodes", "NodeList", &list(&NODE)),
    ("pods", "PodList", &list(&POD)),
    ("events", "EventList", &list(&EVENT)),
    ("jobs.batch", "JobList", &list(&JOB)),
];

/// Kind of a list of metadata, for items of any kind.
pub const METADATA_LIST: &str = "PartialObjectMetadataList";

const OF_METADATA: &Message = &list(&Kind::Message(&[(1, "metadata", META)]));

/// The message of a refusal. Protobuf requests are refused in protobuf.
const STATUS: &Message = &[(3, "message", Text)];

const fn list(items: &'static Kind) -> [(u64, &'static str, Kind); 2] {
    [(1, "metadata", LIST_META), (2, "items", Each(items))]
}

const LIST_META: Kind = Kind::Message(&[(2, "resourceVersion", Text), (3, "continue", Text)]);

const META: Kind = Kind::Message(&[
    (1, "name", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (11, "labels", Map(&Text)),
    (12, "annotations", Map(&Text)),
    (13, "ownerReferences", Each(&OWNER)),
    (14, "finalizers", Each(&Text)),
    (17, "managedFields", Each(&MANAGER)),
]);

const OWNER: Kind =
    Kind::Message(&[(1, "kind", Text), (3, "name", Text), (4, "uid", Text), (6, "controller", Flag)]);

const MANAGER: Kind = Kind::Message(&[
    (1, "manager", Text),
    (2, "operation", Text),
    (4, "time", Time),
    (7, "fieldsV1", Json),
    (8, "subresource", Text),
]);

const NODE: Kind =
    Kind::Message(&[(1, "metadata", META), (2, "spec", NODE_SPEC), (3, "status", NODE_STATUS)]);

const NODE_SPEC: Kind = Kind::Message(&[(4, "unschedulable", Flag), (5, "taints", Each(&TAINT))]);

const TAINT: Kind =
    Kind::Message(&[(1, "key", Text), (2, "value", Text), (3, "effect", Text), (4, "timeAdded", Time)]);

const NODE_STATUS: Kind = Kind::Message(&[
    (1, "capacity", Map(&Quantity)),
    (2, "allocatable", Map(&Quantity)),
    (4, "conditions", Each(&CONDITION)),
    (7, "nodeInfo", NODE_INFO),
]);

/// Conditions of Jobs, nodes and pods; only those of pods have `observedGeneration`.
const CONDITION: Kind = Kind::Message(&[
    (1, "type", Text),
    (2, "status", Text),
    (4, "lastTransitionTime", Time),
    (5, "reason", Text),
    (6, "message", Text),
    (7, "observedGeneration", Number),
]);

const NODE_INFO: Kind = Kind::Message(&[
    (4, "kernelVersion", Text),
    (5, "osImage", Text),
    (6, "containerRuntimeVersion", Text),
    (7, "kubeletVersion", Text),
    (10, "architecture", Text),
]);

const POD: Kind = Kind::Message(&[(1, "metadata", META), (2, "spec", POD_SPEC), (3, "status", POD_STATUS)]);

const POD_SPEC: Kind = Kind::Message(&[
    (4, "terminationGracePeriodSeconds", Pointer),
    (5, "activeDeadlineSeconds", Pointer),
    (10, "nodeName", Text),
    (20, "initContainers", Each(&CONTAINER)),
    (22, "tolerations", Each(&TOLERATION)),
]);

const CONTAINER: Kind = Kind::Message(&[
    (1, "name", Text),
    (2, "image", Text),
    (7, "env", Each(&ENV_VAR)),
    (8, "resources", RESOURCES),
]);

const ENV_VAR: Kind = Kind::Message(&[(1, "name", Text), (2, "value", Text), (3, "valueFrom", VALUE_FROM)]);

const VALUE_FROM: Kind = Kind::Message(&[(1, "fieldRef", FIELD), (2, "resourceFieldRef", RESOURCE_FIELD)]);

const FIELD: Kind = Kind::Message(&[(1, "apiVersion", Text), (2, "fieldPath", Text)]);

const RESOURCE_FIELD: Kind =
    Kind::Message(&[(1, "containerName", Text), (2, "resource", Text), (3, "divisor", Quantity)]);

const RESOURCES: Kind = Kind::Message(&[(1, "limits", Map(&Quantity)), (2, "requests", Map(&Quantity))]);

const TOLERATION: Kind =
    Kind::Message(&[(1, "key", Text), (2, "operator", Text), (3, "value", Text), (4, "effect", Text)]);

const POD_STATUS: Kind = Kind::Message(&[
    (1, "phase", Text),
    (2, "conditions", Each(&CONDITION)),
    (3, "message", Text),
    (4, "reason", Text),
    (7, "startTime", Time),
    (8, "containerStatuses", Each(&CONTAINER_STATUS)),
    (10, "initContainerStatuses", Each(&CONTAINER_STATUS)),
]);

const CONTAINER_STATUS: Kind = Kind::Message(&[
    (1, "name", Text),
    (2, "state", CONTAINER_STATE),
    (3, "lastState", CONTAINER_STATE),
    (5, "restartCount", Number),
    (6, "image", Text),
]);

const CONTAINER_STATE: Kind = Kind::Message(&[
    (1, "waiting", WAITING),
    (2, "running", Kind::Message(&[(1, "startedAt", Time)])),
    (3, "terminated", TERMINATED),
]);

const WAITING: Kind = Kind::Message(&[(1, "reason", Text), (2, "message", Text)]);

const TERMINATED: Kind = Kind::Message(&[
    (1, "exitCode", Number),
    (3, "reason", Text),
    (4, "message", Text),
    (5, "startedAt", Time),
    (6, "finishedAt", Time),
]);

const EVENT: Kind = Kind::Message(&[
    (1, "metadata", META),
    (2, "involvedObject", INVOLVED),
    (3, "reason", Text),
    (4, "message", Text),
    (6, "firstTimestamp", Time),
    (7, "lastTimestamp", Time),
    (8, "count", Number),
    (9, "type", Text),
    (10, "eventTime", Time),
    (11, "series", SERIES),
]);

const INVOLVED: Kind = Kind::Message(&[(1, "kind", Text), (3, "name", Text), (4, "uid", Text)]);

const SERIES: Kind = Kind::Message(&[(1, "count", Number), (2, "lastObservedTime", Time)]);

const JOB: Kind = Kind::Message(&[(1, "metadata", META), (2, "spec", JOB_SPEC), (3, "status", JOB_STATUS)]);

const JOB_SPEC: Kind = Kind::Message(&[
    (3, "activeDeadlineSeconds", Pointer),
    (6, "template", POD_TEMPLATE),
    (7, "backoffLimit", Pointer),
    (10, "suspend", Flag),
]);

const POD_TEMPLATE: Kind = Kind::Message(&[(2, "spec", POD_SPEC)]);

const JOB_STATUS: Kind = Kind::Message(&[
    (1, "conditions", Each(&CONDITION)),
    (2, "startTime", Time),
    (3, "completionTime", Time),
    (4, "active", Number),
    (5, "succeeded", Number),
    (6, "failed", Number),
]);
