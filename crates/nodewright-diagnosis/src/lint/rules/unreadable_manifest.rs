use super::{Input, LintFindings, Subject, UnreadableReason};

lint_rule! {
    /// A document is not valid YAML or JSON, or is not an object.
    ///
    /// # What it means
    ///
    /// kubectl rejects the whole file. The other documents of the file are still checked. Reported only for files with
    /// an object of the operator's API; lists, patches and broken files of other programs are counted as skipped.
    ///
    /// # How to fix
    ///
    /// Fix the syntax at the given line. Unbalanced quotes, tabs and wrong indentation are common causes.
    SKY801 "unreadable-manifest" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for document in &input.documents.unreadable {
        let message = match &document.reason {
            UnreadableReason::Syntax(reason) => format!("not valid YAML: {reason}"),
            UnreadableReason::NotAnObject => "not a Kubernetes object".to_owned(),
            UnreadableReason::Template => continue,
        };
        let subject = Subject::object("File", &document.file);
        findings.report_at(&document.file, document.line, subject, message);
    }
}
