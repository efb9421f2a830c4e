//! `update-state --add`: the nodes that get a new entry.

use super::TestCluster;

/// Only explicitly selected nodes get a new entry: the set of failed nodes is not known in advance.
#[test]
fn entry_is_added_only_on_named_nodes() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let words = "update-state gpu-tune driver 9.9.9 config complete --force --add --no-pause --confirm";
    for selection in ["", "--failed-only"] {
        let ran = cluster.run(&format!("{words} {selection}"));
        ran.expect_code(64);
        ran.expect_stderr("--add requires --node, --match or -l");
    }
    assert_eq!(cluster.writes(), [""; 0]);
    let ran = cluster.run(&format!("{words} --failed-only --match node-.*"));
    ran.expect_code(0);
    assert_eq!(cluster.writes(), ["PATCH /api/v1/nodes/node-2"]);
}
