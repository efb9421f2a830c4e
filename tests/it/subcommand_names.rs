//! Custom resources with the names of subcommands.

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::program::Program;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::test_cluster::{CR, TestCluster, operator};

/// Commands whose first argument is a custom resource or a subcommand, as `COMMAND SUBCOMMAND`.
fn ambiguous() -> Vec<(String, String)> {
    let tree = Program::SKYHOOK.tree();
    let commands = tree
        .get_subcommands()
        .filter(|c| c.get_positionals().next().is_some());
    let pairs = commands.flat_map(|command| {
        let subcommands = command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help");
        subcommands.map(|sub| (command.get_name().to_owned(), sub.get_name().to_owned()))
    });
    pairs.collect()
}

/// The failing custom resource of a capture, under another name.
fn named(name: &str) -> TestCluster {
    let path = "tests/clusters/apply-erroring/cluster.json";
    let text = std::fs::read_to_string(path).expect("a capture");
    let list: Value = serde_json::from_str(&text.replace(CR, name)).expect("JSON");
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    for object in list["items"].as_array().expect("a list") {
        fake.load(object.clone());
    }
    fake.load(operator(1));
    TestCluster::serving(fake)
}

#[test]
fn custom_resource_named_like_a_subcommand_is_reachable_by_its_kind() {
    let found = ambiguous();
    let commands: Vec<String> = found
        .iter()
        .map(|(command, sub)| format!("{command} {sub}"))
        .collect();
    assert_eq!(
        commands,
        [
            "diagnose stuck",
            "diagnose node",
            "diagnose check",
            "uninstall status"
        ]
    );
    for (command, name) in found {
        let cluster = named(&name);
        if command == "diagnose" {
            let ran = cluster.run(&format!("diagnose skyhook/{name} -o json"));
            ran.expect_code(2);
            let report = ran.json();
            assert_eq!(
                report["findings"][0]["subject"]["skyhook"],
                json!(name),
                "{report:#}"
            );
            let same = cluster.run(&format!("diagnose stuck {name} -o json"));
            assert_eq!(same.json()["findings"], report["findings"]);
        } else {
            let ran = cluster.run(&format!(
                "uninstall skyhook/{name} driver --enable --dry-run"
            ));
            ran.expect_code(0);
            ran.expect_stdout(format!("skyhook/{name}"));
        }
    }
}
