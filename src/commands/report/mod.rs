//! `report`: the state of a cluster as one HTML page.

mod chart;
mod fleet;
mod page;
mod rollouts;

use std::path::PathBuf;

use self::page::Page;
use crate::cluster::{Source, kept_logs};
use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis::Diagnosis;
use crate::commands::shared::new_file::Target;
use crate::commands::shared::selection;
use crate::commands::shared::status::StatusReport;
use crate::ctx::{Ctx, now};
use crate::error::{Error, Exit, Result};
use crate::rules::{self, Scope};
use crate::view::OutputFormat;

/// Write the state of the cluster as one HTML page, for a ticket or a meeting
///
/// The page has the verdict, each cause with evidence and remedies as in `diagnose stuck --all`, a map of all
/// nodes, the progress of each rollout with its history and estimate, package versions, and who holds which
/// cordon. What could not be read is listed below the verdict.
///
/// The file needs no network and no server: it opens from disk, follows the light or dark setting of the
/// browser, and prints. Its content security policy allows only its own style and search script, so names and
/// logs remain text.
///
/// Secrets in logs are masked as in `diagnose stuck`; names, images and messages stay: look through the page
/// before you send it. The file is written completely or not at all, with mode 0600, and its path is printed.
/// Exits with 0 if the page was written, even if it reports problems, and with 1 if the custom resources or
/// nodes could not be read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook report
  kubectl skyhook report --from ticket-4711.tar.gz --output-file ticket-4711.html
  kubectl skyhook report --title 'Rollout of driver 550' --output-file - > report.html")]
pub struct Args {
    /// The file to write, or - for standard output; by default skyhook-report-TIME.html
    ///
    /// With --contexts, the name of the context is added to the name of the file.
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,

    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,

    /// The heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Node rollout report")]
    title: String,

    /// Do not read or show the last log lines of failing containers
    #[arg(long)]
    no_logs: bool,
}

command! {
    "report": Args => run,
    needs: Scope::default().needs(),
    gets: &[("", "pods/log")],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if ctx.global().output.format != OutputFormat::Table {
        return Err(Error::usage("report writes HTML; -o is not supported")
            .hint("use --output-file FILE to choose the file")
            .hint("kubectl skyhook status -o json"));
    }
    let target = Target::of(ctx, args.path(), Some(args.force), "--output-file")?;
    let needs = Scope::default().needs();
    let cluster = ctx.load(&needs).await?;
    let report = rules::diagnose(&cluster, &Scope::default());
    let mut diagnosis = Diagnosis::new(&cluster, report.clone());
    if !args.no_logs {
        let logs = diagnosis.logs();
        let tails = ctx.tails(&cluster, &logs, kept_logs::LINES).await;
        diagnosis = diagnosis.with_logs(tails);
    }
    let page = Page {
        title: &args.title,
        cluster: &cluster,
        needs: &needs,
        diagnosis: &diagnosis,
        status: &StatusReport::new(&cluster, report, &[]),
    };
    let html = page.html();
    match target {
        Target::Stdout => ctx.print(&html)?,
        Target::File(file) => {
            file.fill(|out| {
                out.write_all(html.as_bytes())?;
                Ok(html.len() as u64)
            })?;
            ctx.print(&format!("{}\n", file.path.display()))?;
        }
    }
    Ok(selection::exit_without(&cluster, &Source::ESSENTIAL))
}

impl Args {
    fn path(&self) -> PathBuf {
        self.output_file.clone().unwrap_or_else(|| {
            let time = now().strftime("%Y%m%d-%H%M%S");
            PathBuf::from(format!("skyhook-report-{time}.html"))
        })
    }
}
