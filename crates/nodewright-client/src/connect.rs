//! (edge) Creates a client from flags, environment and kubeconfig.
//!
//! Kube's own inference is not used: it lets environment variables redirect the connection, and it retries
//! for minutes. This program writes to clusters.

mod client;
mod compression;
mod environment;
mod error;
mod kubeconfig;
mod kuberc;
mod names;
mod plugin;
mod request_policy;
mod server_clock;
mod target;
mod trace;
mod transport_error;
mod warnings;

use crate::args::connection::Connection;
pub use environment::Environment;
pub use error::Error;
pub use names::{Names, names};
pub use request_policy::{RETRIES, RequestPolicy, ServedBy, TimeLimit, retry_after, wait};
pub use server_clock::ServerClock;
pub use target::Named;
use target::Target;
pub use trace::HttpTrace;
pub use transport_error::{TransportError, TransportErrorKind};
pub use warnings::Warnings;

/// A client with its server address, kubeconfig names, warnings and clock.
pub struct Connected {
    pub client: kube::Client,
    /// The address of the API server, for messages; without credentials.
    pub server: String,
    /// The names of the used context and cluster in the kubeconfig.
    pub named: Named,
    /// The server's warnings, collected for printing while the client is in use.
    pub warnings: Warnings,
    pub clock: ServerClock,
    /// Whether a difference between the clocks was reported.
    pub reported_clock: bool,
    /// The operator's namespace from `--namespace`. Never the context's namespace, which is only the client's
    /// default.
    pub namespace: Option<String>,
}

/// Creates a client for the cluster that the flags, `KUBECONFIG` or `~/.kube/config` select; without a
/// kubeconfig, for the cluster of this pod.
///
/// `verb` identifies the command in the server's audit log. No request is sent yet, but a credential plugin
/// is run. `trace` receives every request. Must be called within a tokio runtime.
///
/// # Errors
///
/// Fails for a kubeconfig that is missing, unreadable, or has dangling names; for conflicting flags; for
/// credentials that cannot be read; and if a credential plugin fails.
pub async fn connect(
    environment: &Environment,
    connection: &Connection,
    verb: &str,
    trace: Option<HttpTrace>,
) -> Result<Connected, Error> {
    let found = kubeconfig::read(connection.kubeconfig.as_deref(), environment)?;
    let target = match (found, &environment.in_cluster) {
        (Some(kubeconfig), _) => {
            let files = kubeconfig::tried_paths(connection.kubeconfig.as_deref(), environment);
            Target::of(kubeconfig, &files, connection)?
        }
        (None, _) if connection.server.is_some() => Target::default(),
        (None, Some((host, port))) => Target::in_cluster(host, port),
        (None, None) => {
            return Err(Error::NoKubeconfig(kubeconfig::tried_paths(None, environment)));
        }
    };
    let target = target.with_flags(connection)?;
    client::client(target, environment, connection, verb, trace).await
}
