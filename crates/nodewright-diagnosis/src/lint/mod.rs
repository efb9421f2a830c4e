//! Checks of manifests before they are applied.
//!
//! ```text
//! files ─roots─► Documents ─┐
//!               Cluster ────┴─► Input ─rules─► LintReport
//! ```
//!
//! Each root, which has the manifests of one cluster, is an input of its own; their reports are merged.
//!
//! To add a rule: write `crates/nodewright-diagnosis/src/lint/rules/NAME.rs` with `lint_rule!` and `check`, list it in `rules/mod.rs`,
//! and write `tests/lint/NAME/bad.yaml` and `good.yaml`.

pub mod files;
mod finding;
mod manifest;
mod rules;
pub mod schema;
mod yaml;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::OnceLock;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::api::{DeploymentPolicy, Skyhook, Version};
use crate::cluster::{Cluster, Node};
use crate::error::near;
use crate::model::Effects;
use crate::model::spec_errors::{SpecError, SpecErrorKind, spec_errors};
use crate::rules::Severity;
use crate::rules::support::mute::{InvalidMute, Mutes};

pub use finding::{CONFIG_FILE, Config};
pub use finding::{LintFinding, LintFindings};
pub use manifest::{Documents, Manifest, ManifestFile, ManifestObject, Tally, Unreadable, UnreadableReason};
pub use rules::ALL;
pub use schema::Schemas;

/// One rule about manifests.
///
/// A code is permanent, never renumbered or reused. Up to `SKY804`: problems of the file, such as its syntax or its comments.
/// `SKY805` to `SKY839`: kubectl, the API server, the webhook or the operator rejects the manifest; exceptions are warnings.
/// From `SKY840` on: the manifest is accepted and causes a problem.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LintRule {
    /// The code of the rule.
    pub code: &'static str,
    /// The name of the rule.
    pub name: &'static str,
    /// Severity of the findings, unless the rule sets another one for a finding.
    #[serde(skip)]
    pub severity: Severity,
    /// The full text: meaning, fix, sources.
    #[serde(skip)]
    pub docs: &'static str,
    #[serde(skip)]
    pub check: Check,
}

/// The objects that a rule checks.
#[derive(Debug)]
pub enum Check {
    /// The manifests.
    Manifests(fn(&Input<'_>, &mut LintFindings)),
    /// The effects of applying the accepted manifests, which the model of the operator predicts.
    Effects(fn(&Input<'_>, &[Effects<'_>], &mut LintFindings)),
}

impl LintRule {
    fn is_named(&self, code_or_name: &str) -> bool {
        self.code.eq_ignore_ascii_case(code_or_name) || self.name.eq_ignore_ascii_case(code_or_name)
    }

    /// The first line of the documentation.
    pub fn summary(&self) -> &'static str {
        self.docs.lines().next().unwrap_or_default().trim()
    }
}

/// The rule with this code or name.
pub fn find(code_or_name: &str) -> Option<&'static LintRule> {
    ALL.iter().copied().find(|rule| rule.is_named(code_or_name))
}

/// The result of all rules for the given manifests.
#[derive(Debug, Clone, Default)]
pub struct LintReport {
    /// The number of documents by the path of the file.
    pub files: BTreeMap<String, Tally>,
    /// All findings, sorted by file, line and code. Suppressed findings are included.
    pub findings: Vec<LintFinding>,
}

impl LintReport {
    /// The findings that are not suppressed.
    pub fn open(&self) -> impl Iterator<Item = &LintFinding> {
        self.findings.iter().filter(|f| f.suppressed.is_none())
    }

    /// Adds the findings about the effects of applying the manifests.
    pub fn add_effects(&mut self, input: &Input<'_>, effects: &[Effects<'_>]) {
        self.run(input, |rule, findings| match rule.check {
            Check::Manifests(_) => {}
            Check::Effects(check) => check(input, effects, findings),
        });
    }

    /// Adds the findings of every rule.
    fn run(&mut self, input: &Input<'_>, check: impl Fn(&LintRule, &mut LintFindings)) {
        for rule in ALL.iter().copied() {
            let mut found = LintFindings::of(rule);
            check(rule, &mut found);
            self.findings.extend(found.found.into_iter().map(|finding| input.configured(finding)));
        }
        self.sort();
    }

    /// Adds the report of another root. A base of several kustomizations is in the report of each.
    pub fn merge(&mut self, other: LintReport) {
        self.files.extend(other.files);
        self.findings.extend(other.findings);
        self.sort();
        self.findings.dedup_by(|a, b| {
            let key = |f: &LintFinding| (f.line, f.rule.code, f.path.clone(), f.message.clone());
            a.file == b.file && key(a) == key(b)
        });
    }

    fn sort(&mut self) {
        self.findings.sort_by_cached_key(|f| {
            (f.file.clone(), f.line, f.rule.code, f.subject.clone(), f.message.clone())
        });
    }

    /// The number of documents in all files.
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in self.files.values() {
            sum.manifests += tally.manifests;
            sum.others += tally.others;
            sum.documents += tally.documents;
            sum.templates += tally.templates;
            sum.parts += tally.parts;
        }
        sum
    }

    /// The number of open findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.open().filter(|f| f.severity == severity).count()
    }
}

/// Runs all rules about manifests. [`LintReport::add_effects`] adds the findings about their effects.
pub fn lint(input: &Input<'_>) -> LintReport {
    let mut report = LintReport { files: input.documents.files.clone(), findings: Vec::new() };
    report.run(input, |rule, findings| match rule.check {
        Check::Manifests(check) => check(input, findings),
        Check::Effects(_) => {}
    });
    report
}

/// Suggests the most similar known name: `; did you mean "driver"?`. Empty if no known name is similar.
fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match near(name, known).first() {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    Secret,
    ConfigMap,
}

impl fmt::Display for ReferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// The fields of `valueFrom` with references.
const REFERENCES: [(ReferenceKind, &str); 2] =
    [(ReferenceKind::Secret, "secretKeyRef"), (ReferenceKind::ConfigMap, "configMapKeyRef")];

/// A required reference of an environment variable to a key of a Secret or ConfigMap.
#[derive(Debug)]
pub struct Reference<'m> {
    pub kind: ReferenceKind,
    pub name: &'m str,
    pub key: &'m str,
    /// Path of the field with the object's name.
    pub path: [String; 8],
}

/// Whether an object exists in the operator's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existence {
    Absent,
    /// The object exists; with its keys, if they were read.
    Present(Option<Vec<String>>),
}

/// Results of looking up referenced objects. Objects that are not in `known` are unknown.
#[derive(Debug, Default)]
pub struct References {
    /// The namespace of the package pods.
    pub namespace: String,
    pub known: BTreeMap<(ReferenceKind, String), Existence>,
}

impl Manifest {
    /// The required references of all packages.
    fn references(&self) -> Vec<Reference<'_>> {
        let packages = self.skyhook().into_iter().flat_map(|s| s.packages());
        let variables = packages.flat_map(|(package, _)| {
            let env = self.get(&["spec", "packages", package, "env"]);
            let env = env.and_then(Value::as_array).into_iter().flatten();
            env.enumerate().map(move |(index, variable)| (package, index, variable))
        });
        let references = variables.flat_map(|(package, index, variable)| {
            REFERENCES.into_iter().filter_map(move |(kind, field)| {
                let source = &variable["valueFrom"][field];
                let name = source["name"].as_str().filter(|name| !name.is_empty())?;
                (source["optional"] != true).then(|| Reference {
                    kind,
                    name,
                    key: source["key"].as_str().unwrap_or_default(),
                    path: [
                        "spec",
                        "packages",
                        package,
                        "env",
                        &index.to_string(),
                        "valueFrom",
                        field,
                        "name",
                    ]
                    .map(str::to_owned),
                })
            })
        });
        references.collect()
    }
}

impl Documents {
    /// Kinds and names of the objects that packages require.
    pub fn referenced(&self) -> BTreeSet<(ReferenceKind, String)> {
        self.manifests.iter().flat_map(Manifest::references).map(|r| (r.kind, r.name.to_owned())).collect()
    }
}

impl Input<'_> {
    /// Whether a reference is satisfied after the manifests are applied; `None` if it is unknown.
    fn existence(&self, reference: &Reference<'_>) -> Option<Existence> {
        // A SealedSecret or an ExternalSecret becomes a Secret of the same name.
        let kind = reference.kind.to_string();
        if self.others().any(|m| m.kind.ends_with(&kind) && m.name == reference.name) {
            return Some(Existence::Present(None));
        }
        let key = (reference.kind, reference.name.to_owned());
        self.references.known.get(&key).cloned()
    }
}

/// The manifests to check, and the cluster or capture if there is one.
#[derive(Debug)]
pub struct Input<'a> {
    pub documents: Documents,
    pub cluster: Option<&'a Cluster>,
    /// The operator's version: the given one, else the running one.
    pub operator: Option<Version>,
    /// The referenced Secrets and ConfigMaps that were looked up.
    pub references: Rc<References>,
    /// Why the server refuses manifests, each with the index of its manifest in `documents`.
    pub refusals: Vec<(usize, String)>,
    config: Rc<Config>,
    mutes: Mutes,
    /// Invalid mutes in annotations, each with the index of its manifest in `documents`.
    invalid_mutes: Vec<(usize, InvalidMute)>,
    now: Timestamp,
    /// The errors in the specs of custom resources, each with the index of its manifest in `documents`.
    spec_errors: OnceLock<Vec<(usize, SpecError)>>,
}

impl<'a> Input<'a> {
    /// Checks the manifests against these schemas.
    pub fn new(
        mut documents: Documents,
        cluster: Option<&'a Cluster>,
        operator: Option<Version>,
        schemas: &Schemas,
    ) -> Input<'a> {
        for manifest in &mut documents.manifests {
            manifest.violations = schema::violations(manifest, schemas);
        }
        let running = cluster.and_then(|cluster| cluster.active_api.operator_version.clone());
        Input {
            documents,
            cluster,
            operator: operator.or(running),
            references: Rc::default(),
            refusals: Vec::new(),
            config: Rc::default(),
            mutes: Mutes::default(),
            invalid_mutes: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            spec_errors: OnceLock::new(),
        }
    }

    /// Applies a configuration file and mutes: the given ones, and those in annotations of the manifests. Mutes lapse
    /// by the time `now`.
    #[must_use]
    pub fn with_settings(mut self, config: &Rc<Config>, mutes: Mutes, now: Timestamp) -> Input<'a> {
        self.operator = self.operator.or_else(|| config.operator_version.clone());
        self.config = Rc::clone(config);
        self.mutes = mutes;
        self.now = now;
        for (at, manifest) in self.documents.manifests.iter().enumerate() {
            let added = manifest.skyhook().map_or(Ok(()), |skyhook| self.mutes.add_annotation(skyhook));
            self.invalid_mutes.extend(added.err().map(|error| (at, error)));
        }
        self
    }

    /// A finding with its configured severity; suppressed if its rule is off, or a mute covers it.
    fn configured(&self, mut finding: LintFinding) -> LintFinding {
        match self.config.severity(&finding) {
            Some(Some(severity)) => finding.severity = severity,
            Some(None) => {
                finding.suppressed.get_or_insert_with(|| format!("off in {}", self.config.path));
            }
            None => {}
        }
        let place = (&finding.subject, finding.path.as_str());
        let rule = (finding.rule.code, finding.rule.name);
        let muted = self.mutes.of_manifest(rule, place, finding.severity, self.now);
        match muted {
            Some(Ok(reason)) => _ = finding.suppressed.get_or_insert(reason),
            Some(Err(why)) => finding.message += &format!("; its mute has lapsed: {why}"),
            None => {}
        }
        finding
    }

    /// The manifests of the API groups of Skyhook and NodeWright.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> + Clone {
        self.documents.manifests.iter().filter(|manifest| manifest.flavor().is_some())
    }

    /// The manifests of all other objects, such as Secrets and ConfigMaps.
    pub fn others(&self) -> impl Iterator<Item = &Manifest> {
        self.documents.manifests.iter().filter(|manifest| manifest.flavor().is_none())
    }

    /// The Skyhooks and NodeWrights among the manifests.
    pub fn skyhooks(&self) -> impl Iterator<Item = (&Manifest, &Skyhook)> + Clone {
        self.manifests().filter_map(|m| Some((m, m.skyhook()?)))
    }

    /// The errors of one kind in the specs of custom resources, except in fields that violate the schema.
    pub fn spec_errors(&self, kind: SpecErrorKind) -> impl Iterator<Item = (&Manifest, &SpecError)> {
        let manifests = &self.documents.manifests;
        let all = self.spec_errors.get_or_init(|| {
            manifests
                .iter()
                .enumerate()
                .filter_map(|(at, m)| Some((at, m.skyhook()?)))
                .flat_map(|(at, skyhook)| spec_errors(skyhook).into_iter().map(move |error| (at, error)))
                .collect()
        });
        all.iter()
            .filter(move |(_, error)| error.kind == kind)
            .map(|(at, error)| (&manifests[*at], error))
            .filter(|(manifest, error)| !manifest.violates_schema(&error.whole_path()))
    }

    /// The DeploymentPolicies among the manifests.
    pub fn policies(&self) -> impl Iterator<Item = (&Manifest, &DeploymentPolicy)> {
        self.manifests().filter_map(|m| Some((m, m.policy()?)))
    }

    /// The custom resources after the manifests are applied: those of the manifests, then the others of the
    /// cluster.
    pub fn all_skyhooks(&self) -> Vec<&Skyhook> {
        let own = self.skyhooks().map(|(_, skyhook)| skyhook);
        let names: HashSet<&str> = own.clone().map(Skyhook::name).collect();
        let live = self.cluster.into_iter().flat_map(|cluster| cluster.skyhooks.items());
        own.chain(live.filter(|skyhook| !names.contains(skyhook.name()))).collect()
    }

    /// The policy of this name after the manifests are applied: from the manifests, else from the cluster.
    pub fn policy(&self, name: &str) -> Option<&DeploymentPolicy> {
        self.policies()
            .map(|(_, policy)| policy)
            .find(|policy| policy.metadata.name == name)
            .or_else(|| self.cluster?.policies.iter().find(|policy| policy.metadata.name == name))
    }

    /// The nodes of the cluster, if they were read completely.
    pub fn nodes(&self) -> Option<&'a [Node]> {
        self.cluster?.nodes.ok().map(Vec::as_slice)
    }

    /// The live object that a manifest of a Skyhook or NodeWright will change.
    pub fn live(&self, manifest: &Manifest) -> Option<&'a Skyhook> {
        let (cluster, flavor) = (self.cluster?, manifest.flavor()?);
        let read = if flavor == cluster.flavor() { &cluster.skyhooks } else { &cluster.legacy };
        read.iter().find(|skyhook| skyhook.name() == manifest.name)
    }

    /// Whether the operator has at least this version or a pre-release of it; `None` if the version is
    /// unknown.
    pub fn operator_at_least(&self, major: u64, minor: u64) -> Option<bool> {
        self.operator.as_ref().map(|version| version.at_least(major, minor))
    }
}
