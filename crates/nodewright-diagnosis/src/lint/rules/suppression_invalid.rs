use std::collections::BTreeSet;

use super::{Input, LintFindings, did_you_mean};
use crate::lint;

lint_rule! {
    /// A suppression comment names no rule or gives no reason.
    ///
    /// # What it means
    ///
    /// The comment suppresses nothing. A comment has the form `# kubectl-skyhook: allow SKY840 reason`, above the field
    /// or beside it. It applies to the field with everything in it; above the first field, to the whole object.
    ///
    /// # How to fix
    ///
    /// Write the code of a rule and a reason.
    SKY804 "suppression-invalid" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let mut seen = BTreeSet::new();
    for manifest in input.manifests() {
        for suppression in manifest.suppressions.iter() {
            if !seen.insert((&manifest.file, suppression.line)) {
                continue;
            }
            let rule = &suppression.rule;
            let message = if lint::find(rule).is_none() {
                let known = lint::ALL.iter().flat_map(|rule| [rule.code, rule.name]);
                let near = did_you_mean(rule, known);
                format!("the comment suppresses nothing: no rule {rule:?}{near}")
            } else if suppression.reason.is_empty() {
                format!("the comment suppresses nothing: a reason must follow {rule}")
            } else {
                continue;
            };
            findings.report(manifest, &[], message).at(suppression.line, "");
        }
    }
}
