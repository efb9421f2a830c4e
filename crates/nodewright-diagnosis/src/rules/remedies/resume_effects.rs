//! The effects of resuming the operator's work on a custom resource.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::model::{Model, Simulation};
use crate::plan::planners::effects::{permanently_failed, stays_failed};
use crate::rules::{Finding, Grade};

/// The operator's work without pauses, ignore labels and other obstacles, simulated for each custom resource when a rule
/// first needs it.
pub struct ResumedWork<'a> {
    cluster: &'a Cluster,
    model: Rc<Model<'a>>,
    work: RefCell<HashMap<&'a str, Rc<StartsByNode<'a>>>>,
    /// The effects on all nodes, by custom resource: findings on thousands of nodes may ask.
    everywhere: RefCell<HashMap<&'a str, Rc<ResumeEffects<'a>>>>,
}

/// The packages that start on each node, with the types of their interrupts.
type StartsByNode<'a> = HashMap<&'a str, Box<[(&'a str, Option<&'a str>)]>>;

impl<'a> ResumedWork<'a> {
    pub fn new(cluster: &'a Cluster, model: Rc<Model<'a>>) -> ResumedWork<'a> {
        ResumedWork { cluster, model, work: RefCell::default(), everywhere: RefCell::default() }
    }

    fn simulated(&self, skyhook: &'a Skyhook) -> StartsByNode<'a> {
        let work = Simulation::unhindered_alone(&self.model, skyhook).work().into_iter();
        let starts = work.map(|((_, node), work)| {
            (node, work.packages.iter().map(|((package, _), kind)| (*package, *kind)).collect())
        });
        starts.collect()
    }

    /// The effects of resuming the work on all nodes.
    pub fn everywhere(&self, skyhook: &Skyhook) -> Rc<ResumeEffects<'a>> {
        if let Some(known) = self.everywhere.borrow().get(skyhook.name()) {
            return Rc::clone(known);
        }
        let skyhook = self.own(skyhook);
        let nodes: Vec<&Node> = self.cluster.selected(skyhook).collect();
        // The work on each node is not kept: it would be much for many custom resources.
        let effects = self.effects(skyhook, &nodes, || Rc::new(self.simulated(skyhook)));
        let effects = Rc::new(self.resumed(skyhook, effects));
        self.everywhere.borrow_mut().insert(skyhook.name(), Rc::clone(&effects));
        effects
    }

    /// The effects of resuming the work on a node.
    pub fn on_node(&self, skyhook: &Skyhook, node: &Node) -> ResumeEffects<'a> {
        let skyhook = self.own(skyhook);
        let work = || {
            let mut known = self.work.borrow_mut();
            Rc::clone(known.entry(skyhook.name()).or_insert_with(|| Rc::new(self.simulated(skyhook))))
        };
        let effects = self.effects(skyhook, &[node], work);
        self.resumed(skyhook, effects)
    }

    fn own(&self, skyhook: &Skyhook) -> &'a Skyhook {
        self.cluster.skyhook(skyhook.name()).expect("rules ask about custom resources of the cluster")
    }

    fn resumed(&self, skyhook: &'a Skyhook, effects: Option<Begun>) -> ResumeEffects<'a> {
        ResumeEffects { cluster: self.cluster, skyhook, effects }
    }

    /// `None` if nodes or their states cannot be read, or if the spec has changed since the custom resource was complete,
    /// which no node state shows yet.
    fn effects(
        &self,
        skyhook: &Skyhook,
        nodes: &[&Node],
        work: impl FnOnce() -> Rc<StartsByNode<'a>>,
    ) -> Option<Begun> {
        let cluster = self.cluster;
        cluster.nodes.ok()?;
        let unreadable =
            |node: &&Node| cluster.on_node(node, skyhook.name()).is_some_and(NodeRecord::is_malformed);
        if nodes.iter().any(unreadable) {
            return None;
        }
        let work = work();
        let failed = permanently_failed(cluster, skyhook, nodes);
        let mut kinds: BTreeSet<Option<&str>> = BTreeSet::new();
        for node in nodes.iter().map(|node| node.name.as_str()) {
            let starts = work.get(node).into_iter().flatten();
            let starts =
                starts.filter(|(package, _)| failed.get(*package).is_none_or(|nodes| !nodes.contains(&node)));
            kinds.extend(starts.map(|(_, kind)| *kind));
        }
        let grade = kinds.iter().map(|kind| Grade::of_rerun(*kind)).max();
        let mut stays = failed.iter().map(|(package, nodes)| stays_failed(skyhook, package, nodes));
        let warning = stays.next().filter(|_| grade.is_none());
        let changed = skyhook.status.observed_generation < skyhook.metadata.generation;
        let unknown = grade.is_none() && changed && warning.is_none();
        (!unknown).then(|| Begun { grade, interrupts: kinds.iter().any(Option::is_some), warning })
    }
}

/// The effects of resuming the operator's work on a custom resource, on some nodes or on all.
pub struct ResumeEffects<'a> {
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    /// `None` if the effects are unknown.
    effects: Option<Begun>,
}

/// The work that begins.
struct Begun {
    /// `None` if nothing begins.
    grade: Option<Grade>,
    /// Whether nodes are drained for interrupts.
    interrupts: bool,
    warning: Option<String>,
}

impl ResumeEffects<'_> {
    /// The grade of the custom resource's own work.
    pub fn grade(&self) -> Grade {
        match &self.effects {
            Some(effects) => effects.grade.unwrap_or(Grade::B1),
            None => Grade::B3,
        }
    }

    /// Adds the command that resumes the work, with a caveat about packages that then run.
    pub fn offer<'f>(&self, finding: &'f mut Finding, title: &str, verb: &str) -> &'f mut Finding {
        let nothing = self.effects.as_ref().filter(|e| e.grade.is_none());
        let runs = if self.interrupts() {
            Some("its packages run, including their interrupts")
        } else if let Some(nothing) = nothing {
            // The warning explains why the remaining work does not start.
            nothing.warning.as_deref()
        } else {
            Some("its packages run")
        };
        self.command(finding, title, verb, runs)
    }

    /// Adds the command that resumes a deletion.
    pub fn offer_deleting<'f>(&self, finding: &'f mut Finding, title: &str, verb: &str) -> &'f mut Finding {
        let runs = if self.interrupts() {
            "the uninstall runs on every node, followed by the packages' interrupts"
        } else {
            "the uninstall runs on every node"
        };
        self.command(finding, title, verb, Some(runs))
    }

    /// Adds the command. While pods of the older operator run, the command would be refused: adds a wait for them
    /// instead.
    fn command<'f>(
        &self,
        finding: &'f mut Finding,
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
        finding.remedy(title, [verb, name]);
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
