//! `completion`: scripts for shells, and the files that kubectl runs.

mod install;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::shared::command::command;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

pub use install::shim;

/// Print a completion script, or install live completion
///
/// kubectl 1.26 and later complete `kubectl skyhook` live, with the names of custom resources, nodes, packages and
/// rules: `kubectl skyhook completion install` sets that up. The scripts are for those who call the program by its
/// own name, kubectl-skyhook; they complete the same things.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  # Complete `kubectl skyhook` wherever kubectl itself is completed
  kubectl skyhook completion install

  # Complete `kubectl-skyhook` in this shell
  source <(kubectl skyhook completion bash)
  kubectl skyhook completion fish | source
  kubectl skyhook completion powershell | Out-String | Invoke-Expression

  # In every shell
  kubectl skyhook completion bash > ~/.local/share/bash-completion/completions/kubectl-skyhook
  kubectl skyhook completion fish > ~/.config/fish/completions/kubectl-skyhook.fish
  kubectl skyhook completion elvish > ~/.config/elvish/lib/kubectl-skyhook.elv"
)]
pub struct Args {
    #[command(subcommand)]
    setup: Option<Setup>,

    /// Print the script for this shell
    ///
    /// For zsh, write it to a file _kubectl-skyhook in a directory of $fpath. For PowerShell, add it to the file that
    /// $PROFILE names.
    #[arg(value_name = "SHELL", required = true,
        value_parser = PossibleValuesParser::new(SCRIPTS.map(|(shell, _)| shell.name())))]
    shell: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Setup {
    Install(install::Install),
    Uninstall(install::Uninstall),
}

command! {
    "completion": Args => run,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    match &args.setup {
        Some(Setup::Install(args)) => return install::install(ctx, args),
        Some(Setup::Uninstall(args)) => return install::uninstall(ctx, args),
        None => {}
    }
    let (shell, _) = SCRIPTS
        .into_iter()
        .find(|(shell, _)| Some(shell.name()) == args.shell.as_deref())
        .expect("clap requires a known shell");
    ctx.print(&script(shell))?;
    Ok(Exit::Done)
}

/// The environment variable in which a completion script names its shell.
pub const ASKS: &str = "KUBECTL_SKYHOOK_COMPLETE";

/// The shells with completion scripts, each with the usual file name of its script.
pub const SCRIPTS: [(&dyn EnvCompleter, &str); 5] = [
    (&Bash, "kubectl-skyhook.bash"),
    (&Zsh, "_kubectl-skyhook"),
    (&Fish, "kubectl-skyhook.fish"),
    (&Powershell, "_kubectl-skyhook.ps1"),
    (&Elvish, "kubectl-skyhook.elv"),
];

/// The completion script of a shell. The script calls the program for candidates, so it need not change with the
/// program.
pub fn script(shell: &dyn EnvCompleter) -> String {
    let mut bytes = Vec::new();
    let name = "kubectl-skyhook";
    // Writing to memory cannot fail.
    let _ = shell.write_registration(ASKS, name, name, name, &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.trim().lines().map(str::trim_end).map(|line| format!("{line}\n")).collect()
}
