//! How the operator itself is read: its Deployments and their pods.

use std::collections::BTreeSet;

use super::list::List;
use super::sources::{CORE, Reader, read, unreadable};
use crate::api::ApiFlavor;
use crate::cluster::operator::MANAGER_LABEL;
use crate::cluster::{Deployment, Pod, Read};

const APPS: &str = "/apis/apps/v1";

impl Reader<'_> {
    /// The operator's Deployments. Without leave to read all namespaces those in which the charts
    /// install, and `--namespace`, are tried; what is not found there may be elsewhere.
    pub async fn deployments(&self) -> Read<Vec<Deployment>> {
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let list = List::all(APPS, "deployments", "deployment").labelled(&selector);
        let failure = match self.list(&list).await {
            Err(failure) if failure.is_forbidden() => failure,
            done => return read(done),
        };
        let likely = ApiFlavor::ALL.map(ApiFlavor::default_namespace);
        let likely: BTreeSet<&str> = likely.into_iter().chain(self.namespace).collect();
        let mut found: Vec<Deployment> = Vec::new();
        for namespace in likely {
            let list = List::inside(APPS, namespace, "deployments", "deployment");
            let deployments = self.list(&list.labelled(&selector)).await;
            found.extend(deployments.unwrap_or_default());
        }
        if found.iter().any(Deployment::runs_operator) {
            Read::Ok(found)
        } else {
            Read::Unreadable(failure.into())
        }
    }

    /// The pods with the manager label where the operator is known, or said, to run.
    pub async fn operator_pods(&self, operators: &Read<Vec<Deployment>>) -> Read<Vec<Pod>> {
        let namespaces = self.operator_namespaces(operators);
        if namespaces.is_empty()
            && let Some(why) = unreadable(operators)
        {
            return Read::Unreadable(why.of("cannot tell where the operator runs"));
        }
        let (key, value) = MANAGER_LABEL;
        let selector = format!("{key}={value}");
        let lists: Vec<List> = namespaces
            .iter()
            .map(|namespace| List::inside(CORE, namespace, "pods", "pod").labelled(&selector))
            .collect();
        read(self.all_of(&lists).await)
    }
}
