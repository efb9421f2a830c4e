//! Identity of the cluster: printed before a change, recorded in the journal, and compared before a saved plan is
//! applied.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Ctx;
use crate::apply::{Options, preflight, refusal, unmet};
use crate::cluster::installation::{Definition, Installation};
use crate::cluster::live::{self, installation};
use crate::cluster::{Cluster, Read, Source, Unread};
use crate::error::{Error, Result};
use crate::model::waiting_for_drain;
use crate::plan::{Baseline, ClusterIdentity, Destination, Plan, Refusal, Sameness, Target};

pub use crate::apply::PermissionCheck;

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
        let (uid, unread) = match live::uid(&client).await {
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
            return Err(Refusal::OtherCluster {
                what: what.to_owned(),
                namespace: live::NAMESPACE.to_owned(),
                there: uid(then),
                server_there: then.server.clone(),
                here: uid(&here.origin),
                server: here.origin.server.clone(),
            }
            .into());
        }
        if sameness == Sameness::Same {
            return Ok(());
        }
        // Older versions recorded no uid: compare the address alone.
        let noted_none = then.uid.is_none() && here.unread.is_none();
        let reason = match (&here.unread, sameness) {
            (_, Sameness::SameAddress) if noted_none => return Ok(()),
            (Some(reason), Sameness::OtherAddress) => {
                format!("namespace {}: {}; {addresses}", live::NAMESPACE, reason.message)
            }
            (Some(reason), _) => {
                format!("namespace {}: {}; the server address is the same", live::NAMESPACE, reason.message)
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

impl Ctx {
    /// Server version, CRDs and leases, read from the server or taken from the files.
    pub async fn installation(&self, cluster: &Cluster) -> Installation {
        match self.client() {
            Some(client) => installation::read(&client, cluster).await,
            None => cluster.installation.clone(),
        }
    }

    /// The CRDs of both APIs, read from the server or taken from the files.
    pub async fn definitions(&self, cluster: &Cluster) -> Read<Vec<Definition>> {
        match self.client() {
            Some(client) => installation::definitions(&client).await,
            None => cluster.installation.definitions.clone(),
        }
    }

    /// Reads the workload pods on these nodes, and on nodes that wait for a drain, into the cluster. No effect on
    /// files, or if a load has read the latter and the former cannot be read.
    pub async fn read_workloads(&self, cluster: &mut Cluster, nodes: BTreeSet<String>) {
        let Some(client) = self.client().filter(|_| !nodes.is_empty()) else {
            return;
        };
        let waiting = waiting_for_drain(cluster);
        let loaded = cluster.workloads.ok().is_some();
        let known = |node: &str| loaded && (waiting.contains(&node) || cluster.workloads_on.contains(node));
        let wanted = nodes.iter().map(String::as_str).chain(waiting.iter().copied());
        let unknown: BTreeSet<&str> = wanted.filter(|node| !known(node)).collect();
        let unknown: Vec<&str> = unknown.into_iter().collect();
        let mut workloads = live::workloads(&client, cluster, &unknown).await;
        if let Some(known) = cluster.workloads.ok() {
            let Some(all) = workloads.available_mut() else { return };
            all.extend(known.iter().cloned());
        }
        cluster.workloads = workloads;
        cluster.workloads_on.extend(nodes);
    }

    /// Adds the effects and the preconditions of a plan. Evicted pods and refusing budgets are read only if the plan drains nodes, and not
    /// from files.
    pub async fn forecast(&self, cluster: &Cluster, plan: &mut Plan) {
        plan.forecast(&Baseline::of(cluster));
        plan.rely_on(cluster);
        // A load has read the pods of nodes that wait for a drain, and no others.
        let nodes: BTreeSet<String> =
            plan.consequences.rollouts.iter().flat_map(|rollout| rollout.cordoned.clone()).collect();
        let Some(client) = self.client().filter(|_| !nodes.is_empty()) else {
            return;
        };
        let mut cluster = cluster.clone();
        let budgets = live::disruption_budgets(&client).await;
        cluster.disruption_budgets = budgets;
        self.read_workloads(&mut cluster, nodes).await;
        plan.forecast(&Baseline::of(&cluster));
        for (source, lost) in [
            (Source::Workloads, "evicted pods are not counted"),
            (Source::DisruptionBudgets, "refused evictions are not shown"),
        ] {
            if let Some(why) = cluster.source(source).unread() {
                let warning = format!("{source} cannot be read ({why}): {lost}");
                plan.consequences.warn(warning);
            }
        }
    }

    /// Why the server refuses a manifest in a dry run; `Ok(None)` if it accepts the manifest, or for files.
    pub async fn refusal(
        &self,
        target: &Target,
        manifest: &Value,
    ) -> std::result::Result<Option<String>, String> {
        match self.client() {
            Some(client) => {
                let options = Options::of_connection(&self.global.connection);
                refusal(&client, &options, target, manifest).await
            }
            None => Ok(None),
        }
    }

    /// Whether a Secret exists, without reading its data; `NotRequested` for files.
    pub async fn has_secret(&self, namespace: &str, name: &str) -> Read<bool> {
        match self.client() {
            Some(client) => installation::has_secret(&client, namespace, name).await,
            None => Read::NotRequested,
        }
    }

    /// The keys of a ConfigMap, `None` if it does not exist; `NotRequested` for files.
    pub async fn config_map_keys(&self, namespace: &str, name: &str) -> Read<Option<Vec<String>>> {
        match self.client() {
            Some(client) => installation::config_map_keys(&client, namespace, name).await,
            None => Read::NotRequested,
        }
    }

    /// The installation with the CRDs and cluster roles that a removed operator left; unchanged if an operator exists.
    pub async fn remains(&self, cluster: &Cluster) -> Installation {
        match self.client().filter(|_| cluster.operator().is_gone()) {
            Some(client) => installation::remains(&client).await,
            None => cluster.installation.clone(),
        }
    }

    /// Missing permissions for a plan that is not applied; `None` for files. Posts access reviews, which change
    /// nothing.
    pub async fn may_change(&self, plan: &Plan) -> Option<PermissionCheck> {
        let client = self.client()?;
        let options = Options::of_connection(&self.global.connection);
        Some(preflight(&client, plan, &options).await)
    }

    /// Why a precondition of the plan is not met; `None` if all are.
    ///
    /// # Errors
    ///
    /// The precondition could not be checked.
    pub async fn unmet(&mut self, plan: &Plan) -> Result<Option<String>> {
        let options = Options { holder: String::new(), ..Options::of_connection(&self.global.connection) };
        let client = self.connected_client().await?;
        let unmet = unmet(&client, plan, &options).await;
        unmet.map_err(|why| Error::failed(format!("{why}; nothing was changed")))
    }
}
