//! Why a request got no answer from an API server.

use std::error::Error;
use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use crate::redact;

/// A request that got no answer, or only part of one.
///
/// Displays as one line that says what, where and what to do; [`Unanswered::short`] is for a line
/// that already says where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// The address of the server, without credentials.
    pub server: String,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It took longer than `--request-timeout`, or than a connection may take to be made.
    TimedOut(Option<Duration>),
    Refused,
    /// The host has no address.
    NoSuchHost,
    /// The server closed the connection before it had answered.
    Cut,
    /// The server's certificate does not hold; says why.
    Certificate(String),
    /// The server is not using TLS.
    NotTls,
    /// The server does not accept plain HTTP, and so perhaps TLS.
    NotHttp,
    /// The proxy would not connect; says why.
    Proxy(String),
    Other(String),
}

impl Unanswered {
    /// Finds the reason in an error of the HTTP stack, which keeps it some causes deep.
    pub fn new(server: &str, error: &(dyn Error + 'static)) -> Unanswered {
        let chain =
            || std::iter::successors(Some(error), |e: &&(dyn Error + 'static)| (*e).source());
        if let Some(known) = chain().find_map(|e| e.downcast_ref::<Unanswered>()) {
            return known.clone();
        }
        let texts: Vec<String> = chain().map(|e| redact::text(&e.to_string())).collect();
        let says = |what: &str| texts.iter().any(|t| t.contains(what));
        let after = |what: &str| {
            texts
                .iter()
                .find_map(|t| t.split_once(what))
                .map(|(_, tail)| tail.trim_start_matches([':', ' ']).to_owned())
        };
        let io = chain().find_map(|e| e.downcast_ref::<std::io::Error>().map(|e| e.kind()));
        let why = if let Some(why) = after("invalid peer certificate") {
            Why::Certificate(why)
        } else if says("received corrupt message") {
            Why::NotTls
        } else if says("invalid HTTP version") {
            Why::NotHttp
        } else if let Some(why) = after("tunnel error").or_else(|| after("SOCKS error")) {
            Why::Proxy(why)
        } else if says("dns error") {
            Why::NoSuchHost
        } else if io == Some(ErrorKind::TimedOut) || says("deadline has elapsed") {
            Why::TimedOut(None)
        } else if io == Some(ErrorKind::ConnectionRefused) {
            Why::Refused
        } else if matches!(
            io,
            Some(
                ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
            )
        ) || says("before message completed")
            || says("end of file before message length reached")
        {
            Why::Cut
        } else {
            Why::Other(texts.last().cloned().unwrap_or_default())
        };
        Unanswered {
            server: server.to_owned(),
            why,
        }
    }

    /// What happened, in a few words.
    pub fn short(&self) -> String {
        match &self.why {
            Why::TimedOut(Some(limit)) => format!("timed out after {limit:?}"),
            Why::TimedOut(None) => "timed out".to_owned(),
            Why::Refused => "connection refused".to_owned(),
            Why::NoSuchHost => "no such host".to_owned(),
            Why::Cut => "the server closed the connection".to_owned(),
            Why::Certificate(why) => format!("certificate not trusted: {why}"),
            Why::NotTls => "the server is not using TLS".to_owned(),
            Why::NotHttp => "the server does not accept plain HTTP".to_owned(),
            Why::Proxy(why) => format!("the proxy would not connect: {why}"),
            Why::Other(why) => why.clone(),
        }
    }
}

impl Error for Unanswered {}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.server;
        match &self.why {
            Why::TimedOut(Some(limit)) => write!(
                f,
                "the API server at {server} did not answer within {limit:?}; check the network, or \
                 give it longer with --request-timeout"
            ),
            Why::TimedOut(None) => write!(
                f,
                "the API server at {server} did not answer in time; check the network, and that \
                 --context or --server names the right server"
            ),
            Why::Refused => write!(
                f,
                "cannot reach the API server at {server}: connection refused; check that it runs, \
                 and that --context or --server names the right server"
            ),
            Why::NoSuchHost => write!(
                f,
                "cannot reach the API server at {server}: no such host; check --server, the \
                 kubeconfig, and whether a VPN is needed"
            ),
            Why::Cut => write!(
                f,
                "the API server at {server} closed the connection before it had answered; try again"
            ),
            Why::Certificate(why)
                if why.contains("NotValidForName") || why.contains("not valid for name") =>
            {
                write!(
                    f,
                    "the certificate of the API server at {server} is for another name ({why}); check \
                 --server, or pass --tls-server-name"
                )
            }
            Why::Certificate(why) => write!(
                f,
                "the certificate of the API server at {server} is not trusted ({why}); check the \
                 kubeconfig's certificate-authority, or pass --certificate-authority"
            ),
            Why::NotTls => write!(
                f,
                "the server at {server} is not using TLS; check --server, or write http:// in it"
            ),
            Why::NotHttp => write!(
                f,
                "the server at {server} does not accept plain HTTP; check --server, or write https:// \
                 in it"
            ),
            Why::Proxy(why) => write!(
                f,
                "the proxy would not connect to the API server at {server}: {why}; check proxy-url \
                 in the kubeconfig, HTTPS_PROXY and NO_PROXY"
            ),
            Why::Other(why) => write!(f, "no answer from the API server at {server}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a cause, as the HTTP stack nests them.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Nested(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    fn the_reason_is_found_under_its_wrappers() {
        let io = |kind: ErrorKind| Box::new(std::io::Error::from(kind));
        let text = |text: &str| Box::new(std::io::Error::other(text.to_owned()));
        for (cause, why) in [
            (io(ErrorKind::ConnectionRefused), Why::Refused),
            (io(ErrorKind::ConnectionReset), Why::Cut),
            (io(ErrorKind::TimedOut), Why::TimedOut(None)),
            (text("dns error"), Why::NoSuchHost),
            (
                text("invalid peer certificate: Expired"),
                Why::Certificate("Expired".into()),
            ),
            (text("something else"), Why::Other("something else".into())),
        ] {
            let server = "https://host:6443".to_owned();
            let found = Unanswered::new(&server, &Nested(cause));
            assert_eq!(found, Unanswered { server, why });
        }
    }
}
