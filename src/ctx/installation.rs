//! Reads of the operator's installation.

use super::Ctx;
pub use crate::apply::PermissionCheck;
use crate::apply::{Options, preflight};
use crate::cluster::installation::{Definition, Installation};
use crate::cluster::live::installation;
use crate::cluster::{Cluster, Read};
use crate::plan::Plan;

impl Ctx {
    /// Server version, CRDs and leases; from files, those that they contain.
    pub async fn installation(&self, cluster: &Cluster) -> Installation {
        match self.client() {
            Some(client) => installation::read(&client, cluster).await,
            None => cluster.installation.clone(),
        }
    }

    /// The CRDs of both APIs; from files, those that they contain.
    pub async fn definitions(&self, cluster: &Cluster) -> Read<Vec<Definition>> {
        match self.client() {
            Some(client) => installation::definitions(&client).await,
            None => cluster.installation.definitions.clone(),
        }
    }

    /// The definitions and the cluster roles, where no operator runs.
    pub async fn remains(&self, cluster: &Cluster) -> Installation {
        match self.client().filter(|_| cluster.operator_gone()) {
            Some(client) => installation::remains(&client).await,
            None => cluster.installation.clone(),
        }
    }

    /// Missing permissions of a plan that is not applied; `None` for files. The access reviews are posted, but change
    /// nothing.
    pub async fn may_change(&self, plan: &Plan) -> Option<PermissionCheck> {
        let client = self.client()?;
        let options = Options::of_connection(&self.global.connection);
        Some(preflight(&client, plan, &options).await)
    }
}
