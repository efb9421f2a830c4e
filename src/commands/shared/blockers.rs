//! Whether findings block the goal of a command. Used again at each check of the cluster.

use std::time::Duration;

use super::diagnosis::Diagnosis;
use crate::cluster::Cluster;
use crate::ctx::Blocked;
use crate::rules::blockers::BlockingFindings;
use crate::rules::confirm::{Suspects, tolerated};
use crate::rules::{self, Finding, Goal, Report, Scope};

/// The blockers found so far, and those that ended the wait.
pub struct Blockers {
    suspects: Suspects,
    found: Option<(Cluster, Report)>,
}

impl Blockers {
    /// Retried failures are tolerated for as long as `tolerate`; the default depends on the executor of this cluster.
    pub fn new(cluster: &Cluster, tolerate: Option<Duration>) -> Blockers {
        let executor = cluster.flavor().executor();
        Blockers {
            suspects: Suspects::new(tolerate.unwrap_or(tolerated(executor))),
            found: None,
        }
    }

    /// Whether findings about these custom resources block the goal, both now and at the last check.
    pub fn judge(&mut self, cluster: &Cluster, names: &[String], goal: Goal<'_>) -> Blocked {
        let scope = Scope {
            skyhooks: names.to_vec(),
            ..Scope::default()
        };
        let (_, report) = self.confirm(cluster, &scope, |report| {
            let blocking = BlockingFindings::of(&report.findings);
            let skyhooks = names.iter().filter_map(|name| cluster.skyhook(name));
            skyhooks
                .flat_map(|skyhook| blocking.of_goal(&report.findings, cluster, skyhook, goal))
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

    /// Everything that the rules find now; and of the findings that `of` picks, those that were also there last time.
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

    /// Whether there are findings that may be confirmed next time.
    pub fn look_again(&self) -> bool {
        self.suspects.look_again()
    }

    /// Forgets the findings: the command now waits for something else.
    pub fn clear(&mut self) {
        self.suspects.clear();
    }

    /// The findings that ended the wait.
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
