//! The report of `lint`, as text and as a document.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{ObjectChange, diff_text};
use crate::cluster::Cluster;
use crate::commands::shared::rule::{FailOn, counted, label_of};
use crate::ctx::Ctx;
use crate::lint::{ALL, Input, LintFinding, LintReport, LintRule};
use crate::model::{Effects, PackageDocument, RolloutDocument};
use crate::plan::Target;
use crate::rules::{Severity, Subject};
use crate::view::text::{self, Line, Text};
use crate::view::{View, distinct, document, effects_text, list, plural};

/// The findings about manifests.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The cluster data that the manifests were checked against: `cluster`, `capture` or `none`.
    checked_against: String,
    /// Findings that are not suppressed, by file and line.
    findings: Vec<&'a LintFinding>,
    /// Findings that a comment, a mute or the configuration suppresses.
    suppressed: Vec<&'a LintFinding>,
    /// With `--diff`, the custom resources that are created or changed; absent if there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [ObjectChange],
    /// Number of objects and findings.
    counts: Counts,
    /// The effects of applying the manifests on packages; empty without a cluster.
    effects: Vec<PackageDocument>,
    /// The effects of applying the manifests on nodes; empty without a cluster.
    rollouts: Vec<RolloutDocument>,
}

/// Number of objects and findings.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Counts {
    /// Number of checked objects.
    manifests: usize,
    /// Number of objects of other kinds, which are not checked.
    skipped: usize,
    /// Number of skipped templates: they declare no object of either API.
    skipped_templates: usize,
    /// Number of skipped documents without an object, such as lists and broken files of other programs.
    skipped_documents: usize,
    /// Number of skipped patches and assertions: a kustomization or a test uses their files.
    skipped_patches: usize,
    /// Number of files that the configuration excludes.
    excluded_files: usize,
    /// Number of findings with severity `error`, without suppressed ones.
    errors: usize,
    /// Number of findings with severity `warning`, without suppressed ones.
    warnings: usize,
    /// Number of findings with severity `info`, without suppressed ones.
    infos: usize,
    /// Number of suppressed findings.
    suppressed: usize,
}

/// The output of `lint`.
pub struct LintView<'a> {
    pub report: &'a LintReport,
    pub cluster: Option<&'a Cluster>,
    /// Number of files that the configuration excludes.
    pub excluded: usize,
    pub changes: Vec<ObjectChange>,
    pub effects: Vec<Effects<'a>>,
    pub fail_on: FailOn,
    /// Whether the text contains annotations for GitHub Actions.
    pub annotated: bool,
}

impl LintView<'_> {
    fn packages(&self) -> Vec<PackageDocument> {
        self.effects.iter().flat_map(|effects| effects.packages.clone()).collect()
    }

    fn rollouts(&self) -> Vec<RolloutDocument> {
        self.effects.iter().map(|effects| effects.rollout.clone()).collect()
    }

    fn suppressed(&self) -> usize {
        self.report.findings.len() - self.report.open().count()
    }

    fn verdict(&self) -> Line {
        let report = self.report;
        let count = |severity| report.count(severity);
        let (errors, warnings, infos) =
            (count(Severity::Error), count(Severity::Warning), count(Severity::Info));
        let mut found = counted(errors, warnings);
        if infos > 0 {
            found.push(format!("{infos} info"));
        }
        let checked = report.tally().manifests;
        let manifests = format!(" in {}", plural(checked, "manifest"));
        if found.is_empty() {
            return match checked {
                0 => text::warning("No Skyhook, NodeWright or DeploymentPolicy manifests found").into(),
                _ => text::good("No problems found") + manifests,
            };
        }
        let label = match (errors, warnings) {
            (0, 0) => label_of(Severity::Info),
            (0, _) => label_of(Severity::Warning),
            _ => label_of(Severity::Error),
        };
        let found = label.span(list(&found));
        match checked {
            0 => found.into(),
            _ => found + manifests,
        }
    }

    /// The scope of the check, as a sentence.
    fn scope(&self) -> String {
        let mut sentences = vec![match self.cluster {
            Some(cluster) if cluster.from_files => "Checked against the capture.".to_owned(),
            Some(_) => "Checked against the cluster.".to_owned(),
            None => "Checked without a cluster.".to_owned(),
        }];
        let tally = self.report.tally();
        let skipped = [
            (tally.others, "object of another kind", "objects of other kinds"),
            (tally.templates, "template of another kind", "templates of other kinds"),
            (tally.documents, "document without an object", "documents without objects"),
            (tally.parts, "patch or assertion", "patches and assertions"),
            (self.excluded, "excluded file", "excluded files"),
        ];
        for (number, one, many) in skipped {
            match number {
                0 => {}
                1 => sentences.push(format!("1 {one} skipped.")),
                _ => sentences.push(format!("{number} {many} skipped.")),
            }
        }
        match self.suppressed() {
            0 => {}
            number => sentences.push(format!("{} suppressed.", plural(number, "finding"))),
        }
        sentences.join(" ")
    }
}

/// The first line of a finding: `gpu.yaml:14: error SKY811: skyhook gpu-tune, package driver: …`.
fn heading(finding: &LintFinding) -> Line {
    let place = format!("{}:{}: ", finding.file, finding.line);
    let severity = label_of(finding.severity).span(finding.severity);
    let subject = match &finding.subject {
        Subject { kind, .. } if kind == "File" => String::new(),
        subject => format!("{}: ", subject_text(subject)),
    };
    text::name(place)
        + severity
        + " "
        + text::name(finding.rule.code)
        + ": "
        + subject
        + finding.message.as_str()
}

impl View for LintView<'_> {
    fn blocks(&self, _wide: bool) -> Text {
        let mut body = Text::new();
        body.line(self.verdict());
        body.line(text::dim(self.scope()));
        for finding in self.report.open() {
            body.blank().item("", heading(finding));
            if let Some(fix) = &finding.fix {
                let mut indented = Text::new();
                indented.paragraph(text::prose(fix));
                body.indented(2, indented);
            }
        }
        if self.annotated {
            body.blank();
            for finding in self.report.open() {
                body.line(annotation(finding));
            }
        }
        if let Some(first) = self.report.open().next() {
            let command = format!("kubectl skyhook explain {}", first.rule.code);
            body.blank().line(text::dim("Explain a rule: ") + text::command(command));
        }
        body.append(diff_text(&self.changes));
        body.append(effects_text(&self.packages(), &self.rollouts()));
        body
    }

    fn names(&self) -> Vec<String> {
        let subjects = self.report.open().map(|f| &f.subject);
        distinct(subjects.map(|s| format!("{}/{}", s.kind.to_lowercase(), s.name)))
    }

    fn document(&self) -> Value {
        let report = self.report;
        let suppressed = report.findings.iter().filter(|f| f.suppressed.is_some());
        let tally = report.tally();
        let fields = Document {
            checked_against: match self.cluster {
                Some(cluster) if cluster.from_files => "capture",
                Some(_) => "cluster",
                None => "none",
            }
            .to_owned(),
            findings: report.open().collect(),
            suppressed: suppressed.collect(),
            changes: &self.changes,
            counts: Counts {
                manifests: tally.manifests,
                skipped: tally.others,
                skipped_templates: tally.templates,
                skipped_documents: tally.documents,
                skipped_patches: tally.parts,
                excluded_files: self.excluded,
                errors: report.count(Severity::Error),
                warnings: report.count(Severity::Warning),
                infos: report.count(Severity::Info),
                suppressed: self.suppressed(),
            },
            effects: self.packages(),
            rollouts: self.rollouts(),
        };
        document("Lint", &fields)
    }

    fn junit(&self) -> Option<quick_junit::Report> {
        Some(report(self.report, self.fail_on))
    }

    fn sarif(&self) -> Option<Value> {
        Some(log(self.report))
    }
}

/// The command for a finding: `::error file=gpu.yaml,line=14,col=5,title=SKY811::…`.
pub(super) fn annotation(finding: &LintFinding) -> String {
    let command = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let message = format!("{}: {}", subject_text(&finding.subject), finding.message);
    format!(
        "::{command} file={},line={},col={},title={}::{}",
        property(&finding.file),
        finding.line,
        finding.column,
        finding.rule.code,
        escaped(&message)
    )
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}

/// Characters that a URI must not contain.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A log with one run. Suppressed findings are included and marked.
pub(super) fn log(lint: &LintReport) -> Value {
    let driver = json!({
        "name": "kubectl-skyhook",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": ALL.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
    });
    let results: Vec<Value> = lint.findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    })
}

fn descriptor(rule: &LintRule) -> Value {
    let page = format!("{}/blob/main/docs/codes/{}.md", env!("CARGO_PKG_REPOSITORY"), rule.code);
    json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary()},
        "help": {"text": rule.docs, "markdown": rule.docs},
        "helpUri": page,
        "defaultConfiguration": {"level": level(rule.severity)},
    })
}

fn result(finding: &LintFinding) -> Value {
    let subject = subject_text(&finding.subject);
    let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!(". {fix}"));
    let uri = finding.file.trim_start_matches("./");
    let mut result = json!({
        "ruleId": finding.rule.code,
        "ruleIndex": ALL.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(finding.severity),
        "message": {"text": format!("{subject}: {}{fix}", finding.message)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": utf8_percent_encode(uri, ESCAPED).to_string()},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }}],
        "partialFingerprints": {"finding/v1": format!("{} {subject} {}", finding.rule.code, finding.path)},
    });
    if let Some(reason) = &finding.suppressed {
        result["suppressions"] = json!([{"kind": "inSource", "justification": reason}]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// A JUnit report: one suite for each file, and one test case for each finding. Findings that cause exit code 2 are
/// failures, suppressed findings are skipped tests. A file without findings has one passed test case.
pub(super) fn report(lint: &LintReport, fail_on: FailOn) -> Report {
    let mut report = Report::new("lint");
    for file in lint.files.keys() {
        let mut suite = TestSuite::new(file.as_str());
        let findings = lint.findings.iter().filter(|f| f.file == *file);
        suite.add_test_cases(findings.map(|finding| test_case(finding, fail_on)));
        if suite.test_cases.is_empty() {
            suite.add_test_case(TestCase::new("no findings", TestCaseStatus::success()));
        }
        report.add_test_suite(suite);
    }
    report
}

fn test_case(finding: &LintFinding, fail_on: FailOn) -> TestCase {
    let subject = subject_text(&finding.subject);
    let skipped = &finding.suppressed;
    let mut status = match skipped {
        Some(_) => TestCaseStatus::skipped(),
        None if fail_on.includes(finding.severity) => TestCaseStatus::non_success(NonSuccessKind::Failure),
        None => TestCaseStatus::success(),
    };
    status.set_message(skipped.as_ref().unwrap_or(&finding.message).as_str());
    status.set_type(finding.severity.to_string());
    if skipped.is_none() {
        let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!("\n{fix}"));
        let place = format!("{}:{}", finding.file, finding.line);
        status.set_description(format!("{place}: {subject}: {}{fix}", finding.message));
    }
    let name = format!("{} {}: {subject}", finding.rule.code, finding.rule.name);
    let mut case = TestCase::new(name, status);
    case.set_classname(finding.file.as_str());
    case.extra.insert("file".into(), finding.file.as_str().into());
    case.extra.insert("line".into(), finding.line.to_string().as_str().into());
    case
}

/// Asks the server about the manifests without errors, and warns about those that it cannot check. Returns whether
/// there are any.
pub(super) async fn read(ctx: &mut Ctx, input: &mut Input<'_>, report: &LintReport) -> bool {
    let mut unread = false;
    for (at, manifest) in input.documents.manifests.iter().enumerate() {
        let refused = report.open().filter(|finding| finding.severity == Severity::Error).any(|f| {
            let of = &f.subject;
            (&f.file, &of.kind, &of.name) == (&manifest.file, &manifest.kind, &manifest.name)
        });
        let Some(flavor) = manifest.flavor().filter(|_| manifest.is_known_kind() && !refused) else {
            continue;
        };
        let target = match manifest.policy() {
            Some(_) => Target::policy(flavor, &manifest.name, None),
            None => Target::skyhook(flavor, &manifest.name, None),
        };
        match ctx.refusal(&target, &manifest.value).await {
            Ok(refusal) => input.refusals.extend(refusal.map(|why| (at, why))),
            Err(why) => {
                ctx.warn(format!("{target} was not checked by the server: {why}"));
                unread = true;
            }
        }
    }
    unread
}

/// The text for a subject: `Skyhook gpu-tune, package driver`.
pub(super) fn subject_text(subject: &Subject) -> String {
    let mut text = format!("{} {}", subject.kind, subject.name);
    if let Some(package) = &subject.package {
        text += &format!(", package {package}");
    }
    if let Some(compartment) = &subject.compartment {
        text += &format!(", compartment {compartment}");
    }
    text
}
