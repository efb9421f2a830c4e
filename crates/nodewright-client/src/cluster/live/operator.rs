//! Reads the operator's Deployments and their pods.

use std::collections::BTreeSet;

use super::decode::Listed;
use super::list::List;
use super::sources::{CORE, Reader, read};
use crate::api::ApiFlavor;
use crate::cluster::operator::MANAGER_LABEL;
use crate::cluster::{Deployment, Pod, Read};

const APPS: &str = "/apis/apps/v1";

impl Reader<'_> {
    /// Reads the Deployments with the manager label, of any operator. Without permission for all namespaces,
    /// reads only the charts' default namespaces and `--namespace`; there may be Deployments elsewhere. If
    /// none of these runs the operator, returns the refusal.
    pub async fn deployments(&self) -> Read<Vec<Deployment>> {
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let list = List::all(APPS, "deployments", "Deployment").labelled(&selector);
        let failure = match self.list(&list).await {
            Err(failure) if failure.is_forbidden() => failure,
            done => return read(done),
        };
        let likely = ApiFlavor::ALL.map(ApiFlavor::default_namespace);
        let likely: BTreeSet<&str> = likely.into_iter().chain(self.namespace).collect();
        let mut found: Listed<Deployment> = Listed::default();
        for namespace in likely {
            let list = List::inside(APPS, namespace, "deployments", "Deployment");
            let deployments = self.list(&list.labelled(&selector)).await;
            found.append(deployments.unwrap_or_default());
        }
        if found.items.iter().any(Deployment::runs_operator) {
            found.into()
        } else {
            Read::Unreadable(failure.into())
        }
    }

    /// Reads the pods with the manager label in the operator's known or given namespaces.
    pub async fn operator_pods(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Pod>> {
        let namespaces = self.operator_namespaces(operators);
        if namespaces.is_empty()
            && let Some(why) = operators.unread()
        {
            return Read::Unreadable(why.of("cannot tell where the operator runs"));
        }
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let lists: Vec<List> = namespaces
            .iter()
            .map(|namespace| List::inside(CORE, namespace, "pods", "Pod").labelled(&selector))
            .collect();
        read(self.all_of(&lists).await)
    }
}
