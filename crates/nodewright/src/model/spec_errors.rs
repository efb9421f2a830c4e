//! The operator's validation of a custom resource, in its webhook and in every reconcile
//! (`Skyhook.Validate`).

use serde_json::Value;

use crate::api::skyhook::glob_matches;
use crate::api::{LabelSelector, Package, Skyhook, quantity};

/// A part of a spec that the operator rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    pub kind: SpecErrorKind,
    /// The path of the invalid field, as keys from the root of the object.
    pub path: Vec<String>,
    /// The key of the invalid entry within the field, if any.
    pub key: Option<String>,
    /// The defect, as a predicate of the field: `is not a semantic version`.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecErrorKind {
    Budget,
    BudgetAndPolicy,
    NodeSelectors,
    PackageName,
    Version,
    ApplyWithoutEnabled,
    Resources,
    Dependency,
    ConfigInterrupt,
}

impl SpecError {
    /// The path of the field: `spec.packages.driver.version`
    pub fn field(&self) -> String {
        self.path.join(".")
    }

    /// The path to the invalid entry of the field, or to the field itself.
    pub fn path_with_key(&self) -> Vec<&str> {
        self.path.iter().chain(&self.key).map(String::as_str).collect()
    }
}

/// Every part of the spec that fails the operator's validation.
pub fn spec_errors(skyhook: &Skyhook) -> Vec<SpecError> {
    let spec = &skyhook.spec;
    let mut errors: Vec<SpecError> = Vec::new();
    let mut add = |kind, path: &[&str], key: Option<&str>, why: &str| {
        errors.push(SpecError {
            kind,
            path: path.iter().map(ToString::to_string).collect(),
            key: key.map(str::to_owned),
            why: why.to_owned(),
        });
    };
    let budget = &spec.interruption_budget;
    let at_budget = ["spec", "interruptionBudget"];
    if budget.percent.is_some() && budget.count.is_some() {
        let why = "sets both percent and count";
        add(SpecErrorKind::Budget, &at_budget, None, why);
    }
    if !spec.deployment_policy.is_empty() && (budget.percent.is_some() || budget.count.is_some()) {
        let why = "is set together with deploymentPolicy";
        add(SpecErrorKind::BudgetAndPolicy, &at_budget, None, why);
    }
    if !is_valid_selector(&spec.node_selectors) {
        let path = ["spec", "nodeSelectors"];
        let why = "is not a valid selector";
        add(SpecErrorKind::NodeSelectors, &path, None, why);
    }
    for (name, package) in skyhook.packages() {
        let mut add = |kind, field: &[&str], key: Option<&str>, why: &str| {
            add(kind, &[&["spec", "packages", name], field].concat(), key, why);
        };
        if !is_package_name(name) {
            let why = "is not a valid package name";
            add(SpecErrorKind::PackageName, &[], None, why);
        }
        if !package.name.is_empty() && package.name != name {
            let why = "differs from the key of the package";
            add(SpecErrorKind::PackageName, &["name"], None, why);
        }
        if !is_version(&package.version) {
            let why = "is not a semantic version";
            add(SpecErrorKind::Version, &["version"], None, why);
        }
        if package.uninstall().apply && !package.uninstall().enabled {
            let why = "sets apply without enabled";
            add(SpecErrorKind::ApplyWithoutEnabled, &["uninstall"], Some("apply"), why);
        }
        if let Some(why) = package.resources.as_ref().and_then(broken_resources) {
            add(SpecErrorKind::Resources, &["resources"], None, why);
        }
        for (dependency, version) in &package.depends_on {
            let theirs = skyhook.package(dependency);
            let why = if version.is_empty() {
                format!("sets no version for {dependency}")
            } else if theirs.is_none_or(|p| p.version != *version) {
                format!("references {dependency} {version}, which is not in the spec")
            } else {
                continue;
            };
            add(SpecErrorKind::Dependency, &["dependsOn"], Some(dependency), &why);
        }
        for key in package.config_interrupts.keys() {
            if !has_config_key(package, key) {
                let why = format!("references {key}, which matches no key of configMap");
                add(SpecErrorKind::ConfigInterrupt, &["configInterrupts"], Some(key), &why);
            }
        }
    }
    errors
}

fn is_valid_selector(selector: &LabelSelector) -> bool {
    selector.match_expressions.iter().all(|r| match r.operator.as_str() {
        "In" | "NotIn" => !r.values.is_empty(),
        "Exists" | "DoesNotExist" => r.values.is_empty(),
        _ => false,
    })
}

/// Whether the name matches `^[a-z][-a-z0-9]{0,41}[a-z]$`.
pub fn is_package_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_lowercase);
    (2..=43).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// A semantic version as Go reads it: one to three numbers with an optional leading `v`. Only three numbers
/// may have a pre-release or build metadata.
pub fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let number =
        |n: &str| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty() && (n == "0" || !n.starts_with('0'));
    let numbers: Vec<&str> = text.split('.').collect();
    match numbers.len() {
        1 | 2 => numbers.into_iter().all(number),
        _ => semver::Version::parse(text).is_ok(),
    }
}

fn has_config_key(package: &Package, key: &str) -> bool {
    package.config_map.keys().any(|k| glob_matches(key, k))
}

/// The first violated rule of a package's resources: all four values or none, all positive, no limit below
/// its request.
fn broken_resources(resources: &Value) -> Option<&'static str> {
    let of = |name: &str| Some(&resources[name]).filter(|v| !v.is_null());
    let pairs = [("cpuRequest", "cpuLimit"), ("memoryRequest", "memoryLimit")]
        .map(|(request, limit)| (of(request), of(limit)));
    let set = pairs.iter().flat_map(|(r, l)| [r, l]).flatten().count();
    if !matches!(set, 0 | 4) {
        return Some("sets some but not all of cpuRequest, cpuLimit, memoryRequest and memoryLimit");
    }
    for (request, limit) in pairs {
        let amounts = (request.and_then(quantity::parse), limit.and_then(quantity::parse));
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

/// A version as Go compares it: missing numbers are 0, build metadata is ignored.
pub fn go_version(text: &str) -> Option<semver::Version> {
    if !is_version(text) {
        return None;
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let missing = 2_usize.saturating_sub(text.matches('.').count());
    let full = match semver::Version::parse(text) {
        Ok(version) => version,
        Err(_) => semver::Version::parse(&(text.to_owned() + &".0".repeat(missing))).ok()?,
    };
    Some(semver::Version { build: semver::BuildMetadata::EMPTY, ..full })
}
