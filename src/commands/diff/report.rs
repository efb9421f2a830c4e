//! The report of `diff`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::facts::{Difference, differences, facts, not_compared};
use crate::cluster::Cluster;
use crate::rules::{self, Finding, Report, Scope, Severity, Subject};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, View, document, list, plural, time};

/// The differences between two captures, or between a capture and the cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Whether anything differs.
    different: bool,
    /// The earlier side.
    old: Side,
    /// The later side.
    new: Side,
    /// The changed fields.
    items: Vec<Change>,
    /// Findings above info that only the new side has, of rules that could be checked on the old side.
    new_findings: Vec<FindingKey>,
    /// Findings above info that only the old side has, of rules that could be checked on the new side.
    gone_findings: Vec<FindingKey>,
    /// Parts that were not compared, each with the reason.
    not_compared: Vec<String>,
}

/// One side of the comparison.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Side {
    /// The path of the capture, or `cluster`.
    source: String,
    /// The time at which this side was read.
    taken_at: String,
}

/// A change of one field.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// The custom resource; absent for a field of a node or of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    skyhook: Option<String>,
    /// A path such as `spec.packages.driver.version`; or `package NAME VERSION`, `node status`, `cordon`,
    /// `taint KEY:EFFECT`.
    field: String,
    /// The value on the old side; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The value on the new side; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// The nodes with this change; empty if the field is not part of a node.
    nodes: Vec<String>,
}

/// The output of `diff`.
pub struct DiffReport {
    document: Document,
}

impl DiffReport {
    pub fn new(old: (&Cluster, &str), new: (&Cluster, &str)) -> DiffReport {
        let unread = not_compared(old.0, new.0);
        let without: BTreeSet<_> = unread.iter().map(|(source, _)| *source).collect();
        let (changes, masked) = differences(&facts(old.0, &without), &facts(new.0, &without));
        let before = rules::diagnose(old.0, &Scope::default());
        let after = rules::diagnose(new.0, &Scope::default());
        let new_findings = only_in(&after, &before);
        let gone_findings = only_in(&before, &after);
        let sources = unread.iter().map(|(source, why)| format!("{source} ({why})"));
        let masked = masked.into_iter().map(|field| format!("{field} (masked)"));
        let undecided = undecided(&before, &after);
        let findings = (!undecided.is_empty())
            .then(|| format!("findings of {} (not checked on one side)", list(&undecided)));
        let items: Vec<Change> = changes.into_iter().map(Change::from).collect();
        let document = Document {
            different: !(items.is_empty() && new_findings.is_empty() && gone_findings.is_empty()),
            old: Side::of(old),
            new: Side::of(new),
            items,
            new_findings,
            gone_findings,
            not_compared: sources.chain(masked).chain(findings).collect(),
        };
        DiffReport { document }
    }

    pub fn is_different(&self) -> bool {
        self.document.different
    }

    fn verdict(&self) -> Line {
        let document = &self.document;
        let sides = format!(
            " between {} ({}) and {} ({})",
            document.old.source, document.old.taken_at, document.new.source, document.new.taken_at
        );
        if !document.different {
            let verdict = if document.not_compared.is_empty() {
                text::good("No changes")
            } else {
                text::warning("No changes in the compared data")
            };
            return verdict + sides;
        }
        let parts = [
            (document.items.len(), "change"),
            (document.new_findings.len(), "new finding"),
            (document.gone_findings.len(), "finding gone"),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts
            .map(|(number, noun)| match noun {
                "finding gone" => format!("{} gone", plural(number, "finding")),
                noun => plural(number, noun),
            })
            .collect();
        text::heading(list(&parts)) + sides
    }
}

/// The identity of a finding on both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct FindingKey {
    /// The code of the rule.
    code: String,
    /// The object that the finding is about.
    subject: Subject,
}

fn key(finding: &Finding) -> FindingKey {
    FindingKey { code: finding.rule.code.to_owned(), subject: finding.subject.clone() }
}

/// Findings with their nodes folded: `SKY201 gpu-tune driver on node-[1-3]`.
fn key_lines(keys: &[FindingKey]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for FindingKey { code, subject } in keys {
        let mut words = vec![code.as_str()];
        words.extend(subject.skyhook.as_deref());
        words.extend(subject.package.as_deref());
        words.extend(subject.compartment.as_deref());
        if subject.skyhook.is_none() && subject.node.is_none() {
            words.push(&subject.name);
        }
        let nodes = groups.entry(words.join(" ")).or_default();
        nodes.extend(subject.node.as_deref());
    }
    let line = |(words, nodes): (String, Vec<&str>)| match nodes.len() {
        0 => words,
        _ => format!("{words} on {}", NodeSet::of(nodes)),
    };
    groups.into_iter().map(line).collect()
}

/// The findings above info that only `report` has, except for rules that `other` could not check.
fn only_in(report: &Report, other: &Report) -> Vec<FindingKey> {
    let other_keys: BTreeSet<FindingKey> = other.findings.iter().map(key).collect();
    let unchecked: BTreeSet<&str> = other.not_checked.iter().map(|n| n.rule.code).collect();
    let findings = report.findings.iter();
    let keys: BTreeSet<FindingKey> = findings
        .filter(|f| f.severity > Severity::Info && !unchecked.contains(f.rule.code))
        .map(key)
        .filter(|key| !other_keys.contains(key))
        .collect();
    keys.into_iter().collect()
}

/// Codes with findings on one side that the other side could not check.
fn undecided(old: &Report, new: &Report) -> Vec<&'static str> {
    let codes_unchecked_in = |report: &Report, other: &Report| -> Vec<&'static str> {
        let found = report.findings.iter().map(|f| f.rule.code);
        found.filter(|code| other.not_checked.iter().any(|n| n.rule.code == *code)).collect()
    };
    let codes: BTreeSet<_> =
        [codes_unchecked_in(old, new), codes_unchecked_in(new, old)].concat().into_iter().collect();
    codes.into_iter().collect()
}

impl Side {
    fn of((cluster, source): (&Cluster, &str)) -> Side {
        Side { source: source.to_owned(), taken_at: time(cluster.taken_at) }
    }
}

impl From<Difference> for Change {
    fn from(difference: Difference) -> Change {
        Change {
            skyhook: difference.skyhook,
            field: difference.field,
            before: difference.before,
            after: difference.after,
            nodes: difference.nodes,
        }
    }
}

impl Change {
    /// The change as a line: `spec.packages.driver.version: 2.0.0 → 2.0.1`.
    fn line(&self) -> Line {
        let nodes = match self.nodes.len() {
            0 => String::new(),
            1 => format!("  on {}", self.nodes[0]),
            number => {
                let set = NodeSet::of(&self.nodes).limited(4);
                format!("  on {set} ({})", plural(number, "node"))
            }
        };
        let value = |value: &Option<String>| match value.as_deref() {
            None => "(none)".to_owned(),
            Some("") => "\"\"".to_owned(),
            Some(value) => value.to_owned(),
        };
        text::name(&self.field)
            + format!(": {} → {}", value(&self.before), value(&self.after))
            + text::dim(nodes)
    }
}

impl View for DiffReport {
    fn blocks(&self, _wide: bool) -> Text {
        let document = &self.document;
        let mut text = Text::new();
        text.line(self.verdict());
        let mut groups: BTreeMap<Option<&str>, Vec<&Change>> = BTreeMap::new();
        for change in &document.items {
            groups.entry(change.skyhook.as_deref()).or_default().push(change);
        }
        for (skyhook, changes) in groups {
            let heading = skyhook.unwrap_or("nodes and operator");
            text.blank().line(text::heading(heading));
            for change in changes {
                text.indented(2, change.line());
            }
        }
        if !(document.new_findings.is_empty() && document.gone_findings.is_empty()) {
            text.blank().line(text::heading("findings"));
            for line in key_lines(&document.new_findings) {
                text.indented(2, Label::Error.span("new") + format!(": {line}"));
            }
            for line in key_lines(&document.gone_findings) {
                text.indented(2, Label::Good.span("gone") + format!(": {line}"));
            }
        }
        if !document.not_compared.is_empty() {
            text.blank().line(text::warning("not compared"));
            for what in &document.not_compared {
                text.indented(2, Line::from(what.as_str()));
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let skyhooks = self.document.items.iter().filter_map(|c| c.skyhook.as_deref());
        let skyhooks = skyhooks.map(|name| format!("skyhook/{name}"));
        let nodes = self.document.items.iter().flat_map(|c| &c.nodes);
        let nodes = nodes.map(|name| format!("node/{name}"));
        let names: BTreeSet<String> = skyhooks.chain(nodes).collect();
        names.into_iter().collect()
    }

    fn document(&self) -> Value {
        document("Diff", &self.document)
    }
}
