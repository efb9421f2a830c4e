//! Pods that have the labels of package pods but are outside of the operator's namespaces, where no watch
//! covers them.

use std::collections::HashSet;

use super::Follow;
use super::kept::WatchedObject;
use crate::api::ApiFlavor;
use crate::cluster::live::sources::{Reader, labelled, read};
use crate::cluster::{Cluster, Deployment, Pod, Read};

impl Reader<'_> {
    /// Reads the stray pods, if the cluster's pods were read and the operator processes stray pods. Only the
    /// older operator does.
    pub async fn stray_pods(&self, before: &Cluster, operators: &Read<Vec<Deployment>>) -> Read<Vec<Pod>> {
        let namespaces = self.operator_namespaces(operators);
        let looks = before.flavor() == ApiFlavor::Skyhook && before.pods.ok().is_some();
        if namespaces.is_empty() || !looks {
            return Read::NotRequested;
        }
        let elsewhere = namespaces.iter().map(|n| format!("metadata.namespace!={n}"));
        let elsewhere: Vec<String> = elsewhere.collect();
        let pods = Self::all_pods().with_fields(&elsewhere.join(","));
        let labels = self.package_labels(&self.served);
        read(self.all_of(&labelled(&pods, &labels)).await)
    }
}

impl Follow {
    /// Replaces the stray pods of the last read. Keeps them if the new read failed.
    pub(super) fn take_strays(&mut self, strays: Read<Vec<Pod>>) {
        if let Read::Ok(strays) = strays {
            self.remove_strays();
            self.strays = strays;
        }
    }

    /// Adds the stray pods to the watched pods.
    pub(super) fn add_strays(&mut self) {
        self.remove_strays();
        if let Read::Ok(pods) = &mut self.cluster.pods {
            pods.extend(self.strays.iter().cloned());
        }
    }

    fn remove_strays(&mut self) {
        if let Read::Ok(pods) = &mut self.cluster.pods
            && !self.strays.is_empty()
        {
            let ids: HashSet<_> = self.strays.iter().map(WatchedObject::id).collect();
            pods.retain(|pod| !ids.contains(&pod.id()));
        }
    }
}
