//! Custom resources with the names of subcommands.

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::program::Program;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::run::run;
use crate::support::test_cluster::{CR, TestCluster, operator};

/// Commands whose first argument is a custom resource or a subcommand, as `COMMAND SUBCOMMAND`.
fn ambiguous() -> Vec<(String, String)> {
    let tree = Program::SKYHOOK.tree();
    let commands = tree.get_subcommands().filter(|c| c.get_positionals().next().is_some());
    let pairs = commands.flat_map(|command| {
        let subcommands = command.get_subcommands().filter(|sub| sub.get_name() != "help");
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
    // The argument of `completion` is a shell.
    let mut found = ambiguous();
    found.retain(|(command, _)| command != "completion");
    let commands: Vec<String> = found.iter().map(|(command, sub)| format!("{command} {sub}")).collect();
    assert_eq!(commands, ["diagnose stuck", "diagnose node", "diagnose check"]);
    for (_, name) in found {
        let cluster = named(&name);
        let ran = cluster.run(&format!("diagnose skyhook/{name} -o json"));
        ran.expect_code(2);
        let report = ran.json();
        assert_eq!(report["findings"][0]["subject"]["skyhook"], json!(name), "{report:#}");
        let same = cluster.run(&format!("diagnose stuck {name} -o json"));
        assert_eq!(same.json()["findings"], report["findings"]);
    }
}

/// Four custom resources, each with one failing node: four causes.
fn four_causes(names: [&str; 4]) -> String {
    let items = names.iter().enumerate().flat_map(|(at, name)| {
        let key = |word: &str| format!("skyhook.nvidia.com/{word}_{name}");
        // Failures at the same stage would be one cause.
        let stage = ["apply", "config", "interrupt", "post-interrupt"][at];
        let entry = json!({"driver|1.0.0": {
            "name": "driver", "version": "1.0.0", "image": "registry.example/driver", "stage": stage, "state": "erroring",
        }});
        let skyhook = json!({
            "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook",
            "metadata": {"name": name, "uid": format!("uid-{at}")},
            "spec": {
                "nodeSelectors": {"matchLabels": {"pool": name}},
                "packages": {"driver": {"version": "1.0.0", "image": "registry.example/driver"}},
            },
        });
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{at}"), "labels": {"pool": name}, "annotations": {
                key("nodeState"): entry.to_string(), key("status"): "erroring",
            }},
        });
        [skyhook, node]
    });
    let items: Vec<Value> = items.collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Whether the report shows this custom resource in full, and no other.
fn shows(report: &str, name: &str) -> bool {
    let heads: Vec<&str> = report.lines().filter(|line| line.starts_with("error ")).collect();
    let [head] = heads.as_slice() else {
        return false;
    };
    head.starts_with(&format!("error SKY201 package-erroring  {name} driver on "))
}

#[test]
fn custom_resource_named_like_a_number_is_told_from_a_cause() {
    let diagnose = |names: [&str; 4], words: &str| {
        run(&format!("diagnose stuck {words} --no-logs --from -")).stdin(four_causes(names)).output()
    };
    let plain = ["a", "b", "c", "d"];
    diagnose(plain, "").expect_stdout("one cause in full: kubectl skyhook diagnose stuck 1\n");
    let ran = diagnose(plain, "2");
    assert!(shows(&ran.stdout, "b"), "{}", ran.transcript());
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)));

    let numbers = ["a", "1", "2", "4"];
    let index = diagnose(numbers, "");
    index.expect_stdout("one cause in full: kubectl skyhook diagnose stuck 1\n");
    let by_kind = diagnose(numbers, "skyhook/2");
    assert!(shows(&by_kind.stdout, "2"), "{}", by_kind.transcript());
    let first = diagnose(numbers, "1");
    let last = diagnose(numbers, "4");
    assert!(!shows(&first.stdout, "4") && first.stderr.is_empty());
    assert_ne!(first.stdout, last.stdout);

    for (words, says) in [
        ("5", "there is no cause 5: the list has 4"),
        ("0", "there is no cause 0: the list has 4"),
        ("a 2", "there is no cause 2: the list has 1"),
    ] {
        let ran = diagnose(plain, words);
        ran.expect_code(64);
        ran.expect_stderr(says);
    }
}

/// Three digits are the code of a rule.
#[test]
fn a_code_is_found_without_its_letters() {
    assert_eq!(run("explain 410").output().stdout, run("explain SKY410").output().stdout);
    assert_eq!(run("explain 840").output().stdout, run("explain SKY840").output().stdout);
    run("explain 999").output().expect_code(64);
}

/// Only `diagnose stuck` takes the number of a cause.
#[test]
fn number_in_place_of_a_rule_is_explained() {
    for words in ["explain 2", "fix 2 --from tests/clusters/complete", "diagnose stuck --rule 2"] {
        let ran = run(words).output();
        ran.expect_code(64);
        ran.expect_stderr("expected the code or name of a rule, not the number of a cause: 2");
        ran.expect_stderr("kubectl skyhook diagnose stuck 2");
    }
}
