//! Connecting to a server by flags, environment and kubeconfig.

mod credentials;
mod flags;
mod kubeconfig;
mod proxy;
mod server;

use std::path::Path;

use clap::Parser;
use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::args::connection::Connection;
use kubectl_skyhook::cluster::live::load;
use kubectl_skyhook::cluster::{NodeFields, Read, Source};
use kubectl_skyhook::connect::{Connected, Environment, connect};
use serde_json::{Value, json};

use crate::support::fake_api::{self, FakeApi};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    connection: Connection,
}

/// The flags, as the binary would parse them.
fn flags(args: &[&str]) -> Connection {
    let args = std::iter::once(&"kubectl-skyhook").chain(args);
    Cli::try_parse_from(args).expect("flags").connection
}

/// A server with one node, so that tests can check the connection.
fn fake() -> FakeApi {
    FakeApi::new().serving(ApiFlavor::Skyhook).with(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1"},
    }))
}

/// An environment with an empty home directory and this `KUBECONFIG`.
fn environment(home: &Path, kubeconfig: &str) -> Environment {
    Environment {
        kubeconfig: (!kubeconfig.is_empty()).then(|| kubeconfig.into()),
        home: Some(home.to_owned()),
        ..Environment::default()
    }
}

/// Writes a file, and returns its path.
fn file(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).expect("a file that can be written");
    path.to_str().expect("a path of UTF-8").to_owned()
}

/// A kubeconfig for a server, with this user.
fn with_user(url: &str, user: &Value) -> String {
    let mut config = fake_api::kubeconfig(url, "fake");
    config["users"][0]["user"] = user.clone();
    config.to_string()
}

async fn connected(environment: &Environment, args: &[&str]) -> Connected {
    let connected = connect(environment, &flags(args), "diagnose stuck", None).await;
    connected.expect("a client")
}

/// The error of a connection that must fail.
async fn refused(environment: &Environment, args: &[&str]) -> String {
    match connect(environment, &flags(args), "diagnose stuck", None).await {
        Ok(_) => panic!("the connection succeeds, but must fail"),
        Err(error) => error.to_string(),
    }
}

/// The number of nodes, or the error of reading the cluster.
async fn nodes(connected: &Connected) -> Result<Read<usize>, String> {
    let now = || "2026-11-20T12:00:00Z".parse().expect("a time");
    let (client, needs) = (&connected.client, [Source::Nodes]);
    let cluster = load(client, &needs, NodeFields::All, None, None, None, &now).await;
    cluster.map(|cluster| cluster.source(Source::Nodes)).map_err(|error| error.to_string())
}
