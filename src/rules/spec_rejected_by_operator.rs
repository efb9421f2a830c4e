use std::collections::HashMap;

use serde_json::Value;

use super::{Findings, Grade, Severity, Subject};
use crate::api::deployment_policy::DeploymentPolicySpec;
use crate::api::skyhook::glob_matches;
use crate::api::{LabelSelector, Package, Skyhook, quantity};
use crate::cluster::{Cluster, Source};

rule! {
    /// The operator rejects a stored spec, which stops it for all custom resources.
    ///
    /// # What it means
    ///
    /// The operator checks every stored custom resource in each of its passes. One that fails the
    /// check ends the pass, so nothing is done for any other custom resource either. So does a deployment policy
    /// in use that lacks the numbers from which its batches are calculated.
    ///
    /// # What causes it
    ///
    /// The custom resource was created or changed while the webhooks were off or not yet installed,
    /// or a newer operator validates more strictly. The webhooks also set defaults that a deployment policy
    /// leaves out.
    ///
    /// # How to confirm
    ///
    /// The evidence names the field and the rule that it violates; the operator's log shows the same.
    ///
    /// # How to fix
    ///
    /// Correct the field, or delete the custom resource.
    ///
    /// # Since
    ///
    /// All operators. A policy that lacks only a `safetyLimit` is a warning until a batch has failed.
    SKY212 "spec-rejected-by-operator" Error needs Skyhooks, also Nodes Policies,
        blocks Install Uninstall Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items() {
        let broken = broken_rules(skyhook);
        let Some((field, why)) = broken.first() else {
            continue;
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "the spec of {skyhook} is invalid, which stops the operator for all custom resources: {field} {why}"
            ),
        );
        for (field, why) in &broken {
            finding.evidence(skyhook, field, why);
        }
        finding
            .edit(Grade::B2, "Correct the spec", skyhook)
            .caveat("the operator then continues for every custom resource");
    }
    policies(cluster, findings);
}

/// Reports policies in use without the fields that the operator counts batches by, which ends its pass.
fn policies(cluster: &Cluster, findings: &mut Findings) {
    let mut using: HashMap<&str, Vec<&Skyhook>> = HashMap::new();
    for skyhook in cluster.skyhooks.items() {
        if cluster.policy_not_read(skyhook) {
            findings.depends_on(Source::Policies);
        }
        if skyhook.runs() {
            let users = using.entry(&skyhook.spec.deployment_policy);
            users.or_default().push(skyhook);
        }
    }
    for policy in cluster.policies.items() {
        let name = &policy.metadata.name;
        let missing = missing_numbers(&policy.spec);
        let users = using.remove(name.as_str()).unwrap_or_default();
        let (Some(lacking), Some(user)) = (missing.first(), users.first()) else {
            continue;
        };
        // This one is read only after a failed batch: a rollout without failures completes.
        let once_failed = missing.iter().all(|f| f.ends_with(".safetyLimit"))
            && !users.iter().any(|s| has_failed_batch(s));
        let finding = findings.report(
            Subject::object("DeploymentPolicy", name),
            format!(
                "deployment policy {name} lacks {lacking}: the operator stops working on all custom resources {}",
                if once_failed {
                    "after the first failed batch"
                } else {
                    "as soon as it calculates a batch with this policy"
                }
            ),
        );
        if once_failed {
            finding.severity(Severity::Warning).blocks_only(&[]);
        }
        // Without unfinished nodes, no batch is counted.
        let done = |s: &Skyhook| cluster.selected(s).all(|n| cluster.is_complete_on(s, n));
        finding.warning_if(cluster.nodes.ok().is_some() && users.iter().all(|s| done(s)));
        for field in &missing {
            finding.evidence(format!("deploymentpolicy/{name}"), field, "not set");
        }
        let resource = format!("deploymentpolicies.{}", cluster.flavor().group());
        finding
            .evidence(user, "spec.deploymentPolicy", name)
            .kubectl(Grade::B2, "Set the fields", ["edit", &resource, name])
            .caveat("the operator then continues for every custom resource");
    }
}

fn has_failed_batch(skyhook: &Skyhook) -> bool {
    let mut compartments = skyhook.status.compartment_statuses.values();
    compartments.any(|c| {
        let batch = c.batch_state.as_ref();
        batch.is_some_and(|b| b.last_batch_failed || b.failed_nodes > 0)
    })
}

/// The numbers without which the operator cannot size a batch.
fn missing_numbers(spec: &DeploymentPolicySpec) -> Vec<String> {
    let default = ("spec.default.strategy".to_owned(), &spec.default.strategy);
    let compartments = spec.compartments.iter().map(|c| {
        let field = format!("spec.compartments[{}].strategy", c.name);
        (field, &c.strategy)
    });
    let mut missing = Vec::new();
    for (at, strategy) in std::iter::once(default).chain(compartments) {
        for (kind, numbers) in [
            ("fixed", &["initialBatch"][..]),
            ("linear", &["initialBatch", "delta", "safetyLimit"]),
            (
                "exponential",
                &["initialBatch", "growthFactor", "safetyLimit"],
            ),
        ] {
            let Some(of) = strategy
                .as_ref()
                .map(|s| &s[kind])
                .filter(|s| s.is_object())
            else {
                continue;
            };
            let unset = numbers.iter().filter(|number| of[**number].is_null());
            missing.extend(unset.map(|number| format!("{at}.{kind}.{number}")));
        }
    }
    missing
}

/// The fields that fail the operator's own validation, each with the reason.
fn broken_rules(skyhook: &Skyhook) -> Vec<(String, String)> {
    let spec = &skyhook.spec;
    let mut broken: Vec<(String, String)> = Vec::new();
    let mut add = |field: String, why: &str| broken.push((field, why.to_owned()));
    let budget = &spec.interruption_budget;
    if budget.percent.is_some() && budget.count.is_some() {
        add(
            "spec.interruptionBudget".into(),
            "sets both percent and count",
        );
    }
    if !spec.deployment_policy.is_empty() && (budget.percent.is_some() || budget.count.is_some()) {
        add(
            "spec.interruptionBudget".into(),
            "is set together with deploymentPolicy",
        );
    }
    if !is_valid_selector(&spec.node_selectors) {
        add("spec.nodeSelectors".into(), "is not a valid selector");
    }
    for (name, package) in skyhook.packages() {
        let field = |suffix: &str| format!("spec.packages.{name}{suffix}");
        if !is_package_name(name) {
            add(field(""), "is not a valid package name");
        }
        if !package.name.is_empty() && package.name != name {
            add(field(".name"), "differs from the key of the package");
        }
        if !is_version(&package.version) {
            add(field(".version"), "is not a semantic version");
        }
        if package.uninstall().apply && !package.uninstall().enabled {
            add(field(".uninstall"), "sets apply without enabled");
        }
        if let Some(why) = package.resources.as_ref().and_then(broken_resources) {
            add(field(".resources"), why);
        }
        for (dependency, version) in &package.depends_on {
            let theirs = skyhook.package(dependency);
            if version.is_empty() {
                add(
                    field(".dependsOn"),
                    &format!("sets no version for {dependency}"),
                );
            } else if theirs.is_none_or(|p| p.version != *version) {
                add(
                    field(".dependsOn"),
                    &format!("references {dependency} {version}, which is not in the spec"),
                );
            }
        }
        for key in package.config_interrupts.keys() {
            if !has_config_key(package, key) {
                add(
                    field(".configInterrupts"),
                    &format!("references {key}, which matches no key of configMap"),
                );
            }
        }
    }
    broken
}

fn is_valid_selector(selector: &LabelSelector) -> bool {
    selector
        .match_expressions
        .iter()
        .all(|r| match r.operator.as_str() {
            "In" | "NotIn" => !r.values.is_empty(),
            "Exists" | "DoesNotExist" => r.values.is_empty(),
            _ => false,
        })
}

/// `^[a-z][-a-z0-9]{0,41}[a-z]$`
pub(super) fn is_package_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_lowercase);
    (2..=43).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// A version as the operator takes it: up to three numbers, a leading `v` or none.
///
/// This errs on the side of calling a version good.
pub(super) fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    numbers.len() <= 3 && numbers.iter().all(number)
}

fn has_config_key(package: &Package, key: &str) -> bool {
    package.config_map.keys().any(|k| glob_matches(key, k))
}

/// The defect of a package's resources: all four or none, positive, no limit below its request.
fn broken_resources(resources: &Value) -> Option<&'static str> {
    let of = |name: &str| Some(&resources[name]).filter(|v| !v.is_null());
    let pairs = [("cpuRequest", "cpuLimit"), ("memoryRequest", "memoryLimit")]
        .map(|(request, limit)| (of(request), of(limit)));
    let set = pairs.iter().flat_map(|(r, l)| [r, l]).flatten().count();
    if !matches!(set, 0 | 4) {
        return Some(
            "sets some but not all of cpuRequest, cpuLimit, memoryRequest and memoryLimit",
        );
    }
    for (request, limit) in pairs {
        let amounts = (
            request.and_then(quantity::parse),
            limit.and_then(quantity::parse),
        );
        let (Some(request), Some(limit)) = amounts else {
            continue;
        };
        if request <= 0.0 || limit <= 0.0 {
            return Some("has a quantity that is not positive");
        }
        if quantity::is_less(limit, request) {
            return Some("has a limit below its request");
        }
    }
    None
}
