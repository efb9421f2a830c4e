//! The identity of the cluster that a plan is made for, and its comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The identity of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterIdentity {
    /// The address of the API server; one cluster may have several.
    pub server: String,
    /// The uid of the namespace `kube-system`, unique to each cluster; absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The cluster that a command changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Destination {
    /// The cluster name in the kubeconfig; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The context in the kubeconfig; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The address of the API server.
    pub server: String,
}

impl Destination {
    /// Describes the destination: `on cluster prod (context admin@prod, https://10.0.0.1:6443)`.
    pub fn line(&self) -> String {
        let context = self.context.as_ref().map(|c| format!("context {c}"));
        let rest: Vec<String> = context.into_iter().chain([self.server.clone()]).collect();
        match &self.cluster {
            Some(cluster) => format!("on cluster {cluster} ({})", rest.join(", ")),
            None => format!("on {}", rest.join(", ")),
        }
    }
}

/// The result of comparing two identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    Same,
    /// At least one uid is unknown, and the addresses are equal.
    SameAddress,
    /// At least one uid is unknown, and the addresses differ: a cluster may have several addresses.
    OtherAddress,
    Other,
}

impl ClusterIdentity {
    pub fn sameness(&self, other: &ClusterIdentity) -> Sameness {
        match (&self.uid, &other.uid) {
            (Some(a), Some(b)) if a == b => Sameness::Same,
            (Some(_), Some(_)) => Sameness::Other,
            _ if self.server == other.server => Sameness::SameAddress,
            _ => Sameness::OtherAddress,
        }
    }

    /// Whether both count as one cluster without a warning.
    pub fn is_taken_for(&self, other: &ClusterIdentity) -> bool {
        matches!(self.sameness(other), Sameness::Same | Sameness::SameAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_decides_and_the_address_where_there_is_none() {
        let origin = |server: &str, uid: &str| ClusterIdentity {
            server: server.to_owned(),
            uid: (!uid.is_empty()).then(|| uid.to_owned()),
        };
        for (a, b, sameness) in [
            (("x", "1"), ("x", "1"), Sameness::Same),
            (("x", "1"), ("y", "1"), Sameness::Same),
            // The cluster was rebuilt behind the same address.
            (("x", "1"), ("x", "2"), Sameness::Other),
            (("x", "1"), ("y", "2"), Sameness::Other),
            (("x", ""), ("x", "2"), Sameness::SameAddress),
            (("x", "1"), ("y", ""), Sameness::OtherAddress),
        ] {
            let found = origin(a.0, a.1).sameness(&origin(b.0, b.1));
            assert_eq!(found, sameness, "{a:?} {b:?}");
        }
    }
}
