//! Servers that are unreachable, hang, or have the wrong TLS setup.

use kubectl_skyhook::api::ApiFlavor;
use tempfile::tempdir;

use super::{connected, environment, fake, nodes};
use crate::support::fake_api::{FakeApi, Reply, Served};
#[cfg(target_os = "linux")]
use crate::support::run::run;
use kubectl_skyhook::cluster::Read;

async fn failure(args: &[&str]) -> String {
    let home = tempdir().expect("a directory");
    let connected = connected(&environment(home.path(), ""), args).await;
    nodes(&connected).await.expect_err("the read fails")
}

#[tokio::test]
async fn refused_connection_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let message = format!(
        "cannot reach the API server at {url}: connection refused; check that it is running, and that \
         --context or --server names the right server"
    );
    assert_eq!(failure(&["--server", &url]).await, message);
}

#[tokio::test]
async fn plain_http_server_is_told_from_a_bad_certificate() {
    let served = fake().serve();
    let url = served.url.replace("http://", "https://");
    let message = format!("the server at {url} is not using TLS; check --server, or use an http:// URL");
    let args = ["--server", &url, "--insecure-skip-tls-verify"];
    assert_eq!(failure(&args).await, message);
}

#[tokio::test]
async fn hanging_or_closing_server_is_given_up() {
    let discovery = format!("GET /apis/{}", ApiFlavor::Skyhook.api_version());
    for (reply, what) in [
        (
            Reply::Hang,
            "did not answer within 500ms; check the network, or allow more time with \
             --request-timeout",
        ),
        (Reply::Cut, "closed the connection before it responded; try again"),
        (Reply::Half, "closed the connection before it responded; try again"),
    ] {
        let fake: FakeApi = fake();
        fake.on(&discovery).reply(reply);
        let served = fake.serve();
        let message = format!("the API server at {} {what}", served.url);
        let args = ["--server", &served.url, "--request-timeout=500ms"];
        assert_eq!(failure(&args).await, message);
    }
}

/// A flag with the path of a client file of a TLS server.
fn flag(served: &Served, name: &str, file: &str) -> String {
    format!("--{name}={}", served.dir().join(file).display())
}

#[tokio::test]
async fn server_certificate_is_verified_by_ca_and_name() {
    let served = fake().serve_tls();
    let server = format!("--server={}", served.url);
    let authority = flag(&served, "certificate-authority", "ca.crt");
    let untrusted = format!(
        "the certificate of the API server at {} is not trusted (UnknownIssuer); check the \
         kubeconfig's certificate-authority, or pass --certificate-authority",
        served.url
    );
    assert_eq!(failure(&[&server]).await, untrusted);
    let misnamed = format!(
        "the certificate of the API server at {} is for another name (certificate not valid for \
         name \"127.0.0.1\"; certificate is only valid for DnsName(\"fake.example\")); check \
         --server, or pass --tls-server-name",
        served.url
    );
    assert_eq!(failure(&[&server, &authority]).await, misnamed);

    let named = "--tls-server-name=fake.example";
    for args in
        [[server.as_str(), authority.as_str(), named], [server.as_str(), "--insecure-skip-tls-verify", named]]
    {
        let home = tempdir().expect("a directory");
        let connected = connected(&environment(home.path(), ""), &args).await;
        assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
    }
}

/// Simulates a container that contains only this program.
#[cfg(target_os = "linux")]
#[test]
fn system_without_ca_certificates_serves_where_none_is_verified() {
    let (http, tls) = (fake(), fake());
    let (http, tls) = (http.serve(), tls.serve_tls());
    let empty = tempdir().expect("a directory");
    let status = |args: &str| {
        run(&format!("node status {args}"))
            .kubeconfig(std::path::Path::new("/dev/null"))
            .env("SSL_CERT_FILE", empty.path().join("none"))
            .env("SSL_CERT_DIR", empty.path())
            .output()
    };
    status(&format!("--server={}", http.url)).expect_code(0);
    let insecure = "--insecure-skip-tls-verify";
    status(&format!("--server={} {insecure}", tls.url)).expect_code(0);
    let authority = flag(&tls, "certificate-authority", "ca.crt");
    let named = "--tls-server-name=fake.example";
    status(&format!("--server={} {authority} {named}", tls.url)).expect_code(0);
    let ran = status(&format!("--server={}", tls.url));
    ran.expect_code(1);
    ran.expect_stderr(
        "this system has no CA certificates to verify the API server with; pass --certificate-authority, or install \
         the package ca-certificates",
    );
}

#[tokio::test]
async fn plain_http_to_a_tls_server_is_reported() {
    let served = fake().serve_tls();
    let url = served.url.replace("https://", "http://");
    let expected = format!(
        "the server at {url} does not speak HTTP/1.1: it may need TLS or accept only HTTP/2; check \
         --server, or use an https:// URL"
    );
    assert_eq!(failure(&["--server", &url]).await, expected);
}

#[tokio::test]
async fn server_that_accepts_only_http2_is_reported() {
    use std::io::{Read, Write};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // An empty SETTINGS frame, the first that a server sends.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.write_all(&settings);
            let _ = connection.read_to_end(&mut Vec::new());
        }
    });
    let message = format!(
        "the server at {url} does not speak HTTP/1.1: it may need TLS or accept only HTTP/2; check \
         --server, or use an https:// URL"
    );
    assert_eq!(failure(&["--server", &url]).await, message);
}

#[tokio::test]
async fn client_certificate_is_presented() {
    let fake = fake();
    let served = fake.serve_tls();
    let home = tempdir().expect("a directory");
    let server = [
        format!("--server={}", served.url),
        flag(&served, "certificate-authority", "ca.crt"),
        "--tls-server-name=fake.example".to_owned(),
    ];
    let identity =
        [flag(&served, "client-certificate", "client.crt"), flag(&served, "client-key", "client.key")];
    for args in [server.to_vec(), [&server[..], &identity].concat()] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let connected = connected(&environment(home.path(), ""), &args).await;
        assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
    }
    let mut shown: Vec<String> = fake.requests().iter().map(|r| r.header("x-client-certificate")).collect();
    shown.dedup();
    assert_eq!(shown, ["", "shown"]);
}
