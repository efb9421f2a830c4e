//! The state of a requested deletion and its remedies, as text and as a document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::cluster::placement::Pending;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{Grades, remedy_text};
use crate::commands::shared::rule::severity;
use crate::model::ProgressState;
use crate::outlook::{DeletionOutlook, Outlook};
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
    /// All findings about the custom resource, most severe first.
    findings: Vec<&'o Finding>,
}

impl<'o, 'a> Deletion<'o, 'a> {
    /// The deletion of a custom resource; `None` if it was not requested.
    pub fn of(outlook: &'o Outlook<'a>, skyhook: &'a Skyhook) -> Option<Self> {
        let cluster = outlook.cluster;
        let scope = Scope { skyhooks: vec![skyhook.name().to_owned()], ..Scope::default() };
        let concerned = scope.concerned(cluster, &outlook.findings);
        let findings = outlook.findings.iter().zip(concerned).filter(|(_, concerned)| *concerned);
        let findings = findings.map(|(finding, _)| finding).collect();
        let grades = Grades::new(cluster);
        Some(Deletion { cluster, grades, skyhook, outlook: outlook.deletion(skyhook)?, findings })
    }

    /// All remedies, least disruptive first; stripping the finalizer comes last, unless the deletion is in progress.
    pub fn remedies(&self) -> Vec<Remedy> {
        let mut remedies: Vec<Remedy> = Vec::new();
        let grave = |f: &&&Finding| f.severity >= Severity::Warning;
        for remedy in self.findings.iter().filter(grave).flat_map(|f| f.remedies()) {
            if !remedy.runs(STRIP) && remedies.iter().all(|r| r.argv != remedy.argv) {
                remedies.push(remedy);
            }
        }
        self.grade(&mut remedies);
        remedies.sort_by_key(Remedy::gravity);
        if self.may_finish() {
            remedies.insert(0, self.wait());
        }
        if self.outlook.state == ProgressState::Blocked {
            let see = self.show_finalizers();
            remedies.retain(|r| r.argv != see.argv);
            remedies.insert(0, see);
        }
        // A deletion in progress needs no last resort.
        remedies.extend(self.strip().filter(|_| self.outlook.state != ProgressState::Deleting));
        remedies
    }

    /// Grades the remedies; those that differ only in the node as one command for all of these nodes.
    fn grade(&self, remedies: &mut [Remedy]) {
        let alike = remedies.iter().enumerate().map(|(at, remedy)| (self.nameless(remedy).0.argv, at));
        for (_, places) in grouped(alike) {
            let mut all = remedies[places[0]].clone();
            let nodes: Vec<String> = places.iter().flat_map(|at| self.nameless(&remedies[*at]).1).collect();
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let joined = nodes.first().and_then(|first| all.on_nodes(first, &nodes));
            all.argv = joined.unwrap_or(all.argv);
            self.grades.grade(std::slice::from_mut(&mut all));
            for at in places {
                remedies[at].grade = all.grade;
                remedies[at].effect.clone_from(&all.effect);
            }
        }
    }

    /// The remedy without names of nodes, and these names.
    fn nameless(&self, remedy: &Remedy) -> (Remedy, Vec<String>) {
        let mut shape = remedy.clone();
        let named = |word: &&mut String| self.cluster.node(word).is_some();
        let names = shape.argv.iter_mut().filter(named).map(std::mem::take).collect();
        (shape, names)
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
                    self.skyhook.reference(),
                    others.join(", ")
                ),
                instead: self.show_finalizers().argv,
            });
        }
        let acts = self.milder(Finding::changing_remedy);
        let exists = if acts.is_some() {
            "a less disruptive remedy exists for"
        } else {
            "the cause should be checked first:"
        };
        if let Some((finding, remedy)) = acts.or_else(|| self.less_disruptive()) {
            let on = finding.subject.node.as_ref().map_or(String::new(), |node| format!(" on {node}"));
            return Some(Objection {
                why: format!("{exists} {} {}{on}", finding.rule.code, finding.rule.name),
                instead: remedy.argv,
            });
        }
        self.may_finish().then(|| Objection {
            why: format!("the deletion may still finish on its own: {}", self.outlook.reason),
            instead: self.wait().argv,
        })
    }

    /// The remedy to apply now.
    pub fn recommended(&self) -> Option<Remedy> {
        if let Some(strip) = self.strip().filter(|_| self.cluster.operator().is_absent()) {
            return Some(strip);
        }
        if self.may_finish() {
            return Some(self.wait());
        }
        if self.outlook.state == ProgressState::Blocked {
            return Some(self.show_finalizers());
        }
        self.less_disruptive().map(|(_, remedy)| remedy).or_else(|| self.remedies().into_iter().next())
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
        let remedies = deletion.remedies();
        let skyhook = deletion.skyhook;
        Document {
            state: deletion.outlook.state,
            message: deletion.outlook.reason.clone(),
            finalizers: skyhook.metadata.finalizers.clone(),
            finalizer: deletion.cluster.flavor().finalizer().to_string(),
            pending: deletion.outlook.pending.iter().map(PendingPackage::of).collect(),
            findings: deletion.findings.iter().map(|f| f.summary()).collect(),
            recommended: deletion
                .recommended()
                .map(|next| remedies.iter().find(|remedy| remedy.argv == next.argv).cloned().unwrap_or(next)),
            remedies,
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
/// Maximum number of nodes named in one command.
const NAMED: usize = 8;

impl Deletion<'_, '_> {
    fn title(&self) -> Line {
        let skyhook = self.skyhook;
        let (label, words) = words(self.outlook.state);
        let title = text::heading(skyhook.reference()) + ": " + label.span(words);
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
        let all = self.findings.iter().enumerate();
        let alike = all.map(|(at, f)| {
            let node = f.subject.node.as_deref();
            let alone = node.is_none().then_some(at);
            ((f.rule.code, f.severity, &f.message, alone), node)
        });
        for ((code, grave, message, _), nodes) in grouped(alike) {
            let nodes = NodeSet::of(nodes.into_iter().flatten());
            let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.limited(SHOWN)) };
            let start = severity(grave) + " " + text::name(code) + on;
            text.item("- ", start + ": " + message.as_str());
        }
        text
    }

    /// The remedies with their nodes. Remedies that differ only in the node are merged.
    fn folded_ladder(&self) -> Vec<(Remedy, Vec<String>)> {
        let mut folded: Vec<(Remedy, Remedy, Vec<String>)> = Vec::new();
        for remedy in self.remedies() {
            let (shape, named) = self.nameless(&remedy);
            let same = folded.iter_mut().find(|(_, s, _)| *s == shape);
            match same.filter(|_| !named.is_empty()) {
                Some((_, _, all)) => all.extend(named),
                None => folded.push((remedy, shape, named)),
            }
        }
        folded.into_iter().map(|(r, _, all)| (r, all)).collect()
    }

    /// The command for all of these nodes, or for the first one if there are more than [`NAMED`].
    fn command(remedy: &Remedy, nodes: &[String]) -> Vec<String> {
        let all: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let joined = match all.as_slice() {
            [first, _, ..] if all.len() <= NAMED && !remedy.runs("package logs") => {
                remedy.on_nodes(first, &all)
            }
            _ => None,
        };
        joined.unwrap_or_else(|| remedy.argv.clone())
    }

    /// The command of the recommended remedy.
    fn next(&self) -> Option<String> {
        let next = self.recommended()?;
        let folded = self.folded_ladder();
        let own = folded.iter().find(|(remedy, _)| remedy.argv == next.argv);
        let nodes = own.map_or(&[][..], |(_, nodes)| nodes);
        Some(shell_words(&Self::command(&next, nodes)))
    }

    fn remedy_list(&self) -> Text {
        let mut text = Text::new();
        for (at, (remedy, nodes)) in self.folded_ladder().iter().enumerate() {
            let joins = remedy.own().is_some() && nodes.len() <= NAMED;
            let repeat = (nodes.len() > 1 && !joins)
                .then(|| format!("repeat for {}", NodeSet::of(&nodes[1..]).limited(SHOWN)));
            let mark = format!("{}. ", at + 1);
            let remedy = Remedy { argv: Self::command(remedy, nodes), ..remedy.clone() };
            text.append(remedy_text(&mark, &remedy, repeat));
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
        if !self.findings.is_empty() {
            text.blank().line(text::dim("findings"));
            text.indented(2, self.finding_list());
        }
        let remedies = self.remedies();
        if remedies.len() > 1 || remedies.iter().any(Remedy::changes) {
            text.blank().line(text::dim("remedies, least disruptive first"));
            text.indented(2, self.remedy_list());
        }
        if let Some(command) = self.next() {
            text.blank();
            text.line(Line::from("now: ") + text::command(command));
        }
        text
    }
}
