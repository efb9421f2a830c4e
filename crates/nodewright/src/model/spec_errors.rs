//! Errors in the spec of a stored custom resource: the operator's validation, in its webhook and in every
//! reconcile (`Skyhook.Validate`), and the API server's validation of the objects that the operator creates.

use serde_json::Value;

use super::profile::cycles;
use crate::api::keys::is_version;
use crate::api::name::{duration_seconds, label_value_error, qualified_name_error, selector_errors};
use crate::api::skyhook::glob_matches;
use crate::api::{Package, Skyhook, quantity};
use crate::text::list;

/// Maximum length of a custom resource's name: the 63 characters of an annotation key on nodes without the
/// prefix `nodeState_`.
pub const LONGEST_NAME: usize = 53;

/// Maximum size of a ConfigMap: all keys and values.
const MOST_BYTES: usize = 1 << 20;

/// An invalid part of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    pub kind: SpecErrorKind,
    /// The path of the invalid field, as keys from the root of the object.
    pub path: Vec<String>,
    /// The path of the invalid entry within the field; empty if the whole field is invalid.
    pub below: Vec<String>,
    /// The defect, as a predicate of the field: `is not a semantic version`.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecErrorKind {
    ObjectName,
    Budget,
    BudgetAndPolicy,
    NodeSelectors,
    ProtectedPods,
    Toleration,
    PackageName,
    Version,
    PodLabel,
    ApplyWithoutEnabled,
    Resources,
    Duration,
    Dependency,
    DependencyCycle,
    ConfigInterrupt,
    ConfigMap,
    Env,
}

impl SpecErrorKind {
    /// Whether the operator rejects the spec in every reconcile, or cannot decode it: the reconcile ends, for
    /// all custom resources.
    pub fn is_rejected(self) -> bool {
        use SpecErrorKind::{
            ConfigMap, DependencyCycle, Env, ObjectName, PodLabel, ProtectedPods, Toleration,
        };
        !matches!(
            self,
            ObjectName | DependencyCycle | ProtectedPods | Toleration | PodLabel | ConfigMap | Env
        )
    }
}

impl SpecError {
    /// The path of the field: `spec.packages.driver.version`
    pub fn field(&self) -> String {
        self.path.join(".")
    }

    /// The path to the invalid entry of the field, or to the field itself.
    pub fn whole_path(&self) -> Vec<&str> {
        self.path.iter().chain(&self.below).map(String::as_str).collect()
    }

    /// The advice: an imperative sentence without a full stop.
    pub fn fix(&self) -> &'static str {
        match self.kind {
            SpecErrorKind::ObjectName => "Use a shorter name",
            SpecErrorKind::Budget | SpecErrorKind::BudgetAndPolicy => "Remove one of the two",
            SpecErrorKind::NodeSelectors | SpecErrorKind::ProtectedPods => "Correct the selector",
            SpecErrorKind::Toleration => "Correct the toleration",
            SpecErrorKind::PackageName => "Rename the package, and remove its field name",
            SpecErrorKind::Version => "Tag the image with a semantic version, and use it here",
            SpecErrorKind::PodLabel => {
                "Use a version that gives a valid label, and tag the image with that version"
            }
            SpecErrorKind::ApplyWithoutEnabled => "Set uninstall.enabled: true, or remove uninstall.apply",
            SpecErrorKind::Resources => "Set all four fields, or none; limits must not be below requests",
            SpecErrorKind::Duration => "Write numbers with units, such as 90s, 15m or 1h30m",
            SpecErrorKind::Dependency => "Add the package, or write its version",
            SpecErrorKind::DependencyCycle => "Remove one of the dependencies",
            SpecErrorKind::ConfigInterrupt => "Correct the key, or remove the entry",
            SpecErrorKind::ConfigMap if self.below.is_empty() => "Move large files into the image",
            SpecErrorKind::ConfigMap => "Rename the key",
            SpecErrorKind::Env => "Correct the variable",
        }
    }

    /// The package with the invalid field; `None` for a field of the whole custom resource.
    pub fn package(&self) -> Option<&str> {
        match self.path.as_slice() {
            [_, packages, package, ..] if packages == "packages" => Some(package),
            _ => None,
        }
    }

    /// The last key of the field with the defect: `version is not a semantic version`.
    pub fn message(&self) -> String {
        format!("{} {}", self.path.last().map_or("", String::as_str), self.why)
    }
}

/// Collects errors.
#[derive(Default)]
struct Errors(Vec<SpecError>);

impl Errors {
    fn add(&mut self, kind: SpecErrorKind, path: &[&str], below: &[&str], why: impl Into<String>) {
        let owned = |path: &[&str]| path.iter().map(ToString::to_string).collect();
        self.0.push(SpecError { kind, path: owned(path), below: owned(below), why: why.into() });
    }

    /// Adds an invalid duration (Go `time.ParseDuration`), or a negative one where the operator refuses it.
    fn duration(&mut self, path: &[&str], value: &Value, positive: bool) {
        let Some(text) = value.as_str() else {
            return;
        };
        if duration_seconds(text).is_none() {
            self.add(SpecErrorKind::Duration, path, &[], format!("{text:?} is not a duration"));
        } else if positive && text.starts_with('-') {
            self.add(SpecErrorKind::Duration, path, &[], format!("{text:?} is negative"));
        }
    }
}

/// The invalid parts of the spec for which the operator rejects it in every reconcile.
pub fn rejections(skyhook: &Skyhook) -> impl Iterator<Item = SpecError> {
    spec_errors(skyhook).into_iter().filter(|error| error.kind.is_rejected())
}

/// Every invalid part of the spec, also of a spec that the API server has stored.
pub fn spec_errors(skyhook: &Skyhook) -> Vec<SpecError> {
    let spec = &skyhook.spec;
    let mut errors = Errors::default();
    let length = skyhook.name().len();
    if length > LONGEST_NAME {
        let why = format!(
            "has {length} characters, but the operator's annotation keys on nodes leave room for {LONGEST_NAME}"
        );
        errors.add(SpecErrorKind::ObjectName, &["metadata", "name"], &[], why);
    }
    let budget = &spec.interruption_budget;
    let at_budget = ["spec", "interruptionBudget"];
    if budget.percent.is_some() && budget.count.is_some() {
        errors.add(SpecErrorKind::Budget, &at_budget, &[], "sets both percent and count");
    }
    if !spec.deployment_policy.is_empty() && (budget.percent.is_some() || budget.count.is_some()) {
        errors.add(SpecErrorKind::BudgetAndPolicy, &at_budget, &[], "is set together with deploymentPolicy");
    }
    // The operator parses podNonInterruptLabels only before a drain, and then stops working on the custom
    // resource.
    let labels = ("podNonInterruptLabels", &spec.pod_non_interrupt_labels, SpecErrorKind::ProtectedPods);
    let nodes = ("nodeSelectors", &spec.node_selectors, SpecErrorKind::NodeSelectors);
    for (field, selector, kind) in [nodes, labels] {
        for (below, why) in selector_errors(selector) {
            let below: Vec<&str> = below.iter().map(String::as_str).collect();
            errors.add(kind, &["spec", field], &below, format!("is not a valid selector: {why}"));
        }
    }
    let whole = &skyhook.whole["spec"];
    for (index, toleration) in items(&whole["additionalTolerations"]) {
        if let Some((field, why)) = refused_toleration(toleration) {
            let below = [index.as_str(), field];
            errors.add(SpecErrorKind::Toleration, &["spec", "additionalTolerations"], &below, why);
        }
    }
    for field in ["timeout", "gracePeriod"] {
        errors.duration(&["spec", "drainConfig", field], &whole["drainConfig"][field], true);
    }
    for cycle in cycles(skyhook) {
        let path = format!("{} -> {}", cycle.join(" -> "), cycle[0]);
        errors.add(
            SpecErrorKind::DependencyCycle,
            &["spec", "packages", cycle[0], "dependsOn"],
            &[],
            format!("leads back to the package, so none of these packages ever runs: {path}"),
        );
    }
    for (name, package) in skyhook.packages() {
        package_errors(skyhook, name, package, &mut errors);
    }
    errors.0
}

fn package_errors(skyhook: &Skyhook, name: &str, package: &Package, errors: &mut Errors) {
    let at = |field| ["spec", "packages", name, field];
    let (named, versioned) = (is_package_name(name), is_version(&package.version));
    if !named {
        let why = "is not a valid package name: it must have 2 to 43 lower-case letters, digits and hyphens, and begin \
                   and end with a letter";
        errors.add(SpecErrorKind::PackageName, &["spec", "packages", name], &[], why);
    }
    if !package.name.is_empty() && package.name != name {
        let why = format!("{:?} differs from {name:?}, the key of the package", package.name);
        errors.add(SpecErrorKind::PackageName, &at("name"), &[], why);
    }
    if !versioned {
        let why = format!("{:?} is not a semantic version such as 1.2.3", package.version);
        errors.add(SpecErrorKind::Version, &at("version"), &[], why);
    }
    let label = format!("{name}-{}", package.version);
    if let Some(why) = label_value_error(&label).filter(|_| named && versioned) {
        let why = format!("gives pods the label {label}, which {why}");
        errors.add(SpecErrorKind::PodLabel, &at("version"), &[], why);
    }
    if package.uninstall().apply && !package.uninstall().enabled {
        let why = "sets apply without enabled";
        errors.add(SpecErrorKind::ApplyWithoutEnabled, &at("uninstall"), &["apply"], why);
    }
    if let Some(why) = package.resources.as_ref().and_then(broken_resources) {
        errors.add(SpecErrorKind::Resources, &at("resources"), &[], why);
    }
    errors.duration(&at("gracefulShutdown"), &package.whole["gracefulShutdown"], false);
    errors.duration(&at("stageTimeout"), &package.whole["stageTimeout"], true);
    for (dependency, version) in &package.depends_on {
        let why = match skyhook.package(dependency) {
            _ if version.is_empty() => format!("sets no version for {dependency}"),
            None => format!("references {dependency} {version}, which is not in the spec"),
            Some(theirs) if theirs.version != *version => {
                format!("references {dependency} {version}, but the spec has {}", theirs.version)
            }
            Some(_) => continue,
        };
        errors.add(SpecErrorKind::Dependency, &at("dependsOn"), &[dependency], why);
    }
    for key in package.config_interrupts.keys() {
        if !package.config_map.keys().any(|name| glob_matches(key, name)) {
            let why = format!("references {key}, which matches no key of configMap");
            errors.add(SpecErrorKind::ConfigInterrupt, &at("configInterrupts"), &[key], why);
        }
    }
    for key in package.config_map.keys().filter(|key| !is_config_map_key(key)) {
        let rule = if key.starts_with("..") || key == "." {
            "a key must not be '.' or begin with '..'"
        } else {
            "keys consist of letters, digits, '-', '_' and '.'"
        };
        let why = format!("has the key {key:?}: {rule}");
        errors.add(SpecErrorKind::ConfigMap, &at("configMap"), &[key], why);
    }
    let size: usize = package.config_map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MOST_BYTES {
        let why = format!("has {size} bytes; a ConfigMap has at most {MOST_BYTES}");
        errors.add(SpecErrorKind::ConfigMap, &at("configMap"), &[], why);
    }
    for (index, variable) in items(&package.whole["env"]) {
        if let Some(why) = refused_variable(variable) {
            errors.add(SpecErrorKind::Env, &at("env"), &[&index], why);
        }
    }
}

/// The items of a list with their indexes.
fn items(list: &Value) -> impl Iterator<Item = (String, &Value)> {
    list.as_array().into_iter().flatten().enumerate().map(|(index, item)| (index.to_string(), item))
}

/// Whether a ConfigMap may have this key (Kubernetes `IsConfigMapKey`).
fn is_config_map_key(key: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=253).contains(&key.len()) && key.bytes().all(allowed) && key != "." && !key.starts_with("..")
}

/// Why the API server refuses a pod with this variable (Kubernetes `ValidateEnv`).
fn refused_variable(variable: &Value) -> Option<String> {
    let name = variable["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Some("has a variable with an empty name".to_owned());
    }
    if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Some(format!("has the name {name:?}, with '=' or a character that cannot be printed"));
    }
    let source = variable["valueFrom"].as_object()?;
    let sources = source.values().filter(|source| !source.is_null()).count();
    let has_value = variable["value"].as_str().is_some_and(|v| !v.is_empty());
    match sources {
        0 => Some(format!("has no source in valueFrom of {name}")),
        1 if has_value => Some(format!("sets both value and valueFrom of {name}")),
        1 => None,
        _ => Some(format!("has {sources} sources in valueFrom of {name}")),
    }
}

/// The field that makes the API server refuse a pod with this toleration, and why (Kubernetes
/// `ValidateTolerations`).
fn refused_toleration(toleration: &Value) -> Option<(&'static str, String)> {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let (key, operator, value, effect) = (text("key"), text("operator"), text("value"), text("effect"));
    if let Some(why) = qualified_name_error(key).filter(|_| !key.is_empty()) {
        return Some(("key", format!("has the key {key:?}, which {why}")));
    }
    match operator {
        "Exists" if !value.is_empty() => {
            let why = format!("has operator Exists with the value {value:?}: Exists takes no value");
            return Some(("value", why));
        }
        "Exists" => {}
        "" | "Equal" | "Gt" | "Lt" => {
            if key.is_empty() {
                let why = "has a toleration without a key, which requires operator Exists";
                return Some(("operator", why.to_owned()));
            }
            if let Some(why) = label_value_error(value) {
                return Some(("value", format!("has the value {value:?}, which {why}")));
            }
        }
        other => {
            let why = format!("has the operator {other:?}: it must be Exists or Equal");
            return Some(("operator", why));
        }
    }
    if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        let why = format!("has the effect {effect:?}: it must be NoSchedule, PreferNoSchedule or NoExecute");
        return Some(("effect", why));
    }
    if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
        let why = "has tolerationSeconds without effect NoExecute";
        return Some(("tolerationSeconds", why.to_owned()));
    }
    None
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

/// The first violated rule of a package's resources: all four values or none, all positive, no limit below
/// its request.
fn broken_resources(resources: &Value) -> Option<String> {
    const PAIRS: [[&str; 2]; 2] = [["cpuRequest", "cpuLimit"], ["memoryRequest", "memoryLimit"]];
    let all = || PAIRS.into_iter().flatten();
    let missing: Vec<&str> = all().filter(|name| resources[*name].is_null()).collect();
    if missing.len() == 4 {
        return None;
    }
    if !missing.is_empty() {
        return Some(format!("lacks {}: it needs all four fields or none", list(&missing)));
    }
    let amount = |name: &str| quantity::parse(&resources[name]);
    let thousandths = |name: &str| quantity::thousandths(&resources[name]);
    let text =
        |name: &str| resources[name].as_str().map_or_else(|| resources[name].to_string(), str::to_owned);
    if let Some(name) = all().find(|name| amount(name).is_some_and(|amount| amount <= 0.0)) {
        return Some(format!("has {name} {}, which is not positive", text(name)));
    }
    let [request, limit] = PAIRS.into_iter().find(|[request, limit]| {
        thousandths(request).zip(thousandths(limit)).is_some_and(|(request, limit)| limit < request)
    })?;
    Some(format!("has {limit} {} below {request} {}", text(limit), text(request)))
}
