//! `status`, `node status`, `package status` and the page of a custom resource agree on every captured cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::clusters::{self, Captured};
use crate::support::run::run;
use crate::support::sample::{every_case, some};

fn asked(captured: &Captured, words: &str) -> Value {
    run(&format!("{words} -o json --from {}", captured.path())).output().json()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word<'v>(row: &'v Value, field: &str) -> &'v str {
    row[field].as_str().unwrap_or_default()
}

/// A package on a node: the node, then name and version.
fn place(row: &Value) -> [String; 3] {
    // A row of `uninstalls` names the package beside the node.
    let name = if row["package"].is_string() { "package" } else { "name" };
    ["node", name, "version"].map(|field| word(row, field).to_owned())
}

/// Stage, state and restarts; empty where nothing is recorded.
fn record(row: &Value) -> (String, String, u64) {
    let restarts = row["restarts"].as_u64().unwrap_or_default();
    (word(row, "stage").to_owned(), word(row, "state").to_owned(), restarts)
}

fn of_skyhook<'v>(rows: &'v Value, name: &str) -> Vec<&'v Value> {
    list(&rows["items"]).iter().filter(|row| word(row, "skyhook") == name).collect()
}

/// The record of each package on each node of a custom resource, from `node status`.
fn recorded(nodes: &[&Value]) -> BTreeMap<[String; 3], (String, String, u64)> {
    let mut all = BTreeMap::new();
    for node in nodes {
        for package in list(&node["packages"]) {
            let [_, name, version] = place(package);
            let at = [word(node, "name").to_owned(), name, version];
            assert!(all.insert(at, record(package)).is_none(), "{node}");
        }
    }
    all
}

#[test]
fn all_views_agree_on_every_capture() {
    let (mut skyhooks, mut uninstalls) = (0, 0);
    for captured in some(clusters::all(), 10) {
        let name = &captured.name;
        let status = asked(&captured, "status");
        let nodes = asked(&captured, "node status");
        for item in list(&status["items"]).iter().filter(|i| i["exists"] == true) {
            let skyhook = word(item, "name");
            let packages = asked(&captured, &format!("package status --skyhook {skyhook}"));
            let rows = of_skyhook(&nodes, skyhook);
            let node_records = recorded(&rows);
            let package_records: BTreeMap<_, _> = list(&packages["items"])
                .iter()
                .filter(|row| row["recorded"] == true)
                .map(|row| (place(row), record(row)))
                .collect();
            assert_eq!(package_records, node_records, "{name} {skyhook}");

            for node in rows.iter().filter(|row| row["status"] != "malformed") {
                let done = list(&packages["items"]).iter().filter(|row| {
                    // A package to be uninstalled is done once it is absent, unless it was never installed.
                    let done = if row["uninstalling"] == true {
                        row["recorded"] == false && row["neverInstalled"] != true
                    } else {
                        row["complete"] == true
                    };
                    row["node"] == node["name"] && row["inSpec"] == true && done
                });
                let done = u64::try_from(done.count()).expect("few");
                assert_eq!(node["packagesComplete"], done, "{name} {skyhook} {node}");
            }

            for package in list(&item["packages"]) {
                let of_it = list(&packages["items"])
                    .iter()
                    .filter(|row| row["name"] == package["name"] && row["version"] == package["version"]);
                let complete = of_it.filter(|row| row["complete"] == true && row["selected"] == true);
                let complete = u64::try_from(complete.count()).expect("few");
                assert_eq!(package["complete"], complete, "{name} {skyhook} {package}");
            }
            let page = asked(&captured, &format!("status {skyhook}"));
            for row in page["items"][0]["uninstalls"].as_array().into_iter().flatten() {
                let (stage, state, restarts) = record(row);
                match node_records.get(&place(row)) {
                    Some(seen) => assert_eq!(&(stage, state, restarts), seen, "{name} {row}"),
                    None => assert_eq!(stage + &state, "", "{name} {row}"),
                }
                uninstalls += 1;
            }
            skyhooks += 1;
        }
    }
    assert!(
        !every_case() || skyhooks > 50 && uninstalls > 20,
        "{skyhooks} custom resources, {uninstalls} rows"
    );
}
