//! Objects of the operator's installation, as opposed to the objects that the operator works on.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1 as coordination;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::clock::PATIENCE;
use super::kubernetes::Standard;
use super::operator::OperatorView;
use super::restrictions::{LimitRange, RbacObject, ResourceQuota};
use super::{Certainty, Deployment, Read};
use crate::api::{ApiFlavor, Condition, Meta, UnknownFields, Version, objects_with_metadata};
use crate::text::{Joined, distinct};

/// The server, and the operator's CRDs, Leases, namespaces and roles.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    pub server: Read<String>,
    /// The existing CRDs of both APIs.
    pub definitions: Read<Vec<Definition>>,
    /// The operator's Leases. Optional: a cluster without them is not incomplete.
    pub leases: Read<Vec<Lease>>,
    /// When the Leases were read; of files, the newest time in the file with a Lease of the operator.
    pub leases_at: Option<Timestamp>,
    /// Namespaces that may contain the operator. Read from a server only if no operator is ready.
    pub namespaces: Read<Vec<Namespace>>,
    /// Roles and their bindings. Read from a server only for leftovers, and while the operator may be late.
    pub roles: Read<Vec<RbacObject>>,
    /// Limit ranges of the operator's namespace. Read from a server only while the operator may be late.
    pub limit_ranges: Read<Vec<LimitRange>>,
    /// Quotas of the operator's namespace. Read from a server only while the operator may be late.
    pub quotas: Read<Vec<ResourceQuota>>,
    /// Secrets and ConfigMaps of files, except the operator's. Never read from a server.
    pub key_maps: Read<Vec<KeyMap>>,
}

/// A Secret or ConfigMap, without its values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyMap {
    pub kind: String,
    pub metadata: Meta,
    data: BTreeMap<String, IgnoredAny>,
    binary_data: BTreeMap<String, IgnoredAny>,
    string_data: BTreeMap<String, IgnoredAny>,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

impl KeyMap {
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        [&self.data, &self.binary_data, &self.string_data]
            .into_iter()
            .flat_map(|map| map.keys().map(String::as_str))
    }
}

impl Installation {
    /// Objects that may remain after the operator is removed but could not be read, with the reasons.
    pub fn unread_remains(&self) -> Vec<String> {
        let definitions = self.definitions.unread().map(|why| format!("CRDs were not checked: {why}"));
        let roles = self.roles.unread();
        let roles = roles.map(|why| format!("cluster roles were not checked: {why}"));
        definitions.into_iter().chain(roles).collect()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: Meta,
    pub status: ObjectStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ObjectStatus {
    pub conditions: Vec<Condition>,
}

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Definition {
    pub metadata: Meta,
    pub spec: DefinitionSpec,
    pub status: ObjectStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(Definition, Namespace, KeyMap);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionSpec {
    pub versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionVersion {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub schema: Value,
}

/// The Lease by which the replicas of an operator elect a leader.
pub type Lease = Standard<coordination::Lease>;

impl Namespace {
    /// Conditions that prevent the namespace's deletion, with the messages of the namespace controller.
    pub fn remaining(&self) -> impl Iterator<Item = &Condition> {
        self.status.conditions.iter().filter(|c| c.is_true() && !c.message.is_empty())
    }
}

impl super::Cluster {
    /// The CRD of the custom resources of the active API, if it was read and is being deleted.
    pub fn deleted_definition(&self) -> Option<&Definition> {
        let [name, _] = Definition::names(self.flavor());
        self.installation
            .definitions
            .iter()
            .find(|found| found.metadata.name == name && found.metadata.deleting())
    }
}

impl Definition {
    /// Names of the CRDs of an API: the main kind, and its deployment policies.
    pub fn names(flavor: ApiFlavor) -> [String; 2] {
        [flavor.plural(), "deploymentpolicies"].map(|plural| format!("{plural}.{}", flavor.group()))
    }

    pub fn established(&self) -> bool {
        self.status.conditions.iter().any(|c| c.kind == "Established" && c.is_true())
    }

    /// Names of the served versions.
    pub fn served(&self) -> Vec<&str> {
        self.spec.versions.iter().filter(|v| v.served).map(|v| v.name.as_str()).collect()
    }

    /// Whether the schema of packages has `uninstall`; otherwise the server drops the field. `None` if no
    /// served version has a schema of packages.
    pub fn knows_uninstall(&self) -> Option<bool> {
        let packages = "/openAPIV3Schema/properties/spec/properties/packages/additionalProperties/properties";
        let mut versions = self.spec.versions.iter().filter(|v| v.served);
        Some(versions.find_map(|v| v.schema.pointer(packages))?.get("uninstall").is_some())
    }
}

impl Lease {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Identity of the leading replica; empty without a leader.
    pub fn holder(&self) -> &str {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
    }

    /// The last renewal: by the clock of the leader, or by that of the API server.
    pub fn renewed(&self) -> Option<Timestamp> {
        let noted = self.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|at| at.0);
        let writes = self.metadata.managed_fields.iter().flatten();
        noted.max(writes.filter_map(|write| Some(write.time.as_ref()?.0)).max())
    }

    /// Whether a pod of the Deployment holds the Lease and renewed it recently.
    pub fn is_held_by(&self, deployment: &Deployment, now: Timestamp) -> bool {
        let namespace = self.metadata.namespace.as_deref();
        let lives = self.age(now).is_some_and(|age| age <= self.patience());
        let holds = self.holder().starts_with(&format!("{}-", deployment.name()));
        namespace == Some(deployment.namespace()) && lives && holds && self.is_operators()
    }

    /// The name of the Lease of the reconciler (operator `reconcileLeaseID`). The webhooks' certificates have another
    /// leader, which says nothing about the reconciler.
    pub const NAME: &str = "3c22c1ae.nvidia.com";

    pub fn is_operators(&self) -> bool {
        self.name() == Lease::NAME
    }

    /// Time since the last renewal.
    pub fn age(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(now.duration_since(self.renewed()?))
    }

    /// Age up to which a Lease is valid. A leader renews its Lease every few seconds.
    pub fn patience(&self) -> SignedDuration {
        let spec = self.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(15);
        SignedDuration::from_secs(4 * i64::from(seconds)).max(SignedDuration::from_mins(1))
    }
}

/// The acting Deployments, normally one. Operators in different namespaces all act, because each elects its
/// leader in its own namespace.
///
/// Deployments with ready replicas act. If there are several, only the holders of a Lease and the Deployments
/// without leader election act; if there are none of these, all of them count. If no replica is ready, the
/// Deployment that is starting acts next. A Deployment scaled to zero never acts.
pub fn acting<'a>(
    operators: impl Iterator<Item = &'a Deployment>,
    leases: &[Lease],
    now: Timestamp,
) -> Vec<&'a Deployment> {
    let candidates = candidates(operators);
    let leaders: Vec<&Deployment> = candidates.iter().copied().filter(|d| leads(d, leases, now)).collect();
    if candidates.len() > 1 && !leaders.is_empty() { leaders } else { candidates }
}

/// The Deployments with ready replicas, or else all that are not scaled to zero.
fn candidates<'a>(operators: impl Iterator<Item = &'a Deployment>) -> Vec<&'a Deployment> {
    let wanted: Vec<&Deployment> = operators.filter(|d| d.replicas() > 0).collect();
    let ready = ready(&wanted);
    if ready.is_empty() { wanted } else { ready }
}

/// Whether the Deployment holds a Lease, or acts without leader election.
fn leads(deployment: &Deployment, leases: &[Lease], now: Timestamp) -> bool {
    let elects = deployment.env("LEADER_ELECTION") != Some("false");
    !elects || leases.iter().any(|lease| lease.is_held_by(deployment, now))
}

/// The versions of the Deployments that may be the operator, unless all have the same. Anybody can label a
/// Deployment as the operator: if the real one is not ready, only its version shows what it will do.
pub fn other_versions<'a>(
    operators: impl Iterator<Item = &'a Deployment>,
    leases: &[Lease],
    now: Timestamp,
) -> Vec<Version> {
    let wanted: Vec<&Deployment> = operators.filter(|d| d.replicas() > 0).collect();
    // A ready Deployment without a Lease waits for the leader.
    let waits = |d: &Deployment| d.ready_replicas() > 0 && !leads(d, leases, now);
    let any_leads = wanted.iter().any(|d| leads(d, leases, now));
    let candidates = wanted.iter().filter(|d| !(any_leads && waits(d)));
    let versions = distinct(candidates.filter_map(|d| d.operator_version()));
    if versions.len() > 1 { versions } else { Vec::new() }
}

/// The Deployments with ready replicas.
fn ready<'a>(all: &[&'a Deployment]) -> Vec<&'a Deployment> {
    all.iter().copied().filter(|d| d.ready_replicas() > 0).collect()
}

/// The operator version, if all acting Deployments have the same version.
pub fn version(acting: &[&Deployment]) -> Option<Version> {
    let mut versions = acting.iter().map(|d| d.operator_version());
    let first = versions.next()??;
    versions.all(|version| version.as_ref() == Some(&first)).then_some(first)
}

/// Whether several Deployments could act, so that only their Leases show which ones do.
pub fn undecided(operators: &[&Deployment]) -> bool {
    candidates(operators.iter().copied()).len() > 1
}

/// The reason why no operator acts on the custom resources.
#[derive(Debug, Clone, Copy)]
pub enum WhyDown<'a> {
    /// No Deployment runs it.
    Absent,
    /// No replica is available, or all end again and again.
    NoReplica,
    /// A replica is ready, but none renews the Lease.
    Silent(&'a Lease),
}

impl<'a> OperatorView<'a> {
    /// Whether all Deployments of the operator are unavailable. `false` without any Deployment, because
    /// something else may run the operator.
    pub fn is_unavailable(self) -> bool {
        let operators = self.0.operators.items();
        !operators.is_empty() && operators.iter().all(Deployment::is_unavailable)
    }

    /// Start of the operator's current startup, as after a restart. `None` if the operator is available, or
    /// unavailable for another reason.
    pub fn coming_up_since(self) -> Option<Timestamp> {
        self.0.operators.iter().filter_map(|d| self.startup_of(d)).max().filter(|_| self.is_unavailable())
    }

    /// The reason why the operator does not act.
    pub fn why_down(self) -> Option<WhyDown<'a>> {
        let operators = self.0.operators.items();
        let ends =
            |operator: &'a Deployment| operator.is_unavailable() || self.crash_looping(operator).is_some();
        if self.is_absent() {
            Some(WhyDown::Absent)
        } else if !operators.is_empty() && operators.iter().all(ends) {
            Some(WhyDown::NoReplica)
        } else {
            self.silent().map(WhyDown::Silent)
        }
    }

    /// Whether the operator does not act, and is not starting up.
    pub fn is_down(self) -> bool {
        self.why_down().is_some() && self.coming_up_since().is_none()
    }

    /// The Lease of a ready operator that has not renewed it for ten minutes, nor started within them. A leader renews it
    /// every few seconds, and ends if it cannot. Not known of several Deployments, nor without the time of the Lease.
    fn silent(self) -> Option<&'a Lease> {
        let [operator] = self.0.operators.ok()?.as_slice() else {
            return None;
        };
        let installation = &self.0.installation;
        let own =
            |l: &&Lease| l.is_operators() && l.metadata.namespace.as_deref() == Some(operator.namespace());
        let lease = installation.leases.iter().find(own)?;
        // A given time may be later than the capture.
        let read = installation.leases_at?;
        let long_ago = |at: Timestamp| read.duration_since(at).as_secs() >= PATIENCE;
        (operator.elects()
            && operator.ready_replicas() > 0
            && long_ago(lease.renewed()?.max(self.started()?)))
        .then_some(lease)
    }

    /// Whether the operator may write to the cluster: it is not scaled to zero. An unavailable one may still do so; so may
    /// an absent one, which something else than a Deployment may run.
    pub fn may_write(self) -> bool {
        let operators = self.0.operators.items();
        operators.is_empty() || operators.iter().any(|d| d.replicas() > 0)
    }

    /// Whether all Deployments were read, and none of them runs the operator.
    pub fn is_absent(self) -> bool {
        self.0.operators.absence() == Certainty::Proven
            && self.0.operators.ok().is_some_and(|all| all.is_empty())
    }

    /// The Deployments that act on the custom resources; see [`acting`].
    pub fn acting(self) -> Vec<&'a Deployment> {
        acting(self.0.operators.iter(), self.0.installation.leases.items(), self.0.taken_at)
    }

    /// The operator's Deployment: the acting one, or else the only one. `None` if several act, or if none
    /// acts and several exist.
    pub fn deployment(self) -> Option<&'a Deployment> {
        match (self.acting().as_slice(), self.0.operators.items()) {
            ([one], _) => Some(one),
            ([], [one]) => Some(one),
            _ => None,
        }
    }

    /// The operator's Deployments with ready replicas, one for each namespace: each is an installation.
    pub fn installations(self) -> Vec<&'a Deployment> {
        let all: Vec<&Deployment> = self.0.operators.iter().collect();
        let mut ready = ready(&all);
        ready.sort_by_key(|operator| operator.namespace());
        // Deployments in one namespace elect a single leader.
        ready.dedup_by_key(|operator| operator.namespace());
        ready
    }

    /// The value of an environment variable of the operator's manager.
    pub fn setting(self, name: &str) -> Option<&'a str> {
        self.deployment()?.env(name)
    }

    /// The namespaces in which the operator creates its objects: from `--namespace`, else the namespaces of
    /// the acting Deployments, else of all its Deployments, else those of the Services in its webhook
    /// configurations. Empty if all are unknown.
    pub fn namespaces(self) -> BTreeSet<&'a str> {
        if let Some(namespace) = &self.0.namespace_flag {
            return [namespace.as_str()].into();
        }
        let acting = self.acting().into_iter().map(Deployment::namespace);
        let mut namespaces: BTreeSet<&str> = acting.collect();
        if namespaces.is_empty() {
            let all = self.0.operators.iter().filter(|deployment| deployment.runs_operator());
            namespaces.extend(all.map(Deployment::namespace));
        }
        if !namespaces.is_empty() {
            return namespaces;
        }
        self.0
            .admission
            .webhooks
            .iter()
            .filter(|configuration| configuration.is_operators())
            .flat_map(|configuration| configuration.services())
            .map(|service| service.namespace.as_str())
            .collect()
    }

    /// The namespaces in which the operator may run: the known ones, those of the pods that were read, and the defaults.
    pub fn possible_namespaces(self) -> BTreeSet<&'a str> {
        let of_pods = self.0.pods.iter().filter_map(|pod| pod.metadata.namespace.as_deref());
        let defaults = self.0.active_api.served.iter().map(|flavor| flavor.default_namespace());
        self.namespaces().into_iter().chain(of_pods).chain(defaults).collect()
    }

    /// The reason why the operator version is unknown; `None` if it is known.
    pub fn why_no_version(self) -> Option<String> {
        if self.0.active_api.operator_version.is_some() {
            return None;
        }
        let operators = match &self.0.operators {
            Read::Incomplete(_, why) | Read::Unreadable(why) => return Some(why.to_string()),
            Read::NotRequested => return Some("the capture has no Deployments".to_owned()),
            Read::Ok(operators) => operators,
        };
        let acting = self.acting();
        Some(match (operators.as_slice(), acting.as_slice()) {
            ([], _) => "no operator Deployment was found".to_owned(),
            ([first, ..], []) => format!("{first} is scaled to zero"),
            (_, [_]) => "neither the image nor the labels of its Deployment contain a version".to_owned(),
            (_, several) => {
                let mut named: Vec<(&str, String)> =
                    several.iter().map(|d| (d.namespace(), d.installed())).collect();
                named.sort();
                let named = named.into_iter().map(|(_, named)| named).joined(", ");
                format!("{} operators are active: {named}", several.len())
            }
        })
    }
}

impl Deployment {
    /// Version and namespace: `v0.17.0 in namespace skyhook`
    pub fn installed(&self) -> String {
        let version = self.operator_version();
        let version = version.map_or_else(|| "unknown version".to_owned(), |v| v.to_string());
        format!("{version} in namespace {}", self.namespace())
    }
}
