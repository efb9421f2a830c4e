//! The pieces of a cluster, as named in a capture. Each is read separately, and may fail separately.

use super::index::Source;
use crate::api::ApiFlavor;
use crate::cluster::ClusterBuilder;
use crate::cluster::read::Read;

/// The items of one piece, independent of their type.
pub trait SourceContent {
    fn count(&self) -> Read<usize>;
    /// Replaces the read result by the recorded one. Items in the file are kept if the recorded read
    /// succeeded, completely or in part.
    fn become_as(&mut self, was: Read<()>);
}

impl<T> SourceContent for Read<Vec<T>> {
    fn count(&self) -> Read<usize> {
        Read::count(self)
    }

    fn become_as(&mut self, was: Read<()>) {
        match (was, &mut *self) {
            // Items that cannot be decoded stay missing.
            (Read::Ok(()), Read::Ok(_) | Read::Incomplete(..))
            | (Read::Ok(()) | Read::Incomplete(..), Read::Unreadable(_)) => {}
            (Read::Ok(()), Read::NotRequested) => *self = Read::Ok(Vec::new()),
            (Read::Incomplete((), why), found) => {
                let items = found.available_mut().map(std::mem::take).unwrap_or_default();
                *self = Read::Incomplete(items, why);
            }
            (Read::Unreadable(why), _) => *self = Read::Unreadable(why),
            (Read::NotRequested, _) => *self = Read::NotRequested,
        }
    }
}

/// Name of the source with the pods on nodes that are to be drained. Read last.
pub const WORKLOADS: &str = "drained-pods";

pub const NAMESPACES: &str = "namespaces";
pub const LIMIT_RANGES: &str = "limit-ranges";
pub const QUOTAS: &str = "resource-quotas";
pub const ROLES: &str = "roles";

impl ClusterBuilder {
    /// Every piece, with its name and its files in a capture.
    pub fn pieces(&mut self) -> Vec<(&'static str, Vec<String>, &mut dyn SourceContent)> {
        let [old, new] = ApiFlavor::ALL;
        let policies = |flavor: ApiFlavor| format!("deploymentpolicies.{}", flavor.group());
        let [skyhooks, nodewrights] = &mut self.skyhooks;
        let [old_policies, new_policies] = &mut self.policies;
        let admission = &mut self.admission;
        let plain = |name: &str| vec![name.to_owned()];
        let webhooks = ["validating", "mutating"]
            .map(|kind| format!("{kind}webhookconfigurations.admissionregistration.k8s.io"));
        let rbac = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
            .map(|plural| format!("{plural}.rbac.authorization.k8s.io"));
        vec![
            (old.plural(), vec![old.resource()], skyhooks),
            (new.plural(), vec![new.resource()], nodewrights),
            ("skyhook-policies", vec![policies(old)], old_policies),
            ("nodewright-policies", vec![policies(new)], new_policies),
            ("operators", plain("deployments.apps"), &mut self.deployments),
            ("operator-pods", plain("pods"), &mut self.operator_pods),
            ("leases", plain("leases.coordination.k8s.io"), &mut self.installation.leases),
            (NAMESPACES, plain("namespaces"), &mut self.installation.namespaces),
            (LIMIT_RANGES, plain("limitranges"), &mut self.installation.limit_ranges),
            (QUOTAS, plain("resourcequotas"), &mut self.installation.quotas),
            (ROLES, rbac.to_vec(), &mut self.installation.roles),
            ("nodes", plain("nodes"), &mut self.nodes),
            ("package-pods", plain("pods"), &mut self.pods),
            (WORKLOADS, plain("pods"), &mut self.workloads),
            ("jobs", plain("jobs.batch"), &mut self.jobs),
            ("webhooks", webhooks.to_vec(), &mut admission.webhooks),
            ("services", plain("services"), &mut admission.services),
            ("endpoint-slices", plain("endpointslices.discovery.k8s.io"), &mut admission.endpoints),
            ("disruption-budgets", plain("poddisruptionbudgets.policy"), &mut self.disruption_budgets),
            ("config-maps", plain("configmaps"), &mut self.config_maps),
            ("node-metadata", plain("configmaps"), &mut self.node_metadata),
            ("events", plain("events"), &mut self.events),
        ]
    }

    /// The result for each piece.
    pub fn outcomes(&mut self) -> Vec<Source> {
        let pieces = self.pieces().into_iter();
        let outcomes = pieces.map(|(name, _, piece)| Source::of(name, &piece.count()));
        outcomes.collect()
    }

    /// Applies the recorded results. `lost` lists files missing from the capture.
    pub fn take_over(&mut self, sources: &[Source], lost: &[String]) {
        for (name, files, piece) in self.pieces() {
            let noted = |name: &str| sources.iter().find(|source| source.name == name);
            // Older captures record both kinds of ConfigMaps as one source.
            let older = || noted("config-maps").filter(|_| name == "node-metadata");
            let Some(source) = noted(name).or_else(older) else {
                continue;
            };
            let was = source.read();
            let gone = files.iter().find(|file| lost.contains(file));
            piece.become_as(match (was, gone) {
                (Read::Ok(()) | Read::Incomplete(..), Some(file)) => {
                    let why = format!("{file}.json is missing from the capture");
                    Read::Unreadable(why.into())
                }
                (was, _) => was,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Source as Kind;

    #[test]
    fn every_source_is_in_a_capture() {
        let mut builder = ClusterBuilder { served: ApiFlavor::ALL.to_vec(), ..ClusterBuilder::default() };
        let none = Read::Ok(0);
        let pieces = builder.pieces().into_iter().map(|(name, ..)| name);
        let empty: Vec<Source> = pieces.map(|name| Source::of(name, &none)).collect();
        builder.take_over(&empty, &[]);
        let active_api = builder.active_api().expect("both APIs are served");
        let cluster = builder.assemble(active_api);
        for source in Kind::ALL {
            assert_eq!(cluster.source(source), none, "{source}");
        }
    }
}
