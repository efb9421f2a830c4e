use super::{Input, LintFindings};
use crate::lint::manifest::contains;
use crate::text::plural;

lint_rule! {
    /// Two compartments of a policy match the same nodes.
    ///
    /// # What it means
    ///
    /// A node is in one compartment only: if several match, the operator chooses the compartment with the
    /// safest strategy and the smallest budget. The other compartment is smaller than its selector suggests.
    ///
    /// # How to fix
    ///
    /// Nothing, if that is intended. Otherwise exclude the nodes in one of the two selectors.
    SKY874 "compartments-overlap" Info
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        let compartments = &policy.spec.compartments;
        for (index, compartment) in compartments.iter().enumerate() {
            let path = ["spec", "compartments", &index.to_string(), "selector"];
            for earlier in &compartments[..index] {
                let (one, other) = (&earlier.selector, &compartment.selector);
                if one == other || manifest.violates_schema(&path) {
                    continue;
                }
                let nodes = input
                    .matching(one)
                    .map(|nodes| nodes.iter().filter(|node| other.matches(&node.labels)).count());
                let name = &earlier.name;
                let message = match nodes {
                    Some(0) => continue,
                    Some(nodes) => format!("{name} also matches {}", plural(nodes, "node")),
                    None if contains(one, other) => {
                        format!("{name} also matches all nodes of this compartment")
                    }
                    None if contains(other, one) => {
                        format!("the compartment also matches all nodes of {name}")
                    }
                    None => continue,
                };
                findings
                    .report(manifest, &path, message)
                    .fix("Exclude the nodes in one of the two selectors, unless this is intended");
            }
        }
    }
}
