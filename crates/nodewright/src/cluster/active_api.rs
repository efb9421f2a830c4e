//! Decides which API is active: the API whose objects the running operator processes.

use crate::api::{ApiFlavor, Version};

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
    /// Number of NodeWright objects that have a status from an operator.
    pub nodewrights_with_status: usize,
    /// Number of nodes with the newer operator's version annotation.
    pub adopted_nodes: usize,
    /// Value of `--api`.
    pub asked_for: Option<ApiFlavor>,
    /// Whether the input is files, which may omit an API. A server that serves one API has no other.
    pub from_files: bool,
}

/// First operator version that processes NodeWright objects.
const FIRST_NODEWRIGHT: (u64, u64) = (0, 18);

impl ActiveApi {
    /// Decides which API is active; `None` without `--api` if a server serves neither API.
    ///
    /// In order of precedence: `--api`, the only API that a server serves, the operator's version, and the
    /// traces that an operator left on objects. Without traces, the newer API counts as active. Two served
    /// groups do not prove that a newer operator runs: `helm rollback` keeps the newer CRDs.
    pub fn decide(evidence: ApiEvidence) -> Option<ActiveApi> {
        let (flavor, reasons) = if let Some(flavor) = evidence.asked_for {
            (flavor, vec![format!("--api {flavor}")])
        } else {
            Self::weigh(&evidence)?
        };
        Some(ActiveApi {
            flavor,
            reasons,
            served: evidence.served,
            operator_version: evidence.operator_version,
            other_versions: evidence.other_versions,
        })
    }

    fn weigh(evidence: &ApiEvidence) -> Option<(ApiFlavor, Vec<String>)> {
        let only = |flavor: &ApiFlavor| format!("only {} is served", flavor.resource());
        let by_version = evidence.operator_version.as_ref().map(|version| {
            let (major, minor) = FIRST_NODEWRIGHT;
            let flavor =
                if version.at_least(major, minor) { ApiFlavor::NodeWright } else { ApiFlavor::Skyhook };
            (version, flavor)
        });
        let both = "both APIs are served";
        match (evidence.served.as_slice(), by_version) {
            ([], Some((version, flavor))) if evidence.from_files => {
                return Some((flavor, vec![format!("the operator version is {version}")]));
            }
            ([], None) if evidence.from_files => {
                let reason = "the files do not show which API is active".to_owned();
                return Some((ApiFlavor::NodeWright, vec![reason]));
            }
            ([], _) => return None,
            ([one], Some((version, flavor))) if evidence.from_files && flavor != *one => {
                let reason = format!("{}, but the operator version is {version}", only(one));
                return Some((flavor, vec![reason]));
            }
            ([one], _) => return Some((*one, vec![only(one)])),
            (_, Some((version, flavor))) => {
                let reason = format!("{both}, and the operator version is {version}");
                return Some((flavor, vec![reason]));
            }
            _ => {}
        }
        let mut reasons = Vec::new();
        if evidence.nodewrights_with_status > 0 {
            reasons.push(format!("{} NodeWright objects have a status", evidence.nodewrights_with_status));
        }
        if evidence.adopted_nodes > 0 {
            reasons.push(format!(
                "{} nodes have the version annotation of the newer operator",
                evidence.adopted_nodes
            ));
        }
        if reasons.is_empty() {
            reasons.push(format!(
                "{both}, the operator's version is unknown, and nothing indicates that the operator was rolled \
                 back; use --api to override"
            ));
        }
        Some((ApiFlavor::NodeWright, reasons))
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

#[cfg(test)]
mod tests {
    use super::*;
    use ApiFlavor::{NodeWright, Skyhook};

    fn decide(served: &[ApiFlavor], version: Option<&str>, evidence: usize) -> Option<ApiFlavor> {
        ActiveApi::decide(ApiEvidence {
            served: served.to_vec(),
            operator_version: version.and_then(Version::parse),
            nodewrights_with_status: evidence,
            ..ApiEvidence::default()
        })
        .map(|r| r.flavor)
    }

    #[test]
    fn the_four_cases() {
        let both = [Skyhook, NodeWright];
        assert_eq!(decide(&[], None, 0), None);
        assert_eq!(decide(&[Skyhook], Some("v0.20.0"), 0), Some(Skyhook));
        assert_eq!(decide(&[NodeWright], None, 0), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.18.0-rc1"), 0), Some(NodeWright));
        assert_eq!(decide(&both, Some("v0.17.1"), 3), Some(Skyhook));
        assert_eq!(decide(&both, None, 3), Some(NodeWright));
        assert_eq!(decide(&both, None, 0), Some(NodeWright));
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
