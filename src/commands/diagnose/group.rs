//! The same trouble on many nodes, told once.

use super::view::shell_words;
use crate::cluster::Cluster;
use crate::rules::{Finding, Grade, Remedy, Severity};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, age, plural};

/// The same trouble on several nodes.
pub struct Group<'a> {
    findings: Vec<&'a Finding>,
}

/// Findings that say the same of different nodes, together, in the order of the report.
pub fn groups(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for finding in findings {
        let subject = &finding.subject;
        let key = (
            finding.rule.code,
            finding.severity,
            &subject.kind,
            &subject.skyhook,
            &subject.package,
            &finding.message,
        );
        let alone = subject.node.is_none();
        match places.get(&key) {
            Some(&at) if !alone => {
                let group: &mut Group<'_> = &mut groups[at];
                group.findings.push(finding);
            }
            _ => {
                places.insert(key, groups.len());
                groups.push(Group {
                    findings: vec![finding],
                });
            }
        }
    }
    groups
}

impl<'a> Group<'a> {
    pub fn text(&self, cluster: &Cluster, wide: bool) -> Text {
        let first = self.findings[0];
        let label = match first.severity {
            Severity::Error => Label::Error,
            Severity::Warning => Label::Warning,
            Severity::Info => Label::Info,
        };
        let mut title =
            label.on(first.severity) + " " + text::name(first.rule.code) + " " + first.rule.name;
        title = title + "  " + text::heading(self.subject(wide));
        if let Some(since) = self.findings.iter().filter_map(|f| f.since).min() {
            title = title + text::dim(format!("  {}", age(Some(since), cluster.taken_at)));
        }
        let mut body = Text::new();
        body.paragraph(first.message.as_str());
        if !first.evidence.is_empty() {
            body.line(text::dim(match self.findings.len() {
                1 => "evidence".to_owned(),
                _ => format!("evidence on {}", first.subject.name),
            }));
        }
        for e in &first.evidence {
            body.item(
                "- ",
                Line::from(e.object.as_str())
                    + ": "
                    + text::dim(e.field.as_str())
                    + ": "
                    + e.value.as_str(),
            );
        }
        if !first.remedies.is_empty() {
            body.line(text::dim("ways out, mildest first"));
        }
        for (at, remedy) in first.remedies.iter().enumerate() {
            body.append(self.remedy(at + 1, remedy));
        }
        let mut text = Text::new();
        text.line(title);
        text.indented(2, body);
        text
    }

    /// `gpu-tune driver on node-[1-3] (3 nodes)`
    fn subject(&self, wide: bool) -> String {
        let subject = &self.findings[0].subject;
        let mut words: Vec<&str> = subject.skyhook.as_deref().into_iter().collect();
        words.extend(subject.package.as_deref());
        let nodes: Vec<&str> = self
            .findings
            .iter()
            .filter_map(|f| f.subject.node.as_deref())
            .collect();
        if nodes.is_empty() {
            if subject.skyhook.is_none() {
                words.push(&subject.name);
            }
            return words.join(" ");
        }
        let folded =
            NodeSet::of(nodes.iter().copied()).limited(if wide { usize::MAX } else { FOLDED });
        let many = match nodes.len() {
            1 => String::new(),
            n => format!(" ({})", plural(n, "node")),
        };
        let on = if words.is_empty() { "" } else { " on " };
        format!("{}{on}{folded}{many}", words.join(" "))
    }

    fn remedy(&self, number: usize, remedy: &Remedy) -> Text {
        let grade = format!("{}, {}", remedy.grade, remedy.grade.meaning());
        let grade = match remedy.grade {
            Grade::B0 | Grade::B1 => text::dim(grade),
            Grade::B2 | Grade::B3 => text::warning(grade),
            Grade::B4 => text::error(grade),
        };
        let mut text = Text::new();
        text.item(
            &format!("{number}. "),
            Line::from(remedy.title.as_str()) + " (" + Line::from(grade) + ")",
        );
        let mut command = Text::new();
        match self.on_all_nodes(remedy) {
            Some(argv) => command.line(text::command(shell_words(&argv))),
            None => command.line(text::command(shell_words(&remedy.argv))),
        };
        if self.is_for_one_of_many(remedy) && self.on_all_nodes(remedy).is_none() {
            command.paragraph(text::dim("likewise for each of the nodes"));
        }
        if let Some(caveat) = &remedy.caveat {
            command.paragraph(text::dim(format!("mind: {caveat}")));
        }
        text.indented(5, command);
        text
    }

    fn is_for_one_of_many(&self, remedy: &Remedy) -> bool {
        let own = self.findings[0].subject.node.as_ref();
        self.findings.len() > 1 && own.is_some_and(|node| remedy.argv.contains(node))
    }

    /// The command that does it on all nodes of the group; our own take several.
    fn on_all_nodes(&self, remedy: &Remedy) -> Option<Vec<String>> {
        let own = remedy.argv.starts_with(&OWN.map(str::to_owned));
        if !own || !self.is_for_one_of_many(remedy) {
            return None;
        }
        if self.findings.len() > FOLDED {
            return remedy.for_all_nodes.clone();
        }
        let on = |f: &&'a Finding| f.subject.node.as_deref();
        let nodes: Vec<&str> = self.findings.iter().filter_map(on).collect();
        let offers = |(finding, node): (&&Finding, &&str)| {
            let mut remedies = finding.remedies.iter();
            remedies.any(|r| renamed(&r.argv, node, nodes[0]) == remedy.argv)
        };
        // Of another node it may speak of another version.
        if !self.findings.iter().zip(&nodes).all(offers) {
            return None;
        }
        let at = remedy.argv.iter().position(|w| w == nodes[0])?;
        let flag = Some(remedy.argv[at - 1].as_str()).filter(|w| *w == "--node");
        let from = at - usize::from(flag.is_some());
        let each = nodes
            .iter()
            .flat_map(|node| flag.into_iter().chain([*node]));
        let mut argv = remedy.argv.clone();
        argv.splice(from..=at, each.map(str::to_owned));
        Some(argv)
    }
}

fn renamed(argv: &[String], from: &str, to: &str) -> Vec<String> {
    let word = |word: &String| match word == from {
        true => to.to_owned(),
        false => word.clone(),
    };
    argv.iter().map(word).collect()
}

/// How our own commands begin.
const OWN: [&str; 2] = ["kubectl", "skyhook"];
/// Runs of node names that are shown before the rest is only counted.
const FOLDED: usize = 8;
