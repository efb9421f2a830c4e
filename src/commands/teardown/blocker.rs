//! What keeps an object from going once its deletion was asked for. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use super::order::{DoomedObject, LiveObject};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::commands::shared::shell_words::shell_words;
use crate::rules::{self, Finding, Goal, Remedy, Report, Scope, Subject, blockers};
use crate::view::NodeSet;

/// Nodes that are named before the rest is only counted.
const SHOWN: usize = 4;

/// Something that keeps an object from going.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The rule that found it; nothing where it is not for a rule to find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub subject: Subject,
    pub message: String,
    /// The mildest step against it, as it is typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Blocker {
    /// `SKY112 uninstall-failing: driver on node-2`
    pub fn brief(&self) -> String {
        let Some(code) = &self.code else {
            return self.message.clone();
        };
        let name = self.name.as_deref().unwrap_or_default();
        let subject = &self.subject;
        let mut on: Vec<&str> = subject.package.as_deref().into_iter().collect();
        if let Some(node) = &subject.node {
            on.extend(["on", node]);
        }
        if on.is_empty() {
            format!("{code} {name}")
        } else {
            format!("{code} {name}: {}", on.join(" "))
        }
    }
}

/// All findings that may hold up deletions.
pub fn report(cluster: &Cluster) -> Report {
    rules::diagnose(cluster, &Scope::default())
}

/// What keeps the object from going, gravest first. Whether anything does is not known where sources are not read.
pub fn of(cluster: &Cluster, report: &Report, item: &DoomedObject) -> Vec<Blocker> {
    let Some(found) = item.find(cluster) else {
        return Vec::new();
    };
    let entry = item.flavor.finalizer();
    let all = &found.metadata().finalizers;
    let held = all.contains(&entry) && item.priority.is_some();
    let others: Vec<&str> = all.iter().map(String::as_str).collect();
    let others: Vec<&str> = others
        .into_iter()
        .filter(|f| *f != entry || item.priority.is_none())
        .collect();
    let mut hindrances = match found {
        LiveObject::Skyhook(skyhook) if held && item.flavor == cluster.flavor() => {
            own(cluster, report, skyhook)
        }
        LiveObject::Skyhook(skyhook) if held => elder(cluster, report, item, skyhook),
        _ => Vec::new(),
    };
    // The operator may still have work to do; they hold it afterwards in any case.
    if !others.is_empty() && (!found.metadata().deleting() || !held || !hindrances.is_empty()) {
        hindrances.push(foreign(item, &others));
    }
    hindrances
}

/// What findings say of a custom resource that the operator works on.
fn own(cluster: &Cluster, report: &Report, skyhook: &Skyhook) -> Vec<Blocker> {
    let mut found: Vec<(&Finding, Vec<&str>)> = Vec::new();
    for finding in blockers(cluster, report, skyhook, Goal::Deletion) {
        let node = finding.subject.node.as_deref();
        let like = found.iter_mut().find(|(f, on)| {
            f.rule.code == finding.rule.code
                && f.message == finding.message
                && f.subject.package == finding.subject.package
                && !on.is_empty()
        });
        match (like, node) {
            (Some((_, on)), Some(node)) => on.push(node),
            _ => found.push((finding, node.into_iter().collect())),
        }
    }
    let found = found.into_iter();
    found
        .map(|(f, on)| told(cluster, f, &on, skyhook))
        .collect()
}

/// A finding, with the nodes that it is about.
fn told(cluster: &Cluster, finding: &Finding, on: &[&str], skyhook: &Skyhook) -> Blocker {
    let mut subject = finding.subject.clone();
    if on.len() > 1 {
        subject.node = Some(NodeSet::of(on.iter().copied()).limited(SHOWN));
    }
    let gone = cluster.operator_absent();
    Blocker {
        code: Some(finding.rule.code.to_owned()),
        name: Some(finding.rule.name.to_owned()),
        subject,
        message: if gone {
            format!("{}; its finalizer is never removed", finding.message)
        } else {
            finding.message.clone()
        },
        next: if gone {
            Some(strip(skyhook.name(), ""))
        } else {
            step(finding, skyhook).map(|r| shell_words(&r.argv))
        },
    }
}

/// The mildest step that does something about it; what only shows more comes second.
fn step<'a>(finding: &'a Finding, skyhook: &Skyhook) -> Option<&'a Remedy> {
    // Before the deletion is asked for there is nothing to strip.
    let takes = |r: &&Remedy| skyhook.deleting() || !r.argv.iter().any(|w| w == "strip");
    let mut remedies = finding.remedies.iter().filter(takes);
    remedies.next()
}

/// Of one of the other API, which the operator that rules does not work on.
fn elder(
    cluster: &Cluster,
    report: &Report,
    item: &DoomedObject,
    skyhook: &Skyhook,
) -> Vec<Blocker> {
    let name = skyhook.name();
    if cluster.active_api.migrating() {
        // The newer operator takes the older finalizer off as soon as the deletion is asked for.
        let stops = |f: &&Finding| {
            f.blocks_for_good() && f.blocks_reconcile() && f.subject.skyhook.is_none()
        };
        let down = report.findings.iter().find(stops);
        return down
            .map(|f| told(cluster, f, &[], skyhook))
            .into_iter()
            .collect();
    }
    vec![Blocker {
        code: None,
        name: None,
        subject: Subject::skyhook(skyhook),
        message: format!(
            "no operator of the {} API is at work: its finalizer will never be removed",
            item.flavor.kind()
        ),
        next: Some(strip(name, &format!(" --api {}", item.flavor))),
    }]
}

fn foreign(item: &DoomedObject, others: &[&str]) -> Blocker {
    let resource = match item.priority {
        Some(_) => item.flavor.resource(),
        None => format!("deploymentpolicies.{}", item.flavor.group()),
    };
    let name = &item.target.name;
    Blocker {
        code: None,
        name: None,
        subject: Subject {
            kind: item.target.kind.word().to_owned(),
            name: name.clone(),
            ..Subject::default()
        },
        message: format!(
            "finalizers of others hold it until their owners remove them: {}",
            others.join(", ")
        ),
        next: Some(format!("kubectl get {resource} {name} -o yaml")),
    }
}

fn strip(name: &str, more: &str) -> String {
    format!("kubectl skyhook finalizer strip {name}{more}")
}
