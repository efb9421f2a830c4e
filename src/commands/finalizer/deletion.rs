//! How a deletion stands, and the ways to its end. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Skyhook, State};
use crate::cluster::deletion::Pending;
use crate::cluster::{Absence, Cluster};
use crate::rules::{self, Finding, Grade, Remedy, Rule, Scope, Severity};
use crate::view::plural;

/// The rules that say why a deletion does not get on.
const CODES: [&str; 10] = [
    "SKY101", "SKY102", "SKY108", "SKY109", "SKY110", "SKY112", "SKY113", "SKY114", "SKY409",
    "SKY505",
];
/// The one that fires where no cause is known: it has nothing milder to offer.
const WITHOUT_CAUSE: &str = "SKY113";
/// The one that says that the operator is down, and how to start it.
const OPERATOR_DOWN: &str = "SKY501";

/// The rules that say why a deletion does not get on.
pub fn deletion_rules() -> Vec<&'static Rule> {
    CODES.iter().filter_map(|code| rules::find(code)).collect()
}

/// How a deletion stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Nobody asked for it.
    NotDeleting,
    Progressing,
    /// It may still get on, and takes long or partly fails.
    Slow,
    /// It does not get on by itself.
    Blocked,
    /// The operator is done with it; finalizers of others hold it.
    HeldByOthers,
    /// What could not be read may be at work.
    Unknown,
}

/// The deletion of a custom resource.
#[derive(Debug)]
pub struct Deletion<'a> {
    pub skyhook: &'a Skyhook,
    pub standing: Standing,
    /// Why it is said to stand so.
    pub because: String,
    pub pending: Vec<Pending<'a>>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// No replica of the operator is up.
    pub operator_down: bool,
}

impl<'a> Deletion<'a> {
    /// Looks at it with these rules; with all, if there are none.
    pub fn of(cluster: &'a Cluster, skyhook: &'a Skyhook, rules: Vec<&'static Rule>) -> Self {
        let scope = Scope {
            skyhooks: vec![skyhook.name().to_owned()],
            rules,
            ..Scope::default()
        };
        let mut deletion = Deletion {
            skyhook,
            standing: Standing::NotDeleting,
            because: "nobody has asked for its deletion".to_owned(),
            pending: cluster.pending_uninstalls(skyhook),
            findings: rules::diagnose(cluster, &scope).findings,
            operator_down: cluster.operator_down(),
        };
        if skyhook.deleting() {
            (deletion.standing, deletion.because) = deletion.stands(cluster);
        }
        deletion
    }

    fn stands(&self, cluster: &Cluster) -> (Standing, String) {
        let executions = cluster.executions();
        let name = self.skyhook.name();
        let mut all = executions.all().iter();
        let alive = all.any(|e| e.skyhook == name && cluster.at_work(e));
        let silent = |p: &Pending<'_>| cluster.silent_since(p.node).is_some();
        let moving = self
            .pending
            .iter()
            .any(|p| p.entry.state == State::InProgress && !silent(p));
        let old = cluster.long_ago(self.skyhook.metadata.deletion_timestamp);
        let error = self
            .about_deletion()
            .find(|f| f.severity == Severity::Error);
        let warning = self
            .about_deletion()
            .find(|f| f.severity == Severity::Warning);
        let failing = |p: &&Pending<'_>| p.entry.state == State::Erroring;
        let failing = self.pending.iter().filter(failing).count();
        let left = plural(self.pending.len(), "uninstall");
        if !self.skyhook.has_finalizer() {
            let because = "the operator is done with it; finalizers of others hold it";
            (Standing::HeldByOthers, because.to_owned())
        } else if self.operator_down {
            let because = "no replica of the operator is up, so nobody removes its finalizer";
            (Standing::Blocked, because.to_owned())
        } else if cluster.absence_of_executions() == Absence::Unknown {
            let because = "package pods or jobs could not be read: they may be at work";
            (Standing::Unknown, because.to_owned())
        } else if let Some(error) = error {
            match alive && failing < self.pending.len() {
                true => (
                    Standing::Slow,
                    match &error.subject.node {
                        Some(node) => {
                            format!("something is at work; on {node}: {}", error.message)
                        }
                        None => format!("something is at work, and {}", error.message),
                    },
                ),
                false => (Standing::Blocked, error.message.clone()),
            }
        } else if let Some(missing) = self.without_operator().filter(|_| !alive && !moving) {
            (Standing::Unknown, missing.message.clone())
        } else if let Some(warning) = warning {
            (Standing::Slow, warning.message.clone())
        } else if self.pending.is_empty() {
            let because = "nothing is left to uninstall; the operator removes its finalizer next";
            (Standing::Progressing, because.to_owned())
        } else if old && !alive && !moving {
            (Standing::Slow, format!("{left} left, and none at work"))
        } else {
            (Standing::Progressing, format!("{left} left"))
        }
    }

    /// What is found where no operator acts on anything, as far as can be seen.
    fn without_operator(&self) -> Option<&Finding> {
        self.findings.iter().find(|f| f.rule.code == OPERATOR_DOWN)
    }

    /// The findings of the rules about deletions.
    fn about_deletion(&self) -> impl Iterator<Item = &Finding> {
        let about = |f: &&Finding| CODES.contains(&f.rule.code);
        self.findings.iter().filter(about)
    }

    /// Every way to its end, mildest first; the finalizer's removal comes last.
    pub fn ladder(&self) -> Vec<Remedy> {
        let mut ladder: Vec<Remedy> = Vec::new();
        let grave = |f: &&Finding| f.severity >= Severity::Warning;
        for remedy in self.findings.iter().filter(grave).flat_map(|f| &f.remedies) {
            if !strips(remedy) && ladder.iter().all(|r| r.argv != remedy.argv) {
                ladder.push(remedy.clone());
            }
        }
        ladder.sort_by_key(|r| r.grade);
        if self.waits() {
            ladder.insert(0, self.wait());
        }
        if self.skyhook.deleting() && self.skyhook.has_finalizer() {
            let mut argv = own(&["finalizer", "strip", self.skyhook.name()]);
            if !self.operator_down && (self.waits() || self.milder().is_some()) {
                argv.push("--force".to_owned());
            }
            ladder.push(Remedy {
                title: "Strip the finalizer".to_owned(),
                argv,
                grade: Grade::B4,
                for_all_nodes: None,
                caveat: Some("uninstall.sh does not run on any node".to_owned()),
            });
        }
        ladder
    }

    /// The one step to take now.
    pub fn recommended(&self) -> Option<Remedy> {
        let acted_on = self.waits() && self.standing != Standing::Unknown;
        let without = self.without_operator().filter(|_| !acted_on);
        if let Some(start) = without.and_then(|f| f.remedies.first()) {
            return Some(start.clone());
        }
        if self.waits() {
            return Some(self.wait());
        }
        let milder = self.milder().map(|(_, remedy)| remedy.clone());
        milder.or_else(|| self.ladder().into_iter().next())
    }

    /// A milder step that would do, and the finding that names it.
    pub fn milder(&self) -> Option<(&Finding, &Remedy)> {
        let caused = |f: &&Finding| f.rule.code != WITHOUT_CAUSE && f.severity >= Severity::Warning;
        let mut findings = self.about_deletion().filter(caused);
        findings.find_map(|f| Some((f, f.remedies.iter().find(|r| !strips(r))?)))
    }

    /// Whether it may still end by itself.
    pub fn waits(&self) -> bool {
        let may = matches!(
            self.standing,
            Standing::Progressing | Standing::Slow | Standing::Unknown
        );
        may && self.milder().is_none()
    }

    /// The command that waits for its end.
    pub fn wait(&self) -> Remedy {
        Remedy {
            title: "Wait for it".to_owned(),
            argv: own(&["wait", self.skyhook.name(), "--for=deleted"]),
            grade: Grade::B0,
            for_all_nodes: None,
            caveat: None,
        }
    }
}

fn own(words: &[&str]) -> Vec<String> {
    let all = ["kubectl", "skyhook"].iter().chain(words);
    all.map(|w| (*w).to_owned()).collect()
}

fn strips(remedy: &Remedy) -> bool {
    let mut pairs = remedy.argv.windows(2);
    pairs.any(|pair| pair[0] == "finalizer" && pair[1] == "strip")
}
