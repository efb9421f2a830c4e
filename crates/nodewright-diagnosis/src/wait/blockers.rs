//! Findings that block a goal in consecutive checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::Executor;
use crate::cluster::Cluster;
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Finding, FindingKey, Goal, Report, Scope};

/// Time for which failures of a pod that restarts in place are tolerated: about four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// The blockers that the last check found, each with the time at which it was first found, and the blockers
/// that ended the wait.
pub struct Blockers {
    /// Time for which failures of retried operations are tolerated.
    tolerate: Duration,
    seen: BTreeMap<FindingKey, Timestamp>,
    /// Whether the last check found new blockers, which the next check may confirm.
    pub look_again: bool,
    /// The cluster and the report that ended the wait.
    pub found: Option<(Cluster, Report)>,
}

impl Blockers {
    /// Tolerates failures of retried operations for `tolerate`. The default is two minutes for bare pods, and
    /// none for Jobs, which count their attempts themselves: the rules detect a permanent failure.
    pub fn new(cluster: &Cluster, tolerate: Option<Duration>) -> Blockers {
        let usual = match cluster.flavor().executor() {
            Executor::Pod => RESTARTS,
            Executor::Job => Duration::ZERO,
        };
        Blockers {
            tolerate: tolerate.unwrap_or(usual),
            seen: BTreeMap::new(),
            look_again: false,
            found: None,
        }
    }

    /// Checks the goals of custom resources. Returns the findings that block them in this check and the
    /// previous one, and for the tolerated time, in a few words each.
    pub fn judge(&mut self, cluster: &Cluster, goals: &[(&str, Goal<'_>)]) -> Vec<String> {
        let scope = Scope {
            skyhooks: goals.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..Scope::default()
        };
        let (_, report) = self.confirm(cluster, &scope, |report| {
            let findings = &report.findings;
            let blocking = BlockingFindings::of(findings);
            let known = goals.iter().filter_map(|(name, goal)| Some((cluster.skyhook(name)?, *goal)));
            known.flat_map(|(skyhook, goal)| blocking.of_goal(findings, cluster, skyhook, goal)).collect()
        });
        let names: Vec<String> = report.findings.iter().map(name_of).collect();
        if !names.is_empty() {
            self.found = Some((cluster.clone(), report));
        }
        names
    }

    /// Runs the rules. Returns the whole report, and a report of the findings selected by `of` that the
    /// previous check also found and that have lasted. Sources are read in parallel, so a single check may
    /// combine data of different times.
    pub fn confirm(
        &mut self,
        cluster: &Cluster,
        scope: &Scope,
        of: impl Fn(&Report) -> Vec<&Finding>,
    ) -> (Report, Report) {
        let report = rules::diagnose(cluster, scope);
        let before = std::mem::take(&mut self.seen);
        let mut confirmed = BTreeSet::new();
        self.look_again = false;
        for finding in of(&report) {
            let key = finding.key();
            let since = before.get(&key).copied();
            match since {
                Some(since) if self.lasted(finding, since, cluster.taken_at) => {
                    confirmed.insert(key.clone());
                }
                Some(_) => {}
                None => self.look_again = true,
            }
            self.seen.insert(key, since.unwrap_or(cluster.taken_at));
        }
        let confirmed = report.clone().stuck_by(&confirmed);
        (report, confirmed)
    }

    /// Forgets the findings, before the command waits for something else.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.look_again = false;
    }

    /// Whether the finding blocks now: it is not retried, or has failed for the tolerated time.
    fn lasted(&self, finding: &Finding, since: Timestamp, now: Timestamp) -> bool {
        let since = finding.failing_since.map_or(since, |at| at.min(since));
        let lasted = Duration::try_from(now.duration_since(since));
        !finding.rule.retried || lasted.is_ok_and(|lasted| lasted >= self.tolerate)
    }
}

/// Formats a finding: `SKY112 gpu driver node-2`.
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
