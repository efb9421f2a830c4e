use super::{Input, LintFindings};

lint_rule! {
    /// `sequencing: all` is combined with `runtimeRequired`.
    ///
    /// # What it means
    ///
    /// Later custom resources wait until this one is complete on every node. One failing node blocks them on
    /// all nodes. Custom resources that also have `runtimeRequired` then leave their nodes tainted, including
    /// new nodes. The operator's documentation warns of this deadlock.
    ///
    /// # How to fix
    ///
    /// Remove `sequencing: all`: by default, later custom resources start on each node as soon as this one is
    /// complete there.
    SKY843 "runtime-required-with-sequencing" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        if skyhook.spec.runtime_required && skyhook.blocks_all_nodes() {
            let message = "with sequencing: all and runtimeRequired, one failed node blocks later custom \
             resources on all nodes, and their nodes can stay tainted";
            findings
                .report(manifest, &["spec", "sequencing"], message)
                .fix("Remove sequencing: all, so that a failed node delays later custom resources on that node only");
        }
    }
}
