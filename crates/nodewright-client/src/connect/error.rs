//! Errors before the first request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{near, plain_reason};

/// Why no client could be created, in one line with a remedy.
///
/// No message contains a token, a key or certificate data.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("no kubeconfig found at {0}; set KUBECONFIG, or pass --kubeconfig FILE")]
    NoKubeconfig(String),

    #[error("kubeconfig {} does not exist; check --kubeconfig", .0.display())]
    KubeconfigMissing(PathBuf),

    #[error("no file listed in KUBECONFIG exists: {0}; correct KUBECONFIG, or pass --kubeconfig FILE")]
    NoneExists(String),

    #[error("cannot read kubeconfig {}: {why}", path.display())]
    ReadKubeconfig { path: PathBuf, why: String },

    #[error("kubeconfig {} is not valid{}; correct it, or pass another with --kubeconfig", path.display(), at(*.line))]
    ParseKubeconfig { path: PathBuf, line: Option<u64> },

    #[error("the kubeconfig files cannot be merged: {0}")]
    Merge(String),

    #[error("the kubeconfig sets no current context; pass --context NAME{}", choices(.0))]
    NoContext(Vec<String>),

    #[error("no {kind} {name:?} in the kubeconfig{}", suggestion(kind, .name, .known))]
    Unknown {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        name: String,
        known: Vec<String>,
    },

    #[error("context {context:?} uses the {kind} {name:?}, which is not in the kubeconfig {files}{}", suggestion(kind, .name, .known))]
    Dangling {
        context: String,
        /// `cluster` or `user`.
        kind: &'static str,
        name: String,
        files: String,
        known: Vec<String>,
    },

    #[error("the cluster in the kubeconfig has no server address; add one, or pass --server URL")]
    NoServer,

    #[error("{0:?} is not a valid server address; expected a URL such as https://HOST:6443")]
    BadServer(String),

    #[error(
        "a certificate authority and --insecure-skip-tls-verify are mutually exclusive; use only one of them"
    )]
    InsecureWithAuthority,

    #[error(
        "this system has no CA certificates to verify the API server with; pass --certificate-authority, or install \
         the package ca-certificates"
    )]
    NoSystemCertificates,

    #[error("{given} also requires {missing}")]
    IncompleteClientCert { given: &'static str, missing: &'static str },

    #[error("impersonating a group, uid or extra field also requires a user; pass --as USER")]
    ImpersonationWithoutUser,

    #[error("cannot use the {what}: {why}")]
    BadCredential { what: &'static str, why: String },

    #[error("cannot use the proxy {0:?}; check proxy-url in the kubeconfig and HTTPS_PROXY")]
    BadProxy(String),

    #[error("credential plugin {command:?} is forbidden: {} sets credentialPluginPolicy to {policy}", path.display())]
    PluginForbidden { command: String, policy: String, path: PathBuf },

    #[error("cannot use {}: {why}", path.display())]
    KubercUnusable { path: PathBuf, why: String },

    #[error("credential plugin {command:?} could not be started: {why}{}", advice(.hint))]
    PluginMissing {
        command: String,
        why: String,
        /// The plugin's install hint in the kubeconfig.
        hint: String,
    },

    #[error(
        "credential plugin {command:?} did not finish within {limit:?}; run it manually to see why, or allow more time with \
         --request-timeout"
    )]
    PluginTimedOut { command: String, limit: Duration },

    #[error("credential plugin {command:?} failed: {why}; run it manually to see why")]
    PluginFailed { command: String, why: String },
}

impl From<Error> for crate::error::Error {
    fn from(error: Error) -> Self {
        Self::failed(error)
    }
}

fn at(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

fn advice(hint: &str) -> String {
    match hint.lines().map(str::trim).find(|l| !l.is_empty()) {
        Some(line) => format!("; {line}"),
        None => "; install it, or correct the user's exec command in the kubeconfig".to_owned(),
    }
}

fn choices(known: &[String]) -> String {
    const MANY: usize = 8;
    match known.len() {
        0 => String::new(),
        1..=MANY => format!(", one of: {}", known.join(", ")),
        more => format!(", one of: {} and {} more", known[..MANY].join(", "), more - MANY),
    }
}

fn suggestion(kind: &str, name: &str, known: &[String]) -> String {
    let near = near(name, known.iter().map(String::as_str));
    match (near.first(), known) {
        (Some(near), _) => format!("; did you mean {near:?}?"),
        (None, []) => format!("; there are no {kind}s"),
        (None, known) => format!("; available{}", choices(known).trim_start_matches(", one of")),
    }
}

/// The error for credentials that cannot be sent in a header.
pub(super) fn unsendable(what: &'static str) -> Error {
    Error::BadCredential {
        what,
        why: "it contains a line break or another character that is not allowed in an HTTP header".to_owned(),
    }
}

/// The error for a credential file that cannot be read.
pub(super) fn unreadable(what: &'static str, path: &Path, error: &std::io::Error) -> Error {
    Error::BadCredential { what, why: format!("{}: {}", path.display(), plain_reason(error)) }
}
