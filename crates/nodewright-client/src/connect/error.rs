//! Errors before the first request, and errors of the transport.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::plain_reason;
use crate::redact;

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

    #[error(
        "the kubeconfig sets no current context; pass --context NAME; `kubectl config get-contexts` lists the names"
    )]
    NoContext,

    #[error("no {kind} {name:?} in the kubeconfig")]
    Unknown {
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        name: String,
        known: Vec<String>,
    },

    #[error("context {context:?} uses the {kind} {name:?}, which is not in the kubeconfig {files}")]
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
        let hints = match &error {
            Error::Unknown { kind, name, known } | Error::Dangling { kind, name, known, .. } => {
                Self::unknown_among(kind, name, known.iter().map(String::as_str)).hints
            }
            _ => Vec::new(),
        };
        Self { hints, ..Self::failed(error) }
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

/// A request without a complete response.
///
/// Displays as one line with reason, server and remedy; [`TransportError::short`] is for lines that already
/// name the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportError {
    /// The address of the server, without credentials.
    pub server: String,
    pub kind: TransportErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportErrorKind {
    /// The request exceeded `--request-timeout`, or the connection was not established in time.
    TimedOut(Option<Duration>),
    Refused,
    /// The host has no address.
    NoSuchHost,
    /// The server closed the connection before the response was complete.
    Cut,
    /// The server's certificate is invalid, for this reason.
    Certificate(String),
    /// The server is not using TLS.
    NotTls,
    /// The response is not HTTP/1.1: the server may need TLS, or accept only HTTP/2.
    NotHttp,
    /// The proxy refused the connection, for this reason.
    Proxy(String),
    Other(String),
}

impl TransportError {
    /// Finds the reason in the cause chain of an error of the HTTP stack.
    pub fn new(server: &str, error: &(dyn StdError + 'static)) -> TransportError {
        let chain = || std::iter::successors(Some(error), |e: &&(dyn StdError + 'static)| (*e).source());
        if let Some(known) = chain().find_map(|e| e.downcast_ref::<TransportError>()) {
            return known.clone();
        }
        let texts: Vec<String> = chain().map(|e| redact::text(&e.to_string())).collect();
        let mentions = |what: &str| texts.iter().any(|t| t.contains(what));
        let after = |what: &str| {
            texts
                .iter()
                .find_map(|t| t.split_once(what))
                .map(|(_, tail)| tail.trim_start_matches([':', ' ']).to_owned())
        };
        let io = chain().find_map(|e| e.downcast_ref::<std::io::Error>().map(|e| e.kind()));
        let kind = if let Some(why) = after("invalid peer certificate") {
            TransportErrorKind::Certificate(why)
        } else if mentions("received corrupt message") {
            TransportErrorKind::NotTls
        } else if mentions("invalid HTTP version")
            || mentions("NoApplicationProtocol")
            || mentions("unexpected message from connection")
        {
            TransportErrorKind::NotHttp
        } else if let Some(why) = after("tunnel error").or_else(|| after("SOCKS error")) {
            TransportErrorKind::Proxy(why)
        } else if mentions("dns error") {
            TransportErrorKind::NoSuchHost
        } else if io == Some(ErrorKind::TimedOut) || mentions("deadline has elapsed") {
            TransportErrorKind::TimedOut(None)
        } else if io == Some(ErrorKind::ConnectionRefused) {
            TransportErrorKind::Refused
        } else if matches!(
            io,
            Some(
                ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
            )
        ) || mentions("before message completed")
            || mentions("end of file before message length reached")
        {
            TransportErrorKind::Cut
        } else {
            TransportErrorKind::Other(texts.last().cloned().unwrap_or_default())
        };
        TransportError { server: server.to_owned(), kind }
    }

    /// Whether no server was reached. Other errors do not prove that: a proxy may cut off or time out one
    /// long response of a healthy server.
    pub fn is_unreachable(&self) -> bool {
        matches!(self.kind, TransportErrorKind::Refused | TransportErrorKind::NoSuchHost)
    }

    /// The reason in a few words, without server and remedy.
    pub fn short(&self) -> String {
        match &self.kind {
            TransportErrorKind::TimedOut(Some(limit)) => format!("timed out after {limit:?}"),
            TransportErrorKind::TimedOut(None) => "timed out".to_owned(),
            TransportErrorKind::Refused => "connection refused".to_owned(),
            TransportErrorKind::NoSuchHost => "no such host".to_owned(),
            TransportErrorKind::Cut => "the server closed the connection".to_owned(),
            TransportErrorKind::Certificate(why) => format!("certificate not trusted: {why}"),
            TransportErrorKind::NotTls => "the server is not using TLS".to_owned(),
            TransportErrorKind::NotHttp => "the server does not speak HTTP/1.1".to_owned(),
            TransportErrorKind::Proxy(why) => format!("the proxy refused to connect: {why}"),
            TransportErrorKind::Other(why) => why.clone(),
        }
    }
}

impl StdError for TransportError {}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        match &self.kind {
            TransportErrorKind::TimedOut(Some(limit)) => write!(
                f,
                "the API server at {server} did not answer within {limit:?}; check the network, or \
                 allow more time with --request-timeout"
            ),
            TransportErrorKind::TimedOut(None) => write!(
                f,
                "the API server at {server} did not answer in time; check the network, and that \
                 --context or --server names the right server"
            ),
            TransportErrorKind::Refused => write!(
                f,
                "cannot reach the API server at {server}: connection refused; check that it is running, \
                 and that --context or --server names the right server"
            ),
            TransportErrorKind::NoSuchHost => write!(
                f,
                "cannot reach the API server at {server}: no such host; check --server, the \
                 kubeconfig, and whether a VPN is needed"
            ),
            TransportErrorKind::Cut => {
                write!(f, "the API server at {server} closed the connection before it responded; try again")
            }
            TransportErrorKind::Certificate(why)
                if why.contains("NotValidForName") || why.contains("not valid for name") =>
            {
                write!(
                    f,
                    "the certificate of the API server at {server} is for another name ({why}); check \
                 --server, or pass --tls-server-name"
                )
            }
            TransportErrorKind::Certificate(why) => write!(
                f,
                "the certificate of the API server at {server} is not trusted ({why}); check the \
                 kubeconfig's certificate-authority, or pass --certificate-authority"
            ),
            TransportErrorKind::NotTls => {
                write!(f, "the server at {server} is not using TLS; check --server, or use an http:// URL")
            }
            TransportErrorKind::NotHttp => write!(
                f,
                "the server at {server} does not speak HTTP/1.1: it may need TLS or accept only HTTP/2; check \
                 --server, or use an https:// URL"
            ),
            TransportErrorKind::Proxy(why) => write!(
                f,
                "the proxy refused to connect to the API server at {server}: {why}; check proxy-url \
                 in the kubeconfig, HTTPS_PROXY and NO_PROXY"
            ),
            TransportErrorKind::Other(why) => {
                write!(f, "no response from the API server at {server}: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a cause, nested as by the HTTP stack.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Nested(#[source] Box<dyn StdError + Send + Sync>);

    #[test]
    fn the_reason_is_found_under_its_wrappers() {
        let io = |kind: ErrorKind| Box::new(std::io::Error::from(kind));
        let text = |text: &str| Box::new(std::io::Error::other(text.to_owned()));
        for (cause, kind) in [
            (io(ErrorKind::ConnectionRefused), TransportErrorKind::Refused),
            (io(ErrorKind::ConnectionReset), TransportErrorKind::Cut),
            (io(ErrorKind::TimedOut), TransportErrorKind::TimedOut(None)),
            (text("dns error"), TransportErrorKind::NoSuchHost),
            (text("invalid peer certificate: Expired"), TransportErrorKind::Certificate("Expired".into())),
            (text("something else"), TransportErrorKind::Other("something else".into())),
        ] {
            let server = "https://host:6443".to_owned();
            let found = TransportError::new(&server, &Nested(cause));
            assert_eq!(found, TransportError { server, kind });
        }
    }
}
