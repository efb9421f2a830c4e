//! The effects of manifests, as text and as a document.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{DeploymentPolicy, Skyhook, Stage};
use crate::cluster::applied::applied as applied_object;
use crate::cluster::{Certainty, Cluster, decode_leniently};
use crate::lint::{Input, LintFinding, LintReport, Manifest};
use crate::model::{Change, Effects, PackageEffect};
use crate::rules::Severity;
use crate::view::text::Text;
use crate::view::{Table, cells, list, plural};

/// What the operator does to a package once the manifest is applied.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageDocument {
    skyhook: String,
    package: String,
    /// `unchanged`, `withoutEffect` (edited, but nothing runs), `install`, `upgrade`, `configure`, `interrupt`,
    /// `uninstall`, or `leftSpec` (stays installed).
    change: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// Where stages run, in the order in which they begin.
    nodes: Vec<String>,
    /// In the order in which they run.
    stages: Vec<String>,
    /// The type of the interrupt of these nodes.
    interrupt: Option<String>,
    /// The most nodes at work at the same time.
    at_once: usize,
    /// The time until the custom resource is complete, in seconds; null where it is unknown.
    estimate: Option<f64>,
}

/// What happens to the nodes of a custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDocument {
    skyhook: String,
    /// The nodes that one batch may have.
    batch: usize,
    cordoned: Vec<String>,
    /// Null if the pods on these nodes were not read, as in a capture of `collect`.
    evicted_pods: Option<usize>,
    refusing_budgets: Vec<RefusingBudget>,
    /// Custom resources that wait for this one.
    waiting: Vec<String>,
    /// What keeps the rollout from its end; null if it comes to its end.
    stuck: Option<String>,
    /// The time until the custom resource is complete, in seconds; null where it is unknown.
    estimate: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct RefusingBudget {
    /// `NAMESPACE/NAME`.
    budget: String,
    nodes: Vec<String>,
}

/// What remains of the manifests: those of the active API without errors, which nothing refuses.
struct Accepted<'i> {
    /// As they are once the manifests are applied to those of the cluster.
    skyhooks: Vec<Skyhook>,
    policies: Vec<&'i DeploymentPolicy>,
}

impl<'i> Accepted<'i> {
    fn of(input: &'i Input<'_>, report: &LintReport) -> Accepted<'i> {
        // A capture without custom resources does not show the API.
        let known = input
            .cluster
            .filter(|c| !c.from_files || !c.skyhooks.items().is_empty());
        let flavor = known.map(Cluster::flavor);
        let refused = |manifest: &Manifest| {
            let mut errors = report.open().filter(|f| f.severity == Severity::Error);
            let own =
                |f: &LintFinding| (&f.file, &f.subject.name) == (&manifest.file, &manifest.name);
            flavor.is_some() && manifest.flavor() != flavor || errors.any(own)
        };
        let skyhooks = input.skyhooks().filter(|(manifest, _)| !refused(manifest));
        let policies = input.policies().filter(|(manifest, _)| !refused(manifest));
        Accepted {
            skyhooks: skyhooks
                .map(|(manifest, skyhook)| merged(input, manifest, skyhook))
                .collect(),
            policies: policies.map(|(_, policy)| policy).collect(),
        }
    }
}

/// A manifest laid over the live object, if there is one.
fn merged(input: &Input<'_>, manifest: &Manifest, skyhook: &Skyhook) -> Skyhook {
    let object = input
        .live(manifest)
        .map(|live| applied_object(live, &manifest.value));
    let decoded = object.and_then(|object| decode_leniently(object).ok());
    decoded.unwrap_or_else(|| skyhook.clone())
}

/// The cluster once the manifests are applied to it, and the custom resources that they concern: their own, and those that
/// use their policies. `None` without a cluster, or if what runs there was not read.
pub fn applied(input: &Input<'_>, report: &LintReport) -> Option<(Cluster, Vec<String>)> {
    let cluster = input.cluster?;
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return None;
    }
    let accepted = Accepted::of(input, report);
    let own = accepted.skyhooks.iter();
    let own: Vec<String> = own.map(|skyhook| skyhook.name().to_owned()).collect();
    let policies = accepted.policies.iter().map(|p| p.metadata.name.as_str());
    let policies: Vec<&str> = policies.collect();
    let applied = cluster.with_applied(
        accepted.skyhooks,
        accepted.policies.iter().copied().cloned().collect(),
    );
    let concerned = applied.skyhooks.items().iter().filter(|skyhook| {
        let policy = skyhook.spec.deployment_policy.as_str();
        own.iter().any(|name| name == skyhook.name()) || policies.contains(&policy)
    });
    let concerned = concerned.map(|skyhook| skyhook.name().to_owned()).collect();
    Some((applied, concerned))
}

/// The effects as a paragraph for each custom resource.
pub fn text(effects: &[Effects<'_>]) -> Text {
    let mut body = Text::new();
    for effects in effects {
        let mut table = Table::as_given([effects.skyhook, "ONCE APPLIED"]).prose();
        for package in &effects.packages {
            table.row(cells![title(package), outcome(effects, package)]);
        }
        for (term, description) in of_nodes(effects) {
            table.row(cells![term, description]);
        }
        body.blank().table(table);
    }
    body
}

/// `driver 2.0.1 → 2.1.0`
fn title(package: &PackageEffect<'_>) -> String {
    match package.change {
        Change::Upgrade { from, to } => format!("{} {from} → {to}", package.package),
        _ => package.package.to_owned(),
    }
}

/// `upgrade and reboot on 870 nodes, ALL AT ONCE: the budget (10) does not apply to upgrades`
fn outcome(effects: &Effects<'_>, package: &PackageEffect<'_>) -> String {
    let (verb, changes) = match package.change {
        Change::Unchanged => return "unchanged".to_owned(),
        Change::WithoutEffect => {
            return "changed, but nothing runs on nodes where it is complete".to_owned();
        }
        Change::LeftSpec => return "left the spec; it stays installed".to_owned(),
        Change::Upgrade { .. } if package.stages.contains(&Stage::Upgrade) => {
            (Some("upgrade"), "upgrades")
        }
        Change::Install | Change::Upgrade { .. } => (Some("install"), "installs"),
        Change::Configure => (Some("configure"), "changes of a configMap"),
        Change::Interrupt => (None, "interrupts"),
        Change::Uninstall => (Some("uninstall"), "uninstalls"),
    };
    let interrupt = package.interrupt.map(|kind| match kind {
        "reboot" => "reboot",
        "service" => "restart services",
        "restartAllServices" => "restart all services",
        _ => "interrupt",
    });
    let verbs: Vec<&str> = verb.into_iter().chain(interrupt).collect();
    let nodes = package.nodes.len();
    let pace = match package.at_once {
        _ if nodes <= 1 => String::new(),
        0 | 1 => ", one at a time".to_owned(),
        at_once if at_once > effects.allowed && package.begins_everywhere() => {
            format!(
                ", ALL AT ONCE: the budget ({}) does not apply to {changes}",
                effects.allowed
            )
        }
        at_once if at_once == nodes => ", all at once".to_owned(),
        at_once => format!(", at most {at_once} at once"),
    };
    format!("{} on {}{pace}", verbs.join(" and "), plural(nodes, "node"))
}

/// Drains, custom resources that wait, the end.
fn of_nodes(effects: &Effects<'_>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    if !effects.cordoned.is_empty() {
        let nodes = plural(effects.cordoned.len(), "node");
        let mut drains = match effects.evicted {
            Some(pods) => format!("{nodes} cordoned, {} evicted", plural(pods, "pod")),
            None => format!("{nodes} cordoned; their pods were not read"),
        };
        for (budget, nodes) in &effects.refusing {
            drains += &format!(
                "; budget {budget} refuses on {}",
                plural(nodes.len(), "node")
            );
        }
        lines.push(("drains".to_owned(), drains));
    }
    if !effects.waiting.is_empty() {
        let names: Vec<String> = effects
            .waiting
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        lines.push((
            "later".to_owned(),
            match names.as_slice() {
                [one] => format!("{one} waits until it is complete"),
                all => format!("{} wait until it is complete", list(all)),
            },
        ));
    }
    if let Some(stuck) = &effects.stuck {
        lines.push(("end".to_owned(), format!("never, as it is now: {stuck}")));
    } else if let Some(remaining) = effects.remaining {
        lines.push((
            "time".to_owned(),
            format!("{remaining}, at the pace of earlier stages"),
        ));
    }
    lines
}

pub fn packages(effects: &Effects<'_>) -> Vec<PackageDocument> {
    let estimate = effects.remaining.map(|remaining| remaining.seconds);
    let document = |package: &PackageEffect<'_>| {
        let (from, to) = match package.change {
            Change::Upgrade { from, to } => (Some(from.to_owned()), Some(to.to_owned())),
            _ => (None, None),
        };
        PackageDocument {
            skyhook: effects.skyhook.to_owned(),
            package: package.package.to_owned(),
            change: package.change.kind().to_owned(),
            from,
            to,
            nodes: package
                .nodes
                .iter()
                .map(|node| node.name.to_string())
                .collect(),
            stages: package.stages.iter().map(ToString::to_string).collect(),
            interrupt: package.interrupt.map(str::to_owned),
            at_once: package.at_once,
            estimate: estimate.filter(|_| !package.nodes.is_empty()),
        }
    };
    effects.packages.iter().map(document).collect()
}

pub fn rollout(effects: &Effects<'_>) -> RolloutDocument {
    let refusing = effects
        .refusing
        .iter()
        .map(|(budget, nodes)| RefusingBudget {
            budget: budget.clone(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        });
    RolloutDocument {
        skyhook: effects.skyhook.to_owned(),
        batch: effects.allowed,
        cordoned: effects
            .cordoned
            .iter()
            .map(|node| node.name.to_string())
            .collect(),
        evicted_pods: effects.evicted,
        refusing_budgets: refusing.collect(),
        waiting: effects
            .waiting
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        stuck: effects.stuck.as_ref().map(ToString::to_string),
        estimate: effects.remaining.map(|remaining| remaining.seconds),
    }
}
