//! Decides which API is active: the API whose objects the running operator processes.

use jiff::{SignedDuration, Timestamp};

use super::node::NodeKeys;
use super::{Certainty, Cluster, Node, Source};
use crate::api::name::duration_seconds;
use crate::api::{ApiFlavor, DeploymentPolicy, Meta, Skyhook, Status, Version};

/// The migration from the older API: what blocks it, and the keys and records that it leaves.
#[derive(Clone, Copy)]
pub struct Migration<'a>(pub(super) &'a Cluster);

/// The active API, and the evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveApi {
    pub flavor: ApiFlavor,
    /// Descriptions of the evidence, strongest first.
    pub reasons: Vec<String>,
    /// APIs that the cluster serves, or that have traces in the files.
    pub served: Vec<ApiFlavor>,
    pub operator_version: Option<Version>,
    /// Versions of further Deployments, if it is in doubt which one is the operator.
    pub other_versions: Vec<Version>,
}

/// Input of [`ActiveApi::decide`].
#[derive(Debug, Clone, Default)]
pub struct ApiEvidence {
    pub served: Vec<ApiFlavor>,
    pub operator_version: Option<Version>,
    pub other_versions: Vec<Version>,
    /// Value of `--api`.
    pub asked_for: Option<ApiFlavor>,
    /// Whether the input is files, which may omit an API. A server that serves one API has no other.
    pub from_files: bool,
}

impl ActiveApi {
    /// Decides which API is active; `None` without `--api` if a server serves neither API.
    ///
    /// In order of precedence: `--api`, the only API that a server serves, and the operator's version. Without them,
    /// the newer API counts as active. Two served groups do not prove that a newer operator runs: `helm rollback`
    /// keeps the newer CRDs.
    pub fn decide(evidence: ApiEvidence) -> Option<ActiveApi> {
        let (flavor, reason) = match evidence.asked_for {
            Some(flavor) => (flavor, format!("--api {flavor}")),
            None => evidence.weigh()?,
        };
        Some(ActiveApi {
            flavor,
            reasons: vec![reason],
            served: evidence.served,
            operator_version: evidence.operator_version,
            other_versions: evidence.other_versions,
        })
    }

    /// The API that an operator of this version acts on.
    pub fn of_version(version: &Version) -> ApiFlavor {
        if version.at_least(0, 18) { ApiFlavor::NodeWright } else { ApiFlavor::Skyhook }
    }

    /// The versions of all Deployments that may be the operator.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.operator_version.iter().chain(&self.other_versions)
    }

    /// Whether a newer operator was rolled back: the older API is active while the newer one is still served.
    pub fn rolled_back(&self) -> bool {
        self.flavor == ApiFlavor::Skyhook && self.served.contains(&ApiFlavor::NodeWright)
    }

    /// Whether the older API is still served beside the newer one, which is active.
    pub fn migrating(&self) -> bool {
        self.flavor == ApiFlavor::NodeWright && self.served.contains(&ApiFlavor::Skyhook)
    }
}

impl ApiEvidence {
    fn weigh(&self) -> Option<(ApiFlavor, String)> {
        let only = |flavor: &ApiFlavor| format!("only {} is served", flavor.resource());
        let by_version =
            self.operator_version.as_ref().map(|version| (version, ActiveApi::of_version(version)));
        Some(match (self.served.as_slice(), by_version) {
            ([], Some((version, flavor))) if self.from_files => {
                (flavor, format!("the operator version is {version}"))
            }
            ([], None) if self.from_files => {
                (ApiFlavor::NodeWright, "the capture does not show which API is active".to_owned())
            }
            ([], _) => return None,
            ([one], Some((version, flavor))) if self.from_files && flavor != *one => {
                (flavor, format!("{}, but the operator version is {version}", only(one)))
            }
            ([one], _) => (*one, only(one)),
            (_, Some((version, flavor))) => {
                (flavor, format!("both APIs are served, and the operator version is {version}"))
            }
            (_, None) => (
                ApiFlavor::NodeWright,
                "both APIs are served, and the operator's version is unknown; use --api to override"
                    .to_owned(),
            ),
        })
    }
}

impl<'a> Migration<'a> {
    /// Whether the operator is known to process objects of the older API.
    fn operator_migrates(self) -> bool {
        self.0.flavor() == ApiFlavor::NodeWright
            && self.0.operator().since(0, 18)
            && self.0.operator().before(0, 21)
    }

    /// Whether files may omit objects of the older API that exist: their file is empty, or the operator migrates
    /// and a read object carries the older keys.
    pub(super) fn may_omit_legacy(self) -> bool {
        let older = self.0.flavor().other();
        let name = older.key("name");
        let labelled = |meta: &Meta| meta.labels.contains_key(&name);
        let traces = || {
            self.0.nodes.absence() != Certainty::Proven
                || self.0.nodes.indexed().iter().any(|node| *node.keys(older) != NodeKeys::default())
                || self.0.pods.indexed().iter().any(|pod| labelled(&pod.metadata))
                || self.0.config_maps.indexed().iter().any(|map| labelled(&map.metadata))
        };
        self.0.legacy.unread().is_some() || self.operator_migrates() && traces()
    }

    /// Objects of the older API that block the newer operator.
    ///
    /// Operators v0.18.0 to v0.20.x reconcile no NodeWright while the status of a Skyhook is unfinished.
    pub fn holding(self) -> impl Iterator<Item = &'a Skyhook> {
        let older = if self.0.active_api.migrating() { self.0.legacy.items() } else { &[] };
        unfinished(older)
    }

    /// Objects of the older API that would block a newer operator if it were installed now.
    pub fn would_hold(self) -> impl Iterator<Item = &'a Skyhook> {
        let older = if self.0.flavor() == ApiFlavor::Skyhook { self.0.skyhooks.items() } else { &[] };
        unfinished(older)
    }

    /// Whether the operator has copied the older keys of a custom resource on the node.
    pub fn is_adopted(self, node: &Node, skyhook: &str) -> bool {
        node.keys(self.0.flavor()).of(skyhook).is_some_and(|on| on.version.is_some())
    }

    /// The recorded time at which the operator adopted the older keys of a custom resource. The operator
    /// removes the record together with the last of these keys.
    pub fn migrated_at(self, skyhook: &'a Skyhook) -> Option<&'a str> {
        let key = self.0.flavor().key("legacy-migrated-at");
        skyhook.metadata.annotations.get(&key).map(String::as_str)
    }

    /// Whether the operator has finished adopting nodes for a custom resource. It does so before it writes a
    /// status.
    pub(super) fn has_migrated(self, skyhook: &Skyhook) -> bool {
        let begun = self.migrated_at(skyhook).is_some() || skyhook.status.status.is_some();
        begun && self.holding().next().is_none()
    }

    /// Whether the operator should have removed the keys adopted at this time.
    ///
    /// A blocked operator removes nothing, and may be rolled back.
    pub(super) fn cleanup_is_overdue(self, adopted_at: &str) -> bool {
        let due = || {
            let at: Timestamp = adopted_at.parse().ok()?;
            at.checked_add(self.cleanup_delay()?).ok()
        };
        self.0.is_stale(due()) && self.holding().next().is_none()
    }

    /// Time for which the operator keeps adopted keys for a rollback; `None` if its settings are unknown.
    fn cleanup_delay(self) -> Option<SignedDuration> {
        match self.0.operator().setting("LEGACY_CLEANUP_DELAY") {
            Some(text) => SignedDuration::try_from_secs_f64(duration_seconds(text)?).ok(),
            None => self.0.operator().deployment().map(|_| SignedDuration::from_hours(24)),
        }
    }
}

/// Deployment policies of the older API that the active operator does not use, and that no Skyhook names.
/// Empty if Skyhooks were not read: one may use the policy.
pub fn unused_policies(cluster: &Cluster) -> Vec<&DeploymentPolicy> {
    let unknown = cluster.legacy.absence() == Certainty::Unknown && cluster.has(Source::Legacy);
    if cluster.flavor() == ApiFlavor::Skyhook || unknown {
        return Vec::new();
    }
    let policies = cluster.legacy_policies.iter();
    let used = |policy: &&DeploymentPolicy| {
        cluster.legacy.iter().any(|skyhook| skyhook.spec.deployment_policy == policy.metadata.name)
    };
    policies.filter(|policy| !used(policy)).collect()
}

fn unfinished(older: &[Skyhook]) -> impl Iterator<Item = &Skyhook> {
    older.iter().filter(|old| old.status.status.as_ref().is_some_and(|status| !at_rest(status)))
}

/// Whether a Skyhook with this status does not block the migration.
fn at_rest(status: &Status) -> bool {
    matches!(status, Status::Complete | Status::Paused | Status::Disabled) || status.as_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ApiFlavor::{NodeWright, Skyhook};

    fn decide(served: &[ApiFlavor], version: Option<&str>) -> Option<ApiFlavor> {
        ActiveApi::decide(ApiEvidence {
            served: served.to_vec(),
            operator_version: version.and_then(Version::parse),
            ..ApiEvidence::default()
        })
        .map(|r| r.flavor)
    }

    #[test]
    fn the_four_cases() {
        let both = [Skyhook, NodeWright];
        assert_eq!(decide(&[], None), None);
        assert_eq!(decide(&[Skyhook], Some("v0.20.0")), Some(Skyhook));
        assert_eq!(decide(&[NodeWright], None), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.18.0-rc1")), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.17.1")), Some(Skyhook));
        assert_eq!(decide(&both, None), Some(NodeWright));
    }

    #[test]
    fn files_that_leave_a_kind_out_do_not_outweigh_the_operator() {
        let decide = |served, version| {
            let evidence = ApiEvidence {
                served: vec![served],
                operator_version: Version::parse(version),
                from_files: true,
                ..ApiEvidence::default()
            };
            ActiveApi::decide(evidence).map(|r| r.flavor)
        };
        assert_eq!(decide(Skyhook, "v0.20.0"), Some(NodeWright));
        assert_eq!(decide(Skyhook, "v0.17.1"), Some(Skyhook));
        assert_eq!(decide(NodeWright, "v0.17.1"), Some(Skyhook));
    }

    #[test]
    fn files_without_custom_resources_show_the_operator() {
        let decide = |version: Option<&str>| {
            let operator_version = version.and_then(Version::parse);
            ActiveApi::decide(ApiEvidence { operator_version, from_files: true, ..ApiEvidence::default() })
        };
        let found = decide(Some("v0.17.2")).expect("an API");
        assert_eq!((found.flavor, found.operator_version), (Skyhook, Version::parse("v0.17.2")));
        assert_eq!(decide(None).map(|found| found.flavor), Some(NodeWright));
    }

    #[test]
    fn the_user_decides_over_everything() {
        let active_api =
            ActiveApi::decide(ApiEvidence { asked_for: Some(Skyhook), ..ApiEvidence::default() });
        assert_eq!(active_api.map(|r| r.flavor), Some(Skyhook));
    }
}
