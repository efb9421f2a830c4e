//! A check for unreachable webhooks that would reject a change, made before the first write.

use crate::api::Skyhook;
use crate::cluster::{Cluster, Source};
use crate::error::{Error, Result};
use crate::plan::{Consequences, Refusal};
use crate::rules::{self, Scope};
use crate::view::shell_words;

/// The rule whose remedies unblock the change.
const RULE: &str = "SKY505";

/// Refuses a change of a custom resource that an unreachable webhook would reject.
///
/// # Errors
///
/// A webhook is unreachable. The error names it, and the commands that unblock the change: this program does not change
/// webhooks of others.
pub fn refuse_unreachable(
    cluster: &Cluster,
    operation: &str,
    skyhook: &Skyhook,
    consequences: &mut Consequences,
) -> Result<()> {
    if let Some(why) = cluster.source(Source::Webhooks).unread() {
        consequences.warn(format!(
            "cannot read {}: {why}; an unreachable webhook may reject this change",
            Source::Webhooks
        ));
    }
    let dead = cluster.webhooks().unreachable(operation, Some(skyhook));
    let Some(first) = dead.iter().find(|d| d.certain) else {
        return Ok(());
    };
    let configuration = first.configuration;
    let mut error = Error::from(Refusal::UnreachableWebhook {
        webhook: first.webhook.name.to_string(),
        configuration: format!("{}/{}", configuration.kind.to_lowercase(), configuration.metadata.name),
        why: first.why.to_string(),
    });
    let scope = Scope { rules: rules::find(RULE).into_iter().collect(), ..Scope::default() };
    for finding in rules::diagnose(cluster, &scope).findings {
        let about = |name: &str, kind: &str| {
            dead.iter().map(|d| d.configuration).any(|c| c.metadata.name == name && c.kind == kind)
        };
        if about(&finding.subject.name, &finding.subject.kind) {
            for remedy in finding.remedies() {
                let command = shell_words(&remedy.argv);
                if !error.hints.contains(&command) {
                    error = error.hint(command);
                }
            }
        }
    }
    Err(error)
}
