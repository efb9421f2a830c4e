//! The effects of resuming the operator's work on a custom resource.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::model::Model;
use crate::plan::Consequences;
use crate::plan::planners::{batches, effects};
use crate::rules::{Finding, Grade};

/// The effects of resuming the operator's work on a custom resource, on some nodes or on all.
pub struct ResumeEffects<'a> {
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    /// `None` if the effects are unknown.
    effects: Option<Begun>,
    /// See [`ResumeEffects::grade_with_later`].
    with_later: OnceCell<Grade>,
}

/// What remedies say of the work that begins: there may be one for each custom resource.
struct Begun {
    /// `None` if nothing begins.
    grade: Option<Grade>,
    /// Whether nodes are drained for interrupts.
    interrupts: bool,
    warning: Option<String>,
}

impl<'a> ResumeEffects<'a> {
    pub fn everywhere(cluster: &'a Cluster, skyhook: &'a Skyhook) -> ResumeEffects<'a> {
        let nodes: Vec<&Node> = cluster.selected(skyhook).collect();
        ResumeEffects::on_nodes(cluster, skyhook, &nodes)
    }

    pub fn on_nodes(cluster: &'a Cluster, skyhook: &'a Skyhook, nodes: &[&Node]) -> ResumeEffects<'a> {
        let effects = effects(cluster, skyhook, nodes);
        ResumeEffects { cluster, skyhook, effects, with_later: OnceCell::new() }
    }

    /// The grade of the custom resource's own work.
    pub fn grade(&self) -> Grade {
        match &self.effects {
            Some(effects) => effects.grade.unwrap_or(Grade::B1),
            None => Grade::B3,
        }
    }

    /// The grade of a command that resumes the work, including that of later custom resources that wait for it
    /// on a node.
    fn grade_with_later(&self, model: &Model<'_>) -> Grade {
        let grade = || {
            let unfinished =
                |other: &Skyhook, node: &Node| other.is_active() && !model.is_done_on(other, node);
            let nodes = self.cluster.selected(self.skyhook);
            let waiting = nodes.flat_map(|node| {
                let selecting = self.cluster.selecting(node);
                selecting
                    .filter(|other| other.order() > self.skyhook.order())
                    .filter(move |other| unfinished(other, node))
            });
            waiting.map(batches::grade_of_next).fold(self.grade(), Grade::max)
        };
        *self.with_later.get_or_init(grade)
    }

    /// Adds the command that resumes the work, with a caveat about packages that then run.
    pub fn offer<'f>(
        &self,
        finding: &'f mut Finding,
        model: &Model<'_>,
        title: &str,
        verb: &str,
    ) -> &'f mut Finding {
        let nothing = self.effects.as_ref().filter(|e| e.grade.is_none());
        let runs = if self.interrupts() {
            Some("its packages run, including their interrupts")
        } else if let Some(nothing) = nothing {
            // The warning explains why the remaining work does not start.
            nothing.warning.as_deref()
        } else {
            Some("its packages run")
        };
        self.command(finding, model, title, verb, runs)
    }

    /// Adds the command that resumes a deletion.
    pub fn offer_deleting<'f>(
        &self,
        finding: &'f mut Finding,
        model: &Model<'_>,
        title: &str,
        verb: &str,
    ) -> &'f mut Finding {
        let runs = if self.interrupts() {
            "the uninstall runs on every node, followed by the packages' interrupts"
        } else {
            "the uninstall runs on every node"
        };
        self.command(finding, model, title, verb, Some(runs))
    }

    /// Adds the command. While pods of the older operator run, the command would be refused: adds a wait for them
    /// instead.
    fn command<'f>(
        &self,
        finding: &'f mut Finding,
        model: &Model<'_>,
        title: &str,
        verb: &str,
        runs: Option<&str>,
    ) -> &'f mut Finding {
        let name = self.skyhook.name();
        if !self.cluster.runs_of_older_operator(name).is_empty() {
            let selector = format!("{}={name}", self.cluster.flavor().other().key("name"));
            return finding
                .kubectl(
                    Grade::B0,
                    "Wait until the pods of the older operator end",
                    ["get", "pods", "-A", "-l", &selector],
                )
                .caveat(format!("then: kubectl skyhook {verb} {name}"));
        }
        finding.remedy(self.grade_with_later(model), title, [verb, name]);
        match runs {
            Some(runs) => finding.caveat(runs),
            None => finding,
        }
    }

    /// Whether the work includes interrupts; true if the effects are unknown.
    fn interrupts(&self) -> bool {
        self.effects.as_ref().is_none_or(|e| e.interrupts)
    }
}

/// The effects on all nodes by custom resource, each calculated once, for rules that report many nodes.
#[derive(Default)]
pub struct ResumeEffectsByName<'a>(HashMap<&'a str, ResumeEffects<'a>>);

impl<'a> ResumeEffectsByName<'a> {
    pub fn with(&mut self, cluster: &'a Cluster, skyhook: &'a Skyhook) -> &ResumeEffects<'a> {
        let known = self.0.entry(skyhook.name());
        known.or_insert_with(|| ResumeEffects::everywhere(cluster, skyhook))
    }
}

/// The effects of resuming. `None` if nodes or their states cannot be read, or if the spec has changed since the
/// custom resource was complete, which no node state shows yet.
fn effects(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node]) -> Option<Begun> {
    cluster.nodes.ok()?;
    let unreadable = |n: &&Node| {
        let on = cluster.on_node(n, skyhook.name());
        on.is_some_and(NodeRecord::is_malformed)
    };
    if nodes.iter().any(unreadable) {
        return None;
    }
    let mut effects = Consequences::default();
    effects::begins(cluster, skyhook, nodes, &mut effects);
    let changed = skyhook.status.observed_generation < skyhook.metadata.generation;
    // If nothing begins after a change of the spec, the node states do not show the change yet. A warning about
    // a permanent failure is another reason that nothing begins.
    let unknown = effects.grade.is_none() && changed && effects.warnings.is_empty();
    let Consequences { grade, drains, warnings, .. } = effects;
    (!unknown).then(|| Begun { grade, interrupts: drains > 0, warning: warnings.into_iter().next() })
}
