//! Builds the client: TLS, proxy, credentials, headers, compression.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, DATE, USER_AGENT, WARNING};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use kube::Config;
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt, DynBody, RustlsTlsError};
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, KubeconfigError, LoadDataError};
use regex::Regex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use tower::buffer::Buffer;
use tower::filter::AsyncFilterLayer;
use tower::layer::layer_fn;
use tower::util::{BoxService, option_layer};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::decompression::DecompressionLayer;

use super::error::{Error, unreadable, unsendable};
use super::kubeconfig::Target;
use super::trace::{HttpTrace, traced};
use super::{BoxedService, Connected, Environment, RequestPolicy, TimeLimit, plugin};
use crate::args::connection::Connection;
use crate::error::first_line;
use crate::redact;

/// Maximum number of queued requests.
const QUEUE: usize = 1024;

pub(super) async fn client(
    target: Target,
    environment: &Environment,
    connection: &Connection,
    verb: &str,
    trace: Option<HttpTrace>,
) -> Result<Connected, Error> {
    let named = target.named.clone();
    let mut config = config(target, environment)?;
    let agent = HeaderValue::from_str(&user_agent(verb)).expect("the user agent is ASCII");
    config.headers.push((USER_AGENT, agent));

    let server = redact::address(&config.cluster_url.to_string());
    let renewal = plugin::resolve(&mut config.auth_info, environment, connection.timeout()).await?;
    let warnings = Warnings::default();
    let clock = ServerClock::default();
    let request_policy = RequestPolicy {
        server: server.clone(),
        limit: match connection.timeout() {
            Some(time) => Some(TimeLimit::Whole(time)),
            None => connection.silence().map(TimeLimit::Silence),
        },
        warnings: warnings.clone(),
        clock: clock.clone(),
    };
    let compresses = !config.disable_compression;
    let uses_system_roots = config.root_cert.is_none();
    let client = match config.proxy_url {
        Some(_) => ClientBuilder::try_from(config),
        None => direct(&config),
    };
    let client = client
        .map_err(|error| match error {
            kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)) if uses_system_roots => {
                Error::NoSystemCertificates
            }
            error => explain(error),
        })?
        .with_layer(&layer_fn(|service| Buffer::new(service, QUEUE)))
        .with_layer(&option_layer(
            renewal.map(|renewal| AsyncFilterLayer::new(move |request| renewal.clone().authorize(request))),
        ))
        .with_layer(&layer_fn(move |service| uncompressed_if_near(service, compresses)))
        .with_layer(&layer_fn(|service| traced(service, server.clone(), trace.clone())))
        .with_layer(&layer_fn(|service| request_policy.clone().over(service)))
        .build();
    Ok(Connected {
        client,
        server,
        named,
        warnings,
        clock,
        reported_clock: false,
        namespace: connection.namespace.clone(),
    })
}

/// Builds kube's configuration field by field: kube's own handling of the proxy variables matches `NO_PROXY`
/// against the proxy instead of the server, and fails on a trailing comma.
fn config(target: Target, environment: &Environment) -> Result<Config, Error> {
    let Target { cluster, mut user, namespace, named: _ } = target;
    let has_tls = cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true)
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some();
    let server = cluster.server.clone().filter(|s| !s.is_empty()).ok_or(Error::NoServer)?;
    let uri = address(&server, has_tls)?;
    let for_plugin = ExecAuthCluster::try_from(&cluster).map_err(authority)?;
    let mut config = Config::new(uri);
    // Skip the system's root certificates when verification is off: a small container has none.
    let verifies =
        config.cluster_url.scheme() == Some(&Scheme::HTTPS) && cluster.insecure_skip_tls_verify != Some(true);
    config.root_cert = match &for_plugin.certificate_authority_data {
        Some(bundle) => Some(certificates(bundle)?),
        None if verifies => None,
        None => Some(Vec::new()),
    };
    config.proxy_url = proxy(&cluster, environment, &config.cluster_url)?;
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(for_plugin);
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify == Some(true);
    config.disable_compression = cluster.disable_compression == Some(true);
    config.tls_server_name = cluster.tls_server_name.filter(|name| !name.is_empty());
    settle_token(&mut user)?;
    check_impersonation(&user)?;
    config.auth_info = user;
    config.default_namespace = namespace.unwrap_or(config.default_namespace);
    config.default_retry = false;
    Ok(config)
}

/// Chooses the token. A readable file takes precedence over an inline token.
///
/// Kube sends the content of a token file unchanged, and a header cannot contain a line end: a token that
/// needs trimming is trimmed and set here. Other token files are left to kube, which reads them again when
/// the token changes.
fn settle_token(user: &mut AuthInfo) -> Result<(), Error> {
    if let Some(path) = &user.token_file {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                sendable("token file", text.trim())?;
                user.token = (text.trim() != text).then(|| SecretString::from(text.trim()));
            }
            Err(_) if user.token.is_some() => {}
            Err(error) => return Err(unreadable("token file", path.as_ref(), &error)),
        }
    }
    match &user.token {
        Some(token) => sendable("token", token.expose_secret()),
        None => Ok(()),
    }
}

/// Checks that the impersonated user and groups can be sent in headers.
fn check_impersonation(user: &AuthInfo) -> Result<(), Error> {
    let extra = user.impersonate_user_extra.iter().flatten();
    let names =
        user.impersonate.iter().chain(&user.impersonate_uid).chain(user.impersonate_groups.iter().flatten());
    for name in names.chain(extra.flat_map(|(_, values)| values)) {
        sendable("user to impersonate", name)?;
    }
    Ok(())
}

/// Rejects text that is not allowed in a header, such as line breaks.
fn sendable(what: &'static str, text: &str) -> Result<(), Error> {
    match HeaderValue::from_str(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(unsendable(what)),
    }
}

/// The address of a server; without a scheme, https if TLS is configured.
fn address(server: &str, has_tls: bool) -> Result<Uri, Error> {
    let spelled = match (server.contains("://"), has_tls) {
        (true, _) => server.to_owned(),
        (false, true) => format!("https://{server}"),
        (false, false) => format!("http://{server}"),
    };
    let uri: Option<Uri> = spelled.parse().ok();
    uri.filter(|uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")))
        .ok_or_else(|| Error::BadServer(redact::url(server)))
}

fn proxy(cluster: &Cluster, environment: &Environment, server: &Uri) -> Result<Option<Uri>, Error> {
    let named = cluster.proxy_url.clone().filter(|url| !url.is_empty());
    let Some(proxy) = named.or_else(|| environment.proxy(server)) else {
        return Ok(None);
    };
    let spelled = if proxy.contains("://") {
        proxy.replacen("socks5h://", "socks5://", 1)
    } else {
        format!("http://{proxy}")
    };
    let uri: Option<Uri> = spelled.parse().ok();
    uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5")))
        .ok_or_else(|| Error::BadProxy(redact::url(&proxy)))
        .map(Some)
}

fn certificates(bundle: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let bad = |why: &str| bad("certificate authority", why.to_owned());
    let blocks = pem::parse_many(bundle).map_err(|_| bad("it is not in PEM format"))?;
    let certificates: Vec<Vec<u8>> = blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(pem::Pem::into_contents)
        .collect();
    if certificates.is_empty() { Err(bad("it contains no certificate")) } else { Ok(certificates) }
}

/// The `User-Agent` value: `kubectl-skyhook/VERSION (os/arch) VERB`.
fn user_agent(verb: &str) -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let verb: String = verb.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
    let version = env!("CARGO_PKG_VERSION");
    format!("kubectl-skyhook/{version} ({os}/{arch}) {verb}").trim_end().to_owned()
}

fn authority(error: KubeconfigError) -> Error {
    match error {
        KubeconfigError::LoadCertificateAuthority(error) => load("certificate authority", &error),
        other => bad("certificate authority", other.to_string()),
    }
}

fn load(what: &'static str, error: &LoadDataError) -> Error {
    match error {
        LoadDataError::ReadFile(error, path) => unreadable(what, path, error),
        // The original message would quote a byte of the data.
        LoadDataError::DecodeBase64(_) => bad(what, "the data is not valid base64".to_owned()),
        LoadDataError::NoBase64DataOrFile => bad(what, "neither data nor a file is set".to_owned()),
    }
}

fn bad(what: &'static str, why: String) -> Error {
    Error::BadCredential { what, why }
}

/// Converts kube's error into ours.
fn explain(error: kube::Error) -> Error {
    match error {
        kube::Error::Auth(AuthError::ReadTokenFile(error, path)) => unreadable("token file", &path, &error),
        kube::Error::Auth(AuthError::InvalidBearerToken(_) | AuthError::InvalidBasicAuth(_)) => {
            unsendable("credentials")
        }
        kube::Error::InferKubeconfig(KubeconfigError::LoadClientCertificate(error)) => {
            load("client certificate", &error)
        }
        kube::Error::InferKubeconfig(KubeconfigError::LoadClientKey(error)) => load("client key", &error),
        kube::Error::RustlsTls(error) => bad("certificates", first_line(&error.to_string())),
        kube::Error::Auth(error) => bad("credentials", first_line(&error.to_string())),
        other => bad("connection settings", first_line(&other.to_string())),
    }
}

/// The service type `GenericService` of kube's client builder.
type KubeService = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client for a direct connection, without a proxy and without our own layers.
///
/// # Errors
///
/// Fails if certificates or headers cannot be used.
pub(super) fn direct(config: &Config) -> kube::Result<ClientBuilder<KubeService>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let gzip = DecompressionLayer::new().gzip(!config.disable_compression);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(gzip)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response| response.map(boxed))
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace.clone()))
}

fn boxed<B>(body: B) -> Box<DynBody>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    Box::new(body.map_err(Into::into))
}

/// Collects the server's warnings without duplicates until they are printed.
///
/// Clones share their warnings.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    seen: HashSet<String>,
    fresh: Vec<String>,
}

impl Warnings {
    /// The new warnings since the last call, in order. Each warning is returned only once.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// Reads the warnings of one response.
    pub(super) fn note(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            for warning in parse(&text) {
                self.say(warning);
            }
        }
    }

    /// Adds a warning of the client itself.
    pub(super) fn say(&self, warning: String) {
        let mut state = self.lock();
        if state.seen.insert(warning.clone()) {
            state.fresh.push(warning);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding the lock")
    }
}

/// The texts of one header: `299 AGENT "TEXT" ["DATE"]`, separated by commas.
///
/// Ignores malformed warnings and warnings with other codes, which are not from Kubernetes, as client-go
/// does.
fn parse(header: &str) -> Vec<String> {
    static WARNING: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"(?-u:\b)(?<code>[0-9]{3}) +\S+ +"(?<text>(?:[^"\\]|\\.)*)"(?: +"[^"]*")?"#;
        Regex::new(pattern).expect("the pattern is valid")
    });
    let ours = WARNING.captures_iter(header).filter(|warning| &warning["code"] == "299");
    ours.map(|warning| unescaped(&warning["text"])).filter(|text| !text.is_empty()).collect()
}

/// The text with escape sequences resolved, and without control characters.
fn unescaped(text: &str) -> String {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(.)").expect("the pattern is valid"));
    ESCAPE.replace_all(text, "$1").chars().filter(|c| !c.is_control()).collect()
}

/// The time in the newest response, and when the response was received. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct ServerClock(Arc<Mutex<Option<(Timestamp, Instant)>>>);

impl ServerClock {
    /// Reads the time of one response.
    pub(super) fn note(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| rfc2822::parse(date).ok()) {
            *self.lock() = Some((date.timestamp(), Instant::now()));
        }
    }

    /// Time by which the server's clock is ahead of this machine's clock, which shows `local`; `None` before
    /// the first response.
    pub fn ahead_of(&self, local: Timestamp) -> Option<SignedDuration> {
        let (date, received) = (*self.lock())?;
        let since = SignedDuration::try_from(received.elapsed()).ok()?;
        date.duration_since(local).checked_add(since)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Timestamp, Instant)>> {
        self.0.lock().expect("no thread panics while holding the lock")
    }
}

/// Maximum latency of a server that counts as near.
const NEAR: Duration = Duration::from_millis(20);

/// A service that requests uncompressed responses once the server has responded within [`NEAR`].
/// `compresses`: whether the client accepts compressed responses at all.
pub(super) fn uncompressed_if_near<S, B>(service: S, compresses: bool) -> BoxedService<B>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    let quickest = Arc::new(AtomicU64::new(u64::MAX));
    let send = move |mut request: Request<Body>| {
        let (service, quickest) = (service.clone(), quickest.clone());
        if compresses && Duration::from_micros(quickest.load(Ordering::Relaxed)) <= NEAR {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        async move {
            let start = Instant::now();
            let response = service.oneshot(request).await.map_err(Into::into)?;
            let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            quickest.fetch_min(micros, Ordering::Relaxed);
            Ok(response)
        }
    };
    service_fn(send).boxed_clone()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn headers_are_read_as_client_go_reads_them() {
        for (header, texts) in [
            (r#"299 - "a is deprecated""#, vec!["a is deprecated"]),
            (r#"299 - "say \"b\"" "Sun, 01 Jan 2026""#, vec![r#"say "b""#]),
            (r#"299 - "a", 299 apiserver "b""#, vec!["a", "b"]),
            (r#"199 - "other""#, vec![]),
            (r#"299 - "open"#, vec![]),
            ("", vec![]),
        ] {
            assert_eq!(parse(header), texts, "{header}");
        }
    }

    #[test]
    fn each_is_given_out_once() {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        headers.append(WARNING, r#"299 - "a""#.parse().expect("a header"));
        headers.append(WARNING, r#"299 - "b""#.parse().expect("a header"));
        warnings.note(&headers);
        warnings.note(&headers);
        assert_eq!(warnings.take(), ["a", "b"]);
        warnings.note(&headers);
        assert_eq!(warnings.take(), Vec::<String>::new());
    }

    /// Latencies are simulated: the clock is paused.
    #[tokio::test(start_paused = true)]
    async fn near_servers_are_asked_for_uncompressed_responses() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let latencies = Arc::new(Mutex::new(vec![
            Duration::from_millis(90),
            Duration::from_millis(3),
            Duration::from_millis(80),
        ]));
        let seen = asked.clone();
        let server = service_fn(move |request: Request<Body>| {
            let latency = latencies.lock().expect("no thread panics").pop().unwrap_or_default();
            let accepted =
                request.headers().get(ACCEPT_ENCODING).map(|value| value.to_str().expect("ASCII").to_owned());
            seen.lock().expect("no thread panics").push(accepted);
            async move {
                tokio::time::sleep(latency).await;
                Ok::<_, Infallible>(Response::new(()))
            }
        });
        let mut client = uncompressed_if_near(server, true);
        for _ in 0..3 {
            client.ready().await.expect("ready").call(Request::new(Body::empty())).await.expect("a response");
        }
        let identity = Some("identity".to_owned());
        assert_eq!(*asked.lock().expect("no thread panics"), [None, None, identity]);
    }
}
