//! A report, laid out.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::group::groups;
use crate::cluster::Cluster;
use crate::commands::API_VERSION;
use crate::rules::{Counts, Evidence, Remedy, Report, Severity, Subject, Verdict};
use crate::view::text::{self, Line, Text};
use crate::view::{View, count, list, plural};

/// What `diagnose stuck` answers.
pub struct Diagnosis<'a> {
    cluster: &'a Cluster,
    report: Report,
    narrowed: bool,
}

/// What is stuck, by which evidence, and the ways out; and what could not be checked.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    api_version: String,
    /// Always `Diagnosis`.
    kind: String,
    verdict: Verdict,
    /// When the cluster was read; for files, the newest time that stands in them.
    taken_at: String,
    ruling: RulingDocument,
    findings: Vec<FindingDocument>,
    not_checked: Vec<NotCheckedDocument>,
    counts: Counts,
}

/// Which API the operator acts on, and what decided it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RulingDocument {
    api: String,
    because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_version: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct FindingDocument {
    code: String,
    name: String,
    severity: Severity,
    subject: Subject,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    evidence: Vec<Evidence>,
    remedies: Vec<Remedy>,
}

#[derive(Serialize, JsonSchema)]
struct NotCheckedDocument {
    code: String,
    why: String,
}

impl<'a> Diagnosis<'a> {
    pub fn new(cluster: &'a Cluster, report: Report) -> Diagnosis<'a> {
        Diagnosis {
            cluster,
            report,
            narrowed: false,
        }
    }

    /// Says that the answer is about a part of the cluster, or of the rules.
    pub fn narrowed(self, narrowed: bool) -> Diagnosis<'a> {
        Diagnosis { narrowed, ..self }
    }

    fn verdict(&self) -> Line {
        let counts = &self.report.counts;
        let mut parts = Vec::new();
        for (number, noun) in [(counts.errors, "error"), (counts.warnings, "warning")] {
            if number > 0 {
                parts.push(plural(number, noun));
            }
        }
        if counts.infos > 0 {
            parts.push(plural(counts.infos, "info"));
        }
        let found = if parts.is_empty() {
            String::new()
        } else {
            format!(": {}", list(&parts))
        };
        match self.report.verdict {
            Verdict::Stuck => text::error("Stuck") + found,
            Verdict::Healthy if self.narrowed => {
                text::good("Nothing is stuck in what was asked about") + found
            }
            Verdict::Healthy => text::good("Nothing is stuck") + found,
            Verdict::Incomplete => {
                text::warning("Nothing found stuck, but not everything could be checked") + found
            }
        }
    }

    fn looked_at(&self) -> String {
        let counts = &self.report.counts;
        let mut things = vec![
            plural(counts.skyhooks, self.cluster.generation().kind()),
            plural(counts.nodes, "node"),
            plural(counts.pods, "package pod"),
        ];
        if counts.jobs > 0 {
            things.push(plural(counts.jobs, "job"));
        }
        let rules = plural(counts.rules, "rule");
        let rules = match counts.rules.saturating_sub(self.report.not_checked.len()) {
            checked if checked == counts.rules => rules,
            checked => format!("{} of {rules}", count(checked)),
        };
        format!("{rules} looked at {}.", list(&things))
    }

    /// Rules that could not be checked, those of one reason together.
    fn not_checked(&self) -> Option<Text> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for not in &self.report.not_checked {
            match reasons.iter_mut().find(|(why, _)| *why == not.why) {
                Some((_, codes)) => codes.push(not.rule.code),
                None => reasons.push((&not.why, vec![not.rule.code])),
            }
        }
        if reasons.is_empty() {
            return None;
        }
        let mut text = Text::new();
        text.line(text::warning(format!(
            "{} could not be checked",
            plural(self.report.not_checked.len(), "rule")
        )));
        for (why, codes) in reasons {
            text.indented(2, Line::from(format!("{}: {why}", codes.join(" "))));
        }
        Some(text)
    }
}

impl View for Diagnosis<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        text.line(self.verdict());
        for group in groups(&self.report.findings) {
            text.blank();
            text.append(group.text(self.cluster, wide));
        }
        if let Some(not_checked) = self.not_checked() {
            text.blank();
            text.append(not_checked);
        }
        text.blank();
        text.paragraph(text::dim(self.looked_at()));
        text
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for finding in &self.report.findings {
            let subject = &finding.subject;
            let name = format!("{}/{}", subject.kind.to_lowercase(), subject.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn document(&self) -> Value {
        let ruling = &self.cluster.ruling;
        let findings = self.report.findings.iter().map(|f| FindingDocument {
            code: f.rule.code.to_owned(),
            name: f.rule.name.to_owned(),
            severity: f.severity,
            subject: f.subject.clone(),
            message: f.message.clone(),
            since: f.since.map(|s| s.to_string()),
            evidence: f.evidence.clone(),
            remedies: f.remedies.clone(),
        });
        let document = Document {
            api_version: API_VERSION.to_owned(),
            kind: "Diagnosis".to_owned(),
            verdict: self.report.verdict,
            taken_at: self.cluster.taken_at.to_string(),
            ruling: RulingDocument {
                api: ruling.generation.api_version(),
                because: ruling.because.clone(),
                operator_version: ruling.operator_version.as_ref().map(ToString::to_string),
            },
            findings: findings.collect(),
            not_checked: self
                .report
                .not_checked
                .iter()
                .map(|n| NotCheckedDocument {
                    code: n.rule.code.to_owned(),
                    why: n.why.clone(),
                })
                .collect(),
            counts: self.report.counts,
        };
        serde_json::to_value(document).expect("a document is plain data")
    }
}

/// The words of a command as a shell takes them.
pub fn shell_words(argv: &[String]) -> String {
    let quote = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    argv.iter().map(quote).collect::<Vec<_>>().join(" ")
}
