//! Printed node sets, and names with a type prefix, are accepted as input.

use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run};
use crate::support::sample::some;
use crate::support::test_cluster::TestCluster;

/// Twelve nodes, `n0` to `n11`, and one of another name.
fn cluster() -> TestCluster {
    let packages = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = FakeApi::new()
        .serving(SKYHOOK.0)
        .with(SKYHOOK.skyhook("complete", packages))
        .with(SKYHOOK.operator());
    let names = (0..12).map(|n| format!("n{n}"));
    for name in names.chain(["control-plane".to_owned()]) {
        fake.load(SKYHOOK.node(&name, "complete", &["driver|1.0.0 config complete"]));
    }
    TestCluster::serving(fake)
}

/// The nodes of a dry run.
fn nodes(ran: &RunOutput) -> Vec<String> {
    ran.expect_code(0);
    let steps = ran.json()["steps"].clone();
    let steps = steps.as_array().expect("steps");
    let target = |step: &Value| step["target"].as_str().expect("a name").to_owned();
    let mut names: Vec<String> = steps
        .iter()
        .map(target)
        .filter_map(|target| target.strip_prefix("node/").map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn names_sets_and_globs_select_the_same_nodes_in_every_command() {
    let cluster = cluster();
    for (set, named) in [
        ("n[0-11]", 12),
        ("n[8-11]", 4),
        ("n[0-1,10]", 3),
        ("control-plane,n[2-3]", 3),
        ("control-plane,n5", 2),
        ("node/n[8-11]", 4),
        ("n5", 1),
        ("n[0-9]", 10),
        ("n[23]", 2),
        ("n1*", 3),
        ("n1?", 2),
        ("node/*[!0-9]", 1),
    ] {
        for words in some(
            [
                "node ignore SET --dry-run -o json",
                "node reset SET --skyhook gpu --dry-run -o json",
                "package rerun driver --skyhook gpu --node SET --dry-run -o json",
                "reset gpu --node SET --dry-run -o json",
                "update-state gpu driver 1.0.0 apply complete --node SET --dry-run -o json",
            ],
            2,
        ) {
            let ran = cluster.run(&words.replace("SET", set));
            assert_eq!(nodes(&ran).len(), named, "{}", ran.transcript());
        }
        let ran = cluster.run(&format!("node status {set} -o json"));
        assert_eq!(ran.json()["items"].as_array().map(Vec::len), Some(named), "{}", ran.transcript());
        let ran = cluster.run(&format!("package status driver --skyhook gpu --node {set} -o json"));
        assert_eq!(ran.json()["items"].as_array().map(Vec::len), Some(named), "{}", ran.transcript());
    }
    for words in [
        "diagnose stuck --node n[0-11]",
        "diagnose stuck --node n*",
        "leftovers --clean --node n[0-11] --dry-run",
        "leftovers --clean --node n* --dry-run",
        "diagnose node control*",
    ] {
        let ran = cluster.run(words);
        ran.expect_code(0);
    }
}

/// A glob is not read as a regular expression: `n02*` would match n0, n02 and n022 then.
#[test]
fn glob_is_not_a_regular_expression() {
    let fake = FakeApi::new()
        .serving(SKYHOOK.0)
        .with(
            SKYHOOK
                .skyhook("complete", json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})),
        )
        .with(SKYHOOK.operator());
    for name in ["n0", "n02", "n021", "n022", "n03"] {
        fake.load(SKYHOOK.node(name, "complete", &["driver|1.0.0 config complete"]));
    }
    let cluster = TestCluster::serving(fake);
    let ran = cluster.run("node reset n02* --skyhook gpu --dry-run -o json");
    assert_eq!(nodes(&ran), ["n02", "n021", "n022"]);
    let ran = cluster.run("node reset --match n02* --skyhook gpu --dry-run -o json");
    assert_eq!(nodes(&ran), ["n0", "n02", "n022"]);
    let ran = cluster.run("node reset n02* --match .*[12] --skyhook gpu --dry-run -o json");
    assert_eq!(nodes(&ran), ["n02", "n021", "n022"]);
    let ran = cluster.run("node reset n0? --match .*3 --skyhook gpu --dry-run -o json");
    assert_eq!(nodes(&ran), ["n03"]);
}

/// Every command with node arguments; SET stands for them.
const COMMANDS: &[&str] = &[
    "node status SET",
    "node list SET --skyhook gpu",
    "node ignore SET -y",
    "node unignore SET -y",
    "node reset SET --skyhook gpu -y",
    "reset gpu --unreadable --node SET -y",
    "deployment-policy reset gpu --node SET -y",
    "leftovers --clean --node SET -y",
    "diagnose node SET",
    "diagnose stuck --node SET",
    "events gpu --node SET",
    "fix --node SET -y",
    "reset gpu --node SET -y",
    "update-state gpu driver 1.0.0 apply complete --node SET -y",
    "package status --skyhook gpu --node SET",
    "package logs driver --skyhook gpu --node SET",
    "package rerun driver --skyhook gpu --node SET -y",
    "package retry driver --skyhook gpu --node SET -y",
];

#[test]
fn pattern_without_match_is_an_error_in_every_command() {
    let cluster = cluster();
    for command in some(COMMANDS, 8) {
        let expect = |words: &str, stderr: &str, code: i32| {
            let ran = cluster.run(words);
            assert_eq!(
                (ran.stdout.as_str(), ran.stderr.as_str(), ran.code),
                ("", stderr, Some(code)),
                "{}",
                ran.transcript()
            );
        };
        let takes_regex = !command.starts_with("diagnose node") && !command.starts_with("events");
        let words = |set: &str| command.replace("SET", set);
        expect(&words("m*"), "error: no node matches \"m*\"\n", 1);
        expect(&words("n12"), &cluster.run("node status n12").stderr, 1);
        let hint = "hint: as a regular expression it matches 12 nodes: --match 'n.*'\n";
        let hint = if takes_regex { hint } else { "" };
        expect(&words("n.*"), &format!("error: no node matches \"n.*\"\n{hint}"), 1);
        let ran = cluster.run(&words("n1|n2"));
        ran.expect_code(64);
        ran.expect_stderr("error: invalid value 'n1|n2' for '");
        ran.expect_stderr(
            ": expected a node name, a set such as gpu-[01-12], or a glob such as 'gpu-*'; --match takes regular \
             expressions\n",
        );
        if takes_regex {
            let regex = if command.contains("--node SET") {
                command.replace("--node SET", "--match m.*")
            } else {
                command.replace("SET", "--match m.*")
            };
            expect(&regex, "error: no node matches --match\n", 1);
        }
    }
    assert_eq!(cluster.writes(), [""; 0]);
}

/// All node arguments have the same parser, and [`COMMANDS`] contains every command that takes nodes.
#[test]
fn every_node_argument_has_the_same_parser() {
    fn visit(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let named = argument.get_value_names().unwrap_or_default();
            if !named.iter().any(|name| name == "NODE") {
                continue;
            }
            let parsed = argument.get_value_parser().type_id();
            assert!(
                parsed == std::any::TypeId::of::<kubectl_skyhook::args::nodes::NodeArg>(),
                "{path}: {argument}"
            );
            if argument.get_id() != "force_uncordon" {
                found.push(path.to_owned());
            }
        }
        for sub in command.get_subcommands() {
            visit(sub, &format!("{path} {}", sub.get_name()), found);
        }
    }
    let mut found = Vec::new();
    visit(&kubectl_skyhook::program::Program::SKYHOOK.tree(), "", &mut found);
    for path in found {
        let path = path.trim();
        assert!(
            COMMANDS.iter().any(|command| command.starts_with(&format!("{path} "))),
            "add {path} to COMMANDS"
        );
    }
}

#[test]
fn diagnose_node_takes_one_node() {
    let ran = cluster().run("diagnose node n1*");
    assert_eq!(
        ran.parts(),
        ("", "error: expected one node, but \"n1*\" matches 3 nodes: n[1,10-11]\n", Some(64))
    );
}

#[test]
fn forced_uncordon_outside_the_plan_is_reported() {
    let cluster = cluster();
    let ran = cluster.run("node ignore n1 --force-uncordon n[2-3] --force-uncordon n* --dry-run");
    ran.expect_stdout("- warning: --force-uncordon n[2-3] matches no node of this plan\n");
    assert!(!ran.stdout.contains("n* matches"), "{}", ran.transcript());
}

#[test]
fn node_set_of_a_preview_is_accepted() {
    let cluster = cluster();
    let preview = cluster.run("node ignore n* --dry-run");
    preview.expect_stdout("node/n[0-11]");
    let ran = cluster.run("node ignore node/n[0-11] --dry-run -o json");
    assert_eq!(nodes(&ran).len(), 12);
}

#[test]
fn node_set_with_an_unknown_node_is_an_error() {
    let cluster = cluster();
    for (words, says, code) in [
        ("node ignore n[0-12]", "node \"n12\" not found", 1),
        ("node ignore n[20-31]", "node \"n20\" not found", 1),
        ("reset gpu --node n[0-12]", "node \"n12\" not found", 1),
        ("diagnose stuck --node n[0-12]", "node \"n12\" not found", 1),
        ("node ignore n[21-13]", "range 21-13 is reversed", 64),
        ("node ignore n[0-999999999999]", "it expands to more than 100000 names", 64),
    ] {
        let ran = cluster.run(words);
        ran.expect_code(code);
        ran.expect_stderr(says);
    }
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn type_prefix_is_accepted_before_every_name() {
    let from = "--from tests/clusters/two-priorities";
    for words in [
        "status NAME",
        "diagnose stuck NAME --fail-on never",
        "node list --skyhook NAME",
        "node status --skyhook NAME",
        "node status node/node-1",
        "node reset node/node-1 --skyhook NAME --dry-run",
        "reset NAME --dry-run",
        "pause NAME --dry-run",
        "resume NAME --dry-run",
        "disable NAME --dry-run",
        "enable NAME --dry-run",
        "package status top --skyhook NAME --node node/node-1",
        "package logs top --skyhook NAME",
        "package rerun top --skyhook NAME --node node/node-1 --dry-run",
        "deployment-policy reset NAME --dry-run",
        "leftovers NAME",
    ] {
        let bare = run(&format!("{} {from}", words.replace("NAME", "second"))).output();
        assert_ne!(bare.code, Some(64), "{}", bare.transcript());
        for name in ["skyhook/second", "skyhooks/second", "nodewright/second"] {
            let ran = run(&format!("{} {from}", words.replace("NAME", name))).output();
            assert_eq!(
                (&ran.stdout, &ran.stderr, ran.code),
                (&bare.stdout, &bare.stderr, bare.code),
                "{}",
                ran.transcript()
            );
        }
        if words.contains("NAME") {
            for wrong in ["pod/second", "skyhook/", "skyhook/a/b"] {
                let ran = run(&format!("{} {from}", words.replace("NAME", wrong))).output();
                ran.expect_code(64);
            }
        }
    }
}

#[test]
fn empty_name_is_refused() {
    for words in [vec!["node", "list", "--skyhook", ""], vec!["pause", ""], vec!["status", ""]] {
        let ran = crate::support::run::Run::new(words).output();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{}", ran.transcript());
        ran.expect_stderr("expected a name");
    }
}

#[test]
fn journal_accepts_its_listed_name() {
    let cluster = TestCluster::from_capture("complete");
    assert_eq!(cluster.run("pause gpu-tune -y").code, Some(0));
    let listed = cluster.run("journal list -o name").stdout;
    let name = listed.trim();
    assert!(name.starts_with("journal/"), "{name}");
    assert_eq!(cluster.run(&format!("journal show {name}")).code, Some(0));
    assert_eq!(cluster.run(&format!("undo {name} -y")).code, Some(0));
}
