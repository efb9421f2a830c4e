use super::{Findings, Grade, Subject};
use crate::api::{LabelSelector, Package, Skyhook};
use crate::cluster::Cluster;

rule! {
    /// A spec is stored that the operator rejects, which stops it for all.
    ///
    /// # What it means
    ///
    /// The operator checks every stored custom resource in each of its passes. One that fails the
    /// check ends the pass, so nothing is done for any other one either.
    ///
    /// # How it comes about
    ///
    /// The custom resource was created or changed while the webhooks were off or not yet installed,
    /// or a newer operator checks more strictly.
    ///
    /// # How to confirm
    ///
    /// The evidence names the field and the rule that it breaks; the operator's log repeats it.
    ///
    /// # How to fix
    ///
    /// Correct the field, or delete the custom resource.
    ///
    /// # Since
    ///
    /// All operators.
    SKY212 "spec-rejected-by-operator" Error needs Skyhooks
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
                "the spec of {} is invalid, which stops the operator for all: {field} {why}",
                skyhook.reference()
            ),
        );
        finding.stops_all();
        for (field, why) in &broken {
            finding.evidence(skyhook.reference(), field, why);
        }
        finding
            .kubectl(
                Grade::B2,
                "Correct the spec",
                ["edit", &cluster.generation().resource(), skyhook.name()],
            )
            .caveat("the operator then goes on, for every custom resource");
    }
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
            "is set beside a deploymentPolicy",
        );
    }
    if !is_valid_selector(&spec.node_selectors) {
        add("spec.nodeSelectors".into(), "is not a valid selector");
    }
    for (name, package) in skyhook.packages() {
        let field = |suffix: &str| format!("spec.packages.{name}{suffix}");
        if !is_package_name(name) {
            add(field(""), "is not a name that a package may have");
        }
        if !package.name.is_empty() && package.name != name {
            add(field(".name"), "differs from the key of the package");
        }
        if !is_version(&package.version) {
            add(field(".version"), "is not a semantic version");
        }
        if package.uninstall().apply && !package.uninstall().enabled {
            add(field(".uninstall"), "asks to apply what is not enabled");
        }
        for (dependency, version) in &package.depends_on {
            let theirs = skyhook.package(dependency);
            if version.is_empty() {
                add(
                    field(".dependsOn"),
                    &format!("names no version of {dependency}"),
                );
            } else if theirs.is_none_or(|p| p.version != *version) {
                add(
                    field(".dependsOn"),
                    &format!("names {dependency} {version}, which the spec does not have"),
                );
            }
        }
        for key in package.config_interrupts.keys() {
            if !has_config_key(package, key) {
                add(
                    field(".configInterrupts"),
                    &format!("names {key}, which matches no key of configMap"),
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
fn is_package_name(name: &str) -> bool {
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
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = core.split('.').collect();
    let number = |n: &&str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    numbers.len() <= 3 && numbers.iter().all(number)
}

fn has_config_key(package: &Package, key: &str) -> bool {
    // Any pattern is given the benefit of the doubt, as long as there is something to match.
    let is_pattern = key.contains(['*', '?', '[']);
    package.config_map.contains_key(key) || (is_pattern && !package.config_map.is_empty())
}
