//! The text and the JSON document of `leftovers`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::leftover::{Leftover, LeftoverObject};
use crate::cluster::{Certainty, Cluster, NodeRecord};
use crate::commands::shared::grouped::grouped;
use crate::plan::build::node;
use crate::view::text::{self, Text};
use crate::view::{API_VERSION, NodeSet, Table, View, cells, plural, to_json};

/// Runs of names that are shown before the rest is only counted.
const SHOWN: usize = 6;

/// What `leftovers` answers.
pub struct Leftovers<'a> {
    pub cluster: &'a Cluster,
    pub left: Vec<Leftover<'a>>,
    /// Some places could not be looked at.
    pub unread: bool,
    /// Nothing is left but records of packages, which only `--purge-state` removes.
    pub only_records: bool,
    /// No custom resource in particular was asked about.
    pub all: bool,
}

/// What custom resources that are gone left on nodes and in the cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    api_version: &'static str,
    /// Always `LeftoverList`.
    kind: &'static str,
    items: Vec<LeftoverEntry<'a>>,
    /// Nodes that keep the runtime-required taint, which no custom resource will lift.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tainted: Vec<&'a str>,
    /// Nodes that carry the note that the operator tainted them, for no custom resource: they do not count as new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    auto_tainted: Vec<&'a str>,
}

/// Something left behind.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LeftoverEntry<'a> {
    /// The custom resource that it belonged to.
    owner: &'a str,
    /// The API of the owner.
    api: String,
    reason: &'static str,
    object: ObjectRef<'a>,
    /// Annotations and labels, without prefix and name.
    keys: Vec<&'a str>,
    /// Types of node conditions, without prefix and name.
    conditions: &'a [String],
    /// The node is unschedulable, and marked as cordoned for the owner.
    cordoned: bool,
    /// Packages whose files may still be on the host.
    packages: Vec<Recorded<'a>>,
}

#[derive(Serialize, JsonSchema)]
struct ObjectRef<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    name: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct Recorded<'a> {
    name: &'a str,
    version: &'a str,
    stage: &'a str,
    state: &'a str,
}

impl<'a> Leftover<'a> {
    fn object(&self) -> ObjectRef<'a> {
        let (kind, meta) = match self.place {
            LeftoverObject::Node(node, _) => {
                return ObjectRef {
                    kind: "Node",
                    namespace: None,
                    name: &node.name,
                };
            }
            LeftoverObject::Pod(pod) => ("Pod", &pod.metadata),
            LeftoverObject::Job(job) => ("Job", &job.metadata),
            LeftoverObject::ConfigMap(map) => ("ConfigMap", &map.metadata),
        };
        ObjectRef {
            kind,
            namespace: meta.namespace.as_deref(),
            name: &meta.name,
        }
    }

    fn item(&self) -> LeftoverEntry<'a> {
        let record = |on: &'a NodeRecord| {
            let entries = on.entries().iter().map(|entry| Recorded {
                name: &entry.name,
                version: &entry.version,
                stage: entry.stage.as_str(),
                state: entry.state.as_str(),
            });
            entries.collect()
        };
        let (on, unschedulable) = match self.place {
            LeftoverObject::Node(node, on) => (Some(on), node.unschedulable),
            _ => (None, false),
        };
        LeftoverEntry {
            owner: self.owner,
            api: self.flavor.api_version(),
            reason: self.reason,
            object: self.object(),
            keys: on.map_or_else(Vec::new, NodeRecord::left),
            conditions: on.map_or(&[], |on| &on.conditions),
            cordoned: unschedulable && on.is_some_and(|on| on.cordon),
            packages: on.map_or_else(Vec::new, record),
        }
    }

    /// What it is, in one line that is the same for like things.
    fn what(&self) -> String {
        let (node, on) = match self.place {
            LeftoverObject::Node(node, on) => (node, on),
            LeftoverObject::Pod(_) => return "pod".to_owned(),
            LeftoverObject::Job(_) => return "job".to_owned(),
            LeftoverObject::ConfigMap(_) => return "config map".to_owned(),
        };
        let recorded = node::is_recorded(on);
        let mut parts = Vec::new();
        if recorded {
            let entries = on.entries().iter();
            let packages: Vec<String> = entries
                .map(|e| format!("{} {}", e.name, e.version))
                .collect();
            parts.push(format!("record of {}", packages.join(", ")));
        }
        let keys: Vec<&str> = on
            .left()
            .into_iter()
            .filter(|key| *key != "cordon")
            .filter(|key| !recorded || !matches!(*key, "nodeState" | "version"))
            .collect();
        if !keys.is_empty() {
            parts.push(keys.join(", "));
        }
        if on.cordon {
            let holds = if node.unschedulable {
                "cordon"
            } else {
                "cordon mark"
            };
            parts.push(holds.to_owned());
        }
        if !on.conditions.is_empty() {
            parts.push(plural(on.conditions.len(), "condition"));
        }
        parts.join("; ")
    }
}

impl Leftovers<'_> {
    /// The runtime-required taints and their notes that nobody looks after. No command of ours takes them away: nodes
    /// may be closed on purpose.
    fn closed(&self) -> Text {
        let mut text = Text::new();
        if !self.all {
            return text;
        }
        let [tainted, auto_tainted] = self.cluster.closed_for_nobody();
        if !tainted.is_empty() {
            let set = NodeSet::of(&tainted);
            text.paragraph(text::warning(format!(
                "The runtime-required taint stays on {}, and no custom resource will remove it: see kubectl skyhook \
                 diagnose stuck --rule SKY405",
                set.limited(SHOWN)
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
}

impl View for Leftovers<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        let closed = self.closed();
        if self.left.is_empty() {
            let nodes = plural(self.cluster.nodes.items().len(), "node");
            if !closed.is_empty() {
                text.append(closed);
            } else if self.unread {
                let reason = "No leftovers found, but some objects could not be read";
                text.line(text::warning(reason));
            } else {
                text.line(text::good("No leftovers of deleted custom resources found"));
            }
            text.line(text::dim(format!("Checked {nodes}.")));
            return text;
        }
        let alike = self.left.iter().enumerate().map(|(at, one)| {
            let alone = wide.then_some(at);
            let key = (one.owner, one.flavor, one.reason, one.what(), alone);
            (key, one)
        });
        let presumed = self.cluster.skyhooks.absence() == Certainty::Presumed;
        // What wraps comes last.
        let owner = if presumed { "owner" } else { "former owner" };
        let headings = [owner, "on", "count", "left", "reason"];
        let shown = if wide { 5 } else { 4 };
        let mut table = Table::new(&headings[..shown]).prose();
        for ((owner, flavor, reason, what, _), all) in grouped(alike) {
            let set = NodeSet::of(all.iter().map(|one| one.object().name));
            // The names of pods are long, and would leave no room for what wraps.
            let (on, left) = match all[0].place {
                LeftoverObject::Node(..) => (set.limited(SHOWN), what),
                _ => (String::new(), format!("{what} {}", set.limited(SHOWN))),
            };
            let row = cells![
                text::name(format!("{}/{owner}", flavor.name())),
                on,
                set.len(),
                left,
                reason
            ];
            table.row(row.into_iter().take(shown));
        }
        text.table(table);
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
            text.paragraph(text::warning(format!(
                "The input has no {} objects: it is unknown whether these custom resources still exist. Check with \
                 `kubectl get {}` before you remove anything.",
                flavor.kind(),
                flavor.resource(),
            )));
        } else {
            let purge = if self.only_records {
                " --purge-state"
            } else {
                ""
            };
            text.line(text::dim(format!(
                "to remove the leftovers: kubectl skyhook leftovers --clean{purge}"
            )));
        }
        if !closed.is_empty() {
            text.blank();
            text.append(closed);
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for object in self.left.iter().map(Leftover::object) {
            let name = format!("{}/{}", object.kind.to_lowercase(), object.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn document(&self) -> Value {
        let [tainted, auto_tainted] = if self.all {
            self.cluster.closed_for_nobody()
        } else {
            Default::default()
        };
        to_json(&Document {
            api_version: API_VERSION,
            kind: "LeftoverList",
            items: self.left.iter().map(Leftover::item).collect(),
            tainted,
            auto_tainted,
        })
    }
}
