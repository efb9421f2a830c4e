//! From flags, environment and kubeconfig to a client (an edge).
//!
//! Kube's own inference is not used: it lets variables of the environment redirect a tool that
//! writes to clusters, and it retries for minutes.

mod client;
mod compression;
mod environment;
mod error;
mod kubeconfig;
mod names;
mod observed;
mod plugin;
mod request_policy;
mod target;
mod trace;
mod transport;
mod transport_error;
mod warnings;

use crate::args::connection::Connection;
pub use environment::Environment;
pub use error::Error;
pub use names::{Names, names};
pub use request_policy::{RETRIES, RequestPolicy, ServedBy, TimeLimit, retry_after, wait};
pub use target::Named;
use target::Target;
pub use trace::HttpTrace;
pub use transport_error::{TransportError, TransportErrorKind};
pub use warnings::Warnings;

/// A client and what belongs to it.
pub struct Connected {
    pub client: kube::Client,
    /// The address of the API server, for messages; without credentials.
    pub server: String,
    /// What the kubeconfig calls it.
    pub named: Named,
    /// What the server warns of while the client is in use. The edge prints it.
    pub warnings: Warnings,
    /// `--namespace`: where the user says the operator runs. Not the context's, which says nothing
    /// of the operator; that one is the client's default.
    pub namespace: Option<String>,
}

/// Makes a client for the cluster that flags, `KUBECONFIG` or `~/.kube/config` name, or, where
/// there is no kubeconfig at all, for the cluster that this process runs in.
///
/// `verb` says in the server's audit log what is being done. Nothing is asked of the server yet,
/// but a credential plugin is run. `trace` is told of every request. Must be called within a tokio runtime.
///
/// # Errors
///
/// A kubeconfig that is missing, unreadable, or names what is not there; flags that exclude each
/// other; credentials that cannot be read; a credential plugin that fails.
pub async fn connect(
    environment: &Environment,
    connection: &Connection,
    verb: &str,
    trace: Option<HttpTrace>,
) -> Result<Connected, Error> {
    let found = kubeconfig::read(connection.kubeconfig.as_deref(), environment)?;
    let target = match (found, &environment.in_cluster) {
        (Some(kubeconfig), _) => {
            let files = kubeconfig::looked_at(connection.kubeconfig.as_deref(), environment);
            Target::of(kubeconfig, &files, connection)?
        }
        (None, _) if connection.server.is_some() => Target::default(),
        (None, Some((host, port))) => Target::in_cluster(host, port),
        (None, None) => {
            return Err(Error::NoKubeconfig(kubeconfig::looked_at(
                None,
                environment,
            )));
        }
    };
    let target = target.with_flags(connection)?;
    client::client(target, environment, connection, verb, trace).await
}
