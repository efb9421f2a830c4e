//! `fix`: the remedies of all findings, as one plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::shared::command::{Run as _, Write, command};
use super::shared::diagnosis::group::FindingGroup;
use super::shared::grouped::grouped;
use super::shared::remedy::Grades;
use super::shared::rule::find_rule;
use super::shared::scope;
use crate::args::nodes::NodeFlags;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::planners::merge;
use crate::plan::{Change, Grade, Plan, Refusal, Step};
use crate::rules::support::causes::{Cause, Causes};
use crate::rules::{self, Finding, Finds, Remedy, Report, Rule, Scope, Severity};
use crate::view::{NodeSet, count, list, plural, shell_words, text};

/// Apply the remedies of all findings as one plan
///
/// Runs the rules as `diagnose stuck` does and takes, for each cause, the least disruptive remedy that changes
/// something and needs no decision, up to --up-to. These remedies form one plan, with preview, confirmation,
/// journal and undo as for any other command. Findings that follow from a cause are not fixed separately: run `diagnose
/// stuck` again afterwards.
///
/// Findings that are not fixed are listed with the reason: those that only a person can repair, such as an image, a
/// script or a PodDisruptionBudget; those whose remedy needs a decision, such as pausing, resuming, ignoring a node,
/// releasing a cordon, resetting, or canceling an uninstall; and those whose remedy is above --up-to. Transient
/// findings are fixed only if you name their codes. With --node or --match, no other node is changed.
///
/// Exits with 2 if nothing is fixed although there are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show what would be fixed, and what would be skipped
  kubectl skyhook fix --dry-run

  # Rerun failing packages after the cause of the failure is fixed
  kubectl skyhook fix package-erroring --up-to rerun

  # Limit fixes to one custom resource and one node
  kubectl skyhook fix --skyhook gpu-tune --node gpu-0001 --up-to reboot

  # What would change, for a script
  kubectl skyhook fix --dry-run -o json | jq -r '.steps[] | \"\\(.target): \\(.changes[])\"'")]
pub struct Args {
    /// Only fix findings of these rules, by code or name
    #[arg(value_name = "CODE")]
    rules: Vec<String>,

    /// Only fix findings of this custom resource; may be repeated
    #[arg(long = "skyhook", value_name = "NAME", alias = "nodewright", value_parser = crate::args::nodes::skyhook)]
    skyhooks: Vec<String>,

    #[command(flatten)]
    on: NodeFlags,

    /// Worst effect of the remedies to apply: objects (only objects change), rerun (packages run), restart (services
    /// restart) or reboot
    ///
    /// objects changes objects and runs nothing, rerun runs packages again, restart restarts services or evicts pods,
    /// reboot reboots nodes or permanently removes a record. The grades B1 to B4 are accepted, too.
    #[arg(long, value_name = "EFFECT", value_parser = grades(), default_value = "objects", ignore_case = true,
        hide_possible_values = true)]
    up_to: Grade,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    safety: Safety,
}

/// The grades above B0, by their words or codes.
fn grades() -> impl TypedValueParser<Value = Grade> {
    let grades = Grade::ALL[1..].iter();
    PossibleValuesParser::new(grades.map(|grade| PossibleValue::new(grade.word()).alias(grade.to_string())))
        .map(|name| Grade::named(&name).expect("the parser accepts only grade names"))
}

command! {
    "fix": Args => run,
    needs: Scope::default().needs(),
    writes: &[
        Write::Nodes,
        Write::Skyhooks,
        Write::SkyhookStatus,
        Write::DeletePods,
        Write::DeleteJobs,
    ],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let rules = args.rules.iter().map(|rule| find_rule(rule)).collect::<Result<Vec<_>>>()?;
    let cluster = ctx.load_to_change(&Scope::default().needs(), &Source::OF_WORK).await?;
    let limits = FixLimits {
        // The causes of a finding are reported by other rules.
        scope: scope::of(&cluster, &args.skyhooks, &args.on, Vec::new())?,
        rules,
        up_to: args.up_to,
        no_pause: args.no_pause,
    };
    let report = rules::diagnose(&cluster, &limits.scope);
    let plan = plan(&cluster, &report, &limits)?;
    if plan.is_empty() {
        // An empty plan has no preview that lists the skipped findings.
        for line in few(&plan.consequences.notes).iter().chain(&plan.consequences.warnings) {
            ctx.note(text::prose(line));
        }
    }
    let empty = plan.is_empty();
    let exit = ctx.execute(&cluster, plan, &args.safety).await?;
    let errors = report.counts.errors;
    // An empty plan does not mean that there are no errors.
    if exit == Exit::Done && empty && errors > 0 {
        let remain = if errors == 1 { "remains" } else { "remain" };
        let causes = plural(errors, "cause");
        ctx.note(format!("{causes} {remain}: see `kubectl skyhook diagnose stuck`"));
        return Ok(Exit::Findings);
    }
    Ok(exit)
}

/// The lines about skipped findings, at most two.
fn few(lines: &[String]) -> Vec<String> {
    match lines {
        [first, _, _, ..] => {
            let more = plural(lines.len() - 1, "more finding");
            vec![first.clone(), format!("skips {more}: see `kubectl skyhook diagnose stuck`")]
        }
        few => few.to_vec(),
    }
}

/// The plan with the remedies of the findings; its notes list the skipped findings.
///
/// # Errors
///
/// Two remedies contradict each other.
fn plan(cluster: &Cluster, report: &Report, limits: &FixLimits) -> Result<Plan> {
    let Choosing { parts, left, .. } = choose(cluster, &report.findings, limits);
    let cured: Vec<String> = parts.iter().map(Part::describe).collect();
    let mut plan = merged(cluster, parts)?;
    if plan.grade() > limits.up_to {
        let grade = plan.grade();
        return Err(Refusal::AboveLimit {
            limit: limits.up_to.word().to_owned(),
            effect: plan.consequences.at_worst(grade),
            grade: grade.to_string(),
            instead: shell_words(&["kubectl", "skyhook", "fix", "--up-to", grade.word()]),
        }
        .into());
    }
    let notes = std::mem::take(&mut plan.consequences.notes);
    plan.consequences.notes = cured.into_iter().chain(notes).chain(left).collect();
    for unchecked in &report.not_checked {
        if limits.rules.iter().any(|rule| rule.code == unchecked.rule.code) {
            let (code, reason) = (unchecked.rule.code, &unchecked.reason);
            plan.consequences.warn(format!("{code} was not checked: {reason}"));
        }
    }
    if limits.rules.is_empty() && !report.not_checked.is_empty() {
        plan.consequences.warn("some rules could not run: see `kubectl skyhook diagnose stuck`");
    }
    Ok(plan)
}

/// The limits of `fix`.
pub struct FixLimits {
    pub scope: Scope,
    /// The rules whose findings to fix; empty for all.
    pub rules: Vec<&'static Rule>,
    pub up_to: Grade,
    pub no_pause: bool,
}

/// Chooses a remedy for each cause, within the limits.
fn choose<'a>(cluster: &'a Cluster, findings: &[Finding], limits: &'a FixLimits) -> Choosing<'a> {
    let mut choosing = Choosing {
        cluster,
        grades: Grades::of_report(cluster),
        forecasts: 0,
        limits,
        parts: Vec::new(),
        left: Vec::new(),
        changed_packages: HashMap::new(),
        skippable: BTreeMap::new(),
    };
    let causes = Causes::of(findings).ranked(findings);
    for cause in &causes {
        for group in choosing.remedy_groups(cause, findings) {
            choosing.of_cause(&group);
        }
    }
    for cause in &causes {
        choosing.effects(cause, findings);
    }
    choosing.note_skippable();
    choosing
}

/// Findings of one cause with the same remedy.
struct RemedyGroup<'a> {
    findings: Vec<&'a Finding>,
    subject: String,
    /// The remedy, and its command line for all nodes.
    remedy: Option<(Remedy, Vec<String>)>,
    /// Whether the findings concern objects outside the flags' selection.
    elsewhere: bool,
    /// The rule whose remedy already changes the same package on the same node.
    cured_by: Option<&'static str>,
}

/// Maximum number of nodes named in a displayed command.
const NAMED: usize = 8;

impl RemedyGroup<'_> {
    /// The command for display. With many nodes, or one command per node, only one node is named.
    fn command(&self, remedy: &Remedy, argv: &[String]) -> String {
        let number = self.findings.len();
        let joined = argv != remedy.argv && number <= NAMED;
        let is_it = |f: &&Finding| f.changing_remedy().is_some_and(|other| other.argv == remedy.argv);
        if joined || self.findings.iter().all(is_it) {
            format!("`{}`", shell_words(argv))
        } else {
            format!("`{}` and {} more such commands", shell_words(&remedy.argv), count(number - 1))
        }
    }
}

/// Names of a custom resource and of a node.
type SkyhookOnNode = (String, String);

fn place(finding: &Finding) -> Option<SkyhookOnNode> {
    let subject = &finding.subject;
    Some((subject.skyhook.clone()?, subject.node.clone()?))
}

struct Choosing<'a> {
    cluster: &'a Cluster,
    grades: Grades<'a>,
    /// Number of remedies whose effects were computed: each costs a pass over the cluster.
    forecasts: usize,
    limits: &'a FixLimits,
    parts: Vec<Part>,
    /// One line for each group of skipped findings.
    left: Vec<String>,
    /// The packages that chosen remedies already change, with the codes of their rules. `None` means all
    /// packages.
    changed_packages: HashMap<SkyhookOnNode, Vec<(Option<String>, &'static str)>>,
    /// The codes of findings that are skipped because no rules are named, by what they find.
    skippable: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

impl Choosing<'_> {
    fn is_meant(&self, finding: &Finding) -> bool {
        let rules = &self.limits.rules;
        rules.is_empty() || rules.iter().any(|rule| rule.code == finding.rule.code)
    }

    /// Whether a finding concerns objects outside the flags' selection, and is listed because it explains or
    /// blocks selected ones.
    fn is_elsewhere(&self, finding: &Finding) -> bool {
        let scope = &self.limits.scope;
        let other = |named: &[String], own: &Option<String>| {
            !named.is_empty() && own.as_ref().is_some_and(|own| !named.contains(own))
        };
        // Findings about a whole custom resource affect all of its nodes.
        let whole = !scope.nodes.is_empty() && finding.subject.node.is_none();
        whole
            || other(&scope.skyhooks, &finding.subject.skyhook)
            || other(&scope.nodes, &finding.subject.node)
    }

    /// The selected findings of a cause, grouped by the command of their remedy.
    fn remedy_groups<'f>(&self, cause: &Cause, findings: &'f [Finding]) -> Vec<RemedyGroup<'f>> {
        // Placeholder for the node.
        const ANY: &str = "NODE";
        let meant = cause.findings.iter().copied().filter(|at| self.is_meant(&findings[*at]));
        let by_command = meant.map(|at| {
            let finding = &findings[at];
            let command = finding.changing_remedy().map(|remedy| {
                if remedy.own().is_none() {
                    return Vec::new();
                }
                let node = finding.subject.node.as_deref();
                node.and_then(|node| remedy.on_nodes(node, &[ANY])).unwrap_or_else(|| remedy.argv.clone())
            });
            let key = (self.is_elsewhere(finding), self.cured_by(finding), command);
            (key, at)
        });
        let kinds = grouped(by_command).into_iter().map(|((elsewhere, cured_by, _), places)| {
            let members: Vec<&Finding> = places.iter().map(|at| &findings[*at]).collect();
            let own = Cause::alone(places);
            let nodes: Vec<&str> = members.iter().filter_map(|f| f.subject.node.as_deref()).collect();
            let remedy = members[0].changing_remedy();
            let argv = remedy.as_ref().map(|remedy| {
                let all = nodes.first().and_then(|node| remedy.on_nodes(node, &nodes));
                all.unwrap_or_else(|| remedy.argv.clone())
            });
            RemedyGroup {
                findings: members,
                subject: FindingGroup::of(&own, findings).subject(false),
                remedy: remedy.zip(argv),
                elsewhere,
                cured_by,
            }
        });
        kinds.collect()
    }

    fn of_cause(&mut self, group: &RemedyGroup<'_>) {
        let finding = group.findings[0];
        if self.is_skippable(finding) {
            let why = if finding.rule.finds == Finds::LastingWaits && finding.permanent {
                "the state is probably intended"
            } else if finding.changing_remedy().is_some_and(|remedy| remedy.choice) {
                "it needs a decision"
            } else if finding.blocks_progress() {
                "this may resolve itself"
            } else {
                "this blocks nothing"
            };
            self.skippable.entry(why).or_default().insert(finding.rule.code);
            return;
        }
        if group.elsewhere {
            return self.leave(finding, &group.subject, "it does not match --skyhook or --node");
        }
        if let Some(other) = group.cured_by {
            let reason =
                format!("the remedy for {other} changes the same objects; run diagnose again afterwards");
            return self.leave(finding, &group.subject, &reason);
        }
        let Some((remedy, argv)) = &group.remedy else {
            let reason = format!("none of its remedies changes anything: see `{}`", pointer(finding));
            return self.leave(finding, &group.subject, &reason);
        };
        // Do not show a command that may evict, delete or drop a record if it needs a decision or is not one
        // of this plugin: `diagnose stuck` shows it with its caveat.
        let mut graded = Remedy { argv: argv.clone(), ..remedy.clone() };
        if remedy.choice {
            self.grades.grade(std::slice::from_mut(&mut graded));
        }
        let hidden = graded.gravity() >= Grade::B3 && (remedy.choice || remedy.own().is_none());
        let command =
            if hidden { format!("see `{}`", pointer(finding)) } else { group.command(remedy, argv) };
        // Leftovers of several custom resources are reviewed in their own preview.
        let plans = remedy.own().is_some() && !remedy.choice && !remedy.runs("leftovers");
        let most = self.grades.most;
        if plans && self.forecasts == most {
            let why = format!(
                "fix plans {} at a time; run it again afterwards, or limit it with --skyhook or --node",
                plural(most, "remedy")
            );
            return self.leave(finding, &group.subject, &why);
        }
        let planned = if plans { self.plan(argv) } else { None };
        match planned {
            None if remedy.own().is_some() => {
                let why = if remedy.choice {
                    "it needs a decision"
                } else {
                    "its remedy must be run as a separate command"
                };
                self.leave(finding, &group.subject, &format!("{why}: {command}"));
            }
            None => {
                self.leave(finding, &group.subject, &format!("its remedy must be applied by hand: {command}"))
            }
            Some(Err(why)) => {
                let reason = format!("{command} would be refused: {why}");
                self.leave(finding, &group.subject, &reason);
            }
            Some(Ok(plan)) => self.weigh(finding, remedy, group, argv, plan),
        }
    }

    /// The rule whose remedy already changes the same package on the same node.
    fn cured_by(&self, finding: &Finding) -> Option<&'static str> {
        let package = &finding.subject.package;
        let mut here = self.changed_packages.get(&place(finding)?)?.iter();
        let meets = |known: &Option<String>| known.is_none() || package.is_none() || known == package;
        here.find(|(known, _)| meets(known)).map(|(_, code)| *code)
    }

    /// Whether a finding is skipped because no rules are named, and it may resolve itself, is only info, or is
    /// an intended wait such as a pause.
    fn is_skippable(&self, finding: &Finding) -> bool {
        let intended = finding.rule.finds == Finds::LastingWaits && finding.severity < Severity::Error;
        let stays = finding.severity > Severity::Info && finding.permanent && !intended;
        !stays && self.limits.rules.is_empty()
    }

    /// The plan of a command; `None` for commands without a plan.
    fn plan(&self, argv: &[String]) -> Option<Result<Plan, String>> {
        let words = &argv[2..];
        // Only commands that pause have the flag.
        let unpaused = [words, &["--no-pause".to_owned()]].concat();
        let unpaused = self.limits.no_pause.then(|| self.grades.command(&unpaused)).flatten();
        let command = match unpaused {
            Some(command) => command,
            None => self.grades.command(words)?,
        };
        Some(command.plan(self.cluster)?.map_err(|error| {
            let hints: Vec<String> = error.hints.iter().take(1).map(|hint| format!(" ({hint})")).collect();
            format!("{}{}", error.message, hints.concat())
        }))
    }

    /// Adds the plan of a remedy, unless it exceeds the limits.
    fn weigh(
        &mut self,
        finding: &Finding,
        remedy: &Remedy,
        group: &RemedyGroup<'_>,
        argv: &[String],
        plan: Plan,
    ) {
        let subject = &group.subject;
        let command = group.command(remedy, argv);
        if plan.is_empty() {
            return self.leave(finding, subject, &format!("{command} would change nothing"));
        }
        // The operator continues with more than what a remedy itself repeats.
        self.forecasts += 1;
        let mut alone = plan.clone();
        alone.forecast(&self.grades.before);
        let grade = alone.grade();
        if grade > self.limits.up_to {
            let why = above(grade, &alone.consequences.at_worst(grade), &command);
            return self.leave(finding, subject, &why);
        }
        let named = &self.limits.scope.nodes;
        let other = |node: &&str| !named.is_empty() && !named.iter().any(|name| name == node);
        let beyond = NodeSet::of(plan.nodes().into_iter().filter(other));
        if !beyond.is_empty() {
            let reason = format!("{command} would also change other nodes: {}", beyond.limited(3));
            return self.leave(finding, subject, &reason);
        }
        for one in &group.findings {
            if let Some(place) = place(one) {
                let work = (one.subject.package.clone(), one.rule.code);
                self.changed_packages.entry(place).or_default().push(work);
            }
        }
        self.parts.push(Part { rule: finding.rule, subject: group.subject.clone(), command, plan });
    }

    /// Skips effects that end with their cause. Effects that outlast a cause fixed here are fixed like
    /// causes, unless a chosen remedy restarts the batches of the custom resource.
    fn effects(&mut self, cause: &Cause, findings: &[Finding]) {
        let code = findings[cause.findings[0]].rule.code;
        let effects = FindingGroup::of(cause, findings).effects();
        for effect in effects {
            let finding = effect.first();
            if !self.is_meant(finding) || self.is_skippable(finding) {
                continue;
            }
            let subject = effect.subject(false);
            let parts = &self.parts;
            let cured = parts.iter().any(|part| part.rule.code == code);
            let restarted = parts.iter().any(|part| part.restarts_batches_of(finding));
            if finding.outlasts_cause && cured && !restarted {
                let remedy = finding.changing_remedy();
                self.of_cause(&RemedyGroup {
                    findings: vec![finding],
                    subject,
                    remedy: remedy.map(|remedy| (remedy.clone(), remedy.argv)),
                    elsewhere: self.is_elsewhere(finding),
                    cured_by: None,
                });
            } else {
                self.leave(finding, &subject, &format!("it is caused by {code}"));
            }
        }
    }

    fn leave(&mut self, finding: &Finding, subject: &str, why: &str) {
        let line = skipped(&finding_label(finding.rule, subject), why);
        // List an effect of several causes once per cause.
        if !self.left.contains(&line) {
            self.left.push(line);
        }
    }

    /// Adds a line for the findings that are skipped because no rules are named.
    fn note_skippable(&mut self) {
        for (why, codes) in &self.skippable {
            let codes: Vec<&str> = codes.iter().copied().collect();
            let left = format!("skips {}, because {why}; specify a code to include it", list(&codes));
            self.left.push(left);
        }
    }
}

/// The line for a skipped finding.
pub fn skipped(finding: &str, why: &str) -> String {
    format!("skips {finding}, because {why}")
}

/// Why a remedy of this grade exceeds `--up-to`.
pub fn above(grade: Grade, effect: &str, command: &str) -> String {
    format!("its remedy needs --up-to {} ({effect}; {grade}): {command}", grade.word())
}

/// The command that shows a finding with all its remedies.
fn pointer(finding: &Finding) -> String {
    format!("kubectl skyhook diagnose stuck --rule {}", finding.rule.code)
}

/// A chosen remedy, with the plan of its command.
#[derive(Clone)]
struct Part {
    rule: &'static Rule,
    /// The text of the subject: `gpu-tune driver on node-1`.
    subject: String,
    command: String,
    plan: Plan,
}

impl Part {
    fn label(&self) -> String {
        finding_label(self.rule, &self.subject)
    }

    fn describe(&self) -> String {
        format!("for {}: {}", self.label(), self.command)
    }

    /// Whether the plan restarts the batches of the finding's custom resource.
    fn restarts_batches_of(&self, finding: &Finding) -> bool {
        self.plan
            .steps()
            .filter(|step| restarts_batches(step))
            .any(|step| finding.subject.skyhook.as_ref() == Some(&step.target.name))
    }
}

/// The text for a finding: `SKY201 package-erroring, gpu-tune driver on node-1`.
fn finding_label(rule: &Rule, subject: &str) -> String {
    format!("{} {}, {subject}", rule.code, rule.name)
}

/// Merges the plans into one, which pauses each custom resource at most once.
///
/// # Errors
///
/// Two plans set a field to different values.
fn merged(cluster: &Cluster, mut parts: Vec<Part>) -> Result<Plan> {
    refuse_contradictions(&parts)?;
    // Batches restart after all failures are repaired; otherwise the most severe cause comes first.
    parts.sort_by_key(|part| part.plan.steps().any(restarts_batches));
    restart_batches_last(&mut parts);
    let title = title(&parts);
    let plans = parts.into_iter().map(|part| part.plan).collect();
    Ok(merge::merged(cluster, title, "fix", plans))
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
