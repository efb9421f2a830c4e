//! Compares predictions of the model with the next events of a recording.

use std::collections::BTreeSet;

use nodewright::cluster::Cluster;
use nodewright::model::{Action, Model, NextNodes, ProgressState, WaitReason};

use super::recording::{Event, Recording, compartment_of};

/// Skip frames within this many seconds after an edit: the operator reacts to an edit in several steps.
const SETTLES: f64 = 3.0;

/// Nodes that run all their stages twice in a recording, because a write crossed a stale read.
const ARTEFACTS: [(&str, &str); 1] = [("upgrade_service", "w-10")];

/// The number of right predictions, and of all.
#[derive(Debug, Default, Clone, Copy)]
pub struct Rate {
    pub right: usize,
    pub all: usize,
}

impl Rate {
    pub fn add(&mut self, right: bool) {
        self.right += usize::from(right);
        self.all += 1;
    }

    pub fn plus(self, other: Rate) -> Rate {
        Rate { right: self.right + other.right, all: self.all + other.all }
    }

    pub fn percent(self) -> f64 {
        if self.all == 0 {
            return 100.0;
        }
        100.0 * self.right as f64 / self.all as f64
    }
}

#[derive(Debug, Default, Clone)]
pub struct Score {
    /// The nodes that start next in a compartment.
    pub next_nodes: Rate,
    /// The operator's next action for a custom resource on a node where no stage runs.
    pub actions: Rate,
    /// The part of `actions` in which the operator acted.
    pub acting: Rate,
    /// The part of `actions` in which the operator did not act: always predicting "no action" would be right.
    pub baseline: Rate,
    /// Actions during drains.
    pub drains: Rate,
    /// Nodes with a running stage: the prediction is no action before the stage ends.
    pub running: Rate,
    /// Predictions that name a node on which the operator may not act.
    pub forbidden: Vec<String>,
    pub misses: Vec<String>,
}

impl Score {
    pub fn of(recording: &Recording, frames: usize) -> Score {
        let mut score = Score::default();
        for frame in 0..frames {
            let at = recording.end() * (frame as f64 + 0.5) / frames as f64;
            if !recording.just_edited(at, SETTLES) && recording.has_skyhooks(at) {
                score.frame(recording, at);
            }
        }
        score
    }

    pub fn plus(mut self, other: Score) -> Score {
        self.next_nodes = self.next_nodes.plus(other.next_nodes);
        self.actions = self.actions.plus(other.actions);
        self.acting = self.acting.plus(other.acting);
        self.baseline = self.baseline.plus(other.baseline);
        self.drains = self.drains.plus(other.drains);
        self.running = self.running.plus(other.running);
        self.forbidden.extend(other.forbidden);
        self.misses.extend(other.misses);
        self
    }

    fn frame(&mut self, recording: &Recording, at: f64) {
        let cluster = recording.cluster(at);
        let model = Model::new(&cluster);
        let runs = cluster.package_runs();
        for skyhook in &cluster.skyhooks {
            let name = skyhook.name();
            for (compartment, next) in model.next_nodes(name) {
                self.next(recording, &cluster, name, compartment, &next, at);
            }
            for (node, progress) in model.all_progress(name) {
                if ARTEFACTS.contains(&(&recording.name, &node.name)) {
                    continue;
                }
                let action = progress.next_action.as_ref();
                // `next` scores the nodes that start next, as a set, since their order may be arbitrary.
                let fresh = action.is_none() && progress.queue.is_some_and(|q| q.working == 0);
                if fresh {
                    continue;
                }
                let runs = runs.any_alive_on(skyhook.name(), &node.name);
                let truth = actual(recording, &cluster, name, &node.name, at, runs);
                let Some((truth, before)) = truth else {
                    continue;
                };
                let predicted = action.map_or_else(|| "none".to_owned(), label);
                let waited = predicted == "none" && before.is_end_of(&progress.reason);
                let right = predicted == truth || waited;
                let runs = progress.state == ProgressState::Running && action.is_none();
                let drains = predicted == "Drain" || progress.reason.describe().code == "Drain";
                if runs {
                    self.running.add(right);
                } else if drains {
                    self.drains.add(right);
                } else {
                    self.actions.add(right);
                    self.baseline.add(truth == "none");
                    if truth != "none" {
                        self.acting.add(right);
                    }
                }
                if !right {
                    self.misses.push(format!(
                        "{} {at:.2} {name}/{}: {predicted} ({:?}, {}), but {truth}",
                        recording.name,
                        node.name,
                        progress.state,
                        progress.reason.describe().code
                    ));
                }
            }
        }
    }

    fn next(
        &mut self,
        recording: &Recording,
        cluster: &Cluster,
        skyhook: &str,
        compartment: &str,
        next: &NextNodes<'_>,
        at: f64,
    ) {
        let names: Vec<String> = next.nodes.iter().map(|n| n.name.to_string()).collect();
        let resource = cluster.skyhook(skyhook).expect("a custom resource");
        for node in &next.nodes {
            let free = cluster.untolerated_by(resource, node).is_empty() && !node.ignored(cluster.flavor());
            let runs = !resource.paused() && !resource.disabled();
            let (done, all) = cluster.progress(resource, node);
            if !(free && runs && resource.selects(node) && done < all) {
                let place = format!("{} {at:.2} {skyhook}: {}", recording.name, node.name);
                self.forbidden.push(place);
            }
        }
        let Some(truth) = taken_next(recording, cluster, skyhook, compartment, at) else {
            return;
        };
        let predicted: BTreeSet<&String> = names.iter().collect();
        let sizes = next.count == truth.len();
        let right = sizes
            && if next.ordered {
                predicted.len() == truth.len() && truth.iter().all(|n| predicted.contains(n))
            } else {
                truth.iter().all(|n| predicted.contains(n))
            };
        self.next_nodes.add(right);
        if !right {
            self.misses.push(format!(
                "{} {at:.2} {skyhook}/{compartment}: next {} of {names:?}, but {truth:?}",
                recording.name, next.count
            ));
        }
    }
}

fn label(action: &Action<'_>) -> String {
    let words = [
        Some(action.kind()),
        action.package().filter(|_| action.kind() != "Record"),
        action.stage().filter(|_| action.kind() != "Record").map(|s| s.as_str()),
    ];
    words.into_iter().flatten().collect::<Vec<&str>>().join(" ")
}

/// The stages that ended on other nodes, and removed pods, before an action.
#[derive(Default)]
struct EventsBefore<'r> {
    /// The nodes on which a stage ended.
    ended: BTreeSet<&'r str>,
    /// The raw pod of a stage was removed from the node itself.
    pod_removed: bool,
}

impl EventsBefore<'_> {
    /// Whether these events end the wait for a predicted reason.
    fn is_end_of(&self, reason: &WaitReason<'_>) -> bool {
        match reason {
            WaitReason::BatchSibling(node) => self.ended.contains(node.name.as_str()),
            WaitReason::OtherRun { .. } => self.pod_removed,
            _ => false,
        }
    }
}

/// The operator's next action on a node, or `none` if a stage ends or something changes on the node before
/// it; with the events until then. Returns `None` if an edit comes first. `runs`: a stage runs on the node.
fn actual<'r>(
    recording: &'r Recording,
    cluster: &Cluster,
    skyhook: &str,
    node: &str,
    at: f64,
    runs: bool,
) -> Option<(String, EventsBefore<'r>)> {
    let resource = cluster.skyhook(skyhook)?;
    let on = cluster.node(node)?;
    let status = cluster.status_on(resource, on);
    let begun =
        status.as_str() == "in_progress" || resource.status.node_priority.contains_key(&on.name) || runs;
    let none = || "none".to_owned();
    let mut before = EventsBefore::default();
    for (_, event) in recording.after(at) {
        match event {
            Event::Edit => return None,
            Event::Action { skyhook: of, node: on, action }
                if on == node && (of == skyhook || of.is_empty()) =>
            {
                return Some((action.clone(), before));
            }
            Event::Changed { node: on } if on == node => return Some((none(), before)),
            // For a node that has not begun, the end of a stage on another node may free the batch.
            Event::Ended { node: on, .. } if on == node || !begun => {
                return Some((none(), before));
            }
            Event::Ended { node: on, .. } => _ = before.ended.insert(on),
            Event::Gone { node: on } => before.pod_removed |= on == node,
            _ => {}
        }
    }
    Some((none(), before))
}

/// The nodes that the operator starts next; `None` if an edit or a permanently failed stage comes first.
fn taken_next(
    recording: &Recording,
    cluster: &Cluster,
    skyhook: &str,
    compartment: &str,
    at: f64,
) -> Option<BTreeSet<String>> {
    let resource = cluster.skyhook(skyhook)?;
    let member =
        |node: &str| cluster.node(node).is_some() && compartment_of(cluster, skyhook, node) == compartment;
    let status = |node: &str| {
        let on = cluster.node(node);
        on.map_or_else(String::new, |on| cluster.status_on(resource, on).to_string())
    };
    let picked: BTreeSet<String> =
        resource.status.node_priority.keys().map(|name| name.to_string()).collect();
    let begins = |node: &String| {
        let begins = Event::Status {
            skyhook: skyhook.to_owned(),
            node: node.clone(),
            status: "in_progress".to_owned(),
        };
        let mut until_edit = recording.after(at).take_while(|(_, e)| *e != Event::Edit);
        until_edit.any(|(_, event)| *event == begins)
    };
    let rest: BTreeSet<String> = picked
        .iter()
        .filter(|node| member(node))
        .filter(|node| !["in_progress", "complete", "erroring"].contains(&status(node).as_str()))
        .filter(|node| begins(node))
        .cloned()
        .collect();
    for (_, event) in recording.after(at) {
        match event {
            Event::Edit => return None,
            Event::Ended { failed: true, .. } => return None,
            _ if !rest.is_empty() => return Some(rest),
            Event::Picked { skyhook: of, nodes } if of == skyhook => {
                let new =
                    |node: &&String| member(node) && !picked.contains(*node) && status(node) != "in_progress";
                let new: BTreeSet<String> = nodes.iter().filter(new).cloned().collect();
                if !new.is_empty() {
                    return Some(new);
                }
            }
            _ => {}
        }
    }
    Some(BTreeSet::new())
}
