//! The findings of rules.

use std::fmt;
use std::rc::Rc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::remedies::remedy::{Remedy, RemedyTemplate};
use super::support::causes::Awaited;
use super::support::mute::Mute;
use super::{Blocks, Reason, Rule};
use crate::api::name::is_word;
use crate::api::{Name, Skyhook};
use crate::cluster::{Deployment, Node, PackageRun};
use crate::model::Predecessor;
use crate::plan::Grade;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Severity {
    /// Worth knowing: nothing is stuck, or the evidence is ambiguous.
    #[serde(alias = "info")]
    Info,
    /// Will cause a problem later, or blocks a part of the work.
    #[serde(alias = "warning")]
    Warning,
    /// Progress is stuck, and the problem does not resolve itself.
    #[serde(alias = "error")]
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One value that supports a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// The object, as `kind/name`.
    #[schemars(with = "String")]
    pub object: Name,
    /// The field, or the name of another observation.
    #[schemars(with = "String")]
    pub field: Name,
    /// The value.
    #[schemars(with = "String")]
    pub value: Name,
}

/// A rule that fired on a subject.
#[derive(Debug, Clone)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    pub subject: Subject,
    /// The message. It never names the subject's own node, so that the same problem on many nodes can be
    /// grouped.
    pub message: String,
    /// See [`Finding::group_message`].
    group_message: Option<String>,
    pub since: Option<Timestamp>,
    pub evidence: Vec<Evidence>,
    /// The remedies while the rule adds them; see [`Finding::compact`].
    new_remedies: Vec<Remedy>,
    remedies: Vec<RemedyTemplate>,
    /// The operations blocked while this finding exists.
    pub blocks: &'static [Blocks],
    /// Whether the problem lasts until someone intervenes.
    pub permanent: bool,
    /// The time since which a retried operation has certainly failed; it may have failed for longer.
    pub failing_since: Option<Timestamp>,
    /// Subjects that the finding waits for. Findings about these subjects are its causes.
    pub waits_for: Vec<Awaited>,
    /// See [`Finding::outlasts_cause`].
    pub outlasts_cause: bool,
    /// See [`Finding::effect_of`].
    pub effect_of: &'static [&'static str],
    /// Other nodes that the finding blocks.
    pub blocked_nodes: Vec<String>,
    /// The result of the stage's attempt, set by [`reason::add`](super::support::reason::add).
    pub reason: Option<Box<Reason>>,
    /// Set by [`Mutes::mark`](super::support::mute::Mutes::mark), for reports only.
    pub muted: Option<Rc<Mute>>,
}

/// A finding in short, as documents contain it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingSummary {
    /// The code of the rule.
    pub code: &'static str,
    /// The name of the rule.
    pub name: &'static str,
    /// The severity of the finding.
    pub severity: Severity,
    /// The object that the finding is about.
    pub subject: Subject,
    /// The observed problem.
    pub message: String,
}

/// The identity of a finding across reports.
pub type FindingKey = (&'static str, Subject);

/// In [`Finding::effect_of`]: all rules that block [`Blocks::Reconcile`].
pub const ENDED_RECONCILE: &str = "Reconcile";

impl Finding {
    pub fn key(&self) -> FindingKey {
        (self.rule.code, self.subject.clone())
    }

    pub fn summary(&self) -> FindingSummary {
        FindingSummary {
            code: self.rule.code,
            name: self.rule.name,
            severity: self.severity,
            subject: self.subject.clone(),
            message: self.message.clone(),
        }
    }

    pub(super) fn new(rule: &'static Rule, subject: Subject, message: String) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            subject,
            message,
            group_message: None,
            since: None,
            evidence: Vec::new(),
            new_remedies: Vec::new(),
            remedies: Vec::new(),
            blocks: rule.blocks,
            permanent: true,
            failing_since: None,
            waits_for: Vec::new(),
            effect_of: &[],
            outlasts_cause: false,
            blocked_nodes: Vec::new(),
            reason: None,
            muted: None,
        }
    }

    /// The remedies in order of preference: from the least to the most destructive, but a remedy that applies
    /// only under a condition may come last.
    pub fn remedies(&self) -> impl Iterator<Item = Remedy> {
        self.remedies
            .iter()
            .map(|template| template.fill(&self.subject))
            .chain(self.new_remedies.iter().cloned())
    }

    /// Changes the list of remedies.
    pub fn change_remedies(&mut self, change: impl FnOnce(&mut Vec<Remedy>)) {
        let mut remedies = self.remedies().collect();
        change(&mut remedies);
        self.remedies.clear();
        self.new_remedies = remedies;
    }

    /// Stores the remedies once for all findings with the same ones, and drops unused capacity: there may be a
    /// finding for each custom resource on each node.
    pub(in crate::rules) fn compact(&mut self) {
        let new = std::mem::take(&mut self.new_remedies).into_iter();
        self.remedies.extend(new.map(|remedy| RemedyTemplate::of(remedy, &self.subject)));
        self.remedies.shrink_to_fit();
        self.evidence.shrink_to_fit();
        self.waits_for.shrink_to_fit();
    }

    /// A copy for rules that only look at the subject and at what is blocked.
    pub(super) fn outline(&self) -> Finding {
        let mut outline = Finding::new(self.rule, self.subject.clone(), String::new());
        outline.severity = self.severity;
        outline.blocks = self.blocks;
        outline.permanent = self.permanent;
        outline.waits_for.clone_from(&self.waits_for);
        outline.effect_of = self.effect_of;
        outline.blocked_nodes.clone_from(&self.blocked_nodes);
        outline
    }

    /// The least disruptive remedy that changes something, preferably a command of the plugin that is not a
    /// decision of the user.
    pub fn changing_remedy(&self) -> Option<Remedy> {
        let changing = || self.remedies().filter(Remedy::changes);
        changing().find(|r| r.own().is_some() && !r.choice).or_else(|| changing().next())
    }

    /// Limits the rule's blocked operations to these.
    pub fn blocks_only(&mut self, blocks: &'static [Blocks]) -> &mut Self {
        self.blocks = blocks;
        self
    }

    /// Whether the finding blocks a whole custom resource, regardless of packages and nodes.
    pub fn stops_whole(&self) -> bool {
        let subject = &self.subject;
        subject.node.is_none() && subject.package.is_none() && !self.blocks.is_empty()
    }

    /// Whether the finding keeps the operator from its work, and not only workloads or changes by users.
    pub fn blocks_progress(&self) -> bool {
        self.blocks.iter().any(|blocks| !matches!(blocks, Blocks::Workloads | Blocks::Changes))
    }

    /// Whether the finding concerns all nodes of its custom resource. A finding that lists the nodes that it
    /// blocks concerns only these.
    pub fn concerns_all_nodes(&self) -> bool {
        self.blocks_other_nodes() || self.subject.node.is_none() && self.blocked_nodes.is_empty()
    }

    /// Whether the finding keeps packages from being installed.
    pub fn blocks_installs(&self) -> bool {
        self.blocks.contains(&Blocks::Install)
    }

    /// Whether the finding ends the operator's reconcile, which concerns every custom resource.
    pub fn blocks_reconcile(&self) -> bool {
        self.blocks.contains(&Blocks::Reconcile)
    }

    /// Whether the finding keeps the operator from continuing on any node of its custom resource.
    pub fn blocks_other_nodes(&self) -> bool {
        self.blocks.contains(&Blocks::OtherNodes)
    }

    /// Whether the operator's reconcile ends before it continues this custom resource.
    pub fn blocks_reconcile_of(&self, skyhook: &str) -> bool {
        self.blocks_reconcile()
            || self.blocks_other_nodes() && self.subject.skyhook.as_deref() == Some(skyhook)
    }

    /// Whether nothing can be installed for any custom resource, although the operator's reconcile goes on.
    pub fn refuses_installs(&self) -> bool {
        let subject = &self.subject;
        subject.skyhook.is_none()
            && subject.node.is_none()
            && self.severity == Severity::Error
            && self.blocks_installs()
            && !self.blocks_reconcile()
    }

    /// Whether the finding concerns every custom resource and has to be fixed before remedies for others
    /// help.
    pub fn comes_first(&self) -> bool {
        let rejects = self.blocks.contains(&Blocks::Changes);
        self.blocks_reconcile() || rejects && self.severity == Severity::Error
    }

    /// Sets the message for several nodes, without details of one node such as a pod or a number of attempts.
    pub fn group_message(&mut self, message: impl Into<String>) -> &mut Self {
        self.group_message = Some(message.into());
        self
    }

    /// The message independent of the node: findings of one rule with the same text are one problem.
    pub fn trouble(&self) -> &str {
        self.group_message.as_deref().unwrap_or(&self.message)
    }

    /// Marks a problem that lasts until someone intervenes, even if it is not an error.
    pub fn mark_permanent(&mut self) -> &mut Self {
        self.permanent = true;
        self
    }

    /// Marks a problem that is expected to resolve itself.
    pub fn mark_transient(&mut self) -> &mut Self {
        self.permanent = false;
        self
    }

    /// Sets the time since which the retried operation has certainly failed.
    pub fn set_failing_since(&mut self, at: Option<Timestamp>) -> &mut Self {
        self.failing_since = at;
        self
    }

    /// Declares problems of a custom resource on a node as causes.
    pub fn waits_for_node(&mut self, skyhook: &str, node: &str) -> &mut Self {
        self.awaits(skyhook, Some(node), false)
    }

    /// Declares problems of an earlier custom resource as causes: on its node or, if it is being deleted, on
    /// any node.
    pub fn waits_for_predecessor(&mut self, predecessor: &Predecessor<'_>) -> &mut Self {
        let earlier = predecessor.skyhook;
        self.awaits(earlier.name(), Some(&predecessor.node.name), earlier.deleting())
    }

    /// Declares problems of a custom resource on any node as causes.
    pub fn waits_for(&mut self, skyhook: &str) -> &mut Self {
        self.awaits(skyhook, None, false)
    }

    fn awaits(&mut self, skyhook: &str, node: Option<&str>, on_all_nodes: bool) -> &mut Self {
        self.waits_for.push(Awaited {
            skyhook: skyhook.to_owned(),
            node: node.map(str::to_owned),
            on_all_nodes,
        });
        self
    }

    /// Marks a finding that remains after its cause is fixed, and then needs its own remedy.
    pub fn outlasts_cause(&mut self) -> &mut Self {
        self.outlasts_cause = true;
        self
    }

    /// Declares findings with these codes as causes, if they are about the same package or no package, and
    /// about the same node or no node, or if they end the operator's reconcile.
    pub fn effect_of(&mut self, codes: &'static [&'static str]) -> &mut Self {
        self.effect_of = codes;
        self
    }

    /// Whether the finding declares this one as its cause.
    pub(super) fn is_effect_of(&self, cause: &Finding) -> bool {
        let own = self.subject.skyhook.as_deref().unwrap_or_default();
        self.effect_of.contains(&cause.rule.code)
            || cause.blocks_reconcile_of(own) && self.effect_of.contains(&ENDED_RECONCILE)
    }

    /// Sets the other nodes that the finding blocks.
    pub fn set_blocked_nodes(&mut self, nodes: &[&str]) -> &mut Self {
        self.blocked_nodes = nodes.iter().map(ToString::to_string).collect();
        self
    }

    /// Sets the severity. Below the rule's severity, the finding is uncertain or may resolve itself.
    pub fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self.permanent = severity >= self.rule.severity;
        self
    }

    /// Makes the finding a warning if it is uncertain.
    pub fn warning_if(&mut self, uncertain: bool) -> &mut Self {
        if uncertain {
            self.severity(Severity::Warning);
        }
        self
    }

    pub fn since(&mut self, since: Option<Timestamp>) -> &mut Self {
        self.since = since;
        self
    }

    /// Adds an observation: the object as `kind/name`, a field, and its value.
    pub fn evidence(
        &mut self,
        object: impl fmt::Display,
        field: impl fmt::Display,
        value: impl fmt::Display,
    ) -> &mut Self {
        self.evidence.push(Evidence {
            object: object.to_string().into(),
            field: field.to_string().into(),
            value: value.to_string().into(),
        });
        self
    }

    /// Adds a remedy that is a command of this plugin.
    pub fn remedy<S: AsRef<str>>(
        &mut self,
        title: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.new_remedies.push(Remedy::planned(title, words));
        self
    }

    /// Adds a remedy for which only a plain kubectl command exists.
    pub fn kubectl<S: AsRef<str>>(
        &mut self,
        grade: Grade,
        title: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        let argv = std::iter::once("kubectl".to_owned()).chain(words);
        self.new_remedies.push(Remedy::graded(Some(grade), title, argv.collect()));
        self
    }

    /// Ends the finding once its rule has added everything: drops remedies in which a name would be read as a flag, such as
    /// a package name, which the API server does not validate.
    pub(super) fn finish(&mut self) {
        let Subject { name, skyhook, node, package, .. } = &self.subject;
        let names = [Some(name), skyhook.as_ref(), node.as_ref(), package.as_ref()];
        let flags: Vec<&String> = names.into_iter().flatten().filter(|n| !is_word(n)).collect();
        self.new_remedies.retain(|remedy| !remedy.argv.iter().any(|word| flags.contains(&word)));
        self.compact();
    }

    /// Marks the last remedy as a decision of the user: no object shows whether it is right.
    pub fn by_choice(&mut self) -> &mut Self {
        self.change_last(|remedy| remedy.choice = true)
    }

    /// Sets the worst effect of the last remedy, where it differs from the meaning of its grade.
    pub fn effect(&mut self, effect: &str) -> &mut Self {
        self.change_last(|remedy| remedy.effect = Some(effect.to_owned()))
    }

    /// Sets the limits and risks of the last remedy.
    pub fn caveat(&mut self, caveat: impl Into<String>) -> &mut Self {
        self.change_last(|remedy| remedy.caveat = Some(caveat.into()))
    }

    fn change_last(&mut self, change: impl FnOnce(&mut Remedy)) -> &mut Self {
        self.new_remedies.last_mut().map(change);
        self
    }
}

/// The object that a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// The kind of the object: `Skyhook`, `NodeWright`, `Node` …
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The custom resource concerned; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    /// The node concerned; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The package concerned, without version; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The compartment concerned, of a deployment policy; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compartment: Option<String>,
}

impl Subject {
    /// A custom resource.
    pub fn skyhook(skyhook: &Skyhook) -> Subject {
        Subject {
            kind: skyhook.kind.clone(),
            name: skyhook.name().to_owned(),
            skyhook: Some(skyhook.name().to_owned()),
            ..Subject::default()
        }
    }

    /// A Deployment of the operator.
    pub fn deployment(deployment: &Deployment) -> Subject {
        Subject::object("Deployment", deployment.name())
    }

    /// An object that belongs to no custom resource and no node.
    pub fn object(kind: impl Into<String>, name: impl Into<String>) -> Subject {
        Subject { kind: kind.into(), name: name.into(), ..Subject::default() }
    }

    /// A custom resource on a node.
    pub fn skyhook_on_node(skyhook: &Skyhook, node: &Node) -> Subject {
        Subject::node(&node.name, Some(skyhook.name()))
    }

    /// The package of a run, on its node.
    pub fn package_run(package_run: &PackageRun<'_>) -> Subject {
        Subject::node(package_run.node, Some(&package_run.skyhook)).package(&package_run.package)
    }

    /// A node, with regard to a custom resource that may no longer exist.
    pub fn node(node: &str, skyhook: Option<&str>) -> Subject {
        Subject {
            kind: "Node".to_owned(),
            name: node.to_owned(),
            node: Some(node.to_owned()),
            skyhook: skyhook.map(str::to_owned),
            ..Subject::default()
        }
    }

    pub fn package(self, package: &str) -> Subject {
        Subject { package: Some(package.to_owned()), ..self }
    }
}
