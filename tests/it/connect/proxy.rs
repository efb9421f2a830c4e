//! Connecting through an HTTP proxy.

use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};

use kubectl_skyhook::cluster::Read;
use kubectl_skyhook::connect::Environment;
use tempfile::tempdir;

use super::{connected, environment, fake, file, nodes};
use crate::support::fake_api::{Served, kubeconfig};

/// Starts a proxy that tunnels every request to the server, or refuses; returns its address.
fn proxy(served: &Served, answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let server = served.url.replace("https://", "");
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.expect("a client"), server.clone());
            std::thread::spawn(move || tunnel(client, &server, answer));
        }
    });
    format!("http://{address}")
}

fn tunnel(mut client: TcpStream, server: &str, answer: &str) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a request");
        request.extend(byte);
    }
    assert!(request.starts_with(b"CONNECT fake.example:6443 "));
    client.write_all(answer.as_bytes()).expect("a client");
    let server = TcpStream::connect(server).expect("the server");
    let copy = |from: &TcpStream, to: &TcpStream| {
        let from = from.try_clone().expect("another handle");
        let to = to.try_clone().expect("another handle");
        // Either side may close its connection when it is done.
        std::thread::spawn(move || std::io::copy(&mut { from }, &mut { to }))
    };
    copy(&client, &server);
    copy(&server, &client);
}

/// A kubeconfig for `fake.example`, which only a proxy can reach, and the flag that trusts it.
fn unreachable(served: &Served) -> (Environment, String) {
    let config = kubeconfig("https://fake.example:6443", "fake").to_string();
    let path = file(served.dir(), "config", &config);
    let authority = served.dir().join("ca.crt");
    (environment(served.dir(), &path), format!("--certificate-authority={}", authority.display()))
}

const WELCOME: &str = "HTTP/1.1 200 OK\r\n\r\n";

#[tokio::test]
async fn proxy_environment_variable_is_used() {
    let served = fake().serve_tls();
    let (mut here, authority) = unreachable(&served);
    here.https_proxy = Some(proxy(&served, WELCOME));
    // A trailing comma in NO_PROXY is common.
    here.no_proxy = Some("example.com,".to_owned());
    let connected = connected(&here, &[&authority]).await;
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
}

#[tokio::test]
async fn kubeconfig_proxy_overrides_the_environment() {
    let served = fake().serve_tls();
    let (mut here, authority) = unreachable(&served);
    let mut config = kubeconfig("https://fake.example:6443", "fake");
    let proxy = proxy(&served, WELCOME);
    config["clusters"][0]["cluster"]["proxy-url"] = proxy.into();
    file(served.dir(), "config", &config.to_string());
    here.https_proxy = Some("http://127.0.0.1:1".to_owned());
    let connected = connected(&here, &[&authority]).await;
    assert_eq!(nodes(&connected).await, Ok(Read::Ok(1)));
}

#[tokio::test]
async fn proxy_refusal_names_the_proxy() {
    let served = fake().serve_tls();
    let (mut here, authority) = unreachable(&served);
    here.https_proxy = Some(proxy(&served, "HTTP/1.1 403 Forbidden\r\n\r\n"));
    let connected = connected(&here, &[&authority]).await;
    let message = "the proxy refused to connect to the API server at https://fake.example:6443: \
                   unsuccessful; check proxy-url in the kubeconfig, HTTPS_PROXY and NO_PROXY";
    assert_eq!(nodes(&connected).await, Err(message.to_owned()));
}

#[tokio::test]
async fn invalid_proxy_url_is_shown_without_its_password() {
    let home = tempdir().expect("a directory");
    let mut here = environment(home.path(), "");
    here.https_proxy = Some("gopher://me:hunter2@proxy".to_owned());
    let message = "cannot use the proxy \"gopher://proxy\"; check proxy-url in the kubeconfig and \
                   HTTPS_PROXY";
    assert_eq!(super::refused(&here, &["--server=https://host"]).await, message);
}
