//! Traces of a package's history in the cluster.
//!
//! A package with a requested uninstall and no node state was either uninstalled or never installed: the
//! operator keeps no record. These traces distinguish the two.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Certainty, Cluster, PackageRuns};
use crate::api::{ApiFlavor, Skyhook};

/// Evidence that a stage of some version of a package once ran, or could have run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageTrace {
    pub version: String,
    /// Whether the stage was part of an uninstall.
    pub uninstalled: bool,
    /// Whether the trace is from the current generation of the spec or the one before, so that the spec had
    /// no other version in between.
    pub just_before: bool,
    /// The node of the run, if known.
    pub node: Option<String>,
    /// Time of the last start, if known.
    pub at: Option<Timestamp>,
    /// `kind/name` of the object with the evidence.
    pub object: String,
    pub field: &'static str,
    pub message: String,
}

/// The versions in these traces, with a verb: `version 1.0.0 is`, `versions 1.0.0, 1.1.0 are`.
pub fn versions(traces: &[StageTrace], [singular, plural]: [&str; 2]) -> String {
    let versions: BTreeSet<&str> = traces.iter().map(|t| t.version.as_str()).collect();
    let versions = Vec::from_iter(versions);
    match versions.as_slice() {
        [one] => format!("version {one} {singular}"),
        several => format!("versions {} {plural}", several.join(", ")),
    }
}

/// The conclusion from the traces of a package.
#[derive(Debug, Clone, PartialEq)]
pub enum History {
    /// There are traces of the version in the spec: it was installed at some time, or could have been.
    Present(Vec<StageTrace>),
    /// There are traces of other versions only, latest first: the version in the spec was certainly never
    /// installed.
    OnlyOther(Vec<StageTrace>),
    /// No version was ever installed; the text is the proof.
    Never(String),
    /// The history is unknown, for example because traces have expired; the text is the reason.
    Unknown(String),
}

impl History {
    /// Whether the version in the spec was certainly never installed.
    pub fn excludes_spec_version(&self) -> bool {
        matches!(self, History::Never(_) | History::OnlyOther(_))
    }
}

/// Maximum number of seconds between the creation of a custom resource and its first event at which the
/// events count as complete.
const FIRST_EVENT_WITHIN: i64 = 60;

impl Cluster {
    /// Whether events that were not read could resolve an unknown history.
    pub fn past_may_be_in_events(&self, history: &History) -> bool {
        matches!(history, History::Unknown(_)) && self.events.ok().is_none()
    }

    /// The history of a package of a custom resource.
    pub fn history(&self, skyhook: &Skyhook, package: &str) -> History {
        self.history_among(&self.package_runs(), skyhook, package)
    }

    pub(super) fn history_among(
        &self,
        package_runs: &PackageRuns<'_>,
        skyhook: &Skyhook,
        package: &str,
    ) -> History {
        let Some(spec) = skyhook.package(package) else {
            return History::Unknown("the package is not in the spec".to_owned());
        };
        let traces = self.traces(package_runs, skyhook, package);
        let (same, mut other): (Vec<_>, Vec<_>) = traces.into_iter().partition(|t| t.version == spec.version);
        if !same.is_empty() {
            return History::Present(same);
        }
        if !other.is_empty() {
            other.sort_by_key(|t| Reverse((t.just_before, t.at)));
            let sure = self.events_cover_life(skyhook) || other.iter().any(|t| t.just_before);
            return if sure {
                History::OnlyOther(other)
            } else {
                let versions = versions(&other, ["is", "are"]);
                History::Unknown(format!("only {versions} recorded, and older records may have expired"))
            };
        }
        if let Some(older) = skyhook.mirrored_from() {
            return History::Unknown(format!(
                "the operator created the custom resource from the older {older}, whose history is unknown"
            ));
        }
        if let Some(why) = self.apply_was_there_from_the_start(skyhook, package) {
            return History::Never(why);
        }
        match self.events.absence() {
            Certainty::Proven if self.events_cover_life(skyhook) => History::Never(
                "the events cover the lifetime of the object, and none mentions the package".to_owned(),
            ),
            Certainty::Proven => History::Unknown("older events have expired".to_owned()),
            Certainty::Presumed => History::Unknown("the input has no events".to_owned()),
            Certainty::Unknown => History::Unknown("events could not be read".to_owned()),
        }
    }

    fn traces(&self, package_runs: &PackageRuns<'_>, skyhook: &Skyhook, package: &str) -> Vec<StageTrace> {
        let mut traces = self.traces_in_events(skyhook, package);
        traces.extend(traces_in_status(skyhook, package));
        traces.extend(traces_in_last_applied(skyhook, package));
        for package_run in package_runs.of(skyhook.name()) {
            if package_run.package == package {
                traces.push(StageTrace {
                    version: package_run.version.clone(),
                    uninstalled: package_run.stage.is_uninstall(),
                    node: Some(package_run.node.to_owned()),
                    object: package_run.reference(),
                    field: "stage",
                    message: package_run.stage.to_string(),
                    ..StageTrace::default()
                });
            }
        }
        for (node, on) in self.tracked(skyhook.name()) {
            for entry in on.entries().iter().filter(|e| e.name == package) {
                traces.push(StageTrace {
                    version: entry.version.to_string(),
                    uninstalled: entry.stage.is_uninstall(),
                    node: Some(node.name.to_string()),
                    object: node.reference(),
                    field: "nodeState",
                    message: format!("{} {}/{}", entry.key, entry.stage, entry.state),
                    ..StageTrace::default()
                });
            }
        }
        traces
    }

    /// Events such as `Applying package [driver:2.0.1] to node [n] stage [uninstall]`, on the
    /// custom resource or on a node.
    fn traces_in_events(&self, skyhook: &Skyhook, package: &str) -> Vec<StageTrace> {
        let start = format!("[{package}:");
        let from = format!("[{}:{}]", self.flavor().name(), skyhook.name());
        let from_old = format!("[{}:{}]", ApiFlavor::Skyhook.name(), skyhook.name());
        let born = skyhook.metadata.creation_timestamp;
        let mut traces = Vec::new();
        for event in self.events_mentioning(skyhook.name()) {
            let ours = if event.kind == "Node" {
                event.message.contains(&from) || event.message.contains(&from_old)
            } else {
                event.name == skyhook.name() && skyhook.metadata.uid.as_deref() == Some(&event.uid)
            };
            // A deleted object of the same name left events on nodes as well.
            if !ours || event.last < born {
                continue;
            }
            let Some((_, rest)) = event.message.split_once(&start) else {
                continue;
            };
            let Some((version, _)) = rest.split_once(']') else {
                continue;
            };
            let node = if event.kind == "Node" {
                Some(event.name.as_str())
            } else {
                rest.split_once("to node [").and_then(|(_, rest)| rest.split_once(']')).map(|(node, _)| node)
            };
            traces.push(StageTrace {
                version: version.to_owned(),
                uninstalled: event.message.contains("stage [uninstall"),
                node: node.map(str::to_owned),
                at: event.last.filter(|_| event.message.contains("stage [")),
                object: format!("event/{} of {}/{}", event.reason, event.kind.to_lowercase(), event.name),
                field: "message",
                message: event.message.clone(),
                ..StageTrace::default()
            });
        }
        traces
    }

    /// Whether the events of the object reach back to its first minute.
    fn events_cover_life(&self, skyhook: &Skyhook) -> bool {
        let Some(born) = skyhook.metadata.creation_timestamp else {
            return false;
        };
        if skyhook.mirrored_from().is_some() {
            return false;
        }
        let own = self
            .events_about(&skyhook.kind, skyhook.name())
            .filter(|e| skyhook.metadata.uid.as_deref() == Some(&e.uid));
        let first = own.filter_map(|e| e.first).min();
        first.is_some_and(|first| (first.as_second() - born.as_second()) <= FIRST_EVENT_WITHIN)
    }

    /// Proof that the package was never installed: its uninstall has been requested since the creation of the
    /// object.
    fn apply_was_there_from_the_start(&self, skyhook: &Skyhook, package: &str) -> Option<String> {
        let meta = &skyhook.metadata;
        let kind = &skyhook.kind;
        if meta.generation == 1 {
            return Some(format!("generation 1: the spec of the {kind} has not changed since its creation"));
        }
        let born = meta.creation_timestamp?;
        let writer = meta.managed_fields.iter().find(|m| {
            let uninstall = &m.fields["f:spec"]["f:packages"][format!("f:{package}")]["f:uninstall"];
            !uninstall["f:apply"].is_null()
        });
        if let Some(writer) = writer
            && writer.time.is_some_and(|t| (t.as_second() - born.as_second()).abs() <= 1)
        {
            return Some(format!(
                "managedFields: {} set uninstall.apply when it created the {kind}",
                writer.manager
            ));
        }
        // The older operator's first write fills in the names of packages, which counts as a change.
        let applied = skyhook.last_applied()?;
        let applied = &applied["spec"]["packages"][package];
        let named_by_operator = applied["name"].is_null();
        let asked_then = applied["uninstall"]["apply"].as_bool() == Some(true);
        (meta.generation == 2 && skyhook.flavor() == Some(ApiFlavor::Skyhook) && named_by_operator && asked_then)
            .then(|| "generation 2: only the operator has changed the spec since the object was created with uninstall.apply: true".to_owned())
    }
}

fn traces_in_status(skyhook: &Skyhook, package: &str) -> Option<StageTrace> {
    let condition = skyhook.condition("ApplyPackage")?;
    let (_, rest) = condition.message.split_once(&format!("[{package}:"))?;
    let (version, _) = rest.split_once(']')?;
    Some(StageTrace {
        version: version.to_owned(),
        just_before: condition.observed_generation? + 1 >= skyhook.metadata.generation,
        object: skyhook.reference(),
        field: "condition ApplyPackage",
        message: condition.message.to_string(),
        ..StageTrace::default()
    })
}

/// The trace of a manifest that was applied without `apply: true`: the package could be installed at that
/// time.
fn traces_in_last_applied(skyhook: &Skyhook, package: &str) -> Option<StageTrace> {
    let applied = skyhook.last_applied()?;
    let applied = applied["spec"]["packages"].get(package)?;
    let version = applied["version"].as_str()?;
    if applied["uninstall"]["apply"].as_bool() == Some(true) {
        return None;
    }
    Some(StageTrace {
        version: version.to_owned(),
        object: skyhook.reference(),
        field: "last-applied-configuration",
        message: format!("{package} {version} was applied without uninstall.apply: true"),
        ..StageTrace::default()
    })
}

impl Skyhook {
    /// The manifest of the last `kubectl apply`.
    pub fn last_applied(&self) -> Option<serde_json::Value> {
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        serde_json::from_str(self.metadata.annotations.get(key)?).ok()
    }
}
