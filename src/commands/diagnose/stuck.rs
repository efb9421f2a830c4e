use crate::args::nodes;
use crate::args::nodes::NodeFlags;
use crate::cluster::Cluster;
use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis::{self, Diagnosis};
use crate::commands::shared::mutes::{self, MuteFlags, NewMutes};
use crate::commands::shared::rule::{FailOn, find_rule};
use crate::commands::shared::scope;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::rules::support::mute;
use crate::rules::{self, Finding, Report, Scope};
use crate::view::OutputFormat;

/// Find what is stuck, why, and how to fix it
///
/// Runs every rule against the cluster and prints the verdict first, then each finding with its evidence and
/// remedies, least disruptive first. If there are several causes, a table lists them with the next command of
/// each; pass the number of a cause to see it in full. Sources that could not be read are listed, and the
/// verdict shows how many rules could not run.
///
/// For a package that fails or hangs, it shows how the container ended and its last log lines, with secrets
/// masked. Logs that do not arrive within a second are left out. With --from, logs are available only from a
/// file written by `collect`.
///
/// Exits with 2 if there is a finding at or above --fail-on; otherwise with 1 if the cluster did not return
/// data that a rule needs, or if the capture contains no custom resources, no nodes, or no data that the
/// selected rules need.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  # What is stuck, and how to fix it
  kubectl skyhook diagnose stuck

  # The second of many causes in full
  kubectl skyhook diagnose stuck 2

  # One custom resource, one node
  kubectl skyhook diagnose stuck gpu-tune --node gpu-0001

  # In CI: fail only on findings that were not there before the change
  kubectl skyhook diagnose stuck --write-mutes known.yaml
  kubectl skyhook diagnose stuck --mutes known.yaml

  # Causes with the commands that help, for a script
  kubectl skyhook diagnose stuck -o json | jq -r '.causes[] | \"\\(.code) \\(.remedies[].command)\"'

  # From files, without a cluster
  kubectl get nodes,skyhooks,pods,jobs,events -A -o json | kubectl skyhook diagnose stuck --from -")]
pub struct Args {
    /// Only these custom resources and nodes; or the number of a cause, to show it in full
    ///
    /// Write skyhook/N for a custom resource named N.
    #[arg(value_name = "NAME|N", value_parser = Subject::parse)]
    names: Vec<Subject>,

    #[command(flatten)]
    on: NodeFlags,

    /// Run only this rule, by code or name; may be repeated
    #[arg(long, value_name = "CODE")]
    rule: Vec<String>,

    /// Show every finding with its evidence and remedies, including those that are effects of others
    #[arg(long)]
    all: bool,

    /// Do not read or show the last log lines of failing containers
    #[arg(long)]
    no_logs: bool,

    /// Minimum severity of findings that cause exit code 2
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error, ignore_case = true)]
    fail_on: FailOn,

    #[command(flatten)]
    muting: MuteFlags,

    #[command(flatten)]
    new_mutes: NewMutes,

    /// Whether a node has its own page, as without `stuck`.
    #[arg(skip)]
    bare: bool,
}

command! {
    "diagnose stuck": Args => run,
    needs: Scope::default().needs(),
    gets: &[("", "pods/log")],
    prints: { "Diagnosis": diagnosis::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let new_mutes = args.new_mutes.target(ctx)?;
    let rules = args.rule.iter().map(|rule| find_rule(rule)).collect::<Result<Vec<_>>>()?;
    let cluster = ctx.load(&Scope { rules: rules.clone(), ..Scope::default() }.needs()).await?;
    let subjects = args.subjects(&cluster)?;
    let mut scope = scope::of(&cluster, &subjects.skyhooks, &args.on, rules)?;
    scope.nodes.extend(subjects.nodes.iter().cloned());
    let muting = args.muting.load(ctx, &cluster)?;
    if let ([], [name], None) = (&*subjects.skyhooks, &*subjects.nodes, subjects.cause)
        && let Some(node) =
            cluster.node(name).filter(|_| args.bare && args.asks_for_page(&ctx.global().output.format))
    {
        return super::node::show(ctx, &cluster, node, &muting);
    }
    let nodes = scope.nodes.clone();
    let report = rules::diagnose(&cluster, &scope).mute(&cluster, &muting.mutes);
    let exit = muting.exit(exit(args.fail_on, &report, &cluster));
    if let Some(file) = &new_mutes {
        let known = |finding: &Finding| args.fail_on.includes(finding.severity);
        mutes::write(ctx, file, &mute::mutes_of(&cluster, &report.findings, known))?;
    }
    let mut diagnosis = Diagnosis::new(&cluster, report)
        .on_nodes(&nodes)
        .narrowed(args.scope_arguments(&subjects))
        .only(subjects.cause)?;
    if !args.no_logs {
        let tails = ctx.tails(&cluster, &diagnosis.logs(), crate::cluster::attempts::LINES).await;
        diagnosis = diagnosis.with_logs(tails);
    }
    ctx.show(&diagnosis.unfolded(args.all))?;
    Ok(exit)
}

impl Args {
    /// Whether the page of a node, which has no rules, thresholds, mutes or reports, answers.
    fn asks_for_page(&self, format: &OutputFormat) -> bool {
        let reports = matches!(format, OutputFormat::Junit | OutputFormat::OpenMetrics(_));
        let is_default = self.rule.is_empty() && !self.all && self.fail_on == FailOn::Error;
        is_default && !self.new_mutes.wanted() && !reports
    }
}

/// A positional argument.
#[derive(Debug, Clone)]
enum Subject {
    /// A custom resource or a node: `gpu-tune`.
    Any(String),
    /// A custom resource: `skyhook/2`.
    Skyhook(String),
    /// The number of a cause: `2`.
    Cause(usize),
}

impl Subject {
    fn parse(text: &str) -> std::result::Result<Subject, String> {
        match text.parse() {
            Ok(number) => Ok(Subject::Cause(number)),
            Err(_) if text.contains('/') => nodes::skyhook(text).map(Subject::Skyhook),
            Err(_) => nodes::skyhook(text).map(Subject::Any),
        }
    }
}

/// The objects or the cause selected by positional arguments.
#[derive(Default)]
struct Subjects {
    skyhooks: Vec<String>,
    nodes: Vec<String>,
    /// The number of a cause.
    cause: Option<usize>,
}

impl Args {
    /// The arguments of `diagnose` without `stuck`.
    pub fn bare(&self) -> Args {
        Args { bare: true, ..self.clone() }
    }

    /// Resolves the positional arguments. A name is a custom resource, else a node.
    fn subjects(&self, cluster: &Cluster) -> Result<Subjects> {
        let mut subjects = Subjects::default();
        for (at, subject) in self.names.iter().enumerate() {
            match subject {
                Subject::Cause(number) if at + 1 == self.names.len() => subjects.cause = Some(*number),
                Subject::Cause(number) => {
                    return Err(Error::usage(format!(
                        "{number}: the number of a cause comes after all names"
                    )));
                }
                Subject::Any(name) if cluster.skyhook(name).is_none() && cluster.node(name).is_some() => {
                    subjects.nodes.push(name.clone());
                }
                Subject::Any(name) | Subject::Skyhook(name) => subjects.skyhooks.push(name.clone()),
            }
        }
        Ok(subjects)
    }

    /// The arguments that limit the diagnosis, without the number of a cause.
    fn scope_arguments(&self, subjects: &Subjects) -> Vec<String> {
        // A number is that of a cause.
        let is_number = |name: &str| name.parse::<usize>().is_ok();
        let skyhooks = subjects.skyhooks.iter();
        let skyhooks = skyhooks.map(|n| if is_number(n) { format!("skyhook/{n}") } else { n.clone() });
        let names = skyhooks.chain(subjects.nodes.iter().cloned());
        let flag = |flag: &str, value: String| [flag.to_owned(), value];
        let nodes = self.on.node.iter().flat_map(|node| flag("--node", node.to_string()));
        let pattern = self.on.pattern_text().into_iter().flat_map(|regex| flag("--match", regex.to_owned()));
        let rules = self.rule.iter().flat_map(|rule| flag("--rule", rule.clone()));
        names.chain(nodes).chain(pattern).chain(rules).collect()
    }
}

/// The exit code of a diagnosis. Findings at the threshold fail. A missing source fails too, so that scripts do not read
/// the result as "nothing stuck".
fn exit(fail_on: FailOn, report: &Report, cluster: &Cluster) -> Exit {
    if fail_on == FailOn::Never {
        return Exit::Done;
    }
    let mut unchecked =
        report.not_checked.iter().flat_map(|n| n.rule.needs.iter().chain(n.rule.optional_sources));
    let nothing_checked = report.not_checked.len() == report.counts.rules;
    if report.findings.iter().any(|finding| fail_on.includes(finding.severity)) {
        Exit::Findings
    } else if nothing_checked || unchecked.any(|s| cluster.missing(*s).is_some()) {
        Exit::Failed
    } else {
        Exit::Done
    }
}
