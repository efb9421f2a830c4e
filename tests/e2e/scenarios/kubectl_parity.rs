//! Compares how our binary reads user input with kubectl and the API server. `FUZZ_CASES` sets the number of
//! cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use clap::Parser;
use kubectl_skyhook::{
    args::{connection::Connection, labels},
    connect::{Environment, connect},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    api::Refused,
    cluster::Cluster,
    fuzz::{fuzz, selector_pieces},
};

const LABELS: [(&str, [(&str, &str); 3]); 3] = [
    ("node-1", [("a", "1"), ("b.c/d", "x_y"), ("zone", "A-1")]),
    ("node-2", [("a", "5"), ("in", ""), ("zone", "a")]),
    ("node-3", [("a", "x_y"), ("notin", "in"), ("b.c/d", "10")]),
];

/// Selectors: mostly well-formed requirements, otherwise random pieces of them.
fn selectors() -> impl Strategy<Value = String> {
    let key = || prop::sample::select(vec!["a", "b.c/d", "zone", "in", "notin", "none"]);
    let value = || prop::sample::select(vec!["1", "5", "x_y", "A-1", "a", "in", "", "10", "-3", "é"]);
    let blank = || prop::sample::select(vec!["", "", " ", "\t"]);
    let sign = prop::sample::select(vec!["=", "==", "!=", ">", "<"]);
    let compared = (key(), blank(), sign, blank(), value())
        .prop_map(|(key, b1, sign, b2, value)| format!("{key}{b1}{sign}{b2}{value}"));
    let word = prop::sample::select(vec!["in", "notin"]);
    let listed = (key(), word, blank(), prop::collection::vec(value(), 0..4), blank())
        .prop_map(|(key, word, b1, values, b2)| format!("{key} {word}{b1}({b2}{})", values.join(",")));
    let there =
        (prop::sample::select(vec!["", "!", "! "]), key()).prop_map(|(not, key)| format!("{not}{key}"));
    let requirement = prop_oneof![3 => compared, 3 => listed, 1 => there];
    prop_oneof![
        3 => prop::collection::vec(requirement, 1..4).prop_map(|all| all.join(",")),
        1 => prop::collection::vec(selector_pieces(), 1..9).prop_map(|all| all.concat()),
    ]
}

/// We accept exactly the selectors that the API server accepts, and they select the same nodes.
pub fn label_selectors_match_the_api_server(cluster: &Cluster) {
    for (node, labels) in LABELS {
        let labels: BTreeMap<&str, &str> = labels.into();
        cluster.patch_node(node, json!({"metadata": {"labels": labels}}));
    }
    let nodes = cluster.api.items("/api/v1/nodes").expect("nodes");
    let name = |node: &Value| node["metadata"]["name"].as_str().expect("a name").to_owned();
    fuzz("label selectors beside the API server", 1_000, &selectors(), |text| {
        let encoded = utf8_percent_encode(&text, NON_ALPHANUMERIC);
        let answer = cluster.api.get(&format!("/api/v1/nodes?labelSelector={encoded}"));
        let theirs: Option<BTreeSet<String>> = match answer {
            Ok(list) => Some(list["items"].as_array().expect("items").iter().map(name).collect()),
            Err(Refused { code: 400, .. }) => None,
            Err(refused) => return Err(TestCaseError::fail(format!("{refused:?}"))),
        };
        if text.trim().is_empty() {
            // The API server selects everything; we refuse an empty selector, because `-l "$UNSET"` is a
            // mistake.
            prop_assert!(labels::selector(&text).is_err());
            return Ok(());
        }
        let ours = labels::selector(&text).ok().map(|selector| {
            let selected = nodes.iter().filter(|node| {
                let labels = serde_json::from_value(node["metadata"]["labels"].clone());
                let labels: BTreeMap<String, String> = labels.expect("labels");
                selector.matches(&labels)
            });
            selected.map(name).collect()
        });
        prop_assert_eq!(ours, theirs, "{:?}", text);
        Ok(())
    });
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    connection: Connection,
}

/// Content of a kubeconfig: its clusters, its contexts with their optional namespaces, and the optional
/// current context.
type Contents = (BTreeSet<u8>, BTreeMap<u8, Option<u8>>, Option<u8>);

fn kubeconfig(n: usize, (clusters, contexts, current): &Contents) -> Value {
    let clusters = clusters.iter().map(|name| {
        let server = format!("https://f{n}-{name}.example:6443");
        json!({"name": format!("k{name}"), "cluster": {"server": server}})
    });
    let contexts = contexts.iter().map(|(name, namespace)| {
        let mut context = json!({"cluster": format!("k{name}"), "user": "u"});
        if let Some(namespace) = namespace {
            context["namespace"] = json!(format!("f{n}-{namespace}"));
        }
        json!({"name": format!("c{name}"), "context": context})
    });
    let mut config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters.collect::<Vec<_>>(),
        "contexts": contexts.collect::<Vec<_>>(),
        "users": [{"name": "u", "user": {"token": format!("t{n}")}}],
    });
    if let Some(current) = current {
        config["current-context"] = json!(format!("c{current}"));
    }
    config
}

/// With a list of kubeconfig files, the server and the namespace are those that kubectl chooses.
pub fn merged_kubeconfigs_match_kubectl(_: &Cluster) {
    let directory = tempfile::tempdir().expect("a directory");
    let connection = Cli::parse_from(["kubectl-skyhook"]).connection;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let file = (
        prop::collection::btree_set(0..3_u8, 0..3),
        prop::collection::btree_map(0..3_u8, prop::option::of(0..3_u8), 0..3),
        prop::option::of(0..3_u8),
    );
    let lists = prop::collection::vec(file, 1..4);
    fuzz("lists of kubeconfigs beside kubectl", 60, &lists, |files: Vec<Contents>| {
        let paths: Vec<PathBuf> = files
            .iter()
            .enumerate()
            .map(|(n, contents)| {
                let path = directory.path().join(n.to_string());
                let text = kubeconfig(n, contents).to_string();
                std::fs::write(&path, text).expect("a file can be written");
                path
            })
            .collect();
        let list = std::env::join_paths(paths).expect("a list");
        let environment = Environment {
            kubeconfig: Some(list.clone()),
            home: Some(directory.path().to_owned()),
            ..Environment::default()
        };
        let ours = runtime.block_on(connect(&environment, &connection, "status", None));
        let ours = ours.ok().map(|connected| {
            let namespace = connected.client.default_namespace().to_owned();
            (connected.server, namespace)
        });
        let kubectl = Command::new("kubectl")
            .args(["config", "view", "--minify", "--raw", "-o", "json"])
            .env("KUBECONFIG", &list)
            .output()
            .expect("kubectl runs");
        let theirs: Option<Value> = serde_json::from_slice(&kubectl.stdout).ok();
        let theirs = theirs.and_then(|config| {
            let server = config["clusters"][0]["cluster"]["server"].as_str()?;
            let namespace = config["contexts"][0]["context"]["namespace"].as_str();
            Some((server.to_owned(), namespace.unwrap_or("default").to_owned()))
        });
        prop_assert_eq!(ours, theirs);
        Ok(())
    });
}
