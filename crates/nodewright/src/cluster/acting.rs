//! The operator's Deployments that act on the custom resources, and the operator's namespaces.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::installation::Lease;
use super::{Cluster, Deployment, Read};
use crate::api::Version;

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
    let wanted: Vec<&Deployment> = operators.filter(|d| d.replicas() > 0).collect();
    let mut acting: Vec<&Deployment> = ready(&wanted);
    if acting.is_empty() {
        acting = wanted;
    }
    if acting.len() > 1 {
        let leaders: Vec<&Deployment> = acting.iter().copied().filter(|d| leads(d, leases, now)).collect();
        if !leaders.is_empty() {
            acting = leaders;
        }
    }
    acting
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
    let mut versions: Vec<Version> = candidates.filter_map(|d| d.operator_version()).collect();
    versions.sort();
    versions.dedup();
    if versions.len() > 1 { versions } else { Vec::new() }
}

/// The Deployments with ready replicas.
fn ready<'a>(all: &[&'a Deployment]) -> Vec<&'a Deployment> {
    let ready = all.iter().copied().filter(|d| d.ready_replicas() > 0);
    ready.collect()
}

/// The operator version, if all acting Deployments have the same version.
pub fn version(acting: &[&Deployment]) -> Option<Version> {
    let mut versions = acting.iter().map(|d| d.operator_version());
    let first = versions.next()??;
    let agreed = versions.all(|version| version.as_ref() == Some(&first));
    agreed.then_some(first)
}

/// Whether several Deployments could act, so that only their Leases show which ones do.
pub fn undecided(operators: &[&Deployment]) -> bool {
    let wanted: Vec<&Deployment> = operators.iter().copied().filter(|d| d.replicas() > 0).collect();
    let ready = ready(&wanted);
    let candidates = if ready.is_empty() { wanted } else { ready };
    candidates.len() > 1
}

impl Cluster {
    /// The Deployments that act on the custom resources; see [`acting`].
    pub fn acting_operators(&self) -> Vec<&Deployment> {
        acting(self.operators.items().iter(), self.installation.leases.items(), self.taken_at)
    }

    /// The operator's Deployment: the acting one, or else the only one. `None` if several act, or if none
    /// acts and several exist.
    pub fn operator(&self) -> Option<&Deployment> {
        match (self.acting_operators().as_slice(), self.operators.items()) {
            ([one], _) => Some(one),
            ([], [one]) => Some(one),
            _ => None,
        }
    }

    /// The operator's Deployments with ready replicas, one for each namespace: each is an installation.
    pub fn installations(&self) -> Vec<&Deployment> {
        let all: Vec<&Deployment> = self.operators.items().iter().collect();
        let mut ready = ready(&all);
        ready.sort_by_key(|operator| operator.namespace());
        // Deployments in one namespace elect a single leader.
        ready.dedup_by_key(|operator| operator.namespace());
        ready
    }

    /// The value of an environment variable of the operator's manager.
    pub fn operator_setting(&self, name: &str) -> Option<&str> {
        self.operator()?.env(name)
    }

    /// The namespaces in which the operator creates its objects: from `--namespace`, else the namespaces of
    /// the acting Deployments, else those of the Services in its webhook configurations. Empty if all are
    /// unknown.
    pub fn operator_namespaces(&self) -> BTreeSet<&str> {
        if let Some(namespace) = &self.namespace_flag {
            return [namespace.as_str()].into();
        }
        let acting = self.acting_operators();
        if !acting.is_empty() {
            return acting.into_iter().map(Deployment::namespace).collect();
        }
        let webhooks = self.admission.webhooks.items().iter();
        let services = webhooks
            .filter(|configuration| configuration.is_operators())
            .flat_map(|configuration| configuration.services());
        services.map(|service| service.namespace.as_str()).collect()
    }

    /// The reason why the operator version is unknown; `None` if it is known.
    pub fn why_no_operator_version(&self) -> Option<String> {
        if self.active_api.operator_version.is_some() {
            return None;
        }
        let operators = match &self.operators {
            Read::Incomplete(_, why) | Read::Unreadable(why) => return Some(why.to_string()),
            Read::NotRequested => return Some("the input has no Deployments".to_owned()),
            Read::Ok(operators) => operators,
        };
        let acting = self.acting_operators();
        Some(match (operators.as_slice(), acting.as_slice()) {
            ([], _) => "no operator Deployment was found".to_owned(),
            ([first, ..], []) => format!("{first} is scaled to zero"),
            (_, [_]) => "neither the image nor the labels of its Deployment contain a version".to_owned(),
            (_, several) => {
                let mut named: Vec<(&str, String)> =
                    several.iter().map(|d| (d.namespace(), d.installed())).collect();
                named.sort();
                let named: Vec<String> = named.into_iter().map(|(_, named)| named).collect();
                format!("{} operators are active: {}", several.len(), named.join(", "))
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
