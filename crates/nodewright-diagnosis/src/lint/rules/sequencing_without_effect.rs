use super::{Input, LintFindings};
use crate::rules::some_of;

lint_rule! {
    /// `sequencing: all` does not hold back another custom resource with the same priority.
    ///
    /// # What it means
    ///
    /// Custom resources with the same priority run in the order of their names. `sequencing: all` only holds back those
    /// that come later.
    ///
    /// # How to fix
    ///
    /// Give the custom resources different priorities; the lower priority runs first.
    SKY856 "sequencing-without-effect" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let all = input.all_skyhooks();
    for (manifest, skyhook) in input.skyhooks().filter(|(_, s)| s.blocks_all_nodes()) {
        let (priority, name) = skyhook.order();
        let earlier = all.iter().filter(|other| other.order().0 == priority && other.name() < name);
        let earlier: Vec<String> = earlier.map(ToString::to_string).collect();
        if !earlier.is_empty() {
            let message = format!(
                "sequencing: all does not hold back {}: the priority is the same, so the name decides the order",
                some_of(&earlier)
            );
            findings
                .report(manifest, &["spec", "sequencing"], message)
                .fix("Give the custom resources different priorities; the lower priority runs first");
        }
    }
}
