//! A minimal client: it requests lists and discards the responses.

use std::{fs::File, io::Read, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use http::{Request, header};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
    config::AuthInfo,
};
use tower::ServiceBuilder;

/// First argument that starts this program as the bare client.
pub const MODE: &str = "bench-bare";
pub const SERVER: &str = "KUBECTL_SKYHOOK_BENCH_SERVER";
/// Environment variable with the path of the server's CA certificate.
pub const AUTHORITY: &str = "KUBECTL_SKYHOOK_BENCH_AUTHORITY";
/// Items per page, as in kubectl.
const PAGE: usize = 500;
/// The default concurrency of our commands.
const IN_FLIGHT: usize = 32;
/// First bytes of every `continue` token: JSON in base64. In both encodings the token precedes the items.
const TOKEN_BEGINS: &[u8] = b"eyJ2Ijoi";
const HEAD: usize = 4096;

/// Interval at which a kubelet sends its node's status if nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Runs `list PATH ACCEPT`, `get PATH ACCEPT`, `patch NODE...`, `heartbeats SECONDS NODE...` or `read FILE`.
pub fn client(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["read", file] = words.as_slice() {
        return read(file);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect()?;
        match words.as_slice() {
            ["list", path, accept] => list(&client, path, accept).await,
            ["get", path, accept] => get(&client, path, accept).await.map(|_| ()),
            ["patch", nodes @ ..] => patch(&client, nodes).await,
            ["heartbeats", seconds, nodes @ ..] => {
                heartbeats(&client, Duration::from_secs(seconds.parse()?), nodes).await
            }
            _ => bail!("no such thing to do: {words:?}"),
        }
    })
}

fn connect() -> Result<Client> {
    let mut config = Config::new(std::env::var(SERVER)?.parse()?);
    let authority = std::fs::read(std::env::var(AUTHORITY)?)?;
    config.root_cert = Some(vec![pem::parse(authority)?.into_contents()]);
    config.auth_info = AuthInfo { token: Some("admin".to_owned().into()), ..AuthInfo::default() };
    // Set TCP_NODELAY, which kube does not: Nagle's algorithm delays the first response of a connection by 40
    // ms.
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    // No gzip: the server is local.
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(tower::BoxError::from)
        .service(Http::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, "default"))
}

async fn list(client: &Client, path: &str, accept: &str) -> Result<()> {
    let mut token = None;
    loop {
        let after = token.map(|token| format!("&continue={token}")).unwrap_or_default();
        let head = get(client, &format!("{path}?limit={PAGE}{after}"), accept).await?;
        token = next(&head);
        if token.is_none() {
            return Ok(());
        }
    }
}

/// Returns the `continue` token, found in the first bytes of a page.
fn next(head: &[u8]) -> Option<String> {
    let at = head.windows(TOKEN_BEGINS.len()).position(|window| window == TOKEN_BEGINS)?;
    let token = head[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    Some(token.map(|byte| char::from(*byte)).collect())
}

/// Reads a response to its end; returns its first bytes.
async fn get(client: &Client, path: &str, accept: &str) -> Result<Vec<u8>> {
    let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty())?;
    let response = client.send(request).await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    // A server without the requested encoding responds in JSON, which would be measured instead.
    let content = response.headers().get(header::CONTENT_TYPE);
    let content = content.and_then(|value| value.to_str().ok());
    let protobuf = content.is_some_and(|content| content.contains("protobuf"));
    ensure!(protobuf == accept.contains("protobuf"), "{path}: asked for {accept}, answered {content:?}");
    let mut head = Vec::with_capacity(HEAD);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let room = HEAD.saturating_sub(head.len()).min(data.len());
            head.extend_from_slice(&data[..room]);
        }
    }
    Ok(head)
}

/// Sets an annotation, with a value that is new in each run, on each of these nodes.
async fn patch(client: &Client, nodes: &[&str]) -> Result<()> {
    let now = jiff::Timestamp::now();
    let body = format!(r#"{{"metadata":{{"annotations":{{"example.com/bench":"{now}"}}}}}}"#);
    futures::stream::iter(nodes)
        .map(|node| {
            let path = format!("/api/v1/nodes/{node}");
            send(client, path, "application/merge-patch+json", body.clone())
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

/// Sends heartbeats of these nodes for `time`, at the usual rate of a kubelet and evenly spread.
async fn heartbeats(client: &Client, time: Duration, nodes: &[&str]) -> Result<()> {
    let each = HEARTBEAT / u32::try_from(nodes.len())?;
    let ticks = tokio::time::interval(each);
    let beats = futures::stream::unfold(ticks, |mut ticks| async {
        ticks.tick().await;
        Some(((), ticks))
    });
    beats
        .zip(futures::stream::iter(nodes.iter().cycle()))
        .take_until(tokio::time::sleep(time))
        .map(|((), node)| {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
            let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
                .map(|kind| format!(r#"{{"type":"{kind}","lastHeartbeatTime":"{now}"}}"#))
                .join(",");
            let body = format!(r#"{{"status":{{"conditions":[{conditions}]}}}}"#);
            let path = format!("/api/v1/nodes/{node}/status");
            send(client, path, "application/strategic-merge-patch+json", body)
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect()
        .await
}

async fn send(client: &Client, path: String, kind: &str, body: String) -> Result<()> {
    let request =
        Request::patch(&path).header(header::CONTENT_TYPE, kind).body(Body::from(body.into_bytes()))?;
    let response = client.send(request).await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(())
}

fn read(path: &str) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("opening {path}"))?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}
