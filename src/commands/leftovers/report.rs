//! The text and the JSON document of `leftovers`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::ApiFlavor;
use crate::cluster::leftover::{Leftover, LeftoverObject, Remnant};
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, active_api};
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::rows::cordon_holders;
use crate::plan::planners::node;
use crate::view::text::{self, Text};
use crate::view::{Joined, NodeSet, Table, View, cells, document, plural};

/// Maximum number of name ranges before the rest is counted.
const SHOWN: usize = 6;

/// The output of `leftovers`.
pub struct Leftovers<'a> {
    pub cluster: &'a Cluster,
    pub left: Vec<Leftover<'a>>,
    /// The objects of a removed operator's installation.
    pub remnants: Vec<Remnant<'a>>,
    pub unread: bool,
    /// Whether only package records remain, which require `--purge-state`.
    pub only_records: bool,
    /// The nodes that the command names; `None` for all nodes.
    pub nodes: Option<Vec<&'a Node>>,
    /// Whether the output covers all custom resources.
    pub all: bool,
}

/// Leftovers of deleted custom resources on nodes and in the cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The leftovers of deleted custom resources.
    items: Vec<LeftoverEntry<'a>>,
    /// Cluster-scoped objects of the installation that remain although the operator was removed. No command
    /// deletes them.
    installation: &'a [Remnant<'a>],
    /// Nodes with the runtime-required taint that no custom resource will remove.
    tainted: Vec<&'a str>,
    /// Nodes with the operator's `autoTaint` annotation that no custom resource needs; such nodes do not
    /// count as new.
    auto_tainted: Vec<&'a str>,
    /// Deployment policies of the older API that no Skyhook uses. No command deletes them.
    older_policies: Vec<&'a str>,
}

/// An object, or the data on a node, that a custom resource left behind.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LeftoverEntry<'a> {
    /// The former owner: a custom resource.
    skyhook: &'a str,
    /// The API group and version of the owner.
    api: String,
    /// Why the object counts as a leftover.
    #[serde(rename = "message")]
    reason: &'static str,
    /// The object; for data on a node, the node.
    object: ObjectRef<'a>,
    /// The node; absent if the leftover is not on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    /// Why the object cannot be attributed to the operator; such objects are never deleted. Absent if it can
    /// be attributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    unproven: Option<String>,
    /// The annotations and labels on the node, without prefix and custom resource name.
    keys: Vec<&'a str>,
    /// The types of the conditions on the node, without prefix and custom resource name.
    conditions: &'a [String],
    /// Whether the node is unschedulable and marked as cordoned for the custom resource.
    cordoned: bool,
    /// Recorded packages, whose files may still be on the host.
    packages: Vec<Recorded<'a>>,
}

/// A reference to an object.
#[derive(Serialize, JsonSchema)]
struct ObjectRef<'a> {
    /// The kind.
    kind: &'static str,
    /// The namespace; absent for a cluster-scoped object.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    /// The name.
    name: &'a str,
}

/// A package in a node state.
#[derive(Serialize, JsonSchema)]
struct Recorded<'a> {
    /// The package.
    #[serde(rename = "name")]
    package: &'a str,
    /// The recorded version.
    version: &'a str,
    /// The recorded stage.
    stage: &'a str,
    /// The recorded state of the stage.
    state: &'a str,
}

impl ObjectRef<'_> {
    fn place(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

fn object<'a>(left: &Leftover<'a>) -> ObjectRef<'a> {
    let (kind, meta) = match left.place {
        LeftoverObject::Node(node, _) | LeftoverObject::Cordon(node, _) => {
            return ObjectRef { kind: "Node", namespace: None, name: &node.name };
        }
        LeftoverObject::Pod(pod) => ("Pod", &pod.metadata),
        LeftoverObject::Job(job) => ("Job", &job.metadata),
        LeftoverObject::ConfigMap(map) => ("ConfigMap", &map.metadata),
    };
    ObjectRef { kind, namespace: meta.namespace.as_deref(), name: &meta.name }
}

/// The object as `configmap/skyhook/gpu-tune-driver-1.0.0`.
pub fn reference(left: &Leftover<'_>) -> String {
    let object = object(left);
    format!("{}/{}", object.kind.to_lowercase(), object.place())
}

fn item<'a>(left: &Leftover<'a>) -> LeftoverEntry<'a> {
    let record = |on: &'a NodeRecord| {
        on.entries()
            .iter()
            .map(|entry| Recorded {
                package: &entry.name,
                version: &entry.version,
                stage: entry.stage.as_str(),
                state: entry.state.as_str(),
            })
            .collect()
    };
    let (node, on) = match left.place {
        LeftoverObject::Node(node, on) => (Some(node), Some(on)),
        LeftoverObject::Cordon(node, _) => (Some(node), None),
        _ => (None, None),
    };
    let only_cordon = matches!(left.place, LeftoverObject::Cordon(..));
    let cordoned = node.is_some_and(|node| node.cordoned() == Some(true));
    LeftoverEntry {
        skyhook: left.owner,
        api: left.flavor.api_version(),
        reason: left.reason,
        object: object(left),
        node: node.map(|node| node.name.as_str()),
        unproven: left.unproven.as_ref().map(ToString::to_string),
        keys: on
            .map_or_else(|| if only_cordon { vec!["cordon"] } else { vec![] }, NodeRecord::remaining_keys),
        conditions: on.map_or(&[], |on| &on.conditions),
        cordoned: cordoned && (only_cordon || on.is_some_and(|on| on.cordon)),
        packages: on.map_or_else(Vec::new, record),
    }
}

/// The leftover in one line, the same text for equal leftovers.
fn what(left: &Leftover<'_>) -> String {
    let (node, on) = match left.place {
        LeftoverObject::Node(node, on) => (node, on),
        LeftoverObject::Cordon(node, _) => return cordon(node).to_owned(),
        LeftoverObject::Pod(_) => return "pod".to_owned(),
        LeftoverObject::Job(_) => return "job".to_owned(),
        LeftoverObject::ConfigMap(_) => return "ConfigMap".to_owned(),
    };
    let recorded = node::is_recorded(on);
    let mut parts = Vec::new();
    if recorded {
        let packages = on.entries().iter().map(|e| format!("{} {}", e.name, e.version)).joined(", ");
        parts.push(format!("record of {packages}"));
    }
    let keys: Vec<&str> = on
        .remaining_keys()
        .into_iter()
        .filter(|key| *key != "cordon")
        .filter(|key| !recorded || !matches!(*key, "nodeState" | "version"))
        .collect();
    if !keys.is_empty() {
        parts.push(keys.join(", "));
    }
    if on.cordon {
        parts.push(cordon(node).to_owned());
    }
    if !on.conditions.is_empty() {
        parts.push(plural(on.conditions.len(), "condition"));
    }
    parts.join("; ")
}

fn cordon(node: &Node) -> &'static str {
    if node.cordoned() == Some(true) { "cordon" } else { "cordon mark" }
}

impl Leftovers<'_> {
    /// Deployment policies of the older API that no Skyhook uses.
    fn older_policies(&self) -> Vec<&str> {
        let all = if self.all { active_api::unused_policies(self.cluster) } else { Vec::new() };
        all.into_iter().map(|policy| policy.metadata.name.as_str()).collect()
    }

    /// What no command removes: policies of the older API, and nodes with a runtime-required taint or an
    /// `autoTaint` annotation that no custom resource needs. Someone may keep workloads off these nodes on
    /// purpose.
    fn kept_for_users(&self) -> Text {
        let mut text = Text::new();
        if !self.all {
            return text;
        }
        let [tainted, auto_tainted] = self.cluster.leftovers().closed_for_nobody();
        if !tainted.is_empty() {
            let set = NodeSet::of(&tainted);
            text.paragraph(text::warning(format!(
                "The runtime-required taint stays on {}, and no custom resource will remove it: see kubectl skyhook \
                 diagnose stuck --rule SKY405",
                set.limited(SHOWN)
            )));
        }
        let policies = self.older_policies();
        if !policies.is_empty() {
            let resource = format!("deploymentpolicies.{}", ApiFlavor::Skyhook.group());
            text.paragraph(text::warning(format!(
                "Deployment policies of the older API remain, and no Skyhook uses them. Once no rollback is planned: kubectl \
                 delete {resource} {}",
                policies.join(" ")
            )));
        }
        if !auto_tainted.is_empty() {
            let set = NodeSet::of(&auto_tainted);
            let key = self.cluster.flavor().key("autoTaint_");
            text.paragraph(text::dim(format!(
                "The annotation {key}… stays on {}: a node with this annotation does not count as new and is not tainted.",
                set.limited(SHOWN)
            )));
        }
        text
    }

    /// The holders of the cordons of the named nodes.
    fn cordons(&self) -> Text {
        let mut text = Text::new();
        let cordoned = self.nodes.iter().flatten().filter(|node| node.cordoned() == Some(true));
        let by_holders =
            cordoned.map(|node| (cordon_holders(self.cluster, node).join("; "), node.name.as_str()));
        for (holders, nodes) in grouped(by_holders) {
            text.paragraph(format!("{} cordoned by: {holders}", NodeSet::of(nodes).limited(SHOWN)));
        }
        text
    }

    /// Objects that are never deleted, with the reason.
    fn not_ours(&self) -> Text {
        let mut text = Text::new();
        for (why, objects) in super::unproven(&self.left) {
            let set = NodeSet::of(&objects).limited(SHOWN);
            text.blank();
            text.paragraph(text::warning(format!("{set}: {} ({why}); never deleted", why.verdict())));
        }
        text
    }

    /// The remaining objects of the installation, with the commands that delete them.
    fn of_installation(&self) -> Text {
        let mut text = Text::new();
        let alike = self.remnants.iter().map(|one| (one.resource, one.name));
        for (number, (resource, names)) in grouped(alike).into_iter().enumerate() {
            if number == 0 {
                text.blank();
                let line = "The operator is gone, but objects of its installation remain. If the operator will not be \
                            installed again, delete these objects:";
                text.paragraph(text::warning(line));
            }
            text.line(format!("  kubectl delete {resource} {}", names.join(" ")));
        }
        text
    }
}

impl View for Leftovers<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        let kept_for_users = self.kept_for_users();
        if self.left.is_empty() && self.remnants.is_empty() {
            let nodes = self.nodes.as_ref().map_or(self.cluster.nodes.items().len(), Vec::len);
            let nodes = plural(nodes, "node");
            if !kept_for_users.is_empty() {
                text.append(kept_for_users);
            } else if self.unread {
                let reason = "No leftovers found, but some objects could not be read";
                text.line(text::warning(reason));
            } else {
                text.line(text::good("No leftovers of deleted custom resources found"));
            }
            text.append(self.cordons());
            text.line(text::dim(format!("Checked {nodes}.")));
            return text;
        }
        let alike = self.left.iter().filter(|one| one.unproven.is_none()).enumerate().map(|(at, one)| {
            let alone = wide.then_some(at);
            let key = (one.owner, one.flavor, one.reason, what(one), alone);
            (key, one)
        });
        let unseen = |one: &Leftover<'_>| {
            one.flavor != self.cluster.flavor() || self.cluster.skyhook(one.owner).is_none()
        };
        let presumed = self.cluster.skyhooks_absence() == Certainty::Presumed && self.left.iter().any(unseen);
        // The wrapped column comes last.
        let owner = if presumed { "owner" } else { "former owner" };
        let headings = [owner, "on", "count", "left", "reason"];
        let shown = if wide { 5 } else { 4 };
        let mut table = Table::new(&headings[..shown]).wrap_last();
        for ((owner, flavor, reason, what, _), all) in grouped(alike) {
            let set = NodeSet::of(all.iter().map(|one| object(one).place()));
            // Pod names are long, and would leave no room for wrapped columns.
            let (on, left) = match all[0].place {
                LeftoverObject::Node(..) | LeftoverObject::Cordon(..) => (set.limited(SHOWN), what),
                _ => (String::new(), format!("{what} {}", set.limited(SHOWN))),
            };
            let row = cells![text::name(format!("{}/{owner}", flavor.name())), on, set.len(), left, reason];
            table.row(row.into_iter().take(shown));
        }
        text.table(table);
        text.append(self.cordons());
        text.append(self.not_ours());
        text.append(self.of_installation());
        let removable = self.left.iter().any(|one| one.unproven.is_none());
        let recorded = self
            .left
            .iter()
            .filter(|l| !l.is_copy())
            .any(|l| matches!(l.place, LeftoverObject::Node(_, on) if node::is_recorded(on)));
        text.blank();
        if recorded {
            text.paragraph(text::dim(
                "A record shows that package files may still be on the host; the record is kept unless \
                 --purge-state is given.",
            ));
        }
        if presumed {
            let flavor = self.cluster.flavor();
            let lacks = if self.cluster.skyhooks.items().is_empty() { "has no" } else { "may lack some" };
            text.paragraph(text::warning(format!(
                "The capture {lacks} {} objects: it is unknown whether these custom resources still exist. \
                 Check with `kubectl get {}` before you remove anything.",
                flavor.kind(),
                flavor.resource(),
            )));
        } else if removable {
            let purge = if self.only_records { " --purge-state" } else { "" };
            text.line(text::dim(format!(
                "to remove the leftovers: kubectl skyhook leftovers --clean{purge}"
            )));
        }
        if !kept_for_users.is_empty() {
            text.blank();
            text.append(kept_for_users);
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.left.iter().filter(|one| one.unproven.is_none()).map(reference) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let remnants = self.remnants.iter();
        names.extend(self.older_policies().iter().map(|name| format!("deploymentpolicy/{name}")));
        names.extend(remnants.map(|one| format!("{}/{}", one.kind.to_lowercase(), one.name)));
        names
    }

    fn document(&self) -> Value {
        let [tainted, auto_tainted] =
            if self.all { self.cluster.leftovers().closed_for_nobody() } else { Default::default() };
        let fields = Document {
            items: self.left.iter().map(item).collect(),
            installation: &self.remnants,
            tainted,
            auto_tainted,
            older_policies: self.older_policies(),
        };
        document("LeftoverList", &fields)
    }
}
