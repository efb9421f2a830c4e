//! What blocks something that one waits for, look after look.

use std::time::Duration;

use super::diagnosis::Diagnosis;
use crate::cluster::Cluster;
use crate::ctx::Blocked;
use crate::rules::confirm::{Suspects, tolerated};
use crate::rules::{self, Finding, Goal, Report, Scope};

/// The blockers that were seen, and those that ended it.
pub struct Blockers {
    suspects: Suspects,
    found: Option<(Cluster, Report)>,
}

impl Blockers {
    /// What is retried may fail for `tolerate`; by default as long as the executor of this cluster warrants.
    pub fn new(cluster: &Cluster, tolerate: Option<Duration>) -> Blockers {
        let executor = cluster.flavor().executor();
        Blockers {
            suspects: Suspects::new(tolerate.unwrap_or(tolerated(executor))),
            found: None,
        }
    }

    /// Whether findings about these custom resources block the goal, now and at the look before.
    pub fn judge(&mut self, cluster: &Cluster, names: &[String], goal: Goal<'_>) -> Blocked {
        let scope = Scope {
            skyhooks: names.to_vec(),
            ..Scope::default()
        };
        let (_, report) = self.confirm(cluster, &scope, |report| {
            let skyhooks = names.iter().filter_map(|name| cluster.skyhook(name));
            skyhooks
                .flat_map(|skyhook| rules::blockers(cluster, report, skyhook, goal))
                .collect()
        });
        if report.findings.is_empty() {
            return if self.look_again() {
                Blocked::Perhaps
            } else {
                Blocked::No
            };
        }
        let names = report.findings.iter().map(name_of).collect();
        self.found = Some((cluster.clone(), report));
        Blocked::By(names)
    }

    /// All that is found; and of these findings the ones that were there at the look before, too.
    pub fn confirm(
        &mut self,
        cluster: &Cluster,
        scope: &Scope,
        of: impl Fn(&Report) -> Vec<&Finding>,
    ) -> (Report, Report) {
        let report = rules::diagnose(cluster, scope);
        let confirmed = self.suspects.confirm(cluster.taken_at, &of(&report));
        let confirmed = report.clone().stuck_by(&confirmed);
        (report, confirmed)
    }

    /// Whether there are some that the next look may confirm.
    pub fn look_again(&self) -> bool {
        self.suspects.look_again()
    }

    /// Forgets what was seen: something else is waited for now.
    pub fn clear(&mut self) {
        self.suspects.clear();
    }

    /// What ended it.
    pub fn found(&self) -> Option<Diagnosis<'_>> {
        let (cluster, report) = self.found.as_ref()?;
        Some(Diagnosis::new(cluster, report.clone()))
    }
}

/// `SKY112 gpu driver node-2`
fn name_of(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut words = vec![finding.rule.code];
    words.extend(subject.skyhook.as_deref());
    words.extend(subject.package.as_deref());
    words.extend(subject.node.as_deref());
    if words.len() == 1 {
        words.push(&subject.name);
    }
    words.join(" ")
}
