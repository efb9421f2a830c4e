use super::{Input, LintFindings, Subject, UnreadableReason};

lint_rule! {
    /// A manifest is a template that was not rendered.
    ///
    /// # What it means
    ///
    /// The manifest contains actions in `{{ }}`, as files of a Helm chart do. Its values are unknown, so
    /// nothing in it was checked. Reported only for objects of the operator's API.
    ///
    /// # How to fix
    ///
    /// Check the rendered manifests: `helm template CHART | kubectl skyhook lint -f -`.
    SKY802 "template-not-rendered" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for document in input.documents.unreadable.iter().filter(|d| d.reason == UnreadableReason::Template) {
        let subject = Subject::object("File", &document.file);
        let message = "this is a template, so nothing in it was checked";
        let finding = findings.report_at(&document.file, document.line, subject, message);
        finding.fix("Render it first: helm template CHART | kubectl skyhook lint -f -");
    }
}
