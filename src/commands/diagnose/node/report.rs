//! The report of `diagnose node`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::step::{Chain, Link, NextStep};
use super::{Document, FindingDocument, NotSelecting};
use crate::api::labels::Labelled;
use crate::api::{Entry, Skyhook, Stage, State};
use crate::cluster::cordon::Holder;
use crate::cluster::{Certainty, Cluster, Node, PackageRun, Phase, Pod};
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{Grades, remedy_text};
use crate::commands::shared::rows::cordon_holders;
use crate::commands::shared::rows::phase_label;
use crate::commands::shared::rule::label_of;
use crate::error::Exit;
use crate::model::{Model, ProgressState, knows_workloads_on};
use crate::rules::support::causes::Causes;
use crate::rules::{Finding, Finds, Remedy, Severity};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{Joined, NodeSet, View, document, list, plural, shell_words, some_of, time};
use crate::wait::drain;

/// Maximum number of findings listed for a node.
const SHOWN: usize = 8;

pub struct NodeReport<'a> {
    pub cluster: &'a Cluster,
    pub node: &'a Node,
    pub chain: Chain<'a>,
    /// The sources that the cluster did not return, and why.
    pub unreadable: Vec<String>,
    /// Sources that show the progress of stages, but are missing from the files.
    pub unseen: Vec<String>,
}

impl NodeReport<'_> {
    pub fn exit(&self) -> Exit {
        if self.chain.is_stuck(self.node) {
            Exit::Findings
        } else if self.unreadable.is_empty() {
            Exit::Done
        } else {
            Exit::Failed
        }
    }

    /// Whether the kubelet has not acknowledged a pod of a stage yet.
    fn waits_for_kubelet(&self) -> bool {
        let package_runs = self.cluster.package_runs();
        let mut here = package_runs.all().iter();
        here.any(|run| run.node == self.node.name && run.alive() && run.unacknowledged().is_some())
    }

    /// What a reboot of the node would interrupt: stages and workloads. `None` if the stages could not be read, or if no
    /// custom resource selects the node and no stage runs there.
    fn reboot_now(&self) -> Option<String> {
        if self.cluster.certainty_of_no_package_run() == Certainty::Unknown {
            return None;
        }
        let package_runs = self.cluster.package_runs();
        // The container of a pod that is being deleted may still run. Of a node that is not ready, or without its pods, the
        // containers are unknown.
        let is_ready = self.node.ready() != Some(false);
        let runs = |run: &PackageRun<'_>| match run.pods.as_slice() {
            pods if is_ready && !pods.is_empty() => {
                pods.iter().any(|pod| !pod.ended() && pod.running().is_some())
            }
            pods => run.works() || pods.iter().any(|pod| pod.running().is_some()),
        };
        let (running, others): (Vec<_>, Vec<_>) =
            package_runs.on_node(&self.node.name).partition(|run| runs(run));
        let name = |run: &PackageRun<'_>| {
            if run.package.is_empty() {
                format!("a pod of {} whose package is unknown", run.skyhook)
            } else {
                format!("stage {} of {} ({})", run.stage, run.package, run.skyhook)
            }
        };
        let mut interrupted: Vec<String> = running.into_iter().map(name).collect();
        let starts = |run: &&PackageRun<'_>| run.works() && run.pods.iter().any(|pod| !pod.ended());
        let starting: Vec<String> = others.into_iter().filter(starts).map(name).collect();
        if interrupted.is_empty() && starting.is_empty() && self.cluster.selecting(self.node).next().is_none()
        {
            return None;
        }
        let known = knows_workloads_on(self.cluster, &[self.node]);
        let workloads =
            self.cluster.evictions().pods_by_node().remove(self.node.name.as_str()).unwrap_or_default();
        let protects = |pod: &Pod| {
            let mut labels = self.cluster.selecting(self.node).map(|s| &s.spec.pod_non_interrupt_labels);
            labels.any(|labels| !labels.is_empty() && labels.matches(&pod.metadata.labels))
        };
        let (protected, evicted): (Vec<&Pod>, Vec<&Pod>) =
            workloads.into_iter().partition(|pod| protects(pod));
        if !protected.is_empty() {
            let names: Vec<String> = protected.iter().map(|pod| pod.path()).collect();
            interrupted.push(format!("pod {}, which podNonInterruptLabels protects", some_of(&names, 2)));
        }
        if !evicted.is_empty() {
            let names: Vec<String> = evicted.iter().map(|pod| pod.path()).collect();
            let pods = plural(evicted.len(), "pod");
            interrupted.push(format!("{pods} that a drain would evict ({})", some_of(&names, 2)));
        }
        let unread = if known { "" } else { "; the workloads on the node were not read" };
        let interrupts = match interrupted.as_slice() {
            [] if known => "interrupts no stage, and no pod that a drain would evict".to_owned(),
            [] => format!("interrupts no stage{unread}"),
            interrupted => format!("interrupts {}{unread}", list(interrupted)),
        };
        let interrupts = match starting.as_slice() {
            [] => interrupts,
            starting => format!("{interrupts}; {} may start at any moment", list(starting)),
        };
        Some(if is_ready { interrupts } else { interrupts + " (as last known: the node is not ready)" })
    }

    /// The runtime-required taint, and the custom resources that keep it; `None` without the taint.
    fn taint(&self) -> Option<String> {
        let taint = self.cluster.runtime_required().on(self.node)?;
        let model = Model::new(self.cluster);
        let keepers: Vec<&str> = model.taint_kept_by(self.node).into_iter().map(Skyhook::name).collect();
        let keepers = if keepers.is_empty() { "no custom resource".to_owned() } else { list(&keepers) };
        Some(format!("{}:{}, kept by {keepers}", taint.key, taint.effect))
    }

    /// The custom resources that do not select the node, and why.
    fn not_selected_by(&self) -> Vec<NotSelecting<'_>> {
        let all = self.cluster.skyhooks.iter();
        let labels = &self.node.labels;
        let each = all.filter_map(|skyhook| {
            let unmet = skyhook.spec.node_selectors.unmet(labels).into_iter().map(|unmet| {
                let found = match labels.value(unmet.key) {
                    Some(value) => format!("the label is {value:?}"),
                    None => "the node has no such label".to_owned(),
                };
                format!("requires {}, but {found}", unmet.wants)
            });
            let message = unmet.joined("; ");
            (!message.is_empty()).then(|| NotSelecting { name: skyhook.name(), message })
        });
        each.collect()
    }

    /// The people and programs other than the operator that keep the node cordoned.
    fn cordoned_by_others(&self) -> Vec<Holder> {
        if self.node.cordoned() == Some(true) { self.node.cordon_holders() } else { Vec::new() }
    }

    /// The findings above info.
    fn grave(&self) -> Vec<&Finding> {
        self.chain.findings.iter().filter(|f| f.severity > Severity::Info).collect()
    }

    /// The findings above info and the findings that explain them. Info findings come first: here they are
    /// causes, such as a pause.
    fn shown_findings(&self) -> Vec<&Finding> {
        let findings = &self.chain.findings;
        let shown = grave_or_explaining(findings);
        let mut shown: Vec<&Finding> = shown.into_iter().map(|at| &findings[at]).collect();
        shown.sort_by_key(|f| f.severity > Severity::Info);
        shown
    }

    /// The next remedies, if an intervention is needed.
    ///
    /// First, two remedies of one finding: its first remedy, and its remedy that makes a change. That finding is an error
    /// that stops the operator or rejects changes, if there is one; otherwise it blocks the first blocked custom
    /// resource, or is the cause. Info findings that explain nothing worse count only if there are no others.
    ///
    /// Then those of other errors on the node that nothing explains, and the changes for errors that the first finding
    /// explains, because such an error may outlast its cause.
    fn next(&self) -> Vec<Remedy> {
        let findings = &self.chain.findings;
        let causes = Causes::of(findings);
        // A refused drain may keep the operator from all nodes of its custom resource.
        let is_here = |finding: &Finding| {
            finding.subject.node.as_deref() == Some(&self.node.name) || finding.blocks_other_nodes()
        };
        if !self.chain.state(self.node).needs_someone() {
            // The operator goes on by itself, so only look: at a cause on the node, or else at that of its wait.
            let grave = self.grave();
            let is_cause = |at: &usize| is_here(&findings[*at]) && causes.explaining(*at).is_empty();
            let own = (0..findings.len()).filter(is_cause).map(|at| &findings[at]);
            let own = own.chain(grave.iter().copied()).find(|f| f.severity > Severity::Info);
            let look = own.filter(|_| grave.iter().any(|f| is_here(f))).and_then(|f| f.remedies().next());
            return look.filter(|remedy| !remedy.changes()).into_iter().collect();
        }
        let kept = self.chain.links.iter().find(|l| l.state.needs_someone()).map(|link| link.name);
        let grave = grave_or_explaining(findings);
        let own = |at: &usize| findings[*at].subject.skyhook.as_deref() == kept;
        let behind: BTreeSet<usize> =
            (0..findings.len()).filter(own).flat_map(|at| causes.explaining(at).to_vec()).collect();
        // A finding about a package of the whole custom resource, such as a dependency, also concerns its nodes.
        let package_here = |finding: &Finding| {
            let same = |f: &Finding| f.subject.package == finding.subject.package;
            finding.subject.package.is_some() && findings.iter().filter(|f| is_here(f)).any(same)
        };
        // Until the operator works and accepts changes, no other remedy helps.
        let near = |at: &usize| {
            let finding = &findings[*at];
            let here = match finding.subject.node.as_deref() {
                Some(_) => is_here(finding),
                None => (finding.stops_whole() || package_here(finding)) && causes.explaining(*at).is_empty(),
            };
            let first = finding.severity == Severity::Error
                && (finding.comes_first() || finding.blocks_other_nodes());
            (first, own(at) || behind.contains(at), here)
        };
        let mut all: Vec<usize> = (0..findings.len()).collect();
        let has_remedy = |at: &usize| findings[*at].remedies().next().is_some();
        // The remedy of an effect only shows its cause.
        let is_effect = |at: &usize| {
            findings[*at].rule.finds == Finds::Effects && causes.explaining(*at).iter().any(has_remedy)
        };
        all.retain(|at| has_remedy(at) && !is_effect(at));
        // The sort is stable: among equals, causes stay first.
        all.sort_by_key(|at| std::cmp::Reverse((grave.contains(at), near(at))));
        let Some(first) = all.first() else {
            return Vec::new();
        };
        let of_first = |at: &usize| findings[*at].rule.code == findings[*first].rule.code;
        let mut next: Vec<Remedy> = Vec::new();
        for at in &all {
            let finding = &findings[*at];
            let by = causes.explaining(*at);
            let is_error = finding.severity == Severity::Error;
            let outlasts_first = is_error && by.iter().any(of_first);
            // The remedies of the first error do not cure independent errors on the node.
            let is_other = is_error && by.is_empty() && is_here(finding) && !of_first(at);
            let is_shown = at == first || is_other;
            let look = finding.remedies().next().filter(|_| is_shown);
            let offers = |remedy: &Remedy| is_shown || outlasts_first && !remedy.choice;
            let change = finding.changing_remedy().filter(offers);
            for remedy in look.into_iter().chain(change) {
                if next.iter().all(|known| known.argv != remedy.argv) {
                    next.push(remedy);
                }
            }
        }
        Grades::new(self.cluster).grade(&mut next);
        next
    }

    fn verdict(&self) -> Line {
        let name = text::heading(self.node.name.as_str());
        if self.cluster.skyhooks.ok().is_none() {
            let unknown = "cannot tell which custom resources select it";
            return name + ": " + text::warning(unknown);
        }
        if self.chain.links.is_empty() {
            return name + ": " + "no custom resource selects it";
        }
        let words = match self.chain.state(self.node) {
            ProgressState::Complete if !self.unreadable.is_empty() => text::warning("nothing left to do"),
            ProgressState::Complete => text::good("complete"),
            ProgressState::Running => text::good("running"),
            ProgressState::Waiting => text::good("waiting"),
            ProgressState::Unknown => text::warning("unknown"),
            ProgressState::Stuck => text::error("stuck"),
            _ => text::warning("blocked until someone intervenes"),
        };
        name + ": " + words
    }

    /// The effect of an unfinished interrupt on the node.
    fn interrupt_ahead(&self, skyhook: &str, package: &NextStep) -> Option<&'static str> {
        let skyhook = self.cluster.skyhook(skyhook)?;
        let name = &package.package;
        let spec = skyhook.package(name).filter(|spec| spec.version == package.version)?;
        if !skyhook.selects(self.node)
            || !matches!(package.phase, Phase::NotStarted | Phase::Running | Phase::Failing)
        {
            return None;
        }
        let kind = skyhook.pending_interrupt(name, spec)?;
        let on = self.cluster.on_node(self.node, skyhook.name());
        let over = |entry: &Entry| {
            entry.stage == Stage::PostInterrupt
                || entry.stage.is_interrupt() && entry.state == State::Complete
        };
        if on.and_then(|on| on.entry(&spec.entry_key(name))).is_some_and(over) {
            return None;
        }
        Some(match kind {
            "reboot" => "; its interrupt reboots the node",
            "noop" => return None,
            _ => "; its interrupt restarts services",
        })
    }

    fn link(&self, link: &Link<'_>) -> Text {
        let label = match link.state {
            ProgressState::Complete | ProgressState::Running => Label::Good,
            ProgressState::Waiting => Label::Info,
            ProgressState::Blocked if !link.is_ignored => Label::Error,
            _ => Label::Warning,
        };
        let word = link.state.word();
        let priority = link.priority.map(|p| format!(", priority {p}")).unwrap_or_default();
        let mut text = Text::new();
        text.line(text::heading(link.name) + text::dim(priority) + ": " + label.span(word));
        let mut body = Text::new();
        body.paragraph(link.reason.as_str());
        if let Some(next) = &link.next_action {
            body.paragraph(text::dim("next: ") + next.as_str());
        }
        for package in link.packages.iter().filter(|p| !p.done || link.state == ProgressState::Complete) {
            let message = match package.message.as_str() {
                "" => phase_label(package.phase).to_owned(),
                message => format!("{}: {message}", phase_label(package.phase)),
            };
            let name = text::name(package.package.as_str()) + " " + package.version.as_str();
            let ahead = if package.done { None } else { self.interrupt_ahead(link.name, package) };
            body.item("- ", name + "  " + message + ahead.unwrap_or_default());
        }
        text.indented(2, body);
        text
    }

    fn findings(&self) -> Text {
        let mut text = Text::new();
        let shown = self.shown_findings();
        if shown.is_empty() {
            return text;
        }
        text.line(text::dim("findings, causes first"));
        let groups = grouped(shown.into_iter().map(|f| {
            let subject = &f.subject;
            let here = subject.node.as_deref() == Some(&self.node.name);
            ((f.rule.code, &subject.skyhook, &subject.package, here, f.trouble()), f)
        }));
        for (_, group) in groups.iter().take(SHOWN) {
            let finding = group[0];
            let nodes = group.iter().filter_map(|f| f.subject.node.as_deref());
            let nodes: Vec<&str> = nodes.filter(|on| *on != self.node.name).collect();
            let on = if nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", NodeSet::of(nodes).limited(4))
            };
            let what =
                label_of(finding.severity).span(finding.rule.code) + " " + finding.rule.name + on.as_str();
            let muted = finding.muted.as_ref();
            let muted = muted.map_or_else(String::new, |mute| format!(" [muted: {mute}]"));
            text.item("- ", what + ": " + finding.message.as_str() + muted);
        }
        if groups.len() > SHOWN {
            text.line(text::dim(format!("and {} more", groups.len() - SHOWN)));
        }
        text
    }

    fn what_next(&self) -> Text {
        let mut text = Text::new();
        let next = self.next();
        if next.is_empty() {
            let nothing: Line = match self.chain.state(self.node) {
                ProgressState::Complete => return text,
                ProgressState::Unknown if self.grave().is_empty() => return text,
                ProgressState::Running | ProgressState::Waiting if self.grave().is_empty() => {
                    if !self.unreadable.is_empty() {
                        return text;
                    }
                    if !self.unseen.is_empty() {
                        let unseen = self.unseen.join(" or ");
                        format!(
                            "No problem was found, but the capture has no {unseen}, so failures may be \
                             missing."
                        )
                        .into()
                    } else if self.waits_for_kubelet() {
                        "Nothing to do yet. If the kubelet does not start the pod within ten minutes, this command reports a problem."
                            .into()
                    } else if let Some(pod) = drain::first_pod(self.cluster, self.node) {
                        let words = ["kubectl", "describe", "pod", "-n", pod.namespace(), pod.name()];
                        Line::from(
                            "Nothing to do yet: the drain ends once these pods have ended. If a pod does not end, see why: ",
                        ) + text::command(shell_words(&words))
                    } else if let Some(name) = &self.chain.failing_elsewhere {
                        let command = shell_words(&["kubectl", "skyhook", "diagnose", "stuck", name]);
                        Line::from("Nothing to do for this node, but there are errors on other nodes: ")
                            + text::command(command)
                    } else {
                        "Nothing to do: the rollout continues without intervention.".into()
                    }
                }
                _ => Line::default(),
            };
            if !nothing.is_empty() {
                text.paragraph(nothing);
            }
        } else {
            text.line(text::dim("what to do next"));
        }
        for (at, remedy) in next.iter().enumerate() {
            let mark = format!("{}. ", at + 1);
            text.append(remedy_text(&mark, remedy, None));
        }
        if self.chain.state(self.node).needs_someone() || !self.grave().is_empty() {
            // Limit the command to this node unless findings are on other nodes.
            let elsewhere = |f: &&Finding| {
                let on = f.subject.node.as_deref();
                on.is_some_and(|on| on != self.node.name)
            };
            let mut argv = vec!["kubectl", "skyhook", "diagnose", "stuck"];
            if !self.grave().iter().any(elsewhere) {
                argv.extend(["--node", &self.node.name]);
            }
            text.line(text::dim("more: ") + text::command(shell_words(&argv)));
        }
        text
    }
}

/// The indices of the findings above info, and of their causes.
fn grave_or_explaining(findings: &[Finding]) -> BTreeSet<usize> {
    let causes = Causes::of(findings);
    let grave = |at: &usize| findings[*at].severity > Severity::Info;
    let grave: Vec<usize> = (0..findings.len()).filter(grave).collect();
    grave.iter().flat_map(|at| causes.explaining(*at)).chain(&grave).copied().collect()
}

impl View for NodeReport<'_> {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        text.line(self.verdict());
        let holders = cordon_holders(self.cluster, self.node);
        if !holders.is_empty() {
            let cordoned = self.node.cordoned() == Some(true);
            let title = if cordoned {
                "cordon held by: "
            } else {
                "not cordoned, but a cordon is still recorded for: "
            };
            text.paragraph(text::dim(title) + holders.join("; "));
        }
        if let Some(taint) = self.taint() {
            text.paragraph(text::dim("taint: ") + taint);
        }
        if let Some(reboot) = self.reboot_now() {
            text.paragraph(text::dim("a reboot now: ") + reboot);
        }
        let unselecting = self.not_selected_by();
        // On a selected node they matter less.
        let most = if self.chain.links.is_empty() { SHOWN } else { 2 };
        for NotSelecting { name, message } in unselecting.iter().take(most) {
            text.paragraph(text::dim("not selected by ") + *name + text::dim(": ") + message.as_str());
        }
        if unselecting.len() > most {
            let more = plural(unselecting.len() - most, "more custom resource");
            text.line(text::dim(format!("and by {more}")));
        }
        for link in &self.chain.links {
            text.blank().append(self.link(link));
        }
        text.blank().append(self.findings());
        text.blank().append(self.what_next());
        if !self.unreadable.is_empty() {
            text.blank();
            for why in &self.unreadable {
                text.paragraph(text::warning("could not be read") + ": " + why.as_str());
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![format!("node/{}", self.node.name)]
    }

    fn document(&self) -> Value {
        let findings = self.chain.findings.iter().map(|f| FindingDocument {
            finding: f.summary(),
            muted: f.muted.as_ref().map(|mute| mute.reason.as_str()),
        });
        let fields = Document {
            node: &self.node.name,
            state: self.chain.state(self.node),
            cordoned: self.node.cordoned(),
            reboot_now: self.reboot_now(),
            cordoned_by_others: self.cordoned_by_others(),
            skyhooks: &self.chain.links,
            not_selected_by: self.not_selected_by(),
            findings: findings.collect(),
            remedies: self.next(),
            unreadable: &self.unreadable,
            taken_at: time(self.cluster.taken_at),
        };
        document("NodeDiagnosis", &fields)
    }
}
