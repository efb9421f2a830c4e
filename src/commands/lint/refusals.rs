//! Dry runs of manifests on the server.

use crate::ctx::Ctx;
use crate::lint::{Input, LintReport};
use crate::plan::Target;
use crate::rules::Severity;

/// Asks the server about the manifests without errors, and warns about those that it cannot check. Returns whether
/// there are any.
pub(super) async fn read(ctx: &mut Ctx, input: &mut Input<'_>, report: &LintReport) -> bool {
    let mut unread = false;
    for (at, manifest) in input.documents.manifests.iter().enumerate() {
        let mut errors = report.open().filter(|finding| finding.severity == Severity::Error);
        let refused = errors.any(|f| {
            let of = &f.subject;
            (&f.file, &of.kind, &of.name) == (&manifest.file, &manifest.kind, &manifest.name)
        });
        let Some(flavor) = manifest.flavor().filter(|_| manifest.is_known_kind() && !refused) else {
            continue;
        };
        let target = match manifest.policy() {
            Some(_) => Target::policy(flavor, &manifest.name, None),
            None => Target::skyhook(flavor, &manifest.name, None),
        };
        match ctx.refusal(&target, &manifest.value).await {
            Ok(refusal) => input.refusals.extend(refusal.map(|why| (at, why))),
            Err(why) => {
                ctx.warn(format!("{target} was not checked by the server: {why}"));
                unread = true;
            }
        }
    }
    unread
}
