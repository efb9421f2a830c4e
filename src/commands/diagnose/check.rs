mod checks;
mod ready;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::args::connection::duration;
use crate::cluster::{Cluster, Read, Unread};
use crate::commands;
use crate::commands::shared::command::command;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::mutes::{LoadedMutes, MuteFlags};
use crate::commands::shared::rule::{counted, incomplete};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::rules::{ALL, Blocks, Finding, Rule, Scope, Severity};
use crate::view::monitoring::{self, Case, Metrics, TestResult};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{OutputFormat, View, document, duration_text, list, plural, shell_words, time, to_json};
use checks::checks;
use ready::{changes, every_change};

/// Check the installation of the operator itself
///
/// Checks, in this order: the API server, the CustomResourceDefinitions, the operator and its leader, what you may read
/// and change, the admission webhooks and their certificates, incompatible versions, and settings and sizes that stop
/// the operator. Each check that is not ok has a hint. Checks that could not run are listed.
///
/// Your permissions to make changes are checked with access reviews, which change nothing; a missing permission is a
/// warning.
///
/// Exits with 2 if something is wrong, otherwise with 1 if something could not be read from the cluster, or
/// if the capture contains no custom resources or no nodes. Warnings do not count.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook diagnose check

  # Before an upgrade from v0.17: rollouts to finish first
  kubectl skyhook diagnose check --for v0.18

  # Before an upgrade to v0.21: what it breaks
  kubectl skyhook diagnose check --for v0.21

  # Before a rollback to v0.15: what has to be removed
  kubectl skyhook diagnose check --for v0.15

  # After an installation: wait until all checks pass, for at most five minutes
  kubectl skyhook diagnose check --wait --timeout 5m")]
pub struct Args {
    /// Repeat the checks until no problem is found
    #[arg(long)]
    wait: bool,

    /// How long to repeat the checks; 0 means no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, requires = "wait")]
    timeout: Duration,

    /// Check what breaks with this version of the operator
    ///
    /// These checks come first; the checks of the installation that found nothing are only counted.
    ///
    /// v0.18 migrates Skyhook objects to NodeWright, and does nothing while one is unfinished. v0.21 drops the API group of
    /// Skyhook. v0.15, after a rollback, does not know uninstall settings.
    #[arg(long = "for", value_name = "VERSION", value_parser = ["v0.15", "v0.18", "v0.19", "v0.20", "v0.21"])]
    ready_for: Option<String>,

    #[command(flatten)]
    muting: MuteFlags,
}

/// Interval between two runs of the checks.
const PAUSE: Duration = Duration::from_secs(2);

command! {
    "diagnose check": Args => run,
    needs: Scope::default().needs(),
    gets: &[("apiextensions.k8s.io", "customresourcedefinitions")],
    lists: &[("coordination.k8s.io", "leases")],
    prints: { "Check": CheckReport },
}

/// The rules about the installation, about controllers that do not act in time, and about problems that stop the operator
/// for all custom resources.
fn rules() -> Vec<&'static Rule> {
    let all = ALL.iter().copied();
    let stops = |rule: &Rule| rule.blocks.contains(&Blocks::Reconcile);
    let late = |rule: &Rule| checks::LATE.contains(&rule.code);
    all.filter(|rule| rule.code.starts_with("SKY5") || late(rule) || stops(rule)).collect()
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if !args.wait {
        let (page, muting) = run_checks(ctx, args).await?;
        ctx.show(&page)?;
        if ctx.global().output.format == OutputFormat::Table {
            ctx.note(
                "These checks are about the installation; `kubectl skyhook diagnose` checks the rollouts.",
            );
        }
        return Ok(muting.exit(page.exit()));
    }
    let interrupted = ctx.interrupt();
    let over = async {
        if args.timeout.is_zero() {
            std::future::pending().await
        } else {
            tokio::time::sleep(args.timeout).await
        }
    };
    let mut last = None;
    let ended = {
        let rounds = async {
            loop {
                match run_checks(ctx, args).await {
                    Ok((page, _)) => {
                        if last.insert(page).exit() != Exit::Findings {
                            return Ok(());
                        }
                    }
                    Err(error) if last.is_none() => return Err(error),
                    // Retry while the server does not respond.
                    Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            biased;
            () = interrupted => Some(Exit::Interrupted),
            passed = rounds => passed.map(|()| None)?,
            () = over => Some(Exit::TimedOut),
        }
    };
    let Some(last) = last else {
        let exit = ended.unwrap_or(Exit::Failed);
        let how = match exit {
            Exit::TimedOut => format!("timed out after {}", duration_text(args.timeout)),
            _ => "interrupted".to_owned(),
        };
        return Err(Error { exit, ..Error::failed(format!("{how}: the first checks have not finished")) });
    };
    ctx.show(&last)?;
    Ok(ended.unwrap_or_else(|| last.exit()))
}

async fn run_checks(ctx: &mut Ctx, args: &Args) -> Result<(CheckReport, LoadedMutes)> {
    let cluster: Cluster = ctx.load(&Scope::default().needs()).await?;
    let muting = args.muting.load(ctx, &cluster)?;
    let installation = ctx.installation(&cluster).await;
    let answers = ctx.may_change(&every_change(&cluster)).await;
    let changes = changes(&cluster, &commands::all(), answers.as_ref());
    let mut checks = checks(&cluster, &installation, changes, &muting.mutes);
    let mut questions = Vec::new();
    let readiness_from = checks.len();
    match args.ready_for.as_deref() {
        Some("v0.15") => checks.extend(ready::rollback_checks(&cluster)),
        Some(version @ ("v0.18" | "v0.19" | "v0.20")) => {
            checks.extend(ready::migration_checks(&cluster, version))
        }
        Some(_) => {
            checks.extend(ready::checks(&cluster));
            questions = ready::questions();
        }
        None => {}
    }
    let mut report = CheckReport::new(&cluster, checks, questions);
    report.readiness = args.ready_for.clone().map(|version| Readiness { first: readiness_from, version });
    Ok((report, muting))
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum CheckResult {
    /// No problem was found.
    #[serde(rename = "Ok")]
    Good,
    /// The observed state may cause a problem later, or may be intended.
    Warning,
    /// A problem was found.
    Error,
    /// A problem was found, and is muted.
    Muted,
    /// A required source could not be read.
    NotChecked,
}

/// One check of the installation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Check {
    /// The part of the installation: `operator`, `webhooks` …
    #[serde(rename = "area")]
    subject: &'static str,
    /// The expected state.
    title: &'static str,
    /// The result of the check.
    outcome: CheckResult,
    /// The observed state, or why the check could not run.
    message: String,
    /// How to fix the problem; absent if the check is good or no fix is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Whether the cluster did not return a required source.
    #[serde(skip)]
    withheld: bool,
}

/// A question that the reader has to answer: the cluster does not show the answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Question {
    /// The question.
    question: &'static str,
    /// How to find the answer.
    hint: String,
}

impl Check {
    fn hint(self, hint: impl Into<String>) -> Check {
        Check { hint: Some(hint.into()), ..self }
    }
}

/// The subject of a check and its expected state.
#[derive(Clone, Copy)]
struct Expectation(pub &'static str, pub &'static str);

impl Expectation {
    fn check(self, outcome: CheckResult, message: impl Into<String>) -> Check {
        Check {
            subject: self.0,
            title: self.1,
            outcome,
            message: message.into(),
            hint: None,
            withheld: false,
        }
    }

    fn good(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Good, message)
    }

    fn warning(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Warning, message)
    }

    fn error(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Error, message)
    }

    fn not_checked(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::NotChecked, message)
    }

    fn unread(self, why: &Unread) -> Check {
        let check = self.not_checked(why.to_string());
        Check { withheld: true, ..check.hint("kubectl skyhook rbac --for 'diagnose check'") }
    }

    /// Result "not checked" for a source that was not requested: missing from the input, or the operator's
    /// namespace is unknown.
    fn not_asked(self, cluster: &Cluster) -> Check {
        let message = if cluster.from_files {
            "the capture lacks the objects needed for this check"
        } else {
            "the objects needed for this check were not read"
        };
        self.not_checked(message)
    }

    /// The value of a source, or the check result if the source was not read.
    fn read<'r, T>(self, cluster: &Cluster, read: &'r Read<T>) -> Result<&'r T, Check> {
        match read {
            Read::Ok(read) => Ok(read),
            Read::Incomplete(_, why) | Read::Unreadable(why) => Err(self.unread(why)),
            Read::NotRequested => Err(self.not_asked(cluster)),
        }
    }

    /// A good result, if the source was read.
    fn good_if_read<T>(self, cluster: &Cluster, read: &Read<T>, message: impl Into<String>) -> Check {
        self.read(cluster, read).map_or_else(|check| check, |_| self.good(message))
    }

    /// The check result for the most severe finding of these rules; `None` without findings above info.
    fn check_findings(self, findings: &[Finding], codes: &[&str]) -> Option<Check> {
        let of = findings.iter().filter(|f| codes.contains(&f.rule.code));
        let of: Vec<&Finding> = of.filter(|f| f.severity > Severity::Info).collect();
        let worst = of.iter().max_by_key(|f| f.severity)?;
        // Use the most severe finding that is not muted.
        let worst = of.iter().filter(|f| f.muted.is_none()).max_by_key(|f| f.severity).unwrap_or(worst);
        let outcome = match (&worst.muted, worst.severity) {
            (Some(_), _) => CheckResult::Muted,
            (None, Severity::Error) => CheckResult::Error,
            (None, _) => CheckResult::Warning,
        };
        let more = match of.len() {
            1 => String::new(),
            n => format!(" (and {})", plural(n - 1, "more finding")),
        };
        let muted = worst.muted.as_ref();
        let muted = muted.map_or_else(String::new, |mute| format!("; muted: {mute}"));
        let message = format!("{}{more} ({}){muted}", worst.message, worst.rule.code);
        let check = self.check(outcome, message);
        Some(check.hint(match worst.remedies().next() {
            Some(remedy) => shell_words(&remedy.argv),
            None => format!("kubectl skyhook explain {}", worst.rule.code),
        }))
    }
}

/// The command that prints the operator's log.
fn operator_log(cluster: &Cluster) -> String {
    match cluster.operator().deployment() {
        Some(operator) => format!(
            "kubectl logs -n {} deployment/{} --all-containers --tail 100",
            operator.namespace(),
            operator.name()
        ),
        None if cluster.operators.ok().is_some_and(|all| all.is_empty()) => {
            "install the operator: no deployment of it was found".to_owned()
        }
        None => "see the log of the operator".to_owned(),
    }
}

/// The result of all checks of the installation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    /// The conclusion from all checks.
    verdict: CheckVerdict,
    /// The checks in order of dependency: the API server first.
    #[serde(rename = "items")]
    checks: Vec<Check>,
    /// With `--for`, the questions that the cluster cannot answer; they do not change the verdict.
    questions: Vec<Question>,
    /// The time at which ages are calculated.
    taken_at: String,
    #[serde(skip)]
    readiness: Option<Readiness>,
}

/// The version of `--for`.
struct Readiness {
    version: String,
    /// The index of its first check.
    first: usize,
}

/// The conclusion from the checks of the installation.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum CheckVerdict {
    /// A check found an error.
    Failed,
    /// All checks ran, and none found an error; warnings are possible.
    Healthy,
    /// No check found an error, but some could not run.
    NotFullyChecked,
}

/// The result that matters most: an error, a warning, or a check that could not run.
fn worst(checks: &[Check]) -> CheckResult {
    let ranked = [CheckResult::Error, CheckResult::Warning, CheckResult::NotChecked];
    let any = |outcome: &CheckResult| checks.iter().any(|check| check.outcome == *outcome);
    ranked.into_iter().find(any).unwrap_or(CheckResult::Good)
}

impl CheckReport {
    fn new(cluster: &Cluster, checks: Vec<Check>, questions: Vec<Question>) -> CheckReport {
        let verdict = match worst(&checks) {
            CheckResult::Error => CheckVerdict::Failed,
            _ if checks.iter().any(|check| check.outcome == CheckResult::NotChecked) => {
                CheckVerdict::NotFullyChecked
            }
            _ => CheckVerdict::Healthy,
        };
        CheckReport { verdict, checks, questions, taken_at: time(cluster.taken_at), readiness: None }
    }

    fn exit(&self) -> Exit {
        if self.verdict == CheckVerdict::Failed {
            Exit::Findings
        } else if self.checks.iter().any(|c| c.withheld) {
            Exit::Failed
        } else {
            Exit::Done
        }
    }

    fn verdict(&self) -> Text {
        let of = |outcome| self.checks.iter().filter(|c| c.outcome == outcome).count();
        let (warnings, not_checked) = (of(CheckResult::Warning), of(CheckResult::NotChecked));
        let graded = counted(of(CheckResult::Error), warnings);
        let mut parts = Vec::new();
        if not_checked > 0 && (self.verdict == CheckVerdict::Failed || self.readiness.is_some()) {
            parts.push(format!("{} not run", plural(not_checked, "check")));
        }
        match of(CheckResult::Muted) {
            0 => {}
            muted => parts.push(format!("{muted} muted")),
        }
        match self.questions.len() {
            0 => {}
            open => parts.push(plural(open, "open question")),
        }
        let mut text = Text::new();
        let unchecked = format!("{} could not run", plural(not_checked, "check"));
        let verdict = match (self.verdict, &self.readiness) {
            (verdict, Some(Readiness { version, first })) => match worst(&self.checks[*first..]) {
                CheckResult::Error => text::error(format!("Problems with {version}")),
                CheckResult::Warning => text::warning(format!("Possible problems with {version}")),
                CheckResult::NotChecked => text::warning(format!("Not known whether ready for {version}")),
                _ if verdict == CheckVerdict::Healthy => text::good(format!("Ready for {version}")),
                _ if verdict == CheckVerdict::Failed => {
                    text::error(format!("Nothing found against {version}, but the installation has problems"))
                }
                _ => text::warning(format!("Nothing found against {version}")),
            },
            (CheckVerdict::Failed, None) => text::error("The installation has problems"),
            (CheckVerdict::Healthy, None) => text::good("The installation is healthy"),
            (CheckVerdict::NotFullyChecked, None) => {
                let whole = not_checked == self.checks.len();
                let verdict = text::warning(incomplete(&unchecked, whole, &graded, warnings));
                let rest = if parts.is_empty() { String::new() } else { format!("; {}", list(&parts)) };
                text.line(verdict + rest);
                return text;
            }
        };
        let found = [graded, parts].concat();
        let found = if found.is_empty() { String::new() } else { format!(": {}", list(&found)) };
        text.line(verdict + found);
        text
    }
}

impl Check {
    /// The observation, and the expectation if it is not met: `the operator uses the newer API (operator v0.21)`.
    fn sentence(&self) -> String {
        match self.outcome {
            CheckResult::Good => format!("{} ({})", self.title, self.message),
            _ => format!("{}; expected: {}", self.message, self.title),
        }
    }
}

/// A list item with its hint below.
fn item(line: impl Into<Line>, hint: Option<&str>) -> Text {
    let mut text = Text::new();
    text.item("- ", line);
    match hint {
        Some(command) if command.starts_with("kubectl ") => {
            text.line(text::dim("  hint: ") + command);
        }
        Some(hint) => {
            text.item("  hint: ", hint);
        }
        None => {}
    }
    text
}

impl View for CheckReport {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = self.verdict();
        let mut subject = "";
        let mut unchecked = Vec::new();
        let (installation, readiness) = match &self.readiness {
            Some(readiness) => self.checks.split_at(readiness.first),
            None => (&*self.checks, &[][..]),
        };
        let is_counted = |check: &&Check| self.readiness.is_some() && check.outcome == CheckResult::Good;
        let counted = installation.iter().filter(is_counted).count();
        for check in readiness.iter().chain(installation.iter().filter(|check| !is_counted(check))) {
            let hint = check.hint.as_deref();
            let (label, word) = match check.outcome {
                CheckResult::Good => (Label::Good, "ok"),
                CheckResult::Warning => (Label::Warning, "warning"),
                CheckResult::Error => (Label::Error, "error"),
                CheckResult::Muted => (Label::Info, "muted"),
                CheckResult::NotChecked => {
                    unchecked.push(((check.message.as_str(), hint), check.title));
                    continue;
                }
            };
            if check.subject != subject {
                subject = check.subject;
                text.blank().line(text::heading(subject));
            }
            text.indented(2, item(label.span(word) + ": " + check.sentence(), hint));
        }
        if counted > 0 {
            text.blank().line(format!("{} of the installation found no problem", plural(counted, "check")));
        }
        if !unchecked.is_empty() {
            text.blank().line(text::warning("not checked"));
        }
        for ((reason, hint), titles) in grouped(unchecked) {
            text.indented(2, item(format!("{} ({reason})", titles.join("; ")), hint));
        }
        if !self.questions.is_empty() {
            text.blank().line(text::heading("questions that the cluster cannot answer"));
        }
        for Question { question, hint } in &self.questions {
            text.indented(2, item(*question, Some(hint)));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let wrong = self.checks.iter().filter(|c| c.outcome == CheckResult::Error);
        wrong.map(|c| format!("check/{}", c.subject)).collect()
    }

    fn document(&self) -> Value {
        document("Check", self)
    }

    fn junit(&self) -> Option<quick_junit::Report> {
        let cases = self.checks.iter().map(test_case);
        Some(monitoring::report("diagnose check", cases))
    }

    fn openmetrics(&self) -> Option<Metrics> {
        let mut metrics = Metrics::default();
        let outcome = |check: &Check| to_json(&check.outcome).as_str().unwrap_or_default().to_lowercase();
        metrics.gauge(
            "checks",
            "Checks of the installation by subject and outcome",
            self.checks.iter().map(|check| {
                let subject = check.subject.to_owned();
                (vec![("subject", subject), ("outcome", outcome(check))], 1)
            }),
        );
        Some(metrics)
    }
}

/// The JUnit test case of a check. Warnings pass, as they do in the exit code.
fn test_case(check: &Check) -> Case {
    let result = match check.outcome {
        CheckResult::Good | CheckResult::Warning => TestResult::Passed,
        CheckResult::Error => TestResult::Failed,
        CheckResult::NotChecked if check.withheld => TestResult::Error,
        CheckResult::NotChecked | CheckResult::Muted => TestResult::Skipped,
    };
    let passed = result == TestResult::Passed;
    let hint = check.hint.as_ref().filter(|_| !passed);
    Case {
        name: format!("{}: {}", check.subject, check.title),
        result,
        message: check.message.clone(),
        detail: hint.map_or_else(String::new, |hint| format!("hint: {hint}")),
    }
}
