use super::{Input, LintFindings};
use crate::rules::LONGEST_NAME;

lint_rule! {
    /// The name of a custom resource is too long for the keys on its nodes.
    ///
    /// # What it means
    ///
    /// The name is part of annotation keys, which are limited to 63 characters. Above 53 characters the operator cannot
    /// record progress, and its reconcile ends with that error: custom resources that come later stop, too.
    ///
    /// # How to fix
    ///
    /// Use a name of at most 53 characters.
    SKY850 "object-name-too-long" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let length = skyhook.name().len();
        if length > LONGEST_NAME {
            let message = format!(
                "the name has {length} characters, but the operator's annotation keys on nodes leave room for {LONGEST_NAME}"
            );
            findings
                .report(manifest, &["metadata", "name"], message)
                .fix(format!("Use a name of at most {LONGEST_NAME} characters"));
        }
    }
}
