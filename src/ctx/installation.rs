//! What a look at the installation itself reads.

use super::Ctx;
use crate::cluster::Cluster;
use crate::cluster::installation::Installation;
use crate::cluster::live::installation;

impl Ctx {
    /// The server, the definitions and the leases; nothing of it where files are read.
    pub async fn installation(&self, cluster: &Cluster) -> Installation {
        match self.client() {
            Some(client) => installation::read(&client, cluster).await,
            None => Installation::default(),
        }
    }
}
