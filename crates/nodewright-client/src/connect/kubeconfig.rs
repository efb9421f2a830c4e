//! Finds, reads and merges kubeconfig files, as kubectl does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret, SecretString};

use super::{Error, kubeconfig};
use crate::args::connection::Connection;
use crate::bounded::{self, Excess, MOST_KUBECONFIG};

/// The kubeconfig that the flag or the environment selects; `None` if no kubeconfig exists.
///
/// `--kubeconfig` names one file, which must exist. `KUBECONFIG` is a list of files, at least one of which
/// must exist: connecting to another cluster than the intended one would be worse than an error.
pub(super) fn read(flag: Option<&Path>, environment: &Environment) -> Result<Option<Kubeconfig>, Error> {
    if let Some(path) = flag {
        let missing = || Error::KubeconfigMissing(path.to_owned());
        return read_file(path)?.ok_or_else(missing).map(Some);
    }
    let paths = environment_paths(environment);
    if paths.is_empty() {
        return match default_path(environment) {
            Some(path) => read_file(&path),
            None => Ok(None),
        };
    }
    let mut merged: Option<Kubeconfig> = None;
    for path in &paths {
        let Some(config) = read_file(path)? else {
            continue;
        };
        merged = Some(match merged {
            Some(first) => first.merge(config).map_err(|e| Error::Merge(e.to_string()))?,
            None => config,
        });
    }
    let none = || Error::NoneExists(spell(&paths));
    merged.ok_or_else(none).map(Some)
}

/// The paths of the kubeconfig files that were tried, for messages.
pub(super) fn tried_paths(flag: Option<&Path>, environment: &Environment) -> String {
    if let Some(path) = flag {
        return path.display().to_string();
    }
    let paths = environment_paths(environment);
    match default_path(environment) {
        _ if !paths.is_empty() => spell(&paths),
        Some(path) => path.display().to_string(),
        None => "~/.kube/config".to_owned(),
    }
}

fn environment_paths(environment: &Environment) -> Vec<PathBuf> {
    let list = environment.kubeconfig.clone().unwrap_or_default();
    std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn default_path(environment: &Environment) -> Option<PathBuf> {
    let home = environment.home.as_deref()?;
    Some(home.join(".kube").join("config"))
}

fn spell(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
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
    let clusters = config.clusters.iter_mut();
    for cluster in clusters.filter_map(|named| named.cluster.as_mut()) {
        drop(&mut cluster.server);
        drop(&mut cluster.certificate_authority_data);
        drop_path(&mut cluster.certificate_authority);
    }
    let users = config.auth_infos.iter_mut();
    for user in users.filter_map(|named| named.auth_info.as_mut()) {
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
    pub fn of_process() -> Environment {
        let text = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let either = |upper: &str| text(upper).or_else(|| text(&upper.to_lowercase()));
        Environment {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            kuberc: std::env::var_os("KUBERC").filter(|path| !path.is_empty()),
            path: std::env::var_os("PATH"),
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
