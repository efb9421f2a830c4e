//! The preview's warnings about nodes on which an uninstall does not start at once.

use serde_json::json;

use super::{SKYHOOK, driver};
use crate::support::fake_api::FakeApi;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

/// The warnings of the preview about nodes that are not complete.
fn unfinished(nodes: usize) -> Vec<String> {
    let mut fake = SKYHOOK.serve(driver(false));
    for n in 1..=nodes {
        let name = format!("node-{n}");
        let node = SKYHOOK.node(&name, "in_progress", &["driver|1.0.0 apply in_progress"]);
        fake = fake.with(node);
    }
    let mut ignored = SKYHOOK.node("node-9", "complete", &["driver|1.0.0 config complete"]);
    ignored["metadata"]["labels"] = json!({SKYHOOK.0.key("ignore"): "true"});
    let served = fake.with(ignored).serve();
    let ran = run("uninstall gpu driver --dry-run").kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(0);
    let lines = ran.stdout.lines().map(str::to_owned);
    lines.filter(|l| l.starts_with("- warning: ")).collect()
}

#[test]
fn few_unfinished_nodes_are_named_and_many_are_counted() {
    let ignored = "- warning: node-9 carries the ignore label: nothing runs there until you run `kubectl skyhook node \
                   unignore node-9`";
    let one = |n| {
        format!(
            "- warning: on node-{n}, driver is at apply (in_progress): the uninstall starts only after this stage is complete"
        )
    };
    assert_eq!(unfinished(2), [one(1), one(2), ignored.to_owned()]);
    assert_eq!(
        unfinished(4),
        [
            "- warning: driver is not complete on node-[1-4] (4 nodes): the uninstall starts there only after the current stage is complete",
            ignored
        ]
    );
}

/// `uninstall status` was a command; a type prefix names the custom resource.
#[test]
fn packages_of_a_custom_resource_called_status_can_be_uninstalled() {
    let mut skyhook = SKYHOOK.skyhook("complete", driver(true));
    skyhook["metadata"]["name"] = json!("status");
    let fake = FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()).with(skyhook);
    let cluster = TestCluster::serving(fake);
    for words in ["uninstall status driver", "uninstall -n skyhook status driver"] {
        let ran = cluster.run(words);
        ran.expect_code(64);
        ran.expect_stderr("is now `");
    }
    let ran = cluster.run("uninstall skyhook/status driver");
    ran.expect_code(3);
    ran.expect_stderr("hint: kubectl skyhook uninstall skyhook/status driver --cancel\n");
}
