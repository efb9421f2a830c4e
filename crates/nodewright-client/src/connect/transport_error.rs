//! Errors of requests without a response from an API server.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use crate::redact;

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
    pub fn new(server: &str, error: &(dyn Error + 'static)) -> TransportError {
        let chain = || std::iter::successors(Some(error), |e: &&(dyn Error + 'static)| (*e).source());
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

impl Error for TransportError {}

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
            TransportErrorKind::NotHttp if server.starts_with("https:") => write!(
                f,
                "the server at {server} does not speak HTTP/1.1: it may accept only HTTP/2; check --server"
            ),
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
    struct Nested(#[source] Box<dyn Error + Send + Sync>);

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
