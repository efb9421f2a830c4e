//! The cluster and the user of a connection: the kubeconfig, overridden by flags.

use std::path::Path;

use kube::config::{AuthInfo, Cluster, Kubeconfig};

use super::error::Error;
use crate::args::connection::Connection;

/// The cluster to connect to, and the user's credentials.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub cluster: Cluster,
    pub user: AuthInfo,
    pub namespace: Option<String>,
    pub named: Named,
}

/// The names of the used context and cluster in the kubeconfig; `None` if none is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    pub context: Option<String>,
    pub cluster: Option<String>,
}

/// The directory with a pod's credentials for its own cluster.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Target {
    /// The target of the chosen context.
    ///
    /// A context with a missing user is an error, unless flags set credentials: it would connect anonymously,
    /// and the server would reject every request without a reason. `files` names the kubeconfig in messages.
    pub fn of(kubeconfig: Kubeconfig, files: &str, connection: &Connection) -> Result<Target, Error> {
        let contexts = || kubeconfig.contexts.iter();
        let chosen = connection
            .context
            .as_ref()
            .or(kubeconfig.current_context.as_ref())
            .filter(|name| !name.is_empty());
        let context = match chosen {
            Some(name) => {
                contexts().find(|c| &c.name == name).and_then(|c| c.context.clone()).ok_or_else(|| {
                    Error::Unknown {
                        kind: "context",
                        name: name.clone(),
                        known: contexts().map(|c| c.name.clone()).collect(),
                    }
                })?
            }
            None if connection.cluster.is_some() || connection.server.is_some() => {
                kube::config::Context::default()
            }
            None => {
                return Err(Error::NoContext(contexts().map(|c| c.name.clone()).collect()));
            }
        };
        let not_found = |kind, name: &str, by_flag: bool, known| match chosen {
            Some(context) if !by_flag => Error::Dangling {
                context: context.clone(),
                kind,
                name: name.to_owned(),
                files: files.to_owned(),
                known,
            },
            _ => Error::Unknown { kind, name: name.to_owned(), known },
        };
        let cluster = connection.cluster.as_deref().unwrap_or(&context.cluster);
        let clusters = || kubeconfig.clusters.iter();
        let found = clusters().find(|c| c.name == cluster).and_then(|c| c.cluster.clone());
        let named = Named { context: chosen.cloned(), cluster: found.is_some().then(|| cluster.to_owned()) };
        let nameless = cluster.is_empty() && connection.server.is_some();
        let cluster = match found {
            Some(found) => found,
            None if nameless => Cluster::default(),
            None => {
                let known = clusters().map(|c| c.name.clone()).collect();
                let by_flag = connection.cluster.is_some();
                return Err(not_found("cluster", cluster, by_flag, known));
            }
        };
        let users = || kubeconfig.auth_infos.iter();
        let user = connection.user.as_ref().or(context.user.as_ref());
        let found = users().find(|u| Some(&u.name) == user).and_then(|u| u.auth_info.clone());
        let user = match found {
            Some(found) => found,
            None => match user.filter(|name| !name.is_empty()) {
                Some(name) if connection.user.is_some() || !connection.authenticates() => {
                    let known = users().map(|u| u.name.clone()).collect();
                    return Err(not_found("user", name, connection.user.is_some(), known));
                }
                _ => AuthInfo::default(),
            },
        };
        Ok(Target { cluster, user, namespace: context.namespace, named })
    }

    /// The cluster that this process runs in, as the pod's service account.
    pub fn in_cluster(host: &str, port: &str) -> Target {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Target {
            cluster: Cluster {
                server: Some(format!("https://{host}:{port}")),
                certificate_authority: Some(format!("{SERVICE_ACCOUNT}/ca.crt")),
                ..Cluster::default()
            },
            user: AuthInfo { token_file: Some(format!("{SERVICE_ACCOUNT}/token")), ..AuthInfo::default() },
            namespace: None,
            named: Named::default(),
        }
    }

    /// Overrides the settings with the flags, as kubectl does.
    pub fn with_flags(mut self, connection: &Connection) -> Result<Target, Error> {
        self.lay_over_cluster(connection);
        self.lay_over_user(connection);
        self.check()?;
        Ok(self)
    }

    fn lay_over_cluster(&mut self, flags: &Connection) {
        let cluster = &mut self.cluster;
        let insecure = flags.insecure_skip_tls_verify;
        // Either of these flags replaces the kubeconfig's CA and its setting for verifying the server.
        if insecure == Some(true) || flags.certificate_authority.is_some() {
            cluster.insecure_skip_tls_verify = insecure;
            cluster.certificate_authority = flags.certificate_authority.as_deref().map(spell);
            cluster.certificate_authority_data = None;
        } else if insecure.is_some() {
            cluster.insecure_skip_tls_verify = insecure;
        }
        // The kubeconfig's TLS server name belongs to the kubeconfig's server.
        if flags.server.is_some() || flags.tls_server_name.is_some() {
            cluster.tls_server_name.clone_from(&flags.tls_server_name);
        }
        if flags.server.is_some() {
            cluster.server.clone_from(&flags.server);
        }
        if flags.disable_compression.is_some() {
            cluster.disable_compression = flags.disable_compression;
        }
        if flags.namespace.is_some() {
            self.namespace.clone_from(&flags.namespace);
        }
    }

    fn lay_over_user(&mut self, flags: &Connection) {
        let user = &mut self.user;
        if let Some(token) = &flags.token {
            // A token flag replaces all other credentials except client certificates.
            user.token = Some(token.clone());
            user.token_file = None;
            user.username = None;
            user.password = None;
            user.exec = None;
            user.auth_provider = None;
        }
        if let Some(path) = &flags.client_certificate {
            user.client_certificate = Some(spell(path));
            user.client_certificate_data = None;
        }
        if let Some(path) = &flags.client_key {
            user.client_key = Some(spell(path));
            user.client_key_data = None;
        }
        if flags.impersonate.is_some() {
            user.impersonate.clone_from(&flags.impersonate);
        }
        if flags.impersonate_uid.is_some() {
            user.impersonate_uid.clone_from(&flags.impersonate_uid);
        }
        if !flags.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(flags.impersonate_groups.clone());
        }
        if !flags.impersonate_extra.is_empty() {
            let extra = user.impersonate_user_extra.insert(Default::default());
            for (key, value) in &flags.impersonate_extra {
                let values: &mut Vec<String> = extra.entry(key.clone()).or_default();
                values.push(value.clone());
            }
        }
    }

    /// Checks combinations of settings, from flags or files.
    fn check(&self) -> Result<(), Error> {
        let (cluster, user) = (&self.cluster, &self.user);
        let insecure = cluster.insecure_skip_tls_verify == Some(true);
        let authority =
            cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        if insecure && authority {
            return Err(Error::InsecureWithAuthority);
        }
        let certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
        let key = user.client_key.is_some() || user.client_key_data.is_some();
        let half = |given, missing| Err(Error::IncompleteClientCert { given, missing });
        match (certificate, key) {
            (true, false) => return half("a client certificate", "--client-key"),
            (false, true) => return half("a client key", "--client-certificate"),
            _ => {}
        }
        let nobody = user.impersonate.as_deref().unwrap_or_default().is_empty();
        let something = user.impersonate_uid.is_some()
            || user.impersonate_groups.as_ref().is_some_and(|g| !g.is_empty())
            || user.impersonate_user_extra.as_ref().is_some_and(|e| !e.is_empty());
        if nobody && something {
            return Err(Error::ImpersonationWithoutUser);
        }
        Ok(())
    }
}

fn spell(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
