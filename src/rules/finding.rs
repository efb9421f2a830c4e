//! What a rule says when it fires.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::Awaited;
use super::remedy::Remedy;
use super::{Blocks, Reason, Rule};
use crate::api::Skyhook;
use crate::cluster::{Deployment, Node, PackageRun};
use crate::plan::Grade;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is stuck, or the evidence allows two readings.
    Info,
    /// Will cause a problem later, or blocks a part of the work.
    Warning,
    /// Stuck: it does not resolve itself.
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

/// What a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Subject {
    /// Kind of the object: `Skyhook`, `NodeWright`, `Node` …
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The custom resource concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The package concerned, without version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
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
        Subject {
            kind: kind.into(),
            name: name.into(),
            ..Subject::default()
        }
    }

    /// A custom resource on a node.
    pub fn on(skyhook: &Skyhook, node: &Node) -> Subject {
        Subject::node(&node.name, Some(skyhook.name()))
    }

    /// What runs, or ran, on a node.
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
        Subject {
            package: Some(package.to_owned()),
            ..self
        }
    }
}

/// One observation that supports a finding: which field of which object says what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Evidence {
    /// `kind/name` of the object.
    pub object: String,
    /// The field, or what else was checked.
    pub field: String,
    pub value: String,
}

/// A rule that fired on a subject.
#[derive(Debug, Clone)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    pub subject: Subject,
    /// Never names the subject's own node, so that the same trouble on many nodes folds.
    pub message: String,
    /// See [`Finding::alike`].
    alike: Option<String>,
    pub since: Option<Timestamp>,
    pub evidence: Vec<Evidence>,
    /// From the least to the most destructive.
    pub remedies: Vec<Remedy>,
    /// What is blocked as long as this finding exists.
    pub blocks: &'static [Blocks],
    /// Whether the problem lasts until someone intervenes.
    pub lasts: bool,
    /// Since when, at the latest, what is tried again has failed.
    pub failing_since: Option<Timestamp>,
    /// What the subject waits for: whatever is found there explains this.
    pub waits_for: Vec<Awaited>,
    /// See [`Finding::effect_of`].
    pub effect_of: &'static [&'static str],
    /// Other nodes that are blocked by it.
    pub holds_up: Vec<String>,
    /// What the attempt at the stage says, once [`reason::add`](super::reason::add) has looked.
    pub reason: Option<Box<Reason>>,
}

impl Finding {
    pub(super) fn new(rule: &'static Rule, subject: Subject, message: String) -> Finding {
        Finding {
            rule,
            severity: rule.severity,
            subject,
            message,
            alike: None,
            since: None,
            evidence: Vec::new(),
            remedies: Vec::new(),
            blocks: rule.blocks,
            lasts: true,
            failing_since: None,
            waits_for: Vec::new(),
            effect_of: &[],
            holds_up: Vec::new(),
            reason: None,
        }
    }

    /// It blocks this, and nothing else of what its rule blocks elsewhere.
    pub fn blocks_only(&mut self, blocks: &'static [Blocks]) -> &mut Self {
        self.blocks = blocks;
        self
    }

    /// Whether it stops a custom resource as a whole, whatever is wrong with its packages and on its nodes.
    pub fn stops_whole(&self) -> bool {
        let subject = &self.subject;
        subject.node.is_none() && subject.package.is_none() && !self.blocks.is_empty()
    }

    /// Whether it ends the operator's pass, which concerns every custom resource, whichever it is about.
    pub fn blocks_reconcile(&self) -> bool {
        self.blocks.contains(&Blocks::Reconcile)
    }

    /// What it says of several nodes at once, where the message names what one of them has alone: a pod, a number of
    /// attempts.
    pub fn alike(&mut self, message: impl Into<String>) -> &mut Self {
        self.alike = Some(message.into());
        self
    }

    /// What is wrong, whichever node it is on: findings of one rule that say the same here are one trouble.
    pub fn trouble(&self) -> &str {
        self.alike.as_deref().unwrap_or(&self.message)
    }

    /// It stays until somebody acts, though it is no error by itself.
    pub fn lasts(&mut self) -> &mut Self {
        self.lasts = true;
        self
    }

    /// It is meant to pass by itself.
    pub fn passes(&mut self) -> &mut Self {
        self.lasts = false;
        self
    }

    /// What is tried again has failed since then, if not for longer.
    pub fn failing_since(&mut self, at: Option<Timestamp>) -> &mut Self {
        self.failing_since = at;
        self
    }

    /// It is an effect of what is wrong with a custom resource on a node.
    pub fn waits_for_node(&mut self, skyhook: &str, node: &str) -> &mut Self {
        self.awaits(skyhook, Some(node), false)
    }

    /// It is an effect of what is wrong with a custom resource that does not work on a node yet: there, or elsewhere.
    pub fn waits_for_queued(&mut self, skyhook: &str, node: &str) -> &mut Self {
        self.awaits(skyhook, Some(node), true)
    }

    /// It is an effect of what is wrong with a custom resource, wherever that is.
    pub fn waits_for(&mut self, skyhook: &str) -> &mut Self {
        self.awaits(skyhook, None, false)
    }

    fn awaits(&mut self, skyhook: &str, node: Option<&str>, queued: bool) -> &mut Self {
        self.waits_for.push(Awaited {
            skyhook: skyhook.to_owned(),
            node: node.map(str::to_owned),
            queued,
        });
        self
    }

    /// It is an effect of what rules of these codes find: about the same package on the same node, or about what ends the
    /// operator's pass.
    pub fn effect_of(&mut self, codes: &'static [&'static str]) -> &mut Self {
        self.effect_of = codes;
        self
    }

    /// These nodes make no progress because of it either.
    pub fn holds_up(&mut self, nodes: &[&str]) -> &mut Self {
        self.holds_up = nodes.iter().map(ToString::to_string).collect();
        self
    }

    /// Below the severity of the rule it is unsure, or may pass by itself.
    pub fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self.lasts = severity >= self.rule.severity;
        self
    }

    /// Makes it a warning where this is so.
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

    /// Adds an observation: an object, as `kind/name`, a field of it, and what this says.
    pub fn evidence(
        &mut self,
        object: impl fmt::Display,
        field: impl fmt::Display,
        value: impl fmt::Display,
    ) -> &mut Self {
        self.evidence.push(Evidence {
            object: object.to_string(),
            field: field.to_string(),
            value: value.to_string(),
        });
        self
    }

    /// A remedy that is one of our own commands.
    pub fn remedy<S: AsRef<str>>(
        &mut self,
        grade: Grade,
        title: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        self.command(grade, title, &["kubectl", "skyhook"], words)
    }

    /// A remedy for which there is only plain kubectl.
    pub fn kubectl<S: AsRef<str>>(
        &mut self,
        grade: Grade,
        title: impl Into<String>,
        words: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        self.command(grade, title, &["kubectl"], words)
    }

    fn command<S: AsRef<str>>(
        &mut self,
        grade: Grade,
        title: impl Into<String>,
        program: &[&str],
        words: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        let own = words.into_iter().map(|w| w.as_ref().to_owned());
        let argv = program.iter().map(ToString::to_string).chain(own);
        self.remedies
            .push(Remedy::new(grade, title, argv.collect()));
        self
    }

    /// The remedy that was added last does it on all nodes where it is so, with these flags instead of `--node NODE`.
    pub fn for_all_nodes<const N: usize>(&mut self, flags: [&str; N]) -> &mut Self {
        let remedy = self.remedies.last_mut();
        if let Some(remedy) = remedy
            && let Some(at) = remedy.argv.iter().position(|w| w == "--node")
        {
            let mut argv = remedy.argv.clone();
            argv.splice(at..at + 2, flags.map(str::to_owned));
            remedy.for_all_nodes = Some(argv);
        }
        self
    }

    /// The remedy that was added last is a choice of the user: no object says whether it is right.
    pub fn by_choice(&mut self) -> &mut Self {
        if let Some(remedy) = self.remedies.last_mut() {
            remedy.choice = true;
        }
        self
    }

    /// What to mind about the remedy that was added last.
    pub fn caveat(&mut self, caveat: impl Into<String>) -> &mut Self {
        if let Some(remedy) = self.remedies.last_mut() {
            remedy.caveat = Some(caveat.into());
        }
        self
    }
}
