//! The preview's warnings about nodes on which an uninstall does not start at once.

use serde_json::json;

use super::{SKYHOOK, driver};
use crate::support::run::run;

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
fn unfinished_nodes_are_named_by_stage() {
    let ignored = "- warning: node-9 carries the ignore label: nothing runs there until you run `kubectl skyhook node \
                   unignore node-9`";
    for (unfinished_nodes, named) in [(1, "node-1"), (4, "node-[1-4] (4 nodes)")] {
        let warning = format!(
            "- warning: on {named}, driver is at apply (in_progress): the uninstall starts only after this stage is complete"
        );
        assert_eq!(unfinished(unfinished_nodes), [warning.as_str(), ignored]);
    }
}
