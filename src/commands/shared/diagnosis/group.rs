//! Groups of findings of the same problem on many nodes or of many objects, reported once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::reason;
use crate::cluster::contrast::{Contrast, contrasts};
use crate::cluster::{Cluster, Node};
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{Grades, remedy_text};
use crate::commands::shared::rule::severity;
use crate::rules::support::causes::{Cause, common_message};
use crate::rules::{Finding, Remedy, Severity};
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, age, count, list, plural};

/// Findings of the same problem on several nodes or of several objects, and their effects.
pub struct FindingGroup<'a> {
    pub findings: Vec<&'a Finding>,
    pub(super) effects: Vec<&'a Finding>,
    pub severity: Severity,
    /// The nodes that the cause blocks, by custom resource.
    pub(super) blocked: Option<&'a BTreeMap<&'a str, BTreeSet<&'a str>>>,
}

/// The level of detail for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Full,
    /// Without evidence, and with at most two remedies.
    Brief,
}

impl Detail {
    /// Maximum number of log lines.
    fn lines(self) -> usize {
        match self {
            Detail::Full => 10,
            Detail::Brief => 3,
        }
    }
}

impl<'a> FindingGroup<'a> {
    pub fn of(cause: &Cause, findings: &'a [Finding]) -> FindingGroup<'a> {
        let picked = |places: &[usize]| places.iter().map(|at| &findings[*at]).collect();
        FindingGroup {
            findings: picked(&cause.findings),
            effects: picked(&cause.effects),
            severity: cause.severity,
            blocked: None,
        }
    }

    /// The effects, as groups.
    pub fn effects(&self) -> Vec<FindingGroup<'a>> {
        let alike = self.effects.iter().map(|f| {
            let subject = &f.subject;
            let key = (f.rule.code, &subject.kind, &subject.skyhook, &subject.package);
            (key, *f)
        });
        let group = |(_, findings): (_, Vec<&'a Finding>)| FindingGroup {
            severity: findings.iter().map(|f| f.severity).max().unwrap_or(Severity::Info),
            findings,
            effects: Vec::new(),
            blocked: None,
        };
        grouped(alike).into_iter().map(group).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().chain(&self.effects).copied()
    }

    /// The finding that represents the group.
    pub fn first(&self) -> &'a Finding {
        self.findings[0]
    }

    pub fn text(&self, grades: &Grades<'_>, wide: bool, detail: Detail) -> Text {
        let mut text = Text::new();
        text.line(self.title(grades.before.cluster, wide));
        text.indented(2, self.body(grades, wide, detail));
        text
    }

    /// The text below the title.
    pub fn body(&self, grades: &Grades<'_>, wide: bool, detail: Detail) -> Text {
        let cluster = grades.before.cluster;
        let mut body = Text::new();
        body.paragraph(self.message().into_owned());
        if let Some(contrast) = sentence(&self.contrasts(cluster)) {
            body.paragraph(contrast);
        }
        let full = detail == Detail::Full;
        if full {
            body.append(self.evidence());
        }
        body.append(reason::text(&self.findings, cluster, full, detail.lines()));
        let remedies = self.graded_remedies(grades, detail);
        if full && !remedies.is_empty() {
            // A remedy that applies only under a condition comes last, regardless of its grade.
            let order = if remedies.is_sorted_by_key(|(remedy, _)| remedy.gravity()) {
                "remedies, least disruptive first"
            } else {
                "remedies, recommended first"
            };
            body.line(text::dim(order));
        }
        for (at, (remedy, repeat)) in remedies.into_iter().enumerate() {
            body.append(remedy_text(&format!("{}. ", at + 1), &remedy, repeat));
        }
        body.append(self.held_up(grades, wide));
        body
    }

    /// A message that is true of all findings.
    pub fn message(&self) -> Cow<'a, str> {
        common_message(self.findings.iter().copied())
    }

    /// The custom resources with the problem, or else the objects.
    pub fn objects(&self) -> NodeSet {
        let names = self.findings.iter().map(|finding| object(finding));
        NodeSet::of(names)
    }

    /// The graded remedies, for all nodes where one command can name them.
    pub fn remedies_for_all(&self, grades: &Grades<'_>) -> Vec<Remedy> {
        let all = self.first().remedies().map(|remedy| {
            let argv = on_node_set(&self.findings, &remedy, usize::MAX);
            Remedy { argv: argv.unwrap_or_else(|| remedy.argv.clone()), ..remedy }
        });
        let mut all: Vec<Remedy> = all.collect();
        grades.grade(&mut all);
        all
    }

    /// The remedies to show, with their grades.
    pub fn graded_remedies(&self, grades: &Grades<'_>, detail: Detail) -> Vec<(Remedy, Option<String>)> {
        let (mut remedies, repeats): (Vec<_>, Vec<_>) = self.remedies(detail, grades).into_iter().unzip();
        grades.grade(&mut remedies);
        remedies.into_iter().zip(repeats).collect()
    }

    /// The remedies to show, each with the nodes or objects to repeat it for. `Brief` includes the first, and the next one
    /// that changes something.
    fn remedies(&self, detail: Detail, grades: &Grades<'_>) -> Vec<(Remedy, Option<String>)> {
        let mut all = self.findings[0].remedies().map(|remedy| self.for_all(remedy, grades));
        match detail {
            Detail::Full => all.collect(),
            Detail::Brief => all.next().into_iter().chain(all.find(|(remedy, _)| remedy.changes())).collect(),
        }
    }

    pub fn title(&self, cluster: &Cluster, wide: bool) -> Line {
        let first = self.findings[0];
        let title = severity(first.severity) + " " + text::name(first.rule.code) + " " + first.rule.name;
        let title = title + "  " + text::heading(self.subject(wide));
        match self.since() {
            Some(since) => title + text::dim(format!("  {}", age(Some(since), cluster.taken_at))),
            None => title,
        }
    }

    fn evidence(&self) -> Text {
        let first = self.findings[0];
        let mut text = Text::new();
        if !first.evidence.is_empty() {
            text.line(text::dim(match self.findings.len() {
                1 => "evidence".to_owned(),
                _ => format!("evidence on {}", first.subject.name),
            }));
        }
        for e in &first.evidence {
            let what = Line::from(e.object.as_str()) + ": " + text::dim(e.field.as_str());
            text.item("- ", what + ": " + e.value.as_str());
        }
        text
    }

    /// The effects of the group, one line per rule.
    fn held_up(&self, grades: &Grades<'_>, wide: bool) -> Text {
        let mut text = Text::new();
        let effects = self.effects();
        if effects.is_empty() {
            return text;
        }
        text.line(text::dim(match self.blocked_resources() {
            Some(held) => format!("blocks {held}"),
            None => "effects".to_owned(),
        }));
        let mut rules: BTreeMap<&str, Vec<&FindingGroup<'_>>> = BTreeMap::new();
        for effect in &effects {
            let code = effect.findings[0].rule.code;
            rules.entry(code).or_default().push(effect);
        }
        for (code, effects) in rules {
            let shown = if wide { effects.len() } else { effects.len().min(EFFECTS) };
            let mut subjects: Vec<String> =
                effects[..shown].iter().map(|effect| effect.subject(wide)).collect();
            let rest: usize = effects[shown..].iter().map(|e| e.findings.len()).sum();
            if rest > 0 {
                subjects.push(plural(rest, "more finding"));
            }
            let rule = text::name(code) + " " + effects[0].findings[0].rule.name;
            text.item("- ", rule + "  " + list(&subjects));
            // An effect that is itself an error may outlast its cause, so its remedy is shown.
            let own = effects.iter().filter(|e| e.findings[0].severity == Severity::Error);
            let mut shown: Vec<Vec<String>> = Vec::new();
            for effect in own.take(EFFECTS) {
                let remedy = effect.first().remedies().find(Remedy::changes);
                if let Some(remedy) = remedy.filter(|r| !shown.contains(&r.argv)) {
                    shown.push(remedy.argv.clone());
                    let (mut remedy, repeat) = effect.for_all(remedy, grades);
                    grades.grade(std::slice::from_mut(&mut remedy));
                    text.indented(2, remedy_text("", &remedy, repeat));
                }
            }
        }
        text
    }

    /// Attributes of the failing nodes that healthy nodes lack; none for several custom resources.
    pub fn contrasts(&self, cluster: &Cluster) -> Vec<Contrast> {
        if of_first(&self.findings).len() < self.findings.len() {
            return Vec::new();
        }
        let subject = &self.findings[0].subject;
        let named = subject.skyhook.as_deref().and_then(|s| cluster.skyhook(s));
        let (Some(skyhook), Some(package)) = (named, subject.package.as_deref()) else {
            return Vec::new();
        };
        let names: BTreeSet<&str> = self.nodes().collect();
        // With --node, other nodes may fail, too.
        if names.len() < 2 {
            return Vec::new();
        }
        let failing: Vec<&Node> = names.iter().filter_map(|n| cluster.node(n)).collect();
        let healthy = cluster.selected(skyhook).filter(|node| {
            !names.contains(node.name.as_str()) && cluster.placement(skyhook, package, node).is_done()
        });
        contrasts(&failing, &healthy.collect::<Vec<_>>())
    }

    pub fn nodes(&self) -> impl Iterator<Item = &'a str> {
        self.findings.iter().filter_map(|f| f.subject.node.as_deref())
    }

    /// The common subject with its nodes: `gpu-tune driver on node-[1-3] (3 nodes)`. Unless `wide`, many
    /// ranges of nodes are shortened.
    pub fn subject(&self, wide: bool) -> String {
        let subject = &self.findings[0].subject;
        let nodes: Vec<&str> = self.nodes().collect();
        let most = if wide { usize::MAX } else { FOLDED };
        let mut words = Vec::new();
        if nodes.is_empty() || subject.skyhook.is_some() {
            words.push(self.objects().limited(most));
        }
        words.extend(subject.package.clone());
        if nodes.is_empty() {
            return words.join(" ");
        }
        let folded = NodeSet::of(&nodes);
        let shown = folded.limited(most);
        let many = match folded.len() {
            1 => String::new(),
            n => format!(" ({})", plural(n, "node")),
        };
        let on = if words.is_empty() { "" } else { " on " };
        format!("{}{on}{shown}{many}", words.join(" "))
    }

    /// The remedy for all nodes if one command can name them; otherwise with the nodes or objects to repeat it for.
    fn for_all(&self, mut remedy: Remedy, grades: &Grades<'_>) -> (Remedy, Option<String>) {
        let of_first = of_first(&self.findings);
        let all = on_all_nodes(&of_first, &remedy).or_else(|| on_exactly_these(&of_first, &remedy, grades));
        let last = self.findings[self.findings.len() - 1];
        let differs = |other: &Remedy| other.title == remedy.title && other.argv != remedy.argv;
        let each = if !is_alike(self.first(), last) && last.remedies().any(|other| differs(&other)) {
            Some(if last.subject.skyhook.is_some() { "custom resource" } else { "object" })
        } else {
            let shared = all.is_some() || remedy.runs("package logs");
            // A command of ours without the node's name is about another custom resource on each node.
            let own =
                remedy.own().is_some_and(|words| !self.nodes().any(|node| words.iter().any(|w| w == node)));
            let each = if own { "custom resource" } else { "node" };
            (!shared && is_for_one_of_many(&of_first, &remedy)).then_some(each)
        };
        let repeat = each.map(|each| format!("repeat for each {each}"));
        remedy.argv = all.unwrap_or(remedy.argv);
        (remedy, repeat)
    }
}

/// The name of a finding's custom resource, or else of its object.
fn object(finding: &Finding) -> &str {
    finding.subject.skyhook.as_deref().unwrap_or(&finding.subject.name)
}

/// The findings of a group that are about the same custom resource or object as the first: all, unless the
/// problem is that of many.
pub fn of_first<'a>(findings: &[&'a Finding]) -> Vec<&'a Finding> {
    findings.iter().copied().filter(|finding| is_alike(findings[0], finding)).collect()
}

/// Whether two findings of a group are about the same custom resource or object, or about nodes only.
fn is_alike(one: &Finding, other: &Finding) -> bool {
    one.subject.skyhook.is_none() && one.subject.node.is_some() || object(one) == object(other)
}

/// Whether a remedy of the first of these equal findings names its node, or an object on that node, and so
/// differs for other nodes.
fn is_for_one_of_many(findings: &[&Finding], remedy: &Remedy) -> bool {
    let Some(node) = &findings[0].subject.node else {
        return false;
    };
    let mut same =
        findings[1..].iter().flat_map(|f| f.remedies()).filter(|other| other.title == remedy.title);
    findings.len() > 1 && (remedy.argv.contains(node) || same.any(|other| other.argv != remedy.argv))
}

/// The command that applies a remedy of the first of these equal findings to all nodes of its custom resource;
/// `None` for other programs, or if the nodes do not have the same remedy.
pub fn on_all_nodes(findings: &[&Finding], remedy: &Remedy) -> Option<Vec<String>> {
    on_node_set(findings, remedy, FOLDED)
}

/// `on_all_nodes` with a limit on the number of node-name ranges.
pub fn on_node_set(findings: &[&Finding], remedy: &Remedy, most_runs: usize) -> Option<Vec<String>> {
    let findings = of_first(findings);
    let findings = findings.as_slice();
    // The log of one node is an example, that of many nodes is unreadable.
    if remedy.own().is_none() || remedy.runs("package logs") || !is_for_one_of_many(findings, remedy) {
        return None;
    }
    let nodes: Vec<&str> = findings.iter().filter_map(|f| f.subject.node.as_deref()).collect();
    let offers = |(finding, node): (&&Finding, &&str)| {
        finding.remedies().any(|r| renamed(&r.argv, node, nodes[0]) == remedy.argv)
    };
    // The remedy for another node may name another version.
    if !findings.iter().zip(&nodes).all(offers) {
        return None;
    }
    if nodes.len() <= FOLDED {
        return remedy.on_nodes(nodes[0], &nodes);
    }
    let set = NodeSet::of(&nodes);
    let few = set.runs() <= most_runs;
    few.then(|| remedy.on_nodes(nodes[0], &[&set.to_string()]))?
}

/// A rerun on all nodes that fail, for names that do not fold: only if its plan changes exactly the nodes of these findings.
fn on_exactly_these(findings: &[&Finding], remedy: &Remedy, grades: &Grades<'_>) -> Option<Vec<String>> {
    if !remedy.runs("package rerun") || !is_for_one_of_many(findings, remedy) {
        return None;
    }
    let mut argv = remedy.argv.clone();
    let node = argv.iter().position(|word| word == "--node")?;
    argv.splice(node..node + 2, ["--all-nodes", "--failed-only"].map(str::to_owned));
    let plan = grades.plan(&argv[OWN.len()..])?;
    let nodes = findings.iter().filter_map(|finding| finding.subject.node.as_deref());
    (plan.nodes() == nodes.collect()).then_some(argv)
}

/// Replaces a node's name in a command line.
fn renamed(argv: &[String], from: &str, to: &str) -> Vec<String> {
    let word = |word: &String| {
        if word == from { to.to_owned() } else { word.clone() }
    };
    argv.iter().map(word).collect()
}

/// The first words of this plugin's commands.
pub(super) const OWN: [&str; 2] = ["kubectl", "skyhook"];
/// Maximum number of ranges of names before the rest is counted.
pub(super) const FOLDED: usize = 8;
/// Maximum number of subjects of a rule's effects before the rest is counted.
const EFFECTS: usize = 4;

impl FindingGroup<'_> {
    /// The start of the oldest finding.
    pub fn since(&self) -> Option<Timestamp> {
        self.findings.iter().filter_map(|f| f.since).min()
    }

    /// Number of nodes with a finding.
    pub fn node_count(&self) -> usize {
        self.node_names().len()
    }

    /// The names of the custom resources with a finding.
    pub fn skyhooks(&self) -> BTreeSet<&str> {
        self.findings.iter().filter_map(|f| f.subject.skyhook.as_deref()).collect()
    }

    /// The names of the nodes with a finding.
    pub fn node_names(&self) -> BTreeSet<&str> {
        self.nodes().collect()
    }

    /// The subject without nodes: `gpu-tune driver`, `cr-[0-249] driver`; the object's name if the finding
    /// concerns no custom resource.
    pub fn place(&self) -> String {
        let subject = &self.findings[0].subject;
        let objects = self.objects().limited(1);
        subject.package.iter().fold(objects, |objects, package| format!("{objects} {package}"))
    }

    /// The nodes of a custom resource if their names fold into one: ` on gpu-[1-3]`; empty otherwise.
    pub fn on_nodes(&self) -> String {
        let nodes = NodeSet::of(self.node_names());
        let named = self.first().subject.skyhook.is_some() && nodes.runs() == 1;
        if named { format!(" on {nodes}") } else { String::new() }
    }
}

impl FindingGroup<'_> {
    /// The custom resources that the cause blocks, with node counts, without the nodes of the cause itself.
    pub(super) fn blocked_resources(&self) -> Option<String> {
        let own: BTreeSet<_> = self.findings.iter().filter_map(|f| place(f)).collect();
        let blocked = self.blocked.into_iter().flatten().filter(|(name, _)| !name.is_empty());
        let mut held: Vec<(&str, usize)> = blocked
            .map(|(name, nodes)| (*name, nodes.iter().filter(|node| !own.contains(&(*name, **node))).count()))
            .filter(|(_, nodes)| *nodes > 0)
            .collect();
        held.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
        let mut words = Vec::new();
        for (nodes, names) in grouped(held.into_iter().map(|(name, nodes)| (nodes, name))) {
            let on = |name: &str| format!("{name} on {}", plural(nodes, "node"));
            match names.as_slice() {
                [_, _, _, _, ..] => words.push(on(&NodeSet::of(names).limited(FOLDED))),
                few => words.extend(few.iter().map(|name| on(name))),
            }
        }
        (!words.is_empty()).then(|| list(&words))
    }
}

/// The custom resource and the node of a finding.
fn place(finding: &Finding) -> Option<(&str, &str)> {
    let subject = &finding.subject;
    Some((subject.skyhook.as_deref()?, subject.node.as_deref()?))
}

/// The sentence for the first contrast.
pub fn sentence(all: &[Contrast]) -> Option<String> {
    let first = all.first()?;
    let failing = if first.failing == first.failing_total {
        format!("all {} failing nodes have", count(first.failing_total))
    } else {
        format!("{} of {} failing nodes have", count(first.failing), count(first.failing_total))
    };
    let healthy = match first.healthy {
        0 => format!("but none of the {} healthy nodes do", count(first.healthy_total)),
        n => format!("but only {} of {} healthy nodes do", count(n), count(first.healthy_total)),
    };
    Some(format!("{failing} {} {}, {healthy}", first.attribute, first.value))
}
