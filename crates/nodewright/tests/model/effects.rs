//! Compares the predicted effects of an edit with what followed it in a recording.

use std::collections::{BTreeMap, BTreeSet};

use nodewright::api::Skyhook;
use nodewright::cluster::Cluster;
use nodewright::model::{Effects, effects};

use super::recording::{Event, Recording};

/// Per package: its stages, its nodes, and the maximum number of nodes at work at the same time.
type Outcome = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>, usize)>;

/// An edit of a custom resource, with the predicted and the actual outcome.
pub struct Edit {
    pub place: String,
    pub predicted: Outcome,
    pub actual: Outcome,
    /// Whether all nodes were complete again before the next edit.
    pub undisturbed: bool,
}

/// Recordings in which refused evictions delay some nodes of a batch, or a node runs its stages twice.
const LEFT_OUT: [&str; 2] = ["drain_pdb_delay", "upgrade_service"];

impl Edit {
    /// Whether the actual outcome equals the prediction, or is a part of it if the next edit came too early.
    pub fn right(&self) -> bool {
        if self.undisturbed {
            return self.predicted == self.actual;
        }
        self.actual.iter().all(|(package, (stages, nodes, at_once))| {
            self.predicted.get(package).is_some_and(|(all_stages, all_nodes, most)| {
                stages.is_subset(all_stages) && nodes.is_subset(all_nodes) && at_once <= most
            })
        })
    }
}

pub fn edits(recording: &Recording) -> Vec<Edit> {
    if LEFT_OUT.contains(&recording.name.as_str()) {
        return Vec::new();
    }
    let times = recording.events.iter().filter(|(_, event)| *event == Event::Edit);
    let mut times: Vec<f64> = times.map(|(at, _)| *at).collect();
    times.push(recording.end());
    let spans = times.windows(2);
    // Of edits that follow one another within 3 s, only the last one is compared.
    let long = spans.filter(|span| span[1] - span[0] > 3.0);
    long.flat_map(|span| of_span(recording, span[0], span[1])).collect()
}

/// The edits at the beginning of a time span without further edits.
fn of_span(recording: &Recording, begin: f64, end: f64) -> Vec<Edit> {
    let before = recording.cluster_then(begin - 0.001);
    let specs = recording.specs_at(begin - 0.001);
    // Skip pause and resume, which edit only an annotation.
    let spec = |name: &str| specs.get(name).map(|object| &object["spec"]);
    let edited = recording.specs_at(begin + 0.5).into_iter();
    let edited = edited.filter(|(name, now)| spec(name) != Some(&now["spec"]));
    edited
        .map(|(name, object)| {
            let skyhook = Skyhook::deserialize(&object).expect("a custom resource");
            let after = before.with_applied(vec![skyhook], Vec::new());
            let (actual, undisturbed) = actual(recording, &name, begin, end);
            Edit {
                place: format!("{} {name} at {begin:.0} s", recording.name),
                predicted: predicted(&before, &after, &name),
                actual,
                undisturbed,
            }
        })
        .collect()
}

fn predicted(before: &Cluster, after: &Cluster, skyhook: &str) -> Outcome {
    let effects: Effects<'_> = effects(before, after, &[skyhook]).remove(0);
    let runs = effects.packages.into_iter().filter(|package| !package.nodes.is_empty());
    let mut outcome = Outcome::new();
    for package in runs {
        let (stages, nodes, at_once) = outcome.entry(package.package).or_default();
        stages.extend(package.stages);
        nodes.extend(package.nodes);
        *at_once += package.at_once.expect("all nodes were read");
    }
    outcome
}

fn actual(recording: &Recording, skyhook: &str, begin: f64, end: f64) -> (Outcome, bool) {
    let mut outcome = Outcome::new();
    let mut working: BTreeSet<&str> = BTreeSet::new();
    let mut statuses: BTreeMap<&str, &str> = BTreeMap::new();
    for (_, event) in recording.after(begin).take_while(|(at, _)| *at < end) {
        match event {
            Event::Action { skyhook: of, node, action } if of == skyhook => {
                let words: Vec<&str> = action.split(' ').collect();
                let (package, stage) = match words[..] {
                    ["StartStage", package, stage] => (package, stage),
                    ["Interrupt", package] => (package, "interrupt"),
                    _ => continue,
                };
                let (stages, nodes, _) = outcome.entry(package.to_owned()).or_default();
                stages.insert(stage.to_owned());
                nodes.insert(node.clone());
                working.insert(node);
                for (_, nodes, most) in outcome.values_mut() {
                    let own = working.iter().filter(|node| nodes.contains(**node)).count();
                    *most = own.max(*most);
                }
            }
            Event::Status { skyhook: of, node, status } if of == skyhook => {
                statuses.insert(node, status);
                if status == "complete" {
                    working.remove(node.as_str());
                }
            }
            _ => {}
        }
    }
    let undisturbed = statuses.values().all(|status| *status == "complete");
    (outcome, undisturbed)
}
