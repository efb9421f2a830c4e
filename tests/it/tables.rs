//! Filters of the tables of nodes and packages.

use kubectl_skyhook::view::text::{self, Layout, Text};
use kubectl_skyhook::view::{NodeSet, Table};
use serde_json::json;

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

/// A complete, a failing and a cordoned waiting node.
fn cluster() -> TestCluster {
    let packages = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut cordoned = SKYHOOK.node("n3", "waiting", &[]);
    cordoned["spec"]["unschedulable"] = true.into();
    cordoned["metadata"]["labels"] = json!({"pool": "gpu"});
    let fake = FakeApi::new()
        .serving(SKYHOOK.0)
        .with(SKYHOOK.skyhook("in_progress", packages))
        .with(SKYHOOK.operator())
        .with(SKYHOOK.node("n1", "complete", &["driver|1.0.0 config complete"]))
        .with(SKYHOOK.node("n2", "erroring", &["driver|0.9.0 apply erroring"]))
        .with(cordoned);
    TestCluster::serving(fake)
}

#[test]
fn every_table_of_nodes_has_the_same_filters() {
    let cluster = cluster();
    for command in ["node status", "node list --skyhook gpu", "package status"] {
        for (filter, expected) in [
            ("", "node/n1\nnode/n2\nnode/n3\n"),
            ("--status erroring", "node/n2\n"),
            ("--status failed", "node/n2\n"),
            ("--status complete,waiting", "node/n1\nnode/n3\n"),
            ("--status complete --status erroring", "node/n1\nnode/n2\n"),
            ("--failed-only", "node/n2\n"),
            ("--cordoned", "node/n3\n"),
            ("-l pool=gpu", "node/n3\n"),
            ("-l pool=gpu --failed-only", ""),
        ] {
            let ran = cluster.run(&format!("{command} {filter} -o name"));
            assert_eq!((ran.stdout.as_str(), ran.code), (expected, Some(0)), "{}", ran.transcript());
            if expected.is_empty() {
                let note = match command {
                    "node status" => {
                        "No row matches. Nodes can be blocked without failing: see `kubectl skyhook diagnose`.\n"
                    }
                    _ => "No row matches.\n",
                };
                assert_eq!(ran.stderr, note);
            }
        }
        let ran = cluster.run(&format!("{command} --status broken"));
        ran.expect_code(64);
        ran.expect_stderr("[possible values: complete, blocked, waiting");
    }
}

/// A selector that matches no node is not reported as a missing custom resource.
#[test]
fn an_empty_selection_says_so() {
    let ran = cluster().run("node status -l pool=none");
    assert_eq!((ran.stderr.as_str(), ran.stdout.as_str(), ran.code), ("No node matches.\n", "", Some(0)));
}

#[test]
fn labels_select_the_nodes_of_a_change() {
    let cluster = cluster();
    let ran = cluster.run("node ignore -l pool=gpu --dry-run");
    ran.expect_code(0);
    ran.expect_stdout("node/n3\n");
    assert!(!ran.stdout.contains("node/n1"), "{}", ran.transcript());
}

#[test]
fn versions_in_use_are_one_table() {
    let ran = cluster().run("package status --versions");
    insta::assert_snapshot!(ran.transcript());
    let ran = run("package status --versions --from tests/clusters/malformed-node-state").output();
    insta::assert_snapshot!(ran.transcript());
}

/// On a terminal a set of nodes is cut between runs, and a line names the flag that shows the rest.
#[test]
fn sets_of_nodes_are_cut_between_runs() {
    let set = || NodeSet::of((0..8).chain([20, 30, 41]).map(|n| format!("gpu-{n:02}")));
    let mut table = Table::new(["status", "nodes"]).names(3, "--expand shows a row for each node");
    table.row_of([text::error("erroring").into()], set());
    table.row_of([text::plain("complete").into()], NodeSet::of(["cpu-1"]));
    let text = Text::from(table);
    let at = |columns| {
        let lines = text.lines(Layout::columns(columns)).into_iter();
        lines.map(|line| line.plain() + "\n").collect::<String>()
    };
    let hint = "NODES is shortened; --expand shows a row for each node\n";
    for (columns, nodes) in [
        (40, "gpu-[00-07,20,30] and 1 more"),
        (34, "gpu-[00-07] and 3 more"),
        (24, "gpu-[00-07] …"),
        (21, "gpu-00 …"),
        (16, "gpu-[…"),
    ] {
        assert_eq!(
            at(columns),
            format!("STATUS    NODES\nerroring  {nodes}\ncomplete  cpu-1\n{hint}"),
            "{columns}"
        );
    }
    assert_eq!(text.plain(), "STATUS    NODES\nerroring  gpu-[00-07,20,30] and 1 more\ncomplete  cpu-1\n");
}
