//! The input of lint rules: manifests, and the cluster to which they will be applied, if known.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::OnceLock;

use jiff::Timestamp;

use super::config::Config;
use super::finding::LintFinding;
use super::manifest::{Documents, Manifest};
use super::references::References;
use super::schema::{self, Schemas};
use crate::api::{DeploymentPolicy, Skyhook, Version};
use crate::cluster::{Cluster, Node};
use crate::model::spec_errors::{SpecError, SpecErrorKind, spec_errors};
use crate::rules::support::mute::{InvalidMute, Mutes};

/// The manifests to check, and the cluster or capture if there is one.
#[derive(Debug)]
pub struct Input<'a> {
    pub documents: Documents,
    pub cluster: Option<&'a Cluster>,
    /// The operator's version: the given one, else the running one.
    pub operator: Option<Version>,
    /// The referenced Secrets and ConfigMaps that were looked up.
    pub references: References,
    /// Why the server refuses manifests, each with the index of its manifest in `documents`.
    pub refusals: Vec<(usize, String)>,
    config: Rc<Config>,
    mutes: Mutes,
    /// Invalid mutes in annotations, each with the index of its manifest in `documents`.
    pub(super) invalid_mutes: Vec<(usize, InvalidMute)>,
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
            references: References::default(),
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
    pub(super) fn configured(&self, mut finding: LintFinding) -> LintFinding {
        match self.config.severity(&finding) {
            Some(Some(severity)) => finding.severity = severity,
            Some(None) => {
                finding.suppressed.get_or_insert_with(|| format!("off in {}", self.config.path));
            }
            None => {}
        }
        let place = (&finding.subject, finding.path.as_str());
        let muted =
            finding.names().find_map(|rule| self.mutes.of_manifest(rule, place, finding.severity, self.now));
        match muted {
            Some(Ok(reason)) => _ = finding.suppressed.get_or_insert(reason),
            Some(Err(why)) => finding.message += &format!("; its mute has lapsed: {why}"),
            None => {}
        }
        finding
    }

    /// Sets the objects against which references of packages are checked.
    #[must_use]
    pub fn with_references(mut self, references: &References) -> Input<'a> {
        self.references = references.clone();
        self
    }

    /// The manifests of the API groups of Skyhook and NodeWright.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> + Clone {
        let all = self.documents.manifests.iter();
        all.filter(|manifest| manifest.flavor().is_some())
    }

    /// The manifests of all other objects, such as Secrets and ConfigMaps.
    pub fn others(&self) -> impl Iterator<Item = &Manifest> {
        let all = self.documents.manifests.iter();
        all.filter(|manifest| manifest.flavor().is_none())
    }

    /// The Skyhooks and NodeWrights among the manifests.
    pub fn skyhooks(&self) -> impl Iterator<Item = (&Manifest, &Skyhook)> + Clone {
        self.manifests().filter_map(|m| Some((m, m.skyhook()?)))
    }

    /// The errors of one kind in the specs of custom resources, except in fields that violate the schema.
    pub fn spec_errors(&self, kind: SpecErrorKind) -> impl Iterator<Item = (&Manifest, &SpecError)> {
        let manifests = &self.documents.manifests;
        let all = self.spec_errors.get_or_init(|| {
            let skyhooks = manifests.iter().enumerate().filter_map(|(at, m)| Some((at, m.skyhook()?)));
            let errors = skyhooks
                .flat_map(|(at, skyhook)| spec_errors(skyhook).into_iter().map(move |error| (at, error)));
            errors.collect()
        });
        let own = all.iter().filter(move |(_, error)| error.kind == kind);
        let own = own.map(|(at, error)| (&manifests[*at], error));
        own.filter(|(manifest, error)| !manifest.violates_schema(&error.whole_path()))
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
        let mut own = self.policies().map(|(_, policy)| policy);
        own.find(|policy| policy.metadata.name == name).or_else(|| {
            let mut live = self.cluster?.policies.items().iter();
            live.find(|policy| policy.metadata.name == name)
        })
    }

    /// The nodes of the cluster, if they were read completely.
    pub fn nodes(&self) -> Option<&'a [Node]> {
        let cluster = self.cluster?;
        cluster.nodes.ok().map(Vec::as_slice)
    }

    /// The live object that a manifest of a Skyhook or NodeWright will change.
    pub fn live(&self, manifest: &Manifest) -> Option<&'a Skyhook> {
        let (cluster, flavor) = (self.cluster?, manifest.flavor()?);
        let read = if flavor == cluster.flavor() { &cluster.skyhooks } else { &cluster.legacy };
        read.items().iter().find(|skyhook| skyhook.name() == manifest.name)
    }

    /// Whether the operator has at least this version or a pre-release of it; `None` if the version is
    /// unknown.
    pub fn operator_at_least(&self, major: u64, minor: u64) -> Option<bool> {
        self.operator.as_ref().map(|version| version.at_least(major, minor))
    }
}
