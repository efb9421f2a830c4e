//! What a rule says when it fires.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::Rule;
use crate::api::{Entry, Skyhook};
use crate::cluster::Source;
use crate::plan::Grade;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is stuck, or the evidence allows two readings.
    Info,
    /// Will bite later, or holds up a part of the work.
    Warning,
    /// Stuck: it does not move on by itself.
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
    /// The kind of the object: `Skyhook`, `NodeWright`, `Node` …
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
    /// The field, or what else was looked at.
    pub field: String,
    pub value: String,
}

/// A command that cures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    pub title: String,
    /// The command, word by word.
    pub argv: Vec<String>,
    pub grade: Grade,
    /// The command that does it on all nodes where it is so, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_all_nodes: Option<Vec<String>>,
    /// What it does not do, or what to mind before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// A rule that fired on a subject.
#[derive(Debug, Clone)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    pub subject: Subject,
    /// Never names the subject's own node, so that the same trouble on many nodes folds.
    pub message: String,
    pub since: Option<Timestamp>,
    pub evidence: Vec<Evidence>,
    /// From the least to the most destructive.
    pub remedies: Vec<Remedy>,
    /// Whether other custom resources and nodes do not get on either.
    pub stops_all: bool,
    /// The custom resource that the subject waits for: look there for the cause.
    pub waits_for: Option<String>,
    /// Other nodes that do not get on because of it.
    pub holds_up: Vec<String>,
}

impl Finding {
    /// It ends the operator's pass, so it concerns every custom resource, whichever it is about.
    pub fn stops_all(&mut self) -> &mut Self {
        self.stops_all = true;
        self
    }

    /// The cause is to be found at another custom resource.
    pub fn waits_for(&mut self, skyhook: &str) -> &mut Self {
        self.waits_for = Some(skyhook.to_owned());
        self
    }

    /// These nodes do not get on because of it either.
    pub fn holds_up(&mut self, nodes: &[&str]) -> &mut Self {
        self.holds_up = nodes.iter().map(ToString::to_string).collect();
        self
    }

    pub fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self
    }

    pub fn since(&mut self, since: Option<Timestamp>) -> &mut Self {
        self.since = since;
        self
    }

    pub fn evidence(
        &mut self,
        object: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<String>,
    ) -> &mut Self {
        let (object, field, value) = (object.into(), field.into(), value.into());
        self.evidence.push(Evidence {
            object,
            field,
            value,
        });
        self
    }

    /// The entry of a package in a node state, as evidence.
    pub fn entry(&mut self, node: &str, entry: &Entry) -> &mut Self {
        let restarts = match entry.restarts {
            0 => String::new(),
            1 => ", 1 restart".to_owned(),
            n => format!(", {n} restarts"),
        };
        let value = format!("{}/{}{restarts}", entry.stage, entry.state);
        self.evidence(
            format!("node/{node}"),
            format!("nodeState {}", entry.key),
            value,
        )
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
        self.remedies.push(Remedy {
            title: title.into(),
            argv: program.iter().map(ToString::to_string).chain(own).collect(),
            grade,
            for_all_nodes: None,
            caveat: None,
        });
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

    /// What to mind about the remedy that was added last.
    pub fn caveat(&mut self, caveat: impl Into<String>) -> &mut Self {
        if let Some(remedy) = self.remedies.last_mut() {
            remedy.caveat = Some(caveat.into());
        }
        self
    }
}

/// Where rules put what they find.
#[derive(Debug)]
pub struct Findings {
    rule: &'static Rule,
    found: Vec<Finding>,
    depends_on: Vec<Source>,
}

impl Findings {
    pub(super) fn of(rule: &'static Rule) -> Findings {
        Findings {
            rule,
            found: Vec::new(),
            depends_on: Vec::new(),
        }
    }

    /// What was found, and the sources on which the answer depends besides those that are needed.
    pub(super) fn into_inner(self) -> (Vec<Finding>, Vec<Source>) {
        (self.found, self.depends_on)
    }

    /// On this cluster the answer depends on a source that the rule can otherwise do without.
    pub fn depends_on(&mut self, source: Source) {
        if !self.depends_on.contains(&source) {
            self.depends_on.push(source);
        }
    }

    /// Adds a finding at the rule's own severity; evidence and remedies are added to what returns.
    pub fn report(&mut self, subject: Subject, message: impl Into<String>) -> &mut Finding {
        self.found.push(Finding {
            rule: self.rule,
            severity: self.rule.severity,
            subject,
            message: message.into(),
            since: None,
            evidence: Vec::new(),
            remedies: Vec::new(),
            stops_all: false,
            waits_for: None,
            holds_up: Vec::new(),
        });
        self.found.last_mut().expect("one was pushed")
    }
}
