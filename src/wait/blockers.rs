//! Findings that block a goal, and persist over several checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::Executor;
use crate::cluster::Cluster;
use crate::rules::blockers::BlockingFindings;
use crate::rules::{self, Finding, FindingKey, Goal, Report, Scope};

/// How long a pod that restarts in place may fail: some four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// The blockers of the last check, since when they are there, and those that ended the wait.
pub struct Blockers {
    /// The time that a retried operation may fail before it counts.
    tolerate: Duration,
    seen: BTreeMap<FindingKey, Timestamp>,
    /// Whether the last check found some that the next one may confirm.
    pub look_again: bool,
    /// What ended the wait.
    pub found: Option<(Cluster, Report)>,
}

impl Blockers {
    /// Retried failures are tolerated for as long as `tolerate`. A Job counts its attempts itself, and the rules detect its
    /// permanent failure.
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

    /// The findings that block the goals of these custom resources, both now and at the last check, in a few words each.
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

    /// Everything that the rules find now; and of the findings that `of` picks, those that were also there last time:
    /// sources are read in parallel, and one check may mix two moments.
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

    /// Forgets the findings: the command now waits for something else.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.look_again = false;
    }

    /// Whether it is no failure that is retried, or has failed for the tolerated time.
    fn lasted(&self, finding: &Finding, since: Timestamp, now: Timestamp) -> bool {
        let since = finding.failing_since.map_or(since, |at| at.min(since));
        let lasted = Duration::try_from(now.duration_since(since));
        !finding.rule.retried || lasted.is_ok_and(|lasted| lasted >= self.tolerate)
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
