//! The names in a kubeconfig.

use std::collections::BTreeSet;

use super::kubeconfig;
use super::{Environment, Error};
use crate::args::connection::Connection;

/// The valid values of the connection flags, each list sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub contexts: Vec<String>,
    pub clusters: Vec<String>,
    pub users: Vec<String>,
    /// The namespaces of all contexts.
    pub namespaces: Vec<String>,
}

/// The names in the kubeconfig that the flags and the environment select; empty without a kubeconfig.
///
/// # Errors
///
/// A kubeconfig that is missing or cannot be read.
pub fn names(connection: &Connection) -> Result<Names, Error> {
    let environment = Environment::of_process();
    let found = kubeconfig::read(connection.kubeconfig.as_deref(), &environment)?;
    let Some(found) = found else {
        return Ok(Names::default());
    };
    let namespaces = found.contexts.iter().filter_map(|c| {
        let context = c.context.as_ref()?;
        context.namespace.clone().filter(|n| !n.is_empty())
    });
    let namespaces = sorted(namespaces);
    Ok(Names {
        namespaces,
        contexts: sorted(found.contexts.into_iter().map(|c| c.name)),
        clusters: sorted(found.clusters.into_iter().map(|c| c.name)),
        users: sorted(found.auth_infos.into_iter().map(|u| u.name)),
    })
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: BTreeSet<String> = names.collect();
    names.into_iter().collect()
}
