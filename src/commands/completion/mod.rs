//! `completion`: scripts for shells, and the files that kubectl runs.

mod install;
mod shell;

pub use install::shim;
pub use shell::{ASKS, SCRIPTS, script};

use clap::{Subcommand, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::commands::shared::command::command;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

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
    #[arg(value_name = "SHELL", value_enum, required = true)]
    shell: Option<Shell>,
}

#[derive(Debug, Subcommand)]
enum Setup {
    Install(install::Install),
    Uninstall(install::Uninstall),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
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
    let shell: &dyn EnvCompleter = match args.shell.expect("clap requires a shell") {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Elvish => &Elvish,
    };
    ctx.print(&script(shell))?;
    Ok(Exit::Done)
}
