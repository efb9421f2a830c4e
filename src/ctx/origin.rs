//! Identity of the cluster: printed before a change, recorded in the journal, and compared before a saved plan is
//! applied.

use super::Ctx;
use crate::cluster::Unread;
use crate::cluster::live::origin;
use crate::error::{Error, Result};
use crate::plan::{ClusterIdentity, Destination, Sameness};

/// The identity of the current cluster, if readable.
#[derive(Debug, Clone, Default)]
pub struct Here {
    pub origin: ClusterIdentity,
    /// Why the uid of the cluster is unknown.
    pub unread: Option<Unread>,
}

impl Ctx {
    /// The target of changes once a server is connected; `None` for files.
    pub(super) fn destination(&self) -> Option<Destination> {
        let connected = self.connected.as_ref()?;
        Some(Destination {
            cluster: connected.named.cluster.clone(),
            context: connected.named.context.clone(),
            server: connected.server.clone(),
        })
    }

    /// The identity of the current cluster, read once.
    pub async fn here(&mut self) -> Result<Here> {
        if let Some(here) = &self.here {
            return Ok(here.clone());
        }
        let connected = self.connected().await?;
        let (client, server) = (connected.client.clone(), connected.server.clone());
        let (uid, unread) = match origin::uid(&client).await {
            Ok(uid) => (Some(uid), None),
            Err(reason) => (None, Some(reason)),
        };
        let here = Here { origin: ClusterIdentity { server, uid }, unread };
        self.here = Some(here.clone());
        Ok(here)
    }

    /// Compares a recorded identity with the current cluster. `what` names the record and begins a sentence.
    ///
    /// # Errors
    ///
    /// The record is from another cluster. If that is unknown, only warns: every object is tested by its uid.
    pub async fn same_cluster(&mut self, what: &str, then: Option<&ClusterIdentity>) -> Result<()> {
        let here = self.here().await?;
        let Some(then) = then else {
            self.warn(format!(
                "cannot tell whether this is the same cluster: {what} does not record its cluster"
            ));
            return Ok(());
        };
        let addresses =
            format!("{what} is from {}, but the current cluster is {}", then.server, here.origin.server);
        let sameness = then.sameness(&here.origin);
        if sameness == Sameness::Other {
            let uid = |origin: &ClusterIdentity| origin.uid.clone().unwrap_or_default();
            let error = Error::unchanged(format!(
                "{what} is from another cluster: namespace {} has the uid {} there (at {}), but {} here (at {})",
                origin::NAMESPACE,
                uid(then),
                then.server,
                uid(&here.origin),
                here.origin.server
            ));
            return Err(error.hint("select that cluster with --context or --kubeconfig"));
        }
        if sameness == Sameness::Same {
            return Ok(());
        }
        // Older versions recorded no uid: compare the address alone.
        let noted_none = then.uid.is_none() && here.unread.is_none();
        let reason = match (&here.unread, sameness) {
            (_, Sameness::SameAddress) if noted_none => return Ok(()),
            (Some(reason), Sameness::OtherAddress) => {
                format!("namespace {}: {}; {addresses}", origin::NAMESPACE, reason.message)
            }
            (Some(reason), _) => {
                format!("namespace {}: {}; the server address is the same", origin::NAMESPACE, reason.message)
            }
            (None, _) => addresses,
        };
        if here.unread.as_ref().is_some_and(Unread::is_forbidden) {
            self.note_refusal();
        }
        self.warn(format!("cannot tell whether this is the same cluster: {reason}"));
        Ok(())
    }
}
