mod junit;
mod report;

use std::path::PathBuf;

use self::report::LintView;
use crate::api::Version;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::fail_on::FailOn;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::lint::{self, Documents, Input, files};

/// Check manifests before they are applied
///
/// Finds what the API server, the webhook or the operator would refuse (errors), and what they accept but hurts
/// (warnings). Objects of other kinds are skipped.
///
/// The manifests are checked against the cluster of the kubeconfig, or a capture with --from. Without a kubeconfig or
/// with --offline, checks that require a cluster are skipped.
///
/// A comment suppresses a finding in the field below or beside it: `# kubectl-skyhook: allow SKY840 reason`.
///
/// Exits with 2 if there is a finding at or above --fail-on, otherwise with 1 if the cluster could not be read.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook lint -f gpu-tune.yaml

  # A Helm chart or a Kustomize directory, without a cluster
  helm template CHART | kubectl skyhook lint --offline -f -
  kubectl kustomize DIRECTORY | kubectl skyhook lint --offline -f -

  # In CI: a JUnit report, and exit code 2 for warnings, too
  kubectl skyhook lint --offline -f deploy/ --fail-on warning -o junit > lint.xml")]
pub struct Args {
    /// Files, directories, or - for standard input; may be repeated
    ///
    /// Directories are read recursively: all .yaml, .yml and .json files.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,

    /// Do not connect to a cluster
    #[arg(long, conflicts_with = "from")]
    offline: bool,

    /// The version of the operator, such as v0.17.0; default: that of the cluster
    #[arg(long, value_name = "VERSION", value_parser = version)]
    operator_version: Option<Version>,

    /// Minimum severity of findings that cause exit code 2
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error, ignore_case = true)]
    fail_on: FailOn,
}

/// The sources that rules may use.
const NEEDS: [Source; 10] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Pods,
    Source::Workloads,
    Source::Jobs,
    Source::DisruptionBudgets,
    Source::Operator,
    Source::ConfigMaps,
];

command! {
    "lint": Args => run,
    needs: NEEDS,
    prints: { "Lint": report::Document },
}

fn version(text: &str) -> std::result::Result<Version, String> {
    Version::parse(text).ok_or_else(|| "expected a version such as v0.17.0".to_owned())
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let documents = Documents::parse(&files::read(&args.files)?);
    let (cluster, unread) = cluster(ctx, args.offline).await?;
    let input = Input::new(documents, cluster.as_ref(), args.operator_version.clone());
    let report = lint::lint(&input);
    let failed = report.open().any(|f| args.fail_on.includes(f.severity));
    ctx.show(&LintView::new(&report, cluster.as_ref()))?;
    Ok(match (failed, unread) {
        (true, _) => Exit::Findings,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

/// The cluster to check against, and whether it should have been read but could not.
async fn cluster(ctx: &mut Ctx, offline: bool) -> Result<(Option<Cluster>, bool)> {
    if offline {
        return Ok((None, false));
    }
    match ctx.load_if_configured(&NEEDS).await {
        Ok(cluster) => Ok((cluster, false)),
        // A capture was named explicitly.
        Err(error) if !ctx.global().reading.from.is_empty() => Err(error),
        Err(error) => {
            ctx.warn(format!(
                "checking without a cluster: {}; --offline skips the cluster",
                error.message
            ));
            Ok((None, true))
        }
    }
}
