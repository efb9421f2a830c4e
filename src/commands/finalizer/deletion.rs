//! The state of a deletion, and its remedies. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Skyhook;
use crate::cluster::deletion::Pending;
use crate::cluster::{Certainty, Cluster};
use crate::model::{Model, ProgressState};
use crate::rules::support::blockers::{blockers, delays};
use crate::rules::{self, Finding, Goal, Grade, Remedy, Scope, Severity};
use crate::view::plural;

/// The rule for deletions without a known cause: it has no remedy milder than the strip.
const WITHOUT_CAUSE: &str = "SKY113";
const STRIP: &str = "finalizer strip";

/// The state of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeletionState {
    /// The deletion was not requested.
    NotDeleting,
    /// The deletion makes progress.
    Progressing,
    /// The deletion takes long or fails in part, but may still finish.
    Slow,
    /// The deletion does not finish until someone intervenes.
    Blocked,
    /// The operator's finalizer is removed; only finalizers of third parties remain.
    HeldByOthers,
    /// The state cannot be determined: pods or Jobs of packages could not be read.
    Unknown,
}

/// A custom resource's deletion: its state, blockers and findings.
#[derive(Debug)]
pub struct Deletion<'a> {
    cluster: &'a Cluster,
    pub skyhook: &'a Skyhook,
    pub state: DeletionState,
    pub reason: String,
    pub pending: Vec<Pending<'a>>,
    /// All findings about the custom resource, most severe first.
    pub findings: Vec<Finding>,
    /// The blockers: permanent ones first, then those that may resolve themselves.
    held_by: Vec<Finding>,
    /// Whether no replica of the operator is available, or no operator is installed.
    pub operator_down: bool,
}

impl<'a> Deletion<'a> {
    pub fn of(cluster: &'a Cluster, skyhook: &'a Skyhook) -> Self {
        let scope = Scope { skyhooks: vec![skyhook.name().to_owned()], ..Scope::default() };
        let report = rules::diagnose(cluster, &scope);
        let mut deletion = Deletion {
            cluster,
            skyhook,
            state: DeletionState::NotDeleting,
            reason: "no deletion was requested".to_owned(),
            // Without the operator's finalizer, the deletion waits for no uninstall.
            pending: if skyhook.deleting() && !skyhook.has_finalizer() {
                Vec::new()
            } else {
                cluster.pending_uninstalls(skyhook)
            },
            held_by: Vec::new(),
            operator_down: cluster.operator_down() || cluster.operator_absent(),
            findings: Vec::new(),
        };
        if skyhook.deleting() {
            let blockers = blockers(cluster, &report, skyhook, Goal::Deletion);
            let delays = delays(cluster, &report, skyhook);
            (deletion.state, deletion.reason) = deletion.state(&blockers, &delays);
            let held_by = blockers.into_iter().chain(delays);
            deletion.held_by = held_by.cloned().collect();
        }
        deletion.findings = report.findings;
        deletion
    }

    fn state(&self, blockers: &[&Finding], delays: &[&Finding]) -> (DeletionState, String) {
        let cluster = self.cluster;
        let runs = cluster.package_runs_for(self.skyhook.name());
        let runs = runs.all().iter().any(|run| cluster.may_progress(run) && run.trouble().is_none());
        let old = cluster.is_stale(self.skyhook.metadata.deletion_timestamp);
        let left = plural(self.pending.len(), "uninstall");
        if !self.skyhook.has_finalizer() {
            let others = self.skyhook.third_party_finalizers().join(", ");
            let reason = format!("only third-party finalizers are left: {others}");
            (DeletionState::HeldByOthers, reason)
        } else if let Some(blocker) = blockers.first() {
            let at_work = if cluster.certainty_of_no_package_run() == Certainty::Unknown {
                "; package pods or jobs could not be read and may still be running"
            } else if runs {
                "; pods are still running"
            } else {
                ""
            };
            let reason = format!("{}{at_work}", with_node(blocker));
            (DeletionState::Blocked, reason)
        } else if cluster.certainty_of_no_package_run() == Certainty::Unknown {
            let reason = "package pods or jobs could not be read and may still be running";
            (DeletionState::Unknown, reason.to_owned())
        } else if let Some(delay) = delays.first() {
            (DeletionState::Slow, with_node(delay))
        } else if cluster.nodes.ok().is_none() {
            let reason = "nodes could not be read, so the remaining uninstalls are unknown";
            (DeletionState::Unknown, reason.to_owned())
        } else if self.pending.is_empty() {
            let reason = "nothing is left to uninstall; the operator removes its finalizer next";
            (DeletionState::Progressing, reason.to_owned())
        } else if old && !self.advances() {
            (DeletionState::Slow, format!("{left} left, and none is running"))
        } else {
            (DeletionState::Progressing, format!("{left} left"))
        }
    }

    /// Whether the operator works on any node, or waits for something that is expected to happen.
    fn advances(&self) -> bool {
        let model = Model::new(self.cluster);
        let mut all = model.all_progress(self.skyhook.name());
        all.any(|(_, progress)| matches!(progress.state, ProgressState::Running | ProgressState::Waiting))
    }

    /// All remedies, least disruptive first; stripping the finalizer comes last.
    pub fn remedies(&self) -> Vec<Remedy> {
        let mut remedies: Vec<Remedy> = Vec::new();
        let grave = |f: &&Finding| f.severity >= Severity::Warning;
        for remedy in self.findings.iter().filter(grave).flat_map(|f| f.remedies()) {
            if !remedy.runs(STRIP) && remedies.iter().all(|r| r.argv != remedy.argv) {
                remedies.push(remedy);
            }
        }
        remedies.sort_by_key(|r| r.grade);
        if self.may_finish() {
            remedies.insert(0, self.wait());
        }
        if self.state == DeletionState::HeldByOthers {
            let see = self.show_finalizers();
            remedies.retain(|r| r.argv != see.argv);
            remedies.insert(0, see);
        }
        remedies.extend(self.strip());
        remedies
    }

    /// The remedy that strips the operator's finalizer, with `--force` if the strip would be refused without it.
    fn strip(&self) -> Option<Remedy> {
        if !self.skyhook.deleting() || !self.skyhook.has_finalizer() {
            return None;
        }
        let mut argv = own(&["finalizer", "strip", self.skyhook.name()]);
        if self.objection().is_some() {
            argv.push("--force".to_owned());
        }
        let caveat = if self.cluster.operator_absent() {
            "uninstall.sh does not run on any node; if you plan to reinstall the operator, do so instead: \
                 the operator then finishes the deletion"
        } else {
            "uninstall.sh does not run on any node"
        };
        Some(Remedy {
            caveat: Some(caveat.to_owned()),
            ..Remedy::new(Grade::B4, "Strip the finalizer", argv)
        })
    }

    /// Why stripping requires `--force`, with a better remedy.
    pub fn objection(&self) -> Option<Objection> {
        if self.cluster.operator_absent() {
            return None;
        }
        let others = self.skyhook.third_party_finalizers();
        if !others.is_empty() && !self.skyhook.paused() {
            return Some(Objection {
                why: format!(
                    "{} would stay because of third-party finalizers ({}), and the operator would run its packages again",
                    self.skyhook.reference(),
                    others.join(", ")
                ),
                instead: self.show_finalizers().argv,
            });
        }
        let acts = self.milder(Finding::changing_remedy);
        let exists = if acts.is_some() {
            "a less disruptive remedy exists"
        } else {
            "the cause should be checked first"
        };
        if let Some((finding, remedy)) = acts.or_else(|| self.less_disruptive()) {
            return Some(Objection {
                why: format!("{exists} for {}: {}", finding.rule.code, with_node(finding)),
                instead: remedy.argv,
            });
        }
        self.may_finish().then(|| Objection {
            why: format!("the deletion may still finish on its own: {}", self.reason),
            instead: self.wait().argv,
        })
    }

    /// The remedy to apply now.
    pub fn recommended(&self) -> Option<Remedy> {
        if let Some(strip) = self.strip().filter(|_| self.cluster.operator_absent()) {
            return Some(strip);
        }
        if self.may_finish() {
            return Some(self.wait());
        }
        if self.state == DeletionState::HeldByOthers {
            return Some(self.show_finalizers());
        }
        let milder = self.less_disruptive().map(|(_, remedy)| remedy);
        milder.or_else(|| self.remedies().into_iter().next())
    }

    /// The first remedy other than a strip, with its finding.
    fn less_disruptive(&self) -> Option<(&Finding, Remedy)> {
        self.milder(|f| f.remedies().find(|r| !r.runs(STRIP)))
    }

    /// The first chosen remedy other than a strip, with its finding.
    fn milder(&self, choose: impl Fn(&Finding) -> Option<Remedy>) -> Option<(&Finding, Remedy)> {
        let mut caused = self.held_by.iter().filter(|f| f.rule.code != WITHOUT_CAUSE);
        caused.find_map(|f| Some((f, choose(f).filter(|r| !r.runs(STRIP))?)))
    }

    /// Whether the deletion may still finish without help.
    fn may_finish(&self) -> bool {
        let may =
            matches!(self.state, DeletionState::Progressing | DeletionState::Slow | DeletionState::Unknown);
        may && self.less_disruptive().is_none()
    }

    fn show_finalizers(&self) -> Remedy {
        let resource = self.cluster.flavor().resource();
        let argv = kubectl(&["get", &resource, self.skyhook.name(), "-o", "yaml"]);
        Remedy::new(Grade::B0, "Show the remaining finalizers", argv)
    }

    /// The command that waits for the deletion.
    fn wait(&self) -> Remedy {
        let argv = own(&["wait", self.skyhook.name(), "--for=deleted"]);
        Remedy::new(Grade::B0, "Wait for the deletion", argv)
    }
}

/// Why a strip requires `--force`.
#[derive(Debug)]
pub struct Objection {
    pub why: String,
    /// The command to run instead.
    pub instead: Vec<String>,
}

/// The finding's message, with its node.
fn with_node(finding: &Finding) -> String {
    match &finding.subject.node {
        Some(node) => format!("on {node}: {}", finding.message),
        None => finding.message.clone(),
    }
}

fn own(words: &[&str]) -> Vec<String> {
    kubectl(&[&["skyhook"], words].concat())
}

fn kubectl(words: &[&str]) -> Vec<String> {
    let all = std::iter::once(&"kubectl").chain(words);
    all.map(|w| (*w).to_owned()).collect()
}
