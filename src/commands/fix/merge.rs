//! Merges the plans of several commands into one.

use std::collections::HashMap;

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::plan::planners::merge;
use crate::plan::{Change, Plan, Refusal, Step};
use crate::rules::{Finding, Rule};
use crate::view::list;

/// A chosen remedy, with the plan of its command.
#[derive(Clone)]
pub struct Part {
    pub rule: &'static Rule,
    /// The text of the subject: `gpu-tune driver on node-1`.
    pub subject: String,
    pub command: String,
    pub plan: Plan,
}

impl Part {
    pub fn label(&self) -> String {
        finding_label(self.rule, &self.subject)
    }

    pub fn describe(&self) -> String {
        format!("for {}: {}", self.label(), self.command)
    }

    /// Whether the plan restarts the batches of the finding's custom resource.
    pub fn restarts_batches_of(&self, finding: &Finding) -> bool {
        let mut steps = self.plan.steps().filter(|step| restarts_batches(step));
        steps.any(|step| finding.subject.skyhook.as_ref() == Some(&step.target.name))
    }
}

/// The text for a finding: `SKY201 package-erroring, gpu-tune driver on node-1`.
pub fn finding_label(rule: &Rule, subject: &str) -> String {
    format!("{} {}, {subject}", rule.code, rule.name)
}

/// Merges the plans into one, which pauses each custom resource at most once.
///
/// # Errors
///
/// Two plans set a field to different values.
pub fn merged(cluster: &Cluster, mut parts: Vec<Part>) -> Result<Plan> {
    refuse_contradictions(&parts)?;
    // Batches restart last; otherwise the most severe cause comes first.
    parts.sort_by_key(|part| MergeOrder::of(&part.plan));
    restart_batches_last(&mut parts);
    let title = title(&parts);
    let plans = parts.into_iter().map(|part| part.plan).collect();
    Ok(merge::merged(cluster, title, "fix", plans))
}

/// The order of the merged plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MergeOrder {
    Nodes,
    /// Batches restart after all failures are repaired.
    Batches,
}

impl MergeOrder {
    fn of(plan: &Plan) -> MergeOrder {
        if plan.steps().any(restarts_batches) { MergeOrder::Batches } else { MergeOrder::Nodes }
    }
}

/// Whether a step restarts the batches of its custom resource.
fn restarts_batches(step: &Step) -> bool {
    matches!(step.change, Change::Status(_))
}

/// Keeps only the last of several equal restarts of batches, so that it follows all repairs.
fn restart_batches_last(parts: &mut [Part]) {
    let mut restarted: Vec<Step> = Vec::new();
    for part in parts.iter_mut().rev() {
        for stage in part.plan.stages.iter_mut().rev() {
            stage.steps.retain(|step| {
                let restarts = restarts_batches(step);
                let again = restarts
                    && restarted.iter().any(|later| {
                        later.target.path() == step.target.path() && later.change == step.change
                    });
                if restarts && !again {
                    restarted.push(step.clone());
                }
                !again
            });
        }
        let stages = &mut part.plan.stages;
        stages.retain(|stage| !stage.steps.is_empty() || stage.until.is_some());
    }
}

/// The title of the merged plan: `fix SKY201 and SKY204`.
fn title(parts: &[Part]) -> String {
    let mut codes: Vec<&str> = Vec::new();
    for part in parts {
        if !codes.contains(&part.rule.code) {
            codes.push(part.rule.code);
        }
    }
    if codes.is_empty() { "fix".to_owned() } else { format!("fix {}", list(&codes)) }
}

/// Refuses plans that set a field to different values.
fn refuse_contradictions(parts: &[Part]) -> Result<()> {
    let mut places: HashMap<String, Vec<(&Part, &Step)>> = HashMap::new();
    for part in parts {
        for step in part.plan.steps() {
            let known = places.entry(step.target.path()).or_default();
            for (other, before) in known.iter().filter(|(other, _)| !std::ptr::eq(*other, part)) {
                if let Some(what) = before.contradicts(step) {
                    return Err(contradiction(other, part, &format!("{what} of {}", step.target)));
                }
            }
            known.push((part, step));
        }
    }
    Ok(())
}

fn contradiction(one: &Part, other: &Part, place: &str) -> Error {
    let label = |part: &Part| format!("{} ({})", part.rule.code, part.subject);
    let node = if one.rule.code == other.rule.code { " --node NODE" } else { "" };
    let instead = format!("kubectl skyhook fix {}{node}", one.rule.code);
    let (one, other, place) = (label(one), label(other), place.to_owned());
    Refusal::RemediesConflict { one, other, place, instead }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;
    use crate::plan::{Edit, Metadata, PlanStage, Target};
    use crate::rules;

    fn part(code: &str, to: &str) -> Part {
        let edit = Metadata::default().label("key", Edit::new(Some("old"), Some(to)));
        let target = Target::node("gpu-1", None);
        let step = Step::new(target, Change::Metadata(edit), "a test");
        Part {
            rule: rules::find(code).expect("a rule"),
            subject: "gpu on gpu-1".to_owned(),
            command: String::new(),
            plan: Plan { stages: vec![PlanStage::of(vec![step])], ..Plan::default() },
        }
    }

    #[test]
    fn remedies_that_contradict_each_other_are_refused_by_their_codes() {
        let refused = |one, other| refuse_contradictions(&[one, other]).expect_err("they do");
        let two = refused(part("SKY201", "a"), part("SKY206", "b"));
        assert_eq!(
            two.message,
            "the remedies for SKY201 (gpu on gpu-1) and SKY206 (gpu on gpu-1) conflict: both change key of \
             node/gpu-1; nothing was changed"
        );
        assert_eq!(
            (two.exit, two.hints.as_slice()),
            (Exit::Refused, &["kubectl skyhook fix SKY201".to_owned()][..])
        );
        let one = refused(part("SKY201", "a"), part("SKY201", "b"));
        assert_eq!(one.hints, ["kubectl skyhook fix SKY201 --node NODE"]);
        assert!(refuse_contradictions(&[part("SKY201", "a"), part("SKY206", "a")]).is_ok());
    }
}
