use super::{Input, LintFindings};
use crate::api::quantity;
use crate::rules::some_of;
use crate::text::plural;

lint_rule! {
    /// A package requests more CPU or memory than selected nodes have.
    ///
    /// # What it means
    ///
    /// The kubelet of such a node rejects the pod, and the package never runs there.
    ///
    /// # How to fix
    ///
    /// Lower the request, or exclude the nodes.
    SKY864 "requests-exceed-node" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(selected) = input.selected(skyhook).filter(|nodes| !nodes.is_empty()) else {
            continue;
        };
        for (name, package) in skyhook.packages() {
            for (field, what) in [("cpuRequest", "CPU"), ("memoryRequest", "memory")] {
                let value = package.resources.as_ref().map(|resources| &resources[field]);
                let Some(wanted) = value.and_then(quantity::thousandths) else {
                    continue;
                };
                let small = selected.iter().filter(|node| {
                    let allocatable = node.body().map(|body| &body.allocatable);
                    let has = allocatable.and_then(|all| match field {
                        "cpuRequest" => all.cpu,
                        _ => all.memory,
                    });
                    has.is_some_and(|has| has < wanted)
                });
                let small: Vec<&str> = small.map(|node| node.name.as_str()).collect();
                if small.is_empty() {
                    continue;
                }
                let message = format!(
                    "{field} {} exceeds the allocatable {what} on {} of {}",
                    value.map(quantity::value_text).unwrap_or_default(),
                    small.len(),
                    plural(selected.len(), "selected node")
                );
                findings
                    .report(manifest, &["spec", "packages", name, "resources", field], message)
                    .fix("Lower the request, or exclude the nodes")
                    .evidence("nodes", "too small", some_of(&small));
            }
        }
    }
}
