//! The state of a requested deletion and its remedies, as text and as a document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::cluster::placement::Pending;
use crate::commands::shared::diagnosis::group::{Detail, FindingGroup};
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{Grades, remedy_text};
use crate::commands::shared::rule::severity;
use crate::model::ProgressState;
use crate::outlook::{DeletionOutlook, Outlook};
use crate::rules::support::causes::Cause;
use crate::rules::{Finding, FindingSummary, Grade, Remedy, Scope, Severity};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, Table, ago, cells, shell_words};

/// The rule for deletions without a known cause: it has no remedy milder than the strip.
const WITHOUT_CAUSE: &str = "SKY113";
const STRIP: &str = "finalizer strip";

/// A custom resource's deletion: its state, blockers and findings.
pub struct Deletion<'o, 'a> {
    cluster: &'a Cluster,
    grades: Grades<'a>,
    skyhook: &'a Skyhook,
    outlook: DeletionOutlook<'o, 'a>,
    /// The findings about the custom resource, those that differ only in the node together, most severe first.
    groups: Vec<FindingGroup<'o>>,
}

/// A remedy for all nodes that it concerns.
struct FoldedRemedy {
    remedy: Remedy,
    /// The command for the first node.
    first: Vec<String>,
    /// What to repeat the command for.
    repeat: Option<String>,
}

impl From<Remedy> for FoldedRemedy {
    fn from(remedy: Remedy) -> FoldedRemedy {
        FoldedRemedy { first: remedy.argv.clone(), remedy, repeat: None }
    }
}

impl<'o, 'a> Deletion<'o, 'a> {
    /// The deletion of a custom resource; `None` if it was not requested.
    pub fn of(outlook: &'o Outlook<'a>, skyhook: &'a Skyhook) -> Option<Self> {
        let cluster = outlook.cluster;
        let scope = Scope { skyhooks: vec![skyhook.name().to_owned()], ..Scope::default() };
        let concerned = scope.concerned(cluster, &outlook.findings);
        let all = outlook.findings.iter().zip(concerned).enumerate().filter(|(_, (_, concerned))| *concerned);
        let alike = all.map(|(at, (f, _))| {
            let alone = f.subject.node.is_none().then_some(at);
            ((f.rule.code, f.severity, f.trouble(), alone), at)
        });
        let group = |(_, places)| FindingGroup::of(&Cause::alone(places), &outlook.findings);
        let groups = grouped(alike).into_iter().map(group).collect();
        let grades = Grades::new(cluster);
        Some(Deletion { cluster, grades, skyhook, outlook: outlook.deletion(skyhook)?, groups })
    }

    /// All remedies, least disruptive first; stripping the finalizer comes last, unless the deletion is in progress. `whole`:
    /// whether commands name all nodes, however many.
    fn remedies(&self, whole: bool) -> Vec<FoldedRemedy> {
        let mut remedies: Vec<FoldedRemedy> = Vec::new();
        for group in self.groups.iter().filter(|group| group.first().severity >= Severity::Warning) {
            let all = if whole {
                group.remedies_for_all(&self.grades).into_iter().map(|remedy| (remedy, None)).collect()
            } else {
                group.graded_remedies(&self.grades, Detail::Full)
            };
            for ((remedy, repeat), one) in all.into_iter().zip(group.first().remedies()) {
                if !remedy.runs(STRIP) && remedies.iter().all(|known| known.first != one.argv) {
                    remedies.push(FoldedRemedy { remedy, first: one.argv, repeat });
                }
            }
        }
        remedies.sort_by_key(|folded| folded.remedy.gravity());
        if self.may_finish() {
            remedies.insert(0, self.wait().into());
        }
        if self.outlook.state == ProgressState::Blocked {
            let see = self.show_finalizers();
            remedies.retain(|folded| folded.first != see.argv);
            remedies.insert(0, see.into());
        }
        // A deletion in progress needs no last resort.
        let strip = self.strip().filter(|_| self.outlook.state != ProgressState::Deleting);
        remedies.extend(strip.map(FoldedRemedy::from));
        remedies
    }

    /// The remedy that strips the operator's finalizer, with `--force` if the strip would be refused without it.
    fn strip(&self) -> Option<Remedy> {
        if !self.skyhook.has_finalizer() {
            return None;
        }
        let force = self.objection().map(|_| "--force");
        let words = ["finalizer", "strip", self.skyhook.name()].into_iter().chain(force);
        let caveat = if self.cluster.operator().is_absent() {
            "uninstall.sh does not run on any node; if you plan to reinstall the operator, do so instead: \
                 the operator then finishes the deletion"
        } else {
            "uninstall.sh does not run on any node"
        };
        Some(Remedy {
            caveat: Some(caveat.to_owned()),
            ..Remedy::planned("Strip the finalizer", words.map(str::to_owned))
        })
    }

    /// Why stripping requires `--force`, with a better remedy.
    pub fn objection(&self) -> Option<Objection> {
        if self.cluster.operator().is_absent() {
            return None;
        }
        let others = self.skyhook.third_party_finalizers();
        if !others.is_empty() && !self.skyhook.paused() {
            return Some(Objection {
                why: format!(
                    "{} would stay because of third-party finalizers ({}), and the operator would run its packages again",
                    self.skyhook,
                    others.join(", ")
                ),
                instead: self.show_finalizers().argv,
            });
        }
        let milder = self.milder(Finding::changing_remedy).or_else(|| self.less_disruptive());
        if let Some((finding, remedy)) = milder {
            let rule = finding.rule;
            let why = format!("a less disruptive remedy exists for {} {}", rule.code, rule.name);
            let Some(node) = &finding.subject.node else {
                return Some(Objection { why, instead: remedy.argv });
            };
            let is_of =
                |group: &&FindingGroup<'_>| group.findings.iter().any(|of| std::ptr::eq(*of, finding));
            let nodes: Vec<&str> =
                self.groups.iter().find(is_of).map_or(vec![&**node], |group| group.nodes().collect());
            let nodes = NodeSet::of(nodes).to_string();
            let instead = remedy.on_nodes(node, &[&nodes]).unwrap_or(remedy.argv);
            return Some(Objection { why: format!("{why} on {nodes}"), instead });
        }
        self.may_finish().then(|| Objection {
            why: format!("the deletion may still finish on its own: {}", self.outlook.reason),
            instead: self.wait().argv,
        })
    }

    /// The remedy to apply now, for all nodes that it concerns.
    fn recommended(&self) -> Option<Remedy> {
        let remedies = self.remedies(false);
        let next = if let Some(strip) = self.strip().filter(|_| self.cluster.operator().is_absent()) {
            strip
        } else if self.may_finish() {
            self.wait()
        } else if self.outlook.state == ProgressState::Blocked {
            self.show_finalizers()
        } else if let Some((_, remedy)) = self.less_disruptive() {
            remedy
        } else {
            return remedies.into_iter().next().map(|folded| folded.remedy);
        };
        let folded = remedies.into_iter().find(|folded| folded.first == next.argv);
        Some(folded.map_or(next, |folded| folded.remedy))
    }

    /// The first remedy other than a strip, with its finding.
    fn less_disruptive(&self) -> Option<(&Finding, Remedy)> {
        self.milder(|f| f.remedies().find(|r| !r.runs(STRIP)))
    }

    /// The first chosen remedy other than a strip, with its finding.
    fn milder(&self, choose: impl Fn(&Finding) -> Option<Remedy>) -> Option<(&Finding, Remedy)> {
        let mut caused = self.outlook.held_up_by.iter().copied().filter(|f| f.rule.code != WITHOUT_CAUSE);
        caused.find_map(|f| Some((f, choose(f).filter(|r| !r.runs(STRIP))?)))
    }

    /// Whether the deletion may still finish without help.
    fn may_finish(&self) -> bool {
        use ProgressState::{Deleting, Unknown, Waiting};
        matches!(self.outlook.state, Deleting | Waiting | Unknown) && self.less_disruptive().is_none()
    }

    fn show_finalizers(&self) -> Remedy {
        let resource = self.cluster.flavor().resource();
        let argv = kubectl(&["get", &resource, self.skyhook.name(), "-o", "yaml"]);
        Remedy::graded(Some(Grade::B0), "Show the remaining finalizers", argv)
    }

    /// The command that waits for the deletion.
    fn wait(&self) -> Remedy {
        let argv = own(&["wait", self.skyhook.name(), "--for=deleted"]);
        Remedy::graded(Some(Grade::B0), "Wait for the deletion", argv)
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
    std::iter::once(&"kubectl").chain(words).map(|w| (*w).to_owned()).collect()
}

/// How the state of a deletion is shown.
fn words(state: ProgressState) -> (Label, &'static str) {
    match state {
        ProgressState::Deleting => (Label::Good, "the deletion is progressing"),
        ProgressState::Waiting => (Label::Warning, "the deletion is slow"),
        ProgressState::Stuck => (Label::Error, "the deletion is blocked"),
        ProgressState::Blocked => (Label::Warning, "only third-party finalizers are left"),
        _ => (Label::Warning, "cannot tell whether the deletion is progressing"),
    }
}

/// The state of a deletion, and what blocks it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The state of the deletion: `Deleting`, `Waiting` if it is slow, `Stuck`, `Blocked` if only finalizers of third parties
    /// remain, or `Unknown`.
    state: ProgressState,
    /// The reason for the state, in one sentence.
    message: String,
    /// All finalizers of the custom resource.
    finalizers: Vec<String>,
    /// The name of the operator's finalizer.
    finalizer: String,
    /// Packages that must be uninstalled before the operator removes its finalizer.
    pending: Vec<PendingPackage>,
    /// Findings that concern the deletion.
    findings: Vec<FindingSummary>,
    /// All remedies, least disruptive first.
    remedies: Vec<Remedy>,
    /// The remedy to apply now; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended: Option<Remedy>,
}

/// A package that is still to be uninstalled on a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PendingPackage {
    /// The node.
    node: String,
    /// The package.
    package: String,
    /// The recorded version.
    version: String,
    /// The recorded stage.
    stage: String,
    /// The recorded state of the stage.
    state: String,
    /// Number of failed attempts of the stage.
    restarts: i64,
}

impl Document {
    pub fn of(deletion: &Deletion<'_, '_>) -> Document {
        let skyhook = deletion.skyhook;
        let findings = deletion.groups.iter().flat_map(FindingGroup::all);
        Document {
            state: deletion.outlook.state,
            message: deletion.outlook.reason.clone(),
            finalizers: skyhook.metadata.finalizers.clone(),
            finalizer: deletion.cluster.flavor().finalizer().to_string(),
            pending: deletion.outlook.pending.iter().map(PendingPackage::of).collect(),
            findings: findings.map(Finding::summary).collect(),
            recommended: deletion.recommended(),
            remedies: deletion.remedies(true).into_iter().map(|folded| folded.remedy).collect(),
        }
    }
}

impl PendingPackage {
    fn of(pending: &Pending<'_>) -> PendingPackage {
        PendingPackage {
            node: pending.node.name.to_string(),
            package: pending.entry.name.to_string(),
            version: pending.entry.version.to_string(),
            stage: pending.entry.stage.to_string(),
            state: pending.entry.state.to_string(),
            restarts: pending.entry.restarts,
        }
    }
}

/// Maximum number of node-name ranges in a row.
const SHOWN: usize = 6;

impl Deletion<'_, '_> {
    fn title(&self) -> Line {
        let skyhook = self.skyhook;
        let (label, words) = words(self.outlook.state);
        let title = text::heading(skyhook.to_string()) + ": " + label.span(words);
        match skyhook.metadata.deletion_timestamp {
            Some(at) => {
                let ago = ago(Some(at), self.cluster.taken_at);
                title + text::dim(format!("  requested {ago}"))
            }
            None => title,
        }
    }

    /// The pending uninstalls. Equal ones on several nodes share a row, unless `wide`.
    fn pending_table(&self, wide: bool) -> Table {
        let mut rows: BTreeMap<(String, String, String, String), Vec<&str>> = BTreeMap::new();
        for (at, p) in self.outlook.pending.iter().enumerate() {
            let alone = if wide { format!("{at:08}") } else { String::new() };
            let key = (
                p.entry.name.to_string(),
                p.entry.version.to_string(),
                format!("{}/{}", p.entry.stage, p.entry.state),
                alone,
            );
            rows.entry(key).or_default().push(&p.node.name);
        }
        let table = Table::new(["pending", "version", "stage", "count", "nodes"]);
        let mut table = table.names(SHOWN, "-o wide shows a row for each node");
        for ((package, version, at, _), nodes) in &rows {
            let set = NodeSet::of(nodes);
            table.row_of(cells![package.as_str(), version.as_str(), at.as_str(), set.len()], set);
        }
        table
    }

    fn finding_list(&self) -> Text {
        let mut text = Text::new();
        for group in &self.groups {
            let nodes = NodeSet::of(group.node_names());
            let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.limited(SHOWN)) };
            let start = severity(group.first().severity) + " " + text::name(group.first().rule.code) + on;
            text.item("- ", start + ": " + &*group.message());
        }
        text
    }

    fn remedy_list(&self) -> Text {
        let mut text = Text::new();
        for (at, folded) in self.remedies(false).into_iter().enumerate() {
            text.append(remedy_text(&format!("{}. ", at + 1), &folded.remedy, folded.repeat));
        }
        text
    }

    /// The deletion, its blockers and remedies; with `wide`, each node in its own row.
    pub fn text(&self, wide: bool) -> Text {
        let mut body = Text::new();
        body.paragraph(self.outlook.reason.as_str());
        body.line(text::dim(format!(
            "finalizers: {}",
            match self.skyhook.metadata.finalizers.as_slice() {
                [] => "none".to_owned(),
                all => all.join(", "),
            }
        )));
        let mut text = Text::new();
        text.line(self.title());
        text.indented(2, body);
        if !self.outlook.pending.is_empty() {
            text.blank().table(self.pending_table(wide));
        }
        if !self.groups.is_empty() {
            text.blank().line(text::dim("findings"));
            text.indented(2, self.finding_list());
        }
        let remedies = self.remedies(false);
        if remedies.len() > 1 || remedies.iter().any(|folded| folded.remedy.changes()) {
            text.blank().line(text::dim("remedies, least disruptive first"));
            text.indented(2, self.remedy_list());
        }
        if let Some(remedy) = self.recommended() {
            text.blank().line(Line::from("now: ") + text::command(shell_words(&remedy.argv)));
        }
        text
    }
}
