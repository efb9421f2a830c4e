use super::syntax::is_duration;
use super::{Input, LintFindings};
use crate::lint::Manifest;

lint_rule! {
    /// A duration is not valid.
    ///
    /// # What it means
    ///
    /// The webhook cannot decode the object and rejects it; negative timeouts are rejected, too.
    ///
    /// # How to fix
    ///
    /// Write numbers with units: `90s`, `15m`, `1h30m`. There is no unit for days.
    SKY821 "duration-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for field in ["timeout", "gracePeriod"] {
            duration(manifest, &["spec", "drainConfig", field], true, findings);
        }
        for (name, _) in skyhook.packages() {
            duration(manifest, &["spec", "packages", name, "gracefulShutdown"], false, findings);
            duration(manifest, &["spec", "packages", name, "stageTimeout"], true, findings);
        }
    }
}

fn duration(manifest: &Manifest, path: &[&str], positive: bool, findings: &mut LintFindings) {
    let Some(text) = manifest.get(path).and_then(|value| value.as_str()) else {
        return;
    };
    let field = path.last().copied().unwrap_or_default();
    if !is_duration(text) {
        let message = format!("{field} {text:?} is not a duration");
        findings.report(manifest, path, message).fix("Write numbers with units, such as 90s, 15m or 1h30m");
    } else if positive && text.starts_with('-') {
        findings.report(manifest, path, format!("{field} must not be negative"));
    }
}
