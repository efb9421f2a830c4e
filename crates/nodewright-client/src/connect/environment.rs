//! Connection settings from the environment.

use std::ffi::OsString;
use std::path::PathBuf;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

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
