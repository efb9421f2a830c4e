//! The progress of a teardown, updated with each read of the cluster.

use std::cell::OnceCell;
use std::time::Duration;

use serde_json::Value;

use super::blocker::{self, Blocker};
use super::{Planned, RemovalState, Teardown};
use crate::cluster::Cluster;
use crate::ctx::{Aim, AimProgress};
use crate::error::Exit;
use crate::plan::Goal;
use crate::rules::Scope;
use crate::rules::support::blockers::BlockingFindings;
use crate::view::text::{self, Label, Line, Text};
use crate::view::{Table, View, count, document, list};
use crate::wait::{BlockerCheck, Wait};

/// Time for pods to terminate after their owner is deleted.
const PODS_GRACE: Duration = Duration::from_secs(120);
/// Maximum number of pending deletions listed at once.
const LISTED: usize = 10;

impl Planned {
    /// Whether uninstalls are left, and the operator starts none because the custom resource is paused or disabled.
    /// Needs no second check: only a user ends this.
    fn is_stopped(&self, cluster: &Cluster) -> bool {
        let skyhook = self.find(cluster).and_then(|found| found.skyhook);
        self.flavor == cluster.flavor()
            && skyhook.is_some_and(|s| s.stopped().is_some() && !cluster.pending_uninstalls(s).is_empty())
    }
}

impl Teardown {
    fn all_gone(&self) -> bool {
        self.items.iter().all(|p| p.state == RemovalState::Gone)
    }

    /// The package pods and jobs that must be gone, too.
    fn package_runs(&self, cluster: &Cluster) -> Vec<String> {
        let names: Vec<&str> = self.items.iter().map(|planned| planned.goal.target.name.as_str()).collect();
        blocker::package_runs(cluster, (!self.whole).then_some(&names))
    }

    fn progress(&self) -> String {
        let gone = self.items.iter().filter(|p| p.state == RemovalState::Gone).count();
        format!("{} of {} gone", count(gone), count(self.items.len()))
    }

    /// A sentence on whether it is safe to uninstall the operator.
    pub fn verdict(&self) -> String {
        let what = if self.items.is_empty() { "Nothing to remove" } else { "Everything is gone" };
        if !self.whole {
            "All named custom resources are gone".to_owned()
        } else if self.safe {
            format!("{what}: it is safe to uninstall the operator")
        } else if !self.remaining.is_empty() {
            "Not safe to uninstall the operator yet: not everything has been removed".to_owned()
        } else {
            "Cannot tell whether it is safe to uninstall the operator: not everything could be read"
                .to_owned()
        }
    }
}

impl Aim for Teardown {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let mut news: Vec<Line> = Vec::new();
        for planned in self.items.iter_mut().filter(|p| p.awaited) {
            let target = &planned.goal.target;
            let stopped = planned.is_stopped(cluster);
            if planned.state == RemovalState::NotStarted {
                // Replace the expected blockers by the observed ones; a pause or disable needs no observation.
                if !stopped {
                    planned.blockers.clear();
                }
                if !planned.was_deleting {
                    news.push(format!("requested the deletion of {target}").into());
                }
            }
            let Wait::Pending(progress) = planned.goal.reached(cluster, &OnceCell::new()) else {
                if planned.state != RemovalState::Gone {
                    news.push(format!("gone: {target}").into());
                }
                planned.state = RemovalState::Gone;
                planned.blockers.clear();
                continue;
            };
            planned.progress = progress;
            if stopped {
                planned.state = RemovalState::Blocked;
            } else if planned.state != RemovalState::Blocked {
                planned.state = RemovalState::InProgress;
            }
        }
        let mut over = self.items.iter().any(|p| p.awaited && p.state == RemovalState::Gone);
        if self.all_gone() {
            self.all_gone_at.get_or_insert(cluster.taken_at);
            // Pods are deleted after their owners.
            over &= self.package_runs(cluster).is_empty();
            if over {
                self.close(cluster);
            }
        }
        let mut whole = Text::new();
        whole.line(self.progress()).append(self.under_way(LISTED));
        let awaited = self.items.iter().filter(|p| p.awaited).map(|p| p.goal.describe());
        let state = if over { Wait::Met } else { Wait::Pending(list(&Vec::from_iter(awaited))) };
        AimProgress { state, whole, news }
    }

    /// The blockers, once every awaited deletion is blocked: until then, other deletions may make progress.
    /// After the last deletion, the remaining pods and Jobs of packages.
    fn blocked(&mut self, cluster: &Cluster) -> BlockerCheck {
        if let Some(since) = self.all_gone_at {
            let waited = Duration::try_from(cluster.taken_at.duration_since(since));
            if waited.is_ok_and(|waited| waited < PODS_GRACE) {
                self.blockers.clear();
                return BlockerCheck::default();
            }
            self.close(cluster);
            return BlockerCheck { blockers: self.package_runs(cluster), look_again: false };
        }
        let scope = Scope::default();
        let (report, confirmed, mut look_again) = self.blockers.confirm(cluster, &scope, |report| {
            report.findings.iter().filter(|finding| finding.blocks_for_good()).collect()
        });
        let [blocking, confirmed_blocking] =
            [&report, &confirmed].map(|report| BlockingFindings::of(&report.findings));
        let mut blockers = Vec::new();
        let mut all_blocked = true;
        for planned in self.items.iter_mut().filter(|p| p.awaited) {
            let now = blocker::of(cluster, &report, &blocking, planned, false);
            let before = std::mem::replace(&mut planned.blockers, now);
            let mut confirmed = blocker::of(cluster, &confirmed, &confirmed_blocking, planned, false);
            // The owner of a finalizer may remove it at any time: confirm such a blocker with a second check.
            confirmed.retain(|b| b.code.is_some() || before.contains(b));
            let new = |b: &Blocker| b.code.is_none() && !before.contains(b);
            look_again |= planned.blockers.iter().any(new);
            all_blocked &= !confirmed.is_empty();
            planned.state = if confirmed.is_empty() && !planned.is_stopped(cluster) {
                RemovalState::InProgress
            } else {
                RemovalState::Blocked
            };
            blockers.extend(confirmed.first().map(|b| format!("{}: {}", planned.goal.target, b.brief())));
        }
        BlockerCheck { blockers: if all_blocked { blockers } else { Vec::new() }, look_again }
    }

    fn begin(&mut self, goals: &[&Goal]) -> bool {
        for planned in &mut self.items {
            planned.awaited = goals.contains(&&planned.goal);
        }
        // An object whose deletion has not been observed does not count as deleted.
        false
    }

    fn found(&self) -> Option<Box<dyn View + '_>> {
        Some(Box::new(self))
    }

    fn summary(&self, finished: bool, begun: bool) -> Option<String> {
        if finished {
            return Some(self.verdict());
        }
        let mut progress = self.progress();
        if begun || self.items.iter().any(|p| p.was_deleting) {
            progress += "; deletions in progress continue and cannot be canceled; to recreate an object: `kubectl skyhook undelete NAME`";
        }
        Some(progress)
    }

    fn exit(&self) -> Exit {
        if self.safe || !self.whole && self.all_gone() {
            Exit::Done
        } else if !self.remaining.is_empty() {
            Exit::Findings
        } else if self.items.is_empty() {
            // Some sources could not be read.
            Exit::Failed
        } else {
            Exit::Partly
        }
    }
}

impl Teardown {
    /// The unfinished deletions, at most `most`.
    pub fn under_way(&self, most: usize) -> Text {
        let mut table = Table::new(["object", "state", "reason", "next"]);
        let mut more = 0;
        for planned in &self.items {
            let (label, state) = match planned.state {
                RemovalState::NotStarted | RemovalState::Gone => continue,
                _ if table.len() == most => {
                    more += 1;
                    continue;
                }
                RemovalState::InProgress => (Label::Warning, "in progress"),
                RemovalState::Blocked => (Label::Error, "blocked"),
            };
            let first = planned.blockers.first().filter(|_| state == "blocked");
            let why = match (first, planned.blockers.len()) {
                (None, _) => planned.progress.clone(),
                (Some(first), 1) => first.brief(),
                (Some(first), n) => format!("{} (and {} more)", first.brief(), n - 1),
            };
            let next = first.and_then(|b| b.remedy.as_ref());
            table.row([
                text::name(&planned.goal.target).into(),
                label.span(state).into(),
                why.as_str().into(),
                next.map_or(Line::from(""), |n| text::command(n).into()),
            ]);
        }
        let mut text = Text::from(table);
        if more > 0 {
            text.line(text::dim(format!("and {} more", count(more))));
        }
        text
    }

    fn leftover_lines(&self) -> Text {
        let mut text = Text::new();
        for (label, all) in [(Label::Error, &self.remaining), (Label::Dim, &self.leftovers)] {
            for left in all {
                text.item("- ", label.span("left: ") + left.to_string().as_str());
                if let Some(next) = &left.remedy {
                    let mut command = Text::new();
                    command.line(text::command(next));
                    text.indented(4, command);
                }
            }
        }
        text
    }
}

/// The unfinished deletions of a teardown, and the leftovers.
impl View for &Teardown {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = self.under_way(usize::MAX);
        text.append(self.leftover_lines());
        text
    }

    fn names(&self) -> Vec<String> {
        let left = self.items.iter().filter(|p| p.state != RemovalState::Gone);
        left.map(|p| p.goal.target.to_string()).collect()
    }

    fn document(&self) -> Value {
        document("Teardown", self)
    }
}
