//! Finds, reads and merges kubeconfig files as kubectl does, and selects the cluster and the user.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret, SecretString};

use super::error::Error;
use crate::args::connection::Connection;
use crate::bounded::{self, Excess, MOST_KUBECONFIG};
use crate::text::Joined;

/// The kubeconfig that the flag or the environment selects; `None` if no kubeconfig exists.
///
/// `--kubeconfig` names one file, which must exist. `KUBECONFIG` is a list of files, at least one of which
/// must exist: connecting to another cluster than the intended one would be worse than an error.
pub(super) fn read(flag: Option<&Path>, environment: &Environment) -> Result<Option<Kubeconfig>, Error> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths(flag, environment) {
        let Some(config) = read_file(&path)? else {
            continue;
        };
        merged = Some(match merged {
            Some(first) => first.merge(config).map_err(|e| Error::Merge(e.to_string()))?,
            None => config,
        });
    }
    match (merged, flag) {
        (None, Some(flag)) => Err(Error::KubeconfigMissing(flag.to_owned())),
        (None, None) if !listed_paths(environment).is_empty() => {
            Err(Error::NoneExists(tried_paths(None, environment)))
        }
        (merged, _) => Ok(merged),
    }
}

/// The paths of the kubeconfig files that were tried, for messages.
pub(super) fn tried_paths(flag: Option<&Path>, environment: &Environment) -> String {
    match paths(flag, environment).as_slice() {
        [] => "~/.kube/config".to_owned(),
        paths => paths.iter().map(|p| p.display().to_string()).joined(", "),
    }
}

/// The file of the flag, else those of `KUBECONFIG`, else the default.
fn paths(flag: Option<&Path>, environment: &Environment) -> Vec<PathBuf> {
    match (flag, listed_paths(environment)) {
        (Some(flag), _) => vec![flag.to_owned()],
        (None, listed) if !listed.is_empty() => listed,
        _ => environment.home.iter().map(|home| home.join(".kube/config")).collect(),
    }
}

/// The files in `KUBECONFIG`.
fn listed_paths(environment: &Environment) -> Vec<PathBuf> {
    let list = environment.kubeconfig.clone().unwrap_or_default();
    std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Reads one file up to the size limit. A pipe can be read only once, so relative paths in it are not
/// resolved.
fn read_bounded(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let unreadable = |error| KubeconfigError::ReadConfig(error, path.to_owned());
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        let file = bounded::open(path).map_err(unreadable)?;
        let bytes = bounded::read(file, MOST_KUBECONFIG).map_err(unreadable)?;
        return Kubeconfig::from_yaml(&String::from_utf8_lossy(&bytes));
    }
    if metadata.len() > MOST_KUBECONFIG {
        Err(unreadable(Excess::Bytes(MOST_KUBECONFIG).into()))
    } else {
        Kubeconfig::read_from(path)
    }
}

/// Reads one file; `None` if it does not exist.
fn read_file(path: &Path) -> Result<Option<Kubeconfig>, Error> {
    match read_bounded(path) {
        Ok(config) => Ok(Some(without_empty(config, path))),
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(KubeconfigError::ReadConfig(error, _)) => {
            Err(Error::ReadKubeconfig { path: path.to_owned(), why: crate::error::plain_reason(&error) })
        }
        // Drop the parser's message: it quotes the file, which may contain a token.
        Err(KubeconfigError::Parse(error)) => {
            Err(Error::ParseKubeconfig { path: path.to_owned(), line: error.location().map(|at| at.line()) })
        }
        Err(_) => Err(Error::ParseKubeconfig { path: path.to_owned(), line: None }),
    }
}

/// Removes empty values: kubectl treats an empty value as unset.
fn without_empty(mut config: Kubeconfig, file: &Path) -> Kubeconfig {
    let drop = |value: &mut Option<String>| {
        value.take_if(|text| text.is_empty());
    };
    // Relative file names are already resolved against the kubeconfig's directory: an empty file name has
    // become that directory.
    let drop_path = |value: &mut Option<String>| {
        value.take_if(|path| path.is_empty() || Some(Path::new(path)) == file.parent());
    };
    let drop_secret = |value: &mut Option<SecretString>| {
        value.take_if(|secret| secret.expose_secret().is_empty());
    };
    drop(&mut config.current_context);
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        drop(&mut cluster.server);
        drop(&mut cluster.certificate_authority_data);
        drop_path(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        drop_secret(&mut user.token);
        drop_path(&mut user.token_file);
        drop(&mut user.client_certificate_data);
        drop_path(&mut user.client_certificate);
        drop_secret(&mut user.client_key_data);
        drop_path(&mut user.client_key);
        drop(&mut user.username);
        drop_secret(&mut user.password);
        drop(&mut user.impersonate);
        drop(&mut user.impersonate_uid);
    }
    config
}

/// The environment variables that determine the cluster and the proxy.
///
/// `connect` reads the environment only here; the values are passed on.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `KUBECONFIG`, a list of files.
    pub kubeconfig: Option<OsString>,
    pub home: Option<PathBuf>,
    /// `KUBERC`, the file with kubectl's preferences.
    pub kuberc: Option<OsString>,
    /// `PATH`.
    pub path: Option<OsString>,
    pub http_proxy: Option<String>,
    pub https_proxy: Option<String>,
    pub no_proxy: Option<String>,
    /// Host and port of the API server, if this process runs in a pod.
    pub in_cluster: Option<(String, String)>,
}

impl Environment {
    /// The environment with these variables.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Environment {
        let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| filled(name)?.into_string().ok();
        let either = |upper: &str| text(upper).or_else(|| text(&upper.to_lowercase()));
        Environment {
            kubeconfig: variable("KUBECONFIG"),
            home: filled("HOME").map(PathBuf::from).or_else(std::env::home_dir),
            kuberc: filled("KUBERC"),
            path: variable("PATH"),
            http_proxy: either("HTTP_PROXY"),
            https_proxy: either("HTTPS_PROXY"),
            no_proxy: either("NO_PROXY"),
            in_cluster: text("KUBERNETES_SERVICE_HOST").zip(text("KUBERNETES_SERVICE_PORT")),
        }
    }

    /// The proxy for a server, chosen as by Go's HTTP library.
    ///
    /// Loopback addresses and `localhost` never have a proxy.
    pub(super) fn proxy(&self, server: &Uri) -> Option<String> {
        let proxy = match server.scheme_str() {
            Some("https") => self.https_proxy.as_ref()?,
            _ => self.http_proxy.as_ref()?,
        };
        let host = server.host()?.trim_matches(['[', ']']);
        let loopback = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        if loopback || host == "localhost" {
            return None;
        }
        // Use the matcher only to find out whether to use a proxy: it would silently ignore an invalid proxy
        // address.
        let matcher =
            Matcher::builder().all("http://proxy").no(self.no_proxy.as_deref().unwrap_or_default()).build();
        matcher.intercept(server)?;
        Some(proxy.clone())
    }
}

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
pub fn names(environment: &Environment, connection: &Connection) -> Result<Names, Error> {
    let found = read(connection.kubeconfig.as_deref(), environment)?;
    let Some(found) = found else {
        return Ok(Names::default());
    };
    let namespaces =
        found.contexts.iter().filter_map(|c| c.context.as_ref()?.namespace.clone().filter(|n| !n.is_empty()));
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
            None if connection.cluster.is_some() || connection.server.is_some() => Context::default(),
            None => return Err(Error::NoContext),
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
            cluster.certificate_authority = flags.certificate_authority.as_deref().map(path_text);
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
            user.client_certificate = Some(path_text(path));
            user.client_certificate_data = None;
        }
        if let Some(path) = &flags.client_key {
            user.client_key = Some(path_text(path));
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

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_decides_whether_a_proxy_is_taken() {
        let environment = Environment {
            https_proxy: Some("http://proxy:3128".into()),
            no_proxy: Some("10.0.0.0/8,.corp,".into()),
            ..Environment::default()
        };
        for (server, proxied) in [
            ("https://k8s.example.com:6443", true),
            ("https://api.corp:6443", false),
            ("https://10.1.2.3:6443", false),
            ("https://127.0.0.1:6443", false),
            ("https://[::1]:6443", false),
            ("https://localhost:6443", false),
            ("http://k8s.example.com", false),
        ] {
            let uri = server.parse().expect("a URI");
            assert_eq!(environment.proxy(&uri).is_some(), proxied, "{server}");
        }
    }
}
