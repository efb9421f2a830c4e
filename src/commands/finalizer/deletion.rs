//! The state of a deletion, and its remedies. Pure.

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::cluster::deletion::Pending;
use crate::model::ProgressState;
use crate::outlook::{Outlook, with_node};
use crate::rules::{self, Finding, Grade, Remedy, Scope, Severity};

/// The rule for deletions without a known cause: it has no remedy milder than the strip.
const WITHOUT_CAUSE: &str = "SKY113";
const STRIP: &str = "finalizer strip";

/// A custom resource's deletion: its state, blockers and findings.
#[derive(Debug)]
pub struct Deletion<'a> {
    cluster: &'a Cluster,
    pub skyhook: &'a Skyhook,
    /// As in [`DeletionOutlook`](crate::outlook::DeletionOutlook); `None` if no deletion was requested.
    pub state: Option<ProgressState>,
    pub reason: String,
    pub pending: Vec<Pending<'a>>,
    /// All findings about the custom resource, most severe first.
    pub findings: Vec<Finding>,
    /// The blockers: permanent ones first, then those that may resolve themselves.
    held_up_by: Vec<Finding>,
    /// Whether no replica of the operator is available, or no operator is installed.
    pub operator_down: bool,
}

impl<'a> Deletion<'a> {
    pub fn of(cluster: &'a Cluster, skyhook: &'a Skyhook) -> Self {
        let scope = Scope { skyhooks: vec![skyhook.name().to_owned()], ..Scope::default() };
        let outlook = Outlook::new(cluster, rules::diagnose(cluster, &scope).findings);
        let deletion = outlook.deletion(skyhook);
        let (state, reason, held_up_by, pending) = match deletion {
            Some(deletion) => {
                let held_up_by = deletion.held_up_by.into_iter().cloned().collect();
                (Some(deletion.state), deletion.reason, held_up_by, deletion.pending)
            }
            None => {
                let reason = "no deletion was requested".to_owned();
                (None, reason, Vec::new(), cluster.pending_uninstalls(skyhook))
            }
        };
        let operator_down = cluster.operator_down() || cluster.operator_absent();
        let findings = outlook.findings;
        Deletion { cluster, skyhook, state, reason, pending, findings, held_up_by, operator_down }
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
        if self.state == Some(ProgressState::Blocked) {
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
        if self.state == Some(ProgressState::Blocked) {
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
        let mut caused = self.held_up_by.iter().filter(|f| f.rule.code != WITHOUT_CAUSE);
        caused.find_map(|f| Some((f, choose(f).filter(|r| !r.runs(STRIP))?)))
    }

    /// Whether the deletion may still finish without help.
    fn may_finish(&self) -> bool {
        use ProgressState::{Deleting, Unknown, Waiting};
        matches!(self.state, Some(Deleting | Waiting | Unknown)) && self.less_disruptive().is_none()
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

fn own(words: &[&str]) -> Vec<String> {
    kubectl(&[&["skyhook"], words].concat())
}

fn kubectl(words: &[&str]) -> Vec<String> {
    let all = std::iter::once(&"kubectl").chain(words);
    all.map(|w| (*w).to_owned()).collect()
}
