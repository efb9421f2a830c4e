//! Compares estimates of the remaining time with the time that a recorded rollout took.

use std::collections::BTreeMap;
use std::fmt;

use nodewright::model::{Model, Remaining};

use super::recording::{Event, Recording};

/// The elapsed fractions of a rollout at which its remaining time is estimated.
pub const PASSED: [f64; 3] = [0.25, 0.5, 0.75];
/// Skip rollouts shorter than this many seconds: recorded times have a resolution of one second.
const SHORTEST: f64 = 20.0;
/// Recordings in which a stage takes up to three times as long as on other nodes, without a visible cause.
const UNSTEADY: [&str; 3] = ["pause_resume", "policy_changed", "two_sequencing_all"];
/// Recordings in which PodDisruptionBudgets refuse evictions, or a node runs all of its stages twice.
const LEFT_OUT: [&str; 2] = ["drain_pdb_delay", "upgrade_service"];

/// A rollout without edits: from the operator's first action until all nodes are complete.
#[derive(Debug)]
struct Rollout {
    skyhook: String,
    begin: f64,
    end: f64,
}

/// A rollout with its estimates at the fractions [`PASSED`].
#[derive(Debug)]
pub struct Estimated {
    pub recording: String,
    pub skyhook: String,
    /// Whether each stage takes a similar time on all nodes.
    pub steady: bool,
    pub estimates: Vec<Estimate>,
}

/// The estimated and the actual remaining time, in seconds.
#[derive(Debug)]
pub struct Estimate {
    pub predicted: Option<Remaining>,
    pub truth: f64,
}

impl Estimate {
    /// Whether the estimate is within 20 percent of the actual time, or its range contains the actual time.
    pub fn right(&self) -> bool {
        self.predicted.is_some_and(|p| {
            let off = (p.seconds - self.truth).abs();
            let [low, high] = p.range();
            off <= 0.2 * self.truth || (low..=high).contains(&self.truth)
        })
    }
}

/// Estimated and actual seconds: `53, 47`, `40 to 60, 47` or `none, 47`.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let truth = self.truth;
        match self.predicted {
            None => write!(f, "none, {truth:.0}"),
            Some(p) if p.uncertainty == 0.0 => write!(f, "{:.0}, {truth:.0}", p.seconds),
            Some(p) => {
                let [low, high] = p.range();
                write!(f, "{low:.0} to {high:.0}, {truth:.0}")
            }
        }
    }
}

pub fn estimates(recording: &Recording) -> Vec<Estimated> {
    if LEFT_OUT.contains(&recording.name.as_str()) {
        return Vec::new();
    }
    let rollouts = rollouts(recording).into_iter();
    let long = rollouts.filter(|rollout| rollout.end - rollout.begin >= SHORTEST);
    long.map(|rollout| Estimated {
        recording: recording.name.clone(),
        steady: !UNSTEADY.contains(&recording.name.as_str()),
        estimates: PASSED.map(|part| estimate(recording, &rollout, part)).into(),
        skyhook: rollout.skyhook,
    })
    .collect()
}

fn estimate(recording: &Recording, rollout: &Rollout, part: f64) -> Estimate {
    let at = rollout.begin + part * (rollout.end - rollout.begin);
    let cluster = recording.cluster_then(at);
    Estimate {
        predicted: Model::new(&cluster).estimates().remaining(&rollout.skyhook),
        truth: rollout.end - at,
    }
}

fn rollouts(recording: &Recording) -> Vec<Rollout> {
    let edits = recording.events.iter().filter(|(_, event)| *event == Event::Edit);
    let mut bounds: Vec<f64> = edits.map(|(at, _)| *at).collect();
    bounds.insert(0, 0.0);
    bounds.push(recording.end());
    let mut statuses: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut rollouts = Vec::new();
    for bound in bounds.windows(2) {
        let within = recording.after(bound[0]).take_while(|(at, _)| *at <= bound[1]);
        let mut times: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (at, event) in within {
            match event {
                Event::Action { skyhook, .. } if !skyhook.is_empty() => {
                    times.entry(skyhook).or_insert((*at, *at));
                }
                Event::Status { skyhook, node, status } => {
                    statuses.insert((skyhook, node), status);
                    if let Some((_, end)) = times.get_mut(skyhook.as_str()) {
                        *end = *at;
                    }
                }
                _ => {}
            }
        }
        for (skyhook, (begin, end)) in times {
            let mut own = statuses.iter().filter(|((name, _), _)| *name == skyhook);
            if own.all(|(_, status)| *status == "complete") && end > begin {
                rollouts.push(Rollout { skyhook: skyhook.to_owned(), begin, end });
            }
        }
    }
    rollouts
}
