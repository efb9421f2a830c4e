use std::collections::BTreeSet;

use super::{Input, LintFindings, did_you_mean};
use crate::lint;
use crate::rules::support::mute::ANNOTATION;

lint_rule! {
    /// A suppression comment or annotation names no rule or gives no reason.
    ///
    /// # What it means
    ///
    /// It suppresses nothing. A comment has the form `# kubectl-skyhook: allow SKY840 reason`, above the field
    /// or beside it. It applies to the field with everything in it; above the first field, to the whole object. The
    /// annotation `kubectl-skyhook/mutes` is a YAML list with `code`, `reason`, and optionally `package` and `until`.
    ///
    /// # How to fix
    ///
    /// Write the code of a rule and a reason.
    SKY804 "suppression-invalid" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (at, error) in &input.invalid_mutes {
        let path = ["metadata", "annotations", ANNOTATION];
        findings.report(&input.documents.manifests[*at], &path, format!("invalid mute: {error}"));
    }
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
                format!("the comment suppresses nothing: there is no rule {rule:?}{near}")
            } else if suppression.reason.is_empty() {
                format!("the comment suppresses nothing: a reason must follow {rule}")
            } else {
                continue;
            };
            findings.report_line(manifest, suppression.line, message);
        }
    }
}
