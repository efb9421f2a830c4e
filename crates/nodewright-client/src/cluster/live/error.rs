//! Errors that prevent reading a cluster at all.

use super::request::Failure;
use crate::api::ApiFlavor;
use crate::connect::TransportError;

/// Errors that prevent reading a cluster. Each is one line: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "the cluster serves neither {} nor {}, so the operator is not installed; install it, or \
         choose another cluster with --context",
        ApiFlavor::Skyhook.resource(),
        ApiFlavor::NodeWright.resource()
    )]
    NotServed,

    #[error(
        "--api is {asked_for}, but the cluster serves only {}; omit --api",
        asked_for.other().resource()
    )]
    AskedForAbsent { asked_for: ApiFlavor },

    #[error(
        "the API server{} does not accept the credentials (401 Unauthorized); log in again, or \
         check the kubeconfig's user and --token",
        at(.server)
    )]
    Unauthorized { server: Option<String> },

    #[error(transparent)]
    TransportError(#[from] TransportError),

    #[error("cannot get credentials: {0}")]
    Credentials(String),

    #[error("cannot discover the APIs of the server{}: {why}", at(.server))]
    Discovery { server: Option<String>, why: String },
}

impl From<LoadError> for crate::error::Error {
    fn from(error: LoadError) -> Self {
        Self::failed(error)
    }
}

impl LoadError {
    pub(super) fn discovery(failure: Failure) -> LoadError {
        match failure {
            Failure::Refused { code: 401, server, .. } => LoadError::Unauthorized { server },
            Failure::Refused { ref server, .. } => {
                LoadError::Discovery { server: server.clone(), why: failure.short() }
            }
            Failure::TransportError(error) => LoadError::TransportError(error),
            Failure::Credentials(why) => LoadError::Credentials(why),
            Failure::Malformed(why) => LoadError::Discovery { server: None, why },
        }
    }
}

fn at(server: &Option<String>) -> String {
    match server.as_deref() {
        Some(server) if !server.is_empty() => format!(" at {server}"),
        _ => String::new(),
    }
}
