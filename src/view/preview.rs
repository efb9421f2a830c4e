//! The preview of a plan, as text and document.

use std::collections::BTreeSet;
use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::text::{self, Label, Line, Text};
use super::{NodeSet, View, count, document, effects_text, list, plural};
use crate::model::{PackageChange, PackageDocument, RolloutDocument, WaitReason};
use crate::plan::{
    Change, Condition, Consequences, Destination, Field, Grade, Metadata, Plan, PlanStage, Preconditions,
    Step,
};
use crate::view::Joined;

/// Maximum number of groups of equal changes in the preview; further groups are only counted.
const MOST_GROUPS: usize = 25;

/// A plan before it is carried out.
pub struct Preview<'a> {
    pub plan: &'a Plan,
    pub diff: bool,
    /// The cluster that the plan changes; `None` if the input was read from files.
    pub destination: Option<Destination>,
    /// The digest of a saved plan.
    pub digest: Option<&'a str>,
    /// The command's own document, for previews as data.
    pub report: Option<Value>,
}

/// The planned changes of a command, before confirmation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The purpose of the plan, such as `reset gpu on 3 nodes`.
    title: String,
    /// The cluster to change; absent if the plan was made from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<Destination>,
    /// The grade of the plan's worst effect on the cluster.
    grade: Grade,
    /// The digest of the saved plan, for `apply-plan --digest`; absent if the plan was not saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The side effects.
    consequences: Consequences,
    /// Preconditions on objects that the plan itself does not change; absent if there are none.
    #[serde(skip_serializing_if = "Preconditions::is_empty")]
    preconditions: Preconditions,
    /// The steps, in the order of the plan.
    steps: Vec<StepDocument>,
    /// The command's own document, such as a `Teardown`; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
}

/// One planned change of one object.
#[derive(Serialize, JsonSchema)]
struct StepDocument {
    /// The object, such as `node/gpu-1` or `pod/skyhook/driver-apply`.
    target: String,
    /// The changed fields, one line each.
    changes: Vec<String>,
    /// Why the change is needed.
    reason: String,
    /// Objects whose steps must end first, without pauses; absent if the stages run one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

impl View for Preview<'_> {
    fn blocks(&self, _wide: bool) -> Text {
        let plan = self.plan;
        let mut text = Text::new();
        let grade = plan.grade();
        text.line(text::heading(&plan.title) + format!("  ({}; {grade})", plan.consequences.at_worst(grade)));
        if let Some(destination) = &self.destination {
            text.line(text::dim(destination.line()));
        }
        text.blank().append(changes(plan));
        if self.diff {
            text.blank().append(diff(plan));
        }
        text.blank().append(effects(plan));
        text
    }

    fn names(&self) -> Vec<String> {
        self.plan.steps().map(|s| s.target.to_string()).collect()
    }

    fn document(&self) -> Value {
        let plan = self.plan;
        let steps = plan
            .stages
            .iter()
            .enumerate()
            .flat_map(|(number, stage)| stage.steps.iter().map(move |s| (number, s)))
            .map(|(number, step)| StepDocument {
                target: step.target.to_string(),
                changes: step.change.describe(),
                reason: step.reason.clone(),
                after: after(plan, number),
            });
        let fields = Document {
            title: plan.title.clone(),
            destination: self.destination.clone(),
            grade: plan.grade(),
            digest: self.digest.map(str::to_owned),
            consequences: Consequences { grade: None, ..plan.consequences.clone() },
            preconditions: plan.preconditions.clone(),
            steps: steps.collect(),
            report: self.report.clone(),
        };
        document("Plan", &fields)
    }
}

/// Objects of one kind with equal changes in one stage.
struct ChangeGroup {
    stage: usize,
    kind: String,
    lines: Vec<String>,
    names: Vec<String>,
}

/// The changes, with one entry for all objects of a stage that change equally.
fn changes(plan: &Plan) -> Text {
    let mut groups: Vec<ChangeGroup> = Vec::new();
    for (number, stage) in plan.stages.iter().enumerate() {
        for step in &stage.steps {
            let kind = step.target.kind.word();
            let lines = step.change.describe();
            let name = step.target.place();
            let same = groups.iter_mut().find(|g| g.stage == number && g.kind == kind && g.lines == lines);
            match same {
                Some(group) => group.names.push(name),
                None => groups.push(ChangeGroup { stage: number, kind, lines, names: vec![name] }),
            }
        }
    }
    let mut text = Text::new();
    let waves = waves(plan);
    for group in groups.iter().take(MOST_GROUPS) {
        let set = NodeSet::of(&group.names);
        let who = text::name(format!("{}/{}", group.kind, set.limited(6)));
        let objects = Some(set.len()).filter(|n| *n != 1).map(|n| format!("  ({} objects)", count(n)));
        let wave = waves.get(group.stage).map(|wave| format!("  (wave {wave})"));
        text.line(objects.into_iter().chain(wave).fold(Line::from(who), |line, more| line + more));
        let mut inner = Text::new();
        for line in &group.lines {
            inner.line(line.as_str());
        }
        let after = after(plan, group.stage);
        if !after.is_empty() {
            inner.paragraph(text::dim(format!("after {}", list(&after))));
        }
        // A created object exists at once.
        let until = plan.stages[group.stage].until.as_ref();
        if let Some(until) = until.filter(|until| until.condition != Condition::Exists) {
            inner.line(text::dim(format!("then wait until {}", until.describe())));
        }
        text.indented(2, inner);
    }
    let more: usize = groups.iter().skip(MOST_GROUPS).map(|group| group.names.len()).sum();
    if more > 0 {
        let rest = format!("and {}; -o json and --diff show all", plural(more, "more object"));
        text.line(text::dim(rest));
    }
    text
}

/// The position of each stage in the order of the plan, from 1; empty unless every stage names the stages before it. A
/// plan with pauses shows its order by them.
fn waves(plan: &Plan) -> Vec<usize> {
    let mut waves: Vec<usize> = Vec::new();
    if plan.steps().any(|step| step.change.is_hold()) {
        return waves;
    }
    for stage in &plan.stages {
        let Some(after) = &stage.after else {
            return Vec::new();
        };
        waves.push(1 + after.iter().filter_map(|before| waves.get(*before)).max().unwrap_or(&0));
    }
    if waves.len() > 1 { waves } else { Vec::new() }
}

/// The objects of the stages that must end before this stage; empty if that is just the preceding stage. Pauses are
/// omitted: they enclose the changes of their custom resource.
fn after(plan: &Plan, stage: usize) -> Vec<String> {
    let is_pause =
        |stage: &PlanStage| !stage.steps.is_empty() && stage.steps.iter().all(|step| step.change.is_hold());
    let (own, preceding) = (&plan.stages[stage], stage.checked_sub(1));
    let shown = |after: &&Vec<usize>| !is_pause(own) && !after.iter().copied().eq(preceding);
    let Some(after) = own.after.as_ref().filter(shown) else {
        return Vec::new();
    };
    let objects =
        after.iter().filter_map(|number| plan.stages.get(*number)).filter(|stage| !is_pause(stage)).flat_map(
            |stage| {
                let awaited = stage.until.iter().map(|until| &until.target);
                stage.steps.iter().map(|step| &step.target).chain(awaited)
            },
        );
    let names: BTreeSet<String> = objects.map(ToString::to_string).collect();
    names.into_iter().collect()
}

/// The side effects of a plan.
fn effects(plan: &Plan) -> Text {
    let effects = &plan.consequences;
    let changed: Vec<PackageDocument> =
        effects.effects.iter().filter(|p| p.change != PackageChange::Unchanged).cloned().collect();
    let mut text = effects_text(&changed, &effects.rollouts);
    if !text.is_empty() {
        text.blank();
    }
    let shown = effects.effects.iter().filter(|package| package.interrupt.is_some());
    let shown: BTreeSet<&str> = shown.flat_map(|package| &package.nodes).map(String::as_str).collect();
    // A stage that only finishes is no effect of the plan.
    let starts =
        |package: &PackageDocument| !package.nodes.is_empty() && package.change != PackageChange::Finish;
    let starts = effects.effects.iter().any(starts);
    if !starts || effects.drains > shown.len() {
        // The effects are unknown, or some or all come later, for example because the custom resource is paused.
        let is_paused = |rollout: &RolloutDocument| rollout.stuck == Some(WaitReason::Paused.describe().text);
        let when = match starts {
            false if !effects.rollouts.is_empty() && effects.rollouts.iter().all(is_paused) => {
                "after a resume, "
            }
            _ if effects.effects.is_empty() => "",
            false => "later, ",
            true => "now and later, ",
        };
        text.append(numbers(effects, when));
    } else if effects.gpus > 0 && effects.drains > 0 {
        text.item("- ", Label::Warning.span(affected_gpus(effects)));
    }
    for note in &effects.notes {
        text.item("- ", text::prose(note));
    }
    for warning in &effects.warnings {
        text.item("- ", text::warning("warning: ") + text::prose(warning));
    }
    for lost in &effects.cannot_be_undone {
        text.item("- ", text::prose(&format!("cannot be undone: {lost}")));
    }
    text
}

/// Numbers of affected nodes, regardless of when the operator works on them; `when` begins each line.
fn numbers(effects: &Consequences, when: &str) -> Text {
    let mut text = Text::new();
    for (verb, packages) in [("runs", &effects.reruns), ("uninstalls", &effects.uninstalls)] {
        let on = packages.iter().map(|(name, nodes)| format!("{name} on {}", plural(*nodes, "node")));
        if !packages.is_empty() {
            text.item("- ", format!("{when}{verb} {}", on.joined(", ")));
        }
    }
    if effects.drains > 0 {
        let mut line = format!("{when}up to {} cordoned and drained", plural(effects.drains, "node"));
        if effects.reboots > 0 {
            line.push_str(&format!(", {} rebooted", count(effects.reboots)));
        }
        if effects.restarts > 0 {
            line.push_str(&format!(", services restarted on {}", count(effects.restarts)));
        }
        if effects.gpus > 0 {
            line.push_str(&format!("; {}", affected_gpus(effects)));
        }
        text.item("- ", Label::Warning.span(line));
    }
    text
}

fn affected_gpus(effects: &Consequences) -> String {
    format!("{} GPUs on the affected nodes", count(gpus(effects.gpus)))
}

fn gpus(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A unified diff of every step that changes its object.
pub fn diff(plan: &Plan) -> Text {
    let mut text = Text::new();
    for step in plan.steps() {
        let (before, after) = sides(step);
        if before == after {
            continue;
        }
        text.line(text::heading(format!("--- {} (current)", step.target)));
        text.line(text::heading(format!("+++ {} (planned)", step.target)));
        let diff = TextDiff::from_lines(&before, &after);
        for group in diff.grouped_ops(3) {
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, label) = match change.tag() {
                    ChangeTag::Delete => ("-", Label::Error),
                    ChangeTag::Insert => ("+", Label::Good),
                    ChangeTag::Equal => (" ", Label::Plain),
                };
                text.line(label.span(format!("{sign}{}", change.value().trim_end_matches('\n'))));
            }
        }
    }
    text
}

/// The fields that a step changes, one a line, before and after.
fn sides(step: &Step) -> (String, String) {
    match &step.change {
        Change::Metadata(metadata) => metadata_sides(metadata),
        Change::Hold(hold) | Change::Release(hold) => metadata_sides(hold.edits()),
        Change::Spec(fields) | Change::Status(fields) => {
            let side = |value: fn(&Field) -> &Option<Value>| {
                let lines = fields.iter().filter_map(|f| Some(field(&f.path.join("."), value(f).as_ref()?)));
                lines.collect::<String>()
            };
            (side(|f| &f.from), side(|f| &f.to))
        }
        Change::Finalizer { entry, .. } => (field("metadata.finalizers", entry), String::new()),
        Change::Taints { from, to } => (items("spec.taints", from), items("spec.taints", to)),
        Change::Conditions { remove, restore } => {
            (items("status.conditions", remove), items("status.conditions", restore))
        }
        Change::Delete { was } => (was.as_deref().map_or("the object\n".into(), pretty), String::new()),
        Change::Create(object) => (String::new(), pretty(object)),
    }
}

fn field(key: &str, value: impl Display) -> String {
    format!("{key}: {value}\n")
}

fn metadata_sides(metadata: &Metadata) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for (map, edits) in [("annotations", &metadata.annotations), ("labels", &metadata.labels)] {
        for (key, edit) in edits {
            let side = |value: &Option<String>| {
                Some(field(&format!("metadata.{map}.{key}"), readable(value.as_ref()?)))
            };
            before.extend(side(&edit.from));
            after.extend(side(&edit.to));
        }
    }
    if let Some(to) = metadata.unschedulable {
        before.push_str(&field("spec.unschedulable", !to));
        after.push_str(&field("spec.unschedulable", to));
    }
    (before, after)
}

/// The value, with one member per line if it is a JSON map.
fn readable(value: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, Value>>(value) {
        Ok(map) => map.iter().fold(String::new(), |text, (key, entry)| format!("{text}\n  {key}: {entry}")),
        Err(_) => value.to_owned(),
    }
}

/// The items of a list, one a line.
fn items(at: &str, items: &[Value]) -> String {
    items.iter().map(|item| field(at, item)).collect()
}

fn pretty(object: &Value) -> String {
    let text = serde_json::to_string_pretty(object).expect("a value is JSON");
    text + "\n"
}
