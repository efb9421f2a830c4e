//! What a look at the installation itself reads.

use super::Ctx;
pub use crate::apply::PermissionCheck;
use crate::apply::{Options, preflight};
use crate::cluster::Cluster;
use crate::cluster::installation::Installation;
use crate::cluster::live::installation;
use crate::plan::Plan;

impl Ctx {
    /// The server, the definitions and the leases; nothing of it where files are read.
    pub async fn installation(&self, cluster: &Cluster) -> Installation {
        match self.client() {
            Some(client) => installation::read(&client, cluster).await,
            None => Installation::default(),
        }
    }

    /// What of a plan that nobody carries out the user may not do; nothing where files are read. The questions are
    /// access reviews, which are posted and change nothing.
    pub async fn may_change(&self, plan: &Plan) -> Option<PermissionCheck> {
        let client = self.client()?;
        let options = Options::of_connection(&self.global.connection);
        Some(preflight(&client, plan, &options).await)
    }
}
